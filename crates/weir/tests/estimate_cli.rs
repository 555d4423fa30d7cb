//! `weir estimate` and `weir place` as programs: figures, JSON's names, exit statuses, one line for bad
//! input.

use serde_json::Value;
use std::process::{Command, Output};

fn weir(arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_weir")).args(arguments).output().expect("weir runs")
}

fn json(arguments: &[&str]) -> Value {
    let out = weir(arguments);
    assert!(out.status.success(), "{arguments:?}: {}", String::from_utf8_lossy(&out.stderr));
    serde_json::from_slice(&out.stdout).expect("JSON")
}

/// Exit status 2, and one line that says all of this.
fn refused(arguments: &[&str], parts: &[&str]) {
    let out = weir(arguments);
    let text = String::from_utf8_lossy(&out.stderr).into_owned();
    assert_eq!(out.status.code(), Some(2), "{arguments:?}: {text}");
    for p in parts {
        assert!(text.contains(p), "{arguments:?}: {text}\nmust say {p}");
    }
}

const P: [&str; 2] = ["--profile", "xeon-e5-2690v2"];

#[test]
fn the_papers_figures_by_the_program() {
    let e = json(&["estimate", "mpls-switch", P[0], P[1], "--mode", "paper", "--json"]);
    for (key, value) in [
        ("cycles", 224.0),
        ("dram_accesses", 1.0),
        ("core_mpps", 16.45),
        ("core_gbps", 10.8),
        ("memory_mpps", 111.08),
        ("mpps", 16.45),
        ("gbps", 10.8),
    ] {
        assert_eq!(e[key].as_f64(), Some(value), "{key}");
    }
    assert_eq!(e["bottleneck"], "core");
    assert_eq!(e["operations"].as_array().map(Vec::len), Some(7));
    assert!(e["interval"]["mpps"][0].as_f64() < e["mpps"].as_f64());
    let bng = ["estimate", "bng", P[0], P[1], "--mode", "paper", "--cores", "6", "--frame", "78"];
    let e = json(&[&bng[..], &["--json"]].concat());
    assert_eq!(e["core_mpps"].as_f64(), Some(42.5));
    assert_eq!(e["quoted"][0]["value"].as_f64(), Some(23.74));
    let text = weir(&[&bng[..], &["--explain"]].concat());
    let text = String::from_utf8_lossy(&text.stdout).into_owned();
    for part in ["l3 + store * ceil(hdr / line)", "002 §2.2, 1", "23.74"] {
        assert!(text.contains(part), "{text}");
    }
}

/// In VDPs one after the other each is behind its pass, and there is no switch.
#[test]
fn functions_in_series_are_behind_their_passes() {
    let chain = ["estimate", "chain", "l2-basic,mpls-switch", P[0], P[1]];
    let behind = ["--through", "channel-send"];
    let s = json(&[&chain[..], &behind, &["--json"]].concat());
    assert_eq!(s["kind"], "series");
    let s = &s["result"];
    let hops: f64 =
        s["hop_cycles"].as_array().expect("a list").iter().filter_map(Value::as_f64).sum();
    let link = s["link_cycles"].as_f64().expect("a number");
    assert!((s["cycles"].as_f64().expect("a number") - hops - link).abs() < 1e-6, "{s}");
    assert!(link > 0.0 && hops > link, "{s}");
    let text = weir(&[&chain[..], &behind].concat());
    let text = String::from_utf8_lossy(&text.stdout).into_owned();
    assert!(text.contains("1 link ") && text.contains("behind channel-send"), "{text}");
    refused(&[&chain[..], &behind, &["--shared"]].concat(), &["--shared", "--through"]);
    refused(&[&chain[..], &["--through", "channel-sen"]].concat(), &["channel-send"]);
}

