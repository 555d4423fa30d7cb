//! Connections for a change: each data plane by one name, whatever labs call it, and without those that do not
//! answer.
//!
//! Room: before anything is planned. Hosts of several labs are one if they are reached by the same words, or if
//! the data plane that answers says that it is the same. A plan that had two names for one would delete by one
//! what it has made by the other.

use super::lab::{LabFile, refused};
use super::nodes::{Nodes, client, seen, show};
use crate::fault::is_bad_input;
use crate::socket::client::NoAnswer;
use crate::socket::protocol::Item;
use anyhow::{Context, Error, Result};
use std::collections::BTreeMap;
use std::path::Path;
use weir_supervisor::model::{Host, Lab, Tls, one_plane};
use weir_supervisor::observed::{Observed, ObservedHost};
use weir_supervisor::refusal::Way;
use weir_supervisor::rename::{Names, renamed};
use weir_supervisor::store::State;

/// The physical nodes of several labs.
#[derive(Debug, Default)]
pub struct Reached {
    /// Connections, by the names of the first lab; of one that it does not name by that of another.
    pub nodes: Nodes,
    /// What they had when they were reached.
    pub observed: Observed,
    /// Those that do not answer, and what was said.
    pub silent: BTreeMap<String, String>,
    /// What a host of any of the labs is called here, by its name there and its `api`.
    names: BTreeMap<(String, String), String>,
}

/// Who a data plane is: no two have the same.
fn identity(h: &Host, items: &[Item]) -> Option<String> {
    let told = items.iter().find_map(|i| match i {
        Item::Plane(p) => p.instance.clone(),
        _ => None,
    });
    // One that is older has its socket's file at least.
    told.or_else(|| {
        let (device, number) = weir_io::file_id(Path::new(h.api.strip_prefix("unix:")?))?;
        Some(format!("file {device} {number}"))
    })
}

/// What became of a host of another lab.
enum Further {
    /// It is called this.
    Called(String),
    /// Another address has its name, and its own does not answer.
    Silent(Error),
}

/// A name for a host whose own is another's.
fn apart(h: &Host) -> String {
    format!("{}@{}", h.name, h.api)
}

