//! What a network function will sustain on a given machine, before it is deployed (paper 002).
//!
//! Room: arithmetic over data files. No clocks, no frames, no machine is touched. Depends on nothing
//! of ours.
//!
//! It will hold elementary operations, models (lists of them, `models/`), profiles (what they cost on
//! a machine, `profiles/`), the estimator with its breakdown and error band, and placement. Empty so
//! far.
#![forbid(unsafe_code)]
