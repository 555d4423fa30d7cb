//! One change of the networks, from what is asked for to what holds.
//!
//! Room: the store and the nodes, in this order: checked, observed, admitted, planned; noted in the
//! store as under way; carried out; noted as done. Whatever fails before the note touches nothing, and
//! whatever fails after it is put back. Who is killed in between is taken up by [`Keeper::recover`]. Hosts that
//! do not answer are left out where nothing is to be made there.

use super::apart::apart;
use super::flows::Flows;
use super::lab::{LabFile, checked, refused};
use super::moving::{self, Moved};
use super::nodes::Nodes;
use super::reach::Reached;
use super::store::Redb;
use crate::config::read::vdp_from;
use crate::fault::{bad_input, is_bad_input};
use crate::socket::protocol::Became;
use anyhow::{Error, Result};
use std::borrow::Cow;
use std::path::Path;
use weir_supervisor::away::{Move, moves};
use weir_supervisor::goal::Goal;
use weir_supervisor::homeward::{homeward, movable};
use weir_supervisor::lacking::{self, lacking, let_alone, names_one};
use weir_supervisor::mend::{Mend, mends};
use weir_supervisor::model::{Lab, guard};
use weir_supervisor::observed::Observed;
use weir_supervisor::plan::Step;
use weir_supervisor::refusal::{Refusal, Way as Place};
use weir_supervisor::section::{Wanted, section};
use weir_supervisor::silent::{self, Missed, What, split, supposed};
use weir_supervisor::store::{Places, Saved, State, Store};
use weir_supervisor::wires::{Links, WantedPort};

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
    known: Known,
    target: State,
    /// What is not done at hosts that do not answer.
    pub missed: Vec<Missed>,
    /// Guards that watch nothing any more then, each in a line.
    pub idle: Vec<String>,
    /// Hosts where networks are not apart already, each in a line.
    pub already: Vec<String>,
    /// Nodes that come home before their hosts change them: network and name.
    pub homeward: Vec<(String, String)>,
    /// What it takes.
    pub steps: Vec<Step>,
    /// Nodes that go to other hosts then, or come back.
    pub moves: Vec<Move>,
    /// Nodes that are at other hosts and get no frames there as it is.
    pub mends: Vec<Mend>,
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
    /// It is not: what cuts a node off, or a network, waits for no proof.
    Never,
}

impl Prepared {
    /// Whether it would change nothing at all of what was kept, what was noted of it included.
    pub fn is_done(&self, saved: &Saved) -> bool {
        self.steps.is_empty()
            && self.mends.is_empty()
            && saved.under_way.is_none()
            && self.target.lab == saved.state.lab
    }

    /// VDPs that go and are nobody's any more: left over at hosts that had been given up.
    fn leftovers(&self) -> Vec<String> {
        let places = self.known.places();
        let left = |s: &Step| match s {
            Step::Delete { host, vid, name, .. } => {
                let known = places.values().any(|p| p.host == *host && p.vid == *vid);
                (!known).then(|| format!("{host}: VDP {vid} {name}"))
            }
            _ => None,
        };
        self.steps.iter().filter_map(left).collect()
    }
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
    /// As [`prepare`].
    pub fn prepare(&self, lab: Lab, file: Option<&LabFile>, verify: Verify) -> Result<Prepared> {
        prepare(&self.saved, lab, file, verify)
    }

    /// Whether a prepared change would change nothing at all, the store included.
    pub fn is_done(&self, p: &Prepared) -> bool {
        p.is_done(&self.saved)
    }

    /// Makes a prepared change. If a step fails, all is put back.
    ///
    /// # Errors
    /// Why it failed, and whether all is as before.
    pub fn make(&mut self, mut p: Prepared) -> Result<()> {
        // What was under way before is forgotten by the store now.
        let earlier = self.saved.under_way.clone();
        self.store.begin(&p.target)?;
        self.saved.under_way = Some(p.target.clone());
        let id = self.saved.id;
        let at = moving::Known { places: &p.target.places, states: &p.known.0, store: id };
        let lab = &p.target.lab;
        let done = p.nodes.begin_turn(id).and_then(|()| {
            let mut moved = moving::come_home(&mut p.nodes, lab, at, &p.homeward)?;
            let became = p.nodes.perform(&p.steps)?;
            moved.extend(moving::lead(&mut p.nodes, lab, at)?);
            Ok((became, moved))
        });
        match done {
            Ok((became, moved)) => (self.became, self.moved) = (became, moved),
            Err(e) => {
                let gone = p.leftovers();
                drop(p.nodes);
                return Err(self.put_back(earlier.as_ref(), &e, &gone));
            }
        }
        self.done()
    }

