//! `weir run` over files and memory: no rights, no interfaces.

mod run_daemon;

use run_daemon::{Daemon, LIMIT, has, skipped, tshark, weir};
use rustix::process::{Pid, Signal, kill_process};
use std::path::Path;
use std::process::Stdio;
use std::time::{Duration, Instant};
use weir_io::replay::Arena;

fn capture() -> String {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../testdata/real.pcap");
    path.canonicalize().unwrap().display().to_string()
}

fn config(rest: &str) -> String {
    format!(
        "[[port]]\nname = 'in'\ndevice = 'pcap:{}'\n\
         [[port]]\nname = 'out'\ndevice = 'pcap-out:out.pcap'\n\
         [[vdp]]\nvid = 1\nname = 'one'\nports = ['in', 'out']\nmapping = ['in_port=in']\n{rest}",
        capture()
    )
}

#[test]
fn a_capture_goes_through_unchanged_and_in_order() {
    // By a rule on the fast path, by the same on the slow path, by a program, by threads.
    for rest in [
        "rule = [{ actions = 'output:out' }]",
        "rule = [{ actions = 'output:out' }]\npath = 'slow'",
        "rule = [{ actions = 'output:out' }]\nplacement = 'slow'\ndefault = 'channel'",
        "program = 'forward'",
        "program = 'forward'\nchannel = 1\n[dataplane]\nserving = { threads = 3 }",
    ] {
        let mut d = Daemon::spawn(&config(rest), &["--until-done"]);
        let status = d.end();
        let said = d.said.join("\n");
        assert!(status.success(), "{rest}: {said}");
        let (sent, got) = (
            Arena::load(Path::new(&capture())).unwrap(),
            Arena::load(&d.path("out.pcap")).unwrap(),
        );
        assert!(said.contains(&format!("accounted for: {} received", sent.len())), "{said}");
        let sent: Vec<_> = sent.iter().map(|f| (f.bytes.to_vec(), f.stamp)).collect();
        let got: Vec<_> = got.iter().map(|f| (f.bytes.to_vec(), f.stamp)).collect();
        assert!(sent == got, "{rest}: {} frames in, {} out", sent.len(), got.len());
    }
}

/// A capture through two VDPs that a wire joins, to a port of this device; `first` is what the first one does.
fn by_a_wire(out: &str, first: &str, rest: &str) -> String {
    format!(
        "[[port]]\nname = 'in'\ndevice = 'pcap:{}'\n\
         [[port]]\nname = 'w1'\ndevice = 'memory:w'\n\
         [[port]]\nname = 'w2'\ndevice = 'memory:w'\n\
         [[port]]\nname = 'out'\ndevice = '{out}'\n\
         [[vdp]]\nvid = 1\nports = ['in', 'w1']\nmapping = ['in_port=in']\n{first}\n\
         [[vdp]]\nvid = 2\nports = ['w2', 'out']\nmapping = ['in_port=w2']\n\
         rule = [{{ actions = 'output:out' }}]\n{rest}",
        capture()
    )
}

#[test]
fn two_vdps_are_joined_by_a_wire() {
    let frames = Arena::load(Path::new(&capture())).unwrap().len() as u64;
    let d = Daemon::start(&by_a_wire("null", "program = 'forward'", ""), &[]);
    d.until("all frames through both", |d| d.port("out")["tx"]["frames"] == frames);
    assert_eq!(d.vdp(1)["forwarded"]["frames"], frames);
    assert_eq!(d.vdp(2)["received"]["frames"], frames);
    // What it has counted stays, so that VDPs and ports add up.
    assert!(d.json(&["stats"])["plane"].get("deleted").is_none());
    d.ask(&["vdp", "delete", "2"]);
    let gone = &d.json(&["stats"])["plane"]["deleted"];
    assert_eq!([&gone["received"]["frames"], &gone["forwarded"]["frames"]], [frames, frames]);
    let line = d.ask(&["stats"]).lines().find(|l| l.contains("(deleted)")).unwrap().to_owned();
    assert_eq!(line.split_whitespace().nth(3), Some(frames.to_string().as_str()), "{line}");
    d.stop();
}

