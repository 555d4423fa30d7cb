//! How long programs remember connections, in a configuration.
//!
//! Room: a section of `schema.rs` to times of `weir_dataplane::programs`. Called by `stateful.rs`, which says what a program's are.

use crate::config::error::{ConfigError, Source, nearest};
use crate::config::schema::{ProgramSection, TimeoutsSection};
use toml::Spanned;
use weir_packet::Nanos;

/// 30 days, in seconds: longer than any connection is silent.
const LONGEST: u64 = 30 * 24 * 3600;

/// Each key of the section with what it says.
fn given(t: &TimeoutsSection) -> impl Iterator<Item = (&'static str, &Spanned<u64>)> {
    [
        ("tcp_opening_s", &t.tcp_opening_s),
        ("tcp_open_s", &t.tcp_open_s),
        ("tcp_closing_s", &t.tcp_closing_s),
        ("tcp_transitory_s", &t.tcp_transitory_s),
        ("udp_s", &t.udp_s),
        ("udp_one_way_s", &t.udp_one_way_s),
        ("udp_both_ways_s", &t.udp_both_ways_s),
        ("query_s", &t.query_s),
    ]
    .into_iter()
    .filter_map(|(key, value)| Some((key, value.as_ref()?)))
}

/// Writes the times that are given into those of a program.
pub(super) fn read<const N: usize>(
    source: &Source<'_>,
    t: &ProgramSection,
    mut own: [(&'static str, &mut Nanos); N],
) -> Result<(), ConfigError> {
    for (key, value) in t.timeouts.iter().flat_map(given) {
        let keys = own.each_ref().map(|(key, _)| *key);
        let Some((_, time)) = own.iter_mut().find(|(k, _)| *k == key) else {
            let near = nearest(key, keys.into_iter())
                .map(|n| format!("did you mean '{n}'? "))
                .unwrap_or_default();
            let (name, keys) = (t.name.get_ref(), keys.join(", "));
            let text = format!("program '{name}' has no timeout '{key}': {near}There are {keys}");
            return Err(source.error(&value.span(), text));
        };
        let seconds = *value.get_ref();
        if !(1..=LONGEST).contains(&seconds) {
            let text = format!("{key} = {seconds}: 1 to {LONGEST} seconds");
            return Err(source.error(&value.span(), text));
        }
        **time = Nanos::from_secs(seconds);
    }
    Ok(())
}
