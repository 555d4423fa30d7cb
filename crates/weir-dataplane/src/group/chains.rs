//! Chains of groups, judged as groups come and go: what a change costs is what it leads to, however many groups there
//! are. [`check_chains`](super::check_chains), which looks at all of them, is its judge.
//!
//! Pure data. Called by `control/objects`, whose table of groups it is asked beside.

use super::{ChainError, MAX_CHAIN};
use std::collections::BTreeMap;

/// By how many groups each is named, apart by how many follow one another down to those; a watch names, too.
#[derive(Debug, Default)]
#[expect(clippy::box_collection, reason = "most VDPs have none, and 4 KiB have room for a pointer")]
pub(crate) struct Chains(Option<Box<BTreeMap<u32, [u32; MAX_CHAIN]>>>);

/// What a group of the table names, in which the group in question is as it was; `None` where there is no such group.
pub(crate) type Names<'t> = dyn Fn(u32) -> Option<Vec<u32>> + 't;

impl Chains {
    /// How many groups follow one another down to this one, itself left out.
    fn above(&self, id: u32) -> usize {
        let by = self.0.as_ref().and_then(|all| all.get(&id));
        by.and_then(|by| by.iter().rposition(|n| *n > 0)).map_or(0, |deepest| deepest + 1)
    }

    /// A group that names `before`, nothing if it is new, is to name `after`.
    ///
    /// # Errors
    /// It would lead back to itself or too far, or to one that is not there; nothing has changed. What other groups
    /// miss is their affair.
    pub fn put(
        &mut self,
        id: u32,
        before: &[u32],
        after: &[u32],
        names: &Names<'_>,
    ) -> Result<(), ChainError> {
        // Without one behind it no way becomes longer.
        if !after.is_empty() && self.above(id) + length(id, after, names)? > MAX_CHAIN {
            return Err(ChainError::TooDeep(id));
        }
        self.name(id, before, Naming::No, names);
        self.name(id, after, Naming::Yes, names);
        Ok(())
    }

    /// A group that names these has gone. Those that name it still do.
    pub fn remove(&mut self, id: u32, before: &[u32], names: &Names<'_>) {
        self.name(id, before, Naming::No, names);
    }

    /// A group begins or ceases to name others. How deep these are may change by that, and what they name, at most as
    /// often as a chain is long each, since all changes are one way.
    fn name(&mut self, id: u32, others: &[u32], naming: Naming, names: &Names<'_>) {
        let above = self.above(id);
        let (from, to) = match naming {
            Naming::Yes => (None, Some(above)),
            Naming::No => (Some(above), None),
        };
        let mut todo: Vec<_> = others.iter().map(|o| (*o, from, to)).collect();
        while let Some((id, from, to)) = todo.pop() {
            let before = self.above(id);
            let all = self.0.get_or_insert_default();
            let by = all.entry(id).or_default();
            // Nothing is deeper than a chain is long: what is accepted is not.
            if let Some(n) = from.and_then(|depth| by.get_mut(depth)) {
                *n = n.saturating_sub(1);
            }
            if let Some(n) = to.and_then(|depth| by.get_mut(depth)) {
                *n = n.saturating_add(1);
            }
            if by.iter().all(|n| *n == 0) {
                all.remove(&id);
            }
            let after = self.above(id);
            if before != after {
                let named = names(id).unwrap_or_default();
                todo.extend(named.into_iter().map(|n| (n, Some(before), Some(after))));
            }
        }
    }
}

/// Whether a group begins or ceases to name others.
#[derive(Clone, Copy)]
enum Naming {
    Yes,
    No,
}

/// How many groups follow one another from a group that names these, itself counted.
fn length(id: u32, named: &[u32], names: &Names<'_>) -> Result<usize, ChainError> {
    // Of each group that was met; `None` while it is on the way.
    let mut known: BTreeMap<u32, Option<usize>> = BTreeMap::from([(id, None)]);
    // A stack of our own: what is left to look at of each on the way.
    let mut way = vec![(id, 1, named.to_vec())];
    while let Some((from, length, left)) = way.last_mut() {
        let Some(to) = left.last().copied() else {
            let (from, length) = (*from, *length);
            way.pop();
            if way.is_empty() {
                return Ok(length);
            }
            known.insert(from, Some(length));
            continue;
        };
        match known.get(&to) {
            Some(None) => return Err(ChainError::Loop(to)),
            Some(Some(n)) => {
                *length = (*length).max(n + 1);
                left.pop();
            }
            None => {
                let from = *from;
                let behind = names(to).ok_or(ChainError::Missing { from, to })?;
                if way.len() >= MAX_CHAIN {
                    return Err(ChainError::TooDeep(id));
                }
                known.insert(to, None);
                way.push((to, 1, behind));
            }
        }
    }
    Ok(1)
}

#[cfg(test)]
mod tests {
    use super::super::{Bucket, Group, GroupKind, check_chains};
    use super::*;
    use proptest::prelude::*;

