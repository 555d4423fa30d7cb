//! The report as one page of HTML: verdicts first, then each module's pictures and tables, then
//! where it all comes from, with the documents and their samples inside, to be saved from it.
//!
//! Pure. The style (`page.css`) and the script (`page.js`) go into the page as they are; the script
//! draws the pictures from data in the page, and without it the tables say the same.

use super::grid::{self, Grid, Shape};
use super::html::{Html, policy};
use super::matrix::{self, Matrix, Row};
use super::number::quantity;
use super::pair::{Module, Plot, modules};
use crate::document::{Cell, Document, Origin, Outcome, Verdict, file};
use crate::environment::UNKNOWN;
use std::collections::BTreeMap;

const STYLE: &str = include_str!("page.css");
const SCRIPT: &str = include_str!("page.js");

/// Rows of a table of a picture's values; the rest is in the data.
const ROWS: usize = 400;

/// Characters of a text that stays on one line in a table.
const NAME: usize = 24;

/// Samples that are put into the page, in bytes of all their files together; those of later
/// distributions are left beside their documents, and the page says so.
pub const EMBED: usize = 16 << 20;

/// The page.
pub fn html(documents: &[Document]) -> String {
    let mut h = Html::default();
    h.raw("<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n");
    h.raw("<meta http-equiv=\"Content-Security-Policy\"");
    h.attribute("content", &policy(STYLE, SCRIPT)).raw(">\n");
    h.raw("<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n");
    h.raw("<meta name=\"color-scheme\" content=\"light dark\">\n");
    h.raw("<link rel=\"icon\" href=\"data:,\">\n");
    let modules = modules(documents);
    h.raw("<title>").text(&title(&modules)).raw("</title>\n");
    h.raw("<style>").raw(STYLE).raw("</style>\n</head>\n<body>\n");
    h.raw("<a class=\"skip\" href=\"#verdicts\">Skip to the verdicts</a>\n");
    top(&mut h, &modules, documents);
    h.raw("<main>\n");
    verdicts(&mut h, &modules);
    let mut number = 0;
    for (i, m) in modules.iter().enumerate() {
        module(&mut h, m, i, &mut number);
    }
    provenance(&mut h, &modules);
    h.raw("</main>\n");
    data(&mut h, &modules);
    h.raw("<script>").raw(SCRIPT).raw("</script>\n</body>\n</html>\n");
    h.into_string()
}

