//! Which bucket of a port's flows to move next, so that workers have as much to do. Numbers in, numbers out.
//!
//! Room: crew. Asked by whoever balances a running crew, a few times a second ([`Balancer`]).

use super::flow::BUCKETS;
use super::{CrewHandle, Moved, Spread};
use crate::runner::WorkerGone;
use std::time::Duration;

/// Frames of each bucket of a port, and whose the bucket is.
struct Flows {
    frames: [u64; BUCKETS],
    owners: [Option<usize>; BUCKETS],
    /// It is one worker's whole, or each has a queue.
    stays: bool,
}

/// The bucket that, moved from the worker with most frames to the one with fewest, makes the two most alike, and where to;
/// `None`: no move brings them closer. `frames` are those of an interval; buckets without an owner are on their way.
pub fn next_move(
    frames: &[u64; BUCKETS],
    owner: impl Fn(u8) -> Option<usize>,
    workers: usize,
) -> Option<(u8, usize)> {
    let owners = std::array::from_fn(|b| owner(b as u8));
    let flows = Flows { frames: *frames, owners, stays: false };
    let (_, bucket, to, _) = best(&[flows], workers)?;
    Some((bucket, to))
}

/// The same for several ports: which port, which bucket, where to; and how unlike the workers are.
fn best(ports: &[Flows], workers: usize) -> Option<(usize, u8, usize, Unlike)> {
    let mut load = vec![0u64; workers];
    for port in ports {
        for (n, owner) in port.frames.iter().zip(&port.owners) {
            *load.get_mut((*owner)?)? += n;
        }
    }
    let (most, &busiest) = load.iter().enumerate().max_by_key(|(_, n)| **n)?;
    let (least, &idlest) = load.iter().enumerate().min_by_key(|(_, n)| **n)?;
    let between = busiest - idlest;
    // Moved, a bucket of n frames leaves a difference of |between - 2n|.
    let better = |n: u64| n > 0 && n < between;
    let all = ports.iter().enumerate().filter(|(_, p)| !p.stays).flat_map(|(i, p)| {
        (0..=u8::MAX).zip(p.frames.iter().zip(&p.owners)).map(move |(b, (n, o))| (i, b, *n, *o))
    });
    let own = all.filter(|(_, _, n, owner)| *owner == Some(most) && better(*n));
    // Of two that do as much the lighter: fewer frames wait while it moves.
    let (port, bucket, ..) = own.min_by_key(|(_, _, n, _)| (between.abs_diff(2 * n), *n))?;
    Some((port, bucket, least, Unlike { busiest, between }))
}

/// How much more the busiest worker has to do than the idlest, in frames.
#[derive(Clone, Copy, Debug)]
struct Unlike {
    busiest: u64,
    between: u64,
}

/// Keeps workers of a running crew alike: compares what came at each port since it looked last.
#[derive(Debug, Default)]
pub struct Balancer {
    before: Vec<(Spread, [u64; BUCKETS])>,
    /// Looks that are let pass: a worker that never once was empty keeps what it has, and each attempt holds frames.
    pause: u32,
    /// Looks to let pass when the next attempt fails, too.
    next_pause: u32,
}

impl Balancer {
    /// Frames that the busiest worker has had since the last look, below which nothing is moved: at four looks a second
    /// 200,000 a second, which take the dearest workloads measured a twentieth of a processor. A worker with less sleeps
    /// most of the time, and has nothing to gain for which frames should be held.
    pub const LEAST: u64 = 50_000;
    /// Buckets moved at one look: frames of each wait until its old worker is once empty, some tens of microseconds.
    pub const AT_ONCE: usize = 8;
    /// Looks that are let pass at most after attempts that failed: sixteen seconds at four a second.
    pub const PATIENT: u32 = 64;
    /// How long a bucket may wait for that; then it stays.
    pub const WAIT: Duration = Duration::from_millis(5);

