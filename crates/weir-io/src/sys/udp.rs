//! UDP sockets of tunnels: batches in by `recvmmsg`, out by `sendmmsg`, each datagram a header and a frame.
//!
//! Room: `sys`. Knows datagrams, not what is in them. Source: udp(7), ip(7), the kernel's `sock_diag.h`.

use super::{checked, get_option, packet, set_option, socket};
use std::io;
use std::mem::zeroed;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::ptr;
use weir_packet::Frame;

const SO_NO_CHECK: i32 = 11;
const SO_MEMINFO: i32 = 55;
/// `SK_MEMINFO_DROPS`: datagrams that found the socket's queue full.
const DROPS: usize = 8;

/// An address as the kernel takes it: room for either family, and how much of it counts.
#[derive(Clone, Copy)]
pub(crate) struct Address {
    storage: libc::sockaddr_in6,
    len: libc::socklen_t,
}

impl std::fmt::Debug for Address {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_tuple("Address").field(&self.ip()).finish()
    }
}

impl Address {
    pub(crate) fn new(at: SocketAddr) -> Self {
        let mut a = Self::room();
        match at {
            SocketAddr::V4(v4) => {
                let to = libc::sockaddr_in {
                    sin_family: libc::AF_INET as libc::sa_family_t,
                    sin_port: v4.port().to_be(),
                    sin_addr: libc::in_addr { s_addr: u32::from_ne_bytes(v4.ip().octets()) },
                    sin_zero: [0; 8],
                };
                a.len = size_of::<libc::sockaddr_in>() as libc::socklen_t;
                // SAFETY: both are plain integers, and the room is larger than what is put in.
                unsafe { ptr::write((&raw mut a.storage).cast(), to) };
            }
            SocketAddr::V6(v6) => {
                a.storage.sin6_family = libc::AF_INET6 as libc::sa_family_t;
                a.storage.sin6_port = v6.port().to_be();
                a.storage.sin6_addr = libc::in6_addr { s6_addr: v6.ip().octets() };
                a.storage.sin6_scope_id = v6.scope_id();
            }
        }
        a
    }
    /// For the kernel to write into.
    fn room() -> Self {
        // SAFETY: made of integers; zeros are valid.
        let storage = unsafe { zeroed() };
        Self { storage, len: size_of::<libc::sockaddr_in6>() as libc::socklen_t }
    }
    /// The address that stands in it; `None` for another family.
    pub(crate) fn ip(&self) -> Option<IpAddr> {
        match i32::from(self.storage.sin6_family) {
            libc::AF_INET => {
                // SAFETY: the family says that an IPv4 address was written here; it is shorter than
                // the room, and made of integers.
                let v4: libc::sockaddr_in = unsafe { ptr::read((&raw const self.storage).cast()) };
                Some(IpAddr::V4(Ipv4Addr::from(v4.sin_addr.s_addr.to_ne_bytes())))
            }
            libc::AF_INET6 => Some(IpAddr::V6(Ipv6Addr::from(self.storage.sin6_addr.s6_addr))),
            _ => None,
        }
    }
}

/// A UDP socket.
#[derive(Debug)]
pub(crate) struct Socket(OwnedFd);

fn unbound(at: SocketAddr) -> io::Result<OwnedFd> {
    let family = if at.is_ipv4() { libc::AF_INET } else { libc::AF_INET6 };
    let fd = socket(family, libc::SOCK_DGRAM | libc::SOCK_NONBLOCK, 0)?;
    // What does not fit the way is an error, not a fragment (RFC 7348 section 4.3).
    match at {
        SocketAddr::V4(_) => {
            set_option(&fd, libc::IPPROTO_IP, libc::IP_MTU_DISCOVER, libc::IP_PMTUDISC_DO)?;
        }
        SocketAddr::V6(_) => {
            set_option(&fd, libc::IPPROTO_IPV6, libc::IPV6_V6ONLY, 1i32)?;
            set_option(&fd, libc::IPPROTO_IPV6, libc::IPV6_MTU_DISCOVER, libc::IP_PMTUDISC_DO)?;
        }
    }
    Ok(fd)
}

impl Socket {
    /// Bound to `local`; `rx_bytes` is what the kernel may queue, half of what it may have of what is not sent yet `tx_bytes`.
    pub(crate) fn bind(local: SocketAddr, rx_bytes: i32, tx_bytes: i32) -> io::Result<Self> {
        let fd = unbound(local)?;
        if local.is_ipv4() {
            // RFC 7348 section 5: the outer checksum should be zero. IPv6 wants one.
            set_option(&fd, libc::SOL_SOCKET, SO_NO_CHECK, 1i32)?;
        }
        packet::queue(&fd, rx_bytes)?;
        packet::unsent(&fd, tx_bytes)?;
        let a = Address::new(local);
        // SAFETY: the address is alive and as long as the kernel is told.
        checked(unsafe { libc::bind(fd.as_raw_fd(), (&raw const a.storage).cast(), a.len) })?;
        Ok(Self(fd))
    }

    /// Readable when datagrams have come.
    pub(crate) fn descriptor(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }

    /// Datagrams that found the queue full, since the socket was made.
    pub(crate) fn drops(&self) -> u64 {
        let all: io::Result<[u32; 9]> = get_option(&self.0, libc::SOL_SOCKET, SO_MEMINFO);
        all.map_or(0, |a| a[DROPS].into())
    }
}

