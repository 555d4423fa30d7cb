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

/// A load, until its number is given anew.
#[derive(Debug)]
struct Open {
    one_in: u64,
    /// Frames that came before it had ended.
    received: u64,
    /// Where it belongs, once it has.
    row: Option<usize>,
}

/// Loads of one rate on one channel are one row: a module may begin thousands.
#[derive(Debug, Default)]
pub(super) struct Tally {
    rows: Vec<Row>,
    open: BTreeMap<u8, Open>,
    /// Counted losses of the instrument, by what lost them.
    lost: BTreeMap<&'static str, u64>,
    /// Errors that the switch sent, by their name.
    pub(super) errors: BTreeMap<String, u64>,
}

/// Rows kept: past that, loads are added to the last.
const ROWS: usize = 256;

impl Tally {
    pub(super) fn begin(&mut self, load: u8, one_in: u64) {
        self.open.insert(load, Open { one_in, received: 0, row: None });
    }

    /// A frame of a load came.
    pub(super) fn told(&mut self, load: u8) {
        self.came(load, 1, |one_in| one_in <= 1);
    }

    /// So many came of one that is counted.
    pub(super) fn counted(&mut self, load: u8, frames: u64) {
        self.came(load, frames, |one_in| one_in > 1);
    }

    fn came(&mut self, load: u8, frames: u64, is_mine: impl Fn(u64) -> bool) {
        let Some(open) = self.open.get_mut(&load).filter(|o| is_mine(o.one_in)) else { return };
        match open.row.and_then(|at| self.rows.get_mut(at)) {
            Some(row) => row.received += frames,
            None => open.received += frames,
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
        row.intervals += d.sent.saturating_sub(1);
        row.ns += d.to.since(d.from).0;
        if let Some(open) = self.open.get_mut(&d.load.0) {
            self.rows[at].received += std::mem::take(&mut open.received);
            open.row = Some(at);
        }
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
