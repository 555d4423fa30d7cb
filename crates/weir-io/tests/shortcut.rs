//! Frames that the kernel forwards by itself, as a port was told: held against `Ways::of`, byte for byte
//! and counted; stopped under load; gone with the process' descriptors. Needs root; skipped, visibly,
//! without.

mod common;

use common::Lab;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};
use weir_io::af_packet::AfPacket;
use weir_io::af_xdp::{AfXdp, Mode, Offer, Options, Umem};
use weir_packet::{Burst, Device, Mac, Pool, Shortcut, Taken, Way, Ways};

/// Long, since machines that test are busy.
const LIMIT: Duration = Duration::from_secs(20);

fn open(name: &str, umem: &Umem, pool: &mut Pool) -> AfXdp {
    let options = Options { mode: Mode::Generic, shortcut: Offer::Yes, ..Options::default() };
    AfXdp::open(name, options, umem, pool).unwrap()
}

/// A port on a host's end.
struct Host {
    port: AfPacket,
    pool: Pool,
}

impl Host {
    fn new() -> Self {
        let pool = Pool::new(1024, 2048).unwrap();
        Self { port: AfPacket::open("eth0", &pool).unwrap(), pool }
    }
    fn send(&mut self, bytes: &[u8]) {
        let mut f = self.pool.alloc().unwrap();
        f.copy_from(bytes).unwrap();
        let mut burst = Burst::new();
        burst.push(f).unwrap();
        while !burst.is_empty() {
            self.port.tx(&mut self.pool, &mut burst);
            self.port.flush(&mut self.pool);
        }
    }
}

fn received(port: &mut dyn Device, pool: &mut Pool) -> Vec<Vec<u8>> {
    let mut burst = Burst::new();
    port.rx(pool, &mut burst);
    port.flush(pool);
    let frames = burst.drain().map(|f| {
        let bytes = f.bytes().to_vec();
        pool.free(f);
        bytes
    });
    frames.collect()
}

/// A frame whose number stands behind its header.
fn frame(dst: Mac, len: usize, n: u32) -> Vec<u8> {
    let mut f = vec![0; len];
    f[..6].copy_from_slice(&dst);
    f[6..14].copy_from_slice(&[2, 0, 0, 0, 0, 9, 0x88, 0xb5]);
    f[14..18].copy_from_slice(&n.to_be_bytes());
    f
}

fn number(f: &[u8]) -> u32 {
    f[14..].first_chunk().map_or(0, |n| u32::from_be_bytes(*n))
}

fn of_ours(f: &[u8]) -> bool {
    f[12..14] == [0x88, 0xb5]
}

fn mac(n: u8) -> Mac {
    [2, 0, 0, 0, 7, n]
}

