//! Serves the control socket: who may speak, how many at once, for how long.
//!
//! Room: threads and sockets; [`super::handler`] knows what requests mean. The socket is its owner's
//! alone (mode 0600), and whoever connects is asked for its user id besides.

use super::handler;
use super::lines::{Lines, NoLine};
use super::link::Link;
use super::live::Live;
use super::protocol::{Fault, MAX_REQUEST_BYTES, Refusal, Reply};
use anyhow::{Context, Result, bail};
use std::fs;
use std::io::ErrorKind;
use std::os::unix::fs::{FileTypeExt, MetadataExt, PermissionsExt};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

/// Clients at once.
const MAX_CLIENTS: usize = 16;
/// How long a client may take for its next request.
const IDLE: Duration = Duration::from_secs(60);
/// How long a client may take to read.
pub const PATIENCE: Duration = Duration::from_secs(5);

/// A served socket.
#[derive(Debug)]
pub struct Server {
    /// Until it is stopped.
    bound: Option<Bound>,
    stop: Arc<AtomicBool>,
    accepting: Option<JoinHandle<()>>,
}

/// A socket in its place. Its file goes with it, unless it has gone already, and another's lies there.
#[derive(Debug)]
pub struct Bound {
    listener: Arc<UnixListener>,
    path: PathBuf,
    /// What lies there while it is this one's.
    own: Option<(u64, u64)>,
}

impl Drop for Bound {
    fn drop(&mut self) {
        if self.own.is_some() && self.own == lies_at(&self.path) {
            let _ = fs::remove_file(&self.path);
        }
    }
}

/// Takes the socket's place, before anything else is begun.
///
/// # Errors
/// Somebody else serves there, something else lies there, or the system refuses.
pub fn bind(path: &Path) -> Result<Bound> {
    let shown = path.display();
    if let Ok(meta) = fs::symlink_metadata(path) {
        if !meta.file_type().is_socket() {
            bail!("{shown}: is there already and is no socket: name another by --socket");
        }
        match UnixStream::connect(path) {
            Ok(_) => bail!("{shown}: another 'weir run' serves there: name another by --socket"),
            Err(e) if e.kind() == ErrorKind::ConnectionRefused => {
                // Left behind by one that could not clean up.
                fs::remove_file(path).with_context(|| {
                    format!(
                        "{shown}: an old socket, which can't be removed; name another by --socket"
                    )
                })?;
            }
            Err(e) if e.kind() == ErrorKind::PermissionDenied => {
                return Err(e).with_context(|| {
                    format!("{shown}: another user's socket; name another by --socket")
                });
            }
            Err(e) => {
                return Err(e).with_context(|| {
                    format!(
                        "{shown}: a socket at which nothing can be asked; name another by --socket"
                    )
                });
            }
        }
    }
    let listener = UnixListener::bind(path)
        .with_context(|| format!("{shown}: control socket; name another by --socket"))?;
    let (listener, own) = (Arc::new(listener), lies_at(path));
    let bound = Bound { listener, path: path.to_owned(), own };
    fs::set_permissions(path, fs::Permissions::from_mode(0o600))
        .with_context(|| format!("{shown}: control socket"))?;
    Ok(bound)
}

impl Server {
    /// Begins to serve.
    ///
    /// # Errors
    /// The system has no thread for it.
    pub fn start(bound: Bound, live: Arc<Live>) -> Result<Self> {
        let stop = Arc::new(AtomicBool::new(false));
        let (listener, flag) = (Arc::clone(&bound.listener), Arc::clone(&stop));
        let accepting = std::thread::Builder::new()
            .name("weir-control".to_owned())
            .spawn(move || accept(&listener, &live, &flag))?;
        Ok(Self { bound: Some(bound), stop, accepting: Some(accepting) })
    }

