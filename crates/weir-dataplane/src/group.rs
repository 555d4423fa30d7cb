//! Groups: all, select, indirect, fast failover (OpenFlow 1.3, §5.6).
//!
//! Room: pure choice of buckets; what a bucket does is its payload's affair. `select` uses weighted
//! rendezvous hashing: a flow's bucket changes only when that bucket goes, dies or gets lighter, or
//! another gets heavier.

use crate::counters::Tally;
use thiserror::Error;

/// How a group uses its buckets.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum GroupKind {
    /// Every bucket gets a copy.
    All,
    /// One bucket, by the flow's hash and the weights.
    Select,
    /// The only bucket.
    Indirect,
    /// The first live bucket.
    FastFailover,
}

/// One bucket.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Bucket<T> {
    /// For `select`: its part relative to the others; 0 gets nothing.
    pub weight: u16,
    /// For liveness: the port that must be up, as the data plane numbers it.
    pub watch_port: Option<u32>,
    /// What it does.
    pub payload: T,
    counted: Tally,
}

impl<T> Bucket<T> {
    /// A bucket with weight 1 that is always live.
    pub fn new(payload: T) -> Self {
        Self { weight: 1, watch_port: None, payload, counted: Tally::default() }
    }
    /// What it got.
    pub fn counted(&self) -> Tally {
        self.counted
    }
}

/// A group.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Group<T> {
    kind: GroupKind,
    buckets: Vec<Bucket<T>>,
    counted: Tally,
}

/// Which buckets a frame gets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Chosen {
    /// None: the frame is dropped.
    None,
    /// This one.
    One(usize),
    /// All of them.
    All,
}

/// A group that can't be.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum GroupError {
    /// Too many buckets.
    #[error("{0} buckets: at most {max} are allowed", max = MAX_BUCKETS)]
    TooMany(usize),
    /// An indirect group has exactly one bucket.
    #[error("an indirect group has one bucket, not {0}")]
    Indirect(usize),
}

/// Buckets that a group may have.
pub const MAX_BUCKETS: usize = 256;

impl<T> Group<T> {
    /// A group.
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
        Ok(Self { kind, buckets, counted: Tally::default() })
    }
    /// Its kind.
    pub fn kind(&self) -> GroupKind {
        self.kind
    }
    /// Its buckets.
    pub fn buckets(&self) -> &[Bucket<T>] {
        &self.buckets
    }
    /// Number of buckets.
    pub fn len(&self) -> usize {
        self.buckets.len()
    }
    /// The payload of bucket `i`.
    pub fn payload(&self, i: usize) -> Option<&T> {
        self.buckets.get(i).map(|b| &b.payload)
    }
    /// Frames that met it.
    pub fn counted(&self) -> Tally {
        self.counted
    }
    /// The same group with other payloads; counters kept.
    pub fn map<U>(self, mut f: impl FnMut(T) -> U) -> Group<U> {
        let change = |b: Bucket<T>| Bucket {
            weight: b.weight,
            watch_port: b.watch_port,
            payload: f(b.payload),
            counted: b.counted,
        };
        Group {
            kind: self.kind,
            buckets: self.buckets.into_iter().map(change).collect(),
            counted: self.counted,
        }
    }
    /// Chooses for a frame of `bytes` of the flow with `hash`, and counts it. `live` says whether
    /// a watched port is up.
    pub fn choose(&mut self, hash: u32, bytes: usize, live: &dyn Fn(u32) -> bool) -> Chosen {
        self.counted.add(bytes);
        let alive = |b: &Bucket<T>| b.watch_port.is_none_or(live);
        let one = match self.kind {
            GroupKind::All => {
                self.buckets.iter_mut().for_each(|b| b.counted.add(bytes));
                return if self.buckets.is_empty() { Chosen::None } else { Chosen::All };
            }
            GroupKind::Indirect => (!self.buckets.is_empty()).then_some(0),
            GroupKind::FastFailover => self.buckets.iter().position(alive),
            GroupKind::Select => {
                let score = |(i, b): (usize, &Bucket<T>)| (score(hash, i, b.weight), i);
                self.buckets
                    .iter()
                    .enumerate()
                    .filter(|(_, b)| b.weight > 0 && alive(b))
                    .map(score)
                    .max_by(|a, b| a.0.total_cmp(&b.0))
                    .map(|(_, i)| i)
            }
        };
        match one.and_then(|i| Some((i, self.buckets.get_mut(i)?))) {
            Some((i, b)) => {
                b.counted.add(bytes);
                Chosen::One(i)
            }
            None => Chosen::None,
        }
    }
}

/// Weighted rendezvous: −weight / ln(u) with u uniform in (0, 1) by flow and bucket.
fn score(hash: u32, bucket: usize, weight: u16) -> f64 {
    let mut x = u64::from(hash) << 32 | bucket as u64;
    // A finaliser with full avalanche, so that buckets see independent numbers.
    x = (x ^ x >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    x = (x ^ x >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
    x ^= x >> 31;
    let u = ((x >> 11) as f64 + 0.5) / (1u64 << 53) as f64;
    -f64::from(weight) / u.ln()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn group(kind: GroupKind, weights: &[u16]) -> Group<usize> {
        let bucket = |(i, w): (usize, &u16)| Bucket { weight: *w, ..Bucket::new(i) };
        Group::new(kind, weights.iter().enumerate().map(bucket).collect()).unwrap()
    }

    #[test]
    fn select_follows_the_weights() {
        let mut g = group(GroupKind::Select, &[1, 2, 0, 5]);
        let mut got = [0u32; 4];
        for h in 0..80_000u32 {
            if let Chosen::One(i) = g.choose(h.wrapping_mul(2_654_435_761), 60, &|_| true) {
                got[i] += 1;
            }
        }
        assert_eq!(got[2], 0);
        for (n, w) in [(got[0], 1.0), (got[1], 2.0), (got[3], 5.0)] {
            assert!((f64::from(n) / 10_000.0 / w - 1.0).abs() < 0.05, "{got:?}");
        }
        assert_eq!(g.counted().frames, 80_000);
        assert_eq!(g.buckets()[3].counted().frames, u64::from(got[3]));
    }

    #[test]
    fn only_flows_of_a_dead_bucket_move() {
        let mut g = group(GroupKind::Select, &[1, 1, 1]);
        g.buckets[1].watch_port = Some(7);
        for h in 0..1000u32 {
            let before = g.choose(h, 60, &|_| true);
            let after = g.choose(h, 60, &|_| false);
            assert_eq!(before != after, before == Chosen::One(1));
        }
    }

    #[test]
    fn failover_takes_the_first_live() {
        let mut g = group(GroupKind::FastFailover, &[1, 1, 1]);
        g.buckets[0].watch_port = Some(1);
        g.buckets[1].watch_port = Some(2);
        assert_eq!(g.choose(0, 60, &|_| true), Chosen::One(0));
        assert_eq!(g.choose(0, 60, &|p| p != 1), Chosen::One(1));
        assert_eq!(g.choose(0, 60, &|_| false), Chosen::One(2));
        g.buckets[2].watch_port = Some(3);
        assert_eq!(g.choose(0, 60, &|_| false), Chosen::None);
    }

    #[test]
    fn impossible_groups_are_refused() {
        let two = vec![Bucket::new(0), Bucket::new(1)];
        assert_eq!(Group::new(GroupKind::Indirect, two), Err(GroupError::Indirect(2)));
        let many: Vec<_> = (0..257).map(Bucket::new).collect();
        assert_eq!(Group::new(GroupKind::All, many), Err(GroupError::TooMany(257)));
    }
}