#[test]
fn frames_go_their_ways_and_are_counted() {
    if !common::can_have_namespaces("frames_go_their_ways_and_are_counted") {
        return;
    }
    let lab = Lab::two_hosts();
    let quiet = ["h1", "h2"];
    quiet.iter().for_each(|h| lab.quiet(h));
    let mut sender = lab.within("h1", Host::new).join().unwrap();
    let mut far = lab.within("h2", Host::new).join().unwrap();
    let (mut p1, mut p2, mut pool) = lab
        .within("w", || {
            let (mut pool, umem) = (Pool::new(4096, 2048).unwrap(), Umem::new());
            (open("p1", &umem, &mut pool), open("p2", &umem, &mut pool), pool)
        })
        .join()
        .unwrap();
    let exit = p2.exit().expect("a veth is an exit");
    let way = |counter, max_frame_bytes, eth_dst, eth_src| {
        Some(Way { exit, max_frame_bytes, eth_dst, eth_src, counter })
    };
    // By address alone, with a rest, and the rest alone; a refused address; a short limit; each change.
    let by_mac = vec![
        (mac(1), way(1, 1514, None, None)),
        (mac(2), way(2, 100, Some([2, 2, 2, 2, 2, 2]), None)),
        (mac(3), None),
        (mac(4), way(1023, 1514, None, Some([4; 6]))),
    ];
    let both = way(7, 1514, Some([6, 1, 2, 3, 4, 5]), Some([8, 1, 2, 3, 4, 5]));
    let plans = [
        Ways { by_mac: by_mac.clone(), rest: None },
        Ways { by_mac, rest: both },
        Ways { by_mac: Vec::new(), rest: both },
        Ways::default(),
    ];
    let mut n = 0;
    for ways in &plans {
        let counted = |p: &AfXdp| [0, 1, 2, 7, 1023].map(|c| p.taken(c));
        let before = counted(&p1);
        p1.start(ways).unwrap();
        let (mut goes, mut stays) = (Vec::new(), Vec::new());
        let mut want = [Taken::default(); 1024];
        for dst in [1, 2, 3, 4, 5] {
            for len in [60, 99, 100, 101, 1000, 1514] {
                n += 1;
                let f = frame(mac(dst), len, n);
                sender.send(&f);
                match ways.of(&f) {
                    None => stays.push(f),
                    Some(w) => {
                        let mut f = f;
                        w.eth_dst.iter().for_each(|m| f[..6].copy_from_slice(m));
                        w.eth_src.iter().for_each(|m| f[6..12].copy_from_slice(m));
                        let t = &mut want[w.counter as usize];
                        (t.frames, t.bytes) = (t.frames + 1, t.bytes + len as u64);
                        goes.push(f);
                    }
                }
            }
        }
        let (mut gone, mut stayed) = (Vec::new(), Vec::new());
        let end = Instant::now() + LIMIT;
        while gone.len() < goes.len() || stayed.len() < stays.len() {
            assert!(Instant::now() < end, "{} of {} went", gone.len(), goes.len());
            gone.extend(received(&mut far.port, &mut far.pool).into_iter().filter(|f| of_ours(f)));
            stayed.extend(received(&mut p1, &mut pool).into_iter().filter(|f| of_ours(f)));
        }
        assert!(gone == goes, "as changed, in order");
        assert!(stayed == stays, "as sent, in order");
        p1.stop();
        for ((after, before), counter) in counted(&p1).iter().zip(before).zip([0, 1, 2, 7, 1023]) {
            let since = (after.frames - before.frames, after.bytes - before.bytes);
            let want = want[counter];
            assert_eq!(since, (want.frames, want.bytes), "under {counter}");
        }
        // Nothing goes any way now.
        sender.send(&frame(mac(1), 60, 0));
        while !received(&mut p1, &mut pool).iter().any(|f| of_ours(f) && number(f) == 0) {
            assert!(Instant::now() < end, "it is not handed over");
        }
    }
    p1.close(&mut pool);
    p2.close(&mut pool);
    sender.port.close(&mut sender.pool);
    far.port.close(&mut far.pool);
}

