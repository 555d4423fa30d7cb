//! Nodes that move from one `weir run` to another, with frames and a controller at work: nothing is lost,
//! duplicated or reordered, and the controller's connection goes on.

mod changed;
mod gate;
mod links;
mod rate;

use super::certificates::Authority;
use super::run_daemon::Daemon;
use super::run_daemon::weir;
use super::{Supervisor, node_by};
use crate::openflow_rig::{Peer, patient};
use gate::{Gate, What};
use serde_json::Value;
use std::io::{BufRead, BufReader, Write};
use std::net::{TcpListener, UdpSocket};
use std::os::unix::net::UnixStream;
use std::process::Stdio;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::time::{Duration, Instant};
use weir_openflow::model::{
    Action, AsyncConfig, Field, FlowCommand, FlowMod, Instruction, Match, Message, Part, Port,
    Role, RoleMsg, StatsRequest,
};

/// Addresses of this machine that no other test has.
pub fn addresses<const N: usize>() -> [String; N] {
    // Tests of one process run side by side.
    static NEXT: AtomicUsize = AtomicUsize::new(1);
    let pid = std::process::id();
    let first = NEXT.fetch_add(N, Ordering::Relaxed);
    std::array::from_fn(|i| {
        let n = u8::try_from(first + i).expect("more addresses than a block has");
        format!("127.{}.{}.{n}", 64 + (pid >> 8 & 63), pid & 255)
    })
}

const PORT: u16 = 4789;

/// A port of a physical node that this test is the other end of, by VXLAN.
struct Wire {
    socket: UdpSocket,
    vni: u32,
    to: String,
}

impl Wire {
    fn new(vni: u32, to: &str) -> Self {
        let [at] = addresses();
        let socket = UdpSocket::bind((at, PORT)).unwrap();
        socket.set_read_timeout(Some(Duration::from_millis(20))).unwrap();
        // A test that is put aside for a while loses nothing.
        let forced = rustix::net::sockopt::set_socket_recv_buffer_size_force(&socket, 16 << 20);
        // Who has no right to that has what the machine grants everybody.
        if forced.is_err() {
            rustix::net::sockopt::set_socket_recv_buffer_size(&socket, 4 << 20).unwrap();
        }
        Self { socket, vni, to: to.to_owned() }
    }
    fn device(&self) -> String {
        let here = self.socket.local_addr().unwrap().ip();
        format!("vxlan:{},remote={here},local={}", self.vni, self.to)
    }
    fn send(&self, frame: &[u8]) {
        let mut d = vec![8, 0, 0, 0];
        d.extend((self.vni << 8).to_be_bytes());
        d.extend_from_slice(frame);
        self.socket.send_to(&d, (self.to.as_str(), PORT)).unwrap();
    }
    fn recv(&self) -> Option<Vec<u8>> {
        let mut buffer = [0; 2048];
        let n = self.socket.recv(&mut buffer).ok()?;
        Some(buffer[8..n].to_vec())
    }
}

/// A frame of a flow with a number, sent so many nanoseconds after some moment.
fn frame(flow: u8, seq: u64, at: u64) -> Vec<u8> {
    let mut f = vec![2, 0, 0, 0, 0, flow, 2, 0, 0, 0, 0, 0xee, 0x88, 0xb5, flow];
    f.extend(seq.to_be_bytes());
    f.extend(at.to_be_bytes());
    f.resize(64, 0);
    f
}

fn nanos(d: Duration) -> u64 {
    u64::try_from(d.as_nanos()).unwrap()
}

/// What came out, by flow: how many, and what was wrong.
#[derive(Debug, Default)]
struct Seen {
    next: [u64; FLOWS as usize],
    frames: u64,
    lost: u64,
    late: u64,
    longest_gap: Duration,
}

const FLOWS: u8 = 8;

