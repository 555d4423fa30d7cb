//! The engine and its first modules on a simulated switch: figures are those that were configured, faults
//! are named, bad switches are told in a line, and the table is as it was before.

mod toy;

use toy::{Barrier, Toy, number, on, outcome};
use weir_measure::document::Outcome;
use weir_measure::engine::Settings;
use weir_measure::engine::simulation::{World, simulate};
use weir_measure::module::traffic::Traffic;
use weir_openflow::channel::Versions;
use weir_openflow::model::{Action, Field, FlowCommand, Match, Port, Version};
use weir_packet::Nanos;

#[test]
fn echo_measures_what_the_channel_takes() {
    let d = on(&mut Toy::default(), "echo", &[("requests", "50")]).unwrap();
    let delays = &d.distributions[0];
    // Twice 20 µs of channel and 30 µs of switch.
    assert_eq!((delays.count, delays.min, delays.max), (50, Some(70.0), Some(70.0)));
    assert_eq!(outcome(&d, "echo-repeats"), Outcome::Holds);
    assert_eq!(d.partial, None);
}

#[test]
fn insertion_takes_what_was_configured() {
    for us in [100u64, 1_000, 10_000] {
        let mut toy = Toy { insertion: Nanos(us * 1_000), ..Toy::default() };
        // 100 Mb/s of 100-byte frames: a probe each 8 µs.
        let set = [("entries", "1,50"), ("repetitions", "3"), ("rate", "100"), ("watch", "last")];
        let d = on(&mut toy, "flow-insert", &set).unwrap();
        assert_eq!(outcome(&d, "barrier-truthful"), Outcome::Holds, "{:?}", d.verdicts);
        for (row, entries) in [(0, 1.0), (1, 50.0)] {
            let (want, got) = (us as f64 / 1e3 * entries, number(&d, row, "first packet"));
            // The channel's 20 µs, the wires, and a probe's interval.
            assert!((got - want - 0.022).abs() < 0.010, "{got} ms for {want}");
            assert!(number(&d, row, "barrier") >= want);
            assert_eq!(number(&d, row, "incomplete"), 0.0);
        }
    }
}

/// The probes' round grows with the entries, too.
#[test]
fn what_probes_do_not_resolve_is_not_told_of_the_switch() {
    for (insertion, watch, told) in [
        (0, "all", "each entry, at most"),
        (0, "last", "each entry, at most"),
        (1_000_000, "all", "each entry"),
        (1_000_000, "last", "each entry"),
    ] {
        let mut toy = Toy { insertion: Nanos(insertion), ..Toy::default() };
        let set = [("entries", "1,50"), ("repetitions", "3"), ("watch", watch)];
        let d = on(&mut toy, "flow-insert", &set).unwrap();
        let v = d.verdicts.iter().find(|v| v.id == "entries-work").unwrap();
        assert_eq!(v.outcome, Outcome::Holds);
        let us = v.evidence.iter().find(|e| e.what == told).and_then(|e| e.value).unwrap();
        let want = if insertion > 0 { 950.0..1_100.0 } else { 0.0..85.0 };
        assert!(want.contains(&us), "{watch}: {us} µs, {}", v.sentence);
    }
}

#[test]
fn a_barrier_that_is_answered_early_is_named_and_an_honest_one_is_not() {
    for (barrier, want) in [(Barrier::Early, Outcome::Fails), (Barrier::Honest, Outcome::Holds)] {
        for watch in ["all", "last"] {
            let mut toy = Toy { insertion: Nanos(1_000_000), barrier, ..Toy::default() };
            let set = [("entries", "1,10,100"), ("repetitions", "50"), ("watch", watch)];
            let d = on(&mut toy, "flow-insert", &set).unwrap();
            assert_eq!(outcome(&d, "barrier-truthful"), want, "{watch}: {:?}", d.verdicts);
            assert_eq!(outcome(&d, "entries-work"), Outcome::Holds);
        }
    }
}

