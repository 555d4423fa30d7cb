//! The channel: what its owner calls.
//!
//! Room: holds the buffers, the limits and the phase of one connection. What arrives is judged in
//! `understand`; here it is taken in, held back and let out.

use super::greeting::{Greeting, greet, hello_failed};
use super::inbox::{Front, HEADER, Inbox};
use super::keep_alive::{Due, Watch};
use super::outbox::Outbox;
use super::stats::From;
use super::token_bucket::TokenBucket;
use super::{
    ChannelStats, CloseReason, Config, Event, Gate, Head, Kind, Offer, Open, SendError, Sent, Side,
    Toll,
};
use crate::codec::{self, DecodeError};
use crate::model::{ErrorCode, ErrorMsg, Message, Msg, Version};
use crate::multipart::Joiner;
use core::time::Duration;

/// OFPT_ECHO_REQUEST, in all versions.
const ECHO_REQUEST: u8 = 2;
/// Output that a controller keeps beyond its limit for answers to echo requests: a switch that waits
/// for them while it waits for us to read would else wait for ever.
const ECHO_ROOM: usize = 64 * 1024;
/// Input taken while it is held back.
const HELD_INPUT: usize = 4096;
/// OFPT_FLOW_MOD, in both versions.
const FLOW_MOD: u8 = 14;
/// What an echo request for a sign of life carries, so that its answer is told from others.
pub(super) const PROBE: &[u8] = b"weir alive?";

/// Where the conversation stands.
pub(super) enum Phase {
    /// Our hello is out; the peer's is awaited until then.
    Greeting { until: Duration },
    /// A version is agreed.
    Up(Version),
    /// It is over; the reason is taken by the next event.
    Closed(Option<CloseReason>),
}

/// One control connection.
pub struct Channel {
    inbox: Inbox,
    core: Core,
}

/// All of a channel but its input, which it judges.
pub(super) struct Core {
    pub(super) config: Config,
    pub(super) phase: Phase,
    pub(super) out: Outbox,
    pub(super) stats: ChannelStats,
    pub(super) joiner: Joiner,
    watch: Option<Watch>,
    messages: Option<TokenBucket>,
    flow_mods: Option<TokenBucket>,
    throttled: Option<Duration>,
    pushing_back: bool,
    moved: bool,
    xid: u32,
}

impl Channel {
    /// A connection that was just made: our hello waits to be written.
    /// `now` here and everywhere: time since any fixed moment, the same for all calls.
    pub fn new(config: Config, now: Duration) -> Self {
        let limits = &config.limits;
        let mut core = Core {
            phase: Phase::Greeting { until: now.saturating_add(limits.handshake) },
            out: Outbox::default(),
            stats: ChannelStats::default(),
            joiner: Joiner::new(),
            watch: config.keep_alive.map(|k| Watch::new(k, now)),
            messages: limits.messages.map(|r| TokenBucket::new(r, now)),
            flow_mods: limits.flow_mods.map(|r| TokenBucket::new(r, now)),
            throttled: None,
            pushing_back: false,
            moved: false,
            xid: 0,
            config,
        };
        let xid = core.next_xid();
        let hello = Msg { xid, body: Offer::of(config.versions).message() };
        // Sixteen bytes always have a form.
        let _ = core.send(Version::V10, &hello);
        Self { inbox: Inbox::default(), core }
    }

    /// A connection that was another channel's until now, which had agreed on this version and had not
    /// made messages yet of these bytes, given by [`Channel::let_go`].
    pub fn resume(config: Config, version: Version, input: &[u8], now: Duration) -> Self {
        let mut c = Self::new(config, now);
        // The hello was said by the other.
        c.core.out = Outbox::default();
        c.core.phase = Phase::Up(version);
        c.inbox.restore(input);
        c
    }
    /// Ends the channel for another to resume the connection: the bytes that no message was made of yet.
    /// What waits to be written, and a request of which parts are missing, end here.
    pub fn let_go(&mut self) -> Vec<u8> {
        self.core.phase = Phase::Closed(None);
        self.core.out = Outbox::default();
        self.inbox.take()
    }