impl Seen {
    fn look(&mut self, f: &[u8]) {
        let seq = u64::from_be_bytes(f[15..23].try_into().unwrap());
        let next = &mut self.next[usize::from(f[14])];
        match seq.checked_sub(*next) {
            Some(gap) => {
                self.lost += gap;
                *next = seq + 1;
            }
            None => self.late += 1,
        }
        self.frames += 1;
    }
}

/// Frames sent, by flow.
type Sent = [u64; FLOWS as usize];
/// A thread that gives its wire back.
type Thread<T> = std::thread::JoinHandle<(T, Wire)>;

/// Sends and looks at what comes, on threads of their own, until it is told to end.
struct Load {
    stop: Arc<AtomicBool>,
    sent: Arc<AtomicU64>,
    /// The longest that a frame was on its way, in nanoseconds, since that was last asked.
    delay: Arc<AtomicU64>,
    threads: (Thread<Sent>, Thread<Seen>),
}

impl Load {
    fn start(input: Wire, output: Wire, every: Duration) -> Self {
        let stop = Arc::new(AtomicBool::new(false));
        let (sent, delay) = (Arc::new(AtomicU64::new(0)), Arc::new(AtomicU64::new(0)));
        let begun = Instant::now();
        let (ends, counted) = (Arc::clone(&stop), Arc::clone(&sent));
        let send = std::thread::spawn(move || {
            let mut next = [0; FLOWS as usize];
            let mut at = begun;
            while !ends.load(Ordering::Acquire) {
                for flow in 0..FLOWS {
                    let seq = next[usize::from(flow)];
                    input.send(&frame(flow, seq, nanos(begun.elapsed())));
                    next[usize::from(flow)] += 1;
                }
                counted.fetch_add(FLOWS.into(), Ordering::Release);
                at += every;
                std::thread::sleep(at.saturating_duration_since(Instant::now()));
            }
            (next, input)
        });
        let (ends, longest) = (Arc::clone(&stop), Arc::clone(&delay));
        let see = std::thread::spawn(move || {
            let mut seen = Seen::default();
            let mut last = Instant::now();
            let mut quiet = 0;
            while quiet < 10 {
                match output.recv() {
                    Some(f) => {
                        seen.look(&f);
                        let sent_at = u64::from_be_bytes(f[23..31].try_into().unwrap());
                        let delay = nanos(begun.elapsed()).saturating_sub(sent_at);
                        longest.fetch_max(delay, Ordering::AcqRel);
                        seen.longest_gap = seen.longest_gap.max(last.elapsed());
                        last = Instant::now();
                        quiet = 0;
                    }
                    None => quiet += u32::from(ends.load(Ordering::Acquire)),
                }
            }
            (seen, output)
        });
        Self { stop, sent, delay, threads: (send, see) }
    }
    fn some(&self) {
        let until = self.sent.load(Ordering::Acquire) + 200;
        while self.sent.load(Ordering::Acquire) < until {
            std::thread::sleep(Duration::from_millis(1));
        }
    }
    /// What was sent, what came, and the wires.
    fn end(self) -> (Sent, Seen, (Wire, Wire)) {
        self.stop.store(true, Ordering::Release);
        let (sent, input) = self.threads.0.join().unwrap();
        let (seen, output) = self.threads.1.join().unwrap();
        (sent, seen, (input, output))
    }
    /// All that was sent has come, in order, once.
    fn finish(self) -> Seen {
        let (sent, seen, _) = self.end();
        assert_eq!((seen.next, seen.lost, seen.late), (sent, 0, 0), "{seen:?}");
        assert_eq!(seen.frames, sent.iter().sum::<u64>());
        seen
    }
}

struct World {
    east: Daemon,
    west: Daemon,
    s: Supervisor,
    wires: Option<(Wire, Wire)>,
    /// Where tunnels of east and west end.
    ends: [String; 2],
}

/// Two physical nodes; the ports of one are this test's.
fn world() -> World {
    world_by(&Authority::new())
}

