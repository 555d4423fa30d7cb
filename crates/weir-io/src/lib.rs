//! Ports: everything that a frame can come from or go to.
//!
//! Room: between the system and the data plane. Every port implements [`weir_packet::Device`]: it
//! makes frames out of a pool's chunks and takes them back, never blocks, works in batches. Nothing
//! here knows rules, VDPs or OpenFlow.
//!
//! - [`memory`]: rings between two ports, or between a port and a program.
//! - [`replay`]: a source that plays frames from memory, and the sinks [`replay::Null`] and
//!   [`replay::Collect`].
//! - [`capture_file`]: pcap and pcapng, read and written.
//! - [`af_packet`] and [`af_xdp`]: an interface, by either of them.
//! - [`tap`]: a TAP device.
//! - [`vxlan`]: the end of a VXLAN tunnel over UDP.
//! - [`waiting`]: sleeping until a port has frames.
//! - [`precedence`]: a thread before all others, for a moment.
//! - [`stamped`]: an interface as an instrument sees it, with the kernel's time stamps.
//! - [`features`]: an interface's offloads that would falsify what an instrument sees, off for a while.
//! - [`mod@file`]: what is said of a file that can't be used.
//! - [`wrapper`]: ports around ports: a capture of what passes, faults by a seed.
//! - [`open()`]: any of them by a name such as `xdp:veth0`.
//! - [`patience`]: how long an interface is waited for that another has.
#![deny(unsafe_code)]

pub mod af_packet;
pub mod af_xdp;
pub mod capture_file;
mod carrier;
mod clock;
pub mod features;
pub mod file;
mod interface;
pub mod memory;
pub mod offload;
pub mod open;
pub mod patience;
pub mod precedence;
pub mod replay;
pub mod stamped;
mod sys;
pub mod tap;
pub mod vxlan;
pub mod waiting;
pub mod wrapper;

pub use open::{Kind, Opened, PortSpec, SpecError, file_id, is_one_file, open, open_patiently};

/// Large blocks of memory go back to the system when they are freed, and grow where they are: from a
/// mebibyte on they are mapped by themselves. glibc would raise that limit to the largest block freed
/// so far; then what a growing table leaves behind stays with the process, a fifth of it with a
/// million rules. For a program's start. Where the C library has no such limit, nothing changes.
pub fn give_large_blocks_back() {
    // An optimisation: without it everything works.
    let _ = sys::heap::map_from(1 << 20);
}

/// CPU time that the calling thread has used: what rates per CPU-second are measured by.
pub fn thread_cpu_time() -> std::time::Duration {
    sys::thread_cpu_time()
}
