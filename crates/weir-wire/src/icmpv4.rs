//! ICMP for IPv4 (RFC 792; RFC 1191 for the next hop's MTU). Touches bytes. A message's length is
//! not in its header: the buffer must end where the message does.

use core::net::Ipv4Addr;

use crate::checksum::{self, Sum};
use crate::error::{Result, holds, room};
use crate::view::{Value, open_enum, part_mut, rest, store, view};

const LAYER: &str = "icmp";

mod field {
    use crate::view::Field;
    pub const TYPE: Field = 0..1;
    pub const CODE: Field = 1..2;
    pub const CHECKSUM: Field = 2..4;
    pub const REST: Field = 4..8;
    pub const ECHO_IDENT: Field = 4..6;
    pub const ECHO_SEQ: Field = 6..8;
    pub const POINTER: Field = 4..5;
    pub const NEXT_HOP_MTU: Field = 6..8;
}

/// Bytes before the data.
pub const HEADER_LEN: usize = field::REST.end;

open_enum! {
    /// Message type (IANA, icmp-parameters).
    Message: u8 {
        /// Answer to an echo request.
        EchoReply = 0,
        /// The packet could not be delivered; the code says why.
        DestinationUnreachable = 3,
        /// There is a better first hop.
        Redirect = 5,
        /// Send this back.
        EchoRequest = 8,
        /// TTL (code 0) or reassembly time (code 1) ran out.
        TimeExceeded = 11,
        /// A header field is wrong; the pointer says which.
        ParameterProblem = 12,
        /// Timestamp request.
        TimestampRequest = 13,
        /// Timestamp reply.
        TimestampReply = 14,
    }
}

/// Codes of [`Message::DestinationUnreachable`] that routers send (RFC 792, RFC 1812 §5.2.7.1).
pub mod unreachable {
    /// No route.
    pub const NETWORK: u8 = 0;
    /// No answer to ARP.
    pub const HOST: u8 = 1;
    /// No such protocol on the host.
    pub const PROTOCOL: u8 = 2;
    /// No such port on the host.
    pub const PORT: u8 = 3;
    /// Too long for the next link and not to be fragmented.
    pub const FRAGMENTATION_NEEDED: u8 = 4;
    /// A source route can't be followed, or is not.
    pub const SOURCE_ROUTE: u8 = 5;
    /// Forbidden by a filter.
    pub const ADMINISTRATIVELY: u8 = 13;
}

view! {
    /// A message; the buffer ends where it does.
    Packet
    /// Message type.
    message, set_message: Message = field::TYPE;
    /// Code, whose meaning depends on the type.
    code, set_code: u8 = field::CODE;
    /// Checksum.
    checksum, set_checksum: u16 = field::CHECKSUM;
    /// The four bytes whose meaning depends on the type.
    rest_of_header, set_rest_of_header: u32 = field::REST;
    /// Identifier of an echo.
    echo_ident, set_echo_ident: u16 = field::ECHO_IDENT;
    /// Sequence number of an echo.
    echo_seq, set_echo_seq: u16 = field::ECHO_SEQ;
    /// Byte of the quoted packet at which the problem lies.
    pointer, set_pointer: u8 = field::POINTER;
    /// MTU of the next hop, where fragmentation is needed; 0 if the router does not say.
    next_hop_mtu, set_next_hop_mtu: u16 = field::NEXT_HOP_MTU;
    /// The better first hop of a redirect.
    gateway, set_gateway: Ipv4Addr = field::REST;
}

impl<T: AsRef<[u8]>> Packet<T> {
    /// Says whether the header is in the buffer.
    ///
    /// # Errors
    /// `Truncated` below 8 bytes.
    #[inline]
    pub fn check(&self) -> Result<()> {
        holds(LAYER, "header", HEADER_LEN, self.as_bytes().len())
    }

    /// What follows the header: the data of an echo, the packet that an error quotes.
    pub fn data(&self) -> &[u8] {
        rest(self.as_bytes(), HEADER_LEN)
    }

    /// Whether the checksum is right.
    pub fn has_good_checksum(&self) -> bool {
        Sum::new().bytes(self.as_bytes()).is_intact()
    }
}

impl<T: AsRef<[u8]> + AsMut<[u8]>> Packet<T> {
    /// Computes and writes the checksum over the whole buffer.
    pub fn fill_checksum(&mut self) {
        self.set_checksum(0);
        let check = checksum::internet(self.as_bytes());
        self.set_checksum(check);
    }
}

