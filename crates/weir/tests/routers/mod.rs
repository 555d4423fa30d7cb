//! Virtual routers on real `weir run`s: frames through each arrangement, FRR inside, limits, and that nothing
//! is left. Needs root, ip, ping; FRR for some.

mod addresses;
mod inside;
mod kinds;
mod programs;

use super::Supervisor;
use super::run_daemon::{Daemon, LIMIT, has, is_root, skipped};
use rustix::process::Signal;
use serde_json::Value;
use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

fn sh(command: &str) -> String {
    let o = Command::new("sh").args(["-ec", command]).output().unwrap();
    let text = |b: &[u8]| String::from_utf8_lossy(b).into_owned();
    assert!(o.status.success(), "{command}\n{}{}", text(&o.stdout), text(&o.stderr));
    text(&o.stdout)
}

fn quietly(command: &str) {
    // What is gone already need not go.
    let _ = Command::new("sh").args(["-c", command]).output();
}

/// Until `f` holds.
fn until(what: &str, mut f: impl FnMut() -> bool) {
    let end = Instant::now() + LIMIT;
    while !f() {
        assert!(Instant::now() < end, "{what}: not within {LIMIT:?}");
        std::thread::sleep(Duration::from_millis(100));
    }
}

/// Two hosts in namespaces, x (10.1.0.2) and y (10.2.0.2), whose gateways are their networks' first
/// addresses; their links end here. With a third, z (10.3.0.2), where it is asked for.
struct Lab {
    name: String,
}

impl Lab {
    /// `None`, said aloud, where it can't be made.
    fn new(test: &str, letter: char) -> Option<Self> {
        if !is_root() || !has("ip") || !has("ping") {
            skipped(test, "needs root, ip and ping");
            return None;
        }
        let lab = Self { name: format!("vr{letter}{}", std::process::id() % 1_000_000) };
        let n = &lab.name;
        if !Command::new("ip").args(["netns", "add", &format!("{n}x")]).status().unwrap().success()
        {
            skipped(test, "network namespaces can't be made here");
            return None;
        }
        lab.connect('x', 1);
        lab.host('y', 2);
        Some(lab)
    }

    /// One more host.
    fn host(&self, side: char, net: u8) {
        sh(&format!("ip netns add {}{side}", self.name));
        self.connect(side, net);
    }

    fn connect(&self, side: char, net: u8) {
        let n = &self.name;
        sh(&format!(
            "ip link add {n}{side} type veth peer name e0 netns {n}{side}
             sysctl -qw net.ipv6.conf.{n}{side}.disable_ipv6=1
             ip -n {n}{side} link set lo up
             ip -n {n}{side} link set e0 address 02:00:00:00:00:0{net} up
             ip -n {n}{side} addr add 10.{net}.0.2/24 dev e0
             ip -n {n}{side} route add default via 10.{net}.0.1
             ip link set {n}{side} up"
        ));
    }

    /// A physical link between two nodes of this machine.
    fn trunk(&self) {
        let n = &self.name;
        sh(&format!(
            "ip link add {n}t type veth peer name {n}u
             for i in {n}t {n}u; do sysctl -qw net.ipv6.conf.$i.disable_ipv6=1; ip link set $i up; done"
        ));
    }

    /// A physical node with these ports, by what their devices end in.
    fn node(&self, ports: &[(&str, char)]) -> Daemon {
        let mut config = String::from("[dataplane]\nframes = 8192\n");
        for (p, end) in ports {
            let device = format!("{}{end}", self.name);
            config.push_str(&format!("[[port]]\nname = '{p}'\ndevice = 'af_packet:{device}'\n"));
        }
        Daemon::start(&config, &[])
    }

    /// What x's ping says.
    fn ping(&self, more: &str) -> String {
        sh(&format!("ip netns exec {}x ping -n {more} 10.2.0.2 2>&1 || true", self.name))
    }

    /// Answers that x's kernel has counted, whoever still waits for them.
    fn answers(&self) -> u64 {
        let all = sh(&format!("ip netns exec {}x cat /proc/net/snmp", self.name));
        let mut icmp = all.lines().filter(|l| l.starts_with("Icmp: "));
        let [heads, values] = [icmp.next().unwrap(), icmp.next().unwrap()];
        let mut both = heads.split(' ').zip(values.split(' '));
        both.find(|(h, _)| *h == "InEchoReps").unwrap().1.parse().unwrap()
    }

