//! HELLO on the wire, and which version two of them agree on (1.0 §5.5.1; 1.3.5 §6.3.1, §7.5.1).
//!
//! Room: pure; called by `greeting` and `machine`.

use super::Versions;
use crate::codec;
use crate::model::{Message, Msg, Version};

/// OFPT_HELLO.
pub(super) const TYPE: u8 = 0;
/// The first version whose hello has elements.
const FIRST_WITH_ELEMENTS: u8 = 4;

/// What one side offers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Offer {
    /// The header's version: the highest.
    pub version: u8,
    /// Bit n: version n, for n below 32; `None`: no bitmap was sent.
    pub bitmap: Option<u32>,
}

impl Offer {
    /// What a hello for these versions says.
    pub fn of(versions: Versions) -> Self {
        let version = versions.highest();
        Self { version, bitmap: (version >= FIRST_WITH_ELEMENTS).then_some(versions.bits()) }
    }

    /// The same with every version named, for people.
    pub(super) fn of_all(versions: Versions) -> Self {
        Self { version: versions.highest(), bitmap: Some(versions.bits()) }
    }

    /// Reads a hello, given whole. One whose elements lie counts as one without: its header still
    /// says what a hello without elements would.
    pub(super) fn read(hello: &[u8]) -> Self {
        // A hello is read alike under any version.
        let bitmap = match codec::decode(Version::V13, hello) {
            Ok(Msg { body: Message::Hello { bitmap, .. }, .. }) => bitmap.first().copied(),
            _ => None,
        };
        Self { version: hello.first().copied().unwrap_or(0), bitmap }
    }

    /// As a message.
    pub(super) fn message(&self) -> Message {
        Message::Hello { version: self.version, bitmap: self.bitmap.into_iter().collect() }
    }

    /// Whether it rules `version` out.
    fn lacks(&self, version: u8) -> bool {
        self.bitmap.is_some_and(|b| b & bit(version) == 0)
    }
}

/// The version that both sides take, each by itself: the highest common one where both sent a
/// bitmap, else the lower of the two headers' where the recipient speaks it. `None`: neither can go on.
pub fn negotiate(versions: Versions, theirs: &Offer) -> Option<u8> {
    let ours = Offer::of(versions);
    if let (Some(a), Some(b)) = (ours.bitmap, theirs.bitmap) {
        return (a & b).checked_ilog2().map(|v| v as u8);
    }
    let lower = ours.version.min(theirs.version);
    // A peer whose bitmap lacks the lower version will refuse; so do we, at once.
    (versions.bits() & bit(lower) != 0 && !theirs.lacks(lower)).then_some(lower)
}

/// A version's bit; none where the bitmap's first word has no room for it.
fn bit(version: u8) -> u32 {
    1_u32.checked_shl(version.into()).unwrap_or(0)
}

impl std::fmt::Display for Offer {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self.bitmap {
            None => write!(f, "version {} without a bitmap", self.version),
            Some(0) => f.write_str("no version at all"),
            Some(bits) => {
                f.write_str("version")?;
                let all = (0..32).filter(|v| bits & (1 << v) != 0);
                for (i, v) in all.enumerate() {
                    write!(f, "{}{v}", if i == 0 { " " } else { ", " })?;
                }
                Ok(())
            }
        }
    }
}
