//! Rule sets with known answers: samples in `testdata/rules`, and the whole sets where `WEIR_DATA`
//! names a folder with `rules/` and `traces/` (use `--release` for those).

mod rulesets;

use rulesets::{Lookup, RuleSet, Tables};
use std::path::{Path, PathBuf};
use weir_classify::simd::Vectors;
use weir_classify::{Classifier, FastTable, Linear, Rule};

fn samples() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../testdata/rules")
}

fn read(rules: &Path, trace: &Path) -> (RuleSet, Vec<Lookup>) {
    let rules = rulesets::rules(&rulesets::text(rules).unwrap()).unwrap();
    let trace = rulesets::trace(&rulesets::text(trace).unwrap()).unwrap();
    assert!(!rules.rules.is_empty() && !trace.is_empty());
    (rules, trace)
}

fn sample(name: &str, ext: &str) -> (RuleSet, Vec<Lookup>) {
    let d = samples();
    read(&d.join(format!("{name}{ext}")), &d.join(format!("{name}_trace{ext}")))
}

/// A table for each VDP. Lines that repeat another are no rules of their own.
fn build<C: Classifier>(rules: &[(u64, Rule)], new: impl Fn() -> C) -> Tables<C> {
    let mut tables = Tables::new();
    for (vid, rule) in rules {
        let _ = tables.entry(*vid).or_insert_with(&new).insert(*rule);
    }
    tables
}

fn check<C: Classifier>(tables: &Tables<C>, trace: &[Lookup], what: &str) {
    for (i, l) in trace.iter().enumerate() {
        let got = tables.get(&l.vid).and_then(|t| t.lookup(&l.key));
        assert_eq!(got, l.expected, "{what}: lookup {}", i + 1);
    }
}

const SAMPLES: [(&str, &str); 5] = [
    ("nc_acl1_1k", ""),
    ("nc_fw1_1k", ""),
    ("of1_1k", ".oft"),
    ("tern_1k", ".oft"),
    ("vdp_100k", ".oft"),
];

#[test]
fn samples_as_expected() {
    for (name, ext) in SAMPLES {
        let (set, trace) = sample(name, ext);
        check(&build(&set.rules, Linear::default), &trace, name);
        for v in Vectors::available() {
            check(&build(&set.rules, || FastTable::with_vectors(v)), &trace, name);
        }
    }
}

/// Rules come in any order and go again; what is left answers as the oracle does.
#[test]
fn samples_as_the_oracle_under_changes() {
    for (name, ext) in SAMPLES {
        let (set, trace) = sample(name, ext);
        let (mut fast, mut judge) = (Tables::<FastTable>::new(), Tables::<Linear>::new());
        let n = set.rules.len();
        let scattered = |k: usize| &set.rules[k * 7919 % n];
        for k in 0..n {
            let (vid, rule) = scattered(k);
            let want = judge.entry(*vid).or_default().insert(*rule);
            assert_eq!(fast.entry(*vid).or_default().insert(*rule), want);
            if k % 3 == 2 {
                let (vid, rule) = scattered(k / 2);
                let gone = judge.get_mut(vid).unwrap().remove(&rule.matcher, rule.priority);
                let fast = fast.get_mut(vid).unwrap();
                assert_eq!(fast.remove(&rule.matcher, rule.priority), gone);
            }
            let l = &trace[k % trace.len()];
            let ask = |t: Option<&dyn Classifier>| t.and_then(|t| t.lookup(&l.key));
            assert_eq!(
                ask(fast.get(&l.vid).map(|t| t as _)),
                ask(judge.get(&l.vid).map(|t| t as _)),
                "{name}: after change {k}"
            );
        }
        for l in &trace {
            let want = judge.get(&l.vid).and_then(|t| t.lookup(&l.key));
            assert_eq!(fast.get(&l.vid).and_then(|t| t.lookup(&l.key)), want, "{name}");
        }
    }
}

#[test]
fn whole_sets() {
    let Some(folder) = std::env::var_os("WEIR_DATA").map(PathBuf::from) else {
        eprintln!("SKIPPED: whole rule sets; WEIR_DATA names no folder with rules/ and traces/");
        return;
    };
    let mut traces: Vec<PathBuf> = std::fs::read_dir(folder.join("traces"))
        .expect("traces/ in WEIR_DATA")
        .map(|e| e.unwrap().path())
        .collect();
    traces.sort();
    for path in traces {
        let name = path.file_name().unwrap().to_str().unwrap();
        // <set>_trace_<kind>[.oft].zst belongs to <set>[.oft].zst.
        let (set, rest) = name.split_once("_trace_").unwrap();
        let ext = rest.split_once('.').map_or(String::new(), |(_, e)| format!(".{e}"));
        let (rules, trace) = read(&folder.join("rules").join(format!("{set}{ext}")), &path);
        let mut tables = build(&rules.rules, FastTable::new);
        check(&tables, &trace, name);
        let n: usize = tables.values().map(FastTable::len).sum();
        // Every other line goes and comes back: the first inserted among equals may be another
        // then, but no priority of a winner changes.
        let mut gone = Vec::new();
        for (vid, r) in rules.rules.iter().step_by(2) {
            let t = tables.get_mut(vid).unwrap();
            gone.extend(t.remove(&r.matcher, r.priority).map(|id| (*vid, Rule { id, ..*r })));
        }
        for (vid, r) in &gone {
            tables.get_mut(vid).unwrap().insert(*r).unwrap();
        }
        assert_eq!(tables.values().map(FastTable::len).sum::<usize>(), n);
        let priority: std::collections::HashMap<_, _> =
            rules.rules.iter().map(|(_, r)| (r.id, r.priority)).collect();
        for l in &trace {
            let got = tables.get(&l.vid).and_then(|t| t.lookup(&l.key));
            assert_eq!(got.map(|id| priority[&id]), l.expected.map(|id| priority[&id]), "{name}");
        }
        println!("{name}: {} lookups, {n} rules", trace.len());
    }
}
