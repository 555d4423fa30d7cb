//! The same against a process of `weir dut`, over sockets and veths, by the clock: once each, insertion delays in
//! [`ROUNDS`].
//!
//! `weir measure run --lab` makes the namespaces and the device; here its result is judged. Each thing that was
//! measured is kept in a file of its own, so that whoever is interrupted goes on where it was.

use crate::{Anything, DELAYS, HEAD, commit, first_packet_us, origin, row, shown};
use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Instant;
use weir_measure::document::{Comparison, Document};
use weir_measure::truth::{Case, Must, Set, cases, failing, sentences};

/// Probes of the last entry, one in 16 µs.
const INSERT: Set =
    &[("entries", "1,20"), ("repetitions", "24"), ("rate", "50"), ("watch", "last")];
/// Each delay in turn, so often: what a machine does to one run it does to all delays alike, in the median.
const ROUNDS: usize = 5;

/// The heading of the page's part that is written here, up to its end.
const PART: &str = "## By the clock\n";

/// What is asked for.
pub(crate) struct Asked {
    /// The program.
    pub(crate) weir: String,
    /// Where what was measured is kept.
    pub(crate) keep: PathBuf,
    /// The page whose last part is to be replaced; `None`: it is printed.
    pub(crate) into: Option<PathBuf>,
}

/// Measures, and writes the page's part when all is there.
pub(crate) fn all(asked: &Asked) -> Result<(), Anything> {
    std::fs::create_dir_all(&asked.keep)?;
    let command = "cargo run --release -p weir-measure --example ground_truth -- --weir weir";
    let mut measuring = Measuring { asked, begun: Instant::now(), wrong: Vec::new() };
    let commit = commit();
    let origin = measuring.kept("origin", |_| Ok(origin(command)))?;
    if !origin.contains(&commit) {
        let keep = asked.keep.display();
        return Err(format!(
            "{keep} is of another commit than {commit}: empty it, or give another --keep"
        )
        .into());
    }
    let mut part = format!("{PART}\nA process of `weir dut` each time, once each, {origin}.\n\n");
    measuring.delays(&mut part)?;
    measuring.profiles(&mut part)?;
    match &asked.into {
        None => print!("{part}"),
        Some(page) => {
            let text = std::fs::read_to_string(page)?;
            let at = text.find(PART).ok_or("the page has no part 'By the clock'")?;
            std::fs::write(page, format!("{}{part}", &text[..at]))?;
        }
    }
    match measuring.wrong.first() {
        None => Ok(()),
        Some(first) => {
            let n = measuring.wrong.len();
            Err(format!("{n} not as they must be: {first}").into())
        }
    }
}

struct Measuring<'a> {
    asked: &'a Asked,
    begun: Instant,
    wrong: Vec<String>,
}

