//! LAB files: any text; whatever can be is laid, admitted to hosts that have all it names, planned, carried
//! out, and then needs nothing more.

#![no_main]

use std::collections::BTreeSet;
use weir_supervisor::admission::admit;
use weir_supervisor::model::{FlowSyntax, Lab, Made, check};
use weir_supervisor::observed::{Budget, Observed, ObservedHost, ObservedVdp};
use weir_supervisor::plan::{Step, plan};
use weir_supervisor::section::Label;
use weir_supervisor::store::Places;
use weir_supervisor::wires::{Before, Links, lay, steps};

/// Texts overlap where they are the same.
struct Same;

impl FlowSyntax for Same {
    type Space = String;
    fn read(&self, text: &str) -> Result<String, String> {
        Ok(text.to_owned())
    }
    fn overlap(&self, a: &String, b: &String) -> bool {
        a == b
    }
}

/// Does what a step says, as a data plane does.
fn perform(observed: &mut Observed, s: Step) {
    let host = observed.get_mut(s.host()).expect("it was asked");
    match s {
        Step::Put { wanted: w, .. } => host.vdps.push(ObservedVdp {
            vid: w.vid,
            name: w.name.clone(),
            label: Some(w.label.to_string()),
            path: Some(w.path),
            ..ObservedVdp::default()
        }),
        Step::PortPut { wanted: p, .. } => {
            host.ports.insert(p.name.clone());
            host.made.insert(p.name, p.label.to_string());
        }
        _ => panic!("nothing is there to go"),
    }
}

libfuzzer_sys::fuzz_target!(|text: &str| {
    if let Some(l) = Label::parse(text) {
        assert_eq!(Label::parse(&l.to_string()), Some(l));
    }
    let Ok(lab) = toml::from_str::<Lab>(text) else { return };
    if let Err(r) = check(&lab, &Same) {
        // One line, however the text is made.
        assert!(!r.text.contains('\n') && !r.at.to_string().contains('\n'));
        return;
    }
    let mut observed = Observed::new();
    for h in &lab.host {
        let all = lab.network.iter().flat_map(|n| n.node.iter().map(move |v| (n, v)));
        let ports: BTreeSet<String> = all
            .filter(|(_, v)| v.host == h.name)
            .flat_map(|(n, v)| lab.attached(n, v))
            .filter(|a| a.made == Made::ByHost)
            .map(|a| a.port.into_owned())
            .collect();
        let budget = Budget { slice_entries: 4, free_entries: 1 << 20 };
        let host =
            ObservedHost { ports, mapping: budget, action: budget, ..ObservedHost::default() };
        observed.insert(h.name.clone(), host);
    }
    let (places, links) = (Places::new(), Links::new());
    let before = Before { places: &places, links: &links };
    let Ok(laid) = lay(&lab, &observed, before, 1) else { return };
    let Ok((mut wanted, mut places)) = admit(&lab, &observed, &Places::new(), 1) else { return };
    wanted.extend(laid.relays);
    places.extend(laid.places);
    assert_eq!(wanted.len(), places.len());
    let names: BTreeSet<(&str, &str)> =
        laid.ports.iter().map(|p| (p.host.as_str(), p.name.as_str())).collect();
    assert_eq!(names.len(), laid.ports.len(), "two ports of one name");
    let (first, last) = steps(&laid.ports, &observed, 1);
    assert!(last.is_empty());
    let vdps = plan(&wanted, &observed, 1, &Places::new());
    for s in first.into_iter().chain(vdps) {
        perform(&mut observed, s);
    }
    let before = Before { places: &places, links: &laid.links };
    let again = lay(&lab, &observed, before, 1).expect("it was laid");
    assert_eq!((&again.links, &again.ports), (&laid.links, &laid.ports));
    assert_eq!(steps(&again.ports, &observed, 1), (vec![], vec![]));
    assert!(plan(&wanted, &observed, 1, &places).is_empty());
});
