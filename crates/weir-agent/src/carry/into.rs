//! A packed switch, unpacked into one that is new: checked as a controller's messages are, but for ports and queues that
//! are gone. A flow or group that names them stayed where it was, and stays here.

use super::wire::In;
use super::{CarryError, FORM, kind};
use crate::apply;
use crate::fail::Miss;
use crate::flows::{Identity, NewFlow};
use crate::matches;
use crate::plane::{Plane, PlaneGone};
use crate::request::{Cx, Stop};
use crate::switch::Switch;
use crate::{dp, outbox::Outbox};
use weir_dataplane::{Absent, InvalidTtl, RuleRef};
use weir_openflow::codec::decode;
use weir_openflow::model::{
    ErrorCode, FlowCommand, Fragments, GroupCommand, Message, MeterCommand, Port, PortConfig,
    PortFeatures, Version,
};
use weir_packet::Nanos;

/// Flows that are put in in one call of the data plane.
const CHUNK: usize = 256;

/// How far a switch is unpacked.
#[derive(Debug, Default)]
pub struct Unpacking {
    begun: Begun,
    /// Where each flow's rule is, in the order in which they came.
    pub(super) rules: Vec<RuleRef>,
    /// How far the counters have come.
    pub(super) counted: u32,
    ended: bool,
    pub(super) tallied: bool,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Begun {
    #[default]
    No,
    Yes,
}

struct Arriving {
    id: Identity,
    new: NewFlow,
}

impl Unpacking {
    /// For counters of rules that are there.
    pub(super) fn of(rules: Vec<RuleRef>) -> Self {
        Self { begun: Begun::Yes, rules, ended: true, ..Self::default() }
    }
    /// Whether all but counters is there.
    pub fn is_whole(&self) -> bool {
        self.ended
    }
    /// Whether the counters are there, too.
    pub fn is_tallied(&self) -> bool {
        self.tallied
    }
    /// Flows so far.
    pub fn flows(&self) -> usize {
        self.rules.len()
    }
}

impl Switch {
    /// Takes in a piece of what [`Switch::pack`] made, in order. The switch must be new: no flows,
    /// groups and meters, and nobody connected.
    ///
    /// # Errors
    /// [`CarryError`]; the switch is then to be thrown away, with its VDP.
    pub fn unpack<P: Plane>(
        &mut self,
        u: &mut Unpacking,
        piece: &[u8],
        now: Nanos,
        plane: &mut P,
    ) -> Result<(), CarryError> {
        let (mut piece, mut out) = (In::piece(piece)?, Outbox::default());
        let mut cx = Cx { now, plane, out: &mut out };
        let mut flows = Vec::new();
        while let Some((k, mut r)) = piece.record()? {
            if (k == kind::HEAD) != (u.begun == Begun::No) || u.ended {
                return Err(CarryError::Broken("records out of order"));
            }
            match k {
                kind::HEAD => {
                    self.unpack_head(&mut r)?;
                    u.begun = Begun::Yes;
                }
                kind::SETTINGS => self.unpack_settings(&mut r, &mut cx)?,
                kind::PORT => self.unpack_port(&mut r, &mut cx)?,
                kind::METER | kind::GROUP => self.unpack_object(k, &mut r, &mut cx)?,
                kind::FLOW => {
                    flows.push(self.arriving(&mut r, now)?);
                    if flows.len() >= CHUNK {
                        self.put_flows(u, std::mem::take(&mut flows), &mut cx)?;
                    }
                }
                kind::END => {
                    self.put_flows(u, std::mem::take(&mut flows), &mut cx)?;
                    if r.u32()? as usize != u.rules.len() {
                        return Err(CarryError::Broken("flows are missing"));
                    }
                    u.ended = true;
                }
                _ => return Err(CarryError::Broken("a record of an unknown kind")),
            }
            r.end()?;
        }
        self.put_flows(u, flows, &mut cx)
    }

