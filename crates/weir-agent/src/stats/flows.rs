//! Statistics of flows, one by one and summed up (1.3 §7.3.5.2 and 3): some hundred in a call of the
//! data plane, which carries frames in between.

use super::project::shown;
use crate::apply::{counts, duration};
use crate::flows::{Filter, Selection};
use crate::matches;
use crate::outbox::ConnId;
use crate::plane::Plane;
use crate::request::{Asker, Cx, Stop};
use crate::switch::Switch;
use std::ops::Range;
use weir_dataplane::{RuleRef, Tally, Usage};
use weir_openflow::model::{
    Aggregate, ErrorCode, FlowFilter, FlowStats, GROUP_ANY, Match, Message, Part, StatsReply,
    TABLE_ALL, TABLE_MAX, Version,
};

/// Flows of one part: handing a question over costs as much as reading the counters of two hundred,
/// and frames wait for no more than ten microseconds.
const TOLD: usize = 1024;

/// 1.0's emergency table, which is empty (§5.3.5).
const EMERGENCY: u8 = TABLE_MAX;

/// An answer that is told part by part, so that neither the data plane is held up nor all of it
/// waits in memory.
#[derive(Debug)]
pub(crate) struct Walk {
    pub who: Asker,
    which: Selection,
    /// What was asked: other flows may have taken the places of those that went.
    meant: Box<(Filter, Match)>,
    /// The flows to be told next.
    ahead: Vec<RuleRef>,
}

impl Switch {
    /// The flows that a filter means.
    fn asked_for<P: Plane>(
        &mut self,
        who: &Asker,
        f: &mut FlowFilter,
        cx: &mut Cx<'_, P>,
    ) -> Result<(Selection, Filter), Stop> {
        let old = who.version == Version::V10;
        let none = old && f.table == EMERGENCY && self.state.tables <= EMERGENCY;
        if !none && f.table != TABLE_ALL && f.table >= self.state.tables {
            return Err(ErrorCode::BadTableId.into());
        }
        matches::check(&mut f.matcher, who.version)?;
        let filter = Filter {
            table: f.table,
            cookie: f.cookie,
            cookie_mask: if old { 0 } else { f.cookie_mask },
            out_port: f.out_port,
            out_group: if old { GROUP_ANY } else { f.out_group },
        };
        let which =
            if none { Vec::new().into() } else { self.select(filter.clone(), &f.matcher, cx)? };
        Ok((which, filter))
    }

    /// What the frames of flows came to, in the order of the flows. All the memory that it takes is
    /// made and let go of here, so that the data plane's thread does nothing but read.
    fn tallies<P: Plane>(
        &mut self,
        which: &[RuleRef],
        cx: &mut Cx<'_, P>,
    ) -> Result<Vec<Tally>, Stop> {
        let vid = self.config.vid;
        // The VDP is there as long as its switch; else nothing was used.
        if let Some((table, slots)) = neighbours(which) {
            let mut hit = Vec::with_capacity(slots.len());
            let hit = cx.plane.with(move |dp| {
                let _ = dp.tallies(vid, table, slots, &mut hit);
                hit
            })?;
            let mut hit = hit.into_iter().peekable();
            let of = |at: &RuleRef| {
                while hit.next_if(|(slot, _)| *slot < at.slot).is_some() {}
                hit.next_if(|(slot, _)| *slot == at.slot).map_or(Tally::default(), |(_, t)| t)
            };
            return Ok(which.iter().map(of).collect());
        }
        let (refs, mut out) = (which.to_vec(), Vec::with_capacity(which.len()));
        let (_, used) = cx.plane.with(move |dp| {
            let _ = dp.usage(vid, &refs, &mut out);
            (refs, out)
        })?;
        Ok(used.iter().map(Usage::tally).collect())
    }

    pub(super) fn flow_stats<P: Plane>(
        &mut self,
        who: &Asker,
        mut f: FlowFilter,
        cx: &mut Cx<'_, P>,
    ) -> Result<(), Stop> {
        let (mut which, filter) = self.asked_for(who, &mut f, cx)?;
        let ahead = which.next(&self.flows, TOLD);
        let walk = Walk { who: *who, which, meant: Box::new((filter, f.matcher)), ahead };
        if let Some(left) = self.tell_part(walk, cx)? {
            self.walks.push(left);
        }
        Ok(())
    }