    /// The version agreed on, while the connection is up.
    pub fn version(&self) -> Option<Version> {
        match self.core.phase {
            Phase::Up(version) => Some(version),
            _ => None,
        }
    }
    /// Whether the connection is over.
    pub fn is_closed(&self) -> bool {
        matches!(self.core.phase, Phase::Closed(_))
    }
    /// What passed through.
    pub fn stats(&self) -> &ChannelStats {
        &self.core.stats
    }
    /// Whether input should be read: not for long while answers wait to be read or a rate limit
    /// holds it back.
    pub fn wants_read(&self) -> bool {
        self.input_room() > 0
    }
    /// How many bytes should be read at most.
    pub fn input_room(&self) -> usize {
        let core = &self.core;
        if self.is_closed() {
            0
        } else if core.throttled.is_some() || core.answers_wait() {
            HELD_INPUT.saturating_sub(self.inbox.len())
        } else {
            self.inbox.room()
        }
    }

    /// Takes bytes in, and says how many: at least [`input_room`](Self::input_room) of them. What it
    /// does not take is to be given again. After the end it takes and forgets everything.
    pub fn receive(&mut self, bytes: &[u8], now: Duration) -> usize {
        if self.is_closed() {
            return bytes.len();
        }
        let taken = self.inbox.push(bytes);
        self.core.stats.bytes_in += taken as u64;
        if taken > 0 {
            self.core.heard(now);
        }
        taken
    }

    /// The next thing that happened. `None`: nothing, until more bytes come, the output is written or
    /// [`wake_at`](Self::wake_at) has come.
    pub fn next_event(&mut self, now: Duration) -> Option<Event> {
        self.next_event_by(&mut Open, now)
    }

    /// As [`next_event`](Self::next_event), with a gate that messages pass beside the channel's own
    /// limits.
    pub fn next_event_by(&mut self, gate: &mut dyn Gate, now: Duration) -> Option<Event> {
        loop {
            if let Phase::Closed(reason) = &mut self.core.phase {
                return reason.take().map(Event::Closed);
            }
            let length = match self.inbox.front() {
                Front::Whole(length) => length,
                // Whoever does not begin with a hello is told so by the header alone: what looks
                // like its length may be the text of another protocol.
                Front::Partial if self.core.awaits_hello_in_vain(self.inbox.peek(HEADER)) => HEADER,
                Front::Partial => {
                    gate.rest();
                    return None;
                }
                Front::Broken => {
                    self.core.framing_is_broken(self.inbox.peek(HEADER));
                    continue;
                }
            };
            let frame = self.inbox.peek(length);
            if !self.core.may_take(frame, gate, now) {
                return None;
            }
            let event = self.core.handle(frame, now);
            self.inbox.consume(length);
            if event.is_some() {
                return event;
            }
        }
    }

    /// Sends a message. A switch's asynchronous ones (packet-in, flow_removed, port_status) are
    /// dropped and counted where there is no room; its answers are always taken, and hold the input
    /// back until the peer has read them. A controller's requests are refused where there is no room.
    ///
    /// # Errors
    /// Nothing was queued: see [`SendError`].
    pub fn send(&mut self, msg: &Msg) -> Result<Sent, SendError> {
        let Phase::Up(version) = self.core.phase else { return Err(SendError::NotUp) };
        self.core.send(version, msg)
    }

    /// Answers the message that began with `head` by an error.
    ///
    /// # Errors
    /// The connection is not up.
    pub fn refuse(&mut self, head: &Head, code: ErrorCode) -> Result<(), SendError> {
        let body = Message::Error(ErrorMsg { code, data: head.as_bytes().to_vec() });
        self.send(&Msg { xid: head.xid(), body }).map(drop)
    }

    /// A transaction id for a message that answers none.
    pub fn next_xid(&mut self) -> u32 {
        self.core.next_xid()
    }

