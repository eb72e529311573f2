//! Makes a file longer by some bytes, all of them or none.
//!
//! A write into the page cache moves the end of the file page by page: whoever looks meanwhile, and a kill in its
//! middle, finds a file that ends anywhere in it. One direct write moves it once, when all bytes are on the device:
//! that is so on ext4 and XFS, for those who look (tested) and in what the file system's journal keeps, because the
//! journal's commit flushes the device first. What fits a page is whole in the page cache, too. Elsewhere (tmpfs,
//! Btrfs) readers are kept out for the moment, but a kill in its middle leaves a file that ends in the middle of
//! `bytes`.

use std::fs::{File, OpenOptions};
use std::io;
use std::os::fd::AsRawFd;
use std::os::unix::fs::{FileExt, OpenOptionsExt};

use rustix::fs::{FallocateFlags, OFlags, fallocate};
use rustix::io::{Errno, retry_on_intr};

use super::lease;
use super::seam::PAGE;

pub(super) const EXT4: u64 = 0xEF53;
pub(super) const XFS: u64 = 0x5846_5342;

/// A file beyond the limit of the process (`ulimit -f`) would be answered with a signal that ends it.
pub(super) fn allowed(len: u64) -> io::Result<()> {
    match rustix::process::getrlimit(rustix::process::Resource::Fsize).current {
        Some(most) if most < len => Err(Errno::FBIG.into()),
        _ => Ok(()),
    }
}

/// Extends `file`, which is `len` bytes long, so that it ends with `bytes`, which begin at `at`, there or beyond. After
/// an error it is as long as before.
pub(super) fn grow(file: &File, len: u64, at: u64, bytes: &[u8]) -> io::Result<()> {
    let end = at + bytes.len() as u64;
    allowed(end)?;
    // A write that runs out of room half-way would leave half a table at the end of the file.
    match retry_on_intr(|| fallocate(file, FallocateFlags::KEEP_SIZE, len, end - len)) {
        Ok(()) | Err(Errno::OPNOTSUPP | Errno::NOSYS) => {}
        Err(error) => return Err(error.into()),
    }
    let written = match directly(file, at, bytes) {
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

/// One write past the page cache; `None` where there is no such thing, or where pages would not do.
fn directly(file: &File, at: u64, bytes: &[u8]) -> io::Result<Option<usize>> {
    let pages = at.is_multiple_of(PAGE) && (bytes.len() as u64).is_multiple_of(PAGE);
    // Others take the flag and do it otherwise: tmpfs page by page, Btrfs with the length first.
    if !pages || !matches!(rustix::fs::fstatfs(file)?.f_type as u64, EXT4 | XFS) {
        return Ok(None);
    }
    // By its descriptor: its name may be another file's by now.
    let name = format!("/proc/self/fd/{}", file.as_raw_fd());
    let flags = OFlags::DIRECT.bits().cast_signed();
    let Ok(direct) = OpenOptions::new().write(true).custom_flags(flags).open(name) else { return Ok(None) };
    let mut aligned = memmap2::MmapMut::map_anon(bytes.len())?;
    aligned.copy_from_slice(bytes);
    match retry_on_intr(|| rustix::io::pwrite(&direct, &aligned, at)) {
        Ok(written) => Ok(Some(written)),
        // The device wants more than pages.
        Err(Errno::INVAL) => Ok(None),
        Err(error) => Err(error.into()),
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
