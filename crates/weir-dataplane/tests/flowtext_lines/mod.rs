//! Flows for the tests of the flow syntax: fixed ones, and random ones that are always valid.
#![allow(dead_code)]

/// Valid for weir and for Open vSwitch, with the same meaning.
pub const VALID: &[&str] = &[
    "actions=",
    "actions=drop",
    "action=2",
    "priority=5 ip actions=2",
    "priority=5, ip,\tnw_dst=1.2.3.4 , actions=2 , 3",
    "priority=100,,ip,,actions=output:2 3",
    "priority=0,actions=2",
    "priority=0xffff,actions=2",
    "table=3,cookie=0x5,idle_timeout=5,hard_timeout=6,send_flow_rem,check_overlap,reset_counts,no_packet_counts,no_byte_counts,actions=2",
    "table=254,cookie=18446744073709551614,actions=2",
    "duration=3.4s,n_packets=4,n_bytes=4,idle_age=3,hard_age=4,actions=2",
    "actions=output:2  # comment",
    // Ports.
    "in_port=1,actions=in_port",
    "in_port=LOCAL,actions=IN_PORT",
    "in_port=local,actions=output:in_port",
    "in_port=65279,actions=65279",
    "actions=all",
    "actions=ALL,flood,NORMAL",
    "actions=controller",
    "actions=controller:128",
    "actions=CONTROLLER:0",
    "actions=controller(max_len=100)",
    "actions=controller(max_len=100,reason=action)",
    "actions=local",
    "actions=output:LOCAL,output(3),OUTPUT:4",
    "actions=output:2,output:2",
    // VLAN.
    "dl_vlan=5,actions=2",
    "dl_vlan=0,actions=2",
    "dl_vlan=4095,actions=2",
    "dl_vlan=0xffff,actions=2",
    "dl_vlan=65535,actions=2",
    "dl_vlan=*,actions=2",
    "dl_vlan_pcp=3,actions=2",
    "vlan_pcp=0,actions=2",
    "dl_vlan=5,vlan_pcp=7,actions=2",
    "dl_vlan_pcp=7,dl_vlan=5,actions=2",
    "vlan_vid=0x1005,actions=2",
    "vlan_vid=0x1000/0x1000,actions=2",
    "vlan_vid=0x1005/0x100f,actions=2",
    "vlan_vid=0x1005/0x1fff,vlan_pcp=3,actions=2",
    "vlan_vid=0,actions=2",
    "vlan_tci=0x1123,actions=2",
    "vlan_tci=0,actions=2",
    "vlan_tci=0xf123,actions=2",
    "vlan_tci=0xf000/0xf000,actions=2",
    "vlan_tci=0x1000/0x1000,actions=2",
    "vlan_tci=0x0/0xfff,actions=2",
    // MAC.
    "dl_dst=01:00:00:00:00:00/01:00:00:00:00:00,actions=2",
    "dl_dst=01:02:00:00:00:00/01:00:00:00:00:00,actions=2",
    "eth_src=1:2:3:4:5:6,eth_dst=FF:ff:ff:ff:ff:ff,actions=2",
    // EtherType and protocol.
    "dl_type=2048,actions=2",
    "dl_type=0x88cc,actions=2",
    "eth_type=0x0600,actions=2",
    "dl_type=0x05ff,actions=2",
    "ip,nw_proto=6,actions=2",
    "nw_proto=17,ipv6,actions=2",
    "ip,tcp,actions=2",
    "dl_type=0x86dd,nw_proto=58,actions=2",
    "ip,ip_proto=200,actions=2",
    // IPv4.
    "nw_src=1.2.3.4,ip,actions=2",
    "ip,nw_src=1.2.3.4/8,actions=2",
    "ip,nw_dst=1.2.3.4/255.0.255.0,actions=2",
    "ip,ip_src=1.2.3.4/0,ip_dst=1.2.3.4/32,actions=2",
    "ip,nw_src=0.0.0.0/1,nw_dst=*,actions=2",
    "ip,nw_tos=5,actions=2",
    "ip,nw_tos=252,nw_ecn=3,actions=2",
    "ipv6,ip_dscp=9,ip_ecn=1,actions=2",
    "ip,nw_ttl=64,actions=2",
    "ip,ip_frag=no,actions=2",
    "ip,nw_frag=yes,actions=2",
    "ip,ip_frag=first,actions=2",
    "ipv6,nw_frag=later,actions=2",
    "ip,ip_frag=not_later,actions=2",
    // IPv6.
    "ipv6,ipv6_src=2001:db8::/32,ipv6_dst=::1/ffff::,actions=2",
    "ipv6,ipv6_src=::ffff:1.2.3.4,ipv6_dst=fe80::1/128,actions=2",
    "ipv6,ipv6_src=::1/::1,actions=2",
    "ipv6,ipv6_label=5,actions=2",
    "ipv6,ipv6_label=0x5/0xf,actions=2",
    // Transport.
    "tcp,tp_src=80,actions=2",
    "tcp,tp_src=0x1234/0xff00,actions=2",
    "tcp,tp_src=5/0,actions=2",
    "tcp,tcp_src=80,tcp_dst=81,actions=2",
    "udp,udp_src=80,udp_dst=0x51/0xffff,actions=2",
    "sctp,sctp_src=4,sctp_dst=5,actions=2",
    "tcp6,tcp_dst=80,actions=2",
    "udp6,tp_dst=53,actions=2",
    "sctp6,tp_dst=53,actions=2",
    "tcp,tcp_flags=+syn-ack,actions=2",
    "tcp,tcp_flags=-fin-urg-psh+ece+cwr+ns+rst,actions=2",
    "tcp,tcp_flags=0x12/0x12,actions=2",
    "tcp,tcp_flags=syn|ack,actions=2",
    "tcp,tcp_flags=2,actions=2",
    "tcp,tcp_flags=0,actions=2",
    "tcp6,tcp_flags=0xfff,actions=2",
    "tcp,tcp_flags=+[200]-[800],actions=2",
    "icmp,icmp_type=8,icmp_code=0,actions=2",
    "icmp,tp_src=8,tp_dst=1,actions=2",
    "icmp6,icmpv6_type=135,actions=2",
    "icmp6,icmp_type=135,nd_target=fe80::1,nd_sll=02:00:00:00:00:01,actions=2",
    "icmp6,icmp_type=136,nd_target=fe80::/64,nd_tll=02:00:00:00:00:01,actions=2",
    // ARP, MPLS and what is not on the wire.
    "arp,arp_op=1,arp_spa=1.2.3.4,arp_tpa=10.0.0.0/8,actions=2",
    "arp,arp_sha=02:00:00:00:00:01,arp_tha=02:00:00:00:00:02/ff:ff:00:00:00:00,actions=2",
    "arp,nw_src=1.2.3.4,nw_dst=1.2.3.5,nw_proto=2,actions=2",
    "rarp,arp_op=3,actions=2",
    "mpls,mpls_label=5,mpls_tc=3,mpls_bos=1,actions=2",
    "mplsm,mpls_ttl=5,actions=2",
    "mpls,mpls_label=0xfffff,actions=2",
    "metadata=5,actions=2",
    "metadata=0x5/0xf,actions=2",
    "tun_id=0x5/0xf,actions=2",
    "tunnel_id=5,actions=2",
    // Actions.
    "actions=mod_dl_src:1:2:3:4:5:6,mod_dl_dst:02:00:00:00:00:01,2",
    "ip,actions=mod_nw_src:1.2.3.4,mod_nw_dst:1.2.3.5,mod_nw_tos:8,mod_nw_ecn:2,mod_nw_ttl:2,2",
    "ipv6,actions=mod_nw_tos:252,dec_ttl,2",
    "tcp,actions=mod_tp_src:80,mod_tp_dst:81",
    "udp6,actions=mod_tp_src:80",
    "sctp,actions=mod_tp_dst:80",
    "actions=mod_vlan_vid:5,2",
    "dl_vlan=3,actions=mod_vlan_vid:5,2",
    "dl_vlan=0xffff,actions=mod_vlan_vid:5,2",
    "vlan_tci=0x1000/0x1000,actions=mod_vlan_pcp:5,2",
    "actions=mod_vlan_pcp:5,mod_vlan_vid:4,2",
    "actions=mod_vlan_vid:0,mod_vlan_pcp:3,2",
    "dl_vlan=1,actions=set_vlan_vid:5,set_vlan_pcp:3",
    "dl_vlan=4,actions=strip_vlan,2",
    "dl_vlan=4,actions=pop_vlan,mod_vlan_vid:7,2",
    "actions=push_vlan:0x8100,set_field:4101->vlan_vid,output:2",
    "actions=push_vlan:0x88a8,push_vlan:33024,pop_vlan,set_field:3->vlan_pcp,2",
    "dl_vlan=1,actions=set_field:0x1234->vlan_tci",
    "mpls,actions=set_mpls_label:5,set_mpls_tc(5),dec_mpls_ttl,set_mpls_ttl:9,2",
    "mpls,actions=set_field:5->mpls_label,set_field:1->mpls_tc,set_field:7->mpls_ttl",
    "actions=push_mpls:0x8847,set_field:5->mpls_label,push_mpls:0x8848,2",
    "mpls,actions=pop_mpls:0x0800,dec_ttl,2",
    "mpls,actions=pop_mpls:0x8847,dec_mpls_ttl,2",
    "ip,actions=set_field:1.2.3.4->ip_src,set_field:1.2.3.4->nw_dst",
    "ip,actions=set_field:1.2.3.4/24->ip_src",
    "ip,actions=load:0x010203->NXM_OF_IP_SRC[8..31]",
    "actions=set_field:02:00:00:00:00:01->eth_src,set_field:02:00:00:00:00:01->dl_dst",
    "actions=load:0x5->NXM_OF_ETH_DST[0..15],load:1->OXM_OF_ETH_SRC[40]",
    "ip,actions=load:0x0a->NXM_OF_IP_SRC[],load:63->NXM_NX_IP_TTL[]",
    "tcp,actions=set_field:80->tcp_dst,set_field:81->tp_src",
    "ip,actions=set_field:9->ip_dscp,set_field:3->nw_ecn,set_field:3->nw_ttl",
    "ipv6,actions=set_field:::1->ipv6_src,set_field:2001:db8::1->ipv6_dst,set_field:1->ipv6_label",
    "arp,actions=set_field:2->arp_op,set_field:1.2.3.4->arp_spa,set_field:02:00:00:00:00:01->arp_sha",
    "icmp,actions=set_field:0->icmp_type,set_field:1->icmp_code",
    "actions=set_field:5->metadata,set_field:6->tun_id",
    "actions=set_field:1/1->metadata,load:3->OXM_OF_METADATA[4..7]",
    "actions=set_tunnel:5,set_tunnel64:0x1ffffffff,2",
    "actions=enqueue:1:2,3",
    "actions=enqueue(1,2)",
    "actions=set_queue:5,2,pop_queue",
    "actions=group:4",
    "actions=meter:3,2",
    "actions=meter:1,2,write_metadata:5/0xff,goto_table:3",
    "actions=write_metadata:5,goto_table:3",
    "table=5,actions=2,goto_table:6",
    // The action set.
    "actions=write_actions(2)",
    "actions=write_actions()",
    "actions=write_actions",
    "actions=2,write_actions()",
    "actions=write_actions:output:2",
    "actions=clear_actions",
    "actions=clear_actions()",
    "actions=Clear_Actions,WRITE_ACTIONS(normal)",
    "tcp,actions=clear_actions,write_actions(set_field:5->tcp_dst,output:2),goto_table:3",
    "ip,actions=meter:1,output:1,clear_actions,write_actions(dec_ttl, group:1),write_metadata:5,goto_table:2",
    "actions=write_actions(output:1,output:2)",
    "actions=write_actions(set_queue:1,controller(max_len=64))",
    "actions=write_actions(mod_vlan_vid:3,in_port)",
    "dl_vlan=1,actions=pop_vlan,write_actions(push_vlan:0x8100,set_field:4100->vlan_vid,2)",
    "ip,actions=write_actions(push_mpls:0x8847,set_field:5->mpls_label,load:1->OXM_OF_METADATA[4..7])",
];