/// What goes through wires comes to rest as all else does; an end without another has nothing to wait for.
#[test]
fn a_data_plane_with_wires_comes_to_its_end() {
    let lone = "[[port]]\nname = 'lone'\ndevice = 'memory:lone'\n";
    for workers in ["", "[dataplane]\nworkers = 2\n"] {
        let first = "rule = [{ actions = 'output:w1' }]";
        let config = by_a_wire("pcap-out:out.pcap", first, &format!("{lone}{workers}"));
        let mut d = Daemon::spawn(&config, &["--until-done"]);
        let status = d.end();
        assert!(status.success(), "{}", d.said.join("\n"));
        let [sent, got] = [Path::new(&capture()), &d.path("out.pcap")]
            .map(|file| Arena::load(file).unwrap().len());
        assert_eq!(sent, got);
    }
}

/// Not all of it came: the work is not done, whatever else was.
#[test]
fn a_capture_that_is_cut_short_is_a_failure() {
    let whole = std::fs::read(capture()).unwrap();
    let directory = tempfile::tempdir().unwrap();
    let cut = directory.path().join("cut.pcap");
    std::fs::write(&cut, &whole[..whole.len() - 7]).unwrap();
    let text = config("program = 'forward'").replace(&capture(), &cut.display().to_string());
    let mut d = Daemon::spawn(&text, &["--until-done"]);
    assert_eq!(d.end().code(), Some(1));
    let frames = Arena::load(Path::new(&capture())).unwrap().len();
    assert_eq!(Arena::load(&d.path("out.pcap")).unwrap().len(), frames - 1);
}

/// What was recorded with a snaplen comes as it was recorded, and that is said.
#[test]
fn frames_that_were_not_captured_whole_are_told_of() {
    let mut bytes = std::fs::read(capture()).unwrap();
    assert_eq!(bytes[..4], 0xa1b2_3c4d_u32.to_le_bytes(), "pcap, nanoseconds");
    // The first frame's length on the wire.
    let len = u32::from_le_bytes(bytes[36..40].try_into().unwrap());
    bytes[36..40].copy_from_slice(&(len + 1_000).to_le_bytes());
    let directory = tempfile::tempdir().unwrap();
    let cut = directory.path().join("cut.pcap");
    std::fs::write(&cut, &bytes).unwrap();
    let cut = cut.display().to_string();
    let mut d =
        Daemon::spawn(&config("program = 'forward'").replace(&capture(), &cut), &["--until-done"]);
    assert!(d.end().success());
    let said = d.said.join("\n");
    assert!(said.contains("port in: 1 frames were not captured whole"), "{said}");
    let d = Daemon::start(&endless(RULE).replace(&capture(), &cut), &[]);
    let frames = Arena::load(Path::new(&capture())).unwrap().len();
    let told = format!("1 of {frames} frames were not captured whole");
    assert!(d.ask(&["show"]).contains(&told), "{}", d.ask(&["show"]));
    d.stop();
}

/// A full disk is no end of all work, though what was to be written fits a buffer.
#[test]
fn a_disk_that_is_full_at_the_end_is_a_failure() {
    let text = config("rule = [{ match = 'arp', actions = 'output:out' }]");
    let mut d = Daemon::spawn(&text.replace("out.pcap", "/dev/full"), &["--until-done"]);
    assert_eq!(d.end().code(), Some(1), "{}", d.said.join("\n"));
    let said = d.said.join("\n");
    assert!(said.contains("port out: /dev/full: can't be written"), "{said}");
}

/// No port's file is another's that writes it, and no pipe keeps all else waiting.
#[test]
fn what_a_port_reads_is_not_written_and_a_pipe_is_refused() {
    let d = Daemon::start(&endless(RULE), &[]);
    std::fs::copy(capture(), d.path("read.pcap")).unwrap();
    std::os::unix::fs::symlink(d.path("read.pcap"), d.path("link.pcap")).unwrap();
    let device = |kind: &str, file: &str| format!("{kind}:{}", d.path(file).display());
    d.ask(&["port", "add", "reads", &device("pcap", "read.pcap")]);
    let error = d.refused(&["port", "add", "writes", &device("pcap-out", "link.pcap")]);
    assert!(error.contains("is port 'reads'"), "{error}");
    let length = |file: &Path| std::fs::metadata(file).unwrap().len();
    assert_eq!(length(&d.path("read.pcap")), length(Path::new(&capture())));
    let made = std::process::Command::new("mkfifo").arg(d.path("pipe")).status().unwrap();
    assert!(made.success());
    for kind in ["pcap", "replay", "pcap-out"] {
        let error = d.refused(&["port", "add", "pipe", &device(kind, "pipe")]);
        assert!(error.contains("pipe"), "{error}");
    }
    assert_eq!(d.port("in")["name"], "in");
    d.stop();
}

