//! The profiles that come along, each with the modules that see what it does wrong.
//!
//! Data. Part of `cases`.

use super::*;

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
