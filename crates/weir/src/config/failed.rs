//! Why a change of a data plane failed, and whose it was.
//!
//! Room: data. Made by `apply.rs`, shown to people.

use super::error::Place;
use std::fmt;
use weir_dataplane::ControlError;
use weir_packet::DeviceError;

/// Why a step failed.
#[derive(Debug)]
pub enum Reason {
    /// The data plane refused.
    Control(ControlError),
    /// A port could not be opened.
    Device(DeviceError),
    /// Something the plan says can't be.
    Config(String),
}

impl fmt::Display for Reason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Control(e) => e.fmt(f),
            Self::Device(e) => e.fmt(f),
            Self::Config(e) => e.fmt(f),
        }
    }
}

/// A step that failed, with whose it was.
#[derive(Debug)]
pub struct Failed {
    /// Where the file says so.
    pub place: Option<Place>,
    /// Whose.
    pub whose: String,
    /// Why.
    pub reason: Reason,
    /// How many changes had been made before.
    pub after: usize,
}

impl fmt::Display for Failed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(p) = &self.place {
            write!(f, "{p}: ")?;
        }
        write!(f, "{}: {}", self.whose, self.reason)
    }
}

impl std::error::Error for Failed {}

impl Failed {
    /// Whether another program has an interface, or is only just giving it back.
    pub fn is_busy(&self) -> bool {
        matches!(&self.reason, Reason::Device(e) if e.is_busy())
    }
    /// Whether the machine is to blame, and not what the user wrote.
    pub fn is_environment(&self) -> bool {
        matches!(
            self.reason,
            Reason::Device(
                DeviceError::InterfaceDown(_)
                    | DeviceError::Busy { .. }
                    | DeviceError::NoRights { .. }
                    | DeviceError::System { .. }
            )
        )
    }
}

impl From<ControlError> for Reason {
    fn from(e: ControlError) -> Self {
        Self::Control(e)
    }
}
