//! 001's evaluation, a study for each figure and table that is about switches.
//!
//! Data. Modules have the paper's parameters as their defaults; what differs is said here. 001 spoke OpenFlow
//! 1.0, and so do these.

use super::{Mimic, Study};
use weir_openflow::model::Version;

/// What 001's switches spoke.
pub const VERSION: Version = Version::V10;

/// Control: a device without faults.
const HONEST: Mimic = Mimic {
    profile: "honest",
    like: "a switch that does what OpenFlow says",
    fails: &[],
    unclear: &[],
};

const HARDWARE: &str = "001 measured hardware by a NetFPGA's stamps. Here the switches are programs, wired by veth, \
     and stamps are the kernel's: delays of another kind, compared for their shape.";

const TIMESTAMPS: Study = Study {
    id: "oflops-timestamps",
    figure: "001 figure 2",
    asks: "How the ways to take time stamps drift and jitter",
    module: "timestamps",
    full: &[],
    quick: &[],
    mimics: &[],
    differs: &[
        "001 compared each stamp with a DAG card's by an optical wiretap. Here it is compared with the \
         kernel's stamp of the departure, of the same clock: a drift between clocks does not show.",
    ],
};

const ACTIONS: Study = Study {
    id: "oflops-actions",
    figure: "001 table 2",
    asks: "What each modification of a frame costs and loses, on switches of several kinds",
    module: "actions",
    full: &[],
    quick: &[],
    mimics: &[
        Mimic { like: "Switch1 and NetFPGA: every modification as fast as forwarding", ..HONEST },
        Mimic {
            profile: "cpu-modify",
            like: "Switch2: some modifications in the CPU, 88 % of the frames lost",
            fails: &["modifications-complete", "modifications-as-fast"],
            unclear: &[],
        },
        Mimic {
            profile: "discards-actions",
            like: "Switch3: frames of flows that write MAC, IP, ToS or ports are lost",
            fails: &["modifications-complete"],
            // No frame of a combination comes.
            unclear: &["combination-costs-its-dearest"],
        },
    ],
    differs: &[HARDWARE],
};

const INSERT: Study = Study {
    id: "oflops-insert",
    figure: "001 figure 3",
    asks: "How long until inserted entries treat frames, and what the barrier says of it",
    module: "flow-insert",
    full: &[],
    quick: &[],
    mimics: &[
        HONEST,
        Mimic {
            profile: "early-barrier",
            like: "Switch1 and NetFPGA: 1.8 ms for one entry, 1 ms for each of many, and a barrier that is \
                   answered before any works",
            fails: &["barrier-truthful"],
            unclear: &[],
        },
        Mimic {
            profile: "no-barrier",
            like: "Switch2 and Switch3: no barrier",
            fails: &[],
            unclear: &["barrier-truthful", "barrier-prompt"],
        },
    ],
    differs: &[HARDWARE],
};

const MODIFY: Study = Study {
    id: "oflops-modify",
    figure: "001 figure 4",
    asks: "Whether changing entries is dearer than inserting them",
    module: "flow-modify",
    full: &[],
    quick: &[("entries", "1,10,40")],
    mimics: &[
        HONEST,
        Mimic {
            profile: "modify-dear",
            like: "Switch1 and Switch2: modification dearer than insertion, from some ten entries on",
            fails: &["modification-as-cheap"],
            unclear: &[],
        },
        Mimic {
            profile: "priorities-dear",
            like: "what the vendor of Switch2 says of it: entries of a TCAM must be put in order again",
            fails: &["priorities-cost-nothing"],
            unclear: &[],
        },
    ],
    differs: &[HARDWARE],
};

const STATS: Study = Study {
    id: "oflops-stats",
    figure: "001 figure 5",
    asks: "How long flow statistics take, and at what price, against the rate of asking",
    module: "flow-stats",
    full: &[],
    quick: &[("rates", "1,2,5,10"), ("duration", "3")],
    mimics: &[
        HONEST,
        Mimic {
            profile: "slow-stats",
            like: "Switch2: replies as fast as its CPU allows, which is busy with them",
            fails: &[],
            unclear: &[],
        },
        Mimic {
            profile: "paced-stats",
            like: "Switch1: a segment for each flow at low rates, several flows in one at higher rates",
            fails: &["statistics-packed"],
            unclear: &[],
        },
    ],
    differs: &[
        HARDWARE,
        "The CPU of Open vSwitch and weir is that of their process, in percent of one core. Devices with \
         configured faults tell theirs by SNMP, as 001's switches did: the time that their profile takes.",
    ],
};

const INTERACTION: Study = Study {
    id: "oflops-interaction",
    figure: "001 figure 6",
    asks: "How long updates take while statistics are polled",
    module: "interaction",
    // At 50 polls a second the profile would do nothing else.
    full: &[("rates", "0.5,1,2,5,10,20")],
    quick: &[("changed", "50"), ("rates", "2,20"), ("repetitions", "5")],
    mimics: &[
        Mimic { like: "Switch1 and Switch3: polling makes no great difference", ..HONEST },
        Mimic {
            profile: "stats-slow-updates",
            like: "Switch2: polling delays updates",
            fails: &["updates-undisturbed"],
            unclear: &[],
        },
    ],
    differs: &[HARDWARE],
};

/// All of them, in the paper's order.
pub const ALL: &[Study] = &[TIMESTAMPS, ACTIONS, INSERT, MODIFY, STATS, INTERACTION];

/// The study of that name.
pub fn find(id: &str) -> Option<&'static Study> {
    ALL.iter().find(|s| s.id == id)
}
