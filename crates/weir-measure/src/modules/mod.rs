//! The modules, one file each. A new one is a file here and a line in [`all`].
//!
//! Room: each module is its question alone; see [`crate::module`].

mod actions;
mod connection;
mod consistency;
mod counters;
mod echo;
mod expiry;
mod flow_insert;
mod flow_modify;
mod flow_stats;
mod interaction;
mod packet_in;
mod packet_out;
mod rfc2544;
mod table_capacity;
mod timestamps;
mod updates;
mod verdicts;

use crate::module::Entry;

/// Every module, in the order in which they are listed.
pub fn all() -> Vec<Entry> {
    vec![
        Entry { about: echo::about(), make: echo::make },
        Entry { about: flow_insert::about(), make: flow_insert::make },
        Entry { about: flow_modify::about(), make: flow_modify::make },
        Entry { about: flow_stats::about(), make: flow_stats::make },
        Entry { about: interaction::about(), make: interaction::make },
        Entry { about: consistency::about(), make: consistency::make },
        Entry { about: counters::about(), make: counters::make },
        Entry { about: expiry::about(), make: expiry::make },
        Entry { about: packet_in::about(), make: packet_in::make },
        Entry { about: packet_out::about(), make: packet_out::make },
        Entry { about: actions::about(), make: actions::make },
        Entry { about: table_capacity::about(), make: table_capacity::make },
        Entry { about: connection::about(), make: connection::make },
        Entry { about: rfc2544::about(), make: rfc2544::make },
        Entry { about: timestamps::about(), make: timestamps::make },
    ]
}

/// The module of that name.
pub fn find(name: &str) -> Option<Entry> {
    all().into_iter().find(|e| e.about.name == name)
}
