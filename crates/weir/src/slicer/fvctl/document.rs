//! Slices and flow space as a text that requests change: read like the configuration, kept in a file of its own.
//!
//! Room: text and a file, which is written whole before anything becomes true. What FlowVisor knows of a slice or
//! of an entry and weir does not stands under `fv`.

use super::{Refused, matches};
use crate::config::slicer::{SlicerPlan, from_text};
use anyhow::{Context, Result};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use std::fs::OpenOptions;
use std::io::Write;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use toml::Table;

/// Most entries of the flow space, and most slices.
const MOST: usize = 1 << 20;

/// The text.
#[derive(Clone, Debug)]
pub struct Document {
    /// What the configuration says beside slices and flow space.
    rest: Table,
    /// Where files that it names are.
    base: PathBuf,
    /// Where changes are kept.
    state: Option<PathBuf>,
    held: Held,
}

#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Held {
    #[serde(default)]
    slice: Vec<Table>,
    #[serde(default)]
    flowspace: Vec<Table>,
}

/// Rights in FlowVisor's bits: delegate 1, read 2, write 4.
const DELEGATE: u64 = 1;
const READ: u64 = 2;
const WRITE: u64 = 4;

impl Document {
    /// Of a configuration's text, which has been read already; what was changed before is in `state`.
    ///
    /// # Errors
    /// What was kept can't be read.
    pub fn new(text: &str, base: &Path, state: Option<PathBuf>) -> Result<Self> {
        let mut rest: Table = text.parse()?;
        let mut held = Held::default();
        let take = |rest: &mut Table, key: &str| match rest.remove(key) {
            Some(toml::Value::Array(all)) => all
                .into_iter()
                .filter_map(|v| if let toml::Value::Table(t) = v { Some(t) } else { None })
                .collect(),
            _ => Vec::new(),
        };
        held.slice = take(&mut rest, "slice");
        held.flowspace = take(&mut rest, "flowspace");
        if let Some(path) = &state {
            match std::fs::read_to_string(path) {
                Ok(text) => {
                    held = toml::from_str(&text).with_context(|| format!("{}", path.display()))?;
                }
                Err(e) if e.kind() == std::io::ErrorKind::NotFound => {}
                Err(e) => return Err(crate::fault::file(path.display(), &e)),
            }
        }
        Ok(Self { rest, base: base.to_owned(), state, held })
    }

    /// What it comes down to: slices that are disabled are left out, and what is theirs.
    ///
    /// # Errors
    /// What can't be.
    pub fn plan(&self) -> Result<SlicerPlan, Refused> {
        let off = |name: &str| self.slice(name).is_ok_and(|s| !enabled(s));
        let mut all = self.rest.clone();
        let on = self.held.slice.iter().filter(|s| enabled(s)).cloned().map(toml::Value::Table);
        all.insert("slice".to_owned(), toml::Value::Array(on.collect()));
        let mut rules = Vec::new();
        for r in &self.held.flowspace {
            let mut r = r.clone();
            for key in ["write", "delegate", "by"] {
                if r.get(key).and_then(|v| v.as_str()).is_some_and(off) {
                    r.remove(key);
                }
            }
            if let Some(toml::Value::Array(names)) = r.get_mut("read") {
                names.retain(|n| !n.as_str().is_some_and(off));
            }
            let grants = ["write", "delegate"].iter().any(|k| r.contains_key(*k));
            let reads = r.get("read").and_then(|v| v.as_array()).is_some_and(|a| !a.is_empty());
            if grants || reads {
                rules.push(toml::Value::Table(r));
            }
        }
        all.insert("flowspace".to_owned(), toml::Value::Array(rules));
        let text = toml::to_string(&all).map_err(|e| Refused::internal(e.to_string()))?;
        // Lines of a text that nobody has seen say nothing.
        from_text(&text, "slices", &self.base).map_err(|e| Refused::params(e.text))
    }

