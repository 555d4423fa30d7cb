//! The generator's thread: sends the frames of all data channels when they are due.
//!
//! Room: outlets and the clock. Orders come by a ring, what became of loads and when probes left goes by
//! another. Waits asleep while nothing is due for a while, awake for the last [`AWAKE`]. What is not sending
//! is done where there is time for it: moments of departure are asked for between frames, few at once, and
//! the core is woken for many of them together. The stamps are the kernel's, so nothing is less exact.

use super::ring::{Give, Take};
use super::terms::Input;
use super::wire::{Outlet, unix_now};
use crate::module::load::Source;
use crate::module::{Load, LoadDone, LoadId};
use crate::pktgen::{Pktgen, Played};
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
/// Before a frame is due they are asked for if there is so much time, and so many at once: one takes about
/// half a microsecond.
const ROOM: Nanos = Nanos(4_000);
const FEW: usize = 4;
/// So many that are not asked for yet are asked for in any case.
const MANY: u64 = 64;
/// With so much time before a frame is due, all of them.
const AMPLE: Nanos = Nanos(100_000);
/// How often the kernel's packet generator is asked whether it is done.
const LOOK: Nanos = Nanos::from_millis(5);
/// The core is woken for moments of departure no more often than this.
const WAKE: Nanos = Nanos(200_000);

struct Running {
    source: Source,
    asked_fps: f64,
    from: Nanos,
    to: Nanos,
    cpu: Duration,
}

/// A load that the kernel's packet generator sends.
struct Playing {
    load: LoadId,
    asked_fps: f64,
}

struct Lane {
    outlet: Box<dyn Outlet>,
    running: Option<Running>,
    playing: Option<Playing>,
    /// Frames made; those behind `sent` are still to be sent.
    frames: Vec<Vec<u8>>,
    made: usize,
    sent: usize,
    last: Nanos,
    /// When moments of departure were last asked for, and frames sent since whose moment is told.
    asked: Nanos,
    unasked: u64,
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
        playing: None,
        frames: Vec::new(),
        made: 0,
        sent: 0,
        last: Nanos(0),
        asked: Nanos(0),
        unasked: 0,
        gone: Vec::new(),
    };
    let mut lanes: Vec<Lane> = outlets.into_iter().map(lane).collect();
    let mut told = Told::default();
    while !stop.load(Ordering::Acquire) {
        while let Some(order) = orders.take() {
            obey(&mut lanes, order, &mut events);
        }
        let mut next: Option<Nanos> = None;
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
            if lane.playing.is_some() {
                let ended = lane.outlet.pktgen().and_then(Pktgen::ended);
                lane.played(channel, ended, &mut events);
                next = Some(next.map_or(now + LOOK, |n| n.min(now + LOOK)));
            }
            let due = match (&lane.running, lane.sent < lane.made) {
                (_, true) => Some(now),
                (Some(r), _) => r.source.when(),
                (None, _) => None,
            };
            next = [next, due].into_iter().flatten().min();
            told.any |= !lane.gone.is_empty();
            for moment in lane.gone.drain(..) {
                departures.give(moment);
            }
        }
        let now = unix_now();
        let room = next.map_or(AMPLE, |at| at.since(now));
        for lane in &mut lanes {
            told.any |= lane.tell_departures(now, room, &mut departures);
        }
        // Where some may be to come they are asked for again.
        if lanes.iter().any(|l| l.may_have_departures(now)) {
            next = Some(next.map_or(now + ASK, |n| n.min(now + ASK)));
        }
        told.wake(now, room, &departures);
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

/// Whether the core has moments of departure that it was not woken for.
#[derive(Default)]
struct Told {
    any: bool,
    woken: Nanos,
}

impl Told {
    fn wake(&mut self, now: Nanos, room: Nanos, departures: &Give<(Nanos, LoadId, u32)>) {
        // Before the thread may sleep in any case.
        if self.any && (room >= AMPLE || now.since(self.woken) >= WAKE) {
            *self = Self { any: false, woken: now };
            departures.wake();
        }
    }
}

fn obey(lanes: &mut [Lane], order: Order, events: &mut Give<(Nanos, Input)>) {
    let now = unix_now();
    match order {
        Order::Begin(id, load) => {
            let Some(lane) = lanes.get_mut(load.channel) else { return };
            lane.end(load.channel, events);
            if let Some(pktgen) = lane.outlet.pktgen().filter(|_| load.one_in > 1) {
                match pktgen.begin(id, &load) {
                    Ok(()) => lane.playing = Some(Playing { load: id, asked_fps: load.fps }),
                    Err(why) => {
                        let _ = events.give_surely((now, Input::LoadFailed(id, why)));
                        events.wake();
                    }
                }
                return;
            }
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
                let runs = lane.running.as_ref().is_some_and(|r| r.source.load() == id);
                if runs || lane.playing.as_ref().is_some_and(|p| p.load == id) {
                    lane.end(channel, events);
                }
            }
        }
    }
}

impl Lane {
    /// Whether there may be moments of departure to ask for.
    fn may_have_departures(&self, now: Nanos) -> bool {
        self.outlet.tells_departures() && now.since(self.last) < LINGER
    }

