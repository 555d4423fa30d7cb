//! `weir vdp`: VDPs of a running data plane.
//!
//! Room: the client's side of the control socket. What is said by options is turned into a `[[vdp]]`
//! section, so that there is one language and one reader for it.

use crate::fault::{self, bad_input};
use crate::socket::client::Where;
use crate::socket::protocol::Request;
use anyhow::Result;
use std::fmt::Write;
use std::path::PathBuf;

/// Arguments of `weir vdp`.
#[derive(Debug, clap::Args)]
#[command(
    about = "Make, change, move and delete VDPs of a running data plane",
    long_about = "Makes, changes, moves and deletes VDPs of a running data plane, their rules and \
                  their mapping rules. Every change happens between two bursts: no frame meets a \
                  half-way state, and a change that is refused changes nothing. The configuration \
                  file is not written; a reload makes everything what the file says again.",
    after_long_help = "Examples:\n  \
                       weir vdp create 7 --name blue --ports lan,uplink --mapping in_port=lan \\\n        \
                           --mapping in_port=uplink --program learning\n  \
                       weir vdp create --file blue.toml\n  \
                       weir vdp set blue --cpu-permille 200 --share lan:ceiling_bps=100000000\n  \
                       weir vdp migrate blue slow\n  \
                       weir vdp rule add blue 'priority=10,ip,nw_dst=10.0.0.0/8,actions=output:2'\n  \
                       weir vdp rule del blue 'priority=10,ip,nw_dst=10.0.0.0/8'\n  \
                       weir vdp mapping add blue 'in_port=lan,dl_vlan=7' --priority 100\n  \
                       weir vdp delete blue"
)]
pub struct Args {
    #[command(flatten)]
    to: Where,
    #[command(subcommand)]
    what: What,
}

#[derive(Debug, clap::Subcommand)]
enum What {
    /// Make a VDP
    #[command(group(clap::ArgGroup::new("which").required(true).args(["vid", "file"])))]
    Create {
        /// Its number, 1 to 65534
        #[arg(value_parser = clap::value_parser!(u16).range(1..=65_534))]
        vid: Option<u16>,
        /// A file with its `[[vdp]]` section, instead of options
        #[arg(long, value_name = "FILE", conflicts_with = "Of")]
        file: Option<PathBuf>,
        #[command(flatten)]
        of: Of,
    },
    /// Change a VDP
    Set {
        /// Which, by number or name
        vdp: String,
        #[command(flatten)]
        of: Of,
    },
    /// Delete a VDP; its frames are counted as dropped or leave
    Delete {
        /// Which, by number or name
        vdp: String,
    },
    /// Move a VDP to the fast or the slow path, and wait until it is there
    Migrate {
        /// Which, by number or name
        vdp: String,
        /// fast or slow
        to: String,
    },
    /// Its rules
    #[command(subcommand)]
    Rule(Rule),
    /// Its mapping rules
    #[command(subcommand)]
    Mapping(Mapping),
}

/// What can be said of a VDP by options.
#[derive(Debug, clap::Args)]
struct Of {
    /// Its name
    #[arg(long)]
    name: Option<String>,
    /// Its ports, numbered from 1 (lan,uplink) or as said (lan=1,uplink=7)
    #[arg(long, value_name = "PORTS", value_delimiter = ',')]
    ports: Vec<String>,
    /// Which frames are its own, in the flow syntax; several times for several rules
    #[arg(long, value_name = "MATCH")]
    mapping: Vec<String>,
    /// What a frame without a rule gets, as actions
    #[arg(long, value_name = "ACTIONS")]
    default: Option<String>,
    /// Its slow-path program: forward, learning, reflector or sink (balancer, bng, firewall, nat, router: by a file)
    #[arg(long)]
    program: Option<String>,
    /// A channel of its own
    #[arg(long)]
    channel: Option<u8>,
    /// Of several workers the one that does it, counted from 0
    #[arg(long, value_name = "K")]
    worker: Option<u8>,
    /// Where it lives: fast or slow
    #[arg(long)]
    path: Option<String>,
    /// TCAM entries reserved for its rules
    #[arg(long, value_name = "N")]
    tcam_entries: Option<u32>,
    /// TCAM entries that its rules may not exceed
    #[arg(long, value_name = "N")]
    tcam_limit_entries: Option<u32>,
    /// Guaranteed part of the worker's cycles, in thousandths
    #[arg(long, value_name = "N")]
    cpu_permille: Option<u16>,
    /// Its share of a port: PORT:KEY=N,... with guarantee_bps, ceiling_bps, weight, queue_frames, max_delay_us
    #[arg(long, value_name = "SHARE")]
    share: Vec<String>,
}

#[derive(Debug, clap::Subcommand)]
enum Rule {
    /// Add a rule, or give the one with the same match and priority other actions
    Add {
        /// Which VDP, by number or name
        vdp: String,
        /// The rule in Open vSwitch's flow syntax
        flow: String,
        /// fast: in the TCAM or refused; slow; spill: slow when the TCAM is full
        #[arg(long, default_value = "fast")]
        placement: String,
    },
    /// Remove a rule
    Del {
        /// Which VDP, by number or name
        vdp: String,
        /// Its table, priority and match in the flow syntax
        flow: String,
    },
}

