//! What of a VDP's plan matters for isolation: its slow path, its controllers, and what it does without them.
//!
//! Room: pure, from plans to the verifier's words. Called by `gather`.

use super::acts::addresses;
use crate::config::openflow::FailMode;
use crate::config::plan::VdpPlan;
use crate::config::program::ProgramPlan;
use weir_dataplane::{Isolation, PortNo};
use weir_supervisor::section::Label;
use weir_supervisor::verify::{Act, Edit, Program, To};

/// What a VDP's program does, as far as it matters.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Does {
    /// Nothing, or it sends nothing.
    Nothing,
    /// Sends what it gets, by any port.
    Passes,
    /// Sends back with addresses swapped.
    Swaps,
    /// May send anything by any port.
    Anything,
}

impl Does {
    /// The same as the verifier's.
    pub fn program(self) -> Program {
        match self {
            Self::Nothing | Self::Swaps => Program::Nothing,
            Self::Passes => Program::Passes,
            Self::Anything => Program::Anything,
        }
    }
    /// What it is to send a frame there.
    pub fn acts(self) -> Vec<Act> {
        match self {
            Self::Nothing => Vec::new(),
            Self::Passes | Self::Anything => vec![Act::Program],
            Self::Swaps => {
                let swapped = Edit::Unknown(Box::new(addresses()));
                vec![Act::Edit(swapped), Act::Output(To::InPort)]
            }
        }
    }
}

/// Which frames a switch treats as one without OpenFlow would, while no controller is there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Alone {
    /// None.
    Nothing,
    /// Those that no flow takes: it has no controllers to wait for.
    Misses,
    /// All, whatever flows say.
    Frames,
}

/// What of a VDP's plan matters.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Planned {
    /// Its program.
    pub does: Does,
    /// What it does without controllers.
    pub alone: Alone,
    /// Whether it is cut off.
    pub isolation: Isolation,
    /// Its controllers, as they are written.
    pub controllers: Vec<String>,
    /// Its ports by its own numbers.
    pub ports: Vec<(String, PortNo)>,
    /// The network whose supervisor keeps it, of which store.
    pub kept: Option<(u64, String)>,
}

/// What of this plan matters.
pub fn planned(v: Option<&VdpPlan>) -> Planned {
    let openflow = v.and_then(|v| v.openflow.as_ref());
    let does = match v.and_then(|v| v.program.as_ref()) {
        // What NORMAL is for a VDP that is a switch: learning.
        None if openflow.is_some() => Does::Passes,
        None | Some(ProgramPlan::Sink) => Does::Nothing,
        Some(ProgramPlan::Forward(_) | ProgramPlan::Learning(..) | ProgramPlan::Firewall(_)) => {
            Does::Passes
        }
        Some(ProgramPlan::Reflector) => Does::Swaps,
        Some(
            ProgramPlan::Balancer(_)
            | ProgramPlan::Bng(_)
            | ProgramPlan::Container(_)
            | ProgramPlan::Nat(_)
            | ProgramPlan::Router(_),
        ) => Does::Anything,
    };
    let alone = match openflow.map(|o| (o.nature.fail_mode, o.controllers.is_empty())) {
        None | Some((FailMode::Secure, _)) => Alone::Nothing,
        Some((FailMode::Standalone, true)) => Alone::Misses,
        Some((FailMode::Standalone, false)) => Alone::Frames,
    };
    let controllers = openflow.iter().flat_map(|o| &o.controllers).map(|c| c.to_string());
    Planned {
        does,
        alone,
        isolation: v.map_or(Isolation::Joined, |v| v.isolation),
        controllers: controllers.collect(),
        ports: v.map(|v| v.ports.clone()).unwrap_or_default(),
        kept: v.and_then(|v| Label::parse(v.label.as_deref()?)).map(|l| (l.store, l.network)),
    }
}
