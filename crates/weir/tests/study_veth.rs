//! `weir study` over veth, with tiny durations. Needs root and iproute2; makes network namespaces
//! and shows that they are gone afterwards.

use serde_json::Value;
use std::process::{Command, Output, Stdio};

/// Runs a study; its process id with what it said.
fn run(arguments: &[&str]) -> (u32, Output) {
    let child = Command::new(env!("CARGO_BIN_EXE_weir"))
        .args(["study", "run"])
        .args(arguments)
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("the binary runs");
    (child.id(), child.wait_with_output().expect("it ends"))
}

fn namespaces() -> Option<String> {
    let out = Command::new("ip").args(["netns", "list"]).output().ok()?;
    out.status.success().then(|| String::from_utf8_lossy(&out.stdout).into_owned())
}

fn is_root() -> bool {
    let id = Command::new("id").arg("-u").output();
    id.is_ok_and(|o| o.stdout == b"0\n")
}

fn skipped(test: &str) -> bool {
    let bridge = Command::new("bridge").arg("-V").output().is_ok_and(|o| o.status.success());
    if is_root() && bridge && namespaces().is_some() {
        return false;
    }
    eprintln!("SKIPPED: {test} needs root and iproute2");
    true
}

fn series<'a>(r: &'a Value, quantity: &str) -> Vec<(&'a str, Vec<&'a Value>)> {
    let all = r["series"].as_array().expect("a list");
    all.iter()
        .filter(|s| s["y"]["name"] == quantity)
        .map(|s| {
            let points = s["points"].as_array().expect("a list").iter().collect();
            (s["name"].as_str().expect("a name"), points)
        })
        .collect()
}

fn result(arguments: &[&str]) -> Value {
    let (pid, done) = run(arguments);
    let said = String::from_utf8_lossy(&done.stderr);
    assert_eq!(done.status.code(), Some(0), "{said}");
    assert_eq!(said, "", "quiet in a pipe");
    let left = namespaces().expect("a list");
    assert!(!left.contains(&format!("weir-study-{pid}-")), "left behind: {left}");
    let mut json: Value = serde_json::from_slice(&done.stdout).expect("one JSON document");
    json["result"].take()
}

#[test]
fn the_whole_path_beside_the_bridge() {
    if skipped("the_whole_path_beside_the_bridge") {
        return;
    }
    let r = result(&["veth-forward", "--quick", "--json"]);
    let all = series(&r, "rate of the whole path over veth");
    let names: Vec<&str> = all.iter().map(|s| s.0).collect();
    assert_eq!(
        names,
        [
            "Linux bridge",
            "weir, fast path",
            "weir, shortcut",
            "bare AF_XDP",
            "Linux router",
            "generator alone"
        ]
    );
    for (name, points) in all.iter().take(5) {
        for p in points {
            let c = &p["costs"][0];
            let n = |what: &str| c[what].as_f64().expect("a number");
            // One thread sends and forwards in turn, so what was sent is what came out. What comes out
            // is counted by the kernel, which may have had a word of its own to say on that wire.
            let strays = n("delivered") - n("sent");
            assert!((0.0..=2.0).contains(&strays), "{name}: {p}");
            assert!(n("sent") > 0.0 && n("generator_ns") > 0.0, "{p}");
            if let Some(rate) = p["samples"][0].as_f64() {
                // Costs are of each frame sent, the rate of those that came out: strays are among these alone.
                let each = n("delivered") / n("sent");
                let want = each * 1e3 / (n("total_ns") - n("generator_ns"));
                assert!((rate - want).abs() < 1e-6 * want, "{p}");
            }
        }
    }
}

#[test]
fn throughput_of_every_path() {
    if skipped("throughput_of_every_path") {
        return;
    }
    let r = result(&["vdp-throughput", "--place", "veth", "--trial", "0.01", "--quick", "--json"]);
    let all = series(&r, "throughput over veth (RFC 2544, no frame lost)");
    assert_eq!(all.len(), 4, "both paths, bridge and router");
    for (name, points) in &all {
        let sizes: Vec<u64> =
            points.iter().filter_map(|p| p["x"].as_f64()).map(|x| x as u64).collect();
        assert_eq!(sizes, [64, 128, 256, 512, 1024, 1280, 1518], "{name}");
        // A busy machine may lose a frame at every rate: then there is no throughput, and it is said.
        let trials: Vec<&Value> = points.iter().map(|p| &p["trials"]).collect();
        assert!(trials.iter().all(|t| t.as_array().is_some_and(|t| !t.is_empty())), "{name}");
    }
    assert!(!series(&r, "rate of the whole path over veth").is_empty());
}

