//! Several devices side by side on a terminal: a row for each verdict, a column for each device; then what
//! was found where a verdict does not hold.
//!
//! Pure. Control characters are replaced, as in [`super::terminal`].

use super::html::shown;
use super::matrix::{self, Matrix};
use super::pair::modules;
use crate::document::{Document, Outcome};

/// The longest name of a device that heads a column.
const NAME: usize = 22;

/// The documents as text; those that are a paper's have no verdicts and are left out.
pub fn text(documents: &[Document]) -> String {
    let modules = modules(documents);
    let Matrix { devices, rows: statements } = matrix::of(&modules);
    let mut rows = vec![[vec![String::new()], devices.iter().map(|d| clip(d)).collect()].concat()];
    for s in &statements {
        let cells = s.outcomes.iter().map(|o| word(*o).to_owned());
        rows.push([format!("{}: {}", s.module, s.verdict)].into_iter().chain(cells).collect());
    }
    let mut found = Vec::new();
    for m in &modules {
        for (label, d) in m.documents.iter().filter(|(_, d)| d.origin.is_measured()) {
            if let Some(why) = &d.partial {
                found.push(format!("! {} on {label}: partial: {why}", m.id));
            }
            for v in &d.verdicts {
                let sign = match v.outcome {
                    Outcome::Holds => continue,
                    Outcome::Fails => '✗',
                    Outcome::Unclear => '?',
                };
                found.push(format!("{sign} {} on {label}: {}", m.id, v.sentence));
            }
        }
    }
    let widths: Vec<usize> = (0..=devices.len())
        .map(|i| rows.iter().filter_map(|r| r.get(i)).map(|c| c.chars().count()).max().unwrap_or(0))
        .collect();
    let line = |r: &Vec<String>| {
        let cells = r.iter().zip(&widths).map(|(c, w)| format!("{c:<w$}"));
        cells.collect::<Vec<_>>().join("  ").trim_end().to_owned() + "\n"
    };
    let mut text: String =
        if rows.len() > 1 { rows.iter().map(line).collect() } else { String::new() };
    if !found.is_empty() {
        text.push('\n');
        text.extend(found.iter().map(|f| clean(f) + "\n"));
    }
    text
}

fn word(outcome: Option<Outcome>) -> &'static str {
    match outcome {
        Some(Outcome::Holds) => "✓ holds",
        Some(Outcome::Fails) => "✗ fails",
        Some(Outcome::Unclear) => "? unclear",
        None => "–",
    }
}

fn clean(text: &str) -> String {
    text.chars()
        .map(|c| match shown(c) {
            '\n' | '\t' => ' ',
            c => c,
        })
        .collect()
}

fn clip(text: &str) -> String {
    let text = clean(text);
    if text.chars().count() <= NAME {
        return text;
    }
    text.chars().take(NAME - 1).chain(['…']).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::document::{Dut, Origin, Verdict};
    use crate::environment::Environment;

    fn one(device: &str, outcome: Outcome) -> Document {
        let dut = Dut { name: device.to_owned(), ..Dut::default() };
        let mut d = Document::new("flow-insert", "", dut, Environment::nowhere());
        d.verdicts.push(Verdict::new("barrier-truthful", outcome, "It was\x1b[2J answered early."));
        d
    }

    #[test]
    fn a_row_for_each_verdict_and_a_column_for_each_device() {
        let mut published = one("Switch1", Outcome::Fails);
        published.origin = Origin::Published("001".to_owned());
        let mut stopped = one("third", Outcome::Unclear);
        stopped.partial = Some("it went".to_owned());
        let all = [one("first", Outcome::Holds), one("second", Outcome::Fails), stopped, published];
        assert_eq!(
            text(&all),
            "                               first    second   third\n\
             flow-insert: barrier-truthful  ✓ holds  ✗ fails  ? unclear\n\n\
             ✗ flow-insert on second: It was\u{fffd}[2J answered early.\n\
             ! flow-insert on third: partial: it went\n\
             ? flow-insert on third: It was\u{fffd}[2J answered early.\n"
        );
        assert_eq!(text(&[]), "");
    }
}
