//! `nf-…`: network functions in weir's data plane from memory, estimated and measured (002 §4).
//!
//! Room: which cases, and what is told of them; `validate` measures and asks. `figure` has the scenarios of
//! 002's figures 10 to 13, `all` every function.

mod all;
mod beside;
mod chains;
mod figure;
mod shared;
mod veth;

pub use all::all;
pub use chains::chains;
pub use figure::figure;

use super::report::{Figure, Report};
use super::{Depth, Plan, Watch};
use crate::commands::estimate::{Files, shelf};
use crate::functions;
use crate::validate::{Asker, Case, Found, Locality, Row, by_instructions, by_regression};
use crate::validate::{Score, Yardstick, instructions, is_as_calibrated, row};
use anyhow::Result;
use weir_calibrate::{calibrate_with, text};
use weir_estimate::Profile;

/// Ways to estimate, as columns are called.
const WAYS: [&str; 4] = ["estimate", "002's formula", "instructions", "regression"];

/// Another place where a function is measured, and what was found there.
type Place = (&'static str, fn(&Row) -> Option<Found>);

/// Places besides memory, as columns are called.
const PLACES: [Place; 2] = [("over veth", |r| r.veth), ("on Open vSwitch", |r| r.ovs)];

/// What each way says of a row.
fn said(r: &Row) -> [Option<f64>; 4] {
    [Some(r.estimate), r.paper, r.by_instructions, r.by_regression]
}

/// Whoever answers: by the profile that was given, or by what this machine is now measured to be.
fn asker(plan: &Plan, watch: &mut Watch<'_>, report: &mut Report) -> Result<Asker> {
    if let Some(name) = &plan.profile {
        let asker = Asker::of(name)?;
        report.condition("profile", format!("{}, as it was given", asker.profile.name));
        return Ok(asker);
    }
    watch.next("calibrating this machine")?;
    let library = shelf::library(&Files::default())?;
    let depth = plan.depth.of(weir_calibrate::Depth::Quick, weir_calibrate::Depth::Full);
    let c = calibrate_with(depth, &crate::platform::shapes, &mut |_| ())?.whole()?;
    let text = text::profile(&c, "here", &["calibrated for this study".to_owned()]);
    let profile = Profile::read("here", &text, library.operations())?;
    report.condition(
        "profile",
        format!(
            "this machine, calibrated right before in {:.0} s: {:.0} MHz",
            c.time.as_secs_f64(),
            c.clock_hz / 1e6
        ),
    );
    Asker::new(library, profile)
}

/// How good estimates are where functions were measured besides.
fn elsewhere(report: &mut Report, rows: &[Row]) {
    for (place, of) in PLACES {
        let found = rows.iter().filter_map(of);
        let pairs: Vec<(f64, f64)> = found.map(|f| (f.measured, f.estimate)).collect();
        let Some(s) = Score::of(&pairs) else { continue };
        let mut add = |what: &str, value: f64, unit: &'static str| {
            let what = format!("{place}: {what}");
            report.figures.push(Figure::of(what, value, unit, None));
        };
        add("cases", s.points as f64, "");
        add("median absolute error", s.median * 100.0, "%");
        add("90th percentile", s.p90 * 100.0, "%");
        add("Kendall's tau", s.tau, "");
    }
}

/// Seconds of a measurement.
fn seconds(depth: Depth) -> f64 {
    depth.of(0.03, 0.12)
}

