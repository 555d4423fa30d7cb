//! A VDP's way to another data plane and back: the requests; `plane/away` carries them out.
//!
//! Room: as the rest of `control`. A VDP whose frames another data plane processes stays here with its
//! ports: it hands on what comes in by each of them by a further port, its partner, and sends by it what
//! comes back there. Whoever asks for this has made the other data plane ready before.

use super::*;
use crate::action::Vid;
use crate::carried::{Away, AwayView, Brought, Carried, Gate, Handed};
use crate::counters::Usage;
use crate::forwarding::PortShare;
use crate::group::chains::Chains;
use crate::mapping::MappingRule;
use crate::matching::Tables;
use crate::plane::DataPlane;
use crate::vdp::{Path, Phase, Spilled};
use weir_classify::{Field, Match, Part};
use weir_packet::{DropReason, Nanos, PortId};

/// Why a VDP can't go by a port.
const TOO_SHORT: &str = "has a port that takes longer frames than its way to the other data plane: give that \
                         a larger MTU, or the port a smaller one";

/// How full a meter's buckets are.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Gauge {
    /// Each band's bucket, in billionths of the meter's unit.
    pub levels: Vec<u64>,
    /// What it got, and what each band decided.
    pub counters: MeterCounters,
}

/// What has passed a VDP.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Passed {
    /// Frames that have come in, since it was made here.
    pub received: u64,
    /// Frames that have left by its ports.
    pub forwarded: u64,
    /// Whether some are inside, or wait at its ports.
    pub under_way: bool,
}

impl DataPlane {
    /// Sends a VDP away: as soon as none of its frames is under way here, what comes in by a port of it
    /// leaves by that port's partner. Frames are held meanwhile, for at most `limit`; one that can't leave by
    /// then stays. `partners`, in the order of its ports, are no other VDP's, and take frames as long as
    /// its ports do.
    ///
    /// # Errors
    /// [`ControlError`].
    pub fn send_away(
        &mut self,
        vid: Vid,
        partners: &[PortId],
        limit: Nanos,
    ) -> Result<(), ControlError> {
        if vid.0 == 0 {
            return Err(ControlError::DefaultVdp);
        }
        let why = "frames that other workers have would not be waited for";
        self.takes_one_worker(vid, "a move to another data plane", why)?;
        let v = self.vdp(vid)?;
        let refuse = |why| Err(ControlError::Elsewhere { vid, why });
        let back = match v.phase {
            Phase::On(path) => path,
            Phase::Away => return refuse("is away already: bring it back first"),
            _ => return Err(ControlError::Migrating(vid)),
        };
        if partners.len() != v.port_ids.len() {
            return refuse("needs one further port for each of its ports, no more and no fewer");
        }
        let pairs: Vec<(PortId, PortId)> =
            v.port_ids.iter().copied().zip(partners.iter().copied()).collect();
        for (i, (near, far)) in pairs.iter().enumerate() {
            if self.longest(*far)? < self.longest(*near)? {
                return refuse(TOO_SHORT);
            }
            let own = pairs.iter().any(|(near, _)| near == far);
            if own || pairs.iter().take(i).any(|(_, f)| f == far) {
                return refuse(
                    "would hand frames on by a port that is its own, or by one port twice",
                );
            }
        }
        // What an attempt that was given up has left.
        self.end_away(vid)?;
        for (i, far) in partners.iter().enumerate() {
            if let Err(e) = self.add_mapping(vid, &from(*far)) {
                partners.iter().take(i).for_each(|f| _ = self.remove_mapping(vid, &from(*f)));
                return Err(e);
            }
        }
        let now = self.now;
        for far in partners {
            self.with_tx(*far, |tx, _, _| tx.set_share(vid, PortShare::default(), now));
        }
        let deadline = now + limit;
        let v = self.vdp_mut(vid)?;
        let nos = v.ports.iter().map(|(no, _)| *no).collect();
        let away = Away {
            pairs,
            nos,
            gone: Handed::default(),
            back,
            left: Carried::default(),
            out: None,
            begun: Handed::default(),
            expected: None,
            back_with: None,
            gate: Gate::Shut,
            told: AwayView::default(),
        };
        v.away = Some(Box::new(away));
        v.phase = Phase::Leaving { deadline, since: now };
        v.hold.reserve(crate::plane::HOLD_FRAMES);
        self.migrating += 1;
        self.lead_back(vid);
        Ok(())
    }

