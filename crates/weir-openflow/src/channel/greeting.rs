//! What the first message of the peer leads to (1.0 §5.5.1; 1.3.5 §6.3.1).
//!
//! Room: pure; called by `machine` with a whole message while no version is agreed.

use super::hello::{self, Offer, negotiate};
use super::{CloseReason, Versions};
use crate::model::{ErrorCode, ErrorMsg, Message, Version};

/// OFPT_ERROR, in every version.
pub(super) const ERROR: u8 = 1;

/// Where it leads.
pub(super) enum Greeting {
    /// To a version.
    Agreed(Version),
    /// To the end. With a text: the peer is told by HELLO_FAILED, INCOMPATIBLE under a version of ours.
    Failed(CloseReason, Option<(Version, String)>),
}

/// Reads the peer's first message.
pub(super) fn greet(versions: Versions, frame: &[u8]) -> Greeting {
    match frame {
        [_, hello::TYPE, ..] => {
            let theirs = Offer::read(frame);
            match negotiate(versions, &theirs).and_then(known) {
                Some(version) => Greeting::Agreed(version),
                None => Greeting::Failed(
                    CloseReason::NoCommonVersion { theirs },
                    Some((
                        below(versions, theirs.version),
                        format!("we speak {}, you offer {theirs}", Offer::of_all(versions)),
                    )),
                ),
            }
        }
        [_, ERROR, ..] => Greeting::Failed(refusal(frame), None),
        [version, kind, ..] => Greeting::Failed(
            CloseReason::NoHello { kind: *kind },
            Some((
                below(versions, *version),
                format!("the first message must be a hello, not type {kind}"),
            )),
        ),
        // No frame is shorter than a header.
        [] | [_] => Greeting::Failed(CloseReason::BrokenFraming, None),
    }
}

/// What an error message says, read without a version: header, type, code, data are the same in all.
pub(super) fn refusal(frame: &[u8]) -> CloseReason {
    let body = frame.get(8..).unwrap_or_default();
    let (kind, code) = match body {
        [k0, k1, c0, c1, ..] => (u16::from_be_bytes([*k0, *k1]), u16::from_be_bytes([*c0, *c1])),
        _ => (0, 0),
    };
    let text = body.get(4..).unwrap_or_default();
    let text = String::from_utf8_lossy(&text[..text.len().min(256)]);
    CloseReason::Refused { kind, code, text: text.trim_end_matches('\0').to_owned() }
}

/// Whether it is an error message that says HELLO_FAILED (type 0 in every version).
pub(super) fn is_hello_failed(frame: &[u8]) -> bool {
    matches!(frame, [_, ERROR, _, _, _, _, _, _, 0, 0, ..])
}

/// HELLO_FAILED, INCOMPATIBLE with a line of text. Under any version its type and code are 0.
pub(super) fn hello_failed(text: &str) -> Message {
    let data = text.as_bytes().to_vec();
    Message::Error(ErrorMsg { code: ErrorCode::HelloIncompatible, data })
}

/// The model's name of a version.
fn known(version: u8) -> Option<Version> {
    [Version::V10, Version::V13].into_iter().find(|v| *v as u8 == version)
}

/// The version of ours in which a peer that speaks `version` most likely understands an error.
fn below(versions: Versions, version: u8) -> Version {
    let mut of_ours = [Version::V13, Version::V10].into_iter().filter(|v| versions.has(*v));
    let lowest = of_ours.clone().next_back().unwrap_or(Version::V10);
    of_ours.find(|v| *v as u8 <= version).unwrap_or(lowest)
}
