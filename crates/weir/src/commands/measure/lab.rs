//! A switch to measure, made here: Open vSwitch's user-space data path, weir, or a device with known faults,
//! in a network namespace of its own, wired to another in which the tester's ports are.
//!
//! Room: processes, files in a directory of its own, namespaces. Needs root and iproute2. All of it is gone
//! when the [`Lab`] is dropped; what one that was killed has left, before the next is made.
//!
//! ```text
//!  tester   e1        e2
//!            │         │
//!  device   p1 switch p2     control channel on the device's loopback
//! ```

use super::agent;
use super::reset::Restarted;
use crate::commands::dut;
use crate::config::error::nearest;
use crate::left;
use crate::namespace::{Door, Namespace, QUIET};
use anyhow::{Context, Result, anyhow, bail};
use rustix::process::{Pid, Signal, kill_process};
use std::fmt::Write as _;
use std::net::{Ipv4Addr, SocketAddr, TcpStream};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::str::FromStr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};
use weir_measure::dut::profile::BUILTIN;
use weir_measure::engine::beside_generator;
use weir_measure::engine::sampling::{Periodic, Sampler};
use weir_measure::engine::wire::{self, Channel};
use weir_measure::module::Sample;
use weir_measure::snmp::ProcessSampler;

/// Ports of a lab.
const PORTS: usize = 2;
/// Where its switch listens, on its own loopback.
const AT: SocketAddr = SocketAddr::new(
    std::net::IpAddr::V4(Ipv4Addr::LOCALHOST),
    crate::openflow::address::DEFAULT_PORT,
);
/// Where a device of known faults answers SNMP, likewise.
const AGENT: SocketAddr = SocketAddr::new(std::net::IpAddr::V4(Ipv4Addr::LOCALHOST), 1161);
/// How long a switch may take to come up.
const START: Duration = Duration::from_secs(30);

/// Which switch.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Open vSwitch, `datapath_type=netdev`.
    Ovs,
    /// `weir run` with one VDP.
    Weir,
    /// `weir dut`.
    Dut {
        /// What `--profile` is given: a name or a file.
        profile: String,
        /// The name that the profile has.
        name: String,
    },
}

impl FromStr for Kind {
    type Err = String;
    fn from_str(text: &str) -> Result<Self, String> {
        match text {
            "ovs" => Ok(Self::Ovs),
            "weir" => Ok(Self::Weir),
            other => match dut::load(other) {
                Ok(p) => Ok(Self::Dut { profile: other.to_owned(), name: p.name }),
                Err(e) if other.contains(['/', '.']) => Err(format!("--lab: {e}")),
                Err(_) => {
                    let known = ["ovs", "weir"].into_iter().chain(BUILTIN.iter().map(|p| p.0));
                    let near = nearest(other, known);
                    let near = near.map_or_else(String::new, |n| format!(" (did you mean '{n}'?)"));
                    Err(format!(
                        "--lab {other}{near}: there are 'ovs', 'weir', the profiles of 'weir dut --list', \
                         and files of profiles"
                    ))
                }
            },
        }
    }
}

/// A switch that runs, and its wires.
pub struct Lab {
    /// What it is.
    pub name: String,
    /// How reports say it is reached.
    pub control: String,
    /// The tester's interfaces.
    pub ports: Vec<String>,
    /// Where it listens, in its namespace.
    pub at: SocketAddr,
    tester: Namespace,
    device: Namespace,
    directory: PathBuf,
    children: Vec<Child>,
    /// It tells its processor's load there, in its namespace.
    agent: Option<SocketAddr>,
    /// The data path's process, once it has been started.
    data_path: Option<Arc<Mutex<Restarted>>>,
}

