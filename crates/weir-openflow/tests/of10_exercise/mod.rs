//! What must hold of OpenFlow 1.0's encoding whatever bytes come; shared with the fuzz target.

use weir_openflow::codec::{decode, encode};
use weir_openflow::model::Version;

/// Reads any bytes as they are, and as a message of 1.0 whose length is true. What can be read can
/// be written, and written again is the same bytes.
pub fn any_bytes(bytes: &[u8]) {
    let _ = decode(Version::V10, bytes);
    let mut frame = bytes.to_vec();
    frame.resize(bytes.len().clamp(8, 0xffff), 0);
    frame[0] = 1;
    let length = frame.len() as u16;
    frame[2..4].copy_from_slice(&length.to_be_bytes());
    match decode(Version::V10, &frame) {
        Ok(msg) => {
            let mut once = Vec::new();
            encode(Version::V10, &msg, &mut once).expect("what was read can be written");
            assert!(once.len() <= frame.len().max(64), "{} bytes of {}", once.len(), frame.len());
            // An invalid text, replaced, may be longer than its field; after that it stays.
            let again = decode(Version::V10, &once).expect("what was written can be read");
            let mut twice = Vec::new();
            encode(Version::V10, &again, &mut twice).expect("and written again");
            assert_eq!(once, twice);
        }
        Err(e) => {
            assert!(frame.starts_with(&e.data) && e.data.len() >= frame.len().min(64));
            assert!(e.into_reply().is_none_or(|reply| {
                let mut out = Vec::new();
                encode(Version::V10, &reply, &mut out).is_ok() && out[..2] == [1, 1]
            }));
        }
    }
}
