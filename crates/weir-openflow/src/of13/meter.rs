//! Meters (1.3 §7.3.4.4), and as they are described in statistics (§7.3.5.13).
//!
//! Room: the 1.3 encoding.

use super::too_long;
use crate::codec::EncodeError;
use crate::model::{
    Band, BandKind, ErrorCode, METER_ALL, METER_CONTROLLER, METER_MAX, METER_SLOWPATH,
    MeterCommand, MeterConfig, MeterFlags, MeterMod,
};
use crate::wire::{Kind, Reader, Writer, named};

named! {
    /// OFPMC numbers.
    Command: MeterCommand as u16 else MeterBadCommand { 0 = Add, 1 = Modify, 2 = Delete, }
}

/// OFPMBT numbers.
mod band {
    pub(super) const DROP: u16 = 1;
    pub(super) const DSCP_REMARK: u16 = 2;
    pub(super) const EXPERIMENTER: u16 = 0xffff;
}

/// Bytes of a band of the kinds there are.
const BAND: usize = 16;

pub(super) fn read_mod(r: &mut Reader<'_>) -> Result<MeterMod, ErrorCode> {
    let command = Command::read(r)?;
    let flags = MeterFlags(r.u16()?);
    let id = r.u32()?;
    if flags.0 & !MeterFlags::KNOWN.0 != 0 || flags.has(MeterFlags::KBPS | MeterFlags::PKTPS) {
        return Err(ErrorCode::MeterBadFlags);
    }
    let numbered = match id {
        1..=METER_MAX | METER_CONTROLLER | METER_SLOWPATH => true,
        METER_ALL => command == MeterCommand::Delete,
        _ => false,
    };
    if !numbered {
        return Err(ErrorCode::MeterInvalid);
    }
    Ok(MeterMod { command, flags, id, bands: read_bands(r)? })
}

fn read_bands(r: &mut Reader<'_>) -> Result<Vec<Band>, ErrorCode> {
    let mut bands = Vec::with_capacity(r.len() / BAND);
    while !r.is_empty() {
        let (kind, length) = (r.u16()?, usize::from(r.u16()?));
        let mut b = r.within(length.checked_sub(4).ok_or(ErrorCode::BadLen)?, ErrorCode::BadLen)?;
        let (rate, burst) = (b.u32()?, b.u32()?);
        let kind = match kind {
            band::DROP => {
                b.skip(4)?;
                BandKind::Drop
            }
            band::DSCP_REMARK => {
                let levels = b.u8()?;
                b.skip(3)?;
                BandKind::DscpRemark(levels)
            }
            band::EXPERIMENTER => BandKind::Experimenter(b.u32()?),
            _ => return Err(ErrorCode::MeterBadBand),
        };
        // An experimenter's may be longer; what follows its id is not kept.
        if !matches!(kind, BandKind::Experimenter(_)) {
            b.end()?;
        }
        bands.push(Band { rate, burst, kind });
    }
    Ok(bands)
}

fn write_bands(bands: &[Band], w: &mut Writer<'_>) {
    for b in bands {
        w.u16(match b.kind {
            BandKind::Drop => band::DROP,
            BandKind::DscpRemark(_) => band::DSCP_REMARK,
            BandKind::Experimenter(_) => band::EXPERIMENTER,
        });
        w.u16(BAND as u16);
        w.u32(b.rate);
        w.u32(b.burst);
        match b.kind {
            BandKind::Drop => w.zeros(4),
            BandKind::DscpRemark(levels) => {
                w.u8(levels);
                w.zeros(3);
            }
            BandKind::Experimenter(id) => w.u32(id),
        }
    }
}

pub(super) fn write_mod(meter: &MeterMod, w: &mut Writer<'_>) {
    Command::write(&meter.command, w);
    w.u16(meter.flags.0);
    w.u32(meter.id);
    write_bands(&meter.bands, w);
}

/// One meter of a reply, which begins with its length.
pub(super) fn read_config(r: &mut Reader<'_>) -> Result<MeterConfig, ErrorCode> {
    let length = usize::from(r.u16()?);
    let mut r = r.within(length.checked_sub(2).ok_or(ErrorCode::BadLen)?, ErrorCode::BadLen)?;
    let flags = MeterFlags(r.u16()?);
    Ok(MeterConfig { flags, id: r.u32()?, bands: read_bands(&mut r)? })
}

pub(super) fn write_config(m: &MeterConfig, w: &mut Writer<'_>) -> Result<(), EncodeError> {
    let start = w.at();
    w.u16(0);
    w.u16(m.flags.0);
    w.u32(m.id);
    write_bands(&m.bands, w);
    w.patch_len(start, start).map_err(too_long)
}
