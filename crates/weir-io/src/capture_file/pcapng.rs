//! pcapng: a sequence of blocks, in sections that each have a byte order and interfaces.
//!
//! Room: `capture_file`. Read: section header, interface description, enhanced, simple and the
//! obsolete packet block. Every other block is skipped without being kept. Source:
//! draft-ietf-opsawg-pcapng §3 and §4.

use super::{CaptureError, Direction, Endian, Input, MAX_BLOCK, MAX_CAPTURED, Record};
use std::io::Read;
use weir_packet::Nanos;

/// Block type of a section header; a palindrome, so that it reads the same in both byte orders.
pub(super) const SHB: [u8; 4] = [0x0a, 0x0d, 0x0d, 0x0a];
const SHB_TYPE: u32 = 0x0a0d_0d0a;
const IDB: u32 = 1;
const OPB: u32 = 2;
const SPB: u32 = 3;
const EPB: u32 = 6;
const MAGIC: [u8; 4] = [0x1a, 0x2b, 0x3c, 0x4d];

const OPT_END: u16 = 0;
const IF_NAME: u16 = 2;
const IF_TSRESOL: u16 = 9;
const IF_FCSLEN: u16 = 13;
const IF_TSOFFSET: u16 = 14;
const PACKET_FLAGS: u16 = 2;

/// More interfaces than this in one section are taken for damage; memory is the reason.
const MAX_INTERFACES: usize = 65_536;
const MAX_NAME: usize = 256;
const SECTION: &str = "section header block";
const BLOCK: &str = "block";

/// How many ticks make a second (if_tsresol).
#[derive(Clone, Copy, Debug)]
enum Resolution {
    PowerOfTen(u8),
    PowerOfTwo(u8),
}

impl Resolution {
    /// Ticks to nanoseconds; saturates.
    fn ns(self, ticks: u64) -> u64 {
        let ticks = u128::from(ticks);
        let ns = match self {
            Self::PowerOfTen(n @ 0..=9) => ticks * 10u128.pow(9 - u32::from(n)),
            // Beyond 10^-38 the power overflows, and no count of ticks makes a nanosecond.
            Self::PowerOfTen(n) => {
                10u128.checked_pow(u32::from(n) - 9).map_or(0, |power| ticks / power)
            }
            Self::PowerOfTwo(n) => {
                (ticks * 1_000_000_000).checked_shr(n.into()).unwrap_or_default()
            }
        };
        u64::try_from(ns).unwrap_or(u64::MAX)
    }
}

#[derive(Debug)]
struct Interface {
    link_type: u32,
    snaplen: u32,
    resolution: Resolution,
    offset_s: i64,
    fcs_bytes: u32,
    name: Option<String>,
}

impl Interface {
    fn stamp(&self, high: u32, low: u32) -> Nanos {
        let ns = self.resolution.ns(u64::from(high) << 32 | u64::from(low));
        let offset = i128::from(self.offset_s) * 1_000_000_000;
        let ns = i128::from(ns) + offset;
        Nanos(u64::try_from(ns.max(0)).unwrap_or(u64::MAX))
    }
}

/// What a packet block says about its frame; the bytes are `data` of the block's body.
struct Packet {
    interface: u32,
    stamp: Option<Nanos>,
    original_len: u32,
    direction: Option<Direction>,
    data: std::ops::Range<usize>,
}

#[derive(Debug)]
pub(super) struct Pcapng {
    endian: Endian,
    interfaces: Vec<Interface>,
}

impl Pcapng {
    /// Reads the first section header behind its block type.
    pub(super) fn new<R: Read>(input: &mut Input<R>) -> Result<Self, CaptureError> {
        let mut this = Self { endian: Endian::Little, interfaces: Vec::new() };
        this.section(input, 0)?;
        Ok(this)
    }

    pub(super) fn interface_name(&self, interface: u32) -> Option<&str> {
        self.interfaces.get(interface as usize)?.name.as_deref()
    }

