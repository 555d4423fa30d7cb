//! How many cores it takes to reach a rate.
//!
//! Room: a search. What cores cost each other, and what caches and memory give to so many, is in the estimate for that
//! number alone, so each number that may be the answer has its own. Called by `estimate` and by placement.

use super::{Estimate, Limit, MAX_CORES, Mode, Needed, Target, gbps};
use crate::fault::Fault;
use crate::profile::Profile;

/// Numbers below the one that was found that are looked at: where sockets begin, more may carry a little less.
const NEAR: u32 = 4;

/// What `target` takes, by estimates for so many cores of the question that `answer` is the answer to.
pub(super) fn needed(
    target: Target,
    profile: &Profile,
    answer: &Estimate,
    ask: &mut dyn FnMut(u32) -> Result<Estimate, Fault>,
) -> Result<Needed, Fault> {
    let mpps = in_mpps(target, answer.frame, giga(profile, answer.mode));
    let wall = answer.limits.iter().find(|l| l.mpps < mpps && is_fixed(l));
    let hindered = |by: String| Needed { mpps, cores: None, hindered_by: Some(by) };
    if let Some(l) = wall {
        return Ok(hindered(l.name.clone()));
    }
    let meets = |e: &Estimate| e.limits.iter().all(|l| l.mpps >= mpps);
    if answer.limits.iter().all(is_fixed) {
        // A pipeline: what crosses to a host takes some of that one's cores, and else hardware does it all.
        if answer.limits.iter().any(|l| l.name == "channel") {
            return Ok(hindered("a host that was not given".to_owned()));
        }
        return Ok(Needed { mpps, cores: Some(0), hindered_by: None });
    }
    if let Some(cores) = fewest(MAX_CORES, &mut |cores| Ok(meets(&ask(cores)?)))? {
        return Ok(Needed { mpps, cores: Some(cores), hindered_by: None });
    }
    Ok(hindered(ask(MAX_CORES)?.bottleneck))
}

/// The fewest cores, of `most`, for which something holds that holds for more cores where it does for fewer, or nearly
/// so.
pub(crate) fn fewest(
    most: u32,
    holds: &mut dyn FnMut(u32) -> Result<bool, Fault>,
) -> Result<Option<u32>, Fault> {
    let (mut below, mut found) = (0, 1);
    while !holds(found)? {
        if found >= most {
            return Ok(None);
        }
        below = found;
        found = found.saturating_mul(2).min(most);
    }
    while found - below > 1 {
        let middle = u32::midpoint(below, found);
        if holds(middle)? { found = middle } else { below = middle }
    }
    for fewer in (found.saturating_sub(NEAR).max(1)..below).rev() {
        if holds(fewer)? {
            found = fewer;
        }
    }
    Ok(Some(found))
}

/// A target in Mpps; `giga` millions of bits make a thousand of them.
fn in_mpps(target: Target, frame: u32, giga: f64) -> f64 {
    match target {
        Target::Mpps(m) => m,
        Target::Gbps(g) => g / gbps(1.0, frame, giga),
    }
}

/// As a mode counts bits.
fn giga(profile: &Profile, mode: Mode) -> f64 {
    let convention = match mode {
        Mode::Paper => profile.paper.as_ref(),
        Mode::Corrected => profile.corrected.as_ref(),
        Mode::Full => None,
    };
    convention.map_or(super::GIGA, |c| c.giga)
}

/// Bounds that no core moves. Main memory's bandwidth is none: more cores, and sockets, take fewer lines from it.
fn is_fixed(limit: &Limit) -> bool {
    matches!(limit.name.as_str(), "line rate" | "card" | "bus" | "channel")
        || limit.name.starts_with("stage ")
}

#[cfg(test)]
mod tests {
    #[test]
    fn the_fewest_are_found() {
        let fewest = |most, holds: fn(u32) -> bool| {
            let mut asked = 0;
            let found = super::fewest(most, &mut |n| {
                asked += 1;
                assert!((1..=most).contains(&n), "{n}");
                Ok(holds(n))
            });
            assert!(asked < 40, "{asked}");
            found.unwrap()
        };
        assert_eq!(fewest(20, |_| true), Some(1));
        assert_eq!(fewest(20, |n| n >= 19), Some(19));
        assert_eq!(fewest(20, |n| n >= 21), None);
        assert_eq!(fewest(65_536, |n| n >= 65_536), Some(65_536));
        assert_eq!(fewest(1, |_| false), None);
        // Eleven carry a little less than ten.
        assert_eq!(fewest(64, |n| n == 10 || n >= 12), Some(10));
    }
}
