//! Flows, matches, actions and keys as text that can be read again.
//!
//! Room: writes into a formatter and nothing else. What is written is Open vSwitch's syntax in its
//! shortest usual form; read again, it gives an equal value.

use super::value::TCP_FLAGS;
use super::{DEFAULT_PRIORITY, FlowFlags, FlowSpec, LOCAL_PORT, Names, NoNames};
use crate::action::{Action, GreChecksum, Out, Outer, PortNo, TunnelAddrs};
use std::fmt::{self, Display, Formatter};
use std::net::{Ipv4Addr, Ipv6Addr};
use weir_classify::{Field, FlowKey, FlowMask, Form, Match, Prereq, VLAN_PRESENT};

/// A flow with the names of its VDP. `FlowSpec` shows itself with [`NoNames`].
#[derive(Clone, Copy)]
pub struct FlowText<'a>(pub &'a FlowSpec, pub &'a dyn Names);

/// A match as text; empty when it matches everything.
#[derive(Clone, Copy)]
pub struct MatchText<'a>(pub &'a Match, pub &'a dyn Names);

/// Actions as text; `drop` when there are none.
#[derive(Clone, Copy)]
pub struct ActionsText<'a>(pub &'a [Action], pub &'a dyn Names);

/// A frame's key as text: a match that the frame fits, exact in every field that it has.
#[derive(Clone, Copy)]
pub struct KeyText<'a>(pub &'a FlowKey, pub &'a dyn Names);

impl Display for FlowSpec {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        FlowText(self, &NoNames).fmt(f)
    }
}

impl Display for Action {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        action(self, &NoNames, f)
    }
}

impl Display for FlowText<'_> {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let FlowText(spec, names) = *self;
        let mut list = List { f, any: false };
        for (name, value) in [
            ("table", u64::from(spec.table)),
            ("idle_timeout", spec.idle_timeout.into()),
            ("hard_timeout", spec.hard_timeout.into()),
        ] {
            if value != 0 {
                list.item(format_args!("{name}={value}"))?;
            }
        }
        if spec.cookie != 0 {
            list.item(format_args!("cookie={:#x}", spec.cookie))?;
        }
        for (flag, name) in FlowFlags::NAMES {
            if spec.flags.contains(flag) {
                list.item(name)?;
            }
        }
        if spec.priority != DEFAULT_PRIORITY {
            list.item(format_args!("priority={}", spec.priority))?;
        }
        matcher(&spec.matcher, names, &mut list)?;
        if list.any {
            list.f.write_str(" ")?;
        }
        write!(f, "actions={}", ActionsText(&spec.actions, names))
    }
}

impl Display for MatchText<'_> {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        matcher(self.0, self.1, &mut List { f, any: false })
    }
}

impl Display for ActionsText<'_> {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        // An empty write writes nothing, as Open vSwitch has it.
        let empty = |a: &Action| matches!(a, Action::WriteActions(set) if set.is_empty());
        let mut list = self.0.iter().filter(|a| !empty(a));
        let Some(first) = list.next() else { return f.write_str("drop") };
        action(first, self.1, f)?;
        list.try_for_each(|a| {
            f.write_str(",")?;
            action(a, self.1, f)
        })
    }
}

impl Display for KeyText<'_> {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let KeyText(key, names) = *self;
        // The fields whose prerequisite an exact match on this key fulfils; what is zero for want
        // of a value (no metadata, no tag, no port) goes without saying.
        let all = FlowMask([u64::MAX; weir_classify::WORDS]);
        let mut mask = FlowMask::default();
        for &field in Field::ALL {
            let i = field.info();
            let there = match field {
                Field::EthDst | Field::EthSrc | Field::EthType => true,
                Field::User0 => key.get(Field::UserPresent) & 1 != 0,
                Field::User1 => key.get(Field::UserPresent) & 2 != 0,
                Field::User2 => key.get(Field::UserPresent) & 4 != 0,
                Field::User3 => key.get(Field::UserPresent) & 8 != 0,
                Field::TpSrc | Field::TpDst => {
                    i.prereq.holds(key, &all) && key.get(Field::IpFrag) & 2 == 0
                }
                Field::TcpFlags | Field::IcmpType | Field::IcmpCode => {
                    i.prereq.holds(key, &all) && key.get(Field::IpFrag) & 2 == 0
                }
                _ if i.prereq == Prereq::None => key.get(field) != 0,
                _ => i.prereq.holds(key, &all),
            };
            if there {
                mask.set(field, mask.get(field) | field.full());
            }
        }
        matcher(&Match::new(*key, mask), names, &mut List { f, any: false })
    }
}

/// Items with commas between them.
struct List<'f, 'g> {
    f: &'f mut Formatter<'g>,
    any: bool,
}

