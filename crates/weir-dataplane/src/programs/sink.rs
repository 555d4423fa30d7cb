//! `sink`: the end of every frame, counted. Touches nothing of a frame.

use crate::program::{Program, ProgramCx, SlowFrame};
use weir_packet::Nanos;

/// The sink.
#[derive(Debug, Default)]
pub struct Sink {
    frames: u64,
    bytes: u64,
}

impl Sink {
    /// Frames taken so far.
    pub fn frames(&self) -> u64 {
        self.frames
    }
    /// Their bytes, without FCS.
    pub fn bytes(&self) -> u64 {
        self.bytes
    }
}

impl Program for Sink {
    fn name(&self) -> &'static str {
        "sink"
    }

    fn patience(&self) -> Nanos {
        // It never looks at the time.
        Nanos(u64::MAX)
    }
    #[inline]
    fn frame(&mut self, rx: SlowFrame, cx: &mut ProgramCx<'_>) {
        self.frames += 1;
        self.bytes += rx.frame.len() as u64;
        cx.consume(rx.frame);
    }

    fn status(&self) -> Vec<(String, String)> {
        vec![("frames".into(), self.frames.to_string()), ("bytes".into(), self.bytes.to_string())]
    }
}
