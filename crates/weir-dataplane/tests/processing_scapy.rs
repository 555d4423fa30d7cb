//! Processing against judges that share no line with it: every kind of frame, every change, and
//! lists of changes, compared byte for byte with what scapy builds (every checksum from scratch),
//! and read by tshark (no wrong checksum, no malformed packet).
//!
//! Needs python3 with scapy, and tshark; without them the tests say SKIPPED. `./run soak` takes
//! every change on every tagged frame too; otherwise tagged frames get every third.

mod processing_changes;
mod processing_frames;

use processing_changes::*;
use processing_frames::{Kind, kinds};
use std::collections::BTreeSet;
use std::path::PathBuf;
use std::process::Command;
use weir_classify::Field;
use weir_dataplane::Action;

const PYTHON: &str = "/usr/bin/python3";
const JUDGE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/golden/processing_scapy.py");

/// One question to the judges.
struct Case {
    kind: Kind,
    actions: Vec<Action>,
    got: Changed,
}

impl Case {
    fn new(kind: &Kind, actions: &[Action]) -> Option<Self> {
        let got = run(&kind.bytes, 1024, &compiled(actions))?;
        Some(Self { kind: kind.clone(), actions: actions.to_vec(), got })
    }
    fn line(&self, n: usize) -> String {
        let actions: Vec<String> = self.actions.iter().map(for_judge).collect();
        let steps: Vec<String> = self.got.steps.iter().map(|s| hex(s)).collect();
        let outcome = self.got.dropped.map_or("ok", |(why, _)| why.label());
        format!(
            "{n}\t{}\t{}\t{}\t{outcome}\t{}\t{:x}\n",
            hex(&self.kind.bytes),
            hex(&self.kind.rest),
            actions.join(";"),
            steps.join(";"),
            self.got.key.get(Field::TunnelId),
        )
    }
}

fn soak() -> bool {
    std::env::var_os("WEIR_SOAK").is_some()
}

/// Every change on every kind of frame.
fn singles() -> Vec<Case> {
    let mut out = Vec::new();
    for (i, k) in kinds().iter().enumerate() {
        for (j, a) in actions().iter().enumerate() {
            let all = soak() || !k.name.contains(" tag");
            if all || (i + j) % 3 == 0 {
                out.extend(Case::new(k, std::slice::from_ref(a)));
            }
        }
    }
    out
}

/// Lists of two to five changes on any kind of frame. First fragments do not go into tunnels here:
/// the judge would have to know which bytes their checksums still cover.
fn lists() -> Vec<Case> {
    let (kinds, actions) = (kinds(), actions());
    let mut dice = Dice(2);
    let mut out = Vec::new();
    for _ in 0..if soak() { 40_000 } else { 4000 } {
        let k = &kinds[dice.below(kinds.len())];
        let n = 2 + dice.below(4);
        let list: Vec<Action> =
            (0..n).map(|_| actions[dice.below(actions.len())].clone()).collect();
        let tunnels = |a: &Action| {
            matches!(a, Action::EncapGre { .. } | Action::EncapVxlan { .. } | Action::PopMpls(_))
        };
        if k.rest.is_empty() || !list.iter().any(tunnels) {
            out.extend(Case::new(k, &list));
        }
    }
    out
}

/// A file for this process, removed when it goes.
struct Scratch(PathBuf);

impl Scratch {
    fn new(name: &str, content: &[u8]) -> Self {
        let path = std::env::temp_dir().join(format!("weir-{}-{name}", std::process::id()));
        std::fs::write(&path, content).unwrap();
        Self(path)
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.0);
    }
}

fn scapy_is_there() -> bool {
    let ok = Command::new(PYTHON).args(["-c", "import scapy.all"]).output();
    let ok = ok.is_ok_and(|o| o.status.success());
    if !ok {
        eprintln!("SKIPPED: scapy is missing (package python3-scapy)");
    }
    ok
}

fn judge(name: &str, cases: &[Case]) {
    if !scapy_is_there() {
        return;
    }
    let text: String = cases.iter().enumerate().map(|(n, c)| c.line(n)).collect();
    let file = Scratch::new(name, text.as_bytes());
    let o = Command::new(PYTHON).arg(JUDGE).arg(&file.0).output().unwrap();
    let said = String::from_utf8_lossy(&o.stdout);
    assert!(o.status.success(), "{}", String::from_utf8_lossy(&o.stderr));
    let bad: Vec<&str> = said.lines().filter(|l| l.starts_with("BAD")).collect();
    let show = |line: &&str| {
        let n: usize = line.split(' ').nth(1).unwrap().parse().unwrap();
        let c = &cases[n];
        let actions: Vec<String> = c.actions.iter().map(for_judge).collect();
        format!(
            "{}: {}\n  frame {}\n  got   {:?} {} tunnel {:x}\n  {line}",
            c.kind.name,
            actions.join(" ; "),
            hex(&c.kind.bytes),
            c.got.dropped,
            hex(&c.got.bytes),
            c.got.key.get(Field::TunnelId)
        )
    };
    let shown: Vec<String> = bad.iter().take(12).map(show).collect();
    assert!(bad.is_empty(), "{} of {} differ:\n{}", bad.len(), cases.len(), shown.join("\n"));
    let count = format!("JUDGED {}", cases.len());
    assert_eq!(said.lines().last(), Some(count.as_str()));
    eprintln!("soak: {} cases judged by scapy ({name})", cases.len());
}

