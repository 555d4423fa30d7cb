//! The poller against a real `snmpd` (net-snmp), on loopback with a configuration of its own: v2c, v3
//! signed, v3 encrypted, and what is said when a community, user or password is wrong.
//!
//! SKIPPED without `snmpd` (package snmpd); what it answers is compared with `snmpget`'s word where
//! that is there (package snmp).

use std::net::UdpSocket;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::Duration;
use weir_measure::engine::sampling::{Periodic, Sampler as _};
use weir_measure::snmp::{Client, Poller, Sampler, Target, Vendors, client::oid};

struct Snmpd {
    child: Child,
    address: String,
    _dir: tempfile::TempDir,
}

impl Drop for Snmpd {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn there(program: &str) -> bool {
    let path = std::env::var("PATH").unwrap_or_default() + ":/usr/sbin:/sbin";
    path.split(':').any(|d| Path::new(d).join(program).exists())
}

fn start(test: &str) -> Option<Snmpd> {
    if !there("snmpd") {
        eprintln!("SKIPPED: {test} needs snmpd (package snmpd)");
        return None;
    }
    let dir = tempfile::tempdir().unwrap();
    let free = UdpSocket::bind("127.0.0.1:0").unwrap();
    let address = free.local_addr().unwrap().to_string();
    drop(free);
    let configuration = dir.path().join("snmpd.conf");
    let text = "rocommunity counted 127.0.0.1\nsysDescr a switch <b> of ours\n\
                createUser signer SHA-256 authpassword\nrouser signer auth\n\
                createUser secret SHA authpassword AES privpassword\nrouser secret priv\n\
                createUser old MD5 authpassword DES privpassword\nrouser old priv\n";
    std::fs::write(&configuration, text).unwrap();
    let mut c = Command::new("snmpd");
    c.env("PATH", std::env::var("PATH").unwrap_or_default() + ":/usr/sbin:/sbin");
    c.env("SNMP_PERSISTENT_DIR", dir.path()).env("MIBS", "");
    c.args(["-f", "-Lo", "-C", "-I", "-smux", "-c"]).arg(&configuration);
    c.arg(format!("udp:{address}"));
    let child = c.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
    let started = Snmpd { child, address, _dir: dir };
    // Many tries: the machine may be busy, and a try ends at once while nobody listens.
    let target = format!("counted@{}", started.address).parse().unwrap();
    let mut client = Client::new(target, Duration::from_millis(200), 1);
    let name = [oid("1.3.6.1.2.1.1.1.0").unwrap()];
    let answers = (0..300).any(|_| {
        let there = client.get(&name).is_ok();
        if !there {
            std::thread::sleep(Duration::from_millis(100));
        }
        there
    });
    assert!(answers, "snmpd did not begin to answer in 30 s");
    Some(started)
}

fn client(text: &str) -> Client {
    let target: Target = toml::from_str(text).unwrap();
    Client::new(target, Duration::from_secs(5), 3)
}

/// Description, vendor, and the loopback's counters, moved by traffic of ours.
fn polls(test: &str, access: &str) {
    let Some(d) = start(test) else { return };
    let text = format!("address = '{}'\n{access}", d.address);
    let vendors = Vendors::ours().unwrap();
    let mut poller = Poller::begin(client(&text), &vendors, &["lo".into()]).unwrap();
    assert_eq!(poller.description, "a switch <b> of ours");
    assert_eq!(poller.vendor, "net-snmp");
    let first = poller.sample().unwrap();
    assert_eq!((first.cpu_percent, first.interfaces.len()), (None, 1));
    let before = first.interfaces[0].clone();
    assert_eq!(before.name, "lo");
    // The agent refreshes its counters every few seconds; each request is traffic on the loopback.
    let moved = (0..300).find_map(|_| {
        std::thread::sleep(Duration::from_millis(100));
        let sample = poller.sample().unwrap();
        assert!(sample.cpu_percent.is_none_or(|p| (0.0..=100.0).contains(&p)), "{sample:?}");
        let now = sample.interfaces.into_iter().next().unwrap();
        (now.rx_frames > before.rx_frames).then_some(now)
    });
    let now = moved.expect("the loopback's counters move");
    assert!(now.rx_bytes > before.rx_bytes && now.tx_frames > before.tx_frames, "{now:?}");
    // The same as events for modules.
    let mut sampler = Periodic::new(poller, "it by SNMP", Duration::from_secs(1));
    let read = sampler.read().unwrap();
    let frames = read.iter().find(|s| s.what == "rx_frames lo").unwrap();
    assert!(frames.value > before.rx_frames as f64 && frames.unit == "frames", "{frames:?}");
    let none = Poller::begin(client(&text), &vendors, &["none0".into()]).unwrap_err().to_string();
    assert!(none.contains("no interface \"none0\"; it has lo"), "{none}");
}

#[test]
fn version_2c() {
    polls("version_2c", "community = 'counted'");
}

#[test]
fn version_3_signed() {
    let auth = "auth = { protocol = 'sha256', password = 'authpassword' }";
    polls("version_3_signed", &format!("user = 'signer'\n{auth}"));
}

#[test]
fn version_3_encrypted() {
    let auth = "auth = { protocol = 'sha1', password = 'authpassword' }";
    let privacy = "privacy = { protocol = 'aes128', password = 'privpassword' }";
    polls("version_3_encrypted", &format!("user = 'secret'\n{auth}\n{privacy}"));
}

#[test]
fn version_3_with_the_first_protocols() {
    let auth = "auth = { protocol = 'md5', password = 'authpassword' }";
    let privacy = "privacy = { protocol = 'des', password = 'privpassword' }";
    polls("version_3_with_the_first_protocols", &format!("user = 'old'\n{auth}\n{privacy}"));
}

#[test]
fn what_is_wrong_is_said() {
    let Some(d) = start("what_is_wrong_is_said") else { return };
    let name = [oid("1.3.6.1.2.1.1.1.0").unwrap()];
    let why = |access: &str| {
        let text = format!("address = '{}'\n{access}", d.address);
        let mut c = Client::new(toml::from_str(&text).unwrap(), Duration::from_secs(1), 2);
        let e = c.get(&name).unwrap_err().to_string();
        assert!(e.contains(&d.address) && !e.contains('\n'), "{e}");
        e
    };
    let community = why("community = 'wrong'");
    assert!(
        community.contains("does not answer") && community.contains("the community"),
        "{community}"
    );
    let password =
        why("user = 'signer'\nauth = { protocol = 'sha256', password = 'wrongpassword' }");
    assert!(!password.contains("does not answer"), "the agent reports it: {password}");
    let user = why("user = 'nobody'\nauth = { protocol = 'sha256', password = 'authpassword' }");
    assert!(!user.contains("does not answer"), "the agent reports it: {user}");
}

/// net-snmp's own client reads the same.
#[test]
fn as_snmpget_reads_it() {
    let Some(d) = start("as_snmpget_reads_it") else { return };
    if !there("snmpget") {
        eprintln!("SKIPPED: as_snmpget_reads_it needs snmpget (package snmp)");
        return;
    }
    let mut c = client(&format!("address = '{}'\ncommunity = 'counted'", d.address));
    // Description, object, interfaces, the loopback's name and type.
    for object in [
        "1.3.6.1.2.1.1.1.0",
        "1.3.6.1.2.1.1.2.0",
        "1.3.6.1.2.1.2.1.0",
        "1.3.6.1.2.1.2.2.1.2.1",
        "1.3.6.1.2.1.2.2.1.3.1",
    ] {
        let theirs = Command::new("snmpget")
            .env("MIBS", "")
            .args(["-v2c", "-ccounted", "-Oqvn", "-t5", &d.address, object])
            .output()
            .unwrap();
        let theirs = String::from_utf8(theirs.stdout).unwrap();
        let theirs = theirs.trim().trim_matches('"').trim_start_matches('.');
        let ours = c.get(&[oid(object).unwrap()]).unwrap().remove(0).unwrap();
        let ours = match &ours {
            weir_measure::snmp::Value::Oid(o) => o.clone(),
            v => v.text().or_else(|| v.number().map(|n| n.to_string())).unwrap(),
        };
        assert_eq!(ours, theirs, "{object}");
    }
}
