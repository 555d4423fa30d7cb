//! Slices and flow space as a text that requests change: read like the configuration, kept in a file of its own.
//!
//! Room: text and a file, which is written whole before anything becomes true. What FlowVisor knows of a slice or
//! of an entry and weir does not stands under `fv`.

use super::Refused;
use super::entry::{datapath, entry, entry_name, grants, name_all, own_words};
use crate::config::slicer::{MOST_RULES, SlicerPlan, from_text};
use crate::openflow::address::{Controller, Security};
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
                    let read = toml::from_str(&text).with_context(|| path.display().to_string());
                    held = read.map_err(crate::fault::bad_input)?;
                }
                Err(e) if e.kind() == std::io::ErrorKind::NotFound => {}
                Err(e) => return Err(crate::fault::file(path.display(), &e)),
            }
        }
        name_all(&mut held.flowspace);
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
            out.push(serde_json::json!({
                "id": i + 1,
                "name": entry_name(r),
                "dpid": datapath(r),
                "priority": r.get("priority").and_then(|v| v.as_integer()).unwrap_or(100),
                // One that the configuration has is said in its own words.
                "match": kept("match").unwrap_or_else(|| own_words(r)),
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
        let host = p.get("controller-host").map(|_| text(p, "controller-host")).transpose()?;
        let port = p.get("controller-port").map(|v| count(v, "controller-port")).transpose()?;
        if host.is_some() || port.is_some() {
            move_first(&mut s, host, port)?;
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
        // Without a word about rules there is a limit of them, and none of messages.
        let none = i64::try_from(MOST_RULES).ok();
        for (key, own, none) in
            [("flowmod-limit", "rules", none), ("rate-limit", "messages_per_s", None)]
        {
            let Some(given) = p.get(key) else { continue };
            let n = match given.as_i64() {
                Some(-1) => none,
                Some(n) if n >= 0 => Some(n),
                _ => return Err(Refused::params(format!("{key}: a number, or -1 for none"))),
            };
            match n {
                Some(n) => drop(limits.insert(own.to_owned(), n.into())),
                None => drop(limits.remove(own)),
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

fn named(s: &Table) -> &str {
    s.get("name").and_then(|n| n.as_str()).unwrap_or_default()
}

fn enabled(s: &Table) -> bool {
    let status = s.get("fv").and_then(|f| f.get("admin-status")).and_then(|b| b.as_bool());
    status.unwrap_or(true)
}

/// A slice's first controller, which is the one that FlowVisor knows.
pub fn first(s: &Table) -> Option<Controller> {
    let text = s.get("controllers").and_then(|c| c.as_array()?.first()?.as_str())?;
    Controller::parse(text).ok()
}

/// Has a slice's first controller be elsewhere; the others stay.
fn move_first(s: &mut Table, host: Option<&str>, port: Option<u32>) -> Result<(), Refused> {
    let old = first(s);
    let security = old.as_ref().map_or(Security::Plain, |c| c.security);
    let old_host = old.as_ref().map(|c| c.host.as_str());
    let host = host.or(old_host).ok_or_else(|| Refused::params("controller-host: is needed"))?;
    let host = host.strip_prefix('[').and_then(|h| h.strip_suffix(']')).unwrap_or(host);
    let port = match port.map(u16::try_from) {
        None => old.as_ref().map(|c| c.port),
        Some(p) => Some(p.map_err(|_| Refused::params("controller-port: 1 to 65535"))?),
    };
    let port = port.ok_or_else(|| Refused::params("controller-port: is needed"))?;
    let new = Controller { security, host: host.to_owned(), port };
    let new = toml::Value::from(controller(&new.to_string())?);
    let all = s.entry("controllers").or_insert_with(|| toml::Value::Array(Vec::new()));
    match all.as_array_mut() {
        Some(all) if !all.is_empty() => all.iter_mut().take(1).for_each(|c| *c = new.clone()),
        _ => *all = toml::Value::Array(vec![new]),
    }
    Ok(())
}

/// `tcp:HOST:PORT`; what FlowVisor calls `ssl:` is ours as well.
fn controller(url: &str) -> Result<String, Refused> {
    let wrong = || Refused::params("controller-url: tcp:HOST:PORT");
    Controller::parse(url).map(|_| url.to_owned()).map_err(|_| wrong())
}

pub(super) fn text<'v>(p: &'v Map<String, Value>, key: &str) -> Result<&'v str, Refused> {
    let t = p.get(key).and_then(Value::as_str).filter(|t| !t.is_empty());
    t.ok_or_else(|| Refused::params(format!("{key}: is needed, a text")))
}

pub(super) fn count(v: &Value, key: &str) -> Result<u32, Refused> {
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

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    const CONFIG: &str = "listen = ['ptcp:0']\n\
        [[slice]]\nname = 'red'\ncontrollers = ['tcp:127.0.0.1:1', 'tcp:[::1]:2']\n\
        [[slice]]\nname = 'blue'\nlimits = { rules = 5 }\n\
        [[flowspace]]\nmatch = 'dl_vlan=1'\nports = [1, 'eth2']\nwrite = 'red'\n\
        [[flowspace]]\nmatch = 'dl_vlan=2'\nwrite = 'red'\ndatapath = 7\n\
        [[flowspace]]\nmatch = 'dl_vlan=3'\nwrite = 'red'\nfv = { name = 'entry-1' }\n";

    fn of(state: Option<PathBuf>) -> Document {
        Document::new(CONFIG, Path::new(""), state).unwrap()
    }
    fn object(v: Value) -> Map<String, Value> {
        v.as_object().unwrap().clone()
    }
    fn names(d: &Document) -> Vec<Value> {
        d.flowspace(None, true).iter().map(|e| e["name"].clone()).collect()
    }

    #[test]
    fn entries_of_the_configuration_are_changed_by_the_names_that_the_list_gives_them() {
        let dir = tempfile::tempdir().unwrap();
        let state = Some(dir.path().join("state.toml"));
        let mut d = of(state.clone());
        assert_eq!(names(&d), ["entry-2", "entry-3", "entry-1"]);
        let list = d.flowspace(None, true);
        assert_eq!(list[0]["match"], json!({ "text": "dl_vlan=1", "ports": [1, "eth2"] }));
        assert_eq!(list[1]["dpid"], "00:00:00:00:00:00:00:07");
        d.update_flowspace(&[json!({ "name": "entry-2", "priority": 7 })]).unwrap();
        // What is listed can be given back.
        let all = d.flowspace(None, true);
        let back = json!({ "name": "entry-2", "match": all[0]["match"], "dpid": all[1]["dpid"] });
        d.update_flowspace(&[back]).unwrap();
        assert_eq!(d.flowspace(None, true)[0]["match"], all[0]["match"]);
        let wrong = json!({ "name": "entry-2", "match": { "text": "", "prts": [1] } });
        assert!(d.update_flowspace(&[wrong]).is_err());
        let wrong = json!({ "name": "entry-2", "match": { "text": "", "ports": [-1] } });
        let mut other = d.clone();
        other.update_flowspace(&[wrong]).unwrap();
        assert!(other.plan().unwrap_err().text.contains("-1 is no port's number"));
        // One that goes leaves the others' names.
        d.remove_flowspace(&[json!("entry-2")]).unwrap();
        assert_eq!(names(&d), ["entry-3", "entry-1"]);
        d.keep().unwrap();
        assert_eq!(names(&of(state)), ["entry-3", "entry-1"]);
        assert_eq!(d.plan().unwrap().rules.len(), 2);
    }

    #[test]
    fn what_clashes_is_called_by_its_name_and_not_by_a_line_of_no_text() {
        let mut d = of(None);
        let entry = json!({ "name": "mine", "dpid": "any", "priority": 100, "match": { "dl_vlan": 3 },
                            "slice-action": [{ "slice-name": "blue", "permission": 4 }] });
        d.add_flowspace(&[entry]).unwrap();
        let why = d.plan().unwrap_err().text;
        assert!(why.contains("(it is called 'entry-1')") && !why.contains("line"), "{why}");
    }

    #[test]
    fn one_controller_that_is_elsewhere_leaves_the_others() {
        let mut d = of(None);
        let controllers = |d: &Document, name| {
            let all = d.plan().unwrap().tenants.into_iter().find(|t| t.plan.name == name).unwrap();
            all.controllers.iter().map(ToString::to_string).collect::<Vec<_>>()
        };
        let mut update = |v| d.update_slice(&object(v)).map(|()| d.clone());
        let new = update(json!({ "slice-name": "red", "controller-port": 27005 })).unwrap();
        assert_eq!(controllers(&new, "red"), ["tcp:127.0.0.1:27005", "tcp:[::1]:2"]);
        let new = update(json!({ "slice-name": "red", "controller-host": "[::2]" })).unwrap();
        assert_eq!(controllers(&new, "red"), ["tcp:[::2]:27005", "tcp:[::1]:2"]);
        assert!(update(json!({ "slice-name": "red", "controller-port": 65536 })).is_err());
        assert!(update(json!({ "slice-name": "red", "controller-host": 5 })).is_err());
        // There is none to be elsewhere.
        let of_blue = json!({ "slice-name": "blue", "controller-port": 7 });
        assert!(update(of_blue).unwrap_err().text.contains("controller-host: is needed"));
        let of_blue = json!({ "slice-name": "blue", "controller-port": 7, "controller-host": "h" });
        assert_eq!(controllers(&update(of_blue).unwrap(), "blue"), ["tcp:h:7"]);
        // What protects the connection stays.
        let mut s: Table = "controllers = ['ssl:h:1']".parse().unwrap();
        move_first(&mut s, None, Some(2)).unwrap();
        assert_eq!(first(&s).unwrap().to_string(), "ssl:h:2");
    }

    #[test]
    fn minus_one_is_no_limit() {
        let mut d = of(None);
        let mut rules = |n: Value| {
            d.update_slice(&object(json!({ "slice-name": "blue", "flowmod-limit": n })))?;
            Ok::<_, Refused>(d.plan()?.tenants[1].plan.limits.rules)
        };
        assert_eq!(rules(json!(7)).unwrap(), 7);
        assert_eq!(rules(json!(-1)).unwrap(), MOST_RULES);
        for wrong in [json!(-2), json!("1"), json!(1.5)] {
            assert!(rules(wrong).is_err());
        }
    }
}
