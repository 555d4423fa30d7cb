//! The engine's core: one measurement as a state machine.
//!
//! Sans-I/O: called with what happened and when, by [`super::run`] on a real switch and by
//! [`super::simulation`] on a simulated one. [`Core::input`] and [`Core::tick`] go in,
//! [`Core::next_command`] comes out, [`Core::wake_at`] says when to tick, [`Core::result`] when it is over.
//! It never waits for anything without a time limit, so it always comes to its end.

use super::misread::{BARRIER, Lack, Misread};
use super::observed::Observed;
use super::pairing::Pairing;
use super::restore::Made;
use super::setup::Setup;
use super::tally::Tally;
use super::terms::{Command, Departures, Input, Phase, Settings, Status, nanos};
use super::twice::Twice;
use crate::document::Document;
use crate::module::{
    Act, Bench, Captured, Context, Load, LoadId, Module, On, Params, Table, Wired,
};
use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet, BinaryHeap, VecDeque};
use std::time::Duration;
use weir_openflow::model::{FlowStats, Message, Msg, Part, SwitchConfig};
use weir_packet::Nanos;

/// Timers of a module at once.
const TIMERS: usize = 1 << 20;

/// What is waited for.
#[derive(Debug)]
pub(super) struct Expected {
    pub(super) what: &'static str,
    pub(super) by_module: bool,
    /// Parts of its answer that came, and said that more follow.
    pub(super) parts: u64,
}

/// One measurement.
pub struct Core {
    pub(super) settings: Settings,
    pub(super) module: Box<dyn Module>,
    pub(super) params: Params,
    pub(super) table: Table,
    pub(super) bench: Bench,
    pub(super) phase: Phase,
    pub(super) setup: Setup,
    pub(super) connected: bool,
    pub(super) touched: bool,
    pub(super) restored_by: Option<u32>,
    /// The first and the last message that puts a flow back, and whether one was refused.
    pub(super) going_back: Option<(u32, u32)>,
    pub(super) not_taken_back: bool,
    pub(super) config_before: Option<SwitchConfig>,
    pub(super) before: Vec<FlowStats>,
    pub(super) made: Made,
    pub(super) xid: u32,
    pub(super) loads: u8,
    open: BTreeSet<u8>,
    timers: BinaryHeap<Reverse<(Nanos, u64, u64)>>,
    timer_count: u64,
    pub(super) expected: BTreeMap<u32, Expected>,
    /// Answers to barriers that nobody asked for.
    pub(super) strange_barriers: u64,
    deadlines: VecDeque<(Nanos, u32)>,
    /// When the phase itself wants to be called.
    pub(super) phase_at: Option<Nanos>,
    /// When to connect again, to put the switch back.
    pub(super) retry_at: Option<Nanos>,
    pub(super) out: VecDeque<Command>,
    acts: Vec<Act>,
    pub(super) pairing: Pairing,
    pub(super) tally: Tally,
    pub(super) observed: Observed,
    pub(super) misread: Misread,
    pub(super) twice: Twice,
    pub(super) failed: Option<String>,
    /// What the switch did to end the measurement.
    pub(super) blamed: Option<String>,
    pub(super) finished: bool,
    pub(super) document: Document,
    pub(super) begun: Nanos,
    measuring_since: Option<Nanos>,
    /// Handlers called, and how many there were at the last look whether the module waits for anything.
    calls: u64,
    calls_before: u64,
    pub(super) status: (u64, u64),
    pub(super) notes: Vec<String>,
}