/// A source that never ends, and a port that swallows.
fn endless(rest: &str) -> String {
    format!(
        "[[port]]\nname = 'in'\ndevice = 'replay:{}'\n\
         [[port]]\nname = 'out'\ndevice = 'null'\n\
         [[vdp]]\nvid = 1\nname = 'one'\nports = ['in', 'out']\nmapping = ['in_port=in']\n{rest}",
        capture()
    )
}

const RULE: &str = "rule = [{ priority = 5, actions = 'output:out' }]\n";

#[test]
fn what_runs_is_shown() {
    let d = Daemon::start(&endless(&format!("{RULE}program = 'learning'\n")), &[]);
    d.until("frames", |d| d.vdp(1)["forwarded"]["frames"].as_u64() > Some(10_000));
    let text = d.ask(&["show", "--rules"]);
    for part in [
        "VDP 1 (one), fast:",
        "in_port=in (priority 32768)",
        "1 in the TCAM, 0 on the slow path only; default: channel",
        "program    learning",
        "ageing: 300 s",
        "rule       priority=5",
        "TCAM, mapping part: 65536 entries",
        "a frame wakes 2 of",
    ] {
        assert!(text.contains(part), "'{part}' is missing in\n{text}");
    }
    let all = d.json(&["show", "--rules"]);
    assert_eq!(all["rules"][0]["placed"], "fast");
    assert!(all["rules"][0]["hits"]["frames"].as_u64() > Some(10_000));
    let one = d.json(&["show", "--vdp", "one"]);
    assert_eq!((one["vdps"].as_array().unwrap().len(), &one["vdps"][0]["vid"]), (1, &1.into()));
    let top = d.ask(&["top", "--count", "2", "--interval-ms", "50"]);
    assert_eq!(top.matches("rx Mbit/s").count(), 4, "{top}");
    assert!(!top.contains('\x1b'), "a pipe is no terminal");
    assert!(d.refused(&["show", "--vdp", "two"]).contains("there is no VDP 'two'"));
    d.stop();
}

/// What is no port is not told as one, what is no VDP's is told all the same, and what was not asked for is left out.
#[test]
fn what_is_told_is_what_there_is() {
    let dir = tempfile::tempdir().unwrap();
    let (runts, mut bytes) = (dir.path().join("runts.pcap"), Vec::new());
    let words: [u32; 6] = [0xa1b2_c3d4, 2 | 4 << 16, 0, 0, 65_535, 1];
    words.iter().for_each(|w| bytes.extend(w.to_le_bytes()));
    for frame in [&[1u8; 5][..], &[1; 5], &[1; 60], &[1; 50_000]] {
        let n = frame.len() as u32;
        [0, 0, n, n].iter().for_each(|w: &u32| bytes.extend(w.to_le_bytes()));
        bytes.extend(frame);
    }
    std::fs::write(&runts, bytes).unwrap();
    let text = endless(RULE).replace(&format!("replay:{}", capture()), "null");
    let d = Daemon::start(&text, &[]);
    d.ask(&["port", "add", "r", &format!("pcap:{}", runts.display())]);
    d.until("the frames", |d| d.port("r")["rx"]["frames"] == 3);
    d.until("one that is too long", |d| d.port("r")["rx_errors"] == 1);
    d.until("runts", |d| d.ask(&["stats"]).contains("\nwithout a VDP dropped: runt 2\n"));
    for column in ["rx missed", "rx errors", "tx errors"] {
        assert!(d.ask(&["stats"]).contains(column), "{column}");
    }

    d.ask(&["port", "remove", "r"]);
    let listed = d.json(&["port", "list"]);
    assert_eq!(listed.as_array().unwrap().len(), 2, "{listed}");
    // With what its device had counted.
    let removed = d.json(&["stats"])["ports"].as_array().unwrap().last().unwrap().clone();
    assert_eq!(
        (&removed["name"], &removed["rx_errors"]),
        (&"(removed)".into(), &1.into()),
        "{removed}"
    );
    for command in ["show", "stats"] {
        let text = d.ask(&[command]);
        let line = text.lines().find(|l| l.starts_with("(removed)")).unwrap();
        assert!(line.contains(" - ") && !line.contains("down"), "{text}");
    }
    let one = d.json(&["show", "--vdp", "one"]);
    let keys: Vec<&String> = one.as_object().unwrap().keys().collect();
    assert_eq!(keys, ["vdps"], "{one}");
    let all = d.json(&["show", "--rules"]);
    let keys: Vec<&String> = all.as_object().unwrap().keys().collect();
    assert_eq!(keys, ["plane", "ports", "rules", "vdps"]);

    let said = d.stop().join("\n");
    assert!(said.contains("without a VDP dropped: runt 2"), "{said}");
}

