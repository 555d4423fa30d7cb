//! What is known of a frame while its actions change it.
//!
//! Room: between the match and the actions of one flow, so that an action is refused where frames
//! need not have what it changes (OpenFlow 1.3, §7.2.3.6, and Open vSwitch's own check).

use super::error::FlowErrorKind;
use super::matches::{LATER, needs_transport};
use crate::action::TunnelAddrs;
use weir_classify::{FRAG_LATER, Field, FlowKey, FlowMask, Match, Prereq, VLAN_PRESENT};

type Read<T> = Result<T, FlowErrorKind>;

/// What is known of a frame at some point of the action list, as a match that it would fit.
pub(super) struct Shape {
    value: FlowKey,
    mask: FlowMask,
    asks: Asks,
}

/// What is asked of frames that an action changes.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Asks {
    /// That they have what it changes.
    Prerequisites,
    /// Nothing: no match stands in front that could say it.
    Nothing,
}

impl Shape {
    pub fn of(matcher: &Match) -> Self {
        Shape { value: *matcher.value(), mask: *matcher.mask(), asks: Asks::Prerequisites }
    }
    /// Of a group's bucket, to which frames come by any rule.
    pub fn of_bucket() -> Self {
        let (value, mask) = (FlowKey::default(), FlowMask::default());
        Shape { value, mask, asks: Asks::Nothing }
    }
    /// Nothing is known any more.
    pub fn forget_all(&mut self) {
        (self.value, self.mask) = (FlowKey::default(), FlowMask::default());
    }
    pub fn known(&self, f: Field) -> Option<u128> {
        (self.mask.get(f) == f.full()).then(|| self.value.get(f))
    }
    pub fn has(&self, needs: Prereq) -> bool {
        needs.holds(&self.value, &self.mask)
    }
    pub fn need(&self, needs: Prereq) -> Read<()> {
        let later = self.value.get(Field::IpFrag) & u128::from(FRAG_LATER) != 0;
        if needs_transport(needs) && later {
            return Err(FlowErrorKind::Impossible { why: LATER });
        }
        if self.has(needs) || self.asks == Asks::Nothing {
            Ok(())
        } else {
            Err(FlowErrorKind::ActionPrereq { needs })
        }
    }
    /// [`Shape::need`] of a field that belongs to one protocol over IP.
    pub fn need_of(&self, needs: Prereq, proto: u8) -> Read<()> {
        if self.known(Field::IpProto) == Some(proto.into()) || self.asks == Asks::Nothing {
            return self.need(needs);
        }
        Err(FlowErrorKind::ActionPrereq { needs })
    }
    pub fn learn(&mut self, f: Field, v: u128, mask: u128) {
        self.value.set(f, v & mask);
        self.mask.set(f, mask);
    }
    pub fn forget(&mut self, f: Field) {
        self.learn(f, 0, 0);
    }
    /// The frame now carries `ethertype`, and what follows it is not known.
    pub fn becomes(&mut self, ethertype: u16) {
        self.learn(Field::EthType, ethertype.into(), Field::EthType.full());
        self.forget(Field::IpProto);
        self.forget(Field::IcmpType);
        self.forget(Field::IpFrag);
    }
    pub fn push_vlan(&mut self) {
        let p = u128::from(VLAN_PRESENT);
        let tagged = self.has(Prereq::Vlan);
        self.learn(Field::InnerTci, p, if tagged { p } else { 0 });
        self.learn(Field::VlanTci, p, p);
    }
    pub fn pop_vlan(&mut self) {
        let (v, m) = (self.value.get(Field::InnerTci), self.mask.get(Field::InnerTci));
        self.learn(Field::VlanTci, v, m);
        self.forget(Field::InnerTci);
    }
    /// The frame is now inside another, over IP and `proto`.
    pub fn wrapped(&mut self, ip: TunnelAddrs, proto: u8) {
        self.forget_all();
        self.becomes(match ip {
            TunnelAddrs::V4(..) => 0x0800,
            TunnelAddrs::V6(..) => 0x86dd,
        });
        self.learn(Field::IpProto, proto.into(), Field::IpProto.full());
        self.learn(Field::VlanTci, 0, Field::VlanTci.full());
    }
}
