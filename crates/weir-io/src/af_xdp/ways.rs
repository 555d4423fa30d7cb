//! Frames that the kernel forwards by itself, as it was told: [`Shortcut`] by the port's XDP program.
//!
//! Room: `af_xdp`. What is shared with the program lies in two maps: one value of words that is mapped
//! here ([`layout`]), and ways by MAC address. Both outlive the interface, so that what was counted is
//! not lost with it. The program goes with the process, however that ends; the maps go with the program.

use super::program::{self, Maps};
use crate::sys::bpf::{Instruction, Map};
use crate::sys::bpf_memory::Memory;
use std::io;
use std::time::{Duration, Instant};
use weir_packet::{Mac, Taken, WAYS, Way, Ways};

/// How long somebody who is inside is waited for: a processor that is taken away in the middle comes back
/// some milliseconds later.
const PATIENCE: Duration = Duration::from_millis(500);
/// Looks before the processor is left to others.
const SPINS: u32 = 1000;

/// Where in the shared value what stands, in bytes.
pub(super) mod layout {
    use weir_packet::WAYS;

    /// Whether any frame goes a way.
    pub(crate) const ON: i16 = 0;
    /// Whether there are ways by MAC address.
    pub(crate) const MACS: i16 = 8;
    /// The way of the rest.
    pub(crate) const REST: i16 = 16;
    /// Whether the program is inside at the first processor; the next one's is a line on.
    pub(crate) const INSIDE: i16 = 64;
    pub(crate) const INSIDE_SHIFT: i32 = 6;
    /// A processor's counters: frames and bytes of each way.
    pub(crate) const COUNTERS_SHIFT: i32 = (WAYS * 16).trailing_zeros() as i32;
    pub(crate) const LAST_COUNTER: i32 = WAYS as i32 - 1;

    /// In a way: the exit's number, zero where there is none; the longest frame; what changes.
    pub(crate) const EXIT: i16 = 0;
    pub(crate) const MAX: i16 = 4;
    pub(crate) const CHANGES: i16 = 8;
    pub(crate) const COUNTER: i16 = 12;
    pub(crate) const DST: i16 = 16;
    pub(crate) const SRC: i16 = 24;
    pub(crate) const WAY_BYTES: usize = 32;
    pub(crate) const CHANGES_DST: i32 = 1;
    pub(crate) const CHANGES_SRC: i32 = 2;

    const _: () = assert!(WAYS.is_power_of_two());

    /// For so many processors.
    #[derive(Clone, Copy, Debug)]
    pub(crate) struct Layout {
        processors: usize,
    }

    impl Layout {
        /// Rounded up to a power of two.
        pub(crate) fn of(processors: usize) -> Self {
            Self { processors: processors.clamp(1, 4096).next_power_of_two() }
        }
        pub(crate) fn processors(self) -> usize {
            self.processors
        }
        pub(crate) fn last_processor(self) -> i32 {
            self.processors as i32 - 1
        }
        /// Where counters begin.
        pub(crate) fn counters(self) -> usize {
            INSIDE as usize + (self.processors << INSIDE_SHIFT)
        }
        /// All of it.
        pub(crate) fn bytes(self) -> usize {
            self.counters() + (self.processors << COUNTERS_SHIFT)
        }
        /// Where a processor counts frames of a way; their bytes follow.
        pub(crate) fn counter(self, processor: usize, counter: u32) -> usize {
            let counter = counter as usize % WAYS;
            self.counters() + (processor << COUNTERS_SHIFT) + counter * 16
        }
        pub(crate) fn inside(self, processor: usize) -> usize {
            INSIDE as usize + (processor << INSIDE_SHIFT)
        }
    }
}
use layout::Layout;

/// The maps of one port.
#[derive(Debug)]
pub(super) struct Known {
    state: Memory,
    by_mac: Map,
    /// Addresses that are in the map.
    macs: Vec<Mac>,
    at: Layout,
}

/// Processors that there can be.
fn processors() -> io::Result<usize> {
    let text = std::fs::read_to_string("/sys/devices/system/cpu/possible")?;
    let last = text.trim().rsplit(['-', ',']).next().and_then(|n| n.parse::<usize>().ok());
    last.map(|n| n + 1).ok_or_else(|| io::Error::other("no list of possible processors"))
}

fn key(mac: &Mac) -> [u8; 8] {
    let [a, b, c, d, e, f] = *mac;
    [a, b, c, d, e, f, 0, 0]
}

