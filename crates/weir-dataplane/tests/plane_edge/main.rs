//! A VDP's edge: its ports and what it asks of them, frames to and from its controllers.

mod packet_out;
#[path = "../plane_common/mod.rs"]
mod plane_common;
mod ports;
mod punts;
mod rig;
mod wires;