/// Refused by weir and by Open vSwitch.
pub const OVS_REFUSES: &[&str] = &[
    "",
    "ip",
    "priority=5",
    "actions",
    "actions:2",
    "priority=65536,actions=2",
    "priority=-1,actions=2",
    "priority=x,actions=2",
    "cookie=0x5/0xf,actions=2",
    "idle_timeout=70000,actions=2",
    "foo=3,actions=2",
    "foo,actions=2",
    "IP,actions=2",
    "add ip,actions=2",
    "add,ip,actions=2",
    "delete ip",
    "actions=foo",
    "actions=foo:3",
    "actions=2,ip",
    "actions=drop,2",
    "actions=2,drop",
    "actions=output:2;3",
    "actions=output:0xff00",
    "actions=none",
    "actions=output:eth0",
    "in_port=eth0,actions=2",
    "in_port=70000,actions=65536000000",
    "actions=controller:70000",
    "ip,nw_src,actions=2",
    "ip,nw_src=,actions=2",
    "ip,nw_src=1.2.3,actions=2",
    "ip,nw_src=1.2.3.4/33,actions=2",
    "ip,nw_src=1.2.3.4/255.255.255.0.0,actions=2",
    "ipv6,ipv6_src=::1/129,actions=2",
    "ip,nw_proto=300,actions=2",
    "ip,nw_proto=tcp,actions=2",
    "ip,nw_tos=252/252,actions=2",
    "icmp,icmp_type=300,actions=2",
    "dl_vlan=5/0xf,actions=2",
    "dl_vlan=any,actions=2",
    "dl_type=ip,actions=2",
    "dl_dst=01:02:03:04:05,actions=2",
    "dl_dst=01:02:03:04:05:06/ff:ff,actions=2",
    "tcp,tcp_flags=+foo,actions=2",
    "vlan_tci=0x123,actions=2",
    "tcp,nw_frag=later,tp_src=80,actions=2",
    "tcp6,nw_frag=later,tcp_flags=+syn,actions=2",
    "tcp,nw_frag=later,actions=mod_tp_src:80",
    "actions=set_field:5->vlan_vid",
    "dl_vlan=1,actions=set_field:5->vlan_vid",
    "actions=set_field:3->vlan_pcp",
    "actions=mod_vlan_vid:4096",
    "actions=strip_vlan,2",
    "dl_vlan=2,actions=pop_vlan,pop_vlan,2",
    "actions=push_vlan:0x9100",
    "actions=mod_nw_src:1.2.3.4",
    "ipv6,actions=mod_nw_src:1.2.3.4",
    "arp,actions=mod_nw_src:1.2.3.4",
    "ip,actions=mod_nw_tos:5",
    "ip,actions=mod_nw_ecn:4",
    "ip,actions=mod_tp_src:80",
    "actions=set_field:1.2.3.4->ip_src",
    "actions=load:0x0a->NXM_OF_IP_SRC[]",
    "actions=load:5->metadata[3]",
    "ip,actions=set_field:8->nw_proto",
    "actions=set_field:8->nothing",
    "actions=dec_ttl",
    "actions=dec_mpls_ttl",
    "tcp,actions=push_mpls:0x8847,dec_ttl,2",
    "tcp,actions=push_mpls:0x8847,pop_mpls:0x800,set_field:80->tcp_src",
    "actions=push_mpls:0x800",
    "actions=pop_mpls:0x800",
    "actions=2,meter:3",
    "actions=meter:1,meter:2,2",
    "actions=goto_table:4,2",
    "actions=goto_table:0",
    "table=5,actions=goto_table:4",
    "actions=write_metadata:5,2",
    "actions=goto_table:3,write_metadata:5",
    "actions=write_actions(write_actions(2))",
    "actions=write_actions(clear_actions)",
    "actions=write_actions(goto_table:2)",
    "actions=write_actions(meter:2)",
    "actions=write_actions(write_metadata:2)",
    "actions=write_actions(enqueue:1:2)",
    "actions=write_actions(set_queue:1,pop_queue)",
    "actions=write_actions(2),clear_actions",
    "actions=write_actions(2),3",
    "actions=write_actions(2),write_actions(3)",
    "actions=clear_actions,clear_actions",
    "actions=clear_actions,2",
    "actions=clear_actions,drop",
    "actions=goto_table:2,clear_actions",
    "actions=write_metadata:2,write_actions(2)",
    "actions=write_actions(foo)",
    "dl_vlan=1,actions=pop_vlan,write_actions(set_field:4->vlan_pcp)",
];

