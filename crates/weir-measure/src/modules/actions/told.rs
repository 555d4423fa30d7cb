//! What `actions` says of what it found: 001's table 2, and its verdicts.
//!
//! Pure. Part of `actions`, when all has been measured.

use super::change::Change;
use super::{Actions, Row};
use crate::document::{
    Axis, Cell, Column, Document, Figure, Outcome, Point, ProbeResolution, Samples, Series, Table,
    Verdict,
};
use crate::stats::clearly_more;

/// A delay is another kind of delay from here on: several times what forwarding takes, and much of it.
const DEARER: f64 = 4.0;
/// By so much beyond another's median must be nine of ten frames: what only the machine's other work delays has
/// some that it did not meet.
const DEARER_BY_US: f64 = 50.0;

/// A combination costs more than its dearest part from this part of that on.
const MUCH: f64 = 0.5;

/// What a row's frames take, in microseconds; not a number where none came.
#[derive(Clone, Copy, Debug)]
struct Delay {
    p10: f64,
    median: f64,
    deviation: f64,
}

impl Delay {
    /// Whether nearly all take longer than another's median, and by much.
    fn is_beyond(self, median: f64) -> bool {
        self.median.is_finite() && self.p10 > median + DEARER_BY_US
    }
}

/// Whether a row's rounds take longer than another's, by more than they differ. Of one round nothing can be said: the
/// machine may have stood still for all of it.
fn clearly(row: &Row, other: &Row, least: impl Fn(f64) -> f64) -> bool {
    let rounds = row.medians.len().min(other.medians.len());
    rounds > 1 && clearly_more(&row.medians, &other.medians, least)
}

const CHANCE: &str = "rounds are too few, or differ too much, to tell it from chance";

/// Without the combinations that have one of the others as a part: what they do is that part's doing.
fn by_themselves(rows: Vec<&Row>) -> Vec<&Row> {
    let single = |c: &Change| rows.iter().any(|r| r.changes == [*c]);
    let is_implied = |r: &Row| r.changes.len() > 1 && r.changes.iter().any(single);
    rows.iter().copied().filter(|r| !is_implied(r)).collect()
}

impl Actions {
    /// Writes all of it into the document.
    pub(super) fn tell(&mut self, document: &mut Document) {
        let bytes = self.frame.saturating_sub(4) as u32;
        document.probe = Some(ProbeResolution::shared(self.fps, bytes, 1));
        let mut table = Table::new(
            "actions",
            "Time to perform packet modifications, and loss",
            vec![
                Column::text("modification"),
                Column::number("median", "µs"),
                Column::number("standard deviation", "µs"),
                Column::number("loss", "%"),
                Column::number("right", "%"),
                Column::number("frames", ""),
                Column::text("remark"),
            ],
        );
        let mut figure = Figure::new(
            "actions-delay",
            "Delay of modifications",
            Axis::of_names("modification", self.rows.iter().map(Row::short).collect()),
            Axis::log("delay", "µs"),
        );
        let mut series = Series::measured("delay", "10th to 90th percentile");
        let mut medians = Vec::new();
        for (n, row) in self.rows.iter_mut().enumerate() {
            let id = format!("action-{n}");
            let samples = std::mem::replace(&mut row.delays, Samples::new("µs"));
            let measured = samples.count() > 0;
            document.distribution(&id, &row.name, samples);
            let Some(d) = document.distributions.last() else { continue };
            let p = |percent| d.percentile(percent).unwrap_or(f64::NAN);
            let right = row.right as f64 / row.received.max(1) as f64 * 100.0;
            let median = p(50.0);
            table.row([
                Cell::from(row.name.clone()),
                Cell::from(median),
                Cell::from(d.standard_deviation.filter(|_| measured).unwrap_or(f64::NAN)),
                Cell::from(row.loss()),
                Cell::from(if row.received > 0 { right } else { f64::NAN }),
                Cell::from(row.sent),
                Cell::from(match (&row.refused, &row.wrong) {
                    (Some(r), _) => format!("refused: {r}"),
                    (None, Some(w)) => format!("changed wrongly: {w}"),
                    (None, None) if row.duplicates > 0 => format!("{} twice", row.duplicates),
                    (None, None) => String::new(),
                }),
            ]);
            series.push(Point::with_spread(n as f64, median, p(10.0), p(90.0)));
            let deviation = d.standard_deviation.filter(|_| measured).unwrap_or(f64::NAN);
            medians.push(Delay { p10: p(10.0), median, deviation });
        }
        figure.series.push(series);
        document.tables.push(table);
        document.figures.push(figure);
        document.verdicts.extend([self.accepted(), self.correct(), self.complete()]);
        document.verdicts.push(self.fast(&medians));
        document.verdicts.push(self.dearest(&medians));
    }

