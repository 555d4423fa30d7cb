//! The node API: what the control socket answers, by TLS, for whoever keeps networks on this node.
//!
//! Room: threads and sockets; [`super::server`] answers, [`super::handler`] knows what requests mean.
//! Both ends show a certificate that the other's authorities have signed: whoever has one may do all.
//! Called by `weir run` where its file has `[api]`.

use super::link::Link;
use super::live::Live;
use super::server::serve;
use crate::config::plan::ApiPlan;
use anyhow::{Context, Result};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;
use tokio_rustls::rustls::ServerConnection;

/// Clients at once, those that have not shown a certificate yet among them.
const MAX_CLIENTS: usize = 64;

/// A served node API.
#[derive(Debug)]
pub struct Api {
    at: SocketAddr,
    stop: Arc<AtomicBool>,
    accepting: Option<JoinHandle<()>>,
}

/// Takes the API's place, before anything else is begun.
///
/// # Errors
/// Somebody else listens there, or the system refuses.
pub fn bind(plan: &ApiPlan) -> Result<TcpListener> {
    let at = plan.listen;
    TcpListener::bind(at).with_context(|| format!("node API at {at}: choose another 'listen'"))
}

impl Api {
    /// Begins to serve.
    ///
    /// # Errors
    /// The system has no thread for it.
    pub fn start(listener: TcpListener, plan: &ApiPlan, live: Arc<Live>) -> Result<Self> {
        let at = listener.local_addr()?;
        let stop = Arc::new(AtomicBool::new(false));
        let (flag, plan) = (Arc::clone(&stop), plan.clone());
        let accepting = std::thread::Builder::new()
            .name("weir-api".to_owned())
            .spawn(move || accept(&listener, &plan, &live, &flag))?;
        Ok(Self { at, stop, accepting: Some(accepting) })
    }

    /// Where it listens in truth.
    pub fn at(&self) -> SocketAddr {
        self.at
    }
}

impl Drop for Api {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Release);
        // Wakes the thread that waits for a client; an address for all is reached by the loopback.
        let mut at = self.at;
        if at.ip().is_unspecified() {
            at.set_ip(match at {
                SocketAddr::V4(_) => std::net::Ipv4Addr::LOCALHOST.into(),
                SocketAddr::V6(_) => std::net::Ipv6Addr::LOCALHOST.into(),
            });
        }
        let woken = TcpStream::connect_timeout(&at, Duration::from_secs(1)).is_ok();
        if let Some(t) = self.accepting.take().filter(|_| woken) {
            let _ = t.join();
        }
    }
}

fn accept(listener: &TcpListener, plan: &ApiPlan, live: &Arc<Live>, stop: &Arc<AtomicBool>) {
    let clients = Arc::new(AtomicUsize::new(0));
    for tcp in listener.incoming() {
        if stop.load(Ordering::Acquire) {
            return;
        }
        let Ok(tcp) = tcp else {
            // Out of descriptors, most likely: give others time to end.
            std::thread::sleep(Duration::from_millis(50));
            continue;
        };
        let Ok(conn) = ServerConnection::new(plan.tls.server.clone()) else { continue };
        let full = clients.fetch_add(1, Ordering::AcqRel) >= MAX_CLIENTS;
        let (live, stop, counted) = (Arc::clone(live), Arc::clone(stop), Arc::clone(&clients));
        if full {
            counted.fetch_sub(1, Ordering::AcqRel);
            drop(tcp);
            continue;
        }
        let spawned = std::thread::Builder::new().name("weir-client".to_owned()).spawn(move || {
            serve(Link::tls(conn, tcp), &live, &stop);
            counted.fetch_sub(1, Ordering::AcqRel);
        });
        if spawned.is_err() {
            clients.fetch_sub(1, Ordering::AcqRel);
        }
    }
}
