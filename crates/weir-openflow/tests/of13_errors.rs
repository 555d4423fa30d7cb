//! What is wrong with a 1.3 message has one name, the specification's; and what is right has none.

use weir_openflow::codec::decode;
use weir_openflow::model::ErrorCode::{self, *};
use weir_openflow::model::{Message, Port, Version};

/// A message of a type around a body.
fn frame(kind: u8, body: &[u8]) -> Vec<u8> {
    let length = u16::try_from(8 + body.len()).unwrap().to_be_bytes();
    let mut frame = vec![4, kind, length[0], length[1], 0, 0, 0, 9];
    frame.extend(body);
    frame
}

fn padded(mut bytes: Vec<u8>) -> Vec<u8> {
    bytes.resize(bytes.len().next_multiple_of(8), 0);
    bytes
}

/// An ofp_match around TLVs.
fn matcher(tlvs: &[u8]) -> Vec<u8> {
    let length = u16::try_from(4 + tlvs.len()).unwrap().to_be_bytes();
    padded([&[0, 1, length[0], length[1]], tlvs].concat())
}

/// An OXM TLV of the basic class; `mask`: 0 or 1.
fn oxm(field: u8, mask: u8, payload: &[u8]) -> Vec<u8> {
    [&[0x80, 0, field << 1 | mask, payload.len() as u8], payload].concat()
}

/// A type, a length that is true, and a body.
fn tlv(kind: u16, body: &[u8]) -> Vec<u8> {
    let length = u16::try_from(4 + body.len()).unwrap().to_be_bytes();
    [&kind.to_be_bytes(), &length[..], body].concat()
}

struct Flow {
    table: u8,
    command: u8,
    flags: u16,
    matcher: Vec<u8>,
    instructions: Vec<u8>,
}

impl Flow {
    fn new() -> Flow {
        Flow { table: 0, command: 0, flags: 0, matcher: matcher(&[]), instructions: vec![] }
    }
    fn frame(&self) -> Vec<u8> {
        let mut body = vec![0; 16];
        body.extend([self.table, self.command, 0, 0, 0, 0, 0, 1]);
        body.extend([0xff; 12]);
        body.extend(self.flags.to_be_bytes());
        body.extend([0, 0]);
        body.extend(&self.matcher);
        body.extend(&self.instructions);
        frame(14, &body)
    }
}

/// A flow with these TLVs as its match.
fn with_match(tlvs: &[Vec<u8>]) -> Vec<u8> {
    Flow { matcher: matcher(&tlvs.concat()), ..Flow::new() }.frame()
}

/// A flow that matches IPv4 over TCP and has these instructions.
fn with_instructions(instructions: &[Vec<u8>]) -> Vec<u8> {
    let tcp = [ETH_IPV4.to_vec(), oxm(10, 0, &[6])].concat();
    Flow { matcher: matcher(&tcp), instructions: instructions.concat(), ..Flow::new() }.frame()
}

/// The same with one apply-actions.
fn with_actions(actions: &[Vec<u8>]) -> Vec<u8> {
    with_instructions(&[tlv(4, &[&[0; 4], &actions.concat()[..]].concat())])
}

/// A set-field around a TLV.
fn set_field(oxm: &[u8]) -> Vec<u8> {
    let length = (4 + oxm.len()).next_multiple_of(8) as u8;
    padded([&[0, 25, 0, length], oxm].concat())
}

const ETH_IPV4: &[u8] = &[0x80, 0, 5 << 1, 2, 8, 0];
const ETH_IPV6: &[u8] = &[0x80, 0, 5 << 1, 2, 0x86, 0xdd];
const ETH_ARP: &[u8] = &[0x80, 0, 5 << 1, 2, 8, 6];

#[track_caller]
fn refused(frame: &[u8], code: ErrorCode) {
    match decode(Version::V13, frame) {
        Ok(msg) => panic!("taken, not {code:?}: {msg:?}"),
        Err(e) => {
            assert_eq!(e.code, code);
            assert_eq!(e.xid, 9);
            assert_eq!(e.data, frame[..frame.len().min(1024)]);
        }
    }
}

