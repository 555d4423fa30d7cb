//! A VDP that goes from one data plane to another and back, frames flowing: nothing lost, duplicated or
//! reordered, and what it counts goes along.

use crate::plane_common::*;
use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::{Arc, Mutex};
use weir_classify::Match;
use weir_dataplane::*;
use weir_packet::*;

type Queue = Arc<Mutex<VecDeque<Vec<u8>>>>;

/// One end of a wire between two data planes, with room for so many frames each way.
struct Tube {
    out: Queue,
    back: Queue,
}

const ROOM: usize = 512;

impl Tube {
    fn pair() -> (Self, Self) {
        let (a, b) = (Queue::default(), Queue::default());
        (Self { out: a.clone(), back: b.clone() }, Self { out: b, back: a })
    }
}

impl Device for Tube {
    fn name(&self) -> &str {
        "tube"
    }
    fn caps(&self) -> Caps {
        Caps::new(1600, Feed::Waits)
    }
    fn link(&mut self, _: &mut Pool) -> LinkState {
        LinkState::Up
    }
    fn rx(&mut self, pool: &mut Pool, burst: &mut Burst) -> usize {
        let mut from = self.back.lock().unwrap();
        let mut n = 0;
        while burst.room() > 0 && !from.is_empty() {
            let Some(mut f) = pool.alloc() else { break };
            f.copy_from(&from.pop_front().unwrap()).unwrap();
            burst.push(f).unwrap();
            n += 1;
        }
        n
    }
    fn tx(&mut self, pool: &mut Pool, burst: &mut Burst) -> usize {
        let mut to = self.out.lock().unwrap();
        let n = (ROOM - to.len()).min(burst.len());
        for f in burst.drain_front(n) {
            to.push_back(f.bytes().to_vec());
            pool.free(f);
        }
        n
    }
    fn flush(&mut self, _: &mut Pool) {}
    fn held(&self) -> usize {
        0
    }
    fn counters(&self) -> DeviceCounters {
        DeviceCounters::default()
    }
    fn close(&mut self, _: &mut Pool) {}
}

/// A port whose link is up while this says so.
struct Plugged<D>(D, Arc<AtomicBool>);

impl<D: Device> Device for Plugged<D> {
    fn name(&self) -> &str {
        self.0.name()
    }
    fn caps(&self) -> Caps {
        self.0.caps()
    }
    fn link(&mut self, pool: &mut Pool) -> LinkState {
        match self.1.load(Relaxed) {
            true => self.0.link(pool),
            false => LinkState::Down,
        }
    }
    fn rx(&mut self, pool: &mut Pool, burst: &mut Burst) -> usize {
        self.0.rx(pool, burst)
    }
    fn tx(&mut self, pool: &mut Pool, burst: &mut Burst) -> usize {
        self.0.tx(pool, burst)
    }
    fn flush(&mut self, pool: &mut Pool) {
        self.0.flush(pool);
    }
    fn held(&self) -> usize {
        self.0.held()
    }
    fn counters(&self) -> DeviceCounters {
        self.0.counters()
    }
    fn close(&mut self, pool: &mut Pool) {
        self.0.close(pool);
    }
}

/// Two data planes with a wire between them for each port of a VDP.
struct Two {
    home: DataPlane,
    other: DataPlane,
    far: [PortId; 2],
    tubes: [PortId; 2],
    /// The links of the port that frames leave by, and of the way there of those that came in.
    plugs: [Arc<AtomicBool>; 2],
    seen: Arc<Mutex<Seen>>,
    clock: u64,
    turn: u64,
    /// What people are told of the VDP at home: received, forwarded, dropped.
    told: [u64; 3],
}

const VID: Vid = Vid(1);
/// How long frames may be held before a VDP that leaves.
const LIMIT: Nanos = Nanos(10_000_000);

