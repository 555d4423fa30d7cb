//! `[vdp.openflow]` and `[[vdp.queue]]`: what is read, what is refused and how that is said, what a
//! reload may change.

use super::diff::{Step, diff};
use super::openflow::{FailMode, Spill};
use super::plan::{Plan, VdpPlan};
use super::{apply, read};
use std::path::Path;
use weir_openflow::channel::Versions;
use weir_openflow::model::Version;

const VDP: &str = "[[port]]\nname = 'a'\ndevice = 'null'\n\
                   [[vdp]]\nvid = 258\nports = ['a']\n";

fn load_in(dir: &Path, text: &str) -> Result<Plan, String> {
    let path = dir.join("t.toml");
    std::fs::write(&path, text).unwrap();
    let plan = read::load(&path).map_err(|e| e.to_string());
    let tried = plan.and_then(|p| apply::rehearse(&p).map(|()| p).map_err(|e| e.to_string()));
    tried.map_err(|e| e.replace(&format!("{}/", dir.display()), ""))
}

fn load(text: &str) -> Result<Plan, String> {
    load_in(tempfile::tempdir().unwrap().path(), &format!("{VDP}{text}"))
}

fn vdp(text: &str) -> VdpPlan {
    load(text).unwrap_or_else(|e| panic!("{e}\n{text}")).vdps[&258].clone()
}

#[test]
fn what_is_left_out_has_the_values_of_the_guide() {
    let v = vdp("[vdp.openflow]\n");
    let o = v.openflow.unwrap();
    assert_eq!(o.nature.datapath_id, 0x0277_6569_0102);
    assert_eq!((o.nature.tables, o.nature.buffers, o.nature.miss_send_len), (254, 256, 128));
    assert_eq!((o.nature.fail_mode, o.nature.spill), (FailMode::Secure, Spill::Refuse));
    let l = o.nature.limits;
    assert_eq!((l.flows, l.groups, l.meters), (1_048_576, 65_536, 4096));
    assert_eq!(o.connections.versions, Versions::ALL);
    assert_eq!(
        (o.connections.echo_interval.as_secs(), o.connections.backoff_max.as_secs()),
        (5, 8)
    );
    assert!(o.controllers.is_empty() && o.listen.is_empty() && o.tls.is_none());
    // NORMAL needs somebody who does it, but what no flow takes is not for it.
    assert_eq!(v.program.unwrap().name(), "learning");
    assert_eq!(v.default, [weir_dataplane::Action::Drop]);
}

#[test]
fn every_key_is_read() {
    let v = vdp("program = 'sink'\n[vdp.openflow]\ndatapath_id = '00:00:00:00:00:00:00:1f'\n\
                 versions = ['1.3']\n\
                 controllers = ['tcp:127.0.0.1', 'tcp:[::1]:99']\nlisten = ['ptcp:6654']\n\
                 fail_mode = 'standalone'\ntables = 3\nspill = 'slow-path'\nmiss_send_len = 64\n\
                 buffers = 0\necho_interval_s = 0\nbackoff_max_s = 60\n\
                 limits = { messages_per_s = 1, flow_mods_per_s = 2, packet_ins_per_s = 3, \
                 queue_bytes = 65536, connections = 4, flows = 5, groups = 0, meters = 6 }\n\
                 [[vdp.queue]]\nport = 'a'\nid = 7\nmin_bps = 1\nmax_bps = 2\n");
    let o = v.openflow.unwrap();
    assert_eq!((o.nature.datapath_id, o.nature.tables), (0x1f, 3));
    assert_eq!(o.connections.versions, Versions::only(Version::V13));
    let shown: Vec<String> = o.controllers.iter().map(ToString::to_string).collect();
    assert_eq!(shown, ["tcp:127.0.0.1:6653", "tcp:[::1]:99"]);
    assert_eq!(o.listen[0].to_string(), "ptcp:6654:127.0.0.1");
    assert_eq!((o.nature.fail_mode, o.nature.spill), (FailMode::Standalone, Spill::SlowPath));
    let l = o.nature.limits;
    assert_eq!((o.nature.buffers, l.packet_ins), (0, Some(3)));
    assert_eq!((l.flows, l.groups, l.meters), (5, 0, 6));
    let c = o.connections;
    assert_eq!((c.messages_per_s, c.flow_mods_per_s, c.connections), (Some(1), Some(2), 4));
    assert!(c.echo_interval.is_zero());
    assert_eq!(v.queues[&("a".to_owned(), 7)].max_bps, Some(2));
    assert_eq!(v.program.unwrap().name(), "sink");
    for id in ["31", "'0x1f'", "'000000000000001F'"] {
        let o = vdp(&format!("openflow = {{ datapath_id = {id} }}")).openflow.unwrap();
        assert_eq!(o.nature.datapath_id, 0x1f);
    }
}

