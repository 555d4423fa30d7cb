//! Parts of what all share: how much one may have, so that others still get theirs.
//!
//! Room: counting. Whoever has a part holds a [`Share`] for as long.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// Who has how much.
#[derive(Debug, Default)]
pub struct Shares {
    taken: Mutex<BTreeMap<String, usize>>,
}

/// One of them, until it is dropped.
#[derive(Debug)]
pub struct Share {
    of: Arc<Shares>,
    who: String,
}

impl Shares {
    fn taken(&self) -> MutexGuard<'_, BTreeMap<String, usize>> {
        self.taken.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// One for him, if he has fewer than `most`.
    pub fn take(self: &Arc<Self>, who: String, most: usize) -> Option<Share> {
        let mut taken = self.taken();
        let has = taken.get(&who).copied().unwrap_or(0);
        if has >= most {
            return None;
        }
        taken.insert(who.clone(), has + 1);
        Some(Share { of: Arc::clone(self), who })
    }
}

impl Drop for Share {
    fn drop(&mut self) {
        let mut taken = self.of.taken();
        match taken.get_mut(&self.who) {
            Some(n) if *n > 1 => *n -= 1,
            // Who has nothing takes no room.
            _ => drop(taken.remove(&self.who)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_has_his_part_and_others_theirs() {
        let all = Arc::new(Shares::default());
        let one = |who: &str| all.take(who.to_owned(), 2);
        let (a, b) = (one("a"), one("a"));
        assert!(a.is_some() && b.is_some() && one("a").is_none() && one("b").is_some());
        drop(a);
        assert!(one("a").is_some());
        drop(b);
        assert!(all.taken().is_empty());
    }
}
