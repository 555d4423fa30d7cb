//! Network namespaces: made, entered, deleted. Needs root and iproute2.
//!
//! Room: `ip` and a thread for each visit. Used by studies, by the labs of `weir measure` and by virtual routers.

use anyhow::{Context, Result, anyhow, bail};
use rustix::thread::{LinkNameSpaceType, move_into_link_name_space};
use std::fs::File;
use std::io::Write;
use std::os::fd::AsFd;
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};

/// A network namespace, deleted when dropped.
#[derive(Debug)]
pub struct Namespace {
    name: String,
    file: File,
}

impl Namespace {
    /// A new one, named after its purpose, this process and its role.
    ///
    /// # Errors
    /// No rights, no iproute2.
    pub fn new(purpose: &str, role: &str) -> Result<Self> {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        let n = NEXT.fetch_add(1, Ordering::Relaxed);
        Self::called(&format!("{purpose}-{}-{n}{role}", std::process::id()))
    }

    /// A new one of this name.
    ///
    /// # Errors
    /// No rights, no iproute2, or there is one already.
    pub fn called(name: &str) -> Result<Self> {
        let name = name.to_owned();
        ip(&[], &format!("netns add {name}\n"))?;
        let path = format!("/run/netns/{name}");
        match File::open(&path) {
            Ok(file) => Ok(Self { name, file }),
            Err(e) => {
                delete(&name);
                Err(anyhow!("{path}: {e}"))
            }
        }
    }

    /// Its name, as `ip netns` has it.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Itself, for whoever looks for what runs inside or puts an interface there.
    pub fn file(&self) -> &File {
        &self.file
    }

    /// A way inside that may outlive this.
    ///
    /// # Errors
    /// No descriptor left.
    pub fn door(&self) -> Result<Door> {
        Ok(Door { name: self.name.clone(), file: self.file.try_clone()? })
    }

    /// Does something inside, on a thread of its own.
    ///
    /// # Errors
    /// That of the work.
    pub fn within<T: Send>(&self, work: impl FnOnce() -> Result<T> + Send) -> Result<T> {
        within(&self.file, &self.name, work)
    }

    /// Runs the lines of a batch of `ip` inside.
    ///
    /// # Errors
    /// What `ip` says.
    pub fn ip(&self, lines: &str) -> Result<()> {
        ip(&["-n", &self.name], lines)
    }

    /// Sets what stands under `/proc/sys/net`. What is not there is left out: a kernel without IPv6
    /// needs none of it switched off.
    ///
    /// # Errors
    /// It can't be set.
    pub fn set(&self, settings: &'static [(&'static str, &'static str)]) -> Result<()> {
        self.within(|| settings.iter().try_for_each(|(name, value)| setting(name, value)))
    }
}

/// Sets what stands under `/proc/sys/net` in the calling thread's namespace, where it is there.
///
/// # Errors
/// It can't be set.
pub fn setting(name: &str, value: &str) -> Result<()> {
    match std::fs::write(format!("/proc/sys/net/{name}"), value) {
        Err(e) if e.kind() != std::io::ErrorKind::NotFound => {
            Err(anyhow!("/proc/sys/net/{name}: {e}"))
        }
        _ => Ok(()),
    }
}

impl Drop for Namespace {
    fn drop(&mut self) {
        delete(&self.name);
    }
}

/// A way into a namespace; the namespace lives as long as it is open.
#[derive(Debug)]
pub struct Door {
    name: String,
    file: File,
}

impl Door {
    /// Itself, for whoever looks for what runs inside.
    pub fn file(&self) -> &File {
        &self.file
    }

    /// Does something inside, on a thread of its own.
    ///
    /// # Errors
    /// That of the work.
    pub fn within<T: Send>(&self, work: impl FnOnce() -> Result<T> + Send) -> Result<T> {
        within(&self.file, &self.name, work)
    }
}

fn within<T: Send>(file: &File, name: &str, work: impl FnOnce() -> Result<T> + Send) -> Result<T> {
    std::thread::scope(|scope| {
        let thread = scope.spawn(|| {
            move_into_link_name_space(file.as_fd(), Some(LinkNameSpaceType::Network))
                .with_context(|| format!("entering the namespace {name}"))?;
            work()
        });
        thread.join().unwrap_or_else(|_| Err(anyhow!("a thread in {name} ended early")))
    })
}

/// Deletes a namespace of this name, if there is one.
pub fn delete(name: &str) {
    // One that has gone already needs nothing.
    let _ = Command::new("ip").args(["netns", "del", name]).stderr(Stdio::null()).status();
}

/// Runs the lines of a batch of `ip`.
fn ip(options: &[&str], lines: &str) -> Result<()> {
    batch("ip", options, lines)
}

/// Runs the lines of a batch of an iproute2 tool.
///
/// # Errors
/// It is missing, or what it says.
pub fn batch(tool: &str, options: &[&str], lines: &str) -> Result<()> {
    let mut child = Command::new(tool)
        .args(options)
        .args(["-batch", "-"])
        .stdin(Stdio::piped())
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .spawn()
        .with_context(|| format!("'{tool}' can't be run: install iproute2"))?;
    if let Some(mut stdin) = child.stdin.take() {
        stdin.write_all(lines.as_bytes()).with_context(|| format!("talking to '{tool}'"))?;
    }
    let done = child.wait_with_output()?;
    if done.status.success() {
        return Ok(());
    }
    let said = String::from_utf8_lossy(&done.stderr);
    bail!("'{tool}' refused: {}", said.lines().next().unwrap_or("no reason given"))
}

/// Settings that keep the kernel's own frames off the wires.
pub const QUIET: &[(&str, &str)] = &[
    ("ipv6/conf/all/disable_ipv6", "1"),
    ("ipv6/conf/default/disable_ipv6", "1"),
    ("ipv4/conf/all/rp_filter", "0"),
    ("ipv4/conf/default/rp_filter", "0"),
];