#[test]
fn sweeps_are_tables_and_pictures() {
    let directory = tempfile::tempdir().expect("a directory");
    let svg = directory.path().join("s.svg").display().to_string();
    let over = "frame=64..256:64";
    let base = ["estimate", "sweep", "l2-basic", P[0], P[1], "--over", over, "--over", "cores=1,2"];
    let out = weir(&[&base[..], &["--csv", "--svg", &svg]].concat());
    let text = String::from_utf8_lossy(&out.stdout).into_owned();
    assert!(out.status.success(), "{}", String::from_utf8_lossy(&out.stderr));
    assert_eq!(text.lines().count(), 9);
    assert!(text.starts_with("frame,cores,cycles,"), "{text}");
    assert!(std::fs::read_to_string(&svg).expect("a picture").contains("<svg"));
    let all = json(&[&base[..], &["--json"]].concat());
    assert_eq!(all["result"]["points"].as_array().map(Vec::len), Some(8));
}

#[test]
fn a_captures_flows_are_its_traffic() {
    let capture = concat!(env!("CARGO_MANIFEST_DIR"), "/../../testdata/real.pcap");
    let e = json(&["estimate", "l2-basic", P[0], P[1], "--pcap", capture, "--json"]);
    let part = |level: &str| e["hits"]["l2-basic.mac"][level].as_f64().expect(level);
    assert!(part("l1") + part("l2") > 0.99, "{}", e["hits"]);
}

#[test]
fn chains_hosts_and_refinement() {
    let e = json(&["estimate", "chain", "l2-basic,mpls-switch", P[0], P[1], "--json"]);
    assert_eq!(
        (e["result"]["passes"].as_u64(), e["result"]["crossings"].as_u64()),
        (Some(3), Some(4))
    );
    let e = json(&["estimate", "l2-learning", "--profile", "pearl-card", "--json"]);
    assert_eq!(e["notes"][0], "by software: ct_insertion");
    let directory = tempfile::tempdir().expect("a directory");
    let file = |name: &str, text: &str| {
        let path = directory.path().join(name);
        std::fs::write(&path, text).expect("written");
        path.display().to_string()
    };
    let measured = file(
        "m.json",
        &format!("[{}]", ["{\"function\":\"l2-basic\",\"frame\":64,\"cycles\":640}"; 10].join(",")),
    );
    let better = directory.path().join("better.toml").display().to_string();
    let r = json(&["estimate", "refine", &measured, P[0], P[1], "--json", "--out", &better]);
    let e = json(&["estimate", "l2-basic", "--profile", &better, "--json"]);
    assert!((e["cycles"].as_f64().expect("cycles") / 640.0 - 1.0).abs() < 0.1, "{}", e["cycles"]);
    let error = |key: &str| r["result"][key].as_f64().expect(key);
    assert!(error("error_after") <= error("error_before") / 2.0);
    // Nothing to learn from is said: none there, none near, none that can be.
    let none = file("none.json", "[]");
    refused(&["estimate", "refine", &none, P[0], P[1]], &["none.json", "at least one"]);
    let of =
        |cycles: &str| format!("[{{\"function\":\"l2-basic\",\"frame\":64,\"cycles\":{cycles}}}]");
    let far = file("far.json", &of("1e9"));
    let r = json(&["estimate", "refine", &far, P[0], P[1], "--json"]);
    assert_eq!(r["result"]["samples"][0]["disregarded"], true);
    let much = file("much.json", &of("1e300"));
    refused(&["estimate", "refine", &much, P[0], P[1]], &["1e300 cycles", "below 1e12"]);
    let request = file(
        "r.toml",
        "[[host]]\nname = \"h\"\ncount = 2\nprofile = \"xeon-e5-2690v2\"\nswitch_cores = 1\n\
         [[function]]\nname = \"f\"\nfunction = \"l2-basic\"\nrate = \"5 Mpps\"\n",
    );
    let counters = file(
        "c.json",
        "[{\"function\":\"f\",\"seconds\":0,\"mpps\":1},{\"function\":\"f\",\"seconds\":3600,\"mpps\":2}]",
    );
    let p = json(&["place", &request, "--counters", &counters, "--json"]);
    assert_eq!(p["result"]["places"][0]["host"], "h-1");
    assert!(p["result"]["growth"][0]["full_in_s"].as_f64().is_some_and(|t| t > 0.0));
    let line = p["result"]["openstack"].as_str().expect("a line");
    assert!(line.starts_with("resource_provider_packet_processing_without_direction = h-1:"));
    let big = file(
        "b.toml",
        "[[host]]\nname = \"h\"\nprofile = \"xeon-e5-2690v2\"\n\
         [[function]]\nname = \"f\"\nfunction = \"l2-basic\"\nrate = \"50 Mpps\"\n",
    );
    refused(&["place", &big], &["infeasible: links in: 'f' takes 33.60 Gbit/s", "Enough would be"]);
}

