//! Measures devices whose faults are known, and says as Markdown whether each was found: the page
//! docs/measure-truth.md.
//!
//! `cargo run --release -p weir-measure --example ground_truth -- RUNS`: in virtual time, each case so often.
//! With `--weir PROGRAM [--keep DIR] [--into PAGE]`, as root: that program's `weir dut` as a process, over sockets and
//! veths in namespaces of their own, by the clock, once each. What was measured is kept in DIR, and what is there is
//! not measured again; PAGE's part of the clock is replaced.

mod real;

use real::Asked;
use std::fmt::Write as _;
use std::ops::Range;
use std::path::PathBuf;
use weir_measure::document::{Document, Outcome};
use weir_measure::dut::profile::Profile;
use weir_measure::environment::{Environment, Program};
use weir_measure::truth::{Case, Must, cases, control_ns, sentences, simulated};

type Anything = Box<dyn std::error::Error>;

/// Insertion delays that must be measured, in microseconds.
pub(crate) const DELAYS: [f64; 3] = [100.0, 1_000.0, 10_000.0];

const HEADING: &str = "# Ground truth\n\nDevices of `weir dut` with one configured fault each, and what `weir \
     measure` says of them without being told. A fault that makes a statement untrue must make its verdict fail, and no \
     other; what a thing merely takes, or holds, must stand in a verdict. Made by the commands below; judged by \
     `weir_measure::truth`.\n\n## In virtual time\n\n";

fn main() -> Result<(), Anything> {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let after = |name: &str| {
        let at = args.iter().position(|a| a == name)?;
        args.get(at + 1).cloned()
    };
    if let Some(weir) = after("--weir") {
        let keep = after("--keep").map_or_else(real::usual_keep, PathBuf::from);
        return real::all(&Asked { weir, keep, into: after("--into").map(PathBuf::from) });
    }
    let runs: u64 = args.first().map_or(Ok(50), |n| n.parse())?;
    let mut page = String::from(HEADING);
    let command = format!("cargo run --release -p weir-measure --example ground_truth -- {runs}");
    writeln!(
        page,
        "{runs} runs each, {}. Runs differ by the device's random choices and by where in the probes' round \
         messages arrive.\n",
        origin(&command)
    )?;
    let mut wrong = Vec::new();
    delays(runs, &mut page, &mut wrong)?;
    honest(runs, &mut page, &mut wrong)?;
    faults("### Every fault", &cases::all(), runs, &mut page, &mut wrong)?;
    faults("### The profiles that come along", &cases::profiles(), runs, &mut page, &mut wrong)?;
    print!("{page}");
    match wrong.first() {
        Some(first) => Err(format!("{} not as they must be: {first}", wrong.len()).into()),
        None => Ok(()),
    }
}

/// Where figures come from.
pub(crate) fn origin(command: &str) -> String {
    let e = Environment::here(Program { version: env!("CARGO_PKG_VERSION"), commit: None });
    format!(
        "by `{command}` at commit {}, on {} ({} cores), Linux {}, {}",
        commit(),
        e.cpu_model,
        e.cores,
        e.kernel,
        e.date
    )
}

/// Of the directory that this is called in.
pub(crate) fn commit() -> String {
    let said = std::process::Command::new("git").args(["describe", "--always", "--dirty"]).output();
    let said = said.ok().and_then(|o| String::from_utf8(o.stdout).ok()).unwrap_or_default();
    said.trim().to_owned()
}

/// What is configured beside what is measured.
fn delays(runs: u64, page: &mut String, wrong: &mut Vec<String>) -> Result<(), Anything> {
    page.push_str("### Insertion delays\n\nFrom the first entry sent to the first packet of the last, without the way to the switch. Allowed: 5 % or 20 µs, whichever is more.\n\n");
    page.push_str("| configured | entries | measured, least and most | furthest off | within |\n| ---: | ---: | ---: | ---: | ---: |\n");
    for us in DELAYS {
        let mut seen = [(); 2].map(|()| Range { start: f64::MAX, end: f64::MIN });
        let mut within = [0; 2];
        for run in 0..runs {
            let mut device = Profile::builtin("honest")?;
            device.update.insert_us = us.try_into()?;
            let d = simulated(device, None, ("flow-insert", cases::INSERT_EXACT), run)?;
            if d.verdicts.iter().any(|v| v.outcome != Outcome::Holds) {
                wrong.push(format!("{us} µs, run {run}: {}", sentences(&d)));
            }
            for (row, entries) in [1.0, 20.0].into_iter().enumerate() {
                let got = first_packet_us(&d, row)? - control_ns(run) as f64 / 1e3;
                let want = us * entries;
                seen[row] = seen[row].start.min(got)..seen[row].end.max(got);
                if (got - want).abs() <= (want * 0.05).max(20.0) {
                    within[row] += 1;
                } else {
                    wrong.push(format!("{want} µs, run {run}: {got} µs"));
                }
            }
        }
        for (row, entries) in [1.0, 20.0].into_iter().enumerate() {
            let (Range { start, end }, want) = (&seen[row], us * entries);
            let off = (start - want).abs().max((end - want).abs());
            writeln!(
                page,
                "| {us} µs | {entries} | {start:.1} to {end:.1} µs | {off:.1} µs, {:.2} % | {} of {runs} |",
                off / want * 100.0,
                within[row]
            )?;
        }
    }
    page.push('\n');
    Ok(())
}

