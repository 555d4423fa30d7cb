//! An estimate for people.
//!
//! Room: text. Called by `ask`.

use crate::commands::columns::Columns;
use weir_estimate::Estimate;
use weir_estimate::estimate::{MAX_CORES, Needed};

/// A number with two decimals, or fewer where they are zero.
pub fn number(v: f64) -> String {
    let text = format!("{v:.2}");
    text.trim_end_matches('0').trim_end_matches('.').to_owned()
}

/// How many cores a rate takes.
pub fn cores(needed: &Needed) -> String {
    match (needed.cores, &needed.hindered_by) {
        (Some(c), _) => format!("{c} cores"),
        (None, Some(by)) if by == "core" || by == "host" => {
            format!("more than {MAX_CORES} cores")
        }
        (None, Some(by)) => format!("no number of cores: bound by {by}"),
        (None, None) => "no number of cores".to_owned(),
    }
}

/// The rates, the limits, and what binds.
pub fn answer(e: &Estimate) -> String {
    let n = number;
    let mut out = format!(
        "{} on {}, {} cores, {} bytes, mode {}\n\n",
        e.model,
        e.profile,
        e.cores,
        e.frame,
        e.mode.name()
    );
    let of = if e.wait_cycles > 0.0 {
        format!(" ({} of them waiting)", n(e.wait_cycles))
    } else {
        String::new()
    };
    out += &format!(
        "rate      {} Mpps, {} Gbps on the wire; from {} to {} Mpps\n",
        n(e.rates.mpps),
        n(e.rates.gbps),
        n(e.interval_mpps.0),
        n(e.interval_mpps.1),
    );
    out += &format!("bound by  {}\n", e.bottleneck);
    out += &format!(
        "a frame   {} cycles{of}, {} accesses to main memory\n\n",
        n(e.cycles),
        n(e.dram_accesses)
    );
    let mut limits = Columns::new(&["limit", "Mpps", "how"]);
    for l in &e.limits {
        limits.row(vec![l.name.clone(), n(l.mpps), l.about.clone()]);
    }
    out += &limits.text();
    if !e.hits.is_empty() {
        let mut heads = vec!["table"];
        let names = e.hits.first().map(|h| h.levels.as_slice()).unwrap_or_default();
        heads.extend(names.iter().map(|l| l.0.as_str()));
        let mut hits = Columns::new(&heads);
        for h in &e.hits {
            let part = |l: &(String, f64)| format!("{:.3}", l.1);
            let cells = std::iter::once(h.table.clone()).chain(h.levels.iter().map(part));
            hits.row(cells.collect());
        }
        out += "\n";
        out += &hits.text();
    }
    if let Some(needed) = &e.needed {
        out += &format!("\nfor {} Mpps: {}\n", n(needed.mpps), cores(needed));
    }
    for q in &e.quoted {
        out += &format!("\nquoted    {} = {}: {}\n", q.figure, n(q.value), q.source);
    }
    for note in &e.notes {
        out += &format!("\nnote: {note}\n");
    }
    out
}