/// More cores than a profile's machine has are no mistake, and told: asked for, or taken by a target.
#[test]
fn cores_beyond_the_machine_are_noted() {
    let of = |more: &[&'static str]| {
        [&["estimate", "l2-basic", "--profile", "virtual-epyc"], more].concat()
    };
    let text = |arguments: &[&str]| {
        let out = weir(arguments);
        assert!(out.status.success(), "{}", String::from_utf8_lossy(&out.stderr));
        String::from_utf8_lossy(&out.stdout).into_owned()
    };
    let both = |arguments: &[&str], note: &str| {
        let e = json(&[arguments, &["--json"]].concat());
        let notes = if e["notes"].is_array() { &e["notes"] } else { &e["result"]["notes"] };
        assert!(notes.as_array().is_some_and(|n| n.iter().any(|n| n == note)), "{notes}");
        assert!(text(arguments).contains(&format!("note: {note}\n")), "{arguments:?}");
    };
    both(&of(&["--cores", "3"]), "3 cores are asked for, and the machine has 2");
    let e = json(&of(&["--target", "500Mpps", "--json"]));
    let cores = e["needed"]["cores"].as_u64().expect("cores");
    let note = format!("the target takes {cores} cores, and the machine has 2");
    both(&of(&["--target", "500Mpps"]), &note);
    let paper = ["estimate", "l2-basic", P[0], P[1], "--mode", "paper", "--cores", "64"];
    both(&paper, "64 cores are asked for, and the machine has 20");
    let chain = ["estimate", "chain", "l2-basic,mpls-switch", "--profile", "virtual-epyc"];
    both(&chain, "3 cores are asked for, and the machine has 2");
    let sweep = ["estimate", "sweep", "l2-basic", "--profile", "virtual-epyc", "--over"];
    let up_to = |over| text(&[&sweep[..], &[over]].concat());
    assert!(
        up_to("cores=1..4")
            .ends_with("\nnote: up to 4 cores are asked for, and the machine has 2\n")
    );
    assert!(!up_to("cores=1,2").contains("note:"));
    assert!(!text(&of(&["--cores", "2", "--target", "1Mpps"])).contains("note:"));
}

/// Headroom is said as headroom, by value, bound and table, in text and JSON.
#[test]
fn most_headroom_is_headroom() {
    let directory = tempfile::tempdir().expect("a directory");
    let path = directory.path().join("r.toml").display().to_string();
    let request = "[[host]]\nname = \"h\"\ncount = 2\nprofile = \"xeon-e5-2690v2\"\n\
                   [[function]]\nname = \"f\"\nfunction = \"l2-basic\"\nrate = \"5 Mpps\"\n";
    std::fs::write(&path, request).expect("written");
    let ask = ["place", &path, "--objective", "most-headroom"];
    let p = json(&[&ask[..], &["--json"]].concat());
    let (p, hosts) = (&p["result"], p["result"]["hosts"].as_array().expect("hosts"));
    let least = hosts.iter().filter_map(|h| h["headroom"].as_f64()).fold(1.0, f64::min);
    assert!((p["value"].as_f64().expect("a value") - least).abs() < 1e-9 && least > 0.5, "{p}");
    assert_eq!((&p["optimal"], &p["bound"]), (&Value::Bool(true), &p["value"]));
    let text = weir(&ask);
    let text = String::from_utf8_lossy(&text.stdout).into_owned();
    let said =
        format!("most-headroom: {least:.2}; nothing can be better than {least:.2}, and this");
    assert!(text.starts_with(&said), "{text}");
}