    fn tried(&self) -> impl Iterator<Item = &Row> {
        self.rows.iter().filter(|r| r.sent > 0)
    }

    fn accepted(&self) -> Verdict {
        let id = "modifications-accepted";
        let refused = by_themselves(self.rows.iter().filter(|r| r.refused.is_some()).collect());
        let told = |r: &&Row| format!("{} ({})", r.name, r.refused.as_deref().unwrap_or_default());
        let refused: Vec<_> = refused.iter().map(told).collect();
        if refused.is_empty() {
            return Verdict::new(id, Outcome::Holds, "No flow was refused for its modifications.");
        }
        let s = format!("Flows are refused for: {}.", refused.join(", "));
        Verdict::new(id, Outcome::Fails, s).with("refused", refused.len() as f64, "")
    }

    fn correct(&self) -> Verdict {
        let id = "modifications-right";
        let came = self.tried().filter(|r| r.received > 0).count();
        let wrong = by_themselves(self.tried().filter(|r| r.right < r.received).collect());
        let wrong: Vec<_> = wrong.iter().map(|r| r.name.as_str()).collect();
        if came == 0 {
            Verdict::new(id, Outcome::Unclear, "No frame came through.")
        } else if wrong.is_empty() {
            Verdict::new(id, Outcome::Holds, "Every frame that came was changed as it should be.")
        } else {
            let s = format!("Frames are changed wrongly by: {}.", wrong.join(", "));
            Verdict::new(id, Outcome::Fails, s).with("modifications", wrong.len() as f64, "")
        }
    }

    fn complete(&self) -> Verdict {
        let id = "modifications-complete";
        // A frame in a hundred may be the instrument's own.
        let lossy = by_themselves(self.tried().filter(|r| r.loss() > 1.0).collect());
        let worst = self.tried().map(Row::loss).fold(0.0, f64::max);
        if self.tried().next().is_none() {
            return Verdict::new(id, Outcome::Unclear, "No frame was sent.");
        }
        if lossy.is_empty() {
            let s = if worst > 0.0 {
                "No modification loses more than one frame in a hundred."
            } else {
                "No modification loses frames."
            };
            return Verdict::new(id, Outcome::Holds, s).with("worst loss", worst, "%");
        }
        let told = |r: &&Row| match r.received {
            0 => format!("{} (all, without an error)", r.name),
            _ => format!("{} ({:.1} %)", r.name, r.loss()),
        };
        let names: Vec<_> = lossy.iter().map(told).collect();
        let s = format!("Frames are lost by: {}.", names.join(", "));
        Verdict::new(id, Outcome::Fails, s).with("worst loss", worst, "%")
    }