/// What `flow-insert` says of the first packet for its row of that number, in microseconds.
pub(crate) fn first_packet_us(d: &Document, row: usize) -> Result<f64, Anything> {
    let at = |t: &weir_measure::document::Table| {
        let column = t.columns.iter().position(|c| c.name == "first packet")?;
        match t.rows.get(row)?.get(column)? {
            weir_measure::document::Cell::Number(ms) => Some(ms * 1e3),
            _ => None,
        }
    };
    Ok(d.tables.first().and_then(at).ok_or("flow-insert has no first packet")?)
}

/// The honest device, by each module that needs a switch; wires are `wire_modules.rs`'s.
fn honest(runs: u64, page: &mut String, wrong: &mut Vec<String>) -> Result<(), Anything> {
    page.push_str(
        "### The honest device\n\n| module | verdicts | all hold in |\n| --- | ---: | ---: |\n",
    );
    for (module, set) in cases::HONEST.iter().filter(|h| h.0 != "timestamps") {
        let (mut good, mut verdicts) = (0, 0);
        for run in 0..runs {
            let d = simulated(Profile::builtin("honest")?, None, (module, set), run)?;
            verdicts = d.verdicts.len();
            if d.partial.is_none() && d.verdicts.iter().all(|v| v.outcome == Outcome::Holds) {
                good += 1;
            } else {
                wrong.push(format!("honest, {module}, run {run}: {}", sentences(&d)));
            }
        }
        writeln!(page, "| `{module}` | {verdicts} | {good} of {runs} |")?;
    }
    page.push('\n');
    Ok(())
}

fn faults(
    title: &str,
    all: &[Case],
    runs: u64,
    page: &mut String,
    wrong: &mut Vec<String>,
) -> Result<(), Anything> {
    writeln!(page, "{title}\n\n{HEAD}")?;
    for case in all {
        let (mut good, mut least, mut most) = (0, f64::MAX, f64::MIN);
        for run in 0..runs {
            let d = simulated(case.device()?, case.offers, (case.module, case.set), run);
            match case.judge(&d) {
                Ok(found) => {
                    good += 1;
                    if let Some(f) = found.figure {
                        (least, most) = (least.min(f), most.max(f));
                    }
                }
                Err(why) => wrong.push(format!("{}, run {run}: {why}", case.fault)),
            }
        }
        let figure = match most - least {
            d if d < 0.0 => String::new(),
            d if d < 1e-9 => shown(least),
            _ => format!("{} to {}", shown(least), shown(most)),
        };
        writeln!(page, "{}{figure} | {good} of {runs} |", row(case))?;
    }
    page.push('\n');
    Ok(())
}

pub(crate) const HEAD: &str = "| fault | module, and its parameters where they are not those of `--quick` | what says so | configured | told | found |\n\
     | --- | --- | --- | ---: | ---: | ---: |";

/// A row of the table up to what was told.
pub(crate) fn row(case: &Case) -> String {
    let (by, want) = match &case.must {
        Must::Fail([], _) => ("no verdict: it must not be seen".to_owned(), String::new()),
        Must::Fail(fails, _) => (format!("{} fails", listed(fails)), String::new()),
        Must::FailBy(fails, what, f) => (format!("{} fails: {what}", listed(fails)), shown(f.want)),
        Must::Say(id, words) => (format!("`{id}`: '{words}'"), String::new()),
        Must::Tell(id, what, f) => (format!("`{id}`: {what}"), shown(f.want)),
        Must::Refuse(words) => (format!("no result: '{words}'"), String::new()),
    };
    let set: String = case.set.iter().map(|(key, value)| format!(" {key}={value}")).collect();
    format!("| `{}` | `{}`{set} | {by} | {want} | ", case.fault, case.module)
}

fn listed(ids: &[&str]) -> String {
    ids.iter().map(|id| format!("`{id}`")).collect::<Vec<_>>().join(", ")
}

pub(crate) fn shown(v: f64) -> String {
    if v.abs() >= 1000.0 {
        format!("{v:.0}")
    } else {
        format!("{:.4}", v).trim_end_matches('0').trim_end_matches('.').to_owned()
    }
}
