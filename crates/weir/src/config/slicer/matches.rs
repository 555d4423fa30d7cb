//! Matches of the flow space: Open vSwitch's words for fields (ovs-fields(7)), with masks, prefixes and ranges.
//!
//! Room: text only. A range becomes the fewest ternary matches that are it. Called by `slicer` for `[[flowspace]]`.

use crate::config::error::nearest;
use std::net::{Ipv4Addr, Ipv6Addr};
use weir_openflow::model::{Field, Match, VLAN_PRESENT};

/// Matches that one text may stand for.
pub const MOST: usize = 65_536;

const NAMES: &[(&str, Field)] = &[
    ("in_port", Field::InPort),
    ("metadata", Field::Metadata),
    ("dl_dst", Field::EthDst),
    ("eth_dst", Field::EthDst),
    ("dl_src", Field::EthSrc),
    ("eth_src", Field::EthSrc),
    ("dl_type", Field::EthType),
    ("eth_type", Field::EthType),
    ("dl_vlan", Field::VlanVid),
    ("vlan_vid", Field::VlanVid),
    ("dl_vlan_pcp", Field::VlanPcp),
    ("vlan_pcp", Field::VlanPcp),
    ("ip_dscp", Field::IpDscp),
    ("nw_ecn", Field::IpEcn),
    ("ip_ecn", Field::IpEcn),
    ("nw_proto", Field::IpProto),
    ("ip_proto", Field::IpProto),
    ("nw_src", Field::Ipv4Src),
    ("ip_src", Field::Ipv4Src),
    ("nw_dst", Field::Ipv4Dst),
    ("ip_dst", Field::Ipv4Dst),
    ("ipv6_src", Field::Ipv6Src),
    ("ipv6_dst", Field::Ipv6Dst),
    ("ipv6_label", Field::Ipv6Flabel),
    ("tcp_src", Field::TcpSrc),
    ("tcp_dst", Field::TcpDst),
    ("udp_src", Field::UdpSrc),
    ("udp_dst", Field::UdpDst),
    ("sctp_src", Field::SctpSrc),
    ("sctp_dst", Field::SctpDst),
    ("icmp_type", Field::Icmpv4Type),
    ("icmp_code", Field::Icmpv4Code),
    ("icmpv6_type", Field::Icmpv6Type),
    ("icmpv6_code", Field::Icmpv6Code),
    ("arp_op", Field::ArpOp),
    ("arp_spa", Field::ArpSpa),
    ("arp_tpa", Field::ArpTpa),
    ("arp_sha", Field::ArpSha),
    ("arp_tha", Field::ArpTha),
    ("nd_target", Field::Ipv6NdTarget),
    ("nd_sll", Field::Ipv6NdSll),
    ("nd_tll", Field::Ipv6NdTll),
    ("mpls_label", Field::MplsLabel),
    ("mpls_tc", Field::MplsTc),
    ("mpls_bos", Field::MplsBos),
    ("pbb_isid", Field::PbbIsid),
    ("tun_id", Field::TunnelId),
    ("tunnel_id", Field::TunnelId),
];

/// Words without a value: EtherType and protocol.
const KINDS: &[(&str, u16, Option<u8>)] = &[
    ("ip", 0x0800, None),
    ("ipv6", 0x86dd, None),
    ("arp", 0x0806, None),
    ("mpls", 0x8847, None),
    ("tcp", 0x0800, Some(6)),
    ("udp", 0x0800, Some(17)),
    ("sctp", 0x0800, Some(132)),
    ("icmp", 0x0800, Some(1)),
    ("tcp6", 0x86dd, Some(6)),
    ("udp6", 0x86dd, Some(17)),
    ("sctp6", 0x86dd, Some(132)),
    ("icmp6", 0x86dd, Some(58)),
];

