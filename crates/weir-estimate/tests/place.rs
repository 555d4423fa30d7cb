//! Placement: what it says holds, it is as good as can be where that is known, and a refusal says what
//! would be enough.

mod support;

use proptest::prelude::*;
use std::collections::BTreeMap;
use std::sync::LazyLock;
use support::{library, profile};
use weir_estimate::place::{Answer, Objective, Plan, Refusal, Request, openstack, place};
use weir_estimate::{Library, Profile};

static LIBRARY: LazyLock<Library> = LazyLock::new(library);
static PROFILES: LazyLock<BTreeMap<String, Profile>> = LazyLock::new(|| {
    let names = ["xeon-e5-2690v2", "virtual-epyc", "virtual-xeon"];
    names.map(|name| (name.to_owned(), profile(&LIBRARY, name))).into()
});

fn ask(text: &str) -> Answer {
    let request = Request::read("r.toml", text).unwrap_or_else(|e| panic!("{e}\n{text}"));
    place(&LIBRARY, &PROFILES, &request).unwrap_or_else(|e| panic!("{e}"))
}

fn placed(text: &str) -> Plan {
    match ask(text) {
        Answer::Placed(p) => p,
        Answer::Infeasible(r) => panic!("{r:?}\n{text}"),
    }
}

fn refused(text: &str) -> Refusal {
    match ask(text) {
        Answer::Infeasible(r) => r,
        Answer::Placed(p) => panic!("{p:?}"),
    }
}

fn hosts(n: usize) -> String {
    format!("[[host]]\nname = \"h\"\ncount = {n}\nprofile = \"xeon-e5-2690v2\"\n")
}

fn function(name: &str, model: &str, mpps: f64) -> String {
    let traffic = "traffic = \"zipf:1.1,flows=100k\"";
    format!(
        "[[function]]\nname = \"{name}\"\nfunction = \"{model}\"\nrate = \"{mpps:.3} Mpps\"\n{traffic}\n"
    )
}

/// Whatever is used is there, and is what the functions take.
fn check(plan: &Plan, demands: usize) {
    assert_eq!(plan.places.len(), demands);
    for h in &plan.hosts {
        for r in 0..4 {
            assert!(h.used[r] <= h.whole[r] + 1e-6, "{h:?}");
        }
        assert!((-1e-9..=1.0).contains(&h.headroom()));
        let cores: f64 =
            plan.places.iter().filter(|p| p.host == h.name).map(|p| p.need.takes[0]).sum();
        assert!(cores <= h.used[0] + 1e-9);
    }
    assert!(plan.objective >= plan.bound - 1e-6, "{} {}", plan.objective, plan.bound);
}

#[test]
fn objectives_differ_as_they_should() {
    let functions: String = (0..6).map(|i| function(&format!("f{i}"), "l2-basic", 8.0)).collect();
    let few = placed(&format!("{}{functions}", hosts(4)));
    check(&few, 6);
    assert!(few.optimal, "{few:?}");
    let wide = placed(&format!("objective = \"most-headroom\"\n{}{functions}", hosts(4)));
    check(&wide, 6);
    let used = |p: &Plan| p.hosts.iter().filter(|h| h.used[0] > 0.0).count();
    let least = |p: &Plan| p.hosts.iter().map(|h| h.headroom()).fold(1.0, f64::min);
    assert!(used(&few) < used(&wide) && least(&few) < least(&wide));
    let cold = placed(&format!("objective = \"least-energy\"\n{}{functions}", hosts(4)));
    check(&cold, 6);
    assert_eq!(used(&cold), used(&few));
    // What is said of headroom is what the fullest host has.
    assert!((Objective::MostHeadroom.told(wide.objective) - least(&wide)).abs() < 1e-9, "{wide:?}");
}

/// Where a value is proved to be the best, sums over resources bound nothing better.
#[test]
fn a_bound_agrees_with_what_is_proved() {
    // One that can't be split on two hosts; and three of 12 Gbit/s each on hosts of 20.
    let one = function("f", "l2-basic", 8.0);
    let three: String = (0..3).map(|i| function(&format!("f{i}"), "l2-basic", 18.0)).collect();
    for (functions, n) in [(one, 2), (three, 4)] {
        for objective in ["fewest-hosts", "most-headroom", "least-energy"] {
            let plan = placed(&format!("objective = \"{objective}\"\n{}{functions}", hosts(n)));
            assert!(plan.optimal, "{objective}: {plan:?}");
            assert_eq!(plan.objective, plan.bound, "{objective}");
        }
    }
}

