//! Tables of so many rules that what these do is asked for ahead: thousands of meters, tunnels, rewriting rules, mixed, by a port that is
//! one VDP's and by one of two; each frame gets what its own rule says, each meter counts its own. The same in a later table.

use std::sync::Arc;
use weir_classify::{Field, Match};
use weir_dataplane::*;
use weir_io::replay::{Arena, Collect, Passes, Replay};
use weir_packet::*;

/// More than the slots whose programs are near, and more than the meters that are.
const RULES: u32 = 6_000;

fn address(n: u32) -> u32 {
    0x0a00_0000 | n
}

/// A frame of `n`'s, by its source address.
fn frame(n: u32) -> Vec<u8> {
    let mut f = vec![2, 0, 0, 0, 0, 1, 2, 0, 0, 0, 0, 2, 8, 0];
    f.extend([0x45, 0, 0, 46, 0, 0, 0, 0, 64, 17, 0, 0]);
    f.extend(address(n).to_be_bytes());
    f.extend([11, 0, 0, 1, 0, 9, 0, 9, 0, 26, 0, 0]);
    let sum: u32 = f[14..34].chunks(2).map(|c| u32::from(c[0]) << 8 | u32::from(c[1])).sum();
    f[24..26].copy_from_slice(&(!((sum & 0xffff) + (sum >> 16)) as u16).to_be_bytes());
    f.resize(60, 0);
    f
}

/// What the rule of `n` does before it sends.
fn does(n: u32) -> Vec<Action> {
    let outer = Outer {
        eth_src: [2; 6],
        eth_dst: [4; 6],
        ip: TunnelAddrs::V4([192, 0, 2, 1].into(), [192, 0, 2, 2].into()),
        ttl: 64,
        tos: 0,
    };
    match n % 4 {
        0 => vec![Action::Meter(n + 1)],
        1 => vec![Action::EncapVxlan { outer, vni: n, port: 4789 }],
        2 => {
            let value = u128::from(n);
            vec![Action::SetField { field: Field::EthDst, value, mask: u128::from(u64::MAX >> 16) }]
        }
        _ => Vec::new(),
    }
}

/// The number of the rule that a frame seems to have met; none where no rule does that.
fn met(f: &[u8]) -> Option<u32> {
    let word = |at: usize| u32::from_be_bytes(f[at..at + 4].try_into().unwrap());
    let number = |at: usize| word(at).checked_sub(address(0));
    match f.len() {
        // Behind 50 bytes of headers, of which VXLAN's identifier is said in the last eight.
        110 => number(50 + 26).filter(|n| n % 4 == 1 && word(46) >> 8 == *n),
        _ if f[..6] == [2, 0, 0, 0, 0, 1] => number(26).filter(|n| n % 4 == 0 || n % 4 == 3),
        _ => number(26).filter(|n| n % 4 == 2 && word(2) == *n),
    }
}

fn all_meet_their_own(vdps: u16, table: u8) {
    let mut plane = DataPlane::new(Config::default()).unwrap();
    let mut arena = Arena::new();
    // In an order that no cache likes; each twice, at the same time.
    for i in 0..RULES {
        let n = i * 2_477 % RULES;
        assert!(arena.push(&frame(n), None, 1) && arena.push(&frame(n), None, 1));
    }
    let source = Replay::new("in", Arc::new(arena), Passes::Times(1));
    let input = plane.add_port("in", Box::new(source)).unwrap();
    let (device, kept) = Collect::new("out", usize::MAX);
    let out = plane.add_port("out", Box::new(device)).unwrap();
    for vid in 1..=vdps {
        let mut spec = VdpSpec::new(Vid(vid), &format!("vdp{vid}"));
        spec.ports = vec![(PortNo(1), input), (PortNo(2), out)];
        // By the port where there is one, else by a bit of the address.
        let odd = u128::from(vid - 1);
        let matcher = match vdps {
            1 => Match::any().with(Field::InPort, 1),
            _ => Match::any().with(Field::EthType, 0x800).with_masked(Field::Ipv4Src, odd << 3, 8),
        };
        spec.mapping = vec![MappingRule { matcher, priority: 1 }];
        spec.default = vec![Action::Drop];
        plane.create_vdp(spec).unwrap();
        // Nothing is filled meanwhile: of two frames one passes.
        let band = Band { kind: BandKind::Drop, rate: 1, burst: 1 };
        for n in 0..RULES {
            if n % 4 == 0 {
                let meter = Meter::new(Unit::Packets, &[band]).unwrap();
                plane.put_meter(Vid(vid), n + 1, meter).unwrap();
            }
            let matcher = Match::any().with(Field::EthType, 0x800);
            let matcher = matcher.with(Field::Ipv4Src, address(n).into());
            let actions = [does(n), vec![Action::Output(Out::Port(PortNo(2)))]].concat().into();
            let rule = RuleSpec { matcher, priority: 1, cookie: 0, actions };
            plane.add_rule(Vid(vid), table, &rule, Placement::Fast).unwrap();
        }
        if table > 0 {
            let actions = Arc::new([Action::Goto(table)]);
            let all = RuleSpec { matcher: Match::any(), priority: 1, cookie: 0, actions };
            plane.add_rule(Vid(vid), 0, &all, Placement::Fast).unwrap();
        }
    }
    while plane.poll(Nanos(1)) > 0 {}
    let mut seen = vec![0; RULES as usize];
    for f in kept.take() {
        let n = met(&f.bytes);
        seen[n.unwrap_or_else(|| panic!("no rule does that: {:02x?}", f.bytes)) as usize] += 1;
    }
    for (n, seen) in (0..RULES).zip(seen) {
        assert_eq!(seen, if n % 4 == 0 { 1 } else { 2 }, "rule {n}");
        if n % 4 == 0 {
            let mine = Vid(if vdps == 1 { 1 } else { (n >> 3 & 1) as u16 + 1 });
            for vid in (1..=vdps).map(Vid) {
                let c = plane.meter_counters(vid, n + 1).unwrap();
                let (came, dropped) = if vid == mine { (2, 1) } else { (0, 0) };
                assert_eq!((c.counted.frames, c.bands[0].frames), (came, dropped), "meter {n}");
                assert_eq!(c.counted.bytes, 60 * came);
            }
        }
    }
    plane.snapshot().check().unwrap();
}

#[test]
fn by_a_port_that_is_one_vdps() {
    all_meet_their_own(1, 0);
}

#[test]
fn by_one_of_two_vdps() {
    all_meet_their_own(2, 0);
}

#[test]
fn in_a_later_table() {
    all_meet_their_own(1, 1);
    all_meet_their_own(2, 9);
}
