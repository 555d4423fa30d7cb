//! Captures: copies of frames from a tap to a client, as they come.
//!
//! Room: a client's thread. The tap's queue is bounded and never holds up the worker; what does not
//! fit is counted and told at the end.

use super::handler::{bad, find, waiting};
use super::items::FrameItem;
use super::lines::Lines;
use super::live::{Live, NotDone};
use super::protocol::{Done, Fault, Item, Refusal, Reply, to_hex};
use super::server::{PATIENCE, reply};
use super::view::port_name;
use std::collections::BTreeMap;
use std::io::{self, ErrorKind};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError};
use std::time::{Duration, Instant};
use weir_classify::Match;
use weir_dataplane::flowtext::parse_match;
use weir_dataplane::{Captured, Stage, TapId, TapPoint, UserFields};
use weir_packet::PortId;

/// Frames that may wait for a client.
const QUEUE: usize = 4096;
/// How often a capture looks whether its client is still there, and has it write what has come since.
const LOOK: Duration = Duration::from_millis(100);
/// How often it says that it waits, without frames.
const BEAT: Duration = Duration::from_secs(1);
/// How long a client that did not read can still hear that its capture was ended for that.
const LATE: Duration = Duration::from_secs(60);

/// What is to be captured.
#[derive(Clone, Debug)]
pub struct Wanted {
    /// At this port.
    pub port: Option<String>,
    /// Of this VDP.
    pub vdp: Option<String>,
    /// At this stage.
    pub stage: Option<String>,
    /// Matching this.
    pub filter: Option<String>,
    /// So many frames.
    pub count: Option<u64>,
}

/// A capture that runs.
#[derive(Debug)]
pub struct Running {
    tap: TapId,
    from: Receiver<Captured>,
    names: BTreeMap<PortId, String>,
    left: u64,
}

/// Begins a capture.
///
/// # Errors
/// No such port, VDP or stage; a filter that can't be read.
pub fn start(live: &Live, wanted: &Wanted) -> Result<Running, NotDone> {
    let stage = match &wanted.stage {
        None => None,
        Some(word) => {
            Some(Stage::by_name(word).filter(|s| *s != Stage::Transmit).ok_or_else(|| {
                let names: Vec<&str> = Stage::ALL.iter().map(|s| s.name()).collect();
                let list = names.join(", ").replace(", transmit", "");
                bad(format!("no stage '{word}': there are {list}"))
            })?)
        }
    };
    if stage == Some(Stage::Receive) && wanted.vdp.is_some() {
        let text = "at receive no frame is a VDP's yet: say 'mapping' for a VDP's frames as they come, or leave the VDP out";
        return Err(bad(text));
    }
    let (point, filter, names) = live.look(|m| {
        let no_port = |name: &String| {
            let list: Vec<&str> = m.ids.keys().map(String::as_str).collect();
            bad(format!("there is no port '{name}'; there are: {}", list.join(", ")))
        };
        let port = match &wanted.port {
            None => None,
            Some(name) => Some(*m.ids.get(name).ok_or_else(|| no_port(name))?),
        };
        let vid = match &wanted.vdp {
            None => None,
            Some(which) => Some(find(m, which)?.vid),
        };
        let names = crate::config::plan::PlaneNames(&m.ids, UserFields::none());
        let filter = match &wanted.filter {
            None => Match::any(),
            Some(text) => parse_match(text, &names).map_err(|e| bad(format!("filter: {e}")))?,
        };
        let names = m.ids.values().map(|id| (*id, port_name(m, *id))).collect();
        Ok::<_, NotDone>((TapPoint { port, vid, stage }, filter, names))
    })??;
    let (tap, from) = live.handle().call(move |p| p.add_tap(point, filter, QUEUE))?;
    Ok(Running { tap, from, names, left: wanted.count.unwrap_or(u64::MAX) })
}

impl Running {
    /// Sends frames until the client hangs up, enough have been sent, or the daemon ends. A client that does not read is told
    /// so, when it reads again.
    ///
    /// # Errors
    /// The client has gone; the tap is gone, too, then.
    pub fn run(mut self, live: &Live, lines: &mut Lines, stop: &AtomicBool) -> io::Result<Reply> {
        let mut sent = 0;
        let ended = self.send_all(live, lines, stop, &mut sent);
        let tap = self.tap;
        // With the worker gone there is no tap any more.
        let missed = live.handle().call(move |p| p.remove_tap(tap)).ok().flatten().unwrap_or(0);
        match ended {
            Ok(()) => {
                let (captured, missed) = (Some(sent), Some(missed));
                Ok(Reply::Ok(Done { captured, missed, ..Done::default() }))
            }
            Err(e) if matches!(e.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut) => {
                // What could not be sent goes out first; what waited behind it does not.
                let missed = missed + self.from.try_iter().count() as u64;
                until_read(lines, stop)?;
                let text = format!(
                    "the capture was not read for {} s and was ended; the data plane goes on: \
                     {} frames captured, {missed} missed until then",
                    PATIENCE.as_secs(),
                    sent + 1
                );
                Ok(Reply::Error(Refusal { fault: Fault::Work, text }))
            }
            Err(e) => Err(e),
        }
    }

    fn send_all(
        &mut self,
        live: &Live,
        lines: &mut Lines,
        stop: &AtomicBool,
        sent: &mut u64,
    ) -> io::Result<()> {
        // Says that the tap is there: whoever waits for this can start its traffic.
        waiting(lines)?;
        let (mut looked, mut beat, mut told) = (Instant::now(), Instant::now(), *sent);
        while self.left > 0 && !stop.load(Ordering::Acquire) {
            match self.from.recv_timeout(LOOK) {
                Ok(c) => {
                    let item = self.item(live, c);
                    reply(lines, &Reply::Item(Item::Frame(item)))?;
                    (self.left, *sent) = (self.left - 1, *sent + 1);
                }
                Err(RecvTimeoutError::Disconnected) => return Ok(()),
                Err(RecvTimeoutError::Timeout) => {}
            }
            // By time, whether frames come or not: where they come one by one there is never a pause.
            if looked.elapsed() < LOOK {
                continue;
            }
            if lines.hung_up() {
                return Ok(());
            }
            if told != *sent || beat.elapsed() >= BEAT {
                (beat, told) = (Instant::now(), *sent);
                waiting(lines)?;
            }
            looked = Instant::now();
        }
        Ok(())
    }

    fn item(&mut self, live: &Live, c: Captured) -> FrameItem {
        let port = self.names.entry(c.port).or_insert_with(|| {
            live.look(|m| port_name(m, c.port)).unwrap_or_else(|_| format!("port{}", c.port))
        });
        FrameItem {
            at_ns: c.stamp.map_or_else(|| live.unix_ns(c.at), |s| s.0),
            port: port.clone(),
            vid: c.vid.map(|v| v.0),
            stage: c.stage.name().to_owned(),
            bytes: to_hex(&c.bytes),
        }
    }
}

/// Waits until a client that did not read has read what it was sent, for as long as that may be of use to anybody.
fn until_read(lines: &mut Lines, stop: &AtomicBool) -> io::Result<()> {
    let until = Instant::now() + LATE;
    loop {
        match lines.send(&[], LOOK) {
            Err(e)
                if matches!(e.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut)
                    && Instant::now() < until
                    && !stop.load(Ordering::Acquire) => {}
            other => return other,
        }
    }
}
