//! Every operation of an estimate with its formula and where it comes from.
//!
//! Room: text. Called by `ask`.

use super::say::number;
use crate::commands::columns::Columns;
use std::collections::BTreeSet;
use weir_estimate::Estimate;

/// The operations as a table, and what each costs as a list.
pub fn operations(e: &Estimate) -> String {
    let heads = [
        "operation",
        "arguments",
        "times",
        "cycles",
        "waiting",
        "accesses",
        "main memory",
        "model",
    ];
    let mut table = Columns::new(&heads);
    for l in &e.operations {
        let arguments: Vec<String> =
            l.arguments.iter().map(|(n, v)| format!("{n}={}", number(*v))).collect();
        table.row(vec![
            l.eo.to_string(),
            arguments.join(" "),
            number(l.times),
            number(l.cycles),
            number(l.wait_cycles),
            number(l.accesses),
            number(l.dram_accesses),
            format!("{}:{}", l.place.0, l.place.1),
        ]);
    }
    let mut out = format!("\n{}\n", table.text());
    let mut seen = BTreeSet::new();
    for l in e.operations.iter().filter(|l| seen.insert(&l.eo)) {
        out += &format!("{}\n  cycles    {}\n", l.eo, l.formulas.0);
        if l.formulas.1 != "0" {
            out += &format!("  accesses  {}\n", l.formulas.1);
        }
        let percent = number(l.error * 100.0);
        let (provenance, source) = (l.provenance.0.name(), &l.provenance.1);
        out += &format!("  {provenance}, ±{percent} %: {source}\n");
    }
    out
}