/// A profile without cards, as calibration writes it: no limit by links, which the plan says.
#[test]
fn calibrated_hosts_can_be_asked_for() {
    let directory = tempfile::tempdir().expect("a directory");
    let path = directory.path().join("r.toml").display().to_string();
    let request = "[[host]]\nname = \"h\"\ncount = 2\nprofile = \"virtual-epyc\"\n\
                   [[function]]\nname = \"g\"\nfunction = \"l2-basic\"\nrate = \"2 Mpps\"\n";
    std::fs::write(&path, request).expect("written");
    let note = "links are no limit without [[nic]]: virtual-epyc";
    let p = json(&["place", &path, "--json"]);
    assert_eq!(p["result"]["notes"], serde_json::json!([note]));
    let links = &p["result"]["hosts"][0]["resources"]["links in"];
    assert!(links["whole"].is_null() && links["used"].as_f64() > Some(1.0), "{links}");
    let text = weir(&["place", &path]);
    let text = String::from_utf8_lossy(&text.stdout).into_owned();
    assert_eq!(text.matches(&format!("note: {note}\n")).count(), 1, "{text}");
    assert!(text.contains("  1.3 Gbit/s  ") && !text.contains("inf"), "{text}");
}

#[test]
fn a_profile_of_another_machine_is_warned_about() {
    let directory = tempfile::tempdir().expect("a directory");
    let path = directory.path().join("there.toml").display().to_string();
    let text = include_str!("../../../profiles/xeon-e5-2690v2.toml");
    let estimated = |text: &str| {
        std::fs::write(&path, text).expect("a file");
        let out = weir(&["estimate", "l2-basic", "--profile", &path]);
        assert!(out.status.success());
        String::from_utf8_lossy(&out.stderr).into_owned()
    };
    assert_eq!(estimated(text), "");
    let there = text.replace("name = \"xeon", "calibrated_on = \"A Processor\"\nname = \"xeon");
    let warned = estimated(&there);
    assert!(warned.contains("there.toml: calibrated on 'A Processor', and this is '"), "{warned}");
    assert_eq!(warned.lines().count(), 1);
}

#[test]
fn a_calibration_that_has_nowhere_to_go_does_not_begin() {
    refused(&["calibrate", "--out", "here"], &["--out here", "ends with .toml"]);
    refused(&["calibrate", "--out", "/nowhere/at/all.toml"], &["/nowhere/at/all.toml"]);
}

