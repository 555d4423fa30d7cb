//! What is not unwrapped: tunnels that are cut short, damaged, of another kind, or fragments. And
//! what must not go wrong in one: lengths and padding.

mod processing_rig;

use processing_rig::{Rig, changes, unhex};
use weir_packet::DropReason::{self, Fragment, Malformed, NoSuchHeader};

/// A frame of this kind among the golden vectors.
fn golden(kind: &str) -> Vec<u8> {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/golden/processing.txt");
    let text = std::fs::read_to_string(path).unwrap();
    let found =
        text.lines().find_map(|l| l.strip_prefix("F ")?.strip_prefix(kind)?.strip_prefix(' '));
    unhex(found.unwrap())
}

/// Changes bytes of a frame of a kind, unwraps it, and expects it to be dropped as it was.
fn refused(kind: &str, edit: impl Fn(&mut Vec<u8>), why: DropReason) {
    let unwrap = if kind.starts_with("gre") { "decap_gre" } else { "decap_vxlan" };
    let mut frame = golden(kind);
    edit(&mut frame);
    let out = Rig::new().run(&frame, &changes(unwrap)).unwrap();
    assert_eq!((out.result, &out.bytes), (Err(why), &frame), "{kind}");
}

/// First byte of the UDP or GRE header.
const V4: usize = 34;
const V6: usize = 54;

#[test]
fn cut_short() {
    for kind in ["vxlan4", "vxlan6", "gre4", "gre6", "gre4-all", "gre6-all"] {
        let at = if kind.contains('6') { V6 } else { V4 };
        for end in at..golden(kind).len() {
            refused(kind, |f| f.truncate(end), Malformed);
        }
    }
}

#[test]
fn vxlan_that_is_not() {
    refused("vxlan4", |f| f[V4 + 8] = 0, Malformed);
    refused("vxlan6", |f| f[V6 + 8] = 0xf7, Malformed);
    // A UDP length that is longer than the datagram, too short for VXLAN, or for a frame in it.
    for len in [0xffffu16, 0, 15, 16, 29] {
        refused("vxlan4", |f| f[V4 + 4..V4 + 6].copy_from_slice(&len.to_be_bytes()), Malformed);
    }
    refused("vxlan4", |f| f[23] = 6, NoSuchHeader);
    refused("vxlan4", |f| f[12] = 9, NoSuchHeader);
    // More fragments; not the first fragment.
    refused("vxlan4", |f| f[20] = 0x20, Fragment);
    refused("vxlan4", |f| f[21] = 1, Fragment);
}

#[test]
fn reserved_bits_of_vxlan_are_ignored() {
    let mut frame = golden("vxlan4");
    let plain = Rig::new().run(&frame, &changes("decap_vxlan")).unwrap();
    frame[V4 + 8] |= 0xf7;
    frame[V4 + 9..V4 + 12].fill(0xff);
    frame[V4 + 15] = 0xff;
    assert_eq!(Rig::new().run(&frame, &changes("decap_vxlan")).unwrap(), plain);
}

#[test]
fn gre_that_is_not() {
    // Version 1, routing present, bits 4 and 5; bits 6 to 12 are ignored (RFC 2784 §2.3).
    for (byte, bit) in [(1, 1), (0, 0x40), (0, 0x08), (0, 0x04)] {
        refused("gre4", |f| f[V4 + byte] |= bit, Malformed);
    }
    let plain = Rig::new().run(&golden("gre4"), &changes("decap_gre")).unwrap();
    for (byte, bit) in [(0, 0x02), (0, 0x01), (1, 0x80), (1, 0x08)] {
        let mut frame = golden("gre4");
        frame[V4 + byte] |= bit;
        assert_eq!(Rig::new().run(&frame, &changes("decap_gre")).unwrap(), plain);
    }
    // Any damage under the checksum.
    let end = golden("gre4-csum").len();
    for at in [V4 + 4, V4 + 5, V4 + 8, end - 1] {
        refused("gre4-csum", |f| f[at] ^= 4, Malformed);
    }
    // A protocol type that is none.
    refused("gre4", |f| f[V4 + 2..V4 + 4].copy_from_slice(&[0x05, 0xff]), Malformed);
    refused("gre6", |f| f[20] = 17, NoSuchHeader);
    refused("gre4", |f| f[20] = 0x20, Fragment);
    refused("gre4", |f| f[21] = 1, Fragment);
}

