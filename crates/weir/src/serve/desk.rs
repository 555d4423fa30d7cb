//! Changes of the networks, one after the other, and looks at what holds.
//!
//! Room: blocks: called from threads that may. The store is opened for as long as one change takes, so
//! that `weir apply` and `weir net` go on working beside the daemon; a look waits for nobody.

use super::caller::Caller;
use super::events::{Event, Hub};
use super::problem::Problem;
use crate::fault::bad_input;
use crate::net::change::{Keeper, Verify, Way, prepare, readable_alone};
use crate::net::diff::{Told, told};
use crate::net::lab::{possible, refused};
use crate::net::moving::Moved;
use crate::net::store::{Peek, Redb};
use crate::socket::protocol::Became;
use anyhow::Result;
use axum::http::StatusCode;
use serde::{Deserialize, Serialize};
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};
use utoipa::ToSchema;
use weir_supervisor::model::{Isolation, Lab, Network, Path};
use weir_supervisor::refusal::{self, Refusal, Seg};
use weir_supervisor::store::Saved;

/// Whether a change is made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Dry {
    /// It is only worked out.
    Run,
    /// It is made.
    Not,
}

/// What a change did, or would do.
#[derive(Clone, Debug, Default, Serialize, ToSchema)]
pub struct Change {
    /// The revision that holds now.
    pub revision: u64,
    /// Whether it was made; if not, it was a dry run, or nothing differed.
    pub made: bool,
    /// What is done at physical nodes, in order.
    pub steps: Vec<StepItem>,
    /// How nodes were moved to other hosts, or back.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub moved: Vec<Moved>,
    /// How nodes became ones of the other kind, or took the other path.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub became: Vec<Became>,
}

/// One step.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
pub struct StepItem {
    /// In a line: `+` made, `~` changed, `-` deleted, `>` moved.
    pub step: String,
    /// The physical node that does it.
    pub host: String,
    /// Lines of the VDP's section that go.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub removed: Vec<String>,
    /// Lines that come.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub added: Vec<String>,
}

impl From<Told> for StepItem {
    fn from(t: Told) -> Self {
        Self { step: t.line, host: t.host, removed: t.removed, added: t.added }
    }
}

/// The desk.
#[derive(Debug)]
pub struct Desk {
    path: PathBuf,
    verify: Verify,
    /// Held by whoever makes a change.
    turn: Mutex<()>,
    /// What held when it was last looked at.
    seen: Mutex<Arc<Saved>>,
    events: Arc<Hub>,
}

impl Desk {
    /// Over a store. What was interrupted is finished.
    ///
    /// # Errors
    /// The store can't be opened; or what was interrupted can't be finished, which is said alone.
    pub fn new(path: PathBuf, verify: Verify, events: Arc<Hub>) -> Result<(Self, Option<String>)> {
        let mut keeper = Keeper::open(&path)?;
        let left = keeper.recover(Way::On).err().map(|e| format!("{e:#}"));
        let seen = Mutex::new(Arc::new(keeper.saved.clone()));
        drop(keeper);
        Ok((Self { path, verify, turn: Mutex::new(()), seen, events }, left))
    }

    /// Whether changes are proved to keep networks apart.
    ///
    /// # Errors
    /// The store can't be read.
    pub fn proves(&self) -> Result<bool> {
        Ok(self.verify == Verify::Always || self.look()?.state.lab.verify)
    }

    /// What holds: as before or after a change that is being made.
    ///
    /// # Errors
    /// The store can't be read.
    pub fn look(&self) -> Result<Arc<Saved>> {
        let found = match Redb::peek(&self.path)? {
            Peek::Holds(saved) => *saved,
            Peek::Nothing => Saved::default(),
            Peek::Busy => return Ok(self.last()),
            Peek::Torn => {
                let _turn = self.turn.lock().unwrap_or_else(PoisonError::into_inner);
                Keeper::open(&self.path)?.saved
            }
        };
        self.note(&found);
        Ok(self.last())
    }