    /// Keeps it: the file is as it was, or as it is now.
    ///
    /// # Errors
    /// It can't be written.
    pub fn keep(&self) -> Result<(), Refused> {
        let Some(path) = &self.state else { return Ok(()) };
        let write = || -> Result<()> {
            let text = toml::to_string(&self.held)?;
            let mut new = path.clone().into_os_string();
            new.push(".new");
            let mut o = OpenOptions::new();
            let mut out = o.write(true).create(true).truncate(true).mode(0o600).open(&new)?;
            out.write_all(text.as_bytes())?;
            out.sync_all()?;
            std::fs::rename(&new, path)?;
            Ok(())
        };
        write().map_err(|e| Refused::internal(format!("{}: {e:#}", path.display())))
    }

    /// Names of all slices, and whether they are enabled.
    pub fn slices(&self) -> impl Iterator<Item = (&str, bool)> {
        self.held.slice.iter().map(|s| (named(s), enabled(s)))
    }

    /// A slice.
    ///
    /// # Errors
    /// There is none.
    pub fn slice(&self, name: &str) -> Result<&Table, Refused> {
        self.held.slice.iter().find(|s| named(s) == name).ok_or_else(|| no_slice(name))
    }

    /// Entries of the flow space as FlowVisor lists them, those of one slice alone where one is named.
    pub fn flowspace(&self, of: Option<&str>, show_disabled: bool) -> Vec<Value> {
        let off = |name: &str| self.slice(name).is_ok_and(|s| !enabled(s));
        let mut out = Vec::new();
        for (i, r) in self.held.flowspace.iter().enumerate() {
            let grants = grants(r);
            let mine = of.is_none_or(|n| grants.iter().any(|(s, _)| s == n));
            let hidden = of.is_none() && !show_disabled && grants.iter().all(|(s, _)| off(s));
            if !mine || hidden {
                continue;
            }
            let actions: Vec<Value> = grants
                .iter()
                .map(|(s, p)| serde_json::json!({ "slice-name": s, "permission": p }))
                .collect();
            let fv = r.get("fv").and_then(|v| v.as_table());
            let kept =
                |key: &str| fv.and_then(|t| t.get(key)).and_then(|v| serde_json::to_value(v).ok());
            let text = r.get("match").and_then(|v| v.as_str()).unwrap_or_default();
            let dpid = r.get("datapath").and_then(|v| v.as_str()).unwrap_or("any");
            out.push(serde_json::json!({
                "id": i + 1,
                "name": kept("name").unwrap_or_else(|| Value::from(format!("entry-{}", i + 1))),
                "dpid": if dpid == "any" { "any".to_owned() } else { super::methods::colons(dpid) },
                "priority": r.get("priority").and_then(|v| v.as_integer()).unwrap_or(100),
                // One that the configuration has is said in its own words.
                "match": kept("match").unwrap_or_else(|| serde_json::json!({ "text": text })),
                "slice-action": actions,
                "queues": kept("queues").unwrap_or_else(|| Value::Array(Vec::new())),
            }));
        }
        out
    }

    /// `add-slice`.
    ///
    /// # Errors
    /// It is there already; a parameter is wrong.
    pub fn add_slice(&mut self, p: &Map<String, Value>) -> Result<(), Refused> {
        let name = text(p, "slice-name")?;
        if self.slice(name).is_ok() || name == "fvadmin" {
            return Err(Refused::params(format!("slice '{}' is there already", short(name))));
        }
        if self.held.slice.len() >= MOST {
            return Err(Refused::params("too many slices"));
        }
        let mut s = Table::new();
        s.insert("name".to_owned(), name.into());
        let url = text(p, "controller-url")?;
        s.insert("controllers".to_owned(), toml::Value::Array(vec![controller(url)?.into()]));
        self.settings(&mut s, p)?;
        self.held.slice.push(s);
        Ok(())
    }

