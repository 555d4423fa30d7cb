//! Pktgen against a directory that behaves as the kernel's does.

use super::fake::Fake;
use super::*;
use crate::probe::{Headers, Stamper, Stream, Vary};
use proptest::prelude::*;
use weir_packet::Nanos;
use weir_wire::VlanRepr;

fn counted() -> Load {
    Load::new(0, Headers::default(), 64, 100_000.0).only(1_000).telling_one_in(100)
}

fn lines(load: &Load) -> Vec<String> {
    for_load(LoadId(7), load).unwrap().into_iter().map(|w| w.line).collect()
}

#[test]
fn the_commands_of_a_load() {
    let want = "clear_counters\ncount 1000\nclone_skb 0\npkt_size 60\ndelay 10000\nsrc_mac 02:00:00:00:00:01\n\
                dst_mac 02:00:00:01:00:01\nsrc_min 198.18.0.1\nsrc_max 198.18.0.1\ndst_min 198.19.0.1\n\
                dst_max 198.19.0.1\nudp_src_min 49159\nudp_src_max 49159\nudp_dst_min 7\nudp_dst_max 7\n\
                vlan_id 9999";
    assert_eq!(lines(&counted()), want.lines().collect::<Vec<_>>());
    let h =
        Headers { vlan: Some(VlanRepr { pcp: 5, ..VlanRepr::dot1q(42) }), ..Headers::default() };
    let flows = (0..300).map(|n| h.nth(n, &[Vary::DstAddr])).collect();
    let load = Load { sizes: vec![1518; 3], frames: None, fps: 3.0, ..counted().over(flows) };
    let got = lines(&load);
    for line in [
        "count 0",
        "pkt_size 1514",
        "delay 333333333",
        "dst_min 198.19.0.1",
        "dst_max 198.19.1.44",
        "vlan_id 42",
        "vlan_p 5",
    ] {
        assert!(got.iter().any(|l| l == line), "{line}: {got:?}");
    }
    // What means 'never' is not asked for by chance.
    let load = Load { fps: 1e9 / f64::from(0x7fff_ffff), ..counted() };
    assert!(lines(&load).contains(&"delay 2147483648".to_owned()));
    // As fast as it goes.
    assert!(lines(&Load { fps: 1e9, burst: 1000, ..counted() }).contains(&"delay 1".to_owned()));
}

#[test]
fn loads_that_it_can_not_send() {
    let h = Headers::default();
    let tagged = Headers { vlan: Some(VlanRepr::dot1q(1)), ..h };
    let no = [
        ("told one by one", Load { one_in: 1, ..counted() }),
        ("even rate", Load { shape: crate::module::Shape::Poisson(1), ..counted() }),
        ("no bursts", Load { burst: 32, ..counted() }),
        ("one size", Load { sizes: vec![64, 594], ..counted() }),
        ("one flow", counted().over(vec![])),
        ("successive", counted().over(vec![h, h.nth(2, &[Vary::DstAddr])])),
        ("successive", counted().over(vec![h, h.nth(1, &[Vary::SrcPort])])),
        ("ten seconds", Load { fps: 0.09, ..counted() }),
        ("ten seconds", Load { fps: f64::NAN, ..counted() }),
        ("66 bytes", counted().over(vec![tagged])),
    ];
    for (what, load) in no {
        let e = for_load(LoadId(1), &load).unwrap_err();
        assert!(e.contains(what) && e.contains("without 'pktgen:'"), "{what}: {e}");
    }
}

#[test]
fn a_load_from_its_begin_to_its_end() {
    let fake = Arc::new(Fake::default());
    let mut p = Pktgen::open(fake.clone(), "e1").unwrap();
    assert_eq!(fake.devices(), ["e1"]);
    assert_eq!((p.ended(), p.stop()), (None, None));
    p.begin(LoadId(7), &counted()).unwrap();
    assert_eq!(fake.lines("e1"), lines(&counted()));
    let ended = loop {
        if let Some(ended) = p.ended() {
            break ended.unwrap();
        }
        std::thread::yield_now();
    };
    // 999 intervals of 10 µs.
    let want = Played { sent: 1_000, refused: 0, took: Duration::from_micros(9_990) };
    assert_eq!((ended, p.ended()), (want, None));
    p.begin(LoadId(8), &Load { frames: None, ..counted() }).unwrap();
    assert_eq!(p.ended(), None);
    assert_eq!(p.stop().unwrap().unwrap().sent, Fake::STOPPED_AT);
    drop(p);
    assert!(fake.devices().is_empty(), "the interface is given back");
}

