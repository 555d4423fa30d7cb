//! VDPs on their way to another data plane and back: frames held, handed on, let go.
//!
//! Room: as `phases`, which calls it once a round for whoever is on its way. A frame of the VDP that is
//! under way here, in its channel or in a queue of its own, leaves before the first that is handed on;
//! and on the way back, what was handed on is back before the first that is processed here.

use super::*;
use crate::action::Vid;
use crate::carried::{Back, Brought, Carried, Gate, Handed};
use crate::vdp::{Path, Phase};
use weir_packet::{BURST, Nanos, PortId};

/// Held frames that go on in a round: more would find no room in a port's queue.
const AT_ONCE: usize = 4 * BURST;
/// How long ports may take for all that was held. What is left then goes on at once, and finds room or not.
const LETTING_GO: Nanos = Nanos::from_secs(1);

/// Frames of a VDP that wait at its ports.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Queued {
    None,
    /// Those that come later stay behind them. They are counted when they leave, so they are waited for
    /// while there is time.
    InOrder,
    /// In queues of its own, which those that come later could pass.
    Apart,
}

/// Whether an attempt has time left.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Time {
    Left,
    Up,
}

impl Time {
    fn at(now: Nanos, deadline: Nanos) -> Self {
        if now >= deadline { Self::Up } else { Self::Left }
    }
    /// How many of the frames that are held go on now.
    fn most(self, ready: bool, held: usize) -> usize {
        match self {
            Self::Up => held,
            Self::Left if ready => held.min(AT_ONCE),
            Self::Left => 0,
        }
    }
}

impl Queued {
    /// Whether nothing speaks against going on without them.
    fn lets_go(self, time: Time) -> bool {
        self == Self::None || time == Time::Up && self == Self::InOrder
    }
}

impl Vdp {
    /// What becomes of a frame that came in by a port, while the VDP is away or nearly so.
    pub(super) fn relay(&self, in_port: PortId) -> Slot {
        let Some(a) = &self.away else { return Slot::Drop(DropReason::NoSuchPort) };
        // What comes back by a far port is past what is held.
        let near = a.pairs.iter().any(|(near, _)| *near == in_port);
        match (self.phase, a.partner(in_port)) {
            (Phase::Leaving { .. } | Phase::Coming { .. }, _) if near => Slot::Hold,
            (_, Some(port)) => Slot::Relay(port),
            (_, None) => Slot::Drop(DropReason::NoSuchPort),
        }
    }
    /// What it has counted; frames that are held have not come yet.
    pub(crate) fn carried(&self) -> Carried {
        let (mut counters, mut ports) = (self.tally(), self.port_counters());
        for h in &self.hold {
            let one = Tally { frames: 1, bytes: h.frame.len() as u64 };
            counters.received = counters.received.less(one);
            let of = self.ports.iter().find(|(_, id)| *id == h.in_port).map(|(no, _)| *no);
            for (_, c) in ports.iter_mut().filter(|(no, _)| Some(*no) == of) {
                c.rx = c.rx.less(one);
            }
        }
        Carried { counters, ports, tables: self.fast.counters() }
    }
    /// The same with what it had counted elsewhere before.
    pub(crate) fn carried_whole(&self) -> Carried {
        let now = self.carried();
        let Some(b) = &self.brought else { return now };
        Carried {
            counters: b.counters(&now.counters),
            ports: now.ports.iter().map(|(no, c)| (*no, b.port(*no, *c))).collect(),
            tables: b.tables(now.tables),
        }
    }
    /// The same as far as it is known here, where it is out: each frame once, when it comes in and when it goes out, not what is but
    /// handed on and comes back.
    pub(crate) fn carried_home(&self) -> Carried {
        let mut all = self.carried_whole();
        if let Some(out) = self.away.as_ref().and_then(|a| a.out) {
            let far = self.edge.elsewhere();
            all.counters.received = all.counters.received.less(far.rx.less(out.rx));
            all.counters.forwarded = all.counters.forwarded.less(far.tx.less(out.tx));
        }
        all
    }
    /// The same, with the frames that are held: they have come.
    pub(crate) fn counted_everywhere(&self) -> Option<VdpCounters> {
        let elsewhere =
            self.brought.is_some() || self.away.as_ref().is_some_and(|a| a.out.is_some());
        elsewhere.then(|| {
            let mut all = self.carried_home().counters;
            for h in &self.hold {
                all.received.merge(Tally { frames: 1, bytes: h.frame.len() as u64 });
            }
            all
        })
    }
}

