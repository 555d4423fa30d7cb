//! A data plane with one VDP that is a network function.
//!
//! Room: a [`Job`] and devices in, a data plane out. Called by tests, benches and studies.

use super::Job;
use anyhow::{Context, Result};
use weir_classify::{Geometry, Match};
use weir_dataplane::{
    Config, DataPlane, MappingRule, Path, Placement, PortNo, RuleSpec, VdpSpec, Vid,
};
use weir_packet::Device;

/// The VDP's id.
pub const VID: Vid = Vid(1);

/// Puts it together; `device` makes the port of each number.
///
/// # Errors
/// What the data plane refuses.
pub fn plane(job: Job, mut device: impl FnMut(u32) -> Box<dyn Device>) -> Result<DataPlane> {
    let entries = u32::try_from(2 * job.rules.len() + (1 << 16))?.next_power_of_two();
    let tcam = Geometry { action_entries: entries, ..Config::default().tcam };
    let mut plane = DataPlane::new(Config { tcam, ..Config::default() })?;
    let mut spec = VdpSpec::new(VID, "function");
    for no in &job.ports {
        let id = plane.add_port(&format!("p{no}"), device(*no))?;
        spec.ports.push((PortNo(*no), id));
    }
    spec.mapping = vec![MappingRule { matcher: Match::any(), priority: 0 }];
    if job.program.is_none() {
        spec.default = job.default;
    } else if job.rules.is_empty() {
        // It has no business on the fast path.
        spec.path = Path::Slow;
    }
    spec.program = job.program;
    plane.create_vdp(spec)?;
    for (id, meter) in job.meters {
        plane.put_meter(VID, id, meter)?;
    }
    for r in job.rules {
        let rule = RuleSpec {
            matcher: r.matcher,
            priority: r.priority.into(),
            cookie: r.cookie,
            actions: r.actions.into(),
        };
        plane
            .add_rule(VID, r.table, &rule, Placement::Fast)
            .with_context(|| format!("a rule of table {}", r.table))?;
    }
    Ok(plane)
}
