//! Memory that is asked for before it is read.
//!
//! Room: `sys`.

/// Asks for the line of memory in which `bytes` begin. Reads nothing that the program can see.
#[inline(always)]
pub(crate) fn ask_for(bytes: &[u8]) {
    let at = bytes.as_ptr();
    #[cfg(target_arch = "x86_64")]
    {
        use std::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
        // SAFETY: a prefetch faults on no address; SSE is part of x86-64.
        unsafe { _mm_prefetch::<_MM_HINT_T0>(at.cast()) };
    }
    #[cfg(target_arch = "aarch64")]
    // SAFETY: a prefetch faults on no address, and changes neither memory nor flags.
    unsafe {
        std::arch::asm!("prfm pldl1keep, [{0}]", in(reg) at, options(nostack, readonly, preserves_flags));
    }
    #[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
    let _ = at;
}
