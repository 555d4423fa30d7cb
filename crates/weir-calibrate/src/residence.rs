//! How long lines stay in the last cache where others fill it, too.
//!
//! Frames that a core's own caches do not hold, and the last one does, are copied one after the other, over and over;
//! between bursts the core computes for a while in registers. What copying takes longer than without is what others have
//! taken meanwhile. Who has the cache to themselves sees nothing, and there is no figure.
//!
//! Room: loads and copies in fields. Called by `calibrate`, on the CPU that it is bound to.

use crate::chase::Track;
use crate::clock;
use crate::field::{Field, Pages, WORD};
use crate::levels::Levels;
use std::hint::black_box;
use std::time::{Duration, Instant};

/// What was found.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Residence {
    /// Nanoseconds that a load waits longer where others have taken its line.
    pub load_ns: f64,
    /// The same of a line that is copied among others that follow each other, which are fetched ahead.
    pub line_ns: f64,
    /// Seconds since a line was touched, and the part of such lines that others have taken.
    pub taken: Vec<(f64, f64)>,
}

impl Residence {
    /// The part that others have taken after so long, as the estimator has it.
    pub fn taken(&self, seconds: f64) -> f64 {
        let taken = self.taken.clone();
        weir_estimate::profile::Residence { taken, ..Default::default() }.taken(seconds)
    }
}

/// Milliseconds of computing in a round.
const PAUSES: [f64; 9] = [0.0, 2.0, 4.0, 6.0, 8.0, 11.0, 16.0, 28.0, 48.0];
/// What is gone through must take longer by this part of what it takes at once, or nobody takes anything.
const SEEN: f64 = 0.2;
/// Points of the curve are at least so many seconds apart.
const APART: f64 = 1e-5;
/// Bytes of the field of loads, where the core's own caches hold less than half of that.
const LEAST: f64 = 4.0 * 1024.0 * 1024.0;
/// Frames that are copied, of so many words, into so many chunks: a burst at a time, and then the core computes.
const FRAMES: usize = 8192;
const FRAME: usize = 192;
const CHUNKS: usize = 64;
const CHUNK: usize = 256;
/// Cycles of computing between two looks at the time.
const CHAIN: u64 = 4_000;

/// Computes for so long, without a load.
fn pause(time: Duration) {
    let begin = Instant::now();
    while begin.elapsed() < time {
        black_box(clock::chain(CHAIN));
    }
}

/// Nanoseconds of a round's work, which computes for so long besides, and seconds from a round's beginning to the next
/// one's: in the middle of several.
fn rounds(round: &mut dyn FnMut(Duration) -> Duration, pause_ms: f64, times: usize) -> (f64, f64) {
    let wait = Duration::from_secs_f64(pause_ms / 1e3);
    // What was there before is none of this pause's.
    round(wait);
    let mut all = Vec::new();
    for _ in 0..times.max(1) {
        let begin = Instant::now();
        let work = round(wait).as_nanos() as f64;
        all.push((work, begin.elapsed().as_secs_f64()));
    }
    all.sort_by(|a, b| a.0.total_cmp(&b.0));
    all.get(all.len() / 2).copied().unwrap_or_default()
}

/// Measures so many rounds for each pause; nothing where nobody takes lines.
///
/// # Errors
/// Those of mmap(2).
pub fn measure(levels: &Levels, times: usize) -> std::io::Result<Option<Residence>> {
    let caches = &levels.caches;
    let own = caches.len().checked_sub(2).and_then(|at| caches.get(at));
    let Some((own, last)) = own.zip(caches.last()) else { return Ok(None) };
    if last.cache.sharers < 2 {
        return Ok(None);
    }
    between(own.bytes, last.cache.bytes, last.cache.line_bytes as usize, times)
}

/// The same for a last cache of so many bytes, in lines of so many, behind caches of the core's own.
///
/// # Errors
/// Those of mmap(2).
pub fn between(
    own: f64,
    last: f64,
    line: usize,
    times: usize,
) -> std::io::Result<Option<Residence>> {
    let frames = FRAMES * FRAME * WORD;
    let bytes = (2.0 * own).max(LEAST);
    if line < WORD || bytes.max(frames as f64) > last / 2.0 {
        return Ok(None);
    }
    let mut copied = copies()?;
    let found: Vec<(f64, f64)> = PAUSES.iter().map(|p| rounds(&mut copied, *p, times)).collect();
    let Some((line_ns, taken)) = curve(&found, (frames / line) as f64) else { return Ok(None) };
    let track = Track::new(bytes as usize, line, Pages::Small)?;
    let mut loads = track.run(1);
    let lines = track.lines();
    let mut chase = |wait| {
        pause(wait);
        let begin = Instant::now();
        black_box(loads(lines));
        begin.elapsed()
    };
    let longest = PAUSES.iter().copied().fold(0.0, f64::max);
    let (near, far) = (rounds(&mut chase, 0.0, times).0, rounds(&mut chase, longest, times).0);
    // All of a round: the core's own caches lose lines as well, since the last one keeps account of them. After the
    // longest pause a load takes as long in this field as in one that is many times larger.
    Ok(Some(Residence { load_ns: ((far - near) / lines as f64).max(0.0), line_ns, taken }))
}

