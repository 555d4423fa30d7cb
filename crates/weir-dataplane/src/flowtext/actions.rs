//! What follows `actions=`.
//!
//! Room: text to `Action`s. As Open vSwitch does for OpenFlow 1.1 and later, an action is refused
//! when frames that match need not have what it changes; [`Shape`] follows what is known of a frame
//! from action to action.

use super::error::{Fault, FlowErrorKind, Parse, nearest};
use super::setfield::{dscp, load, set_field};
use super::shape::Shape;
use super::token::Pairs;
use super::value::{ipv4, mac, masked, number};
use super::words::{Reserved, port, reserved};
use super::written::write_actions;
use super::{Names, tunnel};
use crate::action::{Action, Out};
use weir_classify::{Field, Form, Prereq, VLAN_PRESENT};

/// Names that are read, for suggestions.
const NAMES: &[&str] = &[
    "output",
    "in_port",
    "all",
    "flood",
    "normal",
    "controller",
    "local",
    "drop",
    "mod_dl_src",
    "mod_dl_dst",
    "mod_nw_src",
    "mod_nw_dst",
    "mod_nw_tos",
    "mod_nw_ecn",
    "mod_nw_ttl",
    "mod_tp_src",
    "mod_tp_dst",
    "mod_vlan_vid",
    "mod_vlan_pcp",
    "set_vlan_vid",
    "set_vlan_pcp",
    "strip_vlan",
    "push_vlan",
    "pop_vlan",
    "push_mpls",
    "pop_mpls",
    "set_mpls_label",
    "set_mpls_tc",
    "set_mpls_ttl",
    "dec_mpls_ttl",
    "dec_ttl",
    "set_field",
    "load",
    "set_queue",
    "pop_queue",
    "enqueue",
    "group",
    "meter",
    "goto_table",
    "clear_actions",
    "write_actions",
    "write_metadata",
    "set_tunnel",
    "set_tunnel64",
    "channel",
    "mirror",
    "encap_vxlan",
    "decap_vxlan",
    "encap_gre",
    "decap_gre",
    "push_pbb",
    "pop_pbb",
    "copy_ttl_in",
    "copy_ttl_out",
];

type Read<T> = Result<T, FlowErrorKind>;

/// The order of OpenFlow's instructions (1.3, §5.9).
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Phase {
    Meter,
    Apply,
    Clear,
    Write,
    Metadata,
    Goto,
}

/// Reads actions for frames of `shape` in table `table`, to the end of `out`.
pub(super) fn parse<'a>(
    text: &'a str,
    names: &dyn Names,
    table: u8,
    mut shape: Shape,
    out: &mut Vec<Action>,
) -> Parse<'a, ()> {
    const ALONE: FlowErrorKind =
        FlowErrorKind::Order { rule: "drop stands alone; leave out either it or the rest" };
    let mut phase = None;
    let first = out.len();
    let mut dropped = false;
    let mut pairs = Pairs::new(text);
    while let Some(key) = pairs.key()? {
        let value = pairs.value()?;
        let before = out.len();
        if dropped {
            return Err(Fault::new(key, ALONE));
        }
        if key.eq_ignore_ascii_case("write_actions") {
            let set = write_actions(value.unwrap_or_default(), names, &mut shape)?;
            out.extend(set);
        } else {
            one(key, value, names, &mut shape, out).map_err(|kind| kind.place(key, value))?;
        }
        for a in out.get(before..).unwrap_or_default() {
            let now = match a {
                Action::Meter(_) => Phase::Meter,
                Action::ClearActions => Phase::Clear,
                Action::WriteActions(_) => Phase::Write,
                Action::WriteMetadata { .. } => Phase::Metadata,
                Action::Goto(_) => Phase::Goto,
                _ => Phase::Apply,
            };
            if *a == Action::Drop {
                dropped = true;
                if before != first {
                    return Err(Fault::new(key, ALONE));
                }
            }
            if phase.is_some_and(|p| now < p || now == p && now != Phase::Apply) {
                let rule = "first meter, then actions, then clear_actions, write_actions, \
                            write_metadata and goto_table, each once";
                return Err(Fault::new(key, FlowErrorKind::Order { rule }));
            }
            phase = Some(now);
            if let Action::Goto(t) = a
                && *t <= table
            {
                let rule = "goto_table goes on to a table with a larger number only";
                return Err(Fault::new(key, FlowErrorKind::Order { rule }));
            }
        }
    }
    if out.len() == first {
        out.push(Action::Drop);
    }
    Ok(())
}

