//! What weir itself does with a frame, as operations that `weir calibrate` measures: the pass through
//! an empty VDP, its classifier, its executor, the way to the slow path and back.
//!
//! Room: benchmarks of the data plane without a network function in it. Frames, keys and actions here
//! are nobody's: functions are estimated from these figures and must not be measured by them. Called by
//! `commands/calibrate`.

use crate::functions::{Job, plane};
use std::cell::RefCell;
use std::rc::Rc;
use std::sync::Arc;
use weir_calibrate::kernel::{Memory, Pace, scatter};
use weir_calibrate::meter::Run;
use weir_calibrate::shape::{Home, Maker, Point, Shape, both, near};
use weir_classify::{FastTable, Field, FlowKey, Match, RuleId};
use weir_dataplane::flowtext::{NoNames, parse_flows};
use weir_dataplane::programs::forward::Forward;
use weir_dataplane::{DataPlane, Path, Vid};
use weir_io::replay::{Arena, Null, Passes, Replay};
use weir_packet::{BURST, Device, Nanos};

/// Frames of a source: as many as `weir bench functions` plays.
pub const SOURCE: usize = 1 << 15;
/// What the data plane's clock moves on by in each round.
const ROUND: u64 = 3000;
/// Most rules of a table that is far away.
const RULES: u64 = 1 << 18;

/// Every operation of weir's own.
pub fn shapes() -> Vec<Shape> {
    vec![vdp_pass(), rule_lookup(), rule_program(), channel_pass()]
}

/// A frame with these headers, of `len` bytes.
fn frame(headers: u32, i: usize, len: usize) -> Vec<u8> {
    let [_, _, c, d] = (i as u32).to_be_bytes();
    let mut f = vec![6, 0, 0, 9, c, d, 6, 0, 0, 8, d, c];
    if headers == 4 {
        f.extend([0x81, 0, 0x20, 7]);
    }
    match headers {
        1 => f.extend([0x88, 0xb6]),
        2 => f.extend([8, 0, 0x45, 0, 0, 46, 0, 0, 0, 0, 60, 253, 0, 0, 10, c, d, 1, 10, d, c, 2]),
        _ => {
            f.extend([8, 0, 0x45, 0, 0, 46, 0, 0, 0, 0, 60, 17, 0, 0, 10, c, d, 1, 10, d, c, 2]);
            f.extend([c, d, 0, 9, 0, 26, 0, 0]);
        }
    }
    f.resize(len.max(f.len()), 0);
    f
}

/// A data plane with one VDP, fed from memory; it says after each frame's work how much was done.
struct Fed {
    plane: DataPlane,
    clock: u64,
    /// Frames that were done beyond those that were asked for.
    ahead: u64,
}

impl Fed {
    fn new(headers: u32, len: usize, job: Job, path: Path) -> Option<Self> {
        let mut arena = Arena::new();
        for i in 0..SOURCE {
            arena.push(&frame(headers, i, len), None, 1);
        }
        let arena = Arc::new(arena);
        let plane = plane(job, |no| -> Box<dyn Device> {
            match no {
                1 => Box::new(Replay::new("source", Arc::clone(&arena), Passes::Forever)),
                _ => Box::new(Null::new("end")),
            }
        });
        let mut plane = plane.ok()?;
        if path == Path::Slow {
            plane.migrate(Vid(1), Path::Slow).ok()?;
        }
        Some(Self { plane, clock: 0, ahead: 0 })
    }
    /// Passes so many frames on.
    fn run(&mut self, frames: u64) -> u64 {
        while self.ahead < frames {
            self.clock += ROUND;
            self.plane.poll(Nanos(self.clock));
            self.ahead += BURST as u64;
        }
        self.ahead -= frames;
        self.clock
    }
}

/// A VDP without a rule: these actions are for every frame. That they may be is said by a match that nobody
/// is asked about.
fn empty(actions: &str) -> Job {
    let text = format!("priority=1,udp,actions={actions}\n");
    let rules = parse_flows(&text, &NoNames).unwrap_or_default();
    Job {
        rules: Vec::new(),
        default: rules.into_iter().flat_map(|r| r.actions).collect(),
        ..Job::empty(&[1, 2])
    }
}

