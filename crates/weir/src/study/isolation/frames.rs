//! Frames that say whose they are: the network, and when they came to its port, in the payload.
//!
//! Pure. Ethernet, an 802.1Q tag with the network's number, IPv4, UDP; in the payload the network (2 bytes)
//! and the time of arrival in nanoseconds (8 bytes), big-endian. What of a frame differs from the one
//! before it is its source's [`Pattern`].

/// Bytes of the FCS, which sizes count and frames here do not hold.
pub const FCS: usize = 4;
/// The smallest frame, FCS included: with a tag and 10 bytes of payload, 64 bytes hold it.
pub const SMALL: usize = 64;
/// Where the payload begins.
const PAYLOAD: usize = 46;
/// A host that no network has a rule for.
pub const NOBODY: u16 = 0xffff;
/// Hosts of every network.
pub const HOSTS: u16 = 16;

/// What differs from frame to frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Pattern {
    /// The host, in turn.
    Hosts,
    /// All that a flow is told by: addresses and ports, without a pattern.
    Flows,
    /// Nothing: to a host that no rule knows.
    Nobody,
}

/// The MAC address by which a network's rules mark what they forward.
pub const fn mark(network: u16) -> [u8; 6] {
    let [a, b] = network.to_be_bytes();
    [2, 0, 0, 9, a, b]
}

/// The MAC address of a host, the same in every network.
pub const fn host(n: u16) -> [u8; 6] {
    let [a, b] = n.to_be_bytes();
    [2, 0, 0, 0, a, b]
}

/// The address as OpenFlow has it: a number.
pub fn number(mac: [u8; 6]) -> u128 {
    mac.iter().fold(0, |v, b| v << 8 | u128::from(*b))
}

/// Marsaglia's xorshift: the same in every run.
pub const fn random(n: u64) -> u64 {
    let mut x = n.wrapping_mul(0x9e37_79b9_7f4a_7c15) ^ 0x2545_f491_4f6c_dd1d;
    x ^= x << 13;
    x ^= x >> 7;
    x ^ x << 17
}

/// Writes the `nth` frame of a source into `to`: `bytes` long, FCS included.
pub fn write(to: &mut Vec<u8>, network: u16, pattern: Pattern, nth: u64, bytes: usize, at: u64) {
    let len = bytes.max(SMALL) - FCS;
    to.clear();
    let r = random(nth).to_be_bytes();
    let station = match pattern {
        Pattern::Hosts | Pattern::Flows => (nth % u64::from(HOSTS)) as u16,
        Pattern::Nobody => NOBODY,
    };
    to.extend(host(station));
    to.extend([2, 0, 0, 1]);
    to.extend(network.to_be_bytes());
    to.extend([0x81, 0]);
    to.extend(network.to_be_bytes());
    to.extend([8, 0, 0x45, 0]);
    to.extend(((len - 18) as u16).to_be_bytes());
    to.extend([0, 0, 0, 0, 64, 17, 0, 0]);
    let (src, dst, ports) = match pattern {
        Pattern::Flows => {
            ([10, r[0], r[1], r[2]], [10, r[3], r[4], r[5]], [r[6], r[7], r[1], r[6]])
        }
        Pattern::Hosts | Pattern::Nobody => ([10, 0, 0, 1], [10, 0, 0, 2], [16, 0, 16, 1]),
    };
    to.extend(src);
    to.extend(dst);
    let sum: u32 = to[18..38].chunks(2).map(|c| u32::from(c[0]) << 8 | u32::from(c[1])).sum();
    let sum = (sum & 0xffff) + (sum >> 16);
    let sum = !((sum & 0xffff) + (sum >> 16)) as u16;
    to[28..30].copy_from_slice(&sum.to_be_bytes());
    to.extend(ports);
    // Without a UDP checksum (RFC 768: zero).
    to.extend(((len - 38) as u16).to_be_bytes());
    to.extend([0, 0]);
    to.extend(network.to_be_bytes());
    to.extend(at.to_be_bytes());
    to.resize(len, 0);
}

/// Whose a frame is, and when it came; `None` for one that was not made here.
pub fn read(frame: &[u8]) -> Option<(u16, u64)> {
    let payload: &[u8; 10] = frame.get(PAYLOAD..)?.first_chunk()?;
    let [a, b, at @ ..] = *payload;
    Some((u16::from_be_bytes([a, b]), u64::from_be_bytes(at)))
}

/// Whether a frame that was forwarded bears the tag and the mark of the network whose it is.
pub fn is_its_own(frame: &[u8]) -> bool {
    let Some((network, _)) = read(frame) else { return false };
    frame.get(6..12) == Some(&mark(network)[..])
        && frame.get(14..16) == Some(&network.to_be_bytes()[..])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn frames_say_whose_they_are() {
        let mut f = Vec::new();
        write(&mut f, 7, Pattern::Flows, 99, 64, 0x0102_0304);
        assert_eq!((f.len(), read(&f)), (60, Some((7, 0x0102_0304))));
        // RFC 1071: the sum over a header with its checksum is all ones.
        let sum: u32 = f[18..38].chunks(2).map(|c| u32::from(c[0]) << 8 | u32::from(c[1])).sum();
        assert_eq!((sum & 0xffff) + (sum >> 16), 0xffff);
        assert!(!is_its_own(&f), "it bears no mark yet");
        f[6..12].copy_from_slice(&mark(7));
        assert!(is_its_own(&f));
        f[15] = 8;
        assert!(!is_its_own(&f), "another's tag");
        assert_eq!(read(&f[..50]), None);
    }
}
