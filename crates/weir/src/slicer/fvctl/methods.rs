//! What each of FlowVisor's names does.
//!
//! Room: between a call, the document, and the running slicer. A change is worked out on a copy of the document,
//! found good, kept in its file, and becomes true at every switch at once; or nothing of it does.

use super::document::first;
use super::{Call, Document, Refused, Who};
use crate::environment::VERSION;
use crate::slicer::service::Running;
use serde_json::{Map, Value, json};

/// Answers a call.
pub fn answer(running: &Running<'_>, document: &mut Document, call: Call) {
    let answer = asked(running, document, &call);
    // Whoever asked may have gone.
    let _ = call.reply.send(answer);
}

fn asked(running: &Running<'_>, held: &mut Document, call: &Call) -> Result<Value, Refused> {
    let none = Map::new();
    let object = call.params.as_object().unwrap_or(&none);
    let list = || {
        let all = call.params.as_array().map(Vec::as_slice);
        all.ok_or_else(|| Refused::params("params: a list"))
    };
    let m = call.method.as_str();
    match m {
        "list-slices" => {
            let admin = (call.who == Who::Admin).then_some(("fvadmin", true));
            let mine = |s: &(&str, bool)| match &call.who {
                Who::Slice(own) => s.0 == own,
                Who::Admin | Who::Reader => true,
            };
            let all = admin.into_iter().chain(held.slices().filter(mine));
            let one = |(n, on)| json!({ "slice-name": n, "admin-status": on });
            Ok(all.map(one).collect())
        }
        "list-flowspace" => {
            let named = object.get("slice-name").and_then(Value::as_str);
            let of = match &call.who {
                Who::Slice(own) => Some(own.as_str()),
                Who::Admin | Who::Reader => named,
            };
            if let Some(n) = named {
                seen(held, call, n)?;
            }
            let disabled = object.get("show-disabled") == Some(&Value::Bool(true));
            Ok(Value::Array(held.flowspace(of, disabled)))
        }
        "list-slice-info" => slice_info(running, held, call, object),
        "list-slice-health" => slice_health(running, held, call, object),
        "list-slice-stats" => slice_stats(running, held, call, object),
        "list-version" => {
            Ok(json!({ "flowvisor-version": format!("weir {VERSION}"), "db-version": 0 }))
        }
        "list-datapaths" => Ok(running.switches().map(|(id, _)| Value::from(shown(id))).collect()),
        "list-datapath-info" => datapath_info(running, held, call, object),
        "list-datapath-stats" => datapath_stats(running, call, object),
        // Links are found by nobody here: a slice's controller finds its own.
        "list-links" => Ok(json!([])),
        "list-fv-health" => {
            let switches = running.switches().count();
            Ok(
                json!({ "active-db-sessions": 0, "idle-db-sessions": 0, "connected-dpids": switches }),
            )
        }
        "add-slice" | "update-slice" | "remove-slice" | "add-flowspace" | "update-flowspace"
        | "remove-flowspace" => {
            if call.who != Who::Admin {
                return Err(Refused::denied(format!("{m}: is an operator's: ask one")));
            }
            let mut new = held.clone();
            match m {
                "add-slice" => new.add_slice(object)?,
                "update-slice" => new.update_slice(object)?,
                "remove-slice" => new.remove_slice(object)?,
                "add-flowspace" => new.add_flowspace(list()?)?,
                "update-flowspace" => new.update_flowspace(list()?)?,
                _ => new.remove_flowspace(list()?)?,
            }
            let plan = new.plan()?;
            running.may_become(&plan).map_err(Refused::params)?;
            new.keep()?;
            running.become_(plan).map_err(Refused::internal)?;
            *held = new;
            Ok(Value::Bool(true))
        }
        "update-slice-password" | "update-admin-password" => Err(Refused::method(format!(
            "{m}: passwords are tokens here: 'weir token add' makes one"
        ))),
        _ => {
            let m: String = m.chars().take(64).collect();
            Err(Refused::method(format!(
                "no method '{m}' here: docs/guide/slicer.md has those there are"
            )))
        }
    }
}

/// Whether a slice is there and the caller's to see: the same answer for both.
fn seen<'d>(held: &'d Document, call: &Call, name: &str) -> Result<&'d toml::Table, Refused> {
    let theirs = matches!(&call.who, Who::Slice(own) if own != name);
    held.slice(if theirs { "" } else { name }).map_err(|_| {
        let name: String = name.chars().take(64).collect();
        Refused::params(format!("there is no slice '{name}': list-slices says which there are"))
    })
}

/// The slice that a call names.
fn of_slice<'o, 'd>(
    held: &'d Document,
    call: &Call,
    object: &'o Map<String, Value>,
) -> Result<(&'o str, &'d toml::Table), Refused> {
    let name = object.get("slice-name").and_then(Value::as_str);
    let name = name.ok_or_else(|| Refused::params("slice-name: is needed, a text"))?;
    Ok((name, seen(held, call, name)?))
}

