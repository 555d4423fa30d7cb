//! Frames with tags: a priority tag is of no VLAN, so that such a frame is treated as one without it; others are nobody's.

use super::pieces::{INSIDE, OUTSIDE, balancer, firewall, nat, rx};
use super::*;

/// With an 802.1Q tag.
fn tagged(f: &[u8], tci: u16) -> Vec<u8> {
    [&f[..12], &[0x81, 0], &tci.to_be_bytes(), &f[12..]].concat()
}

#[test]
fn vlan_0_is_none() {
    let data = [7; 200];
    let of = |macs, src, dst| Packet { macs, src, dst, l4: L4::Udp, ttl: 64, data: &data };
    let (host, service) = (end([10, 0, 0, 1], 500), end([198, 51, 100, 1], 80));
    let out = of((mac(1), mac(201)), host, service);
    // Two of the kind, as connections change what comes after.
    for [mut one, mut other] in [[nat(), nat()], [firewall(), firewall()], [balancer(), balancer()]]
    {
        let sent = rx(&mut one, INSIDE, &[out.frame()]);
        assert_eq!(sent.len(), 1);
        for vlan in [5, 0xe005, 0x0fff] {
            assert_eq!(rx(&mut other, INSIDE, &[tagged(&out.frame(), vlan)]), []);
        }
        for tci in [0, 0xe000, 0x1000] {
            assert_eq!(rx(&mut other, INSIDE, &[tagged(&out.frame(), tci)]), sent);
        }
        let twice = tagged(&tagged(&out.frame(), 0), 0);
        assert_eq!(rx(&mut other, INSIDE, &[twice]), []);
        // And back: to the host, or to where the translator has it.
        let to = match one.program.name() {
            "nat" => end([192, 0, 2, 1], 2000),
            _ => host,
        };
        let back = of((mac(9), mac(202)), service, to).frame();
        let came = rx(&mut one, OUTSIDE, std::slice::from_ref(&back));
        assert_eq!(rx(&mut other, OUTSIDE, &[tagged(&back, 0x6000)]), came);
    }
    // Who asks so is answered, too.
    let ask = ArpRepr::request(mac(99), [10, 0, 0, 99].into(), [192, 0, 2, 1].into());
    let mut arp = [0; 28];
    ask.emit(&mut ArpPacket::new_unchecked(&mut arp[..])).unwrap();
    let f = bytes(Frame::ethernet(EtherType::Arp, &arp).macs(mac(99), MacAddr::BROADCAST));
    let mut r = nat();
    assert_eq!(rx(&mut r, OUTSIDE, &[tagged(&f, 0)]), rx(&mut r, OUTSIDE, &[f]));
}