fn world_by(ca: &Authority) -> World {
    let ends: [String; 2] = addresses();
    let wires = (Wire::new(1, &ends[0]), Wire::new(2, &ends[0]));
    let ports = [("e1", wires.0.device()), ("e2", wires.1.device())];
    let ports: Vec<(&str, &str)> = ports.iter().map(|(n, d)| (*n, d.as_str())).collect();
    let (east, api) = node_by(weir(), "127.0.0.1", &ports, ca);
    let (west, other) = node_by(weir(), "127.0.0.1", &[("w1", "null")], ca);
    let mut s = Supervisor::new(ca, &[("east", &api), ("west", &other)]);
    for (api, at) in [&api, &other].into_iter().zip(&ends) {
        s.hosts = s
            .hosts
            .replace(&format!("api = '{api}'\n"), &format!("api = '{api}'\ntunnel = '{at}'\n"));
    }
    World { east, west, s, wires: Some(wires), ends }
}

const PLAIN: &str = "[[network]]\nname = 'red'\n[[network.node]]\nname = 's1'\nhost = 'east'\n\
                     ports = ['e1', 'e2']\ndefault = 'drop'\n\
                     rule = [{ match = 'in_port=1', actions = 'output:2' }]\n";

/// What a command prints that may be refused for want of time, after which all is as before: it is tried again.
fn insists(s: &Supervisor, arguments: &[&str]) -> Vec<u8> {
    for n in 1..=20 {
        let out = s.run(arguments);
        if out.status.success() {
            return out.stdout;
        }
        let said = String::from_utf8_lossy(&out.stderr).into_owned();
        let late =
            said.contains(" in time, so it ") && said.contains("with nothing lost: try again");
        assert!(late, "{arguments:?}: {said}");
        println!("soak: late, tried again: {said}");
        // Undoing may have been late, too; where it was not there is nothing to do.
        s.run(&["net", "recover", "--back"]);
        std::thread::sleep(Duration::from_millis(50) * n);
    }
    panic!("{arguments:?}: late 20 times");
}

fn moved(s: &Supervisor, to: &str) -> Value {
    let out = insists(s, &["net", "migrate", "red", "s1", "--to", to, "-o", "json"]);
    let v: Value = serde_json::from_slice(&out).unwrap();
    v["result"]["moved"][0].clone()
}

impl World {
    /// Frames from one of the ports to the other, one `every` so long.
    fn load(&mut self, every: Duration) -> Load {
        let (input, output) = self.wires.take().unwrap();
        Load::start(input, output, every)
    }
    fn moved(&self, to: &str) -> Value {
        moved(&self.s, to)
    }
    /// Nothing is left of a node at the other host.
    fn is_home(&self) {
        self.is_home_beside(0);
    }
    /// The same, where the other host has so many VDPs of its own.
    fn is_home_beside(&self, others: usize) {
        let west = self.west.json(&["show"]);
        assert_eq!(west["vdps"].as_array().unwrap().len(), 1 + others, "{west}");
        for d in [&self.east, &self.west] {
            let shown = d.json(&["show"]);
            let ports = shown["ports"].as_array().unwrap().iter();
            let tunnels = ports.filter(|p| p["name"].as_str().unwrap().starts_with("mv-")).count();
            assert_eq!(tunnels, 0, "{shown}");
        }
    }
    /// What the host in the east answers to a request by its control socket.
    fn told(&self, request: &str) -> String {
        let mut stream = UnixStream::connect(self.east.socket()).unwrap();
        stream.write_all(format!("{request}\n").as_bytes()).unwrap();
        let mut line = String::new();
        BufReader::new(stream).read_line(&mut line).unwrap();
        line
    }
    fn at_east(&self) -> Value {
        self.east.json(&["show", "--vdp", "red.s1"])["vdps"][0].clone()
    }
    fn end(self) {
        for d in [self.east, self.west] {
            d.stop();
        }
    }
}

fn times(reduced: u32, full: u32) -> u32 {
    let n = if std::env::var_os("WEIR_SOAK").is_some() { full } else { reduced };
    println!("soak: {n} moves to another node and back");
    n
}

