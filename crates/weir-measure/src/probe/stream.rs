//! What a stream of probes looks like: its headers, its size, and many streams out of one.
//!
//! Touches nothing; no bytes are written here. Called by whoever sets up a measurement.

use super::{FCS_BYTES, MAX_FRAME_BYTES_ON_WIRE, MIN_FRAME_BYTES_ON_WIRE};
use std::net::{Ipv4Addr, SocketAddrV4};
use thiserror::Error;
use weir_wire::vlan::TAG_LEN;
use weir_wire::{MacAddr, VlanRepr, ethernet, ipv4, udp};

/// Why a probe can't be made.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum ProbeError {
    /// A size that Ethernet has not.
    #[error("a frame of {have} bytes (FCS included) is outside {least} to {most}")]
    Size {
        /// What was asked for.
        have: usize,
        /// The smallest.
        least: usize,
        /// The largest, for these tags.
        most: usize,
    },
    /// Two streams of one id.
    #[error("stream {0} is there twice: give each stream an id of its own")]
    Twice(u16),
    /// More streams than ids.
    #[error("{0} streams are more than the 65536 that have ids")]
    TooMany(usize),
    /// A header that can't be written.
    #[error(transparent)]
    Header(#[from] weir_wire::Error),
}

/// The headers of a stream's frames.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Headers {
    /// Source MAC address.
    pub src_mac: MacAddr,
    /// Destination MAC address.
    pub dst_mac: MacAddr,
    /// VLAN tag, if any.
    pub vlan: Option<VlanRepr>,
    /// Source address and UDP port.
    pub src: SocketAddrV4,
    /// Destination address and UDP port.
    pub dst: SocketAddrV4,
    /// Time to live.
    pub ttl: u8,
}

impl Default for Headers {
    /// Locally administered MAC addresses, no tag, addresses from the benchmarking block
    /// 198.18.0.0/15 (RFC 2544 appendix C.2.2), UDP port 7 (echo, as in appendix C.2.6.4), TTL 64.
    fn default() -> Self {
        Self {
            src_mac: MacAddr([2, 0, 0, 0, 0, 1]),
            dst_mac: MacAddr([2, 0, 0, 1, 0, 1]),
            vlan: None,
            src: SocketAddrV4::new(Ipv4Addr::new(198, 18, 0, 1), 49_152),
            dst: SocketAddrV4::new(Ipv4Addr::new(198, 19, 0, 1), 7),
            ttl: 64,
        }
    }
}

impl Headers {
    /// Bytes in front of the proof.
    pub(super) const fn len(&self) -> usize {
        let tag = if self.vlan.is_some() { TAG_LEN } else { 0 };
        ethernet::HEADER_LEN + tag + ipv4::HEADER_LEN + udp::HEADER_LEN
    }

    /// These headers with `n` added to each field of `vary`; a field that overflows begins anew.
    #[must_use]
    pub fn nth(mut self, n: u16, vary: &[Vary]) -> Self {
        let port = |a: SocketAddrV4| SocketAddrV4::new(*a.ip(), a.port().wrapping_add(n));
        let addr = |a: SocketAddrV4| {
            SocketAddrV4::new(
                Ipv4Addr::from_bits(a.ip().to_bits().wrapping_add(n.into())),
                a.port(),
            )
        };
        for field in vary {
            match field {
                Vary::SrcMac => self.src_mac = later_mac(self.src_mac, n),
                Vary::DstMac => self.dst_mac = later_mac(self.dst_mac, n),
                Vary::Vlan => self.vlan = self.vlan.map(|tag| later_tag(tag, n)),
                Vary::SrcAddr => self.src = addr(self.src),
                Vary::DstAddr => self.dst = addr(self.dst),
                Vary::SrcPort => self.src = port(self.src),
                Vary::DstPort => self.dst = port(self.dst),
            }
        }
        self
    }
}

/// A field that differs from stream to stream; see [`Headers::nth`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Vary {
    /// Source MAC address: its last three bytes.
    SrcMac,
    /// Destination MAC address: its last three bytes.
    DstMac,
    /// VLAN id, within 1 to 4094; without a tag nothing.
    Vlan,
    /// Source address.
    SrcAddr,
    /// Destination address.
    DstAddr,
    /// Source port.
    SrcPort,
    /// Destination port.
    DstPort,
}

fn later_mac(MacAddr([a, b, c, d, e, f]): MacAddr, n: u16) -> MacAddr {
    // Only the half that a vendor counts: the group bit and the vendor stay.
    let [_, d, e, f] = u32::from_be_bytes([0, d, e, f]).wrapping_add(n.into()).to_be_bytes();
    MacAddr([a, b, c, d, e, f])
}

