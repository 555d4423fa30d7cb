//! Match fields: the forty of 1.3 (§7.2.3.7), of which 1.0's twelve are a part.
//!
//! Values are numbers, right-aligned; the encodings write them in network byte order.

/// A match field of OXM class 0x8000; the discriminant is its number there.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[repr(u8)]
#[allow(missing_docs, reason = "each is named as in 1.3, table 11")]
pub enum Field {
    InPort = 0,
    InPhyPort = 1,
    Metadata = 2,
    EthDst = 3,
    EthSrc = 4,
    EthType = 5,
    VlanVid = 6,
    VlanPcp = 7,
    IpDscp = 8,
    IpEcn = 9,
    IpProto = 10,
    Ipv4Src = 11,
    Ipv4Dst = 12,
    TcpSrc = 13,
    TcpDst = 14,
    UdpSrc = 15,
    UdpDst = 16,
    SctpSrc = 17,
    SctpDst = 18,
    Icmpv4Type = 19,
    Icmpv4Code = 20,
    ArpOp = 21,
    ArpSpa = 22,
    ArpTpa = 23,
    ArpSha = 24,
    ArpTha = 25,
    Ipv6Src = 26,
    Ipv6Dst = 27,
    Ipv6Flabel = 28,
    Icmpv6Type = 29,
    Icmpv6Code = 30,
    Ipv6NdTarget = 31,
    Ipv6NdSll = 32,
    Ipv6NdTll = 33,
    MplsLabel = 34,
    MplsTc = 35,
    MplsBos = 36,
    PbbIsid = 37,
    TunnelId = 38,
    Ipv6Exthdr = 39,
}

/// One field of a match.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct FieldMatch {
    /// Which field.
    pub field: Field,
    /// Its value; bits outside the mask are zero.
    pub value: u128,
    /// Which bits count; all of the field's for an exact match.
    pub mask: u128,
}

/// What a flow matches: each field at most once, in the order of their numbers. Empty: everything.
///
/// VLAN: `VlanVid` holds OFPVID_PRESENT (0x1000) as 1.3 does: value 0 with a full mask is "no tag",
/// value 0x1000 with mask 0x1000 "any tag", 0x1000|vid exactly that. The 1.0 encoding translates.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Match(pub Vec<FieldMatch>);

impl Match {
    /// The entry of a field.
    pub fn get(&self, field: Field) -> Option<&FieldMatch> {
        self.0.iter().find(|f| f.field == field)
    }
    /// Also demands `field` to equal `value`; keeps the order.
    #[must_use]
    pub fn with(self, field: Field, value: u128) -> Self {
        self.with_masked(field, value, field.full())
    }
    /// Also demands `field` to equal `value` under `mask`; replaces what was demanded before.
    #[must_use]
    pub fn with_masked(mut self, field: Field, value: u128, mask: u128) -> Self {
        let m = FieldMatch { field, value: value & mask, mask };
        match self.0.binary_search_by_key(&field, |f| f.field) {
            Ok(i) => self.0[i] = m,
            Err(i) => self.0.insert(i, m),
        }
        self
    }
}

/// What a field is, beside its number.
struct Info {
    field: Field,
    bits: u32,
    mask: Mask,
    set: Set,
    needs: Prerequisite,
}

/// Whether a match on the field takes a mask.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Mask {
    No,
    Any,
}

/// Whether set-field takes the field.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Set {
    No,
    Yes,
}

