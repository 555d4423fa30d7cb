//! Whether a data plane that found nothing to do needs no round until it is told of frames.
//!
//! Room: `plane`. Asked by the worker's thread before it sleeps.

use super::{DataPlane, Port, WorkerChannel};
use crate::software::Server;
use std::os::fd::BorrowedFd;
use weir_packet::{Arrival, Nanos};

impl DataPlane {
    /// Whether nothing is inside that waits for a later round, and every port that may receive
    /// frames tells when it has some.
    pub(crate) fn is_told_of_all(&self) -> bool {
        let asked =
            |p: &Port| matches!(p.tx.device.arrival(), Arrival::Polled) && !p.tx.device.exhausted();
        !self.has_more_to_do() && !self.present().any(asked)
    }

    /// Whether something inside waits for a later round of the worker's.
    pub(crate) fn has_more_to_do(&self) -> bool {
        let waits =
            |p: &Port| p.tx.backlog() > 0 || !p.parked.is_empty() || p.tx.device.in_transit() > 0;
        // What a server on a thread of its own has in hand wakes the worker when it is done. What programs keep waits for
        // a frame or a tick.
        let served = |c: &WorkerChannel| {
            let inline = |s: &Server| s.pending() > 0 || s.has_waiting() || c.ring.has_back();
            c.ring.is_posted() || c.inline.as_ref().is_some_and(inline)
        };
        self.migrating + self.deleting > 0
            || self.present().any(waits)
            || self.channels.iter().any(served)
    }

    fn inline(&self) -> impl Iterator<Item = &Server> {
        self.channels.iter().filter_map(|c| c.inline.as_ref())
    }

    /// How late a round may be for the programs that the worker itself runs, and for its devices.
    pub(crate) fn patience(&self) -> Nanos {
        let devices = self.present().map(|p| p.tx.device.patience());
        self.inline().map(Server::patience).chain(devices).min().unwrap_or(Nanos(u64::MAX))
    }

    /// Whether a server on a thread of its own has given something back.
    pub(crate) fn has_back(&self) -> bool {
        self.channels.iter().any(|c| c.ring.has_back())
    }

    /// What becomes readable when a port has frames.
    pub(crate) fn descriptors(&self) -> impl Iterator<Item = BorrowedFd<'_>> {
        self.present().filter_map(|p| match p.tx.device.arrival() {
            Arrival::Told(fd) => Some(fd),
            Arrival::Polled | Arrival::Never => None,
        })
    }
}
