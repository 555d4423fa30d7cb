//! Bad input is refused in one line: file, place, key, what was expected, the nearest known name.

mod support;

use proptest::prelude::*;
use std::sync::LazyLock;
use support::{library, profile, root};
use weir_estimate::estimate::Mode;
use weir_estimate::place::Request;
use weir_estimate::{Library, Profile, Question, estimate};

static LIBRARY: LazyLock<Library> = LazyLock::new(library);
static MACHINE: LazyLock<String> = LazyLock::new(|| {
    std::fs::read_to_string(root("profiles/xeon-e5-2690v2.toml")).expect("the profile")
});

const HEAD: &str = "name = \"x\"\nabout = \"x\"\nsource = [\"x\"]\n";

fn model(body: &str) -> String {
    let mut library = LIBRARY.clone();
    let text = format!("{HEAD}{body}");
    match library.add("x.toml", &text) {
        Err(e) => e.to_string(),
        Ok(name) => library.model(&name).map(|_| ()).expect_err(body).to_string(),
    }
}

fn machine(from: &str, to: &str) -> String {
    assert!(MACHINE.contains(from), "{from}");
    let text = MACHINE.replacen(from, to, 1);
    Profile::read("p.toml", &text, LIBRARY.operations()).expect_err(to).to_string()
}

/// What it must begin with, and what it must say.
fn says(text: &str, begin: &str, parts: &[&str]) {
    assert!(!text.contains('\n'), "{text}");
    assert!(text.starts_with(begin), "{text}\nmust begin with {begin}");
    for p in parts {
        assert!(text.contains(p), "{text}\nmust say {p}");
    }
}

/// Names come from files that others wrote, and go to a terminal.
#[test]
fn names_are_some_text_without_control_characters() {
    let file = |text: &str| LIBRARY.clone().add("x.toml", text).expect_err(text).to_string();
    let steps = "steps = [{ eo = \"parse\", b = 6 }]";
    let head = |name: &str| HEAD.replacen("\"x\"", &format!("\"{name}\""), 1) + steps;
    says(&file(&head("a\\u001b[31mEVIL\\u0007")), "x.toml:1:8: name: a control", &["leave it out"]);
    says(&file(&head("")), "x.toml:1:8: name: nothing is in it: expected the model's", &[]);
    says(&file(&head("a\\nb")), "x.toml:1:8: name: more than a line", &[]);
    let key = format!("{HEAD}{steps}\n[parameters]\n\"a\\u001b\" = {{ default = 1 }}");
    says(&file(&key), "x.toml:6:1: key 'parameters.a\\u{1b}': a control", &[]);
    // Lines may end where there is room for some.
    let about = format!("name = \"x\"\nabout = \"\"\"x\ny\"\"\"\nsource = [\"x\"]\n{steps}");
    assert!(LIBRARY.clone().add("x.toml", &about).is_ok());
    let name = "name = \"xeon-e5-2690v2\"";
    says(&machine(name, "name = \"a\\u009b\""), "p.toml:", &["name: a control character"]);
    says(&machine(name, "name = \" \""), "p.toml:", &["name: nothing is in it"]);
    for section in ["host", "function"] {
        let text = format!("[[{section}]]\nname = \"a\\u001b]0;x\\u0007\"\n");
        let e = Request::read("r.toml", &text).expect_err(section).to_string();
        says(&e, "r.toml:2:8: ", &[&format!("{section}.name: a control character")]);
    }
}