#[test]
fn soak_a_node_goes_to_another_host_and_back_and_no_frame_is_lost() {
    let mut w = world();
    w.s.apply(PLAIN);
    let load = w.load(Duration::from_micros(500));
    let mut longest = 0;
    for _ in 0..times(3, 500) {
        load.some();
        let out = w.moved("west");
        assert_eq!((&out["to"], &out["lost"]), (&Value::from("west"), &Value::from(0)), "{out}");
        assert_eq!(w.at_east()["phase"], "away");
        load.some();
        let back = w.moved("east");
        assert_eq!((&back["to"], &back["lost"]), (&Value::from("east"), &Value::from(0)), "{back}");
        assert_eq!(
            (&back["sent"], &back["returned"]),
            (&back["received"], &back["back"]),
            "{back}"
        );
        let pause = |v: &Value| v["longest_pause_ns"].as_u64().unwrap();
        longest = longest.max(pause(&out)).max(pause(&back));
        w.is_home();
    }
    load.some();
    let seen = load.finish();
    println!(
        "soak: frames were held for {} us at most; {:?} at most between two that came out",
        longest / 1000,
        seen.longest_gap
    );
    // What the node counts is all that it ever did.
    let v = w.at_east();
    assert_eq!(v["received"]["frames"], seen.frames, "{v}");
    assert_eq!(v["forwarded"]["frames"], seen.frames, "{v}");
    let shown = w.east.json(&["show", "--vdp", "red.s1", "--rules"]);
    assert_eq!(shown["rules"][0]["hits"]["frames"], seen.frames, "{shown}");
    w.end();
}

/// Kills `weir net migrate` at random moments; afterwards the node is at one host or the other, whole.
#[test]
fn soak_a_killed_migration_is_finished_or_undone() {
    let mut w = world();
    w.s.apply(PLAIN);
    let load = w.load(Duration::from_millis(1));
    let begun = Instant::now();
    w.moved("west");
    w.moved("east");
    let whole = begun.elapsed() / 2;
    let mut seed = 7u64;
    for n in 0..times(6, 200) {
        seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        let to = if n % 2 == 0 { "west" } else { "east" };
        let mut c = w.s.command(&["net", "migrate", "red", "s1", "--to", to]);
        let mut child = c.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
        std::thread::sleep(whole.mul_f64((seed >> 40) as f64 / f64::from(1 << 24) * 1.1));
        let _ = child.kill();
        child.wait().unwrap();
        let way: &[&str] = match seed >> 33 & 1 {
            0 => &["net", "recover"],
            _ => &["net", "recover", "--back"],
        };
        insists(&w.s, way);
        let lab = w.s.ask(&["net", "list", "-o", "toml"]);
        let away = w.at_east()["phase"] == "away";
        assert_eq!(lab.contains("away = \"west\""), away, "{lab}");
        load.some();
        // The next begins where this one says that it is.
        if away != (to == "west") {
            w.moved(to);
        }
        load.some();
    }
    w.moved("east");
    w.is_home();
    load.finish();
    w.end();
}

/// Frames that come out, `n` of them, of those that go in meanwhile.
fn come_through(wires: &(Wire, Wire), n: usize) -> bool {
    let until = Instant::now() + Duration::from_secs(10);
    let mut left = n;
    while left > 0 && Instant::now() < until {
        wires.0.send(&frame(0, 0, 0));
        left -= usize::from(wires.1.recv().is_some());
    }
    left == 0
}

