//! Configurations that are wrong, and what is said about each; any bytes; what a reload comes to.

use super::apply::{self, Devices, Model};
use super::diff::{Step, diff};
use super::plan::Plan;
use super::program::ProgramPlan;
use super::read;
use crate::net::lab::{LabFile, checked_whole};
use proptest::prelude::*;
use std::path::{Path, PathBuf};
use weir_dataplane::DataPlane;
use weir_dataplane::programs::nat::NatTimeouts;
use weir_packet::Nanos;

/// Reads a text as a file's, and tries it.
fn load(text: &str) -> Result<Plan, String> {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("t.toml");
    std::fs::write(&path, text).unwrap();
    let plan = read::load(&path).map_err(|e| e.to_string());
    let tried = plan.and_then(|p| apply::rehearse(&p).map(|()| p).map_err(|e| e.to_string()));
    tried.map_err(|e| e.replace(&format!("{}/", dir.path().display()), ""))
}

const PORTS: &str = "[[port]]\nname = 'a'\ndevice = 'null'\n\
                     [[port]]\nname = 'b'\ndevice = 'null'\n\
                     [[vdp]]\nvid = 1\nports = ['a', 'b']\n";

#[test]
fn what_is_wrong_is_said_with_its_place_and_how_to_mend_it() {
    // What is appended to two ports and a VDP (9 lines), and what must be said.
    let after: &[(&str, &[&str])] = &[
        ("chanel = 1", &["t.toml:10:1: unknown key 'chanel': did you mean 'channel'?"]),
        ("path = 'quick'", &["t.toml:10:8: path 'quick':", "fast, slow"]),
        ("default = 'outptu:1'", &["t.toml:10:11: default: 'outptu'", "did you mean 'output'?"]),
        ("default = 'output:7'", &["t.toml:8:7: VDP 1 (vdp1): VDP has no port 7"]),
        ("cpu_permille = 1001", &["t.toml:10:16:", "at most 1000"]),
        ("channel = 3", &["VDP 1 (vdp1): channel 3 can't be dedicated", "shared"]),
        ("channel = 300", &["t.toml:10:11:", "a whole number from 0 to 255"]),
        ("program = 'lerning'", &["t.toml:10:11:", "did you mean 'learning'?"]),
        ("program = 'router'", &["t.toml:10:11:", "[[vdp.program.interface]]"]),
        ("program = 'bng'", &["t.toml:10:11:", "[vdp.program.gateway]"]),
        ("program = { name = 'bng' }", &["t.toml:10:20:", "[vdp.program.gateway]"]),
        (
            "program = { name = 'bng', gateway = { tunnel = '1', access = [], core = [] } }",
            &["t.toml:10:48:", "'1' is not an IPv4 address"],
        ),
        (
            "program = { name = 'bng', gateway = { tunnel = '192.0.2.1', access = [], core = [] } }",
            &["program 'bng': bng: no access port"],
        ),
        (
            "program = { name = 'sink', gateway = { tunnel = '', access = [], core = [] } }",
            &["of program 'bng'"],
        ),
        ("program = { name = 'sink', ageing_s = 3 }", &["'ageing_s' is an option of program"]),
        (
            "program = { nmae = 'sink', name = 'learning' }",
            &["t.toml:10:13: unknown key 'nmae'", "Keys here: name, ageing_s, max_entries, static"],
        ),
        (
            "[vdp.program]\nadresses = 1\nname = 'nat'",
            &[
                "t.toml:11:1: unknown key 'adresses': did you mean 'addresses'? Keys here: name, inside, \
                 outside, timeouts, inside_mac, outside_mac, gateway_mac, inside_addresses, addresses, ports, max_mappings",
            ],
        ),
        // Of a VDP that is called as a program is, the VDP's.
        (
            "name = 'sink'\nchanel = 1",
            &["t.toml:11:1: unknown key 'chanel': did you mean 'channel'?"],
        ),
        (
            "[vdp.program]\nname = 'router'\nneighbours = { reachable_s = 0 }\n\
             interface = [{ port = 'a', mac = '02:00:00:00:00:01', addresses = ['10.0.0.1/24'] }]",
            &["program 'router': router: neighbours.reachable_s must be at least 1"],
        ),
        (
            "program = { name = 'balancer', seed = 1, inside = 'a' }",
            &["'inside' is an option of program 'firewall' and 'nat'"],
        ),
        ("program = { name = 'sink', seed = 1 }", &["'seed' is an option of program 'balancer'"]),
        ("program = { name = 'learning', max_entries = 0 }", &["max_entries = 0: 1 to"]),
        ("program = 'nat'", &["t.toml:10:11:", "name = \"nat\""]),
        (
            "program = { name = 'firewall', mac = 'x' }",
            &["'mac' is an option of program 'balancer'"],
        ),
        ("program = { name = 'firewall', inside = 'a' }", &["'firewall' needs outside = PORT"]),
        ("program = { name = 'firewall', inside = 'a', outside = 'a' }", &["are both port 1"]),
        (
            "[vdp.program]\nname = 'firewall'\ninside = 'a'\noutside = 'b'\n\
             [[vdp.program.allow]]\nprotocol = 'sctp'\nto = '10.0.0.0/8'",
            &["t.toml:15:12: protocol 'sctp'"],
        ),
        (
            "[vdp.program]\nname = 'firewall'\ninside = 'a'\noutside = 'b'\n\
             [[vdp.program.allow]]\nprotocol = 'tcp'\nto = '10.0.0.0/8'\nports = '9-'",
            &["t.toml:17:9: ports = '9-'"],
        ),
        (
            "[vdp.program]\nname = 'firewall'\ninside = 'a'\noutside = 'b'\n\
             [[vdp.program.allow]]\nprotocol = 'udp'\nto = '10.0.0.0/8'\nports = '0'",
            &["t.toml:17:9: ports = '0': ports are 1 to 65535"],
        ),
        (
            "[vdp.program]\nname = 'firewall'\ninside = 'a'\noutside = 'b'\n\
             [[vdp.program.allow]]\nprotocol = 'icmp'\nto = '10.0.0.0/8'\nports = '80'",
            &["t.toml:17:9: protocol = 'icmp' has no ports: leave"],
        ),
        (
            "[vdp.program]\nname = 'learning'\n\
             [[vdp.program.static]]\nmac = '02:00:00:00:00:01'\nport = 'a'\nvlan = 7\n\
             [[vdp.program.static]]\nmac = '02:00:00:00:00:01'\nport = 'a'\n\
             [[vdp.program.static]]\nmac = '02:00:00:00:00:01'\nport = 2\nvlan = 7",
            &["t.toml:19:1: static: 02:00:00:00:00:01 in VLAN 7 is at port 1 already"],
        ),
        (
            "[vdp.program]\nname = 'bng'\ngateway = { tunnel = '192.0.2.1', access = [], core = [],\n\
             circuits = [{ outer = 100, inner = [1, 4095], key = 1 }] }",
            &["t.toml:13:13: inner = 4095: a circuit's VLAN id there is 0 to 4094"],
        ),
        (
            "[vdp.program]\nname = 'bng'\ngateway = { tunnel = '192.0.2.1', access = [], core = [],\n\
             circuits = [{ outer = 0, inner = [1, 9], key = 1 }] }",
            &["t.toml:13:13: outer = 0: a circuit's VLAN id there is 1 to 4094"],
        ),
        (
            "[vdp.program]\nname = 'balancer'\nmac = '02:00:00:00:00:01'\n\
             service = [{ address = '192.0.2.1', port = 80, protocol = 'tcp', backend = [] }]",
            &["service 192.0.2.1:80: 0 backends"],
        ),
        (
            "[vdp.program]\nname = 'balancer'\nmac = '02:00:00:00:00:01'\n\
             service = [{ address = '2001:db8::1', port = 80, protocol = 'tcp', backend = [] }]",
            &["t.toml:13:24: address '2001:db8::1' is of IPv6: a balancer's services are of IPv4"],
        ),
        (
            "[vdp.program]\nname = 'balancer'\nmac = '02:00:00:00:00:01'\n\
             service = [{ address = '192.0.2', port = 80, protocol = 'tcp', backend = [] }]",
            &["t.toml:13:24: address '192.0.2' is not an IPv4 address, as in 192.0.2.1"],
        ),
        ("program = { name = 'forward', map = { a = 'c' } }", &["no port 'c'", "1 (a), 2 (b)"]),
        ("mapping = ['in_port=c']", &["t.toml:10:12: mapping rule: 'c'", "no such port"]),
        ("mapping = ['nw_dst=10.0.0.0/8']", &["also needs a match on"]),
        ("mapping = [{ match = 'ip', prio = 3 }]", &["unknown key 'prio'", "'priority'"]),
        (
            "rules_file = 'none.flows'",
            &["t.toml:10:14: rules_file none.flows: No such file", "check the name"],
        ),
        ("placement = 'sometimes'", &["placement 'sometimes'", "fast, slow, spill"]),
        (
            "[[vdp.rule]]\nmatch = 'ip,nw_dsst=10.0.0.1'\nactions = 'drop'",
            &["t.toml:11:9: match: 'nw_dsst' (column 4 of the text)", "did you mean 'nw_dst'?"],
        ),
        (
            "[[vdp.rule]]\nmatch = { ip = true, nw_dst = '10.0.0.300' }\nactions = 'drop'",
            &["t.toml:11:9: match: '10.0.0.300'"],
        ),
        ("[[vdp.rule]]\nmatch = { ip = false }\nactions = 'drop'", &["leave it out"]),
        ("[[vdp.rule]]\ntable = 255\nactions = 'drop'", &["t.toml:11:9: table = 255: 0 to 254"]),
        ("[[vdp.rule]]\nmatch = 'ip'", &["t.toml:10:1: missing field `actions`"]),
        ("[[vdp.rule]]\nactions = 'output:3'", &["t.toml:11:11: VDP 1 (vdp1): VDP has no port 3"]),
        ("[[vdp.rule]]\nactions = 'group:1'", &["VDP has no group 1"]),
        (
            "[[vdp.rule]]\nactions='drop'\n[[vdp.rule]]\nactions='drop'",
            &[
                "t.toml:13:9: VDP 1 has a rule with the same match and priority already at t.toml:11:9",
            ],
        ),
        (
            "tcam_limit_entries = 0\n[[vdp.rule]]\nactions='drop'",
            &["t.toml:12:9: VDP 1 (vdp1): VDP 1 may hold 0 action entries"],
        ),
        ("[[vdp.share]]\nport = 'c'", &["t.toml:11:8: this VDP has no port 'c'"]),
        (
            "[[vdp.share]]\nport = 'a'\nweight = 0",
            &["share at port 'a': weight 0 would never send"],
        ),
        ("[[vdp.share]]\nport = 'a'\nguarantee_bps = 2\nceiling_bps = 1", &["below the guarantee"]),
        (
            "[[vdp.share]]\nport = 'a'\nguarantee_bps = 1_000_000\nmax_delay_us = 12_000",
            &[
                "max_delay_us = 12000: a frame of 1518 bytes takes longer by guarantee_bps = 1000000",
            ],
        ),
        ("[[vdp.meter]]\nid = 1\nunit = 'mbps'\nband = []", &["unit 'mbps'", "kbps, pktps"]),
        ("[[vdp.meter]]\nid = 1\nunit = 'kbps'\nband = [{ rate = 0 }]", &["band 0 has rate 0"]),
        ("[[vdp.meter]]\nid = 1\nunit = 'kbps'\nband = []", &["t.toml:13:8: meter 1 has no band"]),
        ("[[vdp.meter]]\nid = 0\nunit = 'kbps'\nband = []", &["t.toml:11:6: id = 0: a meter's"]),
        (
            "[[vdp.meter]]\nid = 0xffff_0001\nunit = 'kbps'\nband = []",
            &["t.toml:11:6: id = 4294901761: a meter's number is 1 to 4294901760"],
        ),
        ("[[vdp.group]]\nid = 1\ntype = 'some'\nbucket = []", &["type 'some'", "fast_failover"]),
        (
            "[[vdp.field]]\nname = 'x'\nlayer = 'l3'\noffset_bytes = 0\nwidth_bits = 8",
            &["layer 'l3'", "ethernet, network, transport, payload"],
        ),
        (
            "[[vdp.field]]\nname = 'x'\nlayer = 'network'\noffset_bytes = 0\nwidth_bits = 33",
            &["t.toml:10:1:", "33 bits"],
        ),
        ("[[vdp]]\nvid = 1", &["t.toml:11:7: VDP 1 is there already in line 8"]),
        ("[[vdp]]\nvid = 2\nname = 'vdp1'", &["VDP 1 is called 'vdp1' already"]),
        ("[[vdp]]\nvid = 2\nname = '2'", &["VDP name '2'", "a letter in front"]),
        ("[[vdp]]\nvid = 65535", &["1 to 65534"]),
        ("[[vdp]]\nvid = 70000", &["t.toml:11:7: vid = 70000: 1 to 65534"]),
        ("[[vdp]]\nvid = -1", &["t.toml:11:7: vid = -1: 1 to 65534"]),
        ("[[vdp]]\nvid = 0\npath = 'fast'", &["'path' in VDP 0", "stays on the slow path"]),
        ("[[vdp]]\nvid = 2\nports = ['a', 'a']", &["name and number must be unique"]),
        ("[[vdp]]\nvid = 2\nports = { a = 0 }", &["port 'a' as number 0"]),
        ("[[vdp]]\nvid = 2\nports = ['bb']", &["no port 'bb': did you mean 'b'? There are: a, b"]),
        ("[[port]]\nname = 'a'\ndevice = 'null'", &["port 'a' is there already in line 2"]),
        (
            "[[port]]\nname = 'c'\ndevice = 'v0'\n[[port]]\nname = 'd'\ndevice = 'xdp:v0'",
            &["t.toml:15:10: port 'd': 'v0' is port 'c' in line 11 already"],
        ),
        (
            "[[port]]\nname = 'c'\ndevice = 'pcap-out:x'\n[[port]]\nname = 'd'\ndevice = 'pcap-out:x'",
            &["t.toml:15:10: port 'd': ", "x' is port 'c'"],
        ),
        (
            "[[port]]\nname = 'c'\ndevice = 'pcap-out:x'\n[[port]]\nname = 'd'\ndevice = 'pcap-out:./x'",
            &["t.toml:15:10: port 'd': ", "x' is port 'c'"],
        ),
        (
            "[[port]]\nname = 'c'\ndevice = 'pcap:x'\n[[port]]\nname = 'd'\ndevice = 'pcap-out:x'",
            &["t.toml:15:10: port 'd': ", "x' is port 'c'"],
        ),
        (
            "[[port]]\nname = 'c'\ndevice = 'memory:w'\n[[port]]\nname = 'd'\ndevice = 'memory:w'\n\
             [[port]]\nname = 'e'\ndevice = 'memory:w'",
            &["t.toml:18:10: port 'e': 'memory:w': ports 'c' and 'd' are its two ends already"],
        ),
        (
            "tcam_entries = 32\ntcam_limit_entries = 16",
            &["t.toml:8:7: tcam_limit_entries = 16: less than the 32 of tcam_entries"],
        ),
        (
            "share = [{ port = 'a', weight = 2 }, { port = 1, weight = 3 }]",
            &["t.toml:10:", "write one for each port"],
        ),
        ("[[port]]\nname = 'c'\ndevice = 'pcpa:x'", &["t.toml:12:10:", "did you mean 'pcap'?"]),
        ("[[port]]\nname = 'c d'\ndevice = 'null'", &["t.toml:11:8: port name 'c d'"]),
        (
            "[[port]]\nname = 'Local'\ndevice = 'null'",
            &["t.toml:11:8: port name 'Local'", "reserved"],
        ),
        ("[prot]\n", &["t.toml:10:2: unknown key 'prot': did you mean 'port'?"]),
        ("vid = 2", &["t.toml:10:1: duplicate key 'vid': leave one of them out"]),
        (
            "[[vdp.share]]\nport = 'a'\n\"ceiling_bps\" = 1\n\"ceiling_bps\" = 2",
            &["t.toml:13:1: duplicate key 'ceiling_bps': leave one"],
        ),
        ("name = ", &["t.toml:10:"]),
    ];
    for (text, expected) in after {
        let said =
            load(&format!("{PORTS}{text}\n")).err().unwrap_or_else(|| panic!("taken: {text}"));
        for e in *expected {
            assert!(said.contains(e), "{text}\n  said:     {said}\n  expected: {e}");
        }
        assert!(!said.contains('\n'), "more than one line: {said}");
    }
    let alone: &[(&str, &[&str])] = &[
        (
            "[[port]]\nname = 'a'\ndevice = 'null'\n[[port]]\nname = 'x'\ndevice = 'vxlan:100,remote=192.0.2.2'\n\
             [[vdp]]\nvid = 1\nports = ['a', 'x']\nrule = [\n{ actions = 'set_field:200->tun_id,output:x' }]",
            &[
                "t.toml:11:13: ",
                "port 'x', whose frames all leave with its own VNI, 100: make a port for each",
            ],
        ),
        (
            "[[port]]\nname = 'a'\ndevice = 'null'\n[[port]]\nname = 'x'\ndevice = 'vxlan:100,remote=192.0.2.2'\n\
             [[vdp]]\nvid = 1\nports = ['a', 'x']\nrule = [\n{ match = 'tun_id=200', actions = 'output:a' }]",
            &["t.toml:11:35: ", "tun_id in the first table", "match on in_port"],
        ),
        ("[dataplane]\nframes = -1", &["t.toml:2:10:", "a whole number from 0"]),
        ("[dataplane]\nframes = 0", &["t.toml:2:10: [dataplane]: 0 frames", "at least 1"]),
        ("[dataplane]\nframes = 99999999999999", &["t.toml:2:10: [dataplane]: no memory", "fewer"]),
        (
            "[dataplane]\nchunk_bytes = 10",
            &["t.toml:2:15: [dataplane]:", "a power of two from 2048"],
        ),
        (
            "[dataplane]\nchannels = 65",
            &["t.toml:2:12: [dataplane]: channels = 65: 1 to 64 channels"],
        ),
        (
            "[dataplane]\nchannel_frames = 1",
            &["t.toml:2:18: [dataplane]: channel_frames = 1: 64 to"],
        ),
        ("[dataplane]\nserving = 'me'", &["t.toml:2:11: serving is \"worker\""]),
        ("[dataplane]\nserving = { threads = 0 }", &["at least 1"]),
        ("[dataplane]\nidle = 'sleep'", &["idle 'sleep'", "spin, rest"]),
        (
            "[dataplane]\ntcam = { slice_entries = 7 }",
            &["t.toml:2:8:", "is not made of slices of 7"],
        ),
        ("[dataplane.tcam]\nslice_entries = 7", &["t.toml:1:", "is not made of slices of 7"]),
        ("[dataplane]\ntcam = { slices = 7 }", &["unknown key 'slices'", "did you mean"]),
        ("port = 3", &["t.toml:1:8:"]),
    ];
    for (text, expected) in alone {
        let said = load(text).err().unwrap_or_else(|| panic!("taken: {text}"));
        for e in *expected {
            assert!(said.contains(e), "{text}\n  said:     {said}\n  expected: {e}");
        }
    }
}

