//! Traffic: how many flows, and how the frames are spread over them.
//!
//! Room: distributions as a few classes of flows of like rate, so that sums over a million flows cost
//! a hundred terms. Called by `locality`, and by whoever has a description of traffic as text.

use crate::fault::nearest;
use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

/// Most flows that are taken.
pub const MAX_FLOWS: f64 = 1e10;

/// Traffic, as far as locality is concerned: frames meet flows independently of each other.
#[derive(Clone, Debug, PartialEq)]
pub struct Traffic {
    /// How frames are spread.
    pub spread: Spread,
    /// Flows.
    pub flows: f64,
}

/// How frames are spread over flows.
#[derive(Clone, Debug, PartialEq)]
pub enum Spread {
    /// All flows alike.
    Uniform,
    /// The flow of rank k gets frames in proportion to k to the power of minus this.
    Zipf(f64),
    /// As counted: frames of each flow.
    Counted(Arc<[u64]>),
    /// As counted, in an order that is played over and over: how far a flow's frames are apart is known.
    Played {
        /// Frames of each flow.
        counts: Arc<[u64]>,
        /// How far they are apart.
        gaps: Arc<[Gap]>,
        /// Each frame's flow.
        order: Arc<[u32]>,
    },
}

/// Frames from one of a flow to its next.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Gap {
    /// How many.
    pub frames: f64,
    /// The part of all frames whose flow comes again so late.
    pub part: f64,
}

/// Flows of like rate.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Class {
    /// How many flows.
    pub flows: f64,
    /// The part of all frames that each of them gets.
    pub part: f64,
}

/// Ranks that are classes of their own.
const EXACT: f64 = 16.0;
/// The next class begins at this many times the rank.
const STEP: f64 = 1.25;
/// Gaps that differ by less are one.
const GAP_STEP: f64 = 1.09;

/// How many frames each flow has in an order that is played over and over, and how far they are apart, nearest first.
fn distances(order: impl Iterator<Item = u32>) -> (Vec<u64>, Arc<[Gap]>) {
    let mut flows: HashMap<u32, (usize, usize, u64)> = HashMap::new();
    let mut gaps: BTreeMap<u32, (f64, f64)> = BTreeMap::new();
    let mut note = |gap: usize| {
        let class = ((gap as f64).ln() / GAP_STEP.ln()) as u32;
        let all = gaps.entry(class).or_default();
        *all = (all.0 + 1.0, all.1 + gap as f64);
    };
    let mut frames = 0;
    for (at, flow) in order.enumerate() {
        let seen = flows.entry(flow).or_insert((at, at, 0));
        if seen.2 > 0 {
            note(at - seen.1);
        }
        (seen.1, seen.2) = (at, seen.2 + 1);
        frames = at + 1;
    }
    // From a flow's last frame to its first of the next time.
    flows.values().for_each(|(first, last, _)| note(frames - last + first));
    let gap = |(n, sum): (f64, f64)| Gap { frames: sum / n, part: n / frames as f64 };
    (flows.into_values().map(|f| f.2).collect(), gaps.into_values().map(gap).collect())
}

impl Traffic {
    /// Uniform over so many flows.
    pub fn uniform(flows: f64) -> Self {
        Self { spread: Spread::Uniform, flows }
    }

    /// From frames counted per flow.
    ///
    /// # Errors
    /// No frame at all.
    pub fn counted(mut counts: Vec<u64>) -> Result<Self, String> {
        counts.retain(|c| *c > 0);
        if counts.is_empty() {
            return Err("no frames in it: expected at least one".into());
        }
        counts.sort_unstable_by(|a, b| b.cmp(a));
        Ok(Self { flows: counts.len() as f64, spread: Spread::Counted(counts.into()) })
    }

    /// Frames that name their flows, in the order in which they are played over and over.
    ///
    /// # Errors
    /// No frame at all.
    pub fn played(order: &[u32]) -> Result<Self, String> {
        let (counts, gaps) = distances(order.iter().copied());
        let Self { flows, spread } = Self::counted(counts)?;
        let Spread::Counted(counts) = spread else { return Ok(Self { spread, flows }) };
        Ok(Self { spread: Spread::Played { counts, gaps, order: order.into() }, flows })
    }

    /// How far, in lookups, those of an entry are apart, nearest first, in a table with a flow's entry each that so large a part of
    /// all frames asks, or every one more than once; where the frames' order is known. Which part asks, their places say.
    pub fn gaps_of(&self, rate: f64) -> Option<Arc<[Gap]>> {
        let Spread::Played { gaps, order, .. } = &self.spread else { return None };
        if rate >= 1.0 {
            return Some(Arc::clone(gaps));
        }
        // As evenly as they can lie.
        let asks = |at: &usize| ((at + 1) as f64 * rate).floor() > (*at as f64 * rate).floor();
        let asking = order.iter().enumerate().filter(|(at, _)| asks(at));
        let gaps = distances(asking.map(|(_, flow)| *flow)).1;
        if !gaps.is_empty() {
            return Some(gaps);
        }
        // Less than one in a round: each asks for another entry than the one before, until all have been asked for.
        Some([Gap { frames: self.flows, part: 1.0 }].into())
    }

