//! VDPs that one of several workers does: it alone has their frames, whatever comes and goes meanwhile; and what they may
//! have that others may not.

use crate::desk::{Asked, Gate, fed, until};
use crate::plane_common::*;
use crate::rig::*;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Instant;
use weir_classify::{Field, Match};
use weir_dataplane::crew::*;
use weir_dataplane::programs::learning::LearningSwitch;
use weir_dataplane::*;
use weir_packet::*;

fn from(port: PortId, priority: u32) -> MappingRule {
    MappingRule { matcher: Match::any().with(Field::InPort, port.0.into()), priority }
}

/// A VDP with all ports that sends by one of them.
fn pinned(p: &DataPlane, vid: Vid, worker: usize, to: u32, mapping: Vec<MappingRule>) -> VdpSpec {
    let mut s = Asked::spec(vid, p);
    s.worker = Some(worker);
    s.mapping = mapping;
    // Frames say whose they were.
    let [high, low] = vid.0.to_be_bytes();
    let text = format!("actions=mod_dl_src:06:00:00:00:{high:02x}:{low:02x},output:{to}");
    s.default = rule_of(&text).actions.to_vec();
    s
}

fn create(a: &Asked, vid: Vid, worker: usize, to: u32, mapping: Vec<MappingRule>) -> Said {
    a.h.call(move |p| p.create_vdp(pinned(p, vid, worker, to, mapping))).unwrap()
}

type Said = Result<(), ControlError>;

/// Frames of a VDP that each worker received.
fn received(a: &Asked, vid: Vid) -> Vec<u64> {
    // What was asked of the desk is done before.
    a.h.call(|_| ()).unwrap();
    let each = a.crew.handle().snapshot().unwrap().workers;
    let of =
        |s: &Snapshot| s.vdps.iter().find(|v| v.vid == vid).map(|v| v.counters.received.frames);
    each.iter().map(|s| of(s).unwrap_or(0)).collect()
}

/// What two pinned VDPs map, beside one that all workers do: the reference.
#[derive(Default)]
struct Wanted {
    /// By VID: its worker, its priority, its ports.
    vdps: BTreeMap<u16, (usize, u32, Vec<PortId>)>,
}

impl Wanted {
    fn whole(&self, port: PortId) -> Option<usize> {
        self.vdps.values().find(|(_, _, ports)| ports.contains(&port)).map(|(w, ..)| *w)
    }
    fn allows(&self, worker: usize, ports: &[PortId]) -> bool {
        ports.iter().all(|p| self.whole(*p).is_none_or(|w| w == worker))
    }
}

/// Tries again what was refused because frames did not leave in time: this machine may be busy.
fn patiently(mut ask: impl FnMut() -> Said) -> Said {
    loop {
        match ask() {
            Err(ControlError::NotWhole { .. }) => {}
            said => return said,
        }
    }
}

