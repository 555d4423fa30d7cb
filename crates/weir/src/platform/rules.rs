//! The pass of frames that rules take, and what rules add to it: a lookup among many, actions that are not of 004's bitmap, a meter.
//!
//! Room: `platform`'s. Rules look at fields by which no function of `functions/` is told apart.

use super::{Fed, Kind, LINE, Tables, actions, empty, frame, lasting, point, shape, strewn};
use crate::functions::{Job, Stack};
use weir_calibrate::bench::GONE;
use weir_calibrate::shape::{Home, Maker, Point, Shape};
use weir_classify::{Field, FlowKey, Match};
use weir_dataplane::flowtext::FlowSpec;
use weir_dataplane::{Action, Band, BandKind, Meter, Op, Out, PortNo, Unit, extract};

pub(super) fn shapes() -> Vec<Shape> {
    vec![rule_pass(), rule_lookup(), rule_next(), rule_look(), rule_program(), rule_meter()]
}

/// How far into a frame rules look.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Look {
    /// No further than its Ethernet header.
    Ethernet,
    /// Beyond it.
    Deep,
}

impl Look {
    fn of_words(words: u32) -> Self {
        if words < 3 { Self::Ethernet } else { Self::Deep }
    }
    /// A match that every frame of a kind fits.
    fn at(self, kind: Kind) -> Match {
        let flat = Match::any().with_masked(Field::EthDst, 0x0600_0009_0000, 0xffff_ffff_0000);
        match (self, kind) {
            (Self::Ethernet, _) => flat,
            (Self::Deep, Kind::Udp | Kind::TaggedUdp) => {
                flat.with(Field::EthType, 0x800).with_masked(Field::Ipv4Dst, 11 << 24, 0xff << 24)
            }
            // Of a frame that is not usual all is looked at, whatever rules ask for.
            (Self::Deep, _) => flat.with(Field::Metadata, 0),
        }
    }
}

/// One rule that takes every frame, with these actions; half of the frames by another port where there are two
/// sources.
fn sole(kind: Kind, len: usize, look: Look, sources: u32, text: &'static str) -> Maker {
    lasting(move |tables| {
        let (matcher, actions) = (look.at(kind), actions(text, kind.named()));
        let rules = vec![FlowSpec { matcher, actions, priority: 1, ..FlowSpec::default() }];
        let ports = if sources == 1 { vec![1, 2] } else { vec![1, 2, 3] };
        Fed::new(kind, len, tables, Job { ports, rules, ..empty("drop") })
    })
}

fn rule_pass() -> Shape {
    let by = |kind: Kind, len: usize, look: Look, sources: u32| -> Point {
        let deep = if look == Look::Deep { 1.0 } else { 0.0 };
        let mut given = vec![("b", len as f64), ("sources", f64::from(sources)), ("deep", deep)];
        given.extend(Stack::of(&frame(kind, 0, len)).parameters());
        point(&given, sole(kind, len, look, sources, "output:2"), None)
    };
    let flat = |len: usize, sources: u32| by(Kind::Udp, len, Look::Ethernet, sources);
    let deep = |kind: Kind, len: usize| by(kind, len, Look::Deep, 1);
    Shape {
        eo: "rule_pass",
        // What rules look at is read: of what is usual at once, of all else a header after the other (ports with
        // the address before them).
        terms: &[
            ("base", "1"),
            ("common", "deep * usual"),
            ("ethernet", "deep * (1 - usual)"),
            ("tag", "deep * (1 - usual) * tags"),
            ("label", "deep * (1 - usual) * labels"),
            ("v4", "deep * (1 - usual) * ip4"),
            ("v6", "deep * (1 - usual) * ip6"),
            ("tagged", "deep * usual * tags"),
            ("source", "sources - 1"),
            ("line_copy", "ceil(b / line) - 1"),
            ("line_source", "(sources - 1) * (ceil(b / line) - 1)"),
            ("far_line", "max(ceil(b / line) - 8, 0)"),
        ],
        factor: None,
        more: Some(GONE),
        accesses: None,
        home: Home::Near,
        about: "weir's data plane in bursts of 64 with one VDP, whose one rule takes every frame and looks at its \
                Ethernet header or beyond, 32 Ki frames in memory as its source",
        points: vec![
            flat(60, 1),
            flat(124, 1),
            flat(252, 1),
            flat(508, 1),
            flat(1514, 1),
            flat(60, 2),
            flat(508, 2),
            flat(1514, 2),
            deep(Kind::Udp, 60),
            deep(Kind::TaggedUdp, 60),
            deep(Kind::Ethernet, 60),
            deep(Kind::Mpls, 60),
            deep(Kind::Ipv4, 60),
            deep(Kind::QinqUdp, 60),
            deep(Kind::Ipv6Udp, 62),
        ],
    }
}