    type Table = BTreeMap<u32, Group<Vec<u32>>>;

    fn named_by(groups: &Table, id: u32) -> Option<Vec<u32>> {
        groups.get(&id).map(named)
    }

    fn named(g: &Group<Vec<u32>>) -> Vec<u32> {
        (0..g.len()).filter_map(|i| g.payload(i)).flatten().copied().collect()
    }

    fn group(names: &[u32]) -> Group<Vec<u32>> {
        let buckets = names.iter().map(|n| Bucket::new(vec![*n])).collect();
        Group::new(GroupKind::All, buckets).unwrap()
    }

    /// What `check_chains` says of the groups that this one leads to or that lead to it.
    fn judged(groups: &Table, id: u32) -> Result<(), ChainError> {
        let mut near = std::collections::BTreeSet::from([id]);
        loop {
            let before = near.len();
            for (g, of) in groups {
                let names = named(of);
                if names.iter().any(|n| near.contains(n)) {
                    near.insert(*g);
                }
            }
            if near.len() == before {
                break;
            }
        }
        let mut todo = vec![id];
        let mut down = std::collections::BTreeSet::new();
        while let Some(g) = todo.pop() {
            if down.insert(g) {
                todo.extend(named_by(groups, g).unwrap_or_default());
            }
        }
        // Those above lead by it alone.
        let part = groups.iter().filter(|(g, _)| near.contains(g) || down.contains(g));
        let part: Table = part
            .map(|(g, of)| {
                let kept = |n: &u32| near.contains(n) || down.contains(n);
                let names: Vec<u32> = match down.contains(g) {
                    true => named(of),
                    false => named(of).into_iter().filter(kept).collect(),
                };
                (*g, group(&names))
            })
            .collect();
        check_chains(&part, |p| p.clone())
    }

    proptest! {
        /// Groups come, change and go; each time what it says is what the judge says.
        #[test]
        fn changes_are_judged_as_the_whole_is(
            changes in prop::collection::vec(
                (0u32..24, prop::option::weighted(0.9, prop::collection::vec(0u32..24, 0..3))),
                1..120,
            ),
            upwards in any::<bool>(),
        ) {
            let (mut groups, mut chains) = (Table::new(), Chains::default());
            for (id, names) in changes {
                let before = named_by(&groups, id).unwrap_or_default();
                let Some(mut names) = names else {
                    if groups.remove(&id).is_some() {
                        chains.remove(id, &before, &|g| named_by(&groups, g));
                    }
                    continue;
                };
                // Long chains come about where all lead to their neighbours.
                if upwards {
                    names.iter_mut().for_each(|n| *n = id + 1 + *n % 2);
                }
                let old = groups.insert(id, group(&names));
                let whole = if names.is_empty() { Ok(()) } else { judged(&groups, id) };
                let new = groups.remove(&id);
                groups.extend(old.map(|g| (id, g)));
                let said = chains.put(id, &before, &names, &|g| named_by(&groups, g));
                prop_assert_eq!(said.is_ok(), whole.is_ok(), "{:?} {:?}", said, whole);
                if said.is_ok() {
                    groups.extend(new.map(|g| (id, g)));
                }
            }
            // Nothing is kept of groups that have gone.
            for id in groups.keys().copied().collect::<Vec<_>>() {
                let before = named_by(&groups, id).unwrap_or_default();
                groups.remove(&id);
                chains.remove(id, &before, &|g| named_by(&groups, g));
            }
            prop_assert!(chains.0.is_none_or(|all| all.is_empty()));
        }
    }

    #[test]
    fn a_long_chain_is_refused_at_either_end_and_in_the_middle() {
        let (mut groups, mut chains) = (Table::new(), Chains::default());
        let mut put = |groups: &mut Table, id: u32, names: &[u32]| {
            let before = named_by(groups, id).unwrap_or_default();
            chains.put(id, &before, names, &|g| named_by(groups, g))?;
            groups.insert(id, group(names));
            Ok(())
        };
        let last = MAX_CHAIN as u32;
        for id in (2..=last).rev() {
            let next: Vec<u32> = (id < last).then_some(id + 1).into_iter().collect();
            put(&mut groups, id, &next).unwrap();
        }
        put(&mut groups, 1, &[2]).unwrap();
        assert_eq!(put(&mut groups, 0, &[1]), Err(ChainError::TooDeep(0)));
        put(&mut groups, 99, &[]).unwrap();
        assert_eq!(put(&mut groups, last, &[99]), Err(ChainError::TooDeep(last)));
        assert_eq!(put(&mut groups, last, &[1]), Err(ChainError::Loop(last)));
        put(&mut groups, 1, &[]).unwrap();
        put(&mut groups, last, &[99]).unwrap();
        put(&mut groups, 98, &[99, 97].map(|_| 99)).unwrap();
        assert_eq!(put(&mut groups, 99, &[98]), Err(ChainError::Loop(99)));
    }
}
