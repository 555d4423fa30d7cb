//! Groups (OpenFlow 1.3, §5.6): several ways out behind one number. Pure data and choice, generic
//! over what a bucket does. Called by the executor; checked by the control side.
//!
//! Select groups choose by weighted rendezvous: each live bucket draws a number from the flow's hash
//! and its own id, scaled by its weight, and the best draw wins (score w / -ln u; the chance of a
//! bucket is its share of the weights). What a flow's bucket is depends on no other bucket being
//! there: removing, adding or losing one moves only the flows that it has or gets.

pub(crate) mod chains;

use crate::counters::{SharedTally, Side, Tally};
use crate::numbered::Numbered;
use std::cell::Cell;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use thiserror::Error;
use weir_classify::simd::prefetch_read;

/// How a group uses its buckets (§5.6.1).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum GroupKind {
    /// Every bucket gets a copy.
    All,
    /// One live bucket, by the flow's hash and the weights.
    Select,
    /// The only bucket.
    Indirect,
    /// The first live bucket.
    FastFailover,
}

/// What a bucket's liveness hangs on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Watch {
    /// A port: live while it can send.
    Port(u32),
    /// Another group: live while one of its buckets is.
    Group(u32),
}

/// One way out.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Bucket<T> {
    /// Unlike that of the group's other buckets; `None`: its place. A flow of a select group
    /// follows the id, so one that is kept when a group is replaced keeps flows where they are.
    pub id: Option<u32>,
    /// Share of a select group's flows; zero: none.
    pub weight: u16,
    /// It is live while this port can send.
    pub watch_port: Option<u32>,
    /// It is live while this group has a live bucket, whatever the port is. A bucket that watches nothing is live.
    pub watch_group: Option<u32>,
    /// What it does.
    pub payload: T,
}

impl<T> Bucket<T> {
    /// A bucket of weight 1 that is always live.
    pub fn new(payload: T) -> Self {
        Self { id: None, weight: 1, watch_port: None, watch_group: None, payload }
    }
    fn id_at(&self, place: usize) -> u32 {
        // A place is less than MAX_BUCKETS.
        self.id.unwrap_or(place as u32)
    }
    fn watches(&self) -> impl Iterator<Item = Watch> {
        let port = self.watch_port.map(Watch::Port);
        port.into_iter().chain(self.watch_group.map(Watch::Group))
    }
    fn is_live(&self, live: &dyn Fn(Watch) -> bool) -> bool {
        // Either will do (1.3.5 §6.5).
        let mut watches = self.watches().peekable();
        watches.peek().is_none() || watches.any(live)
    }
}

/// Which buckets a frame goes to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Chosen {
    /// None: there is none, or none is live.
    None,
    /// The bucket at this place.
    One(usize),
    /// Each.
    All,
}

/// A group that can't be.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum GroupError {
    /// An indirect group without exactly one bucket.
    #[error("an indirect group has one bucket, this has {0}: use type 'all' or 'select'")]
    Indirect(usize),
    /// Too many buckets.
    #[error("{0} buckets: at most {max} are allowed", max = MAX_BUCKETS)]
    TooMany(usize),
    /// Two buckets with one id.
    #[error("bucket id {0} is there twice: give each bucket an id of its own")]
    SameId(u32),
}

/// Buckets of a group at most: a choice looks at each.
pub const MAX_BUCKETS: usize = 256;

/// How buckets' weights differ.
#[derive(Clone, Copy, Debug)]
enum Weights {
    /// They don't, but for those of weight zero: the larger draw has the better score.
    Equal,
    Differ,
}

impl Weights {
    fn of<T>(buckets: &[Bucket<T>]) -> Self {
        let mut weights = buckets.iter().map(|b| b.weight).filter(|w| *w > 0);
        let first = weights.next();
        if weights.all(|w| Some(w) == first) { Self::Equal } else { Self::Differ }
    }
}

/// Groups, by their numbers.
pub trait GroupTable<T> {
    /// One of them.
    fn group(&self, id: u32) -> Option<&Group<T>>;
    /// One of them.
    fn group_mut(&mut self, id: u32) -> Option<&mut Group<T>>;
    /// All numbers, in their order.
    fn ids(&self) -> Vec<u32>;
}

impl<T> GroupTable<T> for BTreeMap<u32, Group<T>> {
    fn group(&self, id: u32) -> Option<&Group<T>> {
        self.get(&id)
    }
    fn group_mut(&mut self, id: u32) -> Option<&mut Group<T>> {
        self.get_mut(&id)
    }
    fn ids(&self) -> Vec<u32> {
        self.keys().copied().collect()
    }
}