/// The same with a third node, each asked by a door of the supervisor's that can be shut.
fn three() -> (World, Daemon) {
    let ca = Authority::new();
    let mut w = world_by(&ca);
    let (north, _) = node_by(weir(), "127.0.0.1", &[("w1", "null")], &ca);
    let doors = [("east", &w.east), ("west", &w.west), ("north", &north)].map(|(name, d)| {
        std::os::unix::fs::symlink(d.socket(), w.s.path(&format!("{name}.door"))).unwrap();
        name
    });
    let [third] = addresses();
    w.s.hosts = doors
        .iter()
        .zip(w.ends.iter().chain([&third]))
        .map(|(name, at)| {
            format!("[[host]]\nname = '{name}'\napi = 'unix:{name}.door'\ntunnel = '{at}'\n")
        })
        .collect();
    (w, north)
}

/// The connection that stays of those that are made while a switch is on its way.
fn comes_again(listener: &TcpListener) -> Peer<std::net::TcpStream> {
    let until = Instant::now() + crate::run_daemon::LIMIT;
    loop {
        assert!(Instant::now() < until, "none stays");
        let (stream, _) = listener.accept().unwrap();
        patient(&stream);
        if let Ok(mut c) = Peer::over(stream)
            && c.barrier().is_ok()
        {
            return c;
        }
    }
}

/// A controller that was at a host which the supervisor can't reach any more, and which lives on, goes on where the node does.
#[test]
fn controllers_leave_a_host_that_is_cut_off() {
    let (w, north) = three();
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let at = listener.local_addr().unwrap().to_string();
    w.s.apply(&SWITCH.replace("CONTROLLER", &at));
    let mut c = Peer::accept(&listener);
    patient(c.raw());
    c.send(add(0x0200_0000_0000, 1, 2));
    done(&mut c);
    for (there, next) in [("west", "north"), ("north", "east")] {
        w.moved(there);
        done(&mut c);
        std::fs::remove_file(w.s.path(&format!("{there}.door"))).unwrap();
        w.s.ask(&["net", "migrate", "red", "s1", "--to", next]);
        while c.next().is_ok() {}
        c = comes_again(&listener);
        assert_eq!(c.flows(), 1, "as it was when it left, at {next}");
        done(&mut c);
        if next == "north" {
            w.moved("east");
            done(&mut c);
        }
    }
    assert_eq!(w.at_east()["phase"], "fast");
    north.stop();
    w.end();
}

/// Whatever becomes of where a node is, frames get to where it shall be: at a third host, by another address, and at a data plane
/// that was begun anew.
#[test]
fn a_node_whose_host_died_goes_on_elsewhere() {
    let (mut w, north) = three();
    let wires = w.wires.take().unwrap();
    w.s.apply(PLAIN);
    assert!(come_through(&wires, 20));
    w.moved("west");
    assert!(come_through(&wires, 20));
    // By another address of the other end, the node being there.
    let lab = |away: &str| PLAIN.replace("ports =", &format!("away = '{away}'\nports ="));
    assert!(w.s.apply(&lab("west")).contains("nothing differs"));
    w.s.hosts = w
        .s
        .hosts
        .replace(&format!("tunnel = '{}'", w.ends[1]), &format!("tunnel = '{}:4790'", w.ends[1]));
    let told = w.s.apply(&lab("west"));
    assert!(told.contains("~ red/s1: 2 ways between east and west, by other ends"), "{told}");
    assert!(come_through(&wires, 20), "by the other address");
    assert!(w.s.apply(&lab("west")).contains("nothing differs"));
    // An end whose way is too short for the port's frames is refused, and again: it is not there meanwhile.
    let v = w.east.json(&["show"]);
    let mut ports = v["ports"].as_array().unwrap().iter();
    let end = ports.find(|p| p["name"].as_str().unwrap().starts_with("mv-")).unwrap();
    let [name, device, label] = ["name", "device", "label"].map(|k| end[k].as_str().unwrap());
    assert!(w.told(&format!("{{\"do\":\"port-delete\",\"name\":\"{name}\"}}")).contains("\"ok\""));
    let put = |more: &str| {
        w.told(&format!(
            "{{\"do\":\"port-put\",\"name\":\"{name}\",\"device\":\"{device}{more}\",\"label\":\"{label}\"}}"
        ))
    };
    for _ in 0..2 {
        let said = put(",mtu=900");
        assert!(said.contains("longer frames than its way"), "{said}");
    }
    assert!(put("").contains("\"ok\""));
    assert!(come_through(&wires, 20), "by the end that is put again");
    // To a third host when that has died.
    w.west.signal(rustix::process::Signal::KILL);
    w.west.end();
    let out = w.s.ask(&["net", "migrate", "red", "s1", "--to", "north"]);
    assert!(out.contains("> red/s1: from west to north, as it was when it left its own"), "{out}");
    assert!(come_through(&wires, 20), "at the third host");
    let v = w.at_east();
    assert_eq!(v["phase"], "away");
    let back = w.moved("east");
    assert_eq!((&back["lost"], &back["sent"]), (&Value::from(0), &back["received"]), "{back}");
    assert!(back["sent"].as_u64().unwrap() >= 20, "{back}");
    assert!(come_through(&wires, 20), "at home");
    // A node that is not where it shall be any more is seen.
    w.moved("north");
    let body = north.json(&["show"])["vdps"][1]["vid"].to_string();
    north.ask(&["vdp", "delete", &body]);
    let told = w.s.apply(&lab("north"));
    assert!(
        told.contains("> red/s1: from east to north, where it is not: as it was when it left"),
        "{told}"
    );
    assert!(come_through(&wires, 20), "made anew there");
    assert!(w.s.apply(&lab("north")).contains("nothing differs"));
    w.moved("east");
    assert!(come_through(&wires, 20));
    north.stop();
    w.east.stop();
    drop(w.west);
}

