//! Groups (1.3 §5.6, §7.3.4.2), and as they are described in statistics (§7.3.5.10).
//!
//! Room: the 1.3 encoding. What needs no other group to be seen is checked here.

use super::{action, action::Place, too_long};
use crate::codec::EncodeError;
use crate::model::{
    Bucket, ErrorCode, GROUP_ALL, GROUP_ANY, GROUP_MAX, GroupCommand, GroupDesc, GroupKind,
    GroupMod, Port,
};
use crate::wire::{Kind, Reader, Writer, named};

named! {
    /// OFPGC numbers.
    Command: GroupCommand as u16 else GroupBadCommand { 0 = Add, 1 = Modify, 2 = Delete, }
    /// OFPGT numbers.
    Type: GroupKind as u8 else GroupBadType {
        0 = All, 1 = Select, 2 = Indirect, 3 = FastFailover,
    }
}

/// Bytes of a bucket without actions.
const BUCKET: usize = 16;

pub(super) fn read_mod(r: &mut Reader<'_>) -> Result<GroupMod, ErrorCode> {
    let command = Command::read(r)?;
    let kind = Type::read(r)?;
    r.skip(1)?;
    let id = r.u32()?;
    let group = GroupMod { command, kind, id, buckets: read_buckets(r)? };
    if !is_possible(&group) {
        return Err(ErrorCode::GroupInvalid);
    }
    Ok(group)
}

/// §6.7: numbers, and what a kind of group can't have.
fn is_possible(group: &GroupMod) -> bool {
    if group.command == GroupCommand::Delete {
        return group.id <= GROUP_MAX || group.id == GROUP_ALL;
    }
    let weightless = group.buckets.iter().all(|b| b.weight == 0);
    group.id <= GROUP_MAX
        && match group.kind {
            GroupKind::Select => true,
            GroupKind::All => weightless,
            GroupKind::Indirect => weightless && group.buckets.len() == 1,
            // §5.6.1: each bucket has a port or a group that it is live by.
            GroupKind::FastFailover => weightless && group.buckets.iter().all(is_watched),
        }
}

fn is_watched(bucket: &Bucket) -> bool {
    bucket.watch_port != Port::ANY || bucket.watch_group != GROUP_ANY
}

fn read_buckets(r: &mut Reader<'_>) -> Result<Vec<Bucket>, ErrorCode> {
    let mut buckets = Vec::new();
    while !r.is_empty() {
        let length = Reader::new(r.rest(), ErrorCode::GroupBadBucket).u16()?;
        let length = usize::from(length);
        if length < BUCKET || length % 8 != 0 || length > r.len() {
            return Err(ErrorCode::GroupBadBucket);
        }
        let mut b = r.within(length, ErrorCode::GroupBadBucket)?;
        b.skip(2)?;
        let (weight, watch_port, watch_group) = (b.u16()?, Port(b.u32()?), b.u32()?);
        b.skip(4)?;
        let actions = action::read_all(&mut b, Place::Entry)?;
        buckets.push(Bucket { weight, watch_port, watch_group, actions });
    }
    Ok(buckets)
}

fn write_buckets(buckets: &[Bucket], w: &mut Writer<'_>) -> Result<(), EncodeError> {
    for bucket in buckets {
        let start = w.at();
        w.u16(0);
        w.u16(bucket.weight);
        w.u32(bucket.watch_port.0);
        w.u32(bucket.watch_group);
        w.zeros(4);
        action::write_all(&bucket.actions, w)?;
        w.patch_len(start, start).map_err(too_long)?;
    }
    Ok(())
}

pub(super) fn write_mod(group: &GroupMod, w: &mut Writer<'_>) -> Result<(), EncodeError> {
    Command::write(&group.command, w);
    Type::write(&group.kind, w);
    w.zeros(1);
    w.u32(group.id);
    write_buckets(&group.buckets, w)
}

/// One group of a reply, which begins with its length.
pub(super) fn read_desc(r: &mut Reader<'_>) -> Result<GroupDesc, ErrorCode> {
    let length = usize::from(r.u16()?);
    let mut r = r.within(length.checked_sub(2).ok_or(ErrorCode::BadLen)?, ErrorCode::BadLen)?;
    let kind = Type::read(&mut r)?;
    r.skip(1)?;
    Ok(GroupDesc { kind, id: r.u32()?, buckets: read_buckets(&mut r)? })
}

pub(super) fn write_desc(group: &GroupDesc, w: &mut Writer<'_>) -> Result<(), EncodeError> {
    let start = w.at();
    w.u16(0);
    Type::write(&group.kind, w);
    w.zeros(1);
    w.u32(group.id);
    write_buckets(&group.buckets, w)?;
    w.patch_len(start, start).map_err(too_long)
}
