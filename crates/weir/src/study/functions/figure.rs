//! `nf-l2-basic`, `nf-learning`, `nf-mpls`, `nf-bng`: the scenarios of 002's figures 10 to 13, with what its
//! text says of them.

use super::beside::Beside;
use super::{PLACES, WAYS, asker, conditions, elsewhere, lessons, rows, said};
use crate::functions;
use crate::study::report::{
    Axis, Extent, Figure, NOT_STATED, Point, Published, Report, Series, number,
};
use crate::study::veth_forward::SIZE;
use crate::study::{Depth, Id, Plan, Watch};
use crate::validate::{Case, Locality, Row, Score, measure, order};
use anyhow::{Result, anyhow, bail};
use weir_estimate::estimate::{Mode, Numa};
use weir_estimate::{Question, estimate};

const RATE: Axis = Axis { name: "rate", unit: "million frames per CPU-second" };
/// Every core has a data plane of its own.
const ALL: Axis =
    Axis { name: "rate of all cores together", unit: "million frames per CPU-second" };
/// 002's own machine is told of apart: its lines are not of this one.
const THEIRS: Axis = Axis { name: "002's estimate for its own machine, six cores", unit: "Mpps" };

/// One line of a figure: a function with so many entries in use.
struct Line {
    function: &'static str,
    entries: u32,
    about: String,
}

/// A study's lines.
fn lines(id: Id) -> Vec<Line> {
    let line = |function, entries, about: &str| Line { function, entries, about: about.to_owned() };
    match id {
        Id::NfL2Basic => vec![
            line("l2-basic", 131_072, "a new destination with every frame, 131,072 rules"),
            line("l2-basic", 1024, "1024 destinations"),
        ],
        Id::NfLearning => vec![
            // Two sources, one at each port; an entry is a station, which sends to one at the other port.
            line("l2-learning", 2, "1 pair of addresses a source"),
            line("l2-learning", 20, "10 pairs a source"),
            line("l2-learning", 131_072, "65,536 pairs a source"),
        ],
        Id::NfMpls => vec![
            line("mpls-switch", 1, "1 label, one source"),
            line("mpls-switch", 10, "10 labels"),
            line("mpls-switch", 131_072, "131,072 labels"),
        ],
        _ => vec![
            line("bng-access-plain", 32_768, "subscribers to core, 32 K users"),
            line("bng-core", 32_768, "core to subscribers, 32 K users"),
        ],
    }
}

/// Sizes of frames.
fn sizes(id: Id, depth: Depth) -> &'static [u32] {
    match (id, depth) {
        (Id::NfBng, Depth::Quick) => &[78, 512],
        (Id::NfBng, Depth::Full) => &[78, 128, 204, 256, 512, 1024, 1280],
        (_, Depth::Quick) => &[64, 512],
        (_, Depth::Full) => &[64, 128, 256, 512, 1024, 1518],
    }
}

