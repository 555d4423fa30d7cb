//! `weir measure list | run | suite`: what an OpenFlow switch really does.
//!
//! Room: arguments, files and a summary. Everything else is `weir_measure`'s engine and its modules.
//!
//! - `given`: the module and its parameters. `device`: the switches that are meant; `lab` makes one where
//!   none is at hand, `target` is the way to one, by TLS where `secure` is; `agent` is its SNMP agent.
//! - `claim`: that nobody else measures the same meanwhile.
//! - `reset`: a switch's reset, by a command or of a lab's process.
//! - `flows`: the flows of the user's switch, in a file meanwhile.
//! - `one`: one module on one switch, for `run`, `suite` and the studies.

mod agent;
mod claim;
pub mod device;
mod floor;
mod flows;
mod given;
mod held;
pub mod kept;
pub mod lab;
mod list;
pub mod one;
mod reset;
mod run;
mod secure;
mod suite;
mod target;
mod wires;

use anyhow::Result;
use std::path::PathBuf;

/// What to do.
#[derive(Debug, clap::Subcommand)]
#[command(after_long_help = "Examples:\n  \
                       weir measure list flow-insert\n  \
                       weir measure run flow-insert --lab weir,early-barrier --quick --out results\n  \
                       weir measure run echo --switch tcp:192.0.2.7:6653\n  \
                       weir measure suite --lab weir --only echo,packet-out --quick --out results")]
pub enum Args {
    /// The modules there are, with their parameters
    List {
        /// Only this one; or a script, or a directory of scripts
        #[arg(value_name = "MODULE|FILE.rhai|DIR")]
        module: Option<String>,
        /// Print JSON
        #[arg(long)]
        json: bool,
    },
    Run(Box<RunArgs>),
    Suite(Box<suite::SuiteArgs>),
}

/// Which switch, and how to speak to it.
#[derive(Debug, clap::Args)]
pub struct SwitchArgs {
    /// Where the switch is: tcp:HOST:PORT to connect; ptcp:PORT, or ptcp:PORT:HOST, to wait for it; with
    /// TLS tls: and ptls:
    #[arg(long, value_name = "ADDRESS")]
    switch: Option<String>,
    #[command(flatten)]
    tls: secure::TlsArgs,
    /// The interfaces that are wired to the switch, by AF_PACKET with the kernel's stamps; 'xdp:IF' by AF_XDP
    /// with the program's; 'pktgen:IF' by AF_PACKET, counted loads by the kernel's packet generator
    #[arg(long, value_name = "IF,IF", value_delimiter = ',')]
    ports: Vec<String>,
    /// The switch's port numbers behind them, to be checked; found by themselves otherwise
    #[arg(long, value_name = "N,N", value_delimiter = ',')]
    of_ports: Vec<u32>,
    /// Interfaces wired to each other, whose delay is reported beside the result; without, a pair of veths is
    /// made for that
    #[arg(long, value_name = "IF,IF", value_delimiter = ',')]
    wire: Vec<String>,
    /// What data traffic is like: a TOML file, or its text, such as 'times = "poisson"'
    #[arg(long, value_name = "FILE|TEXT")]
    traffic: Option<String>,
    /// Make switches to measure: 'ovs', 'weir', or profiles of 'weir dut'
    #[arg(
        long,
        value_name = "KIND,…",
        value_delimiter = ',',
        conflicts_with_all = ["switch", "ports", "of_ports"]
    )]
    lab: Vec<String>,
    /// Read the switch's CPU and counters by SNMP: its agent (v2c, with the community in
    /// WEIR_SNMP_COMMUNITY, or 'public'), or a TOML file that says how (v2c and v3)
    #[arg(long, value_name = "HOST[:PORT]|FILE.toml", conflicts_with = "lab")]
    snmp: Option<String>,
    /// Resets the switch: a command of the shell that ends when it has been reset, for 'rfc2544'. Labs reset theirs
    /// by themselves
    #[arg(long, value_name = "COMMAND", conflicts_with = "lab")]
    reset_command: Option<String>,
    /// OpenFlow version: '1.0', '1.3', or the highest that both speak
    #[arg(long, value_name = "VERSION", default_value = "any")]
    openflow: String,
    /// How long an answer of the switch may take, in seconds
    #[arg(long, value_name = "S", default_value_t = 10.0)]
    patience: f64,
    /// What to call the switch in reports
    #[arg(long, value_name = "NAME")]
    name: Option<String>,
}

/// Which module, on which switch.
#[derive(Debug, clap::Args)]
#[command(
    about = "Run one, on one switch or on several",
    long_about = "Measures an OpenFlow switch, from its control channel and its ports at once.\n\n\
    The switch is reached by '--switch' and '--ports', or made here by '--lab': Open vSwitch's \
    user-space data path, weir itself, or a device with known faults (a profile of 'weir dut --list', \
    or a file), in network namespaces that are gone afterwards. Several labs are measured one after \
    the other and laid side by side.\n\n\
    Before measuring, the switch's flows are noted and its table is emptied; afterwards, also after \
    an interruption, they are put back. Until then those of your own switch are in a file, \
    MODULE-DEVICE.flows.txt."
)]
pub struct RunArgs {
    /// Which module ('weir measure list' lists them), or a script of your own
    #[arg(value_name = "MODULE|FILE.rhai")]
    module: String,
    #[command(flatten)]
    switch: SwitchArgs,
    /// A parameter of the module
    #[arg(long, value_name = "KEY=VALUE")]
    set: Vec<String>,
    /// A TOML file with a table of parameters for each module
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,
    /// Short: to see that it works, not for figures
    #[arg(long)]
    quick: bool,
    /// Save the control conversation, for tshark
    #[arg(long, value_name = "FILE")]
    pcap: Option<PathBuf>,
    /// Save the frames of each data channel there: IF.in.pcapng, with the stamps that are measured by, and
    /// IF.out.pcapng
    #[arg(long, value_name = "DIR")]
    capture: Option<PathBuf>,
    /// Print the result as JSON
    #[arg(long)]
    json: bool,
    /// Write the result, with its samples beside it, into this directory; of several switches also a
    /// report
    #[arg(long, value_name = "DIR")]
    out: Option<PathBuf>,
}

/// Does it.
pub fn run(args: &Args) -> Result<()> {
    flows::told_last(match args {
        Args::List { module, json } => list::run(module.as_deref(), *json),
        Args::Run(a) => run::run(a),
        Args::Suite(a) => suite::run(a),
    })
}
