//! OpenFlow 1.0: each kind of bad bytes gets the error that 1.0.1 §5.4.4 names for it, and matches are
//! normalised (§3.4).

use ErrorCode::*;
use weir_openflow::codec::{decode, encode};
use weir_openflow::model::*;

fn frame(kind: u8, body: &[u8]) -> Vec<u8> {
    let length = (8 + body.len() as u16).to_be_bytes();
    [&[1, kind, length[0], length[1], 0, 0, 0, 9][..], body].concat()
}

fn refused(kind: u8, body: &[u8]) -> ErrorCode {
    decode(Version::V10, &frame(kind, body)).expect_err("is refused").code
}

/// A flow_mod's body: everything wildcarded, then command, flags and actions as given.
fn flow_mod(command: u16, flags: u16, actions: &[u8]) -> Vec<u8> {
    let mut body = vec![0; 64];
    body[..4].copy_from_slice(&0x003f_ffff_u32.to_be_bytes());
    body[48..50].copy_from_slice(&command.to_be_bytes());
    body[62..64].copy_from_slice(&flags.to_be_bytes());
    [&body, actions].concat()
}

fn with_actions(actions: &[u8]) -> ErrorCode {
    let in_packet_out = [
        &[0xff, 0xff, 0xff, 0xff, 0, 1][..],
        &(actions.len() as u16).to_be_bytes(),
        actions,
        b"frame",
    ];
    let code = refused(13, &in_packet_out.concat());
    assert_eq!(refused(14, &flow_mod(0, 0, actions)), code, "packet_out and flow_mod agree");
    code
}

#[test]
fn requests() {
    assert_eq!(refused(22, &[]), BadType);
    assert_eq!(refused(255, &[0; 40]), BadType);
    assert_eq!(refused(5, &[0]), BadLen, "a features request with a body");
    assert_eq!(refused(9, &[0; 3]), BadLen);
    assert_eq!(refused(9, &[0; 5]), BadLen);
    assert_eq!(refused(15, &[0; 23]), BadLen);
    assert_eq!(refused(18, &[0; 8]), BadLen);
    assert_eq!(refused(16, &[0; 3]), BadLen, "statistics without a whole header");
    assert_eq!(refused(16, &[0, 6, 0, 0]), BadMultipart);
    assert_eq!(refused(16, &[0, 0, 0, 0, 1]), BadLen, "a description asked for with a body");
    assert_eq!(refused(16, &[0, 1, 0, 0, 1]), BadLen);
    assert_eq!(refused(16, &[0xff, 0xff, 0, 0, 0, 0, 0x23, 0x20]), BadExperimenter);
    assert_eq!(refused(4, &[0, 0, 0]), BadLen);
    assert_eq!(refused(4, &[0, 0, 0, 1, 0, 0, 0, 10]), BadExperimenter);
    assert_eq!(refused(4, &[0, 0, 0x23, 0x20, 0, 0, 0, 12]), BadExperimenterType);
    assert_eq!(refused(4, &[0, 0, 0x23, 0x20, 0, 0, 0, 10]), BadLen);
    assert_eq!(refused(4, &[0, 0, 0x23, 0x20, 0, 0, 0, 10, 0, 0, 0, 3]), RoleBadRole);
    // §5.3.4: queues are asked for by real ports.
    for port in [0, 0xff01, 0xfffc, 0xfffe, 0xffff_u16] {
        assert_eq!(refused(20, &[port.to_be_bytes(), [0; 2]].concat()), QueueBadPort, "{port}");
    }
    let mut other = frame(5, &[]);
    other[0] = 4;
    assert_eq!(decode(Version::V10, &other).unwrap_err().code, BadVersion);
}

#[test]
fn flow_mods() {
    assert_eq!(refused(14, &[0; 63]), BadLen);
    assert_eq!(refused(14, &flow_mod(5, 0, &[])), FlowBadCommand);
    assert_eq!(refused(14, &flow_mod(0, 8, &[])), FlowBadFlags);
    assert!(decode(Version::V10, &frame(14, &flow_mod(4, 7, &[]))).is_ok());
}

