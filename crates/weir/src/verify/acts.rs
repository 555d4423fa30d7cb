//! weir's actions as the verifier's: what each does to the flow key, as `weir_dataplane`'s function
//! modules do it to frames.
//!
//! A change of a field that a frame has not does nothing there, so changes come as cases. Where the
//! key does not tell whether a frame has the field (headers cut short have a key of zeros), both
//! are taken to happen.
//!
//! Room: pure. Called by `gather` for each rule.

use super::header::{at, bits_of, exactly, masked};
use weir_classify::{Field, Prereq, VLAN_PRESENT};
use weir_dataplane::{Action, InvalidTtl, Out, Outer, PortNo, TunnelAddrs, set};
use weir_supervisor::verify::{Act, Bits, Case, Edit, Match, To, WORDS};
use weir_wire::IpProtocol;

/// What a VDP's actions mean depends on.
pub struct Meaning<'a> {
    /// The place of a port among the plane's; `None`: it has none of that number.
    pub port: &'a dyn Fn(PortNo) -> Option<usize>,
    /// What the slow path does with what it gets.
    pub program: &'a [Act],
    /// Meters that change what they let pass.
    pub remarking: &'a [u32],
    /// What becomes of frames whose TTL can't be decremented.
    pub invalid_ttl: InvalidTtl,
    /// Whether the VDP has fields of its own, which are cut out anew before a later table.
    pub own_fields: OwnFields,
}

/// Whether a VDP has fields of its own.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OwnFields {
    /// It has.
    Some,
    /// It has not.
    None,
}

/// What lies behind the EtherType.
const BEHIND: &[Field] = &[
    Field::Ipv6Exthdr,
    Field::Ipv4Src,
    Field::Ipv4Dst,
    Field::TpSrc,
    Field::TpDst,
    Field::IpProto,
    Field::IpTos,
    Field::IpTtl,
    Field::IpFrag,
    Field::MplsLabel,
    Field::MplsTc,
    Field::MplsBos,
    Field::MplsTtl,
    Field::Ipv6Label,
    Field::Ipv6Src,
    Field::Ipv6Dst,
    Field::NdTarget,
    Field::ArpSha,
    Field::TcpFlags,
    Field::ArpTha,
    Field::ArpOp,
    Field::PbbIsid,
];
/// What lies behind the IP protocol.
const TRANSPORT: &[Field] = &[
    Field::TpSrc,
    Field::TpDst,
    Field::NdTarget,
    Field::ArpSha,
    Field::TcpFlags,
    Field::ArpTha,
    Field::Ipv6Exthdr,
];
const ETHERNET: &[Field] =
    &[Field::EthDst, Field::EthSrc, Field::EthType, Field::VlanTci, Field::InnerTci];
const USER: &[Field] =
    &[Field::User0, Field::User1, Field::User2, Field::User3, Field::UserPresent];

/// The fragment header's number (RFC 8200 §4.5).
const FRAGMENT: u128 = 44;

const PRESENT: u128 = VLAN_PRESENT as u128;

fn set_to(m: Match) -> Edit {
    Edit::Set(Box::new(m))
}
fn reveal(fields: &[Field]) -> Edit {
    Edit::Reveal(Box::new(bits_of(fields)))
}
fn unknown(fields: &[Field]) -> Edit {
    Edit::Unknown(Box::new(bits_of(fields)))
}
fn zero(fields: &[Field]) -> Edit {
    set_to(Match::new(bits_of(fields), [0; WORDS]))
}
fn case(when: Match, edits: Vec<Edit>) -> Case {
    Case { when: Box::new(when), unless: Vec::new(), edits }
}
fn and(a: Match, b: Match) -> Match {
    a.and(&b).unwrap_or(a)
}
fn tagged() -> Match {
    masked(Field::VlanTci, PRESENT, PRESENT)
}
fn twice() -> Match {
    and(tagged(), masked(Field::InnerTci, PRESENT, PRESENT))
}
fn ethertype(t: u16) -> Match {
    exactly(Field::EthType, t.into())
}
fn proto(t: u16, p: u8) -> Match {
    and(ethertype(t), exactly(Field::IpProto, p.into()))
}
const MPLS: [u16; 2] = [0x8847, 0x8848];
const VLAN: [u16; 3] = [0x8100, 0x88a8, 0x9100];

