//! What weir itself does with a frame, as operations that `weir calibrate` measures where they occur: in
//! its data plane, in bursts, with frames from memory.
//!
//! Room: benchmarks of the data plane without a network function in it. Frames, rules, actions and
//! programs here are nobody's: functions are estimated from these figures and must not be measured by
//! them. `pass` has the way through an empty VDP and through the software stage, `rules` what rules add, `tunnel` what headers of
//! a tunnel do,
//! `probe` what a program's steps add, `decide` what its decisions do. Called by `commands/calibrate`.

mod decide;
mod pass;
mod probe;
mod rules;
mod tunnel;

use crate::functions::{Job, plane};
use std::cell::RefCell;
use std::rc::Rc;
use std::sync::Arc;
use weir_calibrate::kernel::{Memory, scatter};
use weir_calibrate::meter::Run;
use weir_calibrate::shape::{Home, Maker, Own, Point, Shape, near};
use weir_dataplane::flowtext::{NoNames, parse_flows};
use weir_dataplane::{Action, DataPlane, PortCounters, Program};
use weir_io::replay::{Arena, Null, Passes, Replay};
use weir_packet::{BURST, Device, Nanos};

/// Frames of a source: as many as `weir bench functions` plays. So many entries has a table that is far away.
pub const SOURCE: usize = 1 << 15;
/// Frames of a source, and entries of a table, that are beyond most caches: 50 MB at least.
const BEYOND: usize = 1 << 18;
/// Entries of a table that is near.
const NEAR: u64 = 64;
/// The port that frames leave by.
const OUT: u16 = 2;
/// Bytes of a line that an entry takes.
const LINE: f64 = 64.0;
/// How often a data plane with an operation and one without are measured in turns.
const TURNS: u32 = 3;
/// What the data plane's clock moves on by in each round.
const ROUND: u64 = 3000;

/// Every operation of weir's own.
pub fn shapes() -> Vec<Shape> {
    let mut all = pass::shapes();
    all.extend(rules::shapes());
    all.extend(tunnel::shapes());
    all.extend(probe::shapes());
    all.extend(decide::shapes());
    all
}

/// How large tables are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Tables {
    Near,
    Far,
    Beyond,
}

impl Tables {
    /// As many places as a benchmark was told of.
    fn of(places: u64) -> Self {
        match places as usize {
            BEYOND.. => Tables::Beyond,
            SOURCE.. => Tables::Far,
            _ => Tables::Near,
        }
    }
    fn entries(self) -> u64 {
        match self {
            Tables::Near => NEAR,
            Tables::Far => SOURCE as u64,
            Tables::Beyond => BEYOND as u64,
        }
    }
    /// Frames that name them.
    fn frames(self) -> usize {
        match self {
            Tables::Near | Tables::Far => SOURCE,
            Tables::Beyond => BEYOND,
        }
    }
    /// The entry that a frame names: all of them in turns, in no order that anybody guesses.
    fn entry(self, frame: usize) -> u64 {
        // Each step is a bijection of as many bits as frames need.
        let mask = self.frames() as u64 - 1;
        let mix = |x: u64| (x ^ x >> 7).wrapping_mul(0x9e37_79b9_7f4a_7c15) & mask;
        mix(mix(frame as u64 & mask)) & (self.entries() - 1)
    }
}

/// What a frame looks like.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Ethernet,
    Mpls,
    Ipv4,
    Udp,
    TaggedUdp,
    QinqUdp,
    Ipv6Udp,
}

impl Kind {
    /// What flows are told apart by whose actions are for such frames.
    fn named(self) -> &'static str {
        match self {
            Self::Mpls => "dl_type=0x8847,",
            _ => "udp,",
        }
    }
}

/// A frame of this kind and length that names an entry by its source address.
fn frame(kind: Kind, entry: u64, len: usize) -> Vec<u8> {
    let [.., b, c, d] = entry.to_be_bytes();
    let mut f = vec![6, 0, 0, 9, c, d, 6, 0, 0, b, c, d];
    let ip4 = |protocol| {
        vec![0x45, 0, 0, 46, 0, 0, 0x40, 0, 60, protocol, 0, 0, 10, b, c, d, 11, d, c, 2]
    };
    let udp = [c, d, 0, 9, 0, 26, 0, 0];
    match kind {
        Kind::Ethernet => f.extend([0x88, 0xb6]),
        Kind::Mpls => f.extend([0x88, 0x47, b, c, d | 1, 60]),
        Kind::Ipv4 => f.extend([&[8, 0][..], &ip4(253)].concat()),
        Kind::Udp => f.extend([&[8, 0][..], &ip4(17), &udp].concat()),
        Kind::TaggedUdp => f.extend([&[0x81, 0, 0x20, 7, 8, 0][..], &ip4(17), &udp].concat()),
        Kind::QinqUdp => {
            let tags = [0x88, 0xa8, 0x20, 7, 0x81, 0, 0, c, 8, 0];
            f.extend([&tags[..], &ip4(17), &udp].concat());
        }
        Kind::Ipv6Udp => {
            f.extend([0x86, 0xdd, 0x60, 0, 0, 0, 0, 8, 17, 60]);
            f.extend([0xfd, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, b, c, d]);
            f.extend([0xfd, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, d, c, b]);
            f.extend([c, d, 0, 9, 0, 8, 0, 0]);
        }
    }
    f.resize(len.max(f.len()), 0);
    if matches!(kind, Kind::Ipv4 | Kind::Udp)
        && let Some(ip) = f.get_mut(14..34)
    {
        let sum = weir_wire::checksum::internet(ip).to_be_bytes();
        ip[10..12].copy_from_slice(&sum);
    }
    f
}

