//! Chains of virtual functions: each frame passes the virtual switch before, between and after them,
//! crosses a channel into each and out of it, and all compete for cores (002 §5 leaves this open).
//!
//! Room: arithmetic over estimates; switch and channels are models like any other. Called by the binary
//! and by placement.

use crate::estimate::{
    Estimate, Lengths, Limit, Mode, Numa, Question, cards, cores_beyond, estimate, gbps,
};
use crate::fault::Fault;
use crate::model::Library;
use crate::profile::{Contention, Hardware, Processor, Profile};

/// Most functions of a chain.
pub const MAX_FUNCTIONS: usize = 64;
/// Millions of bits that make a thousand of them.
const GIGA: f64 = 1000.0;

/// Functions one after the other, and what joins them.
#[derive(Clone, Debug, PartialEq)]
pub struct Chain {
    /// The functions, by their models' names.
    pub functions: Vec<String>,
    /// The model of a pass through the virtual switch, or a VDP.
    pub switch: String,
    /// The models of handing a frame to a channel, and of taking one from it.
    pub channel: (String, String),
    /// Who has which cores.
    pub cores: Cores,
}

/// Who has which cores.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Cores {
    /// The switch and every function have this many each.
    Own(u32),
    /// All of them share these.
    Shared(u32),
}

/// What a chain sustains.
#[derive(Clone, Debug, PartialEq)]
pub struct Joined {
    /// The tasks: the switch first, then the functions in order.
    pub tasks: Vec<Task>,
    /// Passes through the switch for a frame.
    pub passes: u32,
    /// Crossings of channels for a frame.
    pub crossings: u32,
    /// What bounds the rate.
    pub limits: Vec<Limit>,
    /// The binding one, by its name.
    pub bottleneck: String,
    /// Mpps.
    pub mpps: f64,
    /// Gbps on the wire.
    pub gbps: f64,
    /// What the rate may be, in Mpps.
    pub interval_mpps: (f64, f64),
    /// What those that share cores lose by changes of context, as a part of their time.
    pub contention: f64,
    /// What the whole of it costs, in cycles a frame.
    pub cycles: f64,
    /// The longest that a frame waits for its turn at the cores, in seconds.
    pub turn_s: f64,
    /// How long frames are on both sides.
    pub lengths: Lengths,
    /// What whoever reads the figures should know.
    pub notes: Vec<String>,
}

/// A switch or a function in a chain.
#[derive(Clone, Debug, PartialEq)]
pub struct Task {
    /// Its name.
    pub name: String,
    /// Cycles of its own for a frame.
    pub own_cycles: f64,
    /// Cycles for a frame at channels.
    pub channel_cycles: f64,
}