fn none(value: Option<&str>) -> Read<()> {
    match value {
        None | Some("") => Ok(()),
        Some(_) => Err(FlowErrorKind::UnexpectedValue),
    }
}

fn given(value: Option<&str>) -> Read<&str> {
    value.filter(|v| !v.is_empty()).ok_or(FlowErrorKind::MissingValue {
        expected: "write ACTION:VALUE, or set_field:VALUE->FIELD",
    })
}

fn num(value: Option<&str>, max: u64) -> Read<u64> {
    number(given(value)?, max)
}

fn set(field: Field, value: u128) -> Action {
    Action::SetField { field, value, mask: field.full() }
}

/// One action, or the few that it comes down to.
pub(super) fn one(
    key: &str,
    value: Option<&str>,
    names: &dyn Names,
    shape: &mut Shape,
    out: &mut Vec<Action>,
) -> Read<()> {
    // Names of actions are read in any case, as in what Open vSwitch prints.
    let mut lower = [0u8; 24];
    let name = match lower.get_mut(..key.len()) {
        Some(l) if key.bytes().any(|b| b.is_ascii_uppercase()) && key.is_ascii() => {
            l.copy_from_slice(key.as_bytes());
            l.make_ascii_lowercase();
            std::str::from_utf8(l).unwrap_or(key)
        }
        _ => key,
    };
    let action = match name {
        "output" => output(given(value)?, names)?,
        "drop" => none(value).map(|()| Action::Drop)?,
        "controller" => controller(value)?,
        "mod_dl_src" => set(Field::EthSrc, mac(given(value)?)?.into()),
        "mod_dl_dst" => set(Field::EthDst, mac(given(value)?)?.into()),
        "mod_nw_src" | "mod_nw_dst" => {
            shape.need(Prereq::Ipv4)?;
            let f = if name == "mod_nw_src" { Field::Ipv4Src } else { Field::Ipv4Dst };
            set(f, ipv4(given(value)?)?.to_bits().into())
        }
        "mod_nw_tos" => {
            shape.need(Prereq::Ip)?;
            set(Field::IpDscp, dscp(num(value, 0xff)?.into())?)
        }
        "mod_nw_ecn" => {
            shape.need(Prereq::Ip)?;
            set(Field::IpEcn, num(value, 3)?.into())
        }
        "mod_nw_ttl" => {
            shape.need(Prereq::Ip)?;
            set(Field::IpTtl, num(value, 0xff)?.into())
        }
        "mod_tp_src" | "mod_tp_dst" => {
            shape.need(Prereq::L4)?;
            let f = if name == "mod_tp_src" { Field::TpSrc } else { Field::TpDst };
            set(f, num(value, 0xffff)?.into())
        }
        "mod_vlan_vid" => {
            let vid = num(value, 0xfff)?;
            push_if_untagged(shape, out);
            set(Field::VlanVid, u128::from(vid) | u128::from(VLAN_PRESENT))
        }
        "mod_vlan_pcp" => {
            let pcp = num(value, 7)?;
            push_if_untagged(shape, out);
            set(Field::VlanPcp, pcp.into())
        }
        "set_vlan_vid" => {
            shape.need(Prereq::Vlan)?;
            set(Field::VlanVid, u128::from(num(value, 0xfff)?) | u128::from(VLAN_PRESENT))
        }
        "set_vlan_pcp" => {
            shape.need(Prereq::Vlan)?;
            set(Field::VlanPcp, num(value, 7)?.into())
        }
        "strip_vlan" | "pop_vlan" => {
            none(value)?;
            shape.need(Prereq::Vlan)?;
            shape.pop_vlan();
            Action::PopVlan
        }
        "push_vlan" => {
            let tpid = ethertype(value, &[0x8100, 0x88a8], "0x8100 or 0x88a8")?;
            shape.push_vlan();
            Action::PushVlan(tpid)
        }
        "push_mpls" => {
            let t = ethertype(value, &[0x8847, 0x8848], "0x8847 or 0x8848")?;
            shape.becomes(t);
            Action::PushMpls(t)
        }
        "pop_mpls" => {
            let t = num(value, 0xffff)? as u16;
            shape.need(Prereq::Mpls)?;
            shape.becomes(t);
            Action::PopMpls(t)
        }
        "set_mpls_label" => mpls(shape, Field::MplsLabel, num(value, 0xf_ffff)?)?,
        "set_mpls_tc" => mpls(shape, Field::MplsTc, num(value, 7)?)?,
        "set_mpls_ttl" => mpls(shape, Field::MplsTtl, num(value, 0xff)?)?,
        "dec_mpls_ttl" => {
            none(value)?;
            shape.need(Prereq::Mpls)?;
            Action::DecMplsTtl
        }
        "dec_ttl" => {
            if value.is_some_and(|v| !v.is_empty()) {
                let what = "controllers can't be chosen by id";
                return Err(FlowErrorKind::Refused { what, instead: "write dec_ttl alone" });
            }
            shape.need(Prereq::Ip)?;
            Action::DecTtl
        }
        "set_field" => set_field(given(value)?, names, shape)?,
        "load" => load(given(value)?, names, shape)?,
        "set_queue" => Action::SetQueue(num(value, u32::MAX.into())? as u32),
        "pop_queue" => none(value).map(|()| Action::SetQueue(0))?,
        "enqueue" => {
            let bad = FlowErrorKind::BadValue { expected: "enqueue:PORT:QUEUE" };
            let (p, q) = given(value)?.split_once([':', ',']).ok_or(bad)?;
            let (to, queue) = (output(p, names)?, number(q, u32::MAX.into())? as u32);
            out.extend([Action::SetQueue(queue), to]);
            Action::SetQueue(0)
        }
        "group" => Action::Group(num(value, 0xffff_ff00)? as u32),
        "meter" => match num(value, 0xffff_0000)? {
            0 => return Err(FlowErrorKind::BadValue { expected: "a meter; they count from 1" }),
            n => Action::Meter(n as u32),
        },
        "goto_table" => Action::Goto(num(value, 254)? as u8),
        "write_metadata" => {
            let (v, m) = masked(given(value)?, Form::Number, 64)?;
            Action::WriteMetadata { value: v as u64, mask: m.unwrap_or(u128::MAX) as u64 }
        }
        "set_tunnel" | "set_tunnel64" => set(Field::TunnelId, num(value, u64::MAX)?.into()),
        "channel" => none(value).map(|()| Action::ToChannel)?,
        "mirror" => match port(given(value)?, names)? {
            Reserved::No(p) => Action::Mirror(p),
            _ => return Err(FlowErrorKind::UnknownPort),
        },
        "encap_vxlan" => {
            let (a, ip) = tunnel::vxlan(given(value)?)?;
            shape.wrapped(ip, 17);
            a
        }
        "encap_gre" => {
            let (a, ip) = tunnel::gre(given(value)?)?;
            shape.wrapped(ip, 47);
            a
        }
        "decap_vxlan" | "decap_gre" => {
            none(value)?;
            shape.forget_all();
            if name == "decap_vxlan" { Action::DecapVxlan } else { Action::DecapGre }
        }
        "push_pbb" => {
            let t = ethertype(value, &[0x88e7], "0x88e7")?;
            shape.becomes(t);
            Action::PushPbb(t)
        }
        "pop_pbb" => {
            none(value)?;
            shape.need(Prereq::Pbb)?;
            shape.forget_all();
            Action::PopPbb
        }
        "clear_actions" => none(value).map(|()| Action::ClearActions)?,
        "copy_ttl_in" => none(value).map(|()| Action::CopyTtlIn)?,
        "copy_ttl_out" => none(value).map(|()| Action::CopyTtlOut)?,
        _ => bare(name, key, value, names)?,
    };
    out.push(action);
    Ok(())
}

