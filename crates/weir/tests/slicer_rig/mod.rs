//! Both sides of a `weir slicer`, for tests: connections whose messages are read one by one, a switch with three
//! ports, and the slicer's process.
#![allow(dead_code)]

use std::io::{Read, Write};
use std::net::TcpStream;
use std::process::Child;
use weir_openflow::codec::{decode, encode};
use weir_openflow::framing::Framer;
use weir_openflow::model::*;

/// A connection whose messages are read one by one.
pub struct Line<S = TcpStream> {
    stream: S,
    framer: Framer,
    input: Vec<u8>,
}

impl Line {
    pub fn new(tcp: TcpStream) -> Self {
        tcp.set_nodelay(true).unwrap();
        Self::over(tcp)
    }
}

impl<S: Read + Write> Line<S> {
    pub fn over(stream: S) -> Self {
        let mut l = Self { stream, framer: Framer::new(), input: Vec::new() };
        l.send(0, Message::Hello { version: 4, bitmap: vec![1 << 4] });
        l
    }
    /// Whether it could be sent.
    pub fn send(&mut self, xid: u32, body: Message) -> bool {
        let mut bytes = Vec::new();
        encode(Version::V13, &Msg { xid, body }, &mut bytes).unwrap();
        self.stream.write_all(&bytes).is_ok()
    }
    /// The next message; `None` when the other end has gone. Echo requests are answered.
    pub fn next(&mut self) -> Option<Msg> {
        loop {
            let mut rest = &self.input[..];
            let msg = self.framer.next(&mut rest).unwrap();
            let msg = msg.map(|frame| decode(Version::V13, frame).unwrap());
            let read = self.input.len() - rest.len();
            self.input.drain(..read);
            match msg {
                Some(Msg { xid, body: Message::EchoRequest(data) }) => {
                    self.send(xid, Message::EchoReply(data));
                }
                Some(Msg { body: Message::Hello { .. }, .. }) => {}
                Some(m) => return Some(m),
                None => {
                    let mut more = [0; 65536];
                    match self.stream.read(&mut more) {
                        Ok(n) if n > 0 => self.input.extend_from_slice(&more[..n]),
                        _ => return None,
                    }
                }
            }
        }
    }
}

/// Ended when the test is.
pub struct Slicer(pub Child);

impl Drop for Slicer {
    fn drop(&mut self) {
        // It may have been killed.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

pub fn port(no: u32) -> PortDesc {
    PortDesc::new(Port(no), [2, 0, 0, 0, 0, no as u8], format!("p{no}"))
}

/// What the switch says of itself.
pub fn features() -> Message {
    Message::FeaturesReply(Features {
        datapath_id: 0x51,
        buffers: 0,
        tables: 254,
        auxiliary_id: 0,
        capabilities: Capabilities::FLOW_STATS,
        actions: 0,
        ports: Vec::new(),
    })
}

/// Answers a slicer as a switch without flows, until it has gone; flow_mods are counted.
pub fn be_switch<S: Read + Write>(mut line: Line<S>) -> usize {
    let mut flow_mods = 0;
    while let Some(m) = line.next() {
        let last = |body| Message::StatsReply { more: Part::Last, body };
        let body = match m.body {
            Message::FlowMod(_) => {
                flow_mods += 1;
                continue;
            }
            Message::BarrierRequest => Message::BarrierReply,
            Message::FeaturesRequest => features(),
            Message::StatsRequest { body: StatsRequest::PortDesc, .. } => {
                last(StatsReply::PortDesc((1..=3).map(port).collect()))
            }
            _ => continue,
        };
        if !line.send(m.xid, body) {
            break;
        }
    }
    flow_mods
}
