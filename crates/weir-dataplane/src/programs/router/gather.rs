//! Packets to the router itself that come in pieces, put together (RFC 791 §3.2, RFC 8200 §4.5). Pure: pieces and the time
//! come in, whole packets go out. Called by `ipv4.rs` and `ipv6.rs`; time is told by `mod.rs`.
//!
//! Bounds: [`MOST`] packets at once, of which the one that began first makes room; [`LONGEST`] bytes in [`PIECES`] pieces each; what is
//! not whole after [`LIFE`] is forgotten, in silence. So a flood of pieces costs packets in pieces, and nothing else. A piece that overlaps
//! another ends its packet and all that still comes of it, in either family (RFC 5722 §4); one that comes twice is one.

use super::IfaceId;
use std::net::IpAddr;
use weir_packet::Nanos;

/// Packets that may be on their way at once.
const MOST: usize = 8;
/// Bytes behind what goes in front: a host must take 1,500 in all (RFC 8200 §5).
pub(super) const LONGEST: usize = 8192;
/// Pieces of one packet.
const PIECES: usize = 64;
/// How long pieces are waited for: a host may wait for a minute (RFC 8200 §4.5), which so few places do not allow.
pub(super) const LIFE: Nanos = Nanos::from_secs(15);

/// What pieces of one packet have in common.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Which {
    /// Where its addresses are those of a link.
    pub link: Option<IfaceId>,
    pub src: IpAddr,
    pub dst: IpAddr,
    pub ident: u32,
    /// Of IPv4 alone.
    pub protocol: u8,
}

/// Whether pieces follow one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Follow {
    More,
    None,
}

/// A piece.
#[derive(Debug)]
pub(super) struct Piece<'a> {
    /// Where it belongs, in bytes.
    pub at: usize,
    pub follow: Follow,
    pub bytes: &'a [u8],
    /// What goes in front of the whole, by the first.
    pub head: Option<Vec<u8>>,
}

/// What a piece makes.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Came {
    /// Others are missing.
    Kept,
    /// A packet: the first one's head, and all bytes in order.
    Whole(Vec<u8>),
    /// Nothing: it belongs to no packet that can be.
    Refused,
}

#[derive(Debug)]
struct Gathering {
    which: Which,
    since: Nanos,
    head: Option<Vec<u8>>,
    bytes: Vec<u8>,
    /// Where pieces begin and end.
    pieces: Vec<(usize, usize)>,
    /// How long it is, once the last has come.
    len: Option<usize>,
    /// A piece of it was refused.
    spoilt: bool,
}

/// Packets of which pieces are missing.
#[derive(Debug, Default)]
pub(super) struct Gathered(Vec<Gathering>);

impl Gathered {
    /// Forgets what was not whole in time.
    pub fn forget(&mut self, now: Nanos) {
        self.0.retain(|g| now.since(g.since) < LIFE);
    }

    /// A piece has come.
    pub fn add(&mut self, which: Which, piece: Piece<'_>, now: Nanos) -> Came {
        self.forget(now);
        let at = match self.0.iter().position(|g| g.which == which) {
            Some(at) => at,
            None => {
                if self.0.len() >= MOST {
                    self.0.remove(0);
                }
                self.0.push(Gathering::begun(which, now));
                self.0.len() - 1
            }
        };
        let Some(g) = self.0.get_mut(at) else { return Came::Refused };
        match g.add(piece) {
            Came::Kept => Came::Kept,
            Came::Refused => {
                // What it had is nobody's; that it was there is remembered for what still comes.
                *g = Gathering { spoilt: true, ..Gathering::begun(which, g.since) };
                Came::Refused
            }
            whole @ Came::Whole(_) => {
                self.0.remove(at);
                whole
            }
        }
    }
}

impl Gathering {
    fn begun(which: Which, since: Nanos) -> Self {
        let (bytes, pieces) = (Vec::new(), Vec::new());
        Self { which, since, head: None, bytes, pieces, len: None, spoilt: false }
    }

    fn add(&mut self, piece: Piece<'_>) -> Came {
        let (at, end) = (piece.at, piece.at + piece.bytes.len());
        if self.spoilt || piece.bytes.is_empty() || end > LONGEST {
            return Came::Refused;
        }
        let same = self.pieces.contains(&(at, end))
            && self.bytes.get(at..end) == Some(piece.bytes)
            && (piece.follow == Follow::More || self.len == Some(end));
        if same {
            return Came::Kept;
        }
        let overlaps = self.pieces.iter().any(|&(a, e)| a < end && at < e);
        let beyond = match piece.follow {
            Follow::More => self.len.is_some_and(|len| end > len),
            Follow::None => self.len.is_some() || self.pieces.iter().any(|&(_, e)| e > end),
        };
        if overlaps || beyond || self.pieces.len() >= PIECES {
            return Came::Refused;
        }
        if self.bytes.len() < end {
            self.bytes.resize(end, 0);
        }
        if let Some(to) = self.bytes.get_mut(at..end) {
            to.copy_from_slice(piece.bytes);
        }
        self.pieces.push((at, end));
        self.head = self.head.take().or(piece.head);
        if piece.follow == Follow::None {
            self.len = Some(end);
        }
        let there: usize = self.pieces.iter().map(|(a, e)| e - a).sum();
        if self.len != Some(there) {
            return Came::Kept;
        }
        let Some(mut whole) = self.head.take() else { return Came::Refused };
        whole.append(&mut self.bytes);
        Came::Whole(whole)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::net::Ipv4Addr;

    const START: Nanos = Nanos::from_secs(100);

    fn which(ident: u32) -> Which {
        let [src, dst] = [1, 2].map(|n| Ipv4Addr::new(10, 0, 0, n).into());
        Which { link: None, src, dst, ident, protocol: 1 }
    }
    fn piece(bytes: &[u8], at: usize, end: usize) -> Piece<'_> {
        let follow = if end == bytes.len() { Follow::None } else { Follow::More };
        let head = (at == 0).then(|| b"head".to_vec());
        Piece { at, follow, bytes: &bytes[at..end], head }
    }
    fn whole(bytes: &[u8]) -> Came {
        Came::Whole([b"head", bytes].concat())
    }

