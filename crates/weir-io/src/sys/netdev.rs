//! What the kernel says about an interface, by ioctl: index, state, MTU, driver, offloads.
//!
//! Room: `sys`. Answers are of the network namespace in which the [`Control`] socket was made.

use super::{checked, socket};
use crate::stamped::Offers;
use std::io;
use std::os::fd::{AsRawFd, OwnedFd};

const SIOCETHTOOL: libc::c_ulong = 0x8946;
const ETHTOOL_GDRVINFO: u32 = 0x03;
const ETHTOOL_GLINK: u32 = 0x0a;
const ETHTOOL_GSTRINGS: u32 = 0x1b;
const ETHTOOL_GSSET_INFO: u32 = 0x37;
const ETHTOOL_GFEATURES: u32 = 0x3a;
const ETHTOOL_SFEATURES: u32 = 0x3b;
const ETHTOOL_GCHANNELS: u32 = 0x3c;
const ETHTOOL_GET_TS_INFO: u32 = 0x41;
const SIOCSHWTSTAMP: libc::c_ulong = 0x89b0;
const SIOCGHWTSTAMP: libc::c_ulong = 0x89b1;
const ETH_SS_FEATURES: u32 = 4;
/// Words of one name.
const STRING_WORDS: usize = 8;
/// More features than any kernel has.
const MAX_FEATURES: u32 = 1024;

/// A socket to ask by.
#[derive(Debug)]
pub(crate) struct Control(OwnedFd);

/// An interface as it is now.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Interface {
    /// Its MAC address, if it is an Ethernet.
    pub(crate) mac: [u8; 6],
    pub index: u32,
    pub mtu: usize,
    /// Set up by its administrator.
    pub up: bool,
    /// Has a link.
    pub running: bool,
    /// Its frames begin with an Ethernet header.
    pub ethernet: bool,
}

#[repr(C)]
#[derive(Clone, Copy)]
struct DriverInfo {
    cmd: u32,
    driver: [u8; 32],
    rest: [u8; 160],
}

fn no_such_device() -> io::Error {
    io::Error::from_raw_os_error(libc::ENODEV)
}

/// A request for the interface of that name; none can be longer than 15 bytes.
fn request(name: &str) -> io::Result<libc::ifreq> {
    if name.is_empty() || name.len() >= libc::IFNAMSIZ || name.bytes().any(|b| b == 0) {
        return Err(no_such_device());
    }
    // SAFETY: the structure is made of integers and a union of such and pointers; zeros are valid.
    let mut r: libc::ifreq = unsafe { std::mem::zeroed() };
    for (to, from) in r.ifr_name.iter_mut().zip(name.bytes()) {
        *to = from as libc::c_char;
    }
    Ok(r)
}

impl Control {
    pub(crate) fn new() -> io::Result<Self> {
        socket(libc::AF_INET, libc::SOCK_DGRAM, 0).map(Self)
    }

    fn ioctl(&self, command: libc::c_ulong, r: &mut libc::ifreq) -> io::Result<()> {
        // SAFETY: every command used here reads and writes at most an `ifreq` (and, for ethtool
        // and stamps, the structure its `ifru_data` points to, which the caller keeps alive).
        checked(unsafe { libc::ioctl(self.0.as_raw_fd(), command as _, std::ptr::from_mut(r)) })?;
        Ok(())
    }

    /// The interface of that name; an error of kind `ENODEV` when there is none.
    pub(crate) fn interface(&self, name: &str) -> io::Result<Interface> {
        let mut r = request(name)?;
        self.ioctl(libc::SIOCGIFINDEX as _, &mut r)?;
        // SAFETY: the command has set this member.
        let index = unsafe { r.ifr_ifru.ifru_ifindex } as u32;
        self.ioctl(libc::SIOCGIFFLAGS as _, &mut r)?;
        // SAFETY: the command has set this member.
        let flags = i32::from(unsafe { r.ifr_ifru.ifru_flags });
        self.ioctl(libc::SIOCGIFMTU as _, &mut r)?;
        // SAFETY: the command has set this member.
        let mtu = unsafe { r.ifr_ifru.ifru_mtu };
        self.ioctl(libc::SIOCGIFHWADDR as _, &mut r)?;
        // SAFETY: the command has set this member.
        let hardware = unsafe { r.ifr_ifru.ifru_hwaddr };
        let kind = hardware.sa_family;
        let mac = std::array::from_fn(|i| hardware.sa_data[i] as u8);
        let up = flags & libc::IFF_UP != 0;
        // The flag may come up to a second after the link: the kernel looks after such events only so often.
        let running = flags & libc::IFF_RUNNING != 0 || up && self.has_carrier(name);
        Ok(Interface {
            ethernet: matches!(kind, libc::ARPHRD_ETHER | libc::ARPHRD_LOOPBACK),
            index,
            mac,
            mtu: usize::try_from(mtu).unwrap_or(0),
            up,
            running,
        })
    }

