//! Links of virtual networks: inside hosts, by tunnels, over several physical links, with further ways.

mod world;

use proptest::prelude::*;
use std::collections::{BTreeMap, BTreeSet};
use weir_supervisor::admission::admit;
use weir_supervisor::model::{Lab, check};
use weir_supervisor::plan::{Step, plan};
use weir_supervisor::store::Places;
use weir_supervisor::wires::{Before, Laid, Links, lay, steps};
use world::{Vlans, World};

const STORE: u64 = 7;

/// Hosts `a`, `b`… joined in pairs for tunnels, each pair with what else its link says.
fn hosts(names: &str, links: &[(&str, &str)]) -> String {
    let mut text = String::new();
    for (n, name) in names.split(' ').zip(1..).map(|(name, n)| (n, name)) {
        text +=
            &format!("[[host]]\nname = '{name}'\napi = 'unix:{name}'\ntunnel = '127.0.0.{n}'\n");
    }
    for (between, rest) in links {
        let (x, y) = between.split_once('-').unwrap();
        text += &format!("[[link]]\nbetween = ['{x}', '{y}']\n{rest}\n");
    }
    text
}

/// A network of switches, one on each of these hosts, in a row; and what each link says besides.
fn row(name: &str, on: &str, rest: &str) -> String {
    let mut text = format!("[[network]]\nname = '{name}'\ncontrollers = ['tcp:127.0.0.1:6653']\n");
    let nodes: Vec<(String, &str)> =
        on.split(' ').zip(1..).map(|(host, n)| (format!("s{n}"), host)).collect();
    for (node, host) in &nodes {
        text += &format!("[[network.node]]\nname = '{node}'\nhost = '{host}'\n");
    }
    for two in nodes.windows(2) {
        text += &format!("[[network.link]]\nbetween = ['{}', '{}']\n{rest}\n", two[0].0, two[1].0);
    }
    text
}

/// A network of one switch on a host, with these ports, and what else its node says.
fn big(name: &str, vlan: usize, on: &str, ports: &str, rest: &str) -> String {
    let ports: Vec<String> = ports.split(' ').map(|p| format!("'{p}'")).collect();
    format!(
        "[[network]]\nname = '{name}'\nflow_space = ['dl_vlan={vlan}']\n\
         controllers = ['tcp:127.0.0.1:6653']\n[[network.node]]\nname = 'big'\nhost = '{on}'\n\
         ports = [{}]\n{rest}\n",
        ports.join(", ")
    )
}

fn read(text: &str) -> Lab {
    let lab: Lab = toml::from_str(text).unwrap();
    check(&lab, &Vlans).unwrap();
    lab
}

fn refused(text: &str) -> String {
    let lab: Lab = toml::from_str(text).unwrap();
    let told = match check(&lab, &Vlans) {
        Err(r) => r,
        Ok(()) => laid(&lab, &World::of(&lab), &Links::new()).unwrap_err(),
    };
    assert_eq!(told.text.lines().count(), 1);
    format!("{}: {}", told.at, told.text)
}

fn laid(
    lab: &Lab,
    world: &World,
    links: &Links,
) -> Result<Laid, weir_supervisor::refusal::Refusal> {
    lay(lab, &world.observed(), Before { places: &Places::new(), links }, STORE)
}

/// The way of each link, as hosts.
fn ways(l: &Laid) -> BTreeMap<&str, Vec<String>> {
    let shown = |p: &weir_supervisor::wires::LinkPlace| {
        p.ways.iter().map(|w| w.hosts.join(" ")).collect::<Vec<_>>()
    };
    l.links.iter().map(|(k, p)| (k.as_str(), shown(p))).collect()
}

