//! The flow syntax on any text: a flow that reads back equal from its own text, or an error inside
//! the text. Also a VDP's own fields on any frame.
#![no_main]

use weir_classify::FlowKey;
use weir_dataplane::flowtext::{KeyText, NoNames, parse_flow, parse_flows, parse_match};
use weir_dataplane::{Layer, UserField, UserFields, extract};

libfuzzer_sys::fuzz_target!(|data: &[u8]| {
    frame(data);
    let Ok(text) = std::str::from_utf8(data) else { return };
    match parse_flow(text, &NoNames) {
        Ok(spec) => {
            let shown = spec.to_string();
            assert_eq!(parse_flow(&shown, &NoNames).as_ref(), Ok(&spec), "{shown}");
        }
        Err(e) => assert!(e.column >= 1 && e.column <= text.len() + 1),
    }
    let _ = parse_flows(text, &NoNames);
    let _ = parse_match(text, &NoNames);
});

/// Two bytes for a field's place and the rest as a frame.
fn frame(data: &[u8]) {
    let [at, shape, bytes @ ..] = data else { return };
    let layers = [Layer::Ethernet, Layer::Network, Layer::Transport, Layer::Payload];
    let fields = layers.iter().enumerate().filter_map(|(i, l)| {
        let name = ["a", "b", "c", "d"][i];
        UserField::new(name, *l, u16::from(*at), shape & 7, (shape >> 3) + 1, None).ok()
    });
    let Ok(fields) = UserFields::new(fields.collect()) else { return };
    let mut key = FlowKey::default();
    let Ok(layers) = extract(bytes, 1, &mut key) else { return };
    fields.extract(bytes, &layers, &mut key);
    let text = KeyText(&key, &NoNames).to_string();
    let shown = parse_match(&text, &NoNames);
    assert!(shown.is_ok_and(|m| m.matches(&key)), "{text}");
}
