//! The control socket: who may speak, and what happens to whoever speaks badly.

mod run_daemon;

use proptest::prelude::*;
use run_daemon::{Daemon, has, is_root, skipped, weir};
use std::io::{BufRead, BufReader, Read, Write};
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::{UnixListener, UnixStream};
use std::process::Command;
use weir_io::capture_file::{Format, Writer};
use weir_packet::Nanos;

const NOTHING: &str = "[[port]]\nname = 'a'\ndevice = 'null'\n";

/// Sends bytes, says that there will be no more, and returns the answer's lines.
fn say(d: &Daemon, bytes: &[u8]) -> Vec<String> {
    let mut s = UnixStream::connect(d.socket()).unwrap();
    // A server that refuses may have closed before all was sent.
    let _ = s.write_all(bytes);
    let _ = s.shutdown(std::net::Shutdown::Write);
    BufReader::new(s).lines().map_while(Result::ok).collect()
}

/// A capture that runs, of what `of` says, into a file.
fn capturing(d: &Daemon, of: &[&str], file: &std::path::Path) -> std::process::Child {
    let mut c = weir();
    c.arg("capture").args(of).arg("--socket").arg(d.socket()).arg("-w").arg(file);
    c.stderr(std::process::Stdio::piped()).spawn().unwrap()
}

#[test]
fn any_bytes_are_answered_or_ignored() {
    let d = Daemon::start(NOTHING, &[]);
    for (bytes, expected) in [
        (&b"\n"[..], "not a request"),
        (b"{}\n", "not a request: missing field `do`"),
        (b"{\"do\":\"dance\"}\n", "unknown variant `dance`"),
        (b"{\"do\":\"stats\",\"x\":1}\n", "unknown field `x`"),
        (b"{\"do\":\"vdp-delete\",\"vdp\":7}\n", "expected a string"),
        (b"\xff\xfe\x00\n", "not a request"),
        (b"[[[[[[[[[[[[[[[[[[[[\n", "not a request"),
    ] {
        let lines = say(&d, bytes);
        assert_eq!(lines.len(), 1, "{lines:?}");
        assert!(
            lines[0].contains("\"fault\":\"input\"") && lines[0].contains(expected),
            "{lines:?}"
        );
    }
    // Nesting, and a line without an end.
    let deep = [vec![b'['; 1 << 20], b"\n".to_vec()].concat();
    assert!(say(&d, &deep)[0].contains("not a request"));
    let endless = say(&d, &vec![b' '; 5 << 20]);
    assert!(endless.iter().all(|l| l.contains("a request of more than")), "{endless:?}");
    // Half a request is none.
    assert_eq!(say(&d, b"{\"do\":\"stats\"}"), Vec::<String>::new());
    // Several requests in one breath are answered one after the other.
    let lines = say(&d, b"{\"do\":\"stats\"}\n{\"do\":\"dance\"}\n{\"do\":\"stats\"}\n");
    let ends = |l: &&String| l.starts_with("{\"ok\"") || l.starts_with("{\"error\"");
    assert_eq!(lines.iter().filter(ends).count(), 3, "{lines:?}");
    d.stop();
}

#[test]
fn noise_leaves_the_data_plane_as_it_was() {
    let d = Daemon::start(NOTHING, &[]);
    let word = prop_oneof![
        Just("{\"do\":\"".to_owned()),
        Just("show\"".to_owned()),
        Just("vdp-create\",\"toml\":\"[[vdp]]\\nvid=".to_owned()),
        Just("\"}".to_owned()),
        Just("\n".to_owned()),
        Just(",\"vdp\":\"".to_owned()),
        "\\PC{0,20}",
    ];
    let mut runner = proptest::test_runner::TestRunner::new(ProptestConfig::with_cases(200));
    runner
        .run(&prop::collection::vec(word, 0..12), |words| {
            for line in say(&d, words.concat().as_bytes()) {
                prop_assert!(serde_json::from_str::<serde_json::Value>(&line).is_ok(), "{line}");
            }
            Ok(())
        })
        .unwrap();
    assert_eq!(d.json(&["stats"])["ports"][0]["name"], "a");
    d.stop();
}

#[test]
fn clients_are_bounded_and_one_that_is_silent_disturbs_nobody() {
    let d = Daemon::start(NOTHING, &[]);
    let mut silent: Vec<UnixStream> =
        (0..16).map(|_| UnixStream::connect(d.socket()).unwrap()).collect();
    d.until("the seventeenth is refused", |d| {
        let o = d.client(&["stats"]);
        let error = String::from_utf8_lossy(&o.stderr).into_owned();
        o.status.code() == Some(1) && error.contains("too many clients")
    });
    silent.pop();
    d.until("a place is free again", |d| d.client(&["stats"]).status.success());
    // Stopping does not wait for those that say nothing.
    d.stop();
    let mut byte = [0];
    assert_eq!(silent[0].read(&mut byte).unwrap_or(0), 0);
}

