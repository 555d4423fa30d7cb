//! Flow spaces, read as the data plane reads its mapping rules.
//!
//! Room: text in, a ternary match out. Called by the checks of `weir-supervisor`.

use weir_classify::{Field, Match};
use weir_dataplane::flowtext::{NoNames, parse_match};
use weir_supervisor::model::FlowSyntax;

/// Open vSwitch's flow syntax, without ports and fields of one's own.
#[derive(Clone, Copy, Debug)]
pub struct Flows;

impl FlowSyntax for Flows {
    type Space = Match;

    fn read(&self, text: &str) -> Result<Match, String> {
        let m = parse_match(text, &NoNames).map_err(|e| e.to_string())?;
        match m.mask().looks_at(Field::InPort) {
            true => Err("in_port is the nodes' to say, by their ports: take it away".to_owned()),
            false => Ok(m),
        }
    }
    fn overlap(&self, a: &Match, b: &Match) -> bool {
        a.overlaps(b)
    }
}
