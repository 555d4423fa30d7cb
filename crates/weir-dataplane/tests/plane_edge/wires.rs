//! Wires inside a data plane: two of its ports, joined. What fills them may be what empties them.

use super::plane_common::*;
use weir_classify::{Field, Match};
use weir_dataplane::*;
use weir_io::memory::{Memory, WireSize};
use weir_packet::{DropReason, Nanos};

const SMALL: WireSize = WireSize { slots: 16, max_frame_bytes: 1518 };

fn by_port(id: weir_packet::PortId) -> MappingRule {
    MappingRule { matcher: Match::any().with(Field::InPort, id.0.into()), priority: 1 }
}

/// One VDP sends every frame eight times by a wire that is too small for that; another takes what
/// comes. Nothing stands still, and every frame is somewhere.
#[test]
fn a_wire_that_is_full_does_not_stand_still() {
    const FRAMES: u64 = 4096;
    let mut p = DataPlane::new(Config::default()).unwrap();
    let input = p.add_port("in", Box::new(Sequencer::new(0, 1, FRAMES))).unwrap();
    let (a, b) = Memory::inside(["a", "b"], SMALL);
    let a = p.add_port("a", Box::new(a)).unwrap();
    let b = p.add_port("b", Box::new(b)).unwrap();
    let output = p.add_port("out", Box::new(Checker::new(1).0)).unwrap();
    for (vid, from, to, copies) in [(1, input, a, 8), (2, b, output, 1)] {
        let mut s = VdpSpec::new(Vid(vid), &format!("v{vid}"));
        s.ports = vec![(PortNo(1), from), (PortNo(2), to)];
        s.mapping = vec![by_port(from)];
        p.create_vdp(s).unwrap();
        let actions = vec![out(2); copies];
        p.add_rule(Vid(vid), 0, &rule(Match::any(), 1, &actions), Placement::Fast).unwrap();
    }
    let mut clock = 0;
    settle(&mut p, &mut clock);
    let s = p.snapshot();
    let v = |n: u16| &s.vdps.iter().find(|v| v.vid == Vid(n)).unwrap().counters;
    assert_eq!(v(1).received.frames, FRAMES, "the source was left waiting for ever");
    let crossed = v(1).forwarded.frames;
    assert_eq!(v(2).received.frames, crossed);
    assert_eq!(v(2).forwarded.frames, crossed);
    assert_eq!(crossed + v(1).dropped.get(DropReason::QueueFull), 8 * FRAMES);
    assert_eq!(v(1).dropped.total(), v(1).dropped.get(DropReason::QueueFull));
}

/// Frames that go round by two wires for as long as their hop limit lets them.
#[test]
fn a_circle_of_wires_turns_until_frames_end() {
    const FRAMES: u64 = 1000;
    let mut p = DataPlane::new(Config::default()).unwrap();
    let input = p.add_port("in", Box::new(Sequencer::new(0, 1, FRAMES))).unwrap();
    let (a, b) = Memory::inside(["a", "b"], SMALL);
    let (c, d) = Memory::inside(["c", "d"], SMALL);
    let ids = [("a", a), ("b", b), ("c", c), ("d", d)]
        .map(|(name, m)| p.add_port(name, Box::new(m)).unwrap());
    for (vid, from, to) in [(1, vec![input, ids[3]], ids[0]), (2, vec![ids[1]], ids[2])] {
        let mut s = VdpSpec::new(Vid(vid), &format!("v{vid}"));
        s.mapping = from.iter().map(|id| by_port(*id)).collect();
        s.ports = from.iter().chain([&to]).zip(1..).map(|(id, n)| (PortNo(n), *id)).collect();
        let last = out(from.len() as u32 + 1);
        p.create_vdp(s).unwrap();
        let actions = [Action::DecTtl, last];
        p.add_rule(Vid(vid), 0, &rule(Match::any(), 1, &actions), Placement::Fast).unwrap();
    }
    let mut clock = 0;
    settle(&mut p, &mut clock);
    p.poll(Nanos(clock + 1));
    let s = p.snapshot();
    let drops: u64 = s.vdps.iter().map(|v| v.counters.dropped.total()).sum();
    let alive: u64 = s.vdps.iter().map(|v| v.held as u64).sum();
    assert_eq!((drops, alive), (FRAMES, 0));
}