/// What a match must demand before it may name a field (1.3 §7.2.3.6): exactly one of some values.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Prerequisite {
    /// Nothing.
    None,
    /// That the ingress port is given.
    InPort,
    /// That there is a VLAN tag, any or a certain one.
    VlanTag,
    /// One of these EtherTypes.
    EthType(&'static [u16]),
    /// This IP protocol, over one of these EtherTypes.
    IpProto(&'static [u16], u8),
    /// One of these ICMPv6 types.
    Icmpv6Type(&'static [u8]),
}

impl Prerequisite {
    /// Whether a match demands it.
    pub fn met_by(self, matcher: &Match) -> bool {
        self.met(|field| matcher.get(field).copied())
    }

    /// Whether it is demanded, where `demanded` tells what is of a field.
    pub fn met(self, demanded: impl Fn(Field) -> Option<FieldMatch>) -> bool {
        let exact = |field: Field| {
            demanded(field).filter(|m| m.mask == field.full()).map_or(u128::MAX, |m| m.value)
        };
        let eth_type =
            |types: &[u16]| types.iter().any(|t| u128::from(*t) == exact(Field::EthType));
        match self {
            Prerequisite::None => true,
            Prerequisite::InPort => exact(Field::InPort) != u128::MAX,
            Prerequisite::VlanTag => demanded(Field::VlanVid)
                .is_some_and(|m| m.mask & m.value & u128::from(VLAN_PRESENT) != 0),
            Prerequisite::EthType(types) => eth_type(types),
            Prerequisite::IpProto(types, proto) => {
                eth_type(types) && exact(Field::IpProto) == u128::from(proto)
            }
            Prerequisite::Icmpv6Type(types) => {
                let kind = exact(Field::Icmpv6Type);
                eth_type(IPV6) && types.iter().any(|t| u128::from(*t) == kind)
            }
        }
    }
}

/// OFPVID_PRESENT: the bit of `VlanVid` that says that there is a tag.
pub const VLAN_PRESENT: u16 = 0x1000;

const IPV4: &[u16] = &[0x0800];
const IPV6: &[u16] = &[0x86dd];
const IP: &[u16] = &[0x0800, 0x86dd];
const ARP: &[u16] = &[0x0806];
const MPLS: &[u16] = &[0x8847, 0x8848];
const PBB: &[u16] = &[0x88e7];

const fn row(field: Field, bits: u32, mask: Mask, set: Set, needs: Prerequisite) -> Info {
    Info { field, bits, mask, set, needs }
}

/// 1.3 §7.2.3.7, table 12: width, whether maskable, prerequisites; and §7.2.5: what set-field can't
/// write, being no header field.
static TABLE: [Info; Field::COUNT] = {
    use Field::*;
    use Mask::{Any, No};
    use Prerequisite::{EthType as Eth, Icmpv6Type as Nd, IpProto as Proto, None as Free};
    [
        row(InPort, 32, No, Set::No, Free),
        row(InPhyPort, 32, No, Set::No, Prerequisite::InPort),
        row(Metadata, 64, Any, Set::No, Free),
        row(EthDst, 48, Any, Set::Yes, Free),
        row(EthSrc, 48, Any, Set::Yes, Free),
        row(EthType, 16, No, Set::Yes, Free),
        row(VlanVid, 13, Any, Set::Yes, Free),
        row(VlanPcp, 3, No, Set::Yes, Prerequisite::VlanTag),
        row(IpDscp, 6, No, Set::Yes, Eth(IP)),
        row(IpEcn, 2, No, Set::Yes, Eth(IP)),
        row(IpProto, 8, No, Set::Yes, Eth(IP)),
        row(Ipv4Src, 32, Any, Set::Yes, Eth(IPV4)),
        row(Ipv4Dst, 32, Any, Set::Yes, Eth(IPV4)),
        row(TcpSrc, 16, No, Set::Yes, Proto(IP, 6)),
        row(TcpDst, 16, No, Set::Yes, Proto(IP, 6)),
        row(UdpSrc, 16, No, Set::Yes, Proto(IP, 17)),
        row(UdpDst, 16, No, Set::Yes, Proto(IP, 17)),
        row(SctpSrc, 16, No, Set::Yes, Proto(IP, 132)),
        row(SctpDst, 16, No, Set::Yes, Proto(IP, 132)),
        row(Icmpv4Type, 8, No, Set::Yes, Proto(IPV4, 1)),
        row(Icmpv4Code, 8, No, Set::Yes, Proto(IPV4, 1)),
        row(ArpOp, 16, No, Set::Yes, Eth(ARP)),
        row(ArpSpa, 32, Any, Set::Yes, Eth(ARP)),
        row(ArpTpa, 32, Any, Set::Yes, Eth(ARP)),
        row(ArpSha, 48, Any, Set::Yes, Eth(ARP)),
        row(ArpTha, 48, Any, Set::Yes, Eth(ARP)),
        row(Ipv6Src, 128, Any, Set::Yes, Eth(IPV6)),
        row(Ipv6Dst, 128, Any, Set::Yes, Eth(IPV6)),
        row(Ipv6Flabel, 20, Any, Set::Yes, Eth(IPV6)),
        row(Icmpv6Type, 8, No, Set::Yes, Proto(IPV6, 58)),
        row(Icmpv6Code, 8, No, Set::Yes, Proto(IPV6, 58)),
        row(Ipv6NdTarget, 128, No, Set::Yes, Nd(&[135, 136])),
        row(Ipv6NdSll, 48, No, Set::Yes, Nd(&[135])),
        row(Ipv6NdTll, 48, No, Set::Yes, Nd(&[136])),
        row(MplsLabel, 20, No, Set::Yes, Eth(MPLS)),
        row(MplsTc, 3, No, Set::Yes, Eth(MPLS)),
        row(MplsBos, 1, No, Set::Yes, Eth(MPLS)),
        row(PbbIsid, 24, Any, Set::Yes, Eth(PBB)),
        row(TunnelId, 64, Any, Set::Yes, Free),
        row(Ipv6Exthdr, 9, Any, Set::No, Eth(IPV6)),
    ]
};

impl Field {
    /// How many there are.
    pub const COUNT: usize = 40;

    const fn info(self) -> &'static Info {
        &TABLE[self as usize]
    }
    /// The field with this number, if there is one.
    pub fn from_number(n: u8) -> Option<Field> {
        TABLE.get(usize::from(n)).map(|info| info.field)
    }
    /// Every field, in the order of their numbers.
    pub fn all() -> impl Iterator<Item = Field> {
        TABLE.iter().map(|info| info.field)
    }
    /// Its width in bits.
    pub const fn bits(self) -> u32 {
        self.info().bits
    }
    /// All its bits.
    pub const fn full(self) -> u128 {
        u128::MAX >> (128 - self.bits())
    }
    /// Whether a match on it takes a mask (1.3).
    pub fn maskable(self) -> bool {
        self.info().mask == Mask::Any
    }
    /// Whether set-field takes it.
    pub fn settable(self) -> bool {
        self.info().set == Set::Yes
    }
    /// What a match on it demands first.
    pub const fn prerequisite(self) -> Prerequisite {
        self.info().needs
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_table_is_in_the_order_of_numbers() {
        for (n, info) in TABLE.iter().enumerate() {
            assert_eq!(info.field as usize, n);
        }
    }
}