fn rules() -> [RuleSpec; 2] {
    // Two rules, told apart by the flow's address: both are hit.
    let ip = Match::any().with(weir_classify::Field::EthType, 0x0800);
    let first = ip.with(weir_classify::Field::Ipv4Src, 0x0a00_0000);
    [rule(first, 9, &[Action::DecTtl, out(2)]), rule(Match::any(), 1, &[Action::DecTtl, out(2)])]
}

impl Two {
    fn new(source: Sequencer, path: Path) -> Self {
        let flows = source.flows as usize;
        let mut home = DataPlane::new(Config::default()).unwrap();
        let mut other = DataPlane::new(Config::default()).unwrap();
        let i = home.add_port("in", Box::new(source)).unwrap();
        let (sink, seen) = Checker::new(flows);
        let plugs = [(); 2].map(|()| Arc::new(AtomicBool::new(true)));
        let o = home.add_port("out", Box::new(Plugged(sink, plugs[0].clone()))).unwrap();
        let mut spec = vlan_vdp(1, 5, i, o);
        spec.path = path;
        home.create_vdp(spec).unwrap();
        for r in rules() {
            home.add_rule(VID, 0, &r, Placement::Fast).unwrap();
        }
        let (mut far, mut tubes) = ([PortId(0); 2], [PortId(0); 2]);
        for n in 0..2 {
            let (a, b) = Tube::pair();
            let plug = if n == 0 { plugs[1].clone() } else { Arc::new(AtomicBool::new(true)) };
            far[n] = home.add_port(&format!("far{n}"), Box::new(Plugged(a, plug))).unwrap();
            tubes[n] = other.add_port(&format!("tube{n}"), Box::new(b)).unwrap();
        }
        Self { home, other, far, tubes, plugs, seen, clock: 0, turn: 1, told: [0; 3] }
    }

    /// A round of both, now and then of one alone.
    fn round(&mut self) {
        self.clock += 5_000;
        self.turn = self.turn.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        let which = self.turn >> 61;
        if which != 0 {
            self.home.poll(Nanos(self.clock));
        }
        if which != 1 {
            self.other.poll(Nanos(self.clock));
        }
        let Some(v) = self.home.vdp_view(VID) else { return };
        let c = v.everywhere.unwrap_or(v.counters);
        let now = [c.received.frames, c.forwarded.frames, c.dropped.total()];
        let falls = now.iter().zip(&self.told).any(|(now, was)| now < was);
        assert!(!falls, "{:?} after {:?}, {:?}", now, self.told, v.phase);
        self.told = now;
    }

    /// No frame comes any more: all that came have left, in order, and this is what was seen of them.
    fn ended(&mut self) -> Seen {
        let input = self.home.port_named("in").unwrap();
        self.home.remove_port(input).unwrap();
        for _ in 0..200 {
            self.round();
        }
        self.check();
        let seen = self.seen.lock().unwrap().clone();
        assert_eq!((seen.lost, seen.reordered_or_duplicated), (0, 0));
        seen
    }

    fn rounds_until(&mut self, what: &str, done: impl Fn(&Self) -> bool) {
        for _ in 0..10_000 {
            if done(self) {
                return;
            }
            self.round();
        }
        let h = self.home.away(VID).unwrap();
        let s = self.other.snapshot();
        let v = s.vdps.iter().find(|v| v.vid == VID);
        panic!(
            "never: {what}: {:?} {h:?} {:?} there",
            self.home.phase(VID),
            v.map(|v| (&v.counters, v.held))
        );
    }

    fn make_there(&mut self, path: Path) {
        let mut spec = VdpSpec::new(VID, "moved");
        spec.ports = (1..).map(PortNo).zip(self.tubes).collect();
        spec.path = path;
        let by = |p: PortId| Match::any().with(weir_classify::Field::InPort, u128::from(p.0));
        spec.mapping = self.tubes.map(|p| MappingRule { matcher: by(p), priority: 1 }).to_vec();
        self.other.create_vdp(spec).unwrap();
        for r in rules() {
            self.other.add_rule(VID, 0, &r, Placement::Fast).unwrap();
        }
    }

