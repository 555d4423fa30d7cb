//! How far away is what a core's own caches do not answer: over how many bytes a lookup's line was left
//! behind since it was last asked for.
//!
//! By stack distances (Mattson, Gecsei, Slutz, Traiger, *Evaluation Techniques for Storage Hierarchies*, IBM
//! Systems Journal 9:2, 1970), from the same windows as hit rates. Caches count the lines of a window,
//! translations the pages that these lie in: between the two, as sizes are compared by their ratio. Frames are
//! fetched ahead and nobody waits for theirs, but they push out what is waited for.
//!
//! Room: `locality`'s arithmetic. Called by the estimator, by way of its memory of answers.

use super::{Capacity, Footprint, Seen, Stream, characteristic_time, fillings};
use crate::traffic::Traffic;

/// Lookups that go as far.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Beyond {
    /// The part of the lookups that the caches before do not answer.
    pub part: f64,
    /// Bytes that were touched since the line was.
    pub bytes: f64,
    /// Frames since then, of a core.
    pub frames: f64,
}

/// Windows grow by this factor. They end at its powers, whichever the first is: else all costs would move with the first,
/// and a larger cache would now and then be the slower one.
const STEP: f64 = std::f64::consts::SQRT_2;
/// The longest, beside the first.
const STEPS: i32 = 60;
/// A part that is left and not worth another window.
const LITTLE: f64 = 1e-3;

/// How far lookups of each table go that the last cache before does not answer; nothing where it answers all. That is
/// `own`, with what frames put into it: less than `stream`, what they put in between two lookups, where only their
/// headers come so near.
pub fn beyond(
    tables: &[Footprint],
    traffic: &Traffic,
    (own, near): (Capacity, Stream),
    page_bytes: f64,
    stream: Stream,
) -> Vec<Vec<Beyond>> {
    let lines = Seen::all(tables, traffic, own);
    let pages = Seen::all(tables, traffic, Capacity { line_bytes: page_bytes, ..own });
    let touched = |of: &[Seen], unit: f64, t: f64| {
        stream.held(t) * own.line_bytes + of.iter().map(|s| s.lines(t)).sum::<f64>() * unit
    };
    let held = |t: f64| near.held(t) + lines.iter().map(|s| s.lines(t)).sum::<f64>();
    let bytes =
        |t: f64| (touched(&lines, own.line_bytes, t) * touched(&pages, page_bytes, t)).sqrt();
    let mut far = vec![Vec::new(); tables.len()];
    // What each filling of sets lets go, as hit rates have it: a cache in which all would fit loses some all the same,
    // and what a larger one loses besides goes farther.
    for (filling, weight) in fillings(own.ways) {
        if let Some(first) = characteristic_time(held, own.lines * filling) {
            from(first, weight, &lines, &bytes, &mut far);
        }
    }
    for far in &mut far {
        let whole: f64 = far.iter().map(|b| b.part).sum();
        far.iter_mut().for_each(|b| b.part /= whole);
    }
    far
}

/// Adds what goes farther than a window, as a part of all lookups, and no more of it than this.
fn from(
    first: f64,
    weight: f64,
    lines: &[Seen],
    bytes: &impl Fn(f64) -> f64,
    far: &mut [Vec<Beyond>],
) {
    let mut left: Vec<f64> = lines.iter().map(|s| 1.0 - s.hit(first)).collect();
    let whole = left.clone();
    let before = (first.ln() / STEP.ln()).floor() as i32;
    let mut last = first;
    for step in 1..=STEPS {
        let to = STEP.powi(before + step);
        let frames = (last * to).sqrt();
        last = to;
        let at = bytes(frames);
        for ((s, far), left) in lines.iter().zip(&mut *far).zip(&mut left) {
            let beyond = 1.0 - s.hit(to);
            let part = weight * (*left - beyond);
            if part > 0.0 {
                far.push(Beyond { part, bytes: at, frames });
            }
            *left = beyond;
        }
        if left.iter().zip(&whole).all(|(l, w)| *l <= LITTLE * w) {
            break;
        }
    }
    // What never comes again in any window, or is little.
    let at = bytes(last);
    for (far, left) in far.iter_mut().zip(left) {
        if left > 0.0 {
            far.push(Beyond { part: weight * left, bytes: at, frames: last });
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const OWN: Capacity = Capacity { lines: 1024.0, line_bytes: 64.0, ways: 16.0, split: 1.0 };

    fn table(entries: f64) -> Footprint {
        Footprint { entries, entry_bytes: 64.0, rate: 1.0 }
    }

    fn mean(far: &[Beyond]) -> f64 {
        assert!((far.iter().map(|b| b.part).sum::<f64>() - 1.0).abs() < 1e-9, "{far:?}");
        far.iter().map(|b| b.part * b.bytes.ln()).sum::<f64>().exp()
    }

    #[test]
    fn what_comes_round_and_round_is_as_far_as_a_round_is_long() {
        // 4096 entries one after the other: 256 KiB of lines, in pages that are full.
        let order: Vec<u32> = (0..4096).collect();
        let traffic = Traffic::played(&order).expect("frames");
        let far = |stream| beyond(&[table(4096.0)], &traffic, (OWN, stream), 4096.0, stream);
        let alone = mean(&far(Stream::default())[0]);
        assert!((alone / (4096.0 * 64.0)).ln().abs() < STEP.ln(), "{alone}");
        // Frames of 24 lines in between: 25 times as far.
        let among = mean(&far(Stream { lines: 24.0, buffers: 4096.0 })[0]);
        assert!((among / alone / 25.0).ln().abs() < STEP.ln(), "{among} {alone}");
        let none = Stream::default();
        // Strewn over sixteen times as many entries, each in a page of its own.
        let traffic = Traffic::played(&order.iter().map(|e| e * 64).collect::<Vec<_>>());
        let strewn =
            beyond(&[table(65536.0)], &traffic.expect("frames"), (OWN, none), 4096.0, none);
        let strewn = mean(&strewn[0]);
        assert!(strewn > 1.9 * alone && strewn < 5.0 * alone, "{strewn} {alone}");
    }

    #[test]
    fn what_is_rarely_asked_for_is_farther() {
        let zipf = Traffic::read("zipf:1.1,flows=65536").expect("traffic");
        let none = Stream::default();
        let of = |t: &Traffic| mean(&beyond(&[table(65536.0)], t, (OWN, none), 64.0, none)[0]);
        let (rare, even) = (of(&zipf), of(&Traffic::uniform(65536.0)));
        assert!(rare > 64.0 * 1024.0 && rare < 65536.0 * 64.0, "{rare}");
        assert!(even > rare && even < 65536.0 * 64.0, "{even} {rare}");
        // All is near.
        let near = beyond(&[table(512.0)], &Traffic::uniform(512.0), (OWN, none), 64.0, none);
        assert_eq!(near, [Vec::new()]);
    }
}
