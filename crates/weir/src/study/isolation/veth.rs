//! The attacks over veth, on a machine whose cores are busy: a victim and an attacker on one `weir run`, each
//! with ports and controllers of its own. Measured and told; what is promised is promised in virtual time.
//!
//! Room: namespaces, a process, sockets, threads. Needs root and iproute2. Everything is gone afterwards.
//!
//! ```text
//!  tester   e1      e2      e3      e4
//!            │       │       │       │
//!  device   p1 ───► p2      p3 ───► p4
//!             victim         attacker
//! ```

use super::attack::Attack;
use super::control::{MESSAGES, flows};
use crate::controller::flows::add;
use crate::controller::link::Link;
use crate::fault::is_bad_input;
use crate::left;
use crate::namespace::{Door, Namespace, QUIET};
use crate::socket::client::Client;
use crate::socket::protocol::Request;
use crate::study::dut::close;
use crate::study::load::tester_mac;
use crate::study::process::Process;
use crate::study::report::{Report, Table, number};
use crate::study::{Plan, Watch};
use anyhow::{Context, Result, anyhow, bail};
use std::fmt::Write as _;
use std::io::{Read, Write};
use std::net::{Ipv4Addr, SocketAddr, SocketAddrV4, TcpStream};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};
use weir_io::af_packet::AfPacket;
use weir_io::af_xdp::{AfXdp, Options, OtherEnd, Umem};
use weir_measure::Rate;
use weir_measure::clock::{Monotonic, Wait};
use weir_measure::generator::{End, Generator, Load, Step};
use weir_measure::latency::{Latency, LatencySummary};
use weir_measure::port::Port as Tester;
use weir_measure::probe::{Headers, Run, Stream};
use weir_measure::receiver::Drain;
use weir_measure::rfc2544::{DelaySettings, latency};
use weir_measure::trial::{PortTrial, PortTrialSettings, Ports};
use weir_openflow::model::{Action, Field, Match, Message, NO_MAX_LEN, Port, Version};
use weir_packet::Pool;

/// The victim's frames a second.
const FPS: f64 = 20_000.0;
/// Bytes of its frames, FCS included.
const BYTES: usize = 64;
/// Where the victim's switch listens, and the attacker's.
const AT: [u16; 2] = [6641, 6642];
/// The victim's promised part of the worker, in thousandths.
const PERMILLE: u16 = 500;
/// How long anything may take to come up.
const PATIENCE: Duration = Duration::from_secs(20);

/// What the victim noticed.
struct Noticed {
    sent: u64,
    received: u64,
    latency: Option<LatencySummary>,
    barriers: Latency,
    unanswered: u64,
    strays: u64,
}

/// The process, and the two namespaces, which go after it.
struct Place {
    process: Process,
    tester: Namespace,
    device: Namespace,
}

impl Place {
    fn new() -> Result<Self> {
        left::sweep();
        let tester = Namespace::new(left::STUDY, "t")?;
        let device = Namespace::new(left::STUDY, "d")?;
        tester.set(QUIET)?;
        device.set(QUIET)?;
        let mut lines = String::new();
        let mut up = "link set lo up\n".to_owned();
        for n in 1..=4u16 {
            let (mac, device) = (tester_mac(n - 1), device.name());
            let _ = writeln!(
                lines,
                "link add name e{n} address {mac} type veth peer name p{n} netns {device}\nlink set e{n} up"
            );
            let _ = writeln!(up, "link set p{n} up");
        }
        tester.ip(&lines)?;
        device.ip(&up)?;
        let process = Process::start(&device, KEYS, &sections())?;
        let place = Self { process, tester, device };
        let begin = Instant::now();
        while place.connect(AT[0]).is_err() || place.connect(AT[1]).is_err() {
            if begin.elapsed() > PATIENCE {
                bail!("'weir run' does not listen for controllers");
            }
            std::thread::sleep(Duration::from_millis(20));
        }
        Ok(place)
    }

    fn connect(&self, port: u16) -> Result<TcpStream> {
        connect(&self.device.door()?, port)
    }

    fn link(&self, port: u16) -> Result<Link> {
        reach(&self.device.door()?, port, || true)
    }

