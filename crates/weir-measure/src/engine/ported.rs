//! Data channels over any port of weir-io, AF_XDP above all: both ways through a pool of frames.
//!
//! Room: a device and its pool, shared by the two halves, which take turns. Stamps are the program's: before a
//! frame is given to the device, and when one was taken from it.

use super::wire::{Channel, Inlet, Outlet, unix_now};
use std::io;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};
use weir_io::af_xdp::Umem;
use weir_io::waiting::Epoll;
use weir_io::{Opened, PortSpec};
use weir_packet::{Arrival, Burst, Device, DeviceError, LinkState, Nanos, Pool, Waiter};

/// Frames of a port's pool, and bytes of each.
const FRAMES: usize = 8192;
const CHUNK: usize = 2048;
/// A wait for a port that can't say when it has frames.
const NAP: Duration = Duration::from_micros(20);

struct Port {
    device: Box<dyn Device>,
    pool: Pool,
    burst: Burst,
    /// Frames dropped by the device, as far as they were told.
    missed: u64,
}

impl Drop for Port {
    fn drop(&mut self) {
        for frame in self.burst.drain() {
            self.pool.free(frame);
        }
        self.device.close(&mut self.pool);
    }
}

struct Half {
    port: Arc<Mutex<Port>>,
    /// Of the half that receives, where the device says when it has frames.
    waiter: Option<Epoll>,
}

/// A port such as `xdp:eth1` ([`PortSpec`]), in the network namespace of the calling thread, and what a person should know
/// of how it was opened.
///
/// # Errors
/// It can't be opened.
pub fn port(spec: &str) -> Result<(Channel, Vec<String>), DeviceError> {
    let setting = |problem: String| DeviceError::Setting { name: spec.to_owned(), problem };
    let mut pool = Pool::new(FRAMES, CHUNK).map_err(|e| setting(e.to_string()))?;
    let parsed: PortSpec = spec.parse().map_err(|e: weir_io::SpecError| setting(e.to_string()))?;
    let Opened { device, notes, .. } = weir_io::open_patiently(&parsed, &mut pool, &Umem::new())?;
    let waiter = match device.arrival() {
        Arrival::Told(fd) => {
            Epoll::new().and_then(|mut w| w.watch(&mut std::iter::once(fd)).map(|()| w)).ok()
        }
        _ => None,
    };
    let port = Port { device, pool, burst: Burst::new(), missed: 0 };
    let port = Arc::new(Mutex::new(port));
    let outlet = Box::new(Half { port: Arc::clone(&port), waiter: None });
    let inlet = Box::new(Half { port, waiter });
    Ok((Channel { name: spec.to_owned(), outlet, inlet }, notes))
}

impl Half {
    fn with<T>(&self, work: impl FnOnce(&mut Port) -> T) -> T {
        work(&mut self.port.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

impl Outlet for Half {
    fn send(&mut self, frames: &[Vec<u8>]) -> io::Result<usize> {
        self.with(|p| {
            let mut burst = Burst::new();
            for bytes in frames.iter().take(burst.room()) {
                let Some(mut frame) = p.pool.alloc() else { break };
                if frame.copy_from(bytes).is_err() {
                    p.pool.free(frame);
                    let long = format!("a frame of {} bytes is too long for it", bytes.len());
                    return Err(io::Error::new(io::ErrorKind::InvalidInput, long));
                }
                if let Err(frame) = burst.push(frame) {
                    p.pool.free(frame);
                    break;
                }
            }
            let before = burst.len();
            p.device.tx(&mut p.pool, &mut burst);
            let sent = before - burst.len();
            for frame in burst.drain() {
                p.pool.free(frame);
            }
            p.device.flush(&mut p.pool);
            match p.device.fault() {
                Some(fault) if sent == 0 => Err(io::Error::other(fault)),
                _ => Ok(sent),
            }
        })
    }
    fn tells_departures(&self) -> bool {
        false
    }
    fn departures(&mut self, _: usize, _: &mut dyn FnMut(&[u8], Nanos)) -> io::Result<usize> {
        Ok(0)
    }
}

impl Half {
    fn take(&self, each: &mut dyn FnMut(&[u8], Nanos)) -> usize {
        self.with(|p| {
            let Port { device, pool, burst, .. } = p;
            let got = device.rx(pool, burst);
            let now = unix_now();
            for frame in burst.drain() {
                each(frame.bytes(), now);
                pool.free(frame);
            }
            got
        })
    }
}

impl Inlet for Half {
    fn receive(
        &mut self,
        at_most: Duration,
        each: &mut dyn FnMut(&[u8], Nanos),
    ) -> io::Result<usize> {
        let end = Instant::now() + at_most;
        loop {
            let got = self.take(each);
            let now = Instant::now();
            if got > 0 || now >= end {
                return Ok(got);
            }
            match &mut self.waiter {
                // When it is late, the port is looked at once more.
                Some(w) => {
                    w.wait(end - now);
                }
                None => std::thread::sleep(NAP),
            }
        }
    }
    fn take_drops(&mut self) -> u64 {
        self.with(|p| {
            let all = p.device.counters().rx_missed;
            let new = all.saturating_sub(p.missed);
            p.missed = all;
            new
        })
    }
    fn link(&mut self) -> LinkState {
        self.with(|p| p.device.link(&mut p.pool))
    }
}
