//! What a virtual switch shows to its controllers by TLS.
//!
//! Room: the section and its check. The files are the host's, since the switch is there: they are opened by its data
//! plane alone, and nothing of them is kept in the store.

use super::{Network, Node};
use crate::refusal::{Refusal, Way};
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// A switch's certificate, and whom it trusts: PEM files on the switch's host, by their whole paths.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct SwitchTls {
    /// Its certificate, and behind it whoever signed it.
    pub certificate: String,
    /// Its private key.
    pub key: String,
    /// Authorities that sign controllers' certificates.
    pub ca: String,
    /// The name that a controller's certificate must be for, if not the address's; `"*"` for any.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub peer_name: Option<String>,
}

/// Longest path.
const PATH_BYTES: usize = 4095;

fn paths(t: &SwitchTls, whose: &str, at: &Way) -> Result<(), Refusal> {
    for (key, path) in [("certificate", &t.certificate), ("key", &t.key), ("ca", &t.ca)] {
        let plain = path.len() <= PATH_BYTES && !path.chars().any(char::is_control);
        if !path.starts_with('/') || !plain {
            let shown: String = path.chars().filter(|c| !c.is_control()).take(64).collect();
            let text =
                format!("{key} '{shown}' of {whose}: a file on the host that the switch lives on");
            let mend = "say its whole path there, as in \"/etc/weir/switch.pem\"";
            return Err(Refusal::new(at.key("tls").key(key), format!("{text}; {mend}")));
        }
    }
    Ok(())
}

/// Of all of a network's nodes.
pub(super) fn of_network(n: &Network, at: &Way) -> Result<(), Refusal> {
    n.tls.iter().try_for_each(|t| paths(t, &format!("network '{}'", n.name), at))
}

/// Of one, and whether it has what its connections need.
pub(super) fn of_node(n: &Network, v: &Node, at: &Way) -> Result<(), Refusal> {
    let o = v.openflow.as_ref();
    if let Some(t) = o.and_then(|o| o.tls.as_ref()) {
        paths(t, &format!("node '{}'", v.name), &at.key("openflow"))?;
    }
    if n.tls.is_some() || o.is_some_and(|o| o.tls.is_some()) {
        return Ok(());
    }
    let own = o.into_iter().flat_map(|o| o.controllers.iter().chain(&o.listen));
    let by_tls =
        |a: &&String| ["ssl:", "tls:", "pssl:", "ptls:"].iter().any(|method| a.starts_with(method));
    match n.controllers.iter().chain(own).find(by_tls) {
        None => Ok(()),
        Some(a) => {
            let text = format!("'{a}': node '{}' has no certificate to show there", v.name);
            let mend = "give its network or its openflow tls = { certificate, key, ca }";
            Err(Refusal::new(at.key("openflow"), format!("{text}: {mend}")))
        }
    }
}
