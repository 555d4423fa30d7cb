//! What loads sent and what came of them, summed up for the document; errors and losses beside it.
//!
//! Pure.

use crate::document::{Document, Load};
use crate::module::LoadDone;
use std::collections::BTreeMap;

#[derive(Debug)]
struct Row {
    channel: usize,
    asked_fps: f64,
    sent: u64,
    forgone: u64,
    received: u64,
    /// Intervals and the time they took, for the rate.
    intervals: u64,
    ns: u64,
}

/// Loads of one rate on one channel are one row: a module may begin thousands.
#[derive(Debug, Default)]
pub(super) struct Tally {
    rows: Vec<Row>,
    open: BTreeMap<u8, u64>,
    /// Counted losses of the instrument, by what lost them.
    lost: BTreeMap<&'static str, u64>,
    /// Errors that the switch sent, by their name.
    pub(super) errors: BTreeMap<String, u64>,
}

/// Rows kept: past that, loads are added to the last.
const ROWS: usize = 256;

impl Tally {
    pub(super) fn begin(&mut self, load: u8) {
        self.open.insert(load, 0);
    }

    pub(super) fn received(&mut self, load: u8) {
        if let Some(n) = self.open.get_mut(&load) {
            *n += 1;
        }
    }

    pub(super) fn done(&mut self, d: &LoadDone) {
        let at = self
            .rows
            .iter()
            .position(|r| r.channel == d.channel && r.asked_fps == d.asked_fps)
            .or_else(|| (self.rows.len() >= ROWS).then_some(ROWS - 1))
            .unwrap_or_else(|| {
                self.rows.push(Row {
                    channel: d.channel,
                    asked_fps: d.asked_fps,
                    sent: 0,
                    forgone: 0,
                    received: 0,
                    intervals: 0,
                    ns: 0,
                });
                self.rows.len() - 1
            });
        let row = &mut self.rows[at];
        row.sent += d.sent;
        row.forgone += d.forgone;
        // Frames that are still on their way are added when the next load of that number begins, or at
        // the end.
        row.intervals += d.sent.saturating_sub(1);
        row.ns += d.to.since(d.from).0;
        let received = self.open.insert(d.load.0, 0).unwrap_or(0);
        self.rows[at].received += received;
    }

    pub(super) fn lost(&mut self, what: &'static str, count: u64) {
        if count > 0 {
            *self.lost.entry(what).or_default() += count;
        }
    }

    pub(super) fn error(&mut self, name: String) {
        // As many as there are codes, and no more.
        if self.errors.len() < 256 || self.errors.contains_key(&name) {
            *self.errors.entry(name).or_default() += 1;
        }
    }

    pub(super) fn write(&self, names: &[String], document: &mut Document) {
        let mut forgone = 0;
        for r in &self.rows {
            forgone += r.forgone;
            document.loads.push(Load {
                channel: names.get(r.channel).cloned().unwrap_or_default(),
                asked_fps: Some(r.asked_fps),
                sent_fps: if r.ns == 0 { 0.0 } else { r.intervals as f64 * 1e9 / r.ns as f64 },
                sent: r.sent,
                received: r.received,
            });
        }
        if forgone > 0 {
            document.note(format!(
                "{forgone} probes were due and not sent: the generator had to wait for a core or for the port."
            ));
        }
        for (what, n) in &self.lost {
            document.note(format!(
                "The instrument itself lost {n} {what}: it was too slow for them. Take a lower rate, or give it a core of its own."
            ));
        }
        for (error, n) in &self.errors {
            document.note(format!("The switch reported an error {n} times: {error}."));
        }
    }
}
