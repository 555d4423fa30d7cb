//! `weir run` between network namespaces: real pings, reloads under them, captures, interfaces that go
//! and come back. Needs root, ip, ping; and tshark for one of the tests.

mod run_daemon;

use run_daemon::{Daemon, LIMIT, has, is_root, skipped, tshark};
use std::process::{Child, Command, Stdio};
use std::time::Instant;

/// Two namespaces with an address each; their links end here, at `a` and `b`.
struct Lab {
    name: String,
}

fn sh(command: &str) -> String {
    let o = Command::new("sh").args(["-ec", command]).output().unwrap();
    let text = |b: &[u8]| String::from_utf8_lossy(b).into_owned();
    assert!(o.status.success(), "{command}\n{}{}", text(&o.stdout), text(&o.stderr));
    text(&o.stdout)
}

impl Lab {
    /// `None`, said aloud, where it can't be made.
    fn new(test: &str, letter: char) -> Option<Self> {
        if !is_root() || !has("ip") || !has("ping") {
            skipped(test, "needs root, ip and ping");
            return None;
        }
        let lab = Self { name: format!("wr{letter}{}", std::process::id() % 1_000_000) };
        let n = &lab.name;
        if !Command::new("ip").args(["netns", "add", &format!("{n}x")]).status().unwrap().success()
        {
            skipped(test, "network namespaces can't be made here");
            return None;
        }
        sh(&format!("ip netns add {n}y"));
        lab.wire('x');
        lab.wire('y');
        Some(lab)
    }

    /// The link of one side: a veth pair with its far end in the side's namespace.
    fn wire(&self, side: char) {
        let n = &self.name;
        let (last, here) = if side == 'x' { (1, "a") } else { (2, "b") };
        sh(&format!(
            "ip link add {n}{here} type veth peer name e0 netns {n}{side}
             sysctl -qw net.ipv6.conf.{n}{here}.disable_ipv6=1
             ip -n {n}{side} link set e0 address 02:00:00:00:00:0{last} up
             ip -n {n}{side} addr add 10.9.0.{last}/24 dev e0
             ip -n {n}{side} addr add fd09::{last}/64 dev e0 nodad
             ip link set {n}{here} up"
        ));
    }

    fn config(&self, rest: &str) -> String {
        let n = &self.name;
        format!(
            "[[port]]\nname = 'a'\ndevice = '{n}a'\n[[port]]\nname = 'b'\ndevice = '{n}b'\n\
             [[vdp]]\nvid = 1\nname = 'lan'\nports = ['a', 'b']\n\
             mapping = ['in_port=a', 'in_port=b']\n{rest}"
        )
    }

    /// Pings from x to y; says how many came back.
    fn ping(&self, more: &str) -> u32 {
        let n = &self.name;
        // A ping without an answer fails: what it says is looked at, not how it ends.
        let said = sh(&format!("ip netns exec {n}x ping -n -q {more} || true"));
        received(&said)
    }

    /// Pings until an answer comes.
    fn reaches(&self, to: &str) {
        let until = Instant::now() + LIMIT;
        while self.ping(&format!("-c 1 -W 1 {to}")) == 0 {
            assert!(Instant::now() < until, "{to} does not answer");
        }
    }

    /// Pings that go on until they are ended.
    fn pinging(&self) -> Child {
        let n = &self.name;
        Command::new("ip")
            .args(["netns", "exec", &format!("{n}x")])
            .args(["ping", "-n", "-q", "-i", "0.005", "-W", "5", "10.9.0.2"])
            .stdout(Stdio::piped())
            .spawn()
            .unwrap()
    }
}

impl Drop for Lab {
    fn drop(&mut self) {
        let n = &self.name;
        for c in ["netns del {}x", "netns del {}y", "link del {}a", "link del {}b"] {
            let words = c.replace("{}", n);
            // What is gone already need not go.
            let _ = Command::new("ip").args(words.split(' ')).stderr(Stdio::null()).status();
        }
    }
}

fn received(said: &str) -> u32 {
    let before = said.split(" received").next().unwrap();
    before.rsplit(' ').next().unwrap().parse().unwrap_or_else(|_| panic!("{said}"))
}

