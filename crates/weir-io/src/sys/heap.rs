//! How the C library's allocator keeps large blocks: mallopt(3).
//!
//! Room: `sys`.

/// From this size on, in bytes, blocks are mapped by themselves. Returns whether the allocator took
/// it.
pub(crate) fn map_from(bytes: usize) -> bool {
    #[cfg(target_env = "gnu")]
    {
        let Ok(bytes) = libc::c_int::try_from(bytes) else { return false };
        // SAFETY: changes a parameter of the allocator under its own lock; no memory is involved.
        unsafe { libc::mallopt(libc::M_MMAP_THRESHOLD, bytes) == 1 }
    }
    #[cfg(not(target_env = "gnu"))]
    {
        let _ = bytes;
        false
    }
}
