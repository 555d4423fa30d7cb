//! What was proved last is kept, so that after a change only what it touches is read and decided again.
//!
//! Room: the state that stands between two requests, in a running data plane's [`Live`]. Dropped when ports,
//! mapping rules or plans of VDPs have changed, or when networks are put together otherwise; then all is read.

use super::gather::{self, Grouping, Sight, Whole};
use super::micros;
use crate::socket::live::{Live, NotDone};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Instant;
use weir_supervisor::verify::{Plane, Verifier, WORK};

/// How often it is begun again when ports or mapping rules change meanwhile.
const TRIES: usize = 5;

/// The proof that was made last.
#[derive(Debug, Default)]
pub struct Kept(Mutex<Option<Proved>>);

/// A plane that is verified, and as of when.
#[derive(Debug)]
pub struct Proved {
    groups: Vec<Grouping>,
    sight: Sight,
    /// What its parts are called; the plane itself is the verifier's.
    pub whole: Whole,
    /// The verifier.
    pub verifier: Verifier,
    /// How long it took to read what had changed, in microseconds.
    pub read_us: u64,
    /// And to decide.
    pub decide_us: u64,
}

/// Takes the plane out of what was read, and verifies it.
pub fn decide(whole: &mut Whole) -> Verifier {
    let none = Plane {
        layout: super::header::layout(),
        networks: Vec::new(),
        ports: Vec::new(),
        controllers: Vec::new(),
        vdps: Vec::new(),
        mapping: Vec::new(),
        rest: None,
        shares: None,
    };
    Verifier::new(std::mem::replace(&mut whole.plane, none), WORK)
}

impl Kept {
    fn lock(&self) -> MutexGuard<'_, Option<Proved>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Does something with a proof of what runs now.
    ///
    /// # Errors
    /// The worker has ended, or its mapping changes all the time.
    pub fn with<T>(
        &self,
        live: &Live,
        groups: &[Grouping],
        f: impl FnOnce(&Proved) -> Result<T, NotDone>,
    ) -> Result<T, NotDone> {
        let mut held = self.lock();
        for _ in 0..TRIES {
            let sight = Sight::of(live)?;
            let old = held.take().filter(|p| p.groups == groups && p.sight.is_like(&sight));
            let now = match old {
                Some(p) => follow(live, p, &sight)?,
                None => Some(anew(live, groups)?),
            };
            let Some(now) = now else { continue };
            if Sight::of(live)?.is_like(&sight) {
                return f(held.insert(Proved { sight, ..now }));
            }
        }
        Err(gather::restless())
    }
}

fn anew(live: &Live, groups: &[Grouping]) -> Result<Proved, NotDone> {
    let began = Instant::now();
    let mut whole = gather::gather(live, groups)?;
    let read_us = micros(began);
    let began = Instant::now();
    let verifier = decide(&mut whole);
    let (sight, groups) = (Sight::of(live)?, groups.to_vec());
    Ok(Proved { groups, sight, whole, verifier, read_us, decide_us: micros(began) })
}

