//! Stages 4 and 5: frames go to channels and ports, come back from channels, and end.

use super::*;
use crate::action::Vid;
use crate::program::{Done, End, Origin};
use crate::software::ToServer;
use crate::tap::Seen;
use crate::timing::{Stage, StageTimer};
use weir_packet::{BURST, DropReason, Feed, Frame, PortId};

impl DataPlane {
    /// Hands on what a burst that came by this port has come to.
    #[inline]
    pub(super) fn hand_over(&mut self, in_port: PortId) {
        if self.taps.any() {
            self.tap_processed(in_port);
        }
        self.hand_to_software(in_port);
        self.hand_to_forwarding(Some(in_port));
    }

    /// Hands frames to the software stage.
    #[inline]
    pub(super) fn hand_to_software(&mut self, in_port: PortId) {
        if self.work.soft.is_empty() {
            return;
        }
        let mut soft = std::mem::take(&mut self.work.soft);
        if self.taps.any() {
            for f in &soft {
                self.taps.see(&Seen::came(Stage::Software, in_port, f.vid), &f.frame, self.now);
            }
        }
        // Behind one that waits others wait, though a server's thread may have made room meanwhile.
        let mut room = Ok(());
        for f in soft.drain(..) {
            let pushed = match room {
                Ok(()) => self.push_channel(f),
                Err(why) => Err((f, why)),
            };
            if let Err((f, why)) = pushed {
                room = self.no_room(in_port, f, why);
            }
        }
        self.work.soft = soft;
    }

    /// A frame for which its channel has no room: a waiting source waits, and so do those that come behind it; others lose it.
    #[cold]
    pub(super) fn no_room(
        &mut self,
        in_port: PortId,
        f: ToServer,
        why: DropReason,
    ) -> Result<(), DropReason> {
        let port = self.ports.get_mut(usize::from(in_port.0)).and_then(Option::as_deref_mut);
        if let Some(p) = port
            && p.feed == Feed::Waits
            && why == DropReason::ChannelFull
            && p.parked.len() < 4 * BURST
        {
            p.parked.push_back(f);
            return Err(why);
        }
        self.end_dropped(f.vid, f.frame, why);
        Ok(())
    }

    pub(super) fn unpark(&mut self, id: PortId) {
        loop {
            let port = self.ports.get_mut(usize::from(id.0)).and_then(Option::as_deref_mut);
            let Some(f) = port.and_then(|p| p.parked.pop_front()) else { return };
            match self.push_channel(f) {
                Ok(()) => {}
                Err((f, DropReason::ChannelFull)) => {
                    let port = self.ports.get_mut(usize::from(id.0)).and_then(Option::as_deref_mut);
                    if let Some(p) = port {
                        p.parked.push_front(f);
                    }
                    return;
                }
                Err((f, why)) => self.end_dropped(f.vid, f.frame, why),
            }
        }
    }

    #[inline]
    pub(super) fn push_channel(&mut self, f: ToServer) -> Result<(), (ToServer, DropReason)> {
        let Some(v) = vdp_mut(&mut self.vdps, f.vid) else { return Err((f, DropReason::VdpGone)) };
        let Some(c) = self.channels.get_mut(usize::from(v.channel.channel)) else {
            return Err((f, DropReason::ChannelFull));
        };
        if !c.ring.has_part(c.dedicated, v.channel.in_flight as usize) {
            return Err((f, DropReason::ChannelFull));
        }
        c.ring.push(f).map_err(|f| (f, DropReason::ChannelFull))?;
        v.channel.in_flight += 1;
        c.ring.in_flight += 1;
        v.counters.slow += 1;
        Ok(())
    }

    pub(super) fn end_dropped(&mut self, vid: Vid, frame: Frame, why: DropReason) {
        match vdp_mut(&mut self.vdps, vid) {
            Some(v) => v.counters.dropped.add(why),
            None => self.retired.dropped.add(why),
        }
        self.pool.free(frame);
    }

    /// Hands this round's frames to the forwarding stage; `came_by`: the port that all of them came by, if it is one.
    #[inline]
    pub(super) fn hand_to_forwarding(&mut self, came_by: Option<PortId>) {
        if self.taps.any() {
            self.tap_out(came_by);
        }
        let w = &mut self.work;
        let mut out = std::mem::take(&mut w.out);
        let mut items = out.drain(..);
        let mut next = items.next();
        while let Some(mut item) = next {
            let at = item.port;
            let Some(p) = self.ports.get_mut(usize::from(at.0)).and_then(Option::as_deref_mut)
            else {
                match vdp_mut(&mut self.vdps, item.vid) {
                    Some(v) => v.counters.dropped.add(DropReason::NoSuchPort),
                    None => self.retired.dropped.add(DropReason::NoSuchPort),
                }
                w.grave.push(item.frame);
                next = items.next();
                continue;
            };
            let mut a = Accounts {
                at,
                vdps: &mut self.vdps,
                retired: &mut self.retired,
                port: &mut p.counters,
                grave: &mut w.grave,
            };
            // A run of frames for one port finds the port once.
            next = loop {
                p.tx.submit(item.vid, item.queue, item.frame, self.now, &mut self.pool, &mut a);
                match items.next() {
                    Some(same) if same.port == at => item = same,
                    other => break other,
                }
            };
        }
        drop(items);
        w.out = out;
    }

