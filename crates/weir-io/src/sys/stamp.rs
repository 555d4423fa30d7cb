//! AF_PACKET sockets that say when frames passed: time stamps of the kernel or of the adapter, both ways.
//!
//! Room: `sys`. Knows messages, not what is in them. Source: the kernel's `timestamping.rst`,
//! `net_tstamp.h`, packet(7). Frames that were sent come back by the socket's error queue with the
//! moment at which the driver took them; frames received carry the moment at which they entered the
//! stack. Both are CLOCK_REALTIME. An adapter's are of its own clock.

use super::checked;
use super::packet::{
    self, PACKET_AUXDATA, PACKET_IGNORE_OUTGOING, PACKET_QDISC_BYPASS, SOL_PACKET,
    TP_STATUS_VLAN_TPID_VALID, TP_STATUS_VLAN_VALID, bind,
};
use super::set_option;
use std::io;
use std::mem::zeroed;
use std::os::fd::{AsRawFd, OwnedFd};
use std::ptr;
use std::time::Duration;
use weir_packet::Nanos;

/// SOF_TIMESTAMPING_*: make one when a frame is sent, when one is received; hand out these.
const TX_HARDWARE: u32 = 1 << 0;
const TX_SOFTWARE: u32 = 1 << 1;
const RX_HARDWARE: u32 = 1 << 2;
const RX_SOFTWARE: u32 = 1 << 3;
const SOFTWARE: u32 = 1 << 4;
const RAW_HARDWARE: u32 = 1 << 6;
/// Room for the control messages of one frame, in words: stamps, auxiliary data, an extended error.
const CONTROL_WORDS: usize = 32;
/// Frames per call.
pub(crate) const BATCH: usize = 64;

/// A frame on its way in, or one that comes back by the error queue.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Passed {
    /// Its length; more than was kept if it was cut.
    pub len: usize,
    /// When the kernel saw it.
    pub stamp: Option<Nanos>,
    /// When the adapter did, by its own clock.
    pub hardware: Option<Nanos>,
    /// TPID and TCI of a tag that was taken out.
    pub vlan: Option<(u16, u16)>,
}

/// Whose stamps are asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum By {
    Kernel,
    Adapter,
}

fn raw(buffer_bytes: i32, stamps: u32) -> io::Result<OwnedFd> {
    let fd = packet::raw()?;
    packet::queue(&fd, buffer_bytes)?;
    set_option(&fd, libc::SOL_SOCKET, libc::SO_TIMESTAMPING, stamps)?;
    Ok(fd)
}

/// A socket that sends by one interface, past its queueing discipline.
pub(crate) fn sender(index: u32, buffer_bytes: i32, by: By) -> io::Result<OwnedFd> {
    // Which frames are stamped is said with each of them.
    let stamps = match by {
        By::Kernel => SOFTWARE,
        By::Adapter => RAW_HARDWARE,
    };
    let fd = raw(buffer_bytes, stamps)?;
    set_option(&fd, SOL_PACKET, PACKET_QDISC_BYPASS, 1i32)?;
    bind(&fd, index, 0)?;
    Ok(fd)
}

/// A socket that receives every frame that comes in by one interface, in promiscuous mode.
pub(crate) fn receiver(index: u32, buffer_bytes: i32, by: By) -> io::Result<OwnedFd> {
    // Frames that an adapter does not stamp have the kernel's.
    let software = RX_SOFTWARE | SOFTWARE;
    let stamps = match by {
        By::Kernel => software,
        By::Adapter => software | RX_HARDWARE | RAW_HARDWARE,
    };
    let fd = raw(buffer_bytes, stamps)?;
    set_option(&fd, SOL_PACKET, PACKET_AUXDATA, 1i32)?;
    set_option(&fd, SOL_PACKET, PACKET_IGNORE_OUTGOING, 1i32)?;
    bind(&fd, index, libc::ETH_P_ALL as u16)?;
    packet::promiscuous(&fd, index)?;
    Ok(fd)
}

/// Waits until there is something to read, or so long at most; says whether there is.
pub(crate) fn wait(fd: &OwnedFd, at_most: Duration) -> io::Result<bool> {
    let mut p = libc::pollfd { fd: fd.as_raw_fd(), events: libc::POLLIN, revents: 0 };
    let ms = i32::try_from(at_most.as_millis()).unwrap_or(i32::MAX);
    // SAFETY: one structure, alive for the call.
    match checked(unsafe { libc::poll(&raw mut p, 1, ms) }) {
        Ok(n) => Ok(n > 0),
        Err(e) if e.kind() == io::ErrorKind::Interrupted => Ok(false),
        Err(e) => Err(e),
    }
}

