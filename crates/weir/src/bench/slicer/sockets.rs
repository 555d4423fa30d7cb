//! What a running `weir slicer` adds to messages between controllers and a switch.
//!
//! Room: a process of this program, TCP on the loopback, and threads that are the switch and the controllers.
//! Messages go through the slicer at a rate; half an interval after each the same goes from a controller to a
//! switch directly. Each is timed from before it is written until the other side has read it, by one clock.

use super::{Args, Figures, SLICES, answer, flow_mod, packet, station, summary};
use crate::controller::link::{Link, Target};
use anyhow::{Context, Result, anyhow, bail};
use serde::Serialize;
use std::fmt::Write as _;
use std::io::{BufRead, BufReader, Write};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{self, Receiver, Sender};
use std::time::{Duration, Instant};
use weir_openflow::codec::encode;
use weir_openflow::model::{Field, Message, Msg, Version};

/// Controllers that take turns, each of a slice of its own.
const CONTROLLERS: u16 = 8;
/// Longest that anything may take.
const PATIENCE: Duration = Duration::from_secs(30);
/// Whoever is spoken to rarely waits on.
const FOREVER: Duration = Duration::from_secs(86_400);
/// Messages that are sent before any is timed.
const WARM: u32 = 200;

/// One kind of message, by both ways.
#[derive(Debug, Serialize)]
pub struct Path {
    /// Which.
    pub what: &'static str,
    /// By the slicer.
    pub sliced: Figures,
    /// Without it.
    pub direct: Figures,
    /// The difference of the medians.
    pub added_us: f64,
}

/// What was measured.
#[derive(Debug, Serialize)]
pub struct Report {
    /// Messages a second.
    pub rate: u32,
    /// Rules of the flow space.
    pub rules: u32,
    /// flow_mods and packet_ins.
    pub paths: Vec<Path>,
    /// Processor time of the slicer, a message, with what it leads to.
    pub cpu_us: f64,
}

