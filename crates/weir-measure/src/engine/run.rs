//! A measurement on a real switch: the core on the calling thread, and around it generator, a capture for
//! each data channel, control channel, sampler and time, each on a thread of its own. 001 §2.
//!
//! Room: threads and their rings ([`super::ring`]). Nothing is shared but flags; what an overfull ring loses
//! is counted and told in the result. Called by the binary.

use super::core::Core;
use super::cores::Cores;
use super::generator::{self, generate};
use super::keeping::Keep;
use super::ring::{Give, Take, ring};
use super::sampling::{Sampler, sample};
use super::terms::{Command, Input, Phase, Status};
use super::thinning::{Counter, Fate, Thinning};
use super::wire::{Channel, Inlet, recognise, unix_now};
use crate::control::{self, Bell, Order};
use crate::document::Document;
use crate::module::Captured;
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, sync_channel};
use std::thread::{self, Scope, ScopedJoinHandle, Thread};
use std::time::{Duration, Instant};
use weir_packet::{LinkState, Nanos};

/// What a measurement runs on.
pub struct Rig {
    /// The data channels.
    pub channels: Vec<Channel>,
    /// How to speak to the switch.
    pub control: control::Settings,
    /// Reads the switch's state.
    pub sampler: Option<Box<dyn Sampler>>,
    /// Resets it, where that can be.
    pub reset: Option<Reset>,
    /// Keeps the switch's flows meanwhile, where the core is to ask for it
    /// ([`Keeps::ByCommand`](super::Keeps::ByCommand)).
    pub keep: Option<Box<dyn Keep>>,
}

/// Resets the switch; gives up, with an error, once the flag is raised. In words: why it could not.
pub type Reset = Box<dyn FnMut(&AtomicBool) -> Result<(), String> + Send>;

/// Places of rings: control messages wait when theirs is full, frames are lost and counted.
const MESSAGES: usize = 4096;
const FRAMES: usize = 1 << 15;
const DEPARTURES: usize = 1 << 16;
/// The longest wait of any thread, so that a stop is heard.
const TURN: Duration = Duration::from_millis(50);
/// How often counts are handed over.
const COUNTS: Duration = Duration::from_millis(10);
/// A clock that is off by more than this between two looks was set.
const STEP: Duration = Duration::from_millis(2);

/// Measures until it is over. `watch` is told where it stands a few times a second; when `stop` is raised,
/// the measurement ends early, its results are kept, and the switch is put back.
///
/// # Errors
/// A thread can't be made; or what [`Core::result`] says.
pub fn run(
    mut core: Core,
    mut rig: Rig,
    watch: &mut dyn FnMut(Status),
    stop: &AtomicBool,
) -> Result<Document, String> {
    let over = AtomicBool::new(false);
    let mut keep = rig.keep.take();
    let wake_at = AtomicU64::new(u64::MAX);
    let bell = Bell::new().map_err(|e| format!("an event for the control channel: {e}"))?;
    let cores = Cores::part();
    let done = thread::scope(|scope| {
        let started = Desk::start(scope, rig, &bell, &over, &wake_at, &cores);
        let done = started.map_err(|e| format!("a thread for the measurement: {e}"));
        let done = done.map(|(mut desk, talk)| {
            desk.work(&mut core, &mut keep, watch, stop);
            talk
        });
        over.store(true, Ordering::Release);
        bell.ring();
        // What was said last is saved when the thread ends, after the desk is gone.
        done.map(|talk| talk.join().ok().flatten())
    });
    let unsaved = done?;
    let left = match (keep, core.flows_by_hand()) {
        (Some(mut keep), Some(flows)) => Some(keep.left(&flows)),
        (Some(mut keep), None) => {
            keep.restored();
            None
        }
        (None, _) => None,
    };
    match core.result() {
        Ok(mut document) => {
            document.notes.extend(left.into_iter().chain(unsaved));
            Ok(document)
        }
        Err(why) => {
            let why = [why].into_iter().chain(unsaved).collect::<Vec<_>>().join(". ");
            let why = why.trim_end_matches('.').to_owned();
            // Last of all, in a line of its own: it is what must be done now.
            Err([why].into_iter().chain(left).collect::<Vec<_>>().join("\n"))
        }
    }
}

/// The control channel's thread, and what it says at its end.
type Talk<'s> = ScopedJoinHandle<'s, Option<String>>;

