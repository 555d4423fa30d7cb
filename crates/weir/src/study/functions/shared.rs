//! Functions as tasks of one core: what an operating system's turns cost them, measured and estimated.
//!
//! Room: a thread and a data plane for each function, all on one CPU; CPU time, so that nobody else's work
//! counts. Called by `chains`: there functions follow each other on one worker, here each is a task.

use super::seconds;
use crate::functions::{named, playing};
use crate::study::memory::Bench;
use crate::study::report::{Figure, Report, Table, number};
use crate::study::{Depth, Watch};
use crate::validate::{FCS, Locality, order};
use anyhow::{Context, Result, anyhow};
use std::sync::Barrier;
use std::time::Duration;
use weir_estimate::chain::lost;
use weir_estimate::profile::{Hardware, Profile};

/// Entries of each function's table, and bytes of a frame.
const ENTRIES: u32 = 1024;
const FRAME: u32 = 64;
/// So many times longer than other measurements: turns are milliseconds.
const LONGER: f64 = 4.0;

/// Measures one to four of these functions at once, where the profile says what turns cost.
///
/// # Errors
/// It was stopped; a function can't be made.
pub fn shared(
    names: &[&'static str],
    profile: &Profile,
    depth: Depth,
    report: &mut Report,
    watch: &mut Watch<'_>,
) -> Result<()> {
    let (Some(contention), Hardware::Processor(p)) = (&profile.contention, &profile.hardware)
    else {
        report.condition("tasks of one core", "not measured: the profile has no [contention]");
        return Ok(());
    };
    let Some(cpu) = weir_calibrate::cpus::allowed().last().copied() else { return Ok(()) };
    let time = Duration::from_secs_f64(seconds(depth) * LONGER);
    let cycles = |names: &[&'static str]| at_once(names, cpu, time, p.clock_hz);
    let mut alone = Vec::new();
    for name in names {
        watch.next(&format!("{name}, alone on a core"))?;
        alone.extend(cycles(&[name])?);
    }
    let part = lost(contention, p.clock_hz);
    let mut rows = Vec::new();
    for n in 1..=names.len() {
        watch.next(&format!("{n} functions as tasks of one core"))?;
        let of = names.get(..n).unwrap_or_default();
        let sum: f64 = alone.iter().take(n).sum();
        let measured: f64 = cycles(of)?.iter().sum();
        let estimate = if n > 1 { sum / (1.0 - part) } else { sum };
        let error = (estimate / measured - 1.0) * 100.0;
        rows.push(vec![
            of.join(", "),
            number(sum.round()),
            number(measured.round()),
            number(estimate.round()),
            format!("{error:+.1}"),
        ]);
        if n == names.len() {
            let what = format!("{n} tasks on one core: estimate against measurement");
            report.figures.push(Figure::of(what, error, "%", None));
        }
    }
    let head = ["functions", "alone", "measured", "estimate", "error %"];
    report.tables.push(Table {
        title: "tasks of one core: cycles for a frame of each, by CPU time".into(),
        head: head.map(String::from).into(),
        rows,
    });
    report.condition(
        "tasks of one core",
        format!(
            "a data plane and a thread each, on one CPU, {ENTRIES} entries, frames of {FRAME} bytes from memory; the \
             estimate is what they cost alone, and that changes of context take {:.2} % of the time \
             (`weir estimate chain --shared`): {:.0} cycles every {} ms",
            part * 100.0,
            contention.context_cycles,
            number(contention.timeslice_s * 1e3)
        ),
    );
    Ok(())
}

/// Cycles for a frame of each function while all of them run on one CPU.
fn at_once(names: &[&'static str], cpu: usize, time: Duration, clock_hz: f64) -> Result<Vec<f64>> {
    let ready = Barrier::new(names.len());
    let one = |name: &str| -> Result<f64> {
        weir_calibrate::cpus::pin(cpu);
        let made = named(name).context("no such function").and_then(|f| {
            let order = order(ENTRIES, Locality::Uniform);
            playing(f, ENTRIES, &order, FRAME as usize - FCS)
        });
        // Whoever fails must not be waited for.
        ready.wait();
        let mut bench = Bench::new(made?.plane);
        bench.mfps_per_cpu_s(time / 4)?;
        Ok(clock_hz / bench.mfps_per_cpu_s(time)? / 1e6)
    };
    std::thread::scope(|scope| {
        let begun: Vec<_> = names.iter().map(|name| scope.spawn(|| one(name))).collect();
        let ended = |t: std::thread::ScopedJoinHandle<'_, Result<f64>>| {
            t.join().unwrap_or_else(|_| Err(anyhow!("a task ended early")))
        };
        begun.into_iter().map(ended).collect()
    })
}
