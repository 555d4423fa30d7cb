//! Samples of a device by SNMP: who it is, once; then CPU and counters, each time.
//!
//! Touches the client's socket.

use super::client::{Client, SnmpError, Value, oid};
use super::vendors::{Cpu, Interfaces, Rows, Vendors};
use super::{InterfaceCounters, Sample, Sampler};
use snmp2::Oid;
use std::time::Instant;

const SYS_DESCR: &str = "1.3.6.1.2.1.1.1.0";
const SYS_OBJECT_ID: &str = "1.3.6.1.2.1.1.2.0";

/// Interfaces that are asked for, at most.
const INTERFACES: usize = 64;

/// A device that is asked for samples.
#[derive(Debug)]
pub struct Poller {
    client: Client,
    /// What it says of itself: sysDescr.
    pub description: String,
    /// Its vendor's name in the table.
    pub vendor: String,
    cpu: Cpu,
    /// The ticks of the last sample: at work, and with nothing to do.
    ticks: Option<Vec<(u64, u64)>>,
    interfaces: Vec<Asked>,
}

/// An interface's objects.
#[derive(Debug)]
struct Asked {
    name: String,
    /// In the order of [`InterfaceCounters`], each a sum.
    objects: [Vec<Oid<'static>>; 5],
}

impl Poller {
    /// Asks a device who it is, and finds the interfaces of these names; all of them, up to 64, when
    /// there is no name.
    ///
    /// # Errors
    /// [`SnmpError`]; also for an interface that the device does not have, with those that it has.
    pub fn begin(
        mut client: Client,
        vendors: &Vendors,
        names: &[String],
    ) -> Result<Self, SnmpError> {
        let who = client.get(&[oid(SYS_DESCR)?, oid(SYS_OBJECT_ID)?])?;
        let mut who = who.into_iter();
        let description = who.next().flatten().and_then(|v| v.text()).unwrap_or_default();
        let id = match who.next().flatten() {
            Some(Value::Oid(id)) => id,
            _ => String::new(),
        };
        let Some(vendor) = vendors.of(&id) else {
            let what = format!("no row of the table of SNMP objects is for {id:?}");
            return Err(SnmpError::Answer { address: client.address().to_owned(), what });
        };
        let (cpu, name) = (vendor.cpu.clone(), vendor.name.clone());
        let rows = client.column(&oid(&vendors.interfaces.name)?)?;
        let there: Vec<(String, String)> =
            rows.into_iter().filter_map(|(i, v)| v.text().map(|t| (i, t))).collect();
        if let Some(missing) = names.iter().find(|n| !there.iter().any(|t| t.1 == **n)) {
            let known: Vec<&str> = there.iter().take(16).map(|t| t.1.as_str()).collect();
            let what = format!("no interface {missing:?}; it has {}", known.join(", "));
            return Err(SnmpError::Answer { address: client.address().to_owned(), what });
        }
        let wanted = |t: &&(String, String)| names.is_empty() || names.contains(&t.1);
        let interfaces = there
            .iter()
            .filter(wanted)
            .take(INTERFACES)
            .map(|(index, name)| Asked::of(&vendors.interfaces, index, name))
            .collect::<Result<_, _>>()?;
        Ok(Self { client, description, vendor: name, cpu, ticks: None, interfaces })
    }

