//! The load balancer: every connection at one backend while that is there, whatever comes and
//! goes; frames as they were but for Ethernet's addresses.

use super::*;
use crate::programs_rig::Rig;
use proptest::prelude::*;
use std::collections::{BTreeMap, HashMap};
use weir_dataplane::programs::balancer::{
    Backend, Balancer, BalancerConfig, BalancerError, Service,
};
use weir_dataplane::{PortNo, Program};
use weir_packet::Nanos;

const OURS: MacAddr = MacAddr([2, 0, 0, 0, 0xba, 1]);

fn backend(n: u8) -> Backend {
    Backend { name: format!("b{n}"), port: PortNo(2 + u32::from(n % 2)), mac: mac(100 + n) }
}
fn web() -> Service {
    let backends = (0..5).map(backend).collect();
    Service { at: end([198, 51, 100, 1], 80), protocol: Kind::Tcp, backends }
}
fn dns() -> Service {
    let backends = (3..6).map(backend).collect();
    Service { at: end([198, 51, 100, 2], 53), protocol: Kind::Udp, backends }
}
fn config() -> BalancerConfig {
    BalancerConfig::new(OURS, vec![web(), dns()])
}

fn packet(src: Endpoint, dst: Endpoint, l4: L4) -> Vec<u8> {
    Packet { macs: (mac(1), OURS), src, dst, l4, ttl: 1, data: b"request" }.frame()
}
fn client(n: u16) -> Endpoint {
    end([203, 0, 113, (n >> 8) as u8], 1024 + n)
}

/// Which backend got it, as it was but for Ethernet's addresses.
fn served(r: &mut Rig, f: &[u8]) -> Option<u8> {
    let o = r.rx(1, f);
    if refused(&o) {
        return None;
    }
    let sent = o.one();
    let eth = EthernetFrame::new_checked(&sent.bytes[..]).unwrap();
    assert_eq!((eth.src(), &sent.bytes[12..]), (OURS, &f[12..]));
    let n = (0..10).find(|n| mac(100 + n) == eth.dst()).expect("a backend's MAC");
    assert_eq!(PortNo(sent.port), backend(n).port);
    Some(n)
}
fn ask(r: &mut Rig, n: u16) -> u8 {
    served(r, &packet(client(n), web().at, L4::Tcp(SYN))).unwrap()
}
fn go_on(r: &mut Rig, n: u16) -> u8 {
    served(r, &packet(client(n), web().at, L4::Tcp(ACK))).unwrap()
}

#[test]
fn connections_are_spread_and_stay() {
    let mut r = Rig::new(Balancer::new(&config()).unwrap(), 3);
    let first: Vec<u8> = (0..500).map(|n| ask(&mut r, n)).collect();
    let mut each = BTreeMap::<u8, usize>::new();
    first.iter().for_each(|b| *each.entry(*b).or_default() += 1);
    // 500 balls into 5 urns: 100 each, give or take four standard deviations.
    assert!(each.len() == 5 && each.values().all(|n| n.abs_diff(100) < 36), "{each:?}");
    assert!((0..500).all(|n| go_on(&mut r, n) == first[usize::from(n)]));
    // Another balancer says the same, without having seen the beginning.
    let mut other = Rig::new(Balancer::new(&config()).unwrap(), 3);
    assert!((0..500).all(|n| go_on(&mut other, n) == first[usize::from(n)]));
    // With another seed, another spread.
    let mut seeded = Rig::new(Balancer::new(&BalancerConfig { seed: 1, ..config() }).unwrap(), 3);
    assert!((0..500).any(|n| go_on(&mut seeded, n) != first[usize::from(n)]));
    let dns: Vec<_> =
        (0..50).map(|n| served(&mut r, &packet(client(n), dns().at, L4::Udp)).unwrap()).collect();
    assert!(dns.iter().all(|b| (3..6).contains(b)));
}

#[test]
fn a_full_table_goes_by_the_hash() {
    let config = BalancerConfig { max_connections: 10, ..config() };
    let mut r = Rig::new(Balancer::new(&config).unwrap(), 3);
    let mut free = Rig::new(Balancer::new(&self::config()).unwrap(), 3);
    for n in 0..200 {
        assert_eq!(ask(&mut r, n), ask(&mut free, n));
    }
    let lines = r.program.status();
    assert!(lines.contains(&("connections".into(), "10 of 10".into())), "{lines:?}");
    assert!(lines.contains(&("untracked".into(), "190".into())), "{lines:?}");
}

