//! What weir refuses where Open vSwitch guesses, drops or cuts, and what the errors say.

use weir_dataplane::flowtext::{
    FlowErrorKind, MAX_LINE_BYTES, NoNames, parse_actions, parse_bucket, parse_flow, parse_flows,
    parse_match,
};

#[track_caller]
fn refused(line: &str, column: usize, token: &str, says: &str) {
    let e = parse_flow(line, &NoNames).expect_err(line);
    assert_eq!((e.line, e.column, e.token.as_str()), (1, column, token), "{e}");
    assert!(e.to_string().contains(says), "'{e}' does not say '{says}'");
}

#[test]
fn missing_prerequisites() {
    refused("nw_src=1.2.3.4,actions=2", 1, "nw_src", "IPv4 ('ip' or dl_type=0x0800)");
    refused("ipv6,nw_src=1.2.3.4,actions=2", 6, "nw_src", "IPv4");
    refused("nd_target=::1,actions=2", 1, "nd_target", "neighbour discovery");
    refused("tp_src=80,actions=2", 1, "tp_src", "TCP, UDP or SCTP");
    refused("dl_type=0x800,tp_src=3,actions=2", 15, "tp_src", "TCP, UDP or SCTP");
    refused("ip_frag=no,actions=2", 1, "ip_frag", "IPv4 or IPv6");
    refused("ipv6_src=::1,actions=2", 1, "ipv6_src", "IPv6");
    refused("ip,arp_spa=1.2.3.4,actions=2", 4, "arp_spa", "ARP");
    refused("udp,tcp_src=80,actions=2", 5, "tcp_src", "another protocol");
    refused("tcp_src=80,actions=2", 1, "tcp_src", "'tcp'");
    refused("icmp,icmpv6_type=135,actions=2", 6, "icmpv6_type", "another protocol");
    refused("pbb_isid=5,actions=2", 1, "pbb_isid", "0x88e7");
    refused("nw_proto=6,actions=2", 1, "nw_proto", "IPv4 or IPv6");
    refused("icmp,tp_src=300,actions=2", 6, "tp_src", "TCP");
    refused("tcp,nw_frag=later,tp_src=80,actions=2", 19, "tp_src", "nw_frag=later");
}

#[test]
fn twice_and_against_itself() {
    refused("dl_vlan=5,dl_vlan=6,actions=2", 19, "6", "twice");
    refused("dl_dst=1:2:3:4:5:6,eth_dst=1:2:3:4:5:6,actions=2", 28, "1:2:3:4:5:6", "twice");
    refused("priority=1,priority=2,actions=2", 12, "priority", "twice");
    refused("tcp,udp,actions=2", 5, "udp", "contradicts");
    refused("ip,ipv6,actions=2", 4, "ipv6", "contradicts");
    refused("tcp,nw_proto=17,actions=2", 5, "nw_proto", "contradicts");
    refused("dl_vlan=5,vlan_tci=0,actions=2", 20, "0", "contradicts");
}

#[test]
fn values_and_masks() {
    refused("tcp,tp_src=010,actions=2", 12, "010", "without leading zeros");
    refused("tcp,tp_src=65536,actions=2", 12, "65536", "65535");
    refused("tcp,tp_src=1/0x10000,actions=2", 12, "1/0x10000", "bits that the field has not");
    refused("tcp,tp_src=0x,actions=2", 12, "0x", "not a number");
    refused("tcp,tp_src=+80,actions=2", 12, "+80", "not a number");
    refused("metadata=18446744073709551616,actions=2", 10, "18446744073709551616", "largest");
    refused("mpls,mpls_label=1048576,actions=2", 17, "1048576", "1048575");
    refused("dl_vlan=4096,actions=2", 9, "4096", "4095");
    refused("dl_vlan_pcp=8,actions=2", 13, "8", "7");
    refused("arp,arp_op=65536,actions=2", 12, "65536", "65535");
    refused("ip,nw_src=1.2.3.4/33,actions=2", 11, "1.2.3.4/33", "0 to 32");
    refused("ip,nw_src=01.2.3.4,actions=2", 11, "01.2.3.4", "IPv4 address");
    refused("dl_vlan=5/0xf,actions=2", 9, "5/0xf", "vlan_tci=VALUE/MASK");
    refused("ip,nw_tos=4/4,actions=2", 11, "4/4", "ip_dscp");
    refused("vlan_vid=5,actions=2", 1, "vlan_vid", "dl_vlan=5");
    refused("ip=3,actions=2", 4, "3", "takes no value");
    refused("dl_dst,actions=2", 1, "dl_dst", "value is missing");
    refused("table=255,actions=2", 7, "255", "254");
    refused("importance=5,actions=2", 12, "5", "1.4");
    refused("reg0=5,actions=2", 1, "reg0", "metadata");
    refused("tun_src=10.0.0.1,actions=2", 1, "tun_src", "tunnel_id");
    refused("pkt_mark=5,actions=2", 1, "pkt_mark", "metadata");
    refused("ct_state=+trk,actions=2", 1, "ct_state", "connections");
    refused("tcp,tcp_flags=+syn+syn,actions=2", 15, "+syn+syn", "twice");
}

