//! A data plane with one VDP that is a network function.
//!
//! Room: a [`Job`] and devices in, a data plane out. Called by tests, benches and studies.

use super::Job;
use anyhow::{Context, Result};
use weir_classify::{FlowCaching, Geometry, Match};
use weir_dataplane::{
    Config, DataPlane, MappingRule, Path, Placement, PortNo, RuleSpec, VdpSpec, Vid,
};
use weir_packet::{Device, PortId};

/// The VDP's id.
pub const VID: Vid = Vid(1);

/// Puts it together; `device` makes the port of each number.
///
/// # Errors
/// What the data plane refuses.
pub fn plane(job: Job, mut device: impl FnMut(u32) -> Box<dyn Device>) -> Result<DataPlane> {
    let mut plane = room(job.rules.len())?;
    let mut ports = Vec::new();
    for no in &job.ports {
        let id = plane.add_port(&format!("p{no}"), device(*no))?;
        ports.push((PortNo(*no), id));
    }
    function(&mut plane, Place { vid: VID, matcher: Match::any(), ports, channel: None }, job)?;
    Ok(plane)
}

/// An empty data plane with room for so many rules.
///
/// # Errors
/// There are too many.
pub fn room(rules: usize) -> Result<DataPlane> {
    let entries = u32::try_from(2 * rules + (1 << 16))?.next_power_of_two();
    let tcam = Geometry { action_entries: entries, ..Config::default().tcam };
    // Estimates are of lookups, not of flows that were met before.
    let flow_caching = FlowCaching::Never;
    Ok(DataPlane::new(Config { tcam, flow_caching, ..Config::default() })?)
}

/// A VDP to be.
pub struct Place {
    /// Its id.
    pub vid: Vid,
    /// Frames that are its own.
    pub matcher: Match,
    /// Its ports, by the numbers that its job has for them.
    pub ports: Vec<(PortNo, PortId)>,
    /// A channel of its own to the software stage.
    pub channel: Option<u8>,
}

/// Makes a VDP the function.
///
/// # Errors
/// What the data plane refuses.
pub fn function(plane: &mut DataPlane, place: Place, job: Job) -> Result<()> {
    let Place { vid, matcher, ports, channel } = place;
    let mut spec = VdpSpec::new(vid, &format!("function{vid}"));
    spec.ports = ports;
    spec.channel = channel;
    spec.mapping = vec![MappingRule { matcher, priority: 0 }];
    if job.program.is_none() {
        spec.default = job.default;
    } else if job.rules.is_empty() {
        // It has no business on the fast path.
        spec.path = Path::Slow;
    }
    spec.program = job.program;
    plane.create_vdp(spec)?;
    for (id, meter) in job.meters {
        plane.put_meter(vid, id, meter)?;
    }
    for r in job.rules {
        let rule = RuleSpec {
            matcher: r.matcher,
            priority: r.priority.into(),
            cookie: r.cookie,
            actions: r.actions.into(),
        };
        plane
            .add_rule(vid, r.table, &rule, Placement::Fast)
            .with_context(|| format!("a rule of table {}", r.table))?;
    }
    Ok(())
}
