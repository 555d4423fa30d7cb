//! Certificates for tests, made on the spot.
#![allow(dead_code)]

use rcgen::{BasicConstraints, CertificateParams, DnType, IsCa, Issuer, KeyPair, date_time_ymd};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use tokio_rustls::rustls::RootCertStore;
use tokio_rustls::rustls::pki_types::pem::PemObject;
use tokio_rustls::rustls::pki_types::{CertificateDer, PrivateKeyDer};

/// An authority that signs.
pub struct Authority {
    pub pem: String,
    issuer: Issuer<'static, KeyPair>,
}

/// A certificate with its key, as PEM.
pub struct Identity {
    pub certificate: String,
    pub key: String,
}

impl Authority {
    pub fn new() -> Self {
        static NUMBER: AtomicUsize = AtomicUsize::new(0);
        let number = NUMBER.fetch_add(1, Ordering::Relaxed);
        let mut p = CertificateParams::new([]).unwrap();
        p.distinguished_name.push(DnType::CommonName, format!("authority {number}"));
        p.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        let key = KeyPair::generate().unwrap();
        let pem = p.self_signed(&key).unwrap().pem();
        Self { pem, issuer: Issuer::new(p, key) }
    }
    pub fn signs(&self, name: &str) -> Identity {
        self.signs_until(name, 4000)
    }
    /// One that holds until a year begins.
    pub fn signs_until(&self, name: &str, year: i32) -> Identity {
        let key = KeyPair::generate().unwrap();
        let mut p = CertificateParams::new([name.to_owned()]).unwrap();
        p.not_after = date_time_ymd(year, 1, 1);
        p.distinguished_name.push(DnType::CommonName, name);
        let certificate = p.signed_by(&key, &self.issuer).unwrap().pem();
        Identity { certificate, key: key.serialize_pem() }
    }
    pub fn roots(&self) -> Arc<RootCertStore> {
        let mut roots = RootCertStore::empty();
        roots.add(CertificateDer::from_pem_slice(self.pem.as_bytes()).unwrap()).unwrap();
        Arc::new(roots)
    }
}

/// What an authority is known by, with its key: signed by itself, as `openssl req -x509` makes them.
pub fn self_signed(name: &str) -> Identity {
    let key = KeyPair::generate().unwrap();
    let mut p = CertificateParams::new([name.to_owned()]).unwrap();
    p.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    Identity { certificate: p.self_signed(&key).unwrap().pem(), key: key.serialize_pem() }
}

impl Identity {
    pub fn der(&self) -> (Vec<CertificateDer<'static>>, PrivateKeyDer<'static>) {
        let cert = CertificateDer::from_pem_slice(self.certificate.as_bytes()).unwrap();
        (vec![cert], PrivateKeyDer::from_pem_slice(self.key.as_bytes()).unwrap())
    }
}

impl Identity {
    /// Writes both with the authority's certificate: `NAME.pem`, `NAME.key`, `NAME.ca.pem`.
    pub fn write(&self, ca: &Authority, directory: &Path, name: &str) -> Files {
        let of = |end: &str| directory.join(format!("{name}{end}"));
        let files = Files { certificate: of(".pem"), key: of(".key"), ca: of(".ca.pem") };
        std::fs::write(&files.certificate, &self.certificate).unwrap();
        std::fs::write(&files.key, &self.key).unwrap();
        std::fs::write(&files.ca, &ca.pem).unwrap();
        files
    }
}

/// Where they are.
pub struct Files {
    pub certificate: PathBuf,
    pub key: PathBuf,
    pub ca: PathBuf,
}