impl Core {
    /// A measurement that has not begun. `document`: with id, device and environment; the rest is filled
    /// in here and by the module.
    pub fn new(
        settings: Settings,
        module: Box<dyn Module>,
        params: Params,
        document: Document,
        now: Nanos,
    ) -> Self {
        let wired = settings
            .channels
            .iter()
            .map(|name| Wired { name: name.clone(), port: weir_openflow::model::Port::ANY });
        let resets = settings.resets;
        let bench = Bench { wired: wired.collect(), resets, ..Bench::default() };
        let mut core = Self {
            module,
            table: params.about().table,
            bench,
            phase: Phase::Calibrate,
            setup: Setup::default(),
            connected: false,
            touched: false,
            restored_by: None,
            going_back: None,
            not_taken_back: false,
            config_before: None,
            before: Vec::new(),
            made: Made::default(),
            // Not from zero, so that a switch which answers with xid 0 is not believed.
            xid: 0x0f10_0000,
            loads: 0,
            open: BTreeSet::new(),
            timers: BinaryHeap::new(),
            timer_count: 0,
            expected: BTreeMap::new(),
            strange_barriers: 0,
            deadlines: VecDeque::new(),
            phase_at: Some(now + nanos(settings.patience)),
            retry_at: None,
            out: VecDeque::from([Command::Connect]),
            acts: Vec::new(),
            pairing: Pairing::default(),
            tally: Tally::default(),
            observed: Observed::default(),
            misread: Misread::default(),
            twice: Twice::default(),
            failed: None,
            blamed: None,
            finished: false,
            document,
            begun: now,
            measuring_since: None,
            calls: 0,
            calls_before: 0,
            status: (0, 0),
            notes: Vec::new(),
            params,
            settings,
        };
        if core.params.about().on == On::Wire {
            core.out.clear();
            core.phase = Phase::WarmUp;
            core.phase_at = Some(now + nanos(core.settings.warm_up));
        }
        let need = core.params.about().channels;
        if core.bench.wired.len() < need {
            core.out.clear();
            core.fail(
                now,
                format!(
                    "module '{}' needs {need} data channels and {} are given: give more ports",
                    core.params.about().name,
                    core.bench.wired.len()
                ),
            );
        }
        core
    }

    /// What is to be done next.
    pub fn next_command(&mut self) -> Option<Command> {
        self.out.pop_front()
    }

    /// Where it stands.
    pub fn status(&self) -> Status {
        Status {
            phase: self.phase,
            done: self.status.0,
            of: self.status.1,
            takes: self.module.takes(),
            measuring_since: self.measuring_since,
        }
    }

    /// How long all of it takes on a switch that needs no time of its own, as far as the module can say.
    pub fn takes(&self) -> Option<Duration> {
        let own = self.settings.warm_up + self.settings.drain;
        self.module.takes().and_then(|t| t.checked_add(own))
    }

    /// The result, once it is over: a document, or why there is none.
    pub fn result(self) -> Result<Document, String> {
        match self.failed {
            Some(why) if !self.finished => Err(why),
            _ => Ok(self.document),
        }
    }

    /// When [`Self::tick`] is due.
    pub fn wake_at(&self) -> Option<Nanos> {
        let timer = self.timers.peek().map(|Reverse((at, ..))| *at);
        let deadline = self.deadlines.front().map(|(at, _)| *at);
        let due = [self.phase_at, self.retry_at, timer, deadline, self.pairing.wake_at()];
        due.into_iter().flatten().min()
    }

    /// Does what is due.
    pub fn tick(&mut self, now: Nanos) {
        self.release(now);
        while let Some(&(at, xid)) = self.deadlines.front() {
            match self.expected.get(&xid) {
                Some(_) if at > now => break,
                Some(_) => {
                    self.deadlines.pop_front();
                    if let Some(e) = self.expected.remove(&xid) {
                        self.unanswered(now, xid, &e, &Lack::Late);
                    }
                }
                None => drop(self.deadlines.pop_front()),
            }
        }
        while self.phase == Phase::Measure
            && let Some(Reverse((_, _, token))) =
                self.timers.peek().copied().filter(|Reverse((at, ..))| *at <= now)
        {
            self.timers.pop();
            self.call(now, |m, cx| m.timer(cx, token));
        }
        if self.phase_at.is_some_and(|at| at <= now) {
            self.phase_at = None;
            self.phase_is_due(now);
        }
        if self.retry_at.is_some_and(|at| at <= now) {
            self.retry_at = None;
            if self.phase == Phase::CleanUp && !self.connected {
                self.connect();
            }
        }
    }

    fn phase_is_due(&mut self, now: Nanos) {
        match self.phase {
            Phase::Calibrate => self.setup_is_late(now),
            Phase::WarmUp => {
                self.phase = Phase::Measure;
                self.begun = now;
                self.measuring_since = Some(now);
                self.look_again(now);
                self.call(now, |m, cx| m.start(cx));
            }
            Phase::Measure => self.look_whether_it_waits(now),
            Phase::Done => {}
            Phase::Drain => self.conclude(now),
            Phase::CleanUp => self.restore_is_late(now),
        }
    }

