//! Counters of ports and queues (1.3 §7.3.5.6 and 8). What the data plane does not count is all ones.

use crate::apply::duration;
use crate::dp;
use crate::plane::Plane;
use crate::request::{Cx, Stop};
use crate::switch::Switch;
use weir_openflow::model::{ErrorCode, Port, PortStats, QUEUE_ALL, QueueStats, StatsReply};

impl Switch {
    pub(super) fn port_stats<P: Plane>(
        &mut self,
        port: Port,
        cx: &mut Cx<'_, P>,
    ) -> Result<StatsReply, Stop> {
        if port != Port::ANY && !self.state.ports.contains_key(&port) {
            return Err(ErrorCode::BadPort.into());
        }
        let vid = self.config.vid;
        let counted = cx.plane.with(move |plane| dp::port_counters(plane, vid))?;
        let of = |no: &Port| {
            let c = counted.iter().find(|c| c.port == *no).copied().unwrap_or_default();
            let since = self.state.since.get(no).copied().unwrap_or_default();
            let (duration_sec, duration_nsec) = duration(cx.now, since);
            let none = u64::MAX;
            PortStats {
                port: *no,
                duration_sec,
                duration_nsec,
                rx_errors: none,
                tx_errors: none,
                rx_frame_err: none,
                rx_over_err: none,
                rx_crc_err: none,
                collisions: none,
                ..c
            }
        };
        let asked = self.state.ports.keys().filter(|p| port == Port::ANY || **p == port);
        Ok(StatsReply::Port(asked.map(of).collect()))
    }

    pub(super) fn queue_stats<P: Plane>(
        &mut self,
        port: Port,
        queue: u32,
        cx: &mut Cx<'_, P>,
    ) -> Result<StatsReply, Stop> {
        // 1.0 says ALL.
        let every = matches!(port, Port::ANY | Port::ALL);
        if !every && !self.state.ports.contains_key(&port) {
            return Err(ErrorCode::QueueBadPort.into());
        }
        let means = |p: Port, q: u32| (every || p == port) && (queue == QUEUE_ALL || q == queue);
        let queues: Vec<(Port, u32)> = self
            .state
            .queues
            .iter()
            .map(|q| (q.port, q.id))
            .filter(|(p, q)| means(*p, *q))
            .collect();
        if queues.is_empty() && queue != QUEUE_ALL {
            return Err(ErrorCode::QueueBadQueue.into());
        }
        let vid = self.config.vid;
        let counted = cx.plane.with(move |plane| dp::queue_counters(plane, vid))?;
        let of = |(port, queue): (Port, u32)| {
            let c = counted.iter().find(|c| (c.port, c.queue) == (port, queue));
            let since = self.state.since.get(&port).copied().unwrap_or_default();
            let (duration_sec, duration_nsec) = duration(cx.now, since);
            let c = c.copied().unwrap_or_default();
            QueueStats { port, queue, duration_sec, duration_nsec, ..c }
        };
        Ok(StatsReply::Queue(queues.into_iter().map(of).collect()))
    }
}
