//! The part of a flow in front of its actions: attributes and match.
//!
//! Room: text to `FlowSpec` without actions. Values and masks are collected as they come, what they
//! presuppose is checked at the end, so that the order of fields is free.

use super::error::{At, Fault, FlowErrorKind, Parse, nearest};
use super::token::Pairs;
use super::value::{fragment, masked, number, tcp_flags};
use super::{FlowFlags, FlowSpec, LOCAL_PORT, Names};
use crate::action::PortNo;
use weir_classify::{FRAG_LATER, Field, FlowKey, FlowMask, Form, Match, Prereq, VLAN_PRESENT};

/// What a word in front of `actions=` means.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Term {
    Actions,
    Table,
    Priority,
    Cookie,
    IdleTimeout,
    HardTimeout,
    Flag(FlowFlags),
    /// What `ovs-ofctl dump-flows` prints and `add-flows` skips.
    Statistic,
    Refused(&'static str, &'static str),
    /// `tcp` and the like: EtherType and IP protocol.
    Keyword(u16, Option<u8>),
    DlVlan,
    VlanPcp,
    NwTos,
    NwProto,
    Fragment,
    TcpFlags,
    InPort,
    /// A port or ICMP field by a name that tells the protocol.
    Of(Field, u8),
    Plain(Field),
    /// A VDP's own field: which one, and its width.
    User(Field, u32),
}

/// Every word that is not a field's name as [`Field`] has it.
pub(super) const WORDS: &[(&str, Term)] = &[
    ("actions", Term::Actions),
    ("action", Term::Actions),
    ("table", Term::Table),
    ("priority", Term::Priority),
    ("cookie", Term::Cookie),
    ("idle_timeout", Term::IdleTimeout),
    ("hard_timeout", Term::HardTimeout),
    ("send_flow_rem", Term::Flag(FlowFlags::SEND_FLOW_REM)),
    ("check_overlap", Term::Flag(FlowFlags::CHECK_OVERLAP)),
    ("reset_counts", Term::Flag(FlowFlags::RESET_COUNTS)),
    ("no_packet_counts", Term::Flag(FlowFlags::NO_PACKET_COUNTS)),
    ("no_byte_counts", Term::Flag(FlowFlags::NO_BYTE_COUNTS)),
    ("duration", Term::Statistic),
    ("n_packets", Term::Statistic),
    ("n_bytes", Term::Statistic),
    ("idle_age", Term::Statistic),
    ("hard_age", Term::Statistic),
    ("importance", Term::Refused("importance is OpenFlow 1.4's", "leave it out")),
    ("out_port", Term::Refused("only deletions and queries look at out_port", "leave it out")),
    ("out_group", Term::Refused("only deletions and queries look at out_group", "leave it out")),
    ("add", Term::Refused("commands are not read in front of a flow", VERB)),
    ("delete", Term::Refused("commands are not read in front of a flow", VERB)),
    ("delete_strict", Term::Refused("commands are not read in front of a flow", VERB)),
    ("modify", Term::Refused("commands are not read in front of a flow", VERB)),
    ("modify_strict", Term::Refused("commands are not read in front of a flow", VERB)),
    ("ip", Term::Keyword(0x0800, None)),
    ("ipv6", Term::Keyword(0x86dd, None)),
    ("tcp", Term::Keyword(0x0800, Some(6))),
    ("udp", Term::Keyword(0x0800, Some(17))),
    ("icmp", Term::Keyword(0x0800, Some(1))),
    ("sctp", Term::Keyword(0x0800, Some(132))),
    ("tcp6", Term::Keyword(0x86dd, Some(6))),
    ("udp6", Term::Keyword(0x86dd, Some(17))),
    ("icmp6", Term::Keyword(0x86dd, Some(58))),
    ("sctp6", Term::Keyword(0x86dd, Some(132))),
    ("arp", Term::Keyword(0x0806, None)),
    ("rarp", Term::Keyword(0x8035, None)),
    ("mpls", Term::Keyword(0x8847, None)),
    ("mplsm", Term::Keyword(0x8848, None)),
    ("dl_vlan", Term::DlVlan),
    ("dl_vlan_pcp", Term::VlanPcp),
    ("vlan_pcp", Term::VlanPcp),
    ("nw_tos", Term::NwTos),
    ("ip_tos", Term::NwTos),
    ("nw_proto", Term::NwProto),
    ("ip_proto", Term::NwProto),
    ("ip_frag", Term::Fragment),
    ("nw_frag", Term::Fragment),
    ("tcp_flags", Term::TcpFlags),
    ("in_port", Term::InPort),
    ("tcp_src", Term::Of(Field::TpSrc, 6)),
    ("tcp_dst", Term::Of(Field::TpDst, 6)),
    ("udp_src", Term::Of(Field::TpSrc, 17)),
    ("udp_dst", Term::Of(Field::TpDst, 17)),
    ("sctp_src", Term::Of(Field::TpSrc, 132)),
    ("sctp_dst", Term::Of(Field::TpDst, 132)),
    ("icmpv4_type", Term::Of(Field::IcmpType, 1)),
    ("icmpv4_code", Term::Of(Field::IcmpCode, 1)),
    ("icmpv6_type", Term::Of(Field::IcmpType, 58)),
    ("icmpv6_code", Term::Of(Field::IcmpCode, 58)),
];