#[test]
fn bad_input_is_told() {
    let ask = |more: &[&str]| -> Vec<String> {
        [&["estimate", "l2-basic", P[0], P[1]], more]
            .concat()
            .iter()
            .map(|s| (*s).to_owned())
            .collect()
    };
    let refuse = |more: &[&str], parts: &[&str]| {
        let all = ask(more);
        refused(&all.iter().map(String::as_str).collect::<Vec<_>>(), parts);
    };
    refused(&["estimate", "l2-basik", P[0], P[1]], &["unknown network function", "'l2-basic'?"]);
    refused(
        &["estimate", "l2-basic", P[0], "xeon-e5-2690"],
        &["unknown profile", "'xeon-e5-2690v2'?"],
    );
    refused(&["estimate", "l2-basic"], &["--profile is missing"]);
    refused(&["estimate"], &["which network function?"]);
    refuse(&["--frame", "12"], &["frame = 12", "64 to 65535"]);
    refuse(&["--cores", "0"], &["cores = 0"]);
    refuse(&["--mode", "papr"], &["did you mean 'paper'?"]);
    refuse(&["--traffic", "zopf:1,flows=3"], &["did you mean 'zipf'?"]);
    refuse(&["--set", "entrys=3"], &["unknown parameter 'entrys'"]);
    refuse(&["--target", "20"], &["20Mpps or 10Gbps"]);
    for outside in ["0Mpps", "1e9Mpps"] {
        refuse(&["--target", outside], &["more than 0 and less than 1e9"]);
    }
    for outside in ["entries=-5", "entries=1e18"] {
        refuse(&["--set", outside], &[outside, "a number from 0 to less than 1e18"]);
    }
    refuse(&["--set", "entries"], &["expected NAME=VALUE"]);
    refuse(&["--traffic", "uniform,flows=1k,flows=2M"], &["'flows=2M'", "there already"]);
    let answer = |more: &[&'static str]| {
        let all = [&["estimate", "l2-basic", P[0], P[1], "--json"][..], more].concat();
        json(&all)["cycles"].as_f64()
    };
    for large in ["entries=11G", "entries=11000M", "entries=0.011T"] {
        assert_eq!(answer(&["--set", large]), answer(&["--set", "entries=11e9"]), "{large}");
    }
    let target = |rate: &'static str| {
        json(&["estimate", "l2-basic", P[0], P[1], "--json", "--target", rate])["needed"].clone()
    };
    assert_eq!(target("10Gbit/s"), target("10Gbps"));
    assert_eq!(target("5000kpps"), target("5Mpps"));
    refuse(&["--host", "virtual-xeon"], &["--host virtual-xeon", "leave '--host' out"]);
    refused(&["estimate", "./none.toml", P[0], P[1]], &["./none.toml"]);
    refused(&["place", "none.toml"], &["none.toml"]);
    let over = ["estimate", "sweep", "l2-basic", P[0], P[1], "--over", "fram=1..3"];
    refused(&over, &["did you mean 'frame'?"]);
}

/// What means nothing is refused, and not left out silently.
#[test]
fn options_that_mean_nothing_are_refused() {
    let through = ["--through", "vdp-rules"];
    let ask = |nf: &'static str, more: &[&'static str]| [&["estimate", nf], more].concat();
    for mode in ["paper", "corrected"] {
        let all = [&ask("l2-basic", &P)[..], &through, &["--mode", mode]].concat();
        refused(&all, &["--through vdp-rules", mode, "leave '--through' out"]);
    }
    let card = ["--profile", "pearl-card"];
    refused(
        &[&ask("l2-basic", &card)[..], &through].concat(),
        &["--through vdp-rules", "'pearl-card'", "leave '--through' out"],
    );
    for mode in ["paper", "corrected"] {
        let refuse = |more: &[&'static str]| {
            let all = [&ask("l2-basic", &P)[..], more, &["--mode", mode]].concat();
            refused(&all, &[more[0], mode, "knows nothing of it", "'--mode full'"]);
        };
        refuse(&["--burst", "32"]);
        refuse(&["--huge-pages"]);
        let traffic = ["--traffic", "zipf:1.1,flows=1M", "--mode", mode, "--json"];
        let e = json(&[&ask("l2-basic", &P)[..], &traffic].concat());
        let note = format!("mode {mode} knows nothing of traffic: the figures are those without");
        assert!(e["notes"].as_array().is_some_and(|n| n.iter().any(|n| *n == note)), "{e}");
        let over = ["--over", "burst=1,32", "--mode", mode];
        let sweep = [&["estimate", "sweep", "l2-basic"][..], &P, &over].concat();
        refused(&sweep, &["--over burst", mode, "knows nothing of it"]);
    }
    let chain = ["estimate", "chain", "l2-basic", P[0], P[1], "--target", "3Mpps"];
    refused(&chain, &["--target", "leave it out"]);
    refused(&[&chain[..], &through].concat(), &["--target", "leave it out"]);
}

