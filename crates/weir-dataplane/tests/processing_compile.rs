//! What is refused when a rule is installed, and in which words; what is no change; what fuses.

mod processing_rig;

use processing_rig::{Rig, action, changes, outer, unhex};
use weir_classify::Field;
use weir_dataplane::processing::{ActionError, Change, compile, set_tos};
use weir_dataplane::{Action, GreChecksum, Out, Packet, PortNo, Stale, extract};

fn refused(text: &str) -> String {
    compile(&action(text)).unwrap_err().to_string()
}

#[test]
fn errors_say_how_to_mend_the_action() {
    for (text, words) in [
        ("set in_port 1 1", "'in_port' can't be set: it says where the frame came from"),
        ("set user0 1 1", "'user0' can't be set: a VDP's own fields are for matching"),
        (
            "set mpls_label 0x100000 0xfffff",
            "value 0x100000 of 'mpls_label' is too large: the field has 20 bits",
        ),
        ("set dl_vlan_pcp 7 15", "mask 0xf of 'dl_vlan_pcp' is too large: the field has 3 bits"),
        (
            "set icmp_type 256 0xffff",
            "value 0x100 of 'icmp_type' is too large: the field has 8 bits",
        ),
        (
            "set vlan_vid 5 0x1fff",
            "'vlan_vid' without bit 0x1000 would mean no tag: add 0x1000, or use pop_vlan",
        ),
        (
            "push_vlan 0x9100",
            "push_vlan with TPID 0x9100: it must be 0x8100 (C-tag) or 0x88a8 (S-tag)",
        ),
        (
            "push_mpls 0x0800",
            "push_mpls with EtherType 0x0800: it must be 0x8847 or 0x8848 (multicast)",
        ),
        (
            "pop_mpls 100",
            "pop_mpls to 0x0064: give the payload's EtherType, 0x0600 or above (IPv4 is 0x0800)",
        ),
        ("encap_vxlan 4 0x1000000 4789", "VNI 16777216 is too large: at most 16777215"),
        ("encap_vxlan 4 1 0", "VXLAN to UDP port 0: give the receiver's port (4789 is VXLAN's)"),
    ] {
        assert_eq!(refused(text), words);
    }
    assert_eq!(compile(&Action::PushPbb(0x88a8)).unwrap_err(), ActionError::PbbType(0x88a8));
    let mut o = outer("4");
    o.ttl = 0;
    let gre = |outer| Action::EncapGre {
        outer,
        key: None,
        sequence: None,
        checksum: GreChecksum::Absent,
    };
    assert_eq!(compile(&gre(o)).unwrap_err(), ActionError::OuterTtl);
    let mut o = outer("4");
    o.ip =
        weir_dataplane::TunnelAddrs::V4("224.0.0.1".parse().unwrap(), "10.0.0.1".parse().unwrap());
    assert!(matches!(compile(&gre(o)), Err(ActionError::OuterSource(_))));
}

/// Every field either compiles or says why not.
#[test]
fn every_field_is_decided_upon() {
    for &field in Field::ALL {
        let a = Action::SetField { field, value: field.full(), mask: field.full() };
        let width_differs = matches!(field, Field::IcmpType | Field::IcmpCode);
        match compile(&a) {
            Ok(Some(_)) => {}
            Err(ActionError::ReadOnly { .. }) => {}
            Err(ActionError::TooLarge { .. }) if width_differs => {}
            other => panic!("{field:?}: {other:?}"),
        }
    }
}

#[test]
fn other_actions_are_no_changes() {
    for a in [
        Action::Output(Out::Port(PortNo(1))),
        Action::SetQueue(1),
        Action::ToChannel,
        Action::Drop,
        Action::Group(1),
        Action::Meter(1),
        Action::Mirror(PortNo(1)),
        Action::Goto(1),
        Action::SetField { field: Field::EthDst, value: 5, mask: 0 },
        Action::WriteMetadata { value: 5, mask: 0 },
    ] {
        assert!(compile(&a).unwrap().is_none(), "{a:?}");
    }
}

