//! Modules that need no switch, on a wire in virtual time whose delays are known.

mod toy;

use toy::{core, number};
use weir_measure::document::{Document, Outcome};
use weir_measure::engine::simulation::{EPOCH, Output, SimulatedDut, World, simulate};
use weir_openflow::model::{Msg, Version};
use weir_packet::Nanos;

/// From channel 0 to 1; each frame later than the last by `more` in a million.
struct Wire {
    ppm: u64,
    due: std::collections::VecDeque<(Nanos, Vec<u8>)>,
}

impl SimulatedDut for Wire {
    fn connect(&mut self, _: Nanos) -> Option<Version> {
        panic!("there is no switch");
    }
    fn disconnect(&mut self, _: Nanos) {}
    fn message(&mut self, _: Nanos, _: Msg) {}
    fn frame(&mut self, now: Nanos, channel: usize, frame: &[u8]) {
        assert_eq!(channel, 0);
        let late = now.since(EPOCH).0 * self.ppm / 1_000_000;
        self.due.push_back((now + Nanos(late), frame.to_vec()));
    }
    fn wake_at(&self) -> Option<Nanos> {
        self.due.front().map(|d| d.0)
    }
    fn poll(&mut self, now: Nanos, out: &mut Vec<Output>) {
        while self.due.front().is_some_and(|d| d.0 <= now) {
            let frame = self.due.pop_front().unwrap().1;
            out.push(Output::Frame(1, frame));
        }
    }
}

fn run(ppm: u64, set: &[(&str, &str)]) -> Document {
    let mut wire = Wire { ppm, due: Default::default() };
    simulate(core("timestamps", set), &mut wire, World::default()).unwrap()
}

#[test]
fn stamps_that_keep_time_and_stamps_that_drift() {
    let set = [("duration", "2"), ("rate", "8")];
    let d = run(0, &set);
    assert_eq!(d.verdicts[0].outcome, Outcome::Holds, "{:?}", d.verdicts);
    // Two wires of half a microsecond.
    assert_eq!((number(&d, 0, "median"), number(&d, 0, "jitter")), (1.0, 0.0));
    let floor = d.wire.unwrap();
    assert_eq!((floor.p99_ns, floor.lost), (1_000.0, 0));
    // 10,000 frames a second, of which one in ten is told of, and all are counted.
    assert_eq!(floor.frames, 2_000);
    assert_eq!((d.loads[0].sent, d.loads[0].received), (20_000, 20_000));

    let d = run(50, &set);
    assert_eq!(d.verdicts[0].outcome, Outcome::Fails, "{:?}", d.verdicts);
    assert!((number(&d, 0, "drift") - 50.0).abs() < 0.01, "{:?}", d.tables);
    let drift = number(&d, 0, "drift in that time");
    assert!((drift - 100.0).abs() < 0.2, "{drift} µs in two seconds");
    let curve = &d.figures[0].series[0].points;
    assert!(curve.len() <= 200 && curve.last().unwrap().y.unwrap() > 98.0);

    let d = run(0, &[("duration", "0.1"), ("rate", "0.1")]);
    assert_eq!(d.verdicts[0].outcome, Outcome::Unclear, "{:?}", d.verdicts);
}
