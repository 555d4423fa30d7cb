//! What the page and its kin say, and what a hostile document can't make them do.

use super::*;
use crate::document::{
    Axis, Cell, Column, Dut, Evidence, Figure, Load, Outcome, Point, ProbeResolution, Samples,
    Series, Table, Verdict, WireFloor,
};
use crate::environment::{Environment, Program};
use proptest::prelude::*;

/// `flow-insert` as it might be found on a device, with `words` wherever words may stand.
fn found(device: &str, words: &str) -> Document {
    let dut = Dut {
        name: device.to_owned(),
        control: words.to_owned(),
        ports: vec![words.to_owned()],
        description: vec![(words.to_owned(), words.to_owned())],
    };
    let here = Environment::here(Program { version: "0.1.0", commit: None });
    let mut d = Document::new("flow-insert", "how long a flow takes to work", dut, here);
    d.paper = Some("001 figure 3".into());
    d.parameter("order", words, words);
    d.probe = Some(ProbeResolution::shared(12_500.0, 100, 1));
    d.wire = Some(WireFloor { stamps: words.to_owned(), p50_ns: 800.0, ..Default::default() });
    d.loads.push(Load { channel: words.to_owned(), sent_fps: 9_999.9, ..Default::default() });
    let verdict = Verdict::new("barrier-truthful", Outcome::Fails, words);
    d.verdicts.push(verdict.with(words, 0.9, words));
    let mut f = Figure::new("delay", words, Axis::log("flows", ""), Axis::log("delay", "ms"));
    let mut curve = Series::measured("barrier", words);
    curve.push(Point::with_spread(1.0, 0.1, 0.05, 0.2));
    curve.push(Point::new(10.0, 1.1));
    f.series = vec![curve, Series::published(words, words)];
    d.figures.push(f);
    let columns = vec![Column::text("action"), Column::number("loss", "%")];
    let mut t = Table::new("actions", words, columns);
    t.row([Cell::from("strip VLAN"), Cell::from(0.5)]);
    t.row([Cell::from(words)]);
    d.tables.push(t);
    let mut samples = Samples::new("ns");
    (1..=2000).for_each(|v| samples.record(f64::from(v)));
    d.distribution("barrier", words, samples);
    d.note(words);
    d
}

/// Without anything that a page has to contain.
const HOSTILE: &str = "</script></style></title>--><script>alert(1)</script><img src=x \
                       onerror=alert(1)>\"'&\u{1b}]0;owned\u{7}\u{202e}";

#[test]
fn a_hostile_device_stays_text() {
    let honest = html(&[found("switch", "plain")]);
    let mut d = found(HOSTILE, HOSTILE);
    d.id = HOSTILE.to_owned();
    d.title = HOSTILE.to_owned();
    d.environment.command = HOSTILE.to_owned();
    d.partial = Some(HOSTILE.to_owned());
    let page = html(std::slice::from_ref(&d));
    let body = |page: &str| page.split("</style>").last().map(str::to_owned).unwrap();
    for tag in ["<script", "</script", "<style", "<img", "<title"] {
        assert_eq!(body(&page).matches(tag).count(), body(&honest).matches(tag).count(), "{tag}");
    }
    assert!(!page.contains('\u{1b}') && !page.contains('\u{202e}') && !page.contains("\"'&"));
    let text = terminal::summary(&d, 80, 24);
    assert!(!text.contains(|c: char| c.is_control() && c != '\n'), "{text:?}");
    for line in lines::lines(std::slice::from_ref(&d)).lines() {
        serde_json::from_str::<serde_json::Value>(line).unwrap();
    }
    let names = csv::files(&[d]).into_iter().map(|f| f.0);
    let plain = |n: &str| n.chars().all(|c| c.is_ascii_alphanumeric() || "-._".contains(c));
    assert!(names.into_iter().all(|n| plain(&n) && !n.starts_with('.')));
}

