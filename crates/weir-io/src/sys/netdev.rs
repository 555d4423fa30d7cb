//! What the kernel says about an interface, by ioctl: index, state, MTU, driver, offloads.
//!
//! Room: `sys`. Answers are of the network namespace in which the [`Control`] socket was made.

use super::{checked, socket};
use std::io;
use std::os::fd::{AsRawFd, OwnedFd};

const SIOCETHTOOL: libc::c_ulong = 0x8946;
const ETHTOOL_GDRVINFO: u32 = 0x03;

/// A socket to ask by.
#[derive(Debug)]
pub(crate) struct Control(OwnedFd);

/// An interface as it is now.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Interface {
    pub index: u32,
    pub mtu: usize,
    /// Set up by its administrator.
    pub up: bool,
    /// Has a link.
    pub running: bool,
}

/// A switch that an interface has, by the command that reads it and the one that sets it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Offload {
    /// tcp-segmentation-offload.
    Tso,
    /// generic-segmentation-offload.
    Gso,
    /// generic-receive-offload.
    Gro,
    /// tx-vlan-offload.
    TxVlan,
    /// rx-vlan-offload.
    RxVlan,
    /// large-receive-offload.
    Lro,
}

impl Offload {
    /// Command to read, command to set, and the bit where several share a command.
    fn commands(self) -> (u32, u32, u32) {
        match self {
            Self::Tso => (0x1e, 0x1f, 0),
            Self::Gso => (0x23, 0x24, 0),
            Self::Gro => (0x2b, 0x2c, 0),
            Self::TxVlan => (0x25, 0x26, 1 << 7),
            Self::RxVlan => (0x25, 0x26, 1 << 8),
            Self::Lro => (0x25, 0x26, 1 << 15),
        }
    }
    /// The name that `ethtool -K` takes.
    pub(crate) fn label(self) -> &'static str {
        match self {
            Self::Tso => "tso",
            Self::Gso => "gso",
            Self::Gro => "gro",
            Self::TxVlan => "tx-vlan-offload",
            Self::RxVlan => "rx-vlan-offload",
            Self::Lro => "lro",
        }
    }
}

#[repr(C)]
#[derive(Clone, Copy)]
struct EthtoolValue {
    cmd: u32,
    data: u32,
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
        // SAFETY: every command used here reads and writes at most an `ifreq` (and, for ethtool,
        // the structure its `ifru_data` points to, which the caller keeps alive).
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
        Ok(Interface {
            index,
            mtu: usize::try_from(mtu).unwrap_or(0),
            up: flags & libc::IFF_UP != 0,
            running: flags & libc::IFF_RUNNING != 0,
        })
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

    fn ethtool(&self, name: &str, cmd: u32, data: u32) -> io::Result<u32> {
        let mut value = EthtoolValue { cmd, data };
        let mut r = request(name)?;
        r.ifr_ifru.ifru_data = (&raw mut value).cast();
        self.ioctl(SIOCETHTOOL, &mut r)?;
        Ok(value.data)
    }

    /// Whether an offload is on.
    pub(crate) fn offload(&self, name: &str, which: Offload) -> io::Result<bool> {
        let (get, _, bit) = which.commands();
        let v = self.ethtool(name, get, 0)?;
        Ok(if bit == 0 { v != 0 } else { v & bit != 0 })
    }

    /// Switches an offload off; says whether it was on (and is off now).
    pub(crate) fn switch_off(&self, name: &str, which: Offload) -> io::Result<bool> {
        if !self.offload(name, which)? {
            return Ok(false);
        }
        self.set(name, which, |v, bit| v & !bit)?;
        if self.offload(name, which)? {
            return Err(io::Error::from_raw_os_error(libc::EOPNOTSUPP));
        }
        Ok(true)
    }

    /// Switches an offload on.
    pub(crate) fn switch_on(&self, name: &str, which: Offload) -> io::Result<()> {
        self.set(name, which, |v, bit| v | bit)
    }

    fn set(&self, name: &str, which: Offload, to: impl Fn(u32, u32) -> u32) -> io::Result<()> {
        let (get, set, bit) = which.commands();
        let data = if bit == 0 { to(0, 1) } else { to(self.ethtool(name, get, 0)?, bit) };
        self.ethtool(name, set, data).map(|_| ())
    }
}
