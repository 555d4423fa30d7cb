//! The program `bng` in a configuration: ports, circuits, routes.
//!
//! Room: between `schema.rs` and `weir_dataplane::programs::bng`. Called by `program.rs`.

use super::error::{ConfigError, Source};
use super::program::{Resolve, mac, prefix};
use super::schema::{CircuitSection, GatewayPortSection, GatewaySection};
use std::net::Ipv4Addr;
use toml::Spanned;
use weir_dataplane::PortNo;
use weir_dataplane::programs::bng::{AccessPort, BngConfig, BngRoute, Circuits, CorePort, GreSum};
use weir_packet::Nanos;
use weir_wire::MacAddr;

fn address(source: &Source<'_>, text: &Spanned<String>) -> Result<Ipv4Addr, ConfigError> {
    text.get_ref().parse().map_err(|_| {
        let what = format!("'{}' is not an IPv4 address, as in 192.0.2.1", text.get_ref());
        source.error(&text.span(), what)
    })
}

fn ports(
    source: &Source<'_>,
    all: &[Spanned<GatewayPortSection>],
    port: Resolve<'_>,
) -> Result<Vec<(PortNo, MacAddr)>, ConfigError> {
    all.iter().map(|p| Ok((port(&p.get_ref().port)?, mac(source, &p.get_ref().mac)?))).collect()
}

/// IEEE 802.1Q §9.6: 4095 is reserved. An inner 0 is a subscriber's priority tag; an outer one names no
/// service.
fn circuits(source: &Source<'_>, x: &Spanned<CircuitSection>) -> Result<Circuits, ConfigError> {
    let CircuitSection { outer, inner: [first, last], key } = *x.get_ref();
    for (name, id, ids) in
        [("outer", outer, 1..=4094), ("inner", first, 0..=4094), ("inner", last, 0..=4094)]
    {
        if !ids.contains(&id) {
            let (least, most) = ids.into_inner();
            let text = format!("{name} = {id}: a circuit's VLAN id there is {least} to {most}");
            return Err(source.error(&x.span(), text));
        }
    }
    Ok(Circuits { outer, first, last, key })
}

/// What a gateway is told.
///
/// # Errors
/// [`ConfigError`]: what is written wrongly; what contradicts itself, the gateway finds.
pub fn read(
    source: &Source<'_>,
    g: &GatewaySection,
    port: Resolve<'_>,
) -> Result<BngConfig, ConfigError> {
    let d = BngConfig::default();
    let checksum = match &g.checksum {
        None => d.checksum,
        Some(w) => match w.get_ref().as_str() {
            "present" => GreSum::Present,
            "absent" => GreSum::Absent,
            other => {
                let text = format!("checksum = '{other}': \"present\" or \"absent\"");
                return Err(source.error(&w.span(), text));
            }
        },
    };
    let mut c = BngConfig {
        tunnel: address(source, &g.tunnel)?,
        subscribers: g.subscribers.unwrap_or(d.subscribers),
        idle: g.idle_s.map_or(d.idle, Nanos::from_secs),
        checksum,
        ..d
    };
    let access = ports(source, &g.access, port)?;
    c.access = access.into_iter().map(|(port, mac)| AccessPort { port, mac }).collect();
    let core = ports(source, &g.core, port)?;
    c.core = core.into_iter().map(|(port, mac)| CorePort { port, mac }).collect();
    for x in &g.circuits {
        c.circuits.push(circuits(source, x)?);
    }
    for r in &g.routes {
        c.routes.push(BngRoute {
            to: prefix(source, &r.to)?,
            port: port(&r.port)?,
            next_hop: mac(source, &r.next_hop)?,
            label: r.label,
            remote: address(source, &r.remote)?,
        });
    }
    Ok(c)
}
