//! `weir report` on files: the studies that are published, a document, and what it refuses.

use std::path::{Path, PathBuf};
use std::process::{Command, Output};

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

fn weir(dir: &Path, arguments: &[&str]) -> Output {
    let mut c = Command::new(env!("CARGO_BIN_EXE_weir"));
    c.arg("report").args(arguments).current_dir(dir).output().unwrap()
}

fn err(o: &Output) -> String {
    String::from_utf8_lossy(&o.stderr).into_owned()
}

#[test]
fn published_studies_and_a_document_together() {
    let dir = tempfile::tempdir().unwrap();
    let seed = std::fs::read(root().join("fuzz/seeds/measure_document/all")).unwrap();
    std::fs::write(dir.path().join("one.json"), seed).unwrap();
    let studies = root().join("docs/studies");
    let studies = studies.to_str().unwrap();
    let o = weir(dir.path(), &[studies, "one.json"]);
    assert!(o.status.success(), "{}", err(&o));
    assert_eq!(err(&o), "the report is in report.html\n");
    let page = std::fs::read_to_string(dir.path().join("report.html")).unwrap();
    for words in ["vdp-latency", "004 §5", "paper 004, figure 4", "flow-insert", "at least"] {
        assert!(page.to_lowercase().contains(words), "{words}");
    }
    let o = weir(dir.path(), &["one.json", "--csv", "tables", "--jsonl", "-", "--text"]);
    assert!(o.status.success(), "{}", err(&o));
    let said = String::from_utf8_lossy(&o.stdout).into_owned();
    assert!(said.contains("{\"date\":1700000000") && said.contains("✗ fails v: It is."), "{said}");
    assert_eq!(std::fs::read_dir(dir.path().join("tables")).unwrap().count(), 5);
}

/// Whatever the output is called, and before another is written.
#[test]
fn a_result_that_is_read_is_not_written_over() {
    let dir = tempfile::tempdir().unwrap();
    let results = dir.path().join("r");
    std::fs::create_dir(&results).unwrap();
    let seed = std::fs::read(root().join("fuzz/seeds/measure_document/all")).unwrap();
    std::fs::write(results.join("echo.json"), &seed).unwrap();
    std::fs::hard_link(results.join("echo.json"), dir.path().join("other")).unwrap();
    std::os::unix::fs::symlink("r/echo.json", dir.path().join("link")).unwrap();
    for args in [
        &["r/echo.json", "--out", "r/echo.json"][..],
        &["r", "--out", "r/echo.json"],
        &["r", "--out", "./r/../r/echo.json"],
        &["r", "--out", "link"],
        &["r", "--out", "page.html", "--jsonl", "other"],
        &["link", "--jsonl", "r/echo.json"],
    ] {
        let o = weir(dir.path(), args);
        let said = err(&o);
        assert_eq!(o.status.code(), Some(2), "{args:?}: {said}");
        assert!(said.contains("is one of the results that are read"), "{args:?}: {said}");
        assert_eq!(said.lines().count(), 1, "{args:?}: {said}");
        assert_eq!(std::fs::read(results.join("echo.json")).unwrap(), seed, "{args:?}");
        assert!(!dir.path().join("page.html").exists(), "{args:?}");
    }
}

/// Of two outputs under one name the one would be lost.
#[test]
fn outputs_have_files_of_their_own() {
    let dir = tempfile::tempdir().unwrap();
    let seed = std::fs::read(root().join("fuzz/seeds/measure_document/all")).unwrap();
    std::fs::write(dir.path().join("one.json"), &seed).unwrap();
    let o = weir(dir.path(), &["one.json", "--out", "o", "--jsonl", "./o"]);
    assert_eq!(o.status.code(), Some(2), "{}", err(&o));
    assert!(err(&o).contains("--out and --jsonl are one file"), "{}", err(&o));
    assert!(!dir.path().join("o").exists());
}

#[test]
fn what_is_refused_is_one_line() {
    let dir = tempfile::tempdir().unwrap();
    let write = |name: &str, text: &str| std::fs::write(dir.path().join(name), text).unwrap();
    write("other.json", "{\"kind\": \"demo\"}");
    write("study.json", "{\"kind\": \"study\", \"schema\": 1}");
    write("newer.json", "{\"kind\": \"measurement\", \"schema\": 9}");
    write("cut.json", "{\"kind\": \"measur");
    for (name, why) in [
        ("other.json", "\"kind\" is \"demo\", not \"measurement\""),
        ("study.json", "not as 'weir study' writes it: missing field `environment`"),
        ("newer.json", "schema 9, and this weir reads up to 1"),
        ("cut.json", "EOF while parsing a string"),
        ("none.json", "No such file"),
        (".", "no results in it"),
    ] {
        let o = weir(dir.path(), &[name]);
        let said = err(&o);
        let last = said.lines().last().unwrap_or_default();
        assert_eq!(o.status.code(), Some(2), "{name}: {said}");
        assert!(last.starts_with("weir: ") && last.contains(why), "{name}: {said}");
        assert_eq!(said.lines().count(), if name == "." { 5 } else { 1 }, "{said}");
    }
}

/// A limit on a file's size stands for a full disk: what was there is as it was, and nothing else is.
#[test]
fn what_can_not_be_written_leaves_what_was_there() {
    let dir = tempfile::tempdir().unwrap();
    let seed = std::fs::read(root().join("fuzz/seeds/measure_document/all")).unwrap();
    std::fs::write(dir.path().join("one.json"), seed).unwrap();
    let at = |name: &str| dir.path().join(name);
    let outs = [&["--out", "page.html"][..], &["--jsonl", "facts"], &["--csv", "tables"]];
    let o = weir(dir.path(), &[&["one.json"][..], &outs.concat()].concat());
    assert!(o.status.success(), "{}", err(&o));
    let there = || {
        let all = |d: &Path| -> Vec<PathBuf> {
            std::fs::read_dir(d).unwrap().map(|e| e.unwrap().path()).collect()
        };
        let mut files = [all(dir.path()), all(&at("tables"))].concat();
        files.retain(|p| p.is_file() && *p != at("one.json"));
        files.sort();
        files
    };
    let files = there();
    files.iter().for_each(|p| std::fs::write(p, "old").unwrap());
    assert!(files.len() > 4, "{files:?}");
    for args in outs {
        let limited = r#"trap "" XFSZ; ulimit -f 0; exec "$0" report one.json "$@""#;
        let mut c = Command::new("bash");
        c.args(["-c", limited, env!("CARGO_BIN_EXE_weir")]).args(args).current_dir(dir.path());
        let o = c.output().unwrap();
        assert_eq!(o.status.code(), Some(2), "{args:?}: {}", err(&o));
        assert!(err(&o).contains("File too large"), "{}", err(&o));
        assert_eq!(there(), files, "{args:?}");
        let is_old = |p: &PathBuf| std::fs::read_to_string(p).unwrap() == "old";
        assert!(files.iter().all(is_old), "{args:?}");
    }
}