#[test]
fn without_barriers_the_figures_are_there_and_who_refuses_none_is_named() {
    for (barrier, want, words) in [
        (Barrier::Refused, Outcome::Unclear, "The switch has no barrier."),
        (
            Barrier::Silent,
            Outcome::Fails,
            "The switch did not answer a barrier request within 10 s.",
        ),
        (
            Barrier::Misnumbered,
            Outcome::Fails,
            "The switch does not answer a barrier request by its number: 1 barrier reply came that no request waited for, by the transaction id.",
        ),
    ] {
        let mut toy = Toy { insertion: Nanos(1_000_000), barrier, ..Toy::default() };
        let set = [("entries", "10"), ("repetitions", "2")];
        let d = on(&mut toy, "flow-insert", &set).unwrap();
        let v = d.verdicts.iter().find(|v| v.id == "barrier-truthful").unwrap();
        assert_eq!((v.outcome, v.sentence.as_str()), (want, words));
        assert!(number(&d, 0, "first packet") > 10.0);
    }
}

#[test]
fn a_full_table_is_told() {
    let mut toy = Toy { room: 60, ..Toy::default() };
    let set = [("entries", "10,100"), ("repetitions", "3"), ("wait", "1")];
    let d = on(&mut toy, "flow-insert", &set).unwrap();
    assert_eq!(outcome(&d, "entries-work"), Outcome::Fails);
    assert!(d.notes.iter().any(|n| n.contains("FlowTableFull")), "{:?}", d.notes);
}

#[test]
fn the_table_is_left_as_it_was_found() {
    let before = vec![(
        Match::default().with(Field::InPort, 1),
        77,
        vec![Action::Output { port: Port(2), max_len: 0 }],
    )];
    let mut toy = Toy { rules: before.clone(), active: before.clone(), ..Toy::default() };
    on(&mut toy, "flow-insert", &[("entries", "3"), ("repetitions", "2")]).unwrap();
    assert_eq!(toy.rules, before);
    // Also when the connection was lost in the middle: it is made again for this.
    let mut toy = Toy {
        rules: before.clone(),
        closes_after: Some(40),
        active: before.clone(),
        ..Toy::default()
    };
    let d = on(&mut toy, "flow-insert", &[("entries", "20"), ("repetitions", "9")]).unwrap();
    assert!(d.partial.as_ref().is_some_and(|p| p.contains("connection is lost")), "{d:?}");
    assert_eq!(toy.rules, before);
    // And before anything was measured.
    let mut toy = Toy {
        rules: before.clone(),
        closes_after: Some(8),
        active: before.clone(),
        ..Toy::default()
    };
    let e = on(&mut toy, "flow-insert", &[]).unwrap_err();
    assert_eq!((e.as_str(), &toy.rules), ("the control connection: it went", &before));
}

/// A switch that restarts is tried again for as long as putting back may take.
#[test]
fn a_connection_that_comes_back_late_puts_the_table_back_all_the_same() {
    let before = vec![(
        Match::default().with(Field::InPort, 1),
        77,
        vec![Action::Output { port: Port(2), max_len: 0 }],
    )];
    let set = [("entries", "20"), ("repetitions", "9")];
    // A try each half second; there are fifteen seconds.
    for (refuses, back) in [(6, true), (1_000, false)] {
        let mut toy = Toy {
            rules: before.clone(),
            active: before.clone(),
            closes_after: Some(40),
            refuses,
            ..Toy::default()
        };
        let d = on(&mut toy, "flow-insert", &set).unwrap();
        assert_eq!(toy.rules == before, back, "{:?}", toy.rules);
        let told = d.notes.iter().any(|n| n.contains("could not be asked to put its flows back"));
        assert_eq!(told, !back, "{:?}", d.notes);
        assert!(toy.connections < 40, "{}", toy.connections);
    }
    // It is lost again while flows are put back.
    let mut toy = Toy {
        rules: before.clone(),
        active: before.clone(),
        closes_after: Some(40),
        closes_again: Some(2),
        ..Toy::default()
    };
    on(&mut toy, "flow-insert", &set).unwrap();
    assert_eq!((toy.rules, toy.connections), (before, 3));
}

