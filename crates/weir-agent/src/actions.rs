//! Actions: OpenFlow's checked against the switch as it is, and turned into the data plane's
//! (1.3 §5.12, §7.2.5; 1.0 §3.3, §5.2.4).
//!
//! Room: no state of its own. Called for the instructions of flows, the buckets of groups and
//! packet-outs.

use crate::fields::{VID_PRESENT, key, sets};
use std::collections::BTreeSet;
use weir_classify::Field as Key;
use weir_dataplane::{Action as Act, Out, PortNo};
use weir_openflow::model::{Action, ErrorCode, Field, GROUP_MAX, Port};

/// What actions may refer to.
pub(crate) trait World {
    /// Whether the switch has this port.
    fn has_port(&self, port: Port) -> bool;
    /// Whether it has this group.
    fn has_group(&self, group: u32) -> bool;
    /// Whether it has this meter.
    fn has_meter(&self, meter: u32) -> bool;
    /// Whether a port has this queue; [`Port::ANY`]: whether any has.
    fn has_queue(&self, port: Port, queue: u32) -> bool;
    /// Tables.
    fn tables(&self) -> u8;
}

/// Where a list of actions stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Place {
    /// In a flow or a bucket.
    Rule,
    /// In a packet-out, where TABLE is allowed.
    PacketOut,
}

/// What a list of actions refers to, gathered while it is checked.
#[derive(Debug, Default)]
pub(crate) struct Named {
    pub outs: BTreeSet<Port>,
    pub groups: BTreeSet<u32>,
    pub queues: BTreeSet<(Port, u32)>,
}

/// Checks actions and turns them. Whether set-field fits the match was checked when the message was
/// read; a frame that lacks the field is left as it is.
///
/// # Errors
/// BAD_ACTION with the code that fits.
pub(crate) fn turn(
    actions: &[Action],
    place: Place,
    world: &impl World,
    named: &mut Named,
) -> Result<Vec<Act>, ErrorCode> {
    let mut out = Vec::with_capacity(actions.len());
    for a in actions {
        match a {
            Action::Output { port, max_len } => {
                named.outs.insert(*port);
                out.push(Act::Output(output(*port, *max_len, place, world)?));
            }
            Action::Enqueue { port, queue } => {
                let to = match *port {
                    p if p.is_physical() || p == Port::IN_PORT => {
                        output(p, u16::MAX, place, world)?
                    }
                    _ => return Err(ErrorCode::ActionBadOutPort),
                };
                if *queue != 0 && !world.has_queue(*port, *queue) {
                    return Err(ErrorCode::ActionBadQueue);
                }
                named.outs.insert(*port);
                named.queues.extend((*queue != 0).then_some((*port, *queue)));
                out.extend([Act::SetQueue(*queue), Act::Output(to), Act::SetQueue(0)]);
            }
            Action::SetQueue(q) => {
                if *q != 0 && !world.has_queue(Port::ANY, *q) {
                    return Err(ErrorCode::ActionBadQueue);
                }
                named.queues.extend((*q != 0).then_some((Port::ANY, *q)));
                out.push(Act::SetQueue(*q));
            }
            Action::Group(g) => {
                if *g > GROUP_MAX || !world.has_group(*g) {
                    return Err(ErrorCode::ActionBadOutGroup);
                }
                named.groups.insert(*g);
                out.push(Act::Group(*g));
            }
            other => out.push(change(other)?),
        }
    }
    Ok(out)
}

/// Where an output goes.
fn output(port: Port, max_len: u16, place: Place, world: &impl World) -> Result<Out, ErrorCode> {
    Ok(match port {
        Port::IN_PORT => Out::InPort,
        Port::NORMAL => Out::Normal,
        Port::FLOOD => Out::Flood,
        Port::ALL => Out::All,
        Port::CONTROLLER => Out::Controller(max_len),
        Port::LOCAL => Out::Local,
        Port::TABLE if place == Place::PacketOut => Out::Table,
        p if p.is_physical() && world.has_port(p) => Out::Port(PortNo(p.0)),
        _ => return Err(ErrorCode::ActionBadOutPort),
    })
}

/// An action that changes the frame.
fn change(a: &Action) -> Result<Act, ErrorCode> {
    let set = |field: Key, value: u128| Act::SetField { field, value, mask: field.full() };
    let bad = ErrorCode::ActionBadArgument;
    Ok(match *a {
        Action::SetField(field, value) => {
            if !sets(field) {
                return Err(ErrorCode::ActionBadSetType);
            }
            let no_tag = field == Field::VlanVid && value & VID_PRESENT == 0;
            if value & !field.full() != 0 || no_tag {
                return Err(ErrorCode::ActionBadSetArgument);
            }
            set(key(field), value)
        }
        Action::SetVlanVid(v) if v <= 0xfff => Act::ModVlanVid(v),
        Action::SetVlanPcp(p) if p <= 7 => Act::ModVlanPcp(p),
        Action::SetNwTos(t) if t & 3 == 0 => set(Key::IpDscp, (t >> 2).into()),
        Action::SetVlanVid(_) | Action::SetVlanPcp(_) | Action::SetNwTos(_) => return Err(bad),
        Action::SetTpSrc(p) => set(Key::TpSrc, p.into()),
        Action::SetTpDst(p) => set(Key::TpDst, p.into()),
        Action::PushVlan(t @ (0x8100 | 0x88a8)) => Act::PushVlan(t),
        Action::PushMpls(t @ (0x8847 | 0x8848)) => Act::PushMpls(t),
        Action::PushPbb(t @ 0x88e7) => Act::PushPbb(t),
        Action::PushVlan(_) | Action::PushMpls(_) | Action::PushPbb(_) => return Err(bad),
        Action::PopVlan => Act::PopVlan,
        Action::PopMpls(t) if t >= 0x600 => Act::PopMpls(t),
        Action::PopMpls(_) => return Err(bad),
        Action::PopPbb => Act::PopPbb,
        Action::SetNwTtl(t) => set(Key::IpTtl, t.into()),
        Action::DecNwTtl => Act::DecTtl,
        Action::SetMplsTtl(t) => set(Key::MplsTtl, t.into()),
        Action::DecMplsTtl => Act::DecMplsTtl,
        Action::CopyTtlOut => Act::CopyTtlOut,
        Action::CopyTtlIn => Act::CopyTtlIn,
        Action::Experimenter { .. } => return Err(ErrorCode::ActionBadExperimenter),
        _ => return Err(ErrorCode::ActionBadType),
    })
}
