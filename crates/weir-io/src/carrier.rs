//! Whether an interface's carrier was gone between two looks: the kernel counts its changes, and a cable that was
//! pulled and put into another socket meanwhile leaves no other trace.
//!
//! Room: ports. Called by `interface`, a few times a second. Reads sysfs, which asks for no lock that others in the
//! kernel hold for long; a worker looks. Where sysfs is another network namespace's, nothing is seen of it.

use std::fs::{File, read_to_string};
use std::os::unix::fs::FileExt;
use weir_packet::LinkState;

/// What was there at the last look.
#[derive(Debug, Default)]
pub(crate) struct Carrier {
    /// The counter of the interface with this index.
    counter: Option<(u32, File)>,
    last: Option<(LinkState, u64)>,
}

impl Carrier {
    /// The link's state as whoever looks has to be told: of one that was up, is up, and was not meanwhile, that it is
    /// down. At the next look it is up.
    pub(crate) fn seen(&mut self, name: &str, index: u32, now: LinkState) -> LinkState {
        if self.counter.as_ref().is_none_or(|(of, _)| *of != index) {
            self.forget();
            self.counter = open(name, index).map(|f| (index, f));
        }
        let changes = self.counter.as_ref().and_then(|(_, f)| read(f));
        let told = told(self.last, changes, now);
        self.last = changes.map(|c| (told, c));
        told
    }

    /// To be called when the interface is another, or none.
    pub(crate) fn forget(&mut self) {
        *self = Self::default();
    }
}

fn told(last: Option<(LinkState, u64)>, changes: Option<u64>, now: LinkState) -> LinkState {
    match (last, changes) {
        (Some((LinkState::Up, before)), Some(changes)) if changes != before => LinkState::Down,
        _ => now,
    }
}

/// An interface of that name in sysfs may be another namespace's: then it has another index.
fn open(name: &str, index: u32) -> Option<File> {
    let of = |what| format!("/sys/class/net/{name}/{what}");
    let there: u32 = read_to_string(of("ifindex")).ok()?.trim().parse().ok()?;
    (there == index).then(|| File::open(of("carrier_changes")).ok()).flatten()
}

fn read(counter: &File) -> Option<u64> {
    let mut text = [0; 24];
    let n = counter.read_at(&mut text, 0).ok()?;
    std::str::from_utf8(text.get(..n)?).ok()?.trim().parse().ok()
}

#[cfg(test)]
mod tests {
    use super::told;
    use LinkState::{Down, Up};
    use weir_packet::LinkState;

    #[test]
    fn a_carrier_that_was_gone_meanwhile_is_told_once() {
        // What was told last, changes by now, the state now; what is told.
        for (last, changes, now, want) in [
            (None, Some(7), Up, Up),
            (Some((Up, 7)), Some(7), Up, Up),
            (Some((Up, 7)), Some(9), Up, Down),
            (Some((Down, 9)), Some(9), Up, Up),
            (Some((Up, 7)), Some(8), Down, Down),
            (Some((Down, 8)), Some(9), Up, Up),
            // It may have been told as down already: nobody has to hear it twice.
            (Some((Down, 8)), Some(11), Up, Up),
            (Some((Up, 7)), None, Up, Up),
        ] {
            assert_eq!(told(last, changes, now), want, "{last:?} {changes:?} {now:?}");
        }
    }
}