const SWITCH: &str = "[[network]]\nname = 'red'\ncontrollers = ['tcp:CONTROLLER']\n\
                      [[network.node]]\nname = 's1'\nhost = 'east'\nports = ['e1', 'e2']\n\
                      openflow = { listen = ['ptcp:0'] }\n";

fn add(dst: u64, cookie: u64, to: u32) -> Message {
    Message::FlowMod(FlowMod {
        cookie,
        idle_timeout: 300,
        priority: 7,
        matcher: Match::default().with(Field::EthDst, dst.into()),
        instructions: vec![Instruction::Apply(vec![Action::Output {
            port: Port(to),
            max_len: 0xffff,
        }])],
        ..FlowMod::new(FlowCommand::Add)
    })
}

/// All that was asked for is done, without an error.
fn done(c: &mut Peer<std::net::TcpStream>) {
    assert_eq!(c.barrier().unwrap(), []);
}

/// What a switch says of itself and its ports, counters left out.
fn says(c: &mut Peer<std::net::TcpStream>) -> Vec<Message> {
    let asked = |body| Message::StatsRequest { more: Part::Last, body };
    let all = [
        Message::FeaturesRequest,
        asked(StatsRequest::PortDesc),
        asked(StatsRequest::Desc),
        Message::GetConfigRequest,
        Message::GetAsyncRequest,
        Message::RoleRequest(RoleMsg { role: Role::NoChange, generation: 0 }),
    ];
    all.into_iter().map(|m| c.ask(m).unwrap().0).collect()
}

