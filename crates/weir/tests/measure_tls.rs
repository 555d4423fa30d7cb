//! `weir measure` by TLS: on a VDP of weir's, and on Open vSwitch (skipped, visibly, without); what is said
//! of certificates that don't verify. No root: Open vSwitch runs with its dummy data path.

mod certificates;
mod openflow_rig;
mod run_daemon;

use certificates::{Authority, Files};
use openflow_rig::{config, listening};
use run_daemon::{Daemon, LIMIT, has, skipped, weir};
use std::net::TcpListener;
use std::path::Path;
use std::process::{Child, Command, Output, Stdio};
use std::time::Instant;

fn command(switch: &str, own: &Files, more: &[&str]) -> Command {
    let mut c = weir();
    c.args(["measure", "run", "echo", "--switch", switch, "--quick", "--set", "requests=20"])
        .arg("--ca")
        .arg(&own.ca)
        .arg("--cert")
        .arg(&own.certificate)
        .arg("--key")
        .arg(&own.key)
        .args(more);
    c
}

fn echo(switch: &str, own: &Files, more: &[&str]) -> Output {
    command(switch, own, more).output().unwrap()
}

/// A measurement that waits for its switch at this port.
fn listens(port: u16, own: &Files, more: &[&str]) -> Child {
    let mut c = command(&format!("ptls:{port}:127.0.0.1"), own, more);
    let patience = LIMIT.as_secs().to_string();
    let child = c.args(["--patience", &patience]).stdout(Stdio::piped()).stderr(Stdio::piped());
    child.spawn().unwrap()
}

fn free_port() -> u16 {
    TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port()
}

fn measured(done: &Output) {
    let said = String::from_utf8_lossy(&done.stderr);
    assert!(done.status.success(), "{said}");
    let found: serde_json::Value = serde_json::from_slice(&done.stdout).unwrap();
    assert_eq!(found["distributions"][0]["count"], 20, "{found:#}");
    assert_eq!(found["verdicts"][0]["outcome"], "holds", "{found:#}");
}

fn refused(done: &Output, says: &str) {
    let said = String::from_utf8_lossy(&done.stderr);
    assert!(!done.status.success(), "{said}");
    assert!(said.contains(says) && said.lines().count() == 1, "{says}: {said}");
}

#[test]
fn a_vdp_is_measured_by_tls() {
    let (ca, dir) = (Authority::new(), tempfile::tempdir().unwrap());
    let own = ca.signs("tester.example").write(&ca, dir.path(), "tester");
    let switch = ca.signs("127.0.0.1");
    let files =
        [("switch.pem", &*switch.certificate), ("switch.key", &*switch.key), ("ca.pem", &*ca.pem)];
    let tls = "tls = { certificate = 'switch.pem', key = 'switch.key', ca = 'ca.pem' }";
    let text = config(&format!("listen = ['pssl:0', 'ptcp:0']\n{tls}"));
    let mut d = Daemon::spawn_with(&text, &[], &files);
    d.wait_for("running: ");
    let at = format!("tls:{}", listening(&d));
    let pcap = dir.path().join("talk.pcapng");
    measured(&echo(&at, &own, &["--json", "--pcap", pcap.to_str().unwrap()]));
    if has("tshark") {
        // What is saved is what was said, not what was encrypted.
        let filter = "openflow_v4.type == 2";
        let read =
            Command::new("tshark").args(["-r", pcap.to_str().unwrap(), "-Y", filter]).output();
        let lines = String::from_utf8_lossy(&read.unwrap().stdout).lines().count();
        assert_eq!(lines, 20, "echo requests");
    } else {
        eprintln!("SKIPPED: decoding needs tshark (package tshark)");
    }

    // Whoever the switch's certificate is not for, or whom nobody vouches for.
    refused(&echo(&at, &own, &["--peer-name", "other.example"]), "it is for another name");
    measured(&echo(&at, &own, &["--peer-name", "*", "--json"]));
    let strangers = Authority::new();
    let trusting = ca.signs("tester.example").write(&strangers, dir.path(), "trusting");
    refused(&echo(&at, &trusting, &[]), "the certificate does not verify: nobody in 'ca'");
    let stranger = strangers.signs("tester.example").write(&ca, dir.path(), "stranger");
    refused(&echo(&at, &stranger, &[]), "TLS failed: the other side refuses");
    d.stop();
}

/// A VDP whose controller is at that port.
fn connecting(port: u16, switch: &certificates::Identity, ca: &Authority) -> Daemon {
    let files =
        [("switch.pem", &*switch.certificate), ("switch.key", &*switch.key), ("ca.pem", &*ca.pem)];
    let tls = "tls = { certificate = 'switch.pem', key = 'switch.key', ca = 'ca.pem' }";
    let openflow = format!("controllers = ['ssl:127.0.0.1:{port}']\nbackoff_max_s = 1\n{tls}");
    let mut d = Daemon::spawn_with(&config(&openflow), &[], &files);
    d.wait_for("running: ");
    d
}

#[test]
fn a_vdp_that_connects_is_measured_by_tls() {
    let (ca, dir) = (Authority::new(), tempfile::tempdir().unwrap());
    let (port, switch) = (free_port(), ca.signs("switch.example"));
    let own = ca.signs("127.0.0.1").write(&ca, dir.path(), "tester");
    let d = connecting(port, &switch, &ca);
    measured(&listens(port, &own, &["--json"]).wait_with_output().unwrap());
    // One that nobody vouches for: it may try again and again, so whoever waits longest says why.
    let strangers = Authority::new();
    let own = ca.signs("127.0.0.1").write(&strangers, dir.path(), "trusting");
    let done = echo(&format!("ptls:{port}:127.0.0.1"), &own, &["--patience", "5"]);
    refused(&done, "TLS failed: the certificate does not verify");
    d.stop();
}

