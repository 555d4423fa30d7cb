//! Any bytes as an agent's answer, and any text as an object identifier.
#![no_main]
use libfuzzer_sys::fuzz_target;
use weir_measure::snmp::client::{decode, oid};

fuzz_target!(|bytes: &[u8]| {
    if let Ok(answers) = decode(bytes) {
        for (_, value) in answers {
            let _ = value.and_then(|v| v.text());
        }
    }
    if let Ok(o) = std::str::from_utf8(bytes).map_err(|_| ()).and_then(|t| oid(t).map_err(|_| ())) {
        assert_eq!(oid(&o.to_id_string()).expect("what was shown reads"), o);
    }
});
