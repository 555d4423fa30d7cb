//! LAB files: text to model, and from the way to a key back to a line and a column.
//!
//! Room: one file and the paths in it. Called by `weir apply` and `weir net create`.

use super::flows::Flows;
use super::{programs, rules};
use crate::config::error::Source;
use crate::config::read::read_file;
use crate::fault::bad_input;
use anyhow::{Error, Result};
use std::collections::BTreeMap;
use std::ops::Range;
use std::path::{Path, PathBuf};
use toml::de::{DeTable, DeValue};
use weir_supervisor::model::{Lab, Network, Node, check, guard};
use weir_supervisor::refusal::{Refusal, Seg, Way};

/// A LAB file as it was read.
#[derive(Debug)]
pub struct LabFile {
    name: String,
    text: String,
    /// What it says, paths made absolute.
    pub lab: Lab,
    /// Where it was added to a lab: which elements of that lab's lists are which of its own. None: it is all of the lab.
    added: Option<Added>,
}

/// A list of a lab and an element of it.
type Element = (&'static str, usize);
/// Elements of a lab that are a file's: the list, where in it, and where in the file's.
type Added = BTreeMap<Element, usize>;

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
        Ok(Self { name, text, lab, added: None })
    }

    /// Adds its networks to a lab that holds, with hosts and links that this does not have yet. What is refused of that lab
    /// from then on and is the file's is told with its place in the file.
    ///
    /// # Errors
    /// A network is there already, or a host is another.
    pub fn add_to(&mut self, lab: &mut Lab) -> Result<()> {
        self.added = None;
        let mut added = Added::new();
        let taken = |list, i, text: String| {
            self.refuse(&Refusal::new(Way::item(list, i).key("name"), text))
        };
        for (i, n) in self.lab.network.iter().enumerate() {
            if lab.network(&n.name).is_some() {
                let text = "is there already: give another name, or use 'weir net set'";
                return Err(taken("network", i, format!("network '{}' {text}", n.name)));
            }
            added.insert(("network", lab.network.len() + i), i);
        }
        for (i, h) in self.lab.host.iter().enumerate() {
            match lab.find_host(&h.name) {
                None => {
                    added.insert(("host", lab.host.len()), i);
                    lab.host.push(h.clone());
                }
                Some(known) if known == h => {}
                Some(_) => {
                    let text = "is known as another: change it with 'weir apply'";
                    return Err(taken("host", i, format!("host '{}' {text}", h.name)));
                }
            }
        }
        for (i, l) in self.lab.link.iter().enumerate() {
            if !lab.link.contains(l) {
                added.insert(("link", lab.link.len()), i);
                lab.link.push(l.clone());
            }
        }
        lab.tls = lab.tls.take().or_else(|| self.lab.tls.clone());
        lab.network.extend(self.lab.network.iter().cloned());
        self.added = Some(added);
        Ok(())
    }

    /// A refusal with the place in the file, where it is of something that the file says.
    pub fn refuse(&self, r: &Refusal) -> Error {
        let Some(way) = self.own(&r.at) else { return refused(None, r) };
        let span = place(&self.text, &way).unwrap_or(0..0);
        bad_input(Source::new(&self.name, &self.text).error(&span, &r.text))
    }

    /// The way in the file, of what is the file's.
    fn own(&self, way: &Way) -> Option<Way> {
        let Some(added) = &self.added else { return Some(way.clone()) };
        let [Seg::Key(list), Seg::At(i), rest @ ..] = &way.0[..] else { return None };
        let mut own = Way::item(list, *added.get(&(*list, *i))?);
        own.0.extend_from_slice(rest);
        Some(own)
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

/// The nodes that are VDPs, with where they stand: what is said of a router as a VDP waits until it is one.
pub(super) fn vdps(lab: &Lab) -> impl Iterator<Item = (&Network, &Node, Way)> {
    lab.network.iter().enumerate().flat_map(|(i, n)| {
        let at = move |j| Way::item("network", i).at("node", j);
        let nodes = n.node.iter().enumerate().filter(|(_, v)| v.as_router().is_none());
        nodes.map(move |(j, v)| (n, v, at(j)))
    })
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
    fn a_file_that_is_added_tells_its_own_places_and_no_others() {
        let dir = tempfile::tempdir().unwrap();
        let load = |name: &str, text: &str| {
            let path = dir.path().join(name);
            std::fs::write(&path, text).unwrap();
            LabFile::load(&path).unwrap()
        };
        let net = |name: &str, host: &str| {
            format!("[[network]]\nname = '{name}'\n[[network.node]]\nname = 's'\nhost = '{host}'\n")
        };
        let hosts =
            "[[host]]\nname = 'a'\napi = 'unix:/a'\n[[host]]\nname = 'b'\napi = 'unix:/b'\n";
        let held = load("held.toml", &format!("{hosts}{}{}", net("x", "a"), net("y", "b")));
        let one = "[[host]]\nname = 'b'\napi = 'unix:/b'\n[[host]]\nname = 'c'\napi = 'unix:/c'\n";
        let mut new = load("new.toml", &format!("{one}{}", net("z", "C")));
        let mut lab = held.lab.clone();
        new.add_to(&mut lab).unwrap();
        assert_eq!((lab.host.len(), lab.network.len()), (3, 3));
        let told = |lab: &Lab| checked(lab, Some(&new)).unwrap_err().to_string();
        let said = told(&lab);
        assert!(said.contains("new.toml:11:1: no host 'C': did you mean"), "{said}");
        // What was there before is in no line of it.
        lab.network[1].node[0].host = "D".to_owned();
        assert!(told(&lab).starts_with("network[1].node[0].host: no host 'D'"), "{}", told(&lab));
        lab.network[1].node[0].host = "b".to_owned();
        lab.host[2].api = "unix:/a".to_owned();
        assert!(told(&lab).contains("new.toml:6:1: api 'unix:/a'"), "{}", told(&lab));
        let again = new.add_to(&mut lab).unwrap_err().to_string();
        assert!(again.contains("new.toml:8:1: network 'z' is there already"), "{again}");
    }

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
