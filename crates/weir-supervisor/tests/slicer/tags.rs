//! Tags beneath tags: what a pop uncovers must be the slice's, too.

use super::bench::*;
use proptest::prelude::*;
use weir_openflow::model::*;
use weir_supervisor::slicer::{SlicePlan, TagsRead};

const BOTH: [Version; 2] = [Version::V10, Version::V13];

fn untagged() -> Match {
    Match::default().with(Field::VlanVid, 0)
}

/// Red has VLAN 30; blue VLAN 20, priority tags and what has no tag.
fn two(v: Version) -> Bench {
    let ports = [1, 2, 3];
    let mut rules = vec![grant(0, vlan(30), &ports)];
    rules.extend([vlan(20), vlan(0), untagged()].map(|m| grant(1, m, &ports)));
    Bench::new(v, vec![slice("red"), slice("blue")], rules)
}

/// A frame with these types and what is behind each; the last is the payload's type.
fn tagged(tags: &[(u16, u16)], kind: u16) -> Vec<u8> {
    let mut f = vec![2, 0, 0, 0, 0, 1, 2, 0, 0, 0, 0, 2];
    for (tag, tci) in tags {
        f.extend(tag.to_be_bytes());
        f.extend(tci.to_be_bytes());
    }
    f.extend(kind.to_be_bytes());
    f.resize(64, 0);
    f
}

fn packet_out(data: Vec<u8>, actions: Vec<Action>) -> Message {
    Message::PacketOut(PacketOut { buffer_id: NO_BUFFER, in_port: Port(1), actions, data })
}

#[test]
fn a_packet_out_is_judged_by_the_tag_that_it_uncovers() {
    use Action::PopVlan;
    let to = || out(Port(2));
    for v in BOTH {
        let mut b = two(v);
        let mine = |b: &mut Bench, tags: &[(u16, u16)], actions: &[Action]| {
            b.ask(2, packet_out(tagged(tags, 0x800), actions.to_vec()));
            assert_eq!(b.sent().len(), 1, "{tags:x?} {actions:?}");
        };
        let not = |b: &mut Bench, tags: &[(u16, u16)], actions: &[Action]| {
            let p = packet_out(tagged(tags, 0x800), actions.to_vec());
            assert_eq!(b.refused(2, p), ErrorCode::ActionEperm, "{tags:x?} {actions:?}");
        };
        let (pop, twice) = ([PopVlan, to()], [PopVlan, PopVlan, to()]);
        for outer in [0, 20] {
            not(&mut b, &[(0x8100, outer), (0x8100, 30)], &pop);
            not(&mut b, &[(0x88a8, outer), (0x8100, 30)], &pop);
            mine(&mut b, &[(0x8100, outer), (0x8100, 30)], &[to()]);
            mine(&mut b, &[(0x8100, outer), (0x8100, 20)], &pop);
            mine(&mut b, &[(0x8100, outer)], &pop);
            mine(&mut b, &[(0x8100, outer), (0x8100, 30)], &twice);
            not(&mut b, &[(0x8100, outer), (0x8100, 20), (0x8100, 30)], &twice);
        }
        mine(&mut b, &[], &twice);
        // Whether 0x9100 is a tag is said by some switches so and by others so.
        not(&mut b, &[(0x8100, 20), (0x9100, 20)], &pop);
        not(&mut b, &[(0x9100, 20), (0x8100, 20)], &pop);
        // What was covered comes back.
        if v == Version::V13 {
            let set = Action::SetField(Field::VlanVid, 0x1014);
            let push = || Action::PushVlan(0x8100);
            mine(&mut b, &[], &[push(), set.clone(), to(), PopVlan, to()]);
            mine(&mut b, &[(0x8100, 30)], &[push(), set.clone(), to()]);
            not(&mut b, &[(0x8100, 30)], &[push(), set, PopVlan, to()]);
        }
    }
}