fn title(modules: &[Module<'_>]) -> String {
    let ids: Vec<&str> = modules.iter().map(|m| m.id).collect();
    match ids.as_slice() {
        [] => "weir report: nothing in it".to_owned(),
        [a, b, c, _, ..] => format!("weir report: {a}, {b}, {c} and others"),
        some => format!("weir report: {}", some.join(", ")),
    }
}

fn plural(n: usize, one: &str, many: &str) -> String {
    format!("{n} {}", if n == 1 { one } else { many })
}

fn top(h: &mut Html, modules: &[Module<'_>], documents: &[Document]) {
    h.raw("<header>\n<h1>weir report</h1>\n");
    let mut devices: Vec<&str> = Vec::new();
    for d in documents.iter().filter(|d| d.origin.is_measured()) {
        if !devices.contains(&d.dut.name.as_str()) {
            devices.push(&d.dut.name);
        }
    }
    let measured = |d: &&Document| d.origin.is_measured() && !d.dut.name.is_empty();
    let count = documents.iter().filter(measured).count();
    let counted = plural(count, "measurement", "measurements");
    let of = devices.iter().filter(|d| !d.is_empty()).copied().collect::<Vec<_>>().join(", ");
    let sentence = if of.is_empty() { counted } else { format!("{counted} of {of}") };
    h.raw("<p class=\"lead\">").text(&sentence).raw("</p>\n");
    for (m, (label, d)) in modules.iter().flat_map(|m| m.documents.iter().map(move |d| (m, d))) {
        if let Some(why) = &d.partial {
            let text =
                format!("{} on {label} ended early: {why}. What it had found is here.", m.id);
            h.raw("<p class=\"warning\"><strong>Partial.</strong> ").text(&text).raw("</p>\n");
        }
    }
    if documents.iter().any(|d| d.quick) {
        let all = documents.iter().filter(measured).all(|d| d.quick);
        let which = if all { "All of it" } else { "A part of it (marked)" };
        h.raw("<p class=\"warning\"><strong>Quick run.</strong> ").text(which);
        h.raw(" was measured in less time or with fewer repetitions than the papers and RFCs ask for.</p>\n");
    }
    if modules.len() > 1 {
        h.raw("<nav aria-label=\"Contents\"><ul>\n");
        for (i, m) in modules.iter().enumerate() {
            h.raw("<li><a")
                .attribute("href", &format!("#m{i}"))
                .raw(">")
                .text(m.id)
                .raw("</a></li>\n");
        }
        h.raw("<li><a href=\"#provenance\">where it comes from</a></li>\n</ul></nav>\n");
    }
    h.raw("</header>\n");
}

fn mark(h: &mut Html, outcome: Outcome) {
    // The word says it, the sign shows it, the colour repeats it.
    let (class, sign) = match outcome {
        Outcome::Holds => ("holds", "✓"),
        Outcome::Fails => ("fails", "✗"),
        Outcome::Unclear => ("unclear", "?"),
    };
    h.raw("<span").attribute("class", &format!("outcome {class}"));
    h.raw("><span aria-hidden=\"true\">").raw(sign).raw("</span> ").text(outcome.word());
    h.raw("</span>");
}

/// Devices that stand beside each other in one table: what a sheet of paper is wide enough for.
const BESIDE: usize = 8;

/// Where devices are compared: a row for each statement, a column for each device; of many devices a table for
/// some at a time, with the statements that are made of them.
fn matrix(h: &mut Html, modules: &[Module<'_>]) {
    let Matrix { devices, rows } = matrix::of(modules);
    // Wires are a device, too, of which nothing is said that is said of a switch.
    if rows.iter().all(|r| r.outcomes.iter().flatten().count() < 2) {
        return;
    }
    let tables = devices.len().div_ceil(BESIDE);
    let wide = devices.len().div_ceil(tables);
    for (n, some) in devices.chunks(wide).enumerate() {
        let of = |row: &Row<'_>| row.outcomes.iter().skip(n * wide).take(wide).copied().collect();
        let rows: Vec<(String, Vec<Option<Outcome>>)> =
            rows.iter().map(|r| (format!("{}: {}", r.module, r.verdict), of(r))).collect();
        some_of_matrix(h, some, &rows);
    }
}

fn some_of_matrix(h: &mut Html, devices: &[&str], rows: &[(String, Vec<Option<Outcome>>)]) {
    h.raw("<div class=\"scroll\"><table class=\"matrix\">\n<thead><tr><th scope=\"col\">statement</th>");
    for d in devices {
        h.raw("<th scope=\"col\">").text(d).raw("</th>");
    }
    h.raw("</tr></thead>\n<tbody>\n");
    for (statement, outcomes) in rows.iter().filter(|r| r.1.iter().any(Option::is_some)) {
        h.raw("<tr><th scope=\"row\">").text(statement).raw("</th>");
        for outcome in outcomes.iter().copied() {
            h.raw("<td>");
            if let Some(o) = outcome {
                mark(h, o);
            }
            h.raw("</td>");
        }
        h.raw("</tr>\n");
    }
    h.raw("</tbody>\n</table></div>\n");
}

fn verdicts(h: &mut Html, modules: &[Module<'_>]) {
    h.raw("<section id=\"verdicts\">\n<h2>Verdicts</h2>\n");
    let any = modules.iter().any(|m| m.documents.iter().any(|(_, d)| !d.verdicts.is_empty()));
    if !any {
        h.raw("<p>These measurements come to no verdict: they report figures.</p>\n</section>\n");
        return;
    }
    matrix(h, modules);
    h.raw("<div class=\"scroll\"><table class=\"verdicts\">\n<thead><tr><th scope=\"col\">measurement</th>");
    h.raw("<th scope=\"col\">device</th><th scope=\"col\">statement</th><th scope=\"col\">outcome</th>");
    h.raw("<th scope=\"col\">what was found</th></tr></thead>\n<tbody>\n");
    let mut all: Vec<(usize, &Module<'_>, &str, &Verdict)> = Vec::new();
    for (i, m) in modules.iter().enumerate() {
        for (label, d) in &m.documents {
            all.extend(d.verdicts.iter().map(|v| (i, m, label.as_str(), v)));
        }
    }
    // What does not hold is what one reads first; the others stay in the modules' order.
    all.sort_by_key(|(.., v)| match v.outcome {
        Outcome::Fails => 0,
        Outcome::Unclear => 1,
        Outcome::Holds => 2,
    });
    for (i, m, label, v) in all {
        h.raw("<tr><td class=\"w\"><a").attribute("href", &format!("#m{i}")).raw(">").text(m.id);
        let class = if label.chars().count() <= NAME { " class=\"w\"" } else { "" };
        h.raw("</a></td><td")
            .raw(class)
            .raw(">")
            .text(label)
            .raw("</td><td>")
            .text(&v.id)
            .raw("</td><td>");
        mark(h, v.outcome);
        h.raw("</td><td>").text(&v.sentence);
        if !v.evidence.is_empty() {
            h.raw("<ul class=\"evidence\">");
            for e in &v.evidence {
                let value = e.value.map_or_else(|| "none".into(), |n| quantity(n, &e.unit));
                h.raw("<li>").text(&e.what).raw(": <b>").text(&value).raw("</b></li>");
            }
            h.raw("</ul>");
        }
        h.raw("</td></tr>\n");
    }
    h.raw("</tbody>\n</table></div>\n</section>\n");
}

fn module(h: &mut Html, m: &Module<'_>, index: usize, number: &mut usize) {
    h.raw("<section class=\"module\"").attribute("id", &format!("m{index}")).raw(">\n");
    h.element("h2", m.id);
    h.raw("\n<p class=\"asks\">").text(m.title());
    if let Some(paper) = m.paper() {
        h.raw(" <span class=\"paper\">").text(&format!("answers {paper}")).raw("</span>");
    }
    h.raw("</p>\n");
    let mut measured = m.documents.iter().filter(|(_, d)| d.origin.is_measured()).peekable();
    let all_quick = measured.peek().is_some() && measured.all(|(_, d)| d.quick);
    if all_quick {
        h.raw("<p class=\"marked\">quick run</p>\n");
    }
    for (label, d) in &m.documents {
        let quick = d.quick && !all_quick;
        if quick || d.partial.is_some() {
            let mut marks = Vec::new();
            marks.extend(quick.then(|| "quick run".to_owned()));
            marks.extend(d.partial.as_ref().map(|why| format!("partial: {why}")));
            let text = format!("{label}: {}", marks.join("; "));
            h.raw("<p class=\"marked\">").text(&text).raw("</p>\n");
        }
    }
    let figures = m.figures();
    let curves = m.percentile_curves();
    for plot in figures.iter().chain(&curves) {
        *number += 1;
        picture(h, plot, *number);
    }
    for g in grid::tables(m) {
        h.element("h3", &g.title);
        table(h, &g, usize::MAX);
    }
    let g = grid::distributions(m);
    if !g.rows.is_empty() {
        h.element("h3", &g.title);
        table(h, &g, usize::MAX);
    }
    let notes: Vec<(&str, &str)> = m
        .documents
        .iter()
        .flat_map(|(label, d)| d.notes.iter().map(move |n| (label.as_str(), n.as_str())))
        .collect();
    if !notes.is_empty() {
        h.raw("<h3>Notes</h3>\n<ul>\n");
        // Each once, in the order in which they come, with whose they are.
        let mut places: BTreeMap<&str, usize> = BTreeMap::new();
        let mut said: Vec<(&str, Vec<&str>)> = Vec::new();
        for (of, note) in notes {
            let at = *places.entry(note).or_insert(said.len());
            match said.get_mut(at) {
                Some(s) => s.1.push(of),
                None => said.push((note, vec![of])),
            }
        }
        for (note, of) in said {
            h.raw("<li>");
            if of.len() < m.documents.len() {
                h.text(&of.join(", ")).raw(": ");
            }
            h.text(note).raw("</li>\n");
        }
        h.raw("</ul>\n");
    }
    h.raw("</section>\n");
}

fn picture(h: &mut Html, plot: &Plot, number: usize) {
    h.raw("<figure class=\"plot\">\n<figcaption><b>Figure ")
        .text(&number.to_string())
        .raw(".</b> ");
    h.text(&plot.title).raw("</figcaption>\n");
    h.raw("<div class=\"chart\"></div>\n");
    h.raw("<script type=\"application/json\" class=\"plot-data\">").json(plot).raw("</script>\n");
    h.raw("<details><summary>Values as a table</summary>\n");
    table(h, &grid::values(plot), ROWS);
    h.raw("</details>\n</figure>\n");
}

fn table(h: &mut Html, g: &Grid, rows: usize) {
    h.raw("<div class=\"scroll\" tabindex=\"0\" role=\"region\"").attribute("aria-label", &g.title);
    h.raw("><table class=\"data\"").attribute("data-name", &g.id).raw(">\n<thead><tr>");
    for (i, c) in g.columns.iter().enumerate() {
        h.raw("<th scope=\"col\"").raw(if g.is_number(i) { " class=\"n\"" } else { "" });
        h.raw(">").text(&grid::head(c)).raw("</th>");
    }
    h.raw("</tr></thead>\n<tbody>\n");
    for row in g.rows.iter().take(rows) {
        h.raw("<tr>");
        for (i, cell) in row.iter().enumerate() {
            let class = match cell {
                _ if g.is_number(i) => " class=\"n\"",
                // A name is not broken at its hyphens.
                Shape::Text(t) if t.chars().count() <= NAME => " class=\"w\"",
                _ => "",
            };
            h.raw("<td").raw(class);
            match cell {
                Shape::Number(n) | Shape::Spread(n, ..) => {
                    h.attribute("data-v", &n.to_string());
                }
                Shape::NotStated => {
                    h.attribute("data-v", "");
                }
                Shape::Text(_) | Shape::Empty => (),
            }
            h.raw(">").text(&cell.shown()).raw("</td>");
        }
        h.raw("</tr>\n");
    }
    h.raw("</tbody>\n</table></div>\n");
    if g.rows.len() > rows {
        let text = format!("The first {rows} of {} rows; the data has all.", g.rows.len());
        h.raw("<p class=\"marked\">").text(&text).raw("</p>\n");
    }
}

fn provenance(h: &mut Html, modules: &[Module<'_>]) {
    h.raw("<section id=\"provenance\">\n<h2>Where it comes from</h2>\n");
    let mut at = 0;
    for m in modules {
        for (label, d) in &m.documents {
            h.raw("<details class=\"origin\" data-print><summary>");
            let when = when(d).map_or_else(String::new, |w| format!(", {w}"));
            h.text(&format!("{} on {label}{when}", m.id)).raw("</summary>\n");
            one_provenance(h, d);
            h.raw("<p class=\"downloads\"").attribute("data-document", &at.to_string());
            h.raw("></p>\n</details>\n");
            at += 1;
        }
    }
    h.raw("</section>\n");
}

/// When it was measured; results of before dates were noted have none.
fn when(d: &Document) -> Option<String> {
    Some(d.environment.date).filter(|d| d.0 > 0).map(|d| d.to_string())
}

fn one_provenance(h: &mut Html, d: &Document) {
    if let Origin::Published(source) = &d.origin {
        h.raw("<p>").text(&format!("Published, not measured here: {source}.")).raw("</p>\n");
        return;
    }
    let mut rows: Vec<(&str, String)> = Vec::new();
    let dut = &d.dut;
    rows.push(("device", dut.name.clone()));
    if !dut.control.is_empty() {
        rows.push(("control channel", dut.control.clone()));
    }
    if !dut.ports.is_empty() {
        rows.push(("ports", dut.ports.join(", ")));
    }
    rows.extend(dut.description.iter().map(|(n, v)| (n.as_str(), v.clone())));
    let e = &d.environment;
    let virtual_machine = if e.virtualised { ", virtual machine" } else { "" };
    rows.push(("machine", format!("{}{virtual_machine}", e.machine)));
    let cores = plural(e.cores, "core", "cores");
    rows.push(("processor", format!("{}, {cores}, {}", e.cpu_model, e.architecture)));
    if e.memory_bytes > 0 {
        rows.push(("memory", quantity(e.memory_bytes as f64 / f64::from(1 << 30), "GiB")));
    }
    rows.push(("kernel", e.kernel.clone()));
    let commit = if e.commit == UNKNOWN { "" } else { &e.commit };
    rows.push(("program", format!("weir {} {commit}", e.version)));
    rows.push(("command", e.command.clone()));
    rows.extend(when(d).map(|w| ("noted", w)));
    if d.duration_s > 0.0 {
        rows.push(("took", quantity(d.duration_s, "s")));
    }
    if let Some(load) = e.load_1min {
        rows.push(("load of the machine before", quantity(load, "")));
    }
    if let Some(p) = &d.probe {
        let text = format!(
            "{} from one probe of a flow to its next: {} frames a second of {} bytes, shared by {}",
            quantity(p.interval_ns, "ns"),
            quantity(p.rate_pps, ""),
            p.frame_bytes,
            plural(p.flows as usize, "flow", "flows"),
        );
        rows.push(("probe resolution", text));
    }
    if let Some(w) = &d.wire {
        let drift =
            w.drift_ppm.map_or_else(String::new, |d| format!(", drift {}", quantity(d, "ppm")));
        let jitter =
            w.jitter_ns.map_or_else(String::new, |j| format!(", jitter {}", quantity(j, "ns")));
        let path = if w.path.is_empty() { String::new() } else { format!("; {}", w.path) };
        let text = format!(
            "median {}, p99 {}, longest {}{jitter}{drift}; {} frames, stamps: {}{path}",
            quantity(w.p50_ns, "ns"),
            quantity(w.p99_ns, "ns"),
            quantity(w.max_ns, "ns"),
            w.frames,
            w.stamps
        );
        rows.push(("without the device", text));
    }
    h.raw("<dl>\n");
    for (name, value) in rows {
        h.raw("<dt>").text(name).raw("</dt><dd>").text(&value).raw("</dd>\n");
    }
    h.raw("</dl>\n");
    if !d.parameters.is_empty() {
        h.raw("<h3>Parameters</h3>\n<dl>\n");
        for p in &d.parameters {
            let value = match &p.value {
                Cell::Number(n) if p.unit.is_empty() => n.to_string(),
                Cell::Number(n) => format!("{n} {}", p.unit),
                Cell::Text(t) => t.clone(),
                Cell::NotStated => "not set".to_owned(),
            };
            h.raw("<dt>").text(&p.name).raw("</dt><dd>").text(&value).raw("</dd>\n");
        }
        h.raw("</dl>\n");
    }
    if let Some(g) = grid::loads(d) {
        h.element("h3", &g.title);
        table(h, &g, usize::MAX);
    }
}

/// The documents and their samples, for the script to offer.
fn data(h: &mut Html, modules: &[Module<'_>]) {
    let mut room = EMBED;
    let mut at = 0;
    for d in modules.iter().flat_map(|m| m.documents.iter().map(|d| d.1)) {
        let name = super::stem(d);
        h.raw("<script type=\"application/json\" class=\"document\"");
        h.attribute("data-document", &at.to_string())
            .attribute("data-name", &format!("{name}.json"));
        h.raw(">").data(&d.to_json().unwrap_or_default()).raw("</script>\n");
        for s in &d.distributions {
            let Some(f) = &s.samples else { continue };
            let text = if s.raw.is_empty() { String::new() } else { file::sample_text(s) };
            let inside = !text.is_empty() && text.len() <= room;
            h.raw("<script type=\"text/plain\" class=\"samples\"");
            h.attribute("data-document", &at.to_string()).attribute("data-name", &f.file).raw(">");
            if inside {
                room -= text.len();
                // Numbers, behind a unit: escaped as JSON would be, which a unit can bear.
                h.data(&text);
            }
            h.raw("</script>\n");
        }
        at += 1;
    }
}
