//! What actions make of frames, judged by tshark: the field has the value, every checksum is right.
//! SKIPPED where tshark is missing.

mod dut_rig;

use dut_rig::*;
use std::net::{SocketAddrV4, SocketAddrV6};
use std::process::Command;
use weir_openflow::model::*;
use weir_wire::build::Frame;
use weir_wire::{IpProtocol, SctpRepr, VlanRepr};

#[derive(Clone, Copy, Debug, PartialEq)]
enum Kind {
    UdpV4,
    TcpV4,
    UdpV6,
    TcpV6,
    Tagged,
    Labelled,
}

/// A frame of a kind.
fn frame(kind: Kind) -> Vec<u8> {
    let (s4, d4): (SocketAddrV4, SocketAddrV4) =
        ("10.0.0.1:1000".parse().unwrap(), "10.0.0.2:2000".parse().unwrap());
    let (s6, d6): (SocketAddrV6, SocketAddrV6) =
        ("[fd00::1]:1000".parse().unwrap(), "[fd00::2]:2000".parse().unwrap());
    let flags = weir_wire::tcp::Flags::ACK;
    let payload = b"an odd payload!".as_slice();
    let tags = [VlanRepr::dot1q(100)];
    let f = match kind {
        Kind::UdpV4 | Kind::Labelled => Frame::udp_v4(s4, d4, payload),
        Kind::TcpV4 => Frame::tcp_v4(s4, d4, flags, payload),
        Kind::UdpV6 => Frame::udp_v6(s6, d6, payload),
        Kind::TcpV6 => Frame::tcp_v6(s6, d6, flags, payload),
        Kind::Tagged => Frame::udp_v4(s4, d4, payload).tags(&tags),
    };
    let mut buffer = [0; 200];
    let len = f.emit(&mut buffer).unwrap();
    let mut bytes = buffer[..len].to_vec();
    if kind == Kind::Labelled {
        // Label 77, class 0, bottom, TTL 9.
        bytes.splice(12..14, [0x88, 0x47, 0, 0x04, 0xd1, 9]);
    }
    bytes
}

/// What a flow for it must name before its actions are allowed (1.3 §7.2.3.6).
fn matcher(kind: Kind) -> Match {
    let m = Match::default();
    let with = |t: u128, p: u128| m.clone().with(Field::EthType, t).with(Field::IpProto, p);
    match kind {
        Kind::UdpV4 => with(0x0800, 17),
        Kind::Tagged => with(0x0800, 17).with_masked(Field::VlanVid, 0x1000, 0x1000),
        Kind::TcpV4 => with(0x0800, 6),
        Kind::UdpV6 => with(0x86dd, 17),
        Kind::TcpV6 => with(0x86dd, 6),
        Kind::Labelled => m.with(Field::EthType, 0x8847),
    }
}

