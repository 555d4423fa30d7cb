//! How fast is a table? Lookups and updates per second of CPU time, for a rule set with its trace,
//! or for tables of exact rules made up on the spot.
//!
//! `lookup_rate RULES TRACE` · `lookup_rate turns RULES TRACE SECONDS` · `lookup_rate changes RULES` · `lookup_rate exact N [ACTIVE]` · `lookup_rate vdps N RULES_EACH`
//!
//! Lookups are measured in bursts of 32, one by one, and in bursts while rules are taken out and
//! put back a hundred thousand times a second on the same thread. `turns` measures bursts of 32 once for each line that it is
//! sent and answers in a line of JSON, so that peers can be measured in turn. Files may be zstd-compressed. Every answer of a trace is
//! checked. Rates are per CPU-second of this thread.

#[path = "../tests/rulesets/mod.rs"]
mod rulesets;

use rulesets::{Lookup, Tables};
use std::collections::HashMap;
use std::ops::Range;
use std::time::Instant;
use weir_classify::{
    Adoption, Classifier, Copying, FastTable, Field, FlowKey, Match, Probe, Rule, RuleId,
};

const BURST: usize = 32;
/// Slots that are copied at a time, as a data plane does.
const SLOTS: usize = 256;

/// CPU time of this thread in seconds, where the system tells it; else the wall clock.
struct Clock(Instant);

impl Clock {
    fn now(&self) -> f64 {
        let cpu = std::fs::read_to_string("/proc/thread-self/schedstat")
            .ok()
            .and_then(|s| s.split_whitespace().next()?.parse::<f64>().ok());
        cpu.map_or_else(|| self.0.elapsed().as_secs_f64(), |ns| ns * 1e-9)
    }
    /// Things done per second by `work`, which says how many each time; at least a fifth of a
    /// second, as the system's count of CPU time is coarse.
    fn per_second(&self, mut work: impl FnMut() -> usize) -> f64 {
        let (start, mut done) = (self.now(), 0);
        loop {
            done += work();
            let passed = self.now() - start;
            if passed >= 0.2 {
                return done as f64 / passed;
            }
        }
    }
}

fn main() -> Result<(), String> {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let number = |i: usize| args.get(i).and_then(|s| s.parse::<usize>().ok());
    match args.first().map(String::as_str) {
        Some("exact") => {
            let n = number(1).ok_or("exact N [ACTIVE]")?;
            exact(n, number(2).unwrap_or(n).clamp(1, n.max(1)));
        }
        Some("vdps") => {
            vdps(number(1).ok_or("vdps N RULES_EACH")?, number(2).ok_or("vdps N RULES_EACH")?)
        }
        Some("bursts") => {
            let usage = "bursts RULES TRACE [ROUNDS]";
            bursts_alone(
                args.get(1).ok_or(usage)?,
                args.get(2).ok_or(usage)?,
                number(3).unwrap_or(5),
            )?
        }
        Some("turns") => {
            let usage = "turns RULES TRACE SECONDS";
            let least = args.get(3).and_then(|s| s.parse().ok()).ok_or(usage)?;
            turns(&args[1], &args[2], least)?
        }
        Some("changes") => changes(args.get(1).ok_or("changes RULES")?)?,
        Some(rules) if args.len() == 2 => file(rules, &args[1])?,
        _ => {
            return Err(
                "usage: lookup_rate RULES TRACE | turns RULES TRACE SECONDS | changes RULES | exact N [ACTIVE] | vdps N EACH"
                    .into(),
            );
        }
    }
    Ok(())
}

