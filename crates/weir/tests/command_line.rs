//! What every command does with its arguments, with files that are not there, and with an output that
//! nobody takes; and `weir bench dataplane` from end to end.

use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use weir_io::replay::Arena;

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

fn capture() -> String {
    root().join("testdata/real.pcap").display().to_string()
}

fn weir(arguments: &[&str]) -> Command {
    let mut c = Command::new(env!("CARGO_BIN_EXE_weir"));
    c.args(arguments);
    c
}

/// A folder with rules.
fn rules(text: &str) -> (tempfile::TempDir, String) {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("rules");
    std::fs::write(&path, text).unwrap();
    let name = path.display().to_string();
    (dir, name)
}

/// Refused as bad input, in one line with all of `parts`.
fn refused(arguments: &[&str], parts: &[&str]) {
    let o = weir(arguments).output().unwrap();
    let error = String::from_utf8(o.stderr).unwrap();
    assert_eq!(o.status.code(), Some(2), "{arguments:?}: {error}");
    assert_eq!(error.lines().count(), 1, "{arguments:?}: {error}");
    assert!(o.stdout.is_empty(), "{arguments:?}");
    for p in parts {
        assert!(error.contains(p), "{arguments:?}\n  said:     {error}  expected: {p}");
    }
}

fn error_of(o: &Output) -> String {
    String::from_utf8_lossy(&o.stderr).into_owned()
}

#[test]
fn nobody_takes_what_is_printed() {
    let (_dir, rules) = rules("actions=output:2\n");
    let capture = capture();
    let bench = ["bench", "dataplane", "--rules", &rules, "--trace", &capture];
    let short = ["--seconds", "0.01", "--repeats", "1"];
    let measured: Vec<&str> = bench.into_iter().chain(short).collect();
    let json: Vec<&str> = measured.iter().copied().chain(["--json"]).collect();
    let lab = root().join("labs/two-tenants.toml").display().to_string();
    for arguments in [
        &measured[..],
        &json,
        &["bench", "callgrind", "--function", "acl", "--frames", "64"],
        &["study", "list"],
        &["study", "list", "--json"],
        &["measure", "list"],
        &["estimate", "list"],
        &["dut", "--list"],
        &["trace", "--rules", &rules, "--pcap", &capture],
        &["run", "--check", &lab],
        &["--help"],
        &["run", "--help"],
        &["--version"],
    ] {
        // A reader that has gone has had enough.
        let (reader, writer) = std::io::pipe().unwrap();
        drop(reader);
        let o = weir(arguments).stdout(writer).output().unwrap();
        assert!(o.status.success(), "{arguments:?}: {}", error_of(&o));
        assert_eq!(error_of(&o), "", "{arguments:?}");
        // A disk that is full is an error, and told.
        let full = std::fs::OpenOptions::new().write(true).open("/dev/full").unwrap();
        let o = weir(arguments).stdout(full).output().unwrap();
        let error = error_of(&o);
        assert_eq!(o.status.code(), Some(1), "{arguments:?}: {error}");
        assert_eq!(error.lines().count(), 1, "{arguments:?}: {error}");
        assert!(error.contains("standard output") && error.contains("No space"), "{error}");
        // What is told beside it may be lost.
        let full = std::fs::OpenOptions::new().write(true).open("/dev/full").unwrap();
        let o = weir(arguments).stderr(full).stdout(Stdio::piped()).output().unwrap();
        assert!(o.status.success() && !o.stdout.is_empty(), "{arguments:?}");
    }
}

