//! The two forms of `/metrics`: OpenMetrics, and Prometheus' older text, by what a request accepts.
//!
//! Room: headers in, a form out; pure. Lines of samples are the same in both; [`super::metrics`] writes them, and `weir stats` the older form.

use axum::http::HeaderMap;
use axum::http::header::ACCEPT;
use std::fmt::Write;

/// In which form metrics are told.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Form {
    /// OpenMetrics 1.0.
    OpenMetrics,
    /// Prometheus' text, 0.0.4.
    Text,
}

impl Form {
    /// The one that a request prefers; OpenMetrics to who takes either. Who takes neither gets the older one, as from others'
    /// exporters: a metric in a form that was not asked for says more than a refusal.
    pub fn asked(headers: &HeaderMap) -> Self {
        let lines = headers.get_all(ACCEPT).into_iter().filter_map(|v| v.to_str().ok());
        let accepted: Vec<_> = lines.flat_map(|l| l.split(',')).map(range).collect();
        if accepted.is_empty() {
            return Form::OpenMetrics;
        }
        let newer = wanted(&accepted, "application", "openmetrics-text");
        if newer > 0.0 && newer >= wanted(&accepted, "text", "plain") {
            Form::OpenMetrics
        } else {
            Form::Text
        }
    }

    /// What it calls itself.
    pub const fn content_type(self) -> &'static str {
        match self {
            Form::OpenMetrics => "application/openmetrics-text; version=1.0.0; charset=utf-8",
            Form::Text => "text/plain; version=0.0.4; charset=utf-8",
        }
    }

    /// Begins a family; what its samples' name has at its end. A counter's family is called as its samples are in the older
    /// form, and without their ending in OpenMetrics.
    pub fn head(self, out: &mut String, name: &str, kind: &str, help: &str) -> &'static str {
        let total = if kind == "counter" { "_total" } else { "" };
        let of = if self == Form::Text { total } else { "" };
        // A text takes what is written to it.
        let _ = write!(out, "# TYPE {name}{of} {kind}\n# HELP {name}{of} {help}.\n");
        total
    }

    /// What comes last.
    pub const fn end(self) -> &'static str {
        match self {
            Form::OpenMetrics => "# EOF\n",
            Form::Text => "",
        }
    }
}

/// A label's value.
pub fn escaped(text: &str) -> String {
    text.replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n")
}

/// A media range of `Accept` and its weight: one that can't be read weighs nothing.
fn range(text: &str) -> (String, f32) {
    let mut parts = text.split(';').map(str::trim);
    let kind = parts.next().unwrap_or_default().to_ascii_lowercase();
    let weight =
        parts.filter_map(|p| p.split_once('=')).find(|(k, _)| k.trim().eq_ignore_ascii_case("q"));
    (kind, weight.map_or(1.0, |(_, q)| q.trim().parse().unwrap_or(0.0)))
}

/// How much a type is wanted: as the closest range says that it is in, the highest weight of several alike.
fn wanted(accepted: &[(String, f32)], kind: &str, sub: &str) -> f32 {
    let weight =
        |range: &str| accepted.iter().filter(|(r, _)| r == range).map(|(_, q)| *q).reduce(f32::max);
    let closest = weight(&format!("{kind}/{sub}")).or_else(|| weight(&format!("{kind}/*")));
    closest.or_else(|| weight("*/*")).unwrap_or(0.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_form_is_what_accept_prefers() {
        use Form::{OpenMetrics, Text};
        let of = |accept: &[&str]| {
            let mut headers = HeaderMap::new();
            for a in accept {
                headers.append(ACCEPT, a.parse().unwrap());
            }
            Form::asked(&headers)
        };
        // What Prometheus 2 and 3 ask for, with OpenMetrics and without.
        let both = "application/openmetrics-text;version=1.0.0;q=0.5,application/openmetrics-text;version=0.0.1;q=0.4,\
                    text/plain;version=0.0.4;q=0.3,*/*;q=0.2";
        let newest = "application/vnd.google.protobuf;proto=io.prometheus.client.MetricFamily;encoding=delimited;q=0.6,\
                      text/plain;version=0.0.4;q=0.3, */*;q=0.2";
        for (accept, form) in [
            (&[][..], OpenMetrics),
            (&["*/*"], OpenMetrics),
            (&["application/*"], OpenMetrics),
            (&["Application/OpenMetrics-Text; version=1.0.0"], OpenMetrics),
            (&[both], OpenMetrics),
            (&[newest], Text),
            (&["text/plain;version=0.0.4"], Text),
            (&["text/plain;version=0.0.4;q=0.5,*/*;q=0.1"], Text),
            (&["text/plain;q=0.1", "application/openmetrics-text;q=0.2"], OpenMetrics),
            (&["*/*, application/openmetrics-text; q=0"], Text),
            (&["application/json"], Text),
        ] {
            assert_eq!(of(accept), form, "{accept:?}");
        }
    }
}
