//! What tables can do (1.3 §7.3.5.5): every table all of it.

use super::table_name;
use crate::fields::sets;
use crate::plane::Plane;
use crate::request::{Cx, Stop};
use crate::switch::Switch;
use weir_openflow::model::{Entries, Field, Maskable, StatsReply, TableFeatures, TableProperty};

/// Action types that are carried out, by number (1.3 §7.2.5).
const ACTIONS: &[u16] = &[0, 11, 12, 15, 16, 17, 18, 19, 20, 21, 22, 23, 24, 25, 26, 27];

/// The same as a bitmap.
pub(crate) const ACTION_BITS: u32 = {
    let (mut bits, mut i) = (0, 0);
    while i < ACTIONS.len() {
        bits |= 1 << ACTIONS[i];
        i += 1;
    }
    bits
};

impl Switch {
    pub(super) fn table_features<P: Plane>(&self, cx: &mut Cx<'_, P>) -> Result<StatsReply, Stop> {
        let max_entries = self.most_flows(cx)?;
        let set: Vec<Field> = Field::all().filter(|f| sets(*f)).collect();
        let all: Vec<Field> = Field::all().collect();
        let maskable = |f: &Field| if f.maskable() { Maskable::Yes } else { Maskable::No };
        let matched: Vec<_> = all.iter().map(|f| (*f, maskable(f))).collect();
        let of = |table: u8| {
            use Entries::Regular;
            let later: Vec<u8> = (table + 1..self.state.tables).collect();
            // Goto, where there is a table to go to; then metadata, write, apply, clear, meter.
            let first = if later.is_empty() { 2 } else { 1 };
            TableFeatures {
                table,
                name: table_name(table),
                metadata_match: u64::MAX,
                metadata_write: u64::MAX,
                config: self.table_config.get(usize::from(table)).copied().unwrap_or(0),
                max_entries,
                properties: vec![
                    TableProperty::Instructions(Regular, (first..=6).collect()),
                    TableProperty::NextTables(Regular, later),
                    TableProperty::WriteActions(Regular, ACTIONS.to_vec()),
                    TableProperty::ApplyActions(Regular, ACTIONS.to_vec()),
                    TableProperty::Match(matched.clone()),
                    TableProperty::Wildcards(all.clone()),
                    TableProperty::WriteSetField(Regular, set.clone()),
                    TableProperty::ApplySetField(Regular, set.clone()),
                ],
            }
        };
        Ok(StatsReply::TableFeatures((0..self.state.tables).map(of).collect()))
    }
}
