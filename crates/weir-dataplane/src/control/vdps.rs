//! VDPs: made, deleted, their ports, programs and default rules.

use super::*;
use crate::action::{Action, PortNo, Vid};
use crate::compile::{self, ActionResult};
use crate::counters::VdpCounters;
use crate::edge::{Edge, PortFlags};
use crate::forwarding::PortShare;
use crate::mapping::MappingRule;
use crate::matching::Tables;
use crate::meter::Meter;
use crate::plane::DataPlane;
use crate::program::{Program, ProgramPort};
use crate::shortcut::Ways;
use crate::software::{Dedicated, Slot, SlotPort};
use crate::userfield::UserFields;
use crate::vdp::{Asked, ChannelUse, MigrationReport, Path, Phase, SlowOnly, Spilled, Vdp};
use crate::written::Written;
use std::collections::VecDeque;
use std::sync::{Mutex, PoisonError};
use weir_classify::Part;
use weir_packet::{Caps, DropReason, Nanos, PortId};

/// How long frames of a deleted VDP wait for wires that take nothing: the fullest queue of a wire of 10 Mbit/s is empty by then.
const LAST_FRAMES: Nanos = Nanos::from_secs(5);

/// A VDP to be made.
pub struct VdpSpec {
    /// Its id.
    pub vid: Vid,
    /// Its name.
    pub name: String,
    /// Its ports: its own number, port of the data plane.
    pub ports: Vec<(PortNo, PortId)>,
    /// Which frames are its own.
    pub mapping: Vec<MappingRule>,
    /// What a frame without a rule gets.
    pub default: Vec<Action>,
    /// Its slow-path program.
    pub program: Option<Box<dyn Program>>,
    /// A channel of its own.
    pub channel: Option<u8>,
    /// Where it starts.
    pub path: Path,
    /// Fields of its own.
    pub fields: UserFields,
    /// TCAM entries for its action rules, reserved now; more are taken as rules come while the
    /// budget lasts.
    pub action_entries: usize,
    /// TCAM entries that it may not exceed with action rules, rounded up to slices.
    pub action_limit: Option<u32>,
    /// Its part of the worker's cycles, in thousandths; 0: no guarantee.
    pub cpu_permille: u16,
    /// Of several workers the one that does it, counted from 0. Its mapping rules name their ports, of which that worker gets
    /// all frames: a desk sees to it, a crew without one must ([`crate::crew::CrewHandle::keep_whole`]).
    pub worker: Option<usize>,
}

impl VdpSpec {
    /// A VDP on the fast path whose misses go to its channel.
    pub fn new(vid: Vid, name: &str) -> Self {
        Self {
            vid,
            name: name.to_owned(),
            ports: Vec::new(),
            mapping: Vec::new(),
            default: vec![Action::ToChannel],
            program: None,
            channel: None,
            path: Path::Fast,
            fields: UserFields::default(),
            action_entries: 0,
            action_limit: None,
            cpu_permille: 0,
            worker: None,
        }
    }
}

/// A VDP without a program, to be made more than once.
struct Recipe(Mutex<VdpSpec>);

impl Recipe {
    fn of(spec: VdpSpec) -> Self {
        Self(Mutex::new(VdpSpec { program: None, ..spec }))
    }
    fn spec(&self) -> VdpSpec {
        let s = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        VdpSpec {
            vid: s.vid,
            name: s.name.clone(),
            ports: s.ports.clone(),
            mapping: s.mapping.clone(),
            default: s.default.clone(),
            program: None,
            channel: s.channel,
            path: s.path,
            fields: s.fields.clone(),
            action_entries: s.action_entries,
            action_limit: s.action_limit,
            cpu_permille: s.cpu_permille,
            worker: s.worker,
        }
    }
}

impl DataPlane {
    pub(super) fn vdp(&self, vid: Vid) -> Result<&Vdp, ControlError> {
        self.vdps
            .get(usize::from(vid.0))
            .and_then(Option::as_deref)
            .filter(|v| !v.phase.is_deleting())
            .ok_or(ControlError::NoVdp(vid))
    }
    pub(super) fn vdp_mut(&mut self, vid: Vid) -> Result<&mut Vdp, ControlError> {
        self.shorten_not(Ways::Of(vid));
        let touched = self.changes.next();
        let v = self
            .vdps
            .get_mut(usize::from(vid.0))
            .and_then(Option::as_deref_mut)
            .filter(|v| !v.phase.is_deleting())
            .ok_or(ControlError::NoVdp(vid))?;
        v.touched = touched;
        Ok(v)
    }

