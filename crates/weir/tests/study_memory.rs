//! `weir study` where it needs no root: the list, and the studies from memory with tiny durations.

use serde_json::Value;
use std::process::{Command, Output};

fn study(arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_weir"))
        .arg("study")
        .args(arguments)
        .output()
        .expect("the binary runs")
}

fn json(arguments: &[&str]) -> Value {
    let done = study(arguments);
    assert_eq!(done.status.code(), Some(0), "{}", String::from_utf8_lossy(&done.stderr));
    assert!(done.stderr.is_empty(), "quiet in a pipe: {}", String::from_utf8_lossy(&done.stderr));
    serde_json::from_slice(&done.stdout).expect("one JSON document")
}

/// The points' places on the axis, of the series that measures `quantity`.
fn xs(report: &Value, quantity: &str) -> Vec<f64> {
    let series = report["series"].as_array().expect("a list");
    let s = series.iter().find(|s| s["y"]["name"] == quantity).expect("that quantity");
    let points = s["points"].as_array().expect("a list");
    for p in points {
        let mut samples: Vec<f64> =
            p["samples"].as_array().expect("a list").iter().filter_map(Value::as_f64).collect();
        assert!(!samples.is_empty(), "{p}");
        samples.sort_by(f64::total_cmp);
        let n = samples.len();
        let median = f64::midpoint(samples[(n - 1) / 2], samples[n / 2]);
        let said = p["median"].as_f64().expect("a number");
        assert!((said - median).abs() <= 1e-9 * median.abs(), "{p}");
        assert_eq!(p["min"].as_f64(), samples.first().copied());
        assert_eq!(p["max"].as_f64(), samples.last().copied());
    }
    points.iter().map(|p| p["x"].as_f64().expect("a number")).collect()
}

fn is_balanced(report: &Value) {
    let n = |name: &str| report["accounts"][name].as_u64().expect("a count");
    assert!(n("received") > 10_000, "{report}");
    assert_eq!(n("received"), n("forwarded") + n("dropped") + n("held"));
    assert_eq!(n("dropped"), 0, "a source that waits loses nothing");
}

#[test]
fn the_list_names_each_study_once() {
    let all = json(&["list", "--json"]);
    assert_eq!(all["kind"], "studies");
    let ids: Vec<&str> =
        all["result"].as_array().expect("a list").iter().filter_map(|s| s["id"].as_str()).collect();
    for id in ["vdp-scale", "vdp-offload", "nf-l2-basic", "nf-all"] {
        assert_eq!(ids.iter().filter(|i| **i == id).count(), 1);
    }
    let text = study(&["list"]);
    let text = String::from_utf8(text.stdout).expect("UTF-8");
    assert!(ids.iter().all(|id| text.contains(id)), "{text}");
}

#[test]
fn scale_from_memory() {
    let done = json(&["run", "vdp-scale", "--quick", "--place", "memory", "--json"]);
    assert_eq!((done["kind"].as_str(), done["schema"].as_u64()), (Some("study"), Some(1)));
    assert!(done["environment"]["load_1min"].is_number());
    let r = &done["result"];
    assert_eq!((r["study"].as_str(), r["extent"].as_str()), (Some("vdp-scale"), Some("quick")));
    assert_eq!(xs(r, "rate"), [4.0, 16.0, 64.0, 256.0, 1024.0]);
    let extra = &r["series"][1]["points"];
    assert_eq!(extra[0]["median"], 0.0, "4 VDPs beside 4 VDPs");
    assert_eq!(r["published"][1]["value"], "not stated");
    is_balanced(r);
}

/// Every size of frame, on each of these ways.
fn by_size(report: &Value, quantity: &str, names: &[&str]) {
    assert_eq!(xs(report, quantity), [64.0, 128.0, 256.0, 512.0, 1024.0, 1280.0, 1518.0]);
    let all = report["series"].as_array().expect("a list");
    let of = all.iter().filter(|s| s["y"]["name"] == quantity);
    let found: Vec<&str> = of.clone().filter_map(|s| s["name"].as_str()).collect();
    assert_eq!(found, names);
    for p in of.flat_map(|s| s["points"].as_array().expect("a list")) {
        assert!(p["min"].as_f64().is_some_and(|m| m > 0.0), "{p}");
    }
}

#[test]
fn throughput_from_memory() {
    let r = &json(&["run", "vdp-throughput", "--place", "memory", "--quick", "--json"])["result"];
    by_size(r, "rate from memory", &["fast path", "slow path", "copies alone"]);
    let promised: Vec<&Value> =
        r["figures"].as_array().expect("a list").iter().map(|f| &f["promised"]["value"]).collect();
    assert_eq!(promised, [20.0, 8.0]);
    is_balanced(r);
}

