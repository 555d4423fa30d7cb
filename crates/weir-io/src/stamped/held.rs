//! The stamps of an interface, set for a measurement and put back afterwards.
//!
//! Called before a [`super::Sender`] or [`super::Capture`] of that interface is opened, which then asks
//! for the stamps chosen here.

use super::device_clock::DeviceClock;
use super::offers::{Offers, Stamps};
use crate::interface::{Watch, error};
use crate::sys::netdev::{Control, HardwareStamps};
use weir_packet::DeviceError;

/// An interface whose stamps are set; dropped, they are as before.
#[derive(Debug)]
pub struct Stamping {
    control: Control,
    name: String,
    stamps: Stamps,
    before: Option<HardwareStamps>,
    note: Option<String>,
}

impl Stamping {
    /// Has the adapter stamp every frame if it can, and leaves it to the kernel otherwise. Where it says it
    /// can and does not, [`Self::note`] says so.
    ///
    /// # Errors
    /// No such interface, down.
    pub fn new(name: &str) -> Result<Self, DeviceError> {
        let (Watch { control, .. }, _) = Watch::new(name)?;
        let offers = control
            .stamp_info(name)
            .map_err(|e| error("asking for its time stamps", name, "CAP_NET_RAW", e))?;
        let mut this = Self {
            control,
            name: name.to_owned(),
            stamps: Stamps::Software,
            before: None,
            note: None,
        };
        if let Stamps::Hardware { clock } = offers.best() {
            match this.set(clock) {
                Ok(()) => this.stamps = Stamps::Hardware { clock },
                Err(e) => {
                    this.note = Some(format!(
                        "{name} offers time stamps of its own, which can't be had ({e}): the kernel's are used"
                    ));
                }
            }
        }
        Ok(this)
    }

    fn set(&mut self, clock: u32) -> std::io::Result<()> {
        // Readable, above all.
        DeviceClock::open(clock)?;
        // A driver that does not say is put back to none.
        let before = self.control.hardware_stamps(&self.name).unwrap_or_default();
        self.control.set_hardware_stamps(&self.name, HardwareStamps::ALL)?;
        self.before = Some(before);
        Ok(())
    }

    /// Where they are taken.
    pub fn stamps(&self) -> Stamps {
        self.stamps
    }

    /// What a person should know.
    pub fn note(&self) -> Option<&str> {
        self.note.as_deref()
    }
}

impl Drop for Stamping {
    fn drop(&mut self) {
        if let Some(before) = self.before.take() {
            // One that has gone needs nothing.
            let _ = self.control.set_hardware_stamps(&self.name, before);
        }
    }
}

/// What the interface offers.
///
/// # Errors
/// No such interface, down.
pub fn offers(name: &str) -> Result<Offers, DeviceError> {
    let (watch, _) = Watch::new(name)?;
    let said = watch.control.stamp_info(name);
    said.map_err(|e| error("asking for its time stamps", name, "CAP_NET_RAW", e))
}