    /// A section header whose type was read at byte `at`.
    fn section<R: Read>(&mut self, input: &mut Input<R>, at: u64) -> Result<(), CaptureError> {
        let mut h = [0; 8];
        input.read(&mut h, at, SECTION)?;
        let magic = [h[4], h[5], h[6], h[7]];
        self.endian = if magic == MAGIC {
            Endian::Big
        } else if magic.iter().eq(MAGIC.iter().rev()) {
            Endian::Little
        } else {
            return Err(damaged(at + 8, "a section header without byte-order magic"));
        };
        let len = self.endian.u32(&h, 0);
        // Type, two lengths, magic, version, section length.
        if len < 28 || !len.is_multiple_of(4) {
            return Err(damaged(at + 4, "a section header of impossible length"));
        }
        let mut version = [0; 4];
        input.read(&mut version, at, SECTION)?;
        if self.endian.u16(&version, 0) != 1 {
            return Err(damaged(at + 12, "the version of the pcapng format is not 1"));
        }
        input.skip(len - 20, at, SECTION)?;
        self.trailer(input, len, at)?;
        self.interfaces.clear();
        Ok(())
    }

    /// Reads the length that ends a block and compares it with the one that began it.
    fn trailer<R: Read>(
        &self,
        input: &mut Input<R>,
        len: u32,
        at: u64,
    ) -> Result<(), CaptureError> {
        let mut t = [0; 4];
        input.read(&mut t, at, BLOCK)?;
        if self.endian.u32(&t, 0) != len {
            return Err(damaged(at, "a block's two lengths differ"));
        }
        Ok(())
    }