/// Runs it.
pub fn figure(id: Id, plan: &Plan, watch: &mut Watch<'_>) -> Result<Report> {
    let depth = plan.depth;
    let mut report = Report::new(id, depth.of(Extent::Quick, Extent::Full));
    let mut asker = asker(plan, watch, &mut report)?;
    let mut cases = Vec::new();
    let mut places = Vec::new();
    let lines = lines(id);
    for line in &lines {
        let Some(f) = functions::named(line.function) else {
            bail!("{}: there is no function of that name to be measured", line.function);
        };
        let from = cases.len();
        let entries = line.entries.min(f.most_entries());
        cases.extend(Case::all(f, &[entries], sizes(id, depth), &[Locality::Uniform]));
        places.push(from..cases.len());
    }
    let own = cases.len();
    let names: Vec<&str> = lines.iter().map(|l| l.function).collect();
    cases.extend(lessons(&names));
    let mut rows = rows(&cases, &mut asker, depth, watch, &mut report)?;
    rows.truncate(own);
    let mut beside = Beside::new(plan, &mut report);
    for (case, row) in cases.iter().zip(&mut rows) {
        beside.fill(case, row, &asker, watch, &mut report)?;
    }
    drop(beside);
    let clock = match &asker.profile.hardware {
        weir_estimate::profile::Hardware::Processor(p) => p.clock_hz,
        weir_estimate::profile::Hardware::Pipeline(_) => 0.0,
    };
    let rate = |cycles: f64| clock / cycles / 1e6;
    for (line, place) in lines.iter().zip(places) {
        let of = rows.get(place).unwrap_or_default();
        let mut add = |name: String, value: &dyn Fn(&Row) -> Option<f64>| {
            let point = |r: &Row| Some(Point::of(f64::from(r.frame_bytes), vec![rate(value(r)?)]));
            let points: Vec<Point> = of.iter().filter_map(point).collect();
            if !points.is_empty() {
                report.series.push(Series { name, x: SIZE, y: RATE, points });
            }
        };
        add(format!("measured: {}", line.about), &|r| Some(r.measured));
        for (way, name) in WAYS.iter().enumerate() {
            add(format!("{name}: {}", line.about), &|r| said(r).get(way).copied().flatten());
        }
        for (name, of) in PLACES {
            add(format!("measured {name}: {}", line.about), &|r| Some(of(r)?.measured));
            add(format!("estimate {name}: {}", line.about), &|r| Some(of(r)?.estimate));
        }
    }
    for (way, name) in WAYS.iter().enumerate() {
        let pairs: Vec<(f64, f64)> = rows
            .iter()
            .filter_map(|r| Some((r.measured, said(r).get(way).copied().flatten()?)))
            .collect();
        if let Some(s) = Score::of(&pairs) {
            let mut add = |what: &str, value: f64| {
                let what = format!("{name}: {what}");
                report.figures.push(Figure::of(what, value, "%", None));
            };
            add("median absolute error", s.median * 100.0);
            add("90th percentile", s.p90 * 100.0);
        }
    }
    elsewhere(&mut report, &rows);
    if id == Id::NfBng {
        let per = rows.len() / lines.len().max(1);
        let both: Vec<(&Row, &Row)> =
            rows.iter().zip(rows.get(per..).unwrap_or_default()).collect();
        together(&mut report, &cases, &both, &rate, depth, watch)?;
        theirs(&mut report)?;
    }
    conditions(&mut report, depth);
    report
        .condition("clock", format!("{:.0} MHz: rates are it by cycles for a frame", clock / 1e6));
    report.published = published(id, &rows, &rate);
    report.cases = rows;
    Ok(report)
}

/// Both directions at once: as many data planes as there are cores, each with one of them.
fn together(
    report: &mut Report,
    cases: &[Case],
    both: &[(&Row, &Row)],
    rate: &dyn Fn(f64) -> f64,
    depth: Depth,
    watch: &mut Watch<'_>,
) -> Result<()> {
    let cpus = weir_calibrate::cpus::allowed();
    let (mut measured, mut estimated) = (Vec::new(), Vec::new());
    for (access, core) in both {
        watch.next(&format!("{} cores, frames of {} bytes", cpus.len(), access.frame_bytes))?;
        let of = |row: &Row| {
            let is = |c: &&Case| {
                c.function.name() == row.function
                    && c.frame == row.frame_bytes
                    && c.entries == row.entries
            };
            cases.iter().find(is).copied()
        };
        let (Some(a), Some(b)) = (of(access), of(core)) else { continue };
        let cycles: Vec<Result<f64>> = std::thread::scope(|scope| {
            let begun: Vec<_> = cpus
                .iter()
                .enumerate()
                .map(|(i, cpu)| {
                    let case = if i.is_multiple_of(2) { a } else { b };
                    scope.spawn(move || {
                        weir_calibrate::cpus::pin(*cpu);
                        let order = order(case.entries, case.locality);
                        Ok(measure(&case, &order, super::seconds(depth))?.cycles)
                    })
                })
                .collect();
            let done = begun.into_iter().map(|t| t.join());
            done.map(|r| r.unwrap_or_else(|_| Err(anyhow!("a core's measurement ended early"))))
                .collect()
        });
        let cycles = cycles.into_iter().collect::<Result<Vec<f64>>>()?;
        let x = f64::from(access.frame_bytes);
        measured.push(Point::of(x, vec![cycles.iter().map(|c| rate(*c)).sum()]));
        let of = |i: usize| rate(if i.is_multiple_of(2) { access.estimate } else { core.estimate });
        estimated.push(Point::of(x, vec![(0..cpus.len()).map(of).sum()]));
    }
    let n = cpus.len();
    for (name, points) in [("measured", measured), ("estimate", estimated)] {
        let name = format!("{name}: both directions, {n} cores");
        report.series.push(Series { name, x: SIZE, y: ALL, points });
    }
    Ok(())
}