/// A small deterministic generator (SplitMix64).
pub struct Rng(pub u64);

impl Rng {
    pub fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let z = (self.0 ^ self.0 >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let z = (z ^ z >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ z >> 31
    }
    pub fn below(&mut self, n: u64) -> u64 {
        self.next() % n
    }
    fn one<'a, T>(&mut self, of: &'a [T]) -> &'a T {
        &of[self.below(of.len() as u64) as usize]
    }
    fn mac(&mut self) -> String {
        let b = self.next().to_be_bytes();
        b[2..].iter().map(|b| format!("{b:02x}")).collect::<Vec<_>>().join(":")
    }
    fn v4(&mut self) -> String {
        std::net::Ipv4Addr::from_bits(self.next() as u32).to_string()
    }
    fn v6(&mut self) -> String {
        let bits = u128::from(self.next()) << 64 | u128::from(self.next());
        let sparse = if self.below(2) == 0 { bits } else { bits & u128::from(self.next()) << 70 };
        std::net::Ipv6Addr::from_bits(sparse).to_string()
    }
    fn port(&mut self) -> String {
        let (v, m) = (self.below(0x10000), self.below(0x10000));
        match self.below(3) {
            0 => format!("{v:#x}/{m:#x}"),
            1 => format!("{v:#x}"),
            _ => v.to_string(),
        }
    }
    fn v4_masked(&mut self) -> String {
        match self.below(4) {
            0 => self.v4(),
            1 => format!("{}/{}", self.v4(), self.v4()),
            _ => format!("{}/{}", self.v4(), self.below(33)),
        }
    }
    fn v6_masked(&mut self) -> String {
        match self.below(4) {
            0 => self.v6(),
            // Open vSwitch takes a mask that begins with a decimal digit for a prefix length.
            1 => format!("{}/f{}", self.v6(), self.v6().trim_start_matches(|c| c != ':')),
            _ => format!("{}/{}", self.v6(), self.below(129)),
        }
    }
    fn mac_masked(&mut self) -> String {
        let masked = self.below(4) == 0;
        let v = self.mac();
        if masked { format!("{v}/{}", self.mac()) } else { v }
    }
}

