//! AF_PACKET sockets: batches in by `recvmmsg`, out by `sendmmsg`.
//!
//! Room: `sys`. Knows messages, not what is in them. Source: packet(7), the kernel's
//! `if_packet.h` and `virtio_net.h`.

use super::{checked, get_option, set_option, socket};
use std::io;
use std::mem::zeroed;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::ptr;
use weir_packet::Frame;

pub(super) const SOL_PACKET: i32 = 263;
const PACKET_ADD_MEMBERSHIP: i32 = 1;
const PACKET_STATISTICS: i32 = 6;
pub(super) const PACKET_AUXDATA: i32 = 8;
const PACKET_VNET_HDR: i32 = 15;
pub(super) const PACKET_QDISC_BYPASS: i32 = 20;
pub(super) const PACKET_IGNORE_OUTGOING: i32 = 23;
const PACKET_MR_PROMISC: u16 = 1;
pub(super) const TP_STATUS_VLAN_VALID: u32 = 1 << 4;
pub(super) const TP_STATUS_VLAN_TPID_VALID: u32 = 1 << 6;
/// Length of `struct virtio_net_hdr`.
const VNET_HDR: usize = 10;
/// Room for one control message with a `tpacket_auxdata` of 20 bytes.
const CONTROL: usize = 48;

#[repr(C)]
#[derive(Clone, Copy)]
struct Membership {
    index: i32,
    kind: u16,
    address_len: u16,
    address: [u8; 8],
}

#[repr(C)]
#[derive(Clone, Copy, Default)]
struct Statistics {
    packets: u32,
    drops: u32,
}

/// What the kernel says about a received message (`struct virtio_net_hdr` and the auxiliary data).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Meta {
    /// Length of the message, in bytes.
    pub len: usize,
    /// It did not fit, or came without its header.
    pub broken: bool,
    /// Where the checksum to be completed begins, and where behind that its field is.
    pub partial: Option<(usize, usize)>,
    /// Type of super-frame, 0 for none, ECN bit taken off.
    pub gso_type: u8,
    /// Payload bytes per piece of a super-frame.
    pub gso_size: usize,
    /// TPID and TCI of a tag that was taken out.
    pub vlan: Option<(u16, u16)>,
}

/// A socket bound to one interface.
#[derive(Debug)]
pub(crate) struct Socket(OwnedFd);

/// Binds to one interface; protocol 0 receives nothing.
pub(super) fn bind(fd: &OwnedFd, index: u32, protocol: u16) -> io::Result<()> {
    // SAFETY: made of integers; zeros are valid.
    let mut to: libc::sockaddr_ll = unsafe { zeroed() };
    to.sll_family = libc::AF_PACKET as u16;
    to.sll_protocol = protocol.to_be();
    to.sll_ifindex = index as i32;
    // SAFETY: the address is alive and as long as the kernel is told.
    checked(unsafe {
        libc::bind(
            fd.as_raw_fd(),
            (&raw const to).cast(),
            size_of::<libc::sockaddr_ll>() as libc::socklen_t,
        )
    })?;
    Ok(())
}

/// A socket that is bound to nothing yet.
pub(super) fn raw() -> io::Result<OwnedFd> {
    socket(libc::AF_PACKET, libc::SOCK_RAW | libc::SOCK_NONBLOCK, 0)
}

/// What the kernel may queue, past the system's limit where that is allowed; a smaller buffer works
/// too.
pub(super) fn queue(fd: &OwnedFd, bytes: i32) -> io::Result<()> {
    room(fd, [libc::SO_RCVBUFFORCE, libc::SO_RCVBUF], bytes)
}

/// What the kernel may have of a socket that is not sent yet, as [`queue`].
pub(super) fn unsent(fd: &OwnedFd, bytes: i32) -> io::Result<()> {
    room(fd, [libc::SO_SNDBUFFORCE, libc::SO_SNDBUF], bytes)
}

fn room(fd: &OwnedFd, [force, within]: [libc::c_int; 2], bytes: i32) -> io::Result<()> {
    let forced = set_option(fd, libc::SOL_SOCKET, force, bytes);
    forced.or_else(|_| set_option(fd, libc::SOL_SOCKET, within, bytes))
}

/// Frames lost by a socket's queue since the last call.
pub(crate) fn take_drops(fd: &OwnedFd) -> io::Result<u64> {
    let s: Statistics = get_option(fd, SOL_PACKET, PACKET_STATISTICS)?;
    Ok(s.drops.into())
}

/// Makes the interface receive every frame, for as long as the descriptor is open.
pub(super) fn promiscuous(fd: &OwnedFd, index: u32) -> io::Result<()> {
    let all = Membership {
        index: index as i32,
        kind: PACKET_MR_PROMISC,
        address_len: 0,
        address: [0; 8],
    };
    set_option(fd, SOL_PACKET, PACKET_ADD_MEMBERSHIP, all)
}

