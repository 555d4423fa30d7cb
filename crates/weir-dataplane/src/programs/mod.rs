//! The slow-path programs that come with weir, one file or folder each.
//!
//! Room: called by the software stage through [`Program`]; knows `program.rs` and `weir-wire`,
//! nothing of channels, workers or rules. A program of one's own needs none of this: see the
//! crate's `examples/own_program.rs`.
//!
//! - [`learning`]: a learning switch, what OpenFlow calls NORMAL.
//! - [`reflector`]: each frame back to where it came from.
//! - [`sink`]: the end of every frame.
//! - [`forward`]: a fixed map from port to port.
//! - [`router`]: an IPv4 and IPv6 router; it needs a configuration, as do the following.
//! - [`bng`]: a broadband network gateway, QinQ to MPLS and GRE.
//! - [`nat`]: network address and port translation, IPv4 to IPv4.
//! - [`firewall`]: a stateful firewall for IPv4.
//! - [`balancer`]: a load balancer by Maglev's consistent hashing.
//!
//! [`exact`] is the table that programs look keys up in.

pub mod balancer;
pub mod bng;
mod connection;
mod cut;
pub(crate) mod dir24;
pub mod exact;
pub mod firewall;
pub mod forward;
pub(crate) mod hash;
pub mod learning;
pub mod nat;
mod priority_tag;
pub mod reflector;
pub mod router;
mod said;
pub mod sink;

pub use connection::{Endpoint, Kind};

use crate::program::Program;
use thiserror::Error;

/// A program that can be had by its name alone.
struct Known {
    name: &'static str,
    make: fn() -> Box<dyn Program>,
}

const KNOWN: &[Known] = &[
    Known { name: "forward", make: || Box::new(forward::Forward::neighbours()) },
    Known { name: "learning", make: || Box::new(learning::LearningSwitch::default()) },
    Known { name: "reflector", make: || Box::new(reflector::Reflector::default()) },
    Known { name: "sink", make: || Box::new(sink::Sink::default()) },
];

/// Programs that [`by_name`] can't make, as they need to be told things first.
const CONFIGURED: &[&str] = &["balancer", "bng", "firewall", "nat", "router"];

/// A name that is not a program's.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum UnknownProgram {
    /// No program is called so.
    #[error("no slow-path program '{name}': did you mean '{nearest}'? There are {}", names().join(", "))]
    Name {
        /// The name asked for.
        name: String,
        /// The one most like it.
        nearest: &'static str,
    },
    /// The program can't be made from its name alone.
    #[error("program '{0}' needs a configuration of its own")]
    NeedsConfig(&'static str),
}

/// The names of all programs, in alphabetical order.
pub fn names() -> Vec<&'static str> {
    let mut all: Vec<_> = KNOWN.iter().map(|k| k.name).chain(CONFIGURED.iter().copied()).collect();
    all.sort_unstable();
    all
}

/// A program with its usual settings, for those that need none.
///
/// # Errors
/// [`UnknownProgram`].
pub fn by_name(name: &str) -> Result<Box<dyn Program>, UnknownProgram> {
    if let Some(k) = KNOWN.iter().find(|k| k.name == name) {
        return Ok((k.make)());
    }
    if let Some(n) = CONFIGURED.iter().find(|n| **n == name) {
        return Err(UnknownProgram::NeedsConfig(n));
    }
    // A name is quoted, not repeated at any length.
    let name: String = name.chars().take(64).collect();
    let nearest =
        names().into_iter().min_by_key(|n| strsim::levenshtein(n, &name)).unwrap_or_default();
    Err(UnknownProgram::Name { name, nearest })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_make_their_programs() {
        for name in names() {
            match by_name(name) {
                Ok(p) => assert_eq!(p.name(), name),
                Err(e) => assert_eq!(e, UnknownProgram::NeedsConfig(name)),
            }
        }
    }

    #[test]
    fn the_nearest_name_is_offered() {
        for (asked, meant) in [
            ("lerning", "learning"),
            ("Sink", "sink"),
            ("reflect", "reflector"),
            ("routr", "router"),
        ] {
            let Err(UnknownProgram::Name { nearest, .. }) = by_name(asked) else {
                panic!("{asked}")
            };
            assert_eq!(nearest, meant);
        }
        let text = by_name("lerning").err().unwrap().to_string();
        assert!(text.contains("'lerning'") && text.contains("forward, learning"), "{text}");
    }
}
