//! Flows of one version as the other sees them: what was added by 1.0 in 1.3's words, and what 1.0
//! has words for.

use weir_openflow::model::{Action, Field, Instruction, Match, Port, StatsReply, Version};
use weir_openflow::of10;

/// Instructions for whoever speaks `version`; `None` where that has no words for them.
pub(crate) fn shown(
    instructions: &[Instruction],
    matcher: &Match,
    version: Version,
) -> Option<Vec<Instruction>> {
    if version != Version::V10 {
        return Some(instructions.iter().map(|i| newer(i, matcher)).collect());
    }
    if !of10::has_words_for(matcher) {
        return None;
    }
    match instructions {
        [] => Some(Vec::new()),
        [Instruction::Apply(a)] if a.iter().all(action_in_10) => Some(instructions.to_vec()),
        _ => None,
    }
}

fn newer(i: &Instruction, m: &Match) -> Instruction {
    let Instruction::Apply(list) = i else { return i.clone() };
    Instruction::Apply(list.iter().flat_map(|a| newer_action(a, m)).collect())
}

/// An action of 1.0 alone in 1.3's words.
fn newer_action(a: &Action, m: &Match) -> Vec<Action> {
    let udp = m.get(Field::IpProto).is_some_and(|p| p.value == 17);
    let (src, dst) = match udp {
        true => (Field::UdpSrc, Field::UdpDst),
        false => (Field::TcpSrc, Field::TcpDst),
    };
    vec![match *a {
        Action::Enqueue { port, queue } => {
            let max_len = u16::MAX;
            let output = Action::Output { port, max_len };
            return vec![Action::SetQueue(queue), output, Action::SetQueue(0)];
        }
        Action::SetVlanVid(v) => Action::SetField(Field::VlanVid, 0x1000 | u128::from(v)),
        Action::SetVlanPcp(p) => Action::SetField(Field::VlanPcp, p.into()),
        Action::SetNwTos(t) => Action::SetField(Field::IpDscp, (t >> 2).into()),
        Action::SetTpSrc(p) => Action::SetField(src, p.into()),
        Action::SetTpDst(p) => Action::SetField(dst, p.into()),
        _ => return vec![a.clone()],
    }]
}

/// Whether a version has a number for a port. Ports that have none are left out of what is told of all.
pub(crate) fn has_number_for(version: Version, port: Port) -> bool {
    version != Version::V10 || of10::has_number_for(port)
}

/// A reply without the ports that a version has no number for.
pub(super) fn told(mut body: StatsReply, version: Version) -> StatsReply {
    match &mut body {
        StatsReply::Port(all) => all.retain(|p| has_number_for(version, p.port)),
        StatsReply::Queue(all) => all.retain(|q| has_number_for(version, q.port)),
        _ => {}
    }
    body
}

fn action_in_10(a: &Action) -> bool {
    use Field::*;
    match a {
        Action::Output { port, .. } | Action::Enqueue { port, .. } => of10::has_number_for(*port),
        Action::SetVlanVid(_)
        | Action::SetVlanPcp(_)
        | Action::SetNwTos(_)
        | Action::SetTpSrc(_)
        | Action::SetTpDst(_)
        | Action::PopVlan => true,
        Action::SetField(f, _) => matches!(f, EthDst | EthSrc | Ipv4Src | Ipv4Dst),
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_version_sees_what_it_has_words_for() {
        let apply = |a: Vec<Action>| vec![Instruction::Apply(a)];
        let m = Match::default().with(Field::EthType, 0x0800).with(Field::IpProto, 17);
        let old = apply(vec![Action::SetTpSrc(7), Action::SetNwTos(0x20)]);
        assert_eq!(
            shown(&old, &m, Version::V13).unwrap(),
            apply(vec![Action::SetField(Field::UdpSrc, 7), Action::SetField(Field::IpDscp, 8)])
        );
        assert_eq!(shown(&old, &m, Version::V10).unwrap(), old);
        assert_eq!(shown(&apply(vec![Action::Group(1)]), &m, Version::V10), None);
        assert_eq!(shown(&[Instruction::GotoTable(1)], &m, Version::V10), None);
        let v6 = Match::default().with(Field::Ipv6Src, 1);
        assert_eq!(shown(&[], &v6, Version::V10), None);
        let to = |port| apply(vec![Action::Output { port: Port(port), max_len: 0 }]);
        assert_eq!(shown(&to(70_000), &m, Version::V10), None);
        assert_eq!(shown(&to(7), &m, Version::V10), Some(to(7)));
    }
}
