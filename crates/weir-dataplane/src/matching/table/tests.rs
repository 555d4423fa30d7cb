//! Of how small tables are asked.

use super::*;
use crate::action::{Out, PortNo};
use weir_classify::Field;

fn spec(n: u32, cookie: u64) -> RuleSpec {
    let matcher = Match::any().with(Field::EthDst, n.into()).with(Field::VlanVid, 5);
    let out = Action::Output(Out::Port(PortNo(n)));
    // Simple ones and others, marked or not.
    let actions: Arc<[Action]> = match cookie % 5 {
        0 => [Action::Drop].into(),
        1 => [Action::DecTtl, out].into(),
        2 => [].into(),
        _ => [out].into(),
    };
    let cookie = if cookie.is_multiple_of(3) { 0 } else { cookie };
    RuleSpec { matcher, priority: 7, cookie, actions }
}

/// Rules come, go, are replaced, set aside and brought back, around the sizes at which a table is asked in another way: it
/// says what its classifier says by itself, and which mark the rule has.
#[test]
fn small_tables_say_what_their_classifier_says() {
    let mut t = Table::default();
    let mut there = std::collections::BTreeMap::new();
    let miss = RuleSpec { matcher: Match::any(), priority: 0, ..spec(0, 1) };
    let (mut missed, mut near_with) = (0, 0);
    let (mut random, mut near) = (3u32, 0);
    for step in 0..20_000u64 {
        random = random.wrapping_mul(0x0019_660d).wrapping_add(0x3c6e_f35f);
        let (n, what) = (random >> 26, random >> 20 & 63);
        let s = spec(n, step);
        let most = if step % 2000 < 1000 { 40 } else { 17 };
        match what {
            0 => _ = t.take(&s.matcher, 7).map(|_| there.remove(&n)),
            1 if there.contains_key(&n) => _ = t.set_aside(&s.matcher, 7),
            2..=40 if there.contains_key(&n) || there.len() < most => {
                assert!(t.put(&s, ActionResult::drop()).is_ok());
                there.insert(n, step);
            }
            _ if there.len() > most / 2 => _ = t.take(&s.matcher, 7).map(|_| there.remove(&n)),
            _ => {}
        }
        near += u32::from(t.classifier.is_near());
        // A table-miss entry comes and goes.
        match step % 64 {
            13 => assert!(t.put(&miss, ActionResult::drop()).is_ok()),
            45 => assert!(t.take(&miss.matcher, 0).is_some()),
            _ => {}
        }
        let apart = t.find(&miss.matcher, 0).is_some();
        near_with += u32::from(apart && t.classifier.is_near());
        for n in 0..64 {
            let s = spec(n, 0);
            let key = s.matcher.value();
            let want = t.classifier.lookup(key).map(|r| r.0);
            let probe = t.probe(key);
            assert_eq!((t.resolve(key, probe), t.lookup(key)), (want, want), "{step} {n}");
            if want == t.find(&miss.matcher, 0) {
                missed += u32::from(apart);
                continue;
            }
            let was = there.get(&n).map(|at| spec(n, *at));
            let mark = want.map(|slot| t.cookie(slot));
            assert!(mark.is_none() || mark == was.as_ref().map(|s| s.cookie), "{step} {n}");
            let told = t.find(&s.matcher, 7).and_then(|slot| t.spec(&s.matcher, 7, slot));
            assert_eq!(told, was, "{step} {n}");
        }
    }
    assert!((5_000..15_000).contains(&near), "{near}");
    assert!(near_with > 2_000 && missed > 10_000, "{near_with} {missed}");
}

/// A table that shrinks while its index is found to be no use is a very small one of one mask at once: its entries are told their words.
#[test]
fn what_is_small_when_it_takes_parts_says_what_its_classifier_says() {
    let station = |n: u32| {
        let field = if n.is_multiple_of(2) { Field::EthDst } else { Field::EthSrc };
        RuleSpec { matcher: Match::any().with(field, (n + 1).into()), ..spec(n, 1) }
    };
    let put = |t: &mut Table, n: u32| assert!(t.put(&station(n), ActionResult::drop()).is_ok());
    let mut t = Table::default();
    (0..300).for_each(|n| put(&mut t, n));
    assert!(t.classifier.index_now() && t.classifier.is_indexed());
    let n = 1_000;
    (300..n).for_each(|n| put(&mut t, n));
    assert!(t.classifier.wants_index());
    let mut draft = t.classifier.begin_draft().unwrap();
    while t.draft_more(&mut draft, 64) == weir_classify::Copying::More {}
    let mut drafted = draft.make();
    for gone in (0..n).filter(|n| !n.is_multiple_of(2) || *n > 32) {
        assert!(t.take(&station(gone).matcher, 7).is_some());
    }
    while t.adopt(&mut drafted) == Adoption::Behind {
        drafted.catch_up();
    }
    assert!(t.len() == 17 && !t.classifier.is_indexed() && t.classifier.is_near());
    for n in 0..n {
        let key = *station(n).matcher.value();
        let want = t.classifier.lookup(&key).map(|r| r.0);
        let probe = t.probe(&key);
        assert_eq!((t.resolve(&key, probe), t.lookup(&key)), (want, want), "{n}");
        assert_eq!(want.is_some(), n % 2 == 0 && n <= 32, "{n}");
    }
}
