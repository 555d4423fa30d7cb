//! Stage 1, VDP mapping: frame → flow key, once → VID.
//!
//! Mapping rules are ternary over any field of the key, with priorities, several per VDP (004
//! §4.2). A rule may also look at fields of its VDP's own (003 §3.2), cut out of the frame at an
//! offset; such rules are few and are tried in order of priority, everything else goes through one
//! classifier. What no rule takes belongs to the default VDP.
//!
//! Room: called by the worker for each frame of a burst, before anything else is known of it.

use crate::action::Vid;
use crate::packet::{Depth, Layers};
use crate::userfield::UserFields;
use thiserror::Error;
use weir_classify::{
    Classifier, FastTable, Field, FlowKey, FlowMask, Match, MissingPrereq, Probe, Rule, RuleId,
};
use weir_packet::PortId;

/// Whether a rule with this mask looks at fields of its VDP's own.
fn looks_at_own(mask: &FlowMask) -> bool {
    [Field::User0, Field::User1, Field::User2, Field::User3, Field::UserPresent]
        .into_iter()
        .any(|f| mask.looks_at(f))
}

/// Which frames a VDP owns.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MappingRule {
    /// Which frames, in the data plane's port numbers.
    pub matcher: Match,
    /// Larger wins; among equals the one inserted first.
    pub priority: u32,
}

/// A mapping rule that can't be installed.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum MappingError {
    /// A field without what it needs.
    #[error(transparent)]
    Prereq(#[from] MissingPrereq),
    /// Another VDP has it.
    #[error("VDP {0} has a mapping rule with the same match and priority: change either")]
    Taken(Vid),
}

#[derive(Clone, Copy, Debug)]
struct Mapped {
    vid: Vid,
    priority: u32,
    /// Order of insertion, which decides between equal priorities.
    seq: u64,
}

#[derive(Debug)]
struct OwnFieldRule {
    rule: MappingRule,
    vid: Vid,
    seq: u64,
    fields: UserFields,
}

/// The mapping rules of all VDPs.
#[derive(Debug, Default)]
pub struct Mapping {
    classifier: FastTable,
    /// Whose each rule is, apart from what few frames ask for: it is read for every frame.
    vids: Vec<Vid>,
    mapped: Vec<Mapped>,
    free: Vec<u32>,
    own_fields: Vec<OwnFieldRule>,
    seq: u64,
    vlans: Option<Box<ByVlan>>,
}

/// Whose a frame is by its VLAN, where rules look at nothing else: in place of a lookup.
#[derive(Debug)]
pub(crate) struct ByVlan([Vid; ByVlan::ALL]);

impl ByVlan {
    /// Ids, with and without the bit that says that there is a tag.
    const ALL: usize = Field::VlanVid.full() as usize + 1;

    /// The VID of frames whose [`Field::VlanVid`] this is.
    #[inline(always)]
    pub fn of(&self, vlan: u16) -> Vid {
        self.0[usize::from(vlan) % Self::ALL]
    }
}

