//! The generator's thread: sends the frames of all data channels when they are due.
//!
//! Room: outlets and the clock. Orders come by a ring, what became of loads and when probes left goes by
//! another. Waits asleep while nothing is due for a while, awake for the last [`AWAKE`].

use super::ring::{Give, Take};
use super::terms::Input;
use super::wire::{Outlet, unix_now};
use crate::module::load::Source;
use crate::module::{Load, LoadDone, LoadId};
use crate::probe::{identify_any, whole_stamp};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;
use weir_packet::Nanos;

/// What the engine wants.
#[derive(Debug)]
pub(super) enum Order {
    Begin(LoadId, Load),
    Rate(LoadId, f64),
    Stop(LoadId),
}

/// Before a frame is due the thread does not sleep: the system wakes it up to so much late.
const AWAKE: Nanos = Nanos(200_000);
/// Frames given to an outlet at once.
const BATCH: u64 = 32;
/// The longest sleep, so that a stop is heard.
const TURN: Duration = Duration::from_millis(50);
/// How long moments of departure are asked for after the last frame.
const LINGER: Nanos = Nanos::from_millis(50);
/// How often they are asked for at least.
const ASK: Nanos = Nanos::from_millis(1);

struct Running {
    source: Source,
    asked_fps: f64,
    from: Nanos,
    to: Nanos,
    cpu: Duration,
}

struct Lane {
    outlet: Box<dyn Outlet>,
    running: Option<Running>,
    /// Frames made; those behind `sent` are still to be sent.
    frames: Vec<Vec<u8>>,
    made: usize,
    sent: usize,
    last: Nanos,
    /// When moments of departure were last asked for.
    asked: Nanos,
    /// What left by the program's own word, where the port says nothing.
    gone: Vec<(Nanos, LoadId, u32)>,
}

/// The thread's work, until it is stopped.
pub(super) fn generate(
    outlets: Vec<Box<dyn Outlet>>,
    mut orders: Take<Order>,
    mut events: Give<(Nanos, Input)>,
    mut departures: Give<(Nanos, LoadId, u32)>,
    stop: &AtomicBool,
) {
    let lane = |outlet| Lane {
        outlet,
        running: None,
        frames: Vec::new(),
        made: 0,
        sent: 0,
        last: Nanos(0),
        asked: Nanos(0),
        gone: Vec::new(),
    };
    let mut lanes: Vec<Lane> = outlets.into_iter().map(lane).collect();
    while !stop.load(Ordering::Acquire) {
        while let Some(order) = orders.take() {
            obey(&mut lanes, order, &mut events);
        }
        let mut next: Option<Nanos> = None;
        let mut told = false;
        for (channel, lane) in lanes.iter_mut().enumerate() {
            let now = unix_now();
            if let Err(e) = lane.send(now) {
                lane.end(channel, &mut events);
                let _ = events.give_surely((now, Input::PortFailed(channel, e.to_string())));
                events.wake();
            }
            if lane.sent == lane.made && lane.running.as_ref().is_some_and(|r| r.source.is_done()) {
                lane.end(channel, &mut events);
            }
            let due = match (&lane.running, lane.sent < lane.made) {
                (_, true) => Some(now),
                (Some(r), _) => r.source.when(),
                (None, _) => None,
            };
            next = [next, due].into_iter().flatten().min();
            for (at, load, number) in lane.gone.drain(..) {
                departures.give((at, load, number));
                told = true;
            }
            if lane.asks_departures(unix_now()) {
                let got = lane.outlet.departures(&mut |head, at| {
                    if let Some((run, id)) = identify_any(head) {
                        departures.give((at, LoadId(run.0), id.number));
                        told = true;
                    }
                });
                // A port that failed says so when it sends.
                let _ = got;
                let soon = unix_now() + ASK;
                next = Some(next.map_or(soon, |n| n.min(soon)));
            }
        }
        if told {
            departures.wake();
        }
        let now = unix_now();
        match next {
            None => std::thread::park_timeout(TURN),
            Some(at) if at.since(now) > AWAKE => {
                let sleep = Duration::from_nanos((at.since(now) - AWAKE).0).min(TURN);
                std::thread::park_timeout(sleep);
            }
            Some(at) if at > now => std::thread::yield_now(),
            Some(_) => {}
        }
    }
}

