//! The other end of a veth pair, wherever it is: by rtnetlink, and by looking through the network
//! namespaces that this process can see.
//!
//! Room: `sys`. Called when a port opens. Source: rtnetlink(7), namespaces(7).

use super::netdev::name_of;
use super::{checked, socket};
use std::collections::HashSet;
use std::fs::File;
use std::io;
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::fs::MetadataExt;
use std::path::PathBuf;
use std::sync::Arc;

const RTM_GETLINK: u16 = 18;
const RTM_NEWLINK: u16 = 16;
const RTM_GETNSID: u16 = 90;
const RTM_NEWNSID: u16 = 88;
const REQUEST: u16 = 1;
const IFLA_LINK: u16 = 5;
const IFLA_LINK_NETNSID: u16 = 37;
const NETNSA_NSID: u16 = 1;
const NETNSA_FD: u16 = 3;
/// Lengths of `nlmsghdr`, `ifinfomsg` and (padded) `rtgenmsg`.
const HEADER: usize = 16;
const IFINFO: usize = 16;
const GENMSG: usize = 4;

/// An interface in a namespace; `None` is the calling thread's own.
#[derive(Clone, Debug)]
pub(crate) struct Place {
    pub name: String,
    namespace: Option<Arc<File>>,
}

/// One request and its answer.
struct Netlink(OwnedFd);

impl Netlink {
    fn new() -> io::Result<Self> {
        socket(libc::AF_NETLINK, libc::SOCK_RAW, libc::NETLINK_ROUTE).map(Self)
    }

    /// Sends `body` behind a header; the body of the answer, if that is of the kind wanted.
    fn ask(&self, kind: u16, body: &[u8], wanted: u16) -> io::Result<Vec<u8>> {
        let len = (HEADER + body.len()) as u32;
        let mut m = Vec::with_capacity(len as usize);
        m.extend(len.to_ne_bytes());
        m.extend(kind.to_ne_bytes());
        m.extend(REQUEST.to_ne_bytes());
        m.extend([0; 8]);
        m.extend(body);
        let fd = self.0.as_raw_fd();
        // SAFETY: the buffer is alive and as long as the kernel is told.
        let r = unsafe { libc::send(fd, m.as_ptr().cast(), m.len(), 0) };
        if r < 0 {
            return Err(io::Error::last_os_error());
        }
        let mut answer = vec![0; 32 << 10];
        // SAFETY: the buffer is alive and as long as the kernel is told.
        let r = unsafe { libc::recv(fd, answer.as_mut_ptr().cast(), answer.len(), 0) };
        let n = usize::try_from(r).map_err(|_| io::Error::last_os_error())?;
        answer.truncate(n);
        let got = answer.get(4..6).and_then(|b| b.try_into().ok()).map(u16::from_ne_bytes);
        if got != Some(wanted) {
            return Err(io::Error::other("rtnetlink refused"));
        }
        Ok(answer.split_off(HEADER.min(answer.len())))
    }
}

/// The value of a 32-bit attribute.
fn attribute(mut rest: &[u8], wanted: u16) -> Option<u32> {
    while let Some([l0, l1, k0, k1]) = rest.first_chunk::<4>() {
        let len = usize::from(u16::from_ne_bytes([*l0, *l1]));
        // The upper two bits say what is nested and in which byte order.
        let kind = u16::from_ne_bytes([*k0, *k1]) & 0x3fff;
        let value = rest.get(4..len)?;
        if kind == wanted {
            return value.first_chunk().map(|b| u32::from_ne_bytes(*b));
        }
        rest = rest.get(len.next_multiple_of(4)..)?;
    }
    None
}

/// The namespaces that can be seen: those with a name, and those of processes.
fn namespaces() -> Vec<File> {
    let mut paths: Vec<PathBuf> = Vec::new();
    let list = |d: &str| std::fs::read_dir(d).into_iter().flatten().flatten().map(|e| e.path());
    paths.extend(list("/run/netns"));
    let number = |p: &PathBuf| {
        p.file_name().is_some_and(|n| n.as_encoded_bytes().iter().all(u8::is_ascii_digit))
    };
    paths.extend(list("/proc").filter(number).map(|p| p.join("ns/net")));
    let mut seen = HashSet::new();
    paths
        .into_iter()
        .filter_map(|p| File::open(p).ok())
        .filter(|f| f.metadata().is_ok_and(|m| seen.insert((m.dev(), m.ino()))))
        .collect()
}

/// The other end of the veth interface `index` of the calling thread's namespace. `None` where it
/// is in a namespace that this process can't see.
pub(crate) fn other_end(index: u32) -> io::Result<Option<Place>> {
    let netlink = Netlink::new()?;
    let mut body = vec![0; IFINFO];
    body[4..8].copy_from_slice(&index.to_ne_bytes());
    let link = netlink.ask(RTM_GETLINK, &body, RTM_NEWLINK)?;
    let attributes = link.get(IFINFO..).unwrap_or_default();
    let Some(other) = attribute(attributes, IFLA_LINK) else { return Ok(None) };
    let Some(id) = attribute(attributes, IFLA_LINK_NETNSID) else {
        return Ok(name_of(other).map(|name| Place { name, namespace: None }));
    };
    for namespace in namespaces() {
        let mut body = vec![0; GENMSG];
        body.extend(8u16.to_ne_bytes());
        body.extend(NETNSA_FD.to_ne_bytes());
        body.extend(namespace.as_raw_fd().to_ne_bytes());
        let answer = netlink.ask(RTM_GETNSID, &body, RTM_NEWNSID);
        let found = answer
            .is_ok_and(|a| attribute(a.get(GENMSG..).unwrap_or_default(), NETNSA_NSID) == Some(id));
        if found {
            let namespace = Some(Arc::new(namespace));
            let place = Place { name: String::new(), namespace };
            let name =
                place.within(move |_| name_of(other).ok_or(io::ErrorKind::NotFound.into()))?;
            return Ok(Some(Place { name, ..place }));
        }
    }
    Ok(None)
}

impl Place {
    /// Whether it is in another namespace.
    pub(crate) fn is_elsewhere(&self) -> bool {
        self.namespace.is_some()
    }

    /// Does something where the interface is, in a thread that enters its namespace.
    pub(crate) fn within<T: Send + 'static>(
        &self,
        body: impl FnOnce(&str) -> io::Result<T> + Send + 'static,
    ) -> io::Result<T> {
        let Some(namespace) = self.namespace.clone() else { return body(&self.name) };
        let name = self.name.clone();
        let thread = std::thread::Builder::new().spawn(move || {
            // SAFETY: no memory is involved; only this thread, which ends here, changes.
            checked(unsafe { libc::setns(namespace.as_raw_fd(), libc::CLONE_NEWNET) })?;
            body(&name)
        })?;
        thread.join().unwrap_or_else(|_| Err(io::Error::other("the thread ended early")))
    }
}