    /// What a VDP has counted goes from one data plane to the other.
    fn carry(from: &DataPlane, to: &mut DataPlane) {
        to.carry(VID, from.carried(VID).unwrap()).unwrap();
        for r in rules() {
            let at = |p: &DataPlane| p.rule_ref(VID, 0, &r.matcher, r.priority).unwrap();
            let mut used = Vec::new();
            from.usage(VID, &[at(from)], &mut used).unwrap();
            let place = at(to);
            to.add_usage(VID, place, used[0]).unwrap();
        }
    }

    fn go(&mut self, path: Path) {
        self.make_there(path);
        self.home.send_away(VID, &self.far, LIMIT).unwrap();
        self.rounds_until("away", |t| t.home.phase(VID).unwrap() == Phase::Away);
        Self::carry(&self.home, &mut self.other);
    }

    fn come(&mut self, path: Path) {
        self.home.clear_away(VID).unwrap();
        for r in rules() {
            self.home.add_rule(VID, 0, &r, Placement::Fast).unwrap();
        }
        let before = self.home.away(VID).unwrap().unwrap().0.given_up;
        self.home.hold_for_return(VID, Nanos::from_millis(50)).unwrap();
        self.rounds_until("quiet", |t| {
            let h = t.home.away(VID).unwrap().unwrap().1;
            let s = t.other.snapshot();
            let v = s.vdps.iter().find(|v| v.vid == VID).unwrap();
            h.waiting == 0 && v.counters.received.frames == h.sent && v.held == 0
        });
        let s = self.other.snapshot();
        let v = s.vdps.iter().find(|v| v.vid == VID).unwrap();
        self.home.bring_back(VID, path, v.counters.forwarded.frames).unwrap();
        self.rounds_until("back", |t| t.home.phase(VID).unwrap() == Phase::On(path));
        assert_eq!(self.home.away(VID).unwrap().unwrap().0.given_up, before);
        // What is counted here meanwhile is its own, too.
        self.round();
        Self::carry(&self.other, &mut self.home);
        self.home.end_away(VID).unwrap();
        self.other.delete_vdp(VID).unwrap();
        self.rounds_until("gone", |t| t.other.phase(VID).is_err());
    }

    fn check(&self) {
        self.home.snapshot().check().unwrap();
        self.other.snapshot().check().unwrap();
    }
}

fn count(reduced: u64, full: u64) -> u64 {
    let n = if std::env::var_os("WEIR_SOAK").is_some() { full } else { reduced };
    println!("soak: {n} moves to another data plane and back");
    n
}

fn shuttle(source: Sequencer, here: Path, there: Path, times: u64) {
    let mut t = Two::new(source, here);
    for _ in 0..times {
        for _ in 0..20 {
            t.round();
        }
        t.go(there);
        for _ in 0..20 {
            t.round();
        }
        t.check();
        t.come(here);
        t.check();
    }
    let seen = t.ended();
    assert_eq!(seen.frames, seen.next.iter().sum::<u64>());
    let mut used = Vec::new();
    let at = rules().map(|r| t.home.rule_ref(VID, 0, &r.matcher, r.priority).unwrap());
    t.home.usage(VID, &at, &mut used).unwrap();
    assert!(used.iter().all(|u| u.frames > 0));
    assert_eq!(used.iter().map(|u| u.frames).sum::<u64>(), seen.frames, "rules' counters go along");
    let c = t.home.carried(VID).unwrap();
    assert_eq!(
        (c.counters.received.frames, c.counters.forwarded.frames),
        (seen.frames, seen.frames)
    );
    assert_eq!(c.counters.dropped.total(), 0);
    // The port that frames came in by has gone; the other has counted all that left, wherever.
    assert_eq!(c.ports[0].1.tx.frames, seen.frames);
    assert_eq!(c.tables[0].matched, seen.frames);
}