fn file(rules: &str, trace: &str) -> Result<(), String> {
    let set = rulesets::rules(&rulesets::text(rules.as_ref())?)?;
    let lookups = rulesets::trace(&rulesets::text(trace.as_ref())?)?;
    let clock = Clock(Instant::now());
    let mut tables: Tables<FastTable> = Tables::new();
    let mut kept = Vec::new();
    let builds = clock.per_second(|| {
        tables = Tables::new();
        kept.clear();
        for (vid, rule) in &set.rules {
            // Lines that repeat another are no rules of their own.
            if tables.entry(*vid).or_default().insert(*rule).is_ok() {
                kept.push((*vid, *rule));
            }
        }
        1
    });
    check(&tables, &lookups)?;
    // As a data plane does between bursts, and on another thread.
    tables.values_mut().for_each(|t| while t.move_on(SLOTS) {});
    if tables.values().any(FastTable::wants_index) {
        let before = rate(&tables, &lookups, &clock, bursts);
        println!("bursts of 32 before there is an index: {:.1} M/CPU-s", before * 1e-6);
        let (mut made, mut drafts, mut makes, mut adopts) = (0, 0.0f64, 0.0, 0.0f64);
        for t in tables.values_mut().filter(|t| t.wants_index()) {
            let Some(mut draft) = t.begin_draft() else { continue };
            let mut copying = Copying::More;
            while copying == Copying::More {
                let start = Instant::now();
                copying = t.draft_more(&mut draft, SLOTS);
                drafts = drafts.max(start.elapsed().as_secs_f64());
            }
            let start = clock.now();
            let mut index = draft.make();
            makes += clock.now() - start;
            let start = Instant::now();
            made += usize::from(t.adopt(&mut index) == Adoption::Taken);
            adopts = adopts.max(start.elapsed().as_secs_f64());
        }
        let leaves: usize = tables.values().map(FastTable::leaves).sum();
        println!(
            "{made} indexes: {leaves} leaves, made in {makes:.3} s of CPU time, elsewhere; longest step of copying {:.1} us, taken in {:.1} us, wall clock",
            drafts * 1e6,
            adopts * 1e6
        );
        check(&tables, &lookups)?;
    }
    report(&tables, &lookups, &clock);
    let changes = scattered(&kept);
    let changed = under_updates(&mut tables, &changes, &lookups, &clock);
    println!(
        "bursts of 32 under {UPDATES} updates a second: {:.1} M/CPU-s, {:.2} of the rate of tables that never had any, in turn",
        changed.rate * 1e-6,
        changed.kept
    );
    let updates = update(&mut tables, &changes, &clock);
    let lines = set.rules.iter().map(|(_, r)| r.id.0 as usize + 1).max().unwrap_or(0);
    let memory: usize = tables.values().map(FastTable::memory_bytes).sum();
    println!(
        "{lines} lines, {} rules; build {:.4} s, {:.2} M updates/s, {} bytes a line, {} tuples, {} scanned",
        kept.len(),
        1.0 / builds,
        updates * 1e-6,
        memory / lines.max(1),
        tables.values().map(FastTable::tuples).sum::<usize>(),
        tables.values().map(FastTable::scanned).sum::<usize>(),
    );
    Ok(())
}

/// Bursts alone, of tables that have an index: for a profile of them.
fn bursts_alone(rules: &str, trace: &str, rounds: usize) -> Result<(), String> {
    let lookups = rulesets::trace(&rulesets::text(trace.as_ref())?)?;
    let clock = Clock(Instant::now());
    let tables = Indexed::of(rules, &clock)?.tables;
    check(&tables, &lookups)?;
    let mut rates: Vec<f64> =
        (0..rounds).map(|_| rate(&tables, &lookups, &clock, bursts)).collect();
    rates.sort_by(f64::total_cmp);
    let all: Vec<String> = rates.iter().map(|r| format!("{:.1}", r * 1e-6)).collect();
    println!("bursts of 32: {} M/CPU-s", all.join(" "));
    Ok(())
}

/// Bursts for `least` seconds for each line of standard input, in tables that have their indexes: lookups, and the CPU time they took.
fn turns(rules: &str, trace: &str, least: f64) -> Result<(), String> {
    let lookups = rulesets::trace(&rulesets::text(trace.as_ref())?)?;
    let clock = Clock(Instant::now());
    let tables = Indexed::of(rules, &clock)?.tables;
    check(&tables, &lookups)?;
    let none = FastTable::new();
    let (work, all) = Work::new(&tables, &none, &lookups);
    println!("{{}}");
    for line in std::io::stdin().lines() {
        line.map_err(|e| e.to_string())?;
        // Whoever had the processor before has left nothing in its caches.
        let mut sum = bursts(&work, &all, 0..lookups.len());
        let (start, mut done, mut passed) = (clock.now(), 0, 0.0);
        while passed < least {
            sum ^= bursts(&work, &all, 0..lookups.len());
            done += lookups.len();
            passed = clock.now() - start;
        }
        std::hint::black_box(sum);
        println!("{{\"bursts of 32\": [{done}, {passed:.6}]}}");
    }
    Ok(())
}