#[test]
fn the_socket_is_its_owners() {
    let d = Daemon::start(NOTHING, &[]);
    let mode = |p| std::fs::metadata(p).unwrap().permissions().mode() & 0o777;
    assert_eq!(mode(d.socket()), 0o600);
    // A second data plane can't take its place.
    let o =
        weir().args(["run", "--socket"]).arg(d.socket()).arg(d.path("t.toml")).output().unwrap();
    let error = String::from_utf8(o.stderr).unwrap();
    assert!(o.status.code() == Some(1) && error.contains("another 'weir run' serves"), "{error}");
    assert_eq!(d.json(&["stats"])["ports"][0]["name"], "a");
    let test = "the_socket_is_its_owners (another user)";
    if !is_root() || !has("setpriv") || !has("/usr/bin/python3") {
        skipped(test, "needs root, setpriv and /usr/bin/python3");
    } else {
        // Even where the file's mode lets somebody else in.
        for (path, mode) in [(d.dir.path().to_owned(), 0o755), (d.socket(), 0o666)] {
            std::fs::set_permissions(path, PermissionsExt::from_mode(mode)).unwrap();
        }
        let script = "import socket,sys\ns=socket.socket(socket.AF_UNIX)\ns.connect(sys.argv[1])\n\
                      print(s.makefile().readline())";
        let o = Command::new("setpriv")
            .args([
                "--reuid=65534",
                "--regid=65534",
                "--clear-groups",
                "/usr/bin/python3",
                "-c",
                script,
            ])
            .arg(d.socket())
            .output()
            .unwrap();
        let said = String::from_utf8_lossy(&o.stdout).into_owned();
        assert!(said.contains("its owner's"), "{said}{}", String::from_utf8_lossy(&o.stderr));
    }
    d.stop();
}

/// Whoever has taken the file away, or its place: the data plane ends when it is told to, and leaves what is another's.
#[test]
fn a_data_plane_whose_socket_has_gone_ends() {
    let mut first = Daemon::start(NOTHING, &[]);
    let socket = first.socket();
    std::fs::remove_file(&socket).unwrap();
    let other = UnixListener::bind(&socket).unwrap();
    first.signal(rustix::process::Signal::TERM);
    assert!(first.end().success() && socket.exists());
    drop(other);
    let second = Daemon::start(NOTHING, &[]);
    std::fs::remove_file(second.socket()).unwrap();
    second.stop();
}

#[test]
fn two_vdps_have_two_names() {
    let d = Daemon::start(NOTHING, &[]);
    for (vid, name) in [("1", "one"), ("2", "two")] {
        d.ask(&["vdp", "create", vid, "--name", name]);
    }
    let error = d.refused(&["vdp", "set", "two", "--name", "one"]);
    assert!(error.contains("VDP 1 is called 'one' already"), "{error}");
    d.ask(&["vdp", "set", "two", "--name", "second"]);
    assert_eq!(d.json(&["show", "--vdp", "one"])["vdps"][0]["vid"], 1);
    d.stop();
}

#[test]
fn a_socket_left_behind_is_taken_over() {
    let mut d = Daemon::start(NOTHING, &[]);
    d.signal(rustix::process::Signal::KILL);
    assert!(!d.end().success());
    assert!(d.socket().exists());
    let mut again = weir();
    again.args(["run", "--until-done", "--socket"]).arg(d.socket()).arg(d.path("t.toml"));
    let o = again.output().unwrap();
    assert!(o.status.success(), "{}", String::from_utf8_lossy(&o.stderr));
}

#[test]
fn ctrl_c_ends_a_capture_with_a_whole_file() {
    if !has("tshark") {
        return skipped("ctrl_c_ends_a_capture_with_a_whole_file", "no tshark");
    }
    let pcap = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../../testdata/real.pcap");
    let config = format!(
        "[[port]]\nname = 'in'\ndevice = 'replay:{}'\n",
        pcap.canonicalize().unwrap().display()
    );
    let d = Daemon::start(&config, &[]);
    let file = d.path("c.pcapng");
    let child = capturing(&d, &["--port", "in"], &file);
    d.until("some frames", |_| std::fs::metadata(&file).is_ok_and(|m| m.len() > 1 << 20));
    let pid = rustix::process::Pid::from_raw(child.id().cast_signed()).unwrap();
    rustix::process::kill_process(pid, rustix::process::Signal::INT).unwrap();
    let o = child.wait_with_output().unwrap();
    let said = String::from_utf8(o.stderr).unwrap();
    assert!(o.status.success(), "{said}");
    let frames = run_daemon::tshark(&file, &["frame.number"]).len();
    assert!(said.contains(&format!("{frames} frames, ")), "{said}, but {frames} in the file");
    d.stop();
}