#[test]
fn soak_to_another_data_plane_and_back() {
    let times = count(40, 1000);
    shuttle(Sequencer::new(5, 16, u64::MAX), Path::Fast, Path::Fast, times);
}

#[test]
fn soak_to_another_data_plane_with_a_source_that_does_not_wait() {
    // A round takes a burst of 64 by each port: 51 a round is 80 % of that, on either path.
    let source = || Sequencer::new(5, 16, u64::MAX).overflowing(51);
    let times = count(20, 1000);
    shuttle(source(), Path::Fast, Path::Fast, times);
    shuttle(source(), Path::Slow, Path::Slow, times);
    shuttle(source(), Path::Fast, Path::Slow, times);
    shuttle(source(), Path::Slow, Path::Fast, times);
}

#[test]
fn what_is_lost_here_while_it_is_away_is_lost_when_it_is_back() {
    for (here, there) in [(Path::Fast, Path::Fast), (Path::Slow, Path::Fast)] {
        let mut t = Two::new(Sequencer::new(5, 4, u64::MAX), here);
        let rounds = |t: &mut Two, n| (0..n).for_each(|_| t.round());
        for _ in 0..3 {
            rounds(&mut t, 20);
            t.go(there);
            // Frames that have come back find no way on, then others none to where it is.
            for up in [[true, true], [false, true], [true, false], [true, true]] {
                up.iter().zip(&t.plugs).for_each(|(up, plug)| plug.store(*up, Relaxed));
                t.home.check_links();
                rounds(&mut t, 30);
            }
            // While all of it is under way, too, each has come once, and has gone at most once.
            let seen = t.seen.lock().unwrap().frames;
            let [received, forwarded, dropped] = t.told;
            assert!(forwarded <= seen && forwarded + dropped <= received, "{:?} {seen}", t.told);
            t.come(here);
        }
        let input = t.home.port_named("in").unwrap();
        t.home.remove_port(input).unwrap();
        rounds(&mut t, 200);
        t.check();
        let seen = t.seen.lock().unwrap().frames;
        let c = t.home.carried(VID).unwrap();
        let dropped = c.counters.dropped.total();
        let down = c.counters.dropped.get(DropReason::PortDown);
        assert!(dropped > 1_000 && dropped == down, "{:?}", c.counters);
        assert_eq!(c.counters.forwarded.frames, seen);
        assert_eq!(c.counters.received.frames, seen + dropped);
        let of = |no: u32| c.ports.iter().find(|(n, _)| *n == PortNo(no)).unwrap().1;
        assert_eq!(of(2).tx.frames, seen);
    }
}

/// A data plane that ends takes frames along that nobody hears of again: each is counted, once.
#[test]
fn what_is_lost_with_the_other_data_plane_is_counted() {
    let mut t = Two::new(Sequencer::new(5, 4, u64::MAX), Path::Fast);
    let rounds = |t: &mut Two, n| (0..n).for_each(|_| t.round());
    for _ in 0..2 {
        rounds(&mut t, 20);
        t.go(Path::Fast);
        rounds(&mut t, 20);
        t.other = DataPlane::new(Config::default()).unwrap();
        rounds(&mut t, 20);
        let came = t.home.hold_for_return(VID, Nanos::from_millis(50)).unwrap().came;
        t.home.bring_back(VID, Path::Fast, came).unwrap();
        t.rounds_until("back", |t| t.home.phase(VID).unwrap() == Phase::On(Path::Fast));
        t.home.end_away(VID).unwrap();
        for n in 0..2 {
            t.home.remove_port(t.far[n]).unwrap();
            let (a, b) = Tube::pair();
            t.far[n] = t.home.add_port(&format!("far{n}"), Box::new(a)).unwrap();
            t.tubes[n] = t.other.add_port(&format!("tube{n}"), Box::new(b)).unwrap();
        }
    }
    let input = t.home.port_named("in").unwrap();
    t.home.remove_port(input).unwrap();
    rounds(&mut t, 200);
    t.check();
    let seen = t.seen.lock().unwrap().frames;
    let c = t.home.carried(VID).unwrap().counters;
    let lost = c.dropped.get(DropReason::LostElsewhere);
    // Those that still waited at the way there went with it.
    assert_eq!(c.dropped.total(), lost + c.dropped.get(DropReason::VdpGone));
    assert!(lost > 500, "{c:?}");
    assert_eq!((c.forwarded.frames, c.received.frames), (seen, seen + c.dropped.total()));
}

