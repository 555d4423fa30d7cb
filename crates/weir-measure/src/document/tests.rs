//! Documents to JSON and back, and what is refused.

use super::*;
use crate::environment::{Environment, Program};
use proptest::prelude::*;

fn sample() -> Document {
    let dut = Dut {
        name: "early-barrier".into(),
        control: "tcp:127.0.0.1:6653".into(),
        ports: vec!["p0".into(), "p1".into()],
        description: vec![("hardware".into(), "<script>alert(1)</script>".into())],
    };
    let here = Environment::here(Program { version: "0.1.0", commit: None });
    let mut d = Document::new("flow-insert", "how long a flow takes to work", dut, here);
    d.paper = Some("001 figure 3".into());
    d.quick = true;
    d.partial = Some("the switch closed the connection".into());
    d.parameter("flows", 100_u32, "");
    d.parameter("order", "descending", "");
    d.probe = Some(ProbeResolution::shared(12_500.0, 100, 1));
    d.wire = Some(WireFloor { stamps: "kernel software".into(), frames: 10, ..Default::default() });
    d.loads.push(Load { channel: "p0".into(), asked_fps: Some(1e4), ..Default::default() });
    let verdict = Verdict::new("barrier-truthful", Outcome::Fails, "It is early.");
    d.verdicts.push(verdict.with("lead", 0.9, "ms").with("none", f64::NAN, ""));
    let axes = (Axis::log("flows", ""), Axis::log("delay", "ms"));
    let mut figure = Figure::new("delay", "Insertion delay", axes.0, axes.1);
    let mut barrier = Series::measured("barrier", "10th to 90th percentile");
    barrier.push(Point::with_spread(1.0, 0.1, 0.05, 0.2));
    barrier.push(Point::missing(2.0));
    figure.series = vec![barrier, Series::published("Switch1", "001 §4.1")];
    d.figures.push(figure);
    let mut table =
        Table::new("a", "Actions", vec![Column::text("action"), Column::number("loss", "%")]);
    table.row([Cell::from("strip VLAN"), Cell::from(0.5)]);
    table.row([Cell::from("vlan pcp")]);
    table.row([Cell::from("x"), Cell::from(None)]);
    d.tables.push(table);
    let mut samples = Samples::new("ns").in_group("delays");
    for v in [3.0, -1.5, 2.25e-7, 4.0e17, f64::NAN] {
        samples.record(v);
    }
    d.distribution("barrier", "barrier", samples);
    d.note("loaded machine");
    d
}

/// What is read has no `NaN` in a cell, and no samples.
fn without_raw(mut d: Document) -> Document {
    d.distributions.iter_mut().for_each(|d| d.raw.clear());
    d
}

#[test]
fn there_and_back() {
    let d = sample();
    let json = d.to_json().unwrap();
    assert_eq!(Document::from_json(&json).unwrap(), without_raw(d.clone()));
    assert!(json.contains("[2.0,null,null,null]"), "{json}");
    assert!(json.contains(r#"{"published":"001 §4.1"}"#), "{json}");
    assert!(json.contains(r#"["vlan pcp",null]"#) && json.contains(r#"["x","none"]"#), "{json}");
    assert_eq!(d.probe.unwrap().interval_ns, 80_000.0, "001 §4.2");
}

#[test]
fn samples_lie_beside_it() {
    let dir = tempfile::tempdir().unwrap();
    let mut d = sample();
    let path = d.save(dir.path(), "flow-insert-early-barrier").unwrap();
    assert_eq!(Document::load(&path).unwrap(), d);
    let samples = dir.path().join("flow-insert-early-barrier.barrier.samples.txt");
    assert_eq!(std::fs::read_to_string(&samples).unwrap(), "# ns\n3\n-1.5\n2.25e-7\n4e17\n");
    for (text, why) in [
        ("# ns\n3\n", "1 samples, and the document says 4"),
        ("# ns\n3\nx\n", "line 3: \"x\" is not a number"),
        ("inf\n", "line 1: \"inf\" is not a number"),
    ] {
        std::fs::write(&samples, text).unwrap();
        let e = Document::load(&path).unwrap_err().to_string();
        assert!(e.ends_with(why) && e.starts_with(samples.to_str().unwrap()), "{e}");
    }
    std::fs::remove_file(&samples).unwrap();
    assert!(Document::load(&path).unwrap().distributions[0].raw.is_empty());
}

#[test]
fn what_is_refused() {
    let json = sample().to_json().unwrap();
    let with = |from: &str, to: &str| {
        assert!(json.contains(from), "{from}");
        Document::from_json(&json.replacen(from, to, 1)).unwrap_err().to_string()
    };
    let kind = with("\"kind\":\"measurement\"", "\"kind\":\"study\"");
    assert_eq!(kind, "not the result of a measurement: \"kind\" is \"study\", not \"measurement\"");
    let newer = with("\"schema\":1", "\"schema\":2");
    assert_eq!(newer, "schema 2, and this weir reads up to 1: read it with a newer weir");
    let wide = with("[\"vlan pcp\",null]", "[1]");
    assert_eq!(wide, "table \"a\": row 2 has 1 cells for 2 columns");
    let word = with("\"outcome\":\"fails\"", "\"outcome\":\"perhaps\"");
    assert!(word.starts_with("unknown variant `perhaps`, expected one of `holds`"), "{word}");
    let id = with("\"id\":\"barrier\"", "\"id\":\"../barrier\"");
    assert!(id.ends_with("an id has letters, digits, '-' and '_'"), "{id}");
    for text in ["", "{}", "[]", "null", "{\"kind\":\"measurement\"}", "\u{feff}{}"] {
        assert!(!Document::from_json(text).unwrap_err().to_string().contains('\n'), "{text}");
    }
    let mut bad = sample();
    bad.figures[0].series[0].push(Point::new(f64::NAN, 1.0));
    let e = bad.to_json().unwrap_err().to_string();
    assert_eq!(e, "figure \"delay\", series \"barrier\": point 3 has no x");
    let mut bad = sample();
    for name in ["/etc/passwd", "../x", "a/b", ".hidden", ""] {
        bad.distributions[0].samples = Some(SampleFile { file: name.into(), count: 1 });
        assert!(bad.to_json().unwrap_err().to_string().ends_with("bare name"), "{name}");
    }
    let e = Document::load(std::path::Path::new("/none/x.json")).unwrap_err().to_string();
    assert!(e.starts_with("/none/x.json: "), "{e}");
}

proptest! {
    #[test]
    fn any_text_is_survived(text in "\\PC{0,200}") {
        let _ = Document::from_json(&text);
    }

    /// One byte of a document changed: read or refused, and what is read can be written again.
    #[test]
    fn any_change_is_survived(at in any::<prop::sample::Index>(), byte in any::<u8>()) {
        let mut bytes = sample().to_json().unwrap().into_bytes();
        let at = at.index(bytes.len());
        bytes[at] = byte;
        if let Ok(d) = Document::from_json(&String::from_utf8_lossy(&bytes)) {
            prop_assert!(d.to_json().is_ok());
        }
    }
}

/// The fuzzer's seed is a document, so that it begins behind the door.
#[test]
fn the_seed_is_read() {
    let seed = include_str!("../../../../fuzz/seeds/measure_document/all");
    Document::from_json(seed).unwrap();
}
