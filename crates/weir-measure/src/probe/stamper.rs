//! Writes a stream's frames: everything but stamp and number once, those two for each frame.
//!
//! Touches bytes. Called by the generator. Cost per frame: one copy and ten bytes of checksum.

use super::{MAGIC, PROOF_BYTES, ProbeError, Run, Stream, VARIABLE, fill};
use weir_packet::Nanos;
use weir_wire::build::Frame;
use weir_wire::checksum::{PseudoHeader, Sum};
use weir_wire::{IpProtocol, udp};

/// A stream's frames, ready but for stamp and number.
#[derive(Clone, Debug)]
pub struct Stamper {
    bytes: Vec<u8>,
    /// Where the UDP header begins.
    udp_at: usize,
    /// The UDP checksum's sum of everything that does not change.
    constant: Sum,
}

impl Stamper {
    /// For the frames of `stream` in one trial.
    ///
    /// # Errors
    /// [`ProbeError::Size`]; [`ProbeError::Header`] for a tag that can't be (a VLAN id above 4095).
    pub fn new(stream: &Stream, run: Run) -> Result<Self, ProbeError> {
        let len = stream.payload_len()?;
        let mut payload = vec![0; PROOF_BYTES];
        if let Some(proof) = payload.first_chunk_mut::<PROOF_BYTES>() {
            proof[..2].copy_from_slice(&MAGIC.to_be_bytes());
            proof[2..4].copy_from_slice(&stream.id.to_be_bytes());
            proof[4] = run.0;
        }
        payload.extend_from_slice(fill::of(stream.id, len - PROOF_BYTES).unwrap_or_default());
        let h = &stream.headers;
        let frame = Frame::udp_v4(h.src, h.dst, &payload)
            .macs(h.src_mac, h.dst_mac)
            .tags(h.vlan.as_slice())
            .ttl(h.ttl);
        let mut bytes = vec![0; frame.len()];
        frame.emit(&mut bytes)?;
        let udp_at = h.len() - udp::HEADER_LEN;
        let datagram = bytes.get(udp_at..).unwrap_or_default();
        let mut zeroed = datagram.to_vec();
        // Checksum and the variable part, the run excepted, count as zero.
        for range in [6..8, udp::HEADER_LEN + VARIABLE.start + 1..udp::HEADER_LEN + VARIABLE.end] {
            if let Some(part) = zeroed.get_mut(range) {
                part.fill(0);
            }
        }
        let pseudo = PseudoHeader::V4(*h.src.ip(), *h.dst.ip());
        let constant = pseudo.sum(IpProtocol::Udp, zeroed.len()).bytes(&zeroed);
        Ok(Self { bytes, udp_at, constant })
    }

    /// Length of the frames in memory, without FCS.
    pub fn len(&self) -> usize {
        self.bytes.len()
    }

    /// Writes the frame of that number to the front of `out`; its length, or `None` when `out` is
    /// shorter than [`Self::len`].
    #[inline]
    pub fn write(&self, number: u64, stamp: Nanos, out: &mut [u8]) -> Option<usize> {
        let out = out.get_mut(..self.bytes.len())?;
        out.copy_from_slice(&self.bytes);
        // Stamp in five bytes, number in four; the first byte of the even-sized part is the run.
        let [.., a, b, c, d, e] = stamp.0.to_be_bytes();
        let [f, g, h, i] = (number as u32).to_be_bytes();
        let variable = [0, a, b, c, d, e, f, g, h, i];
        let udp = out.get_mut(self.udp_at..)?;
        let proof = udp.get_mut(udp::HEADER_LEN..)?;
        proof.get_mut(VARIABLE)?.get_mut(1..)?.copy_from_slice(variable.get(1..)?);
        // As a word of its own: the constant part may be of odd length.
        let sum = self.constant.word(Sum::new().bytes(&variable).fold()).checksum();
        // RFC 768: a sum of zero is sent as all ones.
        let sum = if sum == 0 { 0xffff } else { sum };
        udp.get_mut(6..8)?.copy_from_slice(&sum.to_be_bytes());
        Some(self.bytes.len())
    }
}

#[cfg(test)]
mod tests {
    use super::super::{Headers, Stream};
    use super::*;
    use proptest::prelude::*;
    use weir_wire::checksum::Verdict;
    use weir_wire::{EtherType, Ipv4Packet, UdpPacket, VlanRepr, vlan};

