//! A sliced switch under any messages from either side: what must hold whatever comes.
//!
//! Bytes are a script: connections come and go, messages (any type, any body) come from controllers and from the switch,
//! which answers what it was asked, or lies; slices change parts of the flow space, or are gone and come back; the slicer itself
//! ends and takes up what was kept, from a switch that has lost or kept everything. After each
//! step, what is sent must have a form in its version, every rule must lie within what is its slice's part now, and books
//! must stay within their limits.

use std::collections::BTreeMap;
use std::time::Duration;
use weir_openflow::codec;
use weir_openflow::model::*;
use weir_supervisor::slicer::space::{Right, SliceId};
use weir_supervisor::slicer::{
    ConnId, Fact, Key, Limits, Loss, Out, PortRef, SlicePlan, SpaceRule, Switch, TagsRead, cube,
};

const SLICES: u16 = 3;
const RULES: usize = 40;

fn own(slice: u16) -> Match {
    Match::default().with(Field::VlanVid, u128::from(0x1000 | (10 + slice)))
}

fn plan(i: u16) -> SlicePlan {
    let limits =
        Limits { rules: RULES, pieces: 16, tables: 3, groups: 3, meters: 2, ..Limits::default() };
    let loss = [Loss::Keep, Loss::Delete, Loss::Drop { seconds: 1 }][usize::from(i % 3)];
    let tags = [TagsRead::Any, TagsRead::One][usize::from(i % 2)];
    SlicePlan { name: format!("s{i}"), queues: [1].into(), limits, loss, tags }
}

/// The rule of slice `i` when parts have been changed `turn` times.
fn rule(i: u16, turn: u16) -> SpaceRule {
    let ports = (1..=3).map(|p| PortRef::Number(Port(p))).collect();
    let grants = vec![(SliceId(i), Right::Write)];
    let matchers = vec![own((i + turn) % SLICES)];
    SpaceRule { priority: 1, ports, matchers, grants, by: None, datapath: None }
}

struct Script<'a>(&'a [u8]);

impl<'a> Script<'a> {
    fn byte(&mut self) -> Option<u8> {
        let (b, rest) = self.0.split_first()?;
        self.0 = rest;
        Some(*b)
    }
    fn take(&mut self, n: usize) -> &'a [u8] {
        let (a, b) = self.0.split_at(n.min(self.0.len()));
        self.0 = b;
        a
    }
}

/// Runs a script.
pub fn script(bytes: &[u8]) {
    let mut s = Script(bytes);
    let Some(first) = s.byte() else { return };
    let version = if first & 1 == 0 { Version::V10 } else { Version::V13 };
    let slices = (0..SLICES).map(plan).collect();
    let mut switch = Switch::new(version, slices, (0..SLICES).map(|i| rule(i, 0)).collect());
    let mut out = Out::default();
    let (mut now, mut xids, mut turn) = (Duration::ZERO, Vec::new(), 0);
    let mut kept = (first & 2 != 0).then(BTreeMap::new);
    match &kept {
        Some(_) => switch.begin_again(&mut out),
        None => switch.begin(&mut out),
    }
    ready(&mut switch, version, &mut kept, &mut out);
    for i in 0..SLICES {
        switch.connected(ConnId(u64::from(i) + 1), SliceId(i), &mut out);
    }
    while let Some(op) = s.byte() {
        let conn = u64::from(op >> 4) % 5 + 1;
        match op & 15 {
            0..=8 => {
                let Some((msg, frame)) = message(&mut s, version, &xids) else { continue };
                if switch.takes_from(ConnId(conn)) {
                    switch.from_controller(ConnId(conn), msg, &frame, now, &mut out);
                }
            }
            9..=11 => {
                let Some((msg, _)) = message(&mut s, version, &xids) else { continue };
                switch.from_switch(msg, now, &mut out);
            }
            12 => {
                // What was asked is answered, or refused.
                for xid in std::mem::take(&mut xids) {
                    let body = match op >> 6 {
                        0 => Message::Error(ErrorMsg {
                            code: ErrorCode::FlowTableFull,
                            data: vec![0; 64],
                        }),
                        _ => Message::BarrierReply,
                    };
                    switch.from_switch(Msg { xid, body }, now, &mut out);
                }
            }
            13 => switch.disconnected(ConnId(conn), &mut out),
            14 if op >> 4 > 9 && kept.is_some() => {
                let plans = (0..SLICES).map(plan).collect();
                let rules = (0..SLICES).map(|i| rule(i, turn)).collect();
                switch = Switch::new(version, plans, rules);
                (out, xids) = (Out::default(), Vec::new());
                switch.begin_again(&mut out);
                ready(&mut switch, version, &mut kept, &mut out);
                for i in 0..SLICES {
                    switch.connected(ConnId(u64::from(i) + 1), SliceId(i), &mut out);
                }
            }
            14 => switch.connected(ConnId(conn), SliceId((conn % 3) as u16), &mut out),
            _ if op >> 4 < 8 => now += Duration::from_millis(100),
            _ => {
                turn = (turn + 1) % SLICES;
                // One of them is no more, now and then.
                let there = |i: &u16| op >> 4 < 12 || *i != turn;
                let plans: Vec<_> = (0..SLICES).map(|i| Some(i).filter(there).map(plan)).collect();
                for c in 1..=5 {
                    if !there(&((c % 3) as u16)) || c == u64::from(turn) + 1 {
                        switch.disconnected(ConnId(c), &mut out);
                    }
                }
                let rules: Vec<_> = (0..SLICES).filter(there).map(|i| rule(i, turn)).collect();
                switch.replan(&plans, &rules, &mut out);
            }
        }
        switch.settle(now, &mut out);
        keep(&mut kept, &mut out);
        check(&switch, version, turn, &mut out, &mut xids);
    }
}

