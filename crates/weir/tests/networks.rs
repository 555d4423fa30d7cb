//! Virtual networks on real `weir run`s: by their node APIs, from LAB files, killed at any moment.

mod certificates;
mod networks_hosts;
mod networks_links;
mod networks_moves;
mod openflow_rig;
mod routers;
mod run_daemon;
mod serve;
mod slicer_killed;
mod slicer_rig;

use certificates::{Authority, Identity};
use proptest::prelude::*;
use run_daemon::{Daemon, weir};
use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::sync::Arc;
use std::time::Duration;
use tokio_rustls::rustls::crypto::ring;
use tokio_rustls::rustls::pki_types::ServerName;
use tokio_rustls::rustls::{ClientConfig, ClientConnection, StreamOwned};

/// A physical node with these ports and room for many VDPs; its API's address.
fn node(ports: &[&str], ca: &Authority) -> (Daemon, String) {
    let ports: Vec<(&str, &str)> = ports.iter().map(|p| (*p, "null")).collect();
    node_by(weir(), "127.0.0.1", &ports, ca)
}

/// The same by a command that becomes the binary, at another address, with these devices.
fn node_by(command: Command, ip: &str, ports: &[(&str, &str)], ca: &Authority) -> (Daemon, String) {
    let own = ca.signs(ip);
    let files = [("n.pem", &*own.certificate), ("n.key", &*own.key), ("ca.pem", &*ca.pem)];
    let mut config = format!(
        "[dataplane]\nframes = 8192\n\
         tcam = {{ mapping_entries = 16384, action_entries = 16384, slice_entries = 4, block_slices = 64 }}\n\
         [api]\nlisten = '{ip}:0'\ntls = {{ certificate = 'n.pem', key = 'n.key', ca = 'ca.pem' }}\n",
    );
    for (p, device) in ports {
        config.push_str(&format!("[[port]]\nname = '{p}'\ndevice = '{device}'\n"));
    }
    let mut d = Daemon::spawn_by(command, &config, &[], &files);
    let line = d.wait_for("node API at ");
    d.wait_for("running: ");
    let at = line.rsplit(' ').next().unwrap().to_owned();
    (d, at)
}

/// A supervisor: a folder with its store, its identity and its files.
struct Supervisor {
    dir: tempfile::TempDir,
    hosts: String,
}

impl Supervisor {
    fn new(ca: &Authority, hosts: &[(&str, &str)]) -> Self {
        let dir = tempfile::tempdir().unwrap();
        ca.signs("supervisor").write(ca, dir.path(), "s");
        let mut all = "[tls]\ncertificate = 's.pem'\nkey = 's.key'\nca = 's.ca.pem'\n".to_owned();
        for (name, api) in hosts {
            all.push_str(&format!("[[host]]\nname = '{name}'\napi = '{api}'\n"));
        }
        Self { dir, hosts: all }
    }
    fn path(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }
    /// A LAB file of these networks on its hosts.
    fn lab(&self, networks: &str) -> PathBuf {
        let path = self.path("lab.toml");
        std::fs::write(&path, format!("{}{networks}", self.hosts)).unwrap();
        path
    }
    fn command(&self, arguments: &[&str]) -> std::process::Command {
        let mut c = weir();
        c.args(arguments).arg("--store").arg(self.path("net.redb"));
        c
    }
    fn run(&self, arguments: &[&str]) -> Output {
        self.command(arguments).output().unwrap()
    }
    /// What a command that must work prints.
    fn ask(&self, arguments: &[&str]) -> String {
        let o = self.run(arguments);
        let error = String::from_utf8_lossy(&o.stderr).into_owned();
        assert!(o.status.success(), "{arguments:?}: {error}");
        String::from_utf8(o.stdout).unwrap()
    }
    /// The one line with which a command is refused.
    fn refused(&self, arguments: &[&str], code: i32) -> String {
        let o = self.run(arguments);
        let error = String::from_utf8(o.stderr).unwrap();
        assert_eq!(o.status.code(), Some(code), "{arguments:?}: {error}");
        assert_eq!(error.lines().count(), 1, "{error}");
        error
    }
    fn apply(&self, networks: &str) -> String {
        self.ask(&["apply", &text(&self.lab(networks))])
    }
}

fn text(p: &Path) -> String {
    p.display().to_string()
}

/// What a node has, without what only time changes.
fn has(d: &Daemon) -> Value {
    let mut v = d.json(&["show"]);
    v["plane"]["at_ns"] = Value::Null;
    v["plane"]["frames"] = Value::Null;
    v["plane"]["cpu_ns"] = Value::Null;
    for one in v["vdps"].as_array_mut().unwrap() {
        one["detail"]["memory_bytes"] = Value::Null;
        one["takes"] = Value::Null;
    }
    v
}

