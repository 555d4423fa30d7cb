//! What becomes of a switch's flows when `weir measure` ends: by itself, by a signal, by two, by a kill. On `weir
//! dut`, by the control channel alone. No root, no ports.

mod dut_device;
mod run_daemon;

use dut_device::device;
use run_daemon::{LIMIT, weir};
use rustix::process::{Pid, Signal, kill_process};
use std::io::{Read, Write};
use std::net::TcpStream;
use std::path::{Path, PathBuf};
use std::process::{Child, Output, Stdio};
use std::thread::sleep;
use std::time::{Duration, Instant};

/// Has the table for as long as it is told to.
const WAITS: &str = r#"
fn about() {
    #{ name: "waits", asks: "Nothing", channels: 0, table: "own",
       params: [#{ name: "seconds", kind: "number", value: 60.0, min: 0.01, max: 60.0, about: "so long" }] }
}
fn start(cx) { cx.timer_in(cx.param("seconds"), 1); }
fn timer(cx, token) { cx.over(); }
fn finish(doc) { }
"#;

/// 1.3: hello; flow_mod that adds a flow of priority 7 which matches all and drops it; barrier.
const HELLO: &[u8] = &[4, 0, 0, 8, 0, 0, 0, 1];
const FLOW: &[u8] = &[
    4, 14, 0, 56, 0, 0, 0, 2, // header
    0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, // cookie, mask
    0, 0, 0, 0, 0, 0, 0, 7, // table, add, time-outs, priority
    255, 255, 255, 255, 255, 255, 255, 255, 255, 255, 255, 255, // buffer, port, group
    0, 0, 0, 0, 0, 1, 0, 4, 0, 0, 0, 0, // flags, match
];
const BARRIER: &[u8] = &[4, 20, 0, 8, 0, 0, 0, 3];

/// What the next message is.
fn kind_of_next(tcp: &mut TcpStream) -> u8 {
    let mut header = [0; 8];
    tcp.read_exact(&mut header).unwrap();
    let rest = usize::from(u16::from_be_bytes([header[2], header[3]])) - 8;
    tcp.read_exact(&mut vec![0; rest]).unwrap();
    assert_ne!(header[1], 1, "an error");
    header[1]
}

/// A device with a flow of its own.
struct Device {
    child: Child,
    at: String,
}

impl Device {
    fn start() -> Self {
        let (child, at) = device("honest", &[]);
        let mut tcp = TcpStream::connect(&at).unwrap();
        tcp.set_read_timeout(Some(LIMIT)).unwrap();
        tcp.write_all(&[HELLO, FLOW, BARRIER].concat()).unwrap();
        // Until the barrier's reply.
        while kind_of_next(&mut tcp) != 21 {}
        Self { child, at }
    }

    fn signal(&self, signal: Signal) {
        signal_to(&self.child, signal);
    }
}

impl Drop for Device {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn signal_to(child: &Child, signal: Signal) {
    kill_process(Pid::from_child(child), signal).unwrap();
}

/// A measurement that runs, and the directory in which the flows are meanwhile.
struct Running {
    child: Child,
    dir: tempfile::TempDir,
}

impl Running {
    /// `out`: the option that names the directory, or none, and then temporary files are there.
    fn start(d: &Device, out: Option<&str>, seconds: &str) -> Self {
        Self::start_in(tempfile::tempdir().unwrap(), d, out, seconds)
    }

    fn start_in(dir: tempfile::TempDir, d: &Device, out: Option<&str>, seconds: &str) -> Self {
        let script = dir.path().join("waits.rhai");
        std::fs::write(&script, WAITS).unwrap();
        let mut c = weir();
        c.args(["measure", "run"]).arg(&script).args(["--switch", &format!("tcp:{}", d.at)]);
        c.args(["--name", "mine", "--set", &format!("seconds={seconds}")]);
        c.env("TMPDIR", dir.path());
        if let Some(option) = out {
            c.arg(option).arg(dir.path());
        }
        let child = c.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        Self { child, dir }
    }

    /// The file with the flows, once the table is emptied or about to be.
    fn kept(&self) -> PathBuf {
        let path = self.dir.path().join("waits-mine.flows.txt");
        let begin = Instant::now();
        let is_whole = |p: &Path| std::fs::read_to_string(p).is_ok_and(|t| t.ends_with('\n'));
        while !is_whole(&path) {
            assert!(begin.elapsed() < LIMIT, "the flows are not kept");
            sleep(Duration::from_millis(20));
        }
        let text = std::fs::read_to_string(&path).unwrap();
        assert!(text.contains("priority=7") && text.contains("drop"), "{text}");
        path
    }

    fn end(self) -> (Output, tempfile::TempDir) {
        (self.child.wait_with_output().unwrap(), self.dir)
    }
}

fn last_line(done: &Output) -> String {
    let said = String::from_utf8_lossy(&done.stderr).into_owned();
    said.lines().last().unwrap_or_default().to_owned()
}

#[test]
fn flows_that_are_put_back_leave_no_file() {
    let d = Device::start();
    // Ends by itself, and by a signal; the second run finds what the first has put back.
    let by_itself = Running::start(&d, Some("--out"), "0.5");
    by_itself.kept();
    let (done, dir) = by_itself.end();
    assert!(done.status.success(), "{}", last_line(&done));
    assert!(!dir.path().join("waits-mine.flows.txt").exists());
    let stopped = Running::start(&d, None, "60");
    let path = stopped.kept();
    sleep(Duration::from_millis(300));
    signal_to(&stopped.child, Signal::INT);
    let (done, _dir) = stopped.end();
    assert_eq!(done.status.code(), Some(1));
    assert!(!path.exists());
    let said = String::from_utf8_lossy(&done.stderr).into_owned();
    // Nobody would look for them there.
    assert!(said.contains(&format!("the switch's flows are in {}", path.display())), "{said}");
    assert!(!said.contains("by hand"), "{said}");
}

#[test]
fn flows_outlive_a_killed_process() {
    let d = Device::start();
    let mut running = Running::start(&d, Some("--out"), "60");
    let path = running.kept();
    running.child.kill().unwrap();
    let (_, dir) = running.end();
    assert!(path.exists());
    // The next one of that name says so, and leaves them.
    let next = Running::start_in(dir, &d, Some("--out"), "0.2");
    let (done, _dir) = next.end();
    let said = String::from_utf8_lossy(&done.stderr).into_owned();
    let wanted = format!("an earlier run that did not end are still in {}.", path.display());
    assert!(done.status.success() && said.contains(&wanted), "{said}");
    assert!(path.exists());
}

#[test]
fn a_second_interruption_says_where_the_flows_are() {
    let d = Device::start();
    let running = Running::start(&d, Some("--out"), "60");
    let path = running.kept();
    sleep(Duration::from_millis(300));
    // So that they can't be put back.
    d.signal(Signal::STOP);
    signal_to(&running.child, Signal::INT);
    sleep(Duration::from_millis(1300));
    signal_to(&running.child, Signal::INT);
    let (done, _dir) = running.end();
    d.signal(Signal::CONT);
    assert_eq!(done.status.code(), Some(1));
    let line = last_line(&done);
    let wanted = format!("The flows of before are in {}, to be put back by hand.", path.display());
    assert_eq!(line, wanted);
    assert!(path.exists());
}

/// The switch is gone: the error's last line says where they are.
#[test]
fn a_switch_that_does_not_come_back_has_its_flows_kept() {
    let mut d = Device::start();
    let running = Running::start(&d, Some("--out"), "60");
    let path = running.kept();
    sleep(Duration::from_millis(300));
    d.child.kill().unwrap();
    let (done, _dir) = running.end();
    assert_eq!(done.status.code(), Some(1));
    let wanted = format!("The flows of before are in {}, to be put back by hand.", path.display());
    assert_eq!(last_line(&done), wanted);
    assert!(path.exists());
}

/// It would take the first one's rules for the switch's flows, and put those back.
#[test]
fn a_switch_that_is_measured_is_not_measured_by_another() {
    let d = Device::start();
    let first = Running::start(&d, Some("--out"), "60");
    let path = first.kept();
    let second = Running::start(&d, Some("--out"), "60");
    let (done, _second_dir) = second.end();
    assert_eq!(done.status.code(), Some(1));
    let line = last_line(&done);
    let who = format!("another measurement has it (process {}): wait", first.child.id());
    assert!(line.contains("--switch tcp:") && line.contains(&who), "{line}");
    assert!(path.exists());
    signal_to(&first.child, Signal::INT);
    let (_, _first_dir) = first.end();
    assert!(!path.exists());
    // It is free again.
    let third = Running::start(&d, Some("--out"), "0.2");
    let (done, _third_dir) = third.end();
    assert!(done.status.success(), "{}", last_line(&done));
}
