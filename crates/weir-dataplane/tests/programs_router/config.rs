//! What a router refuses to be told, and how it says so.

use crate::lab::*;
use weir_dataplane::PortNo;
use weir_dataplane::programs::router::{NextHop, Permanent, Prefix, Route, Router, RouterConfig};
use weir_packet::Nanos;
use weir_wire::MacAddr;

/// The words with which a changed configuration is refused.
fn refused(change: impl FnOnce(&mut RouterConfig)) -> String {
    let mut c = config();
    change(&mut c);
    Router::new(&c).expect_err("accepted").to_string()
}

fn route(to: &str, via: NextHop) -> Route {
    Route { to: prefix(to), via }
}

#[test]
fn refusals_name_the_part_and_the_mend() {
    let gateway = |n| NextHop::Gateway(ip4(2, n).into());
    let known = |port, n| Permanent { port: PortNo(port), addr: ip4(2, n).into(), mac: mac(2, n) };
    let cases: Vec<(String, &str)> = vec![
        (refused(|c| c.permanent.push(known(9, 1))), "10.0.2.1 on port 9: the port has no"),
        (refused(|c| c.permanent.push(known(2, 1))), "10.0.2.1 on port 2: is the router itself"),
        // Of another of its links, and link-local.
        (
            refused(|c| c.permanent.push(Permanent { addr: ip4(1, 1).into(), ..known(2, 7) })),
            "10.0.1.1 on port 2: is the router itself",
        ),
        (refused(|c| c.permanent.push(known(3, 7))), "10.0.2.7 on port 3: is in none of that"),
        (
            refused(|c| c.permanent.push(Permanent { addr: ip6(1, 7).into(), ..known(2, 7) })),
            "2001:db8:1::7 on port 2: is in none of that",
        ),
        (
            refused(|c| c.permanent.extend([known(2, 7), known(2, 7)])),
            "10.0.2.7 on port 2: is given twice",
        ),
        (
            refused(|c| c.permanent.push(Permanent { mac: MacAddr::BROADCAST, ..known(2, 7) })),
            "a unicast MAC",
        ),
        (
            refused(|c| {
                c.neighbours.entries = 16;
                c.permanent = (10..19).map(|n| known(2, n)).collect();
            }),
            "10.0.2.18 on port 2: more than half",
        ),
        (refused(|c| c.interfaces.clear()), "no interfaces"),
        (refused(|c| c.interfaces[1].port = PortNo(3)), "two interfaces on port 3"),
        (
            refused(|c| c.interfaces[0].mac = MacAddr::BROADCAST),
            "ff:ff:ff:ff:ff:ff is not a unicast",
        ),
        (refused(|c| c.interfaces[0].mac = MacAddr::ZERO), "port 2"),
        (refused(|c| c.interfaces[2].addresses.clear()), "port 3 has no address"),
        (refused(|c| c.interfaces[0].addresses[0].len = 33), "10.0.2.1/33"),
        (refused(|c| c.interfaces[0].addresses[1].len = 129), "must be 0 to 128"),
        (
            refused(|c| c.interfaces[0].addresses[0] = prefix("10.0.2.0/24")),
            "network's own address",
        ),
        (refused(|c| c.interfaces[0].addresses[0] = prefix("10.0.2.255/24")), "broadcast address"),
        (refused(|c| c.interfaces[0].addresses[0] = prefix("127.0.0.1/8")), "loopback"),
        (refused(|c| c.interfaces[0].addresses[0] = prefix("224.0.0.1/24")), "multicast"),
        (refused(|c| c.interfaces[0].addresses[0] = prefix("10.0.0.1/0")), "everything"),
        (refused(|c| c.interfaces[0].addresses[1] = prefix("2001:db8:2::/64")), "anycast"),
        (refused(|c| c.interfaces[0].addresses[1] = prefix("ff02::1/64")), "multicast"),
        (refused(|c| c.interfaces[0].addresses[0] = prefix("10.0.1.7/24")), "10.0.1.0/24"),
        (refused(|c| c.interfaces[0].addresses.push(prefix("10.0.1.1/32"))), "given twice"),
        (
            refused(|c| {
                let a = &mut c.interfaces[0].addresses;
                a.extend([prefix("fe80::1/64"), prefix("fe80::2/64")]);
            }),
            "two link-local",
        ),
        (refused(|c| c.interfaces[0].mtu = Some(1279)), "MTU 1279 is below 1280"),
        (refused(|c| c.routes.push(route("10.9.1.0/16", gateway(9)))), "did you mean 10.9.0.0/16?"),
        (refused(|c| c.routes.push(route("224.0.0.0/8", gateway(9)))), "unicast networks"),
        (refused(|c| c.routes.push(route("fe80::/64", NextHop::Discard))), "unicast networks"),
        (refused(|c| c.routes.push(route("192.0.2.0/24", gateway(9)))), "192.0.2.0/24: there is"),
        (refused(|c| c.routes.push(route("10.0.1.0/24", gateway(9)))), "interface of that network"),
        (
            refused(|c| {
                c.routes.push(route("10.9.0.0/16", NextHop::Gateway([10, 8, 0, 1].into())));
            }),
            "gateway 10.8.0.1 is in no interface's network",
        ),
        (
            // In a routed network is not in an interface's.
            refused(|c| {
                c.routes.push(route("10.9.0.0/16", NextHop::Gateway([192, 0, 2, 1].into())));
            }),
            "192.0.2.1 is in no interface's network",
        ),
        (refused(|c| c.routes.push(route("10.9.0.0/16", gateway(1)))), "the router itself"),
        (refused(|c| c.routes.push(route("10.9.0.0/16", gateway(255)))), "a broadcast address"),
        (
            refused(|c| c.routes.push(route("10.9.0.0/16", NextHop::Gateway(ip6(2, 9).into())))),
            "the other family",
        ),
        (
            refused(|c| c.routes.push(route("2001:db8:9::/48", NextHop::Gateway(ll(9).into())))),
            "link-local: say by which port",
        ),
        (
            refused(|c| c.routes.push(route("10.9.0.0/16", NextHop::OnLink(PortNo(9))))),
            "port 9 has no interface",
        ),
        (refused(|c| c.neighbours.queue = 0), "neighbours.queue_frames must be at least 1"),
        (refused(|c| c.neighbours.entries = 1), "neighbours.entries must be at least 16"),
        (refused(|c| c.neighbours.entries = 65_537), "neighbours.entries must be at most 65536"),
        (refused(|c| c.neighbours.held = 257), "neighbours.held_frames must be at most 256"),
        (refused(|c| c.neighbours.held = 0), "neighbours.held_frames must be at least 1"),
        (
            refused(|c| c.neighbours.retry = Nanos(9_999_999)),
            "neighbours.retry_ms must be at least 10",
        ),
        (
            refused(|c| c.neighbours.reachable = Nanos(0)),
            "neighbours.reachable_s must be at least 1",
        ),
        (refused(|c| c.neighbours.idle = Nanos(0)), "neighbours.idle_s must be at least 1"),
        (refused(|c| c.icmp.burst = 0), "icmp.burst"),
    ];
    for (text, part) in cases {
        assert!(text.contains(part), "'{part}' is not in: {text}");
        assert!(text.starts_with("router: ") && !text.contains('\n'), "{text}");
    }
}