/// Before anything is taken away.
#[test]
fn flows_that_could_not_be_put_back_are_left_where_they_are() {
    let to = vec![Action::Output { port: Port(2), max_len: 0 }];
    let one = (Match::default().with(Field::InPort, 1), 77, to);
    let measure = |versions, toy: &mut Toy| {
        let names = ["a", "b"].map(str::to_owned).to_vec();
        let settings = Settings { versions, ..Settings::new(names) };
        simulate(toy::core_of("flow-insert", &[], settings), toy, World::default()).unwrap_err()
    };
    let only = Versions::only(Version::V10);
    for (table, before, says) in [
        (1, vec![one.clone()], "can't put back (one is in table 1): take '--openflow 1.3'"),
        (0, vec![one.clone(), one.clone()], "(two have one match and one priority)"),
    ] {
        let (rules, active) = (before.clone(), before.clone());
        let mut toy = Toy { version: Version::V10, table, rules, active, ..Toy::default() };
        let e = measure(only, &mut toy);
        assert!(e.contains(says), "{e}");
        assert_eq!(toy.rules, before);
    }
    // A switch that has no other version finds the tables itself.
    let rules = vec![one.clone()];
    let mut toy = Toy { version: Version::V10, table: 1, rules, ..Toy::default() };
    let e = measure(Versions::ALL, &mut toy);
    assert!(!e.contains("put back"), "{e}");
    // A match that can't be read can't be written either.
    let mut toy = Toy { has_own_fields: true, rules: vec![one.clone()], ..Toy::default() };
    let e = on(&mut toy, "flow-insert", &[]).unwrap_err();
    assert_eq!(
        e,
        "the switch has a flow with a match that weir can't put back (OXM class 0x0001, field 0): take such flows out first"
    );
    assert_eq!(toy.rules, [one]);
}

/// No cable is to blame.
#[test]
fn a_refusal_while_it_is_set_up_is_told_as_that() {
    let e = on(&mut Toy { room: 1, ..Toy::default() }, "flow-insert", &[]).unwrap_err();
    assert_eq!(e, "the switch refuses the flow that frames are to pass by with FlowTableFull");
}

#[test]
fn switches_that_can_not_be_measured_are_told_in_a_line() {
    let mut toy = Toy { mute: true, ..Toy::default() };
    let e = on(&mut toy, "flow-insert", &[]).unwrap_err();
    assert!(e.starts_with("the switch did not answer a features request within 10 s"), "{e}");
    let e = on(&mut toy, "echo", &[]).unwrap_err();
    assert!(e.starts_with("the switch did not answer"), "{e}");
    // The second channel is on no port of the switch.
    let mut toy = Toy { wired: [1, 9], ..Toy::default() };
    let e = on(&mut toy, "flow-insert", &[]).unwrap_err();
    assert_eq!(
        e,
        "nothing that the switch sends arrives at 'b': not connected to it, or down; its ports are 1 (p1), 2 (p2)"
    );
}

