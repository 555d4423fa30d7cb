//! The part of a flow in front of its actions: attributes and match.
//!
//! Room: text to `FlowSpec` without actions. Values and masks are collected as they come, what they
//! presuppose is checked at the end, so that the order of fields is free.

use super::error::{At, Fault, FlowErrorKind, Parse};
use super::token::Pairs;
use super::value::{fragment, masked, number, tcp_flags};
use super::words::{Reserved, Term, WORDS, port, term, unknown};
use super::{FlowSpec, LOCAL_PORT, Names};
use weir_classify::{FRAG_LATER, Field, FlowKey, FlowMask, Form, Match, Prereq, VLAN_PRESENT};

/// A match under construction.
#[derive(Default)]
struct Building {
    value: FlowKey,
    mask: FlowMask,
    /// Fields that were named, one bit each.
    named: u64,
    /// Protocols that the names of fields told, as a bit per name in [`WORDS`].
    of: u64,
    nw_proto: Option<(u128, u128)>,
}

const fn bit(f: Field) -> u64 {
    1 << (f as u8 & 63)
}

const _: () = assert!(Field::ALL.len() <= 64 && WORDS.len() <= 64);

impl Building {
    /// Demands `v` under `mask` of `f`, unless that contradicts what is demanded already.
    #[inline]
    fn demand(&mut self, f: Field, v: u128, mask: u128) -> Result<(), FlowErrorKind> {
        let before = self.mask.get(f);
        if before != 0 && (self.value.get(f) ^ v) & before & mask != 0 {
            return Err(FlowErrorKind::Contradicts);
        }
        let value = if before == 0 { v & mask } else { self.value.get(f) | v & mask };
        self.value.set(f, value);
        self.mask.set(f, before | mask);
        Ok(())
    }
    /// The same for a field that the text names; not twice.
    #[inline]
    fn name(&mut self, f: Field, v: u128, mask: u128) -> Result<(), FlowErrorKind> {
        if self.named & bit(f) != 0 {
            return Err(FlowErrorKind::Twice);
        }
        self.named |= bit(f);
        self.demand(f, v, mask)
    }
}

/// Reads attributes and match; also what follows `actions=`, if that is there.
pub(super) fn parse_head<'a>(
    text: &'a str,
    names: &dyn Names,
) -> Parse<'a, (FlowSpec, Option<&'a str>)> {
    let mut spec = FlowSpec::default();
    let mut b = Building::default();
    let mut attributes = 0u64;
    let mut pairs = Pairs::new(text);
    let mut rest = None;
    while let Some(key) = pairs.key()? {
        let Some(term) = term(key, names) else { return Err(Fault::new(key, unknown(key))) };
        if term == Term::Actions {
            rest = pairs.remainder();
            if rest.is_none() {
                return Err(Fault::new(key, FlowErrorKind::NoActions));
            }
            break;
        }
        let value = pairs.value()?;
        let id = match term {
            Term::Table => 1,
            Term::Priority => 2,
            Term::Cookie => 4,
            Term::IdleTimeout => 8,
            Term::HardTimeout => 16,
            Term::Flag(f) => {
                flag(value).at(value.unwrap_or(key))?;
                spec.flags = spec.flags.with(f);
                continue;
            }
            Term::Statistic => continue,
            _ => {
                match_term(&mut b, term, value, names).at(value.unwrap_or(key))?;
                if let Term::Of(..) = term {
                    b.of |= word_bit(key);
                }
                continue;
            }
        };
        if attributes & id != 0 {
            return Err(Fault::new(key, FlowErrorKind::Twice));
        }
        attributes |= id;
        attribute(&mut spec, term, value).at(value.unwrap_or(key))?;
    }
    spec.matcher = finish(b, text, names)?;
    Ok((spec, rest))
}

