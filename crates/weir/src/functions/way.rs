//! What a function's rules ask of weir's data plane, for the estimate of the pass through a VDP.
//!
//! Room: a [`Job`] and one frame in, parameters of `models/vdp-rules.toml` or `models/vdp-program.toml` out.

use super::{Job, headers};
use std::collections::{BTreeMap, BTreeSet};
use weir_classify::Field;
use weir_dataplane::Action;

/// The model of the pass, and its parameters.
#[derive(Clone, Debug, PartialEq)]
pub struct Way {
    /// The model.
    pub model: &'static str,
    /// Its parameters.
    pub settings: Vec<(String, f64)>,
}

/// Whether an action is of 004's bitmap, or no work of the executor's at all.
fn is_plain(a: &Action) -> bool {
    match a {
        Action::Output(_) | Action::Goto(_) | Action::DecTtl => true,
        Action::SetField { field, mask, .. } => {
            matches!(field, Field::EthSrc | Field::EthDst) && *mask == field.full()
        }
        _ => false,
    }
}

impl Way {
    /// That of a job whose frames look like `frame`.
    pub fn of(job: &Job, frame: &[u8]) -> Self {
        let seen = ("headers".to_owned(), f64::from(headers(frame)));
        if job.program.is_some() {
            return Self { model: "vdp-program", settings: vec![seen] };
        }
        let mut masks: BTreeMap<u8, BTreeSet<Vec<u64>>> = BTreeMap::new();
        let mut words = 0;
        let mut steps = 0;
        for r in &job.rules {
            let mask = r.matcher.mask();
            let used = mask.0.iter().filter(|w| **w != 0).count();
            words = words.max(used);
            masks.entry(r.table).or_default().insert(mask.0.to_vec());
            // An executor is needed for all of a rule's actions or for none.
            if !r.actions.iter().all(is_plain) {
                let work = |a: &&Action| !matches!(a, Action::Output(_) | Action::Goto(_));
                steps += r.actions.iter().filter(work).count();
            }
        }
        let rules = job.rules.len().max(1);
        let most = masks.values().map(BTreeSet::len).max().unwrap_or(0);
        let tables = masks.len().max(1);
        let set = |n: &str, v: f64| (n.to_owned(), v);
        let settings = vec![
            seen,
            set("rules", rules as f64),
            set("rule_tables", tables as f64),
            set("masks", most as f64),
            set("words", 2.0 * words as f64),
            // A head and the masked words, in one to two slots a rule.
            set("rule_bytes", 8.0 * (1 + words) as f64 * 1.5),
            set("actions", (steps as f64 * tables as f64 / rules as f64).min(64.0)),
        ];
        Self { model: "vdp-rules", settings }
    }
}
