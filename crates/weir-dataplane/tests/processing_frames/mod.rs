//! One frame of every kind that the processing stage may meet, with right checksums, for the tests
//! of `processing/`. Bytes are laid by hand and summed by the plain routines here, so that nothing
//! that is under test makes its own questions.
#![allow(dead_code, reason = "each test program uses its part")]

/// A frame and what the judge must know of it.
#[derive(Clone, Debug)]
pub struct Kind {
    /// What it is.
    pub name: String,
    /// The frame.
    pub bytes: Vec<u8>,
    /// Of a first fragment, the IP payload of the fragments behind it: its checksum covers them.
    pub rest: Vec<u8>,
}

/// The Internet checksum (RFC 1071), word by word.
pub fn internet(parts: &[&[u8]]) -> u16 {
    let all: Vec<u8> = parts.concat();
    let word = |c: &[u8]| u64::from(c[0]) << 8 | u64::from(c.get(1).copied().unwrap_or(0));
    let mut sum: u64 = all.chunks(2).map(word).sum();
    while sum > 0xffff {
        sum = (sum & 0xffff) + (sum >> 16);
    }
    !(sum as u16)
}

/// CRC32c bit by bit (RFC 9260, appendix A).
pub fn crc32c(bytes: &[u8]) -> u32 {
    let mut crc = !0u32;
    for b in bytes {
        crc ^= u32::from(*b);
        for _ in 0..8 {
            crc = crc >> 1 ^ if crc & 1 == 1 { 0x82f6_3b78 } else { 0 };
        }
    }
    !crc
}

pub const DST: [u8; 6] = [2, 0, 0, 0, 0, 2];
pub const SRC: [u8; 6] = [2, 0, 0, 0, 0, 1];
const S4: [u8; 4] = [10, 1, 2, 3];
const D4: [u8; 4] = [192, 0, 2, 77];
const LAST4: [u8; 4] = [198, 51, 100, 9];

fn v6(tail: u8) -> [u8; 16] {
    let mut a = [0; 16];
    a[..4].copy_from_slice(&[0x20, 0x01, 0x0d, 0xb8]);
    (a[7], a[15]) = (0x5a, tail);
    a
}

/// The pseudo-header of either version.
pub fn pseudo(src: &[u8], dst: &[u8], proto: u8, len: usize) -> Vec<u8> {
    let mut p = [src, dst].concat();
    match src.len() {
        4 => p.extend([0, proto, (len >> 8) as u8, len as u8]),
        _ => {
            p.extend((len as u32).to_be_bytes());
            p.extend([0, 0, 0, proto]);
        }
    }
    p
}

/// Fills the checksum of a transport packet with its checksum field zero.
pub fn seal(proto: u8, src: &[u8], dst: &[u8], mut p: Vec<u8>) -> Vec<u8> {
    let at = match proto {
        6 => 16,
        17 => 6,
        1 | 58 => 2,
        132 => {
            let crc = crc32c(&p).to_le_bytes();
            p[8..12].copy_from_slice(&crc);
            return p;
        }
        _ => return p,
    };
    let covered = if proto == 1 { Vec::new() } else { pseudo(src, dst, proto, p.len()) };
    let sum = match internet(&[&covered, &p]) {
        0 if proto == 17 => 0xffff,
        sum => sum,
    };
    p[at..at + 2].copy_from_slice(&sum.to_be_bytes());
    p
}

fn tcp(options: &[u8], data: &[u8]) -> Vec<u8> {
    let mut p = vec![0x30, 0x39, 0x00, 0x50, 1, 2, 3, 4, 5, 6, 7, 8];
    p.extend([((20 + options.len()) as u8 / 4) << 4, 0x18, 0x20, 0, 0, 0, 0, 0]);
    [&p, options, data].concat()
}
fn udp(data: &[u8]) -> Vec<u8> {
    let len = (8 + data.len()) as u16;
    [&[0x27, 0x0f, 0x27, 0x10][..], &len.to_be_bytes(), &[0, 0], data].concat()
}
fn sctp(data: &[u8]) -> Vec<u8> {
    // A heartbeat with its one parameter (RFC 9260, section 3.3.5).
    let mut p = vec![0x0b, 0x59, 0x0b, 0x5a, 1, 2, 3, 4, 0, 0, 0, 0];
    p.extend([4, 0, 0, (8 + data.len()) as u8, 0, 1, 0, (4 + data.len()) as u8]);
    p.extend(data);
    p.resize(20 + data.len().div_ceil(4) * 4, 0);
    p
}
fn echo(kind: u8, data: &[u8]) -> Vec<u8> {
    [&[kind, 0, 0, 0, 0x12, 0x34, 0, 1][..], data].concat()
}