    /// Whether its driver says that it has a link; `false` where the driver says nothing.
    fn has_carrier(&self, name: &str) -> bool {
        let mut words = [ETHTOOL_GLINK, 0];
        self.ethtool(name, &mut words).is_ok() && words[1] != 0
    }

    /// Sets the interface up.
    pub(crate) fn set_up(&self, name: &str) -> io::Result<()> {
        let mut r = request(name)?;
        self.ioctl(libc::SIOCGIFFLAGS as _, &mut r)?;
        // SAFETY: the command has set this member.
        let flags = unsafe { r.ifr_ifru.ifru_flags };
        r.ifr_ifru.ifru_flags = flags | libc::IFF_UP as libc::c_short;
        self.ioctl(libc::SIOCSIFFLAGS as _, &mut r)
    }

    /// The name of the interface's driver, `veth` or `tun` for virtual ones.
    pub(crate) fn driver(&self, name: &str) -> io::Result<String> {
        let mut info = DriverInfo { cmd: ETHTOOL_GDRVINFO, driver: [0; 32], rest: [0; 160] };
        let mut r = request(name)?;
        r.ifr_ifru.ifru_data = (&raw mut info).cast();
        self.ioctl(SIOCETHTOOL, &mut r)?;
        let len = info.driver.iter().position(|&b| b == 0).unwrap_or(info.driver.len());
        Ok(String::from_utf8_lossy(&info.driver[..len]).into_owned())
    }

    /// An ethtool command whose structure is made of words; the first is the command.
    fn ethtool(&self, name: &str, words: &mut [u32]) -> io::Result<()> {
        let mut r = request(name)?;
        r.ifr_ifru.ifru_data = words.as_mut_ptr().cast();
        // The kernel reads and writes as much as the words themselves say: every caller below
        // makes them as long as it says.
        self.ioctl(SIOCETHTOOL, &mut r)
    }

    /// The names of the features that this kernel knows, in the order of their bits.
    fn feature_names(&self, name: &str) -> io::Result<Vec<String>> {
        // Command, reserved, a mask of 64 bits with one set, its length.
        let mut info = [ETHTOOL_GSSET_INFO, 0, 0, 0, 0];
        write_u64(&mut info, 2, 1 << ETH_SS_FEATURES);
        self.ethtool(name, &mut info)?;
        let n = info[4].min(MAX_FEATURES);
        let mut strings = vec![0; 3 + n as usize * STRING_WORDS];
        (strings[0], strings[1], strings[2]) = (ETHTOOL_GSTRINGS, ETH_SS_FEATURES, n);
        self.ethtool(name, &mut strings)?;
        let names = strings.split_off(3);
        Ok(names
            .chunks_exact(STRING_WORDS)
            .map(|words| {
                let bytes: Vec<u8> = words.iter().flat_map(|w| w.to_ne_bytes()).collect();
                let len = bytes.iter().position(|&b| b == 0).unwrap_or(bytes.len());
                String::from_utf8_lossy(&bytes[..len]).into_owned()
            })
            .collect())
    }

    /// The features that are on, as a bit each.
    fn active_features(&self, name: &str, count: usize) -> io::Result<Vec<u32>> {
        let blocks = count.div_ceil(32);
        // Per block: available, requested, active, never changed.
        let mut words = vec![0; 2 + 4 * blocks];
        (words[0], words[1]) = (ETHTOOL_GFEATURES, blocks as u32);
        self.ethtool(name, &mut words)?;
        Ok(words[2..].chunks_exact(4).map(|b| b[2]).collect())
    }

    /// The names of the features that are on.
    pub(crate) fn features_on(&self, name: &str) -> io::Result<Vec<String>> {
        let names = self.feature_names(name)?;
        let on = self.active_features(name, names.len())?;
        let is_on = |bit: usize| on.get(bit / 32).is_some_and(|w| w & 1 << (bit % 32) != 0);
        Ok(names.into_iter().enumerate().filter(|(bit, _)| is_on(*bit)).map(|(_, n)| n).collect())
    }

