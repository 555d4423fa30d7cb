//! `weir dut` as it is used: `ovs-ofctl` as its controller, pings through its ports, its words.

mod dut_device;
mod run_daemon;

use dut_device::device;
use run_daemon::{LIMIT, has, is_root, skipped, weir};
use rustix::process::{Pid, Signal, kill_process};
use std::process::{Child, Command, Stdio};
use std::time::Instant;

/// A device that runs.
struct Device {
    child: Child,
    at: String,
}

impl Device {
    fn start(profile: &str, ports: &str) -> Self {
        let (child, at) = device(profile, &["--ports", ports]);
        Self { child, at }
    }
    fn ofctl(&self, version: &str, command: &str, more: &[&str]) -> Result<String, String> {
        let target = format!("tcp:{}", self.at);
        let mut c = Command::new("ovs-ofctl");
        c.args(["-O", version, "-t", "20", command, &target]).args(more);
        let o = c.output().unwrap();
        let error = String::from_utf8_lossy(&o.stderr).into_owned();
        if o.status.success() && error.is_empty() {
            Ok(String::from_utf8(o.stdout).unwrap())
        } else {
            Err(error)
        }
    }
    fn stop(mut self) {
        let pid = Pid::from_raw(self.child.id().cast_signed()).unwrap();
        kill_process(pid, Signal::TERM).unwrap();
        assert!(self.child.wait().unwrap().success());
    }
}

