//! Packets to and from controllers: who gets how much of what, buffers, reserved ports.

mod rig;
use rig::*;
use weir_agent::{Arrived, ConnId, Kind, Purpose};
use weir_openflow::model::*;
use weir_packet::Nanos;

/// A controller of 1.0 beside the one of 1.3.
const OLDER: ConnId = ConnId(11);

fn arrived(reason: PacketInReason, cookie: u64, max_len: u16) -> Arrived {
    Arrived {
        in_port: Port(3),
        reason,
        table: 1,
        cookie,
        max_len,
        metadata: 5,
        tunnel_id: 0,
        frame: frame(9),
    }
}

fn ins(rig: &mut Rig, a: Arrived) -> Vec<(ConnId, PacketIn)> {
    rig.switch.punted(a, rig.now, &mut rig.out);
    let of = |s: weir_agent::Sent| match s.msg.body {
        Message::PacketIn(p) => {
            assert_eq!(s.kind, Kind::Async);
            (s.to, p)
        }
        m => panic!("{m:?}"),
    };
    rig.out.take().into_iter().map(of).collect()
}

fn out(buffer_id: u32, in_port: Port, actions: Vec<Action>, data: Vec<u8>) -> Message {
    Message::PacketOut(PacketOut { buffer_id, in_port, actions, data })
}

#[test]
fn each_gets_what_is_for_it_and_no_more_than_it_wants() {
    use PacketInReason::*;
    let mut rig = Rig::new();
    rig.connect(OLDER, Version::V10, Purpose::Controller);
    // No flow: 1.0's alone, so much of it as it has set.
    let config = SwitchConfig { fragments: Fragments::Normal, miss_send_len: 20 };
    rig.ok(OLDER, Message::SetConfig(config));
    let got = ins(&mut rig, arrived(NoMatch, u64::MAX, NO_MAX_LEN));
    let [(OLDER, p)] = &got[..] else { panic!("{got:?}") };
    assert_eq!((p.data.len(), p.total_len, p.reason), (20, 64, NoMatch));
    assert_ne!(p.buffer_id, NO_BUFFER);
    assert_eq!(p.matcher, any().with(Field::InPort, 3));
    // A miss entry or an action: whoever wants such.
    let got = ins(&mut rig, arrived(Action, 7, 10));
    let [(OLDER, a), (NEW, b)] = &got[..] else { panic!("{got:?}") };
    assert_eq!((a.buffer_id, a.data.len()), (b.buffer_id, b.data.len()));
    assert_eq!((b.cookie, b.table, b.data.len()), (7, 1, 10));
    assert_eq!(b.matcher, any().with(Field::InPort, 3).with(Field::Metadata, 5));
    let got = ins(&mut rig, arrived(NoMatch, 7, NO_MAX_LEN));
    assert_eq!((got[1].1.buffer_id, got[1].1.data.len()), (NO_BUFFER, 64));
    // Invalid TTLs only where asked for.
    assert_eq!(ins(&mut rig, arrived(InvalidTtl, 7, NO_MAX_LEN)), vec![]);
    let wants = AsyncConfig { packet_in: [4, 0], port_status: [0, 0], flow_removed: [0, 0] };
    rig.ok(NEW, Message::SetAsync(wants));
    let got = ins(&mut rig, arrived(InvalidTtl, 7, NO_MAX_LEN));
    assert_eq!((got.len(), got[0].0), (1, NEW));
    // A tool listens when it has said so.
    let listens = SwitchConfig { fragments: Fragments::Normal, miss_send_len: 128 };
    rig.ok(OLD, Message::SetConfig(listens));
    assert_eq!(ins(&mut rig, arrived(Action, 7, 10)).len(), 2);
}

#[test]
fn a_limit_holds_packet_ins_back() {
    let mut c = config();
    c.limits.packet_ins = Some(100);
    let mut rig = Rig::with(c, |_| {});
    let mut got = 0;
    for _ in 0..50 {
        got += ins(&mut rig, arrived(PacketInReason::Action, 7, 10)).len();
    }
    assert_eq!((got, rig.switch.packets_kept_back()), (10, 40));
    rig.now = rig.now + Nanos::from_millis(50);
    got = (0..50).map(|_| ins(&mut rig, arrived(PacketInReason::Action, 7, 10)).len()).sum();
    assert_eq!(got, 5);
}

#[test]
fn without_buffers_packets_come_whole() {
    let mut c = config();
    c.buffers = 0;
    let mut rig = Rig::with(c, |_| {});
    let got = ins(&mut rig, arrived(PacketInReason::Action, 7, 10));
    assert_eq!((got[0].1.buffer_id, got[0].1.data.len()), (NO_BUFFER, 64));
}

#[test]
fn wrong_packet_outs_are_refused() {
    use ErrorCode::*;
    let mut rig = Rig::new();
    let c = Port::CONTROLLER;
    let cases = [
        (out(NO_BUFFER, Port(9), vec![output(1)], frame(1)), BadPort),
        (out(NO_BUFFER, Port::ANY, vec![output(1)], frame(1)), BadPort),
        (out(NO_BUFFER, Port::FLOOD, vec![output(1)], frame(1)), BadPort),
        (out(NO_BUFFER, c, vec![output(9)], frame(1)), ActionBadOutPort),
        (out(NO_BUFFER, c, vec![Action::Group(1)], frame(1)), ActionBadOutGroup),
        (out(NO_BUFFER, c, vec![output(1)], vec![0; 13]), BadPacket),
        (out(5, c, vec![output(1)], vec![]), BufferUnknown),
    ];
    for (m, code) in cases {
        assert_eq!(rig.refused(NEW, m.clone()), code, "{m:?}");
    }
    let b = ins(&mut rig, arrived(PacketInReason::Action, 7, 10))[0].1.buffer_id;
    rig.ok(NEW, out(b, Port(3), vec![], vec![]));
    assert_eq!(rig.refused(NEW, out(b, Port(3), vec![], vec![])), BufferEmpty);
    // A flow whose packet is gone is there all the same.
    let mut f = flow(dst(9), 5, to(2));
    f.buffer_id = b;
    assert_eq!(rig.refused(NEW, Message::FlowMod(f)), BufferEmpty);
    assert_eq!(rig.flows(NEW).len(), 1);
}