#[test]
fn scapy_builds_the_same_frames_soak() {
    judge("singles", &singles());
}

#[test]
fn scapy_builds_the_same_after_lists_of_changes_soak() {
    judge("lists", &lists());
}

/// Whether tshark can be asked if the frame is well-formed: not where an action says by itself that
/// bytes are something else.
fn keeps_meaning(a: &Action) -> bool {
    !matches!(
        a,
        Action::PopMpls(_)
            | Action::SetField { field: Field::IcmpType | Field::IcmpCode | Field::ArpOp, .. }
    )
}

/// Lines of the numbers of frames that `filter` takes.
fn tshark(file: &Scratch, filter: &str) -> Vec<usize> {
    let mut c = Command::new("tshark");
    c.arg("-r").arg(&file.0).arg("-n");
    for o in [
        "ip.check_checksum:TRUE",
        "tcp.check_checksum:TRUE",
        "udp.check_checksum:TRUE",
        "sctp.checksum:CRC32C",
        "ip.defragment:FALSE",
        "ipv6.defragment:FALSE",
        "tcp.analyze_sequence_numbers:FALSE",
    ] {
        c.args(["-o", o]);
    }
    let o = c.args(["-Y", filter, "-T", "fields", "-e", "frame.number"]).output().unwrap();
    assert!(o.status.success(), "{}", String::from_utf8_lossy(&o.stderr));
    String::from_utf8_lossy(&o.stdout).lines().map(|l| l.trim().parse().unwrap()).collect()
}

fn pcap(frames: &[(String, Vec<u8>)]) -> Scratch {
    let mut file = Vec::new();
    file.extend(0xa1b2_c3d4u32.to_le_bytes());
    file.extend([2, 0, 4, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 4, 0, 1, 0, 0, 0]);
    for (i, (_, f)) in frames.iter().enumerate() {
        file.extend((i as u32).to_le_bytes());
        file.extend([0; 4]);
        file.extend([(f.len() as u32).to_le_bytes(); 2].concat());
        file.extend(f);
    }
    Scratch::new("out.pcap", &file)
}

const WRONG: &str = "ip.checksum.status == 0 || tcp.checksum.status == 0 || \
    udp.checksum.status == 0 || icmp.checksum.status == 0 || icmpv6.checksum.status == 0 || \
    sctp.checksum.status == 0 || gre.checksum.status == 0";

#[test]
fn tshark_finds_nothing_wrong() {
    if Command::new("tshark").arg("--version").output().is_err() {
        eprintln!("SKIPPED: tshark is missing (package tshark)");
        return;
    }
    // Frames as they come: what tshark finds malformed then is no fault of ours afterwards.
    let came: Vec<(String, Vec<u8>)> = kinds().into_iter().map(|k| (k.name, k.bytes)).collect();
    let file = pcap(&came);
    let wrong: Vec<&str> = tshark(&file, WRONG).into_iter().map(|n| &*came[n - 1].0).collect();
    assert!(wrong.iter().all(|n| n.contains("gre wrong checksum")), "{wrong:?}");
    let odd: BTreeSet<&str> =
        tshark(&file, "_ws.malformed").into_iter().map(|n| &*came[n - 1].0).collect();
    assert!(odd.iter().all(|n| n.contains("first fragment") || n.contains("llc")), "{odd:?}");
    let mut frames: Vec<(String, Vec<u8>)> = Vec::new();
    let mut seen = BTreeSet::new();
    for c in singles().into_iter().chain(lists()) {
        let name = &*c.kind.name;
        // A third tag is payload to everything but its own pop.
        let known = !wrong.contains(&name) && !odd.contains(name) && !name.contains("three tags");
        // Under a label nothing says what follows: tshark guesses by the first nibble.
        let guess = c.actions.iter().any(|a| matches!(a, Action::PushMpls(_)));
        let known = known && (!guess || name.starts_with("ipv"));
        let meant = c.actions.iter().all(keeps_meaning) && known;
        if meant && c.got.dropped.is_none() && seen.insert(c.got.bytes.clone()) {
            let actions: Vec<String> = c.actions.iter().map(for_judge).collect();
            frames.push((format!("{}: {}", c.kind.name, actions.join(" ; ")), c.got.bytes));
        }
    }
    let file = pcap(&frames);
    let names = |found: &[usize]| -> Vec<String> {
        let name = |n: &usize| format!("{} {}", frames[n - 1].0, hex(&frames[n - 1].1));
        found.iter().take(12).map(name).collect()
    };
    let bad = tshark(&file, WRONG);
    assert!(bad.is_empty(), "{} wrong checksums: {:#?}", bad.len(), names(&bad));
    let malformed = tshark(&file, "_ws.malformed");
    assert!(malformed.is_empty(), "{} malformed: {:#?}", malformed.len(), names(&malformed));
    // It did look: a bit that is turned is found.
    let mut broken = came[0].clone();
    let last = broken.1.len() - 1;
    broken.1[last] ^= 1;
    assert_eq!(tshark(&pcap(&[broken]), WRONG), [1]);
    eprintln!("{} frames read by tshark", frames.len());
}