/// The longest IP packet that goes from here to there unbroken, as far as the kernel knows, in bytes.
pub(crate) fn path_mtu(from: SocketAddr, to: SocketAddr) -> io::Result<usize> {
    let fd = unbound(from)?;
    let near = Address::new(SocketAddr::new(from.ip(), 0));
    // SAFETY: the address is alive and as long as the kernel is told.
    checked(unsafe { libc::bind(fd.as_raw_fd(), (&raw const near.storage).cast(), near.len) })?;
    let far = Address::new(to);
    // SAFETY: the address is alive and as long as the kernel is told. No datagram is sent.
    checked(unsafe { libc::connect(fd.as_raw_fd(), (&raw const far.storage).cast(), far.len) })?;
    let mtu: i32 = match to {
        SocketAddr::V4(_) => get_option(&fd, libc::IPPROTO_IP, libc::IP_MTU)?,
        SocketAddr::V6(_) => get_option(&fd, libc::IPPROTO_IPV6, libc::IPV6_MTU)?,
    };
    Ok(usize::try_from(mtu).unwrap_or(0))
}

/// What is known of a datagram that was received.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Came {
    /// Its length, in bytes; of one that did not fit, what did.
    pub len: usize,
    /// It did not fit.
    pub cut: bool,
    /// Who has sent it.
    pub from: Option<IpAddr>,
}

/// Storage for receiving up to `n` datagrams in a call, each into a frame.
pub(crate) struct RxBatch {
    messages: Vec<libc::mmsghdr>,
    parts: Vec<libc::iovec>,
    from: Vec<Address>,
}

// SAFETY: the pointers inside are only used within `receive`, which sets all of them before.
unsafe impl Send for RxBatch {}

impl std::fmt::Debug for RxBatch {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("RxBatch").field("messages", &self.messages.len()).finish()
    }
}

impl RxBatch {
    pub(crate) fn new(n: usize) -> Self {
        // SAFETY: both are made of integers and pointers; zeros are valid.
        let (message, part) = unsafe { (zeroed(), zeroed()) };
        Self { messages: vec![message; n], parts: vec![part; n], from: vec![Address::room(); n] }
    }

    /// Receives as many datagrams as are there, at most one a frame, into the frames' data. Says how
    /// many came; 0 for none.
    pub(crate) fn receive(&mut self, socket: &Socket, frames: &mut [Frame]) -> io::Result<usize> {
        let n = frames.len().min(self.messages.len());
        if n == 0 {
            return Ok(0);
        }
        for (i, frame) in frames.iter_mut().take(n).enumerate() {
            let b = frame.bytes_mut();
            self.parts[i] = libc::iovec { iov_base: b.as_mut_ptr().cast(), iov_len: b.len() };
            self.from[i] = Address::room();
            let m = &mut self.messages[i].msg_hdr;
            m.msg_name = (&raw mut self.from[i].storage).cast();
            m.msg_namelen = self.from[i].len;
            m.msg_iov = &raw mut self.parts[i];
            m.msg_iovlen = 1;
            m.msg_flags = 0;
        }
        // SAFETY: the first `n` messages point to storage of `self` and to the data of frames, all of
        // which are borrowed mutably for the whole call.
        let got = checked(unsafe {
            libc::recvmmsg(
                socket.0.as_raw_fd(),
                self.messages.as_mut_ptr(),
                n as u32,
                libc::MSG_DONTWAIT,
                ptr::null_mut(),
            )
        });
        match got {
            Ok(got) => Ok(got as usize),
            Err(e) if e.kind() == io::ErrorKind::WouldBlock => Ok(0),
            Err(e) => Err(e),
        }
    }

    /// What is known of datagram `i` of the last call.
    pub(crate) fn came(&self, i: usize) -> Came {
        let (Some(m), Some(from)) = (self.messages.get(i), self.from.get(i)) else {
            return Came { len: 0, cut: true, from: None };
        };
        let cut = m.msg_hdr.msg_flags & libc::MSG_TRUNC != 0;
        Came { len: m.msg_len as usize, cut, from: from.ip() }
    }
}

/// Storage for sending up to `n` datagrams in a call.
pub(crate) struct TxBatch {
    messages: Vec<libc::mmsghdr>,
    parts: Vec<[libc::iovec; 2]>,
}

// SAFETY: the pointers inside are only used within `send`, which sets all of them before.
unsafe impl Send for TxBatch {}

impl std::fmt::Debug for TxBatch {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("TxBatch").field("messages", &self.messages.len()).finish()
    }
}

/// What is put in front of a frame, and where both go.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Way {
    pub header: [u8; 8],
    pub to: Address,
}

impl TxBatch {
    pub(crate) fn new(n: usize) -> Self {
        // SAFETY: both are made of integers and pointers; zeros are valid.
        let (message, part): (_, libc::iovec) = unsafe { (zeroed(), zeroed()) };
        Self { messages: vec![message; n], parts: vec![[part; 2]; n] }
    }

    /// Sends frames from the front, each behind the header; says how many went. An error is that of
    /// the first: then none went.
    pub(crate) fn send<'f>(
        &mut self,
        socket: &Socket,
        way: &Way,
        frames: impl ExactSizeIterator<Item = &'f [u8]>,
    ) -> io::Result<usize> {
        let n = frames.len().min(self.messages.len());
        if n == 0 {
            return Ok(0);
        }
        let part =
            |b: &[u8]| libc::iovec { iov_base: b.as_ptr().cast_mut().cast(), iov_len: b.len() };
        for (i, frame) in frames.take(n).enumerate() {
            self.parts[i] = [part(&way.header), part(frame)];
            let m = &mut self.messages[i].msg_hdr;
            m.msg_name = (&raw const way.to.storage).cast_mut().cast();
            m.msg_namelen = way.to.len;
            m.msg_iov = self.parts[i].as_mut_ptr();
            m.msg_iovlen = 2;
        }
        // SAFETY: the first `n` messages point to storage of `self`, to `way` and to bytes that are
        // borrowed for the whole call; sending only reads them.
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
