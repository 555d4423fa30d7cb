//! Pktgen's frames: which load they are of, their number, and when they were made. Pure.
//!
//! Ethernet, up to two tags, IPv4 without options, UDP; then, big-endian: `0xbe9be955`, the number from 1 on,
//! seconds and microseconds of the Unix epoch (`struct pktgen_hdr`, the kernel's `net/core/pktgen.c`). Which
//! load it is of stands in the source port: [`PORT`] and the load's number.

use crate::module::LoadId;
use weir_packet::Nanos;

/// The source port of load 0: 256 from there on are loads'.
pub const PORT: u16 = 0xc000;
const MAGIC: u32 = 0xbe9b_e955;
/// Where the UDP header of an untagged frame is; a tag makes it four bytes later.
const UDP: usize = 34;
const IPV4: usize = 20;

/// A frame of pktgen's.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Frame {
    /// Of which load.
    pub load: LoadId,
    /// Its number, from 1 on.
    pub number: u32,
    /// When it was made: whole microseconds.
    pub made: Nanos,
}

/// Finds what pktgen wrote into a frame, if it did.
pub fn find(frame: &[u8]) -> Option<Frame> {
    (0..3).find_map(|tags| at(frame, UDP + 4 * tags))
}

fn at(frame: &[u8], udp: usize) -> Option<Frame> {
    let (ip, rest) = frame.get(udp.checked_sub(IPV4)?..)?.split_first_chunk::<IPV4>()?;
    let ([s, port, ..], rest) = rest.split_first_chunk::<8>()?;
    let (header, _) = rest.split_first_chunk::<16>()?;
    let [magic, number, s1, us] = header.as_chunks::<4>().0 else { return None };
    let [version, .., proto] = *ip.first_chunk::<10>()?;
    let ours = u32::from_be_bytes(*magic) == MAGIC && (version, proto) == (0x45, 17);
    if !ours || *s != PORT.to_be_bytes()[0] {
        return None;
    }
    let (seconds, micros) = (u32::from_be_bytes(*s1), u32::from_be_bytes(*us));
    let made = u64::from(seconds) * 1_000_000_000 + u64::from(micros) * 1_000;
    Some(Frame { load: LoadId(*port), number: u32::from_be_bytes(*number), made: Nanos(made) })
}
