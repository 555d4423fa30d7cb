//! Entries of the flow space, from what FlowVisor's names say of them and to it.
//!
//! Room: one entry's table of the text that `document` keeps.

use super::document::{count, text};
use super::{Refused, matches};
use serde_json::{Map, Value};
use std::collections::BTreeSet;
use toml::Table;

/// Rights in FlowVisor's bits: delegate 1, read 2, write 4.
const DELEGATE: u64 = 1;
const READ: u64 = 2;
const WRITE: u64 = 4;

/// Puts what is said of an entry into it.
pub(super) fn entry(r: &mut Table, v: &Map<String, Value>) -> Result<(), Refused> {
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
        let kept = toml::Value::try_from(m).map_err(|e| Refused::params(format!("match: {e}")))?;
        let (text, ports) = if m.contains_key("text") {
            // As the list shows an entry of the configuration.
            fv.remove("match");
            given_back(&kept)?
        } else {
            let (text, port) = matches::read(m)?;
            fv.insert("match".to_owned(), kept);
            (text, port.map(|n| vec![i64::from(n).into()]))
        };
        r.insert("match".to_owned(), if text.is_empty() { "any".into() } else { text.into() });
        match ports {
            Some(all) => drop(r.insert("ports".to_owned(), toml::Value::Array(all))),
            None => drop(r.remove("ports")),
        }
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

/// What it is called.
pub(super) fn entry_name(r: &Table) -> Option<&str> {
    r.get("fv")?.get("name")?.as_str()
}

/// Gives entries without a name one by which they can be changed, whatever becomes of those before them.
pub(super) fn name_all(all: &mut [Table]) {
    let taken: BTreeSet<String> = all.iter().filter_map(entry_name).map(str::to_owned).collect();
    let mut free = (1..).map(|n: u64| format!("entry-{n}")).filter(|n| !taken.contains(n));
    for r in all.iter_mut().filter(|r| entry_name(r).is_none()) {
        let fv = r.entry("fv").or_insert_with(|| Table::new().into());
        if let (Some(fv), Some(name)) = (fv.as_table_mut(), free.next()) {
            fv.insert("name".to_owned(), name.into());
        }
    }
}

/// An entry's datapath as FlowVisor shows it.
pub(super) fn datapath(r: &Table) -> String {
    match r.get("datapath") {
        Some(toml::Value::String(digits)) => super::methods::colons(digits),
        Some(toml::Value::Integer(n)) => super::methods::shown(n.cast_unsigned()),
        _ => "any".to_owned(),
    }
}

/// What an entry of the configuration matches, as it says it.
pub(super) fn own_words(r: &Table) -> Value {
    let mut said = Map::new();
    let text = r.get("match").and_then(|v| v.as_str()).unwrap_or_default();
    said.insert("text".to_owned(), text.into());
    let ports = r.get("ports").and_then(|p| serde_json::to_value(p).ok());
    said.extend(ports.map(|p| ("ports".to_owned(), p)));
    Value::Object(said)
}

/// The same, said by a request.
fn given_back(m: &toml::Value) -> Result<(String, Option<Vec<toml::Value>>), Refused> {
    let wrong = || Refused::params("match: text and, where it is so, ports, as list-flowspace has");
    let m = m.as_table().ok_or_else(wrong)?;
    if m.keys().any(|k| k != "text" && k != "ports") {
        return Err(wrong());
    }
    let text = m.get("text").and_then(|t| t.as_str()).ok_or_else(wrong)?;
    let ports = m.get("ports").map(|p| p.as_array().cloned().ok_or_else(wrong)).transpose()?;
    Ok((text.to_owned(), ports))
}

/// Who may do what with an entry, in FlowVisor's bits.
pub(super) fn grants(r: &Table) -> Vec<(String, u64)> {
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