#[test]
fn links_are_laid_inside_by_tunnel_and_by_relay() {
    let text = hosts("a b c", &[("a-b", "mtu = 1500"), ("b-c", "mtu = 1400")])
        + &row("red", "a a b c a", "");
    let lab = read(&text);
    let l = laid(&lab, &World::of(&lab), &Links::new()).unwrap();
    let all = ways(&l);
    assert_eq!(all["red/s2.s3"], ["a b"]);
    assert_eq!(all["red/s4.s5"], ["c b a"]);
    assert!(!all.contains_key("red/s1.s2"), "inside a host");
    // Every hop has an identifier of its own.
    let vnis: Vec<u32> =
        l.links.values().flat_map(|p| &p.ways).flat_map(|w| w.vnis.clone()).collect();
    assert_eq!((vnis.len(), vnis.iter().collect::<BTreeSet<_>>().len()), (4, 4));
    let port = |host: &str, name: &str| {
        let found = l.ports.iter().find(|p| p.host == host && p.name == name);
        found.unwrap_or_else(|| panic!("{host} {name}: {:?}", l.ports)).device.clone()
    };
    assert_eq!(port("a", "red.s1.s2"), "memory:red.s1.s2");
    assert_eq!(port("a", "red.s2.s1"), "memory:red.s1.s2");
    let [x, y] = l.links["red/s4.s5"].ways[0].vnis[..] else { panic!() };
    assert_eq!(
        port("c", "red.s4.s5"),
        format!("vxlan:{x},remote=127.0.0.2:4789,local=127.0.0.3:4789,mtu=1400")
    );
    assert_eq!(
        port("a", "red.s5.s4"),
        format!("vxlan:{y},remote=127.0.0.2:4789,local=127.0.0.1:4789,mtu=1400")
    );
    assert_eq!(
        port("b", &format!("_v{x}")),
        format!("vxlan:{x},remote=127.0.0.3:4789,local=127.0.0.2:4789,mtu=1400")
    );
    let [relay] = &l.relays[..] else { panic!("{:?}", l.relays) };
    assert_eq!((relay.host.as_str(), relay.vid), ("b", 65534));
    assert_eq!(relay.label.network, "red");
    let rule = format!("match = \"in_port=_v{x}\"\nactions = \"output:_v{y}\"");
    assert!(relay.toml.contains(&rule), "{}", relay.toml);
    // The nodes have the ends behind their own ports, with every frame.
    let (wanted, _) = admit(&lab, &World::of(&lab).observed(), &Places::new(), STORE).unwrap();
    let s2 = wanted.iter().find(|w| w.name == "red.s2").unwrap();
    assert!(s2.toml.contains("ports = [\"red.s2.s1\", \"red.s2.s3\"]"), "{}", s2.toml);
    assert!(s2.toml.contains("mapping = [\"in_port=red.s2.s1\", \"in_port=red.s2.s3\"]"));
}

#[test]
fn several_links_between_two_nodes_are_told_apart_and_long_names_are_cut() {
    let twice = "[[network.link]]\nbetween = ['s2', 's1']\nceiling_bps = 5\n";
    let text = hosts("a b", &[("a-b", "")]) + &row("red", "a b", "") + twice;
    let lab = read(&text);
    let l = laid(&lab, &World::of(&lab), &Links::new()).unwrap();
    let names: BTreeSet<&str> = l.ports.iter().map(|p| p.name.as_str()).collect();
    assert_eq!(names, ["red.s1.s2", "red.s1.s2.2", "red.s2.s1", "red.s2.s1.2"].into());
    let (wanted, _) = admit(&lab, &World::of(&lab).observed(), &Places::new(), STORE).unwrap();
    let share = "[[vdp.share]]\nport = \"red.s1.s2.2\"\nguarantee_bps = 0\nceiling_bps = 5\n";
    assert!(wanted[0].toml.contains(share), "{}", wanted[0].toml);
    let long = text.replace("red", "a-network-of-many-letters-xy");
    let lab = read(&long);
    let l = laid(&lab, &World::of(&lab), &Links::new()).unwrap();
    let names: BTreeSet<&str> = l.ports.iter().map(|p| p.name.as_str()).collect();
    assert_eq!(names.len(), 4);
    assert!(names.iter().all(|n| n.len() == 32 && n.starts_with("a-network-of-ma")), "{names:?}");
    assert!(l.ports.iter().all(|p| p.label.to_string().len() <= 128));
}

/// A square: two ways from a to d, and one across that is full.
const SQUARE: [(&str, &str); 5] = [
    ("a-b", "capacity_bps = 100"),
    ("b-d", "capacity_bps = 100"),
    ("a-c", "capacity_bps = 50"),
    ("c-d", "capacity_bps = 80\nmtu = 1400"),
    ("a-d", "capacity_bps = 9"),
];

