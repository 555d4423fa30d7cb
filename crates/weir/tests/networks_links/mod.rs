//! Links of virtual networks on real `weir run`s, each a process with an address of its own on the loopback:
//! inside a data plane, by tunnels, by relays; controllers are the test's own.

mod guarded;
mod secure;
mod spread;

use super::run_daemon::{Daemon, LIMIT};
use super::{Supervisor, names, node};
use crate::certificates::Authority;
use crate::openflow_rig::Peer;
use serde_json::Value;
use std::net::{Ipv4Addr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicU8, Ordering};
use std::time::{Duration, Instant};
use weir_openflow::model::{
    Action, Field, FlowCommand, FlowFlags, FlowMod, GROUP_ANY, Instruction, Match, Message, Msg,
    NO_BUFFER, NO_MAX_LEN, PacketOut, Port,
};

/// Addresses of this machine that no other test uses.
fn addresses() -> impl Fn(u8) -> Ipv4Addr {
    static NEXT: AtomicU8 = AtomicU8::new(0);
    let n = NEXT.fetch_add(1, Ordering::Relaxed);
    let pid = std::process::id();
    move |last| Ipv4Addr::new(127, 40 + n, (pid % 250) as u8, (pid / 250 % 25) as u8 * 10 + last)
}

/// Physical nodes of these names, and a supervisor that knows them with the ends of their tunnels.
fn substrate(all: &str) -> (Vec<Daemon>, Supervisor) {
    let (ca, at) = (Authority::new(), addresses());
    let mut daemons = Vec::new();
    let mut hosts = String::new();
    for (name, n) in all.split(' ').zip(1..) {
        let (d, api) = node(&[], &ca);
        daemons.push(d);
        let tunnel = at(n);
        hosts += &format!("[[host]]\nname = '{name}'\napi = '{api}'\ntunnel = '{tunnel}'\n");
    }
    let mut s = Supervisor::new(&ca, &[]);
    s.hosts += &hosts;
    (daemons, s)
}

fn joined(pairs: &str) -> String {
    let one = |p: &str| {
        let (a, b) = p.split_once('-').unwrap();
        format!("[[link]]\nbetween = ['{a}', '{b}']\n")
    };
    pairs.split(' ').map(one).collect()
}

/// A tenant: its switches in a row, on these hosts, under its own controller.
struct Tenant {
    name: &'static str,
    listener: TcpListener,
    switches: Vec<Peer<TcpStream>>,
}

impl Tenant {
    fn new(name: &'static str) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        Self { name, listener, switches: Vec::new() }
    }
    fn network(&self, on: &str, rest: &str) -> String {
        let at = self.listener.local_addr().unwrap();
        let mut text = format!("[[network]]\nname = '{}'\ncontrollers = ['tcp:{at}']\n", self.name);
        let hosts: Vec<&str> = on.split(' ').collect();
        for (host, n) in hosts.iter().zip(1..) {
            text += &format!(
                "[[network.node]]\nname = 's{n}'\nhost = '{host}'\n\
                 openflow = {{ datapath_id = '000000000000000{n}' }}\n"
            );
        }
        for n in 1..hosts.len() {
            text += &format!("[[network.link]]\nbetween = ['s{n}', 's{}']\n{rest}\n", n + 1);
        }
        text
    }
    /// Its switches come, in any order; each sends everything to us.
    fn accept(&mut self, n: usize) {
        let mut all: Vec<(u64, Peer<TcpStream>)> = (0..n)
            .map(|_| {
                let mut p = Peer::accept(&self.listener);
                let (m, _) = p.ask(Message::FeaturesRequest).unwrap();
                let Message::FeaturesReply(f) = m else { panic!("{m:?}") };
                p.send(to_controller());
                assert_eq!(p.barrier().unwrap(), []);
                (f.datapath_id, p)
            })
            .collect();
        all.sort_by_key(|(id, _)| *id);
        self.switches = all.into_iter().map(|(_, p)| p).collect();
    }
    fn send(&mut self, switch: usize, port: u32, data: &[u8]) {
        let actions = vec![Action::Output { port: Port(port), max_len: 0 }];
        let (buffer_id, in_port) = (NO_BUFFER, Port::CONTROLLER);
        let p = &mut self.switches[switch - 1];
        p.send(Message::PacketOut(PacketOut { buffer_id, in_port, actions, data: data.to_vec() }));
        p.push();
    }
    /// The next frame at a switch, and the port by which it came.
    fn next(&mut self, switch: usize) -> (u32, Vec<u8>) {
        loop {
            if let Message::PacketIn(got) = self.switches[switch - 1].next().unwrap().body {
                let by = got.matcher.get(Field::InPort).unwrap().value;
                return (by as u32, got.data);
            }
        }
    }
    /// Frames that have come to a switch by now.
    fn came(&mut self, switch: usize) -> Vec<Vec<u8>> {
        let (_, before) = self.switches[switch - 1].ask(Message::BarrierRequest).unwrap();
        before.into_iter().filter_map(packet_in).collect()
    }
}

