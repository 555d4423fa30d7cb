//! What differs between a frame before and after a change: fields of its key, and bytes.

use serde::Serialize;
use weir_classify::FlowKey;
use weir_dataplane::extract;
use weir_dataplane::flowtext::{KeyText, NoNames};

/// A field of the key that a change touched.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct FieldChange {
    /// Its name in the flow syntax.
    pub field: String,
    /// Its value before; none: it was not there.
    pub before: Option<String>,
    /// Its value after; none: it is not there.
    pub after: Option<String>,
}

/// Bytes that a change touched.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct ByteChange {
    /// Offset of the first of them in the frame before.
    pub at: usize,
    /// What stood there, in hex.
    pub before: String,
    /// What stands there, in hex.
    pub after: String,
}

/// Bytes as hex, a blank between them.
pub fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|b| format!("{b:02x}")).collect::<Vec<_>>().join(" ")
}

/// The key's fields as the flow syntax has them, by name. A keyword (`tcp`) is the protocol's name.
fn fields(frame: &[u8]) -> Vec<(String, String)> {
    let mut key = FlowKey::default();
    if extract(frame, 0, &mut key).is_err() {
        return Vec::new();
    }
    let text = KeyText(&key, &NoNames).to_string();
    let pair = |item: &str| match item.split_once('=') {
        Some((name, value)) => (name.to_owned(), value.to_owned()),
        None => ("protocol".to_owned(), item.to_owned()),
    };
    text.split(',').filter(|t| !t.is_empty()).map(pair).collect()
}

/// Fields that differ, in the order of the key.
pub fn of_fields(before: &[u8], after: &[u8]) -> Vec<FieldChange> {
    let (old, new) = (fields(before), fields(after));
    let find = |of: &[(String, String)], name: &str| {
        of.iter().find(|(n, _)| n == name).map(|(_, v)| v.clone())
    };
    let mut names: Vec<&String> = old.iter().map(|(n, _)| n).collect();
    names.extend(new.iter().map(|(n, _)| n).filter(|n| find(&old, n).is_none()));
    names
        .into_iter()
        .map(|n| FieldChange { field: n.clone(), before: find(&old, n), after: find(&new, n) })
        .filter(|c| c.before != c.after)
        .collect()
}

/// Runs of bytes that differ. Where bytes were put in or taken out, the shortest stretch that says
/// so.
pub fn of_bytes(before: &[u8], after: &[u8]) -> Vec<ByteChange> {
    let run =
        |at: usize, old: &[u8], new: &[u8]| ByteChange { at, before: hex(old), after: hex(new) };
    if before.len() != after.len() {
        let same = |(a, b): &(&u8, &u8)| a == b;
        let head = before.iter().zip(after).take_while(same).count();
        let (old, new) = (&before[head..], &after[head..]);
        let tail = old.iter().rev().zip(new.iter().rev()).take_while(same).count();
        return vec![run(head, &old[..old.len() - tail], &new[..new.len() - tail])];
    }
    let mut out = Vec::new();
    let mut at = 0;
    while at < before.len() {
        let n = before[at..].iter().zip(&after[at..]).take_while(|(a, b)| a != b).count();
        if n > 0 {
            out.push(run(at, &before[at..at + n], &after[at..at + n]));
        }
        at += n + 1;
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bytes(before: &[u8], after: &[u8]) -> Vec<(usize, String, String)> {
        of_bytes(before, after).into_iter().map(|c| (c.at, c.before, c.after)).collect()
    }

    #[test]
    fn runs_and_stretches() {
        let t = |at, a: &str, b: &str| (at, a.to_owned(), b.to_owned());
        assert_eq!(bytes(&[1, 2, 3], &[1, 2, 3]), []);
        assert_eq!(bytes(&[1, 2, 3, 4], &[9, 8, 3, 7]), [t(0, "01 02", "09 08"), t(3, "04", "07")]);
        assert_eq!(bytes(&[1, 2, 5], &[1, 2, 3, 4, 5]), [t(2, "", "03 04")]);
        assert_eq!(bytes(&[1, 1, 1], &[1, 1]), [t(2, "01", "")]);
        assert_eq!(bytes(&[], &[7]), [t(0, "", "07")]);
    }
}