#[test]
fn programs_that_remember_are_taken() {
    for program in [
        "name = 'firewall'\ninside = 'a'\noutside = 'b'\nmax_connections = 10\n\
         midstream = 'follow'\nallow = [{ protocol = 'icmp', to = '10.0.0.0/8' }]",
        "name = 'nat'\ninside = 'a'\noutside = 'b'\ninside_mac = '02:00:00:00:00:01'\n\
         outside_mac = '02:00:00:00:00:02'\ngateway_mac = '02:00:00:00:00:03'\n\
         inside_addresses = ['10.0.0.1']\naddresses = ['192.0.2.1']\nports = '2000-2999'",
        "name = 'balancer'\nmac = '02:00:00:00:00:01'\nseed = 3\n\
         [[vdp.program.service]]\naddress = '192.0.2.1'\nport = 80\nprotocol = 'tcp'\n\
         [[vdp.program.service.backend]]\nname = 'w'\nport = 'b'\nmac = '02:00:00:00:00:09'",
    ] {
        load(&format!("{PORTS}[vdp.program]\n{program}\n")).unwrap();
    }
}

/// Each program's times are its own, from a second to 30 days; what is not given is as it was.
#[test]
fn programs_remember_as_long_as_they_are_told() {
    let timeouts = |name: &str, given: &str| {
        let text = format!(
            "{PORTS}[vdp.program]\nname = '{name}'\ninside = 'a'\noutside = 'b'\n{}[vdp.program.timeouts]\n{given}\n",
            match name {
                "nat" =>
                    "inside_mac = '02:00:00:00:00:01'\noutside_mac = '02:00:00:00:00:02'\n\
                     gateway_mac = '02:00:00:00:00:03'\naddresses = ['192.0.2.1']\n",
                _ => "",
            }
        );
        load(&text)
    };
    let program = |name: &str, given: &str| {
        timeouts(name, given).unwrap().vdps.remove(&1).unwrap().program.unwrap()
    };
    let firewall = "tcp_opening_s = 1\ntcp_open_s = 2592000\ntcp_closing_s = 3\n\
                    udp_one_way_s = 4\nudp_both_ways_s = 5\nquery_s = 6";
    let ProgramPlan::Firewall(c) = program("firewall", firewall) else { panic!("a firewall") };
    let t = c.timeouts;
    assert_eq!(
        [t.tcp_opening, t.tcp_open, t.tcp_closing, t.udp_one_way, t.udp_both_ways, t.query],
        [1, 2_592_000, 3, 4, 5, 6].map(Nanos::from_secs)
    );
    let nat = "udp_s = 1\ntcp_open_s = 2\ntcp_transitory_s = 3";
    let ProgramPlan::Nat(c) = program("nat", nat) else { panic!("a NAT") };
    let t = c.timeouts;
    assert_eq!([t.udp, t.tcp_open, t.tcp_transitory], [1, 2, 3].map(Nanos::from_secs));
    assert_eq!(t.query, NatTimeouts::default().query);
    for (name, given, expected) in [
        (
            "firewall",
            "udp_s = 3",
            "program 'firewall' has no timeout 'udp_s': There are tcp_opening_s, tcp_open_s",
        ),
        ("nat", "udp_one_way_s = 3", "There are udp_s, tcp_open_s, tcp_transitory_s, query_s"),
        ("nat", "udp_s = 0", "udp_s = 0: 1 to 2592000 seconds"),
        ("firewall", "query_s = 2592001", "query_s = 2592001: 1 to 2592000 seconds"),
        ("firewall", "tcp_opn_s = 3", "did you mean 'tcp_open_s'?"),
        ("firewall", "query_s = '1m'", "t.toml"),
    ] {
        let said = timeouts(name, given).err().unwrap_or_else(|| panic!("taken: {given}"));
        assert!(said.contains(expected), "{said}");
    }
    let said = load(&format!("{PORTS}[vdp.program]\nname = 'sink'\ntimeouts = {{ udp_s = 3 }}\n"));
    let said = said.expect_err("refused");
    assert!(said.contains("option of program 'firewall' and 'nat', not of 'sink'"), "{said}");
}

