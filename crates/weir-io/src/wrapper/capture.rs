//! Writes every frame that passes a port to a pcapng file, with its direction.
//!
//! Room: ports. A file that can't be written any more ends the capture, not the port:
//! [`Device::fault`] says so.

use crate::capture_file::{Direction, Format, Writer};
use crate::clock;
use crate::file::trouble;
use std::fs::File;
use std::io::{self, BufWriter, Write};
use std::path::{Path, PathBuf};
use weir_packet::{
    Arrival, Burst, Caps, Device, DeviceCounters, DeviceError, Frame, LinkState, Nanos, Pool,
    WayQuality,
};

/// A device whose frames are written to a file.
pub struct PcapTap {
    inner: Box<dyn Device>,
    path: PathBuf,
    /// Blocks are made here first: how many of the offered frames a device takes is known only
    /// afterwards, and then their bytes are gone.
    blocks: Writer<Vec<u8>>,
    file: Option<BufWriter<File>>,
    /// Ends of the blocks of the frames at hand.
    ends: Vec<usize>,
    fault: Option<String>,
}

impl std::fmt::Debug for PcapTap {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("PcapTap")
            .field("inner", &self.inner.name())
            .field("path", &self.path)
            .finish_non_exhaustive()
    }
}

impl PcapTap {
    /// Creates (or empties) the file. Its one interface has the device's name.
    ///
    /// # Errors
    /// [`DeviceError::File`].
    pub fn create(inner: Box<dyn Device>, path: &Path) -> Result<Self, DeviceError> {
        let open = || {
            let mut file = BufWriter::with_capacity(256 << 10, File::create(path)?);
            let mut blocks = Writer::new(Vec::new(), Format::Pcapng, 0)?;
            blocks.add_interface(inner.name())?;
            file.write_all(blocks.get_ref())?;
            blocks.get_mut().clear();
            Ok((file, blocks))
        };
        let (file, blocks) = open().map_err(|e: io::Error| DeviceError::File {
            path: path.display().to_string(),
            problem: format!("can't be written: {}", trouble(&e)),
        })?;
        let path = path.to_owned();
        Ok(Self { inner, path, blocks, file: Some(file), ends: Vec::new(), fault: None })
    }

    /// Makes the blocks of frames.
    fn stage(&mut self, frames: &[Frame], direction: Direction) {
        self.ends.clear();
        if self.file.is_none() {
            return;
        }
        let mut now = None;
        for f in frames {
            let stamp = f.stamp().unwrap_or_else(|| *now.get_or_insert_with(clock::unix));
            if let Err(e) = self.blocks.write(0, stamp, Some(direction), f.bytes()) {
                self.fail(&e);
                return;
            }
            self.ends.push(self.blocks.get_ref().len());
        }
    }

    /// Writes the blocks of the first `n` frames, forgets the rest.
    fn commit(&mut self, n: usize) {
        let end = n.checked_sub(1).and_then(|i| self.ends.get(i)).copied().unwrap_or(0);
        let blocks = self.blocks.get_mut();
        let written = match &mut self.file {
            Some(file) => file.write_all(blocks.get(..end).unwrap_or_default()),
            None => Ok(()),
        };
        blocks.clear();
        if let Err(e) = written {
            self.fail(&e);
        }
    }

    fn fail(&mut self, e: &io::Error) {
        self.file = None;
        self.fault = Some(format!("{}: the capture ended: {e}", self.path.display()));
    }
}

impl Device for PcapTap {
    fn name(&self) -> &str {
        self.inner.name()
    }
    fn caps(&self) -> Caps {
        self.inner.caps()
    }
    fn link(&mut self, pool: &mut Pool) -> LinkState {
        self.inner.link(pool)
    }
    fn rx(&mut self, pool: &mut Pool, burst: &mut Burst) -> usize {
        let before = burst.len();
        let n = self.inner.rx(pool, burst);
        if n > 0 {
            self.stage(burst.as_slice().get(before..).unwrap_or_default(), Direction::In);
            self.commit(n);
        }
        n
    }
    fn tx(&mut self, pool: &mut Pool, burst: &mut Burst) -> usize {
        if burst.is_empty() {
            return self.inner.tx(pool, burst);
        }
        self.stage(burst.as_slice(), Direction::Out);
        let n = self.inner.tx(pool, burst);
        self.commit(n);
        n
    }
    fn flush(&mut self, pool: &mut Pool) {
        self.inner.flush(pool);
    }
    fn arrival(&self) -> Arrival<'_> {
        self.inner.arrival()
    }
    fn patience(&self) -> Nanos {
        self.inner.patience()
    }
    fn held(&self) -> usize {
        self.inner.held()
    }
    fn in_transit(&self) -> usize {
        self.inner.in_transit()
    }
    fn exhausted(&self) -> bool {
        self.inner.exhausted()
    }
    fn fault(&self) -> Option<String> {
        self.inner.fault().or_else(|| self.fault.clone())
    }
    fn caveat(&self) -> Option<String> {
        self.inner.caveat()
    }
    fn ways(&self) -> Vec<WayQuality> {
        self.inner.ways()
    }
    fn counters(&self) -> DeviceCounters {
        self.inner.counters()
    }
    fn close(&mut self, pool: &mut Pool) {
        self.inner.close(pool);
        if let Some(Err(e)) = self.file.as_mut().map(Write::flush) {
            self.fail(&e);
        }
    }
}
