//! Frames between the two nodes of a VDP that is away: a kind (1 byte), a length (4 bytes, big-endian),
//! so many bytes.
//!
//! Room: bytes; whatever comes, no more than [`LONGEST`] of them are kept.

use super::{Hello, State, Token};
use weir_agent::{Purpose, Session};

/// The longest frame: bytes that sockets may hold for a connection that rests.
pub const LONGEST: usize = 16 << 20;
const HEAD: usize = 5;
/// The longest name of who is at the other end.
const NAME: usize = 256;

/// What a frame is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// From home: which connection this is.
    Hello,
    /// It is taken up.
    Taken,
    /// Bytes, either way.
    Data,
    /// Towards the switch: the controller sends no more. Towards home: the switch ends it, and why.
    End,
    /// Towards home: read no more of the controller, it comes back.
    Return,
    /// Towards the switch: no more is read.
    Stopped,
    /// Towards home: the connection as it is now.
    State,
}

const KINDS: [Kind; 7] =
    [Kind::Hello, Kind::Taken, Kind::Data, Kind::End, Kind::Return, Kind::Stopped, Kind::State];

/// Appends a frame.
pub fn put(kind: Kind, bytes: &[u8], out: &mut Vec<u8>) {
    out.push(KINDS.iter().position(|k| *k == kind).unwrap_or(0) as u8);
    out.extend(u32::try_from(bytes.len()).unwrap_or(u32::MAX).to_be_bytes());
    out.extend_from_slice(bytes);
}

/// Takes the first whole frame out of what has come; `Ok(None)`: it is not whole yet.
///
/// # Errors
/// It is none.
pub fn take(from: &mut Vec<u8>) -> Result<Option<(Kind, Vec<u8>)>, &'static str> {
    let Some((kind, len)) = from.split_first_chunk::<HEAD>().map(|([k, len @ ..], _)| (*k, *len))
    else {
        return Ok(None);
    };
    let kind = KINDS.get(usize::from(kind)).ok_or("a frame of an unknown kind")?;
    let len = u32::from_be_bytes(len) as usize;
    if len > LONGEST {
        return Err("a frame that is too long");
    }
    if from.len() < HEAD + len {
        return Ok(None);
    }
    let rest = from.split_off(HEAD + len);
    let mut frame = std::mem::replace(from, rest);
    frame.drain(..HEAD);
    Ok(Some((*kind, frame)))
}

impl State {
    /// Its bytes.
    pub fn to_bytes(&self) -> Vec<u8> {
        [self.session.as_bytes(), &self.input].concat()
    }
    /// From bytes that may be anything; `None`: they are none.
    pub fn from_bytes(bytes: &[u8]) -> Option<Self> {
        let (session, input) = bytes.split_at_checked(Session::BYTES)?;
        Some(Self { session: Session::from_bytes(session).ok()?, input: input.to_vec() })
    }
}

impl Hello {
    /// Its bytes.
    pub fn to_bytes(&self) -> Vec<u8> {
        let mut out = self.token.to_vec();
        out.push(u8::from(self.purpose == Purpose::Management));
        let mut end = self.peer.len().min(NAME);
        while !self.peer.is_char_boundary(end) {
            end -= 1;
        }
        out.extend((end as u16).to_be_bytes());
        out.extend_from_slice(&self.peer.as_bytes()[..end]);
        out.push(u8::from(self.state.is_some()));
        out.extend(self.state.iter().flat_map(State::to_bytes));
        out
    }
    /// From bytes that may be anything; `None`: they are none.
    pub fn from_bytes(bytes: &[u8]) -> Option<Self> {
        let (token, rest): (&Token, _) = bytes.split_first_chunk()?;
        let (purpose, rest) = rest.split_first()?;
        let purpose = match purpose {
            0 => Purpose::Controller,
            1 => Purpose::Management,
            _ => return None,
        };
        let (len, rest) = rest.split_first_chunk()?;
        let len = usize::from(u16::from_be_bytes(*len));
        let (peer, rest) = rest.split_at_checked(len).filter(|_| len <= NAME)?;
        let peer = std::str::from_utf8(peer).ok()?.to_owned();
        let state = match rest.split_first()? {
            (0, []) => None,
            (1, state) => Some(State::from_bytes(state)?),
            _ => return None,
        };
        Some(Self { token: *token, purpose, peer, state })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn session() -> Session {
        let mut bytes = vec![4, 0, 1, 1, 0, 128];
        bytes.resize(Session::BYTES, 7);
        Session::from_bytes(&bytes).unwrap()
    }

    proptest! {
        #[test]
        fn what_is_written_is_read(
            token in any::<Token>(),
            tool in any::<bool>(),
            peer in ".{0,300}",
            input in prop::option::of(prop::collection::vec(any::<u8>(), 0..99)),
        ) {
            let purpose = if tool { Purpose::Management } else { Purpose::Controller };
            let state = input.map(|input| State { session: session(), input });
            let hello = Hello { token, purpose, peer, state };
            let read = Hello::from_bytes(&hello.to_bytes()).unwrap();
            prop_assert!(hello.peer.starts_with(&read.peer));
            prop_assert_eq!(Hello { peer: hello.peer.clone(), ..read }, hello);
        }
        #[test]
        fn frames_are_cut_wherever_they_are_broken(
            all in prop::collection::vec((0usize..7, prop::collection::vec(any::<u8>(), 0..40)), 0..9),
            cut in 1usize..50,
        ) {
            let mut bytes = Vec::new();
            all.iter().for_each(|(k, b)| put(KINDS[*k], b, &mut bytes));
            let (mut pending, mut got) = (Vec::new(), Vec::new());
            for part in bytes.chunks(cut) {
                pending.extend_from_slice(part);
                while let Some(f) = take(&mut pending).unwrap() {
                    got.push(f);
                }
            }
            let want: Vec<_> = all.into_iter().map(|(k, b)| (KINDS[k], b)).collect();
            prop_assert_eq!((got, pending.len()), (want, 0));
        }
        #[test]
        fn any_bytes_are_read_or_refused(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
            let _ = Hello::from_bytes(&bytes);
            let _ = State::from_bytes(&bytes);
            let mut pending = bytes;
            while let Ok(Some(_)) = take(&mut pending) {}
        }
    }
}