#[test]
fn a_pinned_vdps_frames_are_done_by_its_worker_alone() {
    let workers = 3;
    for seed in 1..9u64 {
        let mut n = seed;
        let mut random = move |below: usize| {
            n = n.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            (n >> 33) as usize % below
        };
        let (devices, to): (Vec<_>, Vec<_>) = (0..3).map(|_| fed()).unzip();
        let (wire, kept) = sink("out");
        let a = Asked::with(workers, devices.into_iter().chain([wire]).collect());
        a.rule("actions=output:4");
        let ports: Vec<PortId> =
            a.snapshot().ports.iter().map(|p| p.id).filter(|p| p.0 > 0).take(3).collect();
        let mut wanted = Wanted::default();
        let (mut next_vid, mut sent, mut seen) = (10u16, 0u64, 0u64);
        for step in 0..80 {
            for n in 0..300u64 {
                let (port, flow) = (n as usize % 3, n as u32 / 3 % 20);
                let bytes = frame(0, 1, 100 * port as u32 + flow, sent + n);
                to[port].send(bytes).unwrap();
            }
            sent += 300;
            let picked: Vec<PortId> = ports.iter().copied().filter(|_| random(2) == 0).collect();
            match random(6) {
                0 if wanted.vdps.len() < 2 => {
                    let (worker, vid) = (random(workers), next_vid);
                    next_vid += 1;
                    // Two VDPs may not have the same rule; either may be asked first.
                    let priority = [u32::from(vid), 9000 - u32::from(vid)][random(2)];
                    let rules = picked.iter().map(|p| from(*p, priority)).collect::<Vec<_>>();
                    let made = patiently(|| create(&a, Vid(vid), worker, 4, rules.clone()));
                    match wanted.allows(worker, &picked) {
                        true => {
                            made.unwrap();
                            wanted.vdps.insert(vid, (worker, priority, picked));
                        }
                        false => {
                            let told = made.unwrap_err();
                            assert!(matches!(told, ControlError::PinnedApart { .. }), "{told}");
                        }
                    }
                }
                1 if !wanted.vdps.is_empty() => {
                    let (vid, _) = wanted.vdps.pop_first().unwrap();
                    a.h.call(move |p| p.delete_vdp(Vid(vid))).unwrap().unwrap();
                }
                // From one to the other, in one request.
                2 if wanted.vdps.len() == 2 => {
                    let (from_vid, to_vid) = match random(2) {
                        0 => {
                            (*wanted.vdps.keys().min().unwrap(), *wanted.vdps.keys().max().unwrap())
                        }
                        _ => {
                            (*wanted.vdps.keys().max().unwrap(), *wanted.vdps.keys().min().unwrap())
                        }
                    };
                    let Some(port) = wanted.vdps[&from_vid].2.first().copied() else { continue };
                    let less = from(port, wanted.vdps[&from_vid].1);
                    let more = from(port, wanted.vdps[&to_vid].1);
                    let moved = a.h.call(move |p| {
                        p.remove_mapping(Vid(from_vid), &less).unwrap();
                        p.add_mapping(Vid(to_vid), &more)
                    });
                    wanted.vdps.get_mut(&from_vid).unwrap().2.retain(|p| *p != port);
                    match moved.unwrap() {
                        Ok(()) if wanted.vdps[&to_vid].2.contains(&port) => {}
                        Ok(()) => wanted.vdps.get_mut(&to_vid).unwrap().2.push(port),
                        Err(told) => {
                            assert!(matches!(told, ControlError::NotWhole { .. }), "{told}");
                        }
                    }
                }
                _ => {
                    let Some(vid) = wanted.vdps.keys().nth(random(2)).copied() else { continue };
                    let (worker, priority, has) = wanted.vdps[&vid].clone();
                    let port = ports[random(3)];
                    let (v, rule) = (Vid(vid), from(port, priority));
                    if has.contains(&port) {
                        a.h.call(move |p| p.remove_mapping(v, &rule)).unwrap().unwrap();
                        wanted.vdps.get_mut(&vid).unwrap().2.retain(|p| *p != port);
                        continue;
                    }
                    let done = patiently(|| {
                        let rule = rule.clone();
                        a.h.call(move |p| p.add_mapping(v, &rule)).unwrap()
                    });
                    match wanted.allows(worker, &[port]) {
                        true => {
                            done.unwrap();
                            wanted.vdps.get_mut(&vid).unwrap().2.push(port);
                        }
                        false => {
                            let told = done.unwrap_err();
                            assert!(matches!(told, ControlError::PinnedApart { .. }), "{told}");
                        }
                    }
                }
            }
            if random(3) == 0 {
                a.until(|s| s.ports[3].counters.tx.frames == sent);
            }
            let spreads = a.crew.handle().spreads();
            for (port, spread) in ports.iter().zip(spreads.iter()) {
                let whole = wanted.whole(*port);
                assert_eq!(spread.whole(), whole, "seed {seed}, step {step}, port {port}");
                let p = *port;
                assert_eq!(a.h.call(move |d| d.keeps_whole(p)).unwrap(), whole);
                let home = a.crew.handle().worker(spread.home()).unwrap().clone();
                let here = spread.clone();
                let begun = home.call(move |_| {
                    here.begin(0, 0).map(|m| {
                        let from = m.from();
                        here.arrive(m, from);
                    })
                });
                assert_eq!(begun.unwrap().err(), whole.map(MoveError::Whole));
            }
            for (vid, (worker, ..)) in &wanted.vdps {
                let by = received(&a, Vid(*vid));
                let alone = by.iter().enumerate().all(|(w, n)| w == *worker || *n == 0);
                assert!(alone, "seed {seed}, step {step}: VDP {vid} of worker {worker}: {by:?}");
                seen += by[*worker];
            }
        }
        assert!(seen > 0, "no frame met a pinned VDP");
        until(|| kept.len() as u64 + dropped(&a) == sent);
        // A VDP's queues keep their order, and not among VDPs.
        let mut last = BTreeMap::new();
        for f in kept.take() {
            let (flow, seq) = read_seq(&f.bytes);
            let before = last.insert((flow, f.bytes[6..12].to_vec()), seq);
            assert!(
                before.is_none_or(|b| b < seq),
                "seed {seed}, flow {flow}: {seq} after {before:?}"
            );
        }
        assert_eq!(a.crew.fault(), None);
        a.stop();
    }
}

