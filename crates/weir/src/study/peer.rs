//! Open vSwitch with DPDK as the other data plane: the same frames from memory, the same job as rules, one core.
//!
//! Room: processes (`ovsdb-server`, `ovs-vswitchd`) in a directory and a network namespace of their own,
//! hugepages while they run. Needs root and Debian's `openvswitch-switch-dpdk`; where one is missing,
//! [`missing`] says which. Everything is gone when the [`Switch`] is dropped. `bench/peers` compares
//! whole programs by the same means.

use crate::left;
use crate::namespace::Namespace;
use anyhow::{Context, Result, anyhow, bail};
use std::fs::{self, File};
use std::io::BufWriter;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};
use weir_calibrate::clock;
use weir_io::capture_file::{Format, Writer};
use weir_io::replay::Arena;
use weir_measure::cpu::parse_schedstat;
use weir_packet::Nanos;

/// Open vSwitch built with DPDK, where Debian puts it.
const BINARY: &str = "/usr/lib/openvswitch-switch-dpdk/ovs-vswitchd-dpdk";
const PAGES: &str = "/sys/kernel/mm/hugepages/hugepages-2048kB";
/// Memory that DPDK is given, in MiB.
const MEMORY: u32 = 1024;
/// Pages of 2 MiB that it needs besides, for what is not in its pools.
const MORE: u64 = 40;
/// How long it may take to come up, and to have its caches filled.
const PATIENCE: Duration = Duration::from_secs(40);
/// Cycles of the chain before and after a sample.
const CHAIN: u64 = 40_000;
/// Samples of a measurement. The kernel brings a thread's account up to date only every few
/// milliseconds, so they are few and long.
const SAMPLES: u32 = 3;
/// The part of its frames that a function may deny: access lists do.
const DENIED: f64 = 0.1;
/// Misses of this part of the frames are none: its caches are filled.
const FILLED: f64 = 1e-5;

/// What is missing for it here, if anything.
pub fn missing() -> Option<&'static str> {
    if !rustix::process::geteuid().is_root() {
        return Some("root");
    }
    let there = |p: &str| Path::new(p).exists();
    let tools = ["/usr/bin/ovs-vsctl", "/usr/bin/ovs-ofctl", "/usr/sbin/ovsdb-server"];
    if !there(BINARY) || !tools.into_iter().all(there) {
        return Some("Open vSwitch with DPDK (openvswitch-switch-dpdk)");
    }
    (!there(PAGES)).then_some("hugepages of 2 MiB")
}

/// Hugepages; as many as there were when dropped.
struct Pages {
    were: u64,
}

impl Pages {
    fn read(name: &str) -> Result<u64> {
        let path = format!("{PAGES}/{name}");
        let text = fs::read_to_string(&path).context(path.clone())?;
        text.trim().parse().with_context(|| format!("{path}: {text}"))
    }
    /// So many that are free.
    fn take() -> Result<Self> {
        let this = Self { were: Self::read("nr_hugepages")? };
        let wanted = u64::from(MEMORY / 2) + MORE;
        let short = wanted.saturating_sub(Self::read("free_hugepages")?);
        fs::write(format!("{PAGES}/nr_hugepages"), (this.were + short).to_string())
            .context("hugepages")?;
        let free = Self::read("free_hugepages")?;
        if free < wanted {
            bail!("the kernel gives {free} hugepages of the {wanted} that Open vSwitch is to have");
        }
        Ok(this)
    }
}

impl Drop for Pages {
    fn drop(&mut self) {
        // Those that are still in use go when they are free.
        let _ = fs::write(format!("{PAGES}/nr_hugepages"), self.were.to_string());
    }
}

/// What it has counted, and the CPU time that it took.
#[derive(Clone, Copy, Debug)]
struct Count {
    received: u64,
    missed: u64,
    cpu_ns: f64,
}

/// A switch with one bridge, and rules in it.
pub struct Switch {
    /// In the order in which they were begun.
    children: Vec<Child>,
    directory: PathBuf,
    namespace: Namespace,
    _pages: Pages,
    /// The processor of its forwarding thread.
    core: usize,
}