    fn done(&mut self) -> Result<()> {
        self.store.finish()?;
        self.saved = self.store.load()?;
        Ok(())
    }

    /// Undoes what was done of a change that failed, and says so behind the reason. What was left over from before, and is
    /// `gone` now, nobody wanted.
    fn put_back(&mut self, earlier: Option<&State>, why: &Error, gone: &[String]) -> Error {
        let left = self.saved.under_way.clone();
        let others: Vec<&State> = left.iter().chain(earlier).collect();
        let back = lead(Way::Back, &self.saved.state, &others, self.saved.id)
            .and_then(|led| self.store.abandon().map(|()| led.missed).map_err(Error::from));
        let text = match back {
            Ok(missed) => {
                self.saved.under_way = None;
                let missed: String = missed.iter().map(|m| format!("; {m}")).collect();
                let gone = match gone {
                    [] => String::new(),
                    all => format!(", but what was given up is gone: {}", all.join(", ")),
                };
                format!("{why:#}; all is as before{gone}{missed}")
            }
            Err(e) => format!(
                "{why:#}; and it could not be undone: {e:#}; 'weir net recover --back' tries again"
            ),
        };
        if is_bad_input(why) { bad_input(text) } else { Error::msg(text) }
    }

    /// Finishes a change that was interrupted, if one was, before another is made. Says what was not done.
    ///
    /// # Errors
    /// It can't be finished, and how it is undone.
    pub fn finish_earlier(&mut self) -> Result<Vec<Missed>> {
        let led = self.recover(Way::On).map_err(|e| {
            let text = format!(
                "a change was interrupted, and can't be finished: {e:#}; 'weir net recover --back' undoes it"
            );
            if is_bad_input(&e) { bad_input(text) } else { Error::msg(text) }
        })?;
        Ok(led.map(|l| l.missed).unwrap_or_default())
    }

    /// Leads a change that was interrupted to its end, or undoes it. Says whether there was one.
    ///
    /// # Errors
    /// It can't be, now; the store still says that it is under way.
    pub fn recover(&mut self, way: Way) -> Result<Option<Led>> {
        let Some(left) = self.saved.under_way.clone() else { return Ok(None) };
        let now = &self.saved.state;
        let (goal, other) = match way {
            Way::On => (&left, now),
            Way::Back => (now, &left),
        };
        let led = lead(way, goal, &[other], self.saved.id)?;
        match way {
            Way::On => self.store.finish()?,
            Way::Back => self.store.abandon()?,
        }
        self.saved = self.store.load()?;
        Ok(Some(led))
    }
}

