//! Virtual networks: what is wanted against what is there, and the steps between them (paper 003).
//!
//! Room: above data planes and foreign switches, which it knows by what they report. Time and
//! observations are arguments, intents come out; no sockets, no frames, no files. May depend on
//! `weir-openflow` and `weir-estimate`.
//!
//! The way of a change: a [`model::Lab`] is read and [`model::check`]ed whole; [`admission::admit`]
//! says whether the physical nodes, as [`observed`], can carry it, and gives every virtual node its
//! number there; [`wires::lay`] finds ways for its links; [`plan::plan`] names the steps from what is there to what is wanted, each of which
//! may be done twice; [`store::Store`] keeps what is wanted, and which change is under way, so that a
//! supervisor that is killed at any moment finds its place again.
//!
//! [`goal`] puts these together. [`rename`] has one name for a host that two labs call differently, and [`silent`]
//! says what becomes of one that does not answer, [`lacking`] of what lacks ports. [`away`] says what must be there for a node to be processed
//! by another host, [`homeward`] which nodes come home before they are changed.
//!
//! Beside them, [`guard`]: rules that act when a node goes beyond a rate; [`verify`]: proof that no
//! network reaches another, from the rules as installed; and
//! [`slicer`]: several controllers on one foreign switch.
#![forbid(unsafe_code)]

pub mod admission;
pub mod away;
pub mod goal;
pub mod guard;
pub mod homeward;
pub mod lacking;
pub mod mend;
pub mod model;
pub mod observed;
pub mod party;
pub mod plan;
pub mod refusal;
pub mod rename;
pub mod section;
pub mod silent;
pub mod slicer;
pub mod store;
pub mod verify;
pub mod wires;
