//! OpenFlow 1.3 (wire version 4, as 1.3.5 describes it): the model's messages in its bytes.
//!
//! Room: an encoding. Bytes and the model; no state, no switch. Called by the codec alone.

use crate::codec::EncodeError;
use crate::model::{ErrorCode, Message, Version};

/// Reads the body of a message of a type; HELLO, ERROR and ECHO are the codec's.
///
/// # Errors
/// What the specification asks for.
pub fn decode_body(kind: u8, body: &[u8]) -> Result<Message, ErrorCode> {
    let _ = (kind, body);
    Err(ErrorCode::BadType)
}

/// Appends a message, header included, as one or several.
///
/// # Errors
/// Where 1.3 can't say this.
pub fn encode_body(xid: u32, message: &Message, out: &mut Vec<u8>) -> Result<(), EncodeError> {
    let _ = (xid, message, out);
    Err(EncodeError::NotInVersion { version: Version::V13, what: "such message" })
}
