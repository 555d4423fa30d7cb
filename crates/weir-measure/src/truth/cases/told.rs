//! A case for each fault of frames, statistics, counters, time-outs and echoes.
//!
//! Data. Part of `cases`.

use super::{
    ACTIONS, CONSISTENCY_ONE, COUNTERS, ECHO, EXPIRY, INTERACTION, PACKETS, STATS, case, near,
};
use crate::truth::{Case, Must};

pub(super) fn of_frames() -> Vec<Case> {
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

pub(super) fn of_statistics() -> Vec<Case> {
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

pub(super) fn of_counters() -> Vec<Case> {
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
