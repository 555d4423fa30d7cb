//! A measurement in virtual time on a simulated switch: no root, no sockets, the same every time.
//!
//! Room: tests of modules and of the engine. Drives a [`Core`] like [`super::run`] does; generator, wires
//! and clock are simulated: events happen exactly when they are due, in the order of their times.

use super::core::Core;
use super::terms::{Command, Input};
use super::thinning::{Counter, Fate, Thinning};
use super::wire::recognise;
use crate::document::Document;
use crate::module::load::Source;
use crate::module::{Captured, LoadDone, Sample};
use std::cmp::Reverse;
use std::collections::BinaryHeap;
use weir_openflow::codec::DecodeError;
use weir_openflow::model::{Msg, Version};
use weir_packet::Nanos;

/// What a simulated switch does.
#[derive(Clone, Debug, PartialEq)]
pub enum Output {
    /// Sends a message to its controller.
    Message(Msg),
    /// Sends what the controller can't read.
    Misread(DecodeError),
    /// Sends a frame (no FCS) by the port that data channel `0` is wired to, and so on.
    Frame(usize, Vec<u8>),
    /// Closes the control connection.
    Close(String),
}

/// A switch in virtual time.
pub trait SimulatedDut {
    /// The version it agrees to; `None`: it does not greet.
    fn connect(&mut self, now: Nanos) -> Option<Version>;
    /// The connection was closed.
    fn disconnect(&mut self, now: Nanos);
    /// A message of the controller.
    fn message(&mut self, now: Nanos, msg: Msg);
    /// A frame by the port that the data channel is wired to.
    fn frame(&mut self, now: Nanos, channel: usize, frame: &[u8]);
    /// It is reset; says whether it can be.
    fn reset(&mut self, now: Nanos) -> Result<(), String> {
        let _ = now;
        Err("a simulated switch that can't be".to_owned())
    }
    /// What it tells of its own state when it is asked; `None`: nobody can ask it.
    fn state(&mut self, now: Nanos) -> Option<Result<Vec<Sample>, String>> {
        let _ = now;
        None
    }
    /// When it wants [`Self::poll`]; `None`: only after one of the above.
    fn wake_at(&self) -> Option<Nanos>;
    /// Does what is due, and says what comes out.
    fn poll(&mut self, now: Nanos, out: &mut Vec<Output>);
}

/// Delays of the simulated world.
#[derive(Clone, Copy, Debug)]
pub struct World {
    /// From one end of the control channel to the other.
    pub control: Nanos,
    /// From one end of a wire to the other.
    pub wire: Nanos,
    /// Measurements that take longer than this are interrupted, in virtual time.
    pub at_most: Nanos,
    /// How often the switch is asked for its state; `None`: never.
    pub state: Option<Nanos>,
    /// So much later than a frame came the program hears of it: it waits for a core.
    pub heard_late: Nanos,
}

impl Default for World {
    /// 20 µs, 500 ns, ten hours; nobody asks for the state, and frames are heard of at once.
    fn default() -> Self {
        Self {
            control: Nanos(20_000),
            wire: Nanos(500),
            at_most: Nanos::from_secs(36_000),
            state: None,
            heard_late: Nanos(0),
        }
    }
}

/// Where virtual time begins.
pub const EPOCH: Nanos = Nanos(1_700_000_000_000_000_000);

enum Travelling {
    ToSwitch(Msg),
    FrameToSwitch(usize, Vec<u8>),
    ToUs(Output),
}

