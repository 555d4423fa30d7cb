//! FlowVisor's matches, an object of OpenFlow 1.0's fields, in the words of the flow space.
//!
//! Room: text only.

use super::Refused;
use serde_json::{Map, Value};
use std::fmt::Write;

/// A match, and the ports where it holds; none: all.
///
/// # Errors
/// A field that there is not, or a value that it can't have.
pub fn read(given: &Map<String, Value>) -> Result<(String, Option<u32>), Refused> {
    let number = |key: &str, most: u64| match given.get(key) {
        None | Some(Value::Null) => Ok(None),
        Some(v) => {
            let n = v.as_u64().or_else(|| whole(v.as_str()?)).filter(|n| *n <= most);
            n.map(Some)
                .ok_or_else(|| Refused::params(format!("match: {key}: a number of at most {most}")))
        }
    };
    const KNOWN: [&str; 12] = [
        "in_port", "dl_src", "dl_dst", "dl_type", "dl_vlan", "dl_vpcp", "nw_src", "nw_dst",
        "nw_proto", "nw_tos", "tp_src", "tp_dst",
    ];
    if let Some(k) = given.keys().find(|k| !KNOWN.contains(&k.as_str())) {
        let k: String = k.chars().take(32).collect();
        return Err(Refused::params(format!(
            "match: no field '{k}': there are {}",
            KNOWN.join(", ")
        )));
    }
    let mut words: Vec<String> = Vec::new();
    let kind = number("dl_type", 0xffff)?;
    let proto = number("nw_proto", 0xff)?;
    // What FlowVisor takes for granted of the fields of IPv4.
    let ip = ["nw_src", "nw_dst", "nw_tos"].iter().any(|k| given.contains_key(*k));
    match (kind, proto) {
        (Some(0x0806), _) => words.push("arp".to_owned()),
        (Some(0x0800) | None, Some(1)) => words.push("icmp".to_owned()),
        (Some(0x0800) | None, Some(6)) => words.push("tcp".to_owned()),
        (Some(0x0800) | None, Some(17)) => words.push("udp".to_owned()),
        (Some(0x0800) | None, Some(n)) => words.push(format!("ip,nw_proto={n}")),
        (Some(0x0800), None) => words.push("ip".to_owned()),
        (None, None) if ip => words.push("ip".to_owned()),
        (None, None) => {}
        (Some(n), _) => words.push(format!("dl_type={n:#06x}")),
    }
    if let (Some(0x0806), Some(op)) = (kind, proto) {
        words.push(format!("arp_op={op}"));
    }
    match number("dl_vlan", 0xffff)? {
        Some(0xffff) => words.push("dl_vlan=none".to_owned()),
        Some(n) => words.push(format!("dl_vlan={n}")),
        None => {}
    }
    if let Some(n) = number("dl_vpcp", 7)? {
        words.push(format!("dl_vlan_pcp={n}"));
    }
    if let Some(n) = number("nw_tos", 0xff)? {
        words.push(format!("ip_dscp={}", n >> 2));
    }
    for key in ["dl_src", "dl_dst"] {
        if let Some(v) = given.get(key).filter(|v| !v.is_null()) {
            words.push(format!("{key}={}", mac(v).ok_or_else(|| wrong(key, "a MAC address"))?));
        }
    }
    for key in ["nw_src", "nw_dst"] {
        match given.get(key) {
            None | Some(Value::Null) => {}
            Some(Value::String(s)) if s.chars().all(|c| c.is_ascii_digit() || "./".contains(c)) => {
                words.push(format!("{key}={s}"));
            }
            Some(_) => return Err(wrong(key, "an IPv4 address, as in 10.0.0.0/8")),
        }
    }
    for (key, icmp) in [("tp_src", "icmp_type"), ("tp_dst", "icmp_code")] {
        if let Some(n) = number(key, 0xffff)? {
            words.push(format!("{}={n}", if proto == Some(1) { icmp } else { key }));
        }
    }
    let port = number("in_port", 0xffff)?.and_then(|n| u32::try_from(n).ok());
    Ok((words.join(","), port))
}

fn wrong(key: &str, what: &str) -> Refused {
    Refused::params(format!("match: {key}: {what}"))
}

fn whole(text: &str) -> Option<u64> {
    match text.strip_prefix("0x") {
        Some(hex) => u64::from_str_radix(hex, 16).ok(),
        None => text.parse().ok(),
    }
}

/// A MAC address as a number, or as text.
fn mac(v: &Value) -> Option<String> {
    let n = match v.as_str() {
        Some(t) if t.contains(':') => {
            let parts: Option<Vec<u8>> =
                t.split(':').map(|p| u8::from_str_radix(p, 16).ok()).collect();
            let parts = parts.filter(|p| p.len() == 6)?;
            parts.iter().fold(0, |n, b| n << 8 | u64::from(*b))
        }
        Some(t) => whole(t)?,
        None => v.as_u64()?,
    };
    let bytes = n.to_be_bytes();
    let [0, 0, rest @ ..] = bytes else { return None };
    let mut out = String::new();
    for (i, b) in rest.iter().enumerate() {
        // A text takes what is written to it.
        let _ = write!(out, "{}{b:02x}", if i == 0 { "" } else { ":" });
    }
    Some(out)
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn matches_of_flowvisor_are_ours() {
        for (given, text, port) in [
            (json!({}), "", None),
            (json!({ "in_port": 3 }), "", Some(3)),
            (json!({ "dl_type": 2048, "nw_proto": 6, "tp_src": 9999 }), "tcp,tp_src=9999", None),
            (json!({ "nw_dst": "10.0.0.0/8" }), "ip,nw_dst=10.0.0.0/8", None),
            (json!({ "dl_vlan": 65535, "in_port": 1 }), "dl_vlan=none", Some(1)),
            (json!({ "dl_vlan": 5, "dl_vpcp": 3 }), "dl_vlan=5,dl_vlan_pcp=3", None),
            (json!({ "dl_src": "00:0a:00:00:00:01" }), "dl_src=00:0a:00:00:00:01", None),
            (json!({ "dl_dst": 1 }), "dl_dst=00:00:00:00:00:01", None),
            (json!({ "dl_type": 2054, "nw_proto": 1 }), "arp,arp_op=1", None),
            (json!({ "nw_proto": 1, "tp_src": 8 }), "icmp,icmp_type=8", None),
            (json!({ "nw_tos": 184, "dl_type": "0x800" }), "ip,ip_dscp=46", None),
        ] {
            let got = read(given.as_object().unwrap()).unwrap();
            assert_eq!(got, (text.to_owned(), port), "{given}");
            assert!(crate::config::slicer::readable(&got.0).is_ok(), "{}", got.0);
        }
        for wrong in [
            json!({ "in_prot": 1 }),
            json!({ "dl_vlan": -1 }),
            json!({ "dl_vlan": 70000 }),
            json!({ "nw_src": "x\ny" }),
            json!({ "nw_src": 5 }),
            json!({ "dl_src": "0:1" }),
            json!({ "dl_src": [1] }),
        ] {
            assert_eq!(read(wrong.as_object().unwrap()).unwrap_err().code, -32602, "{wrong}");
        }
    }
}
