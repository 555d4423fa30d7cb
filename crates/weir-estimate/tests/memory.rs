//! Tables that no memory of the machine holds are told, and placed nowhere.

mod support;

use std::collections::BTreeMap;
use support::{ask, library, profile};
use weir_estimate::Question;
use weir_estimate::estimate::Mode;
use weir_estimate::place::{Answer, Request, place};

#[test]
fn tables_beyond_the_memory_are_told() {
    let library = library();
    let profile = profile(&library, "xeon-e5-2690v2");
    let notes = |mode, entries| {
        let settings = vec![("entries".to_owned(), entries)];
        ask(&library, "l2-basic", &profile, &Question { mode, settings, ..Question::default() })
            .notes
    };
    for mode in [Mode::Paper, Mode::Corrected, Mode::Full] {
        let told = |entries| {
            notes(mode, entries).iter().any(|n| n.contains("tables take 12000 GB of memory"))
        };
        assert!(told(1e12) && !told(1e9), "{:?}", notes(mode, 1e12));
        assert!(!notes(mode, 1e6).iter().any(|n| n.contains("of memory")), "{mode:?}");
    }
}

#[test]
fn tables_beyond_the_memory_are_placed_nowhere() {
    let mut library = library();
    let model = "name = \"vast\"\nabout = \"a\"\nsource = [\"s\"]\n[[table]]\nname = \"t\"\nentries = 1000000000000\n\
        entry_bytes = 12\n[[steps]]\neo = \"ht_lookup\"\ntable = \"t\"\nN = 2\n";
    library.add("vast.toml", model).expect("a model");
    let profiles =
        BTreeMap::from([("xeon-e5-2690v2".to_owned(), profile(&library, "xeon-e5-2690v2"))]);
    let text = "[[host]]\nname = \"h\"\nprofile = \"xeon-e5-2690v2\"\n[[function]]\nname = \"f\"\n\
        function = \"vast\"\nrate = \"1 Mpps\"\n";
    let request = Request::read("r.toml", text).expect("a request");
    let Answer::Infeasible(r) = place(&library, &profiles, &request).expect("an answer") else {
        panic!("placed");
    };
    assert!(r.constraint.starts_with("memory: 'f' takes 12000.00 GB"), "{r:?}");
}