impl Lab {
    /// Makes namespaces and wires, and starts the switch.
    ///
    /// # Errors
    /// No rights, no iproute2, no Open vSwitch; a switch that does not come up.
    pub fn start(kind: Kind) -> Result<Self> {
        if !rustix::process::geteuid().is_root() {
            bail!("--lab makes network namespaces: run it as root");
        }
        left::sweep();
        let tester = Namespace::new(left::LAB, "t")?;
        let device = Namespace::new(left::LAB, "d")?;
        tester.set(QUIET)?;
        device.set(QUIET)?;
        let mut lines = String::new();
        for n in 1..=PORTS {
            let _ = writeln!(
                lines,
                "link add name e{n} type veth peer name p{n} netns {}\nlink set e{n} up",
                device.name()
            );
        }
        tester.ip(&lines)?;
        let up: String = (1..=PORTS).map(|n| format!("link set p{n} up\n")).collect();
        device.ip(&format!("link set lo up\n{up}"))?;
        let directory = std::env::temp_dir().join(device.name());
        std::fs::create_dir(&directory).with_context(|| directory.display().to_string())?;
        let mut lab = Self {
            name: String::new(),
            control: format!("tcp:{AT}"),
            ports: (1..=PORTS).map(|n| format!("e{n}")).collect(),
            at: AT,
            tester,
            device,
            directory,
            children: Vec::new(),
            agent: None,
            data_path: None,
        };
        match kind {
            Kind::Ovs => lab.start_ovs()?,
            Kind::Weir => lab.start_weir()?,
            Kind::Dut { profile, name } => lab.start_dut(&profile, name)?,
        }
        lab.wait_for("the switch's control port", |l| {
            let at = l.at;
            let connect = || Ok(TcpStream::connect_timeout(&at, Duration::from_secs(1)));
            matches!(l.device.within(connect), Ok(Ok(_)))
        })?;
        Ok(lab)
    }

    /// The tester's ports.
    ///
    /// # Errors
    /// One can't be opened.
    pub fn channels(&self) -> Result<Vec<Channel>> {
        let open = || self.ports.iter().map(|n| Ok(wire::interface(n)?)).collect();
        self.tester.within(open)
    }

    /// The way to where the switch is.
    ///
    /// # Errors
    /// No descriptor left.
    pub fn device(&self) -> Result<Door> {
        self.device.door()
    }

    /// Where the tester is, and where the switch is.
    pub fn namespaces(&self) -> (&Namespace, &Namespace) {
        (&self.tester, &self.device)
    }

    /// Reads the switch's CPU: what it tells of it, where it does, or else the time of its data path's process.
    pub fn sampler(&self) -> Box<dyn Sampler> {
        let untold = match self.agent.map(|at| self.told(at)) {
            Some(Ok(told)) => return told,
            Some(Err(e)) => Some(e.to_string()),
            None => None,
        };
        let path = self.data_path.clone();
        // It is another one after a reset.
        let pid = move || path.as_ref().map_or(0, |d| locked(d).child().id());
        let of = format!("process {}, its data path, from /proc", pid());
        let process = Periodic::new(ProcessSampler::following(pid), of, Duration::from_secs(1));
        match untold {
            None => Box::new(process),
            Some(why) => Box::new(Instead { why, process }),
        }
    }

    /// By SNMP, from inside its namespace.
    fn told(&self, at: SocketAddr) -> Result<Box<dyn Sampler>> {
        let door = self.device.door()?;
        let sampler = door.within(|| agent::sampler(&at.to_string()))?;
        Ok(Box::new(Inside { door, sampler }))
    }

    /// The data path's process, to be reset.
    pub fn data_path(&self) -> Option<Arc<Mutex<Restarted>>> {
        self.data_path.clone()
    }

    fn start_ovs(&mut self) -> Result<()> {
        let d = self.directory.display().to_string();
        let file = |name: &str| format!("{d}/{name}");
        let (db, socket) = (file("conf.db"), file("db.sock"));
        let schema = "/usr/share/openvswitch/vswitch.ovsschema";
        self.run("ovsdb-tool", &["create", &db, schema])?;
        let remote = format!("--remote=punix:{socket}");
        let ctl = format!("--unixctl={}", file("db.ctl"));
        let pid = format!("--pidfile={}", file("db.pid"));
        self.spawn("ovsdb-server", &[&db, &remote, &ctl, &pid, "--no-chdir"])?;
        self.wait_for("ovsdb-server", |_| Path::new(&socket).exists())?;
        let database = format!("unix:{socket}");
        self.run("ovs-vsctl", &["--db", &database, "--no-wait", "init"])?;
        let ctl = format!("--unixctl={}", file("switch.ctl"));
        let pid = format!("--pidfile={}", file("switch.pid"));
        self.spawn_data_path(
            "ovs-vswitchd",
            &[&database, &ctl, &pid, "--disable-system", "--no-chdir"],
        )?;
        self.wait_for("ovs-vswitchd", |l| l.directory.join("switch.ctl").exists())?;
        let base = ["--timeout=30", "--db", &database, "--"];
        let bridge = [
            "add-br",
            "lab",
            "--",
            "set",
            "bridge",
            "lab",
            "datapath_type=netdev",
            "fail-mode=secure",
            "other-config:disable-in-band=true",
            "protocols=OpenFlow10,OpenFlow13",
        ];
        self.run("ovs-vsctl", &[&base[..], &bridge[..]].concat())?;
        for n in 1..=PORTS {
            let (port, number) = (format!("p{n}"), format!("ofport_request={n}"));
            let add = ["add-port", "lab", &port, "--", "set", "interface", &port, &number];
            self.run("ovs-vsctl", &[&base[..], &add[..]].concat())?;
        }
        let listen = format!("ptcp:{}:{}", AT.port(), AT.ip());
        self.run("ovs-vsctl", &[&base[..], &["set-controller", "lab", &listen][..]].concat())?;
        let said = Command::new("ovs-vswitchd").arg("--version").output()?.stdout;
        let version = String::from_utf8_lossy(&said);
        let version = version.split_whitespace().last_in_first_line();
        self.name = format!("Open vSwitch {version}");
        Ok(())
    }

