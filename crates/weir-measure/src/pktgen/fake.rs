//! A directory that behaves as pktgen's: for tests. After the kernel's documentation; nobody has held it against
//! a kernel that has the real one.

use super::Files;
use std::collections::BTreeMap;
use std::io::{self, ErrorKind};
use std::sync::{Condvar, Mutex};

/// The interfaces that there are.
const INTERFACES: [&str; 2] = ["e1", "e2"];

#[derive(Default)]
struct Device {
    lines: Vec<String>,
    count: u64,
    delay_ns: u64,
    sent: u64,
    took_us: u64,
    result: String,
}

#[derive(Default)]
struct State {
    thread: String,
    devices: BTreeMap<String, Device>,
    stopped: bool,
}

/// Two threads, two interfaces.
#[derive(Default)]
pub(crate) struct Fake(Mutex<State>, Condvar);

impl Fake {
    /// Frames that a load without end has sent when it is stopped.
    pub(crate) const STOPPED_AT: u64 = 777;

    /// The commands that an interface was given.
    pub(crate) fn lines(&self, interface: &str) -> Vec<String> {
        let state = self.0.lock().unwrap();
        state.devices.get(interface).map_or_else(Vec::new, |d| d.lines.clone())
    }

    /// The interfaces that a thread has.
    pub(crate) fn devices(&self) -> Vec<String> {
        self.0.lock().unwrap().devices.keys().cloned().collect()
    }

    fn start(&self) {
        let mut state = self.0.lock().unwrap();
        state.stopped = false;
        while state.devices.values().any(|d| d.count == 0) && !state.stopped {
            state = self.1.wait(state).unwrap();
        }
        for d in state.devices.values_mut() {
            d.sent = if d.count == 0 { Self::STOPPED_AT } else { d.count };
            d.took_us = d.sent.saturating_sub(1) * d.delay_ns / 1_000;
            d.result = format!(
                "OK: {}(c{}+d0) usec, {} (60byte,0frags)\n  1pps 0Mb/sec (480bps) errors: 0",
                d.took_us, d.took_us, d.sent
            );
        }
    }
}

impl Files for Fake {
    fn place(&self) -> String {
        "fake".to_owned()
    }

    fn names(&self) -> io::Result<Vec<String>> {
        let mut names = vec!["pgctrl".to_owned(), "kpktgend_0".to_owned(), "kpktgend_1".to_owned()];
        names.extend(self.0.lock().unwrap().devices.keys().cloned());
        Ok(names)
    }

    fn write(&self, file: &str, line: &str) -> io::Result<()> {
        let bad = || Err(io::Error::from(ErrorKind::InvalidInput));
        let (name, value) = line.split_once(' ').unwrap_or((line, ""));
        match (file, name) {
            ("pgctrl", "start") => self.start(),
            ("pgctrl", "stop") => {
                self.0.lock().unwrap().stopped = true;
                self.1.notify_all();
            }
            ("kpktgend_1", "add_device") => {
                let mut state = self.0.lock().unwrap();
                if !INTERFACES.contains(&value) || state.devices.contains_key(value) {
                    state.thread = format!("ERROR: can not add device {value}");
                    return bad();
                }
                state.thread = format!("OK: add_device={value}");
                state.devices.insert(value.to_owned(), Device::default());
            }
            ("kpktgend_1", "rem_device_all") => self.0.lock().unwrap().devices.clear(),
            ("pgctrl" | "kpktgend_0" | "kpktgend_1", _) => return bad(),
            _ => {
                let mut state = self.0.lock().unwrap();
                let Some(d) = state.devices.get_mut(file) else {
                    return Err(ErrorKind::NotFound.into());
                };
                d.lines.push(line.to_owned());
                let number = || value.parse().map_err(|_| io::Error::from(ErrorKind::InvalidInput));
                match name {
                    "count" => d.count = number()?,
                    "delay" => d.delay_ns = number()?,
                    "clone_skb" | "pkt_size" | "src_mac" | "dst_mac" | "src_min" | "src_max"
                    | "dst_min" | "dst_max" | "udp_src_min" | "udp_src_max" | "udp_dst_min"
                    | "udp_dst_max" | "vlan_id" | "vlan_p" | "clear_counters" => {}
                    other => {
                        d.result = format!("No such parameter \"{other}\"");
                        return bad();
                    }
                }
                d.result = format!("OK: {name}={value}");
            }
        }
        Ok(())
    }

    fn read(&self, file: &str) -> io::Result<String> {
        let state = self.0.lock().unwrap();
        match (file, state.devices.get(file)) {
            (_, Some(d)) => Ok(format!(
                "Params: count {}  min_pkt_size: 60  max_pkt_size: 60\n     frags: 0  delay: {}  clone_skb: 0  \
                 ifname: {file}\n     Flags: \nCurrent:\n     pkts-sofar: {}  errors: 0\n     started: 1000us  \
                 stopped: {}us idle: 0us\n     seq_num: {}  cur_dst_mac_offset: 0\nResult: {}\n",
                d.count,
                d.delay_ns,
                d.sent,
                1000 + d.took_us,
                d.sent + 1,
                if d.result.is_empty() { "Idle" } else { &d.result },
            )),
            ("kpktgend_1", None) => Ok(format!("Running: \nStopped: \nResult: {}\n", state.thread)),
            ("kpktgend_0", None) => Ok("Running: \nStopped: \nResult: NA\n".to_owned()),
            _ => Err(ErrorKind::NotFound.into()),
        }
    }
}
