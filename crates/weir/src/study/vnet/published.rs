//! What 003's text states of its figures, beside ours. What stands in its pictures alone is `not stated`.

use super::rate::{DELIVERED, OFFERED};
use crate::study::Id;
use crate::study::report::{NOT_STATED, Published, Report, number};

/// The paper's virtual machines, as this study has them.
const VM: [&str; 2] = ["router, own, same CPU (XenVM-1)", "router, own, other CPU (XenVM-2)"];
/// The same whose frames the shared data plane forwards.
const XEN_ROUTER: &str = "router, routed (Xen-Router)";

/// Adds it.
pub fn add(id: Id, report: &mut Report) {
    let best = |name: &str| {
        let s = report.find(name, DELIVERED).filter(|s| s.x == OFFERED)?;
        let rates = s.points.iter().filter_map(|p| p.median);
        Some(format!("{} at most {} kp/s", name, number(rates.reduce(f64::max)?)))
    };
    let ours = |names: &[&str]| {
        let all: Vec<String> = names.iter().filter_map(|n| best(n)).collect();
        if all.is_empty() { "the tables above".to_owned() } else { all.join("; ") }
    };
    let p = |what, value, source, ours: String| Published { what, value, source, ours };
    let tables = || "the tables above".to_owned();
    let stated = match id {
        Id::VnetRate64 => vec![
            p(
                "Native-Router",
                "as well as Point-To-Point (in words)",
                "003 §5.2, figure 11",
                ours(&["Native-Router", "Point-To-Point"]),
            ),
            p(
                "Native-Bridge",
                "worse than the router (in words)",
                "003 §5.2, figure 11",
                ours(&["Native-Bridge"]),
            ),
            p(
                "Native-Hybrid",
                "the worst of native Linux (in words)",
                "003 §5.2, figure 11",
                ours(&["Native-Hybrid"]),
            ),
            p(
                "OpenFlow",
                "near Native-Router; about 1.2 Mp/s without loss",
                "003 §1, §5.2",
                ours(&["weir VDP", "Open vSwitch"]),
            ),
            p(
                "Xen-Router",
                "rapidly decreases after about 1.2 Mp/s",
                "003 §5.2",
                ours(&[XEN_ROUTER]),
            ),
            p("XenVM-1, XenVM-2", "less than 200 kp/s", "003 §1", ours(&VM)),
            p("rate at each offered rate", NOT_STATED, "003 figure 11", tables()),
        ],
        Id::VnetRate1512 => vec![
            p(
                "all but XenVM-1",
                "no loss; bound by the 1 Gb/s link",
                "003 §5.2, figure 12",
                ours(&["Native-Router", "Native-Bridge", "weir VDP"]),
            ),
            p("XenVM-1", "lower (in words)", "003 §5.2, figure 12", ours(&VM)),
            p("rate at each offered rate", NOT_STATED, "003 figure 12", tables()),
        ],
        Id::VnetDelay => vec![
            p(
                "OpenFlow's RTT and jitter",
                "same order of magnitude as native Linux's",
                "003 §5.2, figure 13",
                tables(),
            ),
            p(
                "XenVM-1's RTT beyond native Linux's",
                "up to 1.5 ms, with 500 Mb/s",
                "003 §5.2",
                tables(),
            ),
            p("RTT", "always smaller than 1.7 ms", "003 §5.2", tables()),
            p("a flow's first frame", "a greater delay (in words)", "003 §4.2", tables()),
            p(
                "small flows with OpenFlow",
                "can imply a performance decrease (in words)",
                "003 §4.2",
                tables(),
            ),
        ],
        Id::VnetNetworks => vec![
            p(
                "OpenFlow, Native-Bridge",
                "close to the generated 200 kp/s",
                "003 §5.2, figure 14 (a)",
                tables(),
            ),
            p(
                "XenVM-1",
                "degrades with the number of virtual machines",
                "003 §5.2, figure 14 (a)",
                tables(),
            ),
            p("rate at each number of networks", NOT_STATED, "003 figure 14 (a)", tables()),
        ],
        Id::VnetFlows => vec![
            p(
                "OpenFlow, Xen-Bridge",
                "as with as many networks",
                "003 §5.2, figure 14 (b)",
                tables(),
            ),
            p("XenVM-2 beyond XenVM-1", "up to 50 kp/s", "003 §5.2, figure 14 (b)", tables()),
            p("rate at each number of flows", NOT_STATED, "003 figure 14 (b)", tables()),
        ],
        _ => vec![
            p("no CPU of Domain 0's own", "the worst", "003 §5.2, figure 15", tables()),
            p("one", "the best", "003 §5.2, figure 15", tables()),
            p("more than one", "worse than one", "003 §5.2, figure 15", tables()),
            p("rate at each number of CPUs", NOT_STATED, "003 figure 15", tables()),
        ],
    };
    report.published.extend(stated);
}