#[test]
fn what_runs_already_counts() {
    let running = "[[host.running]]\nname = \"old\"\nfunction = \"l2-basic\"\nrate = \"20 Mpps\"\n";
    let a = placed(&format!("{}{}", hosts(1), function("f", "l2-basic", 4.0)));
    let b = placed(&format!("{}{running}{}", hosts(1), function("f", "l2-basic", 4.0)));
    assert!(b.hosts[0].used[0] > a.hosts[0].used[0]);
}

#[test]
fn a_refusal_says_what_would_be_enough() {
    // 30 Mpps of 64 bytes are more than two ports of 10 Gbit/s carry.
    let r = refused(&format!("{}{}", hosts(3), function("big", "l2-basic", 30.0)));
    assert!(r.constraint.starts_with("links in: 'big'"), "{r:?}");
    assert!(r.enough.contains("Gbit/s of links in free"), "{r:?}");
    // By so little that two digits don't show it.
    let bits = |rate: &str| {
        format!(
            "{}[[function]]\nname = \"a\"\nfunction = \"l2-basic\"\nframe = 1518\nbits = \"{rate}\"\n",
            hosts(1)
        )
    };
    let r = refused(&bits("20.0001 Gbit/s"));
    let what = "'a' takes 20.0001 Gbit/s, and no host has as much free (";
    assert!(r.constraint.contains(what) && r.constraint.ends_with("has 20.0000)"), "{r:?}");
    assert_eq!(r.enough, "a host with 20.0001 Gbit/s of links in free");
    let late = format!("{}latency = \"1 ns\"\n", bits("1 Gbit/s"));
    assert!(refused(&late).constraint.ends_with("and may take 0.001"), "{late}");
    // Cores have no unit.
    let none = hosts(1) + "reserved_cores = 20\n" + &function("f", "l2-basic", 1.0);
    let r = refused(&none);
    assert!(r.constraint.contains(" takes 1.00, and no host"), "{r:?}");
    let many: String = (0..5).map(|i| function(&format!("f{i}"), "l2-basic", 14.0)).collect();
    let r = refused(&format!("{}{many}", hosts(1)));
    assert!(r.constraint.starts_with("links in: at least"), "{r:?}");
    assert_eq!(r.enough, "2 more empty hosts of profile xeon-e5-2690v2");
    // What it says would be enough is, and less is not.
    placed(&format!("{}{many}", hosts(3)));
    refused(&format!("{}{many}", hosts(2)));
    let late = "latency = \"1 ns\"\n";
    let r = refused(&format!("{}{}{late}", hosts(2), function("f", "l2-basic", 1.0)));
    assert!(r.constraint.contains("and may take 0.0"), "{r:?}");
}

/// A further host is like those that are there: with as many cores set aside.
#[test]
fn what_would_be_enough_has_cores_set_aside_too() {
    let hosts = |n| format!("{}reserved_cores = 19\n", hosts(n));
    let many: String = (0..4).map(|i| function(&format!("f{i}"), "l2-basic", 1.0)).collect();
    let r = refused(&format!("{}{many}", hosts(1)));
    assert_eq!(r.enough, "3 more empty hosts of profile xeon-e5-2690v2 with 19 cores set aside");
    placed(&format!("{}{many}", hosts(4)));
    refused(&format!("{}{many}", hosts(3)));
}

/// Where frames wait for a burst to be whole, a lower rate is no help, and a smaller burst is.
#[test]
fn advice_on_latency_is_of_help() {
    let f = format!("{}latency = \"25 us\"\n", function("f", "l2-basic", 0.2));
    let r = refused(&format!("{}{f}", hosts(1)));
    assert_eq!(r.enough, "a smaller burst, or a longer latency");
    placed(&format!("{}{f}burst = 2\n", hosts(1)));
}

/// Two profiles of one name are two kinds of host.
#[test]
fn profiles_of_one_name_are_told_apart() {
    let mut slow = PROFILES["virtual-epyc"].clone();
    for cost in slow.costs.values_mut() {
        cost.cycles = weir_estimate::formula::Formula::times(1000.0, &cost.cycles);
    }
    let mut profiles = PROFILES.clone();
    profiles.insert("./slow.toml".to_owned(), slow);
    let host = |p: &str| format!("[[host]]\nname = \"{}\"\nprofile = \"{p}\"\n", p.len());
    let f = function("f", "l2-basic", 3.0);
    for order in [["./slow.toml", "virtual-epyc"], ["virtual-epyc", "./slow.toml"]] {
        let request = Request::read("r.toml", &(order.map(host).concat() + &f)).expect("a request");
        let Ok(Answer::Placed(plan)) = place(&LIBRARY, &profiles, &request) else {
            panic!("not placed");
        };
        assert_eq!(plan.places[0].host, "virtual-epyc".len().to_string());
    }
}

