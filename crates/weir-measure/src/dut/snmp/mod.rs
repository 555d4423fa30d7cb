//! An agent of SNMP version 2c, so that the device's processor can be watched as a switch's is: reads
//! alone, of the few objects that measurements ask for. Sources: RFC 3416 (operations), RFC 1901
//! (messages), RFC 1213 and 2863 (system, interfaces), RFC 2790 (processor).
//!
//! Room: part of `Dut`; a datagram in, a datagram out. Whatever is not understood is not answered.

mod ber;

use super::Dut;
use ber::Oid;
use weir_packet::Nanos;

/// `version-2c`.
const V2C: i32 = 1;
/// Objects in one answer.
const OBJECTS_MAX: usize = 64;
/// Bytes of the objects in one answer: with its headers it fits an Ethernet frame.
const BYTES_MAX: usize = 1300;
const END_OF_MIB: u8 = 0x82;
const NO_SUCH_OBJECT: u8 = 0x80;

mod pdu {
    pub(super) const GET: u8 = 0xa0;
    pub(super) const GET_NEXT: u8 = 0xa1;
    pub(super) const RESPONSE: u8 = 0xa2;
    pub(super) const GET_BULK: u8 = 0xa5;
}

/// An object's value.
enum Value {
    Text(String),
    Oid(Oid),
    Number(u8, u64),
}

const INTEGER: u8 = ber::INTEGER;
const TIME_TICKS: u8 = 0x43;
const COUNTER64: u8 = 0x46;

/// mib-2.
const MIB_2: [u32; 6] = [1, 3, 6, 1, 2, 1];

fn under(rest: &[u32]) -> Oid {
    MIB_2.iter().chain(rest).copied().collect()
}

impl Dut {
    /// Answers a request; `None` where there is no answer: the profile says so, or it is no request
    /// that is understood here. Any community may read.
    pub fn snmp(&mut self, datagram: &[u8], now: Nanos) -> Option<Vec<u8>> {
        let now = self.run(now);
        if self.profile.snmp.silent {
            return None;
        }
        let mut rest = datagram;
        let mut message = ber::expect(&mut rest, ber::SEQUENCE)?;
        if ber::integer(&mut message)? != V2C {
            return None;
        }
        let community = ber::expect(&mut message, ber::OCTETS)?;
        let (kind, mut body) = ber::take(&mut message)?;
        let id = ber::integer(&mut body)?;
        let (first, second) = (ber::integer(&mut body)?, ber::integer(&mut body)?);
        let mut list = ber::expect(&mut body, ber::SEQUENCE)?;
        let mut asked = Vec::new();
        while !list.is_empty() {
            let mut one = ber::expect(&mut list, ber::SEQUENCE)?;
            asked.push(ber::oid(&mut one)?);
            if asked.len() > OBJECTS_MAX {
                return None;
            }
        }
        let tree = self.objects(now);
        let mut found = Vec::new();
        match kind {
            pdu::GET => asked.into_iter().for_each(|oid| {
                let value = tree.iter().find(|(o, _)| *o == oid).map(|(_, v)| v);
                put(&mut found, &oid, value, NO_SUCH_OBJECT);
            }),
            pdu::GET_NEXT => asked.into_iter().for_each(|oid| {
                put_next(&mut found, &tree, oid);
            }),
            pdu::GET_BULK => bulk(&mut found, &tree, asked, first.max(0), second.max(0)),
            _ => return None,
        }
        let mut body = Vec::new();
        for n in [id, 0, 0] {
            ber::put_number(&mut body, ber::INTEGER, n.into());
        }
        ber::put(&mut body, ber::SEQUENCE, &found);
        let mut message = Vec::new();
        ber::put_number(&mut message, ber::INTEGER, V2C.into());
        ber::put(&mut message, ber::OCTETS, community);
        ber::put(&mut message, pdu::RESPONSE, &body);
        let mut out = Vec::new();
        ber::put(&mut out, ber::SEQUENCE, &message);
        Some(out)
    }

    /// All that can be read, in order.
    fn objects(&self, now: Nanos) -> Vec<(Oid, Value)> {
        let text = |t: &str| Value::Text(t.to_owned());
        let ticks = now.since(self.born).0 / 10_000_000;
        let mut all = vec![
            // sysDescr, sysObjectID (of nobody), sysUpTime, sysName.
            (under(&[1, 1, 0]), text("weir: a device under test with known faults")),
            (under(&[1, 2, 0]), Value::Oid(vec![0, 0])),
            (under(&[1, 3, 0]), Value::Number(TIME_TICKS, ticks & 0xffff_ffff)),
            (under(&[1, 5, 0]), text(&self.profile.name)),
            // ifNumber.
            (under(&[2, 1, 0]), Value::Number(INTEGER, self.ports.len() as u64)),
            // hrProcessorLoad of the only processor.
            (under(&[25, 3, 3, 1, 2, 1]), Value::Number(INTEGER, self.cpu_percent(now))),
        ];
        for (p, i) in self.ports.iter().zip(1u32..) {
            // ifName and ifHC{In,Out}{Octets,UcastPkts}.
            let s = &p.stats;
            let counts = [(6, s.rx_bytes), (7, s.rx_packets), (10, s.tx_bytes), (11, s.tx_packets)];
            all.push((under(&[31, 1, 1, 1, 1, i]), text(&p.desc.name)));
            all.extend(
                counts.map(|(c, n)| (under(&[31, 1, 1, 1, c, i]), Value::Number(COUNTER64, n))),
            );
        }
        all.sort_by(|(a, _), (b, _)| a.cmp(b));
        all
    }

    /// How busy its processor was in the last whole second.
    fn cpu_percent(&self, now: Nanos) -> u64 {
        self.cpu.percent(now, self.profile.snmp.idle_percent.percent())
    }
}

/// Appends an object with its value.
fn put(out: &mut Vec<u8>, oid: &[u32], value: Option<&Value>, absent: u8) {
    let mut one = Vec::new();
    ber::put_oid(&mut one, oid);
    match value {
        None => ber::put(&mut one, absent, &[]),
        Some(Value::Text(t)) => ber::put(&mut one, ber::OCTETS, t.as_bytes()),
        Some(Value::Oid(o)) => ber::put_oid(&mut one, o),
        Some(Value::Number(tag, n)) => ber::put_number(&mut one, *tag, (*n).into()),
    }
    if out.len() + one.len() <= BYTES_MAX {
        ber::put(out, ber::SEQUENCE, &one);
    }
}

/// Appends the object behind `oid`, and says which it is.
fn put_next(out: &mut Vec<u8>, tree: &[(Oid, Value)], oid: Oid) -> Oid {
    match tree.iter().find(|(o, _)| *o > oid) {
        Some((next, value)) => {
            put(out, next, Some(value), END_OF_MIB);
            next.clone()
        }
        None => {
            put(out, &oid, None, END_OF_MIB);
            oid
        }
    }
}

/// RFC 3416 §4.2.3: the first `once` objects once, the others in turn up to `times`.
fn bulk(out: &mut Vec<u8>, tree: &[(Oid, Value)], mut asked: Vec<Oid>, once: i32, times: i32) {
    let often = asked.split_off((once as usize).min(asked.len()));
    for oid in asked {
        put_next(out, tree, oid);
    }
    let mut at = often;
    for _ in 0..times.min(OBJECTS_MAX as i32) {
        if out.len() >= BYTES_MAX || at.is_empty() {
            break;
        }
        let before = at.clone();
        at = at.into_iter().map(|oid| put_next(out, tree, oid)).collect();
        // Past the end of everything nothing more is said.
        if at == before {
            break;
        }
    }
}