fn packet_in(m: Msg) -> Option<Vec<u8>> {
    match m.body {
        Message::PacketIn(p) => Some(p.data),
        _ => None,
    }
}

fn to_controller() -> Message {
    let action = Action::Output { port: Port::CONTROLLER, max_len: NO_MAX_LEN };
    Message::FlowMod(FlowMod {
        cookie: 0,
        cookie_mask: 0,
        table: 0,
        command: FlowCommand::Add,
        idle_timeout: 0,
        hard_timeout: 0,
        priority: 0,
        buffer_id: NO_BUFFER,
        out_port: Port::ANY,
        out_group: GROUP_ANY,
        flags: FlowFlags::default(),
        matcher: Match::default(),
        instructions: vec![Instruction::Apply(vec![action])],
    })
}

/// A frame between the same two stations, whoever sends it.
fn frame(by: &str, n: u32, len: usize) -> Vec<u8> {
    let mut f = vec![2, 0, 0, 0, 0, 1, 2, 0, 0, 0, 0, 2, 0x88, 0xb6];
    f.extend(n.to_be_bytes());
    f.extend(by.bytes());
    f.resize(len, 0);
    f
}

/// What a node has of networks' making.
fn made(d: &Daemon) -> (Vec<String>, Vec<String>, Value) {
    let v = d.json(&["show"]);
    let ports = v["ports"].as_array().unwrap().iter().filter(|p| p["number"] != 0);
    let ports = ports.map(|p| p["name"].as_str().unwrap().to_owned()).collect();
    (names(d), ports, v["plane"]["tcam"].clone())
}

