//! Models, profiles, requests, formulas and descriptions of traffic: any text; and an estimate of
//! whatever was read.

#![no_main]

use std::collections::BTreeMap;
use std::sync::LazyLock;
use weir_estimate::formula::Formula;
use weir_estimate::place::{Request, place};
use weir_estimate::traffic::Traffic;
use weir_estimate::{Library, Mode, Operations, Profile, Question, estimate};

static OPERATIONS: LazyLock<Operations> = LazyLock::new(|| {
    Operations::read("operations", include_str!("../../models/operations.toml")).expect("shipped")
});
static BASIC: LazyLock<Library> = LazyLock::new(|| {
    let mut library = Library::new(OPERATIONS.clone());
    library.add("l2-basic", include_str!("../../models/l2-basic.toml")).expect("shipped");
    library
});
static MACHINE: LazyLock<Profile> = LazyLock::new(|| {
    let text = include_str!("../../profiles/xeon-e5-2690v2.toml");
    Profile::read("machine", text, &OPERATIONS).expect("shipped")
});

fn ask(library: &Library, name: &str, profile: &Profile) {
    for mode in [Mode::Paper, Mode::Corrected, Mode::Full] {
        let question = Question { mode, ..Question::default() };
        if let Ok(e) = estimate(library, name, profile, &question) {
            assert!(e.rates.mpps >= 0.0, "{}", e.rates.mpps);
        }
    }
}

libfuzzer_sys::fuzz_target!(|text: &str| {
    let none = |_: &str| Some(1.0);
    let _ = Formula::read(text).map(|f| f.value(&none));
    let _ = Traffic::read(text);
    let _ = Operations::read("o", text);
    let mut library = BASIC.clone();
    if let Ok(name) = library.add("m", text) {
        ask(&library, &name, &MACHINE);
    }
    if let Ok(p) = Profile::read("p", text, &OPERATIONS) {
        ask(&BASIC, "l2-basic", &p);
    }
    // The integer program has its own limits; small requests show whether reading them is sound.
    if let Ok(r) = Request::read("r", text)
        && r.demands.len() * r.hosts.len() < 16
    {
        let profiles = BTreeMap::from([("xeon-e5-2690v2".to_owned(), MACHINE.clone())]);
        let _ = place(&BASIC, &profiles, &r);
    }
});
