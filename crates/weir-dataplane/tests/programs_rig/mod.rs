//! A rig for slow-path programs: what the software stage does for one program, in virtual time,
//! with every frame counted. Touches memory only. Used by `tests/programs_*.rs`.
#![allow(dead_code)]

use std::collections::VecDeque;
use weir_dataplane::{
    Done, End, Origin, PortNo, Program, ProgramCx, ProgramPort, Punt, SlowFrame, Vid,
};
use weir_packet::{DropReason, Frame, Nanos, Pool};

/// A frame that left.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Sent {
    pub port: u32,
    pub bytes: Vec<u8>,
    pub origin: Origin,
}

/// What became of the frames since the last look.
#[derive(Debug, Default)]
pub struct Outcome {
    pub sent: Vec<Sent>,
    pub dropped: Vec<(DropReason, Origin)>,
    pub consumed: usize,
}

impl Outcome {
    /// The only frame sent, and nothing else.
    pub fn one(self) -> Sent {
        let [sent] = <[Sent; 1]>::try_from(self.sent)
            .unwrap_or_else(|s| panic!("{} frames sent, not one", s.len()));
        sent
    }
    pub fn ports(&self) -> Vec<u32> {
        let mut p: Vec<_> = self.sent.iter().map(|s| s.port).collect();
        p.sort_unstable();
        p
    }
    /// The only reason for which anything was dropped; nothing sent, nothing consumed.
    pub fn only_drop(&self) -> DropReason {
        assert!(self.sent.is_empty() && self.consumed == 0, "{self:?}");
        assert_eq!(self.dropped.len(), 1, "{self:?}");
        self.dropped[0].0
    }
}

pub struct Rig {
    pub program: Box<dyn Program>,
    pub now: Nanos,
    pub ports: Vec<ProgramPort>,
    pub refused: u64,
    pool: Pool,
    done: VecDeque<Done>,
    spare: Vec<Frame>,
    /// Received frames handed to the program, and those that have ended.
    given: usize,
    ended: usize,
}

pub fn port(no: u32) -> ProgramPort {
    ProgramPort { no: PortNo(no), up: true, floods: true, max_frame_bytes: 1514, ip_bytes: 1500 }
}

impl Rig {
    pub fn new(program: impl Program + 'static, ports: u32) -> Self {
        Self::with_frames(Box::new(program), ports, 256)
    }
    pub fn with_frames(program: Box<dyn Program>, ports: u32, frames: usize) -> Self {
        Self {
            program,
            now: Nanos::from_secs(1),
            ports: (1..=ports).map(port).collect(),
            refused: 0,
            pool: Pool::new(frames, 4096).unwrap(),
            done: VecDeque::new(),
            spare: Vec::new(),
            given: 0,
            ended: 0,
        }
    }

    /// How many spare frames the program may take from now on.
    pub fn spares(&mut self, n: usize) {
        while self.spare.len() > n {
            self.pool.free(self.spare.pop().unwrap());
        }
        while self.spare.len() < n {
            self.spare.push(self.pool.alloc().expect("the rig's pool is too small"));
        }
    }

    fn with_cx(&mut self, f: impl FnOnce(&mut dyn Program, &mut ProgramCx<'_>)) {
        let mut cx = ProgramCx::new(
            Vid(1),
            self.now,
            &self.ports,
            &mut self.done,
            &mut self.spare,
            &mut self.refused,
        );
        f(&mut *self.program, &mut cx);
    }

    /// Hands over one frame, with 64 spares at the program's disposal.
    pub fn rx(&mut self, port: u32, bytes: &[u8]) -> Outcome {
        self.spares(64);
        self.rx_as_is(port, bytes)
    }
    /// Hands over one frame; spares are what they are.
    pub fn rx_as_is(&mut self, port: u32, bytes: &[u8]) -> Outcome {
        let mut frame = self.pool.alloc().expect("the rig's pool is too small");
        frame.copy_from(bytes).unwrap();
        self.given += 1;
        // Whether there is more is a question of time alone.
        let _ = self.program.expect(&frame, PortNo(port));
        self.program.expect_further(&frame, PortNo(port));
        let rx = SlowFrame { frame, in_port: PortNo(port), why: Punt::Default };
        self.with_cx(|p, cx| p.frame(rx, cx));
        self.look()
    }
    /// Lets time pass in steps of `step`, with a tick after each.
    pub fn pass(&mut self, time: Nanos, step: Nanos) -> Outcome {
        let end = self.now + time;
        let mut all = Outcome::default();
        while self.now < end {
            self.spares(64);
            self.now = end.min(self.now + step);
            self.with_cx(|p, cx| p.tick(cx));
            let o = self.look();
            all.sent.extend(o.sent);
            all.dropped.extend(o.dropped);
            all.consumed += o.consumed;
        }
        all
    }
    /// Lets a time pass and has one tick, for which there are so many spares.
    pub fn pass_with(&mut self, spares: usize, time: Nanos) -> Outcome {
        self.spares(spares);
        self.now = self.now + time;
        self.with_cx(|p, cx| p.tick(cx));
        self.look()
    }
    pub fn pass_ms(&mut self, ms: u64) -> Outcome {
        self.pass(Nanos::from_millis(ms), Nanos::from_millis(10))
    }
    /// The program ends what it keeps.
    pub fn release(&mut self) -> Outcome {
        self.with_cx(|p, cx| p.release(cx));
        let o = self.look();
        assert_eq!(self.program.held(), 0, "released, and still holding");
        o
    }

    /// Another program stands in its place and takes over what it knows, as the software stage does it.
    pub fn replace(&mut self, program: impl Program + 'static) -> Outcome {
        let o = self.release();
        let before = std::mem::replace(&mut self.program, Box::new(program));
        self.program.take_over(before);
        o
    }

    /// Takes what is done, and checks that every frame of the pool is accounted for once.
    fn look(&mut self) -> Outcome {
        let mut o = Outcome::default();
        for Done { frame, end, origin, vid, .. } in self.done.drain(..) {
            assert_eq!(vid, Vid(1));
            self.ended += usize::from(origin == Origin::Received);
            match end {
                End::Output(p) => {
                    o.sent.push(Sent { port: p.0, bytes: frame.bytes().to_vec(), origin });
                }
                End::Drop(why) => o.dropped.push((why, origin)),
                End::Consume => o.consumed += 1,
                other => panic!("a program ended a frame by {other:?}"),
            }
            self.pool.free(frame);
        }
        let held = self.program.held();
        assert_eq!(self.pool.outstanding(), self.spare.len() + held, "spare + held");
        assert_eq!(self.pool.foreign(), 0);
        assert!(self.given - self.ended <= held, "{} of {}", self.ended, self.given);
        o
    }
}

impl Drop for Rig {
    /// Whatever a test did, every frame is accounted for at its end.
    fn drop(&mut self) {
        if std::thread::panicking() {
            return;
        }
        self.release();
        self.spares(0);
        assert_eq!(self.pool.outstanding(), 0, "frames lost");
        assert_eq!(self.given, self.ended, "received frames and their ends");
    }
}
