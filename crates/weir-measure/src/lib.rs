//! weir-measure