fn names(d: &Daemon) -> Vec<String> {
    let v = d.json(&["show"]);
    let all = v["vdps"].as_array().unwrap().iter();
    all.filter(|v| v["vid"] != 0).map(|v| v["name"].as_str().unwrap().to_owned()).collect()
}

const RED: &str = "[[network]]\nname = 'red'\nowner = 'alice'\nflow_space = ['dl_vlan=10']\n\
                   [[network.node]]\nname = 's1'\nhost = 'east'\nports = ['e1']\nprogram = 'learning'\n\
                   [[network.node]]\nname = 's2'\nhost = 'west'\nports = ['w1']\nprogram = 'learning'\n\
                   [[network.link]]\nbetween = ['s1', 's2']\n";
const BLUE: &str = "[[network]]\nname = 'blue'\nflow_space = ['dl_vlan=20']\n\
                    [[network.node]]\nname = 's1'\nhost = 'east'\nports = ['e1']\n\
                    openflow = { listen = ['ptcp:0'] }\n";
const TRUNK: &str = "[[link]]\nbetween = ['east:trunk', 'west:trunk']\n";

fn two() -> (Daemon, Daemon, Supervisor) {
    let ca = Authority::new();
    let (east, a) = node(&["e1", "trunk"], &ca);
    let (west, b) = node(&["w1", "trunk"], &ca);
    let s = Supervisor::new(&ca, &[("east", &a), ("west", &b)]);
    (east, west, s)
}

#[test]
fn a_lab_is_applied_changed_and_deleted_without_a_trace() {
    let (east, west, s) = two();
    let before = (has(&east), has(&west));
    let lab = format!("{TRUNK}{RED}{BLUE}");
    let dry = s.ask(&["apply", "--dry-run", &text(&s.lab(&lab))]);
    assert!(dry.contains("+ east: VDP 1 red.s1") && dry.contains("nothing was touched"), "{dry}");
    assert_eq!((has(&east), has(&west)), before);
    assert!(s.apply(&lab).contains("revision 1 holds"));
    assert_eq!(names(&east), ["red.s1", "blue.s1"]);
    assert_eq!(names(&west), ["red.s2"]);
    assert!(s.apply(&lab).contains("nothing differs; revision 1 holds"));

    let list = s.ask(&["net", "list"]);
    assert!(list.lines().nth(1).unwrap().starts_with("red"), "{list}");
    let json: Value = serde_json::from_str(&s.ask(&["net", "list", "--json"])).unwrap();
    assert_eq!(json["result"]["networks"][0]["places"][1]["host"], "west");
    let toml = s.ask(&["net", "list", "-o", "toml"]);
    assert!(s.apply(&format!("{TRUNK}{toml}")).contains("nothing differs"), "{toml}");
    let shown = s.ask(&["net", "show", "red"]);
    let json: Value = serde_json::from_str(&s.ask(&["net", "show", "red", "-o", "json"])).unwrap();
    let same: Value = serde_json::from_str(&s.ask(&["net", "show", "red", "--json"])).unwrap();
    assert_eq!((&same["result"]["name"], &same["kind"]), (&"red".into(), &json["kind"]), "{same}");
    assert!(shown.contains("of alice") && shown.contains("s2    west    1  fast"), "{shown}");

    // Set, and nothing else is touched; migrate; monitor.
    let red = |d: &Daemon| d.json(&["show", "--vdp", "red.s1"])["vdps"][0].clone();
    let blue =
        |d: &Daemon| d.json(&["show", "--vdp", "blue.s1"])["vdps"][0]["detail"]["label"].clone();
    let old = blue(&east);
    let told = s.ask(&["net", "set", "red", "s1", "cpu_permille=250", "path=slow"]);
    assert!(told.contains("- cpu_permille = 0") && told.contains("+ cpu_permille = 250"), "{told}");
    east.until("the slow path", |d| red(d)["phase"] == "slow");
    assert_eq!(red(&east)["detail"]["cpu_permille"], 250);
    assert_eq!(blue(&east), old);
    let proof = s.ask(&["net", "migrate", "red", "s1", "--path", "fast", "-o", "json"]);
    let proof: Value = serde_json::from_str(&proof).unwrap();
    let proof = &proof["result"]["became"][0];
    assert_eq!((&proof["name"], &proof["kind"]), (&"red.s1".into(), &"fast".into()), "{proof}");
    assert_eq!((&proof["lost"], &proof["conserved"]), (&0.into(), &true.into()), "{proof}");
    assert!(proof["took_ns"].as_u64() > Some(0) && proof["buffered"].is_u64(), "{proof}");
    assert_eq!(red(&east)["phase"], "fast");
    let looks = s.ask(&["net", "monitor", "red", "--count", "1", "--interval-ms", "50", "--json"]);
    let look: Value = serde_json::from_str(looks.trim()).unwrap();
    assert_eq!((&look["network"], &look["dropped_frames"]), (&Value::from("red"), &Value::from(0)));
    // What it has of what all share, in all and node by node.
    assert_eq!(look["nodes"].as_array().unwrap().len(), 2, "{look}");
    assert_eq!(look["nodes"][0]["node"], "s1");
    for what in ["tcam_entries", "memory_bytes"] {
        let of = |v: &Value| v[what].as_u64().unwrap();
        let nodes: u64 = look["nodes"].as_array().unwrap().iter().map(of).sum();
        assert!(of(&look) > 0 && of(&look) == nodes, "{what}: {look}");
    }

    // A change by hand is seen, and put right.
    east.ask(&["vdp", "set", "red.s1", "--cpu-permille", "1"]);
    assert_eq!(red(&east)["detail"]["label"], Value::Null);
    let same = s.ask(&["net", "list", "-o", "toml"]);
    assert!(s.apply(&format!("{TRUNK}{same}")).contains("~ east: VDP 1 red.s1"));
    assert_eq!(red(&east)["detail"]["cpu_permille"], 250);

    s.ask(&["net", "delete", "red", "blue"]);
    assert_eq!((has(&east), has(&west)), before);
    assert!(s.refused(&["net", "show", "red"], 2).contains("no network 'red'"));
    east.stop();
    west.stop();
}

