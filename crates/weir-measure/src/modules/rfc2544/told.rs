//! What was found, as tables, curves and verdicts. RFC 2544 §26 says for each benchmark what its report shows.
//!
//! Pure.

use super::plan::Found;
use crate::Rate;
use crate::document::{
    Axis, Cell, Column, Document, Evidence, Figure, Outcome, Point, Series, Table, Verdict,
};
use crate::rfc2544::{LimitedBy, TrialRecord};
use crate::stats;

/// Puts all of it into the document.
pub(super) fn tell(all: &[Found], document: &mut Document) {
    throughput(all, document);
    delays(all, document);
    losses(all, document);
    bursts(all, document);
    document.verdicts.extend(verdicts(all, document.partial.is_some()));
}

fn size() -> Axis {
    Axis::linear("frame size", "B")
}

/// A line's speed that frames of that size and rate take, in Mb/s.
fn mbps(rate: Rate, size: usize) -> f64 {
    rate.fps() / Rate::of_ethernet(1_000_000, size).map_or(f64::NAN, Rate::fps)
}

fn throughput(all: &[Found], document: &mut Document) {
    if all.iter().all(|f| f.throughput.is_none() && f.mlr.is_none()) {
        return;
    }
    let mut table = Table::new(
        "throughput",
        "Throughput, NDR and PDR by frame size",
        vec![
            Column::number("frame size", "B"),
            Column::number("line", "1/s"),
            Column::number("throughput", "1/s"),
            Column::number("on the line", "Mb/s"),
            Column::text("limit"),
            Column::number("NDR", "1/s"),
            Column::number("PDR", "1/s"),
            Column::number("PDR forwarded", "1/s"),
        ],
    );
    let rates = Axis::log("frames a second", "1/s");
    let mut figure = Figure::new("throughput", "Throughput by frame size", size(), rates);
    let mut curves = ["line", "throughput", "NDR", "PDR"].map(|n| Series::measured(n, ""));
    for f in all.iter().filter(|f| f.throughput.is_some() || f.mlr.is_some()) {
        let t = f.throughput.as_ref();
        let rate = t.and_then(|t| t.rate);
        let bound = |n: usize| f.mlr.as_ref().and_then(|m| m.bounds.get(n));
        let lower = |n: usize| bound(n).and_then(|b| b.lower).map(Rate::fps);
        let limit = match t.map(|t| t.limited_by) {
            Some(LimitedBy::Device { .. }) => "switch",
            Some(LimitedBy::Source) => "source",
            Some(LimitedBy::Range) => "line",
            None if f.mlr.as_ref().is_some_and(|m| m.source_fell_short) => "source",
            None => "",
        };
        table.row([
            Cell::from(f.size as u64),
            Cell::from(f.line.map(Rate::fps)),
            Cell::from(rate.map(Rate::fps)),
            Cell::from(rate.map(|r| mbps(r, f.size))),
            Cell::from(limit),
            Cell::from(lower(0)),
            Cell::from(lower(1)),
            Cell::from(bound(1).and_then(|b| b.conditional_fps)),
        ]);
        let values = [f.line.map(Rate::fps), rate.map(Rate::fps), lower(0), lower(1)];
        for (curve, value) in curves.iter_mut().zip(values) {
            curve.points.extend(value.map(|v| Point::new(f.size as f64, v)));
        }
    }
    figure.series.extend(curves.into_iter().filter(|c| !c.points.is_empty()));
    document.tables.push(table);
    document.figures.push(figure);
}

fn delays(all: &[Found], document: &mut Document) {
    let measured = || all.iter().filter_map(|f| Some((f.size, f.latency.as_ref()?)));
    if measured().next().is_none() {
        return;
    }
    let mut table = Table::new(
        "latency",
        "Latency at the throughput by frame size",
        vec![
            Column::number("frame size", "B"),
            Column::number("rate", "1/s"),
            Column::number("median of medians", "µs"),
            Column::number("p50", "µs"),
            Column::number("p99", "µs"),
            Column::number("longest", "µs"),
            Column::number("delays", ""),
        ],
    );
    let mut figure =
        Figure::new("latency", "Latency at the throughput", size(), Axis::log("latency", "µs"));
    let mut curve = Series::measured("latency", "10th to 90th percentile");
    for (size, d) in measured() {
        let q = |q| d.all.quantile(q).map(|ns| ns as f64 / 1e3);
        let rate = d.trials.first().map(|t| t.offered.fps());
        table.row([
            Cell::from(size as u64),
            Cell::from(rate),
            Cell::from(d.median_ns.map(|ns| ns / 1e3)),
            Cell::from(q(0.5)),
            Cell::from(q(0.99)),
            Cell::from(q(1.0)),
            Cell::from(d.all.count()),
        ]);
        if let (Some(p10), Some(p50), Some(p90)) = (q(0.1), q(0.5), q(0.9)) {
            curve.push(Point::with_spread(size as f64, p50, p10, p90));
        }
    }
    figure.series.push(curve);
    document.tables.push(table);
    document.figures.push(figure);
}

