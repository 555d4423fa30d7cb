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

/// A flow keeps what it has counted, its age and its time where it comes down to other rules.
#[test]
fn a_flow_of_other_rules_goes_on() {
    for v in [Version::V10, Version::V13] {
        let mut b = Bench::two(v);
        b.ask(1, Message::FlowMod(FlowMod { hard_timeout: 10, ..told_of_end(vlan(10), 0x11) }));
        let first: Vec<FlowMod> = b.flow_mods().into_iter().map(|(_, m)| m).collect();
        b.answer_barriers();
        later(&mut b, 4);
        // Port 3 is its slice's no more, port 4 is.
        let other = |ports: &[u32]| vec![grant(0, vlan(10), ports), grant(1, vlan(11), &[1])];
        let plans = vec![Some(slice("red")), Some(slice("blue"))];
        b.says(0, Message::PortStatus(PortStatus { reason: PortReason::Add, desc: port(4) }));
        b.sent();
        b.answer_barriers();
        b.switch.replan(&plans, &other(&[1, 2, 4]), &mut b.out);
        let (_, changed) = sent(&mut b);
        let (gone, new) = (&changed[0].1, &changed[1].1);
        assert_eq!((changed.len(), gone.command), (2, FlowCommand::DeleteStrict));
        assert_eq!((&gone.matcher, &new.matcher), (&at(3), &at(4)));
        // The new rule has what is left of the flow's time.
        assert_eq!((new.command, new.hard_timeout), (FlowCommand::Add, 6));
        let third = first.iter().find(|m| m.matcher == at(3)).unwrap().clone();
        let stay: Vec<&FlowMod> = first.iter().filter(|m| m.matcher != at(3)).collect();
        assert_eq!(stay.len(), 2);

        // It comes back before the switch has told of its end: that is not the end of what is there now.
        b.switch.replan(&plans, &other(&[1, 2, 3, 4]), &mut b.out);
        let back = sent(&mut b).1.remove(0).1;
        assert_eq!((back.command, &back.matcher), (FlowCommand::Add, &at(3)));
        b.says(0, removed(&third, 40, RemovedReason::Delete, 4));
        b.answer_barriers();
        assert!(b.to(1).iter().all(|m| !matches!(m.body, Message::FlowRemoved(_))));
        later(&mut b, 1);
        let there =
            vec![rule(stay[0], 1, 5), rule(stay[1], 2, 5), rule(new, 3, 1), rule(&back, 4, 1)];
        assert_eq!(stats(&mut b, there), [(0x11, 50, 5)]);

        // It is told as removed when all that it has ever had is gone.
        b.switch.replan(&plans, &other(&[2, 3]), &mut b.out);
        let (_, changed) = sent(&mut b);
        assert!(changed.iter().all(|(_, m)| m.command == FlowCommand::DeleteStrict), "{changed:?}");
        assert_eq!(changed.len(), 2);
        let gone =
            FlowMod { priority: 10, matcher: vlan(10), ..FlowMod::new(FlowCommand::DeleteStrict) };
        b.ask(1, Message::FlowMod(gone));
        sent(&mut b);
        let end = |b: &mut Bench| {
            let told = b.to(1).into_iter();
            told.filter_map(|m| match m.body {
                Message::FlowRemoved(r) => Some((r.cookie, r.packets, r.duration_sec)),
                _ => None,
            })
            .collect::<Vec<_>>()
        };
        for m in [stay[0], new, stay[1]] {
            b.says(0, removed(m, 10, RemovedReason::Delete, 6));
            assert_eq!(end(&mut b), []);
        }
        b.says(0, removed(&back, 20, RemovedReason::Delete, 2));
        b.answer_barriers();
        assert_eq!(end(&mut b), [(0x11, 90, 6)]);
    }
}

/// Where only what a flow does is different, its rules are changed, not made anew.
#[test]
fn a_flow_that_floods_counts_on_when_a_port_comes() {
    for v in [Version::V10, Version::V13] {
        let mut b = Bench::two(v);
        b.ask(1, Message::FlowMod(flow(at(1), vec![out(Port::FLOOD)])));
        sent(&mut b);
        b.answer_barriers();
        let rules = vec![grant(0, vlan(10), &[1, 2]), grant(1, vlan(11), &[1])];
        let plans = vec![Some(slice("red")), Some(slice("blue"))];
        b.switch.replan(&plans, &rules, &mut b.out);
        let (_, changed) = sent(&mut b);
        assert_eq!(changed.len(), 1);
        assert_eq!(changed[0].1.command, FlowCommand::ModifyStrict, "{changed:?}");
    }
}

/// A rule that an earlier flow comes to as well stays the later one's.
#[test]
fn the_later_flow_stands_where_an_earlier_one_comes_to_its_rule() {
    let ip = |m: Match| m.with(Field::EthType, 0x0800);
    let plans = vec![Some(slice("red"))];
    for v in [Version::V10, Version::V13] {
        let mut b = Bench::new(v, vec![slice("red")], vec![grant(0, vlan(10), &[1])]);
        b.ask(1, Message::FlowMod(FlowMod { cookie: 1, ..flow(Match::default(), vec![]) }));
        b.ask(1, Message::FlowMod(flow(ip(Match::default()), vec![])));
        let (_, asked) = sent(&mut b);
        b.answer_barriers();
        let later = asked[1].1.clone();
        b.switch.replan(&plans, &[grant(0, ip(vlan(10)), &[1])], &mut b.out);
        let (_, changed) = sent(&mut b);
        b.answer_barriers();
        assert_eq!(changed.len(), 1, "{changed:?}");
        assert_eq!(
            (changed[0].1.command, &changed[0].1.matcher),
            (FlowCommand::DeleteStrict, &at(1))
        );
        let command = FlowCommand::DeleteStrict;
        let matcher = ip(Match::default());
        b.ask(1, Message::FlowMod(FlowMod { priority: 10, matcher, ..FlowMod::new(command) }));
        let (_, changed) = sent(&mut b);
        let back = &changed.last().unwrap().1;
        assert_eq!(
            (back.command, &back.matcher),
            (FlowCommand::Add, &later.matcher),
            "{changed:?}"
        );
        assert_eq!(back.cookie, asked[0].1.cookie);
    }
}
