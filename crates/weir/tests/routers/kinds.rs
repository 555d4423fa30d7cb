//! A VDP becomes a virtual router and a VDP again, under frames: each is answered once, counters add up,
//! controllers are told and find their flows again.

use super::super::openflow_rig::Peer;
use super::Supervisor;
use super::{Lab, hosts, id_of, left, router, sh, until};
use crate::run_daemon::Daemon;
use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;
use std::net::{TcpListener, TcpStream};
use std::process::{Command, Stdio};
use weir_openflow::model::{
    Action, Field, FlowCommand, FlowFlags, FlowMod, GROUP_ANY, Instruction, Match, Message,
    NO_BUFFER, Port, PortReason,
};

/// The MAC address of both, as x and y know it.
const GATEWAY: &str = "02:00:00:00:00:aa";

/// Every change is proved to keep networks apart before it is made.
const PROVED: &str = "verify = true\n";

/// What a controller makes of a switch to be the router between x and y.
fn routes(to: u32) -> Message {
    let actions = vec![
        Action::SetField(Field::EthSrc, 0x0200_0000_00aa),
        Action::SetField(Field::EthDst, 0x0200_0000_0000 + u128::from(to)),
        Action::DecNwTtl,
        Action::Output { port: Port(to), max_len: 0 },
    ];
    let from = u128::from(3 - to);
    Message::FlowMod(FlowMod {
        cookie: 7,
        cookie_mask: 0,
        table: 0,
        command: FlowCommand::Add,
        idle_timeout: 0,
        hard_timeout: 0,
        priority: 5,
        buffer_id: NO_BUFFER,
        out_port: Port::ANY,
        out_group: GROUP_ANY,
        flags: FlowFlags::default(),
        matcher: Match::default().with(Field::InPort, from).with(Field::EthType, 0x0800),
        instructions: vec![Instruction::Apply(actions)],
    })
}

fn network(data_plane: &str, at: &TcpListener) -> String {
    let at = at.local_addr().unwrap();
    format!(
        "[[network]]\nname = 'red'\n[[network.node]]\nname = 'r'\nhost = 'here'\n\
         ports = ['lan1', 'lan2']\nopenflow = {{ controllers = ['tcp:{at}'] }}\n\
         [network.node.router]\ndata_plane = '{data_plane}'\nmac = '{GATEWAY}'\n\
         address = {{ lan1 = ['10.1.0.1/24'], lan2 = ['10.2.0.1/24'] }}\n"
    )
}

/// Frames that the node has received, with what forwards for it.
fn received(d: &Daemon) -> u64 {
    let all = d.json(&["stats"]);
    let all = all["vdps"].as_array().unwrap();
    let node = all.iter().find(|v| v["name"] == "red.r").unwrap();
    let its = all.iter().filter(|v| v["vid"] == node["vid"] || v["part_of"] == node["vid"]);
    its.map(|v| v["received"]["frames"].as_u64().unwrap()).sum()
}

/// The node becomes one of this kind, and the proof says that nothing was lost.
fn proven(s: &Supervisor, kind: &str) {
    let out = s.ask(&["net", "migrate", "red", "r", "--kind", kind, "-o", "json"]);
    let out: Value = serde_json::from_str(&out).unwrap();
    let all = out["result"]["became"].as_array().unwrap();
    let [proof] = &all[..] else { panic!("one node changed: {out}") };
    assert_eq!(
        (&proof["kind"], &proof["lost"], &proof["conserved"]),
        (&Value::from(kind), &Value::from(0), &Value::from(true)),
        "{proof}"
    );
    let count = |when: &str, what: &str| proof[when][what].as_u64().unwrap();
    assert!(count("before", "received") > 0, "{proof}");
    assert!(count("after", "received") >= count("before", "received"), "{proof}");
    assert!(proof["longest_pause_ns"].as_u64().unwrap() > 0, "{proof}");
}

/// What a controller hears until it is let go: how many ports have gone.
fn farewell(p: &mut Peer<TcpStream>) -> usize {
    let mut gone = 0;
    while let Ok(m) = p.next() {
        let is_gone = |s: &weir_openflow::model::PortStatus| s.reason == PortReason::Delete;
        gone += usize::from(matches!(&m.body, Message::PortStatus(s) if is_gone(s)));
    }
    gone
}