/// One that goes on at another data plane than the one that ended, by ways of other numbers: frames get there and back, and what was
/// lost between is counted.
#[test]
fn it_goes_on_by_other_ways_at_another_data_plane() {
    let mut t = Two::new(Sequencer::new(5, 4, u64::MAX), Path::Fast);
    let rounds = |t: &mut Two, n| (0..n).for_each(|_| t.round());
    rounds(&mut t, 20);
    t.go(Path::Fast);
    rounds(&mut t, 20);
    for _ in 0..2 {
        t.other = DataPlane::new(Config::default()).unwrap();
        t.far.into_iter().for_each(|id| _ = t.home.remove_port(id).unwrap());
        rounds(&mut t, 20);
        let mut ends = Vec::new();
        for n in 0..2 {
            let (a, b) = Tube::pair();
            t.tubes[n] = t.other.add_port(&format!("tube{n}"), Box::new(b)).unwrap();
            ends.push(a);
        }
        t.make_there(Path::Fast);
        t.home.hand_on_anew(VID).unwrap();
        assert_eq!(t.home.away(VID).unwrap().unwrap().1, Handed::default());
        Two::carry(&t.home, &mut t.other);
        for (n, a) in ends.into_iter().enumerate() {
            t.far[n] = t.home.add_port(&format!("far{n}"), Box::new(a)).unwrap();
            t.home.replace_partner(VID, n, t.far[n]).unwrap();
        }
        assert!(t.home.replace_partner(VID, 0, t.far[1]).is_err());
        let before = t.seen.lock().unwrap().frames;
        rounds(&mut t, 50);
        assert!(t.seen.lock().unwrap().frames > before + 500, "they get there and back");
        t.check();
    }
    t.come(Path::Fast);
    let input = t.home.port_named("in").unwrap();
    t.home.remove_port(input).unwrap();
    rounds(&mut t, 200);
    t.check();
    let seen = t.seen.lock().unwrap().frames;
    let c = t.home.carried(VID).unwrap().counters;
    assert_eq!((c.forwarded.frames, c.received.frames), (seen, seen + c.dropped.total()), "{c:?}");
}

