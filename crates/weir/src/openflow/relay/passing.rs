//! How many OpenFlow messages go by in a stream of bytes that is carried on unread.
//!
//! Room: lengths only; what messages say is for the two ends. Fed by `home`.

use weir_openflow::model::Version;

/// Bytes of a message's head: version, type, length, transaction.
const HEAD: usize = 8;
/// What both ends begin with, of the highest version that each speaks.
const HELLO: u8 = 0;

/// One way of a connection.
#[derive(Debug, Default)]
pub struct Passing {
    head: [u8; HEAD],
    /// Bytes of it that have come.
    have: usize,
    /// Bytes of the message that are still to come.
    rest: usize,
    /// Messages that have begun.
    messages: u64,
    version: Option<Version>,
}

impl Passing {
    /// What begins with these bytes.
    pub fn of(bytes: &[u8]) -> Self {
        let mut new = Self::default();
        new.pass(bytes);
        new
    }
    /// More bytes go by.
    pub fn pass(&mut self, mut bytes: &[u8]) {
        while !bytes.is_empty() {
            if self.rest > 0 {
                let n = self.rest.min(bytes.len());
                self.rest -= n;
                bytes = bytes.get(n..).unwrap_or_default();
                continue;
            }
            let n = (HEAD - self.have).min(bytes.len());
            let (of_head, more) = bytes.split_at(n);
            self.head.iter_mut().skip(self.have).zip(of_head).for_each(|(to, b)| *to = *b);
            (self.have, bytes) = (self.have + n, more);
            if self.have == HEAD {
                self.begin();
            }
        }
    }
    fn begin(&mut self) {
        let [version, kind, high, low, ..] = self.head;
        self.messages += 1;
        self.have = 0;
        // A length that is none ends the connection where it is read.
        self.rest = usize::from(u16::from_be_bytes([high, low])).saturating_sub(HEAD);
        if kind != HELLO {
            self.version = match version {
                1 => Some(Version::V10),
                4 => Some(Version::V13),
                _ => self.version,
            };
        }
    }
    /// Messages that have begun.
    pub fn messages(&self) -> u64 {
        self.messages
    }
    /// The version that both ends agreed on, as far as it has shown.
    pub fn version(&self) -> Option<Version> {
        self.version
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn message(version: u8, kind: u8, more: usize) -> Vec<u8> {
        let len = u16::try_from(HEAD + more).unwrap().to_be_bytes();
        let mut m = vec![version, kind, len[0], len[1], 0, 0, 0, 9];
        m.resize(HEAD + more, 7);
        m
    }

    proptest! {
        /// However the bytes are cut.
        #[test]
        fn messages_are_counted_however_they_are_cut(
            lengths in prop::collection::vec(0..300usize, 1..20), cut in 1..50usize,
        ) {
            let mut bytes = message(4, HELLO, 0);
            lengths.iter().for_each(|n| bytes.extend(message(1, 10, *n)));
            let mut p = Passing::of(&bytes[..3]);
            prop_assert_eq!((p.messages(), p.version()), (0, None));
            bytes[3..].chunks(cut).for_each(|c| p.pass(c));
            prop_assert_eq!((p.messages(), p.version()), (1 + lengths.len() as u64, Some(Version::V10)));
        }
    }
}