/// Done to frames in one of `these`, and perhaps not to those of them that have nothing in `fields`,
/// since their header may be cut short; other frames stay as they are.
fn applies(these: Vec<Match>, fields: &[Field], edits: &[Edit]) -> Act {
    let nothing = Match::new(bits_of(fields), [0; WORDS]);
    let mut cases: Vec<Case> = these.iter().map(|m| case(*m, edits.to_vec())).collect();
    if !fields.is_empty() {
        cases.extend(these.iter().filter_map(|m| m.and(&nothing)).map(|m| case(m, Vec::new())));
    }
    cases.push(Case { when: Box::default(), unless: these, edits: Vec::new() });
    Act::Cases(cases)
}

/// The frames that have what a field needs.
fn having(needs: Prereq) -> Vec<Match> {
    let ips = [0x0800, 0x86dd];
    let over = |protos: &[u8]| -> Vec<Match> {
        ips.iter().flat_map(|t| protos.iter().map(|p| proto(*t, *p))).collect()
    };
    let nd = |kinds: &[u128]| -> Vec<Match> {
        let of = |k: &u128| ips.map(|t| and(proto(t, 58), exactly(Field::IcmpType, *k)));
        kinds.iter().flat_map(of).collect()
    };
    match needs {
        Prereq::None => vec![Match::any()],
        Prereq::Vlan => vec![tagged()],
        Prereq::Ip => ips.map(ethertype).into(),
        Prereq::Ipv4 => vec![ethertype(0x0800)],
        Prereq::Ipv6 => vec![ethertype(0x86dd)],
        Prereq::Arp => [0x0806, 0x8035].map(ethertype).into(),
        Prereq::Mpls => MPLS.map(ethertype).into(),
        Prereq::Pbb => vec![ethertype(0x88e7)],
        Prereq::L4 => over(&[6, 17, 132]),
        Prereq::Tcp => over(&[6]),
        Prereq::Icmp => over(&[1, 58]),
        Prereq::Nd => nd(&[135, 136]),
        Prereq::NdSolicit => nd(&[135]),
        Prereq::NdAdvert => nd(&[136]),
    }
}

/// What is zero where a header of this kind is cut short.
fn cut_short(needs: Prereq) -> &'static [Field] {
    match needs {
        Prereq::Ip => &[Field::IpProto, Field::IpTtl],
        Prereq::Ipv4 => &[Field::Ipv4Src, Field::Ipv4Dst, Field::IpProto, Field::IpTtl],
        Prereq::Ipv6 => &[Field::Ipv6Src, Field::Ipv6Dst, Field::IpProto, Field::IpTtl],
        _ => &[],
    }
}

fn set_field(f: Field, value: u128, mask: u128) -> Act {
    let set = set_to(masked(f, value, mask));
    match f {
        // DEI is not set: the key has the present bit there.
        Field::VlanTci | Field::VlanVid | Field::VlanPcp => {
            applies(vec![tagged()], &[], &[set_to(masked(f, value, mask & !present_of(f)))])
        }
        Field::InnerTci => {
            applies(vec![twice()], &[], &[set_to(masked(f, value, mask & !PRESENT))])
        }
        // Frames with a length in place of the type keep it, whatever type stands behind it.
        Field::EthType => {
            let whole = (mask == f.full()).then_some(value as u16);
            let (when, unless) = (Box::default(), vec![ethertype(0x05ff)]);
            let edits = becomes(whole);
            Act::Cases(vec![case(Match::any(), Vec::new()), Case { when, unless, edits }])
        }
        Field::IpProto => Act::Cases(set_proto(value, mask)),
        // What is neighbour discovery, and so has a target, hangs on the type.
        Field::IcmpType => {
            let target = reveal(&[Field::NdTarget, Field::ArpSha, Field::ArpTha]);
            Act::Cases(vec![case(Match::any(), Vec::new()), case(Match::any(), vec![set, target])])
        }
        // Options of neighbour discovery may be missing; ports behind extension headers are there.
        Field::NdSll | Field::NdTll => {
            Act::Cases(vec![case(Match::any(), Vec::new()), case(Match::any(), vec![set])])
        }
        _ => match f.info().prereq {
            needs @ (Prereq::None | Prereq::Ip | Prereq::Ipv4 | Prereq::Ipv6) => {
                applies(having(needs), cut_short(needs), &[set])
            }
            // Whether such a header is whole, and under the right IP, the key does not always tell.
            needs => {
                let may = having(needs).into_iter().map(|m| case(m, vec![set.clone()]));
                Act::Cases(may.chain([case(Match::any(), Vec::new())]).collect())
            }
        },
    }
}

