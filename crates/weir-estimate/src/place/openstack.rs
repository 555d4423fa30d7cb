//! What OpenStack's placement is told: how many frames a hypervisor's virtual switch takes.
//!
//! Neutron's Open vSwitch agent reads `resource_provider_packet_processing_without_direction`:
//! `hypervisor:rate` pairs, in thousands of packets per second (Neutron, *QoS: Guaranteed Minimum
//! Packet Rate*).
//!
//! Room: text.

use super::request::Request;
use crate::estimate::{Question, estimate};
use crate::fault::{Fault, unknown};
use crate::model::Library;
use crate::profile::Profile;
use std::collections::BTreeMap;

/// The line of the `[ovs]` section, for the hosts that have cores for switching: by the low end of the
/// estimate's interval, since it is a guarantee.
///
/// # Errors
/// A profile that is not known; what an estimate says.
pub fn line(
    library: &Library,
    profiles: &BTreeMap<String, Profile>,
    request: &Request,
) -> Result<Option<String>, Fault> {
    let mut pairs = Vec::new();
    for h in request.hosts.iter().filter(|h| h.switch_cores > 0) {
        let profile = profiles.get(&h.profile).ok_or_else(|| {
            let text = unknown("profile", &h.profile, profiles.keys().map(String::as_str));
            Fault::new(&request.file, text)
        })?;
        let question = Question { cores: h.switch_cores, burst: 32, ..Question::default() };
        let e = estimate(library, &request.switch, profile, &question)?;
        pairs.push(format!("{}:{}", h.name, (e.interval_mpps.0 * 1000.0).floor()));
    }
    let key = "resource_provider_packet_processing_without_direction";
    Ok((!pairs.is_empty()).then(|| format!("{key} = {}", pairs.join(","))))
}
