//! The cases: data. Every key of a profile that is a fault stands here, and a test sees that none is missing.

use super::{Case, Figure, Must, Set};
use crate::dut::profile::ActionKind;
use weir_openflow::model::Version;

/// Every module by itself, short, for a device without faults. `timestamps` measures wires.
pub const HONEST: &[(&str, Set)] = &[
    ("echo", ECHO),
    ("flow-insert", INSERT),
    ("flow-modify", MODIFY),
    ("flow-stats", STATS),
    ("interaction", INTERACTION),
    ("consistency", CONSISTENCY),
    ("counters", COUNTERS),
    ("expiry", EXPIRY),
    ("packet-in", PACKETS),
    ("packet-out", PACKETS),
    ("actions", ACTIONS),
    ("table-capacity", CAPACITY),
    ("connection", CONNECTION),
    ("rfc2544", RFC2544),
    ("timestamps", &[("duration", "2"), ("rate", "8")]),
];

/// There and back is a fifth of a millisecond at most.
const ECHO: Set = &[("requests", "20")];
const INSERT: Set = &[("entries", "1,10,40"), ("repetitions", "3")];
const MODIFY: Set = &[("entries", "10,40"), ("repetitions", "2")];
const STATS: Set = &[("flows", "50"), ("rates", "2,20"), ("duration", "2"), ("rate", "2")];
/// A round of 300 entries takes 24 ms of probes.
const INTERACTION: Set = &[
    ("flows", "300"),
    ("changed", "50"),
    ("rates", "1,50"),
    ("repetitions", "4"),
    ("interval", "0.2"),
];
const CONSISTENCY: Set = &[("repetitions", "6")];
/// Probes of one flow, so that whoever overtakes is of the same.
const CONSISTENCY_ONE: Set = &[("flows", "1"), ("repetitions", "10"), ("rate", "4")];
const COUNTERS: Set = &[("duration", "2"), ("rate", "1"), ("wait", "1.5")];
const EXPIRY: Set = &[("flows", "4"), ("rate", "0.1")];
const PACKETS: Set = &[("rates", "100,2000"), ("duration", "0.5"), ("wait", "0.3")];
const ACTIONS: Set = &[("duration", "0.05"), ("rate", "4")];
/// A slow processor's delay wanders over tens of milliseconds: its median needs seconds.
const ACTIONS_LONG: Set = &[("duration", "8"), ("rate", "0.08")];
/// Hundreds of frames that are not lost make a median.
const CPU_MODIFY: Set = &[("duration", "1"), ("rate", "4")];
const ACTIONS_RATE: Set = &[("duration", "0.25"), ("rate", "1.6")];
const CAPACITY: Set = &[("most", "600")];
const CONNECTION: Set = &[("repetitions", "2"), ("away", "0.2")];
const RFC2544: Set =
    &[("sizes", "64"), ("line", "1"), ("trial", "0.5"), ("benchmark", "throughput")];

/// Kinds of actions that frames can show, with their rows in the module `actions`.
pub const KINDS: [(ActionKind, &str); 10] = [
    (ActionKind::Mac, "MAC addr."),
    (ActionKind::Ip, "IP addr."),
    (ActionKind::Tos, "IP ToS"),
    (ActionKind::L4Port, "L4 port"),
    (ActionKind::VlanPcp, "VLAN pcp"),
    (ActionKind::VlanId, "VLAN id"),
    (ActionKind::VlanStrip, "VLAN rem."),
    (ActionKind::VlanPush, "VLAN push"),
    (ActionKind::Ttl, "TTL decr."),
    (ActionKind::Mpls, "MPLS push"),
];

/// Kinds that change what a checksum is of.
const SUMMED: [ActionKind; 4] =
    [ActionKind::Ip, ActionKind::Tos, ActionKind::L4Port, ActionKind::Ttl];

/// Keys that are no fault by themselves: they shape another, or are about something else.
pub const SHAPES: [&str; 8] = [
    "name",
    "about",
    "seed",
    "packet_in.queue",
    "actions.cpu.queue",
    // The rest is told by the CPU's sampler, not by a verdict: `dut_serve.rs` and `snmpd.rs` see to it.
    "snmp.silent",
    "snmp.idle_percent",
    // The kind's own cases have it.
    "actions.cpu.does",
];

