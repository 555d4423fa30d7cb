//! Documents made readable: a page of HTML, CSV, JSON lines, a screen of a terminal.
//!
//! Room: pure. Documents in, text out; the binary reads and writes the files. Whatever a document
//! says may come from a device that means no good: it is text, and stays text, in each of these.

pub mod beside;
pub mod csv;
mod grid;
mod html;
pub mod lines;
pub mod markdown;
mod matrix;
pub mod number;
mod page;
mod pair;
pub mod svg;
pub mod terminal;

pub use page::{EMBED, html};

use crate::document::Document;

/// A name for a document's files: its module and device, in letters, digits and `-`.
pub fn stem(d: &Document) -> String {
    let words = format!("{} {}", d.id, d.dut.name);
    let mut stem = String::new();
    for c in words.chars().take(80) {
        if c.is_ascii_alphanumeric() {
            stem.push(c.to_ascii_lowercase());
        } else if !stem.ends_with('-') && !stem.is_empty() {
            stem.push('-');
        }
    }
    let stem = stem.trim_end_matches('-');
    if stem.is_empty() { "result".to_owned() } else { stem.to_owned() }
}

/// A name for each document's files, all different.
pub fn stems(documents: &[Document]) -> Vec<String> {
    let mut names: Vec<String> = Vec::new();
    for d in documents {
        let first = stem(d);
        let mut name = first.clone();
        let mut n = 2;
        while names.contains(&name) {
            name = format!("{first}-{n}");
            n += 1;
        }
        names.push(name);
    }
    names
}

#[cfg(test)]
mod tests;
