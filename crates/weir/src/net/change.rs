//! One change of the networks, from what is asked for to what holds.
//!
//! Room: the store and the nodes, in this order: checked, observed, admitted, planned; noted in the
//! store as under way; carried out; noted as done. Whatever fails before the note touches nothing, and
//! whatever fails after it is put back. Who is killed in between is taken up by [`Keeper::recover`].

use super::lab::{LabFile, checked, refused};
use super::moving::{self, Moved};
use super::nodes::{Nodes, Proof};
use super::store::Redb;
use crate::config::read::vdp_from;
use crate::fault::{bad_input, is_bad_input};
use crate::socket::protocol::Became;
use crate::verify::LeakItem;
use anyhow::{Error, Result};
use std::borrow::Cow;
use std::collections::BTreeMap;
use std::fmt;
use std::path::Path;
use weir_supervisor::admission::admit;
use weir_supervisor::away::{Move, moves};
use weir_supervisor::model::Lab;
use weir_supervisor::observed::Observed;
use weir_supervisor::plan::{Step, plan};
use weir_supervisor::refusal::Refusal;
use weir_supervisor::section::Wanted;
use weir_supervisor::store::{Places, Saved, State, Store};
use weir_supervisor::wires::{self, Before, Links, WantedPort, lay};

/// Keeps networks.
#[derive(Debug)]
pub struct Keeper {
    store: Redb,
    /// What the store held when it was last looked at.
    pub saved: Saved,
    /// Nodes that the last change made ones of the other kind.
    pub became: Vec<Became>,
    /// How nodes were moved since it was opened.
    pub moved: Vec<Moved>,
}

/// A change that can be made.
#[derive(Debug)]
pub struct Prepared {
    nodes: Nodes,
    target: State,
    /// What it takes.
    pub steps: Vec<Step>,
    /// Nodes that go to other hosts then, or come back.
    pub moves: Vec<Move>,
    /// The sections that hold now, of the VDPs that steps change.
    pub before: Vec<Wanted>,
}

/// Whether a change that was interrupted is led to its end, or undone.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Way {
    /// To its end.
    On,
    /// To the state before.
    Back,
}

/// Whether a change is proved to keep networks apart before it is made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verify {
    /// If the lab says `verify = true`.
    AsTheLabSays,
    /// Whatever it says.
    Always,
}

/// Networks would not be apart: why a change was refused, for whoever wants more than a line.
#[derive(Debug)]
pub struct NotApart {
    /// What was found, the first leaks.
    pub leaks: Vec<LeakItem>,
    text: String,
}

impl fmt::Display for NotApart {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

/// Whether all is proved.
fn apart(proofs: &BTreeMap<String, Proof>) -> Result<()> {
    let Some((host, p)) = proofs.iter().find(|(_, p)| !p.verified.isolated) else { return Ok(()) };
    let text = match p.leaks.first() {
        Some(l) => {
            let to = l.to.as_ref().map_or_else(
                || format!("{}, outside of its own part of it", l.reaches),
                |to| format!("{} of network '{to}'", l.reaches),
            );
            let frame = l.frame.as_ref().map(|f| format!(": frame {f}")).unwrap_or_default();
            format!(
                "not isolated: host '{host}', {}: by {}, frames of network '{}' that come in by port {} \
                 would reach {to}{frame}",
                l.vdp, l.by, l.from, l.in_port
            )
        }
        None => {
            let undecided = p.verified.undecided.join(", ");
            format!(
                "not proved: host '{host}': rules of {undecided} take too much work: make them fewer"
            )
        }
    };
    let leaks = p.leaks.clone();
    Err(bad_input("nothing was touched").context(NotApart { leaks, text }))
}

impl Keeper {
    /// What held at a revision, as far back as is kept.
    ///
    /// # Errors
    /// The store can't be read.
    pub fn revision(&self, number: u64) -> Result<Option<State>> {
        Ok(self.store.revision(number)?)
    }

    /// Opens the store; nobody else has it until this is dropped.
    ///
    /// # Errors
    /// It can't be opened.
    pub fn open(path: &Path) -> Result<Self> {
        let store = Redb::open(path)?;
        let saved = store.load()?;
        Ok(Self { store, saved, became: Vec::new(), moved: Vec::new() })
    }

