//! What a crew would forward on more processors than there are, by simulation.
//!
//! The model. Rounds of workers are events; a worker takes up to 64 frames a round, and a round lasts as long as its frames
//! take. With a queue for each worker nothing is shared, so each does what one does as long as it has frames; the capture's flows fall to
//! them by weir's own hash (a device's would be another), bucket by bucket in turn, so that the busiest is full before the others are. With one queue, worker 0 spends `deal`
//! on each frame of another worker's (receiving, finding the bucket, lending), `home` on each of its own, and `mixed` more on every
//! frame of a round that has both, as its own come in smaller bursts then; another spends `far` on each of its own; between them lie lanes as long as they are, and worker 0 takes no burst while one has no
//! room for it. Frames fall to workers by chance, in proportion to their buckets; of all ways to deal buckets out the best is
//! shown. The times are measured here, on two workers. What the model leaves out: memory and caches that processors
//! share, and whatever else runs.

use serde::Serialize;
use weir_dataplane::crew::flow::bucket;
use weir_dataplane::crew::{BUCKETS, LANE_FRAMES};
use weir_packet::BURST;

/// Nanoseconds that a frame takes.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Costs {
    /// Worker 0, with one of another's.
    pub deal_ns: f64,
    /// Worker 0, with one of its own.
    pub home_ns: f64,
    /// Worker 0, more for each of a round with both.
    pub mixed_ns: f64,
    /// Another worker, with one of its own.
    pub far_ns: f64,
    /// A worker that has a queue of its own.
    pub alone_ns: f64,
}

/// So many workers, and what they would forward, in million frames a second.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Scaled {
    pub workers: usize,
    /// Where each always has frames.
    pub queue_each: f64,
    /// As far as none is lost: until the worker with most of the capture's frames is full.
    pub queue_each_without_loss: f64,
    pub one_queue: f64,
    /// Of 256 buckets, those that worker 0 has then.
    pub buckets_at_home: usize,
}

/// Simulated frames: enough for a per cent.
const FRAMES: u64 = 40_000;

/// A capture's frames by the bucket of their flow.
#[derive(Clone, Debug)]
pub struct Flows([u64; BUCKETS]);

impl Flows {
    /// Of these.
    pub fn of<'a>(frames: impl Iterator<Item = &'a [u8]>) -> Self {
        let mut all = [0; BUCKETS];
        frames.for_each(|f| all[usize::from(bucket(f))] += 1);
        Self(all)
    }
    /// How much of all the busiest of so many workers has, to which buckets fall in turn.
    fn busiest(&self, workers: usize) -> f64 {
        let of = |w: usize| self.0.iter().skip(w).step_by(workers).sum::<u64>();
        let most = (0..workers).map(of).max().unwrap_or(0);
        most as f64 / self.0.iter().sum::<u64>().max(1) as f64
    }
}

/// For each number of workers.
pub fn table(c: &Costs, flows: &Flows, workers: &[usize]) -> Vec<Scaled> {
    let one = |&n: &usize| {
        let shares = (0..=BUCKETS).step_by(16).map(|own| (one_queue(c, n, own), own));
        let best = shares.max_by(|a, b| a.0.total_cmp(&b.0)).unwrap_or((0.0, 0));
        Scaled {
            workers: n,
            queue_each: n as f64 * 1e3 / c.alone_ns,
            queue_each_without_loss: 1e3 / c.alone_ns / flows.busiest(n),
            one_queue: best.0,
            buckets_at_home: best.1,
        }
    };
    workers.iter().map(one).collect()
}

/// Numbers without an order, the same every time.
struct Numbers(u64);

impl Numbers {
    fn below(&mut self, n: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        ((u128::from(self.0) * n as u128) >> 64) as usize
    }
}

