//! `weir dut`: a device under test with known faults, on real ports or in memory.
//!
//! Room: arguments, files and what is printed; the device is `weir_measure::dut`'s.

use super::log_writer;
use super::measure::device::once;
use super::say::{complain, say, tell};
use crate::fault::{self, bad_input};
use anyhow::{Context, Result};
use serde::Serialize;
use signal_hook::consts::{SIGINT, SIGTERM};
use signal_hook::iterator::Signals;
use std::io::Read;
use std::net::{SocketAddr, ToSocketAddrs};
use weir_io::af_xdp::Umem;
use weir_io::{Kind, PortSpec};
use weir_measure::dut::Dut;
use weir_measure::dut::profile::{BUILTIN, Fault, Profile};
use weir_measure::dut::serve::{self, Control, Doors};
use weir_measure::port::Port;
use weir_packet::{Nanos, Pool};

/// Arguments of `weir dut`.
#[derive(Debug, clap::Args)]
#[command(
    about = "A device under test with known faults",
    long_about = "An OpenFlow switch (1.0 and 1.3) that does wrong what its profile says, and \
                  nothing else: by it a measurement is judged. Profiles come along ('--list'), or \
                  are files of your own; docs/guide/dut.md describes their keys.\n\n\
                  It runs until SIGINT or SIGTERM.",
    after_long_help = "Examples:\n  \
                       weir dut --profile honest --listen 127.0.0.1:6653 --ports veth0,veth1\n  \
                       weir dut --profile early-barrier --print-truth\n  \
                       weir dut --profile my-switch.toml --controller 127.0.0.1:6633 --ports a,b\n\n\
                       Exit status: 0 stopped as asked, 1 the work failed, 2 the profile or the \
                       arguments are wrong."
)]
pub struct Args {
    /// What it does wrong: a profile's name, or a TOML file
    #[arg(long, default_value = "honest", value_name = "NAME|FILE.toml")]
    profile: String,
    /// Where controllers connect
    #[arg(
        long,
        default_value = "127.0.0.1:6653",
        value_name = "HOST:PORT",
        conflicts_with = "controller"
    )]
    listen: String,
    /// Connect to this controller instead
    #[arg(long, value_name = "HOST:PORT")]
    controller: Option<String>,
    /// Answer SNMP (version 2c, any community) there
    #[arg(long, value_name = "HOST:PORT")]
    snmp: Option<String>,
    /// Its ports, numbered from 1: interfaces (by AF_PACKET), or KIND:NAME as in 'pcap-out:out.pcap'
    #[arg(long, value_delimiter = ',', value_name = "PORT,PORT,…")]
    ports: Vec<String>,
    /// Only print the profile and its faults, as JSON
    #[arg(long)]
    print_truth: bool,
    /// Only list the profiles that come along
    #[arg(long, conflicts_with = "print_truth")]
    list: bool,
    #[command(flatten)]
    log: log_writer::Log,
}

/// Chunks of a port's pool: bursts in and out, and what a device keeps.
const FRAMES: usize = 1024;

/// The longest profile, in bytes.
const PROFILE_MAX: u64 = 1 << 20;

