//! Statistics of flows, one by one and summed up (1.3 §7.3.5.2 and 3): some hundred in a call of the
//! data plane, which carries frames in between.

use super::project::shown;
use crate::apply::{counts, duration};
use crate::flow_mod::CHUNK;
use crate::flows::Filter;
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
    which: Vec<u32>,
    at: usize,
}

impl Switch {
    /// The flows that a filter means.
    fn asked_for(&self, who: &Asker, f: &mut FlowFilter) -> Result<Vec<u32>, ErrorCode> {
        let old = who.version == Version::V10;
        if old && f.table == EMERGENCY && self.state.tables <= EMERGENCY {
            return Ok(Vec::new());
        }
        if f.table != TABLE_ALL && f.table >= self.state.tables {
            return Err(ErrorCode::BadTableId);
        }
        matches::check(&mut f.matcher, who.version)?;
        let filter = Filter {
            table: f.table,
            cookie: f.cookie,
            cookie_mask: if old { 0 } else { f.cookie_mask },
            out_port: f.out_port,
            out_group: if old { GROUP_ANY } else { f.out_group },
        };
        Ok(self.flows.select(&filter, &f.matcher))
    }

    fn usage<P: Plane>(&mut self, which: &[u32], cx: &mut Cx<'_, P>) -> Result<Vec<Usage>, Stop> {
        let refs: Vec<RuleRef> =
            which.iter().filter_map(|i| Some(self.flows.get(*i)?.rule)).collect();
        let vid = self.config.vid;
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
        let which = self.asked_for(who, &mut f)?;
        let walk = Walk { who: *who, which, at: 0 };
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
        let end = walk.which.len().min(walk.at + CHUNK);
        // Flows that went meanwhile are left out.
        let chunk: Vec<u32> = walk.which[walk.at..end]
            .iter()
            .copied()
            .filter(|i| self.flows.get(*i).is_some())
            .collect();
        walk.at = end;
        let used = self.usage(&chunk, cx)?;
        let of = |(i, used): (&u32, Usage)| self.one(&walk.who, *i, used, cx);
        let body = StatsReply::Flow(chunk.iter().zip(used).filter_map(of).collect());
        let more = if end < walk.which.len() { Part::More } else { Part::Last };
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
    fn one<P>(&self, who: &Asker, i: u32, used: Usage, cx: &Cx<'_, P>) -> Option<FlowStats> {
        let f = self.flows.get(i)?;
        let b = self.flows.behaviours.get(f.behaviour)?;
        let matcher = self.flows.match_of(f);
        let instructions = shown(&b.instructions, &matcher, who.version)?;
        let (packets, bytes) = counts(f.flags(), used);
        let (duration_sec, duration_nsec) = duration(cx.now, f.created);
        Some(FlowStats {
            table: f.table,
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
        let which = self.asked_for(who, &mut f)?;
        let mut sum = Aggregate {
            flows: u32::try_from(which.len()).unwrap_or(u32::MAX),
            ..Aggregate::default()
        };
        for chunk in which.chunks(CHUNK) {
            let used = self.usage(chunk, cx)?;
            for (i, u) in chunk.iter().zip(used) {
                let Some(f) = self.flows.get(*i) else { continue };
                // Flows that are not counted add nothing.
                let (packets, bytes) = counts(f.flags(), u);
                sum.packets += if packets == u64::MAX { 0 } else { packets };
                sum.bytes += if bytes == u64::MAX { 0 } else { bytes };
            }
        }
        Ok(StatsReply::Aggregate(sum))
    }
}