/// Measures until it is over.
///
/// # Errors
/// What [`Core::result`] says.
pub fn simulate(
    mut core: Core,
    dut: &mut impl SimulatedDut,
    world: World,
) -> Result<Document, String> {
    let mut now = EPOCH;
    let mut under_way: BinaryHeap<Reverse<(Nanos, u64)>> = BinaryHeap::new();
    let mut parcels = std::collections::HashMap::new();
    let mut count = 0u64;
    let mut sources: Vec<Option<(Source, f64, Nanos, Nanos)>> = Vec::new();
    let mut out = Vec::new();
    let mut frame = Vec::new();
    let thinning = Thinning::default();
    let mut counters: Vec<Counter> = Vec::new();
    let mut state_at = world.state.map(|every| EPOCH + every);
    loop {
        // Commands first: they take no time.
        while let Some(command) = core.next_command() {
            let mut send = |at: Nanos, what: Travelling| {
                count += 1;
                under_way.push(Reverse((at, count)));
                parcels.insert(count, what);
            };
            match command {
                Command::Send(msg) => {
                    core.input(now, now, Input::Written(msg.xid));
                    send(now + world.control, Travelling::ToSwitch(msg));
                }
                Command::Begin(id, load) => {
                    thinning.begin(id, load.one_in);
                    if sources.len() <= load.channel {
                        sources.resize_with(load.channel + 1, || None);
                    }
                    end(&mut core, &mut sources[load.channel], load.channel, now);
                    match Source::new(id, &load, now) {
                        Ok(s) => sources[load.channel] = Some((s, load.fps, now, now)),
                        Err(e) => core.input(now, now, Input::LoadFailed(id, e.to_string())),
                    }
                }
                Command::Rate(id, fps) => {
                    for (s, asked, ..) in sources.iter_mut().flatten().filter(|s| s.0.load() == id)
                    {
                        *asked = fps;
                        if let Err(e) = s.set_fps(fps, now) {
                            core.input(now, now, Input::LoadFailed(id, e.to_string()));
                        }
                    }
                }
                Command::Stop(id) => {
                    for (channel, s) in sources.iter_mut().enumerate() {
                        if s.as_ref().is_some_and(|s| s.0.load() == id) {
                            end(&mut core, s, channel, now);
                        }
                    }
                }
                Command::Connect => {
                    if let Some(version) = dut.connect(now) {
                        core.input(now, now, Input::Up(version));
                    }
                }
                Command::Reset => core.input(now, now, Input::Reset(dut.reset(now))),
                // Nobody kills what is simulated.
                Command::Keep(_) => core.input(now, now, Input::Kept(Ok(()))),
                Command::Disconnect => {
                    dut.disconnect(now);
                    core.input(now, now, Input::Closed("closed by this side".to_owned()));
                }
            }
        }
        if core.status().phase == super::Phase::Done {
            return core.result();
        }
        // All that was due is done; whoever still says now means a little later, so that time goes on.
        let due = [
            core.wake_at().map(|t| t.max(now + Nanos(1))),
            dut.wake_at().map(|t| t.max(now + Nanos(1))),
            under_way.peek().map(|Reverse((at, _))| *at),
            state_at,
            sources
                .iter()
                .flatten()
                .filter_map(|s| s.0.when())
                .min()
                .map(|t| t.max(now + Nanos(1))),
        ];
        let Some(next) = due.into_iter().flatten().min() else {
            core.input(now, now, Input::Interrupted("nothing is left to happen".to_owned()));
            core.tick(now + Nanos::from_secs(3600));
            continue;
        };
        now = now.max(next);
        if now.since(EPOCH) > world.at_most {
            core.input(now, now, Input::Interrupted("the simulation took too long".to_owned()));
        }
        if state_at.is_some_and(|at| at <= now) {
            state_at = world.state.map(|every| now + every.max(Nanos(1)));
            match dut.state(now) {
                None => state_at = None,
                Some(Err(why)) => core.input(now, now, Input::Untold(why)),
                Some(Ok(all)) => {
                    all.into_iter().for_each(|s| core.input(now, now, Input::Sample(s)));
                }
            }
        }
        for (channel, slot) in sources.iter_mut().enumerate() {
            let Some((source, _, first, last)) = slot else { continue };
            while source.when().is_some_and(|at| at <= now) && source.due(now) > 0 {
                if source.built() == 0 {
                    *first = now;
                }
                *last = now;
                let number = source.built();
                if number.is_multiple_of(source.one_in()) {
                    core.input(now, now, Input::Left(source.load(), number as u32));
                }
                source.next(now, &mut frame);
                count += 1;
                under_way.push(Reverse((now + world.wire, count)));
                parcels.insert(count, Travelling::FrameToSwitch(channel, frame.clone()));
            }
            if source.is_done() {
                end(&mut core, slot, channel, now);
            }
        }
        while under_way.peek().is_some_and(|Reverse((at, _))| *at <= now) {
            let Some(parcel) = under_way.pop().and_then(|Reverse((_, n))| parcels.remove(&n))
            else {
                continue;
            };
            match parcel {
                Travelling::ToSwitch(msg) => dut.message(now, msg),
                Travelling::FrameToSwitch(channel, f) => dut.frame(now, channel, &f),
                Travelling::ToUs(Output::Message(msg)) => core.input(now, now, Input::Message(msg)),
                Travelling::ToUs(Output::Misread(e)) => core.input(now, now, Input::Misread(e)),
                Travelling::ToUs(Output::Frame(channel, f)) => {
                    let came = Nanos(now.0 - world.heard_late.0);
                    let probe = recognise(&f, came);
                    if counters.len() <= channel {
                        counters.resize_with(channel + 1, Counter::default);
                    }
                    let counter = &mut counters[channel];
                    let fate = probe.map_or(Fate::Told, |p| counter.see(&thinning, &p));
                    counter.take(|load, n| core.input(now, now, Input::Counted(load, channel, n)));
                    if fate == Fate::Told {
                        let (left, made) = (probe.map(|p| p.made), probe.map(|p| p.made));
                        let contents = probe.map(|p| p.contents).unwrap_or_default();
                        let probe = probe.map(|p| p.id);
                        let c = Captured::new(channel, came, &f);
                        let c = Captured { probe, contents, left, made, ..c };
                        core.input(now, came, Input::Frame(c));
                    }
                }
                Travelling::ToUs(Output::Close(why)) => core.input(now, now, Input::Closed(why)),
            }
        }
        dut.poll(now, &mut out);
        for o in out.drain(..) {
            let after = match o {
                Output::Frame(..) => world.wire + world.heard_late,
                _ => world.control,
            };
            count += 1;
            under_way.push(Reverse((now + after, count)));
            parcels.insert(count, Travelling::ToUs(o));
        }
        core.tick(now);
    }
}

fn end(
    core: &mut Core,
    slot: &mut Option<(Source, f64, Nanos, Nanos)>,
    channel: usize,
    now: Nanos,
) {
    let Some((source, asked_fps, from, to)) = slot.take() else { return };
    let done = LoadDone {
        load: source.load(),
        channel,
        asked_fps,
        sent: source.built(),
        from,
        to,
        forgone: source.forgone(),
        cpu_ns: 0,
    };
    core.input(now, now, Input::LoadDone(done));
}