fn case(fault: &str, module: &'static str, set: Set, profile: &str, must: Must) -> Case {
    let (fault, profile) = (fault.to_owned(), Some(profile.to_owned()));
    Case { fault, profile, module, set, must, offers: None }
}

const fn near(want: f64, by: f64) -> Figure {
    Figure { want, by }
}

/// The profiles that come along, each with the modules that see what it does wrong.
pub fn profiles() -> Vec<Case> {
    let lost = Must::Fail(&["control-channel-works"], "connection is lost");
    let all: Vec<(&str, &'static str, Set, Must)> = vec![
        ("early-barrier", "flow-insert", INSERT, Must::Fail(&["barrier-truthful"], "")),
        ("early-barrier", "flow-modify", MODIFY, Must::Fail(&["barrier-truthful"], "")),
        ("early-barrier", "interaction", INTERACTION, Must::Fail(&["barrier-truthful"], "")),
        ("early-barrier", "consistency", CONSISTENCY, Must::Fail(&["barrier-truthful"], "")),
        ("no-barrier", "flow-insert", INSERT, Must::Say("barrier-truthful", "has no barrier")),
        ("no-barrier", "consistency", CONSISTENCY, Must::Fail(&[], "")),
        ("cpu-modify", "actions", CPU_MODIFY, Must::Fail(SLOW_AND_LOSSY, "(88.")),
        (
            "discards-actions",
            "actions",
            ACTIONS,
            Must::Fail(&["modifications-complete"], "MAC addr. (all"),
        ),
        ("wrong-rewrites", "actions", ACTIONS, Must::Fail(&["modifications-right"], "VLAN id")),
        ("modify-dear", "flow-modify", MODIFY, Must::Fail(&["modification-as-cheap"], "")),
        ("modify-dear", "consistency", CONSISTENCY, Must::Fail(&[], "")),
        ("priorities-dear", "flow-modify", MODIFY, Must::Fail(&["priorities-cost-nothing"], "")),
        ("reorders", "consistency", CONSISTENCY, Must::Fail(&["changes-in-order"], "")),
        ("gap-in-modify", "flow-modify", MODIFY, Must::Fail(&["modification-as-cheap"], "")),
        ("gap-in-modify", "consistency", CONSISTENCY, Must::Fail(&["one-rule-or-the-other"], "")),
        (
            "small-table",
            "table-capacity",
            &[("most", "2000")],
            Must::Say("limit-told", "after 1499 exact"),
        ),
        ("exact-table", "table-capacity", CAPACITY, Must::Say("limit-told", "99 wildcard")),
        (
            "loses-entries",
            "table-capacity",
            &[("most", "2000")],
            Must::Fail(&["accepted-entries-work"], ""),
        ),
        (
            "slow-stats",
            "flow-stats",
            STATS,
            Must::Tell("statistics-answered", "delay at the first rate, median", near(6.02, 0.15)),
        ),
        (
            "paced-stats",
            "flow-stats",
            STATS,
            Must::Fail(&["statistics-packed"], "depends on the rate"),
        ),
        (
            "stats-slow-updates",
            "interaction",
            INTERACTION,
            Must::Fail(&["updates-undisturbed"], ""),
        ),
        ("stale-counters", "flow-stats", STATS, Must::Fail(&["statistics-fresh"], "")),
        (
            "stale-counters",
            "counters",
            COUNTERS,
            Must::Fail(&["counters-right", "counters-fresh"], "flows"),
        ),
        ("stale-counters", "expiry", EXPIRY, Must::Fail(&["removal-counts-right"], "")),
        ("late-timeouts", "expiry", EXPIRY, Must::Fail(&["time-outs-exact"], "")),
        ("idle-from-insertion", "expiry", EXPIRY, Must::Fail(&["time-outs-not-early"], "")),
        (
            "wrong-counters",
            "counters",
            COUNTERS,
            Must::Fail(&["counters-right", "counters-fresh", "counters-not-ahead"], "table"),
        ),
        (
            "slow-controller-path",
            "packet-in",
            PACKETS,
            Must::FailBy(&["packet-ins-complete"], "packet-ins", near(200.0, 20.0)),
        ),
        (
            "slow-controller-path",
            "packet-out",
            PACKETS,
            Must::Tell(
                "packet-outs-complete",
                "delay at the lowest rate, median",
                near(3000.0, 0.0),
            ),
        ),
        (
            "slow-controller-path",
            "echo",
            ECHO,
            Must::Tell("echo-repeats", "delay, median", near(2000.0, 200.0)),
        ),
        (
            "lossy-forwarding",
            "consistency",
            CONSISTENCY_ONE,
            Must::Fail(&["frames-in-order", "frames-once"], ""),
        ),
        ("hangs-up", "echo", &[("requests", "3000")], lost.clone()),
        ("talks-garbage", "flow-insert", INSERT, lost),
        ("silent", "echo", ECHO, Must::Refuse("does not greet")),
        ("other-version", "echo", ECHO, Must::Refuse("version")),
    ];
    let case = |(fault, module, set, must): (&str, _, _, _)| Case {
        fault: fault.to_owned(),
        profile: None,
        module,
        set,
        must,
        offers: None,
    };
    all.into_iter().map(case).collect()
}