/// Fields of an IPv4 header that kinds differ in.
struct V4<'a> {
    proto: u8,
    ttl: u8,
    frag: u16,
    options: &'a [u8],
}
const PLAIN4: V4<'static> = V4 { proto: 17, ttl: 64, frag: 0x4000, options: &[] };

fn ipv4(h: &V4<'_>, payload: &[u8]) -> Vec<u8> {
    let ihl = 20 + h.options.len();
    let total = (ihl + payload.len()) as u16;
    let mut p = vec![0x40 | (ihl / 4) as u8, 0xba];
    p.extend(total.to_be_bytes());
    p.extend([0x43, 0x21]);
    p.extend(h.frag.to_be_bytes());
    p.extend([h.ttl, h.proto, 0, 0]);
    p.extend(S4);
    p.extend(D4);
    p.extend(h.options);
    let sum = internet(&[&p]);
    p[10..12].copy_from_slice(&sum.to_be_bytes());
    p.extend(payload);
    p
}

fn ipv6(next: u8, hops: u8, payload: &[u8]) -> Vec<u8> {
    let mut p = vec![0x6b, 0xa1, 0x23, 0x45];
    p.extend((payload.len() as u16).to_be_bytes());
    p.extend([next, hops]);
    p.extend(v6(1));
    p.extend(v6(2));
    p.extend(payload);
    p
}

/// Extension headers in front of `upper`: each as (type, body behind its next-header byte).
fn chain(headers: &[(u8, Vec<u8>)], proto: u8, upper: &[u8]) -> (u8, Vec<u8>) {
    let mut out = Vec::new();
    for (i, (_, body)) in headers.iter().enumerate() {
        out.push(headers.get(i + 1).map_or(proto, |n| n.0));
        out.extend(body);
    }
    out.extend(upper);
    (headers.first().map_or(proto, |h| h.0), out)
}

fn options8() -> Vec<u8> {
    vec![0, 1, 4, 0, 0, 0, 0]
}
fn routing0(left: u8) -> Vec<u8> {
    let mut b = vec![4, 0, left, 0, 0, 0, 0];
    b.extend(v6(0x31));
    b.extend(v6(0x32));
    b
}
fn routing2(left: u8) -> Vec<u8> {
    let mut b = vec![2, 2, left, 0, 0, 0, 0];
    b.extend(v6(0x33));
    b
}
fn segment_routing(left: u8) -> Vec<u8> {
    // The list is backwards: entry 0 is the last stop.
    let mut b = vec![4, 4, left, 1, 0, 0, 0];
    b.extend(v6(0x41));
    b.extend(v6(0x42));
    b
}
fn fragment(offset: u16, more: u16) -> Vec<u8> {
    let mut b = vec![0];
    b.extend((offset << 3 | more).to_be_bytes());
    b.extend([9, 8, 7, 6]);
    b
}
fn auth() -> Vec<u8> {
    let mut b = vec![4, 0, 0];
    b.extend([1; 20]);
    b
}

fn arp(op: u8) -> Vec<u8> {
    let mut p = vec![0, 1, 8, 0, 6, 4, 0, op];
    p.extend(SRC);
    p.extend(S4);
    p.extend(DST);
    p.extend(D4);
    p
}

fn gre(flags: u16, proto: u16, payload: &[u8]) -> Vec<u8> {
    let mut p = flags.to_be_bytes().to_vec();
    p.extend(proto.to_be_bytes());
    if flags & 0x8000 != 0 {
        p.extend([0; 4]);
    }
    if flags & 0x2000 != 0 {
        p.extend([0, 0, 0x1b, 0x39]);
    }
    if flags & 0x1000 != 0 {
        p.extend([0, 0, 0, 5]);
    }
    p.extend(payload);
    if flags & 0x8000 != 0 {
        let sum = internet(&[&p]);
        p[4..6].copy_from_slice(&sum.to_be_bytes());
    }
    p
}

