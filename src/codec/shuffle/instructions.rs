//! What a shuffle is, and with which instructions it can be done.

use crate::processor::instructions;
#[cfg(target_arch = "x86_64")]
use crate::processor::{has_avx2, x86::has_avx2_and_gfni};

/// Transposes the whole elements of the first slice into the second, which is just as long. The bit shuffles get a
/// multiple of 8 elements.
pub(super) type Transpose = fn(&[u8], &mut [u8]);

/// The function for elements of a size, made a [`Transpose`] by `$safe`; `None` for another size.
macro_rules! by_size {
    ($bytes:expr, $($function:ident)::+) => { by_size!($bytes, $($function)::+, std::convert::identity) };
    ($bytes:expr, $($function:ident)::+, $($safe:tt)+) => {
        match $bytes {
            1 => Some($($safe)+($($function)::+::<1>) as Transpose),
            2 => Some($($safe)+($($function)::+::<2>) as Transpose),
            4 => Some($($safe)+($($function)::+::<4>) as Transpose),
            8 => Some($($safe)+($($function)::+::<8>) as Transpose),
            _ => None,
        }
    };
}
pub(super) use by_size;

instructions! {
    // Every x86-64 has it.
    Sse2 if true,
    Avx2 if has_avx2(),
    /// AVX2, and the Galois field instructions at its width.
    Gfni if has_avx2_and_gfni(),
}
