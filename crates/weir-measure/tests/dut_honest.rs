//! The honest device: what a switch does, frame by frame and message by message.

mod dut_rig;

use dut_rig::*;
use weir_openflow::model::*;

const BOTH: [Version; 2] = [Version::V10, Version::V13];

#[test]
fn it_forwards_by_the_highest_priority_and_counts() {
    for version in BOTH {
        let mut r = Rig::new("", version);
        r.send(insert(1));
        let all = Match::default();
        r.send(Message::FlowMod(flow(FlowCommand::Add, 200, all, vec![output(3)])));
        let barrier = r.send(Message::BarrierRequest);
        assert_eq!(r.answer(barrier), (0, &Message::BarrierReply));
        r.frame(1, &udp(1));
        assert_eq!(r.seen.pop().map(|(at, port, _)| (at, port)), Some((0, 3)));
        let delete = flow(FlowCommand::DeleteStrict, 200, Match::default(), vec![]);
        r.send(Message::FlowMod(delete));
        r.frame(1, &udp(1));
        assert_eq!(r.seen, [(0, 2, udp(1))]);
        let flows = r.flows();
        assert_eq!((flows.len(), flows[0].packets, flows[0].bytes), (1, 1, 100));
    }
}

#[test]
fn a_miss_goes_to_controllers_of_1_0_and_nowhere_in_1_3() {
    let mut r = Rig::new("", Version::V10);
    r.frame(2, &udp(1));
    match &r.heard.last().unwrap().1.body {
        Message::PacketIn(p) => {
            assert_eq!((p.reason, p.total_len, &p.data), (PacketInReason::NoMatch, 100, &udp(1)));
            assert_eq!(p.matcher.get(Field::InPort).map(|f| f.value), Some(2));
        }
        other => panic!("{other:?}"),
    }
    let mut r = Rig::new("", Version::V13);
    r.frame(2, &udp(1));
    assert_eq!(r.heard, []);
    let to_controller = vec![output(Port::CONTROLLER.0)];
    r.send(Message::FlowMod(flow(FlowCommand::Add, 0, Match::default(), to_controller)));
    r.frame(2, &udp(1));
    assert!(
        matches!(&r.heard[0].1.body, Message::PacketIn(p) if p.reason == PacketInReason::NoMatch)
    );
}

#[test]
fn packet_outs_leave_also_through_the_table() {
    for version in BOTH {
        let mut r = Rig::new("", version);
        r.send(insert(1));
        let none = if version == Version::V10 { Port::ANY } else { Port::CONTROLLER };
        let out = |port: Port, in_port| {
            Message::PacketOut(PacketOut {
                buffer_id: NO_BUFFER,
                in_port,
                actions: vec![Action::Output { port, max_len: 0 }],
                data: udp(1),
            })
        };
        r.send(out(Port(3), none));
        r.send(out(Port::TABLE, Port(1)));
        r.send(out(Port::FLOOD, Port(1)));
        let ports: Vec<u32> = r.seen.iter().map(|(_, p, _)| *p).collect();
        assert_eq!(ports, [3, 2, 2, 3]);
        let wrong = r.send(out(Port(4), none));
        assert_eq!(r.error(wrong), Some(ErrorCode::ActionBadOutPort));
    }
}

#[test]
fn flows_end_by_their_time_outs_and_say_so() {
    for version in BOTH {
        let mut r = Rig::new("", version);
        let timed = |n, idle_timeout, hard_timeout| {
            let m = flow(FlowCommand::Add, 100, to(n), vec![output(2)]);
            let flags = FlowFlags::SEND_FLOW_REM;
            Message::FlowMod(FlowMod { idle_timeout, hard_timeout, flags, ..m })
        };
        r.send(timed(1, 2, 0));
        r.send(timed(2, 0, 3));
        r.until(1_500_000);
        r.frame(1, &udp(1));
        r.until(10_000_000);
        let gone: Vec<_> = r
            .heard
            .iter()
            .filter_map(|(at, m)| match &m.body {
                Message::FlowRemoved(f) => Some((*at, f.reason, f.packets, f.duration_sec)),
                _ => None,
            })
            .collect();
        let idle = (3_500_000, RemovedReason::IdleTimeout, 1, 3);
        assert_eq!(gone, [(3_000_000, RemovedReason::HardTimeout, 0, 3), idle]);
        assert_eq!(r.flows(), []);
    }
}