/// Frames that come one by one, without a pause and few: what has come is written, and Ctrl-C is heard.
#[test]
fn a_capture_of_few_frames_is_written_as_they_come() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("rare.pcap");
    let mut w = Writer::new(std::fs::File::create(&path).unwrap(), Format::Pcap, 0).unwrap();
    for n in 0..1000u16 {
        let rare = u8::from(n == 7);
        let f = [&[2, 0, 0, 0, 0, rare, 2, 0, 0, 0, 1, 1, 8, 6][..], &[0; 46]].concat();
        w.write(0, Nanos(u64::from(n)), None, &f).unwrap();
    }
    let d = Daemon::start(
        &format!("[[port]]\nname = 'in'\ndevice = 'replay:{}'\n", path.display()),
        &[],
    );
    let file = d.path("c.pcapng");
    let of_one = ["--stage", "receive", "--filter", "dl_dst=02:00:00:00:00:01"];
    let child = capturing(&d, &of_one, &file);
    let size = || std::fs::metadata(&file).map_or(0, |m| m.len());
    // More than the file's header, which is written before the first frame.
    d.until("some frames", |_| size() > 200);
    let first = size();
    assert!(first < 256 << 10, "nothing was written before {first} bytes had come");
    let pid = rustix::process::Pid::from_raw(child.id().cast_signed()).unwrap();
    rustix::process::kill_process(pid, rustix::process::Signal::INT).unwrap();
    let o = child.wait_with_output().unwrap();
    assert!(o.status.success(), "{}", String::from_utf8_lossy(&o.stderr));
    d.stop();
}

/// What can't be captured is refused, with what can.
#[test]
fn no_vdps_frames_are_captured_at_reception() {
    let d = Daemon::start(NOTHING, &[]);
    let said = d.refused(&["capture", "--stage", "receive", "--vdp", "0", "-w", "/dev/null"]);
    assert!(said.contains("say 'mapping'"), "{said}");
    d.stop();
}

/// A client that does not read loses its capture, and hears of it when it reads again.
#[test]
fn a_capture_that_is_not_read_says_why_it_ended() {
    let pcap = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../../testdata/real.pcap");
    let config = format!(
        "[[port]]\nname = 'in'\ndevice = 'replay:{}'\n",
        pcap.canonicalize().unwrap().display()
    );
    let d = Daemon::start(&config, &[]);
    let mut s = UnixStream::connect(d.socket()).unwrap();
    s.write_all(b"{\"do\":\"capture\"}\n").unwrap();
    let mut lines = BufReader::new(s).lines();
    let mut frames = 0;
    let last = loop {
        // As many as it takes until the server has lost its patience.
        if frames % 100_000 == 0 {
            std::thread::sleep(std::time::Duration::from_secs(7));
        }
        let line = lines.next().expect("the capture's end").unwrap();
        match line.starts_with("{\"item\":{\"frame\"") {
            true => frames += 1,
            false if line.starts_with("{\"item\"") => {}
            false => break line,
        }
    };
    assert!(last.contains("was not read for 5 s"), "{last}");
    assert!(last.contains(&format!(": {frames} frames captured, ")), "{frames}: {last}");
    d.stop();
}

const TENANTS: &str = r#"
port = [
    { name = 'a', device = 'null' }, { name = 'b', device = 'null' },
    { name = 'c', device = 'null' }, { name = 'trunk', device = 'null' },
]

[[vdp]]
vid = 1
name = 'red'
ports = ['a', 'trunk']
mapping = ['in_port=a', 'in_port=trunk,dl_vlan=10']
group = [{ id = 1, type = 'all', bucket = [{ actions = 'push_vlan:0x8100,set_field:4106->vlan_vid,output:trunk' }] }]
rule = [
    { match = 'in_port=a', actions = 'group:1' },
    { match = 'in_port=trunk,dl_vlan=10', actions = 'strip_vlan,output:a' },
]

[[vdp]]
vid = 2
name = 'blue'
ports = ['b', 'trunk']
mapping = ['in_port=b', 'in_port=trunk,dl_vlan=20']
program = 'learning'
default = 'channel'
rule = [{ match = 'in_port=b', actions = 'mod_vlan_vid:20,output:trunk' }]

[[vdp]]
vid = 3
name = 'violet'
ports = ['c']
mapping = ['in_port=c']
default = 'flood'
"#;