const SLOW_AND_LOSSY: &[&str] = &["modifications-complete", "modifications-as-fast"];

/// One case for each fault.
pub fn all() -> Vec<Case> {
    let mut all = of_table();
    all.extend(of_updates());
    all.extend(of_barriers());
    all.extend(of_actions());
    all.extend(of_frames());
    all.extend(of_statistics());
    all.extend(of_counters());
    all.extend(of_connection());
    all
}

fn of_table() -> Vec<Case> {
    let full = |kind| Must::Tell("limit-told", kind, near(300.0, 0.0));
    vec![
        // One entry is the engine's own, that drops the rest.
        case("table.entries", "table-capacity", CAPACITY, "[table]\nentries = 301", full("mixed")),
        case(
            "table.exact_entries",
            "table-capacity",
            CAPACITY,
            "[table]\nexact_entries = 300",
            full("exact"),
        ),
        case(
            "table.wildcard_entries",
            "table-capacity",
            CAPACITY,
            "[table]\nwildcard_entries = 301",
            full("wildcard"),
        ),
        case(
            "table.past.lost",
            "table-capacity",
            CAPACITY,
            "[table]\nentries = 300\npast = \"lost\"",
            Must::Fail(&["accepted-entries-work"], "lost without an error"),
        ),
    ]
}

fn of_updates() -> Vec<Case> {
    let u = |text: &str| format!("[update]\n{text}");
    vec![
        case(
            "update.start_us",
            "flow-insert",
            // Both sizes are seen by probes of the last entry: every 8 µs.
            INSERT_EXACT,
            &u("start_us = 800\ninsert_us = 1000"),
            Must::Tell("entries-work", "before the first entry", near(800.0, 120.0)),
        ),
        case(
            "update.insert_us",
            "flow-insert",
            INSERT_EXACT,
            &u("insert_us = 1000"),
            Must::Tell("entries-work", "each entry", near(1000.0, 20.0)),
        ),
        case(
            "update.insert_past",
            "flow-insert",
            INSERT,
            &u("insert_us = 1000\ninsert_past = { entries = 10, us = 5000 }"),
            Must::Fail(&["entries-cost-alike"], "Each of 40 entries"),
        ),
        case(
            "update.modify_us",
            "flow-modify",
            MODIFY,
            &u("insert_us = 1000\nmodify_us = 3000\ndelete_us = 1000"),
            Must::FailBy(
                &["modification-as-cheap"],
                "each of the most, median",
                near(3000.0, 100.0),
            ),
        ),
        case(
            "update.delete_us",
            "flow-modify",
            MODIFY,
            &u("insert_us = 1000\nmodify_us = 1000\ndelete_us = 4000"),
            Must::FailBy(&["deletion-as-cheap"], "each of the most, median", near(4000.0, 150.0)),
        ),
        case(
            "update.modify_past",
            "flow-modify",
            MODIFY,
            &u("insert_us = 1000\nmodify_us = 1000\nmodify_past = { entries = 20, us = 4000 }"),
            Must::Fail(&["modification-as-cheap"], "from 40 entries on"),
        ),
        case(
            "update.shift",
            "flow-modify",
            MODIFY,
            &u("insert_us = 100\nshift = { us = 30, dear = \"descending\" }"),
            Must::Fail(&["priorities-cost-nothing"], "falling priorities"),
        ),
        case(
            "update.modify_gap_us",
            "consistency",
            CONSISTENCY,
            &u("modify_us = 6000\nmodify_gap_us = 5000"),
            Must::Fail(&["one-rule-or-the-other"], "neither the old rule nor the new one"),
        ),
        case(
            "update.reorder_window",
            "consistency",
            CONSISTENCY,
            &u("insert_us = 500\nreorder_window = 16"),
            Must::Fail(&["changes-in-order"], "before one that was sent earlier"),
        ),
    ]
}

