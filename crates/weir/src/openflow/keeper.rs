//! A VDP's time and its frames for controllers: one task for each VDP, asleep unless something is due.
//!
//! Room: wakes by the switch's next deadline, never by a fixed tick, so that a thousand idle VDPs
//! cost nothing. Called by `hub`.

use super::punts::Punts;
use super::vdp::{Manner, Vdp};
use std::rc::Rc;
use std::time::Duration;
use tokio::sync::watch;
use tokio::task::yield_now;
use tokio::time::{Instant, sleep_until};

/// Time-outs are looked at this often at most; they are exact to a tenth of a second.
const GRAIN: Duration = Duration::from_millis(10);

/// Whether a VDP is still there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stay {
    /// It is.
    Yes,
    /// It has gone.
    No,
}

/// Keeps a VDP's time until it goes.
pub async fn keep(vdp: Rc<Vdp>, mut punts: Punts, mut stay: watch::Receiver<Stay>) {
    let mut last = Instant::now();
    // A turn ended before all frames that waited were taken.
    let mut more = false;
    loop {
        let due = vdp.deadline().map(|at| vdp.common.clock.when(at).max(last + GRAIN));
        tokio::select! {
            biased;
            gone = stay.wait_for(|s| *s == Stay::No) => {
                drop(gone);
                return;
            }
            () = sleep_until(due.unwrap_or(last)), if due.is_some() => {
                last = Instant::now();
                if vdp.tick(vdp.common.clock.now()).is_err() {
                    return;
                }
            }
            () = vdp.rearm.notified() => {}
            // However many there are, time-outs come first.
            () = async { if !more { punts.wait().await } }, if vdp.manner() != Manner::Asleep => {
                more = vdp.take_punts(&mut punts);
                yield_now().await;
            }
        }
    }
}