impl<T> GroupTable<T> for Numbered<Group<T>> {
    fn group(&self, id: u32) -> Option<&Group<T>> {
        self.get(id)
    }
    fn group_mut(&mut self, id: u32) -> Option<&mut Group<T>> {
        self.get_mut(id)
    }
    fn ids(&self) -> Vec<u32> {
        Numbered::ids(self)
    }
}

/// A group. Clones count on their own; see `share`.
#[derive(Debug)]
pub struct Group<T> {
    kind: GroupKind,
    weights: Weights,
    buckets: Vec<Bucket<T>>,
    counted: Tally,
    taken: Vec<Tally>,
    side: Side,
    /// What the slow path counts: the group, then its buckets.
    slow: Option<Arc<[SharedTally]>>,
}

impl<T: Clone> Clone for Group<T> {
    fn clone(&self) -> Self {
        Self {
            kind: self.kind,
            weights: self.weights,
            buckets: self.buckets.clone(),
            counted: self.counted(),
            taken: self.taken(),
            side: Side::Fast,
            slow: None,
        }
    }
}

impl<T: PartialEq> PartialEq for Group<T> {
    fn eq(&self, o: &Self) -> bool {
        (self.kind, self.counted(), self.taken()) == (o.kind, o.counted(), o.taken())
            && self.buckets == o.buckets
    }
}

impl<T: Eq> Eq for Group<T> {}

impl<T: Clone> Group<T> {
    /// The same group for the slow path. What it counts there is counted here.
    pub(crate) fn share(&mut self) -> Self {
        let new = || (0..=self.buckets.len()).map(|_| SharedTally::default()).collect();
        let slow = Arc::clone(self.slow.get_or_insert_with(new));
        let (counted, taken) = (Tally::default(), vec![Tally::default(); self.buckets.len()]);
        let (kind, weights, buckets) = (self.kind, self.weights, self.buckets.clone());
        Self { kind, weights, buckets, counted, taken, side: Side::Slow, slow: Some(slow) }
    }
}

impl<T> Group<Arc<T>> {
    /// Asks for what its first bucket does.
    pub(crate) fn prefetch_first(&self) {
        if let Some(b) = self.buckets.first() {
            prefetch_read(&*b.payload);
        }
    }
}

impl<T> Group<T> {
    /// Asks for its first bucket, and what is counted there.
    pub(crate) fn prefetch(&self) {
        if let Some(b) = self.buckets.first() {
            prefetch_read(b);
        }
        if let Some(t) = self.taken.first() {
            prefetch_read(t);
        }
    }
    /// A group with these buckets.
    ///
    /// # Errors
    /// [`GroupError`].
    pub fn new(kind: GroupKind, buckets: Vec<Bucket<T>>) -> Result<Self, GroupError> {
        if buckets.len() > MAX_BUCKETS {
            return Err(GroupError::TooMany(buckets.len()));
        }
        if kind == GroupKind::Indirect && buckets.len() != 1 {
            return Err(GroupError::Indirect(buckets.len()));
        }
        let mut ids = BTreeSet::new();
        for (i, b) in buckets.iter().enumerate() {
            if !ids.insert(b.id_at(i)) {
                return Err(GroupError::SameId(b.id_at(i)));
            }
        }
        let taken = vec![Tally::default(); buckets.len()];
        let (weights, counted) = (Weights::of(&buckets), Tally::default());
        Ok(Self { kind, weights, buckets, counted, taken, side: Side::Fast, slow: None })
    }

    /// Where a frame of a flow with this hash goes. `live` answers for what buckets watch.
    pub fn pick(&self, hash: u32, live: &dyn Fn(Watch) -> bool) -> Chosen {
        let mut alive = self.buckets.iter().enumerate().filter(|(_, b)| b.is_live(live));
        match self.kind {
            GroupKind::All if self.buckets.is_empty() => Chosen::None,
            GroupKind::All => Chosen::All,
            GroupKind::Indirect => Chosen::One(0),
            GroupKind::FastFailover => alive.next().map_or(Chosen::None, |(i, _)| Chosen::One(i)),
            GroupKind::Select => {
                let drawn = alive.filter(|(_, b)| b.weight > 0);
                let drawn = drawn.map(|(i, b)| (draw(hash, b.id_at(i)), b.weight, i));
                // Equal scores go to the earlier bucket.
                let best = match self.weights {
                    Weights::Equal => drawn
                        .max_by(|(a, _, i), (b, _, j)| a.cmp(b).then(j.cmp(i)))
                        .map(|(.., i)| i),
                    Weights::Differ => drawn
                        .map(|(d, weight, i)| (score(d, weight), i))
                        .max_by(|(a, i), (b, j)| a.total_cmp(b).then(j.cmp(i)))
                        .map(|(_, i)| i),
                };
                best.map_or(Chosen::None, Chosen::One)
            }
        }
    }

