//! IPv6 addresses of routers: which each interface has, and from when on they can be used.

use super::{Lab, hosts, router, sh, until};
use crate::run_daemon::Daemon;
use rustix::process::{Pid, Signal, kill_process};
use std::process::{Command, Stdio};

/// The MAC address of both kinds, and what the link-local address of an interface with it is (RFC 4291 appendix A).
const GATEWAY: &str = "02:00:00:00:00:aa";
const LINK_LOCAL: &str = "fe80::ff:fe00:aa/64";

/// Gives x and y addresses of IPv6 and a way to one another, which x's first frame finds at once.
fn by_ipv6(lab: &Lab) {
    let n = &lab.name;
    for (side, net) in [('x', 1), ('y', 2)] {
        sh(&format!(
            "ip -n {n}{side} addr add fd00:{net}::2/64 dev e0 nodad
             ip -n {n}{side} -6 route add default via fd00:{net}::1
             ip -n {n}{side} neigh replace fd00:{net}::1 lladdr {GATEWAY} dev e0 nud permanent"
        ));
    }
}

/// Answers to IPv6 pings that x's kernel has counted.
fn answers(lab: &Lab) -> u64 {
    let all = sh(&format!("ip netns exec {}x cat /proc/net/snmp6", lab.name));
    let line = all.lines().find(|l| l.starts_with("Icmp6InEchoReplies")).unwrap();
    line.split_whitespace().nth(1).unwrap().parse().unwrap()
}

fn node(host: &str, kind: &str, data_plane: &str) -> String {
    let interface = |net: u8| {
        format!(
            "[[network.node.program.interface]]\nport = 'lan{net}'\nmac = '{GATEWAY}'\n\
             addresses = ['fd00:{net}::1/64']\n"
        )
    };
    let interfaces = interface(1) + &interface(2);
    format!(
        "[[network]]\nname = 'red'\n[[network.node]]\nname = 'r'\nhost = '{host}'\n\
         kind = '{kind}'\nports = ['lan1', 'lan2']\n[network.node.program]\nname = 'router'\n\
         {interfaces}[network.node.router]\ndata_plane = '{data_plane}'\nmac = '{GATEWAY}'\n\
         address = {{ lan1 = ['fd00:1::1/64'], lan2 = ['fd00:2::1/64'] }}\n"
    )
}

/// The IPv6 addresses of an interface inside, as `ip` shows them.
fn addresses(d: &Daemon, of: &str) -> String {
    let namespace = router(d)["namespace"].as_str().unwrap().to_owned();
    sh(&format!("ip -n {namespace} -6 addr show dev {of}"))
}

/// All that an interface shall have is there, and in use.
fn are_in_use(d: &Daemon, when: &str) {
    for net in [1, 2] {
        let all = addresses(d, &format!("lan{net}"));
        let wanted = [LINK_LOCAL, &format!("fd00:{net}::1/64")];
        assert!(wanted.iter().all(|w| all.contains(&format!("inet6 {w}"))), "{when}: {all}");
        assert!(!all.contains("tentative"), "{when}: {all}");
    }
}

#[test]
fn a_router_that_was_a_vdp_uses_its_addresses_from_its_first_frame_on() {
    let test = "a_router_that_was_a_vdp_uses_its_addresses_from_its_first_frame_on";
    let Some(lab) = Lab::new(test, 'V') else { return };
    by_ipv6(&lab);
    let d = lab.node(&[("lan1", 'x'), ("lan2", 'y')]);
    let s = hosts(&[("here", &d)]);
    for plane in ["own", "routed", "bridged", "pearl"] {
        s.apply(&node("here", "vdp", plane));
        let n = &lab.name;
        let ping = |more: &str| {
            let words = format!("netns exec {n}x ping -6 -n -q {more} fd00:2::2");
            let mut c = Command::new("ip");
            c.args(words.split(' '));
            c
        };
        until("y answers", || ping("-c 1 -W 1").output().unwrap().status.success());
        let before = answers(&lab);
        let child = ping("-c 3000 -i 0.02").stdout(Stdio::piped()).spawn().unwrap();
        let more = |than: u64| until("more is answered", || answers(&lab) > than + 20);
        more(before);
        s.ask(&["net", "migrate", "red", "r", "--kind", "router"]);
        are_in_use(&d, plane);
        more(answers(&lab));
        kill_process(Pid::from_raw(child.id().cast_signed()).unwrap(), Signal::INT).unwrap();
        let said = child.wait_with_output().unwrap();
        let said = String::from_utf8_lossy(&said.stdout).into_owned();
        let sent: u64 =
            said.lines().find_map(|l| l.split_once(" packets")?.0.parse().ok()).unwrap();
        until(&format!("{plane}: {said}"), || answers(&lab) >= before + sent);
        s.ask(&["net", "delete", "red"]);
    }
    d.stop();
}

/// So does one that is made anew, or on another host; one that is new asks, and has the same address of its link each time.
#[test]
fn a_router_that_comes_again_uses_its_addresses_at_once() {
    let test = "a_router_that_comes_again_uses_its_addresses_at_once";
    let Some(lab) = Lab::new(test, 'W') else { return };
    let here = lab.node(&[("lan1", 'x'), ("lan2", 'y')]);
    let there = Daemon::start(
        "[[port]]\nname = 'lan1'\ndevice = 'null'\n[[port]]\nname = 'lan2'\ndevice = 'null'\n",
        &[],
    );
    let s = hosts(&[("here", &here), ("there", &there)]);
    s.apply(&node("here", "router", "own"));
    until("its addresses are nobody else's", || {
        !["lan1", "lan2"].iter().any(|l| addresses(&here, l).contains("tentative"))
    });
    are_in_use(&here, "new");
    for plane in ["routed", "bridged", "pearl"] {
        s.apply(&node("here", "router", plane));
        are_in_use(&here, plane);
    }
    s.apply(&node("there", "router", "own"));
    are_in_use(&there, "elsewhere");
    // What comes later is asked for as ever.
    let namespace = router(&there)["namespace"].as_str().unwrap().to_owned();
    let asks =
        sh(&format!("ip netns exec {namespace} cat /proc/sys/net/ipv6/conf/lan1/accept_dad"));
    assert_eq!(asks.trim(), "1");
    s.ask(&["net", "delete", "red"]);
    here.stop();
    there.stop();
}
