//! The fields of a flow key: each declared once, with its name, place, width and prerequisite.
//!
//! Covers 004's ten fields, OpenFlow 1.0's twelve, and OpenFlow 1.3's forty (OXM, §7.2.3.7). Names
//! are Open vSwitch's where it has one, with OXM's as a second name; the flow syntax, the TOML and
//! `weir trace` all read them from here.

use crate::key::{FlowKey, FlowMask, WORDS, ones};
use thiserror::Error;

/// Where a field lies and what must hold before a rule may look at it.
#[derive(Clone, Copy, Debug)]
pub struct FieldInfo {
    /// The name shown and read.
    pub name: &'static str,
    /// Other names that are read.
    pub aliases: &'static [&'static str],
    /// First word of the key.
    pub word: usize,
    /// Distance of the field's last bit from the word's.
    pub shift: u32,
    /// Width in bits; over 64 means two whole words.
    pub width: u32,
    /// What a rule must also match.
    pub prereq: Prereq,
    /// How values are written.
    pub form: Form,
}

/// How a field's values are written by people.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Form {
    /// Decimal or 0x….
    Number,
    /// aa:bb:cc:dd:ee:ff.
    Mac,
    /// Dotted quad, with /prefix or /mask.
    Ipv4,
    /// RFC 4291 text, with /prefix or /mask.
    Ipv6,
}

/// What a rule must match, too, before it may look at a field (OpenFlow 1.3, §7.2.3.6).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Prereq {
    /// Nothing.
    None,
    /// A VLAN tag is present.
    Vlan,
    /// IPv4 or IPv6.
    Ip,
    /// IPv4.
    Ipv4,
    /// IPv6.
    Ipv6,
    /// ARP (or RARP).
    Arp,
    /// MPLS, unicast or multicast.
    Mpls,
    /// Provider backbone bridging.
    Pbb,
    /// TCP, UDP or SCTP over either IP.
    L4,
    /// TCP over either IP.
    Tcp,
    /// ICMP over IPv4 or ICMPv6 over IPv6.
    Icmp,
    /// ICMPv6 neighbour solicitation or advertisement.
    Nd,
    /// ICMPv6 neighbour solicitation.
    NdSolicit,
    /// ICMPv6 neighbour advertisement.
    NdAdvert,
}

/// A tag is present: the bit that OpenFlow calls OFPVID_PRESENT, kept inside the TCI where the
/// wire has the CFI/DEI bit.
pub const VLAN_PRESENT: u16 = 0x1000;
/// `ip_frag`: the packet is a fragment.
pub const FRAG_ANY: u8 = 1;
/// `ip_frag`: it is not the first fragment.
pub const FRAG_LATER: u8 = 2;