    /// Has x ask n times in a row: each is answered, once. What ping says.
    ///
    /// Counted by the kernel, since ping waits for its last answer no longer than two of the round trips that
    /// it has seen, or than its interval.
    fn each_answered(&self, n: u64, by: &[&Daemon]) -> String {
        let before = self.answers();
        let said = self.ping(&format!("-c {n} -i 0.01"));
        let end = Instant::now() + LIMIT;
        while self.answers() < before + n && Instant::now() < end {
            std::thread::sleep(Duration::from_millis(20));
        }
        let came = self.answers() - before;
        let stats = || by.iter().map(|d| d.json(&["stats"]).to_string()).collect::<String>();
        assert_eq!(came, n, "{said}\n{}", stats());
        said
    }

    /// Waits until y answers x.
    fn reaches(&self) {
        until("10.2.0.2 answers", || self.ping("-c 1 -W 1").contains(" 1 received"));
    }
}

impl Drop for Lab {
    fn drop(&mut self) {
        let n = &self.name;
        quietly(&format!(
            "for i in x y z; do ip netns del {n}$i; ip link del {n}$i; done; ip link del {n}t"
        ));
    }
}

fn hosts(all: &[(&str, &Daemon)]) -> Supervisor {
    let dir = tempfile::tempdir().unwrap();
    let host = |(name, d): &(&str, &Daemon)| {
        format!("[[host]]\nname = '{name}'\napi = 'unix:{}'\n", d.socket().display())
    };
    Supervisor { dir, hosts: all.iter().map(host).collect() }
}

/// The only router of a node.
fn router(d: &Daemon) -> Value {
    let all = d.json(&["show"]);
    let all = all["vdps"].as_array().unwrap();
    let mut routers = all.iter().map(|v| &v["detail"]["router"]).filter(|r| r.is_object());
    routers.next().cloned().unwrap_or(Value::Null)
}

/// What of routers is there outside of processes, with names of this data plane.
fn left(id: &str) -> Vec<String> {
    let short = id.get(..6).unwrap();
    let all = sh(&format!(
        "ls -d /run/netns/weir-{id}-* /run/weir-routers/{id} /sys/fs/cgroup/weir-{id}-* \
         /sys/fs/cgroup/*/weir-{id}-* /sys/class/net/w{short}* 2>/dev/null || true"
    ));
    all.lines().map(str::to_owned).collect()
}

/// Between `weir-` and the name: what tells a data plane's routers from others'.
fn id_of(router: &Value) -> String {
    let all = router["namespace"].as_str().unwrap();
    all.split('-').nth(1).unwrap().to_owned()
}

fn one(data_plane: &str, more: &str) -> String {
    format!(
        "[[network]]\nname = 'red'\n[[network.node]]\nname = 'r'\nkind = 'router'\nhost = 'here'\n\
         ports = ['lan1', 'lan2']\n[network.node.router]\ndata_plane = '{data_plane}'\n\
         address = {{ lan1 = ['10.1.0.1/24'], lan2 = ['10.2.0.1/24'] }}\n{more}"
    )
}

/// Frames that rules of routes have forwarded.
fn by_rules(d: &Daemon) -> u64 {
    let all = d.json(&["show", "--rules"]);
    let rules = all["rules"].as_array().unwrap();
    let routes = rules.iter().filter(|r| r["flow"].as_str().unwrap().contains("dec_ttl"));
    routes.map(|r| r["hits"]["frames"].as_u64().unwrap()).sum()
}

