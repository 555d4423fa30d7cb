//! `weir`: the one binary, and the only room that knows all the others.
//!
//! Room: arguments, files, signals, wiring, reports. Exit status: 0 done, 1 the work failed, 2 bad
//! usage or bad input; one line on stderr says what, where and how to mend it.
#![forbid(unsafe_code)]
// What is printed is printed by `commands::say`, which bears a reader that goes and a disk that is full.
#![deny(clippy::print_stdout, clippy::print_stderr)]

mod bench;
mod commands;
mod config;
mod controller;
mod date;
mod environment;
mod fault;
mod functions;
mod huge_pages;
mod left;
mod namespace;
mod net;
mod openflow;
mod platform;
mod processor;
mod router;
mod serve;
mod slicer;
mod socket;
mod study;
mod usage;
mod validate;
mod verify;

use clap::{CommandFactory, Parser, Subcommand};
use commands::log_writer;
use commands::say::complain;
use std::process::ExitCode;

/// Many isolated virtual networks on one shared data plane.
#[derive(Debug, Parser)]
#[command(name = "weir", version = environment::VERSION, max_term_width = 100)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// The tour: no root, no configuration; ends with a report
    Demo(commands::demo::Args),
    Run(commands::run::Args),
    Apply(commands::apply::Args),
    /// Virtual networks: instantiate, delete, migrate, set, monitor
    #[command(subcommand)]
    Net(commands::net::Args),
    Serve(commands::serve::Args),
    /// Tokens for the HTTP API: who may ask, as what, and until when
    #[command(subcommand)]
    Token(commands::token::Args),
    Show(commands::show::Args),
    Stats(commands::stats::Args),
    Top(commands::top::Args),
    Port(commands::port::Args),
    Vdp(commands::vdp::Args),
    Capture(commands::capture::Args),
    /// One frame: which VDP, rule, action, port or drop, and why
    Trace(commands::trace::Args),
    /// What a network function will sustain, before it is deployed
    Estimate(Box<commands::estimate::Args>),
    Calibrate(commands::calibrate::Args),
    Place(commands::place::Args),
    Slicer(commands::slicer::Args),
    Dut(commands::dut::Args),
    /// What an OpenFlow switch really does, seen from its control channel and its ports at once
    #[command(subcommand)]
    Measure(commands::measure::Args),
    /// Measure the program's own speed, from memory
    #[command(subcommand)]
    Bench(bench::Bench),
    /// One figure of a paper, measured here, published values beside ours
    #[command(subcommand)]
    Study(commands::study::Args),
    Report(commands::report::Args),
}

fn main() -> ExitCode {
    weir_io::give_large_blocks_back();
    let arguments: Vec<_> = std::env::args_os().collect();
    let done = match Cli::try_parse_from(&arguments) {
        Ok(cli) => {
            // Studies and calibration are of what `run` does.
            if matches!(
                cli.command,
                Command::Run(_)
                    | Command::Bench(bench::Bench::Dataplane(_) | bench::Bench::Functions(_))
                    | Command::Study(_)
                    | Command::Calibrate(_)
            ) {
                huge_pages::ask(&arguments);
            }
            run(cli.command)
        }
        Err(e) => usage::answer(&e, &Cli::command(), &arguments),
    };
    let code = match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(e) => {
            complain(format_args!("{e:#}"));
            fault::exit_code(&e)
        }
    };
    log_writer::rest();
    code
}

fn run(command: Command) -> anyhow::Result<()> {
    match command {
        Command::Demo(a) => commands::demo::run(&a),
        Command::Run(a) => commands::run::run(&a),
        Command::Apply(a) => commands::apply::run(&a),
        Command::Net(a) => commands::net::run(&a),
        Command::Serve(a) => commands::serve::run(&a),
        Command::Token(a) => commands::token::run(&a),
        Command::Show(a) => commands::show::run(&a),
        Command::Stats(a) => commands::stats::run(&a),
        Command::Top(a) => commands::top::run(&a),
        Command::Port(a) => commands::port::run(&a),
        Command::Vdp(a) => commands::vdp::run(&a),
        Command::Capture(a) => commands::capture::run(&a),
        Command::Trace(a) => commands::trace::run(&a),
        Command::Estimate(a) => commands::estimate::run(&a),
        Command::Calibrate(a) => commands::calibrate::run(&a),
        Command::Place(a) => commands::place::run(&a),
        Command::Slicer(a) => commands::slicer::run(&a),
        Command::Dut(a) => commands::dut::run(&a),
        Command::Measure(a) => commands::measure::run(&a),
        Command::Bench(b) => bench::run(b),
        Command::Study(a) => commands::study::run(&a),
        Command::Report(a) => commands::report::run(&a),
    }
}