/// A port without `output:`, or what weir has not.
fn bare(name: &str, key: &str, value: Option<&str>, names: &dyn Names) -> Read<Action> {
    if value.is_none() {
        match port(key, names) {
            Ok(p) => return out_of(p),
            Err(e) if key.starts_with(|c: char| c == '"' || c.is_ascii_digit()) => return Err(e),
            Err(_) => {}
        }
    } else if let Some(p) = reserved(name) {
        none(value)?;
        return out_of(p);
    }
    Err(refused(name))
}

#[cold]
fn refused(name: &str) -> FlowErrorKind {
    let (what, instead) = match name {
        "resubmit" => ("weir does not resubmit", "go on with a later table by goto_table:N"),
        "move" => (
            "weir does not copy one field to another",
            "write the value with set_field, or the TTL with copy_ttl_in and copy_ttl_out",
        ),
        "push" | "pop" | "stack_push" => ("weir has no stack", "keep state in metadata"),
        "ct" | "nat" | "ct_clear" => (
            "flows track no connections",
            "have a VDP with program = \"firewall\" or \"nat\" do it",
        ),
        "learn" => (
            "flows do not make flows",
            "stations are learned by program = \"learning\", to which actions=NORMAL sends",
        ),
        "conjunction" | "multipath" | "bundle" | "bundle_load" => {
            ("weir does not have this extension of Open vSwitch's", "use groups or the controller")
        }
        "note" | "exit" | "sample" | "clone" | "check_pkt_larger" | "debug_recirc" | "encap"
        | "decap" | "fin_timeout" | "delete_field" | "unroll_xlate" => {
            ("weir does not have this extension of Open vSwitch's", "leave it out")
        }
        _ => return FlowErrorKind::UnknownAction { nearest: nearest(name, NAMES.iter()) },
    };
    FlowErrorKind::Refused { what, instead }
}

