//! Maglev's consistent hashing: a table of prime size in which every backend has nearly the same
//! number of places, and few of them change owner when a backend comes or goes. Touches names and
//! numbers only. Called by `mod.rs`, once for each change of a service's backends.
//!
//! Source: Eisenbud et al., *Maglev: A Fast and Reliable Software Network Load Balancer*, NSDI
//! 2016, §3.4: each backend has a permutation of all places, (offset + j × skip) mod M, from two
//! hashes of its name; in turns, each takes the first place of its permutation that is free.

/// Places of a table: the smaller of the paper's two sizes, a prime.
pub const PLACES: usize = 65_537;

/// Most backends of a table: with more, the shares differ by more than a few percent (§5.3: M
/// should be more than a hundred times the number of backends).
pub const MOST_BACKENDS: usize = PLACES / 100;

/// 64-bit FNV-1a from a basis of its own, and its bits spread (the finaliser of MurmurHash3). The
/// same everywhere, so that balancers side by side agree.
fn hash(name: &str, basis: u64) -> u64 {
    let mut h = 0xcbf2_9ce4_8422_2325 ^ basis;
    for b in name.bytes() {
        h = (h ^ u64::from(b)).wrapping_mul(0x0000_0100_0000_01b3);
    }
    h = (h ^ h >> 33).wrapping_mul(0xff51_afd7_ed55_8ccd);
    h = (h ^ h >> 33).wrapping_mul(0xc4ce_b9fe_1a85_ec53);
    h ^ h >> 33
}

/// The owner of each place, as an index into `names`; empty without names.
///
/// The order of names has a part in it where two want one place: give them in one order always.
pub fn table(names: &[&str]) -> Vec<u16> {
    table_of(names, PLACES)
}

fn table_of(names: &[&str], places: usize) -> Vec<u16> {
    const FREE: u16 = u16::MAX;
    if names.is_empty() {
        return Vec::new();
    }
    let m = places as u64;
    let mut next: Vec<(u64, u64)> = names
        .iter()
        .map(|n| (hash(n, 0) % m, hash(n, 0x9e37_79b9_7f4a_7c15) % (m - 1) + 1))
        .collect();
    let mut owners = vec![FREE; places];
    let mut free = places;
    loop {
        for (i, (place, skip)) in next.iter_mut().enumerate().take(usize::from(FREE)) {
            // A permutation of all places has a free one as long as there is one.
            while owners.get(*place as usize).is_some_and(|o| *o != FREE) {
                *place = (*place + *skip) % m;
            }
            if let Some(owner) = owners.get_mut(*place as usize) {
                *owner = i as u16;
            }
            free -= 1;
            if free == 0 {
                return owners;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(n: usize) -> Vec<String> {
        (0..n).map(|i| format!("backend-{i}")).collect()
    }
    fn of(names: &[String]) -> Vec<u16> {
        table(&names.iter().map(String::as_str).collect::<Vec<_>>())
    }

    /// The paper's pseudocode, word by word: whole permutations, `next` and `entry`.
    fn oracle(names: &[&str], m: usize) -> Vec<i64> {
        let permutation: Vec<Vec<usize>> = names
            .iter()
            .map(|n| {
                let offset = (hash(n, 0) % m as u64) as usize;
                let skip = (hash(n, 0x9e37_79b9_7f4a_7c15) % (m as u64 - 1)) as usize + 1;
                (0..m).map(|j| (offset + j * skip) % m).collect()
            })
            .collect();
        let mut next = vec![0; names.len()];
        let mut entry = vec![-1; m];
        let mut n = 0;
        loop {
            for i in 0..names.len() {
                let mut c = permutation[i][next[i]];
                while entry[c] >= 0 {
                    next[i] += 1;
                    c = permutation[i][next[i]];
                }
                entry[c] = i as i64;
                next[i] += 1;
                n += 1;
                if n == m {
                    return entry;
                }
            }
        }
    }

    #[test]
    fn equals_the_papers_pseudocode() {
        for m in [7, 13, 251, 1009] {
            for n in 1..7 {
                let names = names(n);
                let names: Vec<_> = names.iter().map(String::as_str).collect();
                let have: Vec<i64> = table_of(&names, m).into_iter().map(i64::from).collect();
                assert_eq!(have, oracle(&names, m), "{n} of {m}");
            }
        }
    }

    #[test]
    fn all_own_nearly_the_same() {
        for n in [1, 2, 3, 10, 100, MOST_BACKENDS] {
            let t = of(&names(n));
            let mut owns = vec![0usize; n];
            t.iter().for_each(|o| owns[usize::from(*o)] += 1);
            let (least, most) = (owns.iter().min().unwrap(), owns.iter().max().unwrap());
            // They take turns, so nobody is ahead by more than one.
            assert!(most - least <= 1, "{n}: {least} to {most}");
        }
        assert!(table(&[]).is_empty());
    }

    /// §5.4: what changes owner when a backend goes is its own places, and few others.
    #[test]
    fn few_places_change_owner() {
        for n in [10, 100] {
            let all = names(n);
            let before = of(&all);
            for gone in [0, n / 2, n - 1] {
                let mut rest = all.clone();
                rest.remove(gone);
                let after = of(&rest);
                let same = |(b, a): (&u16, &u16)| all[usize::from(*b)] == rest[usize::from(*a)];
                let moved = before.iter().zip(&after).filter(|p| !same(*p)).count();
                let own = before.iter().filter(|o| usize::from(**o) == gone).count();
                let needless = moved - own;
                // Two hundredths of all places beside its own: the paper's figure 12 has less.
                assert!(needless * 50 < PLACES, "{n} less {gone}: {needless}");
                assert!(own.abs_diff(PLACES / n) <= 1);
            }
        }
    }
}
