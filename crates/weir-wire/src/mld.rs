//! Multicast listener messages of IPv6: queries of both versions and reports of the second
//! (RFC 2710 §3, RFC 3810 §5), by what follows the ICMPv6 checksum. Touches bytes. Of records only
//! the group is understood: sources are passed over.

use core::net::Ipv6Addr;

use crate::error::{Error, Kind, Result, at_most, holds};
use crate::view::{Writer, get, open_enum};

const LAYER: &str = "mld";

/// ff02::16, where reports of version 2 go (RFC 3810 §5.2.14).
pub const ALL_V2_ROUTERS: Ipv6Addr = Ipv6Addr::new(0xff02, 0, 0, 0, 0, 0, 0, 0x16);

/// Positions in what follows the ICMPv6 checksum.
mod field {
    use crate::view::Field;
    pub const MAX_RESPONSE: Field = 0..2;
    pub const GROUP: Field = 4..20;
    pub const SOURCES: Field = 22..24;
    pub const RECORDS: Field = 2..4;
    pub const RECORD_KIND: Field = 0..1;
    pub const RECORD_AUX: Field = 1..2;
    pub const RECORD_SOURCES: Field = 2..4;
    pub const RECORD_GROUP: Field = 4..20;
}

/// Bytes of a version 1 message: maximum delay, reserved, the group.
pub const V1_LEN: usize = field::GROUP.end;
/// Bytes of a version 2 report before its records.
pub const REPORT_HEAD: usize = field::RECORDS.end;
/// Bytes of a record without sources.
pub const RECORD_LEN: usize = field::RECORD_GROUP.end;

open_enum! {
    /// What a record says (RFC 3810 §5.2.12).
    RecordKind: u8 {
        /// The group is listened to from these sources alone.
        IsInclude = 1,
        /// It is listened to but from these sources; without any, from all.
        IsExclude = 2,
        /// The same as 1, from now on.
        ToInclude = 3,
        /// The same as 2, from now on.
        ToExclude = 4,
        /// These sources, too.
        Allow = 5,
        /// These sources no longer.
        Block = 6,
    }
}

/// Whose question a query is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Version {
    /// RFC 2710's.
    V1,
    /// RFC 3810's.
    V2,
}

/// A query.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Query {
    /// By its length (RFC 3810 §8.1).
    pub version: Version,
    /// How long an answer may take.
    pub max_delay_ms: u32,
    /// The group asked about; unspecified when all are.
    pub group: Ipv6Addr,
    /// How many sources are asked about; 0 in version 1.
    pub sources: u16,
}

impl Query {
    /// Takes a query out of what follows the checksum. Sources are not looked at.
    ///
    /// # Errors
    /// `Truncated` if it is too short for version 1; `Below` if it is longer than that and too
    /// short for version 2.
    pub fn parse(body: &[u8]) -> Result<Query> {
        holds(LAYER, "query", V1_LEN, body.len())?;
        let code: u16 = get(body, field::MAX_RESPONSE);
        let group = get(body, field::GROUP);
        if body.len() == V1_LEN {
            let max_delay_ms = code.into();
            return Ok(Query { version: Version::V1, max_delay_ms, group, sources: 0 });
        }
        if body.len() < field::SOURCES.end {
            let have = body.len();
            return Err(Error::new(LAYER, "query", Kind::Below, field::SOURCES.end, have));
        }
        let sources = get(body, field::SOURCES);
        let max_delay_ms = max_response(code);
        Ok(Query { version: Version::V2, max_delay_ms, group, sources })
    }

    /// Writes it without sources, to the front of a buffer; returns the bytes written. For who asks: a robustness of 2
    /// and an interval of 125 s.
    ///
    /// # Errors
    /// `NoRoom`; `Above` for a delay of more than 32767 ms, or sources.
    pub fn emit(&self, out: &mut [u8]) -> Result<usize> {
        at_most(LAYER, "maximum response delay", 0x7fff, self.max_delay_ms as usize)?;
        at_most(LAYER, "sources", 0, self.sources.into())?;
        let mut out = Writer::new(LAYER, out);
        out.bytes("query", &(self.max_delay_ms as u16).to_be_bytes())?;
        out.bytes("query", &[0; 2])?;
        out.bytes("query", &self.group.octets())?;
        if self.version == Version::V2 {
            out.bytes("query", &[2, 125, 0, 0])?;
        }
        Ok(out.len())
    }
}

/// The maximum response delay of version 2 in milliseconds: from 32768 on a floating-point number
/// (RFC 3810 §5.1.3).
const fn max_response(code: u16) -> u32 {
    if code < 0x8000 {
        return code as u32;
    }
    let (mantissa, exponent) = (code as u32 & 0xfff, code as u32 >> 12 & 7);
    (mantissa | 0x1000) << (exponent + 3)
}

