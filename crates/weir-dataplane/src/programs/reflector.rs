//! `reflector`: sends each frame back by the port it came in by, source and destination MAC
//! swapped. Touches the first twelve bytes of a frame.
//!
//! Everything else stays as it is, IP addresses and ports too: who measures a round trip finds its
//! frame by what it put there. A frame to a group address comes back with that group as source,
//! which real stations and switches discard.

use crate::program::{Program, ProgramCx, SlowFrame};
use weir_packet::{DropReason, Nanos};

/// The reflector.
#[derive(Debug, Default)]
pub struct Reflector {
    reflected: u64,
}

impl Program for Reflector {
    fn name(&self) -> &'static str {
        "reflector"
    }

    fn patience(&self) -> Nanos {
        // It never looks at the time.
        Nanos(u64::MAX)
    }
    #[inline]
    fn frame(&mut self, rx: SlowFrame, cx: &mut ProgramCx<'_>) {
        let SlowFrame { mut frame, in_port, .. } = rx;
        if frame.len() < weir_wire::ethernet::HEADER_LEN {
            return cx.drop(frame, DropReason::Runt);
        }
        if let Some(macs) = frame.bytes_mut().first_chunk_mut::<12>() {
            macs.rotate_left(6);
        }
        self.reflected += 1;
        cx.output(frame, in_port);
    }

    fn status(&self) -> Vec<(String, String)> {
        vec![("reflected".into(), self.reflected.to_string())]
    }
}
