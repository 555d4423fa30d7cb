//! The programs that route, in virtual time: each frame that goes in is checked for what comes out,
//! byte by byte where it matters, and every frame is accounted for after every step (`Rig`).

#[path = "../programs_rig/mod.rs"]
mod programs_rig;

mod any_bytes;
mod config;
mod gateway;
mod judged;
mod lab;
mod listeners;
mod neighbours;
mod options4;
mod pieces;
mod v4;
mod v6;
