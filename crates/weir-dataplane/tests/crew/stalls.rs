//! A worker that stands still harms its own flows alone.

use crate::plane_common::{frame, read_seq};
use crate::rig::*;
use std::collections::BTreeMap;
use std::sync::mpsc::channel;
use weir_dataplane::crew::flow::bucket;
use weir_dataplane::*;

/// Frames of many flows through three workers while worker 2 is not polled, by a source that loses what is not taken.
#[test]
fn a_worker_that_stands_still_harms_its_own_flows_alone() {
    let flows: Vec<u32> = (0..12_000).map(|n| n % 300).collect();
    let all = frames(&flows);
    let (out, kept) = sink("out");
    let (feed, from) = channel();
    let mut rig = Rig::new(3, vec![Box::new(Fed::new(from).overflowing()), out]);
    rig.vdp(&[Action::Drop]);
    rig.change(|p| {
        p.add_rule(Vid(1), 0, &rule_of("actions=output:2"), Placement::Fast).unwrap();
    });
    all.iter().for_each(|f| feed.send(f.clone()).unwrap());
    rig.settle_without(2);
    let still = |f: &Vec<u8>| rig.spreads[0].owner(bucket(f)) == Some(2);
    let mut out: BTreeMap<u32, Vec<u64>> = BTreeMap::new();
    for f in kept.take() {
        assert!(!still(&f.bytes), "worker 2 was not polled");
        let (flow, seq) = read_seq(&f.bytes);
        out.entry(flow).or_default().push(seq);
    }
    let (its, others): (Vec<_>, Vec<_>) = all.iter().partition(|f| still(f));
    assert!(its.len() > 2000 && others.len() > 6000);
    assert_eq!(out.values().map(Vec::len).sum::<usize>(), others.len(), "others lost frames");
    for seqs in out.values() {
        assert_eq!(*seqs, (0..40).collect::<Vec<u64>>());
    }
    // What it did not take is counted, but for what waits for it.
    let missed = rig.snapshot().ports[0].device_counters.rx_missed as usize;
    assert_eq!(missed, its.len() - crew::LANE_FRAMES);
    // When it goes on it has what waited, in order.
    rig.settle();
    let late = by_flow(&kept);
    assert_eq!(late.values().map(Vec::len).sum::<usize>(), crew::LANE_FRAMES);
    for seqs in late.values() {
        let seqs: Vec<u64> = seqs.iter().map(|f| read_seq(f).1).collect();
        assert!(seqs.is_sorted());
    }
}

/// A source that waits loses nothing: it is left waiting while one worker has no room.
#[test]
fn a_source_that_waits_is_left_waiting_and_loses_nothing() {
    let flows: Vec<u32> = (0..6000).map(|n| n % 100).collect();
    let (out, kept) = sink("out");
    let mut rig = Rig::new(2, vec![source(&frames(&flows)), out]);
    rig.vdp(&[Action::Drop]);
    rig.change(|p| {
        p.add_rule(Vid(1), 0, &rule_of("actions=output:2"), Placement::Fast).unwrap();
    });
    rig.settle_without(1);
    let before = kept.len();
    assert!(before < 3000, "{before} left while worker 1 stood still");
    rig.settle();
    assert_eq!(kept.len(), 6000);
    assert_eq!(rig.snapshot().ports[0].device_counters.rx_missed, 0);
    for seqs in by_flow(&kept).values() {
        let seqs: Vec<u64> = seqs.iter().map(|f| read_seq(f).1).collect();
        assert_eq!(seqs, (0..60).collect::<Vec<u64>>());
    }
}

/// A frame that another worker has sent is done when its port's home has sent it, not before.
#[test]
fn what_waits_on_its_way_to_a_ports_home_is_not_done() {
    let (out, kept) = sink("out");
    let mut rig = Rig::new(2, vec![out]);
    rig.vdp(&[Action::Drop]);
    let of = |rig: &Rig| rig.snapshot().ports[0].exhausted;
    rig.change(|p| _ = p.check_links());
    assert!(of(&rig));
    let actions = [Action::Output(Out::Port(PortNo(1)))];
    let sent = PacketOut { in_port: PortIn::None, frame: &frame(0, 1, 1, 1), actions: &actions };
    rig.planes[1].packet_out(Vid(1), sent).unwrap();
    rig.poll(1);
    assert!(kept.is_empty() && !of(&rig));
    assert!(!rig.planes[0].snapshot().ports[0].exhausted, "home may sleep over it");
    rig.settle();
    rig.change(|p| _ = p.check_links());
    assert!(kept.len() == 1 && of(&rig));
}
