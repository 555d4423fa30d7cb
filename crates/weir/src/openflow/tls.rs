//! Mutual TLS: what a VDP shows, what it demands of controllers, and what went wrong in words.
//!
//! Room: rustls with ring's cryptography. The configuration hands in PEM texts, so that a file that
//! can't be used is found before anything runs; `connect` and `listen` take the finished halves.
//! No secret is ever shown: errors name a file, never what stands in it.

use crate::date::day;
use std::fmt;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use tokio_rustls::rustls::client::WebPkiServerVerifier;
use tokio_rustls::rustls::client::danger::{
    HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier,
};
use tokio_rustls::rustls::crypto::{CryptoProvider, ring};
use tokio_rustls::rustls::pki_types::pem::PemObject;
use tokio_rustls::rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName, UnixTime};
use tokio_rustls::rustls::server::WebPkiClientVerifier;
use tokio_rustls::rustls::{
    CertificateError, ClientConfig, DigitallySignedStruct, Error, RootCertStore, ServerConfig,
    SignatureScheme,
};

/// Whose certificate a controller that we connect to must have.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum PeerName {
    /// The host's that we connected to.
    #[default]
    Host,
    /// This one's.
    Is(ServerName<'static>),
    /// Anybody's that the CA has signed.
    Any,
}

/// A VDP's identity and whom it trusts, ready for use.
#[derive(Clone)]
pub struct Identity {
    material: Arc<Material>,
    name: PeerName,
    files: Option<Arc<Files>>,
    /// What tells the texts of the files from others.
    texts: u64,
    /// For listeners.
    pub server: Arc<ServerConfig>,
    /// For connections that we make.
    pub client: Arc<ClientConfig>,
}

/// Where an identity was read from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Files {
    /// Our certificate and its chain.
    pub certificate: PathBuf,
    /// Its key.
    pub key: PathBuf,
    /// Whom we trust.
    pub ca: PathBuf,
}

impl Files {
    /// The one that is at fault.
    pub fn of(&self, part: Part) -> &Path {
        match part {
            Part::Certificate => &self.certificate,
            Part::Key => &self.key,
            Part::Ca => &self.ca,
        }
    }
}

/// What was read; two identities are the same if these are.
#[derive(PartialEq, Eq)]
struct Material {
    chain: Vec<CertificateDer<'static>>,
    key: PrivateKeyDer<'static>,
    trusted: Vec<CertificateDer<'static>>,
}

impl PartialEq for Identity {
    fn eq(&self, other: &Self) -> bool {
        self.material == other.material && self.name == other.name
    }
}

impl Eq for Identity {}

impl fmt::Debug for Identity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Identity").field("name", &self.name).finish_non_exhaustive()
    }
}

/// Which of the three texts is at fault.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Part {
    /// Our certificate.
    Certificate,
    /// Its key.
    Key,
    /// Whom we trust.
    Ca,
}

/// PEM texts of certificate (with its chain), key and trusted authorities.
pub struct Pem<'a> {
    /// Our certificate first, then whoever signed it, up to the authority.
    pub certificate: &'a [u8],
    /// Its private key.
    pub key: &'a [u8],
    /// Certificates of the authorities that sign controllers.
    pub ca: &'a [u8],
}

impl Identity {
    /// Reads and joins the three.
    ///
    /// # Errors
    /// Which part, and what is wrong with it.
    pub fn new(pem: &Pem<'_>, name: PeerName) -> Result<Self, (Part, String)> {
        let chain = certificates(pem.certificate).map_err(|e| (Part::Certificate, e))?;
        let trusted = certificates(pem.ca).map_err(|e| (Part::Ca, e))?;
        let key = PrivateKeyDer::from_pem_slice(pem.key)
            .map_err(|_| (Part::Key, "no private key in PEM in it".to_owned()))?;
        let mut roots = RootCertStore::empty();
        for c in &trusted {
            roots.add(c.clone()).map_err(|e| (Part::Ca, in_words(&e)))?;
        }
        let roots = Arc::new(roots);
        let provider = Arc::new(ring::default_provider());
        let ours = |e: Error| match e {
            Error::InvalidCertificate(_) => (Part::Certificate, in_words(&e)),
            _ => (Part::Key, in_words(&e)),
        };
        let server = server(&provider, &roots, &chain, &key).map_err(ours)?;
        let client = client(&provider, &roots, &chain, &key, &name).map_err(ours)?;
        let material = Arc::new(Material { chain, key, trusted });
        let (server, client) = (Arc::new(server), Arc::new(client));
        Ok(Self { material, name, files: None, texts: 0, server, client })
    }

    /// The same, read from these files, whose texts have this digest.
    #[must_use]
    pub fn with_origin(self, files: Files, texts: u64) -> Self {
        Self { files: Some(Arc::new(files)), texts, ..self }
    }

