//! What a study found: the JSON's shape, and the same as text and as Markdown.
//!
//! Pure. Every number that is printed is computed here from the samples, so that samples and
//! summary can't disagree.

use serde::{Deserialize, Serialize};
use std::cmp::Ordering;
use std::fmt::Write;
use weir_dataplane::Snapshot;
use weir_measure::document::Outcome;
use weir_measure::stats::Summary;

/// All of it.
#[derive(Clone, Debug, Serialize)]
pub struct Report {
    /// The study's name.
    pub study: &'static str,
    /// What it answers.
    pub answers: &'static str,
    /// How much of it was measured.
    pub extent: Extent,
    /// Load of the machine over the last minute when it began.
    pub load_at_start: Option<f64>,
    /// What was held constant.
    pub conditions: Vec<Condition>,
    /// What was measured.
    pub series: Vec<Series>,
    /// What does not fit a curve.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub tables: Vec<Table>,
    /// Every case of a comparison of estimates.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub cases: Vec<crate::validate::Row>,
    /// What follows from it, beside what weir promises where it promises something.
    pub figures: Vec<Figure>,
    /// What the paper states of the same.
    pub published: Vec<Published>,
    /// Every frame that the data planes of this study received from memory, and its end.
    pub accounts: Option<Accounts>,
    /// What a reader must know to judge the figures.
    pub remarks: Vec<String>,
}

/// How much was measured.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Extent {
    /// All, with the durations and repetitions of the paper, the RFC, or the study.
    Full,
    /// All, in shorter trials than RFC 2544 asks for.
    Reduced,
    /// In so little time that the figures only show that it works.
    Quick,
}

/// Something held constant.
#[derive(Clone, Debug, Serialize)]
pub struct Condition {
    /// What.
    pub name: String,
    /// Its value, with its unit.
    pub value: String,
}

/// A quantity.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct Axis {
    /// What it is.
    pub name: &'static str,
    /// Its unit; empty for a plain number.
    pub unit: &'static str,
}

/// Rows under a head.
#[derive(Clone, Debug, Serialize)]
pub struct Table {
    /// What it tells.
    pub title: String,
    /// Names of its columns.
    pub head: Vec<String>,
    /// Its rows.
    pub rows: Vec<Vec<String>>,
}

/// One curve.
#[derive(Clone, Debug, Serialize)]
pub struct Series {
    /// Of what.
    pub name: String,
    /// What was varied.
    pub x: Axis,
    /// What was measured.
    pub y: Axis,
    /// Its points.
    pub points: Vec<Point>,
}

/// One point of a curve.
#[derive(Clone, Debug, Serialize)]
pub struct Point {
    /// Where on the axis.
    pub x: f64,
    /// The samples' median: what counts. `null` when nothing could be measured.
    pub median: Option<f64>,
    /// The lowest sample.
    pub min: Option<f64>,
    /// The highest sample.
    pub max: Option<f64>,
    /// Every sample, in the order in which they were taken.
    pub samples: Vec<f64>,
    /// What must be known of this point.
    pub remark: Option<String>,
    /// The trials behind the samples, where there are several to a sample.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub trials: Vec<Trial>,
    /// The CPU time behind the samples, where they are what is left of two.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub costs: Vec<Cost>,
}

/// CPU time over veth in one round; see `whole_path`.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Cost {
    /// Frames that left the generator.
    pub sent: u64,
    /// Frames that came out at the other end.
    pub delivered: u64,
    /// CPU time of the thread and of `ksoftirqd`, in nanoseconds a frame sent.
    pub total_ns: f64,
    /// The part of it that was `ksoftirqd`'s.
    pub ksoftirqd_ns: f64,
    /// What the generator costs alone, in the same round.
    pub generator_ns: f64,
}

/// One RFC 2544 trial.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct Trial {
    /// The rate asked for, in frames per second.
    pub asked_fps: f64,
    /// The rate that was really offered.
    pub offered_fps: Option<f64>,
    /// Frames sent.
    pub sent: u64,
    /// Frames that arrived whole where they should.
    pub received: u64,
}

/// Something that follows from the measurement.
#[derive(Clone, Debug, Serialize)]
pub struct Figure {
    /// What.
    pub what: String,
    /// Its value.
    pub value: f64,
    /// Its unit.
    pub unit: &'static str,
    /// What it is the median of; none where it was computed otherwise, or counted.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub samples: Vec<f64>,
    /// What weir promises of it.
    pub promised: Option<Promise>,
    /// Whether that holds, once the report is judged.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub outcome: Option<Outcome>,
}

