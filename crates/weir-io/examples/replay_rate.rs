//! How fast does the benchmark source play from memory into the sink? Prints frames per CPU-second
//! of this thread.
//!
//! `cargo run --release --example replay_rate [FRAME_BYTES] [SECONDS]`

use std::sync::Arc;
use std::time::{Duration, Instant};
use weir_io::replay::{Arena, Null, Passes, Replay};
use weir_packet::{Burst, Device, Pool};

fn main() {
    let mut args = std::env::args().skip(1);
    let bytes = args.next().and_then(|a| a.parse().ok()).unwrap_or(60);
    let seconds = args.next().and_then(|a| a.parse().ok()).unwrap_or(2);
    let mut arena = Arena::new();
    for i in 0..1024u16 {
        arena.push(&vec![i as u8; bytes], None, 0);
    }
    let mut source = Replay::new("source", Arc::new(arena), Passes::Forever);
    let mut sink = Null::new("sink");
    let Ok(mut pool) = Pool::new(1024, 2048) else { return };
    let mut burst = Burst::new();
    let start = Instant::now();
    let mut frames = 0u64;
    while start.elapsed() < Duration::from_secs(seconds) {
        for _ in 0..1024 {
            frames += source.rx(&mut pool, &mut burst) as u64;
            sink.tx(&mut pool, &mut burst);
        }
    }
    let s = weir_io::thread_cpu_time().as_secs_f64();
    println!("{bytes} bytes: {:.1} million frames per CPU-second", frames as f64 / s / 1e6);
}
