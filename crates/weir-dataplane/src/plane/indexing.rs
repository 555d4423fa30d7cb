//! Tables get an index for lookups, made on a thread beside the worker; what grows or shrinks ends that, also without further changes.
//!
//! Room: called at the end of a round. One table at a time of this worker's VDPs, or many small ones together: they are copied in small
//! steps, indexes are made elsewhere in what time others leave, and taken between two rounds ([`weir_classify::Draft`]). Which table
//! answers is no matter of when that is: an index says what its table says. What changes meanwhile is done to it by that thread, too, as often as
//! there is much of it. A table whose index is soon made anew is left alone for a while, each time longer: what one VDP's changes
//! cost here others hardly feel.

use super::*;
use crate::matching::Table;
use rustix::thread::{CpuSet, sched_setaffinity};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::thread::JoinHandle;
use weir_classify::{Adoption, Copying, Draft, Drafted};

/// How often tables are looked at, and whether an index is made.
const LOOK: Nanos = Nanos(10_000_000);
/// When it is first looked whether what is behind has caught up, since more changes come meanwhile; then after twice as long each time,
/// up to [`LOOK`]: who changes much for a moment only is outlasted.
const SOON: Nanos = Nanos(200_000);
/// VDPs looked at each time.
const VDPS: usize = 16;
/// Lookups of a table that is worth an index.
const ASKED: u64 = 4096;
/// Slots copied in a round, and moved.
const SLOTS: usize = 256;
const MOVED: usize = 64;
/// Rounds after which other VDPs are looked at, too.
const STAYS: u32 = 1024;
/// Tables whose indexes are made together, at most, and the rules of them all.
const TOGETHER: usize = 64;
const RULES: usize = 4096;
/// Indexes taken in a round.
const TAKEN: usize = 4;
/// How much less the thread that makes an index asks for of the processor.
const NICE: i32 = 10;
/// How long a table is left alone after an attempt, at first and at most.
const WAIT: u64 = 50_000_000;
const LONGEST_WAIT: u64 = 30_000_000_000;
/// Tables that are remembered for that.
const REMEMBERED: usize = 512;

/// A table of a VDP.
type Which = (Vid, usize);

#[derive(Debug, Default)]
enum UnderWay {
    #[default]
    Nothing,
    /// The last of them, which is not whole yet.
    Copies(Vec<(Which, Draft)>),
    Makes(Made),
    Offers(Box<Offers>),
}

/// What a thread makes. None for what panicked.
#[derive(Debug)]
struct Made {
    of: Vec<Which>,
    thread: JoinHandle<Vec<Option<Drafted>>>,
    pace: Pace,
}

/// How often it is looked whether something is made, and how often what catches up with it then.
#[derive(Clone, Copy, Debug)]
struct Pace {
    every: Nanos,
    next: Nanos,
}

impl Pace {
    const INDEX: Self = Self { every: LOOK, next: SOON };
    fn of_next(self) -> Self {
        Self { every: self.next, next: Nanos((2 * self.next.0).min(LOOK.0)) }
    }
}

/// What was made, and what has become of it.
#[derive(Debug)]
struct Offers {
    pace: Pace,
    made: Vec<(Which, Drafted)>,
    behind: Vec<(Which, Drafted)>,
    done: Vec<Drafted>,
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
    /// Rounds in which slots were moved.
    moves: u32,
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
    /// Goes on with what is under way, or looks for tables that want an index.
    #[cold]
    pub(super) fn tend_indexes(&mut self) {
        self.indexing.due = self.now + LOOK;
        match std::mem::take(&mut self.indexing.under_way) {
            UnderWay::Nothing => self.look_for_tables(Vec::new()),
            UnderWay::Copies(drafts) => self.copy_some(drafts),
            UnderWay::Makes(made) if made.thread.is_finished() => match made.thread.join() {
                Ok(all) => {
                    let mut offers = Box::new(Offers {
                        pace: made.pace.of_next(),
                        made: Vec::new(),
                        behind: Vec::new(),
                        done: Vec::new(),
                    });
                    for (which, drafted) in made.of.into_iter().zip(all) {
                        match drafted {
                            Some(drafted) => offers.made.push((which, drafted)),
                            None => self.give_up(which),
                        }
                    }
                    self.next_round(UnderWay::Offers(offers));
                }
                Err(_) => self.put_off(&made.of),
            },
            UnderWay::Makes(made) => self.look_after(made),
            UnderWay::Offers(offers) => self.offer(offers),
        }
    }
    /// Goes on with this in the next round.
    fn next_round(&mut self, with: UnderWay) {
        (self.indexing.under_way, self.indexing.due) = (with, self.now);
    }

    /// Comes back to what is being made.
    fn look_after(&mut self, made: Made) {
        self.indexing.due = self.now + made.pace.every;
        self.indexing.under_way = UnderWay::Makes(made);
    }

    fn table_of(&mut self, (vid, table): Which) -> Option<&mut Table> {
        vdp_mut(&mut self.vdps, vid)?.fast.tables.get_mut(table)
    }

