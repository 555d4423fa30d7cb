//! A `weir run` of its own for each test: the real binary, a folder for its files, its output line by
//! line.

#![allow(dead_code)]

use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;
use std::io::{BufRead, BufReader, Read};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Output, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::time::{Duration, Instant};

/// How long anything is waited for before the test fails.
pub const LIMIT: Duration = Duration::from_secs(60);

pub struct Daemon {
    pub dir: tempfile::TempDir,
    child: Option<Child>,
    lines: Receiver<String>,
    /// All that it has said.
    pub said: Vec<String>,
}

/// The binary.
pub fn weir() -> Command {
    Command::new(env!("CARGO_BIN_EXE_weir"))
}

impl Daemon {
    /// Runs a configuration and waits until its control socket is served.
    pub fn start(config: &str, arguments: &[&str]) -> Self {
        let mut d = Self::spawn(config, arguments);
        d.wait_for("running: ");
        d
    }

    /// Runs a configuration.
    pub fn spawn(config: &str, arguments: &[&str]) -> Self {
        Self::spawn_with(config, arguments, &[])
    }

    /// Runs a configuration that has files beside it.
    pub fn spawn_with(config: &str, arguments: &[&str], files: &[(&str, &str)]) -> Self {
        Self::spawn_by(weir(), config, arguments, files)
    }

    /// The same by a command that becomes the binary: in a namespace.
    pub fn spawn_by(
        mut command: Command,
        config: &str,
        arguments: &[&str],
        files: &[(&str, &str)],
    ) -> Self {
        let dir = tempfile::tempdir().unwrap();
        for (name, text) in files {
            std::fs::write(dir.path().join(name), text).unwrap();
        }
        std::fs::write(dir.path().join("t.toml"), config).unwrap();
        let mut child = command
            .arg("run")
            .args(arguments)
            .arg("--socket")
            .arg(dir.path().join("s"))
            .arg(dir.path().join("t.toml"))
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let (tx, lines) = channel();
        let pipes: [Box<dyn Read + Send>; 2] =
            [Box::new(child.stdout.take().unwrap()), Box::new(child.stderr.take().unwrap())];
        for pipe in pipes {
            let tx = tx.clone();
            std::thread::spawn(move || {
                for line in BufReader::new(pipe).lines().map_while(Result::ok) {
                    let _ = tx.send(line);
                }
            });
        }
        Self { dir, child: Some(child), lines, said: Vec::new() }
    }

    pub fn socket(&self) -> PathBuf {
        self.dir.path().join("s")
    }
    pub fn path(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }
    pub fn pid(&self) -> u32 {
        self.child.as_ref().unwrap().id()
    }

    /// Waits for a line with `text` in it, beginning behind what was waited for before.
    pub fn wait_for(&mut self, text: &str) -> String {
        let until = Instant::now() + LIMIT;
        loop {
            let left = until.saturating_duration_since(Instant::now());
            let Ok(line) = self.lines.recv_timeout(left) else {
                panic!("'{text}' was not said; but:\n{}", self.said.join("\n"));
            };
            self.said.push(line.clone());
            if line.contains(text) {
                return line;
            }
        }
    }

    /// The same for two lines, in any order: what goes to standard output and to standard error comes by two pipes.
    pub fn wait_for_both(&mut self, texts: [&str; 2]) -> [String; 2] {
        let mut found = texts.map(|_| None);
        while found.iter().any(Option::is_none) {
            let line = self.wait_for("");
            for (found, text) in found.iter_mut().zip(texts) {
                if line.contains(text) {
                    *found = Some(line.clone());
                }
            }
        }
        found.map(Option::unwrap_or_default)
    }

    pub fn signal(&self, signal: Signal) {
        let pid = Pid::from_raw(self.pid().cast_signed()).unwrap();
        kill_process(pid, signal).unwrap();
    }

    /// Another configuration, read on SIGHUP; the line that ends the reload.
    pub fn reload(&mut self, config: &str) -> String {
        std::fs::write(self.path("t.toml"), config).unwrap();
        self.signal(Signal::HUP);
        loop {
            let line = self.wait_for("reload: ");
            let ends = ["reload: done", "nothing differs", "nothing has changed"];
            if ends.iter().any(|e| line.contains(e)) {
                return line;
            }
        }
    }