fn losses(all: &[Found], document: &mut Document) {
    let (x, y) = (Axis::linear("offered", "% of the line"), Axis::linear("loss", "%"));
    let mut figure = Figure::new("frame-loss", "Frame loss rate", x, y);
    for f in all {
        let (Some(points), Some(line)) = (&f.loss, f.line) else { continue };
        let mut curve = Series::measured(&format!("{} B", f.size), "");
        // From the highest rate down.
        for p in points.iter().rev() {
            let offered = p.trial.offered_actual.unwrap_or(p.trial.offered);
            curve.push(Point::new(offered.fps() / line.fps() * 100.0, p.loss_percent));
        }
        figure.series.push(curve);
    }
    if !figure.series.is_empty() {
        document.figures.push(figure);
    }
}

fn bursts(all: &[Found], document: &mut Document) {
    let measured = || all.iter().filter_map(|f| Some((f.size, f.back_to_back.as_ref()?)));
    if measured().next().is_none() {
        return;
    }
    let mut table = Table::new(
        "back-to-back",
        "Back-to-back frames by frame size",
        vec![
            Column::number("frame size", "B"),
            Column::number("mean", "frames"),
            Column::number("least", "frames"),
            Column::number("most", "frames"),
            Column::text("limit"),
        ],
    );
    for (size, b) in measured() {
        table.row([
            Cell::from(size as u64),
            Cell::from(b.mean_frames),
            Cell::from(b.longest.iter().min().copied().unwrap_or(0)),
            Cell::from(b.longest.iter().max().copied().unwrap_or(0)),
            Cell::from(match (b.at_limit, b.lost) {
                (true, _) => "longest burst tried",
                (false, true) => "switch",
                (false, false) => "source",
            }),
        ]);
    }
    document.tables.push(table);
}

/// What was lost of this frame size beside the rate that is its throughput: in other benchmarks, and before the
/// source fell short.
fn lost_elsewhere(f: &Found) -> Option<String> {
    let mut parts = Vec::new();
    let short = f.throughput.as_ref().filter(|t| t.limited_by == LimitedBy::Source);
    let trials = short.into_iter().flat_map(|t| &t.trials);
    let trials = trials.chain(f.loss.iter().flatten().map(|p| &p.trial));
    let percent = |t: &TrialRecord| stats::loss_percent(t.sent, t.received);
    let lossy = trials.filter(|t| t.received < t.sent);
    if let Some(t) = lossy.max_by(|a, b| percent(a).total_cmp(&percent(b))) {
        let offered = t.offered_actual.unwrap_or(t.offered);
        parts.push(format!("{:.2} % at {offered}", percent(t)));
    }
    let ndr = f.mlr.as_ref().and_then(|m| m.bounds.first()?.upper);
    parts.extend(ndr.map(|upper| format!("some at {upper}, which is above the NDR")));
    if let Some(b) = f.back_to_back.as_ref().filter(|b| b.lost) {
        let least = b.longest.iter().min().copied().unwrap_or(0);
        parts.push(format!("some of bursts of more than {least}"));
    }
    let any = !parts.is_empty();
    any.then(|| format!("of {} bytes {}", f.size, parts.join(", ")))
}

