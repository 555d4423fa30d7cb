//! What can be asked of a data plane: ports, VDPs, rules, limits, migration, counters.
//!
//! Room: the logical API (004 §4.4's higher level) that configuration, the control socket and
//! OpenFlow use. Called by the thread that owns the [`DataPlane`], between bursts; each call either
//! does all of what it says or nothing.

mod away;
mod budget;
mod channels;
mod config;
mod crew;
mod empty;
mod error;
mod installed;
mod limits;
mod mapping_rules;
mod migration;
mod objects;
mod one_path;
mod packet_out;
mod pins;
mod port_config;
mod port_events;
mod ports;
mod punt;
mod queues;
mod relink;
mod rules;
mod vdps;
mod view;

pub use away::{Gauge, Passed};
pub use config::Config;
pub use empty::TakenRules;
pub use error::ControlError;
pub(crate) use installed::Changes;
pub use installed::{Installed, LastChanges};
pub use objects::{GroupCounters, MeterCounters};
pub use packet_out::{PacketOut, PortIn};
pub(crate) use pins::Pins;
pub(crate) use port_events::Subscribers;
pub use port_events::{LinkEvent, PortChange, PortEvent};
pub use queues::{QueueCounters, QueueView};
pub(crate) use relink::WrittenGroup;
pub use rules::{Absent, Placed, Placement, RuleRef};
pub use vdps::VdpSpec;
pub use view::{FramesView, Imbalance, PortView, RuleView, Snapshot, VdpView};

use budget::{entries, owner};

use crate::action::Vid;
use crate::crew::MAX_WORKERS;
use crate::plane::{DataPlane, WorkerChannel};
use crate::software::{self, Dedicated};
use crate::vdp::Path;
use weir_classify::Tcam;
use weir_packet::Pool;

impl DataPlane {
    /// A data plane with the default VDP and no port.
    ///
    /// # Errors
    /// [`ControlError`] for sizes that can't be.
    pub fn new(config: Config) -> Result<Self, ControlError> {
        if !(1..=64).contains(&config.channels) {
            let why = "1 to 64 channels";
            return Err(ControlError::Size { what: "channels", value: config.channels, why });
        }
        if !(64..=65536).contains(&config.channel_frames) {
            let (value, why) = (config.channel_frames, "64 to 65536 frames");
            return Err(ControlError::Size { what: "channel_frames", value, why });
        }
        if !(1..=MAX_WORKERS).contains(&config.workers) {
            let (value, why) = (config.workers, "1 to 64 workers");
            return Err(ControlError::Size { what: "workers", value, why });
        }
        let pool = Pool::new(config.frames, config.chunk_bytes)?;
        let channels = (0..config.channels)
            .map(|i| {
                let (ring, server) = software::pair(config.channel_frames);
                let shared = i + 1 == config.channels;
                let dedicated = if shared { Dedicated::No } else { Dedicated::Yes };
                WorkerChannel { ring, inline: Some(server), owner: None, dedicated }
            })
            .collect();
        let tcam = Tcam::new(config.tcam)?;
        let mut plane = Self::assemble(pool, channels, tcam, config);
        let mut spec = VdpSpec::new(Vid(0), "default");
        spec.path = Path::Slow;
        plane.insert_vdp(spec)?;
        Ok(plane)
    }
}
