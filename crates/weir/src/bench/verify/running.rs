//! The same networks on a data plane that runs, in memory: what `weir net verify` costs there, rules read
//! and all.
//!
//! Room: makes a data plane of its own, whose ports swallow, and asks it as the control socket does.

use super::{Args, TRUNK, vlan};
use crate::config::apply::scratch;
use crate::config::read;
use crate::router::node::Routers;
use crate::socket::live::Live;
use crate::verify::verify;
use anyhow::{Result, anyhow, ensure};
use std::fmt::Write;
use std::time::Instant;
use weir_classify::{Field, Match};
use weir_dataplane::{
    Action, DataPlane, Out, Placement, PortNo, RuleSpec, Runner, Serving, Vid, WhenIdle,
};

/// What it took: the first time, and after each change, in milliseconds.
pub struct Took {
    pub whole_s: f64,
    pub changes_ms: Vec<f64>,
}

/// A configuration: two ports a network, a trunk that all share.
fn config(a: &Args) -> String {
    let networks = u32::from(a.networks);
    let entries = (networks * (u32::from(a.rules) + 8)).next_multiple_of(64);
    let mut text = format!(
        "[dataplane]\nframes = 512\n\
         tcam = {{ mapping_entries = {entries}, action_entries = {entries}, slice_entries = 4, block_slices = 16 }}\n\
         [[port]]\nname = 'trunk'\ndevice = 'null'\n"
    );
    for n in 0..networks {
        // A text takes what is written to it.
        let _ = write!(
            text,
            "[[port]]\nname = 'a{n}'\ndevice = 'null'\n[[port]]\nname = 'b{n}'\ndevice = 'null'\n\
             [[vdp]]\nvid = {}\nname = 'v{n}'\nports = ['a{n}', 'b{n}', 'trunk']\n\
             mapping = ['in_port=a{n}', 'in_port=b{n}', 'in_port=trunk,dl_vlan={}']\n",
            n + 1,
            n + 1
        );
    }
    text
}

fn rule(i: u16, to: Option<u16>) -> RuleSpec {
    let (field, mask) = (Field::VlanVid, Field::VlanVid.full());
    let from = if to.is_some() { 1 } else { TRUNK.0 };
    let matcher = Match::any().with(Field::InPort, from.into()).with(Field::EthDst, super::mac(i));
    let actions = match to {
        Some(n) => vec![
            Action::PushVlan(0x8100),
            Action::SetField { field, value: vlan(n), mask },
            Action::Output(Out::Port(TRUNK)),
        ],
        None => {
            let to = PortNo(1 + u32::from(i % 2));
            vec![Action::PopVlan, Action::Output(Out::Port(to))]
        }
    };
    RuleSpec { matcher, priority: 100, cookie: 0, actions: actions.into() }
}

/// Gives a network its rule `i` outward, tagging for network `to`.
fn put(p: &mut DataPlane, network: u16, spec: &RuleSpec) -> Result<()> {
    let placed = p.add_rule(Vid(network + 1), 0, spec, Placement::Fast);
    placed.map(|_| ()).map_err(|e| anyhow!("network {network}: {e}"))
}

/// Runs it.
pub fn run(a: &Args) -> Result<Took> {
    let plan =
        read::from_text(&config(a), "the benchmark's networks").map_err(|e| anyhow!("{e}"))?;
    let (mut plane, model) = scratch(&plan).map_err(|e| anyhow!("{e}"))?;
    let half = a.rules / 2;
    for n in 0..a.networks {
        (0..a.rules - half).try_for_each(|i| put(&mut plane, n, &rule(i, Some(n))))?;
        (0..half).try_for_each(|i| put(&mut plane, n, &rule(i, None)))?;
    }
    let runner = Runner::start(plane, Serving::Worker, WhenIdle::Rest)?;
    let live = Live::new(runner.handle(), model, Routers::none())?;
    let ask = || {
        let began = Instant::now();
        let (leaks, done) = verify(&live, &[], 1, None).map_err(|e| anyhow!("{e}"))?;
        Ok::<_, anyhow::Error>((began.elapsed().as_secs_f64(), leaks.len(), done))
    };
    let (whole_s, _, done) = ask()?;
    ensure!(done.isolated, "the benchmark's networks are isolated, and are not told to be");
    let mut changes_ms = Vec::new();
    for (network, to) in super::changes(a) {
        live.with(move |p, _| put(p, network, &rule(0, Some(to))))??;
        let (s, leaks, _) = ask()?;
        changes_ms.push(s * 1e3);
        ensure!(
            (leaks == 1) == (to != network),
            "a changed rule of network {network} is told wrongly"
        );
        if to != network {
            live.with(move |p, _| put(p, network, &rule(0, Some(network))))??;
            ask()?;
        }
    }
    drop(live);
    runner.stop()?;
    Ok(Took { whole_s, changes_ms })
}