#[track_caller]
fn taken(frame: &[u8]) -> Message {
    decode(Version::V13, frame).unwrap().body
}

#[test]
fn headers() {
    refused(&frame(30, &[]), BadType);
    refused(&frame(0xff, &[0; 16]), BadType);
    refused(&frame(20, &[0]), BadLen);
    refused(&frame(5, &[0; 8]), BadLen);
    let mut other = frame(20, &[]);
    other[0] = 1;
    refused(&other, BadVersion);
    let mut lie = frame(20, &[]);
    lie[3] = 9;
    refused(&lie, BadLen);
    // A hello may be of any version; one without its element, too.
    other[1] = 0;
    taken(&other);
}

#[test]
fn what_is_short_everywhere() {
    for kind in 6..30u8 {
        if matches!(kind, 7 | 20 | 21 | 26) {
            continue;
        }
        refused(&frame(kind, &[]), BadLen);
    }
    refused(&frame(14, &[0; 40]), BadLen);
}

#[test]
fn flow_mods() {
    taken(&Flow::new().frame());
    refused(&Flow { command: 5, ..Flow::new() }.frame(), FlowBadCommand);
    refused(&Flow { flags: 0x20, ..Flow::new() }.frame(), FlowBadFlags);
    refused(&Flow { table: 0xff, ..Flow::new() }.frame(), FlowBadTableId);
    taken(&Flow { table: 0xff, command: 3, ..Flow::new() }.frame());
}

#[test]
fn matches() {
    let mut standard = Flow::new();
    standard.matcher[1] = 0;
    refused(&standard.frame(), MatchBadType);
    for length in [0, 3, 9, 200] {
        let mut lying = Flow::new();
        lying.matcher[3] = length;
        refused(&lying.frame(), MatchBadLen);
    }
    let port = oxm(0, 0, &[0, 0, 0, 1]);
    taken(&with_match(std::slice::from_ref(&port)));
    refused(&with_match(&[port.clone(), port.clone()]), MatchDupField);
    refused(&with_match(&[port[..7].to_vec()]), MatchBadLen);
    refused(&with_match(&[oxm(0, 0, &[0; 3])]), MatchBadLen);
    refused(&with_match(&[oxm(0, 0, &[0; 8])]), MatchBadLen);
    refused(&with_match(&[oxm(3, 1, &[0; 6])]), MatchBadLen);
    refused(&with_match(&[vec![0x80, 0]]), MatchBadLen);
    refused(&with_match(&[oxm(40, 0, &[0; 4])]), MatchBadField);
    for class in [[0, 0], [0, 1], [0x80, 1], [0xff, 0xff]] {
        let mut foreign = oxm(0, 0, &[0, 0, 0, 1]);
        foreign[..2].copy_from_slice(&class);
        refused(&with_match(&[foreign]), MatchBadField);
    }
}

#[test]
fn match_values() {
    let ip = ETH_IPV4.to_vec();
    refused(&with_match(&[oxm(0, 0, &[0; 4])]), MatchBadValue);
    // §7.2.3.7: packets come from real ports, LOCAL and CONTROLLER.
    for port in 0xffff_ff00..=u32::MAX {
        let frame = with_match(&[oxm(0, 0, &port.to_be_bytes())]);
        match Port(port) {
            Port::MAX | Port::LOCAL | Port::CONTROLLER => drop(taken(&frame)),
            _ => refused(&frame, MatchBadValue),
        }
    }
    refused(&with_match(&[oxm(6, 0, &[0x20, 0])]), MatchBadValue);
    refused(&with_match(&[oxm(6, 0, &[0, 5])]), MatchBadValue);
    taken(&with_match(&[oxm(6, 0, &[0, 0])]));
    taken(&with_match(&[oxm(6, 0, &[0x10, 5])]));
    let vlan = oxm(6, 1, &[0x10, 0, 0x10, 0]);
    taken(&with_match(&[vlan.clone(), oxm(7, 0, &[7])]));
    refused(&with_match(&[vlan, oxm(7, 0, &[8])]), MatchBadValue);
    taken(&with_match(&[ip.clone(), oxm(8, 0, &[63])]));
    refused(&with_match(&[ip.clone(), oxm(8, 0, &[64])]), MatchBadValue);
    refused(&with_match(&[ip, oxm(9, 0, &[4])]), MatchBadValue);
    let mpls = oxm(5, 0, &[0x88, 0x47]);
    refused(&with_match(&[mpls.clone(), oxm(34, 0, &[0, 0x10, 0, 0])]), MatchBadValue);
    refused(&with_match(&[mpls, oxm(36, 0, &[2])]), MatchBadValue);
}

