//! Servers of channels, and taps.

use super::*;
use crate::action::Vid;
use crate::plane::{DataPlane, WorkerChannel};
use crate::shortcut::Ways;
use crate::software::{Server, Slot};
use crate::tap::{Captured, TapId, TapPoint};
use std::sync::mpsc::{Receiver, channel, sync_channel};
use weir_classify::Match;

impl DataPlane {
    /// Takes a channel's server out, to be run by a thread of its own.
    pub fn take_server(&mut self, channel: u8) -> Option<Server> {
        self.channels.get_mut(usize::from(channel))?.inline.take()
    }
    /// Puts a server back, to be run by the worker.
    pub fn put_server(&mut self, channel: u8, mut server: Server) {
        if let Some(c) = self.channels.get_mut(usize::from(channel)) {
            // Nobody else has to be woken any more.
            (server.worker, c.ring.server) = (None, None);
            c.inline = Some(server);
        }
    }
    /// Number of channels.
    pub fn channels(&self) -> usize {
        self.channels.len()
    }
    /// A VDP's program's state, after the next turn of its server.
    ///
    /// # Errors
    /// No such VDP.
    pub fn program_status(
        &self,
        vid: Vid,
    ) -> Result<Receiver<Vec<(String, String)>>, ControlError> {
        let channel_no = self.vdp(vid)?.channel.channel;
        if let (Some(desk), Some(worker)) = (&self.desk, self.worker_of(vid)) {
            let asked = desk.one(worker, move |p| p.program_status(vid));
            return asked.unwrap_or(Err(ControlError::NoVdp(vid)));
        }
        let (tx, rx) = channel();
        if let Some(c) = self.channels.get(usize::from(channel_no)) {
            c.ring.post(Box::new(move |s| {
                // Nobody waits any more: nothing to do.
                let _ = tx.send(s.status(vid));
            }));
        }
        Ok(rx)
    }
    /// Starts a capture; see [`TapPoint`].
    pub fn add_tap(
        &mut self,
        point: TapPoint,
        filter: Match,
        queue: usize,
    ) -> (TapId, Receiver<Captured>) {
        self.shorten_not(Ways::All);
        let (to, from) = sync_channel(queue);
        let id = self.taps.add_to(point, filter, to.clone());
        if let Some(desk) = &self.desk {
            desk.add_tap(point, filter, to);
        }
        (id, from)
    }
    /// Ends a capture; says how many frames did not fit its queue.
    pub fn remove_tap(&mut self, id: TapId) -> Option<u64> {
        let missed = self.taps.remove(id)?;
        Some(missed + self.desk.as_ref().map_or(0, |d| d.remove_tap(id)))
    }
}

impl WorkerChannel {
    /// Runs `f` on a VDP's slow-path slot, before any frame that comes after this call.
    pub(crate) fn post(&self, vid: Vid, f: impl FnOnce(&mut Slot) + Send + 'static) {
        self.ring.post(Box::new(move |s| {
            if let Some(slot) = s.slot_mut(vid) {
                f(slot);
            }
        }));
    }
    /// The same, now where the worker runs its server.
    pub(crate) fn post_now(&mut self, vid: Vid, f: impl FnOnce(&mut Slot) + Send + 'static) {
        self.post(vid, f);
        if let Some(s) = &mut self.inline {
            s.run_jobs();
        }
    }
}