/// A data plane with one VDP, fed from memory; it says after each frame's work how much was done.
struct Fed {
    plane: DataPlane,
    /// Frames of a round, on average: a burst of each source, or what the software stage takes of them.
    each: f64,
    clock: u64,
    /// Frames that were done beyond those that were asked for.
    ahead: f64,
}

/// Rounds over which frames are counted.
const COUNTED: u32 = 256;

impl Fed {
    fn new(kind: Kind, len: usize, tables: Tables, job: Job) -> Option<Self> {
        let mut arena = Arena::new();
        // Frames come in by every port but the one that all leave by, without a pattern.
        let sources: Vec<u16> = job.ports.iter().map(|p| *p as u16).filter(|p| *p != OUT).collect();
        for i in 0..tables.frames() {
            let from = sources.get((scatter(i as u64) >> 20) as usize % sources.len().max(1));
            arena.push(&frame(kind, tables.entry(i), len), None, from.copied()?);
        }
        let arena = Arc::new(arena);
        let plane = plane(job, |no| -> Box<dyn Device> {
            match no as u16 {
                OUT => Box::new(Null::new("end")),
                no => Box::new(Replay::of_port("source", Arc::clone(&arena), Passes::Forever, no)),
            }
        });
        let each = (BURST * sources.len()) as f64;
        let mut fed = Self { plane: plane.ok()?, each, clock: 0, ahead: 0.0 };
        // What is done once, as tables are handed over and pages found, is no frame's.
        fed.run(tables.frames() as u64);
        let (received, sent) = fed.moved();
        (0..COUNTED).for_each(|_| fed.round());
        let (received, sent) = (fed.moved().0 - received, fed.moved().1 - sent);
        fed.each = received as f64 / f64::from(COUNTED);
        // Some wait within; but a frame that is dropped is none that passed.
        (received > 0 && sent >= received / 2).then_some(fed)
    }
    /// Frames that came, and that went.
    fn moved(&self) -> (u64, u64) {
        let ports = self.plane.snapshot().ports;
        let sum = |of: fn(&PortCounters) -> u64| ports.iter().map(|p| of(&p.counters)).sum();
        (sum(|c| c.rx.frames), sum(|c| c.tx.frames))
    }
    fn round(&mut self) {
        self.clock += ROUND;
        self.plane.poll(Nanos(self.clock));
    }
    /// Passes so many frames on.
    fn run(&mut self, frames: u64) -> u64 {
        while self.ahead < frames as f64 {
            self.round();
            self.ahead += self.each;
        }
        self.ahead -= frames as f64;
        self.clock
    }
}

/// An empty VDP, fed from memory with frames of so many bytes: whether the machine is as it was calibrated.
///
/// # Errors
/// There is no such data plane.
pub fn pass(len: usize) -> anyhow::Result<DataPlane> {
    let fed = Fed::new(Kind::Udp, len, Tables::Near, empty("output:2"));
    fed.map(|f| f.plane).ok_or_else(|| anyhow::anyhow!("frames of {len} bytes: no data plane"))
}

/// Actions, as Open vSwitch writes them. That they may be is said by a match that nobody is asked
/// about.
fn actions(text: &str, matches: &str) -> Vec<Action> {
    let text = format!("priority=1,{matches}actions={text}\n");
    let rules = parse_flows(&text, &NoNames).unwrap_or_default();
    rules.into_iter().flat_map(|r| r.actions).collect()
}

/// A VDP without a rule: these actions are for every frame.
fn empty(text: &str) -> Job {
    Job { rules: Vec::new(), default: actions(text, "udp,"), ..Job::empty(&[1, 2]) }
}

/// A VDP whose frames all go to this program.
fn served(program: impl Program + 'static) -> Job {
    Job::program(program, &[1, 2])
}

