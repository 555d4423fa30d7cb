//! Che's approximation beside set-associative caches: within three points.

use weir_estimate::locality::simulation::Caches;
use weir_estimate::locality::{Capacity, ERROR, Footprint, Stream, flow_cache, hits};
use weir_estimate::traffic::{Spread, Traffic};

/// Draws flows by their popularity.
struct Flows {
    sums: Vec<f64>,
    random: Random,
}

impl Flows {
    fn new(traffic: &Traffic) -> Self {
        let s = match traffic.spread {
            Spread::Zipf(s) => s,
            _ => 0.0,
        };
        let mut sum = 0.0;
        let sums = (1..=traffic.flows as u64)
            .map(|k| {
                sum += (k as f64).powf(-s);
                sum
            })
            .collect();
        Self { sums, random: Random(1) }
    }
    fn next(&mut self) -> u64 {
        let whole = self.sums.last().expect("a flow");
        let at = self.random.next() as f64 / u64::MAX as f64 * whole;
        self.sums.partition_point(|s| *s < at) as u64
    }
}

/// Each flow's entry in a table: strewn as by a hash, no two flows in one.
fn entries(table: &Footprint, seed: u64) -> Vec<u32> {
    let mut all: Vec<u32> = (0..table.entries as u32).collect();
    let mut random = Random(seed);
    for i in (1..all.len()).rev() {
        all.swap(i, (random.next() % (i as u64 + 1)) as usize);
    }
    all
}

/// splitmix64 (Steele, Lea, Flood, OOPSLA 2014).
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }
}

const LEVELS: [(usize, usize); 3] = [(128, 8), (1024, 8), (8192, 16)];
const LINE: u64 = 64;

/// What each level answers of each table's lookups, at most so far: by both ways.
fn compare(tables: &[Footprint], traffic: &Traffic, stream: Stream) -> Vec<(String, f64, f64)> {
    let mut flows = Flows::new(traffic);
    compare_with(tables, traffic, stream, &mut |_| flows.next())
}

/// The same, of frames whose flows are given by their number. A table of a rate below 1 is asked by every second frame, or
/// third, and another by those beside.
fn compare_with(
    tables: &[Footprint],
    traffic: &Traffic,
    stream: Stream,
    flow: &mut dyn FnMut(u64) -> u64,
) -> Vec<(String, f64, f64)> {
    let mut caches = Caches::new(&LEVELS);
    let (mut answered, mut asked) = (vec![[0u64; 4]; tables.len()], vec![0u64; tables.len()]);
    let places: Vec<Vec<u32>> = tables.iter().zip(7..).map(|(t, i)| entries(t, i)).collect();
    let (warm, frames) = (100_000, 300_000);
    for frame in 0..frames {
        let flow = flow(frame);
        let buffer = frame % (stream.buffers as u64).max(1);
        for line in 0..stream.lines as u64 {
            caches.access((1 << 62) + buffer * 64 + line);
        }
        for (i, t) in tables.iter().enumerate() {
            let every = (1.0 / t.rate).round() as u64;
            if frame % every != i as u64 % every {
                continue;
            }
            let entry = places[i][flow as usize % places[i].len()];
            let byte = u64::from(entry) * t.entry_bytes as u64;
            let level = caches.access(((i as u64 + 1) << 40) + byte / LINE);
            if frame >= warm {
                answered[i][level] += 1;
                asked[i] += 1;
            }
        }
    }
    let mut all = Vec::new();
    for (level, (lines, ways)) in LEVELS.iter().enumerate() {
        let cache = Capacity {
            lines: *lines as f64,
            line_bytes: LINE as f64,
            ways: *ways as f64,
            split: 1.0,
        };
        for (i, h) in hits(tables, traffic, cache, stream).into_iter().enumerate() {
            let sum: u64 = answered[i][..=level].iter().sum();
            let simulated = sum as f64 / asked[i] as f64;
            all.push((format!("table {i}, level {level}"), h, simulated));
        }
    }
    all
}

fn table(entries: u64, entry_bytes: u64) -> Footprint {
    Footprint { entries: entries as f64, entry_bytes: entry_bytes as f64, rate: 1.0 }
}

fn zipf(s: f64, flows: u64) -> Traffic {
    Traffic { spread: Spread::Zipf(s), flows: flows as f64 }
}

fn judge(name: &str, tables: &[Footprint], traffic: &Traffic, stream: Stream) {
    check(name, compare(tables, traffic, stream));
}