#[test]
fn a_router_forwards_in_every_arrangement_and_leaves_nothing() {
    let test = "a_router_forwards_in_every_arrangement_and_leaves_nothing";
    let Some(lab) = Lab::new(test, 'a') else { return };
    let d = lab.node(&[("lan1", 'x'), ("lan2", 'y')]);
    let s = hosts(&[("here", &d)]);
    let mut id = String::new();
    let arrangements = [
        ("own", ""),
        ("routed", ""),
        ("bridged", ""),
        ("pearl", ""),
        ("pearl", "channel = 1\n"),
        ("own", "wire = 'af-xdp'\n"),
        ("routed", "wire = 'af-xdp'\n"),
    ];
    for (plane, more) in arrangements {
        s.apply(&one(plane, more));
        id = id_of(&router(&d));
        lab.reaches();
        if plane != "own" {
            // Neighbours are known now, so the data plane has rules for them.
            until("rules forward", || {
                lab.reaches();
                by_rules(&d) > 2
            });
        }
        // One router further, whoever has forwarded; and all of them come back.
        let said = lab.each_answered(20, &[&d]);
        assert!(said.contains("ttl=63"), "{plane}: {said}");
        assert!(!said.contains("DUP!"), "{plane}: {said}");
        // Its counters are those of whatever forwards.
        let shown = s.ask(&["net", "show", "red", "-o", "json"]);
        let shown: Value = serde_json::from_str(&shown).unwrap();
        let received = &shown["result"]["places"][0]["vdp"]["received"]["frames"];
        assert!(received.as_u64().unwrap() >= 20, "{plane}: {shown}");
        // What a rule can't do: a TTL that ends, an option, a destination that is not there.
        let said = lab.ping("-c 1 -W 5 -t 1");
        assert!(said.contains("From 10.1.0.1") && said.contains("Time to live"), "{plane}: {said}");
        let said = lab.ping("-c 1 -W 5 -R");
        assert!(said.contains("10.2.0.1"), "{plane}: {said}");
        // Applied again, nothing is done.
        assert!(s.apply(&one(plane, more)).contains("nothing differs"), "{plane}");
    }
    assert!(!left(&id).is_empty());
    // A node becomes one of the other kind, and back.
    s.apply(
        "[[network]]\nname = 'red'\n[[network.node]]\nname = 'r'\nhost = 'here'\n\
         ports = ['lan1', 'lan2']\nprogram = 'learning'\n",
    );
    assert_eq!(left(&id), Vec::<String>::new());
    s.apply(&one("own", ""));
    lab.reaches();
    // An address that the kernel refuses, after one that it has given by then: what was there is there.
    let bad = one("own", "").replace("'10.1.0.1/24'", "'10.7.0.1/24', 'ff02::1/64'");
    let told = s.refused(&["apply", s.lab(&bad).to_str().unwrap()], 1);
    assert!(told.contains("ff02::1") && told.contains("all is as before"), "{told}");
    lab.reaches();
    let namespace = router(&d)["namespace"].as_str().unwrap().to_owned();
    assert!(!sh(&format!("ip -n {namespace} address")).contains("10.7.0.1"));
    s.ask(&["net", "delete", "red"]);
    assert_eq!(left(&id), Vec::<String>::new());
    let ports = d.json(&["show"]);
    assert_eq!(ports["ports"].as_array().unwrap().iter().filter(|p| p["number"] != 0).count(), 2);
    assert_eq!(ports["vdps"].as_array().unwrap().len(), 1);
    d.stop();
}

/// An interface inside has a carrier while its port is up, and routes go and come with that.
#[test]
fn a_port_that_is_down_is_told_inside() {
    let Some(lab) = Lab::new("a_port_that_is_down_is_told_inside", 'c') else { return };
    let d = lab.node(&[("lan1", 'x'), ("lan2", 'y')]);
    let s = hosts(&[("here", &d)]);
    let n = &lab.name;
    for plane in ["own", "pearl", "routed"] {
        s.apply(&one(plane, ""));
        lab.reaches();
        let namespace = router(&d)["namespace"].as_str().unwrap().to_owned();
        let inside = |what: &str| sh(&format!("ip -n {namespace} {what}"));
        let shows = |what, word| until(&format!("{plane}: {word}"), || inside(what).contains(word));
        let mac = inside("link show lan2");
        sh(&format!("ip -n {n}y link set e0 down"));
        shows("link show lan2", "NO-CARRIER");
        shows("route show 10.2.0.0/24", "linkdown");
        assert!(!inside("link show lan1").contains("NO-CARRIER"), "{plane}");
        sh(&format!("ip -n {n}y link set e0 up && ip -n {n}y route add default via 10.2.0.1"));
        shows("link show lan2", "LOWER_UP");
        lab.reaches();
        let again = inside("link show lan2");
        assert_eq!(again.split("ether ").nth(1), mac.split("ether ").nth(1), "{plane}");
        s.ask(&["net", "delete", "red"]);
    }
    d.stop();
}