    /// The kernel's count of frames that arrived at the tester's second port.
    fn arrivals(&self) -> Result<u64> {
        let text = self.tester.within(|| {
            std::fs::read_to_string("/proc/thread-self/net/dev")
                .context("/proc/thread-self/net/dev")
        })?;
        let line = text.lines().find_map(|l| l.trim_start().strip_prefix("e2:"));
        let count = line.and_then(|l| l.split_whitespace().nth(1)?.parse().ok());
        count.ok_or_else(|| anyhow!("no count of what arrives at e2"))
    }
}

fn connect(door: &Door, port: u16) -> Result<TcpStream> {
    let at = SocketAddr::from((Ipv4Addr::LOCALHOST, port));
    door.within(|| Ok(TcpStream::connect_timeout(&at, Duration::from_secs(2))?))
}

/// A controller's connection. A busy switch, or one that is just attacked, may refuse the first attempts; it has
/// [`PATIENCE`], and as long as somebody is `waiting`.
fn reach(door: &Door, port: u16, waiting: impl Fn() -> bool) -> Result<Link> {
    let begin = Instant::now();
    loop {
        match connect(door, port).and_then(|s| Link::greet(s, Version::V13)) {
            Ok(link) => return Ok(link),
            Err(e) if begin.elapsed() > PATIENCE || !waiting() => return Err(e),
            Err(_) => std::thread::sleep(Duration::from_millis(20)),
        }
    }
}

/// The data plane's keys.
const KEYS: &str = "frames = 16384\n\
    tcam = { mapping_entries = 64, action_entries = 1024, slice_entries = 16, block_slices = 16 }";

/// Two VDPs by port, each an OpenFlow switch with the same limits.
fn sections() -> String {
    let mut t = String::new();
    for n in 1..=4 {
        let _ = writeln!(t, "[[port]]\nname = \"p{n}\"\ndevice = \"xdp:p{n}\"");
    }
    for (vid, (name, ports)) in (1..).zip([("victim", [1, 2]), ("attacker", [3, 4])]) {
        let [a, b] = ports;
        let permille = if vid == 1 { PERMILLE } else { 0 };
        let _ = writeln!(
            t,
            "[[vdp]]\nvid = {vid}\nname = \"{name}\"\nports = [\"p{a}\", \"p{b}\"]\n\
             mapping = [\"in_port=p{a}\", \"in_port=p{b}\"]\ncpu_permille = {permille}\ntcam_entries = 64\n\
             [vdp.openflow]\nversions = [\"1.3\"]\nlimits = {{ messages_per_s = {MESSAGES} }}\nlisten = [\"ptcp:{}:127.0.0.1\"]",
            AT[vid - 1]
        );
    }
    t
}

/// Measures it.
pub fn run(plan: &Plan, watch: &mut Watch<'_>, report: &mut Report) -> Result<()> {
    let time = plan.depth.of(Duration::from_millis(60), Duration::from_millis(1000));
    watch.next("over veth, making namespaces")?;
    let place = Place::new()?;
    let mut victim = place.link(AT[0])?;
    let to = Action::Output { port: Port(2), max_len: NO_MAX_LEN };
    let matcher = Match::default().with(Field::InPort, 1);
    victim.send(Message::FlowMod(add(1, matcher, to)))?;
    victim.barrier()?;
    let mut rows = Vec::new();
    // In brief one of each three.
    let attacks = Attack::ALL.into_iter().step_by(plan.depth.of(3, 1));
    let all = [None, None].into_iter().chain(attacks.map(Some));
    for (nth, attack) in all.enumerate() {
        let name = match (attack, nth) {
            (None, 0) => "none: victim alone",
            (None, _) => "none, again",
            (Some(a), _) => a.name(),
        };
        watch.next(&format!("over veth, attack: {name}"))?;
        let running = attack.map(|a| Attacking::start(&place, a)).transpose()?;
        std::thread::sleep(plan.depth.of(Duration::from_millis(20), Duration::from_millis(200)));
        let noticed = notice(&place, time)?;
        let did = running.map(Attacking::end).transpose()?.unwrap_or_default();
        rows.push(row(name, &noticed, &did));
    }
    let head = [
        "attack",
        "delivered",
        "p50 / p99 / p99.9 (µs)",
        "barrier p50 / p99 (µs)",
        "barriers unanswered",
        "frames leaked",
        "what the attacker did",
    ];
    report.tables.push(Table {
        title: "a victim under each attack, over veth".to_owned(),
        head: head.map(str::to_owned).into(),
        rows,
    });
    report.condition("over veth", format!("one 'weir run', AF_XDP; the victim has {PERMILLE} ‰ of the worker and sends {} frames of {BYTES} bytes a second from p1 to p2 for {} ms of each attack; the attacker sends from p3 to p4 as fast as AF_XDP takes; {MESSAGES} messages a second for each switch; the victim's controller sends a barrier every 10 ms", number(FPS), time.as_millis()));
    report.remark(
        "Over veth the tester, the attacker, the kernel and the data plane share the machine's cores: what the \
         victim loses there it may lose for want of a core, the tester's own included. Latency holds a send and a \
         receive call of the tester.",
    );
    Ok(())
}

