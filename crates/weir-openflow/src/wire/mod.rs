//! Bytes in and out: big-endian numbers within bounds, padding, message headers, replies in parts.
//!
//! Room: the lowest of this crate; knows numbers and lengths, no meaning. Called by the encodings.

mod frame;
mod layout;
mod reader;
mod writer;

pub use frame::{HEADER_LEN, Header, MAX_LEN, Parts, finish, message, start};
pub use layout::{Kind, Pair, Row, Text};
pub(crate) use layout::{layout, named, wrapped};
pub use reader::{Reader, number};
pub use writer::Writer;
