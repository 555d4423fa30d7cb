//! What a VDP without a switch has counted: its rules, in an order that both ends know.

use super::CarryError;
use super::into::Unpacking;
use super::kind;
use super::tallies::{pack_objects, pack_usage, take_piece};
use super::wire::Out;
use crate::plane::{Plane, PlaneGone};
use weir_dataplane::{RuleRef, Vid};

/// Rules in a piece.
const CHUNK: usize = 1024;

/// Packs what a VDP, its groups and meters, and these rules of it have counted.
///
/// # Errors
/// [`PlaneGone`].
pub fn tally_plain<P: Plane>(
    vid: Vid,
    rules: &[RuleRef],
    groups: Vec<u32>,
    meters: Vec<u32>,
    plane: &mut P,
) -> Result<Vec<Vec<u8>>, PlaneGone> {
    let mut out = Out::default();
    pack_objects(vid, groups, meters, plane, &mut out)?;
    let mut pieces = vec![out.0];
    let mut from = 0;
    for these in rules.chunks(CHUNK) {
        let mut out = Out::default();
        pack_usage(vid, from, these.to_vec(), plane, &mut out)?;
        from += u32::try_from(these.len()).unwrap_or(u32::MAX);
        pieces.push(out.0);
    }
    let mut out = Out::default();
    out.record(kind::LAST, |o| o.u32(from));
    pieces.push(out.0);
    Ok(pieces)
}

/// Lays what [`tally_plain`] packed, piece by piece, onto what is counted here, for the same rules in the
/// same order.
///
/// # Errors
/// [`CarryError`]; counters are then not whole.
pub fn count_plain<P: Plane>(
    vid: Vid,
    rules: Vec<RuleRef>,
    pieces: &[Vec<u8>],
    plane: &mut P,
) -> Result<(), CarryError> {
    let mut u = Unpacking::of(rules);
    for piece in pieces {
        take_piece(vid, &mut u, piece, plane, |_| {
            Err(CarryError::Broken("a packet without a switch"))
        })?;
    }
    match u.is_tallied() {
        true => Ok(()),
        false => Err(CarryError::Broken("counters are missing")),
    }
}
