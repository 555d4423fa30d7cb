//! Numbers that look random and are the same in each run, for tests that choose what comes next.
//!
//! Tests of this crate alone. Pure.

/// Each call gives a number below the one it is given, which must not be 0.
pub(crate) fn dice(mut x: u64) -> impl FnMut(u64) -> u64 {
    move |n| {
        x = x.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (x >> 33) % n
    }
}