#[derive(Debug, clap::Subcommand)]
enum Mapping {
    /// Add a mapping rule
    Add {
        /// Which VDP, by number or name
        vdp: String,
        /// Which frames, in the flow syntax, with the data plane's port names
        #[arg(value_name = "MATCH")]
        matcher: String,
        /// Larger wins
        #[arg(long, default_value_t = 32768)]
        priority: u32,
    },
    /// Remove a mapping rule
    Del {
        /// Which VDP, by number or name
        vdp: String,
        /// Its match
        #[arg(value_name = "MATCH")]
        matcher: String,
        /// Its priority
        #[arg(long, default_value_t = 32768)]
        priority: u32,
    },
}

/// Runs it.
pub fn run(args: &Args) -> Result<()> {
    args.to.change(&match &args.what {
        What::Create { file: Some(path), .. } => {
            let toml =
                std::fs::read_to_string(path).map_err(|e| fault::file(path.display(), &e))?;
            Request::VdpCreate { toml, file: Some(path.display().to_string()) }
        }
        What::Create { vid, of, .. } => {
            let vid = vid.unwrap_or_default();
            let toml = format!("[[vdp]]\nvid = {vid}\n{}", section(of)?);
            Request::VdpCreate { toml, file: None }
        }
        What::Set { vdp, of } => {
            let toml = section(of)?;
            if toml.is_empty() {
                return Err(bad_input("nothing to set: give an option, see 'weir vdp set --help'"));
            }
            Request::VdpSet { vdp: vdp.clone(), toml }
        }
        What::Delete { vdp } => Request::VdpDelete { vdp: vdp.clone() },
        What::Migrate { vdp, to } => Request::VdpMigrate { vdp: vdp.clone(), to: to.clone() },
        What::Rule(Rule::Add { vdp, flow, placement }) => Request::RuleAdd {
            vdp: vdp.clone(),
            flow: flow.clone(),
            placement: Some(placement.clone()),
        },
        What::Rule(Rule::Del { vdp, flow }) => {
            Request::RuleDel { vdp: vdp.clone(), flow: flow.clone() }
        }
        What::Mapping(Mapping::Add { vdp, matcher, priority }) => {
            Request::MappingAdd { vdp: vdp.clone(), matcher: matcher.clone(), priority: *priority }
        }
        What::Mapping(Mapping::Del { vdp, matcher, priority }) => {
            Request::MappingDel { vdp: vdp.clone(), matcher: matcher.clone(), priority: *priority }
        }
    })
}

/// A text as TOML writes it.
fn quoted(text: &str) -> String {
    toml::Value::String(text.to_owned()).to_string()
}

/// The options as lines of a `[[vdp]]` section.
fn section(of: &Of) -> Result<String> {
    let mut out = String::new();
    for (key, value) in
        [("name", &of.name), ("default", &of.default), ("program", &of.program), ("path", &of.path)]
    {
        if let Some(v) = value {
            writeln!(out, "{key} = {}", quoted(v))?;
        }
    }
    let numbers = [
        ("channel", of.channel.map(u32::from)),
        ("worker", of.worker.map(u32::from)),
        ("tcam_entries", of.tcam_entries),
        ("tcam_limit_entries", of.tcam_limit_entries),
        ("cpu_permille", of.cpu_permille.map(u32::from)),
    ];
    for (key, value) in numbers {
        if let Some(v) = value {
            writeln!(out, "{key} = {v}")?;
        }
    }
    if !of.ports.is_empty() {
        writeln!(out, "ports = {}", ports(&of.ports)?)?;
    }
    if !of.mapping.is_empty() {
        let list: Vec<String> = of.mapping.iter().map(|m| quoted(m)).collect();
        writeln!(out, "mapping = [{}]", list.join(", "))?;
    }
    for share in &of.share {
        let (port, rest) = share.split_once(':').ok_or_else(|| {
            bad_input(format!("--share {share}: PORT:KEY=N, as in lan:ceiling_bps=100000000"))
        })?;
        writeln!(out, "[[vdp.share]]\nport = {}", quoted(port))?;
        for pair in rest.split(',') {
            let (key, value) = pair
                .split_once('=')
                .filter(|(_, v)| v.parse::<u64>().is_ok())
                .ok_or_else(|| bad_input(format!("--share {share}: '{pair}' is not KEY=N")))?;
            writeln!(out, "{} = {value}", quoted(key))?;
        }
    }
    Ok(out)
}

/// Ports as TOML: a list, or a table where numbers are given.
fn ports(given: &[String]) -> Result<String> {
    if given.iter().all(|p| !p.contains('=')) {
        let list: Vec<String> = given.iter().map(|p| quoted(p)).collect();
        return Ok(format!("[{}]", list.join(", ")));
    }
    let mut list = Vec::new();
    for p in given {
        let (name, no) = p
            .split_once('=')
            .filter(|(_, no)| no.parse::<u32>().is_ok())
            .ok_or_else(|| bad_input(format!("--ports: '{p}' is not NAME=NUMBER")))?;
        list.push(format!("{} = {no}", quoted(name)));
    }
    Ok(format!("{{ {} }}", list.join(", ")))
}
