//! How a slice's controllers are reached, and how they come: connections for one switch's desk.
//!
//! Room: tasks of the slicer's thread: one for each controller of each switch, one for each place to listen.

use super::desk::{Desk, Stage};
use super::peer::{Peer, Who};
use super::pump;
use crate::openflow::address::{Controller, Security};
use crate::openflow::stream::Stream;
use crate::openflow::tls::{self, Identity};
use std::hash::{BuildHasher, RandomState};
use std::rc::Rc;
use std::time::Duration;
use tokio::net::TcpStream;
use tokio::time::timeout;
use tokio_rustls::{TlsAcceptor, TlsConnector};
use weir_openflow::channel::{Backoff, Versions};
use weir_openflow::model::Version;
use weir_supervisor::slicer::space::SliceId;

/// How long an attempt, or a TLS handshake, may take.
const PATIENCE: Duration = Duration::from_secs(10);

/// Connects to `to`.
///
/// # Errors
/// What went wrong, in words.
pub async fn connect(to: &Controller, identity: Option<&Identity>) -> Result<Stream, String> {
    let attempt = async {
        let tcp = TcpStream::connect((to.host.as_str(), to.port)).await;
        let tcp = tcp.map_err(|e| format!("can't connect: {e}"))?;
        tcp.set_nodelay(true).map_err(|e| e.to_string())?;
        let (Security::Tls, Some(identity)) = (to.security, identity) else {
            return Ok(Stream::Plain(tcp));
        };
        let name = identity.expected(&to.host)?;
        let tls = TlsConnector::from(identity.client.clone()).connect(name, tcp).await;
        let tls = tls.map_err(|e| format!("TLS failed: {}", tls::io_in_words(&e)))?;
        Ok(Stream::Tls(Box::new(tls.into())))
    };
    match timeout(PATIENCE, attempt).await {
        Ok(done) => done,
        Err(_) => Err(format!("can't connect: no answer within {} s", PATIENCE.as_secs())),
    }
}

/// Takes a connection that has come in.
///
/// # Errors
/// What went wrong with TLS.
pub async fn accept(
    tcp: TcpStream,
    security: Security,
    identity: Option<&Identity>,
) -> Result<Stream, String> {
    // A socket that refuses has gone already.
    let _ = tcp.set_nodelay(true);
    let (Security::Tls, Some(identity)) = (security, identity) else {
        return Ok(Stream::Plain(tcp));
    };
    let accepted = timeout(PATIENCE, TlsAcceptor::from(identity.server.clone()).accept(tcp)).await;
    match accepted {
        Ok(Ok(tls)) => Ok(Stream::Tls(Box::new(tls.into()))),
        Ok(Err(e)) => Err(format!("TLS failed: {}", tls::io_in_words(&e))),
        Err(_) => Err(format!("TLS failed: nothing within {} s", PATIENCE.as_secs())),
    }
}

/// Keeps one controller of a slice's connected while the switch is there and the slice has it.
pub async fn keep(desk: Rc<Desk>, slice: SliceId, to: Controller, version: Version) {
    let name = desk.plan().name_of(slice).to_owned();
    let mut stage = desk.stage();
    let seed = RandomState::new().hash_one((slice.0, to.port));
    let (mut attempt, mut said) = (0u32, String::new());
    while *stage.borrow_and_update() != Stage::Gone && desk.plan().wants(slice, Some(&to)) {
        let tls = desk.plan().tls.clone();
        match connect(&to, tls.as_ref()).await {
            // It may have been taken away meanwhile.
            Ok(_) if !desk.plan().wants(slice, Some(&to)) => return,
            Ok(stream) => {
                desk.lines.tell(format_args!("slice {name}: {to}: connected"));
                let (why, was_up) = talk(&desk, slice, Some(to.clone()), version, stream).await;
                desk.lines.tell(format_args!("slice {name}: {to}: disconnected: {why}"));
                if was_up {
                    attempt = 0;
                }
                said.clear();
            }
            Err(why) if why != said => {
                desk.lines.tell(format_args!("slice {name}: {to}: {why}"));
                said = why;
            }
            Err(_) => {}
        }
        let backoff =
            Backoff { first: Duration::from_millis(250), ceiling: desk.plan().backoff_max };
        let delay = backoff.delay(seed, attempt);
        attempt = attempt.saturating_add(1);
        // Either is a reason to look again.
        let _ = timeout(delay, stage.changed()).await;
    }
}

/// Runs a controller's connection to its end: why it ended, and whether it ever was up.
pub async fn talk(
    desk: &Rc<Desk>,
    slice: SliceId,
    of: Option<Controller>,
    version: Version,
    stream: Stream,
) -> (String, bool) {
    let versions = Versions::only(version);
    let who = Who::Controller(slice);
    let echo = desk.plan().echo;
    let peer = Rc::new(Peer::new(desk.number(), who, of, versions, echo, desk.now()));
    let why = pump::run(desk, Rc::clone(&peer), stream).await;
    (why, peer.up.get())
}
