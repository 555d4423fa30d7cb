//! `weir bench verify`: how long the proof of isolation takes, whole and after a changed rule.
//!
//! Networks have two ports of their own and share a trunk by VLAN. Half of a network's rules tag
//! frames and send them by the trunk, half take the tag away and send them by its ports, so that
//! neither is plain without following what the actions write. Changes put a rule in another's place,
//! every tenth of them a leak, which must be told, and gone when the rule is mended. `running` does the same on a data
//! plane that runs.

mod running;

use crate::commands::say::{put, say};
use crate::environment::Envelope;
use crate::verify::acts::{Meaning, OwnFields, acts};
use crate::verify::header;
use anyhow::{Result, ensure};
use serde::Serialize;
use std::collections::BTreeMap;
use std::time::Instant;
use weir_classify::{Field, Match, VLAN_PRESENT};
use weir_dataplane::{Action, InvalidTtl, Out, PortNo};
use weir_supervisor::verify::{
    MapRule, Plane, Port, Program, Rule, Table, Takes, Vdp, Verifier, WORK,
};

/// Arguments.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// Networks, each a VLAN of the trunk
    #[arg(long, value_name = "N", default_value_t = 1000, value_parser = clap::value_parser!(u16).range(2..=4000))]
    networks: u16,
    /// Rules of each
    #[arg(long, value_name = "N", default_value_t = 100, value_parser = clap::value_parser!(u16).range(2..))]
    rules: u16,
    /// Rules that are changed, one after the other
    #[arg(long, value_name = "N", default_value_t = 200, value_parser = clap::value_parser!(u32).range(1..))]
    changes: u32,
    /// As JSON
    #[arg(long)]
    json: bool,
}

/// What it took.
#[derive(Debug, Serialize)]
struct Figures {
    networks: u16,
    rules: usize,
    /// Seconds to decide all of it, the index included.
    whole_s: f64,
    /// Milliseconds to decide again after one changed rule.
    change_median_ms: f64,
    change_worst_ms: f64,
    /// The same on a running data plane, rules read and all.
    running_whole_s: f64,
    running_change_median_ms: f64,
    running_change_worst_ms: f64,
    /// Changes that leaked, all of which were told.
    leaks_told: usize,
}

const TRUNK: PortNo = PortNo(3);

/// Runs it.
pub fn run(a: &Args) -> Result<()> {
    let plane = plane(a);
    let began = Instant::now();
    let mut v = Verifier::new(plane, WORK);
    let report = v.report(1);
    let whole_s = began.elapsed().as_secs_f64();
    ensure!(report.isolated(), "the benchmark's networks are isolated, and are not told to be");
    let (mut took, mut leaks_told) = (Vec::new(), 0);
    for (network, to) in changes(a) {
        let leaks = to != network;
        let began = Instant::now();
        v.put_rule(network.into(), 0, outward(0, to));
        let told = v.report(1).leaks.len();
        took.push(began.elapsed().as_secs_f64() * 1e3);
        ensure!((told == 1) == leaks, "a changed rule of network {network} is told wrongly");
        if leaks {
            leaks_told += told;
            v.put_rule(network.into(), 0, outward(0, network));
        }
    }
    drop(v);
    let (change_median_ms, change_worst_ms) = spread(took);
    let running = running::run(a)?;
    let (running_change_median_ms, running_change_worst_ms) = spread(running.changes_ms);
    let figures = Figures {
        networks: a.networks,
        rules: report.rules,
        whole_s,
        change_median_ms,
        change_worst_ms,
        running_whole_s: running.whole_s,
        running_change_median_ms,
        running_change_worst_ms,
        leaks_told,
    };
    if a.json {
        let text = serde_json::to_string_pretty(&Envelope::new("bench-verify", &figures))?;
        return say(text);
    }
    let f = &figures;
    put(format_args!(
        "{} networks, {} rules: isolated, decided in {:.3} s\n\
         one changed rule: median {:.3} ms, worst {:.3} ms of {}; {} leaks among them, all told\n\
         on a running data plane, rules read and decided: {:.3} s\n\
         one changed rule there: median {:.3} ms, worst {:.3} ms\n",
        f.networks,
        f.rules,
        f.whole_s,
        f.change_median_ms,
        f.change_worst_ms,
        a.changes,
        f.leaks_told,
        f.running_whole_s,
        f.running_change_median_ms,
        f.running_change_worst_ms
    ))
}