    fn cpu(&mut self) -> Result<Option<f64>, SnmpError> {
        match &self.cpu {
            Cpu::Percent { percent, rows: Rows::All } => {
                let rows = self.client.column(&oid(percent)?)?;
                Ok(mean(rows.iter().filter_map(|r| r.1.number())))
            }
            Cpu::Percent { percent, rows: Rows::None } => {
                let values = self.client.get(&[oid(percent)?])?;
                Ok(mean(values.iter().flatten().filter_map(Value::number)))
            }
            Cpu::Ticks { idle, busy } => {
                let all: Vec<Oid<'static>> =
                    idle.iter().chain(busy).map(|o| oid(o)).collect::<Result<_, _>>()?;
                let idle = idle.len();
                let now: Vec<u64> = self
                    .client
                    .get(&all)?
                    .iter()
                    .map(|v| v.as_ref().and_then(Value::number).unwrap_or(0))
                    .collect();
                let now: Vec<(u64, u64)> = now
                    .iter()
                    .enumerate()
                    .map(|(i, n)| if i < idle { (0, *n) } else { (*n, 0) })
                    .collect();
                let share = self.ticks.as_ref().and_then(|before| share(before, &now));
                // A device that refreshes its counters now and then has grown by nothing: the next
                // sample goes on from where the counters last moved.
                if share.is_some() || self.ticks.is_none() {
                    self.ticks = Some(now);
                }
                Ok(share)
            }
        }
    }
}

/// Percent at work, of the growth of counters of 32 bits that may have wrapped; `None` of no growth.
fn share(before: &[(u64, u64)], now: &[(u64, u64)]) -> Option<f64> {
    // Counter32: the lower half is the counter.
    let grown = |a: u64, b: u64| u64::from((b as u32).wrapping_sub(a as u32));
    let pairs = before.iter().zip(now);
    let (busy, idle) = pairs.fold((0_u64, 0_u64), |(x, y), (b, n)| {
        (x.saturating_add(grown(b.0, n.0)), y.saturating_add(grown(b.1, n.1)))
    });
    let all = busy.saturating_add(idle);
    (all > 0).then(|| 100.0 * busy as f64 / all as f64)
}

fn mean(values: impl Iterator<Item = u64>) -> Option<f64> {
    let (sum, n) = values.fold((0.0, 0_u32), |(s, n), v| (s + v as f64, n + 1));
    (n > 0).then(|| sum / f64::from(n))
}

impl Asked {
    fn of(columns: &Interfaces, index: &str, name: &str) -> Result<Self, SnmpError> {
        let of = |columns: &[String]| {
            columns.iter().map(|c| oid(&format!("{c}.{index}"))).collect::<Result<Vec<_>, _>>()
        };
        let c = columns;
        let objects = [
            of(&c.rx_bytes)?,
            of(&c.rx_frames)?,
            of(&c.tx_bytes)?,
            of(&c.tx_frames)?,
            of(&c.dropped)?,
        ];
        Ok(Self { name: name.to_owned(), objects })
    }
}

impl Sampler for Poller {
    fn percent_of(&self) -> &'static str {
        "all cores"
    }

    fn sample(&mut self) -> Result<Sample, SnmpError> {
        let begin = Instant::now();
        let cpu_percent = self.cpu()?;
        let all: Vec<Oid<'static>> =
            self.interfaces.iter().flat_map(|i| i.objects.iter().flatten().cloned()).collect();
        let mut values = self.client.get(&all)?.into_iter();
        let mut interfaces = Vec::new();
        for i in &self.interfaces {
            let mut sum = |objects: &[Oid<'_>]| {
                let some = values.by_ref().take(objects.len()).flatten();
                some.filter_map(|v| v.number()).fold(0, u64::saturating_add)
            };
            interfaces.push(InterfaceCounters {
                name: i.name.clone(),
                rx_bytes: sum(&i.objects[0]),
                rx_frames: sum(&i.objects[1]),
                tx_bytes: sum(&i.objects[2]),
                tx_frames: sum(&i.objects[3]),
                dropped: sum(&i.objects[4]),
            });
        }
        Ok(Sample { cpu_percent, took: begin.elapsed(), interfaces })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shares_of_ticks() {
        let max = u64::from(u32::MAX);
        assert_eq!(share(&[(0, 10), (5, 0)], &[(0, 20), (35, 0)]), Some(75.0));
        assert_eq!(share(&[(0, max), (max, 0)], &[(0, 0), (0, 0)]), Some(50.0), "both wrapped");
        assert_eq!(share(&[(1, 2)], &[(1, 2)]), None);
        assert_eq!((mean([].into_iter()), mean([10, 20].into_iter())), (None, Some(15.0)));
    }
}