/// Changes alone, of tables that have an index: for a profile of them.
fn changes(rules: &str) -> Result<(), String> {
    let clock = Clock(Instant::now());
    let Indexed { mut tables, kept, build, made } = Indexed::of(rules, &clock)?;
    let changes = scattered(&kept);
    let mut rates: Vec<f64> = (0..5).map(|_| update(&mut tables, &changes, &clock)).collect();
    rates.sort_by(f64::total_cmp);
    println!(
        "{} rules, {made} indexes, build {build:.3} s, {:.2} M updates/s",
        kept.len(),
        rates[2] * 1e-6
    );
    Ok(())
}

/// Tables that have their indexes.
struct Indexed {
    tables: Tables<FastTable>,
    /// Rules that are none's copy.
    kept: Vec<(u64, Rule)>,
    /// Seconds that it took without indexes, and how many of these there are.
    build: f64,
    made: usize,
}

impl Indexed {
    fn of(rules: &str, clock: &Clock) -> Result<Self, String> {
        let set = rulesets::rules(&rulesets::text(rules.as_ref())?)?;
        let mut tables: Tables<FastTable> = Tables::new();
        let start = clock.now();
        let kept: Vec<_> = set
            .rules
            .into_iter()
            .filter(|(vid, rule)| tables.entry(*vid).or_default().insert(*rule).is_ok())
            .collect();
        let build = clock.now() - start;
        tables.values_mut().for_each(|t| while t.move_on(SLOTS) {});
        let made = tables
            .values_mut()
            .filter(|t| t.wants_index())
            .map(|t| usize::from(t.index_now()))
            .sum::<usize>();
        Ok(Self { tables, kept, build, made })
    }
}

/// Every answer is the trace's.
fn check(tables: &Tables<FastTable>, lookups: &[Lookup]) -> Result<(), String> {
    let is_wrong = |l: &&Lookup| tables.get(&l.vid).and_then(|t| t.lookup(&l.key)) != l.expected;
    match lookups.iter().filter(is_wrong).count() {
        0 => Ok(()),
        wrong => Err(format!("{wrong} of {} answers differ from the trace's", lookups.len())),
    }
}

/// The rules in an order in which neighbours have little in common, one behind another as changes lie in a message: where a rule
/// comes from is no part of what a change of the table costs.
fn scattered(rules: &[(u64, Rule)]) -> Vec<(u64, Rule)> {
    (0..rules.len()).map(|i| rules[i * 7919 % rules.len()]).collect()
}

/// Takes rules out and puts them back; updates per second.
fn update(tables: &mut Tables<FastTable>, rules: &[(u64, Rule)], clock: &Clock) -> f64 {
    let mut next = 0usize;
    clock.per_second(|| {
        for _ in 0..1000 {
            let (vid, r) = &rules[next % rules.len()];
            next += 1;
            if let Some(t) = tables.get_mut(vid) {
                t.remove(&r.matcher, r.priority);
                let _ = t.insert(*r);
            }
        }
        2000
    })
}

/// Changes a second while lookups go on.
const UPDATES: usize = 100_000;
/// Lookups between two looks at the clock.
const SLICE: usize = 16 * BURST;

/// Lookups a second under updates, and which part of the rate without them that is.
struct Changed {
    rate: f64,
    kept: f64,
}

/// Looks up in bursts, and between two slices does as many updates as are due by then; and without updates, in turn, in tables
/// that never had any. Medians of five.
fn under_updates(
    tables: &mut Tables<FastTable>,
    rules: &[(u64, Rule)],
    lookups: &[Lookup],
    clock: &Clock,
) -> Changed {
    let none = FastTable::new();
    let (mut rates, mut parts) = (Vec::new(), Vec::new());
    let mut untouched = tables.clone();
    let (work, _) = Work::new(tables, &none, lookups);
    let mut next = 0;
    let mut sum = 0;
    for _ in 0..5 {
        let [without, with] = [0, UPDATES].map(|updates| {
            let tables = if updates == 0 { &mut untouched } else { &mut *tables };
            let (began, mut done, mut looked) = (Instant::now(), 0, 0);
            let start = clock.now();
            while began.elapsed().as_secs_f64() < 0.25 {
                for first in (0..lookups.len()).step_by(SLICE) {
                    let all: Vec<&FastTable> = tables.values().chain([&none]).collect();
                    let until = lookups.len().min(first + SLICE);
                    sum ^= bursts(&work, &all, first..until);
                    looked += until - first;
                    let due = (began.elapsed().as_secs_f64() * updates as f64) as usize;
                    while done < due {
                        let (vid, r) = &rules[next / 2 % rules.len()];
                        if let Some(t) = tables.get_mut(vid) {
                            match next % 2 {
                                0 => _ = t.remove(&r.matcher, r.priority),
                                _ => _ = t.insert(*r),
                            }
                        }
                        (next, done) = (next + 1, done + 1);
                    }
                }
            }
            looked as f64 / (clock.now() - start)
        });
        rates.push(with);
        parts.push(with / without);
    }
    if next % 2 == 1 {
        let (vid, r) = &rules[next / 2 % rules.len()];
        tables.get_mut(vid).into_iter().for_each(|t| _ = t.insert(*r));
    }
    std::hint::black_box(sum);
    [&mut rates, &mut parts].into_iter().for_each(|all| all.sort_by(f64::total_cmp));
    Changed { rate: rates[2], kept: parts[2] }
}