#[test]
fn ways_have_room_and_backups_share_nothing() {
    let square = hosts("a b c d", &SQUARE);
    let shown = |rest: &str| {
        let lab = read(&(square.clone() + &row("red", "a d", rest)));
        let l = laid(&lab, &World::of(&lab), &Links::new()).unwrap();
        ways(&l)["red/s1.s2"].clone()
    };
    assert_eq!(shown(""), ["a d"]);
    assert_eq!(shown("guarantee_bps = 10"), ["a b d"]);
    assert_eq!(shown("guarantee_bps = 5\nbackups = 2"), ["a d", "a b d", "a c d"]);
    assert_eq!(shown("guarantee_bps = 10\nbackups = 1"), ["a b d", "a c d"]);
    let told = |rest: &str| refused(&(square.clone() + &row("red", "a d", rest)));
    let t = told("guarantee_bps = 101");
    assert!(
        t.starts_with("network[0].link[0].guarantee_bps: link red/s1.s2 from 'a' to 'd'"),
        "{t}"
    );
    assert!(t.contains("101 bit/s are promised to it, 100 are left"), "{t}");
    assert!(told("backups = 3").contains("3 of 4 ways found that share no physical link"));
    assert!(told("guarantee_bps = 10\nmtu = 1400\nbackups = 1").contains("1 of 2 ways found"));
    assert!(told("ceiling_bps = 3\nguarantee_bps = 5").contains("ceiling_bps: link s1-s2"));
    assert!(told("probe_ms = 2").contains("10 to 10000"));
    // What one has another has not.
    let two = row("red", "a d", "guarantee_bps = 60") + &row("blue", "a d", "guarantee_bps = 60");
    assert!(refused(&(square.clone() + &two)).contains("blue/s1.s2"));
    let no_way = hosts("a b c", &[("a-b", "")]) + &row("red", "a c", "");
    assert!(refused(&no_way).contains("no physical links lead there"), "{}", refused(&no_way));
    let narrow = hosts("a b", &[("a-b", "mtu = 1500")]);
    assert!(read(&(narrow.clone() + &row("red", "a b", "mtu = 1450"))).link[0].mtu.is_some());
    let t = refused(&(narrow + &row("red", "a b", "mtu = 1451")));
    assert!(t.contains("no way takes packets of 1501 bytes"), "{t}");
}

