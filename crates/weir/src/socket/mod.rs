//! The control socket: how a running data plane is asked and changed.
//!
//! Room: `weir run` serves it ([`server`], [`handler`], on [`live`]); the client commands speak to it
//! ([`client`]). [`protocol`] says what is said, [`items`] what there is, [`lines`] and [`link`] carry it, [`place`] says where.
//! [`api`] serves the same by TLS, for whoever keeps networks on several nodes; [`pending`] is who has not said yet who it is.

pub mod api;
pub mod capture;
pub mod client;
pub mod handler;
pub mod items;
pub mod lines;
pub mod link;
pub mod live;
pub mod moves;
pub mod pending;
pub mod place;
pub mod protocol;
pub mod server;
pub mod turns;
pub mod view;
