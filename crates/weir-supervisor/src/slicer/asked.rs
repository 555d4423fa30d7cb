//! Statistics and descriptions: asked in a slice's name, answered with what is the slice's.
//!
//! Room: between `requests`, `replies` and the books. Flows are told as the slice asked for them, with the
//! counters of all their rules; what can't be told for one slice alone is told as not counted (all ones).

use super::book::{FlowId, Selection};
use super::flows::{cookies_of, owner};
use super::ledger::{Ask, Asker, Seen, Sum, What};
use super::slice::Slice;
use super::switch::{Out, Switch};
use core::time::Duration;
use std::collections::HashMap;
use weir_openflow::model::{
    Aggregate, ErrorCode, FlowFilter, FlowStats, GROUP_ALL, GroupDesc, METER_ALL, Message, Part,
    Port, QUEUE_ALL, QueueDesc, StatsReply, StatsRequest, TABLE_ALL, TableStats, Version,
};

impl Switch {
    /// OFPT_STATS_REQUEST, OFPT_MULTIPART_REQUEST.
    ///
    /// # Errors
    /// What the controller is told.
    pub(super) fn ask(
        &mut self,
        asker: &Asker,
        asked: StatsRequest,
        out: &mut Out,
    ) -> Result<(), ErrorCode> {
        let s = self.slice(asker)?;
        let (ask, body) = match asked {
            StatsRequest::Flow(f) => self.about_flows(asker, f, Sum::No)?,
            StatsRequest::Aggregate(f) => self.about_flows(asker, f, Sum::Yes)?,
            StatsRequest::Table => {
                let all = (0..s.tables(self.version)).map(|t| s.table(t, self.version));
                let body = StatsReply::Table(all.collect());
                self.answer(asker, Message::StatsReply { more: Part::Last, body }, out);
                return Ok(());
            }
            StatsRequest::PortDesc => {
                let body = StatsReply::PortDesc(s.sees(&self.ports));
                self.answer(asker, Message::StatsReply { more: Part::Last, body }, out);
                return Ok(());
            }
            StatsRequest::GroupDesc => {
                let desc = |(id, m): (&u32, &weir_openflow::model::GroupMod)| GroupDesc {
                    id: *id,
                    kind: m.kind,
                    buckets: m.buckets.clone(),
                };
                let body = StatsReply::GroupDesc(s.group_mods.iter().map(desc).collect());
                self.answer(asker, Message::StatsReply { more: Part::Last, body }, out);
                return Ok(());
            }
            StatsRequest::MeterConfig(id) => {
                let wanted = |(own, _): &(&u32, _)| id == METER_ALL || **own == id;
                let config = |(own, m): (&u32, &weir_openflow::model::MeterMod)| {
                    weir_openflow::model::MeterConfig {
                        id: *own,
                        flags: m.flags,
                        bands: m.bands.clone(),
                    }
                };
                let all: Vec<_> = s.meter_mods.iter().filter(wanted).map(config).collect();
                if all.is_empty() && id != METER_ALL {
                    return Err(ErrorCode::MeterUnknownMeter);
                }
                let body = StatsReply::MeterConfig(all);
                self.answer(asker, Message::StatsReply { more: Part::Last, body }, out);
                return Ok(());
            }
            StatsRequest::Port(p) if p != Port::ANY && !s.has(p) => {
                return Err(ErrorCode::BadPort);
            }
            StatsRequest::Queue { port, queue } => {
                if !matches!(port, Port::ANY | Port::ALL) && !s.has(port) {
                    return Err(ErrorCode::QueueBadPort);
                }
                if queue != QUEUE_ALL && !s.plan.queues.contains(&queue) {
                    return Err(ErrorCode::QueueBadQueue);
                }
                let q = StatsRequest::Queue { port, queue };
                (Ask::Other(q.clone(), None), q)
            }
            StatsRequest::Group(id) => {
                let physical = match id {
                    GROUP_ALL => GROUP_ALL,
                    id => s.groups.physical(id).ok_or(ErrorCode::GroupUnknown)?,
                };
                (Ask::Other(StatsRequest::Group(id), None), StatsRequest::Group(physical))
            }
            StatsRequest::Meter(id) => {
                let physical = match id {
                    METER_ALL => METER_ALL,
                    id => s.meters.physical(id).ok_or(ErrorCode::MeterUnknownMeter)?,
                };
                (Ask::Other(StatsRequest::Meter(id), None), StatsRequest::Meter(physical))
            }
            // To set them would set everybody's.
            StatsRequest::TableFeatures(set) if !set.is_empty() => {
                return Err(ErrorCode::TableFeaturesEperm);
            }
            StatsRequest::Desc
            | StatsRequest::Port(_)
            | StatsRequest::GroupFeatures
            | StatsRequest::MeterFeatures
            | StatsRequest::TableFeatures(_) => (Ask::Other(asked.clone(), None), asked),
            StatsRequest::Experimenter { .. } => return Err(ErrorCode::BadExperimenter),
            _ => return Err(ErrorCode::BadMultipart),
        };
        let what = What::Asked(asker.clone(), ask);
        self.pass(asker, what, Message::StatsRequest { more: Part::Last, body }, out);
        Ok(())
    }

