//! A device under test in virtual time, with a controller's channel at its other end.

#![allow(dead_code)]

use std::time::Duration;
use weir_measure::dut::Dut;
use weir_measure::dut::profile::Profile;
use weir_openflow::channel::{Channel, Config, Event, Side, Versions};
use weir_openflow::model::*;
use weir_packet::Nanos;
use weir_wire::build::Frame;

/// A device, one controller, and the time.
pub struct Rig {
    pub dut: Dut,
    pub now: u64,
    conn: u32,
    channel: Channel,
    xid: u32,
    /// Messages that came, with their time in microseconds.
    pub heard: Vec<(u64, Msg)>,
    /// Frames that left: time in microseconds, port, bytes.
    pub seen: Vec<(u64, u32, Vec<u8>)>,
    pub closed: Option<String>,
}

/// A profile with nothing but this.
pub fn profile(text: &str) -> Profile {
    Profile::read("test", &format!("name = \"test\"\nabout = \"a test\"\n{text}")).unwrap()
}

impl Rig {
    /// With a profile's text, three ports, one controller that speaks `version`.
    pub fn new(text: &str, version: Version) -> Self {
        Self::of(profile(text), version)
    }
    pub fn of(profile: Profile, version: Version) -> Self {
        let mut dut = Dut::new(profile, &["a", "b", "c"], Nanos(0));
        let conn = dut.connect(Nanos(0)).unwrap();
        let config = Config {
            versions: Versions::only(version),
            keep_alive: None,
            ..Config::new(Side::Controller)
        };
        let channel = Channel::new(config, Duration::ZERO);
        let (heard, seen) = (Vec::new(), Vec::new());
        let mut r = Self { dut, now: 0, conn, channel, xid: 0, heard, seen, closed: None };
        r.exchange();
        r
    }

    fn exchange(&mut self) {
        let at = Duration::from_nanos(self.now);
        loop {
            let mut moved = 0;
            let room = self.dut.input_room(self.conn).min(self.channel.outgoing().len());
            if room > 0 {
                let bytes = self.channel.outgoing()[..room].to_vec();
                let n = self.dut.receive(self.conn, &bytes, Nanos(self.now));
                self.channel.advance(n);
                moved += n;
            }
            let bytes = self.dut.outgoing(self.conn).to_vec();
            let n = self.channel.receive(&bytes, at);
            self.dut.advance(self.conn, n);
            moved += n;
            while let Some(event) = self.channel.next_event(at) {
                match event {
                    Event::Up(_) => {}
                    Event::Message(m) => self.heard.push((self.now / 1000, m.msg)),
                    Event::Closed(why) => self.closed = Some(why.to_string()),
                    Event::Misread(e) => panic!("the device's own message: {e}"),
                }
            }
            if moved == 0 {
                break;
            }
        }
        while let Some((port, bytes)) = self.dut.frame_out() {
            self.seen.push((self.now / 1000, port, bytes));
        }
        if let Some(why) = self.dut.over(self.conn) {
            self.closed.get_or_insert(why.to_owned());
        }
    }

    /// Lets time pass, event by event.
    pub fn until(&mut self, micros: u64) {
        let end = micros * 1000;
        while let Some(at) = self.dut.wake_at().map(|t| t.0).filter(|t| *t <= end) {
            self.now = self.now.max(at);
            self.dut.tick(Nanos(self.now));
            self.exchange();
        }
        self.now = end;
        self.dut.tick(Nanos(self.now));
        self.exchange();
    }

    /// Whether a version is agreed.
    pub fn channel_up(&self) -> bool {
        self.channel.version().is_some()
    }

    /// Sends a message now; gives its xid.
    pub fn send(&mut self, body: Message) -> u32 {
        self.queue(body);
        self.exchange();
        self.xid
    }
    /// Leaves a message for the next exchange.
    pub fn queue(&mut self, body: Message) -> u32 {
        self.xid += 1;
        self.channel.send(&Msg { xid: self.xid, body }).unwrap();
        self.xid
    }
    pub fn raw(&mut self, bytes: &[u8]) {
        self.dut.receive(self.conn, bytes, Nanos(self.now));
        self.exchange();
    }
    /// A frame comes by a port now.
    pub fn frame(&mut self, port: u32, bytes: &[u8]) {
        self.dut.frame_in(port, bytes, Nanos(self.now));
        self.exchange();
    }
    /// When the answers to a request came, and what they are.
    pub fn answers(&self, xid: u32) -> Vec<(u64, &Message)> {
        let mine = self.heard.iter().filter(|(_, m)| m.xid == xid);
        mine.map(|(at, m)| (*at, &m.body)).collect()
    }
    /// The only answer to a request.
    pub fn answer(&self, xid: u32) -> (u64, &Message) {
        let all = self.answers(xid);
        assert_eq!(all.len(), 1, "{all:?}");
        all[0]
    }
    /// The error that answers a request, if one does.
    pub fn error(&self, xid: u32) -> Option<ErrorCode> {
        self.answers(xid).into_iter().find_map(|(_, m)| match m {
            Message::Error(e) => Some(e.code),
            _ => None,
        })
    }
    /// Flows as statistics tell of them, now.
    pub fn flows(&mut self) -> Vec<FlowStats> {
        let xid = self.send(flow_stats());
        let one = |m: &Message| match m {
            Message::StatsReply { body: StatsReply::Flow(f), .. } => f.clone(),
            other => panic!("{other:?}"),
        };
        self.answers(xid).into_iter().flat_map(|(_, m)| one(m)).collect()
    }
}

/// Everything of everybody.
pub fn flow_stats() -> Message {
    let all = FlowFilter::every_flow();
    Message::StatsRequest { more: Part::Last, body: StatsRequest::Flow(all) }
}

pub fn flow(command: FlowCommand, priority: u16, matcher: Match, actions: Vec<Action>) -> FlowMod {
    let instructions = if actions.is_empty() { vec![] } else { vec![Instruction::Apply(actions)] };
    FlowMod { priority, matcher, instructions, ..FlowMod::new(command) }
}

pub fn output(port: u32) -> Action {
    Action::Output { port: Port(port), max_len: NO_MAX_LEN }
}

/// IPv4 to 10.0.x.y for n = 256 x + y.
pub fn to(n: u32) -> Match {
    Match::default().with(Field::EthType, 0x0800).with(Field::Ipv4Dst, (0x0a00_0000 + n).into())
}

/// Insertion of a flow for `to(n)` that sends by port 2.
pub fn insert(n: u32) -> Message {
    Message::FlowMod(flow(FlowCommand::Add, 100, to(n), vec![output(2)]))
}

/// A UDP frame to 10.0.x.y.
pub fn udp(n: u32) -> Vec<u8> {
    let dst = std::net::Ipv4Addr::from(0x0a00_0000 + n);
    let dst = std::net::SocketAddrV4::new(dst, 53);
    let mut buffer = [0; 200];
    let payload = [7; 58];
    let f = Frame::udp_v4("192.168.0.1:1000".parse().unwrap(), dst, &payload);
    let len = f.emit(&mut buffer).unwrap();
    buffer[..len].to_vec()
}
