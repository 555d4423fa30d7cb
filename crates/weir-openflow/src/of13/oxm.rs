//! Matches as lists of OXM TLVs (1.3 §7.2.3), and single ones in set-field and table features.
//!
//! Room: the 1.3 encoding. What each field is stands in the model's table; here are the TLV's
//! rules, and which error each breach of them deserves.

use super::too_long;
use crate::codec::EncodeError;
use crate::model::{ErrorCode, Field, FieldMatch, Maskable, Match, Port, VLAN_PRESENT, Version};
use crate::wire::{Reader, Writer, number};

/// OFPXMC_OPENFLOW_BASIC.
const BASIC: u16 = 0x8000;
/// OFPXMC_EXPERIMENTER: four more bytes of header.
const EXPERIMENTER: u16 = 0xffff;
/// OFPMT_OXM.
const OXM: u16 = 1;
/// The most TLVs a match may hold: each field once.
const FIELDS_MAX: usize = Field::COUNT;

/// A TLV's header.
#[derive(Clone, Copy, Debug)]
struct Header {
    class: u16,
    number: u8,
    mask: Maskable,
    len: u8,
}

impl Header {
    fn read(r: &mut Reader<'_>) -> Result<Header, ErrorCode> {
        let class = r.u16()?;
        let field = r.u8()?;
        let mask = if field & 1 == 1 { Maskable::Yes } else { Maskable::No };
        Ok(Header { class, number: field >> 1, mask, len: r.u8()? })
    }

    /// Which field of the basic class it names.
    fn field(self) -> Option<Field> {
        (self.class == BASIC).then(|| Field::from_number(self.number)).flatten()
    }

    fn write(field: Field, mask: Maskable, w: &mut Writer<'_>) {
        let (bit, times) = match mask {
            Maskable::No => (0, 1),
            Maskable::Yes => (1, 2),
        };
        w.u16(BASIC);
        w.u8((field as u8) << 1 | bit);
        w.u8(bytes_of(field) * times);
    }
}

/// Bytes that a field's value takes: as many as hold it, but for the labels of 20 bits, which take four.
const fn bytes_of(field: Field) -> u8 {
    match field.bits() {
        20 => 4,
        // At most 128.
        bits => bits.div_ceil(8) as u8,
    }
}

/// Reads `ofp_match` with its padding.
///
/// # Errors
/// OFPET_BAD_MATCH and its codes.
pub(super) fn read_match(r: &mut Reader<'_>) -> Result<Match, ErrorCode> {
    let mut head = Reader::new(r.rest(), ErrorCode::MatchBadLen);
    let (kind, length) = (head.u16()?, usize::from(head.u16()?));
    if kind != OXM {
        return Err(ErrorCode::MatchBadType);
    }
    let padded = length.next_multiple_of(8);
    if length < 4 || padded > r.len() {
        return Err(ErrorCode::MatchBadLen);
    }
    let (fields, _) = r.take(padded)?.split_at(length);
    read_fields(&fields[4..])
}

fn read_fields(bytes: &[u8]) -> Result<Match, ErrorCode> {
    let mut r = Reader::new(bytes, ErrorCode::MatchBadLen);
    let mut fields: Vec<FieldMatch> = Vec::with_capacity(count(bytes));
    let mut seen = 0u64;
    while !r.is_empty() {
        let header = Header::read(&mut r)?;
        let payload = r.take(usize::from(header.len))?;
        let field = header.field().ok_or(ErrorCode::MatchBadField)?;
        let (value, mask) = value_and_mask(field, header, payload)?;
        if seen >> field as u8 & 1 == 1 {
            return Err(ErrorCode::MatchDupField);
        }
        seen |= 1 << field as u8;
        // §7.2.3.6: what a field needs stands before it.
        if !field.prerequisite().met(|f| fields.iter().find(|m| m.field == f).copied()) {
            return Err(ErrorCode::MatchBadPrereq);
        }
        // §7.2.3.5: a mask without a bit says as much as no TLV.
        if mask != 0 {
            fields.push(FieldMatch { field, value, mask });
        }
    }
    if !fields.is_sorted_by_key(|m| m.field) {
        fields.sort_unstable_by_key(|m| m.field);
    }
    Ok(Match(fields))
}

/// The first field of an `ofp_match` that is none of OpenFlow's: class and number.
pub(super) fn unknown_field(bytes: &[u8]) -> Option<(u16, u8)> {
    let mut r = Reader::new(bytes, ErrorCode::MatchBadLen);
    let (_, length) = (r.u16().ok()?, usize::from(r.u16().ok()?));
    let mut fields = Reader::new(bytes.get(4..length)?, ErrorCode::MatchBadLen);
    while let Ok(header) = Header::read(&mut fields) {
        if header.field().is_none() {
            return Some((header.class, header.number));
        }
        fields.take(usize::from(header.len)).ok()?;
    }
    None
}

/// How many TLVs there are, so that a match is allocated once and fits.
fn count(bytes: &[u8]) -> usize {
    let (mut at, mut n) = (0, 0);
    while let Some(len) = bytes.get(at + 3) {
        at += 4 + usize::from(*len);
        n += 1;
    }
    n.min(FIELDS_MAX)
}

