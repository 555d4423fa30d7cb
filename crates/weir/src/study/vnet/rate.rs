//! `vnet-rate64`, `vnet-rate1512`: 003's figures 11 and 12. Delivered against offered rate.

use super::drive::{Drive, Spread, running, streams};
use super::element::{Bed, Shape};
use super::{elements, repetitions, series};
use crate::study::report::{Axis, Point, Report};
use crate::study::{Plan, Watch};
use anyhow::Result;
use std::time::Duration;
use weir_dataplane::Serving;

/// What was asked of the source.
pub const OFFERED: Axis = Axis { name: "offered rate", unit: "kp/s" };
/// What came.
pub const DELIVERED: Axis = Axis { name: "delivered rate", unit: "kp/s" };
const REAL: Axis = Axis { name: "rate that the source really offered", unit: "kp/s" };

/// Offered rates in kp/s: to beyond what any source here reaches, or a Gigabit of large frames and more.
const SMALL: [f64; 8] = [50.0, 100.0, 200.0, 400.0, 600.0, 800.0, 1000.0, 1400.0];
const LARGE: [f64; 6] = [20.0, 40.0, 60.0, 81.0, 120.0, 200.0];

/// Runs it.
pub fn run(bytes: usize, plan: &Plan, watch: &mut Watch<'_>, report: &mut Report) -> Result<()> {
    let rates: &[f64] = if bytes == 64 { &SMALL } else { &LARGE };
    let time = plan.depth.of(Duration::from_millis(10), Duration::from_millis(300));
    let (mut delivered, mut offered) = (Vec::new(), Vec::new());
    for element in elements(report) {
        watch.next(&format!("{}, frames of {bytes} bytes", element.name()))?;
        let mut bed = Bed::new(element, Shape::ONE)?;
        let streams = streams(&bed, Spread::Flows(1), bytes);
        let (mut came, mut went) = (Vec::new(), Vec::new());
        let mut drive = Drive::new(&bed)?;
        let none = |_: &weir_dataplane::Runner| Ok(());
        running(&mut bed, Serving::Worker, none, |bed| {
            // The first frames find pages and fill caches.
            drive.send(bed, &streams, 10_000.0, Duration::from_millis(5))?;
            for kpps in rates {
                let all = (0..repetitions(plan.depth))
                    .map(|_| drive.send(bed, &streams, kpps * 1e3, time))
                    .collect::<Result<Vec<_>>>()?;
                came.push(Point::of(*kpps, all.iter().map(|d| d.arrived / 1e3).collect()));
                went.push(Point::of(*kpps, all.iter().map(|d| d.offered / 1e3).collect()));
            }
            Ok(())
        })?;
        delivered.push(series(element.name(), OFFERED, DELIVERED, came));
        offered.push(series(element.name(), OFFERED, REAL, went));
    }
    report.series.extend(delivered);
    report.series.extend(offered);
    report.condition("frames", format!("{bytes} bytes (FCS included), IPv4 and UDP, one flow"));
    report.condition(
        "trials",
        format!("{} of {} ms at each rate", repetitions(plan.depth), time.as_millis()),
    );
    Ok(())
}
