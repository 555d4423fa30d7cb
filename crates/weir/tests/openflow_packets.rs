//! Frames between data plane and controllers over real sockets: two VDPs at the ends of one wire, a
//! controller each.

mod openflow_rig;
mod run_daemon;

use openflow_rig::{Peer, config, listening, switch};
use run_daemon::Daemon;
use std::net::{TcpListener, TcpStream};
use std::time::{Duration, Instant};
use weir_openflow::model::{
    Action, Bucket, FlowCommand, FlowFlags, FlowMod, GROUP_ANY, GroupCommand, GroupKind, GroupMod,
    Instruction, Match, Message, NO_BUFFER, NO_MAX_LEN, PacketIn, PacketInReason, PacketOut, Port,
    RemovedReason, Version,
};

/// `weir run` with two VDPs on one wire; the controllers of both.
fn lab(versions: &str) -> (Daemon, Peer<TcpStream>, Peer<TcpStream>) {
    let listeners = [0, 1].map(|_| TcpListener::bind("127.0.0.1:0").unwrap());
    let mut text = String::new();
    for (name, wire) in [("x", "w"), ("y", "w")] {
        text += &format!("[[port]]\nname = '{name}'\ndevice = 'memory:{wire}'\n");
    }
    for ((vid, port), l) in [(1, "x"), (2, "y")].into_iter().zip(&listeners) {
        text += &format!(
            "[[vdp]]\nvid = {vid}\nports = ['{port}']\nmapping = ['in_port={port}']\n\
             [vdp.openflow]\nversions = [{versions}]\ncontrollers = ['tcp:{}']\n",
            l.local_addr().unwrap()
        );
    }
    let d = Daemon::start(&text, &[]);
    let [one, two] = listeners.map(|l| Peer::accept(&l));
    (d, one, two)
}

fn frame(n: u8) -> Vec<u8> {
    let mut f = vec![2, 0, 0, 0, 0, 1, 2, 0, 0, 0, 0, 2, 0x88, 0xb5];
    f.extend((0..186).map(|i| n.wrapping_add(i)));
    f
}

fn out(by: Version, data: Vec<u8>, buffer_id: u32) -> Message {
    let actions = vec![Action::Output { port: Port(1), max_len: 0 }];
    let in_port = if by == Version::V10 { Port::ANY } else { Port::CONTROLLER };
    Message::PacketOut(PacketOut { buffer_id, in_port, actions, data })
}

/// A flow that sends everything to the controllers.
fn to_controller(hard_timeout: u16, flags: FlowFlags) -> Message {
    let action = Action::Output { port: Port::CONTROLLER, max_len: NO_MAX_LEN };
    Message::FlowMod(FlowMod {
        cookie: 5,
        cookie_mask: 0,
        table: 0,
        command: FlowCommand::Add,
        idle_timeout: 0,
        hard_timeout,
        priority: 0,
        buffer_id: NO_BUFFER,
        out_port: Port::ANY,
        out_group: GROUP_ANY,
        flags,
        matcher: Match::default(),
        instructions: vec![Instruction::Apply(vec![action])],
    })
}

fn packet_in(p: &mut Peer<TcpStream>) -> PacketIn {
    loop {
        if let Message::PacketIn(got) = p.next().unwrap().body {
            return got;
        }
    }
}

#[test]
fn packets_go_from_one_controller_to_the_other() {
    let (d, mut one, mut two) = lab("'1.3'");
    assert_eq!((one.version(), two.version()), (Version::V13, Version::V13));
    one.send(to_controller(0, FlowFlags::default()));
    assert_eq!(one.barrier().unwrap(), []);
    for n in 0..100 {
        two.send(out(Version::V13, frame(n), NO_BUFFER));
    }
    assert_eq!(two.barrier().unwrap(), []);
    for n in 0..100 {
        let got = packet_in(&mut one);
        assert_eq!(got.data, frame(n), "in order, whole");
        assert_eq!((got.reason, got.cookie), (PacketInReason::NoMatch, 5));
    }
    // Without a flow there is nothing: 1.3 drops what it has no miss entry for.
    one.send(out(Version::V13, frame(0), NO_BUFFER));
    one.barrier().unwrap();
    d.until("it is dropped", |d| d.vdp(2)["received"]["frames"] == 1);
    let (_, before) = two.ask(Message::FeaturesRequest).unwrap();
    assert!(!before.iter().any(|m| matches!(m.body, Message::PacketIn(_))), "{before:?}");
    d.stop();
}

