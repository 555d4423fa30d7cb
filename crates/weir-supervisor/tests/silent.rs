//! A host that does not answer: what a change that it has no part in asks of it, which is nothing.

mod world;

use weir_supervisor::goal::Goal;
use weir_supervisor::model::Lab;
use weir_supervisor::silent::{Missed, What, bodies_gone, missed, split, supposed};
use weir_supervisor::store::State;
use world::{World, lab};

const STORE: u64 = 7;

/// A lab as it is kept when it holds.
fn state(lab: &Lab) -> State {
    let seen = World::of(lab).observed();
    let g = Goal::of(lab, &seen, &Default::default(), &Default::default(), STORE).unwrap();
    State { lab: lab.clone(), places: g.places, links: g.links, revision: 1 }
}

/// What of a change to `next` is given up at "west", and what would be needed there.
fn asked(states: &[State], next: &Lab) -> (Vec<String>, Vec<String>) {
    let mut seen = World::of(next).observed();
    seen.insert("west".to_owned(), supposed("west", states, next, STORE));
    let places = states.iter().flat_map(|s| s.places.clone()).collect();
    let g = Goal::of(next, &seen, &places, &Default::default(), STORE).unwrap();
    let out = split(g.steps(&seen, STORE, &places), |h| h == "west");
    assert!(out.steps.iter().all(|s| s.host() == "east"));
    let names = |all: Vec<(String, String)>| all.into_iter().map(|(_, name)| name).collect();
    (names(out.gone), names(out.needed))
}

fn only(name: &str) -> (Vec<String>, Vec<String>) {
    (Vec::new(), vec![name.to_owned()])
}

#[test]
fn what_stays_asks_nothing_and_what_goes_is_given_up() {
    let first = lab();
    let kept = [state(&first)];
    let nothing = (Vec::new(), Vec::new());
    assert_eq!(asked(&kept, &first), nothing);
    let mut next = first.clone();
    next.network[0].node[0].cpu_permille = 1;
    next.network.truncate(1);
    assert_eq!(asked(&kept, &next), nothing);
    let mut next = first.clone();
    next.network.remove(0);
    assert_eq!(asked(&kept, &next), (vec!["red.s2".to_owned()], Vec::new()));
    // What is to be another there, what is new there, and what is to come there.
    let mut next = first.clone();
    next.network[0].node[1].cpu_permille = 1;
    assert_eq!(asked(&kept, &next), only("red.s2"));
    let mut next = first.clone();
    next.network[1].node[0].host = "west".into();
    next.network[1].node[0].ports = vec!["new".into()];
    assert_eq!(asked(&kept, &next), only("blue.s1"));
}

#[test]
fn what_an_interrupted_change_may_have_left_is_not_supposed_to_be_right() {
    let first = lab();
    let (mut other, mut less) = (first.clone(), first.clone());
    other.network[0].node[1].cpu_permille = 1;
    less.network.remove(0);
    for left in [&other, &less] {
        let states = [state(&first), state(left)];
        assert_eq!(asked(&states, &first), only("red.s2"), "{left:?}");
        assert_eq!(asked(&states, &less), (vec!["red.s2".to_owned()], Vec::new()));
    }
}

#[test]
fn a_body_there_is_given_up_when_its_node_goes_elsewhere() {
    let mut first = lab();
    first.network[1].node[0].away = Some("west".to_owned());
    let states = [State { lab: first.clone(), ..State::default() }];
    assert_eq!(bodies_gone(&states, &first, "west"), []);
    let gone = bodies_gone(&states, &lab(), "west");
    let told: Vec<String> = missed(&gone, What::GivenUp).iter().map(Missed::to_string).collect();
    assert_eq!(told, ["! west: no data plane answers there; blue.s1 is given up there"]);
}