#[test]
fn latency_from_memory() {
    let r = &json(&["run", "vdp-latency", "--place", "memory", "--quick", "--json"])["result"];
    let quantity = r["series"][0]["y"]["name"].as_str().expect("a name");
    let names: Vec<&str> = r["series"]
        .as_array()
        .expect("a list")
        .iter()
        .filter(|s| s["y"]["name"] == quantity)
        .filter_map(|s| s["name"].as_str())
        .collect();
    assert!(["fast", "slow"].iter().all(|p| names.iter().any(|n| n.contains(p))), "{names:?}");
    by_size(r, quantity, &names);
}

#[test]
fn offload_from_memory_and_what_is_written() {
    let dir = tempfile::tempdir().expect("a directory");
    let out = dir.path().to_str().expect("UTF-8");
    let done =
        json(&["run", "vdp-offload", "--quick", "--place", "memory", "--json", "--out", out]);
    let r = &done["result"];
    let shares = [0.0, 10.0, 25.0, 50.0, 75.0, 90.0, 100.0];
    assert_eq!(xs(r, "rate"), shares);
    assert_eq!(xs(r, "frames through the software stage"), shares);
    // Frames follow their rules: what is not on the fast path goes through the software stage.
    for (point, share) in r["series"][1]["points"].as_array().expect("a list").iter().zip(shares) {
        let slow = point["median"].as_f64().expect("a number");
        assert!((slow - (100.0 - share)).abs() < 1.0, "{share} %: {slow}");
    }
    is_balanced(r);
    let read = |kind: &str| {
        std::fs::read_to_string(dir.path().join(format!("vdp-offload.{kind}"))).expect("written")
    };
    let written: Value = serde_json::from_str(&read("json")).expect("JSON");
    assert_eq!(written["result"], *r);
    let text = read("md");
    assert!(text.contains("not stated") && text.contains("Quick run"), "{text}");
    assert!(text.lines().filter(|l| l.starts_with("| 10 ")).count() == 2, "{text}");
    let svg = read("svg");
    assert!(svg.starts_with("<svg") && svg.trim_end().ends_with("</svg>"), "{svg}");
}

#[test]
fn channels_by_one_to_four_threads() {
    let done = json(&["run", "channels", "--quick", "--json"]);
    let r = &done["result"];
    for quantity in ["rate", "rate by the CPU time of all threads"] {
        assert_eq!(xs(r, quantity), [0.0, 1.0, 2.0, 3.0, 4.0]);
    }
    for point in r["series"][0]["points"].as_array().expect("a list") {
        assert!(point["median"].as_f64().is_some_and(|m| m > 0.0), "{point}");
    }
    is_balanced(r);
}

/// In virtual time every run is the same: what is promised of isolation holds, whatever else the machine does.
#[test]
fn isolation_under_every_attack() {
    let r = &json(&["run", "isolation", "--quick", "--place", "memory", "--json"])["result"];
    let card = &r["tables"][0];
    let attacks = card["rows"].as_array().expect("rows");
    assert!(attacks.len() > 20, "{card:#}");
    for row in attacks {
        assert_eq!(row[9].as_str(), Some("holds"), "{row:#}");
    }
    for f in r["figures"].as_array().expect("a list") {
        let (value, promised) = (f["value"].as_f64(), f["promised"]["value"].as_f64());
        let kept = match f["promised"]["bound"].as_str() {
            Some("at-least") => value >= promised,
            _ => value <= promised,
        };
        assert!(kept, "{f}");
    }
    // Three networks under each attack.
    assert_eq!(r["tables"][1]["rows"].as_array().map(Vec::len), Some(3 * attacks.len()));
    let n = |name: &str| r["accounts"][name].as_u64().expect("a count");
    assert!(n("received") > 100_000 && n("dropped") > 0, "{}", r["accounts"]);
}

#[test]
fn what_can_not_be() {
    for (arguments, says) in [
        (&["run", "vdp-scal"][..], "vdp-scale"),
        (&["run", "veth-forward", "--place", "memory"], "over veth only"),
        (&["run", "channels", "--place", "veth"], "from memory only"),
        (&["run", "nf-chains", "--place", "veth"], "from memory only"),
        (&["run", "vdp-scale", "--place", "peer"], "Open vSwitch"),
        (&["run", "nf-mpls", "--quick", "--profile", "virtual-xeo"], "virtual-xeon"),
        (&["run", "vdp-scale", "--trial", "0"], "--trial"),
        (
            &["run", "vdp-scale", "--quick", "--place", "memory", "--out", "/proc/no"],
            "--out /proc/no",
        ),
    ] {
        let done = study(arguments);
        let said = String::from_utf8_lossy(&done.stderr);
        assert_eq!(done.status.code(), Some(2), "{arguments:?}: {said}");
        assert!(said.contains(says), "{arguments:?}: {said}");
        assert!(done.stdout.is_empty());
    }
}
