//! LLDP (IEEE 802.1AB-2016 §8, §9.2). Touches bytes. A data unit is a list of TLVs that begins
//! with chassis, port and time to live; what follows them is optional.

use crate::error::{Error, Kind, Result, at_least, at_most, equals, holds};
use crate::view::{Writer, get, rest, view};

const LAYER: &str = "lldp";

/// TLV types (table 8-1).
mod kind {
    pub const END: u8 = 0;
    pub const CHASSIS: u8 = 1;
    pub const PORT: u8 = 2;
    pub const TTL: u8 = 3;
    pub const PORT_DESCRIPTION: u8 = 4;
    pub const SYSTEM_NAME: u8 = 5;
    pub const SYSTEM_DESCRIPTION: u8 = 6;
    pub const CAPABILITIES: u8 = 7;
    pub const MANAGEMENT: u8 = 8;
    pub const ORGANIZATION: u8 = 127;
}

/// Bytes of a TLV's type and length.
const HEAD_LEN: usize = 2;

/// The longest TLV value.
pub const MAX_VALUE_LEN: usize = 511;

/// What kind of name a chassis goes by (table 8-2).
pub mod chassis {
    /// A MAC address.
    pub const MAC: u8 = 4;
    /// A network address: its IANA family in one byte, then the address.
    pub const NETWORK: u8 = 5;
    /// Whatever the system's owner chose.
    pub const LOCAL: u8 = 7;
}

/// What kind of name a port goes by (table 8-3).
pub mod port {
    /// A MAC address.
    pub const MAC: u8 = 3;
    /// An interface name.
    pub const INTERFACE_NAME: u8 = 5;
    /// Whatever the system's owner chose.
    pub const LOCAL: u8 = 7;
}