impl DataPlane {
    /// Frames handed on and come back, since the VDP left.
    pub(crate) fn handed(&self, vid: Vid) -> Handed {
        let Some(Some(v)) = self.vdps.get(usize::from(vid.0)) else { return Handed::default() };
        let Some(a) = &v.away else { return Handed::default() };
        let mut all = a.gone;
        for p in a.pairs.iter().filter_map(|(_, far)| self.ports.get(usize::from(far.0))?.as_ref())
        {
            // Only this VDP uses the port.
            all.sent += p.counters.tx.frames;
            all.came += p.counters.rx.frames;
            all.waiting += p.tx.backlog_of(vid) as u64;
        }
        all.sent -= a.begun.sent.min(all.sent);
        all.came -= a.begun.came.min(all.came);
        all
    }

    /// Frames of a VDP that wait at its ports.
    fn queued(&self, vid: Vid) -> Queued {
        let Some(Some(v)) = self.vdps.get(usize::from(vid.0)) else { return Queued::None };
        if v.queued == 0 {
            return Queued::None;
        }
        let ports = v.port_ids.iter().filter_map(|id| self.ports.get(usize::from(id.0))?.as_ref());
        ports.fold(Queued::None, |all, p| match p.tx.backlog_of(vid) {
            0 => all,
            _ if p.tx.has_queues(vid) => Queued::Apart,
            _ => all.max(Queued::InOrder),
        })
    }

    /// A VDP that leaves: on its way out when nothing of it is under way here, gone when all that was
    /// held is on its way, too.
    pub(super) fn leave_on(&mut self, vid: Vid, deadline: Nanos, since: Nanos) {
        let Some(v) = vdp_mut(&mut self.vdps, vid) else { return };
        if v.away.as_ref().is_some_and(|a| a.gate == Gate::Open) {
            return self.hand_on(vid, Time::at(self.now, deadline), since);
        }
        let (quiet, time) = (v.channel.in_flight == 0, Time::at(self.now, deadline));
        if quiet && !self.parked_of(vid) && self.queued(vid).lets_go(time) {
            let begun = self.handed_from_begin(vid);
            let Some(v) = vdp_mut(&mut self.vdps, vid) else { return };
            let (left, held) = (v.carried_whole(), v.hold.len() as u64);
            let out = Some(v.edge.elsewhere());
            if let Some(a) = &mut v.away {
                (a.left, a.out, a.begun) = (left, out, begun);
                (a.told.held, a.gate) = (held, Gate::Open);
            }
            v.phase = Phase::Leaving { deadline: self.now + LETTING_GO, since };
            self.hand_on(vid, Time::Left, since);
        } else if time == Time::Up {
            self.stay(vid, since);
        }
    }

    /// What had passed the far ports before the VDP left.
    pub(crate) fn handed_from_begin(&mut self, vid: Vid) -> Handed {
        if let Some(a) = vdp_mut(&mut self.vdps, vid).and_then(|v| v.away.as_mut()) {
            a.begun = Handed::default();
        }
        self.handed(vid)
    }

    /// A VDP that was to leave stays where it was.
    fn stay(&mut self, vid: Vid, since: Nanos) {
        let Some(v) = vdp_mut(&mut self.vdps, vid) else { return };
        let Some(a) = &mut v.away else { return };
        a.told.given_up += 1;
        match a.back {
            Path::Slow => {
                v.phase = Phase::Returning;
                self.return_held(vid);
            }
            Path::Fast => {
                // As one that is back: what is held goes first.
                a.gate = Gate::Open;
                v.phase = Phase::Coming { deadline: self.now + LETTING_GO, since };
                self.let_in(vid, Time::Left, since);
            }
        }
    }

