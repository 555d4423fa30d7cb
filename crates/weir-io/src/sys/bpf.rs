//! bpf(2): the XDP program that hands frames to an AF_XDP socket, its map, and its attachment.
//!
//! Room: `sys`. The program is six instructions, put together here: nothing has to be compiled or
//! found at run time. Source: the kernel's `bpf.h` and Documentation/bpf/standardization.

use std::io;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};

const MAP_CREATE: libc::c_long = 0;
const MAP_UPDATE_ELEM: libc::c_long = 2;
const PROG_LOAD: libc::c_long = 5;
const LINK_CREATE: libc::c_long = 28;
const MAP_TYPE_XSKMAP: u32 = 17;
const PROG_TYPE_XDP: u32 = 6;
const ATTACH_TYPE_XDP: u32 = 37;
/// The program takes frames of several buffers.
const PROG_HAS_FRAGS: u32 = 1 << 5;
const HELPER_REDIRECT_MAP: i32 = 51;
const XDP_PASS: i32 = 2;
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
    map: OwnedFd,
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

/// One instruction: opcode, registers, offset, immediate.
const fn insn(code: u8, dst: u8, src: u8, off: i16, imm: i32) -> [u8; 8] {
    let o = off.to_ne_bytes();
    let i = imm.to_ne_bytes();
    [code, dst | src << 4, o[0], o[1], i[0], i[1], i[2], i[3]]
}

/// `return bpf_redirect_map(&map, context->rx_queue_index, XDP_PASS)`.
fn program(map: &OwnedFd) -> [[u8; 8]; 6] {
    [
        // r2 = *(u32 *)(r1 + 16): the queue.
        insn(0x61, 2, 1, 16, 0),
        // r1 = map, an instruction of two halves.
        insn(0x18, 1, 1, 0, map.as_raw_fd()),
        insn(0, 0, 0, 0, 0),
        // r3 = what to do with a frame of a queue without a socket.
        insn(0xb7, 3, 0, 0, XDP_PASS),
        insn(0x85, 0, 0, 0, HELPER_REDIRECT_MAP),
        insn(0x95, 0, 0, 0, 0),
    ]
}

impl Redirect {
    /// Loads the program and attaches it to the interface.
    pub(crate) fn attach(index: u32, how: Attach) -> io::Result<Self> {
        let map =
            new_fd(MAP_CREATE, &Attr::new(&[(0, MAP_TYPE_XSKMAP), (1, 4), (2, 4), (3, QUEUES)]))?;
        let code = program(&map);
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
        Ok(Self { map, _program: program, _link: link })
    }

    /// Sends the frames of a queue to a socket from now on.
    pub(crate) fn serve(&self, queue: u32, socket: &OwnedFd) -> io::Result<()> {
        let value = socket.as_raw_fd() as u32;
        let attr = Attr::new(&[(0, self.map.as_raw_fd() as u32)])
            .pointer(2, &raw const queue)
            .pointer(4, &raw const value);
        bpf(MAP_UPDATE_ELEM, &attr).map(|_| ())
    }
}
