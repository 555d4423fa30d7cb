//! MPLS label stacks (RFC 3032 §2.1, RFC 5462 for the traffic class). Touches bytes.
//! A stack does not say what it carries; a label's meaning is agreed elsewhere.

use crate::error::{Error, Kind, Result, at_most, holds, room};
use crate::view::view;

const LAYER: &str = "mpls";

mod field {
    use crate::view::Field;
    pub const WORD: Field = 0..4;
    pub const TTL: Field = 3..4;
}

/// Bytes of a stack entry.
pub const ENTRY_LEN: usize = field::WORD.end;

/// The largest label.
pub const MAX_LABEL: u32 = 0xf_ffff;

/// Labels with a fixed meaning (RFC 3032 §2.1).
pub mod reserved {
    /// What follows is IPv4.
    pub const IPV4_EXPLICIT_NULL: u32 = 0;
    /// Look closer (RFC 3032).
    pub const ROUTER_ALERT: u32 = 1;
    /// What follows is IPv6.
    pub const IPV6_EXPLICIT_NULL: u32 = 2;
    /// Never on a wire: pop instead.
    pub const IMPLICIT_NULL: u32 = 3;
}

view! {
    /// One entry of a label stack.
    Entry
    /// Label, traffic class, bottom bit and TTL in one word.
    word, set_word: u32 = field::WORD;
    /// Time to live.
    ttl, set_ttl: u8 = field::TTL;
}

impl<T: AsRef<[u8]>> Entry<T> {
    /// Says whether the buffer holds an entry.
    ///
    /// # Errors
    /// `Truncated` below 4 bytes.
    #[inline]
    pub fn check(&self) -> Result<()> {
        holds(LAYER, "entry", ENTRY_LEN, self.as_bytes().len())
    }

    /// The label, 20 bits.
    #[inline]
    pub fn label(&self) -> u32 {
        self.word() >> 12
    }

    /// The traffic class, 0 to 7.
    #[inline]
    pub fn traffic_class(&self) -> u8 {
        (self.word() >> 9 & 7) as u8
    }

    /// Whether this is the last entry of the stack.
    #[inline]
    pub fn is_bottom(&self) -> bool {
        self.word() & 0x100 != 0
    }
}

impl<T: AsRef<[u8]> + AsMut<[u8]>> Entry<T> {
    /// Writes the label; bits above the twentieth are lost.
    #[inline]
    pub fn set_label(&mut self, label: u32) {
        self.set_word(self.word() & 0xfff | label << 12);
    }

    /// Writes the traffic class; bits above the third are lost.
    #[inline]
    pub fn set_traffic_class(&mut self, class: u8) {
        self.set_word(self.word() & !0xe00 | u32::from(class & 7) << 9);
    }

    /// Writes whether this is the last entry.
    #[inline]
    pub fn set_bottom(&mut self, bottom: bool) {
        self.set_word(self.word() & !0x100 | u32::from(bottom) << 8);
    }
}

/// One entry of a label stack.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Repr {
    /// The label, 20 bits.
    pub label: u32,
    /// The traffic class, 0 to 7.
    pub traffic_class: u8,
    /// Whether this is the last entry.
    pub bottom: bool,
    /// Time to live.
    pub ttl: u8,
}

impl Repr {
    /// Takes the values out of a view.
    ///
    /// # Errors
    /// Those of [`Entry::check`].
    pub fn parse<T: AsRef<[u8]>>(entry: &Entry<T>) -> Result<Repr> {
        entry.check()?;
        Ok(Repr {
            label: entry.label(),
            traffic_class: entry.traffic_class(),
            bottom: entry.is_bottom(),
            ttl: entry.ttl(),
        })
    }

    /// Bytes that [`Self::emit`] writes.
    pub const fn buffer_len(&self) -> usize {
        ENTRY_LEN
    }

    /// Writes the entry.
    ///
    /// # Errors
    /// `NoRoom`; `Above` if the label or the traffic class does not fit.
    pub fn emit<T: AsRef<[u8]> + AsMut<[u8]>>(&self, entry: &mut Entry<T>) -> Result<()> {
        room(LAYER, "entry", self.buffer_len(), entry.as_bytes().len())?;
        at_most(LAYER, "label", MAX_LABEL as usize, self.label as usize)?;
        at_most(LAYER, "traffic class", 7, usize::from(self.traffic_class))?;
        entry.set_word(
            self.label << 12
                | u32::from(self.traffic_class) << 9
                | u32::from(self.bottom) << 8
                | u32::from(self.ttl),
        );
        Ok(())
    }
}

/// The entries of a stack, top first, up to and with the bottom; an error, and the end, if the
/// bytes end before it does.
pub fn stack(bytes: &[u8]) -> Stack<'_> {
    Stack { rest: Some(bytes) }
}

/// Iterator of [`stack`].
#[derive(Debug, Clone)]
pub struct Stack<'a> {
    rest: Option<&'a [u8]>,
}

impl Iterator for Stack<'_> {
    type Item = Result<Repr>;

    fn next(&mut self) -> Option<Result<Repr>> {
        let bytes = self.rest.take()?;
        let Some((entry, rest)) = bytes.split_first_chunk::<ENTRY_LEN>() else {
            let error = Error::new(LAYER, "label stack", Kind::Truncated, ENTRY_LEN, bytes.len());
            return Some(Err(error));
        };
        let entry = Repr::parse(&Entry::new_unchecked(entry));
        if !matches!(entry, Ok(Repr { bottom: true, .. })) {
            self.rest = Some(rest);
        }
        Some(entry)
    }
}

/// The number of entries, of at most `limit`; what the stack carries begins that many times
/// [`ENTRY_LEN`] on.
///
/// # Errors
/// `Truncated` if the bytes end before the stack; `Above` if it is deeper than the limit.
pub fn depth(bytes: &[u8], limit: usize) -> Result<usize> {
    let mut depth = 0;
    for entry in stack(bytes) {
        entry?;
        depth += 1;
        at_most(LAYER, "label stack depth", limit, depth)?;
    }
    Ok(depth)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stack_ends_at_the_bottom() {
        let bytes = [0, 1, 0x00, 64, 0, 2, 0x0e, 63, 0, 0x10, 0x0b, 62, 0x45, 0, 0, 0];
        let entries: std::vec::Vec<_> = stack(&bytes).map(|e| e.unwrap().label).collect();
        assert_eq!(entries, [0x10, 0x20, 0x100]);
        assert_eq!(depth(&bytes, 3), Ok(3));
        assert_eq!(depth(&bytes, 2).unwrap_err().kind, Kind::Above);
        assert_eq!(depth(&bytes[..11], 9).unwrap_err().kind, Kind::Truncated);
    }

    #[test]
    fn setters_leave_neighbours_alone() {
        let mut bytes = [0xff; 4];
        let mut entry = Entry::new_checked(&mut bytes[..]).unwrap();
        entry.set_label(7);
        entry.set_traffic_class(2);
        entry.set_bottom(false);
        entry.set_ttl(9);
        let repr = Repr::parse(&entry).unwrap();
        assert_eq!(repr, Repr { label: 7, traffic_class: 2, bottom: false, ttl: 9 });
    }
}