/// At once, not when patience ends; and what was found before is kept and marked.
#[test]
fn answers_that_can_not_be_read_are_told_at_once() {
    // From the first on; set-up goes on without a description, not without its features.
    let e = on(&mut Toy { slurs_from: Some(1), ..Toy::default() }, "echo", &[]).unwrap_err();
    assert_eq!(
        e,
        "the switch answers a features request with a message of type 21 that is not OpenFlow 1.3 (BadLen): '--pcap FILE' saves what it says"
    );
    // Features, description, ports, configuration, and then nine echoes.
    let set = [("requests", "50")];
    let mut toy = Toy { slurs_from: Some(14), ..Toy::default() };
    let d = on(&mut toy, "echo", &set).unwrap();
    assert_eq!(outcome(&d, "control-channel-works"), Outcome::Fails);
    let whole = on(&mut Toy::default(), "echo", &set).unwrap();
    assert!(!whole.verdicts.iter().any(|v| v.id == "control-channel-works"));
    let partial = d.partial.clone().unwrap_or_default();
    assert!(partial.starts_with("the switch answers an echo request with"), "{:?}", d.partial);
    assert_eq!(d.distributions[0].count, 9);
}

#[test]
fn changes_that_are_dearer_than_insertions_are_named() {
    let set = [("entries", "10,40"), ("repetitions", "3")];
    let ids = ["modification-as-cheap", "deletion-as-cheap", "priorities-cost-nothing"];
    let cheap = Nanos(1_000_000);
    let mut toy = Toy { insertion: cheap, change: cheap, ..Toy::default() };
    let d = on(&mut toy, "flow-modify", &set).unwrap();
    for id in ids.iter().chain(&["barrier-truthful"]) {
        assert_eq!(outcome(&d, id), Outcome::Holds, "{:?}", d.verdicts);
    }
    let mut toy = Toy { insertion: cheap, change: Nanos(5_000_000), ..Toy::default() };
    let d = on(&mut toy, "flow-modify", &set).unwrap();
    for (id, want) in ids.iter().zip([Outcome::Fails, Outcome::Fails, Outcome::Holds]) {
        assert_eq!(outcome(&d, id), want, "{:?}", d.verdicts);
    }
    assert_eq!(outcome(&d, "barrier-truthful"), Outcome::Holds);
    let mut toy =
        Toy { insertion: cheap, change: cheap, barrier: Barrier::Early, ..Toy::default() };
    let d = on(&mut toy, "flow-modify", &set).unwrap();
    assert_eq!(outcome(&d, "barrier-truthful"), Outcome::Fails, "{:?}", d.verdicts);
}

/// Neither is silence while frames get lost taken for a deletion, nor are they waited for without end.
#[test]
fn changes_that_never_come_to_work_are_named() {
    let set = [("entries", "5"), ("repetitions", "3"), ("wait", "2")];
    // The rows that delete are the last two, those before them modify.
    let none: &[usize] = &[];
    for (deaf_to, loses, fail) in [
        (&[FlowCommand::DeleteStrict][..], None, &[6, 7][..]),
        (&[FlowCommand::DeleteStrict], Some((300, 1000)), &[6, 7]),
        (&[FlowCommand::ModifyStrict], None, &[4, 5]),
        (&[], Some((300, 1000)), none),
    ] {
        let mut toy = Toy { deaf_to, loses, ..Toy::default() };
        let d = on(&mut toy, "flow-modify", &set).unwrap();
        let want = if fail.is_empty() { Outcome::Holds } else { Outcome::Fails };
        assert_eq!(outcome(&d, "changes-work"), want, "{:?}", d.verdicts);
        for row in 0..8 {
            let missing = if fail.contains(&row) { 3.0 } else { 0.0 };
            assert_eq!(number(&d, row, "incomplete"), missing, "row {row}: {:?}", d.verdicts);
            let took = number(&d, row, "data plane");
            assert!(if missing > 0.0 { took.is_nan() } else { took < 2000.0 }, "{row}: {took}");
        }
        // Three runs of each of two kinds that wait, and what the others take.
        assert!(d.duration_s < 2.0 * 6.0 + 24.0, "{}", d.duration_s);
        let missing: u64 = d.distributions.iter().map(|x| x.missing).sum();
        assert_eq!(missing, fail.len() as u64 * 3);
    }
}

