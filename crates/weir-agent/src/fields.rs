//! Match fields: where each of OpenFlow's lies in the data plane's flow key, and which of them its
//! frames can be changed in. What a field demands stands in `weir-openflow`'s table.

use weir_classify::Field as Key;
use weir_dataplane::Action;
use weir_dataplane::processing::compile;
use weir_openflow::model::Field;

/// Where each field lies, in the order of their numbers.
const KEYS: [Key; Field::COUNT] = [
    Key::InPort,
    Key::InPhyPort,
    Key::Metadata,
    Key::EthDst,
    Key::EthSrc,
    Key::EthType,
    Key::VlanVid,
    Key::VlanPcp,
    Key::IpDscp,
    Key::IpEcn,
    Key::IpProto,
    Key::Ipv4Src,
    Key::Ipv4Dst,
    // TCP, UDP and SCTP: their ports lie at one place.
    Key::TpSrc,
    Key::TpDst,
    Key::TpSrc,
    Key::TpDst,
    Key::TpSrc,
    Key::TpDst,
    Key::IcmpType,
    Key::IcmpCode,
    Key::ArpOp,
    Key::ArpSpa,
    Key::ArpTpa,
    Key::ArpSha,
    Key::ArpTha,
    Key::Ipv6Src,
    Key::Ipv6Dst,
    Key::Ipv6Label,
    Key::IcmpType,
    Key::IcmpCode,
    Key::NdTarget,
    Key::NdSll,
    Key::NdTll,
    Key::MplsLabel,
    Key::MplsTc,
    Key::MplsBos,
    Key::PbbIsid,
    Key::TunnelId,
    Key::Ipv6Exthdr,
];

/// Where a field lies.
pub(crate) fn key(f: Field) -> Key {
    KEYS[f as usize]
}

/// Whether set-field may name this field, and the data plane can write it.
pub(crate) fn sets(f: Field) -> bool {
    let (field, mask) = (key(f), key(f).full());
    f.settable() && compile(&Action::SetField { field, value: f.full(), mask }).is_ok()
}

/// OFPVID_PRESENT.
pub(crate) const VID_PRESENT: u128 = weir_openflow::model::VLAN_PRESENT as u128;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_are_as_wide_as_their_fields() {
        for f in Field::all() {
            let (key, bits) = (key(f).info().width, f.bits());
            // ICMP's bytes lie where ports do; the extension headers' word has bits to spare.
            let spare = matches!(bits, 8 | 9);
            assert!(key == bits || spare && key == 16, "{f:?}: {key} for {bits}");
        }
    }
}