fn verdicts(all: &[Found], partial: bool) -> Vec<Verdict> {
    let done: Vec<_> = all.iter().filter_map(|f| Some((f, f.throughput.as_ref()?))).collect();
    if done.is_empty() {
        return Vec::new();
    }
    let id = "carries-the-line";
    let device = done.iter().filter(|(_, t)| matches!(t.limited_by, LimitedBy::Device { .. }));
    let device: Vec<_> = device.collect();
    let source = done.iter().filter(|(_, t)| t.limited_by == LimitedBy::Source).count();
    let elsewhere: Vec<_> = all.iter().filter_map(lost_elsewhere).collect();
    let sizes = if done.len() == 1 { "the frame size" } else { "all frame sizes" };
    let mut line = match device.first() {
        Some((f, t)) => {
            let most = t.rate.map_or("no rate tried".to_owned(), |r| r.to_string());
            let sentence = format!(
                "Of {} of {} frame sizes frames are lost below the line's speed; of {} bytes {most} come through whole.",
                device.len(),
                done.len(),
                f.size
            );
            Verdict::new(id, Outcome::Fails, sentence)
        }
        // One trial's luck is not to be told as what the switch does.
        None if !elsewhere.is_empty() => {
            let end = if source > 0 { "the source" } else { "the line" };
            let sentence = format!(
                "The search for the throughput ended where {end} did, but other trials lost frames: {}.",
                elsewhere.join("; ")
            );
            Verdict::new(id, Outcome::Unclear, sentence)
        }
        None if source > 0 => Verdict::new(
            id,
            Outcome::Unclear,
            "The switch carries all that the source could offer, which is less than the line.",
        ),
        None if partial => {
            Verdict::new(id, Outcome::Unclear, "Nothing was lost in what was measured.")
        }
        None => Verdict::new(
            id,
            Outcome::Holds,
            format!("Nothing is lost at the line's speed at {sizes} tried."),
        ),
    };
    line.evidence.extend(done.iter().map(|(f, t)| Evidence {
        what: format!("throughput of {} B", f.size),
        value: t.rate.map(Rate::fps),
        unit: "1/s".to_owned(),
    }));
    let none: Vec<_> = done.iter().filter(|(_, t)| t.rate.is_none()).collect();
    let whole = match none.first() {
        None => Verdict::new(
            "carries-some-rate-whole",
            Outcome::Holds,
            format!("There is a rate without loss at {sizes} tried."),
        ),
        Some((f, _)) => Verdict::new(
            "carries-some-rate-whole",
            Outcome::Fails,
            format!("Frames of {} bytes are lost even at a thousandth of the line.", f.size),
        ),
    };
    vec![line, whole]
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rfc2544::{BackToBack, LossPoint, Throughput};

    fn rate(fps: f64) -> Rate {
        Rate::new(fps).unwrap()
    }

    /// The throughput ended where the source did, or at the line.
    fn found(limited_by: LimitedBy) -> Found {
        let rate = Some(rate(9_000.0));
        let t = Throughput { rate, offered_actual: rate, limited_by, trials: Vec::new() };
        Found { size: 64, throughput: Some(t), ..Found::default() }
    }

    fn losing(limited_by: LimitedBy) -> Found {
        let (offered, sent, received) = (rate(12_000.0), 12_000, 9_000);
        let trial = TrialRecord { offered, offered_actual: None, sent, received };
        let bursts =
            BackToBack { longest: vec![300, 280], mean_frames: 290.0, at_limit: false, lost: true };
        Found {
            loss: Some(vec![LossPoint { trial, loss_percent: 25.0 }]),
            back_to_back: Some(bursts),
            ..found(limited_by)
        }
    }

    fn check(f: Found, outcome: Outcome, words: &str) {
        let v = verdicts(&[f], false).remove(0);
        assert_eq!((v.outcome, v.sentence.as_str()), (outcome, words));
    }

    #[test]
    fn what_other_benchmarks_lost_is_not_denied() {
        check(
            found(LimitedBy::Source),
            Outcome::Unclear,
            "The switch carries all that the source could offer, which is less than the line.",
        );
        check(
            losing(LimitedBy::Source),
            Outcome::Unclear,
            "The search for the throughput ended where the source did, but other trials lost frames: of 64 bytes 25.00 % at 12.000 kfps, some of bursts of more than 280.",
        );
        check(
            found(LimitedBy::Range),
            Outcome::Holds,
            "Nothing is lost at the line's speed at the frame size tried.",
        );
        check(
            losing(LimitedBy::Range),
            Outcome::Unclear,
            "The search for the throughput ended where the line did, but other trials lost frames: of 64 bytes 25.00 % at 12.000 kfps, some of bursts of more than 280.",
        );
    }

    /// It lost frames before the source was too slow for less.
    #[test]
    fn what_the_search_itself_lost_is_not_denied() {
        let mut f = found(LimitedBy::Source);
        let (offered, sent, received) = (rate(12_000.0), 1_000, 990);
        let trial = TrialRecord { offered, offered_actual: None, sent, received };
        f.throughput.as_mut().unwrap().trials.push(trial);
        check(
            f,
            Outcome::Unclear,
            "The search for the throughput ended where the source did, but other trials lost frames: of 64 bytes 1.00 % at 12.000 kfps.",
        );
    }

    /// What the source sent only in part, the switch did not lose.
    #[test]
    fn who_ended_a_search_for_bursts_is_told() {
        for (at_limit, lost, limit) in
            [(true, true, "longest burst tried"), (false, true, "switch"), (false, false, "source")]
        {
            let b = BackToBack { longest: vec![40], mean_frames: 40.0, at_limit, lost };
            let mut d = Document::new(
                "rfc2544",
                "",
                crate::document::Dut::default(),
                crate::environment::Environment::nowhere(),
            );
            bursts(&[Found { back_to_back: Some(b), ..Found::default() }], &mut d);
            assert_eq!(d.tables[0].rows[0].last(), Some(&Cell::from(limit)));
        }
    }
}
