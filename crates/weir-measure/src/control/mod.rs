//! The control channel of a measurement: the engine as controller.
//!
//! Room: one [`Stream`] at a time and `weir_openflow`'s channel, on a thread of its own. Every message is
//! stamped when it is written or read. Called by [`crate::engine::run`].
//!
//! Stamps are the program's, by the Unix clock: just before the system is given a message's last byte, just
//! after its bytes were taken from the system; with TLS, before it is encrypted and after it was decrypted.

pub mod pcap;
mod stream;

pub use stream::Stream;

use crate::engine::Input;
use crate::engine::ring::{Give, Take};
use crate::engine::wire::unix_now;
use pcap::Conversation;
use rustix::event::{EventfdFlags, PollFd, PollFlags, Timespec, eventfd, poll};
use std::collections::VecDeque;
use std::io::{self, Read, Write};
use std::os::fd::{AsFd, OwnedFd};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};
use weir_openflow::channel::{Channel, CloseReason, Config, Event, SendError, Side, Versions};
use weir_openflow::model::Msg;
use weir_packet::Nanos;

/// Makes a connection, in so long at most: connects, or waits for a switch that does.
pub type Dial = Box<dyn FnMut(Duration) -> io::Result<Box<dyn Stream>> + Send>;

/// Who comes to whom.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Comes {
    /// We to the switch: what does not work is told.
    Us,
    /// The switch to us: anybody else may come to an open port, and is passed over.
    Switch,
}

/// How to speak to the switch.
pub struct Settings {
    /// Makes connections.
    pub dial: Dial,
    /// Which way.
    pub comes: Comes,
    /// Versions offered.
    pub versions: Versions,
    /// How long a connection and its greeting may take.
    pub patience: Duration,
    /// Where the conversation is saved.
    pub pcap: Option<Conversation>,
}

/// What the engine wants.
#[derive(Debug)]
pub(crate) enum Order {
    /// A connection.
    Connect,
    /// None.
    Disconnect,
    /// A message sent.
    Send(Msg),
}

/// Wakes the channel's thread, which waits for its socket.
#[derive(Clone, Debug)]
pub(crate) struct Bell(Arc<OwnedFd>);

impl Bell {
    pub(crate) fn new() -> io::Result<Self> {
        Ok(Self(Arc::new(eventfd(0, EventfdFlags::NONBLOCK | EventfdFlags::CLOEXEC)?)))
    }
    pub(crate) fn ring(&self) {
        // It fails only when it rings already.
        let _ = rustix::io::write(&*self.0, &1u64.to_ne_bytes());
    }
    fn clear(&self) {
        let _ = rustix::io::read(&*self.0, &mut [0; 8]);
    }
}

/// Bytes given to the system at once: so that messages of a long batch have stamps of their own.
const CHUNK: usize = 4096;
/// The longest wait, so that a stop is heard; and how long after a stranger it is listened again.
const TURN: Duration = Duration::from_millis(50);

struct Line {
    /// Whether it has turned out to be a switch's: versions are agreed, or it offers others.
    is_switch: bool,
    /// When a switch should have come.
    until: Instant,
    stream: Box<dyn Stream>,
    /// Whether the stream may have bytes that the socket has given already: the last read was not told to
    /// wait.
    may_hold: bool,
    channel: Channel,
    since: Instant,
    /// Where each message that was queued ends, counted in bytes of the whole connection.
    ends: VecDeque<(u64, u32)>,
    /// Messages for which there was no room.
    held: VecDeque<Msg>,
}

/// What a turn came to.
enum Turn {
    Goes,
    Over(String),
}

