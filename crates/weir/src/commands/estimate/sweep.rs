//! `weir estimate sweep`: one question over values of anything, as a table, CSV, JSON or a picture.
//!
//! Room: arguments and output. A point's figures are those of `weir estimate` with the same values.

use super::ask::{QuestionArgs, warn_of_stranger};
use super::{json, picture, say, shelf};
use crate::commands::columns::Columns;
use crate::commands::say::put;
use crate::environment::Envelope;
use crate::fault::bad_input;
use anyhow::Result;
use serde::Serialize;
use std::path::PathBuf;
use weir_estimate::estimate::{cores_beyond, estimate_again};
use weir_estimate::fault::nearest;
use weir_estimate::locality::Memo;
use weir_estimate::profile::Hardware;
use weir_estimate::traffic::{Spread, Traffic};
use weir_estimate::{Estimate, Mode, Profile, Question};
use weir_measure::document::whole;

/// Most points of a sweep.
const MAX_POINTS: usize = 100_000;

/// What is swept.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:\n  \
    weir estimate sweep l2-basic --profile xeon-e5-2690v2 --over frame=64..1518:64\n  \
    weir estimate sweep bng --profile xeon-e5-2690v2 --over cores=1..10 --over frame=64,128,512 --csv\n  \
    weir estimate sweep l2-basic --profile xeon-e5-2690v2 --over flows=1k..4M*2 --svg flows.svg")]
pub struct Args {
    /// The network function: a name ('weir estimate list'), or a model's file
    #[arg(value_name = "NF")]
    function: String,
    /// What varies: NAME=FROM..TO:STEP, NAME=FROM..TO*FACTOR or NAME=A,B,C. NAME is frame, cores,
    /// burst, flows, zipf, clock_ghz or a parameter of the model; may be given more than once
    #[arg(long, value_name = "NAME=VALUES", value_parser = axis, required = true)]
    over: Vec<Axis>,
    /// Print CSV
    #[arg(long, conflicts_with = "json")]
    csv: bool,
    /// Print JSON: the figures of every point
    #[arg(long)]
    json: bool,
    /// Also draw it into this file: the first '--over' along, a curve for each value of the others
    #[arg(long, value_name = "FILE")]
    svg: Option<PathBuf>,
    #[command(flatten)]
    question: QuestionArgs,
}

/// A name and its values.
#[derive(Clone, Debug, PartialEq)]
struct Axis {
    name: String,
    values: Vec<f64>,
}

fn axis(text: &str) -> Result<Axis, String> {
    let expected =
        || format!("'{text}': expected NAME=FROM..TO:STEP, NAME=FROM..TO*FACTOR or NAME=A,B,C");
    let number = |t: &str| -> Result<f64, String> {
        if let Some(n) = weir_estimate::traffic::number(t.trim()) {
            return Ok(n);
        }
        let n = t.trim().parse::<f64>().map_err(|_| expected())?;
        Err(format!("'{text}': {n}: expected 0 to less than 1e18"))
    };
    let (name, values) = text.split_once('=').ok_or_else(expected)?;
    let mut all = Vec::new();
    if let Some((from, rest)) = values.split_once("..") {
        let (to, step, times) = match (rest.split_once(':'), rest.split_once('*')) {
            (Some((to, step)), _) => (to, number(step)?, false),
            (None, Some((to, factor))) => (to, number(factor)?, true),
            (None, None) => (rest, 1.0, false),
        };
        let (from, to) = (number(from)?, number(to)?);
        let moves = if times { step > 1.0 && from > 0.0 } else { step > 0.0 };
        if !moves || from > to {
            return Err(format!("'{text}': it would not end, or has no values"));
        }
        // A step that is a decimal fraction must not miss the end by its last binary digit.
        let end = to * (1.0 + 1e-12);
        let mut i = 0u32;
        loop {
            let v = if times { from * step.powi(i as i32) } else { from + f64::from(i) * step };
            if v > end {
                break;
            }
            if all.len() == MAX_POINTS {
                return Err(format!("'{text}': more than {MAX_POINTS} points: take larger steps"));
            }
            all.push(v);
            i += 1;
        }
    } else {
        for v in values.split(',') {
            all.push(number(v)?);
        }
    }
    Ok(Axis { name: name.trim().to_owned(), values: all })
}

/// What a sweep can vary beside the parameters of models.
const NAMES: &[&str] = &["frame", "cores", "burst", "flows", "zipf", "clock_ghz"];