/// Runs it.
pub fn run(args: &Args) -> Result<()> {
    if args.list {
        for (name, _) in BUILTIN {
            let p = Profile::builtin(name).map_err(bad_input)?;
            say(format_args!("{:<20} {}", p.name, p.about))?;
        }
        return Ok(());
    }
    let profile = load(&args.profile)?;
    if args.print_truth {
        let truth = Truth { faults: profile.faults(), profile: &profile };
        return say(serde_json::to_string_pretty(&truth)?);
    }
    let control = match &args.controller {
        Some(c) => Control::Connect(address("--controller", c)?),
        None => Control::Listen(address("--listen", &args.listen)?),
    };
    let snmp = args.snmp.as_ref().map(|s| address("--snmp", s)).transpose()?;
    log_writer::start(args.log)?;
    let mut signals = Signals::new([SIGINT, SIGTERM]).context("taking signals")?;
    once("--ports", &args.ports)?;
    let ports = args.ports.iter().map(|p| open(p)).collect::<Result<Vec<_>>>()?;
    let names: Vec<&str> = args.ports.iter().map(String::as_str).collect();
    let faults = profile.faults();
    let about = format!("{}: {}", profile.name, profile.about);
    let dut = Dut::new(profile, &names, Nanos(0));
    let running = serve::start(dut, Doors { control, snmp }, ports, |line| complain(line))
        .with_context(|| match control {
            Control::Listen(at) => format!("listening at {at}: is the port taken?"),
            Control::Connect(to) => format!("starting for {to}"),
        })?;
    tell(about);
    for f in &faults {
        tell(format_args!("  fault {}", told(f)));
    }
    match (running.listens_at(), control) {
        (Some(at), _) => tell(format_args!("listening at {at}; {} ports", names.len())),
        (None, Control::Connect(to) | Control::Listen(to)) => {
            tell(format_args!("connecting to {to}; {} ports", names.len()));
        }
    }
    if let Some(at) = running.snmp_at() {
        tell(format_args!("SNMP at {at}"));
    }
    signals.forever().next();
    let t = running.stop();
    tell(format_args!(
        "{} frames in, {} out, {} not sent; {} connections",
        t.frames_in, t.frames_out, t.not_sent, t.connections
    ));
    let us = |n: Nanos| n.0 as f64 / 1e3;
    let late = t.late;
    if late.changes > 0 {
        tell(format_args!(
            "{} changes of the table made {:.1} µs late (median; 99th percentile {:.1}, most {:.1})",
            late.changes,
            us(late.median),
            us(late.p99),
            us(late.most)
        ));
    }
    Ok(())
}

/// What is configured, for judging what a measurement says.
#[derive(Serialize)]
struct Truth<'a> {
    faults: Vec<Fault>,
    profile: &'a Profile,
}

fn told(f: &Fault) -> String {
    match f.value {
        Some(v) => format!("{}: {} ({v} {})", f.id, f.what, f.unit),
        None => format!("{}: {}", f.id, f.what),
    }
}

/// A profile by its name, or a file: whatever looks like a path.
///
/// # Errors
/// There is none of that name, or the file is none.
pub fn load(name: &str) -> Result<Profile> {
    if !name.contains(['/', '.']) {
        return Profile::builtin(name).map_err(bad_input);
    }
    let wrong = |e: std::io::Error| fault::file(format_args!("profile {name}"), &e);
    let mut text = String::new();
    let file = std::fs::File::open(name).map_err(wrong)?;
    file.take(PROFILE_MAX + 1).read_to_string(&mut text).map_err(wrong)?;
    if text.len() as u64 > PROFILE_MAX {
        return Err(bad_input(format_args!("profile {name}: longer than {PROFILE_MAX} bytes")));
    }
    Profile::read(name, &text).map_err(bad_input)
}

fn address(option: &str, text: &str) -> Result<SocketAddr> {
    let wrong = |why: String| {
        bad_input(format_args!("{option} '{text}': {why}; it is HOST:PORT, as in 127.0.0.1:6653"))
    };
    let text = text.strip_prefix("tcp:").unwrap_or(text);
    let mut found = text.to_socket_addrs().map_err(|e| wrong(e.to_string()))?;
    found.next().ok_or_else(|| wrong("it has no address".to_owned()))
}

fn open(text: &str) -> Result<Port> {
    let mut spec: PortSpec = text.parse().map_err(bad_input)?;
    // Every frame passes through this program anyway, and AF_PACKET leaves the interface as it is.
    if spec.kind == Kind::Interface {
        spec.kind = Kind::AfPacket;
    }
    let mut pool = Pool::new(FRAMES, 2048).context("memory for frames")?;
    let opened = weir_io::open_patiently(&spec, &mut pool, &Umem::new())?;
    opened.notes.iter().for_each(complain);
    Ok(Port { device: opened.device, pool })
}