    fn start_weir(&mut self) -> Result<()> {
        let d = self.directory.display();
        let mut text = format!("[dataplane]\nframes = 8192\nsocket = \"{d}/socket\"\n");
        text += "tcam = { mapping_entries = 4096, action_entries = 2097152, slice_entries = 16, block_slices = 64 }\n";
        for n in 1..=PORTS {
            let _ = write!(text, "[[port]]\nname = \"p{n}\"\ndevice = \"af_packet:p{n}\"\n");
        }
        text += "[[vdp]]\nvid = 0\nprogram = \"sink\"\n";
        text += "[[vdp]]\nvid = 1\nname = \"lab\"\nports = [\"p1\", \"p2\"]\n";
        text += "mapping = [\"in_port=p1\", \"in_port=p2\"]\n";
        let _ = write!(
            text,
            "[vdp.openflow]\ndatapath_id = \"0000000000000001\"\nversions = [\"1.0\", \"1.3\"]\n\
             listen = [\"ptcp:{}:{}\"]\n",
            AT.port(),
            AT.ip()
        );
        let path = self.directory.join("weir.toml");
        std::fs::write(&path, text)?;
        let program = std::env::current_exe().context("this program's own file")?;
        self.spawn_data_path(
            &program.display().to_string(),
            &["run", &path.display().to_string()],
        )?;
        self.name = format!("weir {}", env!("CARGO_PKG_VERSION"));
        Ok(())
    }

    fn start_dut(&mut self, profile: &str, name: String) -> Result<()> {
        let program = std::env::current_exe().context("this program's own file")?;
        let (program, at) = (program.display().to_string(), AT.to_string());
        let ports = "p1,p2";
        let (agent, asked) = (AGENT.to_string(), ["dut", "--profile", profile, "--listen", &at]);
        let args = [&asked[..], &["--ports", ports, "--snmp", &agent]].concat();
        // It is one thread, and an instrument's: what it takes must not depend on where the system put it.
        beside_generator(|| self.spawn_data_path(&program, &args))?;
        self.agent = Some(AGENT);
        self.name = name;
        Ok(())
    }

    /// A command in the device's namespace, with the lab's directory for all that Open vSwitch writes.
    fn command(&self, program: &str, args: &[&str]) -> Command {
        let mut c = Command::new("ip");
        c.args(["netns", "exec", self.device.name(), program]).args(args).stdin(Stdio::null());
        for name in ["OVS_RUNDIR", "OVS_LOGDIR", "OVS_DBDIR", "OVS_SYSCONFDIR"] {
            c.env(name, &self.directory);
        }
        c
    }

    fn run(&self, program: &str, args: &[&str]) -> Result<()> {
        let done =
            self.command(program, args).output().context("'ip' can't be run: install iproute2")?;
        if done.status.success() {
            return Ok(());
        }
        let said = String::from_utf8_lossy(&done.stderr);
        let said = said.lines().next().unwrap_or("no reason given");
        bail!("the lab: {program}: {said} (Open vSwitch is Debian's package openvswitch-switch)")
    }

    /// A command that writes to a log of its own.
    fn logging(&self, program: &str, args: &[&str], log: &str) -> Result<Command> {
        let log = std::fs::File::create(self.directory.join(log))?;
        let mut command = self.command(program, args);
        // A group of its own, so that Ctrl-C is for the measurement, which still puts the switch's flows back.
        command.stdout(log.try_clone()?).stderr(log).process_group(0);
        Ok(command)
    }

