//! The device with configured faults ([`crate::dut`]) in a simulated world: ground truth for modules.
//!
//! Sans-I/O. Between the simulation's messages and the device's bytes stands a control channel, as on a real
//! wire; the device's ports 1, 2 and so on are the data channels.

use super::simulation::{EPOCH, Output, SimulatedDut};
use crate::dut::Dut;
use crate::dut::profile::Profile;
use crate::module::Sample;
use crate::snmp::client::{Value, decode};
use std::time::Duration;
use weir_openflow::channel::{Channel, Config, Event, Side, Versions};
use weir_openflow::model::{Msg, Version};
use weir_packet::Nanos;

/// A device in virtual time.
pub struct Configured {
    dut: Dut,
    profile: Profile,
    versions: Versions,
    line: Option<(u32, Channel)>,
    /// Said while the connection was made.
    early: Vec<Output>,
    /// What a reset takes, and until when one does.
    boot: Nanos,
    down_until: Nanos,
    /// Why connections have ended, to be told.
    closed: Option<&'static str>,
}

/// What its ports are called.
const PORTS: [&str; 2] = ["p1", "p2"];

/// A request of SNMP version 2c, community `public`, for the load of its processor
/// (hrProcessorLoad.1, RFC 2790), in BER.
const ASK_LOAD: &[u8] =
    b"\x30\x29\x02\x01\x01\x04\x06public\xa0\x1c\x02\x01\x01\x02\x01\x00\x02\x01\x00\
    \x30\x11\x30\x0f\x06\x0b\x2b\x06\x01\x02\x01\x19\x03\x03\x01\x02\x01\x05\x00";

fn time(now: Nanos) -> Duration {
    Duration::from_nanos(now.since(EPOCH).0)
}

impl Configured {
    /// With that profile and two ports.
    pub fn new(profile: Profile) -> Self {
        Self {
            dut: Dut::new(profile.clone(), &PORTS, EPOCH),
            profile,
            versions: Versions::ALL,
            line: None,
            boot: Nanos(0),
            down_until: Nanos(0),
            closed: None,
            early: Vec::new(),
        }
    }

    /// With resets that take so long: meanwhile frames are lost and connections refused.
    #[must_use]
    pub fn booting_in(mut self, boot: Nanos) -> Self {
        self.boot = boot;
        self
    }

    /// With a controller that offers this version alone.
    #[must_use]
    pub fn speaking(mut self, version: Version) -> Self {
        self.versions = Versions::only(version);
        self
    }

    /// Carries bytes both ways until there are none; what the controller's side heard goes to `out`.
    fn carry(&mut self, now: Nanos, out: &mut Vec<Output>) -> Option<Version> {
        let mut up = None;
        let (conn, mut channel) = self.line.take()?;
        loop {
            let mut moved = false;
            let room = self.dut.input_room(conn);
            let bytes = channel.outgoing();
            let n = bytes.len().min(room);
            if n > 0 {
                let taken = self.dut.receive(conn, &bytes[..n], now);
                channel.advance(taken);
                moved |= taken > 0;
            }
            let bytes = self.dut.outgoing(conn);
            let n = bytes.len().min(channel.input_room());
            if n > 0 {
                let taken = channel.receive(&bytes[..n], time(now));
                self.dut.advance(conn, taken);
                moved |= taken > 0;
            }
            while let Some(event) = channel.next_event(time(now)) {
                moved = true;
                match event {
                    Event::Up(version) => up = Some(version),
                    Event::Message(received) => out.push(Output::Message(received.msg)),
                    Event::Misread(e) => out.push(Output::Misread(e)),
                    Event::Closed(why) => {
                        out.push(Output::Close(why.to_string()));
                        self.dut.disconnect(conn);
                        return up;
                    }
                }
            }
            if !moved {
                break;
            }
        }
        if self.dut.over(conn).is_some() && self.dut.outgoing(conn).is_empty() {
            out.push(Output::Close("the switch closed it".to_owned()));
            self.dut.disconnect(conn);
            return up;
        }
        self.line = Some((conn, channel));
        up
    }
}

impl SimulatedDut for Configured {
    fn connect(&mut self, now: Nanos) -> Option<Version> {
        if now < self.down_until {
            self.closed = Some("refused");
            return None;
        }
        let mut config = Config::new(Side::Controller);
        config.keep_alive = None;
        config.versions = self.versions;
        let conn = self.dut.connect(now)?;
        self.line = Some((conn, Channel::new(config, time(now))));
        // Greetings, or why there are none.
        let mut early = Vec::new();
        let version = self.carry(now, &mut early);
        self.early = early;
        version
    }

    fn disconnect(&mut self, _: Nanos) {
        if let Some((conn, _)) = self.line.take() {
            self.dut.disconnect(conn);
        }
    }

    fn message(&mut self, _: Nanos, msg: Msg) {
        if let Some((_, channel)) = &mut self.line {
            // What has no room is lost, and its answer missed: a measurement never has so much under way.
            let _ = channel.send(&msg);
        }
    }

    fn reset(&mut self, now: Nanos) -> Result<(), String> {
        self.dut = Dut::new(self.profile.clone(), &PORTS, now);
        self.down_until = now + self.boot;
        if self.line.take().is_some() {
            self.closed = Some("reset");
        }
        Ok(())
    }

    fn frame(&mut self, now: Nanos, channel: usize, frame: &[u8]) {
        if now < self.down_until {
            return;
        }
        self.dut.frame_in(channel as u32 + 1, frame, now);
    }

    fn state(&mut self, now: Nanos) -> Option<Result<Vec<Sample>, String>> {
        if now < self.down_until {
            return Some(Err("its agent is down".to_owned()));
        }
        let Some(answer) = self.dut.snmp(ASK_LOAD, now) else {
            return Some(Err("its SNMP agent does not answer".to_owned()));
        };
        let load = |(_, value): (_, Option<Value>)| {
            let value = value?.number()? as f64;
            let what = Sample::CPU.to_owned();
            Some(Sample { at: now, what, value, unit: "%".to_owned() })
        };
        Some(decode(&answer).map(|all| all.into_iter().filter_map(load).collect()))
    }

    fn wake_at(&self) -> Option<Nanos> {
        if self.early.is_empty() { self.dut.wake_at() } else { Some(EPOCH) }
    }

    fn poll(&mut self, now: Nanos, out: &mut Vec<Output>) {
        out.append(&mut self.early);
        out.extend(self.closed.take().map(|why| Output::Close(why.to_owned())));
        self.dut.tick(now);
        self.carry(now, out);
        while let Some((port, frame)) = self.dut.frame_out() {
            if let Some(channel) = (port as usize).checked_sub(1) {
                out.push(Output::Frame(channel, frame));
            }
        }
    }
}