#[test]
fn both_addresses_become_one_change() {
    let frame: Vec<u8> = (0..60).collect();
    let (dst, src) =
        ("set dl_dst 0x0a0b0c0d0e0f 0xffffffffffff", "set dl_src 0x1a1b1c1d1e1f 0xffffffffffff");
    for text in [[dst, src].join(";"), [src, dst].join(";")] {
        let both = changes(&text);
        let one = both[0].with(&both[1]).unwrap();
        assert!(matches!(one, Change::Macs(_)));
        let mut rig = Rig::new();
        assert_eq!(rig.run(&frame, &[one]), rig.run(&frame, &both));
    }
    let twice = changes(&[dst, dst].join(";"));
    assert!(twice[0].with(&twice[1]).is_none());
    let masked = changes("set dl_dst 1 1;set dl_src 0x1a1b1c1d1e1f 0xffffffffffff");
    assert!(masked[0].with(&masked[1]).is_none());
}

/// The option of an advertisement is not the one of a solicitation, though the number may be there.
#[test]
fn link_layer_options_belong_to_their_message() {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/golden/processing.txt");
    let text = std::fs::read_to_string(path).unwrap();
    let hex = text.lines().find_map(|l| l.strip_prefix("F v6-na ")).unwrap();
    let mut frame = unhex(hex);
    // The second option of the advertisement becomes a source link-layer address.
    let at = 54 + 24 + 8;
    assert_eq!(frame[at], 2);
    frame[at] = 1;
    let out = Rig::new().run(&frame, &changes("set nd_sll 0x0a0b0c0d0e0f 0xffffffffffff")).unwrap();
    assert_eq!(out.bytes, frame);
    frame[54] = 135;
    let out = Rig::new().run(&frame, &changes("set nd_sll 0x0a0b0c0d0e0f 0xffffffffffff")).unwrap();
    assert_eq!(out.bytes[at + 2..at + 8], [10, 11, 12, 13, 14, 15]);
}

#[test]
fn changes_are_small() {
    assert!(size_of::<Change>() <= 40, "{}", size_of::<Change>());
}

#[test]
fn a_gre_sequence_counts_on_over_copies_and_wraps() {
    let encap = changes("encap_gre 4 - 0xffffffff 0");
    let copy = encap.clone();
    let mut rig = Rig::new();
    let sequence =
        |o: processing_rig::Outcome| u32::from_be_bytes(o.bytes[38..42].try_into().unwrap());
    let frame = vec![0u8; 60];
    assert_eq!(sequence(rig.run(&frame, &encap).unwrap()), u32::MAX);
    assert_eq!(sequence(rig.run(&frame, &copy).unwrap()), 0);
    assert_eq!(sequence(rig.run(&frame, &encap).unwrap()), 1);
}

#[test]
fn metadata_and_tunnel_id_outlive_the_key() {
    let todo = changes(
        "set metadata 0xff00 0xffff;set tun_id 0x77 0xff;push_mpls 0x8847;set metadata 1 1",
    );
    let out = Rig::new().run(&[0x55; 60], &todo).unwrap();
    assert_eq!(out.key.get(Field::Metadata), 0xff01);
    assert_eq!(out.key.get(Field::TunnelId), 0x77);
}

/// RFC 2597 §6: AF11 is 001010; remarking stays in the class, and other DSCPs stay as they are.
#[test]
fn remarking_raises_the_drop_precedence() {
    let udp = unhex(
        "0211223344550266778899aa08004500001c00010000401166ce0a0000010a000002000100020008e9c5",
    );
    for dscp in 0..64u8 {
        for levels in [1u8, 2, 3, 255] {
            let mut pool = weir_packet::Pool::new(1, 2048).unwrap();
            let mut f = pool.alloc().unwrap();
            f.copy_from(&udp).unwrap();
            f.bytes_mut()[15] = dscp << 2 | 1;
            let mut key = weir_classify::FlowKey::default();
            let layers = extract(f.bytes(), 1, &mut key).unwrap();
            let mut p = Packet { frame: &mut f, key: &mut key, layers, stale: Stale::No };
            set_tos::remark(levels, &mut p).unwrap();
            let (class, precedence) = (dscp >> 3, dscp >> 1 & 3);
            let assured = (1..=4).contains(&class) && dscp & 1 == 0 && precedence > 0;
            let want = if assured {
                class << 3 | precedence.saturating_add(levels).min(3) << 1
            } else {
                dscp
            };
            assert_eq!(p.frame.bytes()[15], want << 2 | 1, "DSCP {dscp} by {levels}");
            pool.free(f);
        }
    }
}
