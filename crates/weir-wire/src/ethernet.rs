//! Ethernet II framing (IEEE 802.3 §3.2.6). Touches bytes. The frame ends without its FCS, as
//! Linux and pcap hand it over. Tags between the addresses and the EtherType are in [`crate::vlan`].

use crate::error::{Result, holds, room};
use crate::mac::MacAddr;
use crate::view::{open_enum, rest, view};

const LAYER: &str = "ethernet";

mod field {
    use crate::view::Field;
    pub const DESTINATION: Field = 0..6;
    pub const SOURCE: Field = 6..12;
    pub const ETHER_TYPE: Field = 12..14;
}

/// Bytes of an untagged header.
pub const HEADER_LEN: usize = field::ETHER_TYPE.end;

/// Bytes before the EtherType or the first tag: where tags are pushed and popped.
pub const ADDRESSES_LEN: usize = field::SOURCE.end;

/// The shortest frame a wire carries, without FCS (IEEE 802.3 §4.4.2).
pub const MIN_FRAME_LEN: usize = 60;

open_enum! {
    /// What follows an Ethernet header, a VLAN tag or a GRE header (IANA, ieee-802-numbers).
    EtherType: u16 {
        /// RFC 894.
        Ipv4 = 0x0800,
        /// RFC 826.
        Arp = 0x0806,
        /// Transparent Ethernet bridging, in GRE: a whole frame follows (RFC 1701).
        TransparentEthernet = 0x6558,
        /// The customer tag of 802.1Q.
        Vlan = 0x8100,
        /// RFC 2464.
        Ipv6 = 0x86dd,
        /// RFC 3032, a label stack.
        Mpls = 0x8847,
        /// RFC 5332, a label stack whose top label was assigned upstream.
        MplsUpstream = 0x8848,
        /// The service tag of 802.1ad.
        ServiceVlan = 0x88a8,
        /// IEEE 802.1AB.
        Lldp = 0x88cc,
        /// The tag of QinQ before 802.1ad, still in use.
        OldServiceVlan = 0x9100,
    }
}

impl EtherType {
    /// A tag follows: 0x8100, 0x88a8 or 0x9100.
    #[inline]
    pub const fn is_vlan(self) -> bool {
        matches!(self, EtherType::Vlan | EtherType::ServiceVlan | EtherType::OldServiceVlan)
    }

    /// An MPLS label stack follows.
    #[inline]
    pub const fn is_mpls(self) -> bool {
        matches!(self, EtherType::Mpls | EtherType::MplsUpstream)
    }

    /// Not a type but the length of an 802.3 frame (IEEE 802.3 §3.2.6).
    #[inline]
    pub const fn is_length(self) -> bool {
        matches!(self, EtherType::Unknown(0..=1500))
    }
}

view! {
    /// An Ethernet frame, from the destination on.
    Frame
    /// Destination address.
    dst, set_dst: MacAddr = field::DESTINATION;
    /// Source address.
    src, set_src: MacAddr = field::SOURCE;
    /// The type of the payload, or the TPID of the first tag.
    ether_type, set_ether_type: EtherType = field::ETHER_TYPE;
}

impl<T: AsRef<[u8]>> Frame<T> {
    /// Says whether the buffer holds the addresses and the EtherType.
    ///
    /// # Errors
    /// `Truncated` below 14 bytes.
    #[inline]
    pub fn check(&self) -> Result<()> {
        holds(LAYER, "header", HEADER_LEN, self.as_bytes().len())
    }

    /// What follows [`Self::ether_type`].
    #[inline]
    pub fn payload(&self) -> &[u8] {
        rest(self.as_bytes(), HEADER_LEN)
    }
}

impl<T: AsRef<[u8]> + AsMut<[u8]>> Frame<T> {
    /// What follows the EtherType, to be written.
    pub fn payload_mut(&mut self) -> &mut [u8] {
        self.bytes_mut().get_mut(HEADER_LEN..).unwrap_or(&mut [])
    }
}

/// The header of an untagged frame.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Repr {
    /// Source address.
    pub src: MacAddr,
    /// Destination address.
    pub dst: MacAddr,
    /// What follows.
    pub ether_type: EtherType,
}

impl Repr {
    /// Takes the header out of a frame.
    ///
    /// # Errors
    /// Those of [`Frame::check`].
    pub fn parse<T: AsRef<[u8]>>(frame: &Frame<T>) -> Result<Repr> {
        frame.check()?;
        Ok(Repr { src: frame.src(), dst: frame.dst(), ether_type: frame.ether_type() })
    }

    /// Bytes that [`Self::emit`] writes.
    pub const fn buffer_len(&self) -> usize {
        HEADER_LEN
    }

    /// Writes the header.
    ///
    /// # Errors
    /// `NoRoom` if the buffer is shorter than [`Self::buffer_len`].
    pub fn emit<T: AsRef<[u8]> + AsMut<[u8]>>(&self, frame: &mut Frame<T>) -> Result<()> {
        room(LAYER, "header", self.buffer_len(), frame.as_bytes().len())?;
        frame.set_src(self.src);
        frame.set_dst(self.dst);
        frame.set_ether_type(self.ether_type);
        Ok(())
    }
}
