//! Large tables get an index while frames flow and rules change: every frame goes where the linear oracle says, before,
//! while one is made, and after.

use std::sync::Arc;
use std::time::{Duration, Instant};
use weir_classify::{Classifier, Field, FlowCaching, FlowKey, Linear, Match, Rule, RuleId};
use weir_dataplane::*;
use weir_io::replay::{Arena, Collect, Collected, Passes, Replay};
use weir_packet::*;

/// Rules when frames begin to flow.
const RULES: u32 = 6_000;
/// Sinks beside each other; a rule's number says which is its own.
const SINKS: u32 = 3;

struct Random(u64);

impl Random {
    fn next(&mut self, n: u64) -> u64 {
        self.0 =
            self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % n
    }
}

/// Prefixes of addresses and perhaps a port, as filters have them.
fn matcher(r: &mut Random) -> Match {
    let prefix = |r: &mut Random| u128::from(u32::MAX << (4 * r.next(8)));
    let m = Match::any()
        .with(Field::EthType, 0x800)
        .with_masked(Field::Ipv4Src, r.next(1 << 32).into(), prefix(r))
        .with_masked(Field::Ipv4Dst, r.next(1 << 32).into(), prefix(r));
    match r.next(2) {
        0 => m,
        _ => m.with(Field::IpProto, 17).with(Field::TpDst, r.next(4).into()),
    }
}

/// A frame that the rule takes, unless a better one does.
fn frame(m: &Match, r: &mut Random) -> Vec<u8> {
    let open = |f: Field, any: u64| m.value().get(f) | u128::from(any) & !m.mask().get(f);
    let src = open(Field::Ipv4Src, r.next(1 << 32)) as u32;
    let dst = open(Field::Ipv4Dst, r.next(1 << 32)) as u32;
    let port = open(Field::TpDst, r.next(4)) as u16;
    let mut f = vec![2, 0, 0, 0, 0, 1, 2, 0, 0, 0, 0, 2, 8, 0];
    f.extend([0x45, 0, 0, 28, 0, 0, 0, 0, 64, 17, 0, 0]);
    f.extend(src.to_be_bytes());
    f.extend(dst.to_be_bytes());
    f.extend([0, 9]);
    f.extend(port.to_be_bytes());
    f.extend([0, 8, 0, 0]);
    f.resize(60, 0);
    f
}

fn key(f: &[u8]) -> FlowKey {
    let word = |at: usize| u128::from(u32::from_be_bytes(f[at..at + 4].try_into().unwrap()));
    let m = Match::any().with(Field::EthType, 0x800).with(Field::IpProto, 17);
    let m = m.with(Field::Ipv4Src, word(26)).with(Field::Ipv4Dst, word(30));
    *m.with(Field::TpDst, u128::from(u16::from_be_bytes([f[36], f[37]]))).value()
}

/// A port from which these frames come again and again, and the sinks.
fn ports(plane: &mut DataPlane, frames: Arena) -> (Vec<PortId>, Vec<Collected>) {
    let source = Replay::new("in", Arc::new(frames), Passes::Forever);
    let mut ids = vec![plane.add_port("in", Box::new(source)).unwrap()];
    let mut sinks = Vec::new();
    for i in 0..=SINKS {
        let (device, kept) = Collect::new("out", usize::MAX);
        ids.push(plane.add_port(&format!("out{i}"), Box::new(device)).unwrap());
        sinks.push(kept);
    }
    (ids, sinks)
}

struct Case {
    plane: DataPlane,
    judge: Linear,
    rules: Vec<Rule>,
    ids: Vec<PortId>,
    sinks: Vec<Collected>,
    random: Random,
    now: u64,
    next: u32,
}

/// Sends every frame of a VDP's on to this table, if it is not the first.
fn send_on(plane: &mut DataPlane, vid: Vid, table: u8) {
    if table > 0 {
        let actions = Arc::new([Action::Goto(table)]);
        let all = RuleSpec { matcher: Match::any(), priority: 1, cookie: 0, actions };
        plane.add_rule(vid, 0, &all, Placement::Fast).unwrap();
    }
}