/// 002's lines for its own machine: generic, and with half of the frames at the other socket.
fn theirs(report: &mut Report) -> Result<()> {
    use crate::commands::estimate::{Files, shelf};
    let library = shelf::library(&Files::default())?;
    let profile = shelf::profile(&library, "xeon-e5-2690v2")?;
    let all =
        [(Numa::Local, "generic"), (Numa::Spread, "platform-specific: half of the frames remote")];
    for (numa, name) in all {
        let mut points = Vec::new();
        for frame in sizes(Id::NfBng, Depth::Full) {
            let question = Question {
                mode: Mode::Corrected,
                frame: *frame,
                cores: 6,
                numa,
                ..Question::default()
            };
            let e = estimate(&library, "bng", &profile, &question)?;
            points.push(Point::of(f64::from(*frame), vec![e.rates.mpps]));
        }
        report.series.push(Series { name: name.to_owned(), x: SIZE, y: THEIRS, points });
    }
    report.remark(
        "002's two lines are drawn for its own machine, by its formulas as printed (mode 'corrected', model \
         'bng', six cores); a frame of n bytes from the other socket takes 30 + 5 * ceil(n / 64) cycles and \
         ceil(n / 64) accesses to main memory. This machine has one socket: no frame of its own is remote.",
    );
    Ok(())
}

/// What 002's text says; only that.
fn published(id: Id, rows: &[Row], rate: &dyn Fn(f64) -> f64) -> Vec<Published> {
    let at = |i: usize| {
        let r = rows.get(i);
        r.map_or_else(String::new, |r| {
            format!(
                "{} million frames per CPU-second at {} bytes",
                number(rate(r.measured)),
                r.frame_bytes
            )
        })
    };
    let one = |what, value, source, ours: String| Published { what, value, source, ours };
    let per = rows.len() / lines(id).len().max(1);
    match id {
        Id::NfL2Basic => vec![
            one(
                "estimate",
                "around 17 Mpps, whatever the frame's size",
                "§4.1.1, figure 10",
                String::new(),
            ),
            one(
                "measured",
                "line rate but for frames under 128 bytes; the estimate 4 % off",
                "§4.1.1, figure 10",
                at(0),
            ),
            one("measured rates by size", NOT_STATED, "figure 10", at(0)),
        ],
        Id::NfLearning => vec![
            one("measured, 1 pair", "about 16 Mpps up to 128 bytes", "§4.1.2, figure 11", at(0)),
            one("measured, 10 pairs", "5 Mpps under 512 bytes", "§4.1.2, figure 11", at(per)),
            one("estimate", "about 10.5 Mpps", "§4.1.2, figure 11", String::new()),
            one(
                "cycles of a renewed time stamp in the microflow cache",
                "about 140, where the estimate has about 350",
                "§4.1.2",
                String::new(),
            ),
        ],
        Id::NfMpls => vec![
            one("estimate", "16.76 Mpps", "§4.1.3, figure 12", String::new()),
            one("measured, 1 label", NOT_STATED, "figure 12", at(0)),
            one(
                "measured, 10 labels",
                "about one third of basic forwarding",
                "§4.1.3, figure 12",
                at(per),
            ),
        ],
        _ => vec![
            one("estimate by cores, 78 bytes, six cores", "42.5 Mpps", "§4.2", String::new()),
            one("estimate by memory, 78 bytes", "23.74 Mpps", "§4.2, figure 13", String::new()),
            one("generic estimate's average error up to 204 bytes", "7 %", "§4.2", String::new()),
            one("measured rates by size", NOT_STATED, "figure 13", at(0)),
        ],
    }
}
