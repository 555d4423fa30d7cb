//! Messages of 1.3 that os-ken made (`scripts/golden_openflow.py`): decoded they mean what os-ken was asked for, and encoded
//! again they are the same bytes.

use std::fs;
use std::path::{Path, PathBuf};

use weir_openflow::codec::{decode, encode};
use weir_openflow::model::Version;

const V: Version = Version::V13;

fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("testdata/of13")
}

/// Each message of the index: file, bytes, what must be found in it.
fn vectors() -> Vec<(String, Vec<u8>, Vec<String>)> {
    let folder = folder();
    let index = fs::read_to_string(folder.join("index.txt")).unwrap();
    index
        .lines()
        .map(|line| {
            let mut columns = line.split('\t').map(String::from);
            let file = columns.next().unwrap();
            let bytes = fs::read(folder.join(&file)).unwrap();
            (file, bytes, columns.collect())
        })
        .collect()
}

#[test]
fn messages_mean_what_os_ken_meant() {
    let vectors = vectors();
    assert!(vectors.len() >= 140, "{} vectors", vectors.len());
    let mut wrong = Vec::new();
    for (file, bytes, fragments) in vectors {
        let msg = match decode(V, &bytes) {
            Ok(msg) => msg,
            Err(e) => {
                wrong.push(format!("{file}: {e}"));
                continue;
            }
        };
        let said = format!("{msg:?}");
        assert!(!fragments.is_empty(), "{file}: nothing is asked of it");
        for fragment in fragments {
            if !said.contains(&fragment) {
                wrong.push(format!("{file}: no `{fragment}` in {said}"));
            }
        }
        let mut again = Vec::new();
        match encode(V, &msg, &mut again) {
            Ok(()) if again == bytes => {}
            Ok(()) => wrong.push(format!("{file}: {said}\n  {bytes:02x?}\n  {again:02x?}")),
            Err(e) => wrong.push(format!("{file}: {e}")),
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}