/// A route by a link without a carrier is passed over for the next, by the kernel and by rules alike, until the link is back.
#[test]
fn a_floating_route_takes_over_while_a_link_is_down() {
    let test = "a_floating_route_takes_over_while_a_link_is_down";
    let Some(lab) = Lab::new(test, 'g') else { return };
    lab.host('z', 3);
    let n = &lab.name;
    // One address behind both, as that of a service.
    sh(&format!("for i in y z; do ip -n {n}$i address add 10.50.0.1/32 dev lo; done"));
    let d = lab.node(&[("lan1", 'x'), ("lan2", 'y'), ("lan3", 'z')]);
    let s = hosts(&[("here", &d)]);
    let asks = || sh(&format!("ip netns exec {n}x ping -n -c 1 -W 1 10.50.0.1 2>&1 || true"));
    let served = |side: char| {
        let all = sh(&format!("ip netns exec {n}{side} cat /proc/net/snmp"));
        let mut icmp = all.lines().filter(|l| l.starts_with("IcmpMsg: "));
        let (heads, values) = (icmp.next().unwrap_or(""), icmp.next().unwrap_or(""));
        let mut both = heads.split(' ').zip(values.split(' '));
        both.find(|(h, _)| *h == "InType8").map_or(0, |(_, n)| n.parse::<u64>().unwrap())
    };
    let answers = |side: char| {
        let before = served(side);
        asks().contains(" 1 received") && served(side) == before + 1
    };
    for plane in ["own", "pearl", "routed", "bridged"] {
        let three = one(plane, "")
            .replace("'lan2']", "'lan2', 'lan3']")
            .replace("['10.2.0.1/24']", "['10.2.0.1/24'], lan3 = ['10.3.0.1/24']");
        s.apply(&three);
        let namespace = router(&d)["namespace"].as_str().unwrap().to_owned();
        for (via, metric) in [("10.2.0.2", 10), ("10.3.0.2", 20)] {
            sh(&format!("ip -n {namespace} route add 10.50.0.0/24 via {via} metric {metric}"));
        }
        until(&format!("{plane}: y answers"), || answers('y'));
        sh(&format!("ip -n {n}y link set e0 down"));
        until(&format!("{plane}: z answers for y"), || answers('z'));
        sh(&format!("ip -n {n}y link set e0 up && ip -n {n}y route add default via 10.2.0.1"));
        until(&format!("{plane}: y answers again"), || answers('y'));
        s.ask(&["net", "delete", "red"]);
    }
    d.stop();
}

/// Routes of FRR's own daemon for them, which asks zebra once when it starts and then ten seconds later.
#[test]
fn static_routes_come_with_their_router() {
    let test = "static_routes_come_with_their_router";
    if !Path::new("/usr/lib/frr/staticd").exists() {
        return skipped(test, "needs frr");
    }
    let Some(lab) = Lab::new(test, 'f') else { return };
    let d = lab.node(&[("lan1", 'x'), ("lan2", 'y')]);
    let s = hosts(&[("here", &d)]);
    for to in ["10.77.0.0/16", "10.78.0.0/16"] {
        s.apply(&one(
            "own",
            // Their daemon is there without a word of it.
            &format!("frr = \"\"\"\nip route {to} 10.2.0.2\n\"\"\"\n"),
        ));
        let begun = Instant::now();
        let namespace = router(&d)["namespace"].as_str().unwrap().to_owned();
        until("the route is there", || {
            sh(&format!("ip -n {namespace} route show {to}")).contains("via 10.2.0.2")
        });
        println!("{to}: {} ms after the router", begun.elapsed().as_millis());
    }
    // What FRR does not understand is told in its words, with the line, and what was there goes on.
    let wrong = |frr: &str| {
        let path = s.lab(&one("own", &format!("frr = \"\"\"\n{frr}\n\"\"\"\n")));
        s.refused(&["apply", path.to_str().unwrap()], 2)
    };
    let told = wrong("hostname r\ninterface lan1\n ip adress 10.1.0.1/24");
    assert!(
        told.contains("frr: line 3: % Unknown command") && told.contains("ip adress"),
        "{told}"
    );
    let told = wrong("hostname r\nrouter bgp 65000");
    assert!(told.contains("lab.toml:") && told.contains("daemons = [\"bgpd\"]"), "{told}");
    let namespace = router(&d)["namespace"].as_str().unwrap().to_owned();
    until("the route is there again", || {
        sh(&format!("ip -n {namespace} route show 10.78.0.0/16")).contains("via 10.2.0.2")
    });
    d.stop();
}

