//! With which instructions pixels can be unpacked.

#[cfg(target_arch = "x86_64")]
use crate::processor::{has_avx2, x86::has_avx512_vbmi};

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
        match (has_avx512_vbmi(), has_avx2()) {
            (true, _) => Self::Avx512,
            (false, true) => Self::Avx2,
            (false, false) => Self::Scalar,
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