    /// Switches features on or off, by their kernel names; unknown ones are left out. The answer
    /// names those that have changed.
    pub(crate) fn set_features(
        &self,
        name: &str,
        features: &[impl AsRef<str>],
        to: Switch,
    ) -> io::Result<Vec<String>> {
        let names = self.feature_names(name)?;
        let before = self.active_features(name, names.len())?;
        // Per block: which bits are meant, and what they shall be.
        let mut words = vec![0; 2 + 2 * before.len()];
        (words[0], words[1]) = (ETHTOOL_SFEATURES, before.len() as u32);
        for feature in features {
            let Some(bit) = names.iter().position(|n| n == feature.as_ref()) else { continue };
            let on = before[bit / 32] & 1 << (bit % 32) != 0;
            if on != (to == Switch::On) {
                words[2 + bit / 32 * 2] |= 1 << (bit % 32);
                if to == Switch::On {
                    words[3 + bit / 32 * 2] |= 1 << (bit % 32);
                }
            }
        }
        if words[2..].iter().all(|&w| w == 0) {
            return Ok(Vec::new());
        }
        self.ethtool(name, &mut words)?;
        let after = self.active_features(name, names.len())?;
        Ok(names
            .into_iter()
            .enumerate()
            .filter(|(bit, _)| (before[bit / 32] ^ after[bit / 32]) & 1 << (bit % 32) != 0)
            .map(|(_, n)| n)
            .collect())
    }

    /// What it says of its time stamps.
    pub(crate) fn stamp_info(&self, name: &str) -> io::Result<Offers> {
        // Command, SOF_TIMESTAMPING_*, clock, transmit modes, three reserved, filters, three reserved.
        let mut words = [ETHTOOL_GET_TS_INFO, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0];
        self.ethtool(name, &mut words)?;
        Ok(Offers {
            so_timestamping: words[1],
            // -1 for none.
            clock: Some(words[2]).filter(|&n| n != u32::MAX),
            tx_types: words[3],
            rx_filters: words[7],
        })
    }

    /// What its adapter stamps.
    pub(crate) fn hardware_stamps(&self, name: &str) -> io::Result<HardwareStamps> {
        let mut stamps = HardwareStamps::default();
        self.stamp_request(SIOCGHWTSTAMP, name, &mut stamps)?;
        Ok(stamps)
    }

    /// Has its adapter stamp so; an error if it does less.
    pub(crate) fn set_hardware_stamps(&self, name: &str, to: HardwareStamps) -> io::Result<()> {
        let mut done = to;
        self.stamp_request(SIOCSHWTSTAMP, name, &mut done)?;
        // A driver may stamp more than it was asked for, and says so.
        if done.filter < to.filter.min(1) || done.sent < to.sent {
            return Err(io::Error::other("the driver stamps other frames than it was asked to"));
        }
        Ok(())
    }

    fn stamp_request(
        &self,
        command: libc::c_ulong,
        name: &str,
        stamps: &mut HardwareStamps,
    ) -> io::Result<()> {
        let mut r = request(name)?;
        r.ifr_ifru.ifru_data = std::ptr::from_mut(stamps).cast();
        self.ioctl(command, &mut r)
    }

    /// Queues that are in use, for reception and for sending, where the driver says.
    pub(crate) fn queues(&self, name: &str) -> io::Result<(u32, u32)> {
        // Command, four maxima, then rx, tx, other, combined.
        let mut words = [ETHTOOL_GCHANNELS, 0, 0, 0, 0, 0, 0, 0, 0];
        self.ethtool(name, &mut words)?;
        let [.., rx, tx, _, both] = words;
        Ok((rx.saturating_add(both), tx.saturating_add(both)))
    }
}

/// `struct hwtstamp_config`.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct HardwareStamps {
    flags: i32,
    /// HWTSTAMP_TX_*.
    sent: i32,
    /// HWTSTAMP_FILTER_*.
    filter: i32,
}

impl HardwareStamps {
    /// Every frame, both ways.
    pub(crate) const ALL: Self = Self { flags: 0, sent: 1, filter: 1 };
}

/// Which way a feature is switched.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Switch {
    On,
    Off,
}

/// Two words, in the order in which the machine keeps a 64-bit integer.
fn write_u64(words: &mut [u32], at: usize, v: u64) {
    let [a, b, c, d, e, f, g, h] = v.to_ne_bytes();
    words[at] = u32::from_ne_bytes([a, b, c, d]);
    words[at + 1] = u32::from_ne_bytes([e, f, g, h]);
}

/// The name of interface `index` in the namespace of the calling thread.
pub(crate) fn name_of(index: u32) -> Option<String> {
    let mut name = [0u8; libc::IFNAMSIZ];
    // SAFETY: the buffer has the length that the function asks for.
    let r = unsafe { libc::if_indextoname(index, name.as_mut_ptr().cast()) };
    if r.is_null() {
        return None;
    }
    let len = name.iter().position(|&b| b == 0)?;
    Some(String::from_utf8_lossy(&name[..len]).into_owned())
}