#[test]
fn what_is_no_tls_is_told_in_a_line() {
    let (ca, dir) = (Authority::new(), tempfile::tempdir().unwrap());
    let own = ca.signs("tester.example").write(&ca, dir.path(), "tester");
    let l = TcpListener::bind("127.0.0.1:0").unwrap();
    let at = format!("tls:{}", l.local_addr().unwrap());
    // One that speaks OpenFlow at once, one that says nothing.
    let switch = std::thread::spawn(move || {
        for greeting in [&b"\x04\x00\x00\x08\x00\x00\x00\x01"[..], b""] {
            let (mut s, _) = l.accept().unwrap();
            std::io::Write::write_all(&mut s, greeting).unwrap();
            let _ = std::io::copy(&mut s, &mut std::io::sink());
        }
    });
    refused(&echo(&at, &own, &[]), "TLS failed: what came is not TLS");
    // The handshake and the measurement itself have the same patience: either says so first.
    let done = echo(&at, &own, &["--patience", "1"]);
    let said = String::from_utf8_lossy(&done.stderr);
    assert!(said.contains("did not finish its handshake") || said.contains("within 1 s"), "{said}");
    refused(&done, "the switch");
    switch.join().unwrap();
    let without = ["measure", "run", "echo", "--switch", "tls:127.0.0.1:1", "--ca"];
    let done = weir().args(without).arg(&own.ca).output().unwrap();
    refused(&done, "TLS needs --ca, --cert and --key: --cert is missing");
    let swapped = Files { certificate: own.key.clone(), key: own.certificate, ca: own.ca };
    refused(&echo(&at, &swapped, &[]), "no certificate in PEM in it");
}

/// Open vSwitch in a directory of its own, listening with TLS.
struct Ovs {
    directory: tempfile::TempDir,
    children: Vec<Child>,
}

impl Ovs {
    fn command(directory: &Path, program: &str) -> Command {
        let mut c = Command::new(program);
        for name in ["OVS_RUNDIR", "OVS_LOGDIR", "OVS_DBDIR", "OVS_SYSCONFDIR"] {
            c.env(name, directory);
        }
        c.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        c
    }

    fn run(&self, program: &str, args: &[&str]) {
        assert!(
            Self::command(self.directory.path(), program).args(args).status().unwrap().success()
        );
    }

    /// `controller`: where it listens, or connects to.
    fn start(own: &Files, controller: &str) -> Self {
        let directory = tempfile::tempdir().unwrap();
        let d = directory.path().display().to_string();
        let mut ovs = Self { directory, children: Vec::new() };
        ovs.run(
            "ovsdb-tool",
            &["create", &format!("{d}/db"), "/usr/share/openvswitch/vswitch.ovsschema"],
        );
        let remote = format!("--remote=punix:{d}/s");
        let ssl = format!("--private-key={}", own.key.display());
        let mut c = Self::command(ovs.directory.path(), "ovsdb-server");
        ovs.children
            .push(c.args([&format!("{d}/db"), &remote, &ssl, "--no-chdir"]).spawn().unwrap());
        let until = Instant::now() + LIMIT;
        while !Path::new(&format!("{d}/s")).exists() {
            assert!(Instant::now() < until, "ovsdb-server");
            std::thread::sleep(std::time::Duration::from_millis(20));
        }
        let db = format!("unix:{d}/s");
        let mut c = Self::command(ovs.directory.path(), "ovs-vswitchd");
        ovs.children.push(c.args([&db, "--enable-dummy=override", "--no-chdir"]).spawn().unwrap());
        let file = |p: &Path| p.display().to_string();
        ovs.run("ovs-vsctl", &["--db", &db, "--no-wait", "init"]);
        ovs.run(
            "ovs-vsctl",
            &[
                "--timeout=30",
                "--db",
                &db,
                "--",
                "set-ssl",
                &file(&own.key),
                &file(&own.certificate),
                &file(&own.ca),
                "--",
                "add-br",
                "b",
                "--",
                "set",
                "bridge",
                "b",
                "datapath_type=dummy",
                "protocols=OpenFlow10,OpenFlow13",
                "--",
                "set-controller",
                "b",
                controller,
            ],
        );
        ovs
    }
}

impl Drop for Ovs {
    fn drop(&mut self) {
        for c in self.children.iter_mut().rev() {
            let _ = c.kill();
            let _ = c.wait();
        }
    }
}

#[test]
fn open_vswitch_is_measured_by_tls() {
    if !has("ovs-vswitchd") || !has("ovsdb-server") {
        return skipped("open_vswitch_is_measured_by_tls", "no Open vSwitch (openvswitch-switch)");
    }
    let (ca, dir) = (Authority::new(), tempfile::tempdir().unwrap());
    let port = free_port();
    let switch = ca.signs("switch.example").write(&ca, dir.path(), "switch");
    let own = ca.signs("tester.example").write(&ca, dir.path(), "tester");
    {
        let _ovs = Ovs::start(&switch, &format!("pssl:{port}:127.0.0.1"));
        let at = format!("tls:127.0.0.1:{port}");
        measured(&echo(&at, &own, &["--peer-name", "switch.example", "--json"]));
        refused(&echo(&at, &own, &[]), "it is for another name");
    }
    // And one that connects.
    let port = free_port();
    let waits = listens(port, &own, &["--json"]);
    let _ovs = Ovs::start(&switch, &format!("ssl:127.0.0.1:{port}"));
    measured(&waits.wait_with_output().unwrap());
}