/// Reads a match without attributes and actions.
pub(super) fn parse_match<'a>(text: &'a str, names: &dyn Names) -> Parse<'a, Match> {
    let mut b = Building::default();
    let mut pairs = Pairs::new(text);
    while let Some(key) = pairs.key()? {
        let Some(term) = term(key, names) else { return Err(Fault::new(key, unknown(key))) };
        let value = pairs.value()?;
        match_term(&mut b, term, value, names).at(value.unwrap_or(key))?;
        if let Term::Of(..) = term {
            b.of |= word_bit(key);
        }
    }
    finish(b, text, names)
}

fn word_bit(key: &str) -> u64 {
    WORDS.iter().position(|(w, _)| *w == key).map_or(0, |i| 1 << (i & 63))
}

fn flag(value: Option<&str>) -> Result<(), FlowErrorKind> {
    value.map_or(Ok(()), |_| Err(FlowErrorKind::UnexpectedValue))
}

const A_NUMBER: FlowErrorKind = FlowErrorKind::MissingValue { expected: "write NAME=NUMBER" };
const A_VALUE: FlowErrorKind =
    FlowErrorKind::MissingValue { expected: "write FIELD=VALUE or FIELD=VALUE/MASK" };

fn attribute(spec: &mut FlowSpec, term: Term, value: Option<&str>) -> Result<(), FlowErrorKind> {
    let v = value.ok_or(A_NUMBER)?;
    match term {
        Term::Table => spec.table = number(v, 254)? as u8,
        Term::Priority => spec.priority = number(v, 0xffff)? as u16,
        Term::Cookie if v.contains('/') => {
            return Err(FlowErrorKind::BadMask { why: "a new flow's cookie has none" });
        }
        Term::Cookie => spec.cookie = number(v, u64::MAX)?,
        Term::IdleTimeout => spec.idle_timeout = number(v, 0xffff)? as u16,
        _ => spec.hard_timeout = number(v, 0xffff)? as u16,
    }
    Ok(())
}

/// Refuses a mask on a value that is more than bits.
fn exact(v: (u128, Option<u128>), why: &'static str) -> Result<u128, FlowErrorKind> {
    match v {
        (v, None) => Ok(v),
        _ => Err(FlowErrorKind::BadMask { why }),
    }
}