impl Measuring<'_> {
    /// What was kept under that name, or else is measured now.
    fn kept(
        &self,
        name: &str,
        measure: impl FnOnce(&str) -> Result<String, Anything>,
    ) -> Result<String, Anything> {
        let file = self.asked.keep.join(name);
        if let Ok(text) = std::fs::read_to_string(&file) {
            return Ok(text);
        }
        eprintln!("{:4.0} s: {name}", self.begun.elapsed().as_secs_f64());
        let text = measure(&self.asked.weir)?;
        // Whole or not at all.
        let half = self.asked.keep.join("half");
        std::fs::write(&half, &text)?;
        std::fs::rename(&half, &file)?;
        Ok(text)
    }

    /// Insertion delays beside a device without any.
    fn delays(&mut self, part: &mut String) -> Result<(), Anything> {
        let (one, twenty) = self.at(0.0)?;
        write!(
            part,
            "### Insertion delays\n\nMedians of {ROUNDS} rounds, each the median of {} runs of each size. A device that needs no time of its own takes {one:.0} µs for one \
             entry and {twenty:.0} µs for twenty: the sockets, the program, and the probes' 16 µs. Allowed: 5 % or 20 µs, \
             whichever is more.\n\n\
             | configured | one entry | beyond the device without | off | twenty | each, beyond | off | within |\n\
             | ---: | ---: | ---: | ---: | ---: | ---: | ---: | --- |\n",
            INSERT.iter().find(|s| s.0 == "repetitions").map_or("", |s| s.1)
        )?;
        for us in DELAYS {
            let (first, last) = self.at(us)?;
            let (beyond, each) = (first - one, (last - twenty) / 20.0);
            let allowed = (us * 0.05).max(20.0);
            let within = [beyond, each].iter().all(|got| (got - us).abs() <= allowed);
            if !within {
                self.wrong.push(format!("{us} µs: {beyond:.1} µs and {each:.1} µs"));
            }
            let off = |got: f64| format!("{:.1} µs, {:.2} %", got - us, (got - us) / us * 100.0);
            writeln!(
                part,
                "| {us} µs | {first:.0} µs | {beyond:.0} µs | {} | {last:.0} µs | {each:.1} µs | {} | {} |",
                off(beyond),
                off(each),
                if within { "yes" } else { "**no**" }
            )?;
        }
        part.push('\n');
        Ok(())
    }

    /// For one entry and for twenty, in microseconds: medians of all rounds.
    fn at(&mut self, us: f64) -> Result<(f64, f64), Anything> {
        self.rounds()?;
        let (mut one, mut twenty) = (Vec::new(), Vec::new());
        for round in 0..ROUNDS {
            let (first, last) = self.once(us, round)?;
            one.push(first);
            twenty.push(last);
        }
        let median = |v: &[f64]| weir_measure::stats::quantile(v, 0.5).unwrap_or(f64::NAN);
        Ok((median(&one), median(&twenty)))
    }

    /// All delays in turn, over and over.
    fn rounds(&mut self) -> Result<(), Anything> {
        for round in 0..ROUNDS {
            for us in std::iter::once(0.0).chain(DELAYS) {
                self.once(us, round)?;
            }
        }
        Ok(())
    }

    /// Medians of one round.
    fn once(&mut self, us: f64, round: usize) -> Result<(f64, f64), Anything> {
        let text = self.kept(&format!("insertion-{us}-{round}"), |weir| {
            let file = tempfile(us)?;
            let result = run(weir, &file.display().to_string(), "flow-insert", INSERT);
            std::fs::remove_file(&file)?;
            let d = result??;
            let said = if failing(&d).is_empty() { String::new() } else { sentences(&d) };
            Ok(format!("{}\n{}\n{said}", first_packet_us(&d, 0)?, first_packet_us(&d, 1)?))
        })?;
        let mut lines = text.lines();
        let mut number = || Ok::<f64, Anything>(lines.next().unwrap_or_default().parse()?);
        let both = (number()?, number()?);
        if let Some(said) = lines.next().filter(|s| !s.is_empty()) {
            let said = format!("insertion in {us} µs: {said}");
            if !self.wrong.contains(&said) {
                self.wrong.push(said);
            }
        }
        Ok(both)
    }

    /// The profiles that come along.
    fn profiles(&mut self, part: &mut String) -> Result<(), Anything> {
        write!(part, "### The profiles that come along\n\n{HEAD}\n")?;
        for case in &cases::profiles() {
            let name = format!("{}-{}", case.fault, case.module);
            let said = self.kept(&name, |weir| {
                let result = run(weir, &case.fault, case.module, case.set)?;
                Ok(match (case.judge(&result), figure(case, &result)) {
                    (Ok(f), _) => format!("{} | yes", f.figure.map(shown).unwrap_or_default()),
                    // By the clock the program itself and its machine take time, too: named is what counts.
                    (Err(_), Some(value)) => {
                        format!("{} | yes; the figure with what the program takes", shown(value))
                    }
                    (Err(why), None) => format!(" | **no**: {why}"),
                })
            })?;
            if said.contains("**no**") {
                self.wrong.push(format!("{name}: {said}"));
            }
            writeln!(part, "{}{said} |", row(case))?;
        }
        Ok(())
    }
}

/// A profile that inserts in so long.
fn tempfile(us: f64) -> Result<PathBuf, Anything> {
    let file = std::env::temp_dir().join(format!("weir-truth-{}.toml", std::process::id()));
    let text =
        format!("name = \"insert\"\nabout = \"inserts in {us} µs\"\n[update]\ninsert_us = {us}\n");
    std::fs::write(&file, text)?;
    Ok(file)
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

/// What `weir measure run` finds, or what it says where it finds nothing.
fn run(
    weir: &str,
    lab: &str,
    module: &str,
    set: Set,
) -> Result<Result<Document, String>, Anything> {
    let mut c = Command::new(weir);
    c.args(["measure", "run", module, "--lab", lab, "--quick", "--json", "--patience", "3"]);
    // In virtual time two runs are as good as many; by the clock one of two may have waited for a core.
    let more = Some(&("repetitions", "6")).filter(|_| module == "flow-modify");
    for (name, value) in set.iter().chain(more) {
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

/// Where what was measured is kept unless one says where: with what is built.
pub(crate) fn usual_keep() -> PathBuf {
    let target =
        std::env::var_os("CARGO_TARGET_DIR").map_or(PathBuf::from("target"), PathBuf::from);
    Path::new(&target).join("measure-truth")
}
