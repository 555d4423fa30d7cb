//! Frames whose TTL can't be decremented, told to the controllers that want them (1.3 §7.4.1,
//! OFPR_INVALID_TTL; §7.3.10), by the way of real frames on both paths.

mod rig;
use rig::*;
use weir_agent::{ConnId, Kind, Purpose};
use weir_dataplane::Path;
use weir_openflow::model::*;
use weir_packet::DropReason;

const WANTS: AsyncConfig =
    AsyncConfig { packet_in: [0b100, 0], port_status: [0, 0], flow_removed: [0, 0] };
const SECOND: ConnId = ConnId(14);

/// IPv4 with this TTL and a right checksum.
fn ipv4(ttl: u8) -> Vec<u8> {
    let mut f = frame(9);
    f[12..14].copy_from_slice(&[8, 0]);
    f[14..34]
        .copy_from_slice(&[0x45, 0, 0, 50, 0, 0, 0, 0, ttl, 17, 0, 0, 10, 0, 0, 1, 10, 0, 0, 2]);
    let sum: u32 = f[14..34].chunks(2).map(|c| u32::from(c[0]) << 8 | u32::from(c[1])).sum();
    let folded = !((sum & 0xffff) + (sum >> 16)) as u16;
    f[24..26].copy_from_slice(&folded.to_be_bytes());
    f
}

/// One label with this TTL.
fn mpls(ttl: u8) -> Vec<u8> {
    let mut f = frame(9);
    f[12..18].copy_from_slice(&[0x88, 0x47, 0, 1, 0x21, ttl]);
    f
}

/// A frame in: the ports it came out of, and who was told what.
fn through(rig: &mut Rig, f: &[u8]) -> (Vec<u32>, Vec<(ConnId, PacketIn)>) {
    let ports = rig.send(3, f).into_iter().map(|(n, _)| n).collect();
    let of = |s: weir_agent::Sent| match s.msg.body {
        Message::PacketIn(p) => {
            assert_eq!(s.kind, Kind::Async);
            (s.to, p)
        }
        m => panic!("{m:?}"),
    };
    (ports, rig.out.take().into_iter().map(of).collect())
}

fn expired(rig: &Rig) -> u64 {
    let s = rig.plane.snapshot();
    let v = s.vdps.iter().find(|v| v.vid == VID).unwrap();
    v.counters.dropped.get(DropReason::TtlExpired)
}