/// Where frames come from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Queue {
    /// Those received.
    Received,
    /// Those sent, by the error queue.
    Sent,
}

/// Words of a control message of four bytes.
const REQUEST_WORDS: usize = 3;
/// Its length without padding.
const REQUEST_LEN: u64 = 20;

/// The control message that asks for a frame's stamp.
fn request(stamp: u32) -> [u64; REQUEST_WORDS] {
    let mut b = [0; REQUEST_WORDS * 8];
    b[..8].copy_from_slice(&REQUEST_LEN.to_ne_bytes());
    b[8..12].copy_from_slice(&libc::SOL_SOCKET.to_ne_bytes());
    b[12..16].copy_from_slice(&libc::SO_TIMESTAMPING.to_ne_bytes());
    b[16..20].copy_from_slice(&stamp.to_ne_bytes());
    let mut words = [0; REQUEST_WORDS];
    for (to, from) in words.iter_mut().zip(b.as_chunks::<8>().0) {
        *to = u64::from_ne_bytes(*from);
    }
    words
}

/// Storage for up to [`BATCH`] frames of a call.
pub(crate) struct Batch {
    storage: Vec<u8>,
    keep: usize,
    messages: Vec<libc::mmsghdr>,
    parts: Vec<libc::iovec>,
    control: Vec<[u64; CONTROL_WORDS]>,
}

// SAFETY: the pointers inside are only used within `take`, which sets all of them before.
unsafe impl Send for Batch {}

impl std::fmt::Debug for Batch {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Batch").field("keep", &self.keep).finish()
    }
}

impl Batch {
    /// Keeps at most `keep` bytes of each frame.
    pub(crate) fn new(keep: usize) -> Self {
        // SAFETY: both are made of integers and pointers; zeros are valid.
        let (message, part) = unsafe { (zeroed(), zeroed()) };
        Self {
            storage: vec![0; BATCH * keep],
            keep,
            messages: vec![message; BATCH],
            parts: vec![part; BATCH],
            control: vec![[0; CONTROL_WORDS]; BATCH],
        }
    }

    /// Takes what is there, without waiting, at most so many frames and [`BATCH`]; says how many.
    pub(crate) fn take(&mut self, fd: &OwnedFd, queue: Queue, most: usize) -> io::Result<usize> {
        let most = most.min(BATCH);
        for (i, storage) in self.storage.chunks_exact_mut(self.keep).take(most).enumerate() {
            self.parts[i] =
                libc::iovec { iov_base: storage.as_mut_ptr().cast(), iov_len: storage.len() };
            let m = &mut self.messages[i].msg_hdr;
            m.msg_iov = &raw mut self.parts[i];
            m.msg_iovlen = 1;
            m.msg_control = self.control[i].as_mut_ptr().cast();
            m.msg_controllen = CONTROL_WORDS * 8;
            m.msg_flags = 0;
        }
        let flags = libc::MSG_DONTWAIT
            | libc::MSG_TRUNC
            | if queue == Queue::Sent { libc::MSG_ERRQUEUE } else { 0 };
        // SAFETY: every message points to storage of `self`, borrowed mutably for the whole call.
        let got = unsafe {
            libc::recvmmsg(
                fd.as_raw_fd(),
                self.messages.as_mut_ptr(),
                most as u32,
                flags,
                ptr::null_mut(),
            )
        };
        match checked(got) {
            Ok(got) => Ok(got as usize),
            Err(e)
                if matches!(e.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::Interrupted) =>
            {
                Ok(0)
            }
            Err(e) => Err(e),
        }
    }

    /// Frame `i` of the last call: its kept bytes, and what the kernel says of it.
    pub(crate) fn frame(&self, i: usize) -> (&[u8], Passed) {
        let (Some(m), Some(c)) = (self.messages.get(i), self.control.get(i)) else {
            return (&[], Passed::default());
        };
        let len = m.msg_len as usize;
        let at = i * self.keep;
        let bytes = self.storage.get(at..at + len.min(self.keep)).unwrap_or_default();
        (bytes, Passed { len, ..said(c, m.msg_hdr.msg_controllen) })
    }
}