/// Reads a text such as `tcp,nw_dst=10.1.0.0/16,tp_dst=80-90`; `any` or nothing is every header.
///
/// # Errors
/// What is wrong, and how to mend it.
pub fn read(text: &str) -> Result<Vec<Match>, String> {
    let mut all = vec![Match::default()];
    let (mut kinds, mut fields) = (Vec::new(), Vec::new());
    for word in text.split([',', ' ']).map(str::trim).filter(|w| !w.is_empty() && *w != "any") {
        match word.split_once('=') {
            Some((name, value)) => fields.push((name.trim(), value.trim())),
            None => kinds.push(word),
        }
    }
    for word in kinds {
        let known = KINDS.iter().find(|(n, ..)| *n == word);
        let (_, kind, proto) = known.ok_or_else(|| {
            let near = nearest(word, KINDS.iter().map(|(n, ..)| *n));
            let near = near.map(|n| format!("; did you mean '{n}'?")).unwrap_or_default();
            format!("'{word}' needs a value, or is no protocol{near}")
        })?;
        all = demand(all, Field::EthType, &[(u128::from(*kind), Field::EthType.full())])?;
        if let Some(p) = proto {
            all = demand(all, Field::IpProto, &[(u128::from(*p), Field::IpProto.full())])?;
        }
    }
    // What others need first, whatever their order in the text.
    let mut named: Vec<(Field, &str, &str)> = Vec::new();
    for (name, value) in fields {
        named.push((field(name, &all)?, name, value));
    }
    named.sort_by_key(|(f, ..)| *f);
    for (f, name, value) in named {
        let parts = values(f, name, value).map_err(|e| format!("{name}={value}: {e}"))?;
        all = demand(all, f, &parts).map_err(|e| format!("{name}={value}: {e}"))?;
        if let Some(m) = all.first()
            && !f.prerequisite().met_by(m)
        {
            return Err(format!("{name}: say first of what it is a field, as in 'tcp,tcp_dst=80'"));
        }
    }
    Ok(all)
}

fn field(name: &str, of: &[Match]) -> Result<Field, String> {
    let exact = |f| of.first().and_then(|m| m.get(f)).map_or(0, |m| m.value);
    let proto = exact(Field::IpProto);
    let transport = |tcp, udp, sctp| match proto {
        6 => Ok(tcp),
        17 => Ok(udp),
        132 => Ok(sctp),
        _ => Err(format!("{name}: say tcp, udp or sctp, too")),
    };
    match name {
        "tp_src" => return transport(Field::TcpSrc, Field::UdpSrc, Field::SctpSrc),
        "tp_dst" => return transport(Field::TcpDst, Field::UdpDst, Field::SctpDst),
        "vlan_tci" => {
            let instead =
                "dl_vlan and dl_vlan_pcp, or vlan_vid, where 0x1000 says that there is a tag";
            return Err(format!("vlan_tci is not known here: write {instead}"));
        }
        "nw_src" if exact(Field::EthType) == 0x0806 => return Ok(Field::ArpSpa),
        "nw_dst" if exact(Field::EthType) == 0x0806 => return Ok(Field::ArpTpa),
        _ => {}
    }
    NAMES.iter().find(|(n, _)| *n == name).map(|(_, f)| *f).ok_or_else(|| {
        let near = nearest(name, NAMES.iter().map(|(n, _)| *n).chain(["tp_src", "tp_dst"]));
        let near = near.map(|n| format!(": did you mean '{n}'?")).unwrap_or_default();
        format!("unknown field '{}'{near}", name.chars().take(64).collect::<String>())
    })
}

/// Values and masks that a text stands for.
fn values(f: Field, name: &str, text: &str) -> Result<Vec<(u128, u128)>, String> {
    if f == Field::VlanVid {
        return vlan(name, text);
    }
    if let Some((value, mask)) = text.split_once('/') {
        let value = number(f, value)?;
        let mask = match mask.parse::<u32>() {
            // A prefix, where the field is an address.
            Ok(n) if is_address(f) && n <= f.bits() => {
                f.full() & !(f.full().checked_shr(n).unwrap_or(0))
            }
            _ => number(f, mask)?,
        };
        if mask == 0 {
            return Ok(vec![(0, 0)]);
        }
        return Ok(vec![(value & mask, mask)]);
    }
    let hex = text.contains(':') || text.contains("0x");
    match text.split_once('-') {
        Some((low, high)) if !hex || text.contains("0x") || is_address(f) => {
            let (low, high) = (number(f, low)?, number(f, high)?);
            range(f, low, high)
        }
        _ => Ok(vec![(number(f, text)?, f.full())]),
    }
}

/// Without a tag, with this form alone: what is not there has no bits.
const UNTAGGED: (u128, u128) = (0, 0x1fff);

