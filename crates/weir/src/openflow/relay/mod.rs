//! Controllers' connections of a VDP that is away: they stay at the node whose ports the VDP has, and
//! what is said goes on to the node where its switch is.
//!
//! Room: sockets on the switches' thread. [`home`] is the end at which the controller is, [`accept`] and
//! [`stream`] are the other; [`wire`] is what goes between them. A connection changes places between two
//! messages: what was said before stays said, what was read and not yet heeded goes along as bytes.

pub mod accept;
pub mod home;
pub mod passing;
pub mod stream;
pub mod wire;

use super::tls::Identity;
use std::rc::Rc;
use weir_agent::{Purpose, Session};

/// What a place to accept at is known by: drawn anew for every VDP that comes.
pub type Token = [u8; 16];

/// Where a VDP's switch is.
#[derive(Clone, Debug)]
pub struct Peer {
    /// Its address, `HOST:PORT`.
    pub at: String,
    /// Our identity, where it is reached by TLS.
    pub identity: Option<Identity>,
    /// What the VDP is known by there.
    pub token: Token,
}

/// Where a VDP's switch is, shared by its connections.
pub type PeerRef = Rc<Peer>;

/// A connection between two messages.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct State {
    /// As the switch knows it.
    pub session: Session,
    /// Bytes that were read, of which no message was made yet.
    pub input: Vec<u8>,
}

/// What a connection begins with.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Hello {
    /// For which VDP.
    pub token: Token,
    /// Controller or tool.
    pub purpose: Purpose,
    /// Who is at the other end, for people.
    pub peer: String,
    /// As it was here; `None` for one that begins.
    pub state: Option<State>,
}