/// §7.2.3.5 and §7.2.3.8.
fn value_and_mask(field: Field, header: Header, payload: &[u8]) -> Result<(u128, u128), ErrorCode> {
    let width = usize::from(bytes_of(field));
    let full = field.full();
    if header.mask == Maskable::No {
        if payload.len() != width {
            return Err(ErrorCode::MatchBadLen);
        }
        let value = number(payload);
        return if value & !full == 0 && is_meaningful(field, value, full) {
            Ok((value, full))
        } else {
            Err(ErrorCode::MatchBadValue)
        };
    }
    if payload.len() != 2 * width {
        return Err(ErrorCode::MatchBadLen);
    }
    let (value, mask) = payload.split_at(width);
    let (value, mask) = (number(value), number(mask));
    // All bits, those beyond the field too, are "exactly" and take no right to a mask; none is "any".
    let all = u128::MAX >> (128 - 8 * width);
    let exact = mask == all || mask == full;
    if !exact && mask != 0 && (!field.maskable() || mask & !full != 0) {
        return Err(ErrorCode::MatchBadMask);
    }
    if value & !mask != 0 {
        return Err(ErrorCode::MatchBadWildcards);
    }
    if value & !full != 0 || !is_meaningful(field, value, mask & full) {
        return Err(ErrorCode::MatchBadValue);
    }
    Ok((value, mask & full))
}

/// Values that fit their field and yet mean nothing.
fn is_meaningful(field: Field, value: u128, mask: u128) -> bool {
    match field {
        // Table 13: without OFPVID_PRESENT, an exact match is OFPVID_NONE or nothing.
        Field::VlanVid if mask == Field::VlanVid.full() => {
            value == 0 || value & u128::from(VLAN_PRESENT) != 0
        }
        // §7.2.3.7: a port, and no reserved one but those a packet can come from.
        Field::InPort => u32::try_from(value).is_ok_and(|n| {
            let port = Port(n);
            port.is_physical() || matches!(port, Port::LOCAL | Port::CONTROLLER)
        }),
        _ => true,
    }
}

/// Writes `ofp_match` with its padding.
///
/// # Errors
/// Where a value does not fit its field.
pub(super) fn write_match(matcher: &Match, w: &mut Writer<'_>) -> Result<(), EncodeError> {
    let start = w.at();
    w.u16(OXM);
    w.u16(0);
    for m in &matcher.0 {
        if m.mask == 0 {
            continue;
        }
        let full = m.field.full();
        if (m.value | m.mask) & !full != 0 || m.value & !m.mask != 0 {
            return Err(EncodeError::BadValue { what: "a match field's value" });
        }
        let width = usize::from(bytes_of(m.field));
        if m.mask == full {
            Header::write(m.field, Maskable::No, w);
            w.number(m.value, width);
        } else if m.field.maskable() {
            Header::write(m.field, Maskable::Yes, w);
            w.number(m.value, width);
            w.number(m.mask, width);
        } else {
            return Err(EncodeError::NotInVersion {
                version: Version::V13,
                what: "mask on this field",
            });
        }
    }
    w.patch_len(start + 2, start).map_err(too_long)?;
    w.pad_to_8(start);
    Ok(())
}

/// Reads the TLV of set-field, padding behind it left unread (§7.2.5, OFPAT_SET_FIELD).
///
/// # Errors
/// BAD_SET_TYPE, BAD_SET_LEN, BAD_SET_ARGUMENT.
pub(super) fn read_set(r: &mut Reader<'_>) -> Result<(Field, u128), ErrorCode> {
    let header = Header::read(r)?;
    let field = header.field().filter(|f| f.settable()).ok_or(ErrorCode::ActionBadSetType)?;
    if header.mask == Maskable::Yes {
        return Err(ErrorCode::ActionBadSetType);
    }
    if header.len != bytes_of(field) {
        return Err(ErrorCode::ActionBadSetLen);
    }
    let value = number(r.take(usize::from(header.len)).map_err(|_| ErrorCode::ActionBadSetLen)?);
    if can_set(field, value) { Ok((field, value)) } else { Err(ErrorCode::ActionBadSetArgument) }
}

fn can_set(field: Field, value: u128) -> bool {
    value & !field.full() == 0 && (field != Field::VlanVid || value & u128::from(VLAN_PRESENT) != 0)
}

/// Writes the TLV of set-field.
///
/// # Errors
/// Where it can't be set, or not to this.
pub(super) fn write_set(field: Field, value: u128, w: &mut Writer<'_>) -> Result<(), EncodeError> {
    if !field.settable() || !can_set(field, value) {
        return Err(EncodeError::BadValue { what: "a set-field's value" });
    }
    Header::write(field, Maskable::No, w);
    w.number(value, usize::from(bytes_of(field)));
    Ok(())
}

/// What becomes of a field that the model has not.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Unknown {
    /// Whoever asks for it is told so.
    Refused,
    /// A switch that has more than the model has that, too (Open vSwitch names its registers).
    PassedOver,
}

/// Reads the headers that name fields in table features (§7.3.5.5.2). Experimenters' are passed
/// over: weir has none.
///
/// # Errors
/// TABLE_FEATURES_FAILED, BAD_ARGUMENT, for a field there is not.
pub(super) fn read_names(
    r: &mut Reader<'_>,
    unknown: Unknown,
) -> Result<Vec<(Field, Maskable)>, ErrorCode> {
    let mut names = Vec::with_capacity((r.len() / 4).min(FIELDS_MAX));
    while !r.is_empty() {
        let header = Header::read(r)?;
        if header.class == EXPERIMENTER {
            r.skip(4)?;
            continue;
        }
        match (header.field(), unknown) {
            (Some(field), _) => names.push((field, header.mask)),
            (None, Unknown::PassedOver) => {}
            (None, Unknown::Refused) => return Err(ErrorCode::TableFeaturesBadArgument),
        }
    }
    Ok(names)
}

/// Writes such a header.
pub(super) fn write_name(field: Field, mask: Maskable, w: &mut Writer<'_>) {
    Header::write(field, mask, w);
}