/// No frame that is sent after a stop has returned goes the old way, and all that went were counted
/// by then.
#[test]
fn a_stop_is_a_stop_under_load() {
    if !common::can_have_namespaces("a_stop_is_a_stop_under_load") {
        return;
    }
    let lab = Lab::two_hosts();
    ["h1", "h2"].iter().for_each(|h| lab.quiet(h));
    let sent = Arc::new(AtomicU64::new(0));
    let done = Arc::new(AtomicBool::new(false));
    let (sending, ends) = (Arc::clone(&sent), Arc::clone(&done));
    let (mut p1, p2, mut pool) = lab
        .within("w", || {
            let (mut pool, umem) = (Pool::new(4096, 2048).unwrap(), Umem::new());
            (open("p1", &umem, &mut pool), open("p2", &umem, &mut pool), pool)
        })
        .join()
        .unwrap();
    let exit = p2.exit().unwrap();
    let sender = lab.within("h1", move || {
        let mut host = Host::new();
        while !ends.load(Ordering::Acquire) {
            // The number is out before the frame is.
            let n = sending.fetch_add(1, Ordering::SeqCst) + 1;
            host.send(&frame(mac(1), 60, n as u32));
        }
        host.port.close(&mut host.pool);
    });
    let rounds: u16 = std::env::var("WEIR_SOAK").map_or(20, |_| 2000);
    // Each round has a destination of its own, so that the far end can tell which round's way it was.
    let last_of = Arc::new(std::sync::Mutex::new(Vec::<u64>::new()));
    let (all_over, over) = (Arc::clone(&last_of), Arc::new(AtomicBool::new(false)));
    let (ending, listens) = (Arc::clone(&over), Arc::new(AtomicBool::new(false)));
    let listening = Arc::clone(&listens);
    let far = lab.within("h2", move || {
        let mut host = Host::new();
        listening.store(true, Ordering::Release);
        let (mut gone, mut late) = (0u64, Vec::new());
        let mut quiet = 0;
        while quiet < 200 {
            let frames = received(&mut host.port, &mut host.pool);
            if frames.is_empty() {
                std::thread::sleep(Duration::from_millis(1));
                quiet = if ending.load(Ordering::Acquire) { quiet + 1 } else { 0 };
                continue;
            }
            quiet = 0;
            for f in frames.iter().filter(|f| of_ours(f)) {
                gone += 1;
                late.push((u16::from_be_bytes([f[4], f[5]]), u64::from(number(f))));
            }
        }
        let last = all_over.lock().unwrap().clone();
        late.retain(|(round, n)| last.get(usize::from(*round)).is_some_and(|l| n > l));
        host.port.close(&mut host.pool);
        (gone, late, host.port.counters().rx_missed)
    });
    // What comes to an interface at which nobody listens is no socket's loss.
    while !listens.load(Ordering::Acquire) {
        std::thread::sleep(Duration::from_millis(1));
    }
    let mut counted = 0;
    for round in 0..rounds {
        let [high, low] = round.to_be_bytes();
        let new = Some([2, 0, 0, 0, high, low]);
        let rest = Way { exit, max_frame_bytes: 1514, eth_dst: new, eth_src: None, counter: 0 };
        let before = p1.taken(0).frames;
        p1.start(&Ways { by_mac: Vec::new(), rest: Some(rest) }).unwrap();
        let end = Instant::now() + LIMIT;
        while p1.taken(0).frames < before + 200 {
            received(&mut p1, &mut pool);
            assert!(Instant::now() < end, "nothing goes");
        }
        p1.stop();
        counted = p1.taken(0).frames;
        // What was sent by now may have gone before; nothing with a greater number may.
        last_of.lock().unwrap().push(sent.load(Ordering::SeqCst));
        // Some are sent while nothing goes.
        let until = sent.load(Ordering::SeqCst) + 50;
        while sent.load(Ordering::SeqCst) < until {
            received(&mut p1, &mut pool);
            assert!(Instant::now() < end, "nothing is sent");
        }
        assert_eq!(p1.taken(0).frames, counted, "counted after the stop");
    }
    done.store(true, Ordering::Release);
    sender.join().unwrap();
    over.store(true, Ordering::Release);
    let (gone, late, missed) = far.join().unwrap();
    assert!(late.is_empty(), "went after a stop: {late:?}");
    assert_eq!(gone + missed, counted, "what went is what was counted");
    p1.close(&mut pool);
}

/// Without the port there is no program; its counters outlive the interface.
#[test]
fn it_goes_with_the_port() {
    if !common::can_have_namespaces("it_goes_with_the_port") {
        return;
    }
    let lab = Lab::two_hosts();
    let (mut p1, mut pool) = lab
        .within("w", || {
            let (mut pool, umem) = (Pool::new(4096, 2048).unwrap(), Umem::new());
            (open("p1", &umem, &mut pool), pool)
        })
        .join()
        .unwrap();
    let links = || lab.run("w", "ip -d link show p1");
    assert!(links().contains("xdpgeneric"), "{}", links());
    p1.close(&mut pool);
    drop(p1);
    assert!(!links().contains("xdp"), "{}", links());
}