#[test]
fn arguments_that_are_wrong_are_told_in_a_line() {
    for (arguments, parts) in [
        (&[][..], &["which command? One of demo, run, ", "see 'weir --help'"][..]),
        (&["study"], &["which command? One of list, run", "see 'weir study --help'"]),
        (&["stdy"], &["unrecognized subcommand 'stdy'", "'study'", "see 'weir --help'"]),
        (&["run"], &["<CONFIG.toml>", "see 'weir run --help'"]),
        (&["run", "--chekc", "x"], &["'--chekc'", "'--check'", "see 'weir run --help'"]),
        (
            &["study", "run", "vdp-thruput"],
            &["vdp-thruput", "vdp-throughput", "see 'weir study run --help'"],
        ),
        (
            &["bench", "dataplane", "--rules", "r", "--trace", "t", "--seconds", "abc"],
            &["'abc'", "'--seconds <S>'", "see 'weir bench dataplane --help'"],
        ),
        (
            &["bench", "dataplane", "--rules", "r", "--trace", "t", "--vdps", "0"],
            &["'0'", "--vdps", "1..=65534"],
        ),
        (&["vdp", "create", "65535"], &["65535", "1..=65534"]),
        (&["vdp", "create"], &["<VID|--file <FILE>>"]),
        (&["vdp", "create", "--file", "f", "--name", "n"], &["--file <FILE>", "--name <NAME>"]),
        (&["net", "migrate", "blue", "s1"], &["--path <PATH>", "--kind <KIND>", "--to <HOST>"]),
        (&["net", "verify", "--leaks", "0"], &["'0'", "--leaks", "1..=1000"]),
        (&["trace", "c.toml", "--frame", "00", "--program", "sink"], &["--program", "CONFIG.toml"]),
        (
            &["bench", "callgrind", "--function", "l2-basic", "--frames", "0"],
            &["--frames: at least 1"],
        ),
        (&["measure", "list", "."], &[".: no scripts in it", "end with .rhai"]),
        (
            &["bench", "dataplane", "--rules", "r", "--trace", "t", "--repeats", "100000000000"],
            &["100000000000", "1..=10000", "--repeats"],
        ),
        (&["bench", "openflow", "--repeats", "0"], &["1..=10000", "--repeats"]),
        (&["bench", "slicer", "--only", "memory", "--entries", "0"], &["--entries 1 to 8388608"]),
        (&["run", "two\nlines", "--chekc"], &["--chekc"]),
    ] {
        refused(arguments, parts);
    }
    // What is asked for is no error.
    for arguments in [&["--help"][..], &["help", "run"], &["bench", "dataplane", "--help"]] {
        let o = weir(arguments).output().unwrap();
        assert!(o.status.success() && o.stderr.is_empty(), "{}", error_of(&o));
        assert!(String::from_utf8(o.stdout).unwrap().contains("Usage: weir"));
    }
}

/// As the guide says.
#[test]
fn every_commands_help_has_examples() {
    let o = weir(&["--help"]).output().unwrap();
    let text = String::from_utf8(o.stdout).unwrap();
    let (_, commands) = text.split_once("Commands:\n").unwrap();
    let (commands, _) = commands.split_once("\n\n").unwrap();
    let name = |l: &str| l.strip_prefix("  ")?.split(' ').next().map(str::to_owned);
    let names: Vec<String> = commands.lines().filter_map(name).filter(|n| !n.is_empty()).collect();
    assert!(names.len() > 20, "{names:?}");
    for name in names.iter().filter(|n| *n != "help") {
        let o = weir(&["help", name]).output().unwrap();
        let text = String::from_utf8(o.stdout).unwrap();
        let (_, examples) = text.split_once("Example").unwrap_or_else(|| panic!("{name}: {text}"));
        assert!(examples.contains(&format!("weir {name}")), "{name}: {text}");
    }
}

#[test]
fn files_that_are_not_there_are_told_with_what_to_do() {
    let (dir, good) = rules("actions=output:2\n");
    let capture = capture();
    let none = dir.path().join("none").display().to_string();
    let nowhere = dir.path().join("no/where").display().to_string();
    let folder = dir.path().display().to_string();
    let mend = "check the name and its directory";
    refused(&["run", &none], &["none: No such file", mend]);
    refused(&["run", &folder], &["Is a directory"]);
    let bench = |more: &[&str], parts: &[&str]| {
        refused(&[&["bench", "dataplane"], more].concat(), parts);
    };
    bench(&["--rules", &none, "--trace", &capture], &["none: No such file", mend]);
    bench(&["--rules", &good, "--trace", &none], &["none: can't be opened: No such file", mend]);
    bench(
        &["--rules", &good, "--trace", &capture, "--out", &nowhere],
        &["--out ", "no/where: No such file", mend],
    );
    bench(
        &["--rules", &good, "--trace", &capture, "--out", &good],
        &["--out and --rules are one file"],
    );
    assert_eq!(std::fs::read_to_string(&good).unwrap(), "actions=output:2\n");
    refused(&["trace", "--rules", &good, "--pcap", &none], &["can't be opened: No such", mend]);
    refused(&["vdp", "create", "--file", &none], &["none: No such file", mend]);
    let script = format!("{none}.rhai");
    refused(&["measure", "run", &script, "--lab", "weir"], &["none.rhai: No such file", mend]);
    let echo = ["measure", "run", "echo", "--lab", "weir"];
    refused(&[&echo[..], &["--config", &none]].concat(), &["none: No such file", mend]);
    refused(&[&echo[..], &["--traffic", &none]].concat(), &["none: No such file", mend]);
    refused(&["report", &none], &["none: No such file", mend]);
    refused(&["place", &none], &["none: No such file", mend]);
    let l2 = ["estimate", "sweep", "l2-basic", "--profile", "xeon-e5-2690v2", "--over", "cores=1"];
    let svg = &[&l2[..], &["--svg", &nowhere]].concat();
    refused(svg, &["--svg ", "no/where: No such file", mend]);
    let refine = ["estimate", "refine", "--profile", "xeon-e5-2690v2", &none];
    refused(&refine, &["none: No such file", mend]);
    refused(&["demo", "--out", &good], &["--out", "rules: "]);
}