/// 100 Mb/s of 100-byte frames at the last entry: a probe each 8 µs.
pub const INSERT_EXACT: Set =
    &[("entries", "1,20"), ("repetitions", "3"), ("rate", "100"), ("watch", "last")];

fn of_barriers() -> Vec<Case> {
    let b = |text: &str| {
        format!("[update]\ninsert_us = 1000\nmodify_us = 1000\ndelete_us = 1000\n[barrier]\n{text}")
    };
    vec![
        case(
            "barrier.reply.early",
            "flow-insert",
            INSERT,
            &b("reply = \"early\""),
            Must::Fail(&["barrier-truthful"], "answered before the entries worked"),
        ),
        case(
            "barrier.reply.unsupported",
            "flow-insert",
            INSERT,
            &b("reply = \"unsupported\""),
            Must::Say("barrier-truthful", "The switch has no barrier."),
        ),
        case(
            "barrier.reply.never",
            "flow-insert",
            INSERT,
            &b("reply = \"never\""),
            Must::Say("barrier-truthful", "The switch has no barrier."),
        ),
        case(
            "barrier.delay_us",
            "flow-insert",
            INSERT_EXACT,
            "[barrier]\ndelay_us = 20000",
            Must::FailBy(&["barrier-prompt"], "late, median", near(20.0, 0.0)),
        ),
    ]
}

fn of_actions() -> Vec<Case> {
    let mut all = Vec::new();
    let list = |key: &str, kind: ActionKind| format!("[actions]\n{key} = [\"{}\"]", kind.word());
    for (kind, row) in KINDS {
        for (key, fails) in [
            ("discards", &["modifications-complete"]),
            ("ignores", &["modifications-right"]),
            ("refuses", &["modifications-accepted"]),
            ("writes_wrong", &["modifications-right"]),
        ] {
            if (key, kind) == ("writes_wrong", ActionKind::VlanPush) {
                // Whoever pushes a tag writes its id next: no frame is wrong.
                continue;
            }
            let fault = format!("actions.{key}.{}", kind.word());
            all.push(case(&fault, "actions", ACTIONS, &list(key, kind), Must::Fail(fails, row)));
        }
        if SUMMED.contains(&kind) {
            let fault = format!("actions.wrong_checksum.{}", kind.word());
            let must = Must::Fail(&["modifications-right"], row);
            all.push(case(&fault, "actions", ACTIONS, &list("wrong_checksum", kind), must));
        }
        let cpu = format!("[actions.cpu]\ndoes = [\"{}\"]\ndelay_us = 500", kind.word());
        let fault = format!("actions.cpu.{}", kind.word());
        all.push(case(
            &fault,
            "actions",
            ACTIONS,
            &cpu,
            Must::Fail(&["modifications-as-fast"], row),
        ));
    }
    for key in ["discards", "refuses"] {
        let fault = format!("actions.{key}.forward");
        let must = Must::Refuse("nothing that the switch sends arrives");
        all.push(case(&fault, "actions", ACTIONS, &list(key, ActionKind::Forward), must));
    }
    let cpu = |text: &str| format!("[actions.cpu]\ndoes = [\"l4-port\"]\n{text}");
    all.extend([
        case(
            "actions.cpu.forward",
            "actions",
            ACTIONS,
            "[actions.cpu]\ndoes = [\"forward\"]\ndelay_us = 500",
            Must::Tell("modifications-as-fast", "forwarding, median", near(500.0, 20.0)),
        ),
        case(
            "actions.cpu.loss_percent",
            "actions",
            ACTIONS,
            &cpu("loss_percent = 88"),
            Must::FailBy(&["modifications-complete"], "worst loss", near(88.0, 1.0)),
        ),
        // 2000 frames a second come; those that it does have waited.
        case(
            "actions.cpu.per_second",
            "actions",
            ACTIONS_RATE,
            &cpu("per_second = 500\nqueue = 1"),
            Must::FailBy(
                &["modifications-complete", "modifications-as-fast"],
                "worst loss",
                near(75.0, 1.0),
            ),
        ),
        case(
            "actions.cpu.delay_us",
            "actions",
            ACTIONS,
            &cpu("delay_us = 302"),
            Must::FailBy(&["modifications-as-fast"], "slowest, median", near(302.0, 20.0)),
        ),
        case(
            "actions.cpu.sd_us",
            "actions",
            ACTIONS_LONG,
            &cpu("delay_us = 2000\nsd_us = 300"),
            Must::FailBy(
                &["modifications-as-fast"],
                "slowest, standard deviation",
                near(300.0, 60.0),
            ),
        ),
    ]);
    all
}

