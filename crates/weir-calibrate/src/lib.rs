//! Micro-benchmarks that turn a machine into a profile: what each elementary operation costs here.
//!
//! Room: measures the machine that it runs on and writes what `weir-estimate` reads. No ports, no
//! rules. May depend on `weir-estimate` alone.
//!
//! It will hold one benchmark for each elementary operation of paper 002. Empty so far.
#![forbid(unsafe_code)]
