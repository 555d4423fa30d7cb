//! The device in its own thread: real sockets, ports in memory, as a measurement embeds it.

mod dut_rig;

use dut_rig::{flow, insert, output, profile, udp};
use std::io::{ErrorKind, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::time::{Duration, Instant};
use weir_io::memory::{Memory, MemoryPeer, WireSize};
use weir_measure::dut::Dut;
use weir_measure::dut::serve::{Control, Doors, Running, start};
use weir_measure::port::Port;
use weir_openflow::channel::{Channel, Config, Event, Side};
use weir_openflow::model::{FlowCommand, Match, Message, Msg};
use weir_packet::Nanos;

/// How long anything is waited for before the test fails.
const LIMIT: Duration = Duration::from_secs(60);

fn device(text: &str, control: Control) -> (Running, [MemoryPeer; 2]) {
    let wire = |name| {
        let (port, peer) = Memory::with_peer(name, WireSize::default());
        (Port::new(Box::new(port), 256).unwrap(), peer)
    };
    let ((a, pa), (b, pb)) = (wire("a"), wire("b"));
    let dut = Dut::new(profile(text), &["a", "b"], Nanos(0));
    let snmp = Some("127.0.0.1:0".parse().unwrap());
    (start(dut, Doors { control, snmp }, vec![a, b], |_| {}).unwrap(), [pa, pb])
}

fn anywhere() -> Control {
    Control::Listen("127.0.0.1:0".parse().unwrap())
}

struct Controller {
    stream: TcpStream,
    channel: Channel,
    epoch: Instant,
}

impl Controller {
    fn over(stream: TcpStream) -> Self {
        stream.set_read_timeout(Some(Duration::from_millis(20))).unwrap();
        let channel = Channel::new(Config::new(Side::Controller), Duration::ZERO);
        let mut c = Self { stream, channel, epoch: Instant::now() };
        assert!(matches!(c.event(), Event::Up(_)));
        c
    }
    fn send(&mut self, xid: u32, body: Message) {
        self.channel.send(&Msg { xid, body }).unwrap();
        self.flush();
    }
    fn flush(&mut self) {
        let n = self.channel.outgoing().len();
        self.stream.write_all(self.channel.outgoing()).unwrap();
        self.channel.advance(n);
    }
    fn event(&mut self) -> Event {
        let until = Instant::now() + LIMIT;
        let mut buffer = [0; 4096];
        loop {
            if let Some(e) = self.channel.next_event(self.epoch.elapsed()) {
                return e;
            }
            self.flush();
            assert!(Instant::now() < until, "nothing came");
            match self.stream.read(&mut buffer) {
                Ok(0) => panic!("closed"),
                Ok(n) => {
                    self.channel.receive(&buffer[..n], self.epoch.elapsed());
                }
                Err(e) if matches!(e.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut) => {}
                Err(e) => panic!("{e}"),
            }
        }
    }
    fn barrier(&mut self) {
        self.send(77, Message::BarrierRequest);
        match self.event() {
            Event::Message(m) => assert_eq!(m.msg, Msg { xid: 77, body: Message::BarrierReply }),
            other => panic!("{other:?}"),
        }
    }
}

/// The next frame that the device sends by a port.
fn next(peer: &mut MemoryPeer) -> Vec<u8> {
    let until = Instant::now() + LIMIT;
    let mut frame = Vec::new();
    while !peer.recv(&mut frame) {
        assert!(Instant::now() < until, "no frame came");
        std::thread::yield_now();
    }
    frame
}

#[test]
fn frames_and_messages_pass_through_its_thread() {
    let (running, [mut a, mut b]) = device("", anywhere());
    let mut c = Controller::over(TcpStream::connect(running.listens_at().unwrap()).unwrap());
    c.send(1, insert(1));
    c.barrier();
    for _ in 0..1000 {
        a.send(&udp(1)).unwrap();
        assert_eq!(next(&mut b), udp(1));
    }
    let total = running.stop();
    assert_eq!((total.frames_in, total.frames_out, total.not_sent), (1000, 1000, 0));
    assert_eq!(total.connections, 1);
    assert!(b.is_abandoned());
}

#[test]
fn an_honest_barrier_is_late_and_true_by_a_real_clock_too() {
    let (running, [mut a, mut b]) = device("[update]\ninsert_us = 20000", anywhere());
    let mut c = Controller::over(TcpStream::connect(running.listens_at().unwrap()).unwrap());
    let before = Instant::now();
    c.send(1, insert(1));
    c.barrier();
    // Not sooner; how much later is the machine's affair.
    assert!(before.elapsed() >= Duration::from_millis(20));
    a.send(&udp(1)).unwrap();
    assert_eq!(next(&mut b), udp(1));
}

#[test]
fn it_goes_to_a_controller_and_comes_again() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let to = Control::Connect(listener.local_addr().unwrap());
    let (running, [mut a, mut b]) = device("", to);
    for n in 0..2 {
        let mut c = Controller::over(listener.accept().unwrap().0);
        let all = flow(FlowCommand::Add, n, Match::default(), vec![output(2)]);
        c.send(1, Message::FlowMod(all));
        c.barrier();
        a.send(&udp(5)).unwrap();
        assert_eq!(next(&mut b), udp(5));
    }
    assert_eq!(running.stop().connections, 2);
}