#[test]
fn models() {
    let op = |o: &str| format!("steps = [{{ {o} }}]");
    let m = |b: &str| model(&op(b));
    says(&m("eo = \"ht_lokup\""), "x.toml:4:", &["unknown operation 'ht_lokup'", "'ht_lookup'?"]);
    says(&m("eo = \"parse\""), "x.toml:4:", &["steps[0].b", "missing", "bytes"]);
    says(&m("eo = \"parse\", b = -1"), "x.toml:4:", &["b = -1", "from zero"]);
    says(&m("eo = \"parse\", b = 1e40"), "x.toml:4:", &["b = "]);
    says(&m("eo = \"parse\", b = nan"), "x.toml:4:", &["b = NaN"]);
    says(&m("eo = \"parse\", b = \"6 +\""), "x.toml:4:", &["steps[0].b", "expected a number"]);
    says(&m("eo = \"parse\", b = \"frme\""), "x.toml:4:", &["unknown name 'frme'", "'frame'?"]);
    says(&m("eo = \"parse\", b = \"flows\""), "x.toml:4:", &["units disagree", "entries"]);
    says(&m("eo = \"parse\", b = \"frame + flows\""), "x.toml:4:", &["units disagree"]);
    says(&m("eo = \"parse\", b = true"), "x.toml:4:", &["steps[0].b", "not a boolean"]);
    says(&m("eo = \"parse\", b = 6, c = 1"), "x.toml:4:", &["unknown key of steps[0] 'c'"]);
    says(&m("eo = \"parse\", b = 6, at = \"cash\""), "x.toml:4:", &["'cash'", "'cache'?"]);
    says(&m("eo = \"ht_lookup\", N = 2, table = \"t\""), "x.toml:4:", &["unknown table 't'"]);
    let behind = "eo = \"parse\", b = 6, behind = \"vdp-progam\"";
    says(&m(behind), "x.toml:4:", &["behind: unknown model 'vdp-progam'", "'vdp-program'?"]);
    says(&m("use = \"l2-basik\""), "x.toml: ", &["unknown model 'l2-basik'", "'l2-basic'?"]);
    let stands = |s: &str| model(&format!("steps = [{{ eo = \"parse\", b = 6 }}]\n[as]\n{s}"));
    says(&stands("hash = \"hsh\""), "x.toml:6:", &["unknown operation 'hsh'", "'hash'?"]);
    says(
        &stands("hash = \"parse\""),
        "x.toml:6:",
        &["parse wants 'b' in bytes, which hash has not"],
    );
    says(&model("together = \"walk\""), "x.toml:4:", &["unknown operation 'walk'"]);
    says(&m("use = \"x\""), "x.toml: ", &["a cycle: x → x"]);
    says(&m("b = 6"), "x.toml:4:", &["a step is one of"]);
    says(&model("stepz = []"), "x.toml:", &["'steps' is missing", "; is 'stepz' meant for it?"]);
    says(&model("steps = [{ eo = "), "x.toml:4:", &[]);
    says(&model("steps = []\nsteps = []"), "x.toml:5:1:", &["duplicate key 'steps'", "leave one"]);
    says(&model("steps = 3"), "x.toml:4:", &["expected a list of tables, not a number"]);
    let twice = "steps = [{ branch = [{ steps = [] }, { steps = [] }] }]";
    says(&model(twice), "x.toml:4:", &["without 'probability'"]);
}

#[test]
fn profiles() {
    let m = machine;
    says(&m("sockets = 2", "sockets = 0"), "p.toml:", &["processor.sockets: 0", "1 to 64"]);
    says(&m("sockets = 2", "sockets = -2"), "p.toml:", &["processor.sockets: -2", "1 to 64"]);
    let clock = "clock = \"3.6 GHz\"";
    says(&m(clock, "clock = \"3.6 GB\""), "p.toml:", &["processor.clock", "is a size", "GHz"]);
    says(&m(clock, "clock = 3600"), "p.toml:", &["processor.clock", "unit"]);
    says(
        &m(clock, "clok = 1"),
        "p.toml:",
        &["'processor.clock' is missing", "; is 'clok' meant for it?"],
    );
    says(&m("[eo.mem_io]", "[eo.mem_oi]"), "p.toml:", &["operation 'mem_oi'", "'mem_io'?"]);
    says(&m("ceil(hdr / line)", "ceil(hrd / line)"), "p.toml:", &["name 'hrd'", "'hdr'?"]);
    let kind = "provenance = \"published\"";
    says(&m(kind, "provenance = \"publisht\""), "p.toml:", &["'published'?"]);
    says(&m("size = \"256 KiB\"", "size = \"16 KiB\""), "p.toml:", &["not larger and slower"]);
    let taken = |second: &str| {
        let one = "[[residence.taken]]\nafter = \"2 ms\"\npart = 0.5\n";
        format!("[residence]\nload_cycles = 1\n{one}[[residence.taken]]\n{second}\n\n[memory]")
    };
    let late = taken("after = \"1 ms\"\npart = 0.6");
    says(&m("[memory]", &late), "p.toml:", &["residence.taken: times must grow"]);
    let less = taken("after = \"3 ms\"\npart = 0.4");
    says(&m("[memory]", &less), "p.toml:", &["residence.taken", "not fall"]);
    says(&m("[memory]", &taken("after = 3\npart = 0.6")), "p.toml:", &["after", "unit"]);
    says(&m("store = 5", "store = 1e300"), "p.toml:", &["coefficients.store: 1e300"]);
    let twice = m("store = 5", "store = 5, hdr = 1");
    says(&twice, "p.toml:", &["coefficients.hdr", "a parameter of the operation"]);
}

