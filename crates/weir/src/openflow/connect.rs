//! A controller that we connect to: attempts, back-off, and its connection while there is one.
//!
//! Room: one task for each controller. Called by `hub`.

use super::address::{Controller, Security};
use super::conn::Conn;
use super::endpoint::Endpoint;
use super::session::{self, Ended};
use super::stream::Stream;
use super::tls;
use super::vdp::Vdp;
use std::hash::{BuildHasher, RandomState};
use std::rc::Rc;
use std::time::Duration;
use tokio::net::TcpStream;
use tokio::time::timeout;
use tokio_rustls::TlsConnector;
use weir_agent::{ConnId, Purpose};
use weir_openflow::channel::Backoff;
use weir_openflow::model::Version;

/// How long an attempt may take.
const PATIENCE: Duration = Duration::from_secs(10);

/// Keeps a controller connected until its endpoint is stopped.
pub async fn keep(vdp: Rc<Vdp>, endpoint: Rc<Endpoint>, controller: Controller) {
    // Controllers come back to a thousand switches that must not all return at once.
    let seed = RandomState::new().hash_one((vdp.vid.0, endpoint.id.0));
    let mut attempt: u32 = 0;
    while !endpoint.is_stopped() {
        let Some(stream) = endpoint.unless_stopped(connect(&endpoint, &controller)).await else {
            return;
        };
        match stream {
            Ok(stream) => {
                let ended = talk(&vdp, &endpoint, &controller, stream).await;
                if ended.was_up {
                    attempt = 0;
                }
                let facts = &mut *endpoint.facts.borrow_mut();
                facts.last_error = Some(ended.why.clone());
                if !endpoint.is_stopped() {
                    endpoint.lines.tell(format_args!("disconnected: {}", ended.why));
                }
            }
            Err(why) => endpoint.failed(why),
        }
        let ceiling = endpoint.how(&vdp).backoff_max;
        let backoff = Backoff { first: Duration::from_secs(1).min(ceiling), ceiling };
        let delay = backoff.delay(seed, attempt);
        attempt = attempt.saturating_add(1);
        let clock = vdp.common.clock;
        {
            let mut facts = endpoint.facts.borrow_mut();
            facts.attempts = attempt;
            facts.retry_at = Some(clock.now() + super::clock::nanos(delay));
        }
        if endpoint.unless_stopped(tokio::time::sleep(delay)).await.is_none() {
            return;
        }
        endpoint.facts.borrow_mut().retry_at = None;
    }
}

/// One attempt.
async fn connect(endpoint: &Endpoint, to: &Controller) -> Result<Stream, String> {
    let attempt = async {
        let tcp = TcpStream::connect((to.host.as_str(), to.port)).await;
        let tcp = tcp.map_err(|e| format!("can't connect: {e}"))?;
        // Answers are small and waited for.
        tcp.set_nodelay(true).map_err(|e| e.to_string())?;
        let (Security::Tls, Some(identity)) = (to.security, &endpoint.tls) else {
            return Ok(Stream::Plain(tcp));
        };
        let name = identity.expected(&to.host)?;
        let connector = TlsConnector::from(identity.client.clone());
        let tls = connector.connect(name, tcp).await;
        let tls = tls.map_err(|e| format!("TLS failed: {}", tls::io_in_words(&e)))?;
        Ok(Stream::Tls(Box::new(tls.into())))
    };
    match timeout(PATIENCE, attempt).await {
        Ok(done) => done,
        Err(_) => Err(format!("can't connect: no answer within {} s", PATIENCE.as_secs())),
    }
}

async fn talk(vdp: &Rc<Vdp>, endpoint: &Endpoint, to: &Controller, stream: Stream) -> Ended {
    let common = &vdp.common;
    let conn = Rc::new(Conn::new(
        ConnId(common.number()),
        endpoint.id,
        to.to_string(),
        Purpose::Controller,
        &endpoint.how(vdp),
        common.clock.now(),
    ));
    session::run(vdp, conn, stream, None, |version| {
        let facts = &mut *endpoint.facts.borrow_mut();
        facts.connections += 1;
        facts.attempts = 0;
        endpoint.lines.tell(format_args!("connected: OpenFlow {}", name(version)));
    })
    .await
}

/// A version's name.
pub fn name(version: Version) -> &'static str {
    match version {
        Version::V10 => "1.0",
        Version::V13 => "1.3",
    }
}
