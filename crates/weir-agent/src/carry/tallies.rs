//! What a switch has counted, and the packets that it keeps: packed when its frames are past, laid onto
//! what is counted where it is now.

use super::into::Unpacking;
use super::out::age;
use super::wire::{In, Out};
use super::{CarryError, kind};
use crate::buffers::Buffered;
use crate::plane::{Plane, PlaneGone};
use crate::switch::Switch;
use weir_dataplane::{
    Carried, DataPlane, Gauge, GroupCounters, MeterCounters, PortNo, RuleRef, TableCounters, Usage,
    VdpCounters, VdpPortCounters, Vid,
};
use weir_openflow::model::Port;
use weir_packet::{DropReason, Nanos};

/// Flows whose counters are read in one call of the data plane.
const CHUNK: usize = 1024;
/// Stands for never.
const NEVER: u64 = u64::MAX;

/// How far counters are packed.
#[derive(Debug)]
pub struct Tallying {
    next: Option<RuleRef>,
    flows: u32,
    begun: Begun,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Begun {
    No,
    Yes,
}

impl Default for Tallying {
    fn default() -> Self {
        Self { next: Some(RuleRef { table: 0, slot: 0 }), flows: 0, begun: Begun::No }
    }
}

impl Switch {
    /// The next piece of what the switch has counted and of the packets that it keeps, in the order in
    /// which [`Switch::pack`] told of its flows; `None`: that was all.
    ///
    /// # Errors
    /// [`PlaneGone`].
    pub fn pack_tallies<P: Plane>(
        &self,
        t: &mut Tallying,
        now: Nanos,
        plane: &mut P,
    ) -> Result<Option<Vec<u8>>, PlaneGone> {
        let (mut out, vid) = (Out::default(), self.config.vid);
        if t.begun == Begun::No {
            t.begun = Begun::Yes;
            let groups = self.state.groups.keys().copied().collect();
            let meters = self.state.meters.keys().copied().collect();
            for (id, packet, since) in self.buffers.all() {
                out.record(kind::BUFFER, |o| {
                    o.u32(id);
                    o.u32(packet.map_or(0, |p| p.in_port.0));
                    o.u64(age(now, since));
                    o.0.extend_from_slice(packet.map_or(&[], |p| &p.frame));
                });
            }
            pack_objects(vid, groups, meters, plane, &mut out)?;
            return Ok(Some(out.0));
        }
        let Some(from) = t.next else { return Ok(None) };
        let mut all = self.flows.from(from).map(|(at, _)| at);
        let these: Vec<RuleRef> = all.by_ref().take(CHUNK).collect();
        t.next = all.next();
        if !these.is_empty() {
            pack_usage(vid, t.flows, these.clone(), plane, &mut out)?;
        }
        t.flows += u32::try_from(these.len()).unwrap_or(u32::MAX);
        if t.next.is_none() {
            out.record(kind::LAST, |o| o.u32(t.flows));
        }
        Ok(Some(out.0))
    }

