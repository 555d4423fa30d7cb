//! Documents as Markdown: what is kept in a repository beside the JSON.
//!
//! Pure. Verdicts first, then for each module its figures' values and tables, then where it comes from.
//! Whatever a device says is escaped, so that it stays text.

use super::grid::{self, Grid};
use super::html::shown;
use super::pair::{Module, modules};
use crate::document::{Document, Outcome};

/// The documents under a title; `picture` is the file, beside it, that shows their figures.
pub fn markdown(title: &str, documents: &[Document], picture: Option<&str>) -> String {
    let modules = modules(documents);
    let mut text = format!("# {}\n", escaped(title));
    if documents.iter().any(|d| d.quick) {
        text += "\n**Quick run**: in less time or with fewer repetitions than the papers and RFCs ask for.\n";
    }
    text += &verdicts(&modules);
    if let Some(file) = picture {
        text += &format!("\n![{}]({file})\n", escaped(title));
    }
    for m in &modules {
        text += &module(m);
    }
    text + &provenance(documents)
}

fn verdicts(modules: &[Module<'_>]) -> String {
    let mut rows = String::new();
    for (m, (label, d)) in modules.iter().flat_map(|m| m.documents.iter().map(move |d| (m, d))) {
        for v in &d.verdicts {
            let cells = [m.id, label, &v.id, v.outcome.word(), &v.sentence].map(escaped);
            let strong = if v.outcome == Outcome::Holds { "" } else { "**" };
            let [of, device, id, outcome, sentence] = cells;
            rows +=
                &format!("| {of} | {device} | {id} | {strong}{outcome}{strong} | {sentence} |\n");
        }
        if let Some(why) = &d.partial {
            let (of, device, why) = (escaped(m.id), escaped(label), escaped(why));
            rows += &format!("| {of} | {device} | | **partial** | {why} |\n");
        }
    }
    if rows.is_empty() {
        return String::new();
    }
    format!(
        "\n| measurement | device | statement | outcome | what was found |\n| --- | --- | --- | --- | --- |\n{rows}"
    )
}

fn module(m: &Module<'_>) -> String {
    let paper = m.paper().map_or_else(String::new, |p| format!(" ({p})"));
    let mut text = format!("\n## {}\n{}{}.\n", escaped(m.id), escaped(m.title()), escaped(&paper));
    for plot in m.figures() {
        let mut g = grid::values(&plot);
        g.title = format!("{}: {}", plot.title, plot.y.label);
        text += &table(&g);
    }
    for g in grid::tables(m) {
        text += &table(&g);
    }
    let mut said: Vec<&str> = Vec::new();
    for note in m.documents.iter().flat_map(|(_, d)| &d.notes) {
        if !said.contains(&note.as_str()) {
            said.push(note);
        }
    }
    if !said.is_empty() {
        text.push('\n');
        text.extend(said.iter().map(|n| format!("- {}\n", escaped(n))));
    }
    text
}

fn table(g: &Grid) -> String {
    let mut text = format!("\n### {}\n|", escaped(&g.title));
    text.extend(g.columns.iter().map(|c| format!(" {} |", escaped(&grid::head(c)))));
    text += "\n|";
    text.extend((0..g.columns.len()).map(|i| if g.is_number(i) { " ---: |" } else { " --- |" }));
    text.push('\n');
    for row in &g.rows {
        text.push('|');
        text.extend(row.iter().map(|c| format!(" {} |", escaped(&c.shown()))));
        text.push('\n');
    }
    text
}

fn provenance(documents: &[Document]) -> String {
    let Some(d) = documents.iter().find(|d| d.origin.is_measured()) else { return String::new() };
    let e = &d.environment;
    let load =
        e.load_1min.map_or_else(String::new, |l| format!("; load of the machine before: {l}"));
    format!(
        "\nMeasured on {} ({} cores), Linux {}, by weir {} ({}) with `{}`, {}{load}.\n",
        escaped(&e.cpu_model),
        e.cores,
        escaped(&e.kernel),
        escaped(&e.version),
        escaped(&e.commit),
        e.command.replace(['`', '\n', '\r'], " "),
        e.date,
    )
}

/// What means something to Markdown or HTML, made harmless; one line.
fn escaped(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        match shown(c) {
            '\n' | '\t' => out.push(' '),
            '<' => out += "&lt;",
            '&' => out += "&amp;",
            c @ ('|' | '*' | '_' | '`' | '[' | ']' | '\\' | '#') => out.extend(['\\', c]),
            c => out.push(c),
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::document::{Cell, Column, Dut, Table, Verdict};
    use crate::environment::Environment;

    #[test]
    fn what_a_device_says_stays_text() {
        let name = "a|b\n# <script>`x`";
        let dut = Dut { name: name.to_owned(), ..Dut::default() };
        let mut d = Document::new("echo", "How long", dut, Environment::nowhere());
        d.verdicts.push(Verdict::new("told", Outcome::Fails, name));
        let mut t =
            Table::new("t", "A table", vec![Column::text("what"), Column::number("n", "ms")]);
        t.row([Cell::from(name), Cell::from(2.5)]);
        t.row([Cell::from("two")]);
        d.tables.push(t);
        let text = markdown("A title", &[d], Some("x.svg"));
        let safe = "a\\|b \\# &lt;script>\\`x\\`";
        assert!(
            text.contains(&format!("| echo | {safe} | told | **fails** | {safe} |\n")),
            "{text}"
        );
        assert!(
            text.contains(&format!(
                "| what | n (ms) |\n| --- | ---: |\n| {safe} | 2.5 |\n| two | not stated |\n"
            )),
            "{text}"
        );
        // A row has as many cells everywhere.
        assert!(!text.contains("<script"));
    }
}
