//! A document on a terminal: what matters, on one screen.
//!
//! Pure. Verdicts come first; what does not fit is counted and left to the page. Control characters
//! are replaced, so that a device's words can't move the cursor.

use super::html::shown;
use super::number::{Shown, number, quantity};
use super::pair::told_apart;
use crate::document::table::{ColumnKind, NOT_STATED};
use crate::document::{Cell, Column, Distribution, Document, Figure, Outcome, Table};

/// The document in at most `height` lines of `width` characters; less than 40 by 8 is taken as that.
pub fn summary(d: &Document, width: usize, height: usize) -> String {
    let (width, height) = (width.max(40), height.max(8));
    let mut head = Vec::new();
    let paper = d.paper.as_ref().map_or_else(String::new, |p| format!(" ({p})"));
    // A study's own page is of no device.
    let on = if d.dut.name.is_empty() { String::new() } else { format!(" on {}", d.dut.name) };
    head.push(format!("{}{on}: {}{paper}", d.id, d.title));
    let e = &d.environment;
    let mut how = e.cpu_model.clone();
    if e.date.0 > 0 {
        how = format!("{}, {how}", e.date);
    }
    if d.duration_s > 0.0 {
        how += &format!(", took {}", quantity(d.duration_s, "s"));
    }
    if d.quick {
        how += "; quick run";
    }
    head.push(how);
    head.extend(d.partial.as_ref().map(|why| format!("PARTIAL: {why}")));
    if let Some(p) = &d.probe {
        head.push(format!("a flow is probed every {}", quantity(p.interval_ns, "ns")));
    }
    if let Some(w) = &d.wire {
        let (p50, p99) = (quantity(w.p50_ns, "ns"), quantity(w.p99_ns, "ns"));
        head.push(format!("without the device: median {p50}, p99 {p99}; {}", w.path));
    }
    let mut lines: Vec<String> = head.iter().map(|l| clip(l, width)).collect();

    let mut body: Vec<String> = Vec::new();
    let order = |o: Outcome| match o {
        Outcome::Fails => 0,
        Outcome::Unclear => 1,
        Outcome::Holds => 2,
    };
    let mut verdicts: Vec<_> = d.verdicts.iter().collect();
    verdicts.sort_by_key(|v| order(v.outcome));
    for v in verdicts {
        let sign = match v.outcome {
            Outcome::Holds => '✓',
            Outcome::Fails => '✗',
            Outcome::Unclear => '?',
        };
        let text = format!("{} {}: {}", v.outcome.word(), v.id, v.sentence);
        let wrapped = wrap(&text, width - 2).into_iter().enumerate();
        body.extend(wrapped.map(|(i, l)| format!("{} {l}", if i == 0 { sign } else { ' ' })));
    }
    for n in &d.notes {
        let wrapped = wrap(n, width - 2).into_iter().enumerate();
        body.extend(wrapped.map(|(i, l)| format!("{} {l}", if i == 0 { '·' } else { ' ' })));
    }
    for t in &d.tables {
        body.extend(table(t, width));
    }
    if !d.distributions.is_empty() {
        body.extend(distributions(&d.distributions, width));
    }
    for f in &d.figures {
        body.extend(figure(f));
    }
    let room = height.saturating_sub(lines.len() + 2);
    if !body.is_empty() {
        lines.push(String::new());
    }
    if body.len() > room {
        let kept = room.saturating_sub(1);
        let left = body.len() - kept;
        body.truncate(kept);
        body.push(format!("… and {left} lines more: weir report FILE --out report.html"));
    }
    lines.extend(body.iter().map(|l| clip(l, width)));
    lines.iter().map(|l| l.trim_end().to_owned() + "\n").collect()
}

/// A line each; the numbers take 56 characters, the name what is left.
fn distributions(all: &[Distribution], width: usize) -> Vec<String> {
    let room = width.saturating_sub(56).clamp(12, 40);
    let one_group = all.iter().all(|s| all.first().is_some_and(|f| f.group == s.group));
    let name = |s: &Distribution| {
        let both = !s.group.is_empty() && s.group != s.title && !one_group;
        let text = if both { format!("{}: {}", s.group, s.title) } else { s.title.clone() };
        clip(&text, room)
    };
    let longest = all.iter().map(|s| name(s).chars().count()).max().unwrap_or(0).max(12);
    let mut lines = Vec::new();
    let pad = |text: &str| " ".repeat(longest.saturating_sub(text.chars().count()));
    let title = "distribution";
    lines.push(format!(
        "{title}{}  {:>8} {:>8} {:>8} {:>8} {:>8}  unit",
        pad(title),
        "values",
        "median",
        "p90",
        "p99",
        "most"
    ));
    for s in all {
        let unit = Shown::of(&s.unit, s.percentiles.iter().map(|p| p.1));
        let p = |percent: f64| {
            let value = told_apart(s).find(|p| p.0 == percent);
            value.map_or_else(|| "–".to_owned(), |p| number(p.1 * unit.factor))
        };
        let text = name(s);
        let lost = if s.missing > 0 { format!(", {} missing", s.missing) } else { String::new() };
        lines.push(format!(
            "{text}{}  {:>8} {:>8} {:>8} {:>8} {:>8}  {}{lost}",
            pad(&text),
            number(s.count as f64),
            p(50.0),
            p(90.0),
            p(99.0),
            p(100.0),
            unit.unit
        ));
    }
    lines
}