    /// A client command.
    pub fn client(&self, arguments: &[&str]) -> Output {
        weir().args(arguments).arg("--socket").arg(self.socket()).output().unwrap()
    }
    /// A client command that must work; what it prints.
    pub fn ask(&self, arguments: &[&str]) -> String {
        let o = self.client(arguments);
        let error = String::from_utf8_lossy(&o.stderr).into_owned();
        assert!(o.status.success(), "{arguments:?}: {error}");
        String::from_utf8(o.stdout).unwrap()
    }
    /// A client command that must be refused as bad input, in one line; the line.
    pub fn refused(&self, arguments: &[&str]) -> String {
        let o = self.client(arguments);
        let error = String::from_utf8(o.stderr).unwrap();
        assert_eq!(o.status.code(), Some(2), "{arguments:?}: {error}");
        assert_eq!(error.lines().count(), 1, "{error}");
        error
    }
    /// The result of a client command with --json.
    pub fn json(&self, arguments: &[&str]) -> Value {
        let all: Vec<&str> = arguments.iter().copied().chain(["--json"]).collect();
        let v: Value = serde_json::from_str(&self.ask(&all)).unwrap();
        assert_eq!(v["schema"], 1);
        v["result"].clone()
    }
    /// A VDP's counters.
    pub fn vdp(&self, vid: u64) -> Value {
        let stats = self.json(&["stats"]);
        assert_eq!(stats["plane"]["imbalance"], Value::Null);
        let all = stats["vdps"].as_array().unwrap();
        all.iter().find(|v| v["vid"] == vid).cloned().unwrap_or(Value::Null)
    }
    /// A port.
    pub fn port(&self, name: &str) -> Value {
        let stats = self.json(&["stats"]);
        let all = stats["ports"].as_array().unwrap();
        all.iter().find(|v| v["name"] == name).cloned().unwrap_or(Value::Null)
    }

    /// Waits until `f` holds.
    pub fn until(&self, what: &str, mut f: impl FnMut(&Self) -> bool) {
        let until = Instant::now() + LIMIT;
        while !f(self) {
            assert!(Instant::now() < until, "{what}: not within {LIMIT:?}");
            std::thread::sleep(Duration::from_millis(20));
        }
    }

    /// Waits for its end.
    pub fn end(&mut self) -> ExitStatus {
        let status = self.child.take().unwrap().wait().unwrap();
        while let Ok(line) = self.lines.recv_timeout(LIMIT) {
            self.said.push(line);
        }
        status
    }
    /// Stops it; it must end well, with every frame accounted for.
    pub fn stop(mut self) -> Vec<String> {
        self.signal(Signal::TERM);
        let status = self.end();
        let all = self.said.join("\n");
        assert!(status.success(), "{all}");
        assert!(all.contains("every frame is accounted for"), "{all}");
        assert!(!self.socket().exists());
        std::mem::take(&mut self.said)
    }
}

impl Drop for Daemon {
    fn drop(&mut self) {
        if let Some(mut c) = self.child.take() {
            let _ = c.kill();
            let _ = c.wait();
            if std::thread::panicking() {
                let rest = std::iter::from_fn(|| self.lines.recv_timeout(LIMIT).ok());
                let all: Vec<String> = self.said.drain(..).chain(rest).collect();
                println!("what a daemon of this test said:\n{}", all.join("\n"));
            }
        }
    }
}

/// Whether a program is there.
pub fn has(program: &str) -> bool {
    Command::new("sh")
        .args(["-c", &format!("command -v {program}")])
        .stdout(Stdio::null())
        .status()
        .is_ok_and(|s| s.success())
}

/// Says that a test was left out.
pub fn skipped(test: &str, why: &str) {
    eprintln!("SKIPPED: {test}: {why}");
}

pub fn is_root() -> bool {
    rustix::process::geteuid().is_root()
}

/// What tshark says of a capture: a line a frame with these fields.
pub fn tshark(file: &Path, fields: &[&str]) -> Vec<String> {
    let mut c = Command::new("tshark");
    c.args(["-n", "-r"]).arg(file).args(["-T", "fields"]);
    for f in fields {
        c.args(["-e", f]);
    }
    let o = c.output().unwrap();
    assert!(o.status.success(), "{}", String::from_utf8_lossy(&o.stderr));
    String::from_utf8(o.stdout).unwrap().lines().map(str::to_owned).collect()
}
