//! Answers that were given: the points of a sweep differ in what locality knows nothing of.
//!
//! Room: the latest questions and their answers. Called by `estimate::full`.

use super::{Capacity, Footprint, Stream, hits};
use crate::traffic::Traffic;
use std::cell::RefCell;

/// Questions that are kept.
const KEPT: usize = 128;

/// What was asked, and what was answered.
type Known = (Vec<Footprint>, Traffic, Capacity, Stream, Vec<f64>);

/// The latest answers about locality, for whoever asks for many estimates.
#[derive(Debug, Default)]
pub struct Memo {
    known: RefCell<Vec<Known>>,
}

impl Memo {
    /// As [`hits`].
    pub fn hits(
        &self,
        tables: &[Footprint],
        traffic: &Traffic,
        cache: Capacity,
        stream: Stream,
    ) -> Vec<f64> {
        let mut known = self.known.borrow_mut();
        let same = |k: &Known| k.2 == cache && k.3 == stream && k.0 == tables && k.1 == *traffic;
        if let Some(k) = known.iter().rev().find(|k| same(k)) {
            return k.4.clone();
        }
        let answer = hits(tables, traffic, cache, stream);
        if known.len() == KEPT {
            known.remove(0);
        }
        known.push((tables.to_vec(), traffic.clone(), cache, stream, answer.clone()));
        answer
    }
}