impl Reached {
    /// Connects to every host of a lab, which has the names, and of others that things may be at.
    ///
    /// # Errors
    /// Two hosts of the first lab are one data plane; one of it does not answer that the others do not know;
    /// one refuses; an identity can't be used.
    pub fn of<'l>(
        lab: &Lab,
        others: impl IntoIterator<Item = &'l Lab> + Clone,
        file: Option<&LabFile>,
    ) -> Result<Self> {
        let mut out = Self::default();
        let (mut by_api, mut by_identity) = (BTreeMap::new(), BTreeMap::new());
        for (i, h) in lab.host.iter().enumerate() {
            let twice = |other: &String| refused(file, &one_plane(h, other, &Way::item("host", i)));
            if let Some(other) = by_api.insert(h.api.clone(), h.name.clone()) {
                return Err(twice(&other));
            }
            match out.reach(h, &h.name, lab.tls.as_ref()) {
                Ok(id) => {
                    let other = id.and_then(|id| by_identity.insert(id, h.name.clone()));
                    if let Some(other) = other {
                        return Err(twice(&other));
                    }
                }
                // One that is new must be there.
                Err(e)
                    if others
                        .clone()
                        .into_iter()
                        .any(|o| o.host.iter().any(|o| o.api == h.api)) =>
                {
                    out.silence(&h.name, e)?;
                }
                Err(e) => return Err(e),
            }
            out.names.insert((h.name.clone(), h.api.clone()), h.name.clone());
        }
        for other in others {
            let mut moved = Vec::new();
            for h in &other.host {
                let key = (h.name.clone(), h.api.clone());
                if out.names.contains_key(&key) {
                    continue;
                }
                let name = match by_api.get(&h.api) {
                    Some(known) => known.clone(),
                    None => match out.further(h, other.tls.as_ref(), lab, &mut by_identity)? {
                        Further::Called(name) => name,
                        Further::Silent(e) => {
                            moved.push((h, e));
                            continue;
                        }
                    },
                };
                by_api.insert(h.api.clone(), name.clone());
                out.names.insert(key, name);
            }
            for (h, e) in moved {
                let name = out.otherwise(h, other, e)?;
                by_api.insert(h.api.clone(), name.clone());
                out.names.insert((h.name.clone(), h.api.clone()), name);
            }
        }
        Ok(out)
    }

    /// What a host is called whose address does not answer, and whose name another address has now: it is reached
    /// otherwise, unless what is there is another of its lab's.
    fn otherwise(&mut self, h: &Host, of: &Lab, e: Error) -> Result<String> {
        let of_another = |o: &Host| {
            o.name != h.name && self.names.get(&(o.name.clone(), o.api.clone())) == Some(&h.name)
        };
        if !of.host.iter().any(of_another) {
            return Ok(h.name.clone());
        }
        let name = apart(h);
        self.silence(&name, e)?;
        Ok(name)
    }

    /// What a host is called that the first lab does not reach so.
    fn further(
        &mut self,
        h: &Host,
        tls: Option<&Tls>,
        lab: &Lab,
        by_identity: &mut BTreeMap<String, String>,
    ) -> Result<Further> {
        // Another data plane may have its name by now, or in another of the labs.
        let known = lab.find_host(&h.name).is_some();
        let taken = known || self.names.values().any(|n| *n == h.name);
        let name = if taken { apart(h) } else { h.name.clone() };
        match self.reach(h, &name, tls) {
            Ok(id) => {
                let Some(id) = id else { return Ok(Further::Called(name)) };
                let same = by_identity.entry(id).or_insert_with(|| name.clone()).clone();
                if same != name {
                    self.nodes.all.remove(&name);
                    self.observed.remove(&name);
                }
                Ok(Further::Called(same))
            }
            Err(e) if known && e.downcast_ref::<NoAnswer>().is_some() => Ok(Further::Silent(e)),
            Err(e) => {
                self.silence(&name, e)?;
                Ok(Further::Called(name))
            }
        }
    }

    /// Connects to a host and asks it what it has. Says who it is, if it does.
    fn reach(&mut self, h: &Host, name: &str, tls: Option<&Tls>) -> Result<Option<String>> {
        let asked = || {
            let mut client = client(h, tls)?;
            let (items, _) = client.ask(&show())?;
            Ok::<_, Error>((client, items))
        };
        let (client, items) = asked().with_context(|| format!("host '{}'", h.name))?;
        let id = identity(h, &items);
        self.nodes.all.insert(name.to_owned(), client);
        self.observed.insert(name.to_owned(), seen(items));
        Ok(id)
    }

    /// Notes that a host does not answer.
    fn silence(&mut self, name: &str, e: Error) -> Result<()> {
        if e.downcast_ref::<NoAnswer>().is_none() || is_bad_input(&e) {
            return Err(e);
        }
        self.silent.insert(name.to_owned(), format!("{e:#}"));
        Ok(())
    }

    /// A state with the names that hosts have here.
    pub fn renamed(&self, s: &State) -> State {
        let name = |h: &Host| self.names.get(&(h.name.clone(), h.api.clone())).cloned();
        let names: Names =
            s.lab.host.iter().filter_map(|h| Some((h.name.clone(), name(h)?))).collect();
        renamed(s, &names)
    }

    /// Why something can't be at a host that does not answer.
    pub fn why_not(&self, host: &str, what: &str) -> Error {
        let text = self.silent.get(host).cloned().unwrap_or_default();
        Error::msg(format!("{text}; {what} can't be changed there"))
    }

    /// What all have, as far as they say so.
    pub fn with_silent(
        &self,
        mut observed: Observed,
        supposed: impl Fn(&str) -> ObservedHost,
    ) -> Observed {
        observed.extend(self.silent.keys().map(|h| (h.clone(), supposed(h))));
        observed
    }
}
