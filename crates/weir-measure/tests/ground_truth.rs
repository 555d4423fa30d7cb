//! The engine's verdicts on devices whose faults are configured: each is named, none on an honest one.

mod toy;

use toy::core;
use weir_measure::document::{Document, Outcome};
use weir_measure::dut::profile::Profile;
use weir_measure::engine::configured::Configured;
use weir_measure::engine::simulation::{World, simulate};

fn on(profile: &str, module: &str, set: &[(&str, &str)]) -> Document {
    let mut dut = Configured::new(Profile::builtin(profile).unwrap());
    simulate(core(module, set), &mut dut, World::default()).unwrap()
}

fn outcome(d: &Document, id: &str) -> Outcome {
    d.verdicts.iter().find(|v| v.id == id).unwrap().outcome
}

const INSERT: &[(&str, &str)] = &[("entries", "1,10"), ("repetitions", "5")];

#[test]
fn an_honest_device_is_blamed_for_nothing() {
    for (module, set) in [
        ("echo", &[("requests", "20")][..]),
        ("flow-insert", INSERT),
        ("actions", &[("duration", "0.02")]),
        ("packet-in", &[("rates", "100"), ("duration", "0.2")]),
        ("packet-out", &[("rates", "100"), ("duration", "0.2")]),
    ] {
        let d = on("honest", module, set);
        for v in &d.verdicts {
            assert_eq!(v.outcome, Outcome::Holds, "{module}: {v:?}");
        }
    }
}

#[test]
fn an_early_barrier_is_named() {
    let d = on("early-barrier", "flow-insert", INSERT);
    assert_eq!(outcome(&d, "barrier-truthful"), Outcome::Fails, "{:?}", d.verdicts);
}

#[test]
fn wrong_rewrites_are_named() {
    let d = on("wrong-rewrites", "actions", &[("duration", "0.02")]);
    assert_eq!(outcome(&d, "modifications-right"), Outcome::Fails, "{:?}", d.verdicts);
}

#[test]
fn discarded_actions_are_named() {
    let d = on("discards-actions", "actions", &[("duration", "0.02")]);
    assert_eq!(outcome(&d, "modifications-complete"), Outcome::Fails, "{:?}", d.verdicts);
}
