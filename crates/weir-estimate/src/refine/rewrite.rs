//! A profile's text with what refinement learned: each cost that changed is the old formula times its
//! factor, all else as it was written, comments too.
//!
//! Room: text, line by line: tables of operations must stand under headers of their own, as in the
//! profiles that come along. What came out is for the caller to read again.

use crate::formula::Formula;
use std::collections::BTreeMap;
use std::sync::Arc;

/// The text with these factors, `memory` for waits.
///
/// # Errors
/// A cost that is not found under a header of its own, or is too long with its factor.
pub fn rewrite(text: &str, factors: &BTreeMap<Arc<str>, f64>) -> Result<String, String> {
    let mut out = String::new();
    let mut section = String::new();
    let mut done: Vec<&str> = Vec::new();
    for line in text.lines() {
        let trimmed = line.trim();
        let header = trimmed.strip_prefix('[').and_then(|l| l.split_once(']')).map(|l| l.0);
        if let Some(h) = header {
            section = h.trim().to_owned();
        }
        let (key, value) = trimmed.split_once('=').map_or(("", ""), |(k, v)| (k.trim(), v.trim()));
        let eo = section.strip_prefix("eo.");
        let whole = eo.map(|n| n.strip_suffix(".remote").unwrap_or(n));
        let factor = whole.and_then(|n| factors.get_key_value(n));
        match (factor, key) {
            (Some((name, f)), "cycles") => {
                let old = value.trim_matches('"');
                let formula = Formula::read(old).map_err(|e| format!("eo.{name}.cycles: {e}"))?;
                let new = Formula::times(*f, &formula);
                // What is written must be readable.
                Formula::read(new.text()).map_err(|e| format!("eo.{name}.cycles: {e}"))?;
                out += &format!("cycles = \"{new}\"\n");
                if eo == whole {
                    done.push(name);
                }
            }
            (Some(_), "provenance") if eo == whole => out += "provenance = \"fitted\"\n",
            // There may be one already, of an earlier refinement: it is in the factor's place.
            (_, "wait_factor") if section == "processor" && factors.contains_key("memory") => {
                let old: f64 = value.parse().map_err(|_| format!("wait_factor = {value}"))?;
                let f = factors.get("memory").copied().unwrap_or(1.0);
                out += &format!("wait_factor = {}\n", old * f);
                done.push("memory");
            }
            _ => {
                out += line;
                out.push('\n');
            }
        }
    }
    if let Some(f) = factors.get("memory").filter(|_| !done.contains(&"memory")) {
        let header = "[processor]\n";
        let Some(at) = out.find(header) else {
            return Err("no [processor] on a line of its own".into());
        };
        out.insert_str(at + header.len(), &format!("wait_factor = {f}\n"));
        done.push("memory");
    }
    match factors.keys().find(|n| !done.contains(&&***n)) {
        Some(n) => Err(format!("eo.{n}: no 'cycles = …' on a line of its own under [eo.{n}]")),
        None => Ok(out),
    }
}
