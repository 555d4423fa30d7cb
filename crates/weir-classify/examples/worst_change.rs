//! What the dearest changes of a table take, of rules that somebody chose to make them dear: none share a mask, and no tuple tells
//! many of them apart. And, beside that, of rules as people write them:
//! of forty masks, and of ten fields.
//!
//! `worst_change [RULES...]`: for each number of rules (default 1000, 4000, 16000, 64000), each kind and several orders of priorities: what
//! inserting them one by one and removing them again takes, microseconds of wall clock each. Pin it to a processor (`taskset -c 1`).

use std::time::Instant;
use weir_classify::{Classifier, FastTable, Field, Match, Rule, RuleId};

/// A number that looks random and is the same each time.
fn scatter(i: u64) -> u64 {
    let x = i.wrapping_add(1).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    (x ^ x >> 29).wrapping_mul(0xbf58_476d_1ce4_e5b9) ^ x >> 16
}

/// Asks for zeros at bits of its own, of these fields.
fn of_its_own(i: usize, fields: &[Field]) -> Match {
    fields.iter().enumerate().fold(Match::any(), |m, (n, f)| {
        let r = |salt: u64| scatter((i as u64).wrapping_mul(31).wrapping_add(n as u64 * 7 + salt));
        m.with_masked(*f, 0, u128::from(r(0) | r(3)) << 64 | u128::from(r(1) | r(2)))
    })
}

fn narrow(i: usize) -> Match {
    of_its_own(i, &[Field::Ipv4Src, Field::Ipv4Dst, Field::TpSrc, Field::TpDst])
}
fn wide(i: usize) -> Match {
    let fields = [Field::Ipv6Src, Field::Ipv6Dst, Field::EthSrc, Field::EthDst, Field::Metadata];
    of_its_own(i, &fields)
}
fn of_forty(i: usize) -> Match {
    let prefix = |bits: usize| u128::from(u32::MAX << (32 - bits));
    let (kind, x) = (i % 40, scatter(i as u64));
    Match::any()
        .with_masked(Field::Ipv4Src, u128::from(x as u32), prefix(20 + kind % 5))
        .with_masked(Field::Ipv4Dst, u128::from((x >> 32) as u32), prefix(17 + kind / 5))
}

/// Of one field each, of ten: as many hash tables.
fn of_ten(i: usize) -> Match {
    let x = u128::from(scatter(i as u64));
    match i % 10 {
        0 => Match::any().with(Field::Ipv4Src, x),
        1 => Match::any().with(Field::Ipv4Dst, x),
        2 => Match::any().with(Field::EthSrc, x),
        3 => Match::any().with(Field::EthDst, x),
        4 => Match::any().with(Field::Metadata, x),
        5 => Match::any().with(Field::Ipv6Src, x),
        6 => Match::any().with(Field::Ipv6Dst, x),
        7 => Match::any().with(Field::MplsLabel, x),
        8 => Match::any().with(Field::ArpSpa, x),
        _ => Match::any().with(Field::ArpTpa, x),
    }
}

fn say(what: &str, mut times: Vec<f64>) {
    times.sort_by(f64::total_cmp);
    let at = |part: f64| {
        times.get((times.len().saturating_sub(1) as f64 * part) as usize).copied().unwrap_or(0.0)
    };
    let mean = times.iter().sum::<f64>() / times.len().max(1) as f64;
    println!(
        "{what:<44} mean {mean:>7.1}  median {:>7.1}  p99 {:>8.1}  longest {:>9.1} us",
        at(0.5),
        at(0.99),
        at(1.0)
    );
}

type Kind = (&'static str, fn(usize) -> Match);
type Order = (&'static str, fn(usize) -> u32);

fn main() {
    let sizes: Vec<usize> = std::env::args().skip(1).filter_map(|a| a.parse().ok()).collect();
    let sizes = if sizes.is_empty() { vec![1000, 4000, 16_000, 64_000] } else { sizes };
    let kinds: [Kind; 4] = [
        ("narrow", narrow),
        ("wide", wide),
        ("of forty masks", of_forty),
        ("of ten fields", of_ten),
    ];
    let orders: [Order; 3] = [
        ("of one priority", |_| 7),
        ("each before all others", |i| i as u32 + 1),
        ("of any priority", |i| scatter(i as u64) as u32 & 0xffff),
    ];
    for n in sizes {
        for (kind, of) in kinds {
            for (order, priority) in orders {
                let mut table = FastTable::new();
                let (mut there, mut all) = (0, Vec::with_capacity(n));
                for i in 0..n {
                    let rule = Rule { matcher: of(i), priority: priority(i), id: RuleId(i as u32) };
                    let start = Instant::now();
                    there += usize::from(table.insert(rule).is_ok());
                    all.push(start.elapsed().as_secs_f64() * 1e6);
                }
                let (tuples, scanned) = (table.tuples(), table.scanned());
                say(&format!("{n} {kind}, {order}: in"), all);
                let mut all = Vec::with_capacity(n);
                for i in 0..n {
                    let m = of(i);
                    let start = Instant::now();
                    there -= usize::from(table.remove(&m, priority(i)).is_some());
                    all.push(start.elapsed().as_secs_f64() * 1e6);
                }
                say(&format!("  out, of {tuples} tuples and {scanned} scanned"), all);
                assert!(there == 0 && table.is_empty(), "{there}");
            }
        }
    }
}