#[test]
fn buckets_change_what_frames_need_not_have() {
    let bucket = |actions: &str| {
        let group = format!("id = 1\ntype = 'all'\nbucket = [{{ actions = '{actions}' }}]");
        load(&format!("{PORTS}[[vdp.group]]\n{group}\n"))
    };
    for actions in [
        "dec_ttl,output:1",
        "mod_nw_src:192.0.2.1,output:1",
        "mod_tp_dst:80,output:1",
        "pop_vlan,output:1",
        "set_field:80->tcp_dst,output:1",
        "decap_vxlan,set_field:192.0.2.1->ip_dst,output:1",
        "pop_mpls:0x0800,dec_ttl,output:1",
    ] {
        bucket(actions).unwrap_or_else(|e| panic!("{actions}: {e}"));
    }
    let said = bucket("dec_tll,output:1").unwrap_err();
    assert!(said.contains("did you mean 'dec_ttl'?"), "{said}");
}

#[test]
fn rules_files_name_their_own_line() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("t.toml");
    std::fs::write(&path, format!("{PORTS}rules_file = 'r'")).unwrap();
    for (rules, expected) in [
        ("# comment\n\npriority=3,actions=output:a,outptu:b", "r:3:29: 'outptu'"),
        ("actions=drop\nidle_timeout=3,actions=drop", "r:2:1: rules of a file stay"),
        ("actions=drop\nactions=drop", "r:2:1: VDP 1 has a rule with the same match"),
        ("\n#\nactions=output:9", "r:3:1"),
    ] {
        std::fs::write(dir.path().join("r"), rules).unwrap();
        let said = read::load(&path)
            .map_err(|e| e.to_string())
            .and_then(|p| apply::rehearse(&p).map_err(|e| e.to_string()))
            .unwrap_err();
        assert!(said.contains(expected), "{said}");
    }
}

