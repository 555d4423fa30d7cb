//! `set_field` and `load`: writing a value into a field by its name.
//!
//! Room: text to one `SetField`, for frames of a known shape.

use super::Names;
use super::error::FlowErrorKind;
use super::shape::Shape;
use super::value::{masked, number};
use super::words::{Term, term};
use crate::action::Action;
use weir_classify::{Field, Prereq, VLAN_PRESENT, ones};

type Read<T> = Result<T, FlowErrorKind>;

/// The DSCP in a ToS, whose ECN bits must be zero.
pub(super) fn dscp(tos: u128) -> Read<u128> {
    if tos & 3 != 0 {
        let expected = "a ToS without ECN bits (a multiple of 4); set those with mod_nw_ecn";
        return Err(FlowErrorKind::BadValue { expected });
    }
    Ok(tos >> 2)
}

/// Where `set_field` and `load` write.
struct Target {
    field: Field,
    /// Distance of the written value from the field's: 2 for a ToS written into the DSCP.
    tos: bool,
}

const NOT_A_FIELD: FlowErrorKind =
    FlowErrorKind::BadValue { expected: "a field that can be written; see ovs-fields(7)" };

/// The field called `name`, by weir's, Open vSwitch's or OXM's name, if frames have it.
fn target(name: &str, names: &dyn Names, shape: &Shape) -> Read<Target> {
    let mut lower = [0u8; 24];
    let name = match name.get(..7).map(|p| (p, name.get(7..).unwrap_or_default())) {
        Some(("OXM_OF_" | "NXM_OF_" | "NXM_NX_", rest)) => {
            let l = lower.get_mut(..rest.len()).ok_or(NOT_A_FIELD)?;
            l.copy_from_slice(rest.as_bytes());
            l.make_ascii_lowercase();
            match std::str::from_utf8(l).map_err(|_| NOT_A_FIELD)? {
                "ip_ttl" => "nw_ttl",
                other => other,
            }
        }
        _ => name,
    };
    let (field, needs, tos) = match term(name, names).ok_or(NOT_A_FIELD)? {
        Term::Plain(f) => (f, f.info().prereq, false),
        Term::Of(f, proto) => {
            shape.need_of(f.info().prereq, proto)?;
            (f, f.info().prereq, false)
        }
        Term::VlanPcp => (Field::VlanPcp, Prereq::Vlan, false),
        Term::NwTos => (Field::IpDscp, Prereq::Ip, true),
        Term::DlVlan => {
            let (what, instead) = ("dl_vlan is not written by set_field", VLAN_HINT);
            return Err(FlowErrorKind::Refused { what, instead });
        }
        Term::InPort => {
            let (what, instead) = ("in_port is not written", "send back with the action in_port");
            return Err(FlowErrorKind::Refused { what, instead });
        }
        _ => return Err(NOT_A_FIELD),
    };
    let read_only = matches!(
        field,
        Field::EthType
            | Field::IpProto
            | Field::IpFrag
            | Field::TcpFlags
            | Field::MplsBos
            | Field::InnerTci
            | Field::Ipv6Exthdr
            | Field::InPhyPort
            | Field::UserPresent
            | Field::User0
            | Field::User1
            | Field::User2
            | Field::User3
    );
    if read_only {
        return Err(NOT_A_FIELD);
    }
    let needs = if matches!(field, Field::VlanTci | Field::VlanVid) { Prereq::Vlan } else { needs };
    shape.need(needs)?;
    Ok(Target { field, tos })
}

const VLAN_HINT: &str = "write mod_vlan_vid:5 or set_field:4101->vlan_vid (4096 + 5)";

/// A tag that is written must stay a tag.
fn keeps_tag(field: Field, value: u128, mask: u128) -> Read<()> {
    let p = u128::from(VLAN_PRESENT);
    let tag = matches!(field, Field::VlanTci | Field::VlanVid);
    if tag && mask & p != 0 && value & p == 0 {
        let what = "the value lacks the bit 0x1000 that says that there is a tag";
        return Err(FlowErrorKind::Refused { what, instead: VLAN_HINT });
    }
    Ok(())
}

/// `VALUE[/MASK]->FIELD`.
pub(super) fn set_field(text: &str, names: &dyn Names, shape: &Shape) -> Read<Action> {
    let bad = FlowErrorKind::BadValue { expected: "VALUE->FIELD or VALUE/MASK->FIELD" };
    let (v, name) = text.split_once("->").ok_or(bad)?;
    let Target { field, tos } = target(name, names, shape)?;
    if v == "*" {
        return Err(NOT_A_FIELD);
    }
    let i = field.info();
    let width = match field {
        Field::IcmpType | Field::IcmpCode => 8,
        _ if tos => 8,
        _ => i.width,
    };
    let (mut value, mask) = masked(v, i.form, width)?;
    if tos {
        if mask.is_some() {
            return Err(FlowErrorKind::BadMask { why: "write set_field:VALUE/MASK->ip_dscp" });
        }
        value = dscp(value)?;
    }
    let mask = mask.unwrap_or(field.full());
    keeps_tag(field, value, mask)?;
    Ok(Action::SetField { field, value, mask })
}

/// `VALUE->FIELD[first..last]`, `VALUE->FIELD[bit]`, `VALUE->FIELD[]`.
pub(super) fn load(text: &str, names: &dyn Names, shape: &Shape) -> Read<Action> {
    let bad = FlowErrorKind::BadValue { expected: "VALUE->FIELD[] or VALUE->FIELD[FIRST..LAST]" };
    let (v, to) = text.split_once("->").ok_or(bad.clone())?;
    let (name, bits) = match to.split_once('[') {
        Some((name, b)) => (name, b.strip_suffix(']').ok_or(bad.clone())?),
        None => (to, ""),
    };
    let Target { field, tos } = target(name, names, shape)?;
    if tos {
        let (what, instead) = ("load can't write the ToS", "write set_field:VALUE->ip_dscp");
        return Err(FlowErrorKind::Refused { what, instead });
    }
    let width = field.info().width;
    let (first, last) = match bits.split_once("..") {
        None if bits.is_empty() => (0, width - 1),
        None => number(bits, 127).map(|b| (b as u32, b as u32))?,
        Some((a, b)) => (number(a, 127)? as u32, number(b, 127)? as u32),
    };
    if first > last || last >= width {
        return Err(FlowErrorKind::BadMask { why: "the field has no such bits" });
    }
    let n = last - first + 1;
    let value = u128::from(number(v, ones(n.min(64)) as u64)?) << first;
    let mask = ones(n) << first;
    keeps_tag(field, value, mask)?;
    Ok(Action::SetField { field, value, mask })
}
