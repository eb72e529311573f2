//! A slot header and the payload after it.
#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|data: &[u8]| shardwright::offline::fuzzing::header(data));
