//! Several workers beside one: the same frames, in the same order within each flow, the same counters.

#[path = "../plane_common/mod.rs"]
mod plane_common;

mod alike;
mod desk;
mod moves;
mod pins;
mod queues;
mod refused;
mod rig;
mod stalls;
mod threads;