    /// Whether the next look moves nothing, whatever there is to move.
    pub fn pauses(&self) -> bool {
        self.pause > 0
    }
    /// Moves buckets from the busiest to the idlest worker while the busiest has a quarter more to do; less is within
    /// what the same flows bring from one look to the next. After an attempt that failed it lets looks pass, after each
    /// further one twice as many. Says how many it moved.
    ///
    /// # Errors
    /// [`WorkerGone`].
    pub fn look(&mut self, crew: &CrewHandle) -> Result<usize, WorkerGone> {
        let ports = crew.spreads();
        let before = |s: &Spread| self.before.iter().find(|(b, _)| b.is(s)).map(|(_, n)| *n);
        let seen: Vec<_> = ports.iter().map(|s| (s.clone(), s.seen())).collect();
        // A port that is new has been seen from now on.
        let came = |(s, now): &(Spread, [u64; BUCKETS])| {
            let then = before(s).unwrap_or(*now);
            std::array::from_fn(|b| now[b].saturating_sub(then[b]))
        };
        let came: Vec<[u64; BUCKETS]> = seen.iter().map(came).collect();
        self.before = seen;
        if let Some(less) = self.pause.checked_sub(1) {
            self.pause = less;
            return Ok(0);
        }
        for moved in 0..Self::AT_ONCE {
            let owners = |s: &Spread| std::array::from_fn(|b| s.owner(b as u8));
            let of = |(frames, s): (&[u64; BUCKETS], &Spread)| Flows {
                frames: *frames,
                owners: owners(s),
                stays: s.whole().is_some() || s.has_queues(),
            };
            let flows: Vec<Flows> = came.iter().zip(ports.iter()).map(of).collect();
            let Some((port, bucket, to, unlike)) = best(&flows, crew.workers()) else {
                return Ok(moved);
            };
            let pays = unlike.busiest >= Self::LEAST && unlike.between > unlike.busiest / 5;
            let Some(port) = ports.get(port).filter(|_| pays) else { return Ok(moved) };
            match crew.move_bucket(port, bucket, to, Self::WAIT) {
                Ok(Moved::Arrived) => self.next_pause = 0,
                Ok(Moved::Stayed) => {
                    self.next_pause = (2 * self.next_pause).clamp(1, Self::PATIENT);
                    self.pause = self.next_pause;
                    return Ok(moved);
                }
                // Another moves buckets: there is a next look.
                Err(super::CrewError::Move(_)) => return Ok(moved),
                Err(_) => return Err(WorkerGone),
            }
        }
        Ok(Self::AT_ONCE)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn moves_end_and_leave_workers_alike() {
        for seed in 0..50u64 {
            let workers = 2 + seed as usize % 7;
            let mut n = seed;
            let frames: [u64; BUCKETS] = std::array::from_fn(|_| {
                n = n.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
                (n >> 40) % 1000
            });
            // All with one worker to begin with.
            let mut owner = [0; BUCKETS];
            let mut moves = 0;
            while let Some((b, to)) = next_move(&frames, |b| Some(owner[usize::from(b)]), workers) {
                assert_ne!(owner[usize::from(b)], to);
                owner[usize::from(b)] = to;
                moves += 1;
                assert!(moves <= 2 * BUCKETS, "moves do not end");
            }
            let load =
                |w| -> u64 { (0..BUCKETS).filter(|b| owner[*b] == w).map(|b| frames[b]).sum() };
            let loads: Vec<u64> = (0..workers).map(load).collect();
            let spread = loads.iter().max().unwrap() - loads.iter().min().unwrap();
            assert!(spread < 1000, "{loads:?}");
        }
    }

    #[test]
    fn one_flow_can_not_be_divided_and_nothing_moves_while_a_bucket_does() {
        let mut frames = [0; BUCKETS];
        frames[7] = 1_000_000;
        assert_eq!(next_move(&frames, |_| Some(0), 2), None);
        frames[9] = 10;
        assert_eq!(next_move(&frames, |_| Some(0), 2), Some((9, 1)));
        assert_eq!(next_move(&frames, |b| (b != 3).then_some(0), 2), None);
    }
}
