//! All rules of a table taken out at once, however many they are: frames wait for none of it.

use crate::action::Vid;
use crate::matching::Table;
use crate::plane::DataPlane;
use crate::vdp::{Path, Phase};
use weir_classify::Part;

/// Rules that were taken out of a table at once. To let go of a million takes a while, which
/// another thread than the worker's can spend.
#[derive(Debug)]
pub struct TakenRules(Table);

impl TakenRules {
    /// How many.
    pub fn len(&self) -> usize {
        self.0.len()
    }
}

impl DataPlane {
    /// Takes all rules out of a table. `None`, and nothing is changed, where they are not `rules`
    /// many, or where the slow path has any rule of the VDP: then they go one by one
    /// ([`DataPlane::remove_rule`]).
    pub fn take_table(&mut self, vid: Vid, table: u8, rules: usize) -> Option<TakenRules> {
        if let Some(desk) = self.desk.take() {
            let here = self.take_table(vid, table, rules);
            if here.is_some() {
                desk.take_table(vid, table, rules);
            }
            self.desk = Some(desk);
            return here;
        }
        let v = self.vdp_mut(vid).ok()?;
        if !v.slow_only.is_empty() || v.phase != Phase::On(Path::Fast) {
            return None;
        }
        let t = v.fast.tables.get_mut(usize::from(table)).filter(|t| t.len() == rules)?;
        let taken = t.empty();
        self.uncharge(Part::Action, vid, rules);
        Some(TakenRules(taken))
    }
}