    fn about_flows(
        &self,
        asker: &Asker,
        filter: FlowFilter,
        sum: Sum,
    ) -> Result<(Ask, StatsRequest), ErrorCode> {
        let tables = self.slice(asker)?.tables(self.version);
        if filter.table != TABLE_ALL && filter.table >= tables {
            return Err(ErrorCode::BadTableId);
        }
        let mut all = FlowFilter { table: filter.table, ..FlowFilter::every_flow() };
        if self.version == Version::V13 {
            (all.cookie, all.cookie_mask) = cookies_of(asker.slice);
        }
        Ok((Ask::Flows { filter, sum, seen: HashMap::new() }, StatsRequest::Flow(all)))
    }

    /// OFPT_STATS_REPLY to a question of a slice's, or a part of it.
    pub(super) fn answered(&mut self, xid: u32, more: Part, body: StatsReply, out: &mut Out) {
        let Some(What::Asked(asker, ask)) = self.ledger.peek(xid) else { return };
        let asker = asker.clone();
        if let (Ask::Flows { seen, .. }, StatsReply::Flow(flows)) = (&mut *ask, &body) {
            for f in flows {
                if let Some((slice, id)) = owner(f.cookie).filter(|(s, _)| *s == asker.slice)
                    && let Some(s) = self.slices.get(usize::from(slice.0))
                    && s.book.get(id).is_some()
                {
                    seen.entry(id).or_default().add(f);
                }
            }
            if more == Part::Last
                && let Some(What::Asked(_, Ask::Flows { filter, sum, seen })) =
                    self.ledger.close(xid)
                && let Ok(s) = self.slice(&asker)
            {
                let body = s.flows(&filter, sum, &seen, self.now);
                self.answer(&asker, Message::StatsReply { more: Part::Last, body }, out);
            }
            return;
        }
        let Ask::Other(asked, held) = ask else { return };
        let (asked, mut held) = (asked.clone(), held.take());
        let new = self.slice(&asker).ok().and_then(|s| s.narrowed(&asked, body, self.version));
        // A part of which nothing is the slice's says nothing, and not every kind may be empty: one is held
        // back, since the last that is sent must say that it is.
        if let Some(new) = new
            && (held.is_none() || !says_nothing(&new))
            && let Some(old) = held.replace(Box::new(new)).filter(|old| !says_nothing(old))
        {
            self.answer(&asker, Message::StatsReply { more: Part::More, body: *old }, out);
        }
        if more == Part::More {
            if let Some(What::Asked(_, Ask::Other(_, kept))) = self.ledger.peek(xid) {
                *kept = held;
            }
            return;
        }
        self.ledger.close(xid);
        if let Some(body) = held {
            self.answer(&asker, Message::StatsReply { more: Part::Last, body: *body }, out);
        }
    }

    /// OFPT_QUEUE_GET_CONFIG_REPLY.
    pub(super) fn queues(&mut self, xid: u32, port: Port, queues: Vec<QueueDesc>, out: &mut Out) {
        let Some(What::Asked(asker, _)) = self.ledger.close(xid) else { return };
        let Ok(s) = self.slice(&asker) else { return };
        let own = |q: &QueueDesc| {
            let at = if self.version == Version::V10 { port } else { q.port };
            s.plan.queues.contains(&q.id) && s.has(at)
        };
        let queues = queues.into_iter().filter(own).collect();
        self.answer(&asker, Message::QueueConfigReply { port, queues }, out);
    }
}

/// Whether a list is empty.
fn says_nothing(r: &StatsReply) -> bool {
    match r {
        StatsReply::Port(all) => all.is_empty(),
        StatsReply::Queue(all) => all.is_empty(),
        StatsReply::Group(all) => all.is_empty(),
        StatsReply::Meter(all) => all.is_empty(),
        StatsReply::TableFeatures(all) => all.is_empty(),
        _ => false,
    }
}

impl Seen {
    fn add(&mut self, f: &FlowStats) {
        self.packets = self.packets.saturating_add(f.packets);
        self.bytes = self.bytes.saturating_add(f.bytes);
        self.lived = self.lived.max((f.duration_sec, f.duration_nsec));
    }
}