    /// A module that has nothing to wait for would wait for ever.
    fn look_whether_it_waits(&mut self, now: Nanos) {
        let waits = !self.timers.is_empty() || !self.expected.is_empty() || !self.open.is_empty();
        if !waits && self.calls == self.calls_before {
            let why = "the module waits for nothing: it has neither timer, request nor load";
            return self.fail(now, why.to_owned());
        }
        self.look_again(now);
    }

    fn look_again(&mut self, now: Nanos) {
        self.calls_before = self.calls;
        // Longer than making a connection may take.
        let after = (self.settings.patience * 3).max(Duration::from_secs(60));
        self.phase_at = Some(now + nanos(after));
    }

    /// Takes what happened at `at` (as its source stamped it); `now` is not before it but for clocks that
    /// disagree a little.
    pub fn input(&mut self, now: Nanos, at: Nanos, input: Input) {
        match input {
            Input::Up(version) => {
                self.connected = true;
                self.bench.version.get_or_insert(version);
                match self.phase {
                    Phase::Calibrate => self.ask(now, version),
                    Phase::CleanUp => self.put_back(now),
                    Phase::Measure => {
                        self.call(now, |m, cx| {
                            m.connection(cx, at, true);
                        });
                    }
                    _ => {}
                }
            }
            Input::Closed(why) => self.closed(now, at, &why),
            Input::Stranger(why) => self.stranger(why),
            Input::Message(msg) => self.message(now, at, msg),
            Input::Written(xid) => self.call(now, |m, cx| m.written(cx, xid, at)),
            Input::Misread(e) => self.misread(now, &e),
            Input::Frame(frame) => {
                if let Some(id) = frame.probe {
                    self.tally.told(id.load.0);
                }
                match self.settings.departures {
                    Departures::Program => self.frame(now, &frame),
                    Departures::Kernel => {
                        self.pairing.came(now, frame);
                        self.release(now);
                    }
                }
            }
            Input::Left(load, number) => {
                self.pairing.left(load, number, at);
                self.release(now);
            }
            Input::LoadDone(done) => {
                self.tally.done(&done);
                self.open.remove(&done.load.0);
                self.call(now, |m, cx| m.load_done(cx, &done));
            }
            Input::LoadFailed(load, why) => {
                self.open.remove(&load.0);
                self.fail(now, why);
            }
            Input::PortFailed(channel, why) => {
                let name = self.settings.channels.get(channel).cloned().unwrap_or_default();
                self.fail(now, format!("port '{name}': {why}"));
            }
            Input::Sample(sample) => {
                self.observed.told(sample.at);
                if self.phase == Phase::Measure {
                    self.observed.add(&sample);
                }
                self.call(now, |m, cx| m.sample(cx, &sample));
            }
            Input::Untold(why) => {
                self.observed.untold(&why);
                self.note(format!("The switch's state: {why}."));
            }
            Input::Lost(what, n) => self.tally.lost(what, n),
            Input::Missed(channel, n) => {
                self.tally.lost("frames in the kernel's queue", n);
                self.call(now, |m, cx| m.missed(cx, channel, n));
            }
            Input::Counted(load, channel, count) => {
                self.tally.counted(load.0, count.frames);
                self.call(now, |m, cx| m.counted(cx, load, channel, count));
            }
            Input::Reset(Ok(())) => self.call(now, |m, cx| m.was_reset(cx, at)),
            Input::Reset(Err(why)) => self.fail(now, format!("the switch's reset: {why}")),
            Input::Kept(done) => self.kept(now, done),
            Input::Note(text) => self.note(text),
            Input::Interrupted(why) => self.fail(now, why),
        }
    }

    pub(super) fn note(&mut self, text: String) {
        if self.notes.len() < 100 && !self.notes.contains(&text) {
            self.notes.push(text);
        }
    }

    fn release(&mut self, now: Nanos) {
        while let Some(frame) = self.pairing.next(now) {
            self.frame(now, &frame);
        }
    }