#[test]
fn names() {
    refused("nw_scr=1.2.3.4,ip,actions=2", 1, "nw_scr", "did you mean 'nw_src'?");
    refused("dl_dest=1:2:3:4:5:6,actions=2", 1, "dl_dest", "'dl_dst'");
    refused("prority=1,actions=2", 1, "prority", "'priority'");
    refused("ip,actions=dec_tll,2", 12, "dec_tll", "'dec_ttl'");
    refused("actions=ouput:2", 9, "ouput", "did you mean 'output'?");
    refused("quite_another_thing=1,actions=2", 1, "quite_another_thing", "ovs-fields(7)");
    refused("actions=eth0", 9, "eth0", "no such action");
    refused("actions=output:eth0", 16, "eth0", "no such port");
    refused("actions=\"eth0\"", 9, "\"eth0\"", "no such port");
    refused("actions=output:0", 16, "0", "from 1");
    refused("in_port=0,actions=2", 9, "0", "from 1");
    refused("actions=output:65533", 16, "65533", "reserved ones have names");
    refused("delete ip", 1, "delete", "every line adds a flow");
    refused("=5,actions=2", 1, "=5,actions=2", "a name");
}

#[test]
fn actions() {
    refused("priority=1,ip", 1, "priority=1,ip", "actions=drop");
    refused("actions", 1, "actions", "actions=drop");
    refused("actions=resubmit(,3)", 18, ",3", "goto_table");
    refused("actions=write_actions(2,drop)", 25, "drop", "clear_actions");
    refused("actions=write_actions(enqueue:2:3)", 23, "enqueue", "set_queue:QUEUE,output:PORT");
    refused("actions=write_actions(2,Goto_Table:3)", 25, "Goto_Table", "beside write_actions");
    refused("actions=write_actions(ouput:2)", 23, "ouput", "did you mean 'output'?");
    refused("actions=write_actions(output:65533)", 30, "65533", "reserved ones have names");
    refused("actions=write_actions(2),3", 26, "3", "then clear_actions, write_actions");
    refused("actions=write_actions(dec_ttl)", 23, "dec_ttl", "match on IPv4 or IPv6");
    refused("actions=write_actions(2", 22, "(2", "closed");
    refused("actions=clear_action", 9, "clear_action", "'clear_actions'");
    refused(
        "actions=move:NXM_OF_ETH_SRC[]->NXM_OF_ETH_DST[]",
        14,
        "NXM_OF_ETH_SRC[]->NXM_OF_ETH_DST[]",
        "set_field",
    );
    refused("actions=learn(table=1)", 15, "table=1", "program = \"learning\"");
    refused("actions=ct(commit)", 12, "commit", "program = \"firewall\" or \"nat\"");
    refused("actions=set_field:5->in_port", 19, "5->in_port", "action in_port");
    refused("dl_vlan=1,actions=set_field:5->vlan_vid", 29, "5->vlan_vid", "4101");
    refused("dl_vlan=1,actions=set_field:5->dl_vlan", 29, "5->dl_vlan", "mod_vlan_vid");
    refused("actions=set_field:1.2.3.4->ip_src", 19, "1.2.3.4->ip_src", "match on IPv4");
    refused("tcp,actions=set_field:1->udp_src", 23, "1->udp_src", "match on TCP, UDP");
    refused("ip,actions=dec_ttl(1,2)", 20, "1,2", "dec_ttl alone");
    refused("actions=controller(id=3)", 20, "id=3", "max_len");
    refused("actions=2,drop", 11, "drop", "alone");
    refused("actions=goto_table:4,2", 22, "2", "first meter");
    refused("table=5,actions=goto_table:5", 17, "goto_table", "larger number");
    refused("actions=meter:0", 15, "0", "from 1");
    refused("actions=mirror:LOCAL", 16, "LOCAL", "no such port");
    refused("actions=load:5->metadata[64]", 14, "5->metadata[64]", "no such bits");
    refused("actions=load:5->metadata[3..1]", 14, "5->metadata[3..1]", "no such bits");
    refused("actions=output:2)", 16, "2)", "closed");
    refused("actions=set_field:1->user0", 19, "1->user0", "can be written");
}