    /// What held when it was last looked at.
    fn last(&self) -> Arc<Saved> {
        Arc::clone(&self.seen.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// Notes what holds; whoever else has changed it is told of.
    fn note(&self, found: &Saved) {
        let mut seen = self.seen.lock().unwrap_or_else(PoisonError::into_inner);
        if **seen == *found {
            return;
        }
        let news = found.state.revision != seen.state.revision;
        let owners = changed(&seen.state.lab, &found.state.lab);
        *seen = Arc::new(found.clone());
        drop(seen);
        if news {
            self.publish(found.state.revision, None, owners, Vec::new());
        }
    }

    /// Tells of a revision; an owner hears of his own networks.
    fn publish(&self, revision: u64, by: Option<&str>, about: Vec<About>, steps: Vec<Told>) {
        let by = by.map(str::to_owned);
        self.events.tell(|at_s| Event { at_s, revision, by, about, steps, guard: None });
    }

    /// Makes a change of the lab that holds.
    ///
    /// # Errors
    /// It can't be, or is not the caller's to make.
    pub fn change(
        &self,
        caller: &Caller,
        dry: Dry,
        edit: impl FnOnce(&mut Lab) -> Result<(), Problem>,
    ) -> Result<Change, Problem> {
        if dry == Dry::Run {
            return self.worked_out(caller, edit);
        }
        self.make(caller, self.verify, edit)
    }

    /// Makes what a guard asks for: no proof keeps up what cuts a node off.
    ///
    /// # Errors
    /// It can't be.
    pub fn guarded(
        &self,
        guard: &Caller,
        edit: impl FnOnce(&mut Lab) -> Result<(), Problem>,
    ) -> Result<Change, Problem> {
        self.make(guard, Verify::Never, edit)
    }

    fn make(
        &self,
        caller: &Caller,
        verify: Verify,
        edit: impl FnOnce(&mut Lab) -> Result<(), Problem>,
    ) -> Result<Change, Problem> {
        let _turn = self.turn.lock().unwrap_or_else(PoisonError::into_inner);
        let mut keeper = Keeper::open(&self.path)?;
        keeper.finish_earlier().map_err(|e| hushed(caller, &Lab::default(), e))?;
        self.note(&keeper.saved);
        let before = keeper.saved.state.lab.clone();
        let mut lab = before.clone();
        edit(&mut lab)?;
        let after = lab.clone();
        let prepared = keeper.prepare(lab, None, verify).map_err(|e| hushed(caller, &after, e))?;
        let steps = told(&prepared);
        let about: Vec<About> = concerned(&before, &after).collect();
        let shown = shown(&steps, &about, caller);
        let revision = keeper.saved.state.revision;
        if keeper.is_done(&prepared) {
            return Ok(Change { revision, made: false, steps: shown, ..Change::default() });
        }
        let made = keeper.make(prepared);
        // What holds is known first by whoever is answered.
        let saved = keeper.saved.clone();
        let mut moved = std::mem::take(&mut keeper.moved);
        moved.retain(|m| {
            caller.sees_all() || after.network.iter().any(|n| m.is_of(n) && caller.sees(&n.owner))
        });
        let mut became = std::mem::take(&mut keeper.became);
        became.retain(|b| {
            let of = |n: &Network| b.name.split_once('.').is_some_and(|(of, _)| of == n.name);
            caller.sees_all() || after.network.iter().any(|n| of(n) && caller.sees(&n.owner))
        });
        drop(keeper);
        *self.seen.lock().unwrap_or_else(PoisonError::into_inner) = Arc::new(saved.clone());
        made.map_err(|e| hushed(caller, &after, e))?;
        let revision = saved.state.revision;
        self.publish(revision, Some(caller.id()), changed(&before, &after), steps);
        Ok(Change { revision, made: true, steps: shown, moved, became })
    }

    /// Works out what a change would do. Nodes are asked when others may change the networks again: how long those take
    /// keeps nobody from the store.
    fn worked_out(
        &self,
        caller: &Caller,
        edit: impl FnOnce(&mut Lab) -> Result<(), Problem>,
    ) -> Result<Change, Problem> {
        let saved = {
            let _turn = self.turn.lock().unwrap_or_else(PoisonError::into_inner);
            let saved = Keeper::open(&self.path)?.saved;
            // Nobody is told of a later one before.
            self.note(&saved);
            saved
        };
        if saved.under_way.is_some() {
            let text = "a change was interrupted: POST /v1/recover finishes or undoes it";
            return Err(Problem::new(StatusCode::CONFLICT, "interrupted", text));
        }
        let mut after = saved.state.lab.clone();
        edit(&mut after)?;
        let prepared = prepare(&saved, after.clone(), None, self.verify)
            .map_err(|e| hushed(caller, &after, e))?;
        let about: Vec<About> = concerned(&saved.state.lab, &after).collect();
        let steps = shown(&told(&prepared), &about, caller);
        Ok(Change { revision: saved.state.revision, steps, ..Change::default() })
    }

    /// Leads a change that was interrupted to its end, or undoes it.
    ///
    /// # Errors
    /// It can't be, now.
    pub fn recover(&self, way: Way) -> Result<(Option<usize>, u64), Problem> {
        let _turn = self.turn.lock().unwrap_or_else(PoisonError::into_inner);
        let mut keeper = Keeper::open(&self.path)?;
        let done = keeper.recover(way)?;
        let saved = keeper.saved.clone();
        drop(keeper);
        self.note(&saved);
        Ok((done.map(|led| led.steps), saved.state.revision))
    }

    /// What held at a revision, as far back as is kept.
    ///
    /// # Errors
    /// The store can't be opened.
    pub fn revision(&self, number: u64) -> Result<Option<Lab>, Problem> {
        let _turn = self.turn.lock().unwrap_or_else(PoisonError::into_inner);
        Ok(Keeper::open(&self.path)?.revision(number)?.map(|s| s.lab))
    }
}

/// Why something was refused, without what the caller may not know: what is wrong with his own networks
/// by themselves is told, and else only that there are others.
fn hushed(caller: &Caller, after: &Lab, e: anyhow::Error) -> Problem {
    if caller.sees_all() {
        return e.into();
    }
    let mut alone = after.clone();
    alone.network.retain(|n| caller.sees(&n.owner));
    let own = possible(&alone).map_err(|r| refused(None, &within(r)));
    let own = own.and_then(|()| readable_alone(&alone));
    if let Err(own) = own.and_then(|()| few_enough(&alone)) {
        return own.into();
    }
    let p = Problem::from(e);
    let status = StatusCode::from_u16(p.status).unwrap_or(StatusCode::UNPROCESSABLE_ENTITY);
    let text = match status {
        StatusCode::UNPROCESSABLE_ENTITY if p.leaks.is_empty() => {
            "it can't be beside what else is there: ask an operator".to_owned()
        }
        StatusCode::UNPROCESSABLE_ENTITY => {
            let owns = |name: &str| alone.network.iter().any(|n| n.name == name);
            let own = p.leaks.iter().find(|l| owns(&l.from) && l.by_rule);
            let which = own.map(|l| format!(": network '{}', {}, by {}", l.from, l.vdp, l.by));
            let which = which.unwrap_or_default();
            format!(
                "networks would not be apart{which}: look at what rules rewrite and where they send it"
            )
        }
        _ => "it can't be done now: try again, or ask an operator".to_owned(),
    };
    Problem::new(status, p.code, text)
}

/// A refusal with the way from the network that it is about: its owner knows of no others.
fn within(r: Refusal) -> Refusal {
    let rest = match &r.at.0[..] {
        [Seg::Key("network"), Seg::At(_), rest @ ..] => rest.to_vec(),
        _ => return r,
    };
    Refusal { at: refusal::Way(rest), ..r }
}

/// Whether nodes have no more rules than they were granted entries: each rule takes one at least.
fn few_enough(lab: &Lab) -> Result<()> {
    for (n, v) in lab.network.iter().flat_map(|n| n.node.iter().map(move |v| (n, v))) {
        let granted = match n.isolation {
            Isolation::Strong => Some(v.tcam_entries),
            Isolation::Weak => v.tcam_limit_entries,
        };
        let fast = v.path == Path::Fast && v.as_router().is_none();
        let rules = v.rule.len();
        if let Some(most) = granted.filter(|m| fast && rules > *m as usize) {
            let (name, mend) =
                (v.vdp_name(n), "give it fewer, or ask an operator for more entries");
            return Err(bad_input(format_args!(
                "{name}: {rules} rules, and it may have {most} TCAM entries: {mend}"
            )));
        }
    }
    Ok(())
}

/// A network that an event is about, and whose it is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct About {
    /// The network.
    pub network: String,
    /// Its owner.
    pub owner: String,
    /// How much of it is his.
    pub part: Part,
}

/// How much of a change of a network is this owner's to know.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Part {
    /// All: it was his before and is after, as far as it was or is anybody's.
    Whole,
    /// What it has become: it was another's before.
    Came,
    /// That it is his no more: what it has become is another's.
    Went,
}

