//! The way to a switch: how to reach it, and the interfaces to it. Good for one measurement.

use super::SwitchArgs;
use super::agent;
use super::held::Held;
use super::lab::Lab;
use super::reset;
use super::secure;
use crate::fault::bad_input;
use crate::namespace::Namespace;
use crate::openflow::address::{Controller, Listener, Security};
use crate::openflow::tls::Identity;
use anyhow::{Context, Result};
use std::io;
use std::net::{TcpListener, TcpStream, ToSocketAddrs};
use std::time::{Duration, Instant};
use weir_measure::control::{Comes, Dial};
use weir_measure::document::Dut;
use weir_measure::engine::run::Reset;
use weir_measure::engine::sampling::Sampler;
use weir_measure::engine::wire::Channel;

/// Whose a switch is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Owner {
    /// It was there before, with flows of its own.
    User,
    /// It was made here, or there is none.
    Lab,
}

/// A switch and the way to it.
pub struct Target {
    /// As reports have it.
    pub dut: Dut,
    /// Whose it is.
    pub owner: Owner,
    /// Makes control connections.
    pub dial: Dial,
    /// Which way they are made.
    pub comes: Comes,
    /// The data channels.
    pub channels: Vec<Channel>,
    /// Reads its load, where it is a process of this machine.
    pub sampler: Option<Box<dyn Sampler>>,
    /// Resets it, where that can be.
    pub reset: Option<Reset>,
    /// The user's interfaces, put back when this is dropped.
    pub held: Vec<Held>,
    /// Where wires were made; gone when this is dropped.
    pub(super) _namespace: Option<Namespace>,
}

/// The way to a switch that is there.
///
/// # Errors
/// An address or an interface that can't be.
pub fn given(args: &SwitchArgs) -> Result<Target> {
    let Some(address) = args.switch.clone() else {
        return Err(bad_input("no switch to measure: give --switch and --ports, or --lab"));
    };
    let (dial, comes) = (dial(args, &address)?, comes(&address));
    let ports = args.ports.iter().map(|name| Held::new(name, "--ports"));
    let (held, channels): (Vec<_>, Vec<_>) = ports.collect::<Result<Vec<_>>>()?.into_iter().unzip();
    if !args.of_ports.is_empty() && args.of_ports.len() != channels.len() {
        return Err(bad_input("--of-ports: give a number for each interface of --ports"));
    }
    let name = args.name.clone().unwrap_or_else(|| address.clone());
    let dut = Dut { name, control: address, ports: args.ports.clone(), ..Dut::default() };
    let sampler = args.snmp.as_deref().map(agent::sampler).transpose()?;
    let reset = args.reset_command.clone().map(reset::by_command);
    let owner = Owner::User;
    Ok(Target { dut, owner, dial, comes, channels, sampler, reset, held, _namespace: None })
}

/// The way to one that was made here, under another name if one is given.
///
/// # Errors
/// Its ports can't be opened.
pub fn made(lab: &Lab, name: Option<&str>) -> Result<Target> {
    let dut = Dut {
        name: name.unwrap_or(&lab.name).to_owned(),
        control: lab.control.clone(),
        ports: lab.ports.clone(),
        ..Dut::default()
    };
    let channels = lab.channels()?;
    let (door, at) = (lab.device()?, lab.at);
    let dial: Dial = Box::new(move |at_most| {
        let connect = || Ok(TcpStream::connect_timeout(&at, at_most));
        let tcp = door.within(connect).unwrap_or_else(|e| Err(io::Error::other(e.to_string())))?;
        Ok(Box::new(tcp))
    });
    let (sampler, held) = (Some(lab.sampler()), Vec::new());
    let reset = lab.data_path().map(reset::of);
    let (owner, comes) = (Owner::Lab, Comes::Us);
    Ok(Target { dut, owner, dial, comes, channels, sampler, reset, held, _namespace: None })
}

/// Who connects to whom by that address.
fn comes(address: &str) -> Comes {
    let waits = ["ptcp:", "pssl:", "ptls:"].iter().any(|m| address.starts_with(m));
    if waits { Comes::Switch } else { Comes::Us }
}

/// Connects to `tcp:` and `tls:`, or listens at `ptcp:` and `ptls:`.
fn dial(args: &SwitchArgs, address: &str) -> Result<Dial> {
    let bad = |e: String| bad_input(format!("--switch {address}: {e}"));
    if comes(address) == Comes::Switch {
        let l = Listener::parse(address).map_err(bad)?;
        let identity = identity(args, l.security)?;
        let socket = TcpListener::bind(l.at).map_err(|e| bad(e.to_string()))?;
        socket.set_nonblocking(true).context("a listening socket")?;
        return Ok(Box::new(move |at_most| {
            let until = Instant::now() + at_most;
            let tcp = accept(&socket, at_most)?;
            match &identity {
                None => Ok(Box::new(tcp)),
                // Who says nothing keeps the switch waiting no longer than half of what is left.
                Some(identity) => {
                    let now = Instant::now();
                    let half = now + until.saturating_duration_since(now) / 2;
                    secure::accept(identity, tcp, half)
                }
            }
        }));
    }
    if !["tcp:", "ssl:", "tls:"].iter().any(|m| address.starts_with(m)) {
        return Err(bad(
            "give tcp:HOST:PORT or tls:HOST:PORT to connect, ptcp:PORT or ptls:PORT to wait for it"
                .to_owned(),
        ));
    }
    let c = Controller::parse(address).map_err(bad)?;
    let identity = identity(args, c.security)?;
    Ok(Box::new(move |at_most| {
        let until = Instant::now() + at_most;
        let tcp = connect(&c, at_most)?;
        match &identity {
            None => Ok(Box::new(tcp)),
            Some(identity) => secure::connect(identity, &c.host, tcp, until),
        }
    }))
}

fn identity(args: &SwitchArgs, security: Security) -> Result<Option<Identity>> {
    match security {
        Security::Tls => secure::identity(&args.tls).map(Some),
        Security::Plain if args.tls.is_given() => {
            Err(bad_input("--ca, --cert and --key are for '--switch tls:' or 'ptls:'"))
        }
        Security::Plain => Ok(None),
    }
}

fn connect(c: &Controller, at_most: Duration) -> io::Result<TcpStream> {
    let all = (c.host.as_str(), c.port).to_socket_addrs()?;
    let mut last = io::Error::other(format!("{}: no address of that name", c.host));
    for at in all {
        match TcpStream::connect_timeout(&at, at_most) {
            Ok(s) => return Ok(s),
            Err(e) => last = io::Error::new(e.kind(), format!("{at}: {e}")),
        }
    }
    Err(last)
}

fn accept(socket: &TcpListener, at_most: Duration) -> io::Result<TcpStream> {
    let until = Instant::now() + at_most;
    loop {
        match socket.accept() {
            Ok((stream, _)) => return Ok(stream),
            Err(e) if e.kind() != io::ErrorKind::WouldBlock => return Err(e),
            Err(_) if Instant::now() >= until => {
                let s = at_most.as_secs_f64();
                return Err(io::Error::other(format!("no switch has connected within {s} s")));
            }
            Err(_) => std::thread::sleep(Duration::from_millis(5)),
        }
    }
}