fn encoded(way: Option<&Way>) -> [u8; layout::WAY_BYTES] {
    let mut out = [0; layout::WAY_BYTES];
    let Some(w) = way else { return out };
    let bit = |mac: Option<Mac>, bit: i32| if mac.is_some() { bit } else { 0 };
    let changes = bit(w.eth_dst, layout::CHANGES_DST) | bit(w.eth_src, layout::CHANGES_SRC);
    let parts: [(i16, &[u8]); 6] = [
        (layout::EXIT, &w.exit.to_ne_bytes()),
        (layout::MAX, &w.max_frame_bytes.to_ne_bytes()),
        (layout::CHANGES, &changes.to_ne_bytes()),
        (layout::COUNTER, &w.counter.to_ne_bytes()),
        (layout::DST, &w.eth_dst.unwrap_or_default()),
        (layout::SRC, &w.eth_src.unwrap_or_default()),
    ];
    for (at, bytes) in parts {
        for (to, from) in out.iter_mut().skip(at as usize).zip(bytes) {
            *to = *from;
        }
    }
    out
}

impl Known {
    /// None yet.
    pub(super) fn new() -> io::Result<Self> {
        let at = Layout::of(processors()?);
        let state = Memory::new(at.bytes() / 8)?;
        let by_mac = Map::hash(8, layout::WAY_BYTES, WAYS as u32)?;
        Ok(Self { state, by_mac, macs: Vec::new(), at })
    }
    /// The program that goes by it.
    pub(super) fn program(&self, sockets: &Map) -> Vec<Instruction> {
        let (state, by_mac) = (self.state.number(), self.by_mac.number());
        program::ways(Maps { sockets: sockets.number(), state, by_mac }, self.at)
    }
    fn set(&self, at: i16, value: u64) {
        self.state.set(at as usize / 8, value);
    }
    /// Sends frames so from now on. It is stopped.
    pub(super) fn start(&mut self, ways: &Ways) -> io::Result<()> {
        while let Some(mac) = self.macs.last() {
            self.by_mac.remove(&key(mac))?;
            self.macs.pop();
        }
        for (mac, way) in &ways.by_mac {
            self.by_mac.set(&key(mac), &encoded(way.as_ref()))?;
            self.macs.push(*mac);
        }
        let rest = encoded(ways.rest.as_ref());
        for (i, word) in rest.as_chunks::<8>().0.iter().enumerate() {
            self.set(layout::REST + 8 * i as i16, u64::from_ne_bytes(*word));
        }
        self.set(layout::MACS, u64::from(!self.macs.is_empty()));
        // Last: the program looks at it first.
        self.set(layout::ON, 1);
        Ok(())
    }
    /// Sends none from now on.
    pub(super) fn stop(&self) {
        self.state.set_first(layout::ON as usize / 8, 0);
        let began = Instant::now();
        let inside = |p| self.state.get(self.at.inside(p) / 8) != 0;
        for p in 0..self.at.processors() {
            let mut looks = 0;
            while inside(p) {
                looks += 1;
                if looks < SPINS {
                    std::hint::spin_loop();
                } else if began.elapsed() < PATIENCE {
                    std::thread::yield_now();
                } else {
                    // Its frame was received before; it is counted when it comes back.
                    break;
                }
            }
        }
    }
    /// What went under a number.
    pub(super) fn taken(&self, counter: u32) -> Taken {
        let mut sum = Taken::default();
        for p in 0..self.at.processors() {
            let at = self.at.counter(p, counter) / 8;
            sum.frames += self.state.get(at);
            sum.bytes += self.state.get(at + 1);
        }
        sum
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_shares_a_place() {
        for processors in [1, 2, 3, 64] {
            let at = Layout::of(processors);
            assert!(at.processors() >= processors);
            assert_eq!(at.inside(at.processors() - 1) + 64, at.counters());
            assert_eq!(at.counter(at.processors() - 1, WAYS as u32 - 1) + 16, at.bytes());
            assert_eq!(at.counter(1, 0), at.counter(0, WAYS as u32 - 1) + 16);
        }
        assert!((layout::REST as usize) + layout::WAY_BYTES <= layout::INSIDE as usize);
        assert_eq!(1 << layout::COUNTERS_SHIFT, WAYS * 16);
    }

    #[test]
    fn a_way_is_written_as_the_program_reads_it() {
        let way = Way {
            exit: 7,
            max_frame_bytes: 1514,
            eth_dst: None,
            eth_src: Some([1, 2, 3, 4, 5, 6]),
            counter: 9,
        };
        let bytes = encoded(Some(&way));
        let word = |at: i16| bytes[at as usize..].first_chunk().map(|b| u32::from_ne_bytes(*b));
        assert_eq!(
            [layout::EXIT, layout::MAX, layout::CHANGES, layout::COUNTER].map(word),
            [Some(7), Some(1514), Some(2), Some(9)]
        );
        assert_eq!(bytes[layout::SRC as usize..][..6], [1, 2, 3, 4, 5, 6]);
        assert_eq!(encoded(None), [0; layout::WAY_BYTES]);
    }
}
