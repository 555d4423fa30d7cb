//! How long a word takes from one thread to others that do nothing but look at it: what of a change's way to the workers is the
//! machine's own.
//!
//! Called by `workers`, beside the changes that it times, while no worker runs. What such threads wait for is no worker's doing: somebody
//! else had the processor, this system or what it runs on.

use anyhow::{Context, Result};
use std::hint::spin_loop;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread;
use std::time::{Duration, Instant};

/// What ends those who look.
const END: u32 = u32::MAX;

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
        let waits = (1..=times.min(END - 1)).map(|i| {
            thread::sleep(apart);
            one(&word, i, &told)
        });
        let waits: Result<Vec<f64>> = waits.collect();
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
        last = last.max(told.recv().context("a thread that looked at a word has gone")?);
    }
    Ok((last - asked).as_secs_f64() * 1e6)
}

fn watch(word: &AtomicU32, tell: &Sender<Instant>) {
    let mut seen = 0;
    while seen != END {
        let now = word.load(Ordering::Acquire);
        if now == seen {
            spin_loop();
            continue;
        }
        seen = now;
        // Who asked may have gone: then END comes next.
        let _ = tell.send(Instant::now());
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
