//! Requests that are answered again when their answer was whole: OpenFlow knows one answer to a request, and who reads a
//! later one takes it for that of another.
//!
//! Pure, a part of [`super::core`]. Barriers and statistics; what modules ask otherwise they judge themselves.

use super::core::Expected;
use crate::document::{Document, Outcome, Verdict};
use std::collections::BTreeSet;
use weir_openflow::model::{Message, Msg};

/// Requests kept in mind, the newest.
const KEPT: usize = 1 << 16;

/// What was answered, and what again.
#[derive(Debug, Default)]
pub(super) struct Twice {
    answered: BTreeSet<u32>,
    again: u64,
    /// The first of them, in words.
    first: Option<&'static str>,
}

impl Twice {
    /// A message came; `expected`: the request that it was the last of the answer to.
    pub(super) fn came(&mut self, msg: &Msg, expected: Option<&Expected>) {
        let what = match msg.body {
            Message::BarrierReply => "a barrier request",
            Message::StatsReply { .. } => "a statistics request",
            _ => return,
        };
        if expected.is_some() {
            // Numbers grow: those that go are the oldest.
            if self.answered.len() >= KEPT {
                self.answered.pop_first();
            }
            self.answered.insert(msg.xid);
        } else if self.answered.contains(&msg.xid) {
            self.again += 1;
            self.first.get_or_insert(what);
        }
    }

    /// Another connection begins.
    pub(super) fn forget(&mut self) {
        self.answered.clear();
    }

    /// Says so; as a note where the control channel's verdict is given already.
    pub(super) fn write(&self, document: &mut Document) {
        let Some(what) = self.first else { return };
        let s = format!(
            "The switch answers again what it had answered: {} such messages came, the first for {what}.",
            self.again
        );
        let id = "control-channel-works";
        if document.verdicts.iter().any(|v| v.id == id) {
            return document.note(s);
        }
        let verdict = Verdict::new(id, Outcome::Fails, s);
        document.verdicts.push(verdict.with("answered again", self.again as f64, ""));
    }
}
