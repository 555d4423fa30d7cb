//! The gateway's way from the core to subscribers. Called by `mod.rs` for frames of core ports.

use super::{
    Bng, ETH, IPV4, Port, QINQ, Side, Stop, hop, ipv4, mark, replace_front, subscriber_key,
};
use crate::action::PortNo;
use crate::processing::ecn;
use weir_packet::Frame;
use weir_wire::checksum::Verdict;
use weir_wire::{EtherType, GrePacket};

/// Where the outer IPv4 header lies: behind Ethernet's and one label.
const OUTER: usize = ETH + 4;
const GRE: u8 = 47;

/// Where the inner packet lies, and the key in front of it.
#[inline(always)]
fn unwrap(bytes: &[u8], port: &Port, tunnel: [u8; 4]) -> Result<(usize, u32), Stop> {
    let h = bytes.first_chunk::<OUTER>().ok_or(Stop::Runt)?;
    if h[..6] != port.mac.octets() {
        return Err(Stop::NotOurs);
    }
    // One entry, the bottom of its stack.
    if [h[12], h[13]] != [0x88, 0x47] || h[16] & 1 == 0 {
        return Err(Stop::NoSuchHeader);
    }
    let packet = bytes.get(OUTER..).unwrap_or_default();
    let (ip, total) = ipv4(packet)?;
    if ip[16..] != tunnel {
        return Err(Stop::NotOurs);
    }
    if ip[9] != GRE {
        return Err(Stop::NoSuchHeader);
    }
    // More fragments, or an offset.
    if u16::from_be_bytes([ip[6], ip[7]]) & 0x3fff != 0 {
        return Err(Stop::Fragment);
    }
    let header = usize::from(ip[0] & 0xf) * 4;
    let gre = packet.get(header..total).unwrap_or_default();
    let gre = GrePacket::new_checked(gre).map_err(|_| Stop::Malformed)?;
    // The key is in the sum: a wrong one is another subscriber's (RFC 2784 §2.3).
    if gre.verify_checksum() == Verdict::Bad {
        return Err(Stop::Malformed);
    }
    if gre.protocol() != EtherType::Ipv4 {
        return Err(Stop::NoSuchHeader);
    }
    let key = gre.key().ok_or(Stop::NoSuchHeader)?;
    Ok((OUTER + header + gre.header_len(), key))
}

/// Writes what lies in front of a packet to a subscriber: his MAC and tags, and the port that he is behind.
#[inline(always)]
pub(super) fn address(h: &mut [u8; QINQ], (mac, tags): (&[u8; 6], &[u8; 6]), out: &Port) {
    h[..6].copy_from_slice(mac);
    h[6..12].copy_from_slice(&out.mac.octets());
    h[12..16].copy_from_slice(&tags[..4]);
    h[16..18].copy_from_slice(&[0x81, 0x00]);
    h[18..20].copy_from_slice(&tags[4..]);
    h[20..22].copy_from_slice(&[0x08, 0x00]);
}

impl Bng {
    /// Asks for the subscriber that a frame will lead to. Only glances: an outer header with options
    /// leads elsewhere, and nothing comes of it.
    #[inline]
    pub(super) fn expect_downstream(&self, bytes: &[u8]) {
        let gre = bytes.get(OUTER + IPV4..).unwrap_or_default();
        // The key stands behind the checksum, where there is one (RFC 2890 §2).
        let key = if gre.first().is_some_and(|b| b & 0x80 != 0) { 8 } else { 4 };
        let Some(h) = gre.get(key..).and_then(|b| b.first_chunk::<{ 4 + IPV4 }>()) else { return };
        let word = |i: usize| u32::from_be_bytes([h[i], h[i + 1], h[i + 2], h[i + 3]]);
        let subscriber = subscriber_key(word(0), word(4 + 16));
        self.subscribers.prefetch(self.subscribers.hash(&subscriber));
    }

    /// Makes a frame from the core one for a subscriber; says by which port it leaves.
    #[inline]
    pub(super) fn downstream(&mut self, frame: &mut Frame, port: Port) -> Result<PortNo, Stop> {
        debug_assert!(port.side == Side::Core);
        let bytes = frame.bytes();
        let (at, key) = unwrap(bytes, &port, self.tunnel.octets())?;
        let end = OUTER + usize::from(u16::from_be_bytes([bytes[OUTER + 2], bytes[OUTER + 3]]));
        let (ip, total) = ipv4(bytes.get(at..end).unwrap_or_default())?;
        let dst = u32::from_be_bytes([ip[16], ip[17], ip[18], ip[19]]);
        let s = *self.subscribers.get(&subscriber_key(key, dst)).ok_or(Stop::NoSubscriber)?;
        let out = *self.ports.get(usize::from(s.port)).ok_or(Stop::NoSubscriber)?;
        if ip[8] <= 1 {
            return Err(Stop::TtlExpired);
        }
        let tos = ecn::decapsulated(bytes[OUTER + 1], ip[1]).map_err(|_| Stop::Congestion)?;
        let h = replace_front::<{ QINQ + IPV4 }>(frame, at + IPV4, total - IPV4)?;
        if let Some(front) = h.first_chunk_mut() {
            address(front, (&s.mac, &s.tags), &out);
        }
        if let Some(ip) = h.last_chunk_mut() {
            mark(ip, tos);
            hop(ip);
        }
        self.counters.to_access += 1;
        Ok(out.no)
    }
}
