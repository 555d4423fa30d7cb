//! Moves at four fifths of what the slower side takes without loss: to another host and back, to the slow path
//! and back. With WEIR_SOAK a thousand, or WEIR_SOAK_MOVES, at a rate that is measured; else few, at a rate that any
//! machine has.

use super::{FLOWS, PLAIN, World, nanos, world};
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

/// How long a rate is tried.
const TRIAL: Duration = Duration::from_secs(1);
/// Longer ways mean that frames queue up, and would be lost had the trial gone on.
const QUEUES: Duration = Duration::from_millis(20);
/// Frames a second that any machine has.
const FEW: u64 = 4_000;
/// With so many the search begins.
const FIRST: u64 = 32_000;
/// Beyond this a sender is not asked to go.
const MOST: u64 = 512_000;

/// The time from one frame of each flow to the next.
fn every(rate: u64) -> Duration {
    Duration::from_nanos(1_000_000_000 * u64::from(FLOWS) / rate)
}

/// Whether all frames of a trial come, at this rate, in order and without queueing up; and the rate at which they
/// were sent.
fn comes_whole(w: &mut World, rate: u64) -> (bool, u64) {
    let load = w.load(every(rate));
    std::thread::sleep(TRIAL);
    let sent = load.sent.load(Ordering::Acquire);
    load.delay.store(0, Ordering::Release);
    std::thread::sleep(TRIAL / 10);
    let queues = load.delay.load(Ordering::Acquire) > nanos(QUEUES);
    let (all, seen, wires) = load.end();
    w.wires = Some(wires);
    let whole = (seen.next, seen.lost, seen.late) == (all, 0, 0);
    (whole && !queues, sent * 1_000_000_000 / nanos(TRIAL))
}

/// The highest rate without loss, within an eighth.
fn zero_loss(w: &mut World) -> u64 {
    let (mut good, mut bad) = (0, FIRST);
    while bad <= MOST {
        let (whole, sent) = comes_whole(w, bad);
        if !whole || sent < bad * 9 / 10 {
            break;
        }
        (good, bad) = (bad, bad * 2);
    }
    while bad - good > bad / 8 {
        let middle = good.midpoint(bad);
        let (whole, sent) = comes_whole(w, middle);
        match whole && sent >= middle * 9 / 10 {
            true => good = middle,
            false => bad = middle,
        }
    }
    good
}

/// What so many thousandths of all are at most.
fn quantile(sorted: &[u64], permille: usize) -> u64 {
    let at = (sorted.len() * permille).div_ceil(1000).max(1) - 1;
    sorted.get(at).copied().unwrap_or(0)
}

/// In microseconds: the median, the 90th, 99th and 99.9th percentile and the most; how many are over 10 ms.
fn told(what: &str, mut all: Vec<u64>) {
    all.sort_unstable();
    let us = |permille| quantile(&all, permille) / 1000;
    let over = all.iter().filter(|n| **n >= 10_000_000).count();
    println!(
        "soak: {what}, us: p50 {}, p90 {}, p99 {}, p99.9 {}, max {}; 10 ms or more in {over} of {}",
        us(500),
        us(900),
        us(990),
        us(999),
        us(1000),
        all.len()
    );
}

#[test]
fn soak_moves_at_four_fifths_of_the_zero_loss_rate() {
    let mut w = world();
    w.s.apply(PLAIN);
    let path = |w: &World, to: &str| {
        super::insists(&w.s, &["net", "migrate", "red", "s1", "--path", to]);
    };
    let soak = std::env::var_os("WEIR_SOAK").is_some();
    let (rate, rounds) = match soak {
        false => (FEW, 2_u32),
        true => {
            let fast = zero_loss(&mut w);
            path(&w, "slow");
            let slow = zero_loss(&mut w);
            path(&w, "fast");
            w.moved("west");
            let away = zero_loss(&mut w);
            w.moved("east");
            println!("soak: without loss, frames a second: fast {fast}, slow {slow}, away {away}");
            let moves = std::env::var("WEIR_SOAK_MOVES").ok().and_then(|n| n.parse().ok());
            (fast.min(slow).min(away) * 4 / 5, moves.unwrap_or(1000) / 4)
        }
    };
    println!("soak: {} moves at {rate} frames a second", rounds * 4);
    let load = w.load(every(rate));
    let (mut held, mut hosts, mut paths) = (Vec::new(), Vec::new(), Vec::new());
    // After each move as long a time in which nothing moves: what the machine does to frames by itself.
    let (mut beside_hosts, mut beside_paths) = (Vec::new(), Vec::new());
    let still = |beside: &mut Vec<u64>, took: Duration| {
        load.some();
        load.delay.store(0, Ordering::Release);
        std::thread::sleep(took);
        load.some();
        beside.push(load.delay.load(Ordering::Acquire));
    };
    for _ in 0..rounds {
        for to in ["west", "east"] {
            load.some();
            load.delay.store(0, Ordering::Release);
            let begun = Instant::now();
            let moved = w.moved(to);
            let took = begun.elapsed();
            load.some();
            assert_eq!((&moved["to"], &moved["lost"]), (&to.into(), &0.into()), "{moved}");
            held.push(moved["longest_pause_ns"].as_u64().unwrap());
            hosts.push(load.delay.load(Ordering::Acquire));
            still(&mut beside_hosts, took);
        }
        for to in ["slow", "fast"] {
            load.some();
            load.delay.store(0, Ordering::Release);
            let begun = Instant::now();
            path(&w, to);
            let took = begun.elapsed();
            load.some();
            assert_eq!(w.at_east()["phase"], to);
            paths.push(load.delay.load(Ordering::Acquire));
            still(&mut beside_paths, took);
        }
    }
    let seen = load.finish();
    told("a frame was held for a move to another host for at most", held);
    told("the slowest frame's way while a node moved to another host", hosts);
    told("in as long a time after each, in which nothing moved", beside_hosts);
    told("the slowest frame's way while a node changed its path", paths);
    told("in as long a time after each, in which nothing changed", beside_paths);
    println!("soak: {} frames, none lost, twice or late", seen.frames);
    w.is_home();
    w.end();
}
