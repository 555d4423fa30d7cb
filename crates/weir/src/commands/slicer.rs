//! `weir slicer`: shares foreign OpenFlow switches between controllers.
//!
//! Room: arguments, signals and what is printed; the slicer is `crate::slicer`'s and `weir_supervisor`'s.

use super::log_writer;
use super::say::{complain, say, tell};
use crate::config;
use crate::config::slicer::SlicerPlan;
use crate::fault::bad_input;
use crate::slicer::fvctl::Document;
use crate::slicer::journal::Journal;
use crate::slicer::service::{self, Order, Shim};
use anyhow::{Context, Result};
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use signal_hook::iterator::Signals;
use std::path::{Path, PathBuf};
use tokio::sync::{mpsc, oneshot};

/// Arguments of `weir slicer`.
#[derive(Debug, clap::Args)]
#[command(
    about = "Share a foreign OpenFlow switch between controllers",
    long_about = "Stands between OpenFlow switches (1.0 and 1.3) that are not weir's and several \
                  controllers, each of which sees a switch of its own: its ports, its headers, its \
                  tables, groups and meters, and nothing of the others'. docs/guide/slicer.md \
                  describes the configuration's keys.\n\n\
                  It runs until SIGINT or SIGTERM. SIGHUP reads the file again and gives slices \
                  and flow space to the switches that are there, at once: what no longer is a \
                  slice's goes before anybody has it, and what does not differ is not touched. \
                  A file with a mistake changes nothing.",
    after_long_help = "Examples:\n  \
                       weir slicer slices.toml\n  \
                       weir slicer --check slices.toml\n\n\
                       Exit status: 0 stopped as asked, 1 the work failed, 2 the configuration or \
                       the arguments are wrong."
)]
pub struct Args {
    /// Slices, their controllers, and the flow space
    #[arg(value_name = "CONFIG.toml")]
    config: PathBuf,
    /// Only read the configuration and the files that it names, and say what is wrong with them
    #[arg(long)]
    check: bool,
    #[command(flatten)]
    log: log_writer::Log,
}

/// Runs it.
pub fn run(args: &Args) -> Result<()> {
    let plan = config::slicer::load(&args.config).map_err(bad_input)?;
    let (plan, document) = changed(plan, &args.config)?;
    if args.check {
        if let Some(path) = &plan.remember {
            Journal::check(path).map_err(bad_input)?;
        }
        let (slices, rules) = (plan.tenants.len(), plan.rules.len());
        return say(format_args!("{slices} slices, {rules} rules of the flow space"));
    }
    log_writer::start(args.log)?;
    let mut signals = Signals::new([SIGINT, SIGTERM, SIGHUP]).context("taking signals")?;
    let (stop, stopped) = oneshot::channel::<()>();
    let (to, orders) = mpsc::channel(16);
    let path = args.config.clone();
    let api = plan.api.clone().zip(document);
    let shim = api.map(|(plan, document)| Shim { plan, document, orders: to.clone() });
    std::thread::Builder::new().name("weir-signals".to_owned()).spawn(move || {
        for signal in signals.forever() {
            match signal {
                SIGHUP => match reload(&path, &to) {
                    Ok(told) => tell(format_args!("reload: {told}")),
                    Err(e) => complain(format_args!("reload: {e}; nothing has changed")),
                },
                _ => break,
            }
        }
        // Whoever waited may have ended.
        let _ = stop.send(());
    })?;
    let told = |what: &str, at| tell(format_args!("{what}: listening at {at}"));
    service::run(plan, told, orders, shim, async {
        let _ = stopped.await;
    })
}

/// What FlowVisor's names change, where the file asks for them; slices and flow space are those that were
/// changed by them before.
fn changed(plan: SlicerPlan, path: &Path) -> Result<(SlicerPlan, Option<Document>)> {
    let Some(api) = &plan.api else { return Ok((plan, None)) };
    let text = config::read::read_file(path).map_err(bad_input)?;
    let base = path.parent().unwrap_or(Path::new(""));
    let document = Document::new(&text, base, api.state.clone())?;
    let plan = document.plan().map_err(|e| bad_input(e.text))?;
    Ok((plan, Some(document)))
}

/// Reads the file again, and has the running slicer become what it says.
fn reload(path: &Path, to: &mpsc::Sender<Order>) -> Result<String, String> {
    let plan = config::slicer::load(path).map_err(|e| e.to_string())?;
    if plan.api.is_some() {
        let text = "slices and flow space are changed by requests, where the file has [api]";
        return Err(text.to_owned());
    }
    let (slices, rules) = (plan.tenants.len(), plan.rules.len());
    let (done, answer) = oneshot::channel();
    let gone = |_| "the slicer has ended".to_owned();
    to.blocking_send(Order::Become(Box::new(plan), done)).map_err(|e| gone(e.to_string()))?;
    answer.blocking_recv().map_err(|e| gone(e.to_string()))??;
    Ok(format!("{slices} slices, {rules} rules of the flow space"))
}
