//! What `weir serve` is configured with.
//!
//! Room: text and arguments to a plan; files are looked for beside the one that names them.

use super::guards::Guards;
use crate::config::error::Source;
use crate::config::read::read_file;
use crate::fault::bad_input;
use crate::net::change::Verify;
use crate::openflow::tls::{in_words, out_of_time};
use anyhow::Result;
use serde::Deserialize;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use tokio_rustls::rustls::ServerConfig;
use tokio_rustls::rustls::crypto::ring;
use tokio_rustls::rustls::pki_types::pem::PemObject;
use tokio_rustls::rustls::pki_types::{CertificateDer, PrivateKeyDer};

/// Where the API is, without a configuration.
const DEFAULT: SocketAddr =
    SocketAddr::new(std::net::IpAddr::V4(std::net::Ipv4Addr::LOCALHOST), 6681);

/// As it is written.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct File {
    listen: Option<SocketAddr>,
    tls: Option<Tls>,
    tokens: Option<PathBuf>,
    store: Option<PathBuf>,
    #[serde(default)]
    verify: bool,
    #[serde(default)]
    guards: Guards,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Tls {
    certificate: PathBuf,
    key: PathBuf,
}

/// What is served.
#[derive(Debug)]
pub struct Plan {
    /// Where.
    pub listen: SocketAddr,
    /// By TLS.
    pub tls: Option<Arc<Shown>>,
    /// File of tokens.
    pub tokens: PathBuf,
    /// The store.
    pub store: PathBuf,
    /// Whether changes are proved first.
    pub verify: Verify,
    /// What is done with the lab's guards.
    pub guards: Guards,
}

/// A certificate that is shown, and read again when it is renewed.
#[derive(Debug)]
pub struct Shown {
    certificate: PathBuf,
    key: PathBuf,
    now: Mutex<Arc<ServerConfig>>,
}

impl Shown {
    /// That of these files.
    ///
    /// # Errors
    /// Which can't be used, and why.
    pub fn of(certificate: PathBuf, key: PathBuf) -> Result<Self> {
        let now = Mutex::new(server(&certificate, &key)?);
        Ok(Self { certificate, key, now })
    }

    /// What connections are made with now.
    pub fn now(&self) -> Arc<ServerConfig> {
        Arc::clone(&self.now.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// What the files have now is shown from now on.
    ///
    /// # Errors
    /// As [`Shown::of`]; what was shown before is still.
    pub fn renew(&self) -> Result<()> {
        let new = server(&self.certificate, &self.key)?;
        *self.now.lock().unwrap_or_else(PoisonError::into_inner) = new;
        Ok(())
    }

    /// Why nobody will take it, if it is out of its time.
    pub fn out_of_time(&self) -> Option<String> {
        let why = out_of_time(&chain(&self.certificate).ok()?)?;
        Some(format!(
            "certificate {}: {why}: nobody takes it, renew it",
            self.certificate.display()
        ))
    }
}

/// What arguments say in the file's stead.
#[derive(Clone, Debug, Default)]
pub struct Given {
    /// Where.
    pub listen: Option<SocketAddr>,
    /// File of tokens.
    pub tokens: Option<PathBuf>,
    /// The store.
    pub store: Option<PathBuf>,
}

impl Plan {
    /// Of a file, where there is one, and of arguments.
    ///
    /// # Errors
    /// It can't be, with line and column.
    pub fn load(path: Option<&Path>, given: Given) -> Result<Self> {
        let mut file = File::default();
        let mut base = PathBuf::new();
        if let Some(path) = path {
            let text = read_file(path).map_err(bad_input)?;
            let name = path.display().to_string();
            file =
                toml::from_str(&text).map_err(|e| bad_input(Source::new(&name, &text).toml(&e)))?;
            base = path.parent().unwrap_or(Path::new("")).to_owned();
        }
        let beside = |p: PathBuf| base.join(p);
        let tls = file.tls.map(|t| Shown::of(beside(t.certificate), beside(t.key))).transpose()?;
        let listen = given.listen.or(file.listen).unwrap_or(DEFAULT);
        if tls.is_none() && !listen.ip().is_loopback() {
            let text =
                "everybody could read what is said: give tls = { certificate, key }, or listen at";
            return Err(bad_input(format_args!("listen {listen}: {text} 127.0.0.1:6681")));
        }
        let default_tokens = super::tokens::default_path;
        let default_store = crate::net::store::default_path;
        Ok(Self {
            listen,
            tls: tls.map(Arc::new),
            tokens: given.tokens.or(file.tokens.map(beside)).unwrap_or_else(default_tokens),
            store: given.store.or(file.store.map(beside)).unwrap_or_else(default_store),
            verify: if file.verify { Verify::Always } else { Verify::AsTheLabSays },
            guards: file.guards,
        })
    }
}

/// TLS with a certificate of our own; clients show tokens.
///
/// # Errors
/// Which file can't be used, and why.
pub fn server(certificate: &Path, key: &Path) -> Result<Arc<ServerConfig>> {
    let secret = PrivateKeyDer::from_pem_slice(read_file(key).map_err(bad_input)?.as_bytes())
        .map_err(|_| wrong(key, "no private key in PEM in it"))?;
    let mut config = ServerConfig::builder_with_provider(Arc::new(ring::default_provider()))
        .with_safe_default_protocol_versions()?
        .with_no_client_auth()
        .with_single_cert(chain(certificate)?, secret)
        .map_err(|e| wrong(key, &in_words(&e)))?;
    config.alpn_protocols = vec![b"http/1.1".to_vec()];
    Ok(Arc::new(config))
}

fn wrong(p: &Path, what: &str) -> anyhow::Error {
    bad_input(format_args!("{}: {what}", p.display()))
}

/// A certificate, and behind it whoever has signed it.
fn chain(certificate: &Path) -> Result<Vec<CertificateDer<'static>>> {
    let text = read_file(certificate).map_err(bad_input)?;
    let all: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(text.as_bytes()).collect();
    let all = all.ok().filter(|c| !c.is_empty());
    all.ok_or_else(|| wrong(certificate, "no certificate in PEM in it"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn off_loopback_it_is_tls_or_nothing() {
        let at = |t: &str| Given { listen: Some(t.parse().unwrap()), ..Given::default() };
        assert!(Plan::load(None, at("127.0.0.1:0")).is_ok());
        assert!(Plan::load(None, at("[::1]:0")).is_ok());
        for wrong in ["0.0.0.0:6681", "192.0.2.1:1", "[::]:1"] {
            let e = Plan::load(None, at(wrong)).unwrap_err().to_string();
            assert!(e.contains("tls = "), "{e}");
        }
    }

    #[test]
    fn a_key_that_is_unknown_is_told_with_its_place() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("s.toml");
        std::fs::write(&path, "listen = '127.0.0.1:1'\nverfy = true\n").unwrap();
        let e = Plan::load(Some(&path), Given::default()).unwrap_err().to_string();
        assert!(e.contains("s.toml:2:1: unknown key 'verfy': did you mean 'verify'?"), "{e}");
    }
}
