//! Switches, ports and machines that are not as they should be: each ends `weir measure` in one clear line and in
//! time; what was found until then is kept and marked.

mod run_daemon;

use run_daemon::{LIMIT, has, is_root, skipped, weir};
use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpListener;
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};

/// One line on standard error, the exit status, and not for ever.
fn told(done: &Output, code: i32, says: &str) {
    let said = String::from_utf8_lossy(&done.stderr);
    assert_eq!(done.status.code(), Some(code), "{says}: {said}");
    assert!(said.contains(says) && said.lines().count() == 1, "{says}: {said}");
}

fn partial(done: &Output) -> String {
    let found: serde_json::Value = serde_json::from_slice(&done.stdout).unwrap();
    found["partial"].as_str().unwrap().to_owned()
}

/// A device that runs.
struct Device(Child, String);

impl Device {
    /// `dut` with these arguments, perhaps by another program that enters a namespace.
    fn start(mut command: Command, arguments: &[&str]) -> Self {
        let mut child =
            command.args(arguments).stdout(Stdio::piped()).stderr(Stdio::null()).spawn().unwrap();
        let said = BufReader::new(child.stdout.take().unwrap());
        let mut lines = said.lines().map_while(Result::ok);
        let line = lines.find_map(|l| Some(l.strip_prefix("listening at ")?.to_owned())).unwrap();
        let at = format!("tcp:{}", line.split(';').next().unwrap());
        Self(child, at)
    }

    /// Without ports, with that text for its profile.
    fn of(profile: &str) -> Self {
        let file = tempfile::Builder::new().suffix(".toml").tempfile().unwrap();
        std::fs::write(file.path(), profile).unwrap();
        let path = file.path().to_str().unwrap().to_owned();
        Self::start(weir(), &["dut", "--profile", &path, "--listen", "127.0.0.1:0"])
    }
}

