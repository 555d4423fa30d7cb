//! The report in a real browser: headless Chromium opens it from disk, draws every picture, says nothing
//! on its console, and runs nothing that a device said.
//!
//! SKIPPED without Chromium (package chromium).

use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};
use weir_measure::document::{
    Axis, Cell, Column, Document, Dut, Figure, Outcome, Point, Samples, Series, Table, Verdict,
};
use weir_measure::environment::{Environment, Program};
use weir_measure::report::html;

fn chromium(test: &str) -> Option<&'static str> {
    let path = std::env::var("PATH").unwrap_or_default();
    let there = |name: &&&str| path.split(':').any(|d| Path::new(d).join(name).exists());
    let found = ["chromium", "chromium-browser", "google-chrome"].iter().find(there).copied();
    if found.is_none() {
        eprintln!("SKIPPED: {test} needs Chromium (package chromium)");
    }
    found
}

const HOSTILE: &str = "</script><script>document.documentElement.dataset.owned='yes'</script>\
                       <img src=x onerror=\"document.documentElement.dataset.owned='yes'\">";

fn measured(device: &str, words: &str) -> Document {
    let dut = Dut {
        name: device.into(),
        description: vec![("hardware".into(), words.into())],
        ..Dut::default()
    };
    let here = Environment::here(Program { version: "0.1.0", commit: None });
    let mut d = Document::new("flow-insert", words, dut, here);
    d.verdicts.push(Verdict::new("barrier", Outcome::Fails, words).with(words, 1.0, words));
    let log = |label: &str| Axis::log(label, "ms");
    let mut f = Figure::new("delay", words, log(words), log("delay"));
    let mut s = Series::measured(words, words);
    for x in [1.0, 10.0, 100.0] {
        s.push(Point::with_spread(x, x * 2.0, x, x * 3.0));
    }
    s.push(Point::missing(1000.0));
    let mut below_zero = Series::measured("zero", "");
    below_zero.push(Point::new(5.0, 0.0));
    f.series = vec![s, below_zero, Series::published("theirs", words)];
    d.figures.push(f);
    d.figures.push(Figure::new("empty", "nothing", Axis::linear("x", ""), Axis::linear("y", "")));
    let mut one = Figure::new("one", "one point", Axis::linear("x", ""), Axis::linear("y", ""));
    let mut s = Series::measured("one", "");
    s.push(Point::new(0.0, 0.0));
    one.series.push(s);
    d.figures.push(one);
    let mut t = Table::new("t", words, vec![Column::text("a"), Column::number("b", "%")]);
    t.row([Cell::from(words), Cell::from(1.5)]);
    d.tables.push(t);
    let mut samples = Samples::new("ns");
    (1..=500).for_each(|v| samples.record(f64::from(v) * 100.0));
    d.distribution("delay", words, samples);
    d
}

/// How long Chromium may take, which is done in a second or two; on a busy machine it is now and then never done.
const PATIENCE: Duration = Duration::from_secs(60);