    /// `update-slice`.
    ///
    /// # Errors
    /// There is none; a parameter is wrong.
    pub fn update_slice(&mut self, p: &Map<String, Value>) -> Result<(), Refused> {
        let name = text(p, "slice-name")?;
        let mut s = self.slice(name)?.clone();
        let (host, port) = address(&s);
        let new_host = p.get("controller-host").and_then(Value::as_str);
        let new_port = p.get("controller-port").map(|v| count(v, "controller-port")).transpose()?;
        if new_host.is_some() || new_port.is_some() {
            let host = new_host.unwrap_or(&host);
            let port = new_port.unwrap_or(port);
            let url = controller(&format!("tcp:{host}:{port}"))?;
            s.insert("controllers".to_owned(), toml::Value::Array(vec![url.into()]));
        }
        self.settings(&mut s, p)?;
        if let Some(old) = self.held.slice.iter_mut().find(|s| named(s) == name) {
            *old = s;
        }
        Ok(())
    }

    /// What `add-slice` and `update-slice` say alike.
    fn settings(&self, s: &mut Table, p: &Map<String, Value>) -> Result<(), Refused> {
        let mut limits = s.get("limits").and_then(|l| l.as_table()).cloned().unwrap_or_default();
        for (key, own) in [("flowmod-limit", "rules"), ("rate-limit", "messages_per_s")] {
            match p.get(key).map(|v| v.as_i64().ok_or(v)) {
                None => {}
                // None is meant.
                Some(Ok(n)) if n < 0 => drop(limits.remove(own)),
                Some(Ok(n)) => drop(limits.insert(own.to_owned(), n.into())),
                Some(Err(_)) => {
                    return Err(Refused::params(format!("{key}: a number, or -1 for none")));
                }
            }
        }
        if limits.is_empty() {
            s.remove("limits");
        } else {
            s.insert("limits".to_owned(), toml::Value::Table(limits));
        }
        if let Some(v) = p.get("drop-policy") {
            match v.as_str() {
                Some("exact" | "rule") => drop(s.insert("on_loss".to_owned(), "drop".into())),
                _ => return Err(Refused::params("drop-policy: exact or rule")),
            }
        }
        let mut fv = s.get("fv").and_then(|l| l.as_table()).cloned().unwrap_or_default();
        for key in ["admin-contact", "drop-policy"] {
            if let Some(t) = p.get(key).and_then(Value::as_str) {
                fv.insert(key.to_owned(), t.into());
            }
        }
        for key in ["admin-status", "recv-lldp"] {
            match p.get(key) {
                None => {}
                Some(Value::Bool(b)) => drop(fv.insert(key.to_owned(), (*b).into())),
                Some(_) => return Err(Refused::params(format!("{key}: true or false"))),
            }
        }
        if !fv.is_empty() {
            s.insert("fv".to_owned(), toml::Value::Table(fv));
        }
        Ok(())
    }

    /// `remove-slice`, with all of its flow space.
    ///
    /// # Errors
    /// There is none.
    pub fn remove_slice(&mut self, p: &Map<String, Value>) -> Result<(), Refused> {
        let name = text(p, "slice-name")?;
        self.slice(name)?;
        self.held.slice.retain(|s| named(s) != name);
        for r in &mut self.held.flowspace {
            for key in ["write", "delegate", "by"] {
                if r.get(key).and_then(|v| v.as_str()) == Some(name) {
                    r.remove(key);
                }
            }
            if let Some(toml::Value::Array(names)) = r.get_mut("read") {
                names.retain(|n| n.as_str() != Some(name));
            }
        }
        self.held.flowspace.retain(|r| !grants(r).is_empty());
        Ok(())
    }

    /// `add-flowspace`: all or none.
    ///
    /// # Errors
    /// An entry can't be read.
    pub fn add_flowspace(&mut self, p: &[Value]) -> Result<(), Refused> {
        if self.held.flowspace.len() + p.len() > MOST {
            return Err(Refused::params("too many entries"));
        }
        for v in p {
            let v = v.as_object().ok_or_else(|| Refused::params("params: a list of entries"))?;
            for key in ["name", "dpid", "priority", "match", "slice-action"] {
                if !v.contains_key(key) {
                    return Err(Refused::params(format!("{key}: is needed")));
                }
            }
            let mut r = Table::new();
            entry(&mut r, v)?;
            self.held.flowspace.push(r);
        }
        Ok(())
    }

