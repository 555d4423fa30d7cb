//! What `counters` says of what it found: its table and its verdicts.
//!
//! Pure. Part of `counters`, when all has been read.

use super::ledger::{KINDS, What};
use super::{Counters, Found, OLD_MS, Step};
use crate::document::{Cell, Column, Document, Outcome, ProbeResolution, Samples, Table, Verdict};
use crate::stats::{median, quantile};

impl Counters {
    /// Writes all of it into the document.
    pub(super) fn tell(&self, document: &mut Document) {
        let (bytes, flows) = (self.frame.saturating_sub(4) as u32, self.probed.len() as u32);
        document.probe = Some(ProbeResolution::shared(self.fps, bytes, flows.max(1)));
        let columns = vec![
            Column::text("counter"),
            Column::number("readings", ""),
            Column::number("age", "ms"),
            Column::number("age p90", "ms"),
            Column::number("ahead", "readings"),
            Column::number("fallen", "readings"),
            Column::number("told in the end", "packets"),
            Column::number("sent", "packets"),
            Column::number("settled", "ms"),
            Column::text("remark"),
        ];
        let mut table = Table::new("counters", "Counters beside what was sent", columns);
        for (name, kind) in KINDS {
            let absent = |why: String| {
                let nothing = || Cell::from(f64::NAN);
                let mut row = vec![Cell::from(name), Cell::from(0u64)];
                row.extend((0..7).map(|_| nothing()));
                row.push(Cell::from(why));
                row
            };
            let Some(found) = self.kinds.get(&kind) else {
                let refused = self.refused.get(name).map(|w| format!("refused: {w}"));
                table.row(absent(refused.unwrap_or_else(|| "not told".to_owned())));
                continue;
            };
            let q = |q| Cell::from(quantile(&found.ages, q).unwrap_or(f64::NAN));
            let told = self.last.as_ref().and_then(|r| r.packets(kind));
            let told = told.map(|n| n.saturating_sub(found.before.unwrap_or(0)));
            let sent = match kind {
                What::Group | What::Meter => self.truth(kind).most,
                _ => self.sent,
            };
            table.row([
                Cell::from(name),
                Cell::from(found.readings),
                q(0.5),
                q(0.9),
                Cell::from(found.ahead),
                Cell::from(found.back),
                told.map_or(Cell::from(f64::NAN), Cell::from),
                Cell::from(sent),
                Cell::from(found.settled.unwrap_or(f64::NAN)),
                Cell::from(self.remark(kind)),
            ]);
            let mut samples = Samples::new("ms").in_group("age of counters");
            found.ages.iter().for_each(|&ms| samples.record(ms));
            let id = format!("age-{}", name.replace(", ", "-"));
            document.distribution(&id, name, samples);
        }
        document.tables.push(table);
        document.verdicts.extend([self.right(), self.fresh(), self.honest()]);
    }

    /// What is wrong with a kind in the end.
    fn remark(&self, kind: What) -> String {
        let Some(last) = self.last.as_ref().filter(|_| self.step == Step::Over) else {
            return String::new();
        };
        if self.is_right(kind, last) {
            return String::new();
        }
        let packets = |what: What| {
            let pair = self.difference(what, last);
            let right = pair.is_some_and(|p| self.truth(what).has_packets(p.0));
            (!right).then(|| pair.map_or(0, |p| p.0))
        };
        match kind {
            What::Flow(_) => {
                let wrong: Vec<_> = self
                    .probed
                    .iter()
                    .filter_map(|n| Some((*n, packets(What::Flow(*n))?)))
                    .collect();
                match wrong.first() {
                    Some((n, told)) => format!(
                        "{} flows wrong; flow {n}: {told} packets of {}",
                        wrong.len(),
                        self.truth(What::Flow(*n)).most
                    ),
                    None => "bytes are wrong".to_owned(),
                }
            }
            other if packets(other).is_some() => "packets are wrong".to_owned(),
            _ => "bytes are wrong".to_owned(),
        }
    }

    fn names(&self, of: impl Fn(What, &Found) -> bool) -> Vec<&'static str> {
        let is = |kind: &What| self.kinds.get(kind).is_some_and(|f| of(*kind, f));
        KINDS.iter().filter(|(_, kind)| is(kind)).map(|(name, _)| *name).collect()
    }

    fn right(&self) -> Verdict {
        let id = "counters-right";
        let Some(last) = self.last.as_ref().filter(|_| self.step == Step::Over) else {
            return Verdict::new(id, Outcome::Unclear, "Counters were not read after the probes.");
        };
        let wrong = self.names(|kind, _| !self.is_right(kind, last));
        let verdict = if wrong.is_empty() {
            let s = "In the end every counter tells what was sent, packets and bytes.";
            Verdict::new(id, Outcome::Holds, s)
        } else {
            let s = format!(
                "{} s after the last probe these are not what was sent: {}.",
                self.wait.0 as f64 / 1e9,
                wrong.join("; ")
            );
            Verdict::new(id, Outcome::Fails, s)
        };
        let settled = self.kinds.values().filter_map(|f| f.settled).fold(f64::NAN, f64::max);
        verdict.with("probes", self.sent as f64, "").with("settled after, at most", settled, "ms")
    }

    fn fresh(&self) -> Verdict {
        let id = "counters-fresh";
        let age = |f: &Found| quantile(&f.ages, 0.9);
        if self.kinds.values().all(|f| age(f).is_none()) {
            return Verdict::new(
                id,
                Outcome::Unclear,
                "No counter was read while probes were sent.",
            );
        }
        let is_old = |f: &Found| age(f).is_some_and(|ms| ms > OLD_MS);
        let old: Vec<String> = KINDS
            .iter()
            .filter_map(|(name, kind)| Some((name, self.kinds.get(kind)?)))
            .filter(|(_, f)| is_old(f))
            .map(|(name, f)| {
                format!("{name} ({:.0} ms, median)", median(&f.ages).unwrap_or(f64::NAN))
            })
            .collect();
        let oldest = self.kinds.values().filter_map(age).fold(f64::NAN, f64::max);
        let verdict = if old.is_empty() {
            Verdict::new(id, Outcome::Holds, "Counters are as new as the probes can tell.")
        } else {
            let s = format!("Counters are old when they are told: {}.", old.join("; "));
            Verdict::new(id, Outcome::Fails, s)
        };
        verdict.with("age, 90th percentile", oldest, "ms")
    }

    fn honest(&self) -> Verdict {
        let id = "counters-not-ahead";
        let readings: u64 = self.kinds.values().map(|f| f.readings).sum();
        if readings == 0 {
            return Verdict::new(id, Outcome::Unclear, "No counter was read.");
        }
        let ahead = self.names(|_, f| f.ahead > 0);
        let back = self.names(|_, f| f.back > 0);
        let verdict = match (ahead.is_empty(), back.is_empty()) {
            (true, true) => {
                let s = "No counter tells of frames that were not sent, or of fewer than before.";
                Verdict::new(id, Outcome::Holds, s)
            }
            (false, _) => {
                let s = format!("These tell of more frames than were sent: {}.", ahead.join("; "));
                Verdict::new(id, Outcome::Fails, s)
            }
            (true, false) => {
                let s = format!("These tell of fewer frames than before: {}.", back.join("; "));
                Verdict::new(id, Outcome::Fails, s)
            }
        };
        verdict.with("readings", readings as f64, "")
    }
}