#[test]
fn what_is_wrong_is_said_with_its_place_and_how_to_mend_it() {
    let cases: &[(&str, &[&str])] = &[
        ("controler = []", &["t.toml:8:1: unknown key 'controler'", "'controllers'"]),
        ("limits = { flowmods_per_s = 1 }", &["unknown key 'flowmods_per_s'", "'flow_mods_per_s'"]),
        ("datapath_id = 'abc'", &["t.toml:8:15: datapath_id 'abc': 16 hexadecimal digits"]),
        ("datapath_id = '0x10000000000000000'", &["16 hexadecimal digits"]),
        ("datapath_id = -1", &["t.toml:8:15"]),
        ("versions = ['1.4']", &["t.toml:8:13: version '1.4'", "1.0, 1.3"]),
        ("versions = []", &["t.toml:8:12: versions = []"]),
        ("controllers = ['tcp:a:b']", &["t.toml:8:16: controller 'b' is not a TCP port"]),
        ("controllers = ['tcp:a', 'tcp:a:6653']", &["t.toml:8:25: tcp:a:6653 is there already"]),
        ("controllers = ['ssl:a']", &["t.toml:8:16: 'ssl:a' needs an identity: tls = {"]),
        ("listen = ['pssl:']", &["t.toml:8:11: 'pssl:' needs an identity"]),
        ("listen = ['ptcp:1:0.0.0.0']", &["t.toml:8:11: ptcp:1:0.0.0.0", "insecure = true"]),
        ("listen = ['ptcp:1', 'ptcp:1:127.0.0.1']", &["127.0.0.1:1 is there already"]),
        ("fail_mode = 'open'", &["t.toml:8:13: fail_mode 'open'", "secure, standalone"]),
        ("tables = 255", &["t.toml:8:10: tables = 255: 1 to 254"]),
        ("tables = 0", &["1 to 254"]),
        ("spill = 'slow'", &["did you mean 'slow-path'?"]),
        ("buffers = 4097", &["0 to 4096"]),
        ("limits = { messages_per_s = 0 }", &["messages_per_s = 0: 1 to"]),
        ("limits = { flows = 0 }", &["t.toml:8:20: flows = 0: 1 to 268435456"]),
        ("limits = { groups = 268435457 }", &["groups = 268435457: 0 to 268435456"]),
        ("limits = { meters = -1 }", &["t.toml:8:21"]),
        ("limits = { queue_bytes = 9 }", &["queue_bytes = 9: 65536 to"]),
        ("tls = { certificate = 'c', key = 'k' }", &["missing field `ca`"]),
        ("tls = { certificate = 'c', key = 'k', ca = 'x' }", &["t.toml:8:23: certificate c: No"]),
        ("[[vdp.queue]]\nport = 'b'\nid = 1", &["t.toml:9:8: this VDP has no port 'b'"]),
        ("[[vdp.queue]]\nport = 'a'\nid = 0", &["id = 0: 1 to"]),
        ("[[vdp.queue]]\nport = 'a'\nid = 1\nmin_bps = 2\nmax_bps = 1", &["below min_bps"]),
        (
            "[[vdp.queue]]\nport = 'a'\nid = 1\n[[vdp.queue]]\nport = 1\nid = 1",
            &["t.toml:11:1: queue 1 of port 'a' is there already"],
        ),
    ];
    for (text, expected) in cases {
        let text = format!("[vdp.openflow]\n{text}\n");
        let said = load(&text).err().unwrap_or_else(|| panic!("taken: {text}"));
        for e in *expected {
            assert!(said.contains(e), "{text}\n  said:     {said}\n  expected: {e}");
        }
        assert!(!said.contains('\n'), "more than one line: {said}");
    }
    let said = load("default = 'drop'\n[vdp.openflow]\n").unwrap_err();
    assert!(said.contains("t.toml:7:11: 'default' in an OpenFlow VDP"), "{said}");
    let said = load("[[vdp]]\nvid = 0\nopenflow = {}\n").unwrap_err();
    assert!(said.contains("'openflow' in VDP 0"), "{said}");
    assert!(load("[vdp.openflow]\nlisten = ['ptcp:1:0.0.0.0']\ninsecure = true").is_ok());
}