/// The documents in the page are the documents.
#[test]
fn the_raw_data_is_inside() {
    let dir = tempfile::tempdir().unwrap();
    let mut d = found("a & b", HOSTILE);
    d.save(dir.path(), "x").unwrap();
    let page = html(std::slice::from_ref(&d));
    let block = |class: &str| {
        let from = page.find(class).unwrap();
        let text = &page[from..];
        text[text.find('>').unwrap() + 1..text.find("</script>").unwrap()].to_owned()
    };
    let back = Document::from_json(&block("class=\"document\"")).unwrap();
    d.distributions[0].raw.clear();
    assert_eq!(back, d);
    let samples: Vec<f64> =
        block("class=\"samples\"").lines().skip(1).map(|l| l.parse().unwrap()).collect();
    assert_eq!((samples.len(), samples[1999]), (2000, 2000.0));
    assert!(html(&[back]).contains("data-name=\"x.barrier.samples.txt\"></script>"));
}

/// Of more devices than fit beside each other there are several tables, none wider than the others.
#[test]
fn many_devices_stand_in_several_tables() {
    let names: Vec<String> = (0..17).map(|n| format!("switch-{n}")).collect();
    let all: Vec<Document> = names.iter().map(|n| found(n, "words")).collect();
    let page = html(&all);
    let tables: Vec<&str> = page.split("<table class=\"matrix\">").skip(1).collect();
    let heads: Vec<usize> = tables
        .iter()
        .map(|t| t.split("</thead>").next().unwrap().matches("<th scope=\"col\">").count() - 1)
        .collect();
    assert_eq!(heads, [6, 6, 5]);
    let rows: usize = tables.iter().map(|t| t.matches("<th scope=\"row\">").count()).sum();
    assert!(
        rows >= 3 && names.iter().all(|n| page.contains(&format!("<th scope=\"col\">{n}</th>")))
    );
}

#[test]
fn side_by_side() {
    let (a, mut b) = (found("ovs", "w"), found("weir", "w"));
    b.figures[0].series[0].points[0].y = Some(0.2);
    let documents = [a.clone(), b, a];
    let all = pair::modules(&documents);
    assert_eq!(all.len(), 1);
    let labels: Vec<&str> = all[0].documents.iter().map(|d| d.0.as_str()).collect();
    assert_eq!(labels, ["ovs", "weir", "ovs (run 2)"]);
    let figures = all[0].figures();
    let names: Vec<&str> = figures[0].series.iter().map(|s| s.name.as_str()).collect();
    // A paper's curve stands once.
    assert_eq!(names, ["ovs: barrier", "w", "weir: barrier", "ovs (run 2): barrier"]);
    assert_eq!(figures[0].series[2].points[0], [1.0, 200.0, 50.0, 200.0].map(Some));
    let tables = grid::tables(&all[0]);
    let rows: Vec<String> =
        tables[0].rows.iter().map(|r| format!("{} {}", r[0].shown(), r[1].shown())).collect();
    assert_eq!(
        rows,
        [
            "strip VLAN ovs",
            "strip VLAN weir",
            "strip VLAN ovs (run 2)",
            "w ovs",
            "w weir",
            "w ovs (run 2)"
        ]
    );
    assert_eq!(stems(&documents), ["flow-insert-ovs", "flow-insert-weir", "flow-insert-ovs-2"]);
}

#[test]
fn percentiles_are_told_only_as_far_as_values_go() {
    let mut d = found("x", "w");
    let mut few = Samples::new("ns");
    (1..=50).for_each(|v| few.record(f64::from(v) * 1e6));
    d.distributions.clear();
    d.distribution("few", "few", few);
    let documents = [d];
    let m = &pair::modules(&documents)[0];
    let curve = &m.percentile_curves()[0];
    assert_eq!((curve.y.unit.as_str(), curve.y.scale), ("ms", pair::PlotScale::Log));
    let last: Vec<f64> = curve.series[0].points.iter().rev().filter_map(|p| p[0]).take(2).collect();
    assert_eq!(last, [100.0, 97.5], "the 99th of fifty is only the largest");
    let grid = grid::distributions(m);
    let shown: Vec<String> = grid.rows[0].iter().map(grid::Shape::shown).collect();
    assert_eq!(shown[..8], ["few", "50", "0", "ms", "1", "25", "45", ""]);
}