/// A busy machine makes a few runs of one kind slow: that is not the switch's doing, and not told as if.
#[test]
fn runs_that_stood_still_by_chance_accuse_nobody() {
    let set = [("entries", "10,40"), ("repetitions", "3")];
    // Of three runs that modify ten entries two, and all.
    for stalls in [&[1, 11][..], &[1, 11, 21]] {
        let mut toy = Toy { stalls, ..Toy::default() };
        let d = on(&mut toy, "flow-modify", &set).unwrap();
        assert_eq!(outcome(&d, "modification-as-cheap"), Outcome::Unclear, "{:?}", d.verdicts);
        let v = d.verdicts.iter().find(|v| v.id == "modification-as-cheap").unwrap();
        assert!(v.sentence.contains("to tell it from chance"), "{}", v.sentence);
    }
    let set = [("flows", "40"), ("changed", "10"), ("rates", "5"), ("repetitions", "4")];
    // The first four updates are without polling.
    let d = on(&mut Toy { stalls: &[41, 51, 61], ..Toy::default() }, "interaction", &set).unwrap();
    assert_eq!(outcome(&d, "updates-undisturbed"), Outcome::Unclear, "{:?}", d.verdicts);
    let all = &[41, 51, 61, 71];
    let d = on(&mut Toy { stalls: all, ..Toy::default() }, "interaction", &set).unwrap();
    assert_eq!(outcome(&d, "updates-undisturbed"), Outcome::Fails, "{:?}", d.verdicts);
}

#[test]
fn statistics_that_are_old_are_named() {
    let set = [("flows", "20"), ("rates", "5,50"), ("duration", "1"), ("rate", "1")];
    let d = on(&mut Toy::default(), "flow-stats", &set).unwrap();
    for id in ["statistics-answered", "statistics-fresh", "statistics-whole"] {
        assert_eq!(outcome(&d, id), Outcome::Holds, "{:?}", d.verdicts);
    }
    // Twice 20 µs of channel.
    assert!((number(&d, 0, "delay") - 0.04).abs() < 1e-6);
    assert!(number(&d, 1, "age").abs() < 2.0, "{}", number(&d, 1, "age"));
    let d = on(&mut Toy { frozen: Some(0), ..Toy::default() }, "flow-stats", &set).unwrap();
    assert_eq!(outcome(&d, "statistics-fresh"), Outcome::Fails, "{:?}", d.verdicts);
}

/// Frames that were not sent have no age.
#[test]
fn statistics_that_are_ahead_are_not_called_fresh() {
    let set = [("flows", "20"), ("rates", "5,50"), ("duration", "1"), ("rate", "1")];
    let d = on(&mut Toy { told_times: 2, ..Toy::default() }, "flow-stats", &set).unwrap();
    let v = d.verdicts.iter().find(|v| v.id == "statistics-fresh").unwrap();
    assert_eq!(v.outcome, Outcome::Fails, "{}", v.sentence);
    assert!(v.sentence.contains("ms of probes ahead"), "{}", v.sentence);
}

/// Flows that were just added count from 0, however large a counter is.
#[test]
fn counters_that_are_wrong_by_a_constant_are_named() {
    let set = [("flows", "4"), ("duration", "1"), ("rate", "0.2"), ("wait", "0.5")];
    let d = on(&mut Toy::default(), "counters", &set).unwrap();
    for id in ["counters-right", "counters-fresh", "counters-not-ahead"] {
        assert_eq!(outcome(&d, id), Outcome::Holds, "{:?}", d.verdicts);
    }
    for (counts_from, says) in [
        (1_000, "more frames than were sent: flows."),
        (1 << 62, "more frames than were sent: flows."),
        (u64::MAX - 5, "fewer frames than before: flows."),
    ] {
        let d = on(&mut Toy { counts_from, ..Toy::default() }, "counters", &set).unwrap();
        assert_eq!(outcome(&d, "counters-right"), Outcome::Fails, "{:?}", d.verdicts);
        let v = d.verdicts.iter().find(|v| v.id == "counters-not-ahead").unwrap();
        assert_eq!(v.outcome, Outcome::Fails, "{}", v.sentence);
        assert!(v.sentence.contains(says), "{counts_from}: {}", v.sentence);
        assert_eq!(outcome(&d, "counters-fresh"), Outcome::Unclear, "{:?}", d.verdicts);
    }
}

