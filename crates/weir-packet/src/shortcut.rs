//! A way past the data plane: what a port's device may do with frames by itself, where the data
//! plane has told it exactly what it would do with them.
//!
//! Room: the vocabulary between ports that can (`weir-io`, by a program in the kernel) and the data
//! plane, which says what, stops it before anything changes, and counts afterwards.

use core::fmt::Debug;

/// A destination's MAC address, in wire order.
pub type Mac = [u8; 6];

/// What is done with frames of one kind.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Way {
    /// By which interface they leave: what the other port's [`crate::Device::exit`] says.
    pub exit: u32,
    /// Frames longer than this many bytes, without FCS, are handed over instead.
    pub max_frame_bytes: u32,
    /// Their new destination, if they get one.
    pub eth_dst: Option<Mac>,
    /// Their new source, if they get one.
    pub eth_src: Option<Mac>,
    /// Under which number they are counted: less than [`WAYS`].
    pub counter: u32,
}

/// What is done with the frames that come in by a port. `None` stands for: handed over.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Ways {
    /// By destination; no address twice, [`WAYS`] at most.
    pub by_mac: Vec<(Mac, Option<Way>)>,
    /// With every other frame.
    pub rest: Option<Way>,
}

impl Ways {
    /// What is done with a frame: the definition, which a device's own way of doing it is judged by.
    /// A frame without a whole Ethernet header is handed over.
    pub fn of(&self, frame: &[u8]) -> Option<&Way> {
        let (dst, _) = frame.get(..14)?.split_first_chunk::<6>()?;
        let found = self.by_mac.iter().find(|(m, _)| m == dst);
        let way = found.map_or(self.rest.as_ref(), |(_, w)| w.as_ref())?;
        (frame.len() <= way.max_frame_bytes as usize).then_some(way)
    }
}

/// Numbers under which frames are counted, and addresses told apart, at one port.
pub const WAYS: usize = 1024;

/// Frames and bytes that a device forwarded by itself.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Taken {
    /// Frames.
    pub frames: u64,
    /// Bytes, Ethernet header included, FCS not.
    pub bytes: u64,
}

/// A device that can forward frames by itself. It does nothing until [`Shortcut::start`].
pub trait Shortcut: Debug {
    /// Has every frame that comes from now on treated so; a device that is doing something else
    /// must be stopped before.
    ///
    /// # Errors
    /// In one line; the device then hands every frame over.
    fn start(&mut self, ways: &Ways) -> Result<(), String>;

    /// Has every frame handed over again. Whatever is received after this returns is, and what was
    /// not has been counted.
    fn stop(&mut self);

    /// What was forwarded under a number since the device was opened.
    fn taken(&self, counter: u32) -> Taken;
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_of_its_own_comes_before_the_rest() {
        let way = |exit, max_frame_bytes| Way {
            exit,
            max_frame_bytes,
            eth_dst: None,
            eth_src: None,
            counter: 0,
        };
        let by_mac = vec![([1; 6], Some(way(1, 60))), ([2; 6], None)];
        let ways = Ways { by_mac, rest: Some(way(3, 1514)) };
        let exit = |dst: u8, len: usize| ways.of(&vec![dst; len]).map(|w| w.exit);
        assert_eq!([exit(1, 60), exit(2, 60), exit(3, 1514)], [Some(1), None, Some(3)]);
        // Too long for where it would go, and no whole header.
        assert_eq!([exit(1, 61), exit(3, 1515), exit(3, 13)], [None; 3]);
    }
}