    fn frame(&mut self, now: Nanos, frame: &Captured) {
        match self.phase {
            Phase::Calibrate => self.calibration_frame(now, frame),
            Phase::Measure | Phase::Drain => self.call(now, |m, cx| m.frame(cx, frame)),
            Phase::WarmUp | Phase::CleanUp | Phase::Done => {}
        }
    }

    fn message(&mut self, now: Nanos, at: Nanos, msg: Msg) {
        let is_last = !matches!(msg.body, Message::StatsReply { more: Part::More, .. });
        let expected = if is_last {
            self.expected.remove(&msg.xid)
        } else {
            self.expected.get_mut(&msg.xid).into_iter().for_each(|e| e.parts += 1);
            None
        };
        self.twice.came(&msg, expected.as_ref());
        let known = expected.is_some() || self.restored_by == Some(msg.xid);
        self.strange_barriers += u64::from(msg.body == Message::BarrierReply && !known);
        if let Message::Error(e) = &msg.body
            && self.phase == Phase::Measure
        {
            self.tally.error(format!("{:?}", e.code));
            self.made.refused(msg.xid);
        }
        match self.phase {
            Phase::Calibrate => self.setup_message(now, &msg, expected.as_ref()),
            Phase::CleanUp => self.restore_message(now, &msg, expected.as_ref()),
            Phase::WarmUp | Phase::Done => {}
            Phase::Measure | Phase::Drain => self.call(now, |m, cx| m.message(cx, at, &msg)),
        }
    }

    fn closed(&mut self, now: Nanos, at: Nanos, why: &str) {
        self.connected = false;
        self.forget_expected();
        match self.phase {
            Phase::CleanUp => self.restore_again(now),
            Phase::Done => {}
            Phase::Measure => {
                let mut expected = false;
                self.call(now, |m, cx| expected = m.connection(cx, at, false));
                if !expected {
                    self.blame(now, format!("the control connection is lost: {why}"));
                }
            }
            _ => {
                let last = self.setup.last_stranger();
                self.fail(now, format!("the control connection: {why}{last}"));
            }
        }
    }

    pub(super) fn forget_expected(&mut self) {
        self.expected.clear();
        self.deadlines.clear();
        self.twice.forget();
    }

    pub(super) fn unanswered(&mut self, now: Nanos, xid: u32, e: &Expected, lack: &Lack) {
        if !e.by_module {
            return self.setup_unanswered(now, xid, e, lack);
        }
        let mut goes_on = false;
        self.call(now, |m, cx| goes_on = m.unanswered(cx, xid));
        if !goes_on {
            let why = self.no_answer(e, lack);
            self.blame(now, why);
        }
    }

