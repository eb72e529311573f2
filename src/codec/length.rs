//! Lengths that must be what was expected.

use crate::error::{Error, Result};

pub(super) fn expect_length(codec: &'static str, got: usize, expected: usize) -> Result<()> {
    if got == expected { Ok(()) } else { Err(Error::codec(codec, format!("{got} bytes, expected {expected}"))) }
}