    /// Works out what it takes for `lab` to hold. Touches nothing.
    ///
    /// # Errors
    /// It can't be, with the reason; or a node does not answer.
    pub fn prepare(&self, lab: Lab, file: Option<&LabFile>, verify: Verify) -> Result<Prepared> {
        checked(&lab, file)?;
        let left = self.saved.under_way.as_ref();
        let labs = [&lab, &self.saved.state.lab].into_iter().chain(left.map(|s| &s.lab));
        let mut nodes = Nodes::connect(labs)?;
        let observed = nodes.observe()?;
        let known = self.places();
        let goal = Goal::of(&lab, &observed, &known, &self.links(), self.saved.id)
            .map_err(|r| refused(file, &r))?;
        for w in &goal.wanted {
            readable(w, &observed, &goal.ports)
                .map_err(|e| refused(file, &Refusal::new(w.at.clone(), e)))?;
        }
        let steps = goal.steps(&observed, self.saved.id, &known);
        if !steps.is_empty() && (lab.verify || verify == Verify::Always) {
            apart(&nodes.verify(&steps)?)?;
        }
        let moves = moves(&lab, &self.saved.state.lab, &observed, &goal.places, self.saved.id)
            .map_err(|r| refused(file, &r))?;
        let revision = self.saved.state.revision + 1;
        let target = State { revision, lab, places: goal.places, links: goal.links };
        let before = self.sections(&observed);
        Ok(Prepared { nodes, target, steps, moves, before })
    }

    /// Where virtual nodes live or may have come to live.
    fn places(&self) -> Places {
        let mut all = self.saved.state.places.clone();
        if let Some(s) = &self.saved.under_way {
            all.extend(s.places.iter().map(|(k, v)| (k.clone(), v.clone())));
        }
        all
    }

    /// Where virtual links go or may have come to go.
    fn links(&self) -> Links {
        let mut all = self.saved.state.links.clone();
        let left = self.saved.under_way.iter().flat_map(|s| &s.links);
        all.extend(left.map(|(k, v)| (k.clone(), v.clone())));
        all
    }

    /// The sections that hold, for showing what changes in them.
    fn sections(&self, observed: &Observed) -> Vec<Wanted> {
        let s = &self.saved.state;
        let goal = Goal::of(&s.lab, observed, &s.places, &s.links, self.saved.id);
        goal.map(|g| g.wanted).unwrap_or_default()
    }

    /// Whether a prepared change would change nothing at all, the store included.
    pub fn is_done(&self, p: &Prepared) -> bool {
        p.steps.is_empty() && self.saved.under_way.is_none() && p.target.lab == self.saved.state.lab
    }

    /// Makes a prepared change. If a step fails, all is put back.
    ///
    /// # Errors
    /// Why it failed, and whether all is as before.
    pub fn make(&mut self, mut p: Prepared) -> Result<()> {
        let before = (self.places(), self.saved.state.links.clone());
        self.store.begin(&p.target)?;
        self.saved.under_way = Some(p.target);
        let target = self.saved.under_way.clone().unwrap_or_default();
        let id = self.saved.id;
        let done = p.nodes.begin_turn(id).and_then(|()| p.nodes.perform(&p.steps));
        let done = done.and_then(|became| {
            Ok((became, moving::lead(&mut p.nodes, &target.lab, &target.places, id)?))
        });
        match done {
            Ok((became, moved)) => (self.became, self.moved) = (became, moved),
            Err(e) => return Err(self.put_back(&mut p.nodes, &before, &e)),
        }
        self.done()
    }

    fn done(&mut self) -> Result<()> {
        self.store.finish()?;
        self.saved = self.store.load()?;
        Ok(())
    }

    /// Undoes what was done of a change that failed, and says so behind the reason.
    fn put_back(
        &mut self,
        nodes: &mut Nodes,
        (places, links): &(Places, Links),
        why: &Error,
    ) -> Error {
        let lab = self.saved.state.lab.clone();
        let back = lead(nodes, &lab, places, links, self.saved.id)
            .and_then(|_| Ok(self.store.abandon()?));
        let text = match back {
            Ok(()) => {
                self.saved.under_way = None;
                format!("{why:#}; all is as before")
            }
            Err(e) => format!(
                "{why:#}; and it could not be undone: {e:#}; 'weir net recover --back' tries again"
            ),
        };
        if is_bad_input(why) { bad_input(text) } else { Error::msg(text) }
    }

