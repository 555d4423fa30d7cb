//! Where the time goes: the stages, and a listener that is told when each ends.
//!
//! Room: the data plane has no clock of its own. `weir bench` hands one in; in service the listener
//! is [`NoTimer`], which compiles to nothing.

/// A part of a frame's way.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Stage {
    /// From the device.
    Receive,
    /// Stage 1.
    Mapping,
    /// Stage 2.
    Matching,
    /// Stage 3.
    Processing,
    /// Stage 4.
    Software,
    /// Stage 5.
    Forwarding,
    /// To the device.
    Transmit,
}

impl Stage {
    /// All, in the order of a frame's way.
    pub const ALL: [Stage; 7] = [
        Stage::Receive,
        Stage::Mapping,
        Stage::Matching,
        Stage::Processing,
        Stage::Software,
        Stage::Forwarding,
        Stage::Transmit,
    ];
    /// Its name in tables and JSON.
    pub const fn name(self) -> &'static str {
        match self {
            Stage::Receive => "receive",
            Stage::Mapping => "mapping",
            Stage::Matching => "matching",
            Stage::Processing => "processing",
            Stage::Software => "software",
            Stage::Forwarding => "forwarding",
            Stage::Transmit => "transmit",
        }
    }
    /// The stage called `name`.
    pub fn by_name(name: &str) -> Option<Stage> {
        Stage::ALL.into_iter().find(|s| s.name() == name)
    }
}

/// Told when a stage begins and ends.
pub trait StageTimer {
    /// A measurement begins here.
    fn begin(&mut self);
    /// `stage` has ended for `frames` frames; the next begins.
    fn end(&mut self, stage: Stage, frames: usize);
}

/// Listens to nothing.
#[derive(Clone, Copy, Debug, Default)]
pub struct NoTimer;

impl StageTimer for NoTimer {
    #[inline(always)]
    fn begin(&mut self) {}
    #[inline(always)]
    fn end(&mut self, _stage: Stage, _frames: usize) {}
}