impl Case {
    fn new(flow_caching: FlowCaching) -> Self {
        let mut random = Random(7);
        let all: Vec<Match> = (0..RULES).map(|_| matcher(&mut random)).collect();
        let mut plane = DataPlane::new(Config { flow_caching, ..Config::default() }).unwrap();
        let mut arena = Arena::new();
        for m in all.iter().step_by(9) {
            assert!(arena.push(&frame(m, &mut random), None, 1));
        }
        let (ids, sinks) = ports(&mut plane, arena);
        let judge = Linear::default();
        let mut out = Self { plane, judge, rules: Vec::new(), ids, sinks, random, now: 0, next: 0 };
        out.create(all);
        out
    }
    /// A VDP with these rules, where there is none.
    fn create(&mut self, all: Vec<Match>) {
        let mut spec = VdpSpec::new(Vid(1), "filter");
        spec.ports = (1..).map(PortNo).zip(self.ids.iter().copied()).collect();
        let matcher = Match::any().with(Field::InPort, 1);
        spec.mapping = vec![MappingRule { matcher, priority: 1 }];
        spec.default = vec![Action::Output(Out::Port(PortNo(2)))];
        self.plane.create_vdp(spec).unwrap();
        (self.judge, self.rules) = (Linear::default(), Vec::new());
        all.into_iter().for_each(|m| self.put(m));
    }
    fn put(&mut self, matcher: Match) {
        let (id, priority) = (RuleId(self.next), self.random.next(1000) as u32);
        self.next += 1;
        let rule = Rule { matcher, priority, id };
        if self.judge.insert(rule).is_err() {
            return;
        }
        let to = Action::Output(Out::Port(PortNo(3 + id.0 % SINKS)));
        let spec = RuleSpec { matcher, priority, cookie: 0, actions: Arc::new([to]) };
        self.plane.add_rule(Vid(1), 0, &spec, Placement::Fast).unwrap();
        self.rules.push(rule);
    }
    fn remove(&mut self) {
        let n = self.random.next(self.rules.len() as u64) as usize;
        let r = self.rules.swap_remove(n);
        assert!(self.judge.remove(&r.matcher, r.priority).is_some());
        self.plane.remove_rule(Vid(1), 0, &r.matcher, r.priority).unwrap();
    }
    /// A round, a tenth of a second after the one before; each frame is where it should be.
    fn round(&mut self) {
        self.now += 100_000_000;
        self.plane.poll(Nanos(self.now));
    }
    fn check(&mut self) {
        let mut seen = 0;
        for (n, sink) in self.sinks.iter().enumerate() {
            for f in sink.take() {
                let want = self.judge.lookup(&key(&f.bytes)).map_or(0, |id| 1 + id.0 % SINKS);
                assert_eq!(n as u32, want, "{:02x?}", f.bytes);
                seen += 1;
            }
        }
        assert!(seen > 0);
        self.plane.snapshot().check().unwrap();
    }
    fn is_indexed(&self) -> bool {
        self.plane.vdp_view(Vid(1)).unwrap().indexed_tables == 1
    }
    /// Rounds until there is an index, which a thread makes.
    fn until_indexed(&mut self) {
        let start = Instant::now();
        while !self.is_indexed() {
            assert!(start.elapsed() < Duration::from_secs(60), "no index is made");
            (0..20).for_each(|_| self.round());
            self.check();
        }
    }
}

/// A table that never stands still gets one, too, and another when much of it has gone.
#[test]
fn what_changes_all_the_time_has_an_index() {
    let mut c = Case::new(FlowCaching::Never);
    let start = Instant::now();
    let mut step = 0;
    while !c.is_indexed() || step < 400 {
        assert!(start.elapsed() < Duration::from_secs(60), "no index is made");
        for _ in 0..3 {
            c.remove();
            let m = matcher(&mut c.random);
            c.put(m);
        }
        c.round();
        step += 1;
        if step % 20 == 0 {
            // What came out before the last changes is no matter.
            c.sinks.iter().for_each(|s| _ = s.take());
            c.round();
            c.check();
        }
    }
}