fn labs() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../labs")
}

#[test]
fn every_lab_can_be_run() {
    let mut seen = 0;
    for entry in std::fs::read_dir(labs()).unwrap() {
        let path = entry.unwrap().path();
        let is_lab = std::fs::read_to_string(&path).is_ok_and(|t| t.contains("[[host]]"));
        if is_lab {
            let file = LabFile::load(&path).unwrap_or_else(|e| panic!("{e:#}"));
            checked_whole(&file.lab, Some(&file)).unwrap_or_else(|e| panic!("{e:#}"));
            seen += 1;
        } else if path.extension().is_some_and(|e| e == "toml") {
            let plan = read::load(&path).unwrap_or_else(|e| panic!("{e}"));
            apply::rehearse(&plan).unwrap_or_else(|e| panic!("{e}"));
            seen += 1;
        }
    }
    assert!(seen >= 3);
}

/// The examples in the guide are configurations, too: each TOML block by itself.
#[test]
fn the_guides_examples_are_read() {
    let guide = labs().join("../docs/guide/configuration.md");
    let text = std::fs::read_to_string(guide).unwrap();
    let blocks: Vec<&str> =
        text.split("```toml\n").skip(1).filter_map(|b| b.split("```").next()).collect();
    assert!(blocks.len() > 5);
    for b in blocks {
        let ports: String = ["lan", "uplink", "probe"]
            .iter()
            .filter(|p| !b.contains(&format!("[[port]]\nname = \"{p}\"")))
            .map(|p| format!("[[port]]\nname = '{p}'\ndevice = 'null'\n"))
            .collect();
        // A block may show the end of a VDP: then this is its beginning.
        let head = "[[vdp]]\nvid = 9\nports = ['lan', 'uplink', 'probe']\n";
        let cut = ["[[port]]", "[[vdp]]", "[dataplane]"].iter().any(|s| b.starts_with(s));
        let text = if cut { format!("{b}{ports}") } else { format!("{ports}{head}{b}") };
        load(&text).unwrap_or_else(|e| panic!("{e} in\n{text}"));
    }
}

