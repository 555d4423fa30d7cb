//! Physical nodes that labs call differently, that two hosts are one of, and that do not answer.

use super::networks_moves::addresses;
use super::run_daemon::Daemon;
use super::{Supervisor, names, text};
use rustix::process::Signal;
use serde_json::Value;
use std::os::unix::fs::symlink;
use std::path::PathBuf;

const PORTS: &str =
    "[[port]]\nname = 'a'\ndevice = 'null'\n[[port]]\nname = 'b'\ndevice = 'null'\n";

fn network(name: &str, host: &str, vlan: u32, more: &str) -> String {
    format!(
        "[[network]]\nname = '{name}'\nflow_space = ['dl_vlan={vlan}']\n[[network.node]]\nname = 's1'\n\
         host = '{host}'\nports = ['a', 'b']\ndefault = 'drop'\n{more}\n"
    )
}

/// Physical nodes, each behind a name that can be taken away.
struct World {
    s: Supervisor,
    all: Vec<Daemon>,
    at: [String; 3],
}

impl World {
    fn new(n: usize) -> Self {
        let s = Supervisor { dir: tempfile::tempdir().unwrap(), hosts: String::new() };
        let all: Vec<Daemon> = (0..n).map(|_| Daemon::start(PORTS, &[])).collect();
        let w = Self { s, all, at: addresses() };
        (0..n).for_each(|i| w.connect(i));
        w
    }
    fn door(&self, i: usize) -> PathBuf {
        self.s.path(&format!("h{i}.sock"))
    }
    fn connect(&self, i: usize) {
        symlink(self.all[i].socket(), self.door(i)).unwrap();
    }
    fn cut(&self, i: usize) {
        std::fs::remove_file(self.door(i)).unwrap();
    }
    /// `[[host]]`s of these, by `name`.
    fn hosts(&self, of: &[usize], name: &str) -> String {
        let host = |i: &usize| {
            let at = &self.at[*i];
            format!("[[host]]\nname = '{name}{i}'\napi = 'unix:h{i}.sock'\ntunnel = '{at}'\n")
        };
        of.iter().map(host).collect()
    }
    fn phase(&self, i: usize, name: &str) -> Value {
        self.all[i].json(&["show", "--vdp", name])["vdps"][0]["phase"].clone()
    }
    fn end(self) {
        self.all.into_iter().for_each(|d| drop(d.stop()));
    }
}

#[test]
fn a_host_that_is_renamed_keeps_its_networks_and_no_two_are_one() {
    let mut w = World::new(2);
    let red = |host: &str| network("red", host, 10, "");
    w.s.hosts = w.hosts(&[0], "h");
    w.s.apply(&red("h0"));
    let label =
        |w: &World| w.all[0].json(&["show", "--vdp", "red.s1"])["vdps"][0]["detail"].clone();
    let old = label(&w)["label"].clone();
    // By the same words, and by others for the same data plane.
    let other = format!("[[host]]\nname = 'x0'\napi = 'unix:{}'\n", w.all[0].socket().display());
    for (hosts, name) in [(w.hosts(&[0], "k"), "k0"), (other.clone(), "x0")] {
        w.s.hosts = hosts;
        let told = w.s.apply(&red(name));
        assert!(!told.contains("red.s1"), "{told}");
        assert!(w.s.apply(&red(name)).contains("nothing differs"));
        assert_eq!(label(&w)["label"], old);
        let listed: Value = serde_json::from_str(&w.s.ask(&["net", "list", "-o", "json"])).unwrap();
        assert_eq!(listed["result"]["networks"][0]["places"][0]["host"], name);
    }
    // Two hosts that are one are refused, by the same words or by others.
    for hosts in [w.hosts(&[0], "h") + &w.hosts(&[0], "k"), other.clone() + &w.hosts(&[0], "k")] {
        w.s.hosts = hosts.replace("tunnel", "#");
        let told = w.s.refused(&["apply", &text(&w.s.lab(&red("k0")))], 2);
        assert!(told.contains("is reached: each host is a data plane of its own"), "{told}");
        assert_eq!(label(&w)["label"], old);
    }
    // Names may be swapped: what is wanted at a name is at the data plane that has it.
    let blue = |host: &str| network("blue", host, 20, "");
    w.s.hosts = w.hosts(&[0, 1], "h");
    w.s.apply(&format!("{}{}", red("h0"), blue("h1")));
    w.s.hosts = w.s.hosts.replace("'h0'", "'x'").replace("'h1'", "'h0'").replace("'x'", "'h1'");
    let told = w.s.apply(&format!("{}{}", red("h1"), blue("h0")));
    assert!(!told.contains(".s1"), "{told}");
    let told = w.s.apply(&format!("{}{}", red("h0"), blue("h1")));
    assert!(told.contains("+ h0: VDP 2 red.s1"), "{told}");
    assert_eq!(
        (names(&w.all[0]), names(&w.all[1])),
        (vec!["blue.s1".into()], vec!["red.s1".into()])
    );
    w.end();
}

