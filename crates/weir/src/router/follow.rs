//! A router's routes in the shared data plane: what its kernel forwards by becomes rules of its VDP, and
//! leaves again.
//!
//! Room: one thread for each router whose frames the shared data plane forwards. It is told by rtnetlink that
//! something has changed, then asks for everything there is, so that nothing that was not told can be missed,
//! and changes what differs, between two bursts. Called by [`super::node`].

use super::fib::Then;
use super::netlink::{Netlink, Stale};
use super::shape::Pushed;
use crate::commands::say::tell;
use crate::namespace::Door;
use anyhow::{Result, anyhow};
use std::collections::{BTreeSet, HashMap};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};
use weir_classify::Match;
use weir_dataplane::{Handle, Placed, Placement, PortFlags, PortNo, RuleSpec};

/// How many routes there are and what they became.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Status {
    /// Routes of the namespace.
    pub routes: usize,
    /// Rules in the shared data plane.
    pub rules: usize,
    /// Rules among them for which the TCAM had no room.
    pub slow: usize,
    /// Times that rules were changed.
    pub changes: u64,
    /// Why the last change could not be made.
    pub fault: Option<String>,
}

/// Rules that follow routes.
#[derive(Debug)]
pub struct Follower {
    stop: Arc<AtomicBool>,
    status: Arc<Mutex<Status>>,
    thread: Option<JoinHandle<()>>,
}

/// How long a change may be waited for, at most: so often it is looked whether this shall end.
const WAIT: Duration = Duration::from_millis(100);
/// Changes that come together are taken together.
const SETTLE: Duration = Duration::from_millis(2);
/// How often everything is asked for though nothing was told, and neighbours that rules send to are asked
/// whether they are still there: their frames no longer pass the kernel, which would notice.
const ROUND: Duration = Duration::from_secs(10);

impl Follower {
    /// Begins to follow the routes of a namespace.
    ///
    /// # Errors
    /// The system refuses.
    pub fn start(door: &Door, plane: Handle, pushed: Pushed) -> Result<Self> {
        let (told, asked) = door.within(|| Ok((Netlink::listening()?, Netlink::new()?)))?;
        let (there, status) = (HashMap::new(), Arc::default());
        let mut follow = Follow { told, asked, plane, pushed, there, status };
        follow.round(Probe::No)?;
        let stop = Arc::new(AtomicBool::new(false));
        let (flag, status) = (Arc::clone(&stop), Arc::clone(&follow.status));
        let thread = std::thread::Builder::new()
            .name("weir-routes".to_owned())
            .spawn(move || follow.follow(&flag))?;
        Ok(Self { stop, status, thread: Some(thread) })
    }

    /// How it stands.
    pub fn status(&self) -> Status {
        self.status.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

impl Drop for Follower {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Release);
        if let Some(t) = self.thread.take() {
            let _ = t.join();
        }
    }
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Probe {
    Yes,
    No,
}

/// What tells a rule from another: its match and priority.
type Key = (Match, u32);

struct Follow {
    told: Netlink,
    asked: Netlink,
    plane: Handle,
    pushed: Pushed,
    there: HashMap<Key, (RuleSpec, Placed)>,
    status: Arc<Mutex<Status>>,
}

impl Follow {
    fn follow(mut self, stop: &AtomicBool) {
        let mut last = Instant::now();
        while !stop.load(Ordering::Acquire) {
            let news = self.told.wait(WAIT);
            let due = last.elapsed() >= ROUND;
            if !news && !due {
                continue;
            }
            std::thread::sleep(SETTLE);
            self.told.drain();
            if due {
                last = Instant::now();
            }
            if let Err(e) = self.round(if due { Probe::Yes } else { Probe::No }) {
                let mut s = self.status.lock().unwrap_or_else(PoisonError::into_inner);
                let text = format!("{e:#}");
                if s.fault.as_ref() != Some(&text) {
                    tell(format_args!("router {}: {text}", self.pushed.vdp.name));
                }
                s.fault = Some(text);
            }
        }
    }