    fn unpack_head(&mut self, r: &mut In<'_>) -> Result<(), CarryError> {
        let form = r.u16()?;
        if form != FORM {
            return Err(CarryError::Form(form));
        }
        if r.u8()? != self.state.tables {
            return Err(CarryError::Broken("another number of tables than here"));
        }
        if self.flows.len() + self.state.groups.len() + self.state.meters.len() > 0 {
            return Err(CarryError::Broken("the switch here is not new"));
        }
        self.config.desc.serial = r.text()?;
        Ok(())
    }

    fn unpack_settings<P: Plane>(
        &mut self,
        r: &mut In<'_>,
        cx: &mut Cx<'_, P>,
    ) -> Result<(), CarryError> {
        let fragments = match r.u8()? {
            0 => Fragments::Normal,
            1 => Fragments::Drop,
            _ => return Err(CarryError::Broken("an unknown way with fragments")),
        };
        let miss = match r.u8()? {
            0 => None,
            1 => Some(Miss::Drop),
            2 => Some(Miss::Controller),
            3 => Some(Miss::Normal),
            _ => return Err(CarryError::Broken("an unknown way with misses")),
        };
        let invalid_ttl = match (r.u8()?, r.u16()?) {
            (0, _) => InvalidTtl::Drop,
            (1, len) => InvalidTtl::Controller(len),
            _ => return Err(CarryError::Broken("an unknown way with invalid TTLs")),
        };
        let generation = (r.u8()? != 0, r.u64()?);
        self.conns.set_generation(generation.0.then_some(generation.1));
        for c in &mut self.table_config {
            *c = r.u32()?;
        }
        let vid = self.config.vid;
        (self.fragments, self.invalid_ttl) = (fragments, invalid_ttl);
        self.miss = miss;
        cx.plane.with(move |plane| {
            dp::set_fragments(plane, vid, fragments);
            dp::set_invalid_ttl(plane, vid, invalid_ttl);
            if let Some(m) = miss {
                dp::set_miss(plane, vid, &m.actions());
            }
        })?;
        Ok(())
    }

    /// What controllers have set of a port. One that is away here keeps nothing.
    fn unpack_port<P: Plane>(
        &mut self,
        r: &mut In<'_>,
        cx: &mut Cx<'_, P>,
    ) -> Result<(), CarryError> {
        let (no, config) = (Port(r.u32()?), PortConfig(r.u32()? & PortConfig::KNOWN.0));
        let (advertised, age) = (PortFeatures(r.u32()?), Nanos(r.u64()?));
        let face = (r.array()?, r.text()?);
        let Some(desc) = self.state.ports.get_mut(&no) else { return Ok(()) };
        (desc.config, desc.advertised) = (config, advertised);
        (desc.mac, desc.name) = face.clone();
        crate::ports::settle_live(desc);
        self.faces.insert(no, face);
        self.state.since.insert(no, Nanos(cx.now.0.saturating_sub(age.0)));
        let vid = self.config.vid;
        cx.plane.with(move |plane| dp::set_port_config(plane, vid, no, config))?;
        Ok(())
    }

    fn unpack_object<P: Plane>(
        &mut self,
        k: u8,
        r: &mut In<'_>,
        cx: &mut Cx<'_, P>,
    ) -> Result<(), CarryError> {
        let (created, body) = message(r, cx.now)?;
        match (k, body) {
            (kind::METER, Message::MeterMod(m)) if m.command == MeterCommand::Add => {
                let id = m.id;
                self.meter_mod(m, cx).map_err(|e| stopped(format!("meter {id}"), e))?;
                if let Some(m) = self.state.meters.get_mut(&id) {
                    m.created = created;
                }
                Ok(())
            }
            (kind::GROUP, Message::GroupMod(m)) if m.command == GroupCommand::Add => {
                let id = m.id;
                self.group_mod(m, Absent::Kept, cx)
                    .map_err(|e| stopped(format!("group {id}"), e))?;
                if let Some(g) = self.state.groups.get_mut(&id) {
                    g.created = created;
                }
                Ok(())
            }
            _ => Err(CarryError::Broken("a message of another kind than its record")),
        }
    }

