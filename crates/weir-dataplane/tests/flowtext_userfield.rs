//! A VDP's own fields: where they are read, when a frame has them, what definitions are refused.

use proptest::prelude::*;
use weir_classify::{Field, FlowKey, Match};
use weir_dataplane::flowtext::{Names, parse_match};
use weir_dataplane::{Layer, PortNo, UserField, UserFieldError, UserFields, extract};

fn field(name: &str, layer: Layer, at: u16, skip: u8, width: u8) -> UserField {
    UserField::new(name, layer, at, skip, width, None).expect(name)
}

struct Own(UserFields);

impl Names for Own {
    fn port(&self, _: &str) -> Option<PortNo> {
        None
    }
    fn port_name(&self, _: PortNo) -> Option<&str> {
        None
    }
    fn user_fields(&self) -> &UserFields {
        &self.0
    }
}

fn key(fields: &UserFields, frame: &[u8]) -> FlowKey {
    let mut key = FlowKey::default();
    let layers = extract(frame, 1, &mut key).expect("a frame");
    fields.extract(frame, &layers, &mut key);
    key
}

/// The value of one field, or `None` where the frame has it not.
fn read(f: UserField, frame: &[u8]) -> Option<u128> {
    let k = key(&UserFields::new(vec![f]).expect("field"), frame);
    match k.get(Field::UserPresent) {
        0 => {
            assert_eq!(k.get(Field::User0), 0);
            None
        }
        _ => Some(k.get(Field::User0)),
    }
}

/// Ethernet, optional VLAN tag, then `rest`.
fn frame(vlan: Option<u16>, ethertype: u16, rest: &[u8]) -> Vec<u8> {
    let mut f = vec![2, 0, 0, 0, 0, 1, 2, 0, 0, 0, 0, 2];
    if let Some(tci) = vlan {
        f.extend([0x81, 0]);
        f.extend(tci.to_be_bytes());
    }
    f.extend(ethertype.to_be_bytes());
    f.extend(rest);
    f
}

/// IPv4 with `options` bytes of options.
fn ipv4(proto: u8, fragment: u16, options: usize, payload: &[u8]) -> Vec<u8> {
    let length = (20 + options + payload.len()) as u16;
    let mut h = vec![0x40 | (5 + options as u8 / 4), 0];
    h.extend(length.to_be_bytes());
    h.extend([0, 0]);
    h.extend(fragment.to_be_bytes());
    h.extend([64, proto, 0, 0, 10, 0, 0, 1, 10, 0, 0, 2]);
    h.extend(vec![1; options]);
    h.extend(payload);
    h
}

fn ipv6(next: u8, payload: &[u8]) -> Vec<u8> {
    let mut h = vec![0x60, 0, 0, 0];
    h.extend((payload.len() as u16).to_be_bytes());
    h.extend([next, 64]);
    h.extend([0x20; 32]);
    h.extend(payload);
    h
}

#[test]
fn an_unknown_ethertype() {
    let f = frame(Some(5), 0x9999, &[0xde, 0xad, 0xbe, 0xef]);
    assert_eq!(read(field("f", Layer::Network, 0, 0, 32), &f), Some(0xdead_beef));
    assert_eq!(read(field("f", Layer::Network, 1, 4, 8), &f), Some(0xdb));
    assert_eq!(read(field("f", Layer::Network, 3, 7, 1), &f), Some(1));
    assert_eq!(read(field("f", Layer::Ethernet, 0, 0, 8), &f), Some(2));
    assert_eq!(read(field("f", Layer::Transport, 0, 0, 8), &f), None);
    assert_eq!(read(field("f", Layer::Payload, 0, 0, 8), &f), None);
    // Partly or wholly behind the frame's end.
    assert_eq!(read(field("f", Layer::Network, 1, 0, 32), &f), None);
    assert_eq!(read(field("f", Layer::Network, 3, 1, 8), &f), None);
    assert_eq!(read(field("f", Layer::Network, u16::MAX, 7, 32), &f), None);
}