/// An authority and a certificate of its: PEM texts of authority, certificate and key.
fn pki() -> [String; 3] {
    let mut ca = rcgen::CertificateParams::new([]).unwrap();
    ca.is_ca = rcgen::IsCa::Ca(rcgen::BasicConstraints::Unconstrained);
    let ca_key = rcgen::KeyPair::generate().unwrap();
    let authority = ca.self_signed(&ca_key).unwrap().pem();
    let issuer = rcgen::Issuer::new(ca, ca_key);
    let key = rcgen::KeyPair::generate().unwrap();
    let own = rcgen::CertificateParams::new(["switch".to_owned()]).unwrap();
    let own = own.signed_by(&key, &issuer).unwrap().pem();
    [authority, own, key.serialize_pem()]
}

#[test]
fn an_identity_is_tried_when_it_is_read_and_its_key_is_never_shown() {
    let dir = tempfile::tempdir().unwrap();
    let [ca, own, key] = pki();
    let [_, _, other] = pki();
    let text = format!(
        "{VDP}[vdp.openflow]\nlisten = ['pssl:']\n\
         tls = {{ certificate = 'c', key = 'k', ca = 'a', peer_name = '*' }}\n"
    );
    let with = |c: &str, k: &str, a: &str| {
        for (name, pem) in [("c", c), ("k", k), ("a", a)] {
            std::fs::write(dir.path().join(name), pem).unwrap();
        }
        load_in(dir.path(), &text)
    };
    let first = with(&own, &key, &ca).unwrap();
    let shown = format!("{first:?}");
    assert!(!shown.contains("PRIVATE") && shown.contains("Identity"), "{shown}");
    // The same files again are no change; a renewed certificate is one.
    let again = with(&own, &key, &ca).unwrap();
    assert!(diff(&first, &again).unwrap().is_empty());
    let [ca2, own2, key2] = pki();
    let renewed = with(&own2, &key2, &ca2).unwrap();
    assert!(matches!(diff(&first, &renewed).unwrap()[..], [Step::SetOpenflow(..)]));
    for (c, k, a, said) in [
        (&*own, &*other, &*ca, "key k: the key does not belong to the certificate"),
        (&*own, "nothing", &*ca, "key k: no private key in PEM in it"),
        ("nothing", &*key, &*ca, "certificate c: no certificate in PEM in it"),
        (&*own, &*key, "", "ca a: no certificate in PEM in it"),
    ] {
        let e = with(c, k, a).unwrap_err();
        assert!(e.starts_with("t.toml:9:") && e.contains(said), "{e}");
    }
}

#[test]
fn a_reload_changes_with_whom_a_switch_speaks_but_not_what_it_is() {
    let plan = |text: &str| load(text).unwrap();
    let none = plan("");
    let one = plan("[vdp.openflow]\ncontrollers = ['tcp:a']\n");
    let two = plan("[vdp.openflow]\ncontrollers = ['tcp:b']\nlisten = ['ptcp:1']\n");
    for (from, to) in [(&none, &one), (&one, &two), (&two, &one)] {
        let steps = diff(from, to).unwrap();
        assert!(steps.iter().any(|s| matches!(s, Step::SetOpenflow(..))), "{steps:?}");
        let told: Vec<String> = steps.iter().map(Step::told).collect();
        let said = "OpenFlow switch 0000027765690102, 1 controller, ";
        assert!(told.iter().any(|t| t.contains(said)), "{told:?}");
    }
    let other = plan("[vdp.openflow]\ntables = 2\n");
    let fewer = plan("[vdp.openflow]\nlimits = { groups = 2 }\n");
    for to in [&none, &other, &fewer] {
        let e = diff(&one, to).unwrap_err().to_string();
        assert!(e.contains("what it is to controllers can't be changed"), "{e}");
    }
}

#[test]
fn a_vdp_has_so_many_controllers_and_listeners() {
    let many = |key: &str, n: usize| {
        let of = |i| match key {
            "listen" => format!("'ptcp:{}',", 7000 + i),
            _ => format!("'tcp:192.0.2.1:{}',", 7000 + i),
        };
        load(&format!("[vdp.openflow]\n{key} = [{}]\n", (0..n).map(of).collect::<String>()))
    };
    for (key, what) in [("controllers", "controllers"), ("listen", "listeners")] {
        assert!(many(key, 16).is_ok());
        let e = many(key, 2000).unwrap_err();
        assert!(e.ends_with(&format!("2000 {what}: a VDP has 16 at most")), "{e}");
        assert!(e.starts_with("t.toml:8:"), "{e}");
    }
}
