//! Changes of the networks, one after the other, and looks at what holds.
//!
//! Room: blocks: called from threads that may. The store is opened for as long as one change takes, so
//! that `weir apply` and `weir net` go on working beside the daemon; a look waits for nobody.

use super::caller::Caller;
use super::events::{Event, Hub};
use super::problem::Problem;
use crate::net::change::{Keeper, Verify, Way};
use crate::net::diff::{Told, told};
use crate::net::lab::checked;
use crate::net::moving::Moved;
use crate::net::store::{Peek, Redb};
use crate::socket::protocol::Became;
use anyhow::Result;
use axum::http::StatusCode;
use serde::{Deserialize, Serialize};
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};
use utoipa::ToSchema;
use weir_supervisor::model::{Lab, Network};
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
        let _turn = self.turn.lock().unwrap_or_else(PoisonError::into_inner);
        let mut keeper = Keeper::open(&self.path)?;
        if keeper.saved.under_way.is_some() {
            if dry == Dry::Run {
                let text = "a change was interrupted: POST /v1/recover finishes or undoes it";
                return Err(Problem::new(StatusCode::CONFLICT, "interrupted", text));
            }
            keeper.recover(Way::On)?;
        }
        self.note(&keeper.saved);
        let before = keeper.saved.state.lab.clone();
        let mut lab = before.clone();
        edit(&mut lab)?;
        let after = lab.clone();
        let prepared = keeper
            .prepare(lab, None, self.verify)
            .map_err(|e| self.hushed(caller, &before, &after, e))?;
        let steps = told(&prepared);
        let mine = |t: &&Told| {
            let own = |l: &Lab, n: &str| l.network(n).is_some_and(|n| caller.sees(&n.owner));
            let network = t.network.as_deref();
            caller.sees_all() || network.is_some_and(|n| own(&before, n) || own(&after, n))
        };
        let shown = steps.iter().filter(mine).cloned().map(StepItem::from).collect();
        let revision = keeper.saved.state.revision;
        if dry == Dry::Run || keeper.is_done(&prepared) {
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
        made.map_err(|e| self.hushed(caller, &before, &after, e))?;
        let revision = saved.state.revision;
        self.publish(revision, Some(caller.id()), changed(&before, &after), steps);
        Ok(Change { revision, made: true, steps: shown, moved, became })
    }

    /// Why something was refused, without what the caller may not know: what is wrong with his own
    /// networks by themselves is told, and else only that there are others.
    fn hushed(&self, caller: &Caller, before: &Lab, after: &Lab, e: anyhow::Error) -> Problem {
        if caller.sees_all() {
            return e.into();
        }
        let mut alone = after.clone();
        alone.network.retain(|n| caller.sees(&n.owner));
        match checked(&alone, None) {
            Err(own) => own.into(),
            Ok(()) => {
                let _ = before;
                let p = Problem::from(e);
                let text = "it can't be beside what else is there: ask an operator";
                let status = StatusCode::from_u16(p.status);
                Problem::new(status.unwrap_or(StatusCode::UNPROCESSABLE_ENTITY), p.code, text)
            }
        }
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

/// A network that an event is about, and whose it is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct About {
    /// The network.
    pub network: String,
    /// Its owner.
    pub owner: String,
}

/// Networks in which two labs differ; for one that has changed hands, both owners.
fn changed(a: &Lab, b: &Lab) -> Vec<About> {
    let mut out = Vec::new();
    for (one, other) in [(a, b), (b, a)] {
        for n in one.network.iter().filter(|n| other.network(&n.name) != Some(n)) {
            let about = About { network: n.name.clone(), owner: n.owner.clone() };
            if !out.contains(&about) {
                out.push(about);
            }
        }
    }
    out
}