/// A number that looks random and is the same each time.
fn scatter(i: usize) -> u64 {
    let x = (i as u64 + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    (x ^ x >> 29).wrapping_mul(0xbf58_476d_1ce4_e5b9) >> 16
}

fn mac_rule(i: usize) -> Rule {
    let matcher = Match::any().with(Field::EthDst, scatter(i).into());
    Rule { matcher, priority: 100, id: RuleId(i as u32) }
}

fn exact(n: usize, active: usize) {
    let clock = Clock(Instant::now());
    let mut table = FastTable::new();
    // Several tables at a time where they are small: reading the clock costs, too.
    let rounds = (10_000 / n.max(1)).max(1);
    let inserts = clock.per_second(|| {
        for _ in 0..rounds {
            table = FastTable::new();
            for i in 0..n {
                let _ = table.insert(mac_rule(i));
            }
        }
        rounds * n
    });
    println!("{n} exact rules: {:.2} M inserts/s, {} bytes", inserts * 1e-6, table.memory_bytes());
    // Once more with a clock around each, which slows it down.
    let mut again = FastTable::new();
    let one = |i| {
        let start = Instant::now();
        let _ = again.insert(mac_rule(i));
        start.elapsed().as_secs_f64() * 1e6
    };
    let mut times: Vec<f64> = (0..n).map(one).collect();
    times.sort_by(|a, b| b.total_cmp(a));
    println!("longest inserts, wall clock: {:.1?} us", &times[..n.min(5)]);
    let lookups: Vec<Lookup> = (0..active.max(100_000))
        .map(|i| Lookup {
            vid: 0,
            key: *mac_rule((scatter(i) % active as u64) as usize).matcher.value(),
            expected: None,
        })
        .collect();
    while table.move_on(SLOTS) {}
    report(&Tables::from([(0, table)]), &lookups, &clock);
}

fn vdps(n: usize, each: usize) {
    let mut tables = Tables::new();
    let clock = Clock(Instant::now());
    let start = clock.now();
    for vid in 0..n as u64 {
        let mut table = FastTable::new();
        for i in 0..each {
            let _ = table.insert(mac_rule(i));
        }
        tables.insert(vid, table);
    }
    println!(
        "{n} tables of {each}: {:.3} s, {} bytes each",
        clock.now() - start,
        tables.values().map(FastTable::memory_bytes).sum::<usize>() / n.max(1)
    );
    let lookups: Vec<Lookup> = (0..100_000)
        .map(|i| Lookup {
            vid: scatter(i) % n as u64,
            key: *mac_rule((scatter(i + 7) % each as u64) as usize).matcher.value(),
            expected: None,
        })
        .collect();
    report(&tables, &lookups, &clock);
}

/// Lookups as a data plane meets them: a compact stream of the words that any table looks at,
/// from which each key is made just before it is looked up.
struct Work {
    /// Which table each lookup asks.
    tables: Vec<usize>,
    words: Vec<usize>,
    values: Vec<u64>,
}

impl Work {
    /// The work, and the tables that it asks: all, and behind them one for VIDs that have none.
    fn new<'a>(
        tables: &'a Tables<FastTable>,
        none: &'a FastTable,
        lookups: &[Lookup],
    ) -> (Self, Vec<&'a FastTable>) {
        let used = tables.values().fold(0, |w, t| w | t.words_union());
        let words: Vec<usize> = (0..32).filter(|i| used >> i & 1 == 1).collect();
        let places: HashMap<u64, usize> =
            tables.keys().enumerate().map(|(at, vid)| (*vid, at)).collect();
        let at = |l: &Lookup| places.get(&l.vid).copied().unwrap_or(tables.len());
        let work = Self {
            tables: lookups.iter().map(at).collect(),
            values: lookups.iter().flat_map(|l| words.iter().map(|&w| l.key.0[w])).collect(),
            words,
        };
        (work, tables.values().chain([none]).collect())
    }
    #[inline]
    fn make(&self, key: &mut FlowKey, i: usize) {
        let n = self.words.len();
        for (&w, &v) in self.words.iter().zip(&self.values[i * n..]) {
            key.0[w] = v;
        }
    }
}

