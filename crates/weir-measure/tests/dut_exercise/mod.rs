//! What must hold whatever bytes, frames and times a device is given: nothing panics, what is due
//! gets done, and what waits stays bounded. Used by `dut_bytes` and by the fuzz target `measure_dut`.

use weir_measure::dut::Dut;
use weir_measure::dut::profile::{BUILTIN, Profile};
use weir_packet::Nanos;

/// Output that may wait at a connection: a channel's limit twice, and the answer to one request.
const OUTGOING_MAX: usize = 4 << 20;

/// The first byte chooses a profile; then each step is a byte that says what, one that says
/// how much, and for some of them so many words of four bytes.
pub fn script(bytes: &[u8]) {
    let [which, rest @ ..] = bytes else { return };
    let (name, _) = BUILTIN[usize::from(*which) % BUILTIN.len()];
    let Ok(profile) = Profile::builtin(name) else { return };
    let mut dut = Dut::new(profile, &["a", "b"], Nanos(0));
    let mut now = Nanos(0);
    let mut conns = Vec::new();
    conns.extend(dut.connect(now));
    let mut rest = rest;
    while let [step, length, tail @ ..] = rest {
        // Bytes for a connection, a port or SNMP; the other steps have none.
        let bytes = if step & 7 <= 4 { usize::from(*length) * 4 } else { 0 };
        let (data, tail) = tail.split_at(bytes.min(tail.len()));
        rest = tail;
        let conn = conns.get(usize::from(*step >> 4) % conns.len().max(1)).copied();
        match (step & 7, conn) {
            (0..=3, Some(conn)) => {
                let room = dut.input_room(conn);
                let taken = dut.receive(conn, &data[..data.len().min(room)], now);
                assert!(taken <= data.len());
            }
            (4, _) if *step >> 4 == 15 => {
                let _ = dut.snmp(data, now);
            }
            (4, _) => dut.frame_in(u32::from(*step >> 4) % 3 + 1, data, now),
            (5, _) => {
                now = now + Nanos::from_millis(u64::from(*length) * 16);
                dut.tick(now);
                if let Some(due) = dut.wake_at() {
                    assert!(
                        due > now || held_back(&mut dut, &conns),
                        "due at {due:?}, now {now:?}"
                    );
                }
            }
            (6, Some(conn)) => {
                let written = dut.outgoing(conn).len().min(usize::from(*length) * 64);
                dut.advance(conn, written);
            }
            (7, _) if conns.len() < 4 => conns.extend(dut.connect(now)),
            (7, Some(conn)) => {
                dut.disconnect(conn);
                conns.retain(|c| *c != conn);
            }
            _ => {}
        }
        while dut.frame_out().is_some() {}
        for conn in &conns {
            assert!(dut.outgoing(*conn).len() <= OUTGOING_MAX);
        }
    }
}

/// Whether some connection has said its last, or waits for its peer to read.
fn held_back(dut: &mut Dut, conns: &[u32]) -> bool {
    conns.iter().any(|c| dut.over(*c).is_some() || !dut.outgoing(*c).is_empty())
}
