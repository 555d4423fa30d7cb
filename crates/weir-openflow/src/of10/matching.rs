//! 1.0's match: a structure of fixed size with wildcards (1.0.1 §5.2.3), in the model's fields.
//!
//! Room: kinds for `layouts`. A match is *normalised* when it is read: a field whose prerequisite is
//! not met counts as wildcarded, as §3.4 has it and Open vSwitch does, so that equal meanings become equal
//! matches. Bits that §5.2.3 does not use (of ToS, of an ICMP type) are passed over.

use super::lacks;
use super::numbers::{Port16, narrow, widen};
use crate::model::{ErrorCode, Field, FieldMatch, Match};
use crate::wire::{Kind, Reader, Writer, number};

/// OFPFW_*.
mod wild {
    pub(super) const IN_PORT: u32 = 1 << 0;
    pub(super) const DL_VLAN: u32 = 1 << 1;
    pub(super) const DL_SRC: u32 = 1 << 2;
    pub(super) const DL_DST: u32 = 1 << 3;
    pub(super) const DL_TYPE: u32 = 1 << 4;
    pub(super) const NW_PROTO: u32 = 1 << 5;
    pub(super) const TP_SRC: u32 = 1 << 6;
    pub(super) const TP_DST: u32 = 1 << 7;
    pub(super) const NW_SRC_SHIFT: u32 = 8;
    pub(super) const NW_DST_SHIFT: u32 = 14;
    pub(super) const DL_VLAN_PCP: u32 = 1 << 20;
    pub(super) const NW_TOS: u32 = 1 << 21;
    /// Everything, an address by 32 bits.
    pub(super) const ALL: u32 =
        0xff | 32 << NW_SRC_SHIFT | 32 << NW_DST_SHIFT | DL_VLAN_PCP | NW_TOS;
}

/// OFP_VLAN_NONE.
const VLAN_NONE: u16 = 0xffff;
/// The model's bit for "there is a tag".
const PRESENT: u128 = 0x1000;
const IPV4: u16 = 0x0800;
const ARP: u16 = 0x0806;
/// Not in §5.2.3, which knows no IPv6; what is not an address means there what it means in IPv4,
/// as Open vSwitch and os-ken's switch tester have it.
const IPV6: u16 = 0x86dd;

/// Protocols with something in tp_src and tp_dst: their fields, and how many of the bits count.
/// SCTP and ICMPv6 are not in §5.2.3, but whoever asks for these fields means them.
const TRANSPORTS: &[(u8, Field, Field, u16)] = &[
    (1, Field::Icmpv4Type, Field::Icmpv4Code, 0xff),
    (58, Field::Icmpv6Type, Field::Icmpv6Code, 0xff),
    (6, Field::TcpSrc, Field::TcpDst, 0xffff),
    (17, Field::UdpSrc, Field::UdpDst, 0xffff),
    (132, Field::SctpSrc, Field::SctpDst, 0xffff),
];

/// struct ofp_match as it stands.
#[derive(Clone, Copy, Default)]
struct Raw {
    wildcards: u32,
    in_port: u16,
    dl_src: u64,
    dl_dst: u64,
    dl_vlan: u16,
    dl_vlan_pcp: u8,
    dl_type: u16,
    nw_tos: u8,
    nw_proto: u8,
    nw_src: u32,
    nw_dst: u32,
    tp_src: u16,
    tp_dst: u16,
}

/// struct ofp_match.
pub(super) struct OfpMatch;

impl Kind for OfpMatch {
    type Value = Match;

    fn read(r: &mut Reader<'_>) -> Result<Match, ErrorCode> {
        Raw::read(r).map(|raw| raw.normalised())
    }

    fn write(matcher: &Match, w: &mut Writer<'_>) {
        match Raw::of(matcher) {
            Some(raw) => raw.write(w),
            None => w.fail(lacks("such match")),
        }
    }
}

/// Whether 1.0 has words for a match.
pub(super) fn has_words_for(matcher: &Match) -> bool {
    Raw::of(matcher).is_some()
}

impl Raw {
    fn read(r: &mut Reader<'_>) -> Result<Self, ErrorCode> {
        let mut m = Raw { wildcards: r.u32()?, in_port: r.u16()?, ..Raw::default() };
        m.dl_src = number(r.take(6)?) as u64;
        m.dl_dst = number(r.take(6)?) as u64;
        m.dl_vlan = r.u16()?;
        m.dl_vlan_pcp = r.u8()?;
        r.skip(1)?;
        m.dl_type = r.u16()?;
        m.nw_tos = r.u8()?;
        m.nw_proto = r.u8()?;
        r.skip(2)?;
        m.nw_src = r.u32()?;
        m.nw_dst = r.u32()?;
        m.tp_src = r.u16()?;
        m.tp_dst = r.u16()?;
        Ok(m)
    }

