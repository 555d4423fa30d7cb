//! Open vSwitch as the judge of the flow syntax: it must accept what weir accepts, and its own
//! normal form of a flow must mean the same to weir, as must weir's text to Open vSwitch.
//!
//! Needs the package openvswitch-common (ovs-ofctl; checked with 3.1.0). Skips visibly without.

use std::io::Write;
use std::process::Command;
use weir_dataplane::flowtext::{FlowSpec, NoNames, parse_flow};

mod flowtext_lines;
use flowtext_lines::{OVS_REFUSES, VALID};

/// What `ovs-ofctl -O OpenFlow13 parse-flows` makes of the lines, one for each, with its names for
/// attributes turned back into those that it reads.
fn ovs(lines: &[String]) -> Result<Vec<String>, String> {
    let mut file = tempfile();
    for l in lines {
        writeln!(file.1, "{l}").expect("write");
    }
    drop(file.1);
    let out = Command::new("ovs-ofctl")
        .args(["-O", "OpenFlow13", "parse-flows"])
        .arg(&file.0)
        .output()
        .expect("run ovs-ofctl");
    std::fs::remove_file(&file.0).expect("remove");
    let text = String::from_utf8_lossy(&out.stdout).into_owned();
    let errors = String::from_utf8_lossy(&out.stderr).into_owned();
    if !out.status.success() || text.contains("decode error") {
        return Err(errors + &text);
    }
    let flows: Vec<String> = text
        .lines()
        .filter_map(|l| l.split_once(": ADD "))
        .map(|(_, l)| {
            l.replace("table:", "table=")
                .replace("cookie:", "cookie=")
                .replace("idle:", "idle_timeout=")
                .replace("hard:", "hard_timeout=")
                .replace("goto_table=", "goto_table:")
        })
        .collect();
    if flows.len() != lines.len() || errors.contains("normalization changed") {
        return Err(format!("{} lines, {} flows: {errors}", lines.len(), flows.len()));
    }
    Ok(flows)
}

fn tempfile() -> (std::path::PathBuf, std::fs::File) {
    use std::sync::atomic::{AtomicUsize, Ordering};
    static COUNT: AtomicUsize = AtomicUsize::new(0);
    let n = COUNT.fetch_add(1, Ordering::Relaxed);
    let path = std::env::temp_dir().join(format!("weir-flowtext-{}-{n}", std::process::id()));
    let file = std::fs::File::create(&path).expect("create");
    (path, file)
}

fn judge_is_there() -> bool {
    let there = Command::new("ovs-ofctl").arg("--version").output().is_ok();
    if !there {
        eprintln!("SKIPPED: ovs-ofctl is missing (package openvswitch-common)");
    }
    there
}

/// All lines at once; line by line only to say which one it was.
#[track_caller]
fn normalised(lines: &[String]) -> Vec<String> {
    ovs(lines).unwrap_or_else(|all| {
        for l in lines {
            if let Err(e) = ovs(std::slice::from_ref(l)) {
                panic!("Open vSwitch refuses '{l}': {e}");
            }
        }
        panic!("Open vSwitch refuses the lines together: {all}");
    })
}

#[track_caller]
fn read(line: &str) -> FlowSpec {
    parse_flow(line, &NoNames).unwrap_or_else(|e| panic!("'{line}': {e}"))
}

#[track_caller]
fn agree(lines: &[String]) {
    let ours: Vec<FlowSpec> = lines.iter().map(|l| read(l)).collect();
    let normal = normalised(lines);
    for ((line, spec), normal) in lines.iter().zip(&ours).zip(&normal) {
        assert_eq!(&read(normal), spec, "'{line}' is '{normal}' to Open vSwitch");
    }
    let shown: Vec<String> = ours.iter().map(ToString::to_string).collect();
    for ((spec, shown), after) in ours.iter().zip(&shown).zip(normalised(&shown)) {
        assert_eq!(&read(&after), spec, "'{shown}' is '{after}' to Open vSwitch");
    }
}

#[test]
fn valid_flows_mean_the_same() {
    if judge_is_there() {
        agree(&VALID.iter().map(ToString::to_string).collect::<Vec<_>>());
    }
}

#[test]
fn random_flows_mean_the_same() {
    if !judge_is_there() {
        return;
    }
    let mut rng = flowtext_lines::Rng(1);
    let lines: Vec<String> = (0..5000).map(|_| flowtext_lines::random(&mut rng)).collect();
    agree(&lines);
}

#[test]
fn refused_by_both() {
    if !judge_is_there() {
        return;
    }
    for line in OVS_REFUSES {
        assert!(parse_flow(line, &NoNames).is_err(), "weir accepts '{line}'");
        assert!(ovs(&[line.to_string()]).is_err(), "Open vSwitch accepts '{line}'");
    }
}