    /// Where it was read from, if it was, whose certificates it takes, and the digest of what was read.
    pub fn origin(&self) -> Option<(&Files, &PeerName, u64)> {
        Some((self.files.as_deref()?, &self.name, self.texts))
    }

    /// Why our certificate is none now, if it is out of its time.
    pub fn out_of_time(&self) -> Option<String> {
        out_of_time(&self.material.chain)
    }

    /// The name that a controller at `host` must have a certificate for.
    ///
    /// # Errors
    /// Where `host` can't stand in a certificate.
    pub fn expected(&self, host: &str) -> Result<ServerName<'static>, String> {
        match &self.name {
            PeerName::Is(name) => Ok(name.clone()),
            PeerName::Host | PeerName::Any => ServerName::try_from(host.to_owned())
                .map_err(|_| format!("no certificate can be for '{host}'")),
        }
    }
}

/// An identity that may be renewed while it is in use: each connection is made with what it is then.
#[derive(Clone, Debug)]
pub struct Current(Arc<Mutex<Identity>>);

impl Current {
    /// This, for now.
    pub fn new(first: Identity) -> Self {
        Self(Arc::new(Mutex::new(first)))
    }
    fn held(&self) -> MutexGuard<'_, Identity> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
    /// What it is now.
    pub fn now(&self) -> Identity {
        self.held().clone()
    }
    /// It is this from now on.
    pub fn renew(&self, new: Identity) {
        *self.held() = new;
    }
}

fn certificates(pem: &[u8]) -> Result<Vec<CertificateDer<'static>>, String> {
    let all: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(pem).collect();
    match all {
        Ok(all) if !all.is_empty() => Ok(all),
        _ => Err("no certificate in PEM in it".to_owned()),
    }
}

fn server(
    provider: &Arc<CryptoProvider>,
    roots: &Arc<RootCertStore>,
    chain: &[CertificateDer<'static>],
    key: &PrivateKeyDer<'static>,
) -> Result<ServerConfig, Error> {
    let clients = WebPkiClientVerifier::builder_with_provider(Arc::clone(roots), provider.clone())
        .build()
        .map_err(|e| Error::General(e.to_string()))?;
    let mut config = ServerConfig::builder_with_provider(Arc::clone(provider))
        .with_safe_default_protocol_versions()?
        .with_client_cert_verifier(clients)
        .with_single_cert(chain.to_vec(), key.clone_key())?;
    // Controllers stay connected; tickets would only cost memory.
    config.send_tls13_tickets = 0;
    Ok(config)
}

fn client(
    provider: &Arc<CryptoProvider>,
    roots: &Arc<RootCertStore>,
    chain: &[CertificateDer<'static>],
    key: &PrivateKeyDer<'static>,
    name: &PeerName,
) -> Result<ClientConfig, Error> {
    let builder = ClientConfig::builder_with_provider(Arc::clone(provider))
        .with_safe_default_protocol_versions()?;
    let signed =
        WebPkiServerVerifier::builder_with_provider(Arc::clone(roots), Arc::clone(provider))
            .build()
            .map_err(|e| Error::General(e.to_string()))?;
    let builder = match name {
        PeerName::Host | PeerName::Is(_) => builder.with_webpki_verifier(signed),
        PeerName::Any => {
            builder.dangerous().with_custom_certificate_verifier(Arc::new(AnyName(signed)))
        }
    };
    builder.with_client_auth_cert(chain.to_vec(), key.clone_key())
}

/// Verifies everything but the name, as Open vSwitch does: signature, chain, validity.
#[derive(Debug)]
struct AnyName(Arc<WebPkiServerVerifier>);

impl ServerCertVerifier for AnyName {
    fn verify_server_cert(
        &self,
        end_entity: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        server_name: &ServerName<'_>,
        ocsp_response: &[u8],
        now: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        // The name is looked at last, once the certificate has been found good.
        match self.0.verify_server_cert(end_entity, intermediates, server_name, ocsp_response, now)
        {
            Err(Error::InvalidCertificate(
                CertificateError::NotValidForName | CertificateError::NotValidForNameContext { .. },
            )) => Ok(ServerCertVerified::assertion()),
            other => other,
        }
    }
    fn verify_tls12_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        dss: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        self.0.verify_tls12_signature(message, cert, dss)
    }
    fn verify_tls13_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        dss: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        self.0.verify_tls13_signature(message, cert, dss)
    }
    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.0.supported_verify_schemes()
    }
}