    /// Makes a VDP. Its slices are reserved, its channel assigned, its mapping rules installed; or
    /// nothing of it.
    ///
    /// # Errors
    /// [`ControlError`].
    pub fn create_vdp(&mut self, spec: VdpSpec) -> Result<(), ControlError> {
        if spec.path == Path::Slow {
            self.refuse_slow(spec.vid)?;
        }
        let vid = spec.vid;
        self.check_worker(vid, spec.worker)?;
        if spec.program.is_some() && spec.worker.is_none() {
            self.refuse_program(vid)?;
        }
        let pins = self.check_pins(vid, spec.worker, &spec.mapping)?;
        if self.desk.is_some() {
            let mut spec = spec;
            let program = spec.program.take();
            self.keep_whole(&pins)?;
            let made = Recipe::of(spec);
            let done = self.everywhere(move |p| p.create_vdp(made.spec()));
            return match done {
                Ok(()) if program.is_some() => self.set_program(vid, program),
                Ok(()) => Ok(()),
                Err(e) => {
                    self.let_go();
                    Err(e)
                }
            };
        }
        if vid.0 == 0 || vid.0 == u16::MAX {
            return Err(ControlError::BadVid(vid));
        }
        if self.vdps.get(usize::from(vid.0)).is_some_and(Option::is_some) {
            return Err(ControlError::VdpExists(vid));
        }
        self.check_ports(&spec.ports)?;
        self.check_channel(vid, spec.channel)?;
        self.check_cpu(vid, spec.cpu_permille)?;
        self.shorten_not(Ways::All);
        self.tcam.reserve(Part::Mapping, owner(vid), entries(spec.mapping.len()))?;
        let done = self
            .tcam
            .reserve(Part::Action, owner(vid), entries(spec.action_entries))
            .map_err(ControlError::from)
            .and_then(|_| {
                for r in &spec.mapping {
                    self.mapping.add(vid, r, &spec.fields)?;
                    self.charge(Part::Mapping, vid)?;
                }
                self.insert_vdp(spec)
            });
        match done {
            Ok(()) => self.pins.extend(pins),
            Err(_) => {
                self.mapping.remove_all(vid);
                self.tcam.release(owner(vid));
            }
        }
        done
    }

    pub(super) fn check_ports(&self, ports: &[(PortNo, PortId)]) -> Result<(), ControlError> {
        for (i, (no, id)) in ports.iter().enumerate() {
            if self.ports.get(usize::from(id.0)).is_none_or(Option::is_none) {
                return Err(ControlError::NoPort(*id));
            }
            if ports.iter().take(i).any(|(n, p)| n == no || p == id) {
                return Err(ControlError::PortTwice(*no));
            }
        }
        Ok(())
    }

    pub(super) fn check_channel(&self, vid: Vid, wanted: Option<u8>) -> Result<(), ControlError> {
        let Some(channel) = wanted else { return Ok(()) };
        let refuse = |why| Err(ControlError::Channel { channel, vid, why });
        match self.channels.get(usize::from(channel)) {
            None => refuse("there is no such channel"),
            Some(c) if c.dedicated == Dedicated::No => refuse("it is the shared one"),
            Some(c) if c.owner.is_some_and(|o| o != vid) => refuse("another VDP has it"),
            Some(_) => Ok(()),
        }
    }

    pub(super) fn check_cpu(&self, vid: Vid, permille: u16) -> Result<(), ControlError> {
        let others: u32 = self
            .vdps
            .iter()
            .flatten()
            .filter(|v| v.vid != vid)
            .map(|v| u32::from(v.cpu.guarantee_permille))
            .sum();
        if permille > 0 {
            let why = "what other workers do for it is not counted";
            self.takes_one_worker(vid, "a guaranteed part of a worker's cycles", why)?;
        }
        let sum = others + u32::from(permille);
        if sum > 1000 { Err(ControlError::CpuShare(sum)) } else { Ok(()) }
    }