macro_rules! fields {
    ($($(#[$doc:meta])* $id:ident $name:literal [$($alias:literal),*] $word:literal $shift:literal $width:literal $prereq:ident $form:ident;)*) => {
        /// A field of the flow key.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
        #[repr(u8)]
        #[non_exhaustive]
        pub enum Field { $($(#[$doc])* $id,)* }

        impl Field {
            /// All fields.
            pub const ALL: &'static [Field] = &[$(Field::$id,)*];
            const INFO: &'static [FieldInfo] = &[$(FieldInfo {
                name: $name, aliases: &[$($alias),*], word: $word, shift: $shift, width: $width,
                prereq: Prereq::$prereq, form: Form::$form,
            },)*];
        }
    };
}

fields! {
    /// Ingress port of the data plane (of the VDP, in a VDP's rules).
    InPort "in_port" [] 0 32 32 None Number;
    /// The inner VLAN tag's TCI of a QinQ frame, with [`VLAN_PRESENT`].
    InnerTci "inner_vlan_tci" [] 0 16 16 None Number;
    /// IPv6 extension header bits, OXM_OF_IPV6_EXTHDR.
    Ipv6Exthdr "ipv6_exthdr" [] 0 0 16 Ipv6 Number;
    /// Destination MAC.
    EthDst "dl_dst" ["eth_dst"] 1 16 48 None Mac;
    /// EtherType after all VLAN tags; for 802.3 with LLC/SNAP the SNAP type, else 0x05ff.
    EthType "dl_type" ["eth_type"] 1 0 16 None Number;
    /// Source MAC.
    EthSrc "dl_src" ["eth_src"] 2 16 48 None Mac;
    /// The outer VLAN tag's TCI with [`VLAN_PRESENT`]; 0 without a tag.
    VlanTci "vlan_tci" [] 2 0 16 None Number;
    /// VLAN id with the present bit above it, OXM_OF_VLAN_VID.
    VlanVid "vlan_vid" [] 2 0 13 None Number;
    /// VLAN priority.
    VlanPcp "dl_vlan_pcp" ["vlan_pcp"] 2 13 3 Vlan Number;
    /// IPv4 source.
    Ipv4Src "nw_src" ["ip_src", "ipv4_src"] 3 32 32 Ipv4 Ipv4;
    /// IPv4 destination.
    Ipv4Dst "nw_dst" ["ip_dst", "ipv4_dst"] 3 0 32 Ipv4 Ipv4;
    /// ARP sender protocol address.
    ArpSpa "arp_spa" [] 3 32 32 Arp Ipv4;
    /// ARP target protocol address.
    ArpTpa "arp_tpa" [] 3 0 32 Arp Ipv4;
    /// Source port of TCP, UDP or SCTP.
    TpSrc "tp_src" [] 4 48 16 L4 Number;
    /// Destination port of TCP, UDP or SCTP.
    TpDst "tp_dst" [] 4 32 16 L4 Number;
    /// ICMP or ICMPv6 type (where ports would be).
    IcmpType "icmp_type" ["icmpv6_type"] 4 48 16 Icmp Number;
    /// ICMP or ICMPv6 code.
    IcmpCode "icmp_code" ["icmpv6_code"] 4 32 16 Icmp Number;
    /// IP protocol, or the last next header of IPv6.
    IpProto "nw_proto" ["ip_proto"] 4 24 8 Ip Number;
    /// ToS or traffic class, both of its parts.
    IpTos "nw_tos" [] 4 16 8 Ip Number;
    /// DSCP, the high six bits.
    IpDscp "ip_dscp" [] 4 18 6 Ip Number;
    /// ECN, the low two bits.
    IpEcn "nw_ecn" ["ip_ecn"] 4 16 2 Ip Number;
    /// TTL or hop limit.
    IpTtl "nw_ttl" [] 4 8 8 Ip Number;
    /// Fragment bits: [`FRAG_ANY`], [`FRAG_LATER`].
    IpFrag "ip_frag" ["nw_frag"] 4 0 8 Ip Number;
    /// Top MPLS label.
    MplsLabel "mpls_label" [] 5 44 20 Mpls Number;
    /// Top MPLS traffic class.
    MplsTc "mpls_tc" [] 5 41 3 Mpls Number;
    /// Bottom-of-stack bit of the top label.
    MplsBos "mpls_bos" [] 5 40 1 Mpls Number;
    /// TTL of the top label.
    MplsTtl "mpls_ttl" [] 5 32 8 Mpls Number;
    /// IPv6 flow label.
    Ipv6Label "ipv6_label" ["ipv6_flabel"] 5 0 20 Ipv6 Number;
    /// Metadata between tables.
    Metadata "metadata" [] 6 0 64 None Number;
    /// Tunnel id: VXLAN's VNI or GRE's key after decapsulation.
    TunnelId "tun_id" ["tunnel_id"] 7 0 64 None Number;
    /// IPv6 source.
    Ipv6Src "ipv6_src" [] 8 0 128 Ipv6 Ipv6;
    /// IPv6 destination.
    Ipv6Dst "ipv6_dst" [] 10 0 128 Ipv6 Ipv6;
    /// Target of a neighbour solicitation or advertisement.
    NdTarget "nd_target" ["ipv6_nd_target"] 12 0 128 Nd Ipv6;
    /// ARP sender hardware address.
    ArpSha "arp_sha" [] 14 16 48 Arp Mac;
    /// Source link-layer address of a neighbour solicitation.
    NdSll "nd_sll" ["ipv6_nd_sll"] 14 16 48 NdSolicit Mac;
    /// TCP flags, twelve bits.
    TcpFlags "tcp_flags" [] 14 0 16 Tcp Number;
    /// ARP target hardware address.
    ArpTha "arp_tha" [] 15 16 48 Arp Mac;
    /// Target link-layer address of a neighbour advertisement.
    NdTll "nd_tll" ["ipv6_nd_tll"] 15 16 48 NdAdvert Mac;
    /// ARP opcode.
    ArpOp "arp_op" [] 15 0 16 Arp Number;
    /// PBB service id.
    PbbIsid "pbb_isid" [] 16 40 24 Pbb Number;
    /// Which of the VDP's own fields the frame has, bit 0 for the first: a rule that looks at such
    /// a field demands its bit too, so that a frame without the field can't match by its zeros.
    UserPresent "user_present" [] 16 32 4 None Number;
    /// Physical port under a logical one.
    InPhyPort "in_phy_port" [] 16 0 32 None Number;
    /// A field of the VDP's own, first of four.
    User0 "user0" [] 17 32 32 None Number;
    /// Second of four.
    User1 "user1" [] 17 0 32 None Number;
    /// Third of four.
    User2 "user2" [] 18 32 32 None Number;
    /// Fourth of four.
    User3 "user3" [] 18 0 32 None Number;
}

impl Field {
    /// Its entry in the table.
    #[inline]
    pub const fn info(self) -> &'static FieldInfo {
        &Self::INFO[self as usize]
    }
    /// The name shown and read.
    pub const fn name(self) -> &'static str {
        self.info().name
    }
    /// The field called `name`, by its own or another name.
    pub fn by_name(name: &str) -> Option<Field> {
        Field::ALL
            .iter()
            .copied()
            .find(|f| f.info().name == name || f.info().aliases.contains(&name))
    }
    /// All its bits.
    pub const fn full(self) -> u128 {
        ones(self.info().width)
    }
}