#[test]
fn latency_of_every_path() {
    if skipped("latency_of_every_path") {
        return;
    }
    let r = result(&["vdp-latency", "--place", "veth", "--trial", "0.02", "--quick", "--json"]);
    let all = series(&r, "latency over veth");
    assert_eq!(all.len(), 10, "five paths, two percentiles");
    for (name, points) in &all {
        let sizes: Vec<u64> =
            points.iter().filter_map(|p| p["x"].as_f64()).map(|x| x as u64).collect();
        assert_eq!(sizes, [64, 128, 256, 512, 1024, 1280, 1518], "{name}");
        // Probes that were lost have no latency, so each path carried some of every size.
        assert!(points.iter().all(|p| p["median"].as_f64().is_some_and(|m| m > 0.0)), "{name}");
    }
    let apart = series(&r, "latency over veth, weir on a thread of its own");
    assert_eq!(apart.len(), 4, "two paths, two percentiles");
    let published = r["published"].as_array().expect("a list");
    assert!(published.iter().any(|p| p["value"] == "not stated"));
}

#[test]
fn without_root_one_line_says_so() {
    let mut command = if is_root() {
        let mut c = Command::new("setpriv");
        c.args(["--reuid=65534", "--clear-groups", env!("CARGO_BIN_EXE_weir")]);
        c
    } else {
        Command::new(env!("CARGO_BIN_EXE_weir"))
    };
    let out = command.args(["study", "run", "vdp-latency", "--quick"]).output();
    let Some(out) = out.ok().filter(|o| !matches!(o.status.code(), Some(126 | 127))) else {
        eprintln!("SKIPPED: without_root_one_line_says_so needs setpriv when run by root");
        return;
    };
    let said = String::from_utf8_lossy(&out.stderr);
    assert_eq!(out.status.code(), Some(1), "{said}");
    assert!(said.contains("run it as root, or take '--place memory'"), "{said}");
    assert_eq!(said.lines().count(), 1, "{said}");
}

/// Every frame of every number of VDPs, and of every share of rules, comes out.
#[test]
fn vdps_and_shares_over_veth() {
    if skipped("vdps_and_shares_over_veth") {
        return;
    }
    for (study, name, xs) in [
        ("vdp-scale", "fast path, over veth", vec![4.0, 16.0, 64.0, 256.0, 1024.0]),
        ("vdp-offload", "over veth", vec![0.0, 10.0, 25.0, 50.0, 75.0, 90.0, 100.0]),
    ] {
        let r = result(&[study, "--quick", "--place", "veth", "--json"]);
        let all = series(&r, "rate of the whole path over veth");
        assert_eq!(all.iter().map(|s| s.0).collect::<Vec<_>>(), [name]);
        let found: Vec<f64> = all[0].1.iter().filter_map(|p| p["x"].as_f64()).collect();
        assert_eq!(found, xs);
        for p in &all[0].1 {
            let n = |what: &str| p["costs"][0][what].as_f64().expect("a number");
            let strays = n("delivered") - n("sent");
            assert!(n("sent") > 0.0 && (0.0..=2.0).contains(&strays), "{study}: {p}");
        }
    }
}

/// A victim is measured under attacks; what it loses on a busy machine is told, not judged.
#[test]
fn isolation_over_veth() {
    if skipped("isolation_over_veth") {
        return;
    }
    let r = result(&["isolation", "--place", "veth", "--quick", "--json"]);
    let rows = r["tables"][0]["rows"].as_array().expect("rows");
    assert!(rows.len() > 8, "{rows:#?}");
    for row in rows {
        assert_eq!(row[5], "0", "frames that leaked: {row}");
    }
}

/// Every element carries frames.
#[test]
fn elements_of_virtual_networks() {
    if skipped("elements_of_virtual_networks") {
        return;
    }
    let ovs = Command::new("ovs-vswitchd").arg("--version").output();
    if !ovs.is_ok_and(|o| o.status.success()) {
        eprintln!("SKIPPED: Open vSwitch among the elements needs openvswitch-switch");
    }
    for (study, quantity) in [("vnet-rate64", "delivered rate"), ("vnet-delay", "round-trip time")]
    {
        let r = result(&[study, "--quick", "--json"]);
        let all = series(&r, quantity);
        assert!(all.len() >= 5, "{study}: {:?}", all.iter().map(|s| s.0).collect::<Vec<_>>());
        for (name, points) in all {
            let some = points.iter().filter(|p| p["median"].as_f64().is_some_and(|m| m > 0.0));
            assert!(some.count() > 0, "{study}: nothing came through {name}");
        }
        let published = r["published"].as_array().expect("a list");
        assert!(
            published.iter().any(|p| p["source"].as_str().is_some_and(|s| s.starts_with("003")))
        );
    }
}
