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
#[cfg(test)]
mod full_table;
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
        Entry::new(echo::about(), echo::make),
        Entry::new(flow_insert::about(), flow_insert::make),
        Entry::new(flow_modify::about(), flow_modify::make),
        Entry::new(flow_stats::about(), flow_stats::make),
        Entry::new(interaction::about(), interaction::make),
        Entry::new(consistency::about(), consistency::make),
        Entry::new(counters::about(), counters::make),
        Entry::new(expiry::about(), expiry::make),
        Entry::new(packet_in::about(), packet_in::make),
        Entry::new(packet_out::about(), packet_out::make),
        Entry::new(actions::about(), actions::make),
        Entry::new(table_capacity::about(), table_capacity::make),
        Entry::new(connection::about(), connection::make),
        Entry::new(rfc2544::about(), rfc2544::make),
        Entry::new(timestamps::about(), timestamps::make),
    ]
}

/// The module of that name.
pub fn find(name: &str) -> Option<Entry> {
    all().into_iter().find(|e| e.about.name == name)
}