/// What a chain sustains on a profile; `question` says frame, traffic, mode and the like.
///
/// # Errors
/// Those of [`estimate`]; a chain without functions or with too many; a profile that says nothing of
/// contention where cores are shared.
pub fn join(
    library: &Library,
    chain: &Chain,
    profile: &Profile,
    question: &Question,
) -> Result<Joined, Fault> {
    let n = chain.functions.len();
    if !(1..=MAX_FUNCTIONS).contains(&n) {
        let text = format!("{n} functions: expected 1 to {MAX_FUNCTIONS}");
        return Err(Fault::new("chain", text));
    }
    let Hardware::Processor(processor) = &profile.hardware else {
        return Err(Fault::new(&profile.file, "a chain of virtual functions needs a [processor]"));
    };
    let (Cores::Own(cores) | Cores::Shared(cores)) = chain.cores;
    // Frames come by channels once they are in: a function's own do not come from another socket.
    let inside = Question { cores, numa: Numa::Local, target: None, ..question.clone() };
    let outside = Question { cores, target: None, ..question.clone() };
    let ask = |name: &str, q: &Question| estimate(library, name, profile, q);
    let switch = ask(&chain.switch, &outside)?;
    let (send, receive) = (ask(&chain.channel.0, &inside)?, ask(&chain.channel.1, &inside)?);
    let crossing = send.cycles + receive.cycles;
    let at_channels = relative(&send).max(relative(&receive));
    let channel = [(1.0, send.clone()), (1.0, receive.clone())];
    let (n32, many) = (n as u32, n as f64);
    // What each task has done for a frame, and how often.
    let mut doings = vec![vec![(many + 1.0, switch.clone()), (many, send), (many, receive)]];
    let mut tasks = vec![Task {
        name: chain.switch.clone(),
        own_cycles: switch.cycles * (many + 1.0),
        channel_cycles: crossing * many,
    }];
    let mut off = relative(&switch) * switch.cycles * (many + 1.0);
    off += at_channels * crossing * many * 2.0;
    for name in &chain.functions {
        let e = ask(name, &inside)?;
        off += relative(&e) * e.cycles;
        tasks.push(Task { name: name.clone(), own_cycles: e.cycles, channel_cycles: crossing });
        doings.push([&[(1.0, e)][..], &channel].concat());
    }
    let all = |t: &Task| t.own_cycles + t.channel_cycles;
    let cycles: f64 = tasks.iter().map(all).sum();
    let hz = f64::from(cores) * switch.clock_hz;
    let taken = match chain.cores {
        Cores::Own(each) => each.saturating_mul(tasks.len() as u32),
        Cores::Shared(all) => all,
    };
    let (mut limits, mut others) = (Vec::new(), Vec::new());
    let (mut contention, mut turn_s) = (0.0, 0.0);
    match chain.cores {
        Cores::Own(_) => {
            for (i, (t, done)) in tasks.iter().zip(&doings).enumerate() {
                let name =
                    if i == 0 { format!("switch {}", t.name) } else { format!("{i}: {}", t.name) };
                let about = format!("{cores} cores / {:.1} cycles", all(t));
                let caches = per_core(done);
                others.extend(
                    caches.into_iter().map(|l| Limit { name: format!("{name}, {}", l.name), ..l }),
                );
                limits.push(Limit { name, mpps: hz / all(t) / 1e6, about });
            }
        }
        Cores::Shared(_) => {
            if tasks.len() > cores as usize {
                let Some(c) = &profile.contention else {
                    let text = "no [contention]: what do tasks that share cores lose?";
                    return Err(Fault::new(&profile.file, text));
                };
                contention = lost(c, processor.clock_hz);
                turn_s = turn(c, tasks.len(), f64::from(cores));
            }
            limits.push(Limit {
                name: "core".into(),
                mpps: hz * (1.0 - contention) / cycles / 1e6,
                about: format!(
                    "{cores} cores shared by {} tasks / {cycles:.1} cycles, {:.2} % lost to changes \
                     of context",
                    tasks.len(),
                    contention * 100.0
                ),
            });
        }
    }
    if matches!(chain.cores, Cores::Shared(_)) {
        let on = |l: Limit| Limit { mpps: l.mpps * (1.0 - contention), ..l };
        others.extend(per_core(&doings.concat()).into_iter().map(on));
    }
    others.extend(of_memory(&doings.concat(), processor, cores, taken));
    // What the machine's ports carry bounds a chain as it bounds a function.
    let passed = doings.iter().skip(1).filter_map(|d| d.first()).map(|(_, e)| &e.lengths);
    let lengths = Lengths::through(question.frame, passed);
    if question.mode == Mode::Full {
        others.extend(cards(profile, lengths));
    }
    let least_of = |of: &[Limit]| of.iter().map(|l| l.mpps).fold(f64::MAX, f64::min);
    // What else bounds is known better than what operations cost.
    let part = (off / cycles).min(0.9);
    let (by_cores, else_by) = (least_of(&limits), least_of(&others));
    let interval_mpps =
        ((by_cores / (1.0 + part)).min(else_by), (by_cores / (1.0 - part)).min(else_by));
    limits.extend(others);
    let least = limits.iter().min_by(|a, b| a.mpps.total_cmp(&b.mpps));
    let (mpps, bottleneck) = least.map_or((0.0, String::new()), |l| (l.mpps, l.name.clone()));
    Ok(Joined {
        notes: cores_beyond(profile, taken).into_iter().collect(),
        tasks,
        passes: n32 + 1,
        crossings: 2 * n32,
        limits,
        bottleneck,
        mpps,
        gbps: gbps(mpps, question.frame, GIGA),
        interval_mpps,
        contention,
        cycles,
        turn_s,
        lengths,
    })
}

/// What is done for a frame so often.
type Doing = (f64, Estimate);

/// What is left for all of them together of a bound that each alone would meet at its own rate: parts of a bandwidth
/// add up.
fn together(name: &str, done: &[Doing]) -> Option<Limit> {
    let of = |(times, e): &Doing| Some(times / e.limits.iter().find(|l| l.name == name)?.mpps);
    let parts: Vec<f64> = done.iter().filter_map(of).collect();
    let all: f64 = parts.iter().sum();
    let about = format!("what {} of the chain's parts take of it", parts.len());
    (all > 0.0).then(|| Limit { name: name.to_owned(), mpps: 1.0 / all, about })
}

/// Bounds that each core brings along: its caches, and what it has under way.
fn per_core(done: &[Doing]) -> Vec<Limit> {
    let others = ["core", "memory", "memory bandwidth", "line rate", "bus", "card"];
    let mut names: Vec<&str> = Vec::new();
    for l in done.iter().flat_map(|(_, e)| &e.limits) {
        if !others.contains(&l.name.as_str()) && !names.contains(&l.name.as_str()) {
            names.push(&l.name);
        }
    }
    names.into_iter().filter_map(|n| together(n, done)).collect()
}

/// Main memory's, which all share: estimates were for so many `cores`, and more are taken, of further sockets maybe.
fn of_memory(done: &[Doing], p: &Processor, cores: u32, taken: u32) -> Vec<Limit> {
    let sockets = |cores: u32| cores.div_ceil(p.cores_per_socket).clamp(1, p.sockets.max(1));
    let more = f64::from(sockets(taken)) / f64::from(sockets(cores));
    let bandwidth = together("memory bandwidth", done);
    let bandwidth = bandwidth.map(|l| Limit { mpps: l.mpps * more, ..l });
    bandwidth.into_iter().chain(together("memory", done)).collect()
}

/// The part of the time that changes of context take.
pub fn lost(c: &Contention, clock_hz: f64) -> f64 {
    c.context_cycles / (c.context_cycles + c.timeslice_s * clock_hz)
}

/// The longest that a frame waits for its turn where so many tasks share cores, in seconds.
pub(crate) fn turn(c: &Contention, tasks: usize, cores: f64) -> f64 {
    ((tasks as f64 / cores).ceil() - 1.0).max(0.0) * c.timeslice_s
}

/// How far an estimate's cycles may be off, as a part of them.
pub(crate) fn relative(e: &Estimate) -> f64 {
    let squares: f64 = e.operations.iter().map(|o| (o.times * o.cycles * o.error).powi(2)).sum();
    squares.sqrt() / e.cycles
}