    /// How many bytes of output there is room for before input is held back; for answers in chunks.
    pub fn output_room(&self) -> usize {
        self.core.config.limits.output.saturating_sub(self.core.out.len())
    }
    /// What waits to be written.
    pub fn outgoing(&self) -> &[u8] {
        self.core.out.waiting()
    }
    /// The first `n` bytes of it were written.
    pub fn advance(&mut self, n: usize) {
        let n = n.min(self.core.out.len());
        self.core.out.advance(n);
        self.core.stats.bytes_out += n as u64;
        self.core.moved |= n > 0;
    }

    /// When [`tick`](Self::tick) and [`next_event`](Self::next_event) are due at the latest.
    pub fn wake_at(&self) -> Option<Duration> {
        match self.core.phase {
            Phase::Greeting { until } => Some(until),
            Phase::Up(_) => {
                let watch = self.core.watch.as_ref().map(Watch::deadline);
                [watch, self.core.throttled].into_iter().flatten().min()
            }
            Phase::Closed(_) => None,
        }
    }

    /// Does what is due by time.
    pub fn tick(&mut self, now: Duration) {
        match self.core.phase {
            Phase::Greeting { until } if now >= until => {
                self.core.close(CloseReason::HandshakeTimeout);
            }
            Phase::Up(version) => {
                let full = self.inbox.room() == 0;
                if self.core.watch_peer(version, full, now) == Due::Probe {
                    // Nothing was heard for a while: a time to give memory back.
                    self.inbox.relax();
                    self.core.out.relax();
                }
            }
            Phase::Greeting { .. } | Phase::Closed(_) => {}
        }
    }
}

impl Core {
    fn next_xid(&mut self) -> u32 {
        self.xid = self.xid.wrapping_add(1);
        self.xid
    }

    fn is_full(&self) -> bool {
        self.out.len() >= self.config.limits.output
    }

    /// Whether so many answers wait to be read that no more may be caused. What a controller reads
    /// causes none but answers to echo requests, so it goes on reading while its requests wait:
    /// were both sides to wait for the other to read, neither ever would.
    fn answers_wait(&self) -> bool {
        match self.config.side {
            Side::Switch => self.is_full(),
            Side::Controller => {
                self.out.len() >= self.config.limits.output.saturating_add(ECHO_ROOM)
            }
        }
    }

    fn heard(&mut self, now: Duration) {
        if let Some(watch) = &mut self.watch {
            watch.heard(now);
        }
    }

    pub(super) fn close(&mut self, reason: CloseReason) {
        self.phase = Phase::Closed(Some(reason));
    }

    fn awaits_hello_in_vain(&self, header: &[u8]) -> bool {
        let greeting = matches!(self.phase, Phase::Greeting { .. });
        greeting
            && header.len() == HEADER
            && !matches!(header[1], super::hello::TYPE | super::greeting::ERROR)
    }

    /// Whether limits let this message be taken now; if so, it has paid.
    fn may_take(&mut self, frame: &[u8], gate: &mut dyn Gate, now: Duration) -> bool {
        let answers = self.config.side == Side::Switch || frame.get(1) == Some(&ECHO_REQUEST);
        if answers && self.answers_wait() {
            self.stats.pushed_back += u64::from(!self.pushing_back);
            self.pushing_back = true;
            // What is awaited now is the peer, not a time: a time would wake the owner in vain.
            self.throttled = None;
            gate.rest();
            return false;
        }
        self.pushing_back = false;
        if !matches!(self.phase, Phase::Up(_)) {
            return true;
        }
        let is_flow_mod = frame.get(1) == Some(&FLOW_MOD);
        let flow_mods = self.flow_mods.as_mut().filter(|_| is_flow_mod);
        let mut buckets = [self.messages.as_mut(), flow_mods];
        let own = buckets.iter_mut().flatten().filter_map(|b| b.wait(now)).max();
        let toll = if is_flow_mod { Toll::FlowMod } else { Toll::Message };
        // Whom its own limits hold back waits for nothing else.
        let until = match own {
            Some(until) => {
                gate.rest();
                Some(until)
            }
            None => gate.admit(toll, now).err(),
        };
        if until.is_some() {
            self.stats.throttled += u64::from(self.throttled.is_none());
            self.throttled = until;
            return false;
        }
        self.throttled = None;
        buckets.into_iter().flatten().for_each(TokenBucket::take);
        true
    }

