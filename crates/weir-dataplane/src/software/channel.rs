//! The worker's end of a channel: rings, spares, the inbox of jobs.
//!
//! Room: called by the worker alone; `pair` makes both ends.

use super::server::Server;
use crate::action::Vid;
use crate::execute::ChannelTo;
use crate::program::Done;
use rtrb::{Consumer, Producer, RingBuffer};
use std::cell::Cell;
use std::sync::mpsc::{Sender, channel};
use std::thread::Thread;
use weir_packet::{Frame, PortId};

/// A frame on its way to a server.
#[derive(Debug)]
pub struct ToServer {
    /// The frame.
    pub frame: Frame,
    /// Its VDP.
    pub vid: Vid,
    /// Where it came in.
    pub in_port: PortId,
    /// For whom, and why.
    pub to: ChannelTo,
}

/// Work for a server, done between two of its batches.
pub type Job = Box<dyn FnOnce(&mut Server) + Send>;

/// Frames that a server takes at once.
pub const BATCH: usize = 64;

/// The worker's end of a channel.
#[derive(Debug)]
pub struct Channel {
    to: Producer<ToServer>,
    from: Consumer<Done>,
    spares: Producer<Frame>,
    /// Spare frames that the server has.
    pub spares_out: usize,
    inbox: Sender<Job>,
    /// Whether a job was posted or a frame pushed since the worker last looked.
    posted: Cell<bool>,
    /// Who serves it, when that is not the worker: to be woken.
    pub(crate) server: Option<Thread>,
    size: usize,
    /// Frames of VDPs that are in the server's hands.
    pub in_flight: usize,
}

/// Spare frames that a server may hold for copies and frames of its programs' making.
pub(super) const SPARES: usize = 256;

/// A channel of `size` frames each way, and its server.
pub fn pair(size: usize) -> (Channel, Server) {
    let (to, rx) = RingBuffer::new(size);
    // Everything that can be in the server's hands must fit back: what waits there, and what programs keep.
    let (tx, from) = RingBuffer::new(2 * size + SPARES);
    let (spares, spare_rx) = RingBuffer::new(SPARES);
    let (inbox, jobs) = channel();
    let server = Server::new(rx, tx, spare_rx, jobs, size);
    let ch = Channel {
        to,
        from,
        spares,
        spares_out: 0,
        inbox,
        posted: Cell::new(false),
        server: None,
        size,
        in_flight: 0,
    };
    (ch, server)
}

impl Channel {
    /// Posts a job. Frames pushed afterwards are handled after it. A server that is gone drops it.
    pub fn post(&self, job: Job) {
        self.posted.set(true);
        // The receiver lives in the server; when that has ended there is nothing to change.
        let _ = self.inbox.send(job);
    }
    /// Whether a job was posted or a frame pushed since this was last asked.
    #[inline]
    pub fn has_posted(&self) -> bool {
        self.posted.replace(false)
    }
    /// The same, without having asked.
    pub fn is_posted(&self) -> bool {
        self.posted.get()
    }
    /// Wakes the server's thread if there is something new for it.
    #[inline]
    pub fn wake(&self) {
        if self.has_posted()
            && let Some(t) = &self.server
        {
            t.unpark();
        }
    }
    /// Whether a VDP that has so many frames in flight may have one more: on a shared channel while
    /// it has no more than there are places free (Choudhury and Hahne, "Dynamic Queue Length
    /// Thresholds", 1998), so that whoever floods leaves room for the next. What programs keep takes its own
    /// VDP's part alone, and is bounded apart ([`ProgramCx::most_kept`](crate::program::ProgramCx::most_kept)).
    #[inline]
    pub fn has_part(&self, dedicated: Dedicated, in_flight: usize) -> bool {
        match dedicated {
            Dedicated::Yes => in_flight < self.size,
            Dedicated::No => {
                in_flight + self.in_flight < self.size || self.has_part_beside_kept(in_flight)
            }
        }
    }
    #[cold]
    fn has_part_beside_kept(&self, in_flight: usize) -> bool {
        let waiting = self.size - self.to.slots();
        // All of it fits back.
        in_flight + waiting < self.size && self.in_flight < 2 * self.size
    }
    /// Hands a frame over.
    ///
    /// # Errors
    /// Gives it back when the ring is full.
    #[inline]
    pub fn push(&mut self, f: ToServer) -> Result<(), ToServer> {
        self.posted.set(true);
        self.to.push(f).map_err(|rtrb::PushError::Full(f)| f)
    }
    /// Frames that have come back and wait.
    #[inline]
    pub fn returned(&self) -> usize {
        self.from.slots()
    }
    /// Takes one that came back.
    #[inline]
    pub fn pop(&mut self) -> Option<Done> {
        self.from.pop().ok()
    }
    /// Whether one is there.
    pub fn has_back(&self) -> bool {
        !self.from.is_empty()
    }
    /// Whether the server could use spare frames.
    #[inline]
    pub fn wants_spares(&self) -> bool {
        self.spares.slots() > SPARES / 2
    }
    /// Gives the server a spare frame.
    ///
    /// # Errors
    /// Gives it back when it has enough.
    pub fn give_spare(&mut self, f: Frame) -> Result<(), Frame> {
        let r = self.spares.push(f).map_err(|rtrb::PushError::Full(f)| f);
        self.spares_out += usize::from(r.is_ok());
        r
    }
}

/// Whether a channel belongs to one VDP.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Dedicated {
    /// To one.
    Yes,
    /// Shared.
    No,
}
