//! What `counters` says of what it found: its table and its verdicts.
//!
//! Pure. Part of `counters`, when all has been read.

use super::ledger::{KINDS, What};
use super::{Counters, Found, OLD_MS, Step};
use crate::document::{Cell, Column, Document, Outcome, ProbeResolution, Samples, Table, Verdict};
use crate::stats::quantile;

/// As it is, or about, where it is more than a counter can hold.
fn number(n: u128) -> Cell {
    u64::try_from(n).map_or_else(|_| Cell::from(n as f64), Cell::from)
}

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
            let before = if kind.is_new() { 0 } else { found.before };
            let told = told.map(|n| number(n.saturating_sub(before)));
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
                told.unwrap_or(Cell::from(f64::NAN)),
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
        let first = self.kinds.get(&kind).map_or(0, |f| f.before);
        if kind.is_new() && first > 0 {
            return format!("{first} packets were told before the first was sent");
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
        // Of frames that do not exist no age can be told.
        let is_ahead = |f: &Found| f.ahead > 0 && f.lead > OLD_MS;
        let told = |of: &dyn Fn(&Found) -> Option<String>| -> Vec<String> {
            let found = KINDS.iter().filter_map(|(name, kind)| Some((name, self.kinds.get(kind)?)));
            found.filter_map(|(name, f)| Some(format!("{name} ({})", of(f)?))).collect()
        };
        let old = told(&|f| {
            let ms = age(f).filter(|ms| *ms > OLD_MS && !is_ahead(f))?;
            Some(format!("{ms:.0} ms"))
        });
        let ahead = told(&|f| is_ahead(f).then(|| format!("by up to {:.0} ms of probes", f.lead)));
        let oldest = self.kinds.values().filter(|f| !is_ahead(f)).filter_map(age);
        let oldest = oldest.fold(f64::NAN, f64::max);
        let also = match ahead.is_empty() {
            true => String::new(),
            false => format!(
                " These are ahead of what was sent, so that their age can't be told: {}.",
                ahead.join("; ")
            ),
        };
        let verdict = match (old.is_empty(), ahead.is_empty()) {
            (true, true) => {
                Verdict::new(id, Outcome::Holds, "Counters are as new as the probes can tell.")
            }
            (true, false) => Verdict::new(id, Outcome::Unclear, also.trim_start()),
            (false, _) => {
                let s = format!(
                    "Counters are old when they are told (90th percentile): {}.{also}",
                    old.join("; ")
                );
                Verdict::new(id, Outcome::Fails, s)
            }
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
        let mut faults = Vec::new();
        if !ahead.is_empty() {
            faults.push(format!("These tell of more frames than were sent: {}.", ahead.join("; ")));
        }
        if !back.is_empty() {
            faults.push(format!("These tell of fewer frames than before: {}.", back.join("; ")));
        }
        let verdict = if faults.is_empty() {
            let s = "No counter tells of frames that were not sent, or of fewer than before.";
            Verdict::new(id, Outcome::Holds, s)
        } else {
            Verdict::new(id, Outcome::Fails, faults.join(" "))
        };
        verdict.with("readings", readings as f64, "")
    }
}

#[cfg(test)]
mod tests {
    use super::super::{about, new};
    use super::*;
    use crate::module::{Depth, Params};

    fn fresh(ages: [f64; 10], ahead: u64, lead: f64) -> (Outcome, String) {
        let params = Params::defaults(&about(), Depth::Quick).unwrap();
        let mut c = new(&params);
        let found = Found { readings: 10, ages: ages.to_vec(), ahead, lead, ..Found::default() };
        c.kinds.insert(What::Flow(0), found);
        let v = c.fresh();
        (v.outcome, v.sentence)
    }

    /// What is judged is what is told, and frames that do not exist have no age.
    #[test]
    fn what_is_ahead_is_not_called_old() {
        let (outcome, s) = fresh([-964.0; 10], 10, 964.0);
        assert_eq!(outcome, Outcome::Unclear);
        assert_eq!(
            s,
            "These are ahead of what was sent, so that their age can't be told: flows (by up to 964 ms of probes)."
        );
        // Old for a part of the time only, which the median does not show.
        let mut ages = [-964.0; 10];
        ages[7..].fill(500.0);
        assert_eq!(fresh(ages, 7, 964.0).0, Outcome::Unclear);
        ages[..7].fill(0.0);
        let told = "Counters are old when they are told (90th percentile): flows (500 ms).";
        assert_eq!(fresh(ages, 0, 0.0), (Outcome::Fails, told.to_owned()));
        let new = "Counters are as new as the probes can tell.";
        assert_eq!(fresh([3.0; 10], 0, 0.0), (Outcome::Holds, new.to_owned()));
        // A probe or two are told of by `counters-not-ahead`.
        assert_eq!(fresh([3.0; 10], 1, 5.0), (Outcome::Holds, new.to_owned()));
    }
}