/// One TLV.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Tlv<'a> {
    /// End of the data unit.
    End,
    /// The sending system: subtype of [`chassis`] and 1 to 255 bytes.
    Chassis(u8, &'a [u8]),
    /// The sending port: subtype of [`port`] and 1 to 255 bytes.
    Port(u8, &'a [u8]),
    /// Seconds for which this is to be believed; 0 takes it back.
    Ttl(u16),
    /// What the port is, in words.
    PortDescription(&'a [u8]),
    /// The system's name.
    SystemName(&'a [u8]),
    /// What the system is, in words.
    SystemDescription(&'a [u8]),
    /// What the system can do and what of it is enabled (table 8-4), as bits.
    Capabilities(u16, u16),
    /// Where it is managed from (figure 8-11), as it is.
    ManagementAddress(&'a [u8]),
    /// An organization's own: OUI, subtype, data.
    Organization([u8; 3], u8, &'a [u8]),
    /// Any other, or one whose length its type does not allow: type (7 bits) and value.
    Unknown(u8, &'a [u8]),
}

impl<'a> Tlv<'a> {
    fn read(tlv: u8, value: &'a [u8]) -> Tlv<'a> {
        match (tlv, value) {
            (kind::END, []) => Tlv::End,
            (kind::CHASSIS, [subtype, id @ ..]) => Tlv::Chassis(*subtype, id),
            (kind::PORT, [subtype, id @ ..]) => Tlv::Port(*subtype, id),
            (kind::TTL, &[high, low]) => Tlv::Ttl(u16::from_be_bytes([high, low])),
            (kind::PORT_DESCRIPTION, text) => Tlv::PortDescription(text),
            (kind::SYSTEM_NAME, text) => Tlv::SystemName(text),
            (kind::SYSTEM_DESCRIPTION, text) => Tlv::SystemDescription(text),
            (kind::CAPABILITIES, &[a, b, c, d]) => {
                Tlv::Capabilities(u16::from_be_bytes([a, b]), u16::from_be_bytes([c, d]))
            }
            (kind::MANAGEMENT, address) => Tlv::ManagementAddress(address),
            (kind::ORGANIZATION, [a, b, c, subtype, data @ ..]) => {
                Tlv::Organization([*a, *b, *c], *subtype, data)
            }
            _ => Tlv::Unknown(tlv, value),
        }
    }

    fn kind(&self) -> u8 {
        match self {
            Tlv::End => kind::END,
            Tlv::Chassis(..) => kind::CHASSIS,
            Tlv::Port(..) => kind::PORT,
            Tlv::Ttl(_) => kind::TTL,
            Tlv::PortDescription(_) => kind::PORT_DESCRIPTION,
            Tlv::SystemName(_) => kind::SYSTEM_NAME,
            Tlv::SystemDescription(_) => kind::SYSTEM_DESCRIPTION,
            Tlv::Capabilities(..) => kind::CAPABILITIES,
            Tlv::ManagementAddress(_) => kind::MANAGEMENT,
            Tlv::Organization(..) => kind::ORGANIZATION,
            Tlv::Unknown(tlv, _) => *tlv,
        }
    }

    const fn value_len(&self) -> usize {
        match self {
            Tlv::End => 0,
            Tlv::Ttl(_) => 2,
            Tlv::Capabilities(..) => 4,
            Tlv::Chassis(_, id) | Tlv::Port(_, id) => 1 + id.len(),
            Tlv::Organization(_, _, data) => 4 + data.len(),
            Tlv::PortDescription(value)
            | Tlv::SystemName(value)
            | Tlv::SystemDescription(value)
            | Tlv::ManagementAddress(value)
            | Tlv::Unknown(_, value) => value.len(),
        }
    }

    /// Bytes on the wire.
    pub const fn buffer_len(&self) -> usize {
        HEAD_LEN + self.value_len()
    }

    fn write(&self, out: &mut Writer<'_>) -> Result<()> {
        let len = self.value_len();
        at_most(LAYER, "tlv type", 127, usize::from(self.kind()))?;
        at_most(LAYER, "tlv length", MAX_VALUE_LEN, len)?;
        let head = u16::from(self.kind()) << 9 | len as u16;
        let mut put = |bytes: &[u8]| out.bytes("tlv", bytes);
        put(&head.to_be_bytes())?;
        match *self {
            Tlv::End => Ok(()),
            Tlv::Ttl(seconds) => put(&seconds.to_be_bytes()),
            Tlv::Capabilities(system, enabled) => {
                put(&system.to_be_bytes())?;
                put(&enabled.to_be_bytes())
            }
            Tlv::Chassis(subtype, id) | Tlv::Port(subtype, id) => {
                put(&[subtype])?;
                put(id)
            }
            Tlv::Organization(oui, subtype, data) => {
                put(&oui)?;
                put(&[subtype])?;
                put(data)
            }
            Tlv::PortDescription(value)
            | Tlv::SystemName(value)
            | Tlv::SystemDescription(value)
            | Tlv::ManagementAddress(value)
            | Tlv::Unknown(_, value) => put(value),
        }
    }
}

/// Writes TLVs one after another; returns the bytes written.
///
/// # Errors
/// `NoRoom`; `Above` if a value is longer than [`MAX_VALUE_LEN`].
pub fn emit_all(tlvs: &[Tlv<'_>], out: &mut [u8]) -> Result<usize> {
    let mut out = Writer::new(LAYER, out);
    for tlv in tlvs {
        tlv.write(&mut out)?;
    }
    Ok(out.len())
}

/// Iterator over TLVs; ends after an end-of-unit, an error, or the bytes.
#[derive(Debug, Clone)]
pub struct Tlvs<'a> {
    rest: &'a [u8],
}

impl<'a> Tlvs<'a> {
    /// Over a data unit, or a part of one.
    pub const fn new(bytes: &'a [u8]) -> Tlvs<'a> {
        Tlvs { rest: bytes }
    }

    fn step(&mut self) -> Result<Tlv<'a>> {
        let have = self.rest.len();
        holds(LAYER, "tlv", HEAD_LEN, have)?;
        let head: u16 = get(self.rest, 0..HEAD_LEN);
        let end = HEAD_LEN + usize::from(head & 0x1ff);
        let truncated = Error::new(LAYER, "tlv", Kind::Truncated, end, have);
        let (this, tail) = self.rest.split_at_checked(end).ok_or(truncated)?;
        self.rest = tail;
        Ok(Tlv::read((head >> 9) as u8, rest(this, HEAD_LEN)))
    }
}

impl<'a> Iterator for Tlvs<'a> {
    type Item = Result<Tlv<'a>>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.rest.is_empty() {
            return None;
        }
        let result = self.step();
        if matches!(result, Err(_) | Ok(Tlv::End)) {
            self.rest = &[];
        }
        Some(result)
    }
}

view! {
    /// A data unit: what follows the EtherType.
    Packet
}

impl<T: AsRef<[u8]>> Packet<T> {
    /// Says whether the unit begins with chassis, port and time to live, and whether all TLVs up
    /// to the end are whole. A unit without an end TLV ends with its bytes.
    ///
    /// # Errors
    /// `Truncated`, `Below`, `Above` or `Differs`, whatever the first fault is.
    pub fn check(&self) -> Result<()> {
        mandatory(&mut self.tlvs())?;
        self.tlvs().try_for_each(|tlv| tlv.map(|_| ()))
    }

    /// The TLVs, from chassis on.
    pub fn tlvs(&self) -> Tlvs<'_> {
        Tlvs::new(self.as_bytes())
    }
}

/// Chassis, port and time to live, in the only order there is (802.1AB §8.2).
fn mandatory<'a>(tlvs: &mut Tlvs<'a>) -> Result<(Name<'a>, Name<'a>, u16)> {
    let mut next = |expected: u8, field| {
        let tlv = tlvs.next().unwrap_or(Err(Error::new(LAYER, field, Kind::Truncated, 2, 0)))?;
        equals(LAYER, field, expected.into(), tlv.kind().into())?;
        Ok(tlv)
    };
    let name = |field, subtype, id: &'a [u8]| {
        at_least(LAYER, field, 1, id.len())?;
        at_most(LAYER, field, 255, id.len())?;
        Ok(Name { subtype, id })
    };
    let missing = |field| Err(Error::new(LAYER, field, Kind::Below, 1, 0));
    let chassis = match next(kind::CHASSIS, "chassis id")? {
        Tlv::Chassis(subtype, id) => name("chassis id length", subtype, id)?,
        _ => return missing("chassis id length"),
    };
    let port = match next(kind::PORT, "port id")? {
        Tlv::Port(subtype, id) => name("port id length", subtype, id)?,
        _ => return missing("port id length"),
    };
    match next(kind::TTL, "time to live")? {
        Tlv::Ttl(seconds) => Ok((chassis, port, seconds)),
        other => Err(Error::new(LAYER, "time to live length", Kind::Differs, 2, other.value_len())),
    }
}

/// What a chassis or a port goes by.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Name<'a> {
    /// What kind of name; see [`chassis`] and [`port`].
    pub subtype: u8,
    /// The name, 1 to 255 bytes.
    pub id: &'a [u8],
}

/// A data unit.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Repr<'a> {
    /// The sending system.
    pub chassis: Name<'a>,
    /// The sending port.
    pub port: Name<'a>,
    /// Seconds for which this is to be believed; 0 takes it back.
    pub ttl_s: u16,
    /// The optional TLVs as bytes, without the end; see [`emit_all`] and [`Tlvs`].
    pub optional: &'a [u8],
}

impl<'a> Repr<'a> {
    /// Takes the data unit out of a view.
    ///
    /// # Errors
    /// Those of [`Packet::check`].
    pub fn parse<T: AsRef<[u8]> + ?Sized>(packet: &Packet<&'a T>) -> Result<Repr<'a>> {
        let mut tlvs = Tlvs::new(packet.long_bytes());
        let (chassis, port, ttl_s) = mandatory(&mut tlvs)?;
        let optional = tlvs.rest;
        let mut len = 0;
        for tlv in tlvs {
            match tlv? {
                Tlv::End => break,
                tlv => len += tlv.buffer_len(),
            }
        }
        Ok(Repr { chassis, port, ttl_s, optional: optional.get(..len).unwrap_or(&[]) })
    }

    fn tlvs(&self) -> [Tlv<'a>; 3] {
        [
            Tlv::Chassis(self.chassis.subtype, self.chassis.id),
            Tlv::Port(self.port.subtype, self.port.id),
            Tlv::Ttl(self.ttl_s),
        ]
    }

    /// Bytes of the whole data unit, with its end.
    pub fn buffer_len(&self) -> usize {
        let fixed: usize = self.tlvs().iter().map(Tlv::buffer_len).sum();
        fixed + self.optional.len() + HEAD_LEN
    }

    /// Writes the whole data unit, with its end.
    ///
    /// # Errors
    /// `NoRoom`; `Below` or `Above` if a name is empty or longer than 255 bytes.
    pub fn emit<T: AsRef<[u8]> + AsMut<[u8]>>(&self, packet: &mut Packet<T>) -> Result<()> {
        for (field, name) in [("chassis id length", self.chassis), ("port id length", self.port)] {
            at_least(LAYER, field, 1, name.id.len())?;
            at_most(LAYER, field, 255, name.id.len())?;
        }
        let mut out = Writer::new(LAYER, packet.bytes_mut());
        for tlv in self.tlvs() {
            tlv.write(&mut out)?;
        }
        out.bytes("optional tlvs", self.optional)?;
        Tlv::End.write(&mut out)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_three_are_mandatory() {
        let unit = |tlvs: &[Tlv<'_>]| {
            let mut out = [0; 64];
            let len = emit_all(tlvs, &mut out).unwrap();
            Packet::new_checked(&out[..len]).map(|_| ())
        };
        let (chassis, port, ttl) = (Tlv::Chassis(4, &[1; 6]), Tlv::Port(5, b"p1"), Tlv::Ttl(120));
        assert_eq!(unit(&[chassis, port, ttl, Tlv::End]), Ok(()));
        assert_eq!(unit(&[chassis, port, ttl]), Ok(()));
        assert_eq!(unit(&[chassis, port]).unwrap_err().field, "time to live");
        assert_eq!(unit(&[port, chassis, ttl]).unwrap_err().field, "chassis id");
        assert_eq!(unit(&[Tlv::Chassis(4, &[]), port, ttl]).unwrap_err().kind, Kind::Below);
        assert_eq!(unit(&[]).unwrap_err().kind, Kind::Truncated);
    }
}
