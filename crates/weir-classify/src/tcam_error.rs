//! What the TCAM's budget refuses, and what to do about it.
//!
//! Room: control side. Returned by `tcam`; shown by whoever asked on a tenant's or the supervisor's
//! behalf.

use crate::tcam::{Owner, Part};
use thiserror::Error;

/// Why a call was refused. Whoever asked is at fault, or the budget is spent.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum TcamError {
    /// A part is not a whole number of slices or too large, or a slice or block is empty.
    #[error(
        "a TCAM part of {entries} entries is not made of slices of {slice_entries} in blocks of {block_slices}: use multiples, at least 1 and at most 2^26 entries"
    )]
    Geometry {
        /// Entries of the part.
        entries: u32,
        /// Entries of a slice.
        slice_entries: u32,
        /// Slices of a block.
        block_slices: u32,
    },
    /// The part has not enough free slices.
    #[error(
        "the {part} part of the TCAM has {free} entries free and {asked} were asked for (in whole slices): shrink or release another VDP, or enlarge the part"
    )]
    Full {
        /// Which part.
        part: Part,
        /// Entries asked for, rounded up to slices.
        asked: u64,
        /// Entries in free slices.
        free: u32,
    },
    /// More rules than the VDP may hold.
    #[error(
        "{owner} may hold {allowed} {part} entries, uses {used}, and asked for {asked} more: remove rules, or grow its share"
    )]
    Spent {
        /// Which part.
        part: Part,
        /// Whose.
        owner: Owner,
        /// Entries asked for.
        asked: u32,
        /// Entries in use.
        used: u32,
        /// Entries in its slices.
        allowed: u32,
    },
    /// Fewer entries would be left than are in use.
    #[error(
        "{owner} uses {used} {part} entries and would keep {left}: remove {} rules first", .used - .left
    )]
    InUse {
        /// Which part.
        part: Part,
        /// Whose.
        owner: Owner,
        /// Entries in use.
        used: u32,
        /// Entries that would be left.
        left: u32,
    },
    /// The VDP has no share in the part.
    #[error("{owner} has no share of the TCAM's {part} part: reserve one first")]
    NoShare {
        /// Which part.
        part: Part,
        /// Whose.
        owner: Owner,
    },
    /// The VDP has a share already.
    #[error("{owner} has {allowed} entries of the TCAM's {part} part already: grow or shrink them")]
    HasShare {
        /// Which part.
        part: Part,
        /// Whose.
        owner: Owner,
        /// Entries in its slices.
        allowed: u32,
    },
    /// More rules taken out than are in.
    #[error("{owner} uses {used} {part} entries; {asked} cannot be removed")]
    NotThere {
        /// Which part.
        part: Part,
        /// Whose.
        owner: Owner,
        /// Entries to be removed.
        asked: u32,
        /// Entries in use.
        used: u32,
    },
    /// No slice has this number.
    #[error(
        "the {part} part of the TCAM has {slices} slices, numbered from 0; there is no {slice}"
    )]
    NoSlice {
        /// Which part.
        part: Part,
        /// The number.
        slice: u32,
        /// How many there are.
        slices: u32,
    },
    /// The slice is someone's.
    #[error("slice {slice} of the TCAM's {part} part belongs to {owner}: free it first")]
    Taken {
        /// Which part.
        part: Part,
        /// The slice.
        slice: u32,
        /// Whose it is.
        owner: Owner,
    },
    /// The slice is nobody's.
    #[error("slice {slice} of the TCAM's {part} part is free already")]
    Free {
        /// Which part.
        part: Part,
        /// The slice.
        slice: u32,
    },
}
