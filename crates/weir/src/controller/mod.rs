//! The other end of an OpenFlow connection: small controllers of weir's own.
//!
//! Room: blocking sockets, a thread each. `bench openflow` measures switches with [`link`], `weir
//! demo` runs [`apps`] where no other controller is to be had. Nothing of VDPs is known here.

pub mod apps;
pub mod flows;
pub mod link;
