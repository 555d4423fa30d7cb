//! `weir net`: virtual networks: instantiate, delete, migrate, set, monitor (003 §2.1), and proof of
//! isolation.
//!
//! Room: arguments and output; `crate::net` does it.

mod edit;
pub mod ends;
pub mod links;
mod list;
mod looking;
mod monitor;
mod verify;

use super::say::{put, say};
use crate::net::change::{Keeper, Prepared, Way};
use crate::net::diff::told;
use crate::net::store::default_path;
use anyhow::Result;
use std::fmt::Write;
use std::path::PathBuf;

/// Virtual networks: instantiate, delete, migrate, set, monitor
#[derive(Debug, clap::Subcommand)]
#[command(
    after_long_help = "Examples, with 'weir run labs/node.toml' running and 'weir apply labs/networks.toml' done:\n  \
                       weir net list\n  \
                       weir net show red\n  \
                       weir net set red s1 cpu_permille=200\n  \
                       weir net migrate blue s1 --path slow\n  \
                       weir net monitor --count 3\n  \
                       weir net delete guest"
)]
pub enum Args {
    Create(edit::Create),
    Delete(edit::Delete),
    List(list::List),
    Show(list::Show),
    Set(edit::Set),
    Migrate(edit::Migrate),
    Monitor(monitor::Args),
    Recover(Recover),
    Verify(verify::Args),
}

/// Where networks are kept.
#[derive(Clone, Debug, clap::Args)]
pub struct Kept {
    /// Store of networks [default: $XDG_STATE_HOME/weir/net.redb, else ~/.local/state/weir/net.redb]
    #[arg(long, value_name = "PATH")]
    store: Option<PathBuf>,
}

impl Kept {
    /// Opens it.
    pub fn open(&self) -> Result<Keeper> {
        Keeper::open(&self.store.clone().unwrap_or_else(default_path))
    }
}

/// How something is printed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, clap::ValueEnum)]
enum Output {
    /// For people
    #[default]
    Table,
    /// For programs
    Json,
    /// As in a LAB file
    Toml,
}

/// How it is printed, by either word for it.
#[derive(Clone, Copy, Debug, clap::Args)]
struct Printed {
    /// How it is printed
    #[arg(short, long, value_enum, default_value_t)]
    output: Output,
    /// As JSON, as by -o json
    #[arg(long, conflicts_with = "output")]
    json: bool,
}

impl Printed {
    fn output(self) -> Output {
        if self.json { Output::Json } else { self.output }
    }
}

/// Finish a change that was interrupted, or undo it
#[derive(Debug, clap::Args)]
pub struct Recover {
    /// Undo it
    #[arg(long)]
    back: bool,
    #[command(flatten)]
    kept: Kept,
}

/// Runs it.
pub fn run(args: &Args) -> Result<()> {
    match args {
        Args::Create(a) => edit::create(a),
        Args::Delete(a) => edit::delete(a),
        Args::List(a) => list::list(a),
        Args::Show(a) => list::show(a),
        Args::Set(a) => edit::set(a),
        Args::Migrate(a) => edit::migrate(a),
        Args::Monitor(a) => monitor::run(a),
        Args::Recover(a) => recover(a),
        Args::Verify(a) => verify::run(a),
    }
}

fn recover(args: &Recover) -> Result<()> {
    let mut keeper = args.kept.open()?;
    let done = keeper.recover(if args.back { Way::Back } else { Way::On })?;
    let n = keeper.saved.state.revision;
    match done {
        None => say(format_args!("no change was interrupted; revision {n} holds")),
        Some(led) => {
            led.missed.iter().try_for_each(say)?;
            say(format_args!("{} steps; revision {n} holds", led.steps))
        }
    }
}

/// Prints what a prepared change does, as a diff.
pub fn report(p: &Prepared) -> Result<()> {
    let mut out = String::new();
    for s in told(p) {
        writeln!(out, "{}", s.line)?;
        for (sign, lines) in [('-', &s.removed), ('+', &s.added)] {
            for l in lines {
                writeln!(out, "    {sign} {l}")?;
            }
        }
    }
    put(out)
}