/// Two routers with a trunk between them, each with a host's network and FRR's OSPF.
fn ospf() -> String {
    let router = |name: &str, host: &str, data_plane: &str, lan: u8, trunk: u8| {
        format!(
            "[[network.node]]\nname = '{name}'\nkind = 'router'\nhost = '{host}'\nports = ['lan']\n\
             [network.node.router]\ndata_plane = '{data_plane}'\ndaemons = ['ospfd']\n\
             address = {{ lan = ['10.{lan}.0.1/24'], trunk = ['10.9.0.{trunk}/30'] }}\n\
             frr = '''\ninterface trunk\n ip ospf network point-to-point\n \
             ip ospf hello-interval 1\n ip ospf dead-interval 30\n ip ospf retransmit-interval 1\n!\ninterface lan\n ip ospf passive\n!\n\
             router ospf\n ospf router-id 10.9.0.{trunk}\n timers throttle spf 10 20 50\n \
             timers throttle lsa all 50\n network 10.9.0.0/30 area 0\n \
             network 10.{lan}.0.0/16 area 0\n!\n'''\n"
        )
    };
    let (r1, r2) = (router("r1", "east", "pearl", 1, 1), router("r2", "west", "routed", 2, 2));
    format!(
        "[[link]]\nbetween = ['east:trunk', 'west:trunk']\n[[network]]\nname = 'red'\n\
         {r1}{r2}[[network.link]]\nbetween = ['r1', 'r2']\n"
    )
}

/// What FRR says of itself.
fn vtysh(router: &Value, command: &str) -> String {
    let folder = router["folder"].as_str().unwrap();
    let commands: String = command.split(';').map(|c| format!(" -c '{c}'")).collect();
    sh(&format!("vtysh --vty_socket {folder} --config_dir {folder} {commands} 2>/dev/null"))
}

/// Whether a node has a rule that forwards to a prefix.
fn has_rule(d: &Daemon, to: &str) -> bool {
    let all = d.json(&["show", "--rules"]);
    let forwards = |f: &str| f.contains(to) && f.contains("dec_ttl");
    all["rules"].as_array().unwrap().iter().any(|r| forwards(r["flow"].as_str().unwrap()))
}

#[test]
fn routes_that_ospf_learns_come_and_go() {
    let test = "routes_that_ospf_learns_come_and_go";
    if !Path::new("/usr/lib/frr/ospfd").exists() {
        return skipped(test, "needs frr");
    }
    let Some(lab) = Lab::new(test, 'o') else { return };
    lab.trunk();
    let east = lab.node(&[("lan", 'x'), ("trunk", 't')]);
    let west = lab.node(&[("lan", 'y'), ("trunk", 'u')]);
    let s = hosts(&[("east", &east), ("west", &west)]);
    s.apply(&ospf());
    let (r1, r2) = (router(&east), router(&west));
    until("the neighbours are full", || {
        [&r1, &r2].iter().all(|r| vtysh(r, "show ip ospf neighbor").contains("Full/"))
    });
    until("the route is learnt", || vtysh(&r1, "show ip route ospf").contains("10.2.0.0/24"));
    lab.reaches();
    let said = lab.each_answered(5, &[&east, &west]);
    assert!(said.contains("ttl=62"), "{said}");
    until("routes are rules", || {
        has_rule(&east, "nw_dst=10.2.0.0/24") && has_rule(&west, "nw_dst=10.1.0.0/24")
    });
    vtysh(&r2, "configure terminal;router ospf;no network 10.2.0.0/16 area 0");
    until("the route is withdrawn", || !vtysh(&r1, "show ip route ospf").contains("10.2.0.0/24"));
    until("the rule has gone", || !has_rule(&east, "nw_dst=10.2.0.0/24"));
    assert!(has_rule(&west, "nw_dst=10.1.0.0/24"));
    s.ask(&["net", "delete", "red"]);
    for r in [&router(&east), &router(&west)] {
        assert!(r.is_null(), "{r}");
    }
    east.stop();
    west.stop();
}

