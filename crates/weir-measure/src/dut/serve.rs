//! The device on real sockets and ports: one thread that reads, asks the core, writes.
//!
//! Room: sockets, devices and the clock; all meaning is the core's. Nothing blocks. While there is
//! something to do, and for a while afterwards, the thread spins, so that what is measured is what the
//! profile says and not how this thread wakes up; for the moments in which the table changes it goes before all
//! usual threads, where it may (`attention`). Called by `weir dut` and by whoever embeds a device.

use super::attention::Attention;
use super::{CONNECTIONS_MAX, Dut, Lateness};
use crate::port::Port;
use std::io::{self, ErrorKind, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream, UdpSocket};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};
use weir_io::precedence;
use weir_packet::{Burst, Nanos};

/// Bytes read in one go.
const READ: usize = 64 * 1024;
/// How long the thread spins after the last thing that happened.
const SPIN: Duration = Duration::from_millis(20);
/// How long it rests then, at most.
const REST: Duration = Duration::from_micros(100);
/// How long it lets a controller that could not be reached alone.
const RETRY: Duration = Duration::from_secs(1);
/// How long a try to reach one may take; the ports stand still meanwhile.
const PATIENCE: Duration = Duration::from_millis(500);
/// How long a peer may take to read what it is told at the end.
const LINGER: Duration = Duration::from_secs(2);

/// Where controllers are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Control {
    /// They come here; port 0: any that is free.
    Listen(SocketAddr),
    /// The device goes there, and again whenever the connection has ended.
    Connect(SocketAddr),
}

/// Where the device is spoken to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Doors {
    /// By controllers.
    pub control: Control,
    /// By SNMP; `None`: not at all. Port 0: any that is free.
    pub snmp: Option<SocketAddr>,
}

/// A device that is running.
#[derive(Debug)]
pub struct Running {
    at: Option<SocketAddr>,
    snmp_at: Option<SocketAddr>,
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<Total>>,
}

/// What passed through it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Total {
    /// Frames that came.
    pub frames_in: u64,
    /// Frames that left.
    pub frames_out: u64,
    /// Frames that a port did not take in time.
    pub not_sent: u64,
    /// Connections that were made.
    pub connections: u64,
    /// How late changes of the table were made.
    pub late: Lateness,
}

impl Running {
    /// Where controllers can come.
    pub fn listens_at(&self) -> Option<SocketAddr> {
        self.at
    }
    /// Where it can be asked by SNMP.
    pub fn snmp_at(&self) -> Option<SocketAddr> {
        self.snmp_at
    }
    /// Ends it.
    pub fn stop(mut self) -> Total {
        self.end()
    }
    fn end(&mut self) -> Total {
        self.stop.store(true, Ordering::Relaxed);
        // One that panicked has said so.
        self.thread.take().and_then(|t| t.join().ok()).unwrap_or_default()
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        self.end();
    }
}

/// Starts a device on these ports, in its own thread. `tell` hears of connections, a line each.
/// The device must have been made at time 0, with as many ports.
///
/// # Errors
/// The address can't be had, or the thread.
pub fn start(
    dut: Dut,
    doors: Doors,
    ports: Vec<Port>,
    tell: impl FnMut(&str) + Send + 'static,
) -> io::Result<Running> {
    let (listener, goes_to) = match doors.control {
        Control::Listen(at) => {
            let l = TcpListener::bind(at)?;
            l.set_nonblocking(true)?;
            (Some(l), None)
        }
        Control::Connect(to) => (None, Some(to)),
    };
    let at = listener.as_ref().map(TcpListener::local_addr).transpose()?;
    let snmp = doors.snmp.map(UdpSocket::bind).transpose()?;
    snmp.as_ref().map(|s| s.set_nonblocking(true)).transpose()?;
    let snmp_at = snmp.as_ref().map(UdpSocket::local_addr).transpose()?;
    let stop = Arc::new(AtomicBool::new(false));
    let stopped = Arc::clone(&stop);
    let epoch = Instant::now();
    let run = move || {
        let outs = ports.iter().map(|_| Burst::new()).collect();
        let mut s = Server {
            dut,
            listener,
            goes_to,
            snmp,
            retry_at: epoch,
            ports,
            outs,
            links: Vec::new(),
            epoch,
            total: Total::default(),
            attention: Some(Attention::default()),
            buffer: vec![0; READ],
            tell: Box::new(tell),
        };
        s.run(&stopped);
        Total { late: s.dut.lateness(), ..s.total }
    };
    let thread = std::thread::Builder::new().name("weir-dut".to_owned()).spawn(run)?;
    Ok(Running { at, snmp_at, stop, thread: Some(thread) })
}

