//! Meters (1.3 §7.3.4.4).

use super::port::bits;

/// What to do to a meter.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum MeterCommand {
    /// Add (0).
    Add,
    /// Modify (1).
    Modify,
    /// Delete (2).
    Delete,
}

bits! {
    /// How a meter measures.
    MeterFlags: u16 {
        /// Rates in kb/s.
        KBPS = 1 << 0;
        /// Rates in packets a second.
        PKTPS = 1 << 1;
        /// Bursts are given.
        BURST = 1 << 2;
        /// Counters are wanted.
        STATS = 1 << 3;
    }
}

/// What a band does.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum BandKind {
    /// Drop (1).
    Drop,
    /// Raise the drop precedence of the DSCP by so many levels (2).
    DscpRemark(u8),
    /// Somebody's own (0xffff).
    Experimenter(u32),
}

/// One band.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Band {
    /// The rate above which it acts, in the meter's unit.
    pub rate: u32,
    /// Burst in kilobits or packets.
    pub burst: u32,
    /// What it does.
    pub kind: BandKind,
}

/// OFPT_METER_MOD.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MeterMod {
    /// What to do.
    pub command: MeterCommand,
    /// Flags.
    pub flags: MeterFlags,
    /// Its number; [`METER_ALL`](super::METER_ALL) for deletes.
    pub id: u32,
    /// Its bands.
    pub bands: Vec<Band>,
}
