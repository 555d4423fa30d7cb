//! What modules are run on that measure the instrument itself: wires without a switch, the user's or made here.
//!
//! Room: a namespace of its own, gone afterwards. Of two wires made here the second ends in AF_XDP.

use super::held::Held;
use super::target::{Owner, Target};
use crate::fault::bad_input;
use crate::left;
use crate::namespace::{Namespace, QUIET};
use anyhow::{Result, bail};
use std::io;
use weir_measure::control::{Comes, Dial};
use weir_measure::document::Dut;
use weir_measure::engine::ported;
use weir_measure::engine::wire::{self, Channel};

/// Interfaces of a pair each.
const OURS: [&str; 4] = ["w1", "w2", "x1", "x2"];

/// Wires whose ends are these interfaces, one after the other; without any, wires made here.
///
/// # Errors
/// No such interface, no rights.
pub fn target(ports: &[String], called: Option<&str>) -> Result<Target> {
    let dial: Dial = Box::new(|_| Err(io::Error::other("there is no switch")));
    let target = |name: &str, ports, channels, held, namespace| Target {
        dut: Dut { name: called.unwrap_or(name).to_owned(), ports, ..Dut::default() },
        owner: Owner::Lab,
        dial,
        comes: Comes::Us,
        channels,
        sampler: None,
        reset: None,
        held,
        _namespace: namespace,
    };
    if ports.is_empty() {
        let (namespace, channels) = ours()?;
        let ports = channels.iter().map(|c| c.name.clone()).collect();
        return Ok(target("veth pairs", ports, channels, Vec::new(), Some(namespace)));
    }
    if !ports.len().is_multiple_of(2) {
        return Err(bad_input("--ports: give both ends of each wire, one after the other"));
    }
    let opened = ports.iter().map(|name| Held::new(name, "--ports"));
    let (held, channels) = opened.collect::<Result<Vec<_>>>()?.into_iter().unzip();
    Ok(target("a wire", ports.to_vec(), channels, held, None))
}

fn ours() -> Result<(Namespace, Vec<Channel>)> {
    if !rustix::process::geteuid().is_root() {
        bail!("wires are made in a network namespace: run it as root, or give --ports IF,IF");
    }
    let place = Namespace::new(left::WIRE, "w")?;
    place.set(QUIET)?;
    let [a, b, c, d] = OURS;
    place.ip(&format!(
        "link add name {a} type veth peer name {b}\nlink add name {c} type veth peer name {d}\n"
    ))?;
    place.ip(&OURS.map(|n| format!("link set {n} up\n")).concat())?;
    let channels = place.within(|| {
        let mut all = Vec::new();
        for name in &OURS[..3] {
            all.push(wire::interface(name)?);
        }
        all.push(ported::port(&format!("xdp:{d}"))?.0);
        Ok(all)
    })?;
    Ok((place, channels))
}
