//! A sliced switch between a switch and controllers that the test plays: messages in, messages out.
//!
//! Every message passes through its version's bytes, so that what could not be sent fails here, too.

use std::time::Duration;
use weir_openflow::codec;
use weir_openflow::model::*;
use weir_supervisor::slicer::space::{Right, SliceId};
use weir_supervisor::slicer::{
    ConnId, Limits, Loss, Out, PortRef, SlicePlan, SpaceRule, Switch, TagsRead,
};

pub struct Bench {
    pub switch: Switch,
    pub version: Version,
    pub now: Duration,
    pub out: Out,
    xid: u32,
}

/// Slice n writes VLAN 10 + n on ports 1 to 3; a conn of number n + 1 is its controller.
pub fn by_vlan(n: u16) -> Vec<SpaceRule> {
    (0..n).map(|i| grant(i, vlan(10 + i), &[1, 2, 3])).collect()
}

pub fn grant(slice: u16, m: Match, ports: &[u32]) -> SpaceRule {
    SpaceRule {
        priority: 100,
        ports: ports.iter().map(|p| PortRef::Number(Port(*p))).collect(),
        matchers: vec![m],
        grants: vec![(SliceId(slice), Right::Write)],
        by: None,
        datapath: None,
    }
}

pub fn vlan(vid: u16) -> Match {
    Match::default().with(Field::VlanVid, u128::from(0x1000 | vid))
}

pub fn slice(name: &str) -> SlicePlan {
    SlicePlan {
        name: name.to_owned(),
        queues: [1].into(),
        limits: Limits::default(),
        loss: Loss::Keep,
        tags: TagsRead::Any,
    }
}

pub fn port(no: u32) -> PortDesc {
    PortDesc::new(Port(no), [2, 0, 0, 0, 0, no as u8], format!("eth{no}"))
}

impl Bench {
    pub fn new(version: Version, slices: Vec<SlicePlan>, rules: Vec<SpaceRule>) -> Self {
        let n = slices.len() as u64;
        let switch = Switch::new(version, slices, rules);
        let now = Duration::from_secs(1);
        let mut b = Self { switch, version, now, out: Out::default(), xid: 1000 };
        b.switch.begin(&mut b.out);
        for m in b.sent() {
            match m.body {
                Message::FeaturesRequest => {
                    let ports = match version {
                        Version::V10 => (1..=4).map(port).collect(),
                        Version::V13 => Vec::new(),
                    };
                    let f = Features {
                        datapath_id: 0x99,
                        buffers: 0,
                        tables: if version == Version::V10 { 1 } else { 254 },
                        auxiliary_id: 0,
                        capabilities: Capabilities::FLOW_STATS,
                        actions: if version == Version::V10 { 0xfff } else { 0 },
                        ports,
                    };
                    b.says(m.xid, Message::FeaturesReply(f));
                }
                Message::StatsRequest { body: StatsRequest::PortDesc, .. } => {
                    let body = StatsReply::PortDesc((1..=4).map(port).collect());
                    b.says(m.xid, Message::StatsReply { more: Part::Last, body });
                }
                Message::BarrierRequest => b.says(m.xid, Message::BarrierReply),
                _ => {}
            }
        }
        assert!(b.switch.is_ready());
        assert_eq!(b.out.told, Vec::<String>::new());
        for i in 0..n {
            b.switch.connected(ConnId(i + 1), SliceId(i as u16), &mut b.out);
        }
        b
    }

    /// Two slices by VLAN.
    pub fn two(version: Version) -> Self {
        Self::new(version, vec![slice("red"), slice("blue")], by_vlan(2))
    }

    fn through(&self, m: &Msg) -> Msg {
        let mut bytes = Vec::new();
        codec::encode(self.version, m, &mut bytes).unwrap_or_else(|e| panic!("{m:?}: {e}"));
        codec::decode(self.version, &bytes).unwrap_or_else(|e| panic!("{m:?}: {e}"))
    }

    /// What has been sent to the switch.
    pub fn sent(&mut self) -> Vec<Msg> {
        let sent = std::mem::take(&mut self.out.to_switch);
        sent.iter().map(|m| self.through(m)).collect()
    }

    /// The changes of flows among it.
    pub fn flow_mods(&mut self) -> Vec<(u32, FlowMod)> {
        let only = |m: Msg| match m.body {
            Message::FlowMod(f) => Some((m.xid, f)),
            _ => None,
        };
        self.sent().into_iter().filter_map(only).collect()
    }

    /// What has been sent to a controller.
    pub fn to(&mut self, conn: u64) -> Vec<Msg> {
        let all = std::mem::take(&mut self.out.to_controllers);
        let (mine, rest) = all.into_iter().partition(|(c, _)| *c == ConnId(conn));
        self.out.to_controllers = rest;
        let mine: Vec<(ConnId, Msg)> = mine;
        mine.iter().map(|(_, m)| self.through(m)).collect()
    }

    /// The switch says something.
    pub fn says(&mut self, xid: u32, body: Message) {
        let m = self.through(&Msg { xid, body });
        self.switch.from_switch(m, self.now, &mut self.out);
    }

    /// A controller asks something, with an xid that others use, too.
    pub fn ask(&mut self, conn: u64, body: Message) -> u32 {
        self.xid += 1;
        let m = Msg { xid: self.xid, body };
        let mut bytes = Vec::new();
        codec::encode(self.version, &m, &mut bytes).unwrap_or_else(|e| panic!("{m:?}: {e}"));
        let m = codec::decode(self.version, &bytes).unwrap_or_else(|e| panic!("{m:?}: {e:?}"));
        self.switch.from_controller(ConnId(conn), m, &bytes, self.now, &mut self.out);
        self.xid
    }

    /// What a request was refused with; nothing may have gone to the switch.
    pub fn refused(&mut self, conn: u64, body: Message) -> ErrorCode {
        let xid = self.ask(conn, body);
        let sent = self.sent();
        assert!(sent.is_empty(), "{sent:?}");
        self.error(conn, xid)
    }

    /// The one error that a controller has been told.
    pub fn error(&mut self, conn: u64, xid: u32) -> ErrorCode {
        let all = self.to(conn);
        match all.as_slice() {
            [Msg { xid: x, body: Message::Error(e) }] if *x == xid => e.code,
            other => panic!("not one error about {xid}: {other:?}"),
        }
    }

    /// A barrier of the slicer's own or of a controller's is answered.
    pub fn answer_barriers(&mut self) {
        self.switch.settle(self.now, &mut self.out);
        for m in self.sent() {
            if m.body == Message::BarrierRequest {
                self.says(m.xid, Message::BarrierReply);
            }
        }
    }
}

pub fn out(port: Port) -> Action {
    Action::Output { port, max_len: if port == Port::CONTROLLER { 128 } else { 0 } }
}

pub fn flow(matcher: Match, actions: Vec<Action>) -> FlowMod {
    let instructions =
        if actions.is_empty() { Vec::new() } else { vec![Instruction::Apply(actions)] };
    FlowMod { matcher, instructions, priority: 10, ..FlowMod::new(FlowCommand::Add) }
}

pub fn add(matcher: Match, actions: Vec<Action>) -> Message {
    Message::FlowMod(flow(matcher, actions))
}

/// An Ethernet frame of a VLAN.
pub fn frame(vid: u16) -> Vec<u8> {
    let mut f = vec![2, 0, 0, 0, 0, 1, 2, 0, 0, 0, 0, 2, 0x81, 0];
    f.extend(vid.to_be_bytes());
    f.extend([0x88, 0xb5]);
    f.resize(64, 0);
    f
}