const VERB: &str = "write the match and actions alone; every line adds a flow";

/// What `word` means.
#[inline]
pub(super) fn term(word: &str, names: &dyn Names) -> Option<Term> {
    if let Some((_, t)) = WORDS.iter().find(|(w, _)| *w == word) {
        return Some(*t);
    }
    if let Some(f) = Field::by_name(word) {
        return Some(Term::Plain(f));
    }
    names.user_fields().by_name(word).map(|(f, u)| Term::User(f, u32::from(u.width_bits())))
}

#[cold]
fn unknown(word: &str) -> FlowErrorKind {
    if word.starts_with("reg") || word.starts_with("xreg") || word.starts_with("xxreg") {
        let (what, instead) = ("weir has no registers", "carry state between tables in metadata");
        return FlowErrorKind::Refused { what, instead };
    }
    if word.starts_with("ct_") {
        let (what, instead) = ("weir does not track connections", "match on tcp_flags");
        return FlowErrorKind::Refused { what, instead };
    }
    let fields = Field::ALL.iter().map(|f| f.info());
    let all = WORDS
        .iter()
        .filter(|(_, t)| !matches!(t, Term::Refused(..)))
        .map(|(w, _)| w)
        .chain(fields.flat_map(|i| std::iter::once(&i.name).chain(i.aliases)));
    FlowErrorKind::UnknownField { nearest: nearest(word, all) }
}

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

/// A port as a text names it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Reserved {
    No(PortNo),
    InPort,
    All,
    Flood,
    Normal,
    Controller,
    Local,
}

/// A port: its number, its name (quoted or not), or one of OpenFlow's reserved names.
pub(super) fn port(text: &str, names: &dyn Names) -> Result<Reserved, FlowErrorKind> {
    if text.starts_with(|c: char| c.is_ascii_digit()) {
        let n = number(text, 0xffff_ff00)? as u32;
        // OpenFlow 1.0's reserved numbers: readers of 1.0 and 1.3 would disagree about them.
        return match n {
            0 | 0xff00..=0xffff => Err(FlowErrorKind::BadPort),
            _ => Ok(Reserved::No(PortNo(n))),
        };
    }
    if let Some(quoted) = text.strip_prefix('"').and_then(|t| t.strip_suffix('"')) {
        return names.port(quoted).map(Reserved::No).ok_or(FlowErrorKind::UnknownPort);
    }
    if let Some(r) = reserved(text) {
        return Ok(r);
    }
    names.port(text).map(Reserved::No).ok_or(FlowErrorKind::UnknownPort)
}

/// OpenFlow's reserved ports by name, in any case.
pub(super) fn reserved(text: &str) -> Option<Reserved> {
    const ALL: [(&str, Reserved); 6] = [
        ("in_port", Reserved::InPort),
        ("all", Reserved::All),
        ("flood", Reserved::Flood),
        ("normal", Reserved::Normal),
        ("controller", Reserved::Controller),
        ("local", Reserved::Local),
    ];
    ALL.iter().find(|(n, _)| n.eq_ignore_ascii_case(text)).map(|(_, r)| *r)
}
