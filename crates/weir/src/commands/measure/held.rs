//! An interface that the user gives, as a measurement needs it: without offloads that would falsify, with the
//! best stamps that it has. Both are put back when this is dropped: at the end, and after an interruption; or by
//! [`put_all_back`], by whoever ends the program without that.
//!
//! Room: one interface, and a list of all that are held. Labs make theirs and need none of it.

use crate::fault::bad_input;
use anyhow::Result;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use weir_io::features;
use weir_io::stamped::{Stamping, Stamps};
use weir_measure::document::Document;
use weir_measure::engine::ported;
use weir_measure::engine::wire::{self, Channel};
use weir_measure::pktgen::{PROC, Pktgen, Proc};
use weir_packet::DeviceError;

/// One that is held.
pub struct Held {
    name: String,
    /// `None`: it was put back.
    set: Arc<Mutex<Option<Set>>>,
    stamps: &'static str,
    off: Option<String>,
    still_on: Option<String>,
    notes: Vec<String>,
}

/// What is put back when it is dropped.
struct Set {
    _features: features::Held,
    /// `None`: the program's.
    _stamping: Option<Stamping>,
}

static ALL: Mutex<Vec<Weak<Mutex<Option<Set>>>>> = Mutex::new(Vec::new());

fn locked<T>(m: &Mutex<T>) -> MutexGuard<'_, T> {
    m.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Puts every interface back that is held.
pub fn put_all_back() {
    for held in locked(&ALL).iter().filter_map(Weak::upgrade) {
        drop(locked(&held).take());
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        drop(locked(&self.set).take());
        locked(&ALL).retain(|w| w.strong_count() > 0 && !w.ptr_eq(&Arc::downgrade(&self.set)));
    }
}

impl Held {
    /// Sets it, and opens it. `option`: the argument that names it.
    ///
    /// # Errors
    /// No such interface, down, no rights.
    pub fn new(name: &str, option: &str) -> Result<(Self, Channel)> {
        let bad = |e| bad_input(format!("{option}: {e}"));
        if let Some(interface) = name.strip_prefix("pktgen:") {
            let open = Pktgen::open(Arc::new(Proc::new(PROC)), interface);
            let pktgen = open.map_err(|e| bad_input(format!("{option} {name}: {e}")))?;
            return Self::stamped(interface, bad, |i, s| wire::interface_of_pktgen(i, s, pktgen));
        }
        if let Some((_, interface)) = name.split_once(':') {
            let features = features::Held::new(interface).map_err(bad)?;
            let (channel, notes) = ported::port(name).map_err(bad)?;
            return Ok((Self::keep(name, features, None, notes), channel));
        }
        Self::stamped(name, bad, wire::interface_with)
    }

    /// With the best stamps that it has.
    fn stamped(
        name: &str,
        bad: impl Fn(DeviceError) -> anyhow::Error,
        open: impl FnOnce(&str, Stamps) -> Result<Channel, DeviceError>,
    ) -> Result<(Self, Channel)> {
        let features = features::Held::new(name).map_err(&bad)?;
        let stamping = Stamping::new(name).map_err(&bad)?;
        let mut channel = open(name, stamping.stamps()).map_err(bad)?;
        let mut notes: Vec<_> = stamping.note().map(str::to_owned).into_iter().collect();
        if channel.outlet.pktgen().is_some() {
            notes.push(format!(
                "Loads on {name} whose frames are counted are sent by the kernel's pktgen: its delays are from when it made a frame, in whole microseconds"
            ));
        }
        Ok((Self::keep(name, features, Some(stamping), notes), channel))
    }

    fn keep(
        name: &str,
        features: features::Held,
        stamping: Option<Stamping>,
        notes: Vec<String>,
    ) -> Self {
        let (off, still_on) = (features.switched_off(), features.still_on());
        let stamps = stamping.as_ref().map_or("user space", |s| s.stamps().words());
        let set = Some(Set { _features: features, _stamping: stamping });
        let set = Arc::new(Mutex::new(set));
        locked(&ALL).push(Arc::downgrade(&set));
        Self { name: name.to_owned(), set, stamps, off, still_on, notes }
    }

    /// Where its stamps are taken.
    pub fn stamps(&self) -> &'static str {
        self.stamps
    }

    /// What a reader of results must know of it.
    pub fn note(&self, document: &mut Document) {
        let name = &self.name;
        if let Some(off) = &self.off {
            document.note(format!("Off on {name} for the measurement: {off}."));
        }
        if let Some(on) = &self.still_on {
            document.note(format!(
                "Still on on {name}, whose driver does not let it be switched off: {on}. Frames may be cut or joined."
            ));
        }
        document.note(format!("Stamps of {name}: {}.", self.stamps()));
        for note in &self.notes {
            document.note(format!("{note}."));
        }
    }
}