/// Measures cases, says what each way to estimate gives. Rivals learn from all rows but a function's own,
/// so that `rows` must have several functions.
fn rows(
    cases: &[Case],
    asker: &mut Asker,
    depth: Depth,
    watch: &mut Watch<'_>,
    report: &mut Report,
) -> Result<Vec<Row>> {
    let mut rows: Vec<Row> = Vec::new();
    let calibrated = asker.profile.clone();
    // What others take of the last cache, before each function.
    let mut taken: Vec<f64> = Vec::new();
    let mut yardstick = depth.of(Yardstick::none(), Yardstick::new(&asker.profile));
    for round in 0..depth.of(1, ROUNDS) {
        let mut before = std::mem::take(&mut rows).into_iter();
        let mut looked_for = None;
        for (i, case) in cases.iter().enumerate() {
            let name = case.function.name();
            let turn = if round > 0 { ", once more" } else { "" };
            watch.next(&format!("{name}, case {} of {}{turn}", i + 1, cases.len()))?;
            let first = looked_for.replace(name) != Some(name);
            if first && depth == Depth::Full {
                taken.extend(asker.look_around(LOOKS, WHILE)?);
            }
            let found = row(case, asker, &mut yardstick, seconds(depth))?;
            rows.push(match before.next() {
                Some(first) => first.with(found),
                None => found,
            });
        }
    }
    asker.profile = calibrated;
    if !taken.is_empty() {
        taken.sort_by(f64::total_cmp);
        let percent = |at: usize| taken.get(at).copied().unwrap_or_default() * 100.0;
        report.condition(
            "neighbours",
            format!(
                "what others take of the last cache is measured before each function, {} times in all, and is the \
                 estimate's: of lines not touched for {:.0} ms {:.0} % at the least, {:.0} % in the middle, {:.0} % at \
                 the most",
                taken.len(),
                WHILE * 1e3,
                percent(0),
                percent(taken.len() / 2),
                percent(taken.len() - 1),
            ),
        );
    }
    let off: Vec<&Row> =
        rows.iter().filter(|r| r.yardstick.is_some_and(|y| !is_as_calibrated(y))).collect();
    if !off.is_empty() {
        report.remark(&format!(
            "In {} of {} cases the machine was not as it was calibrated: an empty VDP took more than a tenth longer \
             for a frame than the profile says, by {:.0} % in the middle.",
            off.len(),
            rows.len(),
            (middle(off.iter().filter_map(|r| r.yardstick).collect()) - 1.0) * 100.0,
        ));
    }
    if depth == Depth::Full {
        count(&mut rows, watch, report)?;
    }
    by_instructions(&mut rows);
    by_regression(&mut rows);
    Ok(rows)
}

/// Rounds in which all cases are measured, minutes apart: what a machine's neighbours do comes and goes.
const ROUNDS: usize = 2;

/// Rounds of a look at what others take of the last cache, and the seconds that reports tell of.
const LOOKS: usize = 5;
const WHILE: f64 = 0.016;

/// The median.
fn middle(mut all: Vec<f64>) -> f64 {
    all.sort_by(f64::total_cmp);
    all.get(all.len() / 2).copied().unwrap_or(1.0)
}

/// Counts each function's instructions once. Where that fails the report says so.
fn count(rows: &mut [Row], watch: &mut Watch<'_>, report: &mut Report) -> Result<()> {
    for f in functions::ALL {
        if !rows.iter().any(|r| r.function == f.name()) {
            continue;
        }
        watch.next(&format!("{}: counting instructions", f.name()))?;
        let frame = (f.least_frame() + crate::validate::FCS) as u32;
        let entries = f.measured_entries().first().copied().unwrap_or(1).min(1024);
        let case = Case { function: *f, entries, frame, locality: Locality::Uniform };
        let counted = instructions(&case).unwrap_or_else(|e| {
            report.remark(&format!("{}: instructions not counted: {e:#}", f.name()));
            None
        });
        for r in rows.iter_mut().filter(|r| r.function == f.name()) {
            r.instructions = counted;
        }
    }
    Ok(())
}

/// A few cases of every function but these, for rivals to learn from.
fn lessons(but: &[&str]) -> Vec<Case> {
    let others = functions::ALL.iter().filter(|f| !but.contains(&f.name()));
    others
        .flat_map(|f| {
            let few: Vec<u32> = f.measured_entries().iter().take(2).copied().collect();
            Case::all(*f, &few, &[64, 512], &[Locality::Uniform])
        })
        .collect()
}

/// What every study of functions holds constant.
fn conditions(report: &mut Report, depth: Depth) {
    report.condition(
        "measurement",
        format!(
            "from memory, one worker, one VDP; cycles for a frame: lower quartile of 12 samples, {:.0} ms in \
             all, each between two chains of known cycles; 32 Ki frames over and over; between two readings of an empty VDP, up to three times \
             where these are more than a tenth above the profile's{}",
            seconds(depth) * 1e3,
            depth.of("", "; all cases in two rounds, of which the less counts"),
        ),
    );
    report.condition("estimate", "the function's model behind that of the pass through a VDP (vdp-rules, vdp-program), by operations that were calibrated alone");
    report.condition(
        "002's formula",
        "§2.2 as printed, with this machine's clock and last cache's latency",
    );
    report.condition(
        "instructions",
        "counted by callgrind, times the median of cycles by instruction over the other functions",
    );
    report.condition(
        "regression",
        "size of frames and tables, operations, slow path or not; fitted to the other functions",
    );
}
