//! Offloads that would take from a frame what XDP does not carry; switched off while the port is
//! open, and on again afterwards.
//!
//! Room: `af_xdp`. What was seen to happen on Linux 6.18 with veth, in native and generic mode:
//! - A VLAN tag that the sender's kernel keeps beside the frame (`tx-vlan-hw-insert`) is lost: the
//!   frame arrives untagged, in whatever network that is. So the sender must write it into the
//!   frame.
//! - Native: attaching makes the kernel switch off segmentation offload of the other end by itself.
//!   Generic: super-frames arrive in several buffers without a word of the size of their pieces.
//!   TCP can be cut to the MTU, a UDP super-frame can't. So the sender must cut.
//! - Partial checksums arrive partial. They are completed on reception, so nothing is switched.
//!
//! Both settings are the other end's, often in another namespace. Where that can't be seen or
//! entered, what should be set there is reported. A network card's own settings are on this side.

use crate::interface::Watch;
use crate::sys::bpf::Attach;
use crate::sys::namespace::{Place, other_end};
use crate::sys::netdev::{Control, Switch};
use std::io;

/// Drivers whose frames may have partial checksums: the other end is a kernel that leaves them to
/// hardware, and there is none.
const VIRTUAL: [&str; 4] = ["veth", "tun", "virtio_net", "macvlan"];

/// Features of a sender by which tags stay outside frames.
const TAGS: &[&str] = &["tx-vlan-hw-insert", "tx-vlan-stag-hw-insert"];
/// Features of a sender by which it does not cut.
const CUTTING: &[&str] = &[
    "tx-tcp-segmentation",
    "tx-tcp6-segmentation",
    "tx-tcp-ecn-segmentation",
    "tx-tcp-mangleid-segmentation",
    "tx-tcp-accecn-segmentation",
    "tx-udp-segmentation",
    "tx-sctp-segmentation",
    "tx-gso-list",
];
/// Features of a receiving network card: tags taken out, frames put together.
const RECEPTION: &[&str] = &["rx-vlan-hw-parse", "rx-vlan-stag-hw-parse", "rx-lro", "rx-gro-hw"];

/// What may be done to the other end of a veth pair.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OtherEnd {
    /// Switch off there what XDP can't carry, until the port is closed.
    Set,
    /// Nothing; what should be set is noted.
    Leave,
}

pub(super) fn is_virtual(driver: &str) -> bool {
    VIRTUAL.contains(&driver)
}

/// What was switched off, and where; switched on again when dropped.
#[derive(Debug, Default)]
pub(super) struct Settings {
    changed: Option<(Place, Vec<String>)>,
    here: Option<(String, Vec<String>)>,
}

/// What becomes of frames of queues but the one that is served, and how to mend it: who sends into a veth chooses the queue, and how many of
/// its own are used.
pub(super) fn beside(name: &str, driver: &str, queue: u32, all: u32) -> String {
    let mend = match driver {
        "veth" => "'ethtool -L <its other end> tx 1' there sends all by one".to_owned(),
        _ => format!("'ethtool -L {name} combined 1' before it is opened makes it one"),
    };
    format!("only queue {queue} of {all} is served, the others' frames go past: {mend}")
}

impl Settings {
    pub(super) fn make(
        watch: &Watch,
        index: u32,
        driver: &str,
        how: Attach,
        permission: OtherEnd,
        notes: &mut Vec<String>,
    ) -> Self {
        match driver {
            "veth" => Self::at_the_other_end(watch.name(), index, how, permission, notes),
            _ => Self::on_this_side(watch, notes),
        }
    }

    fn on_this_side(watch: &Watch, notes: &mut Vec<String>) -> Self {
        let name = watch.name();
        let here = match watch.control.set_features(name, RECEPTION, Switch::Off) {
            Ok(changed) if changed.is_empty() => None,
            Ok(changed) => {
                notes.push(format!(
                    "{name}: {} switched off while the port is open",
                    changed.join(", ")
                ));
                Some((name.to_owned(), changed))
            }
            Err(e) => {
                notes.push(format!("{name}: its offloads can't be set: {e}"));
                None
            }
        };
        Self { changed: None, here }
    }

    fn at_the_other_end(
        name: &str,
        index: u32,
        how: Attach,
        permission: OtherEnd,
        notes: &mut Vec<String>,
    ) -> Self {
        let features: Vec<&'static str> = match how {
            Attach::Native => TAGS.to_vec(),
            Attach::Generic => [TAGS, CUTTING].concat(),
        };
        let wanted: Vec<String> = features.iter().map(|f| format!("{f} off")).collect();
        let wanted = wanted.join(" ");
        if permission == OtherEnd::Leave {
            notes.push(format!("{name}: set 'ethtool -K <its other end> {wanted}'"));
            return Self::default();
        }
        let place = match other_end(index) {
            Ok(Some(place)) => place,
            Ok(None) => {
                notes.push(format!(
                    "{name}: its other end is out of sight, VLAN tags from there may be lost: set \
                     'ethtool -K <its other end> {wanted}' there"
                ));
                return Self::default();
            }
            Err(e) => {
                notes.push(format!(
                    "{name}: its other end can't be reached ({e}), VLAN tags from there may be \
                     lost: set 'ethtool -K <its other end> {wanted}' there"
                ));
                return Self::default();
            }
        };
        match place.within(move |n| Control::new()?.set_features(n, &features, Switch::Off)) {
            Ok(changed) if changed.is_empty() => Self::default(),
            Ok(changed) => {
                let elsewhere = if place.is_elsewhere() { ", in another namespace" } else { "" };
                notes.push(format!(
                    "{name}: {} of its other end '{}'{elsewhere} switched off while the port is \
                     open",
                    changed.join(", "),
                    place.name
                ));
                Self { changed: Some((place, changed)), here: None }
            }
            Err(e) => {
                notes.push(format!(
                    "{name}: its other end '{}' can't be set ({e}): set 'ethtool -K {} {wanted}' \
                     there",
                    place.name, place.name
                ));
                Self::default()
            }
        }
    }
}

impl Drop for Settings {
    fn drop(&mut self) {
        // An end that is gone has nothing to be restored.
        if let Some((place, features)) = self.changed.take() {
            let _: io::Result<_> =
                place.within(move |n| Control::new()?.set_features(n, &features, Switch::On));
        }
        if let Some((name, features)) = self.here.take() {
            let _ = Control::new().and_then(|c| c.set_features(&name, &features, Switch::On));
        }
    }
}
