//! What the switch says and nobody can read: who waits for it is told at once, and the result is marked.
//!
//! Sans-I/O: a part of [`Core`]. The switch is not answered: an error would be about no request of its.

use super::core::{Core, Expected};
use super::terms::Phase;
use crate::document::{Outcome, Verdict};
use weir_openflow::codec::DecodeError;
use weir_packet::Nanos;

/// What a barrier request is called.
pub(super) const BARRIER: &str = "a barrier request";

fn strange(replies: u64) -> String {
    let s = if replies == 1 { "reply" } else { "replies" };
    format!("{replies} barrier {s} came that no request waited for, by the transaction id")
}

/// What could not be read so far.
#[derive(Debug, Default)]
pub(super) struct Misread {
    count: u64,
    /// The first of them, in words.
    first: Option<String>,
}

/// Why an answer is missing.
#[derive(Debug)]
pub(super) enum Lack {
    /// It did not come in time.
    Late,
    /// It came, and can't be read; how.
    Misread(String),
}

impl Lack {
    /// What the switch did.
    pub(super) fn words(&self) -> &'static str {
        match self {
            Self::Late => "it does not answer",
            Self::Misread(_) => "its answer can't be read",
        }
    }
}

impl Core {
    /// A message can't be read.
    pub(super) fn misread(&mut self, now: Nanos, e: &DecodeError) {
        let expected = self.expected.remove(&e.xid);
        if self.setup.asks_for_flows(e.xid)
            && let Some((class, number)) = e.field
        {
            // The switch may have its own fields; what can't be read can't be put back.
            return self.fail(
                now,
                format!(
                    "the switch has a flow with a match that weir can't put back (OXM class {class:#06x}, field {number}): take such flows out first"
                ),
            );
        }
        let version = if self.bench.is_13() { "1.3" } else { "1.0" };
        let how =
            format!("a message of type {} that is not OpenFlow {version} ({:?})", e.kind, e.code);
        let to = expected.as_ref().map_or(String::new(), |x| format!(", in answer to {}", x.what));
        self.misread.count += 1;
        self.misread.first.get_or_insert_with(|| format!("{how}{to}"));
        if self.phase == Phase::CleanUp && self.restored_by == Some(e.xid) {
            return self.restored();
        }
        if let Some(expected) = expected {
            self.unanswered(now, e.xid, &expected, &Lack::Misread(how));
        }
    }

    /// In words: what was not answered, and a guess why.
    pub(super) fn no_answer(&self, e: &Expected, lack: &Lack) -> String {
        let what = e.what;
        if let Lack::Misread(how) = lack {
            return format!(
                "the switch answers {what} with {how}: '--pcap FILE' saves what it says"
            );
        }
        let patience = self.settings.patience.as_secs_f64();
        let misread = match self.misread.count {
            0 => String::new(),
            n => format!("; {n} messages of it could not be read"),
        };
        if e.parts > 0 {
            return format!(
                "the switch did not end its answer to {what} within {patience} s: each part that came ({}) says that more follow{misread}",
                e.parts
            );
        }
        let strange = match self.strange_barriers {
            n if n > 0 && e.what == BARRIER => format!("; {}", strange(n)),
            _ => String::new(),
        };
        format!(
            "the switch did not answer {what} within {patience} s{strange}{misread}: it hangs, or is slower than '--patience'"
        )
    }

    /// What a switch does that neither answers nor refuses a barrier, which OpenFlow asks of every switch.
    pub(super) fn barrier_fault(&self, lack: &Lack) -> String {
        match (lack, self.strange_barriers) {
            (Lack::Misread(how), _) => format!("The switch answers a barrier request with {how}."),
            (Lack::Late, 0) => {
                let patience = self.settings.patience.as_secs_f64();
                format!("The switch did not answer a barrier request within {patience} s.")
            }
            (Lack::Late, n) => {
                format!(
                    "The switch does not answer a barrier request by its number: {}.",
                    strange(n)
                )
            }
        }
    }

    /// A verdict for a switch that was not understood, unless it ended the measurement by something: that is said.
    pub(super) fn mark_misread(&mut self) {
        let (n, Some(first)) = (self.misread.count, &self.misread.first) else { return };
        let s = match n {
            1 => format!("The switch sent {first}."),
            n => format!("The switch sent {n} messages that can't be read, at first {first}."),
        };
        if self.blamed.is_some() {
            return self.document.notes.push(s);
        }
        let verdict = Verdict::new("control-channel-works", Outcome::Fails, s);
        self.document.verdicts.push(verdict.with("messages that can't be read", n as f64, ""));
    }
}
