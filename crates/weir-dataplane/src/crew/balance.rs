//! Which bucket of a port's flows to move next, so that workers have as much to do. Numbers in, numbers out.
//!
//! Room: crew. Asked by whoever balances a running crew, a few times a second.

use super::flow::BUCKETS;

/// The bucket that, moved from the worker with most frames to the one with fewest, makes the two most alike, and where to;
/// `None`: no move brings them closer. `frames` are those of an interval; buckets without an owner are on their way.
pub fn next_move(
    frames: &[u64; BUCKETS],
    owner: impl Fn(u8) -> Option<usize>,
    workers: usize,
) -> Option<(u8, usize)> {
    let mut load = vec![0u64; workers];
    let all = || (0..=u8::MAX).zip(frames);
    for (b, n) in all() {
        *load.get_mut(owner(b)?)? += n;
    }
    let (most, &busy) = load.iter().enumerate().max_by_key(|(_, n)| **n)?;
    let (least, &idle) = load.iter().enumerate().min_by_key(|(_, n)| **n)?;
    let between = busy - idle;
    // Moved, a bucket of n frames leaves a difference of |between - 2n|.
    let better = |n: u64| n > 0 && n < between;
    let own = all().filter(|(b, n)| owner(*b) == Some(most) && better(**n));
    // Of two that do as much the lighter: fewer frames wait while it moves.
    own.min_by_key(|(_, n)| (between.abs_diff(2 * **n), **n)).map(|(b, _)| (b, least))
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