/// All ones: the switch does not count it.
#[test]
fn counters_that_are_not_kept_are_not_called_ahead() {
    let set = [("flows", "20"), ("rates", "5"), ("duration", "1"), ("rate", "1")];
    let d = on(&mut Toy { frozen: Some(u64::MAX), ..Toy::default() }, "flow-stats", &set).unwrap();
    let v = d.verdicts.iter().find(|v| v.id == "statistics-fresh").unwrap();
    assert_eq!(v.outcome, Outcome::Unclear, "{}", v.sentence);
    assert!(v.sentence.contains("does not count"), "{}", v.sentence);
    assert_eq!(outcome(&d, "statistics-whole"), Outcome::Holds);
}

#[test]
fn what_is_answered_again_is_named() {
    for (module, set) in [
        ("flow-stats", &[("flows", "4"), ("rates", "5"), ("duration", "1")][..]),
        ("flow-insert", &[("entries", "1"), ("repetitions", "3")]),
    ] {
        let d = on(&mut Toy::default(), module, set).unwrap();
        assert!(d.verdicts.iter().all(|v| v.id != "control-channel-works"), "{:?}", d.verdicts);
        let d = on(&mut Toy { answers_twice: true, ..Toy::default() }, module, set).unwrap();
        let v = d.verdicts.iter().find(|v| v.id == "control-channel-works").unwrap();
        assert_eq!(v.outcome, Outcome::Fails);
        assert!(v.sentence.contains("answers again what it had answered"), "{}", v.sentence);
    }
}

#[test]
fn little_of_a_measurement_shows_nothing_that_holds() {
    let set = [("entries", "1"), ("repetitions", "30")];
    let whole = on(&mut Toy::default(), "flow-insert", &set).unwrap();
    assert_eq!(outcome(&whole, "barrier-truthful"), Outcome::Holds);
    let mut early = Toy { closes_after: Some(26), ..Toy::default() };
    let d = on(&mut early, "flow-insert", &set).unwrap();
    assert!(d.partial.is_some());
    assert_eq!(outcome(&d, "barrier-truthful"), Outcome::Unclear, "{:?}", d.verdicts);
    assert!(d.verdicts.iter().all(|v| v.outcome != Outcome::Holds), "{:?}", d.verdicts);
}

#[test]
fn packet_ins_that_never_come_have_no_rate() {
    let set = [("rates", "100"), ("duration", "0.5"), ("wait", "0.3")];
    let d = on(&mut Toy { forgets: 0, ..Toy::default() }, "packet-in", &set);
    let text = d.map_or_else(|e| e, |d| format!("{:?}", d.verdicts));
    assert!(!text.contains("NaN"), "{text}");
}

/// A capture of three frames in two seconds, of which a module asks for a time at another rate.
#[test]
fn a_capture_that_is_played_ends_with_the_duration() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("c.pcap");
    let mut b = Vec::new();
    for word in [0xa1b2_c3d4u32, 0x0004_0002, 0, 0, 65_535, 1] {
        b.extend(word.to_le_bytes());
    }
    for (seconds, us) in [(7u32, 0u32), (7, 500_000), (9, 0)] {
        for word in [seconds, us, 60, 60] {
            b.extend(word.to_le_bytes());
        }
        b.extend([0; 60]);
    }
    std::fs::write(&path, b).unwrap();
    let text = format!("times = \"replay\"\ncapture = \"{}\"", path.display());
    let set = [("rates", "1000"), ("duration", "3"), ("wait", "0.3")];
    let core = toy::core_with("packet-in", &set, Some(Traffic::read(&text).unwrap()));
    let d = simulate(core, &mut Toy::default(), World::default()).unwrap();
    assert!(d.duration_s < 5.0, "{}", d.duration_s);
    assert_eq!(outcome(&d, "packet-ins-complete"), Outcome::Holds, "{:?}", d.verdicts);
    assert_eq!(d.loads.iter().map(|l| l.sent).max(), Some(3), "{:?}", d.loads);
}

