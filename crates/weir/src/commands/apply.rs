//! `weir apply`: makes the running networks what a file says.
//!
//! Room: arguments and output; `crate::net` does it.

use super::net::{Kept, report};
use super::say::say;
use crate::net::change::{Verify, prepare};
use crate::net::lab::{LabFile, checked_whole};
use anyhow::Result;
use std::path::PathBuf;

/// Arguments of `weir apply`.
#[derive(Debug, clap::Args)]
#[command(
    about = "Make the running virtual networks what a file says",
    long_about = "Makes the running virtual networks what a LAB file says, on the physical nodes that it \
                  names: what is missing is made, what differs is changed, what the file does not \
                  name is deleted. Said twice, it does nothing the second time.\n\n\
                  The whole file is checked, every node is asked what it has, and the change is \
                  refused whole, with the reason, before anything is touched. A step that a node \
                  refuses all the same is undone together with those before it. One that was \
                  killed is finished by the next 'weir apply', or by 'weir net recover'; forwarding \
                  goes on meanwhile. docs/guide/networks.md describes the file.",
    after_long_help = "Examples:\n  \
                       weir apply --dry-run labs/networks.toml\n  \
                       weir apply labs/networks.toml\n\n\
                       Exit status: 0 it holds, 1 the work failed, 2 the file is wrong or can't be \
                       carried."
)]
pub struct Args {
    /// What shall be
    #[arg(value_name = "LAB.toml")]
    lab: PathBuf,
    /// Only say what would be done
    #[arg(long)]
    dry_run: bool,
    #[command(flatten)]
    kept: Kept,
}

/// Runs it.
pub fn run(args: &Args) -> Result<()> {
    let file = LabFile::load(&args.lab)?;
    checked_whole(&file.lab, Some(&file))?;
    let keeper = args.kept.open()?;
    let saved = keeper.saved.clone();
    // Who only wants to know keeps nobody from changing something meanwhile.
    let keeper = (!args.dry_run).then_some(keeper);
    let prepared = prepare(&saved, file.lab.clone(), Some(&file), Verify::AsTheLabSays)?;
    report(&prepared)?;
    if prepared.is_done(&saved) {
        let n = saved.state.revision;
        return say(format_args!("nothing differs; revision {n} holds"));
    }
    let Some(mut keeper) = keeper else { return say(format_args!("nothing was touched")) };
    keeper.make(prepared)?;
    say(format_args!("done; revision {} holds", keeper.saved.state.revision))
}