    pub(super) fn insert_vdp(&mut self, spec: VdpSpec) -> Result<(), ControlError> {
        let vid = spec.vid;
        let shared = self.channels.len().saturating_sub(1) as u8;
        let channel = spec.channel.unwrap_or(shared);
        let mut v = Vdp {
            vid,
            name: spec.name.into(),
            phase: Phase::On(spec.path),
            fast: Tables::with_cache(self.config.flow_caching),
            default: ActionResult::drop(),
            ports: Box::default(),
            port_ids: Box::default(),
            all_ids: Box::default(),
            edge: Edge::default(),
            channel: ChannelUse { channel, in_flight: 0 },
            hold: VecDeque::new(),
            counters: VdpCounters::default(),
            fields: spec.fields.clone(),
            slow_only: SlowOnly::default(),
            miss: ActionResult::drop(),
            migration: MigrationReport::default(),
            spilled: Spilled::No,
            asked: Asked::new(&spec.default),
            packet_outs_lost: 0,
            worked: 0,
            action_limit: spec.action_limit,
            away: None,
            brought: None,
            heir: None,
            queued: 0,
            touched: self.changes.layout(),
            spent: crate::cpu_share::Spent::default(),
            cpu: crate::cpu_share::Usage::default(),
            worker: spec.worker.and_then(|w| u8::try_from(w).ok()),
        };
        v.cpu.guarantee_permille = spec.cpu_permille;
        v.set_ports(spec.ports);
        v.default = compile::compile_default(&spec.default, &v)?;
        if v.worker.is_none() {
            self.refuse_apart(vid, &v.default)?;
        }
        v.set_miss();
        let default = v.default.clone();
        let mut slot = Slot::new(spec.program, v.fast.slow_side());
        slot.fields = spec.fields;
        slot.default = default;
        let i = usize::from(vid.0);
        if self.vdps.len() <= i {
            self.vdps.resize_with(i + 1, || None);
        }
        for id in &v.port_ids {
            if let Some(Some(p)) = self.ports.get_mut(usize::from(id.0)) {
                p.tx.set_share(vid, PortShare::default(), self.now);
            }
        }
        self.vdps[i] = Some(Box::new(v));
        self.make_room_for_vdps();
        self.repromise(0, spec.cpu_permille);
        if let Some(c) = self.channels.get_mut(usize::from(channel)) {
            if c.dedicated == Dedicated::Yes {
                c.owner = Some(vid);
            }
            c.ring.post(Box::new(move |s| s.put_slot(vid, slot)));
        }
        self.tell_ports(vid)?;
        if spec.path == Path::Slow && vid.0 != 0 {
            self.copy_to_slow(vid)?;
        }
        Ok(())
    }

    /// Deletes a VDP: its rules and mapping go now, its VID is free when its last frame has left.
    ///
    /// # Errors
    /// No such VDP, or the default one.
    pub fn delete_vdp(&mut self, vid: Vid) -> Result<(), ControlError> {
        if self.desk.is_some() {
            self.everywhere(move |p| p.delete_vdp(vid))?;
            self.let_go();
            return Ok(());
        }
        if vid.0 == 0 {
            return Err(ControlError::DefaultVdp);
        }
        self.vdp(vid)?;
        self.shorten_not(Ways::All);
        self.changes.layout();
        self.mapping.remove_all(vid);
        self.repin();
        self.subscribers.forget(vid);
        let (hold, channel, was, promised) = {
            let until = self.now + LAST_FRAMES;
            let v = self.vdp_mut(vid)?;
            let was = std::mem::replace(&mut v.phase, Phase::Deleting { until });
            // What it was promised can be promised to others at once.
            let promised = std::mem::take(&mut v.cpu.guarantee_permille);
            v.fast = Tables::default();
            v.counters.dropped.add_n(DropReason::VdpGone, v.hold.len() as u64);
            (std::mem::take(&mut v.hold), v.channel.channel, was, promised)
        };
        self.repromise(promised, 0);
        self.migrating -= usize::from(was.is_on_its_way());
        self.deleting += 1;
        for h in hold {
            self.pool.free(h.frame);
        }
        self.drop_parked(vid);
        // A rate that is gone with its VDP must not keep it here for minutes.
        self.ports.iter_mut().flatten().for_each(|p| p.tx.unlimit(vid));
        if let Some(c) = self.channels.get_mut(usize::from(channel)) {
            if c.owner == Some(vid) {
                c.owner = None;
            }
            c.ring.post(Box::new(move |s| {
                s.take_slot(vid);
            }));
        }
        Ok(())
    }

    /// Has a VDP's counters go to another when it is deleted: nothing that was counted is forgotten.
    ///
    /// # Errors
    /// No such VDP.
    pub fn bequeath(&mut self, vid: Vid, heir: Vid) -> Result<(), ControlError> {
        if self.desk.is_some() {
            return self.everywhere(move |p| p.bequeath(vid, heir));
        }
        self.vdp(heir)?;
        self.vdp_mut(vid)?.heir = Some(heir);
        Ok(())
    }

