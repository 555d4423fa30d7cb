//! One switch whose ports are on several physical nodes. Frames come and go by wires inside the nodes, at
//! whose other ends tenants of the test's own sit, who stand for what is outside.

use super::super::run_daemon::{Daemon, LIMIT};
use super::super::{Supervisor, node_by};
use super::{Tenant, addresses, frame, joined, made};
use crate::certificates::Authority;
use serde_json::Value;
use std::time::Instant;

/// A node with wires of these names inside: a port at each end, the other's with an `x` behind.
fn wired(ca: &Authority, wires: &[&str]) -> (Daemon, String) {
    let mut ports = Vec::new();
    for w in wires {
        ports.push(((*w).to_owned(), format!("memory:{w}")));
        ports.push((format!("{w}x"), format!("memory:{w}")));
    }
    let ports: Vec<(&str, &str)> = ports.iter().map(|(p, d)| (&**p, &**d)).collect();
    node_by(super::super::weir(), "127.0.0.1", &ports, ca)
}

/// A network of one switch.
fn one(t: &Tenant, on: &str, ports: &str, rest: &str) -> String {
    let at = t.listener.local_addr().unwrap();
    let ports: Vec<String> = ports.split(' ').map(|p| format!("'{p}'")).collect();
    format!(
        "[[network]]\nname = '{}'\ncontrollers = ['tcp:{at}']\n{rest}\n[[network.node]]\nname = 's1'\n\
         host = '{on}'\nports = [{}]\nfabric = {{ mtu = 1400, probe_ms = 200 }}\n\
         openflow = {{ datapath_id = '0000000000000001' }}\n",
        t.name,
        ports.join(", ")
    )
}

fn tagged(vlan: u8, by: &str, n: u32) -> Vec<u8> {
    let mut f = frame(by, n, 80);
    f.splice(12..12, [0x81, 0, 0, vlan]);
    f
}

