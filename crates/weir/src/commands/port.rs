//! `weir port`: ports of a running data plane.
//!
//! Room: the client's side of the control socket.

use super::columns::Columns;
use super::say::{put, say};
use super::stats::{Stats, state};
use crate::config::read::beside;
use crate::environment::Envelope;
use crate::fault::bad_input;
use crate::socket::client::Where;
use crate::socket::protocol::Request;
use anyhow::Result;
use weir_io::open::PortSpec;
use weir_supervisor::plan::shown;

/// Arguments of `weir port`.
#[derive(Debug, clap::Args)]
#[command(
    about = "Add, remove and list ports of a running data plane",
    long_about = "Adds, removes and lists ports of a running data plane. What runs on changes at \
                  once; the configuration file does not, and a reload makes the ports what the \
                  file says again.\n\n\
                  A VDP that names a port which is removed keeps the name: when a port of that \
                  name comes back, the VDP has it again, under the same number and with the same \
                  rules.",
    after_long_help = "Examples:\n  \
                       weir port list\n  \
                       weir port add lan veth0              AF_XDP, else AF_PACKET\n  \
                       weir port add uplink af_packet:eth1\n  \
                       weir port add probe pcap-out:out.pcapng\n  \
                       weir port remove lan"
)]
pub struct Args {
    #[command(flatten)]
    to: Where,
    #[command(subcommand)]
    what: What,
}

#[derive(Debug, clap::Subcommand)]
enum What {
    /// Open a port
    Add {
        /// Its name
        name: String,
        /// An interface, or KIND:NAME (af_packet, xdp, xdp-native, xdp-generic, xdp-shortcut, tap,
        /// pcap, replay, pcap-out, memory, vxlan, null)
        device: String,
    },
    /// Close a port; frames that wait there are dropped and counted
    Remove {
        /// Its name
        name: String,
    },
    /// List the ports
    List {
        /// As JSON
        #[arg(long)]
        json: bool,
    },
}

/// Runs it.
pub fn run(args: &Args) -> Result<()> {
    match &args.what {
        What::Add { name, device } => {
            let mut spec: PortSpec = device.parse().map_err(bad_input)?;
            // The daemon works in another folder.
            beside(&mut spec, &std::env::current_dir()?);
            let device = spec.to_string();
            args.to.change(&Request::PortAdd { name: name.clone(), device })
        }
        What::Remove { name } => args.to.change(&Request::PortRemove { name: name.clone() }),
        What::List { json } => {
            let mut ports = Stats::of(args.to.ask(&Request::Stats {})?.0).ports;
            // What those that were removed have counted is no port.
            ports.retain(|p| p.number != 0);
            if *json {
                return say(serde_json::to_string_pretty(&Envelope::new("ports", ports))?);
            }
            let mut c = Columns::new(&["port", "number", "device", "state", "note"]);
            for p in ports {
                let state = state(&p).to_owned();
                let note = p.fault.unwrap_or_default();
                c.row(vec![p.name, p.number.to_string(), shown(&p.device).to_owned(), state, note]);
            }
            put(c.text())
        }
    }
}