#[test]
fn what_is_kept_outlives_a_reload_and_a_network_is_created_beside_others() {
    let ca = Authority::new();
    let (mut east, a) = node(&["e1", "trunk"], &ca);
    let s = Supervisor::new(&ca, &[("east", &a)]);
    s.apply(BLUE);
    let config = std::fs::read_to_string(east.path("t.toml")).unwrap();
    let line = east.reload(&format!("{config}[[port]]\nname = 'new'\ndevice = 'null'\n"));
    assert!(line.contains("done"), "{line}");
    assert_eq!(names(&east), ["blue.s1"]);
    let guest = "[[network]]\nname = 'guest'\nflow_space = ['dl_vlan=30']\n\
                 [[network.node]]\nname = 's1'\nhost = 'east'\nports = ['new', 'e1']\n";
    let file = s.path("guest.toml");
    std::fs::write(&file, guest).unwrap();
    s.ask(&["net", "create", &text(&file)]);
    assert_eq!(names(&east), ["blue.s1", "guest.s1"]);
    let told = s.refused(&["net", "create", &text(&file)], 2);
    assert!(told.contains("guest.toml:2:1: network 'guest' is there already"), "{told}");
    let other = s.path("other.toml");
    std::fs::write(&other, guest.replace("guest", "other").replace("'new', 'e1'", "'e9'")).unwrap();
    let told = s.refused(&["net", "create", &text(&other)], 2);
    assert!(told.contains("other.toml:7:10: host 'east' has no port 'e9'"), "{told}");
    let twice = ["net", "set", "guest", "s1", "cpu_permille=100", "cpu_permille=200"];
    assert!(s.refused(&twice, 2).contains("'cpu_permille' is given twice"));
    let told = s.refused(&["net", "set", "guest", "s1", "path=slow", "cpu_permille=20%"], 2);
    assert!(told.contains("cpu_permille=20%: invalid type: string"), "{told}");
    assert!(
        s.refused(&["net", "set", "guest", "s1", "colour=1"], 2).contains("unknown key 'colour'")
    );
    assert!(s.refused(&["net", "set", "guest", "s9", "path=slow"], 2).contains("There are: s1"));
    // A guard is of a network that is there, and stays when that goes.
    let all = s.ask(&["net", "list", "-o", "toml"]);
    let guard = |network: &str| {
        format!(
            "{all}[[guard]]\nname = 'flood'\nnetwork = '{network}'\nrate = 'slow-frames'\nabove = 9\n"
        )
    };
    let lab = text(&s.lab(&guard("geust")));
    let told = s.refused(&["apply", &lab], 2);
    assert!(told.contains("lab.toml:") && told.contains("did you mean 'guest'?"), "{told}");
    s.apply(&guard("guest"));
    let told = s.ask(&["net", "delete", "guest"]);
    assert!(
        told.contains("guard 'flood' stays, and watches nothing until there is a network 'guest'"),
        "{told}"
    );
    s.ask(&["net", "create", &text(&file)]);
    east.stop();
}

