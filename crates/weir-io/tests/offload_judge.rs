//! scapy makes frames with partial checksums, and judges what becomes of them: completed whole, or
//! cut. Skipped, visibly, where the system's python3 has no scapy.

use std::path::Path;
use std::process::Command;
use weir_io::capture_file::{Format, Writer};
use weir_io::offload::checksum::complete_if_partial;
use weir_io::offload::layout::{TCP, UDP};
use weir_io::offload::segment::{Cut, Told};
use weir_io::replay::Arena;
use weir_packet::{Nanos, Pool};

/// Super-frames of TCP and UDP over IPv4 and IPv6, with options and tags, checksum left partial.
const MAKE: &str = r#"
import sys, random
from scapy.all import *
from scapy.utils import checksum
import struct
random.seed(4)
frames = []
for v6 in (False, True):
    for udp in (False, True):
        for tags in (0, 1, 2):
            for size in (0, 1, 700, 9001, 60000):
                p = Ether(dst='02:00:00:00:00:01', src='02:00:00:00:00:02')
                for t in range(tags):
                    p = p / Dot1Q(vlan=5 + t)
                if v6:
                    l3 = IPv6(src='fd00::1', dst='fd00::2')
                    if size == 700:
                        l3 = l3 / IPv6ExtHdrHopByHop(options=[PadN(optdata=b'\0' * 4)])
                else:
                    l3 = IP(src='10.0.0.1', dst='10.0.0.2', id=65530, flags='DF',
                            options=[IPOption_NOP()] * 4 if size == 700 else [])
                if udp:
                    l4 = UDP(sport=1000, dport=2000)
                else:
                    l4 = TCP(sport=1000, dport=80, seq=2**32 - 3000, ack=7, flags='FPA',
                             options=[('NOP', None), ('NOP', None), ('Timestamp', (1, 2))])
                p = p / l3 / l4 / Raw(random.randbytes(size))
                p = Ether(bytes(p))
                l4 = p[UDP if udp else TCP]
                n = len(bytes(l4))
                ip = p[IPv6 if v6 else IP]
                if v6:
                    ph = inet_pton(socket.AF_INET6, ip.src) + inet_pton(socket.AF_INET6, ip.dst)
                    ph += struct.pack('!II', n, 17 if udp else 6)
                else:
                    ph = inet_aton(ip.src) + inet_aton(ip.dst)
                    ph += struct.pack('!HH', 17 if udp else 6, n)
                l4.chksum = checksum(ph) ^ 0xffff
                frames.append(p)
wrpcap(sys.argv[1], frames)
"#;

/// Every length and checksum must be what scapy works out from nothing; prints frames judged.
const JUDGE: &str = r#"
import sys
from scapy.all import *
n = 0
for p in rdpcap(sys.argv[1]):
    q = p.copy()
    for layer, fields in ((IP, ('len', 'chksum')), (IPv6, ('plen',)), (TCP, ('chksum',)),
                          (UDP, ('len', 'chksum'))):
        if layer in q:
            for f in fields:
                delattr(q[layer], f)
    q = Ether(bytes(q))
    assert bytes(q) == bytes(p), (n, p.summary(), p.show(dump=True), q.show(dump=True))
    n += 1
print(n)
"#;

fn python(script: &str, file: &Path) -> String {
    let out = Command::new("/usr/bin/python3").args(["-c", script]).arg(file).output().unwrap();
    assert!(out.status.success(), "{}", String::from_utf8_lossy(&out.stderr));
    String::from_utf8_lossy(&out.stdout).trim().to_owned()
}

#[test]
fn scapy_finds_nothing_wrong() {
    let there = Command::new("/usr/bin/python3").args(["-c", "import scapy.all"]).output();
    if !there.is_ok_and(|o| o.status.success()) {
        eprintln!("SKIPPED: scapy_finds_nothing_wrong needs scapy (apt: python3-scapy)");
        return;
    }
    let dir = tempfile::tempdir().unwrap();
    let (made, done) = (dir.path().join("made"), dir.path().join("done"));
    python(MAKE, &made);
    let mut w = Writer::new(std::fs::File::create(&done).unwrap(), Format::Pcap, 0).unwrap();
    let mut pool = Pool::new(1, 2048).unwrap();
    let mut written = 0;
    let arena = Arena::load(&made).unwrap();
    for f in arena.iter() {
        let mut whole = f.bytes.to_vec();
        assert!(complete_if_partial(&mut whole));
        w.write(0, Nanos(0), None, &whole).unwrap();
        written += 1;
        let of = |protocol| Cut::told(f.bytes, 1000, Told::of(protocol));
        let mut cut = of(TCP).or_else(|| of(UDP)).unwrap();
        while !cut.is_done() {
            let mut out = pool.alloc().unwrap();
            assert!(cut.next_frame(f.bytes, &mut out));
            w.write(0, Nanos(0), None, out.bytes()).unwrap();
            written += 1;
            pool.free(out);
        }
    }
    w.flush().unwrap();
    assert_eq!(arena.len(), 60);
    assert_eq!(python(JUDGE, &done), written.to_string());
}