fn sent(said: &str) -> u32 {
    let before = said.split(" packets transmitted").next().unwrap();
    before.rsplit(['\n', ' ']).next().unwrap().parse().unwrap_or_else(|_| panic!("{said}"))
}

/// Ends pings as Ctrl-C does; how many were sent and came back.
fn ended(child: Child) -> (u32, u32) {
    let pid = rustix::process::Pid::from_raw(child.id().cast_signed()).unwrap();
    rustix::process::kill_process(pid, rustix::process::Signal::INT).unwrap();
    let said = String::from_utf8(child.wait_with_output().unwrap().stdout).unwrap();
    (sent(&said), received(&said))
}

const SWITCH: &str = "program = 'learning'\n";

#[test]
fn two_namespaces_ping_each_other_through_a_learning_switch() {
    let test = "two_namespaces_ping_each_other_through_a_learning_switch";
    let Some(lab) = Lab::new(test, 's') else { return };
    for kind in ["", "af_packet:"] {
        let config =
            lab.config(SWITCH).replace(&format!("'{}", lab.name), &format!("'{kind}{}", lab.name));
        let d = Daemon::start(&config, &[]);
        lab.reaches("10.9.0.2");
        assert_eq!(lab.ping("-c 50 -i 0.01 -W 5 10.9.0.2"), 50);
        assert_eq!(lab.ping("-c 20 -i 0.01 -W 5 fd09::2"), 20);
        // Packets that must be cut into fragments, too.
        assert_eq!(lab.ping("-c 5 -i 0.01 -W 5 -s 6000 10.9.0.2"), 5);
        let shown = d.ask(&["show", "--vdp", "lan"]);
        assert!(shown.contains("learned: 2"), "{shown}");
        d.stop();
    }
}

#[test]
fn reloads_under_ping_lose_nothing() {
    let Some(lab) = Lab::new("reloads_under_ping_lose_nothing", 'r') else { return };
    let mut d = Daemon::start(&lab.config(SWITCH), &[]);
    lab.reaches("10.9.0.2");
    let pings = lab.pinging();
    // The switch, rules on the fast path instead, rules on the slow path, another VDP beside, other
    // numbers for the ports.
    let rules = "rule = [{ match = 'in_port=a', actions = 'output:b' }, \
                 { match = 'in_port=b', actions = 'output:a' }]\n";
    let more = "[[port]]\nname = 'c'\ndevice = 'null'\n[[vdp]]\nvid = 9\nports = ['c']\n\
                mapping = ['in_port=c']\n";
    let variants = [
        lab.config(rules),
        lab.config(&format!("{rules}{SWITCH}path = 'slow'\n")),
        lab.config(&format!("{SWITCH}{more}")),
        lab.config(rules).replace("['a', 'b']", "{ a = 7, b = 1 }"),
        lab.config(SWITCH),
    ];
    for i in 0..25 {
        let line = d.reload(&variants[i % variants.len()]);
        assert_eq!(line, "reload: done", "{}", d.said.join("\n"));
        // Frames are to meet each of them.
        let before = d.vdp(1)["received"]["frames"].as_u64().unwrap();
        d.until("pings", |d| d.vdp(1)["received"]["frames"].as_u64() > Some(before + 4));
    }
    let (sent, received) = ended(pings);
    // The last may still be on its way when the pings are ended.
    assert!(received > 50 && sent - received <= 1, "{sent} sent, {received} received");
    let vdp = d.vdp(1);
    assert_eq!(vdp["dropped"].as_object().unwrap().len(), 0, "{vdp}");
    d.stop();
}