    pub(super) fn bury(&mut self) {
        for f in self.work.grave.drain(..) {
            self.pool.free(f);
        }
    }

    /// Has servers that run here take what waits for them now instead of at the end of a round.
    pub(crate) fn serve_here(&mut self) {
        for c in self.channels.iter_mut().filter(|c| c.ring.in_flight > 0) {
            if let Some(s) = &mut c.inline {
                s.serve(self.now);
            }
        }
    }

    /// Stage 4: servers that run here, and what has come back from all.
    pub(super) fn software_round<T: StageTimer>(&mut self, timer: &mut T) -> usize {
        let mut moved = 0;
        for i in 0..self.channels.len() {
            let Some(c) = self.channels.get_mut(i) else { break };
            if c.ring.wants_spares() {
                let most = self.config.spares_each(&self.pool);
                while c.ring.spares_out < most
                    && self.pool.available() > crate::control::Config::kept_from_spares(&self.pool)
                {
                    let Some(f) = self.pool.alloc() else { break };
                    if let Err(f) = c.ring.give_spare(f) {
                        self.pool.free(f);
                        break;
                    }
                }
            }
            if let Some(s) = &mut c.inline {
                if c.ring.has_posted() | (c.ring.in_flight > 0) || s.is_due(self.now) {
                    timer.begin();
                    let n = s.serve(self.now);
                    if n > 0 {
                        timer.end(Stage::Software, n);
                    }
                    moved += n;
                }
            } else {
                c.ring.wake();
            }
            let n = c.ring.returned();
            if n == 0 {
                continue;
            }
            timer.begin();
            for _ in 0..n {
                let Some(d) = self.channels.get_mut(i).and_then(|c| c.ring.pop()) else { break };
                self.came_back(i, d);
            }
            self.hand_to_forwarding(None);
            self.bury();
            timer.end(Stage::Forwarding, n);
            moved += n;
        }
        moved
    }

    #[inline]
    pub(super) fn came_back(&mut self, channel: usize, d: Done) {
        let Done { frame, vid, end, origin, lost } = d;
        let Some(c) = self.channels.get_mut(channel) else { return self.pool.free(frame) };
        if origin != Origin::Received {
            c.ring.spares_out = c.ring.spares_out.saturating_sub(1);
        }
        if let End::Spare = end {
            return self.pool.free(frame);
        }
        let mut queue = 0;
        let (counters, port, refused) = match vdp_mut(&mut self.vdps, vid) {
            Some(v) => {
                if origin == Origin::Received {
                    v.channel.in_flight -= 1;
                    c.ring.in_flight -= 1;
                }
                let port = match end {
                    End::Output(no) => v.ports.iter().find(|(n, _)| *n == no).map(|(_, id)| *id),
                    End::Forward(id, q) => {
                        queue = q;
                        Some(id)
                    }
                    _ => None,
                };
                let refused = match port {
                    Some(id) if v.edge.guarded() => v.edge.refuse_out(id),
                    _ => None,
                };
                (&mut v.counters, port, refused)
            }
            None => (&mut self.retired, None, None),
        };
        counters.cloned += u64::from(lost);
        counters.dropped.add_n(DropReason::NoFrame, lost.into());
        match origin {
            Origin::Received => {}
            Origin::Cloned => counters.cloned += 1,
            Origin::Generated => counters.generated += 1,
        }
        match (end, port) {
            (_, Some(port)) => match refused {
                None => self.work.out.push(OutItem { frame, port, vid, queue }),
                Some(why) => {
                    counters.dropped.add(why);
                    self.work.grave.push(frame);
                }
            },
            (End::Drop(why), _) => {
                counters.dropped.add(why);
                self.work.grave.push(frame);
            }
            (End::Consume, _) => {
                counters.consumed += 1;
                self.work.grave.push(frame);
            }
            _ => {
                counters.dropped.add(DropReason::NoSuchPort);
                self.work.grave.push(frame);
            }
        }
    }

    pub(super) fn flush_ports<T: StageTimer>(&mut self, timer: &mut T) {
        timer.begin();
        for id in &self.polled {
            let port = self.ports.get_mut(usize::from(id.0));
            let Some(p) = port.and_then(Option::as_deref_mut) else { continue };
            let mut a = Accounts {
                at: p.id,
                vdps: &mut self.vdps,
                retired: &mut self.retired,
                port: &mut p.counters,
                grave: &mut self.work.grave,
            };
            p.tx.flush(self.now, &mut self.pool, &mut a);
        }
        timer.end(Stage::Transmit, 0);
        self.bury();
    }
}
