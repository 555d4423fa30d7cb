//! The same physical nodes by other names: what is remembered under those of one lab, in those of another.
//!
//! Room: text of the model. Whoever knows which host is which says so; called before anything is planned, so
//! that a plan has one name for a data plane.

use crate::model::Lab;
use crate::store::State;
use std::collections::{BTreeMap, BTreeSet};

/// What hosts are called from now on, by what they were called. One that is not in it keeps its name.
pub type Names = BTreeMap<String, String>;

/// A state with these names. Two hosts that come to one name are one: that of the first.
#[must_use]
pub fn renamed(state: &State, names: &Names) -> State {
    let mut s = state.clone();
    if names.iter().all(|(old, new)| old == new) {
        return s;
    }
    lab(&mut s.lab, names);
    for p in s.places.values_mut() {
        change(&mut p.host, names);
    }
    let ways = s.links.values_mut().flat_map(|l| &mut l.ways);
    ways.flat_map(|w| &mut w.hosts).for_each(|h| change(h, names));
    s
}

fn lab(lab: &mut Lab, names: &Names) {
    for h in &mut lab.host {
        change(&mut h.name, names);
    }
    let mut seen = BTreeSet::new();
    lab.host.retain(|h| seen.insert(h.name.clone()));
    for l in &mut lab.link {
        l.between.iter_mut().for_each(|end| end_of(end, names));
    }
    for v in lab.network.iter_mut().flat_map(|n| &mut n.node) {
        change(&mut v.host, names);
        v.away.iter_mut().for_each(|h| change(h, names));
        // A port of its own host's has no host in front.
        let far = v.ports.iter_mut().chain(v.share.iter_mut().map(|s| &mut s.port));
        far.filter(|p| p.contains(':')).for_each(|p| end_of(p, names));
    }
}

fn change(host: &mut String, names: &Names) {
    if let Some(new) = names.get(host) {
        host.clone_from(new);
    }
}

/// `HOST:PORT`, or `HOST`.
fn end_of(text: &mut String, names: &Names) {
    match text.split_once(':') {
        Some((host, port)) => {
            if let Some(new) = names.get(host) {
                *text = format!("{new}:{port}");
            }
        }
        None => change(text, names),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::store::Place;
    use crate::wires::{LinkPlace, WayPlace};

    #[test]
    fn hosts_change_names_wherever_they_stand_and_may_swap_them() {
        let text = |a: &str, b: &str| {
            format!(
                "[[host]]\nname = '{a}'\napi = 'unix:1'\n[[host]]\nname = '{b}'\napi = 'unix:2'\n\
                 [[link]]\nbetween = ['{a}:p', '{b}:q']\n[[link]]\nbetween = ['{a}', '{b}']\n\
                 [[network]]\nname = 'a'\n[[network.node]]\nname = 'b'\nhost = '{a}'\naway = '{b}'\n\
                 ports = ['a', '{b}:a']\nshare = [{{ port = '{b}:a' }}, {{ port = 'b' }}]\n"
            )
        };
        let state = |a: &str, b: &str| State {
            revision: 3,
            lab: toml::from_str(&text(a, b)).unwrap(),
            places: [("a/b".to_owned(), Place { host: a.to_owned(), vid: 7 })].into(),
            links: [(
                "a/l".to_owned(),
                LinkPlace {
                    ways: vec![WayPlace { hosts: vec![a.to_owned(), b.to_owned()], vnis: vec![9] }],
                },
            )]
            .into(),
        };
        let names = |all: &[(&str, &str)]| -> Names {
            all.iter().map(|(x, y)| ((*x).to_owned(), (*y).to_owned())).collect()
        };
        let old = state("a", "b");
        assert_eq!(renamed(&old, &names(&[("a", "east")])), state("east", "b"));
        assert_eq!(renamed(&old, &names(&[("a", "b"), ("b", "a")])), state("b", "a"));
        assert_eq!(renamed(&old, &names(&[("a", "a")])), old);
        // Two that are one.
        let one = renamed(&old, &names(&[("b", "a")]));
        assert_eq!(one.lab.host.len(), 1);
        assert_eq!(one.lab.host[0].api, "unix:1");
    }
}
