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

use super::style::Style;
use crate::environment::Envelope;
use crate::fault::bad_input;
use anyhow::Result;
use std::path::PathBuf;

/// Arguments.
#[derive(Debug, clap::Args)]
#[command(group(clap::ArgGroup::new("given").required(true).args(["frame", "pcap"])))]
pub struct Args {
    /// One VDP with these rules, in Open vSwitch's flow syntax
    #[arg(long, value_name = "FILE")]
    rules: PathBuf,
    /// Its slow-path program: what no rule takes, and NORMAL, go there
    #[arg(long, value_name = "NAME")]
    program: Option<String>,
    /// The port by which the frame comes in, as the rules number it
    #[arg(long, value_name = "N", default_value_t = 1)]
    in_port: u32,
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
    let mut setup = setup::from_rules(&a.rules, a.in_port, a.program.as_deref())?;
    let told = told::tell(&mut setup, &frame)?;
    if a.json {
        println!("{}", serde_json::to_string(&Envelope::new("trace", &told))?);
    } else {
        print!("{}", words::show(Style::of_stdout(), &told));
    }
    Ok(())
}