    /// `update-flowspace`: all or none; entries of one name are changed alike.
    ///
    /// # Errors
    /// There is none of that name; an entry can't be read.
    pub fn update_flowspace(&mut self, p: &[Value]) -> Result<(), Refused> {
        for v in p {
            let v = v.as_object().ok_or_else(|| Refused::params("params: a list of entries"))?;
            let name = text(v, "name")?;
            let mut any = false;
            for r in self.held.flowspace.iter_mut().filter(|r| entry_name(r) == Some(name)) {
                entry(r, v)?;
                any = true;
            }
            if !any {
                return Err(no_entry(name));
            }
        }
        Ok(())
    }

    /// `remove-flowspace`: all entries of these names.
    ///
    /// # Errors
    /// There is none of a name.
    pub fn remove_flowspace(&mut self, p: &[Value]) -> Result<(), Refused> {
        for v in p {
            let name = v.as_str().ok_or_else(|| Refused::params("params: a list of names"))?;
            let before = self.held.flowspace.len();
            self.held.flowspace.retain(|r| entry_name(r) != Some(name));
            if self.held.flowspace.len() == before {
                return Err(no_entry(name));
            }
        }
        Ok(())
    }
}

/// Puts what is said of an entry into it.
fn entry(r: &mut Table, v: &Map<String, Value>) -> Result<(), Refused> {
    let mut fv = r.get("fv").and_then(|l| l.as_table()).cloned().unwrap_or_default();
    if v.get("force-enqueue").is_some_and(|q| q.as_i64() != Some(-1)) {
        return Err(Refused::params(
            "force-enqueue: is not done here: leave it out, and give the slice queues",
        ));
    }
    if let Some(name) = v.get("name") {
        let name = name.as_str().ok_or_else(|| Refused::params("name: a text"))?;
        fv.insert("name".to_owned(), name.into());
    }
    match v.get("dpid").map(|d| d.as_str().ok_or(d)) {
        None => {}
        Some(Ok("any" | "all" | "ALL_DPIDS")) => drop(r.remove("datapath")),
        Some(Ok(d)) => {
            let id =
                super::methods::dpid(d).ok_or_else(|| Refused::params("dpid: no datapath's id"))?;
            r.insert("datapath".to_owned(), format!("{id:016x}").into());
        }
        Some(Err(_)) => return Err(Refused::params("dpid: a text")),
    }
    if let Some(n) = v.get("priority") {
        r.insert("priority".to_owned(), i64::from(count(n, "priority")?).into());
    }
    if let Some(m) = v.get("match") {
        let m = m.as_object().ok_or_else(|| Refused::params("match: an object of fields"))?;
        let (text, port) = matches::read(m)?;
        r.insert("match".to_owned(), if text.is_empty() { "any".into() } else { text.into() });
        match port {
            Some(n) => {
                drop(r.insert("ports".to_owned(), toml::Value::Array(vec![i64::from(n).into()])))
            }
            None => drop(r.remove("ports")),
        }
        let kept = toml::Value::try_from(m).map_err(|e| Refused::params(format!("match: {e}")))?;
        fv.insert("match".to_owned(), kept);
    }
    if let Some(q) = v.get("queues") {
        let kept = toml::Value::try_from(q).map_err(|e| Refused::params(format!("queues: {e}")))?;
        fv.insert("queues".to_owned(), kept);
    }
    if let Some(all) = v.get("slice-action") {
        let all = all.as_array().ok_or_else(|| Refused::params("slice-action: a list"))?;
        ["read", "write", "delegate"].iter().for_each(|k| drop(r.remove(*k)));
        let mut reads = Vec::new();
        for a in all {
            let a =
                a.as_object().ok_or_else(|| Refused::params("slice-action: a list of objects"))?;
            let (name, bits) = (
                text(a, "slice-name")?,
                u64::from(count(a.get("permission").unwrap_or(&Value::Null), "permission")?),
            );
            let key = match bits {
                b if b & !(DELEGATE | READ | WRITE) != 0 || b == 0 => {
                    return Err(Refused::params(
                        "permission: delegate 1, read 2, write 4, added up",
                    ));
                }
                b if b & DELEGATE != 0 => "delegate",
                b if b & WRITE != 0 => "write",
                _ => {
                    reads.push(toml::Value::from(name));
                    continue;
                }
            };
            if r.contains_key("write") || r.contains_key("delegate") {
                let text =
                    "one slice alone may write or delegate, any number may read (permission 2)";
                return Err(Refused::params(format!("slice-action: {text}")));
            }
            r.insert(key.to_owned(), name.into());
        }
        if !reads.is_empty() {
            r.insert("read".to_owned(), toml::Value::Array(reads));
        }
    }
    r.insert("fv".to_owned(), toml::Value::Table(fv));
    Ok(())
}