#[test]
fn what_switches_read_differently_is_sent_by_nobody() {
    for v in BOTH {
        let (ip, tables) = (|m: Match| m.with(Field::EthType, 0x800), || out(Port::TABLE));
        let rules = vec![grant(0, vlan(20), &[1, 2]), grant(1, ip(vlan(20)), &[1, 2])];
        let mut rules = rules;
        rules[1].priority = 200;
        rules.push(grant(1, vlan(30), &[1, 2]));
        let mut b = Bench::new(v, vec![slice("red"), slice("blue")], rules);
        let mut mine = |tags: &[(u16, u16)], actions: Vec<Action>| {
            let asked = b.ask(2, packet_out(tagged(tags, 0x800), actions));
            let taken = b.sent().len() == 1;
            if !taken {
                assert_eq!(b.error(2, asked), ErrorCode::ActionEperm);
            }
            taken
        };
        // To a switch that knows one tag, 0x8100 is the type of a frame with two.
        for to in [out(Port(2)), tables()] {
            assert!(mine(&[(0x8100, 20)], vec![to.clone()]));
            assert!(!mine(&[(0x8100, 20), (0x8100, 30)], vec![to.clone()]));
            // And there is no VLAN here at all.
            assert!(!mine(&[(0x9100, 30)], vec![to]));
        }
        // What leaves is read anew; the tables may go by what was read.
        let two = [(0x8100, 30), (0x8100, 30)];
        assert!(mine(&two, vec![Action::PopVlan, out(Port(2))]));
        assert!(!mine(&two, vec![Action::PopVlan, tables()]));
    }
}

#[test]
fn a_label_hides_no_tag() {
    let mut b = two(Version::V13);
    let pop = |t| Action::PopMpls(t);
    let to = || out(Port(2));
    let label = |tags: &[(u16, u16)]| tagged(tags, 0x8847);
    // What the label covers becomes a tag: the only one, or one beneath.
    for (tags, actions) in [
        (&[(0x8100, 20)][..], vec![pop(0x8100), Action::PopVlan, to()]),
        (&[][..], vec![pop(0x8100), to()]),
        (&[][..], vec![pop(0x88a8), to()]),
        (&[][..], vec![Action::SetField(Field::EthType, 0x8100), to()]),
    ] {
        let e = b.refused(2, packet_out(label(tags), actions.clone()));
        assert_eq!(e, ErrorCode::ActionEperm, "{actions:?}");
        let vid = if tags.is_empty() { untagged() } else { vlan(20) };
        let e = b.refused(2, add(vid.with(Field::EthType, 0x8847), actions.clone()));
        assert_eq!(e, ErrorCode::ActionEperm, "{actions:?}");
    }
    // Where the label was between two tags, the inner one is none any more.
    let actions = vec![Action::PushMpls(0x8847), pop(0x800), Action::PopVlan, to()];
    let twice = tagged(&[(0x8100, 20), (0x8100, 20)], 0x800);
    assert_eq!(b.refused(2, packet_out(twice, actions)), ErrorCode::ActionEperm);
    for actions in [vec![pop(0x8100), to()], vec![pop(0x800), Action::PopVlan, to()]] {
        b.ask(2, packet_out(label(&[(0x8100, 20)]), actions));
        assert_eq!(b.sent().len(), 1);
    }
}

#[test]
fn a_type_does_not_say_that_there_is_no_further_tag() {
    for v in BOTH {
        let mut b = two(v);
        let actions = || vec![Action::PopVlan, out(Port(2))];
        let pop = |m: Match| add(m, actions());
        for kind in [None, Some(0x0800), Some(0x0806), Some(0x8100)] {
            let m = kind.map_or(vlan(20), |k| vlan(20).with(Field::EthType, k));
            assert_eq!(b.refused(2, pop(m)), ErrorCode::ActionEperm, "{kind:x?}");
        }
        if v == Version::V13 {
            let m = vlan(20).with(Field::EthType, 0x8847);
            let actions = [vec![Action::PopMpls(0x800)], actions()].concat();
            assert_eq!(b.refused(2, add(m, actions)), ErrorCode::ActionEperm);
        }
        // Without a tag there is nothing to take.
        b.ask(2, pop(untagged()));
        assert_eq!(b.flow_mods().len(), 3);
    }
}

#[test]
fn a_tag_may_be_taken_where_all_beneath_is_the_slices() {
    for v in BOTH {
        // Port 3 is an access port of blue's: whatever leaves there is its own.
        let mut rules = by_vlan(2);
        rules.push(grant(1, Match::default(), &[3]));
        rules[2].priority = 200;
        let mut b = Bench::new(v, vec![slice("red"), slice("blue")], rules);
        let pop = |to| add(vlan(11), vec![Action::PopVlan, out(Port(to))]);
        assert_eq!(b.refused(2, pop(2)), ErrorCode::ActionEperm);
        b.ask(2, pop(3));
        assert_eq!(b.flow_mods().len(), 3);
        // A flow space that is not by VLAN.
        let web = |n: u128| Match::default().with(Field::EthDst, n);
        let rules = vec![grant(0, web(1), &[1, 2]), grant(1, web(2), &[1, 2])];
        let mut b = Bench::new(v, vec![slice("red"), slice("blue")], rules);
        b.ask(2, add(web(2).with(Field::VlanVid, 0x100b), vec![Action::PopVlan, out(Port(2))]));
        assert_eq!(b.flow_mods().len(), 2);
    }
}

