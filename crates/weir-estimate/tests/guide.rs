//! The guide shows the data that weir ships, but for comments.

mod support;

use support::root;

fn text(path: &str) -> String {
    std::fs::read_to_string(root(path)).unwrap_or_else(|e| panic!("{path}: {e}"))
}

/// What says something: without comments and what only sets lines out. No string of these texts has a '#' in it.
fn said(text: &str) -> Vec<String> {
    let plain = text.lines().map(|l| l.split('#').next().unwrap_or_default());
    plain
        .map(|l| l.split_whitespace().collect::<Vec<_>>().join(" "))
        .filter(|l| !l.is_empty())
        .collect()
}

/// The guide's example that begins like this.
fn shown(begin: &str) -> Vec<String> {
    let guide = text("docs/guide/estimator.md");
    let blocks = guide.split("```toml\n").skip(1).filter_map(|b| b.split("```").next());
    said(blocks.into_iter().find(|b| b.starts_with(begin)).expect(begin))
}

#[test]
fn the_model_is_the_one_that_is_shipped() {
    assert_eq!(shown("name = \"l2-basic\""), said(&text("models/l2-basic.toml")));
}

#[test]
fn the_operation_is_the_profiles() {
    let shown = shown("[eo.ht_lookup]");
    let profile = said(&text("profiles/xeon-e5-2690v2.toml"));
    assert!(profile.windows(shown.len()).any(|w| w == shown), "{shown:#?}");
}
