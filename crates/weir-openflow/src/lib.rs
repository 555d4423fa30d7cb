//! OpenFlow 1.0 and 1.3: messages, framing, and the state of a control channel.
//!
//! Room: above the header formats, below whoever speaks to switches or is one. Bytes, messages and
//! time are arguments; no sockets, no clocks, no flow tables. May depend on `weir-wire` alone.
//!
//! It will hold three floors: messages (one meaning each, with an encoding per version), framing
//! with limits on length and nesting, and the channel's state machine (version negotiation, echo,
//! roles, barriers). Empty so far: nothing of weir speaks OpenFlow yet.
#![forbid(unsafe_code)]

pub mod model;
