//! Answers that were given: the points of a sweep differ in what locality knows nothing of.
//!
//! Room: the latest questions and their answers. Called by `estimate::full`.

use super::{Beyond, Capacity, Footprint, Stream, beyond, hits};
use crate::traffic::Traffic;
use std::cell::RefCell;

/// Questions that are kept.
const KEPT: usize = 128;

/// What is asked about.
#[derive(Clone, Debug, PartialEq)]
struct Asked {
    cache: Capacity,
    stream: Stream,
    tables: Vec<Footprint>,
    traffic: Traffic,
}

impl Asked {
    fn is(&self, tables: &[Footprint], traffic: &Traffic, cache: Capacity, stream: Stream) -> bool {
        self.cache == cache
            && self.stream == stream
            && self.tables == tables
            && self.traffic == *traffic
    }
}

/// What was asked, with the bytes of a page and what frames put in between, and what was answered.
type Reached = (Asked, (f64, Stream), Vec<Vec<Beyond>>);

/// The latest answers about locality, for whoever asks for many estimates.
#[derive(Debug, Default)]
pub struct Memo {
    hits: RefCell<Vec<(Asked, Vec<f64>)>>,
    beyond: RefCell<Vec<Reached>>,
}

/// One more, in place of the oldest where there are many.
fn keep<T>(known: &mut Vec<T>, one: T) {
    if known.len() == KEPT {
        known.remove(0);
    }
    known.push(one);
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
        let mut known = self.hits.borrow_mut();
        if let Some(k) = known.iter().rev().find(|k| k.0.is(tables, traffic, cache, stream)) {
            return k.1.clone();
        }
        let answer = hits(tables, traffic, cache, stream);
        let asked = Asked { cache, stream, tables: tables.to_vec(), traffic: traffic.clone() };
        keep(&mut known, (asked, answer.clone()));
        answer
    }

    /// As [`beyond()`].
    pub fn beyond(
        &self,
        tables: &[Footprint],
        traffic: &Traffic,
        (own, near): (Capacity, Stream),
        page_bytes: f64,
        stream: Stream,
    ) -> Vec<Vec<Beyond>> {
        let mut known = self.beyond.borrow_mut();
        let between = (page_bytes, stream);
        let same = |k: &&Reached| k.1 == between && k.0.is(tables, traffic, own, near);
        if let Some(k) = known.iter().rev().find(same) {
            return k.2.clone();
        }
        let answer = beyond(tables, traffic, (own, near), page_bytes, stream);
        let (tables, traffic) = (tables.to_vec(), traffic.clone());
        let asked = Asked { cache: own, stream: near, tables, traffic };
        keep(&mut known, (asked, between, answer.clone()));
        answer
    }
}