/// The protocol of an IP header becomes this.
fn set_proto(value: u128, mask: u128) -> Vec<Case> {
    let set = set_to(masked(Field::IpProto, value, mask));
    let edits = vec![set, reveal(TRANSPORT)];
    let v6 = ethertype(0x86dd);
    let mut cases = vec![
        // Not where extension headers stand between, which the key does not tell apart.
        case(Match::any(), Vec::new()),
        case(ethertype(0x0800), edits.clone()),
        case(v6, edits),
    ];
    let behind = [&[Field::IpProto, Field::IpFrag], TRANSPORT].concat();
    // What follows is taken for an extension header: the protocol stands in it, or further behind.
    let extension = |e: u8| IpProtocol::from(e).is_ipv6_extension();
    if (0..=u8::MAX).any(|e| u128::from(e) & mask == value & mask && extension(e)) {
        cases.push(case(v6, vec![reveal(&behind)]));
    }
    // One fragment header in another: the outer one goes.
    let set = set_to(masked(Field::IpProto, value, mask));
    let inner = vec![reveal(&[Field::IpFrag]), set, reveal(TRANSPORT)];
    cases.push(case(and(v6, exactly(Field::IpProto, FRAGMENT)), inner));
    cases
}

/// The type becomes this, or any; what follows is read as that says.
fn becomes(t: Option<u16>) -> Vec<Edit> {
    match t.filter(|t| *t >= 0x600 && !VLAN.contains(t)) {
        Some(t) => vec![set_to(ethertype(t)), reveal(BEHIND)],
        // A tag, or a length: even the type is further behind.
        None => vec![reveal(&[Field::EthType, Field::VlanTci, Field::InnerTci]), reveal(BEHIND)],
    }
}

fn present_of(f: Field) -> u128 {
    if f == Field::VlanPcp { 0 } else { PRESENT }
}

/// Bits of the outer tag, in a new one where there is none.
fn mod_tag(value: u16, mask: u16) -> Act {
    let set = set_to(masked(Field::VlanTci, value.into(), mask.into()));
    let new = set_to(exactly(Field::VlanTci, PRESENT | u128::from(value)));
    Act::Cases(vec![case(tagged(), vec![set]), case(masked(Field::VlanTci, 0, PRESENT), vec![new])])
}

fn push_vlan() -> Act {
    let inner = Edit::Copy(at(Field::VlanTci), at(Field::InnerTci));
    let outer = masked(Field::VlanTci, 0, PRESENT);
    let one = and(tagged(), masked(Field::InnerTci, 0, PRESENT));
    // A third tag hides what is behind the second.
    let hidden = [unknown(&[Field::EthType]), zero(BEHIND), inner.clone()];
    Act::Cases(vec![
        case(outer, vec![set_to(exactly(Field::VlanTci, PRESENT)), zero(&[Field::InnerTci])]),
        case(one, vec![inner]),
        case(twice(), hidden.into()),
    ])
}

fn pop_vlan() -> Act {
    let outer = Edit::Copy(at(Field::InnerTci), at(Field::VlanTci));
    let none = || zero(&[Field::InnerTci]);
    let one = and(tagged(), masked(Field::InnerTci, 0, PRESENT));
    let third = [reveal(&[Field::InnerTci, Field::EthType]), reveal(BEHIND)];
    let types = VLAN.map(ethertype);
    let mut cases = vec![
        case(masked(Field::VlanTci, 0, PRESENT), Vec::new()),
        case(one, vec![zero(&[Field::VlanTci])]),
        Case { when: Box::new(twice()), unless: types.into(), edits: vec![outer.clone(), none()] },
    ];
    let revealed = [&[outer][..], &third].concat();
    cases.extend(types.map(|t| case(and(twice(), t), revealed.clone())));
    Act::Cases(cases)
}