#[test]
fn a_controllers_connection_goes_along_with_its_flows() {
    let mut w = world();
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let at = listener.local_addr().unwrap().to_string();
    w.s.apply(&SWITCH.replace("CONTROLLER", &at));
    let mut c = Peer::accept(&listener);
    patient(c.raw());
    for flow in 0..u64::from(FLOWS) {
        c.send(add(0x0200_0000_0000 + flow, flow, 2));
    }
    done(&mut c);
    // A role, and what it wants to hear, which a switch must remember.
    c.ask(Message::RoleRequest(RoleMsg { role: Role::Master, generation: 3 })).unwrap();
    let wants = AsyncConfig { packet_in: [1, 2], port_status: [3, 4], flow_removed: [5, 6] };
    c.send(Message::SetAsync(wants));
    done(&mut c);
    let told = says(&mut c);
    let load = w.load(Duration::from_millis(1));
    for _ in 0..times(2, 100) {
        for to in ["west", "east"] {
            load.some();
            // Said while the switch is on its way: neither lost nor done twice.
            let stop = Arc::new(AtomicBool::new(false));
            let moving = std::thread::scope(|scope| {
                let s = &w.s;
                let there = scope.spawn(|| {
                    let v = moved(s, to);
                    stop.store(true, Ordering::Release);
                    v
                });
                let mut n = 0;
                while !stop.load(Ordering::Acquire) {
                    n += 1;
                    c.send(add(0x0200_0000_1000 + n, 1000 + n, 1));
                    done(&mut c);
                    assert_eq!(c.flows(), usize::from(FLOWS) + 1);
                    c.send(Message::FlowMod(FlowMod {
                        table: 0,
                        priority: 7,
                        matcher: Match::default()
                            .with(Field::EthDst, (0x0200_0000_1000 + n).into()),
                        ..FlowMod::new(FlowCommand::DeleteStrict)
                    }));
                }
                there.join().unwrap()
            });
            assert_eq!(moving["to"], to);
            done(&mut c);
            let cookies: Vec<u64> = {
                let mut all: Vec<u64> = c.flow_stats().iter().map(|f| f.cookie).collect();
                all.sort_unstable();
                all
            };
            assert_eq!(cookies, (0..u64::from(FLOWS)).collect::<Vec<_>>());
            assert_eq!(says(&mut c), told);
        }
    }
    // A tool that comes to the listener at home while the node is away finds the switch, too.
    w.moved("west");
    let bound = w.at_east()["detail"]["openflow"]["listeners"][0]["bound"].clone();
    let mut tool = Peer::to(bound.as_str().unwrap());
    assert_eq!(tool.flows(), usize::from(FLOWS));
    drop(tool);
    w.moved("east");
    load.some();
    let seen = load.finish();
    done(&mut c);
    let counted: u64 = c.flow_stats().iter().map(|f| f.packets).sum();
    assert_eq!(counted, seen.frames, "every frame hit a flow once, wherever");
    w.is_home();
    w.end();
}

#[test]
fn a_host_that_refuses_leaves_all_as_it_was() {
    let mut w = world();
    w.s.apply(PLAIN);
    let load = w.load(Duration::from_millis(1));
    let list = || w.s.ask(&["net", "list", "-o", "toml"]);
    let before = list();
    let refused = |to: &str, code: i32, what: &str| {
        let told = w.s.refused(&["net", "migrate", "red", "s1", "--to", to], code);
        assert!(told.contains(what), "{told}");
        assert_eq!(list(), before);
        assert_eq!(w.at_east()["phase"], "fast");
    };
    refused("wets", 2, "no host 'wets': did you mean 'west'?");
    // The name is taken by hand: told before anything is made.
    w.west.ask(&["vdp", "create", "9", "--name", "red.s1"]);
    refused("west", 2, "has a VDP called 'red.s1' already");
    w.west.ask(&["vdp", "delete", "9"]);
    load.some();
    // What is away is brought back before it is changed or deleted in its parts, and can be deleted whole.
    w.moved("west");
    let told = w.s.refused(&["net", "set", "red", "s1", "cpu_permille=100"], 2);
    assert!(told.contains("is processed by another node"), "{told}");
    // So is a change of kind that its node is asked for without a supervisor.
    let vid = &w.at_east()["vid"];
    let toml = format!("[[vdp]]\nvid = {vid}\nname = 'red.s1'\nports = ['e1', 'e2']\n");
    let put = serde_json::json!({ "do": "router-put", "toml": toml, "router": {} });
    let mut to = UnixStream::connect(w.east.socket()).unwrap();
    writeln!(to, "{put}").unwrap();
    let mut told = String::new();
    BufReader::new(to).read_line(&mut told).unwrap();
    assert!(told.contains("is processed by another node"), "{told}");
    w.moved("east");
    w.is_home();
    load.some();
    load.finish();
    w.moved("west");
    w.s.ask(&["net", "delete", "red"]);
    w.is_home();
    w.end();
}