/// A message.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Repr<'a> {
    /// Send this back.
    EchoRequest {
        /// Identifier.
        ident: u16,
        /// Sequence number.
        seq: u16,
        /// What to send back.
        data: &'a [u8],
    },
    /// Answer to an echo request.
    EchoReply {
        /// Identifier.
        ident: u16,
        /// Sequence number.
        seq: u16,
        /// What was sent.
        data: &'a [u8],
    },
    /// A packet could not be delivered.
    DestinationUnreachable {
        /// Why; see [`mod@unreachable`].
        code: u8,
        /// MTU of the next hop with [`unreachable::FRAGMENTATION_NEEDED`], else 0.
        next_hop_mtu: u16,
        /// The packet's header and the beginning of its payload.
        quoted: &'a [u8],
    },
    /// There is a better first hop.
    Redirect {
        /// For a network (0) or a host (1).
        code: u8,
        /// The better hop.
        gateway: Ipv4Addr,
        /// The packet's header and the beginning of its payload.
        quoted: &'a [u8],
    },
    /// TTL (code 0) or reassembly time (code 1) ran out.
    TimeExceeded {
        /// Which.
        code: u8,
        /// The packet's header and the beginning of its payload.
        quoted: &'a [u8],
    },
    /// A header field is wrong.
    ParameterProblem {
        /// 0: the pointer shows it.
        code: u8,
        /// Byte of the quoted packet at which the problem lies.
        pointer: u8,
        /// The packet's header and the beginning of its payload.
        quoted: &'a [u8],
    },
    /// Any other message, as it is.
    Other {
        /// Its type.
        message: Message,
        /// Its code.
        code: u8,
        /// The rest of its header.
        rest: u32,
        /// What follows.
        data: &'a [u8],
    },
}

impl<'a> Repr<'a> {
    /// Takes the message out of a view.
    ///
    /// # Errors
    /// Those of [`Packet::check`].
    pub fn parse<T: AsRef<[u8]> + ?Sized>(packet: &Packet<&'a T>) -> Result<Repr<'a>> {
        packet.check()?;
        let data = rest(packet.long_bytes(), HEADER_LEN);
        let quoted = data;
        let code = packet.code();
        let (ident, seq) = (packet.echo_ident(), packet.echo_seq());
        Ok(match packet.message() {
            Message::EchoRequest if code == 0 => Repr::EchoRequest { ident, seq, data },
            Message::EchoReply if code == 0 => Repr::EchoReply { ident, seq, data },
            Message::DestinationUnreachable => {
                let next_hop_mtu = packet.next_hop_mtu();
                Repr::DestinationUnreachable { code, next_hop_mtu, quoted }
            }
            Message::Redirect => Repr::Redirect { code, gateway: packet.gateway(), quoted },
            Message::TimeExceeded => Repr::TimeExceeded { code, quoted },
            Message::ParameterProblem => {
                Repr::ParameterProblem { code, pointer: packet.pointer(), quoted }
            }
            message => Repr::Other { message, code, rest: packet.rest_of_header(), data },
        })
    }

    const fn data(&self) -> &'a [u8] {
        match *self {
            Repr::EchoRequest { data, .. }
            | Repr::EchoReply { data, .. }
            | Repr::Other { data, .. } => data,
            Repr::DestinationUnreachable { quoted, .. }
            | Repr::Redirect { quoted, .. }
            | Repr::TimeExceeded { quoted, .. }
            | Repr::ParameterProblem { quoted, .. } => quoted,
        }
    }

    /// Bytes of the whole message.
    pub const fn buffer_len(&self) -> usize {
        HEADER_LEN + self.data().len()
    }

    /// Writes the whole message with a checksum of zero; see [`Packet::fill_checksum`].
    ///
    /// # Errors
    /// `NoRoom` if the buffer is shorter than [`Self::buffer_len`].
    pub fn emit<T: AsRef<[u8]> + AsMut<[u8]>>(&self, packet: &mut Packet<T>) -> Result<()> {
        let len = self.buffer_len();
        room(LAYER, "message", len, packet.as_bytes().len())?;
        let echo = |ident: u16, seq: u16| u32::from(ident) << 16 | u32::from(seq);
        let (message, code, word) = match *self {
            Repr::EchoRequest { ident, seq, .. } => (Message::EchoRequest, 0, echo(ident, seq)),
            Repr::EchoReply { ident, seq, .. } => (Message::EchoReply, 0, echo(ident, seq)),
            Repr::DestinationUnreachable { code, next_hop_mtu, .. } => {
                (Message::DestinationUnreachable, code, u32::from(next_hop_mtu))
            }
            Repr::Redirect { code, gateway, .. } => (Message::Redirect, code, gateway.to_bits()),
            Repr::TimeExceeded { code, .. } => (Message::TimeExceeded, code, 0),
            Repr::ParameterProblem { code, pointer, .. } => {
                (Message::ParameterProblem, code, u32::from(pointer) << 24)
            }
            Repr::Other { message, code, rest, .. } => (message, code, rest),
        };
        let out = packet.bytes_mut();
        message.write(part_mut(out, field::TYPE));
        store(part_mut(out, HEADER_LEN..len), self.data());
        packet.set_code(code);
        packet.set_checksum(0);
        packet.set_rest_of_header(word);
        Ok(())
    }
}
