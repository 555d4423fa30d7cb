//! A document's statistics against those that scripts of their own compute from the raw samples
//! (`scripts/judges/document_statistics.py`); what modules say in tables and figures, too
//! (`scripts/judges/module_tables.py`).
//!
//! SKIPPED without python3.

mod toy;

use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use weir_measure::document::{Document, Dut, Samples};
use weir_measure::environment::{Environment, Program};

fn judge(path: &Path) -> Option<Output> {
    judged_by("document_statistics.py", path)
}

fn judged_by(script: &str, path: &Path) -> Option<Output> {
    let scripts = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../scripts/judges");
    Command::new("python3").arg(scripts.join(script)).arg(path).output().ok()
}

/// Numbers without pattern, the same in every run (xorshift, Marsaglia 2003).
fn random(seed: u64) -> impl FnMut() -> f64 {
    let mut state = seed;
    move || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        (state >> 11) as f64 / (1_u64 << 53) as f64
    }
}

fn document(dir: &Path) -> PathBuf {
    let here = Environment::here(Program { version: "0.1.0", commit: None });
    let mut d = Document::new("judged", "statistics", Dut::default(), here);
    let mut next = random(4);
    let mut add = |id: &str, n: usize, keep: usize, value: &mut dyn FnMut(f64) -> f64| {
        let mut s = Samples::keeping("ns", keep);
        (0..n).for_each(|_| s.record(value(next())));
        d.distribution(id, id, s);
    };
    add("uniform", 1000, 2000, &mut |u| u);
    add("long-tailed", 99_999, 100_000, &mut |u| 1e4 / (1.0 - u));
    add("of-both-signs", 777, 1000, &mut |u| (u - 0.5) * 1e-7);
    add("whole-nanoseconds", 12_345, 20_000, &mut |u| (u * 1e6).floor());
    add("one", 1, 10, &mut |u| u);
    add("all-the-same", 100, 100, &mut |_| 0.1);
    add("huge", 50, 100, &mut |u| 1e17 + u * 1e17);
    add("not-all-kept", 500, 100, &mut |u| u);
    d.save(dir, "judged").unwrap()
}

#[test]
fn equal_to_an_independent_script() {
    let dir = tempfile::tempdir().unwrap();
    let path = document(dir.path());
    let Some(out) = judge(&path) else {
        eprintln!("SKIPPED: equal_to_an_independent_script needs python3");
        return;
    };
    let said = String::from_utf8_lossy(&out.stdout).into_owned();
    assert!(out.status.success(), "{said}{}", String::from_utf8_lossy(&out.stderr));
    assert_eq!(said.matches("equal ").count(), 7, "{said}");
    assert!(said.contains("not whole   judged.json, not-all-kept: 500 values"), "{said}");

    // And it notices: a sample more than a digit off, and a figure that is.
    let samples = dir.path().join("judged.uniform.samples.txt");
    let text = std::fs::read_to_string(&samples).unwrap();
    let (first, rest) = text.split_once('\n').unwrap();
    let (_, rest) = rest.split_once('\n').unwrap();
    std::fs::write(&samples, format!("{first}\n7.5\n{rest}")).unwrap();
    let out = judge(&path).unwrap();
    let said = String::from_utf8_lossy(&out.stdout).into_owned();
    assert_eq!(out.status.code(), Some(1));
    assert!(
        said.contains("DIFFERS     judged.json, uniform") && said.contains("max is 7.5"),
        "{said}"
    );
}

#[test]
fn tables_and_figures_are_those_of_the_samples() {
    let dir = tempfile::tempdir().unwrap();
    let short: [(&str, &[(&str, &str)]); 10] = [
        ("flow-insert", &[("entries", "1,10"), ("repetitions", "5")]),
        ("flow-modify", &[("entries", "5"), ("repetitions", "3")]),
        ("flow-stats", &[("flows", "10"), ("duration", "0.5"), ("rate", "0.5")]),
        (
            "interaction",
            &[("flows", "30"), ("changed", "7"), ("rates", "20"), ("interval", "0.05")],
        ),
        ("consistency", &[("repetitions", "4"), ("rate", "2")]),
        ("expiry", &[("flows", "3"), ("rate", "0.1")]),
        ("counters", &[("duration", "0.5"), ("rate", "0.5")]),
        ("packet-in", &[("rates", "50,500"), ("duration", "0.2")]),
        ("packet-out", &[("rates", "50,500"), ("duration", "0.2")]),
        ("actions", &[("duration", "0.02")]),
    ];
    for (module, set) in short {
        // One that is nowhere alike: it takes its time, loses and doubles.
        let text = "name = \"x\"\nabout = \"y\"\n[update]\ninsert_us = 300\nreorder_window = 4\n\
                    [forwarding]\nlose_percent = 5\ndelay_us = 30\n[statistics]\nper_flow_us = 20";
        let profile = weir_measure::dut::profile::Profile::read("x", text).unwrap();
        let mut dut = weir_measure::engine::configured::Configured::new(profile);
        let mut document = toy::on(&mut dut, module, set).unwrap();
        let path = document.save(dir.path(), module).unwrap();
        let Some(out) = judged_by("module_tables.py", &path) else {
            eprintln!("SKIPPED: tables_and_figures_are_those_of_the_samples needs python3");
            return;
        };
        let said = String::from_utf8_lossy(&out.stdout).into_owned();
        assert!(out.status.success(), "{said}{}", String::from_utf8_lossy(&out.stderr));
    }
    // And it notices another figure than that of the samples.
    let path = dir.path().join("actions.json");
    let text = std::fs::read_to_string(&path).unwrap();
    let mut document: serde_json::Value = serde_json::from_str(&text).unwrap();
    let median = &mut document["tables"][0]["rows"][1][1];
    *median = (median.as_f64().unwrap() * 1.001).into();
    std::fs::write(&path, document.to_string()).unwrap();
    let out = judged_by("module_tables.py", &path).unwrap();
    let said = String::from_utf8_lossy(&out.stdout).into_owned();
    assert_eq!(out.status.code(), Some(1));
    assert!(said.contains("DIFFERS     actions.json") && said.contains("row 1, median"), "{said}");
}
