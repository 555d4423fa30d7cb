//! Flow spaces and rules, read as the data plane reads its own.
//!
//! Room: text in, a ternary match or text out. Called by the checks of `weir-supervisor`.

use crate::config::plan::VdpNames;
use weir_classify::{Field, Match};
use weir_dataplane::flowtext::{ActionsText, MatchText, NoNames, parse_actions, parse_match};
use weir_dataplane::{PortNo, UserFields};
use weir_supervisor::away::RuleSyntax;
use weir_supervisor::model::{FlowSyntax, Rule};

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

impl RuleSyntax for Flows {
    fn by_number(&self, rule: &Rule, ports: &[String]) -> Result<Rule, String> {
        let numbered = (1u32..).zip(ports).map(|(no, name)| (name.clone(), PortNo(no)));
        let named: Vec<(String, PortNo)> = numbered.collect();
        let names = VdpNames(&named, UserFields::none());
        let m = parse_match(&rule.matcher, &names).map_err(|e| e.to_string())?;
        let all = parse_actions(&rule.actions, &names, 0, &m).map_err(|e| e.to_string())?;
        // What names no port stays as it was written.
        let matcher = match parse_match(&rule.matcher, &NoNames) {
            Ok(_) => rule.matcher.clone(),
            Err(_) => MatchText(&m, &NoNames).to_string(),
        };
        let actions = match parse_actions(&rule.actions, &NoNames, 0, &m) {
            Ok(_) => rule.actions.clone(),
            Err(_) => ActionsText(&all, &NoNames).to_string(),
        };
        Ok(Rule { matcher, actions, ..rule.clone() })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_rule_by_names_is_the_same_by_numbers() {
        let ports = ["a", "b.2", "ip"].map(str::to_owned);
        for (matcher, actions, m, a) in [
            ("in_port=a", "output:b.2", "in_port=1", "output:2"),
            ("ip, in_port=ip", "dec_ttl, ip", "ip,in_port=3", "dec_ttl,output:3"),
            ("in_port=2, tcp", "mirror:1, in_port", "in_port=2, tcp", "mirror:1, in_port"),
            ("", "enqueue:a:4", "", "set_queue:4,output:1,set_queue:0"),
            ("", "write_actions(output:b.2)", "", "write_actions(output:2)"),
        ] {
            let rule = Rule {
                priority: Some(3),
                matcher: matcher.to_owned(),
                actions: actions.to_owned(),
            };
            let got = Flows.by_number(&rule, &ports).unwrap();
            assert_eq!((got.matcher.as_str(), got.actions.as_str()), (m, a));
            assert_eq!(got.priority, Some(3));
        }
        let rule = Rule { priority: None, matcher: "in_port=c".into(), actions: "drop".into() };
        assert!(Flows.by_number(&rule, &ports).unwrap_err().contains("port"));
    }
}