fn row(name: &str, n: &Noticed, did: &str) -> Vec<String> {
    let us = |ns: u64| number(ns as f64 / 1e3);
    let three = n.latency.map_or_else(
        || "none came".to_owned(),
        |l| format!("{} / {} / {}", us(l.p50_ns), us(l.p99_ns), us(l.p99_9_ns)),
    );
    let quantile = |q| n.barriers.quantile(q).map_or_else(|| "–".to_owned(), us);
    vec![
        name.to_owned(),
        format!("{} %", number(100.0 * n.received as f64 / n.sent.max(1) as f64)),
        three,
        format!("{} / {}", quantile(0.5), quantile(0.99)),
        n.unanswered.to_string(),
        n.strays.to_string(),
        did.to_owned(),
    ]
}

/// The victim's frames and its controller's barriers, for so long.
fn notice(place: &Place, time: Duration) -> Result<Noticed> {
    let stop = Arc::new(AtomicBool::new(false));
    let asking = {
        let (door, stop) = (place.device.door()?, Arc::clone(&stop));
        std::thread::spawn(move || ask(&door, &stop))
    };
    let before = place.arrivals()?;
    let ports: Vec<Tester> = place.tester.within(|| {
        ["e1", "e2"]
            .into_iter()
            .map(|name| {
                let pool = Pool::new(4096, 2048)?;
                Ok(Tester { device: Box::new(AfPacket::open(name, &pool)?), pool })
            })
            .collect()
    })?;
    let ms = Duration::from_millis;
    let settings = PortTrialSettings {
        burst: Some(1),
        drain: Drain { settle: ms(2), quiet: ms(100), at_most: ms(2000) },
        ..PortTrialSettings::default()
    };
    let clock = Monotonic::new(Wait::Spin);
    let mut trial = PortTrial::new(Ports::Together(ports), vec![stream(0, 0)], clock, settings);
    let wanted = DelaySettings { rate: Rate::new(FPS)?, duration: time, repetitions: 1 };
    let found = latency(&mut trial, &wanted);
    if let Ports::Together(mut ports) = trial.into_ports() {
        ports.iter_mut().for_each(close);
    }
    let arrived = place.arrivals()?.saturating_sub(before);
    stop.store(true, Ordering::Release);
    let (barriers, unanswered) =
        asking.join().map_err(|_| anyhow!("the victim's controller"))??;
    let found = found?;
    let sent: u64 = found.trials.iter().map(|t| t.sent).sum();
    let received = found.trials.iter().map(|t| t.received).sum();
    // Two frames may be the kernel's own.
    let strays = arrived.saturating_sub(sent + 2);
    let latency = found.repetitions.into_iter().flatten().next();
    Ok(Noticed { sent, received, latency, barriers, unanswered, strays })
}

/// The victim's controller: barriers; how long each took, and how many had no answer.
fn ask(door: &Door, stop: &AtomicBool) -> Result<(Latency, u64)> {
    let going = || !stop.load(Ordering::Acquire);
    let mut link = reach(door, AT[0], || true)?;
    link.set_patience(Duration::from_secs(5))?;
    let (mut times, mut unanswered) = (Latency::new(), 0);
    while going() {
        match link.barrier() {
            Ok(took) => times.record(took.as_nanos() as u64),
            Err(_) => {
                unanswered += 1;
                match reach(door, AT[0], going) {
                    Ok(l) => link = l,
                    // Whoever does not come in until the end has no answer until then.
                    Err(_) => break,
                }
                link.set_patience(Duration::from_secs(5))?;
            }
        }
        std::thread::sleep(Duration::from_millis(10));
    }
    Ok((times, unanswered))
}

