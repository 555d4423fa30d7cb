//! `weir estimate`: what a network function will sustain, before it is deployed.
//!
//! Room: arguments, files, output; the arithmetic is `weir-estimate`'s.

pub mod ask;
mod capture;
mod chain;
mod explain;
mod json;
mod list;
mod picture;
mod refine;
pub mod say;
pub mod shelf;
mod sweep;

use anyhow::Result;
use std::path::{Path, PathBuf};

/// What to estimate.
#[derive(Debug, clap::Args)]
#[command(
    args_conflicts_with_subcommands = true,
    after_help = "Examples:\n  \
        weir estimate l2-basic --profile xeon-e5-2690v2 --mode paper\n  \
        weir estimate bng --profile xeon-e5-2690v2 --frame 78 --cores 6 --explain\n  \
        weir estimate list"
)]
pub struct Args {
    #[command(subcommand)]
    verb: Option<Verb>,
    #[command(flatten)]
    ask: ask::AskArgs,
}

#[derive(Debug, clap::Subcommand)]
enum Verb {
    /// The network functions, profiles and operations there are
    List(list::Args),
    /// One question over values of anything: a table, CSV, JSON, a picture
    Sweep(sweep::Args),
    /// Measurements of running functions correct a profile
    Refine(refine::Args),
    /// A chain of virtual functions: the virtual switch, channels and CPUs they share
    Chain(chain::Args),
}

/// Where models and operations come from, beside those that come along.
#[derive(Clone, Debug, Default, clap::Args)]
pub struct Files {
    /// A model to know, too; may be given more than once
    #[arg(long = "model", value_name = "FILE")]
    models: Vec<PathBuf>,
    /// Elementary operations to know, too
    #[arg(long, value_name = "FILE")]
    operations: Option<PathBuf>,
}

impl Files {
    /// Those that are read.
    fn paths(&self) -> impl Iterator<Item = &Path> {
        self.models.iter().chain(&self.operations).map(PathBuf::as_path)
    }
}

/// Does it.
pub fn run(args: &Args) -> Result<()> {
    match &args.verb {
        Some(Verb::List(a)) => list::run(a),
        Some(Verb::Sweep(a)) => sweep::run(a),
        Some(Verb::Refine(a)) => refine::run(a),
        Some(Verb::Chain(a)) => chain::run(a),
        None => ask::run(&args.ask),
    }
}