/// Works out what it takes for `lab` to hold where this is what was kept. Touches nothing, and needs no store: who only
/// wants to know lets others change it meanwhile.
///
/// # Errors
/// It can't be, with the reason; or a node does not answer that has something to do.
pub fn prepare(
    saved: &Saved,
    lab: Lab,
    file: Option<&LabFile>,
    verify: Verify,
) -> Result<Prepared> {
    checked(&lab, file)?;
    let id = saved.id;
    let left = saved.under_way.as_ref();
    let labs: Vec<&Lab> = [&saved.state].into_iter().chain(left).map(|s| &s.lab).collect();
    let mut reached = Reached::of(&lab, labs, file)?;
    let known = Known::of(saved, &reached);
    let observed = known.observed(&reached, reached.observed.clone(), &lab, id);
    let places = known.places();
    let now = known.now();
    let lacks = lacking(&lab, &now.lab, &observed);
    let admits = lacking::without(observed.clone(), &lacks);
    let goal =
        Goal::of(&lab, &admits, &places, &known.links(), id).map_err(|r| refused(file, &r))?;
    for w in goal.wanted.iter().filter(|w| !names_one(&w.host, &w.toml, &lacks)) {
        readable(w, &observed, &goal.ports)
            .map_err(|e| refused(file, &Refusal::new(w.at.clone(), e)))?;
    }
    let steps = let_alone(goal.steps(&observed, id, &places), &lacks);
    let split = split(steps, |h| !reached.nodes.answers(h));
    if let Some((host, what)) = split.needed.first() {
        return Err(reached.why_not(host, what));
    }
    let steps = split.steps;
    let admits = lacking::without(observed.clone(), &lacking(&now.lab, &now.lab, &observed));
    let before = Goal::of(&now.lab, &admits, &now.places, &now.links, id);
    let before = before.map(|g| g.wanted).unwrap_or_default();
    let changed = homeward(&steps, &observed, &lab, &now.lab, id);
    movable(&changed, &before).map_err(|r| refused(file, &r))?;
    let homeward = changed.iter().filter(|h| h.stays.is_none());
    let homeward = homeward.map(|h| (h.network.to_owned(), h.node.to_owned())).collect();
    let proves = match verify {
        Verify::AsTheLabSays => lab.verify,
        Verify::Always => true,
        Verify::Never => false,
    };
    let already = match proves && !steps.is_empty() {
        true => apart(&reached.nodes.verify(&steps)?)?,
        false => Vec::new(),
    };
    let moves = moves(&lab, &now.lab, &observed, &goal.places, id, &Flows)
        .map_err(|r| refused(file, &r))?;
    for m in &moves {
        let home = lab.network(&m.network).and_then(|n| n.node(&m.node)).map(|v| &v.host);
        let needed = [Some(&m.to), home].into_iter().flatten();
        if let Some(host) = needed.into_iter().find(|h| reached.silent.contains_key(*h)) {
            return Err(reached.why_not(host, &format!("{}.{}", m.network, m.node)));
        }
    }
    let answers = |h: &str| reached.nodes.answers(h);
    let mends = mends(&lab, &now.lab, &observed, &goal.places, (id, &Flows), answers)
        .map_err(|r| refused(file, &r))?;
    let mut missed = known.missed(&reached, split.gone, &lab);
    missed.extend(lacking::missed(&lacks));
    let idle = guard::left_idle(&now.lab, &lab);
    let revision = saved.state.revision + 1;
    let target = State { revision, lab, places: goal.places, links: goal.links };
    let nodes = reached.nodes;
    Ok(Prepared {
        nodes,
        known,
        target,
        missed,
        idle,
        already,
        homeward,
        steps,
        moves,
        mends,
        before,
    })
}

/// A change that was interrupted, led to an end.
#[derive(Debug)]
pub struct Led {
    /// In so many steps.
    pub steps: usize,
    /// What was not done at hosts that do not answer.
    pub missed: Vec<Missed>,
}

/// Makes a state hold that was admitted, from whatever is there: what others may have made, too.
fn lead(way: Way, goal: &State, others: &[&State], store: u64) -> Result<Led> {
    let mut labs: Vec<&Lab> = others.iter().map(|s| &s.lab).collect();
    if way == Way::Back {
        // What held is remembered itself: none of its hosts is new.
        labs.push(&goal.lab);
    }
    let mut reached = Reached::of(&goal.lab, labs, None)?;
    reached.nodes.begin_turn(store)?;
    let others = others.iter().map(|s| reached.renamed(s));
    let known = Known(others.chain([goal.clone()]).collect());
    let observed = reached.nodes.observe()?;
    let observed = known.observed(&reached, observed, &goal.lab, store);
    let places = known.places();
    // What held has lost ports, perhaps, and what is new must have its own.
    let held = match way {
        Way::On => known.now().lab,
        Way::Back => goal.lab.clone(),
    };
    let lacks = lacking(&goal.lab, &held, &observed);
    let admits = lacking::without(observed.clone(), &lacks);
    let wanted = Goal::of(&goal.lab, &admits, &places, &goal.links, store);
    let wanted = wanted.map_err(|r| refused(None, &r))?;
    let steps = let_alone(wanted.steps(&observed, store, &places), &lacks);
    let split = split(steps, |h| !reached.nodes.answers(h));
    let mut missed = known.missed(&reached, split.gone, &goal.lab);
    missed.extend(lacking::missed(&lacks));
    match split.needed.first() {
        Some((host, what)) if way == Way::On => return Err(reached.why_not(host, what)),
        _ => missed.extend(silent::missed(&split.needed, What::NotPutBack)),
    }
    let at = moving::Known { places: &places, states: &known.0, store };
    // What is away and was to be changed, or is to be changed back, goes there again afterwards.
    let changed = homeward(&split.steps, &observed, &goal.lab, &goal.lab, store);
    let which: Vec<_> = changed.iter().map(|h| (h.network.to_owned(), h.node.to_owned())).collect();
    let mut moved = moving::come_home(&mut reached.nodes, &goal.lab, at, &which)?;
    reached.nodes.perform(&split.steps)?;
    moved.extend(moving::lead(&mut reached.nodes, &goal.lab, at)?);
    Ok(Led { steps: split.steps.len() + moved.len(), missed })
}

