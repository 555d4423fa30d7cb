//! Properties: what is read and shown reads back equal; no text makes the parser panic; errors
//! point into the text.

use proptest::prelude::*;
use weir_classify::{Field, FlowKey, Match};
use weir_dataplane::flowtext::{
    ActionsText, FlowSpec, FlowText, KeyText, MatchText, Names, NoNames, parse_actions, parse_flow,
    parse_flows, parse_match,
};
use weir_dataplane::{Layer, PortNo, UserField, UserFields, extract};

mod flowtext_lines;

#[track_caller]
fn reads_back(spec: &FlowSpec, names: &dyn Names) {
    let text = FlowText(spec, names).to_string();
    let again = parse_flow(&text, names).unwrap_or_else(|e| panic!("'{text}': {e}"));
    assert_eq!(&again, spec, "{text}");
    let m = MatchText(&spec.matcher, names).to_string();
    assert_eq!(parse_match(&m, names).expect("match"), spec.matcher, "{m}");
    let a = ActionsText(&spec.actions, names).to_string();
    let actions = parse_actions(&a, names, spec.table, &spec.matcher).expect("actions");
    assert_eq!(actions, spec.actions, "{a}");
}

#[test]
fn fixed_flows_read_back() {
    for line in flowtext_lines::VALID.iter().chain(flowtext_lines::WEIR) {
        let spec = parse_flow(line, &NoNames).unwrap_or_else(|e| panic!("'{line}': {e}"));
        reads_back(&spec, &NoNames);
    }
}

struct Named(UserFields);

impl Names for Named {
    fn port(&self, name: &str) -> Option<PortNo> {
        match name {
            "eth0" => Some(PortNo(1)),
            "an odd, name" => Some(PortNo(2)),
            "normal" => Some(PortNo(3)),
            _ => None,
        }
    }
    fn port_name(&self, port: PortNo) -> Option<&str> {
        [None, Some("eth0"), Some("an odd, name"), Some("normal")].get(port.0 as usize).copied()?
    }
    fn user_fields(&self) -> &UserFields {
        &self.0
    }
}

fn named() -> Named {
    let f = |name, width| UserField::new(name, Layer::Payload, 0, 0, width, None).expect("field");
    Named(UserFields::new(vec![f("opcode", 8), f("session", 32)]).expect("fields"))
}

#[test]
fn names_are_read_and_shown() {
    let names = named();
    let line = "in_port=eth0,udp,opcode=3,session=0x10/0xf0 actions=eth0,output:\"an odd, name\",output:\"normal\",normal,4";
    let spec = parse_flow(line, &names).expect(line);
    assert_eq!(spec.matcher.value().get(Field::User0), 3);
    assert_eq!(spec.matcher.mask().get(Field::User0), 0xff);
    assert_eq!(spec.matcher.value().get(Field::UserPresent), 3);
    assert_eq!(spec.matcher.mask().get(Field::UserPresent), 3);
    reads_back(&spec, &names);
    let shown = FlowText(&spec, &names).to_string();
    assert_eq!(
        shown,
        "udp,in_port=\"eth0\",opcode=0x3,session=0x10/0xf0 \
         actions=output:\"eth0\",output:\"an odd, name\",output:\"normal\",normal,output:4"
    );
    assert!(parse_flow("opcode=256,actions=2", &names).is_err());
    assert!(parse_flow("opcode=3,actions=2", &NoNames).is_err());
    // Without the definition the slot's own name serves.
    let bare = FlowText(&spec, &NoNames).to_string();
    assert_eq!(parse_flow(&bare, &NoNames).expect("bare").matcher, spec.matcher);
}