    /// Tells the next part of an answer; what is left of it after that.
    fn tell_part<P: Plane>(
        &mut self,
        mut walk: Walk,
        cx: &mut Cx<'_, P>,
    ) -> Result<Option<Walk>, Stop> {
        let mut chunk = std::mem::take(&mut walk.ahead);
        walk.ahead = walk.which.next(&self.flows, TOLD);
        // Flows that went meanwhile are left out, whatever has their places.
        let (filter, within) = &*walk.meant;
        let is_meant = |f| self.flows.is_meant(filter, within, f);
        chunk.retain(|at| self.flows.get(*at).is_some_and(is_meant));
        let used = self.tallies(&chunk, cx)?;
        let of = |(i, used): (&RuleRef, Tally)| self.one(&walk.who, *i, used, cx);
        let body = StatsReply::Flow(chunk.iter().zip(used).filter_map(of).collect());
        let more = if walk.ahead.is_empty() { Part::Last } else { Part::More };
        walk.who.reply(Message::StatsReply { more, body }, cx.out);
        Ok((more == Part::More).then_some(walk))
    }

    /// Tells another part of the first answer to a connection that is not complete.
    pub(crate) fn tell_part_of<P: Plane>(
        &mut self,
        conn: ConnId,
        cx: &mut Cx<'_, P>,
    ) -> Result<(), Stop> {
        let Some(i) = self.walks.iter().position(|w| w.who.conn == conn) else { return Ok(()) };
        let walk = self.walks.remove(i);
        if let Some(left) = self.tell_part(walk, cx)? {
            self.walks.insert(i, left);
        }
        Ok(())
    }

    /// Tells all that is left for a connection: it has asked for something else.
    pub(crate) fn tell_rest<P: Plane>(
        &mut self,
        conn: ConnId,
        cx: &mut Cx<'_, P>,
    ) -> Result<(), Stop> {
        let (mine, others) =
            std::mem::take(&mut self.walks).into_iter().partition(|w| w.who.conn == conn);
        self.walks = others;
        let mine: Vec<Walk> = mine;
        for walk in mine {
            let mut left = Some(walk);
            while let Some(walk) = left {
                left = self.tell_part(walk, cx)?;
            }
        }
        Ok(())
    }

    /// A flow as `who` can be shown it; `None` where its version has no words for it.
    fn one<P>(&self, who: &Asker, at: RuleRef, used: Tally, cx: &Cx<'_, P>) -> Option<FlowStats> {
        let f = self.flows.get(at)?;
        let b = self.flows.behaviours.get(f.behaviour)?;
        let matcher = self.flows.match_of(f);
        let instructions = shown(&b.instructions, &matcher, who.version)?;
        let (packets, bytes) = counts(f.flags(), used);
        let (duration_sec, duration_nsec) = duration(cx.now, f.created);
        Some(FlowStats {
            table: at.table,
            duration_sec,
            duration_nsec,
            priority: f.priority,
            idle_timeout: f.idle_timeout,
            hard_timeout: f.hard_timeout,
            flags: f.flags(),
            cookie: f.cookie,
            packets,
            bytes,
            matcher,
            instructions,
        })
    }

    pub(super) fn aggregate<P: Plane>(
        &mut self,
        who: &Asker,
        mut f: FlowFilter,
        cx: &mut Cx<'_, P>,
    ) -> Result<StatsReply, Stop> {
        let (mut which, _) = self.asked_for(who, &mut f, cx)?;
        let mut sum = Aggregate::default();
        loop {
            let chunk = which.next(&self.flows, TOLD);
            if chunk.is_empty() {
                return Ok(StatsReply::Aggregate(sum));
            }
            let used = self.tallies(&chunk, cx)?;
            for (at, u) in chunk.iter().zip(used) {
                let Some(f) = self.flows.get(*at) else { continue };
                // Flows that are not counted add nothing.
                let (packets, bytes) = counts(f.flags(), u);
                sum.flows = sum.flows.saturating_add(1);
                sum.packets += if packets == u64::MAX { 0 } else { packets };
                sum.bytes += if bytes == u64::MAX { 0 } else { bytes };
            }
        }
    }
}

/// The slots of a table in which rules lie together, in order: most of those between the first and
/// the last are theirs.
fn neighbours(rules: &[RuleRef]) -> Option<(u8, Range<u32>)> {
    let (first, last) = (rules.first()?, rules.last()?);
    let slots = first.slot..last.slot.checked_add(1)?;
    let close = first.table == last.table && slots.len() <= 2 * rules.len() && rules.is_sorted();
    close.then_some((first.table, slots))
}
