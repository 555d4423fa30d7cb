//! Every change on every kind of frame, judged by other implementations: scapy builds what must come
//! out from a description of the frame, and tshark verifies the checksums of what does.
//!
//! Needs python3 with scapy, and tshark (Debian: python3-scapy, tshark); without them the part is
//! skipped and says so. A small choice of what scapy said is kept in `golden/processing.txt`. Under
//! WEIR_SOAK there are many more lists of changes.

mod processing_rig;

use processing_rig::{Rig, changes, unhex};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

fn tests() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests")
}

/// What the judge prints, if it is installed.
fn judge(size: &str) -> Option<String> {
    let program = tests().join("processing_judge/model.py");
    let python =
        if Path::new("/usr/bin/python3").exists() { "/usr/bin/python3" } else { "python3" };
    let asked = Command::new(python).args(["-c", "import scapy"]).stderr(Stdio::null()).status();
    if !asked.is_ok_and(|s| s.success()) {
        return None;
    }
    let out = Command::new(python).arg(program).arg(size).output().unwrap();
    assert!(out.status.success(), "{}", String::from_utf8_lossy(&out.stderr));
    Some(String::from_utf8(out.stdout).unwrap())
}

/// Whether bytes are what the judge wrote, where "xx" is any byte.
fn matches(bytes: &[u8], expected: &str) -> bool {
    bytes.len() * 2 == expected.len()
        && bytes.iter().zip(expected.as_bytes().chunks(2)).all(|(b, e)| {
            e == b"xx" || u8::from_str_radix(std::str::from_utf8(e).unwrap(), 16) == Ok(*b)
        })
}

/// Compares all cases; gives the frames that went in and came out.
fn compare(text: &str) -> (Vec<Vec<u8>>, Vec<Vec<u8>>) {
    let mut rig = Rig::new();
    let (mut ins, mut outs) = (Vec::new(), Vec::new());
    let (mut name, mut input) = (String::new(), Vec::new());
    let (mut cases, mut wrong) = (0, Vec::new());
    for line in text.lines().filter(|l| !l.starts_with('#')) {
        if let Some(frame) = line.strip_prefix("F ") {
            let (n, hex) = frame.split_once(' ').unwrap();
            (name, input) = (n.to_owned(), unhex(hex));
            ins.push(input.clone());
            continue;
        }
        let (todo, expected) = line.strip_prefix("C ").unwrap().split_once('\t').unwrap();
        cases += 1;
        let got = rig.run(&input, &changes(todo)).unwrap();
        let ok = match (expected.strip_prefix('!'), got.result) {
            (Some(why), Err(reason)) => reason.label() == why,
            (None, Ok(())) => matches(&got.bytes, expected),
            _ => false,
        };
        if !ok {
            let hex: String = got.bytes.iter().map(|b| format!("{b:02x}")).collect();
            wrong.push(format!(
                "{name}: {todo}\n  in   {}\n  want {expected}\n  got  {hex} {:?}",
                input.iter().map(|b| format!("{b:02x}")).collect::<String>(),
                got.result
            ));
        } else if got.result.is_ok() && !name.ends_with("first-sctp") {
            // tshark takes a first fragment's CRC, which covers the rest too, for a wrong one.
            outs.push(got.bytes);
        }
    }
    let first: Vec<&String> = wrong.iter().take(12).collect();
    assert!(wrong.is_empty(), "{} of {cases} cases differ:\n{first:#?}", wrong.len());
    println!("soak: {cases} cases on {} kinds of frame", ins.len());
    (ins, outs)
}

#[test]
fn golden_vectors() {
    let text = std::fs::read_to_string(tests().join("golden/processing.txt")).unwrap();
    let (ins, outs) = compare(&text);
    assert!(ins.len() > 250 && outs.len() > 500, "{} {}", ins.len(), outs.len());
}

