//! weir-packet