    /// The longest frames that a port takes.
    fn longest(&self, id: PortId) -> Result<usize, ControlError> {
        let port = self.ports.get(usize::from(id.0)).and_then(Option::as_ref);
        let longest =
            port.map(|p| p.tx.device.caps().max_frame_bytes.min(self.pool.max_frame_bytes()));
        longest.ok_or(ControlError::NoPort(id))
    }

    /// What comes back to a VDP that is away leaves by its own ports, as they are now.
    pub(super) fn lead_back(&mut self, vid: Vid) {
        let Ok(Some(a)) = self.vdp(vid).map(|v| &v.away) else { return };
        for (near, far) in a.pairs.clone() {
            if let Some(p) = self.ports.get_mut(usize::from(far.0)).and_then(Option::as_mut) {
                p.back_by = Some(near);
            }
        }
    }

    /// Has a VDP that is away hand on by another port what comes in by the `nth` of its own, and take back what comes by that:
    /// the one it had has gone. What passed that one counts on. For one that is not away there is nothing to do.
    ///
    /// # Errors
    /// [`ControlError`]; frames of the port end there then, counted.
    pub fn replace_partner(
        &mut self,
        vid: Vid,
        nth: usize,
        far: PortId,
    ) -> Result<(), ControlError> {
        let Some(a) = &self.vdp(vid)?.away else { return Ok(()) };
        let Some(&(near, old)) = a.pairs.get(nth) else { return Ok(()) };
        if old == far {
            return Ok(());
        }
        let refuse = |why| Err(ControlError::Elsewhere { vid, why });
        if a.pairs.iter().any(|(n, f)| *n == far || *f == far) {
            return refuse("would hand frames on by a port that is its own, or by one port twice");
        }
        // Its own port may have gone, too.
        if self.longest(near).is_ok_and(|most| self.longest(far).is_ok_and(|f| f < most)) {
            return refuse(TOO_SHORT);
        }
        let _ = self.remove_mapping(vid, &from(old));
        self.add_mapping(vid, &from(far))?;
        let now = self.now;
        self.with_tx(far, |tx, _, _| tx.set_share(vid, PortShare::default(), now))
            .ok_or(ControlError::NoPort(far))?;
        if let Some(pair) = self.vdp_mut(vid)?.away.as_mut().and_then(|a| a.pairs.get_mut(nth)) {
            pair.1 = far;
        }
        self.lead_back(vid);
        Ok(())
    }

    /// Counts what is handed on by a VDP that is away, and what comes back, from now on: it is another data plane that has
    /// it now, as it was when it left.
    ///
    /// # Errors
    /// It is not away.
    pub fn hand_on_anew(&mut self, vid: Vid) -> Result<(), ControlError> {
        if self.vdp(vid)?.phase != Phase::Away {
            return Err(ControlError::Elsewhere { vid, why: "is not away" });
        }
        let begun = self.handed_from_begin(vid);
        if let Some(a) = &mut self.vdp_mut(vid)?.away {
            a.begun = begun;
        }
        Ok(())
    }

    /// Holds a VDP's frames, so that those that were handed on can all come back, for at most
    /// `limit`; then it is away again. Says how many were handed on.
    ///
    /// # Errors
    /// It is not away.
    pub fn hold_for_return(&mut self, vid: Vid, limit: Nanos) -> Result<Handed, ControlError> {
        let (now, v) = (self.now, self.vdp_mut(vid)?);
        if v.phase != Phase::Away {
            return Err(ControlError::Elsewhere { vid, why: "is not away" });
        }
        v.phase = Phase::Coming { deadline: now + limit, since: now };
        self.migrating += 1;
        Ok(self.handed(vid))
    }

