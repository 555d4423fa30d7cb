//! A protocol that is not IP: messages to numbered nodes, signed anew on every link, so that each hop knows
//! that its neighbour has sent them, unchanged, and once.
//!
//! Room: bytes in, bytes and a verdict out. Both kinds of virtual node call it.
//!
//! Layout behind the Ethernet header (EtherType 0x88b5, for experiments), big-endian:
//!
//! ```text
//! to 2 | hops left 1 | 0 | bytes 2 | number on this link 8 | message | HMAC-SHA256, the first 16 bytes
//! ```
//!
//! Signed is everything from `to` to the message. Numbers on a link grow; one that does not is an old frame
//! sent again.

use ring::hmac;
use std::collections::BTreeMap;

const ETHERNET: usize = 14;
const HEADER: usize = 14;
const SIGNATURE: usize = 16;
const ETHER_TYPE: [u8; 2] = [0x88, 0xb5];
/// Hops that a message may take.
const HOPS: u8 = 32;

/// What becomes of a frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// It goes on by this link, signed for it.
    Out(u32),
    /// It is for this node.
    Mine,
    /// It ends here.
    No(&'static str),
}

/// A link to a neighbour.
#[derive(Debug)]
pub struct Link {
    key: hmac::Key,
    sent: u64,
    seen: u64,
}

impl Link {
    /// One whose both ends have this secret.
    pub fn new(secret: &[u8]) -> Self {
        Self { key: hmac::Key::new(hmac::HMAC_SHA256, secret), sent: 0, seen: 0 }
    }
}

/// A node: its number, its links, and by which of them others are reached.
#[derive(Debug, Default)]
pub struct Hop {
    /// Its number.
    pub me: u16,
    /// Links by port.
    pub links: BTreeMap<u32, Link>,
    /// Ports by node.
    pub ways: BTreeMap<u16, u32>,
}

fn read<const N: usize>(b: &[u8], at: usize) -> Option<[u8; N]> {
    b.get(at..)?.first_chunk().copied()
}

/// How long the signed part is, and the signature behind it.
fn parts(frame: &[u8]) -> Option<(usize, &[u8])> {
    let n = usize::from(u16::from_be_bytes(read(frame, ETHERNET + 4)?));
    let end = ETHERNET + HEADER + n;
    Some((end, frame.get(end..end + SIGNATURE)?))
}

/// The message of a frame.
pub fn message(frame: &[u8]) -> Option<&[u8]> {
    let (end, _) = parts(frame)?;
    frame.get(ETHERNET + HEADER..end)
}

impl Hop {
    /// Verifies a frame that came by a link and, where it goes on, signs it for the next.
    pub fn pass(&mut self, from: u32, frame: &mut [u8]) -> Verdict {
        if read(frame, 12) != Some(ETHER_TYPE) {
            return Verdict::No("another protocol");
        }
        let Some(link) = self.links.get_mut(&from) else { return Verdict::No("no such link") };
        let Some((end, signature)) = parts(frame) else { return Verdict::No("cut short") };
        let signed = frame.get(ETHERNET..end).unwrap_or_default();
        // To the end whatever differs: how long it takes tells nothing.
        let right = hmac::sign(&link.key, signed);
        let same = right.as_ref().iter().zip(signature).fold(0, |d, (a, b)| d | (a ^ b));
        if same != 0 {
            return Verdict::No("not the neighbour's signature");
        }
        let number = read(frame, ETHERNET + 6).map_or(0, u64::from_be_bytes);
        if number <= link.seen {
            return Verdict::No("sent again");
        }
        link.seen = number;
        let to = read(frame, ETHERNET).map_or(0, u16::from_be_bytes);
        if to == self.me {
            return Verdict::Mine;
        }
        let Some(way) = self.ways.get(&to).copied() else { return Verdict::No("no way there") };
        match frame.get_mut(ETHERNET + 2) {
            Some(hops) if *hops > 1 => *hops -= 1,
            _ => return Verdict::No("too many hops"),
        }
        self.sign(way, frame)
    }

    /// A message of this node's own.
    pub fn send(&mut self, to: u16, message: &[u8]) -> Option<(u32, Vec<u8>)> {
        let way = *self.ways.get(&to)?;
        let n = u16::try_from(message.len()).ok().filter(|n| *n <= 1400)?;
        let mut frame = vec![0xff; 6];
        frame.extend([0x02, 0, 0, 0, self.me.to_be_bytes()[0], self.me.to_be_bytes()[1]]);
        frame.extend(ETHER_TYPE);
        frame.extend(to.to_be_bytes());
        frame.extend([HOPS, 0]);
        frame.extend(n.to_be_bytes());
        frame.extend([0; 8]);
        frame.extend(message);
        frame.extend([0; SIGNATURE]);
        (self.sign(way, &mut frame) == Verdict::Out(way)).then_some((way, frame))
    }

    fn sign(&mut self, by: u32, frame: &mut [u8]) -> Verdict {
        let Some(link) = self.links.get_mut(&by) else { return Verdict::No("no such link") };
        link.sent += 1;
        let Some((end, _)) = parts(frame) else { return Verdict::No("cut short") };
        if let Some(to) = frame.get_mut(ETHERNET + 6..ETHERNET + 14) {
            to.copy_from_slice(&link.sent.to_be_bytes());
        }
        let signature = hmac::sign(&link.key, frame.get(ETHERNET..end).unwrap_or_default());
        if let Some(to) = frame.get_mut(end..end + SIGNATURE) {
            for (to, b) in to.iter_mut().zip(signature.as_ref()) {
                *to = *b;
            }
        }
        Verdict::Out(by)
    }
}
