//! A bare forwarder over AF_XDP: what comes in by a port leaves by the adjacent one, not looked at. What a data plane
//! over the same ports can reach at most, beside which it is measured.
//!
//! Room: as `dut`, for labs in which nothing but such a forwarder serves the ports.

use super::lab::{Kind, Lab};
use super::load::{PORTS, adjacent};
use anyhow::Result;
use weir_io::af_xdp::{AfXdp, Mode, Options, Umem};
use weir_packet::{Burst, Device, Pool};

/// The forwarder, polled by the caller.
pub struct Bare {
    pool: Pool,
    ports: Vec<AfXdp>,
    /// Frames for each port that it has not taken yet.
    waiting: Vec<Burst>,
}

impl Bare {
    /// Opens the lab's ports as weir's are, in one umem; `None` in any other lab.
    ///
    /// # Errors
    /// A port can't be opened.
    pub fn of(lab: &Lab) -> Result<Option<Self>> {
        if lab.kind != Kind::Bare {
            return Ok(None);
        }
        lab.at_device(|| {
            let mut bare =
                Self { pool: Pool::new(16_384, 2048)?, ports: Vec::new(), waiting: Vec::new() };
            let umem = Umem::new();
            for n in 1..=PORTS {
                let options = Options { mode: Mode::Native, ..Options::default() };
                let device = AfXdp::open(&format!("p{n}"), options, &umem, &mut bare.pool)?;
                bare.ports.push(device);
                bare.waiting.push(Burst::new());
            }
            Ok(bare)
        })
        .map(Some)
    }

    /// One round: a burst of each port, and the end of each port's round. Says how many frames moved.
    pub fn poll(&mut self) -> usize {
        let mut moved = 0;
        for from in 0..PORTS {
            let (from, to) = (usize::from(from), usize::from(adjacent(from)));
            let Some(burst) = self.waiting.get_mut(to) else { continue };
            if let Some(port) = self.ports.get_mut(from) {
                moved += port.rx(&mut self.pool, burst);
            }
            if let Some(port) = self.ports.get_mut(to) {
                moved += port.tx(&mut self.pool, burst);
            }
        }
        self.ports.iter_mut().for_each(|p| p.flush(&mut self.pool));
        moved
    }
}

impl Drop for Bare {
    fn drop(&mut self) {
        for burst in &mut self.waiting {
            burst.drain().for_each(|frame| self.pool.free(frame));
        }
        self.ports.iter_mut().for_each(|p| p.close(&mut self.pool));
    }
}