    fn arbitrary_stream() -> impl Strategy<Value = Stream> {
        (any::<u16>(), any::<[u8; 12]>(), prop::option::of(0u16..4096), 64usize..=1518).prop_map(
            |(id, n, vid, size)| {
                let addr = |a: &[u8]| std::net::Ipv4Addr::new(a[0], a[1], a[2], a[3]);
                Stream {
                    id,
                    headers: Headers {
                        vlan: vid.map(VlanRepr::dot1q),
                        src: std::net::SocketAddrV4::new(addr(&n[..4]), u16::from(n[8]) << 8 | 1),
                        dst: std::net::SocketAddrV4::new(addr(&n[4..8]), u16::from(n[9])),
                        ttl: n[10],
                        ..Headers::default()
                    },
                    frame_bytes_on_wire: size,
                    entry: 0,
                    exit: None,
                }
            },
        )
    }

    proptest! {
        /// The parser of another crate, and its checksum over the whole datagram, are the judges.
        #[test]
        fn frames_are_whole_and_their_checksums_right(
            stream in arbitrary_stream(), run in any::<u8>(), number in any::<u64>(), stamp in any::<u64>(),
        ) {
            let stamper = Stamper::new(&stream, Run(run)).unwrap();
            let mut out = [0xaa; 1600];
            let len = stamper.write(number, Nanos(stamp), &mut out).unwrap();
            prop_assert_eq!(len, stream.frame_bytes_on_wire - 4);
            let stack = vlan::walk(&out[..len], 4).unwrap();
            prop_assert_eq!(stack.ether_type, EtherType::Ipv4);
            let ip = Ipv4Packet::new_checked(&out[stack.payload_at()..len]).unwrap();
            prop_assert!(ip.has_good_checksum());
            prop_assert_eq!(usize::from(ip.total_len()), len - stack.payload_at(), "no padding");
            let udp = UdpPacket::new_checked(ip.payload()).unwrap();
            let pseudo = PseudoHeader::V4(ip.src(), ip.dst());
            prop_assert_eq!(udp.verify_checksum(&pseudo), Verdict::Good);
            let p = udp.payload();
            prop_assert_eq!(&p[..2], &[0x5e, 0xe1]);
            prop_assert_eq!(&p[2..4], &stream.id.to_be_bytes());
            prop_assert_eq!(p[4], run);
            prop_assert_eq!(&p[5..10], &stamp.to_be_bytes()[3..]);
            prop_assert_eq!(&p[10..14], &number.to_be_bytes()[4..]);
        }
    }

    /// Written by this code, then judged by tshark 4.0: 61 bytes, VLAN 100, both checksums good, UDP
    /// length 23. An odd length, so the checksum's last byte is a word of its own.
    #[test]
    fn golden() {
        let stream = Stream {
            id: 0x0102,
            headers: Headers { vlan: Some(VlanRepr::dot1q(100)), ..Headers::default() },
            frame_bytes_on_wire: 65,
            entry: 0,
            exit: None,
        };
        let mut out = [0; 61];
        let stamper = Stamper::new(&stream, Run(7)).unwrap();
        stamper.write(0xdead_beef, Nanos(0x12_3456_789a), &mut out).unwrap();
        let hex: String = out.iter().map(|b| format!("{b:02x}")).collect();
        let want = [
            "02000001000102000000000181000064",
            "08004500002b000040004011ae9ac612",
            "0001c6130001c000000700175d0c5ee1",
            "010207123456789adeadbeefa5",
        ];
        assert_eq!(hex, want.concat());
    }

    #[test]
    fn room_and_impossible_headers() {
        let stream = Stream {
            id: 0,
            headers: Headers::default(),
            frame_bytes_on_wire: 64,
            entry: 0,
            exit: None,
        };
        let stamper = Stamper::new(&stream, Run(0)).unwrap();
        assert_eq!(stamper.write(0, Nanos(0), &mut [0; 59]), None);
        assert_eq!(stamper.write(0, Nanos(0), &mut [0; 60]), Some(60));
        let mut bad = stream;
        bad.headers.vlan = Some(VlanRepr { vid: 5000, ..VlanRepr::dot1q(0) });
        assert!(matches!(Stamper::new(&bad, Run(0)), Err(ProbeError::Header(_))));
    }
}
