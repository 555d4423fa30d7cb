//! `weir measure` by the control channel alone, on `weir dut`: its SNMP agent, and what is said of agents
//! that don't answer. No root, no ports.

mod dut_device;
mod run_daemon;

use dut_device::device;
use run_daemon::weir;
use std::net::UdpSocket;
use std::process::{Child, Output, Stdio};

/// A device that runs, with an agent.
struct Device {
    child: Child,
    at: String,
    agent: String,
}

impl Device {
    fn start(profile: &str) -> Self {
        let free = UdpSocket::bind("127.0.0.1:0").unwrap();
        let agent = free.local_addr().unwrap().to_string();
        drop(free);
        let (child, at) = device(profile, &["--snmp", &agent]);
        Self { child, at: format!("tcp:{at}"), agent }
    }
}

impl Drop for Device {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn echo(switch: &str, more: &[&str]) -> Output {
    let args = ["measure", "run", "echo", "--switch", switch, "--quick", "--set", "requests=20"];
    weir().args(args).args(more).output().unwrap()
}

#[test]
fn the_agent_of_a_switch_is_asked() {
    let d = Device::start("honest");
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("agent.toml");
    std::fs::write(&file, format!("address = '{}'\ncommunity = 'hidden'", d.agent)).unwrap();
    for agent in [d.agent.as_str(), file.to_str().unwrap()] {
        let done = echo(&d.at, &["--json", "--snmp", agent, "--set", "rate=8"]);
        let said = String::from_utf8_lossy(&done.stderr);
        assert!(done.status.success(), "{said}");
        let text = String::from_utf8(done.stdout).unwrap();
        assert!(!text.contains("hidden"), "a secret is nobody's business: {text}");
        let found: serde_json::Value = serde_json::from_str(&text).unwrap();
        let all = found["distributions"].as_array().unwrap();
        let cpu = all.iter().find(|d| d["id"] == "device-cpu").unwrap();
        assert!(cpu["count"].as_u64().unwrap() > 0, "{cpu}");
        let notes = found["notes"].to_string();
        assert!(notes.contains("by SNMP from 127.0.0.1") && notes.contains("all cores"), "{notes}");
    }
}

/// What was measured is printed all the same, and what was there before is as it was.
#[test]
fn a_result_that_can_not_be_written_is_not_lost() {
    let d = Device::start("honest");
    let dir = tempfile::tempdir().unwrap();
    let out = dir.path().join("results");
    let measured = |json: &[&str]| {
        let mut c = weir();
        c.args(["measure", "run", "echo", "--switch", &d.at, "--name", "mine", "--out"]);
        c.arg(&out).args(["--set", "requests=100", "--set", "rate=50"]).args(json);
        let running = c.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        std::thread::sleep(std::time::Duration::from_millis(800));
        // No disk of a test is full; a directory that is gone has no room either.
        std::fs::remove_dir_all(&out).unwrap();
        running.wait_with_output().unwrap()
    };
    for json in [&[][..], &["--json"]] {
        let done = measured(json);
        let said = String::from_utf8_lossy(&done.stderr);
        assert_eq!(done.status.code(), Some(1), "{said}");
        assert!(said.contains("the result could not be saved: "), "{said}");
        let printed = String::from_utf8_lossy(&done.stdout);
        assert!(printed.contains("echo-repeats") || printed.contains("✓"), "{printed}");
    }
}

/// Files are called after their device, and nobody else's is written over.
#[test]
fn results_of_two_devices_stand_side_by_side() {
    let d = Device::start("honest");
    let dir = tempfile::tempdir().unwrap();
    let measured = |name: &str| {
        let out = dir.path().to_str().unwrap();
        let done = echo(&d.at, &["--name", name, "--out", out]);
        assert!(done.status.success(), "{}", String::from_utf8_lossy(&done.stderr));
    };
    // The last two have one name in files.
    for name in ["a", "b", "a", "b c", "b-c"] {
        measured(name);
    }
    let all = std::fs::read_dir(dir.path()).unwrap();
    let mut names: Vec<_> = all.map(|e| e.unwrap().file_name().into_string().unwrap()).collect();
    names.retain(|n| n.ends_with(".json"));
    names.sort();
    assert_eq!(names, ["echo-a.json", "echo-b-c-2.json", "echo-b-c.json", "echo-b.json"]);
}

/// A disk without room, above all for what is written at the very end.
#[test]
fn a_conversation_that_is_not_saved_is_told() {
    let d = Device::start("honest");
    let done = echo(&d.at, &["--pcap", "/dev/full", "--json"]);
    let text = String::from_utf8_lossy(&done.stdout);
    assert!(text.contains("The conversation could not be saved: "), "{text}");
}

/// A terminal that goes is one more interruption; under 'nohup' it is none.
#[test]
fn a_hangup_ends_it_as_an_interruption_does_unless_it_is_ignored() {
    let d = Device::start("honest");
    // Whoever runs the tests may ignore it himself.
    let measured = |hangup: &str| {
        let mut c = std::process::Command::new("env");
        c.args([&format!("--{hangup}-signal=HUP"), env!("CARGO_BIN_EXE_weir")]);
        c.args(["measure", "run", "echo", "--switch", &d.at, "--json"]);
        c.args(["--set", "requests=150", "--set", "rate=50"]);
        let running = c.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        std::thread::sleep(std::time::Duration::from_millis(1500));
        let pid = running.id().to_string();
        assert!(
            std::process::Command::new("kill").args(["-HUP", &pid]).status().unwrap().success()
        );
        running.wait_with_output().unwrap()
    };
    let done = measured("default");
    let said = String::from_utf8_lossy(&done.stderr);
    assert!(done.status.code() == Some(1) && said.contains("interrupted"), "{said}");
    assert!(String::from_utf8_lossy(&done.stdout).contains("\"partial\":\"interrupted\""));
    let done = measured("ignore");
    assert!(done.status.success(), "{}", String::from_utf8_lossy(&done.stderr));
}

#[test]
fn agents_that_can_not_be_asked_are_told_in_a_line() {
    let d = Device::start("silent");
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("agent.toml");
    std::fs::write(
        &file,
        "address = 'x'\nuser = 'u'\nauth = { protocol = 'sha1', password = 12345678 }",
    )
    .unwrap();
    let file = file.to_str().unwrap();
    for (agent, code, says) in [
        ("127.0.0.1:1", 1, "does not answer (3 tries"),
        ("hidden@127.0.0.1", 2, "doesn't belong on the command line"),
        ("nowhere.toml", 2, "No such file"),
        (file, 2, "line 3: a value of another type"),
    ] {
        let done = echo(&d.at, &["--snmp", agent]);
        let said = String::from_utf8_lossy(&done.stderr);
        assert_eq!(done.status.code(), Some(code), "{agent}: {said}");
        assert!(said.contains(says) && said.lines().count() == 1, "{agent}: {said}");
        assert!(!said.contains("hidden") && !said.contains("12345678"), "{said}");
    }
}

/// As for everything else that was asked for: said, and no success. What was measured is printed.
#[test]
fn a_conversation_that_can_not_be_saved_is_no_success() {
    let d = Device::start("honest");
    let done = echo(&d.at, &["--pcap", "/dev/full"]);
    let said = String::from_utf8_lossy(&done.stderr);
    assert_eq!(done.status.code(), Some(1), "{said}");
    let line = said.lines().last().unwrap_or_default();
    assert!(line.contains("--pcap: the conversation is not saved whole: /dev/full: "), "{said}");
    assert!(String::from_utf8_lossy(&done.stdout).contains("echo replies repeat"));
}