    fn write(&self, w: &mut Writer<'_>) {
        w.u32(self.wildcards);
        w.u16(self.in_port);
        w.number(self.dl_src.into(), 6);
        w.number(self.dl_dst.into(), 6);
        w.u16(self.dl_vlan);
        w.u8(self.dl_vlan_pcp);
        w.zeros(1);
        w.u16(self.dl_type);
        w.u8(self.nw_tos);
        w.u8(self.nw_proto);
        w.zeros(2);
        w.u32(self.nw_src);
        w.u32(self.nw_dst);
        w.u16(self.tp_src);
        w.u16(self.tp_dst);
    }

    /// In the model's fields, in the order of their numbers.
    fn normalised(&self) -> Match {
        let mut fields = Vec::with_capacity(12);
        let mut put = |field: Field, value: u128, mask: u128| {
            if mask != 0 {
                fields.push(FieldMatch { field, value: value & mask, mask });
            }
        };
        let exact = |bit: u32| self.wildcards & bit == 0;
        let all_or_none = |field: Field, bit: u32| if exact(bit) { field.full() } else { 0 };

        put(Field::InPort, widen(self.in_port).0.into(), all_or_none(Field::InPort, wild::IN_PORT));
        put(Field::EthDst, self.dl_dst.into(), all_or_none(Field::EthDst, wild::DL_DST));
        put(Field::EthSrc, self.dl_src.into(), all_or_none(Field::EthSrc, wild::DL_SRC));
        put(Field::EthType, self.dl_type.into(), all_or_none(Field::EthType, wild::DL_TYPE));

        let tag = self.dl_vlan != VLAN_NONE;
        match (exact(wild::DL_VLAN), exact(wild::DL_VLAN_PCP)) {
            // Without a tag there is no priority to look at.
            (true, _) if !tag => put(Field::VlanVid, 0, Field::VlanVid.full()),
            (true, _) => {
                let vid = PRESENT | u128::from(self.dl_vlan & 0xfff);
                put(Field::VlanVid, vid, Field::VlanVid.full());
            }
            // A priority alone asks for any tag with it.
            (false, true) => put(Field::VlanVid, PRESENT, PRESENT),
            (false, false) => {}
        }
        if exact(wild::DL_VLAN_PCP) && (tag || !exact(wild::DL_VLAN)) {
            put(Field::VlanPcp, (self.dl_vlan_pcp & 7).into(), Field::VlanPcp.full());
        }

        let ethertype = exact(wild::DL_TYPE).then_some(self.dl_type);
        let (source, target) = match ethertype {
            Some(IPV4) => (Field::Ipv4Src, Field::Ipv4Dst),
            Some(ARP) => (Field::ArpSpa, Field::ArpTpa),
            Some(IPV6) => (Field::Ipv6Src, Field::Ipv6Dst),
            _ => return Match(fields),
        };
        // There is no room for IPv6's addresses: whatever stands there means nothing.
        let (nw_src, nw_dst) = match ethertype {
            Some(IPV6) => (0, 0),
            _ => (
                prefix(self.wildcards >> wild::NW_SRC_SHIFT),
                prefix(self.wildcards >> wild::NW_DST_SHIFT),
            ),
        };
        if ethertype == Some(ARP) {
            put(Field::ArpOp, self.nw_proto.into(), all_or_none(Field::ArpOp, wild::NW_PROTO));
            put(source, self.nw_src.into(), nw_src.into());
            put(target, self.nw_dst.into(), nw_dst.into());
            return Match(fields);
        }
        let dscp = self.nw_tos >> 2;
        put(Field::IpDscp, dscp.into(), all_or_none(Field::IpDscp, wild::NW_TOS));
        put(Field::IpProto, self.nw_proto.into(), all_or_none(Field::IpProto, wild::NW_PROTO));
        put(source, self.nw_src.into(), nw_src.into());
        put(target, self.nw_dst.into(), nw_dst.into());
        // ICMP of the other version is a protocol like any other.
        let strange = if ethertype == Some(IPV6) { 1 } else { 58 };
        let meant = exact(wild::NW_PROTO) && self.nw_proto != strange;
        let transport = TRANSPORTS.iter().find(|t| meant && t.0 == self.nw_proto);
        if let Some(&(_, source, target, bits)) = transport {
            put(source, (self.tp_src & bits).into(), all_or_none(source, wild::TP_SRC));
            put(target, (self.tp_dst & bits).into(), all_or_none(target, wild::TP_DST));
        }
        Match(fields)
    }