    /// A VDP that comes back: let in when all that was handed on has come back.
    pub(super) fn come_on(&mut self, vid: Vid, deadline: Nanos, since: Nanos) {
        let (handed, queued) = (self.handed(vid), self.queued(vid));
        let time = Time::at(self.now, deadline);
        let Some(v) = vdp_mut(&mut self.vdps, vid) else { return };
        let Some(a) = &v.away else { return };
        if a.gate == Gate::Open {
            return self.let_in(vid, time, since);
        }
        let is_back = a.expected.is_some_and(|n| handed.came >= n) && queued.lets_go(time);
        let counted = is_back.then(|| (v.carried(), v.carried_home()));
        let Some(a) = &mut v.away else { return };
        if let Some((here, home)) = counted {
            a.told.held = v.hold.len() as u64;
            // Until what was counted elsewhere is known.
            v.brought = Some(Box::new(Brought { given: home.clone(), here: here.clone() }));
            (a.back_with, a.out, a.gate) = (Some(Back { here, home }), None, Gate::Open);
            v.phase = Phase::Coming { deadline: self.now + LETTING_GO, since };
            let (to, channel) = (a.back, v.channel.channel);
            if to == Path::Fast {
                self.take_copies_back(vid, channel);
            }
            self.learn_again(vid);
            self.let_in(vid, Time::Left, since);
        } else if time == Time::Up {
            a.told.given_up += 1;
            self.turn_away(vid);
        }
    }

    /// What its programs knew of who is behind its ports is as old as its way out: they learn again.
    fn learn_again(&self, vid: Vid) {
        // One that is being deleted has no slow path any more that could be told.
        let _ = self.post(vid, |slot| slot.forget_ports());
    }

    /// A VDP that was to come back stays away.
    pub(crate) fn turn_away(&mut self, vid: Vid) {
        let (now, deadline) = (self.now, self.now + LETTING_GO);
        let Some(v) = vdp_mut(&mut self.vdps, vid) else { return };
        let Some(a) = &mut v.away else { return };
        (a.expected, a.gate) = (None, Gate::Open);
        v.phase = Phase::Leaving { deadline, since: now };
        self.hand_on(vid, Time::Left, now);
    }

    /// Hands on what was held, oldest first, as much as the ports take while there is time; the VDP is away
    /// when that is all.
    fn hand_on(&mut self, vid: Vid, time: Time, since: Nanos) {
        let free = |p: &Port| p.tx.backlog_of(vid) == 0;
        let ports = &self.ports;
        let takes =
            |id: PortId| ports.get(usize::from(id.0)).and_then(Option::as_deref).is_none_or(free);
        let Some(v) = vdp_mut(&mut self.vdps, vid) else { return };
        let ready = v.away.iter().flat_map(|a| &a.pairs).all(|(_, far)| takes(*far));
        let most = time.most(ready, v.hold.len());
        for h in v.hold.drain(..most) {
            match v.away.as_ref().and_then(|a| a.partner(h.in_port)) {
                Some(port) => self.work.out.push(OutItem { frame: h.frame, port, vid, queue: 0 }),
                None => {
                    v.counters.dropped.add(DropReason::NoSuchPort);
                    self.work.grave.push(h.frame);
                }
            }
        }
        if v.hold.is_empty() {
            v.phase = Phase::Away;
            if let Some(a) = &mut v.away {
                (a.gate, a.told.hold_ns) = (Gate::Shut, self.now.since(since).0);
            }
            self.migrating -= 1;
        }
        self.hand_to_forwarding(None);
        self.bury();
    }

    /// Takes what was held through the stages, oldest first, as much as the ports take while there is
    /// time; the VDP is here when that is all. Frames have been counted when they came, and are let in now.
    fn let_in(&mut self, vid: Vid, time: Time, since: Nanos) {
        self.unpark_all();
        let room = self.queued(vid) == Queued::None && !self.parked_of(vid);
        let Some(v) = vdp_mut(&mut self.vdps, vid) else { return };
        let ready = room && v.channel.in_flight as usize <= AT_ONCE;
        let (to, waiting) = (v.away.as_ref().map_or(Path::Slow, |a| a.back), v.phase);
        let mut left = time.most(ready, v.hold.len());
        v.phase = Phase::On(to);
        while let Some(in_port) = self.take_held(vid, &mut left) {
            self.map(in_port);
            self.work.vids = [vid; BURST];
            let Some(v) = vdp_mut(&mut self.vdps, vid) else { break };
            let rx = v.edge.rx(in_port);
            self.match_rules(in_port);
            if let Some(v) = vdp_mut(&mut self.vdps, vid) {
                v.edge.set_rx(in_port, rx);
            }
            self.process(in_port);
            self.hand_over(in_port);
        }
        self.bury();
        let now = self.now;
        let Some(v) = vdp_mut(&mut self.vdps, vid) else { return };
        if !v.hold.is_empty() {
            v.phase = waiting;
            return;
        }
        if let Some(a) = &mut v.away {
            (a.gate, a.told.hold_ns) = (Gate::Shut, now.since(since).0);
        }
        self.migrating -= 1;
    }
}