    /// Has a VDP whose frames are held process them here again, on a path, as soon as `came` of them
    /// have come back. Its rules are those that it has here.
    ///
    /// # Errors
    /// Its frames are not held, or no longer.
    pub fn bring_back(&mut self, vid: Vid, path: Path, came: u64) -> Result<(), ControlError> {
        let v = self.vdp_mut(vid)?;
        if !matches!(v.phase, Phase::Coming { .. }) {
            let why = "is away, and none of its frames is held: its time was up, try again";
            return Err(ControlError::Elsewhere { vid, why });
        }
        if let Some(a) = &mut v.away {
            (a.back, a.expected) = (path, Some(came));
        }
        if path == Path::Slow {
            self.copy_to_slow(vid)?;
        }
        Ok(())
    }

    /// Has a VDP whose frames are held go on being away.
    ///
    /// # Errors
    /// No such VDP.
    pub fn leave_away(&mut self, vid: Vid) -> Result<(), ControlError> {
        let v = self.vdp(vid)?;
        let shut = v.away.as_ref().is_some_and(|a| a.gate == Gate::Shut);
        if matches!(v.phase, Phase::Coming { .. }) && shut {
            self.turn_away(vid);
        }
        Ok(())
    }

    /// Forgets how a VDP was away: its further ports are no longer its own. For one that is here. What was counted elsewhere has been
    /// [laid beside](Self::carry) its own by now, as far as it is known: what is missing then was lost on its way or there, and is counted so.
    ///
    /// # Errors
    /// It is away.
    pub fn end_away(&mut self, vid: Vid) -> Result<(), ControlError> {
        if self.vdp(vid)?.is_leaving() {
            return Err(ControlError::Elsewhere { vid, why: "is away: bring it back first" });
        }
        self.count_lost_elsewhere(vid)?;
        let Some(a) = self.vdp_mut(vid)?.away.take() else { return Ok(()) };
        for (_, far) in a.pairs {
            // It may have gone with its port.
            let _ = self.remove_mapping(vid, &from(far));
            self.with_tx(far, |tx, _, a| tx.remove_share(vid, a));
            if let Some(p) = self.ports.get_mut(usize::from(far.0)).and_then(Option::as_mut) {
                p.back_by = None;
            }
        }
        Ok(())
    }

    fn count_lost_elsewhere(&mut self, vid: Vid) -> Result<(), ControlError> {
        let v = self.vdp(vid)?;
        if v.away.as_ref().is_none_or(|a| a.back_with.is_none()) {
            return Ok(());
        }
        let Some(view) = self.vdp_view(vid) else { return Ok(()) };
        let c = view.everywhere.unwrap_or(view.counters);
        let came = c.received.frames + c.generated + c.cloned;
        let ended = c.forwarded.frames + c.consumed + c.dropped.total() + view.held as u64;
        if let Some(b) = &mut self.vdp_mut(vid)?.brought {
            let given = &mut b.given.counters;
            given.dropped.add_n(DropReason::LostElsewhere, came.saturating_sub(ended));
            // A data plane that has gone had made more of them than it could tell.
            given.cloned += ended.saturating_sub(came);
        }
        Ok(())
    }

    /// How a VDP's way went, and how many frames were handed on; `None` where it never left.
    ///
    /// # Errors
    /// No such VDP.
    pub fn away(&self, vid: Vid) -> Result<Option<(AwayView, Handed)>, ControlError> {
        let v = self.vdp(vid)?;
        Ok(v.away.as_ref().map(|a| (a.told, self.handed(vid))))
    }

    /// What a VDP has counted, wherever it was; while it is away, when it left.
    ///
    /// # Errors
    /// No such VDP.
    pub fn carried(&self, vid: Vid) -> Result<Carried, ControlError> {
        let v = self.vdp(vid)?;
        Ok(match (&v.away, v.phase) {
            (Some(a), Phase::Away | Phase::Coming { .. }) => a.left.clone(),
            _ => v.carried_whole(),
        })
    }

    /// What has passed a VDP whose frames come from another data plane, all of which leave by ports of its
    /// own.
    ///
    /// # Errors
    /// No such VDP.
    pub fn passed(&self, vid: Vid) -> Result<Passed, ControlError> {
        let v = self.vdp(vid)?;
        let c = v.tally();
        Ok(Passed {
            received: c.received.frames,
            forwarded: c.forwarded.frames,
            under_way: v.held() > 0 || v.queued > 0 || self.parked_of(vid),
        })
    }