    /// Leads a change that was interrupted to its end, or undoes it. Says whether there was one.
    ///
    /// # Errors
    /// It can't be, now; the store still says that it is under way.
    pub fn recover(&mut self, way: Way) -> Result<Option<usize>> {
        let Some(left) = self.saved.under_way.clone() else { return Ok(None) };
        let mut nodes = Nodes::connect([&left.lab, &self.saved.state.lab])?;
        nodes.begin_turn(self.saved.id)?;
        let goal = match way {
            Way::On => left,
            Way::Back => self.saved.state.clone(),
        };
        let mut known = self.places();
        known.extend(goal.places);
        let steps = lead(&mut nodes, &goal.lab, &known, &goal.links, self.saved.id)?;
        match way {
            Way::On => self.store.finish()?,
            Way::Back => self.store.abandon()?,
        }
        self.saved = self.store.load()?;
        Ok(Some(steps))
    }
}

/// Makes a lab that was admitted hold, from whatever is there.
fn lead(nodes: &mut Nodes, lab: &Lab, places: &Places, links: &Links, store: u64) -> Result<usize> {
    let observed = nodes.observe()?;
    let goal = Goal::of(lab, &observed, places, links, store).map_err(|r| refused(None, &r))?;
    let steps = goal.steps(&observed, store, places);
    nodes.perform(&steps)?;
    let moved = moving::lead(nodes, lab, places, store)?;
    Ok(steps.len() + moved.len())
}

/// What must be there for a lab to hold.
struct Goal {
    wanted: Vec<Wanted>,
    ports: Vec<WantedPort>,
    places: Places,
    links: Links,
}

impl Goal {
    fn of(
        lab: &Lab,
        observed: &Observed,
        places: &Places,
        links: &Links,
        store: u64,
    ) -> Result<Self, Refusal> {
        let laid = lay(lab, observed, Before { places, links }, store)?;
        let (mut wanted, mut places) = admit(lab, observed, places, store)?;
        wanted.extend(laid.relays);
        places.extend(laid.places);
        Ok(Self { wanted, ports: laid.ports, places, links: laid.links })
    }

    /// Ports come before the VDPs that use them, and go after them.
    fn steps(&self, observed: &Observed, store: u64, known: &Places) -> Vec<Step> {
        let (first, last) = wires::steps(&self.ports, observed, store);
        let vdps = plan(&self.wanted, observed, store, known);
        first.into_iter().chain(vdps).chain(last).collect()
    }
}

/// Reads a section as its data plane will.
fn readable(w: &Wanted, observed: &Observed, ports: &[WantedPort]) -> Result<(), String> {
    let mut known: Vec<String> =
        observed.get(&w.host).map(|h| h.ports.iter().cloned().collect()).unwrap_or_default();
    known.extend(ports.iter().filter(|p| p.host == w.host).map(|p| p.name.clone()));
    let text = without_files(&w.toml);
    vdp_from(&text, None, &known, None).map(|_| ()).map_err(|e| format!("{}: {e}", w.name))
}

/// A section without its identity, whose files are on the node's machine: for reading it here.
fn without_files(text: &str) -> Cow<'_, str> {
    let Ok(mut file) = text.parse::<toml::Table>() else { return text.into() };
    let vdps = file.get_mut("vdp").and_then(|v| v.as_array_mut()).and_then(|v| v.first_mut());
    let Some(o) = vdps.and_then(|v| v.get_mut("openflow")).and_then(|o| o.as_table_mut()) else {
        return text.into();
    };
    if o.remove("tls").is_none() {
        return text.into();
    }
    for (key, plain, by_tls) in
        [("controllers", "tcp:", ["ssl:", "tls:"]), ("listen", "ptcp:", ["pssl:", "ptls:"])]
    {
        for a in o.get_mut(key).and_then(|a| a.as_array_mut()).into_iter().flatten() {
            let rest = a.as_str().and_then(|a| by_tls.iter().find_map(|m| a.strip_prefix(m)));
            if let Some(rest) = rest {
                *a = toml::Value::String(format!("{plain}{rest}"));
            }
        }
    }
    o.insert("insecure".to_owned(), true.into());
    toml::to_string(&file).map_or(text.into(), Cow::Owned)
}
