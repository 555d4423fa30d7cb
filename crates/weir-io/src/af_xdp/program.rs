//! The XDP programs of a port, instruction by instruction.
//!
//! Room: `af_xdp`. Pure: bytes for the kernel, which verifies them. Source: RFC 9669 (BPF's
//! instruction set), and the helpers' numbers in the kernel's `bpf.h`.
//!
//! [`to_socket`] hands every frame to the socket of its queue. [`ways`] looks first whether a way is
//! known for it; see there.

use super::ways::layout::{self, Layout};
use crate::sys::bpf::Instruction;

const HELPER_LOOKUP: i32 = 1;
const HELPER_PROCESSOR: i32 = 8;
const HELPER_REDIRECT: i32 = 23;
const HELPER_REDIRECT_MAP: i32 = 51;
const HELPER_FRAME_BYTES: i32 = 188;
const XDP_PASS: i32 = 2;
const XDP_REDIRECT: i32 = 4;
/// What [`ways`] refers to in the instruction that loads an address: a map, or a map's value.
const PSEUDO_MAP: u8 = 1;
const PSEUDO_VALUE: u8 = 2;
/// `BPF_XCHG`, of the atomic instructions: a full barrier.
const EXCHANGE: i32 = 0xe1;

/// Widths of accesses, as opcodes say them.
#[derive(Clone, Copy)]
enum Width {
    Word = 0x00,
    Half = 0x08,
    Double = 0x18,
}

/// Places that are jumped to.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Label {
    ByRest,
    Way,
    NoDst,
    NoSrc,
    Leave,
    LeaveUp,
    Up,
}

/// Instructions, with jumps to places that are not known yet.
#[derive(Default)]
struct Code {
    all: Vec<Instruction>,
    jumps: Vec<(usize, Label)>,
    places: Vec<(Label, usize)>,
}

const R0: u8 = 0;
const R1: u8 = 1;
const R2: u8 = 2;
const R3: u8 = 3;
/// Registers that calls keep.
const CONTEXT: u8 = 6;
const FRAME: u8 = 7;
const STATE: u8 = 8;
const WAY: u8 = 9;
const STACK: u8 = 10;
/// On the stack: the key, the processor's number, the frame's length.
const KEY: i16 = -8;
const PROCESSOR: i16 = -16;
const LENGTH: i16 = -24;

