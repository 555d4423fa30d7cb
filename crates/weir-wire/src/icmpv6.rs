//! ICMP for IPv6 (RFC 4443). Touches bytes. Neighbour discovery is in [`crate::ndisc`]; multicast
//! listener messages (RFC 2710, RFC 3810) are kept as they are, for [`crate::mld`]. A message's length
//! is not in its header: the buffer must end where the message does.

use crate::checksum::PseudoHeader;
use crate::error::{Result, holds, room};
use crate::ip::Protocol;
use crate::ndisc;
use crate::view::{open_enum, part_mut, rest, store, view};

const LAYER: &str = "icmpv6";

mod field {
    use crate::view::Field;
    pub const TYPE: Field = 0..1;
    pub const CODE: Field = 1..2;
    pub const CHECKSUM: Field = 2..4;
    pub const WORD: Field = 4..8;
    pub const ECHO_IDENT: Field = 4..6;
    pub const ECHO_SEQ: Field = 6..8;
}

/// Bytes before what depends on the type.
pub const HEADER_LEN: usize = field::CHECKSUM.end;

/// Bytes of the header and the word that errors and echoes begin with.
const WITH_WORD: usize = field::WORD.end;

open_enum! {
    /// Message type (IANA, icmpv6-parameters). Errors are below 128.
    Message: u8 {
        /// The packet could not be delivered; the code says why.
        DestinationUnreachable = 1,
        /// Too long for the next link.
        PacketTooBig = 2,
        /// Hop limit (code 0) or reassembly time (code 1) ran out.
        TimeExceeded = 3,
        /// A header field is wrong.
        ParameterProblem = 4,
        /// Send this back.
        EchoRequest = 128,
        /// Answer to an echo request.
        EchoReply = 129,
        /// Multicast listener query (RFC 2710, RFC 3810).
        MldQuery = 130,
        /// Version 1 multicast listener report (RFC 2710).
        MldReport = 131,
        /// Multicast listener done (RFC 2710).
        MldDone = 132,
        /// Router solicitation (RFC 4861 §4.1).
        RouterSolicit = 133,
        /// Router advertisement (RFC 4861 §4.2).
        RouterAdvert = 134,
        /// Neighbour solicitation (RFC 4861 §4.3).
        NeighborSolicit = 135,
        /// Neighbour advertisement (RFC 4861 §4.4).
        NeighborAdvert = 136,
        /// Redirect (RFC 4861 §4.5).
        Redirect = 137,
        /// Version 2 multicast listener report (RFC 3810).
        Mldv2Report = 143,
    }
}

impl Message {
    /// Not to be answered by an error (RFC 4443 §2.4).
    pub fn is_error(self) -> bool {
        u8::from(self) < 128
    }

    /// A multicast listener message of either version.
    pub const fn is_mld(self) -> bool {
        matches!(
            self,
            Message::MldQuery | Message::MldReport | Message::MldDone | Message::Mldv2Report
        )
    }
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
    /// The word that errors and echoes begin with: MTU, pointer, or identifier and sequence.
    word, set_word: u32 = field::WORD;
    /// Identifier of an echo.
    echo_ident, set_echo_ident: u16 = field::ECHO_IDENT;
    /// Sequence number of an echo.
    echo_seq, set_echo_seq: u16 = field::ECHO_SEQ;
}

impl<T: AsRef<[u8]>> Packet<T> {
    /// Says whether type, code and checksum are in the buffer.
    ///
    /// # Errors
    /// `Truncated` below 4 bytes.
    #[inline]
    pub fn check(&self) -> Result<()> {
        holds(LAYER, "header", HEADER_LEN, self.as_bytes().len())
    }

    /// What follows the checksum.
    pub fn body(&self) -> &[u8] {
        rest(self.as_bytes(), HEADER_LEN)
    }

    /// Whether the checksum is right.
    pub fn has_good_checksum(&self, pseudo: &PseudoHeader) -> bool {
        let bytes = self.as_bytes();
        pseudo.sum(Protocol::Icmpv6, bytes.len()).bytes(bytes).is_intact()
    }
}

impl<T: AsRef<[u8]> + AsMut<[u8]>> Packet<T> {
    /// Computes and writes the checksum over the whole buffer.
    pub fn fill_checksum(&mut self, pseudo: &PseudoHeader) {
        self.set_checksum(0);
        let bytes = self.as_bytes();
        let check = pseudo.sum(Protocol::Icmpv6, bytes.len()).bytes(bytes).checksum();
        self.set_checksum(check);
    }
}