/// What one who asks may know of steps.
pub fn shown(steps: &[Told], about: &[About], caller: &Caller) -> Vec<StepItem> {
    let part = |t: &Told| {
        let his = |a: &&About| t.network.as_ref() == Some(&a.network) && caller.sees(&a.owner);
        match caller.sees_all() {
            true => Some(Part::Whole),
            false => about.iter().find(his).map(|a| a.part),
        }
    };
    let one = |t: &Told| match part(t)? {
        Part::Whole => Some(StepItem::from(t.clone())),
        Part::Came => Some(StepItem { removed: Vec::new(), ..StepItem::from(t.clone()) }),
        Part::Went => None,
    };
    steps.iter().filter_map(one).collect()
}

/// All networks of two labs, and whose they are; for one that has changed hands, both owners.
fn concerned<'l>(before: &'l Lab, after: &'l Lab) -> impl Iterator<Item = About> + 'l {
    let about = |n: &Network, part| {
        let (network, owner) = (n.name.clone(), n.owner.clone());
        About { network, owner, part }
    };
    let gone = before.network.iter().filter(|n| after.network(&n.name).is_none());
    let there = after.network.iter().map(|n| (before.network(&n.name), n));
    let there = there.flat_map(move |(old, n)| match old.filter(|o| o.owner != n.owner) {
        None => [None, Some(about(n, Part::Whole))],
        Some(old) => [Some(about(old, Part::Went)), Some(about(n, Part::Came))],
    });
    gone.map(move |n| about(n, Part::Whole)).chain(there.flatten())
}

