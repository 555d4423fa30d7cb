//! VDPs as OpenFlow switches for real controllers: sockets, TLS and time around `weir_openflow`'s
//! channels and `weir_agent`'s switches.
//!
//! Room: one thread for all VDPs, on which nothing blocks but short questions to the data plane.
//! Others reach it through [`service::Switches`] alone.
//!
//! - `wanted`: which switches there shall be; `hub`: makes them so; `service`: the thread;
//! - `vdp`: one switch and its connections; `keeper`: its time, and frames for controllers, which
//!   `punts` brings from the software stage;
//! - `connect`, `listen`: how connections come about, `endpoint`: what became of them;
//! - `session`, `conn`, `stream`: one connection; `address`, `tls`: with whom, and how it is protected;
//! - `status`: what `weir show` tells; `log`: what `weir run` says; `clock`: the worker's time.

pub mod address;
mod clock;
mod conn;
mod connect;
mod endpoint;
mod hub;
mod keeper;
mod listen;
pub mod log;
pub mod moves;
pub mod punts;
pub mod relay;
pub mod service;
pub mod session;
pub mod status;
pub mod stream;
pub mod tls;
mod vdp;
pub mod wanted;