/// A bridged frame shorter than an Ethernet header is none.
#[test]
fn a_runt_inside() {
    for n in 0..14usize {
        refused(
            "gre4",
            |f| {
                f.truncate(V4 + 4 + n);
                let total = (20 + 4 + n) as u16;
                f[16..18].copy_from_slice(&total.to_be_bytes());
            },
            Malformed,
        );
    }
}

/// Padding behind the outer datagram belongs to nobody.
#[test]
fn padding_is_cut() {
    for kind in ["vxlan4", "vxlan6", "gre4", "gre6-all", "gre4-ip"] {
        let unwrap = if kind.starts_with("gre") { "decap_gre" } else { "decap_vxlan" };
        let frame = golden(kind);
        let plain = Rig::new().run(&frame, &changes(unwrap)).unwrap();
        assert_eq!(plain.result, Ok(()));
        let padded = [&frame[..], &[0xee; 33]].concat();
        assert_eq!(Rig::new().run(&padded, &changes(unwrap)).unwrap(), plain, "{kind}");
    }
}

/// The ECN field of an IP header, to be read or written.
fn ecn(b: &mut [u8], ip: usize, new: Option<u8>) -> u8 {
    let (at, shift) = if b[ip] >> 4 == 4 { (ip + 1, 0) } else { (ip + 1, 4) };
    if let Some(new) = new {
        b[at] = b[at] & !(3 << shift) | new << shift;
        if shift == 0 {
            b[ip + 10..ip + 12].fill(0);
            let header: Vec<u16> =
                b[ip..ip + 20].chunks(2).map(|c| u16::from_be_bytes([c[0], c[1]])).collect();
            let sum = header.iter().map(|w| u32::from(*w)).sum::<u32>();
            let sum = !((sum >> 16) + (sum & 0xffff)) as u16;
            b[ip + 10..ip + 12].copy_from_slice(&sum.to_be_bytes());
        }
    }
    b[at] >> shift & 3
}

/// RFC 6040 §4.2, figure 4: rows by the inner field, columns by the outer one; each Not-ECT, ECT(1),
/// ECT(0), CE.
#[test]
fn congestion_comes_out_of_tunnels() {
    const CE: u8 = 3;
    let figure = [
        [Some(0), Some(0), Some(0), None],
        [Some(1), Some(1), Some(1), Some(CE)],
        [Some(2), Some(1), Some(2), Some(CE)],
        [Some(CE); 4],
    ];
    // A kind, where its inner IP header lies, and where once it is unwrapped.
    let kinds = [
        ("vxlan4", V4 + 16 + 18, 18),
        ("vxlan6", V6 + 16 + 18, 18),
        ("gre4-all", V4 + 16 + 18, 18),
        ("gre6", V6 + 4 + 18, 18),
        ("gre4-ip", V4 + 8, 14),
        ("gre6-ip", V6 + 8, 14),
        ("marked-vxlan-not-ect", V4 + 16 + 14, 14),
    ];
    for (kind, inner_at, at) in kinds {
        let unwrap = if kind.contains("gre") { "decap_gre" } else { "decap_vxlan" };
        for (inner, row) in (0..).zip(figure) {
            for (outer, left) in (0..).zip(row) {
                let mut frame = golden(kind);
                ecn(&mut frame, inner_at, Some(inner));
                if kind == "gre4-all" {
                    frame[V4 + 4..V4 + 6].fill(0);
                    let sum = weir_wire::checksum::internet(&frame[V4..]);
                    frame[V4 + 4..V4 + 6].copy_from_slice(&sum.to_be_bytes());
                }
                // Unwrapped unmarked, with what the figure says instead.
                ecn(&mut frame, 14, Some(0));
                let plain = Rig::new().run(&frame, &changes(unwrap)).unwrap();
                assert_eq!(
                    (plain.result, ecn(&mut plain.bytes.clone(), at, None)),
                    (Ok(()), inner)
                );
                ecn(&mut frame, 14, Some(outer));
                let got = Rig::new().run(&frame, &changes(unwrap)).unwrap();
                let what = format!("{kind}: {outer} outside, {inner} inside");
                let Some(left) = left else {
                    let dropped = (Err(DropReason::Congestion), &frame);
                    assert_eq!((got.result, &got.bytes), dropped, "{what}");
                    continue;
                };
                let mut want = plain.bytes.clone();
                ecn(&mut want, at, Some(left));
                assert_eq!((got.result, got.bytes), (Ok(()), want), "{what}");
            }
        }
    }
}

