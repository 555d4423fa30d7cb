//! What VDPs have of the TCAM, and how much of it a lookup wakes (004 §4.3's power argument).

use super::report::TcamUse;
use weir_classify::{Owner, Part};
use weir_dataplane::DataPlane;

/// The TCAM of a data plane whose VDPs are 1 to `vdps`.
pub fn of(plane: &DataPlane, vdps: usize) -> TcamUse {
    let t = plane.tcam();
    let owners = || (1..=vdps).map(|vid| Owner(vid as u32));
    let used = |part| owners().map(|o| t.usage(part, o).used).sum::<u32>();
    let entries = |part| [used(part), t.entries(part)];
    let woken = || owners().map(|o| t.activation(o)).map(|a| a.mapping + a.action);
    let sum: f64 = woken().map(f64::from).sum();
    TcamUse {
        mapping_entries: entries(Part::Mapping),
        action_entries: entries(Part::Action),
        slice_entries: t.slice_entries(),
        blocks_in_use: Part::ALL.into_iter().map(|p| t.blocks_in_use(p)).sum(),
        woken_mean: sum / vdps.max(1) as f64,
        woken_most: woken().max().unwrap_or(0),
        blocks: Part::ALL.into_iter().map(|p| t.blocks(p)).sum(),
    }
}
