//! Ports around ports: each adds one thing to any device and passes the rest through.

mod capture;
mod faults;

pub use capture::PcapTap;
pub use faults::{FaultCounts, FaultHandle, FaultPlan, Faults, Rates};
