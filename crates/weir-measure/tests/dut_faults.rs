//! Every fault does what the profile says, to the microsecond, and nothing else.

mod dut_rig;

use dut_rig::*;
use weir_openflow::model::*;

/// When frames to 1..=n first pass, with a probe every ten microseconds to each, from now on.
fn first_seen(r: &mut Rig, n: u32, until: u64) -> Vec<u64> {
    let begin = r.now / 1000;
    for at in (begin..until).step_by(10) {
        r.until(at);
        (1..=n).for_each(|i| r.frame(1, &udp(i)));
    }
    (1..=n)
        .map(|i| r.seen.iter().find(|(_, _, f)| *f == udp(i)).map_or(u64::MAX, |(at, ..)| *at))
        .collect()
}

#[test]
fn an_insertion_takes_its_time_and_an_honest_barrier_waits_for_it() {
    let mut r = Rig::new("[update]\ninsert_us = 1000\nstart_us = 800", Version::V10);
    (1..=4).for_each(|n| {
        r.queue(insert(n));
    });
    let barrier = r.send(Message::BarrierRequest);
    assert_eq!(first_seen(&mut r, 4, 6000), [1800, 2800, 3800, 4800]);
    assert_eq!(r.answer(barrier).0, 4800);
}

#[test]
fn an_early_barrier_is_answered_before_frames_meet_the_rules() {
    let mut r = Rig::new(
        "[update]\ninsert_us = 1000\n[barrier]\nreply = \"early\"\ndelay_us = 50",
        Version::V10,
    );
    (1..=3).for_each(|n| {
        r.queue(insert(n));
    });
    let barrier = r.send(Message::BarrierRequest);
    assert_eq!(first_seen(&mut r, 3, 4000), [1000, 2000, 3000]);
    assert_eq!(r.answer(barrier), (50, &Message::BarrierReply));
}

#[test]
fn a_barrier_may_be_unsupported_or_unanswered() {
    let mut r = Rig::new("[barrier]\nreply = \"unsupported\"", Version::V13);
    let xid = r.send(Message::BarrierRequest);
    assert_eq!(r.error(xid), Some(ErrorCode::BadType));
    let mut r = Rig::new("[barrier]\nreply = \"never\"", Version::V13);
    let xid = r.send(Message::BarrierRequest);
    r.until(10_000_000);
    assert_eq!(r.answers(xid), []);
}

#[test]
fn past_so_many_entries_insertion_and_modification_cost_more() {
    let mut r = Rig::new(
        "[update]\ninsert_us = 100\ninsert_past = { entries = 2, us = 500 }\n\
         modify_us = 50\nmodify_past = { entries = 4, us = 700 }\ndelete_us = 30",
        Version::V13,
    );
    (1..=4).for_each(|n| {
        r.queue(insert(n));
    });
    r.send(Message::BarrierRequest);
    assert_eq!(first_seen(&mut r, 4, 2000), [100, 200, 700, 1200]);
    r.until(10_000);
    let all = Match::default();
    r.queue(Message::FlowMod(flow(FlowCommand::Modify, 0, all.clone(), vec![output(3)])));
    let modified = r.send(Message::BarrierRequest);
    r.until(20_000);
    assert_eq!(r.answer(modified).0, 10_000 + 4 * 700);
    r.queue(Message::FlowMod(flow(FlowCommand::Delete, 0, all, vec![])));
    let deleted = r.send(Message::BarrierRequest);
    r.until(30_000);
    assert_eq!(r.answer(deleted).0, 20_000 + 4 * 30);
}

