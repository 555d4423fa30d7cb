//! `ovs-ofctl` against `weir run`: somebody else's idea of a switch, over a listener.

mod openflow_rig;
mod run_daemon;

use openflow_rig::{config, listening};
use run_daemon::{Daemon, has, skipped};
use std::process::Command;

struct Ofctl {
    target: String,
    version: &'static str,
}

impl Ofctl {
    fn run(&self, command: &str, arguments: &[&str]) -> String {
        let mut c = Command::new("ovs-ofctl");
        c.args(["-O", self.version, "-t", "20", command, &self.target]).args(arguments);
        let o = c.output().unwrap();
        let error = String::from_utf8_lossy(&o.stderr);
        assert!(o.status.success(), "{command} {arguments:?}: {error}");
        String::from_utf8(o.stdout).unwrap()
    }
    /// The flows, without what passes by itself.
    fn flows(&self) -> Vec<String> {
        let text = self.run("dump-flows", &["--no-stats"]);
        let lines = text.lines().map(str::trim).filter(|l| l.contains("actions="));
        lines.map(str::to_owned).collect()
    }
}

fn exercise(version: &'static str) {
    let d = Daemon::start(&config("listen = ['ptcp:0']\ndatapath_id = '00000000000000ab'"), &[]);
    let of = Ofctl { target: format!("tcp:{}", listening(&d)), version };
    let shown = of.run("show", &[]);
    assert!(shown.contains("dpid:00000000000000ab"), "{shown}");
    assert!(shown.contains("1(a)") && shown.contains("2(b)"), "{shown}");
    let desc = of.run("dump-desc", &[]);
    assert!(desc.contains("weir") && desc.contains("red"), "{desc}");

    of.run("add-flow", &["priority=7,ip,nw_dst=10.0.0.0/8,actions=output:2"]);
    of.run("add-flow", &["dl_dst=02:00:00:00:00:01,actions=NORMAL"]);
    let flows = of.flows();
    assert_eq!(flows.len(), 2, "{flows:?}");
    assert!(flows.iter().any(|f| f.contains("nw_dst=10.0.0.0/8") && f.contains("priority=7")));
    assert!(flows.iter().any(|f| f.contains("actions=NORMAL")), "{flows:?}");

    of.run("mod-flows", &["ip,nw_dst=10.0.0.0/8,actions=output:1"]);
    assert!(of.flows().iter().any(|f| f.contains("actions=output:1")), "{:?}", of.flows());
    of.run("del-flows", &["ip"]);
    assert_eq!(of.flows().len(), 1);
    let ports = of.run("dump-ports", &[]);
    assert!(ports.contains("rx pkts="), "{ports}");
    let tables = of.run("dump-tables", &[]);
    assert!(tables.contains("table 0"), "{tables}");

    // The data plane has the flow, too.
    let rules = d.ask(&["show", "--vdp", "red", "--rules"]);
    assert!(rules.contains("dl_dst=02:00:00:00:00:01"), "{rules}");
    assert!(rules.contains("1 flows"), "{rules}");
    d.stop();
}

#[test]
fn ofctl_works_by_1_3() {
    match has("ovs-ofctl") {
        true => exercise("OpenFlow13"),
        false => skipped("ofctl_works_by_1_3", "no ovs-ofctl"),
    }
}

#[test]
fn ofctl_works_by_1_0() {
    match has("ovs-ofctl") {
        true => exercise("OpenFlow10"),
        false => skipped("ofctl_works_by_1_0", "no ovs-ofctl"),
    }
}