    /// Offers some tables what was made, if they are there still.
    fn offer(&mut self, mut offers: Box<Offers>) {
        for _ in 0..TAKEN {
            let Some((which, mut drafted)) = offers.made.pop() else { break };
            match self.table_of(which).map(|t| t.adopt(&mut drafted)) {
                Some(Adoption::Behind) => offers.behind.push((which, drafted)),
                _ => offers.done.push(drafted),
            }
        }
        if !offers.made.is_empty() {
            return self.next_round(UnderWay::Offers(offers));
        }
        let Offers { pace, behind, done, .. } = *offers;
        // They, or what they replace, may be thousands of pieces of memory.
        if !done.is_empty() {
            aside(move || drop(done));
        }
        if !behind.is_empty() {
            self.make(behind, pace, |mut drafted| {
                drafted.catch_up();
                drafted
            });
        }
    }
    /// What `work` makes of each of these is for its table.
    fn make<T: Send + 'static>(&mut self, of: Vec<(Which, T)>, pace: Pace, work: fn(T) -> Drafted) {
        let (which, of): (Vec<Which>, Vec<T>) = of.into_iter().unzip();
        // What panics goes with all that it had.
        let work = move |one| catch_unwind(AssertUnwindSafe(|| work(one))).ok();
        match aside(move || of.into_iter().map(work).collect()) {
            Some(thread) => self.look_after(Made { of: which, thread, pace }),
            None => self.put_off(&which),
        }
    }
    /// Its rules, about as many, are not tried again.
    fn give_up(&mut self, which: Which) {
        self.table_of(which).into_iter().for_each(|t| t.classifier.give_up_draft());
    }
    /// They are, when they have rested.
    fn put_off(&mut self, all: &[Which]) {
        for which in all {
            self.table_of(*which).into_iter().for_each(|t| t.classifier.forget_draft());
        }
    }

    /// Looks for one more table, beside these whose copies are whole; if there is none soon, indexes are made of these.
    fn look_for_tables(&mut self, mut drafts: Vec<(Which, Draft)>) {
        let rules: usize = drafts.iter().map(|d| d.1.rules()).sum();
        let room = if drafts.is_empty() { usize::MAX } else { RULES.saturating_sub(rules) };
        match self.next_draft(room) {
            Some(draft) => {
                drafts.push(draft);
                self.next_round(UnderWay::Copies(drafts));
            }
            None if drafts.is_empty() => {}
            None => self.make(drafts, Pace::INDEX, Draft::make),
        }
    }
    /// Of a table of so many rules at most; a larger one comes first next time. What tables on the way there have still to move is
    /// moved, round by round; what mapping rules have before all others, as every frame asks them.
    fn next_draft(&mut self, room: usize) -> Option<(Which, Draft)> {
        if room == usize::MAX && self.mapping.move_on(MOVED) {
            self.indexing.due = self.now;
            return None;
        }
        let all = self.vdps.len();
        for _ in 0..VDPS.min(all) {
            let at = self.indexing.next % all;
            self.indexing.next = at + 1;
            let Some(v) = self.vdps.get_mut(at).and_then(Option::as_deref_mut) else { continue };
            for (n, t) in v.fast.tables.iter_mut().enumerate() {
                let which = (v.vid, n);
                // What is copied already does not wait for it.
                if room == usize::MAX && t.move_on(MOVED) {
                    self.indexing.moves = self.indexing.moves.wrapping_add(1);
                    if !self.indexing.moves.is_multiple_of(STAYS) {
                        self.indexing.next = at;
                    }
                    self.indexing.due = self.now;
                    return None;
                }
                if t.classifier.wants_index()
                    && t.asked() >= ASKED
                    && !self.indexing.is_at_rest(which, self.now)
                {
                    if t.len() > room {
                        self.indexing.next = at;
                        return None;
                    }
                    if let Some(draft) = t.classifier.begin_draft() {
                        self.indexing.rest(which, self.now);
                        return Some((which, draft));
                    }
                }
            }
        }
        None
    }

    fn copy_some(&mut self, mut drafts: Vec<(Which, Draft)>) {
        let Some((which, draft)) = drafts.last_mut() else { return };
        let copying = self.table_of(*which).map_or(Copying::Broken, |t| t.draft_more(draft, SLOTS));
        match copying {
            Copying::More => return self.next_round(UnderWay::Copies(drafts)),
            Copying::Whole => {}
            Copying::Broken => _ = drafts.pop(),
        }
        match drafts.len() < TOGETHER {
            true => self.look_for_tables(drafts),
            false => self.make(drafts, Pace::INDEX, Draft::make),
        }
    }
}

/// Does `work` on a thread of its own, behind all others and wherever there is room: a worker's processor may be its own. Where that
/// is refused it is done all the same; none where there is no thread.
pub(super) fn aside<T: Send + 'static>(
    work: impl FnOnce() -> T + Send + 'static,
) -> Option<JoinHandle<T>> {
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::control::Config;
    use crate::mapping::MappingRule;
    use crate::userfield::UserFields;
    use weir_classify::{Field, Match};

    /// So many that a hash table has grown, and no change comes any more.
    #[test]
    fn what_mapping_rules_have_still_to_move_is_moved() {
        let mut plane = DataPlane::new(Config::default()).unwrap();
        let rule =
            |i: u128| MappingRule { matcher: Match::any().with(Field::EthSrc, i), priority: 1 };
        for i in 0..10_300 {
            plane.mapping.add(Vid(1), &rule(i), &UserFields::default()).unwrap();
        }
        assert!(plane.mapping.move_on(1), "nothing to move");
        // Each is due when the one before is done.
        for round in 1..10_000 {
            plane.poll(Nanos(round));
        }
        assert!(!plane.mapping.move_on(1), "not moved");
        let of = plane.mapping.rules_of(Vid(1));
        assert_eq!(of.len(), 10_300);
    }
}
