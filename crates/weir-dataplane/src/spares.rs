//! Spare frames of a server, for copies and for frames that programs make: of those that are there a VDP takes no more in a turn
//! than it leaves, so that one that floods leaves some for the next.
//!
//! Room: `ProgramCx` and the software stage's way out take them; the server has them refilled.

use weir_packet::Frame;

/// What a VDP has taken in a turn of its server.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Taken {
    turn: u64,
    frames: usize,
}

/// Spare frames, as one VDP may have them.
#[derive(Debug)]
pub(crate) struct Spares<'a> {
    frames: &'a mut Vec<Frame>,
    refused: &'a mut u64,
    of: Option<(&'a mut Taken, u64)>,
    /// Of a VDP that has had none in this turn before this frame.
    is_first: bool,
}

impl<'a> Spares<'a> {
    /// All of them; `refused` counts what could not be had.
    pub(crate) fn all(frames: &'a mut Vec<Frame>, refused: &'a mut u64) -> Self {
        Self { frames, refused, of: None, is_first: false }
    }
    /// As many as a VDP leaves that has taken so many, in this turn.
    #[inline]
    pub(crate) fn part(
        frames: &'a mut Vec<Frame>,
        refused: &'a mut u64,
        taken: &'a mut Taken,
        turn: u64,
    ) -> Self {
        Self { frames, refused, of: Some((taken, turn)), is_first: false }
    }
    /// One of them.
    pub(crate) fn take(&mut self) -> Option<Frame> {
        let may = match &mut self.of {
            None => true,
            Some((taken, turn)) => {
                if taken.turn != *turn {
                    **taken = Taken { turn: *turn, frames: 0 };
                    self.is_first = true;
                }
                // The first frame of a turn has as many as it needs: a flood to many ports would never reach the last.
                let may = self.is_first || taken.frames < self.frames.len();
                taken.frames += usize::from(may);
                may
            }
        };
        let frame = if may { self.frames.pop() } else { None };
        *self.refused += u64::from(frame.is_none());
        frame
    }
    /// One that was not needed.
    pub(crate) fn give_back(&mut self, frame: Frame) {
        if let Some((taken, _)) = &mut self.of {
            taken.frames = taken.frames.saturating_sub(1);
        }
        self.frames.push(frame);
    }
    /// Counts a copy that was not made for another reason.
    pub(crate) fn refuse(&mut self) {
        *self.refused += 1;
    }
}
