//! A place where controllers and tools such as `ovs-ofctl` connect.
//!
//! Room: one task for each listener, one for each connection that came. What comes here is a tool
//! until it says otherwise: it decides nothing about frames without a flow. Called by `hub`.

use super::address::{Listener, Security};
use super::conn::Conn;
use super::connect::name;
use super::endpoint::Endpoint;
use super::session;
use super::stream::Stream;
use super::tls;
use super::vdp::Vdp;
use std::cell::Cell;
use std::io;
use std::net::SocketAddr;
use std::rc::Rc;
use std::time::Duration;
use tokio::net::{TcpListener, TcpStream};
use tokio::task::spawn_local;
use tokio::time::{sleep, timeout};
use tokio_rustls::TlsAcceptor;
use weir_agent::{ConnId, Purpose};

/// How long a TLS handshake may take.
const PATIENCE: Duration = Duration::from_secs(10);
/// How long a listener that could not be had is let alone.
const RETRY: Duration = Duration::from_secs(2);
/// How long accepting rests when the system has no descriptor left.
const REST: Duration = Duration::from_millis(100);

/// Takes an address.
///
/// # Errors
/// What the system says.
pub fn bind(at: SocketAddr) -> io::Result<TcpListener> {
    let listener = std::net::TcpListener::bind(at)?;
    listener.set_nonblocking(true)?;
    TcpListener::from_std(listener)
}

/// Serves a listener until its endpoint is stopped; takes its address first where that is still to do.
pub async fn serve(
    vdp: Rc<Vdp>,
    endpoint: Rc<Endpoint>,
    plan: Listener,
    mut bound: Option<TcpListener>,
) {
    let open = Rc::new(Cell::new(0));
    while !endpoint.is_stopped() {
        let Some(listener) = &bound else {
            if endpoint.unless_stopped(sleep(RETRY)).await.is_none() {
                return;
            }
            match bind(plan.at) {
                Ok(l) => {
                    endpoint.facts.borrow_mut().at = l.local_addr().ok();
                    endpoint.lines.tell("listening");
                    bound = Some(l);
                }
                Err(e) => endpoint.failed(format!("can't listen: {e}")),
            }
            continue;
        };
        match endpoint.unless_stopped(listener.accept()).await {
            None => return,
            Some(Ok((tcp, from))) => {
                let slot = Slot::take(&open);
                if open.get() > endpoint.how(&vdp).connections {
                    endpoint.facts.borrow_mut().refused += 1;
                    endpoint.failed(format!("{from} refused: too many connections"));
                    continue;
                }
                let (vdp, endpoint) = (Rc::clone(&vdp), Rc::clone(&endpoint));
                spawn_local(async move {
                    receive(&vdp, &endpoint, plan, tcp, from).await;
                    drop(slot);
                });
            }
            Some(Err(e)) => {
                endpoint.failed(format!("can't accept: {e}"));
                sleep(REST).await;
            }
        }
    }
}

/// One of the connections that may be open at once.
struct Slot(Rc<Cell<usize>>);

impl Slot {
    fn take(open: &Rc<Cell<usize>>) -> Self {
        open.set(open.get() + 1);
        Self(Rc::clone(open))
    }
}

impl Drop for Slot {
    fn drop(&mut self) {
        self.0.set(self.0.get() - 1);
    }
}

async fn receive(
    vdp: &Rc<Vdp>,
    endpoint: &Endpoint,
    plan: Listener,
    tcp: TcpStream,
    from: SocketAddr,
) {
    // Answers are small and waited for; a socket that refuses has gone already.
    let _ = tcp.set_nodelay(true);
    let stream = match (plan.security, &endpoint.tls) {
        (Security::Tls, Some(identity)) => {
            let accept = timeout(PATIENCE, TlsAcceptor::from(identity.server.clone()).accept(tcp));
            let why = match endpoint.unless_stopped(accept).await {
                None => return,
                Some(Ok(Ok(tls))) => Ok(Stream::Tls(Box::new(tls.into()))),
                Some(Ok(Err(e))) => Err(tls::io_in_words(&e)),
                Some(Err(_)) => Err(format!("nothing within {} s", PATIENCE.as_secs())),
            };
            match why {
                Ok(stream) => stream,
                Err(why) => {
                    endpoint.facts.borrow_mut().refused += 1;
                    endpoint.failed(format!("{from}: TLS failed: {why}"));
                    return;
                }
            }
        }
        _ => Stream::Plain(tcp),
    };
    let common = &vdp.common;
    let conn = Rc::new(Conn::new(
        ConnId(common.number()),
        endpoint.id,
        from.to_string(),
        Purpose::Management,
        &endpoint.how(vdp),
        common.clock.now(),
    ));
    let ended = session::run(vdp, conn, stream, None, |version| {
        endpoint.facts.borrow_mut().connections += 1;
        endpoint.lines.tell(format_args!("{from} connected: OpenFlow {}", name(version)));
    });
    let ended = ended.await;
    if !ended.was_up {
        let facts = &mut *endpoint.facts.borrow_mut();
        facts.refused += 1;
        facts.last_error = Some(format!("{from}: {}", ended.why));
    }
    if !endpoint.is_stopped() {
        endpoint.lines.tell(format_args!("{from} disconnected: {}", ended.why));
    }
}