fn of_frames() -> Vec<Case> {
    vec![
        case(
            "forwarding.delay_us",
            "actions",
            ACTIONS,
            "[forwarding]\ndelay_us = 200",
            Must::Tell("modifications-as-fast", "forwarding, median", near(200.0, 20.0)),
        ),
        case(
            "forwarding.lose_percent",
            "actions",
            ACTIONS,
            "[forwarding]\nlose_percent = 4",
            Must::FailBy(&["modifications-complete"], "worst loss", near(4.0, 0.5)),
        ),
        case(
            "forwarding.duplicate_percent",
            "consistency",
            CONSISTENCY_ONE,
            "[forwarding]\nduplicate_percent = 1",
            Must::Fail(&["frames-once"], "came twice"),
        ),
        case(
            "forwarding.swap_percent",
            "consistency",
            CONSISTENCY_ONE,
            "[forwarding]\nswap_percent = 1",
            Must::Fail(&["frames-in-order"], "came behind a later one"),
        ),
        case(
            "packet_in.per_second",
            "packet-in",
            PACKETS,
            "[packet_in]\nper_second = 200\nqueue = 1",
            Must::FailBy(&["packet-ins-complete"], "packet-ins", near(200.0, 12.0)),
        ),
        case(
            "packet_in.duplicate_percent",
            "packet-in",
            PACKETS,
            "[packet_in]\nduplicate_percent = 5",
            Must::Fail(&["packet-ins-once"], "twice or more"),
        ),
        case(
            "packet_in.delay_us",
            "packet-in",
            PACKETS,
            "[packet_in]\ndelay_us = 5000",
            Must::Tell(
                "packet-ins-complete",
                "delay at the lowest rate, median",
                near(5000.0, 0.0),
            ),
        ),
        case(
            "packet_out.delay_us",
            "packet-out",
            PACKETS,
            "[packet_out]\ndelay_us = 3000",
            Must::Tell(
                "packet-outs-complete",
                "delay at the lowest rate, median",
                near(3000.0, 0.0),
            ),
        ),
        case(
            "packet_out.lose_percent",
            "packet-out",
            PACKETS,
            "[packet_out]\nlose_percent = 10",
            Must::FailBy(&["packet-outs-complete"], "loss", near(10.0, 1.0)),
        ),
    ]
}