#[test]
fn tenants_with_the_same_addresses_have_links_of_their_own() {
    let (daemons, s) = substrate("east west");
    let before: Vec<_> = daemons.iter().map(made).collect();
    let (mut red, mut blue) = (Tenant::new("red"), Tenant::new("blue"));
    let both = ["east east west", "east east west"];
    let text =
        joined("east-west") + &red.network(both[0], "") + &blue.network(both[1], "mtu = 1500");
    let said = s.apply(&text);
    assert!(said.contains("+ east: port red.s1.s2 of memory:red.s1.s2"), "{said}");
    assert!(s.apply(&text).contains("nothing differs"));
    red.accept(3);
    blue.accept(3);
    for len in [60, 1514] {
        // Each sends along its row and back, at the same time.
        for (from, port, to, at) in [(1, 1, 2, 1), (2, 2, 3, 1), (3, 1, 2, 2), (2, 1, 1, 1)] {
            for (t, other) in [("red", &mut red), ("blue", &mut blue)] {
                for n in 0..3 {
                    other.send(from, port, &frame(t, n, len));
                }
            }
            for (t, own) in [("red", &mut red), ("blue", &mut blue)] {
                for n in 0..3 {
                    assert_eq!(own.next(to), (at, frame(t, n, len)), "{t}: {from} to {to}");
                }
                for switch in 1..=3 {
                    assert_eq!(own.came(switch), Vec::<Vec<u8>>::new(), "{t}: {switch}");
                }
            }
        }
    }
    // What is recorded is shown, and is what the data planes have.
    let shown: Value = serde_json::from_str(&s.ask(&["net", "show", "red", "-o", "json"])).unwrap();
    let links = shown["result"]["links"].as_array().unwrap();
    assert_eq!((links.len(), &links[0]["carried"]), (2, &"inside".into()));
    let way = &links[1]["ways"][0];
    assert_eq!(way["hosts"], serde_json::json!(["east", "west"]));
    let vni = way["vnis"][0].as_u64().unwrap();
    let device = daemons[0].port("red.s2.s3")["device"].as_str().unwrap().to_owned();
    assert!(device.starts_with(&format!("vxlan:{vni},")), "{device}");
    let table = s.ask(&["net", "show", "red"]);
    assert!(table.contains(&format!("east -{vni}- west")), "{table}");
    // One goes, the other's frames go on; then nothing is left.
    s.ask(&["net", "delete", "blue"]);
    red.send(1, 1, &frame("red", 9, 60));
    assert_eq!(red.next(2), (1, frame("red", 9, 60)));
    s.ask(&["net", "delete", "red"]);
    let after: Vec<_> = daemons.iter().map(made).collect();
    assert_eq!(after, before);
    daemons.into_iter().for_each(|d| drop(d.stop()));
}

/// Two ways from east to west, by a relay each. The first relay dies and comes back; what was lost is
/// counted and told, and nothing comes twice or in another order.
#[test]
fn a_link_outlives_its_relay() {
    let (mut daemons, s) = substrate("east west north south");
    let mut red = Tenant::new("red");
    let square = joined("east-north north-west east-south south-west");
    let text = square + &red.network("east west", "backups = 1\nprobe_ms = 20");
    s.apply(&text);
    red.accept(2);
    let [east, west, north, south] = &daemons[..] else { panic!() };
    for (d, relays) in [(east, 0), (west, 0), (north, 1), (south, 1)] {
        let is = |n: &&String| n.starts_with("_relay.");
        assert_eq!(names(d).iter().filter(is).count(), relays);
    }
    // Every change is from one of two ways to the other, so after an even number of them it is the first.
    let settled = |d: &Daemon, name: &str| {
        let p = d.port(name);
        let first = p["way_changes"].as_u64().is_some_and(|n| n.is_multiple_of(2));
        p["fault"] == Value::Null && p["up"] == true && first
    };
    east.until("both ways are up", |d| settled(d, "red.s1.s2"));
    west.until("both ways are up", |d| settled(d, "red.s2.s1"));
    // How good both ways are is known at both ends, from what their probes said.
    let measured = |d: &Daemon, name: &str| {
        let ways = d.port(name)["ways"].as_array().cloned().unwrap_or_default();
        ways.len() == 2
            && ways.iter().all(|w| w["delay"]["least_ns"].as_u64().is_some_and(|n| n > 0))
    };
    east.until("delays are known", |d| measured(d, "red.s1.s2"));
    west.until("delays are known", |d| measured(d, "red.s2.s1"));
    let look =
        s.ask(&["net", "monitor", "red", "--count", "1", "--interval-ms", "200", "-o", "json"]);
    let look: Value = serde_json::from_str(&look).unwrap();
    let links = look["links"].as_array().unwrap();
    assert_eq!(links.len(), 4, "two ways at two ends: {look}");
    for l in links {
        let (least, most) = (l["delay"]["least_ns"].as_u64(), l["delay"]["most_ns"].as_u64());
        assert!(l["up"] == true && least <= most, "{l}");
        assert!(
            l["probes_heard"].as_u64().unwrap() + l["probes_lost"].as_u64().unwrap() > 0,
            "{l}"
        );
    }
    assert_eq!(links.iter().filter(|l| l["taken"] == true).count(), 2, "{look}");
    let table = s.ask(&["net", "monitor", "red", "--count", "1", "--interval-ms", "50"]);
    assert!(table.contains("there and back") && table.contains("spare"), "{table}");
    let before = east.port("red.s1.s2")["way_changes"].as_u64().unwrap();
    let mut n = 0;
    let mut got: Vec<u32> = Vec::new();
    let number = |f: &[u8]| u32::from_be_bytes(f[14..18].try_into().unwrap());
    // Sends until `done`; what comes meanwhile is noted.
    let mut run = |red: &mut Tenant, done: &mut dyn FnMut(&[u32], u32) -> bool| {
        let begun = Instant::now();
        while !done(&got, n) {
            assert!(begun.elapsed() < LIMIT, "{got:?} of {n}");
            n += 1;
            red.send(1, 1, &frame("red", n, 60));
            got.extend(red.came(2).iter().map(|f| number(f)));
            std::thread::sleep(Duration::from_millis(1));
        }
        (got.clone(), n)
    };
    run(&mut red, &mut |got, _| got.len() > 20);
    let north = daemons.remove(2);
    let (_, cut) = run(&mut red, &mut |_, _| true);
    // Killed, with whatever is under way in it.
    drop(north);
    let (all, _) = run(&mut red, &mut |got, _| got.iter().filter(|g| **g > cut + 5).count() > 20);
    let east = &daemons[0];
    assert_eq!(east.port("red.s1.s2")["way_changes"], before + 1);
    let after = all.iter().find(|g| **g > cut).unwrap();
    let lost = (1..=*all.last().unwrap()).filter(|n| !all.contains(n)).count();
    println!(
        "a relay died: {lost} frames of one a millisecond were lost, up to number {after} after {cut}"
    );
    assert!(all.is_sorted() && all.windows(2).all(|w| w[0] < w[1]), "{all:?}");
    for d in daemons {
        d.stop();
    }
}