/// The kernel forwards what it was told, weir what it was not; nothing is lost between them whatever
/// changes, all is counted, and nothing is left when weir is killed.
#[test]
fn a_shortcut_is_taken_while_rules_allow_it() {
    let Some(lab) = Lab::new("a_shortcut_is_taken_while_rules_allow_it", 'k') else { return };
    // What IPv6 says by itself matches no rule by address, and would be dropped now and then.
    for side in ["x", "y"] {
        let quiet = "sysctl -qw net.ipv6.conf.e0.disable_ipv6=1";
        sh(&format!("ip netns exec {}{side} {quiet}", lab.name));
    }
    let by_port = "rule = [{ match = 'in_port=a', actions = 'output:b' }, \
                   { match = 'in_port=b', actions = 'output:a' }]\n";
    let by_mac = "rule = [{ match = 'dl_dst=02:00:00:00:00:02', actions = 'output:b' }, \
                  { match = 'dl_dst=02:00:00:00:00:01', actions = 'output:a' }, \
                  { match = 'dl_dst=ff:ff:ff:ff:ff:ff,in_port=a', actions = 'output:b' }, \
                  { match = 'dl_dst=ff:ff:ff:ff:ff:ff,in_port=b', actions = 'output:a' }]\n";
    let config = |rules: &str| {
        let (plain, short) = (format!("'{}", lab.name), format!("'xdp-shortcut:{}", lab.name));
        lab.config(rules).replace(&plain, &short)
    };
    let says = |d: &Daemon, what: &str| {
        let port = d.port("a");
        port["shortcut"].as_str().is_some_and(|s| s.starts_with(what))
    };
    let mut d = Daemon::start(&config(by_port), &[]);
    lab.reaches("10.9.0.2");
    d.until("a shortcut", |d| lab.ping("-c 1 -W 5 10.9.0.2") == 1 && says(d, "VDP 1"));
    assert!(d.ask(&["show"]).contains("shortcut: VDP 1"), "{}", d.ask(&["show"]));
    let frames = |d: &Daemon| d.vdp(1)["received"]["frames"].as_u64().unwrap();
    let before = frames(&d);
    assert_eq!(lab.ping("-c 50 -i 0.01 -W 5 10.9.0.2"), 50);
    assert!(frames(&d) >= before + 100, "counted");
    // Rules by port, by address, and those that need weir.
    let pings = lab.pinging();
    let variants = [
        (config(by_mac), "VDP 1 ("),
        (
            config(&by_port.replace("in_port=a'", "dl_src=02:00:00:00:00:01,in_port=a'")),
            "off: no rule",
        ),
        (config(SWITCH), "off: no rule"),
        (config(&format!("{by_port}cpu_permille = 100\n")), "off: the VDP has a CPU share"),
        (config(by_port), "VDP 1"),
    ];
    for i in 0..15 {
        let (config, shown) = &variants[i % variants.len()];
        assert_eq!(d.reload(config), "reload: done", "{}", d.said.join("\n"));
        let before = frames(&d);
        d.until(shown, |d| frames(d) > before + 4 && says(d, shown));
    }
    let (sent, received) = ended(pings);
    assert!(received > 50 && sent - received <= 1, "{sent} sent, {received} received");
    let vdp = d.vdp(1);
    assert_eq!(vdp["dropped"].as_object().unwrap().len(), 0, "{vdp}");
    d.until("a shortcut", |d| lab.ping("-c 1 -W 5 10.9.0.2") == 1 && says(d, "VDP 1"));
    let link = || sh(&format!("ip -d link show {}a", lab.name));
    assert!(link().contains("xdpgeneric"), "{}", link());
    d.signal(rustix::process::Signal::KILL);
    d.end();
    let end = Instant::now() + LIMIT;
    while link().contains("xdp") {
        assert!(Instant::now() < end, "left behind: {}", link());
    }
}

#[test]
fn a_capture_shows_the_pings() {
    let Some(lab) = Lab::new("a_capture_shows_the_pings", 'c') else { return };
    if !has("tshark") {
        return skipped("a_capture_shows_the_pings", "no tshark");
    }
    let d = Daemon::start(&lab.config(SWITCH), &[]);
    lab.reaches("10.9.0.2");
    let pings = lab.pinging();
    let file = d.path("c.pcapng");
    let name = file.display().to_string();
    d.ask(&["capture", "--vdp", "lan", "--filter", "icmp", "--count", "40", "-w", &name]);
    let _ = ended(pings);
    let lines = tshark(&file, &["frame.interface_name", "icmp.type", "icmp.checksum.status"]);
    assert_eq!(lines.len(), 40);
    for (port, kind) in [("a", 8), ("a", 0), ("b", 8), ("b", 0)] {
        assert!(lines.contains(&format!("{port}\t{kind}\t1")), "{port} {kind}: {lines:?}");
    }
    // Stamps are the day's, not the worker's own.
    let at: f64 = tshark(&file, &["frame.time_epoch"])[0].parse().unwrap();
    let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap();
    assert!((now.as_secs_f64() - at).abs() < 3600.0, "{at}");
    d.stop();
}

