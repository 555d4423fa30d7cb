//! One control connection as a state machine: bytes in, events out; messages in, bytes out.
//!
//! Room: the top floor of the crate. Touches bytes, messages and times that it is given; never
//! sockets, clocks or flow tables. Used by whoever owns a connection, on either side of it: a
//! switch's agent, or a controller that measures. A driver's loop is:
//!
//! 1. while [`Channel::wants_read`], read at most [`Channel::input_room`] bytes and hand them to
//!    [`Channel::receive`];
//! 2. take [`Channel::next_event`] until there is none, and answer with [`Channel::send`];
//! 3. write [`Channel::outgoing`] as far as the socket takes it, and say so by [`Channel::advance`];
//! 4. call [`Channel::tick`] no later than [`Channel::wake_at`], then carry on with 2.
//!
//! Nothing grows without bound, whatever the peer does: see [`Limits`].

mod backoff;
mod budget;
mod config;
mod event;
mod greeting;
mod hello;
mod inbox;
mod keep_alive;
mod machine;
mod outbox;
mod stats;
mod token_bucket;
mod understand;

pub use backoff::Backoff;
pub use budget::{Budget, Gate, Open, Share, Toll};
pub use config::{Config, EchoBy, KeepAlive, Limits, Rate, Side, Versions};
pub use event::{CloseReason, Event, Head, Received, SendError, Sent};
pub use hello::{Offer, negotiate};
pub use machine::Channel;
pub use stats::{ChannelStats, Kind};
