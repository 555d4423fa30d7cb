//! What tests share: so far, the guard of the workspace's structure (`tests/layering.rs`).
//!
//! Room: dev-dependency only; no crate's own code may depend on it.
#![forbid(unsafe_code)]
