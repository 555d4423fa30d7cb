//! IPv4 and UDP made and judged slowly, for frames and oracles of functions. Touches bytes only.
//!
//! Shares nothing with the data plane: oracles are built on it.

/// The Internet checksum (RFC 1071) by long addition; the field itself is to be zero.
pub fn checksum(bytes: &[u8]) -> [u8; 2] {
    let mut sum = 0u32;
    for pair in bytes.chunks(2) {
        sum += u32::from(pair[0]) << 8 | u32::from(pair.get(1).copied().unwrap_or(0));
        if sum > 0xffff {
            sum -= 0xffff;
        }
    }
    (!(sum as u16)).to_be_bytes()
}

/// An IPv4 header without options in front of this payload.
pub fn ipv4(src: u32, dst: u32, ttl: u8, protocol: u8, payload: &[u8]) -> Vec<u8> {
    let mut ip = vec![0x45, 0, 0, 0, 0, 0, 0, 0, ttl, protocol, 0, 0];
    ip.extend(src.to_be_bytes());
    ip.extend(dst.to_be_bytes());
    ip[2..4].copy_from_slice(&((20 + payload.len()) as u16).to_be_bytes());
    let sum = checksum(&ip);
    ip[10..12].copy_from_slice(&sum);
    ip.extend(payload);
    ip
}

/// A UDP datagram of `len` bytes in all, without a checksum, as it is let be over IPv4.
pub fn udp(src: u16, dst: u16, len: usize) -> Vec<u8> {
    let mut udp = Vec::with_capacity(len);
    udp.extend(src.to_be_bytes());
    udp.extend(dst.to_be_bytes());
    udp.extend((len as u16).to_be_bytes());
    udp.resize(len.max(8), 0);
    udp
}

/// The same IPv4 packet, good as it is, a hop later; nothing where it ends there.
pub fn hop(ip: &[u8]) -> Option<Vec<u8>> {
    let mut ip = ip.to_vec();
    ip[8] = ip[8].checked_sub(1).filter(|ttl| *ttl > 0)?;
    ip[10..12].fill(0);
    let sum = checksum(&ip[..20]);
    ip[10..12].copy_from_slice(&sum);
    Some(ip)
}
