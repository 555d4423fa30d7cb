//! What can't be is refused whole: what, where, and how to mend it.

mod world;

use weir_supervisor::admission::admit;
use weir_supervisor::model::router::Router;
use weir_supervisor::model::{Kind, Lab, check};
use weir_supervisor::store::Places;
use world::{Vlans, World, lab};

fn refused(text: &str) -> (String, String) {
    let lab: Lab = toml::from_str(text).unwrap();
    let r = check(&lab, &Vlans).expect_err(text);
    assert!(!r.text.contains('\n'), "{}", r.text);
    (r.at.to_string(), r.text)
}

#[test]
fn the_lab_of_the_tests_can_be() {
    check(&lab(), &Vlans).unwrap();
}

const HOSTS: &str = "[[host]]\nname = 'east'\napi = 'unix:e'\n[[host]]\nname = 'west'\napi = 'unix:w'\n\
                     [[link]]\nbetween = ['east:trunk', 'west:trunk']\n";

#[test]
fn every_mistake_is_named_with_its_place_and_its_cure() {
    for (text, at, what) in [
        (
            "[[host]]\nname = '1'\napi = 'unix:e'\n",
            "host[0].name",
            "host name '1': 1 to 32 letters",
        ),
        (
            &format!(
                "{HOSTS}[[network]]\nname = 'n'\ncontrollers = ['ssl:c']\n[[network.node]]\nname = 's'\nhost = 'east'\n"
            ),
            "network[0].node[0].openflow",
            "'ssl:c': node 's' has no certificate to show there",
        ),
        (
            &format!(
                "{HOSTS}[[network]]\nname = 'n'\ncontrollers = ['ssl:c']\n\
                 tls = {{ certificate = '/c.pem', key = '../k', ca = '/a' }}\n[[network.node]]\nname = 's'\nhost = 'east'\n"
            ),
            "network[0].tls.key",
            "key '../k' of network 'n': a file on the host that the switch lives on; say its whole path",
        ),
        (
            &format!(
                "{HOSTS}[[network]]\nname = 'n'\n[[network.node]]\nname = 's'\nhost = 'east'\n\
                 openflow = {{ listen = ['pssl:0'], tls = {{ certificate = 'c.pem', key = '/k', ca = '/a' }} }}\n"
            ),
            "network[0].node[0].openflow.tls.certificate",
            "certificate 'c.pem' of node 's'",
        ),
        (
            &format!(
                "{HOSTS}[[network]]\nname = 'n'\ncontrollers = ['tcp:127.0.0.1:6653']\n\
                 [[network.node]]\nname = 's'\nhost = 'east'\nopenflow = {{ datapath_id = '00:00:00:00:00:00:00:0A' }}\n\
                 [[network]]\nname = 'm'\n[[network.node]]\nname = 't'\nhost = 'west'\n\
                 openflow = {{ datapath_id = '0xa', controllers = ['tcp:127.0.0.1'] }}\n"
            ),
            "network[1].node[0].openflow",
            "node 't' has the datapath id 000000000000000a, as node 's' of network 'n' has",
        ),
        ("[[host]]\nname = 'h'\napi = 'x'\n", "host[0].api", "api 'x': \"HOST:PORT\" by TLS"),
        ("[[host]]\nname = 'h'\napi = 'x:1'\n", "host[0].api", "say who asks in [tls]"),
        (
            &format!("{HOSTS}[[host]]\nname = 'north'\napi = 'unix:w'\n"),
            "host[2].api",
            "api 'unix:w' is where host 'west' is reached: each host is a data plane",
        ),
        (
            &format!("{HOSTS}[[host]]\nname = 'west'\napi = 'unix:z'\n"),
            "host[2].name",
            "is there already",
        ),
        (
            &format!("{HOSTS}[[link]]\nbetween = ['east:a', 'wets:b']\n"),
            "link[1].between[1]",
            "no host 'wets': did you mean 'west'?",
        ),
        (
            &format!("{HOSTS}[[link]]\nbetween = ['east:a', 'east:b']\n"),
            "link[1].between",
            "to itself",
        ),
        (
            &format!("{HOSTS}[[link]]\nbetween = ['east:trunk', 'west:b']\n"),
            "link[1].between[0]",
            "ends another link already",
        ),
        (
            &format!("{HOSTS}[[link]]\nbetween = ['east', 'west:b']\n"),
            "link[1].between",
            "HOST:PORT",
        ),
        (&format!("{HOSTS}[[network]]\nname = 'n'\nnode = []\n"), "network[0].name", "has no node"),
        (&net("name = 'a.b'\nhost = 'east'"), "network[0].node[0].name", "node name 'a.b'"),
        (&net("name = 'a'\nhost = 'eats'"), "network[0].node[0].host", "did you mean 'east'?"),
        (
            &net("name = 'a'\nhost = 'east'\n[network.node.router]\nmac = '01:00:00:00:00:01'"),
            "network[0].node[0].router.mac",
            "of a single interface",
        ),
        (
            &net("name = 'a'\nhost = 'east'\nports = ['p', 'p']"),
            "network[0].node[0].ports[1]",
            "name it once",
        ),
        (
            &net("name = 'a'\nhost = 'east'\ncpu_permille = 1001"),
            "network[0].node[0].cpu_permille",
            "at most 1000",
        ),
        (
            &net("name = 'a'\nhost = 'east'\ntcam_entries = 4\ntcam_limit_entries = 3"),
            "network[0].node[0].tcam_limit_entries",
            "below its own tcam_entries, 4",
        ),
        (
            &net("name = 'a'\nhost = 'east'\nopenflow = {}"),
            "network[0].node[0].openflow",
            "has no controller",
        ),
        (
            &net("name = 'a'\nhost = 'east'\ndefault = 'drop'\nopenflow = { listen = ['ptcp:1'] }"),
            "network[0].node[0].default",
            "in an OpenFlow node",
        ),
        (
            &net("name = 'a'\nhost = 'east'\nports = ['p1']\nshare = [{ port = 'p2' }]"),
            "network[0].node[0].share[0].port",
            "has no port 'p2': did you mean 'p1'?",
        ),
        (
            &net(
                "name = 'a'\nhost = 'east'\nports = ['p']\nshare = [{ port = 'p', guarantee_bps = 2, ceiling_bps = 1 }]",
            ),
            "network[0].node[0].share[0].ceiling_bps",
            "below guarantee_bps",
        ),
        (
            &two("[[network.link]]\nbetween = ['a', 'c']"),
            "network[0].link[0].between",
            "no node 'c': did you mean 'a'?",
        ),
        (&two("[[network.link]]\nbetween = ['a', 'a']"), "network[0].link[0].between", "to itself"),
        (&two(""), "network[0].node[1].name", "no link leads from node 'b'"),
        (
            &two("[[network.link]]\nbetween = ['a', 'b']\n[[network.link]]\nbetween = ['b', 'a']"),
            "network[0].link[1].between",
            "has another end already",
        ),
        (
            &two("")
                .replace("west'\nnode", "east'\nnode")
                .replace("host = 'west'", "host = 'east'"),
            "network[0].node[1].name",
            "no link leads",
        ),
        (
            &(net("name = 'a'\nhost = 'east'\nports = ['p']")
                + "[[network]]\nname = 'm'\n[[network.node]]\nname = 'a'\nhost = 'east'\nports = ['p']\n"),
            "network[1].name",
            "a frame could be n.a's and m.a's, too",
        ),
        (
            &net("name = 'a'\nhost = 'east'")
                .replace("name = 'n'", "name = 'n'\nflow_space = ['mauve']"),
            "network[0].flow_space[0]",
            "flow space 'mauve'",
        ),
        (
            &net("name = 'a'\nhost = 'east'")
                .replace("name = 'n'", "name = 'n'\nisolation = 'strong'"),
            "network[0].node[0].name",
            "give node 'a' tcam_entries",
        ),
    ] {
        let (found, told) = refused(text);
        assert_eq!(found, at, "{text}\n{told}");
        assert!(told.contains(what), "{text}\n{told}");
    }
}

