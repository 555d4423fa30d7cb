//! Two flows of a slice that come to the same rule: each keeps its own counters, its age and its time-outs.

use super::bench::*;
use std::time::Duration;
use weir_openflow::model::*;

fn at(port: u32) -> Match {
    vlan(10).with(Field::InPort, port.into())
}

fn told_of_end(matcher: Match, cookie: u64) -> FlowMod {
    FlowMod { cookie, flags: FlowFlags::SEND_FLOW_REM, ..flow(matcher, vec![out(Port(2))]) }
}

/// A rule as the switch has it.
fn rule(m: &FlowMod, packets: u64, lived: u32) -> FlowStats {
    FlowStats {
        table: m.table,
        duration_sec: lived,
        duration_nsec: 0,
        priority: m.priority,
        idle_timeout: m.idle_timeout,
        hard_timeout: m.hard_timeout,
        flags: FlowFlags(0),
        cookie: m.cookie,
        packets,
        bytes: 100 * packets,
        matcher: m.matcher.clone(),
        instructions: m.instructions.clone(),
    }
}

fn removed(m: &FlowMod, packets: u64, reason: RemovedReason, lived: u32) -> Message {
    Message::FlowRemoved(FlowRemoved {
        cookie: m.cookie,
        priority: m.priority,
        reason,
        table: m.table,
        duration_sec: lived,
        duration_nsec: 0,
        idle_timeout: 0,
        hard_timeout: 0,
        packets,
        bytes: 100 * packets,
        matcher: m.matcher.clone(),
    })
}

/// Each with its place among all that is sent.
type Placed<T> = Vec<(usize, T)>;

/// What is sent: questions about rules with their places, and changes.
fn sent(b: &mut Bench) -> (Placed<u32>, Placed<FlowMod>) {
    let (mut asked, mut changed) = (Vec::new(), Vec::new());
    for (i, m) in b.sent().into_iter().enumerate() {
        match m.body {
            Message::StatsRequest { body: StatsRequest::Flow(_), .. } => asked.push((i, m.xid)),
            Message::FlowMod(f) => changed.push((i, f)),
            _ => {}
        }
    }
    (asked, changed)
}

fn answer(b: &mut Bench, xid: u32, rules: Vec<FlowStats>) {
    let body = StatsReply::Flow(rules);
    b.says(xid, Message::StatsReply { more: Part::Last, body });
}

/// Cookie, packets and age of each flow, as the slice is told while the switch has these rules.
fn stats(b: &mut Bench, rules: Vec<FlowStats>) -> Vec<(u64, u64, u32)> {
    let body = StatsRequest::Flow(FlowFilter::every_flow());
    b.ask(1, Message::StatsRequest { more: Part::Last, body });
    let (asked, _) = sent(b);
    answer(b, asked[0].1, rules);
    let told = b.to(1);
    let Message::StatsReply { body: StatsReply::Flow(all), .. } = &told[0].body else {
        panic!("{told:?}")
    };
    all.iter().map(|f| (f.cookie, f.packets, f.duration_sec)).collect()
}

fn later(b: &mut Bench, seconds: u64) {
    b.now += Duration::from_secs(seconds);
}

#[test]
fn a_flow_that_is_covered_keeps_what_it_has_counted_and_its_time() {
    for v in [Version::V10, Version::V13] {
        let mut b = Bench::two(v);
        b.ask(1, Message::FlowMod(FlowMod { hard_timeout: 10, ..told_of_end(at(1), 0x11) }));
        let first = b.flow_mods()[0].1.clone();
        later(&mut b, 5);
        b.ask(1, Message::FlowMod(told_of_end(vlan(10), 0x22)));
        let (asked, changed) = sent(&mut b);
        let place = changed.iter().position(|(_, m)| m.matcher == at(1)).unwrap();
        assert!(asked.len() == 1 && asked[0].0 < changed[place].0);
        for (i, (_, m)) in changed.iter().enumerate() {
            let anew = v == Version::V13 && i == place;
            assert_eq!(m.flags.has(FlowFlags::RESET_COUNTS), anew, "{m:?}");
        }
        // Another flow's within the same match is not it.
        let mut other = rule(&first, 7, 1);
        other.priority += 1;
        answer(&mut b, asked[0].1, vec![other, rule(&first, 30, 5)]);
        later(&mut b, 2);
        let second: Vec<FlowMod> = changed.into_iter().map(|(_, m)| m).collect();
        let now: Vec<_> = second.iter().map(|m| rule(m, 1, 2)).collect();
        assert_eq!(stats(&mut b, now), [(0x11, 30, 7), (0x22, 3, 2)]);

        // It comes back for the rest of its time.
        later(&mut b, 1);
        let gone =
            FlowMod { priority: 10, matcher: vlan(10), ..FlowMod::new(FlowCommand::DeleteStrict) };
        b.ask(1, Message::FlowMod(gone));
        let (asked, changed) = sent(&mut b);
        let back = changed.iter().find(|(_, m)| m.command == FlowCommand::Add).unwrap().1.clone();
        assert_eq!((back.cookie, back.hard_timeout), (first.cookie, 2));
        assert_eq!(back.flags.has(FlowFlags::RESET_COUNTS), v == Version::V13);
        answer(&mut b, asked[0].1, vec![rule(&second[place], 4, 3)]);
        for (i, m) in second.iter().enumerate().filter(|(i, _)| *i != place) {
            b.says(0, removed(m, 1 + i as u64, RemovedReason::Delete, 3));
        }
        b.answer_barriers();
        let end = |told: Vec<Msg>| match &told[..] {
            [Msg { body: Message::FlowRemoved(r), .. }] => (r.cookie, r.packets, r.duration_sec),
            other => panic!("{other:?}"),
        };
        let counted = 4 + (1..=3).sum::<u64>() - (1 + place as u64);
        assert_eq!(end(b.to(1)), (0x22, counted, 3));
        later(&mut b, 2);
        b.says(0, removed(&back, 2, RemovedReason::HardTimeout, 2));
        assert_eq!(end(b.to(1)), (0x11, 32, 10));
    }
}