/// A bound that weir sets itself.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
pub struct Promise {
    /// Which side.
    pub bound: Bound,
    /// The bound.
    pub value: f64,
}

/// Which side of a bound is good.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Bound {
    /// This or more.
    AtLeast,
    /// This or less.
    AtMost,
}

impl Promise {
    /// Whether `value` keeps it.
    pub fn kept(self, value: f64) -> bool {
        match self.bound {
            Bound::AtLeast => value >= self.value,
            Bound::AtMost => value <= self.value,
        }
    }
    /// Whether it holds of `value`, the median of `samples` where there are any. They can't tell where more than a quarter of them
    /// lie on the bound's other side, nor can a run whose figures are none.
    pub fn outcome(self, value: f64, samples: &[f64], extent: Extent) -> Outcome {
        let kept = self.kept(value);
        let others = samples.iter().filter(|s| self.kept(**s) != kept).count();
        if extent == Extent::Quick || others * 4 > samples.len() {
            Outcome::Unclear
        } else if kept {
            Outcome::Holds
        } else {
            Outcome::Fails
        }
    }
}

impl Figure {
    /// The median of these samples, if there are any.
    pub fn median(
        what: impl Into<String>,
        samples: &[f64],
        unit: &'static str,
        promised: Option<Promise>,
    ) -> Option<Self> {
        let value = Summary::of(samples)?.median;
        Some(Self { samples: samples.to_vec(), ..Self::of(what, value, unit, promised) })
    }
    /// A value that is no median of samples.
    pub fn of(
        what: impl Into<String>,
        value: f64,
        unit: &'static str,
        promised: Option<Promise>,
    ) -> Self {
        Self { what: what.into(), value, unit, samples: Vec::new(), promised, outcome: None }
    }
    /// What is promised of it, and whether that holds, in words.
    fn told(&self) -> Option<String> {
        let p = self.promised?;
        let word = if p.bound == Bound::AtLeast { "at least" } else { "at most" };
        let outcome = match self.outcome {
            Some(Outcome::Holds) => "kept".to_owned(),
            Some(Outcome::Fails) => "**not kept**".to_owned(),
            _ => match Summary::of(&self.samples).filter(|s| p.kept(s.min) != p.kept(s.max)) {
                Some(s) => {
                    format!("**unclear**, from {} to {}", number(s.min), number(s.max))
                }
                None => "unclear".to_owned(),
            },
        };
        Some(format!("{word} {}: {outcome}", number(p.value)))
    }
}

/// What a paper states, beside ours.
#[derive(Clone, Debug, Serialize)]
pub struct Published {
    /// Of what.
    pub what: &'static str,
    /// In the paper's own words and units, or `not stated`.
    pub value: &'static str,
    /// Where it stands.
    pub source: &'static str,
    /// Ours, in words.
    pub ours: String,
}

/// What stands where a paper gives no number in its text.
pub const NOT_STATED: &str = "not stated";

/// Sums over the data planes of a study.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Accounts {
    /// Frames that came.
    pub received: u64,
    /// Frames that programs made.
    #[serde(default)]
    pub generated: u64,
    /// Copies.
    #[serde(default)]
    pub cloned: u64,
    /// Frames that were sent.
    pub forwarded: u64,
    /// Frames that ended at a program, a controller or a stack.
    #[serde(default)]
    pub consumed: u64,
    /// Frames that were dropped.
    pub dropped: u64,
    /// Frames that were still inside.
    pub held: u64,
}

impl Accounts {
    /// Adds what became of a data plane's frames.
    pub fn add(&mut self, s: &Snapshot) {
        for c in s.vdps.iter().map(|v| &v.counters).chain([&s.retired, &s.unmapped]) {
            self.received += c.received.frames;
            self.generated += c.generated;
            self.cloned += c.cloned;
            self.forwarded += c.forwarded.frames;
            self.consumed += c.consumed;
            self.dropped += c.dropped.total();
        }
        self.held += s.vdps.iter().map(|v| v.held as u64).sum::<u64>();
    }
    /// Adds another's sums.
    pub fn merge(&mut self, other: &Self) {
        self.received += other.received;
        self.generated += other.generated;
        self.cloned += other.cloned;
        self.forwarded += other.forwarded;
        self.consumed += other.consumed;
        self.dropped += other.dropped;
        self.held += other.held;
    }
    /// The sums, and whether every frame is in them: a study of an earlier weir did not count all that they come to.
    pub fn told(&self) -> String {
        let some = |n: u64, what: &str| match n {
            0 => String::new(),
            n => format!(" + {n} {what}"),
        };
        let made = some(self.generated, "generated") + &some(self.cloned, "cloned");
        let ended = format!(
            "{} forwarded{} + {} dropped + {} held",
            self.forwarded,
            some(self.consumed, "consumed"),
            self.dropped,
            self.held
        );
        let came: u128 = [self.received, self.generated, self.cloned].map(u128::from).iter().sum();
        let went: u128 =
            [self.forwarded, self.consumed, self.dropped, self.held].map(u128::from).iter().sum();
        let received = self.received;
        match went.cmp(&came) {
            Ordering::Equal => {
                format!("every one accounted for: {received} received{made} = {ended}")
            }
            Ordering::Less => {
                let missing = came - went;
                format!("{missing} not accounted for: {received} received{made}, {ended}")
            }
            Ordering::Greater => {
                let more = went - came;
                format!("{more} more than came: {received} received{made}, {ended}")
            }
        }
    }
}