/// A port that a host's file has no more is its own node's matter.
#[test]
fn a_port_that_is_gone_keeps_up_no_other_network() {
    let ca = Authority::new();
    let (mut east, a) = node(&["e1", "e2", "e3"], &ca);
    let s = Supervisor::new(&ca, &[("east", &a)]);
    let net = |name: &str, ports: &str| {
        format!(
            "[[network]]\nname = '{name}'\n[[network.node]]\nname = 's1'\nhost = 'east'\nports = [{ports}]\n"
        )
    };
    let all = format!("{}{}", net("red", "'e1', 'e2'"), net("blue", "'e3'"));
    s.apply(&all);
    let config = std::fs::read_to_string(east.path("t.toml")).unwrap();
    east.reload(&config.replace("[[port]]\nname = 'e2'\ndevice = 'null'\n", ""));
    let warned = "! east: no port 'e2' there; red.s1 stays as it is";
    for change in [
        &["net", "set", "blue", "s1", "cpu_permille=9"][..],
        &["net", "migrate", "blue", "s1", "--path", "slow"],
        &["net", "delete", "blue"],
    ] {
        assert!(s.ask(change).contains(warned), "{change:?}");
    }
    assert!(s.apply(&all).contains(warned));
    assert_eq!(names(&east), ["red.s1", "blue.s1"]);
    let told = s.refused(&["net", "set", "red", "s1", "cpu_permille=9"], 2);
    let lacks = told.contains("host 'east' has no port 'e2'");
    assert!(lacks && told.contains("; red.s1 wants it"), "{told}");
    // The port is back, and all is as it was.
    east.reload(&config);
    assert!(s.apply(&all).contains("nothing differs"));
    s.ask(&["net", "set", "red", "s1", "cpu_permille=9"]);
    s.ask(&["net", "delete", "red"]);
    assert_eq!(names(&east), ["blue.s1"]);
    east.stop();
}

/// Who is told that a change is done finds its listener there, whoever had its address before.
#[test]
fn a_listeners_address_goes_on_to_another_network() {
    let ca = Authority::new();
    let (east, a) = node(&["e1"], &ca);
    let s = Supervisor::new(&ca, &[("east", &a)]);
    let free = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let at = free.local_addr().unwrap();
    drop(free);
    for name in ["red", "blue", "red"] {
        s.apply(&format!(
            "[[network]]\nname = '{name}'\n[[network.node]]\nname = 's1'\nhost = 'east'\nports = ['e1']\n\
             openflow = {{ listen = ['ptcp:{}'] }}\n",
            at.port()
        ));
        TcpStream::connect(at).unwrap();
    }
    east.stop();
}

/// What a network's switch shows are files on its host, as what a VDP of the host's own file shows.
#[test]
fn a_networks_certificate_is_read_again_by_its_host() {
    let ca = Authority::new();
    let (mut east, a) = node(&["e1"], &ca);
    let s = Supervisor::new(&ca, &[("east", &a)]);
    let put = |own: &Identity| own.write(&ca, s.dir.path(), "switch");
    let first = ca.signs("127.0.0.1");
    let files = put(&first);
    s.apply(&format!(
        "[[network]]\nname = 'red'\ntls = {{ certificate = '{}', key = '{}', ca = '{}' }}\n\
         [[network.node]]\nname = 's1'\nhost = 'east'\nports = ['e1']\n\
         openflow = {{ listen = ['pssl:0'] }}\n",
        files.certificate.display(),
        files.key.display(),
        files.ca.display()
    ));
    let shown = |d: &Daemon| {
        let v = d.json(&["show", "--vdp", "red.s1"])["vdps"][0].clone();
        let at = v["detail"]["openflow"]["listeners"][0]["bound"].as_str().unwrap().to_owned();
        let mut c = connect(&at, &ca, Some(&ca.signs("tool.example")));
        while c.conn.is_handshaking() {
            c.conn.complete_io(&mut c.sock).unwrap();
        }
        c.conn.peer_certificates().unwrap()[0].clone()
    };
    let is = |d: &Daemon, own: &Identity| assert_eq!(shown(d), own.der().0[0]);
    is(&east, &first);
    let second = ca.signs("127.0.0.1");
    put(&second);
    let config = std::fs::read_to_string(east.path("t.toml")).unwrap();
    assert_eq!(east.reload(&config), "reload: done");
    is(&east, &second);
    assert_eq!(east.reload(&config), "reload: nothing differs");
    // One that does not fit its key is told of, and nobody is shown it.
    let third = ca.signs("127.0.0.1");
    std::fs::write(&files.certificate, &third.certificate).unwrap();
    east.signal(Signal::HUP);
    let line = east.wait_for("its certificate stays what it was");
    assert!(line.contains("red.s1") && line.contains("switch.key"), "{line}");
    east.wait_for("reload: ");
    is(&east, &second);
    assert!(s.ask(&["apply", &text(&s.path("lab.toml"))]).contains("nothing differs"));
    put(&third);
    let told = s.ask(&["apply", &text(&s.path("lab.toml"))]);
    assert!(told.contains("~ east: VDP 1 red.s1"), "{told}");
    is(&east, &third);
    assert!(s.ask(&["apply", &text(&s.path("lab.toml"))]).contains("nothing differs"));
    // The same in other words is the same.
    std::fs::write(&files.certificate, format!("issued today\n{}", third.certificate)).unwrap();
    assert!(s.ask(&["apply", &text(&s.path("lab.toml"))]).contains("nothing differs"));
    is(&east, &third);
    // And in another file it is read again from that.
    let moved = s.path("moved.crt");
    std::fs::rename(&files.certificate, &moved).unwrap();
    let lab = std::fs::read_to_string(s.path("lab.toml")).unwrap();
    let lab = lab.replace(&text(&files.certificate), &text(&moved));
    std::fs::write(s.path("lab.toml"), lab).unwrap();
    s.ask(&["apply", &text(&s.path("lab.toml"))]);
    is(&east, &third);
    let fourth = ca.signs("127.0.0.1");
    put(&fourth);
    std::fs::rename(&files.certificate, &moved).unwrap();
    assert_eq!(east.reload(&config), "reload: done");
    is(&east, &fourth);
    east.stop();
}