#[test]
fn actions() {
    let padded = |head: &[u8]| {
        let mut action = head.to_vec();
        action.resize(usize::from(head[3]), 0);
        action
    };
    assert_eq!(with_actions(&padded(&[0, 12, 0, 8])), ActionBadType);
    assert_eq!(with_actions(&[0, 0, 0]), ActionBadLen, "no whole header");
    assert_eq!(with_actions(&[0, 0, 0, 0, 0, 0, 0, 0]), ActionBadLen, "length 0");
    assert_eq!(with_actions(&[0, 0, 0, 4]), ActionBadLen);
    assert_eq!(with_actions(&[0, 0, 0, 12, 0, 1, 0, 0, 0, 0, 0, 0]), ActionBadLen, "not by eight");
    assert_eq!(with_actions(&[0, 0, 0, 16, 0, 1, 0, 0]), ActionBadLen, "beyond the end");
    assert_eq!(with_actions(&padded(&[0, 0, 0, 16])), ActionBadLen, "an output is eight bytes");
    assert_eq!(with_actions(&padded(&[0, 4, 0, 8])), ActionBadLen, "an address needs sixteen");
    assert_eq!(with_actions(&padded(&[0, 11, 0, 8])), ActionBadLen);
    assert_eq!(with_actions(&[0, 1, 0, 8, 0x10, 0, 0, 0]), ActionBadArgument, "VLAN 4096");
    assert_eq!(with_actions(&[0, 2, 0, 8, 8, 0, 0, 0]), ActionBadArgument, "priority 8");
    assert_eq!(with_actions(&[0, 8, 0, 8, 1, 0, 0, 0]), ActionBadArgument, "ECN in ToS");
    // The actions of a packet_out are longer than the message.
    let packet_out = [0xff, 0xff, 0xff, 0xff, 0, 1, 0, 16, 0, 0, 0, 8, 0, 1, 0, 0];
    assert_eq!(refused(13, &packet_out), BadLen);
}

#[test]
fn an_error_carries_the_message_and_its_xid() {
    let bad = frame(14, &flow_mod(9, 0, &[7; 2000]));
    let reply = decode(Version::V10, &bad).unwrap_err().into_reply().unwrap();
    assert_eq!(reply.xid, 9);
    let Message::Error(e) = &reply.body else { panic!("{reply:?}") };
    assert!(e.data.len() >= 64 && bad.starts_with(&e.data), "{} bytes", e.data.len());
    let mut wire = Vec::new();
    encode(Version::V10, &reply, &mut wire).unwrap();
    assert_eq!(wire[8..12], [0, 3, 0, 4], "FLOW_MOD_FAILED, BAD_COMMAND");
}

/// Reads a match with these wildcards (what is set counts) in a structure full of values.
fn matched(exact: u32, dl_type: u16, nw_proto: u8) -> Match {
    let mut m = [0xee_u8; 40];
    m[..4].copy_from_slice(&(!exact).to_be_bytes());
    m[4..6].copy_from_slice(&[0, 3]);
    m[22..24].copy_from_slice(&dl_type.to_be_bytes());
    m[25] = nw_proto;
    let body = [&[0, 1, 0, 0][..], &m, &[0xff, 0, 0xff, 0xff]].concat();
    match decode(Version::V10, &frame(16, &body)).unwrap().body {
        Message::StatsRequest { body: StatsRequest::Flow(f), .. } => f.matcher,
        other => panic!("{other:?}"),
    }
}