/// The page as Chromium has it after its script, and what was said on the console. One that hangs is ended, and asked once more.
fn open(browser: &str, page: &str, more: &[&str]) -> (String, String) {
    let once = || open_once(browser, page, more);
    once().or_else(once).unwrap_or_else(|| panic!("{browser} was not done in {PATIENCE:?}, twice"))
}
fn open_once(browser: &str, page: &str, more: &[&str]) -> Option<(String, String)> {
    let dir = tempfile::tempdir().unwrap();
    let at = |name: &str| dir.path().join(name);
    std::fs::write(at("report.html"), page).unwrap();
    let profile = format!("--user-data-dir={}", at("profile").display());
    let mut c = Command::new(browser);
    c.args(["--headless", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", &profile]);
    c.args(["--enable-logging=stderr", "--virtual-time-budget=10000", "--dump-dom"]).args(more);
    c.arg(format!("file://{}", at("report.html").display()));
    // Into files: nobody reads a pipe while it is waited for.
    let file = |name| std::fs::File::create(at(name)).unwrap();
    let mut running = c.stdout(file("dom")).stderr(file("said")).spawn().unwrap();
    let start = Instant::now();
    while running.try_wait().unwrap().is_none() {
        if start.elapsed() > PATIENCE {
            running.kill().unwrap();
            running.wait().unwrap();
            return None;
        }
        std::thread::sleep(Duration::from_millis(20));
    }
    let text = |name| String::from_utf8_lossy(&std::fs::read(at(name)).unwrap()).into_owned();
    let said = text("said");
    let console: Vec<&str> = said.lines().filter(|l| l.contains("CONSOLE")).collect();
    Some((text("dom"), console.join("\n")))
}

#[test]
fn it_opens_draws_and_says_nothing() {
    let Some(browser) = chromium("it_opens_draws_and_says_nothing") else { return };
    let page = html(&[measured("honest", HOSTILE), measured(HOSTILE, "words")]);
    for more in [&[][..], &["--window-size=500,900", "--force-dark-mode"][..]] {
        let (dom, console) = open(browser, &page, more);
        assert_eq!(console, "");
        // A picture each of what has the same axes or title in both, two of what has not.
        assert!(dom.contains("data-ready=\"6\""), "{}", &dom[..dom.len().min(300)]);
        assert_eq!(dom.matches("class=\"hit\"").count(), 6);
        assert!(!dom.contains("data-owned"), "what a device said was run");
        assert!(dom.contains("Save the document: flow-insert-honest.json"));
        assert!(dom.contains("nothing was measured") && dom.contains("(1 not measured)"));
        assert!(dom.contains("1 value at or below zero not drawn"));
    }
}

/// Were escaping forgotten somewhere, the page's policy would still stop it; and the console is read.
#[test]
fn the_policy_stops_a_script_that_is_not_ours() {
    let Some(browser) = chromium("the_policy_stops_a_script_that_is_not_ours") else { return };
    let page = html(&[measured("x", "words")]);
    let broken = page.replacen("<main>", &format!("<main>{}", &HOSTILE["</script>".len()..]), 1);
    assert_ne!(page, broken);
    let (dom, console) = open(browser, &broken, &[]);
    assert!(console.contains("Content Security Policy"), "{console}");
    assert!(dom.contains("data-ready=\"4\"") && !dom.contains("data-owned=\"yes\""));
}

/// Pointer, keys and buttons, by a script of the test's (so this page goes without its policy).
const USE: &str = r#"<script>
(async () => {
  const said = {};
  const figure = document.querySelector("figure.plot");
  const svg = () => figure.querySelector("svg.hit");
  const tip = figure.querySelector(".tip");
  const key = (name) => svg().dispatchEvent(new KeyboardEvent("keydown", { key: name, bubbles: true }));
  key("ArrowRight"); said.first = tip.textContent; key("ArrowRight"); said.second = tip.textContent;
  key("ArrowDown"); said.other = tip.textContent; key("Escape"); said.hidden = tip.hidden;
  const mark = svg().querySelectorAll("circle")[0], box = mark.getBoundingClientRect();
  svg().dispatchEvent(new PointerEvent("pointermove", { clientX: box.x + 5, clientY: box.y + 5, bubbles: true }));
  said.pointed = tip.textContent;
  said.curves = figure.querySelectorAll(".curve").length;
  figure.querySelector(".legend button").click();
  said.without = figure.querySelectorAll(".curve").length;
  const y = [...figure.querySelectorAll(".tools button")].find((b) => b.textContent === "log y");
  said.pressed = y.getAttribute("aria-pressed"); y.click(); said.then = y.getAttribute("aria-pressed");
  const table = [...document.querySelectorAll("table.data")].find((t) => t.dataset.name === "sorted");
  const cells = () => [...table.tBodies[0].rows].map((r) => r.cells[1].textContent).join(" ");
  const head = table.tHead.rows[0].cells[1].querySelector("button");
  head.click(); said.up = cells(); head.click(); said.down = cells();
  let saved = null;
  const url = URL.createObjectURL;
  URL.createObjectURL = (blob) => { saved = blob; return url(blob); };
  table.parentElement.nextElementSibling.querySelector("button").click();
  said.csv = await saved.text();
  document.querySelector(".downloads button").click();
  said.id = JSON.parse(await saved.text()).id;
  document.documentElement.dataset.said = JSON.stringify(said);
})();
</script></body>"#;

#[test]
fn pointer_keys_and_buttons() {
    let Some(browser) = chromium("pointer_keys_and_buttons") else { return };
    let mut d = measured("honest", "words");
    let mut t = Table::new("sorted", "sorted", vec![Column::text("a"), Column::number("b", "")]);
    for (word, n) in [("x, y", 1000.0), ("b", 9.0), ("c", -50.0)] {
        t.row([Cell::from(word), Cell::from(n)]);
    }
    t.row([Cell::from("d")]);
    d.tables.push(t);
    let page = html(&[d]).replacen("http-equiv=\"Content-Security-Policy\"", "", 1);
    let (dom, console) = open(browser, &page.replacen("</body>", USE, 1), &[]);
    assert_eq!(console, "");
    let said = dom
        .split("data-said=\"")
        .nth(1)
        .and_then(|t| t.split('"').next())
        .expect("it ran to the end");
    let said: serde_json::Value = serde_json::from_str(&said.replace("&quot;", "\"")).unwrap();
    let text = |name: &str| said[name].as_str().unwrap().to_owned();
    assert_eq!(text("first"), "words\nwords: 1 ms\ndelay: 2 ms\nwords: 1 to 3 ms");
    assert_eq!(text("second"), "words\nwords: 10 ms\ndelay: 20 ms\nwords: 10 to 30 ms");
    // Zero has no place on a logarithmic axis, so the only other curve of points has none.
    assert!(text("other").starts_with("words") && said["hidden"] == true, "{said}");
    assert_eq!(text("pointed"), text("first"));
    assert_eq!((&said["curves"], &said["without"]), (&1.into(), &0.into()));
    assert_eq!((text("pressed"), text("then")), ("true".into(), "false".into()));
    // Numbers by size, not by letters; what is not stated comes last.
    assert_eq!(text("up"), "-50 9 1,000 not stated");
    assert_eq!(text("down"), "1,000 9 -50 not stated");
    assert_eq!(text("csv"), "a,b\r\n\"x, y\",1000\r\nb,9\r\nc,-50\r\nd,\r\n");
    assert_eq!(text("id"), "flow-insert");
}
