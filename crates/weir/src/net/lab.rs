//! LAB files: text to model, and from the way to a key back to a line and a column.
//!
//! Room: one file and the paths in it. Called by `weir apply` and `weir net create`.

use super::flows::Flows;
use super::{programs, rules};
use crate::config::error::Source;
use crate::config::read::read_file;
use crate::fault::bad_input;
use anyhow::{Error, Result};
use std::ops::Range;
use std::path::{Path, PathBuf};
use toml::de::{DeTable, DeValue};
use weir_supervisor::model::{Lab, check, guard};
use weir_supervisor::refusal::{Refusal, Seg, Way};

/// A LAB file as it was read.
#[derive(Debug)]
pub struct LabFile {
    name: String,
    text: String,
    /// What it says, paths made absolute.
    pub lab: Lab,
}

impl LabFile {
    /// Reads one; it is not checked yet.
    ///
    /// # Errors
    /// It can't be read: with line and column.
    pub fn load(path: &Path) -> Result<Self> {
        let text = read_file(path).map_err(bad_input)?;
        let name = path.display().to_string();
        let lab = toml::from_str(&text);
        let mut lab: Lab = lab.map_err(|e| bad_input(Source::new(&name, &text).toml(&e)))?;
        let base = std::path::absolute(path.parent().unwrap_or(Path::new("")));
        beside(&mut lab, &base.unwrap_or_default());
        Ok(Self { name, text, lab })
    }

    /// A refusal with the place in the file.
    pub fn refuse(&self, r: &Refusal) -> Error {
        let span = place(&self.text, &r.at).unwrap_or(0..0);
        bad_input(Source::new(&self.name, &self.text).error(&span, &r.text))
    }
}

/// A refusal, with the place in the file where there is one.
pub fn refused(file: Option<&LabFile>, r: &Refusal) -> Error {
    match file {
        Some(f) => f.refuse(r),
        None => bad_input(format_args!("{}: {}", r.at, r.text)),
    }
}

/// Checks a lab as far as its text goes.
///
/// # Errors
/// The first thing that can't be.
pub fn checked(lab: &Lab, file: Option<&LabFile>) -> Result<()> {
    possible(lab).map_err(|r| refused(file, &r))
}

/// Whether a lab can be, as far as its text goes.
///
/// # Errors
/// The first thing that can't be.
pub fn possible(lab: &Lab) -> Result<(), Refusal> {
    check(lab, &Flows)?;
    programs::check(lab)?;
    rules::check(lab)
}

/// Checks a lab that is said whole, as by a LAB file: what is in nobody's text is not there.
///
/// # Errors
/// The first thing that can't be.
pub fn checked_whole(lab: &Lab, file: Option<&LabFile>) -> Result<()> {
    checked(lab, file)?;
    guard::named(lab).map_err(|r| refused(file, &r))
}

/// Files are looked for beside the LAB file that names them; the store keeps where they are.
fn beside(lab: &mut Lab, base: &Path) {
    let whole = |p: &mut String| *p = base.join(&*p).display().to_string();
    if let Some(t) = &mut lab.tls {
        [&mut t.certificate, &mut t.key, &mut t.ca].into_iter().for_each(whole);
    }
    for h in &mut lab.host {
        if let Some(socket) = h.api.strip_prefix("unix:") {
            h.api = format!("unix:{}", base.join(PathBuf::from(socket)).display());
        }
    }
}

/// Where the way to a key leads in a text, or as far as it can be gone.
fn place(text: &str, way: &Way) -> Option<Range<usize>> {
    let root = DeTable::parse(text).ok()?;
    let mut table = Some(root.get_ref());
    let mut list = None;
    let mut best = None;
    for seg in &way.0 {
        let found = match (seg, table, list.take()) {
            (Seg::Key(k), Some(t), _) => {
                let mut entries = t.iter();
                let Some((key, v)) = entries.find(|(key, _)| key.get_ref() == k) else { break };
                // A list says nothing yet: its element does.
                if !matches!(v.get_ref(), DeValue::Array(_)) {
                    best = Some(key.span());
                }
                v
            }
            (Seg::At(i), _, Some(all)) => {
                let all: &toml::de::DeArray<'_> = all;
                let Some(v) = all.get(*i) else { break };
                best = Some(v.span());
                v
            }
            _ => break,
        };
        (table, list) = match found.get_ref() {
            DeValue::Table(t) => (Some(t), None),
            DeValue::Array(a) => (None, Some(a)),
            _ => (None, None),
        };
    }
    best
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_way_leads_to_its_line() {
        let text = "[[host]]\nname = 'a'\n[[network]]\nname = 'n'\n[[network.node]]\nname = 'x'\n\
                    ports = ['p', 'q']\n";
        let line = |way: Way| {
            let span = place(text, &way).unwrap();
            Source::new("t", text).place(span.start).line
        };
        let node = Way::item("network", 0).at("node", 0);
        assert_eq!(line(Way::item("network", 0).key("name")), 4);
        assert_eq!(line(node.key("name")), 6);
        assert_eq!(line(node.at("ports", 1)), 7);
        // A key that is left out: its table.
        assert_eq!(line(node.key("host")), 5);
    }
}