#[test]
fn what_can_not_be_is_refused_whole_with_its_place() {
    let (east, west, s) = two();
    s.apply(&format!("{TRUNK}{BLUE}"));
    let before = (has(&east), has(&west));
    let all = format!("{TRUNK}{RED}{BLUE}");
    let listeners: String = (0..17).map(|i| format!("'ptcp:{}', ", 7000 + i)).collect();
    let listeners = format!("[{listeners}]");
    for (from, to, what) in [
        ("owner", "onwer", "lab.toml:15:1: unknown key 'onwer': did you mean 'owner'?"),
        ("host = 'west'", "host = 'wets'", "no host 'wets': did you mean 'west'?"),
        ("['w1']", "['w9']", "lab.toml:25:10: host 'west' has no port 'w9': did you mean 'w1'?"),
        ("dl_vlan=20", "dl_vlan=10", "a frame could be red.s1's and blue.s1's"),
        (
            "dl_vlan=20",
            "in_port=1",
            "lab.toml:31:15: flow space 'in_port=1': in_port is the nodes'",
        ),
        ("'learning'", "'knitting'", "knitting"),
        ("'ptcp:0'", "'ptcp:x'", "lab.toml:32:1: blue.s1: listen 'x' is not a TCP port"),
        ("name = 'red'", "name = 'red'\nisolation = 'strong'", "give node 's1' tcam_entries"),
        (
            "'dl_vlan=20']",
            "'dl_vlan=20']
controllers = ['smoke:signals']",
            "'smoke:signals'",
        ),
        ("['ptcp:0']", &listeners, "blue.s1: 17 listeners: a VDP has 16 at most"),
    ] {
        let bad = all.replacen(from, to, 1);
        assert_ne!(bad, all);
        let told = s.refused(&["apply", &text(&s.lab(&bad))], 2);
        assert!(told.contains(what), "{told}");
        assert_eq!((has(&east), has(&west)), before);
    }
    // A dry run refuses what the change would.
    let beyond = all.replacen("program = 'learning'\n", "default = 'output:3'\n", 1);
    let told = s.refused(&["apply", "--dry-run", &text(&s.lab(&beyond))], 2);
    assert!(told.contains("lab.toml:21:1: red.s1: default: there is no port 3"), "{told}");
    // A node that does not answer: nothing is touched anywhere.
    let silent = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let at = silent.local_addr().unwrap();
    drop(silent);
    let gone = format!("[[host]]\nname = 'gone'\napi = '{at}'\n{all}");
    let told = s.refused(&["apply", &text(&s.lab(&gone))], 1);
    assert!(told.contains("host 'gone'") && told.contains("no node API answers there"), "{told}");
    assert_eq!((has(&east), has(&west)), before);
    // One that refuses a step all the same: those before it are undone. The name is taken by hand.
    east.ask(&["vdp", "create", "9", "--name", "red.s1"]);
    let told = s.refused(&["apply", &text(&s.lab(&all))], 2);
    assert!(told.contains("has a VDP called 'red.s1' that is not ours"), "{told}");
    east.ask(&["vdp", "delete", "9"]);
    assert_eq!((has(&east), has(&west)), before);
    east.stop();
    west.stop();
}