#[test]
fn files_of_rules_are_complete_in_themselves() {
    let capture = capture();
    for (text, parts) in [
        ("", &["rules: no rule in it"][..]),
        ("# nothing\n\n", &["rules: no rule in it"]),
        ("actions=2\n#\nidle_timeout=5,actions=2", &["rules:3:1:", "take the timeouts away"]),
        ("hard_timeout=5,actions=2", &["rules:1:1:", "take the timeouts away"]),
        ("send_flow_rem,actions=2", &["rules:1:1: flags are for controllers"]),
        ("actions=2\nip,actions=group:1", &["rules:2:1: group 1: ", "need a configuration"]),
        ("actions=meter:7,output:2", &["rules:1:1: meter 7: ", "need a configuration"]),
        ("actions=write_actions(group:3)", &["rules:1:1: group 3: "]),
        ("actions=ouput:2", &["rules:1:9: 'ouput'", "did you mean 'output'?"]),
    ] {
        let (_dir, rules) = rules(text);
        refused(&["bench", "dataplane", "--rules", &rules, "--trace", &capture], parts);
        refused(&["trace", "--rules", &rules, "--pcap", &capture], parts);
    }
}

/// The frames that a capture becomes by rules, in order; by either path, in one VDP or several.
#[test]
fn a_pass_of_the_benchmark_is_kept_and_what_it_should_be() {
    let text = "priority=9,arp,actions=output:3\n\
                priority=8,udp,actions=drop\n\
                priority=1,actions=mod_dl_src:02:00:00:00:00:09,output:2\n";
    let (dir, file) = rules(text);
    let sent = Arena::load(Path::new(&capture())).unwrap();
    let word = |f: &[u8], at: usize| {
        f.get(at..at + 2).map_or(0, |w| u16::from(w[0]) << 8 | u16::from(w[1]))
    };
    let mut expected: [Vec<Vec<u8>>; 2] = Default::default();
    for f in sent.iter().map(|f| f.bytes) {
        // What is tagged is ARP or UDP all the same.
        let mut at = 12;
        while [0x8100, 0x88a8].contains(&word(f, at)) {
            at += 4;
        }
        match (word(f, at), f.get(at + 2 + 9)) {
            (0x0806, _) => expected[1].push(f.to_vec()),
            (0x0800, Some(17)) => {}
            _ => {
                let mut f = f.to_vec();
                f[6..12].copy_from_slice(&[2, 0, 0, 0, 0, 9]);
                expected[0].push(f);
            }
        }
    }
    assert!(expected.iter().all(|e| e.len() > 3), "{:?}", expected.each_ref().map(Vec::len));
    for path in ["fast", "slow"] {
        let out = dir.path().join("out.pcap");
        let name = out.display().to_string();
        let o = weir(&["bench", "dataplane", "--rules", &file, "--trace", &capture()])
            .args(["--path", path, "--out", &name])
            .output()
            .unwrap();
        assert!(o.status.success(), "{}", error_of(&o));
        let got: Vec<Vec<u8>> =
            Arena::load(&out).unwrap().iter().map(|f| f.bytes.to_vec()).collect();
        assert_eq!(error_of(&o), format!("{} frames in {name}\n", got.len()));
        // Port by port.
        assert!(got == expected.concat(), "{path}: {} frames", got.len());
    }
}