    fn fast(&self, delays: &[Delay]) -> Verdict {
        let id = "modifications-as-fast";
        let Some(forward) = delays.first().map(|d| d.median).filter(|m| m.is_finite()) else {
            return Verdict::new(id, Outcome::Unclear, "Forwarding alone could not be measured.");
        };
        let changed = self.rows.iter().zip(delays).skip(1);
        let came = changed.filter(|(_, d)| d.median.is_finite());
        let Some(dearest) = came.max_by(|a, b| a.1.median.total_cmp(&b.1.median)) else {
            return Verdict::new(id, Outcome::Unclear, "No modification could be measured.");
        };
        let slow: Vec<_> = (self.rows.iter().zip(delays))
            .filter(|(_, d)| d.is_beyond(forward) && d.median > DEARER * forward)
            .collect();
        let least = |us: f64| (DEARER * us).max(us + DEARER_BY_US);
        let surely = |r: &Row| self.rows.first().is_some_and(|other| clearly(r, other, least));
        let sure: Vec<_> = slow.iter().copied().filter(|(r, _)| surely(r)).collect();
        // Where some are, the others need not be named.
        let (outcome, slow) = match (slow.is_empty(), sure.is_empty()) {
            (true, _) => (Outcome::Holds, slow),
            (_, true) => (Outcome::Unclear, slow),
            _ => (Outcome::Fails, sure),
        };
        // Of a combination the deviation is that of its parts.
        let slowest = slow.iter().map(|s| s.1).max_by(|a, b| a.median.total_cmp(&b.median));
        let names = by_themselves(slow.iter().map(|s| s.0).collect());
        let slow: Vec<_> = slow
            .iter()
            .filter(|(r, _)| names.iter().any(|n| n.name == r.name))
            .map(|(r, d)| format!("{} ({:.0} µs)", r.name, d.median))
            .collect();
        let slow = slow.join(", ");
        let s = match outcome {
            Outcome::Holds => format!(
                "No modification is done by another, slower part of the switch: forwarding takes {forward:.1} µs, {}, the dearest, {:.1} µs (medians).",
                dearest.0.name, dearest.1.median
            ),
            Outcome::Fails => format!(
                "Forwarding takes {forward:.1} µs; another, slower part of the switch does: {slow}."
            ),
            Outcome::Unclear => format!(
                "Forwarding takes {forward:.1} µs; it looks as if another, slower part of the switch did: {slow}; but {CHANCE}."
            ),
        };
        let verdict = Verdict::new(id, outcome, s);
        let verdict = verdict.with("forwarding, median", forward, "µs");
        match slowest {
            None => verdict,
            Some(d) => verdict.with("slowest, median", d.median, "µs").with(
                "slowest, standard deviation",
                d.deviation,
                "µs",
            ),
        }
    }

    /// 001 §4.1: the time of a combination is the highest of its parts'.
    fn dearest(&self, delays: &[Delay]) -> Verdict {
        let id = "combination-costs-its-dearest";
        let of = |c: &Change| {
            let at = self.rows.iter().position(|r| r.changes == [*c])?;
            let median = delays.get(at).map(|d| d.median).filter(|m| m.is_finite())?;
            Some((self.rows.get(at)?, median))
        };
        let (mut worst, mut some, mut sure) = (0.0_f64, false, false);
        for (row, d) in self.rows.iter().zip(delays).filter(|(r, _)| r.changes.len() > 1) {
            let parts = row.changes.iter().filter_map(of);
            let Some((part, dearest)) = parts.max_by(|a, b| a.1.total_cmp(&b.1)) else { continue };
            if d.median.is_finite() && dearest > 0.0 {
                some = true;
                if d.is_beyond(dearest) {
                    let beyond = (d.median - dearest - DEARER_BY_US) / dearest;
                    let least = |us: f64| (1.0 + MUCH) * us + DEARER_BY_US;
                    sure |= beyond >= MUCH && clearly(row, part, least);
                    worst = worst.max(beyond);
                }
            }
        }
        if !some {
            return Verdict::new(id, Outcome::Unclear, "No combination could be measured.");
        }
        let (outcome, s) = match (worst < MUCH, sure) {
            (true, _) => (
                Outcome::Holds,
                "A combination costs about what its dearest part costs.".to_owned(),
            ),
            (_, true) => {
                (Outcome::Fails, "A combination costs more than its dearest part.".to_owned())
            }
            _ => {
                let s = format!(
                    "A combination seems to cost more than its dearest part, but {CHANCE}."
                );
                (Outcome::Unclear, s)
            }
        };
        Verdict::new(id, outcome, s).with("beyond the dearest part, at most", worst * 100.0, "%")
    }
}

#[cfg(test)]
mod tests {
    use super::super::{about, new};
    use super::*;
    use crate::module::{Depth, Params};

    fn actions(rows: &[(&str, &[Change])]) -> Actions {
        let params = Params::defaults(&about(), Depth::Quick).unwrap();
        let rows = rows.iter().map(|(name, changes)| Row::new(name, changes)).collect();
        Actions { rows, ..new(&params) }
    }

    /// Of ten frames, one takes the first, most the second.
    fn delay((p10, median): (f64, f64)) -> Delay {
        Delay { p10, median, deviation: 1.0 }
    }

    const THREE: &[(&str, &[Change])] =
        &[("Forward", &[]), ("MAC addr.", &[Change::Mac]), ("IP addr.", &[Change::Ip])];

