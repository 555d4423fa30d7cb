//! `weir run`: a data plane in the foreground, from a configuration to its last frame.
//!
//! Room: wiring. Reads the file, tries it, opens the ports, starts the workers (`workers`), serves the control
//! socket, waits for signals, and at the end gives everything back and checks the sums.

use super::log_writer;
use super::say::{complain, say, tell};
use super::workers::Workers;
use crate::config::apply;
use crate::config::plan::Plan;
use crate::config::read;
use crate::fault::bad_input;
use crate::openflow::service::Switches;
use crate::openflow::tls::Identity;
use crate::processor::{self, Others};
use crate::router::node::Routers;
use crate::socket::live::{Live, SocketGiven};
use crate::socket::{api, place, server, view};
use anyhow::{Context, Result, anyhow, bail};
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use signal_hook::iterator::Signals;
use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;
use weir_agent::Link;
use weir_dataplane::crew::snapshot_of;
use weir_dataplane::{DataPlane, PortView, Serving, Snapshot};
use weir_packet::{Nanos, PortId};

/// Arguments of `weir run`.
#[derive(Debug, clap::Args)]
#[command(
    about = "Run a data plane in the foreground, from a configuration",
    long_about = "Runs a data plane in the foreground: its ports, VDPs, rules and limits come from \
                  a TOML file, which docs/guide/configuration.md describes.\n\n\
                  The whole file is read and tried on a data plane without real ports first, so \
                  that a file with a mistake touches nothing. Then ports are opened, and a line is \
                  printed for everything that is made, with the reason wherever something fell \
                  back.\n\n\
                  'workers = N' in [dataplane] has N threads forward, each some of the flows; all \
                  else is as with one, and what several can't hold between them is refused, but to VDPs \
                  that are one worker's ('worker = K').\n\n\
                  SIGINT and SIGTERM stop it: it prints the final counters and checks that every \
                  frame is accounted for. SIGHUP reads the file again and changes what differs, \
                  between two bursts, without losing a frame; a file with a mistake changes \
                  nothing. Meanwhile 'weir show', 'stats', 'top', 'port', 'vdp' and 'capture' \
                  speak to it through its control socket (mode 0600).",
    after_long_help = "Examples:\n  \
                       weir run labs/two-tenants.toml\n  \
                       weir run --check labs/two-tenants.toml\n  \
                       weir run --until-done replay.toml     ends when every capture file is read\n  \
                       kill -HUP $(pidof weir)               reads the file again\n\n\
                       Exit status: 0 stopped as asked, 1 the work failed, 2 the file or the \
                       arguments are wrong."
)]
pub struct Args {
    /// What to run
    #[arg(value_name = "CONFIG.toml")]
    config: PathBuf,
    /// Control socket [default: the file's, else $XDG_RUNTIME_DIR/weir/control.sock, else
    /// /run/weir/control.sock]
    #[arg(long, value_name = "PATH")]
    socket: Option<PathBuf>,
    /// Only read and try the file; open nothing
    #[arg(long)]
    check: bool,
    /// End when every port has nothing more to receive and no frame is left inside
    #[arg(long)]
    until_done: bool,
    #[command(flatten)]
    log: log_writer::Log,
}

/// How often signals are looked at, and whether everything is done.
const LOOK: Duration = Duration::from_millis(50);
/// How many of them come to one at the ports, which the worker looks at no more often.
const PORTS: u32 = 5;