/// Gives `name` its value, in the question or in the profile.
fn set(question: &mut Question, profile: &mut Profile, name: &str, value: f64) -> Result<()> {
    let whole = || {
        let fits = value.fract() == 0.0 && (1.0..=f64::from(u32::MAX)).contains(&value);
        fits.then_some(value as u32)
            .ok_or_else(|| bad_input(format!("{name} = {value}: expected a whole number from 1")))
    };
    if question.mode != Mode::Full && matches!(name, "burst" | "zipf") {
        let mode = question.mode.name();
        return Err(bad_input(format!(
            "--over {name}: mode {mode} knows nothing of it: leave it out, or ask '--mode full'"
        )));
    }
    match name {
        "frame" => question.frame = whole()?,
        "cores" => question.cores = whole()?,
        "burst" => question.burst = whole()?,
        "flows" => {
            let flows = weir_estimate::traffic::count(&value.round().to_string());
            let flows = flows.map_err(|e| bad_input(format!("flows: {e}")))?;
            match &mut question.traffic {
                Some(t) if matches!(t.spread, Spread::Counted(_) | Spread::Played { .. }) => {
                    return Err(bad_input("flows: a capture has its own number of flows"));
                }
                Some(t) => t.flows = flows,
                None => question.traffic = Some(Traffic::uniform(flows)),
            }
        }
        "zipf" => match &mut question.traffic {
            Some(t) if (0.0..=10.0).contains(&value) => t.spread = Spread::Zipf(value),
            Some(_) => return Err(bad_input("zipf: expected an exponent from 0 to 10")),
            None => return Err(bad_input("zipf: how many flows? Give '--traffic flows=N', too")),
        },
        "clock_ghz" => {
            let mode = match question.mode {
                Mode::Paper => profile.paper.as_mut().map(|c| &mut c.clock_hz),
                Mode::Corrected => profile.corrected.as_mut().map(|c| &mut c.clock_hz),
                Mode::Full => None,
            };
            let clock = match (&mut profile.hardware, mode) {
                (_, Some(clock)) => clock,
                (Hardware::Processor(p), None) => &mut p.clock_hz,
                (Hardware::Pipeline(p), None) => &mut p.clock_hz,
            };
            if value <= 0.0 {
                return Err(bad_input("clock_ghz: expected a frequency above zero"));
            }
            *clock = value * 1e9;
        }
        _ => question.settings.push((name.to_owned(), value)),
    }
    Ok(())
}

/// A point: the values, and what follows.
#[derive(Debug)]
pub struct Point {
    /// One for each axis.
    pub values: Vec<f64>,
    /// The answer.
    pub answer: Estimate,
}

#[derive(Serialize)]
struct Shown {
    over: Vec<String>,
    points: Vec<ShownPoint>,
}

#[derive(Serialize)]
struct ShownPoint {
    at: Vec<f64>,
    #[serde(flatten)]
    figures: json::Figures,
}

/// Sweeps.
pub fn run(a: &Args) -> Result<()> {
    once(&a.over)?;
    if let Some(svg) = &a.svg {
        shelf::spare(svg, "--svg", a.question.paths().chain(shelf::named(&a.function)))?;
    }
    let mut library = shelf::library(&a.question.files)?;
    let name = shelf::function(&mut library, &a.function)?;
    let profile = a.question.profile(&library)?;
    warn_of_stranger(&profile);
    let question = a.question.question(&library, &profile)?;
    let count: usize = a
        .over
        .iter()
        .map(|x| x.values.len())
        .try_fold(1usize, usize::checked_mul)
        .unwrap_or(usize::MAX);
    if count > MAX_POINTS {
        return Err(bad_input(format!("--over: {count} points: at most {MAX_POINTS}")));
    }
    let memo = Memo::default();
    let mut points = Vec::with_capacity(count);
    for i in 0..count {
        let (mut q, mut p) = (question.clone(), profile.clone());
        let (mut rest, mut values) = (i, Vec::new());
        // The last axis turns fastest.
        for x in a.over.iter().rev() {
            values.push(x.values.get(rest % x.values.len()).copied().unwrap_or(0.0));
            rest /= x.values.len();
        }
        values.reverse();
        for (x, v) in a.over.iter().zip(&values) {
            set(&mut q, &mut p, &x.name, *v)?;
        }
        let mut answer = estimate_again(&library, &name, &p, &q, &memo).map_err(|e| {
            let unknown =
                a.over.iter().find(|x| e.text.contains(&format!("parameter '{}'", x.name)));
            let near = unknown.and_then(|x| nearest(&x.name, NAMES.iter().copied()));
            match near {
                Some(n) => bad_input(format!("--over: did you mean '{n}'? ({e})")),
                None => bad_input(e),
            }
        })?;
        // Only JSON shows them, and they are most of an answer.
        if !a.json {
            answer.operations = Vec::new();
        }
        points.push(Point { values, answer });
    }
    let names: Vec<&str> = a.over.iter().map(|x| x.name.as_str()).collect();
    if let Some(path) = &a.svg {
        let svg = picture::svg(&format!("{name} on {}", profile.name), &names, &points)?;
        // Whole, or as it was.
        whole::write(path, &svg).map_err(|e| bad_input(format_args!("--svg {e}")))?;
    }
    if a.json {
        let points = points.iter();
        let points =
            points.map(|p| ShownPoint { at: p.values.clone(), figures: json::figures(&p.answer) });
        let over = names.iter().map(|n| (*n).to_owned()).collect();
        let shown = Envelope::new("sweep", Shown { over, points: points.collect() });
        return put(&(serde_json::to_string(&shown)? + "\n"));
    }
    if a.csv {
        return put(csv(&names, &points, a.question.target.is_some()));
    }
    put(table(&names, &points, a.question.target.is_some()) + &notes(&profile, &points))
}

