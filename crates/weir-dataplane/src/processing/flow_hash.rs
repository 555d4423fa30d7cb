//! One number per flow, for whatever must keep a flow together: VXLAN's source port, select groups.
//! Touches a key.

use weir_classify::{FRAG_ANY, Field, FlowKey};

/// Fields that tell flows apart: addresses of each layer, VLAN, protocol, ports, labels. Never
/// what changes within a flow (TTL, ToS, TCP flags), and no ports of fragments, of which only the
/// first has any.
pub fn flow_hash(key: &FlowKey) -> u32 {
    const PROTO: u64 = 0xff00_0000;
    const PORTS: u64 = 0xffff_ffff_0000_0000;
    // MPLS label and IPv6 flow label, without class, bottom and TTL.
    const LABELS: u64 = 0xffff_f000_000f_ffff;
    let k = &key.0;
    let fragment = key.get(Field::IpFrag) as u8 & FRAG_ANY != 0;
    let l4 = if fragment { PROTO } else { PROTO | PORTS };
    let mut h = 0x243f_6a88_85a3_08d3u64;
    for w in [k[1], k[2], k[3], k[4] & l4, k[5] & LABELS, k[8], k[9], k[10], k[11]] {
        // A multiplication to 128 bits, folded: each bit of the word reaches both halves.
        let wide = u128::from(h ^ w) * 0x9e37_79b9_7f4a_7c15;
        h = (wide as u64 ^ (wide >> 64) as u64).rotate_left(29);
    }
    (h ^ h >> 32) as u32
}