impl Slice {
    fn table(&self, table: u8, version: Version) -> TableStats {
        let active = self.book.iter().filter(|(_, f)| f.table == table).count();
        TableStats {
            table,
            name: if version == Version::V10 { format!("table {table}") } else { String::new() },
            max_entries: if version == Version::V10 { self.rules_max() } else { 0 },
            active: u32::try_from(active).unwrap_or(u32::MAX),
            // Lookups are everybody's.
            lookups: u64::MAX,
            matched: u64::MAX,
        }
    }

    fn rules_max(&self) -> u32 {
        u32::try_from(self.plan.limits.rules).unwrap_or(u32::MAX)
    }

    /// Its flows that are asked for, as it asked for them.
    fn flows(
        &self,
        filter: &FlowFilter,
        sum: Sum,
        seen: &HashMap<FlowId, Seen>,
        now: Duration,
    ) -> StatsReply {
        let s = Selection {
            table: filter.table,
            matcher: &filter.matcher,
            out_port: filter.out_port,
            out_group: filter.out_group,
            cookie: filter.cookie,
            cookie_mask: filter.cookie_mask,
        };
        let told = |id: &FlowId| {
            let f = self.book.get(*id)?;
            let at = seen.get(id).copied().unwrap_or_default();
            let lived = f.age(at.lived, now);
            Some(FlowStats {
                table: f.table,
                duration_sec: lived.0,
                duration_nsec: lived.1,
                priority: f.priority,
                idle_timeout: f.idle_timeout,
                hard_timeout: f.hard_timeout,
                flags: f.flags,
                cookie: f.cookie,
                packets: at.packets.saturating_add(f.counted.0),
                bytes: at.bytes.saturating_add(f.counted.1),
                matcher: f.matcher.clone(),
                instructions: f.instructions.clone(),
            })
        };
        let flows: Vec<FlowStats> = self.book.select(&s).iter().filter_map(told).collect();
        if sum == Sum::No {
            return StatsReply::Flow(flows);
        }
        let add = |a: Aggregate, f: &FlowStats| Aggregate {
            packets: a.packets.saturating_add(f.packets),
            bytes: a.bytes.saturating_add(f.bytes),
            flows: a.flows.saturating_add(1),
        };
        StatsReply::Aggregate(flows.iter().fold(Aggregate::default(), add))
    }

    /// What of an answer is the slice's. `None`: nothing of it answers the question.
    fn narrowed(
        &self,
        asked: &StatsRequest,
        answer: StatsReply,
        version: Version,
    ) -> Option<StatsReply> {
        Some(match (asked, answer) {
            (StatsRequest::Desc, StatsReply::Desc(mut d)) => {
                d.datapath.clone_from(&self.plan.name);
                StatsReply::Desc(d)
            }
            (StatsRequest::Port(_), StatsReply::Port(mut all)) => {
                all.retain(|p| self.has(p.port));
                StatsReply::Port(all)
            }
            (StatsRequest::Queue { .. }, StatsReply::Queue(mut all)) => {
                all.retain(|q| self.has(q.port) && self.plan.queues.contains(&q.queue));
                StatsReply::Queue(all)
            }
            (StatsRequest::Group(_), StatsReply::Group(all)) => {
                let own = |mut g: weir_openflow::model::GroupStats| {
                    g.group = self.groups.own(g.group)?;
                    Some(g)
                };
                StatsReply::Group(all.into_iter().filter_map(own).collect())
            }
            (StatsRequest::Meter(_), StatsReply::Meter(all)) => {
                let own = |mut m: weir_openflow::model::MeterStats| {
                    m.meter = self.meters.own(m.meter)?;
                    Some(m)
                };
                StatsReply::Meter(all.into_iter().filter_map(own).collect())
            }
            (StatsRequest::GroupFeatures, StatsReply::GroupFeatures(mut f)) => {
                let most = u32::try_from(self.plan.limits.groups).unwrap_or(u32::MAX);
                f.max = f.max.map(|n| n.min(most));
                StatsReply::GroupFeatures(f)
            }
            (StatsRequest::MeterFeatures, StatsReply::MeterFeatures(mut f)) => {
                let most = u32::try_from(self.plan.limits.meters).unwrap_or(u32::MAX);
                f.max_meters = f.max_meters.min(most);
                StatsReply::MeterFeatures(f)
            }
            (StatsRequest::TableFeatures(_), StatsReply::TableFeatures(mut all)) => {
                all.retain(|t| t.table < self.tables(version));
                all.iter_mut().for_each(|t| t.max_entries = t.max_entries.min(self.rules_max()));
                StatsReply::TableFeatures(all)
            }
            _ => return None,
        })
    }
}