fn stream(id: u16, entry: u16) -> Stream {
    let headers = Headers {
        src_mac: tester_mac(entry),
        dst_mac: crate::study::load::host_mac(entry + 1),
        src: SocketAddrV4::new(Ipv4Addr::new(198, 18, entry as u8, 2), 49_152 + id),
        dst: SocketAddrV4::new(Ipv4Addr::new(198, 19, entry as u8, 2), 7),
        ..Headers::default()
    };
    Stream { id, headers, frame_bytes_on_wire: BYTES, entry: 0, exit: (entry == 0).then_some(1) }
}

/// An attack that goes on until it is ended.
struct Attacking {
    stop: Arc<AtomicBool>,
    threads: Vec<JoinHandle<Result<String>>>,
}

impl Attacking {
    fn start(place: &Place, attack: Attack) -> Result<Self> {
        let stop = Arc::new(AtomicBool::new(false));
        let mut link = place.link(AT[1])?;
        link.delete_flows()?;
        for m in flows(0).into_iter().chain(attack.prepared(0)) {
            link.send(m)?;
        }
        // What is told every network's flows goes by the address of a host; the flood's goes by port.
        if attack != Attack::PacketIns && attack != Attack::Buffers {
            let to = Action::Output { port: Port(2), max_len: NO_MAX_LEN };
            link.send(Message::FlowMod(add(1, Match::default().with(Field::InPort, 1), to)))?;
        }
        link.barrier()?;
        let mut threads = Vec::new();
        if attack.source(0).is_some() {
            let sender = flooder(place, attack)?;
            let stop = Arc::clone(&stop);
            threads.push(std::thread::spawn(move || flood(sender, attack, &stop)));
        }
        if attack == Attack::SlowPath {
            migrate(&place.process.socket(), "slow")?;
        }
        let (door, socket, flag) =
            (place.device.door()?, place.process.socket(), Arc::clone(&stop));
        threads.push(std::thread::spawn(move || {
            let said = deeds(attack, &door, &socket, link, &flag);
            if matches!(attack, Attack::SlowPath | Attack::Reconfigure) {
                migrate(&socket, "fast")?;
            }
            said
        }));
        Ok(Self { stop, threads })
    }

    /// Ends it; what it did, in words.
    fn end(self) -> Result<String> {
        self.stop.store(true, Ordering::Release);
        let mut all = Vec::new();
        for t in self.threads {
            all.push(t.join().map_err(|_| anyhow!("an attack ended early"))??);
        }
        all.retain(|s| !s.is_empty());
        Ok(all.join(", "))
    }
}

/// The attacker's way onto its wire.
fn flooder(place: &Place, attack: Attack) -> Result<(Tester, Vec<Stream>)> {
    let port = place.tester.within(|| {
        let mut pool = Pool::new(4096, 2048)?;
        let options = Options { other_end: OtherEnd::Leave, ..Options::default() };
        let device = AfXdp::open("e3", options, &Umem::new(), &mut pool)?;
        Ok(Tester { device: Box::new(device), pool })
    })?;
    let bytes = attack.source(0).map_or(BYTES, |s| s.bytes);
    let many = if matches!(attack, Attack::NewFlows | Attack::Masks) { 4096 } else { 16 };
    let streams = (0..many).map(|n| Stream { frame_bytes_on_wire: bytes, ..stream(n, 2) });
    Ok((port, streams.collect()))
}

/// Frames without end.
fn flood(from: (Tester, Vec<Stream>), attack: Attack, stop: &AtomicBool) -> Result<String> {
    let (port, streams) = from;
    let mut ports = [port];
    let clock = Monotonic::new(Wait::Spin);
    let begin = Instant::now();
    let mut frames = 0;
    while !stop.load(Ordering::Acquire) {
        let load = Load {
            // A rate that no source reaches: there is always a burst due.
            rate: Rate::new(1e12)?,
            end: End::For(Duration::from_millis(20)),
            burst: weir_packet::BURST,
            backlog: weir_packet::BURST as u64,
        };
        let mut generator = Generator::new(&ports, &streams, Run(0), &load, &clock)?;
        while generator.step(&mut ports, &clock) != Step::Done {}
        frames += generator.finish(&mut ports, &clock).frames;
    }
    ports.iter_mut().for_each(close);
    let rate = frames as f64 / begin.elapsed().as_secs_f64();
    let bytes = attack.source(0).map_or(BYTES, |s| s.bytes);
    Ok(format!("{} frames of {bytes} bytes a second", number(rate)))
}