#[test]
fn an_order_of_priorities_is_dear() {
    let time = |dear: &str, priorities: [u16; 5]| {
        let text = format!("[update]\ninsert_us = 10\nshift = {{ us = 100, dear = \"{dear}\" }}");
        let mut r = Rig::new(&text, Version::V13);
        for (p, n) in priorities.into_iter().zip(1..) {
            r.queue(Message::FlowMod(flow(FlowCommand::Add, p, to(n), vec![output(2)])));
        }
        let barrier = r.send(Message::BarrierRequest);
        r.until(100_000);
        r.answer(barrier).0
    };
    let (up, down, same) = ([1, 2, 3, 4, 5], [5, 4, 3, 2, 1], [7; 5]);
    let (cheap, moves) = (50, 100 * (1 + 2 + 3 + 4));
    assert_eq!(["ascending", "descending"].map(|d| time(d, up)), [cheap + moves, cheap]);
    assert_eq!(["ascending", "descending"].map(|d| time(d, down)), [cheap, cheap + moves]);
    assert_eq!(["ascending", "descending"].map(|d| time(d, same)), [cheap, cheap]);
}

#[test]
fn updates_are_reordered_but_not_past_an_honest_barrier() {
    let text = "seed = 3\n[update]\ninsert_us = 100\nreorder_window = 8";
    let mut r = Rig::new(text, Version::V13);
    (1..=8).for_each(|n| {
        r.queue(insert(n));
    });
    let barrier = r.send(Message::BarrierRequest);
    r.send(insert(9));
    let seen = first_seen(&mut r, 9, 1000);
    let mut sorted = seen.clone();
    sorted.sort_unstable();
    assert_ne!(seen, sorted, "none overtook another");
    assert_eq!(sorted, [100, 200, 300, 400, 500, 600, 700, 800, 900]);
    assert_eq!(seen[8], 900);
    assert_eq!(r.answer(barrier).0, 800);
    let again = {
        let mut r = Rig::new(text, Version::V13);
        (1..=8).for_each(|n| {
            r.queue(insert(n));
        });
        r.send(Message::BarrierRequest);
        r.send(insert(9));
        first_seen(&mut r, 9, 1000)
    };
    assert_eq!(again, seen, "the same seed, the same order");
}

#[test]
fn an_entry_is_missing_while_it_is_modified() {
    let mut r = Rig::new("[update]\nmodify_us = 300\nmodify_gap_us = 200", Version::V13);
    r.send(insert(1));
    r.send(Message::FlowMod(flow(FlowCommand::Modify, 0, to(1), vec![output(3)])));
    let mut where_to = Vec::new();
    for at in [50, 99, 101, 250, 299, 300, 400] {
        r.until(at);
        r.frame(1, &udp(1));
        where_to.push(r.seen.pop().map(|(_, port, _)| port));
    }
    assert_eq!(where_to, [Some(2), Some(2), None, None, None, Some(3), Some(3)]);
}

#[test]
fn a_table_is_full_with_an_error_or_without() {
    let mut r = Rig::new("[table]\nentries = 2", Version::V13);
    let errors = (1..=3).map(|n| r.send(insert(n))).collect::<Vec<_>>();
    assert_eq!(
        errors.iter().map(|x| r.error(*x)).collect::<Vec<_>>(),
        [None, None, Some(ErrorCode::FlowTableFull)]
    );

    let mut r = Rig::new("[table]\nentries = 2\npast = \"lost\"", Version::V13);
    (1..=3).for_each(|n| {
        r.send(insert(n));
    });
    assert_eq!(r.heard, []);
    (1..=3).for_each(|n| r.frame(1, &udp(n)));
    assert_eq!(r.seen.len(), 2);
    assert_eq!(r.flows().len(), 3);
    // What is deleted makes room, and the lost one can be had then.
    r.send(Message::FlowMod(flow(FlowCommand::Delete, 0, Match::default(), vec![])));
    assert_eq!(r.flows(), []);
    r.send(insert(3));
    r.frame(1, &udp(3));
    assert_eq!(r.seen.len(), 3);
}

#[test]
fn exact_and_wildcard_entries_have_room_of_their_own() {
    let mut r = Rig::new("[table]\nexact_entries = 2\nwildcard_entries = 1", Version::V13);
    let exact = |n: u32| {
        let m = to(n)
            .with(Field::InPort, 1)
            .with(Field::EthDst, 1)
            .with(Field::EthSrc, 2)
            .with(Field::IpProto, 17)
            .with(Field::Ipv4Src, 9)
            .with(Field::UdpSrc, 1)
            .with(Field::UdpDst, 2);
        Message::FlowMod(flow(FlowCommand::Add, 1, m, vec![output(2)]))
    };
    let told = [exact(1), exact(2), exact(3), insert(1), insert(2)].map(|m| r.send(m));
    let told = told.map(|x| r.error(x));
    let full = Some(ErrorCode::FlowTableFull);
    assert_eq!(told, [None, None, full, None, full]);
}

