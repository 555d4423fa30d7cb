//! VDPs on their way: migrations that drain, give up or return, deletions that wait.

use super::indexing::aside;
use super::*;
use crate::action::Vid;
use crate::execute::ChannelTo;
use crate::matching::Table;
use crate::program::Punt;
use crate::software::ToServer;
use crate::vdp::{Held, Path, Phase};
use weir_packet::{BURST, Nanos, PortId};

/// Rules whose memory is given back elsewhere.
const MANY: usize = 512;

impl DataPlane {
    /// Carries migrations and deletions on.
    pub(super) fn advance_phases(&mut self) {
        for i in 0..self.vdps.len() {
            let Some(Some(v)) = self.vdps.get(i) else { continue };
            match v.phase {
                Phase::On(_) | Phase::Away => {}
                Phase::Leaving { deadline, since } => self.leave_on(Vid(i as u16), deadline, since),
                Phase::Coming { deadline, since } => self.come_on(Vid(i as u16), deadline, since),
                Phase::Drained { until, waited } => self.end_drain(Vid(i as u16), until, waited),
                Phase::Draining { deadline, since } => {
                    if v.channel.in_flight == 0 && !self.parked_of(Vid(i as u16)) {
                        self.finish_drain(Vid(i as u16), since);
                    } else if self.now >= deadline {
                        self.give_up_drain(Vid(i as u16));
                    }
                }
                Phase::Returning => self.return_held(Vid(i as u16)),
                Phase::Deleting { until } => self.finish_delete(Vid(i as u16), until),
            }
        }
    }

    pub(crate) fn parked_of(&self, vid: Vid) -> bool {
        self.ports.iter().flatten().any(|p| p.parked.iter().any(|f| f.vid == vid))
    }

    pub(super) fn finish_drain(&mut self, vid: Vid, since: Nanos) {
        let Some(v) = vdp_mut(&mut self.vdps, vid) else { return };
        v.migration.held = v.hold.len() as u64;
        v.migration.drain_ns = self.now.since(since).0;
        let waited = v.queued;
        self.end_drain(vid, self.now + self.config.drain_limit, waited);
    }

    /// Takes what was held by the fast path, oldest first, as much as its ways take until `until`; the VDP is
    /// there when that is all.
    fn end_drain(&mut self, vid: Vid, until: Nanos, waited: u32) {
        let Some(v) = vdp_mut(&mut self.vdps, vid) else { return };
        v.phase = Phase::On(Path::Fast);
        self.unpark_all();
        while self.now >= until || self.takes_more(vid, waited) {
            let mut most = BURST;
            let Some(in_port) = self.take_held(vid, &mut most) else { break };
            self.once_more(vid, in_port);
        }
        self.bury();
        let Some(v) = vdp_mut(&mut self.vdps, vid) else { return };
        if !v.hold.is_empty() {
            v.phase = Phase::Drained { until, waited };
            return;
        }
        v.migration.completed += 1;
        self.migrating -= 1;
        let channel = v.channel.channel;
        self.take_copies_back(vid, channel);
    }

    /// Whether ports have taken nearly all that was let go, and the channel has room for a burst, and for one that comes
    /// next, if some of it went there.
    fn takes_more(&self, vid: Vid, waited: u32) -> bool {
        let Some(Some(v)) = self.vdps.get(usize::from(vid.0)) else { return false };
        let (goes, more) = (v.channel.in_flight > 0, v.channel.in_flight as usize + 2 * BURST);
        let channel = self.channels.get(usize::from(v.channel.channel));
        let has_room = !goes || channel.is_some_and(|c| c.ring.has_part(c.dedicated, more));
        has_room && (v.queued as usize) < waited as usize + BURST && !self.parked_of(vid)
    }

    /// Fills the burst with the oldest of a VDP's held frames, of one port and `left` at most, and says which.
    pub(super) fn take_held(&mut self, vid: Vid, left: &mut usize) -> Option<PortId> {
        let v = vdp_mut(&mut self.vdps, vid)?;
        let in_port = v.hold.front()?.in_port;
        if *left == 0 {
            return None;
        }
        while *left > 0
            && self.work.burst.room() > 0
            && v.hold.front().is_some_and(|h| h.in_port == in_port)
        {
            let Some(h) = v.hold.pop_front() else { break };
            *left -= 1;
            if let Err(f) = self.work.burst.push(h.frame) {
                self.work.grave.push(f);
            }
        }
        Some(in_port)
    }