impl Point {
    /// Of these samples.
    pub fn of(x: f64, samples: Vec<f64>) -> Self {
        let s = Summary::of(&samples);
        Self {
            x,
            median: s.map(|s| s.median),
            min: s.map(|s| s.min),
            max: s.map(|s| s.max),
            samples,
            remark: None,
            trials: Vec::new(),
            costs: Vec::new(),
        }
    }
}

impl Series {
    /// The median at `x`.
    pub fn at(&self, x: f64) -> Option<f64> {
        self.points.iter().find(|p| p.x == x)?.median
    }
}

impl Report {
    /// An empty one.
    pub fn new(id: super::Id, extent: Extent) -> Self {
        let load = std::fs::read_to_string("/proc/loadavg").ok();
        Self {
            study: id.name(),
            answers: id.answers(),
            extent,
            load_at_start: load.and_then(|l| l.split(' ').next()?.parse().ok()),
            conditions: Vec::new(),
            series: Vec::new(),
            tables: Vec::new(),
            cases: Vec::new(),
            figures: Vec::new(),
            published: Vec::new(),
            accounts: None,
            remarks: Vec::new(),
        }
    }
    /// Notes what was held constant.
    pub fn condition(&mut self, name: &str, value: impl ToString) {
        self.conditions.push(Condition { name: name.to_owned(), value: value.to_string() });
    }
    /// Notes what a reader must know.
    pub fn remark(&mut self, text: &str) {
        self.remarks.push(text.to_owned());
    }
    /// Says of every promise whether it holds.
    pub fn judge(&mut self) {
        for f in &mut self.figures {
            f.outcome = f.promised.map(|p| p.outcome(f.value, &f.samples, self.extent));
        }
    }
    /// The series of that name and quantity.
    pub fn find(&self, name: &str, y: Axis) -> Option<&Series> {
        self.series.iter().find(|s| s.name == name && s.y == y)
    }
    /// Series that can stand in one table and one picture: same axes. In order of appearance.
    pub fn groups(&self) -> Vec<Vec<&Series>> {
        let mut groups: Vec<Vec<&Series>> = Vec::new();
        for s in &self.series {
            let same = |g: &&mut Vec<&Series>| g.first().is_some_and(|f| f.x == s.x && f.y == s.y);
            match groups.iter_mut().find(same) {
                Some(g) => g.push(s),
                None => groups.push(vec![s]),
            }
        }
        groups
    }

    /// As Markdown; the terminal gets the same.
    pub fn markdown(&self) -> String {
        let mut t = String::new();
        self.write(&mut t);
        t
    }

    fn write(&self, t: &mut String) {
        // Writing to a string can't fail.
        let _ = writeln!(t, "# {}\n\n{}.\n", self.study, sentence(self.answers));
        if self.extent == Extent::Quick {
            let _ = writeln!(t, "**Quick run: these figures only show that the study works.**\n");
        }
        for group in self.groups() {
            write_table(t, &group);
        }
        for table in &self.tables {
            let _ = writeln!(t, "{}:\n", sentence(&table.title));
            let rows: Vec<Vec<String>> =
                std::iter::once(&table.head).chain(&table.rows).cloned().collect();
            write_rows(t, &rows);
        }
        if !self.figures.is_empty() {
            let mut rows = vec![["figure", "value", "promised"].map(String::from).to_vec()];
            for f in &self.figures {
                let promised = f.told().unwrap_or_else(|| "–".to_owned());
                let value = format!("{} {}", number(f.value), f.unit);
                rows.push(vec![f.what.clone(), value.trim_end().to_owned(), promised]);
            }
            write_rows(t, &rows);
        }
        if !self.published.is_empty() {
            let head = ["published", "the paper's value", "where", "ours"];
            let mut rows = vec![head.map(String::from).to_vec()];
            for p in &self.published {
                let row = [p.what, p.value, p.source, &p.ours];
                rows.push(row.map(String::from).to_vec());
            }
            write_rows(t, &rows);
        }
        let _ = writeln!(t, "Held constant:\n");
        for c in &self.conditions {
            let _ = writeln!(t, "- {}: {}", c.name, c.value);
        }
        if let Some(a) = self.accounts {
            let _ = writeln!(t, "- frames from memory, {}", a.told());
        }
        t.push('\n');
        for r in &self.remarks {
            let _ = writeln!(t, "{r}\n");
        }
    }
}