#[test]
fn actions_are_discarded_ignored_refused_or_done_wrong() {
    let text = "[actions]\ndiscards = [\"mac\"]\nignores = [\"tos\"]\nrefuses = [\"vlan-strip\"]\n\
                writes_wrong = [\"l4-port\"]\nwrong_checksum = [\"ip\"]";
    let mut r = Rig::new(text, Version::V13);
    let mut with = |action: Action| {
        let udp_to = to(1).with(Field::IpProto, 17);
        let m = flow(FlowCommand::Add, 1, udp_to, vec![action, output(2)]);
        let xid = r.send(Message::FlowMod(m));
        if let Some(e) = r.error(xid) {
            return Err(e);
        }
        r.frame(1, &udp(1));
        Ok(r.seen.pop().map(|(_, _, f)| f))
    };
    assert_eq!(with(Action::SetField(Field::EthDst, 1)), Ok(None));
    assert_eq!(with(Action::SetField(Field::IpDscp, 46)), Ok(Some(udp(1))));
    assert_eq!(with(Action::PopVlan), Err(ErrorCode::ActionBadType));
    let frame = with(Action::SetField(Field::UdpDst, 80)).unwrap().unwrap();
    assert_eq!(frame[36..38], [0, 81], "one bit off");
    assert!(sums_are_right(&frame));
    let frame = with(Action::SetField(Field::Ipv4Src, 0x0102_0304)).unwrap().unwrap();
    assert_eq!(frame[26..30], [1, 2, 3, 4]);
    assert!(!sums_are_right(&frame));
    let frame = with(Action::PushVlan(0x8100)).unwrap().unwrap();
    assert_eq!(frame.len(), 104, "what is in no list is done");
}

fn sums_are_right(frame: &[u8]) -> bool {
    let ip = weir_wire::Ipv4Packet::new_checked(&frame[14..]).unwrap();
    let udp = weir_wire::UdpPacket::new_checked(ip.payload()).unwrap();
    let sum = udp.verify_checksum(&ip.pseudo_header());
    ip.has_good_checksum() && sum == weir_wire::checksum::Verdict::Good
}

#[test]
fn a_slow_processor_loses_delays_and_takes_whole_flows() {
    let text = "[actions.cpu]\ndoes = [\"mac\", \"ip\"]\nloss_percent = 88\ndelay_us = 302";
    let mut r = Rig::new(text, Version::V10);
    let mac = Action::SetField(Field::EthDst, 5);
    let tos = Action::SetNwTos(184);
    r.send(Message::FlowMod(flow(FlowCommand::Add, 1, to(1), vec![mac.clone(), output(2)])));
    r.send(Message::FlowMod(flow(FlowCommand::Add, 1, to(2), vec![tos.clone(), output(2)])));
    r.send(Message::FlowMod(flow(FlowCommand::Add, 1, to(3), vec![tos, mac, output(2)])));
    for i in 0..1000u64 {
        r.until(i * 1000);
        (1..=3).for_each(|n| r.frame(1, &udp(n)));
    }
    r.until(2_000_000);
    let of = |n: u32| r.seen.iter().filter(move |(_, _, f)| f[33] == n as u8);
    assert_eq!([of(2).count(), of(1).count() + of(3).count()], [1000, 240]);
    assert!(of(2).all(|(at, ..)| at % 1000 == 0));
    assert!(of(1).chain(of(3)).all(|(at, ..)| at % 1000 == 302));
}