/// A function's cores are those whose own estimate carries its rate.
#[test]
fn a_function_takes_the_cores_that_carry_it() {
    let f = "[[function]]\nname = \"f\"\nfunction = \"ovs-learning\"\nrate = \"25 Mpps\"\n\
             traffic = \"uniform,flows=100k\"\nburst = 1\n";
    let plan = placed(&format!("{}{f}", hosts(1)));
    let cores = plan.places[0].need.takes[0] as u32;
    let traffic = Some(weir_estimate::traffic::Traffic::uniform(100_000.0));
    let carried = |cores| {
        let q = weir_estimate::Question { traffic: traffic.clone(), cores, ..Default::default() };
        support::ask(&LIBRARY, "ovs-learning", &PROFILES["xeon-e5-2690v2"], &q).rates.core_mpps
    };
    assert!(carried(cores) >= 25.0 && carried(cores - 1) < 25.0, "{cores}");
}

/// A function is estimated with the parameters that its request gives it, as `weir estimate --set` does.
#[test]
fn parameters_of_a_function_are_its_requests() {
    let f = function("f", "bng", 2.0);
    let with = |set: &str| format!("{}{f}{set}", hosts(1));
    let need = |set: &str| placed(&with(set)).places[0].need;
    let (usual, few) = (need(""), need("set = { subscribers = 64, circuits = 64 }\n"));
    let question = |settings: &[(&str, f64)]| weir_estimate::Question {
        mode: weir_estimate::Mode::Full,
        traffic: Some(weir_estimate::traffic::Traffic::read("zipf:1.1,flows=100k").unwrap()),
        burst: 32,
        settings: settings.iter().map(|(n, v)| ((*n).to_owned(), *v)).collect(),
        ..Default::default()
    };
    let cycles = |q: &weir_estimate::Question| {
        support::ask(&LIBRARY, "bng", &PROFILES["xeon-e5-2690v2"], q).cycles
    };
    let all = cycles(&question(&[]));
    let part = cycles(&question(&[("subscribers", 64.0), ("circuits", 64.0)]));
    assert!(part < all, "{part} {all}");
    assert!(few.takes[4] < usual.takes[4] && few.takes[0] <= usual.takes[0], "{few:?} {usual:?}");
    for (set, expected) in [
        ("set = { subscribrs = 64 }\n", "did you mean 'subscribers'"),
        ("set = { subscribers = -1 }\n", "expected a number from zero"),
        ("set = 64\n", "expected a table"),
    ] {
        let request = Request::read("r.toml", &with(set));
        let e = request.and_then(|r| place(&LIBRARY, &PROFILES, &r)).unwrap_err().to_string();
        assert!(e.contains(expected), "{e}");
    }
    let chain = f.replace("function = \"bng\"", "chain = [\"l2-basic\", \"bng\"]");
    let e = Request::read("r.toml", &format!("{}{chain}set = {{ subscribers = 64 }}\n", hosts(1)));
    assert!(e.unwrap_err().to_string().contains("'set' is one function's"));
}

/// What `weir calibrate` writes says nothing of cards: their links limit nothing, as in an estimate.
#[test]
fn hosts_without_cards_have_no_limit_by_links() {
    let two = "[[host]]\nname = \"a\"\nprofile = \"virtual-epyc\"\n\
               [[host]]\nname = \"b\"\nprofile = \"virtual-xeon\"\n";
    let both = format!("{two}{}", function("f", "l2-basic", 2.0) + &function("g", "bng-core", 1.0));
    for objective in ["fewest-hosts", "most-headroom", "least-energy"] {
        let plan = placed(&format!("objective = \"{objective}\"\n{both}"));
        check(&plan, 2);
        assert!(plan.optimal && plan.objective.is_finite() && plan.bound.is_finite(), "{plan:?}");
        let note = "links are no limit without [[nic]]: virtual-epyc, virtual-xeon";
        assert_eq!(plan.notes, [note]);
    }
    // Beside hosts with cards: what those have too little of goes to one without, at any rate.
    let big = function("big", "l2-basic", 25.0).replace("100k", "100");
    let mixed =
        placed(&format!("{}[[host]]\nname = \"w\"\nprofile = \"virtual-epyc\"\n{big}", hosts(1)));
    check(&mixed, 1);
    let (cards, none) = (&mixed.hosts[0].whole, &mixed.hosts[1].whole);
    assert!(cards[1].is_finite() && none[1].is_infinite(), "{mixed:?}");
    let known = placed(&format!("{}{}", hosts(1), function("f", "l2-basic", 4.0)));
    assert_eq!(known.notes, [""; 0]);
}