fn later_tag(tag: VlanRepr, n: u16) -> VlanRepr {
    // 0 and 4095 are no VLANs.
    let vid = (u32::from(tag.vid.max(1)) - 1 + u32::from(n)) % 4094 + 1;
    VlanRepr { vid: vid as u16, ..tag }
}

/// A stream: frames of one look, numbered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stream {
    /// Its id, carried in each frame; its own among all streams that meet one checker.
    pub id: u16,
    /// The headers of its frames.
    pub headers: Headers,
    /// Size of its frames in bytes, FCS included: 64 to 1518, with a VLAN tag to 1522.
    pub frame_bytes_on_wire: usize,
    /// Which of the generator's ports its frames leave by, counted from 0.
    pub entry: u16,
    /// Which of the receiver's ports its frames must arrive at, counted from 0; any, if none is
    /// named.
    pub exit: Option<u16>,
}

impl Stream {
    /// Size of its frames in memory, without FCS.
    pub const fn frame_bytes_in_memory(&self) -> usize {
        self.frame_bytes_on_wire.saturating_sub(FCS_BYTES)
    }

    /// UDP payload in bytes: the proof and the fill.
    pub(super) fn payload_len(&self) -> Result<usize, ProbeError> {
        let tag = if self.headers.vlan.is_some() { TAG_LEN } else { 0 };
        let (least, most) = (MIN_FRAME_BYTES_ON_WIRE, MAX_FRAME_BYTES_ON_WIRE + tag);
        let have = self.frame_bytes_on_wire;
        if !(least..=most).contains(&have) {
            return Err(ProbeError::Size { have, least, most });
        }
        // At least 64 − 4 − 46, which is the proof.
        Ok(have - FCS_BYTES - self.headers.len())
    }
}

/// `count` streams, numbered from 0, that differ in the fields of `vary`; they enter by port 0 and may
/// leave by any.
///
/// # Errors
/// [`ProbeError::TooMany`]; [`ProbeError::Size`].
pub fn streams(
    base: Headers,
    vary: &[Vary],
    count: usize,
    frame_bytes_on_wire: usize,
) -> Result<Vec<Stream>, ProbeError> {
    (0..count)
        .map(|n| {
            let id = u16::try_from(n).map_err(|_| ProbeError::TooMany(count))?;
            let stream = Stream {
                id,
                headers: base.nth(id, vary),
                frame_bytes_on_wire,
                entry: 0,
                exit: None,
            };
            stream.payload_len()?;
            Ok(stream)
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_vary_within_their_bounds() {
        let base = Headers {
            src_mac: MacAddr([2, 1, 1, 0xff, 0xff, 0xff]),
            vlan: Some(VlanRepr::dot1q(4094)),
            ..Headers::default()
        };
        let all = [
            Vary::SrcMac,
            Vary::DstMac,
            Vary::Vlan,
            Vary::SrcAddr,
            Vary::DstAddr,
            Vary::SrcPort,
            Vary::DstPort,
        ];
        let h = base.nth(1, &all);
        assert_eq!(h.src_mac, MacAddr([2, 1, 1, 0, 0, 0]));
        assert_eq!(h.dst_mac, MacAddr([2, 0, 0, 1, 0, 2]));
        assert_eq!(h.vlan, Some(VlanRepr::dot1q(1)));
        assert_eq!(h.src, "198.18.0.2:49153".parse().unwrap());
        assert_eq!(h.dst, "198.19.0.2:8".parse().unwrap());
        assert_eq!(base.nth(0, &all), base);
        assert_eq!(Headers::default().nth(9, &[Vary::Vlan]).vlan, None);
        assert_eq!(base.nth(u16::MAX, &all).dst.port(), 6);
    }

    #[test]
    fn sizes_are_ethernets() {
        let plain = |n| streams(Headers::default(), &[], 1, n).map(|_| ());
        let error = |have, most| Err(ProbeError::Size { have, least: 64, most });
        assert_eq!(plain(63), error(63, 1518));
        assert_eq!(plain(64), Ok(()));
        assert_eq!(plain(1518), Ok(()));
        assert_eq!(plain(1519), error(1519, 1518));
        let tagged = Headers { vlan: Some(VlanRepr::dot1q(5)), ..Headers::default() };
        assert!(streams(tagged, &[], 1, 1522).is_ok());
        assert_eq!(
            streams(tagged, &[], 1, 64).unwrap()[0].payload_len(),
            Ok(super::super::PROOF_BYTES)
        );
        assert_eq!(streams(tagged, &[], 65_537, 64).map(|_| ()), Err(ProbeError::TooMany(65_537)));
    }
}