    /// Takes the burst through the stages as frames of `vid`, whatever the mapping rules say. They
    /// have been let in and counted before: neither happens again.
    pub(super) fn once_more(&mut self, vid: Vid, in_port: PortId) {
        self.map(in_port);
        self.work.vids = [vid; BURST];
        let Some(v) = vdp_mut(&mut self.vdps, vid) else { return };
        let (guards, rx) = (v.edge.take_guards(), v.edge.rx(in_port));
        self.match_rules(in_port);
        if let Some(v) = vdp_mut(&mut self.vdps, vid) {
            v.edge.set_guards(guards);
            v.edge.set_rx(in_port, rx);
        }
        self.process(in_port);
        self.hand_over(in_port);
    }

    /// The slow path's copies of the rules go.
    pub(super) fn take_copies_back(&mut self, vid: Vid, channel: u8) {
        let Some(c) = self.channels.get_mut(usize::from(channel)) else { return };
        c.post_now(vid, |slot| {
            let gone = slot.end_copy();
            // Thousands of pieces of memory.
            if gone.iter().map(Table::len).sum::<usize>() > MANY {
                aside(move || drop(gone));
            }
        });
    }

    pub(super) fn give_up_drain(&mut self, vid: Vid) {
        if let Some(v) = vdp_mut(&mut self.vdps, vid) {
            v.phase = Phase::Returning;
            v.migration.given_up = v.migration.given_up.saturating_add(1);
        }
        self.return_held(vid);
    }

    /// Hands over what ports could not hand to a channel: it comes before what is held, and sources that wait are not polled while
    /// that goes on.
    pub(super) fn unpark_all(&mut self) {
        for i in 0..self.polled.len() {
            let Some(&id) = self.polled.get(i) else { break };
            self.unpark(id);
        }
    }

    /// Sends held frames by the channel, oldest first, as far as there is room.
    pub(super) fn return_held(&mut self, vid: Vid) {
        self.unpark_all();
        if self.parked_of(vid) {
            return;
        }
        loop {
            let Some(v) = vdp_mut(&mut self.vdps, vid) else { return };
            let Some(h) = v.hold.pop_front() else {
                v.phase = Phase::On(Path::Slow);
                self.migrating -= 1;
                // What sent it here may be over; the VDP is there.
                let _ = self.settle_path(vid);
                return;
            };
            let to = ChannelTo::Program(Punt::Default);
            let f = ToServer { frame: h.frame, vid, in_port: h.in_port, to };
            if let Err((f, _)) = self.push_channel(f) {
                if let Some(v) = vdp_mut(&mut self.vdps, vid) {
                    v.hold.push_front(Held { frame: f.frame, in_port: f.in_port });
                }
                return;
            }
        }
    }

    pub(super) fn finish_delete(&mut self, vid: Vid, until: Nanos) {
        let Some(v) = vdp_mut(&mut self.vdps, vid) else { return };
        if v.channel.in_flight > 0 || v.queued > 0 && self.now < until {
            return;
        }
        // It is there as long as any worker has something of it.
        if self.desk.as_ref().is_some_and(|d| !d.is_gone(vid)) {
            return;
        }
        let Some(old) = self.vdps.get_mut(usize::from(vid.0)).and_then(Option::take) else {
            return;
        };
        self.seen.retain(|seen| *seen != vid);
        match old.heir.and_then(|h| vdp_mut(&mut self.vdps, h)) {
            Some(heir) => heir.take_over(&old),
            None => self.retired.merge(&old.tally()),
        }
        for i in 0..self.polled.len() {
            let Some(&id) = self.polled.get(i) else { break };
            self.with_tx(id, |tx, _, a| tx.remove_share(vid, a));
        }
        self.tcam.release(weir_classify::Owner(vid.0.into()));
        self.deleting -= 1;
    }
}