/// States that things may be in, hosts by the names that they have now; in a later one is what counts where
/// they differ.
#[derive(Debug, Default)]
struct Known(Vec<State>);

impl Known {
    /// What holds, and what a change that was interrupted led to.
    fn of(saved: &Saved, reached: &Reached) -> Self {
        let all = [&saved.state].into_iter().chain(&saved.under_way);
        Self(all.map(|s| reached.renamed(s)).collect())
    }

    /// The first of them.
    fn now(&self) -> State {
        self.0.first().cloned().unwrap_or_default()
    }

    /// Where virtual nodes live or may have come to live.
    fn places(&self) -> Places {
        self.0.iter().flat_map(|s| s.places.clone()).collect()
    }

    /// Where virtual links go or may have come to go.
    fn links(&self) -> Links {
        self.0.iter().flat_map(|s| s.links.clone()).collect()
    }

    /// What is there, and what is supposed to be where nobody answers.
    fn observed(&self, reached: &Reached, seen: Observed, lab: &Lab, store: u64) -> Observed {
        reached.with_silent(seen, |host| supposed(host, &self.0, lab, store))
    }

    /// What becomes of hosts that do not answer when a lab holds.
    fn missed(&self, reached: &Reached, gone: Vec<(String, String)>, lab: &Lab) -> Vec<Missed> {
        let hosts = reached.silent.keys();
        let bodies = hosts.flat_map(|h| silent::bodies_gone(&self.0, lab, h));
        let gone: Vec<_> = gone.into_iter().chain(bodies).collect();
        let mut all = silent::missed(&gone, What::GivenUp);
        for host in reached.silent.keys().filter(|h| lab.find_host(h).is_some()) {
            if !all.iter().any(|m| m.host == *host) {
                all.push(Missed { host: host.clone(), network: None, what: What::Stays });
            }
        }
        all
    }
}

/// Reads a section as its data plane will.
fn readable(w: &Wanted, observed: &Observed, ports: &[WantedPort]) -> Result<(), String> {
    let mut known: Vec<String> =
        observed.get(&w.host).map(|h| h.ports.iter().cloned().collect()).unwrap_or_default();
    known.extend(ports.iter().filter(|p| p.host == w.host).map(|p| p.name.clone()));
    read_as_told(w, &known)
}

/// Reads every node's section as its data plane will, with no ports but its own: what is wrong with it
/// by itself.
///
/// # Errors
/// The first thing that can't be read, with the node's name.
pub fn readable_alone(lab: &Lab) -> Result<()> {
    for (n, v) in lab.network.iter().flat_map(|n| n.node.iter().map(move |v| (n, v))) {
        // Whichever number it has, and whoever keeps it.
        let w = section(lab, n, v, 1, 0, &Place::default());
        let known: Vec<String> =
            lab.attached(n, v).into_iter().map(|a| a.port.into_owned()).collect();
        read_as_told(&w, &known).map_err(bad_input)?;
    }
    Ok(())
}

fn read_as_told(w: &Wanted, known: &[String]) -> Result<(), String> {
    let text = without_files(&w.toml);
    vdp_from(&text, None, known, None).map(|_| ()).map_err(|e| format!("{}: {e}", w.name))
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
