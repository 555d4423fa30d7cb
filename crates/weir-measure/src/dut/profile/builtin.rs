//! The profiles that come along. Data, in `dut-profiles/`; part of `profile`.

macro_rules! profiles {
    ($($name:literal),+ $(,)?) => {
        /// Name and text of every profile that comes along, the honest one first.
        pub const BUILTIN: &[(&str, &str)] =
            &[$(($name, include_str!(concat!("../../../dut-profiles/", $name, ".toml")))),+];
    };
}

profiles! {
    "honest",
    "early-barrier",
    "no-barrier",
    "cpu-modify",
    "discards-actions",
    "wrong-rewrites",
    "modify-dear",
    "priorities-dear",
    "reorders",
    "gap-in-modify",
    "small-table",
    "exact-table",
    "loses-entries",
    "slow-stats",
    "paced-stats",
    "stats-slow-updates",
    "stale-counters",
    "late-timeouts",
    "idle-from-insertion",
    "wrong-counters",
    "slow-controller-path",
    "lossy-forwarding",
    "hangs-up",
    "talks-garbage",
    "silent",
    "other-version",
}