fn label(n: u32, tc: u32, bottom: u32, ttl: u32) -> [u8; 4] {
    (n << 12 | tc << 9 | bottom << 8 | ttl).to_be_bytes()
}

/// A frame without tags.
pub fn ethernet(ethertype: u16, payload: &[u8]) -> Vec<u8> {
    [&DST[..], &SRC, &ethertype.to_be_bytes(), payload].concat()
}

/// The frame with a tag in front of its others.
pub fn tagged(tpid: u16, tci: u16, f: &[u8]) -> Vec<u8> {
    [&f[..12], &tpid.to_be_bytes(), &tci.to_be_bytes(), &f[12..]].concat()
}

struct Base {
    name: &'static str,
    ethertype: u16,
    payload: Vec<u8>,
    rest: Vec<u8>,
    padding: usize,
}

fn upper4(proto: u8) -> Vec<u8> {
    let p = match proto {
        6 => tcp(&[], b"hello, world"),
        17 => udp(b"hello"),
        1 => echo(8, b"abcdefg"),
        132 => sctp(b"data"),
        _ => b"an unknown protocol's header and body".to_vec(),
    };
    seal(proto, &S4, &D4, p)
}

fn upper6(proto: u8, dst: u8) -> Vec<u8> {
    let p = match proto {
        6 => tcp(&[2, 4, 5, 0xb4], b"odd"),
        17 => udp(b"hi"),
        58 => echo(128, b"abcdef"),
        132 => sctp(b"more data"),
        _ => b"an unknown protocol's header and body".to_vec(),
    };
    seal(proto, &v6(1), &v6(dst), p)
}

fn nd(kind: u8, option: &[u8]) -> Vec<u8> {
    let mut p = vec![kind, 0, 0, 0, 0, 0, 0, 0];
    p.extend(v6(2));
    p.extend(option);
    let p = seal(58, &v6(1), &v6(2), p);
    ipv6(58, 255, &p)
}

fn fragments4(list: &mut Vec<Base>) {
    for (name, proto, p) in [
        ("ipv4 first fragment tcp", 6, tcp(&[], &[0x61; 44])),
        ("ipv4 first fragment udp", 17, udp(&[0x62; 56])),
        ("ipv4 first fragment icmp", 1, echo(8, &[0x63; 56])),
        ("ipv4 first fragment sctp", 132, sctp(&[0x64; 36])),
    ] {
        let sealed = seal(proto, &S4, &D4, p);
        let (first, rest) = sealed.split_at(32);
        let h = V4 { proto, frag: 0x2000, ..PLAIN4 };
        let payload = ipv4(&h, first);
        list.push(Base { name, ethertype: 0x800, payload, rest: rest.to_vec(), padding: 0 });
    }
    for (name, proto) in [("ipv4 later fragment udp", 17), ("ipv4 later fragment tcp", 6)] {
        let h = V4 { proto, frag: 4, ..PLAIN4 };
        let payload = ipv4(&h, &[0x65; 33]);
        list.push(Base { name, ethertype: 0x800, payload, rest: Vec::new(), padding: 0 });
    }
}