    /// Judges a whole message.
    fn handle(&mut self, frame: &[u8], now: Duration) -> Option<Event> {
        match self.phase {
            Phase::Greeting { .. } => self.greeted(frame),
            Phase::Up(version) => self.understand(version, frame, now),
            Phase::Closed(_) => None,
        }
    }

    fn greeted(&mut self, frame: &[u8]) -> Option<Event> {
        match greet(self.config.versions, frame) {
            Greeting::Agreed(version) => {
                self.stats.received[Kind::Hello as usize] += 1;
                self.phase = Phase::Up(version);
                Some(Event::Up(version))
            }
            Greeting::Failed(reason, told) => {
                if let Some((version, text)) = told {
                    let xid = Head::of(frame).xid();
                    self.stats.refused += 1;
                    // A line of text has a form in every version.
                    let _ = self.send(version, &Msg { xid, body: hello_failed(&text) });
                }
                self.close(reason);
                None
            }
        }
    }

    fn framing_is_broken(&mut self, header: &[u8]) {
        if let (Phase::Up(version), Side::Switch) = (&self.phase, self.config.side) {
            self.refuse(*version, header, ErrorCode::BadLen);
        }
        self.close(CloseReason::BrokenFraming);
    }

    /// Answers a message by an error.
    pub(super) fn refuse(&mut self, version: Version, frame: &[u8], code: ErrorCode) {
        if let Some(reply) = DecodeError::new(frame, code).into_reply() {
            self.stats.refused += 1;
            // An error always has a form; were there none, the peer would miss an answer, no more.
            let _ = self.send(version, &reply);
        } else {
            self.stats.ignored += 1;
        }
    }

    /// Queues a message, drops it or refuses it, by what kind it is and what room there is.
    pub(super) fn send(&mut self, version: Version, msg: &Msg) -> Result<Sent, SendError> {
        let kind = Kind::of(&msg.body);
        match (self.config.side, kind.from()) {
            (_, From::SwitchUnasked) => {
                // Packet-ins leave half to what says that the switch itself changed.
                let limit = self.config.limits.output;
                let limit = if kind == Kind::PacketIn { limit / 2 } else { limit };
                if self.out.len() >= limit {
                    self.stats.dropped[kind as usize] += 1;
                    return Ok(Sent::Dropped);
                }
            }
            (Side::Controller, _)
                if self.is_full() && !matches!(kind, Kind::EchoReply | Kind::Hello) =>
            {
                return Err(SendError::Full);
            }
            _ => {}
        }
        codec::encode(version, msg, self.out.tail())?;
        self.stats.sent[kind as usize] += 1;
        Ok(Sent::Queued)
    }

    /// Asks a silent peer for a sign of life, or gives it up.
    fn watch_peer(&mut self, version: Version, inbox_is_full: bool, now: Duration) -> Due {
        let Some(watch) = &mut self.watch else { return Due::Nothing };
        if now < watch.deadline() {
            return Due::Nothing;
        }
        // While we do not read, nothing can be heard, and silence says nothing. A peer that reads
        // is alive, too: where output waits, more of it goes out only as the peer takes it.
        let stuck = self.out.len() > 0;
        let deaf = !self.answers_wait() && (self.throttled.is_some() || inbox_is_full);
        let alive = deaf || (stuck && self.moved);
        self.moved = false;
        let Some(watch) = &mut self.watch else { return Due::Nothing };
        if alive {
            watch.heard(now);
            return Due::Nothing;
        }
        let due = watch.check(now);
        match due {
            Due::Dead => self.close(CloseReason::Dead),
            Due::Probe if !self.is_full() => {
                let xid = self.next_xid();
                let probe = Msg { xid, body: Message::EchoRequest(PROBE.to_vec()) };
                self.stats.probes += u64::from(self.send(version, &probe).is_ok());
            }
            Due::Probe | Due::Nothing => {}
        }
        due
    }
}