#[test]
fn an_unknown_ip_protocol() {
    let body = [1, 2, 3, 4, 5, 6, 7, 8];
    for options in [0, 8] {
        let f = frame(None, 0x0800, &ipv4(253, 0, options, &body));
        assert_eq!(read(field("f", Layer::Transport, 0, 0, 16), &f), Some(0x0102));
        assert_eq!(read(field("f", Layer::Transport, 7, 0, 8), &f), Some(8));
        assert_eq!(read(field("f", Layer::Payload, 0, 0, 8), &f), None);
        // Padding is not the datagram.
        let mut padded = f.clone();
        padded.extend([0; 20]);
        assert_eq!(read(field("f", Layer::Transport, 8, 0, 8), &padded), None);
        assert_eq!(read(field("f", Layer::Network, 28 + options as u16, 0, 8), &padded), None);
    }
    let later = frame(None, 0x0800, &ipv4(253, 3, 0, &body));
    assert_eq!(read(field("f", Layer::Transport, 0, 0, 16), &later), None);
    let first = frame(None, 0x0800, &ipv4(253, 0x2000, 0, &body));
    assert_eq!(read(field("f", Layer::Transport, 0, 0, 16), &first), Some(0x0102));
    // Behind a hop-by-hop header and a first fragment's.
    let mut chain = vec![44, 0, 0, 0, 0, 0, 0, 0, 253, 0, 0, 1, 0, 0, 0, 0];
    chain.extend(body);
    let f = frame(None, 0x86dd, &ipv6(0, &chain));
    assert_eq!(read(field("f", Layer::Transport, 0, 0, 16), &f), Some(0x0102));
    chain[11] = 0x08;
    let f = frame(None, 0x86dd, &ipv6(0, &chain));
    assert_eq!(read(field("f", Layer::Transport, 0, 0, 16), &f), None);
    // Encrypted, and no next header.
    for next in [50, 59] {
        let f = frame(None, 0x86dd, &ipv6(next, &body));
        assert_eq!(read(field("f", Layer::Transport, 0, 0, 16), &f), None);
    }
}

#[test]
fn behind_the_transport_header() {
    let udp = [0, 1, 0, 2, 0, 12, 0, 0, 0xca, 0xfe, 0xba, 0xbe];
    for f in [
        frame(None, 0x0800, &ipv4(17, 0, 4, &udp)),
        frame(Some(1), 0x86dd, &ipv6(17, &udp)),
        frame(None, 0x0800, &ipv4(1, 0, 0, &udp)),
    ] {
        assert_eq!(read(field("f", Layer::Payload, 0, 0, 32), &f), Some(0xcafe_babe));
        assert_eq!(read(field("f", Layer::Transport, 8, 0, 32), &f), Some(0xcafe_babe));
        assert_eq!(read(field("f", Layer::Payload, 1, 0, 32), &f), None);
    }
    let mut tcp = vec![0; 24];
    tcp[12] = 0x60;
    tcp.extend([7, 8]);
    let f = frame(None, 0x0800, &ipv4(6, 0, 0, &tcp));
    assert_eq!(read(field("f", Layer::Payload, 0, 0, 16), &f), Some(0x0708));
    // A data offset that points into the header, and one behind the segment.
    for bad in [0x40, 0xf0] {
        tcp[12] = bad;
        let f = frame(None, 0x0800, &ipv4(6, 0, 0, &tcp));
        assert_eq!(read(field("f", Layer::Payload, 0, 0, 8), &f), None);
    }
    let mut sctp = vec![0; 12];
    sctp.push(9);
    let f = frame(None, 0x0800, &ipv4(132, 0, 0, &sctp));
    assert_eq!(read(field("f", Layer::Payload, 0, 0, 8), &f), Some(9));
}

#[test]
fn a_frame_without_the_field_never_matches() {
    let own = Own(UserFields::new(vec![
        field("kind", Layer::Network, 0, 0, 8),
        field("serial", Layer::Network, 4, 0, 32),
    ])
    .expect("fields"));
    let zero = parse_match("dl_type=0x9999,serial=0", &own).expect("match");
    let whole = frame(None, 0x9999, &[7, 0, 0, 0, 0, 0, 0, 0]);
    let short = frame(None, 0x9999, &[7, 0, 0, 0, 0, 0, 0]);
    assert!(zero.matches(&key(&own.0, &whole)));
    assert!(!zero.matches(&key(&own.0, &short)));
    let kind = parse_match("kind=7", &own).expect("match");
    assert!(kind.matches(&key(&own.0, &short)));
    // The same rules made without text.
    let any = Match::any();
    assert_eq!(kind, UserFields::demand(any, Field::User0, 7, 0xff));
    let both = parse_match("kind=7,serial=0/0xff", &own).expect("match");
    let made =
        UserFields::demand(UserFields::demand(any, Field::User0, 7, 0xff), Field::User1, 0, 0xff);
    assert_eq!(both, made);
    assert!(UserFields::looked_at(both.mask()) && !UserFields::looked_at(any.mask()));
}

