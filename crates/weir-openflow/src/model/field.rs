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

impl Field {
    /// Its width in bits.
    pub const fn bits(self) -> u32 {
        use Field::*;
        match self {
            MplsBos => 1,
            IpEcn => 2,
            VlanPcp | MplsTc => 3,
            IpDscp => 6,
            IpProto | Icmpv4Type | Icmpv4Code | Icmpv6Type | Icmpv6Code => 8,
            Ipv6Exthdr => 9,
            VlanVid => 13,
            EthType | ArpOp | TcpSrc | TcpDst | UdpSrc | UdpDst | SctpSrc | SctpDst => 16,
            Ipv6Flabel | MplsLabel => 20,
            PbbIsid => 24,
            InPort | InPhyPort | Ipv4Src | Ipv4Dst | ArpSpa | ArpTpa => 32,
            EthDst | EthSrc | ArpSha | ArpTha | Ipv6NdSll | Ipv6NdTll => 48,
            Metadata | TunnelId => 64,
            Ipv6Src | Ipv6Dst | Ipv6NdTarget => 128,
        }
    }
    /// All its bits.
    pub const fn full(self) -> u128 {
        u128::MAX >> (128 - self.bits())
    }
}