    /// A flow that is to be put in, checked.
    fn arriving(&mut self, r: &mut In<'_>, now: Nanos) -> Result<Arriving, CarryError> {
        const OTHER: CarryError = CarryError::Broken("a message of another kind than its record");
        let (created, first) = message(r, now)?;
        let Message::FlowMod(mut m) = first else { return Err(OTHER) };
        if !r.is_empty() {
            let Message::FlowMod(does) = body(Version::V10, r)? else { return Err(OTHER) };
            m.instructions = does.instructions;
        }
        if m.command != FlowCommand::Add {
            return Err(CarryError::Broken("a flow that is not added"));
        }
        let what = format!("flow of table {}, priority {}", m.table, m.priority);
        let refused = |code| stopped(what.clone(), Stop::Refused(code));
        self.check_head(Version::V13, &m, false).map_err(refused)?;
        matches::check(&mut m.matcher, Version::V13).map_err(refused)?;
        let behaviour = self.behaviour(&m, Absent::Kept).map_err(refused)?;
        let new = NewFlow {
            cookie: m.cookie,
            created,
            behaviour,
            idle_timeout: m.idle_timeout,
            hard_timeout: m.hard_timeout,
            flags: m.flags,
        };
        Ok(Arriving { id: self.flows.identity(m.table, m.priority, &m.matcher), new })
    }

    fn put_flows<P: Plane>(
        &mut self,
        u: &mut Unpacking,
        all: Vec<Arriving>,
        cx: &mut Cx<'_, P>,
    ) -> Result<(), CarryError> {
        if all.is_empty() {
            return Ok(());
        }
        let done = self.with_flows(cx, move |dp, flows, set, _| {
            let mut spec = apply::blank();
            let mut rules = Vec::with_capacity(all.len());
            for Arriving { id, new } in all {
                if flows.len() >= set.max_flows as usize {
                    return Err(ErrorCode::FlowTableFull);
                }
                let (table, before) = (id.table, flows.len());
                spec.matcher = flows.keys(&id);
                (spec.priority, spec.cookie) = (id.priority.into(), new.cookie);
                apply::set_actions(&mut spec, flows, new.behaviour);
                let placed = dp.place_naming(set.vid, table, &spec, set.placement, Absent::Kept);
                let (_, rule) = placed.map_err(apply::code_of)?;
                flows.insert(rule, id, new);
                rules.push(rule);
                if flows.len() == before {
                    // The same flow twice.
                    return Err(ErrorCode::FlowOverlap);
                }
            }
            Ok(rules)
        });
        let rules = done
            .map_err(|e| stopped("a flow".to_owned(), e))?
            .map_err(|c| stopped("a flow".to_owned(), Stop::Refused(c)))?;
        u.rules.extend(rules);
        Ok(())
    }
}

fn stopped(what: String, e: Stop) -> CarryError {
    match e {
        Stop::Refused(code) => CarryError::Refused { what, code },
        Stop::Gone => CarryError::Gone(PlaneGone),
    }
}

/// When it was made by the clock here, and the message that makes it.
fn message(r: &mut In<'_>, now: Nanos) -> Result<(Nanos, Message), CarryError> {
    let created = Nanos(now.0.saturating_sub(r.u64()?));
    Ok((created, body(Version::V13, r)?))
}

fn body(version: Version, r: &mut In<'_>) -> Result<Message, CarryError> {
    let n = r.u32()? as usize;
    let msg = decode(version, r.bytes(n)?);
    msg.map(|m| m.body).map_err(|_| CarryError::Broken("a message that can't be read"))
}
