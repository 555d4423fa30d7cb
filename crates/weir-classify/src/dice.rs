//! Numbers that look random and are the same in each run, for tests that choose what comes next.
//!
//! Tests of this crate alone. Pure.

/// Each call gives a number below the one it is given, which must not be 0.
pub(crate) fn dice(x: u64) -> impl FnMut(u64) -> u64 {
    let mut dice = Dice(x);
    move |n| dice.below(n)
}

/// The same, for who keeps it beside other things.
pub(crate) struct Dice(pub(crate) u64);

impl Dice {
    pub(crate) fn below(&mut self, n: u64) -> u64 {
        let x = self.0;
        self.0 = x.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % n
    }
}
