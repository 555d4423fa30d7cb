//! Whether a flow's set-field actions may meet the packets that it matches (1.3 §7.2.5,
//! OFPAT_SET_FIELD): the match demands what the field needs, or an action before has made it so.
//!
//! Room: the 1.3 encoding; called for flows that are added or changed. Groups have no match, so
//! their buckets are not looked at.

use crate::model::{Action, ErrorCode, Field, FieldMatch, Instruction, Match, VLAN_PRESENT};

/// What is known of a packet's headers at some action.
#[derive(Clone, Copy, Debug)]
struct Known {
    in_port: Option<FieldMatch>,
    vlan: Option<FieldMatch>,
    eth_type: Option<FieldMatch>,
    ip_proto: Option<FieldMatch>,
    icmpv6_type: Option<FieldMatch>,
}

/// Checks a flow's instructions, which stand in the order of §5.9.
///
/// # Errors
/// MATCH_INCONSISTENT.
pub(super) fn check(matcher: &Match, instructions: &[Instruction]) -> Result<(), ErrorCode> {
    if !instructions.iter().any(sets_a_field) {
        return Ok(());
    }
    let mut known = Known::by(matcher);
    for instruction in instructions {
        match instruction {
            Instruction::Apply(list) => list.iter().try_for_each(|a| known.pass(a))?,
            Instruction::Write(list) => {
                // An action set has an order of its own (§5.10): whatever the list's, tags come
                // and go before fields are written.
                let mut set = known;
                let (fields, tags): (Vec<&Action>, Vec<&Action>) =
                    list.iter().partition(|a| matches!(a, Action::SetField(..)));
                let (pops, pushes): (Vec<&Action>, Vec<&Action>) =
                    tags.into_iter().partition(|a| {
                        matches!(a, Action::PopVlan | Action::PopMpls(_) | Action::PopPbb)
                    });
                pops.into_iter().chain(pushes).chain(fields).try_for_each(|a| set.pass(a))?;
            }
            _ => {}
        }
    }
    Ok(())
}

fn sets_a_field(instruction: &Instruction) -> bool {
    match instruction {
        Instruction::Apply(list) | Instruction::Write(list) => {
            list.iter().any(|a| matches!(a, Action::SetField(..)))
        }
        _ => false,
    }
}

fn exactly(field: Field, value: u128) -> Option<FieldMatch> {
    Some(FieldMatch { field, value, mask: field.full() })
}

impl Known {
    fn by(matcher: &Match) -> Known {
        let of = |field| matcher.get(field).copied();
        Known {
            in_port: of(Field::InPort),
            vlan: of(Field::VlanVid),
            eth_type: of(Field::EthType),
            ip_proto: of(Field::IpProto),
            icmpv6_type: of(Field::Icmpv6Type),
        }
    }

    fn of(&self, field: Field) -> Option<FieldMatch> {
        match field {
            Field::InPort => self.in_port,
            Field::VlanVid => self.vlan,
            Field::EthType => self.eth_type,
            Field::IpProto => self.ip_proto,
            Field::Icmpv6Type => self.icmpv6_type,
            _ => None,
        }
    }

    /// Carries out an action on what is known.
    fn pass(&mut self, action: &Action) -> Result<(), ErrorCode> {
        match action {
            Action::SetField(field, value) => {
                if !field.prerequisite().met(|f| self.of(f)) {
                    return Err(ErrorCode::ActionMatchInconsistent);
                }
                let now = exactly(*field, *value);
                match field {
                    Field::VlanVid => self.vlan = now,
                    Field::EthType => self.eth_type = now,
                    Field::IpProto => self.ip_proto = now,
                    Field::Icmpv6Type => self.icmpv6_type = now,
                    _ => {}
                }
            }
            Action::PushVlan(_) => {
                let present = u128::from(VLAN_PRESENT);
                self.vlan =
                    Some(FieldMatch { field: Field::VlanVid, value: present, mask: present });
            }
            Action::PopVlan => self.vlan = None,
            Action::PushMpls(tag) | Action::PopMpls(tag) => self.ethernet(Some(*tag)),
            Action::PushPbb(tag) => {
                self.vlan = None;
                self.ethernet(Some(*tag));
            }
            Action::PopPbb => {
                self.vlan = None;
                self.ethernet(None);
            }
            _ => {}
        }
        Ok(())
    }

    /// Another EtherType; nothing is known of what follows it.
    fn ethernet(&mut self, eth_type: Option<u16>) {
        self.eth_type = eth_type.and_then(|t| exactly(Field::EthType, u128::from(t)));
        self.ip_proto = None;
        self.icmpv6_type = None;
    }
}
