//! Any text as a document: read or refused; what is read can be written and reads the same.
#![no_main]
use libfuzzer_sys::fuzz_target;
use weir_measure::document::Document;

fuzz_target!(|text: &str| {
    if let Ok(document) = Document::from_json(text) {
        let json = document.to_json().expect("what was read is whole");
        assert_eq!(Document::from_json(&json).expect("what was written reads"), document);
    }
});
