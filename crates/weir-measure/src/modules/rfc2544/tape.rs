//! A search that waits, without a thread: it is begun anew for each trial, and told what came of those before.
//!
//! Pure. The searches of [`crate::rfc2544`] ask for trials and wait for them; a module is called when something
//! happened. Since a search follows from its trials alone, the module keeps them, runs the search from its
//! beginning, and the first trial that is not kept ends it with what is wanted next.

use crate::Rate;
use crate::rfc2544::{BurstTrial, Error, Trial, TrialResult};
use std::time::Duration;

/// What a search wants to know.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Ask {
    /// What becomes of load at a rate for a time.
    Trial(Rate, Duration),
    /// What becomes of so many frames at once.
    Burst(u64),
}

/// The trials of one search.
#[derive(Default)]
pub(super) struct Tape(Vec<(Ask, TrialResult)>);

/// How far a search came.
pub(super) enum Came<R> {
    /// To its end.
    Done(R),
    /// To where it must know this.
    Wants(Ask),
}

/// Answers from a tape.
pub(super) struct Player<'a>(std::slice::Iter<'a, (Ask, TrialResult)>);

impl Player<'_> {
    fn next(&mut self, ask: Ask) -> Result<TrialResult, Ask> {
        self.0.next().filter(|(a, _)| *a == ask).map(|(_, r)| r.clone()).ok_or(ask)
    }
}

impl Trial for Player<'_> {
    type Error = Ask;
    fn run(&mut self, offered: Rate, duration: Duration) -> Result<TrialResult, Ask> {
        self.next(Ask::Trial(offered, duration))
    }
}

impl BurstTrial for Player<'_> {
    type Error = Ask;
    fn burst(&mut self, frames: u64) -> Result<TrialResult, Ask> {
        self.next(Ask::Burst(frames))
    }
}

impl Tape {
    /// Keeps what came of what was asked for.
    pub(super) fn keep(&mut self, ask: Ask, result: TrialResult) {
        self.0.push((ask, result));
    }

    /// Forgets everything: another search begins.
    pub(super) fn clear(&mut self) {
        self.0.clear();
    }

    /// Runs a search as far as it comes.
    ///
    /// # Errors
    /// Settings that make no sense.
    pub(super) fn play<R>(
        &self,
        search: impl FnOnce(&mut Player<'_>) -> Result<R, Error<Ask>>,
    ) -> Result<Came<R>, String> {
        match search(&mut Player(self.0.iter())) {
            Ok(r) => Ok(Came::Done(r)),
            Err(Error::Trial { source, .. } | Error::Burst { source, .. }) => {
                Ok(Came::Wants(source))
            }
            Err(Error::Settings(e)) => Err(e.to_string()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::latency::Latency;
    use crate::rfc2544::{ThroughputSettings, throughput};

    #[test]
    fn a_search_goes_on_where_it_wanted_to_know() {
        let rate = |n| Rate::new(n).unwrap();
        let mut settings = ThroughputSettings::over(rate(10.0), rate(1_000.0));
        settings.duration = Duration::from_secs(1);
        let mut tape = Tape::default();
        let mut asked = 0;
        let found = loop {
            match tape.play(|t| throughput(t, &settings)).unwrap() {
                Came::Done(r) => break r,
                Came::Wants(ask @ Ask::Trial(offered, _)) => {
                    asked += 1;
                    let sent = offered.fps() as u64;
                    let received = sent.min(700);
                    let latency = Latency::none();
                    let offered_actual = Some(offered);
                    tape.keep(ask, TrialResult { sent, received, offered_actual, latency });
                }
                Came::Wants(Ask::Burst(_)) => panic!("no burst was wanted"),
            }
        };
        assert_eq!(found.trials.len(), asked);
        let got = found.rate.unwrap().fps();
        assert!((695.0..701.0).contains(&got), "{got}");
    }
}