/// How what is sent reaches an interface.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Egress {
    /// Past its queueing discipline; of its queues, that of the processor on which the sender is just then.
    Direct,
    /// Through it, by the queue that the frame's flow has.
    Queued,
}

impl Socket {
    /// Receives every frame that comes in by the interface, in promiscuous mode. `buffer_bytes`:
    /// what the kernel may queue.
    pub(crate) fn receiver(index: u32, buffer_bytes: i32) -> io::Result<Self> {
        let fd = raw()?;
        set_option(&fd, SOL_PACKET, PACKET_VNET_HDR, 1i32)?;
        set_option(&fd, SOL_PACKET, PACKET_AUXDATA, 1i32)?;
        set_option(&fd, SOL_PACKET, PACKET_IGNORE_OUTGOING, 1i32)?;
        queue(&fd, buffer_bytes)?;
        bind(&fd, index, libc::ETH_P_ALL as u16)?;
        promiscuous(&fd, index)?;
        Ok(Self(fd))
    }

    /// Sends by the interface. Receives nothing.
    pub(crate) fn sender(index: u32, egress: Egress) -> io::Result<Self> {
        let fd = raw()?;
        if egress == Egress::Direct {
            set_option(&fd, SOL_PACKET, PACKET_QDISC_BYPASS, 1i32)?;
        }
        bind(&fd, index, 0)?;
        Ok(Self(fd))
    }

    /// Does nothing but keep the interface promiscuous.
    pub(crate) fn promiscuous(index: u32) -> io::Result<Self> {
        let fd = raw()?;
        promiscuous(&fd, index)?;
        Ok(Self(fd))
    }

    /// Readable when frames have come.
    pub(crate) fn descriptor(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }

    /// Frames lost by the receiver since the last call.
    pub(crate) fn take_drops(&self) -> io::Result<u64> {
        take_drops(&self.0)
    }
}

/// Storage for receiving up to `n` messages in a call. A message fills a frame first; what does
/// not fit goes to storage kept here, behind room for the frame's part.
pub(crate) struct RxBatch {
    /// Room for one whole message each.
    storage: Vec<u8>,
    /// Room for one whole message, in bytes.
    longest: usize,
    /// What a frame takes of it.
    head: usize,
    messages: Vec<libc::mmsghdr>,
    parts: Vec<[libc::iovec; 3]>,
    headers: Vec<[u8; VNET_HDR]>,
    control: Vec<[u64; CONTROL / 8]>,
}

// SAFETY: the pointers inside are only used within `receive`, which sets all of them before.
unsafe impl Send for RxBatch {}

impl std::fmt::Debug for RxBatch {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("RxBatch").field("messages", &self.messages.len()).finish()
    }
}

impl RxBatch {
    /// For up to `n` messages of at most `longest` bytes, the first `head` of which go into frames.
    pub(crate) fn new(n: usize, head: usize, longest: usize) -> Self {
        // SAFETY: both are made of integers and pointers; zeros are valid.
        let (message, part) = unsafe { (zeroed(), zeroed()) };
        let longest = longest.max(head + 1);
        Self {
            storage: vec![0; n * longest],
            longest,
            head,
            messages: vec![message; n],
            parts: vec![part; n],
            headers: vec![[0; VNET_HDR]; n],
            control: vec![[0; CONTROL / 8]; n],
        }
    }

    /// Receives as many messages as are there, at most one per frame; the data of every frame must
    /// have `head` bytes. Says how many came; 0 for none.
    pub(crate) fn receive(&mut self, socket: &Socket, frames: &mut [Frame]) -> io::Result<usize> {
        let n = frames.len().min(self.messages.len());
        if n == 0 {
            return Ok(0);
        }
        let storage = self.storage.chunks_exact_mut(self.longest);
        for (i, (frame, storage)) in frames.iter_mut().zip(storage).take(n).enumerate() {
            let more = storage.get_mut(self.head..).unwrap_or_default();
            self.parts[i] = [part(&mut self.headers[i]), part(frame.bytes_mut()), part(more)];
            let m = &mut self.messages[i].msg_hdr;
            m.msg_iov = self.parts[i].as_mut_ptr();
            m.msg_iovlen = 3;
            m.msg_control = self.control[i].as_mut_ptr().cast();
            m.msg_controllen = CONTROL;
            m.msg_flags = 0;
        }
        // SAFETY: the first `n` messages point to storage of `self` and to the data of frames, all
        // of which are borrowed mutably for the whole call.
        let got = unsafe {
            libc::recvmmsg(
                socket.0.as_raw_fd(),
                self.messages.as_mut_ptr(),
                n as u32,
                libc::MSG_DONTWAIT,
                ptr::null_mut(),
            )
        };
        match checked(got) {
            Ok(got) => Ok(got as usize),
            Err(e) if e.kind() == io::ErrorKind::WouldBlock => Ok(0),
            Err(e) => Err(e),
        }
    }