/// The lab that comes along, on the node that comes along.
#[test]
fn the_shipped_lab_is_applied() {
    let labs = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../labs");
    let read = |name| std::fs::read_to_string(labs.join(name)).unwrap();
    let config = read("node.toml");
    let d = Daemon::start(&config, &[]);
    let s = Supervisor { dir: tempfile::tempdir().unwrap(), hosts: String::new() };
    let lab = s.path("lab.toml");
    let socket = format!("unix:{}", d.socket().display());
    // A port of its own for whoever tests beside us.
    let text_of = read("networks.toml").replace("unix:node.sock", &socket).replace("16641", "0");
    std::fs::write(&lab, text_of).unwrap();
    s.ask(&["apply", &text(&lab)]);
    assert_eq!(names(&d), ["red.s1", "blue.s1", "guest.s1"]);
    for word in ["set red s1 cpu_permille=200", "migrate blue s1 --path slow", "delete guest"] {
        let words: Vec<&str> = std::iter::once("net").chain(word.split(' ')).collect();
        s.ask(&words);
    }
    assert_eq!(names(&d), ["red.s1", "blue.s1"]);
    // Whose VDP somebody has deleted is not there, which is said, and is made again.
    d.ask(&["vdp", "delete", "red.s1"]);
    let shown = s.run(&["net", "show", "red"]);
    let said = String::from_utf8_lossy(&shown.stderr).into_owned();
    assert!(shown.status.success() && said.contains("node red.s1 is not at host"), "{said}");
    assert!(String::from_utf8_lossy(&shown.stdout).contains("not there"));
    let monitor = ["net", "monitor", "red", "--count", "1", "--interval-ms", "50"];
    assert!(s.ask(&monitor).contains("node red.s1 is not there: 'weir apply'"));
    s.ask(&["apply", &text(&lab)]);
    assert_eq!(names(&d), ["red.s1", "blue.s1", "guest.s1"]);
    assert!(!s.ask(&monitor).contains("not there"));
    d.stop();
}

/// Kills `weir apply` at random moments; what is there afterwards is what holds, before or after.
#[test]
fn soak_a_killed_apply_leaves_the_state_before_or_after() {
    let runs: u32 = if std::env::var_os("WEIR_SOAK").is_some() { 200 } else { 8 };
    let (east, west, s) = two();
    let file = |n: u32| {
        let cpu = format!("cpu_permille = {}\n", n % 900);
        let red = RED.replace("program = 'learning'\n", &format!("program = 'learning'\n{cpu}"));
        // Enough of them that go and come for a kill to fall in between.
        let many: String = (100..130)
            .map(|i| {
                format!(
                    "[[network]]\nname = 'f{i}-{n}'\nflow_space = ['dl_vlan={i}']\n\
                     [[network.node]]\nname = 's'\nhost = 'west'\nports = ['w1']\nprogram = 'learning'\n"
                )
            })
            .collect();
        match n % 3 {
            0 => format!("{TRUNK}{red}{BLUE}{many}"),
            1 => format!("{TRUNK}{BLUE}{many}"),
            _ => format!("{TRUNK}{red}{many}"),
        }
    };
    let nodes = |toml: &str| toml.matches("[[network.node]]").count();
    let (mut n, mut killed, mut between) = (1, 0, 0);
    s.apply(&file(0));
    // As long as an apply takes here; less, where one ends before it is killed.
    let begun = std::time::Instant::now();
    s.apply(&file(1));
    let mut whole = begun.elapsed();
    let mut pick = proptest::test_runner::TestRng::deterministic_rng(
        proptest::test_runner::RngAlgorithm::ChaCha,
    );
    while killed < runs {
        n += 1;
        assert!(n <= 8 * runs, "{killed} of {n} were killed: they end before");
        let (before, after) = (file(n - 1), file(n));
        let lab = s.lab(&after);
        let mut c = s.command(&["apply", &text(&lab)]);
        let mut child = c.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
        std::thread::sleep(whole.mul_f64(f64::from(pick.next_u32() % 1000) / 900.0));
        kill_process(Pid::from_raw(child.id().cast_signed()).unwrap(), Signal::KILL).unwrap();
        match child.wait().unwrap().success() {
            true => whole = whole.mul_f64(0.9),
            false => killed += 1,
        }
        let list: Value = serde_json::from_str(&s.ask(&["net", "list", "-o", "json"])).unwrap();
        between += u32::from(list["result"]["interrupted"] == true);
        let back = pick.next_u32().is_multiple_of(2);
        s.ask(if back { &["net", "recover", "--back"] } else { &["net", "recover"] });
        // Exactly what the store says holds, which is the state before or the one after.
        let held = s.ask(&["net", "list", "-o", "toml"]);
        assert!(
            [n - 1, n].iter().any(|n| held.contains(&format!("'f100-{n}'"))
                || held.contains(&format!("\"f100-{n}\""))),
            "{held}"
        );
        assert!([&before, &after].iter().any(|t| nodes(t) == nodes(&held)), "{held}");
        assert!(s.apply(&format!("{TRUNK}{held}")).contains("nothing differs"), "{n}: {held}");
        assert_eq!(names(&east).len() + names(&west).len(), nodes(&held));
        s.apply(&after);
    }
    println!("soak: {killed} of {} were killed, {between} of them under way", n - 1);
    s.apply("");
    assert_eq!(names(&east).len() + names(&west).len(), 0);
    east.stop();
    west.stop();
}

