//! Shapes of costs: over which terms of its parameters an operation's cycles are a sum, and which of its
//! micro-benchmarks are run at which parameters.
//!
//! Room: a table, an entry for each operation of `models/operations.toml`; what a benchmark does stands
//! in `kernel`. Called by `bench`.

use crate::field::WORD;
use crate::kernel::{Memory, Pace, classify, frame, payload, queue, register, table};
use crate::meter::Run;

/// A benchmark: in which memory, at which pace, over how many places.
pub type Maker = Box<dyn Fn(&Memory, Pace, u64) -> Run>;

/// Where the data of an operation is measured.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Home {
    /// In the nearest cache; it has none elsewhere.
    Near,
    /// In the nearest cache, and in a table far away.
    Table,
    /// In the nearest cache, and in the cache that cores share, where cards put frames.
    Packet,
    /// Only where cards put frames: what is waited for is in its cycles.
    Card,
}

/// Memory of a benchmark's own when it is far away.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Own {
    /// The places that the benchmark is told of, all of which it goes through in turns: after so many operations memory
    /// is as it is while these go on and on, so that as many are done before each turn.
    pub places: u64,
    /// Bytes that it strews its accesses over: its waits are held against the latency of as much.
    pub bytes: f64,
}

/// Parameters, and what is run there.
pub struct Point {
    /// The parameters.
    pub given: Vec<(&'static str, f64)>,
    /// Words of an entry: how far places are apart.
    pub words: usize,
    /// Whether it is measured far away, too.
    pub far: bool,
    /// Where it has memory of its own, in pages as anybody gets them: how much of it, nearest first. Where it has
    /// none, it is measured far away once. There are two at most; the second is left out in short, and where there is no
    /// room for it.
    pub own: Vec<Own>,
    /// For what has a pace of its own: how often it and what is taken away from it are measured in turns,
    /// the quietest of which counts. 0 where it is measured at both paces.
    pub turns: u32,
    /// What is run.
    pub make: Maker,
    /// What is taken away from it, where that is more than the loop around it.
    pub less: Option<Maker>,
}

/// How an operation's cost looks.
pub struct Shape {
    /// The operation.
    pub eo: &'static str,
    /// Terms: the coefficient's name, and what it is multiplied with.
    pub terms: &'static [(&'static str, &'static str)],
    /// What all terms are multiplied with.
    pub factor: Option<&'static str>,
    /// What comes on top: text of a formula over coefficients that others measure.
    pub more: Option<&'static str>,
    /// Accesses beyond the nearest cache.
    pub accesses: Option<&'static str>,
    /// Where its data is.
    pub home: Home,
    /// What was done.
    pub about: &'static str,
    /// Where it was measured.
    pub points: Vec<Point>,
}

/// A point that is measured near.
pub fn near(
    given: &[(&'static str, f64)],
    words: usize,
    make: impl Fn(&Memory, Pace, u64) -> Run + 'static,
) -> Point {
    Point {
        given: given.to_vec(),
        words,
        far: false,
        own: Vec::new(),
        turns: 0,
        make: Box::new(make),
        less: None,
    }
}

/// A point that is measured far away, too.
pub fn both(
    given: &[(&'static str, f64)],
    words: usize,
    make: impl Fn(&Memory, Pace, u64) -> Run + 'static,
) -> Point {
    Point { far: true, ..near(given, words, make) }
}

fn wide(words: usize) -> f64 {
    (words * WORD) as f64
}

/// Every operation that is measured by a benchmark of its own. `branch_miss` is not: its two are
/// compared with each other.
pub fn all() -> Vec<Shape> {
    let mut all = frames();
    all.extend(registers());
    all.extend(tables());
    all.extend(rules());
    all.extend(queues());
    all
}

fn frames() -> Vec<Shape> {
    const S: usize = frame::SLOT;
    let b = |b: f64| [("b", b)];
    let io = |hdr: f64| [("hdr", hdr), ("data", 0.0)];
    const WORDS: &[(&str, &str)] = &[("base", "1"), ("word", "ceil(b / 8)")];
    const LINES: &[(&str, &str)] = &[("first", "1"), ("next", "ceil(hdr / line)")];
    vec![
        Shape {
            eo: "io_mem",
            terms: LINES,
            factor: None,
            more: None,
            accesses: None,
            home: Home::Card,
            about: "a word of each of the header's lines, in frames that are in the cache that cores share",
            points: vec![
                near(&io(64.0), S, frame::io_mem::<1>),
                near(&io(128.0), S, frame::io_mem::<2>),
                near(&io(256.0), S, frame::io_mem::<4>),
            ],
        },
        Shape {
            eo: "mem_io",
            terms: LINES,
            factor: None,
            more: None,
            accesses: None,
            home: Home::Card,
            about: "the header's lines stored into frames that are in the cache that cores share",
            points: vec![
                near(&io(64.0), S, frame::mem_io::<1>),
                near(&io(128.0), S, frame::mem_io::<2>),
                near(&io(256.0), S, frame::mem_io::<4>),
            ],
        },
        Shape {
            eo: "parse",
            terms: WORDS,
            factor: None,
            more: None,
            accesses: Some("cold * ceil(b / line)"),
            home: Home::Packet,
            about: "words of a frame loaded",
            points: vec![
                both(&b(8.0), S, frame::parse::<1>),
                near(&b(16.0), S, frame::parse::<2>),
                near(&b(32.0), S, frame::parse::<4>),
                both(&b(64.0), S, frame::parse::<8>),
            ],
        },
        Shape {
            eo: "deparse",
            terms: WORDS,
            factor: None,
            more: None,
            accesses: Some("cold * ceil(b / line)"),
            home: Home::Packet,
            about: "words of a frame stored",
            points: vec![
                both(&b(8.0), S, frame::deparse::<1>),
                near(&b(16.0), S, frame::deparse::<2>),
                near(&b(32.0), S, frame::deparse::<4>),
                both(&b(64.0), S, frame::deparse::<8>),
            ],
        },
        Shape {
            eo: "prepend",
            terms: WORDS,
            factor: None,
            more: None,
            accesses: None,
            home: Home::Near,
            about: "words stored in front of a frame, and where it begins",
            points: vec![
                near(&b(8.0), S, frame::prepend::<1>),
                near(&b(32.0), S, frame::prepend::<4>),
                near(&b(64.0), S, frame::prepend::<8>),
            ],
        },
        Shape {
            eo: "strip",
            terms: &[("base", "1")],
            factor: None,
            more: None,
            accesses: None,
            home: Home::Near,
            about: "where a frame begins and its length, loaded, changed, stored",
            points: vec![near(&b(4.0), S, frame::strip)],
        },
        Shape {
            eo: "checksum",
            terms: &[("base", "1"), ("word", "ceil(b / 8)")],
            factor: None,
            more: None,
            accesses: Some("cold * ceil(b / line)"),
            home: Home::Packet,
            about: "RFC 1071, words of 32 bits added in 64",
            points: [20, 64, 256, 1024]
                .into_iter()
                .map(|n| Point {
                    far: n == 1024,
                    ..near(&b(n as f64), S, move |m, p, k| frame::checksum(m, p, k, n))
                })
                .collect(),
        },
        Shape {
            eo: "inc_checksum",
            terms: &[("base", "1"), ("word", "ceil(b / 2)")],
            factor: None,
            more: None,
            accesses: Some("cold * ceil(b / line)"),
            home: Home::Packet,
            about: "RFC 1624, equation 3",
            points: vec![
                near(&b(2.0), S, frame::inc_checksum::<1>),
                near(&b(4.0), S, frame::inc_checksum::<2>),
                both(&b(8.0), S, frame::inc_checksum::<4>),
            ],
        },
        Shape {
            eo: "copy",
            terms: &[("base", "1"), ("line_copy", "ceil(b / line)")],
            factor: None,
            more: None,
            accesses: Some("cold * ceil(b / line)"),
            home: Home::Packet,
            about: "memcpy of a length that the compiler does not know",
            points: [64, 128, 256, 512, 1024, 1500]
                .into_iter()
                .map(|n| Point {
                    far: n == 64 || n == 512 || n == 1500,
                    ..near(&b(n as f64), S, move |m, p, k| frame::copy(m, p, k, n))
                })
                .collect(),
        },
        Shape {
            eo: "crypto",
            terms: &[("base", "1"), ("byte", "b")],
            factor: None,
            more: None,
            accesses: Some("cold * ceil(b / line)"),
            home: Home::Near,
            about: "AES-128-GCM by the library 'ring', in place",
            points: [64, 256, 1024, 1500]
                .into_iter()
                .map(|n| near(&b(n as f64), 1, move |m, p, k| payload::crypto(m, p, k, n)))
                .collect(),
        },
        Shape {
            eo: "pattern_match",
            terms: &[("base", "1"), ("byte", "b")],
            factor: None,
            more: None,
            accesses: Some("cold * b * 0.1"),
            home: Home::Near,
            about: "an automaton of 16 states; that a tenth of the bytes lead away from the states that \
                    are near is assumed",
            points: [64, 256, 1024]
                .into_iter()
                .map(|n| near(&b(n as f64), 1, move |m, p, k| payload::patterns(m, p, k, n)))
                .collect(),
        },
    ]
}

fn registers() -> Vec<Shape> {
    const WORDS: &[(&str, &str)] = &[("base", "1"), ("word", "ceil(b / 8)")];
    let shape = |eo, about, points| Shape {
        eo,
        terms: WORDS,
        factor: None,
        more: None,
        accesses: None,
        home: Home::Near,
        about,
        points,
    };
    let b = |b: f64| [("b", b)];
    vec![
        shape(
            "increase",
            "an addition of one in registers",
            vec![near(&b(8.0), 1, register::increase), near(&b(16.0), 1, register::increase_wide)],
        ),
        Shape {
            terms: &[("word", "ceil(b / 8)")],
            ..shape(
                "decrease",
                "a subtraction of one in registers",
                vec![near(&b(8.0), 1, register::decrease)],
            )
        },
        shape(
            "sum",
            "an addition in registers",
            vec![near(&b(8.0), 1, register::sum), near(&b(16.0), 1, register::sum_wide)],
        ),
        Shape {
            terms: &[("base", "1"), ("pair", "ceil(N / 4)")],
            ..shape(
                "hash",
                "two words of 64 bits to a multiplication, its halves folded",
                vec![
                    near(&[("N", 2.0)], 1, table::hashed::<1>),
                    near(&[("N", 4.0)], 1, table::hashed::<2>),
                    near(&[("N", 8.0)], 1, table::hashed::<4>),
                    near(&[("N", 16.0)], 1, table::hashed::<8>),
                ],
            )
        },
    ]
}

fn tables() -> Vec<Shape> {
    let ht = |n: f64, words: usize| [("N", n), ("HE", wide(words)), ("max", 1e6), ("p", 0.0)];
    let es = |words: usize| [("es", wide(words)), ("max", 1e6)];
    const HASHED: &[(&str, &str)] =
        &[("base", "1"), ("word", "ceil(N / 2)"), ("load", "ceil(HE / 8)")];
    let shape = |eo, terms, accesses, about, points| Shape {
        eo,
        terms,
        factor: None,
        more: None,
        accesses: Some(accesses),
        home: Home::Table,
        about,
        points,
    };
    let prefix = |b: f64| [("b", b), ("es", 4.0)];
    vec![
        shape(
            "array_access",
            &[("base", "1"), ("load", "ceil(es / 8)")],
            "cold * ceil(es / line)",
            "an entry's words loaded",
            vec![
                both(&es(1), 1, table::array::<1>),
                near(&es(2), 2, table::array::<2>),
                near(&es(4), 4, table::array::<4>),
                both(&es(8), 8, table::array::<8>),
            ],
        ),
        Shape {
            factor: Some("1 + p"),
            ..shape(
                "ht_lookup",
                HASHED,
                "cold * ceil(ceil(HE / line) * (1 + p))",
                "key hashed, entry found, compared and loaded; the table's size is a power of two",
                vec![
                    both(&ht(2.0, 2), 2, table::lookup::<1, 2>),
                    near(&ht(2.0, 8), 8, table::lookup::<1, 8>),
                    both(&ht(4.0, 4), 4, table::lookup::<2, 4>),
                    both(&ht(8.0, 8), 8, table::lookup::<4, 8>),
                    near(&ht(10.0, 8), 8, table::lookup::<5, 8>),
                ],
            )
        },
        Shape {
            factor: Some("1 + p"),
            ..shape(
                "ct_insertion",
                HASHED,
                "cold * ceil(ceil(HE / line) * (1 + p))",
                "as ht_lookup; then key, value and a time that is known are stored. The line that is \
                 written back is nobody's wait",
                vec![
                    both(&ht(2.0, 2), 2, table::insertion::<1, 2>),
                    near(&ht(2.0, 8), 8, table::insertion::<1, 8>),
                    both(&ht(4.0, 4), 4, table::insertion::<2, 4>),
                    both(&ht(8.0, 8), 8, table::insertion::<4, 8>),
                ],
            )
        },
        shape(
            "lpm_lookup",
            &[("base", "1"), ("step", "1 + above(b, 3)")],
            "cold * (1 + above(b, 3))",
            "DIR-24-8, entries of 4 bytes",
            vec![
                both(&prefix(3.0), 1, table::prefix::<1>),
                both(&prefix(4.0), 1, table::prefix::<2>),
            ],
        ),
        shape(
            "lpm6_lookup",
            &[("base", "1"), ("step", "1 + ceil(max(b - 3, 0))")],
            "cold * (1 + ceil(max(b - 3, 0)))",
            "as lpm_lookup, a step for each byte beyond three",
            vec![
                near(&prefix(3.0), 1, table::prefix::<1>),
                both(&prefix(6.0), 1, table::prefix::<4>),
                near(&prefix(8.0), 1, table::prefix::<6>),
            ],
        ),
        Shape {
            more: Some("clock / burst"),
            ..shape(
                "token_bucket",
                &[("base", "1")],
                "cold * ceil(es / line)",
                "tokens added and taken without a branch; the clock is read once a burst",
                vec![both(&es(2), 2, table::bucket)],
            )
        },
        shape(
            "counter_update",
            &[("base", "1"), ("add", "n")],
            "cold",
            "counters of an entry loaded, added to, stored",
            vec![
                near(&[("n", 1.0)], 1, table::counters::<1>),
                both(&[("n", 2.0)], 2, table::counters::<2>),
                near(&[("n", 4.0)], 4, table::counters::<4>),
            ],
        ),
        shape(
            "port_allocation",
            &[("base", "1"), ("load", "ceil(es / 8)")],
            "cold * ceil(es / line)",
            "the first free bit of a bitmap",
            vec![
                both(&es(1), 1, table::port::<1>),
                near(&es(4), 4, table::port::<4>),
                near(&es(8), 8, table::port::<8>),
            ],
        ),
    ]
}

fn rules() -> Vec<Shape> {
    let linear = |n: f64, rules: usize| [("N", n), ("es", 8.0 * n), ("rules", rules as f64)];
    let tuple =
        |n: f64, masks: usize| [("N", n), ("HE", 64.0), ("max", 1e6), ("masks", masks as f64)];
    let trie = |levels: i32| [("es", 8.0), ("max", 16f64.powi(levels)), ("stride", 4.0)];
    vec![
        Shape {
            eo: "classify_linear",
            terms: &[("base", "1"), ("rule", "rules"), ("word", "rules * ceil(N / 2)")],
            factor: None,
            more: None,
            accesses: Some("cold * ceil(rules * es / line)"),
            home: Home::Near,
            about: "every rule compared, whichever matches: value and mask of each word",
            points: vec![
                near(&linear(4.0, 4), 1, |m, p, k| classify::linear::<2, 4>(m, p, k, 4)),
                near(&linear(4.0, 16), 1, |m, p, k| classify::linear::<2, 4>(m, p, k, 16)),
                near(&linear(4.0, 64), 1, |m, p, k| classify::linear::<2, 4>(m, p, k, 64)),
                near(&linear(10.0, 16), 1, |m, p, k| classify::linear::<5, 10>(m, p, k, 16)),
                near(&linear(10.0, 64), 1, |m, p, k| classify::linear::<5, 10>(m, p, k, 64)),
            ],
        },
        Shape {
            eo: "classify_tuple",
            terms: &[("base", "1"), ("mask", "masks"), ("word", "masks * ceil(N / 2)")],
            factor: None,
            more: None,
            accesses: Some("cold * masks * ceil(HE / line)"),
            home: Home::Table,
            about: "for each mask the key masked, hashed, an entry compared; all masks are asked",
            points: vec![
                both(&tuple(4.0, 1), 8, |m, p, k| classify::tuple::<2, 8>(m, p, k, 1)),
                both(&tuple(4.0, 4), 8, |m, p, k| classify::tuple::<2, 8>(m, p, k, 4)),
                near(&tuple(4.0, 16), 8, |m, p, k| classify::tuple::<2, 8>(m, p, k, 16)),
                near(&tuple(10.0, 1), 8, |m, p, k| classify::tuple::<5, 8>(m, p, k, 1)),
                near(&tuple(10.0, 8), 8, |m, p, k| classify::tuple::<5, 8>(m, p, k, 8)),
            ],
        },
        Shape {
            eo: "classify_trie",
            terms: &[("base", "1"), ("step", "ceil(log2(max) / stride)")],
            factor: None,
            more: None,
            accesses: Some("cold * ceil(log2(max) / stride) * ceil(es / line)"),
            home: Home::Table,
            about: "four bits of the key and a load a node",
            points: vec![
                near(&trie(2), 1, |m, p, k| classify::trie::<1>(m, p, k, 2)),
                both(&trie(4), 1, |m, p, k| classify::trie::<1>(m, p, k, 4)),
                near(&trie(8), 1, |m, p, k| classify::trie::<1>(m, p, k, 8)),
            ],
        },
    ]
}

fn queues() -> Vec<Shape> {
    let es = |words: usize| [("es", wide(words)), ("n", 1.0)];
    let shape = |eo, about, points| Shape {
        eo,
        terms: &[("base", "1"), ("word", "ceil(es / 8)")],
        factor: None,
        more: Some("cross / n"),
        accesses: None,
        home: Home::Near,
        about,
        points,
    };
    vec![
        shape(
            "ring_enqueue",
            "a descriptor stored and told; the line that changes cores is half a round trip between two",
            vec![
                near(&es(1), 1, queue::enqueue::<1>),
                near(&es(2), 2, queue::enqueue::<2>),
                near(&es(8), 8, queue::enqueue::<8>),
            ],
        ),
        shape(
            "ring_dequeue",
            "a descriptor loaded and told; the line that changes cores is half a round trip between two",
            vec![
                near(&es(1), 1, queue::dequeue::<1>),
                near(&es(2), 2, queue::dequeue::<2>),
                near(&es(8), 8, queue::dequeue::<8>),
            ],
        ),
        Shape {
            eo: "batch_overhead",
            terms: &[("base", "1")],
            factor: Some("1 / n"),
            more: None,
            accesses: None,
            home: Home::Near,
            about: "a port polled, another flushed, by dynamic dispatch, and a counter",
            points: vec![near(&[("n", 1.0)], 1, queue::batch)],
        },
    ]
}