    proptest! {
        /// Any cuts, in any order, some of them twice: the packet comes out once.
        #[test]
        fn pieces_in_any_order_are_the_packet(
            bytes in proptest::collection::vec(any::<u8>(), 16..600),
            cuts in proptest::collection::btree_set(1..70_usize, 0..12),
            order in any::<prop::sample::Index>(),
            again in any::<prop::sample::Index>(),
        ) {
            let mut at: Vec<usize> =
                cuts.into_iter().map(|c| c * 8).filter(|c| *c < bytes.len()).collect();
            at.insert(0, 0);
            at.push(bytes.len());
            let mut parts: Vec<(usize, usize)> = at.windows(2).map(|w| (w[0], w[1])).collect();
            let n = parts.len();
            parts.rotate_left(order.index(n));
            let (last, others) = parts.split_last().unwrap();
            let mut g = Gathered::default();
            for &(a, e) in others {
                prop_assert_eq!(g.add(which(1), piece(&bytes, a, e), START), Came::Kept);
            }
            if !others.is_empty() {
                let (a, e) = others[again.index(others.len())];
                prop_assert_eq!(g.add(which(1), piece(&bytes, a, e), START), Came::Kept);
            }
            prop_assert_eq!(g.add(which(1), piece(&bytes, last.0, last.1), START), whole(&bytes));
            prop_assert!(g.0.is_empty());
        }
    }

    #[test]
    fn what_overlaps_ends_the_packet_and_what_still_comes_of_it() {
        let bytes: Vec<u8> = (0..64).collect();
        let mut other = bytes.clone();
        other[20] ^= 1;
        let longer = [&bytes[..], &[0; 8]].concat();
        for (first, second) in [
            (piece(&bytes, 0, 32), piece(&bytes, 24, 64)),
            (piece(&bytes, 16, 64), piece(&bytes, 0, 24)),
            // In the same place, and not the same.
            (piece(&bytes, 16, 32), piece(&other, 16, 32)),
            // Behind the end.
            (piece(&bytes, 32, 64), piece(&longer, 64, 72)),
            (piece(&longer, 64, 72), piece(&bytes, 32, 64)),
        ] {
            let mut g = Gathered::default();
            let told = format!("{first:?} {second:?}");
            assert_eq!(g.add(which(1), first, START), Came::Kept, "{told}");
            assert_eq!(g.add(which(1), second, START), Came::Refused, "{told}");
            for (a, e) in [(0, 32), (32, 64)] {
                assert_eq!(g.add(which(1), piece(&bytes, a, e), START), Came::Refused, "{told}");
            }
            // When nothing of it comes any more, its number is another packet's.
            let later = START + LIFE;
            assert_eq!(g.add(which(1), piece(&bytes, 0, 32), later), Came::Kept);
            assert_eq!(g.add(which(1), piece(&bytes, 32, 64), later), whole(&bytes));
        }
    }

    #[test]
    fn bounds_hold() {
        let bytes = vec![7; LONGEST + 8];
        let mut g = Gathered::default();
        assert_eq!(g.add(which(1), piece(&bytes, LONGEST - 8, LONGEST), START), Came::Kept);
        assert_eq!(g.add(which(1), piece(&bytes, LONGEST, LONGEST + 8), START), Came::Refused);
        for n in 0..PIECES {
            assert_eq!(g.add(which(2), piece(&bytes, n * 8, n * 8 + 8), START), Came::Kept);
        }
        assert_eq!(g.add(which(2), piece(&bytes, LONGEST - 8, LONGEST), START), Came::Refused);
        // One more than there are places for: who began first is forgotten.
        let bytes = [1; 32];
        let mut g = Gathered::default();
        for n in 0..=MOST as u32 {
            assert_eq!(g.add(which(n), piece(&bytes, 0, 16), START), Came::Kept);
        }
        assert_eq!(g.0.len(), MOST);
        assert_eq!(g.add(which(1), piece(&bytes, 16, 32), START), whole(&bytes));
        assert_eq!(g.add(which(0), piece(&bytes, 16, 32), START), Came::Kept);
        // What is not whole in time is forgotten.
        assert_eq!(g.add(which(3), piece(&bytes, 16, 32), START + LIFE), Came::Kept);
        assert_eq!(g.0.len(), 1);
    }
}
