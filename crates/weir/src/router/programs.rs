//! A router's programs: started inside its namespace and groups, watched, started again when they end by
//! themselves, and ended.
//!
//! Room: processes and one thread that watches them. Called by [`super::node`].
//!
//! What runs inside is told by its namespace, not by who has started it: a program that has made itself a
//! daemon is found, too, and so is what another `weir run` has left.

use super::cgroup::Group;
use super::frr;
use crate::commands::say::tell;
use crate::namespace::Door;
use anyhow::{Context, Result};
use rustix::process::{Pid, Signal, kill_process};
use std::collections::BTreeMap;
use std::fs::File;
use std::os::unix::fs::MetadataExt;
use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::process::{Child, Command, Output, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// A program to run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Program {
    /// What reports call it.
    pub name: String,
    /// Its path and arguments.
    pub words: Vec<String>,
}

/// Where programs run.
#[derive(Debug)]
pub struct Place {
    /// The router's name, for reports.
    pub router: String,
    /// Its namespace.
    pub door: Door,
    /// Its groups.
    pub group: Group,
    /// A folder that is its own; FRR's usual one is this there.
    pub folder: PathBuf,
}

/// How a program does.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Status {
    /// Its name.
    pub name: String,
    /// Its process, while it runs.
    pub pid: Option<u32>,
    /// How often it has ended by itself.
    pub ended: u32,
}

/// Programs that run.
#[derive(Debug)]
pub struct Programs {
    place: Arc<Place>,
    stop: Arc<AtomicBool>,
    status: Arc<Mutex<Vec<Status>>>,
    thread: Option<JoinHandle<Watch>>,
    /// They, while nobody watches them.
    unwatched: Option<Watch>,
}

/// Whether FRR's configuration is what it was.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Text {
    /// It is.
    Same,
    /// It may be another.
    Other,
}

/// A program to be there, and itself where it is there already.
type Slot = (Program, Option<One>);

#[derive(Debug)]
struct One {
    program: Program,
    child: Option<Child>,
    again: Instant,
    wait: Duration,
    ended: u32,
}

impl Drop for One {
    /// Who is told to end must be waited for, too, but not by whoever has told it.
    fn drop(&mut self) {
        if let Some(mut c) = self.child.take() {
            let _ = std::thread::Builder::new().spawn(move || drop(c.wait()));
        }
    }
}

/// How often programs are looked at.
const LOOK: Duration = Duration::from_millis(50);
/// How long a program that ends by itself is waited with, at first and at most.
const WAITS: [Duration; 2] = [Duration::from_secs(1), Duration::from_secs(60)];

/// Comes into groups, hides what FRR leaves behind, and becomes the program: the groups' number, their
/// files, the folder, the program.
const ENTER: &str = r#"n=$1; shift
while [ "$n" -gt 0 ]; do echo $$ >"$1" || exit 71; shift; n=$((n - 1)); done
exec unshare --mount --propagation private /bin/sh -c '
mount -t tmpfs -o size=1m,mode=1777 weir /var/tmp || exit 72
if [ -d /run/frr ]; then mount --bind "$0" /run/frr || exit 73; fi
exec "$@"' "$@""#;

impl Place {
    fn command(&self, p: &Program) -> Command {
        let mut c = Command::new("/bin/sh");
        let doors = self.group.doors();
        c.args(["-c", ENTER, "weir-enter"]).arg(doors.len().to_string()).args(doors);
        c.arg(&self.folder).args(&p.words);
        c.current_dir("/").stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        c
    }

    fn start(&self, p: &Program) -> Result<Child> {
        // In a group of its own, by which what it has started is known for its.
        let whole = self.door.within(|| Ok(self.command(p).process_group(0).spawn()?));
        whole.with_context(|| format!("starting {}", p.name))
    }

    /// Runs a program to its end; how it ended, and what it says on both of its outputs.
    ///
    /// # Errors
    /// It can't be run.
    pub fn run(&self, p: &Program) -> Result<Output> {
        self.door.within(|| {
            let mut c = self.command(p);
            Ok(c.stdout(Stdio::piped()).stderr(Stdio::piped()).output()?)
        })
    }
}

impl Programs {
    /// None yet.
    pub fn none(place: Arc<Place>) -> Self {
        let (stop, status) = (Arc::default(), Arc::default());
        Self { place, stop, status, thread: None, unwatched: None }
    }