/// A guard tells of a flood, and acts when it is told to: the node that gets it is cut off, its controller and
/// everybody else stay, and it can be joined again.
#[test]
fn a_flooded_node_is_cut_off_and_joined_again() {
    let (daemons, s) = substrate("east");
    let (mut red, mut blue) = (Tenant::new("red"), Tenant::new("blue"));
    let guard = "[[guard]]\nname = 'flood'\nnetwork = 'red'\nrate = 'received-frames'\nabove = 1\nfor_s = 1\n";
    let text = red.network("east east", "") + &blue.network("east east", "") + guard;
    let wrong = text.replace("for_s = 1", "for_s = 0");
    let line = s.refused(&["apply", &super::text(&s.lab(&wrong))], 2);
    assert!(line.contains("for_s = 0: 1 to 3600 seconds"), "{line}");
    s.apply(&text);
    red.accept(2);
    blue.accept(2);
    // Some looks of a tenth of a second while a frame goes each millisecond; the guards that applied.
    let mut n = 0;
    let mut watched = |red: &mut Tenant, more: &[&str]| -> Vec<Value> {
        let looks = ["net", "monitor", "--count", "8", "--interval-ms", "200", "-o", "json"];
        let mut once = || {
            std::thread::scope(|scope| {
                let monitor = scope.spawn(|| s.ask(&[&looks[..], more].concat()));
                while !monitor.is_finished() {
                    n += 1;
                    red.send(1, 1, &frame("red", n, 60));
                    std::thread::sleep(Duration::from_millis(1));
                }
                let text = monitor.join().unwrap();
                let all = text.lines().map(|l| serde_json::from_str::<Value>(l).unwrap());
                let (told, looks): (Vec<_>, Vec<_>) = all.partition(|l| l.get("guard").is_some());
                // Whose packet-outs they were, and whom they cost processor time.
                for what in ["messages_in", "cpu_ns"] {
                    let of = |v: &Value| v[what].as_u64().unwrap();
                    let sum = |name| looks.iter().filter(|l| l["network"] == name).map(of).sum();
                    let (red, blue): (u64, u64) = (sum("red"), sum("blue"));
                    assert!(
                        red > 0 && red > blue,
                        "{what}: {red}, and {blue} for who does nothing"
                    );
                }
                told
            })
        };
        // On a busy machine a look may find nothing, and a rate begins anew.
        let begun = Instant::now();
        loop {
            let told = once();
            if !told.is_empty() {
                return told;
            }
            assert!(begun.elapsed() < LIMIT, "no guard applied");
        }
    };
    for one in watched(&mut red, &[]) {
        assert_eq!((&one["node"], &one["outcome"]), (&"s2".into(), &"dry-run".into()));
    }
    let isolated = |d: &Daemon, name: &str| {
        let all = d.json(&["stats"])["vdps"].as_array().unwrap().clone();
        let v = all.into_iter().find(|v| v["name"] == name).unwrap();
        let cut = d.json(&["show", "--vdp", name])["vdps"][0]["detail"]["isolated"] == true;
        (cut, v["dropped"]["isolated"].as_u64().unwrap_or(0))
    };
    assert_eq!(isolated(&daemons[0], "red.s2"), (false, 0));
    let told = watched(&mut red, &["--act"]);
    let [one] = &told[..] else { panic!("{told:?}") };
    assert_eq!((&one["node"], &one["outcome"]), (&"s2".into(), &"done".into()));
    // What comes for it is its loss, counted; its neighbour and the other network are as before.
    red.came(2);
    red.send(1, 1, &frame("red", 1, 60));
    assert_eq!(red.came(2), Vec::<Vec<u8>>::new());
    let (cut, lost) = isolated(&daemons[0], "red.s2");
    assert!(cut && lost > 0, "{lost}");
    assert_eq!(isolated(&daemons[0], "red.s1"), (false, 0));
    blue.send(1, 1, &frame("blue", 1, 60));
    assert_eq!(blue.next(2), (1, frame("blue", 1, 60)));
    // The session outlived it, and so did its rule.
    s.ask(&["net", "set", "red", "s2", "isolated="]);
    red.send(1, 1, &frame("red", 7, 60));
    assert_eq!(red.next(2), (1, frame("red", 7, 60)));
    daemons.into_iter().for_each(|d| drop(d.stop()));
}

