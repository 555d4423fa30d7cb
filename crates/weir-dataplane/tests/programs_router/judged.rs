//! tshark reads everything that the router makes: no malformed packet, no wrong checksum, and
//! each message is what it was meant to be.

use crate::lab::*;
use crate::listeners;
use crate::options4;
use crate::programs_rig::{Outcome, Sent};
use std::path::Path;
use std::process::Command;
use weir_wire::ndisc_option::NdiscOption;
use weir_wire::{IpProtocol, NdiscRepr, build::Frame};

/// Every kind of frame that the router makes itself, and some that it passes on, with the word by
/// which tshark knows it.
fn everything() -> Vec<(Sent, &'static str)> {
    let mut r = fresh_router(&config());
    let mut all = Vec::new();
    all.extend(
        r.pass_ms(1100).sent.into_iter().map(|s| (s, "Multicast Listener Report Message v2")),
    );
    assert_eq!(all.len(), 6);
    for (query, word) in [
        (listeners::general(100), "Multicast Listener Report Message v2"),
        (listeners::older(100), "Multicast Listener Report"),
    ] {
        r.rx(1, &listeners::query(1, ll(9), query));
        all.extend(r.pass_ms(200).sent.into_iter().map(|s| (s, word)));
    }
    assert_eq!(all.len(), 6 + 1 + 3);
    let mut note = |o: Outcome, words: &[&'static str]| {
        assert_eq!(o.sent.len(), words.len(), "{words:?}: {:?}", o.sent);
        all.extend(o.sent.into_iter().zip(words.iter().copied()));
    };
    note(r.rx(1, &who_has(1, 10)), &["10.0.1.1 is at 02:00:00:00:0a:01"]);
    note(
        r.rx(1, &from_host(1, 10, udp4(ip4(1, 10), ip4(2, 77), b"x"))),
        &["Who has 10.0.2.77? Tell 10.0.2.1"],
    );
    note(
        r.rx(1, &from_host(1, 10, udp6(ip6(1, 10), ip6(2, 0x77), b"x"))),
        &["Neighbor Solicitation for 2001:db8:2::77 from 02:00:00:00:0a:02"],
    );
    let ask = nd(
        (mac(1, 10), ours(1)),
        (ip6(1, 10), ours_ll(1)),
        |options| NdiscRepr::NeighborSolicit { target: ours_ll(1), options },
        Some(NdiscOption::SourceLinkAddr(mac(1, 10))),
    );
    note(r.rx(1, &ask), &["Neighbor Advertisement fe80::ff:fe00:a01 (rtr, sol, ovr)"]);
    let o = r.pass_ms(3100);
    let late: Vec<Sent> = o.sent.into_iter().filter(|s| s.port == 1).collect();
    note(
        Outcome { sent: late, ..Outcome::default() },
        &[
            // To a neighbour that is not confirmed yet: sent, and asked.
            "Destination unreachable (Host unreachable)",
            "Who has 10.0.1.10? Tell 10.0.1.1",
            "Destination Unreachable (Address unreachable)",
            "Neighbor Solicitation for 2001:db8:1::a from 02:00:00:00:0a:01",
        ],
    );
    introduce(&mut r);
    let mut one = |port, f: &[u8], word| {
        let o = r.rx(port, f);
        assert_eq!(o.sent.len(), 1, "{word}: {:?}", o.sent);
        all.extend(o.sent.into_iter().map(|s| (s, word)));
    };
    one(1, &ping4(1, 10, ip4(1, 1), b"odd"), "Echo (ping) reply");
    one(1, &ping6(1, 10, ip6(1, 10), ip6(1, 1), b"odd"), "Echo (ping) reply");
    let v4 =
        |dst: [u8; 4], ttl| from_host(1, 10, udp4(ip4(1, 10), dst.into(), &[3; 1300]).ttl(ttl));
    one(1, &v4([203, 0, 113, 1], 9), "Destination unreachable (Network unreachable)");
    one(1, &v4([10, 0, 2, 10], 1), "Time-to-live exceeded (Time to live exceeded in transit)");
    one(1, &v4([10, 0, 3, 10], 9), "Destination unreachable (Fragmentation needed)");
    one(1, &v4([10, 0, 1, 1], 9), "Destination unreachable (Port unreachable)");
    let f = from_host(1, 10, Frame::ipv4(ip4(1, 10), ip4(1, 1), IpProtocol::Sctp, &[0; 9]));
    one(1, &f, "Destination unreachable (Protocol unreachable)");
    let v6 = |dst: &str, ttl| {
        from_host(1, 10, udp6(ip6(1, 10), dst.parse().unwrap(), &[3; 1300]).ttl(ttl))
    };
    one(1, &v6("2001:db9::1", 9), "Destination Unreachable (no route to destination)");
    one(1, &v6("2001:db8:2::a", 1), "Time Exceeded (hop limit exceeded in transit)");
    one(1, &v6("2001:db8:3::a", 9), "Packet Too Big");
    one(1, &v6("2001:db8:1::1", 9), "Destination Unreachable (Port unreachable)");
    let f = from_host(1, 10, Frame::ipv6(ip6(1, 10), ip6(1, 1), IpProtocol::Gre, &[0; 9]));
    one(1, &f, "Parameter Problem (unrecognized Next Header type encountered)");
    let options = [17, 0, 0x80, 4, 0, 0, 0, 0, 0, 0];
    let f = from_host(1, 10, Frame::ipv6(ip6(1, 10), ip6(1, 1), IpProtocol::Destination, &options));
    one(1, &f, "Parameter Problem (unrecognized IPv6 option encountered)");
    let f = from_host(2, 99, udp6(ll(0x99), ip6(1, 10), b"x"));
    one(2, &f, "Destination Unreachable (Beyond scope of source address)");
    let f = options4::with(ip4(1, 1), &[131, 7, 4, 10, 0, 2, 10, 0]);
    one(1, &f, "Destination unreachable (Source route failed)");
    let f = options4::with(ip4(2, 10), &[7, 0, 4, 0]);
    one(1, &f, "(Pointer indicates the error)");
    one(1, &options4::with(ip4(2, 10), &[7, 7, 4, 0, 0, 0, 0, 0]), "Echo (ping) request");
    one(1, &options4::with(ip4(1, 1), &[68, 8, 5, 0, 0, 0, 0, 0]), "Echo (ping) reply");
    // Passed on: the checksums still hold.
    one(1, &v4([10, 0, 2, 10], 9), "1000 → 9");
    one(1, &v6("2001:db8:2::a", 9), "1000 → 9");
    let f = from_host(1, 10, may_fragment(udp4(ip4(1, 10), ip4(3, 10), &[3; 1400])));
    let o = r.rx(1, &f);
    assert_eq!(o.sent.len(), 2);
    all.extend(o.sent.into_iter().zip(["Fragmented IP protocol (proto=UDP 17, off=0", "1000 → 9"]));
    all
}