/// Where a killed or refused migration is to end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum End {
    There,
    AsBefore,
}

/// The supervisor is killed before each of its requests, or when a node is about to answer it, or is refused
/// by the node; then what it did is finished or undone. Frames, flows, counters and the controller's
/// connection are whole.
#[test]
fn soak_a_migration_that_ends_at_any_step_is_finished_or_undone() {
    let mut w = world();
    let gate = Gate::default();
    let doors = [("east", &w.east), ("west", &w.west)].map(|(name, d)| {
        let path = w.s.path(&format!("{name}.door"));
        gate.door(&path, d.socket());
        path
    });
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let at = listener.local_addr().unwrap().to_string();
    for (line, door) in ["api = '127.0.0.1", "api = '127.0.0.1"].into_iter().zip(&doors) {
        let from = w.s.hosts.find(line).unwrap();
        let to = from + w.s.hosts[from..].find('\n').unwrap();
        w.s.hosts.replace_range(from..to, &format!("api = 'unix:{}'", door.display()));
    }
    w.s.apply(&SWITCH.replace("CONTROLLER", &at));
    let mut c = Peer::accept(&listener);
    patient(c.raw());
    for flow in 0..u64::from(FLOWS) {
        c.send(add(0x0200_0000_0000 + flow, flow, 2));
    }
    done(&mut c);
    let load = w.load(Duration::from_millis(1));
    let steps = |to: &str| {
        let before = gate.passed();
        w.moved(to);
        gate.passed() - before
    };
    let (out, back) = (steps("west"), steps("east"));
    let soak = std::env::var_os("WEIR_SOAK").is_some();
    let stride = if soak { 1 } else { 9 };
    let mut runs = 0;
    let mut one = |to: &str, n: usize, what: What, end: End, c: &mut Peer<std::net::TcpStream>| {
        let from = if to == "west" { "east" } else { "west" };
        let command = w.s.command(&["net", "migrate", "red", "s1", "--to", to]);
        let whole = gate.run(command, n, what);
        let told = match end {
            End::There => insists(&w.s, &["net", "recover"]),
            End::AsBefore => insists(&w.s, &["net", "recover", "--back"]),
        };
        let told = String::from_utf8_lossy(&told).into_owned();
        let lab = w.s.ask(&["net", "list", "-o", "toml"]);
        let away = w.at_east()["phase"] == "away";
        assert_eq!(lab.contains("away = \"west\""), away, "{to} {n} {what:?}: {told} {lab}");
        // Steps that may be late are tried again.
        if what == What::Refuse && !whole {
            assert_eq!(away, from == "west", "{to} {n}: a refusal is undone at once: {told}");
        }
        done(c);
        let at = if away { "west" } else { "east" };
        let wanted = if end == End::There { to } else { from };
        if at != wanted {
            w.moved(wanted);
        }
        runs += 1;
    };
    for n in (1..=out.max(back)).step_by(stride) {
        for (i, what) in [What::KillBefore, What::KillAfter, What::Refuse].into_iter().enumerate() {
            if !soak && (n / stride) % 3 != i {
                continue;
            }
            for (to, last) in [("west", out), ("east", back)] {
                let n = n.min(last);
                one(to, n, what, End::AsBefore, &mut c);
                one(to, n, what, End::There, &mut c);
            }
        }
    }
    println!("soak: {runs} of {out} and {back} steps, each finished and undone");
    w.is_home();
    let seen = load.finish();
    done(&mut c);
    let all = c.flow_stats();
    assert_eq!(all.len(), usize::from(FLOWS));
    assert_eq!(all.iter().map(|f| f.packets).sum::<u64>(), seen.frames, "counted once, wherever");
    assert_eq!(w.at_east()["received"]["frames"], seen.frames);
    w.end();
}