/// os-ken's manager with its topology application, for one tenant.
struct OsKen {
    child: std::process::Child,
    openflow: u16,
    web: u16,
}

impl OsKen {
    fn start(program: &std::ffi::OsStr) -> Self {
        let free = || TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
        let (openflow, web) = (free(), free());
        let mut c = std::process::Command::new(program);
        c.args(["--ofp-listen-host", "127.0.0.1", "--ofp-tcp-listen-port", &openflow.to_string()]);
        c.args(["--wsapi-host", "127.0.0.1", "--wsapi-port", &web.to_string()]);
        c.args(["--observe-links", "os_ken.app.rest_topology"]);
        let null = std::process::Stdio::null;
        let child = c.stdout(null()).stderr(null()).spawn().unwrap();
        Self { child, openflow, web }
    }
    /// What its web interface says; `None` until it answers.
    fn says(&self, path: &str) -> Option<Value> {
        use std::io::{Read, Write};
        let mut s = TcpStream::connect(("127.0.0.1", self.web)).ok()?;
        write!(s, "GET {path} HTTP/1.0\r\n\r\n").ok()?;
        let mut all = String::new();
        s.read_to_string(&mut all).ok()?;
        serde_json::from_str(all.split_once("\r\n\r\n")?.1).ok()
    }
    /// Its links, as pairs of switch and port.
    fn links(&self) -> Vec<String> {
        let Some(Value::Array(all)) = self.says("/v1.0/topology/links") else { return Vec::new() };
        let end = |v: &Value| {
            let hex = |k: &str| u64::from_str_radix(v[k].as_str().unwrap(), 16).unwrap();
            format!("{}:{}", hex("dpid"), hex("port_no"))
        };
        let mut out: Vec<String> =
            all.iter().map(|l| format!("{} {}", end(&l["src"]), end(&l["dst"]))).collect();
        out.sort();
        out
    }
}