/// Ways that are made anew to the data plane where it is count on, and so does a port of its own that goes and comes.
#[test]
fn ways_and_ports_that_are_made_anew_are_followed() {
    let mut t = Two::new(Sequencer::new(5, 4, u64::MAX), Path::Fast);
    let rounds = |t: &mut Two, n| (0..n).for_each(|_| t.round());
    t.go(Path::Fast);
    rounds(&mut t, 20);
    let handed = |t: &Two| t.home.away(VID).unwrap().unwrap().1;
    for n in 0..2 {
        let before = handed(&t);
        t.home.remove_port(t.far[n]).unwrap();
        t.other.remove_port(t.tubes[n]).unwrap();
        let after = handed(&t);
        assert_eq!((after.sent, after.came), (before.sent, before.came));
        let (a, b) = Tube::pair();
        t.far[n] = t.home.add_port(&format!("far{n}"), Box::new(a)).unwrap();
        t.home.replace_partner(VID, n, t.far[n]).unwrap();
        t.tubes[n] = t.other.add_port(&format!("tube{n}"), Box::new(b)).unwrap();
        let all = (1..).map(PortNo).zip(t.tubes).collect();
        t.other.set_ports(VID, all).unwrap();
        t.other.relink(VID).unwrap();
        let matcher = Match::any().with(weir_classify::Field::InPort, u128::from(t.tubes[n].0));
        t.other.add_mapping(VID, &MappingRule { matcher, priority: 1 }).unwrap();
    }
    let before = t.seen.lock().unwrap().frames;
    rounds(&mut t, 50);
    assert!(t.seen.lock().unwrap().frames > before + 500, "they get there and back");
    // One of its own comes by another number.
    let input = t.home.port_named("in").unwrap();
    let out = t.home.port_named("out").unwrap();
    t.home.remove_port(out).unwrap();
    let (sink, seen) = Checker::new(4);
    let out = t.home.add_port("out", Box::new(sink)).unwrap();
    t.home.set_ports(VID, vec![(PortNo(1), input), (PortNo(2), out)]).unwrap();
    rounds(&mut t, 50);
    assert!(seen.lock().unwrap().frames > 500, "they leave by it");
    t.check();
}

/// A switch with three ports that learns, at home.
struct Learns {
    home: DataPlane,
    far: Vec<PortId>,
    wires: Vec<Tube>,
    clock: u64,
}

impl Learns {
    fn new(path: Path) -> Self {
        let mut home = DataPlane::new(Config::default()).unwrap();
        let (mut ids, mut wires) = (Vec::new(), Vec::new());
        for n in 0..6 {
            let (a, b) = Tube::pair();
            ids.push(home.add_port(&format!("p{n}"), Box::new(a)).unwrap());
            wires.push(b);
        }
        let far = ids.split_off(3);
        let by = |p: &PortId| Match::any().with(weir_classify::Field::InPort, u128::from(p.0));
        let mut spec = VdpSpec::new(VID, "learns");
        spec.mapping = ids.iter().map(|p| MappingRule { matcher: by(p), priority: 1 }).collect();
        spec.ports = (1..).map(PortNo).zip(ids).collect();
        spec.program = Some(Box::new(programs::learning::LearningSwitch::default()));
        spec.path = path;
        home.create_vdp(spec).unwrap();
        home.set_default(VID, &[Action::ToChannel]).unwrap();
        Self { home, far, wires, clock: 0 }
    }
    fn rounds(&mut self, n: usize) {
        for _ in 0..n {
            self.clock += 10_000;
            self.home.poll(Nanos(self.clock));
        }
    }
    /// Which of the other ports a frame between two stations comes out of, by its own port.
    fn send(&mut self, by: usize, from: u8, to: u8) -> Vec<usize> {
        let mut f = vec![2, 0, 0, 0, 0, to, 2, 0, 0, 0, 0, from, 8, 0, 0x45];
        f.resize(64, 0);
        self.wires[by].out.lock().unwrap().push_back(f);
        self.rounds(50);
        let came =
            |n: &usize| !std::mem::take(&mut *self.wires[*n].back.lock().unwrap()).is_empty();
        (0..3).filter(came).collect()
    }
    fn goes(&mut self) {
        self.home.send_away(VID, &self.far, LIMIT).unwrap();
        self.rounds(5_000);
        assert_eq!(self.home.phase(VID).unwrap(), Phase::Away);
    }
    fn comes(&mut self, path: Path) {
        self.home.hold_for_return(VID, LIMIT).unwrap();
        self.home.bring_back(VID, path, 0).unwrap();
        self.rounds(50);
        self.home.end_away(VID).unwrap();
    }
}

