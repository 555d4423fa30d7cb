//! Flows that run out (1.3 §5.5, 1.0 §3.5). Moments are kept by `flows`; whether a flow was idle is
//! asked of the data plane when its moment has come.

use crate::apply;
use crate::dp;
use crate::flow_mod::CHUNK;
use crate::plane::Plane;
use crate::request::{Cx, Stop};
use crate::switch::Switch;
use weir_openflow::model::RemovedReason;
use weir_packet::Nanos;

impl Switch {
    /// Takes out the flows whose time has come.
    pub(crate) fn expire<P: Plane>(&mut self, cx: &mut Cx<'_, P>) -> Result<(), Stop> {
        loop {
            let due = self.flows.timers.due(cx.now, CHUNK);
            if due.is_empty() {
                return Ok(());
            }
            self.with_flows(cx, move |plane, flows, set, events| {
                let mut used = Vec::with_capacity(due.len());
                // The VDP is there as long as its switch; else nothing was used.
                let _ = plane.usage(set.vid, &due, &mut used);
                let (mut idle, mut hard) = (Vec::new(), Vec::new());
                for (n, i) in due.into_iter().enumerate() {
                    let Some(f) = flows.get(i) else {
                        flows.timers.set(i, None);
                        continue;
                    };
                    let last = used.get(n).map_or(Nanos(0), |u| u.last_used);
                    let next = f.deadline(dp::in_our_time(plane, last, set.now));
                    let life = Nanos::from_secs(f.hard_timeout.into());
                    match next {
                        Some(at) if at > set.now => flows.timers.set(i, next),
                        None => flows.timers.set(i, None),
                        Some(at) if f.hard_timeout > 0 && at == f.created + life => hard.push(i),
                        Some(_) => idle.push(i),
                    }
                }
                let hard_reason = RemovedReason::HardTimeout;
                apply::remove(plane, set, flows, &hard, hard_reason, events);
                apply::remove(plane, set, flows, &idle, RemovedReason::IdleTimeout, events);
            })?;
        }
    }
}
