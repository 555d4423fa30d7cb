//! Tunnel ids beside ports that are ends of tunnels: a `vxlan:` port has one VNI, and no flow chooses another.
//!
//! Room: configuration; pure. What flows set is a field of theirs as metadata is, which decapsulating actions set as well; whoever comes from a
//! switch where it says by which tunnel a frame leaves would send one tenant's frames to another. So it is refused where that
//! could be meant. Called where a VDP is read, from a file or for the control socket.

use super::error::ConfigError;
use super::plan::{Plan, PortPlan, VdpPlan};
use weir_classify::Field;
use weir_dataplane::{Action, Out, PortNo};
use weir_io::open::Kind;

/// Refuses rules that set a tunnel id and send by the end of a tunnel, or ask in the first table what no frame has there.
///
/// # Errors
/// Which rule, and what to write instead.
pub fn check(plan: &Plan, v: &VdpPlan) -> Result<(), ConfigError> {
    let end = |name: &str| -> Option<&PortPlan> {
        plan.ports.iter().find(|p| p.name == name && p.spec.kind == Kind::Vxlan)
    };
    let ends: Vec<(PortNo, &PortPlan)> =
        v.ports.iter().filter_map(|(name, no)| Some((*no, end(name)?))).collect();
    if ends.is_empty() {
        return Ok(());
    }
    for r in v.rules.values() {
        let end = ends.iter().find(|(no, _)| sends(&r.spec.actions, *no)).map(|(_, p)| *p);
        let what = match end {
            Some(p) if sets_an_id(&r.spec.actions) => {
                let vni = p.spec.target.split(',').next().unwrap_or_default();
                let name = &p.name;
                format!(
                    "a tunnel id is set for port '{name}', whose frames all leave with its own VNI, {vni}: make a port for each VNI \
                     ('vxlan:VNI,remote=ADDRESS') and send by that"
                )
            }
            _ if r.table == 0 && r.spec.matcher.mask().get(Field::TunnelId) != 0 => {
                "tun_id in the first table: frames have none there, by whatever port they come; make a port for each VNI \
                 ('vxlan:VNI,remote=ADDRESS') and match on in_port"
                    .to_owned()
            }
            _ => continue,
        };
        return Err(ConfigError {
            place: r.place.clone(),
            text: format!("{}: {what}", v.called()),
        });
    }
    Ok(())
}

fn sets_an_id(actions: &[Action]) -> bool {
    actions.iter().any(|a| match a {
        Action::SetField { field: Field::TunnelId, .. } => true,
        Action::WriteActions(set) => sets_an_id(set),
        _ => false,
    })
}

fn sends(actions: &[Action], by: PortNo) -> bool {
    actions.iter().any(|a| match a {
        Action::Output(Out::Port(no)) | Action::Mirror(no) => *no == by,
        Action::Output(Out::All | Out::Flood) => true,
        Action::WriteActions(set) => sends(set, by),
        _ => false,
    })
}