impl Code {
    /// One instruction: opcode, registers, offset, immediate.
    fn put(&mut self, code: u8, dst: u8, src: u8, off: i16, imm: i32) -> &mut Self {
        let (o, i) = (off.to_ne_bytes(), imm.to_ne_bytes());
        // Registers are two fields of four bits: in memory's order on either kind of machine.
        let registers =
            if cfg!(target_endian = "little") { dst | src << 4 } else { dst << 4 | src };
        self.all.push([code, registers, o[0], o[1], i[0], i[1], i[2], i[3]]);
        self
    }
    fn set(&mut self, dst: u8, value: i32) -> &mut Self {
        self.put(0xb7, dst, 0, 0, value)
    }
    fn copy(&mut self, dst: u8, src: u8) -> &mut Self {
        self.put(0xbf, dst, src, 0, 0)
    }
    fn plus(&mut self, dst: u8, value: i32) -> &mut Self {
        self.put(0x07, dst, 0, 0, value)
    }
    fn plus_of(&mut self, dst: u8, src: u8) -> &mut Self {
        self.put(0x0f, dst, src, 0, 0)
    }
    fn masked(&mut self, dst: u8, mask: i32) -> &mut Self {
        self.put(0x57, dst, 0, 0, mask)
    }
    fn shifted(&mut self, dst: u8, left: i32) -> &mut Self {
        self.put(0x67, dst, 0, 0, left)
    }
    fn load(&mut self, width: Width, dst: u8, base: u8, off: i16) -> &mut Self {
        self.put(0x61 | width as u8, dst, base, off, 0)
    }
    fn store(&mut self, width: Width, base: u8, off: i16, src: u8) -> &mut Self {
        self.put(0x63 | width as u8, base, src, off, 0)
    }
    fn exchange(&mut self, base: u8, off: i16, src: u8) -> &mut Self {
        self.put(0xdb, base, src, off, EXCHANGE)
    }
    /// The address of a map, or of a map's value.
    fn address(&mut self, dst: u8, pseudo: u8, map: i32) -> &mut Self {
        self.put(0x18, dst, pseudo, 0, map).put(0, 0, 0, 0, 0)
    }
    fn call(&mut self, helper: i32) -> &mut Self {
        self.put(0x85, 0, 0, 0, helper)
    }
    fn exit(&mut self) -> &mut Self {
        self.put(0x95, 0, 0, 0, 0)
    }
    fn jump(&mut self, to: Label) -> &mut Self {
        self.jumps.push((self.all.len(), to));
        self.put(0x05, 0, 0, 0, 0)
    }
    fn jump_if(&mut self, register: u8, is: i32, to: Label) -> &mut Self {
        self.jumps.push((self.all.len(), to));
        self.put(0x15, register, 0, 0, is)
    }
    fn jump_unless(&mut self, register: u8, is: i32, to: Label) -> &mut Self {
        self.jumps.push((self.all.len(), to));
        self.put(0x55, register, 0, 0, is)
    }
    fn jump_if_more(&mut self, register: u8, than: u8, to: Label) -> &mut Self {
        self.jumps.push((self.all.len(), to));
        self.put(0x2d, register, than, 0, 0)
    }
    fn here(&mut self, label: Label) -> &mut Self {
        self.places.push((label, self.all.len()));
        self
    }
    /// With the jumps filled in.
    fn done(mut self) -> Vec<Instruction> {
        for (at, label) in self.jumps {
            let place = self.places.iter().find(|(l, _)| *l == label).map_or(at, |p| p.1);
            // Programs are some dozens of instructions long.
            let off = (place as i64 - at as i64 - 1) as i16;
            if let Some(i) = self.all.get_mut(at) {
                [i[2], i[3]] = off.to_ne_bytes();
            }
        }
        self.all
    }
    /// `return bpf_redirect_map(&sockets, context->rx_queue_index, XDP_PASS)`: a frame of a queue
    /// without a socket passes.
    fn hand_over(&mut self, sockets: i32) -> &mut Self {
        self.load(Width::Word, R2, CONTEXT, 16)
            .address(R1, PSEUDO_MAP, sockets)
            .set(R3, XDP_PASS)
            .call(HELPER_REDIRECT_MAP)
            .exit()
    }
}

/// Every frame goes to the socket of its queue, in the map of this number.
pub(super) fn to_socket(sockets: i32) -> Vec<Instruction> {
    let mut c = Code::default();
    c.copy(CONTEXT, R1).hand_over(sockets);
    c.done()
}

/// Maps of [`ways`].
#[derive(Clone, Copy)]
pub(super) struct Maps {
    pub(super) sockets: i32,
    pub(super) state: i32,
    pub(super) by_mac: i32,
}

