//! packet_in to packet_out: a closed loop. A packet_out sends a frame through the switch's tables,
//! whose table-miss entry sends it back as a packet_in, which is answered with the next packet_out.
//! No port of the switch is needed.

use super::{Percentiles, Spread};
use crate::controller::flows::add;
use crate::controller::link::Link;
use anyhow::{Result, bail};
use serde::Serialize;
use std::time::{Duration, Instant};
use weir_openflow::model::{
    Action, Fragments, Match, Message, NO_BUFFER, NO_MAX_LEN, PacketOut, Port, SwitchConfig,
};

/// What came out.
#[derive(Debug, Serialize)]
pub struct Report {
    /// Frames that were in the loop at once.
    pub in_flight: usize,
    /// Turns a second: one packet_in and one packet_out each.
    pub per_s: Spread,
    /// Microseconds from packet_out to packet_in, one at a time, 1000 a second.
    pub round_us: Percentiles,
}

const IN_FLIGHT: usize = 64;

fn out() -> Message {
    let mut data = vec![2, 0, 0, 0, 0, 9, 2, 0, 0, 0, 0, 1, 0x88, 0xb5];
    data.resize(60, 0);
    Message::PacketOut(PacketOut {
        buffer_id: NO_BUFFER,
        in_port: Port(1),
        actions: vec![Action::Output { port: Port::TABLE, max_len: 0 }],
        data,
    })
}

fn until_packet_in(link: &mut Link) -> Result<()> {
    loop {
        match link.next()?.body {
            Message::PacketIn(_) => return Ok(()),
            Message::Error(e) => bail!("the switch refuses: {e:?}"),
            _ => {}
        }
    }
}

/// Measures.
pub fn measure(link: &mut Link) -> Result<Report> {
    let to = Action::Output { port: Port::CONTROLLER, max_len: NO_MAX_LEN };
    link.send(Message::FlowMod(add(0, Match::default(), to)))?;
    // A connection that came by a management listener is told nothing unless it asks for it.
    let fragments = Fragments::Normal;
    link.send(Message::SetConfig(SwitchConfig { fragments, miss_send_len: NO_MAX_LEN }))?;
    link.barrier()?;
    let (_, one) = link.bytes(out())?;
    let mut times = Vec::new();
    for _ in 0..500 {
        let start = Instant::now();
        link.write(&one)?;
        until_packet_in(link)?;
        times.push(start.elapsed().as_nanos() as u64);
        std::thread::sleep(Duration::from_millis(1));
    }
    link.write(&one.repeat(IN_FLIGHT))?;
    let mut rates = Vec::new();
    for _ in 0..5 {
        let (mut turns, start) = (0u64, Instant::now());
        while start.elapsed() < Duration::from_secs(1) {
            // All that is here is answered with one write, as any controller would.
            let mut came = 0;
            while came == 0 || link.has_more() {
                until_packet_in(link)?;
                came += 1;
            }
            link.write(&one.repeat(came))?;
            turns += came as u64;
        }
        rates.push(turns as f64 / start.elapsed().as_secs_f64());
    }
    for _ in 0..IN_FLIGHT {
        until_packet_in(link)?;
    }
    Ok(Report { in_flight: IN_FLIGHT, per_s: Spread::of(rates), round_us: Percentiles::of(times) })
}
