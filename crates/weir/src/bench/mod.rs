//! `weir bench`: the program's own speed.

mod bare;
mod callgrind;
mod dataplane;
mod functions;
mod openflow;
pub mod rig;
mod scaling;
mod slicer;
mod verify;
mod workers;

use clap::Subcommand;
use clap::builder::RangedU64ValueParser;

/// How often something may be measured.
fn repeats() -> RangedU64ValueParser<usize> {
    RangedU64ValueParser::new().range(1..=10_000)
}

/// What to measure.
#[derive(Debug, Subcommand)]
#[command(after_long_help = "Examples:\n  \
                       weir bench dataplane --rules rules.txt --trace capture.pcap\n  \
                       weir bench functions --profile virtual-xeon --only l2-basic\n  \
                       weir bench callgrind --function l2-basic --frames 4096\n  \
                       weir bench openflow --target 127.0.0.1:16631\n  \
                       weir bench slicer --only memory\n  \
                       weir bench verify\n\n\
                       'bench openflow' needs a switch there: 'weir run labs/openflow.toml' is one.")]
pub enum Bench {
    /// The five stages from memory: a capture through rules, one core
    Dataplane(dataplane::Args),
    /// Network functions from memory, beside their estimates by a profile
    Functions(functions::Args),
    /// A fixed number of a function's frames, to be run under callgrind: prints how many they were
    Callgrind(callgrind::Args),
    Openflow(openflow::Args),
    Slicer(slicer::Args),
    /// Proof of isolation: all networks at once, and one changed rule
    Verify(verify::Args),
}

/// Runs a benchmark.
pub fn run(b: Bench) -> anyhow::Result<()> {
    match b {
        Bench::Dataplane(a) => dataplane::run(&a),
        Bench::Functions(a) => functions::run(&a),
        Bench::Callgrind(a) => callgrind::run(&a),
        Bench::Openflow(a) => openflow::run(&a),
        Bench::Slicer(a) => slicer::run(&a),
        Bench::Verify(a) => verify::run(&a),
    }
}
