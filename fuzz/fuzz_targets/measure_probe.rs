//! The checker: any frames, and a probe with any bytes laid over it, at any place. Whatever comes,
//! each frame is counted once.

#![no_main]

use libfuzzer_sys::fuzz_target;
use weir_measure::probe::{Checker, Headers, Run, Stamper, StreamSent, Vary, Window, streams};
use weir_packet::Nanos;

fuzz_target!(|input: (u8, Vec<(u16, Vec<u8>)>)| {
    let (run, frames) = input;
    let Ok(set) = streams(Headers::default(), &[Vary::SrcPort], 2, 96) else { return };
    let Ok(mut checker) = Checker::new(&set, Run(run), Window(64)) else { return };
    let Some(stamper) = set.first().and_then(|s| Stamper::new(s, Run(run)).ok()) else { return };
    for (i, (at, bytes)) in frames.iter().enumerate() {
        checker.check(bytes, *at, Nanos(i as u64));
        let mut probe = vec![0; stamper.len()];
        stamper.write(u64::from(*at), Nanos(0), &mut probe);
        // The number is damage too: the checksum says so, unless nothing was changed.
        for (to, from) in probe.iter_mut().skip(usize::from(*at) % 92).zip(bytes) {
            *to = *from;
        }
        checker.check(&probe, 0, Nanos(i as u64));
    }
    let t = checker.tally(&[StreamSent { stream: 0, frames: 7 }]);
    let placed = t.total.received() + t.total.duplicated + t.total.too_old + t.total.misdelivered;
    let all = placed + t.corrupted + t.other_runs + t.foreign;
    assert_eq!(all, 2 * frames.len() as u64);
});
