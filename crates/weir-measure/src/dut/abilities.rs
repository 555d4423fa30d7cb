//! What the table can do, as 1.3's table features tell it: tools ask for its name before anything else.
//!
//! Room: constants of the model. Called by `statistics`.

use super::header::is_read;
use super::profile::Table;
use weir_openflow::model::{Entries::Regular, Field, Maskable, TableFeatures, TableProperty};

/// OFPIT_WRITE_ACTIONS, OFPIT_APPLY_ACTIONS, OFPIT_CLEAR_ACTIONS.
const INSTRUCTIONS: [u16; 3] = [3, 4, 5];
/// OFPAT_*: output, TTLs copied, MPLS TTL set and decremented, VLAN and MPLS pushed and popped, IP TTL
/// set and decremented, set-field.
const ACTIONS: [u16; 12] = [0, 11, 12, 15, 16, 17, 18, 19, 20, 23, 24, 25];

/// The only table.
pub(super) fn of(table: &Table) -> TableFeatures {
    let read: Vec<Field> = Field::all().filter(|f| is_read(*f)).collect();
    let maskable = |f: &Field| if f.maskable() { Maskable::Yes } else { Maskable::No };
    let set = |f: &&Field| f.settable() && **f != Field::EthType;
    let set: Vec<Field> = read.iter().filter(set).copied().collect();
    TableFeatures {
        table: 0,
        name: "flows".to_owned(),
        max_entries: table.entries as u32,
        properties: vec![
            TableProperty::Instructions(Regular, INSTRUCTIONS.to_vec()),
            TableProperty::NextTables(Regular, Vec::new()),
            TableProperty::WriteActions(Regular, ACTIONS.to_vec()),
            TableProperty::ApplyActions(Regular, ACTIONS.to_vec()),
            TableProperty::Match(read.iter().map(|f| (*f, maskable(f))).collect()),
            TableProperty::Wildcards(read.clone()),
            TableProperty::WriteSetField(Regular, set.clone()),
            TableProperty::ApplySetField(Regular, set),
        ],
        ..TableFeatures::default()
    }
}