/// What carries no IP has no such field; what is damaged inside is somebody else's to refuse.
#[test]
fn congestion_has_no_place_in_other_frames() {
    let arp = golden("arp");
    for edit in [0, 1, 13, 14, 20] {
        let mut inner = arp.clone();
        // ARP, then frames that say IPv4 and are none.
        if edit > 0 {
            inner[12..14].copy_from_slice(&[8, 0]);
            inner.truncate(14 + edit);
        }
        for wrap in ["encap_vxlan 4 1 4789", "encap_gre 6 - - 0"] {
            let mut frame = Rig::new().run(&inner, &changes(wrap)).unwrap().bytes;
            ecn(&mut frame, 14, Some(3));
            let unwrap = if wrap.contains("gre") { "decap_gre" } else { "decap_vxlan" };
            let got = Rig::new().run(&frame, &changes(unwrap)).unwrap();
            assert_eq!((got.result, got.bytes), (Ok(()), inner.clone()), "{wrap}");
        }
    }
}

/// UDP may say that it ends before the IP datagram does.
#[test]
fn vxlan_ends_where_udp_does() {
    let mut frame = golden("vxlan4");
    let plain = Rig::new().run(&frame, &changes("decap_vxlan")).unwrap();
    frame.extend([0xee; 5]);
    let total = u16::from_be_bytes([frame[16], frame[17]]) + 5;
    frame[16..18].copy_from_slice(&total.to_be_bytes());
    assert_eq!(Rig::new().run(&frame, &changes("decap_vxlan")).unwrap(), plain);
}

/// Flows of one kind get different source ports, one flow always the same; fragments of one
/// datagram, too, though only the first has ports.
#[test]
fn source_ports_follow_flows() {
    let port = |frame: &[u8]| {
        let out = Rig::new().run(frame, &changes("encap_vxlan 4 1 4789")).unwrap();
        u16::from_be_bytes([out.bytes[V4], out.bytes[V4 + 1]])
    };
    let udp = golden("v4-udp");
    let mut ports = std::collections::BTreeSet::new();
    for source in 0..256u16 {
        let mut f = udp.clone();
        f[V4..V4 + 2].copy_from_slice(&source.to_be_bytes());
        ports.insert(port(&f));
        let (mut ttl, mut payload) = (f.clone(), f.clone());
        ttl[22] = 3;
        payload[60] ^= 1;
        assert_eq!((port(&ttl), port(&payload)), (port(&f), port(&f)));
    }
    assert!(ports.len() > 240, "{} of 256", ports.len());
    assert!(ports.iter().all(|p| *p >= 0xc000));
    assert_eq!(port(&golden("v4-first-udp")), port(&golden("v4-later-udp")));
}
