//! /dev/net/tun: making a TAP device, reading and writing frames.
//!
//! Room: `sys`. Source: the kernel's Documentation/networking/tuntap.rst.

use super::checked;
use std::fs::{File, OpenOptions};
use std::io::{self, Read, Write};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd};
use std::os::unix::fs::OpenOptionsExt;
use weir_packet::LinkState;

const TUNSETIFF: libc::c_ulong = 0x4004_54ca;
const TUNSETPERSIST: libc::c_ulong = 0x4004_54cb;
const TUNSETOFFLOAD: libc::c_ulong = 0x4004_54d0;
const TUNSETCARRIER: libc::c_ulong = 0x4004_54e2;
const IFF_TAP: libc::c_short = 0x0002;
const IFF_NO_PI: libc::c_short = 0x1000;

/// What the descriptor says about the device.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum State {
    Up,
    Down,
    Gone,
}

/// A TAP device that this process is attached to.
#[derive(Debug)]
pub(crate) struct Tap {
    file: File,
}

impl Tap {
    /// Attaches to the TAP device of that name, or makes it; an empty name lets the kernel choose.
    /// The name it has.
    pub(crate) fn attach(name: &str) -> io::Result<(Self, String)> {
        if name.len() >= libc::IFNAMSIZ {
            return Err(io::Error::from_raw_os_error(libc::ENODEV));
        }
        let file = OpenOptions::new()
            .read(true)
            .write(true)
            .custom_flags(libc::O_NONBLOCK | libc::O_CLOEXEC)
            .open("/dev/net/tun")?;
        // SAFETY: made of integers and a union of such and pointers; zeros are valid.
        let mut r: libc::ifreq = unsafe { std::mem::zeroed() };
        for (to, from) in r.ifr_name.iter_mut().zip(name.bytes()) {
            *to = from as libc::c_char;
        }
        r.ifr_ifru.ifru_flags = IFF_TAP | IFF_NO_PI;
        let fd = file.as_raw_fd();
        // SAFETY: the command reads and writes an `ifreq`.
        checked(unsafe { libc::ioctl(fd, TUNSETIFF as _, &raw mut r) })?;
        // No offload: the kernel completes checksums, cuts, and writes tags into frames.
        // SAFETY: the argument is a number.
        checked(unsafe { libc::ioctl(fd, TUNSETOFFLOAD as _, 0) })?;
        let name: Vec<u8> = r.ifr_name.iter().map(|&c| c as u8).take_while(|&b| b != 0).collect();
        Ok((Self { file }, String::from_utf8_lossy(&name).into_owned()))
    }

    /// Lets the device outlive this process.
    pub(crate) fn persist(&self) -> io::Result<()> {
        // SAFETY: the argument is a number.
        checked(unsafe { libc::ioctl(self.file.as_raw_fd(), TUNSETPERSIST as _, 1) })?;
        Ok(())
    }

    /// Says whether the device has a carrier, as an interface has whose cable leads to one that is up. Since Linux 5.0.
    pub(crate) fn set_carrier(&self, carrier: LinkState) -> io::Result<()> {
        let on = libc::c_int::from(carrier == LinkState::Up);
        // SAFETY: the command reads an `int`, which lives as long as this call.
        checked(unsafe { libc::ioctl(self.file.as_raw_fd(), TUNSETCARRIER as _, &raw const on) })?;
        Ok(())
    }

    /// Whether the device is there and up, in whatever namespace it is by now.
    pub(crate) fn state(&self) -> State {
        let events = libc::POLLOUT;
        let mut p = libc::pollfd { fd: self.file.as_raw_fd(), events, revents: 0 };
        // SAFETY: one structure, as the kernel is told; a timeout of zero does not wait.
        let r = unsafe { libc::poll(&raw mut p, 1, 0) };
        match p.revents {
            e if r < 0 || e & (libc::POLLERR | libc::POLLNVAL) != 0 => State::Gone,
            e if e & libc::POLLOUT != 0 => State::Up,
            _ => State::Down,
        }
    }

    /// Readable when a frame has come.
    pub(crate) fn descriptor(&self) -> BorrowedFd<'_> {
        self.file.as_fd()
    }

    /// Reads one frame; `WouldBlock` when there is none.
    pub(crate) fn read(&self, into: &mut [u8]) -> io::Result<usize> {
        (&self.file).read(into)
    }

    /// Writes one frame.
    pub(crate) fn write(&self, frame: &[u8]) -> io::Result<usize> {
        (&self.file).write(frame)
    }
}