fn sentence(text: &str) -> String {
    let mut c = text.chars();
    c.next().map_or_else(String::new, |first| first.to_uppercase().chain(c).collect())
}

/// A number in as many digits as it deserves, thousands apart.
pub fn number(n: f64) -> String {
    let decimals = match n.abs() {
        a if a >= 100.0 || n == n.trunc() => 0,
        a if a >= 10.0 => 1,
        _ => 2,
    };
    let text = format!("{n:.decimals$}");
    let (whole, rest) = text.split_once('.').map_or((text.as_str(), None), |(w, r)| (w, Some(r)));
    let digits = whole.trim_start_matches('-');
    let mut out = String::new();
    for (i, c) in digits.chars().enumerate() {
        if i > 0 && (digits.len() - i).is_multiple_of(3) {
            out.push(',');
        }
        out.push(c);
    }
    let sign = if whole.starts_with('-') { "-" } else { "" };
    rest.map_or_else(|| format!("{sign}{out}"), |r| format!("{sign}{out}.{r}"))
}

fn write_table(t: &mut String, group: &[&Series]) {
    let Some(first) = group.first() else { return };
    let unit = |a: Axis| if a.unit.is_empty() { String::new() } else { format!(" ({})", a.unit) };
    let _ = writeln!(t, "{}{}, median [lowest, highest]:\n", sentence(first.y.name), unit(first.y));
    let mut head = vec![format!("{}{}", first.x.name, unit(first.x))];
    head.extend(group.iter().map(|s| s.name.clone()));
    let mut xs: Vec<f64> = group.iter().flat_map(|s| s.points.iter().map(|p| p.x)).collect();
    xs.sort_by(f64::total_cmp);
    xs.dedup();
    let mut rows = vec![head];
    let mut notes: Vec<String> = Vec::new();
    for x in xs {
        let mut row = vec![number(x)];
        for s in group {
            let point = s.points.iter().find(|p| p.x == x);
            let mut cell = point.map_or_else(
                || "–".to_owned(),
                |p| match (p.median, p.min, p.max) {
                    (Some(m), Some(a), Some(b)) if p.samples.len() > 1 => {
                        format!("{} [{}, {}]", number(m), number(a), number(b))
                    }
                    (Some(m), ..) => number(m),
                    _ => "none".to_owned(),
                },
            );
            if let Some(r) = point.and_then(|p| p.remark.as_ref()) {
                let at = notes.iter().position(|n| n == r).unwrap_or_else(|| {
                    notes.push(r.clone());
                    notes.len() - 1
                });
                let _ = write!(cell, " ({})", at + 1);
            }
            row.push(cell);
        }
        rows.push(row);
    }
    write_rows(t, &rows);
    for (i, n) in notes.iter().enumerate() {
        let _ = writeln!(t, "({}) {n}\n", i + 1);
    }
}

