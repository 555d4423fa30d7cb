//! Frames that wait, linked into queues: one store for all queues of a port, so that a queue costs
//! a port only its head.
//!
//! Room: forwarding. Its size bounds what may wait at a port; nothing is allocated once it exists.

use weir_packet::Frame;

/// No slot.
const NONE: u32 = u32::MAX;

/// The store.
#[derive(Debug, Default)]
pub(super) struct Waiting {
    slots: Vec<(Option<Frame>, u32)>,
    free: u32,
    left: u32,
}

impl Waiting {
    pub(super) fn with_capacity(n: usize) -> Self {
        let slots = (0..n).map(|i| (None, if i + 1 < n { i as u32 + 1 } else { NONE })).collect();
        Self { slots, free: if n > 0 { 0 } else { NONE }, left: n as u32 }
    }
    /// All places.
    pub(super) fn places(&self) -> u32 {
        self.slots.len() as u32
    }
    /// Places where nothing waits.
    pub(super) fn left(&self) -> u32 {
        self.left
    }
    fn put(&mut self, frame: Frame) -> Result<u32, Frame> {
        let i = self.free;
        let Some(s) = self.slots.get_mut(i as usize) else { return Err(frame) };
        self.free = s.1;
        self.left -= 1;
        *s = (Some(frame), NONE);
        Ok(i)
    }
    fn take(&mut self, i: u32) -> Option<(Frame, u32)> {
        let s = self.slots.get_mut(i as usize)?;
        let f = s.0.take()?;
        let next = std::mem::replace(&mut s.1, self.free);
        self.free = i;
        self.left += 1;
        Some((f, next))
    }
    fn link(&mut self, i: u32, next: u32) {
        if let Some(s) = self.slots.get_mut(i as usize) {
            s.1 = next;
        }
    }
}

/// One queue in the store.
#[derive(Clone, Copy, Debug)]
pub(super) struct Fifo {
    head: u32,
    tail: u32,
    len: u32,
}

impl Default for Fifo {
    fn default() -> Self {
        Self { head: NONE, tail: NONE, len: 0 }
    }
}

impl Fifo {
    pub(super) fn len(&self) -> u32 {
        self.len
    }
    /// Length in bytes of the frame that is next.
    pub(super) fn head_bytes(&self, w: &Waiting) -> Option<usize> {
        w.slots.get(self.head as usize)?.0.as_ref().map(Frame::len)
    }
    /// Appends a frame; gives it back when the store is full.
    pub(super) fn push(&mut self, frame: Frame, w: &mut Waiting) -> Result<(), Frame> {
        let i = w.put(frame)?;
        if self.tail == NONE {
            self.head = i;
        } else {
            w.link(self.tail, i);
        }
        self.tail = i;
        self.len += 1;
        Ok(())
    }
    /// Puts a frame in front of all; gives it back when the store is full.
    pub(super) fn push_front(&mut self, frame: Frame, w: &mut Waiting) -> Result<(), Frame> {
        let i = w.put(frame)?;
        w.link(i, self.head);
        if self.tail == NONE {
            self.tail = i;
        }
        self.head = i;
        self.len += 1;
        Ok(())
    }
    /// Takes the next frame.
    pub(super) fn pop(&mut self, w: &mut Waiting) -> Option<Frame> {
        let (f, next) = w.take(self.head)?;
        self.head = next;
        if next == NONE {
            self.tail = NONE;
        }
        self.len -= 1;
        Some(f)
    }
    /// Appends another queue's frames, in their order.
    pub(super) fn append(&mut self, other: Fifo, w: &mut Waiting) {
        if other.head == NONE {
            return;
        }
        if self.tail == NONE {
            self.head = other.head;
        } else {
            w.link(self.tail, other.head);
        }
        self.tail = other.tail;
        self.len += other.len;
    }
}
