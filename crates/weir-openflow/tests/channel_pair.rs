//! A switch's and a controller's channel, joined by a pipe that cuts bytes anywhere, under random
//! limits and random schedules: every message that was taken arrives once, whole and in order.

use proptest::prelude::*;
use std::time::Duration;
use weir_openflow::channel::{
    Channel, Config, Event, Limits, Rate, Received, SendError, Sent, Side, Versions,
};
use weir_openflow::model::*;

#[derive(Clone, Debug)]
enum Op {
    /// One end sends the next of its messages.
    Send { end: usize, what: u8, size: u16 },
    /// So many bytes move away from an end.
    Move { end: usize, bytes: usize },
    /// An end looks at one event.
    Look { end: usize },
    /// Time goes on.
    Pass { millis: u16 },
}

fn ops() -> impl Strategy<Value = Vec<Op>> {
    let op = prop_oneof![
        3 => (0..2_usize, 0..5_u8, 0..400_u16)
            .prop_map(|(end, what, size)| Op::Send { end, what, size }),
        4 => (0..2_usize, prop_oneof![1..16_usize, 1..3000_usize])
            .prop_map(|(end, bytes)| Op::Move { end, bytes }),
        4 => (0..2_usize).prop_map(|end| Op::Look { end }),
        1 => (0..500_u16).prop_map(|millis| Op::Pass { millis }),
    ];
    prop::collection::vec(op, 0..300)
}

fn rate() -> impl Strategy<Value = Option<Rate>> {
    prop::option::of(
        (1..50_u32, 1..5_u32).prop_map(|(per_second, burst)| Rate { per_second, burst }),
    )
}

fn config(side: Side) -> impl Strategy<Value = Config> {
    let versions = prop::sample::select(vec![
        Versions::ALL,
        Versions::only(Version::V10),
        Versions::only(Version::V13),
    ]);
    (versions, 1..2000_usize, rate(), rate()).prop_map(
        move |(versions, output, messages, flow_mods)| {
            let limits = Limits { output, messages, flow_mods, ..Limits::default() };
            Config { versions, limits, keep_alive: None, ..Config::new(side) }
        },
    )
}

/// The message number `what` that an end may send, in both versions.
fn message(end: usize, what: u8, size: u16) -> Message {
    let data = vec![what; size.into()];
    match (end, what) {
        (_, 0) => Message::EchoRequest(data),
        (0, 1) => Message::PacketIn(PacketIn {
            buffer_id: NO_BUFFER,
            total_len: size,
            reason: PacketInReason::NoMatch,
            table: 0,
            cookie: u64::MAX,
            matcher: Match::default().with(Field::InPort, 1),
            data,
        }),
        (0, 2) => Message::FlowRemoved(FlowRemoved {
            cookie: size.into(),
            priority: 1,
            reason: RemovedReason::Delete,
            table: 0,
            duration_sec: 0,
            duration_nsec: 0,
            idle_timeout: 0,
            hard_timeout: 0,
            packets: 0,
            bytes: 0,
            matcher: Match::default(),
        }),
        (0, _) => Message::BarrierReply,
        (_, 1) => Message::PacketOut(PacketOut {
            buffer_id: NO_BUFFER,
            in_port: Port(1),
            actions: Vec::new(),
            data,
        }),
        (_, 2) => Message::FlowMod(FlowMod {
            cookie: size.into(),
            cookie_mask: 0,
            table: 0,
            command: FlowCommand::Add,
            idle_timeout: 0,
            hard_timeout: 0,
            priority: size,
            buffer_id: NO_BUFFER,
            out_port: Port::ANY,
            out_group: GROUP_ANY,
            flags: FlowFlags::default(),
            matcher: Match::default(),
            instructions: Vec::new(),
        }),
        (_, _) => Message::BarrierRequest,
    }
}

/// One end, with what it was given and what it saw.
struct End {
    side: Side,
    channel: Channel,
    taken: Vec<Msg>,
    asked: Vec<Msg>,
    dropped: u64,
    got: Vec<Msg>,
    answers: Vec<Msg>,
    up: Option<Version>,
    closed: bool,
}

impl End {
    fn new(config: Config) -> Self {
        Self {
            side: config.side,
            channel: Channel::new(config, Duration::ZERO),
            taken: Vec::new(),
            asked: Vec::new(),
            dropped: 0,
            got: Vec::new(),
            answers: Vec::new(),
            up: None,
            closed: false,
        }
    }