#[test]
fn a_learning_switch_that_is_back_learns_again() {
    for path in [Path::Slow, Path::Fast] {
        let mut t = Learns::new(path);
        assert_eq!(t.send(0, 1, 2), [1, 2]);
        assert_eq!(t.send(1, 2, 1), [0]);
        // One that could not leave knows what it knew: a frame waits at a port of its own.
        assert!(t.home.send_away(VID, &t.far[..2], LIMIT).is_err());
        assert_eq!(t.send(1, 2, 1), [0]);
        t.goes();
        t.comes(path);
        // Whoever was behind a port may be behind another by now.
        assert_eq!(t.send(1, 2, 1), [0, 2], "{path:?}");
        assert_eq!(t.send(0, 1, 2), [1]);
    }
}

/// What a port has counted that goes is not what was handed on and came back.
#[test]
fn a_port_that_goes_while_it_is_away_takes_no_counts_along() {
    for held in [20, 1_500] {
        let mut t = Two::new(Sequencer::new(5, 4, u64::MAX), Path::Fast);
        let rounds = |t: &mut Two, n| (0..n).for_each(|_| t.round());
        rounds(&mut t, 20);
        t.make_there(Path::Fast);
        t.home.send_away(VID, &t.far, LIMIT).unwrap();
        rounds(&mut t, held / 20);
        t.rounds_until("away", |t| t.home.phase(VID).unwrap() == Phase::Away);
        Two::carry(&t.home, &mut t.other);
        rounds(&mut t, 20);
        let input = t.home.port_named("in").unwrap();
        t.home.remove_port(input).unwrap();
        rounds(&mut t, 50);
        t.come(Path::Fast);
        rounds(&mut t, 50);
        t.check();
        let seen = t.seen.lock().unwrap().frames;
        let c = t.home.carried(VID).unwrap().counters;
        assert_eq!((c.received.frames, c.forwarded.frames), (seen, seen));
        assert_eq!(t.told, [seen, seen, 0]);
    }
}

#[test]
fn who_can_not_leave_stays_and_who_is_not_fetched_is_away_again() {
    let mut t = Two::new(Sequencer::new(5, 4, u64::MAX), Path::Fast);
    let far = t.far;
    assert!(t.home.send_away(VID, &far[..1], LIMIT).is_err());
    assert!(t.home.send_away(VID, &[far[0], far[0]], LIMIT).is_err());
    assert!(t.home.send_away(VID, &[far[0], PortId(99)], LIMIT).is_err());
    assert!(t.home.send_away(Vid(0), &far, LIMIT).is_err());
    let short = t.home.add_port("short", Box::new(SlowWire::new(1).0)).unwrap();
    let e = t.home.send_away(VID, &[short, far[1]], LIMIT).unwrap_err().to_string();
    assert!(e.contains("takes longer frames than its way"), "{e}");
    assert!(t.home.hold_for_return(VID, Nanos(1)).is_err());
    t.go(Path::Fast);
    assert!(
        t.home.send_away(VID, &far, LIMIT).is_err() && t.home.migrate(VID, Path::Slow).is_err()
    );
    assert!(t.home.end_away(VID).is_err() && t.home.bring_back(VID, Path::Fast, 0).is_err());
    t.home.hold_for_return(VID, Nanos::from_millis(1)).unwrap();
    t.rounds_until("away again", |t| t.home.phase(VID).unwrap() == Phase::Away);
    assert_eq!(t.home.away(VID).unwrap().unwrap().0.given_up, 1);
    t.home.hold_for_return(VID, Nanos::from_millis(1)).unwrap();
    t.home.leave_away(VID).unwrap();
    for _ in 0..50 {
        t.round();
    }
    t.come(Path::Fast);
    for _ in 0..50 {
        t.round();
    }
    t.ended();
    // Deleted while it is away, it leaves nothing.
    t.home.send_away(VID, &far[1..], LIMIT).unwrap();
    t.rounds_until("away with the port that is left", |t| {
        t.home.phase(VID).unwrap() == Phase::Away
    });
    t.home.delete_vdp(VID).unwrap();
    t.rounds_until("gone", |t| t.home.phase(VID).is_err());
    t.check();
}