/// The changed rules: whose, and for whom they tag.
fn changes(a: &Args) -> impl Iterator<Item = (u16, u16)> + use<> {
    let networks = a.networks;
    (0..a.changes).map(move |n| {
        let network = (n.wrapping_mul(7919) % u32::from(networks)) as u16;
        let leaks = n % 10 == 9;
        (network, if leaks { (network + 1) % networks } else { network })
    })
}

/// The median and the worst.
fn spread(mut all: Vec<f64>) -> (f64, f64) {
    all.sort_by(f64::total_cmp);
    let at = |i: usize| all.get(i).copied().unwrap_or_default();
    (at(all.len() / 2), at(all.len().saturating_sub(1)))
}

fn vlan(n: u16) -> u128 {
    u128::from(VLAN_PRESENT | (n + 1))
}

fn rule(matcher: Match, priority: u32, actions: &[Action]) -> Rule {
    // Outputs name ports by their place.
    let port = |no: PortNo| Some(no.0 as usize);
    let meaning = Meaning {
        port: &port,
        program: &[],
        remarking: &[],
        invalid_ttl: InvalidTtl::Drop,
        own_fields: OwnFields::None,
    };
    Rule { matcher: header::of(&matcher), priority, acts: acts(actions, &meaning).into() }
}

fn mac(i: u16) -> u128 {
    0x0200_0000_0000 + u128::from(i)
}

/// A network's rule `i` outward, tagging for network `to`.
fn outward(i: u16, to: u16) -> Rule {
    let (field, mask) = (Field::VlanVid, Field::VlanVid.full());
    let matcher = Match::any().with(Field::InPort, 1).with(Field::EthDst, mac(i));
    let actions = [
        Action::PushVlan(0x8100),
        Action::SetField { field, value: vlan(to), mask },
        Action::Output(Out::Port(PortNo(0))),
    ];
    rule(matcher, 100, &actions)
}

/// The rule `i` inward of a network.
fn inward(network: u16, i: u16) -> Rule {
    let matcher = Match::any().with(Field::InPort, u128::from(TRUNK.0)).with(Field::EthDst, mac(i));
    let to = PortNo(u32::from(network) * 2 + 1 + u32::from(i % 2));
    rule(matcher, 100, &[Action::PopVlan, Action::Output(Out::Port(to))])
}

fn plane(a: &Args) -> Plane {
    // Place 0 is the trunk; network n has places 2n + 1 and 2n + 2.
    let ports =
        (0..=u32::from(a.networks) * 2).map(|i| Port { name: format!("p{i}"), number: i + 1 });
    let (mut vdps, mut mapping) = (Vec::new(), Vec::new());
    for n in 0..a.networks {
        let (vdp, first) = (usize::from(n), usize::from(n) * 2 + 1);
        let half = a.rules / 2;
        let out = (0..a.rules - half).map(|i| outward(i, n));
        let rules = out.chain((0..half).map(|i| inward(n, i))).collect();
        vdps.push(Vdp {
            name: format!("v{n}"),
            network: vdp,
            ports: vec![(1, first), (2, first + 1), (TRUNK.0, 0)],
            tables: vec![Table::new(rules)],
            default: Vec::new(),
            alone: Vec::new(),
            program: Program::Nothing,
            controllers: Vec::new(),
            groups: BTreeMap::new(),
        });
        let own = [first, first + 1].map(|p| Match::any().with(Field::InPort, p as u128 + 1));
        let tagged = Match::any().with(Field::InPort, 1).with(Field::VlanVid, vlan(n));
        for m in own.into_iter().chain([tagged]) {
            mapping.push(MapRule { vdp, matcher: header::of(&m), priority: 1, takes: Takes::All });
        }
    }
    Plane {
        layout: header::layout(),
        networks: (0..a.networks).map(|n| format!("n{n}")).collect(),
        ports: ports.collect(),
        controllers: Vec::new(),
        vdps,
        mapping,
        rest: None,
        shares: None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// No VDP of these takes more work for what others have: what is not so by a hair's breadth takes
    /// minutes with a thousand of them.
    #[test]
    fn work_grows_with_a_networks_rules_alone() {
        let a = Args { networks: 60, rules: 20, changes: 1, json: false };
        let mut v = Verifier::new(plane(&a), 2_000);
        let report = v.report(1);
        assert!(report.isolated(), "{report:?}");
        v.put_rule(7, 0, outward(0, 7));
        assert!(v.report(1).isolated());
        v.put_rule(7, 0, outward(0, 8));
        assert_eq!(v.report(9).leaks.len(), 1);
    }
}