#[test]
fn a_vdp_becomes_a_router_and_a_vdp_again() {
    let test = "a_vdp_becomes_a_router_and_a_vdp_again";
    let Some(lab) = Lab::new(test, 'c') else { return };
    let n = &lab.name;
    for (side, net) in [('x', 1), ('y', 2)] {
        sh(&format!(
            "ip -n {n}{side} neigh replace 10.{net}.0.1 lladdr {GATEWAY} dev e0 nud permanent"
        ));
    }
    let d = lab.node(&[("lan1", 'x'), ("lan2", 'y')]);
    let mut s = hosts(&[("here", &d)]);
    for (plane, proved) in
        [("own", ""), ("routed", ""), ("bridged", ""), ("pearl", ""), ("routed", PROVED)]
    {
        if !proved.is_empty() {
            s.hosts.insert_str(0, proved);
        }
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        s.apply(&network(plane, &listener));
        let mut p = Peer::accept(&listener);
        p.send(routes(1));
        p.send(routes(2));
        assert_eq!(p.barrier().unwrap(), []);
        lab.reaches();
        let (answers, counted) = (lab.answers(), received(&d));
        let ping = Command::new("ip")
            .args([
                "netns",
                "exec",
                &format!("{n}x"),
                "ping",
                "-n",
                "-q",
                "-i",
                "0.005",
                "10.2.0.2",
            ])
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let more = |than: u64| until("more is answered", || lab.answers() > than + 20);
        more(answers);
        proven(&s, "router");
        assert_eq!(farewell(&mut p), 2, "{plane}");
        let id = id_of(&router(&d));
        more(lab.answers());
        let proof = d.ask(&["net", "verify"]);
        assert!(proof.starts_with("isolated: "), "{plane}: {proof}");
        proven(&s, "vdp");
        assert_eq!(left(&id), Vec::<String>::new(), "{plane}");
        let mut p = Peer::accept(&listener);
        assert_eq!(p.flows(), 2, "{plane}: flows that it had made");
        more(lab.answers());
        kill_process(Pid::from_raw(ping.id().cast_signed()).unwrap(), Signal::INT).unwrap();
        let said = ping.wait_with_output().unwrap();
        let said = String::from_utf8_lossy(&said.stdout).into_owned();
        let sent: u64 =
            said.lines().find_map(|l| l.split_once(" packets")?.0.parse().ok()).unwrap();
        until("all are answered", || lab.answers() >= answers + sent);
        assert_eq!(lab.answers(), answers + sent, "{plane}: {said}\n{}", d.json(&["stats"]));
        let now = received(&d);
        assert!(now >= counted + 2 * sent, "{plane}: {now} of {counted} + 2 * {sent}");
        s.ask(&["net", "delete", "red"]);
        assert_eq!(d.json(&["show"])["vdps"].as_array().unwrap().len(), 1, "{plane}");
    }
    d.stop();
}

