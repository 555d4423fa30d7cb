//! Groups and meters: counters, how they are, what they can do (1.3 §7.3.5.9 to 14).

use crate::apply::duration;
use crate::dp;
use crate::groups::AT_ONCE;
use crate::plane::Plane;
use crate::request::{Cx, Stop};
use crate::stats::features::ACTION_BITS;
use crate::switch::Switch;
use std::collections::HashMap;
use weir_dataplane::{DataPlane, MAX_BANDS, Vid};
use weir_openflow::model::{
    ErrorCode, GROUP_ALL, GROUP_MAX, GroupDesc, GroupFeatures, GroupStats, METER_ALL, MeterConfig,
    MeterFeatures, MeterFlags, MeterStats, StatsReply,
};

/// Reads the counters of some groups or meters.
type Read = fn(&DataPlane, Vid, &[u32]) -> Vec<dp::Parted>;

impl Switch {
    /// What groups or meters got, some in a call of the data plane, which carries frames in between.
    fn counted<P: Plane>(
        &self,
        ids: &[u32],
        read: Read,
        cx: &mut Cx<'_, P>,
    ) -> Result<Vec<dp::Parted>, Stop> {
        let vid = self.config.vid;
        let mut out = Vec::with_capacity(ids.len());
        for ids in ids.chunks(AT_ONCE) {
            let asked = ids.to_vec();
            out.extend(cx.plane.with(move |plane| read(plane, vid, &asked))?);
        }
        Ok(out)
    }

    pub(super) fn group_stats<P: Plane>(
        &mut self,
        id: u32,
        cx: &mut Cx<'_, P>,
    ) -> Result<StatsReply, Stop> {
        if id > GROUP_MAX && id != GROUP_ALL {
            return Err(ErrorCode::GroupInvalid.into());
        }
        let means = |g: &u32| id == GROUP_ALL || *g == id;
        let ids: Vec<u32> = self.state.groups.keys().copied().filter(means).collect();
        let counted = self.counted(&ids, dp::group_counters, cx)?;
        let mut references: HashMap<u32, u32> = HashMap::new();
        for (_, b, flows) in self.flows.behaviours.iter() {
            for g in &b.groups {
                *references.entry(*g).or_default() += flows;
            }
        }
        for g in self.state.groups.values() {
            for to in g.follows() {
                *references.entry(to).or_default() += 1;
            }
        }
        let of = |(group, mut c): (u32, dp::Parted)| {
            let g = self.state.groups.get(&group)?;
            let (duration_sec, duration_nsec) = duration(cx.now, g.created);
            c.parts.resize(g.buckets.len(), (0, 0));
            Some(GroupStats {
                group,
                references: references.get(&group).copied().unwrap_or(0),
                packets: c.whole.0,
                bytes: c.whole.1,
                duration_sec,
                duration_nsec,
                buckets: c.parts,
            })
        };
        Ok(StatsReply::Group(ids.into_iter().zip(counted).filter_map(of).collect()))
    }

    pub(super) fn group_desc(&self) -> StatsReply {
        let of = |(id, g): (&u32, &crate::state::Group)| GroupDesc {
            id: *id,
            kind: g.kind,
            buckets: g.buckets.clone(),
        };
        StatsReply::GroupDesc(self.state.groups.iter().map(of).collect())
    }

    pub(super) fn group_features(&self) -> StatsReply {
        StatsReply::GroupFeatures(GroupFeatures {
            kinds: 0b1111,
            // Weights, liveness, chaining, and that loops are found.
            capabilities: 0b1111,
            max: [self.config.limits.groups; 4],
            actions: [ACTION_BITS; 4],
        })
    }

    /// The meters asked for.
    fn meters_asked(&self, id: u32) -> Result<Vec<u32>, ErrorCode> {
        if id != METER_ALL && !self.state.meters.contains_key(&id) {
            return Err(ErrorCode::MeterUnknownMeter);
        }
        let means = |m: &u32| id == METER_ALL || *m == id;
        Ok(self.state.meters.keys().copied().filter(means).collect())
    }

    pub(super) fn meter_stats<P: Plane>(
        &mut self,
        id: u32,
        cx: &mut Cx<'_, P>,
    ) -> Result<StatsReply, Stop> {
        let ids = self.meters_asked(id)?;
        let counted = self.counted(&ids, dp::meter_counters, cx)?;
        let mut used: HashMap<u32, u32> = HashMap::new();
        for (_, b, flows) in self.flows.behaviours.iter() {
            if let Some(m) = b.meter {
                *used.entry(m).or_default() += flows;
            }
        }
        let of = |(meter, mut c): (u32, dp::Parted)| {
            let m = self.state.meters.get(&meter)?;
            let (duration_sec, duration_nsec) = duration(cx.now, m.created);
            c.parts.resize(m.bands.len(), (0, 0));
            Some(MeterStats {
                meter,
                flows: used.get(&meter).copied().unwrap_or(0),
                packets: c.whole.0,
                bytes: c.whole.1,
                duration_sec,
                duration_nsec,
                bands: c.parts,
            })
        };
        Ok(StatsReply::Meter(ids.into_iter().zip(counted).filter_map(of).collect()))
    }

    pub(super) fn meter_config(&self, id: u32) -> Result<StatsReply, ErrorCode> {
        let of = |id: u32| {
            let m = self.state.meters.get(&id)?;
            Some(MeterConfig { id, flags: m.flags, bands: m.bands.clone() })
        };
        Ok(StatsReply::MeterConfig(self.meters_asked(id)?.into_iter().filter_map(of).collect()))
    }

    pub(super) fn meter_features(&self) -> StatsReply {
        StatsReply::MeterFeatures(MeterFeatures {
            max_meters: self.config.limits.meters,
            // Drop and DSCP remark.
            band_types: 1 << 1 | 1 << 2,
            capabilities: MeterFlags::KNOWN.0.into(),
            max_bands: MAX_BANDS as u8,
            max_color: 0,
        })
    }
}
