//! The shapes of flow that the workloads of the measurements are made of, value by value.

use weir_classify::{Field, Match};
use weir_dataplane::flowtext::{FlowSpec, NoNames, parse_flow, parse_flows};
use weir_dataplane::{Action, Out, PortNo};

fn set(field: Field, value: u128) -> Action {
    Action::SetField { field, value, mask: field.full() }
}
fn out(n: u32) -> Action {
    Action::Output(Out::Port(PortNo(n)))
}
fn ip() -> Match {
    Match::any().with(Field::EthType, 0x0800)
}

#[track_caller]
fn check(line: &str, priority: u16, matcher: Match, actions: Vec<Action>) {
    let expected = FlowSpec { priority, matcher, actions, ..FlowSpec::default() };
    let spec = parse_flow(line, &NoNames).unwrap_or_else(|e| panic!("{line}: {e}"));
    assert_eq!(spec, expected, "{line}");
    let again = parse_flow(&spec.to_string(), &NoNames).unwrap_or_else(|e| panic!("{spec}: {e}"));
    assert_eq!(again, spec, "{line} shown as {spec}");
}

#[test]
fn forwarding_by_port() {
    let m = Match::any().with(Field::InPort, 1);
    check("priority=100,in_port=1,actions=output:2", 100, m, vec![out(2)]);
}

#[test]
fn switching_by_mac() {
    let m = Match::any().with(Field::EthDst, 0x02a1_b2c3_d4e5);
    check("priority=100,dl_dst=02:a1:b2:c3:d4:e5,actions=output:2", 100, m, vec![out(2)]);
}

#[test]
fn access_lists() {
    let tcp = ip().with(Field::IpProto, 6);
    let m = tcp
        .with_masked(Field::Ipv4Src, 0x4c50_0000, 0xffff_0000)
        .with_masked(Field::Ipv4Dst, 0x8000_0000, 0x8000_0000)
        .with_masked(Field::TpSrc, 0x400, 0xfc00)
        .with(Field::TpDst, 1521);
    let line = "priority=65535,tcp,nw_src=76.80.0.0/16,nw_dst=128.0.0.0/1,tp_src=0x400/0xfc00,tp_dst=1521,actions=output:2";
    check(line, 65535, m, vec![out(2)]);
    let m = ip().with(Field::IpProto, 17).with(Field::Ipv4Dst, 0x0102_0304);
    check("priority=1,udp,nw_dst=1.2.3.4/32,actions=output:2", 1, m, vec![out(2)]);
    check("priority=2,icmp,actions=output:2", 2, ip().with(Field::IpProto, 1), vec![out(2)]);
    check("priority=3,ip,actions=output:2", 3, ip(), vec![out(2)]);
    let m = ip().with(Field::IpProto, 47);
    check("priority=4,ip,nw_proto=47,actions=output:2", 4, m, vec![out(2)]);
}

#[test]
fn rewriting_addresses() {
    let line = "priority=100,ip,actions=mod_dl_src:02:00:00:00:00:0a,mod_dl_dst:02:00:00:00:00:0b,dec_ttl,output:2";
    let actions = vec![
        set(Field::EthSrc, 0x0200_0000_000a),
        set(Field::EthDst, 0x0200_0000_000b),
        Action::DecTtl,
        out(2),
    ];
    check(line, 100, ip(), actions);
}

#[test]
fn virtual_data_planes_by_vlan() {
    let m = Match::any().with(Field::VlanVid, 0x1400).with(Field::EthDst, 0x02ff_ffff_ffff);
    check(
        "priority=100,dl_vlan=1024,dl_dst=02:ff:ff:ff:ff:ff,actions=output:2",
        100,
        m,
        vec![out(2)],
    );
}

#[test]
fn swapping_labels() {
    let line = "priority=100,dl_type=0x8847,mpls_label=1048575,actions=set_field:16->mpls_label,dec_mpls_ttl,output:2";
    let m = Match::any().with(Field::EthType, 0x8847).with(Field::MplsLabel, 0xf_ffff);
    check(line, 100, m, vec![set(Field::MplsLabel, 16), Action::DecMplsTtl, out(2)]);
}

#[test]
fn a_file() {
    let text =
        "# comment\n\n  \t\npriority=1,ip,actions=drop # because\r\n\npriority=2 actions=2\n";
    let flows = parse_flows(text, &NoNames).expect("flows");
    assert_eq!(flows.len(), 2);
    assert_eq!(flows[0].actions, [Action::Drop]);
    assert_eq!(flows[1].matcher, Match::any());
    let e = parse_flows("actions=2\n\nactions=nothing\n", &NoNames).expect_err("no such action");
    assert_eq!((e.line, e.column, e.token.as_str()), (3, 9, "nothing"));
    assert_eq!(parse_flows("", &NoNames).expect("nothing"), []);
}