#[test]
fn isolation_is_proved_and_a_leak_is_told_with_its_frame() {
    let d = Daemon::start(TENANTS, &[]);
    let text = d.ask(&["net", "verify"]);
    assert!(text.starts_with("isolated: 3 networks, 3 VDPs, 8 rules; "), "{text}");

    // Red tags for blue.
    let leak =
        "priority=40000,in_port=1,ip,nw_dst=10.0.0.7,actions=dec_ttl,mod_vlan_vid:20,output:trunk";
    d.ask(&["vdp", "rule", "add", "red", leak]);
    let o = d.client(&["net", "verify", "--json"]);
    assert_eq!(o.status.code(), Some(1), "{o:?}");
    let v: serde_json::Value = serde_json::from_slice(&o.stdout).unwrap();
    let leaks = v["result"]["leaks"].as_array().unwrap();
    assert_eq!(leaks.len(), 1, "{v}");
    let l = &leaks[0];
    assert_eq!((&l["from"], &l["to"]), (&"red".into(), &"blue".into()), "{l}");
    assert_eq!((&l["reaches"], &l["in_port"]), (&"port trunk".into(), &"a".into()), "{l}");
    assert!(l["by"].as_str().unwrap().contains("nw_dst=10.0.0.7"), "{l}");
    assert_eq!(l["traced"], true, "{l}");
    // The same by a data plane made of the file and that rule, in memory.
    let rule = "[[vdp.rule]]\npriority = 40000\nmatch = 'in_port=1,ip,nw_dst=10.0.0.7'\n\
                actions = 'dec_ttl,mod_vlan_vid:20,output:trunk'\n\n[[vdp]]\nvid = 2";
    let file = d.path("leak.toml");
    let inline = "rule = [\n    { match = 'in_port=a', actions = 'group:1' },\n    \
                  { match = 'in_port=trunk,dl_vlan=10', actions = 'strip_vlan,output:a' },\n]";
    let as_tables = TENANTS.replacen(inline, "", 1).replacen("[[vdp]]\nvid = 2", rule, 1);
    std::fs::write(&file, as_tables).unwrap();
    let mut c = weir();
    c.arg("trace").arg(&file).args(["--in-port", "a", "--json", "--frame"]);
    let o = c.arg(l["frame"].as_str().unwrap()).output().unwrap();
    let told = String::from_utf8(o.stdout).unwrap();
    assert!(told.contains(r#""step":"output","port":"trunk""#), "{told}");

    // One network of both has no leak; nor has red without the rule.
    let grouped = d.ask(&["net", "verify", "--network", "both=red,2"]);
    assert!(grouped.starts_with("isolated: 2 networks"), "{grouped}");
    d.ask(&["vdp", "rule", "del", "red", "priority=40000,in_port=1,ip,nw_dst=10.0.0.7"]);
    assert!(d.ask(&["net", "verify"]).starts_with("isolated"));

    // Without its rule, blue's program passes frames on to the trunk.
    d.ask(&["vdp", "rule", "del", "blue", "in_port=1"]);
    let o = d.client(&["net", "verify"]);
    let text = String::from_utf8(o.stdout).unwrap();
    assert!(text.contains("reach port trunk") && text.contains("default rule"), "{text}");

    assert!(d.refused(&["net", "verify", "--network", "x"]).contains("NAME=VDP"));
    assert!(d.refused(&["net", "verify", "--network", "x=9"]).contains("no VDP '9'"));
    let twice = d.refused(&["net", "verify", "--network", "x=1", "--network", "y=red"]);
    assert!(twice.contains("in network 'x' already"), "{twice}");
    d.stop();
    // Where nobody answers nothing was proved, which is not that it leaks.
    let dir = tempfile::tempdir().unwrap();
    let nobody = weir().args(["net", "verify", "--socket"]).arg(dir.path().join("s")).output();
    let nobody = nobody.unwrap();
    assert_eq!(nobody.status.code(), Some(2), "{nobody:?}");
    assert!(nobody.stdout.is_empty(), "{nobody:?}");
}

#[test]
fn a_memory_port_that_has_gone_takes_its_wire_along() {
    let d =
        Daemon::start("[dataplane]\nframes = 1024\n[[port]]\nname = 'a'\ndevice = 'null'\n", &[]);
    let resident_mib = || -> u64 {
        let status = std::fs::read_to_string(format!("/proc/{}/status", d.pid())).unwrap();
        let line = status.lines().find_map(|l| l.strip_prefix("VmRSS:")).unwrap();
        line.trim().trim_end_matches(" kB").parse::<u64>().unwrap() / 1024
    };
    let come_and_go = |n: u32| {
        d.ask(&["port", "add", "w", &format!("memory:w{n}")]);
        d.ask(&["port", "remove", "w"]);
    };
    come_and_go(0);
    let before = resident_mib();
    (1..30).for_each(come_and_go);
    // Each has three mebibytes of frames.
    let after = resident_mib();
    assert!(after < before + 30, "{before} MiB, then {after}");
}