/// A data plane, made when it is needed, for both paces, since its bursts are its own; one where tables
/// are near, and each where they are far.
fn lasting(make: impl Fn(Tables) -> Option<Fed> + 'static) -> Maker {
    let kept: Rc<RefCell<[Option<Fed>; 3]>> = Rc::default();
    Box::new(move |_: &Memory, _, places| -> Run {
        let tables = Tables::of(places);
        let slot = tables as usize;
        if let Some(k) = kept.borrow_mut().get_mut(slot).filter(|k| k.is_none()) {
            *k = make(tables);
        }
        let kept = Rc::clone(&kept);
        Box::new(move |n| {
            let mut kept = kept.borrow_mut();
            kept.get_mut(slot).and_then(Option::as_mut).map_or(n, |f| f.run(n))
        })
    })
}

/// An operation whose data is near; points are to be added.
fn shape(
    eo: &'static str,
    terms: &'static [(&'static str, &'static str)],
    about: &'static str,
) -> Shape {
    Shape {
        eo,
        terms,
        factor: None,
        more: None,
        accesses: None,
        home: Home::Near,
        about,
        points: Vec::new(),
    }
}

/// A point of a benchmark in a data plane, less another.
fn point(given: &[(&'static str, f64)], make: Maker, less: Option<Maker>) -> Point {
    Point { turns: TURNS, make, less, ..near(given, 1, |_, _, _| Box::new(|n| n)) }
}

/// The same, far away too, where so many lines of each entry are asked for. Frames of so many bytes, which follow
/// each other, are fetched ahead; but all of them lie between an entry's line and the next time that it is asked for.
fn strewn(lines: f64, len: usize, p: Point) -> Point {
    let bytes = (lines + (len as f64 / LINE).ceil()) * LINE;
    let own = [SOURCE, BEYOND].map(|n| Own { places: n as u64, bytes: bytes * n as f64 });
    Point { far: true, own: own.into(), words: 4, ..p }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::functions::Stack;
    use weir_calibrate::field::{Field, Pages};
    use weir_calibrate::kernel::Pace;

    #[test]
    fn every_benchmark_runs_and_frames_pass() {
        let mut f =
            Fed::new(Kind::TaggedUdp, 60, Tables::Near, empty("output:2")).expect("a data plane");
        let before = f.moved().0;
        f.run(1000);
        let s = f.plane.snapshot();
        s.check().expect("balanced");
        let sent: u64 = s.ports.iter().map(|p| p.counters.tx.frames).sum();
        assert_eq!((f.moved().0 - before, f.each, f.ahead), (1024, BURST as f64, 24.0));
        assert_eq!(sent, f.moved().0);
        let mut names: Vec<&str> = shapes().iter().map(|s| s.eo).collect();
        assert!(shapes().iter().all(|s| !s.points.is_empty()), "{names:?}");
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), shapes().len());
    }

    /// One that could not be made, or whose frames are dropped, would say no time of its own.
    #[test]
    fn frames_pass_in_each() {
        let memory = Field::new(64, Pages::Small).map(RefCell::new).map(Rc::new).expect("memory");
        for shape in shapes() {
            for p in shape.points {
                for make in std::iter::once(&p.make).chain(&p.less) {
                    let clock = make(&memory, Pace::Burst, NEAR)(1000);
                    assert!(
                        clock > u64::from(COUNTED) * ROUND,
                        "{} {:?}: {clock}",
                        shape.eo,
                        p.given
                    );
                }
            }
        }
    }

    #[test]
    fn every_entry_is_asked_for_as_often_as_any() {
        for tables in [Tables::Near, Tables::Far, Tables::Beyond] {
            let mut asked = vec![0; tables.entries() as usize];
            (0..tables.frames()).for_each(|i| asked[tables.entry(i) as usize] += 1);
            let each = tables.frames() / asked.len();
            assert!(asked.iter().all(|n| *n == each), "{tables:?}");
        }
    }

    #[test]
    fn frames_are_of_their_kind() {
        let of = |kind| Stack::of(&frame(kind, 5, 60));
        assert_eq!(of(Kind::Ethernet), Stack::default());
        assert_eq!(of(Kind::Mpls), Stack { labels: 1, ..Stack::default() });
        assert_eq!(of(Kind::Ipv4), Stack { ip4: 1, ..Stack::default() });
        let udp = Stack { ip4: 1, transports: 1, ..Stack::default() };
        assert_eq!(of(Kind::Udp), Stack { usual: true, ..udp });
        assert_eq!(of(Kind::TaggedUdp), Stack { usual: true, tags: 1, ..udp });
        assert_eq!(of(Kind::QinqUdp), Stack { tags: 2, ..udp });
        assert_eq!(of(Kind::Ipv6Udp), Stack { ip6: 1, transports: 1, ..Stack::default() });
    }
}