/// Million frames a second when worker 0 has so many buckets and the others the rest, evenly.
pub fn one_queue(c: &Costs, workers: usize, own: usize) -> f64 {
    if workers == 1 || own == BUCKETS {
        return 1e3 / c.home_ns;
    }
    let mut pick = Numbers(0x9e37_79b9_7f4a_7c15);
    let mut lanes = vec![0usize; workers];
    // When each worker's round ends.
    let mut free = vec![0.0f64; workers];
    let (mut done, mut last) = (0u64, 0.0f64);
    while done < FRAMES {
        let w = (0..workers).min_by(|a, b| free[*a].total_cmp(&free[*b])).unwrap_or(0);
        let now = free[w];
        let took = if w == 0 {
            if lanes.iter().skip(1).any(|n| n + BURST > LANE_FRAMES) {
                0.0
            } else {
                let mut kept = 0;
                for _ in 0..BURST {
                    if pick.below(BUCKETS) < own {
                        kept += 1;
                    } else {
                        lanes[1 + pick.below(workers - 1)] += 1;
                    }
                }
                done += kept as u64;
                let mixed = if (1..BURST).contains(&kept) { c.mixed_ns } else { 0.0 };
                kept as f64 * c.home_ns + (BURST - kept) as f64 * c.deal_ns + BURST as f64 * mixed
            }
        } else {
            let n = lanes[w].min(BURST);
            lanes[w] -= n;
            done += n as u64;
            n as f64 * c.far_ns
        };
        // Who has nothing to do looks again when worker 0 has dealt; that one, when somebody has made room.
        let busy = free.iter().zip(&lanes).skip(1).filter(|(_, n)| **n > 0).map(|(t, _)| *t);
        let again = if w == 0 { busy.fold(f64::INFINITY, f64::min) } else { free[0] };
        free[w] = if took > 0.0 { now + took } else { again.max(now) + 1e-3 };
        last = last.max(now + took);
    }
    done as f64 / last * 1e3
}

#[cfg(test)]
mod tests {
    use super::*;

    const COSTS: Costs =
        Costs { deal_ns: 10.0, home_ns: 30.0, mixed_ns: 0.0, far_ns: 40.0, alone_ns: 25.0 };
    const EVEN: Flows = Flows([7; BUCKETS]);

    #[test]
    fn the_simulation_is_what_arithmetic_says_where_that_is_easy() {
        let near = |a: f64, b: f64| assert!((a / b - 1.0).abs() < 0.02, "{a}, not {b}");
        near(one_queue(&COSTS, 1, 256), 1e3 / 30.0);
        // All at one other: 40 ns each there, while worker 0 waits.
        near(one_queue(&COSTS, 2, 0), 1e3 / 40.0);
        // Three others take 13.3 ns a frame together, nine 4.4: then dealing is what takes longest.
        near(one_queue(&COSTS, 4, 0), 3e3 / 40.0);
        near(one_queue(&COSTS, 10, 0), 1e3 / 10.0);
        // Half at home: 15 + 5 ns there; where both in a round cost 4 ns more, that, but not of rounds of one kind.
        near(one_queue(&COSTS, 2, 128), 1e3 / 20.0);
        let mixed = Costs { mixed_ns: 4.0, ..COSTS };
        near(one_queue(&mixed, 2, 128), 1e3 / 24.0);
        near(one_queue(&mixed, 10, 0), 1e3 / 10.0);
    }

    #[test]
    fn more_workers_are_never_slower_and_one_queue_ends_where_its_home_does() {
        let t = table(&COSTS, &EVEN, &[1, 2, 4, 8, 16]);
        assert!(t.windows(2).all(|w| w[1].one_queue >= w[0].one_queue * 0.99), "{t:?}");
        assert!(t.iter().all(|s| s.one_queue <= 1e3 / COSTS.deal_ns * 1.01), "{t:?}");
        assert!(t.iter().all(|s| s.queue_each == s.workers as f64 * 40.0), "{t:?}");
    }

    #[test]
    fn the_busiest_worker_decides_what_is_carried_without_loss() {
        let carried = |flows: &Flows| -> Vec<f64> {
            let all = table(&COSTS, flows, &[1, 2, 4, 16]);
            all.iter().map(|s| s.queue_each_without_loss).collect()
        };
        assert_eq!(carried(&EVEN), [40.0, 80.0, 160.0, 640.0]);
        // One flow is never divided; of two in buckets 0 and 2 two workers have one that has both.
        let frame = [1; 60];
        assert_eq!(carried(&Flows::of([&frame[..]; 9].into_iter())), [40.0; 4]);
        let mut two = [0; BUCKETS];
        (two[0], two[2]) = (30, 10);
        let carried = carried(&Flows(two));
        assert_eq!(carried[..2], [40.0, 40.0]);
        assert!((carried[2] - 40.0 * 4.0 / 3.0).abs() < 1e-9, "{carried:?}");
        assert_eq!(Flows::of(std::iter::empty()).busiest(3), 0.0);
    }
}
