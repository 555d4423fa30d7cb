//! `l2-learning`: a learning Ethernet switch (002 §3.1.2), weir's program `learning`: each frame's
//! source is learned, its destination looked up. Learned before, as in 002's figure 11.

use super::{At, Function, Job, Oracle};
use anyhow::Result;
use std::collections::HashMap;
use weir_dataplane::programs::learning::{LearningConfig, LearningSwitch};

/// The switch.
pub struct L2Learning;

fn mac(entry: u32) -> [u8; 6] {
    let [_, b, c, d] = entry.to_be_bytes();
    [2, 0, 0, b, c, d]
}

/// Where a station is: even ones at one port, odd ones at the other.
fn port(entry: u32) -> u32 {
    1 + entry % 2
}

/// Whom a station sends to: its neighbour, at the other port.
fn partner(entries: u32, entry: u32) -> u32 {
    if entry ^ 1 < entries { entry ^ 1 } else { entry.saturating_sub(1) }
}

fn between(from: u32, to: u32, len: usize) -> At {
    let mut bytes = [mac(to), mac(from)].concat();
    bytes.extend([0x88, 0xb5]);
    bytes.resize(len, 0);
    At { port: port(from), bytes }
}

impl Function for L2Learning {
    fn name(&self) -> &'static str {
        "l2-learning"
    }
    fn about(&self) -> &'static str {
        "learning Ethernet switch: sources learned, destinations looked up"
    }
    fn paper_entries(&self) -> u32 {
        2_097_152
    }
    fn most_entries(&self) -> u32 {
        1 << 22
    }
    fn job(&self, entries: u32) -> Result<Job> {
        let max_entries = entries as usize;
        let switch = LearningSwitch::new(LearningConfig { max_entries, ..Default::default() });
        Ok(Job::program(switch, &[1, 2]))
    }
    fn warm(&self, entries: u32, i: u32) -> Option<At> {
        (i < entries).then(|| between(i, partner(entries, i), 60))
    }
    fn frame(&self, entries: u32, _: u32, entry: u32, len: usize) -> At {
        between(entry, partner(entries, entry), len)
    }
    /// A map from addresses to ports; there are two ports, so whoever is unknown is at the other.
    fn oracle(&self, _: u32) -> Oracle {
        let mut seen = HashMap::new();
        Box::new(move |_, input| {
            let (Some(dst), Some(src)) = (input.bytes.get(0..6), input.bytes.get(6..12)) else {
                return Vec::new();
            };
            seen.insert(src.to_vec(), input.port);
            let other = 3 - input.port;
            match seen.get(dst).copied().unwrap_or(other) {
                to if to == input.port => Vec::new(),
                to => vec![At { port: to, ..input.clone() }],
            }
        })
    }
    fn settings(&self, entries: u32) -> Vec<(String, f64)> {
        // Slots of 16 bytes, half of them in use.
        vec![("entries".into(), f64::from(entries)), ("entry_bytes".into(), 32.0)]
    }
    fn ovs(&self, _: u32) -> Option<String> {
        Some("actions=NORMAL\n".to_owned())
    }
}
