//! Large tables get an index for lookups, made on a thread beside the worker.
//!
//! Room: called at the end of a round. One table at a time of this worker's VDPs: it is copied in small steps, the index is
//! made elsewhere in what time others leave, and taken between two rounds ([`weir_classify::Draft`]). Which table answers is
//! no matter of when that is: an index says what its table says. What changes meanwhile is done to it by that thread, too, as often as
//! there is much of it. A table whose index is soon made anew is left alone for a while, each time longer: what one VDP's changes
//! cost here others hardly feel.

use super::*;
use crate::matching::Table;
use rustix::thread::{CpuSet, sched_setaffinity};
use std::thread::JoinHandle;
use weir_classify::{Adoption, Copying, Draft, Drafted};

/// How often tables are looked at, and whether an index is made.
const LOOK: Nanos = Nanos(10_000_000);
/// VDPs looked at each time.
const VDPS: usize = 16;
/// Lookups of a table that is worth an index.
const ASKED: u64 = 4096;
/// Slots copied in a round.
const SLOTS: usize = 256;
/// How much less the thread that makes an index asks for of the processor.
const NICE: i32 = 10;
/// How long a table is left alone after an attempt, at first and at most.
const WAIT: u64 = 50_000_000;
const LONGEST_WAIT: u64 = 30_000_000_000;
/// Tables that are remembered for that.
const REMEMBERED: usize = 64;

/// A table of a VDP.
type Which = (Vid, usize);

#[derive(Debug, Default)]
enum UnderWay {
    #[default]
    Nothing,
    Copies(Which, Box<Draft>),
    Makes(Which, JoinHandle<Drafted>),
}

/// A table that is left alone.
#[derive(Clone, Copy, Debug)]
struct Rests {
    which: Which,
    until: Nanos,
    wait: u64,
}

/// What is under way.
#[derive(Debug, Default)]
pub(super) struct Indexing {
    under_way: UnderWay,
    /// When to look again.
    due: Nanos,
    /// The VDP that is looked at next.
    next: usize,
    rests: Vec<Rests>,
}

impl Indexing {
    #[inline(always)]
    pub(super) fn is_due(&self, now: Nanos) -> bool {
        now >= self.due
    }
    fn is_at_rest(&self, which: Which, now: Nanos) -> bool {
        self.rests.iter().any(|r| r.which == which && now < r.until)
    }
    /// Leaves a table alone that is tried now: twice as long as last time, where that is not long past.
    fn rest(&mut self, which: Which, now: Nanos) {
        let before =
            self.rests.iter().position(|r| r.which == which).map(|i| self.rests.swap_remove(i));
        let soon = before.filter(|r| now.since(r.until) < Nanos(LONGEST_WAIT));
        let wait = soon.map_or(WAIT, |r| (2 * r.wait).min(LONGEST_WAIT));
        if self.rests.len() == REMEMBERED {
            self.rests.remove(0);
        }
        self.rests.push(Rests { which, until: now + Nanos(wait), wait });
    }
}

impl DataPlane {
    /// Goes on with what is under way, or looks for a table that wants an index.
    #[cold]
    pub(super) fn tend_indexes(&mut self) {
        self.indexing.due = self.now + LOOK;
        match std::mem::take(&mut self.indexing.under_way) {
            UnderWay::Nothing => self.look_for_tables(),
            UnderWay::Copies(which, draft) => self.copy_some(which, draft),
            UnderWay::Makes(which, thread) if thread.is_finished() => match thread.join() {
                Ok(drafted) => self.offer(which, drafted),
                // One that panicked made none.
                Err(_) => self.give_up(which),
            },
            makes @ UnderWay::Makes(..) => self.indexing.under_way = makes,
        }
    }

    fn table_of(&mut self, (vid, table): Which) -> Option<&mut Table> {
        vdp_mut(&mut self.vdps, vid)?.fast.tables.get_mut(table)
    }

    /// Offers its table what was made, if that is there still.
    fn offer(&mut self, which: Which, mut drafted: Drafted) {
        let adoption = self.table_of(which).map(|t| t.classifier.adopt(&mut drafted));
        if adoption == Some(Adoption::Behind) {
            self.make(which, move || {
                drafted.catch_up();
                drafted
            });
        } else {
            // It, or what it replaces, may be thousands of pieces of memory.
            aside(move || drop(drafted));
        }
    }
    /// What `work` makes is for this table.
    fn make(&mut self, which: Which, work: impl FnOnce() -> Drafted + Send + 'static) {
        match aside(work) {
            Some(thread) => self.indexing.under_way = UnderWay::Makes(which, thread),
            None => self.give_up(which),
        }
    }
    fn give_up(&mut self, which: Which) {
        self.table_of(which).into_iter().for_each(|t| t.classifier.give_up_draft());
    }

    fn look_for_tables(&mut self) {
        let all = self.vdps.len();
        for _ in 0..VDPS.min(all) {
            let at = self.indexing.next % all;
            self.indexing.next = at + 1;
            let Some(v) = self.vdps.get_mut(at).and_then(Option::as_deref_mut) else { continue };
            for (n, t) in v.fast.tables.iter_mut().enumerate() {
                let which = (v.vid, n);
                if t.classifier.wants_index()
                    && t.asked() >= ASKED
                    && !self.indexing.is_at_rest(which, self.now)
                    && let Some(draft) = t.classifier.begin_draft()
                {
                    self.indexing.rest(which, self.now);
                    self.indexing.under_way = UnderWay::Copies(which, Box::new(draft));
                    self.indexing.due = self.now;
                    return;
                }
            }
        }
    }

    fn copy_some(&mut self, which: Which, mut draft: Box<Draft>) {
        let Some(table) = self.table_of(which) else { return };
        match table.classifier.draft_more(&mut draft, SLOTS) {
            Copying::More => {
                self.indexing.under_way = UnderWay::Copies(which, draft);
                self.indexing.due = self.now;
            }
            Copying::Whole => self.make(which, move || draft.make()),
            Copying::Broken => {}
        }
    }
}

/// Does `work` on a thread of its own, behind all others and wherever there is room: a worker's processor may be its own. Where that
/// is refused it is done all the same; none where there is no thread.
fn aside<T: Send + 'static>(work: impl FnOnce() -> T + Send + 'static) -> Option<JoinHandle<T>> {
    let thread = std::thread::Builder::new().name("weir-index".to_owned());
    let work = move || {
        let _ = rustix::process::nice(NICE);
        let mut anywhere = CpuSet::new();
        (0..CpuSet::MAX_CPU).for_each(|n| anywhere.set(n));
        let _ = sched_setaffinity(None, &anywhere);
        work()
    };
    thread.spawn(work).ok()
}
