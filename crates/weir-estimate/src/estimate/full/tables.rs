//! Where the tables of a model are found: how their lookups spread over caches and main memory, and how far they go.
//!
//! Room: the mode `full` on processors, before anything is charged.

use super::super::charge::{Case, Tariff};
use super::super::expand::{Done, value};
use super::super::{Hits, Pages, Question};
use crate::fault::Fault;
use crate::locality::{Beyond, Capacity, Footprint, Memo, Stream};
use crate::operation::Where;
use crate::profile::{Processor, Profile, Shared};
use crate::traffic::Traffic;
use std::collections::BTreeMap;
use std::sync::Arc;

/// Bytes of a page where a profile does not say.
const PAGE_BYTES: f64 = 4096.0;

/// Translations of a set, as processors have had them for long.
const TLB_WAYS: f64 = 8.0;

/// How the accesses to something spread over the levels, main memory last.
pub(super) type Levels = Vec<f64>;

/// What a core's frames put into caches, in whole.
fn whole_stream(p: &Processor, question: &Question) -> Stream {
    Stream {
        lines: (f64::from(question.frame) / p.line_bytes).ceil(),
        buffers: question.played.unwrap_or(p.buffers),
    }
}

/// What they put into its own caches: those see headers alone, but where the core copies what a source plays.
fn near_stream(p: &Processor, question: &Question) -> Stream {
    let whole = whole_stream(p, question);
    if question.played.is_some() { whole } else { Stream { lines: 1.0, ..whole } }
}

/// The tables of a model and of those that it uses, with how often each is asked.
pub(super) struct Tables {
    names: Vec<(Arc<str>, usize)>,
    shown: Vec<String>,
    footprints: Vec<Footprint>,
}

impl Tables {
    pub(super) fn of(
        done: &[Done<'_>],
        profile: &Profile,
        question: &Question,
    ) -> Result<Self, Fault> {
        let mut all = Self { names: Vec::new(), shown: Vec::new(), footprints: Vec::new() };
        let mut places: BTreeMap<(Arc<str>, usize), usize> = BTreeMap::new();
        let tariff = Tariff::new(profile, question);
        for d in done {
            let Some(t) = d.op.table else { continue };
            let Some(table) = d.model.tables.get(t) else { continue };
            let key = (Arc::clone(&d.model.name), t);
            let place = match places.get(&key) {
                Some(p) => *p,
                None => {
                    let place = all.footprints.len();
                    all.footprints.push(Footprint {
                        entries: value(d.model, question, &table.entries)?,
                        entry_bytes: value(d.model, question, &table.entry)?.max(1.0),
                        rate: 0.0,
                    });
                    all.shown.push(format!("{}.{}", d.model.name, table.name));
                    all.names.push(key.clone());
                    places.insert(key, place);
                    place
                }
            };
            let cost = tariff.cost(d)?;
            let cold = tariff.charge(d, cost, Case { cold: 1.0, remote: false })?;
            if let Some(f) = all.footprints.get_mut(place)
                && cold.accesses > 0.0
                && d.at != Where::Cache
            {
                f.rate += d.times;
            }
        }
        Ok(all)
    }

    pub(super) fn place(&self, d: &Done<'_>) -> Option<usize> {
        let table = d.op.table?;
        self.names.iter().position(|n| n.1 == table && n.0 == d.model.name)
    }

    /// How the accesses to each table spread over caches and main memory.
    pub(super) fn levels(
        &self,
        p: &Processor,
        traffic: &Traffic,
        question: &Question,
        memo: &Memo,
    ) -> Vec<Levels> {
        let cores = question.cores.max(1);
        let mut before = vec![0.0; self.footprints.len()];
        let mut spread = vec![Levels::new(); self.footprints.len()];
        for cache in &p.caches {
            let split = match cache.shared {
                Shared::Core => f64::from(cores),
                // Cores fill one socket after the other, and sockets share flows as cores do.
                Shared::Socket => (f64::from(cores) / f64::from(p.cores_per_socket)).max(1.0),
            };
            let capacity = Capacity {
                lines: cache.bytes / p.line_bytes,
                line_bytes: p.line_bytes,
                ways: f64::from(cache.ways),
                split,
            };
            let stream = match cache.shared {
                Shared::Core => near_stream(p, question),
                Shared::Socket => {
                    let buffers = p.buffers * f64::from(cores) / split;
                    Stream {
                        buffers: question.played.unwrap_or(buffers),
                        ..whole_stream(p, question)
                    }
                }
            };
            let found = memo.hits(&self.footprints, traffic, capacity, stream);
            for ((before, levels), h) in before.iter_mut().zip(&mut spread).zip(found) {
                // A farther cache holds what a nearer one does.
                let h = h.max(*before);
                levels.push(h - *before);
                *before = h;
            }
        }
        for (before, levels) in before.iter().zip(&mut spread) {
            levels.push(1.0 - before);
        }
        spread
    }

    /// How far lookups of each table go that no cache of the core's own answers; nothing where no profile says what
    /// that costs.
    pub(super) fn beyond(
        &self,
        p: &Processor,
        traffic: &Traffic,
        question: &Question,
        memo: &Memo,
    ) -> Option<Vec<Vec<Beyond>>> {
        let own = p.caches.iter().rfind(|c| c.shared == Shared::Core);
        let own = own.filter(|_| question.pages == Pages::Small && !p.strewn.is_empty())?;
        let split = f64::from(question.cores.max(1));
        let own = Capacity {
            lines: own.bytes / p.line_bytes,
            line_bytes: p.line_bytes,
            ways: f64::from(own.ways),
            split,
        };
        let page = p.tlb.map_or(PAGE_BYTES, |t| t.page_bytes);
        let (near, stream) = (near_stream(p, question), whole_stream(p, question));
        Some(memo.beyond(&self.footprints, traffic, (own, near), page, stream))
    }

    /// The part of the accesses to each table whose address has to be translated by a walk: the cache of
    /// translations is one of lines as long as pages.
    pub(super) fn walks(
        &self,
        p: &Processor,
        traffic: &Traffic,
        question: &Question,
        memo: &Memo,
    ) -> Vec<f64> {
        // What was measured over sizes has walks in it.
        let small = question.pages == Pages::Small && p.strewn.is_empty();
        let Some(tlb) = p.tlb.filter(|_| small) else {
            return vec![0.0; self.footprints.len()];
        };
        let capacity = Capacity {
            lines: (tlb.reach_bytes / tlb.page_bytes).max(1.0),
            line_bytes: tlb.page_bytes,
            ways: TLB_WAYS,
            split: f64::from(question.cores.max(1)),
        };
        let found = memo.hits(&self.footprints, traffic, capacity, Stream::default());
        found.into_iter().map(|h| 1.0 - h).collect()
    }
}

pub(super) fn hits_of(tables: &Tables, p: &Processor, spread: &[Levels]) -> Vec<Hits> {
    let names = || p.caches.iter().map(|c| c.name.to_string()).chain(["memory".to_owned()]);
    let one = |(table, levels): (&String, &Levels)| Hits {
        table: table.clone(),
        levels: names().zip(levels.iter().copied()).collect(),
    };
    tables.shown.iter().zip(spread).map(one).collect()
}