    /// Each row of so many rounds, all of them as the sum.
    fn in_rounds(mut a: Actions, rounds: usize, delays: &[(f64, f64)]) -> Actions {
        for (row, (_, median)) in a.rows.iter_mut().zip(delays) {
            row.medians = vec![*median; rounds];
        }
        a
    }

    fn fast(delays: [(f64, f64); 3], outcome: Outcome, words: &str) {
        let v = in_rounds(actions(THREE), 3, &delays).fast(&delays.map(delay));
        assert_eq!((v.outcome, v.sentence.as_str()), (outcome, words));
    }

    const SLOW: [(f64, f64); 3] = [(60.0, 64.7), (60.0, 65.0), (290.0, 300.0)];

    /// A machine that stands still does so over all of a round.
    #[test]
    fn of_one_round_and_of_rounds_that_differ_no_modification_is_called_slow() {
        let unclear = "Forwarding takes 64.7 µs; it looks as if another, slower part of the switch did: IP addr. (300 µs); but rounds are too few, or differ too much, to tell it from chance.";
        let mut a = in_rounds(actions(THREE), 1, &SLOW);
        let v = a.fast(&SLOW.map(delay));
        assert_eq!((v.outcome, v.sentence.as_str()), (Outcome::Unclear, unclear));
        a = in_rounds(a, 3, &SLOW);
        assert_eq!(a.fast(&SLOW.map(delay)).outcome, Outcome::Fails);
        a.rows[2].medians[1] = 66.0;
        assert_eq!(a.fast(&SLOW.map(delay)).outcome, Outcome::Unclear);
    }

    #[test]
    fn of_one_round_no_combination_is_called_dear() {
        let rows: Vec<_> = THREE.iter().copied().chain([("both", BOTH)]).collect();
        let delays = [(60.0, 64.0), (60.0, 65.0), (60.0, 66.0), (290.0, 300.0)];
        for (rounds, outcome) in [(1, Outcome::Unclear), (3, Outcome::Fails)] {
            let a = in_rounds(actions(&rows), rounds, &delays);
            assert_eq!(a.dearest(&delays.map(delay)).outcome, outcome);
        }
    }

    #[test]
    fn the_dearest_modification_is_named_where_none_is_slow() {
        // Some of its frames are as fast as forwarded ones.
        fast(
            [(60.0, 64.7), (60.0, 65.0), (70.0, 300.0)],
            Outcome::Holds,
            "No modification is done by another, slower part of the switch: forwarding takes 64.7 µs, IP addr., the dearest, 300.0 µs (medians).",
        );
        fast(
            [(60.0, 64.7), (60.0, 65.0), (290.0, 300.0)],
            Outcome::Fails,
            "Forwarding takes 64.7 µs; another, slower part of the switch does: IP addr. (300 µs).",
        );
        let none = f64::NAN;
        fast(
            [(60.0, 64.7), (none, none), (none, none)],
            Outcome::Unclear,
            "No modification could be measured.",
        );
    }

    #[test]
    fn of_combinations_that_were_not_measured_there_is_no_figure() {
        let rows: Vec<_> = THREE.iter().copied().chain([("both", BOTH)]).collect();
        let mut delays = [(60.0, 64.0), (60.0, 65.0), (60.0, 66.0), (f64::NAN, f64::NAN)];
        let v = actions(&rows).dearest(&delays.map(delay));
        assert_eq!((v.outcome, v.evidence.len()), (Outcome::Unclear, 0));
        delays[3] = (60.0, 67.0);
        let v = actions(&rows).dearest(&delays.map(delay));
        assert_eq!((v.outcome, v.evidence.len()), (Outcome::Holds, 1));
    }

    const BOTH: &[Change] = &[Change::Mac, Change::Ip];

    #[test]
    fn a_loss_that_is_let_pass_is_not_denied() {
        let mut a = actions(THREE);
        (a.rows[1].sent, a.rows[1].received) = (1000, 1000);
        assert_eq!(a.complete().sentence, "No modification loses frames.");
        a.rows[1].received = 995;
        let v = a.complete();
        assert_eq!(v.outcome, Outcome::Holds);
        assert_eq!(v.sentence, "No modification loses more than one frame in a hundred.");
    }
}