/// What a line costs more that was taken, and the parts that are after so many seconds, from rounds' nanoseconds after
/// pauses, the shortest first; so many lines of a round are in the last cache.
fn curve(found: &[(f64, f64)], beyond: f64) -> Option<(f64, Vec<(f64, f64)>)> {
    let at_once = found.first()?.0;
    // After the longest pauses all is gone that goes: two of them, as noise only adds.
    let longest = found.iter().rev().take(2).map(|f| f.0).fold(f64::MAX, f64::min);
    let more = longest - at_once;
    if more < SEEN * at_once {
        return None;
    }
    let mut taken: Vec<(f64, f64)> = Vec::new();
    for (ns, seconds) in found {
        let (last, before) = taken.last().copied().unwrap_or((0.0, 0.0));
        // A round that was disturbed may have ended later than one after a longer pause.
        if *seconds > last + APART {
            taken.push((*seconds, before.max(((ns - at_once) / more).clamp(0.0, 1.0))));
        }
    }
    Some((more / beyond.max(1.0), taken))
}

/// Copies frames that lie one behind the other into chunks in turns: all of them in a round, which says what copying
/// took, and computes after each burst for its part of the time that it is given.
fn copies() -> std::io::Result<impl FnMut(Duration) -> Duration> {
    let mut frames = Field::new(FRAMES * FRAME * WORD, Pages::Small)?;
    let mut chunks = Field::new(CHUNKS * CHUNK * WORD, Pages::Small)?;
    Ok(move |wait: Duration| {
        let mut spent = Duration::ZERO;
        let each = wait / (FRAMES / CHUNKS) as u32;
        for burst in frames.words().chunks(CHUNKS * FRAME) {
            let begin = Instant::now();
            for (from, to) in burst.chunks_exact(FRAME).zip(chunks.words().chunks_exact_mut(CHUNK))
            {
                if let Some(to) = to.get_mut(..FRAME) {
                    to.copy_from_slice(from);
                }
            }
            spent += begin.elapsed();
            if !each.is_zero() {
                pause(each);
            }
        }
        black_box(chunks.words());
        spent
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_others_take_is_told_from_what_loads_take() {
        // A thousand lines of a round, 40 ns each at once, 140 where they were taken.
        let at = |part: f64, seconds: f64| (1000.0 * (40.0 + 100.0 * part), seconds);
        let found = [
            at(0.0, 1e-3),
            at(0.25, 4e-3),
            at(0.2, 6e-3),
            at(0.9, 6e-3),
            at(1.0, 3e-2),
            at(1.0, 5e-2),
        ];
        let (load_ns, taken) = curve(&found, 500.0).expect("a curve");
        assert!((load_ns - 200.0).abs() < 1e-6, "{load_ns}");
        let parts: Vec<f64> = taken.iter().map(|t| t.1).collect();
        // Never less after more time.
        let want = [0.0, 0.25, 0.25, 1.0, 1.0];
        assert!(parts.iter().zip(want).all(|(p, w)| (p - w).abs() < 1e-9), "{parts:?}");
        let seconds: Vec<f64> = taken.iter().map(|t| t.0).collect();
        assert_eq!(seconds, [1e-3, 4e-3, 6e-3, 3e-2, 5e-2]);
        // Who has the cache alone sees nothing.
        let alone = [at(0.0, 1e-3), at(0.02, 4e-3), at(0.01, 5e-2)];
        assert_eq!(curve(&alone, 500.0), None);
        assert_eq!(curve(&[], 1.0), None);
    }

    #[test]
    fn a_round_copies_every_frame() {
        let mut round = copies().expect("memory");
        let (ns, seconds) = rounds(&mut round, 1.0, 1);
        assert!(ns > 0.0 && seconds >= 1e-3, "{ns} {seconds}");
    }
}