fn all_ipv4(list: &mut Vec<Base>) {
    let mut add = |name, payload| {
        list.push(Base { name, ethertype: 0x800, payload, rest: Vec::new(), padding: 0 });
    };
    let h = |proto| V4 { proto, ..PLAIN4 };
    add("ipv4 tcp", ipv4(&h(6), &upper4(6)));
    let options = [2, 4, 5, 0xb4, 1, 3, 3, 7, 8, 10, 0, 0, 0, 1, 0, 0, 0, 2, 0, 0];
    add("ipv4 tcp options", ipv4(&h(6), &seal(6, &S4, &D4, tcp(&options, b"x"))));
    add("ipv4 udp", ipv4(&h(17), &upper4(17)));
    add("ipv4 udp without checksum", ipv4(&h(17), &udp(b"nosum")));
    add("ipv4 icmp echo", ipv4(&h(1), &upper4(1)));
    let quoted = ipv4(&h(17), &upper4(17));
    let unreachable = seal(1, &S4, &D4, [&[3, 1, 0, 0, 0, 0, 0, 0][..], &quoted].concat());
    add("ipv4 icmp unreachable", ipv4(&h(1), &unreachable));
    add("ipv4 sctp", ipv4(&h(132), &upper4(132)));
    add("ipv4 esp", ipv4(&h(50), &upper4(50)));
    add("ipv4 unknown protocol", ipv4(&h(253), &upper4(253)));
    add("ipv4 in ipv4", ipv4(&h(4), &quoted));
    add("ipv6 in ipv4", ipv4(&h(41), &ipv6(17, 9, &upper6(17, 2))));
    add("ipv4 ttl 1", ipv4(&V4 { proto: 17, ttl: 1, ..PLAIN4 }, &upper4(17)));
    add("ipv4 ttl 0", ipv4(&V4 { proto: 6, ttl: 0, ..PLAIN4 }, &upper4(6)));
    add("ipv4 ttl 2", ipv4(&V4 { proto: 6, ttl: 2, ..PLAIN4 }, &upper4(6)));
    let nops = [1, 1, 1, 0];
    add("ipv4 options nop", ipv4(&V4 { options: &nops, ..h(6) }, &upper4(6)));
    let record = [7, 7, 4, 0, 0, 0, 0, 0];
    add("ipv4 options record route", ipv4(&V4 { options: &record, ..h(17) }, &upper4(17)));
    let [a, b, c, d] = LAST4;
    let underway = [131, 7, 4, a, b, c, d, 0];
    let upper = seal(17, &S4, &LAST4, udp(b"routed"));
    add("ipv4 source route underway", ipv4(&V4 { options: &underway, ..h(17) }, &upper));
    let upper = seal(6, &S4, &LAST4, tcp(&[], b"routed"));
    add("ipv4 source route underway tcp", ipv4(&V4 { options: &underway, ..h(6) }, &upper));
    let arrived = [137, 7, 8, a, b, c, d, 0];
    add("ipv4 source route arrived", ipv4(&V4 { options: &arrived, ..h(17) }, &upper4(17)));
    let inner = ethernet(0x800, &ipv4(&h(6), &upper4(6)));
    let mut vxlan = vec![8, 0, 0, 0, 0, 0x12, 0x34, 0];
    vxlan.extend(&inner);
    let mut outer = udp(&vxlan);
    outer[2..4].copy_from_slice(&4789u16.to_be_bytes());
    add("ipv4 vxlan without checksum", ipv4(&h(17), &outer));
    add("ipv4 vxlan", ipv4(&h(17), &seal(17, &S4, &D4, outer.clone())));
    let ip_inside = ipv4(&h(17), &upper4(17));
    add("ipv4 gre ip", ipv4(&h(47), &gre(0, 0x800, &ip_inside)));
    add("ipv4 gre ip checksum key", ipv4(&h(47), &gre(0xa000, 0x800, &ip_inside)));
    let bridged = gre(0, 0x6558, &inner);
    add("ipv4 gre bridged", ipv4(&h(47), &bridged));
    add("ipv4 gre bridged all options", ipv4(&h(47), &gre(0xb000, 0x6558, &inner)));
    let mut wrong = gre(0x8000, 0x6558, &inner);
    wrong[5] ^= 1;
    add("ipv4 gre wrong checksum", ipv4(&h(47), &wrong));
    add("ipv4 gre version 1", ipv4(&h(47), &gre(1, 0x6558, &inner)));
    for (name, ttl) in [("ipv4 udp padded", 64), ("ipv4 udp padded more", 3)] {
        let payload = ipv4(&V4 { ttl, ..h(17) }, &upper4(17));
        list.push(Base { name, ethertype: 0x800, payload, rest: Vec::new(), padding: 13 });
    }
    // What lies behind the tunnel's packet is not the inner frame's.
    for (name, proto, inside) in
        [("ipv4 vxlan padded", 17, &outer), ("ipv4 gre bridged padded", 47, &bridged)]
    {
        let payload = ipv4(&h(proto), inside);
        list.push(Base { name, ethertype: 0x800, payload, rest: Vec::new(), padding: 9 });
    }
    fragments4(list);
}

