//! A switch taken to another data plane: all that it has, in pieces of bounded size.
//!
//! Room: between a [`Switch`](crate::Switch) that rests (nobody gives it messages or time meanwhile) and
//! bytes, both ways; no sockets. `out` packs, `into` unpacks, `tallies` carries what is counted, which
//! goes last, when frames are past; `session` a connection. Flows, groups and meters are carried as the
//! OpenFlow messages that make them, so that they are read and checked as a controller's are.
//!
//! A piece is a row of records: a kind (1 byte), the length of what follows (4 bytes, big-endian), then
//! that. Numbers are big-endian. Times are ages: clocks differ.

mod into;
mod out;
mod plain;
mod session;
mod tallies;
mod wire;

pub use into::Unpacking;
pub use out::Packing;
pub use plain::{count_plain, tally_plain};
pub use session::Session;
pub use tallies::Tallying;

use crate::plane::PlaneGone;
use weir_openflow::model::ErrorCode;

/// The form of what is carried.
pub(crate) const FORM: u16 = 1;
/// A piece ends with the record that makes it as long as this.
const PIECE: usize = 256 << 10;
/// The longest piece that is read.
pub const MOST: usize = 1 << 20;

/// Why what was carried can't be taken in.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum CarryError {
    /// It is not what a switch packs.
    #[error("a carried switch: {0}: pack it again with this version of weir")]
    Broken(&'static str),
    /// Another version of weir packed it.
    #[error(
        "a carried switch of form {0}, this weir reads form {FORM}: use one version on both nodes"
    )]
    Form(u16),
    /// A flow, group or meter that is refused here.
    #[error(
        "{what}: refused here ({code:?}): give the VDP the same tables, ports, queues and limits"
    )]
    Refused {
        /// Which.
        what: String,
        /// As a controller would be told.
        code: ErrorCode,
    },
    /// The data plane has ended.
    #[error(transparent)]
    Gone(#[from] PlaneGone),
}

/// Kinds of records.
mod kind {
    pub const HEAD: u8 = 1;
    pub const SETTINGS: u8 = 2;
    pub const PORT: u8 = 3;
    pub const METER: u8 = 4;
    pub const GROUP: u8 = 5;
    pub const FLOW: u8 = 6;
    pub const END: u8 = 7;
    pub const BUFFER: u8 = 16;
    pub const FLOW_COUNTS: u8 = 17;
    pub const GROUP_COUNTS: u8 = 18;
    pub const METER_COUNTS: u8 = 19;
    pub const PLANE_COUNTS: u8 = 20;
    pub const LAST: u8 = 21;
}
