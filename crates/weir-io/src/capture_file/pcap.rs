//! The classic pcap format: a header of 24 bytes, then records of 16 bytes and the frame.
//!
//! Room: `capture_file`. Source: draft-ietf-opsawg-pcap.

use super::{CaptureError, Endian, Input, MAX_CAPTURED, Record};
use std::io::Read;
use weir_packet::Nanos;

const RECORD: &str = "pcap record";

/// What the magic number says: byte order, and nanoseconds per tick of the second time field.
#[derive(Clone, Copy, Debug)]
pub(super) struct Kind {
    endian: Endian,
    tick_ns: u64,
}

impl Kind {
    pub(super) fn of_magic(magic: [u8; 4]) -> Option<Self> {
        let (endian, tick_ns) = match magic {
            [0xd4, 0xc3, 0xb2, 0xa1] => (Endian::Little, 1000),
            [0xa1, 0xb2, 0xc3, 0xd4] => (Endian::Big, 1000),
            [0x4d, 0x3c, 0xb2, 0xa1] => (Endian::Little, 1),
            [0xa1, 0xb2, 0x3c, 0x4d] => (Endian::Big, 1),
            _ => return None,
        };
        Some(Self { endian, tick_ns })
    }
}

#[derive(Debug)]
pub(super) struct Pcap {
    kind: Kind,
    pub(super) link_type: u32,
    fcs_bytes: u32,
}

impl Pcap {
    /// Reads the header behind the magic number.
    pub(super) fn new<R: Read>(input: &mut Input<R>, kind: Kind) -> Result<Self, CaptureError> {
        let mut h = [0; 20];
        input.read(&mut h, 0, "pcap header")?;
        if kind.endian.u16(&h, 0) != 2 || kind.endian.u16(&h, 2) != 4 {
            return Err(CaptureError::Malformed {
                at: 4,
                problem: "the version of the pcap format is not 2.4",
            });
        }
        let network = kind.endian.u32(&h, 16);
        // Bit 26 says that the upper four bits count the FCS, in units of two bytes.
        let fcs_bytes = if network & 1 << 26 == 0 { 0 } else { (network >> 28) * 2 };
        Ok(Self { kind, link_type: network & 0xffff, fcs_bytes })
    }

    pub(super) fn next<'a, R: Read>(
        &self,
        input: &'a mut Input<R>,
    ) -> Result<Option<Record<'a>>, CaptureError> {
        let at = input.offset();
        let mut h = [0; 16];
        match input.read_up_to(&mut h)? {
            0 => return Ok(None),
            16 => {}
            _ => {
                let end = input.offset();
                return Err(CaptureError::CutShort { at, end, what: RECORD, frames: 0 });
            }
        }
        let field = |i| u64::from(self.kind.endian.u32(&h, i));
        let ns = field(0) * 1_000_000_000 + field(4) * self.kind.tick_ns;
        let captured = self.kind.endian.u32(&h, 8);
        let original_len = self.kind.endian.u32(&h, 12);
        if captured > MAX_CAPTURED {
            return Err(CaptureError::Malformed {
                at: at + 8,
                problem: "a record is longer than 262144 bytes",
            });
        }
        let bytes = input.take(captured, at, RECORD)?;
        let (bytes, original_len) = super::without_fcs(bytes, original_len, self.fcs_bytes);
        Ok(Some(Record {
            stamp: Some(Nanos(ns)),
            interface: 0,
            link_type: self.link_type,
            direction: None,
            original_len,
            bytes,
        }))
    }
}