impl Mapping {
    /// Adds a rule of `vid`, whose own fields are `fields`. Adding it twice changes nothing.
    ///
    /// # Errors
    /// [`MappingError`]; nothing changes then.
    pub fn add(
        &mut self,
        vid: Vid,
        rule: &MappingRule,
        fields: &UserFields,
    ) -> Result<(), MappingError> {
        rule.matcher.check_prereqs()?;
        self.put(vid, rule, fields)?;
        self.settle(&rule.matcher);
        Ok(())
    }
    fn put(
        &mut self,
        vid: Vid,
        rule: &MappingRule,
        fields: &UserFields,
    ) -> Result<(), MappingError> {
        self.seq += 1;
        let seq = self.seq;
        if looks_at_own(rule.matcher.mask()) {
            let same = |o: &&OwnFieldRule| o.rule == *rule && o.fields == *fields;
            if let Some(o) = self.own_fields.iter().find(same) {
                return if o.vid == vid { Ok(()) } else { Err(MappingError::Taken(o.vid)) };
            }
            let at = self.own_fields.partition_point(|o| o.rule.priority >= rule.priority);
            let own = OwnFieldRule { rule: rule.clone(), vid, seq, fields: fields.clone() };
            self.own_fields.insert(at, own);
            return Ok(());
        }
        if let Some(RuleId(i)) = self.classifier.find(&rule.matcher, rule.priority) {
            let owner = self.mapped.get(i as usize).map_or(vid, |m| m.vid);
            return if owner == vid { Ok(()) } else { Err(MappingError::Taken(owner)) };
        }
        let entry = Mapped { vid, priority: rule.priority, seq };
        let slot = match self.free.pop() {
            Some(i) => {
                if let (Some(m), Some(v)) =
                    (self.mapped.get_mut(i as usize), self.vids.get_mut(i as usize))
                {
                    (*m, *v) = (entry, vid);
                }
                i
            }
            None => {
                self.mapped.push(entry);
                self.vids.push(vid);
                self.mapped.len() as u32 - 1
            }
        };
        let r = Rule { matcher: rule.matcher, priority: rule.priority, id: RuleId(slot) };
        match self.classifier.insert(r) {
            Ok(()) => Ok(()),
            Err(_) => {
                self.free.push(slot);
                Err(MappingError::Taken(vid))
            }
        }
    }
    /// Removes a rule of `vid`; says whether it was there.
    pub fn remove(&mut self, vid: Vid, rule: &MappingRule) -> bool {
        if let Some(i) = self.own_fields.iter().position(|o| o.vid == vid && o.rule == *rule) {
            self.own_fields.remove(i);
            self.settle(&rule.matcher);
            return true;
        }
        let of_vid = self
            .classifier
            .find(&rule.matcher, rule.priority)
            .filter(|r| self.mapped.get(r.0 as usize).is_some_and(|m| m.vid == vid));
        let Some(RuleId(slot)) = of_vid else { return false };
        self.classifier.remove(&rule.matcher, rule.priority);
        self.free.push(slot);
        self.settle(&rule.matcher);
        true
    }
    /// Brings the list by VLAN up to date after a rule with this match has come or gone.
    fn settle(&mut self, changed: &Match) {
        let mut exact = FlowMask::default();
        exact.set(Field::VlanVid, Field::VlanVid.full());
        let vlans_alone = self.classifier.words_union() != 0
            && exact.covers(&self.classifier.mask_union())
            && self.own_fields.is_empty();
        if !vlans_alone {
            self.vlans = None;
            return;
        }
        let all = self.vlans.is_none() || *changed.mask() != exact;
        let list = self.vlans.get_or_insert_with(|| Box::new(ByVlan([Vid(0); ByVlan::ALL])));
        let mut key = FlowKey::default();
        let one = changed.value().get(Field::VlanVid) as usize;
        let places = if all { 0..ByVlan::ALL } else { one..one + 1 };
        for (vlan, vid) in list.0.iter_mut().enumerate().take(places.end).skip(places.start) {
            key.set(Field::VlanVid, vlan as u128);
            let hit = self.classifier.lookup(&key);
            let of = hit.and_then(|RuleId(i)| self.vids.get(i as usize));
            *vid = of.copied().unwrap_or_default();
        }
    }
    /// Whose frames of each VLAN are, where nothing else of a frame is looked at.
    #[inline(always)]
    pub(crate) fn by_vlan(&self) -> Option<&ByVlan> {
        self.vlans.as_deref()
    }
    /// How much of a frame rules look at.
    #[inline]
    pub(crate) fn depth(&self) -> Depth {
        if self.own_fields.is_empty() { Depth::of(&self.classifier) } else { Depth::Whole }
    }
    /// Removes all rules of `vid`; says how many there were.
    pub fn remove_all(&mut self, vid: Vid) -> usize {
        let rules = self.rules_of(vid);
        for r in &rules {
            self.remove(vid, r);
        }
        rules.len()
    }
    /// The rules of `vid`.
    pub fn rules_of(&self, vid: Vid) -> Vec<MappingRule> {
        let mut out: Vec<MappingRule> =
            self.own_fields.iter().filter(|o| o.vid == vid).map(|o| o.rule.clone()).collect();
        self.classifier.for_each(&mut |r| {
            if self.mapped.get(r.id.0 as usize).is_some_and(|m| m.vid == vid) {
                out.push(MappingRule { matcher: r.matcher, priority: r.priority });
            }
        });
        out.sort_by_key(|r| std::cmp::Reverse(r.priority));
        out
    }
    /// All rules, with whose they are: those of each VDP by falling priority.
    pub fn rules(&self) -> Vec<(Vid, MappingRule)> {
        let own = self.own_fields.iter().map(|o| (o.vid, o.rule.clone()));
        let mut out: Vec<(Vid, MappingRule)> = own.collect();
        self.classifier.for_each(&mut |r| {
            if let Some(m) = self.mapped.get(r.id.0 as usize) {
                out.push((m.vid, MappingRule { matcher: r.matcher, priority: r.priority }));
            }
        });
        out.sort_by_key(|(vid, r)| (vid.0, std::cmp::Reverse(r.priority)));
        out
    }
    /// Whether any rule looks at fields of its VDP's own.
    pub fn has_own_fields(&self) -> bool {
        !self.own_fields.is_empty()
    }
    /// Every rule that does not, with its priority and its VDP.
    pub(crate) fn for_each(&self, f: &mut dyn FnMut(&Match, u32, Vid)) {
        self.classifier.for_each(&mut |r| {
            if let Some(vid) = self.vids.get(r.id.0 as usize) {
                f(&r.matcher, r.priority, *vid);
            }
        });
    }
    /// Rules in all.
    pub fn len(&self) -> usize {
        self.classifier.len() + self.own_fields.len()
    }
    /// The VID of every frame that comes by `in_port`, where nothing else of a frame is looked at.
    #[inline]
    pub fn by_port(&self, in_port: PortId) -> Option<Vid> {
        if Depth::of(&self.classifier) != Depth::Port || !self.own_fields.is_empty() {
            return None;
        }
        let mut key = FlowKey::default();
        key.0[0] = u64::from(in_port.0) << 32;
        let hit = self.classifier.lookup(&key);
        let vid = hit.and_then(|RuleId(i)| self.vids.get(i as usize));
        Some(vid.copied().unwrap_or_default())
    }
    /// Goes on with what its classifier has still to move after a change, as [`FastTable::move_on`] says.
    pub(crate) fn move_on(&mut self, slots: usize) -> bool {
        self.classifier.move_on(slots)
    }
    /// First half of a lookup: asks for the memory that the second half needs.
    #[inline(always)]
    pub fn probe(&self, key: &FlowKey) -> Probe {
        self.classifier.probe(key)
    }
    /// Second half: the VID, 0 when no rule takes the frame.
    #[inline(always)]
    pub fn resolve(&self, key: &FlowKey, probe: Probe, frame: &[u8], layers: &Layers) -> Vid {
        let hit = self.classifier.resolve(key, probe);
        if self.own_fields.is_empty() {
            let vid = hit.and_then(|RuleId(i)| self.vids.get(i as usize));
            return vid.copied().unwrap_or_default();
        }
        let hit = hit.and_then(|RuleId(i)| self.mapped.get(i as usize).copied());
        let own = self.own_winner(key, hit, frame, layers).map(|o| o.vid);
        own.or(hit.map(|m| m.vid)).unwrap_or(Vid(0))
    }
    /// The rule that wins, with its VDP: what [`Mapping::resolve`] goes by, for `trace`.
    pub fn winner(
        &self,
        key: &FlowKey,
        frame: &[u8],
        layers: &Layers,
    ) -> Option<(Vid, MappingRule)> {
        let hit =
            self.classifier.lookup(key).and_then(|id| Some((id, *self.mapped.get(id.0 as usize)?)));
        if let Some(o) = self.own_winner(key, hit.map(|h| h.1), frame, layers) {
            return Some((o.vid, o.rule.clone()));
        }
        let (id, mapped) = hit?;
        let mut rule = None;
        self.classifier.for_each(&mut |r| {
            if r.id == id {
                rule = Some(MappingRule { matcher: r.matcher, priority: r.priority });
            }
        });
        Some((mapped.vid, rule?))
    }
    /// The rule on a VDP's own fields that beats `hit`, if one does.
    fn own_winner(
        &self,
        key: &FlowKey,
        hit: Option<Mapped>,
        frame: &[u8],
        layers: &Layers,
    ) -> Option<&OwnFieldRule> {
        let (best, seq) = hit.map_or((None, u64::MAX), |m| (Some(m.priority), m.seq));
        for o in &self.own_fields {
            let later = (o.rule.priority, std::cmp::Reverse(o.seq))
                < (best.unwrap_or(0), std::cmp::Reverse(seq));
            if best.is_some() && later {
                break;
            }
            let mut k = *key;
            o.fields.extract(frame, layers, &mut k);
            if o.rule.matcher.matches(&k) {
                return Some(o);
            }
        }
        None
    }
}