/// Many networks by one apply, and away again with nothing left.
#[test]
fn soak_many_networks_come_and_go_by_one_apply() {
    let n: u32 = if std::env::var_os("WEIR_SOAK").is_some() { 1024 } else { 48 };
    let ca = Authority::new();
    let (east, a) = node(&["e1", "trunk"], &ca);
    let s = Supervisor::new(&ca, &[("east", &a)]);
    let before = has(&east);
    let all: String = (1..=n)
        .map(|i| {
            format!(
                "[[network]]\nname = 'n{i}'\nowner = 'o{i}'\nflow_space = ['dl_vlan={i}']\n\
                 [[network.node]]\nname = 's'\nhost = 'east'\nports = ['e1', 'trunk']\n\
                 openflow = {{ fail_mode = 'standalone' }}\n"
            )
        })
        .collect();
    let begun = std::time::Instant::now();
    s.apply(&all);
    let made = begun.elapsed();
    assert_eq!(names(&east).len(), n as usize);
    assert!(s.apply(&all).contains("nothing differs"));
    let begun = std::time::Instant::now();
    s.apply("");
    println!("soak: {n} networks: made in {made:?}, deleted in {:?}", begun.elapsed());
    assert_eq!(has(&east), before);
    east.stop();
}

/// Connects to a node API, with a certificate or without.
fn connect(
    at: &str,
    ca: &Authority,
    own: Option<&Identity>,
) -> StreamOwned<ClientConnection, TcpStream> {
    let builder = ClientConfig::builder_with_provider(Arc::new(ring::default_provider()))
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_root_certificates(ca.roots());
    let config = match own.map(Identity::der) {
        Some((chain, key)) => builder.with_client_auth_cert(chain, key).unwrap(),
        None => builder.with_no_client_auth(),
    };
    let name = ServerName::try_from("127.0.0.1").unwrap();
    let tcp = TcpStream::connect(at).unwrap();
    tcp.set_read_timeout(Some(run_daemon::LIMIT)).unwrap();
    StreamOwned::new(ClientConnection::new(Arc::new(config), name).unwrap(), tcp)
}

#[test]
fn only_whoever_shows_a_certificate_is_answered() {
    let ca = Authority::new();
    let (d, at) = node(&["e1"], &ca);
    let (own, other) = (ca.signs("me"), Authority::new());
    let stranger = other.signs("me");
    for (own, answered) in [(Some(&own), true), (None, false), (Some(&stranger), false)] {
        let mut s = connect(&at, &ca, own);
        let mut line = String::new();
        // A server that refuses may have closed before all was sent.
        let _ = s.write_all(b"{\"do\":\"stats\"}\n");
        let got = BufReader::new(&mut s).read_line(&mut line);
        assert_eq!(got.is_ok_and(|n| n > 0), answered, "{line}");
        assert_eq!(line.starts_with("{\"item\""), answered, "{line}");
    }
    // Words that are no TLS, and a connection that says nothing, hold up nobody.
    let mut s = TcpStream::connect(&at).unwrap();
    s.set_read_timeout(Some(run_daemon::LIMIT)).unwrap();
    s.write_all(b"{\"do\":\"stats\"}\n{\"do\":\"stats\"}\n").unwrap();
    let mut rest = Vec::new();
    let _ = s.read_to_end(&mut rest);
    assert!(!rest.starts_with(b"{"));
    let _idle = TcpStream::connect(&at).unwrap();
    std::thread::sleep(Duration::from_millis(10));
    // Requests over the API do what the control socket's do; a batch ends at what is refused.
    let mut s = connect(&at, &ca, Some(&own));
    let put = |vid: u32| {
        format!("{{\"do\":\"vdp-put\",\"toml\":\"[[vdp]]\\nvid = {vid}\\nlabel = 'me'\"}}")
    };
    let batch = format!(
        "{{\"do\":\"batch\",\"of\":[{},{},{{\"do\":\"vdp-delete\",\"vdp\":\"9\"}},{}]}}\n",
        put(1),
        put(1),
        put(2)
    );
    s.write_all(batch.as_bytes()).unwrap();
    let mut line = String::new();
    BufReader::new(&mut s).read_line(&mut line).unwrap();
    assert!(line.contains("change 3 of 4: there is no VDP '9'"), "{line}");
    assert_eq!(names(&d), ["vdp1"]);
    s.write_all(b"{\"do\":\"batch\",\"of\":[{\"do\":\"stats\"}]}\n").unwrap();
    line.clear();
    BufReader::new(&mut s).read_line(&mut line).unwrap();
    assert!(line.contains("a batch has changes in it"), "{line}");
    // What one supervisor keeps is not put in place of by another that has seen the same number free.
    let mut kept = |store: u64, node: &str, whole: u64| {
        let label = format!("weir:{store:016x}:red/{node}:{0:016x}:{whole:016x}", 0);
        let toml = format!("[[vdp]]\\nvid = 7\\nname = 'red.{node}'\\nlabel = '{label}'");
        s.write_all(format!("{{\"do\":\"vdp-put\",\"toml\":\"{toml}\"}}\n").as_bytes()).unwrap();
        line.clear();
        BufReader::new(&mut s).read_line(&mut line).unwrap();
        line.clone()
    };
    assert!(kept(1, "a", 1).starts_with("{\"ok\""));
    assert!(kept(1, "a", 2).starts_with("{\"ok\""), "its own keeper changes it");
    for (store, node) in [(2, "a"), (1, "b")] {
        let said = kept(store, node, 3);
        assert!(said.contains("VDP 7 is 'red.a' now, which another keeps"), "{said}");
    }
    drop(s);
    d.stop();
}