/// The core's ends of all rings.
struct Desk<'a> {
    control: Take<(Nanos, Input)>,
    orders: Give<Order>,
    bell: &'a Bell,
    generated: Take<(Nanos, Input)>,
    departures: Take<(Nanos, crate::module::LoadId, u32)>,
    loads: Give<generator::Order>,
    frames: Vec<Take<Captured>>,
    told: Vec<Take<(Nanos, Input)>>,
    resets: Option<SyncSender<()>>,
    thinning: Arc<Thinning>,
    wake_at: &'a AtomicU64,
    keeper: Thread,
}

impl<'a> Desk<'a> {
    fn start<'s>(
        scope: &'s Scope<'s, '_>,
        rig: Rig,
        bell: &'a Bell,
        over: &'s AtomicBool,
        wake_at: &'a AtomicU64,
        cores: &'s Cores,
    ) -> io::Result<(Self, Talk<'s>)>
    where
        'a: 's,
    {
        let me = thread::current();
        let named = |name: &str| thread::Builder::new().name(format!("measure-{name}"));
        let mut told = Vec::new();

        let (control_events, control) = ring(MESSAGES, me.clone());
        // The control channel waits for its socket and this bell, so nobody unparks it.
        let (orders, order_ends) = ring(MESSAGES, me.clone());
        let settings = rig.control;
        let talk = named("control").spawn_scoped(scope, move || {
            control::serve(settings, order_ends, control_events, bell, over)
        })?;

        let (mut outlets, mut frames) = (Vec::new(), Vec::new());
        let thinning = Arc::new(Thinning::default());
        for (n, channel) in rig.channels.into_iter().enumerate() {
            let Channel { name, outlet, inlet } = channel;
            outlets.push(outlet);
            let (give_frames, take_frames) = ring(FRAMES, me.clone());
            let (give_told, take_told) = ring(MESSAGES, me.clone());
            frames.push(take_frames);
            told.push(take_told);
            let thinning = Arc::clone(&thinning);
            named(&format!("capture-{name}")).spawn_scoped(scope, move || {
                capture(n, inlet, &thinning, give_frames, give_told, over);
            })?;
        }

        let (generator_events, generated) = ring(MESSAGES, me.clone());
        let (give_departures, departures) = ring(DEPARTURES, me.clone());
        // Its orders' ring wakes it, so it must be there first.
        let (hand, take_hand) = sync_channel(1);
        let generator = named("generator").spawn_scoped(scope, move || {
            if let Ok(orders) = take_hand.recv() {
                cores.take_generators();
                generate(outlets, orders, generator_events, give_departures, over);
            }
        })?;
        let (loads, load_ends) = ring(MESSAGES, generator.thread().clone());
        // It waits for exactly this.
        let _ = hand.send(load_ends);

        if let Some(sampler) = rig.sampler {
            let (give, take) = ring(MESSAGES, me.clone());
            told.push(take);
            named("sampler").spawn_scoped(scope, move || sample(sampler, give, over))?;
        }
        let resets = match rig.reset {
            None => None,
            Some(reset) => {
                let (give, take) = ring(MESSAGES, me.clone());
                told.push(take);
                let (ask, asked) = sync_channel(1);
                named("reset").spawn_scoped(scope, move || {
                    cores.take_all();
                    reset_when_asked(reset, &asked, give, over);
                })?;
                Some(ask)
            }
        };
        let (give, take) = ring(MESSAGES, me.clone());
        told.push(take);
        let keeper = named("time")
            .spawn_scoped(scope, move || keep_time(give, &me, wake_at, over))?
            .thread()
            .clone();
        let desk = Self {
            control,
            orders,
            bell,
            generated,
            departures,
            loads,
            frames,
            told,
            resets,
            thinning,
            wake_at,
            keeper,
        };
        Ok((desk, talk))
    }

    fn work(
        &mut self,
        core: &mut Core,
        keep: &mut Option<Box<dyn Keep>>,
        watch: &mut dyn FnMut(Status),
        stop: &AtomicBool,
    ) {
        let mut said = Instant::now();
        let mut interrupted = false;
        watch(core.status());
        while core.status().phase != Phase::Done {
            let busy = self.take_all(core);
            let now = unix_now();
            if core.wake_at().is_some_and(|at| at <= now) {
                core.tick(now);
            }
            if !interrupted && stop.load(Ordering::Acquire) {
                interrupted = true;
                core.input(now, now, Input::Interrupted("interrupted".to_owned()));
            }
            self.hand_out(core, keep);
            if said.elapsed() > Duration::from_millis(200) {
                said = Instant::now();
                watch(core.status());
            }
            if !busy {
                let next = core.wake_at().map_or(u64::MAX, |at| at.0);
                if self.wake_at.swap(next, Ordering::AcqRel) != next {
                    self.keeper.unpark();
                }
                thread::park_timeout(TURN);
            }
        }
        // The last orders, above all to hang up.
        self.hand_out(core, keep);
        watch(core.status());
    }

    /// Takes what has come; says whether anything has.
    fn take_all(&mut self, core: &mut Core) -> bool {
        let mut busy = false;
        let all = [&mut self.control, &mut self.generated].into_iter().chain(&mut self.told);
        for from in all {
            for _ in 0..MESSAGES {
                let Some((at, input)) = from.take() else { break };
                busy = true;
                core.input(unix_now(), at, input);
            }
        }
        for _ in 0..FRAMES {
            let Some((at, load, number)) = self.departures.take() else { break };
            busy = true;
            core.input(at, at, Input::Left(load, number));
        }
        for from in &mut self.frames {
            for _ in 0..FRAMES {
                let Some(frame) = from.take() else { break };
                busy = true;
                core.input(unix_now(), frame.at, Input::Frame(frame));
            }
        }
        let now = unix_now();
        let lost: u64 = self.frames.iter_mut().map(Take::take_lost).sum();
        if lost > 0 {
            core.input(now, now, Input::Lost("captured frames", lost));
        }
        let lost = self.departures.take_lost();
        if lost > 0 {
            core.input(now, now, Input::Lost("moments of departure", lost));
        }
        busy
    }

    /// Does what the core wants.
    fn hand_out(&mut self, core: &mut Core, keep: &mut Option<Box<dyn Keep>>) {
        let (mut spoke, mut loaded) = (false, false);
        while let Some(command) = core.next_command() {
            let order = match command {
                Command::Send(msg) => Order::Send(msg),
                Command::Connect => Order::Connect,
                Command::Disconnect => Order::Disconnect,
                Command::Reset => {
                    // One at a time; the module hears of the one that is made.
                    let asked = self.resets.as_ref().is_some_and(|r| r.try_send(()).is_ok());
                    if !asked {
                        let (now, why) = (unix_now(), "nobody can make it".to_owned());
                        core.input(now, now, Input::Reset(Err(why)));
                    }
                    continue;
                }
                Command::Keep(flows) => {
                    let kept = keep.as_mut().map_or(Ok(()), |k| k.keep(&flows));
                    let now = unix_now();
                    core.input(now, now, Input::Kept(kept));
                    continue;
                }
                Command::Begin(id, load) => {
                    self.thinning.begin(id, load.one_in);
                    loaded |= self.loads.give_surely(generator::Order::Begin(id, load));
                    continue;
                }
                Command::Rate(id, fps) => {
                    loaded |= self.loads.give_surely(generator::Order::Rate(id, fps));
                    continue;
                }
                Command::Stop(id) => {
                    loaded |= self.loads.give_surely(generator::Order::Stop(id));
                    continue;
                }
            };
            // While the ring is full, the control channel may itself wait for room in ours.
            let mut order = Some(order);
            while let Some(o) = order.take() {
                if let Err(back) = self.orders.try_give(o) {
                    order = Some(back);
                    self.bell.ring();
                    self.take_all(core);
                }
            }
            spoke = true;
        }
        if spoke {
            self.bell.ring();
        }
        if loaded {
            self.loads.wake();
        }
    }
}