/// Measures both kinds.
pub fn measure(args: &Args) -> Result<Report> {
    let slicer = Slicer::start(args)?;
    let sliced = Way::sliced(&slicer)?;
    let direct = Way::direct()?;
    let before = slicer.cpu();
    let mut paths = Vec::new();
    for (what, sends) in [("flow_mod", Sends::FlowMods), ("packet_in", Sends::PacketIns)] {
        let times = run(args, sends, [&sliced, &direct]).context(what)?;
        let [sliced, direct] = times.map(|t| summary(what, args.rules, t));
        let added_us = sliced.median_us - direct.median_us;
        paths.push(Path { what, sliced, direct, added_us });
    }
    let spent = slicer.cpu().saturating_sub(before);
    let cpu_us = spent.as_secs_f64() * 1e6 / f64::from(2 * (args.messages + WARM));
    Ok(Report { rate: args.rate, rules: args.rules, paths, cpu_us })
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Sends {
    FlowMods,
    PacketIns,
}

/// Sends them by both ways, and says how long each took.
fn run(args: &Args, sends: Sends, ways: [&Way; 2]) -> Result<[Vec<Duration>; 2]> {
    let total = args.messages + WARM;
    let mut sent: [Vec<Instant>; 2] = Default::default();
    let half = Duration::from_secs(1) / args.rate / 2;
    let mut next = Instant::now();
    for n in 0..total {
        // Rules that are those of the slices whose controllers are there.
        let turn = n / u32::from(CONTROLLERS) % (args.rules / u32::from(SLICES));
        let slice = n % u32::from(CONTROLLERS);
        let rule = turn * u32::from(SLICES) + slice;
        for (way, sent) in ways.iter().zip(&mut sent) {
            let (stream, msg) = match sends {
                Sends::FlowMods => {
                    (way.controllers.get(slice as usize), Msg { xid: n, body: flow_mod(rule, n) })
                }
                Sends::PacketIns => (Some(&way.switch), packet(rule, n)),
            };
            let mut bytes = Vec::new();
            encode(Version::V13, &msg, &mut bytes)?;
            std::thread::sleep(next.saturating_duration_since(Instant::now()));
            next += half;
            sent.push(Instant::now());
            stream.context("no such controller")?.write_all(&bytes)?;
        }
    }
    let mut took: [Vec<Duration>; 2] = Default::default();
    for ((way, sent), took) in ways.iter().zip(sent).zip(&mut took) {
        for _ in 0..total {
            let seen = way.seen.recv_timeout(PATIENCE).context("not all messages have come")?;
            let (n, at) = seen.map_err(|e| anyhow!("{e}"))?;
            let begun = sent.get(n as usize).context("a message that was not sent has come")?;
            if n >= WARM {
                took.push(at.saturating_duration_since(*begun));
            }
        }
    }
    Ok(took)
}

/// A message's number and when it was read; or what went wrong.
type Seen = Result<(u32, Instant), String>;

/// A switch and its controllers, with or without the slicer between. What is written here is read by threads
/// at the other end, which end with their streams.
struct Way {
    switch: TcpStream,
    controllers: Vec<TcpStream>,
    seen: Receiver<Seen>,
}

impl Way {
    fn sliced(slicer: &Slicer) -> Result<Self> {
        let (tell, seen) = mpsc::channel();
        let stream = TcpStream::connect(&slicer.switches)?;
        let switch = stream.try_clone()?;
        attend(Link::greet(stream, Version::V13)?, tell.clone());
        let mut controllers = Vec::new();
        for at in &slicer.doors {
            let target = Target { address: at.clone(), version: Version::V13 };
            let begun = Instant::now();
            // Until the slicer knows the switch, it lets nobody in.
            let link = loop {
                let stream = TcpStream::connect(&target.address)?;
                let second = stream.try_clone()?;
                match Link::greet(stream, Version::V13) {
                    Ok(link) => {
                        controllers.push(second);
                        break link;
                    }
                    Err(e) if begun.elapsed() > PATIENCE => return Err(e),
                    Err(_) => std::thread::sleep(Duration::from_millis(50)),
                }
            };
            attend(link, tell.clone());
        }
        Ok(Self { switch, controllers, seen })
    }

    /// As many connections, each from a controller to a switch.
    fn direct() -> Result<Self> {
        let (tell, seen) = mpsc::channel();
        let listener = TcpListener::bind("127.0.0.1:0")?;
        let mut ends = Vec::new();
        for _ in 0..CONTROLLERS {
            let near = TcpStream::connect(listener.local_addr()?)?;
            let (far, _) = listener.accept()?;
            ends.push((near.try_clone()?, far.try_clone()?));
            let greeting = std::thread::spawn(move || Link::greet(far, Version::V13));
            attend(Link::greet(near, Version::V13)?, tell.clone());
            let far = greeting.join().map_err(|_| anyhow!("a greeting ended early"))??;
            attend(far, tell.clone());
        }
        let switch = ends.first().context("no connection")?.1.try_clone()?;
        Ok(Self { switch, controllers: ends.into_iter().map(|(near, _)| near).collect(), seen })
    }
}

impl Drop for Way {
    fn drop(&mut self) {
        for s in self.controllers.iter().chain([&self.switch]) {
            // Whoever reads it ends; the other end may have gone.
            let _ = s.shutdown(Shutdown::Both);
        }
    }
}

/// Reads what comes on a thread of its own: answers as a switch does, and tells of what is timed.
fn attend(mut link: Link, tell: Sender<Seen>) {
    std::thread::spawn(move || {
        if link.set_patience(FOREVER).is_err() {
            return;
        }
        loop {
            let Ok(m) = link.next() else { return };
            let at = Instant::now();
            let seen = match &m.body {
                Message::FlowMod(f) => f.matcher.get(Field::EthSrc).map(|v| v.value as u32),
                Message::PacketIn(p) => match p.data.get(14..18) {
                    Some(&[a, b, c, d]) => Some(u32::from_be_bytes([a, b, c, d])),
                    _ => None,
                },
                Message::Error(e) => {
                    // Whoever waits hears of it; when nobody does, it is over.
                    let _ = tell.send(Err(format!("refused: {:?}", e.code)));
                    None
                }
                _ => None,
            };
            if let Some(n) = seen {
                let _ = tell.send(Ok((n, at)));
            }
            if let Some(body) = answer(&m.body)
                && link.answer(m.xid, body).is_err()
            {
                return;
            }
        }
    });
}

/// A file that goes with it.
struct File(PathBuf);

impl File {
    fn write(text: String) -> Result<Self> {
        let path = std::env::temp_dir().join(format!("weir-bench-{}.toml", std::process::id()));
        let f = std::fs::File::create_new(&path).with_context(|| path.display().to_string())?;
        let this = Self(path);
        (&f).write_all(text.as_bytes())?;
        Ok(this)
    }
}

impl Drop for File {
    fn drop(&mut self) {
        // Somebody may have cleaned up already.
        let _ = std::fs::remove_file(&self.0);
    }
}

/// A `weir slicer` of its own.
struct Slicer {
    process: Child,
    /// Where switches come.
    switches: String,
    /// Where controllers come, by slice.
    doors: Vec<String>,
}

impl Slicer {
    fn start(args: &Args) -> Result<Self> {
        let file = File::write(configuration(args)?)?;
        let mut c = Command::new(std::env::current_exe().context("this program's file")?);
        let c = c.arg("slicer").arg(&file.0).stdin(Stdio::null()).stdout(Stdio::piped());
        let process = c.spawn().context("starting 'weir slicer'")?;
        let mut s = Self { process, switches: String::new(), doors: Vec::new() };
        let out = s.process.stdout.take().context("the slicer's output")?;
        let mut lines = BufReader::new(out).lines();
        while s.switches.is_empty() || s.doors.len() < usize::from(CONTROLLERS) {
            let Some(line) = lines.next() else { bail!("'weir slicer' has ended") };
            let line = line?;
            if let Some((who, at)) = line.split_once(": listening at ") {
                match who {
                    "switches" => at.clone_into(&mut s.switches),
                    _ => s.doors.push(at.to_owned()),
                }
            }
        }
        // It goes on talking, and must not be held up.
        std::thread::spawn(move || lines.for_each(drop));
        Ok(s)
    }

    /// Processor time of the thread that does all of it, so far.
    fn cpu(&self) -> Duration {
        let id = self.process.id();
        weir_measure::cpu::task(id, id).unwrap_or_default()
    }
}

impl Drop for Slicer {
    fn drop(&mut self) {
        // One that has ended can't be ended again.
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

/// The slicer's file: slices that share the flow space's rules in turn, the first of them with controllers.
fn configuration(args: &Args) -> Result<String> {
    let mut text = "listen = [\"ptcp:0:127.0.0.1\"]\nversion = \"1.3\"\n".to_owned();
    for s in 0..SLICES {
        writeln!(text, "[[slice]]\nname = \"s{s}\"\nlimits = {{ rules = {} }}", 1 << 24)?;
        if s < CONTROLLERS {
            text.push_str("listen = [\"ptcp:0:127.0.0.1\"]\n");
        }
    }
    for r in 0..args.rules {
        let mac: Vec<String> =
            station(r).to_be_bytes()[2..].iter().map(|b| format!("{b:02x}")).collect();
        let slice = r % u32::from(SLICES);
        let mac = mac.join(":");
        writeln!(text, "[[flowspace]]\nmatch = \"dl_dst={mac}\"\nwrite = \"s{slice}\"")?;
    }
    Ok(text)
}