impl Switch {
    /// One with these rules, in its own flow syntax.
    ///
    /// # Errors
    /// It did not come up, or refuses a rule.
    pub fn new(flows: &str) -> Result<Self> {
        let namespace = Namespace::new(left::STUDY, "o")?;
        namespace.ip("link set lo up\n")?;
        let pages = Pages::take()?;
        let directory = std::env::temp_dir().join(namespace.name());
        fs::create_dir(&directory).with_context(|| directory.display().to_string())?;
        let cpus = weir_calibrate::cpus::allowed();
        let core = cpus.last().copied().unwrap_or(0);
        let mut this = Self { children: Vec::new(), directory, namespace, _pages: pages, core };
        this.begin(cpus.first().copied().unwrap_or(0))?;
        let file = this.directory.join("rules");
        fs::write(&file, flows).context("rules")?;
        let bridge = this.file("br.mgmt");
        let rules = this.file("rules");
        this.call("ovs-ofctl", &["-O", "OpenFlow13", "--bundle", "add-flows", &bridge, &rules])?;
        Ok(this)
    }

    fn file(&self, name: &str) -> String {
        self.directory.join(name).display().to_string()
    }

    fn command(&self, program: &str) -> Command {
        let mut c = Command::new(program);
        for name in ["OVS_RUNDIR", "OVS_LOGDIR", "OVS_DBDIR", "OVS_SYSCONFDIR"] {
            c.env(name, &self.directory);
        }
        c.env("OVS_PKGDATADIR", "/usr/share/openvswitch").stdin(Stdio::null());
        c
    }

    fn call(&self, program: &str, arguments: &[&str]) -> Result<String> {
        let done = self.command(program).args(arguments).output().context(program.to_owned())?;
        if !done.status.success() {
            let said = String::from_utf8_lossy(&done.stderr);
            bail!("{program}: {}", said.trim().lines().last().unwrap_or("failed"));
        }
        Ok(String::from_utf8_lossy(&done.stdout).into_owned())
    }

    fn vsctl(&self, arguments: &[&str]) -> Result<String> {
        let db = format!("--db=unix:{}", self.file("db.sock"));
        self.call("ovs-vsctl", &[&["--timeout=60", &db], arguments].concat())
    }

    fn appctl(&self, arguments: &[&str]) -> Result<String> {
        let socket = self.file("vswitchd.ctl");
        self.call("ovs-appctl", &[&["-t", &socket], arguments].concat())
    }

    /// Begins a process in the namespace; it is there when `sign` is.
    fn start(&mut self, program: &str, arguments: &[&str], sign: &str) -> Result<()> {
        let log = File::options().append(true).create(true).open(self.directory.join("log"))?;
        let mut command = self.command(program);
        command.args(arguments).stdout(log.try_clone()?).stderr(log);
        let child = self.namespace.within(|| command.spawn().context(program.to_owned()))?;
        self.children.push(child);
        let sign = self.directory.join(sign);
        self.wait(program, |_| Ok(sign.exists()))
    }

    fn wait(&mut self, what: &str, mut done: impl FnMut(&Self) -> Result<bool>) -> Result<()> {
        let end = Instant::now() + PATIENCE;
        while !done(self)? {
            let over = self.children.last_mut().is_some_and(|c| !matches!(c.try_wait(), Ok(None)));
            if over || Instant::now() > end {
                let log = fs::read_to_string(self.directory.join("log")).unwrap_or_default();
                bail!("{what} did not come up: {}", log.trim().lines().last().unwrap_or("no word"));
            }
            std::thread::sleep(Duration::from_millis(20));
        }
        Ok(())
    }