#[test]
fn a_switch_has_ports_on_several_hosts() {
    let square = hosts("a b c d", &SQUARE);
    let rest = "share = [{ port = 'd:e1', guarantee_bps = 3 }, { port = 'e2', ceiling_bps = 4 }]\n\
                fabric = { backups = 1, ceiling_bps = 9, probe_ms = 50 }";
    let lab = read(&(square.clone() + &big("red", 5, "a", "d:e1 a:e2 c:w1", rest)));
    let mut world = World::of(&lab);
    let l = laid(&lab, &world, &Links::new()).unwrap();
    assert_eq!(ways(&l)["red/big.d:e1"], ["a d", "a b d"]);
    assert_eq!(ways(&l)["red/big.c:w1"], ["a c", "a d c"]);
    // The switch has its ports in their order, those elsewhere as ends of tunnels that are its own.
    let (wanted, _) = admit(&lab, &world.observed(), &Places::new(), STORE).unwrap();
    let switch = &wanted[0].toml;
    for what in [
        "ports = [\"red.big.d.e1\", \"e2\", \"red.big.c.w1\"]",
        "mapping = [\"in_port=red.big.d.e1\", \"in_port=e2,dl_vlan=5\", \"in_port=red.big.c.w1\"]",
        "port = \"e2\"\nguarantee_bps = 0\nceiling_bps = 4\n",
        "port = \"red.big.d.e1\"\nguarantee_bps = 0\nceiling_bps = 9\n",
    ] {
        assert!(switch.contains(what), "{what}: {switch}");
    }
    assert!(!switch.contains("guarantee_bps = 3"), "{switch}");
    // At each port elsewhere a relay of the network's, which lets pass what is the network's.
    let far: Vec<_> = l.relays.iter().filter(|w| w.toml.contains("dl_vlan")).collect();
    assert_eq!(far.iter().map(|w| w.host.as_str()).collect::<Vec<_>>(), ["d", "c"]);
    let relay = &far[0].toml;
    assert_eq!(far[0].label.network, "red");
    for what in [
        "ports = [\"e1\", \"red.big.d.e1\"]",
        "mapping = [\"in_port=e1,dl_vlan=5\", \"in_port=red.big.d.e1\"]",
        "port = \"e1\"\nguarantee_bps = 3\n",
        "match = \"in_port=red.big.d.e1,dl_vlan=5\"\nactions = \"output:e1\"",
        "match = \"in_port=e1\"\nactions = \"output:red.big.d.e1\"",
    ] {
        assert!(relay.contains(what), "{what}: {relay}");
    }
    for (ports, rest, told) in [
        ("x:e1", "", "network[0].node[0].ports[0]: no host 'x'"),
        ("e1 d:", "", "network[0].node[0].ports[1]: port 'd:'"),
        ("e1 a:e1", "", "ports[1]: port 'a:e1' is node 'big' port already"),
        ("e1 d:e9", "", "ports[1]: host 'd' has no port 'e9'"),
        ("e1", "fabric = { mtu = 1500 }", "fabric: node 'big' has no port on another host"),
        ("d:e1", "fabric = { backups = 8 }", "fabric.backups: fabric of node 'big': at most 7"),
        (
            "d:e1",
            "fabric = { backups = 3 }",
            "fabric.backups: link red/big.d:e1 from 'a' to 'd': 3 of",
        ),
        ("d:e1", "fabric = { guarantee_bps = 101 }", "fabric.guarantee_bps: link red/big.d:e1"),
        ("d:e1", "share = [{ port = 'd:e2' }]", "node 'big' has no port 'd:e2'"),
    ] {
        let text = refused(&(square.clone() + &big("red", 5, "a", ports, rest)));
        assert!(text.contains(told), "{told}: {text}");
    }
    // Nobody else's frames, and room for them at the other host.
    let two = big("red", 5, "a", "d:e1", "") + &big("blue", 5, "d", "e1", "");
    let text = refused(&(square.clone() + &two));
    assert!(
        text.contains("port 'e1' of host 'd': a frame could be red.big's and blue.big's"),
        "{text}"
    );
    world.host("d").mapping_slices = 0;
    let text = admit(&lab, &world.observed(), &Places::new(), STORE).unwrap_err().to_string();
    assert!(text.contains("host 'd': the relay of red.big at port 'e1' needs"), "{text}");
    let promised =
        square.replacen("'unix:d'", "'unix:d'\nport = [{ name = 'e1', capacity_bps = 2 }]", 1);
    let lab = read(
        &(promised + &big("red", 5, "a", "d:e1", "share = [{ port = 'd:e1', guarantee_bps = 3 }]")),
    );
    let text =
        admit(&lab, &World::of(&lab).observed(), &Places::new(), STORE).unwrap_err().to_string();
    assert!(
        text.contains("port 'e1' of host 'd': 3 bit/s are promised to red.big, 2 are left"),
        "{text}"
    );
}

#[test]
fn what_can_not_be_is_refused_with_its_place() {
    let good = hosts("a b", &[("a-b", "")]) + &row("red", "a b", "");
    for (from, to, told) in [
        ("tunnel = '127.0.0.2'\n", "", "link[0].between: tunnels go over this link, and host 'b'"),
        ("'127.0.0.2'", "'0.0.0.0'", "host[1].tunnel: tunnel '0.0.0.0'"),
        ("'127.0.0.2'", "'127.0.0.1'", "host 'a' ends its own"),
        ("'127.0.0.2'", "'::1'", "all tunnels end at IPv4"),
        ("['a', 'b']", "['a:p', 'b']", "one end with a port and one without"),
        ("['a', 'b']", "['a:p', 'b:p']\nmtu = 1500", "capacity_bps or mtu of a cable"),
        ("['a', 'b']", "['a', 'b']\nmtu = 100", "link[0].mtu: mtu of a link"),
        (
            "['a', 'b']\n",
            "['a', 'b']\n[[link]]\nbetween = ['b', 'a']\n",
            "joined for tunnels already",
        ),
        ("host = 'b'", "host = 'a'\n", ""),
    ] {
        let bad = good.replacen(from, to, 1);
        assert_ne!(bad, good);
        if told.is_empty() {
            read(&bad);
        } else {
            assert!(refused(&bad).contains(told), "{}", refused(&bad));
        }
    }
    // Somebody else's port of that name.
    let lab = read(&good);
    let mut world = World::of(&lab);
    world.host("a").ports.push("red.s1.s2".to_owned());
    let told = laid(&lab, &world, &Links::new()).unwrap_err().text;
    assert!(told.contains("a port called 'red.s1.s2' that is not ours"), "{told}");
}