#[test]
fn match_masks() {
    // What can't be masked, what can, and what a mask leaves out.
    refused(&with_match(&[oxm(5, 1, &[8, 0, 0xff, 0])]), MatchBadMask);
    taken(&with_match(&[oxm(5, 1, &[8, 0, 0xff, 0xff])]));
    refused(&with_match(&[oxm(3, 1, &[0, 0, 0, 0, 0, 1, 0xff, 0, 0, 0, 0, 0])]), MatchBadWildcards);
    let zero = with_match(&[oxm(3, 1, &[0; 12])]);
    let Message::FlowMod(flow) = taken(&zero) else { panic!() };
    assert!(flow.matcher.0.is_empty());
    let exthdr = |mask: u8| with_match(&[ETH_IPV6.to_vec(), oxm(39, 1, &[0, 1, mask, 1])]);
    taken(&exthdr(1));
    refused(&exthdr(2), MatchBadMask);
    for (field, width, prerequisite) in [(11, 4, ETH_IPV4), (22, 4, ETH_ARP), (26, 16, ETH_IPV6)] {
        let mut payload = vec![0; 2 * width];
        payload[0] = 10;
        payload[width] = 0xff;
        taken(&with_match(&[prerequisite.to_vec(), oxm(field, 1, &payload)]));
    }
}

#[test]
fn match_prerequisites() {
    let (v4, v6) = (ETH_IPV4.to_vec(), ETH_IPV6.to_vec());
    let src = oxm(11, 0, &[10, 0, 0, 1]);
    refused(&with_match(std::slice::from_ref(&src)), MatchBadPrereq);
    refused(&with_match(&[v6.clone(), src.clone()]), MatchBadPrereq);
    // §7.2.3.6: it stands before what needs it.
    refused(&with_match(&[src.clone(), v4.clone()]), MatchBadPrereq);
    taken(&with_match(&[v4.clone(), src]));
    refused(&with_match(&[oxm(1, 0, &[0, 0, 0, 1])]), MatchBadPrereq);
    refused(&with_match(&[oxm(7, 0, &[1])]), MatchBadPrereq);
    refused(&with_match(&[oxm(6, 0, &[0, 0]), oxm(7, 0, &[1])]), MatchBadPrereq);
    let port = oxm(13, 0, &[0, 80]);
    refused(&with_match(&[v4.clone(), port.clone()]), MatchBadPrereq);
    refused(&with_match(&[v4.clone(), oxm(10, 0, &[17]), port.clone()]), MatchBadPrereq);
    taken(&with_match(&[v6.clone(), oxm(10, 0, &[6]), port]));
    let icmp6 = [v6, oxm(10, 0, &[58])].concat();
    let target = oxm(31, 0, &[0; 16]);
    refused(&with_match(&[icmp6.clone(), target.clone()]), MatchBadPrereq);
    refused(&with_match(&[icmp6.clone(), oxm(29, 0, &[128]), target.clone()]), MatchBadPrereq);
    taken(&with_match(&[icmp6.clone(), oxm(29, 0, &[135]), target]));
    refused(&with_match(&[icmp6, oxm(29, 0, &[135]), oxm(33, 0, &[0; 6])]), MatchBadPrereq);
}