#[test]
fn an_interface_goes_and_comes_back_and_so_does_a_port() {
    let test = "an_interface_goes_and_comes_back_and_so_does_a_port";
    let Some(lab) = Lab::new(test, 'g') else { return };
    let mut d = Daemon::start(&lab.config(SWITCH), &[]);
    lab.reaches("10.9.0.2");
    let n = lab.name.clone();

    sh(&format!("ip link set {n}b down"));
    d.wait_for("port b: down");
    assert_eq!(lab.ping("-c 1 -W 1 10.9.0.2"), 0);
    sh(&format!("ip link set {n}b up"));
    d.wait_for("port b: up");
    lab.reaches("10.9.0.2");

    sh(&format!("ip link del {n}b"));
    d.wait_for("port b: down");
    assert_eq!(d.port("b")["up"], false);
    lab.wire('y');
    d.wait_for("port b: up");
    lab.reaches("10.9.0.2");

    // The port itself, by hand.
    d.ask(&["port", "remove", "b"]);
    assert_eq!(lab.ping("-c 1 -W 1 10.9.0.2"), 0);
    assert!(d.refused(&["port", "add", "b", "nosuchif0"]).contains("does not exist"));
    d.ask(&["port", "add", "b", &format!("{n}b")]);
    lab.reaches("10.9.0.2");
    d.stop();
}

#[test]
fn a_tap_is_a_port_of_the_kernels_own_stack() {
    let Some(lab) = Lab::new("a_tap_is_a_port_of_the_kernels_own_stack", 't') else { return };
    if !std::path::Path::new("/dev/net/tun").exists() {
        return skipped("a_tap_is_a_port_of_the_kernels_own_stack", "no /dev/net/tun");
    }
    let n = &lab.name;
    let config = lab.config(SWITCH).replace(&format!("'{n}b'"), &format!("'tap:{n}t'"));
    let d = Daemon::start(&config, &[]);
    // The far end of the switch is this host itself.
    sh(&format!(
        "ip addr add 10.9.77.2/24 dev {n}t
         ip -n {n}x addr add 10.9.77.1/24 dev e0"
    ));
    lab.reaches("10.9.77.2");
    assert_eq!(lab.ping("-c 50 -i 0.01 -W 5 10.9.77.2"), 50);
    assert_eq!(d.port("b")["fault"], serde_json::Value::Null);
    d.stop();
    // The device goes with its port.
    assert!(!sh("ip -br link").contains(&format!("{n}t")));
}