#[test]
fn masks() {
    let f = UserField::new("f", Layer::Network, 0, 0, 16, Some(0x0ff0)).expect("field");
    assert_eq!(read(f, &frame(None, 0x9999, &[0x12, 0x34])), Some(0x0230));
}

#[test]
fn refused_definitions() {
    let new = |name: &str, skip, width, mask| {
        UserField::new(name, Layer::Network, 0, skip, width, mask).expect_err(name)
    };
    for name in ["", "1a", "a-b", "a=b", "é", &"x".repeat(33)] {
        assert!(matches!(new(name, 0, 8, None), UserFieldError::Name { .. }));
    }
    assert!(matches!(new("f", 0, 0, None), UserFieldError::Width { .. }));
    assert!(matches!(new("f", 0, 33, None), UserFieldError::Width { .. }));
    assert!(matches!(new("f", 8, 8, None), UserFieldError::Skip { .. }));
    assert!(matches!(new("f", 0, 8, Some(0)), UserFieldError::Mask { .. }));
    assert!(matches!(new("f", 0, 8, Some(0x100)), UserFieldError::Mask { .. }));
    let named = |names: &[&str]| {
        let all = names.iter().map(|n| field(n, Layer::Network, 0, 0, 8)).collect();
        UserFields::new(all)
    };
    assert!(named(&["a", "b", "c", "d"]).is_ok());
    assert!(matches!(named(&["a", "b", "c", "d", "e"]), Err(UserFieldError::TooMany { .. })));
    assert!(matches!(named(&["a", "a"]), Err(UserFieldError::Taken { .. })));
    for taken in ["nw_src", "ip", "actions", "eth_dst", "user0", "priority", "tcp_dst"] {
        let e = named(&[taken]).expect_err(taken);
        assert!(e.to_string().contains(taken), "{e}");
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(1000))]

    /// Against the obvious way: the frame as a string of binary digits.
    #[test]
    fn bits_are_where_they_should_be(
        bytes in proptest::collection::vec(any::<u8>(), 14..40),
        at in 0u16..40, skip in 0u8..8, width in 1u8..=32,
    ) {
        let digits: String = bytes.iter().map(|b| format!("{b:08b}")).collect();
        let from = usize::from(at) * 8 + usize::from(skip);
        let expected = digits
            .get(from..from + usize::from(width))
            .map(|d| u128::from_str_radix(d, 2).expect("digits"));
        prop_assert_eq!(read(field("f", Layer::Ethernet, at, skip, width), &bytes), expected);
    }

    #[test]
    fn no_frame_panics(
        ethertype in proptest::sample::select(vec![0x0800u16, 0x86dd, 0x0806, 0x8847, 0x9999]),
        mut rest in proptest::collection::vec(any::<u8>(), 0..120),
        proto in proptest::sample::select(vec![0u8, 1, 6, 17, 43, 44, 50, 51, 58, 59, 60, 132, 253]),
        at in any::<u16>(),
    ) {
        if let Some(b) = rest.first_mut() {
            *b = if ethertype == 0x0800 { 0x45 } else { 0x60 };
        }
        if let Some(b) = rest.get_mut(if ethertype == 0x0800 { 9 } else { 6 }) {
            *b = proto;
        }
        if let Some(b) = rest.get_mut(if ethertype == 0x0800 { 2 } else { 4 }) {
            *b = 0;
        }
        let f = frame(None, ethertype, &rest);
        for layer in [Layer::Ethernet, Layer::Network, Layer::Transport, Layer::Payload] {
            read(field("f", layer, at, 7, 32), &f);
            read(field("f", layer, at % 64, 3, 9), &f);
        }
    }
}