/// Fields that rules look at, by how many words of 64 bits of the key they are in: the first tells
/// entries apart.
fn fields(words: u32) -> &'static [Field] {
    match words {
        1 => &[Field::EthSrc],
        2 => &[Field::EthSrc, Field::EthType],
        _ => &[Field::EthSrc, Field::EthType, Field::Ipv4Dst],
    }
}

/// A rule for each entry, looking at so many words under so many masks: masks differ in how many of the
/// highest bits of the first field they look at.
pub(super) fn rules(
    words: u32,
    masks: u32,
    tables: Tables,
    act: &dyn Fn(u64) -> Vec<Action>,
) -> Vec<FlowSpec> {
    let mut all = Vec::new();
    // Rules of one mask follow each other, as they do in lists.
    for first in 0..u64::from(masks) {
        for entry in (first..tables.entries()).step_by(masks as usize) {
            let mut key = FlowKey::default();
            if extract(&frame(Kind::Udp, entry, 60), 1, &mut key).is_err() {
                continue;
            }
            let mut m = Match::any();
            for (i, f) in fields(words).iter().enumerate() {
                let mask = f.full() >> if i == 0 { first } else { 0 };
                m = m.with_masked(*f, key.get(*f) & mask, mask);
            }
            all.push(FlowSpec {
                matcher: m,
                priority: 1,
                actions: act(entry),
                ..FlowSpec::default()
            });
        }
    }
    all
}

/// Rules that send by port 2.
fn ruled(words: u32, masks: u32) -> Maker {
    lasting(move |tables| {
        let rules = rules(words, masks, tables, &|_| vec![Action::Output(Out::Port(PortNo(2)))]);
        Fed::new(Kind::Udp, 60, tables, Job { rules, ..empty("drop") })
    })
}

fn rule_lookup() -> Shape {
    let at = |words: u32, masks: u32| -> Point {
        let given = [
            ("N", f64::from(2 * words)),
            ("masks", f64::from(masks)),
            ("HE", 8.0 * f64::from(1 + words)),
            ("max", 64.0),
        ];
        let less = sole(Kind::Udp, 60, Look::of_words(words), 1, "output:2");
        point(&given, ruled(words, masks), Some(less))
    };
    Shape {
        eo: "rule_lookup",
        terms: &[("base", "1"), ("mask", "masks - 1"), ("word", "masks * (ceil(N / 2) - 1)")],
        factor: None,
        more: None,
        accesses: Some("cold * (masks + 1)"),
        home: Home::Table,
        about: "a VDP with rules of which one takes each frame, less one with a single rule that takes all of them; \
                far away with a rule for each of 32 Ki frames, and of 256 Ki",
        // Far away: a slot's line and that of what it leads to.
        points: vec![strewn(2.0, 60, at(1, 1)), at(2, 1), at(3, 1), at(1, 2), at(1, 4), at(3, 4)],
    }
}

/// One rule that does this and leads to table 1, and there a rule for each entry.
fn chained(words: u32, masks: u32, first: Vec<Action>) -> Maker {
    led(words, masks, first, Vec::new())
}

/// The same, where that rule does something, too, before it sends.
fn led(words: u32, masks: u32, first: Vec<Action>, then: Vec<Action>) -> Maker {
    lasting(move |tables| {
        let send = Action::Output(Out::Port(PortNo(2)));
        let then = [then.as_slice(), &[send]].concat();
        let mut rules = rules(words, masks, tables, &|_| then.clone());
        rules.iter_mut().for_each(|r| r.table = 1);
        let matcher = Match::any();
        let actions = [first.as_slice(), &[Action::Goto(1)]].concat();
        rules.push(FlowSpec { matcher, actions, ..FlowSpec::default() });
        Fed::new(Kind::Udp, 60, tables, Job { rules, ..empty("drop") })
    })
}