/// Writes a version 2 report with one record of this kind for each group, without sources;
/// returns the bytes written.
///
/// # Errors
/// `NoRoom`; `Above` past 65535 records.
pub fn emit_report(
    kind: RecordKind,
    groups: impl IntoIterator<Item = Ipv6Addr>,
    out: &mut [u8],
) -> Result<usize> {
    let (mut count, mut at) = (0usize, REPORT_HEAD);
    for group in groups {
        let mut record = Writer::new(LAYER, out.get_mut(at..).unwrap_or(&mut []));
        record.bytes("record", &[kind.into(), 0, 0, 0])?;
        record.bytes("record", &group.octets())?;
        (count, at) = (count + 1, at + record.len());
    }
    at_most(LAYER, "records", u16::MAX.into(), count)?;
    let mut head = Writer::new(LAYER, out);
    head.bytes("report", &[0; 2])?;
    head.bytes("report", &(count as u16).to_be_bytes())?;
    Ok(at)
}

/// Writes what a version 1 report or "done" has behind the checksum; returns the bytes written.
///
/// # Errors
/// `NoRoom`.
pub fn emit_v1(group: Ipv6Addr, out: &mut [u8]) -> Result<usize> {
    let mut out = Writer::new(LAYER, out);
    out.bytes("report", &[0; 4])?;
    out.bytes("report", &group.octets())?;
    Ok(out.len())
}

/// Iterator over the records of a version 2 report: kind and group. Ends after as many as it
/// states, or after an error.
#[derive(Debug, Clone)]
pub struct Records<'a> {
    rest: &'a [u8],
    left: u16,
}

impl<'a> Records<'a> {
    /// Over what follows the checksum.
    ///
    /// # Errors
    /// `Truncated` if the number of records is not there.
    pub fn new(body: &'a [u8]) -> Result<Records<'a>> {
        holds(LAYER, "report", REPORT_HEAD, body.len())?;
        Ok(Records { rest: crate::view::rest(body, REPORT_HEAD), left: get(body, field::RECORDS) })
    }
}

impl Iterator for Records<'_> {
    type Item = Result<(RecordKind, Ipv6Addr)>;

    fn next(&mut self) -> Option<Self::Item> {
        self.left = self.left.checked_sub(1)?;
        let sources: u16 = get(self.rest, field::RECORD_SOURCES);
        let aux: u8 = get(self.rest, field::RECORD_AUX);
        let len = RECORD_LEN + usize::from(sources) * 16 + usize::from(aux) * 4;
        if let Err(e) = holds(LAYER, "record", len, self.rest.len()) {
            self.left = 0;
            return Some(Err(e));
        }
        let record = (get(self.rest, field::RECORD_KIND), get(self.rest, field::RECORD_GROUP));
        self.rest = crate::view::rest(self.rest, len);
        Some(Ok(record))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::vec::Vec;

    const GROUP: Ipv6Addr = Ipv6Addr::new(0xff02, 0, 0, 0, 0, 1, 0xff00, 1);

    #[test]
    fn queries_by_their_length() {
        let mut out = [0xee; 24];
        for (version, len) in [(Version::V1, 20), (Version::V2, 24)] {
            let query = Query { version, max_delay_ms: 1000, group: GROUP, sources: 0 };
            assert_eq!(query.emit(&mut out), Ok(len));
            assert_eq!(Query::parse(&out[..len]), Ok(query));
        }
        assert_eq!(&out[..4], [3, 0xe8, 0, 0]);
        for bad in (0..24).filter(|n| *n != 20) {
            assert!(Query::parse(&out[..bad]).is_err(), "{bad} bytes");
        }
        // Sources behind it are no matter.
        assert!(Query::parse(&[0; 40]).is_ok());
    }

    #[test]
    fn long_delays_are_floating() {
        // RFC 3810 §5.1.3: (mant | 0x1000) << (exp + 3).
        for (code, ms) in [(0, 0), (0x7fff, 32_767), (0x8000, 32_768), (0x8001, 32_776)] {
            assert_eq!(max_response(code), ms, "{code:#x}");
        }
        assert_eq!(max_response(0xffff), 0x1fff << 10);
    }

    #[test]
    fn reports_as_they_lie() {
        let mut out = [0xee; 44];
        let all: Ipv6Addr = "ff02::2".parse().unwrap();
        assert_eq!(emit_report(RecordKind::ToExclude, [all, GROUP], &mut out), Ok(44));
        let mut want = Vec::from([0, 0, 0, 2, 4, 0, 0, 0]);
        want.extend(all.octets());
        want.extend([4, 0, 0, 0]);
        want.extend(GROUP.octets());
        assert_eq!(out[..], want[..]);
        let records: Vec<_> = Records::new(&out).unwrap().collect();
        let kind = RecordKind::ToExclude;
        assert_eq!(records, [Ok((kind, all)), Ok((kind, GROUP))]);
        let records: Vec<_> = Records::new(&out[..43]).unwrap().collect();
        assert!(records.len() == 2 && records[1].is_err());
        assert!(emit_report(RecordKind::ToExclude, [all, GROUP, all], &mut out).is_err());
        assert_eq!(emit_v1(GROUP, &mut out), Ok(20));
        assert_eq!((&out[..4], &out[4..20]), (&[0; 4][..], &GROUP.octets()[..]));
    }
}
