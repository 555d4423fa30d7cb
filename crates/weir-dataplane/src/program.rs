//! What a slow-path program is: one trait that an outsider can implement in one file.
//!
//! Room: between the software stage (which owns the channels and calls programs) and `programs/`.
//! A program sees frames of one VDP, in that VDP's port numbers, in batches, on the channel's
//! thread. It must not block. Whatever it does with a frame, it says so through [`ProgramCx`], so
//! that every frame stays accounted for.

use crate::action::{PortNo, Vid};
use crate::spares::Spares;
use std::any::Any;
use std::collections::VecDeque;
use weir_packet::{DropReason, Frame, Nanos, PortId};

/// Why a frame came to the slow path.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Punt {
    /// The VDP's default rule sends there (miss, or the VDP lives on the slow path).
    Default,
    /// A rule's action sends there.
    Action,
    /// NORMAL: forward as a switch without OpenFlow would.
    Normal,
    /// LOCAL: for the VDP's own stack, which gets it instead of the VDP's program.
    Local,
}

/// A frame handed to a program.
#[derive(Debug)]
pub struct SlowFrame {
    /// The frame. Pass it on through [`ProgramCx`].
    pub frame: Frame,
    /// The port it came in by.
    pub in_port: PortNo,
    /// Why it is here.
    pub why: Punt,
}

/// Where a frame that leaves the slow path comes from; conservation counts by it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Origin {
    /// The very frame that came in.
    Received,
    /// A copy of one that came in.
    Cloned,
    /// Made by the program.
    Generated,
}

/// How a frame's stay on the slow path ended. The worker counts it.
#[derive(Debug)]
pub enum End {
    /// Send by this port of the VDP.
    Output(PortNo),
    /// Send by this port of the data plane and this queue: what a rule on the slow path says.
    Forward(PortId, u32),
    /// Drop for this reason.
    Drop(DropReason),
    /// The program was its destination.
    Consume,
    /// A spare frame, unused.
    Spare,
}

/// One frame on its way back to the worker.
#[derive(Debug)]
pub struct Done {
    /// The frame.
    pub frame: Frame,
    /// Its VDP.
    pub vid: Vid,
    /// What to do with it.
    pub end: End,
    /// Where it comes from.
    pub origin: Origin,
    /// Copies of its VDP's frames that found no frame since the last one.
    pub lost: u32,
}

impl Done {
    /// A frame that ended so.
    pub fn new(frame: Frame, vid: Vid, end: End, origin: Origin) -> Self {
        Self { frame, vid, end, origin, lost: 0 }
    }
}

/// A port as a program sees it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ProgramPort {
    /// Its number in the VDP.
    pub no: PortNo,
    /// Whether frames can leave by it.
    pub up: bool,
    /// Whether flooding goes there.
    pub floods: bool,
    /// Longest frame it takes, in bytes with the Ethernet header.
    pub max_frame_bytes: u32,
    /// Longest IP packet that it takes in a frame without VLAN tags, in bytes.
    pub ip_bytes: u32,
}

/// What a program may do: end frames, make frames, look at its ports and the time.
#[derive(Debug)]
pub struct ProgramCx<'a> {
    vid: Vid,
    now: Nanos,
    ports: &'a [ProgramPort],
    done: &'a mut VecDeque<Done>,
    spares: Spares<'a>,
    /// Copies that found no frame, since a frame ended last.
    pub(crate) lost: u32,
    /// See [`ProgramCx::most_kept`].
    pub(crate) most_kept: usize,
}

