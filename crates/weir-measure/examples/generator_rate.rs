//! How many probes does the generator make, and how many does the receiver judge? Prints frames per
//! CPU-second of a thread, from memory.
//!
//! `cargo run --release -p weir-measure --example generator_rate [FRAME_BYTES_ON_WIRE] [FRAMES]`

use std::sync::atomic::AtomicBool;
use std::time::{Duration, Instant};
use weir_io::replay::Null;
use weir_measure::clock::{Monotonic, Wait};
use weir_measure::generator::{End, Load, generate};
use weir_measure::port::Port;
use weir_measure::probe::{Checker, Headers, Run, Stamper, Vary, Window, streams};
use weir_measure::{Rate, stats};
use weir_packet::Nanos;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut args = std::env::args().skip(1);
    let size = args.next().map_or(Ok(64), |a| a.parse())?;
    let frames = args.next().map_or(Ok(5_000_000), |a| a.parse())?;
    let set = streams(Headers::default(), &[Vary::SrcPort], 4, size)?;
    let clock = Monotonic::new(Wait::Spin);
    let load = Load {
        rate: Rate::new(1e12)?,
        end: End::After { frames, at_most: Duration::from_secs(60) },
        burst: 64,
        backlog: 64,
    };
    let mut made = Vec::new();
    for _ in 0..3 {
        let mut ports = [Port::new(Box::new(Null::new("null")), 256)?];
        let never = AtomicBool::new(false);
        let sent = generate(&mut ports, &set, Run(0), &load, &clock, &never)?;
        made.push(sent.frames as f64 / sent.cpu.as_secs_f64() / 1e6);
    }
    let median = stats::median(&made).unwrap_or(f64::NAN);
    println!("generator: {median:.1} million frames of {size} bytes per CPU-second");

    let mut judged = Vec::new();
    let stampers: Vec<_> = set.iter().map(|s| Stamper::new(s, Run(0))).collect::<Result<_, _>>()?;
    for _ in 0..3 {
        let mut checker = Checker::new(&set, Run(0), Window::default())?;
        let mut time = Duration::ZERO;
        let mut burst = vec![vec![0; size]; 64];
        for n in 0..frames / 64 / 4 {
            for (i, frame) in burst.iter_mut().enumerate() {
                if let Some(s) = stampers.get(i % stampers.len()) {
                    frame.resize(s.len(), 0);
                    s.write(n * 16 + i as u64 / 4, Nanos(0), frame);
                }
            }
            let start = Instant::now();
            for frame in &burst {
                checker.check(frame, 0, Nanos(0));
            }
            time += start.elapsed();
        }
        let received = checker.tally(&[]).total.received();
        judged.push(received as f64 / time.as_secs_f64() / 1e6);
    }
    let median = stats::median(&judged).unwrap_or(f64::NAN);
    println!("checker: {median:.1} million frames of {size} bytes per second");
    Ok(())
}
