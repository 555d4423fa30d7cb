//! What a table can do (1.3 §7.3.5.5): its features and their properties.
//!
//! Room: the 1.3 encoding. Used by the request and by the reply, which have the same body.

use super::oxm::Unknown;
use super::{oxm, too_long};
use crate::codec::EncodeError;
use crate::model::{
    Entries, ErrorCode, Field, Maskable, TableFeatures, TableProperty as Property, Version,
};
use crate::wire::{Kind, Reader, Text, Writer, layout};

layout! {
    /// ofp_table_features between its length and its properties.
    Fixed: TableFeatures {
        table: u8, pad 5;
        name: Text<32>;
        metadata_match: u64;
        metadata_write: u64;
        config: u32;
        max_entries: u32;
        + properties = Vec::new();
    }
}

/// OFPTFPT numbers of properties for ordinary entries; the table-miss entry's is one more.
mod kind {
    pub(super) const INSTRUCTIONS: u16 = 0;
    pub(super) const NEXT_TABLES: u16 = 2;
    pub(super) const WRITE_ACTIONS: u16 = 4;
    pub(super) const APPLY_ACTIONS: u16 = 6;
    pub(super) const MATCH: u16 = 8;
    pub(super) const WILDCARDS: u16 = 10;
    pub(super) const WRITE_SETFIELD: u16 = 12;
    pub(super) const APPLY_SETFIELD: u16 = 14;
    pub(super) const EXPERIMENTER: u16 = 0xfffe;
}

/// Bytes of an entry without properties.
const FIXED: usize = 64;
/// The type of instructions and actions of experimenters, whose ids are longer.
const EXPERIMENTER_ID: u16 = 0xffff;

/// Reads one table's.
///
/// # Errors
/// OFPET_TABLE_FEATURES_FAILED: BAD_LEN, BAD_TYPE, BAD_ARGUMENT.
pub(super) fn read(r: &mut Reader<'_>, unknown: Unknown) -> Result<TableFeatures, ErrorCode> {
    let short = ErrorCode::TableFeaturesBadLen;
    let length = usize::from(Reader::new(r.rest(), short).u16()?);
    if length < FIXED || length > r.len() {
        return Err(short);
    }
    let mut r = r.within(length, short)?;
    r.skip(2)?;
    let mut features = Fixed::read(&mut r)?;
    while !r.is_empty() {
        features.properties.extend(read_property(&mut r, unknown)?);
    }
    Ok(features)
}

fn read_property(r: &mut Reader<'_>, unknown: Unknown) -> Result<Option<Property>, ErrorCode> {
    let short = ErrorCode::TableFeaturesBadLen;
    let (number, length) = (r.u16()?, usize::from(r.u16()?));
    let mut body = r.within(length.checked_sub(4).ok_or(short)?, short)?;
    let b = &mut body;
    r.skip(length.next_multiple_of(8) - length)?;
    let entries = if number & 1 == 0 { Entries::Regular } else { Entries::Miss };
    let property = match (number & !1, entries) {
        (kind::INSTRUCTIONS, e) => Property::Instructions(e, read_ids(b)?),
        (kind::NEXT_TABLES, e) => Property::NextTables(e, b.take_rest().to_vec()),
        (kind::WRITE_ACTIONS, e) => Property::WriteActions(e, read_ids(b)?),
        (kind::APPLY_ACTIONS, e) => Property::ApplyActions(e, read_ids(b)?),
        (kind::MATCH, Entries::Regular) => Property::Match(oxm::read_names(b, unknown)?),
        (kind::WILDCARDS, Entries::Regular) => Property::Wildcards(read_fields(b, unknown)?),
        (kind::WRITE_SETFIELD, e) => Property::WriteSetField(e, read_fields(b, unknown)?),
        (kind::APPLY_SETFIELD, e) => Property::ApplySetField(e, read_fields(b, unknown)?),
        (kind::EXPERIMENTER, e) => {
            Property::Experimenter(e, b.u32()?, b.u32()?, b.take_rest().to_vec())
        }
        _ => return Err(ErrorCode::TableFeaturesBadType),
    };
    Ok(Some(property))
}