#[test]
fn what_comes_twice_is_named() {
    let twice = || Toy { says_twice: true, ..Toy::default() };
    let set = [("rates", "100"), ("duration", "0.5"), ("wait", "0.3")];
    for (module, set, id, n) in [
        ("echo", &[("requests", "20")][..], "echo-once", "20 echo requests 20 were"),
        ("packet-out", &set, "packet-outs-once", "50 packet-outs 50 left"),
    ] {
        let d = on(&mut Toy::default(), module, set).unwrap();
        assert_eq!(outcome(&d, id), Outcome::Holds, "{:?}", d.verdicts);
        let d = on(&mut twice(), module, set).unwrap();
        let v = d.verdicts.iter().find(|v| v.id == id).unwrap();
        assert!(v.outcome == Outcome::Fails && v.sentence.contains(n), "{}", v.sentence);
        let others = d.verdicts.iter().filter(|o| o.id != id);
        assert!(others.into_iter().all(|o| o.outcome == Outcome::Holds), "{:?}", d.verdicts);
    }
}

#[test]
fn an_answer_without_an_end_is_told_as_that() {
    let e = on(&mut Toy { never_ends: true, ..Toy::default() }, "flow-insert", &[]).unwrap_err();
    assert_eq!(
        e,
        "the switch did not end its answer to a statistics request within 10 s: each part that came (1) says that more follow"
    );
}

#[test]
fn tables_hold_what_they_hold() {
    let set = [("most", "500"), ("batch", "64")];
    // One of them is the rule that drops the rest.
    let d = on(&mut Toy { room: 301, ..Toy::default() }, "table-capacity", &set).unwrap();
    for row in 0..3 {
        assert_eq!(number(&d, row, "accepted"), 300.0, "{:?}", d.tables[0].rows);
        assert_eq!(number(&d, row, "accepted and dead"), 0.0);
    }
    assert_eq!(outcome(&d, "accepted-entries-work"), Outcome::Holds);
    assert_eq!(outcome(&d, "entries-told"), Outcome::Holds);
    let d = on(&mut Toy { forgets: 301, ..Toy::default() }, "table-capacity", &set).unwrap();
    assert_eq!(number(&d, 0, "accepted"), 500.0);
    assert_eq!(number(&d, 0, "accepted and dead"), 100.0);
    assert_eq!(outcome(&d, "accepted-entries-work"), Outcome::Fails);
}

#[test]
fn what_survives_the_controller_is_told() {
    let set = [("repetitions", "1")];
    for (empties, want) in [(false, Outcome::Holds), (true, Outcome::Fails)] {
        let mut toy = Toy { empties, ..Toy::default() };
        let d = on(&mut toy, "connection", &set).unwrap();
        assert_eq!(outcome(&d, "forwarding-survives"), want, "{:?}", d.verdicts);
        assert_eq!(outcome(&d, "flows-survive"), want, "{:?}", d.verdicts);
    }
}

#[test]
fn packets_to_and_from_the_controller_take_what_the_channel_takes() {
    let set = [("rates", "100,10000"), ("duration", "0.1")];
    let d = on(&mut Toy::default(), "packet-in", &set).unwrap();
    assert_eq!(outcome(&d, "packet-ins-complete"), Outcome::Holds);
    let d2 = on(&mut Toy::default(), "packet-out", &set).unwrap();
    assert_eq!(outcome(&d2, "packet-outs-complete"), Outcome::Holds);
    for d in [&d, &d2] {
        for (row, frames) in [(0, 10.0), (1, 1000.0)] {
            // 500 ns of wire and 20 µs of channel.
            let median = number(d, row, "median");
            assert!((median - 20.5).abs() < 0.01, "{median}");
            assert_eq!(number(d, row, "loss"), 0.0);
            let last = if d.id == "packet-in" { "frames" } else { "packets" };
            assert_eq!(number(d, row, last), frames);
        }
    }
}

