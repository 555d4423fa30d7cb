//! `weir bench callgrind`: a fixed number of a network function's frames, for counting instructions.
//!
//! Run under `valgrind --tool=callgrind` with two counts of frames; the difference is what the frames cost. What the data
//! plane's own cases cost is counted by an example of `weir-dataplane`, `instructions`.

use crate::commands::say::say;
use crate::fault::bad_input;
use crate::functions;
use anyhow::Result;
use weir_packet::{BURST, Nanos};

/// Arguments.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// The network function, as 'weir bench functions' plays it
    #[arg(long, value_name = "NF")]
    function: String,
    /// Entries of its table
    #[arg(long, value_name = "N", default_value_t = 1024)]
    entries: u32,
    /// Bytes of its frames, without FCS
    #[arg(long, value_name = "BYTES", default_value_t = 60)]
    length: usize,
    /// Frames to forward, rounded up to a whole burst
    #[arg(long, value_name = "N", default_value_t = 4096)]
    frames: usize,
}

/// Runs it.
pub fn run(a: &Args) -> Result<()> {
    let name = &a.function;
    let unknown = || bad_input(format!("--function {name}: there is no such function"));
    let f = functions::named(name).ok_or_else(unknown)?;
    if !(1..=f.most_entries()).contains(&a.entries) {
        return Err(bad_input(format!("--entries: {name} takes 1 to {}", f.most_entries())));
    }
    if !(f.least_frame()..=1514).contains(&a.length) {
        return Err(bad_input(format!("--length: {name} takes {} to 1514", f.least_frame())));
    }
    if a.frames == 0 {
        return Err(bad_input("--frames: at least 1"));
    }
    let order: Vec<u32> = (0..a.entries).collect();
    let mut plane = functions::playing(f, a.entries, &order, a.length)?.plane;
    let mut clock = 0;
    for _ in 0..a.frames.div_ceil(BURST) {
        clock += 3000;
        plane.poll(Nanos(clock));
    }
    let s = plane.snapshot();
    s.check()?;
    let n: u64 = s.ports.iter().map(|p| p.counters.rx.frames).sum();
    say(format_args!("{name} {n}"))?;
    Ok(())
}