#[test]
fn frames_go_where_the_oracle_says() {
    for caching in [FlowCaching::Never, FlowCaching::After(1)] {
        let mut c = Case::new(caching);
        assert!(!c.is_indexed());
        c.until_indexed();
        for step in 0..200 {
            for _ in 0..5 {
                match step % 2 {
                    0 => c.remove(),
                    _ => {
                        let m = matcher(&mut c.random);
                        c.put(m);
                    }
                }
            }
            (0..4).for_each(|_| c.round());
            c.check();
        }
        assert!(c.is_indexed(), "changes in small numbers are taken in");
        // Half of it goes, another index is made of what is left, and more than there was comes.
        (0..c.rules.len() / 2 + 100).for_each(|_| c.remove());
        assert!(c.is_indexed());
        for _ in 0..20 {
            (0..4).for_each(|_| c.round());
            c.check();
        }
        for _ in 0..RULES {
            let m = matcher(&mut c.random);
            c.put(m);
        }
        (0..4).for_each(|_| c.round());
        c.check();
        c.until_indexed();
    }
}

/// The frame in a VLAN, and without.
fn tagged(mut f: Vec<u8>, vlan: u16) -> Vec<u8> {
    let [high, low] = vlan.to_be_bytes();
    f.splice(12..12, [0x81, 0, high, low]);
    f
}
fn untagged(f: &[u8]) -> (u16, Vec<u8>) {
    (u16::from_be_bytes([f[14], f[15]]), [&f[..12], &f[16..]].concat())
}

/// Bursts whose frames are many VDPs', with tables that are asked in many ways: each frame goes where its VDP's oracle says.
#[test]
fn frames_of_many_vdps_go_where_their_oracles_say() {
    let rules = [300, 600, 40, 900, 5, 0, 2_000];
    // In later tables: the rules of none, of some, of all.
    let (never, soon) = (FlowCaching::Never, FlowCaching::After(1));
    for (flow_caching, later) in [(never, 0), (soon, 5), (never, 7)] {
        among_many(&rules, 5, flow_caching, later);
    }
}

/// More small tables than have their indexes made together.
#[test]
fn many_small_tables_get_indexes_together() {
    // Those whose making was waited for are taken one round after another, some in each.
    assert!(among_many(&[40; 80], 80, FlowCaching::After(1), 0) > 1);
}

