//! A controller's connection: blocking, one thread.
//!
//! Room: one TCP stream, `weir_openflow`'s framing and codec. Either end may have connected.

use crate::fault::bad_input;
use anyhow::{Context, Result, bail};
use std::io::{Read, Write};
use std::net::{Shutdown, TcpStream};
use std::time::{Duration, Instant};
use weir_openflow::codec::{decode, encode};
use weir_openflow::framing::Framer;
use weir_openflow::model::{FlowMod, Message, Msg, Part, StatsReply, StatsRequest, Version};

/// Which switch, and how to speak to it.
#[derive(Clone, Debug)]
pub struct Target {
    /// HOST:PORT.
    pub address: String,
    /// The one version offered.
    pub version: Version,
}

/// A connection whose greeting is done.
#[derive(Debug)]
pub struct Link {
    stream: TcpStream,
    framer: Framer,
    /// Bytes received and not framed yet.
    input: Vec<u8>,
    at: usize,
    /// The version spoken.
    pub version: Version,
    xid: u32,
    /// Errors that came.
    pub errors: u64,
    /// The first of them, in words.
    pub first_error: Option<String>,
}

fn is_timeout(e: &std::io::Error) -> bool {
    matches!(e.kind(), std::io::ErrorKind::WouldBlock | std::io::ErrorKind::TimedOut)
}

/// No answer for so long: the switch hangs.
const PATIENCE: Duration = Duration::from_secs(60);

impl Link {
    /// Connects and greets.
    pub fn open(t: &Target) -> Result<Self> {
        let stream = TcpStream::connect(&t.address)
            .map_err(|e| bad_input(format!("{}: {e}: does a switch listen there?", t.address)))?;
        Self::greet(stream, t.version).with_context(|| format!("switch at {}", t.address))
    }

    /// Greets on a stream that is there already.
    pub fn greet(stream: TcpStream, version: Version) -> Result<Self> {
        stream.set_nodelay(true)?;
        stream.set_read_timeout(Some(PATIENCE))?;
        let mut link = Self {
            stream,
            framer: Framer::new(),
            input: Vec::new(),
            at: 0,
            version,
            xid: 1,
            errors: 0,
            first_error: None,
        };
        let bitmap = vec![1 << version as u8];
        link.send(Message::Hello { version: version as u8, bitmap })?;
        loop {
            match link.next()?.body {
                Message::Hello { .. } => break,
                Message::Error(e) => bail!("it refuses the version: {e:?}"),
                _ => {}
            }
        }
        Ok(link)
    }

