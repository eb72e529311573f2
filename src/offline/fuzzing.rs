//! A door for fuzzers to what is private; there only when they build the crate.

use std::path::Path;

use serde_json::json;

use crate::config::IndexLocation;
use crate::format::index::table::TableLayout;
use crate::format::layout::Files;
use crate::format::precomputed;
use crate::format::slot_header as slot;
use crate::fs::system::{descriptor_path, file_in_memory};
use crate::offline::array::index::Index;
use crate::offline::array::shard_file::ShardFile;

/// Reads an index: the first byte says how it looks, the rest is the file.
pub fn index(data: &[u8]) {
    let Some((&how, bytes)) = data.split_first() else { return };
    let location = if how & 1 == 0 { IndexLocation::End } else { IndexLocation::Start };
    let Some(layout) = TableLayout::new(u64::from(how >> 2), location, how & 2 != 0) else { return };
    let file = in_memory(bytes);
    let Ok(index) = file.table(layout) else { return };
    for chunk in 0..index.len() + 2 {
        if let Ok(Some(range)) = index.entry(chunk) {
            let mut room = Vec::new();
            file.read(range, &mut room).expect("an entry that was let pass is inside the file");
        }
    }
}

/// Reads the shard of a volume: the first bytes say how ids are cut and which of them is read, the rest is the file.
pub fn volume(data: &[u8]) {
    let Some((&[hash, preshift_bits, minishard_bits, shard_bits, x, y, z], bytes)) = data.split_first_chunk() else {
        return;
    };
    let info = json!({
        "data_type": "uint8",
        "num_channels": 1,
        "scales": [{
            "key": "0",
            "size": [x, y, z],
            "chunk_sizes": [[1, 1, 1]],
            "encoding": "raw",
            "sharding": {
                "@type": "neuroglancer_uint64_sharded_v1",
                "hash": if hash & 1 == 0 { "identity" } else { "murmurhash3_x86_128" },
                "preshift_bits": preshift_bits % 72,
                // More of them only need a longer file.
                "minishard_bits": minishard_bits % 12,
                "shard_bits": shard_bits % 72,
                "minishard_index_encoding": if hash & 2 == 0 { "raw" } else { "gzip" },
            },
        }],
    });
    let Ok(metadata) = precomputed::parse(Path::new(precomputed::DOCUMENT), &info, "0") else { return };
    let Files::Volume(volume) = &metadata.layout.files else { return };
    let Some(shards) = volume.shards() else { return };
    let file = in_memory(bytes);
    let Ok(index) = Index::of_volume(&file, shards, None, None) else { return };
    for (id, entry) in index.entries() {
        let Ok(range) = entry else { continue };
        let mut room = Vec::new();
        file.read(range, &mut room).expect("an entry that was let pass is inside the file");
        let chunk = volume.chunk_of(id).expect("an id that was let pass is one of the volume's");
        let (position, entry) = volume.file_of(&chunk);
        assert_eq!(entry, id);
        assert_eq!(volume.file_position(&volume.file_name(&position)), Some(position));
        let only = Index::of_volume(&file, shards, None, Some(&[id])).expect("a part of what was read");
        assert_eq!(only.entry(id), Ok(Some(range)));
    }
}

/// A file with these bytes, which stays when the descriptor goes that it is opened by.
fn in_memory(bytes: &[u8]) -> ShardFile {
    let memory = file_in_memory(bytes).expect("a file in memory");
    ShardFile::open(descriptor_path(&memory)).expect("a file").expect("it is there")
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
        assert!(header.last_frame() >= header.origin.first_frame);
    }
}