#[test]
fn a_switch_that_reads_one_tag_says_by_the_type_that_there_is_no_other() {
    let plan = |n| SlicePlan { tags: TagsRead::One, ..slice(n) };
    let ip = |m: Match| m.with(Field::EthType, 0x800);
    for v in BOTH {
        let ports = [1, 2, 3];
        let mut rules = vec![grant(0, vlan(30), &ports)];
        rules.extend([vlan(20), vlan(21), untagged()].map(|m| grant(1, m, &ports)));
        let mut b = Bench::new(v, vec![plan("red"), plan("blue")], rules);
        let pop = |m| add(m, vec![Action::PopVlan, out(Port(2))]);
        b.ask(2, pop(ip(vlan(20))));
        assert_eq!(b.flow_mods().len(), 3);
        // Only a type that is known says so, and not one that is a tag's.
        assert_eq!(b.refused(2, pop(vlan(20))), ErrorCode::ActionEperm);
        let other = vlan(20).with(Field::EthType, 0x8100);
        assert_eq!(b.refused(2, pop(other)), ErrorCode::ActionEperm);
        if v == Version::V10 {
            continue;
        }
        let mpls = vlan(20).with(Field::EthType, 0x8847);
        let then = |t| vec![Action::PopMpls(t), Action::PopVlan, out(Port(2))];
        b.ask(2, add(mpls.clone(), then(0x800)));
        assert_eq!(b.flow_mods().len(), 3);
        assert_eq!(b.refused(2, add(mpls, then(0x8100))), ErrorCode::ActionEperm);
        // Nor may a slice put a tag of another's under one of its own, where the next table or a group takes that.
        let set = |vid: u128| Action::SetField(Field::VlanVid, 0x1000 | vid);
        let under = || vec![set(30), Action::PushVlan(0x8100), set(20)];
        let to_table = |m, actions| {
            let instructions = vec![Instruction::Apply(actions), Instruction::GotoTable(1)];
            Message::FlowMod(FlowMod { instructions, ..flow(m, vec![]) })
        };
        assert_eq!(b.refused(2, to_table(ip(vlan(20)), under())), ErrorCode::InstEperm);
        let to_tables = [under(), vec![out(Port::TABLE)]].concat();
        assert_eq!(
            b.refused(2, packet_out(tagged(&[(0x8100, 20)], 0x800), to_tables)),
            ErrorCode::ActionEperm
        );
        // The first tag of a frame hides none.
        b.ask(2, to_table(ip(untagged()), vec![Action::PushVlan(0x8100), set(20)]));
        assert_eq!(b.flow_mods().len(), 3);
    }
}

/// How switches differ.
#[derive(Clone, Copy, Debug)]
struct Kind {
    /// push_vlan has the old tag's VLAN, else VLAN 0.
    copies: bool,
    /// push_mpls and pop_mpls work behind the first tag, else behind all.
    one_tag: bool,
}

fn word(f: &[u8], at: usize) -> u16 {
    u16::from_be_bytes([f[at], f[at + 1]])
}

fn has_tag(f: &[u8], at: usize) -> bool {
    matches!(word(f, at), 0x8100 | 0x88a8)
}

/// Where the type behind the tags is.
fn type_at(f: &[u8], one_tag: bool) -> usize {
    let mut at = 12;
    while has_tag(f, at) && !(one_tag && at > 12) && at + 12 < f.len() {
        at += 4;
    }
    at
}