/// Two routers in systems of their own, each with a host's network that BGP tells the other of.
fn bgp() -> String {
    let router = |host: &str, data_plane: &str, no: u8| {
        let other = 3 - no;
        format!(
            "[[network.node]]\nname = 'r{no}'\nkind = 'router'\nhost = '{host}'\nports = ['lan']\n\
             [network.node.router]\ndata_plane = '{data_plane}'\ndaemons = ['bgpd']\n\
             address = {{ lan = ['10.{no}.0.1/24'], trunk = ['10.9.0.{no}/30'] }}\n\
             frr = '''\nrouter bgp 6500{no}\n bgp router-id 10.9.0.{no}\n \
             no bgp ebgp-requires-policy\n neighbor 10.9.0.{other} remote-as 6500{other}\n \
             neighbor 10.9.0.{other} timers 1 30\n neighbor 10.9.0.{other} timers connect 1\n \
             neighbor 10.9.0.{other} advertisement-interval 0\n \
             address-family ipv4 unicast\n  network 10.{no}.0.0/24\n exit-address-family\n!\n'''\n"
        )
    };
    let (r1, r2) = (router("east", "routed", 1), router("west", "pearl", 2));
    format!(
        "[[link]]\nbetween = ['east:trunk', 'west:trunk']\n[[network]]\nname = 'red'\n\
         {r1}{r2}[[network.link]]\nbetween = ['r1', 'r2']\n"
    )
}

/// FRR's own view of a neighbour: its state, and how many routes came from it.
fn bgp_neighbour(router: &Value, address: &str) -> (String, u64) {
    let said = vtysh(router, "show bgp ipv4 unicast summary json");
    let all: Value = serde_json::from_str(&said).unwrap();
    let peer = &all["peers"][address];
    (peer["state"].as_str().unwrap_or("none").to_owned(), peer["pfxRcd"].as_u64().unwrap_or(0))
}

#[test]
fn routes_that_bgp_learns_come_and_go() {
    let test = "routes_that_bgp_learns_come_and_go";
    if !Path::new("/usr/lib/frr/bgpd").exists() {
        return skipped(test, "needs frr");
    }
    let Some(lab) = Lab::new(test, 'b') else { return };
    lab.trunk();
    let east = lab.node(&[("lan", 'x'), ("trunk", 't')]);
    let west = lab.node(&[("lan", 'y'), ("trunk", 'u')]);
    let s = hosts(&[("east", &east), ("west", &west)]);
    s.apply(&bgp());
    let (r1, r2) = (router(&east), router(&west));
    until("the neighbours are established", || {
        [(&r1, "10.9.0.2"), (&r2, "10.9.0.1")]
            .iter()
            .all(|(r, other)| bgp_neighbour(r, other) == ("Established".to_owned(), 1))
    });
    until("the route is FRR's", || vtysh(&r1, "show ip route bgp").contains("10.2.0.0/24"));
    lab.reaches();
    let said = lab.each_answered(5, &[&east, &west]);
    assert!(said.contains("ttl=62"), "{said}");
    until("routes are rules", || {
        has_rule(&east, "nw_dst=10.2.0.0/24") && has_rule(&west, "nw_dst=10.1.0.0/24")
    });
    // One network is taken back: its route and rule go, the session and the other's stay.
    let withdraw = "address-family ipv4 unicast;no network 10.2.0.0/24";
    vtysh(&r2, &format!("configure terminal;router bgp 65002;{withdraw}"));
    until("the route is withdrawn", || !vtysh(&r1, "show ip route bgp").contains("10.2.0.0/24"));
    until("the rule has gone", || !has_rule(&east, "nw_dst=10.2.0.0/24"));
    assert_eq!(bgp_neighbour(&r1, "10.9.0.2"), ("Established".to_owned(), 0));
    assert!(has_rule(&west, "nw_dst=10.1.0.0/24"));
    // The session ends: so does what came by it.
    vtysh(&r1, "configure terminal;router bgp 65001;neighbor 10.9.0.2 shutdown");
    until("the neighbour is away", || bgp_neighbour(&r2, "10.9.0.1").0 != "Established");
    until("its rule has gone, too", || !has_rule(&west, "nw_dst=10.1.0.0/24"));
    s.ask(&["net", "delete", "red"]);
    for r in [&router(&east), &router(&west)] {
        assert!(r.is_null(), "{r}");
    }
    east.stop();
    west.stop();
}