/// `dl_vlan` is an id of 12 bits, `vlan_vid` OXM's 13 bits, of which 0x1000 says that there is a tag (ovs-fields(7)).
fn vlan(name: &str, text: &str) -> Result<Vec<(u128, u128)>, String> {
    let (f, present) = (Field::VlanVid, u128::from(VLAN_PRESENT));
    let oxm = name == "vlan_vid";
    match text {
        "none" => return Ok(vec![UNTAGGED]),
        "0xffff" if !oxm => return Ok(vec![UNTAGGED]),
        "any" => return Ok(vec![(present, present)]),
        _ => {}
    }
    let number = |t: &str| {
        let n = plain(t.trim()).ok_or_else(|| format!("'{t}' is no VLAN id"))?;
        match oxm {
            true if n > f.full() => Err("vlan_vid is 0 to 0x1fff, 'none' or 'any'".to_owned()),
            false if n > 0xfff => Err("VLAN ids are 0 to 4095, 'none' or 'any'".to_owned()),
            _ => Ok(n),
        }
    };
    if let Some((value, mask)) = text.split_once('/') {
        let (value, mask) = (number(value)?, number(mask)?);
        return match oxm {
            true => tag_bits(value & mask, mask),
            false => Ok(vec![(present | value & mask, present | mask)]),
        };
    }
    let (low, high) = match text.split_once('-') {
        Some((low, high)) => (number(low)?, number(high)?),
        None if oxm => return tag_bits(number(text)?, f.full()),
        None => (number(text)?, number(text)?),
    };
    if oxm && (low & present == 0 || high & present == 0) {
        return Err(no_frame(low));
    }
    range(f, present | low, present | high)
}

fn no_frame(vid: u128) -> String {
    let (tagged, vid) = (0x1000 | vid, vid & 0xfff);
    format!(
        "an id with the bit 0x1000 clear is no frame's: write vlan_vid={tagged:#x} or dl_vlan={vid}"
    )
}

/// OXM's bits of a tag; where they leave it open whether there is one, both.
fn tag_bits(value: u128, mask: u128) -> Result<Vec<(u128, u128)>, String> {
    let present = u128::from(VLAN_PRESENT);
    let (asked, there) = (mask & present != 0, value & present != 0);
    match (asked, there, value) {
        _ if mask == 0 => Ok(vec![(0, 0)]),
        (true, true, _) => Ok(vec![(value, mask)]),
        (true, false, 0) => Ok(vec![UNTAGGED]),
        (true, false, _) => Err(no_frame(value)),
        // Without a tag the id is zero.
        (false, _, 0) => Ok(vec![UNTAGGED, (present, present | mask)]),
        (false, ..) => Ok(vec![(present | value, present | mask)]),
    }
}

fn is_address(f: Field) -> bool {
    matches!(
        f,
        Field::Ipv4Src
            | Field::Ipv4Dst
            | Field::ArpSpa
            | Field::ArpTpa
            | Field::Ipv6Src
            | Field::Ipv6Dst
            | Field::Ipv6NdTarget
    )
}

fn plain(text: &str) -> Option<u128> {
    match text.strip_prefix("0x") {
        Some(hex) => u128::from_str_radix(hex, 16).ok(),
        None if text.bytes().all(|b| b.is_ascii_digit()) => text.parse().ok(),
        None => None,
    }
}

fn number(f: Field, text: &str) -> Result<u128, String> {
    let text = text.trim();
    let n = match f.bits() {
        48 if text.contains(':') => mac(text),
        32 if text.contains('.') => text.parse::<Ipv4Addr>().ok().map(|a| u32::from(a).into()),
        128 if text.contains(':') => text.parse::<Ipv6Addr>().ok().map(u128::from),
        _ => plain(text),
    };
    let n =
        n.ok_or_else(|| format!("'{}' is no value", text.chars().take(64).collect::<String>()))?;
    if n > f.full() { Err(format!("it has {} bits", f.bits())) } else { Ok(n) }
}

fn mac(text: &str) -> Option<u128> {
    let mut n = 0;
    let mut parts = 0;
    for p in text.split(':') {
        n = n << 8 | u128::from(u8::from_str_radix(p, 16).ok()?);
        parts += 1;
    }
    (parts == 6).then_some(n)
}

