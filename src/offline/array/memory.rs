//! Memory for what a document says is large: a few bytes can promise chunks of any size, to each thread that decodes.

use crate::fs::system::available_bytes;

/// Chunks that threads decode at the same time have at most this many bytes, or there is one thread.
const DECODED_BYTES_MAX: usize = 256 << 20;
/// Smaller ones are had without asking.
const LARGE_BYTES: usize = 64 << 20;

/// Runs `work` on this many threads that their chunks, of `chunk_bytes` each, don't take more memory together than they
/// may.
pub(crate) fn on_fitting_threads<T: Send>(chunk_bytes: usize, work: impl FnOnce() -> T + Send) -> T {
    let fitting = (DECODED_BYTES_MAX / chunk_bytes.max(1)).max(1);
    if fitting >= rayon::current_num_threads() {
        return work();
    }
    match rayon::ThreadPoolBuilder::new().num_threads(fitting).build() {
        Ok(pool) => pool.install(work),
        Err(_) => work(),
    }
}

/// Makes `room` this many bytes long, or says why this machine does not have as much.
pub(crate) fn resize(room: &mut Vec<u8>, bytes: usize) -> Result<(), String> {
    let more = bytes.saturating_sub(room.len());
    if more >= LARGE_BYTES
        && let Some(available) = available_bytes().filter(|&available| more as u64 > available / 2)
    {
        return Err(format!("{bytes} bytes are more than half of the {available} that this machine has free"));
    }
    room.try_reserve(more).map_err(|_| format!("no memory for {bytes} bytes"))?;
    room.resize(bytes, 0);
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn large_chunks_are_decoded_by_few_threads() {
        let threads = rayon::current_num_threads();
        assert_eq!(on_fitting_threads(1 << 20, rayon::current_num_threads), threads);
        assert_eq!(on_fitting_threads(usize::MAX, rayon::current_num_threads), 1);
    }

    #[test]
    fn what_a_machine_does_not_have_is_an_error() {
        let mut room = vec![7; 3];
        let reason = resize(&mut room, usize::MAX / 2).unwrap_err();
        assert!(reason.contains("bytes"), "{reason}");
        resize(&mut room, 5).unwrap();
        assert_eq!(room, [7, 7, 7, 0, 0]);
    }
}