#[test]
fn ports_and_vdps_come_and_go_while_frames_flow() {
    let d = Daemon::start(&endless(RULE), &[]);
    // A second VDP takes a part of the frames.
    d.ask(&["port", "add", "more", "null"]);
    assert!(d.ask(&["port", "list"]).contains("more"));
    d.ask(&[
        "vdp",
        "create",
        "2",
        "--name",
        "two",
        "--ports",
        "in=1,more=7",
        "--mapping",
        "in_port=in,tcp",
        "--share",
        "more:ceiling_bps=1000000000,weight=3",
    ]);
    assert!(d.refused(&["vdp", "rule", "add", "two", "actions=output:9"]).contains("no port 9"));
    d.ask(&["vdp", "rule", "add", "two", "tcp,actions=output:more"]);
    // Both mapping rules have the same priority: the first one still has the frames.
    d.ask(&["vdp", "mapping", "add", "two", "tcp", "--priority", "40000"]);
    d.until("frames of the second", |d| d.port("more")["tx"]["frames"].as_u64() > Some(1000));
    assert!(d.ask(&["show", "--vdp", "two"]).contains("7 = more: 0 bit/s guaranteed, at most"));

    // It moves to the slow path and back; nothing is lost, nothing refused.
    let fast = d.vdp(2)["slow"].as_u64().unwrap();
    d.ask(&["vdp", "migrate", "two", "slow"]);
    d.until("the slow path", |d| d.vdp(2)["slow"].as_u64() > Some(fast + 1000));
    assert!(d.ask(&["vdp", "migrate", "2", "fast"]).contains("held"));
    assert_eq!(d.vdp(2)["phase"], "fast");
    assert_eq!(d.vdp(2)["dropped"].as_object().unwrap().len(), 0, "{}", d.vdp(2));

    // Its rule sends to port 7: it must have one. Nothing of what was asked is done then.
    let said = d.refused(&[
        "vdp",
        "set",
        "two",
        "--name",
        "zwei",
        "--ports",
        "in=1,more=8",
        "--path",
        "slow",
    ]);
    assert!(said.contains("VDP has no port 7"), "{said}");
    assert_eq!((&d.vdp(2)["name"], &d.vdp(2)["phase"]), (&"two".into(), &"fast".into()));
    d.ask(&[
        "vdp",
        "set",
        "two",
        "--name",
        "zwei",
        "--default",
        "drop",
        "--ports",
        "in=3,more=7",
        "--cpu-permille",
        "200",
    ]);
    let shown = d.ask(&["show", "--vdp", "zwei", "--rules"]);
    assert!(
        shown.contains("3 = in")
            && shown.contains("200 permille")
            && shown.contains("default: drop"),
        "{shown}"
    );

    // Its port goes: frames are dropped with a reason; it comes back: they flow again.
    d.ask(&["port", "remove", "more"]);
    assert!(d.ask(&["show", "--vdp", "zwei"]).contains("7 = more, away"));
    d.until("drops", |d| d.vdp(2)["dropped"]["no-such-port"].as_u64() > Some(100));
    d.ask(&["port", "add", "more", "null"]);
    d.ask(&["vdp", "rule", "add", "zwei", "tcp,actions=output:more"]);
    d.until("frames again", |d| d.port("more")["tx"]["frames"].as_u64() > Some(1000));

    d.ask(&["vdp", "rule", "del", "zwei", "tcp"]);
    assert!(d.refused(&["vdp", "rule", "del", "zwei", "tcp"]).contains("has no rule"));
    d.ask(&["vdp", "mapping", "del", "zwei", "tcp", "--priority", "40000"]);
    assert!(
        d.refused(&["vdp", "mapping", "del", "zwei", "tcp", "--priority", "4"])
            .contains("no mapping")
    );
    d.ask(&["vdp", "delete", "zwei"]);
    d.until("its end", |d| d.vdp(2).is_null());
    assert!(d.refused(&["vdp", "delete", "zwei"]).contains("there is no VDP"));
    assert!(d.refused(&["vdp", "delete", "0"]).contains("default VDP stays"));
    assert!(d.refused(&["port", "remove", "more2"]).contains("there are: in, more, out"));
    assert!(d.refused(&["port", "add", "in", "null"]).contains("is there already"));
    assert!(d.refused(&["port", "add", "x", "pcap:/none"]).contains("/none"));
    assert!(d.refused(&["vdp", "set", "one"]).contains("nothing to set"));
    assert!(d.refused(&["vdp", "create", "1"]).contains("VDP 1 exists already"));
    d.stop();
}