/// Kind, actions, tshark's field, what it must say.
fn cases() -> Vec<(Kind, Vec<Action>, &'static str, &'static str)> {
    use Action::*;
    use Field::*;
    let set = |f, v| vec![SetField(f, v)];
    let mut all = vec![
        (Kind::Tagged, set(VlanVid, 0x1000 + 7), "vlan.id", "7"),
        (Kind::Tagged, set(VlanPcp, 5), "vlan.priority", "5"),
        (Kind::Tagged, vec![PopVlan], "eth.type", "0x0800"),
        (Kind::UdpV4, vec![PushVlan(0x8100), SetField(VlanVid, 0x1009)], "vlan.id", "9"),
        (Kind::Tagged, vec![PushVlan(0x88a8)], "vlan.id", "100"),
        (Kind::UdpV4, vec![PushMpls(0x8847), SetField(MplsLabel, 55)], "mpls.label", "55"),
        (Kind::UdpV4, vec![PushMpls(0x8847)], "mpls.ttl", "64"),
        (Kind::Labelled, set(MplsTc, 3), "mpls.exp", "3"),
        (Kind::Labelled, vec![SetMplsTtl(33)], "mpls.ttl", "33"),
        (Kind::Labelled, vec![DecMplsTtl], "mpls.ttl", "8"),
        (Kind::Labelled, vec![CopyTtlOut], "mpls.ttl", "64"),
        (Kind::Labelled, vec![CopyTtlIn, PopMpls(0x0800)], "ip.ttl", "9"),
        (Kind::Labelled, vec![PopMpls(0x0800)], "udp.dstport", "2000"),
    ];
    for (v4, v6) in [(Kind::UdpV4, Kind::UdpV6), (Kind::TcpV4, Kind::TcpV6)] {
        all.push((v4, vec![], "ip.src", "10.0.0.1"));
        all.push((v4, set(EthDst, 0x0200_0000_0009), "eth.dst", "02:00:00:00:00:09"));
        all.push((v4, set(EthSrc, 0x0200_0000_0008), "eth.src", "02:00:00:00:00:08"));
        all.push((v4, set(Ipv4Src, 0xc0a8_0107), "ip.src", "192.168.1.7"));
        all.push((v4, set(Ipv4Dst, 0xc0a8_0108), "ip.dst", "192.168.1.8"));
        all.push((v4, set(IpDscp, 46), "ip.dsfield.dscp", "46"));
        all.push((v4, set(IpEcn, 2), "ip.dsfield.ecn", "2"));
        all.push((v4, vec![SetNwTtl(17)], "ip.ttl", "17"));
        all.push((v4, vec![DecNwTtl], "ip.ttl", "63"));
        all.push((v6, set(Ipv6Src, 0xfd00 << 112 | 7), "ipv6.src", "fd00::7"));
        all.push((v6, set(Ipv6Dst, 0xfd00 << 112 | 8), "ipv6.dst", "fd00::8"));
        all.push((v6, set(IpDscp, 46), "ipv6.tclass.dscp", "46"));
        all.push((v6, set(Ipv6Flabel, 0x12345), "ipv6.flow", "0x012345"));
        all.push((v6, vec![DecNwTtl], "ipv6.hlim", "63"));
    }
    for kind in [Kind::UdpV4, Kind::UdpV6] {
        all.push((kind, set(UdpSrc, 7), "udp.srcport", "7"));
        all.push((kind, set(UdpDst, 8), "udp.dstport", "8"));
    }
    for kind in [Kind::TcpV4, Kind::TcpV6] {
        all.push((kind, set(TcpSrc, 7), "tcp.srcport", "7"));
        all.push((kind, set(TcpDst, 8), "tcp.dstport", "8"));
    }
    all
}

/// A frame after a flow with these actions.
fn through(kind: Kind, mut actions: Vec<Action>, faults: &str) -> Vec<u8> {
    let mut r = Rig::new(faults, Version::V13);
    actions.push(output(2));
    let told = format!("{kind:?} {actions:?}");
    let xid = r.send(Message::FlowMod(flow(FlowCommand::Add, 1, matcher(kind), actions)));
    assert_eq!(r.error(xid), None, "{told}");
    r.frame(1, &frame(kind));
    let (_, port, bytes) = r.seen.pop().unwrap_or_else(|| panic!("{told}: no frame"));
    assert_eq!(port, 2);
    bytes
}

/// A capture file (the format of libpcap 2.4) of frames.
fn pcap(frames: &[Vec<u8>]) -> Vec<u8> {
    let mut file = Vec::new();
    for word in [0xa1b2_c3d4u32, 0x0004_0002, 0, 0, 65_535, 1] {
        file.extend(word.to_le_bytes());
    }
    for f in frames {
        for word in [0, 0, f.len() as u32, f.len() as u32] {
            file.extend(word.to_le_bytes());
        }
        file.extend(f);
    }
    file
}

/// Each frame's fields as tshark sees them.
fn tshark(frames: &[Vec<u8>], fields: &[&str]) -> Option<Vec<Vec<String>>> {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("frames.pcap");
    std::fs::write(&path, pcap(frames)).unwrap();
    let mut c = Command::new("tshark");
    c.arg("-n").arg("-r").arg(&path).args(["-T", "fields", "-E", "separator=|"]);
    for check in ["ip", "udp", "tcp"] {
        c.args(["-o", &format!("{check}.check_checksum:TRUE")]);
    }
    fields.iter().for_each(|f| {
        c.args(["-e", f]);
    });
    let o = c.output().ok()?;
    assert!(o.status.success(), "{}", String::from_utf8_lossy(&o.stderr));
    let text = String::from_utf8(o.stdout).unwrap();
    Some(text.lines().map(|l| l.split('|').map(str::to_owned).collect()).collect())
}

