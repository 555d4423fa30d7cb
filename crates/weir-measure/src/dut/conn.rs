//! One control connection: the channel, bytes that are no message, and how it ends.
//!
//! Room: bytes and messages; part of `Dut`. What the channel says is understood by `agent`.

use super::profile::{Connection, Echo, Speaks};
use core::time::Duration;
use weir_openflow::channel::{Channel, Config, EchoBy, Event, Head, KeepAlive, Side, Versions};
use weir_openflow::model::{ErrorCode, Message, Msg, Version};
use weir_packet::Nanos;

/// A hello of 1.4 whose bitmap has no other version.
const HELLO_14: [u8; 16] = [5, 0, 0, 16, 0, 0, 0, 1, 0, 1, 0, 8, 0, 0, 0, 0x20];
/// HELLO_FAILED, INCOMPATIBLE of 1.4.
const FAILED_14: [u8; 12] = [5, 1, 0, 12, 0, 0, 0, 2, 0, 0, 0, 0];
/// A header that tells a length of 3: nothing behind it can be read.
const GARBAGE: [u8; 16] = *b"\x04\xfe\x00\x03garbage here";

/// Bytes outside the channel that may wait before no further message is taken.
const WAITING: usize = 1 << 20;

/// How the device speaks on it.
enum Speech {
    OpenFlow(Box<Channel>),
    Only14,
    Nothing,
}

/// A connection.
pub(super) struct Conn {
    speech: Speech,
    /// Bytes on their way out, the channel's and others'.
    out: Vec<u8>,
    /// Messages that came.
    pub(super) messages: u64,
    over: Option<String>,
}

fn time(now: Nanos) -> Duration {
    Duration::from_nanos(now.0)
}

impl Conn {
    pub(super) fn new(how: &Connection, echo: &Echo, now: Nanos) -> Self {
        let versions = match how.speaks {
            Speaks::Only10 => Versions::only(Version::V10),
            Speaks::Only13 => Versions::only(Version::V13),
            Speaks::Both | Speaks::Only14 | Speaks::Nothing => Versions::ALL,
        };
        let config = Config {
            versions,
            // A measurement may be silent for long.
            keep_alive: Some(KeepAlive { interval: Duration::from_secs(60), probes: 5 }),
            echo: if echo.delay_us.is_zero() { EchoBy::Channel } else { EchoBy::Owner },
            ..Config::new(Side::Switch)
        };
        let mut out = Vec::new();
        let speech = match how.speaks {
            Speaks::Nothing => Speech::Nothing,
            Speaks::Only14 => {
                out.extend(HELLO_14);
                Speech::Only14
            }
            _ => Speech::OpenFlow(Box::new(Channel::new(config, time(now)))),
        };
        Self { speech, out, messages: 0, over: None }
    }

    fn channel(&mut self) -> Option<&mut Channel> {
        match &mut self.speech {
            Speech::OpenFlow(c) => Some(c),
            _ => None,
        }
    }

    /// How many bytes it takes now.
    pub(super) fn input_room(&self) -> usize {
        match &self.speech {
            _ if self.over.is_some() => 0,
            Speech::OpenFlow(c) => c.input_room(),
            Speech::Only14 | Speech::Nothing => 65_536,
        }
    }

    /// Takes bytes in, and says how many.
    pub(super) fn receive(&mut self, bytes: &[u8], now: Nanos) -> usize {
        match &mut self.speech {
            Speech::OpenFlow(c) => c.receive(bytes, time(now)),
            Speech::Only14 if !bytes.is_empty() => {
                self.out.extend(FAILED_14);
                self.end("we speak 1.4 alone");
                bytes.len()
            }
            Speech::Only14 | Speech::Nothing => bytes.len(),
        }
    }

    /// The next message.
    pub(super) fn next(&mut self, now: Nanos) -> Option<(Msg, Head)> {
        if self.out.len() >= WAITING {
            return None;
        }
        loop {
            match self.channel()?.next_event(time(now))? {
                // The second is a controller's alone.
                Event::Up(_) | Event::Misread(_) => {}
                Event::Message(m) => {
                    self.messages += 1;
                    return Some((m.msg, m.head));
                }
                Event::Closed(why) => {
                    self.end(&why.to_string());
                    return None;
                }
            }
        }
    }

    /// The version agreed on.
    pub(super) fn version(&self) -> Option<Version> {
        match &self.speech {
            Speech::OpenFlow(c) if self.over.is_none() => c.version(),
            _ => None,
        }
    }

    /// Sends a message; what has no form in the connection's version is left out.
    pub(super) fn send(&mut self, msg: &Msg) {
        if let Some(c) = self.channel() {
            let _ = c.send(msg);
        }
    }
    /// The same for a message that answers none. Its xid is 0, which nobody's request has: some
    /// take whatever bears their number for an answer.
    pub(super) fn tell(&mut self, body: Message) {
        self.send(&Msg { xid: 0, body });
    }
    /// Answers a message by an error.
    pub(super) fn refuse(&mut self, head: &Head, code: ErrorCode) {
        if let Some(c) = self.channel() {
            // It fails where the connection is over: nobody is left to tell.
            let _ = c.refuse(head, code);
        }
    }
    /// Whether long answers may go on.
    pub(super) fn takes_answers(&self) -> bool {
        match &self.speech {
            Speech::OpenFlow(c) => c.output_room() > 0,
            _ => true,
        }
    }

    /// Sends bytes that mean nothing, between two messages.
    pub(super) fn send_garbage(&mut self) {
        self.gather();
        self.out.extend(GARBAGE);
    }

    fn gather(&mut self) {
        if let Speech::OpenFlow(c) = &mut self.speech {
            self.out.extend_from_slice(c.outgoing());
            c.advance(c.outgoing().len());
        }
    }

    /// What is to be written. The channel's bytes follow when what is here has gone.
    pub(super) fn outgoing(&mut self) -> &[u8] {
        if self.out.is_empty() {
            self.gather();
        }
        &self.out
    }
    /// The first `n` bytes were written.
    pub(super) fn advance(&mut self, n: usize) {
        self.out.drain(..n.min(self.out.len()));
    }

    /// When it wants `tick`.
    pub(super) fn due(&self) -> Option<Nanos> {
        match &self.speech {
            Speech::OpenFlow(c) if self.over.is_none() => {
                c.wake_at().map(|t| Nanos(u64::try_from(t.as_nanos()).unwrap_or(u64::MAX)))
            }
            _ => None,
        }
    }
    /// Does what is due by time.
    pub(super) fn tick(&mut self, now: Nanos) {
        if let Some(c) = self.channel() {
            c.tick(time(now));
        }
    }

    /// Ends it, once what is outgoing was written.
    pub(super) fn end(&mut self, why: &str) {
        if self.over.is_none() {
            self.gather();
            self.over = Some(why.to_owned());
        }
    }
    /// Why it is to be closed.
    pub(super) fn over(&self) -> Option<&str> {
        self.over.as_deref()
    }
}
