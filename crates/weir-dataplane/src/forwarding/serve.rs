//! What happens at a port once frames wait: turns of VDPs, frames that come back, frames that end.
//!
//! Room: forwarding. Called by [`TxPort`] for a port with a backlog, never while a device takes
//! everything.

use super::*;

/// Frames that one port sends out of its queues in a round, so that ports share the worker.
const ROUND_FRAMES: usize = 256;
/// Bytes of its quantum that a VDP sends before the next may: whoever has a hundred has them in turn with others that do.
const PART: i32 = 8 * QUANTUM as i32;

impl TxPort {
    /// Puts what the device left of the stage back to where it came from.
    #[cold]
    pub(super) fn requeue<A: TxAccount>(&mut self, taken: usize, a: &mut A) {
        let tags = self.stage_tags;
        let mut rest = [const { None }; BURST];
        for (slot, f) in rest.iter_mut().zip(self.stage.drain()) {
            *slot = Some(f);
        }
        // Last first, so that each queue's head ends up as the oldest.
        for i in (0..BURST).rev() {
            if let (Some(f), Some(&tag)) = (rest[i].take(), tags.get(taken + i)) {
                self.put_back(tag, f, a);
            }
        }
    }

    /// Puts a frame that was taken out of its queue back at its head.
    fn put_back<A: TxAccount>(&mut self, tag: Tag, frame: Frame, a: &mut A) {
        let vid = tag.vid();
        let Some(s) = self.shares.get_mut(usize::from(vid.0)).and_then(Option::as_mut) else {
            return a.dropped(vid, frame, DropReason::VdpGone);
        };
        let bits = 8 * (frame.len() + FCS) as i64;
        if let Err(frame) = s.put_back(tag.place(), tag.paid(), frame, &mut self.waiting) {
            return a.dropped(vid, frame, DropReason::QueueFull);
        }
        match self.stage_pass {
            Pass::By => {}
            Pass::Guaranteed => s.pay_promised(-bits),
            Pass::Rest => {
                s.deficit += bits / 8;
                s.part += bits as i32 / 8;
            }
        }
        self.backlog += 1;
        a.waiting(vid).into_iter().for_each(|all| *all += 1);
        if self.active.joins(s) {
            self.active.turns.push_front(vid.0);
        }
    }

    /// Serves the queues: guarantees first, then the rest, until the device is full, nothing that
    /// waits may be sent, or this port has had its part of the worker's round.
    #[cold]
    pub(super) fn serve<A: TxAccount>(&mut self, now: Nanos, pool: &mut Pool, a: &mut A) {
        self.turns(now, pool, a);
        self.stage_pass = Pass::By;
    }

    fn turns<A: TxAccount>(&mut self, now: Nanos, pool: &mut Pool, a: &mut A) {
        self.contended = false;
        let mut budget = ROUND_FRAMES;
        for pass in [Pass::Guaranteed, Pass::Rest] {
            if pass == Pass::Rest {
                // Turns go on where they stopped, however guarantees went through the list.
                let at = self.active.turns.iter().position(|v| Some(*v) == self.first);
                self.active.turns.rotate_left(at.unwrap_or(0));
            }
            // A pass is over when a whole turn through the list has moved nothing, though all have had a quantum.
            let (mut still, mut fresh) = (0, pass == Pass::Guaranteed);
            while budget > 0 {
                if still >= self.active.turns.len() {
                    if fresh {
                        break;
                    }
                    (still, fresh) = (0, true);
                    self.round = self.round.wrapping_add(1);
                }
                let Some(vid) = self.active.turns.pop_front() else { return };
                let n = self.visit(vid, now, pass);
                a.waiting(Vid(vid)).into_iter().for_each(|all| *all -= n as u32);
                if n == 0 {
                    still += 1;
                } else {
                    (still, fresh) = (0, pass == Pass::Guaranteed);
                    budget = budget.saturating_sub(n);
                    self.send_stage(pool, a);
                }
                let cut_short = self.contended;
                if let Some(s) = self.shares.get_mut(usize::from(vid)).and_then(Option::as_mut) {
                    let turns = &mut self.active.turns;
                    // `put_back` has listed it when its queues had become empty meanwhile.
                    if cut_short {
                        turns.retain(|&v| v != vid);
                    }
                    match pass {
                        _ if s.len() == 0 => self.active.leaves(s),
                        Pass::Guaranteed if cut_short => turns.push_front(vid),
                        // The wire was full in the midst of its part.
                        Pass::Rest if cut_short && s.part > 0 => turns.push_front(vid),
                        Pass::Rest => {
                            s.part = 0;
                            turns.push_back(vid);
                        }
                        Pass::Guaranteed | Pass::By => turns.push_back(vid),
                    }
                }
                if cut_short {
                    if pass == Pass::Rest {
                        self.first = self.active.turns.front().copied();
                    }
                    return;
                }
            }
        }
        self.first = self.active.turns.front().copied();
        // Whatever still waits is held back by its own ceiling, or by this round's budget.
        self.contended = budget == 0;
    }