const SUMS: [&str; 3] = ["ip.checksum.status", "udp.checksum.status", "tcp.checksum.status"];

#[test]
fn tshark_finds_the_value_and_right_checksums() {
    let cases = cases();
    let frames: Vec<_> = cases.iter().map(|(k, a, ..)| through(*k, a.clone(), "")).collect();
    let mut fields: Vec<&str> = SUMS.to_vec();
    // Each once: tshark leaves a column empty that was asked for twice.
    for (_, _, field, _) in &cases {
        if !fields.contains(field) {
            fields.push(field);
        }
    }
    let Some(said) = tshark(&frames, &fields) else {
        eprintln!(
            "SKIPPED: tshark_finds_the_value_and_right_checksums: no tshark (package tshark)"
        );
        return;
    };
    assert_eq!(said.len(), cases.len());
    for ((kind, actions, field, value), said) in cases.iter().zip(&said) {
        let told = format!("{kind:?} {actions:?}: {said:?}");
        let at = fields.iter().position(|f| f == field).unwrap();
        assert_eq!(said[at].split(',').next(), Some(*value), "{field} of {told}");
        // 1 is good; nothing where there is no such header.
        let sums = &said[..SUMS.len()];
        assert!(sums.iter().all(|s| s.is_empty() || s == "1"), "{told}");
        assert!(sums.iter().any(|s| s == "1"), "{told}");
    }
}

#[test]
fn tshark_sees_what_is_done_wrong() {
    let wrong = [
        ("wrong_checksum = [\"ip\"]", Action::SetField(Field::Ipv4Src, 1), "ip.src", "0.0.0.1"),
        ("writes_wrong = [\"ttl\"]", Action::SetNwTtl(64), "ip.ttl", "65"),
        ("writes_wrong = [\"tos\"]", Action::SetField(Field::IpDscp, 46), "ip.dsfield.dscp", "47"),
        ("writes_wrong = [\"vlan-push\"]", Action::PushVlan(0x8100), "eth.type", "0x88a8"),
    ];
    let through = |(list, action, ..): &(&str, Action, _, _)| {
        through(Kind::UdpV4, vec![action.clone()], &format!("[actions]\n{list}"))
    };
    let frames: Vec<_> = wrong.iter().map(through).collect();
    let fields: Vec<&str> = SUMS.into_iter().chain(wrong.iter().map(|w| w.2)).collect();
    let Some(said) = tshark(&frames, &fields) else {
        eprintln!("SKIPPED: tshark_sees_what_is_done_wrong: no tshark (package tshark)");
        return;
    };
    for (i, ((.., value), said)) in wrong.iter().zip(&said).enumerate() {
        assert_eq!(said[SUMS.len() + i], *value);
        let good = said[..2].iter().all(|s| s == "1");
        assert_eq!(good, i > 0, "{said:?}");
    }
}

/// SCTP's checksum is another.
#[test]
fn sctp_is_made_right_too() {
    let sctp = SctpRepr { src_port: 1000, dst_port: 2000, tag: 5 };
    let mut payload = vec![0; 28];
    {
        let mut p = weir_wire::SctpPacket::new_unchecked(&mut payload[..]);
        sctp.emit(&mut p).unwrap();
        p.fill_checksum();
    }
    let (src, dst) = ("1.1.1.1".parse().unwrap(), "2.2.2.2".parse().unwrap());
    let f = Frame::ipv4(src, dst, IpProtocol::Sctp, &payload);
    let mut buffer = [0; 200];
    let len = f.emit(&mut buffer).unwrap();
    let mut r = Rig::new("", Version::V13);
    let m = Match::default().with(Field::EthType, 0x0800).with(Field::IpProto, 132);
    let write = Action::SetField(Field::SctpDst, 9);
    r.send(Message::FlowMod(flow(FlowCommand::Add, 1, m, vec![write, output(2)])));
    r.frame(1, &buffer[..len]);
    let (_, _, bytes) = r.seen.pop().unwrap();
    let p = weir_wire::SctpPacket::new_checked(&bytes[34..]).unwrap();
    assert_eq!(p.dst_port(), 9);
    assert!(p.has_good_checksum());
}