#[test]
fn what_is_unusual_but_sound() {
    let mut c = config();
    // A point-to-point link without broadcast (RFC 3021), a host route, an address in another's
    // network, the whole of IPv4 by a gateway.
    c.interfaces[0].addresses.push(prefix("172.16.0.0/31"));
    c.interfaces[0].addresses.push(prefix("10.0.1.200/32"));
    c.routes.push(route("10.0.1.77/32", NextHop::OnLink(PortNo(2))));
    c.routes.push(route("0.0.0.0/0", NextHop::Gateway([172, 16, 0, 1].into())));
    c.routes.push(route("::/0", NextHop::Gateway(ip6(1, 9).into())));
    // Neighbours in no network of their link's: link-local, or by a route straight to them.
    let known = |port, addr| Permanent { port: PortNo(port), addr, mac: mac(2, 7) };
    c.permanent.push(known(2, ll(7).into()));
    c.permanent.push(known(2, [10, 0, 1, 77].into()));
    c.permanent.push(known(3, ip4(1, 99).into()));
    c.routes.push(route("203.0.113.0/24", NextHop::GatewayOn(ip4(1, 99).into(), PortNo(3))));
    let r = Router::new(&c).unwrap();
    let explain = |a: &str| r.explain(a.parse().unwrap());
    assert_eq!(explain("10.0.1.77"), "on the link of port 2");
    assert_eq!(explain("10.0.1.78"), "on the link of port 1");
    assert_eq!(explain("10.0.1.255"), "broadcast on port 1");
    assert_eq!(explain("10.0.1.200"), "the router itself");
    assert_eq!(explain("8.8.8.8"), "gateway 172.16.0.1 on port 2");
    assert_eq!(explain("198.51.100.3"), "discard");
    assert_eq!(explain("2001:db9::1"), "gateway 2001:db8:1::9 on port 1");
}

#[test]
fn prefixes_in_words() {
    for text in ["10.0.0.1/24", "0.0.0.0/0", "2001:db8::1/64", "::/0"] {
        assert_eq!(prefix(text).to_string(), text);
    }
    for text in
        ["", "10.0.0.1", "10.0.0.1/33", "10.0.0/8", "::/129", "x/8", "10.0.0.1/-1", "1.2.3.4/"]
    {
        assert!(text.parse::<Prefix>().is_err(), "{text}");
    }
    assert!(prefix("10.1.2.3/8").contains([10, 9, 9, 9].into()));
    assert!(!prefix("0.0.0.0/0").contains(ip6(1, 1).into()));
}
