//! Connections to a `weir slicer`: who sends more than its slice may, and who says nothing at all.

mod certificates;
mod run_daemon;
mod slicer_rig;

use certificates::Authority;
use run_daemon::{LIMIT, weir};
use slicer_rig::{Line, Slicer, be_switch};
use std::io::{BufRead, BufReader};
use std::net::{TcpListener, TcpStream};
use std::path::Path;
use std::process::{ChildStdout, Stdio};
use std::sync::Arc;
use std::time::{Duration, Instant};
use tokio_rustls::rustls::crypto::ring;
use tokio_rustls::rustls::pki_types::ServerName;
use tokio_rustls::rustls::{ClientConfig, ClientConnection, StreamOwned};
use weir_openflow::model::*;

/// A slicer with this configuration, and what it says.
fn start(dir: &Path, config: &str) -> (Slicer, BufReader<ChildStdout>) {
    std::fs::write(dir.join("slices.toml"), config).unwrap();
    let mut c = weir();
    let mut child =
        c.arg("slicer").arg(dir.join("slices.toml")).stdout(Stdio::piped()).spawn().unwrap();
    let said = BufReader::new(child.stdout.take().unwrap());
    (Slicer(child), said)
}

const SPACE: &str = "[[flowspace]]\nmatch = 'dl_vlan=10'\nports = [1, 2, 3]\nwrite = 'red'\n";

/// Asks for a barrier, and waits until it is answered.
fn ask(line: &mut Line, xid: u32) {
    assert!(line.send(xid, Message::BarrierRequest));
    while line.next().expect("no answer in a quarter of a minute").xid != xid {}
}

#[test]
fn a_burst_beyond_the_limit_goes_on_as_the_limit_allows() {
    let dir = tempfile::tempdir().unwrap();
    let [switch, controller] = [(); 2].map(|()| TcpListener::bind("127.0.0.1:0").unwrap());
    let [to_switch, to_controller] = [&switch, &controller].map(|l| l.local_addr().unwrap());
    // Nothing else wakes it: no echo requests.
    let config = format!(
        "connect = ['tcp:{to_switch}']\necho_interval_s = 0\n\
         [[slice]]\nname = 'red'\ncontrollers = ['tcp:{to_controller}']\n\
         limits = {{ messages_per_s = 3000 }}\n{SPACE}"
    );
    let (_slicer, _said) = start(dir.path(), &config);
    std::thread::spawn(move || be_switch(Line::new(switch.accept().unwrap().0)));
    let (tcp, _) = controller.accept().unwrap();
    tcp.set_read_timeout(Some(LIMIT / 4)).unwrap();
    tcp.set_write_timeout(Some(LIMIT / 4)).unwrap();
    let mut line = Line::new(tcp);
    ask(&mut line, 1);
    // More than its limit takes at once, and each so long that what a channel keeps while it is held back is few: all
    // of that is taken in one turn.
    let matcher = Match::default().with(Field::InPort, 1_u32.into());
    let output = Action::Output { port: Port::CONTROLLER, max_len: 200 };
    let instructions = vec![Instruction::Apply(vec![output; 60])];
    let add = FlowMod { matcher, instructions, ..FlowMod::new(FlowCommand::Add) };
    let began = Instant::now();
    (0..6000).for_each(|_| assert!(line.send(9, Message::FlowMod(add.clone()))));
    ask(&mut line, 2);
    let took = began.elapsed();
    assert!(took > Duration::from_millis(500), "the limit holds: {took:?}");
}

#[test]
fn who_shows_no_certificate_keeps_no_switch_out() {
    let dir = tempfile::tempdir().unwrap();
    let ca = Authority::new();
    ca.signs("localhost").write(&ca, dir.path(), "s");
    let config = format!(
        "listen = ['pssl:0:127.0.0.1']\nconnections = 4\n\
         tls = {{ certificate = 's.pem', key = 's.key', ca = 's.ca.pem', peer_name = 'switch' }}\n\
         [[slice]]\nname = 'red'\n{SPACE}"
    );
    let (_slicer, mut said) = start(dir.path(), &config);
    let mut line = String::new();
    let at = loop {
        line.clear();
        assert!(said.read_line(&mut line).unwrap() > 0, "it has ended");
        if let Some(at) = line.trim().strip_prefix("switches: listening at ") {
            break at.to_owned();
        }
    };
    let silent: Vec<_> = (0..80).map(|_| TcpStream::connect(&at).unwrap()).collect();
    let (chain, key) = ca.signs("switch").der();
    let config = ClientConfig::builder_with_provider(Arc::new(ring::default_provider()))
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_root_certificates(ca.roots())
        .with_client_auth_cert(chain, key)
        .unwrap();
    let name = ServerName::try_from("localhost").unwrap();
    let tcp = TcpStream::connect(&at).unwrap();
    tcp.set_read_timeout(Some(LIMIT)).unwrap();
    let tls = ClientConnection::new(Arc::new(config), name).unwrap();
    let switch = Line::over(StreamOwned::new(tls, tcp));
    std::thread::spawn(move || be_switch(switch));
    let there = |l: String| l.contains("datapath 0x0000000000000051 is there");
    assert!(said.lines().map_while(Result::ok).any(there));
    drop(silent);
}