#[test]
fn a_dead_host_keeps_up_nobody_and_is_taken_out() {
    let mut w = World::new(3);
    w.s.hosts = w.hosts(&[0, 1, 2], "h");
    let rule = "rule = [{ match = 'in_port=a', actions = 'output:b' }]";
    let listens = "openflow = { listen = ['ptcp:0'] }";
    let at_home = network("red", "h0", 10, rule)
        + &network("grey", "h0", 11, listens).replace("default = 'drop'\n", "");
    let green = network("green", "h2", 30, "");
    w.s.apply(&format!("{at_home}{}{green}", network("blue", "h1", 20, "")));
    // Rules that name ports go along.
    w.s.ask(&["net", "migrate", "red", "s1", "--to", "h1"]);
    w.s.ask(&["net", "migrate", "grey", "s1", "--to", "h1"]);
    let rules = w.all[1].json(&["show", "--vdp", "red.s1", "--rules"]);
    assert_eq!(rules["rules"].as_array().unwrap().len(), 1, "{rules}");
    w.all[1].signal(Signal::KILL);
    w.all[1].end();
    // What is there is not known, and all else is.
    let shown = w.s.ask(&["net", "show", "blue"]);
    assert!(shown.contains("host is silent"), "{shown}");
    let shown: Value = serde_json::from_str(&w.s.ask(&["net", "show", "blue", "--json"])).unwrap();
    let place = &shown["result"]["places"][0];
    assert!(place["silent"].as_str().unwrap().contains("h1"), "{shown}");
    let looks = w.s.ask(&["net", "monitor", "--count", "2", "--interval-ms", "50", "--json"]);
    let looks: Vec<Value> = looks.lines().map(|l| serde_json::from_str(l).unwrap()).collect();
    for l in &looks {
        let (name, node) = (l["network"].as_str().unwrap(), &l["nodes"][0]);
        let at_dead = name == "blue";
        assert_eq!((node["there"] == false, node["silent"].is_string()), (at_dead, at_dead), "{l}");
    }
    assert_eq!(looks.len(), 2 * 4);
    // What has nothing to do with it goes on; what would have to be made there does not.
    let told = w.s.ask(&["net", "set", "green", "s1", "cpu_permille=100"]);
    assert!(told.contains("! h1: no data plane answers there; nothing is changed there"), "{told}");
    for words in ["set blue s1 cpu_permille=100", "migrate green s1 --to h1"] {
        let words: Vec<&str> = std::iter::once("net").chain(words.split(' ')).collect();
        let told = w.s.refused(&words, 1);
        assert!(told.contains("host 'h1': ") && told.contains("can't be changed there"), "{told}");
    }
    // Whatever was there comes to another host, or home, as it was when it left.
    let gone = "! h1: no data plane answers there; red.s1 is given up there";
    let dry = w.s.ask(&["net", "migrate", "red", "s1", "--to", "h2", "--dry-run"]);
    assert!(dry.contains(gone) && dry.contains("nothing was touched"), "{dry}");
    assert!(w.s.ask(&["net", "migrate", "red", "s1", "--to", "h2"]).contains(gone));
    assert_eq!(names(&w.all[2]), ["green.s1", "red.s1"]);
    w.s.ask(&["net", "migrate", "grey", "s1", "--to", "h0"]);
    assert_eq!((w.phase(0, "red.s1"), w.phase(0, "grey.s1")), ("away".into(), "fast".into()));
    w.s.ask(&["net", "migrate", "red", "s1", "--to", "h0"]);
    assert_eq!(w.phase(0, "red.s1"), "fast");
    // A lab without it can be applied.
    w.s.hosts = w.hosts(&[0, 2], "h");
    let lab = format!("{at_home}{green}");
    let told = w.s.apply(&lab);
    assert!(
        told.contains("! h1: no data plane answers there; blue.s1 is given up there"),
        "{told}"
    );
    assert!(w.s.apply(&lab).contains("nothing differs"));
    w.s.apply("");
    assert_eq!(names(&w.all[0]).len() + names(&w.all[2]).len(), 0);
    let dead = w.all.remove(1);
    drop(dead);
    w.end();
}