#[test]
fn a_flow_whose_rule_is_refused_leaves_the_one_that_it_would_have_covered() {
    for v in [Version::V10, Version::V13] {
        let mut b = Bench::two(v);
        b.ask(1, Message::FlowMod(told_of_end(at(1), 0x11)));
        let first = b.flow_mods()[0].1.clone();
        let xid = b.ask(1, Message::FlowMod(told_of_end(vlan(10), 0x22)));
        let all = b.sent();
        let of = |wanted: fn(&Message) -> bool| all.iter().find(|m| wanted(&m.body)).unwrap().xid;
        let asked = of(|m| matches!(m, Message::StatsRequest { .. }));
        let part = of(|m| matches!(m, Message::FlowMod(_)));
        answer(&mut b, asked, vec![rule(&first, 30, 5)]);
        let code = ErrorCode::FlowTableFull;
        b.says(part, Message::Error(ErrorMsg { code, data: Vec::new() }));
        assert_eq!(b.error(1, xid), code);
        // Nothing stands there of the flow that was refused.
        let (asked, changed) = sent(&mut b);
        let back = changed.iter().find(|(_, m)| m.command == FlowCommand::Add).unwrap().1.clone();
        assert_eq!((back.cookie, &back.matcher), (first.cookie, &first.matcher));
        assert!(asked.is_empty());
        let now = vec![rule(&back, 2, 0)];
        assert_eq!(stats(&mut b, now), [(0x11, 32, 5)]);
    }
}

#[test]
fn a_covered_rule_of_a_flow_whose_time_is_over_does_not_come_back() {
    for v in [Version::V10, Version::V13] {
        let mut b = Bench::two(v);
        b.ask(1, Message::FlowMod(FlowMod { hard_timeout: 10, ..told_of_end(vlan(10), 0x11) }));
        let first: Vec<FlowMod> = b.flow_mods().into_iter().map(|(_, m)| m).collect();
        b.ask(1, Message::FlowMod(told_of_end(at(1), 0x22)));
        sent(&mut b);
        for m in first.iter().filter(|m| m.matcher != at(1)) {
            assert!(b.to(1).is_empty());
            b.says(0, removed(m, 1, RemovedReason::HardTimeout, 10));
        }
        let told = b.to(1);
        assert!(
            matches!(&told[..], [Msg { body: Message::FlowRemoved(r), .. }] if r.cookie == 0x11)
        );
        assert_eq!(stats(&mut b, Vec::new()).len(), 1);
        let gone =
            FlowMod { priority: 10, matcher: at(1), ..FlowMod::new(FlowCommand::DeleteStrict) };
        b.ask(1, Message::FlowMod(gone));
        let changed = b.flow_mods();
        assert!(matches!(&changed[..], [(_, m)] if m.command == FlowCommand::DeleteStrict));
    }
}

#[test]
fn a_flow_that_takes_its_own_place_goes_on_counting() {
    let mut b = Bench::two(Version::V13);
    b.ask(1, Message::FlowMod(told_of_end(at(1), 0x11)));
    // One that the next covers, and that stays covered.
    b.ask(1, Message::FlowMod(told_of_end(vlan(10), 0x22)));
    sent(&mut b);
    b.ask(1, Message::FlowMod(told_of_end(vlan(10), 0x33)));
    let (asked, changed) = sent(&mut b);
    assert_eq!((asked.len(), changed.len()), (0, 3));
    assert!(changed.iter().all(|(_, m)| !m.flags.has(FlowFlags::RESET_COUNTS)));
}
