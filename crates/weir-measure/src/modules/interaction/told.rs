//! What `interaction` says: the table, figure 6, and whether polling slows updates down.
//!
//! Pure: from rows of polling rates to a document; called when all is measured.

use super::{Interaction, Row};
use crate::document::{
    Axis, Cell, Column, Document, Figure, Outcome, Point, Series, Table, Verdict,
};
use crate::stats::{clearly_more, quantile};

/// Slower by this factor, and by more than the probes' resolution.
const SLOWER: f64 = 1.3;

impl Interaction {
    pub(super) fn table(&self, document: &mut Document) {
        let columns = vec![
            Column::number("polls", "1/s"),
            Column::number("updates", ""),
            Column::number("barrier", "ms"),
            Column::number("data plane", "ms"),
            Column::number("p10", "ms"),
            Column::number("p90", "ms"),
            Column::number("incomplete", ""),
            Column::number("polls answered", "%"),
            Column::number("polls left out", ""),
            Column::number("reply", "ms"),
            Column::number("CPU", "%"),
        ];
        let title = format!("Updates of {} of {} flows while polling", self.changed, self.flows);
        let mut table = Table::new("interaction", &title, columns);
        for r in self.rows.iter().filter(|r| r.updates > 0) {
            let q = |v: &[f64], q| Cell::from(quantile(v, q).unwrap_or(f64::NAN));
            table.row([
                Cell::from(r.rate),
                Cell::from(r.updates),
                q(&r.barriers, 0.5),
                q(&r.delays, 0.5),
                q(&r.delays, 0.1),
                q(&r.delays, 0.9),
                Cell::from(r.incomplete),
                Cell::from(r.answered as f64 / r.asked as f64 * 100.0),
                Cell::from(r.skipped),
                q(&r.replies, 0.5),
                q(&r.cpu, 0.5),
            ]);
        }
        document.tables.push(table);
    }

    pub(super) fn figures(&self, document: &mut Document) {
        let rate = || Axis::log("requests for statistics a second", "1/s");
        let mut delay = Figure::new(
            "interaction",
            "Delay when updating the flow table while polling for statistics",
            rate(),
            Axis::log("delay", "ms"),
        );
        let load = Axis::linear("CPU utilisation", "%");
        let mut cpu =
            Figure::new("interaction-cpu", "CPU while polling and updating", rate(), load);
        let spread = "10th to 90th percentile";
        let point = |x: f64, v: &[f64]| match (quantile(v, 0.5), quantile(v, 0.1), quantile(v, 0.9))
        {
            (Some(y), Some(lo), Some(hi)) => Point::with_spread(x, y, lo, hi),
            _ => Point::missing(x),
        };
        let polled = || self.rows.iter().filter(|r| r.rate > 0.0);
        let mut update = Series::measured("update", spread);
        let mut load = Series::measured("cpu", "");
        for r in polled().filter(|r| r.updates > 0) {
            update.push(point(r.rate, &r.delays));
            load.push(
                quantile(&r.cpu, 0.5).map_or(Point::missing(r.rate), |v| Point::new(r.rate, v)),
            );
        }
        // Zero has no place on the axis: a line across it.
        let mut alone = Series::measured("update, nothing polled", spread);
        let lowest = polled().map(|r| r.rate).fold(f64::INFINITY, f64::min);
        let highest = polled().map(|r| r.rate).fold(0.0, f64::max);
        if let Some(r) = self.rows.first().filter(|r| r.updates > 0) {
            alone.push(point(lowest, &r.delays));
            if highest > lowest {
                alone.push(point(highest, &r.delays));
            }
        }
        delay.series.extend([alone, update]);
        cpu.series.push(load);
        document.figures.extend([delay, cpu]);
    }

