//! Offloads of an interface that would falsify what an instrument sees: off while they are held, on again
//! afterwards.
//!
//! Room: beside the ports; the other end of a wire is not touched. Called by the measurement engine's binary
//! for the interfaces that it is given. Everything stays in the network namespace in which it began, also
//! when it ends on a thread of another.
//!
//! Checksum offloads are left: an instrument writes checksums itself, sends by AF_PACKET, where nobody
//! completes them, and sees the bytes that came.

use crate::interface::{Watch, error};
use crate::sys::netdev::{Control, Switch};
use std::thread::sleep;
use std::time::{Duration, Instant};
use weir_packet::{DeviceError, LinkState};

/// By its kernel's name, and what it does.
const FALSIFYING: &[(&str, &str)] = &[
    // Several frames become one, later.
    ("rx-gro", "GRO"),
    ("rx-gro-hw", "GRO"),
    ("rx-gro-list", "GRO"),
    ("rx-udp-gro-forwarding", "GRO"),
    ("rx-lro", "LRO"),
    // One becomes several.
    ("tx-generic-segmentation", "GSO"),
    ("tx-gso-list", "GSO"),
    ("tx-udp-segmentation", "GSO"),
    ("tx-tcp-segmentation", "TSO"),
    ("tx-tcp6-segmentation", "TSO"),
    ("tx-tcp-ecn-segmentation", "TSO"),
    ("tx-tcp-mangleid-segmentation", "TSO"),
    ("tx-tcp-accecn-segmentation", "TSO"),
    // Tags travel beside the frame.
    ("rx-vlan-hw-parse", "VLAN stripping"),
    ("rx-vlan-stag-hw-parse", "VLAN stripping"),
    ("tx-vlan-hw-insert", "VLAN insertion"),
    ("tx-vlan-stag-hw-insert", "VLAN insertion"),
];

/// How long an adapter may take to have its link again: some begin anew for this.
const LINK: Duration = Duration::from_secs(10);
const LOOK: Duration = Duration::from_millis(50);

/// An interface whose falsifying offloads are off; dropped, those that were on are on again.
#[derive(Debug)]
pub struct Held {
    control: Control,
    name: String,
    off: Vec<String>,
    left: Vec<String>,
}

impl Held {
    /// Switches them off, and waits for a link that this has cut.
    ///
    /// # Errors
    /// No such interface, down, no rights.
    pub fn new(name: &str) -> Result<Self, DeviceError> {
        let (watch, interface) = Watch::new(name)?;
        let up = |w: &Watch| {
            matches!(w.look(Some(interface.index)), crate::interface::Seen::Same(LinkState::Up, _))
        };
        let was_up = up(&watch);
        let failed = |e| error("switching offloads off", name, "CAP_NET_ADMIN", e);
        let names: Vec<&str> = FALSIFYING.iter().map(|f| f.0).collect();
        let off = watch.control.set_features(name, &names, Switch::Off).map_err(failed)?;
        let left = watch.control.features_on(name).map_err(failed)?;
        let left = left.into_iter().filter(|l| names.contains(&l.as_str())).collect();
        if !off.is_empty() && was_up {
            let begin = Instant::now();
            while !up(&watch) && begin.elapsed() < LINK {
                sleep(LOOK);
            }
        }
        Ok(Self { control: watch.control, name: name.to_owned(), off, left })
    }

    /// What was on and is off now, in words; `None` if nothing was.
    pub fn switched_off(&self) -> Option<String> {
        words(&self.off)
    }

    /// What its driver does not let be switched off, in words.
    pub fn still_on(&self) -> Option<String> {
        words(&self.left)
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        if !self.off.is_empty() {
            // One that has gone needs nothing.
            let _ = self.control.set_features(&self.name, &self.off, Switch::On);
        }
    }
}

/// The usual names of features, each once; of those that have none, the kernel's.
fn words(features: &[String]) -> Option<String> {
    let mut found: Vec<&str> = Vec::new();
    for f in features {
        let word = FALSIFYING.iter().find(|k| k.0 == f).map_or(f.as_str(), |k| k.1);
        if !found.contains(&word) {
            found.push(word);
        }
    }
    (!found.is_empty()).then(|| found.join(", "))
}

#[cfg(test)]
mod tests {
    use super::words;

    #[test]
    fn features_in_words() {
        let all = ["rx-gro", "tx-tcp-segmentation", "rx-gro-hw", "tx-new-thing"];
        let all = all.map(str::to_owned);
        assert_eq!(words(&all).as_deref(), Some("GRO, TSO, tx-new-thing"));
        assert_eq!(words(&[]), None);
    }
}
