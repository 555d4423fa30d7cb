//! How long a word takes from one thread to others that look at it and read memory: what of a change's way to the workers is the machine's
//! own.
//!
//! Called by `workers`, beside the changes that it times, while no worker runs. What such threads wait for is no worker's doing: somebody
//! else had the processor, this system or what it runs on. They read memory because a thread that does not is left in peace more: on a
//! virtual machine, processors were away for 0.6 of 100 moments where nothing was read, and for 1.5 where lines of 64 MiB were.

use anyhow::{Context, Result};
use std::hint::black_box;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread;
use std::time::{Duration, Instant};

/// What ends those who look.
const END: u32 = u32::MAX;
const GONE: &str = "a thread that looked at a word has gone";
/// Bytes of memory that each of them reads, a line at a time.
const MEMORY: usize = 64 << 20;

/// Microseconds until each of `times` words was seen by all of `who`, shortest first. Each says where its thread stays.
///
/// # Errors
/// A thread that could not stay there, which has seen nothing then.
pub(super) fn waits<S>(who: Vec<S>, times: u32, apart: Duration) -> Result<Vec<f64>>
where
    S: FnOnce() -> Result<()> + Send,
{
    let word = AtomicU32::new(0);
    thread::scope(|s| {
        let look = |stay: S| {
            let (tell, told) = channel();
            let word = &word;
            (s.spawn(move || stay().map(|()| watch(word, &tell))), told)
        };
        let (threads, told): (Vec<_>, Vec<_>) = who.into_iter().map(look).unzip();
        // Each says once that it is there.
        let waits = || {
            told.iter().try_for_each(|told| told.recv().map(drop)).context(GONE)?;
            let each = |i| {
                thread::sleep(apart);
                one(&word, i, &told)
            };
            (1..=times.min(END - 1)).map(each).collect::<Result<Vec<f64>>>()
        };
        let waits = waits();
        word.store(END, Ordering::Release);
        for t in threads {
            t.join().ok().context("a thread that looked at a word has panicked")??;
        }
        let mut waits = waits?;
        waits.sort_by(f64::total_cmp);
        Ok(waits)
    })
}

/// Until all have seen it.
fn one(word: &AtomicU32, i: u32, told: &[Receiver<Instant>]) -> Result<f64> {
    let asked = Instant::now();
    word.store(i, Ordering::Release);
    let mut last = asked;
    for told in told {
        last = last.max(told.recv().context(GONE)?);
    }
    Ok((last - asked).as_secs_f64() * 1e6)
}

fn watch(word: &AtomicU32, tell: &Sender<Instant>) {
    // Written, so that it is there.
    let memory = vec![1u8; MEMORY];
    let (mut seen, mut at) = (0, 1u64);
    // Who asked may have gone, here and below: then END comes next.
    let _ = tell.send(Instant::now());
    while seen != END {
        at = at.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        black_box(memory.get((at >> 33) as usize % MEMORY).copied());
        let now = word.load(Ordering::Acquire);
        if now != seen {
            seen = now;
            let _ = tell.send(Instant::now());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use anyhow::bail;

    #[test]
    fn every_word_is_seen_by_all() {
        let waits = waits(vec![|| Ok(()); 2], 50, Duration::ZERO).unwrap();
        assert!(waits.len() == 50 && waits.is_sorted() && waits[0] > 0.0);
    }

    #[test]
    fn who_cannot_stay_is_an_error() {
        let gone = waits(vec![|| bail!("no such processor")], 3, Duration::ZERO);
        assert!(gone.unwrap_err().to_string().contains("no such processor"));
    }
}