/// Facts that hold, if they are kept.
type Kept = Option<BTreeMap<Key, Fact>>;

fn keep(kept: &mut Kept, out: &mut Out) {
    for f in out.facts.drain(..) {
        let kept = kept.as_mut().expect("facts of a switch that keeps none");
        match f.held {
            Some(_) => drop(kept.insert(f.key, f)),
            None => drop(kept.remove(&f.key)),
        }
        assert!(kept.len() <= usize::from(SLICES) * (RULES + 5), "{} facts", kept.len());
    }
}

/// The switch says who it is, and that it has nothing.
fn ready(switch: &mut Switch, version: Version, kept: &mut Kept, out: &mut Out) {
    // Three questions at most, one after the other.
    for _ in 0..6 {
        if switch.is_ready() {
            return;
        }
        if switch.awaits().is_some() {
            let facts = kept.iter().flat_map(|k| k.values().cloned()).collect();
            switch.resume(facts, out);
        }
        answer(switch, version, out);
        keep(kept, out);
    }
    panic!("not ready");
}

fn answer(switch: &mut Switch, version: Version, out: &mut Out) {
    let port = |no| PortDesc::new(Port(no), [0; 6], format!("p{no}"));
    for m in std::mem::take(&mut out.to_switch) {
        let ports: Vec<PortDesc> = (1..=4).map(port).collect();
        let body = match m.body {
            Message::FeaturesRequest => Message::FeaturesReply(Features {
                datapath_id: 1,
                buffers: 0,
                tables: 254,
                auxiliary_id: 0,
                capabilities: Capabilities::default(),
                actions: 0,
                ports: if version == Version::V10 { ports } else { Vec::new() },
            }),
            Message::StatsRequest { body, .. } => Message::StatsReply {
                more: Part::Last,
                body: match body {
                    StatsRequest::Flow(_) => StatsReply::Flow(Vec::new()),
                    StatsRequest::GroupDesc => StatsReply::GroupDesc(Vec::new()),
                    StatsRequest::MeterConfig(_) => StatsReply::MeterConfig(Vec::new()),
                    _ => StatsReply::PortDesc(ports),
                },
            },
            _ => continue,
        };
        switch.from_switch(Msg { xid: m.xid, body }, Duration::ZERO, out);
    }
}

/// A message whose header is true and whose body is the script's; it may name an xid that is in use.
fn message(s: &mut Script<'_>, version: Version, xids: &[u32]) -> Option<(Msg, Vec<u8>)> {
    let kind = s.byte()?;
    let (which, len) = (s.byte()?, s.byte()?);
    let body = s.take(len.into());
    let xid = xids.get(usize::from(which)).copied().unwrap_or(which.into());
    let mut frame = vec![version as u8, kind % 32];
    frame.extend(u16::try_from(8 + body.len()).ok()?.to_be_bytes());
    frame.extend(xid.to_be_bytes());
    frame.extend(body);
    Some((codec::decode(version, &frame).ok()?, frame))
}

fn check(switch: &Switch, version: Version, turn: u16, out: &mut Out, xids: &mut Vec<u32>) {
    for m in out.to_switch.drain(..) {
        let mut bytes = Vec::new();
        codec::encode(version, &m, &mut bytes).unwrap_or_else(|e| panic!("{m:?}: {e}"));
        if let Message::FlowMod(f) = &m.body {
            let within = (0..SLICES).any(|i| cube::is_within(&f.matcher, &own(i)));
            assert!(within, "{f:?}");
            // Deletions have no cookie, and may be of what was its slice's before.
            if let Some(slice) = (f.cookie >> 48).checked_sub(1) {
                let part = own((slice as u16 + turn) % SLICES);
                assert!(cube::is_within(&f.matcher, &part), "{f:?} in turn {turn}");
            }
        }
        xids.push(m.xid);
        let many = xids.len().saturating_sub(256);
        xids.drain(..many);
    }
    for (_, m) in out.to_controllers.drain(..) {
        let mut bytes = Vec::new();
        codec::encode(version, &m, &mut bytes).unwrap_or_else(|e| panic!("{m:?}: {e}"));
    }
    out.told.clear();
    for i in 0..SLICES {
        let (_, flows, rules) = switch.counters(SliceId(i)).unwrap();
        assert!(rules <= RULES && flows <= rules, "{flows} flows, {rules} rules");
    }
}