fn push_mpls(t: u16) -> Act {
    let set = set_to(ethertype(t));
    let below = set_to(exactly(Field::MplsBos, 0));
    let new = and(
        exactly(Field::MplsBos, 1),
        and(exactly(Field::MplsLabel, 0), exactly(Field::MplsTc, 0)),
    );
    let first = vec![set.clone(), zero(BEHIND), set_to(new), unknown(&[Field::MplsTtl])];
    // Frames with a length are dropped; one whose label is cut short gets its first.
    let unless = vec![ethertype(0x05ff)];
    let mut cases: Vec<Case> =
        MPLS.iter().map(|m| case(ethertype(*m), vec![set.clone(), below.clone()])).collect();
    cases.push(Case { when: Box::default(), unless, edits: first });
    Act::Cases(cases)
}

fn pop_mpls(t: u16) -> Act {
    let mpls = MPLS.map(ethertype);
    let mut cases: Vec<Case> = mpls.iter().map(|m| case(*m, becomes(Some(t)))).collect();
    // Frames without labels, and those whose label is cut short or behind a length.
    cases.push(case(Match::any(), Vec::new()));
    Act::Cases(cases)
}

/// The headers of an encapsulation, all of them.
fn encap(outer: &Outer, protocol: u8, ports: &[(Field, u128)]) -> Vec<Edit> {
    let mac = |m: [u8; 6]| m.iter().fold(0, |n, b| n << 8 | u128::from(*b));
    let mut fields = vec![
        (Field::EthDst, mac(outer.eth_dst)),
        (Field::EthSrc, mac(outer.eth_src)),
        (Field::IpProto, protocol.into()),
        (Field::IpTos, outer.tos.into()),
        (Field::IpTtl, outer.ttl.into()),
    ];
    match outer.ip {
        TunnelAddrs::V4(s, d) => fields.extend([
            (Field::EthType, 0x0800),
            (Field::Ipv4Src, u32::from(s).into()),
            (Field::Ipv4Dst, u32::from(d).into()),
        ]),
        TunnelAddrs::V6(s, d) => fields.extend([
            (Field::EthType, 0x86dd),
            (Field::Ipv6Src, s.into()),
            (Field::Ipv6Dst, d.into()),
        ]),
    }
    fields.extend_from_slice(ports);
    let header = fields.iter().fold(Match::any(), |m, (f, v)| and(m, exactly(*f, *v)));
    vec![zero(ETHERNET), zero(BEHIND), set_to(header)]
}

fn decap(protocol: u8) -> Act {
    // What is unwrapped is what the sender put in; other frames are dropped.
    let edits = vec![reveal(ETHERNET), reveal(BEHIND), reveal(&[Field::TunnelId])];
    let of = |t| case(proto(t, protocol), edits.clone());
    Act::Cases(vec![of(0x0800), of(0x86dd)])
}

fn dec_ttl(m: &Meaning<'_>, types: &[u16], ttl: Field, out: &mut Vec<Act>) {
    if let InvalidTtl::Controller(_) = m.invalid_ttl {
        out.push(Act::Controller);
    }
    let these: Vec<Match> = types.iter().map(|t| ethertype(*t)).collect();
    let ends = [exactly(ttl, 0), exactly(ttl, 1)];
    let mut cases: Vec<Case> = Vec::new();
    for t in &these {
        let (when, unless) = (Box::new(*t), ends.to_vec());
        cases.push(Case { when, unless, edits: vec![unknown(&[ttl])] });
        // A header that is cut short has no TTL.
        cases.push(case(and(*t, exactly(ttl, 0)), Vec::new()));
    }
    cases.push(Case { when: Box::default(), unless: these, edits: Vec::new() });
    out.push(Act::Cases(cases));
}

