//! VLAN tags: 802.1Q, the service tag of 802.1ad and the older QinQ tag (IEEE 802.1Q-2018 §9).
//! Touches bytes. A tag here is the four bytes that pushing one inserts after the addresses: the
//! TPID and the tag control information. The EtherType of what is tagged follows it.

use crate::error::{Result, at_most, equals, holds, room};
use crate::ethernet::{ADDRESSES_LEN, EtherType};
use crate::view::{get, view};

const LAYER: &str = "vlan";

mod field {
    use crate::view::Field;
    pub const TPID: Field = 0..2;
    pub const TCI: Field = 2..4;
}

/// Bytes of a tag.
pub const TAG_LEN: usize = field::TCI.end;

/// The largest VLAN id; 4095 is reserved but does occur on wires and is not refused here.
pub const MAX_VID: u16 = 0xfff;

view! {
    /// A tag, from its TPID on.
    Tag
    /// The tag protocol identifier, one of those of [`EtherType::is_vlan`].
    tpid, set_tpid: EtherType = field::TPID;
    /// The tag control information: PCP, DEI and VID in one word.
    tci, set_tci: u16 = field::TCI;
}

impl<T: AsRef<[u8]>> Tag<T> {
    /// Says whether the buffer holds a tag with a TPID that means one.
    ///
    /// # Errors
    /// `Truncated` below 4 bytes; `Differs` if the TPID is none of the three.
    #[inline]
    pub fn check(&self) -> Result<()> {
        holds(LAYER, "tag", TAG_LEN, self.as_bytes().len())?;
        if self.tpid().is_vlan() {
            return Ok(());
        }
        equals(LAYER, "tpid", usize::from(u16::from(EtherType::Vlan)), self.tpid_number())
    }

    fn tpid_number(&self) -> usize {
        usize::from(u16::from(self.tpid()))
    }

    /// Priority code point, 0 to 7.
    #[inline]
    pub fn pcp(&self) -> u8 {
        (self.tci() >> 13) as u8
    }

    /// Drop eligible indicator.
    #[inline]
    pub fn dei(&self) -> bool {
        self.tci() & 0x1000 != 0
    }

    /// VLAN id, 0 to 4095; 0 marks a tag that gives only a priority.
    #[inline]
    pub fn vid(&self) -> u16 {
        self.tci() & MAX_VID
    }
}

impl<T: AsRef<[u8]> + AsMut<[u8]>> Tag<T> {
    /// Writes the priority; bits above the third are lost.
    #[inline]
    pub fn set_pcp(&mut self, pcp: u8) {
        self.set_tci(self.tci() & 0x1fff | u16::from(pcp) << 13);
    }

    /// Writes the drop eligible indicator.
    #[inline]
    pub fn set_dei(&mut self, dei: bool) {
        self.set_tci(self.tci() & 0xefff | u16::from(dei) << 12);
    }

    /// Writes the VLAN id; bits above the twelfth are lost.
    #[inline]
    pub fn set_vid(&mut self, vid: u16) {
        self.set_tci(self.tci() & 0xf000 | vid & MAX_VID);
    }
}

/// A tag.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Repr {
    /// Which kind of tag.
    pub tpid: EtherType,
    /// Priority code point, 0 to 7.
    pub pcp: u8,
    /// Drop eligible indicator.
    pub dei: bool,
    /// VLAN id, 0 to 4095.
    pub vid: u16,
}

impl Repr {
    /// A customer tag (0x8100) of priority 0.
    pub const fn dot1q(vid: u16) -> Repr {
        Repr { tpid: EtherType::Vlan, pcp: 0, dei: false, vid }
    }

    /// A service tag (0x88a8) of priority 0.
    pub const fn dot1ad(vid: u16) -> Repr {
        Repr { tpid: EtherType::ServiceVlan, pcp: 0, dei: false, vid }
    }

    /// Takes the tag out of a view.
    ///
    /// # Errors
    /// Those of [`Tag::check`].
    pub fn parse<T: AsRef<[u8]>>(tag: &Tag<T>) -> Result<Repr> {
        tag.check()?;
        Ok(Repr { tpid: tag.tpid(), pcp: tag.pcp(), dei: tag.dei(), vid: tag.vid() })
    }