/// Frames that ended with a VDP that was deleted while it had them.
fn dropped(a: &Asked) -> u64 {
    let s = a.snapshot();
    let vdps: u64 = s.vdps.iter().map(|v| v.counters.dropped.total()).sum();
    vdps + s.retired.dropped.total()
}

/// Two workers' buckets of tokens would let twice as many pass.
#[test]
fn a_meter_of_a_pinned_vdp_is_one_limit() {
    let (source, to) = fed();
    let (wire, kept) = sink("out");
    let a = Asked::with(2, vec![source, wire]);
    let (v, port) = (Vid(5), PortId(1));
    for worker in [0, 1] {
        create(&a, v, worker, 2, vec![from(port, 9)]).unwrap();
        let began = Instant::now();
        let band = Band { kind: BandKind::Drop, rate: 1, burst: 100 };
        a.h.call(move |p| p.put_meter(v, 3, Meter::new(Unit::Packets, &[band]).unwrap()))
            .unwrap()
            .unwrap();
        let rule = rule_of("actions=meter:3,output:2");
        a.h.call(move |p| p.add_rule(v, 0, &rule, Placement::Fast)).unwrap().unwrap();
        let flows: Vec<u32> = (0..5000).map(|n| n % 50).collect();
        frames(&flows).into_iter().for_each(|f| to.send(f).unwrap());
        a.until(|s| s.vdps.iter().any(|v| v.vid == Vid(5) && v.counters.received.frames == 5000));
        until(|| kept.len() as u64 == a.snapshot().vdps[2].counters.forwarded.frames);
        let passed = kept.take().len() as u64;
        let most = 101 + began.elapsed().as_secs();
        assert!((100..=most).contains(&passed), "worker {worker}: {passed}");
        let counted = a.h.call(move |p| p.meter_counters(v, 3)).unwrap().unwrap();
        assert_eq!((counted.counted.frames, counted.bands[0].frames), (5000, 5000 - passed));
        assert_eq!(received(&a, v)[1 - worker], 0);
        a.h.call(move |p| p.remove_meter(v, 3)).unwrap().unwrap();
        assert!(a.h.call(move |p| p.meter_counters(v, 3)).unwrap().is_err());
        a.h.call(move |p| p.delete_vdp(v)).unwrap().unwrap();
        a.until(|s| s.vdps.len() == 2);
    }
    a.stop();
}

