//! The slow-path programs on any bytes, with few spare frames and time passing: no panic, and
//! every frame ends exactly once. Seeds: none needed; the first byte picks the program.
//!
//! Input: a byte for the program, then for each frame four bytes (port, spare frames and what to
//! mend, time to pass, length in units of 8) and the frame. What is mended gets past the checks
//! that noise fails: the program's MAC as destination, the checksums of IPv4 and ICMP.
#![no_main]

use libfuzzer_sys::fuzz_target;
use std::collections::VecDeque;
use weir_dataplane::programs::balancer::{Backend, Balancer, BalancerConfig, Service};
use weir_dataplane::programs::bng::{AccessPort, Bng, BngConfig, BngRoute, Circuits, CorePort};
use weir_dataplane::programs::firewall::{Allow, Firewall, FirewallConfig, Midstream};
use weir_dataplane::programs::nat::{Nat, NatConfig, NatSide};
use weir_dataplane::programs::router::{Interface, NextHop, Route, Router, RouterConfig};
use weir_dataplane::programs::{Endpoint, Kind, by_name, names};
use weir_dataplane::{End, PortNo, Program, ProgramCx, ProgramPort, Punt, SlowFrame, Vid};
use weir_packet::{Nanos, Pool};
use weir_wire::ipv6_ext::walk;
use weir_wire::{
    EtherType, EthernetFrame, Icmpv4Packet, Icmpv6Packet, IpProtocol, Ipv4Packet, Ipv6Packet,
    MacAddr,
};

fn router() -> Router {
    let interface = |n: u8, mtu| Interface {
        port: PortNo(n.into()),
        mac: MacAddr([2, 0, 0, 0, 0, n]),
        addresses: [format!("10.0.{n}.1/24"), format!("2001:db8:{n}::1/64")]
            .iter()
            .map(|a| a.parse().expect("an address"))
            .collect(),
        mtu,
    };
    let mut config = RouterConfig {
        interfaces: vec![interface(1, None), interface(2, None), interface(3, Some(1280))],
        routes: vec![Route {
            to: "192.0.2.0/24".parse().expect("a prefix"),
            via: NextHop::Gateway([10, 0, 2, 9].into()),
        }],
        ..RouterConfig::default()
    };
    (config.neighbours.entries, config.neighbours.held) = (16, 8);
    Router::new(&config).expect("a sound configuration")
}

/// The MAC address on a port, of each program.
fn mac(port: u8) -> MacAddr {
    MacAddr([2, 0, 0, 0, 0, port])
}

fn nat() -> Nat {
    let side = |n: u8| NatSide { port: PortNo(n.into()), mac: mac(n) };
    let external = vec![[10, 0, 2, 1].into(), [10, 0, 2, 2].into()];
    let mut config = NatConfig::new(side(1), side(2), mac(9), external);
    (config.ports, config.max_mappings) = (1..=16, 20);
    Nat::new(&config).expect("a sound configuration")
}

fn firewall(midstream: Midstream) -> Firewall {
    let mut config = FirewallConfig::between(PortNo(1), PortNo(2));
    let to = "10.0.0.0/8".parse().expect("a prefix");
    config.allow = vec![Allow { protocol: Kind::Tcp, to, ports: 0..=1023 }];
    config.max_connections = 8;
    config.midstream = midstream;
    Firewall::new(&config).expect("a sound configuration")
}

fn balancer() -> Balancer {
    let backend = |n: u8| Backend { name: n.to_string(), port: PortNo(n.into()), mac: mac(n) };
    let service = |protocol| Service {
        at: Endpoint::new([10, 0, 1, 1].into(), 53),
        protocol,
        backends: vec![backend(2), backend(3)],
    };
    let mut config = BalancerConfig::new(mac(1), [Kind::Tcp, Kind::Udp].map(service).into());
    config.max_connections = 8;
    Balancer::new(&config).expect("a sound configuration")
}

/// Its MAC addresses are those that mending writes; circuits and routes are such as noise finds.
fn gateway() -> Bng {
    let config = BngConfig {
        access: vec![AccessPort { port: PortNo(1), mac: mac(1) }],
        core: [2, 3].map(|n| CorePort { port: PortNo(n.into()), mac: mac(n) }).to_vec(),
        tunnel: [10, 0, 2, 1].into(),
        circuits: vec![Circuits { outer: 0, first: 0, last: 63, key: 0 }],
        routes: ["0.0.0.0/1", "192.0.2.0/27"]
            .map(|to| BngRoute {
                to: to.parse().expect("a prefix"),
                port: PortNo(2),
                next_hop: mac(9),
                label: 16,
                remote: [10, 0, 2, 9].into(),
            })
            .to_vec(),
        subscribers: 4,
        ..BngConfig::default()
    };
    Bng::new(&config).expect("a sound configuration")
}

