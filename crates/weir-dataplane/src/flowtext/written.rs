//! What stands in the parentheses of `write_actions`: actions for the frame's action set.
//!
//! Room: text to `Action`s that can be in a set (OpenFlow 1.3, §5.10). Called by `actions`, which
//! knows the order of instructions; every action in a set is read as one in a list is.

use super::Names;
use super::actions::one;
use super::error::{Fault, FlowErrorKind, Parse};
use super::shape::Shape;
use super::token::Pairs;
use crate::action::Action;

/// Why an action can't be in a set, and what to write instead.
fn refused(name: &str) -> Option<FlowErrorKind> {
    let is = |any: &[&str]| any.iter().any(|n| name.eq_ignore_ascii_case(n));
    let (what, instead) =
        if is(&["write_actions", "clear_actions", "meter", "write_metadata", "goto_table"]) {
            ("an instruction has no place in an action set", "write it beside write_actions")
        } else if is(&["drop"]) {
            ("an action set has no drop", "clear_actions leaves nothing to do at the last table")
        } else if is(&["enqueue", "pop_queue"]) {
            // Both put the queue back behind the output, and a set has one queue.
            ("an action set has one queue", "write set_queue:QUEUE,output:PORT")
        } else {
            return None;
        };
    Some(FlowErrorKind::Refused { what, instead })
}

/// Reads the set's actions, for frames of `shape` at that point. `None`: nothing is written.
pub(super) fn write_actions<'a>(
    text: &'a str,
    names: &dyn Names,
    shape: &mut Shape,
) -> Parse<'a, Option<Action>> {
    let mut set = Vec::new();
    let mut pairs = Pairs::new(text);
    while let Some(key) = pairs.key()? {
        let value = pairs.value()?;
        if let Some(kind) = refused(key) {
            return Err(Fault::new(key, kind));
        }
        one(key, value, names, shape, &mut set).map_err(|k| k.place(key, value))?;
    }
    Ok((!set.is_empty()).then_some(Action::WriteActions(set)))
}
