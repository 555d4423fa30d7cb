//! A trial on real ports: a generator and a receiver around a device under test.
//!
//! Touches devices, threads and a clock. Called by studies, most of all as [`rfc2544::Trial`].
//! Each trial has a run number of its own, so what an earlier one left in a queue is told apart.
//!
//! Frames that the sending device took and then failed to send are the instrument's loss: they
//! count as not sent.

use crate::Rate;
use crate::clock::Clock;
use crate::generator::{End, Generator, Load, LoadError, Sent, Step, generate};
use crate::port::Port;
use crate::probe::{Checker, ProbeError, Run, Stream, Tally, Window};
use crate::receiver::{AllSent, Arrived, Drain, Received, Receiver, receive};
use crate::rfc2544;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;
use thiserror::Error;

/// Why a trial can't be made.
#[derive(Clone, Debug, PartialEq, Error)]
#[non_exhaustive]
pub enum TrialError {
    /// The load.
    #[error(transparent)]
    Load(#[from] LoadError),
    /// The streams.
    #[error(transparent)]
    Probe(#[from] ProbeError),
    /// Somebody asked to stop.
    #[error("stopped before its end")]
    Stopped,
}

/// The ports of a trial, and the threads that serve them.
pub enum Ports {
    /// A thread sends, another receives: for ports that carry frames one way.
    Apart {
        /// Where streams enter.
        sources: Vec<Port>,
        /// Where they leave.
        sinks: Vec<Port>,
    },
    /// One thread does both: for ports that carry frames both ways, and for machines of few cores.
    /// Sending then waits while a burst is received.
    Together(Vec<Port>),
}

/// How trials are made.
#[derive(Clone, Copy, Debug, Default)]
pub struct PortTrialSettings {
    /// Frames sent together; chosen by the rate if none is given, see [`Load::new`].
    pub burst: Option<usize>,
    /// Numbers remembered for each stream.
    pub window: Window,
    /// Which moment counts as a frame's arrival.
    pub arrived: Arrived,
    /// How long to go on once all is sent.
    pub drain: Drain,
}

/// All that is known of one trial.
#[derive(Clone, Debug)]
pub struct Trialled {
    /// What was sent.
    pub sent: Sent,
    /// What was received.
    pub received: Received,
    /// What became of each stream's frames.
    pub tally: Tally,
}

impl Trialled {
    /// Frames that really left.
    pub fn left(&self) -> u64 {
        self.sent.frames.saturating_sub(self.sent.failed)
    }
}

/// Makes trials on ports.
pub struct PortTrial<C> {
    ports: Ports,
    streams: Vec<Stream>,
    clock: C,
    settings: PortTrialSettings,
    run: Run,
    stop: Arc<AtomicBool>,
    last: Option<Trialled>,
}

impl<C: Clock> PortTrial<C> {
    /// On these ports, with these streams.
    pub fn new(ports: Ports, streams: Vec<Stream>, clock: C, settings: PortTrialSettings) -> Self {
        let stop = Arc::new(AtomicBool::new(false));
        Self { ports, streams, clock, settings, run: Run::default(), stop, last: None }
    }

    /// Set it to end the trial that runs, and refuse further ones, with [`TrialError::Stopped`].
    pub fn stop(&self) -> Arc<AtomicBool> {
        Arc::clone(&self.stop)
    }

    /// The load that a rate and an end stand for, with the burst of the settings.
    pub fn load(&self, rate: Rate, end: End) -> Load {
        let load = Load { end, ..Load::new(rate, Duration::ZERO) };
        match self.settings.burst {
            Some(burst) => Load { burst, backlog: 2 * burst as u64, ..load },
            None => load,
        }
    }

    /// All that is known of the trial made last, stopped ones included.
    pub fn last(&self) -> Option<&Trialled> {
        self.last.as_ref()
    }

    /// Gives the ports back.
    pub fn into_ports(self) -> Ports {
        self.ports
    }

    /// Makes one trial.
    ///
    /// # Errors
    /// [`TrialError`]. When it was stopped, [`Self::last`] has what was seen until then.
    pub fn trial(&mut self, load: &Load) -> Result<&Trialled, TrialError> {
        if self.stop.load(Ordering::Relaxed) {
            return Err(TrialError::Stopped);
        }
        self.run = self.run.next();
        let Self { ports, streams, clock, settings, run, stop, .. } = self;
        let checker = Checker::new(streams, *run, settings.window)?;
        let (sent, checker, received) = match ports {
            Ports::Apart { sources, sinks } => {
                let (clock, all_sent) = (&*clock, AllSent::new());
                std::thread::scope(|scope| {
                    let receiver = scope.spawn(|| {
                        receive(sinks, checker, settings.arrived, settings.drain, clock, &all_sent)
                    });
                    let sent = generate(sources, streams, *run, load, clock, stop);
                    all_sent
                        .announce(sent.as_ref().map_or(0, |s| s.frames - s.failed.min(s.frames)));
                    let (checker, received) = match receiver.join() {
                        Ok(done) => done,
                        // A defect of ours, on its way to whoever watches over this thread.
                        Err(panic) => std::panic::resume_unwind(panic),
                    };
                    sent.map(|sent| (sent, checker, received))
                })?
            }
            Ports::Together(ports) => {
                let generator = Generator::new(ports, streams, *run, load, clock)?;
                let receiver =
                    Receiver::new(ports, checker, settings.arrived, settings.drain, clock);
                together(ports, generator, receiver, clock, stop)
            }
        };
        let tally = checker.tally(&sent.streams);
        let trialled = self.last.insert(Trialled { sent, received, tally });
        if self.stop.load(Ordering::Relaxed) { Err(TrialError::Stopped) } else { Ok(trialled) }
    }
}

/// Sends and receives in turn.
fn together(
    ports: &mut [Port],
    mut generator: Generator,
    mut receiver: Receiver,
    clock: &impl Clock,
    stop: &AtomicBool,
) -> (Sent, Checker, Received) {
    while !stop.load(Ordering::Relaxed) {
        let step = generator.step(ports, clock);
        let came = receiver.step(ports, clock);
        match step {
            Step::Done => break,
            Step::Idle(_) | Step::Blocked if came == 0 => clock.pause(),
            _ => {}
        }
    }
    let sent = generator.finish(ports, clock);
    let all_sent = AllSent::new();
    all_sent.announce(sent.frames - sent.failed.min(sent.frames));
    while !receiver.is_done(&all_sent, clock) {
        if receiver.step(ports, clock) == 0 {
            clock.pause();
        }
    }
    let (checker, received) = receiver.finish(ports);
    (sent, checker, received)
}

impl<C: Clock> rfc2544::Trial for PortTrial<C> {
    type Error = TrialError;

    fn run(&mut self, offered: Rate, time: Duration) -> Result<rfc2544::TrialResult, TrialError> {
        let load = self.load(offered, End::For(time));
        self.trial(&load).map(result)
    }
}

impl<C: Clock> rfc2544::BurstTrial for PortTrial<C> {
    type Error = TrialError;

    /// Offers the frames in full bursts without pacing; gives up after ten seconds.
    fn burst(&mut self, frames: u64) -> Result<rfc2544::TrialResult, TrialError> {
        let end = End::After { frames, at_most: Duration::from_secs(10) };
        // A rate that no source reaches: there is always a burst due.
        let rate = Rate::new(1e12).map_err(LoadError::from)?;
        let burst = weir_packet::BURST;
        self.trial(&Load { rate, end, burst, backlog: burst as u64 }).map(result)
    }
}

fn result(t: &Trialled) -> rfc2544::TrialResult {
    rfc2544::TrialResult {
        sent: t.left(),
        received: t.tally.total.received().min(t.left()),
        offered_actual: t.sent.offered(),
        latency: t.received.latency.clone(),
    }
}

#[cfg(test)]
mod tests;