#[test]
fn errors_follow_their_connection() {
    let mut r = Rig::new(Balancer::new(&config()).unwrap(), 3);
    for n in 0..50 {
        let at = ask(&mut r, n);
        // What the backend answered, too long for a router on the way to the client.
        let answer = Packet {
            macs: (mac(1), mac(2)),
            src: web().at,
            dst: client(n),
            l4: L4::Tcp(ACK),
            ttl: 9,
            data: b"answer",
        };
        let router = [192, 0, 2, 99].into();
        let f = error((mac(1), OURS), router, web().at.addr, &answer.frame(), 8);
        assert_eq!(served(&mut r, &bytes(f)), Some(at));
        let f = error((mac(1), OURS), router, dns().at.addr, &answer.frame(), 8);
        assert_eq!(served(&mut r, &bytes(f)), None, "quoted from another address");
    }
}

#[test]
fn a_backend_goes_and_comes() {
    let mut balancer = Balancer::new(&config()).unwrap();
    let mut done = std::collections::VecDeque::new();
    let mut pool = weir_packet::Pool::new(8, 2048).unwrap();
    let mut at = |b: &mut Balancer, n: u16, l4| {
        let (mut spare, mut refused, ports) =
            (Vec::new(), 0, [1, 2, 3].map(crate::programs_rig::port));
        let mut cx = weir_dataplane::ProgramCx::new(
            weir_dataplane::Vid(1),
            Nanos(0),
            &ports,
            &mut done,
            &mut spare,
            &mut refused,
        );
        let mut frame = pool.alloc().unwrap();
        frame.copy_from(&packet(client(n), web().at, l4)).unwrap();
        let why = weir_dataplane::Punt::Default;
        b.frame(weir_dataplane::SlowFrame { frame, in_port: PortNo(1), why }, &mut cx);
        let d = done.pop_front().unwrap();
        let to = EthernetFrame::new_checked(d.frame.bytes()).unwrap().dst();
        pool.free(d.frame);
        (0..10).find(|n| mac(100 + n) == to).unwrap()
    };
    let before: Vec<u8> = (0..400).map(|n| at(&mut balancer, n, L4::Tcp(SYN))).collect();
    // Without backend 2, in another order: only its own connections move.
    let mut less = web();
    less.backends.remove(2);
    less.backends.reverse();
    balancer.set_backends(&less).unwrap();
    let lost = before.iter().filter(|b| **b == 2).count();
    assert_eq!(balancer.counters().orphaned, lost as u64);
    let after: Vec<u8> = (0..400).map(|n| at(&mut balancer, n, L4::Tcp(ACK))).collect();
    assert!(before.iter().zip(&after).all(|(b, a)| if *b == 2 { *a != 2 } else { a == b }));
    // It is back: what it had stays where it went, new connections find it again.
    balancer.set_backends(&web()).unwrap();
    assert!((0..400).all(|n| at(&mut balancer, n, L4::Tcp(ACK)) == after[usize::from(n)]));
    let new: Vec<u8> = (400..800).map(|n| at(&mut balancer, n, L4::Tcp(SYN))).collect();
    assert!(new.contains(&2));
    let mut fresh = Balancer::new(&config()).unwrap();
    assert!((400..800).zip(&new).all(|(n, b)| at(&mut fresh, n, L4::Tcp(SYN)) == *b));
    let e = balancer.set_backends(&Service { at: dns().at, ..web() }).unwrap_err();
    assert_eq!(e, BalancerError::NoSuchService(dns().at));
}

#[test]
fn time_ends_connections() {
    let mut r = Rig::new(Balancer::new(&config()).unwrap(), 3);
    let live =
        |r: &Rig| r.program.status().iter().find(|l| l.0 == "connections").unwrap().1.clone();
    ask(&mut r, 1);
    served(&mut r, &packet(client(2), dns().at, L4::Udp));
    ask(&mut r, 3);
    served(&mut r, &packet(client(3), web().at, L4::Tcp(RST)));
    assert_eq!(live(&r), "3 of 65536");
    let mut pass = |s| {
        r.pass(Nanos::from_secs(s), Nanos::from_millis(20));
        live(&r)
    };
    assert_eq!(pass(29), "3 of 65536");
    assert_eq!(pass(8), "2 of 65536");
    assert_eq!(pass(82), "2 of 65536");
    assert_eq!(pass(8), "1 of 65536");
}

#[test]
fn bad_frames_end_here() {
    let mut r = Rig::new(Balancer::new(&config()).unwrap(), 3);
    for (what, f) in bad_frames(OURS, client(1), web().at) {
        assert!(r.rx(1, &f).sent.is_empty(), "{what}");
    }
    let refused_too = [
        packet(client(1), end([198, 51, 100, 1], 81), L4::Tcp(SYN)),
        packet(client(1), web().at, L4::Udp),
        packet(client(1), web().at, L4::Ask),
    ];
    assert!(refused_too.iter().all(|f| refused(&r.rx(1, f))));
    let mut f = packet(client(1), web().at, L4::Tcp(SYN));
    f[5] ^= 1;
    assert!(refused(&r.rx(1, &f)), "another's MAC");
    assert_eq!(who_has(&mut r, 1, web().at.addr), Some(OURS));
    assert_eq!(who_has(&mut r, 1, [198, 51, 100, 9].into()), None);
    r.spares(0);
    let whole =
        Frame::udp_v4("10.0.0.1:1".parse().unwrap(), "198.51.100.2:53".parse().unwrap(), b"");
    let f = fragment(whole.macs(mac(1), OURS), 8);
    assert_eq!(r.rx(1, &f).only_drop(), DropReason::Fragment);
}