/// The thread's work, until it is stopped. What it returns could not be told of any more: that the conversation was
/// not saved, and why.
pub(crate) fn serve(
    mut settings: Settings,
    mut orders: Take<Order>,
    mut events: Give<(Nanos, Input)>,
    bell: &Bell,
    stop: &AtomicBool,
) -> Option<String> {
    let mut line: Option<Line> = None;
    let mut input = vec![0; 65_536];
    while !stop.load(Ordering::Acquire) {
        bell.clear();
        while let Some(order) = orders.take() {
            match order {
                Order::Connect => {
                    let until = Instant::now() + settings.patience;
                    line = reach(&mut settings, until, &mut events, stop);
                }
                Order::Disconnect => {
                    if let Some(mut l) = line.take() {
                        // What was said last still goes out, as far as the switch takes it.
                        let _ = l.write(&mut settings.pcap, &mut events);
                    }
                    tell(&mut events, Input::Closed("closed by this side".to_owned()));
                }
                Order::Send(msg) => {
                    if let Some(l) = &mut line {
                        l.held.push_back(msg);
                    }
                }
            }
        }
        let Some(l) = &mut line else {
            let _ = poll(&mut [PollFd::new(&*bell.0, PollFlags::IN)], Some(&timespec(TURN)));
            continue;
        };
        match l.turn(&mut settings.pcap, &mut events, &mut input, bell) {
            Turn::Goes => {}
            Turn::Over(why) => {
                let (is_switch, until) = (l.is_switch, l.until);
                line = None;
                if is_switch || settings.comes == Comes::Us {
                    tell(&mut events, Input::Closed(why));
                } else {
                    tell(&mut events, Input::Stranger(why));
                    line = reach(&mut settings, until, &mut events, stop);
                }
            }
        }
    }
    if let Some(mut l) = line {
        let _ = l.write(&mut settings.pcap, &mut events);
    }
    let saved = settings.pcap.as_mut().map(Conversation::finish);
    saved?.err().map(|e| format!("The conversation could not be saved: {e}."))
}

fn timespec(d: Duration) -> Timespec {
    Timespec { tv_sec: d.as_secs() as i64, tv_nsec: i64::from(d.subsec_nanos()) }
}

fn tell(events: &mut Give<(Nanos, Input)>, input: Input) {
    // A taker that is gone needs nothing any more.
    let _ = events.give_surely((unix_now(), input));
    events.wake();
}

/// Makes a connection, and passes over whoever comes and can't be a switch. `None`: that was told.
fn reach(
    settings: &mut Settings,
    until: Instant,
    events: &mut Give<(Nanos, Input)>,
    stop: &AtomicBool,
) -> Option<Line> {
    loop {
        match open(settings, until) {
            Ok(line) => return Some(line),
            Err(e) if settings.comes == Comes::Us || Instant::now() >= until => {
                tell(events, Input::Closed(e.to_string()));
                return None;
            }
            Err(e) => tell(events, Input::Stranger(e.to_string())),
        }
        if stop.load(Ordering::Acquire) {
            return None;
        }
        std::thread::sleep(TURN);
    }
}

fn open(settings: &mut Settings, until: Instant) -> io::Result<Line> {
    let stream = (settings.dial)(until.saturating_duration_since(Instant::now()))?;
    stream.ready()?;
    let may_hold = stream.buffers();
    if let Some(p) = &mut settings.pcap {
        p.connection(stream.socket().local_addr().ok(), stream.socket().peer_addr().ok());
    }
    let mut config = Config::new(Side::Controller);
    config.versions = settings.versions;
    // Nothing is sent that the measurement did not ask for.
    config.keep_alive = None;
    // The measurement's own patience ends before, and says more exactly what did not come.
    let since = Instant::now();
    config.limits.handshake = match settings.comes {
        Comes::Us => settings.patience.saturating_add(Duration::from_secs(1)),
        // Who says nothing keeps the switch waiting no longer than half of what is left.
        Comes::Switch => until.saturating_duration_since(since) / 2,
    };
    Ok(Line {
        is_switch: false,
        until,
        stream,
        may_hold,
        channel: Channel::new(config, Duration::ZERO),
        since,
        ends: VecDeque::new(),
        held: VecDeque::new(),
    })
}

impl Line {
    fn now(&self) -> Duration {
        self.since.elapsed()
    }