/// The thread that resets the switch.
fn reset_when_asked(
    mut reset: Reset,
    asked: &Receiver<()>,
    mut told: Give<(Nanos, Input)>,
    over: &AtomicBool,
) {
    while !over.load(Ordering::Acquire) {
        match asked.recv_timeout(TURN) {
            Ok(()) => {
                let done = reset(over);
                let _ = told.give_surely((unix_now(), Input::Reset(done)));
                told.wake();
            }
            Err(RecvTimeoutError::Timeout) => {}
            Err(RecvTimeoutError::Disconnected) => return,
        }
    }
}

/// A capture's thread.
fn capture(
    channel: usize,
    mut inlet: Box<dyn Inlet>,
    thinning: &Thinning,
    mut frames: Give<Captured>,
    mut told: Give<(Nanos, Input)>,
    over: &AtomicBool,
) {
    let mut looked = Instant::now();
    let mut was_up = true;
    let (mut counter, mut gave) = (Counter::default(), Instant::now());
    while !over.load(Ordering::Acquire) {
        let mut any = false;
        let got = inlet.receive(TURN, &mut |bytes, at| {
            let probe = recognise(bytes, at);
            if probe.is_some_and(|p| counter.see(thinning, &p) == Fate::Counted) {
                return;
            }
            any = true;
            let (made, read) = (probe.map(|p| p.made), unix_now());
            let contents = probe.map(|p| p.contents).unwrap_or_default();
            let probe = probe.map(|p| p.id);
            frames.give(Captured {
                probe,
                contents,
                left: made,
                made,
                read,
                ..Captured::new(channel, at, bytes)
            });
        });
        if any {
            frames.wake();
        }
        let mut say = |input| {
            let _ = told.give_surely((unix_now(), input));
            told.wake();
        };
        if gave.elapsed() > COUNTS || matches!(got, Ok(0)) {
            gave = Instant::now();
            counter.take(|load, count| say(Input::Counted(load, channel, count)));
        }
        if let Err(e) = got {
            // Down, mostly: told once, and waited for.
            if was_up {
                say(Input::PortFailed(channel, e.to_string()));
            }
            was_up = false;
            thread::sleep(TURN);
        }
        if looked.elapsed() > Duration::from_millis(200) {
            looked = Instant::now();
            let up = inlet.link() == LinkState::Up;
            if was_up && !up && inlet.link() != LinkState::Up {
                say(Input::PortFailed(channel, "it has lost its link".to_owned()));
            }
            was_up = up;
            let drops = inlet.take_drops();
            if drops > 0 {
                say(Input::Missed(channel, drops));
            }
        }
    }
}

