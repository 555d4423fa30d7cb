//! A `weir run` of a study's own: a process in a namespace, with a folder for its files.
//!
//! Room: one process, its folder, its control socket. Both are gone when it is dropped. Called by studies over
//! veth that want the daemon as it is, with its switches and routers.

use crate::namespace::Namespace;
use crate::socket::client::Client;
use crate::socket::protocol::{Item, Request};
use anyhow::{Context, Result, bail};
use rustix::process::{Pid, Signal, kill_process};
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

/// How long it may take to come up.
const UP: Duration = Duration::from_secs(20);
/// How long it may take to end by itself.
const DOWN: Duration = Duration::from_secs(5);

/// One that runs.
pub struct Process {
    folder: PathBuf,
    child: Child,
}

impl Process {
    /// Starts one by the sections of a configuration without `[dataplane]`, whose keys beside the socket are
    /// `keys`; waits until it answers.
    ///
    /// # Errors
    /// It does not come up: with its last word.
    pub fn start(inside: &Namespace, keys: &str, sections: &str) -> Result<Self> {
        let folder = std::env::temp_dir().join(inside.name());
        std::fs::create_dir(&folder).with_context(|| folder.display().to_string())?;
        let socket = folder.join("socket");
        let text = format!("[dataplane]\nsocket = \"{}\"\n{keys}\n{sections}", socket.display());
        let begun = Self::spawn(inside, &folder, &text);
        let child = begun.inspect_err(|_| _ = std::fs::remove_dir_all(&folder))?;
        let mut it = Self { folder, child };
        let begin = Instant::now();
        while it.ask(&Request::Stats {}).is_err() {
            if begin.elapsed() > UP || !matches!(it.child.try_wait(), Ok(None)) {
                let log = std::fs::read_to_string(it.folder.join("log")).unwrap_or_default();
                bail!("'weir run' did not come up: {}", log.lines().last().unwrap_or("no word"));
            }
            std::thread::sleep(Duration::from_millis(20));
        }
        Ok(it)
    }

    fn spawn(inside: &Namespace, folder: &std::path::Path, text: &str) -> Result<Child> {
        let config = folder.join("weir.toml");
        std::fs::write(&config, text).with_context(|| config.display().to_string())?;
        let log = std::fs::File::create(folder.join("log"))?;
        let program = std::env::current_exe().context("this program's own file")?;
        let mut command = Command::new(program);
        command.arg("run").arg(&config).stdin(Stdio::null()).stdout(log.try_clone()?).stderr(log);
        inside.within(|| command.spawn().context("starting 'weir run'"))
    }

    /// Its control socket.
    pub fn socket(&self) -> PathBuf {
        self.folder.join("socket")
    }

    /// What it answers.
    ///
    /// # Errors
    /// It refuses, or does not answer.
    pub fn ask(&self, request: &Request) -> Result<Vec<Item>> {
        Ok(Client::unix(&self.socket())?.ask(request)?.0)
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        if let Some(pid) = i32::try_from(self.child.id()).ok().and_then(Pid::from_raw) {
            // One that has ended already needs none.
            let _ = kill_process(pid, Signal::TERM);
        }
        let begin = Instant::now();
        while matches!(self.child.try_wait(), Ok(None)) {
            if begin.elapsed() > DOWN {
                let _ = self.child.kill();
                let _ = self.child.wait();
                break;
            }
            std::thread::sleep(Duration::from_millis(10));
        }
        let _ = std::fs::remove_dir_all(&self.folder);
    }
}
