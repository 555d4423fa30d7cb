//! Queues of a port through a running `weir run`: two sources at full rate, each into a queue of its
//! own by a controller's flows, told by queue statistics.

mod openflow_rig;
mod run_daemon;

use openflow_rig::{Peer, listening};
use run_daemon::{Daemon, LIMIT};
use std::net::TcpStream;
use std::time::Instant;
use weir_openflow::model::{
    Action, Field, FlowCommand, FlowFlags, FlowMod, GROUP_ANY, Instruction, Match, Message,
    NO_BUFFER, Part, Port, QUEUE_ALL, QueueStats, StatsReply, StatsRequest, Version,
};

/// What the port lets through, what queue 1 is guaranteed of it, and what queue 2 may have at most.
const CEILING: u64 = 8_000_000;
const GUARANTEE: u64 = 6_000_000;
const MOST: u64 = 1_000_000;

fn text(version: &str) -> String {
    let capture = concat!(env!("CARGO_MANIFEST_DIR"), "/../../testdata/real.pcap");
    let source = |name| format!("[[port]]\nname = '{name}'\ndevice = 'replay:{capture}'\n");
    format!(
        "{}{}[[port]]\nname = 'out'\ndevice = 'null'\n\
         [[vdp]]\nvid = 1\nname = 'red'\nports = ['one', 'two', 'out']\n\
         mapping = ['in_port=one', 'in_port=two']\n\
         [[vdp.share]]\nport = 'out'\nceiling_bps = {CEILING}\nqueue_frames = 64\n\
         [[vdp.queue]]\nport = 'out'\nid = 1\nmin_bps = {GUARANTEE}\n\
         [[vdp.queue]]\nport = 'out'\nid = 2\nmax_bps = {MOST}\n\
         [vdp.openflow]\nversions = ['{version}']\nlisten = ['ptcp:0']\n",
        source("one"),
        source("two")
    )
}

fn queues(p: &mut Peer<TcpStream>) -> Vec<QueueStats> {
    let body = StatsRequest::Queue { port: Port(3), queue: QUEUE_ALL };
    match p.ask(Message::StatsRequest { more: Part::Last, body }).unwrap().0 {
        Message::StatsReply { body: StatsReply::Queue(q), .. } => q,
        other => panic!("{other:?}"),
    }
}

fn of(all: &[QueueStats], queue: u32) -> QueueStats {
    *all.iter().find(|q| q.queue == queue).unwrap_or_else(|| panic!("{all:?}"))
}

fn rates_hold(version: Version, name: &str) {
    let d = Daemon::start(&text(name), &[]);
    let mut p = Peer::to(&listening(&d));
    assert_eq!(p.version(), version);
    let before = queues(&mut p);
    assert_eq!((of(&before, 1).tx_packets, of(&before, 2).tx_packets), (0, 0));
    let began = Instant::now();
    for queue in [1, 2] {
        let to = Action::Output { port: Port(3), max_len: 0 };
        let actions = match version {
            Version::V10 => vec![Action::Enqueue { port: Port(3), queue }],
            _ => vec![Action::SetQueue(queue), to],
        };
        p.send(Message::FlowMod(FlowMod {
            cookie: 0,
            cookie_mask: 0,
            table: 0,
            command: FlowCommand::Add,
            idle_timeout: 0,
            hard_timeout: 0,
            priority: 1,
            buffer_id: NO_BUFFER,
            out_port: Port::ANY,
            out_group: GROUP_ANY,
            flags: FlowFlags::default(),
            matcher: Match::default().with(Field::InPort, queue.into()),
            instructions: vec![Instruction::Apply(actions)],
        }));
    }
    assert_eq!(p.barrier().unwrap(), []);
    let (one, two, took) = loop {
        let now = queues(&mut p);
        let took = began.elapsed();
        let (one, two) = (of(&now, 1), of(&now, 2));
        // As much as half a second lets through, and both had more than that.
        if two.tx_bytes >= MOST / 8 / 2 && one.tx_errors > 0 && two.tx_errors > 0 {
            break (one, two, took);
        }
        assert!(took < LIMIT, "{now:?}");
        std::thread::sleep(std::time::Duration::from_millis(20));
    };
    // However slow the machine: no more than the rate, and what a bucket holds (a tenth of a second).
    let bits = |rate: u64| u128::from(rate) * (took.as_millis() + 100) / 1000 + 8 * 2 * 1600;
    assert!(u128::from(two.tx_bytes) * 8 <= bits(MOST), "{two:?} in {took:?}");
    assert!(
        u128::from(one.tx_bytes + two.tx_bytes) * 8 <= bits(CEILING),
        "{one:?} {two:?} {took:?}"
    );
    assert!(one.tx_bytes >= 2 * two.tx_bytes, "guaranteed six times as much: {one:?} {two:?}");
    // Nothing left but by these two, as the port counts it between two looks at them.
    let (port, queues) = port_and_queues(&d, &mut p);
    assert!(queues.0 <= port && port <= queues.1, "{queues:?} {port}");
    d.stop();
}

/// Frames that the port has sent, and those of its queues before and after that was asked.
fn port_and_queues(d: &Daemon, p: &mut Peer<TcpStream>) -> (u64, (u64, u64)) {
    let mut sum = || queues(p).iter().map(|q| q.tx_packets).sum();
    let before = sum();
    let port = d.port("out")["tx"]["frames"].as_u64().unwrap();
    (port, (before, sum()))
}

#[test]
fn rates_of_queues_hold_by_set_queue() {
    rates_hold(Version::V13, "1.3");
}

#[test]
fn rates_of_queues_hold_by_enqueue() {
    rates_hold(Version::V10, "1.0");
}
