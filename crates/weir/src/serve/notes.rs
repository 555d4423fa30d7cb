//! What is known of a request when it is answered, for its line in the log: who made it, and what it came to.
//!
//! Room: texts. Made around every request that changes something, filled in by [`super::caller`] and by changes.

use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// A request's; those of a clone are the same.
#[derive(Clone, Debug, Default)]
pub struct Notes(Arc<Mutex<Inside>>);

#[derive(Debug, Default)]
struct Inside {
    by: Option<String>,
    came_to: Option<String>,
}

impl Notes {
    fn inside(&self) -> MutexGuard<'_, Inside> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
    /// The token of this id was shown.
    pub fn by(&self, id: &str) {
        self.inside().by = Some(id.to_owned());
    }
    /// This is what it is, or has become.
    pub fn came_to(&self, what: impl fmt::Display) {
        self.inside().came_to = Some(what.to_string());
    }
}

/// Behind the status.
impl fmt::Display for Notes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Inside { by, came_to } = &*self.inside();
        by.iter().try_for_each(|id| write!(f, ", token {id}"))?;
        came_to.iter().try_for_each(|what| write!(f, ", {what}"))
    }
}
