//! Makes a file longer by some bytes, all of them or none.
//!
//! A write into the page cache moves the end of the file page by page: whoever looks meanwhile, and a kill in its
//! middle, finds a file that ends anywhere in it. One direct write moves it once, when all bytes are on the device:
//! that is so on ext4 and XFS, for those who look (tested) and in what the file system's journal keeps, because the
//! journal's commit flushes the device first. What fits a page is whole in the page cache, too. Elsewhere (tmpfs,
//! Btrfs) readers are kept out for the moment, but a kill in its middle leaves a file that ends in the middle of
//! `bytes`.

use std::fs::File;
use std::io;

use super::lease;
use super::system::{self, FileExt};

/// Extends `file`, which is `len` bytes long, so that it ends with `bytes`, which begin at `at`, there or beyond. After
/// an error it is as long as before.
pub(crate) fn grow(file: &File, len: u64, at: u64, bytes: &[u8]) -> io::Result<()> {
    let end = at + bytes.len() as u64;
    system::check_file_limit(end)?;
    // A write that runs out of room half-way would leave half a table at the end of the file.
    system::reserve_range(file, len, end - len)?;
    extend(file, len, at, bytes)
}

/// The same, where `bytes` have their room already.
pub(crate) fn extend(file: &File, len: u64, at: u64, bytes: &[u8]) -> io::Result<()> {
    let written = match system::write_in_order(file, None, at, bytes) {
        Ok(None) => lease::unseen(file, || file.write_at(bytes, at)),
        Ok(Some(written)) => Ok(written),
        Err(error) => Err(error),
    };
    match written {
        Ok(written) if written == bytes.len() => Ok(()),
        other => {
            file.set_len(len)?;
            other.and(Err(io::ErrorKind::WriteZero.into()))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pattern(len: usize, seed: u8) -> Vec<u8> {
        (0..len).map(|at| (at / 7) as u8 ^ seed).collect()
    }

    #[test]
    #[cfg_attr(miri, ignore = "miri has no fallocate")]
    fn a_file_grows_by_all_of_it() {
        let file = tempfile::tempfile().unwrap();
        let mut expected = pattern(8192, 1);
        file.write_all_at(&expected, 0).unwrap();
        // Pages, and what are none.
        for (len, seed, gap) in [(4096, 2, 0), (40_960, 3, 8192), (100, 4, 0), (5000, 5, 70_001)] {
            let more = pattern(len, seed);
            let before = expected.len();
            expected.resize(before + gap, 0);
            grow(&file, before as u64, expected.len() as u64, &more).unwrap();
            expected.extend(more);
            let mut found = vec![0; expected.len() + 1];
            assert_eq!(file.read_at(&mut found, 0).unwrap(), expected.len());
            assert!(found[..expected.len()] == expected);
        }
    }

    #[test]
    #[cfg_attr(miri, ignore = "miri has no fallocate")]
    fn a_file_that_can_not_grow_stays_as_it_is() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("file");
        std::fs::write(&path, [7; 4096]).unwrap();
        let only_read = File::open(&path).unwrap();
        assert!(grow(&only_read, 4096, 4096, &[1; 4096]).is_err());
        assert_eq!(std::fs::read(&path).unwrap(), [7; 4096]);
    }
}
