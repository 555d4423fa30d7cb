//! Flows whose rules are covered by other flows' rules: what they had counted, how long they live, and their time-outs.
//!
//! Room: between `flows`, which covers and uncovers, and the switch. A rule that takes another flow's place counts from
//! naught; what the other had counted is asked for first, and stays with its flow. The switch knows nothing of a flow
//! that is covered: how old it is is reckoned from what it said last.

use super::book::{Flow, FlowId};
use super::flows::{cookie, owner};
use super::ledger::What;
use super::slice::Slice;
use super::space::SliceId;
use super::switch::{Out, Switch};
use core::time::Duration;
use weir_openflow::model::{
    FlowFilter, FlowRemoved, FlowStats, Match, Message, Part, StatsReply, StatsRequest, Version,
};

/// A rule that is being covered, by what the switch is asked about it.
#[derive(Debug)]
pub struct Covering {
    slice: SliceId,
    flow: FlowId,
    priority: u16,
    matcher: Match,
    of: Of,
}

/// Whose rule it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Of {
    /// A flow that stays.
    Living,
    /// One that was deleted, and waits for this to be told of.
    Dying,
}

impl Covering {
    fn is(&self, r: &FlowStats) -> bool {
        owner(r.cookie) == Some((self.slice, self.flow))
            && r.priority == self.priority
            && r.matcher == self.matcher
    }
}

impl Switch {
    /// Asks what a flow's rule has counted, before `by` takes its place: where somebody will be told.
    pub(super) fn ask_covered(
        &mut self,
        slice: SliceId,
        flow: FlowId,
        by: (u8, u16, &Match),
        out: &mut Out,
    ) {
        let of = |s: &Slice| match s.dying.contains_key(&flow) {
            true => Some(Of::Dying),
            false => s.book.get(flow).map(|_| Of::Living),
        };
        let Some(of) = self.slices.get(usize::from(slice.0)).and_then(of) else { return };
        let (table, priority, matcher) = by;
        let mut filter = FlowFilter { table, matcher: matcher.clone(), ..FlowFilter::every_flow() };
        if self.version == Version::V13 {
            (filter.cookie, filter.cookie_mask) = (cookie(slice, flow), u64::MAX);
        }
        let what = What::Covered(Covering { slice, flow, priority, matcher: matcher.clone(), of });
        let body = StatsRequest::Flow(filter);
        let body = Message::StatsRequest { more: Part::Last, body };
        self.ledger.send(Some(slice), what, body, &mut out.to_switch);
    }

    /// What the switch says about it.
    pub(super) fn covered(&mut self, xid: u32, more: Part, body: &StatsReply, out: &mut Out) {
        let Some(What::Covered(c)) = self.ledger.peek(xid) else { return };
        let (slice, flow, of) = (c.slice, c.flow, c.of);
        let mut found = false;
        if let StatsReply::Flow(all) = body
            && let Some(r) = all.iter().find(|r| c.is(r))
            && let Some(s) = self.slices.get_mut(usize::from(c.slice.0))
        {
            let flow = match s.dying.get_mut(&c.flow) {
                Some(d) => Some(&mut d.flow),
                None => s.book.flow_mut(c.flow),
            };
            if let Some(f) = flow {
                found = true;
                f.count(r.packets, r.bytes);
                f.has_lived(r, self.now);
            }
        }
        if more == Part::Last {
            self.ledger.close(xid);
        }
        // One that has ended meanwhile is told of as every other.
        if of == Of::Dying && found {
            self.one_less(slice, flow, out);
        }
    }
}

/// How long a flow had lived at a time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Lived {
    lived: Duration,
    at: Duration,
}

impl Lived {
    fn until(self, now: Duration) -> Duration {
        self.lived.saturating_add(now.saturating_sub(self.at))
    }
}

impl Flow {
    /// One of its rules has counted so many packets and bytes, and is not at the switch as its own any more.
    pub(super) fn count(&mut self, packets: u64, bytes: u64) {
        self.counted.0 = self.counted.0.saturating_add(packets);
        self.counted.1 = self.counted.1.saturating_add(bytes);
    }

    /// Whether what has gone is a rule that was to go; then what it has counted is its flow's.
    pub(super) fn has_left(&mut self, r: &FlowRemoved) -> bool {
        let Some(at) = self.leaving.iter().position(|m| *m == r.matcher) else { return false };
        self.leaving.remove(at);
        self.count(r.packets, r.bytes);
        true
    }

    /// Has its age be reckoned from now on, since rules that come are younger than it. What the switch has said of it goes before.
    pub(super) fn age_by_slicer(&mut self) {
        let asked = self.since.map(|at| Lived { lived: Duration::ZERO, at });
        self.lived = self.lived.or(asked);
    }

    /// A rule of its own says how old it is, which the flow is at least.
    pub(super) fn has_lived(&mut self, r: &FlowStats, now: Duration) {
        let lived = Duration::new(r.duration_sec.into(), r.duration_nsec);
        let lived = self.lived.map_or(lived, |l| lived.max(l.until(now)));
        self.lived = Some(Lived { lived, at: now });
    }

    /// How long it has lived, by what the switch says of its rules (seconds, nanoseconds).
    pub(super) fn age(&self, by_rules: (u32, u32), now: Duration) -> (u32, u32) {
        let Some(own) = self.lived.map(|l| l.until(now)) else { return by_rules };
        by_rules.max((u32::try_from(own.as_secs()).unwrap_or(u32::MAX), own.subsec_nanos()))
    }

    /// The hard time-out of a rule that is installed now: what is left of the flow's. One that is over gets a
    /// second, so that its end is told as every other.
    pub(super) fn time_left(&self, now: Duration) -> u16 {
        let Some(lived) = self.lived.filter(|_| self.hard_timeout > 0) else {
            return self.hard_timeout;
        };
        let past = u16::try_from(lived.until(now).as_secs()).unwrap_or(u16::MAX);
        self.hard_timeout.saturating_sub(past).max(1)
    }
}