    /// Reads `uniform,flows=1M`, `zipf:1.1,flows=100k`.
    ///
    /// # Errors
    /// What was expected.
    pub fn read(text: &str) -> Result<Self, String> {
        let mut spread = None;
        let mut flows = None;
        for part in text.split(',').map(str::trim) {
            let (key, value) = match part.split_once(['=', ':']) {
                Some((k, v)) => (k.trim(), Some(v.trim())),
                None => (part, None),
            };
            let again = match key {
                "uniform" | "zipf" if spread.is_some() => Some("a spread"),
                "flows" if flows.is_some() => Some("'flows'"),
                _ => None,
            };
            if let Some(what) = again {
                return Err(format!("'{part}': {what} is there already: give one"));
            }
            match (key, value) {
                ("uniform", None) => spread = Some(Spread::Uniform),
                ("zipf", Some(v)) => {
                    let s = v.parse::<f64>().ok().filter(|s| (0.0..=10.0).contains(s));
                    let s = s.ok_or(format!("zipf:{v}: expected an exponent from 0 to 10"))?;
                    spread = Some(Spread::Zipf(s));
                }
                ("zipf", None) => return Err("zipf: expected its exponent, as in zipf:1.1".into()),
                ("flows", Some(v)) => flows = Some(count(v)?),
                _ => {
                    let near = nearest(key, ["uniform", "zipf", "flows"].into_iter());
                    let near = near.map(|n| format!("did you mean '{n}'? ")).unwrap_or_default();
                    let expected = "expected uniform,flows=N or zipf:EXPONENT,flows=N";
                    let key: String = key.chars().take(64).collect();
                    return Err(format!("'{key}': {near}{expected}"));
                }
            }
        }
        let flows = flows.ok_or("expected flows=N, as in zipf:1.1,flows=1M")?;
        Ok(Self { spread: spread.unwrap_or(Spread::Uniform), flows })
    }

    /// As it is read.
    pub fn text(&self) -> String {
        match &self.spread {
            Spread::Uniform => format!("uniform,flows={}", self.flows),
            Spread::Zipf(s) => format!("zipf:{s},flows={}", self.flows),
            Spread::Counted(_) => format!("counted,flows={}", self.flows),
            Spread::Played { .. } => format!("played,flows={}", self.flows),
        }
    }

    /// As classes; their parts add up to 1.
    pub fn classes(&self) -> Vec<Class> {
        let mut classes = match &self.spread {
            Spread::Uniform => vec![Class { flows: self.flows, part: 1.0 }],
            Spread::Zipf(s) => ranks(
                self.flows,
                |from, to| {
                    // The power's integral is the sum but for what a curve bends within a rank.
                    let (a, b) = (from + 0.5, to + 0.5);
                    match (s - 1.0).abs() < 1e-9 {
                        true => (b / a).ln(),
                        false => (b.powf(1.0 - s) - a.powf(1.0 - s)) / (1.0 - s),
                    }
                },
                |rank| rank.powf(-s),
            ),
            Spread::Counted(counts) | Spread::Played { counts, .. } => {
                let sum = |from: f64, to: f64| {
                    let part = counts.get(from as usize..to as usize).unwrap_or_default();
                    part.iter().map(|c| *c as f64).sum()
                };
                let one = |rank: f64| counts.get(rank as usize - 1).map_or(0.0, |c| *c as f64);
                ranks(counts.len() as f64, sum, one)
            }
        };
        let whole: f64 = classes.iter().map(|c| c.flows * c.part).sum();
        classes.iter_mut().for_each(|c| c.part /= whole);
        classes
    }
}

/// Classes of ranks: the first ones alone, then in steps. `sum(from, to)` is the weight of the ranks
/// above `from` up to `to`, `one` that of a rank.
fn ranks(flows: f64, sum: impl Fn(f64, f64) -> f64, one: impl Fn(f64) -> f64) -> Vec<Class> {
    let mut classes = Vec::new();
    let mut at = 0.0;
    while at < flows {
        let next = if at < EXACT { at + 1.0 } else { (at * STEP).floor() };
        let next = next.min(flows).max(at + 1.0);
        let weight = if next - at > 1.0 { sum(at, next) } else { one(next) };
        classes.push(Class { flows: next - at, part: weight / (next - at) });
        at = next;
    }
    classes
}

/// A count: `1000`, `64k`, `1M`, `2G`.
///
/// # Errors
/// What was expected.
pub fn count(text: &str) -> Result<f64, String> {
    let expected = || format!("'{text}': expected a whole number from 1 to 1e10, as in 64k or 1M");
    let n = number(text).ok_or_else(expected)?;
    if n.fract() == 0.0 && (1.0..=MAX_FLOWS).contains(&n) { Ok(n) } else { Err(expected()) }
}