impl Drop for OsKen {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// By LLDP a controller finds its own links, whatever carries them, and no one else's.
#[test]
fn a_tenants_controller_discovers_its_own_topology_and_no_other() {
    let Some(program) = std::env::var_os("WEIR_OSKEN_MANAGER") else {
        let why = "needs os-ken: WEIR_OSKEN_MANAGER names its manager";
        return super::run_daemon::skipped("a_tenants_controller_discovers_its_own_topology", why);
    };
    let (daemons, s) = substrate("east west north");
    let all = [OsKen::start(&program), OsKen::start(&program)];
    let network = |name: &str, of: &OsKen, nodes: &[(u32, &str)], links: &[(u32, u32)]| {
        let at = of.openflow;
        let mut t = format!("[[network]]\nname = '{name}'\ncontrollers = ['tcp:127.0.0.1:{at}']\n");
        for (n, host) in nodes {
            t += &format!(
                "[[network.node]]\nname = 's{n}'\nhost = '{host}'\n\
                 openflow = {{ datapath_id = '{n:016x}' }}\n"
            );
        }
        for (a, b) in links {
            t += &format!("[[network.link]]\nbetween = ['s{a}', 's{b}']\n");
        }
        t
    };
    // A ring, part of it inside a host and part of it by a relay; and a row of the same switches' numbers.
    let red = network(
        "red",
        &all[0],
        &[(1, "east"), (2, "east"), (3, "west")],
        &[(1, 2), (2, 3), (3, 1)],
    );
    let blue = network(
        "blue",
        &all[1],
        &[(1, "west"), (2, "north"), (3, "east"), (4, "north")],
        &[(1, 2), (2, 3), (3, 4)],
    );
    s.apply(&(joined("east-north north-west") + &red + &blue));
    let both = |a: &str, b: &str| [format!("{a} {b}"), format!("{b} {a}")];
    let expected = [
        [both("1:1", "2:1"), both("2:2", "3:1"), both("3:2", "1:2")].concat(),
        [both("1:1", "2:1"), both("2:2", "3:1"), both("3:2", "4:1")].concat(),
    ];
    for (of, mut expected) in all.iter().zip(expected) {
        expected.sort();
        daemons[0].until("the topology is discovered", |_| of.links().len() >= expected.len());
        assert_eq!(of.links(), expected);
    }
    // And what it has found stays so when the other is asked again.
    assert_eq!(all[0].says("/v1.0/topology/switches").unwrap().as_array().unwrap().len(), 3);
    assert_eq!(all[1].says("/v1.0/topology/switches").unwrap().as_array().unwrap().len(), 4);
    for d in daemons {
        d.stop();
    }
}

fn sh(command: &str) -> String {
    let o = std::process::Command::new("sh").args(["-ec", command]).output().unwrap();
    let text = |b: &[u8]| String::from_utf8_lossy(b).into_owned();
    assert!(o.status.success(), "{command}\n{}{}", text(&o.stdout), text(&o.stderr));
    text(&o.stdout)
}

/// Namespaces: stations x1, x2 at a node e and y1, y2 at a node w, whose cable is in one network of IP; m is
/// the supervisor's, with a cable of its own to each node.
struct Wires(String);

const SIDES: [&str; 7] = ["x1", "x2", "y1", "y2", "e", "w", "m"];

impl Wires {
    /// `None`, said aloud, where they can't be made.
    fn new(test: &str) -> Option<Self> {
        use super::run_daemon::{has, is_root, skipped};
        if !is_root() || !["ip", "ping"].into_iter().all(has) {
            skipped(test, "needs root, ip and ping");
            return None;
        }
        let n = format!("links{}", std::process::id() % 1_000_000);
        let first = format!("{n}x1");
        let made = std::process::Command::new("ip").args(["netns", "add", &first]).status();
        if !made.unwrap().success() {
            skipped(test, "network namespaces can't be made here");
            return None;
        }
        let wires = Self(n.clone());
        for side in &SIDES[1..] {
            sh(&format!("ip netns add {n}{side}"));
        }
        for side in SIDES {
            sh(&format!(
                "ip netns exec {n}{side} sysctl -qw net.ipv6.conf.all.disable_ipv6=1 \
                 net.ipv6.conf.default.disable_ipv6=1
                 ip -n {n}{side} link set lo up"
            ));
        }
        let cables = [
            ("x1", "eth0", "e", "e1"),
            ("x2", "eth0", "e", "e2"),
            ("y1", "eth0", "w", "w1"),
            ("y2", "eth0", "w", "w2"),
            ("e", "under", "w", "under"),
            ("m", "to-e", "e", "manage"),
            ("m", "to-w", "w", "manage"),
        ];
        for (a, at_a, b, at_b) in cables {
            sh(&format!(
                "ip -n {n}{a} link add {at_a} type veth peer name {at_b} netns {n}{b}
                 ip -n {n}{a} link set {at_a} up
                 ip -n {n}{b} link set {at_b} up"
            ));
        }
        for (side, device, address) in [
            ("e", "under", "198.51.100.1/24"),
            ("w", "under", "198.51.100.2/24"),
            ("m", "to-e", "192.0.2.1/30"),
            ("e", "manage", "192.0.2.2/30"),
            ("m", "to-w", "192.0.2.5/30"),
            ("w", "manage", "192.0.2.6/30"),
            // Both tenants' stations have the same addresses.
            ("x1", "eth0", "10.0.0.1/24"),
            ("x2", "eth0", "10.0.0.1/24"),
            ("y1", "eth0", "10.0.0.2/24"),
            ("y2", "eth0", "10.0.0.2/24"),
        ] {
            sh(&format!("ip -n {n}{side} addr add {address} dev {device}"));
        }
        for (side, mac) in [("x1", 1), ("x2", 1), ("y1", 2), ("y2", 2)] {
            sh(&format!(
                "ip -n {n}{side} link set eth0 down
                 ip -n {n}{side} link set eth0 address 02:00:00:00:00:0{mac}
                 ip -n {n}{side} link set eth0 up"
            ));
        }
        Some(wires)
    }
    fn weir(&self, side: &str) -> std::process::Command {
        let mut c = std::process::Command::new("ip");
        c.args(["netns", "exec", &format!("{}{side}", self.0), env!("CARGO_BIN_EXE_weir")]);
        c
    }
    /// Whether a ping of so many bytes, unbroken, comes back.
    fn ping(&self, from: &str, bytes: u32) -> bool {
        let at = format!("{}{from}", self.0);
        let data = bytes - 28;
        let said = sh(&format!(
            "ip netns exec {at} ping -n -q -M do -c 1 -W 1 -s {data} 10.0.0.2 || true"
        ));
        said.contains(" 1 received")
    }
    /// Frames that a station has received.
    fn received(&self, side: &str) -> u64 {
        let at = format!("{}{side}", self.0);
        let said = sh(&format!("ip netns exec {at} cat /sys/class/net/eth0/statistics/rx_packets"));
        said.trim().parse().unwrap()
    }
    fn interfaces(&self, side: &str) -> String {
        sh(&format!("ip -n {}{side} -br link | awk '{{print $1}}'", self.0))
    }
}

impl Drop for Wires {
    fn drop(&mut self) {
        for side in SIDES {
            let name = format!("{}{side}", self.0);
            let _ = std::process::Command::new("ip").args(["netns", "del", &name]).status();
        }
    }
}

/// Two physical nodes that are reached by their APIs alone and joined by IP, two tenants with the same
/// addresses: each reaches its own station and no other; what is too long is told; nothing is left.
#[test]
fn stations_of_two_tenants_reach_their_own_across_two_nodes() {
    let Some(wires) = Wires::new("stations_of_two_tenants") else { return };
    let ca = Authority::new();
    let ports = |a, b| [(a, a), (b, b)];
    let (east, a) = super::node_by(wires.weir("e"), "192.0.2.2", &ports("e1", "e2"), &ca);
    let (west, b) = super::node_by(wires.weir("w"), "192.0.2.6", &ports("w1", "w2"), &ca);
    let mut s = Supervisor::new(&ca, &[]);
    for (name, api, tunnel) in [("east", a, "198.51.100.1"), ("west", b, "198.51.100.2")] {
        s.hosts += &format!("[[host]]\nname = '{name}'\napi = '{api}'\ntunnel = '{tunnel}'\n");
    }
    let network = |name: &str, n: u32| {
        format!(
            "[[network]]\nname = '{name}'\n\
             [[network.node]]\nname = 's1'\nhost = 'east'\nports = ['e{n}']\nprogram = 'learning'\n\
             [[network.node]]\nname = 's2'\nhost = 'west'\nports = ['w{n}']\nprogram = 'learning'\n\
             [[network.link]]\nbetween = ['s1', 's2']\nprobe_ms = 200\n"
        )
    };
    let before = (made(&east), made(&west), wires.interfaces("e"), wires.interfaces("w"));
    let lab = s.lab(&(joined("east-west") + &network("red", 1) + &network("blue", 2)));
    let mut c = wires.weir("m");
    c.arg("apply").arg(&lab).arg("--store").arg(s.path("net.redb"));
    let o = c.output().unwrap();
    assert!(o.status.success(), "{}", String::from_utf8_lossy(&o.stderr));
    let reaches = |from: &str, bytes: u32| {
        let begun = Instant::now();
        while !wires.ping(from, bytes) {
            assert!(begun.elapsed() < LIMIT, "{from} does not reach its station by {bytes} bytes");
        }
    };
    for from in ["x1", "x2"] {
        reaches(from, 100);
        // The cable's 1500 less 50.
        reaches(from, 1450);
        assert!(!wires.ping(from, 1451));
    }
    // A link that a busy machine took for silent meanwhile drops all frames for that.
    east.until("a frame is dropped for its length", |d| {
        assert!(!wires.ping("x1", 1451));
        d.port("red.s1.s2")["tx_dropped"]["frame-too-long"].as_u64() > Some(0)
    });
    // One speaks, the other's stations hear nothing.
    let quiet = (wires.received("x2"), wires.received("y2"));
    for _ in 0..20 {
        reaches("x1", 100);
    }
    assert_eq!((wires.received("x2"), wires.received("y2")), quiet);
    // How good it is from end to end is known by both ends, from probes in band.
    let begun = Instant::now();
    let ends = loop {
        let mut c = wires.weir("m");
        c.args(["net", "monitor", "red", "--count", "1", "--interval-ms", "50", "-o", "json"]);
        let o = c.arg("--store").arg(s.path("net.redb")).output().unwrap();
        let look: Value = serde_json::from_slice(&o.stdout).unwrap();
        let ends = look["ends"].as_array().cloned().unwrap_or_default();
        if ends.len() == 2 && ends.iter().all(|e| e["delay_ns"].as_u64().is_some_and(|d| d > 0)) {
            break ends;
        }
        assert!(begun.elapsed() < LIMIT, "{look}");
    };
    for (e, (from, to)) in ends.iter().zip([("s1", "s2"), ("s2", "s1")]) {
        assert!(e["from"] == from && e["to"] == to && e["hops"] == 1 && e["measured"] == 1, "{e}");
    }
    let mut c = wires.weir("m");
    c.args(["net", "delete", "red", "blue", "--store"]).arg(s.path("net.redb"));
    let o = c.output().unwrap();
    assert!(o.status.success(), "{}", String::from_utf8_lossy(&o.stderr));
    let after = (made(&east), made(&west), wires.interfaces("e"), wires.interfaces("w"));
    assert_eq!(after, before);
    assert!(!wires.ping("x1", 100));
    east.stop();
    west.stop();
}
