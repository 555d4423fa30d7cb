//! Every error has a number in every version: its own, from which it is read again, or its nearest's.

use std::collections::{HashMap, HashSet};

use weir_openflow::errors::{all, from_wire, to_wire};
use weir_openflow::model::{ErrorCode, Version};

#[test]
fn numbers_and_names_are_one_to_one() {
    for version in [Version::V10, Version::V13] {
        let mut seen = HashMap::new();
        for code in all() {
            let (kind, number) = to_wire(version, code);
            let back = from_wire(version, kind, number);
            // The nearest is its own nearest: one step leads to a number.
            assert_eq!(to_wire(version, back), (kind, number), "{version:?} {code:?}");
            if back == code {
                assert_eq!(seen.insert((kind, number), code), None, "{version:?} {code:?}");
            }
        }
        let unnamed = ErrorCode::Other(40, 7);
        assert_eq!(from_wire(version, 40, 7), unnamed);
        assert_eq!(to_wire(version, unnamed), (40, 7));
    }
}

#[test]
fn each_version_has_as_many_as_it_says() {
    // 1.0.1, §5.4.4: codes of each type. 1.3.5, §7.4.4.
    let counts: [(Version, &[u16]); 2] = [
        (Version::V10, &[2, 9, 9, 6, 2, 3]),
        (Version::V13, &[2, 14, 16, 9, 12, 8, 15, 5, 3, 3, 3, 3, 12, 6]),
    ];
    for (version, counts) in counts {
        let known = |kind, code| !matches!(from_wire(version, kind, code), ErrorCode::Other(..));
        for (kind, count) in counts.iter().enumerate() {
            let kind = kind as u16;
            assert!((0..*count).all(|code| known(kind, code)), "{version:?} {kind}");
            assert!(!known(kind, *count), "{version:?} {kind}");
        }
        assert!(!known(counts.len() as u16, 0));
    }
}

#[test]
fn names_are_listed_once() {
    let mut seen = HashSet::new();
    assert!(all().all(|code| seen.insert(code)));
    assert!(seen.len() > 100);
}