#[test]
fn what_it_lacks_is_refused() {
    let mut r = Rig::new("[table]\nentries = 1", Version::V13);
    let add = |actions| Message::FlowMod(flow(FlowCommand::Add, 1, Match::default(), actions));
    let mut refused = |m| {
        let xid = r.send(m);
        r.error(xid)
    };
    assert_eq!(refused(add(vec![output(9)])), Some(ErrorCode::ActionBadOutPort));
    assert_eq!(refused(add(vec![Action::Group(1)])), Some(ErrorCode::ActionBadOutGroup));
    assert_eq!(refused(add(vec![output(1)])), None);
    assert_eq!(refused(insert(1)), Some(ErrorCode::FlowTableFull));
    // In the place of another there is room.
    assert_eq!(refused(add(vec![output(2)])), None);
    let buffered = FlowMod { buffer_id: 7, ..flow(FlowCommand::Add, 1, Match::default(), vec![]) };
    assert_eq!(refused(Message::FlowMod(buffered)), Some(ErrorCode::BufferUnknown));
    let overlap = FlowMod {
        flags: FlowFlags::CHECK_OVERLAP,
        ..flow(FlowCommand::Add, 1, to(1), vec![output(2)])
    };
    assert_eq!(refused(Message::FlowMod(overlap)), Some(ErrorCode::FlowOverlap));
}

#[test]
fn statistics_and_descriptions_are_told() {
    for version in BOTH {
        let mut r = Rig::new("", version);
        r.send(insert(1));
        r.frame(1, &udp(1));
        r.frame(1, &udp(2));
        let mut ask = |body| {
            let xid = r.send(Message::StatsRequest { more: Part::Last, body });
            match r.answer(xid).1 {
                Message::StatsReply { body, .. } => body.clone(),
                other => panic!("{other:?}"),
            }
        };
        match ask(StatsRequest::Table) {
            StatsReply::Table(t) => {
                assert_eq!((t[0].active, t[0].lookups, t[0].matched), (1, 2, 1));
            }
            other => panic!("{other:?}"),
        }
        match ask(StatsRequest::Port(Port::ANY)) {
            StatsReply::Port(p) => {
                assert_eq!(p.len(), 3);
                assert_eq!((p[0].rx_packets, p[0].rx_bytes, p[1].tx_packets), (2, 200, 1));
            }
            other => panic!("{other:?}"),
        }
        assert!(matches!(ask(StatsRequest::Desc), StatsReply::Desc(_)));
        let xid = r.send(Message::FeaturesRequest);
        match r.answer(xid).1 {
            Message::FeaturesReply(f) => {
                assert_eq!(f.ports.len(), if version == Version::V10 { 3 } else { 0 });
            }
            other => panic!("{other:?}"),
        }
        let xid = r.send(Message::EchoRequest(vec![1, 2, 3]));
        assert_eq!(r.answer(xid), (0, &Message::EchoReply(vec![1, 2, 3])));
    }
}

#[test]
fn ports_obey_their_configuration() {
    let mut r = Rig::new("", Version::V13);
    r.send(insert(1));
    let set = |config: PortConfig| {
        Message::PortMod(PortMod {
            port: Port(2),
            mac: [0x02, 0xd0, 0x7e, 0, 0, 2],
            config,
            mask: PortConfig::NO_FWD,
            advertise: PortFeatures::default(),
        })
    };
    r.send(set(PortConfig::NO_FWD));
    r.frame(1, &udp(1));
    assert_eq!(r.seen, []);
    r.send(set(PortConfig::default()));
    r.frame(1, &udp(1));
    assert_eq!(r.seen.len(), 1);
}
