//! The cases: data. Every key of a profile that is a fault stands here, and a test sees that none is missing.
//!
//! - [`profiles()`]: what comes along. `updates`, `actions`, `told`: a fault each, by what it is of; here those of
//!   the table, the connection and the agent.

mod actions;
mod profiles;
mod told;
mod updates;

pub use profiles::profiles;

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
pub const SHAPES: [&str; 6] = [
    "name",
    "about",
    "seed",
    "packet_in.queue",
    "actions.cpu.queue",
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

/// One case for each fault.
pub fn all() -> Vec<Case> {
    let mut all = of_table();
    all.extend(updates::of_updates());
    all.extend(updates::of_barriers());
    all.extend(actions::of_actions());
    all.extend(told::of_frames());
    all.extend(told::of_statistics());
    all.extend(told::of_counters());
    all.extend(of_connection());
    all.extend(of_agent());
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

/// 100 Mb/s of 100-byte frames at the last entry: a probe each 8 µs.
pub const INSERT_EXACT: Set =
    &[("entries", "1,20"), ("repetitions", "3"), ("rate", "100"), ("watch", "last")];

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

/// Long enough for a few readings.
const ECHO_LONG: Set = &[("requests", "200")];

/// What it tells by SNMP, read while `echo` is at work: nothing else takes its processor's time.
fn of_agent() -> Vec<Case> {
    let busy = Must::Tell("state-told", "CPU, least", near(37.0, 0.0));
    vec![
        case(
            "snmp.silent",
            "echo",
            ECHO_LONG,
            "[snmp]\nsilent = true",
            Must::Fail(&["state-told"], "did not tell"),
        ),
        case("snmp.idle_percent", "echo", ECHO_LONG, "[snmp]\nidle_percent = 37", busy),
    ]
}
