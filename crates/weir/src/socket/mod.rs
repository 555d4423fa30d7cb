//! The control socket: how a running data plane is asked and changed.
//!
//! Room: `weir run` serves it ([`server`], [`handler`], on [`live`]); the client commands speak to it
//! ([`client`]). [`protocol`] says what is said, [`lines`] carries it, [`place`] says where.

pub mod capture;
pub mod client;
pub mod handler;
pub mod lines;
pub mod live;
pub mod place;
pub mod protocol;
pub mod server;
pub mod view;