fn words() -> impl Strategy<Value = String> {
    let pieces: Vec<&'static str> = vec![
        "ip",
        "tcp",
        "arp",
        "mpls",
        "nw_src=",
        "1.2.3.4",
        "/",
        "24",
        "dl_vlan=",
        "0xffff",
        ",",
        " ",
        "actions=",
        "output:",
        "2",
        "set_field:",
        "->",
        "nw_src",
        "load:",
        "[0..3]",
        "(",
        ")",
        "\"",
        "#",
        "*",
        "tcp_flags=",
        "+syn",
        "-ack",
        "|",
        "encap_gre",
        "vlan_tci=",
        "::1",
        "ipv6_src=",
        "é",
        "metadata=",
        "=",
        ":",
        "user0=",
        "in_port=",
        "goto_table:",
        "meter:",
        "0x",
        "priority=",
        "controller",
        "max_len=",
        "\n",
        "\u{0}",
        "99999999999999999999999",
        "enqueue:",
        "drop",
        "clear_actions",
        "write_actions(",
    ];
    proptest::collection::vec(proptest::sample::select(pieces), 0..24).prop_map(|v| v.concat())
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2000))]

    #[test]
    fn random_flows_read_back(seed: u64) {
        let line = flowtext_lines::random(&mut flowtext_lines::Rng(seed));
        let spec = parse_flow(&line, &NoNames).unwrap_or_else(|e| panic!("'{line}': {e}"));
        reads_back(&spec, &NoNames);
        reads_back(&spec, &named());
    }

    #[test]
    fn any_text_gives_a_flow_or_an_error_inside_it(text in prop_oneof![words(), ".*"]) {
        for names in [&NoNames as &dyn Names, &named()] {
            match parse_flow(&text, names) {
                Ok(spec) => reads_back(&spec, names),
                Err(e) => {
                    prop_assert!(e.column >= 1 && e.column <= text.len() + 1, "{e}");
                    prop_assert!(!e.to_string().is_empty());
                }
            }
            let _ = parse_flows(&text, names);
            let _ = parse_match(&text, names);
        }
    }

    #[test]
    fn a_broken_flow_never_panics(seed: u64, at in 0usize..200, with in proptest::option::of(any::<char>())) {
        let line = flowtext_lines::random(&mut flowtext_lines::Rng(seed));
        let mut chars: Vec<char> = line.chars().collect();
        let at = at % chars.len();
        match with {
            Some(c) => chars[at] = c,
            None => { chars.remove(at); }
        }
        let text: String = chars.into_iter().collect();
        if let Ok(spec) = parse_flow(&text, &NoNames) {
            reads_back(&spec, &NoNames);
        }
    }

    #[test]
    fn a_key_is_shown_as_a_match_that_it_fits(bytes in frames(), port in 1u32..100) {
        let mut key = FlowKey::default();
        if extract(&bytes, port, &mut key).is_ok() {
            let text = KeyText(&key, &NoNames).to_string();
            let m = parse_match(&text, &NoNames).unwrap_or_else(|e| panic!("'{text}': {e}"));
            prop_assert!(m.matches(&key), "{text}");
            prop_assert!(m != Match::any());
        }
    }
}

/// Frames that look like something, with random bytes behind the EtherType.
fn frames() -> impl Strategy<Value = Vec<u8>> {
    let types = [0x0800u16, 0x86dd, 0x0806, 0x8100, 0x88a8, 0x8847, 0x88e7, 0x8035, 0x88cc, 0x0100];
    let first = [0x45u8, 0x60, 0x00, 0x46];
    (
        proptest::array::uniform12(any::<u8>()),
        proptest::sample::select(types.to_vec()),
        proptest::sample::select(first.to_vec()),
        proptest::sample::select(vec![1u8, 6, 17, 58, 132, 44, 0]),
        proptest::collection::vec(any::<u8>(), 0..100),
    )
        .prop_map(|(macs, t, first, proto, mut rest)| {
            if let Some(b) = rest.first_mut() {
                *b = first;
            }
            let ipv6 = first == 0x60;
            if let Some(b) = rest.get_mut(if ipv6 { 6 } else { 9 }) {
                *b = proto;
            }
            if let Some(b) = rest.get_mut(if ipv6 { 4 } else { 2 }) {
                *b = 0;
            }
            if let (false, Some(b)) = (ipv6, rest.get_mut(6)) {
                *b &= 0x40;
            }
            [&macs[..], &t.to_be_bytes(), &rest].concat()
        })
}