    /// What ends the connection, from another thread.
    pub fn hang_up(&self) -> Result<impl FnOnce() + Send + 'static> {
        let stream = self.stream.try_clone()?;
        Ok(move || _ = stream.shutdown(Shutdown::Both))
    }

    /// Sends one message; says its xid.
    pub fn send(&mut self, body: Message) -> Result<u32> {
        let (xid, bytes) = self.bytes(body)?;
        self.write(&bytes)?;
        Ok(xid)
    }

    /// A message as bytes, with a new xid.
    pub fn bytes(&mut self, body: Message) -> Result<(u32, Vec<u8>)> {
        let mut out = Vec::new();
        self.append(body, &mut out).map(|xid| (xid, out))
    }

    /// Answers a message: sends `body` with its xid.
    pub fn answer(&mut self, xid: u32, body: Message) -> Result<()> {
        let mut out = Vec::new();
        encode(self.version, &Msg { xid, body }, &mut out)?;
        self.write(&out)
    }

    /// Appends a message to bytes that will be sent together.
    pub fn append(&mut self, body: Message, out: &mut Vec<u8>) -> Result<u32> {
        self.xid = self.xid.wrapping_add(1);
        encode(self.version, &Msg { xid: self.xid, body }, out)?;
        Ok(self.xid)
    }

    /// Sends bytes; reads meanwhile, so that a switch that answers much can't block both.
    pub fn write(&mut self, mut bytes: &[u8]) -> Result<()> {
        self.stream.set_nonblocking(true)?;
        while !bytes.is_empty() {
            match self.stream.write(bytes) {
                Ok(0) => bail!("the switch hung up"),
                Ok(n) => bytes = &bytes[n..],
                Err(e) if e.kind() == std::io::ErrorKind::WouldBlock => {
                    let mut more = [0; 16384];
                    match self.stream.read(&mut more) {
                        Ok(0) => bail!("the switch hung up"),
                        Ok(n) => self.input.extend_from_slice(&more[..n]),
                        Err(e) if e.kind() == std::io::ErrorKind::WouldBlock => {
                            std::thread::sleep(Duration::from_micros(20));
                        }
                        Err(e) => return Err(e).context("reading from the switch"),
                    }
                }
                Err(e) => return Err(e).context("writing to the switch"),
            }
        }
        self.stream.set_nonblocking(false)?;
        Ok(())
    }

    /// Sends bytes for as long as `going` says so, and forgets what comes meanwhile; whether all were sent.
    pub fn try_write(&mut self, mut bytes: &[u8], going: &dyn Fn() -> bool) -> Result<bool> {
        self.stream.set_nonblocking(true)?;
        while !bytes.is_empty() && going() {
            match self.stream.write(bytes) {
                Ok(0) => bail!("the switch hung up"),
                Ok(n) => bytes = bytes.get(n..).unwrap_or_default(),
                Err(e) if is_timeout(&e) => std::thread::sleep(Duration::from_micros(100)),
                Err(e) => return Err(e).context("writing to the switch"),
            }
            let mut more = [0; 16384];
            while self.stream.read(&mut more).is_ok_and(|n| n > 0) {}
        }
        self.stream.set_nonblocking(false)?;
        Ok(bytes.is_empty())
    }

    /// How long an answer is waited for.
    pub fn set_patience(&mut self, patience: Duration) -> Result<()> {
        Ok(self.stream.set_read_timeout(Some(patience))?)
    }

    /// [`Link::next`], or `None` when nothing came in time.
    pub fn next_within_patience(&mut self) -> Result<Option<Msg>> {
        match self.next() {
            Ok(m) => Ok(Some(m)),
            Err(e) if e.downcast_ref::<std::io::Error>().is_some_and(is_timeout) => Ok(None),
            Err(e) => Err(e),
        }
    }

    /// The next message; echo requests are answered, errors counted and passed on.
    pub fn next(&mut self) -> Result<Msg> {
        loop {
            let mut rest = &self.input[self.at..];
            let before = rest.len();
            let msg = match self.framer.next(&mut rest)? {
                Some(frame) => Some(decode(self.version, frame)?),
                None => None,
            };
            self.at += before - rest.len();
            if self.at == self.input.len() {
                self.input.clear();
                self.at = 0;
            }
            match msg {
                Some(Msg { xid, body: Message::EchoRequest(data) }) => {
                    self.answer(xid, Message::EchoReply(data))?;
                }
                Some(m) => {
                    if let Message::Error(e) = &m.body {
                        self.errors += 1;
                        self.first_error.get_or_insert_with(|| format!("{:?}", e.code));
                    }
                    return Ok(m);
                }
                None => {
                    let mut more = [0; 65536];
                    let n = self.stream.read(&mut more).context("no answer from the switch")?;
                    if n == 0 {
                        bail!("the switch hung up");
                    }
                    self.input.extend_from_slice(&more[..n]);
                }
            }
        }
    }

    /// Whether bytes of a further message are here already.
    pub fn has_more(&self) -> bool {
        self.at < self.input.len()
    }

    /// A barrier: how long its reply took.
    pub fn barrier(&mut self) -> Result<Duration> {
        let (xid, bytes) = self.bytes(Message::BarrierRequest)?;
        let start = Instant::now();
        self.write(&bytes)?;
        self.until_barrier(xid)?;
        Ok(start.elapsed())
    }

    /// Waits for a barrier's reply.
    pub fn until_barrier(&mut self, xid: u32) -> Result<()> {
        loop {
            let m = self.next()?;
            if m.xid == xid && m.body == Message::BarrierReply {
                return Ok(());
            }
        }
    }

    /// Who the switch says it is.
    pub fn describe(&mut self) -> Result<String> {
        let xid =
            self.send(Message::StatsRequest { more: Part::Last, body: StatsRequest::Desc })?;
        loop {
            let m = self.next()?;
            if m.xid != xid {
                continue;
            }
            match m.body {
                Message::StatsReply { body: StatsReply::Desc(d), .. } => {
                    return Ok(format!("{} {} {}", d.manufacturer, d.hardware, d.software));
                }
                Message::Error(e) => bail!("no description: {e:?}"),
                _ => {}
            }
        }
    }

    /// Deletes every flow and waits.
    pub fn delete_flows(&mut self) -> Result<Duration> {
        let all = Message::FlowMod(FlowMod::delete_all(self.version));
        let start = Instant::now();
        self.send(all)?;
        self.barrier()?;
        Ok(start.elapsed())
    }

    /// Asks for statistics and counts the flows in all parts of the answer.
    pub fn count_flows(&mut self, request: StatsRequest) -> Result<usize> {
        let xid = self.send(Message::StatsRequest { more: Part::Last, body: request })?;
        let mut n = 0;
        loop {
            let m = self.next()?;
            if m.xid != xid {
                continue;
            }
            match m.body {
                Message::StatsReply { more, body: StatsReply::Flow(flows) } => {
                    n += flows.len();
                    if more == Part::Last {
                        return Ok(n);
                    }
                }
                Message::Error(e) => bail!("no flow statistics: {e:?}"),
                _ => {}
            }
        }
    }
}