fn slice_info(
    running: &Running<'_>,
    held: &Document,
    call: &Call,
    object: &Map<String, Value>,
) -> Result<Value, Refused> {
    let (name, s) = of_slice(held, call, object)?;
    let at = first(s);
    let (host, port) = at.as_ref().map_or(("", 0), |c| (c.host.as_str(), c.port));
    let fv =
        |key: &str| s.get("fv").and_then(|f| f.get(key)).and_then(|v| serde_json::to_value(v).ok());
    let rules: usize = running.counters(name).map(|(_, c)| c.2).sum();
    Ok(json!({
        "slice-name": name,
        "admin-contact": fv("admin-contact").unwrap_or_else(|| "".into()),
        "admin-status": fv("admin-status").unwrap_or(Value::Bool(true)),
        "controller-url": at.as_ref().map(ToString::to_string).unwrap_or_default(),
        "controller-hostname": host,
        "controller-port": port,
        "drop-policy": fv("drop-policy").unwrap_or_else(|| "exact".into()),
        "recv-lldp": fv("recv-lldp").unwrap_or(Value::Bool(false)),
        "current-flowmod-usage": rules,
    }))
}

fn slice_health(
    running: &Running<'_>,
    held: &Document,
    call: &Call,
    object: &Map<String, Value>,
) -> Result<Value, Refused> {
    let (name, _) = of_slice(held, call, object)?;
    let at: Vec<Value> = running.connected(name).map(|id| shown(id).into()).collect();
    let entries = held.flowspace(Some(name), true).len();
    Ok(json!({ "is-connected": !at.is_empty(), "connected-dpids": at, "fs-entries": entries }))
}

fn slice_stats(
    running: &Running<'_>,
    held: &Document,
    call: &Call,
    object: &Map<String, Value>,
) -> Result<Value, Refused> {
    let (name, _) = of_slice(held, call, object)?;
    let (mut rx, mut tx) = (Map::new(), Map::new());
    for (id, (c, ..)) in running.counters(name) {
        rx.insert(
            shown(id),
            json!({ "Total": c.requests, "Refused": c.refused, "Failed": c.failed }),
        );
        let told = c.packet_ins + c.flows_removed;
        let by = json!({
            "PACKET_IN": c.packet_ins, "FLOW_REMOVED": c.flows_removed, "Total": told,
            "Dropped": c.packet_ins_dropped, "Unread": c.unread,
        });
        tx.insert(shown(id), by);
    }
    Ok(json!({ "rx": rx, "tx": tx }))
}

/// The switch that a call names.
fn datapath(
    running: &Running<'_>,
    call: &Call,
    object: &Map<String, Value>,
) -> Result<u64, Refused> {
    if matches!(call.who, Who::Slice(_)) {
        return Err(Refused::denied("datapaths are an operator's and a reader's to look at"));
    }
    let given = object.get("dpid").and_then(Value::as_str).and_then(dpid);
    let id = given.ok_or_else(|| Refused::params("dpid: is needed, as list-datapaths shows it"))?;
    match running.switches().any(|(there, _)| there == id) {
        true => Ok(id),
        false => Err(Refused::params(format!("there is no datapath {}", shown(id)))),
    }
}

fn datapath_info(
    running: &Running<'_>,
    held: &Document,
    call: &Call,
    object: &Map<String, Value>,
) -> Result<Value, Refused> {
    let id = datapath(running, call, object)?;
    let ports = running.switches().find(|(there, _)| *there == id).map(|(_, d)| d.ports());
    let ports = ports.unwrap_or_default();
    let mut used = Map::new();
    for (name, _) in held.slices() {
        let rules = running.counters(name).find(|(at, _)| *at == id).map_or(0, |(_, c)| c.2);
        used.insert(name.to_owned(), rules.into());
    }
    Ok(json!({
        "dpid": shown(id),
        "num-ports": ports.len(),
        "port-list": ports.iter().map(|p| p.no.0).collect::<Vec<_>>(),
        "port-names": ports.iter().map(|p| p.name.clone()).collect::<Vec<_>>(),
        "current-flowmod-usage": used,
    }))
}

fn datapath_stats(
    running: &Running<'_>,
    call: &Call,
    object: &Map<String, Value>,
) -> Result<Value, Refused> {
    let id = datapath(running, call, object)?;
    let found = running.switches().find(|(there, _)| *there == id).map(|(_, d)| d.messages());
    let (rx, tx) = found.unwrap_or_default();
    Ok(json!({ "rx": { "Total": rx }, "tx": { "Total": tx } }))
}

/// A datapath id as FlowVisor takes it: a number, or hexadecimal digits with or without colons.
pub fn dpid(text: &str) -> Option<u64> {
    let digits: String = text.chars().filter(|c| *c != ':').collect();
    match digits.strip_prefix("0x") {
        Some(hex) => u64::from_str_radix(hex, 16).ok(),
        None if digits.len() == 16 => u64::from_str_radix(&digits, 16).ok(),
        None => digits.parse().ok(),
    }
}

/// As FlowVisor shows it: `00:00:00:00:00:00:00:01`.
pub fn shown(id: u64) -> String {
    let bytes = id.to_be_bytes().map(|b| format!("{b:02x}"));
    bytes.join(":")
}

/// The same from our digits.
pub fn colons(digits: &str) -> String {
    dpid(digits).map_or_else(|| digits.to_owned(), shown)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn datapath_ids_are_read_as_scripts_write_them() {
        for (text, id) in [
            ("1", Some(1)),
            ("00:00:00:00:00:00:00:2a", Some(42)),
            ("000000000000002a", Some(42)),
            ("0x2a", Some(42)),
            ("all", None),
            ("", None),
            ("-1", None),
        ] {
            assert_eq!(dpid(text), id, "{text}");
        }
        assert_eq!(shown(42), "00:00:00:00:00:00:00:2a");
    }
}
