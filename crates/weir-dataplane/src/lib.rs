//! weir-dataplane