#[test]
fn every_change_on_every_kind_of_frame_soak() {
    let size = if std::env::var_os("WEIR_SOAK").is_some() { "soak" } else { "full" };
    let Some(text) = judge(size) else {
        eprintln!("SKIPPED: needs python3 with scapy (apt install python3-scapy)");
        return;
    };
    let (ins, outs) = compare(&text);
    assert!(ins.len() > 250 && outs.len() > 15_000, "{} {}", ins.len(), outs.len());
    tshark_finds_no_bad_checksum(&ins, &outs);
}

/// Layers whose checksums tshark verifies.
const LAYERS: [&str; 6] = ["ip", "tcp", "udp", "icmp", "icmpv6", "sctp"];

fn tshark_finds_no_bad_checksum(ins: &[Vec<u8>], outs: &[Vec<u8>]) {
    let version = Command::new("tshark").arg("--version").output();
    if !version.is_ok_and(|o| o.status.success()) {
        eprintln!("SKIPPED: the second judge needs tshark (apt install tshark)");
        return;
    }
    let dir = tempfile::tempdir().unwrap();
    let (good, spoilt) = (count(dir.path(), outs), {
        // Frames whose transport is damaged, to see that the judge looks.
        let damaged = ins.iter().map(|f| {
            let mut f = f.clone();
            if let Some(last) = f.get_mut(34) {
                *last ^= 0x10;
            }
            f
        });
        count(dir.path(), &damaged.collect::<Vec<_>>())
    });
    eprintln!("tshark: (good, bad) per layer {LAYERS:?}: {good:?}; of damaged frames {spoilt:?}");
    for (layer, (n, bad)) in LAYERS.iter().zip(good) {
        assert!(n > 50 && bad == 0, "{layer}: {n} good, {bad} bad");
    }
    assert!(spoilt.iter().map(|(_, bad)| bad).sum::<usize>() > 100);
}

/// Good and bad checksums per layer.
fn count(dir: &Path, frames: &[Vec<u8>]) -> Vec<(usize, usize)> {
    let path = dir.join("frames.pcap");
    std::fs::write(&path, pcap(frames)).unwrap();
    let mut tshark = Command::new("tshark");
    tshark.arg("-r").arg(&path).args(["-T", "fields", "-E", "separator=;", "-E", "occurrence=a"]);
    for layer in LAYERS {
        tshark.args(["-e", &format!("{layer}.checksum.status")]);
    }
    // Fragments of different cases look alike: they must not be put together.
    for set in [
        "ip.check_checksum:TRUE",
        "tcp.check_checksum:TRUE",
        "udp.check_checksum:TRUE",
        "sctp.checksum:CRC 32c",
        "ip.defragment:FALSE",
        "ipv6.defragment:FALSE",
    ] {
        tshark.args(["-o", set]);
    }
    let out = tshark.output().unwrap();
    assert!(out.status.success(), "{}", String::from_utf8_lossy(&out.stderr));
    let mut counts = vec![(0, 0); LAYERS.len()];
    for line in String::from_utf8_lossy(&out.stdout).lines() {
        for (column, (good, bad)) in line.split(';').zip(&mut counts) {
            *good += column.split(',').filter(|s| matches!(*s, "1" | "Good")).count();
            *bad += column.split(',').filter(|s| matches!(*s, "0" | "Bad")).count();
        }
    }
    counts
}

/// A capture file (libpcap, Ethernet, microseconds).
fn pcap(frames: &[Vec<u8>]) -> Vec<u8> {
    let mut out = Vec::new();
    for word in [0xa1b2_c3d4u32, 0x0004_0002, 0, 0, 65535, 1] {
        out.extend(word.to_le_bytes());
    }
    for (i, f) in frames.iter().enumerate() {
        let len = f.len() as u32;
        for word in [i as u32, 0, len, len] {
            out.extend(word.to_le_bytes());
        }
        out.extend(f);
    }
    out
}