/// What runs after every step of a reload is what the file says: carried out on a data plane, the
/// plan equals the new one, and once more there is nothing to do.
#[test]
fn a_reload_comes_to_what_the_new_file_says() {
    let base = format!("{PORTS}mapping = ['in_port=a']\nrule = [{{ actions = 'output:b' }}]\n");
    let two = "[[vdp]]\nvid = 2\nports = ['b']\nmapping = ['in_port=b']\ncpu_permille = 700\n";
    let texts = [
        PORTS.to_owned(),
        base.clone(),
        format!("{base}{two}"),
        format!("{base}{two}").replace("cpu_permille = 700\n", ""),
        format!("{base}cpu_permille = 700\n").replace("rule = ", "tcam_entries = 40\nrule = "),
        base.replace("['a', 'b']", "{ a = 2, b = 1 }").replace("output:b", "set_queue:1,output:a"),
        base.replace("output:b", "drop").replace("in_port=a", "in_port=b"),
        format!("{base}[[vdp.meter]]\nid = 1\nunit = 'pktps'\nband = [{{ rate = 5 }}]\n")
            .replace("'output:b'", "'meter:1,output:b'"),
        format!("{base}[[vdp.share]]\nport = 'a'\nweight = 3\n"),
        format!(
            "{base}[[vdp.share]]\nport = 'a'\nguarantee_bps = 1000000\nmax_delay_us = 100000\n"
        ),
        base.replace("vid = 1", "vid = 7"),
        base.replace("vid = 1", "vid = 1\nname = 'red'\nprogram = 'learning'\npath = 'slow'"),
        base.replace("name = 'b'\ndevice = 'null'", "name = 'b'\ndevice = 'null:other'"),
    ];
    let plans: Vec<Plan> =
        texts.iter().map(|t| load(t).unwrap_or_else(|e| panic!("{e}\n{t}"))).collect();
    for (i, from) in plans.iter().enumerate() {
        for (j, to) in plans.iter().enumerate() {
            let mut plane = DataPlane::new(from.fixed.config.clone()).unwrap();
            let mut model = Model::new(from, Devices::Scratch);
            let mut now = weir_packet::Nanos(0);
            for target in [from, to, from] {
                let steps = diff(&model.plan, target).unwrap();
                apply::run_here(&mut plane, &mut model, steps)
                    .unwrap_or_else(|e| panic!("{i} → {j}: {e}"));
                let left: Vec<String> =
                    diff(&model.plan, target).unwrap().iter().map(Step::told).collect();
                assert_eq!(left, Vec::<String>::new(), "{i} → {j}");
                for _ in 0..3 {
                    now = now + weir_packet::Nanos::from_millis(1);
                    plane.poll(now);
                }
                plane.snapshot().check().unwrap();
            }
        }
    }
}