/// A random valid flow, its fields in random order.
pub fn random(r: &mut Rng) -> String {
    let mut f: Vec<String> = Vec::new();
    let mut a: Vec<String> = Vec::new();
    let mut maybe = |r: &mut Rng, n: u64, s: String| {
        if r.below(n) == 0 {
            f.push(s);
        }
    };
    let (n, b, m) = (r.below(65536), r.below(254), r.next());
    maybe(r, 2, format!("priority={n}"));
    maybe(r, 3, format!("table={b}"));
    maybe(r, 4, format!("cookie={m:#x}"));
    maybe(r, 8, format!("idle_timeout={}", n / 3));
    maybe(r, 8, format!("hard_timeout={}", n / 5));
    maybe(r, 8, "send_flow_rem".into());
    maybe(r, 3, format!("in_port={}", n % 0xff00 % 5000 + 1));
    maybe(r, 6, format!("metadata={:#x}/{m:#x}", m >> 3));
    maybe(r, 6, format!("tun_id={m}"));
    let mac = r.mac_masked();
    maybe(r, 3, format!("dl_src={mac}"));
    let mac = r.mac_masked();
    maybe(r, 3, format!("dl_dst={mac}"));
    let tagged = match r.below(6) {
        0 => Some(format!("dl_vlan={}", n % 4096)),
        1 => Some(format!("dl_vlan={},dl_vlan_pcp={}", n % 4096, n % 8)),
        // OXM has no partial mask on the priority.
        2 => Some(format!("vlan_tci={:#x}/{:#x}", n | 0x1000, b << 4 | 0x1000)),
        _ => None,
    };
    let has_tag = tagged.is_some();
    f.extend(tagged);
    let mut rest: Vec<String> = Vec::new();
    let kind = *r.one(&[
        "", "ip", "tcp", "udp", "sctp", "icmp", "ipv6", "tcp6", "udp6", "icmp6", "arp", "mpls",
    ]);
    let (v4, v6) = (
        ["ip", "tcp", "udp", "sctp", "icmp"].contains(&kind),
        ["ipv6", "tcp6", "udp6", "icmp6"].contains(&kind),
    );
    if !kind.is_empty() {
        rest.push(kind.into());
    }
    if v4 {
        rest.push(format!("nw_src={}", r.v4_masked()));
        rest.push(format!("nw_dst={}", r.v4_masked()));
        a.push(format!("set_field:{}->ip_src", r.v4()));
        a.push(format!("mod_nw_dst:{}", r.v4()));
    }
    if v6 {
        rest.push(format!("ipv6_src={}", r.v6_masked()));
        rest.push(format!("ipv6_dst={}", r.v6_masked()));
        rest.push(format!("ipv6_label={:#x}/{:#x}", m >> 44, n));
        a.push(format!("set_field:{}->ipv6_dst", r.v6()));
    }
    if v4 || v6 {
        rest.push(format!("nw_tos={}", b & 0xfc));
        rest.push(format!("nw_ecn={}", b & 3));
        rest.push(format!("nw_ttl={}", n & 0xff));
        let later = if kind.starts_with("ip") { "later" } else { "no" };
        rest.push(format!("nw_frag={}", r.one(&["no", "yes", "first", later, "not_later"])));
        a.push("dec_ttl".into());
        a.push(format!("mod_nw_tos:{}", b & 0xfc));
        a.push(format!("set_field:{}->nw_ecn", b & 3));
    }
    match kind {
        "tcp" | "tcp6" | "udp" | "udp6" | "sctp" => {
            rest.push(format!("tp_src={}", r.port()));
            rest.push(format!("tp_dst={}", r.port()));
            a.push(format!("mod_tp_dst:{n}"));
        }
        "icmp" => {
            rest.push(format!("icmp_type={}", n & 0xff));
            rest.push(format!("icmp_code={b}"));
        }
        "icmp6" => {
            rest.push(format!("icmp_type={},nd_target={}", 135 + (b & 1), r.v6_masked()));
        }
        "arp" => {
            rest.push(format!("arp_op={}", b % 3));
            rest.push(format!("arp_spa={}", r.v4_masked()));
            rest.push(format!("arp_tha={}", r.mac_masked()));
            a.push(format!("set_field:{}->arp_tpa", r.v4()));
        }
        "mpls" => {
            rest.push(format!("mpls_label={}", m >> 44));
            rest.push(format!("mpls_tc={}", b & 7));
            a.push(format!("set_field:{}->mpls_label", m & 0xf_ffff));
            a.push("dec_mpls_ttl".into());
            a.push("pop_mpls:0x8847".into());
        }
        _ => {}
    }
    if kind.starts_with("tcp") {
        rest.push(format!("tcp_flags={:#x}/{:#x}", n & 0xfff, m & 0xfff));
    }
    for (i, t) in rest.into_iter().enumerate() {
        if i == 0 || r.below(3) == 0 {
            f.push(t);
        }
    }
    // Shuffled: the order of fields is free.
    for i in (1..f.len()).rev() {
        f.swap(i, r.below(i as u64 + 1) as usize);
    }
    a.push(format!("mod_dl_src:{}", r.mac()));
    a.push(format!("output:{}", n % 5000 + 1));
    a.push(format!("mod_vlan_vid:{}", n % 4096));
    a.push(format!("mod_vlan_pcp:{}", n % 8));
    a.push(format!("enqueue:{}:{}", n % 50 + 1, b));
    a.push(format!("set_field:{:#x}/{:#x}->metadata", 0xf, 0xf));
    a.push(format!("group:{b}"));
    a.push(format!("controller:{n}"));
    if has_tag {
        a.push("set_field:4100->vlan_vid".into());
        a.push("set_field:2->vlan_pcp".into());
    }
    a.retain(|_| r.below(3) == 0);
    let mut set = a.clone();
    set.retain(|s| r.below(3) == 0 && !s.starts_with("enqueue"));
    if r.below(5) == 0 {
        a.insert(0, format!("meter:{}", b + 1));
    }
    if r.below(5) == 0 {
        a.push("clear_actions".into());
    }
    // What the list does to a label or a tag may leave nothing for the set to do it to again.
    if r.below(3) == 0 && kind != "mpls" {
        a.push(format!("write_actions({})", set.join(",")));
    }
    if r.below(5) == 0 {
        a.push(format!("write_metadata:{n:#x}/{m:#x}"));
    }
    if r.below(5) == 0 {
        a.push("goto_table:254".into());
    }
    format!("{},actions={}", f.join(","), a.join(",")).trim_start_matches(',').to_owned()
}