    /// Has these run and no others, and watches them. Who runs already, of the same words, goes on; FRR does so as a whole. FRR's
    /// programs get their configuration when they are there.
    ///
    /// # Errors
    /// One can't be started, or FRR refuses its configuration. Then those run that went on, and nobody watches them.
    pub fn exchange(
        &mut self,
        programs: Vec<Program>,
        frr: Option<frr::Frr>,
        text: Text,
    ) -> Result<()> {
        self.leave();
        let (place, status) = (Arc::clone(&self.place), Arc::clone(&self.status));
        let none = Watch { place, frr: None, all: Vec::new(), untold: false, status };
        let mut w = self.unwatched.take().unwrap_or(none);
        let frr_stays = text == Text::Same && w.frr == frr;
        let stays = |p: &Program| frr_stays || !frr.as_ref().is_some_and(|f| f.has(p));
        let mut going = std::mem::take(&mut w.all);
        let mut slot = |p: Program| -> Slot {
            let there = going.iter().position(|o| o.program == p && stays(&p));
            (p, there.map(|i| going.remove(i)))
        };
        let slots: Vec<Slot> = programs.into_iter().map(&mut slot).collect();
        let kept = slots.iter().filter_map(|(_, o)| o.as_ref()?.child.as_ref().map(Child::id));
        let kept: Vec<i32> = kept.filter_map(|pid| pid.try_into().ok()).collect();
        end(|| strangers(inside(self.place.door.file()), &kept));
        drop(going);
        w.frr = frr;
        let started = w.start(slots);
        w.tell();
        if started.is_err() || w.all.is_empty() {
            self.unwatched = Some(w);
            return started;
        }
        self.stop = Arc::default();
        let flag = Arc::clone(&self.stop);
        let thread = std::thread::Builder::new().name("weir-router".to_owned());
        self.thread = Some(thread.spawn(move || w.watch(&flag))?);
        Ok(())
    }

    /// How each does.
    pub fn status(&self) -> Vec<Status> {
        self.status.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Starts none again. Whoever asks ends them.
    pub fn leave(&mut self) {
        self.stop.store(true, Ordering::Release);
        if let Some(t) = self.thread.take() {
            self.unwatched = t.join().ok();
        }
    }
}

impl Drop for Programs {
    fn drop(&mut self) {
        self.leave();
    }
}

/// Why a program is not there any more, if it is not.
fn gone(o: &mut One) -> Option<String> {
    let ended = o.child.as_mut()?.try_wait().ok().flatten()?;
    Some(format!("{} has ended by itself: {ended}", o.program.name))
}

/// Starts programs; FRR's get their configuration when they are there.
fn begin(place: &Place, frr: Option<&frr::Frr>, programs: &[&Program]) -> Result<Vec<One>> {
    let again = Instant::now();
    let mut all: Vec<One> = Vec::new();
    for p in programs {
        if let Some(f) = frr {
            f.wait_to_start(p, &mut || all.iter_mut().find_map(gone))?;
        }
        let (program, child) = ((*p).clone(), Some(place.start(p)?));
        all.push(One { program, child, again, wait: WAITS[0], ended: 0 });
    }
    if let Some(f) = frr.filter(|f| programs.iter().any(|p| f.has(p))) {
        f.configure(place, &mut || all.iter_mut().find_map(gone))?;
    }
    Ok(all)
}

/// Its process, if it runs.
fn running(o: &mut One) -> Option<i32> {
    let c = o.child.as_mut()?;
    let runs = matches!(c.try_wait(), Ok(None));
    c.id().try_into().ok().filter(|_| runs)
}

#[derive(Debug)]
struct Watch {
    place: Arc<Place>,
    frr: Option<frr::Frr>,
    all: Vec<One>,
    /// A daemon of FRR's was started again that has not been told its configuration.
    untold: bool,
    status: Arc<Mutex<Vec<Status>>>,
}

impl Watch {
    /// Starts those that are not there.
    fn start(&mut self, slots: Vec<Slot>) -> Result<()> {
        let missing: Vec<&Program> =
            slots.iter().filter(|(_, o)| o.is_none()).map(|(p, _)| p).collect();
        let started = begin(&self.place, self.frr.as_ref(), &missing);
        let (mut fresh, failed) = match started {
            Ok(all) => (all.into_iter(), None),
            Err(e) => (Vec::new().into_iter(), Some(e)),
        };
        self.all = slots.into_iter().filter_map(|(_, o)| o.or_else(|| fresh.next())).collect();
        failed.map_or(Ok(()), Err)
    }

    fn watch(mut self, stop: &AtomicBool) -> Self {
        while !stop.load(Ordering::Acquire) {
            std::thread::sleep(LOOK);
            if self.look(Instant::now()) {
                self.tell();
            }
        }
        self
    }

    /// Says whether something has changed.
    fn look(&mut self, now: Instant) -> bool {
        let (mut changed, mut orphaned) = (false, false);
        let Self { all, frr, .. } = self;
        let may_start = |p: &Program| frr.as_ref().is_none_or(|f| f.may_start(p));
        for o in all {
            if let Some(why) = gone(o) {
                tell(format_args!("router {}: {why}", self.place.router));
                o.child = None;
                o.ended += 1;
                o.again = now + o.wait;
                o.wait = (o.wait * 2).min(WAITS[1]);
                changed = true;
                orphaned |= frr.as_ref().is_some_and(|f| f.leads(&o.program));
            } else if o.child.is_none() && now >= o.again && may_start(&o.program) {
                match self.place.start(&o.program) {
                    Ok(c) => o.child = Some(c),
                    Err(e) => {
                        tell(format_args!("router {}: {e:#}", self.place.router));
                        o.again = now + o.wait;
                    }
                }
                changed = true;
                self.untold |= frr.as_ref().is_some_and(|f| f.has(&o.program));
            }
        }
        if orphaned {
            self.end_clients(now);
        }
        self.configure();
        changed
    }