#[test]
fn what_cannot_change_is_refused() {
    let old = load(PORTS).unwrap();
    for (text, expected) in [
        (format!("{PORTS}channel = 0"), "give the VDP another vid"),
        (
            format!("[dataplane]\nframes = 4096\n{PORTS}"),
            "t.toml:2:10: [dataplane] frames: fixed while",
        ),
    ] {
        let e = diff(&old, &load(&text).unwrap()).unwrap_err().to_string();
        assert!(e.contains(expected), "{e}");
    }
}

/// Each interface's ring has its frames, however many there are; a port more is no reason to start anew.
#[test]
fn what_is_not_said_of_frames_is_enough_for_the_ports() {
    let ports = |n: usize| -> String {
        (0..n).map(|i| format!("[[port]]\nname = 'p{i}'\ndevice = 'xdp:e{i}'\n")).collect()
    };
    let frames = |text: &str| load(text).unwrap().fixed.config.frames;
    assert_eq!([1, 4, 9, 28].map(|n| frames(&ports(n))), [16384, 16384, 26624, 65536]);
    assert_eq!(frames(&format!("[dataplane]\nframes = 4096\n{}", ports(9))), 4096);
    assert_eq!(frames(&ports(9).replace("xdp:", "af_packet:")), 16384);
    // Many have shorter rings, for the kernel keeps something of every frame for every port.
    assert_eq!(
        [32, 33, 100, 150, 256].map(|n| frames(&ports(n))),
        [73728, 41984, 59392, 46592, 73728]
    );
    let rings = |text: &str| load(text).unwrap().fixed.rings;
    assert_eq!(
        [1, 32, 33, 64, 65, 150, 400].map(|n| rings(&ports(n))),
        [2048, 2048, 1024, 1024, 512, 256, 256]
    );
    assert_eq!(rings(&format!("[dataplane]\nframes = 400000\n{}", ports(150))), 2048);
    diff(&load(&ports(4)).unwrap(), &load(&ports(9)).unwrap()).unwrap();
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]
    /// Any text is read or refused with one line; nothing panics.
    #[test]
    fn any_text_is_answered(
        lines in prop::collection::vec(prop_oneof![
            Just("[[port]]".to_owned()), Just("[[vdp]]".to_owned()), Just("[dataplane]".to_owned()),
            Just("[[vdp.rule]]".to_owned()), Just("vid = 1".to_owned()),
            Just("name = 'a'".to_owned()), Just("device = 'null'".to_owned()),
            Just("ports = ['a']".to_owned()), Just("actions = 'output:1'".to_owned()),
            Just("match = 'ip,nw_src=1.2.3.4/8'".to_owned()), Just("mapping = ['in_port=a']".to_owned()),
            "[a-z_]{1,12} = (-?[0-9]{1,12}|'[ -&(-~]{0,20}'|true|\\[\\]|\\{\\})", "\\PC{0,30}",
        ], 0..12),
    ) {
        if let Err(e) = load(&lines.join("\n")) {
            prop_assert!(!e.is_empty() && !e.contains('\n'), "{e}");
        }
    }
}