    /// Asks for what there is, and changes the rules that differ.
    fn round(&mut self, probe: Probe) -> Result<()> {
        let mut ports: HashMap<u32, PortNo> = HashMap::new();
        let mut down = BTreeSet::new();
        for l in self.asked.links()? {
            if let Some(no) = self.pushed.port(&l.name) {
                ports.insert(l.index, no);
                down.extend((!l.meant_up).then_some(no));
            }
        }
        self.shut(ports.values().copied(), &down)?;
        let closed = self.asked.closed()?;
        let v4 = closed.v4.iter().filter_map(|l| ports.get(l)).map(|no| (*no, "ip"));
        let v6 = ports.values().filter(|_| closed.v6).map(|no| (*no, "ipv6"));
        let closed: Vec<(PortNo, &str)> = v4.chain(v6).collect();
        let (fib, stale) = self.asked.fib()?;
        let rules = fib.rules(|link| ports.contains_key(&link));
        if probe == Probe::Yes {
            let used = |s: &&Stale| {
                rules.values().any(|t| matches!(t, Then::Forward { link, .. } if *link == s.link))
            };
            for s in stale.iter().filter(used) {
                // One that has gone meanwhile need not be asked.
                let _ = self.asked.probe(s);
            }
        }
        let specs = self.pushed.specs(&rules, &closed, |l| ports.get(&l).copied());
        let wanted: HashMap<Key, RuleSpec> = specs
            .map_err(|e| anyhow!(e))?
            .into_iter()
            .map(|s| ((s.matcher, s.priority), s))
            .collect();
        let going: Vec<Key> =
            self.there.keys().filter(|k| !wanted.contains_key(*k)).copied().collect();
        let mut coming: Vec<RuleSpec> = wanted
            .into_iter()
            .filter(|(k, s)| self.there.get(k).is_none_or(|(o, _)| o != s))
            .map(|(_, s)| s)
            .collect();
        // Where the TCAM is too small, it is the shorter prefixes that find no room.
        coming.sort_by_key(|s| std::cmp::Reverse(s.priority));
        let changed = !coming.is_empty() || !going.is_empty();
        if changed {
            self.change(coming, going)?;
        }
        let mut s = self.status.lock().unwrap_or_else(PoisonError::into_inner);
        s.routes = fib.routes();
        s.rules = self.there.len();
        s.slow = self.there.values().filter(|(_, p)| *p == Placed::Slow).count();
        s.changes += u64::from(changed);
        s.fault = None;
        Ok(())
    }

    /// Has nothing come in or leave by the ports of interfaces that were set down inside: their kernel takes nothing either, and where
    /// rules forward it would not be asked. A port that came anew knows nothing of it, and one that is away has nothing to be told.
    fn shut(&self, ports: impl Iterator<Item = PortNo>, down: &BTreeSet<PortNo>) -> Result<()> {
        let vid = self.pushed.vdp.vid;
        let wanted: Vec<(PortNo, PortFlags)> = ports
            .map(|no| (no, if down.contains(&no) { PortFlags::DOWN } else { PortFlags::NONE }))
            .collect();
        self.plane.call(move |p| {
            for (no, flags) in wanted {
                if p.port_config(vid, no).ok() != Some(flags) {
                    let _ = p.set_port_config(vid, no, flags);
                }
            }
        })?;
        Ok(())
    }

    /// All of it between two bursts: no frame meets a half of it.
    fn change(&mut self, coming: Vec<RuleSpec>, going: Vec<Key>) -> Result<()> {
        let vid = self.pushed.vdp.vid;
        for k in &going {
            self.there.remove(k);
        }
        let (placed, fault) = self.plane.call(move |p| {
            for (matcher, priority) in &going {
                // It can be gone only with its VDP.
                let _ = p.remove_rule(vid, 0, matcher, *priority);
            }
            let mut placed = Vec::new();
            for s in coming {
                match p.add_rule(vid, 0, &s, Placement::Spill) {
                    Ok(at) => placed.push((s, at)),
                    Err(e) => return (placed, Some(e.to_string())),
                }
            }
            (placed, None)
        })?;
        for (s, at) in placed {
            self.there.insert((s.matcher, s.priority), (s, at));
        }
        fault.map_or(Ok(()), |e| Err(anyhow!("VDP {vid}: {e}")))
    }
}
