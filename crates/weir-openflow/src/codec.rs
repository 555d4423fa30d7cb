//! Messages of any version: what the versions share, and which encoding takes the rest.
//!
//! Room: the door of the message floor. Bytes of whole messages (see [`framing`](crate::framing))
//! and the model; no state. Called by the channel, and by whoever makes messages beforehand.
//!
//! An encoding is two functions, `decode_body` and `encode_body`, which see everything but HELLO,
//! ERROR and ECHO: those are the same in all versions (1.0 §5.5; 1.3 §7.5) and are done here.

use crate::errors;
use crate::model::{ErrorCode, ErrorMsg, Message, Msg, Version};
use crate::wire::{self, HEADER_LEN, Header, Reader, Writer};
use crate::{of10, of13};

/// Bytes of the offending message that an error carries at most. At least 64 are asked for (1.3
/// §7.4.4); more help who reads it, all of 64 KiB would help a peer to fill our queues.
pub const ERROR_DATA_MAX: usize = 1024;

/// Types that mean the same in all versions.
mod kind {
    pub(super) const HELLO: u8 = 0;
    pub(super) const ERROR: u8 = 1;
    pub(super) const ECHO_REQUEST: u8 = 2;
    pub(super) const ECHO_REPLY: u8 = 3;
}

/// OFPHET_VERSIONBITMAP.
const HELLO_BITMAP: u16 = 1;

/// A message that can't be taken, and what its sender is to be told.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("message type {kind}, xid {xid:#x}: {code:?}")]
pub struct DecodeError {
    /// The message's transaction.
    pub xid: u32,
    /// The message's type, as its version numbers it.
    pub kind: u8,
    /// What is wrong.
    pub code: ErrorCode,
    /// The message's first bytes: all, or [`ERROR_DATA_MAX`].
    pub data: Vec<u8>,
    /// Of a reply with flows, one of which matches a field that is none of OpenFlow's: its OXM class and number.
    pub field: Option<(u16, u8)>,
}

impl DecodeError {
    /// An error about this message, given whole.
    pub fn new(frame: &[u8], code: ErrorCode) -> Self {
        let (xid, kind) = Header::read(frame).map_or((0, 0), |h| (h.xid, h.kind));
        let unknown = (code == ErrorCode::MatchBadField).then(|| of13::unknown_field(frame));
        Self { xid, kind, code, data: error_data(frame), field: unknown.flatten() }
    }

    /// The error to send, with the offending message's xid. `None`: the message was an error
    /// itself, and errors are not answered, lest two peers never end.
    pub fn into_reply(self) -> Option<Msg> {
        (self.kind != kind::ERROR).then_some(Msg {
            xid: self.xid,
            body: Message::Error(ErrorMsg { code: self.code, data: self.data }),
        })
    }
}

/// As much of an offending message as an error carries.
pub fn error_data(frame: &[u8]) -> Vec<u8> {
    frame[..frame.len().min(ERROR_DATA_MAX)].to_vec()
}

/// A message that can't be written in this version.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum EncodeError {
    /// The version has no such thing.
    #[error("OpenFlow {} has no {what}", version_name(*.version))]
    NotInVersion {
        /// The version.
        version: Version,
        /// What it lacks.
        what: &'static str,
    },
    /// A value does not fit its field, or may not stand there.
    #[error("{what} can't be encoded")]
    BadValue {
        /// Which.
        what: &'static str,
    },
    /// A message or a structure in it is longer than its length field can say.
    #[error("{len} bytes are more than a length of 16 bits can say")]
    TooLong {
        /// Its length.
        len: usize,
    },
}

const fn version_name(version: Version) -> &'static str {
    match version {
        Version::V10 => "1.0",
        Version::V13 => "1.3",
    }
}

/// Reads one whole message of a version. A HELLO, or an ERROR, may be of any version, since they come before
/// one is agreed upon (1.3 §6.3.1).
///
/// # Errors
/// What the specification says is to be told to the sender. Nothing of the message is used then.
pub fn decode(version: Version, frame: &[u8]) -> Result<Msg, DecodeError> {
    decode_parts(version, frame).map_err(|code| DecodeError::new(frame, code))
}