#[test]
fn instructions() {
    refused(&with_instructions(&[tlv(0, &[0; 4])]), InstUnknown);
    refused(&with_instructions(&[tlv(7, &[0; 4])]), InstUnknown);
    refused(&with_instructions(&[vec![0, 1, 0, 7, 0, 0, 0]]), InstBadLen);
    refused(&with_instructions(&[vec![0, 5, 0, 12, 0, 0, 0, 0, 0, 0, 0, 0]]), InstBadLen);
    refused(&with_instructions(&[vec![0, 5, 0, 16, 0, 0, 0, 0]]), InstBadLen);
    refused(&with_instructions(&[tlv(5, &[0; 12])]), InstBadLen);
    refused(&with_instructions(&[tlv(2, &[0; 12])]), InstBadLen);
    refused(&with_instructions(&[tlv(1, &[0xff, 0, 0, 0])]), InstBadTableId);
    refused(&with_instructions(&[tlv(1, &[0, 0, 0, 0])]), InstBadTableId);
    taken(&with_instructions(&[tlv(1, &[1, 0, 0, 0])]));
    let goto = tlv(1, &[4, 0, 0, 0]);
    refused(&Flow { table: 4, instructions: goto, ..Flow::new() }.frame(), InstBadTableId);
    refused(&with_instructions(&[tlv(5, &[0; 4]), tlv(5, &[0; 4])]), InstUnsupported);
    refused(&with_instructions(&[tlv(6, &[0; 4])]), MeterInvalid);
    refused(&with_instructions(&[tlv(6, &[0xff; 4])]), MeterInvalid);
    // Kept in the order in which they are carried out.
    let Message::FlowMod(flow) =
        taken(&with_instructions(&[tlv(1, &[1, 0, 0, 0]), tlv(5, &[0; 4]), tlv(6, &[0, 0, 0, 1])]))
    else {
        panic!()
    };
    assert_eq!(format!("{:?}", flow.instructions), "[Meter(1), Clear, GotoTable(1)]");
}

#[test]
fn actions() {
    let output = |port: u32| tlv(0, &[&port.to_be_bytes()[..], &[0; 8]].concat());
    taken(&with_actions(&[output(1), output(0xffff_fffd)]));
    for port in [0, 0xffff_ff01, 0xffff_fff7, 0xffff_fff9, 0xffff_ffff] {
        refused(&with_actions(&[output(port)]), ActionBadOutPort);
    }
    refused(&with_actions(&[tlv(1, &[0; 4])]), ActionBadType);
    refused(&with_actions(&[tlv(28, &[0; 4])]), ActionBadType);
    refused(&with_actions(&[tlv(0, &[0, 0, 0, 1])]), ActionBadLen);
    refused(&with_actions(&[tlv(18, &[0; 12])]), ActionBadLen);
    refused(&with_actions(&[vec![0, 18, 0, 4, 0, 0, 0, 0]]), ActionBadLen);
    refused(&with_actions(&[vec![0, 18, 0, 16, 0, 0, 0, 0]]), ActionBadLen);
    refused(&with_actions(&[vec![0, 18, 0, 12, 0, 0, 0, 0]]), ActionBadLen);
    refused(&with_actions(&[tlv(17, &[8, 0, 0, 0])]), ActionBadArgument);
    refused(&with_actions(&[tlv(19, &[0x81, 0, 0, 0])]), ActionBadArgument);
    refused(&with_actions(&[tlv(26, &[0x81, 0, 0, 0])]), ActionBadArgument);
    refused(&with_actions(&[tlv(22, &[0xff; 4])]), ActionBadOutGroup);
}

