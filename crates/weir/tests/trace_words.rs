//! `weir trace` as people see it: golden texts over frames of `testdata/real.pcap`, whose fields
//! tshark 4.0 showed when the texts were checked by hand.

use std::process::{Command, Output};

const CAPTURE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../testdata/real.pcap");

const RULES: &str = "\
priority=300,udp,dl_dst=02:00:00:00:03:02,actions=mod_nw_tos:184,goto_table:1
priority=200,ip,nw_dst=10.1.0.0/24,actions=dec_ttl,mod_dl_dst:02:00:00:00:aa:02,output:2
priority=100,arp,actions=normal
priority=90,dl_vlan=20,actions=pop_vlan,output:2
table=1,ip,nw_tos=184,actions=flood
";

fn trace(arguments: &[&str]) -> Output {
    let dir = tempfile::tempdir().expect("a directory");
    let rules = dir.path().join("rules");
    std::fs::write(&rules, RULES).expect("written");
    Command::new(env!("CARGO_BIN_EXE_weir"))
        .args(["trace", "--rules", rules.to_str().expect("UTF-8")])
        .args(arguments)
        .output()
        .expect("the binary runs")
}

#[track_caller]
fn check(arguments: &[&str], expected: &str) {
    let done = trace(arguments);
    let text = |b: Vec<u8>| String::from_utf8(b).expect("UTF-8");
    assert_eq!(done.status.code(), Some(0), "{}", text(done.stderr));
    let text = text(done.stdout);
    assert!(text == expected, "expected:\n{expected}\nfound:\n{text}");
}

#[track_caller]
fn refused(arguments: &[&str], error: &str) {
    let done = trace(arguments);
    assert_eq!(done.status.code(), Some(2));
    let text = String::from_utf8(done.stderr).expect("UTF-8");
    assert!(text.contains(error) && text.lines().count() == 1, "{text}");
}

fn frame(n: usize) -> String {
    format!("{CAPTURE}:{n}")
}

#[test]
fn a_change_and_two_tables() {
    check(
        &["--pcap", &frame(300)],
        "\
frame     442 bytes, in by port 1
key       udp,in_port=1,dl_dst=02:00:00:00:03:02,dl_src=02:00:00:00:03:01,nw_src=10.3.0.1,
          nw_dst=10.3.0.2,tp_src=45569,tp_dst=5202,nw_tos=0,nw_ecn=0,nw_ttl=64,nw_frag=no
VDP       1 (rules), by the mapping rule
          priority=0 every frame
path      fast
table 0   the rule that wins:
          priority=300 udp,dl_dst=02:00:00:00:03:02
          actions=set_field:46->ip_dscp,goto_table:1
change    set_field:46->ip_dscp
            nw_tos  0 → 184
            byte 15: 00 → b8
            bytes 24 to 25: 4c 31 → 4b 79
table 1   the rule that wins:
          priority=32768 ip,nw_tos=184
          actions=flood
output    port 2, 442 bytes
result    ✓ forwarded by port 2
",
    );
}

#[test]
fn a_router_s_change() {
    check(
        &["--pcap", &frame(865)],
        "\
frame     74 bytes, in by port 1
key       tcp,in_port=1,dl_dst=02:00:00:00:01:01,dl_src=02:00:00:00:01:02,nw_src=10.1.0.2,
          nw_dst=10.1.0.1,tp_src=80,tp_dst=54848,nw_tos=0,nw_ecn=0,nw_ttl=64,nw_frag=no,
          tcp_flags=0x012
VDP       1 (rules), by the mapping rule
          priority=0 every frame
path      fast
table 0   the rule that wins:
          priority=200 ip,nw_dst=10.1.0.0/24
          actions=dec_ttl,set_field:02:00:00:00:aa:02->dl_dst,output:2
change    dec_ttl,set_field:02:00:00:00:aa:02->dl_dst
            dl_dst  02:00:00:00:01:01 → 02:00:00:00:aa:02
            nw_ttl  64 → 63
            bytes 4 to 5: 01 01 → aa 02
            byte 22: 40 → 3f
            byte 24: 26 → 27
output    port 2, 74 bytes
result    ✓ forwarded by port 2
",
    );
}

