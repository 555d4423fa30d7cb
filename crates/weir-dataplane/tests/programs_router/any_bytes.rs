//! Whatever comes in: no panic, every frame ends exactly once, nothing grows without bound.

use crate::lab::*;
use proptest::prelude::*;
use weir_packet::Nanos;
use weir_wire::build::Frame;
use weir_wire::ndisc::NeighborFlags;
use weir_wire::ndisc_option::NdiscOption;
use weir_wire::{IpProtocol, NdiscRepr, VlanRepr};

/// Frames that get far into the router, to be damaged.
fn seeds() -> Vec<Vec<u8>> {
    let (me, to) = (ip6(1, 10), ip6(1, 1));
    vec![
        who_has(1, 10),
        is_at(1, 10),
        ping4(1, 10, ip4(1, 1), b"abc"),
        ping6(1, 10, me, to, b"abc"),
        from_host(1, 10, udp4(ip4(1, 10), ip4(2, 20), b"abc").tags(&[VlanRepr::dot1q(0)])),
        from_host(1, 10, udp4(ip4(1, 10), ip4(2, 20), b"abc")),
        from_host(1, 10, udp4(ip4(1, 10), [203, 0, 113, 1].into(), b"abc")),
        from_host(1, 10, may_fragment(udp4(ip4(1, 10), ip4(3, 20), &[1; 1400]))),
        from_host(1, 10, udp6(me, ip6(2, 20), b"abc")),
        from_host(1, 10, udp6(me, to, b"abc").ttl(1)),
        from_host(1, 10, Frame::ipv6(me, to, IpProtocol::Destination, &[17, 0, 1, 4, 0, 0, 0, 0])),
        from_host(1, 10, Frame::ipv6(me, to, IpProtocol::HopByHop, &[17, 0, 0, 0xc2, 1, 0, 1, 0])),
        crate::options4::with(ip4(2, 20), &[7, 11, 4, 0, 0, 0, 0, 0, 0, 0, 0, 1]),
        crate::options4::with(ip4(1, 1), &[68, 12, 5, 3, 10, 0, 1, 1, 0, 0, 0, 0]),
        crate::listeners::query(1, ll(9), crate::listeners::general(100)),
        nd(
            (mac(1, 10), ours(1)),
            (me, to),
            |options| NdiscRepr::NeighborSolicit { target: to, options },
            Some(NdiscOption::SourceLinkAddr(mac(1, 10))),
        ),
        nd(
            (mac(1, 10), ours(1)),
            (me, to),
            |options| NdiscRepr::NeighborAdvert { flags: NeighborFlags(0xe0), target: me, options },
            Some(NdiscOption::TargetLinkAddr(mac(1, 10))),
        ),
    ]
}

/// Puts IPv4's header checksum right, so that damage goes deeper.
fn mend(f: &mut [u8]) {
    let len = f.len();
    if len >= 34 && f[12..14] == [8, 0] && 14 + usize::from(f[14] & 15) * 4 <= len {
        weir_wire::Ipv4Packet::new_unchecked(&mut f[14..]).fill_checksum();
    }
}

#[derive(Clone, Debug)]
struct Step {
    port: u32,
    bytes: Vec<u8>,
    spares: usize,
    wait_ms: u64,
}

fn step() -> impl Strategy<Value = Step> {
    let damaged = (
        prop::sample::select(seeds()),
        prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 0..4),
        any::<prop::sample::Index>(),
        prop::bool::weighted(0.2),
        prop::bool::weighted(0.8),
    )
        .prop_map(|(mut f, changes, cut, shorten, mended)| {
            for (at, to) in changes {
                let at = at.index(f.len());
                f[at] = to;
            }
            if shorten {
                f.truncate(cut.index(f.len() + 1));
            }
            if mended {
                mend(&mut f);
            }
            f
        });
    let noise = (prop::collection::vec(any::<u8>(), 0..120), 0u8..4).prop_map(|(mut f, kind)| {
        let types: [[u8; 2]; 4] = [[8, 0], [8, 6], [0x86, 0xdd], [0x88, 0x47]];
        if f.len() >= 15 {
            f[..6].copy_from_slice(&ours(1).octets());
            f[12..14].copy_from_slice(&types[usize::from(kind)]);
            f[14] = if kind == 0 { 0x45 } else { f[14] };
            mend(&mut f);
        }
        f
    });
    let bytes = prop_oneof![4 => damaged, 1 => noise];
    let wait = prop_oneof![5 => Just(0), 1 => 0u64..4000];
    (1u32..5, bytes, 0usize..6, wait).prop_map(|(port, bytes, spares, wait_ms)| Step {
        port,
        bytes,
        spares,
        wait_ms,
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(300))]
    #[test]
    fn every_frame_ends_once(steps in prop::collection::vec(step(), 1..80)) {
        let mut c = config();
        c.neighbours.entries = 16;
        c.neighbours.held = 20;
        let mut r = router(&c);
        for s in steps {
            r.spares(s.spares);
            // The rig counts after every step, and at the end that nothing is left.
            r.rx_as_is(s.port, &s.bytes);
            if s.wait_ms > 0 {
                r.pass(Nanos::from_millis(s.wait_ms), Nanos::from_millis(50));
            }
            prop_assert!(r.program.held() <= 20);
            prop_assert!(status(&r, "neighbours").parse::<usize>().unwrap() <= 16);
        }
    }
}