/// One table of addresses, whichever worker has the ports' devices.
#[test]
fn a_pinned_vdp_may_have_a_program_and_normal() {
    for worker in [0, 1] {
        let (devices, to): (Vec<_>, Vec<_>) = (0..3).map(|_| fed()).unzip();
        let a = Asked::with(2, devices);
        let v = Vid(5);
        let mapping = (1..4).map(|p| from(PortId(p), 9)).collect::<Vec<_>>();
        a.h.call(move |p| {
            let mut s = pinned(p, v, worker, 2, mapping);
            s.default = vec![Action::Output(Out::Normal)];
            s.program = Some(Box::new(LearningSwitch::default()));
            p.create_vdp(s)
        })
        .unwrap()
        .unwrap();
        let between = |dst: u8, src: u8, flow: u32| {
            let mut f = frame(0, 1, flow, 0);
            f[..12].copy_from_slice(&[2, 0, 0, 0, 0, dst, 2, 0, 0, 0, 0, src]);
            f
        };
        let sent = || {
            let tx = a.h.call(move |p| p.vdp_port_counters(v)).unwrap().unwrap();
            tx.iter().map(|(_, c)| c.tx.frames).collect::<Vec<_>>()
        };
        // Nobody knows where 9 is; it answers; then all of many flows find it, which would be both workers' otherwise.
        to[0].send(between(9, 7, 0)).unwrap();
        until(|| sent() == [0, 1, 1]);
        to[1].send(between(7, 9, 0)).unwrap();
        until(|| sent() == [1, 1, 1]);
        (0..200).for_each(|flow| to[2].send(between(9, 8, flow)).unwrap());
        until(|| sent() == [1, 201, 1]);
        let by = received(&a, v);
        assert_eq!((by[worker], by[1 - worker]), (202, 0));
        let status = a.h.call(move |p| p.program_status(v)).unwrap().unwrap();
        let status = status.recv().unwrap();
        assert!(status.iter().any(|(_, n)| n.starts_with('3')), "{status:?}");
        // A packet-out meets the same table.
        a.h.call(move |p| {
            let bytes = between(8, 7, 1);
            let actions = [Action::Output(Out::Normal)];
            p.packet_out(
                v,
                PacketOut { in_port: PortIn::Port(PortNo(1)), frame: &bytes, actions: &actions },
            )
        })
        .unwrap()
        .unwrap();
        until(|| sent() == [1, 201, 2]);
        a.h.call(move |p| p.set_program(v, None)).unwrap().unwrap();
        a.stop();
    }
}