#[inline]
fn match_term(
    b: &mut Building,
    term: Term,
    value: Option<&str>,
    names: &dyn Names,
) -> Result<(), FlowErrorKind> {
    const VLAN_FORM: &str = "write vlan_tci=VALUE/MASK, with 0x1000 for a tag's presence";
    const TOS_FORM: &str = "write ip_dscp=VALUE/MASK";
    let present = u128::from(VLAN_PRESENT);
    let given = || value.filter(|v| !v.is_empty()).ok_or(A_VALUE);
    match term {
        Term::Keyword(ethertype, proto) => {
            flag(value)?;
            b.demand(Field::EthType, ethertype.into(), Field::EthType.full())?;
            if let Some(p) = proto {
                b.demand(Field::IpProto, p.into(), Field::IpProto.full())?;
            }
            Ok(())
        }
        Term::Plain(f) => {
            let i = f.info();
            let width = if matches!(f, Field::IcmpType | Field::IcmpCode) { 8 } else { i.width };
            let (v, m) = masked(given()?, i.form, width)?;
            b.name(f, v, m.unwrap_or(f.full()))
        }
        Term::Of(f, _) => match_term(b, Term::Plain(f), value, names),
        Term::InPort => {
            let v = given()?;
            if v.contains('/') || v == "*" {
                return match_term(b, Term::Plain(Field::InPort), value, names);
            }
            let p = match port(v, names)? {
                Reserved::No(p) => p,
                Reserved::Local => LOCAL_PORT,
                _ => return Err(FlowErrorKind::UnknownPort),
            };
            b.name(Field::InPort, p.0.into(), Field::InPort.full())
        }
        Term::DlVlan => {
            let v = given()?;
            let v = match v {
                "*" => return b.name(Field::VlanVid, 0, 0),
                "0xffff" | "65535" => return b.name(Field::VlanVid, 0, Field::VlanVid.full()),
                _ => exact(masked(v, Form::Number, 12)?, VLAN_FORM)?,
            };
            b.name(Field::VlanVid, v | present, Field::VlanVid.full())
        }
        Term::VlanPcp => {
            let v = given()?;
            if v == "*" {
                return b.name(Field::VlanPcp, 0, 0);
            }
            let v = exact(masked(v, Form::Number, 3)?, VLAN_FORM)?;
            b.name(Field::VlanPcp, v, Field::VlanPcp.full())?;
            b.demand(Field::VlanVid, present, present)
        }
        Term::NwTos => {
            let v = given()?;
            if v == "*" {
                return b.name(Field::IpDscp, 0, 0);
            }
            let v = exact(masked(v, Form::Number, 8)?, TOS_FORM)?;
            b.name(Field::IpDscp, v >> 2, Field::IpDscp.full())
        }
        Term::NwProto => {
            let (v, m) = masked(given()?, Form::Number, 8)?;
            let old = b.nw_proto.replace((v, m.unwrap_or(Field::IpProto.full())));
            old.map_or(Ok(()), |_| Err(FlowErrorKind::Twice))
        }
        Term::Fragment => {
            let v = given()?;
            let (v, m) = if v == "*" { (0, 0) } else { fragment(v)? };
            b.name(Field::IpFrag, v, m)
        }
        Term::TcpFlags => {
            let (v, m) = tcp_flags(given()?)?;
            b.name(Field::TcpFlags, v, m.unwrap_or(0xfff))
        }
        Term::User(f, width) => {
            let (v, m) = masked(given()?, Form::Number, width)?;
            b.name(f, v, m.unwrap_or(weir_classify::ones(width)))
        }
        Term::Refused(what, instead) => Err(FlowErrorKind::Refused { what, instead }),
        Term::Actions
        | Term::Table
        | Term::Priority
        | Term::Cookie
        | Term::IdleTimeout
        | Term::HardTimeout
        | Term::Flag(_)
        | Term::Statistic => Err(FlowErrorKind::Refused {
            what: "this belongs to a flow, not to a match",
            instead: "leave it out",
        }),
    }
}

/// Checks what the fields presuppose, and brings what can be said in several ways into one form.
fn finish<'a>(mut b: Building, text: &'a str, names: &dyn Names) -> Parse<'a, Match> {
    if let Some((v, m)) = b.nw_proto.take() {
        // ARP's opcode goes by this name too, as it did in OpenFlow 1.0.
        let f = if Prereq::Arp.holds(&b.value, &b.mask) { Field::ArpOp } else { Field::IpProto };
        let m = if f == Field::ArpOp && m == 0xff { f.full() } else { m };
        b.name(f, v, m)
            .map_err(|kind| Fault::new(find(text, |t| t == Term::NwProto, names), kind))?;
    }
    for f in [Field::VlanTci, Field::InnerTci] {
        let (v, m) = (b.value.get(f), b.mask.get(f));
        let p = u128::from(VLAN_PRESENT);
        if m & p == 0 || v & p != 0 {
            continue;
        }
        if v != 0 {
            const WHY: &str = "a tag's id has the bit 0x1000 above it; \
                               write dl_vlan=5, vlan_vid=0x1005 or vlan_tci=0x1005/0x1fff";
            let at = |t| match t {
                Term::Plain(g) => f == g || f == Field::VlanTci && g == Field::VlanVid,
                Term::DlVlan => f == Field::VlanTci,
                _ => false,
            };
            return Err(Fault::new(find(text, at, names), FlowErrorKind::Impossible { why: WHY }));
        }
        // Without a tag the rest is zero anyway: one form for "no tag".
        b.mask.set(f, 0x1fff);
    }
    for (i, f) in [Field::User0, Field::User1, Field::User2, Field::User3].into_iter().enumerate() {
        if b.mask.looks_at(f) {
            let there = 1 << i;
            b.demand(Field::UserPresent, there, there)
                .map_err(|kind| Fault::new(find(text, |t| is_field(t, f), names), kind))?;
        }
    }
    check(&b, text, names)?;
    Ok(Match::new(b.value, b.mask))
}