/// The frames that leave, by a switch that does as it is told.
fn acted(kind: Kind, mut f: Vec<u8>, actions: &[Action]) -> Vec<Vec<u8>> {
    let mut left = Vec::new();
    for a in actions {
        let at = type_at(&f, kind.one_tag);
        match a {
            Action::Output { .. } => left.push(f.clone()),
            Action::PushVlan(t) => {
                let tci = if has_tag(&f, 12) && kind.copies { word(&f, 14) } else { 0 };
                f.splice(12..12, [t.to_be_bytes(), tci.to_be_bytes()].concat());
            }
            Action::PopVlan if has_tag(&f, 12) && f.len() > 20 => drop(f.drain(12..16)),
            Action::SetField(Field::VlanVid, v) if has_tag(&f, 12) => {
                f[14..16].copy_from_slice(&(*v as u16 & 0xfff).to_be_bytes());
            }
            Action::PushMpls(t) => {
                f.splice(at..at + 2, [&t.to_be_bytes()[..], &[0, 0, 1, 64]].concat());
            }
            Action::PopMpls(t) if word(&f, at) == 0x8847 && at + 6 <= f.len() => {
                f.splice(at..at + 6, t.to_be_bytes());
            }
            _ => {}
        }
    }
    left
}

/// Whether blue may send it, in [`two`].
fn is_blues(f: &[u8]) -> bool {
    !has_tag(f, 12) || matches!(word(f, 14) & 0xfff, 0 | 20)
}

/// Frames of which the payload looks like tags of red's.
fn stack() -> impl Strategy<Value = Vec<u8>> {
    let tag =
        (prop::sample::select(vec![0x8100, 0x88a8]), prop::sample::select(vec![0, 20, 20, 30]));
    let kind = prop::sample::select(vec![0x0800, 0x8847]);
    (prop::collection::vec(tag, 0..4), kind).prop_map(|(tags, kind)| {
        let mut f = tagged(&tags, kind);
        f.truncate(14 + 4 * tags.len());
        f.extend([0, 30, 0x81, 0].repeat(12));
        f
    })
}

fn actions() -> impl Strategy<Value = Vec<Action>> {
    let one = prop_oneof![
        3 => Just(Action::PopVlan),
        2 => Just(Action::PushVlan(0x8100)),
        2 => prop::sample::select(vec![0u128, 20, 20, 30])
            .prop_map(|v| Action::SetField(Field::VlanVid, 0x1000 | v)),
        1 => Just(Action::PushMpls(0x8847)),
        2 => prop::sample::select(vec![0x0800, 0x8100, 0x8847]).prop_map(Action::PopMpls),
        2 => Just(out(Port(2))),
    ];
    prop::collection::vec(one, 0..7).prop_map(|mut all| {
        all.push(out(Port(2)));
        all
    })
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 300, ..ProptestConfig::default() })]
    /// Whatever is granted, and whatever the switch: nothing leaves that is red's.
    #[test]
    fn nothing_granted_sends_anothers_vlan(
        actions in actions(),
        frames in prop::collection::vec(stack(), 1..12),
        vid in prop::sample::select(vec![None, Some(0u16), Some(20)]),
        kind in prop::sample::select(vec![None, Some(0x0800u16), Some(0x8847)]),
        one in any::<bool>(),
    ) {
        let mut b = two(Version::V13);
        if one {
            let plan = |n| SlicePlan { tags: TagsRead::One, ..slice(n) };
            let plans: Vec<_> = ["red", "blue"].map(|n| Some(plan(n))).into();
            let mut rules = vec![grant(0, vlan(30), &[1, 2, 3])];
            rules.extend([vlan(20), vlan(0), untagged()].map(|m| grant(1, m, &[1, 2, 3])));
            b.switch.replan(&plans, &rules, &mut b.out);
            b.sent();
        }
        let kinds = [(false, false), (false, true), (true, false), (true, true)];
        let kinds = kinds.map(|(copies, one_tag)| Kind { copies, one_tag });
        let m = vid.map_or(untagged(), vlan);
        b.ask(2, add(kind.map_or(m.clone(), |k| m.with(Field::EthType, k.into())), actions.clone()));
        let flow_granted = !b.flow_mods().is_empty();
        for f in frames {
            b.ask(2, packet_out(f.clone(), actions.clone()));
            let sent = !b.sent().is_empty();
            for k in kinds {
                let tag = has_tag(&f, 12).then(|| word(&f, 14) & 0xfff);
                let read = word(&f, type_at(&f, k.one_tag));
                let meets = tag == vid && kind.is_none_or(|kind| kind == read);
                // The operator's word is that all switches read one tag.
                let flow = flow_granted && meets && (k.one_tag || !one);
                if sent || flow {
                    for left in acted(k, f.clone(), &actions) {
                        prop_assert!(is_blues(&left), "{sent} {flow} {k:?} {f:x?}: {left:x?}");
                    }
                }
            }
        }
    }
}