/// Reads the control messages: a `cmsghdr` of 16 bytes each (length, level, type), then its data, all
/// aligned to 8.
fn said(control: &[u64; CONTROL_WORDS], len: usize) -> Passed {
    let mut b = [0; CONTROL_WORDS * 8];
    for (to, from) in b.as_chunks_mut::<8>().0.iter_mut().zip(control) {
        *to = from.to_ne_bytes();
    }
    let mut passed = Passed::default();
    let mut rest = b.get(..len).unwrap_or(&b);
    while let Some((head, _)) = rest.split_at_checked(16) {
        let size = word8(head, 0) as usize;
        let (level, kind) = (word4(head, 8) as i32, word4(head, 12) as i32);
        let Some(data) = rest.get(16..size) else { break };
        if level == libc::SOL_SOCKET && kind == libc::SCM_TIMESTAMPING && data.len() >= 16 {
            // Of three the first is software, the last raw hardware. Zero where there is none.
            let time = |at| {
                let (s, ns) = (word8(data, at), word8(data, at + 8));
                let at = s.saturating_mul(1_000_000_000).saturating_add(ns);
                (at != 0).then_some(Nanos(at))
            };
            (passed.stamp, passed.hardware) = (time(0), time(32));
        } else if level == SOL_PACKET && kind == PACKET_AUXDATA && data.len() >= 20 {
            let status = word4(data, 0);
            let half = |at: usize| u16::from_ne_bytes([data[at], data[at + 1]]);
            if status & TP_STATUS_VLAN_VALID != 0 {
                let tpid = if status & TP_STATUS_VLAN_TPID_VALID != 0 { half(18) } else { 0x8100 };
                passed.vlan = Some((tpid, half(16)));
            }
        }
        let Some(next) = rest.get(size.next_multiple_of(8)..) else { break };
        rest = next;
    }
    passed
}

fn word8(b: &[u8], at: usize) -> u64 {
    let mut w = [0; 8];
    if let Some(from) = b.get(at..at + 8) {
        w.copy_from_slice(from);
    }
    u64::from_ne_bytes(w)
}

fn word4(b: &[u8], at: usize) -> u32 {
    let mut w = [0; 4];
    if let Some(from) = b.get(at..at + 4) {
        w.copy_from_slice(from);
    }
    u32::from_ne_bytes(w)
}

/// Storage for sending up to [`BATCH`] frames in a call.
pub(crate) struct Out {
    messages: Vec<libc::mmsghdr>,
    parts: Vec<libc::iovec>,
    /// Asks for the stamp of one frame: a `cmsghdr` (length, level, type), then SOF_TIMESTAMPING_*.
    request: [u64; REQUEST_WORDS],
}

// SAFETY: the pointers inside are only used within `send`, which sets all of them before.
unsafe impl Send for Out {}

impl std::fmt::Debug for Out {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Out")
    }
}

impl Out {
    pub(crate) fn new(by: By) -> Self {
        // SAFETY: both are made of integers and pointers; zeros are valid.
        let (message, part) = unsafe { (zeroed(), zeroed()) };
        let stamp = match by {
            By::Kernel => TX_SOFTWARE,
            By::Adapter => TX_HARDWARE,
        };
        Self { messages: vec![message; BATCH], parts: vec![part; BATCH], request: request(stamp) }
    }

    /// Sends frames from the front; says how many went. Those of which `stamped` says so, by their place, come
    /// back by the error queue. An error is that of the first: then none went.
    pub(crate) fn send<B: AsRef<[u8]>>(
        &mut self,
        fd: &OwnedFd,
        frames: &[B],
        stamped: impl Fn(usize) -> bool,
    ) -> io::Result<usize> {
        let n = frames.len().min(BATCH);
        if n == 0 {
            return Ok(0);
        }
        for (i, frame) in frames.iter().take(n).enumerate() {
            let b = frame.as_ref();
            self.parts[i] =
                libc::iovec { iov_base: b.as_ptr().cast_mut().cast(), iov_len: b.len() };
            let m = &mut self.messages[i].msg_hdr;
            m.msg_iov = &raw mut self.parts[i];
            m.msg_iovlen = 1;
            (m.msg_control, m.msg_controllen) = (ptr::null_mut(), 0);
            if stamped(i) {
                m.msg_control = self.request.as_mut_ptr().cast();
                m.msg_controllen = REQUEST_WORDS * 8;
            }
        }
        // SAFETY: the first `n` messages point to storage of `self` and to the frames, borrowed for
        // the whole call; sending only reads it.
        let sent = checked(unsafe {
            libc::sendmmsg(fd.as_raw_fd(), self.messages.as_mut_ptr(), n as u32, libc::MSG_DONTWAIT)
        })?;
        Ok(sent as usize)
    }
}