#[test]
fn set_fields() {
    let set = |field, mask, payload: &[u8]| with_actions(&[set_field(&oxm(field, mask, payload))]);
    taken(&set(13, 0, &[0, 80]));
    refused(&set(40, 0, &[0; 4]), ActionBadSetType);
    for field in [0, 1] {
        refused(&set(field, 0, &[0, 0, 0, 1]), ActionBadSetType);
    }
    refused(&set(2, 0, &[0; 8]), ActionBadSetType);
    refused(&set(39, 0, &[0; 2]), ActionBadSetType);
    refused(&set(11, 1, &[0; 8]), ActionBadSetType);
    refused(&set(11, 0, &[0; 3]), ActionBadSetLen);
    refused(&set(3, 0, &[0; 8]), ActionBadSetLen);
    refused(&set(6, 0, &[0, 5]), ActionBadSetArgument);
    refused(&set(8, 0, &[64]), ActionBadSetArgument);
    let long = [&[0, 25, 0, 24], &oxm(8, 0, &[1])[..], &[0; 15]].concat();
    refused(&with_actions(&[long]), ActionBadSetLen);
    // The match names TCP over IPv4.
    refused(&set(15, 0, &[0, 80]), ActionMatchInconsistent);
    refused(&set(26, 0, &[0; 16]), ActionMatchInconsistent);
    refused(&set(34, 0, &[0; 4]), ActionMatchInconsistent);
    let label = set_field(&oxm(34, 0, &[0, 0, 0, 1]));
    taken(&with_actions(&[tlv(19, &[0x88, 0x47, 0, 0]), label.clone()]));
    refused(&with_actions(&[label.clone(), tlv(19, &[0x88, 0x47, 0, 0])]), ActionMatchInconsistent);
    // In an action set, the push comes first wherever it stands.
    let set = [label, tlv(19, &[0x88, 0x47, 0, 0])].concat();
    taken(&with_instructions(&[tlv(3, &[&[0; 4], &set[..]].concat())]));
}

#[test]
fn packet_outs() {
    let out = |port: u32, actions_len: u8, actions: &[u8]| {
        let head = [&[0xff; 4][..], &port.to_be_bytes(), &[0, actions_len], &[0; 6]].concat();
        frame(13, &[&head, actions].concat())
    };
    let to_table = tlv(0, &[&0xffff_fff9_u32.to_be_bytes()[..], &[0; 8]].concat());
    taken(&out(0xffff_fffd, 16, &to_table));
    refused(&out(1, 24, &to_table), BadLen);
    refused(&out(0, 0, &[]), BadPort);
    refused(&out(0xffff_fff9, 0, &[]), BadPort);
    refused(&out(1, 8, &[0, 18, 0, 16, 0, 0, 0, 0]), ActionBadLen);
}

#[test]
fn groups() {
    let bucket = |weight: u8, watch: u8| {
        [&[0, 16, 0, weight], &[watch; 4][..], &[0xff; 4], &[0; 4]].concat()
    };
    let group = |command: u8, kind: u8, id: u32, buckets: &[Vec<u8>]| {
        frame(15, &[&[0, command, kind, 0], &id.to_be_bytes()[..], &buckets.concat()].concat())
    };
    taken(&group(0, 0, 1, &[bucket(0, 0xff), bucket(0, 0xff)]));
    refused(&group(3, 0, 1, &[]), GroupBadCommand);
    refused(&group(0, 4, 1, &[]), GroupBadType);
    refused(&group(0, 0, 0xffff_ff01, &[]), GroupInvalid);
    refused(&group(0, 0, 0xffff_fffc, &[]), GroupInvalid);
    refused(&group(2, 0, 0xffff_ffff, &[]), GroupInvalid);
    taken(&group(2, 0, 0xffff_fffc, &[]));
    refused(&group(0, 2, 1, &[]), GroupInvalid);
    refused(&group(0, 2, 1, &[bucket(0, 0xff), bucket(0, 0xff)]), GroupInvalid);
    refused(&group(0, 0, 1, &[bucket(1, 0xff)]), GroupInvalid);
    taken(&group(0, 1, 1, &[bucket(1, 0xff)]));
    refused(&group(0, 3, 1, &[bucket(0, 0xff)]), GroupInvalid);
    taken(&group(0, 3, 1, &[bucket(0, 1)]));
    for length in [0, 8, 20, 24] {
        let mut lying = bucket(0, 0xff);
        lying[1] = length;
        refused(&group(0, 0, 1, &[lying]), GroupBadBucket);
    }
}