    /// Counts a frame of `len` bytes that went where [`Group::pick`] said.
    pub fn count(&mut self, chosen: Chosen, len: usize) {
        if let (Side::Slow, Some(slow)) = (self.side, &self.slow) {
            let taken = match chosen {
                Chosen::None => None,
                Chosen::One(i) => slow.get(i + 1..i + 2),
                Chosen::All => slow.get(1..),
            };
            slow.iter().take(1).chain(taken.into_iter().flatten()).for_each(|c| c.add(len));
            return;
        }
        self.counted.add(len);
        let taken = match chosen {
            Chosen::None => None,
            Chosen::One(i) => self.taken.get_mut(i..=i),
            Chosen::All => Some(self.taken.as_mut_slice()),
        };
        for c in taken.into_iter().flatten() {
            c.add(len);
        }
    }

    /// The same group with the buckets of another; counters stay, since they are as many.
    pub(crate) fn take_buckets_of(&mut self, other: Self) {
        debug_assert_eq!(self.buckets.len(), other.buckets.len());
        (self.weights, self.buckets) = (other.weights, other.buckets);
    }
    /// How it uses its buckets.
    pub fn kind(&self) -> GroupKind {
        self.kind
    }
    /// Its buckets, in order.
    pub fn buckets(&self) -> &[Bucket<T>] {
        &self.buckets
    }
    /// Number of buckets.
    pub fn len(&self) -> usize {
        self.buckets.len()
    }
    /// What the bucket at a place does.
    pub fn payload(&self, i: usize) -> Option<&T> {
        self.buckets.get(i).map(|b| &b.payload)
    }
    /// Frames that came to it.
    pub fn counted(&self) -> Tally {
        self.with_slow(0, self.counted)
    }
    /// Frames that each bucket got, in order.
    pub fn taken(&self) -> Vec<Tally> {
        (1..).zip(&self.taken).map(|(i, t)| self.with_slow(i, *t)).collect()
    }
    fn with_slow(&self, i: usize, mut t: Tally) -> Tally {
        if let Some(s) = self.slow.as_ref().and_then(|s| s.get(i)) {
            t.merge(s.read());
        }
        t
    }
    /// What it and its buckets got before it came here; to be said once.
    pub(crate) fn add_counted(&mut self, counted: Tally, taken: &[Tally]) {
        self.counted.merge(counted);
        self.taken.iter_mut().zip(taken).for_each(|(t, more)| t.merge(*more));
    }
    /// The same group watching other ports; counters go along.
    #[must_use]
    pub fn watching(mut self, port: impl Fn(u32) -> u32) -> Self {
        for b in &mut self.buckets {
            b.watch_port = b.watch_port.map(&port);
        }
        self
    }
    /// The same group with each payload replaced; counters go along.
    pub fn map<U>(self, mut f: impl FnMut(T) -> U) -> Group<U> {
        let buckets = self.buckets.into_iter().map(|b| Bucket {
            id: b.id,
            weight: b.weight,
            watch_port: b.watch_port,
            watch_group: b.watch_group,
            payload: f(b.payload),
        });
        Group {
            kind: self.kind,
            weights: self.weights,
            buckets: buckets.collect(),
            counted: self.counted,
            taken: self.taken,
            side: self.side,
            slow: self.slow,
        }
    }
}