impl<'a> ProgramCx<'a> {
    /// For the software stage, and for tests of programs.
    pub fn new(
        vid: Vid,
        now: Nanos,
        ports: &'a [ProgramPort],
        done: &'a mut VecDeque<Done>,
        spare: &'a mut Vec<Frame>,
        refused: &'a mut u64,
    ) -> Self {
        Self::with(vid, now, ports, done, Spares::all(spare, refused))
    }
    pub(crate) fn with(
        vid: Vid,
        now: Nanos,
        ports: &'a [ProgramPort],
        done: &'a mut VecDeque<Done>,
        spares: Spares<'a>,
    ) -> Self {
        Self { vid, now, ports, done, spares, lost: 0, most_kept: usize::MAX }
    }
    /// The VDP.
    pub fn vid(&self) -> Vid {
        self.vid
    }
    /// The worker's monotonic time.
    pub fn now(&self) -> Nanos {
        self.now
    }
    /// The VDP's ports.
    pub fn ports(&self) -> &'a [ProgramPort] {
        self.ports
    }
    /// Sends a frame that came in.
    pub fn output(&mut self, frame: Frame, port: PortNo) {
        self.end(frame, End::Output(port), Origin::Received);
    }
    /// Drops a frame that came in.
    pub fn drop(&mut self, frame: Frame, why: DropReason) {
        self.end(frame, End::Drop(why), Origin::Received);
    }
    /// Says that the program was the destination of a frame that came in.
    pub fn consume(&mut self, frame: Frame) {
        self.end(frame, End::Consume, Origin::Received);
    }
    /// How many frames the program may keep: as many as it leaves other programs to keep (Choudhury and Hahne, "Dynamic
    /// Queue Length Thresholds", 1998). One that keeps more than half of the software stage's places gets no frames.
    pub fn most_kept(&self) -> usize {
        self.most_kept
    }
    /// An empty frame to fill and [`ProgramCx::emit`], or `None` when there is none: frames made
    /// by programs are bounded, so that one program can't take the worker's memory, and of those that there are
    /// a VDP takes no more at once than it leaves others.
    pub fn alloc(&mut self) -> Option<Frame> {
        self.spares.take()
    }
    /// Gives back an allocated frame that is not needed after all.
    pub fn unused(&mut self, frame: Frame) {
        self.spares.give_back(frame);
    }
    /// Sends a frame that the program made.
    pub fn emit(&mut self, frame: Frame, port: PortNo) {
        self.end(frame, End::Output(port), Origin::Generated);
    }
    /// Sends a copy of a frame that the program still has. `false` when there was no free frame
    /// or it did not fit.
    pub fn send_copy(&mut self, of: &Frame, port: PortNo) -> bool {
        let Some(mut f) = self.alloc() else {
            self.lost += 1;
            return false;
        };
        if f.clone_from_frame(of).is_err() {
            self.spares.give_back(f);
            return false;
        }
        self.end(f, End::Output(port), Origin::Cloned);
        true
    }
    /// Sends a frame that came in by all ports that are up and take part in flooding but `except`;
    /// drops it when there is none.
    pub fn flood(&mut self, frame: Frame, except: PortNo) {
        let mut last = None;
        for p in self.ports.iter().filter(|p| p.up && p.floods && p.no != except) {
            if let Some(no) = last.replace(p.no) {
                self.send_copy(&frame, no);
            }
        }
        match last {
            Some(no) => self.output(frame, no),
            None => self.drop(frame, DropReason::NoSuchPort),
        }
    }
    /// Ends a frame as said; what the other calls come down to.
    pub fn end(&mut self, frame: Frame, end: End, origin: Origin) {
        let lost = std::mem::take(&mut self.lost);
        self.done.push_back(Done { lost, ..Done::new(frame, self.vid, end, origin) });
    }
}

/// Whether a program has asked ahead for all that it will read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ahead {
    /// It has, or what is left is near.
    All,
    /// Some of it hangs on what it has asked for.
    Further,
}

impl Ahead {
    /// Bytes of what hangs on other lines, up to which asking for it ahead costs more than waiting does: what a second-level
    /// cache of a megabyte may hold.
    const NEAR: usize = 1 << 20;

    /// What is said where so many bytes hang on what was asked for.
    #[inline]
    pub fn of(bytes: usize) -> Self {
        if bytes > Self::NEAR { Self::Further } else { Self::All }
    }
}

/// A slow-path program: a VDP's behaviour where the fast path has no rule.
pub trait Program: Any + Send {
    /// Its name in configuration and tables.
    fn name(&self) -> &'static str;

    /// A frame that [`Program::frame`] will be given soon, after the others of its batch: a program
    /// with large tables asks for the lines of memory that it will read, so that its waits overlap.
    /// Nothing else may come of it. Most programs need not know. It says whether lines that are found by way of these lie
    /// in no near cache either.
    fn expect(&self, _frame: &Frame, _in_port: PortNo) -> Ahead {
        Ahead::All
    }
    /// The same frame once more, where [`Program::expect`] said that there is more, after it has been asked about all of
    /// the batch: what it asked for is there, and what hangs on that is asked for now.
    fn expect_further(&self, _frame: &Frame, _in_port: PortNo) {}

    /// Takes one frame and ends it through `cx`, or keeps it (at most [`ProgramCx::most_kept`]; then counts
    /// it in [`Program::held`]).
    fn frame(&mut self, rx: SlowFrame, cx: &mut ProgramCx<'_>);

    /// Called about every millisecond: ageing, retries.
    fn tick(&mut self, _cx: &mut ProgramCx<'_>) {}

    /// How late a tick may come while the worker has nothing else to do.
    fn patience(&self) -> Nanos {
        Nanos::from_millis(5)
    }

    /// Frames that it keeps (a router waiting for a neighbour).
    fn held(&self) -> usize {
        0
    }

    /// Ends every frame that it keeps: it will be removed.
    fn release(&mut self, _cx: &mut ProgramCx<'_>) {}

    /// Another link is behind this number of a port from now on, or none: what was learned there holds no longer.
    fn forget_port(&mut self, _port: PortNo) {}

    /// Makes its own what `before` knows, whose place it has taken: what it was told is another thing now, and whom it serves
    /// should not notice. Nothing by default, and of a program of another kind ([`of_kind`]). Frames that
    /// `before` kept have been ended.
    fn take_over(&mut self, _before: Box<dyn Program>) {}

    /// Its state in words, for `weir show`: name and value.
    fn status(&self) -> Vec<(String, String)> {
        Vec::new()
    }
}

/// A program as the kind that it is, if it is of that kind.
pub fn of_kind<P: Program>(program: Box<dyn Program>) -> Option<Box<P>> {
    let any: Box<dyn Any> = program;
    any.downcast().ok()
}