#[test]
fn refusals_are_a_line_with_their_reason() {
    let line = |r: Result<Pktgen, String>| {
        let e = r.map(drop).unwrap_err();
        assert!(!e.contains('\n'), "{e}");
        e
    };
    let dir = tempfile::tempdir().unwrap();
    let none = line(Pktgen::open(Arc::new(Proc::new(dir.path().join("pktgen"))), "e1"));
    for part in ["modprobe pktgen", "CONFIG_NET_PKTGEN", "without 'pktgen:'", "is not there"] {
        assert!(none.contains(part), "{part}: {none}");
    }
    let bare = line(Pktgen::open(Arc::new(Proc::new(dir.path())), "e1"));
    assert!(bare.contains("no thread"), "{bare}");
    let fake = Arc::new(Fake::default());
    let e = line(Pktgen::open(fake.clone(), "e9"));
    assert_eq!(e, "fake/kpktgend_1: 'add_device e9': can not add device e9");
    let p = Pktgen::open(fake, "e2").unwrap();
    let e = p.command("e2", "colour red").unwrap_err();
    assert_eq!(e, "fake/e2: 'colour red': No such parameter \"colour\"");
    // A real directory: a command is one line of its own, and a file that says nothing is no refusal.
    for name in ["kpktgend_0", "kpktgend_11", "kpktgend_9", "e1", "pgctrl"] {
        std::fs::write(dir.path().join(name), "").unwrap();
    }
    let p = Pktgen::open(Arc::new(Proc::new(dir.path())), "e1").unwrap();
    assert_eq!(p.thread, "kpktgend_11", "the last core's, by its number");
    let said = std::fs::read_to_string(dir.path().join("kpktgend_11")).unwrap();
    assert_eq!(said, "add_device e1\n");
}

/// The example of the kernel's documentation.
const DONE: &str = "\
Params: count 10000000  min_pkt_size: 60  max_pkt_size: 60
     frags: 0  delay: 0  clone_skb: 1000000  ifname: eth1
     flows: 0 flowlen: 0
     src_mac: 00:00:00:00:00:00  dst_mac: 00:04:23:AC:FD:82
     src_mac_count: 0  dst_mac_count: 0
Current:
     pkts-sofar: 10000000  errors: 39664
     started: 1103053986245187us  stopped: 1103053999346329us idle: 880401us
     seq_num: 10000011  cur_dst_mac_offset: 0  cur_src_mac_offset: 0
Result: OK: 13101142(c12220741+d880401) usec, 10000000 (60byte,0frags)
  763292pps 390Mb/sec (390805504bps) errors: 39664
";

#[test]
fn what_it_says() {
    let said = read(DONE).unwrap();
    let want = Said {
        outcome: Outcome::Well,
        sent: 10_000_000,
        errors: 39_664,
        started_us: 1_103_053_986_245_187,
        stopped_us: 1_103_053_999_346_329,
    };
    assert_eq!(said, want);
    assert_eq!((said.stopped_us - said.started_us), 13_101_142, "its own sum");
    let thread = "Running: \nStopped: eth1 \nResult: OK: add_device=eth1\n";
    assert_eq!(read(thread).unwrap().outcome, Outcome::Well);
    for (text, why) in [
        ("Result: ERROR: can not add device x", "can not add device x"),
        ("a\n Result: No such parameter \"y\"\nb", "No such parameter \"y\""),
    ] {
        assert_eq!(read(text).unwrap().outcome, Outcome::Refused(why.to_owned()));
    }
    for text in ["", "pkts-sofar: 3", "result: OK"] {
        assert_eq!(read(text), None, "{text}");
    }
}

/// A frame as `net/core/pktgen.c` makes it, in front of the tags of a switch.
fn made(load: u8, number: u32, tags: usize) -> Vec<u8> {
    let mut f = vec![2, 0, 0, 1, 0, 1, 2, 0, 0, 0, 0, 1];
    (0..tags).for_each(|_| f.extend([0x81, 0, 0, 42]));
    f.extend([8, 0, 0x45, 0, 0, 46, 0, 1, 0, 0, 32, 17, 0, 0]);
    f.extend([198, 18, 0, 1, 198, 19, 0, 1]);
    f.extend([0xc0, load, 0, 7, 0, 26, 0, 0]);
    f.extend(0xbe9b_e955_u32.to_be_bytes());
    f.extend(number.to_be_bytes());
    f.extend(1_800_000_000_u32.to_be_bytes());
    f.extend(123_456_u32.to_be_bytes());
    f.resize(60 + 4 * tags, 0);
    f
}

#[test]
fn its_frames_are_known_again() {
    for tags in 0..3 {
        let got = find(&made(9, 5, tags)).unwrap();
        let made = Nanos(1_800_000_000_123_456_000);
        assert_eq!(got, Frame { load: LoadId(9), number: 5, made }, "{tags} tags");
    }
    // Also one whose number looks like a probe's mark.
    let id = crate::engine::wire::recognise(&made(9, 0x5ee1_5ee1, 0), Nanos(0)).unwrap().id;
    assert_eq!((id.load, id.number), (LoadId(9), 0x5ee1_5ee1));
    let headers = Headers::default();
    let stream = Stream { id: 3, headers, frame_bytes_on_wire: 64, entry: 0, exit: None };
    let stamper = Stamper::new(&stream, crate::probe::Run(9)).unwrap();
    let mut probe = vec![0; stamper.len()];
    stamper.write(1, Nanos(5), &mut probe).unwrap();
    assert_eq!(find(&probe), None, "a probe is none");
    let mut other = made(9, 5, 0);
    other[34] = 0x30;
    assert_eq!(find(&other), None, "another port");
}

proptest! {
    #[test]
    fn anything_may_be_said(text in ".*", cut in 0..DONE.len(), put in ".{0,20}") {
        let _ = read(&text);
        let _ = read(&format!("{}{put}{}", &DONE[..cut], &DONE[cut..]));
    }

    #[test]
    fn any_frame_may_come(bytes in prop::collection::vec(any::<u8>(), 0..120), cut in 0usize..72) {
        let _ = find(&bytes);
        let whole = made(1, 2, 1);
        prop_assert_eq!(find(&whole[..cut.min(whole.len())]).is_some(), cut >= 62);
    }
}