/// Runs it.
pub fn run(args: &Args) -> Result<()> {
    // Signals are taken from here on, so that none that comes early is lost.
    let mut signals = Signals::new([SIGINT, SIGTERM, SIGHUP]).context("taking signals")?;
    let plan = read::load(&args.config).map_err(bad_input)?;
    apply::rehearse(&plan).map_err(bad_input)?;
    if let Some(cpu) = plan.fixed.cpu {
        let at = plan.places.of("cpu").map(|p| format!("{p}: ")).unwrap_or_default();
        processor::check_all(cpu, plan.fixed.config.workers)
            .map_err(|e| bad_input(format_args!("{at}{e:#}")))?;
    }
    if args.check {
        let rules: usize = plan.vdps.values().map(|v| v.rules.len()).sum();
        let (ports, vdps) = (plan.ports.len(), plan.vdps.len() - 1);
        return say(format_args!(
            "{}: {ports} ports, {vdps} VDPs, {rules} rules: fine",
            args.config.display()
        ));
    }
    let (socket, given) = match (&args.socket, &plan.fixed.socket) {
        (Some(p), _) => (p.clone(), SocketGiven::OnTheCommandLine),
        (None, Some(p)) => (p.clone(), SocketGiven::InTheFile),
        (None, None) => {
            let p = place::default_path();
            place::make_default_folder(&p)?;
            (p, SocketGiven::InTheFile)
        }
    };
    // Threads run where the one that starts them may: all but the workers begin elsewhere, the log's first.
    let (own, others) = match plan.fixed.cpu {
        Some(first) => processor::set_all_aside(first, plan.fixed.config.workers)?,
        None => (Vec::new(), Others::Elsewhere),
    };
    log_writer::start(args.log)?;
    certificates(&plan).iter().for_each(complain);
    let bound = server::bind(&socket)?;
    let node = plan.fixed.api.as_ref().map(api::bind).transpose()?;
    let (workers, model) = Workers::start(&plan, own)?;
    let serving = plan.fixed.serving;
    let live = Live::new(workers.handle(), model, Routers::new(&socket));
    let live = Arc::new(workers.or_why(live)?);
    let stopping = Switching(&live);
    let routing = Routing(&live);
    if let Some(why) = live.follow()?.into_iter().next() {
        bail!(why);
    }
    let mut server = server::Server::start(bound, Arc::clone(&live))?;
    let api = match (node, live.identity().cloned()) {
        (Some(listener), Some(tls)) => Some(api::Api::start(listener, tls, Arc::clone(&live))?),
        _ => None,
    };
    if let Some(api) = &api {
        tell(format_args!("node API at {}", api.at()));
    }
    let several = plan.fixed.config.workers;
    // A thread serves one channel at least.
    let serving = match serving {
        Serving::Threads(n) => Serving::Threads(n.clamp(1, plan.fixed.config.channels)),
        Serving::Worker => serving,
    };
    let who = match (serving, several) {
        (Serving::Worker, 1) => "the worker serves the channels".to_owned(),
        (Serving::Threads(n), 1) => format!("{n} threads serve the channels"),
        (Serving::Worker, w) => format!("{w} workers, each serves its channels"),
        (Serving::Threads(n), w) => format!("{w} workers, {n} threads serve the channels of each"),
    };
    let who = match plan.fixed.cpu {
        Some(cpu) => format!("{who}; {}", pinned(cpu, several, others)),
        None => who,
    };
    tell(format_args!("running: {who}; control socket {}", socket.display()));
    let ended = workers.or_why(attend(args, &live, &mut signals, given));
    server.stop();
    drop(api);
    drop(routing);
    drop(stopping);
    let stopped = workers.stop();
    if ended.is_ok() || stopped.is_ok() {
        let ports = finish(stopped?)?;
        if let Ok(Ended::Done) = ended {
            ended_whole(&ports)?;
        }
    }
    ended.map(|_| ())
}

/// Which processors workers have, from this one on, and where all other threads are.
fn pinned(first: usize, workers: usize, others: Others) -> String {
    let last = first + workers.saturating_sub(1);
    match (others, workers) {
        (Others::Elsewhere, 1) => format!("it has cpu {first} to itself"),
        (Others::Elsewhere, _) => format!("they have cpus {first} to {last} to themselves"),
        (Others::WithTheLast, 1) => {
            format!("it has cpu {first}, and all other threads share it: there is no other")
        }
        (Others::WithTheLast, _) => {
            format!(
                "they have cpus {first} to {last}, and all other threads share {last}: there is no other"
            )
        }
    }
}