/// A rule that decrements, and the frame with a TTL that it takes.
type Case = (&'static str, FlowMod, fn(u8) -> Vec<u8>);

fn cases() -> Vec<Case> {
    let ip = || any().with(Field::EthType, 0x0800);
    let label = any().with(Field::EthType, 0x8847);
    let one = |m, a: Vec<Action>| flow(m, 5, vec![Instruction::Apply(a)]);
    let out = || output(2);
    let in_a_set = vec![Instruction::Write(vec![Action::DecNwTtl, out()])];
    vec![
        ("the common shape", one(ip(), vec![Action::DecNwTtl, out()]), ipv4),
        ("a program", one(ip(), vec![Action::SetQueue(7), Action::DecNwTtl, out()]), ipv4),
        ("an action set", flow(ip(), 5, in_a_set), ipv4),
        ("a label", one(label, vec![Action::DecMplsTtl, out()]), mpls),
    ]
}

fn told(path: Path, (what, mut rule, frame): Case) {
    let mut rig = Rig::new();
    rule.cookie = 77;
    rig.ok(NEW, Message::FlowMod(rule));
    rig.plane.migrate(VID, path).unwrap();
    let what = format!("{what}, {path:?}");
    assert_eq!(through(&mut rig, &frame(2)), (vec![2], vec![]), "{what}: enough");
    // Nobody has asked to be told: it ends, counted.
    assert_eq!(through(&mut rig, &frame(1)), (vec![], vec![]), "{what}");
    assert_eq!(expired(&rig), 1, "{what}");
    // One of two controllers asks; so much as it wants of a packet that no action sends.
    rig.connect(SECOND, Version::V13, Purpose::Controller);
    rig.ok(SECOND, Message::SetAsync(WANTS));
    let config = SwitchConfig { fragments: Fragments::Normal, miss_send_len: 40 };
    rig.ok(SECOND, Message::SetConfig(config));
    for ttl in [1, 0] {
        let (ports, got) = through(&mut rig, &frame(ttl));
        let [(SECOND, p)] = &got[..] else { panic!("{what}: {got:?}") };
        assert_eq!((ports, p.reason), (vec![], PacketInReason::InvalidTtl), "{what}");
        assert_eq!((p.cookie, p.table, p.total_len), (77, 0, 64), "{what}");
        assert_eq!(p.matcher, any().with(Field::InPort, 3), "{what}");
        assert_eq!(p.data, frame(ttl)[..40], "{what}: as it came");
        assert_ne!(p.buffer_id, NO_BUFFER, "{what}");
    }
    assert_eq!(expired(&rig), 1, "{what}");
    assert_eq!(through(&mut rig, &frame(2)), (vec![2], vec![]), "{what}: enough");
    // A slave's mask is another, and says no.
    rig.ask(SECOND, Message::RoleRequest(RoleMsg { role: Role::Slave, generation: 1 }));
    assert_eq!(through(&mut rig, &frame(1)), (vec![], vec![]), "{what}");
    assert_eq!(expired(&rig), 2, "{what}");
    rig.ask(SECOND, Message::RoleRequest(RoleMsg { role: Role::Equal, generation: 1 }));
    assert_eq!(through(&mut rig, &frame(1)).1.len(), 1, "{what}");
    // It goes, and its wish with it.
    rig.disconnect(SECOND);
    assert_eq!(through(&mut rig, &frame(1)), (vec![], vec![]), "{what}");
    assert_eq!(expired(&rig), 3, "{what}");
}

#[test]
fn invalid_ttls_are_told_on_the_fast_path() {
    cases().into_iter().for_each(|c| told(Path::Fast, c));
}

#[test]
fn invalid_ttls_are_told_on_the_slow_path() {
    cases().into_iter().for_each(|c| told(Path::Slow, c));
}

/// OFPC_INVALID_TTL_TO_CONTROLLER (1 << 2) was 1.1's and 1.2's; neither 1.0 nor 1.3 has it: 1.3 asks by
/// SET_ASYNC alone. As a flag without a meaning it is refused, and nothing changes.
#[test]
fn the_flag_of_versions_between_is_refused() {
    let mut rig = Rig::new();
    let (what, rule, frame) = cases().remove(0);
    rig.ok(NEW, Message::FlowMod(rule));
    for conn in [NEW, OLD] {
        let flags = SwitchConfig { fragments: Fragments::Unknown(4), miss_send_len: 9 };
        assert_eq!(rig.refused(conn, Message::SetConfig(flags)), ErrorCode::ConfigBadFlags);
        let kept = SwitchConfig { fragments: Fragments::Normal, miss_send_len: 128 };
        assert_eq!(rig.ask(conn, Message::GetConfigRequest), [Message::GetConfigReply(kept)]);
    }
    assert_eq!(through(&mut rig, &frame(1)), (vec![], vec![]), "{what}");
    assert_eq!(expired(&rig), 1);
}

/// A TTL that is over is told though nothing is sent behind it: what was sent before is, whole.
#[test]
fn invalid_ttls_behind_the_last_output_are_told() {
    let dec = || Action::DecNwTtl;
    let nine = Action::SetNwTtl(9);
    for path in [Path::Fast, Path::Slow] {
        for (actions, told) in [
            (vec![output(2), dec()], 1),
            // It comes in by port 3.
            (vec![output(2), dec(), output(3)], 1),
            (vec![output(1), output(2), dec(), dec()], 1),
            (vec![output(2), nine.clone(), dec()], 0),
        ] {
            let out: Vec<u32> =
                [1, 2].into_iter().filter(|n| actions.contains(&output(*n))).collect();
            let what = format!("{actions:?}, {path:?}");
            let mut rig = Rig::new();
            let m = any().with(Field::EthType, 0x0800);
            rig.ok(NEW, Message::FlowMod(flow(m, 5, vec![Instruction::Apply(actions)])));
            rig.plane.migrate(VID, path).unwrap();
            assert_eq!(through(&mut rig, &ipv4(1)), (out.clone(), vec![]), "{what}");
            rig.connect(SECOND, Version::V13, Purpose::Controller);
            rig.ok(SECOND, Message::SetAsync(WANTS));
            for ttl in [1, 3] {
                let (ports, got) = through(&mut rig, &ipv4(ttl));
                let due = if ttl == 1 { told } else { 0 };
                assert_eq!((ports, got.len()), (out.clone(), due), "{what}, TTL {ttl}");
            }
            assert_eq!(expired(&rig), 0, "{what}");
        }
    }
}