impl Drop for Device {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn echo(switch: &str, more: &[&str]) -> Output {
    let args = ["measure", "run", "echo", "--switch", switch, "--patience", "1", "--json"];
    weir().args(args).args(more).output().unwrap()
}

const ABOUT: &str = "name = 'bad'\nabout = 'of a test'\n[connection]\n";

#[test]
fn switches_that_talk_badly() {
    for (profile, says) in [
        ("speaks = 'nothing'", "does not greet"),
        ("speaks = 'only14'", "no common version"),
        ("close_after_messages = 2", "the control connection: "),
    ] {
        let d = Device::of(&format!("{ABOUT}{profile}"));
        told(&echo(&d.1, &[]), 1, says);
    }
}

/// Before anything is opened, printed or made.
#[test]
fn arguments_that_can_not_be() {
    for (args, says) in [
        (&["run", "echo"][..], "no switch to measure"),
        (&["suite"], "no switch to measure"),
        (&["run", "echo", "--switch", "there"], "give tcp:HOST:PORT or tls:HOST:PORT"),
        (&["run", "counters", "--switch", "tcp:127.0.0.1:1"], "counters needs 2 interfaces"),
        (&["suite", "--switch", "tcp:127.0.0.1:1"], "needs 2 interfaces"),
        (&["run", "echo", "--lab", "ovs", "--traffic", "times = 'x'"], "line 1: unknown variant"),
        (
            &["run", "flow-insert", "--switch", "tcp:127.0.0.1:1", "--ports", "a0,xdp:a0"],
            "--ports: 'a0' is there twice",
        ),
        (&["run", "timestamps", "--ports", "a0,a0"], "--ports: 'a0' is there twice"),
        (&["run", "echo", "--lab", "ovs", "--wire", "a0,a0"], "--wire: 'a0' is there twice"),
    ] {
        let done = weir().arg("measure").args(args).output().unwrap();
        told(&done, 2, says);
        assert!(done.stdout.is_empty(), "{args:?}: {}", String::from_utf8_lossy(&done.stdout));
    }
}

/// Before anything is opened, let alone measured.
#[test]
fn traffic_and_generators_that_can_not_be() {
    let run = |module: &str, more: &[&str]| {
        let args = ["measure", "run", module, "--switch", "tcp:127.0.0.1:1", "--quick"];
        weir().args(args).args(more).output().unwrap()
    };
    for (module, traffic, says) in [
        (
            "counters",
            "sizes = \"imix\"",
            "counters's loads a description may change times: leave out 'sizes'",
        ),
        ("actions", "[[vary]]\nfield = \"ttl\"\nfrom = 1", "times, sizes: leave out 'vary'"),
    ] {
        told(&run(module, &["--traffic", traffic]), 2, says);
    }
    if std::path::Path::new("/proc/net/pktgen").exists() {
        return skipped("traffic_and_generators_that_can_not_be", "this kernel has pktgen");
    }
    let done = run("rfc2544", &["--ports", "pktgen:lo,pktgen:lo0"]);
    told(&done, 2, "modprobe pktgen");
}

/// What was measured before it went is kept.
#[test]
fn a_switch_that_closes_in_the_middle() {
    let d = Device::of(&format!("{ABOUT}close_after_us = 1500000"));
    let done = echo(&d.1, &["--set", "requests=1000", "--set", "rate=50"]);
    told(&done, 1, "results are partial: the control connection is lost");
    assert!(partial(&done).contains("the control connection is lost"), "{}", partial(&done));
    let found: serde_json::Value = serde_json::from_slice(&done.stdout).unwrap();
    let count = found["distributions"][0]["count"].as_u64().unwrap();
    assert!((1..1000).contains(&count), "{count}");
}

/// Bytes that are no message among those that are.
#[test]
fn a_switch_that_talks_garbage() {
    let d = Device::of(&format!("{ABOUT}garbage_every = 1"));
    let done = echo(&d.1, &[]);
    let said = String::from_utf8_lossy(&done.stderr);
    assert!(done.status.code() == Some(1) && said.lines().count() == 1, "{said}");
    println!("{said}");
}

#[test]
fn a_switch_that_answers_everything_with_an_error() {
    let l = TcpListener::bind("127.0.0.1:0").unwrap();
    let at = format!("tcp:{}", l.local_addr().unwrap());
    let switch = std::thread::spawn(move || {
        let (mut s, _) = l.accept().unwrap();
        s.write_all(&[4, 0, 0, 8, 0, 0, 0, 1]).unwrap();
        let mut header = [0; 8];
        while s.read_exact(&mut header).is_ok() {
            let rest = usize::from(u16::from_be_bytes([header[2], header[3]])) - 8;
            if s.read_exact(&mut vec![0; rest]).is_err() {
                break;
            }
            if header[1] != 0 {
                // OFPT_ERROR: OFPET_BAD_REQUEST, OFPBRC_EPERM.
                let mut error = vec![4, 1, 0, 12];
                error.extend(&header[4..]);
                error.extend([0, 1, 0, 5]);
                // The other side may have gone at the first of them.
                if s.write_all(&error).is_err() {
                    break;
                }
            }
        }
    });
    told(&echo(&at, &[]), 1, "the switch answers a features request with");
    switch.join().unwrap();
}

/// The tester is a controller: it says in a line what it could not read, and answers nothing.
#[test]
fn a_switch_whose_answers_can_not_be_read() {
    let l = TcpListener::bind("127.0.0.1:0").unwrap();
    let at = format!("tcp:{}", l.local_addr().unwrap());
    let switch = std::thread::spawn(move || {
        let (mut s, _) = l.accept().unwrap();
        s.write_all(&[4, 0, 0, 8, 0, 0, 0, 1]).unwrap();
        let (mut header, mut said) = ([0; 8], Vec::new());
        while s.read_exact(&mut header).is_ok() {
            let rest = usize::from(u16::from_be_bytes([header[2], header[3]])) - 8;
            s.read_exact(&mut vec![0; rest]).unwrap();
            said.push(header[1]);
            // OFPT_FEATURES_REQUEST by a reply that ends after its datapath's id.
            if header[1] == 5 {
                let mut reply = vec![4, 6, 0, 16];
                reply.extend(&header[4..]);
                reply.extend([0, 0, 0, 0, 0, 0, 0, 7]);
                s.write_all(&reply).unwrap();
            }
        }
        said
    });
    let says = "answers a features request with a message of type 6 that is not OpenFlow 1.3";
    told(&echo(&at, &[]), 1, says);
    let said = switch.join().unwrap();
    assert!(said.contains(&5) && !said.contains(&1), "an error to a reply: {said:?}");
}

/// Where the switch is waited for, anybody may come: a scan of ports, a browser.
#[test]
fn whoever_is_no_switch_is_passed_over() {
    let free = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = free.local_addr().unwrap().port();
    drop(free);
    let at = format!("ptcp:{port}:127.0.0.1");
    let strangers = move || {
        let until = Instant::now() + LIMIT;
        let knock = || loop {
            match std::net::TcpStream::connect(("127.0.0.1", port)) {
                Ok(s) => return s,
                Err(e) => assert!(Instant::now() < until, "{e}"),
            }
            std::thread::sleep(Duration::from_millis(10));
        };
        drop(knock());
        let mut browser = knock();
        browser.write_all(b"GET / HTTP/1.0\r\n\r\n").unwrap();
        let _ = std::io::copy(&mut browser, &mut std::io::sink());
    };
    let knocking = std::thread::spawn(strangers);
    let args = ["measure", "run", "echo", "--switch", &at, "--patience", "20", "--json"];
    let mut c = weir();
    c.args(args).args(["--set", "requests=20", "--set", "rate=100"]);
    let running = c.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    knocking.join().unwrap();
    let dut = ["dut", "--controller", &format!("127.0.0.1:{port}")];
    let mut switch = weir().args(dut).stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
    let done = running.wait_with_output().unwrap();
    switch.kill().unwrap();
    switch.wait().unwrap();
    assert!(done.status.success(), "{}", String::from_utf8_lossy(&done.stderr));
    let found: serde_json::Value = serde_json::from_slice(&done.stdout).unwrap();
    let notes = found["notes"].to_string();
    assert!(notes.contains("that is no switch, and was passed over"), "{notes}");
    // And if no switch comes at all, the last who did is told of.
    let knocking = std::thread::spawn(strangers);
    let done = echo(&at, &[]);
    knocking.join().unwrap();
    told(&done, 1, "the last that connected was none: ");
}

/// The tester's and the device's ends of three wires in one namespace, the third not the device's.
struct Wires(String);

impl Wires {
    fn new() -> Option<Self> {
        let name = format!("labbad{}", std::process::id());
        if !sh(&format!("ip netns add {name}")) {
            return None;
        }
        let wires = Self(name);
        let n = &wires.0;
        assert!(sh(&format!(
            "ip netns exec {n} sh -c 'echo 1 > /proc/sys/net/ipv6/conf/default/disable_ipv6';
             ip -n {n} link set lo up"
        )));
        for w in 1..=3 {
            assert!(sh(&format!(
                "ip -n {n} link add e{w} type veth peer name p{w} &&
                 ip -n {n} link set e{w} up && ip -n {n} link set p{w} up"
            )));
        }
        Some(wires)
    }