    fn turn(
        &mut self,
        pcap: &mut Option<Conversation>,
        events: &mut Give<(Nanos, Input)>,
        input: &mut [u8],
        bell: &Bell,
    ) -> Turn {
        self.channel.tick(self.now());
        if let Turn::Over(why) = self.hear(unix_now(), events) {
            return Turn::Over(why);
        }
        if let Err(e) = self.queue(events).and_then(|()| self.write(pcap, events)) {
            return Turn::Over(format!("writing to the switch: {e}"));
        }
        let mut wanted = PollFlags::empty();
        if self.channel.wants_read() {
            wanted |= PollFlags::IN;
        }
        if !self.channel.outgoing().is_empty() || self.stream.holds_back() {
            wanted |= PollFlags::OUT;
        }
        let wait =
            self.channel.wake_at().map_or(TURN, |at| at.saturating_sub(self.now()).min(TURN));
        let wait = if self.may_hold && self.channel.wants_read() { Duration::ZERO } else { wait };
        let ready = {
            let stream = self.stream.socket().as_fd();
            let mut fds = [
                PollFd::from_borrowed_fd(stream, wanted),
                PollFd::from_borrowed_fd(bell.0.as_fd(), PollFlags::IN),
            ];
            let _ = poll(&mut fds, Some(&timespec(wait)));
            fds[0].revents()
        };
        // Writing held reading up.
        self.may_hold |= self.stream.buffers() && ready.contains(PollFlags::OUT);
        let there = ready.intersects(PollFlags::IN | PollFlags::HUP | PollFlags::ERR);
        let held = self.may_hold && self.channel.wants_read();
        if !there && !held {
            return Turn::Goes;
        }
        let room = self.channel.input_room().clamp(1, input.len());
        self.may_hold = self.stream.buffers();
        match self.stream.read(&mut input[..room]) {
            Ok(0) => Turn::Over("the switch closed it".to_owned()),
            Ok(n) => {
                let at = unix_now();
                if let Some(p) = pcap {
                    p.received(at, &input[..n]);
                }
                let now = self.now();
                self.channel.receive(&input[..n], now);
                self.hear(at, events)
            }
            Err(e) if e.kind() == io::ErrorKind::WouldBlock => {
                self.may_hold = false;
                Turn::Goes
            }
            Err(e) if e.kind() == io::ErrorKind::Interrupted => Turn::Goes,
            // TLS: it went without a word of farewell, as many do.
            Err(e) if e.kind() == io::ErrorKind::UnexpectedEof => {
                Turn::Over("the switch closed it".to_owned())
            }
            Err(e) => Turn::Over(format!("reading from the switch: {e}")),
        }
    }

    /// Hands over what the channel has understood.
    fn hear(&mut self, at: Nanos, events: &mut Give<(Nanos, Input)>) -> Turn {
        let mut over = None;
        while let Some(event) = self.channel.next_event(self.now()) {
            let input = match event {
                Event::Up(version) => {
                    self.is_switch = true;
                    Input::Up(version)
                }
                Event::Message(received) => Input::Message(received.msg),
                Event::Misread(e) => Input::Misread(e),
                Event::Closed(why) => {
                    self.is_switch |= matches!(
                        why,
                        CloseReason::NoCommonVersion { .. } | CloseReason::Refused { .. }
                    );
                    over = Some(why.to_string());
                    break;
                }
            };
            if !events.give_surely((at, input)) {
                return Turn::Over("the measurement is over".to_owned());
            }
        }
        events.wake();
        over.map_or(Turn::Goes, Turn::Over)
    }

    /// Encodes what is held, as far as there is room.
    fn queue(&mut self, events: &mut Give<(Nanos, Input)>) -> io::Result<()> {
        while let Some(msg) = self.held.front() {
            match self.channel.send(msg) {
                Ok(_) => {
                    let end = self.channel.stats().bytes_out + self.channel.outgoing().len() as u64;
                    self.ends.push_back((end, msg.xid));
                }
                Err(SendError::Full) => break,
                // Not greeted yet: the engine sends nothing before it is told so.
                Err(SendError::NotUp) => {}
                Err(e) => {
                    let why = format!("a message can't be sent: {e}");
                    let _ = events.give_surely((unix_now(), Input::Interrupted(why)));
                }
            }
            self.held.pop_front();
        }
        Ok(())
    }

    /// Writes what waits, as far as the system takes it.
    fn write(
        &mut self,
        pcap: &mut Option<Conversation>,
        events: &mut Give<(Nanos, Input)>,
    ) -> io::Result<()> {
        loop {
            let waiting = self.channel.outgoing();
            let chunk = &waiting[..waiting.len().min(CHUNK)];
            if chunk.is_empty() {
                if self.held.is_empty() {
                    break;
                }
                self.queue(events)?;
                if self.channel.outgoing().is_empty() {
                    break;
                }
                continue;
            }
            let at = unix_now();
            let n = match self.stream.write(chunk) {
                Ok(0) => return Err(io::ErrorKind::WriteZero.into()),
                Ok(n) => n,
                Err(e) if e.kind() == io::ErrorKind::WouldBlock => break,
                Err(e) if e.kind() == io::ErrorKind::Interrupted => continue,
                Err(e) => return Err(e),
            };
            if let Some(p) = pcap {
                p.sent(at, &chunk[..n]);
            }
            self.channel.advance(n);
            let out = self.channel.stats().bytes_out;
            while let Some((_, xid)) = self.ends.front().copied().filter(|(end, _)| *end <= out) {
                self.ends.pop_front();
                let _ = events.give_surely((at, Input::Written(xid)));
            }
        }
        // Of a wrapped stream: what it could not hand on before.
        match self.stream.flush() {
            Err(e) if e.kind() != io::ErrorKind::WouldBlock => return Err(e),
            _ => {}
        }
        events.wake();
        Ok(())
    }
}