    fn spawn(&mut self, program: &str, args: &[&str]) -> Result<()> {
        let mut command = self.logging(program, args, &format!("{}.log", self.children.len()))?;
        let child = command.spawn().context("'ip' can't be run: install iproute2")?;
        self.children.push(child);
        Ok(())
    }

    fn spawn_data_path(&mut self, program: &str, args: &[&str]) -> Result<()> {
        let command = self.logging(program, args, DATA_PATH_LOG)?;
        let started = Restarted::start(command).context("'ip' can't be run: install iproute2")?;
        self.data_path = Some(Arc::new(Mutex::new(started)));
        Ok(())
    }

    /// The first of its processes that has ended, how, and where its log is.
    fn ended(&mut self) -> Result<Option<(ExitStatus, String)>> {
        for n in 0..self.children.len() {
            if let Some(status) = self.children[n].try_wait()? {
                return Ok(Some((status, format!("{n}.log"))));
            }
        }
        let Some(d) = &self.data_path else { return Ok(None) };
        let status = locked(d).child().try_wait()?;
        Ok(status.map(|s| (s, DATA_PATH_LOG.to_owned())))
    }

    /// Asks until it is so; fails when a process of the lab ends, or after [`START`].
    fn wait_for(&mut self, what: &str, is_so: impl Fn(&Self) -> bool) -> Result<()> {
        let begin = Instant::now();
        while !is_so(self) {
            if let Some((status, log)) = self.ended()? {
                let said = std::fs::read_to_string(self.directory.join(log)).unwrap_or_default();
                let said = said.lines().next_back().unwrap_or("it said nothing").to_owned();
                return Err(anyhow!("the lab: {what}: a program ended ({status}): {said}"));
            }
            if begin.elapsed() > START {
                bail!("the lab: {what} did not come up within {} s", START.as_secs());
            }
            std::thread::sleep(Duration::from_millis(20));
        }
        Ok(())
    }
}

/// A sampler whose sockets are of a namespace.
struct Inside {
    door: Door,
    sampler: Box<dyn Sampler>,
}

impl Sampler for Inside {
    fn about(&self) -> String {
        self.sampler.about()
    }
    fn read(&mut self) -> Result<Vec<Sample>, String> {
        let sampler = &mut self.sampler;
        self.door.within(|| Ok(sampler.read())).map_err(|e| e.to_string())?
    }
    fn interval(&self) -> Duration {
        self.sampler.interval()
    }
}

/// A process's time, in place of an agent that does not answer.
struct Instead {
    why: String,
    process: Periodic<ProcessSampler>,
}

impl Sampler for Instead {
    fn about(&self) -> String {
        self.process.about()
    }
    fn read(&mut self) -> Result<Vec<Sample>, String> {
        self.process.read()
    }
    fn interval(&self) -> Duration {
        self.process.interval()
    }
    fn untold(&self) -> Option<String> {
        Some(self.why.clone())
    }
}

impl Drop for Lab {
    fn drop(&mut self) {
        if let Some(d) = &self.data_path {
            end(locked(d).child());
        }
        self.children.iter_mut().rev().for_each(end);
        let _ = std::fs::remove_dir_all(&self.directory);
    }
}

/// What the data path says.
const DATA_PATH_LOG: &str = "data-path.log";

fn locked(d: &Mutex<Restarted>) -> MutexGuard<'_, Restarted> {
    d.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Ends a process: politely, and then not.
fn end(child: &mut Child) {
    if let Some(pid) = i32::try_from(child.id()).ok().and_then(Pid::from_raw) {
        let _ = kill_process(pid, Signal::TERM);
    }
    let begin = Instant::now();
    while matches!(child.try_wait(), Ok(None)) {
        if begin.elapsed() > Duration::from_secs(3) {
            let _ = child.kill();
            let _ = child.wait();
            break;
        }
        std::thread::sleep(Duration::from_millis(10));
    }
}

/// The last word of a program's first line.
trait LastWord {
    fn last_in_first_line(self) -> String;
}

impl<'a, I: Iterator<Item = &'a str>> LastWord for I {
    fn last_in_first_line(self) -> String {
        // "ovs-vswitchd (Open vSwitch) 3.1.0"
        let digit = |w: &&str| w.starts_with(|c: char| c.is_ascii_digit());
        self.take(8).find(digit).unwrap_or_default().to_owned()
    }
}