#[test]
fn questions() {
    let machine = profile(&LIBRARY, "xeon-e5-2690v2");
    let ask = |name: &str, q: Question| {
        estimate(&LIBRARY, name, &machine, &q).expect_err(name).to_string()
    };
    let q = Question::default;
    says(&ask("l2-basik", q()), "model: ", &["unknown network function", "'l2-basic'?"]);
    says(&ask("l2-basic", Question { frame: 63, ..q() }), "question: frame = 63", &["64 to"]);
    says(&ask("l2-basic", Question { cores: 0, ..q() }), "question: cores = 0", &["1 to"]);
    says(&ask("l2-basic", Question { burst: 0, ..q() }), "question: burst = 0", &["1 to"]);
    let settings = vec![("cachd".to_owned(), 1.0)];
    says(
        &ask("ovs-learning", Question { settings, ..q() }),
        "",
        &["unknown parameter 'cachd'", "'cached'?"],
    );
    let card = profile(&LIBRARY, "pearl-card");
    let e = estimate(&LIBRARY, "l2-basic", &card, &Question { mode: Mode::Paper, ..q() });
    says(&e.expect_err("no paper").to_string(), "", &["pearl-card.toml", "[mode.paper]"]);
}

/// Models that use models must not multiply beyond any memory.
#[test]
fn models_that_multiply_are_refused() {
    let mut library = LIBRARY.clone();
    library
        .add(
            "m0",
            "name = \"m0\"\nabout = \"x\"\nsource = [\"x\"]\nsteps = [{ eo = \"parse\", b = 1 }]",
        )
        .expect("m0");
    for i in 1..12 {
        let uses = format!("{{ use = \"m{}\" }},", i - 1).repeat(10);
        let text = format!("name = \"m{i}\"\nabout = \"x\"\nsource = [\"x\"]\nsteps = [{uses}]");
        library.add("m", &text).expect("a model");
    }
    says(&library.model("m11").expect_err("too much").to_string(), "", &["more than 10000 steps"]);
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 256, ..ProptestConfig::default() })]

    /// Nothing that is written panics, and every error is one line.
    #[test]
    fn any_text(text in "\\PC{0,200}") {
        let mut library = LIBRARY.clone();
        for e in [
            library.add("m", &text).err(),
            Profile::read("p", &text, LIBRARY.operations()).err(),
            Request::read("r", &text).err(),
        ].into_iter().flatten() {
            prop_assert!(!e.to_string().contains('\n'));
        }
    }

    /// Nor does a shipped file with something struck out or doubled.
    #[test]
    fn any_damage(from in 0usize..9000, length in 0usize..40, doubled in any::<bool>()) {
        let text: Vec<char> = MACHINE.chars().collect();
        let (a, b) = (from.min(text.len()), (from + length).min(text.len()));
        let middle: String = if doubled { text[a..b].iter().chain(&text[a..b]).collect() } else { String::new() };
        let text: String = text[..a].iter().collect::<String>() + &middle + &text[b..].iter().collect::<String>();
        if let Ok(p) = Profile::read("p", &text, LIBRARY.operations()) {
            for mode in [Mode::Paper, Mode::Corrected, Mode::Full] {
                let q = Question { mode, ..Question::default() };
                if let Ok(e) = estimate(&LIBRARY, "bng", &p, &q) {
                    prop_assert!(e.rates.mpps.is_finite() && e.rates.mpps >= 0.0);
                }
            }
        }
    }
}

#[test]
fn a_rate_is_given_once() {
    let request = |rate: &str| {
        let text = format!(
            "[[host]]\nname = \"h\"\nprofile = \"p\"\n[[function]]\nname = \"f\"\nfunction = \"bng\"\n{rate}"
        );
        Request::read("r.toml", &text)
    };
    let both = request("rate = \"1 Mpps\"\nbits = \"1 Gbit/s\"\n").expect_err("both");
    assert!(both.to_string().contains("'rate' and 'bits'"), "{both}");
    let none = request("").expect_err("none");
    assert!(none.to_string().contains("'function[0].rate' is missing"), "{none}");
    let bits =
        |text: &str| request(&format!("bits = \"{text}\"\n")).expect(text).demands.remove(0).rate;
    assert_eq!(bits("10 Gbps"), bits("10 Gbit/s"));
}

#[test]
fn parameters_hide_no_question_and_branches_have_a_way() {
    let steps = "[[steps]]\neo = \"parse\"\nb = 6\n";
    for name in ["frame", "ps", "flows"] {
        let text = model(&format!("[parameters.{name}]\ndefault = 3\n{steps}"));
        says(&text, "x.toml:4:", &[&format!("a parameter '{name}' would hide")]);
    }
    says(&model("steps = [{ branch = [] }]\n"), "x.toml:4:", &["a branch has no way"]);
}

/// What is there twice is no sum, and neither is missing.
#[test]
fn what_is_there_twice_is_refused() {
    let pipeline = "[pipeline]\nclock = \"1 GHz\"\n\n[processor]";
    says(
        &machine("[processor]", pipeline),
        "p.toml:",
        &["[processor] is there, too: expected one"],
    );
    let from = MACHINE.find("[[nic]]").expect("a card");
    let rest = &MACHINE[from + 7..];
    let nic = &MACHINE[from..from + 7 + rest.find("\n[").expect("more") + 1];
    says(&machine(nic, &nic.repeat(2)), "p.toml:", &["nic 'Intel 82599ES' is there already"]);
}
