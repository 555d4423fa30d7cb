//! Controllers by TLS: both ends must show a certificate that verifies.

mod certificates;
mod openflow_rig;
mod run_daemon;

use certificates::{Authority, Identity, self_signed};
use openflow_rig::{Peer, by_tls, config, listening, patient, switch};
use run_daemon::Daemon;
use std::net::{TcpListener, TcpStream};
use std::sync::Arc;
use tokio_rustls::rustls::crypto::ring;
use tokio_rustls::rustls::pki_types::ServerName;
use tokio_rustls::rustls::{ClientConfig, ClientConnection, ServerConnection, StreamOwned};

const TLS: &str = "tls = { certificate = 'switch.pem', key = 'switch.key', ca = 'ca.pem' }";

fn daemon(openflow: &str, ca: &Authority, own: &Identity) -> Daemon {
    let files =
        [("switch.pem", &*own.certificate), ("switch.key", &*own.key), ("ca.pem", &*ca.pem)];
    let mut d = Daemon::spawn_with(&config(&format!("{openflow}\n{TLS}")), &[], &files);
    d.wait_for("running: ");
    d
}

type Tls<C> = StreamOwned<C, TcpStream>;

/// Connects as a tool with this identity, or none.
fn client(
    at: &str,
    ca: &Authority,
    own: Option<&Identity>,
) -> Result<Peer<Tls<ClientConnection>>, String> {
    let builder = ClientConfig::builder_with_provider(Arc::new(ring::default_provider()))
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_root_certificates(ca.roots());
    let config = match own.map(Identity::der) {
        Some((chain, key)) => builder.with_client_auth_cert(chain, key).unwrap(),
        None => builder.with_no_client_auth(),
    };
    let name = ServerName::try_from("switch.example").unwrap();
    let tls = ClientConnection::new(Arc::new(config), name).unwrap();
    let tcp = TcpStream::connect(at).unwrap();
    patient(&tcp);
    Peer::over(StreamOwned::new(tls, tcp))
}

/// Is a controller with this identity for whoever comes.
fn server(
    l: &TcpListener,
    ca: &Authority,
    own: &Identity,
) -> Result<Peer<Tls<ServerConnection>>, String> {
    by_tls::server(l, ca.roots(), own.der())
}

#[test]
fn a_listener_takes_only_those_whom_its_authority_has_signed() {
    let ca = Authority::new();
    let mut d = daemon("listen = ['pssl:0']", &ca, &ca.signs("switch.example"));
    let at = listening(&d);
    let mut good = client(&at, &ca, Some(&ca.signs("tool.example"))).unwrap();
    assert_eq!(good.barrier().unwrap(), []);

    let stranger = Authority::new().signs("tool.example");
    assert!(client(&at, &ca, Some(&stranger)).is_err());
    d.wait_for("TLS failed: the certificate does not verify: nobody in 'ca' has signed it");
    assert!(client(&at, &ca, Some(&self_signed("tool.example"))).is_err());
    d.wait_for("it is an authority's own (CA:TRUE, as 'openssl req -x509' makes it)");
    assert!(client(&at, &ca, None).is_err());
    d.wait_for("TLS failed: no certificate was shown");
    // One that speaks no TLS at all.
    let plain = TcpStream::connect(&at).unwrap();
    patient(&plain);
    assert!(Peer::over(plain).is_err());
    d.wait_for("TLS failed: what came is not TLS");

    assert_eq!(good.barrier().unwrap(), []);
    let s = switch(&d);
    assert_eq!(s["listeners"][0]["connected"], 1, "{s}");
    assert_eq!(s["listeners"][0]["refused"], 4, "{s}");
    let said = d.stop().join("\n");
    assert!(!said.contains("PRIVATE KEY"), "{said}");
}

#[test]
fn a_controller_must_be_who_it_should_be() {
    let ca = Authority::new();
    let l = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = l.local_addr().unwrap().port();
    let openflow = format!("controllers = ['ssl:localhost:{port}']\nbackoff_max_s = 1");
    let mut d = daemon(&openflow, &ca, &ca.signs("switch.example"));
    let stranger = Authority::new();
    assert!(server(&l, &ca, &stranger.signs("localhost")).is_err());
    d.wait_for("TLS failed: the certificate does not verify: nobody in 'ca' has signed it");
    assert!(server(&l, &ca, &ca.signs("other.example")).is_err());
    d.wait_for("it is for another name");
    // A controller that does not know the switch's authority.
    assert!(server(&l, &stranger, &ca.signs("localhost")).is_err());
    let mut p = server(&l, &ca, &ca.signs("localhost")).unwrap();
    assert!(d.wait_for("connected: OpenFlow 1.3").contains("ssl:localhost"));
    assert_eq!(p.barrier().unwrap(), []);
    d.stop();
}

#[test]
fn a_renewed_identity_is_used_after_a_reload() {
    // A port that is free now.
    let port = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
    let (at, ca) = (format!("127.0.0.1:{port}"), Authority::new());
    let openflow = format!("listen = ['pssl:{port}']");
    let mut d = daemon(&openflow, &ca, &ca.signs("switch.example"));
    let mut first = client(&at, &ca, Some(&ca.signs("tool.example"))).unwrap();
    first.barrier().unwrap();
    let text = config(&format!("{openflow}\n{TLS}"));
    assert!(d.reload(&text).contains("nothing differs"));
    first.barrier().unwrap();

    let ca = Authority::new();
    let own = ca.signs("switch.example");
    for (name, pem) in
        [("switch.pem", &own.certificate), ("switch.key", &own.key), ("ca.pem", &ca.pem)]
    {
        std::fs::write(d.path(name), pem).unwrap();
    }
    assert!(d.reload(&text).contains("done"));
    assert!(first.barrier().is_err(), "it was there by the old identity");
    client(&at, &ca, Some(&ca.signs("tool.example"))).unwrap().barrier().unwrap();
    let said = d.stop().join("\n");
    assert!(!said.contains("can't listen"), "{said}");
}

#[test]
fn any_name_will_do_where_the_file_says_so() {
    let ca = Authority::new();
    let l = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = l.local_addr().unwrap().port();
    let own = ca.signs("switch.example");
    let text = config(&format!("controllers = ['ssl:127.0.0.1:{port}']\nbackoff_max_s = 1\n{TLS}"))
        .replace("ca = 'ca.pem'", "ca = 'ca.pem', peer_name = '*'");
    let files =
        [("switch.pem", &*own.certificate), ("switch.key", &*own.key), ("ca.pem", &*ca.pem)];
    let mut d = Daemon::spawn_with(&text, &[], &files);
    d.wait_for("running: ");
    assert!(server(&l, &ca, &Authority::new().signs("x")).is_err());
    let mut p = server(&l, &ca, &ca.signs("somebody.example")).unwrap();
    assert_eq!(p.barrier().unwrap(), []);
    d.stop();
}