#[test]
fn where_the_time_goes_is_shown_when_asked_for() {
    let (_dir, file) = rules("actions=output:2\n");
    let capture = capture();
    let short = ["--seconds", "0.01", "--repeats", "1"];
    let said = |more: &[&str]| {
        let bench = ["bench", "dataplane", "--rules", &file, "--trace", &capture];
        let o = weir(&bench).args(short).args(more).output().unwrap();
        assert!(o.status.success(), "{}", error_of(&o));
        String::from_utf8(o.stdout).unwrap()
    };
    let (plain, profile) = (said(&[]), said(&["--profile"]));
    for stage in weir_dataplane::Stage::ALL.map(|s| format!("cycles: {}\n", s.name())) {
        assert!(profile.contains(&stage) && !plain.contains(&stage), "{stage}{profile}{plain}");
    }
}

#[test]
fn several_workers_are_measured_beside_as_many_processes() {
    let (_dir, file) = rules("actions=output:2\n");
    let capture = capture();
    for more in [&[][..], &["--one-queue"]] {
        let o =
            weir(&["bench", "dataplane", "--rules", &file, "--trace", &capture, "--workers", "2"])
                .args(["--seconds", "0.02", "--repeats", "2", "--json"])
                .args(more)
                .output()
                .unwrap();
        assert!(o.status.success(), "{}", error_of(&o));
        let v: serde_json::Value = serde_json::from_slice(&o.stdout).unwrap();
        let r = &v["result"];
        assert_eq!((&v["kind"], &r["workers"]), (&"bench-workers".into(), &2.into()));
        for pair in r["repeats"].as_array().unwrap() {
            for who in ["crew", "processes"] {
                assert!(pair[who]["frames"].as_u64().unwrap() > 0, "{r}");
            }
        }
        // Both ratios are of the same measurements as the rates beside them.
        let ratio = |of: &str| -> Vec<f64> {
            let rate =
                |d: &serde_json::Value| d["frames"].as_f64().unwrap() / d[of].as_f64().unwrap();
            let pairs = r["repeats"].as_array().unwrap().iter();
            pairs.map(|p| rate(&p["crew"]) / rate(&p["processes"])).collect()
        };
        for (key, of) in [("ratio_per_cpu_s", "cpu_s"), ("ratio_wall", "wall_s")] {
            let middle = ratio(of).iter().sum::<f64>() / 2.0;
            assert!((r[key].as_f64().unwrap() / middle - 1.0).abs() < 1e-9, "{key}: {r}");
        }
        let seen = r["visible"].as_array().unwrap();
        assert_eq!(seen[0]["workers"], 2);
        assert!(seen.iter().all(|s| s["p50_us"].as_f64() <= s["p99_us"].as_f64()), "{r}");
        assert!(seen.iter().all(|s| s["bare_p50_us"].as_f64() <= s["bare_p99_us"].as_f64()), "{r}");
        assert!(seen.iter().all(|s| s["bare_p50_us"].as_f64() > Some(0.0)), "{r}");
    }
    let bench = ["bench", "dataplane", "--rules", &file, "--trace", &capture];
    refused(&[&bench[..], &["--one-queue"]].concat(), &["--workers 2 or more"]);
    // A capture of one flow has nothing for a second worker.
    let alone = [&bench[..], &["--workers", "2", "--profile"]].concat();
    refused(&alone, &["--workers", "--profile"]);
}

#[test]
fn the_benchmark_says_what_was_done() {
    let lines: String =
        (1..=4).map(|v| format!("dl_vlan={v},actions=mod_dl_src:02::9,output:2\n")).collect();
    let (_dir, file) = rules(&lines.replace("02::9", "02:00:00:00:00:09"));
    let capture = capture();
    let o = weir(&["bench", "dataplane", "--rules", &file, "--trace", &capture, "--vdps", "4"])
        .args(["--seconds", "0.01", "--repeats", "2", "--json"])
        .output()
        .unwrap();
    assert!(o.status.success(), "{}", error_of(&o));
    let v: serde_json::Value = serde_json::from_slice(&o.stdout).unwrap();
    let r = &v["result"];
    assert_eq!((&v["schema"], &v["kind"]), (&1.into(), &"bench-dataplane".into()));
    assert_eq!((&r["rules"], &r["vdps"], &r["path"]), (&4.into(), &4.into(), &"fast".into()));
    let frames = Arena::load(Path::new(&capture)).unwrap().len();
    assert_eq!(r["frames_in_trace"], frames);
    assert_eq!(r["repeats"].as_array().unwrap().len(), 2);
    for key in ["mpps_wall", "mpps_per_cpu_s", "ns_per_frame", "cycles_per_frame"] {
        assert!(r[key].as_f64().unwrap() > 0.0, "{key}: {r}");
    }
    let stages = r["stages"].as_array().unwrap();
    let names = stages.iter().map(|s| s["stage"].as_str().unwrap());
    assert!(names.eq(weir_dataplane::Stage::ALL.map(|s| s.name())), "{r}");
    // One clock for all: so many cycles are a nanosecond everywhere.
    let clock = |v: &serde_json::Value| {
        v["cycles_per_frame"].as_f64().unwrap() / v["ns_per_frame"].as_f64().unwrap()
    };
    assert!((0.1..20.0).contains(&clock(r)), "{r}");
    for s in stages.iter().filter(|s| s["ns_per_frame"].as_f64().unwrap() > 0.0) {
        assert!((clock(s) / clock(r) - 1.0).abs() < 1e-6, "{s}");
    }
    let share = r["forwarded_share"].as_f64().unwrap();
    assert!((0.0..=1.0).contains(&share), "{share}");
}