/// Valid for weir alone: masks on every field, and weir's own fields and actions.
pub const WEIR: &[&str] = &[
    "mpls,mpls_label=0x5/0xf,actions=2",
    "in_port=0x4/0x6,actions=2",
    "vlan_tci=0x5000/0x5000,actions=2",
    "inner_vlan_tci=0x1005/0x1fff,dl_vlan=7,actions=pop_vlan,pop_vlan,channel",
    "inner_vlan_tci=0,actions=2",
    "ip,nw_proto=0x10/0xf0,actions=2",
    "ip,ip_dscp=0x8/0x38,nw_ecn=0x1/0x1,actions=2",
    "ip,nw_frag=0x2/0x2,actions=2",
    "dl_type=0x800/0xff00,actions=2",
    "dl_type=0x88e7,pbb_isid=0x5/0xff,actions=pop_pbb,2",
    "ipv6,ipv6_exthdr=0x1/0x1ff,actions=2",
    "in_phy_port=5,user0=1,user1=0x2/0x3,user3=*,actions=2",
    "user_present=0x0/0x4,actions=2",
    "user_present=0x1/0x5,user0=1,actions=2",
    "icmp,icmp_type=0x8/0xf8,actions=2",
    "tcp,actions=set_field:0x50/0xff->tp_src",
    "actions=channel",
    "actions=mirror:5,mirror:6,2",
    "ip,actions=copy_ttl_out,push_mpls:0x8847,copy_ttl_in,2",
    "actions=push_pbb:0x88e7,set_field:5->pbb_isid,2",
    "actions=encap_vxlan(vni=5000,src=10.0.0.1,dst=10.0.0.2,eth_src=02:00:00:00:00:01,eth_dst=02:00:00:00:00:02),2",
    "ipv6,actions=encap_vxlan(vni=0xffffff,src=::1,dst=::2,eth_src=2:0:0:0:0:1,eth_dst=2:0:0:0:0:2,ttl=1,tos=4,port=8472),dec_ttl,mod_vlan_vid:5,2",
    "actions=encap_gre(src=10.0.0.1,dst=10.0.0.2,eth_src=02:00:00:00:00:01,eth_dst=02:00:00:00:00:02),2",
    "actions=encap_gre(key=5,seq=0,csum=yes,src=10.0.0.1,dst=10.0.0.2,eth_src=02:00:00:00:00:01,eth_dst=02:00:00:00:00:02,ttl=9,tos=8),mod_nw_ttl:3,2",
    "udp,tp_dst=4789,actions=decap_vxlan,goto_table:1",
    "ip,nw_proto=47,actions=decap_gre,goto_table:1",
];