/// Two routers, whose link's ends are called inside by the router at the other end.
fn linked(data_plane: &str, hosts: [&str; 2], ports: [&str; 2], more: &str) -> String {
    let router = |no: usize| {
        let (here, there) = (no + 1, 2 - no);
        let (host, port) = (hosts[no], ports[no]);
        format!(
            "[[network.node]]\nname = 'r{here}'\nkind = 'router'\nhost = '{host}'\nports = ['{port}']\n\
             [network.node.router]\ndata_plane = '{data_plane}'\ninterface = {{ {port} = 'lan' }}\n\
             address = {{ lan = ['10.{here}.0.1/24'], r{there} = ['10.9.0.{here}/30'] }}\n\
             run = [['/bin/sh', '-c', \
             'ip route replace 10.{there}.0.0/24 via 10.9.0.{there}; exec sleep 1000']]\n"
        )
    };
    let (r1, r2) = (router(0), router(1));
    format!("{more}[[network]]\nname = 'red'\n{r1}{r2}[[network.link]]\nbetween = ['r1', 'r2']\n")
}

#[test]
fn routers_are_joined_inside_a_host_and_by_tunnels() {
    let test = "routers_are_joined_inside_a_host_and_by_tunnels";
    let Some(lab) = Lab::new(test, 'j') else { return };
    let both = lab.node(&[("lan1", 'x'), ("lan2", 'y')]);
    let s = hosts(&[("here", &both)]);
    for plane in ["routed", "pearl"] {
        s.apply(&linked(plane, ["here", "here"], ["lan1", "lan2"], ""));
        lab.reaches();
        let said = lab.each_answered(10, &[&both]);
        assert!(said.contains("ttl=62"), "{plane}: {said}");
    }
    s.ask(&["net", "delete", "red"]);
    assert_eq!(both.json(&["show"])["vdps"].as_array().unwrap().len(), 1);
    both.stop();
    let east = lab.node(&[("port", 'x')]);
    let west = lab.node(&[("port", 'y')]);
    let mut s = hosts(&[("east", &east), ("west", &west)]);
    let pid = std::process::id();
    for (n, name) in [(1, "east"), (2, "west")] {
        let with = format!("name = '{name}'\ntunnel = '127.60.{}.{n}'", pid % 250);
        s.hosts = s.hosts.replace(&format!("name = '{name}'"), &with);
    }
    let wide = "[[link]]\nbetween = ['east', 'west']\n";
    for plane in ["own", "bridged"] {
        s.apply(&linked(plane, ["east", "west"], ["port", "port"], wide));
        lab.reaches();
        let said = lab.each_answered(10, &[&east, &west]);
        assert!(said.contains("ttl=62"), "{plane}: {said}");
    }
    s.ask(&["net", "delete", "red"]);
    for d in [east, west] {
        let shown = d.json(&["show"]);
        assert_eq!(shown["vdps"].as_array().unwrap().len(), 1, "{shown}");
        d.stop();
    }
}

/// Programs that take what they can get have what they are given.
#[test]
fn limits_of_a_router_hold() {
    let test = "limits_of_a_router_hold";
    let Some(lab) = Lab::new(test, 'l') else { return };
    let d = lab.node(&[("lan1", 'x'), ("lan2", 'y')]);
    let s = hosts(&[("here", &d)]);
    let busy = "run = [['/bin/sh', '-c', 'while :; do :; done']]\ncpu_quota_permille = ";
    s.apply(&one("own", &format!("{busy}200\n")));
    let used = || router(&d)["cpu_us"].as_u64();
    if used().is_none() {
        return skipped(test, "no cgroup controller counts processor time here");
    }
    let measure = || {
        let (begun, before) = (Instant::now(), used().unwrap());
        until("it runs", || used().unwrap() > before + 60_000);
        let took = begun.elapsed().as_micros() as u64;
        (used().unwrap() - before, took.max(begun.elapsed().as_micros() as u64))
    };
    let (cpu, took) = measure();
    // A fifth, and what one period may give beforehand.
    assert!(cpu <= took / 5 + 100_000, "{cpu} of {took} us");
    // Set while it runs; the program is the same.
    let pid = || router(&d)["programs"][0]["pid"].clone();
    let before = pid();
    s.ask(&["net", "set", "red", "r", "router.cpu_quota_permille=50"]);
    assert_eq!(pid(), before);
    let (cpu, took) = measure();
    assert!(cpu <= took / 20 + 100_000, "{cpu} of {took} us");
    let hog = "run = [['/usr/bin/tail', '/dev/zero']]\nmemory_bytes = 16_000_000\n";
    s.apply(&one("own", hog));
    until("the kernel ends it", || router(&d)["programs"][0]["ended"].as_u64().unwrap() > 0);
    let id = id_of(&router(&d));
    s.ask(&["net", "delete", "red"]);
    assert_eq!(left(&id), Vec::<String>::new());
    d.stop();
}

