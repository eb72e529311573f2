//! By what a dataset and its images are known.

use std::io;

use crate::fnv;
use crate::fs::system;

/// A random (version 4) UUID.
pub(super) fn random_uuid() -> io::Result<[u8; 16]> {
    let mut uuid = [0; 16];
    system::random(&mut uuid)?;
    uuid[6] = uuid[6] & 0x0f | 0x40;
    uuid[8] = uuid[8] & 0x3f | 0x80;
    Ok(uuid)
}

/// The UUID of one image of several (version 8: the dataset's, mixed with the FNV-1a of the name), so that a shard
/// which got into another image's folder is known by its headers.
pub(super) fn image_uuid(dataset: [u8; 16], name: &str) -> [u8; 16] {
    let mut uuid = (u128::from_be_bytes(dataset) ^ fnv::append(fnv::BASIS, name.as_bytes())).to_be_bytes();
    uuid[6] = uuid[6] & 0x0f | 0x80;
    uuid[8] = uuid[8] & 0x3f | 0x80;
    uuid
}