    pub(super) fn undisturbed(&self) -> Verdict {
        let id = "updates-undisturbed";
        let of = |r: &Row| (r.updates > 0).then(|| quantile(&r.delays, 0.5)).flatten();
        let Some(alone) = self.rows.first().and_then(of) else {
            return Verdict::new(id, Outcome::Unclear, "No update without polling was measured.");
        };
        let least = |ms: f64| (ms * SLOWER).max(ms + 1.5 * self.round_ms() + 1.0);
        let most = least(alone);
        let unpolled = self.rows.first().map_or(&[][..], |r| &r.delays);
        let clearly = |r: &Row| clearly_more(&r.delays, unpolled, least);
        let mut worst: Option<(f64, f64)> = None;
        // The slowest of those that can't be so by chance.
        let mut proven: Option<(f64, f64)> = None;
        let mut compared = 0;
        let mut stuck = None;
        for r in self.rows.iter().skip(1).filter(|r| r.updates > 0) {
            compared += 1;
            if let Some(ms) = of(r).filter(|_| 2 * r.incomplete < r.updates) {
                if worst.is_none_or(|(_, w)| ms > w) {
                    worst = Some((r.rate, ms));
                }
                if ms > most && proven.is_none_or(|(_, w)| ms > w) && clearly(r) {
                    proven = Some((r.rate, ms));
                }
            } else if stuck.is_none() {
                stuck = Some(r.rate);
            }
        }
        let verdict = match (stuck, proven.or(worst)) {
            _ if compared == 0 => {
                return Verdict::new(id, Outcome::Unclear, "No update under polling was measured.");
            }
            (Some(rate), _) => {
                let s = format!(
                    "An update takes {alone:.1} ms alone; while statistics are polled {rate} times a second, most never came to work within {} s.",
                    self.wait.as_secs_f64()
                );
                Verdict::new(id, Outcome::Fails, s)
            }
            (None, Some((rate, ms))) if ms > most && proven.is_none() => {
                let s = format!(
                    "An update takes {alone:.1} ms alone, and {ms:.1} ms while statistics are polled {rate} times a second; repetitions are too few, or differ too much, to tell that from chance."
                );
                Verdict::new(id, Outcome::Unclear, s)
            }
            (None, Some((rate, ms))) if ms > most => {
                let s = format!(
                    "Polling statistics {rate} times a second makes an update take {ms:.1} ms, not {alone:.1} ms: {:.1} times as long.",
                    ms / alone
                );
                Verdict::new(id, Outcome::Fails, s)
            }
            (None, Some((rate, ms))) if ms > alone => {
                let s = format!(
                    "An update takes {alone:.1} ms alone, and {ms:.1} ms while statistics are polled {rate} times a second, which is the most (medians): that is not clearly longer."
                );
                Verdict::new(id, Outcome::Holds, s)
            }
            (None, _) => {
                let s = format!(
                    "An update takes {alone:.1} ms (median) alone, and no longer while statistics are polled."
                );
                Verdict::new(id, Outcome::Holds, s)
            }
        };
        let slowest = worst.map_or(f64::NAN, |(_, ms)| ms);
        verdict.with("alone, median", alone, "ms").with("at the worst rate, median", slowest, "ms")
    }

    pub(super) fn complete(&self) -> Verdict {
        let id = "updates-work";
        let updates: u64 = self.rows.iter().map(|r| r.updates).sum();
        let incomplete: u64 = self.rows.iter().map(|r| r.incomplete).sum();
        let (outcome, s) = match (updates, incomplete) {
            (0, _) => (Outcome::Unclear, "Nothing was updated.".to_owned()),
            (_, 0) => (Outcome::Holds, "Every update came to work.".to_owned()),
            (of, n) => (
                Outcome::Fails,
                format!("In {n} of {of} updates some entries never showed the change."),
            ),
        };
        Verdict::new(id, outcome, s).with("incomplete", incomplete as f64, "")
    }
}

#[cfg(test)]
mod tests {
    use super::super::{Row, about, new};
    use super::*;
    use crate::module::{Depth, Params};

    fn check(delays: [f64; 3], outcome: Outcome, words: &str) {
        let params = Params::defaults(&about(), Depth::Quick).unwrap();
        let row = |(rate, ms): (f64, f64)| Row {
            rate,
            updates: 5,
            delays: vec![ms; 5],
            ..Row::default()
        };
        let rows = [0.0, 5.0, 50.0].into_iter().zip(delays).map(row).collect();
        let v = Interaction { rows, ..new(&params) }.undisturbed();
        assert_eq!((v.outcome, v.sentence.as_str()), (outcome, words));
    }

    #[test]
    fn what_is_somewhat_longer_is_told_as_that() {
        check(
            [9.9, 9.8, 9.9],
            Outcome::Holds,
            "An update takes 9.9 ms (median) alone, and no longer while statistics are polled.",
        );
        check(
            [9.9, 12.0, 13.02],
            Outcome::Holds,
            "An update takes 9.9 ms alone, and 13.0 ms while statistics are polled 50 times a second, which is the most (medians): that is not clearly longer.",
        );
        check(
            [9.9, 12.0, 130.2],
            Outcome::Fails,
            "Polling statistics 50 times a second makes an update take 130.2 ms, not 9.9 ms: 13.2 times as long.",
        );
    }
}