#[test]
fn an_address_that_is_taken_is_an_error() {
    let taken = TcpListener::bind("127.0.0.1:0").unwrap();
    let at = Control::Listen(taken.local_addr().unwrap());
    let dut = Dut::new(profile(""), &[], Nanos(0));
    assert!(start(dut, Doors { control: at, snmp: None }, Vec::new(), |_| {}).is_err());
}

/// What net-snmp's tools are told; `None`, said aloud, where they are missing.
fn asked(test: &str, tool: &str, running: &Running, more: &[&str]) -> Option<String> {
    let at = format!("udp:{}", running.snmp_at().unwrap());
    let mut c = std::process::Command::new(tool);
    c.args(["-v2c", "-c", "public", "-t", "5", "-r", "3", "-On", "-Oq", &at]).args(more);
    match c.output() {
        Ok(o) => {
            assert!(o.status.success(), "{}", String::from_utf8_lossy(&o.stderr));
            Some(String::from_utf8(o.stdout).unwrap())
        }
        Err(_) => {
            eprintln!("SKIPPED: {test}: no {tool} (package snmp)");
            None
        }
    }
}

#[test]
fn net_snmp_reads_its_counters() {
    let test = "net_snmp_reads_its_counters";
    let (running, [mut a, mut b]) = device("[snmp]\nidle_percent = 7", anywhere());
    let mut c = Controller::over(TcpStream::connect(running.listens_at().unwrap()).unwrap());
    c.send(1, insert(1));
    c.barrier();
    a.send(&udp(1)).unwrap();
    next(&mut b);
    let mib2 = |rest: &str| format!(".1.3.6.1.2.1.{rest}");
    let wanted = ["25.3.3.1.2.1", "31.1.1.1.7.1", "31.1.1.1.10.2", "31.1.1.1.1.2", "1.5.0"];
    let all: Vec<String> = wanted.map(mib2).to_vec();
    let all: Vec<&str> = all.iter().map(String::as_str).collect();
    let Some(said) = asked(test, "snmpget", &running, &all) else { return };
    let values: Vec<&str> = said.lines().map(|l| l.split_once(' ').unwrap().1).collect();
    assert_eq!(values, ["7", "1", "100", "\"b\"", "\"test\""], "{said}");
    // The whole tree, step by step and in bulk, is the same and ends.
    let step = asked(test, "snmpwalk", &running, &[".1"]).unwrap();
    let bulk = asked(test, "snmpbulkwalk", &running, &[".1"]).unwrap();
    let oids = |t: &str| {
        let lines = t.lines().filter(|l| !l.contains("No more variables"));
        lines.filter_map(|l| Some(l.split_once(' ')?.0.to_owned())).collect::<Vec<_>>()
    };
    assert_eq!(oids(&step), oids(&bulk));
    assert_eq!(oids(&step).len(), 6 + 2 * 5, "{step}");
}