/// A bucket's draw for a flow, 52 bits: of equal weights the highest wins.
fn draw(hash: u32, id: u32) -> u64 {
    // SplitMix64's finish: every bit of flow and bucket reaches every bit.
    let mut z = (u64::from(hash) << 32 | u64::from(id)).wrapping_add(0x9e37_79b9_7f4a_7c15);
    z = (z ^ z >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ z >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
    (z ^ z >> 31) >> 12
}

/// What a draw is worth with this weight: the highest wins.
fn score(draw: u64, weight: u16) -> f64 {
    // Between 0 and 1, neither of them: 52 bits and a half.
    let u = (draw as f64 + 0.5) / (1u64 << 52) as f64;
    f64::from(weight) / -u.ln()
}

/// Chooses and counts in the group `id` of a set. `None`: there is no such group.
pub fn choose<T, G: GroupTable<T>>(
    groups: &mut G,
    id: u32,
    hash: u32,
    len: usize,
    live_port: &dyn Fn(u32) -> bool,
) -> Option<Chosen> {
    let chosen = pick(groups, groups.group(id)?, hash, live_port);
    groups.group_mut(id)?.count(chosen, len);
    Some(chosen)
}

/// Where a frame goes that comes to `group`, one of these.
pub(crate) fn pick<T, G: GroupTable<T>>(
    groups: &G,
    group: &Group<T>,
    hash: u32,
    live_port: &dyn Fn(u32) -> bool,
) -> Chosen {
    let steps = Cell::new(LIVENESS_STEPS);
    group.pick(hash, &|w| is_live(groups, w, live_port, &steps))
}

/// Watched groups that one choice looks into at most; further ones pass for dead. Bounds the time
/// of a frame when many groups watch one another, and ends loops that nobody checked.
pub const LIVENESS_STEPS: u32 = 64;

/// Whether what is watched is live.
fn is_live<T, G: GroupTable<T>>(
    groups: &G,
    watch: Watch,
    live_port: &dyn Fn(u32) -> bool,
    steps: &Cell<u32>,
) -> bool {
    let id = match watch {
        Watch::Port(p) => return live_port(p),
        Watch::Group(id) => id,
    };
    let (Some(g), Some(left)) = (groups.group(id), steps.get().checked_sub(1)) else {
        return false;
    };
    steps.set(left);
    g.buckets.iter().any(|b| b.is_live(&|w| is_live(groups, w, live_port, steps)))
}

/// The longest chain of groups that is accepted.
pub const MAX_CHAIN: usize = 16;

/// Groups that can't be used together.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum ChainError {
    /// A group leads back to itself.
    #[error("group {0} leads back to itself: break the loop in one of its buckets")]
    Loop(u32),
    /// Groups behind groups behind groups.
    #[error("by group {0} more than {max} groups follow one another: make the chain shorter", max = MAX_CHAIN)]
    TooDeep(u32),
    /// A bucket names a group that is not there.
    #[error("group {from} names group {to}, which is not there: add {to} first")]
    Missing {
        /// The group with the bucket.
        from: u32,
        /// The group it names.
        to: u32,
    },
}

/// Checks that groups, following `names` (the groups a bucket's payload goes on with) and watched
/// groups, neither loop nor make long chains. Takes time in proportion to the number of names: the judge of what a
/// data plane finds out at each change.
///
/// # Errors
/// The first fault found.
pub fn check_chains<T, G: GroupTable<T>>(
    groups: &G,
    names: impl Fn(&T) -> Vec<u32>,
) -> Result<(), ChainError> {
    // How many groups follow one another from here; `None` while it is being found out.
    let mut depths: BTreeMap<u32, Option<usize>> = BTreeMap::new();
    for start in groups.ids() {
        // A stack of our own: what is left to look at of each group on the way.
        let mut way: Vec<(u32, usize, Vec<u32>)> = Vec::new();
        let mut next = Some(start);
        loop {
            if let Some(id) = next.take()
                && !depths.contains_key(&id)
            {
                let follow = groups.group(id).map(|g| follows(g, &names)).unwrap_or_default();
                depths.insert(id, None);
                way.push((id, 1, follow));
            }
            let Some((id, depth, left)) = way.last_mut() else { break };
            let Some(&to) = left.last() else {
                if *depth > MAX_CHAIN {
                    return Err(ChainError::TooDeep(*id));
                }
                depths.insert(*id, Some(*depth));
                way.pop();
                continue;
            };
            match depths.get(&to) {
                _ if groups.group(to).is_none() => {
                    return Err(ChainError::Missing { from: *id, to });
                }
                Some(None) => return Err(ChainError::Loop(to)),
                Some(Some(d)) => {
                    *depth = (*depth).max(d + 1);
                    left.pop();
                }
                None => next = Some(to),
            }
        }
    }
    Ok(())
}

/// The groups that this one goes on with, or watches.
pub(crate) fn follows<T>(g: &Group<T>, names: &impl Fn(&T) -> Vec<u32>) -> Vec<u32> {
    g.buckets.iter().flat_map(|b| names(&b.payload).into_iter().chain(b.watch_group)).collect()
}