    /// Message `i` in one piece: `head`, what went into its frame, and the rest.
    pub(crate) fn join(&mut self, i: usize, head: &[u8]) {
        if let Some(to) =
            self.storage.get_mut(i * self.longest..).and_then(|s| s.get_mut(..head.len()))
        {
            to.copy_from_slice(head);
        }
    }

    /// The first `len` bytes of message `i`, after [`RxBatch::join`].
    pub(crate) fn joined(&self, i: usize, len: usize) -> &[u8] {
        self.storage.get(i * self.longest..).and_then(|s| s.get(..len)).unwrap_or_default()
    }

    /// What the kernel said about message `i` of the last call.
    pub(crate) fn meta(&self, i: usize) -> Meta {
        let (Some(m), Some(h), Some(c)) =
            (self.messages.get(i), self.headers.get(i), self.control.get(i))
        else {
            return Meta { broken: true, ..Meta::default() };
        };
        let Some(len) = (m.msg_len as usize).checked_sub(VNET_HDR) else {
            return Meta { broken: true, ..Meta::default() };
        };
        let word = |at: usize| usize::from(u16::from_ne_bytes([h[at], h[at + 1]]));
        Meta {
            len,
            broken: m.msg_hdr.msg_flags & libc::MSG_TRUNC != 0,
            // VIRTIO_NET_HDR_F_NEEDS_CSUM.
            partial: (h[0] & 1 != 0).then(|| (word(6), word(8))),
            gso_type: h[1] & 0x7f,
            gso_size: word(4),
            vlan: tag(c, m.msg_hdr.msg_controllen),
        }
    }
}

fn part(b: &mut [u8]) -> libc::iovec {
    libc::iovec { iov_base: b.as_mut_ptr().cast(), iov_len: b.len() }
}

/// The tag in the auxiliary data: `cmsghdr` (length, level, type: 16 bytes), then status, lengths
/// and offsets (16 bytes), TCI, TPID.
fn tag(control: &[u64; CONTROL / 8], len: usize) -> Option<(u16, u16)> {
    let mut b = [0; CONTROL];
    for (to, from) in b.as_chunks_mut::<8>().0.iter_mut().zip(control) {
        *to = from.to_ne_bytes();
    }
    let word = |at: usize| u32::from_ne_bytes([b[at], b[at + 1], b[at + 2], b[at + 3]]);
    let half = |at: usize| u16::from_ne_bytes([b[at], b[at + 1]]);
    let right = len >= 36 && word(8) == SOL_PACKET as u32 && word(12) == PACKET_AUXDATA as u32;
    let status = word(16);
    if !right || status & TP_STATUS_VLAN_VALID == 0 {
        return None;
    }
    let tpid = if status & TP_STATUS_VLAN_TPID_VALID != 0 { half(34) } else { 0x8100 };
    Some((tpid, half(32)))
}

/// Storage for sending up to `n` frames in a call.
pub(crate) struct TxBatch {
    messages: Vec<libc::mmsghdr>,
    parts: Vec<libc::iovec>,
}

// SAFETY: the pointers inside are only used within `send`, which sets all of them before.
unsafe impl Send for TxBatch {}

impl std::fmt::Debug for TxBatch {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("TxBatch").field("messages", &self.messages.len()).finish()
    }
}

impl TxBatch {
    pub(crate) fn new(n: usize) -> Self {
        // SAFETY: both are made of integers and pointers; zeros are valid.
        let (message, part) = unsafe { (zeroed(), zeroed()) };
        Self { messages: vec![message; n], parts: vec![part; n] }
    }

    /// Sends frames from the front; says how many went. An error is that of the first frame: then
    /// none went.
    pub(crate) fn send(&mut self, socket: &Socket, frames: &[Frame]) -> io::Result<usize> {
        let n = frames.len().min(self.messages.len());
        if n == 0 {
            return Ok(0);
        }
        for (i, frame) in frames.iter().take(n).enumerate() {
            let b = frame.bytes();
            self.parts[i] =
                libc::iovec { iov_base: b.as_ptr().cast_mut().cast(), iov_len: b.len() };
            let m = &mut self.messages[i].msg_hdr;
            m.msg_iov = &raw mut self.parts[i];
            m.msg_iovlen = 1;
        }
        // SAFETY: the first `n` messages point to storage of `self` and to the data of frames,
        // borrowed for the whole call; sending only reads it.
        let sent = checked(unsafe {
            libc::sendmmsg(
                socket.0.as_raw_fd(),
                self.messages.as_mut_ptr(),
                n as u32,
                libc::MSG_DONTWAIT,
            )
        })?;
        Ok(sent as usize)
    }
}