/// A connection's socket.
struct Link {
    id: u32,
    stream: TcpStream,
    peer: String,
    ending: Option<Instant>,
    open: Input,
    /// Nothing more is to be done with it.
    gone: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Input {
    Open,
    Ended,
}

/// Whether something happened.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Round {
    Busy,
    Idle,
}

struct Server {
    dut: Dut,
    listener: Option<TcpListener>,
    goes_to: Option<SocketAddr>,
    snmp: Option<UdpSocket>,
    retry_at: Instant,
    ports: Vec<Port>,
    /// Frames on their way into each port.
    outs: Vec<Burst>,
    links: Vec<Link>,
    epoch: Instant,
    total: Total,
    /// `None`: the system does not let it.
    attention: Option<Attention>,
    buffer: Vec<u8>,
    tell: Box<dyn FnMut(&str) + Send>,
}

impl Server {
    fn now(&self) -> Nanos {
        Nanos(u64::try_from(self.epoch.elapsed().as_nanos()).unwrap_or(u64::MAX))
    }

    fn run(&mut self, stop: &AtomicBool) {
        let mut busy_at = Instant::now();
        while !stop.load(Ordering::Relaxed) {
            self.attend();
            if self.round() == Round::Busy {
                busy_at = Instant::now();
            } else if busy_at.elapsed() > SPIN {
                let wake =
                    self.dut.wake_at().map(|at| Duration::from_nanos(at.since(self.now()).0));
                std::thread::sleep(wake.unwrap_or(REST).min(REST));
            } else {
                std::hint::spin_loop();
            }
        }
        for port in &mut self.ports {
            port.device.close(&mut port.pool);
        }
    }

    /// Goes before other threads, or no longer, as the moment asks.
    fn attend(&mut self) {
        let now = self.now();
        let due = self.dut.change_due();
        let Some(changed) = self.attention.as_mut().and_then(|a| a.look(now, due)) else { return };
        if precedence::take(changed).is_err() {
            self.attention = None;
        }
    }

    fn round(&mut self) -> Round {
        let before = self.total;
        let mut bytes = 0;
        self.greet();
        self.dut.tick(self.now());
        // Whatever changes the table, frames meet it before anything is said of it: an answer wakes who waits for it,
        // perhaps on this very core.
        let mut links = std::mem::take(&mut self.links);
        let mut keep = |l: &mut Link, (moved, goes_on): (usize, Input)| {
            bytes += moved;
            l.gone |= goes_on == Input::Ended;
        };
        for l in &mut links {
            let heard = self.hear(l);
            keep(l, heard);
        }
        self.receive();
        self.send();
        for l in links.iter_mut().filter(|l| !l.gone) {
            let said = self.answer(l);
            keep(l, said);
        }
        links.retain(|l| !l.gone);
        self.links.append(&mut links);
        // A packet-out may have left something.
        self.send();
        self.answer_snmp();
        if bytes > 0 || self.total != before { Round::Busy } else { Round::Idle }
    }

    /// Takes connections, or makes one.
    fn greet(&mut self) {
        if let Some(l) = &self.listener {
            // An error is the peer's, or a want of descriptors: the next round tries again.
            if let Ok((stream, _)) = l.accept() {
                self.enter(stream);
            }
        }
        let Some(to) = self.goes_to.filter(|_| self.links.is_empty()) else { return };
        if Instant::now() < self.retry_at {
            return;
        }
        self.retry_at = Instant::now() + RETRY;
        match TcpStream::connect_timeout(&to, PATIENCE) {
            Ok(stream) => self.enter(stream),
            Err(e) => (self.tell)(&format!("controller {to} can't be reached: {e}")),
        }
    }

    fn enter(&mut self, stream: TcpStream) {
        let peer = stream.peer_addr().map_or_else(|_| "?".to_owned(), |a| a.to_string());
        let set = stream.set_nonblocking(true).and_then(|()| stream.set_nodelay(true));
        let id = set.ok().and_then(|()| self.dut.connect(self.now()));
        let Some(id) = id else {
            (self.tell)(&format!("{peer} refused: {CONNECTIONS_MAX} connections at most"));
            return;
        };
        (self.tell)(&format!("{peer} connected"));
        self.total.connections += 1;
        self.links.push(Link { id, stream, peer, ending: None, open: Input::Open, gone: false });
    }