#[test]
fn a_port_that_returns_carries_its_vdps_old_rules() {
    let d = Daemon::start(&endless(RULE), &[]);
    d.until("frames", |d| d.port("out")["tx"]["frames"].as_u64() > Some(1000));
    d.ask(&["port", "remove", "out"]);
    d.until("drops", |d| d.vdp(1)["dropped"]["no-such-port"].as_u64() > Some(100));
    d.ask(&["port", "add", "out", "null"]);
    d.until("frames by the old rule", |d| d.port("out")["tx"]["frames"].as_u64() > Some(1000));
    // The source, too: its mapping rule names it.
    let path = format!("replay:{}", capture());
    d.ask(&["port", "remove", "in"]);
    let before = d.vdp(1)["received"]["frames"].as_u64();
    d.ask(&["port", "add", "in", &path]);
    d.until("frames by the old mapping", |d| d.vdp(1)["received"]["frames"].as_u64() > before);
    assert_eq!(d.vdp(0)["received"]["frames"], 0);
    d.stop();
}

#[test]
fn a_reload_changes_what_differs_and_loses_nothing() {
    let mut d = Daemon::start(&endless(RULE), &[]);
    assert_eq!(d.reload(&endless(RULE)), "reload: nothing differs");
    // Back and forth, while frames flow at full rate: another action, another VDP, another port.
    let two = "[[port]]\nname = 'more'\ndevice = 'null'\n\
               [[vdp]]\nvid = 2\nports = ['in', 'more']\nmapping = [{ match = 'tcp', priority = 40000 }]\n\
               rule = [{ actions = 'output:more' }]\n";
    let variants = [
        endless(&RULE.replace("'output:out'", "'set_queue:1,output:out'")),
        endless(&format!("{RULE}{two}")),
        endless(&format!("{RULE}path = 'slow'\n")),
        endless(RULE),
    ];
    for i in 0..20 {
        let line = d.reload(&variants[i % variants.len()]);
        assert_eq!(line, "reload: done", "{}", d.said.join("\n"));
    }
    let one = d.vdp(1);
    assert_eq!(one["dropped"].as_object().unwrap().len(), 0, "{one}");
    assert_eq!(d.vdp(0)["received"]["frames"], 0, "no frame was without its VDP");
    // Rules that stayed kept their counters.
    let hits = d.json(&["show", "--rules"])["rules"][0]["hits"]["frames"].as_u64();
    assert!(hits > Some(0) && hits <= one["received"]["frames"].as_u64().map(|n| n * 2));
    d.stop();
}

#[test]
fn a_bad_reload_changes_nothing() {
    let mut d = Daemon::start(&endless(RULE), &[]);
    let before = d.ask(&["show", "--vdp", "1"]);
    for (text, expected) in [
        (endless("rul = 3"), "t.toml:12:1: unknown key 'rul': did you mean 'rule'?"),
        (endless("rule = [{ actions = 'output:7' }]"), "VDP has no port 7"),
        (endless("channel = 1"), "its channel can't be changed while it runs"),
        (format!("[dataplane]\nframes = 4096\n{}", endless(RULE)), "frames: fixed while"),
        (
            endless(&format!("{RULE}[[port]]\nname = 'x'\ndevice = 'pcap:/none'\n")),
            "port 'x': /none",
        ),
        (String::from_utf8(vec![b'['; 100]).unwrap(), "t.toml:1:"),
    ] {
        let line = d.reload(&text);
        assert!(line.contains(expected) && line.contains("nothing has changed"), "{line}");
    }
    let fixed = |text: String| text.lines().skip(2).map(str::to_owned).collect::<Vec<_>>();
    assert_eq!(fixed(before), fixed(d.ask(&["show", "--vdp", "1"])));
    d.stop();
}

