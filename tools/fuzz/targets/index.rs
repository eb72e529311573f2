//! The index of a shard, with any number of chunks, at its start or its end, with or without a checksum.
#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|data: &[u8]| shardwright::offline::fuzzing::index(data));
