//! The wall clock, for stamps of frames that have none. Read once per burst at most.

use std::time::{SystemTime, UNIX_EPOCH};
use weir_packet::Nanos;

/// Now, in nanoseconds of the Unix epoch.
pub(crate) fn unix() -> Nanos {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    Nanos(u64::try_from(since.as_nanos()).unwrap_or(u64::MAX))
}