/// Notes of all points: of cores once, by the most of any; others as the last point that has any says them.
fn notes(profile: &Profile, points: &[Point]) -> String {
    let most = points.iter().map(|p| p.answer.cores).max().unwrap_or(0);
    let mut out = String::new();
    if let Some(n) = cores_beyond(profile, most) {
        out += &format!("\nnote: up to {n}\n");
    }
    let others = |p: &Point| -> Vec<String> {
        let of_cores = cores_beyond(profile, p.answer.cores);
        let all = p.answer.notes.iter().filter(|n| Some(*n) != of_cores.as_ref());
        all.cloned().collect()
    };
    let last = points.iter().rev().map(others).find(|n| !n.is_empty()).unwrap_or_default();
    last.iter().for_each(|n| out += &format!("\nnote: {n}\n"));
    out
}

/// Refuses a name that varies twice: the second would hide the first.
fn once(over: &[Axis]) -> Result<()> {
    let twice = |(n, x): &(usize, &Axis)| over.iter().take(*n).any(|o| o.name == x.name);
    match over.iter().enumerate().find(twice) {
        None => Ok(()),
        Some((_, x)) => Err(bad_input(format!(
            "--over: '{0}' is there twice: give all its values at once, as --over {0}=A,B",
            x.name
        ))),
    }
}

const FIGURES: [&str; 8] = [
    "cycles",
    "dram_accesses",
    "core_mpps",
    "memory_mpps",
    "mpps",
    "mpps_low",
    "mpps_high",
    "gbps",
];

fn figures(e: &Estimate) -> [Option<f64>; 8] {
    let r = e.rates;
    [
        Some(e.cycles),
        Some(e.dram_accesses),
        Some(r.core_mpps),
        r.memory_mpps,
        Some(r.mpps),
        Some(e.interval_mpps.0),
        Some(e.interval_mpps.1),
        Some(r.gbps),
    ]
}

fn csv(names: &[&str], points: &[Point], sought: bool) -> String {
    let heads = names.iter().copied().chain(FIGURES).chain(["bottleneck"]);
    let heads: Vec<&str> = heads.chain(sought.then_some("target_cores")).collect();
    let mut out = heads.join(",") + "\n";
    for p in points {
        let numbers = p.values.iter().copied().map(Some).chain(figures(&p.answer));
        let mut cells: Vec<String> =
            numbers.map(|v| v.map(|v| v.to_string()).unwrap_or_default()).collect();
        cells.push(p.answer.bottleneck.clone());
        if sought {
            let cores = p.answer.needed.as_ref().and_then(|n| n.cores);
            cells.push(cores.map(|c| c.to_string()).unwrap_or_default());
        }
        out += &(cells.join(",") + "\n");
    }
    out
}

/// `sought`: with the cores for the rate that was asked for.
fn table(names: &[&str], points: &[Point], sought: bool) -> String {
    let heads = names.iter().copied().chain(FIGURES).chain(["bound by"]);
    let heads: Vec<&str> = heads.chain(sought.then_some("for the target")).collect();
    let mut table = Columns::new(&heads);
    for p in points {
        let numbers = p.values.iter().copied().map(Some).chain(figures(&p.answer));
        let mut cells: Vec<String> =
            numbers.map(|v| v.map_or_else(|| "-".to_owned(), say::number)).collect();
        cells.push(p.answer.bottleneck.clone());
        if sought {
            cells.push(p.answer.needed.as_ref().map_or_else(|| "-".to_owned(), say::cores));
        }
        table.row(cells);
    }
    table.text()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn axes_are_read() {
        let values = |t: &str| axis(t).map(|a| a.values);
        assert_eq!(values("frame=64..256:64"), Ok(vec![64.0, 128.0, 192.0, 256.0]));
        assert_eq!(values("flows=1k..8k*2"), Ok(vec![1e3, 2e3, 4e3, 8e3]));
        assert_eq!(values("cores=1..3"), Ok(vec![1.0, 2.0, 3.0]));
        assert_eq!(values("x=1,2.5"), Ok(vec![1.0, 2.5]));
        assert_eq!(values("x=0.1..0.3:0.1").map(|v| v.len()), Ok(3));
        assert_eq!(values("x=11G,1T"), Ok(vec![11e9, 1e12]));
        for bad in ["x", "x=", "x=3..1", "x=1..3:0", "x=0..8*2", "x=1..8*1", "x=1..", "x=-1"] {
            assert!(axis(bad).is_err(), "{bad}");
        }
        assert_eq!(values("x=1..100000").map(|v| v.len()), Ok(MAX_POINTS));
        for many in ["x=1..100001", "x=1..1e12:1", "x=0..9e9:1"] {
            assert!(values(many).is_err_and(|e| e.contains("more than 100000 points")), "{many}");
        }
        for range in ["x=-1", "x=1..1e18", "x=1..3:-1"] {
            assert!(values(range).is_err_and(|e| e.contains("0 to less than 1e18")), "{range}");
        }
    }
}