/// Rows of a table that are shown.
const ROWS: usize = 16;
/// Characters of a cell that are shown.
const CELL: usize = 24;

/// A table in columns, as many as fit the width; what is left out is counted in its title.
fn table(t: &Table, width: usize) -> Vec<String> {
    let shown = |c: &Cell| match c {
        Cell::Number(n) if !n.is_finite() => "–".to_owned(),
        Cell::Number(n) => number(*n),
        Cell::Text(text) => clip(text, CELL),
        Cell::NotStated => NOT_STATED.to_owned(),
    };
    let head = |c: &Column| match c.unit.as_str() {
        "" => clip(&c.name, CELL),
        unit => clip(&format!("{} {unit}", c.name), CELL),
    };
    let mut rows: Vec<Vec<String>> = vec![t.columns.iter().map(head).collect()];
    rows.extend(t.rows.iter().take(ROWS).map(|r| r.iter().map(shown).collect()));
    let of = |n: usize| rows.iter().filter_map(|r| r.get(n)).map(|c| c.chars().count()).max();
    let mut room = width;
    let fits = |n: &usize| {
        let needed = of(*n).unwrap_or(0) + if *n == 0 { 0 } else { 2 };
        let fits = needed <= room;
        room = if fits { room - needed } else { 0 };
        fits
    };
    let kept: Vec<usize> = (0..t.columns.len()).take_while(fits).collect();
    let mut title = t.title.clone();
    let more = |n: usize, what: &str| match n {
        0 => String::new(),
        1 => format!(", and a {what} more"),
        n => format!(", and {n} {what}s more"),
    };
    title += &more(t.columns.len() - kept.len(), "column");
    title += &more(t.rows.len().saturating_sub(ROWS), "row");
    let line = |row: &Vec<String>| {
        let cell = |n: &usize| {
            let text = row.get(*n).map_or("", String::as_str);
            let pad = " ".repeat(of(*n).unwrap_or(0).saturating_sub(text.chars().count()));
            match t.columns.get(*n).map(|c| c.kind) {
                Some(ColumnKind::Number) => pad + text,
                _ => format!("{text}{pad}"),
            }
        };
        kept.iter().map(cell).collect::<Vec<_>>().join("  ")
    };
    let mut lines = vec![title];
    if !t.rows.is_empty() {
        lines.extend(rows.iter().map(line));
    }
    lines
}

/// A line for the figure, and one for each curve: from its first value to its last.
fn figure(f: &Figure) -> Vec<String> {
    let mut lines = vec![format!("{}: {} by {}", f.title, f.y.text(), f.x.text())];
    for s in &f.series {
        let points: Vec<(f64, f64)> = s.points.iter().filter_map(|p| Some((p.x, p.y?))).collect();
        let at = |p: &(f64, f64)| format!("{} at {}", number(p.1), number(p.0));
        let text = match (points.first(), points.last()) {
            (Some(a), Some(b)) if points.len() > 1 => format!("{} … {}", at(a), at(b)),
            (Some(a), _) => at(a),
            _ => "nothing measured".to_owned(),
        };
        lines.push(format!("  {}: {text}", s.name));
    }
    lines
}

fn clean(c: char) -> char {
    match shown(c) {
        '\n' | '\t' => ' ',
        c => c,
    }
}

fn clip(text: &str, width: usize) -> String {
    let clean: String = text.chars().map(clean).collect();
    if clean.chars().count() <= width {
        return clean;
    }
    let mut short: String = clean.chars().take(width.saturating_sub(1)).collect();
    short.push('…');
    short
}

fn wrap(text: &str, width: usize) -> Vec<String> {
    let mut lines = vec![String::new()];
    for word in text.split_whitespace() {
        let word = clip(word, width);
        let Some(line) = lines.last_mut() else { break };
        if line.is_empty() {
            *line = word;
        } else if line.chars().count() + 1 + word.chars().count() <= width {
            line.push(' ');
            line.push_str(&word);
        } else {
            lines.push(word);
        }
    }
    lines
}
