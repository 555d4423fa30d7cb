//! The processing stage on any bytes and any changes: no panic, headers and key stay true, and a
//! change that fails leaves the frame as it was. Seeds: frames of several kinds.
//!
//! Input: a byte for the number of changes (up to 7), 34 bytes for each (what, field, value, mask),
//! then the frame.
#![no_main]

use libfuzzer_sys::fuzz_target;
use weir_classify::{Field, FlowKey};
use weir_dataplane::processing::{Change, apply, compile};
use weir_dataplane::{Action, GreChecksum, Outer, Packet, Stale, TunnelAddrs, extract};
use weir_packet::Pool;

fn outer(n: u8) -> Outer {
    let ip = match n & 1 {
        0 => TunnelAddrs::V4([192, 0, 2, 1].into(), [198, 51, 100, n].into()),
        _ => TunnelAddrs::V6([0x20; 16].into(), [n; 16].into()),
    };
    Outer { eth_src: [2; 6], eth_dst: [4; 6], ip, ttl: 1 + (n >> 1), tos: n }
}

fn change(b: &[u8; 34]) -> Option<Change> {
    let [what, n, rest @ ..] = b;
    let (value, mask) = rest.split_at(16);
    let value = u128::from_be_bytes(value.try_into().ok()?);
    let mask = u128::from_be_bytes(mask.try_into().ok()?);
    let action = match what % 24 {
        0 => Action::DecTtl,
        1 => Action::DecMplsTtl,
        2 => Action::CopyTtlIn,
        3 => Action::CopyTtlOut,
        4 => Action::PushVlan(if n & 1 == 0 { 0x8100 } else { 0x88a8 }),
        5 => Action::PopVlan,
        6 => Action::PushMpls(0x8847 + u16::from(n & 1)),
        7 => Action::PopMpls(value as u16),
        8 => Action::PushPbb(0x88e7),
        9 => Action::PopPbb,
        10 => Action::EncapVxlan { outer: outer(*n), vni: value as u32 & 0xff_ffff, port: 4789 },
        11 => Action::DecapVxlan,
        12 => Action::EncapGre {
            outer: outer(*n),
            key: (value & 1 == 0).then_some(mask as u32),
            sequence: (value & 2 == 0).then_some(mask as u32),
            checksum: if value & 4 == 0 { GreChecksum::Absent } else { GreChecksum::Present },
        },
        13 => Action::DecapGre,
        _ => {
            let field = Field::ALL[usize::from(*n) % Field::ALL.len()];
            let (value, mask) = (value & field.full(), mask & field.full());
            Action::SetField { field, value, mask }
        }
    };
    compile(&action).ok().flatten()
}

fuzz_target!(|data: &[u8]| {
    let Some((count, mut rest)) = data.split_first() else { return };
    let mut changes = Vec::new();
    for _ in 0..count & 7 {
        let Some((first, behind)) = rest.split_first_chunk::<34>() else { break };
        changes.extend(change(first));
        rest = behind;
    }
    let mut pool = Pool::new(1, 4096).expect("a pool");
    let mut frame = pool.alloc().expect("a frame");
    let mut key = FlowKey::default();
    // A pool keeps its memory for ever if a frame is not given back.
    let layers = match frame.copy_from(rest) {
        Ok(()) => extract(frame.bytes(), 1, &mut key).ok(),
        Err(_) => None,
    };
    let Some(layers) = layers else { return pool.free(frame) };
    let mut p = Packet { frame: &mut frame, key: &mut key, layers, stale: Stale::No };
    for c in &changes {
        let before = p.frame.bytes().to_vec();
        let result = apply(c, &mut p);
        let mut fresh = FlowKey::default();
        let layers = extract(p.frame.bytes(), 1, &mut fresh);
        assert_eq!(Ok(p.layers), layers, "{c:?}");
        if p.stale == Stale::No {
            for f in [Field::Metadata, Field::TunnelId] {
                fresh.set(f, p.key.get(f));
            }
            assert_eq!(*p.key, fresh, "{c:?}");
        }
        if result.is_err() {
            assert_eq!(p.frame.bytes(), before, "{c:?}");
            break;
        }
    }
    pool.free(frame);
});