impl List<'_, '_> {
    fn item(&mut self, what: impl Display) -> fmt::Result {
        if std::mem::replace(&mut self.any, true) {
            self.f.write_str(",")?;
        }
        what.fmt(self.f)
    }
}

/// The keyword for an exact EtherType and, if it is exact too, IP protocol, and whether it tells
/// the protocol.
fn keyword(ethertype: u128, proto: Option<u128>) -> Option<(&'static str, bool)> {
    let known = match (ethertype, proto) {
        (0x0800, Some(6)) => "tcp",
        (0x0800, Some(17)) => "udp",
        (0x0800, Some(1)) => "icmp",
        (0x0800, Some(132)) => "sctp",
        (0x86dd, Some(6)) => "tcp6",
        (0x86dd, Some(17)) => "udp6",
        (0x86dd, Some(58)) => "icmp6",
        (0x86dd, Some(132)) => "sctp6",
        (0x0800, _) => return Some(("ip", false)),
        (0x86dd, _) => return Some(("ipv6", false)),
        (0x0806, _) => return Some(("arp", false)),
        (0x8035, _) => return Some(("rarp", false)),
        (0x8847, _) => return Some(("mpls", false)),
        (0x8848, _) => return Some(("mplsm", false)),
        _ => return None,
    };
    Some((known, true))
}

fn matcher(m: &Match, names: &dyn Names, list: &mut List<'_, '_>) -> fmt::Result {
    let (value, mask) = (m.value(), m.mask());
    let exact = |f: Field| (mask.get(f) == f.full()).then(|| value.get(f));
    let ethertype = exact(Field::EthType);
    let word = ethertype.and_then(|t| keyword(t, exact(Field::IpProto)));
    if let Some((w, _)) = word {
        list.item(w)?;
    }
    let arp = Prereq::Arp.holds(value, mask);
    let icmp = Prereq::Icmp.holds(value, mask);
    for &f in Field::ALL {
        let (v, bits) = (value.get(f), mask.get(f));
        if bits == 0 {
            continue;
        }
        match f {
            Field::EthType if word.is_some() => {}
            Field::IpProto if word.is_some_and(|(_, proto)| proto) => {}
            // Fields that share their bits with another: the EtherType tells which is meant.
            Field::ArpSpa | Field::ArpTpa | Field::ArpSha | Field::ArpTha if !arp => {}
            Field::Ipv4Src | Field::Ipv4Dst | Field::NdSll | Field::NdTll if arp => {}
            Field::IcmpType | Field::IcmpCode if !icmp => {}
            Field::TpSrc | Field::TpDst if icmp => {}
            Field::IpTos => {
                number_as(list, "nw_tos", Field::IpDscp, m, 2, "ip_dscp")?;
                number_as(list, "nw_ecn", Field::IpEcn, m, 0, "nw_ecn")?;
            }
            Field::IpDscp | Field::IpEcn => {}
            Field::VlanTci => vlan(v, bits, list)?,
            Field::VlanVid | Field::VlanPcp => {}
            Field::InnerTci => list.item(format_args!("inner_vlan_tci={v:#06x}/{bits:#06x}"))?,
            Field::InPort if bits == f.full() => {
                list.item(format_args!("in_port={}", Port(v as u32, names)))?;
            }
            Field::IpFrag => match fragment(v, bits) {
                Some(name) => list.item(format_args!("nw_frag={name}"))?,
                None => list.item(format_args!("nw_frag={v:#x}/{bits:#x}"))?,
            },
            Field::TcpFlags => list.item(Flags(v, bits))?,
            Field::EthType if bits == f.full() => list.item(format_args!("dl_type={v:#06x}"))?,
            Field::Metadata | Field::TunnelId if bits == f.full() => {
                list.item(format_args!("{}={v:#x}", f.name()))?;
            }
            Field::UserPresent => {
                // Said by the fields themselves, but for bits that stand alone.
                let mut said = 0;
                for (i, u) in
                    [Field::User0, Field::User1, Field::User2, Field::User3].into_iter().enumerate()
                {
                    if mask.looks_at(u) && v >> i & 1 == 1 {
                        said |= 1 << i;
                    }
                }
                if bits & !said != 0 {
                    list.item(format_args!("user_present={v:#x}/{bits:#x}"))?;
                }
            }
            Field::User0 | Field::User1 | Field::User2 | Field::User3 => {
                let own = names.user_fields().get(f);
                let name = own.map_or(f.name(), |u| u.name());
                let full = own.map_or(f.full(), |u| weir_classify::ones(u.width_bits().into()));
                if bits == full {
                    list.item(format_args!("{name}={v:#x}"))?;
                } else {
                    list.item(format_args!("{name}={v:#x}/{bits:#x}"))?;
                }
            }
            _ => list.item(format_args!("{}={}", f.name(), Value(f, v, bits)))?,
        }
    }
    Ok(())
}