/// A connection through a firewall that is told something else, time and again, while the server alone speaks: what it says belongs to
/// a connection that only the firewall's table knows of.
#[test]
fn a_connection_outlives_reloads_of_its_firewall() {
    let test = "a_connection_outlives_reloads_of_its_firewall";
    if !has("python3") {
        return skipped(test, "needs python3");
    }
    let Some(lab) = Lab::new(test, 'w') else { return };
    let firewall = |ports: &str, most: u32| {
        lab.config(&format!(
            "[vdp.program]\nname = 'firewall'\ninside = 'a'\noutside = 'b'\nmax_connections = {most}\n\
             [[vdp.program.allow]]\nprotocol = 'tcp'\nto = '10.9.0.1/32'\nports = '{ports}'\n"
        ))
    };
    let mut d = Daemon::start(&firewall("80", 100), &[]);
    lab.reaches("10.9.0.2");
    let python = |side: char, code: &str| {
        let n = &lab.name;
        Command::new("ip")
            .args(["netns", "exec", &format!("{n}{side}"), "python3", "-c", code])
            .stdout(Stdio::piped())
            .spawn()
            .unwrap()
    };
    let server = python(
        'y',
        "import socket, time\n\
         s = socket.create_server(('10.9.0.2', 7))\n\
         c, _ = s.accept()\n\
         for i in range(200):\n    c.sendall(b'x' * 10); time.sleep(0.01)\n",
    );
    let client = python(
        'x',
        "import socket, time\n\
         until = time.time() + 20\n\
         while True:\n\
         \x20   try: c = socket.create_connection(('10.9.0.2', 7), 1); break\n\
         \x20   except OSError:\n\
         \x20       if time.time() > until: raise\n\
         \x20       time.sleep(0.05)\n\
         c.settimeout(20)\n\
         n = 0\n\
         while b := c.recv(1000): n += len(b)\n\
         print(n)\n",
    );
    d.until("a connection", |d| {
        let shown = d.ask(&["show", "--vdp", "lan"]);
        shown.lines().any(|l| l.contains("connections: ") && !l.contains(": 0 of"))
    });
    for i in 0..20 {
        let line = d.reload(&firewall(["80-81", "80"][i % 2], 100 + i as u32 / 10));
        assert_eq!(line, "reload: done", "{}", d.said.join("\n"));
        std::thread::sleep(std::time::Duration::from_millis(50));
    }
    let said = String::from_utf8(client.wait_with_output().unwrap().stdout).unwrap();
    assert_eq!(said.trim(), "2000");
    assert!(server.wait_with_output().unwrap().status.success());
    let shown = d.ask(&["show", "--vdp", "lan"]);
    assert!(shown.contains("invalid: 0"), "{shown}");
    d.stop();
}

/// An interface that another program has is waited for, in case it is just being given back; and nobody else waits with it.
#[test]
fn frames_go_on_while_an_interface_is_waited_for() {
    let test = "frames_go_on_while_an_interface_is_waited_for";
    let Some(lab) = Lab::new(test, 'i') else { return };
    let device = format!("xdp:{}a", lab.name);
    let holder = Daemon::start(&format!("[[port]]\nname = 'h'\ndevice = '{device}'\n"), &[]);
    let wires = "[[port]]\nname = 'near'\ndevice = 'replay:FILE'\n[[port]]\nname = 'far'\ndevice = 'null'\n\
                 [[vdp]]\nvid = 1\nname = 'lan'\nports = ['near', 'far']\nmapping = ['in_port=near']\n\
                 [[vdp.rule]]\nactions = ['output:far']\n";
    let frames = concat!(env!("CARGO_MANIFEST_DIR"), "/../../testdata/synthetic.pcap");
    let wires = wires.replace("FILE", frames);
    let mut d = Daemon::start(&wires, &[]);
    // Another that comes with it waits, too, and what it would have is not missed meanwhile.
    let more = format!(
        "[[port]]\nname = 'b'\ndevice = 'xdp:{}b'\n[[port]]\nname = 'c'\ndevice = '{device}'\n{wires}",
        lab.name
    );
    std::fs::write(d.path("t.toml"), more).unwrap();
    d.signal(rustix::process::Signal::HUP);
    for _ in 0..50 {
        // With the sums of all frames.
        d.vdp(1);
    }
    let said = d.wait_for("reload");
    assert!(said.contains("in use by another program"), "{said}");
    assert!(said.contains("nothing has changed"), "{said}");
    assert_eq!(d.port("b"), serde_json::Value::Null);
    let sent = || d.vdp(1)["forwarded"]["frames"].as_u64().unwrap();
    let mut adding = run_daemon::weir()
        .args(["port", "add", "c", &device, "--socket"])
        .arg(d.socket())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    // Counted as often as it can be while the addition is under way.
    let mut seen = std::collections::BTreeSet::new();
    while adding.try_wait().unwrap().is_none() {
        seen.insert(sent());
    }
    let said = adding.wait_with_output().unwrap();
    let error = String::from_utf8(said.stderr).unwrap();
    assert!(error.contains("in use by another program"), "{error}");
    assert!(seen.len() > 3, "{seen:?}");
    holder.stop();
    // It is given back a moment later than its holder has ended.
    d.ask(&["port", "add", "c", &device]);
    d.stop();
}