#[test]
fn fields_without_their_prerequisite_are_wildcarded() {
    let fields = |m: Match| m.0.iter().map(|f| f.field).collect::<Vec<_>>();
    let all = 0x003f_ffff;
    let l2 = [
        Field::InPort,
        Field::EthDst,
        Field::EthSrc,
        Field::EthType,
        Field::VlanVid,
        Field::VlanPcp,
    ];
    let and = |more: &[Field]| [&l2[..], more].concat();
    use Field::*;
    assert_eq!(fields(matched(all, 0x88cc, 6)), l2);
    // 1.0 knows nothing of IPv6; what is not an address means there what it means in IPv4.
    assert_eq!(fields(matched(all, 0x86dd, 6)), and(&[IpDscp, IpProto, TcpSrc, TcpDst]));
    assert_eq!(fields(matched(all, 0x86dd, 58)), and(&[IpDscp, IpProto, Icmpv6Type, Icmpv6Code]));
    assert_eq!(fields(matched(all, 0x86dd, 1)), and(&[IpDscp, IpProto]));
    assert_eq!(
        fields(matched(all, 0x0800, 58)),
        and(&[IpDscp, IpProto, Ipv4Src, Ipv4Dst]),
        "ICMP of the other version"
    );
    assert_eq!(fields(matched(all, 0x0806, 1)), and(&[ArpOp, ArpSpa, ArpTpa]));
    assert_eq!(fields(matched(all, 0x0800, 47)), and(&[IpDscp, IpProto, Ipv4Src, Ipv4Dst]));
    assert_eq!(
        fields(matched(all, 0x0800, 1)),
        and(&[IpDscp, IpProto, Ipv4Src, Ipv4Dst, Icmpv4Type, Icmpv4Code])
    );
    // Without the EtherType, or without the protocol, what follows from them is nothing.
    assert_eq!(fields(matched(all & !(1 << 4), 0x0800, 6)).len(), 5);
    assert_eq!(fields(matched(all & !(1 << 5), 0x0800, 6)), and(&[IpDscp, Ipv4Src, Ipv4Dst]));
    // Unused bits are passed over: 0xeeee of ToS, VLAN and ICMP type.
    let m = matched(all, 0x0800, 1);
    assert_eq!(m.get(IpDscp).unwrap().value, 0xee >> 2);
    assert_eq!(m.get(VlanVid).unwrap().value, 0x1eee);
    assert_eq!(m.get(VlanPcp).unwrap().value, 6);
    assert_eq!(m.get(Icmpv4Type).unwrap().value, 0xee);
}

#[test]
fn every_prefix() {
    for wildcarded in 0..64_u32 {
        let exact = 1 << 4 | (!wildcarded & 0x3f) << 8;
        let m = matched(exact, 0x0800, 0);
        let mask = if wildcarded < 32 { u32::MAX << wildcarded } else { 0 };
        match m.get(Field::Ipv4Src) {
            Some(f) => {
                assert_eq!(f.mask, mask.into());
                assert_eq!(f.value, u128::from(0xeeee_eeee & mask));
            }
            None => assert_eq!(mask, 0),
        }
    }
}

#[test]
fn what_1_0_has_not_is_refused() {
    let flow = |matcher: Match, instructions| {
        let mut f = match decode(Version::V10, &frame(14, &flow_mod(0, 0, &[]))).unwrap().body {
            Message::FlowMod(f) => f,
            other => panic!("{other:?}"),
        };
        (f.matcher, f.instructions) = (matcher, instructions);
        let mut out = vec![1, 2, 3];
        let done = encode(Version::V10, &Msg { xid: 1, body: Message::FlowMod(f) }, &mut out);
        assert_eq!(done.is_err(), out == [1, 2, 3], "nothing half written");
        done.is_ok()
    };
    let any = Match::default;
    let ip = || any().with(Field::EthType, 0x0800);
    assert!(flow(any(), vec![]));
    for bad in [
        any().with(Field::Metadata, 1),
        any().with_masked(Field::EthSrc, 1, 1),
        any().with_masked(Field::VlanVid, 0x1000, 0x1000),
        any().with(Field::VlanPcp, 1),
        any().with(Field::VlanVid, 0).with(Field::VlanPcp, 1),
        any().with(Field::VlanVid, 5),
        any().with(Field::IpProto, 6),
        any().with(Field::EthType, 0x86dd).with(Field::Ipv6Src, 6),
        ip().with(Field::TcpDst, 80),
        ip().with(Field::IpProto, 17).with(Field::TcpDst, 80),
        ip().with_masked(Field::Ipv4Src, 0, 0x00ff_ffff),
        ip().with(Field::ArpSpa, 1),
        any().with(Field::EthType, 0x0806).with(Field::ArpOp, 256),
        any().with(Field::InPort, 0xff01),
        any().with(Field::InPort, 0x10001),
    ] {
        assert!(!flow(bad.clone(), vec![]), "{bad:?}");
    }
    for bad in [
        vec![Instruction::GotoTable(1)],
        vec![Instruction::Write(vec![])],
        vec![Instruction::Apply(vec![]), Instruction::Apply(vec![])],
        vec![Instruction::Apply(vec![Action::Group(1)])],
        vec![Instruction::Apply(vec![Action::SetField(Field::EthType, 1)])],
        vec![Instruction::Apply(vec![Action::Output { port: Port(0xff01), max_len: 0 }])],
    ] {
        assert!(!flow(any(), bad.clone()), "{bad:?}");
    }
}