fn all_ipv6(list: &mut Vec<Base>) {
    let mut add = |name, payload: Vec<u8>, rest: &[u8]| {
        list.push(Base { name, ethertype: 0x86dd, payload, rest: rest.to_vec(), padding: 0 });
    };
    for (name, proto) in [
        ("ipv6 tcp", 6),
        ("ipv6 udp", 17),
        ("ipv6 icmpv6 echo", 58),
        ("ipv6 sctp", 132),
        ("ipv6 esp", 50),
        ("ipv6 no next header", 59),
        ("ipv6 unknown protocol", 253),
    ] {
        add(name, ipv6(proto, 64, &upper6(proto, 2)), &[]);
    }
    add("ipv6 udp without checksum", ipv6(17, 64, &udp(b"nosum6")), &[]);
    add("ipv6 hop limit 1", ipv6(6, 1, &upper6(6, 2)), &[]);
    add("ipv6 in ipv6", ipv6(41, 64, &ipv6(6, 7, &upper6(6, 2))), &[]);
    add("ipv4 in ipv6", ipv6(4, 64, &ipv4(&PLAIN4, &upper4(17))), &[]);
    let inner = ethernet(0x86dd, &ipv6(17, 9, &upper6(17, 2)));
    let mut vxlan = vec![8, 0, 0, 0, 0, 0x12, 0x34, 0];
    vxlan.extend(&inner);
    let mut outer = udp(&vxlan);
    outer[2..4].copy_from_slice(&4789u16.to_be_bytes());
    add("ipv6 vxlan", ipv6(17, 64, &seal(17, &v6(1), &v6(2), outer)), &[]);
    add("ipv6 gre bridged key", ipv6(47, 64, &gre(0x2000, 0x6558, &inner)), &[]);
    add("ipv6 gre ip", ipv6(47, 64, &gre(0, 0x800, &ipv4(&PLAIN4, &upper4(17)))), &[]);
    let sll = [[1, 1].as_slice(), &SRC].concat();
    let tll = [[2, 1].as_slice(), &DST].concat();
    add("ipv6 nd solicitation", nd(135, &sll), &[]);
    add(
        "ipv6 nd solicitation, nonce first",
        nd(135, &[&[14, 1, 9, 9, 9, 9, 9, 9], &sll[..]].concat()),
        &[],
    );
    add("ipv6 nd solicitation bare", nd(135, &[]), &[]);
    add("ipv6 nd advertisement", nd(136, &tll), &[]);
    let (o, r) = (options8, fragment);
    for (name, headers, proto, dst) in [
        ("ipv6 hop-by-hop tcp", vec![(0, o())], 6, 2),
        ("ipv6 destination options udp", vec![(60, o())], 17, 2),
        ("ipv6 routing 0 arrived tcp", vec![(43, routing0(0))], 6, 2),
        ("ipv6 routing 0 underway tcp", vec![(43, routing0(2))], 6, 0x32),
        ("ipv6 routing 0 underway udp", vec![(0, o()), (43, routing0(1))], 17, 0x32),
        ("ipv6 routing 0 underway icmpv6", vec![(43, routing0(2))], 58, 0x32),
        ("ipv6 routing 0 underway sctp", vec![(43, routing0(2))], 132, 0x32),
        ("ipv6 routing 2 underway udp", vec![(43, routing2(1))], 17, 0x33),
        ("ipv6 segment routing udp", vec![(43, segment_routing(1))], 17, 0x41),
        ("ipv6 segment routing arrived tcp", vec![(43, segment_routing(0))], 6, 2),
        ("ipv6 whole fragment udp", vec![(44, r(0, 0))], 17, 2),
        ("ipv6 auth tcp", vec![(51, auth())], 6, 2),
        (
            "ipv6 all headers udp",
            vec![(0, o()), (60, o()), (43, routing0(0)), (44, r(0, 0)), (60, o())],
            17,
            2,
        ),
        ("ipv6 out of order tcp", vec![(60, o()), (60, o()), (60, o()), (43, routing0(0))], 6, 2),
    ] {
        let (next, p) = chain(&headers, proto, &upper6(proto, dst));
        add(name, ipv6(next, 64, &p), &[]);
    }
    for (name, before, proto, dst) in [
        ("ipv6 first fragment udp", vec![], 17, 2),
        ("ipv6 first fragment tcp", vec![(0, o())], 6, 2),
        ("ipv6 first fragment icmpv6", vec![], 58, 2),
        ("ipv6 first fragment sctp", vec![], 132, 2),
        ("ipv6 first fragment routed udp", vec![(43, routing0(1))], 17, 0x32),
    ] {
        let body = match proto {
            6 => tcp(&[], &[1; 44]),
            17 => udp(&[2; 56]),
            58 => echo(128, &[3; 56]),
            _ => sctp(&[4; 36]),
        };
        let sealed = seal(proto, &v6(1), &v6(dst), body);
        let (first, rest) = sealed.split_at(32);
        let headers: Vec<_> = before.into_iter().chain([(44, r(0, 1))]).collect();
        let (next, p) = chain(&headers, proto, first);
        add(name, ipv6(next, 64, &p), rest);
    }
    let (next, p) = chain(&[(44, r(4, 0))], 17, &[7; 24]);
    add("ipv6 later fragment udp", ipv6(next, 64, &p), &[]);
}

