//! Rules and groups after their VDP's ports have changed: they name ports by the VDP's numbers and
//! are compiled to the data plane's, and a port that comes back has a new one there.
//!
//! Room: as the rest of `control`. Compiles again what is there; adds and removes nothing.

use super::*;
use crate::action::{Action, PortNo, Vid};
use crate::compile::{self, ResolvePort};
use crate::edge::GONE;
use crate::group::Group;
use crate::matching::placed;
use crate::plane::DataPlane;
use crate::vdp::{AskedGroup, Path, Phase, Watched};
use std::sync::Arc;
use weir_packet::PortId;

/// A VDP's ports, beside its tables; what was named and is away is [`GONE`], so that others of the same rule are what they are.
struct Ports(Vec<(PortNo, PortId)>);

impl Ports {
    fn own(&self, no: PortNo) -> Option<PortId> {
        self.0.iter().find(|(n, _)| *n == no).map(|(_, id)| *id)
    }
}

impl ResolvePort for Ports {
    fn port(&self, no: PortNo) -> Option<PortId> {
        Some(self.own(no).unwrap_or(GONE))
    }
}

/// A group as its owner wrote it, watched ports in the VDP's own numbers.
pub(crate) type WrittenGroup = Group<Vec<Action>>;

impl DataPlane {
    /// Gives a VDP's rules, on whichever path they live, and the groups that were put there by
    /// [`DataPlane::put_own_group`] the ports that it has now. Counters and places stay. What names
    /// a port that is away goes on naming it: frames end there, counted.
    ///
    /// # Errors
    /// No such VDP.
    pub fn relink(&mut self, vid: Vid) -> Result<(), ControlError> {
        if self.desk.is_some() {
            return self.everywhere(move |p| p.relink(vid));
        }
        self.relink_groups(vid)?;
        let v = self.vdp_mut(vid)?;
        let ports = Ports(v.ports.to_vec());
        let copied = v.phase != Phase::On(Path::Fast);
        let mut slow = Vec::new();
        let (meters, groups) = (&v.fast.meters, &v.fast.groups);
        for (n, t) in v.fast.tables.iter_mut().enumerate() {
            let n = n as u8;
            let again = |actions: &[Action]| compile::compile(actions, n, &ports).ok();
            t.relink(&mut |actions| again(actions).map(|r| placed(r, meters, groups)));
            t.lend_aside(&mut |r| slow.push((n, true, r)));
            if copied {
                t.lend_all(&mut |r| slow.push((n, false, r)));
            }
        }
        self.post(vid, move |s| {
            for (n, aside, r) in slow {
                match aside {
                    true => s.put_own(n, r),
                    false => s.put_copy(n, r),
                }
            }
        })
    }

    fn relink_groups(&mut self, vid: Vid) -> Result<(), ControlError> {
        let v = self.vdp_mut(vid)?;
        let ports = Ports(v.ports.to_vec());
        let mut slow = Vec::new();
        let own = v.asked.groups.iter().filter(|(_, g)| g.watched == Watched::Own);
        for (id, AskedGroup { written, .. }) in own {
            let watched = |no| ports.own(PortNo(no)).map_or(u32::MAX, |p| p.0.into());
            let Some(g) = v.fast.groups.get_mut(*id) else { continue };
            let mut before = g.buckets().iter();
            let mut whole = true;
            let new = written.clone().watching(watched).map(|actions| {
                let r = compile::compile_bucket(&actions, &ports);
                whole &= r.is_ok();
                let mut r = r.unwrap_or_else(|_| compile::ActionResult::drop());
                before.next().into_iter().for_each(|b| r.count_on(&b.payload));
                Arc::new(r)
            });
            if !whole {
                continue;
            }
            g.take_buckets_of(new);
            slow.push((*id, g.share()));
        }
        self.post(vid, move |s| {
            slow.into_iter().for_each(|(id, g)| _ = s.tables.get_mut().groups.insert(id, g));
        })
    }
}
