//! Flows as text for `ovs-ofctl add-flows`: for whoever must put them back by hand.
//!
//! Pure. What that language has no word for stands there as a comment with the flow as weir has it, so that
//! nothing is left out in silence.

use std::fmt::{Display, Write};
use std::net::{Ipv4Addr, Ipv6Addr};
use weir_openflow::model::{
    Action, Field, FieldMatch, FlowFlags, FlowStats, Instruction, NO_MAX_LEN, Port, Version,
};

/// All of them, a line each, under one that says how they are used.
pub fn text(flows: &[FlowStats], version: Version) -> String {
    let called = match version {
        Version::V10 => "OpenFlow10",
        Version::V13 => "OpenFlow13",
    };
    let mut all = format!("# ovs-ofctl -O {called} add-flows SWITCH THIS-FILE\n");
    for f in flows {
        let line =
            flow(f, version).unwrap_or_else(|| format!("# ovs-ofctl has no words for it: {f:?}"));
        all.push_str(&line);
        all.push('\n');
    }
    all
}

/// `None`: it can't be said.
fn flow(f: &FlowStats, version: Version) -> Option<String> {
    // A flow_mod of 1.0 has no table: to name one asks for Open vSwitch's extension.
    let table = (version != Version::V10).then(|| format!("table={}", f.table));
    let mut parts: Vec<String> = table.into_iter().collect();
    parts.push(format!("priority={}", f.priority));
    let mut add = |name: &str, value: u64| {
        if value != 0 {
            parts.push(format!("{name}={value}"));
        }
    };
    add("cookie", f.cookie);
    add("idle_timeout", f.idle_timeout.into());
    add("hard_timeout", f.hard_timeout.into());
    for (flag, word) in [
        (FlowFlags::SEND_FLOW_REM, "send_flow_rem"),
        (FlowFlags::RESET_COUNTS, "reset_counts"),
        (FlowFlags::NO_PKT_COUNTS, "no_packet_counts"),
        (FlowFlags::NO_BYT_COUNTS, "no_byte_counts"),
    ] {
        if f.flags.has(flag) {
            parts.push(word.to_owned());
        }
    }
    for m in &f.matcher.0 {
        parts.push(matched(m)?);
    }
    let mut does = Vec::new();
    for i in &f.instructions {
        does.extend(instruction(i)?);
    }
    // Last of all: what stands before belongs to the flow.
    let does = if does.is_empty() { "drop".to_owned() } else { does.join(",") };
    parts.push(format!("actions={does}"));
    Some(parts.join(","))
}

/// Whether a port can be said: not between the ports of 1.0 and the reserved ones.
fn has_port(p: Port) -> bool {
    !(0xff00..0xffff_ff00).contains(&p.0)
}

fn matched(m: &FieldMatch) -> Option<String> {
    if m.field == Field::InPort && !has_port(Port(m.value as u32)) {
        return None;
    }
    let name = name(m.field)?;
    let mut text = format!("{name}={}", value(m.field, m.value));
    if m.mask != m.field.full() {
        let _ = write!(text, "/{}", value(m.field, m.mask));
    }
    Some(text)
}

fn instruction(i: &Instruction) -> Option<Vec<String>> {
    let all = |actions: &[Action]| actions.iter().map(action).collect::<Option<Vec<_>>>();
    Some(match i {
        Instruction::GotoTable(n) => vec![format!("goto_table:{n}")],
        Instruction::WriteMetadata { value, mask } => {
            vec![format!("write_metadata:{value:#x}/{mask:#x}")]
        }
        Instruction::Write(actions) => vec![format!("write_actions({})", all(actions)?.join(","))],
        Instruction::Apply(actions) => all(actions)?,
        Instruction::Clear => vec!["clear_actions".to_owned()],
        Instruction::Meter(id) => vec![format!("meter:{id}")],
        _ => return None,
    })
}