#[test]
fn a_screen() {
    let mut d = found("early-barrier", "words");
    d.verdicts[0].sentence = "The barrier reply comes before the rule works. ".repeat(4);
    for (width, height) in [(80, 24), (40, 8), (0, 0), (200, 60)] {
        let text = terminal::summary(&d, width, height);
        assert!(text.lines().count() <= height.max(8), "{height}: {text}");
        assert!(text.lines().all(|l| l.chars().count() <= width.max(40)), "{width}: {text}");
        assert!(text.contains("✗ fails barrier-truthful"), "{text}");
    }
    let text = terminal::summary(&d, 80, 24);
    assert!(text.starts_with("flow-insert on early-barrier: how long a flow takes to work (001 "));
    assert!(text.contains("a flow is probed every 80 µs"), "{text}");
    assert!(text.contains("barrier: 0.1 at 1 … 1.1 at 10"), "{text}");
    assert!(text.contains("\nstrip VLAN         0.5\nwords       not stated\n"), "{text}");
    assert!(text.contains("\n· words\n"), "a reader must know what is noted: {text}");
    assert!(terminal::summary(&d, 80, 12).contains("lines more: weir report FILE"), "{text}");
}

#[test]
fn csv_as_rfc_4180_has_it() {
    let files = csv::files(&[found("x", "a \"b\", c")]);
    let file = |end: &str| &files.iter().find(|f| f.0.ends_with(end)).unwrap().1;
    let figure = file(".figure.delay.csv");
    let head = "series,origin,flows,delay (ms),low,high,spread\r\n";
    assert_eq!(
        *figure,
        format!(
            "{head}barrier,measured,1,0.1,0.05,0.2,\"a \"\"b\"\", c\"\r\n\
             barrier,measured,10,1.1,,,\"a \"\"b\"\", c\"\r\n"
        )
    );
    let table = file(".table.actions.csv");
    assert_eq!(*table, "action,loss (%)\r\nstrip VLAN,0.5\r\n\"a \"\"b\"\", c\",\r\n");
    assert_eq!(files.len(), 5, "parameters, verdicts, figure, table, distributions");
}

#[test]
fn nothing_is_no_trouble() {
    let bare = Document::new("", "", Dut::default(), found("x", "w").environment);
    for documents in [&[][..], &[bare][..]] {
        let page = html(documents);
        assert!(page.starts_with("<!DOCTYPE html>") && page.ends_with("</html>\n"));
        assert!(page.contains("come to no verdict"));
    }
    let e = Evidence { what: "x".into(), value: None, unit: String::new() };
    let mut d = found("x", "w");
    d.verdicts[0].evidence.push(e);
    assert!(html(&[d]).contains("<b>none</b>"));
}

proptest! {
    /// Whatever words a document has: the page's elements are the same, and its lines are JSON.
    #[test]
    fn any_words_are_survived(words in "\\PC{0,40}", device in ".{0,20}", width in 0..120usize) {
        let d = found(&device, &words);
        let page = html(std::slice::from_ref(&d));
        let count = |page: &str| page.matches("<script").count();
        prop_assert_eq!(count(&page), count(&html(&[found("x", "w")])));
        prop_assert!(terminal::summary(&d, width, 24).lines().count() <= 24);
        for line in lines::lines(&[d]).lines() {
            prop_assert!(serde_json::from_str::<serde_json::Value>(line).is_ok());
        }
    }
}