fn out_of(p: Reserved) -> Read<Action> {
    Ok(Action::Output(match p {
        Reserved::No(p) => Out::Port(p),
        Reserved::InPort => Out::InPort,
        Reserved::All => Out::All,
        Reserved::Flood => Out::Flood,
        Reserved::Normal => Out::Normal,
        Reserved::Controller => Out::Controller(u16::MAX),
        Reserved::Local => Out::Local,
    }))
}

fn output(text: &str, names: &dyn Names) -> Read<Action> {
    if text.contains(['[', '=']) {
        let (what, instead) = ("output takes a port, no register", "write output:PORT");
        return Err(FlowErrorKind::Refused { what, instead });
    }
    out_of(port(text, names)?)
}

/// `controller`, `controller:MAX_LEN`, `controller(max_len=N,reason=action)`.
fn controller(value: Option<&str>) -> Read<Action> {
    let Some(v) = value.filter(|v| !v.is_empty()) else {
        return Ok(Action::Output(Out::Controller(u16::MAX)));
    };
    if !v.contains('=') {
        return Ok(Action::Output(Out::Controller(number(v, 0xffff)? as u16)));
    }
    let mut max_len = None;
    for part in v.split([',', ' ']).filter(|p| !p.is_empty()) {
        match part.split_once('=') {
            Some(("max_len", n)) if max_len.is_none() => max_len = Some(number(n, 0xffff)? as u16),
            Some(("max_len", _)) => return Err(FlowErrorKind::Twice),
            Some(("reason", "action") | ("id", "0")) => {}
            _ => {
                let what = "of controller's arguments weir reads max_len and reason=action";
                return Err(FlowErrorKind::Refused { what, instead: "leave the others out" });
            }
        }
    }
    Ok(Action::Output(Out::Controller(max_len.unwrap_or(u16::MAX))))
}

fn ethertype(value: Option<&str>, which: &[u16], expected: &'static str) -> Read<u16> {
    let t = num(value, 0xffff)? as u16;
    if which.contains(&t) { Ok(t) } else { Err(FlowErrorKind::BadValue { expected }) }
}

/// OpenFlow 1.0 changed a tag or added one; from 1.1 on Open vSwitch puts a push in front where the
/// match does not demand a tag.
fn push_if_untagged(shape: &mut Shape, out: &mut Vec<Action>) {
    if !shape.has(Prereq::Vlan) {
        shape.push_vlan();
        out.push(Action::PushVlan(0x8100));
    }
}

fn mpls(shape: &Shape, f: Field, v: u64) -> Read<Action> {
    shape.need(Prereq::Mpls)?;
    Ok(set(f, v.into()))
}
