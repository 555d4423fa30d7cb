//! Records of carried switches: written, and read from bytes that may be anything.

use super::{CarryError, MOST};
use weir_dataplane::Tally;

/// Writes records.
#[derive(Debug, Default)]
pub(super) struct Out(pub Vec<u8>);

impl Out {
    /// A record, filled by `f`.
    pub fn record(&mut self, kind: u8, f: impl FnOnce(&mut Self)) {
        self.0.push(kind);
        let at = self.0.len();
        self.u32(0);
        f(self);
        let len = u32::try_from(self.0.len() - at - 4).unwrap_or(u32::MAX);
        self.0[at..at + 4].copy_from_slice(&len.to_be_bytes());
    }
    pub fn u8(&mut self, n: u8) {
        self.0.push(n);
    }
    pub fn u16(&mut self, n: u16) {
        self.0.extend(n.to_be_bytes());
    }
    pub fn u32(&mut self, n: u32) {
        self.0.extend(n.to_be_bytes());
    }
    pub fn u64(&mut self, n: u64) {
        self.0.extend(n.to_be_bytes());
    }
    /// A word: as many of its bytes as a byte can count.
    pub fn text(&mut self, t: &str) {
        let mut end = t.len().min(255);
        while !t.is_char_boundary(end) {
            end -= 1;
        }
        self.u8(end as u8);
        self.0.extend_from_slice(&t.as_bytes()[..end]);
    }
    pub fn tally(&mut self, t: Tally) {
        self.u64(t.frames);
        self.u64(t.bytes);
    }
    pub fn tallies(&mut self, all: &[Tally]) {
        self.u32(u32::try_from(all.len()).unwrap_or(u32::MAX));
        all.iter().for_each(|t| self.tally(*t));
    }
}

/// More is not believed: a year and a half of bytes at 10 Gbit/s.
const MOST_COUNTED: u64 = 1 << 56;

/// Reads what a record has, or a piece.
#[derive(Clone, Copy, Debug)]
pub(super) struct In<'a>(&'a [u8]);

const SHORT: CarryError = CarryError::Broken("a record that is too short");

impl<'a> In<'a> {
    /// A piece.
    ///
    /// # Errors
    /// It is too long.
    pub fn piece(bytes: &'a [u8]) -> Result<Self, CarryError> {
        match bytes.len() {
            ..=MOST => Ok(Self(bytes)),
            _ => Err(CarryError::Broken("a piece that is too long")),
        }
    }
    /// The next record: its kind, and what it has. `None` at the end.
    pub fn record(&mut self) -> Result<Option<(u8, In<'a>)>, CarryError> {
        if self.0.is_empty() {
            return Ok(None);
        }
        let (kind, len) = (self.u8()?, self.u32()?);
        Ok(Some((kind, In(self.bytes(len as usize)?))))
    }
    pub fn bytes(&mut self, n: usize) -> Result<&'a [u8], CarryError> {
        let (now, rest) = self.0.split_at_checked(n).ok_or(SHORT)?;
        self.0 = rest;
        Ok(now)
    }
    pub fn array<const N: usize>(&mut self) -> Result<[u8; N], CarryError> {
        let (now, rest) = self.0.split_first_chunk().ok_or(SHORT)?;
        self.0 = rest;
        Ok(*now)
    }
    pub fn u8(&mut self) -> Result<u8, CarryError> {
        self.array::<1>().map(|[b]| b)
    }
    pub fn u16(&mut self) -> Result<u16, CarryError> {
        self.array().map(u16::from_be_bytes)
    }
    pub fn u32(&mut self) -> Result<u32, CarryError> {
        self.array().map(u32::from_be_bytes)
    }
    pub fn u64(&mut self) -> Result<u64, CarryError> {
        self.array().map(u64::from_be_bytes)
    }
    pub fn text(&mut self) -> Result<String, CarryError> {
        let n = usize::from(self.u8()?);
        let text = std::str::from_utf8(self.bytes(n)?);
        text.map(str::to_owned).map_err(|_| CarryError::Broken("a word that is none"))
    }
    /// A counter: no more than can be added up many times over.
    pub fn count(&mut self) -> Result<u64, CarryError> {
        self.u64().and_then(|n| match n {
            0..=MOST_COUNTED => Ok(n),
            _ => Err(CarryError::Broken("a counter that can't be")),
        })
    }
    pub fn tally(&mut self) -> Result<Tally, CarryError> {
        Ok(Tally { frames: self.count()?, bytes: self.count()? })
    }
    /// As many as are said to come, and no more than there are.
    pub fn tallies(&mut self) -> Result<Vec<Tally>, CarryError> {
        let n = self.u32()? as usize;
        if n > self.0.len() / 16 {
            return Err(SHORT);
        }
        (0..n).map(|_| self.tally()).collect()
    }
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
    /// All that is left.
    pub fn rest(&mut self) -> &'a [u8] {
        std::mem::take(&mut self.0)
    }
    /// Whether all was read.
    pub fn end(&self) -> Result<(), CarryError> {
        match self.0 {
            [] => Ok(()),
            _ => Err(CarryError::Broken("a record that is too long")),
        }
    }
}
