//! Slow-path programs with options at a network's nodes, beside the virtual routers that they are not: the same hosts, and ping.

use super::{Lab, hosts, sh};

const ROUTER: &str = "[[network]]\nname = 'red'\n[[network.node]]\nname = 'r'\nhost = 'here'\nports = ['lan1', 'lan2']\n\
     [network.node.program]\nname = 'router'\n\
     [[network.node.program.interface]]\nport = 'lan1'\nmac = '02:00:00:00:01:01'\naddresses = ['10.1.0.1/24']\n\
     [[network.node.program.interface]]\nport = 2\nmac = '02:00:00:00:01:02'\naddresses = ['10.2.0.1/24']\n";

/// By name or by number ports are the node's; a lab that says the same changes nothing, one that says other options changes these.
#[test]
fn a_node_has_a_program_with_options() {
    let Some(lab) = Lab::new("a_node_has_a_program_with_options", 'p') else { return };
    let d = lab.node(&[("lan1", 'x'), ("lan2", 'y')]);
    let s = hosts(&[("here", &d)]);
    s.apply(ROUTER);
    lab.reaches();
    assert!(s.apply(ROUTER).contains("nothing differs"));

    // What can't be is told with its place, and nothing is touched.
    let wrong = |what: &str, by: &str| {
        let path = s.lab(&ROUTER.replace(what, by));
        s.refused(&["apply", path.to_str().unwrap()], 2)
    };
    let told = wrong("port = 2", "port = 'lan3'");
    assert!(told.contains("no port 'lan3'") && told.contains("lab.toml:"), "{told}");
    let told = wrong("addresses = ['10.2", "adresses = ['10.2");
    assert!(told.contains("did you mean 'addresses'?"), "{told}");
    lab.reaches();

    // Another address: the old one is nobody's any more.
    s.apply(&ROUTER.replace("10.2.0.1/24", "10.2.0.9/24"));
    let n = &lab.name;
    sh(&format!("ip -n {n}y route replace default via 10.2.0.9"));
    lab.reaches();
    s.ask(&["net", "delete", "red"]);
    d.stop();
}
