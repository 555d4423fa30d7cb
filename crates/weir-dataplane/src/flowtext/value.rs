//! Numbers, addresses and masks as people write them.
//!
//! Room: text to numbers. Stricter than C's `strtol` where it would guess: no leading zeros (octal
//! or decimal?), nothing that is silently cut to the field's width.

use super::error::FlowErrorKind;
use std::net::{Ipv4Addr, Ipv6Addr};
use weir_classify::{Form, ones};

type Value<T> = Result<T, FlowErrorKind>;

const NUMBER: &str = "a number (decimal without leading zeros, or 0x...)";
const MAC: &str = "an Ethernet address such as 02:00:00:00:00:01";
const IPV4: &str = "an IPv4 address such as 192.0.2.1";
const IPV6: &str = "an IPv6 address such as 2001:db8::1";

/// A number from 0 to `max`.
#[inline]
pub(super) fn number(s: &str, max: u64) -> Value<u64> {
    let bad = FlowErrorKind::BadValue { expected: NUMBER };
    let (digits, radix) = match s.strip_prefix("0x").or_else(|| s.strip_prefix("0X")) {
        Some(hex) => (hex, 16u64),
        None => (s, 10),
    };
    if digits.is_empty() || radix == 10 && digits.len() > 1 && digits.starts_with('0') {
        return Err(bad);
    }
    let mut n = Some(0u64);
    for b in digits.bytes() {
        let Some(d) = char::from(b).to_digit(radix as u32) else { return Err(bad) };
        n = n.and_then(|n| n.checked_mul(radix)?.checked_add(u64::from(d)));
    }
    match n {
        Some(n) if n <= max => Ok(n),
        _ => Err(FlowErrorKind::TooLarge { max }),
    }
}

/// Six octets in hexadecimal, one or two digits each.
#[inline]
pub(super) fn mac(s: &str) -> Value<u64> {
    let bad = FlowErrorKind::BadValue { expected: MAC };
    let (mut out, mut octet, mut digits, mut octets) = (0u64, 0u64, 0u32, 1u32);
    for b in s.bytes() {
        if b == b':' {
            if digits == 0 || octets == 6 {
                return Err(bad);
            }
            out = out << 8 | octet;
            (octet, digits, octets) = (0, 0, octets + 1);
        } else {
            let Some(d) = char::from(b).to_digit(16) else { return Err(bad) };
            digits += 1;
            if digits > 2 {
                return Err(bad);
            }
            octet = octet << 4 | u64::from(d);
        }
    }
    if octets != 6 || digits == 0 {
        return Err(bad);
    }
    Ok(out << 8 | octet)
}

/// An IPv4 address.
pub(super) fn ipv4(s: &str) -> Value<Ipv4Addr> {
    s.parse().map_err(|_| FlowErrorKind::BadValue { expected: IPV4 })
}

/// An IPv6 address.
pub(super) fn ipv6(s: &str) -> Value<Ipv6Addr> {
    s.parse().map_err(|_| FlowErrorKind::BadValue { expected: IPV6 })
}

fn prefix(s: &str, width: u32) -> Value<u128> {
    const WHY: &str = "a prefix is no longer than the address (0 to 32, or 0 to 128)";
    let n = match number(s, u64::from(width)) {
        Ok(n) => n as u32,
        Err(FlowErrorKind::TooLarge { .. }) => return Err(FlowErrorKind::BadMask { why: WHY }),
        Err(e) => return Err(e),
    };
    Ok(ones(width) & !ones(width.saturating_sub(n)))
}

/// A value of a field and its mask, if it is written with one. `*` is a mask of zero.
#[inline]
pub(super) fn masked(s: &str, form: Form, width: u32) -> Value<(u128, Option<u128>)> {
    let (v, m) = match s.split_once('/') {
        Some((v, m)) => (v, Some(m)),
        None if s == "*" => return Ok((0, Some(0))),
        None => (s, None),
    };
    let one = |s: &str| match form {
        Form::Number => number(s, ones(width.min(64)) as u64).map(u128::from),
        Form::Mac => mac(s).map(u128::from),
        Form::Ipv4 => ipv4(s).map(|a| u128::from(a.to_bits())),
        Form::Ipv6 => ipv6(s).map(|a| a.to_bits()),
    };
    let value = one(v)?;
    let Some(m) = m else { return Ok((value, None)) };
    let mask = match form {
        Form::Ipv4 if !m.contains('.') => prefix(m, 32)?,
        Form::Ipv6 if !m.contains(':') => prefix(m, 128)?,
        _ => match one(m) {
            Err(FlowErrorKind::TooLarge { .. }) => {
                return Err(FlowErrorKind::BadMask { why: "it has bits that the field has not" });
            }
            other => other?,
        },
    };
    Ok((value & mask, Some(mask)))
}

/// Names of the TCP flags from bit 0 (RFC 9293, §3.1; RFC 3540 for NS; the rest unassigned).
pub(super) const TCP_FLAGS: [&str; 12] =
    ["fin", "syn", "rst", "psh", "ack", "urg", "ece", "cwr", "ns", "[200]", "[400]", "[800]"];

/// TCP flags: a number with or without a mask, `syn|ack` for exactly these, or `+syn-ack` for
/// these set and those clear.
pub(super) fn tcp_flags(s: &str) -> Value<(u128, Option<u128>)> {
    let bad = FlowErrorKind::BadValue {
        expected: "TCP flags such as +syn-ack, syn|ack or 0x012/0x012 (fin syn rst psh ack urg ece cwr ns)",
    };
    let bit = |name: &str| TCP_FLAGS.iter().position(|f| *f == name).map(|i| 1u128 << i);
    if s.starts_with(|c: char| c.is_ascii_digit() || c == '*') {
        return masked(s, Form::Number, 12);
    }
    let (mut value, mut mask) = (0, 0);
    if s.starts_with(['+', '-']) {
        let mut rest = s;
        while !rest.is_empty() {
            let set = rest.starts_with('+');
            let Some(after) = rest.strip_prefix(['+', '-']) else { return Err(bad) };
            let end = after.find(['+', '-']).unwrap_or(after.len());
            let (name, tail) = after.split_at(end);
            let Some(b) = bit(name) else { return Err(bad) };
            if mask & b != 0 {
                return Err(FlowErrorKind::BadMask { why: "a flag is given twice" });
            }
            mask |= b;
            value |= if set { b } else { 0 };
            rest = tail;
        }
        return Ok((value, Some(mask)));
    }
    for name in s.split('|') {
        let Some(b) = bit(name) else { return Err(bad) };
        value |= b;
    }
    Ok((value, None))
}

/// `no`, `yes`, `first`, `later`, `not_later`, or bits with or without a mask.
pub(super) fn fragment(s: &str) -> Value<(u128, u128)> {
    Ok(match s {
        "no" => (0, 3),
        "yes" => (1, 1),
        "first" => (1, 3),
        "later" => (3, 3),
        "not_later" => (0, 2),
        _ => match masked(s, Form::Number, 2) {
            Ok((v, m)) => (v, m.unwrap_or(3)),
            Err(_) => {
                let expected = "one of no, yes, first, later, not_later";
                return Err(FlowErrorKind::BadValue { expected });
            }
        },
    })
}