    /// Ends a VDP's frames that wait for room in its channel: another VDP may have its id next.
    fn drop_parked(&mut self, vid: Vid) {
        let mut dropped = 0;
        for p in self.ports.iter_mut().flatten() {
            for _ in 0..p.parked.len() {
                match p.parked.pop_front() {
                    Some(f) if f.vid == vid => {
                        self.pool.free(f.frame);
                        dropped += 1;
                    }
                    other => p.parked.extend(other),
                }
            }
        }
        if let Some(Some(v)) = self.vdps.get_mut(usize::from(vid.0)) {
            v.counters.dropped.add_n(DropReason::VdpGone, dropped);
        }
    }

    /// Gives a VDP another name.
    ///
    /// # Errors
    /// No such VDP.
    pub fn set_name(&mut self, vid: Vid, name: &str) -> Result<(), ControlError> {
        if self.desk.is_some() {
            let name = name.to_owned();
            return self.everywhere(move |p| p.set_name(vid, &name));
        }
        self.changes.layout();
        self.vdp_mut(vid)?.name = name.into();
        Ok(())
    }

    /// Gives a VDP another set of ports. Rules that send to a port it no longer has lose their
    /// frames there, counted.
    ///
    /// # Errors
    /// [`ControlError`].
    pub fn set_ports(
        &mut self,
        vid: Vid,
        ports: Vec<(PortNo, PortId)>,
    ) -> Result<(), ControlError> {
        if self.desk.is_some() {
            return self.everywhere(move |p| p.set_ports(vid, ports.clone()));
        }
        self.check_ports(&ports)?;
        let before = self.vdp(vid)?.ports.clone();
        let old = self.vdp(vid)?.port_ids.clone();
        let now = self.now;
        for (_, id) in ports.iter().filter(|(_, id)| !old.contains(id)) {
            self.with_tx(*id, |tx, _, _| tx.set_share(vid, PortShare::default(), now));
        }
        for id in old.iter().filter(|id| !ports.iter().any(|(_, p)| p == *id)) {
            self.with_tx(*id, |tx, _, a| tx.remove_share(vid, a));
        }
        self.changes.layout();
        self.subscribers.ports(vid, &before, &ports);
        self.vdp_mut(vid)?.set_ports(ports);
        self.lead_back(vid);
        self.tell_ports(vid)
    }

    /// Tells the VDP's slow path its ports.
    pub(super) fn tell_ports(&mut self, vid: Vid) -> Result<(), ControlError> {
        let v = self.vdp(vid)?;
        let slot_port = |no: PortNo, id: PortId| {
            let p = self.ports.get(usize::from(id.0))?.as_ref()?;
            let flags = v.edge.flags(id);
            let floods = !flags.any_of(PortFlags::NO_FLOOD);
            let Caps { max_frame_bytes, ip_bytes, .. } = p.tx.device.caps();
            let [max_frame_bytes, ip_bytes] =
                [max_frame_bytes, ip_bytes].map(|n| u32::try_from(n).unwrap_or(u32::MAX));
            let up = p.tx.is_up() && flags.may_send();
            let port = ProgramPort { no, up, floods, max_frame_bytes, ip_bytes };
            Some(SlotPort { port, id, flags })
        };
        let ports: Vec<SlotPort> =
            v.ports.iter().filter_map(|(no, id)| slot_port(*no, *id)).collect();
        self.post(vid, move |slot| slot.set_ports(ports))
    }

    /// Runs `f` on the VDP's slow-path slot, before any frame that comes after this call.
    pub(crate) fn post(
        &self,
        vid: Vid,
        f: impl FnOnce(&mut Slot) + Send + 'static,
    ) -> Result<(), ControlError> {
        let channel = self.vdp(vid)?.channel.channel;
        if let Some(c) = self.channels.get(usize::from(channel)) {
            c.post(vid, f);
        }
        Ok(())
    }

    /// Sets what a frame without a rule gets.
    ///
    /// # Errors
    /// [`ControlError`].
    pub fn set_default(&mut self, vid: Vid, actions: &[Action]) -> Result<(), ControlError> {
        if self.desk.is_some() {
            let actions = actions.to_vec();
            return self.everywhere(move |p| p.set_default(vid, &actions));
        }
        let r = compile::compile_default(actions, self.vdp(vid)?)?;
        self.refuse_apart(vid, &r)?;
        let v = self.vdp_mut(vid)?;
        for id in r.meters() {
            v.fast.meters.get_mut(id).into_iter().for_each(Meter::is_asked_by_default);
        }
        v.default = r.clone();
        v.asked.default = Written::new(actions);
        v.set_miss();
        self.post(vid, move |s| s.default = r)
    }
}