fn pcap(path: &Path, frames: &[(Sent, &str)]) {
    let mut out = Vec::new();
    let words = |out: &mut Vec<u8>, w: &[u32]| {
        for w in w {
            out.extend(w.to_le_bytes());
        }
    };
    words(&mut out, &[0xa1b2_c3d4, 2 | 4 << 16, 0, 0, 65_535, 1]);
    for (n, (s, _)) in frames.iter().enumerate() {
        words(&mut out, &[n as u32, 0, s.bytes.len() as u32, s.bytes.len() as u32]);
        out.extend(&s.bytes);
    }
    std::fs::write(path, out).unwrap();
}

fn tshark(path: &Path, more: &[&str]) -> Vec<String> {
    let checks = ["ip", "udp", "tcp"].map(|p| format!("{p}.check_checksum:TRUE"));
    let mut c = Command::new("tshark");
    c.arg("-n").arg("-r").arg(path).args(checks.iter().flat_map(|o| ["-o", o]));
    let out = c.args(more).output().unwrap();
    assert!(out.status.success(), "{}", String::from_utf8_lossy(&out.stderr));
    String::from_utf8(out.stdout).unwrap().lines().map(Into::into).collect()
}

#[test]
fn tshark_finds_nothing_wrong() {
    if Command::new("tshark").arg("--version").output().is_err() {
        eprintln!("SKIPPED: tshark_finds_nothing_wrong needs tshark (package tshark)");
        return;
    }
    let frames = everything();
    let path = Path::new(env!("CARGO_TARGET_TMPDIR")).join("router-judged.pcap");
    pcap(&path, &frames);
    let bad = "_ws.malformed || ip.checksum.status == 0 || icmp.checksum.status == 0 \
               || icmpv6.checksum.status == 0 || udp.checksum.status == 0 \
               || arp.duplicate-address-detected";
    let info = ["-T", "fields", "-e", "frame.number", "-e", "_ws.col.Info"];
    assert_eq!(tshark(&path, &[&["-Y", bad], &info[..]].concat()), [""; 0]);
    // The judge did look: every ICMP message's checksum was found good.
    let good = "icmp.checksum.status == 1 || icmpv6.checksum.status == 1";
    let icmp = frames.iter().filter(|f| match f.0.bytes[12..14] {
        [8, 0] => f.0.bytes[23] == 1,
        // At once, or behind a router alert.
        [0x86, 0xdd] => f.0.bytes[20] == 58 || f.0.bytes[20] == 0 && f.0.bytes[54] == 58,
        _ => false,
    });
    let icmp = icmp.count();
    assert!(icmp > 15);
    assert_eq!(tshark(&path, &[&["-Y", good], &info[..]].concat()).len(), icmp);
    let lines = tshark(&path, &info);
    assert_eq!(lines.len(), frames.len());
    for (line, (_, word)) in lines.iter().zip(&frames) {
        assert!(line.contains(word), "expected '{word}', tshark says: {line}");
    }
}
