//! Rules and defaults of a lab's nodes, read as the data plane will read them, before anything is touched.
//!
//! Room: text of the model. Called by [`super::lab::checked`]. Groups and meters that rules name are not asked for: they are
//! controllers' to make, and perhaps there.

use super::lab::vdps;
use crate::config::plan::VdpPlan;
use crate::config::rules::flow_error;
use weir_classify::Match;
use weir_dataplane::flowtext::{parse_actions, parse_match};
use weir_dataplane::{CompileError, PortNo, ResolvePort, Vid, compile, compile_default};
use weir_packet::PortId;
use weir_supervisor::model::{Lab, Network, Node};
use weir_supervisor::refusal::{Refusal, Way};

/// Whether every node's rules and default can be read, and name no port that the node does not have.
///
/// # Errors
/// The first that can't.
pub fn check(lab: &Lab) -> Result<(), Refusal> {
    vdps(lab).try_for_each(|(n, v, at)| of_node(lab, n, v, &at))
}

fn of_node(lab: &Lab, n: &Network, v: &Node, at: &Way) -> Result<(), Refusal> {
    if v.default.is_none() && v.rule.is_empty() {
        return Ok(());
    }
    let called = v.vdp_name(n);
    let ports =
        Ports((1..).map(PortNo).zip(lab.attachments(n, v)).map(|(no, p)| (p, no)).collect());
    let plan = VdpPlan { ports: ports.0.clone(), ..VdpPlan::new(Vid(1), &called) };
    let names = plan.names();
    let refuse = |at: Way, text: String| Refusal::new(at, format!("{called}: {text}"));
    let wrong = |what: &str, e: &CompileError| format!("{what}: {}", ports.mended(e));
    if let Some(text) = &v.default {
        let refuse = |text| refuse(at.key("default"), text);
        let actions = parse_actions(text, &names, 0, &Match::any());
        let actions = actions.map_err(|e| refuse(flow_error("default", &e)))?;
        compile_default(&actions, &ports).map_err(|e| refuse(wrong("default", &e)))?;
    }
    for (k, r) in v.rule.iter().enumerate() {
        let at = at.at("rule", k);
        let matcher = parse_match(&r.matcher, &names)
            .map_err(|e| refuse(at.key("match"), flow_error("match", &e)))?;
        let refuse = |text| refuse(at.key("actions"), text);
        let actions = parse_actions(&r.actions, &names, 0, &matcher)
            .map_err(|e| refuse(flow_error("actions", &e)))?;
        compile(&actions, 0, &ports).map_err(|e| refuse(wrong("actions", &e)))?;
    }
    Ok(())
}

/// A node's ports by its own numbers.
struct Ports(Vec<(String, PortNo)>);

impl ResolvePort for Ports {
    fn port(&self, no: PortNo) -> Option<PortId> {
        // Which of the data plane's it is, nobody asks.
        self.0.iter().any(|(_, there)| *there == no).then_some(PortId(0))
    }
}

impl Ports {
    /// What is wrong, in words for whoever writes a LAB file.
    fn mended(&self, e: &CompileError) -> String {
        let CompileError::NoSuchPort(no) = e else { return e.to_string() };
        let list: Vec<String> = self.0.iter().map(|(p, no)| format!("{no} ({p})")).collect();
        match list.is_empty() {
            true => format!("there is no port {no}: the node has none"),
            false => format!("there is no port {no}: the node has {}", list.join(", ")),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn told(node: &str) -> String {
        let text = format!(
            "[[host]]\nname = 'h'\napi = 'unix:1'\n[[network]]\nname = 'n'\n\
             [[network.link]]\nbetween = ['v', 'w']\n\
             [[network.node]]\nname = 'w'\nhost = 'h'\n\
             [[network.node]]\nname = 'v'\nhost = 'h'\nports = ['a']\n{node}"
        );
        let lab: Lab = toml::from_str(&text).unwrap();
        check(&lab).map_or_else(|e| format!("{}: {e}", e.at), |()| String::new())
    }

    #[test]
    fn rules_name_ports_of_the_node_and_those_that_are_reserved() {
        let rule = |r: &str| format!("rule = [{{ {r} }}]");
        for fine in [
            "default = 'output:2'",
            "default = 'normal'",
            &rule("match = 'in_port=a', actions = 'output:n.v.w'"),
            &rule("match = 'in_port=9', actions = 'drop'"),
            &rule("actions = 'in_port,all,flood,local,controller'"),
            &rule("actions = 'group:7'"),
            &rule("actions = 'meter:3,output:1'"),
            &rule("actions = 'set_queue:1,output:2'"),
            // It is a router, and no VDP yet.
            "kind = 'router'\ndefault = 'output:9'",
        ] {
            assert_eq!(told(fine), "", "{fine}");
        }
        for (wrong, says) in [
            (
                "default = 'output:3'",
                "node[1].default: n.v: default: there is no port 3: the node has 1 (a), 2 (n.v.w)",
            ),
            (
                &*rule("actions = 'output:3'"),
                "node[1].rule[0].actions: n.v: actions: there is no port 3",
            ),
            (&rule("actions = 'output:b'"), "node[1].rule[0].actions: n.v: actions: 'b'"),
            (
                &rule("match = 'colour=3', actions = 'drop'"),
                "node[1].rule[0].match: n.v: match: 'colour",
            ),
            ("default = 'goto_table:1'", "goto is for rules"),
        ] {
            let told = told(wrong);
            assert!(told.contains(says), "{told}");
        }
    }
}