fn check(name: &str, compared: Vec<(String, f64, f64)>) {
    let wrong: Vec<String> = compared
        .into_iter()
        .filter(|(_, approximated, simulated)| (approximated - simulated).abs() > ERROR)
        .map(|(what, a, s)| format!("{name}, {what}: {a:.4}, simulated {s:.4}"))
        .collect();
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn uniform_traffic() {
    let none = Stream::default();
    judge("small", &[table(1 << 10, 16)], &Traffic::uniform(1024.0), none);
    judge("in l3", &[table(1 << 14, 16)], &Traffic::uniform(16384.0), none);
    judge("beyond", &[table(1 << 16, 16)], &Traffic::uniform(65536.0), none);
    judge("few of many", &[table(1 << 18, 16)], &Traffic::uniform(5000.0), none);
}

#[test]
fn zipf_traffic() {
    let none = Stream::default();
    for s in [0.7, 1.0, 1.3] {
        judge(&format!("whole lines, {s}"), &[table(1 << 15, 64)], &zipf(s, 1 << 15), none);
        judge(&format!("shared lines, {s}"), &[table(1 << 17, 16)], &zipf(s, 1 << 16), none);
    }
}

#[test]
fn tables_share_a_cache_by_their_rates() {
    let none = Stream::default();
    let tables = [table(1 << 15, 32), table(1 << 10, 8), table(1 << 13, 64)];
    judge("three", &tables, &zipf(1.0, 1 << 13), none);
    judge("three, uniform", &tables, &Traffic::uniform(8192.0), none);
}

#[test]
fn frames_take_room_too() {
    let stream = Stream { lines: 2.0, buffers: 256.0 };
    judge("frames", &[table(1 << 15, 16)], &zipf(1.0, 1 << 15), stream);
    judge("frames, uniform", &[table(1 << 12, 64)], &Traffic::uniform(4096.0), stream);
}

/// Where frames come round and round, lines are lost that would be found if they came by chance.
#[test]
fn frames_in_an_order_that_is_known() {
    let tables = [table(1 << 14, 64), table(1 << 12, 32)];
    for (name, traffic) in [("zipf", zipf(1.1, 4000)), ("uniform", Traffic::uniform(3000.0))] {
        let mut drawn = Flows::new(&traffic);
        let order: Vec<u32> = (0..8192).map(|_| drawn.next() as u32).collect();
        let played = Traffic::played(&order).expect("frames");
        for stream in [Stream::default(), Stream { lines: 2.0, buffers: 8192.0 }] {
            let mut flow = |i: u64| u64::from(order[i as usize % order.len()]);
            let compared = compare_with(&tables, &played, stream, &mut flow);
            check(&format!("{name}, {} lines a frame", stream.lines), compared);
        }
    }
    // One after the other, a few more than a cache holds: by chance most would be found.
    let order: Vec<u32> = (0..1200).collect();
    let played = Traffic::played(&order).expect("frames");
    let cache = Capacity { lines: 1024.0, line_bytes: 64.0, ways: 1024.0, split: 1.0 };
    let found = |t: &Traffic| hits(&[table(1200, 64)], t, cache, Stream::default())[0];
    assert!(found(&Traffic::uniform(1200.0)) > 0.7);
    assert!(found(&played) < 0.2, "{}", found(&played));
}

/// Tables that half of the frames ask, the same ones each time round: they come round as soon as all do.
#[test]
fn frames_that_take_different_ways() {
    let half = |entries| Footprint { rate: 0.5, ..table(entries, 64) };
    for (name, traffic) in [("zipf", zipf(0.9, 6000)), ("uniform", Traffic::uniform(60_000.0))] {
        // Of a round of 4,000 frames the largest cache holds all, of one of 16,000 little.
        for round in [4000, 16_000] {
            let mut drawn = Flows::new(&traffic);
            let order: Vec<u32> = (0..round).map(|_| drawn.next() as u32).collect();
            let played = Traffic::played(&order).expect("frames");
            let mut flow = |i: u64| u64::from(order[i as usize % order.len()]);
            let tables = [half(1 << 16), half(1 << 16)];
            let compared = compare_with(&tables, &played, Stream::default(), &mut flow);
            check(&format!("{name}, {round} frames"), compared);
        }
    }
}

/// A flow cache is a cache of one line a flow.
#[test]
fn flow_caches_keep_the_loudest() {
    for (s, entries) in [(1.1, 1024usize), (0.8, 256)] {
        let traffic = zipf(s, 100_000);
        let mut cache = Caches::new(&[(entries, entries)]);
        // One set under LRU is slow: fewer frames, fewer entries.
        let mut flows = Flows::new(&traffic);
        let (warm, frames) = (20_000, 60_000);
        let mut hit = 0;
        for frame in 0..frames {
            let found = cache.access(flows.next()) == 0;
            hit += u32::from(found && frame >= warm);
        }
        let simulated = f64::from(hit) / f64::from(frames - warm);
        let have = flow_cache(&traffic, entries as f64, 1.0);
        assert!((have - simulated).abs() <= ERROR, "{s}: {have:.4}, simulated {simulated:.4}");
    }
}