    fn send(&mut self, msg: Msg) {
        match self.channel.send(&msg) {
            Ok(Sent::Queued) if matches!(msg.body, Message::EchoRequest(_)) => self.asked.push(msg),
            Ok(Sent::Queued) => self.taken.push(msg),
            Ok(Sent::Dropped) => self.dropped += 1,
            Err(SendError::Full) => assert!(self.side == Side::Controller),
            Err(_) => assert!(self.channel.version().is_none(), "{msg:?} is refused"),
        }
    }

    /// Looks at one event; whether there was one.
    fn look(&mut self, now: Duration) -> bool {
        let Some(event) = self.channel.next_event(now) else { return false };
        match event {
            Event::Up(version) => assert_eq!(self.up.replace(version), None, "up once"),
            Event::Closed(_) => self.closed = true,
            Event::Misread(e) => panic!("a channel's own message: {e}"),
            Event::Message(Received { msg, head }) => {
                assert_eq!(head.xid(), msg.xid);
                if matches!(msg.body, Message::EchoReply(_)) {
                    self.answers.push(msg);
                } else {
                    self.got.push(msg);
                }
            }
        }
        true
    }
}

/// Moves at most `n` bytes, no more than the other end wants.
fn carry(from: &mut End, to: &mut End, n: usize, now: Duration) {
    let out = from.channel.outgoing();
    let n = n.min(out.len()).min(to.channel.input_room());
    let taken = to.channel.receive(&out[..n], now);
    assert_eq!(taken, n, "what is wanted is taken");
    from.channel.advance(n);
}

fn pair(ends: &mut [End; 2], from: usize) -> (&mut End, &mut End) {
    let [a, b] = ends;
    if from == 0 { (a, b) } else { (b, a) }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 300, failure_persistence: None, ..ProptestConfig::default() })]
    #[test]
    fn messages_arrive_once_and_in_order(
        switch in config(Side::Switch),
        controller in config(Side::Controller),
        ops in ops(),
    ) {
        let mut ends = [End::new(switch), End::new(controller)];
        let mut now = Duration::ZERO;
        let mut xid = 1000;
        for op in ops {
            match op {
                Op::Send { end, what, size } => {
                    xid += 1;
                    ends[end].send(Msg { xid, body: message(end, what, size) });
                }
                Op::Move { end, bytes } => {
                    let (from, to) = pair(&mut ends, end);
                    carry(from, to, bytes, now);
                }
                Op::Look { end } => {
                    ends[end].look(now);
                }
                Op::Pass { millis } => {
                    now += Duration::from_millis(millis.into());
                    ends.iter_mut().for_each(|e| e.channel.tick(now));
                }
            }
        }
        // Then everything comes to rest; each round without work lets time pass to what is due.
        for round in 0.. {
            prop_assert!(round < 100_000, "it never comes to rest");
            let before = ends.each_ref().map(|e| e.channel.stats().clone());
            for end in 0..2 {
                let (from, to) = pair(&mut ends, end);
                carry(from, to, usize::MAX, now);
                while to.look(now) {}
            }
            if before == ends.each_ref().map(|e| e.channel.stats().clone()) {
                let due = ends.iter().filter(|e| e.up.is_some() && !e.closed);
                match due.filter_map(|e| e.channel.wake_at()).min() {
                    Some(at) if at > now => now = at,
                    _ => break,
                }
            }
        }

        let common = [Version::V13, Version::V10]
            .into_iter()
            .find(|v| switch.versions.has(*v) && controller.versions.has(*v));
        let [a, b] = &ends;
        prop_assert_eq!((a.channel.version(), b.channel.version()), (common, common));
        if common.is_none() {
            prop_assert!(a.closed && b.closed);
            prop_assert!(a.got.is_empty() && b.got.is_empty());
            return Ok(());
        }
        for (from, to) in [(a, b), (b, a)] {
            prop_assert_eq!(&from.taken, &to.got);
            let answer = |m: &Msg| match &m.body {
                Message::EchoRequest(data) => {
                    Msg { xid: m.xid, body: Message::EchoReply(data.clone()) }
                }
                _ => m.clone(),
            };
            prop_assert_eq!(from.asked.iter().map(answer).collect::<Vec<_>>(), from.answers.clone());
            prop_assert_eq!(from.dropped, from.channel.stats().dropped.iter().sum::<u64>());
            prop_assert_eq!(from.channel.stats().bytes_out, to.channel.stats().bytes_in);
            prop_assert_eq!(from.channel.stats().sent, to.channel.stats().received);
            prop_assert_eq!((from.channel.stats().refused, from.channel.stats().ignored), (0, 0));
        }
    }
}