/// A rule looks at a field without matching what that field needs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
#[error("'{}' needs a match on {}", .field.name(), .needs.text())]
pub struct MissingPrereq {
    /// The field.
    pub field: Field,
    /// What is missing.
    pub needs: Prereq,
}

impl Prereq {
    /// In words, as an error shows it.
    pub const fn text(self) -> &'static str {
        match self {
            Prereq::None => "nothing",
            Prereq::Vlan => "a VLAN tag (for instance dl_vlan=5 or vlan_tci=0x1000/0x1000)",
            Prereq::Ip => "IPv4 or IPv6 (for instance 'ip' or dl_type=0x86dd)",
            Prereq::Ipv4 => "IPv4 ('ip' or dl_type=0x0800)",
            Prereq::Ipv6 => "IPv6 ('ipv6' or dl_type=0x86dd)",
            Prereq::Arp => "ARP ('arp' or dl_type=0x0806)",
            Prereq::Mpls => "MPLS (dl_type=0x8847 or 0x8848)",
            Prereq::Pbb => "PBB (dl_type=0x88e7)",
            Prereq::L4 => "TCP, UDP or SCTP ('tcp', 'udp6', nw_proto=17 and so on)",
            Prereq::Tcp => "TCP ('tcp' or 'tcp6')",
            Prereq::Icmp => "ICMP ('icmp' or 'icmp6')",
            Prereq::Nd => "neighbour discovery (icmp6,icmp_type=135 or 136)",
            Prereq::NdSolicit => "a neighbour solicitation (icmp6,icmp_type=135)",
            Prereq::NdAdvert => "a neighbour advertisement (icmp6,icmp_type=136)",
        }
    }

    /// Whether a rule with this value and mask fulfils it.
    pub fn holds(self, value: &FlowKey, mask: &FlowMask) -> bool {
        let exact = |f: Field, vs: &[u128]| mask.get(f) == f.full() && vs.contains(&value.get(f));
        let eth = |vs: &[u128]| exact(Field::EthType, vs);
        let ip_proto = |vs: &[u128]| eth(&[0x0800, 0x86dd]) && exact(Field::IpProto, vs);
        let nd = |vs: &[u128]| {
            eth(&[0x86dd]) && exact(Field::IpProto, &[58]) && exact(Field::IcmpType, vs)
        };
        match self {
            Prereq::None => true,
            Prereq::Vlan => {
                let p = u128::from(VLAN_PRESENT);
                mask.get(Field::VlanTci) & p != 0 && value.get(Field::VlanTci) & p != 0
            }
            Prereq::Ip => eth(&[0x0800, 0x86dd]),
            Prereq::Ipv4 => eth(&[0x0800]),
            Prereq::Ipv6 => eth(&[0x86dd]),
            Prereq::Arp => eth(&[0x0806, 0x8035]),
            Prereq::Mpls => eth(&[0x8847, 0x8848]),
            Prereq::Pbb => eth(&[0x88e7]),
            Prereq::L4 => ip_proto(&[6, 17, 132]),
            Prereq::Tcp => ip_proto(&[6]),
            Prereq::Icmp => {
                eth(&[0x0800]) && exact(Field::IpProto, &[1])
                    || eth(&[0x86dd]) && exact(Field::IpProto, &[58])
            }
            Prereq::Nd => nd(&[135, 136]),
            Prereq::NdSolicit => nd(&[135]),
            Prereq::NdAdvert => nd(&[136]),
        }
    }
}

