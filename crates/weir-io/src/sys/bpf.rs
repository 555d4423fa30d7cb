//! bpf(2): maps, XDP programs, and how they are attached.
//!
//! Room: `sys`. What programs do is said by `af_xdp::program`, instruction by instruction: nothing has
//! to be compiled or found at run time. Source: the kernel's `bpf.h`.

use std::io;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};

const MAP_CREATE: libc::c_long = 0;
const MAP_UPDATE_ELEM: libc::c_long = 2;
const MAP_DELETE_ELEM: libc::c_long = 3;
const PROG_LOAD: libc::c_long = 5;
const LINK_CREATE: libc::c_long = 28;
const MAP_TYPE_HASH: u32 = 1;
const MAP_TYPE_ARRAY: u32 = 2;
const MAP_TYPE_XSKMAP: u32 = 17;
/// Entries take memory when they come.
const NO_PREALLOC: u32 = 1;
/// The values can be mapped.
const MMAPABLE: u32 = 1 << 10;
const PROG_TYPE_XDP: u32 = 6;
const ATTACH_TYPE_XDP: u32 = 37;
/// The program takes frames of several buffers.
const PROG_HAS_FRAGS: u32 = 1 << 5;
/// Queues that the map has room for.
const QUEUES: u32 = 64;

/// How a program is attached.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Attach {
    /// In the driver, before the kernel makes a packet of the frame.
    Native,
    /// Behind the driver: works with every interface.
    Generic,
}

/// An XDP program attached to an interface. Dropping it detaches it.
#[derive(Debug)]
pub(crate) struct Redirect {
    sockets: Map,
    _program: OwnedFd,
    _link: OwnedFd,
}

/// Arguments of one command: words at the offsets of `union bpf_attr`.
struct Attr([u32; 32]);

impl Attr {
    fn new(words: &[(usize, u32)]) -> Self {
        let mut a = [0; 32];
        for &(at, v) in words {
            a[at] = v;
        }
        Self(a)
    }
    /// Sets a pointer; it takes two words. Whatever it points to must outlive [`bpf`].
    fn pointer<T>(mut self, at: usize, p: *const T) -> Self {
        let [a, b, c, d, e, f, g, h] = (p as u64).to_ne_bytes();
        self.0[at] = u32::from_ne_bytes([a, b, c, d]);
        self.0[at + 1] = u32::from_ne_bytes([e, f, g, h]);
        self
    }
}

fn bpf(command: libc::c_long, attr: &Attr) -> io::Result<libc::c_int> {
    // SAFETY: `attr` is as long as the kernel is told, and what it points to is alive: every
    // caller sets its pointers to locals of its own.
    let r =
        unsafe { libc::syscall(libc::SYS_bpf, command, attr.0.as_ptr(), size_of::<[u32; 32]>()) };
    if r < 0 { Err(io::Error::last_os_error()) } else { Ok(r as libc::c_int) }
}

fn new_fd(command: libc::c_long, attr: &Attr) -> io::Result<OwnedFd> {
    let fd = bpf(command, attr)?;
    // SAFETY: the commands that make something answer with a new descriptor.
    Ok(unsafe { OwnedFd::from_raw_fd(fd) })
}

/// One instruction as the kernel reads it.
pub(crate) type Instruction = [u8; 8];

/// A map of the kernel.
#[derive(Debug)]
pub(crate) struct Map {
    fd: OwnedFd,
    key: usize,
    value: usize,
}

impl Map {
    fn new(kind: u32, key: usize, value: usize, entries: u32, flags: u32) -> io::Result<Self> {
        let words = [(0, kind), (1, key as u32), (2, value as u32), (3, entries), (4, flags)];
        Ok(Self { fd: new_fd(MAP_CREATE, &Attr::new(&words))?, key, value })
    }
    /// Sockets by queue.
    pub(crate) fn sockets() -> io::Result<Self> {
        Self::new(MAP_TYPE_XSKMAP, 4, 4, QUEUES, 0)
    }
    /// Values by key.
    pub(crate) fn hash(key: usize, value: usize, entries: u32) -> io::Result<Self> {
        Self::new(MAP_TYPE_HASH, key, value, entries, NO_PREALLOC)
    }
    /// One value, which [`super::bpf_memory::Memory`] can map.
    pub(super) fn memory(bytes: usize) -> io::Result<Self> {
        Self::new(MAP_TYPE_ARRAY, 4, bytes, 1, MMAPABLE)
    }
    /// How instructions name it.
    pub(crate) fn number(&self) -> i32 {
        self.fd.as_raw_fd()
    }
    pub(super) fn fd(&self) -> &OwnedFd {
        &self.fd
    }
    fn attr(&self, key: &[u8]) -> io::Result<Attr> {
        if key.len() != self.key {
            return Err(io::ErrorKind::InvalidInput.into());
        }
        Ok(Attr::new(&[(0, self.fd.as_raw_fd() as u32)]).pointer(2, key.as_ptr()))
    }
    /// Sets an entry.
    pub(crate) fn set(&self, key: &[u8], value: &[u8]) -> io::Result<()> {
        // The kernel reads as many bytes as the map's entries have.
        if value.len() != self.value {
            return Err(io::ErrorKind::InvalidInput.into());
        }
        bpf(MAP_UPDATE_ELEM, &self.attr(key)?.pointer(4, value.as_ptr())).map(|_| ())
    }
    /// Takes an entry out.
    pub(crate) fn remove(&self, key: &[u8]) -> io::Result<()> {
        bpf(MAP_DELETE_ELEM, &self.attr(key)?).map(|_| ())
    }
}

impl Redirect {
    /// Loads a program, which sends frames to the sockets of `sockets`, and attaches it to the
    /// interface.
    pub(crate) fn attach(
        index: u32,
        how: Attach,
        sockets: Map,
        code: &[Instruction],
    ) -> io::Result<Self> {
        let licence = c"GPL";
        let load = Attr::new(&[
            (0, PROG_TYPE_XDP),
            (1, code.len() as u32),
            (11, PROG_HAS_FRAGS),
            (17, ATTACH_TYPE_XDP),
        ]);
        let load = load.pointer(2, code.as_ptr()).pointer(4, licence.as_ptr());
        let program = new_fd(PROG_LOAD, &load)?;
        let flags = match how {
            Attach::Generic => 1 << 1,
            Attach::Native => 1 << 2,
        };
        let fd = program.as_raw_fd() as u32;
        let link = new_fd(
            LINK_CREATE,
            &Attr::new(&[(0, fd), (1, index), (2, ATTACH_TYPE_XDP), (3, flags)]),
        )?;
        Ok(Self { sockets, _program: program, _link: link })
    }

    /// Sends the frames of a queue to a socket from now on.
    pub(crate) fn serve(&self, queue: u32, socket: &OwnedFd) -> io::Result<()> {
        let value = socket.as_raw_fd() as u32;
        self.sockets.set(&queue.to_ne_bytes(), &value.to_ne_bytes())
    }
}