#[test]
fn a_tag_taken_off() {
    check(
        &["--pcap", &frame(594)],
        "\
frame     78 bytes, in by port 1
key       tcp,in_port=1,dl_dst=02:00:00:00:02:02,dl_src=02:00:00:00:02:01,dl_vlan=20,dl_vlan_pcp=0,
          nw_src=10.2.0.1,nw_dst=10.2.0.2,tp_src=59388,tp_dst=22,nw_tos=16,nw_ecn=0,nw_ttl=64,
          nw_frag=no,tcp_flags=0x002
VDP       1 (rules), by the mapping rule
          priority=0 every frame
path      fast
table 0   the rule that wins:
          priority=90 dl_vlan=20
          actions=pop_vlan,output:2
change    pop_vlan
            dl_vlan      20 → none
            dl_vlan_pcp  0 → none
            bytes 12 to 15 taken out: 81 00 00 14
output    port 2, 74 bytes
result    ✓ forwarded by port 2
",
    );
}

#[test]
fn normal_without_a_program() {
    check(
        &["--pcap", &frame(15)],
        "\
frame     42 bytes, in by port 1
key       arp,in_port=1,dl_dst=ff:ff:ff:ff:ff:ff,dl_src=02:00:00:00:04:01,arp_spa=10.4.0.2,
          arp_tpa=10.4.0.1,arp_sha=02:00:00:00:04:01,arp_tha=00:00:00:00:00:00,arp_op=1
VDP       1 (rules), by the mapping rule
          priority=0 every frame
path      fast
table 0   the rule that wins:
          priority=100 arp
          actions=normal
software  NORMAL: forward as a plain switch would
result    ✗ dropped: NORMAL is the VDP's program, and it has none: program = \"learning\" (here --program learning) is one
",
    );
}

#[test]
fn normal_with_a_switch() {
    check(
        &["--program", "learning", "--pcap", &frame(15)],
        "\
frame     42 bytes, in by port 1
key       arp,in_port=1,dl_dst=ff:ff:ff:ff:ff:ff,dl_src=02:00:00:00:04:01,arp_spa=10.4.0.2,
          arp_tpa=10.4.0.1,arp_sha=02:00:00:00:04:01,arp_tha=00:00:00:00:00:00,arp_op=1
VDP       1 (rules), by the mapping rule
          priority=0 every frame
path      fast
table 0   the rule that wins:
          priority=100 arp
          actions=normal
software  NORMAL: forward as a plain switch would
program   'learning' gets it
sent      port 2, 42 bytes
result    ✓ sent by the program, port 2
",
    );
}

#[test]
fn a_runt() {
    check(
        &["--frame", "02:00"],
        "\
frame     2 bytes, in by port 1
result    ✗ dropped: runt (shorter than an Ethernet header)
",
    );
}

#[test]
fn what_can_not_be_traced() {
    refused(&["--frame", "020"], "--frame: 3 hex digits");
    refused(&["--frame", "0z"], "'z' at 2 is no hex digit");
    refused(&["--frame", &"00".repeat(5000)], "a frame of 5000 bytes");
    refused(&["--pcap", &frame(1037)], "no frame 1037: it has 1036");
    refused(&["--pcap", &frame(0)], "no frame 0");
    refused(&["--pcap", "/nowhere.pcap"], "/nowhere.pcap");
    refused(&["--pcap", concat!(env!("CARGO_MANIFEST_DIR"), "/Cargo.toml")], "Cargo.toml");
    refused(&["--frame", "00", "--program", "lerning"], "did you mean 'learning'");
}

#[test]
fn json_says_the_same() {
    let done = trace(&["--json", "--pcap", &frame(865)]);
    assert_eq!(done.status.code(), Some(0));
    let json: serde_json::Value = serde_json::from_slice(&done.stdout).expect("JSON");
    assert_eq!(json["kind"], "trace");
    let steps = json["result"]["steps"].as_array().expect("a list");
    let kinds: Vec<&str> = steps.iter().filter_map(|s| s["step"].as_str()).collect();
    assert_eq!(kinds, ["mapping", "path", "table", "change", "output"]);
    assert_eq!(steps[2]["rule"]["priority"], 200);
    let ttl = serde_json::json!({"field": "nw_ttl", "before": "64", "after": "63"});
    assert!(steps[3]["fields"].as_array().expect("a list").contains(&ttl), "{}", steps[3]);
    assert_eq!(steps[4]["port"], "2");
    assert_eq!(steps[4]["bytes"], 74);
}

const CONFIG: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../labs/two-tenants.toml");

fn by_config(in_port: &str, given: [&str; 2]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_weir"))
        .args(["trace", CONFIG, "--in-port", in_port])
        .args(given)
        .output()
        .expect("the binary runs")
}

