//! What 001 states in its text and tables, and nothing that would have to be read off a picture.
//!
//! Data, and its way into documents: into tables and figures of the shape that the modules' own have, so
//! that they stand side by side; what is no number of theirs goes into a table of words.

use super::Study;
use crate::document::{Cell, Column, Document, Dut, Figure, Origin, Point, Series, Table};
use crate::environment::Environment;

/// The paper's switches, in its order.
const SWITCHES: [&str; 5] = ["Switch1", "OpenVSwitch", "Switch2", "Switch3", "NetFPGA"];

/// Median and standard deviation in µs, loss in percent; no frame came where there is no median.
type Cost = (Option<(f64, f64)>, f64);

const fn cost(median: f64, sd: f64, loss: f64) -> Cost {
    (Some((median, sd)), loss)
}

const LOST: Cost = (None, 100.0);

/// Table 2: a row for each modification, a column for each switch.
const TABLE_2: [(&str, [Cost; 5]); 8] = [
    (
        "Forward",
        [
            cost(4., 0., 0.),
            cost(35., 13., 0.),
            cost(6., 0., 0.),
            cost(5., 0., 0.),
            cost(3., 0., 0.),
        ],
    ),
    (
        "MAC addr.",
        [cost(4., 0., 0.), cost(35., 13., 0.), cost(302., 727., 88.), LOST, cost(3., 0., 0.)],
    ),
    (
        "IP addr.",
        [cost(3., 0., 0.), cost(36., 13., 0.), cost(302., 615., 88.), LOST, cost(3., 0., 0.)],
    ),
    ("IP ToS", [cost(3., 0., 0.), cost(36., 16., 0.), cost(6., 0., 0.), LOST, cost(3., 0., 0.)]),
    (
        "L4 port",
        [cost(3., 0., 0.), cost(35., 15., 0.), cost(302., 611., 88.), LOST, cost(3., 0., 0.)],
    ),
    (
        "VLAN pcp",
        [
            cost(3., 0., 0.),
            cost(36., 20., 0.),
            cost(6., 0., 0.),
            cost(5., 0., 0.),
            cost(3., 0., 0.),
        ],
    ),
    (
        "VLAN id",
        [
            cost(4., 0., 0.),
            cost(35., 17., 0.),
            cost(301., 610., 88.),
            cost(5., 0., 0.),
            cost(3., 0., 0.),
        ],
    ),
    (
        "VLAN rem.",
        [
            cost(4., 0., 0.),
            cost(35., 15., 0.),
            cost(335., 626., 88.),
            cost(5., 0., 0.),
            cost(3., 0., 0.),
        ],
    ),
];

/// §4.2, of Switch1: until one entry works, and for each of many.
const FIRST_ENTRY_MS: f64 = 1.8;
const PER_ENTRY_US: f64 = 1000.0;