fn decode_parts(version: Version, frame: &[u8]) -> Result<Msg, ErrorCode> {
    let header = Header::read(frame).ok_or(ErrorCode::BadLen)?;
    let body = &frame[HEADER_LEN..];
    if header.kind == kind::HELLO {
        length_is_true(header, frame)?;
        return Ok(Msg { xid: header.xid, body: hello(header.version, body)? });
    }
    if header.version != version as u8 && header.kind != kind::ERROR {
        return Err(ErrorCode::BadVersion);
    }
    length_is_true(header, frame)?;
    let body = match header.kind {
        kind::ERROR => error(version, body)?,
        kind::ECHO_REQUEST => Message::EchoRequest(body.to_vec()),
        kind::ECHO_REPLY => Message::EchoReply(body.to_vec()),
        other => match version {
            Version::V10 => of10::decode_body(other, body)?,
            Version::V13 => of13::decode_body(other, body)?,
        },
    };
    Ok(Msg { xid: header.xid, body })
}

/// Whether a message is of a type that switches alone send, whatever its body.
pub fn is_for_controllers(version: Version, frame: &[u8]) -> bool {
    let Some(header) = Header::read(frame).filter(|h| h.version == version as u8) else {
        return false;
    };
    match version {
        Version::V10 => of10::FOR_CONTROLLERS.contains(&header.kind),
        Version::V13 => of13::FOR_CONTROLLERS.contains(&header.kind),
    }
}

fn length_is_true(header: Header, frame: &[u8]) -> Result<(), ErrorCode> {
    if usize::from(header.length) == frame.len() { Ok(()) } else { Err(ErrorCode::BadLen) }
}

/// Elements that are unknown are passed over (1.3 §7.5.1); 1.0 says the same of whatever follows.
fn hello(version: u8, body: &[u8]) -> Result<Message, ErrorCode> {
    let mut r = Reader::new(body, ErrorCode::BadLen);
    let mut bitmap = Vec::new();
    // A peer older than the elements may send anything behind the header.
    while version >= Version::V13 as u8 && r.len() >= 4 {
        let (kind, length) = (r.u16()?, usize::from(r.u16()?));
        let mut element =
            r.within(length.checked_sub(4).ok_or(ErrorCode::BadLen)?, ErrorCode::BadLen)?;
        r.skip(r.len().min(length.next_multiple_of(8) - length))?;
        if kind == HELLO_BITMAP && bitmap.is_empty() {
            while !element.is_empty() {
                bitmap.push(element.u32()?);
            }
        }
    }
    Ok(Message::Hello { version, bitmap })
}

fn error(version: Version, body: &[u8]) -> Result<Message, ErrorCode> {
    let mut r = Reader::new(body, ErrorCode::BadLen);
    let (kind, code) = (r.u16()?, r.u16()?);
    let code = errors::from_wire(version, kind, code);
    Ok(Message::Error(ErrorMsg { code, data: r.take_rest().to_vec() }))
}

/// Appends a message in a version's bytes to `out`. Replies that exceed 64 KiB become several
/// messages with the flag MORE.
///
/// # Errors
/// Where the version can't say this; `out` is as it was then.
pub fn encode(version: Version, msg: &Msg, out: &mut Vec<u8>) -> Result<(), EncodeError> {
    let before = out.len();
    let done = encode_parts(version, msg, out);
    if done.is_err() {
        out.truncate(before);
    }
    done
}

fn encode_parts(version: Version, msg: &Msg, out: &mut Vec<u8>) -> Result<(), EncodeError> {
    let wire_version = version as u8;
    let bytes = |out: &mut Vec<u8>, kind, data: &[u8]| {
        wire::message(out, wire_version, kind, msg.xid, |w| {
            w.bytes(data);
            Ok(())
        })
    };
    match &msg.body {
        Message::Hello { version, bitmap } => {
            wire::message(out, *version, kind::HELLO, msg.xid, |w| write_bitmap(w, bitmap))
        }
        Message::Error(e) => wire::message(out, wire_version, kind::ERROR, msg.xid, |w| {
            let (kind, code) = errors::to_wire(version, e.code);
            w.u16(kind);
            w.u16(code);
            w.bytes(&e.data);
            Ok(())
        }),
        Message::EchoRequest(data) => bytes(out, kind::ECHO_REQUEST, data),
        Message::EchoReply(data) => bytes(out, kind::ECHO_REPLY, data),
        other => match version {
            Version::V10 => of10::encode_body(msg.xid, other, out),
            Version::V13 => of13::encode_body(msg.xid, other, out),
        },
    }
}

fn write_bitmap(w: &mut Writer<'_>, bitmap: &[u32]) -> Result<(), EncodeError> {
    if bitmap.is_empty() {
        return Ok(());
    }
    let start = w.at();
    w.u16(HELLO_BITMAP);
    w.u16(0);
    for word in bitmap {
        w.u32(*word);
    }
    w.patch_len(start + 2, start).map_err(|len| EncodeError::TooLong { len })?;
    w.pad_to_8(start);
    Ok(())
}
