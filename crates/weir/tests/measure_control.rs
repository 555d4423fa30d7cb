//! `weir measure` by the control channel alone, on `weir dut`: its SNMP agent, and what is said of agents
//! that don't answer. No root, no ports.

mod run_daemon;

use run_daemon::weir;
use std::io::{BufRead, BufReader};
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
        let mut child = weir()
            .args(["dut", "--profile", profile, "--listen", "127.0.0.1:0", "--snmp", &agent])
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let said = BufReader::new(child.stdout.take().unwrap());
        let mut lines = said.lines().map_while(Result::ok);
        let line = lines.find_map(|l| Some(l.strip_prefix("listening at ")?.to_owned())).unwrap();
        let at = format!("tcp:{}", line.split(';').next().unwrap());
        Self { child, at, agent }
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