fn rule_next() -> Shape {
    let given = |words: u32, masks: u32, again: f64| {
        [
            ("N", f64::from(2 * words)),
            ("masks", f64::from(masks)),
            ("again", again),
            ("HE", 8.0 * f64::from(1 + words)),
            ("max", 64.0),
        ]
    };
    let less = |text| Some(sole(Kind::Udp, 60, Look::Deep, 1, text));
    let at = |words: u32, masks: u32| -> Point {
        point(&given(words, masks, 0.0), chained(words, masks, Vec::new()), less("output:2"))
    };
    let again = || -> Point {
        point(
            &given(1, 1, 1.0),
            chained(1, 1, actions("push_vlan:0x8100", "udp,")),
            less("push_vlan:0x8100,output:2"),
        )
    };
    Shape {
        eo: "rule_next",
        terms: &[
            ("base", "1"),
            ("mask", "masks - 1"),
            ("word", "masks * (ceil(N / 2) - 1)"),
            ("refresh", "again"),
        ],
        factor: None,
        more: None,
        accesses: Some("cold * (masks + 1)"),
        home: Home::Table,
        about: "a VDP whose only rule leads to a table with rules, less one whose only rule sends; both with a header \
                put in front before",
        points: vec![strewn(2.0, 60, at(1, 1)), at(3, 1), at(1, 4), again()],
    }
}

fn rule_look() -> Shape {
    let push = || actions("push_vlan:0x8100", "udp,");
    let (before, behind) = (led(1, 1, push(), Vec::new()), led(1, 1, Vec::new(), push()));
    Shape {
        points: vec![point(&[("n", 1.0)], before, Some(behind))],
        ..shape(
            "rule_look",
            &[("each", "n")],
            "a VDP that puts a header in front before frames go on to a further table, less one that does so there",
        )
    }
}

/// A list of actions, and the frames that it is measured with.
struct Listed {
    kind: Kind,
    /// How many write fields of which a checksum tells, how many others, how many move headers.
    does: [u32; 3],
    actions: &'static str,
}

const fn listed(kind: Kind, does: [u32; 3], actions: &'static str) -> Listed {
    Listed { kind, does, actions }
}

const PROGRAMS: [Listed; 8] = [
    listed(Kind::Udp, [1, 0, 0], "set_field:5->ip_dscp,output:2"),
    listed(Kind::Udp, [2, 0, 0], "set_field:5->ip_dscp,set_field:7->udp_src,output:2"),
    listed(
        Kind::Udp,
        [4, 0, 0],
        "set_field:5->ip_dscp,set_field:7->udp_src,set_field:1->nw_ecn,set_field:8->udp_dst,output:2",
    ),
    listed(Kind::Mpls, [0, 1, 0], "set_field:5->mpls_tc,output:2"),
    listed(Kind::Mpls, [0, 2, 0], "set_field:5->mpls_tc,set_field:2->mpls_label,output:2"),
    listed(Kind::Udp, [0, 0, 1], "push_vlan:0x8100,output:2"),
    listed(Kind::Udp, [0, 1, 1], "push_vlan:0x8100,set_field:4103->vlan_vid,output:2"),
    listed(Kind::Udp, [0, 0, 2], "push_vlan:0x8100,pop_vlan,output:2"),
];

