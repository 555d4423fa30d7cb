//! Virtual networks: what is wanted against what is there, and the steps between them (paper 003).
//!
//! Room: above data planes and foreign switches, which it knows by what they report. Time and
//! observations are arguments, intents come out; no sockets, no frames. May depend on
//! `weir-openflow` and `weir-estimate`.
//!
//! - `verify`: proof that no network reaches another, from the rules as installed.
//!
//! It will hold virtual nodes and links, flow spaces, owners and limits, admission, the five
//! primitives (instantiate, delete, migrate, set, monitor), and the store of what is wanted.
#![forbid(unsafe_code)]

pub mod verify;