    /// Calls a handler and does what it asks for.
    fn call(&mut self, now: Nanos, handler: impl FnOnce(&mut dyn Module, &mut Context<'_>)) {
        if !matches!(self.phase, Phase::Measure | Phase::Drain) {
            return;
        }
        self.calls += 1;
        let mut acts = std::mem::take(&mut self.acts);
        let mut cx = Context {
            now,
            bench: &self.bench,
            params: &self.params,
            acts: &mut acts,
            xid: &mut self.xid,
            loads: &mut self.loads,
            departures: &mut self.pairing,
            traffic: self.settings.traffic.as_ref(),
        };
        handler(self.module.as_mut(), &mut cx);
        for act in acts.drain(..) {
            self.act(now, act);
        }
        self.acts = acts;
    }

    fn act(&mut self, now: Nanos, act: Act) {
        let measuring = self.phase == Phase::Measure;
        match act {
            Act::Progress(done, of) => self.status = (done, of),
            // After the end nothing new is begun.
            _ if !measuring => {}
            Act::Send { xid, body, answered } => {
                self.made.sent(xid, &body);
                self.send_as(now, xid, body, answered, true);
            }
            Act::Begin(id, mut load) => {
                let leaves = self.params.about().leaves;
                let put = self.settings.traffic.as_ref().map(|t| t.put_on(&mut load, leaves));
                match put {
                    Some(Err(e)) => self.fail(now, e.to_string()),
                    _ => self.begin(now, id, load),
                }
            }
            Act::Rate(id, fps) => self.out.push_back(Command::Rate(id, fps)),
            Act::Stop(id) => self.out.push_back(Command::Stop(id)),
            Act::Timer(at, token) => {
                if self.timers.len() >= TIMERS {
                    return self.fail(now, format!("the module sets more than {TIMERS} timers"));
                }
                self.timer_count += 1;
                // A timer of no time at all must not stop time.
                let at = at.max(now + Nanos(1));
                self.timers.push(Reverse((at, self.timer_count, token)));
            }
            Act::Disconnect => {
                self.forget_expected();
                self.out.push_back(Command::Disconnect);
            }
            Act::Connect => self.out.push_back(Command::Connect),
            Act::Reset => {
                self.observed.reset();
                self.out.push_back(Command::Reset);
            }
            Act::End => self.drain(now),
            Act::Fail(why) => self.fail(now, why),
        }
    }

    pub(super) fn begin(&mut self, now: Nanos, id: LoadId, load: Load) {
        if load.channel >= self.settings.channels.len() {
            let why = crate::module::load::LoadError::Channel(load.channel).to_string();
            return self.fail(now, why);
        }
        self.pairing.begin(id);
        self.tally.begin(id.0, load.one_in);
        self.open.insert(id.0);
        self.out.push_back(Command::Begin(id, load));
    }

    pub(super) fn stop(&mut self, id: LoadId) {
        self.open.remove(&id.0);
        self.out.push_back(Command::Stop(id));
    }

    fn stop_loads(&mut self) {
        for id in std::mem::take(&mut self.open) {
            self.out.push_back(Command::Stop(LoadId(id)));
        }
    }

    fn send_as(&mut self, now: Nanos, xid: u32, body: Message, answered: bool, by_module: bool) {
        if answered {
            let what = request_name(&body);
            self.expected.insert(xid, Expected { what, by_module, parts: 0 });
            self.deadlines.push_back((now + nanos(self.settings.patience), xid));
        }
        self.out.push_back(Command::Send(Msg { xid, body }));
    }

    /// Sends a message of the engine's own; says its transaction id.
    pub(super) fn send(&mut self, body: Message) -> u32 {
        self.xid = self.xid.wrapping_add(1);
        self.send_as(Nanos(0), self.xid, body, false, false);
        self.xid
    }

    /// The same, to be answered.
    pub(super) fn request(&mut self, now: Nanos, body: Message) -> u32 {
        self.xid = self.xid.wrapping_add(1);
        self.send_as(now, self.xid, body, true, false);
        self.xid
    }

    pub(super) fn disconnect(&mut self) {
        self.out.push_back(Command::Disconnect);
    }

    pub(super) fn connect(&mut self) {
        self.out.push_back(Command::Connect);
    }

    /// All is measured.
    fn drain(&mut self, now: Nanos) {
        self.stop_loads();
        self.forget_expected();
        self.timers.clear();
        self.phase = Phase::Drain;
        self.phase_at = Some(now + nanos(self.settings.drain));
    }

    /// The measurement can't go on, and that is the switch's doing: a verdict says so.
    fn blame(&mut self, now: Nanos, why: String) {
        if self.phase == Phase::Measure && self.failed.is_none() {
            self.blamed = Some(why.clone());
        }
        self.fail(now, why);
    }

    /// The measurement can't go on. The first reason is the one that is told.
    pub(super) fn fail(&mut self, now: Nanos, why: String) {
        let first = self.failed.get_or_insert(why).clone();
        match self.phase {
            Phase::Calibrate | Phase::WarmUp => {
                self.stop_loads();
                self.clean_up(now);
            }
            Phase::Measure => {
                self.document.partial = Some(first);
                self.drain(now);
            }
            Phase::Drain => self.document.partial = Some(first),
            Phase::CleanUp | Phase::Done => {}
        }
    }

    pub(super) fn over(&mut self) {
        self.phase = Phase::Done;
        self.phase_at = None;
        self.retry_at = None;
        self.forget_expected();
        if self.connected {
            self.disconnect();
        }
    }
}

fn request_name(body: &Message) -> &'static str {
    match body {
        Message::EchoRequest(_) => "an echo request",
        Message::FeaturesRequest => "a features request",
        Message::GetConfigRequest => "a get-config request",
        Message::StatsRequest { .. } => "a statistics request",
        Message::BarrierRequest => BARRIER,
        Message::RoleRequest(_) => "a role request",
        _ => "a request",
    }
}