/// The time manager's thread: wakes the core when something is due, and watches the clock itself.
fn keep_time(
    mut give: Give<(Nanos, Input)>,
    core: &Thread,
    wake_at: &AtomicU64,
    over: &AtomicBool,
) {
    let mut before = both_clocks();
    while !over.load(Ordering::Acquire) {
        let (now, next) = (unix_now().0, wake_at.load(Ordering::Acquire));
        if next <= now {
            wake_at.store(u64::MAX, Ordering::Release);
            core.unpark();
            continue;
        }
        thread::park_timeout(Duration::from_nanos(next - now).min(TURN));
        let Some((steady, unix)) = both_clocks() else { continue };
        if let Some((steady_before, unix_before)) = before
            && let Some(ms) = set_by(steady.duration_since(steady_before), unix_before, unix)
        {
            let why = format!("the machine's clock was set by {ms:.1} ms");
            give.give((unix_now(), Input::Interrupted(why)));
            give.wake();
        }
        before = Some((steady, unix));
    }
}

/// By how many milliseconds the Unix clock was set while so much steady time passed, if it was. Clocks that
/// are steered run up to 0.5 ‰ fast or slow (adjtimex(2)).
fn set_by(passed: Duration, before: Nanos, after: Nanos) -> Option<f64> {
    let passed = passed.as_nanos() as i128;
    let off = i128::from(after.0) - i128::from(before.0) - passed;
    (off.abs() > STEP.as_nanos() as i128 + passed / 1000).then_some(off as f64 / 1e6)
}

/// Both clocks at one moment; `None` if the thread was interrupted between them.
fn both_clocks() -> Option<(Instant, Nanos)> {
    let a = Instant::now();
    let unix = unix_now();
    let b = Instant::now();
    (b.duration_since(a) < Duration::from_micros(100)).then_some((a, unix))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_clock_that_was_set_is_told_from_one_that_is_steered() {
        let before = Nanos(1_800_000_000_000_000_000);
        let after = |ms: i64| Nanos(before.0.saturating_add_signed(ms * 1_000_000));
        let passed = Duration::from_secs(60);
        for ms in [60_000, 60_030, 59_970] {
            assert_eq!(set_by(passed, before, after(ms)), None, "{ms}");
        }
        assert_eq!(set_by(passed, before, after(61_000)), Some(1_000.0));
        assert_eq!(set_by(passed, before, after(-60_000)), Some(-120_000.0));
        assert_eq!(set_by(Duration::from_millis(50), before, after(53)), Some(3.0));
    }
}