    fn inside(&self) -> Command {
        let mut c = Command::new("ip");
        c.args(["netns", "exec", &self.0, env!("CARGO_BIN_EXE_weir")]);
        c
    }

    fn link(&self, name: &str, state: &str) {
        assert!(sh(&format!("ip -n {} link set {name} {state}", self.0)));
    }

    fn measure(&self, at: &str, ports: &str, more: &[&str]) -> Command {
        let mut c = self.inside();
        c.args(["measure", "run", "flow-insert", "--switch", at, "--ports", ports]);
        c.args(["--patience", "3", "--json", "--quick"]).args(more);
        c
    }
}

impl Drop for Wires {
    fn drop(&mut self) {
        sh(&format!("ip netns del {}", self.0));
    }
}

fn sh(command: &str) -> bool {
    let mut c = Command::new("sh");
    c.args(["-c", command]).stdout(Stdio::null()).stderr(Stdio::null());
    c.status().unwrap().success()
}

#[test]
fn ports_that_are_not_as_they_should_be() {
    let test = "ports_that_are_not_as_they_should_be";
    if !is_root() || !has("ip") {
        return skipped(test, "needs root and iproute2");
    }
    let Some(w) = Wires::new() else { return skipped(test, "no network namespaces here") };
    let dut = ["dut", "--listen", "127.0.0.1:0", "--ports", "p1,p2"];
    let d = Device::start(w.inside(), &dut);
    let measure = |ports: &str, more: &[&str]| w.measure(&d.1, ports, more).output().unwrap();
    let begin = Instant::now();
    told(&measure("e1,e3", &[]), 1, "nothing that the switch sends arrives at 'e3'");
    told(&measure("e1,e2", &["--of-ports", "2,1"]), 1, "the ports are swapped or wrong");
    told(
        &measure("e1", &[]),
        2,
        "needs 2 interfaces that are wired to the switch, and 1 are given",
    );
    w.link("e2", "down");
    told(&measure("e1,e2", &[]), 2, "e2");
    w.link("e2", "up");
    // The device's end.
    w.link("p2", "down");
    let done = measure("e1,e2", &[]);
    let said = String::from_utf8_lossy(&done.stderr);
    assert!(!done.status.success() && said.contains("e2") && said.lines().count() == 1, "{said}");
    assert!(begin.elapsed() < LIMIT, "not for ever");
    w.link("p2", "up");
    drop(d);

    // The wire goes while it is measured: what there was is kept.
    let d = Device::start(w.inside(), &dut);
    let more = ["--set", "entries=10", "--set", "repetitions=100000"];
    let mut c = w.measure(&d.1, "e1,e2", &more);
    let running = c.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    std::thread::sleep(Duration::from_secs(4));
    w.link("p2", "down");
    let done = running.wait_with_output().unwrap();
    told(&done, 1, "results are partial: port 'e2'");
    let found: serde_json::Value = serde_json::from_slice(&done.stdout).unwrap();
    assert!(partial(&done).contains("'e2'"), "{found:#}");
    assert!(found["tables"][0]["rows"][0][1].as_f64().unwrap() > 1.0, "{found:#}");
}

#[test]
fn without_rights() {
    if !is_root() || !has("setpriv") {
        return skipped("without_rights", "needs root to give rights up, and setpriv");
    }
    let mut c = Command::new("setpriv");
    c.args(["--reuid", "65534", "--regid", "65534", "--clear-groups"]);
    c.arg(env!("CARGO_BIN_EXE_weir"));
    let args =
        ["measure", "run", "flow-insert", "--switch", "tcp:127.0.0.1:1", "--ports", "lo,lo0"];
    let done = c.args(args).output().unwrap();
    if done.status.code() == Some(127) || done.status.code() == Some(126) {
        return skipped("without_rights", "nobody may not run the program from where it is built");
    }
    told(&done, 2, "CAP_NET_");
}
