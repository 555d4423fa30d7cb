//! The end of a measurement: what the engine knows goes into the document, and the module says what it found.
//!
//! Sans-I/O, part of [`super::core`]: called when nothing is on its way any more, before the switch is put back.

use super::core::Core;
use crate::document::{Outcome, Verdict};
use weir_packet::Nanos;

impl Core {
    /// The module says what it found.
    pub(super) fn conclude(&mut self, now: Nanos) {
        self.tally.write(&self.settings.channels, &mut self.document);
        self.document.duration_s = now.since(self.begun).0 as f64 / 1e9;
        self.params.note(&mut self.document);
        if let Some(t) = &self.settings.traffic {
            self.document.parameter("traffic", t.text(), "");
            self.document.notes.extend(t.warnings());
        }
        if let Some(d) = &self.bench.desc {
            for (name, text) in [
                ("manufacturer", &d.manufacturer),
                ("hardware", &d.hardware),
                ("software", &d.software),
                ("serial", &d.serial),
                ("datapath", &d.datapath),
            ] {
                self.document.dut.description.push((name.to_owned(), text.clone()));
            }
        }
        let described = &mut self.document.dut.description;
        if self.bench.version.is_some() {
            let version = if self.bench.is_13() { "1.3" } else { "1.0" };
            described.push(("OpenFlow".to_owned(), version.to_owned()));
        }
        if let Some(f) = &self.bench.features {
            described.push(("datapath id".to_owned(), format!("{:016x}", f.datapath_id)));
            described.push(("tables".to_owned(), f.tables.to_string()));
        }
        if self.pairing.unpaired > 0 {
            let (n, of) = (self.pairing.unpaired, self.pairing.unpaired + self.pairing.paired);
            self.note(format!(
                "{n} of {of} frames have no kernel stamp of their departure; the program's stands in for it."
            ));
        }
        self.document.notes.append(&mut self.notes);
        self.module.finish(&self.bench, &mut self.document);
        if let Some(why) = &self.blamed {
            let mut letters = why.chars();
            let first = letters.next().map(|c| c.to_ascii_uppercase());
            let s: String = first.into_iter().chain(letters).chain(['.']).collect();
            self.document.verdicts.push(Verdict::new("control-channel-works", Outcome::Fails, s));
        }
        self.mark_misread();
        self.twice.write(&mut self.document);
        self.observed.write(&mut self.document);
        self.doubt();
        self.finished = true;
        self.clean_up(now);
    }

    /// Of a measurement that ended before half of its steps were done, or that knows of none: what it would have shown later
    /// nobody knows.
    fn doubt(&mut self) {
        let (done, of) = self.status;
        if self.document.partial.is_none() || of > 0 && done >= of.div_ceil(2) {
            return;
        }
        for v in self.document.verdicts.iter_mut().filter(|v| v.outcome == Outcome::Holds) {
            v.outcome = Outcome::Unclear;
            v.sentence += " The measurement ended early: too early to tell.";
        }
    }

    /// Adds what was learnt after the module has finished.
    pub(super) fn late_note(&mut self, text: String) {
        self.document.notes.push(text);
    }
}