/// Each of these VDPs has so many rules, of which some are in later tables; so many of them get an index.
/// Says how many got theirs in one round, at most.
fn among_many(rules: &[u32], indexes: usize, flow_caching: FlowCaching, later: u32) -> usize {
    let table = |lan: usize| if later >> (lan % 3) & 1 == 1 { 1 + lan as u8 % 2 } else { 0 };
    let random = &mut Random(9);
    let mut plane = DataPlane::new(Config { flow_caching, ..Config::default() }).unwrap();
    let all: Vec<Vec<Match>> =
        rules.iter().map(|n| (0..*n).map(|_| matcher(random)).collect()).collect();
    let mut arena = Arena::new();
    for _ in 0..3_000 {
        let lan = random.next(all.len() as u64) as usize;
        let m = match all[lan].len() as u64 {
            0 => Match::any(),
            n => all[lan][random.next(n) as usize],
        };
        assert!(arena.push(&tagged(frame(&m, random), lan as u16 + 1), None, 1));
    }
    let (ids, sinks) = ports(&mut plane, arena);
    let mut judges: Vec<Linear> = Vec::new();
    for (lan, all) in all.iter().enumerate() {
        let vid = Vid(lan as u16 + 1);
        let mut spec = VdpSpec::new(vid, &format!("filter{lan}"));
        spec.ports = (1..).map(PortNo).zip(ids.iter().copied()).collect();
        let matcher = Match::any().with(Field::VlanVid, 0x1000 | u128::from(vid.0));
        spec.mapping = vec![MappingRule { matcher, priority: 1 }];
        spec.default = vec![Action::Output(Out::Port(PortNo(2)))];
        plane.create_vdp(spec).unwrap();
        let mut judge = Linear::default();
        for (id, matcher) in (0..).map(RuleId).zip(all) {
            let (matcher, priority) = (*matcher, random.next(1000) as u32);
            if judge.insert(Rule { matcher, priority, id }).is_ok() {
                let to = Action::Output(Out::Port(PortNo(3 + id.0 % SINKS)));
                let spec = RuleSpec { matcher, priority, cookie: 0, actions: [to].into() };
                plane.add_rule(vid, table(lan), &spec, Placement::Fast).unwrap();
            }
        }
        send_on(&mut plane, vid, table(lan));
        judges.push(judge);
    }
    let indexed = |p: &DataPlane| {
        let has = |v: &u16| p.vdp_view(Vid(*v)).unwrap().indexed_tables == 1;
        (1..=rules.len() as u16).filter(has).count()
    };
    let (mut has, mut together) = (0, 0);
    let (start, mut now, mut after) = (Instant::now(), 0, 0);
    // Before there are indexes, while they are made, and after.
    while after < 100 {
        assert!(start.elapsed() < Duration::from_secs(60), "{} indexes", indexed(&plane));
        after += u32::from(indexed(&plane) == indexes);
        for _ in 0..20 {
            now += 100_000_000;
            plane.poll(Nanos(now));
            let had = std::mem::replace(&mut has, indexed(&plane));
            together = together.max(has.saturating_sub(had));
        }
        let mut seen = 0;
        for (n, sink) in sinks.iter().enumerate() {
            for f in sink.take() {
                let (vlan, f) = untagged(&f.bytes);
                let want = judges[usize::from(vlan) - 1].lookup(&key(&f));
                assert_eq!(n as u32, want.map_or(0, |id| 1 + id.0 % SINKS), "{vlan} {f:02x?}");
                seen += 1;
            }
        }
        assert!(seen > 0);
    }
    plane.snapshot().check().unwrap();
    together
}

/// A VDP that goes while its table is copied, or its index made, takes nothing with it, and another in its place gets its own.
#[test]
fn an_index_of_a_vdp_that_is_gone_goes_nowhere() {
    let mut c = Case::new(FlowCaching::Never);
    for rounds in [80, 100, 150, 250] {
        (0..rounds).for_each(|_| c.round());
        c.check();
        c.plane.delete_vdp(Vid(1)).unwrap();
        (0..3).for_each(|_| c.round());
        c.sinks.iter().for_each(|s| _ = s.take());
        let all = (0..RULES).map(|_| matcher(&mut c.random)).collect();
        c.create(all);
    }
    c.until_indexed();
    (0..4).for_each(|_| c.round());
    c.check();
}

/// A hash table that has just grown ends that without further changes: what it had before is given back.
#[test]
fn what_has_grown_ends_that_by_itself() {
    let mut plane = DataPlane::new(Config::default()).unwrap();
    plane.create_vdp(VdpSpec::new(Vid(1), "stations")).unwrap();
    for n in 0..5_130u32 {
        let matcher = Match::any().with(Field::EthDst, n.into());
        let spec = RuleSpec { matcher, priority: 1, cookie: 0, actions: Arc::new([]) };
        plane.add_rule(Vid(1), 0, &spec, Placement::Fast).unwrap();
    }
    let bytes = |plane: &DataPlane| plane.vdp_view(Vid(1)).unwrap().memory_bytes;
    let before = bytes(&plane);
    for round in 1..400 {
        plane.poll(Nanos(round * 100_000_000));
    }
    // Of 8,192 slots of two words and more.
    assert!(bytes(&plane) + 100_000 < before, "{} {before}", bytes(&plane));
}