/// Under `verify = true` a node becomes one of the other kind only where networks stay apart; else nothing is
/// touched: neither its controller's session nor its flows, nor is there a namespace.
#[test]
fn a_change_of_kind_that_would_leak_is_refused_before_it_is_made() {
    let test = "a_change_of_kind_that_would_leak_is_refused_before_it_is_made";
    let Some(lab) = Lab::new(test, 'e') else { return };
    let d = lab.node(&[("lan1", 'x'), ("lan2", 'y')]);
    let mut s = hosts(&[("here", &d)]);
    s.hosts.insert_str(0, PROVED);
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let at = listener.local_addr().unwrap();
    let node = |network: &str, name: &str, port: &str, more: &str| {
        format!(
            "[[network]]\nname = '{network}'\n[[network.node]]\nname = '{name}'\nhost = 'here'\n\
             ports = ['{port}']\n{more}"
        )
    };
    let part = |text: &str, vlan: u16| {
        text.replacen(
            "[[network.node]]",
            &format!("flow_space = ['dl_vlan={vlan}']\n[[network.node]]"),
            1,
        )
    };
    let told = format!("openflow = {{ controllers = ['tcp:{at}'] }}\n");
    let router = "[network.node.router]\naddress = { lan2 = ['10.2.0.1/24'] }\n".to_owned();
    // Rules, networks, and each rule's frames: these may become more, as kernels send of their own accord (IPv6, for groups
    // they join), but nothing begins anew.
    let before = || {
        let mut rules = d.json(&["show", "--rules"])["rules"].clone();
        let hits = |rule: &mut Value| rule.as_object_mut().unwrap().remove("hits").unwrap();
        let hits = rules.as_array_mut().unwrap().iter_mut().map(hits);
        let frames: Vec<u64> = hits.map(|h| h["frames"].as_u64().unwrap()).collect();
        ((rules, s.ask(&["net", "list", "-o", "toml"])), frames)
    };
    let untouched = |(was, had): ((Value, String), Vec<u64>)| {
        let (is, has) = before();
        assert_eq!(is, was);
        assert!(has.iter().zip(&had).all(|(now, then)| now >= then), "{had:?} {has:?}");
    };
    let refused = |network: &str, kind: &str| {
        let was = before();
        let told = s.refused(&["net", "migrate", network, "r", "--kind", kind], 2);
        assert!(told.contains("nothing was touched"), "{told}");
        untouched(was);
        told
    };
    // A router may send anything by any of its ports, and lan2 is blue's, too.
    let blue = node("blue", "s", "lan2", "");
    let red = node("red", "r", "lan2", &(told.clone() + &router));
    s.apply(&(part(&red, 10) + &part(&blue, 20)));
    let mut p = Peer::accept(&listener);
    p.send(routes(1));
    assert_eq!(p.barrier().unwrap(), []);
    let said = refused("red", "router");
    assert!(
        said.contains("not isolated: host 'here'") && said.contains("network 'blue'"),
        "{said}"
    );
    assert_eq!((p.barrier().unwrap(), p.flows()), (Vec::new(), 1));
    // Where blue has another port, but only a part of this one is red's, it may leave that part.
    let blue = blue.replace("lan2", "lan1");
    s.apply(&(part(&red, 10) + &blue));
    assert!(refused("red", "router").contains("not isolated: host 'here'"));
    // Where all of the port is red's, it harms nobody.
    s.apply(&(red + &blue));
    s.ask(&["net", "migrate", "red", "r", "--kind", "router"]);
    let id = id_of(&super::router(&d));
    assert!(!left(&id).is_empty());
    // And what it may send to as a VDP is nobody else's already while it is a router.
    let own = "rule = [{ match = 'in_port=1', actions = 'controller' }]\n";
    let red = node("red", "r", "lan2", &(format!("kind = 'router'\n{told}{own}") + &router));
    let was = before();
    let both = s.lab(&(red + &blue + &told + own));
    let said = s.refused(&["apply", both.to_str().unwrap()], 2);
    assert!(said.contains("not isolated: host 'here'") && said.contains("controller"), "{said}");
    untouched(was);
    assert!(!left(&id).is_empty());
    s.ask(&["net", "delete", "blue"]);
    s.ask(&["net", "migrate", "red", "r", "--kind", "vdp"]);
    assert_eq!(left(&id), Vec::<String>::new());
    s.ask(&["net", "delete", "red"]);
    d.stop();
}

/// A router that never was a VDP becomes one, too.
#[test]
fn a_router_becomes_a_vdp() {
    let test = "a_router_becomes_a_vdp";
    let Some(lab) = Lab::new(test, 'd') else { return };
    let d = lab.node(&[("lan1", 'x'), ("lan2", 'y')]);
    let s = hosts(&[("here", &d)]);
    s.apply(
        &super::one("routed", "")
            .replace("kind = 'router'\n", "kind = 'router'\nprogram = 'learning'\n"),
    );
    let id = id_of(&router(&d));
    lab.reaches();
    let dry = s.ask(&["net", "migrate", "red", "r", "--kind", "vdp", "--dry-run"]);
    assert!(dry.contains("of the other kind until now"), "{dry}");
    s.ask(&["net", "migrate", "red", "r", "--kind", "vdp"]);
    assert_eq!(left(&id), Vec::<String>::new());
    let shown = d.json(&["show"]);
    let node = shown["vdps"].as_array().unwrap().iter().find(|v| v["name"] == "red.r").unwrap();
    assert_eq!(node["detail"]["program"], "learning");
    assert!(node["received"]["frames"].as_u64().unwrap() > 0, "{node}");
    s.ask(&["net", "migrate", "red", "r", "--kind", "router"]);
    lab.reaches();
    s.ask(&["net", "delete", "red"]);
    assert_eq!(left(&id), Vec::<String>::new());
    d.stop();
}