/// What a `weir run` that was killed has left is taken away by the next at its socket.
#[test]
fn a_killed_node_leaves_nothing_behind_its_next_start() {
    let test = "a_killed_node_leaves_nothing_behind_its_next_start";
    let Some(lab) = Lab::new(test, 'k') else { return };
    let mut d = lab.node(&[("lan1", 'x'), ("lan2", 'y')]);
    let s = hosts(&[("here", &d)]);
    let run = "run = [['/bin/sleep', '1000']]\n";
    s.apply(&one("routed", run));
    lab.reaches();
    let (id, inside) = (id_of(&router(&d)), router(&d)["namespace"].as_str().unwrap().to_owned());
    d.signal(Signal::KILL);
    d.end();
    assert!(left(&id).len() >= 3, "{:?}", left(&id));
    assert!(!sh(&format!("ip netns pids {inside}")).is_empty());
    let mut again = super::run_daemon::weir();
    again.arg("run").arg("--socket").arg(d.socket()).arg(d.path("t.toml"));
    let mut again = again.stdout(std::process::Stdio::null()).spawn().unwrap();
    until("it is taken away", || left(&id).is_empty());
    // And what holds is made again.
    until("it serves", || std::os::unix::net::UnixStream::connect(d.socket()).is_ok());
    s.apply(&one("routed", run));
    lab.reaches();
    let pid = rustix::process::Pid::from_raw(again.id().cast_signed()).unwrap();
    rustix::process::kill_process(pid, Signal::TERM).unwrap();
    assert!(again.wait().unwrap().success());
    assert_eq!(left(&id), Vec::<String>::new());
}

/// A protocol that is not IP, by the example that runs it as a VDP's program and as a router's.
#[test]
fn a_protocol_that_is_not_ip_runs_in_both_kinds() {
    let test = "a_protocol_that_is_not_ip_runs_in_both_kinds";
    let example =
        Path::new(env!("CARGO_BIN_EXE_weir")).with_file_name("examples").join("signed_hop");
    if !example.exists() {
        return skipped(test, "needs the example: cargo build -p weir --example signed_hop");
    }
    let program = example.display().to_string();
    let said = sh(&format!("{program} plane"));
    assert!(said.contains("'signed at every hop' came; one forged and one sent again did not"));
    let Some(lab) = Lab::new(test, 's') else { return };
    let d = lab.node(&[("lan1", 'x'), ("lan2", 'y')]);
    let s = hosts(&[("here", &d)]);
    let hop = format!("run = [['{program}', 'hop', '2', 'lan1=near:1', 'lan2=far:3']]\n");
    s.apply(&one("own", &hop));
    let n = &lab.name;
    let within = |side: char, words: &str| {
        let mut c = Command::new("ip");
        c.args(["netns", "exec", &format!("{n}{side}"), &program]).args(words.split(' '));
        c.stdout(std::process::Stdio::piped()).spawn().unwrap()
    };
    let receiver = within('y', "receive e0=far 3");
    let mut forger = within('x', "send e0=guessed 1 3 forged");
    std::thread::sleep(Duration::from_millis(300));
    let mut sender = within('x', "send e0=near 1 3 honest");
    let got = receiver.wait_with_output().unwrap();
    for c in [&mut forger, &mut sender] {
        c.kill().unwrap();
        c.wait().unwrap();
    }
    assert_eq!(String::from_utf8_lossy(&got.stdout), "received 'honest'\n");
    s.ask(&["net", "delete", "red"]);
    d.stop();
}