#[test]
fn what_cannot_be_is_said() {
    let wrong = |change: &dyn Fn(&mut BalancerConfig)| {
        let mut c = config();
        change(&mut c);
        Balancer::new(&c).unwrap_err()
    };
    assert_eq!(wrong(&|c| c.services.clear()), BalancerError::Services(0));
    assert!(matches!(wrong(&|c| c.mac = MacAddr::BROADCAST), BalancerError::Mac { .. }));
    assert!(matches!(wrong(&|c| c.services[0].backends.clear()), BalancerError::Backends { .. }));
    assert_eq!(wrong(&|c| c.services[0].protocol = Kind::Query), BalancerError::Protocol(web().at));
    assert_eq!(
        wrong(&|c| c.services[0].at.port = 0).to_string(),
        format!("balancer: service {}:0: ports are 1 to 65535", web().at.addr)
    );
    let e = wrong(&|c| c.services[0].backends[0].mac = OURS).to_string();
    assert!(e.ends_with(&format!("has the balancer's own MAC {OURS}; give its own")), "{e}");
    assert_eq!(wrong(&|c| c.services[1] = web()), BalancerError::ServiceTwice(web().at));
    let e = wrong(&|c| c.services[1].backends[0].mac = mac(1));
    assert_eq!(e, BalancerError::BackendDiffers("b3".into()));
    let e = wrong(&|c| c.services[1].backends[1].name = "b3".into());
    assert!(matches!(e, BalancerError::BackendTwice { .. }));
    assert_eq!(wrong(&|c| c.max_connections = 0), BalancerError::Connections(0));
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(16))]

    /// Frames in any order: where a connection went first, it goes.
    #[test]
    fn a_connection_has_one_backend(
        steps in prop::collection::vec((0u16..40, 0u16..64, any::<bool>()), 100..600),
        max in prop_oneof![Just(4usize), Just(1000)],
    ) {
        let config = BalancerConfig { max_connections: max, ..config() };
        let mut r = Rig::new(Balancer::new(&config).unwrap(), 3);
        let mut first = HashMap::new();
        for (n, flags, tcp) in steps {
            let (to, l4) = if tcp { (web().at, L4::Tcp(Flags(flags))) } else { (dns().at, L4::Udp) };
            let at = served(&mut r, &packet(client(n), to, l4)).unwrap();
            prop_assert_eq!(*first.entry((n, tcp)).or_insert(at), at);
        }
    }
}

/// A balancer that is told something else keeps connections at the backends that are still their service's.
#[test]
fn connections_outlive_a_change_of_services() {
    let mut r = Rig::new(Balancer::new(&config()).unwrap(), 3);
    let at: Vec<u8> = (0..500).map(|n| ask(&mut r, n)).collect();
    let dns_at = |r: &mut Rig, n| served(r, &packet(client(n), dns().at, L4::Udp));
    let dns_before: Vec<_> = (0..50).map(|n| dns_at(&mut r, n)).collect();
    // One goes, one comes, they are in another order, and there is room for others.
    let backends = [9, 4, 3, 1, 2].map(backend).into();
    let c = BalancerConfig {
        services: vec![dns(), Service { backends, ..web() }],
        max_connections: 1000,
        ..config()
    };
    r.replace(Balancer::new(&c).unwrap());
    for n in 0..500 {
        let (was, is) = (at[usize::from(n)], go_on(&mut r, n));
        assert!(is == was || was == 0 && is != 0, "connection {n} from {was} to {is}");
    }
    assert_eq!((0..50).map(|n| dns_at(&mut r, n)).collect::<Vec<_>>(), dns_before);
    let orphaned = at.iter().filter(|b| **b == 0).count().to_string();
    let lines = r.program.status();
    assert!(lines.contains(&("orphaned".into(), orphaned)), "{lines:?}");
    // A service that goes takes its own along.
    r.replace(Balancer::new(&BalancerConfig { services: vec![dns()], ..config() }).unwrap());
    assert_eq!((0..50).map(|n| dns_at(&mut r, n)).collect::<Vec<_>>(), dns_before);
    assert_eq!(served(&mut r, &packet(client(1), web().at, L4::Tcp(ACK))), None);
}