/// A message.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Repr<'a> {
    /// A packet could not be delivered.
    DestinationUnreachable {
        /// Why (RFC 4443 §3.1).
        code: u8,
        /// The packet, as much of it as fits.
        quoted: &'a [u8],
    },
    /// Too long for the next link.
    PacketTooBig {
        /// What would fit, in bytes.
        mtu: u32,
        /// The packet, as much of it as fits.
        quoted: &'a [u8],
    },
    /// Hop limit (code 0) or reassembly time (code 1) ran out.
    TimeExceeded {
        /// Which.
        code: u8,
        /// The packet, as much of it as fits.
        quoted: &'a [u8],
    },
    /// A header field is wrong.
    ParameterProblem {
        /// What is wrong (RFC 4443 §3.4).
        code: u8,
        /// Byte of the quoted packet at which the problem lies.
        pointer: u32,
        /// The packet, as much of it as fits.
        quoted: &'a [u8],
    },
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
    /// Neighbour discovery.
    Ndisc(ndisc::Repr<'a>),
    /// Any other message, multicast listener messages among them, as it is.
    Other {
        /// Its type.
        message: Message,
        /// Its code.
        code: u8,
        /// What follows the checksum.
        body: &'a [u8],
    },
}

impl<'a> Repr<'a> {
    /// Takes the message out of a view.
    ///
    /// # Errors
    /// Those of [`Packet::check`]; `Truncated` if what the type needs is not there.
    pub fn parse<T: AsRef<[u8]> + ?Sized>(packet: &Packet<&'a T>) -> Result<Repr<'a>> {
        packet.check()?;
        let bytes = packet.long_bytes();
        let code = packet.code();
        let message = packet.message();
        let other = Repr::Other { message, code, body: rest(bytes, HEADER_LEN) };
        if let Some(repr) = ndisc::Repr::parse(message, code, rest(bytes, HEADER_LEN))? {
            return Ok(Repr::Ndisc(repr));
        }
        let quoted = rest(bytes, WITH_WORD);
        let data = quoted;
        let (ident, seq) = (packet.echo_ident(), packet.echo_seq());
        let repr = match message {
            Message::DestinationUnreachable => Repr::DestinationUnreachable { code, quoted },
            Message::PacketTooBig if code == 0 => Repr::PacketTooBig { mtu: packet.word(), quoted },
            Message::TimeExceeded => Repr::TimeExceeded { code, quoted },
            Message::ParameterProblem => {
                Repr::ParameterProblem { code, pointer: packet.word(), quoted }
            }
            Message::EchoRequest if code == 0 => Repr::EchoRequest { ident, seq, data },
            Message::EchoReply if code == 0 => Repr::EchoReply { ident, seq, data },
            _ => return Ok(other),
        };
        holds(LAYER, "message", WITH_WORD, bytes.len())?;
        Ok(repr)
    }

    /// Bytes of the whole message.
    pub const fn buffer_len(&self) -> usize {
        match self {
            Repr::Ndisc(repr) => HEADER_LEN + repr.buffer_len(),
            Repr::Other { body, .. } => HEADER_LEN + body.len(),
            Repr::EchoRequest { data, .. } | Repr::EchoReply { data, .. } => WITH_WORD + data.len(),
            Repr::DestinationUnreachable { quoted, .. }
            | Repr::PacketTooBig { quoted, .. }
            | Repr::TimeExceeded { quoted, .. }
            | Repr::ParameterProblem { quoted, .. } => WITH_WORD + quoted.len(),
        }
    }

    /// Writes the whole message with a checksum of zero; see [`Packet::fill_checksum`].
    ///
    /// # Errors
    /// `NoRoom` if the buffer is shorter than [`Self::buffer_len`]; those of
    /// [`ndisc::Repr::emit`].
    pub fn emit<T: AsRef<[u8]> + AsMut<[u8]>>(&self, packet: &mut Packet<T>) -> Result<()> {
        let len = self.buffer_len();
        room(LAYER, "message", len, packet.as_bytes().len())?;
        let echo = |ident: u16, seq: u16| u32::from(ident) << 16 | u32::from(seq);
        let (message, code, word, data) = match *self {
            Repr::DestinationUnreachable { code, quoted } => {
                (Message::DestinationUnreachable, code, 0, quoted)
            }
            Repr::PacketTooBig { mtu, quoted } => (Message::PacketTooBig, 0, mtu, quoted),
            Repr::TimeExceeded { code, quoted } => (Message::TimeExceeded, code, 0, quoted),
            Repr::ParameterProblem { code, pointer, quoted } => {
                (Message::ParameterProblem, code, pointer, quoted)
            }
            Repr::EchoRequest { ident, seq, data } => {
                (Message::EchoRequest, 0, echo(ident, seq), data)
            }
            Repr::EchoReply { ident, seq, data } => (Message::EchoReply, 0, echo(ident, seq), data),
            Repr::Ndisc(repr) => {
                packet.set_message(repr.message());
                packet.set_code(0);
                packet.set_checksum(0);
                return repr.emit(part_mut(packet.bytes_mut(), HEADER_LEN..len));
            }
            Repr::Other { message, code, body } => {
                packet.set_message(message);
                packet.set_code(code);
                packet.set_checksum(0);
                store(part_mut(packet.bytes_mut(), HEADER_LEN..len), body);
                return Ok(());
            }
        };
        packet.set_message(message);
        packet.set_code(code);
        packet.set_checksum(0);
        packet.set_word(word);
        store(part_mut(packet.bytes_mut(), WITH_WORD..len), data);
        Ok(())
    }
}
