//! How many frames per CPU-second does a bare loop forward between two AF_XDP ports over veth?
//!
//! Makes three network namespaces, sends 60-byte frames from the first by AF_XDP, forwards them in
//! the second, lets the third drop them in its stack. Needs root and iproute2.
//!
//! `cargo run --release --example xdp_forward [native|generic|af_packet] [SECONDS]`

use std::process::{Child, Command, ExitCode};
use std::sync::Arc;
use std::time::{Duration, Instant};
use weir_io::af_packet::AfPacket;
use weir_io::af_xdp::{AfXdp, Mode, Options, OtherEnd, Umem};
use weir_io::replay::{Arena, Passes, Replay};
use weir_packet::{Burst, Device, DeviceError, Pool};

type Failure = Box<dyn std::error::Error>;

fn main() -> ExitCode {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let args: Vec<&str> = args.iter().map(String::as_str).collect();
    let done = match args.as_slice() {
        ["--send", seconds] => send(seconds),
        ["--forward", kind, seconds] => forward(kind, seconds),
        [] => lab("native", "3"),
        [kind] => lab(kind, "3"),
        [kind, seconds, ..] => lab(kind, seconds),
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(e) => {
            eprintln!("xdp_forward: {e}");
            ExitCode::FAILURE
        }
    }
}

/// Deletes the namespaces when dropped.
struct Namespaces(Vec<String>);

impl Drop for Namespaces {
    fn drop(&mut self) {
        for n in &self.0 {
            let _ = Command::new("ip").args(["netns", "del", n]).status();
        }
    }
}

fn ip(args: &str) -> Result<(), Failure> {
    let ok = Command::new("ip").args(args.split(' ')).status()?.success();
    if ok { Ok(()) } else { Err(format!("'ip {args}' failed: root is needed").into()) }
}

fn lab(kind: &str, seconds: &str) -> Result<(), Failure> {
    let names = ["a", "w", "b"].map(|n| format!("fwd{}{n}", std::process::id()));
    let _namespaces = Namespaces(names.to_vec());
    for n in &names {
        ip(&format!("netns add {n}"))?;
    }
    let [a, w, b] = &names;
    for (port, host) in [("p1", a), ("p2", b)] {
        ip(&format!("link add {port} netns {w} type veth peer name eth0 netns {host}"))?;
        ip(&format!("-n {w} link set {port} up"))?;
        ip(&format!("-n {host} link set eth0 up"))?;
    }
    let me = std::env::current_exe()?;
    let start = |n: &str, args: &[&str]| -> std::io::Result<Child> {
        Command::new("ip").args(["netns", "exec", n]).arg(&me).args(args).spawn()
    };
    let mut forwarder = start(w, &["--forward", kind, seconds])?;
    let mut sender = start(a, &["--send", seconds])?;
    let ok = forwarder.wait()?.success();
    sender.wait()?;
    if ok { Ok(()) } else { Err("the forwarder failed".into()) }
}

/// Sends for longer than the forwarder measures.
fn send(seconds: &str) -> Result<(), Failure> {
    let mut frame = vec![0; 60];
    frame[..14].copy_from_slice(&[2, 0, 0, 0, 0, 9, 2, 0, 0, 0, 0, 1, 8, 0]);
    let mut arena = Arena::new();
    arena.push(&frame, None, 0);
    let mut pool = Pool::new(4096, 2048)?;
    let mut source = Replay::new("source", Arc::new(arena), Passes::Forever);
    let options = Options { other_end: OtherEnd::Leave, ..Options::default() };
    let mut port = AfXdp::open("eth0", options, &Umem::new(), &mut pool)?;
    let mut burst = Burst::new();
    let end = Instant::now() + Duration::from_secs(seconds.parse::<u64>()? + 2);
    while Instant::now() < end {
        source.rx(&mut pool, &mut burst);
        port.tx(&mut pool, &mut burst);
        port.flush(&mut pool);
    }
    port.close(&mut pool);
    Ok(())
}

fn open(kind: &str, pool: &mut Pool) -> Result<[Box<dyn Device>; 2], DeviceError> {
    let umem = Umem::new();
    let mut one = |name: &str| -> Result<Box<dyn Device>, DeviceError> {
        let mode = match kind {
            "af_packet" => return Ok(Box::new(AfPacket::open(name, pool)?)),
            "generic" => Mode::Generic,
            _ => Mode::Native,
        };
        Ok(Box::new(AfXdp::open(name, Options { mode, ..Options::default() }, &umem, pool)?))
    };
    Ok([one("p1")?, one("p2")?])
}

fn forward(kind: &str, seconds: &str) -> Result<(), Failure> {
    let mut pool = Pool::new(16_384, 2048)?;
    let mut ports = open(kind, &mut pool)?;
    let mut bursts = [Burst::new(), Burst::new()];
    let mut round = || {
        let mut n = 0;
        for from in [0, 1] {
            let burst = &mut bursts[from];
            n += ports[from].rx(&mut pool, burst);
            ports[1 - from].tx(&mut pool, burst);
        }
        for p in &mut ports {
            p.flush(&mut pool);
        }
        n as u64
    };
    while round() == 0 {}
    let (start, cpu) = (Instant::now(), weir_io::thread_cpu_time());
    let seconds: u64 = seconds.parse()?;
    let (mut frames, mut rounds) = (0, 0);
    while start.elapsed() < Duration::from_secs(seconds) {
        for _ in 0..64 {
            let n = round();
            frames += n;
            rounds += u64::from(n > 0);
        }
    }
    let (wall, cpu) = (start.elapsed(), weir_io::thread_cpu_time() - cpu);
    println!(
        "{kind}: {frames} frames, {:.3} million per CPU-second, {:.3} million per second, {:.1} per \
         busy round; {:?}",
        frames as f64 / cpu.as_secs_f64() / 1e6,
        frames as f64 / wall.as_secs_f64() / 1e6,
        frames as f64 / rounds.max(1) as f64,
        ports[0].counters(),
    );
    for p in &mut ports {
        p.close(&mut pool);
    }
    Ok(())
}
