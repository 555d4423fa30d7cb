//! A laboratory of network namespaces: two hosts, and between them the namespace in which the
//! ports under test are opened. Needs root and iproute2; says so where it is not there.
#![allow(dead_code)]

mod tag;

use std::os::fd::AsRawFd;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};
use tag::Tagger;
use weir_packet::{Burst, Device, DeviceCounters, Pool};

static NEXT: AtomicU32 = AtomicU32::new(0);

/// Whether namespaces can be made here; says so where not.
pub fn can_have_namespaces(test: &str) -> bool {
    let name = format!("wio{}t{}", std::process::id(), NEXT.fetch_add(1, Ordering::Relaxed));
    let made = Command::new("ip").args(["netns", "add", &name]).output();
    let made = made.is_ok_and(|o| o.status.success());
    if made {
        let _ = Command::new("ip").args(["netns", "del", &name]).output();
    } else {
        eprintln!("SKIPPED: {test} needs root and iproute2");
    }
    made
}

/// Whether the programs are installed; says so where not.
pub fn have(test: &str, tools: &[&str]) -> bool {
    tools.iter().all(|t| {
        let there = Command::new("sh").args(["-c", &format!("command -v {t}")]).output();
        let there = there.is_ok_and(|o| o.status.success());
        if !there {
            eprintln!("SKIPPED: {test} needs {t}");
        }
        there
    })
}

/// Namespaces that are deleted, with everything in them, when the lab is dropped.
pub struct Lab {
    prefix: String,
    namespaces: Vec<String>,
    children: Vec<Child>,
    taggers: Vec<Tagger>,
}

impl Lab {
    /// Namespaces of these names (`w` is where ports are opened).
    pub fn new(names: &[&str]) -> Self {
        let n = NEXT.fetch_add(1, Ordering::Relaxed);
        let prefix = format!("wio{}x{n}", std::process::id());
        let mut lab =
            Self { prefix, namespaces: Vec::new(), children: Vec::new(), taggers: Vec::new() };
        for name in names {
            let full = lab.full(name);
            run(&format!("ip netns add {full}"));
            run(&format!("ip -n {full} link set lo up"));
            lab.namespaces.push(full);
        }
        lab
    }

    /// A host `h1` with `eth0`, joined to `p1` in `w`, and the same with 2. IPv6 comes up at once
    /// (no duplicate address detection); `w` itself has no addresses.
    pub fn two_hosts() -> Self {
        let lab = Self::new(&["h1", "w", "h2"]);
        lab.quiet("w");
        for n in [1, 2] {
            lab.veth(n);
        }
        lab
    }

    /// `p<n>` in `w`, joined to `eth0` in `h<n>`, both up.
    pub fn veth(&self, n: u8) {
        let (w, h) = (self.full("w"), self.full(&format!("h{n}")));
        run(&format!("ip link add p{n} netns {w} type veth peer name eth0 netns {h}"));
        run(&format!("ip -n {w} link set p{n} up"));
        run(&format!("ip -n {h} link set eth0 up"));
    }

    /// Keeps the kernel of a namespace from speaking by itself.
    pub fn quiet(&self, name: &str) {
        self.run(
            name,
            "sysctl -qw net.ipv6.conf.all.disable_ipv6=1 net.ipv6.conf.default.disable_ipv6=1",
        );
    }

    /// Addresses 10.<net>.0.<n> and fd00:<net>::<n> on an interface of host `n`.
    pub fn address(&self, n: u8, interface: &str, net: u8) {
        let h = format!("h{n}");
        self.run(&h, &format!("ip addr add 10.{net}.0.{n}/24 dev {interface}"));
        self.run(&h, &format!("ip addr add fd00:{net}::{n}/64 nodad dev {interface}"));
    }

    /// Puts what host `n` sends by `eth0` into VLAN `vid`, and takes it out on reception.
    pub fn tag(&mut self, n: u8, vid: u16) {
        let tagger = Tagger::new(&self.full(&format!("h{n}")), "eth0", vid);
        self.taggers.push(tagger);
    }

    pub fn full(&self, name: &str) -> String {
        format!("{}{name}", self.prefix)
    }

    /// Runs a command in a namespace; its output.
    pub fn run(&self, name: &str, command: &str) -> String {
        run(&format!("ip netns exec {} {command}", self.full(name)))
    }

    /// Whether a command in a namespace succeeds.
    pub fn works(&self, name: &str, command: &str) -> bool {
        shell(&format!("ip netns exec {} {command}", self.full(name))).status.success()
    }

    /// Starts a program in a namespace; it ends with the lab.
    pub fn start(&mut self, name: &str, command: &str) {
        let child = Command::new("sh")
            .args(["-c", &format!("exec ip netns exec {} {command}", self.full(name))])
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        self.children.push(child);
    }

    /// Serves a directory by HTTP at port 8000 of host 2, both families.
    pub fn serve(&mut self, directory: &Path) {
        let dir = directory.display();
        self.start("h2", &format!("python3 -m http.server 8000 --bind :: --directory {dir}"));
        let up = Instant::now();
        while !self.works("h2", "curl -s -o /dev/null http://127.0.0.1:8000/") {
            assert!(up.elapsed() < Duration::from_secs(20), "the web server did not start");
            std::thread::sleep(Duration::from_millis(50));
        }
    }