fn obey(lanes: &mut [Lane], order: Order, events: &mut Give<(Nanos, Input)>) {
    let now = unix_now();
    match order {
        Order::Begin(id, load) => {
            let Some(lane) = lanes.get_mut(load.channel) else { return };
            lane.end(load.channel, events);
            match Source::new(id, &load, now) {
                Ok(source) => {
                    let cpu = weir_io::thread_cpu_time();
                    let asked_fps = load.fps;
                    lane.running = Some(Running { source, asked_fps, from: now, to: now, cpu });
                }
                Err(e) => {
                    let _ = events.give_surely((now, Input::LoadFailed(id, e.to_string())));
                    events.wake();
                }
            }
        }
        Order::Rate(id, fps) => {
            for r in lanes.iter_mut().filter_map(|l| l.running.as_mut()) {
                if r.source.load() == id && r.source.set_fps(fps, now).is_ok() {
                    r.asked_fps = fps;
                }
            }
        }
        Order::Stop(id) => {
            for (channel, lane) in lanes.iter_mut().enumerate() {
                if lane.running.as_ref().is_some_and(|r| r.source.load() == id) {
                    lane.end(channel, events);
                }
            }
        }
    }
}

impl Lane {
    /// Whether there may be moments of departure to ask for, and it is time: for each frame where each is told
    /// of, now and then where few are.
    fn asks_departures(&mut self, now: Nanos) -> bool {
        if !self.outlet.tells_departures() || now.since(self.last) >= LINGER {
            return false;
        }
        let few = self.running.as_ref().is_some_and(|r| r.source.one_in() > 1);
        if few && now.since(self.asked) < ASK {
            return false;
        }
        self.asked = now;
        true
    }

    /// Makes the frames that are due and sends what the port takes.
    fn send(&mut self, now: Nanos) -> std::io::Result<()> {
        if self.sent == self.made {
            (self.sent, self.made) = (0, 0);
            let Some(r) = &mut self.running else { return Ok(()) };
            let due = r.source.due(now).min(BATCH) as usize;
            if due > 0 && r.source.built() == 0 {
                r.from = now;
            }
            while self.made < due {
                if self.frames.len() == self.made {
                    self.frames.push(Vec::new());
                }
                r.source.next(unix_now(), &mut self.frames[self.made]);
                self.made += 1;
            }
        }
        if self.sent < self.made {
            let frames = &self.frames[self.sent..self.made];
            // Those that were made are the last of the source's.
            let source = self.running.as_ref().map(|r| &r.source);
            let first = source.map_or(0, Source::built).saturating_sub(frames.len() as u64);
            let one_in = source.map_or(1, Source::one_in);
            let told = |n: usize| (first + n as u64).is_multiple_of(one_in);
            let n = self.outlet.send_telling(frames, &told)?;
            self.sent += n;
            if n > 0 {
                self.last = now;
                if let Some(r) = &mut self.running {
                    r.to = now;
                }
                if !self.outlet.tells_departures() {
                    let left = |f: &Vec<u8>| {
                        let (run, id) = identify_any(f)?;
                        Some((whole_stamp(id.stamp, now), LoadId(run.0), id.number))
                    };
                    let sent = &self.frames[self.sent - n..self.sent];
                    let sent = sent.iter().enumerate().filter(|(n, _)| told(*n));
                    self.gone.extend(sent.filter_map(|(_, f)| left(f)));
                }
            }
        }
        Ok(())
    }

    /// Ends what runs, if anything does; frames not sent are given up.
    fn end(&mut self, channel: usize, events: &mut Give<(Nanos, Input)>) {
        let unsent = (self.made - self.sent) as u64;
        (self.sent, self.made) = (0, 0);
        let Some(r) = self.running.take() else { return };
        let cpu = weir_io::thread_cpu_time().saturating_sub(r.cpu);
        let done = LoadDone {
            load: r.source.load(),
            channel,
            asked_fps: r.asked_fps,
            sent: r.source.built() - unsent,
            from: r.from,
            to: r.to,
            forgone: r.source.forgone() + unsent,
            cpu_ns: u64::try_from(cpu.as_nanos()).unwrap_or(u64::MAX),
        };
        let _ = events.give_surely((unix_now(), Input::LoadDone(done)));
        events.wake();
    }
}