fn others(list: &mut Vec<Base>) {
    let mut add = |name, ethertype, payload: Vec<u8>| {
        list.push(Base { name, ethertype, payload, rest: Vec::new(), padding: 0 });
    };
    add("arp request", 0x806, arp(1));
    add("arp reply", 0x806, arp(2));
    add("rarp", 0x8035, arp(3));
    let mut long = arp(1);
    long[4] = 8;
    add("arp of another link", 0x806, [&long[..], &[0; 4]].concat());
    let (tcp4, udp6) = (ipv4(&V4 { proto: 6, ..PLAIN4 }, &upper4(6)), ipv6(17, 64, &upper6(17, 2)));
    add("mpls ipv4", 0x8847, [&label(100, 5, 1, 60)[..], &tcp4].concat());
    add("mpls ipv6", 0x8847, [&label(2, 1, 1, 33)[..], &udp6].concat());
    add("mpls multicast ipv4", 0x8848, [&label(77, 0, 1, 5)[..], &tcp4].concat());
    add(
        "mpls two labels",
        0x8847,
        [&label(100, 5, 0, 60)[..], &label(200, 3, 1, 7), &tcp4].concat(),
    );
    add(
        "mpls three labels",
        0x8847,
        [&label(1000, 7, 0, 2)[..], &label(200, 3, 0, 7), &label(3, 0, 1, 1), &udp6].concat(),
    );
    add("mpls ttl 1", 0x8847, [&label(100, 5, 1, 1)[..], &tcp4].concat());
    let wire = [&[0, 0, 0, 0][..], &ethernet(0x800, &tcp4)].concat();
    add("mpls pseudo-wire", 0x8847, [&label(100, 0, 1, 9)[..], &wire].concat());
    let customer = ethernet(0x800, &tcp4);
    add("pbb ipv4", 0x88e7, [&[0x60, 0x12, 0x34, 0x56][..], &customer].concat());
    add("pbb tagged", 0x88e7, [&[0, 0, 0, 9][..], &tagged(0x8100, 0x6064, &customer)].concat());
    add("lldp", 0x88cc, vec![2, 7, 4, 2, 0, 0, 0, 0, 1, 4, 2, 7, 49, 6, 2, 0, 120, 0, 0]);
    add("unknown type", 0x1234, b"whatever this may be".to_vec());
    add("empty", 0x88b5, Vec::new());
    add("one byte", 0x88b5, vec![1]);
    let stp = [0x42, 0x42, 3, 0, 0, 0, 0, 0, 0x80, 0, 2, 0, 0, 0, 0, 1, 0, 0, 0, 0];
    add("802.3 llc", stp.len() as u16, stp.to_vec());
    let snap = [&[0xaa, 0xaa, 3, 0, 0, 0, 8, 0][..], &tcp4].concat();
    add("802.3 snap ipv4", snap.len() as u16, snap);
}

/// Every kind, with zero, one and two VLAN tags, and some with three.
pub fn kinds() -> Vec<Kind> {
    let mut list = Vec::new();
    all_ipv4(&mut list);
    all_ipv6(&mut list);
    others(&mut list);
    let mut out = Vec::new();
    for b in list {
        let mut plain = ethernet(b.ethertype, &b.payload);
        plain.resize(plain.len() + b.padding, 0x5f);
        let mut add = |tags: &str, bytes: Vec<u8>| {
            let name = format!("{}{tags}", b.name);
            out.push(Kind { name, bytes, rest: b.rest.clone() });
        };
        let one = tagged(0x8100, 0x6064, &plain);
        add("", plain);
        let two = tagged(0x88a8, 0xb0c8, &one);
        if b.name == "ipv4 udp" || b.name == "mpls ipv4" {
            add(", three tags", tagged(0x9100, 0x0001, &two));
        }
        add(", one tag", one);
        add(", two tags", two);
    }
    out
}
