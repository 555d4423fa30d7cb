//! The scripts that come along: they find on a simulated switch what the compiled modules find, to the digit.

mod toy;

use std::path::Path;
use toy::{Barrier, Toy};
use weir_measure::document::{Cell, Document, Dut, Outcome};
use weir_measure::engine::simulation::{EPOCH, World, simulate};
use weir_measure::engine::{Core, Settings};
use weir_measure::environment::{Environment, Program};
use weir_measure::module::{Depth, Params};
use weir_measure::script::Script;
use weir_packet::Nanos;

fn script(file: &str, toy: &mut Toy, set: &[(&str, &str)]) -> (Document, f64) {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("scripts").join(file);
    let script = Script::load(&path).unwrap();
    let mut params = Params::defaults(script.about(), Depth::Quick).unwrap();
    for (name, value) in set {
        params.set(name, value).unwrap();
    }
    let environment = Environment::here(Program { version: "0", commit: None });
    let document = Document::new(&script.about().name, "", Dut::default(), environment);
    let names = ["a", "b"].map(str::to_owned).to_vec();
    let settings = Settings::new(if script.about().channels == 0 { vec![] } else { names });
    let core = Core::new(settings, script.make(&params), params, document, EPOCH);
    let takes = core.status().takes.unwrap().as_secs_f64();
    let found = simulate(core, toy, World::default()).unwrap();
    found.to_json().expect("what is found can be written and read");
    (found, takes)
}

fn outcome(d: &Document, id: &str) -> Outcome {
    d.verdicts.iter().find(|v| v.id == id).unwrap().outcome
}

#[test]
fn echo_as_the_compiled_module_has_it() {
    let set = [("requests", "50")];
    let compiled = toy::on(&mut Toy::default(), "echo", &set).unwrap();
    let (scripted, takes) = script("echo.rhai", &mut Toy::default(), &set);
    let (a, b) = (&compiled.distributions[0], &scripted.distributions[0]);
    assert_eq!((a.count, a.min, a.median(), a.max), (b.count, b.min, b.median(), b.max));
    assert_eq!(a.unit, b.unit);
    // The compiled one's has the delay's median, too, which stands in the distribution.
    let said = |d: &Document| {
        let v = &d.verdicts[0];
        (v.id.clone(), v.outcome, v.sentence.clone(), v.evidence[0].clone())
    };
    assert_eq!(said(&scripted), said(&compiled));
    assert!((compiled.duration_s - scripted.duration_s).abs() < 1e-9);
    assert!((takes + 0.3 - scripted.duration_s).abs() < 0.01, "{takes}: {}", scripted.duration_s);
    assert_eq!(scripted.partial, None);
}

#[test]
fn insertion_as_the_compiled_module_has_it() {
    for barrier in [Barrier::Honest, Barrier::Early, Barrier::Refused] {
        let toy = || Toy { insertion: Nanos(300_000), barrier, ..Toy::default() };
        let set = [("entries", "1,20,50"), ("repetitions", "12")];
        let compiled = toy::on(&mut toy(), "flow-insert", &set).unwrap();
        let (scripted, _) = script("insert.rhai", &mut toy(), &set);
        assert_eq!(scripted.partial, None);
        for id in ["barrier-truthful", "entries-work"] {
            assert_eq!(outcome(&scripted, id), outcome(&compiled, id), "{barrier:?} {id}");
        }
        for column in [
            "entries",
            "runs",
            "barrier",
            "transmission",
            "first packet",
            "dropped after the reply",
        ] {
            for row in 0..3 {
                let cell = |d: &Document| {
                    let t = &d.tables[0];
                    let at = t.columns.iter().position(|c| c.name == column).unwrap();
                    match &t.rows[row][at] {
                        Cell::Number(n) if n.is_finite() => Some(*n),
                        _ => None,
                    }
                };
                let (a, b) = (cell(&compiled), cell(&scripted));
                // The last digit may be rounded on another way there.
                let same = match (a, b) {
                    (Some(a), Some(b)) => (a - b).abs() <= 1e-9 * a.abs(),
                    (a, b) => a.is_some() == b.is_some(),
                };
                assert!(same, "{barrier:?} {column} of row {row}: {a:?} compiled, {b:?} scripted");
            }
        }
    }
}