fn mend_checksums(bytes: &mut [u8]) {
    let mut eth = EthernetFrame::new_unchecked(bytes);
    match eth.ether_type() {
        EtherType::Ipv4 => {
            let mut ip = Ipv4Packet::new_unchecked(eth.payload_mut());
            ip.fill_checksum();
            if ip.protocol() == IpProtocol::Icmp {
                Icmpv4Packet::new_unchecked(ip.payload_mut()).fill_checksum();
            }
        }
        EtherType::Ipv6 => {
            let mut ip = Ipv6Packet::new_unchecked(eth.payload_mut());
            // Multicast listener messages have a header in front.
            if let Ok(w) = walk(ip.next_header(), ip.payload())
                && w.protocol == IpProtocol::Icmpv6
                && let pseudo = ip.pseudo_header()
                && let Some(icmp) = ip.payload_mut().get_mut(w.at..)
            {
                Icmpv6Packet::new_unchecked(icmp).fill_checksum(&pseudo);
            }
        }
        _ => {}
    }
}

fuzz_target!(|data: &[u8]| {
    let Some((pick, mut rest)) = data.split_first() else { return };
    let all = names();
    let name = all[usize::from(*pick) % all.len()];
    let mut program: Box<dyn Program> = by_name(name).unwrap_or_else(|_| match name {
        "balancer" => Box::new(balancer()),
        "bng" => Box::new(gateway()),
        "firewall" if pick & 0x40 == 0 => Box::new(firewall(Midstream::Refuse)),
        "firewall" => Box::new(firewall(Midstream::Follow)),
        "nat" => Box::new(nat()),
        _ => Box::new(router()),
    });
    let ports = [1, 2, 3].map(|n| ProgramPort {
        no: PortNo(n),
        up: n != 3 || pick & 0x80 == 0,
        floods: true,
        max_frame_bytes: 1514,
        ip_bytes: 1500,
    });
    let mut pool = Pool::new(64, 2048).expect("a small pool");
    let (mut done, mut spare, mut refused) = (VecDeque::new(), Vec::new(), 0);
    let mut now = Nanos(0);
    while let Some((&[port, spares, wait, units], tail)) = rest.split_first_chunk::<4>() {
        let (bytes, tail) = tail.split_at(tail.len().min(usize::from(units) * 8));
        rest = tail;
        while spare.len() < usize::from(spares % 8) {
            spare.push(pool.alloc().expect("frames were lost"));
        }
        let mut frame = pool.alloc().expect("frames were lost");
        if frame.copy_from(bytes).is_err() {
            pool.free(frame);
            continue;
        }
        if spares & 0x40 != 0 {
            EthernetFrame::new_unchecked(frame.bytes_mut()).set_dst(mac(port % 4));
        }
        if spares & 0x80 != 0 {
            mend_checksums(frame.bytes_mut());
        }
        now = now + Nanos::from_millis(u64::from(wait) * u64::from(wait));
        let mut cx = ProgramCx::new(Vid(1), now, &ports, &mut done, &mut spare, &mut refused);
        let in_port = PortNo(u32::from(port % 4));
        let _ = program.expect(&frame, in_port);
        program.expect_further(&frame, in_port);
        program.frame(SlowFrame { frame, in_port, why: Punt::Default }, &mut cx);
        program.tick(&mut cx);
        for d in done.drain(..) {
            assert!(!matches!(d.end, End::Spare));
            pool.free(d.frame);
        }
        assert_eq!(pool.outstanding(), spare.len() + program.held());
    }
    let mut cx = ProgramCx::new(Vid(1), now, &ports, &mut done, &mut spare, &mut refused);
    program.release(&mut cx);
    assert_eq!(program.held(), 0);
    assert_eq!(pool.outstanding(), spare.len() + done.len());
    // Home, so that the pool can give its memory back.
    for frame in spare.into_iter().chain(done.into_iter().map(|d| d.frame)) {
        pool.free(frame);
    }
});