fn action(a: &Action) -> Option<String> {
    let of = |word: &str, value: &dyn Display| format!("{word}:{value}");
    Some(match a {
        Action::Output { port, .. } | Action::Enqueue { port, .. } if !has_port(*port) => {
            return None;
        }
        // Bits of ECN beside it.
        Action::SetNwTos(v) if v & 3 != 0 => return None,
        Action::Output { port: Port::CONTROLLER, max_len } if *max_len != NO_MAX_LEN => {
            of("CONTROLLER", max_len)
        }
        Action::Output { port, .. } => of("output", port),
        Action::SetQueue(n) => of("set_queue", n),
        Action::Enqueue { port, queue } => format!("enqueue:{port}:{queue}"),
        Action::Group(n) => of("group", n),
        Action::SetField(field, v) => {
            format!("set_field:{}->{}", value(*field, *v), name(*field)?)
        }
        Action::SetVlanVid(v) => of("mod_vlan_vid", v),
        Action::SetVlanPcp(v) => of("mod_vlan_pcp", v),
        Action::SetNwTos(v) => of("mod_nw_tos", v),
        Action::SetTpSrc(v) => of("mod_tp_src", v),
        Action::SetTpDst(v) => of("mod_tp_dst", v),
        Action::PushVlan(t) => format!("push_vlan:{t:#06x}"),
        Action::PopVlan => "strip_vlan".to_owned(),
        Action::PushMpls(t) => format!("push_mpls:{t:#06x}"),
        Action::PopMpls(t) => format!("pop_mpls:{t:#06x}"),
        Action::SetNwTtl(v) => of("mod_nw_ttl", v),
        Action::DecNwTtl => "dec_ttl".to_owned(),
        Action::SetMplsTtl(v) => format!("set_mpls_ttl({v})"),
        Action::DecMplsTtl => "dec_mpls_ttl".to_owned(),
        _ => return None,
    })
}

/// A field's value as ovs-fields(7) has it.
fn value(field: Field, v: u128) -> String {
    let mac = |v: u128| {
        let b = v.to_be_bytes();
        let hex: Vec<_> = b.iter().skip(10).map(|b| format!("{b:02x}")).collect();
        hex.join(":")
    };
    match field {
        Field::InPort => Port(v as u32).to_string(),
        Field::EthDst
        | Field::EthSrc
        | Field::ArpSha
        | Field::ArpTha
        | Field::Ipv6NdSll
        | Field::Ipv6NdTll => mac(v),
        Field::Ipv4Src | Field::Ipv4Dst | Field::ArpSpa | Field::ArpTpa => {
            Ipv4Addr::from(v as u32).to_string()
        }
        Field::Ipv6Src | Field::Ipv6Dst | Field::Ipv6NdTarget => Ipv6Addr::from(v).to_string(),
        _ => format!("{v:#x}"),
    }
}

