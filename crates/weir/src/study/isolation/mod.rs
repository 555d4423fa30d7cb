//! `isolation`: what one network can do to the others. Each attack of [`attack::Attack`] against three networks that
//! keep to what they were promised; each network alone, all without an attack, and all under each attack.
//!
//! - `frames`, `wire`: frames that say whose they are; lines and the uplink in virtual time;
//! - `control`: a network's switch with its controllers, in virtual time; `attack`: the attacks;
//! - `world`: all of it on one data plane; `score`: what follows;
//! - `veth`: a victim and an attacker on a `weir run`, on real cores.
//!
//! From memory the time is virtual and every run is the same: that is where weir makes promises.

mod attack;
mod control;
mod frames;
mod score;
mod veth;
mod wire;
mod world;

use super::report::{Accounts, Axis, Extent, Point, Report, Series};
use super::{Id, Plan, Watch};
use anyhow::Result;
use attack::Attack;
use score::{Alone, Row, judge};
use world::{ATTACKER, Cell, Fates, VICTIMS};

const X: Axis = Axis { name: "attack", unit: "numbered as in the scorecard" };
const SHARE: Axis = Axis { name: "share of what it was promised, from memory", unit: "%" };
const P99: Axis = Axis { name: "p99 latency, from memory", unit: "µs" };

/// Runs it.
pub fn run(plan: &Plan, watch: &mut Watch<'_>) -> Result<Report> {
    let mut report = Report::new(Id::Isolation, plan.depth.of(Extent::Quick, Extent::Full));
    if plan.memory() {
        from_memory(plan, watch, &mut report)?;
    }
    if plan.veth() {
        veth::run(plan, watch, &mut report)?;
    }
    Ok(report)
}

/// All attacks in virtual time.
fn from_memory(plan: &Plan, watch: &mut Watch<'_>, report: &mut Report) -> Result<()> {
    // Milliseconds of virtual time.
    let ms = plan.depth.of(20, 200);
    let time = ms * 1_000_000;
    let mut accounts = Accounts::default();
    let mut run = |active: [bool; 5], attack| -> Result<Fates> {
        let fates = world::run(Cell { active, attack, time })?;
        accounts.merge(&fates.accounts);
        Ok(fates)
    };
    let mut alone = Vec::new();
    for v in VICTIMS {
        watch.next(&format!("from memory, {} alone", v.name))?;
        let mut active = [false; 5];
        active[usize::from(v.id)] = true;
        alone.push(Alone::of(&run(active, None)?, &v));
    }
    let mut rows = Vec::new();
    let attacks = std::iter::once(None).chain(Attack::ALL.into_iter().map(Some));
    for attack in attacks {
        let name = attack.map_or("none", Attack::name);
        watch.next(&format!("from memory, attack: {name}"))?;
        let mut only = [false; 5];
        only[usize::from(ATTACKER.id)] = true;
        let by_itself = run(only, attack)?;
        let together = run([true; 5], attack)?;
        rows.push(Row::new(attack, &by_itself, &together, &alone, time));
    }
    tell(report, &rows, &alone);
    report.accounts = Some(accounts);
    conditions(report, ms);
    Ok(())
}

/// The scorecard, and what it is made of.
fn tell(report: &mut Report, rows: &[Row], alone: &[Alone]) {
    report.tables.push(score::card(rows));
    report.tables.push(score::details(rows, alone));
    for (at, v) in VICTIMS.iter().enumerate() {
        let points = |of: fn(&score::Suffered) -> f64| {
            let point =
                |(n, r): (usize, &Row)| Some(Point::of(n as f64, vec![of(r.victims.get(at)?)]));
            rows.iter().enumerate().filter_map(point).collect()
        };
        let series = |y, points| Series { name: v.name.to_owned(), x: X, y, points };
        report.series.push(series(SHARE, points(|s| 100.0 * s.share)));
        report.series.push(series(P99, points(|s| s.latency.p99_ns as f64 / 1e3)));
    }
    report.figures.extend(judge(rows));
}

fn conditions(report: &mut Report, ms: u64) {
    let kfps = world::PROMISED / 1000;
    let networks: Vec<String> = VICTIMS
        .iter()
        .chain([&ATTACKER])
        .map(|n| {
            let path = if n.path == weir_dataplane::Path::Slow {
                "slow path with a channel of its own"
            } else {
                "fast path"
            };
            format!("{}: {} bytes, {path}, {} ‰ of the worker", n.name, n.bytes, n.permille)
        })
        .collect();
    report.condition("networks", format!("{}; each is promised {kfps},000 frames a second of the uplink, and sends as many by a port of its own", networks.join("; ")));
    report.condition(
        "worker, in virtual time",
        format!(
            "a frame takes {} ns, another {} ns in the software stage, {} ns if it is beyond its network's part; each hash table that a lookup asks beyond the first {} ns, each rule that it scans {} ns; an interruption by control {} ns, a change of a flow, group or meter {} ns",
            world::FRAME, world::FRAME, world::EARLY, world::PROBE, world::SCAN, world::CALL, world::CHANGE
        ),
    );
    report
        .condition("uplink", format!("{} Gb/s, a ring of a burst", world::UPLINK / 1_000_000_000));
    report.condition(
        "control",
        format!(
            "OpenFlow 1.3, {} messages a second for each network's switch; those that keep to their part change a flow and wait for the barrier every millisecond",
            control::MESSAGES
        ),
    );
    report
        .condition("time", format!("{ms} virtual milliseconds of each attack, begun 20 ms before"));
    report.remark(
        "In virtual time the clock is moved on by what the data plane did, so that every run is the same on every \
         machine; the worker is slower than any real one. A change's price against a frame's is about what was \
         measured (docs/openflow-performance.md); those of further hash tables and scanned rules are assumed. An attack's frames come by the attacker's own port. 'One burst of every active VDP' is what a burst \
         of each of the four networks takes the worker and the uplink. Jain's index is over what each of the four \
         networks got of the lesser of what it sent and what it was promised.",
    );
}
