//! Whether an interface's carrier was gone between two looks: the kernel counts its changes, and a cable that was
//! pulled and put into another socket meanwhile leaves no other trace.
//!
//! Room: ports. Called by `interface`, a few times a second. Reads sysfs, which asks for no lock that others in the
//! kernel hold for long; a worker looks. Where sysfs is another network namespace's, nothing is seen of it.

use crate::sys::netdev::Interface;
use std::fs::{File, read_to_string};
use std::os::unix::fs::FileExt;
use weir_packet::LinkState;

/// What was there at the last look.
#[derive(Debug, Default)]
pub(crate) struct Carrier {
    /// The counter of the interface with this index, if there is one to be had.
    counter: Option<(u32, Option<File>)>,
    last: Option<(LinkState, u64)>,
}

impl Carrier {
    /// Whether the link, which is in this state, was up at the last look, is up, and was not meanwhile: then it is down to whoever looks, and up at the
    /// next look.
    pub(crate) fn was_away(&mut self, name: &str, i: &Interface, now: LinkState) -> bool {
        if self.counter.as_ref().is_none_or(|(of, _)| *of != i.index) {
            self.forget();
            self.counter = Some((i.index, open(name, i)));
        }
        let counter = self.counter.as_ref().and_then(|(_, f)| f.as_ref());
        let changes = counter.and_then(read);
        let told = told(self.last, changes, now);
        self.last = changes.map(|c| (told, c));
        told != now
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

/// An interface of that name in sysfs may be another namespace's: then it has another index, or another address.
fn open(name: &str, i: &Interface) -> Option<File> {
    let path = |what| format!("/sys/class/net/{name}/{what}");
    let says = |what| read_to_string(path(what)).ok().map(|t| t.trim().to_owned());
    let mac = i.mac.map(|b| format!("{b:02x}")).join(":");
    let is_it = says("ifindex")? == i.index.to_string() && says("address")? == mac;
    is_it.then(|| File::open(path("carrier_changes")).ok()).flatten()
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