/// What a rule's actions mean.
pub fn acts(actions: &[Action], m: &Meaning<'_>) -> Vec<Act> {
    let mut out = Vec::new();
    if actions.contains(&Action::Drop) {
        return out;
    }
    // What is done to the action set stands in front of all else.
    for a in actions {
        match a {
            Action::ClearActions => out = vec![Act::Clear],
            Action::WriteActions(list) => {
                let kinds = list
                    .iter()
                    .filter_map(|a| Some((set::kind(a)?, acts(std::slice::from_ref(a), m))));
                out.push(Act::Write(kinds.collect()));
            }
            _ => {}
        }
    }
    for a in actions {
        one(a, m, &mut out);
    }
    out
}

fn one(a: &Action, m: &Meaning<'_>, out: &mut Vec<Act>) {
    let port = |no: PortNo| (m.port)(no).map(|p| Act::Output(To::Port(p)));
    match a {
        Action::Output(Out::Port(no)) | Action::Mirror(no) => out.extend(port(*no)),
        Action::Output(Out::InPort) => out.push(Act::Output(To::InPort)),
        Action::Output(Out::All | Out::Flood) => out.push(Act::Output(To::All)),
        Action::Output(Out::Normal) | Action::ToChannel => out.extend_from_slice(m.program),
        Action::Output(Out::Controller(_)) => out.push(Act::Controller),
        Action::SetField { field, value, mask } => out.push(set_field(*field, *value, *mask)),
        Action::DecTtl => dec_ttl(m, &[0x0800, 0x86dd], Field::IpTtl, out),
        Action::DecMplsTtl => dec_ttl(m, &MPLS, Field::MplsTtl, out),
        Action::CopyTtlOut | Action::CopyTtlIn => {
            out.push(Act::Edit(unknown(&[Field::IpTtl, Field::MplsTtl])));
        }
        Action::PushVlan(_) => out.push(push_vlan()),
        Action::PopVlan => out.push(pop_vlan()),
        Action::PushMpls(t) => out.push(push_mpls(*t)),
        Action::PopMpls(t) => out.push(pop_mpls(*t)),
        Action::PushPbb(_) => out.extend(
            [zero(&[Field::VlanTci, Field::InnerTci]), zero(BEHIND), set_to(ethertype(0x88e7))]
                .map(Act::Edit)
                .into_iter()
                .chain([Act::Edit(unknown(&[Field::PbbIsid]))]),
        ),
        Action::PopPbb => out.push(Act::Cases(vec![
            case(Match::any(), Vec::new()),
            case(ethertype(0x88e7), vec![reveal(ETHERNET), reveal(BEHIND)]),
        ])),
        Action::EncapVxlan { outer, port, .. } => {
            let edits = encap(outer, 17, &[(Field::TpDst, (*port).into())]);
            out.extend(edits.into_iter().map(Act::Edit));
            out.push(Act::Edit(unknown(&[Field::TpSrc])));
        }
        Action::EncapGre { outer, .. } => {
            out.extend(encap(outer, 47, &[]).into_iter().map(Act::Edit));
        }
        Action::DecapVxlan => out.push(decap(17)),
        Action::DecapGre => out.push(decap(47)),
        Action::Group(id) => out.push(Act::Group(*id)),
        Action::Meter(id) if m.remarking.contains(id) => {
            out.push(Act::Edit(unknown(&[Field::IpTos])));
        }
        Action::WriteMetadata { value, mask } => {
            out.push(Act::Edit(set_to(masked(Field::Metadata, (*value).into(), (*mask).into()))));
        }
        Action::ModVlanVid(v) => out.push(mod_tag(*v, 0xfff)),
        Action::ModVlanPcp(p) => out.push(mod_tag(u16::from(*p) << 13, 0xe000)),
        Action::Goto(n) => {
            if m.own_fields == OwnFields::Some {
                out.push(Act::Edit(unknown(USER)));
            }
            out.push(Act::Goto(*n));
        }
        // A stack of its own is not part of a data plane; the rest changes no frame's way.
        _ => {}
    }
}

/// All bits of what a program may write, for one that swaps the addresses.
pub fn addresses() -> Bits {
    bits_of(&[Field::EthDst, Field::EthSrc])
}

#[cfg(test)]
#[path = "acts_tests.rs"]
mod tests;