/// Certificates of ours that nobody will take, a line each.
fn certificates(plan: &Plan) -> Vec<String> {
    let api = plan.fixed.api.iter().map(|a| ("the node API".to_owned(), &a.tls));
    let switches = plan.vdps.values().filter_map(|v| {
        let tls = v.openflow.as_ref()?.tls.as_ref()?;
        Some((v.called(), tls))
    });
    let one = |(whose, tls): (String, &Identity)| {
        let why = tls.out_of_time()?;
        Some(format!("certificate of {whose}: {why}: nobody takes it, renew it"))
    };
    api.chain(switches).filter_map(one).collect()
}

/// Why it ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Ended {
    /// It was told to.
    Asked,
    /// There is nothing more to do.
    Done,
}

/// Ends the OpenFlow switches before the worker that they ask.
struct Switching<'a>(&'a Live);

impl Drop for Switching<'_> {
    fn drop(&mut self) {
        self.0.switches().stop();
    }
}

/// Ends the virtual routers before the worker that they are wired to.
struct Routing<'a>(&'a Live);

impl Drop for Routing<'_> {
    fn drop(&mut self) {
        self.0.routers().clear(self.0);
    }
}

/// What is known of a port, to tell when it changes.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Seen {
    name: String,
    up: bool,
    fault: Option<String>,
}

/// Waits for signals; tells what changes at ports.
fn attend(args: &Args, live: &Live, signals: &mut Signals, given: SocketGiven) -> Result<Ended> {
    let mut seen: BTreeMap<PortId, Seen> = BTreeMap::new();
    let mut still = Still::default();
    for look in (0..PORTS).cycle() {
        for signal in signals.pending() {
            if signal != SIGHUP {
                tell(format_args!(
                    "stopping on {}",
                    if signal == SIGINT { "SIGINT" } else { "SIGTERM" }
                ));
                return Ok(Ended::Asked);
            }
            match live.reload(&args.config, given) {
                Ok(told) => {
                    let old = live.look(|m| certificates(&m.plan)).unwrap_or_default();
                    old.iter().for_each(|w| complain(format_args!("reload: {w}")));
                    told.iter().for_each(|t| tell(format_args!("reload: {t}")));
                    let how = if told.is_empty() { "nothing differs" } else { "done" };
                    tell(format_args!("reload: {how}"));
                }
                Err(e) => complain(format_args!("reload: {e}{}", e.aftermath())),
            }
        }
        if look > 0 && !args.until_done {
            std::thread::sleep(LOOK);
            continue;
        }
        let failed = "the worker has failed";
        let (ports, done) = if args.until_done {
            let s = live.handle().call(|p| p.snapshot()).context(failed)?;
            let done = still.is_done(&s);
            (s.ports, done)
        } else {
            // Frames wait meanwhile: VDPs, of which there may be thousands, are not looked at.
            (live.handle().call(|p| p.port_views()).context(failed)?, false)
        };
        if done {
            tell(format_args!("stopping: every port is exhausted"));
        }
        tell_changes(&mut seen, ports, live.switches());
        if done {
            return Ok(Ended::Done);
        }
        std::thread::sleep(LOOK);
    }
    Ok(Ended::Asked)
}

/// Whether all that ports had to read or write has been: a capture that is cut short has not.
fn ended_whole(ports: &[PortView]) -> Result<()> {
    match ports.iter().find_map(|p| Some((&p.name, p.fault.as_ref()?))) {
        Some((name, fault)) => bail!("not all was done: port {name}: {fault}"),
        None => Ok(()),
    }
}