    /// Bytes that [`Self::emit`] writes.
    pub const fn buffer_len(&self) -> usize {
        TAG_LEN
    }

    /// Writes the tag.
    ///
    /// # Errors
    /// `NoRoom`; `Above` if the priority or the id does not fit; `Differs` if the TPID is none.
    pub fn emit<T: AsRef<[u8]> + AsMut<[u8]>>(&self, tag: &mut Tag<T>) -> Result<()> {
        room(LAYER, "tag", self.buffer_len(), tag.as_bytes().len())?;
        at_most(LAYER, "pcp", 7, usize::from(self.pcp))?;
        at_most(LAYER, "vid", usize::from(MAX_VID), usize::from(self.vid))?;
        if !self.tpid.is_vlan() {
            let tpid = usize::from(u16::from(self.tpid));
            equals(LAYER, "tpid", usize::from(u16::from(EtherType::Vlan)), tpid)?;
        }
        tag.set_tpid(self.tpid);
        tag.set_tci(u16::from(self.pcp) << 13 | u16::from(self.dei) << 12 | self.vid);
        Ok(())
    }
}

/// The tags of an Ethernet frame and what lies behind them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Stack {
    /// How many tags were passed over.
    pub depth: usize,
    /// The EtherType behind them; of a tag again if there were more than the limit.
    pub ether_type: EtherType,
    /// Where that EtherType lies in the frame; its payload begins two bytes on.
    pub ether_type_at: usize,
}

impl Stack {
    /// Where the payload begins in the frame.
    #[inline]
    pub const fn payload_at(&self) -> usize {
        self.ether_type_at + 2
    }
}

/// Passes over at most `limit` tags of a whole Ethernet frame.
///
/// # Errors
/// `Truncated` if the frame ends before the EtherType behind a tag.
#[inline]
pub fn walk(frame: &[u8], limit: usize) -> Result<Stack> {
    let mut at = ADDRESSES_LEN;
    let mut depth = 0;
    loop {
        holds(LAYER, "ethertype", at + 2, frame.len())?;
        let ether_type: EtherType = get(frame, at..at + 2);
        if depth == limit || !ether_type.is_vlan() {
            return Ok(Stack { depth, ether_type, ether_type_at: at });
        }
        depth += 1;
        at += TAG_LEN;
    }
}

/// The tags of a whole Ethernet frame, outermost first; ends where the frame does.
pub fn tags(frame: &[u8]) -> impl Iterator<Item = Repr> {
    let bytes = frame.get(ADDRESSES_LEN..).unwrap_or(&[]);
    bytes.chunks_exact(TAG_LEN).map_while(|tag| Repr::parse(&Tag::new_unchecked(tag)).ok())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn walk_stops_at_the_limit_and_at_the_end() {
        let mut frame = [0u8; 26];
        frame[12..].copy_from_slice(&[
            0x88, 0xa8, 0xe0, 0x0a, 0x81, 0x00, 0x10, 0x14, 0x91, 0x00, 0, 1, 0x08, 0x00,
        ]);
        let stack = walk(&frame, 8).unwrap();
        assert_eq!((stack.depth, stack.ether_type, stack.payload_at()), (3, EtherType::Ipv4, 26));
        let stack = walk(&frame, 2).unwrap();
        assert_eq!((stack.depth, stack.ether_type), (2, EtherType::OldServiceVlan));
        let error = walk(&frame[..25], 8).unwrap_err();
        assert_eq!((error.layer, error.need, error.have), ("vlan", 26, 25));
        let mut tags = tags(&frame);
        assert_eq!(tags.next(), Some(Repr { pcp: 7, ..Repr::dot1ad(10) }));
        assert_eq!(tags.next(), Some(Repr { dei: true, ..Repr::dot1q(20) }));
        assert_eq!(tags.count(), 1);
    }

    #[test]
    fn setters_leave_neighbours_alone() {
        let mut bytes = [0x81, 0x00, 0xff, 0xff];
        let mut tag = Tag::new_checked(&mut bytes[..]).unwrap();
        tag.set_vid(5);
        assert_eq!((tag.pcp(), tag.dei(), tag.vid()), (7, true, 5));
        tag.set_pcp(2);
        tag.set_dei(false);
        assert_eq!((tag.pcp(), tag.dei(), tag.vid()), (2, false, 5));
    }
}