    /// Takes in a piece of what [`Switch::pack_tallies`] made, in order, after all of the switch.
    ///
    /// # Errors
    /// [`CarryError`]; counters are then not whole.
    pub fn unpack_tallies<P: Plane>(
        &mut self,
        u: &mut Unpacking,
        piece: &[u8],
        now: Nanos,
        plane: &mut P,
    ) -> Result<(), CarryError> {
        let vid = self.config.vid;
        take_piece(vid, u, piece, plane, |r| {
            let (id, in_port) = (r.u32()?, Port(r.u32()?));
            let since = Nanos(now.0.saturating_sub(r.u64()?));
            let frame = r.rest().to_vec();
            let packet = (!frame.is_empty()).then_some(Buffered { in_port, frame });
            self.buffers.restore(id, packet, since);
            Ok(())
        })
    }
}

/// Writes what a VDP, its groups and its meters have counted.
pub(super) fn pack_objects<P: Plane>(
    vid: Vid,
    groups: Vec<u32>,
    meters: Vec<u32>,
    plane: &mut P,
    out: &mut Out,
) -> Result<(), PlaneGone> {
    let (carried, groups, meters) = plane.with(move |dp| {
        let g = |id: u32| (id, dp.group_counters(vid, id).unwrap_or_default());
        let m = |id: u32| (id, dp.gauge(vid, id).ok().flatten().unwrap_or_default());
        let groups: Vec<_> = groups.into_iter().map(g).collect();
        let meters: Vec<_> = meters.into_iter().map(m).collect();
        (dp.carried(vid).unwrap_or_default(), groups, meters)
    })?;
    for (id, c) in groups {
        out.record(kind::GROUP_COUNTS, |o| {
            o.u32(id);
            o.tally(c.counted);
            o.tallies(&c.buckets);
        });
    }
    for (id, g) in meters {
        out.record(kind::METER_COUNTS, |o| {
            o.u32(id);
            o.tally(g.counters.counted);
            o.tallies(&g.counters.bands);
            g.levels.iter().for_each(|n| o.u64(*n));
        });
    }
    out.record(kind::PLANE_COUNTS, |o| pack_carried(&carried, o));
    Ok(())
}

/// Writes how much rules were used, of which the first is the `from`th.
pub(super) fn pack_usage<P: Plane>(
    vid: Vid,
    from: u32,
    these: Vec<RuleRef>,
    plane: &mut P,
    out: &mut Out,
) -> Result<(), PlaneGone> {
    let (used, at) = plane.with(move |dp| {
        let mut used = Vec::with_capacity(these.len());
        // A VDP that is not there has used nothing.
        let _ = dp.usage(vid, &these, &mut used);
        (used, dp.now())
    })?;
    out.record(kind::FLOW_COUNTS, |o| {
        o.u32(from);
        for u in &used {
            o.tally(u.tally());
            let never = u.last_used == Nanos(0);
            o.u64(if never { NEVER } else { age(at, u.last_used) });
        }
    });
    Ok(())
}

/// Takes a piece of counters in; packets that are kept go to `buffer`.
pub(super) fn take_piece<P: Plane>(
    vid: Vid,
    u: &mut Unpacking,
    piece: &[u8],
    plane: &mut P,
    mut buffer: impl FnMut(&mut In<'_>) -> Result<(), CarryError>,
) -> Result<(), CarryError> {
    if !u.is_whole() || u.tallied {
        return Err(CarryError::Broken("counters out of order"));
    }
    let mut piece = In::piece(piece)?;
    while let Some((k, mut r)) = piece.record()? {
        match k {
            kind::BUFFER => buffer(&mut r)?,
            kind::GROUP_COUNTS => {
                let (id, counted) = (r.u32()?, r.tally()?);
                let c = GroupCounters { counted, buckets: r.tallies()? };
                plane.with(move |dp| dp.add_group_counters(vid, id, &c).ok())?;
            }
            kind::METER_COUNTS => {
                let (id, counted) = (r.u32()?, r.tally()?);
                let counters = MeterCounters { counted, bands: r.tallies()? };
                let mut levels = Vec::new();
                while !r.is_empty() && levels.len() < weir_dataplane::MAX_BANDS {
                    levels.push(r.u64()?);
                }
                let g = Gauge { levels, counters };
                plane.with(move |dp| dp.add_gauge(vid, id, &g).ok())?;
            }
            kind::PLANE_COUNTS => {
                let given = unpack_carried(&mut r)?;
                plane.with(move |dp| dp.carry(vid, given).ok())?;
            }
            kind::FLOW_COUNTS => unpack_usage(u, vid, &mut r, plane)?,
            kind::LAST => {
                if r.u32()? != u.counted || u.counted as usize != u.rules.len() {
                    return Err(CarryError::Broken("counters are missing"));
                }
                u.tallied = true;
            }
            _ => return Err(CarryError::Broken("a record of an unknown kind")),
        }
        r.end()?;
    }
    Ok(())
}

fn unpack_usage<P: Plane>(
    u: &mut Unpacking,
    vid: Vid,
    r: &mut In<'_>,
    plane: &mut P,
) -> Result<(), CarryError> {
    if r.u32()? != u.counted {
        return Err(CarryError::Broken("counters out of order"));
    }
    let mut these = Vec::new();
    while !r.is_empty() {
        let (t, idle) = (r.tally()?, r.u64()?);
        let at = u.rules.get(u.counted as usize).copied();
        let at = at.ok_or(CarryError::Broken("counters of flows that are not there"))?;
        these.push((at, t, idle));
        u.counted += 1;
    }
    plane.with(move |dp: &mut DataPlane| {
        let now = dp.now();
        for (at, t, idle) in these {
            // One that was used before this data plane was there was used when it began.
            let last_used = match idle {
                NEVER => Nanos(0),
                n => Nanos(now.0.saturating_sub(n).max(1)),
            };
            let used = Usage { frames: t.frames, bytes: t.bytes, last_used };
            // The VDP is there as long as its switch.
            let _ = dp.add_usage(vid, at, used);
        }
    })?;
    Ok(())
}

/// Writes what a VDP has counted.
pub(super) fn pack_carried(c: &Carried, o: &mut Out) {
    let v = &c.counters;
    o.tally(v.received);
    o.tally(v.forwarded);
    [v.generated, v.cloned, v.consumed, v.slow].into_iter().for_each(|n| o.u64(n));
    let dropped: Vec<_> = v.dropped.iter().collect();
    o.u16(u16::try_from(dropped.len()).unwrap_or(u16::MAX));
    for (why, n) in dropped {
        // By name: numbers of reasons are a version's own.
        let label = why.label().as_bytes();
        o.u8(u8::try_from(label.len()).unwrap_or(u8::MAX));
        o.0.extend_from_slice(label);
        o.u64(n);
    }
    o.u32(u32::try_from(c.ports.len()).unwrap_or(u32::MAX));
    for (no, p) in &c.ports {
        o.u32(no.0);
        o.tally(p.rx);
        o.tally(p.tx);
        o.u64(p.rx_dropped);
        o.u64(p.tx_dropped);
    }
    for t in &c.tables {
        o.u8(t.table);
        o.u64(t.lookups);
        o.u64(t.matched);
    }
}

/// Reads what a VDP had counted.
pub(super) fn unpack_carried(r: &mut In<'_>) -> Result<Carried, CarryError> {
    let mut v =
        VdpCounters { received: r.tally()?, forwarded: r.tally()?, ..VdpCounters::default() };
    (v.generated, v.cloned, v.consumed, v.slow) = (r.count()?, r.count()?, r.count()?, r.count()?);
    for _ in 0..r.u16()? {
        let n = usize::from(r.u8()?);
        let label = r.bytes(n)?;
        let n = r.count()?;
        let why = DropReason::ALL.iter().find(|w| w.label().as_bytes() == label);
        let why = *why.ok_or(CarryError::Broken("an unknown reason of drops"))?;
        if v.dropped.get(why) > 0 {
            return Err(CarryError::Broken("a reason of drops twice"));
        }
        v.dropped.add_n(why, n);
    }
    let mut ports = Vec::new();
    for _ in 0..r.u32()? {
        let no = PortNo(r.u32()?);
        let (rx, tx) = (r.tally()?, r.tally()?);
        ports
            .push((no, VdpPortCounters { rx, tx, rx_dropped: r.count()?, tx_dropped: r.count()? }));
    }
    let mut tables = Vec::new();
    while !r.is_empty() {
        let (table, lookups, matched) = (r.u8()?, r.count()?, r.count()?);
        tables.push(TableCounters { table, active: 0, lookups, matched });
    }
    Ok(Carried { counters: v, ports, tables })
}
