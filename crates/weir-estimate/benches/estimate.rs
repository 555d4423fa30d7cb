//! How long answers take: one estimate, a sweep of 10,000 points, a placement of 200 functions on 50
//! hosts. `cargo bench -p weir-estimate`. Prints, and asserts nothing: machines differ.

#[path = "../tests/support/mod.rs"]
mod support;

use std::collections::BTreeMap;
use std::hint::black_box;
use std::time::Instant;
use support::{ask, library, profile};
use weir_estimate::Question;
use weir_estimate::estimate::estimate_again;
use weir_estimate::locality::Memo;
use weir_estimate::place::{Request, place};
use weir_estimate::traffic::{Spread, Traffic};

fn timed(what: &str, work: impl FnOnce()) {
    let begin = Instant::now();
    work();
    println!("{what:40} {:9.3} ms", begin.elapsed().as_secs_f64() * 1e3);
}

fn main() {
    let library = library();
    let machine = profile(&library, "xeon-e5-2690v2");
    let zipf = Some(Traffic { spread: Spread::Zipf(1.1), flows: 1e6 });
    let at = |frame| Question { frame, traffic: zipf.clone(), ..Question::default() };
    timed("one estimate (bng)", || {
        black_box(ask(&library, "bng", &machine, &at(64)));
    });
    timed("a sweep of 10,000 points (l2-basic)", || {
        let memo = Memo::default();
        for i in 0..10_000 {
            let q = at(64 + i % 1455);
            black_box(
                estimate_again(&library, "l2-basic", &machine, &q, &memo).expect("an answer"),
            );
        }
    });
    timed("a sweep of 10,000 points (bng)", || {
        let memo = Memo::default();
        for i in 0..10_000 {
            let q = at(64 + i % 1455);
            black_box(estimate_again(&library, "bng", &machine, &q, &memo).expect("an answer"));
        }
    });
    let names = ["l2-basic", "mpls-switch", "l2-learning", "bng-core"];
    let functions: String = (0..200)
        .map(|i| {
            format!(
                "[[function]]\nname = \"f{i}\"\nfunction = \"{}\"\nrate = \"{:.2} Mpps\"\n",
                names[i % 4],
                0.5 + 0.03 * (i % 37) as f64
            )
        })
        .collect();
    let profiles = BTreeMap::from([("xeon-e5-2690v2".to_owned(), machine)]);
    for objective in ["fewest-hosts", "most-headroom", "least-energy"] {
        let text = format!(
            "objective = \"{objective}\"\n[[host]]\nname = \"h\"\ncount = 50\n\
             profile = \"xeon-e5-2690v2\"\n{functions}"
        );
        let request = Request::read("r", &text).expect("a request");
        timed(&format!("200 functions on 50 hosts, {objective}"), || {
            black_box(place(&library, &profiles, &request).expect("an answer"));
        });
    }
}
