//! What several workers can't hold between them is refused, and says how to mend it.

use crate::rig::*;
use weir_dataplane::programs::reflector::Reflector;
use weir_dataplane::*;
use weir_packet::Nanos;

#[test]
fn what_takes_one_worker_is_refused_where_there_are_several_and_changes_nothing() {
    let (out, _) = sink("out");
    let mut rig = Rig::new(2, vec![out]);
    rig.vdp(&[Action::Drop]);
    let (vid, port) = (Vid(1), rig.ports[0].1);
    let seen = |p: &DataPlane| format!("{:?} {:?}", p.vids(), p.vdp_view(vid));
    let before = seen(&rig.planes[0]);
    let p = &mut rig.planes[0];
    let with = |f: &dyn Fn(&mut VdpSpec)| {
        let mut s = VdpSpec::new(Vid(2), "no");
        f(&mut s);
        s
    };
    let band = Band { kind: BandKind::Drop, rate: 1, burst: 1 };
    let meter = Meter::new(Unit::Packets, &[band]).unwrap();
    let share = PortShare { guarantee_bps: 1, ..PortShare::default() };
    let bucket = Bucket::new(vec![Action::Output(Out::Normal)]);
    let normal = Group::new(GroupKind::Indirect, vec![bucket]).unwrap();
    let ip = TunnelAddrs::V4([192, 0, 2, 1].into(), [198, 51, 100, 2].into());
    let outer = Outer { eth_src: [2; 6], eth_dst: [4; 6], ip, ttl: 64, tos: 0 };
    let (sequence, checksum) = (Some(1), GreChecksum::Absent);
    let numbered = Action::EncapGre { outer, key: None, sequence, checksum };
    let refused = [
        p.set_default(vid, &[numbered]),
        p.create_vdp(with(&|s| s.program = Some(Box::new(Reflector::default())))),
        p.create_vdp(with(&|s| s.cpu_permille = 1)),
        p.set_program(vid, Some(Box::new(Reflector::default()))),
        p.set_local_program(vid, Some(Box::new(Reflector::default()))),
        p.put_meter(vid, 1, meter),
        p.set_share(vid, port, share),
        p.set_queue(vid, PortNo(1), 1, QueueRate::default()),
        p.set_cpu(vid, 10),
        p.send_away(vid, &[port], Nanos(1)),
        p.carry(vid, Carried::default()),
        p.add_usage(vid, RuleRef { table: 0, slot: 0 }, Usage::default()),
        p.create_vdp(with(&|s| s.path = Path::Slow)),
        p.migrate(vid, Path::Slow),
        p.add_rule(vid, 0, &rule_of("actions=drop"), Placement::Slow).map(drop),
        p.add_rule(vid, 0, &rule_of("actions=NORMAL"), Placement::Fast).map(drop),
        p.set_default(vid, &[Action::Output(Out::Normal)]),
        p.put_group(vid, 1, normal),
        p.packet_out(
            vid,
            PacketOut {
                in_port: PortIn::None,
                frame: &[0; 60],
                actions: &[Action::Output(Out::Normal)],
            },
        ),
    ];
    for r in refused {
        let told = r.unwrap_err();
        assert!(matches!(told, ControlError::OneWorker { workers: 2, .. }), "{told}");
        assert!(told.to_string().contains("or run the data plane with one worker"), "{told}");
    }
    // What they stand for without it is no change.
    p.set_share(vid, port, PortShare::default()).unwrap();
    p.set_cpu(vid, 0).unwrap();
    p.set_program(vid, None).unwrap();
    p.migrate(vid, Path::Fast).unwrap();
    assert_eq!(seen(p), before);
    assert!(p.vdp_view(Vid(2)).is_none());
}
