//! Meters (1.3 §5.7, §7.3.4.4): checked, kept, given to the data plane; deleted with the flows that
//! pass them.

use crate::apply::code_of;
use crate::plane::Plane;
use crate::request::{Cx, Stop};
use crate::state::Meter;
use crate::switch::Switch;
use weir_dataplane::{Band as Rate, BandKind as Does, MAX_BANDS, Meter as Gauge, Unit};
use weir_openflow::model::{
    BandKind, ErrorCode, METER_ALL, METER_MAX, MeterCommand, MeterFlags, MeterMod, RemovedReason,
};

impl Switch {
    pub(crate) fn meter_mod<P: Plane>(
        &mut self,
        m: MeterMod,
        cx: &mut Cx<'_, P>,
    ) -> Result<(), Stop> {
        self.flush(cx)?;
        let there = self.state.meters.contains_key(&m.id);
        // The switch's own two (controller, slow path) are not offered.
        let number = m.id > 0 && m.id <= METER_MAX;
        match m.command {
            MeterCommand::Delete if m.id == METER_ALL => {
                let all: Vec<u32> = self.state.meters.keys().copied().collect();
                self.delete_meters(all, cx)
            }
            _ if !number => Err(ErrorCode::MeterInvalid.into()),
            MeterCommand::Add if there => Err(ErrorCode::MeterExists.into()),
            MeterCommand::Add if self.state.meters.len() >= self.config.limits.meters as usize => {
                Err(ErrorCode::MeterOutOfMeters.into())
            }
            MeterCommand::Modify if !there => Err(ErrorCode::MeterUnknownMeter.into()),
            MeterCommand::Add | MeterCommand::Modify => self.put_meter(m, cx),
            MeterCommand::Delete if there => self.delete_meters(vec![m.id], cx),
            MeterCommand::Delete => Ok(()),
        }
    }

    fn put_meter<P: Plane>(&mut self, m: MeterMod, cx: &mut Cx<'_, P>) -> Result<(), Stop> {
        let gauge = turn_meter(&m)?;
        let (vid, id) = (self.config.vid, m.id);
        cx.plane.with(move |dp| dp.put_meter(vid, id, gauge))?.map_err(code_of)?;
        let created = self.state.meters.get(&id).map_or(cx.now, |g| g.created);
        self.state.meters.insert(id, Meter { flags: m.flags, bands: m.bands, created });
        Ok(())
    }

    fn delete_meters<P: Plane>(&mut self, ids: Vec<u32>, cx: &mut Cx<'_, P>) -> Result<(), Stop> {
        let flows = self.flows.doing(|b| b.meter.is_some_and(|m| ids.contains(&m)));
        self.remove_flows(flows.into(), RemovedReason::Delete, cx)?;
        for id in &ids {
            self.state.meters.remove(id);
        }
        let vid = self.config.vid;
        cx.plane.with(move |dp| {
            for id in ids {
                // It was there; and if it was not, it is not.
                let _ = dp.remove_meter(vid, id);
            }
        })?;
        Ok(())
    }
}

/// Checks a meter and turns it.
fn turn_meter(m: &MeterMod) -> Result<Gauge, ErrorCode> {
    let both = MeterFlags::KBPS | MeterFlags::PKTPS;
    if m.flags.0 & !MeterFlags::KNOWN.0 != 0 || m.flags.has(both) {
        return Err(ErrorCode::MeterBadFlags);
    }
    let unit = match m.flags.has(MeterFlags::PKTPS) {
        true => Unit::Packets,
        false => Unit::Kilobits,
    };
    if m.bands.len() > MAX_BANDS {
        return Err(ErrorCode::MeterOutOfBands);
    }
    let mut rates = Vec::with_capacity(m.bands.len());
    for b in &m.bands {
        let kind = match b.kind {
            BandKind::Drop => Does::Drop,
            BandKind::DscpRemark(n @ 1..=3) => Does::DscpRemark(n),
            BandKind::DscpRemark(_) => return Err(ErrorCode::MeterBadBandValue),
            BandKind::Experimenter(_) => return Err(ErrorCode::MeterBadBand),
        };
        if b.rate == 0 {
            return Err(ErrorCode::MeterBadRate);
        }
        // Without the flag the number means nothing.
        let burst = if m.flags.has(MeterFlags::BURST) { b.burst } else { 0 };
        rates.push(Rate { kind, rate: b.rate, burst });
    }
    Gauge::new(unit, &rates).map_err(|_| ErrorCode::MeterBadBand)
}
