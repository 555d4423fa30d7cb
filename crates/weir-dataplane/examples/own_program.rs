//! A slow-path program of one's own, in one file: `cargo run -p weir-dataplane --example
//! own_program`.
//!
//! `guard` connects ports 1 and 2 and admits at most two stations at each, the first that are
//! seen; a frame from any other is dropped. All that a program needs is here: it implements
//! `Program`, and says through `ProgramCx` what becomes of each frame. `main` plays the software
//! stage for it, so that the example runs by itself.

use std::collections::VecDeque;
use weir_dataplane::{Done, End, PortNo, Program, ProgramCx, ProgramPort, Punt, SlowFrame, Vid};
use weir_packet::{DropReason, Nanos, Pool};
use weir_wire::{EtherType, EthernetFrame, MacAddr, build};

/// The most stations at a port.
const STATIONS: usize = 2;

#[derive(Default)]
struct Guard {
    admitted: [Vec<MacAddr>; 2],
    refused: u64,
}

impl Guard {
    fn admits(&mut self, port: usize, mac: MacAddr) -> bool {
        let Some(known) = self.admitted.get_mut(port) else { return false };
        if known.contains(&mac) {
            return true;
        }
        let room = known.len() < STATIONS && mac.is_unicast();
        if room {
            known.push(mac);
        }
        room
    }
}

impl Program for Guard {
    fn name(&self) -> &'static str {
        "guard"
    }

    fn frame(&mut self, rx: SlowFrame, cx: &mut ProgramCx<'_>) {
        let Ok(eth) = EthernetFrame::new_checked(rx.frame.bytes()) else {
            return cx.drop(rx.frame, DropReason::Runt);
        };
        let (from, to) = match rx.in_port {
            PortNo(1) => (0, PortNo(2)),
            PortNo(2) => (1, PortNo(1)),
            _ => return cx.drop(rx.frame, DropReason::NoSuchPort),
        };
        let mac = eth.src();
        if self.admits(from, mac) {
            cx.output(rx.frame, to);
        } else {
            self.refused += 1;
            cx.drop(rx.frame, DropReason::Program);
        }
    }

    fn status(&self) -> Vec<(String, String)> {
        let admitted = self.admitted.each_ref().map(|a| a.len().to_string()).join(" and ");
        vec![("admitted".into(), admitted), ("refused".into(), self.refused.to_string())]
    }
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut guard = Guard::default();
    let mut pool = Pool::new(16, 2048)?;
    let ports = [1, 2].map(|n| ProgramPort {
        no: PortNo(n),
        up: true,
        floods: true,
        max_frame_bytes: 1514,
        ip_bytes: 1500,
    });
    let (mut done, mut spare, mut refused) = (VecDeque::new(), Vec::new(), 0);

    for (port, station) in [(1, 0xa), (1, 0xb), (2, 0xc), (1, 0xd), (1, 0xa)] {
        let src = MacAddr([2, 0, 0, 0, 0, station]);
        let mut bytes = [0; 60];
        let built = build::Frame::ethernet(EtherType::from(0x88b5), b"an experiment");
        let len = built.macs(src, MacAddr::BROADCAST).emit(&mut bytes)?;
        let mut frame = pool.alloc().ok_or("no free frame")?;
        frame.copy_from(&bytes[..len])?;

        let mut cx = ProgramCx::new(Vid(1), Nanos(0), &ports, &mut done, &mut spare, &mut refused);
        let rx = SlowFrame { frame, in_port: PortNo(port), why: Punt::Default };
        guard.frame(rx, &mut cx);

        for Done { frame, end, .. } in done.drain(..) {
            match end {
                End::Output(to) => println!("{src} on port {port}: sent by port {to}"),
                End::Drop(why) => println!("{src} on port {port}: dropped, {}", why.label()),
                other => println!("{src} on port {port}: {other:?}"),
            }
            pool.free(frame);
        }
    }
    for (name, value) in guard.status() {
        println!("{name}: {value}");
    }
    Ok(())
}