/// Types of instructions or actions; those of experimenters keep their type alone.
fn read_ids(r: &mut Reader<'_>) -> Result<Vec<u16>, ErrorCode> {
    let mut ids = Vec::with_capacity(r.len() / 4);
    while !r.is_empty() {
        let (id, length) = (r.u16()?, usize::from(r.u16()?));
        let more = length.checked_sub(4).ok_or(ErrorCode::TableFeaturesBadLen)?;
        if more != 0 && id != EXPERIMENTER_ID {
            return Err(ErrorCode::TableFeaturesBadLen);
        }
        r.skip(more)?;
        ids.push(id);
    }
    Ok(ids)
}

fn read_fields(r: &mut Reader<'_>, unknown: Unknown) -> Result<Vec<Field>, ErrorCode> {
    Ok(oxm::read_names(r, unknown)?.into_iter().map(|(field, _)| field).collect())
}

/// Writes one table's.
///
/// # Errors
/// Where it is too long; where an experimenter's instruction or action is named, of whom the model
/// does not know who it is.
pub(super) fn write(features: &TableFeatures, w: &mut Writer<'_>) -> Result<(), EncodeError> {
    let start = w.at();
    w.u16(0);
    Fixed::write(features, w);
    features.properties.iter().try_for_each(|p| write_property(p, w))?;
    w.patch_len(start, start).map_err(too_long)
}

fn write_property(property: &Property, w: &mut Writer<'_>) -> Result<(), EncodeError> {
    let start = w.at();
    let mut head = |kind: u16, entries: &Entries| {
        w.u16(match entries {
            Entries::Regular => kind,
            Entries::Miss => kind + 1,
        });
        w.u16(0);
    };
    match property {
        Property::Instructions(e, ids) => {
            head(kind::INSTRUCTIONS, e);
            write_ids(ids, w)?;
        }
        Property::NextTables(e, tables) => {
            head(kind::NEXT_TABLES, e);
            w.bytes(tables);
        }
        Property::WriteActions(e, ids) => {
            head(kind::WRITE_ACTIONS, e);
            write_ids(ids, w)?;
        }
        Property::ApplyActions(e, ids) => {
            head(kind::APPLY_ACTIONS, e);
            write_ids(ids, w)?;
        }
        Property::Match(fields) => {
            head(kind::MATCH, &Entries::Regular);
            fields.iter().for_each(|(field, mask)| oxm::write_name(*field, *mask, w));
        }
        Property::Wildcards(fields) => {
            head(kind::WILDCARDS, &Entries::Regular);
            write_fields(fields, w);
        }
        Property::WriteSetField(e, fields) => {
            head(kind::WRITE_SETFIELD, e);
            write_fields(fields, w);
        }
        Property::ApplySetField(e, fields) => {
            head(kind::APPLY_SETFIELD, e);
            write_fields(fields, w);
        }
        Property::Experimenter(e, experimenter, kind, data) => {
            head(kind::EXPERIMENTER, e);
            w.u32(*experimenter);
            w.u32(*kind);
            w.bytes(data);
        }
    }
    w.patch_len(start + 2, start).map_err(too_long)?;
    w.pad_to_8(start);
    Ok(())
}

fn write_ids(ids: &[u16], w: &mut Writer<'_>) -> Result<(), EncodeError> {
    for id in ids {
        if *id == EXPERIMENTER_ID {
            return Err(EncodeError::NotInVersion {
                version: Version::V13,
                what: "name for an unnamed experimenter's instruction or action",
            });
        }
        w.u16(*id);
        w.u16(4);
    }
    Ok(())
}

fn write_fields(fields: &[Field], w: &mut Writer<'_>) {
    fields.iter().for_each(|field| oxm::write_name(*field, Maskable::No, w));
}