fn check<'a>(b: &Building, text: &'a str, names: &dyn Names) -> Parse<'a, ()> {
    let mut named = b.named;
    while named != 0 {
        let i = named.trailing_zeros() as usize;
        named &= named - 1;
        let Some(&f) = Field::ALL.get(i) else { continue };
        let needs = f.info().prereq;
        if needs == Prereq::None || !b.mask.looks_at(f) {
            continue;
        }
        if needs_transport(needs) && b.value.get(Field::IpFrag) & u128::from(FRAG_LATER) != 0 {
            let at = find(text, |t| is_field(t, f), names);
            return Err(Fault::new(at, FlowErrorKind::Impossible { why: LATER }));
        }
        if needs.holds(&b.value, &b.mask) {
            continue;
        }
        // The names of OpenFlow 1.0 mean ARP's and ICMP's fields too.
        let other = match f {
            Field::Ipv4Src | Field::Ipv4Dst => Prereq::Arp,
            Field::TpSrc | Field::TpDst => Prereq::Icmp,
            _ => needs,
        };
        let fits = other != Prereq::Icmp || b.value.get(f) <= 0xff;
        if !(fits && other.holds(&b.value, &b.mask)) {
            let kind = FlowErrorKind::Prereq { field: f, needs };
            return Err(Fault::new(find(text, |t| is_field(t, f), names), kind));
        }
    }
    if b.of != 0 {
        for (i, (word, t)) in WORDS.iter().enumerate() {
            if let Term::Of(f, proto) = *t
                && b.of >> i & 1 != 0
                && b.value.get(Field::IpProto) != u128::from(proto)
            {
                let what = "its name tells another protocol than the match";
                let instead = "write tp_src, tp_dst, icmp_type or icmp_code, or mend the protocol";
                let kind = if b.mask.get(Field::IpProto) == 0 {
                    FlowErrorKind::Prereq { field: f, needs: f.info().prereq }
                } else {
                    FlowErrorKind::Refused { what, instead }
                };
                let at = find_word(text, |w| w == *word);
                return Err(Fault::new(at, kind));
            }
        }
    }
    Ok(())
}

/// Why a later fragment has no port.
pub(super) const LATER: &str = "a later fragment has no transport header; leave out nw_frag=later";

/// Whether what presupposes this lies behind the IP header.
pub(super) const fn needs_transport(p: Prereq) -> bool {
    matches!(
        p,
        Prereq::L4 | Prereq::Tcp | Prereq::Icmp | Prereq::Nd | Prereq::NdSolicit | Prereq::NdAdvert
    )
}

fn is_field(t: Term, f: Field) -> bool {
    match t {
        Term::Plain(g) | Term::Of(g, _) | Term::User(g, _) => f == g,
        Term::VlanPcp => f == Field::VlanPcp,
        Term::NwTos => f == Field::IpDscp,
        Term::NwProto => f == Field::IpProto,
        Term::Fragment => f == Field::IpFrag,
        Term::TcpFlags => f == Field::TcpFlags,
        _ => false,
    }
}

/// The word that `wanted` asks for: errors that show up at the end look for their place again.
#[cold]
fn find<'a>(text: &'a str, wanted: impl Fn(Term) -> bool, names: &dyn Names) -> &'a str {
    find_word(text, |w| term(w, names).is_some_and(&wanted))
}

#[cold]
fn find_word(text: &str, wanted: impl Fn(&str) -> bool) -> &str {
    let mut pairs = Pairs::new(text);
    while let Ok(Some(key)) = pairs.key() {
        if wanted(key) {
            return key;
        }
        if pairs.value().is_err() {
            break;
        }
    }
    text
}