    /// From the model's fields; `None` where 1.0 can't say them.
    fn of(matcher: &Match) -> Option<Self> {
        let exactly =
            |field| matcher.get(field).filter(|m| m.mask == field.full()).map(|m| m.value);
        let ethertype = exactly(Field::EthType);
        let proto = exactly(Field::IpProto);
        let ipv4 = ethertype == Some(IPV4.into());
        let ip = ipv4 || ethertype == Some(IPV6.into());
        let arp = ethertype == Some(ARP.into());
        let mut raw = Raw { wildcards: wild::ALL, ..Raw::default() };
        for &FieldMatch { field, value, mask } in &matcher.0 {
            let full = mask == field.full();
            match field {
                Field::InPort if full => {
                    raw.exact(wild::IN_PORT);
                    raw.in_port = narrow(crate::model::Port(value as u32))?;
                }
                Field::EthDst if full => {
                    raw.exact(wild::DL_DST);
                    raw.dl_dst = value as u64;
                }
                Field::EthSrc if full => {
                    raw.exact(wild::DL_SRC);
                    raw.dl_src = value as u64;
                }
                Field::EthType if full => {
                    raw.exact(wild::DL_TYPE);
                    raw.dl_type = value as u16;
                }
                Field::VlanVid if full => {
                    raw.exact(wild::DL_VLAN);
                    raw.dl_vlan = match value {
                        0 => VLAN_NONE,
                        v if v & PRESENT != 0 => (v & 0xfff) as u16,
                        _ => return None,
                    };
                }
                // Any tag: 1.0 can say that only along with a priority.
                Field::VlanVid if mask == PRESENT && value == PRESENT => {
                    exactly(Field::VlanPcp)?;
                }
                Field::VlanPcp if full && matcher.get(Field::VlanVid)?.value & PRESENT != 0 => {
                    raw.exact(wild::DL_VLAN_PCP);
                    raw.dl_vlan_pcp = value as u8;
                }
                Field::IpDscp if full && ip => {
                    raw.exact(wild::NW_TOS);
                    raw.nw_tos = (value << 2) as u8;
                }
                Field::IpProto if full && ip => {
                    raw.exact(wild::NW_PROTO);
                    raw.nw_proto = value as u8;
                }
                Field::ArpOp if full && arp && value <= 0xff => {
                    raw.exact(wild::NW_PROTO);
                    raw.nw_proto = value as u8;
                }
                Field::Ipv4Src if ipv4 => raw.source(value, mask)?,
                Field::ArpSpa if arp => raw.source(value, mask)?,
                Field::Ipv4Dst if ipv4 => raw.target(value, mask)?,
                Field::ArpTpa if arp => raw.target(value, mask)?,
                _ if full && ip => {
                    let of_proto = |t: &&(u8, Field, Field, u16)| proto == Some(t.0.into());
                    let transport = TRANSPORTS.iter().find(of_proto)?;
                    if field == transport.1 {
                        raw.exact(wild::TP_SRC);
                        raw.tp_src = value as u16;
                    } else if field == transport.2 {
                        raw.exact(wild::TP_DST);
                        raw.tp_dst = value as u16;
                    } else {
                        return None;
                    }
                }
                _ => return None,
            }
        }
        Some(raw)
    }

    fn exact(&mut self, bit: u32) {
        self.wildcards &= !bit;
    }

    fn source(&mut self, value: u128, mask: u128) -> Option<()> {
        self.wildcards = with_prefix(self.wildcards, wild::NW_SRC_SHIFT, mask as u32)?;
        self.nw_src = value as u32;
        Some(())
    }

    fn target(&mut self, value: u128, mask: u128) -> Option<()> {
        self.wildcards = with_prefix(self.wildcards, wild::NW_DST_SHIFT, mask as u32)?;
        self.nw_dst = value as u32;
        Some(())
    }
}

/// The mask that a count of wildcarded low bits means; 32 and more: nothing counts.
fn prefix(wildcarded: u32) -> u32 {
    u32::MAX.checked_shl(wildcarded & 0x3f).unwrap_or(0)
}

/// The wildcards with a count for this mask; `None` where it is no prefix.
fn with_prefix(wildcards: u32, shift: u32, mask: u32) -> Option<u32> {
    let wildcarded = mask.trailing_zeros();
    (prefix(wildcarded) == mask).then_some(wildcards & !(0x3f << shift) | wildcarded << shift)
}

/// A packet-in's port, which stands for a match of its own.
pub(super) struct InPortOnly;

impl Kind for InPortOnly {
    type Value = Match;
    fn read(r: &mut Reader<'_>) -> Result<Match, ErrorCode> {
        let port = Port16::read(r)?;
        Ok(Match::default().with(Field::InPort, port.0.into()))
    }
    fn write(matcher: &Match, w: &mut Writer<'_>) {
        let port = matcher.get(Field::InPort).map(|m| crate::model::Port(m.value as u32));
        match port {
            Some(port) => Port16::write(&port, w),
            None => w.fail(lacks("packet-ins without a port")),
        }
    }
}