/// A device has no size, and no end: no more is read of it than of a file.
#[test]
fn devices_take_no_memory() {
    for arguments in [
        "estimate /dev/zero --profile xeon-e5-2690v2",
        "place /dev/zero",
        "estimate l2-basic --profile /dev/zero",
    ] {
        let weir = env!("CARGO_BIN_EXE_weir");
        let limited = format!("ulimit -v 2000000; exec '{weir}' {arguments}");
        let out = Command::new("sh").args(["-c", &limited]).output().expect("sh runs");
        let text = String::from_utf8_lossy(&out.stderr).into_owned();
        assert_eq!(out.status.code(), Some(2), "{arguments}: {text}");
        assert!(text.contains("/dev/zero: longer than the 1 MB"), "{arguments}: {text}");
    }
}

/// An output that is one of the inputs, by whatever name.
#[test]
fn what_is_read_is_not_written_over() {
    let dir = tempfile::tempdir().expect("a directory");
    let file = |name: &str| dir.path().join(name).display().to_string();
    let root = concat!(env!("CARGO_MANIFEST_DIR"), "/../..");
    let model = std::fs::read_to_string(format!("{root}/models/l2-basic.toml")).expect("a model");
    let (mine, other) = (file("mine.toml"), file("other"));
    std::fs::write(&mine, model.replacen("l2-basic", "mine", 1)).expect("written");
    std::fs::hard_link(&mine, &other).expect("a link");
    let sweep = ["estimate", "sweep", &mine, P[0], P[1], "--over", "cores=1..3", "--svg", &other];
    refused(&sweep, &["--svg", "mine.toml is read", "write elsewhere"]);
    let sweep = ["estimate", "sweep", "mine", "--model", &mine, P[0], P[1], "--over", "cores=1,2"];
    refused(&[&sweep[..], &["--svg", &mine]].concat(), &["mine.toml is read"]);
    let measured = file("m.json");
    let text = "[{\"function\": \"l2-basic\", \"frame\": 64, \"cycles\": 231.5}]";
    std::fs::write(&measured, text).expect("written");
    let refine = ["estimate", "refine", &measured, P[0], P[1], "--out", &measured];
    refused(&refine, &["--out", "m.json is read", "write elsewhere"]);
    assert_eq!(std::fs::read_to_string(&measured).expect("there"), text);
    // A profile of one's own may be written anew.
    let profile = file("p.toml");
    std::fs::copy(format!("{root}/profiles/xeon-e5-2690v2.toml"), &profile).expect("copied");
    let again = ["estimate", "refine", &measured, P[0], &profile, "--out", &profile];
    assert!(weir(&again).status.success());
}

#[test]
fn a_sweep_says_what_its_target_takes_and_has_each_axis_once() {
    let sweep = |more: &[&str]| {
        let args = ["estimate", "sweep", "l2-basic", P[0], P[1], "--over", "frame=64,128"];
        weir(&[&args[..], more].concat())
    };
    let o = sweep(&["--over", "frame=256"]);
    let said = String::from_utf8_lossy(&o.stderr).into_owned();
    assert_eq!(o.status.code(), Some(2), "{said}");
    assert!(said.contains("--over: 'frame' is there twice"), "{said}");
    let o = sweep(&["--target", "20Mpps"]);
    let text = String::from_utf8_lossy(&o.stdout).into_owned();
    assert!(text.lines().next().unwrap().ends_with("for the target"), "{text}");
    assert!(text.lines().nth(1).unwrap().trim_end().ends_with(" cores"), "{text}");
    let o = sweep(&["--target", "20Mpps", "--csv"]);
    let text = String::from_utf8_lossy(&o.stdout).into_owned();
    assert!(text.lines().next().unwrap().ends_with(",bottleneck,target_cores"), "{text}");
    let last = text.lines().nth(1).unwrap().rsplit(',').next().unwrap();
    assert!(last.parse::<u32>().is_ok(), "{text}");
}

#[test]
fn a_parameter_that_is_given_twice_is_refused() {
    let twice = ["--set", "entries=1", "--set", "entries=2"];
    refused(
        &[&["estimate", "l2-basic", P[0], P[1]], &twice[..]].concat(),
        &["--set entries: it is given twice"],
    );
}
