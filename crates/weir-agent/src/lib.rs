//! An OpenFlow switch in front of each VDP: from messages to changes of the data plane, and back.
//!
//! Room: between the control channel and the data plane's control interface. Messages and time are
//! arguments; no sockets, no frames but those inside messages. May depend on `weir-openflow` and
//! `weir-dataplane`.
//!
//! It will hold a VDP's datapath id, port numbering, controllers and roles, flow, group and meter
//! modifications, packet-in and packet-out, statistics, and the barrier that is answered only when
//! the worker forwards by the new rules. Empty so far: VDPs are changed by `weir run`'s configuration
//! and by its control socket.
#![forbid(unsafe_code)]
