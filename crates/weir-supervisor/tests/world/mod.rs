//! Physical nodes that are a map each, and a flow syntax of VLAN numbers: for tests.
#![allow(dead_code)]

use std::collections::{BTreeMap, BTreeSet};
use weir_supervisor::model::{FlowSyntax, Lab, Path};
use weir_supervisor::observed::{Budget, Observed, ObservedHost, ObservedVdp};
use weir_supervisor::plan::Step;

/// `dl_vlan=N`, or nothing for every frame.
pub struct Vlans;

impl FlowSyntax for Vlans {
    type Space = Option<u16>;
    fn read(&self, text: &str) -> Result<Option<u16>, String> {
        match text.strip_prefix("dl_vlan=") {
            None if text.is_empty() => Ok(None),
            n => n.and_then(|n| n.parse().ok()).map(Some).ok_or_else(|| "dl_vlan=N".to_owned()),
        }
    }
    fn overlap(&self, a: &Option<u16>, b: &Option<u16>) -> bool {
        a.is_none() || b.is_none() || a == b
    }
}

/// Two hosts, a link, and two networks.
pub fn lab() -> Lab {
    toml::from_str(
        r#"
        [[host]]
        name = "east"
        api = "unix:e"
        port = [{ name = "trunk", capacity_bps = 1000 }]
        [[host]]
        name = "west"
        api = "unix:w"
        [[link]]
        between = ["east:trunk", "west:trunk"]
        [[network]]
        name = "red"
        owner = "alice"
        flow_space = ["dl_vlan=10"]
        isolation = "strong"
        [[network.node]]
        name = "s1"
        host = "east"
        ports = ["e1"]
        tcam_entries = 20
        cpu_permille = 300
        share = [{ port = "trunk", guarantee_bps = 600 }]
        [[network.node]]
        name = "s2"
        host = "west"
        ports = ["w1"]
        tcam_entries = 20
        [[network.link]]
        between = ["s1", "s2"]
        [[network]]
        name = "blue"
        flow_space = ["dl_vlan=20", "dl_vlan=21"]
        controllers = ["tcp:127.0.0.1:6653"]
        [[network.node]]
        name = "s1"
        host = "east"
        ports = ["e1", "trunk"]
        cpu_permille = 300
        "#,
    )
    .unwrap()
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Vdp {
    pub name: String,
    pub label: Option<String>,
    pub path: Path,
    pub toml: String,
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct HostWorld {
    pub ports: Vec<String>,
    /// Ports that were made: device and mark.
    pub made: BTreeMap<String, (String, String)>,
    pub vdps: BTreeMap<u16, Vdp>,
    pub mapping_slices: u32,
    pub action_slices: u32,
}

impl HostWorld {
    pub fn put(&mut self, vid: u16, name: &str, label: Option<&str>) {
        let v = Vdp {
            name: name.to_owned(),
            label: label.map(str::to_owned),
            path: Path::Fast,
            toml: String::new(),
        };
        self.vdps.insert(vid, v);
    }
}

/// What there is, everywhere.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct World {
    pub hosts: BTreeMap<String, HostWorld>,
}

impl World {
    /// The hosts of a lab, empty, with room.
    pub fn of(lab: &Lab) -> Self {
        let host = || HostWorld {
            ports: ["e1", "e2", "w1", "trunk"].map(str::to_owned).to_vec(),
            made: BTreeMap::new(),
            vdps: BTreeMap::new(),
            mapping_slices: 64,
            action_slices: 64,
        };
        Self { hosts: lab.host.iter().map(|h| (h.name.clone(), host())).collect() }
    }

    pub fn host(&mut self, name: &str) -> &mut HostWorld {
        self.hosts.get_mut(name).unwrap()
    }

    pub fn observed(&self) -> Observed {
        let host = |h: &HostWorld| ObservedHost {
            ports: h.ports.iter().chain(h.made.keys()).cloned().collect(),
            made: h.made.iter().map(|(n, (_, label))| (n.clone(), label.clone())).collect(),
            devices: h.made.iter().map(|(n, (device, _))| (n.clone(), device.clone())).collect(),
            gone: BTreeMap::new(),
            vnis: BTreeSet::new(),
            vdps: h
                .vdps
                .iter()
                .map(|(vid, v)| ObservedVdp {
                    vid: *vid,
                    name: v.name.clone(),
                    label: v.label.clone(),
                    path: Some(v.path),
                    ..ObservedVdp::default()
                })
                .collect(),
            mapping: Budget { slice_entries: 16, free_entries: h.mapping_slices * 16 },
            action: Budget { slice_entries: 16, free_entries: h.action_slices * 16 },
            processors: Some("0-1".to_owned()),
        };
        self.hosts.iter().map(|(n, h)| (n.clone(), host(h))).collect()
    }

    /// Does one step, as a data plane does.
    pub fn perform(&mut self, s: &Step) {
        match s {
            Step::Delete { host, vid, .. } => drop(self.host(host).vdps.remove(vid)),
            Step::Put { wanted: w, .. } => {
                let label = Some(w.label.to_string());
                let (name, toml) = (w.name.clone(), w.toml.clone());
                let v = Vdp { name, label, path: w.path, toml };
                self.host(&w.host).vdps.insert(w.vid, v);
            }
            Step::PortPut { wanted: p, .. } => {
                let made = (p.device.clone(), p.label.to_string());
                self.host(&p.host).made.insert(p.name.clone(), made);
            }
            Step::PortDelete { host, name } => {
                assert!(self.host(host).made.remove(name).is_some(), "{name}");
            }
            Step::Migrate { host, vid, to, .. } => {
                self.host(host).vdps.get_mut(vid).unwrap().path = *to;
            }
        }
    }
}