fn fed(headers: u32, len: usize, actions: &'static str) -> Maker {
    lasting(move || Fed::new(headers, len, empty(actions), Path::Fast))
}

/// One data plane for both paces, since its bursts are its own; made when it is needed.
fn lasting(make: impl Fn() -> Option<Fed> + 'static) -> Maker {
    let kept: Rc<RefCell<Option<Fed>>> = Rc::default();
    Box::new(move |_: &Memory, _, _| -> Run {
        let kept = Rc::clone(&kept);
        if kept.borrow().is_none() {
            *kept.borrow_mut() = make();
        }
        Box::new(move |n| kept.borrow_mut().as_mut().map_or(n, |f| f.run(n)))
    })
}

fn vdp_pass() -> Shape {
    let point = |headers: u32, len: usize| Point {
        make: fed(headers, len, "output:2"),
        ..near(&[("b", len as f64), ("headers", f64::from(headers))], 1, |_, _, _| Box::new(|n| n))
    };
    Shape {
        eo: "vdp_pass",
        terms: &[("base", "1"), ("header", "headers"), ("line_copy", "ceil(b / line)")],
        factor: None,
        more: None,
        accesses: None,
        home: Home::Near,
        about: "weir's data plane in bursts of 64 with one VDP, no rule, 32 Ki frames in memory as its source",
        points: vec![
            point(1, 60),
            point(2, 60),
            point(3, 60),
            point(4, 60),
            point(3, 252),
            point(3, 508),
            point(3, 1514),
        ],
    }
}

/// Actions of one to four steps.
const PROGRAMS: [&str; 4] = [
    "set_field:5->ip_dscp,output:2",
    "set_field:5->ip_dscp,set_field:7->udp_src,output:2",
    "set_field:5->ip_dscp,set_field:7->udp_src,set_field:1->nw_ecn,output:2",
    "set_field:5->ip_dscp,set_field:7->udp_src,set_field:1->nw_ecn,set_field:8->udp_dst,output:2",
];

fn rule_program() -> Shape {
    let point = |n: u32, actions: &'static str| Point {
        make: fed(3, 60, actions),
        less: Some(fed(3, 60, "output:2")),
        ..near(&[("n", f64::from(n))], 1, |_, _, _| Box::new(|n| n))
    };
    Shape {
        eo: "rule_program",
        terms: &[("base", "1"), ("action", "n")],
        factor: None,
        more: None,
        accesses: None,
        home: Home::Near,
        about: "an empty VDP with actions for every frame, less one without",
        points: (1..).zip(PROGRAMS).map(|(n, actions)| point(n, actions)).collect(),
    }
}

fn channel_pass() -> Shape {
    let program = || {
        let forward = Forward::neighbours();
        Fed::new(1, 60, Job::program(forward, &[1, 2]), Path::Slow)
    };
    let point = Point {
        make: lasting(program),
        less: Some(fed(1, 60, "output:2")),
        ..near(&[], 1, |_, _, _| Box::new(|n| n))
    };
    Shape {
        eo: "channel_pass",
        terms: &[("base", "1")],
        factor: None,
        more: None,
        accesses: None,
        home: Home::Near,
        about: "frames to a program that sends them by the adjacent port, less a VDP without rules on the fast path",
        points: vec![point],
    }
}

/// Fields that rules look at, by how many words of 32 bits they have in all.
fn fields(words: u32) -> &'static [Field] {
    match words {
        2 => &[Field::Metadata],
        4 => &[Field::Metadata, Field::TunnelId],
        _ => &[Field::Metadata, Field::TunnelId, Field::EthSrc],
    }
}

