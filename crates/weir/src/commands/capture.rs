//! `weir capture`: frames of a running data plane, as pcapng.
//!
//! Room: the client's side of the control socket; writes the file, so that it belongs to whoever
//! asked for it.

use super::say::{Reader, complain};
use crate::fault::{self, bad_input};
use crate::socket::client::{Next, Where};
use crate::socket::items::FrameItem;
use crate::socket::protocol::{Done, Item, Request, from_hex};
use anyhow::{Context, Result, anyhow};
use signal_hook::consts::{SIGINT, SIGTERM};
use signal_hook::iterator::Signals;
use std::collections::HashMap;
use std::fs::File;
use std::io::{self, BufWriter, IsTerminal, Write};
use weir_io::capture_file::{Direction, Format, Writer};
use weir_packet::Nanos;

/// Arguments of `weir capture`.
#[derive(Debug, clap::Args)]
#[command(
    about = "Capture frames of a running data plane at any port, VDP or stage",
    long_about = "Captures frames of a running data plane and writes them as pcapng, which tshark, \
                  tcpdump and Wireshark read: at a port, of a VDP, at the end of a stage; whatever \
                  is given must all hold. Without --stage, frames are taken as they enter (at \
                  reception; with --vdp, when they have been mapped) and as they leave. Each port \
                  is an interface of the capture, and frames that leave are marked as outbound. A \
                  filter's in_port is where a frame came in, of those that leave, too; what comes \
                  from the software stage, or from a controller, came in nowhere.\n\n\
                  The data plane is never held up: what does not fit the capture's queue is \
                  counted and told at the end. Ctrl-C ends the capture and completes the file.",
    after_long_help = "Examples:\n  \
                       weir capture --port lan -w lan.pcapng\n  \
                       weir capture --vdp red --stage software --count 100 -w punted.pcapng\n  \
                       weir capture --filter 'tcp,tp_dst=443' -w - | tshark -r -\n\n\
                       Stages: receive, mapping, matching, processing, software, forwarding."
)]
pub struct Args {
    #[command(flatten)]
    to: Where,
    /// At this port
    #[arg(long)]
    port: Option<String>,
    /// Of this VDP, by number or name
    #[arg(long)]
    vdp: Option<String>,
    /// At the end of this stage
    #[arg(long)]
    stage: Option<String>,
    /// Only frames that match this, in the flow syntax, with the data plane's port names
    #[arg(long, value_name = "MATCH")]
    filter: Option<String>,
    /// Where to: a file, or - for standard output
    #[arg(short, long, value_name = "FILE", default_value = "-")]
    write: String,
    /// End after so many frames
    #[arg(long, value_name = "N")]
    count: Option<u64>,
}

/// Runs it.
pub fn run(args: &Args) -> Result<()> {
    if args.write == "-" && std::io::stdout().is_terminal() {
        return Err(bad_input("a capture is no text: write it to a file with -w, or into a pipe"));
    }
    let mut client = args.to.connect()?;
    let hang_up = client.hang_up()?;
    let mut signals = Signals::new([SIGINT, SIGTERM])?;
    std::thread::spawn(move || {
        let mut asked = signals.forever();
        if asked.next().is_some() {
            hang_up();
        }
        // Whoever asks again does not wait for the rest.
        if let Some(signal) = asked.next() {
            let _ = signal_hook::low_level::emulate_default_handler(signal);
        }
    });
    client.send(&Request::Capture {
        port: args.port.clone(),
        vdp: args.vdp.clone(),
        stage: args.stage.clone(),
        filter: args.filter.clone(),
        count: args.count,
    })?;
    // What is wrong with the request comes before anything is written.
    let mut next = client.next()?;
    let to: Box<dyn Write> = match args.write.as_str() {
        "-" => Box::new(std::io::stdout().lock()),
        path => Box::new(File::create(path).map_err(|e| fault::file(path, &e))?),
    };
    let mut out = Out::new(BufWriter::with_capacity(256 << 10, to))?;
    let mut told = false;
    let done = loop {
        let written = match next {
            Next::Item(Item::Frame(f)) => {
                let bytes = from_hex(&f.bytes);
                out.frame(&f, &bytes.ok_or_else(|| anyhow!("not weir's: a frame without hex"))?)
            }
            Next::Item(_) if told => out.writer.flush(),
            Next::Item(_) => {
                told = true;
                complain("capturing; Ctrl-C ends it");
                // A pause, or a while of frames: whoever reads along sees what there is.
                out.writer.flush()
            }
            Next::Done(done) => break done,
        };
        if after(written)? == Reader::Gone {
            return Ok(());
        }
        next = client.next()?;
    };
    after(out.writer.flush())?;
    let Done { captured, missed, .. } = done;
    let (captured, missed) = (captured.unwrap_or(0), missed.unwrap_or(0));
    complain(format_args!("{captured} frames, {missed} missed"));
    Ok(())
}

struct Out<W: Write> {
    writer: Writer<W>,
    interfaces: HashMap<String, u32>,
}

impl<W: Write> Out<W> {
    fn new(to: W) -> Result<Self> {
        let writer = Writer::new(to, Format::Pcapng, 0).context("writing the capture")?;
        Ok(Self { writer, interfaces: HashMap::new() })
    }
    fn frame(&mut self, f: &FrameItem, bytes: &[u8]) -> io::Result<()> {
        let interface = match self.interfaces.get(&f.port) {
            Some(i) => *i,
            None => {
                let i = self.writer.add_interface(&f.port)?;
                self.interfaces.insert(f.port.clone(), i);
                i
            }
        };
        let direction = match f.stage.as_str() {
            "forwarding" => Some(Direction::Out),
            "receive" | "mapping" => Some(Direction::In),
            _ => None,
        };
        self.writer.write(interface, Nanos(f.at_ns), direction, bytes)
    }
}

/// Who reads the capture. Where that is a pipe's other end, it may have had enough.
fn after(written: io::Result<()>) -> Result<Reader> {
    Reader::after(written).context("writing the capture")
}
