//! With which instructions pixels can be worked on.

#![allow(unsafe_code)]

/// Whether the processor has AVX2: plain loops are compiled for it, too, where that makes them faster.
pub(crate) fn has_avx2() -> bool {
    #[cfg(target_arch = "x86_64")]
    return is_x86_feature_detected!("avx2");
    #[cfg(not(target_arch = "x86_64"))]
    false
}

/// Asks the processor to have memory that is about to be read in its second cache: of those lines, more can be on their
/// way than to the first one.
#[inline]
pub(crate) fn prefetch(bytes: &[u8]) {
    #[cfg(all(target_arch = "x86_64", not(miri)))]
    for line in bytes.chunks(64) {
        use std::arch::x86_64::{_MM_HINT_T1, _mm_prefetch};
        // SAFETY: changes nothing but caches, and the address is that of a slice.
        unsafe { _mm_prefetch::<_MM_HINT_T1>(line.as_ptr().cast()) };
    }
    // Elsewhere the standard library has no word for it.
    #[cfg(not(all(target_arch = "x86_64", not(miri))))]
    let _ = bytes;
}

/// What the processor offers, from dull to fast.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Instructions {
    #[cfg_attr(target_arch = "aarch64", allow(dead_code))]
    Scalar,
    #[cfg(target_arch = "aarch64")]
    Neon,
    #[cfg(target_arch = "x86_64")]
    Avx2,
    /// AVX-512 with bytes and words, and with the permutation of bytes (VBMI).
    #[cfg(target_arch = "x86_64")]
    Avx512,
}

impl Instructions {
    #[cfg(target_arch = "x86_64")]
    pub(super) fn detect() -> Self {
        let avx512 = is_x86_feature_detected!("avx512bw") && is_x86_feature_detected!("avx512vbmi");
        match (is_x86_feature_detected!("avx2"), avx512) {
            (true, true) => Self::Avx512,
            (true, false) => Self::Avx2,
            (false, _) => Self::Scalar,
        }
    }

    #[cfg(target_arch = "aarch64")]
    pub(super) fn detect() -> Self {
        Self::Neon
    }

    #[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
    pub(super) fn detect() -> Self {
        Self::Scalar
    }
}