#[test]
fn a_slow_processor_has_a_rate_and_a_queue() {
    let text = "[actions.cpu]\ndoes = [\"mac\"]\nper_second = 1000\nqueue = 4";
    let mut r = Rig::new(text, Version::V10);
    let mac = Action::SetField(Field::EthDst, 5);
    r.send(Message::FlowMod(flow(FlowCommand::Add, 1, to(1), vec![mac, output(2)])));
    for i in 0..10_000 {
        r.until(i * 100);
        r.frame(1, &udp(1));
    }
    r.until(1_000_000);
    // A thousand in the second, all but what waits at its end.
    assert!((990..=1000).contains(&r.seen.len()), "{}", r.seen.len());
    assert!(r.dut.inside().slow_lost >= 8990);
}

#[test]
fn forwarding_is_delayed_lossy_doubling_and_swapping() {
    let run = |text: &str| {
        let mut r = Rig::new(&format!("[forwarding]\n{text}"), Version::V13);
        r.send(Message::FlowMod(flow(FlowCommand::Add, 1, Match::default(), vec![output(2)])));
        for n in 0..100 {
            r.until(u64::from(n) * 100);
            r.frame(1, &udp(n));
        }
        r.until(1_000_000);
        r.seen.iter().map(|(at, _, f)| (*at, f[33])).collect::<Vec<_>>()
    };
    let honest: Vec<(u64, u8)> = (0..100).map(|n| (u64::from(n) * 100, n)).collect();
    assert_eq!(run(""), honest);
    let late: Vec<(u64, u8)> = honest.iter().map(|(at, n)| (at + 40, *n)).collect();
    assert_eq!(run("delay_us = 40"), late);
    assert_eq!(run("lose_percent = 10").len(), 90);
    assert_eq!(run("duplicate_percent = 10").len(), 110);
    let swapped = run("swap_percent = 10");
    assert_eq!(swapped.len(), 100);
    // The last of all has no successor.
    assert_eq!(swapped.windows(2).filter(|w| w[0].1 > w[1].1).count(), 9);
}

#[test]
fn packet_ins_have_a_rate_a_queue_and_a_delay() {
    let text = "[packet_in]\nper_second = 100\nqueue = 2\ndelay_us = 500";
    let mut r = Rig::new(text, Version::V10);
    (0..10).for_each(|n| r.frame(1, &udp(n)));
    r.until(1_000_000);
    let at: Vec<u64> = r.heard.iter().map(|(at, _)| *at).collect();
    assert_eq!(at, [10_500, 20_500, 30_500]);
    assert_eq!(r.dut.inside().packet_ins_lost, 7);
}

#[test]
fn packet_outs_are_late_and_lost() {
    let mut r = Rig::new("[packet_out]\ndelay_us = 700\nlose_percent = 50", Version::V13);
    for _ in 0..10 {
        r.send(Message::PacketOut(PacketOut {
            buffer_id: NO_BUFFER,
            in_port: Port::CONTROLLER,
            actions: vec![output(1)],
            data: udp(1),
        }));
    }
    r.until(2000);
    assert_eq!(r.seen.len(), 5);
    assert!(r.seen.iter().all(|(at, ..)| *at == 700));
}

#[test]
fn statistics_take_time_come_in_parts_and_slow_updates() {
    let text = "[update]\ninsert_us = 10\n[statistics]\ndelay_us = 1000\nper_flow_us = 100\n\
                slows_updates_percent = 50\nflows_per_part = 2\npace_us = 300";
    let mut r = Rig::new(text, Version::V10);
    (1..=5).for_each(|n| {
        r.send(insert(n));
    });
    r.until(10_000);
    let first = r.queue(flow_stats());
    let second = r.send(flow_stats());
    r.send(insert(6));
    let barrier = r.send(Message::BarrierRequest);
    r.until(100_000);
    let times = |xid| r.answers(xid).iter().map(|(at, _)| *at).collect::<Vec<_>>();
    assert_eq!(times(first), [11_500, 11_800, 12_100]);
    // The sixth is there by then, and the second begins when the first is done.
    assert_eq!(times(second), [12_100 + 1600, 14_000, 14_300]);
    assert_eq!(times(barrier), [10_000 + 750 + 10]);
    let more = r
        .answers(first)
        .iter()
        .map(|(_, m)| match m {
            Message::StatsReply { more, .. } => *more,
            other => panic!("{other:?}"),
        })
        .collect::<Vec<_>>();
    assert_eq!(more, [Part::More, Part::More, Part::Last]);
}