/// Prints what has changed at ports since the last look, and tells the switches.
fn tell_changes(seen: &mut BTreeMap<PortId, Seen>, ports: Vec<PortView>, switches: &Switches) {
    let mut now = BTreeMap::new();
    for p in ports.into_iter().filter(|p| p.id != PortId(0)) {
        now.insert(p.id, Seen { name: p.name, up: p.up, fault: p.fault });
    }
    for (id, n) in &now {
        let before = seen.get(id);
        let name = &n.name;
        if before.is_none_or(|b| b.up != n.up) {
            switches.link(name, if n.up { Link::Up } else { Link::Down });
        }
        if let Some(b) = before.filter(|b| b.up != n.up) {
            tell(format_args!("port {name}: {}", if b.up { "down" } else { "up" }));
        } else if before.is_none() && !n.up {
            tell(format_args!("port {name}: down"));
        }
        if let Some(fault) = n.fault.as_ref().filter(|_| before.is_none_or(|b| b.fault != n.fault))
        {
            complain(format_args!("port {name}: {fault}"));
        }
    }
    *seen = now;
}

/// Whether a data plane has come to rest for good: nothing can come, nothing is inside, and nothing
/// has moved since the last look.
#[derive(Debug, Default)]
struct Still {
    before: Option<u64>,
}

impl Still {
    fn is_done(&mut self, s: &Snapshot) -> bool {
        let moved = s.vdps.iter().map(|v| v.counters.came() + v.counters.ended()).sum();
        let rest = self.before.replace(moved) == Some(moved);
        rest && s.ports.iter().all(|p| p.quiet && p.backlog == 0)
            && s.vdps.iter().all(|v| v.held == 0)
    }
}

/// Sends what is inside, closes the ports, prints the final counters, checks the sums. Returns the ports as they were then.
fn finish(mut planes: Vec<DataPlane>) -> Result<Vec<PortView>> {
    let held = |planes: &[DataPlane]| -> usize {
        planes.iter().flat_map(|p| p.snapshot().vdps).map(|v| v.held).sum()
    };
    let mut now = planes.iter().map(DataPlane::now).max().unwrap_or_default();
    for _ in 0..64 {
        now = now + Nanos::from_millis(1);
        let moved: usize = planes.iter_mut().map(|p| p.poll(now)).sum();
        if moved == 0 && held(&planes) == 0 {
            break;
        }
    }
    let ports = planes.iter().flat_map(DataPlane::port_views);
    let before: BTreeSet<PortId> = ports.filter(|p| p.fault.is_some()).map(|p| p.id).collect();
    // Asked for their links, files have written all that they were given, or say why not.
    planes.iter_mut().for_each(|p| _ = p.check_links());
    let all = snapshot_of(&planes);
    let balance = all.check();
    let s = all.merged().context("no data plane")?;
    for p in s.ports.iter().filter(|p| !before.contains(&p.id)) {
        if let Some(fault) = &p.fault {
            complain(format_args!("port {}: {fault}", p.name));
        }
    }
    let (ports, vdps) = (s.ports.clone(), s.vdps.iter().map(view::vdp).collect::<Vec<_>>());
    let ports: Vec<_> = ports.into_iter().map(view::port).collect();
    let (deleted, unmapped) = (view::deleted(&s.retired), view::drops(&s.unmapped.dropped));
    tell(super::stats::tables(&ports, &vdps, deleted.as_ref(), &unmapped).trim_end());
    for p in s.ports.iter().filter(|p| p.id != PortId(0)) {
        for plane in &mut planes {
            plane.remove_port(p.id).with_context(|| format!("closing port {}", p.name))?;
        }
    }
    balance.map_err(|e| anyhow!("frames do not add up, which is a defect of weir: {e}"))?;
    let frames: u64 = s.ports.iter().map(|p| p.counters.rx.frames).sum();
    tell(format_args!("every frame is accounted for: {frames} received, {} held", s.frames.held));
    Ok(s.ports)
}
