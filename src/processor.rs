//! What the processor offers beyond what its architecture always has, and how to ask it for memory ahead of need.
//!
//! Each kernel says by [`instructions!`] for which sets of instructions it has code; what the sets are called is here
//! alone.
#![allow(unsafe_code)]

use std::ops::Range;

/// Lines of memory are this long wherever [`prefetch`] does something.
const CACHE_LINE: usize = 64;

/// Defines `Instructions` for the kernels of a module: the scalar ones, NEON, and on x86-64 what follows, from slow to
/// fast, each with the test that it is there. A type for each module, because its values are the proof that the
/// processor has what the module's own functions need.
macro_rules! instructions {
    ($($(#[$note:meta])* $name:ident if $found:expr),+ $(,)?) => {
        /// Which of the kernels run, from slow to fast.
        #[derive(Debug, Clone, Copy, PartialEq, Eq)]
        pub(super) enum Instructions {
            Scalar,
            // Every AArch64 has it.
            #[cfg(target_arch = "aarch64")]
            Neon,
            $($(#[$note])* #[cfg(target_arch = "x86_64")] $name,)+
        }

        impl Instructions {
            pub(super) fn all() -> impl Iterator<Item = Self> {
                let all = [
                    Some(Self::Scalar),
                    #[cfg(target_arch = "aarch64")]
                    Some(Self::Neon),
                    $(#[cfg(target_arch = "x86_64")] ($found).then_some(Self::$name),)+
                ];
                all.into_iter().flatten()
            }

            pub(super) fn detect() -> Self {
                Self::all().last().unwrap_or(Self::Scalar)
            }
        }
    };
}
pub(crate) use instructions;

/// Plain loops are compiled for it, too, where that makes them faster.
#[inline]
pub(crate) fn has_avx2() -> bool {
    #[cfg(target_arch = "x86_64")]
    return x86::is_allowed(x86::Generation::Avx2) && is_x86_feature_detected!("avx2");
    #[cfg(not(target_arch = "x86_64"))]
    false
}

/// The instructions that are looked for on this architecture alone.
#[cfg(target_arch = "x86_64")]
pub(crate) mod x86 {
    /// What processors have on top of the one before.
    #[derive(Debug, Clone, Copy, PartialEq, Eq)]
    #[cfg_attr(not(sw_forms), allow(unreachable_pub, dead_code))]
    pub enum Generation {
        /// What every x86-64 has.
        Baseline,
        /// And the bit manipulations that came with it.
        Avx2,
        /// At the width of AVX2.
        Gfni,
        /// With all that is looked for at its width.
        Avx512,
    }

    #[cfg(sw_forms)]
    static NEWEST: std::sync::atomic::AtomicU8 = std::sync::atomic::AtomicU8::new(Generation::Avx512 as u8);

    /// From now on, nothing newer is found: for tests and benches of every form of the kernels. What was made before
    /// keeps what it found.
    #[cfg(sw_forms)]
    pub fn allow(newest: Generation) {
        NEWEST.store(newest as u8, std::sync::atomic::Ordering::Relaxed);
    }

    #[inline]
    pub(super) fn is_allowed(generation: Generation) -> bool {
        #[cfg(sw_forms)]
        return generation as u8 <= NEWEST.load(std::sync::atomic::Ordering::Relaxed);
        #[cfg(not(sw_forms))]
        {
            let _ = generation;
            true
        }
    }

    pub(crate) fn has_avx2_and_bmi() -> bool {
        super::has_avx2() && is_x86_feature_detected!("bmi1") && is_x86_feature_detected!("bmi2")
    }

    pub(crate) fn has_avx2_and_gfni() -> bool {
        is_allowed(Generation::Gfni) && super::has_avx2() && is_x86_feature_detected!("gfni")
    }

    fn has_avx512() -> bool {
        is_allowed(Generation::Avx512) && super::has_avx2() && is_x86_feature_detected!("avx512bw")
    }

    pub(crate) fn has_avx512_vbmi() -> bool {
        has_avx512() && is_x86_feature_detected!("avx512vbmi")
    }

    /// AVX-512 with bytes and words, and with double shifts; and what [`has_avx2_and_bmi`] says.
    pub(crate) fn has_avx512_vbmi2() -> bool {
        has_avx2_and_bmi() && has_avx512() && is_x86_feature_detected!("avx512vbmi2")
    }
}

/// Asks for memory that is about to be read.
#[inline]
pub(crate) fn prefetch(bytes: &[u8]) {
    #[cfg(all(target_arch = "x86_64", not(miri)))]
    for line in bytes.chunks(CACHE_LINE) {
        use std::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
        // SAFETY: changes nothing but caches, and the address is that of a slice.
        unsafe { _mm_prefetch::<_MM_HINT_T0>(line.as_ptr().cast()) };
    }
    // Elsewhere the standard library has no word for it.
    #[cfg(not(all(target_arch = "x86_64", not(miri))))]
    let _ = bytes;
}

/// Asks for memory that is about to be read, these bytes from an address on, in the second cache: of its lines, more
/// can be on their way than to the first.
#[inline(always)]
pub(crate) fn prefetch_second(start: usize, bytes: Range<usize>) {
    bytes.step_by(CACHE_LINE).for_each(|at| prefetch_line(start + at));
}

/// Asks for one line in the second cache. In the first one it would push out what is in use.
#[inline(always)]
pub(crate) fn prefetch_line(line: usize) {
    #[cfg(all(target_arch = "x86_64", not(miri)))]
    {
        use std::arch::x86_64::{_MM_HINT_T1, _mm_prefetch};
        // SAFETY: changes nothing but caches, and fails nowhere.
        unsafe { _mm_prefetch::<_MM_HINT_T1>(line as *const i8) };
    }
    #[cfg(not(all(target_arch = "x86_64", not(miri))))]
    let _ = line;
}