#[test]
fn asked_often_it_answers_whole() {
    let text = "[statistics]\nflows_per_part = 1\npace_us = 300\nwhole_within_us = 5000";
    let mut r = Rig::new(text, Version::V10);
    (1..=3).for_each(|n| {
        r.send(insert(n));
    });
    let mut parts = Vec::new();
    for at in [0, 10_000, 14_999, 19_999, 24_998] {
        r.until(at);
        let xid = r.send(flow_stats());
        r.until(at + 4000);
        parts.push(r.answers(xid).len());
    }
    assert_eq!(parts, [3, 3, 1, 3, 1]);
}

#[test]
fn counters_are_stale_and_off() {
    let mut r = Rig::new("[statistics]\nstale_us = 10000", Version::V13);
    r.send(insert(1));
    let mut told = Vec::new();
    for at in [1000, 9000, 10_500, 19_000, 20_001, 60_000] {
        r.until(at);
        r.frame(1, &udp(1));
        told.push(r.flows()[0].packets);
    }
    assert_eq!(told, [0, 0, 2, 2, 4, 5]);

    let mut r = Rig::new("[counters]\noff_percent = -10", Version::V13);
    r.send(insert(1));
    (0..100).for_each(|_| r.frame(1, &udp(1)));
    assert_eq!((r.flows()[0].packets, r.flows()[0].bytes), (90, 9000));
}

#[test]
fn time_outs_are_late() {
    let mut r = Rig::new("[timeouts]\nlate_us = 250000", Version::V13);
    let m = flow(FlowCommand::Add, 1, to(1), vec![output(2)]);
    let flags = FlowFlags::SEND_FLOW_REM;
    r.send(Message::FlowMod(FlowMod { hard_timeout: 1, flags, ..m }));
    r.until(5_000_000);
    assert_eq!(r.heard.iter().map(|(at, _)| *at).collect::<Vec<_>>(), [1_250_000]);
}

#[test]
fn echoes_are_late() {
    let mut r = Rig::new("[echo]\ndelay_us = 1234", Version::V10);
    let xid = r.send(Message::EchoRequest(b"x".to_vec()));
    r.until(5000);
    assert_eq!(r.answer(xid), (1234, &Message::EchoReply(b"x".to_vec())));
}

#[test]
fn connections_end_or_speak_nonsense() {
    let mut r = Rig::new("[connection]\nclose_after_us = 5000", Version::V10);
    r.until(4999);
    assert_eq!(r.closed, None);
    r.until(5000);
    assert!(r.closed.is_some());

    let mut r = Rig::new("[connection]\nclose_after_messages = 3", Version::V10);
    (1..=2).for_each(|n| {
        r.send(insert(n));
    });
    assert_eq!(r.closed, None);
    r.send(insert(3));
    assert!(r.closed.is_some());

    let mut r = Rig::new("[connection]\ngarbage_every = 2", Version::V13);
    r.send(Message::BarrierRequest);
    assert_eq!(r.closed, None);
    r.send(Message::BarrierRequest);
    assert_eq!(r.closed.as_deref(), Some("a message's length is less than its header"));
}

#[test]
fn it_speaks_what_the_profile_says() {
    let up = |text: &str, version| {
        let mut r = Rig::new(&format!("[connection]\nspeaks = \"{text}\""), version);
        let xid = r.channel_up().then(|| r.send(Message::BarrierRequest));
        (xid.is_some_and(|x| r.answers(x).len() == 1), r.closed.is_some())
    };
    let (works, refused, silent) = ((true, false), (false, true), (false, false));
    assert_eq!(up("only10", Version::V10), works);
    assert_eq!(up("only10", Version::V13), refused);
    assert_eq!(up("only13", Version::V13), works);
    assert_eq!(up("only14", Version::V13), refused);
    assert_eq!(up("nothing", Version::V13), silent);
}