/// What README lists as refused with a hint.
#[test]
fn what_open_vswitch_has_and_weir_has_not() {
    for a in [
        "move:NXM_OF_ETH_SRC[]->NXM_OF_ETH_DST[]",
        "clone(output:1)",
        "note:00.11",
        "exit",
        "bundle(eth_src,0,active_backup,ofport,members:1)",
        "multipath(eth_src,50,modulo_n,1,0,NXM_NX_REG0[])",
        "push:NXM_NX_REG0[]",
        "pop:NXM_NX_REG0[]",
        "sample(probability=1)",
        "output(port=1,max_len=64)",
        "controller(reason=invalid_ttl)",
    ] {
        let e = parse_flow(&format!("actions={a}"), &NoNames).expect_err(a);
        assert!(matches!(e.kind, FlowErrorKind::Refused { .. }), "{a}: {e}");
        assert!(!e.to_string().contains('\n'), "{e}");
    }
}

#[test]
fn tunnels() {
    let macs = "eth_src=02:00:00:00:00:01,eth_dst=02:00:00:00:00:02";
    let bad = |args: &str| parse_flow(&format!("actions={args}"), &NoNames).expect_err(args);
    for args in [
        format!("encap_vxlan(vni=1,src=1.2.3.4,{macs})"),
        format!("encap_vxlan(src=1.2.3.4,dst=1.2.3.5,{macs})"),
        format!("encap_vxlan(vni=1,src=1.2.3.4,dst=::1,{macs})"),
        format!("encap_vxlan(vni=1,vni=1,src=1.2.3.4,dst=1.2.3.5,{macs})"),
        format!("encap_vxlan(vni=0x1000000,src=1.2.3.4,dst=1.2.3.5,{macs})"),
        format!("encap_vxlan(vni=1,key=1,src=1.2.3.4,dst=1.2.3.5,{macs})"),
        format!("encap_gre(port=1,src=1.2.3.4,dst=1.2.3.5,{macs})"),
        format!("encap_gre(csum=maybe,src=1.2.3.4,dst=1.2.3.5,{macs})"),
        "encap_gre".into(),
        "encap_gre()".into(),
        "decap_gre(3)".into(),
    ] {
        bad(&args);
    }
}

#[test]
fn limits() {
    let long = "x".repeat(MAX_LINE_BYTES + 1);
    let e = parse_flow(&long, &NoNames).expect_err("too long");
    assert!(matches!(e.kind, FlowErrorKind::LineTooLong { .. }), "{e}");
    assert!(e.to_string().len() < 300, "{e}");
    for e in [parse_match(&long, &NoNames).err(), parse_flows(&long, &NoNames).err()] {
        assert!(matches!(e.expect("too long").kind, FlowErrorKind::LineTooLong { .. }));
    }
    let deep = format!("actions={}{}", "a(".repeat(1000), ")".repeat(1000));
    let e = parse_flow(&deep, &NoNames).expect_err("too deep");
    assert_eq!(e.kind, FlowErrorKind::TooDeep);
    // As long as a line may be.
    let most = format!("actions={}", "2,".repeat((MAX_LINE_BYTES - 8) / 2));
    assert_eq!(parse_flow(&most, &NoNames).expect("long").actions.len(), (MAX_LINE_BYTES - 8) / 2);
    let open = format!("actions={}", "2(".repeat(3));
    assert_eq!(parse_flow(&open, &NoNames).expect_err("open").kind, FlowErrorKind::Unclosed);
    assert_eq!(
        parse_flow("in_port=\"a,actions=2", &NoNames).expect_err("open").kind,
        FlowErrorKind::Unclosed
    );
}

#[test]
fn parts_alone() {
    let m = parse_match("tcp,tp_dst=80", &NoNames).expect("match");
    let a = parse_actions("mod_tp_dst:81,2", &NoNames, 0, &m).expect("actions");
    assert_eq!(a.len(), 2);
    let any = parse_match("", &NoNames).expect("any");
    assert!(parse_actions("mod_tp_dst:81,2", &NoNames, 0, &any).is_err());
    assert_eq!(parse_bucket("mod_tp_dst:81,2", &NoNames).expect("bucket"), a);
    for not_a_match in ["priority=3", "actions=2", "send_flow_rem", "table=1"] {
        assert!(parse_match(not_a_match, &NoNames).is_err(), "{not_a_match}");
    }
}
