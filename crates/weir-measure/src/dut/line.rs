//! What is to happen later, by time; what is due at the same moment in the order it was put here.
//!
//! Room: times and what they are for. `Dut::run` takes out what is due.

use std::collections::BTreeMap;
use weir_openflow::model::{Message, Msg, PacketOut};
use weir_packet::Nanos;

/// Something that happens.
#[derive(Debug)]
#[allow(clippy::large_enum_variant, reason = "most are frames, and few wait")]
pub(super) enum Event {
    /// A frame leaves by a port.
    Leave(u32, Vec<u8>),
    /// A connection is told something.
    Tell(u32, Msg),
    /// All connections are told something that none asked for.
    TellAll(Message),
    /// A packet-out takes effect.
    PacketOut(PacketOut),
    /// A flow's time-outs are looked at.
    Expire(u64),
    /// A connection is closed.
    Close(u32),
}

impl Event {
    /// Bytes of a frame that it holds.
    fn bytes(&self) -> usize {
        match self {
            Event::Leave(_, frame) => frame.len(),
            Event::PacketOut(m) => m.data.len(),
            Event::TellAll(Message::PacketIn(m)) => m.data.len(),
            _ => 0,
        }
    }
}

/// Events that may wait; frames beyond are dropped, and the agent reads no further.
const ROOM: usize = 65_536;
/// Bytes of frames that may wait.
const BYTES: usize = 64 << 20;

/// All that is to happen.
#[derive(Debug, Default)]
pub(super) struct Line {
    events: BTreeMap<(Nanos, u64), Event>,
    /// Events that a peer can cause, which are bounded; time-outs are by the number of flows.
    caused: usize,
    bytes: usize,
    next: u64,
}

impl Line {
    /// Puts an event at its time.
    pub(super) fn put(&mut self, at: Nanos, event: Event) {
        self.caused += usize::from(!matches!(event, Event::Expire(_)));
        self.bytes += event.bytes();
        self.events.insert((at, self.next), event);
        self.next += 1;
    }
    /// Whether there is room for what a peer causes.
    pub(super) fn has_room(&self) -> bool {
        self.caused < ROOM && self.bytes < BYTES
    }
    /// When the first is due.
    pub(super) fn due(&self) -> Option<Nanos> {
        self.events.first_key_value().map(|((at, _), _)| *at)
    }
    /// Takes the first if it is due at `now`.
    pub(super) fn take(&mut self, now: Nanos) -> Option<(Nanos, Event)> {
        let first = self.events.first_entry().filter(|e| e.key().0 <= now)?;
        let at = first.key().0;
        let event = first.remove();
        self.caused -= usize::from(!matches!(event, Event::Expire(_)));
        self.bytes -= event.bytes();
        Some((at, event))
    }
}
