//! Four small controllers, unlike one another: what `weir demo` runs where os-ken is missing.
//!
//! Each listens on a loopback port of its own and serves one switch at a time, on its own thread,
//! until it is dropped.

use super::flows::add;
use super::link::Link;
use anyhow::{Context, Result};
use std::collections::HashMap;
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;
use weir_openflow::model::{
    Action, Field, FlowMod, Fragments, Match, Message, NO_BUFFER, NO_MAX_LEN, PacketIn, PacketOut,
    Port, SwitchConfig, Version,
};

/// What a controller does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum App {
    /// Learns addresses, installs a flow for each pair of them (OpenFlow 1.3).
    Learning13,
    /// The same over OpenFlow 1.0.
    Learning10,
    /// One flow: flood everything (OpenFlow 1.3).
    Hub,
    /// No flow but the one to itself: every packet by a packet_out (OpenFlow 1.3).
    EveryPacket,
}

impl App {
    /// Its name.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Learning13 => "learning-13",
            Self::Learning10 => "learning-10",
            Self::Hub => "hub",
            Self::EveryPacket => "every-packet",
        }
    }
    /// The version it speaks.
    pub const fn version(self) -> Version {
        match self {
            Self::Learning10 => Version::V10,
            _ => Version::V13,
        }
    }
}

/// A controller that runs.
#[derive(Debug)]
pub struct Running {
    /// Where it listens.
    pub at: SocketAddr,
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl Running {
    /// Starts one.
    ///
    /// # Errors
    /// No port or no thread for it.
    pub fn start(app: App) -> Result<Self> {
        let listener =
            TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).context("a port for a controller")?;
        let at = listener.local_addr()?;
        let stop = Arc::new(AtomicBool::new(false));
        let flag = Arc::clone(&stop);
        let thread = std::thread::Builder::new()
            .name(format!("ctl-{}", app.name()))
            .spawn(move || serve(&listener, app, &flag))?;
        Ok(Self { at, stop, thread: Some(thread) })
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Release);
        // Wakes it where it waits for a switch.
        let _ = TcpStream::connect(self.at);
        if let Some(t) = self.thread.take() {
            // A controller that panicked has ended, too.
            let _ = t.join();
        }
    }
}

fn serve(listener: &TcpListener, app: App, stop: &AtomicBool) {
    while let Ok((stream, _)) = listener.accept() {
        if stop.load(Ordering::Acquire) {
            return;
        }
        // A switch that goes, or speaks nonsense, ends its own connection; the next may come.
        let _ = attend(stream, app, stop);
    }
}

/// Serves one switch, whose connection this is, until it goes or `stop` is set.
///
/// # Errors
/// It spoke nonsense, or went.
pub fn attend(stream: TcpStream, app: App, stop: &AtomicBool) -> Result<()> {
    let mut link = Link::greet(stream, app.version())?;
    // Where the switch listened, Open vSwitch sends packets only to who has said how much of them.
    let fragments = Fragments::Normal;
    link.send(Message::SetConfig(SwitchConfig { fragments, miss_send_len: NO_MAX_LEN }))?;
    link.send(Message::FlowMod(FlowMod::delete_all(link.version)))?;
    match app {
        App::Learning10 => {}
        App::Learning13 | App::EveryPacket => {
            let to = Action::Output { port: Port::CONTROLLER, max_len: NO_MAX_LEN };
            link.send(Message::FlowMod(add(0, Match::default(), to)))?;
        }
        App::Hub => {
            let to = Action::Output { port: Port::FLOOD, max_len: 0 };
            link.send(Message::FlowMod(add(0, Match::default(), to)))?;
        }
    }
    link.barrier()?;
    // It is time to look whether to stop so often.
    link.set_patience(Duration::from_millis(100))?;
    let mut places: HashMap<[u8; 6], Port> = HashMap::new();
    while !stop.load(Ordering::Acquire) {
        if let Some(Message::PacketIn(p)) = link.next_within_patience()?.map(|m| m.body) {
            packet_in(&mut link, app, &mut places, p)?;
        }
    }
    Ok(())
}

fn address(frame: &[u8], at: usize) -> Option<[u8; 6]> {
    frame.get(at..at + 6)?.try_into().ok()
}

fn number(mac: [u8; 6]) -> u128 {
    mac.iter().fold(0, |n, b| n << 8 | u128::from(*b))
}

fn packet_in(
    link: &mut Link,
    app: App,
    places: &mut HashMap<[u8; 6], Port>,
    p: PacketIn,
) -> Result<()> {
    let in_port = p.matcher.get(Field::InPort).map_or(Port::ANY, |f| Port(f.value as u32));
    let (Some(dst), Some(src)) = (address(&p.data, 0), address(&p.data, 6)) else { return Ok(()) };
    // A controller's memory is bounded, too.
    if places.len() < 4096 {
        places.insert(src, in_port);
    }
    let to = places.get(&dst).copied().unwrap_or(Port::FLOOD);
    let to = Action::Output { port: to, max_len: 0 };
    if app != App::EveryPacket && places.contains_key(&dst) {
        let m = Match::default()
            .with(Field::InPort, u128::from(in_port.0))
            .with(Field::EthDst, number(dst))
            .with(Field::EthSrc, number(src));
        link.send(Message::FlowMod(add(1, m, to.clone())))?;
    }
    let data = if p.buffer_id == NO_BUFFER { p.data } else { Vec::new() };
    let actions = vec![to];
    link.send(Message::PacketOut(PacketOut { buffer_id: p.buffer_id, in_port, actions, data }))?;
    Ok(())
}