/// A frame goes the way that is known for its destination, else the way of the rest, else, or where it
/// is too long, to its socket. On a way it gets the addresses that the way says, and is counted.
///
/// While the program looks at what can change it says so at its processor's place, before it looks
/// whether it is on: who switches it off and then finds nobody inside knows that all is counted and
/// that whatever comes later sees it off.
pub(super) fn ways(maps: Maps, at: Layout) -> Vec<Instruction> {
    use Label::{ByRest, Leave, LeaveUp, NoDst, NoSrc, Up, Way};
    use Width::{Double, Half, Word};
    let mut c = Code::default();
    c.copy(CONTEXT, R1);
    c.load(Word, FRAME, CONTEXT, 0).load(Word, R2, CONTEXT, 4);
    c.copy(R1, FRAME).plus(R1, 14).jump_if_more(R1, R2, Up);
    c.address(STATE, PSEUDO_VALUE, maps.state);
    c.load(Double, R1, STATE, layout::ON).jump_if(R1, 0, Up);
    c.call(HELPER_PROCESSOR).store(Double, STACK, PROCESSOR, R0);
    c.inside(at).set(R1, 1).exchange(R2, layout::INSIDE, R1);
    c.load(Double, R1, STATE, layout::ON).jump_if(R1, 0, LeaveUp);
    // Which way.
    c.load(Double, R1, STATE, layout::MACS).jump_if(R1, 0, ByRest);
    c.load(Word, R1, FRAME, 0).load(Half, R2, FRAME, 4);
    c.store(Word, STACK, KEY, R1).store(Half, STACK, KEY + 4, R2);
    c.set(R1, 0).store(Half, STACK, KEY + 6, R1);
    c.address(R1, PSEUDO_MAP, maps.by_mac).copy(R2, STACK).plus(R2, KEY.into());
    c.call(HELPER_LOOKUP).copy(WAY, R0).jump_unless(R0, 0, Way);
    c.here(ByRest).copy(WAY, STATE).plus(WAY, layout::REST.into());
    c.here(Way).load(Word, R1, WAY, layout::EXIT).jump_if(R1, 0, LeaveUp);
    c.copy(R1, CONTEXT).call(HELPER_FRAME_BYTES).store(Double, STACK, LENGTH, R0);
    c.load(Word, R1, WAY, layout::MAX).jump_if_more(R0, R1, LeaveUp);
    c.load(Word, R1, WAY, layout::EXIT).set(R2, 0);
    c.call(HELPER_REDIRECT).jump_unless(R0, XDP_REDIRECT, LeaveUp);
    // Addresses.
    c.load(Word, R1, WAY, layout::CHANGES);
    c.copy(R2, R1).masked(R2, layout::CHANGES_DST).jump_if(R2, 0, NoDst);
    c.load(Word, R2, WAY, layout::DST).store(Word, FRAME, 0, R2);
    c.load(Half, R2, WAY, layout::DST + 4).store(Half, FRAME, 4, R2);
    c.here(NoDst).masked(R1, layout::CHANGES_SRC).jump_if(R1, 0, NoSrc);
    c.load(Word, R2, WAY, layout::SRC).store(Word, FRAME, 6, R2);
    c.load(Half, R2, WAY, layout::SRC + 4).store(Half, FRAME, 10, R2);
    c.here(NoSrc);
    // One more frame and its bytes, at this processor.
    c.load(Double, R1, STACK, PROCESSOR).masked(R1, at.last_processor());
    c.shifted(R1, layout::COUNTERS_SHIFT);
    c.load(Word, R2, WAY, layout::COUNTER).masked(R2, layout::LAST_COUNTER).shifted(R2, 4);
    c.plus_of(R1, R2).copy(R2, STATE).plus_of(R2, R1).plus(R2, at.counters() as i32);
    c.load(Double, R1, R2, 0).plus(R1, 1).store(Double, R2, 0, R1);
    c.load(Double, R1, R2, 8).load(Double, R3, STACK, LENGTH).plus_of(R1, R3);
    c.store(Double, R2, 8, R1);
    c.set(FRAME, XDP_REDIRECT).jump(Leave);
    c.here(LeaveUp).set(FRAME, 0);
    c.here(Leave).inside(at).set(R1, 0);
    if cfg!(target_arch = "x86_64") {
        // Stores become visible in order.
        c.store(Double, R2, layout::INSIDE, R1);
    } else {
        c.exchange(R2, layout::INSIDE, R1);
    }
    c.jump_if(FRAME, 0, Up).set(R0, XDP_REDIRECT).exit();
    c.here(Up).hand_over(maps.sockets);
    c.done()
}

impl Code {
    /// In R2, from where this processor's place is found.
    fn inside(&mut self, at: Layout) -> &mut Self {
        self.load(Width::Double, R1, STACK, PROCESSOR)
            .masked(R1, at.last_processor())
            .shifted(R1, layout::INSIDE_SHIFT)
            .copy(R2, STATE)
            .plus_of(R2, R1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn jumps_lead_to_instructions() {
        let maps = Maps { sockets: 3, state: 4, by_mac: 5 };
        let code = ways(maps, Layout::of(2));
        let ends = code.iter().filter(|i| i[0] == 0x95).count();
        assert_eq!(ends, 2);
        for (at, i) in
            code.iter().enumerate().filter(|(_, i)| matches!(i[0], 0x05 | 0x15 | 0x2d | 0x55))
        {
            let off = i16::from_ne_bytes([i[2], i[3]]);
            let to = at as i64 + 1 + i64::from(off);
            // Forwards, and not behind the end: a program without loops ends.
            assert!(off > 0 && to < code.len() as i64, "{at}: {i:?}");
            assert_ne!(code[to as usize][0], 0, "{at}: into the middle of an address");
        }
    }
}
