//! The verifier, judged: `oracle` follows every frame of small random planes; `leaks` seeds each kind
//! of leak; `planes` is what both are made of.

mod leaks;
mod oracle;
mod planes;
