//! Two network functions of this data plane, predicted and then measured: this machine is calibrated briefly,
//! its profile is asked, and only then do frames run.
//!
//! Room: `validate`'s, for the tour. On a thread of its own, since a calibration binds its thread to one CPU.

use super::report::{Predicted, Predicting};
use crate::commands::estimate::{Files, shelf};
use crate::environment::PROGRAM;
use crate::functions;
use crate::validate::{Asker, Case, Locality, predicted};
use anyhow::{Context, Result, anyhow};
use std::time::Instant;
use weir_calibrate::{calibrate_only, text};
use weir_estimate::Profile;
use weir_measure::document::{Cell, Column, Document, Dut, Table};
use weir_measure::environment::Environment;

/// The functions, and entries of their tables.
const ASKED: [(&str, u32); 2] = [("l2-basic", 16_384), ("mpls-switch", 1024)];
/// Bytes of a frame, FCS included.
const FRAME_BYTES: u32 = 64;
/// Seconds of each measurement.
const SECONDS: f64 = 0.1;

/// What their estimates are made of: models and the pass through a VDP.
const OPERATIONS: [&str; 5] = ["vdp_pass", "rule_pass", "rule_lookup", "rule_next", "rule_program"];

/// Calibrates, predicts, measures; the document is for the page.
pub fn run() -> Result<(Predicting, Document)> {
    let found = std::thread::spawn(predict).join();
    let predicting = found.map_err(|_| anyhow!("the calibration came to no end"))??;
    let document = document(&predicting);
    Ok((predicting, document))
}

fn predict() -> Result<Predicting> {
    let begin = Instant::now();
    let library = shelf::library(&Files::default())?;
    let c = calibrate_only(&OPERATIONS, crate::platform::shapes(), &mut |_| ())?.whole()?;
    let text = text::profile(&c, "here", &["calibrated for the tour".to_owned()]);
    let profile = Profile::read("here", &text, library.operations())?;
    let calibration_seconds = begin.elapsed().as_secs_f64();
    let asker = Asker::new(library, profile)?;
    let mut functions = Vec::new();
    for (name, entries) in ASKED {
        let function = functions::named(name).context(name)?;
        let case = Case { function, entries, frame: FRAME_BYTES, locality: Locality::Uniform };
        let p = predicted(&case, &asker, SECONDS)?;
        let mfps = |cycles: f64| c.clock_hz / cycles / 1e6;
        functions.push(Predicted {
            function: name,
            entries,
            frame_bytes: FRAME_BYTES,
            predicted_mfps: mfps(p.estimate.cycles),
            interval_mfps: [p.estimate.interval_mpps.0, p.estimate.interval_mpps.1],
            measured_mfps: mfps(p.measured),
            error: p.measured / p.estimate.cycles - 1.0,
        });
    }
    Ok(Predicting {
        clock_mhz: c.clock_hz / 1e6,
        figures: c.figures,
        calibration_seconds,
        functions,
        seconds: begin.elapsed().as_secs_f64(),
    })
}

/// For the page.
fn document(p: &Predicting) -> Document {
    let dut = Dut { name: "weir's data plane".into(), ..Dut::default() };
    let environment = Environment::here(PROGRAM);
    let mut d =
        Document::new("predict", "Network functions, predicted and measured", dut, environment);
    d.paper = Some("002".into());
    d.duration_s = p.seconds;
    d.quick = true;
    const RATE: &str = "million frames per CPU-second";
    d.tables.push(Table {
        id: "functions".into(),
        title: "Estimate by a brief calibration, then measurement".into(),
        columns: vec![
            Column::text("function"),
            Column::number("entries", ""),
            Column::number("frame", "bytes"),
            Column::number("predicted", RATE),
            Column::number("measured", RATE),
            Column::number("error", "%"),
        ],
        rows: p
            .functions
            .iter()
            .map(|f| {
                vec![
                    Cell::Text(f.function.into()),
                    Cell::Number(f.entries.into()),
                    Cell::Number(f.frame_bytes.into()),
                    Cell::Number(f.predicted_mfps),
                    Cell::Number(f.measured_mfps),
                    Cell::Number(f.error * 100.0),
                ]
            })
            .collect(),
    });
    d.notes.push(format!(
        "Calibrated in {:.1} s ({} figures), without either function; then predicted; then measured.",
        p.calibration_seconds, p.figures
    ));
    d
}
