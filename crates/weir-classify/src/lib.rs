//! weir-classify
