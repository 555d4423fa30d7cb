//! The part of BER (X.690) that SNMP uses: definite lengths, a few types. Bounded by the datagram.
//!
//! Room: bytes. Part of `snmp`.

/// An object identifier.
pub(super) type Oid = Vec<u32>;

pub(super) const INTEGER: u8 = 0x02;
pub(super) const OCTETS: u8 = 0x04;
pub(super) const OID: u8 = 0x06;
pub(super) const SEQUENCE: u8 = 0x30;

/// Parts of an identifier that are read.
const OID_MAX: usize = 128;

/// Takes one element off the front: its tag and contents. `None`: it is not whole.
pub(super) fn take<'a>(bytes: &mut &'a [u8]) -> Option<(u8, &'a [u8])> {
    let (&tag, rest) = bytes.split_first()?;
    let (&first, mut rest) = rest.split_first()?;
    let length = if first < 0x80 {
        usize::from(first)
    } else {
        let (long, more) =
            rest.split_at_checked(usize::from(first & 0x7f)).filter(|(l, _)| l.len() <= 4)?;
        rest = more;
        long.iter().fold(0, |n, b| n << 8 | usize::from(*b))
    };
    let (contents, rest) = rest.split_at_checked(length)?;
    *bytes = rest;
    Some((tag, contents))
}

/// Takes an element of this tag.
pub(super) fn expect<'a>(bytes: &mut &'a [u8], tag: u8) -> Option<&'a [u8]> {
    take(bytes).filter(|(t, _)| *t == tag).map(|(_, contents)| contents)
}

/// Takes an integer of up to four bytes, as SNMP's are.
pub(super) fn integer(bytes: &mut &[u8]) -> Option<i32> {
    let contents = expect(bytes, INTEGER)?;
    let first = *contents.first().filter(|_| contents.len() <= 4)?;
    let sign = if first & 0x80 == 0 { 0 } else { -1 };
    Some(contents.iter().fold(sign, |n: i32, b| n << 8 | i32::from(*b)))
}

/// Takes an object identifier.
pub(super) fn oid(bytes: &mut &[u8]) -> Option<Oid> {
    let contents = expect(bytes, OID)?;
    let mut parts = Vec::new();
    let mut part = 0u32;
    for b in contents {
        part = part.checked_mul(128)? | u32::from(b & 0x7f);
        if b & 0x80 == 0 {
            if parts.is_empty() {
                let first = (part / 40).min(2);
                parts.extend([first, part - 40 * first]);
            } else {
                parts.push(part);
            }
            part = 0;
        }
        if parts.len() > OID_MAX {
            return None;
        }
    }
    Some(parts)
}

/// Appends an element.
pub(super) fn put(out: &mut Vec<u8>, tag: u8, contents: &[u8]) {
    out.push(tag);
    match contents.len() {
        n @ ..0x80 => out.push(n as u8),
        n => out.extend([0x82, (n >> 8) as u8, n as u8]),
    }
    out.extend(contents);
}

/// Appends a number of a type: the fewest bytes that keep its sign.
pub(super) fn put_number(out: &mut Vec<u8>, tag: u8, n: i128) {
    let bytes = n.to_be_bytes();
    let spare = |i: &usize| {
        let (here, next) = (bytes[*i], bytes[*i + 1] & 0x80);
        (here == 0 && next == 0) || (here == 0xff && next != 0)
    };
    let from = (0..bytes.len() - 1).take_while(spare).count();
    put(out, tag, &bytes[from..]);
}

/// Appends an object identifier.
pub(super) fn put_oid(out: &mut Vec<u8>, oid: &[u32]) {
    let mut contents = Vec::new();
    let (first, rest) = match oid {
        [a, b, rest @ ..] => (40 * a + b, rest),
        _ => (0, &[][..]),
    };
    for part in std::iter::once(&first).chain(rest) {
        let digits = (32 - part.leading_zeros()).div_ceil(7).max(1);
        for i in (0..digits).rev() {
            let more = if i > 0 { 0x80 } else { 0 };
            contents.push((part >> (7 * i) & 0x7f) as u8 | more);
        }
    }
    put(out, OID, &contents);
}