#[test]
fn a_controller_of_1_0_gets_what_no_flow_takes_and_sends_it_back_by_its_buffer() {
    let (d, mut one, mut two) = lab("'1.0'");
    assert_eq!(one.version(), Version::V10);
    two.send(out(Version::V10, frame(3), NO_BUFFER));
    two.push();
    let got = packet_in(&mut one);
    assert_eq!(got.reason, PacketInReason::NoMatch);
    assert_eq!((got.data.len(), usize::from(got.total_len)), (128, frame(3).len()));
    assert_ne!(got.buffer_id, NO_BUFFER);
    one.send(out(Version::V10, Vec::new(), got.buffer_id));
    one.push();
    let back = packet_in(&mut two);
    assert_eq!(back.data, frame(3)[..128]);
    d.stop();
}

#[test]
fn a_flow_that_times_out_is_told_within_a_tenth_of_a_second() {
    let (d, mut one, _two) = lab("'1.3'");
    one.send(to_controller(1, FlowFlags::SEND_FLOW_REM));
    one.barrier().unwrap();
    let began = Instant::now();
    let removed = loop {
        if let Message::FlowRemoved(r) = one.next().unwrap().body {
            break r;
        }
    };
    let took = began.elapsed();
    assert_eq!(removed.reason, RemovedReason::HardTimeout);
    // What the switch says is exact; a busy machine may tell us late.
    let stayed = Duration::new(removed.duration_sec.into(), removed.duration_nsec);
    assert!(stayed >= Duration::from_secs(1) && stayed < Duration::from_millis(1100), "{stayed:?}");
    assert!(took < Duration::from_secs(5), "{took:?}");
    assert_eq!(one.flows(), 0);
    d.stop();
}

/// A region of fewer frames than come at once.
const NARROW: &str = "[dataplane]\nframes = 4\n\
     [[port]]\nname = 'a'\ndevice = 'null'\n\
     [[vdp]]\nvid = 1\nname = 'red'\nports = ['a']\nmapping = ['in_port=a']\n\
     [vdp.openflow]\nlisten = ['ptcp:0']\n";

#[test]
fn packet_outs_without_a_free_frame_are_counted_shown_and_told() {
    const SENT: u64 = 6000;
    let began = Instant::now();
    let mut d = Daemon::start(NARROW, &[]);
    let mut p = Peer::to(&listening(&d));
    for _ in 0..SENT {
        p.send(out(Version::V13, frame(1), NO_BUFFER));
        p.push();
    }
    assert_eq!(p.barrier().unwrap(), [], "OpenFlow has no error for it");
    let lost = switch(&d)["packet_outs_lost"].as_u64().unwrap();
    // Four of each batch leave.
    assert!((1..SENT).contains(&lost), "{lost}");
    // `Daemon::vdp` checks that nothing is missing in the balance.
    let v = d.vdp(1);
    assert_eq!(
        (v["generated"].as_u64(), v["dropped"]["no-frame"].as_u64()),
        (Some(SENT), Some(lost))
    );
    let shown = d.ask(&["show", "--vdp", "1"]);
    assert!(shown.contains(&format!("packet-outs: {lost} lost")), "{shown}");
    let line = d.wait_for("no frame is free");
    assert!(line.starts_with("VDP 1 (red): ") && line.contains("raise 'frames'"), "{line}");
    // It is still a switch.
    assert!(matches!(p.ask(Message::FeaturesRequest).unwrap().0, Message::FeaturesReply(_)));
    // A line now and then, not one a packet.
    let most = 1 + usize::try_from(began.elapsed().as_secs() / 10).unwrap();
    let lines = d.stop().into_iter().filter(|l| l.contains("no frame is free")).count();
    assert!((1..=most).contains(&lines), "{lines} lines");
}

#[test]
fn a_group_follows_its_port_that_comes_back() {
    let d = Daemon::start(&config("listen = ['ptcp:0']"), &[]);
    let mut p = Peer::to(&listening(&d));
    let bucket = Bucket {
        weight: 0,
        watch_port: Port::ANY,
        watch_group: GROUP_ANY,
        actions: vec![Action::Output { port: Port(2), max_len: 0 }],
    };
    p.send(Message::GroupMod(GroupMod {
        command: GroupCommand::Add,
        kind: GroupKind::All,
        id: 1,
        buckets: vec![bucket],
    }));
    let by_group = || {
        let (in_port, actions) = (Port::CONTROLLER, vec![Action::Group(1)]);
        Message::PacketOut(PacketOut { buffer_id: NO_BUFFER, in_port, actions, data: frame(1) })
    };
    let sent = |d: &Daemon| d.port("b")["tx"]["frames"].as_u64();
    p.send(by_group());
    assert_eq!(p.barrier().unwrap(), []);
    d.until("it is sent", |d| sent(d) == Some(1));
    d.ask(&["port", "remove", "b"]);
    p.send(by_group());
    assert_eq!(p.barrier().unwrap(), []);
    d.ask(&["port", "add", "b", "null"]);
    p.send(by_group());
    assert_eq!(p.barrier().unwrap(), []);
    d.until("it is sent by the new port", |d| sent(d) == Some(1));
    assert_eq!(d.vdp(1)["dropped"]["no-such-port"], 1);
    d.stop();
}