#[test]
fn captures_are_read_by_tshark() {
    if !has("tshark") {
        return skipped("captures_are_read_by_tshark", "no tshark");
    }
    let d = Daemon::start(&endless(&format!("{RULE}program = 'learning'\npath = 'slow'\n")), &[]);
    let file = d.path("c.pcapng");
    let name = file.display().to_string();
    let capture = |more: &[&str]| {
        let mut all = vec!["capture", "-w", &name, "--count", "50"];
        all.extend(more);
        d.ask(&all);
        tshark(
            &file,
            &["frame.interface_name", "eth.type", "ip.proto", "frame.packet_flags_direction"],
        )
    };
    let lines = capture(&["--port", "in", "--filter", "tcp"]);
    assert_eq!(lines.len(), 50);
    assert!(lines.iter().all(|l| l.starts_with("in\t") && l.contains("\t6\t")), "{lines:?}");
    let lines = capture(&["--port", "out", "--stage", "forwarding"]);
    assert!(lines.iter().all(|l| l.starts_with("out\t")), "{lines:?}");
    assert_eq!(capture(&["--vdp", "one", "--stage", "software"]).len(), 50);
    assert_eq!(capture(&["--vdp", "1", "--stage", "mapping", "--filter", "arp"]).len(), 50);
    assert!(d.refused(&["capture", "--stage", "brewing", "-w", "/dev/null"]).contains("no stage"));
    assert!(
        d.refused(&["capture", "--port", "none", "-w", "/dev/null"]).contains("no port 'none'")
    );
    assert!(d.refused(&["capture", "--filter", "tpc", "-w", "/dev/null"]).contains("'tpc'"));
    d.stop();
}

#[test]
fn exit_statuses_say_who_is_at_fault() {
    let dir = tempfile::tempdir().unwrap();
    let missing = dir.path().join("none");
    let run = |arguments: &[&str]| {
        let o = weir().args(arguments).output().unwrap();
        let error = String::from_utf8(o.stderr).unwrap();
        assert_eq!(error.lines().count(), 1, "{error}");
        (o.status.code().unwrap(), error)
    };
    let none = missing.display().to_string();
    assert_eq!(run(&["run", &none]).0, 2);
    let (code, error) = run(&["stats", "--socket", &none]);
    assert!(code == 1 && error.contains("no data plane answers there"), "{code}: {error}");
    let file = dir.path().join("t.toml");
    let name = file.display().to_string();
    for (device, code, expected) in [
        ("nosuchif0", 2, "interface 'nosuchif0' does not exist"),
        ("pcap:none.pcap", 2, "none.pcap"),
        ("pcap:t.toml", 2, "t.toml"),
        ("pcap-out:/nowhere/x", 2, "/nowhere/x"),
    ] {
        std::fs::write(&file, format!("[[port]]\nname = 'a'\ndevice = '{device}'\n")).unwrap();
        let got = run(&["run", "--socket", &none, &name]);
        assert!(got.0 == code && got.1.contains(expected), "{got:?}");
        assert!(got.1.contains("t.toml:2:8: port 'a': "), "{got:?}");
        assert!(!missing.exists(), "the socket was left behind");
    }
    // A socket's place that is something else's.
    std::fs::write(&missing, "mine").unwrap();
    std::fs::write(&file, "").unwrap();
    let (code, error) = run(&["run", "--socket", &none, &name]);
    assert!(code == 1 && error.contains("is no socket"), "{error}");
    assert_eq!(std::fs::read_to_string(&missing).unwrap(), "mine");
}