/// A field under `name`, its value moved left by `shift`, when all of it is matched; under
/// `masked` with a mask when only a part is.
fn number_as(
    list: &mut List<'_, '_>,
    name: &str,
    f: Field,
    m: &Match,
    shift: u32,
    masked: &str,
) -> fmt::Result {
    let (v, bits) = (m.value().get(f), m.mask().get(f));
    match bits {
        0 => Ok(()),
        b if b == f.full() => list.item(format_args!("{name}={}", v << shift)),
        b => list.item(format_args!("{masked}={v:#x}/{b:#x}")),
    }
}

fn vlan(v: u128, bits: u128, list: &mut List<'_, '_>) -> fmt::Result {
    let p = u128::from(VLAN_PRESENT);
    let (vid, pcp) = (bits & 0xfff, bits & 0xe000);
    let whole = (vid == 0 || vid == 0xfff) && (pcp == 0 || pcp == 0xe000) && bits != p;
    if bits & v & p == 0 || !whole {
        return list.item(format_args!("vlan_tci={v:#06x}/{bits:#06x}"));
    }
    if vid != 0 {
        list.item(format_args!("dl_vlan={}", v & 0xfff))?;
    }
    if pcp != 0 {
        list.item(format_args!("dl_vlan_pcp={}", v >> 13))?;
    }
    Ok(())
}

fn fragment(v: u128, bits: u128) -> Option<&'static str> {
    Some(match (v, bits) {
        (0, 3) => "no",
        (1, 1) => "yes",
        (1, 3) => "first",
        (3, 3) => "later",
        (0, 2) => "not_later",
        // A key's or a controller's exact match on all eight bits.
        (0, 0xff) => "no",
        (1, 0xff) => "first",
        (3, 0xff) => "later",
        _ => return None,
    })
}

/// TCP flags with their field's name.
struct Flags(u128, u128);

impl Display for Flags {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let Flags(v, bits) = *self;
        f.write_str("tcp_flags=")?;
        if bits & 0xfff == 0xfff {
            return write!(f, "{:#05x}", v & 0xfff);
        }
        for (i, name) in TCP_FLAGS.iter().enumerate() {
            if bits >> i & 1 != 0 {
                write!(f, "{}{name}", if v >> i & 1 != 0 { '+' } else { '-' })?;
            }
        }
        Ok(())
    }
}

struct Mac(u128);

impl Display for Mac {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let [_, _, a, b, c, d, e, g] = (self.0 as u64).to_be_bytes();
        write!(f, "{a:02x}:{b:02x}:{c:02x}:{d:02x}:{e:02x}:{g:02x}")
    }
}

/// A value of a field, with its mask where that is not the whole field.
struct Value(Field, u128, u128);

impl Display for Value {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let Value(field, v, bits) = *self;
        let i = field.info();
        let one = |x: u128, f: &mut Formatter<'_>| match i.form {
            Form::Number if bits == field.full() => write!(f, "{x}"),
            Form::Number => write!(f, "{x:#x}"),
            Form::Mac => Mac(x).fmt(f),
            Form::Ipv4 => Ipv4Addr::from_bits(x as u32).fmt(f),
            Form::Ipv6 => Ipv6Addr::from_bits(x).fmt(f),
        };
        one(v, f)?;
        if bits == field.full() {
            return Ok(());
        }
        f.write_str("/")?;
        // Leading ones as a prefix, as people write it.
        let inverted = !bits & field.full();
        let prefix = inverted & inverted.wrapping_add(1) == 0;
        match i.form {
            Form::Ipv4 | Form::Ipv6 if prefix => bits.count_ones().fmt(f),
            _ => one(bits, f),
        }
    }
}

/// A port by name if it has one that reads back, else by number.
struct Port<'a>(u32, &'a dyn Names);

impl Display for Port<'_> {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        if self.0 == LOCAL_PORT.0 {
            return f.write_str("LOCAL");
        }
        match self.1.port_name(PortNo(self.0)) {
            Some(name) if !name.contains(['"', '#']) && !name.is_empty() => {
                write!(f, "\"{name}\"")
            }
            _ => self.0.fmt(f),
        }
    }
}

fn outer(o: &Outer, f: &mut Formatter<'_>) -> fmt::Result {
    match o.ip {
        TunnelAddrs::V4(s, d) => write!(f, "src={s},dst={d}")?,
        TunnelAddrs::V6(s, d) => write!(f, "src={s},dst={d}")?,
    }
    let mac = |m: [u8; 6]| Mac(m.iter().fold(0, |v, b| v << 8 | u128::from(*b)));
    write!(f, ",eth_src={},eth_dst={}", mac(o.eth_src), mac(o.eth_dst))?;
    write!(f, ",ttl={},tos={}", o.ttl, o.tos)
}

