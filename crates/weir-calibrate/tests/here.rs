//! A short calibration of the machine that the test runs on. What is asserted holds on any machine,
//! however noisy: that near is nearer than far, and that what is written is read.

use weir_calibrate::{Calibration, Depth, calibrate, text};
use weir_estimate::profile::{Hardware, Provenance};
use weir_estimate::{Library, Operations, Profile, Question, estimate};

const OPERATIONS: &str = include_str!("../../../models/operations.toml");
const L2_BASIC: &str = include_str!("../../../models/l2-basic.toml");

#[test]
fn this_machine_becomes_a_profile() {
    let mut steps = Vec::new();
    let done = calibrate(Depth::Quick, &mut |p| steps.push((p.done, p.of)));
    let c = match done.and_then(Calibration::whole) {
        Ok(c) => c,
        Err(e) => {
            eprintln!("SKIPPED this_machine_becomes_a_profile: {e}");
            return;
        }
    };
    assert!(steps.is_sorted() && steps.iter().all(|s| s.0 < s.1), "{:?}", steps.last());
    // No processor is slower or faster.
    assert!((0.2e9..20e9).contains(&c.clock_hz), "{} Hz", c.clock_hz);
    let l = &c.levels;
    let (first, last) = (&l.curve[0], &l.curve[l.curve.len() - 1]);
    assert!(first.huge.ns.value < last.huge.ns.value, "{:?}", l.curve);
    assert!(l.caches.windows(2).all(|w| w[0].latency <= w[1].latency), "{:?}", l.caches);
    if let [l1, l2, ..] = l.caches.as_slice() {
        assert!(l1.latency < l2.latency && l1.bytes < l2.bytes, "{:?}", l.caches);
        assert!(l2.latency < l.memory.latency_ns * c.clock_hz / 1e9, "{l:?}");
    } else {
        eprintln!("SKIPPED the order of the caches: the machine tells of fewer than two");
    }
    assert!(l.memory.all >= l.memory.one && l.memory.one > 0.0);

    let operations = Operations::read("operations.toml", OPERATIONS).expect("the catalogue");
    let text = text::profile(&c, "here", &["a test".to_owned()]);
    let profile = Profile::read("here.toml", &text, &operations).unwrap_or_else(|e| {
        panic!("{e}\n{text}");
    });
    assert_eq!(profile.calibrated_on.as_ref(), Some(&c.machine.fingerprint));
    // The data plane's own operations are measured by whoever has a data plane: the binary.
    let own =
        |n: &&str| !["vdp_", "rule_", "channel_", "program_"].iter().any(|o| n.starts_with(o));
    for name in operations.names().filter(own) {
        let cost = profile.costs.get(name).unwrap_or_else(|| panic!("{name} is not there"));
        assert_eq!(cost.provenance, Provenance::Measured);
    }
    let Hardware::Processor(p) = &profile.hardware else { panic!("a processor") };
    assert!(p.outstanding >= 1.0);
    let mut library = Library::new(operations);
    library.add("l2-basic.toml", L2_BASIC).expect("the model");
    for burst in [1, 32] {
        let question = Question { burst, ..Question::default() };
        let e = estimate(&library, "l2-basic", &profile, &question).expect("an estimate");
        assert!(e.cycles > 1.0 && e.cycles.is_finite(), "{e:?}");
    }
}
