//! What is set inside a router, or happens to its ports and programs, while it runs.

use super::{Lab, has_rule, hosts, one, ospf, router, sh, skipped, until, vtysh};
use crate::run_daemon::Daemon;
use serde_json::Value;
use std::path::Path;

fn namespace(d: &Daemon) -> String {
    router(d)["namespace"].as_str().unwrap().to_owned()
}

/// Echo requests that a host has received.
fn asked(lab: &Lab, side: char) -> u64 {
    let all = sh(&format!("ip netns exec {}{side} cat /proc/net/snmp", lab.name));
    let mut icmp = all.lines().filter(|l| l.starts_with("Icmp: "));
    let [heads, values] = [icmp.next().unwrap(), icmp.next().unwrap()];
    let mut both = heads.split(' ').zip(values.split(' '));
    both.find(|(h, _)| *h == "InEchos").unwrap().1.parse().unwrap()
}

/// Waits until nothing of what x asks comes to y.
fn stops(lab: &Lab, what: &str) {
    until(what, || {
        let before = asked(lab, 'y');
        let said = lab.ping("-c 3 -i 0.05 -W 1");
        said.contains(" 0 received") && asked(lab, 'y') == before
    });
}

/// Frames that the node's VDPs have dropped for a reason.
fn dropped(d: &Daemon, why: &str) -> u64 {
    let all = d.json(&["stats"]);
    let vdps = all["vdps"].as_array().unwrap().iter();
    vdps.map(|v| v["dropped"][why].as_u64().unwrap_or(0)).sum()
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

/// What comes by an interface that was set down inside goes nowhere, and all is there when it is up again.
#[test]
fn an_interface_that_is_set_down_takes_nothing() {
    let Some(lab) = Lab::new("an_interface_that_is_set_down_takes_nothing", 'Q') else { return };
    let d = lab.node(&[("lan1", 'x'), ("lan2", 'y')]);
    let s = hosts(&[("here", &d)]);
    for plane in ["routed", "bridged", "pearl"] {
        s.apply(&one(plane, "").replace("'10.1.0.1/24'", "'10.1.0.1/24', 'fd00:1::1/64'"));
        let inside = namespace(&d);
        lab.reaches();
        // Who asks goes on asking, though nobody answers for the router.
        let mac = router(&d)["mac"].as_str().unwrap().to_owned();
        sh(&format!(
            "ip -n {}x neigh replace 10.1.0.1 lladdr {mac} dev e0 nud permanent",
            lab.name
        ));
        until("a rule forwards", || has_rule(&d, "nw_dst=10.2.0.2"));
        let lost = dropped(&d, "port-down");
        sh(&format!("ip -n {inside} link set lan1 down"));
        stops(&lab, &format!("{plane}: it is down"));
        assert!(dropped(&d, "port-down") > lost, "{plane}: {}", d.json(&["stats"]));
        sh(&format!("ip -n {inside} link set lan1 up"));
        lab.reaches();
        let addresses = sh(&format!("ip -n {inside} -6 address show lan1"));
        assert!(addresses.contains("fd00:1::1/64"), "{plane}: {addresses}");
        s.ask(&["net", "delete", "red"]);
    }
    d.stop();
}

/// Where the kernel does not forward, rules don't either; what is the router's own is answered still.
#[test]
fn rules_forward_while_the_kernel_would() {
    let Some(lab) = Lab::new("rules_forward_while_the_kernel_would", 'W') else { return };
    let n = &lab.name;
    for (side, net) in [('x', 1), ('y', 2)] {
        sh(&format!(
            "ip -n {n}{side} address add fd00:{net}::2/64 dev e0 nodad
             ip -n {n}{side} route add default via fd00:{net}::1"
        ));
    }
    let d = lab.node(&[("lan1", 'x'), ("lan2", 'y')]);
    let s = hosts(&[("here", &d)]);
    let ask = |to: &str| {
        let said = sh(&format!("ip netns exec {n}x ping -n -c 1 -W 1 {to} 2>&1 || true"));
        said.contains(" 1 received")
    };
    for plane in ["routed", "pearl"] {
        s.apply(
            &one(plane, "")
                .replace("'10.1.0.1/24'", "'10.1.0.1/24', 'fd00:1::1/64'")
                .replace("'10.2.0.1/24'", "'10.2.0.1/24', 'fd00:2::1/64'"),
        );
        let inside = namespace(&d);
        let set = |what: &str| sh(&format!("ip netns exec {inside} sysctl -qw {what}"));
        until("IPv6 passes", || ask("fd00:2::2"));
        lab.reaches();
        for one in ["ip_forward", "conf.lan1.forwarding"] {
            set(&format!("net.ipv4.{one}=0"));
            stops(&lab, &format!("{plane}: {one}"));
            until("the router answers", || ask("10.1.0.1"));
            assert!(ask("fd00:2::2"), "{plane}: {one}");
            set(&format!("net.ipv4.{one}=1"));
            lab.reaches();
        }
        set("net.ipv6.conf.all.forwarding=0");
        until(&format!("{plane}: IPv6 stops"), || !ask("fd00:2::2") && !ask("fd00:2::2"));
        until("the router answers", || ask("fd00:1::1"));
        assert!(ask("10.2.0.2"), "{plane}");
        set("net.ipv6.conf.all.forwarding=1");
        until("IPv6 passes again", || ask("fd00:2::2"));
        s.ask(&["net", "delete", "red"]);
    }
    d.stop();
}

/// A port that is not there any more is not up.
#[test]
fn a_port_that_is_removed_takes_its_carrier_along() {
    let test = "a_port_that_is_removed_takes_its_carrier_along";
    let Some(lab) = Lab::new(test, 'H') else { return };
    let d = lab.node(&[("lan1", 'x')]);
    let device = format!("af_packet:{}y", lab.name);
    let s = hosts(&[("here", &d)]);
    for plane in ["own", "routed", "pearl"] {
        d.ask(&["port", "add", "lan2", &device]);
        s.apply(&one(plane, ""));
        let namespace = namespace(&d);
        lab.reaches();
        let shows = |words: &str| sh(&format!("ip -n {namespace} link show lan2")).contains(words);
        d.ask(&["port", "remove", "lan2"]);
        until(&format!("{plane}: it has no carrier"), || shows("NO-CARRIER"));
        let routes = sh(&format!("ip -n {namespace} route show 10.2.0.0/24"));
        assert!(routes.contains("linkdown"), "{plane}: {routes}");
        // An interface that is set down while its port is away holds nothing else up, and is down when that comes back.
        sh(&format!("ip -n {namespace} link set lan2 down"));
        std::thread::sleep(std::time::Duration::from_secs(1));
        assert!(router(&d)["fault"].is_null(), "{plane}: {}", router(&d));
        d.ask(&["port", "add", "lan2", &device]);
        stops(&lab, &format!("{plane}: its interface is down"));
        std::thread::sleep(std::time::Duration::from_secs(1));
        stops(&lab, &format!("{plane}: its interface stays down"));
        sh(&format!("ip -n {namespace} link set lan2 up"));
        lab.reaches();
        s.ask(&["net", "delete", "red"]);
        d.ask(&["port", "remove", "lan2"]);
    }
    d.stop();
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

/// Of a router's programs those go on that are said as before, with what they have started.
#[test]
fn programs_that_do_not_change_go_on() {
    let test = "programs_that_do_not_change_go_on";
    let Some(lab) = Lab::new(test, 'I') else { return };
    let d = lab.node(&[("lan1", 'x'), ("lan2", 'y')]);
    let s = hosts(&[("here", &d)]);
    let with_frr = Path::new("/usr/lib/frr/staticd").exists();
    let said = |route: &str, more: &str| {
        let frr = format!("frr = '''\nip route {route} 10.2.0.2\n'''\n");
        let frr = if with_frr { frr } else { String::new() };
        let child = "['/bin/sh', '-c', 'sleep 1001 & exec sleep 1002']";
        one("own", &format!("{frr}run = [{child}{more}]\n"))
    };
    let pids = |names: &[&str]| {
        let now = router(&d);
        names.iter().map(|n| program(&now, n)["pid"].as_u64().unwrap()).collect::<Vec<_>>()
    };
    let frr: &[&str] = if with_frr { &["zebra", "staticd"] } else { &[] };
    let count = |seconds: u32| {
        let inside = namespace(&d);
        let pids = sh(&format!("ip netns pids {inside}"));
        let is = |pid: &&str| {
            let words = std::fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
            words.ends_with(format!("sleep\0{seconds}\0").as_bytes())
        };
        pids.lines().filter(is).count()
    };
    s.apply(&said("10.77.0.0/16", ""));
    let (own, daemons) = (pids(&["sh"]), pids(frr));
    until("it has begun", || count(1001) == 1);
    let processes = sh(&format!("ip netns pids {}", namespace(&d)));
    // One more program, and one fewer: nobody else notices.
    s.apply(&said("10.77.0.0/16", ", ['/bin/sleep', '1003']"));
    assert_eq!((pids(&["sh"]), pids(frr)), (own.clone(), daemons.clone()));
    until("it has begun, too", || count(1003) == 1);
    assert_eq!([1001, 1002].map(count), [1, 1]);
    s.apply(&said("10.77.0.0/16", ""));
    assert_eq!(sh(&format!("ip netns pids {}", namespace(&d))), processes);
    // Another text is FRR's alone.
    if with_frr {
        s.apply(&said("10.78.0.0/16", ""));
        assert_eq!(pids(&["sh"]), own);
        assert!(pids(frr).iter().all(|p| !daemons.contains(p)));
        until("its route is there", || {
            let all = sh(&format!("ip -n {} route show", namespace(&d)));
            all.contains("10.78.0.0/16") && !all.contains("10.77.0.0/16")
        });
    }
    assert_eq!([1001, 1002].map(count), [1, 1]);
    s.ask(&["net", "delete", "red"]);
    d.stop();
}
