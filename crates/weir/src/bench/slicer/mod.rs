//! `weir bench slicer`: what the slicer takes. Its core from memory (`memory`): an entry into a large flow space, and a
//! flow_mod and a packet_in through it. And what the whole of it adds to messages between a controller and
//! a switch (`sockets`), beside the same messages without it.

mod memory;
mod sockets;

use crate::commands::say::say;
use crate::environment::Envelope;
use crate::fault::bad_input;
use anyhow::Result;
use serde::Serialize;
use std::time::Duration;
use weir_openflow::model::{
    Action, Capabilities, Features, Field, FlowCommand, FlowMod, Instruction, Match, Message, Msg,
    NO_BUFFER, PacketIn, PacketInReason, Part, Port, PortDesc, StatsReply, StatsRequest,
};

/// Arguments of `weir bench slicer`.
#[derive(Debug, clap::Args)]
#[command(
    about = "The slicer: its flow space's index, and flow_mods and packet_ins through it",
    long_about = "Measures the slicer's core from memory: entries into a flow space of a million, and \
                  flow_mods and packet_ins through one of ten thousand rules. Then a 'weir slicer' is \
                  started, with a switch and controllers that this program is itself: flow_mods and \
                  packet_ins go through it at a rate, and between them, as often, by a connection \
                  without it. What it adds is the difference of the medians. No root."
)]
pub struct Args {
    /// Entries of the flow space into which more are inserted
    #[arg(long, default_value_t = 1_000_000, value_name = "N")]
    entries: u32,
    /// Rules of the flow space through which messages pass
    #[arg(long, default_value_t = 10_000, value_name = "N")]
    rules: u32,
    /// Messages of each kind, and entries that are inserted
    #[arg(long, default_value_t = 10_000, value_name = "N")]
    messages: u32,
    /// Messages a second by sockets
    #[arg(long, default_value_t = 1_000, value_name = "N")]
    rate: u32,
    /// Only this
    #[arg(long, value_name = "WHERE")]
    only: Option<Where>,
    /// As JSON
    #[arg(long)]
    json: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
enum Where {
    /// The core, from memory
    Memory,
    /// The whole of it, by sockets
    Sockets,
}

/// Slices that share the flow space.
const SLICES: u16 = 100;

/// Microseconds.
#[derive(Debug, Serialize)]
struct Figures {
    what: &'static str,
    present: u32,
    median_us: f64,
    p99_us: f64,
    longest_us: f64,
}

/// What a flow space takes.
#[derive(Debug, Serialize)]
struct Memory {
    entries: u32,
    bytes: u64,
}

/// What was measured.
#[derive(Debug, Default, Serialize)]
struct Report {
    core: Vec<Figures>,
    memory: Option<Memory>,
    sockets: Option<sockets::Report>,
}

/// Runs it.
pub fn run(args: &Args) -> Result<()> {
    if args.messages == 0
        || args.rules < u32::from(SLICES)
        || !(1..=1 << 23).contains(&args.entries)
    {
        let text = "--messages at least 1, --rules at least 100, --entries 1 to 8388608";
        return Err(bad_input(text));
    }
    if !(1..=20_000).contains(&args.rate) || args.rules > 1 << 20 || args.messages > 1 << 20 {
        let text = "--rate 1 to 20000; --rules and --messages at most 1048576";
        return Err(bad_input(text));
    }
    let wanted = |w: Where| args.only.is_none_or(|o| o == w);
    let mut report = Report::default();
    if wanted(Where::Memory) {
        let (insertion, memory) = memory::insertion(args)?;
        report.core.push(insertion);
        report.memory = Some(memory);
        report.core.extend(memory::messages(args)?);
    }
    if wanted(Where::Sockets) {
        report.sockets = Some(sockets::measure(args)?);
    }
    let envelope = Envelope::new("bench-slicer", &report);
    if args.json {
        return say(serde_json::to_string(&envelope)?);
    }
    for f in &report.core {
        say(format_args!("{:<12} {:>9} present   {}", f.what, f.present, times(f)))?;
    }
    if let Some(m) = &report.memory {
        let (mib, each) = (m.bytes >> 20, m.bytes / u64::from(m.entries.max(1)));
        say(format_args!("{} entries take {mib} MiB, {each} bytes each", m.entries))?;
    }
    for p in report.sockets.iter().flat_map(|s| &s.paths) {
        say(format_args!("{:<12} by the slicer       {}", p.what, times(&p.sliced)))?;
        say(format_args!("{:<12} without it          {}", "", times(&p.direct)))?;
        say(format_args!("{:<12} it adds             median {:>8.2} us", "", p.added_us))?;
    }
    if let Some(s) = &report.sockets {
        say(format_args!(
            "{} a second of each, {} rules of the flow space, {} slices; the slicer's processor time a message: \
             {:.1} us",
            s.rate, s.rules, SLICES, s.cpu_us
        ))?;
    }
    let e = &envelope.environment;
    say(format_args!(
        "measured on {} ({} cores), Linux {}, by weir {} with '{}'",
        e.cpu_model, e.cores, e.kernel, e.commit, e.command
    ))
}

fn times(f: &Figures) -> String {
    format!(
        "median {:>8.2} us   p99 {:>8.2} us   longest {:>9.2} us",
        f.median_us, f.p99_us, f.longest_us
    )
}

/// The destination that a rule of the flow space is about.
fn station(rule: u32) -> u64 {
    0x0200_0000_0000 | u64::from(rule)
}

fn mac(rule: u32) -> Match {
    Match::default().with(Field::EthDst, station(rule).into())
}

/// A flow within a rule of the flow space, told by its source.
fn flow_mod(rule: u32, number: u32) -> Message {
    let actions = vec![Action::Output { port: Port(2), max_len: 0 }];
    Message::FlowMod(FlowMod {
        matcher: mac(rule).with(Field::EthSrc, u128::from(number)),
        priority: 1,
        instructions: vec![Instruction::Apply(actions)],
        ..FlowMod::new(FlowCommand::Add)
    })
}

/// A packet to a rule's destination, which says a number.
fn packet(rule: u32, number: u32) -> Msg {
    let mut data = vec![0; 64];
    data[..6].copy_from_slice(&station(rule).to_be_bytes()[2..]);
    data[12..14].copy_from_slice(&[0x88, 0xb5]);
    data[14..18].copy_from_slice(&number.to_be_bytes());
    let body = Message::PacketIn(PacketIn {
        buffer_id: NO_BUFFER,
        total_len: 64,
        reason: PacketInReason::NoMatch,
        table: 0,
        cookie: u64::MAX,
        matcher: Match::default().with(Field::InPort, 1),
        data,
    });
    Msg { xid: 0, body }
}

/// A switch's part: it says who it is, and that it has done what it was told.
fn answer(asked: &Message) -> Option<Message> {
    Some(match asked {
        Message::BarrierRequest => Message::BarrierReply,
        Message::FeaturesRequest => Message::FeaturesReply(Features {
            datapath_id: 1,
            buffers: 0,
            tables: 254,
            auxiliary_id: 0,
            capabilities: Capabilities::default(),
            actions: 0,
            ports: Vec::new(),
        }),
        Message::StatsRequest { body: StatsRequest::PortDesc, .. } => Message::StatsReply {
            more: Part::Last,
            body: StatsReply::PortDesc((1..=2).map(port).collect()),
        },
        _ => return None,
    })
}

fn port(no: u32) -> PortDesc {
    PortDesc::new(Port(no), [2, 0, 0, 0, 0, 1], format!("p{no}"))
}

fn summary(what: &'static str, present: u32, mut took: Vec<Duration>) -> Figures {
    took.sort_unstable();
    let at = |permille: usize| {
        let last = took.len().saturating_sub(1);
        took.get(last * permille / 1000).map_or(0.0, |d| d.as_secs_f64() * 1e6)
    };
    Figures { what, present, median_us: at(500), p99_us: at(990), longest_us: at(1000) }
}