    fn begin(&mut self, control: usize) -> Result<()> {
        let (db, socket) = (self.file("conf.db"), format!("unix:{}", self.file("db.sock")));
        self.call("ovsdb-tool", &["create", &db, "/usr/share/openvswitch/vswitch.ovsschema"])?;
        let remote = format!("--remote=p{socket}");
        let ctl = format!("--unixctl={}", self.file("db.ctl"));
        self.start("ovsdb-server", &[&db, &remote, &ctl], "db.sock")?;
        let of = |core: usize| format!("{:#x}", 1u64.checked_shl(core as u32).unwrap_or(1));
        let settings = [
            "dpdk-init=true".to_owned(),
            format!("dpdk-socket-mem={MEMORY}"),
            format!("pmd-cpu-mask={}", of(self.core)),
            format!("dpdk-lcore-mask={}", of(control)),
            // Memory of its own and no files: no hugetlbfs is mounted, nothing is left behind.
            "dpdk-extra=\"--no-pci --no-telemetry --in-memory\"".to_owned(),
            // The limit of its cache's entries starts low and grows with each round of these.
            "max-revalidator=100".to_owned(),
        ];
        let settings: Vec<String> = settings.iter().map(|s| format!("other_config:{s}")).collect();
        let mut all = vec!["--no-wait", "init", "--", "set", "Open_vSwitch", "."];
        all.extend(settings.iter().map(String::as_str));
        self.vsctl(&all)?;
        let ctl = format!("--unixctl={}", self.file("vswitchd.ctl"));
        self.start(BINARY, &[&socket, &ctl, "--disable-system"], "vswitchd.ctl")?;
        self.vsctl(&[
            "add-br",
            "br",
            "--",
            "set",
            "bridge",
            "br",
            "datapath_type=netdev",
            "fail-mode=secure",
            "protocols=OpenFlow13,OpenFlow14",
            "other_config:mac-table-size=1000000",
            "other_config:mac-aging-time=3600",
        ])?;
        let bridge = self.directory.join("br.mgmt");
        self.wait("the bridge", |_| Ok(bridge.exists()))
    }

    /// Adds port 1 and 2: one that plays the frames that were filed under it, or a sink.
    fn ports(&self, frames: &Arena) -> Result<()> {
        // What has nothing to play comes first, so that what is played has somewhere to go.
        let mut all: Vec<(bool, u16)> =
            [1, 2].map(|no| (frames.iter().any(|f| f.port == no), no)).into();
        all.sort_unstable();
        for (plays, no) in all {
            let device = match plays {
                true => {
                    let path = self.directory.join(format!("p{no}.pcap"));
                    let mut to =
                        Writer::new(BufWriter::new(File::create(&path)?), Format::Pcap, 0)?;
                    for f in frames.iter().filter(|f| f.port == no) {
                        to.write(0, Nanos(0), None, f.bytes)?;
                    }
                    to.flush()?;
                    format!("\"net_pcap{no},rx_pcap={},infinite_rx=1\"", path.display())
                }
                false => format!("\"net_null{no},no-rx=1\""),
            };
            let (name, number) = (format!("p{no}"), format!("ofport_request={no}"));
            let device = format!("options:dpdk-devargs={device}");
            let set = ["--", "set", "Interface", &name, "type=dpdk", &number, &device];
            self.vsctl(&[&["add-port", "br", &name], &set[..]].concat())?;
            let fault = self.vsctl(&["get", "Interface", &name, "error"])?;
            if fault.trim() != "[]" {
                bail!("Open vSwitch's port {no}: {}", fault.trim());
            }
        }
        Ok(())
    }

    fn count(&self, schedstat: &Path) -> Result<Count> {
        let stats = self.appctl(&["dpif-netdev/pmd-stats-show"])?;
        let thread = format!("core_id {}:", self.core);
        let of = stats.split("pmd thread").find(|t| t.contains(&thread)).unwrap_or_default();
        let number = |name: &str| -> Option<u64> {
            let line = of.lines().find(|l| l.trim_start().starts_with(name))?;
            line.rsplit(':').next()?.trim().parse().ok()
        };
        let text = fs::read_to_string(schedstat).context("the forwarding thread")?;
        Ok(Count {
            received: number("packets received:").context("pmd-stats-show: no count")?,
            missed: number("miss with success upcall:").unwrap_or(0)
                + number("miss with failed upcall:").unwrap_or(0),
            cpu_ns: parse_schedstat(&text).context("schedstat")?.as_nanos() as f64,
        })
    }

    /// Frames that its rules dropped. The forwarding thread tells of them every few seconds.
    fn dropped(&self) -> Result<u64> {
        let said = self.appctl(&["coverage/read-counter", "drop_action_of_pipeline"])?;
        said.trim().parse().with_context(|| format!("dropped frames: {}", said.trim()))
    }

    /// The file where the kernel says what the forwarding thread has used.
    fn schedstat(&self) -> Result<PathBuf> {
        let pid = self.children.last().map_or(0, Child::id);
        let name = format!("pmd-c{:02}", self.core);
        for task in fs::read_dir(format!("/proc/{pid}/task"))?.flatten() {
            let comm = fs::read_to_string(task.path().join("comm")).unwrap_or_default();
            if comm.starts_with(&name) {
                return Ok(task.path().join("schedstat"));
            }
        }
        bail!("Open vSwitch has no forwarding thread on processor {}", self.core)
    }