/// A field's name there; `None`: Open vSwitch has it not.
fn name(field: Field) -> Option<&'static str> {
    use Field::*;
    Some(match field {
        InPort => "in_port",
        Metadata => "metadata",
        EthDst => "eth_dst",
        EthSrc => "eth_src",
        EthType => "eth_type",
        VlanVid => "vlan_vid",
        VlanPcp => "vlan_pcp",
        IpDscp => "ip_dscp",
        IpEcn => "nw_ecn",
        IpProto => "nw_proto",
        Ipv4Src => "nw_src",
        Ipv4Dst => "nw_dst",
        TcpSrc => "tcp_src",
        TcpDst => "tcp_dst",
        UdpSrc => "udp_src",
        UdpDst => "udp_dst",
        SctpSrc => "sctp_src",
        SctpDst => "sctp_dst",
        Icmpv4Type => "icmp_type",
        Icmpv4Code => "icmp_code",
        ArpOp => "arp_op",
        ArpSpa => "arp_spa",
        ArpTpa => "arp_tpa",
        ArpSha => "arp_sha",
        ArpTha => "arp_tha",
        Ipv6Src => "ipv6_src",
        Ipv6Dst => "ipv6_dst",
        Ipv6Flabel => "ipv6_label",
        Icmpv6Type => "icmpv6_type",
        Icmpv6Code => "icmpv6_code",
        Ipv6NdTarget => "nd_target",
        Ipv6NdSll => "nd_sll",
        Ipv6NdTll => "nd_tll",
        MplsLabel => "mpls_label",
        MplsTc => "mpls_tc",
        MplsBos => "mpls_bos",
        TunnelId => "tun_id",
        InPhyPort | PbbIsid | Ipv6Exthdr => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::process::Command;
    use weir_openflow::model::Match;

    fn with(matcher: Match, instructions: Vec<Instruction>) -> FlowStats {
        FlowStats {
            table: 1,
            duration_sec: 9,
            duration_nsec: 0,
            priority: 77,
            idle_timeout: 0,
            hard_timeout: 30,
            flags: FlowFlags::SEND_FLOW_REM,
            cookie: 5,
            packets: 3,
            bytes: 4,
            matcher,
            instructions,
        }
    }

    fn some() -> Vec<FlowStats> {
        let to = |n| Action::Output { port: Port(n), max_len: 0 };
        let ip = Match::default().with(Field::InPort, 1).with(Field::EthType, 0x800);
        let ip = ip.with_masked(Field::Ipv4Dst, 0x0a00_0000, 0xff00_0000);
        let v6 = Match::default().with(Field::EthType, 0x86dd).with(Field::IpProto, 6);
        let v6 = v6.with(Field::Ipv6Dst, 1).with(Field::TcpDst, 80);
        let tagged = Match::default().with(Field::VlanVid, 0x1005);
        let all = Action::Output { port: Port::CONTROLLER, max_len: 128 };
        let mac = Action::SetField(Field::EthDst, 0x0200_0000_0007);
        vec![
            with(ip, vec![Instruction::Apply(vec![mac, to(2)])]),
            with(v6, vec![Instruction::Apply(vec![all]), Instruction::GotoTable(2)]),
            with(tagged, vec![Instruction::Write(vec![Action::PopVlan, to(3)])]),
            with(Match::default(), Vec::new()),
            with(Match::default().with(Field::PbbIsid, 1), Vec::new()),
        ]
    }

    #[test]
    fn flows_are_said_and_none_is_left_out() {
        let text = text(&some(), Version::V13);
        let lines: Vec<_> = text.lines().collect();
        let head = "table=1,priority=77,cookie=5,hard_timeout=30,send_flow_rem";
        assert_eq!(lines.len(), 6);
        assert!(lines[0].starts_with("# ovs-ofctl -O OpenFlow13 add-flows"), "{text}");
        assert_eq!(
            lines[1],
            format!(
                "{head},in_port=1,eth_type=0x800,nw_dst=10.0.0.0/255.0.0.0,actions=set_field:02:00:00:00:00:07->eth_dst,output:2"
            )
        );
        assert_eq!(lines[4], format!("{head},actions=drop"));
        assert!(lines[5].starts_with("# ovs-ofctl has no words for it: FlowStats"), "{text}");
    }

    /// A switch of 1.0 that is no Open vSwitch has no words for tables; and one line that can't be read would end all.
    #[test]
    fn older_ones_have_no_tables_and_what_is_not_read_is_a_comment() {
        let to =
            |port| vec![Instruction::Apply(vec![Action::Output { port: Port(port), max_len: 0 }])];
        let tos = vec![Instruction::Apply(vec![Action::SetNwTos(3)])];
        let all = [to(2), to(70_000), tos].map(|i| with(Match::default(), i));
        let old = text(&all, Version::V10);
        let lines: Vec<_> = old.lines().collect();
        assert!(lines[1].starts_with("priority=77,") && !lines[1].contains("table="), "{old}");
        assert!(lines[2..].iter().all(|l| l.starts_with("# ovs-ofctl has no words")), "{old}");
    }

    #[test]
    fn ovs_ofctl_reads_them() {
        let file = tempfile::NamedTempFile::new().unwrap();
        std::fs::write(file.path(), text(&some(), Version::V13)).unwrap();
        let mut c = Command::new("ovs-ofctl");
        let Ok(said) = c.args(["-O", "OpenFlow13", "parse-flows"]).arg(file.path()).output() else {
            eprintln!("SKIPPED: ovs_ofctl_reads_them: no ovs-ofctl (package openvswitch-common)");
            return;
        };
        assert!(said.status.success(), "{}", String::from_utf8_lossy(&said.stderr));
        let flows = String::from_utf8_lossy(&said.stdout).matches("ADD").count();
        assert_eq!(flows, 4, "{}", String::from_utf8_lossy(&said.stdout));
    }
}
