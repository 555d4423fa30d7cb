//! The end at which the switch is: a place where connections of VDPs that have come here arrive.
//!
//! Room: one listener for all VDPs of the thread, beside the node API's address; one task for each
//! connection that comes. What comes with a token that nobody gave is let go.

use super::super::conn::{Conn, EndpointId};
use super::super::session;
use super::super::stream::Stream;
use super::super::vdp::Vdp;
use super::stream::Relayed;
use super::wire::{Kind, take};
use super::{Hello, Token};
use crate::openflow::tls::{Current, Identity};
use std::cell::RefCell;
use std::collections::HashMap;
use std::future::poll_fn;
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::rc::Rc;
use std::task::Poll;
use std::time::Duration;
use tokio::net::{TcpListener, TcpStream};
use tokio::task::spawn_local;
use tokio::time::{sleep, timeout};
use tokio_rustls::TlsAcceptor;
use weir_agent::ConnId;

/// How long a connection may take to say whose it is.
const PATIENCE: Duration = Duration::from_secs(5);
/// Connections that may be about to say whose they are.
const OPEN: usize = 256;

/// VDPs that wait for connections, by what they are known by.
#[derive(Clone, Default)]
pub struct Awaited(Rc<RefCell<HashMap<Token, Whose>>>);

/// A VDP, and the endpoint that its connections have.
type Whose = (Rc<Vdp>, EndpointId);

impl Awaited {
    /// A VDP's connections may come.
    pub fn add(&self, token: Token, vdp: &Rc<Vdp>) {
        let endpoint = EndpointId(vdp.common.number());
        self.0.borrow_mut().insert(token, (Rc::clone(vdp), endpoint));
    }
    /// A VDP has gone.
    pub fn forget(&self, vdp: &Rc<Vdp>) {
        self.0.borrow_mut().retain(|_, (v, _)| !Rc::ptr_eq(v, vdp));
    }
    fn find(&self, token: &Token) -> Option<Whose> {
        self.0.borrow().get(token).map(|(v, e)| (Rc::clone(v), *e))
    }
}

/// Opens the place, at any port of this address.
///
/// # Errors
/// What the system says.
pub fn open(at: IpAddr, identity: Option<Current>, awaited: Awaited) -> io::Result<SocketAddr> {
    let listener = super::super::listen::bind(SocketAddr::new(at, 0))?;
    let bound = listener.local_addr()?;
    spawn_local(serve(listener, identity, awaited));
    Ok(bound)
}

async fn serve(listener: TcpListener, identity: Option<Current>, awaited: Awaited) {
    let open = Rc::new(());
    loop {
        let Ok((tcp, _)) = listener.accept().await else {
            // Out of descriptors, most likely: give others time to end.
            sleep(Duration::from_millis(50)).await;
            continue;
        };
        if Rc::strong_count(&open) > OPEN {
            continue;
        }
        let (identity, awaited, slot) =
            (identity.as_ref().map(Current::now), awaited.clone(), Rc::clone(&open));
        spawn_local(async move {
            let greeted = timeout(PATIENCE, greeting(tcp, identity)).await;
            drop(slot);
            if let Ok(Some((to, came, hello))) = greeted {
                receive(to, came, hello, &awaited).await;
            }
        });
    }
}

/// Whose it is.
async fn greeting(tcp: TcpStream, identity: Option<Identity>) -> Option<(Stream, Vec<u8>, Hello)> {
    tcp.set_nodelay(true).ok()?;
    let mut to = match identity {
        Some(i) => Stream::Tls(Box::new(
            TlsAcceptor::from(i.server.clone()).accept(tcp).await.ok()?.into(),
        )),
        None => Stream::Plain(tcp),
    };
    let mut came = Vec::new();
    let hello = poll_fn(|cx| {
        loop {
            match take(&mut came) {
                Ok(Some((Kind::Hello, bytes))) => return Poll::Ready(Hello::from_bytes(&bytes)),
                Ok(None) => {}
                _ => return Poll::Ready(None),
            }
            let mut buffer = [0; 16384];
            match to.poll_read(cx, &mut buffer) {
                Poll::Pending => return Poll::Pending,
                Poll::Ready(Ok(n)) if n > 0 => {
                    came.extend_from_slice(buffer.get(..n).unwrap_or_default());
                }
                _ => return Poll::Ready(None),
            }
        }
    });
    let hello = hello.await?;
    Some((to, came, hello))
}

async fn receive(to: Stream, came: Vec<u8>, hello: Hello, awaited: &Awaited) {
    let Some((vdp, endpoint)) = awaited.find(&hello.token) else { return };
    let mut to = Relayed::new(to, came);
    to.taken();
    let common = &vdp.common;
    let (how, now) = (vdp.how.get(), common.clock.now());
    let id = ConnId(common.number());
    let conn = Rc::new(match &hello.state {
        Some(s) => Conn::resumed(id, endpoint, hello.peer, s, &how, now),
        None => Conn::new(id, endpoint, hello.peer, hello.purpose, &how, now),
    });
    let stream = Stream::Relayed(Box::new(to));
    session::run(&vdp, conn, stream, hello.state, |_| {}).await;
}