/// Networks in which two labs differ, and whose they are.
fn changed(a: &Lab, b: &Lab) -> Vec<About> {
    concerned(a, b).filter(|n| a.network(&n.network) != b.network(&n.network)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::serve::tokens::{Entry, Role};

    fn owner(name: &str) -> Caller {
        let (id, hash, owner) = (String::new(), String::new(), Some(name.to_owned()));
        let (role, created_s, expires_s) = (Role::Owner, 0, None);
        Caller::new(Entry { id, hash, role, owner, created_s, expires_s })
    }

    fn lab(owner: &str) -> Lab {
        toml::from_str(&format!(
            "[[network]]\nname = 'red'\nowner = '{owner}'\nnode = []\n\
             [[network]]\nname = 'grey'\nnode = []\n"
        ))
        .unwrap()
    }

    #[test]
    fn an_owner_is_told_what_is_his_to_mend_and_nothing_of_others() {
        let text = |rules: usize| {
            let rule = |n| format!("{{ priority = {n}, actions = 'drop' }},");
            let rules: String = (1..=rules).map(rule).collect();
            format!(
                "[[host]]\nname = 'h'\napi = 'unix:/x'\n\
                 [[network]]\nname = 'blue'\nowner = 'bob'\n[[network.node]]\nname = 's'\n\
                 host = 'h'\nports = ['q']\ntcam_limit_entries = 2\nrule = [{rules}]\n"
            )
        };
        let lab = |rules| toml::from_str::<Lab>(&text(rules)).unwrap();
        let why = || bad_input("host 'h': red.s wants 7 of them");
        let told = |caller, rules| hushed(&owner(caller), &lab(rules), why()).detail;
        let detail = told("bob", 3);
        assert!(detail.contains("blue.s: 3 rules, and it may have 2 TCAM entries"), "{detail}");
        for (caller, rules) in [("bob", 2), ("alice", 3)] {
            let detail = told(caller, rules);
            assert_eq!(detail, "it can't be beside what else is there: ask an operator");
        }
    }

    #[test]
    fn what_has_changed_hands_shows_each_owner_his_part_alone() {
        let (before, after) = (lab("alice"), lab("bob"));
        let about = changed(&before, &after);
        assert_eq!(about.len(), 2, "{about:?}");
        let (removed, added) = (vec!["hers".to_owned()], vec!["his".to_owned()]);
        let network = Some("red".to_owned());
        let steps = [Told { network, removed, added, ..Told::default() }];
        assert!(shown(&steps, &about, &owner("alice")).is_empty());
        let his = shown(&steps, &about, &owner("bob"));
        assert!(his.len() == 1 && his[0].removed.is_empty() && his[0].added == ["his"]);
        // Of what stays in one hand all is told, and as much of what goes for good.
        for after in [before.clone(), Lab::default()] {
            let about: Vec<About> = concerned(&before, &after).collect();
            let hers = shown(&steps, &about, &owner("alice"));
            assert!(hers.len() == 1 && hers[0].removed == ["hers"]);
            assert!(shown(&steps, &about, &owner("bob")).is_empty());
        }
    }
}