#[test]
fn a_file_of_tokens_that_can_not_be_written_is_named_and_what_stays_is_told() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("tokens").display().to_string();
    let add = ["token", "add", "--role", "reader", "--tokens", &path];
    let told = weir(&add).output().unwrap().stdout;
    let id = String::from_utf8(told).unwrap().split('_').nth(1).unwrap().to_owned();
    let before = std::fs::read(&path).unwrap();
    let remove = ["token", "remove", &id, "--tokens", &path];
    let not_removed = format!("token '{id}' is not removed, and holds as before: ");
    for (arguments, begins) in [(&add[..], ""), (&remove, &not_removed)] {
        // No file may have a byte: as on a disk that is full.
        let mut full = Command::new("sh");
        full.args(["-c", "trap '' XFSZ; ulimit -f 0; exec \"$0\" \"$@\""]);
        let o = full.arg(env!("CARGO_BIN_EXE_weir")).args(arguments).output().unwrap();
        let error = String::from_utf8(o.stderr).unwrap();
        let expected = format!("{begins}{path}.new: can't be written: ");
        assert_eq!(o.status.code(), Some(1), "{error}");
        assert!(error.contains(&expected), "{error}");
        assert_eq!(std::fs::read(&path).unwrap(), before);
        assert!(!Path::new(&format!("{path}.new")).exists());
    }
    assert!(weir(&remove).output().unwrap().status.success());
}

#[test]
fn a_token_that_nobody_has_seen_is_none_and_names_fit_their_cells() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("tokens").display().to_string();
    let add = ["token", "add", "--role", "reader", "--tokens", &path];
    for nowhere in ["/dev/full", "/dev/null"] {
        let out = std::fs::File::options().write(true).open(nowhere).unwrap();
        let o = weir(&add).stdout(out).stderr(Stdio::piped()).output().unwrap();
        let error = String::from_utf8(o.stderr).unwrap();
        assert!(!o.status.success() && error.contains("could not be told, and is none"), "{error}");
    }
    let list = ["token", "list", "--json", "--tokens", &path];
    let listed = || -> serde_json::Value {
        serde_json::from_slice(&weir(&list).output().unwrap().stdout).unwrap()
    };
    assert_eq!(listed()["result"], serde_json::json!([]));
    for owner in ["a\nb", "a\u{1b}[2J", &"x".repeat(65)] {
        let add = ["token", "add", "--role", "owner", "--owner", owner, "--tokens", &path];
        refused(&add, &["--owner: at most 64 bytes, none of them a control character"]);
    }
    let add = ["token", "add", "--role", "owner", "--owner", "a\"b c", "--tokens", &path];
    assert!(weir(&add).output().unwrap().status.success());
    let one = &listed()["result"][0];
    assert_eq!(
        (&one["owner"], &one["role"], &one["holds"]),
        (&"a\"b c".into(), &"owner".into(), &true.into())
    );
    assert!(one.get("hash").is_none() && one["expires_s"].is_u64());
    // What was taken before names were looked at keeps to its cell.
    let old = std::fs::read_to_string(&path).unwrap().replace("'a\"b c'", "\"a\\nb\"");
    std::fs::write(&path, &old).unwrap();
    let table = weir(&["token", "list", "--tokens", &path]).output().unwrap().stdout;
    let table = String::from_utf8(table).unwrap();
    assert!(table.lines().count() == 2 && table.contains("a b"), "{table}{old}");
}
