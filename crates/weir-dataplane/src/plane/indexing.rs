//! Large tables get an index for lookups, made on a thread beside the worker.
//!
//! Room: called at the end of a round. One table at a time of all VDPs: it is copied in small steps, the index is made elsewhere
//! in what time others leave, and taken between two rounds ([`weir_classify::Draft`]). Which table answers is no matter of
//! when that is: an index says what its table says.

use super::*;
use std::thread::JoinHandle;
use weir_classify::{Copying, Draft, Drafted, FastTable};

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

/// A table of a VDP.
type Which = (Vid, usize);

#[derive(Debug, Default)]
enum UnderWay {
    #[default]
    Nothing,
    Copies(Which, Box<Draft>),
    Makes(Which, JoinHandle<Drafted>),
}

/// What is under way.
#[derive(Debug, Default)]
pub(super) struct Indexing {
    under_way: UnderWay,
    /// When to look again.
    due: Nanos,
    /// The VDP that is looked at next.
    next: usize,
}

impl Indexing {
    #[inline(always)]
    pub(super) fn is_due(&self, now: Nanos) -> bool {
        now >= self.due
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
            UnderWay::Makes(which, thread) if thread.is_finished() => {
                // One that panicked made none.
                if let (Ok(drafted), Some(table)) = (thread.join(), self.classifier(which)) {
                    table.adopt(drafted);
                }
            }
            makes @ UnderWay::Makes(..) => self.indexing.under_way = makes,
        }
    }

    fn classifier(&mut self, (vid, table): Which) -> Option<&mut FastTable> {
        let v = vdp_mut(&mut self.vdps, vid)?;
        v.fast.tables.get_mut(table).map(|t| &mut t.classifier)
    }

    fn look_for_tables(&mut self) {
        let all = self.vdps.len();
        for _ in 0..VDPS.min(all) {
            let at = self.indexing.next % all;
            self.indexing.next = at + 1;
            let Some(v) = self.vdps.get_mut(at).and_then(Option::as_deref_mut) else { continue };
            for (n, t) in v.fast.tables.iter_mut().enumerate() {
                if t.classifier.wants_index()
                    && t.asked() >= ASKED
                    && let Some(draft) = t.classifier.begin_draft()
                {
                    self.indexing.under_way = UnderWay::Copies((v.vid, n), Box::new(draft));
                    self.indexing.due = self.now;
                    return;
                }
            }
        }
    }

    fn copy_some(&mut self, which: Which, mut draft: Box<Draft>) {
        let Some(table) = self.classifier(which) else { return };
        match table.draft_more(&mut draft, SLOTS) {
            Copying::More => {
                self.indexing.under_way = UnderWay::Copies(which, draft);
                self.indexing.due = self.now;
            }
            Copying::Whole => {
                let make = move || {
                    // Refused, it has as much of the processor as others have.
                    let _ = rustix::process::nice(NICE);
                    draft.make()
                };
                let thread = std::thread::Builder::new().name("weir-index".to_owned()).spawn(make);
                self.indexing.under_way =
                    thread.map_or(UnderWay::Nothing, |t| UnderWay::Makes(which, t));
            }
            Copying::Broken => {}
        }
    }
}
