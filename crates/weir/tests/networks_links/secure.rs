//! A tenant whose controller is reached by TLS, with the switch's certificate from files of its host.

use super::super::{Supervisor, node};
use crate::certificates::Authority;
use crate::openflow_rig::by_tls;
use std::net::TcpListener;

#[test]
fn a_tenants_controller_by_tls() {
    let (nodes, tenants) = (Authority::new(), Authority::new());
    let (d, api) = node(&["e1"], &nodes);
    let s = Supervisor::new(&nodes, &[("east", &api)]);
    let l = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = l.local_addr().unwrap().port();
    // The host's files: the supervisor never opens them.
    let there = tempfile::tempdir().unwrap();
    tenants.signs("switch.example").write(&tenants, there.path(), "t");
    let file = |name: &str| there.path().join(name).display().to_string();
    let network = |key: &str| {
        format!(
            "[[network]]\nname = 'red'\ncontrollers = ['ssl:localhost:{port}']\n\
             tls = {{ certificate = '{}', key = '{key}', ca = '{}' }}\n\
             [[network.node]]\nname = 's1'\nhost = 'east'\nports = ['e1']\n",
            file("t.pem"),
            file("t.ca.pem")
        )
    };
    let lab = |key: &str| super::super::text(&s.lab(&network(key)));
    let told = s.refused(&["apply", &lab("t.key")], 2);
    assert!(told.contains("lab.toml:") && told.contains("say its whole path there"), "{told}");
    let told = s.refused(&["apply", &lab(&file("none.key"))], 2);
    assert!(told.contains("none.key") && told.contains("all is as before"), "{told}");
    assert_eq!(super::super::names(&d), [""; 0]);
    s.apply(&network(&file("t.key")));
    assert!(s.apply(&network(&file("t.key"))).contains("nothing differs"));
    // Who has no certificate of the tenant's authority is none of his.
    let stranger = nodes.signs("localhost");
    assert!(by_tls::server(&l, nodes.roots(), stranger.der()).is_err());
    let mut red = by_tls::server(&l, tenants.roots(), tenants.signs("localhost").der()).unwrap();
    assert_eq!(red.barrier().unwrap(), []);
    s.ask(&["net", "delete", "red"]);
    assert_eq!(super::super::names(&d), [""; 0]);
    d.stop();
}
