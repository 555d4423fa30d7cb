//! OpenFlow 1.0 and 1.3: messages, framing, and the state of a control channel.
//!
//! Room: above the header formats, below whoever speaks to switches or is one. Bytes, messages and
//! time are arguments; no sockets, no clocks, no flow tables. May depend on `weir-wire` alone.
//!
//! Three floors. *Messages*: [`model`] is the one meaning, [`of10`] and [`of13`] are declarative
//! encodings of it, [`codec`] chooses between them and knows what they share, [`errors`] numbers
//! what can be wrong, [`wire`] reads and writes bytes within bounds. *Framing*: [`framing`] cuts a
//! stream into messages, [`multipart`] joins requests that span several. The [`channel`] stands on both.
#![forbid(unsafe_code)]

pub mod channel;
pub mod codec;
pub mod errors;
pub mod framing;
pub mod model;
pub mod multipart;
pub mod of10;
pub mod of13;
pub mod wire;