impl Drop for Device {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

#[test]
fn ovs_ofctl_talks_to_it() {
    if !has("ovs-ofctl") {
        return skipped("ovs_ofctl_talks_to_it", "no ovs-ofctl (package openvswitch-common)");
    }
    for version in ["OpenFlow10", "OpenFlow13"] {
        let d = Device::start("honest", "null:a,null:b");
        let ask = |command: &str, more: &[&str]| {
            d.ofctl(version, command, more).unwrap_or_else(|e| panic!("{version} {command}: {e}"))
        };
        let shown = ask("show", &[]);
        assert!(shown.contains("dpid:000002d07e000000") && shown.contains("2(null:b)"), "{shown}");
        ask("add-flow", &["priority=7,ip,nw_dst=10.0.0.0/8,actions=mod_nw_tos:184,output:2"]);
        ask("add-flow", &["priority=9,in_port=1,dl_vlan=5,actions=strip_vlan,output:2"]);
        let flows = ask("dump-flows", &["--no-stats"]);
        assert!(flows.contains("nw_dst=10.0.0.0/8") && flows.contains("priority=9"), "{flows}");
        ask("mod-flows", &["ip,nw_dst=10.0.0.0/8,actions=output:1"]);
        assert!(ask("dump-flows", &[]).contains("actions=output:1"));
        assert!(ask("dump-aggregate", &[]).contains("flow_count=2"));
        assert!(ask("dump-tables", &[]).contains("active=2"));
        assert!(ask("dump-ports", &[]).contains("rx pkts=0"));
        assert!(ask("dump-desc", &[]).contains("weir"));
        ask("probe", &[]);
        ask("del-flows", &[]);
        assert!(!ask("dump-flows", &[]).contains("actions"));
        let refused = d.ofctl(version, "add-flow", &["actions=output:77"]).unwrap_err();
        assert!(refused.contains("OFPBAC_BAD_OUT_PORT"), "{refused}");
        d.stop();
    }
}

#[test]
fn ovs_ofctl_is_told_of_faults() {
    if !has("ovs-ofctl") {
        return skipped("ovs_ofctl_is_told_of_faults", "no ovs-ofctl (package openvswitch-common)");
    }
    let d = Device::start("other-version", "null:a");
    // It says that no version is common, or that the connection broke while it was saying hello.
    assert!(d.ofctl("OpenFlow13", "show", &[]).is_err());
    d.stop();
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("own.toml");
    let text = "name = \"own\"\nabout = \"of a file\"\n[connection]\ngarbage_every = 1\n";
    std::fs::write(&file, text).unwrap();
    let d = Device::start(file.to_str().unwrap(), "null:a");
    assert!(d.ofctl("OpenFlow13", "dump-flows", &[]).is_err());
    d.stop();
}

/// Namespaces x and y, each behind a port of the device.
struct Lab(String);

impl Lab {
    fn new() -> Option<Self> {
        let lab = Self(format!("wdut{}", std::process::id() % 1_000_000));
        let n = &lab.0;
        if !sh(&format!("ip netns add {n}x && ip netns add {n}y")) {
            return None;
        }
        for (side, last) in [('x', 1), ('y', 2)] {
            assert!(sh(&format!(
                "ip link add {n}{last} type veth peer name e0 netns {n}{side} &&
                 ip -n {n}{side} link set e0 up &&
                 ip -n {n}{side} addr add 10.9.0.{last}/24 dev e0 &&
                 ip link set {n}{last} up"
            )));
        }
        Some(lab)
    }
}

impl Drop for Lab {
    fn drop(&mut self) {
        let n = &self.0;
        sh(&format!("ip netns del {n}x; ip netns del {n}y; ip link del {n}1; ip link del {n}2"));
    }
}

fn sh(command: &str) -> bool {
    let all = ["-c", command];
    Command::new("sh")
        .args(all)
        .stderr(Stdio::null())
        .stdout(Stdio::null())
        .status()
        .unwrap()
        .success()
}

#[test]
fn pings_go_through_it() {
    let test = "pings_go_through_it";
    if !is_root() || !has("ip") || !has("ping") || !has("ovs-ofctl") {
        return skipped(test, "needs root, ip, ping and ovs-ofctl");
    }
    let Some(lab) = Lab::new() else {
        return skipped(test, "network namespaces can't be made here");
    };
    let n = &lab.0;
    for version in ["OpenFlow10", "OpenFlow13"] {
        let d = Device::start("honest", &format!("{n}1,{n}2"));
        let answers = || sh(&format!("ip netns exec {n}x ping -n -c 1 -W 1 10.9.0.2"));
        assert!(!answers(), "without a flow nothing passes");
        for flow in ["in_port=1,actions=output:2", "in_port=2,actions=output:1"] {
            d.ofctl(version, "add-flow", &[flow]).unwrap();
        }
        let until = Instant::now() + LIMIT;
        while !answers() {
            assert!(Instant::now() < until, "no ping came through by {version}");
        }
        let flows = d.ofctl(version, "dump-flows", &["in_port=2"]).unwrap();
        assert!(!flows.contains("n_packets=0"), "{flows}");
        d.stop();
    }
}

#[test]
fn its_words() {
    let out = |arguments: &[&str]| {
        let o = weir().arg("dut").args(arguments).output().unwrap();
        let text = |b: Vec<u8>| String::from_utf8(b).unwrap();
        (o.status.code(), text(o.stdout), text(o.stderr))
    };
    let (code, listed, _) = out(&["--list"]);
    assert_eq!(code, Some(0));
    assert!(listed.lines().count() >= 20 && listed.contains("early-barrier"), "{listed}");
    let (_, truth, _) = out(&["--profile", "early-barrier", "--print-truth"]);
    let truth: serde_json::Value = serde_json::from_str(&truth).unwrap();
    let ids: Vec<_> = truth["faults"].as_array().unwrap().iter().map(|f| &f["id"]).collect();
    assert!(ids.contains(&&"barrier.reply.early".into()), "{ids:?}");
    assert_eq!(truth["profile"]["update"]["insert_us"], 1000.0);
    for (arguments, said) in [
        (&["--profile", "early-barier"][..], "did you mean 'early-barrier'?"),
        (&["--profile", "nowhere/x.toml"], "profile nowhere/x.toml: No such file"),
        (&["--profile", "/dev/zero"], "longer than 1048576 bytes"),
        (&["--listen", "nowhere"], "--listen 'nowhere'"),
        (&["--ports", "nosuchport0", "--listen", "127.0.0.1:0"], "'nosuchport0' does not exist"),
        (&["--ports", "e2,af-packet:e2"], "--ports: 'e2' is there twice"),
        (&["--ports", "xpd:a", "--listen", "127.0.0.1:0"], "did you mean 'xdp'?"),
    ] {
        let (code, _, error) = out(arguments);
        assert_ne!(code, Some(0), "{arguments:?}");
        assert!(error.contains(said), "{arguments:?}: {error}");
        assert_eq!(error.lines().count(), 1, "{error}");
    }
}
