//! The finished tree as one file: an archive in the order that RFC-9 recommends, without gaps.

use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};

use super::listing::FileListing;
use super::receipt::Origin;
use crate::archive_file::is_archive_name;
use crate::error::{Error, Result};
use crate::format::zarr3::DOCUMENT;
use crate::format::zip::directory::{Directory, Named, comment, order};
use crate::format::zip::local::{self, Kind, NAME_BYTES_MAX, PAGE, WRITTEN_AT_ONCE};
use crate::format::zip::{Content, Modified, crc32};
use crate::fs::system::FileExt;
use crate::fs::{self as os, document, look};
use crate::offline::hierarchy::RECEIPT;

const STEP_BYTES: usize = 1 << 20;

/// Writes what is in `tree` into the new archive `out`, which appears when all is in it. `folder`: of its first array.
pub(super) fn pack(tree: &Path, out: &Path, origin: &Origin<'_>, folder: &Path) -> Result<()> {
    let failed = |error| Error::io("write", out, error);
    os::make_file(out, origin.options.sync, |file| {
        let mut packer = Packer { file, end: 0, directory: Directory::default(), contents: Vec::new() };
        let mut names = Vec::new();
        list(tree, tree, &mut names)?;
        let root = document::read(&tree.join(DOCUMENT))?.filter(|root| root["zarr_format"] == 3).ok_or_else(|| {
            let reason =
                "has no zarr.json of Zarr v3 at its root, without which it is no .ozx; repack it into a folder";
            Error::unsupported(tree, reason)
        })?;
        names.sort_by(|(one, _), (other, _)| order(one).cmp(&order(other)));
        names.iter().try_for_each(|(name, path)| packer.add(name, path))?;
        let receipt = folder.strip_prefix(tree).unwrap_or(Path::new("")).join(RECEIPT);
        packer.add_receipt(out, origin, &receipt.to_string_lossy()).map_err(failed)?;
        packer.finish(&comment(&root["attributes"])).map_err(failed)
    })
}

/// All files below a folder with their names in the archive.
fn list(root: &Path, folder: &Path, names: &mut Vec<(String, PathBuf)>) -> Result<()> {
    for path in look::list(folder)? {
        if path.is_symlink() {
            return Err(Error::unsupported(path, "is a link, which an archive can't hold; repack into a folder"));
        }
        if path.is_dir() {
            list(root, &path, names)?;
            continue;
        }
        if is_archive_name(&path) {
            return Err(Error::unsupported(path, "is an archive, which must not be in another one; take it out"));
        }
        let name = path.strip_prefix(root).ok().and_then(Path::to_str).filter(|name| name.len() <= NAME_BYTES_MAX);
        let Some(name) = name else {
            let reason = format!("has a name that is no UTF-8, or of more than {NAME_BYTES_MAX} bytes");
            return Err(Error::unsupported(path, reason));
        };
        let last = path.file_name().unwrap_or_default().to_string_lossy();
        if last != RECEIPT && !os::is_partial(&last) {
            names.push((name.to_owned(), path));
        }
    }
    Ok(())
}

struct Packer<'a> {
    file: &'a File,
    end: u64,
    directory: Directory,
    contents: Vec<(String, Content)>,
}

impl Packer<'_> {
    /// Adds a file; one of a page or more begins on a page.
    fn add(&mut self, name: &str, path: &Path) -> Result<()> {
        let source = File::open(path).map_err(|error| Error::io("open", path, error))?;
        let len = source.metadata().map_err(|error| Error::io("look at", path, error))?.len();
        self.append(name, &source, len).map_err(|error| Error::io("copy", path, error))
    }

    fn append(&mut self, name: &str, source: &File, len: u64) -> io::Result<()> {
        let align = if len >= PAGE { PAGE } else { 1 };
        let header_at = self.end.next_multiple_of(align);
        let data_at = header_at + local::bytes(name, align as usize) as u64;
        let (mut crc, mut at) = (0, 0);
        let mut bytes = vec![0; STEP_BYTES.min(len as usize)];
        while at < len {
            let piece = &mut bytes[..STEP_BYTES.min((len - at) as usize)];
            source.read_exact_at(piece, at)?;
            crc = crc32::append(crc, piece);
            self.file.write_all_at(piece, data_at + at)?;
            at += piece.len() as u64;
        }
        self.name(name, Content { crc32: crc, len }, header_at, align)
    }

    /// The last file: by it a later call knows the archive again.
    fn add_receipt(&mut self, out: &Path, origin: &Origin<'_>, name: &str) -> io::Result<()> {
        let contents = self.contents.iter().map(|(name, content)| (name.as_str(), *content));
        let receipt = origin.receipt(&mut FileListing::of_archive(out, contents));
        let header_at = self.end;
        self.file.write_all_at(&receipt, header_at + local::bytes(name, 1) as u64)?;
        self.name(name, Content::of(&receipt), header_at, 1)
    }

    /// Puts the header before what was written.
    fn name(&mut self, name: &str, content: Content, header_at: u64, align: u64) -> io::Result<()> {
        let modified = Modified::now();
        let origin = local::Origin { kind: Kind::Whole, archive: WRITTEN_AT_ONCE, serial: 0, room: content.len };
        self.file.write_all_at(&local::encode(name, content, modified, &origin, align as usize), header_at)?;
        self.directory.add(&Named { name, content, modified, header_at });
        self.contents.push((name.to_owned(), content));
        self.end = header_at + local::bytes(name, align as usize) as u64 + content.len;
        Ok(())
    }

    fn finish(self, comment: &str) -> io::Result<()> {
        self.file.write_all_at(&self.directory.at(self.end, comment), self.end)
    }
}