    /// Ends it: no more requests, the socket is gone.
    pub fn stop(&mut self) {
        let Some(bound) = self.bound.take() else { return };
        self.stop.store(true, Ordering::Release);
        // Wakes the thread that waits for a client. By its path it might be another's by now, or nobody's.
        let _ = rustix::net::shutdown(&*bound.listener, rustix::net::Shutdown::Both);
        if let Some(t) = self.accepting.take() {
            let _ = t.join();
        }
    }
}

/// Which file that is, if one is there: its device and its number there.
fn lies_at(path: &Path) -> Option<(u64, u64)> {
    fs::symlink_metadata(path).ok().map(|m| (m.dev(), m.ino()))
}

impl Drop for Server {
    fn drop(&mut self) {
        self.stop();
    }
}

fn accept(listener: &UnixListener, live: &Arc<Live>, stop: &Arc<AtomicBool>) {
    let clients = Arc::new(AtomicUsize::new(0));
    for stream in listener.incoming() {
        if stop.load(Ordering::Acquire) {
            return;
        }
        let Ok(stream) = stream else {
            // Out of descriptors, most likely: give others time to end.
            std::thread::sleep(Duration::from_millis(50));
            continue;
        };
        if !allowed(&stream) {
            refuse(Link::Unix(stream), "the control socket is its owner's and root's");
            continue;
        }
        if clients.fetch_add(1, Ordering::AcqRel) >= MAX_CLIENTS {
            clients.fetch_sub(1, Ordering::AcqRel);
            refuse(Link::Unix(stream), "too many clients: close one of them");
            continue;
        }
        let (live, stop, counted) = (Arc::clone(live), Arc::clone(stop), Arc::clone(&clients));
        let spawned = std::thread::Builder::new().name("weir-client".to_owned()).spawn(move || {
            serve(Link::Unix(stream), &live, &stop);
            counted.fetch_sub(1, Ordering::AcqRel);
        });
        if spawned.is_err() {
            clients.fetch_sub(1, Ordering::AcqRel);
        }
    }
}

/// Whether the other end belongs to the user that runs this process, or to root.
fn allowed(stream: &UnixStream) -> bool {
    let me = rustix::process::geteuid();
    rustix::net::sockopt::socket_peercred(stream).is_ok_and(|c| c.uid == me || c.uid.is_root())
}

/// Says why nothing will be answered.
pub(super) fn refuse(link: Link, why: &str) {
    let text = why.to_owned();
    // A client that does not listen need not be told.
    let _ = reply(
        &mut Lines::new(link, MAX_REQUEST_BYTES),
        &Reply::Error(Refusal { fault: Fault::Work, text }),
    );
}

/// Sends one line.
pub fn reply(lines: &mut Lines, r: &Reply) -> std::io::Result<()> {
    let mut bytes = serde_json::to_vec(r).map_err(std::io::Error::other)?;
    bytes.push(b'\n');
    lines.send(&bytes, PATIENCE)
}

/// Answers one client until it ends.
pub(super) fn serve(link: Link, live: &Live, stop: &AtomicBool) {
    let mut lines = Lines::new(link, MAX_REQUEST_BYTES);
    while !stop.load(Ordering::Acquire) {
        let line = match lines.next(IDLE) {
            Ok(line) => line,
            Err(NoLine::TooLong) => {
                let text = format!("a request of more than {MAX_REQUEST_BYTES} bytes");
                let _ = reply(&mut lines, &Reply::Error(Refusal { fault: Fault::Input, text }));
                return;
            }
            Err(NoLine::End | NoLine::Late | NoLine::System(_)) => return,
        };
        let last = match serde_json::from_slice(&line) {
            Ok(request) => handler::handle(request, live, &mut lines, stop),
            Err(e) => {
                let text = format!("not a request: {e}");
                Ok(Reply::Error(Refusal { fault: Fault::Input, text }))
            }
        };
        match last {
            Ok(last) if reply(&mut lines, &last).is_ok() => {}
            // The client has gone.
            _ => return,
        }
    }
}