    fn refuse_counts(&self, vid: Vid) -> Result<(), ControlError> {
        let why = "each would add what was counted elsewhere";
        self.takes_one_worker(vid, "counters of another data plane", why)
    }

    /// Lays what a VDP had counted elsewhere beside what it has counted here: since it was made, or
    /// since it is back.
    ///
    /// # Errors
    /// No such VDP.
    pub fn carry(&mut self, vid: Vid, given: Carried) -> Result<(), ControlError> {
        self.refuse_counts(vid)?;
        let v = self.vdp_mut(vid)?;
        let back = v.away.as_ref().and_then(|a| Some((&a.left, a.back_with.as_ref()?)));
        let (given, here) = match back {
            Some((left, b)) => (b.with(left, given), b.here.clone()),
            None => (given, Carried::default()),
        };
        v.brought = Some(Box::new(Brought { given, here }));
        Ok(())
    }

    /// Adds what a rule was used for elsewhere to what it was used for here.
    ///
    /// # Errors
    /// No such VDP.
    pub fn add_usage(&mut self, vid: Vid, at: RuleRef, before: Usage) -> Result<(), ControlError> {
        self.refuse_counts(vid)?;
        let t = self.vdp_mut(vid)?.fast.tables.get_mut(usize::from(at.table));
        t.into_iter().for_each(|t| t.add_usage(at.slot, before));
        Ok(())
    }

    /// Adds what a group got elsewhere to what it got here.
    ///
    /// # Errors
    /// No such VDP.
    pub fn add_group_counters(
        &mut self,
        vid: Vid,
        id: u32,
        before: &GroupCounters,
    ) -> Result<(), ControlError> {
        self.refuse_counts(vid)?;
        let g = self.vdp_mut(vid)?.fast.groups.get_mut(id);
        g.into_iter().for_each(|g| g.add_counted(before.counted, &before.buckets));
        Ok(())
    }

    /// A meter's counters, and how full its buckets are. `None`: there is none.
    ///
    /// # Errors
    /// No such VDP.
    pub fn gauge(&self, vid: Vid, id: u32) -> Result<Option<Gauge>, ControlError> {
        let of = |m: &crate::meter::Meter| {
            let bands = m.bands().map(|(_, t)| t).collect();
            Gauge { levels: m.levels(), counters: MeterCounters { counted: m.counted(), bands } }
        };
        Ok(self.vdp(vid)?.fast.meters.get(id).map(of))
    }

    /// Adds what a meter got elsewhere to what it got here, and fills its buckets as they were there.
    ///
    /// # Errors
    /// No such VDP.
    pub fn add_gauge(&mut self, vid: Vid, id: u32, before: &Gauge) -> Result<(), ControlError> {
        let now = self.now;
        if let Some(m) = self.vdp_mut(vid)?.fast.meters.get_mut(id) {
            m.add_counted(before.counters.counted, &before.counters.bands);
            m.set_levels(&before.levels, now);
        }
        Ok(())
    }

    /// Takes all rules, groups and meters out of a VDP that is away, with their counters.
    ///
    /// # Errors
    /// It is not away.
    pub fn clear_away(&mut self, vid: Vid) -> Result<(), ControlError> {
        let caching = self.config.flow_caching;
        let v = self.vdp_mut(vid)?;
        if v.phase != Phase::Away {
            return Err(ControlError::Elsewhere { vid, why: "is not away" });
        }
        let entries = v.fast.len();
        let invalid_ttl = v.fast.invalid_ttl;
        v.fast = Tables { invalid_ttl, ..Tables::with_cache(caching) };
        v.slow_only.clear();
        v.spilled = Spilled::No;
        v.asked.groups.clear();
        v.asked.chains = Chains::default();
        v.set_miss();
        let slow = Tables { invalid_ttl, ..Tables::counted(&v.fast.slow_side()) };
        self.uncharge(Part::Action, vid, entries);
        self.post(vid, move |s| s.start_anew(slow))
    }
}

/// All frames of a port.
fn from(port: PortId) -> MappingRule {
    let matcher = Match::any().with(Field::InPort, u128::from(port.0));
    MappingRule { matcher, priority: u32::MAX }
}
