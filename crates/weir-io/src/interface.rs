//! An interface that a port stands on: opening it with clear errors, noticing that it disappears,
//! noticing that it is back, and that its link was away.
//!
//! Room: ports. Called by `af_packet`, `af_xdp` and `tap` when they open and a few times a second
//! by their `link`. Everything happens in the network namespace of the calling thread.

use crate::carrier::Carrier;
use crate::sys::netdev::{Control, Interface};
use std::io;
use weir_packet::{DeviceError, Frame, LinkState, SHORTEST_FRAME};

/// Fills a frame up with zeros to the length that Ethernet asks of its sender: an adapter would do
/// it, the interfaces of a kernel do not, and a popped label may leave less. Frames without a whole
/// header are left to be refused.
#[inline]
pub(crate) fn no_runt(frame: &mut Frame) {
    if (14..SHORTEST_FRAME).contains(&frame.len()) {
        frame.pad(SHORTEST_FRAME);
    }
}

/// What a look at the interface found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Seen {
    /// The interface that was opened, as it is, and its MTU.
    Same(LinkState, usize),
    /// The same, and it is up, but was not for a moment since the last look: it is to be told as down. Its MTU.
    Back(usize),
    /// One of the same name that is not the one opened: open it again.
    Another,
    /// None.
    None,
}

/// The name of an interface, and the socket to ask about it.
#[derive(Debug)]
pub(crate) struct Watch {
    name: String,
    pub(crate) control: Control,
    carrier: Carrier,
}

/// The error for a system call that failed on an interface.
pub(crate) fn error(
    what: &'static str,
    name: &str,
    need: &'static str,
    source: io::Error,
) -> DeviceError {
    let name = name.to_owned();
    match source.raw_os_error() {
        Some(libc::ENODEV | libc::ENXIO) => DeviceError::NoInterface(name),
        Some(libc::ENETDOWN) => DeviceError::InterfaceDown(name),
        Some(libc::EPERM | libc::EACCES) => DeviceError::NoRights { what, name, need },
        _ => DeviceError::System { what, name, source },
    }
}

impl Watch {
    /// # Errors
    /// The interface is missing, no Ethernet, or down.
    pub(crate) fn new(name: &str) -> Result<(Self, Interface), DeviceError> {
        let control =
            Control::new().map_err(|e| error("a control socket", name, "CAP_NET_ADMIN", e))?;
        let watch = Self { name: name.to_owned(), control, carrier: Carrier::default() };
        let interface = watch.usable()?;
        Ok((watch, interface))
    }

    pub(crate) fn name(&self) -> &str {
        &self.name
    }

    /// The interface, if it is there, an Ethernet, and up.
    pub(crate) fn usable(&self) -> Result<Interface, DeviceError> {
        let i = self
            .control
            .interface(&self.name)
            .map_err(|e| error("reading its state", &self.name, "CAP_NET_ADMIN", e))?;
        if !i.ethernet {
            let problem = "its frames have no Ethernet header: only Ethernet can be a port";
            return Err(DeviceError::Setting {
                name: self.name.clone(),
                problem: problem.to_owned(),
            });
        }
        if i.up { Ok(i) } else { Err(DeviceError::InterfaceDown(self.name.clone())) }
    }

    /// Frames that the kernel has received by it, whoever they went to.
    pub(crate) fn received(&self) -> Option<u64> {
        // Of the network namespace of this thread.
        received(&std::fs::read_to_string("/proc/thread-self/net/dev").ok()?, &self.name)
    }

    /// What has been there since the last call, where interface number `opened` was opened: as [`Watch::look`], but
    /// for a link that went and came back meanwhile, which is down once.
    pub(crate) fn look_again(&mut self, opened: Option<u32>) -> Seen {
        let found = self.control.interface(&self.name);
        match (seen(found.as_ref().ok(), opened), found) {
            (Seen::Same(state, mtu), Ok(i)) => match self.carrier.was_away(&self.name, &i, state) {
                true => Seen::Back(mtu),
                false => Seen::Same(state, mtu),
            },
            (seen, _) => {
                self.carrier.forget();
                seen
            }
        }
    }

    /// What is there now, where interface number `opened` was opened.
    pub(crate) fn look(&self, opened: Option<u32>) -> Seen {
        seen(self.control.interface(&self.name).ok().as_ref(), opened)
    }
}

/// The second number of an interface's line in proc_net_dev(5).
fn received(table: &str, name: &str) -> Option<u64> {
    let mut lines = table.lines().map(str::trim_start);
    let counts = lines.find_map(|line| line.strip_prefix(name)?.strip_prefix(':'))?;
    counts.split_ascii_whitespace().nth(1)?.parse().ok()
}

fn seen(found: Option<&Interface>, opened: Option<u32>) -> Seen {
    match found {
        Some(i) if Some(i.index) != opened => Seen::Another,
        Some(i) if i.up && i.running => Seen::Same(LinkState::Up, i.mtu),
        Some(i) => Seen::Same(LinkState::Down, i.mtu),
        None => Seen::None,
    }
}

#[cfg(test)]
mod tests {
    use super::received;

    #[test]
    fn what_an_interface_has_received_is_found_by_its_name() {
        let table = "Inter-|   Receive                                                |  Transmit\n \
                     face |bytes    packets errs drop fifo frame compressed multicast|bytes    packets\n \
                     p10:    1160      20    0    0    0     0          0         0     1010      19\n  \
                     p1: 88 7    0    3    0     0          0         0     1010      19    0    0\n";
        assert_eq!(received(table, "p1"), Some(7));
        assert_eq!(received(table, "p10"), Some(20));
        assert_eq!(received(table, "p"), None);
        assert_eq!(received(table, "face |bytes"), None);
    }
}