#[test]
fn actions_that_are_not_done_are_named() {
    // This switch forwards and changes nothing.
    let set = [("duration", "0.01"), ("rounds", "1")];
    let d = on(&mut Toy::default(), "actions", &set).unwrap();
    assert_eq!(outcome(&d, "modifications-complete"), Outcome::Holds);
    assert_eq!(outcome(&d, "modifications-right"), Outcome::Fails);
    assert_eq!(outcome(&d, "modifications-as-fast"), Outcome::Holds);
    assert_eq!(number(&d, 0, "right"), 100.0, "forwarding is done");
    for row in 1..d.tables[0].rows.len() {
        assert_eq!(number(&d, row, "right"), 0.0, "{:?}", d.tables[0].rows[row]);
    }
    // In rounds it is the same, of as many frames.
    let set = [("duration", "0.01"), ("rounds", "5")];
    let r = on(&mut Toy::default(), "actions", &set).unwrap();
    assert_eq!((r.tables[0].rows.len(), outcome(&r, "modifications-right")), (14, Outcome::Fails));
    for row in 0..r.tables[0].rows.len() {
        for column in ["frames", "right", "median", "loss"] {
            assert_eq!(number(&r, row, column), number(&d, row, column), "{column}");
        }
    }
}

#[test]
fn swapped_ports_are_found() {
    // By themselves: what enters by the first channel leaves by the second all the same.
    let mut toy = Toy { wired: [2, 1], ..Toy::default() };
    let set = [("entries", "3"), ("repetitions", "2")];
    let d = on(&mut toy, "flow-insert", &set).unwrap();
    assert_eq!(outcome(&d, "entries-work"), Outcome::Holds);
}

#[test]
fn every_module_describes_itself() {
    use weir_measure::module::{Depth, Params};
    for e in weir_measure::modules::all() {
        for depth in [Depth::Full, Depth::Quick] {
            let p = Params::defaults(&e.about, depth).unwrap();
            let _ = (e.make)(&p);
        }
        assert!(
            !e.about.asks.is_empty() && !e.about.asks.ends_with(['.', '?']),
            "{}",
            e.about.name
        );
    }
}

/// What a module says beforehand is what it takes on a switch that needs no time of its own.
#[test]
fn how_long_it_takes_is_known_beforehand() {
    for (module, set) in [
        ("echo", &[("requests", "50")][..]),
        ("flow-insert", &[("entries", "1,50"), ("repetitions", "4")]),
        ("flow-insert", &[("entries", "300"), ("watch", "last"), ("repetitions", "4")]),
        ("flow-modify", &[("entries", "1,40"), ("repetitions", "3")]),
        ("flow-stats", &[("flows", "5"), ("rates", "3,20"), ("duration", "1"), ("rate", "1")]),
        ("packet-in", &[("rates", "7,1000"), ("duration", "0.5")]),
        ("packet-out", &[("rates", "7,1000"), ("duration", "0.5")]),
        ("table-capacity", &[("most", "300")]),
        ("connection", &[("repetitions", "3")]),
    ] {
        let mut toy = Toy::default();
        let planned = toy::core(module, set).status().takes.unwrap().as_secs_f64();
        let took = on(&mut toy, module, set).unwrap().duration_s;
        // Draining takes 300 ms.
        let off = (took - 0.3 - planned) / planned;
        assert!(off.abs() < 0.1, "{module} {set:?}: {planned} s planned, {took} s taken");
    }
}
