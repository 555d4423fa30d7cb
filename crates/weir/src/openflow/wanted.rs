//! Which switches there shall be: the running plan in the words of the switches.
//!
//! Room: reads plans; touches nothing that runs. Called whenever the plan has changed; `hub` compares
//! the answer with what it has.

use crate::config::openflow::{FailMode, OpenflowPlan, QueuePlan, Spill};
use crate::config::plan::{Plan, VdpPlan};
use std::collections::BTreeMap;
use std::time::Duration;
use weir_agent::Config;
use weir_dataplane::{Placement, PortNo, Vid};
use weir_openflow::model::{
    Port, PortConfig, PortDesc, PortFeatures, PortState, QueueDesc, QueueProperty,
};
use weir_packet::Nanos;

/// The rate that a port is told to have. What is behind it may have any, or none.
const PORT_KBPS: u32 = 10_000_000;
/// Bytes of a port's name on the wire, without the zero at its end.
const NAME_BYTES: usize = 15;

/// Which ports there are, by name, and whether each is up.
pub type Links = BTreeMap<String, bool>;

/// A switch that shall be.
#[derive(Clone, Debug)]
pub struct Wanted {
    /// Its VDP.
    pub vid: Vid,
    /// The VDP's name.
    pub name: String,
    /// What the configuration says of it.
    pub plan: OpenflowPlan,
    /// Its ports that are there, with the data plane's names.
    pub ports: Vec<(String, PortDesc)>,
    /// Its queues.
    pub queues: Vec<QueueDesc>,
}

/// All switches of a plan.
pub fn all(plan: &Plan, links: &Links) -> Vec<Wanted> {
    let switch = |v: &VdpPlan| {
        let mut o = v.openflow.clone()?;
        // None would be one limit for all workers: controllers are told that there are none to be had.
        if v.workers(plan.fixed.config.workers) > 1 {
            o.nature.limits.meters = 0;
        }
        let mut ports = ports(v, links);
        // Something else forwards for it: its controllers see its ports go, and it goes; its flows stay.
        if v.mapping.is_empty() && plan.part(v.vid).is_some() {
            ports.clear();
            o.controllers.clear();
            o.listen.clear();
        }
        Some(Wanted {
            vid: v.vid,
            name: v.name.clone(),
            plan: o,
            ports,
            queues: v.queues.iter().filter_map(|((p, id), q)| queue(v, p, *id, *q)).collect(),
        })
    };
    plan.vdps.values().filter_map(switch).collect()
}

impl Wanted {
    /// How its switch is made.
    pub fn config(&self) -> Config {
        let n = &self.plan.nature;
        let mut c = Config::new(self.vid, n.datapath_id);
        c.desc.datapath.clone_from(&self.name);
        c.tables = n.tables;
        c.buffers = n.buffers;
        c.miss_send_len = n.miss_send_len;
        c.placement = match n.spill {
            Spill::Refuse => Placement::Fast,
            Spill::SlowPath => Placement::Spill,
        };
        c.ports = self.ports.iter().map(|(_, p)| p.clone()).collect();
        // Applications look up its address, whether or not they ever send there. There is no stack
        // behind it: down and of no rate, as Open vSwitch's is until somebody sets it up.
        let mut local = port(self.vid, &self.name, PortNo(Port::LOCAL.0), false);
        (local.no, local.current) = (Port::LOCAL, PortFeatures::default());
        (local.current_kbps, local.max_kbps) = (0, 0);
        c.ports.push(local);
        c.queues.clone_from(&self.queues);
        c.limits = n.limits;
        c.fail_mode = self.fail_mode();
        c
    }

    /// What happens while no controller is there. Where none is named, there is nobody to wait for.
    pub fn fail_mode(&self) -> weir_agent::FailMode {
        match self.plan.nature.fail_mode {
            FailMode::Secure => weir_agent::FailMode::Secure,
            FailMode::Standalone if self.plan.controllers.is_empty() => weir_agent::FailMode::Plain,
            FailMode::Standalone => weir_agent::FailMode::Standalone { after: self.alone_after() },
        }
    }

    /// Three signs of life missed, as long as a dead controller takes to be found dead.
    fn alone_after(&self) -> Nanos {
        let echo = self.plan.connections.echo_interval;
        let echo = if echo.is_zero() { Duration::from_secs(5) } else { echo };
        super::clock::nanos(echo.saturating_mul(3))
    }
}

fn ports(v: &VdpPlan, links: &Links) -> Vec<(String, PortDesc)> {
    let there = |(name, no): &(String, PortNo)| {
        links.get(name).map(|up| (name.clone(), port(v.vid, name, *no, *up)))
    };
    v.ports.iter().filter_map(there).collect()
}

fn port(vid: Vid, name: &str, no: PortNo, up: bool) -> PortDesc {
    let state = if up { PortState::default() } else { PortState::LINK_DOWN };
    let cut = name.char_indices().map(|(i, c)| i + c.len_utf8()).take_while(|n| *n <= NAME_BYTES);
    let cut = cut.last().unwrap_or(0);
    PortDesc {
        no: Port(no.0),
        mac: mac(vid, no),
        name: name.get(..cut).unwrap_or_default().to_owned(),
        config: PortConfig::default(),
        state,
        current: PortFeatures::FD_10G,
        advertised: PortFeatures::default(),
        supported: PortFeatures::default(),
        peer: PortFeatures::default(),
        current_kbps: PORT_KBPS,
        max_kbps: PORT_KBPS,
    }
}

/// A locally administered address, the same for the same port of the same VDP always.
fn mac(vid: Vid, no: PortNo) -> [u8; 6] {
    let (v, p) = (vid.0.to_be_bytes(), no.0.to_be_bytes());
    [0x02, v[0], v[1], p[1], p[2], p[3]]
}

/// A queue in tenths of a percent of its port's rate (1.3 §7.2.3).
fn queue(v: &VdpPlan, port: &str, id: u32, q: QueuePlan) -> Option<QueueDesc> {
    let no = v.number_of(port)?;
    let mut properties = Vec::new();
    if q.min_bps > 0 {
        properties.push(QueueProperty::MinRate(permille(q.min_bps)));
    }
    properties.extend(q.max_bps.map(|m| QueueProperty::MaxRate(permille(m))));
    Some(QueueDesc { id, port: Port(no.0), properties })
}

/// A rate in tenths of a percent of a port's. Below one it is told as one: 0 would say that there is
/// no guarantee, or nothing at all.
fn permille(bps: u64) -> u16 {
    let port = u64::from(PORT_KBPS) * 1000;
    let part = (u128::from(bps) * 1000 / u128::from(port)).clamp(1, 1000);
    u16::try_from(part).unwrap_or(1000)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn small_rates_are_not_told_as_none() {
        let told = [1, 1_000_000, 10_000_000, 19_999_999, 20_000_000, 10_000_000_000, u64::MAX];
        assert_eq!(told.map(permille), [1, 1, 1, 1, 2, 1000, 1000]);
    }
}