fn net(node: &str) -> String {
    format!("{HOSTS}[[network]]\nname = 'n'\n[[network.node]]\n{node}\n")
}

fn two(links: &str) -> String {
    let nodes = "[[network.node]]\nname = 'a'\nhost = 'east'\n[[network.node]]\nname = 'b'\nhost = 'west'\n";
    format!("{HOSTS}[[network]]\nname = 'n'\n{nodes}{links}\n")
}

#[test]
fn a_circle_of_switches_that_flood_is_refused_and_one_under_control_is_not() {
    let hosts = "[[host]]\nname = 'a'\napi = 'unix:a'\n[[host]]\nname = 'b'\napi = 'unix:b'\n\
                 [[host]]\nname = 'c'\napi = 'unix:c'\n[[link]]\nbetween = ['a:b', 'b:a']\n\
                 [[link]]\nbetween = ['b:c', 'c:b']\n[[link]]\nbetween = ['c:a', 'a:c']\n";
    let nodes = ["a", "b", "c"].map(|n| format!("[[network.node]]\nname = '{n}'\nhost = '{n}'\n"));
    let links = [("a", "b"), ("b", "c"), ("c", "a")]
        .map(|(x, y)| format!("[[network.link]]\nbetween = ['{x}', '{y}']\n"));
    let all = |controllers: &str| {
        let (nodes, links) = (nodes.concat(), links.concat());
        format!("{hosts}[[network]]\nname = 'n'\n{controllers}\n{nodes}{links}")
    };
    let (at, text) = refused(&all(""));
    assert_eq!(at, "network[0].link[2].between");
    assert!(text.contains("closes a circle"), "{text}");
    let lab: Lab = toml::from_str(&all("controllers = ['tcp:127.0.0.1:1']")).unwrap();
    check(&lab, &Vlans).unwrap();
}

