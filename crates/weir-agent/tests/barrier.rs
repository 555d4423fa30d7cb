//! The barrier on a data plane that runs on its own thread: what is sent after the reply is treated
//! by the new rules alone, and a flow that was told of as gone takes no frame.

mod rig;
use rig::*;
use std::time::{Duration, Instant};
use weir_dataplane::{Runner, Serving, WhenIdle};
use weir_openflow::model::*;

/// How long to wait for a frame that must come.
const PATIENCE: Duration = Duration::from_secs(20);

#[test]
fn no_frame_after_the_reply_meets_an_old_rule() {
    let Rig { plane, mut switch, mut out, now, mut peers, .. } = Rig::new();
    let runner = Runner::start(plane, Serving::Worker, WhenIdle::Rest).unwrap();
    let mut handle = runner.handle();
    let mut seed = 1u32;
    let mut was = [0u32; 4];
    for round in 0..10_000 {
        // A pseudo-random station gets a pseudo-random port, or loses its rule.
        seed = seed.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        let (station, port) = ((seed >> 8) as u8 % 4, 1 + (seed >> 16) % 4);
        let mut f = flow(dst(station), 5, to(port));
        if port == 1 {
            (f.command, f.instructions) = (FlowCommand::DeleteStrict, vec![]);
        }
        was[usize::from(station)] = if port == 1 { 0 } else { port };
        let mut handle_one = |body| {
            let msg = Msg { xid: round, body };
            switch.handle(NEW, msg, &RAW, now, &mut handle, &mut out).unwrap();
        };
        handle_one(Message::FlowMod(f));
        handle_one(Message::BarrierRequest);
        assert_eq!(out.take().pop().unwrap().msg.body, Message::BarrierReply);
        // The frame, then one that always comes through and so says that the first is done with.
        let sentinel = frame(9);
        if round == 0 {
            let always = Message::FlowMod(flow(dst(9), 5, to(2)));
            switch
                .handle(NEW, Msg { xid: 0, body: always }, &RAW, now, &mut handle, &mut out)
                .unwrap();
            switch.settle(now, &mut handle, &mut out).unwrap();
        }
        peers[0].send(&frame(station)).unwrap();
        let (mut seen, mut got) = (None, Vec::new());
        let began = Instant::now();
        // Twice: in the round of the second, what the first round sent is out by every port.
        for _ in 0..2 {
            peers[0].send(&sentinel).unwrap();
            let mut done = false;
            while !done {
                for (i, p) in peers.iter_mut().enumerate() {
                    while p.recv(&mut got) {
                        if got == sentinel {
                            done = true;
                            continue;
                        }
                        assert_eq!(got, frame(station));
                        assert_eq!(seen.replace(i as u32 + 1), None, "twice");
                    }
                }
                assert!(began.elapsed() < PATIENCE, "the sentinel is lost");
                std::thread::yield_now();
            }
        }
        let want = Some(was[usize::from(station)]).filter(|p| *p != 0);
        assert_eq!(seen, want, "round {round}");
    }
    runner.stop().unwrap().snapshot().check().unwrap();
}