    /// Host 1 downloads `file` from `url` on host 2; it must be what `expected` holds.
    pub fn download(&self, url: &str, expected: &[u8], scratch: &Path) {
        let to = scratch.join("downloaded");
        self.run("h1", &format!("curl -sS -g --max-time 60 -o {} {url}", to.display()));
        assert!(std::fs::read(&to).unwrap() == expected, "{url} came changed");
    }

    /// Runs `body` in a thread that is in the namespace.
    pub fn within<T: Send + 'static>(
        &self,
        name: &str,
        body: impl FnOnce() -> T + Send + 'static,
    ) -> JoinHandle<T> {
        let file = std::fs::File::open(format!("/run/netns/{}", self.full(name))).unwrap();
        std::thread::spawn(move || {
            // SAFETY: no memory is involved; only this thread changes its namespace.
            let r = unsafe { libc::setns(file.as_raw_fd(), libc::CLONE_NEWNET) };
            assert_eq!(r, 0, "setns: {}", std::io::Error::last_os_error());
            body()
        })
    }
}

impl Drop for Lab {
    fn drop(&mut self) {
        for c in &mut self.children {
            let _ = c.kill();
            let _ = c.wait();
        }
        for n in &self.namespaces {
            let _ = Command::new("ip").args(["netns", "del", n]).output();
        }
    }
}

fn shell(command: &str) -> std::process::Output {
    Command::new("sh").args(["-c", command]).output().unwrap()
}

pub fn run(command: &str) -> String {
    let out = shell(command);
    assert!(out.status.success(), "{command}: {}", String::from_utf8_lossy(&out.stderr));
    String::from_utf8_lossy(&out.stdout).into_owned()
}

/// Bytes that no compression or offset error survives.
pub fn content(len: usize) -> Vec<u8> {
    let mut x = 0x2545_f491_4f6c_dd1d_u64;
    (0..len)
        .map(|_| {
            x ^= x << 13;
            x ^= x >> 7;
            x ^= x << 17;
            (x >> 24) as u8
        })
        .collect()
}

/// What a forwarding thread saw.
#[derive(Debug, Default)]
pub struct Seen {
    pub frames: u64,
    pub tagged: u64,
    pub longest: usize,
    pub counters: [DeviceCounters; 2],
}

type Ports = [Box<dyn Device>; 2];

/// Forwards between two ports in a thread of its own until it is stopped.
pub struct Forwarder {
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<Seen>>,
}

impl Forwarder {
    /// `open` is called in namespace `w`, with the pool of the forwarding thread.
    pub fn start(
        lab: &Lab,
        chunks: usize,
        open: impl FnOnce(&mut Pool) -> Ports + Send + 'static,
    ) -> Self {
        let stop = Arc::new(AtomicBool::new(false));
        let (stopped, ready) = (stop.clone(), Arc::new(AtomicBool::new(false)));
        let opened = ready.clone();
        let thread = lab.within("w", move || {
            let mut pool = Pool::new(chunks, 2048).unwrap();
            let ports = open(&mut pool);
            opened.store(true, Ordering::Release);
            forward(pool, ports, &stopped)
        });
        while !ready.load(Ordering::Acquire) && !thread.is_finished() {
            std::thread::sleep(Duration::from_millis(5));
        }
        Self { stop, thread: Some(thread) }
    }

    /// Stops it; what it saw. Every chunk is home by then.
    pub fn stop(mut self) -> Seen {
        self.stop.store(true, Ordering::Release);
        self.thread.take().unwrap().join().unwrap()
    }
}

impl Drop for Forwarder {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Release);
    }
}

fn forward(mut pool: Pool, mut ports: Ports, stop: &AtomicBool) -> Seen {
    let mut seen = Seen::default();
    let mut bursts = [Burst::new(), Burst::new()];
    let mut rounds = 0u32;
    while !stop.load(Ordering::Acquire) {
        let mut idle = true;
        for from in [0, 1] {
            let burst = &mut bursts[from];
            let old = burst.len();
            let n = ports[from].rx(&mut pool, burst);
            for f in &burst.as_slice()[old..] {
                seen.longest = seen.longest.max(f.len());
                seen.tagged += u64::from(f.bytes().get(12..14) == Some(&[0x81, 0]));
            }
            seen.frames += n as u64;
            ports[1 - from].tx(&mut pool, burst);
            idle &= n == 0 && burst.is_empty();
        }
        for p in &mut ports {
            p.flush(&mut pool);
        }
        rounds += 1;
        if rounds.is_multiple_of(4096) {
            for p in &mut ports {
                p.link(&mut pool);
            }
        }
        if idle {
            std::thread::sleep(Duration::from_micros(50));
        }
        let held: usize = ports.iter().map(|p| p.held()).sum();
        let waiting: usize = bursts.iter().map(Burst::len).sum();
        assert_eq!(pool.available() + held + waiting, pool.count(), "a chunk is lost");
    }
    seen.counters = [ports[0].counters(), ports[1].counters()];
    for b in &mut bursts {
        for f in b.drain() {
            pool.free(f);
        }
    }
    for p in &mut ports {
        p.close(&mut pool);
        assert_eq!(p.held(), 0);
    }
    assert_eq!(pool.available(), pool.count(), "a chunk did not come home");
    seen
}
