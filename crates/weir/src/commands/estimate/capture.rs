//! The flows of a capture, counted: traffic as it was.
//!
//! Room: a capture's file. Called for `--pcap`.

use crate::fault::bad_input;
use anyhow::Result;
use std::collections::HashMap;
use std::path::Path;
use weir_classify::{Field, FlowKey};
use weir_dataplane::extract;
use weir_estimate::traffic::Traffic;
use weir_io::capture_file::{LINKTYPE_ETHERNET, Reader};

/// Most flows that are counted apart.
const MAX_FLOWS: usize = 1 << 24;

/// What makes a flow: who speaks to whom, by addresses, tags, labels and ports.
const FIELDS: &[Field] = &[
    Field::EthDst,
    Field::EthSrc,
    Field::EthType,
    Field::VlanVid,
    Field::InnerTci,
    Field::MplsLabel,
    Field::Ipv4Src,
    Field::Ipv4Dst,
    Field::Ipv6Src,
    Field::Ipv6Dst,
    Field::IpProto,
    Field::TpSrc,
    Field::TpDst,
];

/// Counts it.
///
/// # Errors
/// A file that can't be read, has no frames, or more flows than are counted.
pub fn traffic(path: &Path) -> Result<Traffic> {
    let wrong = |e: String| bad_input(format!("{}: {e}", path.display()));
    let mut reader = Reader::open(path).map_err(bad_input)?;
    let mut flows: HashMap<Vec<u128>, u64> = HashMap::new();
    let mut key = FlowKey::default();
    while let Some(r) = reader.next_record().map_err(|e| bad_input(e.in_file(path)))? {
        if r.link_type != LINKTYPE_ETHERNET {
            return Err(wrong(format!("link type {}: only Ethernet is read", r.link_type)));
        }
        // What is no frame is no traffic.
        if extract(r.bytes, 0, &mut key).is_err() {
            continue;
        }
        let flow = FIELDS.iter().map(|f| key.get(*f)).collect();
        *flows.entry(flow).or_default() += 1;
        if flows.len() > MAX_FLOWS {
            return Err(wrong(format!("more than {MAX_FLOWS} flows")));
        }
    }
    Traffic::counted(flows.into_values().collect()).map_err(wrong)
}
