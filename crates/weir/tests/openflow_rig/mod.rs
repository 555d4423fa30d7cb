//! A controller's end of a connection for tests: a channel over any blocking stream.

#![allow(dead_code)]

pub mod by_tls;

use crate::run_daemon::{Daemon, LIMIT};
use std::io::{ErrorKind, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::time::{Duration, Instant};
use weir_openflow::channel::{Channel, CloseReason, Config, Event, Side};
use weir_openflow::model::{
    Action, ErrorMsg, Field, FlowCommand, FlowFilter, FlowFlags, FlowMod, FlowStats, GROUP_ANY,
    Instruction, Match, Message, Msg, NO_BUFFER, Part, Port, StatsReply, StatsRequest, Version,
};

/// Two ports that swallow, and a VDP over them with `openflow` in its `[vdp.openflow]`.
pub fn config(openflow: &str) -> String {
    format!(
        "[[port]]\nname = 'a'\ndevice = 'null'\n[[port]]\nname = 'b'\ndevice = 'null'\n\
         [[vdp]]\nvid = 1\nname = 'red'\nports = ['a', 'b']\nmapping = ['in_port=a', 'in_port=b']\n\
         [vdp.openflow]\n{openflow}\n"
    )
}

/// What `weir show` says of VDP 1 as a switch.
pub fn switch(d: &Daemon) -> serde_json::Value {
    d.json(&["show", "--vdp", "1"])["vdps"][0]["detail"]["openflow"].clone()
}

/// Where the first listener listens.
pub fn listening(d: &Daemon) -> String {
    switch(d)["listeners"][0]["bound"].as_str().unwrap().to_owned()
}

/// A connection to a switch.
pub struct Peer<S> {
    stream: S,
    channel: Channel,
    epoch: Instant,
    xid: u32,
}

impl Peer<TcpStream> {
    /// To a listener.
    pub fn to(address: &str) -> Self {
        let stream = TcpStream::connect(address).unwrap();
        patient(&stream);
        Self::over(stream).unwrap()
    }
    /// From a switch that comes to us.
    pub fn accept(listener: &TcpListener) -> Self {
        let (stream, _) = listener.accept().unwrap();
        patient(&stream);
        Self::over(stream).unwrap()
    }
}

/// Reads give up now and then, so that tests end.
pub fn patient(stream: &TcpStream) {
    stream.set_read_timeout(Some(Duration::from_millis(50))).unwrap();
    stream.set_nodelay(true).unwrap();
}

impl<S: Read + Write> Peer<S> {
    /// Over a stream, until a version is agreed.
    pub fn over(stream: S) -> Result<Self, String> {
        let channel = Channel::new(Config::new(Side::Controller), Duration::ZERO);
        let mut p = Self { stream, channel, epoch: Instant::now(), xid: 0 };
        match p.event()? {
            Event::Up(_) => Ok(p),
            other => Err(format!("{other:?}")),
        }
    }
    pub fn version(&self) -> Version {
        self.channel.version().unwrap()
    }
    /// The stream itself, for those who do not play by the rules.
    pub fn raw(&mut self) -> &mut S {
        &mut self.stream
    }
    fn flush(&mut self) -> Result<(), String> {
        while !self.channel.outgoing().is_empty() {
            match self.stream.write(self.channel.outgoing()) {
                Ok(n) => self.channel.advance(n),
                Err(e) if e.kind() == ErrorKind::WouldBlock => {}
                Err(e) => return Err(e.to_string()),
            }
        }
        self.stream.flush().map_err(|e| e.to_string())
    }
    fn event(&mut self) -> Result<Event, String> {
        let until = Instant::now() + LIMIT;
        let mut buffer = [0; 65536];
        loop {
            let now = self.epoch.elapsed();
            self.channel.tick(now);
            if let Some(e) = self.channel.next_event(now) {
                return Ok(e);
            }
            self.flush()?;
            if Instant::now() > until {
                return Err("nothing came".to_owned());
            }
            let room = self.channel.input_room().min(buffer.len());
            match self.stream.read(&mut buffer[..room]) {
                Ok(0) => return Err("closed".to_owned()),
                Ok(n) => {
                    self.channel.receive(&buffer[..n], self.epoch.elapsed());
                }
                Err(e) if matches!(e.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut) => {}
                Err(e) => return Err(e.to_string()),
            }
        }
    }
    /// The next message.
    pub fn next(&mut self) -> Result<Msg, String> {
        match self.event()? {
            Event::Message(r) => Ok(r.msg),
            Event::Closed(why) => Err(CloseReason::to_string(&why)),
            Event::Up(_) => Err("up again".to_owned()),
            Event::Misread(e) => Err(e.to_string()),
        }
    }
    /// Sends a request; its number.
    pub fn send(&mut self, body: Message) -> u32 {
        self.xid += 1;
        self.channel.send(&Msg { xid: self.xid, body }).unwrap();
        self.xid
    }
    /// Sends what waits.
    pub fn push(&mut self) {
        self.flush().unwrap();
    }
    /// Sends a request; the answer to it, and what came before it.
    pub fn ask(&mut self, body: Message) -> Result<(Message, Vec<Msg>), String> {
        let xid = self.send(body);
        let mut before = Vec::new();
        loop {
            let m = self.next()?;
            if m.xid == xid {
                return Ok((m.body, before));
            }
            before.push(m);
        }
    }
    /// A barrier; errors that came before its reply.
    pub fn barrier(&mut self) -> Result<Vec<ErrorMsg>, String> {
        let (reply, before) = self.ask(Message::BarrierRequest)?;
        assert_eq!(reply, Message::BarrierReply);
        let errors = before.into_iter().filter_map(|m| match m.body {
            Message::Error(e) => Some(e),
            _ => None,
        });
        Ok(errors.collect())
    }
    /// How many flows there are.
    pub fn flows(&mut self) -> usize {
        self.flow_stats().len()
    }
    /// What is told of the flows there are.
    pub fn flow_stats(&mut self) -> Vec<FlowStats> {
        let filter = FlowFilter::every_flow();
        let body = StatsRequest::Flow(filter);
        let xid = self.send(Message::StatsRequest { more: Part::Last, body });
        let mut all = Vec::new();
        loop {
            let m = self.next().unwrap();
            if let (true, Message::StatsReply { more, body: StatsReply::Flow(f) }) =
                (m.xid == xid, m.body)
            {
                all.extend(f);
                if more == Part::Last {
                    return all;
                }
            }
        }
    }
}

/// A flow for frames to this address.
pub fn flow(to: u64, out: u32) -> Message {
    Message::FlowMod(FlowMod {
        cookie: to,
        cookie_mask: 0,
        table: 0,
        command: FlowCommand::Add,
        idle_timeout: 0,
        hard_timeout: 0,
        priority: 100,
        buffer_id: NO_BUFFER,
        out_port: Port::ANY,
        out_group: GROUP_ANY,
        flags: FlowFlags::default(),
        matcher: Match::default().with(Field::EthDst, to.into()),
        instructions: vec![Instruction::Apply(vec![Action::Output {
            port: Port(out),
            max_len: 0,
        }])],
    })
}
