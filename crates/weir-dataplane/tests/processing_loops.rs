//! Groups and tables that lead on and on, in a running data plane: refused by control, or cut by
//! the executor and counted; either way every frame is accounted for and none is sent for ever.

mod plane_common;

use plane_common::*;
use weir_classify::Match;
use weir_dataplane::*;
use weir_packet::{DropReason, PortId};

/// A VDP whose default is group 1, with frames in front of its port.
fn plane(frames: u64) -> (DataPlane, PortId) {
    let mut p = DataPlane::new(Config::default()).unwrap();
    let input = p.add_port("in", Box::new(Sequencer::new(5, 1, frames))).unwrap();
    let (sink, _) = Checker::new(1);
    let output = p.add_port("out", Box::new(sink)).unwrap();
    p.create_vdp(vlan_vdp(1, 5, input, output)).unwrap();
    (p, output)
}

fn counters(p: &DataPlane) -> VdpCounters {
    let s = p.snapshot();
    s.check().unwrap();
    s.vdps.iter().find(|v| v.vid == Vid(1)).unwrap().counters.clone()
}

fn group(actions: &[&[Action]]) -> Group<Vec<Action>> {
    Group::new(GroupKind::All, actions.iter().map(|a| Bucket::new(a.to_vec())).collect()).unwrap()
}

fn everything(p: &mut DataPlane) {
    p.set_default(Vid(1), &[Action::Group(1)]).unwrap();
    settle(p, &mut 0);
}

#[test]
fn a_group_that_names_itself() {
    let (mut p, _) = plane(100);
    // A group may name only what is there: the loop comes with the second version.
    p.put_group(Vid(1), 1, group(&[&[out(2)]])).unwrap();
    if p.put_group(Vid(1), 1, group(&[&[Action::Group(1)]])).is_err() {
        return;
    }
    everything(&mut p);
    let c = counters(&p);
    assert_eq!((c.received.frames, c.forwarded.frames), (100, 0));
    assert_eq!(c.dropped.get(DropReason::TooDeep), 100);
}

#[test]
fn groups_that_name_one_another_twice() {
    // Each turn doubles the copies: what ends it is the depth and the copies that there are.
    let (mut p, _) = plane(3);
    let again: &[Action] = &[Action::Group(2)];
    let back: &[Action] = &[Action::Group(1)];
    p.put_group(Vid(1), 1, group(&[])).unwrap();
    p.put_group(Vid(1), 2, group(&[])).unwrap();
    let first = p.put_group(Vid(1), 1, group(&[again, again]));
    let second = p.put_group(Vid(1), 2, group(&[back, back]));
    if first.is_err() || second.is_err() {
        return;
    }
    everything(&mut p);
    let c = counters(&p);
    assert_eq!((c.received.frames, c.forwarded.frames), (3, 0));
    eprintln!("{} copies of 3 frames", c.cloned);
    let cut = c.dropped.get(DropReason::TooDeep) + c.dropped.get(DropReason::NoFrame);
    assert!(c.dropped.get(DropReason::TooDeep) > 0);
    assert_eq!(cut, 3 + c.cloned);
    // All frames are home again.
    let frames = p.snapshot().frames;
    assert_eq!(frames.free + frames.spares, frames.count);
}

#[test]
fn a_chain_that_ends_is_followed() {
    let (mut p, _) = plane(10);
    // From its end: a group names only those that are there.
    p.put_group(Vid(1), 8, group(&[&[out(2)]])).unwrap();
    for id in (1..8).rev() {
        p.put_group(Vid(1), id, group(&[&[Action::Group(id + 1)]])).unwrap();
    }
    everything(&mut p);
    let c = counters(&p);
    assert_eq!((c.received.frames, c.forwarded.frames, c.dropped.total()), (10, 10, 0));
}

#[test]
fn a_group_that_is_not_there_is_counted_or_refused() {
    let (mut p, _) = plane(10);
    if p.set_default(Vid(1), &[Action::Group(9)]).is_err() {
        return;
    }
    settle(&mut p, &mut 0);
    assert_eq!(counters(&p).dropped.get(DropReason::GroupEmpty), 10);
}

#[test]
fn tables_lead_only_forward() {
    let (mut p, _) = plane(0);
    let goto = |t| rule(Match::any(), 1, &[Action::Goto(t)]);
    for (from, to) in [(0, 0), (1, 0), (2, 2), (0, 255)] {
        assert!(p.add_rule(Vid(1), from, &goto(to), Placement::Fast).is_err(), "{from} to {to}");
    }
    assert!(p.add_rule(Vid(1), 0, &goto(1), Placement::Fast).is_ok());
}

#[test]
fn a_default_leads_to_no_table() {
    // It stands behind every table: a miss there would come back to it for ever.
    let (mut p, _) = plane(10);
    let refused = |r: Result<(), ControlError>| {
        let e = ControlError::Actions(CompileError::DefaultGoto);
        assert_eq!(r.unwrap_err().to_string(), e.to_string());
    };
    refused(p.set_default(Vid(1), &[Action::DecTtl, Action::Goto(1)]));
    let mut spec = VdpSpec::new(Vid(2), "v2");
    spec.default = vec![Action::Goto(3)];
    refused(p.create_vdp(spec));
    settle(&mut p, &mut 0);
    assert_eq!(counters(&p).received.frames, 10);
}
