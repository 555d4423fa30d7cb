//! A program that keeps frames, and a look at one VDP, for tests of what VDPs cost each other.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use weir_dataplane::*;
use weir_packet::*;

/// One VDP as it is.
pub fn of(p: &DataPlane, vid: u16) -> VdpView {
    p.snapshot().vdps.into_iter().find(|v| v.vid == Vid(vid)).unwrap()
}

/// Keeps the first frames that it gets until they are let go.
struct Keeper {
    open: Arc<AtomicBool>,
    most: usize,
    kept: Vec<Frame>,
}
impl Program for Keeper {
    fn name(&self) -> &'static str {
        "keeper"
    }
    fn frame(&mut self, rx: SlowFrame, cx: &mut ProgramCx<'_>) {
        if self.kept.len() < self.most && !self.open.load(Relaxed) {
            self.kept.push(rx.frame);
        } else {
            cx.output(rx.frame, PortNo(2));
        }
    }
    fn tick(&mut self, cx: &mut ProgramCx<'_>) {
        if self.open.load(Relaxed) {
            self.kept.drain(..).for_each(|f| cx.output(f, PortNo(2)));
        }
    }
    fn held(&self) -> usize {
        self.kept.len()
    }
    fn release(&mut self, cx: &mut ProgramCx<'_>) {
        self.kept.drain(..).for_each(|f| cx.drop(f, DropReason::Program));
    }
}
/// One that keeps so many, and what lets them go.
pub fn keeper(most: usize) -> (Box<dyn Program>, Arc<AtomicBool>) {
    let open = Arc::new(AtomicBool::new(false));
    (Box::new(Keeper { open: Arc::clone(&open), most, kept: Vec::new() }), open)
}