#[test]
fn what_comes_back_after_it_was_given_up_is_taken_away() {
    let mut w = World::new(3);
    w.s.hosts = w.hosts(&[0, 1, 2], "h");
    w.s.apply(&(network("red", "h0", 10, "") + &network("blue", "h1", 20, "")));
    w.s.ask(&["net", "migrate", "red", "s1", "--to", "h1"]);
    w.cut(1);
    w.s.ask(&["net", "migrate", "red", "s1", "--to", "h2"]);
    let told = w.s.ask(&["net", "delete", "blue"]);
    assert!(
        told.contains("! h1: no data plane answers there; blue.s1 is given up there"),
        "{told}"
    );
    assert_eq!(names(&w.all[1]), ["blue.s1", "red.s1"]);
    w.connect(1);
    // The body that counts is the one that was made since: it goes on to where the other is, which goes.
    let told = w.s.ask(&["net", "migrate", "red", "s1", "--to", "h1", "-o", "json"]);
    let moved: Value = serde_json::from_str(&told).unwrap();
    let ways: Vec<_> = moved["result"]["moved"].as_array().unwrap().iter().collect();
    let ways: Vec<_> = ways.iter().map(|m| (m["from"].clone(), m["to"].clone())).collect();
    assert_eq!(ways, [("h2".into(), "h0".into()), ("h0".into(), "h1".into())], "{told}");
    // Once more: it comes home, and the other goes.
    w.cut(1);
    w.s.ask(&["net", "migrate", "red", "s1", "--to", "h2"]);
    w.connect(1);
    w.s.ask(&["net", "migrate", "red", "s1", "--to", "h0"]);
    assert_eq!(names(&w.all[1]), [""; 0]);
    assert_eq!(names(&w.all[2]), [""; 0]);
    assert_eq!(w.phase(0, "red.s1"), "fast");
    w.end();
}

#[test]
fn what_was_given_up_is_made_again_when_its_host_is_back() {
    let mut w = World::new(1);
    w.s.hosts = w.hosts(&[0], "h");
    w.s.apply(&(network("red", "h0", 10, "") + &network("blue", "h0", 20, "")));
    let give_up = |w: &World| {
        w.cut(0);
        for n in ["red", "blue"] {
            w.s.run(&["net", "delete", n]);
        }
        w.connect(0);
    };
    give_up(&w);
    assert_eq!(names(&w.all[0]), ["red.s1", "blue.s1"]);
    // It comes by the lowest number that is free, and is called what the other is.
    let told = w.s.apply(&network("blue", "h0", 20, ""));
    let lines: Vec<&str> = told.lines().filter(|l| l.contains("VDP")).collect();
    assert_eq!(
        lines,
        ["- h0: VDP 1 red.s1", "- h0: VDP 2 blue.s1", "+ h0: VDP 1 blue.s1"],
        "{told}"
    );
    assert_eq!(names(&w.all[0]), ["blue.s1"]);
    // A change that is undone does not bring back what nobody wanted.
    give_up(&w);
    w.all[0].ask(&["vdp", "create", "9", "--name", "theirs", "--mapping", "in_port=a,dl_vlan=30"]);
    let told = w.s.refused(&["apply", &text(&w.s.lab(&network("red", "h0", 30, "")))], 2);
    let gone = "; all is as before, but what was given up is gone: h0: VDP 1 blue.s1";
    assert!(told.trim_end().ends_with(gone), "{told}");
    assert_eq!(names(&w.all[0]), ["theirs"]);
    w.end();
}

/// A name that another data plane takes over is no word on the one that had it and is dead: what was there is given up, and
/// what the other has stays.
#[test]
fn a_dead_hosts_name_is_not_what_it_had() {
    let mut w = World::new(2);
    let (red, blue) =
        (|host: &str| network("red", host, 10, ""), |host: &str| network("blue", host, 20, ""));
    w.s.hosts = w.hosts(&[0, 1], "h");
    w.s.apply(&format!("{}{}", red("h0"), blue("h1")));
    let label = w.all[1].json(&["show", "--vdp", "blue.s1"])["vdps"][0]["detail"]["label"].clone();
    w.cut(0);
    w.s.hosts = w.hosts(&[1], "h").replace("'h1'", "'h0'");
    let told = w.s.apply(&format!("{}{}", red("h0"), blue("h0")));
    assert!(told.contains("red.s1 is given up there") && !told.contains("blue.s1"), "{told}");
    assert_eq!(names(&w.all[1]), ["blue.s1", "red.s1"]);
    let now = w.all[1].json(&["show", "--vdp", "blue.s1"])["vdps"][0]["detail"]["label"].clone();
    assert_eq!(now, label);
    assert!(w.s.apply(&format!("{}{}", red("h0"), blue("h0"))).contains("nothing differs"));
    w.end();
}