/// Brings a proof up to what is there; `None` where it must be made anew.
fn follow(live: &Live, mut p: Proved, sight: &Sight) -> Result<Option<Proved>, NotDone> {
    let began = Instant::now();
    let now = sight.changes.vdps.iter().zip(&p.whole.touched).enumerate();
    let changed: Vec<usize> =
        now.filter(|(_, ((_, now), then))| now != *then).map(|(i, _)| i).collect();
    // Whether the default VDP is anybody's concerns what is said of others.
    if changed.iter().any(|at| p.verifier.plane().rest == Some(*at)) {
        return Ok(None);
    }
    let Some(again) = gather::again(live, &p.whole, p.verifier.plane(), &changed)? else {
        return Ok(None);
    };
    p.read_us = micros(began);
    let began = Instant::now();
    for (at, a) in changed.into_iter().zip(again) {
        if !p.verifier.put_vdp(at, a.vdp) {
            return Ok(None);
        }
        let (known, touched) = (p.whole.gathered.vdps.get_mut(at), p.whole.touched.get_mut(at));
        let (Some(known), Some(touched)) = (known, touched) else { return Ok(None) };
        (*known, *touched) = (a.known, a.touched);
    }
    p.decide_us = micros(began);
    Ok(Some(p))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::{apply::scratch, read};
    use crate::router::node::Routers;
    use proptest::prelude::*;
    use weir_dataplane::flowtext::{NoNames, parse_flow};
    use weir_dataplane::{DataPlane, Placement, RuleSpec, Runner, Serving, Vid, WhenIdle};

    const CONFIG: &str = "[dataplane]\nframes = 512\n\
        [[port]]\nname = 'a'\ndevice = 'null'\n[[port]]\nname = 'b'\ndevice = 'null'\n\
        [[port]]\nname = 't'\ndevice = 'null'\n\
        [[vdp]]\nvid = 1\nports = ['a', 't']\nmapping = ['in_port=a', 'in_port=t,dl_vlan=1']\n\
        [[vdp]]\nvid = 2\nports = ['b', 't']\nmapping = ['in_port=b', 'in_port=t,dl_vlan=2']\n";

    const RULES: [&str; 6] = [
        "priority=5,in_port=1,actions=push_vlan:0x8100,mod_vlan_vid:1,output:2",
        "priority=5,in_port=1,actions=push_vlan:0x8100,mod_vlan_vid:2,output:2",
        "priority=7,in_port=1,actions=drop",
        "priority=6,in_port=1,dl_vlan=2,actions=output:2",
        "priority=6,in_port=2,dl_vlan=1,actions=strip_vlan,output:1",
        "priority=0,actions=output:2",
    ];

    #[derive(Clone, Copy, Debug)]
    enum Change {
        Put(u16, usize),
        Remove(u16, usize),
        Name(u16, bool),
        Ports(u16, bool),
        Map(u16, bool),
    }

    fn make(p: &mut DataPlane, c: Change) {
        let flow = |i: usize| {
            let f = parse_flow(RULES[i], &NoNames).unwrap();
            let (priority, actions) = (f.priority.into(), f.actions.into());
            RuleSpec { matcher: f.matcher, priority, cookie: 0, actions }
        };
        // What is not there can't be taken away, nor sent to.
        match c {
            Change::Put(v, i) => {
                let _ = p.add_rule(Vid(v), 0, &flow(i), Placement::Fast);
            }
            Change::Remove(v, i) => {
                let r = flow(i);
                let _ = p.remove_rule(Vid(v), 0, &r.matcher, r.priority);
            }
            Change::Name(v, other) => {
                p.set_name(Vid(v), if other { "other" } else { "one" }).unwrap();
            }
            Change::Ports(v, both) => {
                let all = p.vdp_view(Vid(v)).unwrap().ports;
                let t = p.port_named("t").unwrap();
                let own = all.iter().copied().filter(|(_, id)| *id != t);
                let shared = both.then_some((weir_dataplane::PortNo(2), t));
                p.set_ports(Vid(v), own.chain(shared).collect()).unwrap();
            }
            Change::Map(v, put) => {
                let r = weir_dataplane::MappingRule {
                    matcher: parse_flow("in_port=3,dl_vlan=3,actions=drop", &NoNames)
                        .unwrap()
                        .matcher,
                    priority: 9,
                };
                let _ = if put { p.add_mapping(Vid(v), &r) } else { p.remove_mapping(Vid(v), &r) };
            }
        }
    }

    fn change() -> impl Strategy<Value = Change> {
        let (v, i) = (1u16..3, 0..RULES.len());
        prop_oneof![
            4 => (v.clone(), i.clone()).prop_map(|(v, i)| Change::Put(v, i)),
            3 => (v.clone(), i).prop_map(|(v, i)| Change::Remove(v, i)),
            1 => (v.clone(), any::<bool>()).prop_map(|(v, b)| Change::Name(v, b)),
            1 => (v.clone(), any::<bool>()).prop_map(|(v, b)| Change::Ports(v, b)),
            1 => (v, any::<bool>()).prop_map(|(v, b)| Change::Map(v, b)),
        ]
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(24))]
        /// After any changes, what is kept says what one that is made anew says.
        #[test]
        fn what_is_kept_is_what_is_so(changes in prop::collection::vec(prop::collection::vec(change(), 0..3), 1..12)) {
            let (plane, model) = scratch(&read::from_text(CONFIG, "t").unwrap()).unwrap();
            let runner = Runner::start(plane, Serving::Worker, WhenIdle::Rest).unwrap();
            let live = Live::new(runner.handle(), model, Routers::none()).unwrap();
            for some in changes {
                live.with(move |p, _| some.into_iter().for_each(|c| make(p, c))).unwrap();
                let text = |p: &Proved| {
                    let (report, g) = (p.verifier.report(9), &p.whole.gathered);
                    let shown = super::super::told::leaks(g, p.verifier.plane(), &report);
                    let leaks: Vec<_> = shown.iter().map(|s| format!("{:?}", s.item)).collect();
                    (report.rules, leaks, g.notes.clone())
                };
                let kept = live.proof().with(&live, &[], |p| Ok(text(p))).unwrap();
                let anew = text(&anew(&live, &[]).unwrap());
                prop_assert_eq!(&kept, &anew);
            }
            drop(live);
            runner.stop().unwrap();
        }
    }
}