/// The fewest prefixes that are the numbers from `low` to `high`, both in.
fn range(f: Field, low: u128, high: u128) -> Result<Vec<(u128, u128)>, String> {
    if low > high {
        return Err("the range ends before it begins".to_owned());
    }
    let (mut at, mut out) = (low, Vec::new());
    loop {
        // The largest block that begins here and does not reach beyond the end.
        let aligned = if at == 0 { f.bits() } else { at.trailing_zeros().min(f.bits()) };
        let mut bits = aligned;
        while bits > 0 && at + ((1u128 << (bits - 1)) - 1 + (1u128 << (bits - 1))) > high {
            bits -= 1;
        }
        let open = if bits >= 128 { u128::MAX } else { (1u128 << bits) - 1 };
        out.push((at, f.full() & !open));
        match (at | open).checked_add(1) {
            Some(next) if next <= high => at = next,
            _ => return Ok(out),
        }
    }
}

/// Each of the matches with each of the values.
fn demand(all: Vec<Match>, f: Field, parts: &[(u128, u128)]) -> Result<Vec<Match>, String> {
    if all.len().saturating_mul(parts.len()) > MOST {
        return Err(format!("ranges that together take more than {MOST} matches"));
    }
    if all.iter().any(|m| m.get(f).is_some()) {
        return Err("it is said twice".to_owned());
    }
    let with = |m: &Match| {
        let m = m.clone();
        parts.iter().map(move |(v, mask)| match mask {
            0 => m.clone(),
            _ => m.clone().with_masked(f, *v, *mask),
        })
    };
    Ok(all.iter().flat_map(with).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn holds(m: &[Match], f: Field, v: u128) -> usize {
        m.iter().filter(|m| m.get(f).is_none_or(|x| (x.value ^ v) & x.mask == 0)).count()
    }

    #[test]
    fn ranges_are_what_they_say_and_no_more() {
        for (low, high) in [(80, 90), (0, 65535), (1, 65534), (1024, 65535), (7, 7), (0, 0)] {
            let all = read(&format!("tcp,tp_dst={low}-{high}")).unwrap();
            for v in (0..100).chain(1000..1100).chain(65500..65536) {
                let n = holds(&all, Field::TcpDst, v);
                assert_eq!(n, usize::from((low..=high).contains(&v)), "{low}-{high}: {v}");
            }
        }
        let all = read("dl_vlan=10-20").unwrap();
        for v in 0..64 {
            let n = holds(&all, Field::VlanVid, 0x1000 | v);
            assert_eq!(n, usize::from((10..=20).contains(&v)));
        }
        assert_eq!(holds(&all, Field::VlanVid, 0), 0);
        let all = read("ip,nw_src=10.0.0.1-10.0.0.6").unwrap();
        let n = (0..256).map(|v| holds(&all, Field::Ipv4Src, 0x0a00_0000 + v)).sum::<usize>();
        assert_eq!(n, 6);
        assert_eq!(read("dl_dst=0x0-0xffffffffffff").unwrap().len(), 1);
        assert_eq!(
            read("ipv6,ipv6_src=::-ffff:ffff:ffff:ffff:ffff:ffff:ffff:ffff").unwrap().len(),
            1
        );
    }

    #[test]
    fn words_masks_and_prefixes_are_open_vswitchs() {
        let one = |text: &str| {
            let all = read(text).unwrap();
            assert_eq!(all.len(), 1, "{text}");
            all[0].clone()
        };
        let web = Match::default().with(Field::EthType, 0x800).with(Field::IpProto, 6);
        assert_eq!(one("tp_dst=80,tcp"), web.clone().with(Field::TcpDst, 80));
        assert_eq!(one("dl_type=0x800,nw_proto=6"), web);
        let net = Match::default().with(Field::EthType, 0x800);
        let net = net.with_masked(Field::Ipv4Dst, 0x0a01_0000, 0xffff_0000);
        assert_eq!(one("ip, nw_dst=10.1.2.3/16"), net);
        assert_eq!(one("ip,nw_dst=10.1.0.0/255.255.0.0"), net);
        let multicast = Match::default().with_masked(Field::EthDst, 1 << 40, 1 << 40);
        assert_eq!(one("dl_dst=01:00:00:00:00:00/01:00:00:00:00:00"), multicast);
        assert_eq!(one("dl_vlan=10,dl_vlan_pcp=3").get(Field::VlanPcp).unwrap().value, 3);
        assert_eq!(one("any"), Match::default());
        assert_eq!(one("arp,nw_dst=10.0.0.1").get(Field::ArpTpa).unwrap().value, 0x0a00_0001);
    }

    #[test]
    fn vlan_vid_is_oxms() {
        let vids = |text: &str| -> Vec<(u128, u128)> {
            let all = read(text).unwrap_or_else(|e| panic!("{text}: {e}"));
            let vid = |m: &Match| m.get(Field::VlanVid).map_or((0, 0), |f| (f.value, f.mask));
            all.iter().map(vid).collect()
        };
        // As `ovs-ofctl -O OpenFlow13 parse-flow` has them, of vlan_tci; there 0/0x1fff and 0/0x1000 are both "no tag".
        for (text, said) in [
            ("vlan_vid=0", &[(0, 0x1fff)][..]),
            ("vlan_vid=0/0x1fff", &[(0, 0x1fff)]),
            ("vlan_vid=0/0x1000", &[(0, 0x1fff)]),
            ("vlan_vid=none", &[(0, 0x1fff)]),
            ("vlan_vid=0x1014", &[(0x1014, 0x1fff)]),
            ("vlan_vid=4116", &[(0x1014, 0x1fff)]),
            ("vlan_vid=0x1000", &[(0x1000, 0x1fff)]),
            ("vlan_vid=0x1000/0x1000", &[(0x1000, 0x1000)]),
            ("vlan_vid=any", &[(0x1000, 0x1000)]),
            ("vlan_vid=0x1014/0x1ffe", &[(0x1014, 0x1ffe)]),
            // 0x0014/0x0fff there: only a tag has such an id.
            ("vlan_vid=20/0xfff", &[(0x1014, 0x1fff)]),
            ("vlan_vid=0x1014/0xfff", &[(0x1014, 0x1fff)]),
            ("vlan_vid=0/0xfff", &[(0, 0x1fff), (0x1000, 0x1fff)]),
            ("vlan_vid=0/0", &[(0, 0)]),
            ("vlan_vid=0x1014-0x1015", &[(0x1014, 0x1ffe)]),
            ("dl_vlan=20", &[(0x1014, 0x1fff)]),
            ("dl_vlan=0", &[(0x1000, 0x1fff)]),
            ("dl_vlan=0xffff", &[(0, 0x1fff)]),
        ] {
            assert_eq!(vids(text), said, "{text}");
        }
    }

    #[test]
    fn what_is_wrong_is_said() {
        for (text, said) in [
            ("udpp", "did you mean 'udp'?"),
            ("nw_srcc=10.0.0.1", "did you mean 'nw_src'?"),
            ("tp_dst=80", "say tcp"),
            ("tcp,tp_dst=90-80", "ends before"),
            ("tcp,tp_dst=70000", "16 bits"),
            ("tcp,tp_dst=x", "no value"),
            ("dl_vlan=5000", "VLAN ids"),
            ("dl_vlan=0x1014", "VLAN ids"),
            ("vlan_vid=20", "write vlan_vid=0x1014 or dl_vlan=20"),
            ("vlan_vid=20/0x1fff", "write vlan_vid=0x1014 or dl_vlan=20"),
            ("vlan_vid=20-0x1016", "write vlan_vid=0x1014 or dl_vlan=20"),
            ("vlan_vid=0xffff", "0 to 0x1fff"),
            ("vlan_tci=0x1014", "write dl_vlan and dl_vlan_pcp, or vlan_vid"),
            ("nw_src=10.0.0.1", "say first"),
            ("ip,tcp", "twice"),
            ("dl_vlan=1,dl_vlan=2", "twice"),
            (
                "tcp,tp_src=1-65534,tp_dst=1-65534,nw_src=0.0.0.1-255.255.255.254,nw_dst=0.0.0.1-255.255.255.254",
                "together",
            ),
        ] {
            let e = read(text).unwrap_err();
            assert!(e.contains(said), "{text}: {e}");
        }
    }
}