/// weir's classifier with rules that look at `words` words, under `masks` masks.
fn lookup(words: u32, masks: u32) -> impl Fn(&Memory, Pace, u64) -> Run {
    move |_, pace, places| {
        let rules = places.clamp(1, RULES);
        let mut table = FastTable::new();
        let fields = fields(words);
        for id in 0..rules {
            // Masks differ in how many of the highest bits they look at.
            let m = fields.iter().enumerate().fold(Match::any(), |m, (i, f)| {
                let away = if i == 0 { (id % u64::from(masks)) as u32 } else { 0 };
                let mask = f.full() >> away;
                m.with_masked(*f, u128::from(id) & mask, mask)
            });
            table.insert_new(&m, 1, RuleId(id as u32));
        }
        let mut keys = vec![FlowKey::default(); BURST];
        let mut k = 0u64;
        let burst = if pace == Pace::Burst { BURST as u64 } else { 1 };
        let mut ahead = 0;
        let mask = rules.next_power_of_two() - 1;
        Box::new(move |n| {
            let mut found = 0u64;
            while ahead < n {
                let mut probes = [weir_classify::Probe::default(); BURST];
                let now = burst as usize;
                for (key, probe) in keys.iter_mut().zip(&mut probes).take(now) {
                    let id = u128::from((scatter(k ^ (found >> 63)) & mask).min(rules - 1));
                    fields.iter().for_each(|f| key.set(*f, id));
                    *probe = table.probe(key);
                    k += 1;
                }
                for (key, probe) in keys.iter().zip(&probes).take(now) {
                    found += u64::from(table.resolve(key, *probe).map_or(0, |r| r.0));
                }
                ahead += burst;
            }
            ahead -= n;
            found
        })
    }
}

fn rule_lookup() -> Shape {
    let at = |words: u32, masks: u32| {
        [("N", f64::from(words)), ("masks", f64::from(masks)), ("HE", 24.0), ("max", 64.0)]
    };
    // Places as wide as a rule is in the table.
    const WORDS: usize = 4;
    Shape {
        eo: "rule_lookup",
        terms: &[("base", "1"), ("mask", "masks"), ("word", "masks * ceil(N / 2)")],
        factor: None,
        more: None,
        accesses: Some("cold * masks"),
        home: Home::Table,
        about: "weir's classifier alone, on keys that it has",
        points: vec![
            both(&at(2, 1), WORDS, lookup(2, 1)),
            near(&at(4, 1), WORDS, lookup(4, 1)),
            near(&at(6, 1), WORDS, lookup(6, 1)),
            near(&at(2, 2), WORDS, lookup(2, 2)),
            near(&at(2, 4), WORDS, lookup(2, 4)),
            near(&at(4, 4), WORDS, lookup(4, 4)),
        ],
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_benchmark_runs_and_frames_pass() {
        let mut f = Fed::new(4, 60, empty("output:2"), Path::Fast).expect("a data plane");
        f.run(1000);
        let s = f.plane.snapshot();
        s.check().expect("balanced");
        let sent: u64 = s.ports.iter().map(|p| p.counters.tx.frames).sum();
        assert_eq!((sent, f.ahead), (1024, 24));
        for n in 0..4 {
            let actions = PROGRAMS.get(n).copied().unwrap_or_default();
            let mut f = Fed::new(3, 60, empty(actions), Path::Fast).expect("a data plane");
            f.run(64);
            let s = f.plane.snapshot();
            let sent: u64 = s.ports.iter().map(|p| p.counters.tx.frames).sum();
            assert_eq!(sent, 64, "{actions}");
        }
        for (words, masks) in [(2, 1), (4, 1), (6, 1), (2, 4)] {
            let field =
                weir_calibrate::field::Field::new(4096, weir_calibrate::field::Pages::Small);
            let memory: Memory = Rc::new(RefCell::new(field.expect("memory")));
            let mut run = lookup(words, masks)(&memory, Pace::Burst, 64);
            assert!(run(640) > 0, "{words} {masks}: nothing was found");
        }
        for s in shapes() {
            assert!(!s.points.is_empty(), "{}", s.eo);
        }
    }

    #[test]
    fn frames_have_the_headers_that_they_are_said_to() {
        for headers in 1..=4 {
            assert_eq!(crate::functions::headers(&frame(headers, 5, 60)), headers);
        }
    }
}
