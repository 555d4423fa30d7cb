//! What must hold of a channel whatever bytes and times it is given; shared with the fuzz target.

use std::time::Duration;
use weir_openflow::channel::{Channel, Config, Event, KeepAlive, Limits, Rate, Side, Versions};
use weir_openflow::model::*;

/// Output of the answer to one message: an echo of the longest message, or an error.
const ONE_ANSWER: usize = 0xffff;
/// What a controller keeps for answers beyond its limit.
const ECHO_ROOM: usize = 64 * 1024;

/// Takes `script` for a peer's bytes and for what happens around them.
pub fn script(script: &[u8]) {
    let Some((&[how, limit], mut rest)) = script.split_first_chunk() else { return };
    let side = if how & 1 == 0 { Side::Switch } else { Side::Controller };
    let versions = match how >> 1 & 3 {
        0 => Versions::only(Version::V10),
        1 => Versions::only(Version::V13),
        _ => Versions::ALL,
    };
    let rate = |on: bool| on.then_some(Rate { per_second: u32::from(limit), burst: 3 });
    let limits = Limits {
        output: usize::from(limit) * 64,
        messages: rate(how & 8 != 0),
        flow_mods: rate(how & 16 != 0),
        ..Limits::default()
    };
    let keep_alive = (how & 32 != 0)
        .then_some(KeepAlive { interval: Duration::from_millis(limit.into()), probes: 2 });
    let mut now = Duration::ZERO;
    let mut c = Channel::new(Config { versions, keep_alive, limits, ..Config::new(side) }, now);
    let mut over = false;
    while let Some((&[what, n], more)) = rest.split_first_chunk() {
        rest = more;
        let n = usize::from(n);
        match what % 6 {
            0 | 1 => {
                let (bytes, more) = rest.split_at(n.min(rest.len()));
                let wanted = c.input_room();
                let taken = c.receive(bytes, now);
                assert!(taken >= wanted.min(bytes.len()) && taken <= bytes.len());
                rest = more;
            }
            2 => c.advance(n * 16),
            3 => now = now.saturating_add(Duration::from_millis(n as u64 * 10)),
            4 => c.tick(now),
            // Many times the same: what a script of some bytes can't fill else.
            _ => {
                let bytes = rest.get(..n.min(rest.len())).unwrap_or_default().repeat(50);
                c.receive(&bytes, now);
            }
        }
        while let Some(event) = c.next_event(now) {
            assert!(!over, "nothing follows the end");
            match event {
                Event::Up(version) => assert!(versions.has(version)),
                Event::Closed(_) => over = true,
                Event::Misread(_) => assert_eq!(side, Side::Controller),
                Event::Message(received) => answer(&mut c, side, received.msg),
            }
        }
        if what % 6 == 4 {
            assert!(c.wake_at().is_none_or(|at| at > now), "an owner that did its part may sleep");
        }
        let bound = limits.output + ONE_ANSWER + ECHO_ROOM;
        assert!(c.outgoing().len() <= bound, "{} bytes wait", c.outgoing().len());
        assert!(c.input_room() <= Limits::INPUT);
        assert_eq!(over, c.is_closed());
        assert!(!over || (!c.wants_read() && c.wake_at().is_none() && c.version().is_none()));
    }
}

/// What an owner does with a message: a switch answers, and tells something unasked.
fn answer(c: &mut Channel, side: Side, msg: Msg) {
    if side == Side::Switch {
        let status = Message::FlowRemoved(FlowRemoved {
            cookie: 0,
            priority: 0,
            reason: RemovedReason::Delete,
            table: 0,
            duration_sec: 0,
            duration_nsec: 0,
            idle_timeout: 0,
            hard_timeout: 0,
            packets: 0,
            bytes: 0,
            matcher: Match::default(),
        });
        c.send(&Msg { xid: 0, body: status }).expect("has a form");
        c.send(&Msg { xid: msg.xid, body: Message::BarrierReply }).expect("has a form");
    } else {
        // A controller's request may find no room.
        let _ = c.send(&Msg { xid: 0, body: Message::BarrierRequest });
    }
}