#[test]
fn meters() {
    let band = |kind: u8| [&[0, kind, 0, 16], &[0; 12][..]].concat();
    let meter = |command: u8, flags: u8, id: u32, bands: &[u8]| {
        frame(29, &[&[0, command, 0, flags], &id.to_be_bytes()[..], bands].concat())
    };
    taken(&meter(0, 1, 1, &band(1)));
    refused(&meter(3, 1, 1, &[]), MeterBadCommand);
    refused(&meter(0, 3, 1, &[]), MeterBadFlags);
    refused(&meter(0, 16, 1, &[]), MeterBadFlags);
    refused(&meter(0, 1, 0, &[]), MeterInvalid);
    refused(&meter(0, 1, 0xffff_ffff, &[]), MeterInvalid);
    taken(&meter(2, 0, 0xffff_ffff, &[]));
    taken(&meter(0, 1, 0xffff_fffe, &band(2)));
    refused(&meter(0, 1, 1, &band(3)), MeterBadBand);
    refused(&meter(0, 1, 1, &band(1)[..12]), BadLen);
}

#[test]
fn ports_tables_roles_and_the_rest() {
    let port_mod = |config: u8, advertise: u32| {
        let head = [&[0, 0, 0, 1][..], &[0; 12], &[0, 0, 0, 0], &[0, 0, 0, config]].concat();
        frame(16, &[&head[..], &advertise.to_be_bytes(), &[0; 4]].concat())
    };
    taken(&port_mod(0x65, 1));
    refused(&port_mod(0x02, 1), PortBadConfig);
    refused(&port_mod(1, 0x1_0000), PortBadAdvertise);
    refused(&frame(17, &[0, 0, 0, 0, 0, 0, 0, 4]), TableBadConfig);
    let role = |n: u8| frame(24, &[&[0, 0, 0, n][..], &[0; 12]].concat());
    taken(&role(3));
    refused(&role(4), RoleBadRole);
    refused(&frame(24, &[0, 0, 0, 4]), BadLen);
    refused(&frame(9, &[0, 3, 0, 0]), ConfigBadFlags);
    refused(&frame(9, &[0, 4, 0, 0]), ConfigBadFlags);
    taken(&frame(8, &[0, 3, 0, 0]));
}

#[test]
fn multipart_requests() {
    let request = |kind: u8, body: &[u8]| frame(18, &[&[0, kind, 0, 0, 0, 0, 0, 0], body].concat());
    refused(&request(14, &[]), BadMultipart);
    refused(&request(0, &[0]), BadLen);
    refused(&request(4, &[0; 4]), BadLen);
    let table = |properties: &[u8]| {
        let length = (64 + properties.len()) as u8;
        request(12, &[&[0, length], &[0; 62][..], properties].concat())
    };
    taken(&table(&[]));
    taken(&table(&[0, 2, 0, 5, 1, 0, 0, 0]));
    refused(&table(&[0, 2, 0, 3, 0, 0, 0, 0]), TableFeaturesBadLen);
    refused(&table(&[0, 2, 0, 12, 0, 0, 0, 0]), TableFeaturesBadLen);
    refused(&table(&[0, 2, 0, 5]), TableFeaturesBadLen);
    for kind in [9, 11, 16, 0xff] {
        refused(&table(&[0, kind, 0, 4, 0, 0, 0, 0]), TableFeaturesBadType);
    }
    refused(&table(&[0, 8, 0, 8, 0x80, 0, 0x50, 0]), TableFeaturesBadArgument);
    refused(&request(12, &[0, 63]), TableFeaturesBadLen);
    refused(&request(12, &[0; 64]), TableFeaturesBadLen);
}
