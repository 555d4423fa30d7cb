//! What happens to frames that no flow takes (1.3 §6.3.2, 1.0 §4.3 and §3.4): dropped where 1.3
//! rules, sent to controllers and listening tools of 1.0. When controllers stay away all frames may be treated as by a plain switch,
//! flows or not: of 1.3 every controller has a flow for those that no other takes, to a controller that is not there.

use crate::config::FailMode;
use crate::dp;
use crate::plane::Plane;
use crate::request::{Cx, Stop};
use crate::roles::Conn;
use crate::switch::Switch;
use weir_dataplane::{Action, InvalidTtl, Out};
use weir_openflow::model::{NO_MAX_LEN, PacketInReason};
use weir_packet::Nanos;

/// What a frame without a flow gets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Miss {
    Drop,
    Controller,
    Normal,
}

/// Whether a switch forwards by itself since its controllers stay away.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Alone {
    Yes,
    No,
}

impl Miss {
    pub(crate) fn actions(self) -> Vec<Action> {
        match self {
            Miss::Drop => vec![],
            Miss::Controller => vec![Action::Output(Out::Controller(NO_MAX_LEN))],
            Miss::Normal => vec![Action::Output(Out::Normal)],
        }
    }
}

impl Switch {
    /// What happens without controllers from now on, as [`Switch::tick`] sees to; they have stayed away since now.
    pub fn set_fail_mode(&mut self, mode: FailMode, now: Nanos) {
        if self.config.fail_mode != mode {
            self.config.fail_mode = mode;
            self.miss = None;
            self.alone_since = (!self.conns.any_controller()).then_some(now);
        }
    }
    /// When a switch without controllers begins to stand alone.
    pub(crate) fn alone_at(&self) -> Option<Nanos> {
        match (self.config.fail_mode, self.alone_since) {
            (FailMode::Standalone { after }, Some(since)) if self.miss != Some(Miss::Normal) => {
                Some(since + after)
            }
            _ => None,
        }
    }
    /// Sees to it that frames without a flow get what they should.
    pub(crate) fn settle_miss<P: Plane>(&mut self, cx: &mut Cx<'_, P>) -> Result<(), Stop> {
        if self.conns.any_controller() {
            self.alone_since = None;
        } else {
            self.alone_since.get_or_insert(cx.now);
        }
        self.settle_ttl(cx)?;
        let plain = self.config.fail_mode == FailMode::Plain;
        let alone = self.alone_at().is_some_and(|at| at <= cx.now);
        let wanted = match (self.conns.any_controller(), self.conns.any_old_listener()) {
            (false, _) if plain || alone || self.miss == Some(Miss::Normal) => Miss::Normal,
            (_, true) => Miss::Controller,
            (_, false) => Miss::Drop,
        };
        let alone = if wanted == Miss::Normal && !plain { Alone::Yes } else { Alone::No };
        if (self.miss, self.alone) == (Some(wanted), alone) {
            return Ok(());
        }
        let (vid, place, actions) = (self.config.vid, self.config.placement, wanted.actions());
        let differs = self.alone != alone;
        cx.plane.with(move |plane| {
            dp::set_miss(plane, vid, &actions);
            if differs {
                dp::set_alone(plane, vid, alone, place);
            }
        })?;
        self.alone = alone;
        self.miss = Some(wanted);
        Ok(())
    }
    /// Frames whose TTL can't be decremented go to the controllers when one wants them (1.3 §7.4.1,
    /// OFPR_INVALID_TTL).
    fn settle_ttl<P: Plane>(&mut self, cx: &mut Cx<'_, P>) -> Result<(), Stop> {
        let wants = |c: &Conn| c.wants_packet(PacketInReason::InvalidTtl);
        let to = match self.conns.all.values().any(wants) {
            true => InvalidTtl::Controller(NO_MAX_LEN),
            false => InvalidTtl::Drop,
        };
        if to != self.invalid_ttl {
            let vid = self.config.vid;
            cx.plane.with(move |plane| dp::set_invalid_ttl(plane, vid, to))?;
            self.invalid_ttl = to;
        }
        Ok(())
    }
}
