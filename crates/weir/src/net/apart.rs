//! What hosts' proofs of a change come to: that it is refused, or what is to be told of it.
//!
//! Room: pure, proofs in and text out. Called by [`super::change`].

use super::nodes::Proof;
use crate::fault::bad_input;
use crate::verify::LeakItem;
use anyhow::Result;
use std::collections::BTreeMap;
use std::fmt;

/// Networks would not be apart: why a change was refused, for whoever wants more than a line.
#[derive(Debug)]
pub struct NotApart {
    /// What was found, the first leaks.
    pub leaks: Vec<LeakItem>,
    text: String,
}

impl fmt::Display for NotApart {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

/// Whether a change makes nothing that is not apart. What is so without it keeps up no change: a tenant's flow is not
/// for others to mend. Each host where something is gets a line.
///
/// # Errors
/// [`NotApart`]: what the change would make.
pub fn apart(proofs: &BTreeMap<String, Proof>) -> Result<Vec<String>> {
    let adds = |p: &Proof| match &p.verified.added {
        Some(a) => !a.is_nothing(),
        // An older one does not tell.
        None => !p.verified.isolated,
    };
    let Some((host, p)) = proofs.iter().find(|(_, p)| adds(p)) else {
        let already = proofs.iter().filter(|(_, p)| !p.verified.isolated);
        return Ok(already.map(|(host, p)| format!("host '{host}' {}", as_it_is(p))).collect());
    };
    let leaks: Vec<LeakItem> = p.leaks.iter().filter(|l| !l.there_before).cloned().collect();
    let text = match leaks.first() {
        Some(l) => {
            let frame = l.frame.as_ref().map(|f| format!(": frame {f}")).unwrap_or_default();
            let may = if l.may() { "may" } else { "would" };
            format!("not isolated: host '{host}', {}{frame}", way(l, may))
        }
        None => {
            let added = p.verified.added.as_ref().map(|a| &a.undecided);
            let undecided = added.unwrap_or(&p.verified.undecided).join(", ");
            format!(
                "not proved: host '{host}': rules of {undecided} take too much work: make them fewer"
            )
        }
    };
    Err(bad_input("nothing was touched").context(NotApart { leaks, text }))
}

/// A leak in a line.
fn way(l: &LeakItem, may: &str) -> String {
    let to = l.to.as_ref().map_or_else(
        || format!("{}, outside of its own part of it", l.reaches),
        |to| format!("{} of network '{to}'", l.reaches),
    );
    format!(
        "{}: by {}, frames of network '{}' that come in by port {} {may} reach {to}",
        l.vdp, l.by, l.from, l.in_port
    )
}

/// What is not apart at a host that was not before.
fn as_it_is(p: &Proof) -> String {
    let told = p.leaks.first().map(|l| {
        let more = match (p.leaks.len() + p.verified.more).saturating_sub(1) {
            0 => String::new(),
            n => format!(", and {n} more"),
        };
        let may = if l.may() { "may" } else { "do" };
        format!("is not isolated as it is, whatever this changes: {}{more}", way(l, may))
    });
    told.unwrap_or_else(|| {
        let undecided = p.verified.undecided.join(", ");
        format!(
            "is not proved as it is, whatever this changes: rules of {undecided} take too much work"
        )
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::verify::{Added, VerifiedItem};

    fn leak(sure: &str, there_before: bool) -> LeakItem {
        LeakItem {
            from: "red".to_owned(),
            to: Some("blue".to_owned()),
            kind: "port".to_owned(),
            reaches: "port e1".to_owned(),
            vdp: "red.s1".to_owned(),
            by: "slow-path program".to_owned(),
            by_rule: true,
            in_port: "e2".to_owned(),
            frames: String::new(),
            leaves: None,
            sure: sure.to_owned(),
            frame: None,
            traced: None,
            there_before,
        }
    }

    fn told(leaks: Vec<LeakItem>, added: Option<Added>, undecided: &[&str]) -> Result<Vec<String>> {
        let isolated = leaks.is_empty() && undecided.is_empty();
        let undecided = undecided.iter().map(|n| (*n).to_owned()).collect();
        let verified = VerifiedItem { isolated, added, undecided, ..VerifiedItem::default() };
        apart(&[("h".to_owned(), Proof { verified, leaks })].into())
    }

    #[test]
    fn a_refusal_says_may_where_the_proof_does() {
        for (sure, says) in
            [("frame", "would reach"), ("content", "would reach"), ("may", "may reach")]
        {
            let told = told(vec![leak(sure, false)], None, &[]).unwrap_err().to_string();
            assert!(
                told.contains(&format!("by port e2 {says} port e1 of network 'blue'")),
                "{told}"
            );
        }
    }

    #[test]
    fn what_is_so_already_is_told_and_refuses_nothing() {
        let added = |leaks: usize, undecided: &[&str]| {
            let undecided = undecided.iter().map(|n| (*n).to_owned()).collect();
            Some(Added { leaks, undecided })
        };
        let both = || vec![leak("frame", true), leak("may", true)];
        let [line] = &told(both(), added(0, &[]), &[]).unwrap()[..] else { panic!() };
        assert!(line.starts_with("host 'h' is not isolated as it is"), "{line}");
        assert!(line.ends_with("do reach port e1 of network 'blue', and 1 more"), "{line}");
        let mut new = both();
        new.insert(0, leak("may", false));
        let e = told(new, added(1, &[]), &[]).unwrap_err();
        let why = e.downcast_ref::<NotApart>().expect("why");
        assert!(why.leaks.len() == 1 && !why.leaks[0].there_before, "{why:?}");
        // What can't be decided likewise.
        let [line] = &told(Vec::new(), added(0, &[]), &["red.s1"]).unwrap()[..] else { panic!() };
        assert!(line.contains("not proved as it is") && line.contains("red.s1"), "{line}");
        let e = told(both(), added(0, &["blue.s1"]), &["red.s1", "blue.s1"]).unwrap_err();
        assert!(e.to_string().contains("rules of blue.s1 take too much work"), "{e}");
        // An older host tells nothing of before.
        assert!(told(Vec::new(), None, &["red.s1"]).is_err());
        assert!(told(both(), None, &[]).is_err());
        assert_eq!(told(Vec::new(), added(0, &[]), &[]).unwrap(), Vec::<String>::new());
    }
}