/// Fields that share bits: a mask on them may be meant for any one of each group, so that a rule is
/// right when one of the group has its prerequisite.
const SHARED: &[&[Field]] = &[
    &[Field::Ipv4Src, Field::ArpSpa],
    &[Field::Ipv4Dst, Field::ArpTpa],
    &[Field::TpSrc, Field::IcmpType],
    &[Field::TpDst, Field::IcmpCode],
    &[Field::ArpSha, Field::NdSll],
    &[Field::ArpTha, Field::NdTll],
];

/// Bits of the fields that need nothing: a rule on these alone, such as one on MAC addresses, is
/// right at a glance.
const FREE: [u64; WORDS] = {
    let (mut bits, mut i) = ([0; WORDS], 0);
    while i < Field::INFO.len() {
        let f = &Field::INFO[i];
        if matches!(f.prereq, Prereq::None) && f.width <= 64 {
            bits[f.word] |= (ones(f.width) as u64) << f.shift;
        }
        i += 1;
    }
    bits
};

/// Checks the prerequisites of every field that `mask` looks at.
///
/// # Errors
/// The first field whose prerequisite is not matched.
pub fn check_prereqs(value: &FlowKey, mask: &FlowMask) -> Result<(), MissingPrereq> {
    if mask.0.iter().zip(FREE).fold(0, |rest, (m, free)| rest | m & !free) == 0 {
        return Ok(());
    }
    for &f in Field::ALL {
        let needs = f.info().prereq;
        if needs == Prereq::None || !mask.looks_at(f) {
            continue;
        }
        let group = SHARED.iter().find(|g| g.contains(&f));
        let ok = needs.holds(value, mask)
            || group.is_some_and(|g| g.iter().any(|o| o.info().prereq.holds(value, mask)));
        if !ok {
            return Err(MissingPrereq { field: f, needs });
        }
    }
    Ok(())
}