#[test]
fn refusals_name_what_their_user_wrote() {
    let d = Daemon::start(&endless(RULE), &[]);
    // No line or column of a text that weir has made of the options.
    let said = d.refused(&["vdp", "create", "9", "--ports", "nope"]);
    assert!(said.starts_with("weir: no port 'nope': "), "{said}");
    let said = d.refused(&["vdp", "set", "one", "--cpu-permille", "2000"]);
    assert!(said.starts_with("weir: cpu_permille = 2000: at most 1000"), "{said}");
    // Nor of the file that the data plane was started with.
    let said = d.refused(&["vdp", "set", "one", "--tcam-entries", "900000000"]);
    assert!(said.starts_with("weir: VDP 1 (one): the action part of the TCAM"), "{said}");
    let said = d.refused(&["vdp", "create", "9", "--mapping", "in_port=nope"]);
    assert!(said.starts_with("weir: mapping rule: 'nope'"), "{said}");
    // In a file there is a line, and a column.
    let file = d.path("nine.toml");
    std::fs::write(&file, "# nine\n[[vdp]]\nvid = 9\nports = ['nope']\n").unwrap();
    let name = file.display().to_string();
    let said = d.refused(&["vdp", "create", "--file", &name]);
    assert!(said.starts_with(&format!("weir: {name}:4:9: no port 'nope'")), "{said}");

    // What a port has, no other can have.
    let out = format!("pcap-out:{}", d.path("kept.pcap").display());
    d.ask(&["port", "add", "kept", &out]);
    let said = d.refused(&["port", "add", "again", &out]);
    assert!(said.contains("kept.pcap' is port 'kept' already: take another"), "{said}");
    d.ask(&["port", "remove", "kept"]);
    d.ask(&["port", "add", "again", &out]);
    d.stop();
}

#[test]
fn a_processor_that_is_not_there_is_told_by_a_check() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("t.toml");
    std::fs::write(&file, format!("[dataplane]\ncpu = 99999\n{}", endless(RULE))).unwrap();
    for arguments in [&["run", "--check"][..], &["run"]] {
        let o = weir().args(arguments).arg(&file).output().unwrap();
        let error = String::from_utf8(o.stderr).unwrap();
        assert_eq!((o.status.code(), error.lines().count()), (Some(2), 1), "{error}");
        let said = "t.toml:2:7: [dataplane] cpu = 99999: weir may not run there; give it one of ";
        assert!(o.stdout.is_empty() && error.contains(said), "{error}");
    }
}

#[test]
fn rules_beyond_the_budget_spill_and_are_found_all_the_same() {
    // One slice of 16 entries and 40 rules; the rest of the frames is dropped, or sent on.
    let rules: String = (0..40)
        .map(|i| {
            let to = 1000 + i;
            format!("priority={},tcp,tp_dst={to},actions=drop\n", 100 + i)
        })
        .chain(["priority=5,arp,actions=output:out\n".to_owned()])
        .collect();
    for (default, others) in [("drop", 0u64), ("output:out", 1)] {
        let frames = Arena::load(Path::new(&capture())).unwrap();
        let is_arp = |b: &[u8]| {
            let mut at = 12;
            while matches!(b.get(at..at + 2), Some([0x81, 0] | [0x88, 0xa8])) {
                at += 4;
            }
            b.get(at..at + 2) == Some(&[8, 6])
        };
        let arps = frames.iter().filter(|f| is_arp(f.bytes)).count() as u64;
        assert!(arps > 0);
        let config = config(&format!(
            "default = '{default}'\nplacement = 'spill'\ntcam_limit_entries = 16\n\
             rules_file = 'r.flows'\n"
        ));
        let mut d = Daemon::spawn_with(&config, &["--until-done"], &[("r.flows", &rules)]);
        let status = d.end();
        let said = d.said.join("\n");
        assert!(status.success(), "{said}");
        assert!(said.contains("25 rules are on the slow path, because the TCAM"), "{said}");
        let got = Arena::load(&d.path("out.pcap")).unwrap();
        let expected = arps + others * (frames.len() as u64 - arps);
        assert_eq!(got.len() as u64, expected, "{default}: {said}");
        assert_eq!(got.iter().filter(|f| is_arp(f.bytes)).count() as u64, arps);
    }
}

#[test]
fn nobody_reads_along() {
    // Output that nobody takes is no reason to stop, nor to fail.
    let d = Daemon::start(&endless(RULE), &[]);
    let script = format!(
        "{} show --rules --socket {} | head -n 1",
        env!("CARGO_BIN_EXE_weir"),
        d.socket().display()
    );
    let o = std::process::Command::new("bash")
        .args(["-c", &format!("set -o pipefail; {script}")])
        .output()
        .unwrap();
    assert!(o.status.success(), "{}", String::from_utf8_lossy(&o.stderr));
    d.stop();
}

