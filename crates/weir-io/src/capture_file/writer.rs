//! Writes pcap and pcapng, little-endian, stamps in nanoseconds.
//!
//! Room: `capture_file`. Called by [`super::PcapOut`], by the tap wrapper and by whoever captures.

use super::{Direction, LINKTYPE_ETHERNET, MAX_CAPTURED};
use std::io::{self, Write};
use weir_packet::Nanos;

/// Which format to write.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Format {
    /// pcap with the magic number of nanoseconds: one interface, no direction.
    Pcap,
    /// pcapng with if_tsresol 9: several interfaces, and a direction per frame.
    Pcapng,
}

/// Writes frames as they come. Every frame is handed to `to` in few small writes: give a buffered
/// writer, and call [`Writer::flush`] at the end.
#[derive(Debug)]
pub struct Writer<W> {
    to: W,
    format: Format,
    snaplen: u32,
    interfaces: u32,
}

impl<W: Write> Writer<W> {
    /// Writes the file's header. Frames are cut to `snaplen` bytes (0: [`MAX_CAPTURED`]).
    ///
    /// # Errors
    /// What `to` says.
    pub fn new(mut to: W, format: Format, snaplen: u32) -> io::Result<Self> {
        let snaplen = if snaplen == 0 { MAX_CAPTURED } else { snaplen.min(MAX_CAPTURED) };
        match format {
            Format::Pcap => {
                let mut h = Vec::with_capacity(24);
                h.extend_from_slice(&0xa1b2_3c4d_u32.to_le_bytes());
                h.extend_from_slice(&2u16.to_le_bytes());
                h.extend_from_slice(&4u16.to_le_bytes());
                h.extend_from_slice(&[0; 8]);
                h.extend_from_slice(&snaplen.to_le_bytes());
                h.extend_from_slice(&LINKTYPE_ETHERNET.to_le_bytes());
                to.write_all(&h)?;
            }
            Format::Pcapng => {
                let mut body = Vec::with_capacity(32);
                body.extend_from_slice(&0x1a2b_3c4d_u32.to_le_bytes());
                body.extend_from_slice(&1u16.to_le_bytes());
                body.extend_from_slice(&0u16.to_le_bytes());
                body.extend_from_slice(&u64::MAX.to_le_bytes());
                option(&mut body, 4, b"weir");
                end_of_options(&mut body);
                block(&mut to, 0x0a0d_0d0a, &body)?;
            }
        }
        Ok(Self { to, format, snaplen, interfaces: 0 })
    }

    /// Describes one more interface and returns its number. pcap has no room for names: there the
    /// number is always 0.
    ///
    /// # Errors
    /// What the destination says.
    pub fn add_interface(&mut self, name: &str) -> io::Result<u32> {
        if self.format == Format::Pcap {
            return Ok(0);
        }
        let mut body = Vec::with_capacity(64);
        body.extend_from_slice(&(LINKTYPE_ETHERNET as u16).to_le_bytes());
        body.extend_from_slice(&[0; 2]);
        body.extend_from_slice(&self.snaplen.to_le_bytes());
        option(&mut body, 2, name.as_bytes());
        option(&mut body, 9, &[9]);
        end_of_options(&mut body);
        block(&mut self.to, 1, &body)?;
        self.interfaces += 1;
        Ok(self.interfaces - 1)
    }

    /// Writes one frame of `interface`, a number that [`Writer::add_interface`] gave.
    ///
    /// # Errors
    /// `InvalidInput` for an interface that was not added (pcapng only); else what the destination
    /// says.
    pub fn write(
        &mut self,
        interface: u32,
        stamp: Nanos,
        direction: Option<Direction>,
        frame: &[u8],
    ) -> io::Result<()> {
        let original = u32::try_from(frame.len()).unwrap_or(u32::MAX);
        let captured = original.min(self.snaplen);
        let data = frame.get(..captured as usize).unwrap_or(frame);
        match self.format {
            Format::Pcap => {
                let mut h = [0; 16];
                // The format counts seconds in 32 bits: until 2106.
                let secs = u32::try_from(stamp.0 / 1_000_000_000).unwrap_or(u32::MAX);
                put(&mut h, 0, secs);
                put(&mut h, 4, (stamp.0 % 1_000_000_000) as u32);
                put(&mut h, 8, captured);
                put(&mut h, 12, original);
                self.to.write_all(&h)?;
                self.to.write_all(data)
            }
            Format::Pcapng => {
                if interface >= self.interfaces {
                    return Err(io::Error::new(
                        io::ErrorKind::InvalidInput,
                        "the interface was not described",
                    ));
                }
                let padding = (4 - data.len() % 4) % 4;
                let flags: u32 = match direction {
                    None => 0,
                    Some(Direction::In) => 1,
                    Some(Direction::Out) => 2,
                };
                // Flags option with its end, only where it says something.
                let options = if flags == 0 { 0 } else { 12 };
                let len = (32 + data.len() + padding + options) as u32;
                let mut h = [0; 28];
                put(&mut h, 0, 6);
                put(&mut h, 4, len);
                put(&mut h, 8, interface);
                put(&mut h, 12, (stamp.0 >> 32) as u32);
                put(&mut h, 16, stamp.0 as u32);
                put(&mut h, 20, captured);
                put(&mut h, 24, original);
                self.to.write_all(&h)?;
                self.to.write_all(data)?;
                let mut tail = [0; 3 + 12 + 4];
                let mut n = padding;
                if flags != 0 {
                    put(&mut tail, n, 4 << 16 | 2);
                    put(&mut tail, n + 4, flags);
                    n += 12;
                }
                put(&mut tail, n, len);
                self.to.write_all(tail.get(..n + 4).unwrap_or_default())
            }
        }
    }

    /// Hands on what a buffer below still holds.
    ///
    /// # Errors
    /// What the destination says.
    pub fn flush(&mut self) -> io::Result<()> {
        self.to.flush()
    }

    /// The destination.
    pub fn get_ref(&self) -> &W {
        &self.to
    }
    /// The destination; what is changed there is missing in the file.
    pub fn get_mut(&mut self) -> &mut W {
        &mut self.to
    }
    /// The destination.
    pub fn into_inner(self) -> W {
        self.to
    }
}

fn put(b: &mut [u8], at: usize, v: u32) {
    if let Some(place) = b.get_mut(at..at + 4) {
        place.copy_from_slice(&v.to_le_bytes());
    }
}

/// Appends one option; a value that does not fit into its length field is cut.
fn option(body: &mut Vec<u8>, code: u16, value: &[u8]) {
    let value = value.get(..0xffff).unwrap_or(value);
    body.extend_from_slice(&code.to_le_bytes());
    body.extend_from_slice(&(value.len() as u16).to_le_bytes());
    body.extend_from_slice(value);
    body.resize(body.len().next_multiple_of(4), 0);
}

fn end_of_options(body: &mut Vec<u8>) {
    body.extend_from_slice(&[0; 4]);
}

fn block<W: Write>(to: &mut W, kind: u32, body: &[u8]) -> io::Result<()> {
    let len = (body.len() as u32 + 12).to_le_bytes();
    to.write_all(&kind.to_le_bytes())?;
    to.write_all(&len)?;
    to.write_all(body)?;
    to.write_all(&len)
}
