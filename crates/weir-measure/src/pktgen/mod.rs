//! The kernel's packet generator: whole loads that it sends by itself, through `/proc/net/pktgen`.
//!
//! Source: the kernel's `Documentation/networking/pktgen.rst`. [`for_load`] says what is to be written for a
//! load, [`read`] what its files answer, [`find`] knows its frames again; all three touch nothing.
//! [`Pktgen`] brings them together over a [`Files`], the real ones or a test's. Used by
//! [`crate::engine::wire`] for loads whose frames are counted: what pktgen sends is no probe, and nobody says
//! when each frame left.

mod commands;
#[cfg(test)]
pub(crate) mod fake;
mod files;
mod frame;
mod said;
#[cfg(test)]
mod tests;

pub use commands::{Write, for_load};
pub use files::{Files, PROC, Proc};
pub use frame::{Frame, find};
pub use said::{Outcome, Said, read};

use crate::module::{Load, LoadId};
use std::io;
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::Duration;

/// Controls all of pktgen's threads.
const CONTROL: &str = "pgctrl";
/// What its threads' files are called, but for the core's number.
const THREAD: &str = "kpktgend_";
/// How long the kernel may take to stop: it looks every tenth of a second.
const STOP: Duration = Duration::from_secs(2);

/// Why pktgen can't be used: one line, and what to do.
pub type Refusal = String;

/// A load that has ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Played {
    /// Frames that the interface took.
    pub sent: u64,
    /// Frames that it refused; others went in their place.
    pub refused: u64,
    /// From the first frame to the last.
    pub took: Duration,
}

/// One interface, driven by one of pktgen's threads; given back when this is dropped.
pub struct Pktgen {
    files: Arc<dyn Files>,
    interface: String,
    thread: String,
    running: Option<JoinHandle<io::Result<()>>>,
}

impl Pktgen {
    /// Gives the interface to the thread of the last core.
    ///
    /// # Errors
    /// The kernel has no pktgen, there are no rights, no such interface, or it is in use.
    pub fn open(files: Arc<dyn Files>, interface: &str) -> Result<Self, Refusal> {
        let instead = "give the interface without 'pktgen:' for frames from this program";
        let names = files.names().map_err(|e| match e.kind() {
            io::ErrorKind::NotFound => format!(
                "this kernel has no packet generator ({} is not there): load it with 'modprobe pktgen', \
                 which needs CONFIG_NET_PKTGEN, or {instead}",
                files.place()
            ),
            _ => format!("{}: {e}: it is for root; or {instead}", files.place()),
        })?;
        let number = |n: &String| n.strip_prefix(THREAD)?.parse::<u32>().ok();
        let thread = names.into_iter().filter(|n| number(n).is_some()).max_by_key(number);
        let Some(thread) = thread else {
            return Err(format!("{}: pktgen has no thread there: {instead}", files.place()));
        };
        let this = Self { files, interface: interface.to_owned(), thread, running: None };
        this.command(&this.thread, &format!("add_device {interface}"))?;
        Ok(this)
    }

    /// Writes a command and reads how it was taken.
    fn command(&self, file: &str, line: &str) -> Result<(), Refusal> {
        let at =
            |e: &dyn std::fmt::Display| format!("{}/{file}: '{line}': {e}", self.files.place());
        let written = self.files.write(file, line);
        // The reason stands in the file, also where the write itself is refused.
        let told = self.files.read(file).ok().and_then(|text| read(&text));
        match (written, told.map(|s| s.outcome)) {
            (_, Some(Outcome::Refused(why))) => Err(at(&why)),
            (Err(e), _) => Err(at(&e)),
            (Ok(()), _) => Ok(()),
        }
    }

    /// Begins a load.
    ///
    /// # Errors
    /// Pktgen can't send such a load, or does not take a command.
    pub fn begin(&mut self, id: LoadId, load: &Load) -> Result<(), Refusal> {
        self.stop();
        for Write { line } in for_load(id, load)? {
            self.command(&self.interface, &line)?;
        }
        let files = Arc::clone(&self.files);
        // Writing 'start' returns when all is sent.
        let start = move || files.write(CONTROL, "start");
        let thread = std::thread::Builder::new().name("measure-pktgen".to_owned());
        self.running = Some(thread.spawn(start).map_err(|e| e.to_string())?);
        Ok(())
    }

    /// What the load came to, once it has ended; `None` before, and when there is none.
    pub fn ended(&mut self) -> Option<Result<Played, Refusal>> {
        let thread = self.running.take_if(|t| t.is_finished())?;
        Some(self.result(thread))
    }

    fn result(&self, thread: JoinHandle<io::Result<()>>) -> Result<Played, Refusal> {
        let at = |e: &dyn std::fmt::Display| format!("pktgen on '{}': {e}", self.interface);
        match thread.join() {
            Ok(Ok(())) => {}
            Ok(Err(e)) => return Err(at(&e)),
            Err(_) => return Err(at(&"its thread broke down")),
        }
        let text = self.files.read(&self.interface).map_err(|e| at(&e))?;
        let said = read(&text).ok_or_else(|| at(&"it says nothing of what it sent"))?;
        if let Outcome::Refused(why) = said.outcome {
            return Err(at(&why));
        }
        let us = said.stopped_us.saturating_sub(said.started_us);
        Ok(Played { sent: said.sent, refused: said.errors, took: Duration::from_micros(us) })
    }

    /// Stops the load, if one is sent, and waits for its end; what it came to.
    pub fn stop(&mut self) -> Option<Result<Played, Refusal>> {
        let thread = self.running.take()?;
        let begin = std::time::Instant::now();
        // It may not have begun yet, and then would not hear it: again and again.
        while !thread.is_finished() && begin.elapsed() < STOP {
            let _ = self.files.write(CONTROL, "stop");
            std::thread::sleep(Duration::from_millis(5));
        }
        if !thread.is_finished() {
            return Some(Err(format!("pktgen on '{}' does not stop", self.interface)));
        }
        Some(self.result(thread))
    }
}

impl Drop for Pktgen {
    fn drop(&mut self) {
        self.stop();
        // An interface that has gone needs nothing.
        let _ = self.files.write(&self.thread, "rem_device_all");
    }
}
