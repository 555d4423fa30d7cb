//! What a channel says to its owner: events, and what became of messages.
//!
//! Room: plain data, made by `machine` and `understand`.

use super::Offer;
use crate::codec::{DecodeError, EncodeError};
use crate::model::{Msg, Version};

/// Bytes of an offending message that an error repeats: the least that 1.0 §5.4.4 and 1.3 §7.4.4 ask for.
const OFFENDING: usize = 64;

/// What happened.
#[derive(Clone, Debug, PartialEq, Eq)]
#[allow(clippy::large_enum_variant, reason = "nearly every event is a message")]
pub enum Event {
    /// The versions are agreed; messages flow.
    Up(Version),
    /// A message for the owner.
    Message(Received),
    /// On a controller's side: the switch said something that can't be read. It is told nothing of it: errors
    /// answer requests (1.0 §5.4.4, 1.3 §7.4.4), and what a switch says is answers and news.
    Misread(DecodeError),
    /// The connection is over. Write what is still outgoing, then close it.
    Closed(CloseReason),
}

/// A message with the first bytes it came as.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Received {
    /// What it means.
    pub msg: Msg,
    /// How it began, for an error about it.
    pub head: Head,
}

/// The first bytes of a message, as many as an error repeats.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Head {
    bytes: [u8; OFFENDING],
    len: u8,
}

impl Head {
    /// Of a whole message.
    pub fn of(frame: &[u8]) -> Self {
        let mut bytes = [0; OFFENDING];
        let len = frame.len().min(OFFENDING);
        bytes[..len].copy_from_slice(&frame[..len]);
        Self { bytes, len: len as u8 }
    }
    /// The bytes.
    pub fn as_bytes(&self) -> &[u8] {
        &self.bytes[..self.len.into()]
    }
    /// The message's transaction id.
    pub fn xid(&self) -> u32 {
        u32::from_be_bytes([self.bytes[4], self.bytes[5], self.bytes[6], self.bytes[7]])
    }
}

/// Why a connection is over.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum CloseReason {
    /// No version is spoken by both.
    NoCommonVersion {
        /// What the peer offered.
        theirs: Offer,
    },
    /// The peer's first message was not a hello.
    NoHello {
        /// Its type.
        kind: u8,
    },
    /// The peer sent an error instead of a hello, or HELLO_FAILED after one.
    Refused {
        /// The error's type.
        kind: u16,
        /// Its code.
        code: u16,
        /// The text in it.
        text: String,
    },
    /// No version was agreed in time.
    HandshakeTimeout,
    /// A header's length is less than a header: where the next message begins is lost.
    BrokenFraming,
    /// No sign of life.
    Dead,
}

impl std::fmt::Display for CloseReason {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::NoCommonVersion { theirs } => {
                write!(f, "no common version: the peer offers {theirs}")
            }
            Self::NoHello { kind } => write!(f, "the first message has type {kind}, not hello"),
            Self::Refused { kind, code, text } => {
                write!(f, "the peer refused: error type {kind}, code {code}: {text:?}")
            }
            Self::HandshakeTimeout => f.write_str("no version was agreed in time"),
            Self::BrokenFraming => f.write_str("a message's length is less than its header"),
            Self::Dead => f.write_str("no sign of life"),
        }
    }
}

/// What became of a message to send.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sent {
    /// It waits to be written.
    Queued,
    /// It was asynchronous and there was no room; it is counted.
    Dropped,
}

/// Why a message could not be sent.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum SendError {
    /// No version is agreed yet, or the connection is over.
    #[error("the channel is not up")]
    NotUp,
    /// The output is full; a controller's requests are to wait until the switch has read.
    #[error("the output is full")]
    Full,
    /// It has no form in this version, or does not fit into a message.
    #[error(transparent)]
    Unencodable(#[from] EncodeError),
}