    /// Reads one connection: how many bytes moved, and whether it goes on.
    fn hear(&mut self, l: &mut Link) -> (usize, Input) {
        let mut moved = 0;
        let room = self.dut.input_room(l.id).min(READ);
        if room > 0 && l.open == Input::Open {
            match l.stream.read(&mut self.buffer[..room]) {
                Ok(0) => l.open = Input::Ended,
                Ok(n) => {
                    let now = self.now();
                    self.dut.receive(l.id, &self.buffer[..n], now);
                    if let Some(a) = &mut self.attention {
                        a.heard(now);
                    }
                    moved += n;
                }
                Err(e) if again(&e) => {}
                Err(e) => return (moved, self.leave(l, &e.to_string())),
            }
        }
        (moved, Input::Open)
    }

    /// Writes it, likewise.
    fn answer(&mut self, l: &mut Link) -> (usize, Input) {
        let mut moved = 0;
        loop {
            let bytes = self.dut.outgoing(l.id);
            if bytes.is_empty() {
                break;
            }
            match l.stream.write(bytes) {
                Ok(0) => return (moved, self.leave(l, "nothing can be written")),
                Ok(n) => {
                    self.dut.advance(l.id, n);
                    moved += n;
                }
                Err(e) if again(&e) => break,
                Err(e) => return (moved, self.leave(l, &e.to_string())),
            }
        }
        let over = match (self.dut.over(l.id), l.open) {
            (Some(why), _) => Some(why.to_owned()),
            (None, Input::Ended) => Some("closed by the peer".to_owned()),
            (None, Input::Open) => None,
        };
        if let Some(why) = over {
            let until = *l.ending.get_or_insert_with(|| Instant::now() + LINGER);
            if self.dut.outgoing(l.id).is_empty() || Instant::now() >= until {
                return (moved, self.leave(l, &why));
            }
        }
        (moved, Input::Open)
    }

    /// One question a round: who asks more must wait.
    fn answer_snmp(&mut self) {
        let now = self.now();
        let Some(socket) = &self.snmp else { return };
        let Ok((n, from)) = socket.recv_from(&mut self.buffer) else { return };
        if let Some(answer) = self.dut.snmp(self.buffer.get(..n).unwrap_or_default(), now) {
            // A datagram may be lost anyway: whoever asked asks again.
            let _ = socket.send_to(&answer, from);
        }
    }

    fn leave(&mut self, l: &Link, why: &str) -> Input {
        self.dut.disconnect(l.id);
        (self.tell)(&format!("{} has gone: {why}", l.peer));
        Input::Ended
    }

    fn receive(&mut self) {
        let mut burst = Burst::new();
        for i in 0..self.ports.len() {
            let now = self.now();
            let Some(port) = self.ports.get_mut(i) else { return };
            port.device.rx(&mut port.pool, &mut burst);
            for frame in burst.drain() {
                self.total.frames_in += 1;
                self.dut.frame_in(i as u32 + 1, frame.bytes(), now);
                port.pool.free(frame);
            }
        }
    }

    fn send(&mut self) {
        while let Some((no, bytes)) = self.dut.frame_out() {
            let at = (no as usize).wrapping_sub(1);
            let Some((port, out)) = self.ports.get_mut(at).zip(self.outs.get_mut(at)) else {
                continue;
            };
            if out.room() == 0 {
                self.total.frames_out += port.device.tx(&mut port.pool, out) as u64;
            }
            let fits = bytes.len() <= port.device.caps().max_frame_bytes;
            let frame = if fits && out.room() > 0 { port.pool.alloc() } else { None };
            let Some(mut frame) = frame else {
                self.total.not_sent += 1;
                continue;
            };
            let left = match frame.copy_from(&bytes) {
                Ok(()) => out.push(frame).err(),
                Err(_) => Some(frame),
            };
            if let Some(frame) = left {
                self.total.not_sent += 1;
                port.pool.free(frame);
            }
        }
        for (port, out) in self.ports.iter_mut().zip(&mut self.outs) {
            if !out.is_empty() {
                self.total.frames_out += port.device.tx(&mut port.pool, out) as u64;
            }
            port.device.flush(&mut port.pool);
        }
    }
}

fn again(e: &io::Error) -> bool {
    matches!(e.kind(), ErrorKind::WouldBlock | ErrorKind::Interrupted)
}
