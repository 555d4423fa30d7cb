//! VLAN tags as actions push, pop and write them: what is known of the outermost, and of those beneath it.
//!
//! Room: pure. Called by `judge` for every action that adds or takes a tag, or says what type is behind them.
//!
//! A match knows the outermost tag alone, and its EtherType does not say that there is no other: it is the one behind
//! *all* tags (1.3.5 §7.2.3.7), but for a switch of which its operator says that it looks behind one alone. What a pop uncovers is known where the frame's bytes are, as in a packet-out, or where the
//! same actions have covered it.

use super::cube;
use super::header::{self, is_tag};
use super::plan::TagsRead;
use std::mem::take;
use weir_openflow::model::{Field, FieldMatch, Match, Port, VLAN_PRESENT};

const PRESENT: u128 = VLAN_PRESENT as u128;

fn tag(value: u128) -> FieldMatch {
    FieldMatch { field: Field::VlanVid, value, mask: Field::VlanVid.full() }
}

/// The tags beneath the outermost.
#[derive(Clone, Debug, Default)]
pub struct Beneath {
    /// The innermost first; what is beneath them is not known.
    known: Vec<Option<FieldMatch>>,
    seen: Seen,
}

/// Whether the switch goes by the tags as they are. What actions have uncovered or covered it may not know before it reads the
/// frame anew, and call the outermost tag the frame's type, or none.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Seen {
    /// It does.
    #[default]
    Surely,
    /// Perhaps not.
    Perhaps,
}

/// The header of a frame that a slice has made, and the tags beneath its outermost: as far as all switches read them alike.
pub fn read(b: &[u8], in_port: Port) -> (Match, Beneath) {
    sure(header::of_frame(b, in_port), b)
}

/// What of a frame's header all switches read alike, and the tags beneath its outermost.
pub fn sure(mut h: Match, b: &[u8]) -> (Match, Beneath) {
    let Some((tags, kind, _)) = header::tags(b) else { return (h, Beneath::default()) };
    // 0x9100 is a tag to some switches and a payload to others, and so is a tag that is cut off.
    let sure = tags.iter().take_while(|(kind, _)| matches!(kind, 0x8100 | 0x88a8)).count();
    let end = (sure == tags.len() && !is_tag(kind)).then_some(tag(0));
    let vids = tags.iter().take(sure).skip(1).map(|(_, tci)| tag(tci & 0xfff | PRESENT));
    let known = vids.chain(end).map(Some).rev().collect();
    if sure == 0 && end.is_none() {
        h = cube::without(h, Field::VlanVid);
    }
    // Of several tags some switches call the second the frame's type.
    if tags.len() > 1 || end.is_none() {
        h = cube::without(h, Field::EthType);
    }
    (h, Beneath { known, seen: Seen::Surely })
}

impl Beneath {
    /// Those of what meets a match.
    pub fn of_match(m: &Match, read: TagsRead) -> Self {
        let kind = m.get(Field::EthType).filter(|t| t.mask == Field::EthType.full());
        let proof = read == TagsRead::One && kind.is_some_and(|t| !is_tag(t.value));
        Self { known: proof.then_some(Some(tag(0))).into_iter().collect(), seen: Seen::Surely }
    }

    /// Whether the switch goes by what is known of the tags.
    pub fn seen(&self) -> Seen {
        self.seen
    }

    /// push_vlan. 1.3.5 §5.11 has the new tag copy the old one's VLAN; Open vSwitch gives it VLAN 0.
    pub fn push(&mut self, h: &mut Match) {
        if !is_untagged(h) {
            self.seen = Seen::Perhaps;
        }
        self.known.push(h.get(Field::VlanVid).copied());
        *h = cube::without(take(h), Field::VlanVid).with_masked(Field::VlanVid, PRESENT, PRESENT);
    }

    /// pop_vlan, 1.0's strip_vlan: without a tag it does nothing.
    pub fn pop(&mut self, h: &mut Match) {
        if is_untagged(h) {
            return;
        }
        let next = self.known.pop().flatten();
        if next != Some(tag(0)) {
            self.seen = Seen::Perhaps;
        }
        // What may have had no tag is as it was, then.
        let next = next.filter(|n| is_tagged(h) || *n == tag(0));
        *h = cube::without(take(h), Field::VlanVid);
        match next {
            Some(n) => *h = take(h).with_masked(Field::VlanVid, n.value, n.mask),
            None => self.known.clear(),
        }
        // A switch that looks behind one tag alone calls the next one's type the frame's.
        if h.get(Field::EthType).is_some_and(|t| is_tag(t.value)) {
            *h = cube::without(take(h), Field::EthType);
        }
    }

    /// set_field of a tag's VLAN (1.3): without a tag there is nothing to write to, and what a switch does then is not said.
    pub fn set_field(&mut self, h: &mut Match, vid: u128) {
        if is_tagged(h) {
            return self.set_vid(h, vid);
        }
        *h = cube::without(take(h), Field::VlanVid);
        self.known.clear();
    }

    /// A tag of this VLAN: 1.0 adds one where there is none. What leans on there being one (its priority) is as it was, or
    /// zero.
    pub fn set_vid(&mut self, h: &mut Match, vid: u128) {
        self.perhaps_add(h);
        *h = take(h).with(Field::VlanVid, vid & Field::VlanVid.full());
    }

    /// 1.0's way to a priority, which adds a tag, of VLAN 0, where there is none.
    pub fn set_pcp(&mut self, h: &mut Match, pcp: u8) {
        self.perhaps_add(h);
        if is_untagged(h) {
            *h = take(h).with(Field::VlanVid, PRESENT);
        } else if !is_tagged(h) {
            *h = take(h).with_masked(Field::VlanVid, PRESENT, PRESENT);
        }
        *h = take(h).with(Field::VlanPcp, u128::from(pcp & 7));
    }

    fn perhaps_add(&mut self, h: &Match) {
        if is_untagged(h) {
            self.known.push(Some(tag(0)));
        }
    }

    /// The type behind the tags is another. One that is a tag's makes a tag of what follows it: beneath those that are
    /// there, or the only one. Of several tags a switch may know the outermost alone, and write in the next one's place.
    pub fn set_type(&mut self, h: &mut Match, kind: u128) {
        *h = cube::without(take(h), Field::EthType);
        if is_tag(kind) || self.known.last() != Some(&Some(tag(0))) {
            self.known.clear();
        }
        if is_tag(kind) {
            self.seen = Seen::Perhaps;
        }
        if is_tag(kind) && !is_tagged(h) {
            *h = cube::without(take(h), Field::VlanVid);
        }
        if !is_tag(kind) && kind >= 0x600 {
            *h = take(h).with(Field::EthType, kind);
        }
    }

    /// Nothing is known any more of what is beneath.
    pub fn forget(&mut self) {
        self.seen = Seen::Perhaps;
        self.known.clear();
    }
}

fn is_untagged(h: &Match) -> bool {
    h.get(Field::VlanVid).is_some_and(|m| m.mask & PRESENT != 0 && m.value & PRESENT == 0)
}

fn is_tagged(h: &Match) -> bool {
    h.get(Field::VlanVid).is_some_and(|m| m.mask & m.value & PRESENT != 0)
}
