//! What is asked to be placed: functions or chains with their demands, hosts with what runs there.
//!
//! Room: the schema of a request's TOML. Called by the binary.

use crate::estimate::{FRAME_BYTES, Target};
use crate::fault::Fault;
use crate::quantity::Dimension;
use crate::read::{At, Bounds, Section, document};
use crate::traffic::Traffic;

/// Most hosts.
pub const MAX_HOSTS: usize = 500;
/// Most functions or chains.
pub const MAX_DEMANDS: usize = 2000;

/// A request.
#[derive(Clone, Debug, PartialEq)]
pub struct Request {
    /// The file, for errors.
    pub file: String,
    /// What is sought.
    pub objective: Objective,
    /// The model of the virtual switch, for chains.
    pub switch: String,
    /// The hosts.
    pub hosts: Vec<Host>,
    /// What shall run on them.
    pub demands: Vec<Demand>,
}

/// What is sought.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Objective {
    /// As few hosts as possible.
    FewestHosts,
    /// As much left as possible, where least is left.
    MostHeadroom,
    /// As few watts as possible.
    LeastEnergy,
}

impl Objective {
    /// As it is written.
    pub const NAMES: &[(&str, Objective)] = &[
        ("fewest-hosts", Objective::FewestHosts),
        ("most-headroom", Objective::MostHeadroom),
        ("least-energy", Objective::LeastEnergy),
    ];
    /// As it is written.
    pub fn name(self) -> &'static str {
        Self::NAMES.iter().find(|n| n.1 == self).map_or("", |n| n.0)
    }
    /// A plan's value as its name says it: headroom is what the fullest host has left.
    pub fn told(self, value: f64) -> f64 {
        match self {
            Objective::MostHeadroom => 1.0 - value,
            Objective::FewestHosts | Objective::LeastEnergy => value,
        }
    }
}

/// A host.
#[derive(Clone, Debug, PartialEq)]
pub struct Host {
    /// Its name.
    pub name: String,
    /// Its profile, by name or path.
    pub profile: String,
    /// Cores that are kept for other things.
    pub reserved_cores: u32,
    /// Cores that switch for the functions: what OpenStack is told.
    pub switch_cores: u32,
    /// What already runs there.
    pub running: Vec<Demand>,
}

/// A function or a chain, and what it must sustain.
#[derive(Clone, Debug, PartialEq)]
pub struct Demand {
    /// Its name.
    pub name: String,
    /// One function, or several in a chain through the virtual switch.
    pub functions: Vec<String>,
    /// The rate.
    pub rate: Target,
    /// Bytes of a frame, FCS included.
    pub frame: u32,
    /// The longest that a frame may take, in seconds.
    pub latency_s: Option<f64>,
    /// The traffic.
    pub traffic: Option<Traffic>,
    /// Frames that are processed together.
    pub burst: u32,
    /// Values for parameters of the function's models; a chain has none.
    pub settings: Vec<(String, f64)>,
}

impl Request {
    /// Reads one; `file` is what errors call it.
    ///
    /// # Errors
    /// [`Fault`].
    pub fn read(file: &str, text: &str) -> Result<Self, Fault> {
        document(file, text, |top| {
            let objective = top.word("objective", Objective::NAMES)?;
            let switch = top.text("switch")?.map_or_else(|| "l2-basic".into(), |s| s.value);
            let mut hosts = Vec::new();
            for s in top.sections("host")? {
                host(&s, &mut hosts)?;
                s.finish()?;
            }
            let mut demands = Vec::new();
            for s in top.sections("function")? {
                demand(&s, &mut demands)?;
                s.finish()?;
            }
            if hosts.is_empty() {
                return Err(top.missing("host", "[[host]] for each host"));
            }
            if demands.is_empty() {
                return Err(top.missing("function", "[[function]] for each function or chain"));
            }
            let mut names: Vec<&str> = demands.iter().map(|d| d.name.as_str()).collect();
            names.sort_unstable();
            if let Some(a) = names.windows(2).find(|w| w.first() == w.last()).and_then(<[_]>::first)
            {
                return Err(top.wrong(format!("function '{a}' is there twice: names are unique")));
            }
            Ok(Self {
                file: file.to_owned(),
                objective: objective.unwrap_or(Objective::FewestHosts),
                switch,
                hosts,
                demands,
            })
        })
    }
}