/// Why the first certificate of a chain is none now, if it is out of its time: nobody will take it.
pub fn out_of_time(chain: &[CertificateDer<'static>]) -> Option<String> {
    let own = chain.first()?;
    let mut roots = RootCertStore::empty();
    // Whoever has signed it is not asked about: its time is looked at before.
    roots.add(own.clone()).ok()?;
    let provider = Arc::new(ring::default_provider());
    let verifier =
        WebPkiClientVerifier::builder_with_provider(Arc::new(roots), provider).build().ok()?;
    match verifier.verify_client_cert(own, &[], UnixTime::now()) {
        Err(Error::InvalidCertificate(CertificateError::ExpiredContext { not_after, .. })) => {
            Some(format!("it expired on {}", day(not_after.as_secs())))
        }
        Err(Error::InvalidCertificate(CertificateError::NotValidYetContext {
            not_before, ..
        })) => Some(format!("it is not valid before {}", day(not_before.as_secs()))),
        _ => None,
    }
}

/// A TLS error for the log: what to look at, without what was in a certificate.
pub fn in_words(e: &Error) -> String {
    match e {
        Error::InvalidCertificate(why) => format!("the certificate does not verify: {}", say(why)),
        Error::NoCertificatesPresented => "no certificate was shown".to_owned(),
        Error::AlertReceived(alert) => format!("the other side refuses: {alert:?}"),
        Error::InvalidMessage(_) => "what came is not TLS".to_owned(),
        Error::InconsistentKeys(_) => "the key does not belong to the certificate".to_owned(),
        other => other.to_string(),
    }
}

/// What webpki says of an authority's certificate that is shown as one's own; rustls passes it on as text.
const AUTHORITYS: &str = "CaUsedAsEndEntity";

fn say(why: &CertificateError) -> &'static str {
    match why {
        CertificateError::Other(e) if e.to_string().contains(AUTHORITYS) => {
            "it is an authority's own (CA:TRUE, as 'openssl req -x509' makes it): show one that an authority has signed"
        }
        CertificateError::Expired | CertificateError::ExpiredContext { .. } => "it has expired",
        CertificateError::NotValidYet | CertificateError::NotValidYetContext { .. } => {
            "it is not valid yet"
        }
        CertificateError::UnknownIssuer => "nobody in 'ca' has signed it",
        CertificateError::BadSignature => "its signature is wrong",
        CertificateError::NotValidForName | CertificateError::NotValidForNameContext { .. } => {
            "it is for another name ('peer_name' says which is expected)"
        }
        CertificateError::Revoked => "it was revoked",
        CertificateError::InvalidPurpose | CertificateError::InvalidPurposeContext { .. } => {
            "it is for another purpose"
        }
        CertificateError::BadEncoding => "it can't be read",
        _ => "it is not acceptable",
    }
}

/// The same for an error that came up through a stream.
pub fn io_in_words(e: &std::io::Error) -> String {
    match e.get_ref().and_then(|inner| inner.downcast_ref::<Error>()) {
        Some(tls) => in_words(tls),
        // What rustls says of it ends with the address of its manual.
        None if e.kind() == ErrorKind::UnexpectedEof => {
            "the peer has closed it without a good-bye".to_owned()
        }
        None => e.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rcgen::{CertificateParams, KeyPair, date_time_ymd};
    use std::io::Read;
    use tokio_rustls::rustls::ClientConnection;

    #[test]
    fn an_end_without_a_good_bye_is_told_without_the_library_s_manual() {
        let provider = Arc::new(ring::default_provider());
        let config = ClientConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .unwrap()
            .with_root_certificates(RootCertStore::empty())
            .with_no_client_auth();
        let name = ServerName::try_from("a.example").unwrap();
        let mut tls = ClientConnection::new(Arc::new(config), name).unwrap();
        assert_eq!(tls.read_tls(&mut std::io::empty()).unwrap(), 0);
        let e = tls.reader().read(&mut [0]).unwrap_err();
        assert!(e.to_string().contains("https://"), "{e}");
        assert_eq!(io_in_words(&e), "the peer has closed it without a good-bye");
    }

    #[test]
    fn a_certificate_that_is_out_of_its_time_is_told_with_the_day() {
        let of = |from: i32, to: i32| {
            let mut p = CertificateParams::new(["a.example".to_owned()]).unwrap();
            (p.not_before, p.not_after) = (date_time_ymd(from, 1, 1), date_time_ymd(to, 2, 29));
            out_of_time(&[p.self_signed(&KeyPair::generate().unwrap()).unwrap().der().clone()])
        };
        assert_eq!(of(1996, 2004).unwrap(), "it expired on 2004-02-29");
        assert_eq!(of(4000, 4004).unwrap(), "it is not valid before 4000-01-01");
        assert_eq!(of(1996, 4004), None);
        assert_eq!(out_of_time(&[]), None);
    }
}