/// All steps to a lab.
fn all_steps(
    lab: &Lab,
    world: &World,
    places: &Places,
    links: &Links,
) -> (Vec<Step>, Places, Links) {
    let observed = world.observed();
    let l = lay(lab, &observed, Before { places, links }, STORE).unwrap();
    let (mut wanted, mut now) = admit(lab, &observed, places, STORE).unwrap();
    wanted.extend(l.relays);
    now.extend(l.places);
    let (first, last) = steps(&l.ports, &observed, STORE);
    let vdps = plan(&wanted, &observed, STORE, places);
    (first.into_iter().chain(vdps).chain(last).collect(), now, l.links)
}

proptest! {
    /// From lab to lab, stopped anywhere and begun again: what is there is what the last one wants, ways
    /// of those that stay do not move, no identifier is used twice, and nothing is left at the end.
    #[test]
    fn links_come_and_go_without_a_trace(
        labs in prop::collection::vec(prop::collection::vec((0..4usize, 0..4usize, 0..5u32), 1..6), 1..5),
        stops in prop::collection::vec(any::<prop::sample::Index>(), 5),
    ) {
        let square = hosts("a b c d", &SQUARE);
        let empty = read(&square);
        let mut world = World::of(&empty);
        let before = world.clone();
        let (mut places, mut links) = (Places::new(), Links::new());
        let all: Vec<Lab> = labs.iter().map(|networks| {
            let one = |(i, (x, y, rest)): (usize, &(usize, usize, u32))| {
                let host = |n: &usize| ["a", "b", "c", "d"][*n];
                if *rest > 2 {
                    let ports = format!("e1 {}:e2 {}:w1", host(y), ["a", "c"][*rest as usize - 3]);
                    return big(&format!("n{i}"), i + 1, host(x), &ports, "");
                }
                let rest = ["", "guarantee_bps = 1", "backups = 1"][if x == y { 0 } else { *rest as usize }];
                row(&format!("n{i}"), &format!("{} {}", host(x), host(y)), rest)
            };
            read(&(square.clone() + &networks.iter().enumerate().map(one).collect::<String>()))
        }).chain([empty.clone()]).collect();
        for (lab, stop) in all.iter().zip(stops.iter().cycle()) {
            let (todo, p, l) = all_steps(lab, &world, &places, &links);
            for (key, place) in &l {
                let hosts = |p: &weir_supervisor::wires::LinkPlace| p.ways.iter().map(|w| w.hosts.clone()).collect::<Vec<_>>();
                if let Some(old) = links.get(key) && hosts(old) == hosts(place) {
                    prop_assert_eq!(old, place);
                }
            }
            let done = if todo.is_empty() { 0 } else { stop.index(todo.len()) };
            todo.iter().take(done).for_each(|s| world.perform(s));
            // Taken up again by whoever knows both states.
            let mut known = places.clone();
            known.extend(p);
            let (rest, p, l2) = all_steps(lab, &world, &known, &l);
            prop_assert_eq!(&l2, &l);
            rest.iter().for_each(|s| world.perform(s));
            let (none, ..) = all_steps(lab, &world, &p, &l);
            prop_assert!(none.is_empty(), "{:?}", none);
            (places, links) = (p, l);
            let vnis: Vec<u32> = links.values().flat_map(|p| &p.ways).flat_map(|w| w.vnis.clone()).collect();
            prop_assert_eq!(vnis.iter().collect::<BTreeSet<_>>().len(), vnis.len());
        }
        prop_assert_eq!(world, before);
        prop_assert!(places.is_empty() && links.is_empty());
    }
}