type Pass = fn(&Work, &[&FastTable], Range<usize>) -> u64;

/// Looks everything up again and again; prints the median of five rates for each way.
fn report(tables: &Tables<FastTable>, lookups: &[Lookup], clock: &Clock) {
    let ways: [(&str, Pass); 3] =
        [("keys alone", keys_alone), ("bursts of 32", bursts), ("one by one", singly)];
    for (name, pass) in ways {
        let rate = rate(tables, lookups, clock, pass);
        println!("{name}: {:.1} M/CPU-s, {:.1} ns each", rate * 1e-6, 1e9 / rate);
    }
}

/// The median of five.
fn rate(tables: &Tables<FastTable>, lookups: &[Lookup], clock: &Clock, pass: Pass) -> f64 {
    let none = FastTable::new();
    let (work, all) = Work::new(tables, &none, lookups);
    let (mut rates, mut sum) = (Vec::new(), 0);
    for _ in 0..5 {
        rates.push(clock.per_second(|| {
            sum ^= pass(&work, &all, 0..lookups.len());
            lookups.len()
        }));
    }
    rates.sort_by(f64::total_cmp);
    std::hint::black_box(sum);
    rates[2]
}

/// What the measurement itself costs.
fn keys_alone(work: &Work, _: &[&FastTable], which: Range<usize>) -> u64 {
    let mut keys = [FlowKey::default(); BURST];
    for first in which.clone().step_by(BURST) {
        for (i, k) in (first..which.end).zip(&mut keys) {
            work.make(k, i);
        }
        std::hint::black_box(&keys);
    }
    0
}

fn bursts(work: &Work, tables: &[&FastTable], which: Range<usize>) -> u64 {
    let mut sum = 0;
    let mut keys = [FlowKey::default(); BURST];
    let mut found = [None; BURST];
    for (n, burst) in work.tables[which.clone()].chunks(BURST).enumerate() {
        for (i, k) in (which.start + n * BURST..).zip(&mut keys).take(burst.len()) {
            work.make(k, i);
        }
        // A burst that is all one table's, as most are that come by one port: asked as a data plane's first table is.
        if let Some((first, others)) = burst.split_first()
            && others.iter().all(|t| t == first)
        {
            let table = tables[*first];
            if table.takes_all() {
                table.lookup_all(&keys[..burst.len()], &mut found);
            } else {
                let mut probes = [Probe::default(); BURST];
                for (p, k) in probes.iter_mut().zip(&keys).take(burst.len()) {
                    *p = table.probe(k);
                }
                for ((f, p), k) in found.iter_mut().zip(probes).zip(&keys).take(burst.len()) {
                    *f = table.resolve(k, p);
                }
            }
            sum +=
                found[..burst.len()].iter().map(|f| f.map_or(1, |id| u64::from(id.0))).sum::<u64>();
            continue;
        }
        let mut asked = [None; BURST];
        asked.iter_mut().zip(burst).for_each(|(a, t)| *a = Some(tables[*t]));
        FastTable::lookup_several(&asked[..burst.len()], &keys, &mut found);
        sum += found[..burst.len()].iter().map(|f| f.map_or(1, |id| u64::from(id.0))).sum::<u64>();
    }
    sum
}

fn singly(work: &Work, tables: &[&FastTable], which: Range<usize>) -> u64 {
    let mut key = FlowKey::default();
    let one = |i| {
        work.make(&mut key, i);
        tables[work.tables[i]].lookup(&key).map_or(1, |id| u64::from(id.0))
    };
    which.map(one).sum()
}
