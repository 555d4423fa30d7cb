//! Files of `weir slicer`: what is wrong is said with its place.

use super::*;

fn wrong(text: &str) -> String {
    from_text(text, "s.toml", Path::new("")).map(drop).unwrap_err().to_string()
}

const TWO: &str = "listen = [\"ptcp:0\"]\n[[slice]]\nname = \"red\"\n[[slice]]\nname = \"blue\"\n";

fn space(rules: &str) -> String {
    format!("{TWO}{rules}")
}

#[test]
fn a_whole_file_is_read() {
    let text = r#"
        listen = ["ptcp:6633"]
        connect = ["tcp:10.0.0.1:6653"]
        [[slice]]
        name = "red"
        controllers = ["tcp:127.0.0.1:7001", "tcp:127.0.0.1:7002"]
        queues = [1, 2]
        on_loss = "drop"
        drop_s = 7
        limits = { rules = 10, flow_mods_per_s = 100, cpu_permille = 50 }
        [[slice]]
        name = "watch"
        [[flowspace]]
        match = "dl_vlan=10-11"
        ports = [1, "eth2"]
        delegate = "red"
        read = ["watch"]
        [[flowspace]]
        match = "dl_vlan=10,tcp,tp_dst=80-81"
        ports = ["eth2"]
        priority = 200
        by = "red"
        write = "watch"
    "#;
    let p = from_text(text, "s.toml", Path::new("")).unwrap_or_else(|e| panic!("{e}"));
    assert_eq!((p.listen.len(), p.connect.len(), p.tenants.len()), (1, 1, 2));
    let red = &p.tenants[0];
    assert_eq!((red.plan.loss, red.plan.limits.rules), (Loss::Drop { seconds: 7 }, 10));
    assert_eq!(red.flow_mods, Some(Rate { per_second: 100, burst: 10 }));
    assert_eq!(p.rules[0].ports, [PortRef::Number(Port(1)), PortRef::Name("eth2".to_owned())]);
    assert_eq!(p.rules[1].by, Some(SliceId(0)));
}

#[test]
fn how_many_tags_switches_read_is_every_slices() {
    for (said, tags) in [
        ("", TagsRead::Any),
        ("vlan_limit = 0\n", TagsRead::Any),
        ("vlan_limit = 1\n", TagsRead::One),
        ("vlan_limit = 2\n", TagsRead::Any),
    ] {
        let text = format!("{said}{TWO}");
        let p = from_text(&text, "s.toml", Path::new("")).unwrap_or_else(|e| panic!("{e}"));
        assert!(p.tenants.iter().all(|t| t.plan.tags == tags), "{said}");
    }
    assert!(wrong(&format!("vlan_limit = 3\n{TWO}")).contains("s.toml:1:14: vlan_limit"));
}

#[test]
fn what_is_wrong_is_said_with_its_place() {
    let same = "[[flowspace]]\nmatch = \"dl_vlan=10\"\nwrite = \"red\"\n\
                [[flowspace]]\nmatch = \"dl_vlan=8-15\"\nwrite = \"blue\"\n";
    let cases = [
        ("", "no switch can come"),
        ("listn = []", "s.toml:1:1: unknown key 'listn': did you mean 'listen'?"),
        (
            &space("[[flowspace]]\nwrite = \"rad\"\n"),
            "s.toml:7:9: there is no slice 'rad': did you mean 'red'?",
        ),
        (&space("[[flowspace]]\nmatch = \"tpc\"\n"), "s.toml:7:9: match: 'tpc'"),
        (&space("[[flowspace]]\nports = [0]\n"), "s.toml:7:10: 0 is no port's number"),
        (&space("[[flowspace]]\nports = [-1]\n"), "s.toml:7:10: -1 is no port's number: 1 to"),
        (&space("[[flowspace]]\nports = [1.5]\n"), "s.toml:7:9: ports: each by its number, or"),
        (
            &space("[[flowspace]]\nports = [1]\nmatch = \"in_port=2\"\n"),
            "in_port is what 'ports' says",
        ),
        (
            &space(same),
            "s.toml:9:1: it overlaps another entry of priority 100: give one of them a higher priority (in line 6)",
        ),
        (
            &space("[[flowspace]]\nwrite = \"red\"\nread = [\"red\"]\n"),
            "slice 'red' is named twice",
        ),
        (
            &space("[[flowspace]]\nwrite = \"red\"\nby = \"blue\"\n"),
            "not within what the giver may delegate",
        ),
        (&format!("{TWO}[[slice]]\nname = \"red\"\n"), "s.toml:7:8: slice 'red' is there already"),
        (&format!("{TWO}limits = {{ cpu_permille = 2000 }}\n"), "cpu_permille = 2000: 1 to 1000"),
        (&format!("{TWO}on_loss = \"kep\"\n"), "did you mean 'keep'?"),
        ("listen = [\"ptcp:6633:0.0.0.0\"]", "insecure = true"),
        ("listen = [\"pssl:6633\"]", "needs an identity"),
    ];
    for (text, said) in cases {
        let e = wrong(text);
        assert!(e.contains(said), "{text}\n  says {e}\n  not {said}");
        assert_eq!(e.lines().count(), 1, "{e}");
    }
}