/// A number of anything: `0.5`, `1e6`, `64k`, `1.5M`, `11G`, `1T`; nothing for other texts, and outside of 0 to 1e18.
pub fn number(text: &str) -> Option<f64> {
    let (digits, factor) = match text.char_indices().last() {
        Some((i, 'k')) => (text.get(..i)?, 1e3),
        Some((i, 'M')) => (text.get(..i)?, 1e6),
        Some((i, 'G')) => (text.get(..i)?, 1e9),
        Some((i, 'T')) => (text.get(..i)?, 1e12),
        _ => (text, 1.0),
    };
    let n = digits.parse::<f64>().ok()? * factor;
    (0.0..1e18).contains(&n).then_some(n)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_are_read() {
        let t = Traffic::read("zipf:1.1,flows=1M").unwrap();
        assert_eq!(t, Traffic { spread: Spread::Zipf(1.1), flows: 1e6 });
        assert_eq!(Traffic::read("flows=64k").unwrap(), Traffic::uniform(64e3));
        assert!(Traffic::read("zopf:1,flows=1").unwrap_err().contains("did you mean 'zipf'?"));
        for twice in
            ["uniform,flows=1k,flows=2M", "uniform,zipf:1,flows=3", "zipf:1,zipf:1,flows=3"]
        {
            assert!(Traffic::read(twice).is_err_and(|e| e.contains("there already")), "{twice}");
        }
        for bad in ["", "zipf,flows=3", "zipf:1", "zipf:-1,flows=3", "flows=0", "flows=1.5"] {
            assert!(Traffic::read(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn numbers_have_every_suffix() {
        for (text, value) in [
            ("11G", 11e9),
            ("11000M", 11e9),
            ("1T", 1e12),
            ("1.5k", 1.5e3),
            ("0.5", 0.5),
            ("0", 0.0),
        ] {
            assert_eq!(number(text), Some(value), "{text}");
        }
        for bad in ["", "k", "1e18", "1000000T", "-1", "1P", "nan", "infk"] {
            assert_eq!(number(bad), None, "{bad}");
        }
        assert_eq!(count("10G"), Ok(1e10));
        assert!(count("11G").is_err() && count("0.5").is_err());
    }

    #[test]
    fn classes_are_the_distribution() {
        for s in [0.6, 1.0, 1.1, 2.0] {
            let n = 100_000;
            let weights: Vec<f64> = (1..=n).map(|k| f64::from(k).powf(-s)).collect();
            let whole: f64 = weights.iter().sum();
            let classes = Traffic { spread: Spread::Zipf(s), flows: f64::from(n) }.classes();
            assert!(classes.len() < 150);
            let mut begin = 0;
            for c in &classes {
                let end = begin + c.flows as usize;
                let exact: f64 = weights[begin..end].iter().sum::<f64>() / whole;
                let have = c.flows * c.part;
                assert!((have / exact - 1.0).abs() < 0.002, "{s} {begin} {have} {exact}");
                begin = end;
            }
            assert_eq!(begin, n as usize);
        }
    }

    #[test]
    fn counted_flows_are_as_counted() {
        let t = Traffic::counted(vec![1, 0, 7, 2]).unwrap();
        let parts: Vec<f64> = t.classes().iter().map(|c| c.part).collect();
        assert_eq!(parts, [0.7, 0.2, 0.1]);
        assert!(Traffic::counted(vec![0]).is_err());
    }

    #[test]
    fn an_order_says_how_far_frames_of_a_flow_are_apart() {
        let t = Traffic::played(&[7, 7, 9, 7, 8]).unwrap();
        let parts: Vec<f64> = t.classes().iter().map(|c| c.part).collect();
        assert_eq!((t.flows, parts), (3.0, vec![0.6, 0.2, 0.2]));
        // Flow 7 after 1, 2 and, around the end, 2; the others once in a round.
        let gaps: Vec<(f64, f64)> =
            t.gaps_of(1.0).unwrap().iter().map(|g| (g.frames, g.part)).collect();
        assert_eq!(gaps, [(1.0, 0.2), (2.0, 0.4), (5.0, 0.4)]);
        // On average a flow comes again after as many frames as there are flows.
        let order: Vec<u32> = (0..10_000u32).map(|i| i * i % 997).collect();
        let t = Traffic::played(&order).unwrap();
        let mean: f64 = t.gaps_of(1.0).unwrap().iter().map(|g| g.frames * g.part).sum();
        assert!((mean / t.flows - 1.0).abs() < 1e-9, "{mean} {}", t.flows);
        assert!(Traffic::played(&[]).is_err());
        // Every second frame, and too few for a round to have one.
        let t = Traffic::played(&[7, 7, 9, 7, 8, 7]).unwrap();
        let gaps = |rate| -> Vec<(f64, f64)> {
            t.gaps_of(rate).unwrap().iter().map(|g| (g.frames, g.part)).collect()
        };
        assert_eq!(gaps(0.5), [(1.0, 1.0)]);
        assert_eq!(gaps(0.01), [(3.0, 1.0)]);
    }
}