#[test]
fn what_a_host_does_not_have_is_refused_before_anything_is_touched() {
    let ask = |change: &dyn Fn(&mut Lab, &mut World)| {
        let (mut lab, mut world) = (lab(), World::of(&lab()));
        change(&mut lab, &mut world);
        admit(&lab, &world.observed(), &Places::new(), 7).map(|_| ()).map_err(|r| {
            assert!(!r.text.contains('\n'));
            format!("{}: {}", r.at, r.text)
        })
    };
    assert_eq!(ask(&|_, _| {}), Ok(()));
    let no = |change: &dyn Fn(&mut Lab, &mut World), what: &str| {
        let told = ask(change).unwrap_err();
        assert!(told.contains(what), "{told}");
    };
    no(
        &|l, _| l.network[0].node[0].ports[0] = "e9".into(),
        "network[0].node[0].ports[0]: host 'east' has no port 'e9'",
    );
    no(&|_, w| drop(w.hosts.remove("west")), "host 'west' was not asked");
    no(&|_, w| w.host("east").mapping_slices = 1, "TCAM entries for mapping, 0 are left");
    no(&|_, w| w.host("east").action_slices = 0, "TCAM entries of its own");
    no(&|l, _| l.network[0].node[0].cpu_permille = 1000, "permille of its worker");
    let pinned = |l: &mut Lab, cpus: &str| {
        let v = &mut l.network[0].node[0];
        v.kind = Kind::Router;
        v.router = Some(Router { cpus: Some(cpus.into()), ..Router::default() });
    };
    no(
        &|l, _| pinned(l, "1-2"),
        "network[0].node[0].router.cpus: host 'east': router red.s1 wants processors 1-2, there are 0-1",
    );
    assert_eq!(ask(&|l, _| pinned(l, "0-1")), Ok(()));
    no(&|l, _| l.host[0].port[0].capacity_bps = 10, "are promised to red.s1");
    no(&|_, w| w.host("east").put(9, "red.s1", None), "called 'red.s1' that is not ours");
}