/// `NAME`, or `NAME-1` to `NAME-N` where there are several alike.
fn names(s: &Section<'_>, most: usize) -> Result<Vec<String>, Fault> {
    let name = s.need_name("name", "its name")?;
    let count = s.number("count", Bounds::Whole(1, most as u64))?.map(|c| c as usize);
    Ok(match count {
        None => vec![name],
        Some(n) => (1..=n).map(|i| format!("{name}-{i}")).collect(),
    })
}

fn host(s: &Section<'_>, hosts: &mut Vec<Host>) -> Result<(), Fault> {
    let cores = Bounds::Whole(0, 65_536);
    let names = names(s, MAX_HOSTS)?;
    let profile = s.need_text("profile", "the host's profile: a name or a file")?;
    let reserved_cores = s.number("reserved_cores", cores)?.unwrap_or(0.0) as u32;
    let switch_cores = s.number("switch_cores", cores)?.unwrap_or(0.0) as u32;
    let mut running = Vec::new();
    for r in s.sections("running")? {
        demand(&r, &mut running)?;
        r.finish()?;
    }
    for name in names {
        if hosts.iter().any(|h| h.name == name) {
            return Err(s.wrong(format!("host '{name}' is there already: names are unique")));
        }
        if hosts.len() == MAX_HOSTS {
            return Err(s.wrong(format!("more than {MAX_HOSTS} hosts")));
        }
        hosts.push(Host {
            name,
            profile: profile.clone(),
            reserved_cores,
            switch_cores,
            running: running.clone(),
        });
    }
    Ok(())
}

fn demand(s: &Section<'_>, demands: &mut Vec<Demand>) -> Result<(), Fault> {
    let names = names(s, MAX_DEMANDS)?;
    let functions = match (s.text("function")?, s.texts("chain")?) {
        (Some(f), chain) if chain.is_empty() => vec![f.value],
        (None, chain) if !chain.is_empty() => chain,
        _ => return Err(s.missing("function", "one of function = \"NF\" and chain = [\"NF\", …]")),
    };
    let rate = match (s.has("rate"), s.has("bits")) {
        (true, false) => Target::Mpps(s.need_quantity("rate", Dimension::FrameRate)? / 1e6),
        (false, true) => Target::Gbps(s.need_quantity("bits", Dimension::BitRate)? / 1e9),
        (true, true) => {
            return Err(s.wrong("'rate' and 'bits' both say how much: give one of them"));
        }
        (false, false) => {
            return Err(s.missing("rate", "one of rate = \"5 Mpps\" and bits = \"10 Gbit/s\""));
        }
    };
    let (shortest, longest) = FRAME_BYTES;
    let frame = s.number("frame", Bounds::Whole(shortest.into(), longest.into()))?;
    let frame = frame.map_or(shortest, |f| f as u32);
    let latency_s = s.quantity("latency", Dimension::Time)?;
    let traffic = match s.text("traffic")? {
        Some(t) => {
            let read = Traffic::read(&t.value);
            Some(read.map_err(|e| s.fault(&t.span, format!("traffic: {e}")))?)
        }
        None => None,
    };
    let burst = s.number("burst", Bounds::Whole(1, 4096))?.unwrap_or(32.0) as u32;
    let settings = settings(s, &functions)?;
    for name in names {
        if demands.len() == MAX_DEMANDS {
            return Err(s.wrong(format!("more than {MAX_DEMANDS} functions")));
        }
        demands.push(Demand {
            name,
            functions: functions.clone(),
            rate,
            frame,
            latency_s,
            traffic: traffic.clone(),
            burst,
            settings: settings.clone(),
        });
    }
    Ok(())
}

/// `set = { NAME = VALUE, … }`: whether models have such parameters is seen when they are estimated.
fn settings(s: &Section<'_>, functions: &[String]) -> Result<Vec<(String, f64)>, Fault> {
    let Some(set) = s.section("set")? else { return Ok(Vec::new()) };
    if functions.len() > 1 {
        return Err(set
            .wrong("'set' is one function's: a chain's models have parameters of the same names"));
    }
    let names = set.keys();
    let value =
        |n: &At<String>| Ok((n.value.clone(), set.need_number(&n.value, Bounds::NotNegative)?));
    let all = names.iter().map(value).collect();
    set.finish()?;
    all
}