/// A reader that stands still (`| less`) holds up neither a reload nor the end; the log says what is missing.
#[test]
fn a_log_that_nobody_reads_holds_up_nothing() {
    let rules = |count: usize, first: usize| -> String {
        let rule = |n: usize| {
            let (priority, port) = (first + n, 1000 + n);
            format!(
                "[[vdp.rule]]\npriority = {priority}\nmatch = 'udp,tp_dst={port}'\nactions = 'drop'\n"
            )
        };
        let ports = "[[port]]\nname = 'a'\ndevice = 'null'\n[[vdp]]\nvid = 1\nports = ['a']\n";
        (0..count).map(rule).fold(ports.to_owned(), |all, r| all + &r)
    };
    let dir = tempfile::tempdir().unwrap();
    let [file, socket] = ["t.toml", "s"].map(|n| dir.path().join(n));
    std::fs::write(&file, rules(100, 1000)).unwrap();
    let mut child = weir()
        .arg("run")
        .arg("--socket")
        .args([&socket, &file])
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let pid = Pid::from_raw(child.id().cast_signed()).unwrap();
    let ask = |what: &[&str]| {
        let o = weir().args(what).arg("--socket").arg(&socket).output().unwrap();
        String::from_utf8(o.stdout).unwrap()
    };
    let until = |what: &str, f: &mut dyn FnMut() -> bool| {
        let until = Instant::now() + LIMIT;
        while !f() {
            assert!(Instant::now() < until, "{what}: not within {LIMIT:?}");
            std::thread::sleep(Duration::from_millis(20));
        }
    };
    let has = |count: usize| {
        let rules = format!("\"rules\": {count},");
        ask(&["stats", "--json"]).contains(&rules)
    };
    until("a start", &mut || has(100));
    // Until it is more than a pipe and the log's own room have.
    let full = |shown: &str| shown.contains("lines were left out: nobody read them");
    let mut reloads = 1..=100;
    while !full(&ask(&["show"])) {
        let n = reloads.next().unwrap();
        let count = if usize::is_multiple_of(n, 2) { 500 } else { 1000 };
        std::fs::write(&file, rules(count, 1000 * n)).unwrap();
        kill_process(pid, Signal::HUP).unwrap();
        until(&format!("reload {n}"), &mut || has(count));
    }
    kill_process(pid, Signal::TERM).unwrap();
    let mut ended = None;
    until("its end", &mut || {
        ended = child.try_wait().unwrap();
        ended.is_some()
    });
    assert!(ended.unwrap().success());
}

/// By `--log` each line says when it was, or what the journal asks for; a line that tells of a fault says that, too.
#[test]
fn lines_of_a_log_say_when_and_how_grave() {
    let is_moment = |text: &str| {
        let like = |c: char| if c.is_ascii_digit() { '0' } else { c };
        text.chars().map(like).collect::<String>() == "0000-00-00T00:00:00.000Z"
    };
    for (form, info, warning) in [("time", " info    ", " warning "), ("journal", "<6>", "<4>")] {
        let mut d = Daemon::start(&endless(RULE), &["--log", form]);
        let refused = d.reload("port = 3\n");
        let refused = refused.find(warning).map(|at| &refused[at + warning.len()..]);
        assert!(refused.is_some_and(|line| line.starts_with("weir: ")), "{refused:?}");
        for line in d.stop() {
            let begins = [info, warning].iter().find_map(|b| Some(line.split_once(*b)?.0));
            assert!(begins.is_some_and(|b| is_moment(b) == (form == "time")), "{line}");
            assert!(form == "time" || begins == Some(""), "{line}");
        }
    }
}

#[test]
fn counters_are_told_as_prometheus_reads_them() {
    let d = Daemon::start(&endless(RULE), &[]);
    let value = |text: &str, sample: &str| -> Option<f64> {
        text.lines().find_map(|l| l.strip_prefix(sample)?.trim().parse().ok())
    };
    d.until("frames", |d| {
        let text = d.ask(&["stats", "--prometheus"]);
        let received = value(&text, "weir_port_received_frames_total{port=\"in\"}");
        let forwarded = value(&text, "weir_vdp_forwarded_frames_total{vdp=\"1\",name=\"one\"}");
        let adds_up = value(&text, "weir_frames_add_up");
        assert!(received.is_some() && adds_up == Some(1.0), "{text}");
        forwarded.unwrap() > 1000.0 && received >= forwarded
    });
    assert_eq!(d.client(&["stats", "--prometheus", "--json"]).status.code(), Some(2));
    d.stop();
}
