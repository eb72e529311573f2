//! A door for fuzzers to what is private; there only when they build the crate.

use std::io::Write;
use std::os::fd::AsRawFd;

use super::shard_file::{IndexLayout, ShardFile};
use crate::config::IndexLocation;
use crate::shard::slot;

/// Reads an index: the first byte says how it looks, the rest is the file.
pub fn index(data: &[u8]) {
    let Some((&how, bytes)) = data.split_first() else { return };
    let location = if how & 1 == 0 { IndexLocation::End } else { IndexLocation::Start };
    let Some(layout) = IndexLayout::new(u64::from(how >> 2), location, how & 2 != 0) else { return };
    let memory = rustix::fs::memfd_create("shard", rustix::fs::MemfdFlags::empty()).expect("a file in memory");
    let mut memory = std::fs::File::from(memory);
    memory.write_all(bytes).expect("written");
    let path = format!("/proc/self/fd/{}", memory.as_raw_fd());
    let file = ShardFile::open(path.into()).expect("a file").expect("it is there");
    let Ok(index) = file.index(layout) else { return };
    for chunk in 0..index.len() + 2 {
        if let Ok(Some(range)) = index.entry(chunk) {
            let mut room = Vec::new();
            file.read(range, &mut room).expect("an entry that was let pass is inside the file");
        }
    }
}

/// Reads a header and compares it with the payload after it.
pub fn header(data: &[u8]) {
    let Some((bytes, payload)) = data.split_first_chunk::<{ slot::HEADER_BYTES }>() else { return };
    let mut bytes = *bytes;
    let as_it_is = slot::parse(&bytes);
    // A fuzzer doesn't guess checksums.
    let crc = crc32c::crc32c(&bytes[..60]);
    bytes[60..].copy_from_slice(&crc.to_le_bytes());
    for header in as_it_is.into_iter().chain(slot::parse(&bytes)) {
        let vouches = header.vouches_for(payload);
        assert!(!vouches || header.nbytes == payload.len() as u64);
        assert!(header.last_frame() >= header.first_frame);
    }
}
