//! A profile's text with what refinement learned: each cost that changed is the old formula times its
//! factor, all else as it was written, comments too.
//!
//! Room: text. The reader of TOML says where values stand, so that any legal spelling will do. What came out is for the
//! caller to read again.

use crate::formula::Formula;
use crate::read::number;
use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::Arc;
use toml::Spanned;
use toml::de::{DeTable, DeValue};

/// What stands where from now on.
type Edits = Vec<(Range<usize>, String)>;

/// The text with these factors, `memory` for waits.
///
/// # Errors
/// What is no TOML; a cost that is not there, or is too long with its factor.
pub fn rewrite(text: &str, factors: &BTreeMap<Arc<str>, f64>) -> Result<String, String> {
    let all = DeTable::parse(text).map_err(|e| e.message().to_owned())?;
    let mut edits = Edits::new();
    for (name, factor) in factors {
        if &**name == "memory" {
            edits.push(waits(text, all.get_ref(), *factor)?);
            continue;
        }
        let missing = || format!("eo.{name}: no 'cycles = …' under [eo.{name}]");
        let cost = table(all.get_ref(), "eo").and_then(|t| table(t, name)).ok_or_else(missing)?;
        cycles(cost, *factor, &mut edits)
            .map_err(|e| format!("eo.{name}.cycles: {e}"))?
            .ok_or_else(missing)?;
        if let Some(p) = cost.get("provenance") {
            edits.push((p.span(), "\"fitted\"".to_owned()));
        }
        if let Some(remote) = table(cost, "remote") {
            cycles(remote, *factor, &mut edits)
                .map_err(|e| format!("eo.{name}.remote.cycles: {e}"))?;
        }
    }
    edits.sort_by_key(|e| e.0.start);
    let mut out = text.to_owned();
    for (at, new) in edits.into_iter().rev() {
        out.replace_range(at, &new);
    }
    if !out.ends_with('\n') {
        out.push('\n');
    }
    Ok(out)
}

fn table<'t>(of: &'t DeTable<'t>, key: &str) -> Option<&'t DeTable<'t>> {
    match of.get(key)?.get_ref() {
        DeValue::Table(t) => Some(t),
        _ => None,
    }
}

/// The formula under `cycles`, where there is one, times a factor.
fn cycles(of: &DeTable<'_>, factor: f64, edits: &mut Edits) -> Result<Option<()>, String> {
    let Some(value) = of.get("cycles") else { return Ok(None) };
    let old = match value.get_ref() {
        DeValue::String(s) => s.to_string(),
        other => number(other).ok_or("neither a formula nor a number")?.to_string(),
    };
    let new = Formula::times(factor, &Formula::read(&old)?);
    // What is written must be readable.
    Formula::read(new.text())?;
    edits.push((value.span(), format!("\"{new}\"")));
    Ok(Some(()))
}

/// How much longer waits are: there may be a factor already, of an earlier refinement, which this one multiplies.
fn waits(text: &str, all: &DeTable<'_>, factor: f64) -> Result<(Range<usize>, String), String> {
    let nowhere = || "no [processor] with keys on lines of their own".to_owned();
    let processor = table(all, "processor").ok_or_else(nowhere)?;
    if let Some(value) = processor.get("wait_factor") {
        let old = number(value.get_ref()).ok_or("wait_factor: no number")?;
        return Ok((value.span(), (old * factor).to_string()));
    }
    // In front of the first of its keys.
    let first = processor.keys().map(|k: &Spanned<_>| k.span().start).min().ok_or_else(nowhere)?;
    let line = text.get(..first).and_then(|t| t.rsplit('\n').next()).ok_or_else(nowhere)?;
    if !line.trim().is_empty() {
        return Err(nowhere());
    }
    Ok((first..first, format!("wait_factor = {factor}\n{line}")))
}