#[test]
fn chains_take_the_switch_along() {
    let chain =
        "[[function]]\nname = \"c\"\nchain = [\"l2-basic\", \"mpls-switch\"]\nrate = \"2 Mpps\"\n";
    let joined = placed(&format!("{}{chain}", hosts(1))).places[0].need.takes[0];
    let apart = placed(&format!(
        "{}{}{}",
        hosts(1),
        function("a", "l2-basic", 2.0),
        function("b", "mpls-switch", 2.0)
    ));
    assert!(joined > 0.0 && apart.hosts[0].used[0] > 0.0);
    assert!(joined * 1.0 + 1e-9 >= 1.0);
}

/// As `estimate chain --shared` says: who shares cores waits for its turn, which no latency counts.
#[test]
fn a_chain_on_a_shared_core_says_how_long_its_turn_takes() {
    let chain = "[[function]]\nname = \"c\"\nchain = [\"l2-basic\", \"mpls-switch\"]\nrate = \"0.1 Mpps\"\n\
                 burst = 1\nlatency = \"1 ms\"\n";
    let plan = placed(&format!("{}{chain}", hosts(1)));
    assert_eq!(plan.places[0].need.takes[0], 1.0);
    let slice = PROFILES["xeon-e5-2690v2"].contention.as_ref().expect("a scheduler").timeslice_s;
    // Two functions and the switch: two of them come before.
    assert_eq!(plan.places[0].need.turn_s, 2.0 * slice);
    let told = format!("a frame waits up to {:.1} ms for its turn", 2e3 * slice);
    assert!(
        plan.notes.iter().any(|n| n.starts_with("'c': ") && n.contains(&told)),
        "{:?}",
        plan.notes
    );
    let alone = placed(&format!("{}{}", hosts(1), function("f", "l2-basic", 1.0)));
    assert!(alone.notes.is_empty(), "{:?}", alone.notes);
}

#[test]
fn openstack_is_told_what_the_switch_takes() {
    let text = format!("{}switch_cores = 2\n{}", hosts(2), function("f", "l2-basic", 1.0));
    let request = Request::read("r.toml", &text).expect("a request");
    let line = openstack::line(&LIBRARY, &PROFILES, &request).expect("a line").expect("hosts");
    let pairs = line
        .strip_prefix("resource_provider_packet_processing_without_direction = ")
        .expect("the option");
    let all: Vec<(&str, u64)> = pairs
        .split(',')
        .map(|p| p.split_once(':').map(|(h, r)| (h, r.parse().expect("a number"))).expect("a pair"))
        .collect();
    assert_eq!(all.len(), 2);
    assert_eq!(all[0].0, "h-1");
    assert!((1_000..40_000).contains(&all[0].1), "{all:?}");
}

/// 200 functions on 50 hosts: no deadline here, a bench has the time.
#[test]
fn many_functions_on_many_hosts() {
    let names = ["l2-basic", "mpls-switch", "l2-learning", "bng-core"];
    let functions: String = (0..200)
        .map(|i| function(&format!("f{i}"), names[i % 4], 0.5 + 0.03 * (i % 37) as f64))
        .collect();
    for objective in ["fewest-hosts", "most-headroom", "least-energy"] {
        let text = format!("objective = \"{objective}\"\n{}{functions}", hosts(50));
        let plan = placed(&text);
        check(&plan, 200);
        assert!(plan.objective <= plan.bound * 1.25 + 1.0, "{} {}", plan.objective, plan.bound);
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 24, ..ProptestConfig::default() })]

    /// Small requests: never worse than trying every assignment.
    #[test]
    fn as_good_as_every_assignment(rates in proptest::collection::vec(1u32..14, 1..6), n in 1usize..4) {
        let functions: String = rates
            .iter()
            .enumerate()
            .map(|(i, r)| function(&format!("f{i}"), "l2-basic", f64::from(*r)))
            .collect();
        // Links are the scarcest: 20 Gbit/s a host, 0.672 for each Mpps.
        let load: Vec<f64> = rates.iter().map(|r| f64::from(*r) * 0.672).collect();
        let mut best = None;
        for code in 0..n.pow(rates.len() as u32) {
            let mut used = vec![0.0; n];
            let mut rest = code;
            for l in &load {
                used[rest % n] += l;
                rest /= n;
            }
            if used.iter().all(|u| *u <= 20.0) {
                let count = used.iter().filter(|u| **u > 0.0).count();
                best = Some(best.map_or(count, |b: usize| b.min(count)));
            }
        }
        match (ask(&format!("{}{functions}", hosts(n))), best) {
            (Answer::Placed(p), Some(b)) => {
                check(&p, rates.len());
                prop_assert_eq!(p.objective as usize, b);
            }
            (Answer::Infeasible(_), None) => {}
            (a, b) => prop_assert!(false, "{:?} {:?}", a, b),
        }
    }
}