    /// One VDP's turn: moves what it may send now to the stage; says how many frames.
    fn visit(&mut self, vid: u16, now: Nanos, pass: Pass) -> usize {
        let Some(s) = self.shares.get_mut(usize::from(vid)).and_then(Option::as_mut) else {
            return 0;
        };
        s.refill(now);
        let quantum = QUANTUM * i64::from(s.share().weight.max(1));
        if pass == Pass::Rest && s.round != self.round {
            s.round = self.round;
            // A VDP held back by its ceiling must not save up turns, beyond one frame's need.
            s.deficit = (s.deficit + quantum).min(quantum.max(s.longest_head(&self.waiting)));
        }
        if pass == Pass::Rest && s.part <= 0 {
            s.part = PART;
        }
        let mut moved = 0;
        let mut turn = QUANTUM;
        while self.stage.room() > 0 {
            let Some(next) = s.next(&self.waiting, now) else { break };
            let (bytes, bits) = (next.bytes, 8 * next.bytes);
            let due = match pass {
                Pass::Guaranteed => s.is_promised(bits) && turn > 0,
                Pass::Rest | Pass::By => s.deficit >= bytes && s.part > 0,
            };
            if !due || !s.is_below_ceiling(bits) {
                break;
            }
            let Some(f) = s.take(&next, &mut self.waiting) else { break };
            self.backlog -= 1;
            match pass {
                Pass::Guaranteed => {
                    s.pay_promised(bits);
                    turn -= bytes;
                }
                Pass::Rest | Pass::By => {
                    s.deficit -= bytes;
                    s.part -= bytes as i32;
                }
            }
            self.stage_tags[self.stage.len()] = Tag::new(Vid(vid), next.place, next.paid);
            self.stage_pass = pass;
            if self.stage.push(f).is_err() {
                break;
            }
            moved += 1;
        }
        moved
    }

    /// Drops what waits in a VDP's queues.
    pub(super) fn drop_queues<A: TxAccount>(&mut self, vid: u16, why: DropReason, a: &mut A) {
        let Some(s) = self.shares.get_mut(usize::from(vid)).and_then(Option::as_mut) else {
            return;
        };
        while let Some(f) = s.take_any(&mut self.waiting) {
            self.backlog -= 1;
            a.waiting(Vid(vid)).into_iter().for_each(|all| *all -= 1);
            a.dropped(Vid(vid), f, why);
        }
        self.active.leaves(s);
        self.active.turns.retain(|&v| v != vid);
    }

    /// Drops everything that waits here.
    pub fn drop_all<A: TxAccount>(&mut self, why: DropReason, a: &mut A) {
        for (i, f) in self.stage.drain().enumerate() {
            a.dropped(self.stage_tags[i.min(BURST - 1)].vid(), f, why);
        }
        for vid in 0..self.shares.len() {
            self.drop_queues(vid as u16, why, a);
        }
    }
}