fn of_statistics() -> Vec<Case> {
    let delay = |want| {
        Must::Tell("statistics-answered", "delay at the first rate, median", near(want, 0.15))
    };
    let s = |text: &str| format!("[statistics]\n{text}");
    vec![
        case("statistics.delay_us", "flow-stats", STATS, &s("delay_us = 5000"), delay(5.0)),
        // Fifty, and the one that drops the rest.
        case("statistics.per_flow_us", "flow-stats", STATS, &s("per_flow_us = 100"), delay(5.1)),
        case(
            "statistics.slows_updates_percent",
            "interaction",
            INTERACTION,
            "[update]\nmodify_us = 1000\n[statistics]\ndelay_us = 500\nper_flow_us = 20\n\
             slows_updates_percent = 100",
            Must::Fail(&["updates-undisturbed"], "times"),
        ),
        case(
            "statistics.stale_us",
            "flow-stats",
            STATS,
            &s("stale_us = 1000000"),
            Must::Fail(&["statistics-fresh"], "ms old"),
        ),
        case(
            "statistics.flows_per_part",
            "flow-stats",
            STATS,
            &s("flows_per_part = 1"),
            Must::FailBy(&["statistics-packed"], "flows in a part, fewest", near(1.0, 0.05)),
        ),
        case(
            "statistics.pace_us",
            "flow-stats",
            STATS,
            &s("flows_per_part = 5\npace_us = 2000"),
            Must::FailBy(&["statistics-packed"], "from part to part, median", near(2.0, 0.0)),
        ),
        case(
            "statistics.whole_within_us",
            "flow-stats",
            STATS,
            &s("flows_per_part = 1\nwhole_within_us = 250000"),
            Must::Fail(&["statistics-packed"], "depends on the rate"),
        ),
    ]
}

fn of_counters() -> Vec<Case> {
    let c = |text: &str| format!("[counters]\n{text}");
    vec![
        case(
            "counters.off_percent",
            "counters",
            COUNTERS,
            &c("off_percent = 10"),
            Must::Fail(&["counters-right", "counters-not-ahead"], "flows"),
        ),
        case(
            "counters.port_off_percent",
            "counters",
            COUNTERS,
            &c("port_off_percent = 10"),
            Must::Fail(&["counters-right", "counters-not-ahead"], "port"),
        ),
        case(
            "counters.table_off_percent",
            "counters",
            COUNTERS,
            &c("table_off_percent = 10"),
            Must::Fail(&["counters-right", "counters-not-ahead"], "table"),
        ),
        case(
            "timeouts.late_us",
            "expiry",
            EXPIRY,
            "[timeouts]\nlate_us = 700000",
            Must::Fail(&["time-outs-exact"], ""),
        ),
        case(
            "timeouts.idle_from.insertion",
            "expiry",
            EXPIRY,
            "[timeouts]\nidle_from = \"insertion\"",
            Must::Fail(&["time-outs-not-early"], ""),
        ),
        case(
            "echo.delay_us",
            "echo",
            ECHO,
            "[echo]\ndelay_us = 2000",
            Must::Tell("echo-repeats", "delay, median", near(2000.0, 200.0)),
        ),
    ]
}

fn of_connection() -> Vec<Case> {
    let c = |text: &str| format!("[connection]\n{text}");
    let lost = Must::Fail(&["control-channel-works"], "connection is lost");
    let speaks = |word: &str, offers| Case {
        offers: Some(offers),
        ..case(
            &format!("connection.speaks.{word}"),
            "echo",
            ECHO,
            &c(&format!("speaks = \"{word}\"")),
            Must::Refuse("version"),
        )
    };
    vec![
        speaks("only10", Version::V13),
        speaks("only13", Version::V10),
        case(
            "connection.speaks.only14",
            "echo",
            ECHO,
            &c("speaks = \"only14\""),
            Must::Refuse("version"),
        ),
        case(
            "connection.speaks.nothing",
            "echo",
            ECHO,
            &c("speaks = \"nothing\""),
            Must::Refuse("does not greet"),
        ),
        // At some moment of a measurement that takes longer.
        case(
            "connection.close_after_us",
            "echo",
            &[("requests", "2000")],
            &c("close_after_us = 3000000"),
            lost.clone(),
        ),
        case(
            "connection.close_after_messages",
            "flow-insert",
            INSERT,
            &c("close_after_messages = 60"),
            lost.clone(),
        ),
        case("connection.garbage_every", "flow-insert", INSERT, &c("garbage_every = 60"), lost),
    ]
}
