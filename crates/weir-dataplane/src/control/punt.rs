//! Who gets a VDP's frames on the slow path: its program, its own stack, its controllers.
//!
//! Room: as the rest of `control`. Frames that are pushed afterwards meet the new one.

use super::*;
use crate::action::Vid;
use crate::plane::DataPlane;
use crate::program::Program;
use crate::punt::PuntSink;
use crate::software::Slot;

impl DataPlane {
    /// Gives a VDP another slow-path program, which takes over what the one before knows ([`Program::take_over`]).
    ///
    /// # Errors
    /// No such VDP.
    pub fn set_program(
        &mut self,
        vid: Vid,
        program: Option<Box<dyn Program>>,
    ) -> Result<(), ControlError> {
        if program.is_some() {
            self.refuse_program(vid)?;
        }
        if let (Some(desk), Some(worker)) = (&self.desk, self.worker_of(vid)) {
            let set = move |p: &mut Self| p.set_program(vid, program);
            return desk.one(worker, set).unwrap_or(Ok(()));
        }
        self.post_programs(vid, move |slot| {
            let before = std::mem::replace(&mut slot.program, program);
            if let (Some(now), Some(before)) = (&mut slot.program, before) {
                now.take_over(before);
            }
        })
    }
    /// Refuses a program where several workers have the VDP.
    pub(super) fn refuse_program(&self, vid: Vid) -> Result<(), ControlError> {
        let why = "each would have one of its own, which knows a part of the frames";
        self.takes_a_pin(vid, "a slow-path program", why)
    }
    /// Gives a VDP what frames for LOCAL go to; without it they are dropped.
    ///
    /// # Errors
    /// No such VDP.
    pub fn set_local_program(
        &mut self,
        vid: Vid,
        program: Option<Box<dyn Program>>,
    ) -> Result<(), ControlError> {
        if program.is_some() {
            self.refuse_program(vid)?;
        }
        if let (Some(desk), Some(worker)) = (&self.desk, self.worker_of(vid)) {
            let set = move |p: &mut Self| p.set_local_program(vid, program);
            return desk.one(worker, set).unwrap_or(Ok(()));
        }
        self.post_programs(vid, move |slot| slot.own_stack = program)
    }
    /// Changes who a VDP's frames go to; frames that the old ones keep are ended.
    fn post_programs(
        &self,
        vid: Vid,
        change: impl FnOnce(&mut Slot) + Send + 'static,
    ) -> Result<(), ControlError> {
        let channel = self.vdp(vid)?.channel.channel;
        if let Some(c) = self.channels.get(usize::from(channel)) {
            c.ring.post(Box::new(move |s| s.set_programs(vid, change)));
        }
        Ok(())
    }
    /// Says where a VDP's frames for its controllers go; without a sink they end unseen, counted as
    /// consumed.
    ///
    /// # Errors
    /// No such VDP.
    pub fn set_punt_sink(
        &mut self,
        vid: Vid,
        sink: Option<Box<dyn PuntSink>>,
    ) -> Result<(), ControlError> {
        self.vdp(vid)?;
        if let Some(desk) = &self.desk {
            let why = "it has one end: let it have another for each (PuntSink::another)";
            let none = || self.takes_one_worker(vid, "this sink of punts", why);
            let sinks = desk.for_each(sink);
            return match sinks {
                Some(sinks) => desk.set_punt_sinks(vid, sinks),
                None => none(),
            };
        }
        self.post(vid, move |slot| slot.sink = sink)
    }
}