    pub(super) fn next<'a, R: Read>(
        &mut self,
        input: &'a mut Input<R>,
    ) -> Result<Option<Record<'a>>, CaptureError> {
        let packet = loop {
            let at = input.offset();
            let mut kind = [0; 4];
            match input.read_up_to(&mut kind)? {
                0 => return Ok(None),
                4 => {}
                _ => {
                    let end = input.offset();
                    return Err(CaptureError::CutShort { at, end, what: BLOCK, frames: 0 });
                }
            }
            let kind = self.endian.u32(&kind, 0);
            if kind == SHB_TYPE {
                self.section(input, at)?;
                continue;
            }
            let mut len = [0; 4];
            input.read(&mut len, at, BLOCK)?;
            let len = self.endian.u32(&len, 0);
            if len < 12 || !len.is_multiple_of(4) {
                return Err(damaged(at + 4, "a block of impossible length"));
            }
            if !matches!(kind, IDB | OPB | SPB | EPB) {
                input.skip(len - 12, at, BLOCK)?;
                self.trailer(input, len, at)?;
                continue;
            }
            if len > MAX_BLOCK {
                return Err(damaged(at + 4, "a block longer than 393216 bytes"));
            }
            input.take(len - 12, at, BLOCK)?;
            self.trailer(input, len, at)?;
            let body = input.taken();
            match kind {
                IDB => {
                    let interface = self.interface(body, at)?;
                    self.interfaces.push(interface);
                }
                SPB => break self.simple(body, at)?,
                EPB => break self.enhanced(body, at)?,
                _ => break self.obsolete(body, at)?,
            }
        };
        let end = input.offset();
        let Some(interface) = self.interfaces.get(packet.interface as usize) else {
            return Err(damaged(end, "a frame of an interface that the file does not describe"));
        };
        let bytes = input.taken().get(packet.data).unwrap_or_default();
        let (bytes, original_len) =
            super::without_fcs(bytes, packet.original_len, interface.fcs_bytes);
        Ok(Some(Record {
            stamp: packet.stamp,
            interface: packet.interface,
            link_type: interface.link_type,
            direction: packet.direction,
            original_len,
            bytes,
        }))
    }

    fn interface(&self, body: &[u8], at: u64) -> Result<Interface, CaptureError> {
        if body.len() < 8 {
            return Err(damaged(at, "an interface description that is too short"));
        }
        if self.interfaces.len() >= MAX_INTERFACES {
            return Err(damaged(at, "more than 65536 interfaces in a section"));
        }
        let mut i = Interface {
            link_type: self.endian.u16(body, 0).into(),
            snaplen: self.endian.u32(body, 4),
            resolution: Resolution::PowerOfTen(6),
            offset_s: 0,
            fcs_bytes: 0,
            name: None,
        };
        self.options(body.get(8..).unwrap_or_default(), |code, value| match (code, value) {
            (IF_TSRESOL, [v]) if v & 0x80 == 0 => i.resolution = Resolution::PowerOfTen(*v),
            (IF_TSRESOL, [v]) => i.resolution = Resolution::PowerOfTwo(v & 0x7f),
            (IF_TSOFFSET, [_, _, _, _, _, _, _, _]) => {
                let (a, b) = (self.endian.u32(value, 0), self.endian.u32(value, 4));
                let (high, low) = match self.endian {
                    Endian::Big => (a, b),
                    Endian::Little => (b, a),
                };
                i.offset_s = (u64::from(high) << 32 | u64::from(low)) as i64;
            }
            // In bytes, though some writers meant bits; an Ethernet FCS has four bytes.
            (IF_FCSLEN, [v]) => i.fcs_bytes = if *v == 32 { 4 } else { (*v).into() },
            (IF_NAME, v) if v.len() <= MAX_NAME => {
                i.name = Some(String::from_utf8_lossy(v).trim_end_matches('\0').to_owned());
            }
            _ => {}
        });
        Ok(i)
    }

    /// Calls `each` with code and value of every whole option. One that is not ends the walk: an
    /// option is decoration, the frame in front of it is whole.
    fn options(&self, mut rest: &[u8], mut each: impl FnMut(u16, &[u8])) {
        while rest.len() >= 4 {
            let (code, len) = (self.endian.u16(rest, 0), usize::from(self.endian.u16(rest, 2)));
            let Some(value) = rest.get(4..4 + len) else { return };
            if code == OPT_END {
                return;
            }
            each(code, value);
            rest = rest.get(4 + len.next_multiple_of(4)..).unwrap_or_default();
        }
    }

    fn enhanced(&self, body: &[u8], at: u64) -> Result<Packet, CaptureError> {
        let interface = self.endian.u32(body, 0);
        self.stamped(body, at, interface)
    }

    /// The obsolete packet block differs in the first word: two bytes of interface, two of drops.
    fn obsolete(&self, body: &[u8], at: u64) -> Result<Packet, CaptureError> {
        let interface = self.endian.u16(body, 0);
        self.stamped(body, at, interface.into())
    }

    fn stamped(&self, body: &[u8], at: u64, interface: u32) -> Result<Packet, CaptureError> {
        if body.len() < 20 {
            return Err(damaged(at, "a packet block that is too short"));
        }
        let word = |i| self.endian.u32(body, i);
        let captured = word(12);
        let data = 20..20 + captured as usize;
        if captured > MAX_CAPTURED || data.end > body.len() {
            return Err(damaged(at, "a packet block whose frame does not fit into it"));
        }
        let mut direction = None;
        let options = body.get(data.end.next_multiple_of(4)..).unwrap_or_default();
        self.options(options, |code, value| {
            if code == PACKET_FLAGS && value.len() == 4 {
                direction = match self.endian.u32(value, 0) & 3 {
                    1 => Some(Direction::In),
                    2 => Some(Direction::Out),
                    _ => None,
                };
            }
        });
        let stamp = self.interfaces.get(interface as usize).map(|i| i.stamp(word(4), word(8)));
        Ok(Packet { interface, stamp, original_len: word(16), direction, data })
    }

    fn simple(&self, body: &[u8], at: u64) -> Result<Packet, CaptureError> {
        if body.len() < 4 {
            return Err(damaged(at, "a simple packet block that is too short"));
        }
        let original_len = self.endian.u32(body, 0);
        let snaplen = match self.interfaces.first().map_or(0, |i| i.snaplen) {
            0 => u32::MAX,
            n => n,
        };
        // The block does not say how much was captured: all of it, up to the snap length.
        let captured = original_len.min(snaplen) as usize;
        if captured > body.len() - 4 || captured > MAX_CAPTURED as usize {
            return Err(damaged(at, "a simple packet block whose frame does not fit into it"));
        }
        let data = 4..4 + captured;
        Ok(Packet { interface: 0, stamp: None, original_len, direction: None, data })
    }
}

fn damaged(at: u64, problem: &'static str) -> CaptureError {
    CaptureError::Malformed { at, problem }
}
