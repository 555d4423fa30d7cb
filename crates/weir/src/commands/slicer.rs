//! `weir slicer`: shares foreign OpenFlow switches between controllers.
//!
//! Room: arguments, signals and what is printed; the slicer is `crate::slicer`'s and `weir_supervisor`'s.

use super::say::{say, tell};
use crate::config;
use crate::fault::bad_input;
use crate::slicer::service;
use anyhow::{Context, Result};
use signal_hook::consts::{SIGINT, SIGTERM};
use signal_hook::iterator::Signals;
use std::path::PathBuf;

/// Arguments of `weir slicer`.
#[derive(Debug, clap::Args)]
#[command(
    about = "Share a foreign OpenFlow switch between controllers",
    long_about = "Stands between OpenFlow switches (1.0 and 1.3) that are not weir's and several \
                  controllers, each of which sees a switch of its own: its ports, its headers, its \
                  tables, groups and meters, and nothing of the others'. docs/guide/slicer.md \
                  describes the configuration's keys.\n\n\
                  It runs until SIGINT or SIGTERM.",
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
    /// Only read the configuration, and say what is wrong with it
    #[arg(long)]
    check: bool,
}

/// Runs it.
pub fn run(args: &Args) -> Result<()> {
    let plan = config::slicer::load(&args.config).map_err(bad_input)?;
    if args.check {
        let (slices, rules) = (plan.tenants.len(), plan.rules.len());
        return say(format_args!("{slices} slices, {rules} rules of the flow space"));
    }
    let mut signals = Signals::new([SIGINT, SIGTERM]).context("taking signals")?;
    let (stop, stopped) = tokio::sync::oneshot::channel::<()>();
    std::thread::Builder::new().name("weir-signals".to_owned()).spawn(move || {
        signals.forever().next();
        // Whoever waited may have ended.
        let _ = stop.send(());
    })?;
    let told = |what: &str, at| tell(format_args!("{what}: listening at {at}"));
    service::run(plan, told, async {
        let _ = stopped.await;
    })
}