    /// Ends the daemons that had zebra, to be started again when it is there: they would go on without the routes that they told it.
    fn end_clients(&mut self, now: Instant) {
        let Self { all, frr: Some(frr), .. } = self else { return };
        let is = |o: &&mut One| frr.has(&o.program) && !frr.leads(&o.program);
        end(|| all.iter_mut().filter(is).filter_map(running).collect());
        for o in all.iter_mut().filter(is).filter(|o| o.child.is_some()) {
            (o.child, o.again) = (None, now);
        }
        tell(format_args!(
            "router {}: FRR's other daemons start again with zebra",
            self.place.router
        ));
    }

    /// Tells FRR's daemons their configuration when one of them has been started again and all are there.
    fn configure(&mut self) {
        let Self { all, frr: Some(f), untold: true, .. } = self else { return };
        if all.iter().any(|o| f.has(&o.program) && o.child.is_none()) {
            return;
        }
        self.untold = false;
        if let Err(e) = f.configure(&self.place, &mut || all.iter_mut().find_map(gone)) {
            tell(format_args!("router {}: {e:#}", self.place.router));
        }
    }

    fn tell(&self) {
        let one = |o: &One| Status {
            name: o.program.name.clone(),
            pid: o.child.as_ref().map(Child::id),
            ended: o.ended,
        };
        *self.status.lock().unwrap_or_else(PoisonError::into_inner) =
            self.all.iter().map(one).collect();
    }
}

/// Processes in a namespace.
pub fn inside(namespace: &File) -> Vec<i32> {
    let Ok(wanted) = namespace.metadata() else { return Vec::new() };
    let me = i32::try_from(std::process::id()).unwrap_or(0);
    let all = std::fs::read_dir("/proc").into_iter().flatten().flatten();
    all.filter_map(|e| e.file_name().to_str()?.parse().ok())
        .filter(|pid| *pid != me)
        .filter(|pid| {
            let is = std::fs::metadata(format!("/proc/{pid}/ns/net"));
            is.is_ok_and(|m| (m.dev(), m.ino()) == (wanted.dev(), wanted.ino()))
        })
        .collect()
}

/// Those of these processes that are neither one of `kept` nor descended from one, nor in its process group.
fn strangers(all: Vec<i32>, kept: &[i32]) -> Vec<i32> {
    if kept.is_empty() {
        return all;
    }
    let kin: BTreeMap<i32, [i32; 2]> =
        all.iter().filter_map(|pid| Some((*pid, parent_and_group(*pid)?))).collect();
    let is_kept = |pid: i32| {
        let mut at = pid;
        // No process is its own ancestor, but they come and go while they are looked at.
        for _ in 0..=kin.len() {
            let Some([parent, group]) = kin.get(&at) else { return false };
            if kept.contains(&at) || kept.contains(group) {
                return true;
            }
            at = *parent;
        }
        false
    };
    all.into_iter().filter(|pid| !is_kept(*pid)).collect()
}

/// As proc(5) has them, behind a name that may have anything in it.
fn parent_and_group(pid: i32) -> Option<[i32; 2]> {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    let mut words = stat.rsplit_once(')')?.1.split_whitespace().skip(1);
    Some([words.next()?.parse().ok()?, words.next()?.parse().ok()?])
}

/// Ends processes until there are none: politely, then not.
pub fn end(mut who: impl FnMut() -> Vec<i32>) {
    let begun = Instant::now();
    let mut asked: Vec<i32> = Vec::new();
    loop {
        let all = who();
        if all.is_empty() {
            return;
        }
        let signal = |pid: i32, s| {
            if let Some(pid) = Pid::from_raw(pid) {
                // One that has gone meanwhile needs none.
                let _ = kill_process(pid, s);
            }
        };
        let hard = begun.elapsed() > POLITE;
        for pid in all {
            if hard {
                signal(pid, Signal::KILL);
            } else if !asked.contains(&pid) {
                asked.push(pid);
                signal(pid, Signal::TERM);
            }
        }
        if begun.elapsed() > PATIENCE {
            return;
        }
        std::thread::sleep(Duration::from_millis(10));
    }
}

/// How long processes may take to end by themselves, and how long they are waited for at all.
const POLITE: Duration = Duration::from_secs(1);
const PATIENCE: Duration = Duration::from_secs(5);
