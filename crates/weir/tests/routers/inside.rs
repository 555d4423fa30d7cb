//! What is set inside a router, or happens to its ports and programs, while it runs.

use super::{Lab, hosts, one, ospf, router, sh, skipped, until, vtysh};
use crate::run_daemon::Daemon;
use serde_json::Value;
use std::path::Path;

fn namespace(d: &Daemon) -> String {
    router(d)["namespace"].as_str().unwrap().to_owned()
}

/// Interfaces inside take packets as long as their ports do, from their first moment on.
#[test]
fn packets_are_as_long_as_a_port_takes() {
    let Some(lab) = Lab::new("packets_are_as_long_as_a_port_takes", 'M') else { return };
    let n = &lab.name;
    let mtu = |to: u32| {
        sh(&format!("ip link set {n}y mtu {to} && ip -n {n}y link set e0 mtu {to}"));
    };
    for plane in ["own", "routed", "bridged", "pearl"] {
        mtu(1400);
        let d = lab.node(&[("lan1", 'x'), ("lan2", 'y')]);
        let s = hosts(&[("here", &d)]);
        // As programs see it when they start.
        let seen = d.path("seen").display().to_string();
        // The same address each time, so that nobody need ask for it again.
        let more = format!(
            "mac = '02:00:00:00:00:aa'\n\
             run = [['/bin/sh', '-c', 'ip link show lan2 >{seen}; exec sleep 1000']]\n"
        );
        s.apply(&one(plane, &more));
        let namespace = namespace(&d);
        let shows = |words: &str| {
            let inside = sh(&format!("ip -n {namespace} link show lan2"));
            inside.contains(words)
        };
        until("a program has looked", || Path::new(&seen).exists());
        until(plane, || std::fs::read_to_string(&seen).unwrap().contains(" mtu 1400 "));
        assert!(shows(" mtu 1400 "), "{plane}");
        assert!(sh(&format!("ip -n {namespace} link show lan1")).contains(" mtu 1500 "));
        mtu(1300);
        until(&format!("{plane}: shorter"), || shows(" mtu 1300 "));
        mtu(1500);
        until(&format!("{plane}: longer"), || shows(" mtu 1500 "));
        // As long as is said goes through.
        until(&format!("{plane}: it passes"), || {
            lab.ping("-c 1 -W 1 -s 1472 -M do").contains(" 1 received")
        });
        d.stop();
    }
    // A link by tunnels: what is left of its network's packets.
    let east = lab.node(&[("port", 'x')]);
    let west = lab.node(&[("port", 'y')]);
    let mut s = hosts(&[("east", &east), ("west", &west)]);
    for (n, name) in [(1, "east"), (2, "west")] {
        let with = format!("name = '{name}'\ntunnel = '127.61.{}.{n}'", std::process::id() % 250);
        s.hosts = s.hosts.replace(&format!("name = '{name}'"), &with);
    }
    let wide = "[[link]]\nbetween = ['east', 'west']\nmtu = 1500\n";
    for (plane, tag, mtu) in
        [("own", "", 1450), ("pearl", "", 1450), ("routed", "vlan = 7\n", 1446)]
    {
        let all = super::linked(plane, ["east", "west"], ["port", "port"], wide)
            .replace("[network.node.router]\n", &format!("[network.node.router]\n{tag}"));
        s.apply(&all);
        for (d, link) in [(&east, "r2"), (&west, "r1")] {
            let inside = sh(&format!("ip -n {} link show {link}", namespace(d)));
            assert!(inside.contains(&format!(" mtu {mtu} ")), "{plane}: {inside}");
        }
        s.ask(&["net", "delete", "red"]);
    }
    east.stop();
    west.stop();
}

fn program<'v>(router: &'v Value, name: &str) -> &'v Value {
    let all = router["programs"].as_array().unwrap();
    all.iter().find(|p| p["name"] == name).unwrap_or_else(|| panic!("{name}: {router}"))
}

/// FRR's daemons begin anew with zebra: routes that others told it are there again.
#[test]
fn zebra_takes_its_clients_along() {
    let test = "zebra_takes_its_clients_along";
    if !Path::new("/usr/lib/frr/ospfd").exists() {
        return skipped(test, "needs frr");
    }
    let Some(lab) = Lab::new(test, 'E') else { return };
    lab.trunk();
    let east = lab.node(&[("lan", 'x'), ("trunk", 't')]);
    let west = lab.node(&[("lan", 'y'), ("trunk", 'u')]);
    let s = hosts(&[("east", &east), ("west", &west)]);
    s.apply(&ospf());
    let learnt = || vtysh(&router(&east), "show ip route ospf").contains("10.2.0.0/24");
    until("the route is learnt", learnt);
    lab.reaches();
    let before = router(&east);
    let pid = |r: &Value, name: &str| program(r, name)["pid"].as_u64();
    sh(&format!("kill -9 {}", pid(&before, "zebra").unwrap()));
    until("both are there again", || {
        let now = router(&east);
        ["zebra", "ospfd"].iter().all(|n| pid(&now, n).is_some() && pid(&now, n) != pid(&before, n))
    });
    until("the route is learnt again", learnt);
    lab.reaches();
    let now = router(&east);
    // It is only who ended by itself that is told to have.
    assert_eq!(
        (program(&now, "zebra")["ended"].as_u64(), program(&now, "ospfd")["ended"].as_u64()),
        (Some(1), Some(0))
    );
    s.ask(&["net", "delete", "red"]);
    east.stop();
    west.stop();
}
