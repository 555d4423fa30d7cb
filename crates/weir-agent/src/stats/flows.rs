//! Statistics of flows, one by one and summed up (1.3 §7.3.5.2 and 3): some hundred in a call of the
//! data plane, which carries frames in between.

use super::project::shown;
use crate::apply::{counts, duration};
use crate::flow_mod::CHUNK;
use crate::flows::{Filter, Selection};
use crate::matches;
use crate::outbox::ConnId;
use crate::plane::Plane;
use crate::request::{Asker, Cx, Stop};
use crate::switch::Switch;
use weir_dataplane::{RuleRef, Usage};
use weir_openflow::model::{
    Aggregate, ErrorCode, FlowFilter, FlowStats, GROUP_ANY, Message, Part, StatsReply, TABLE_ALL,
    TABLE_MAX, Version,
};

/// 1.0's emergency table, which is empty (§5.3.5).
const EMERGENCY: u8 = TABLE_MAX;

/// An answer that is told part by part, so that neither the data plane is held up nor all of it
/// waits in memory.
#[derive(Debug)]
pub(crate) struct Walk {
    pub who: Asker,
    which: Selection,
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
    ) -> Result<Selection, Stop> {
        let old = who.version == Version::V10;
        if old && f.table == EMERGENCY && self.state.tables <= EMERGENCY {
            return Ok(Vec::new().into());
        }
        if f.table != TABLE_ALL && f.table >= self.state.tables {
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
        self.select(filter, &f.matcher, cx)
    }

    fn usage<P: Plane>(
        &mut self,
        which: &[RuleRef],
        cx: &mut Cx<'_, P>,
    ) -> Result<Vec<Usage>, Stop> {
        let (vid, refs) = (self.config.vid, which.to_vec());
        Ok(cx.plane.with(move |dp| {
            let mut out = Vec::with_capacity(refs.len());
            // The VDP is there as long as its switch; else nothing was used.
            let _ = dp.usage(vid, &refs, &mut out);
            out
        })?)
    }

    pub(super) fn flow_stats<P: Plane>(
        &mut self,
        who: &Asker,
        mut f: FlowFilter,
        cx: &mut Cx<'_, P>,
    ) -> Result<(), Stop> {
        let mut which = self.asked_for(who, &mut f, cx)?;
        let ahead = which.next(&self.flows, CHUNK);
        let walk = Walk { who: *who, which, ahead };
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
        walk.ahead = walk.which.next(&self.flows, CHUNK);
        // Flows that went meanwhile are left out.
        chunk.retain(|at| self.flows.get(*at).is_some());
        let used = self.usage(&chunk, cx)?;
        let of = |(i, used): (&RuleRef, Usage)| self.one(&walk.who, *i, used, cx);
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
    fn one<P>(&self, who: &Asker, at: RuleRef, used: Usage, cx: &Cx<'_, P>) -> Option<FlowStats> {
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
        let mut which = self.asked_for(who, &mut f, cx)?;
        let mut sum = Aggregate::default();
        loop {
            let chunk = which.next(&self.flows, CHUNK);
            if chunk.is_empty() {
                return Ok(StatsReply::Aggregate(sum));
            }
            let used = self.usage(&chunk, cx)?;
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