#[test]
fn a_configuration_with_meter_and_group() {
    let frame = "0200000002020200000002018100001408004500001c00010000400166c90a0200010a1400010800f7ff00000000";
    let done = by_config("lan2", ["--frame", frame]);
    let text = String::from_utf8(done.stdout).expect("UTF-8");
    let expected = "\
frame     46 bytes, in by port lan2
key       icmp,in_port=\"lan2\",dl_dst=02:00:00:00:02:02,dl_src=02:00:00:00:02:01,dl_vlan=20,
          dl_vlan_pcp=0,nw_src=10.2.0.1,nw_dst=10.20.0.1,icmp_type=8,icmp_code=0,nw_tos=0,nw_ecn=0,
          nw_ttl=64,nw_frag=no
VDP       2 (blue), by the mapping rule
          priority=40000 dl_vlan=20
path      fast
table 0   the rule that wins:
          priority=300 ip,nw_dst=10.20.0.0/16
          actions=meter:1,dec_ttl,group:1
meter     1: pass
change    dec_ttl
            nw_ttl  64 → 63
            byte 26: 40 → 3f
            byte 28: 66 → 67
group     1: bucket 0
output    port uplink, 46 bytes
result    ✓ forwarded by port uplink
";
    assert!(text == expected, "expected:\n{expected}\nfound:\n{text}");
    // The same port by its number in the file's order.
    let by_number = by_config("2", ["--frame", frame]);
    assert_eq!(String::from_utf8(by_number.stdout).expect("UTF-8"), text);
}

#[test]
fn a_configuration_with_a_router_on_the_slow_path() {
    let done = by_config("uplink", ["--pcap", &frame(300)]);
    let text = String::from_utf8(done.stdout).expect("UTF-8");
    let expected = "\
frame     442 bytes, in by port uplink
key       udp,in_port=\"uplink\",dl_dst=02:00:00:00:03:02,dl_src=02:00:00:00:03:01,nw_src=10.3.0.1,
          nw_dst=10.3.0.2,tp_src=45569,tp_dst=5202,nw_tos=0,nw_ecn=0,nw_ttl=64,nw_frag=no
VDP       3 (edge), by the mapping rule
          priority=100 in_port=\"uplink\"
path      slow
software  by the default rule
program   'router' gets it
result    ✗ dropped by the program: program-drop (the program's own decision)
";
    assert!(text == expected, "expected:\n{expected}\nfound:\n{text}");
}

#[test]
fn a_port_that_the_configuration_has_not() {
    let done = by_config("lan9", ["--frame", "00"]);
    assert_eq!(done.status.code(), Some(2));
    let text = String::from_utf8(done.stderr).expect("UTF-8");
    assert!(text.contains("no such port: there are lan1, lan2, uplink, probe"), "{text}");
}

#[test]
fn a_shortcut_is_told() {
    let dir = tempfile::tempdir().expect("a directory");
    let file = dir.path().join("weir.toml");
    let port =
        |name: &str, kind: &str| format!("[[port]]\nname = '{name}'\ndevice = '{kind}eth{name}'\n");
    let ports = [port("a", "xdp-shortcut:"), port("b", "xdp-shortcut:"), port("c", "")].concat();
    let text = format!(
        "{ports}[[vdp]]\nvid = 1\nports = ['a', 'b', 'c']\nmapping = ['in_port=a']\n\
         rule = [{{ match = 'dl_dst=02:00:00:00:00:02', actions = 'output:b' }}, \
         {{ match = 'dl_dst=02:00:00:00:00:03', actions = 'output:c' }}]\n"
    );
    std::fs::write(&file, text).expect("written");
    let told = |in_port: &str, last: &str| {
        let frame = format!("0200 0000 00{last} 0200 0000 0009 88b5{}", " 00".repeat(46));
        let done = Command::new(env!("CARGO_BIN_EXE_weir"))
            .arg("trace")
            .arg(&file)
            .args(["--in-port", in_port, "--frame", &frame])
            .output()
            .expect("the binary runs");
        let text = |b: Vec<u8>| String::from_utf8(b).expect("UTF-8");
        assert_eq!(done.status.code(), Some(0), "{}", text(done.stderr));
        let text = text(done.stdout);
        let line = text.lines().find(|l| l.starts_with("shortcut"));
        line.map(str::to_owned)
    };
    let line = |text: &str| Some(format!("shortcut  {text}"));
    assert_eq!(told("a", "02"), line("the kernel forwards it by port b"));
    // By a port that has none, and without a rule.
    assert_eq!(told("a", "03"), line("not of this frame: weir has it"));
    assert_eq!(told("a", "04"), line("not of this frame: weir has it"));
    assert_eq!(
        told("b", "02"),
        line(
            "weir has it: no mapping rule takes its frames by the port or the destination address alone"
        )
    );
    assert_eq!(told("c", "02"), None);
}
