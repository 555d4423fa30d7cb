//! What is wrong with a script is said with file and line; bounds hold.

use super::*;
use crate::document::{Document, Dut};
use crate::dut::profile::Profile;
use crate::engine::configured::Configured;
use crate::engine::simulation::{EPOCH, World, simulate};
use crate::engine::{Core, Settings};
use crate::environment::{Environment, Program};
use crate::module::Depth;

const ABOUT: &str = "fn about() { #{ name: \"x\", asks: \"what\", channels: 0 } }\n";

/// What a script with these functions finds on an honest device.
fn run(text: &str) -> Result<Document, String> {
    let script = Script::read("x.rhai", &format!("{ABOUT}{text}")).map_err(|e| e.to_string())?;
    let params = Params::defaults(script.about(), Depth::Quick).unwrap();
    let here = Environment::here(Program { version: "0", commit: None });
    let document = Document::new("x", "what", Dut::default(), here);
    let core = Core::new(Settings::new(vec![]), script.make(&params), params, document, EPOCH);
    let mut dut = Configured::new(Profile::builtin("honest").unwrap());
    simulate(core, &mut dut, World::default())
}

#[test]
fn what_can_not_be_a_module_is_told_with_its_line() {
    for (text, says) in [
        ("fn start(cx) {", "x.rhai:2: "),
        ("fn start(cx) {}", "x.rhai: there is no function 'finish'"),
        ("fn start() {} fn finish(doc) {}", "x.rhai: function 'start' takes 1 arguments, not 0"),
    ] {
        let e = Script::read("x.rhai", &format!("{ABOUT}{text}")).unwrap_err().to_string();
        assert!(e.starts_with(says) && !e.contains('\n'), "{text}: {e}");
    }
    for (about, says) in [
        ("1", "'about' must return a map"),
        ("#{}", "about: 'name' is missing"),
        ("#{ name: \"a b\", asks: \"\" }", "about: 'name' must be"),
        (
            "#{ name: \"a\", asks: \"\", chanels: 1 }",
            "'chanels' is no key here (did you mean 'channels'?)",
        ),
        ("#{ name: \"a\", asks: \"\", table: \"mine\" }", "'table' is 'own' or 'untouched'"),
        (
            "#{ name: \"a\", asks: \"\", params: [#{ name: \"n\", kind: \"int\", value: 1 }] }",
            "params[0]: 'kind' is",
        ),
        (
            "#{ name: \"a\", asks: \"\", params: [#{ name: \"n\", kind: \"count\", max: 3, value: 4 }] }",
            "can't be '4'",
        ),
        ("#{ name: nothing, asks: \"\" }", "x.rhai:1: Variable not found: nothing (in 'about')"),
        ("loop {}", "more than 5000000 operations at once (in 'about')"),
    ] {
        let text = format!("fn about() {{ {about} }} fn start(cx) {{}} fn finish(doc) {{}}");
        let e = Script::read("x.rhai", &text).unwrap_err().to_string();
        assert!(e.contains(says) && !e.contains('\n'), "{about}: {e}");
    }
}

#[test]
fn what_goes_wrong_later_ends_the_measurement_in_a_line() {
    for (start, says) in [
        ("loop {}", "more than 5000000 operations at once (in 'start')"),
        ("let a = [0]; loop { a.append(a); }", "Size of array"),
        ("let a = \"x\"; loop { a += a; }", "Length of string"),
        ("fn_that_is_not();", "Function not found: fn_that_is_not"),
        ("cx.again();", "Function not found: again"),
        ("this.f(cx); } fn f(cx) { this.f(cx);", "Stack overflow"),
        ("loop { cx.barrier(); }", "more than 100000 messages and timers at once"),
        ("cx.record(\"n\", 1);", "there is no series 'n'"),
        ("cx.series(\"s/../x\", \"t\", \"ms\");", "x.rhai:2: series \"s/../x\": an id has letters"),
        ("cx.timer_in(-1, 1);", "is no time to wait"),
        ("cx.param(\"n\");", "there is no parameter 'n'"),
        ("sleep(100);", "Function not found: sleep"),
        ("eval(\"1\");", "x.rhai:2: "),
        ("throw \"mine\";", "x.rhai:2: mine (in 'start')"),
        ("cx.fail(\"given up\");", "given up"),
        // Nothing that could ever happen.
        ("", "the module waits for nothing"),
    ] {
        let text = format!("fn start(cx) {{ {start} }} fn finish(doc) {{ doc.note(\"kept\"); }}");
        let why = match run(&text) {
            Ok(d) => {
                assert!(d.notes.contains(&"kept".to_owned()), "{start}: {:?}", d.notes);
                d.partial.unwrap_or_default()
            }
            Err(e) => e,
        };
        assert!(why.contains(says) && !why.contains('\n'), "{start}: {why}");
    }
}

#[test]
fn timers_without_end_or_pause_do_not_stop_time() {
    let text = "fn start(cx) { this.n = 0; cx.timer_in(0, 1); }
        fn timer(cx, t) { this.n += 1; if this.n < 5000 { cx.timer_in(0, 1); } else { cx.over(); } }
        fn finish(doc) { doc.note(`${this.n}`); }";
    let d = run(text).unwrap();
    assert_eq!((d.partial, d.notes), (None, vec!["5000".to_owned()]));
}

#[test]
fn a_finish_that_fails_keeps_what_was_recorded() {
    let text = "fn start(cx) { cx.series(\"s\", \"t\", \"ms\"); cx.record(\"s\", 3); cx.over(); }
        fn finish(doc) { doc.verdict(\"v\", \"maybe\", \"\"); }";
    let d = run(text).unwrap();
    assert!(d.partial.unwrap().contains("x.rhai:3: verdict: 'maybe'"));
    assert_eq!((d.distributions[0].count, d.distributions[0].max), (1, Some(3.0)));
}

/// Said where it is made, with what was found before: at the end nobody could read the document.
#[test]
fn what_would_not_be_read_back_is_told_where_it_is_made() {
    for (finish, says) in [
        ("cx.series(\"a b\", \"t\", \"ms\");", "series \"a b\": an id has letters"),
        (
            "doc.table(\"t\", \"\", [\"a\", \"b\"], [[1]]);",
            "table: \"t\": a row has 1 cells for 2 columns",
        ),
        (
            "doc.figure(#{ id: \"f\", title: \"\", x: [\"\", \"\", \"log\"], y: [\"\", \"\", \"log\"],
             series: [#{ name: \"s\", points: [[1.0 / 0.0, 1]] }] });",
            "figure: a point's x is a finite number",
        ),
    ] {
        let text = format!(
            "fn start(cx) {{ cx.series(\"s\", \"t\", \"ms\"); cx.record(\"s\", 3); cx.over(); }}
            fn finish(doc) {{ let cx = doc.cx(); {finish} }}"
        );
        let d = run(&text).unwrap();
        assert!(d.partial.clone().unwrap().contains(says), "{:?}", d.partial);
        assert!(d.partial.clone().unwrap().starts_with("x.rhai:3"), "{:?}", d.partial);
        assert_eq!(d.distributions[0].count, 1);
        d.to_json().unwrap();
    }
}
