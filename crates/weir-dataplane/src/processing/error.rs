//! What can be wrong with an action before any frame has met it.

use thiserror::Error;

/// An action that can't be carried out on any frame.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum ActionError {
    /// A field that is not to be written.
    #[error("'{field}' can't be set: it says where a frame came from or what it is")]
    ReadOnly {
        /// Which.
        field: &'static str,
    },
    /// A value with more bits than the field.
    #[error("the value for '{field}' has more than its {bits} bits")]
    TooLarge {
        /// Which.
        field: &'static str,
        /// Its width.
        bits: u32,
    },
    /// A mask where only the whole field can be set.
    #[error("'{field}' can only be set whole: leave the mask out")]
    NoMask {
        /// Which.
        field: &'static str,
    },
    /// A push with an EtherType that does not name such a header.
    #[error("{what}: EtherType {ethertype:#06x} is not one of {allowed:#06x?}")]
    EtherType {
        /// The action.
        what: &'static str,
        /// What it was given.
        ethertype: u16,
        /// What it takes.
        allowed: &'static [u16],
    },
    /// A number below 0x600 where an EtherType must stand.
    #[error("{what}: {value:#06x} is no EtherType: those begin at 0x0600")]
    NotAnEtherType {
        /// The action.
        what: &'static str,
        /// What it was given.
        value: u16,
    },
}
