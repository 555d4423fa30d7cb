//! Where stamps are taken: what an interface offers, and the choice that follows from it.
//!
//! Pure. Source: the kernel's `timestamping.rst`, `net_tstamp.h`, ethtool's ETHTOOL_GET_TS_INFO.

/// SOF_TIMESTAMPING_*.
const TX_HARDWARE: u32 = 1 << 0;
const RX_HARDWARE: u32 = 1 << 2;
const RAW_HARDWARE: u32 = 1 << 6;
/// A bit for each HWTSTAMP_TX_* and HWTSTAMP_FILTER_*: of these, ON and ALL.
const TX_ON: u32 = 1 << 1;
const FILTER_ALL: u32 = 1 << 1;

/// What an interface says of its time stamps (`ethtool -T`).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Offers {
    /// SOF_TIMESTAMPING_*, a bit each.
    pub so_timestamping: u32,
    /// Number of its PTP hardware clock.
    pub clock: Option<u32>,
    /// HWTSTAMP_TX_*, a bit each.
    pub tx_types: u32,
    /// HWTSTAMP_FILTER_*, a bit each.
    pub rx_filters: u32,
}

/// Where stamps are taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stamps {
    /// By the kernel: when the driver is given a frame, when a frame enters the stack.
    Software,
    /// By the adapter, with this clock.
    Hardware {
        /// Number of its PTP hardware clock.
        clock: u32,
    },
}

impl Offers {
    /// The best that serves: the adapter's where it stamps every frame both ways and its clock can be read,
    /// so that its stamps can be told in the time of all others. One that stamps PTP's frames alone does not.
    pub fn best(&self) -> Stamps {
        let needed = TX_HARDWARE | RX_HARDWARE | RAW_HARDWARE;
        let all = self.so_timestamping & needed == needed
            && self.tx_types & TX_ON != 0
            && self.rx_filters & FILTER_ALL != 0;
        match self.clock {
            Some(clock) if all => Stamps::Hardware { clock },
            _ => Stamps::Software,
        }
    }
}

impl Stamps {
    /// As results have it.
    pub fn words(self) -> &'static str {
        match self {
            Self::Software => "kernel software",
            Self::Hardware { .. } => "hardware",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_best_of_what_adapters_report() {
        // As `ethtool -T` shows them: bits of the capabilities, the clock, transmit modes, receive filters.
        let of = |so_timestamping, clock, tx_types, rx_filters| Offers {
            so_timestamping,
            clock,
            tx_types,
            rx_filters,
        };
        for (offers, want) in [
            // veth: software-transmit, software-receive, software-system-clock.
            (of(0x1a, None, 0, 0), Stamps::Software),
            // An igb: all capabilities; off, on; none, all.
            (of(0x5f, Some(0), 0b11, 0b11), Stamps::Hardware { clock: 0 }),
            // An e1000e, which lists PTP's filters too.
            (of(0x5f, Some(3), 0b11, 0x5ffb), Stamps::Hardware { clock: 3 }),
            // A fec or cpsw: PTP's frames alone.
            (of(0x5f, Some(1), 0b11, 1 << 12 | 1), Stamps::Software),
            // Receive only; a clock that can't be read; no raw stamps handed out; nothing sent is stamped.
            (of(0x5c, Some(0), 0b01, 0b11), Stamps::Software),
            (of(0x5f, None, 0b11, 0b11), Stamps::Software),
            (of(0x1f, Some(0), 0b11, 0b11), Stamps::Software),
            (of(0x5f, Some(0), 0b01, 0b11), Stamps::Software),
            (Offers::default(), Stamps::Software),
        ] {
            assert_eq!(offers.best(), want, "{offers:?}");
        }
    }
}