#[test]
fn a_switch_has_ports_on_several_nodes_and_shares_them_with_another() {
    let (ca, at) = (Authority::new(), addresses());
    let (east, a) = wired(&ca, &["e1", "e2"]);
    let (west, b) = wired(&ca, &["w1", "w2"]);
    let (north, c) = wired(&ca, &[]);
    let mut s = Supervisor::new(&ca, &[]);
    for (n, (name, api)) in [("east", &a), ("west", &b), ("north", &c)].into_iter().enumerate() {
        let tunnel = at(n as u8 + 1);
        s.hosts += &format!("[[host]]\nname = '{name}'\napi = '{api}'\ntunnel = '{tunnel}'\n");
    }
    s.hosts = format!("verify = true\n{}{}", s.hosts, joined("east-north north-west"));
    let before: Vec<_> = [&east, &west, &north].map(made).into();
    let names = ["red", "blue", "green", "oute", "outw"];
    let [mut red, mut blue, mut green, mut oute, mut outw] = names.map(Tenant::new);
    let second = "[[network.node]]\nname = 's2'\nhost = 'west'\n\
                  openflow = { datapath_id = '0000000000000002' }\n\
                  [[network.link]]\nbetween = ['s1', 's2']\n";
    let lab = [
        one(&red, "east", "e1 west:w1", "flow_space = ['dl_vlan=10']"),
        // The same ports, by another host, in another order.
        one(&blue, "west", "east:e1 west:w1", "flow_space = ['dl_vlan=20']"),
        one(&green, "east", "west:w2 e2", "") + second,
        one(&oute, "east", "e1x e2x", "").replace("fabric = { mtu = 1400, probe_ms = 200 }\n", ""),
        one(&outw, "west", "w1x w2x", "").replace("fabric = { mtu = 1400, probe_ms = 200 }\n", ""),
    ];
    let lab = lab.concat();
    let said = s.apply(&lab);
    assert!(said.contains("+ east: port red.s1.west.w1 of vxlan:"), "{said}");
    assert!(s.apply(&lab).contains("nothing differs"));
    for (t, switches) in [(&mut red, 1), (&mut blue, 1), (&mut green, 2)] {
        t.accept(switches);
    }
    oute.accept(1);
    outw.accept(1);
    // A way whose other end is made later begins silent: frames would be dropped until it is heard.
    let heard = |d: &Daemon, name: &str| {
        let p = d.port(name);
        let ways = p["ways"].as_array().cloned().unwrap_or_default();
        p["up"] == true && !ways.is_empty() && ways.iter().all(|w| w["delay"]["least_ns"].is_u64())
    };
    for name in ["red.s1.west.w1", "blue.s1.east.e1", "green.s1.west.w2"] {
        east.until("its way is heard", |d| heard(d, name));
        west.until("its way is heard", |d| heard(d, name));
    }
    // To the ports, and what is another's is not let out.
    red.send(1, 2, &tagged(20, "red", 0));
    red.send(1, 2, &frame("red", 0, 80));
    red.send(1, 2, &tagged(10, "red", 1));
    assert_eq!(outw.next(1), (1, tagged(10, "red", 1)));
    red.send(1, 1, &tagged(10, "red", 2));
    assert_eq!(oute.next(1), (1, tagged(10, "red", 2)));
    blue.send(1, 1, &tagged(20, "blue", 3));
    assert_eq!(oute.next(1), (1, tagged(20, "blue", 3)));
    blue.send(1, 2, &tagged(20, "blue", 4));
    assert_eq!(outw.next(1), (1, tagged(20, "blue", 4)));
    // From the ports: each its own.
    for n in 0..4 {
        for vlan in [10, 20, 30] {
            outw.send(1, 1, &tagged(vlan, "west", n));
            oute.send(1, 1, &tagged(vlan, "east", n));
        }
    }
    for (t, vlan, ports) in [(&mut red, 10, [1, 2]), (&mut blue, 20, [1, 2])] {
        let mut got: Vec<_> = (0..8).map(|_| t.next(1)).collect();
        got.sort_by_key(|(port, _)| *port);
        let want = |n: usize| (ports[n / 4], tagged(vlan, ["east", "west"][n / 4], n as u32 % 4));
        assert_eq!(got, (0..8).map(want).collect::<Vec<_>>(), "{}", t.name);
    }
    // Who looks for his topology finds his switches and the link between them, whatever the ports are on.
    for port in 1..=3 {
        let mut lldp = frame("lldp", port, 80);
        lldp[12..14].copy_from_slice(&[0x88, 0xcc]);
        green.send(1, port, &lldp);
    }
    let (port, got) = green.next(2);
    assert_eq!((port, got[14..18].to_vec()), (1, vec![0, 0, 0, 3]));
    assert_eq!((outw.next(1).0, oute.next(1).0), (2, 2));
    for t in [&mut red, &mut blue, &mut green, &mut oute, &mut outw] {
        assert_eq!(t.came(1), Vec::<Vec<u8>>::new(), "{}", t.name);
    }
    assert_eq!(green.came(2), Vec::<Vec<u8>>::new());
    // It is proved, shown, and its ways are measured.
    for d in [&east, &west, &north] {
        let proof = d.json(&["net", "verify"]);
        assert_eq!(proof["isolated"], true, "{proof}");
    }
    let shown: Value = serde_json::from_str(&s.ask(&["net", "show", "red", "-o", "json"])).unwrap();
    let link = &shown["result"]["links"][0];
    assert_eq!((&link["link"], &link["carried"]), (&"s1.west:w1".into(), &"tunnel".into()));
    assert_eq!(link["ways"][0]["hosts"], serde_json::json!(["east", "north", "west"]));
    let begun = Instant::now();
    let look = || {
        let o =
            s.ask(&["net", "monitor", "red", "--count", "1", "--interval-ms", "50", "-o", "json"]);
        let v: Value = serde_json::from_str(&o).unwrap();
        v["links"].as_array().unwrap().iter().filter(|l| l["delay"]["least_ns"].is_u64()).count()
    };
    while look() < 2 {
        assert!(begun.elapsed() < LIMIT, "delays to the port elsewhere are not known");
    }
    s.ask(&["net", "delete", "red", "green", "oute", "outw"]);
    s.ask(&["net", "delete", "blue"]);
    assert_eq!([&east, &west, &north].map(made).to_vec(), before);
    [east, west, north].into_iter().for_each(|d| drop(d.stop()));
}
