//! The action set (OpenFlow 1.3, §5.10): which actions can be in one, and in what order they are
//! carried out. Touches actions only. Called when rules and groups are compiled.

use super::CompileError;
use crate::action::Action;
use std::collections::BTreeMap;
use weir_classify::Field;

/// Places in a set: one for each kind of action and each field that can be set, in the order in
/// which they are carried out.
pub const KINDS: usize = 128;
/// The place of the mirror's copy; before it all changes.
pub const MIRROR: u8 = 125;
/// The place of the group.
pub const GROUP: u8 = 126;
/// The place of the output.
pub const OUTPUT: u8 = 127;
const FIELDS: u8 = 16;

// Fields have their places between the other changes and the queue.
const _: () = assert!(FIELDS as usize + Field::ALL.len() <= 124);

/// The place of an action in a set. `None`: it can't be in one.
pub fn kind(a: &Action) -> Option<u8> {
    Some(match a {
        Action::CopyTtlIn => 0,
        Action::DecapVxlan => 1,
        Action::DecapGre => 2,
        Action::PopVlan => 3,
        Action::PopMpls(_) => 4,
        Action::PopPbb => 5,
        Action::PushMpls(_) => 6,
        Action::PushPbb(_) => 7,
        Action::PushVlan(_) => 8,
        Action::EncapGre { .. } => 9,
        Action::EncapVxlan { .. } => 10,
        Action::CopyTtlOut => 11,
        Action::DecTtl => 12,
        Action::DecMplsTtl => 13,
        Action::ModVlanVid(_) => 14,
        Action::ModVlanPcp(_) => 15,
        Action::SetField { field, .. } => FIELDS + *field as u8,
        Action::SetQueue(_) => 124,
        Action::Mirror(_) => MIRROR,
        Action::Group(_) => GROUP,
        Action::Output(_) | Action::ToChannel => OUTPUT,
        Action::Drop
        | Action::Meter(_)
        | Action::WriteMetadata { .. }
        | Action::WriteActions(_)
        | Action::ClearActions
        | Action::Goto(_) => return None,
    })
}

/// The set that a list of writes makes: of two actions of a kind the later stays.
///
/// # Errors
/// [`CompileError::NotInSet`].
pub fn ordered(actions: &[Action]) -> Result<BTreeMap<u8, &Action>, CompileError> {
    actions.iter().map(|a| Ok((kind(a).ok_or(CompileError::NotInSet)?, a))).collect()
}

/// A set as the list of actions that carries it out: a group wins over an output.
///
/// # Errors
/// [`CompileError::NotInSet`].
pub fn as_list(actions: &[Action]) -> Result<Vec<Action>, CompileError> {
    let mut set = ordered(actions)?;
    if set.contains_key(&GROUP) {
        set.remove(&OUTPUT);
    }
    Ok(set.into_values().cloned().collect())
}