    /// Asks for moments of departure and hands them over, if it is time; says whether there were any. `room`:
    /// until a frame is due.
    fn tell_departures(
        &mut self,
        now: Nanos,
        room: Nanos,
        departures: &mut Give<(Nanos, LoadId, u32)>,
    ) -> bool {
        let waited = now.since(self.asked) >= ASK;
        let ask = match self.unasked {
            0 => waited,
            MANY.. => true,
            _ => waited || room >= ROOM,
        };
        if !ask || !self.may_have_departures(now) {
            return false;
        }
        let at_most = match room {
            room if room >= AMPLE => usize::MAX,
            _ if self.unasked >= MANY => MANY as usize,
            _ => FEW,
        };
        let mut any = false;
        // A port that failed says so when it sends.
        let got = self.outlet.departures(at_most, &mut |head, at| {
            if let Some((run, id)) = identify_any(head) {
                departures.give((at, LoadId(run.0), id.number));
                any = true;
            }
        });
        let got = got.unwrap_or(0);
        self.unasked = if got < at_most { 0 } else { self.unasked.saturating_sub(got as u64) };
        // There may be more: soon again.
        if got < at_most {
            self.asked = now;
        }
        any
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
                self.unasked += (0..n).filter(|n| told(*n)).count() as u64;
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
        if self.playing.is_some() {
            let ended = self.outlet.pktgen().and_then(Pktgen::stop);
            self.played(channel, ended, events);
        }
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

    /// Tells of a load that the kernel's packet generator has sent, if it has.
    fn played(
        &mut self,
        channel: usize,
        ended: Option<Result<Played, String>>,
        events: &mut Give<(Nanos, Input)>,
    ) {
        let Some(ended) = ended else { return };
        let Some(Playing { load, asked_fps }) = self.playing.take() else { return };
        let now = unix_now();
        let input = match ended {
            Err(why) => Input::LoadFailed(load, why),
            Ok(played) => {
                if played.refused > 0 {
                    let n = played.refused;
                    let note = format!("pktgen: the interface did not take {n} frames at once.");
                    let _ = events.give_surely((now, Input::Note(note)));
                }
                let took = u64::try_from(played.took.as_nanos()).unwrap_or(u64::MAX);
                Input::LoadDone(LoadDone {
                    load,
                    channel,
                    asked_fps,
                    sent: played.sent,
                    from: Nanos(now.0.saturating_sub(took)),
                    to: now,
                    // It sends what it should, however long that takes.
                    forgone: 0,
                    cpu_ns: 0,
                })
            }
        };
        let _ = events.give_surely((now, input));
        events.wake();
    }
}

#[cfg(test)]
mod tests {
    use super::super::ring::ring;
    use super::*;
    use crate::pktgen::fake::Fake;
    use crate::probe::Headers;
    use std::sync::Arc;

    struct Nowhere(Pktgen);

    impl Outlet for Nowhere {
        fn send(&mut self, frames: &[Vec<u8>]) -> std::io::Result<usize> {
            Ok(frames.len())
        }
        fn tells_departures(&self) -> bool {
            false
        }
        fn departures(
            &mut self,
            _: usize,
            _: &mut dyn FnMut(&[u8], Nanos),
        ) -> std::io::Result<usize> {
            Ok(0)
        }
        fn pktgen(&mut self) -> Option<&mut Pktgen> {
            Some(&mut self.0)
        }
    }

    /// What becomes of these orders, until so many loads have ended.
    fn ended(orders: Vec<Order>, loads: usize) -> Vec<Input> {
        let fake = Arc::new(Fake::default());
        let pktgen = Pktgen::open(fake, "e1").unwrap();
        let me = std::thread::current();
        let (events, mut take_events) = ring(64, me.clone());
        let (departures, _keep) = ring(1024, me.clone());
        let (mut give, take) = ring(64, me);
        orders.into_iter().for_each(|o| give.give(o));
        let stop = AtomicBool::new(false);
        let mut all = Vec::new();
        std::thread::scope(|s| {
            let outlets: Vec<Box<dyn Outlet>> = vec![Box::new(Nowhere(pktgen))];
            s.spawn(|| generate(outlets, take, events, departures, &stop));
            while all.len() < loads {
                match take_events.take() {
                    Some((_, input)) => all.push(input),
                    None => std::thread::park_timeout(Duration::from_millis(1)),
                }
            }
            stop.store(true, Ordering::Release);
        });
        all
    }

    #[test]
    fn a_load_that_is_counted_is_pktgens_and_one_that_is_told_is_not() {
        let load = Load::new(0, Headers::default(), 64, 1e6).only(1_000);
        let told = Order::Begin(LoadId(1), load.clone());
        let all = ended(vec![told], 1);
        let [Input::LoadDone(d)] = &all[..] else { panic!("{all:?}") };
        assert_eq!((d.load, d.sent), (LoadId(1), 1_000));
        let counted = load.telling_one_in(100);
        let all = ended(vec![Order::Begin(LoadId(2), counted.clone())], 1);
        let [Input::LoadDone(d)] = &all[..] else { panic!("{all:?}") };
        assert_eq!((d.load, d.sent, d.forgone), (LoadId(2), 1_000, 0));
        // 999 intervals of a microsecond each, as the fake has it.
        assert_eq!((d.to.since(d.from).0, d.sent_fps().round()), (999_000, 1e6));
        // One without end is stopped; one that it can't send is told.
        let endless = Load { frames: None, ..counted.clone() };
        let all = ended(vec![Order::Begin(LoadId(3), endless), Order::Stop(LoadId(3))], 1);
        let [Input::LoadDone(d)] = &all[..] else { panic!("{all:?}") };
        assert_eq!((d.load, d.sent), (LoadId(3), Fake::STOPPED_AT));
        let mixed = Load { sizes: vec![64, 128], ..counted };
        let all = ended(vec![Order::Begin(LoadId(4), mixed)], 1);
        let [Input::LoadFailed(LoadId(4), why)] = &all[..] else { panic!("{all:?}") };
        assert!(why.contains("frames of one size"), "{why}");
    }
}
