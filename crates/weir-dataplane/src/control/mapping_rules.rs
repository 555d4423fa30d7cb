//! Mapping rules, charged to the TCAM.

use super::*;
use crate::action::Vid;
use crate::mapping::MappingRule;
use crate::plane::DataPlane;
use crate::shortcut::Ways;
use weir_classify::Part;

impl DataPlane {
    /// Adds a mapping rule.
    ///
    /// # Errors
    /// [`ControlError`].
    pub fn add_mapping(&mut self, vid: Vid, rule: &MappingRule) -> Result<(), ControlError> {
        let pins = self.check_pins(vid, self.vdp(vid)?.worker(), std::slice::from_ref(rule))?;
        if self.desk.is_some() {
            let rule = rule.clone();
            self.keep_whole(&pins)?;
            return self
                .everywhere(move |p| p.add_mapping(vid, &rule))
                .inspect_err(|_| self.let_go());
        }
        let fields = self.vdp(vid)?.fields.clone();
        let before = self.mapping.len();
        self.charge(Part::Mapping, vid)?;
        self.changes.layout();
        self.shorten_not(Ways::All);
        let done = self.mapping.add(vid, rule, &fields);
        if done.is_err() || self.mapping.len() == before {
            self.uncharge(Part::Mapping, vid, 1);
        }
        done?;
        self.pins.extend(pins);
        Ok(())
    }
    /// Removes a mapping rule.
    ///
    /// # Errors
    /// No such VDP or rule.
    pub fn remove_mapping(&mut self, vid: Vid, rule: &MappingRule) -> Result<(), ControlError> {
        if self.desk.is_some() {
            let rule = rule.clone();
            self.everywhere(move |p| p.remove_mapping(vid, &rule))?;
            self.let_go();
            return Ok(());
        }
        self.vdp(vid)?;
        self.changes.layout();
        self.shorten_not(Ways::All);
        if !self.mapping.remove(vid, rule) {
            return Err(ControlError::NoRule(vid));
        }
        self.uncharge(Part::Mapping, vid, 1);
        if self.worker_of(vid).is_some() {
            self.repin();
        }
        Ok(())
    }
    /// All mapping rules, with whose they are: those of each VDP by falling priority.
    pub fn mapping_rules(&self) -> Vec<(Vid, MappingRule)> {
        self.mapping.rules()
    }
    /// A VDP's mapping rules.
    ///
    /// # Errors
    /// No such VDP.
    pub fn mapping_of(&self, vid: Vid) -> Result<Vec<MappingRule>, ControlError> {
        self.vdp(vid)?;
        Ok(self.mapping.rules_of(vid))
    }
}