#[test]
fn what_a_pin_does_not_help_and_pins_that_can_not_be_are_refused() {
    let a = Asked::with(2, vec![sink("one").0, sink("two").0]);
    let (v, port) = (Vid(5), PortId(1));
    let nobody = || a.crew.handle().spreads().iter().all(|s| s.whole().is_none());
    let told = create(&a, v, 2, 2, vec![from(port, 9)]).unwrap_err();
    assert!(told.to_string().contains("worker = 2, and there are 2, counted from 0"), "{told}");
    let any = MappingRule { matcher: Match::any(), priority: 9 };
    let told = create(&a, v, 1, 2, vec![from(port, 9), any.clone()]).unwrap_err();
    assert!(told.to_string().contains("write in_port=... into"), "{told}");
    // One that is refused for anything else leaves ports as they were, too.
    let told = create(&a, Vid(1), 1, 2, vec![from(port, 9)]).unwrap_err();
    assert!(matches!(told, ControlError::VdpExists(_)) && nobody(), "{told}");
    create(&a, v, 1, 2, vec![from(port, 9)]).unwrap();
    let kept = || a.crew.handle().spreads()[0].whole();
    assert_eq!(kept(), Some(1));
    let told = create(&a, Vid(6), 0, 2, vec![from(port, 8)]).unwrap_err();
    let said = "port 'p1' is kept whole by worker 1 for VDP 5: pin both to one worker";
    assert!(told.to_string().contains(said), "{told}");
    create(&a, Vid(6), 1, 2, vec![from(port, 8)]).unwrap();
    let told = a.h.call(move |p| p.add_mapping(v, &any)).unwrap().unwrap_err();
    assert!(matches!(told, ControlError::PinnedAnywhere { .. }), "{told}");
    type Op = Box<dyn FnOnce(&mut DataPlane) -> Said + Send>;
    let share = |share: PortShare| -> Op { Box::new(move |p| p.set_share(v, port, share)) };
    let refused: [Op; 5] = [
        Box::new(move |p| p.set_cpu(v, 10)),
        Box::new(move |p| p.migrate(v, Path::Slow)),
        Box::new(move |p| p.add_rule(v, 0, &rule_of("actions=drop"), Placement::Slow).map(drop)),
        Box::new(move |p| p.send_away(v, &[port], Nanos(1))),
        share(PortShare { guarantee_bps: 1000, ..PortShare::default() }),
    ];
    for op in refused {
        let told = a.h.call(op).unwrap().unwrap_err();
        assert!(matches!(told, ControlError::OneWorker { .. }), "{told}");
    }
    let done: [Op; 5] = [
        share(PortShare { ceiling_bps: Some(1_000_000), ..PortShare::default() }),
        Box::new(move |p| p.set_queue(v, PortNo(1), 4, QueueRate::default())),
        Box::new(move |p| p.remove_queue(v, PortNo(1), 4)),
        Box::new(move |p| p.set_default(v, &[Action::Output(Out::Normal)])),
        Box::new(move |p| p.add_rule(v, 0, &rule_of("actions=NORMAL"), Placement::Fast).map(drop)),
    ];
    for op in done {
        a.h.call(op).unwrap().unwrap();
    }
    // The port is whole while either needs it.
    a.h.call(move |p| p.delete_vdp(v)).unwrap().unwrap();
    assert_eq!(kept(), Some(1));
    a.h.call(move |p| p.remove_mapping(Vid(6), &from(port, 8))).unwrap().unwrap();
    assert!(nobody());
    // One worker does whatever a VDP says.
    let mut alone = DataPlane::new(Config { frames: 2048, ..Config::default() }).unwrap();
    let spec = VdpSpec { worker: Some(0), ..VdpSpec::new(v, "alone") };
    alone.create_vdp(spec).unwrap();
    assert_eq!(alone.worker_of(v), None);
    let spec = VdpSpec { worker: Some(1), ..VdpSpec::new(Vid(6), "alone") };
    assert!(matches!(alone.create_vdp(spec), Err(ControlError::NoWorker { workers: 1, .. })));
    assert_eq!(a.crew.fault(), None);
    a.stop();
}

/// Frames that do not leave another worker would be overtaken: the port stays as it is, and so does everything else.
#[test]
fn a_port_whose_frames_stand_still_is_not_kept_whole() {
    let (source, to) = fed();
    let open = Arc::new(AtomicBool::new(false));
    let a = Asked::with(2, vec![source, Box::new(Gate(Arc::clone(&open)))]);
    a.rule("actions=output:2");
    let flows: Vec<u32> = (0..200).collect();
    frames(&flows).into_iter().for_each(|f| to.send(f).unwrap());
    a.until(|s| s.vdps[1].counters.received.frames == 200);
    let rule = vec![from(PortId(1), 9)];
    let told = create(&a, Vid(5), 0, 2, rule.clone()).unwrap_err();
    assert!(told.to_string().contains("port 'p1' could not be kept whole by worker 0"), "{told}");
    let spread = a.crew.handle().spreads()[0].clone();
    assert_eq!(spread.whole(), None);
    assert!((0..=255).any(|b| spread.owner(b) == Some(1)));
    assert_eq!(a.snapshot().vdps.len(), 2);
    open.store(true, Ordering::SeqCst);
    patiently(|| create(&a, Vid(5), 0, 2, rule.clone())).unwrap();
    assert!((0..=255).all(|b| spread.owner(b) == Some(0)));
    // Devices are asked again.
    frames(&flows).into_iter().for_each(|f| to.send(f).unwrap());
    a.until(|s| s.ports[1].counters.tx.frames == 400);
    a.stop();
}