fn named(s: &Table) -> &str {
    s.get("name").and_then(|n| n.as_str()).unwrap_or_default()
}

fn enabled(s: &Table) -> bool {
    let status = s.get("fv").and_then(|f| f.get("admin-status")).and_then(|b| b.as_bool());
    status.unwrap_or(true)
}

fn entry_name(r: &Table) -> Option<&str> {
    r.get("fv")?.get("name")?.as_str()
}

/// Who may do what with an entry, in FlowVisor's bits.
fn grants(r: &Table) -> Vec<(String, u64)> {
    let one = |key: &str, bits| {
        let name = r.get(key).and_then(|v| v.as_str());
        name.map(|n| (n.to_owned(), bits))
    };
    let mut out = Vec::new();
    out.extend(one("delegate", DELEGATE | READ | WRITE));
    out.extend(one("write", READ | WRITE));
    let reads = r.get("read").and_then(|v| v.as_array()).map(Vec::as_slice).unwrap_or_default();
    out.extend(reads.iter().filter_map(|n| Some((n.as_str()?.to_owned(), READ))));
    out
}

/// Host and port of a slice's first controller.
pub fn address(s: &Table) -> (String, u32) {
    let first = s.get("controllers").and_then(|c| c.as_array()?.first()?.as_str());
    let parts = first.and_then(|c| c.split_once(':')?.1.rsplit_once(':'));
    match parts {
        Some((host, port)) => (host.to_owned(), port.parse().unwrap_or(0)),
        None => (String::new(), 0),
    }
}

/// `tcp:HOST:PORT`; what FlowVisor calls `ssl:` is ours as well.
fn controller(url: &str) -> Result<String, Refused> {
    let wrong = || Refused::params("controller-url: tcp:HOST:PORT");
    crate::openflow::address::Controller::parse(url).map(|_| url.to_owned()).map_err(|_| wrong())
}

fn text<'v>(p: &'v Map<String, Value>, key: &str) -> Result<&'v str, Refused> {
    let t = p.get(key).and_then(Value::as_str).filter(|t| !t.is_empty());
    t.ok_or_else(|| Refused::params(format!("{key}: is needed, a text")))
}

fn count(v: &Value, key: &str) -> Result<u32, Refused> {
    let n = v.as_u64().or_else(|| v.as_str()?.parse().ok()).and_then(|n| u32::try_from(n).ok());
    n.ok_or_else(|| Refused::params(format!("{key}: a number")))
}

fn short(name: &str) -> String {
    name.chars().take(64).map(|c| if c.is_control() { ' ' } else { c }).collect()
}

fn no_slice(name: &str) -> Refused {
    Refused::params(format!(
        "there is no slice '{}': list-slices says which there are",
        short(name)
    ))
}

fn no_entry(name: &str) -> Refused {
    Refused::params(format!(
        "there is no flowspace '{}': list-flowspace says which there are",
        short(name)
    ))
}