    /// Cycles for each of these frames, played over and over, once its caches are filled: of the CPU time of
    /// its forwarding thread, its source and its sink included.
    ///
    /// # Errors
    /// It takes no frames, or has not filled its caches after long.
    pub fn cycles(&mut self, frames: &Arena, time: Duration) -> Result<f64> {
        self.ports(frames)?;
        let found = self.measured(time);
        for name in ["p1", "p2"] {
            self.vsctl(&["del-port", "br", name])?;
        }
        found
    }

    fn measured(&self, time: Duration) -> Result<f64> {
        let schedstat = self.schedstat()?;
        let end = Instant::now() + PATIENCE;
        let mut last = self.count(&schedstat)?;
        loop {
            std::thread::sleep(Duration::from_millis(700));
            let now = self.count(&schedstat)?;
            let frames = (now.received - last.received) as f64;
            if frames > 0.0 && (now.missed - last.missed) as f64 <= frames * FILLED {
                break;
            }
            if Instant::now() > end {
                let missed = now.missed - last.missed;
                bail!("Open vSwitch's caches do not fill: {missed} of {frames} frames miss them");
            }
            last = now;
        }
        let (before, dropped) = (self.count(&schedstat)?, self.dropped()?);
        let mut samples = Vec::new();
        for _ in 0..SAMPLES {
            let (before, from) = (clock::cycle_ns(CHAIN), self.count(&schedstat)?);
            std::thread::sleep(time / SAMPLES);
            let to = self.count(&schedstat)?;
            let cycle_ns = f64::midpoint(before, clock::cycle_ns(CHAIN));
            let frames = (to.received - from.received) as f64;
            if frames > 0.0 {
                samples.push((to.cpu_ns - from.cpu_ns) / frames / cycle_ns);
            }
        }
        let received = self.count(&schedstat)?.received - before.received;
        let dropped = self.dropped()? - dropped;
        if dropped as f64 > received as f64 * DENIED {
            bail!(
                "Open vSwitch drops {dropped} of {received} frames: its rules are not the function"
            );
        }
        let median = weir_measure::stats::median(&samples);
        median.ok_or_else(|| anyhow!("Open vSwitch takes no frames"))
    }
}

impl Drop for Switch {
    fn drop(&mut self) {
        // The switch before its database.
        for child in self.children.iter_mut().rev() {
            if let Some(pid) = rustix::process::Pid::from_raw(child.id() as i32) {
                let _ = rustix::process::kill_process(pid, rustix::process::Signal::TERM);
            }
            let end = Instant::now() + Duration::from_secs(20);
            while matches!(child.try_wait(), Ok(None)) {
                if Instant::now() > end {
                    let _ = child.kill();
                }
                std::thread::sleep(Duration::from_millis(20));
            }
        }
        let _ = fs::remove_dir_all(&self.directory);
    }
}

#[cfg(test)]
#[allow(clippy::print_stderr, reason = "tests say what they skip")]
mod tests {
    use super::*;
    use crate::functions::{Frames, named};
    use crate::validate::{Locality, order};

    /// It takes a gigabyte of hugepages and a processor for seconds: with `WEIR_SOAK=1` alone.
    #[test]
    fn soak_open_vswitch_takes_frames_of_functions() {
        let soaks = std::env::var("WEIR_SOAK").is_ok_and(|v| v == "1");
        if let Some(what) = missing().or((!soaks).then_some("WEIR_SOAK=1")) {
            return eprintln!("SKIPPED: Open vSwitch takes frames of functions: it takes {what}");
        }
        for name in ["mpls-switch", "l2-learning"] {
            let function = named(name).expect(name);
            let order = order(16, Locality::Uniform);
            let frames = Frames::of(function, 16, &order[..512], 60).expect("frames");
            let rules = function.ovs(16).expect("rules");
            let mut switch = Switch::new(&rules).expect("a switch");
            let directory = switch.directory.clone();
            let cycles = switch.cycles(&frames.rest, Duration::from_millis(300)).expect("cycles");
            eprintln!("soak: Open vSwitch, {name}: {cycles:.0} cycles for a frame");
            assert!(cycles > 1.0, "{name}: {cycles}");
            drop(switch);
            assert!(!directory.exists(), "left behind: {}", directory.display());
        }
    }
}