/// Moves the attacker's VDP; where it is there already, that is said, and all the same to us.
fn migrate(socket: &Path, to: &str) -> Result<()> {
    let request = Request::VdpMigrate { vdp: "2".to_owned(), to: to.to_owned() };
    Client::unix(socket)?.ask(&request).map(drop).or_else(|e| match is_bad_input(&e) {
        true => Ok(()),
        false => Err(e),
    })
}

/// What the attacker's controllers do until they are stopped.
fn deeds(
    attack: Attack,
    door: &Door,
    socket: &Path,
    mut link: Link,
    stop: &AtomicBool,
) -> Result<String> {
    let mut done = 0u64;
    let begin = Instant::now();
    let going = || !stop.load(Ordering::Acquire);
    let mut kept = Vec::new();
    match attack {
        Attack::Malformed => {
            while going() {
                // One that is refused does no harm.
                let Ok(mut s) = connect(door, AT[1]) else { continue };
                let bytes: Vec<u8> = (0..8)
                    .flat_map(|n| super::frames::random(done * 8 + n).to_be_bytes())
                    .collect();
                // Whoever is spoken to like that may hang up in the middle.
                let _ = s.write_all(&bytes);
                s.set_read_timeout(Some(Duration::from_millis(20)))?;
                let _ = s.read(&mut [0; 256]);
                done += 1;
            }
        }
        Attack::CrashLoop => {
            while going() {
                // A switch has room for so many connections; one that is refused is a crash, too.
                if let Ok(mut l) = connect(door, AT[1]).and_then(|s| Link::greet(s, Version::V13)) {
                    // It may hang up before it has all.
                    done += u64::from(flows(0).into_iter().all(|m| l.send(m).is_ok()));
                }
            }
        }
        Attack::HalfOpen => {
            while going() {
                if kept.len() < 1000 {
                    kept.extend(connect(door, AT[1]).ok());
                } else {
                    std::thread::sleep(Duration::from_millis(5));
                }
                done = kept.len() as u64;
            }
        }
        Attack::Reconfigure => {
            while going() {
                migrate(socket, if done.is_multiple_of(2) { "slow" } else { "fast" })?;
                done += 1;
            }
        }
        Attack::SlowReader => {
            let mut s = connect(door, AT[1])?;
            s.set_write_timeout(Some(Duration::from_millis(20)))?;
            // Hello of 1.3, then requests for the statistics of all flows; nothing is ever read.
            s.write_all(&[4, 0, 0, 8, 0, 0, 0, 1])?;
            let Some(m) = attack.message(0, 0) else { return Ok(String::new()) };
            let (_, bytes) = link.bytes(m)?;
            // Until the switch reads no more of it.
            while going() && s.write_all(&bytes).is_ok() {
                done += 1;
            }
            while going() {
                std::thread::sleep(Duration::from_millis(5));
            }
        }
        _ => {
            if attack.message(0, 0).is_none() {
                while going() {
                    std::thread::sleep(Duration::from_millis(5));
                }
                return Ok(String::new());
            }
            let mut bytes = Vec::new();
            while going() {
                bytes.clear();
                for _ in 0..32 {
                    let Some(m) = attack.message(0, done) else { break };
                    link.append(m, &mut bytes)?;
                    done += 1;
                }
                // The switch reads no faster than its budget: stop is looked at in between.
                if !link.try_write(&bytes, &going)? {
                    break;
                }
            }
        }
    }
    if done == 0 {
        return Ok(String::new());
    }
    let rate = done as f64 / begin.elapsed().as_secs_f64();
    Ok(match attack {
        Attack::HalfOpen => format!("{done} connections"),
        Attack::Malformed | Attack::CrashLoop => format!("{} connections a second", number(rate)),
        Attack::Reconfigure => format!("{} moves a second", number(rate)),
        _ => format!("{} messages a second written", number(rate)),
    })
}