fn action(a: &Action, names: &dyn Names, f: &mut Formatter<'_>) -> fmt::Result {
    match a {
        Action::Output(Out::Port(p)) => write!(f, "output:{}", Port(p.0, names)),
        Action::Output(Out::InPort) => f.write_str("in_port"),
        Action::Output(Out::All) => f.write_str("all"),
        Action::Output(Out::Flood) => f.write_str("flood"),
        Action::Output(Out::Normal) => f.write_str("normal"),
        Action::Output(Out::Controller(n)) => write!(f, "controller:{n}"),
        Action::Output(Out::Local) => f.write_str("local"),
        Action::Output(Out::Table) => f.write_str("table"),
        Action::SetQueue(q) => write!(f, "set_queue:{q}"),
        Action::ToChannel => f.write_str("channel"),
        Action::Drop => f.write_str("drop"),
        Action::SetField { field: Field::Metadata | Field::TunnelId, value, mask }
            if *mask == u128::from(u64::MAX) =>
        {
            let name = if let Action::SetField { field, .. } = a { field.name() } else { "" };
            write!(f, "set_field:{value:#x}->{name}")
        }
        // Open vSwitch takes set_field's tp_src for TCP's alone; this means every protocol's.
        Action::SetField { field: Field::TpSrc, value, mask: 0xffff } => {
            write!(f, "mod_tp_src:{value}")
        }
        Action::SetField { field: Field::TpDst, value, mask: 0xffff } => {
            write!(f, "mod_tp_dst:{value}")
        }
        Action::SetField { field, value, mask } => {
            let own = names.user_fields().get(*field);
            let name = match field {
                Field::VlanPcp => "vlan_pcp",
                _ => own.map_or(field.name(), |u| u.name()),
            };
            write!(f, "set_field:{}->{name}", Value(*field, *value, *mask))
        }
        Action::DecTtl => f.write_str("dec_ttl"),
        Action::CopyTtlOut => f.write_str("copy_ttl_out"),
        Action::CopyTtlIn => f.write_str("copy_ttl_in"),
        Action::PushVlan(t) => write!(f, "push_vlan:{t:#06x}"),
        Action::PopVlan => f.write_str("pop_vlan"),
        Action::PushMpls(t) => write!(f, "push_mpls:{t:#06x}"),
        Action::PopMpls(t) => write!(f, "pop_mpls:{t:#06x}"),
        Action::DecMplsTtl => f.write_str("dec_mpls_ttl"),
        Action::PushPbb(t) => write!(f, "push_pbb:{t:#06x}"),
        Action::PopPbb => f.write_str("pop_pbb"),
        Action::EncapVxlan { outer: o, vni, port } => {
            write!(f, "encap_vxlan(vni={vni},")?;
            outer(o, f)?;
            write!(f, ",port={port})")
        }
        Action::DecapVxlan => f.write_str("decap_vxlan"),
        Action::EncapGre { outer: o, key, sequence, checksum } => {
            f.write_str("encap_gre(")?;
            outer(o, f)?;
            if let Some(k) = key {
                write!(f, ",key={k}")?;
            }
            if let Some(s) = sequence {
                write!(f, ",seq={s}")?;
            }
            f.write_str(match checksum {
                GreChecksum::Present => ",csum=yes)",
                GreChecksum::Absent => ")",
            })
        }
        Action::DecapGre => f.write_str("decap_gre"),
        Action::Group(g) => write!(f, "group:{g}"),
        Action::Meter(m) => write!(f, "meter:{m}"),
        Action::Mirror(p) => write!(f, "mirror:{}", Port(p.0, names)),
        Action::WriteMetadata { value, mask: u64::MAX } => write!(f, "write_metadata:{value:#x}"),
        Action::WriteMetadata { value, mask } => write!(f, "write_metadata:{value:#x}/{mask:#x}"),
        Action::WriteActions(list) => {
            f.write_str("write_actions(")?;
            for (i, a) in list.iter().enumerate() {
                f.write_str(if i > 0 { "," } else { "" })?;
                action(a, names, f)?;
            }
            f.write_str(")")
        }
        Action::ClearActions => f.write_str("clear_actions"),
        Action::ModVlanVid(v) => write!(f, "mod_vlan_vid:{v}"),
        Action::ModVlanPcp(p) => write!(f, "mod_vlan_pcp:{p}"),
        Action::Goto(t) => write!(f, "goto_table:{t}"),
    }
}
