//! A controller by TLS for tests.

use super::{Peer, patient};
use std::net::{TcpListener, TcpStream};
use std::sync::Arc;
use tokio_rustls::rustls::crypto::ring;
use tokio_rustls::rustls::pki_types::{CertificateDer, PrivateKeyDer};
use tokio_rustls::rustls::server::WebPkiClientVerifier;
use tokio_rustls::rustls::{RootCertStore, ServerConfig, ServerConnection, StreamOwned};

/// Is a controller with this certificate for whoever comes with one that these authorities have signed.
pub fn server(
    l: &TcpListener,
    trusted: Arc<RootCertStore>,
    (chain, key): (Vec<CertificateDer<'static>>, PrivateKeyDer<'static>),
) -> Result<Peer<StreamOwned<ServerConnection, TcpStream>>, String> {
    let provider = Arc::new(ring::default_provider());
    let clients = WebPkiClientVerifier::builder_with_provider(trusted, Arc::clone(&provider));
    let config = ServerConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_client_cert_verifier(clients.build().unwrap())
        .with_single_cert(chain, key)
        .unwrap();
    let (tcp, _) = l.accept().unwrap();
    patient(&tcp);
    let tls = ServerConnection::new(Arc::new(config)).unwrap();
    Peer::over(StreamOwned::new(tls, tcp))
}
