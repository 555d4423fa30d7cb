//! What the instrument itself is worth on a wire: the floor of its stamps, its pacing, and what a frame costs
//! its generator. Prints each with what it was measured over.
//!
//! `cargo run --release -p weir-measure --example wire_figures LEFT RIGHT [floor|pacing|cost]`, as root, with two
//! interfaces wired to each other, such as `ip link add LEFT type veth peer name RIGHT`.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;
use weir_io::{stamped, thread_cpu_time};
use weir_measure::control;
use weir_measure::document::{Document, Dut};
use weir_measure::engine::floor::{FloorSettings, measure};
use weir_measure::engine::run::{Rig, run};
use weir_measure::engine::wire::{Outlet, interface, unix_now};
use weir_measure::engine::{Core, Departures, Settings, ported};
use weir_measure::environment::{Environment, Program};
use weir_measure::module::load::Source;
use weir_measure::module::{Depth, Load, LoadId, Params};
use weir_measure::modules;
use weir_measure::probe::Headers;
use weir_openflow::channel::Versions;

type Anything = Box<dyn std::error::Error>;

fn main() -> Result<(), Anything> {
    let mut args = std::env::args().skip(1);
    let (Some(left), Some(right)) = (args.next(), args.next()) else {
        return Err("give two interfaces that are wired to each other".into());
    };
    let only = args.next();
    let wanted = |what: &str| only.as_deref().is_none_or(|o| o == what);
    if wanted("floor") {
        floors(&left, &right)?;
    }
    if wanted("pacing") {
        // Every interval of a short run; the mean of a long one, to which its ends matter less.
        pacing(&left, &right, "4")?;
        pacing(&left, &right, "20")?;
    }
    if wanted("cost") {
        let mut sender = stamped::Sender::open(&left)?;
        cost("AF_PACKET", &mut sender)?;
        drop(sender);
        let (mut channel, _) = ported::port(&format!("xdp:{left}"))?;
        cost("AF_XDP", channel.outlet.as_mut())?;
    }
    Ok(())
}

fn floors(left: &str, right: &str) -> Result<(), Anything> {
    floor(left, right, "nothing else running")?;
    let over = AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            while !over.load(Ordering::Relaxed) {
                std::hint::spin_loop();
            }
        });
        let done = floor(left, right, "a thread busy beside");
        over.store(true, Ordering::Relaxed);
        done
    })
}

fn floor(left: &str, right: &str, beside: &str) -> Result<(), Anything> {
    let (mut from, mut to) = (interface(left)?, interface(right)?);
    let settings = FloorSettings { frames: 50_000, ..FloorSettings::default() };
    let never = AtomicBool::new(false);
    let (o, i) = (from.outlet.as_mut(), to.inlet.as_mut());
    let f = measure(o, i, settings, "", "", &never)?;
    println!(
        "wire at 10,000 frames/s, {beside}: p50 {:.0} ns, p99 {:.0} ns, longest {:.0} ns, jitter {:.0} ns, drift {:.4} ppm; {} frames, {} lost",
        f.p50_ns,
        f.p99_ns,
        f.max_ns,
        f.jitter_ns.unwrap_or(f64::NAN),
        f.drift_ppm.unwrap_or(f64::NAN),
        f.frames,
        f.lost
    );
    Ok(())
}

/// The engine's generator at 100,000 frames a second, by the kernel's word when each left.
fn pacing(left: &str, right: &str, seconds: &str) -> Result<(), Anything> {
    let entry = modules::find("timestamps").ok_or("no module 'timestamps'")?;
    let mut params = Params::defaults(&entry.about, Depth::Quick)?;
    for (name, value) in
        [("rate", "80"), ("frame", "100"), ("duration", seconds), ("samples", "1000000")]
    {
        params.set(name, value)?;
    }
    let environment = Environment::here(Program { version: "", commit: None });
    let document = Document::new("timestamps", "", Dut::default(), environment);
    let channels = vec![interface(left)?, interface(right)?];
    let mut settings = Settings::new(channels.iter().map(|c| c.name.clone()).collect());
    settings.departures = Departures::Kernel;
    let core = Core::new(settings, (entry.make)(&params), params, document, unix_now());
    let dial: control::Dial = Box::new(|_| Err(std::io::Error::other("there is no switch")));
    let (versions, patience) = (Versions::ALL, Duration::from_secs(1));
    let control =
        control::Settings { dial, comes: control::Comes::Us, versions, patience, pcap: None };
    let rig = Rig { channels, control, sampler: None, reset: None, keep: None };
    let done = run(core, rig, &mut |_| {}, &AtomicBool::new(false))?;
    for t in done.tables.iter().filter(|t| t.id == "pacing") {
        for row in &t.rows {
            let cells = t.columns.iter().zip(row).map(|(c, v)| {
                let v = serde_json::to_string(v).unwrap_or_default();
                format!("{} {v} {}", c.name, c.unit)
            });
            println!("pacing over {seconds} s: {}", cells.collect::<Vec<_>>().join(", "));
        }
    }
    done.notes.iter().for_each(|n| println!("  {n}"));
    Ok(())
}

/// Frames per CPU-second of the sending thread, as fast as they go; nobody receives them.
fn cost(by: &str, outlet: &mut dyn Outlet) -> Result<(), Anything> {
    const FRAMES: u64 = 1_000_000;
    let load = Load::new(0, Headers::default(), 64, 1e9).only(FRAMES).telling_one_in(1 << 30);
    let load = Load { backlog: 1 << 20, burst: 32, ..load };
    let mut source = Source::new(LoadId(1), &load, unix_now())?;
    let mut batch = vec![Vec::new(); 32];
    let begin = thread_cpu_time();
    let mut refused = 0u64;
    while !source.is_done() {
        let now = unix_now();
        let n = source.due(now).min(32) as usize;
        for frame in &mut batch[..n] {
            source.next(now, frame);
        }
        let mut sent = 0;
        while sent < n {
            let took = outlet.send_telling(&batch[sent..n], &|_| false)?;
            refused += u64::from(took == 0);
            sent += took;
        }
    }
    let cpu = (thread_cpu_time() - begin).as_secs_f64();
    let rate = FRAMES as f64 / cpu / 1e6;
    println!(
        "generator by {by}: {rate:.2} million frames of 64 bytes per CPU-second; {FRAMES} frames, {refused} times none taken"
    );
    Ok(())
}