/// A Markdown table whose columns are as wide as their widest cell; the first row is the head.
fn write_rows(t: &mut String, rows: &[Vec<String>]) {
    let columns = rows.first().map_or(0, Vec::len);
    let wide = |i: usize| {
        rows.iter().filter_map(|r| r.get(i)).map(|c| c.chars().count()).max().unwrap_or(0)
    };
    let widths: Vec<usize> = (0..columns).map(wide).collect();
    for (n, row) in rows.iter().enumerate() {
        for (cell, width) in row.iter().zip(&widths) {
            let _ = write!(t, "| {cell:width$} ");
        }
        t.push_str("|\n");
        if n == 0 {
            for width in &widths {
                let _ = write!(t, "| {} ", "-".repeat(*width));
            }
            t.push_str("|\n");
        }
    }
    t.push('\n');
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn frames_are_accounted_for_where_the_sum_holds() {
        let mut a = Accounts { received: 9, forwarded: 5, dropped: 2, ..Accounts::default() };
        assert_eq!(a.told(), "2 not accounted for: 9 received, 5 forwarded + 2 dropped + 0 held");
        (a.consumed, a.cloned, a.held) = (3, 2, 1);
        assert_eq!(
            a.told(),
            "every one accounted for: 9 received + 2 cloned = 5 forwarded + 3 consumed + 2 dropped + 1 held"
        );
        a.forwarded = 6;
        assert!(a.told().starts_with("1 more than came: "), "{}", a.told());
        // What ends at a program is no less accounted for than what is sent.
        let mut counters = weir_dataplane::VdpCounters::default();
        (counters.received.frames, counters.consumed) = (4, 4);
        let mut sums = Accounts::default();
        sums.add(&Snapshot {
            at: weir_packet::Nanos(0),
            ports: Vec::new(),
            vdps: Vec::new(),
            retired: counters,
            unmapped: weir_dataplane::VdpCounters::default(),
            frames: weir_dataplane::FramesView::default(),
        });
        assert_eq!((sums.consumed, sums.received), (4, 4));
    }

    #[test]
    fn numbers_read_well() {
        for (n, text) in [
            (1_234_567.0, "1,234,567"),
            (123.4, "123"),
            (12.34, "12.3"),
            (1.234, "1.23"),
            (-0.5, "-0.50"),
            (-1234.0, "-1,234"),
            (64.0, "64"),
            (0.0, "0"),
        ] {
            assert_eq!(number(n), text);
        }
    }

    #[test]
    fn a_table_has_a_row_for_each_x_and_a_note_once() {
        let (x, y) = (Axis { name: "VDPs", unit: "" }, Axis { name: "cost", unit: "ns" });
        let mut short = Point::of(4.0, vec![]);
        short.remark = Some("lost".to_owned());
        let a =
            Series { name: "a".into(), x, y, points: vec![Point::of(4.0, vec![3.0, 1.0, 2.0])] };
        let mut other = short.clone();
        other.x = 8.0;
        let b = Series { name: "b".into(), x, y, points: vec![short, other] };
        let mut t = String::new();
        write_table(&mut t, &[&a, &b]);
        let want = "Cost (ns), median [lowest, highest]:\n\n\
            | VDPs | a        | b        |\n\
            | ---- | -------- | -------- |\n\
            | 4    | 2 [1, 3] | none (1) |\n\
            | 8    | –        | none (1) |\n\n\
            (1) lost\n\n";
        assert_eq!(t, want);
    }

    #[test]
    fn promises() {
        let p = Promise { bound: Bound::AtMost, value: 20.0 };
        assert!(p.kept(20.0) && !p.kept(20.1) && !p.kept(f64::NAN));
    }

    #[test]
    fn samples_on_both_sides_of_a_bound_and_quick_runs_decide_nothing() {
        use Outcome::{Fails, Holds, Unclear};
        let judged = |samples: &[f64], extent, bound| {
            let mut r = Report::new(crate::study::Id::VdpScale, extent);
            let p = Some(Promise { bound, value: 20.0 });
            r.figures.extend(Figure::median("cost", samples, "ns", p));
            r.judge();
            let text = r.markdown();
            let line = text.lines().find(|l| l.starts_with("| cost")).unwrap().to_owned();
            (r.figures[0].outcome.unwrap(), line)
        };
        let (full, most, least) = (Extent::Full, Bound::AtMost, Bound::AtLeast);
        let (outcome, line) = judged(&[202.9, -241.4, 11.5], full, most);
        assert_eq!(outcome, Unclear);
        assert!(line.ends_with("| at most 20: **unclear**, from -241 to 203 |"), "{line}");
        let (outcome, _) = judged(&[19.0, 46.1, 11.5], full, most);
        assert_eq!(outcome, Unclear);
        // One that was disturbed is what medians are for.
        let (outcome, line) = judged(&[19.0, 20.0, 46.1, 11.5], full, most);
        assert_eq!(outcome, Holds);
        assert!(line.ends_with("| at most 20: kept |"), "{line}");
        let (outcome, line) = judged(&[19.0, 19.9, 11.5], Extent::Reduced, least);
        assert_eq!(outcome, Fails);
        assert!(line.ends_with("| at least 20: **not kept** |"), "{line}");
        let (outcome, line) = judged(&[19.0, 18.0, 11.5], Extent::Quick, most);
        assert_eq!(outcome, Unclear);
        assert!(line.ends_with("| at most 20: unclear |"), "{line}");
        // What was counted has no samples.
        let p = Promise { bound: Bound::AtMost, value: 0.0 };
        assert_eq!((p.outcome(0.0, &[], full), p.outcome(1.0, &[], full)), (Holds, Fails));
    }
}