/// What is stated in words, or not at all.
#[derive(Clone, Copy)]
enum Said {
    Words(&'static str),
    Number(f64),
    Nothing,
}
use Said::{Nothing, Number, Words};

/// A row of what is stated: of what, in which unit, of each switch.
type Statement = (&'static str, &'static str, [Said; 5]);

/// What figure 2's text states, of the two ways to take stamps that it compares.
fn figure_2() -> Table {
    let columns = ["stated", "pcap", "NetFPGA"].map(Column::text).to_vec();
    let mut table = Table::new("stated", "What 001 §2 and figure 2 state", columns);
    table.row(["drift after two minutes", "6 ms", "at the level of a few µs"].map(Cell::from));
    table.row(["jitter"].map(Cell::from));
    table
}

fn statements(study: &Study) -> (&'static str, Vec<Statement>) {
    match study.id {
        "oflops-actions" => (
            "001 §4.1 and table 2",
            vec![(
                "a combination costs",
                "",
                [
                    Words("what its dearest part costs"),
                    Words("what its dearest part costs"),
                    Words("what its dearest part costs"),
                    Words("what its dearest part costs"),
                    Words("what its dearest part costs"),
                ],
            )],
        ),
        "oflops-insert" => (
            "001 §4.2 and figure 3",
            vec![
                (
                    "first packet, one entry",
                    "ms",
                    [Number(FIRST_ENTRY_MS), Nothing, Nothing, Nothing, Nothing],
                ),
                (
                    "first packet, each of many entries",
                    "ms",
                    [Number(PER_ENTRY_US / 1e3), Nothing, Nothing, Nothing, Nothing],
                ),
                (
                    "the barrier's reply",
                    "",
                    [
                        Words("before any first packet"),
                        Nothing,
                        Words("barriers are not supported"),
                        Words("barriers are not supported"),
                        Words("as Switch1's (not reported)"),
                    ],
                ),
            ],
        ),
        "oflops-modify" => (
            "001 §4.2 and figure 4",
            vec![
                ("delay of insertion and modification", "ms", [Nothing; 5]),
                (
                    "modification takes longer than insertion",
                    "",
                    [
                        Words("for more than 10 entries"),
                        Words("no: kind of entry and change make no difference"),
                        Words("after a few tens of entries"),
                        Nothing,
                        Nothing,
                    ],
                ),
            ],
        ),
        "oflops-stats" => (
            "001 §4.3 and figure 5",
            vec![
                ("time to the reply", "ms", [Nothing; 5]),
                ("CPU utilisation", "%", [Nothing; 5]),
                (
                    "the reply's delay, by rate of asking",
                    "",
                    [
                        Words("near-constant"),
                        Words("near-constant, faster than hardware"),
                        Words("near-constant"),
                        Words("near-constant"),
                        Words("near-constant"),
                    ],
                ),
                (
                    "CPU, by rate of asking",
                    "",
                    [
                        Words("replies are delayed, the CPU is not overloaded"),
                        Words("no impact"),
                        Words("high: replies as fast as possible"),
                        Words("no SNMP"),
                        Words("no impact"),
                    ],
                ),
                (
                    "segments of a reply",
                    "",
                    [
                        Words(
                            "one for each flow at low rates, several flows in one at higher rates",
                        ),
                        Nothing,
                        Nothing,
                        Nothing,
                        Nothing,
                    ],
                ),
            ],
        ),
        "oflops-interaction" => (
            "001 §4.4 and figure 6",
            vec![
                ("update delay", "ms", [Nothing; 5]),
                (
                    "update delay, at higher polling rates",
                    "",
                    [
                        Words("does not differ much"),
                        Words("median marginally lower, variance higher"),
                        Words("noteworthy increase"),
                        Words("does not differ much"),
                        Nothing,
                    ],
                ),
            ],
        ),
        _ => (study.figure, Vec::new()),
    }
}

/// The table of what is stated, if there is anything to state.
pub(super) fn stated(study: &Study) -> Option<Table> {
    if study.id == "oflops-timestamps" {
        return Some(figure_2());
    }
    let (source, rows) = statements(study);
    if rows.is_empty() {
        return None;
    }
    let mut columns = vec![Column::text("stated"), Column::text("unit")];
    columns.extend(SWITCHES.map(Column::text));
    let mut table = Table::new("stated", &format!("What {source} state"), columns);
    for (what, unit, said) in rows {
        let cells = said.map(|s| match s {
            Words(w) => Cell::from(w),
            Number(n) => Cell::from(n),
            Nothing => Cell::NotStated,
        });
        table.row([Cell::from(what), Cell::from(unit)].into_iter().chain(cells));
    }
    Some(table)
}

/// A paper's switch as a document of the study's module.
fn switch(study: &Study, name: &str, source: &str) -> Document {
    let dut = Dut { name: format!("{name} (001)"), ..Dut::default() };
    let mut d = Document::new(study.module, study.asks, dut, Environment::nowhere());
    d.origin = Origin::Published(source.to_owned());
    d
}

/// The published values in the shape of what was measured: a document for each switch that has some.
pub(super) fn documents(study: &Study, measured: &[Document]) -> Vec<Document> {
    match study.id {
        "oflops-actions" => table_2(study, measured),
        "oflops-insert" => figure_3(study, measured),
        _ => Vec::new(),
    }
}

fn table_2(study: &Study, measured: &[Document]) -> Vec<Document> {
    let source = "001 table 2";
    let all = SWITCHES.iter().enumerate().map(|(at, name)| {
        let mut d = switch(study, name, source);
        if let Some(mut table) = like(measured, |d| d.tables.iter().find(|t| t.id == "actions")) {
            table.rows.clear();
            for (modification, costs) in &TABLE_2 {
                let Some((delay, loss)) = costs.get(at) else { continue };
                let of = |column: &str| match column {
                    "modification" => Cell::from(*modification),
                    "median" => Cell::from(delay.map(|d| d.0)),
                    "standard deviation" => Cell::from(delay.map(|d| d.1)),
                    "loss" => Cell::from(*loss),
                    _ => Cell::NotStated,
                };
                let cells: Vec<_> = table.columns.iter().map(|c| of(&c.name)).collect();
                table.row(cells);
            }
            d.tables.push(table);
        }
        let figure = |d: &Document| d.figures.iter().position(|f| f.id == "actions-delay");
        if let Some(f) = like(measured, |d| d.figures.get(figure(d)?)) {
            let mut series = Series::published("delay", source);
            for (n, (_, costs)) in TABLE_2.iter().enumerate() {
                let median = costs.get(at).and_then(|c| c.0);
                series.push(median.map_or(Point::missing(n as f64), |m| Point::new(n as f64, m.0)));
            }
            d.figures.push(Figure { series: vec![series], ..f });
        }
        d
    });
    all.collect()
}

fn figure_3(study: &Study, measured: &[Document]) -> Vec<Document> {
    let source = "001 §4.2";
    let mut d = switch(study, SWITCHES[0], source);
    if let Some(f) = like(measured, |d| d.figures.iter().find(|f| f.id == "flow-insertion")) {
        let mut series = Series::published("first packet", source);
        series.push(Point::new(1.0, FIRST_ENTRY_MS));
        d.figures.push(Figure { series: vec![series], ..f });
    }
    if let Some(mut table) = like(measured, |d| d.tables.iter().find(|t| t.id == "insertion")) {
        table.rows.clear();
        let one: (Cell, &[(&str, f64)]) = (Cell::from(1.0), &[("first packet", FIRST_ENTRY_MS)]);
        let many: (Cell, &[(&str, f64)]) = (Cell::from("many"), &[("per entry", PER_ENTRY_US)]);
        for (entries, values) in [one, many] {
            let of = |column: &str| match values.iter().find(|v| v.0 == column) {
                _ if column == "entries" => entries.clone(),
                Some(v) => Cell::from(v.1),
                None => Cell::NotStated,
            };
            let cells: Vec<_> = table.columns.iter().map(|c| of(&c.name)).collect();
            table.row(cells);
        }
        d.tables.push(table);
    }
    vec![d]
}

/// The first of its kind among the documents, to be filled anew.
fn like<'d, T: Clone + 'd>(
    measured: &'d [Document],
    find: impl Fn(&'d Document) -> Option<&'d T>,
) -> Option<T> {
    measured.iter().find_map(find).cloned()
}
