//! The same against a process of `weir dut`, over sockets and veths, by the clock: once each.
//!
//! `weir measure run --lab` makes the namespaces and the device; here its result is judged.

use crate::{Anything, DELAYS, HEAD, first_packet_us, origin, row, shown};
use std::ops::Range;
use std::path::Path;
use std::process::Command;
use weir_measure::document::{Comparison, Document};
use weir_measure::truth::{Case, Must, Set, cases, failing, sentences};

/// Probes of the last entry, one in 32 µs.
const INSERT: Set =
    &[("entries", "1,20"), ("repetitions", "60"), ("rate", "25"), ("watch", "last")];

/// Measures, and prints as it goes. Insertion delays are case 0, and the profiles that come along follow.
pub(crate) fn all(weir: &str, range: Range<usize>) -> Result<(), Anything> {
    let directory = std::env::temp_dir().join(format!("weir-truth-{}", std::process::id()));
    std::fs::create_dir_all(&directory)?;
    let done = measure(weir, &directory, range);
    std::fs::remove_dir_all(&directory)?;
    done
}

fn measure(weir: &str, directory: &Path, range: Range<usize>) -> Result<(), Anything> {
    if range.contains(&0) {
        println!("## By the clock\n");
        let command = "cargo run --release -p weir-measure --example ground_truth -- --weir weir";
        println!("A process of `weir dut` each time, once each, {}.\n", origin(command));
        delays(weir, directory)?;
        println!("{HEAD}");
    }
    let mut wrong = 0;
    for (n, case) in cases::profiles().iter().enumerate() {
        if !range.contains(&(n + 1)) {
            continue;
        }
        let result = run(weir, &case.fault, case.module, case.set)?;
        let (told, found) = match (case.judge(&result), figure(case, &result)) {
            (Ok(f), _) => (f.figure.map(shown).unwrap_or_default(), "yes".to_owned()),
            // By the clock the program itself and its machine take time, too: named is what counts.
            (Err(_), Some(value)) => {
                (shown(value), "yes; the figure with what the program takes".to_owned())
            }
            (Err(why), None) => {
                wrong += 1;
                (String::new(), format!("**no**: {why}"))
            }
        };
        println!("{}{told} | {found} |", row(case));
    }
    if wrong == 0 { Ok(()) } else { Err(format!("{wrong} not found as they must be").into()) }
}

/// The figure of a case that is named as it must be, but for the figure's size.
fn figure(case: &Case, result: &Result<Document, String>) -> Option<f64> {
    let (fails, id, what): (&[&str], &str, &str) = match case.must {
        Must::Tell(id, what, _) => (&[], id, what),
        Must::FailBy(fails, what, _) => (fails, fails.first()?, what),
        _ => return None,
    };
    let d = result.as_ref().ok().filter(|d| failing(d) == fails)?;
    d.verdicts.iter().find(|v| v.id == id)?.evidence.iter().find(|e| e.what == what)?.value
}

/// Insertion delays beside a device without any.
fn delays(weir: &str, directory: &Path) -> Result<(), Anything> {
    let (one, twenty) = at(weir, directory, 0.0)?;
    println!(
        "A device that needs no time of its own takes {one:.0} µs for one entry and {twenty:.0} µs for twenty: the sockets, the program, and the probes' 32 µs.\n"
    );
    println!(
        "| configured | one entry | beyond the device without | twenty | each, beyond | off |"
    );
    println!("| ---: | ---: | ---: | ---: | ---: | ---: |");
    for us in DELAYS {
        let (first, last) = at(weir, directory, us)?;
        let (beyond, each) = (first - one, (last - twenty) / 20.0);
        let worst = [beyond - us, each - us]
            .into_iter()
            .fold(0.0, |w: f64, x| if x.abs() > w.abs() { x } else { w });
        println!(
            "| {us} µs | {first:.0} µs | {beyond:.0} µs | {last:.0} µs | {each:.1} µs | {worst:.1} µs, {:.2} % |",
            worst / us * 100.0
        );
    }
    println!();
    Ok(())
}

/// Medians for one entry and for twenty, in microseconds.
fn at(weir: &str, directory: &Path, us: f64) -> Result<(f64, f64), Anything> {
    let file = directory.join("insert.toml");
    let text =
        format!("name = \"insert\"\nabout = \"inserts in {us} µs\"\n[update]\ninsert_us = {us}\n");
    std::fs::write(&file, text)?;
    let d = run(weir, &file.display().to_string(), "flow-insert", INSERT)??;
    if !failing(&d).is_empty() {
        println!("insertion in {us} µs: {}\n", sentences(&d));
    }
    Ok((first_packet_us(&d, 0)?, first_packet_us(&d, 1)?))
}

/// What `weir measure run` finds, or what it says where it finds nothing.
fn run(
    weir: &str,
    lab: &str,
    module: &str,
    set: Set,
) -> Result<Result<Document, String>, Anything> {
    let mut c = Command::new(weir);
    c.args(["measure", "run", module, "--lab", lab, "--quick", "--json", "--patience", "3"]);
    for (name, value) in set {
        c.arg("--set").arg(format!("{name}={value}"));
    }
    let out = c.output().map_err(|e| format!("{weir}: {e}"))?;
    let said = String::from_utf8(out.stdout)?;
    if said.trim().is_empty() {
        let why = String::from_utf8_lossy(&out.stderr);
        return Ok(Err(why.lines().last().unwrap_or("it said nothing").to_owned()));
    }
    match serde_json::from_str::<Document>(&said) {
        Ok(d) => Ok(Ok(d)),
        Err(_) => {
            let all: Comparison = serde_json::from_str(&said)?;
            Ok(all.documents.into_iter().next().ok_or_else(|| "no document".to_owned()))
        }
    }
}
