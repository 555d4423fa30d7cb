//! Statistics and descriptions (1.3 §7.3.5, 1.0 §5.3.5): which file answers what.

mod features;
mod flows;
mod groups;
mod ports;
mod project;

pub(crate) use flows::Walk;
pub(crate) use project::has_number_for;

use crate::plane::Plane;
use crate::request::{Asker, Cx, Stop};
use crate::switch::Switch;
use weir_dataplane::Placement;
use weir_openflow::model::{ErrorCode, Message, Part, StatsReply, StatsRequest, TableStats};

impl Switch {
    pub(crate) fn stats<P: Plane>(
        &mut self,
        who: &Asker,
        more: Part,
        asked: StatsRequest,
        cx: &mut Cx<'_, P>,
    ) -> Result<(), Stop> {
        self.flush(cx)?;
        let body = match asked {
            StatsRequest::Flow(f) => return self.flow_stats(who, f, cx),
            StatsRequest::Aggregate(f) => self.aggregate(who, f, cx)?,
            StatsRequest::Desc => StatsReply::Desc(self.config.desc.clone()),
            StatsRequest::Table => self.table_stats(cx)?,
            StatsRequest::Port(port) => self.port_stats(port, cx)?,
            StatsRequest::Queue { port, queue } => self.queue_stats(port, queue, cx)?,
            StatsRequest::PortDesc => {
                StatsReply::PortDesc(self.state.ports.values().cloned().collect())
            }
            StatsRequest::Group(id) => self.group_stats(id, cx)?,
            StatsRequest::GroupDesc => self.group_desc(),
            StatsRequest::GroupFeatures => self.group_features(),
            StatsRequest::Meter(id) => self.meter_stats(id, cx)?,
            StatsRequest::MeterConfig(id) => self.meter_config(id)?,
            StatsRequest::MeterFeatures => self.meter_features(),
            StatsRequest::TableFeatures(b) if b.is_empty() && more == Part::Last => {
                self.table_features(cx)?
            }
            // Tables are as they are (1.3 §7.3.5.5.1).
            StatsRequest::TableFeatures(_) => return Err(ErrorCode::TableFeaturesEperm.into()),
            StatsRequest::Experimenter { .. } => return Err(ErrorCode::BadExperimenter.into()),
            _ => return Err(ErrorCode::BadMultipart.into()),
        };
        let body = project::told(body, who.version);
        who.reply(Message::StatsReply { more: Part::Last, body }, cx.out);
        Ok(())
    }

    fn table_stats<P: Plane>(&mut self, cx: &mut Cx<'_, P>) -> Result<StatsReply, Stop> {
        let max_entries = self.most_flows(cx)?;
        let vid = self.config.vid;
        let counted = cx.plane.with(move |dp| dp.table_counters(vid))?.unwrap_or_default();
        let of = |table: u8| {
            let c = counted.iter().find(|c| c.table == table).copied().unwrap_or_default();
            TableStats {
                table,
                name: table_name(table),
                max_entries,
                active: self.flows.active(table),
                lookups: c.lookups,
                matched: c.matched,
            }
        };
        Ok(StatsReply::Table((0..self.state.tables).map(of).collect()))
    }

    /// How many flows there can be, in any table: what the configuration allows, and the TCAM has
    /// room for, where it is all there is. Tables share both.
    pub(super) fn most_flows<P: Plane>(&self, cx: &mut Cx<'_, P>) -> Result<u32, Stop> {
        let (vid, allowed) = (self.config.vid, self.config.limits.flows);
        match self.config.placement {
            Placement::Fast => Ok(cx.plane.with(move |dp| dp.action_room(vid))?.min(allowed)),
            _ => Ok(allowed),
        }
    }
}

/// What a table is called.
fn table_name(table: u8) -> String {
    format!("table{table}")
}