#[test]
fn who_shows_no_certificate_is_told_of_and_keeps_nobody_out() {
    let ca = Authority::new();
    let (mut d, at) = node(&["e1"], &ca);
    let own = ca.signs("me");
    let asks = |own: Option<&Identity>| {
        let mut s = connect(&at, &ca, own);
        let _ = s.write_all(b"{\"do\":\"stats\"}\n");
        let mut line = String::new();
        let _ = BufReader::new(&mut s).read_line(&mut line);
        line.starts_with("{\"item\"")
    };
    assert!(!asks(None));
    let line = d.wait_for("node API: 127.0.0.1:");
    assert!(line.ends_with("refused: no certificate was shown"), "{line}");
    assert!(!asks(Some(&Authority::new().signs("me"))));
    let line = d.wait_for("node API: 127.0.0.1:");
    assert!(line.ends_with("nobody in 'ca' has signed it"), "{line}");
    let silent: Vec<TcpStream> = (0..150).map(|_| TcpStream::connect(&at).unwrap()).collect();
    d.wait_for("refused: 64 others had shown no certificate either");
    assert!(asks(Some(&own)));
    // Who has shown one is a client, and of them there are so many.
    let clients: Vec<_> = (0..64)
        .map(|_| {
            let mut s = connect(&at, &ca, Some(&own));
            s.write_all(b"{\"do\":\"stats\"}\n").unwrap();
            s.read_exact(&mut [0; 7]).unwrap();
            s
        })
        .collect();
    let mut s = connect(&at, &ca, Some(&own));
    let _ = s.write_all(b"{\"do\":\"stats\"}\n");
    let mut line = String::new();
    BufReader::new(&mut s).read_line(&mut line).unwrap();
    assert!(line.contains("too many clients"), "{line}");
    drop((silent, clients, s));
    d.stop();
}

#[test]
fn a_renewed_certificate_is_shown_from_the_next_sighup_on() {
    let ca = Authority::new();
    let (mut d, at) = node(&["e1"], &ca);
    let asks = |s: &mut StreamOwned<ClientConnection, TcpStream>| {
        let _ = s.write_all(b"{\"do\":\"vdp-delete\",\"vdp\":\"9\"}\n");
        let mut line = String::new();
        let _ = BufReader::new(s).read_line(&mut line);
        line.contains("there is no VDP '9'")
    };
    let own = ca.signs("me");
    let mut before = connect(&at, &ca, Some(&own));
    assert!(asks(&mut before));
    let config = std::fs::read_to_string(d.path("t.toml")).unwrap();
    // By another authority altogether.
    let new = Authority::new();
    let shown = new.signs("127.0.0.1");
    for (name, text) in [("n.pem", &shown.certificate), ("n.key", &shown.key), ("ca.pem", &new.pem)]
    {
        std::fs::write(d.path(name), text).unwrap();
    }
    assert_eq!(d.reload(&config), "reload: done");
    assert!(asks(&mut connect(&at, &new, Some(&new.signs("me")))));
    assert!(!asks(&mut connect(&at, &ca, Some(&own))));
    // Who was there before stays.
    assert!(asks(&mut before));
    assert_eq!(d.reload(&config), "reload: nothing differs");
    // One that has expired is told of, and one that can't be read changes nothing.
    let old = new.signs_until("127.0.0.1", 2001);
    for (name, text) in [("n.pem", &old.certificate), ("n.key", &old.key)] {
        std::fs::write(d.path(name), text).unwrap();
    }
    d.signal(Signal::HUP);
    let [line, _] = d.wait_for_both(["certificate of the node API: ", "reload: done"]);
    assert!(line.contains("it expired on 2001-01-01"), "{line}");
    std::fs::write(d.path("n.pem"), "nothing").unwrap();
    let line = d.reload(&config);
    assert!(line.contains("t.toml:6:") && line.contains("no certificate in PEM"), "{line}");
    // Where it listens is fixed, and told by its name.
    for (name, text) in [("n.pem", &shown.certificate), ("n.key", &shown.key)] {
        std::fs::write(d.path(name), text).unwrap();
    }
    let line = d.reload(&config.replace("listen = '127.0.0.1:0'", "listen = '127.0.0.1:1'"));
    assert!(line.contains("t.toml:5:10: [api] listen: fixed while the data plane runs"), "{line}");
    drop(before);
    d.stop();
}