/// A list's parameters: its operations, the last of which sends.
fn parameters([n, plain, moves]: [u32; 3]) -> [(&'static str, f64); 5] {
    let bytes = f64::from(n + plain + moves + 1) * size_of::<Op>() as f64;
    [
        ("n", n.into()),
        ("plain", plain.into()),
        ("moves", moves.into()),
        ("HE", bytes),
        ("max", 64.0),
    ]
}

fn rule_program() -> Shape {
    let at = |l: Listed| {
        let with = |actions| sole(l.kind, 60, Look::Deep, 1, actions);
        point(&parameters(l.does), with(l.actions), Some(with("output:2")))
    };
    // A list for each rule, as rules have them: two lines of each, beside the rule's.
    let own = lasting(|tables| {
        let write = actions("set_field:5->ip_dscp,output:2", "udp,");
        let rules = rules(1, 1, tables, &|_| write.clone());
        Fed::new(Kind::Udp, 60, tables, Job { rules, ..empty("drop") })
    });
    let own = strewn(4.0, 60, point(&parameters([1, 0, 0]), own, Some(ruled(1, 1))));
    Shape {
        eo: "rule_program",
        terms: &[("base", "1"), ("action", "n"), ("write", "plain"), ("move", "moves")],
        factor: None,
        more: None,
        accesses: Some("cold * ceil(HE / line)"),
        home: Home::Table,
        about: "a VDP with actions for every frame, less one that only sends; far away with a list for each of 32 Ki \
                rules, and of 256 Ki",
        points: PROGRAMS.into_iter().map(at).chain([own]).collect(),
    }
}

/// Rules with a meter for each, or with what costs the executor as much.
fn metered(tables: Tables) -> Option<Fed> {
    let out = Action::Output(Out::Port(PortNo(2)));
    let rules = rules(1, 1, tables, &|e| vec![Action::Meter(e as u32 + 1), out.clone()]);
    let band = Band { kind: BandKind::Drop, rate: u32::MAX, burst: u32::MAX };
    let meter = || Meter::new(Unit::Kilobits, &[band]).ok();
    let meters = (0..tables.entries()).filter_map(|e| Some((e as u32 + 1, meter()?)));
    let meters = meters.collect();
    Fed::new(Kind::Udp, 60, tables, Job { rules, meters, ..empty("drop") })
}

fn rule_meter() -> Shape {
    let less = ruled(1, 1);
    // What leads to the meter, and that: rates, a bucket, counters; beside the rule's two.
    const LINES: f64 = 2.0;
    Shape {
        eo: "rule_meter",
        terms: &[("base", "1")],
        factor: None,
        more: None,
        accesses: Some("cold * ceil(es / line)"),
        home: Home::Table,
        about: "a VDP whose rules have a meter each, less one whose rules have none",
        points: vec![strewn(
            LINES + 2.0,
            60,
            point(&[("es", LINES * LINE), ("max", 64.0)], lasting(metered), Some(less)),
        )],
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn passed(f: &mut Fed) -> u64 {
        let sent = |f: &Fed| -> u64 {
            let s = f.plane.snapshot();
            s.check().expect("balanced");
            s.ports.iter().map(|p| p.counters.tx.frames).sum()
        };
        let before = sent(f);
        f.run(128);
        sent(f) - before
    }

    #[test]
    fn every_frame_finds_its_rule() {
        for (words, masks) in [(1, 1), (2, 1), (3, 1), (1, 4), (3, 4)] {
            let act = |_| actions("output:2", "udp,");
            let rules = rules(words, masks, Tables::Near, &act);
            let words_of = |r: &FlowSpec| r.matcher.mask().0.iter().filter(|w| **w != 0).count();
            assert!(rules.iter().all(|r| words_of(r) == words as usize));
            let job = Job { rules, ..empty("drop") };
            let mut f = Fed::new(Kind::Udp, 60, Tables::Near, job).expect("a data plane");
            assert_eq!(passed(&mut f), 128, "{words} words, {masks} masks");
        }
        let mut rules = rules(1, 1, Tables::Near, &|_| actions("output:2", "udp,"));
        rules.iter_mut().for_each(|r| r.table = 1);
        let (matcher, goto) = (Match::any(), vec![Action::Goto(1)]);
        rules.push(FlowSpec { matcher, actions: goto, ..FlowSpec::default() });
        let job = Job { rules, ..empty("drop") };
        let mut f = Fed::new(Kind::Udp, 60, Tables::Near, job).expect("a data plane");
        assert_eq!(passed(&mut f), 128);
        let kinds = [
            Kind::Ethernet,
            Kind::Mpls,
            Kind::Ipv4,
            Kind::Udp,
            Kind::TaggedUdp,
            Kind::QinqUdp,
            Kind::Ipv6Udp,
        ];
        let sole = |kind, look: Look, text| {
            let (matcher, actions) = (look.at(kind), actions(text, kind.named()));
            let rules = vec![FlowSpec { matcher, actions, ..FlowSpec::default() }];
            Fed::new(kind, 62, Tables::Near, Job { rules, ..empty("drop") })
        };
        for kind in kinds {
            for look in [Look::Ethernet, Look::Deep] {
                assert_eq!(passed(&mut sole(kind, look, "output:2").expect("a data plane")), 128);
            }
        }
        for l in PROGRAMS {
            let mut f = sole(l.kind, Look::Deep, l.actions).expect("a data plane");
            assert_eq!(passed(&mut f), 128, "{}", l.actions);
        }
        assert_eq!(passed(&mut metered(Tables::Near).expect("a data plane")), 128);
    }
}
