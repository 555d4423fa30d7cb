//! The part of the frames that find their flow in a cache of so many flows: Che's approximation, with
//! flows for lines.

use super::{characteristic_time, fold};
use crate::traffic::{Class, Traffic};

/// The part of the frames that a flow cache of `entries` answers, one of `split` that share the flows.
pub fn flow_cache(traffic: &Traffic, entries: f64, split: f64) -> f64 {
    let part = |c: Class| Class { flows: c.flows / split, part: c.part * split };
    let flows = fold(traffic.classes().into_iter().map(part), f64::MAX);
    let held =
        |t: f64| -> f64 { flows.iter().map(|c| c.flows * (1.0 - (-c.part * t).exp())).sum() };
    match characteristic_time(held, entries) {
        None => 1.0,
        Some(t) => flows.iter().map(|c| c.flows * c.part * (1.0 - (-c.part * t).exp())).sum(),
    }
}
