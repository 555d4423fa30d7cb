//! `weir trace`: one frame, its way through the stages, and why.
//!
//! - `setup`: a data plane made for this one frame, its ports in memory;
//! - `given`: the frame, from hex or a capture; - `told`: the way, as data and JSON;
//! - `change`: what differs between two frames; - `words`: the same for people.
//!
//! The way itself is `weir_dataplane::trace`'s, which changes nothing. What a slow-path program
//! does can only be seen by letting it: where the way ends at one, the frame is put in for real, and
//! what left is shown.

mod change;
mod given;
mod setup;
mod told;
mod words;

use super::say::put;
use super::style::Style;
use crate::environment::Envelope;
use crate::fault::bad_input;
use anyhow::Result;
use std::path::PathBuf;

/// Arguments.
#[derive(Debug, clap::Args)]
#[command(
    group(clap::ArgGroup::new("given").required(true).args(["frame", "pcap"])),
    group(clap::ArgGroup::new("by").required(true).args(["config", "rules"])),
    after_long_help = "Examples:\n  \
        weir trace labs/two-tenants.toml --in-port lan1 --pcap capture.pcap:7\n  \
        weir trace --rules rules.txt --in-port 1 --frame '020000000002 020000000001 0800 …'\n\n\
        Nothing real is opened or sent. Exit status: 0 told, whatever became of the frame; 2 the \
        files or the arguments are wrong."
)]
pub struct Args {
    /// The data plane of this configuration, its ports in memory
    #[arg(value_name = "CONFIG.toml")]
    config: Option<PathBuf>,
    /// One VDP with these rules instead, in Open vSwitch's flow syntax
    #[arg(long, value_name = "FILE")]
    rules: Option<PathBuf>,
    /// With --rules, the slow-path program: what no rule takes, and NORMAL, go there
    #[arg(long, value_name = "NAME", requires = "rules", conflicts_with = "config")]
    program: Option<String>,
    /// The port by which the frame comes in: its name, or its number in the configuration's order;
    /// with --rules its number there
    #[arg(long, value_name = "PORT", default_value = "1")]
    in_port: String,
    /// The frame, Ethernet header first, no FCS: hex digits; blanks, colons, dots don't matter
    #[arg(long, value_name = "HEX")]
    frame: Option<String>,
    /// A frame of this capture: the first, or the N-th
    #[arg(long, value_name = "FILE[:N]")]
    pcap: Option<String>,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

/// Runs it.
pub fn run(a: &Args) -> Result<()> {
    let frame = match (&a.frame, &a.pcap) {
        (Some(hex), _) => given::from_hex(hex)?,
        (None, Some(pcap)) => given::from_capture(pcap)?,
        (None, None) => return Err(bad_input("give the frame by --frame or --pcap")),
    };
    let mut setup = match (&a.config, &a.rules) {
        (_, Some(rules)) => {
            let no = a.in_port.parse().map_err(|_| {
                bad_input(format!("--in-port {}: with --rules ports are numbers", a.in_port))
            })?;
            setup::from_rules(rules, no, a.program.as_deref())?
        }
        (Some(config), None) => setup::from_config(config, &a.in_port)?,
        (None, None) => return Err(bad_input("give a configuration, or rules by --rules")),
    };
    let told = told::tell(&mut setup, &frame)?;
    put(if a.json {
        format!("{}\n", serde_json::to_string(&Envelope::new("trace", &told))?)
    } else {
        words::show(Style::of_stdout(), &told)
    })
}
