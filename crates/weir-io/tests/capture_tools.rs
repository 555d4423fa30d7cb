//! What weir writes, wireshark's tools read; what they write, weir reads. Skipped, visibly, where
//! they are not installed.

use std::path::Path;
use std::process::Command;
use weir_io::capture_file::{Direction, Format, PcapIn, PcapOut, Reader, Writer};
use weir_io::replay::Arena;
use weir_packet::{Burst, Device, DeviceError, Nanos, Pool};

const T0: u64 = 1_700_000_000_123_456_789;

fn have(tool: &str) -> bool {
    let there = Command::new(tool).arg("--version").output().is_ok_and(|o| o.status.success());
    if !there {
        eprintln!("SKIPPED: {tool} is not installed");
    }
    there
}

fn run(tool: &str, args: &[&str]) -> String {
    let out = Command::new(tool).args(args).output().unwrap();
    assert!(out.status.success(), "{tool} {args:?}: {}", String::from_utf8_lossy(&out.stderr));
    String::from_utf8(out.stdout).unwrap()
}

/// An ARP request, so that the tools have something to decode.
fn arp(n: u8) -> Vec<u8> {
    let mut f = vec![0xff; 6];
    f.extend([2, 0, 0, 0, 0, n, 8, 6, 0, 1, 8, 0, 6, 4, 0, 1, 2, 0, 0, 0, 0, n, 10, 0, 0, n]);
    f.extend([0, 0, 0, 0, 0, 0, 10, 0, 0, 254]);
    f.resize(60, 0);
    f
}

fn write(path: &Path, format: Format) {
    let mut w = Writer::new(std::fs::File::create(path).unwrap(), format, 0).unwrap();
    w.add_interface("left").unwrap();
    let right = w.add_interface("right").unwrap();
    for n in 0..5u8 {
        let d = if n % 2 == 0 { Direction::In } else { Direction::Out };
        let iface = if n % 2 == 0 { 0 } else { right };
        w.write(iface, Nanos(T0 + u64::from(n)), Some(d), &arp(n)).unwrap();
    }
    w.flush().unwrap();
}

#[test]
fn tshark_reads_what_weir_writes() {
    if !have("tshark") || !have("capinfos") {
        return;
    }
    let dir = tempfile::tempdir().unwrap();
    for format in [Format::Pcap, Format::Pcapng] {
        let path = dir.path().join("out");
        write(&path, format);
        let path = path.to_str().unwrap();
        let fields = ["frame.time_epoch", "frame.interface_name", "arp.src.proto_ipv4"];
        let mut args = vec!["-r", path, "-T", "fields"];
        for f in fields.iter().chain(&["frame.packet_flags_direction", "_ws.malformed"]) {
            args.extend(["-e", f]);
        }
        let text = run("tshark", &args);
        let lines: Vec<Vec<&str>> = text.lines().map(|l| l.split('\t').collect()).collect();
        assert_eq!(lines.len(), 5);
        for (n, l) in lines.iter().enumerate() {
            assert!(l[0].ends_with(&format!(".{}", 123_456_789 + n)), "{l:?}");
            assert_eq!(l[2], format!("10.0.0.{n}"));
            if format == Format::Pcapng {
                assert_eq!(l[1], ["left", "right"][n % 2]);
                assert!(l[3].ends_with(['1', '2'][n % 2]), "{l:?}");
            }
            assert_eq!(l[4], "");
        }
        let info = run("capinfos", &["-c", "-E", path]);
        assert!(info.contains("Ethernet"), "{info}");
    }
}

#[test]
fn weir_reads_what_editcap_and_tcpdump_write() {
    if !have("editcap") || !have("tcpdump") {
        return;
    }
    let dir = tempfile::tempdir().unwrap();
    let from = dir.path().join("from.pcapng");
    write(&from, Format::Pcapng);
    let from = from.to_str().unwrap();
    for (kind, resolution) in [("pcapng", 1), ("nsecpcap", 1), ("pcap", 1000)] {
        let to = dir.path().join(kind);
        run("editcap", &["-F", kind, from, to.to_str().unwrap()]);
        let arena = Arena::load(&to).unwrap();
        assert_eq!(arena.len(), 5, "{kind}");
        for f in arena.iter() {
            let n = f.index as u64;
            assert_eq!(f.bytes, arp(n as u8));
            assert_eq!(f.stamp.unwrap().0, (T0 + n) / resolution * resolution, "{kind}");
            if kind == "pcapng" {
                assert_eq!(u64::from(f.port), n % 2);
            }
        }
        let direction = Reader::open(&to).unwrap().next_record().unwrap().unwrap().direction;
        assert_eq!(direction.is_some(), kind == "pcapng");
    }
    let to = dir.path().join("tcpdump");
    let nsec = dir.path().join("nsecpcap");
    run("tcpdump", &["-r", nsec.to_str().unwrap(), "-w", to.to_str().unwrap()]);
    assert_eq!(Arena::load(&to).unwrap().len(), 5);
}

#[test]
fn the_ports_keep_bytes_and_stamps_and_say_where_a_file_was_cut() {
    let dir = tempfile::tempdir().unwrap();
    let (from, to) = (dir.path().join("from.pcap"), dir.path().join("to.pcapng"));
    write(&from, Format::Pcap);
    let mut file = std::fs::read(&from).unwrap();
    file.truncate(file.len() - 10);
    std::fs::write(&from, &file).unwrap();

    let mut pool = Pool::new(3, 2048).unwrap();
    let mut input = PcapIn::open(&from).unwrap();
    let mut output = PcapOut::create(&to).unwrap();
    let mut burst = Burst::new();
    while !input.exhausted() {
        input.rx(&mut pool, &mut burst);
        output.tx(&mut pool, &mut burst);
    }
    let fault = input.fault().unwrap();
    assert!(fault.contains(&format!("cut short at byte {}", file.len())), "{fault}");
    assert!(fault.contains("the 4 frames"), "{fault}");
    output.close(&mut pool);
    input.close(&mut pool);
    assert!(output.error().is_none());
    assert_eq!(pool.available(), 3);

    let arena = Arena::load(&to).unwrap();
    assert_eq!(arena.len(), 4);
    for f in arena.iter() {
        assert_eq!(f.bytes, arp(f.index as u8));
        assert_eq!(f.stamp, Some(Nanos(T0 + f.index as u64)));
    }
    assert!(matches!(Arena::load(&from), Err(DeviceError::File { .. })));
    let none = dir.path().join("none.pcap");
    let missing = PcapIn::open(&none).unwrap_err();
    assert!(missing.to_string().contains("none.pcap: can't be opened"), "{missing}");
    std::fs::write(&none, "hello, world").unwrap();
    let text = PcapIn::open(&none).unwrap_err();
    assert!(text.to_string().contains("begins with \"hello, w\""), "{text}");
}
