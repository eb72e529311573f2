//! What a file or a folder has of the one whose place it takes: mode, owner, group and extended attributes.

use std::fs::{self, Metadata};
use std::io;
use std::os::unix::fs::{MetadataExt, chown};
use std::path::Path;

use rustix::fs::{XattrFlags, getxattr, listxattr, setxattr};
use rustix::process::{getegid, geteuid, getgroups};

/// The extended attributes that are a user's own, and the lists of who may do what.
const CARRIED: [&[u8]; 2] = [b"user.", b"system.posix_acl_"];
/// No attribute and no list of their names is longer in Linux.
const ATTRIBUTES_BYTES_MAX: usize = 1 << 16;

/// Gives a new file or folder what `old` has. Owner and group stay as they are where the process may not give files
/// away: see [`may_keep_owner`].
pub(crate) fn keep(new: &Path, old: &Path) -> io::Result<()> {
    let was = fs::metadata(old)?;
    keep_owner(new, &was);
    // After the owner, whose change takes some bits of the mode away.
    fs::set_permissions(new, was.permissions())?;
    keep_extended(new, old);
    Ok(())
}

/// The same of all that is below `new`, and of itself, by what has the same name below `old`. What is new there gets
/// the owner, and a folder also the mode, of the folder that it comes to lie in.
pub(crate) fn keep_all(new: &Path, old: &Path) -> io::Result<()> {
    keep(new, old)?;
    if !fs::symlink_metadata(new)?.is_dir() {
        return Ok(());
    }
    keep_below(new, Some(old), &fs::metadata(old)?)
}

/// Gives a new folder, and all that is in it, the owner of `like`, a folder of the same kind. Its folders get the mode
/// of `like`, its files that of `document`, a file in it. What extended attributes say is of other bytes.
pub(crate) fn belong(new: &Path, like: &Path, document: &Path) -> io::Result<()> {
    belong_below(new, &fs::metadata(like)?, &fs::metadata(document)?)
}

fn belong_below(new: &Path, folder: &Metadata, file: &Metadata) -> io::Result<()> {
    let kind = fs::symlink_metadata(new)?.file_type();
    if kind.is_symlink() {
        return Ok(());
    }
    let was = if kind.is_dir() { folder } else { file };
    keep_owner(new, was);
    fs::set_permissions(new, was.permissions())?;
    if kind.is_dir() {
        for entry in fs::read_dir(new)? {
            belong_below(&entry?.path(), folder, file)?;
        }
    }
    Ok(())
}

/// `old`: the folder that was there; `around`: it, or the nearest one above.
fn keep_below(new: &Path, old: Option<&Path>, around: &Metadata) -> io::Result<()> {
    for entry in fs::read_dir(new)? {
        let entry = entry?;
        let (path, kind) = (entry.path(), entry.file_type()?);
        if kind.is_symlink() {
            continue;
        }
        let was = old.map(|old| old.join(entry.file_name()));
        let found = was.as_ref().and_then(|was| Some((was, fs::metadata(was).ok()?)));
        match found.filter(|(_, found)| found.is_dir() == kind.is_dir()) {
            Some((was, found)) => {
                keep(&path, was)?;
                if kind.is_dir() {
                    keep_below(&path, Some(was), &found)?;
                }
            }
            None => {
                keep_owner(&path, around);
                if kind.is_dir() {
                    fs::set_permissions(&path, around.permissions())?;
                    keep_below(&path, None, around)?;
                }
            }
        }
    }
    Ok(())
}

/// Whether what takes the place of `old` can have its owner and its group.
pub(crate) fn may_keep_owner(old: &Path) -> bool {
    let Ok(old) = fs::metadata(old) else { return true };
    let is_among = |group| getgroups().is_ok_and(|groups| groups.iter().any(|known| known.as_raw() == group));
    let is_in = |group: u32| group == getegid().as_raw() || is_among(group);
    geteuid().is_root() || (old.uid() == geteuid().as_raw() && is_in(old.gid()))
}

fn keep_owner(new: &Path, was: &Metadata) {
    let is_same = fs::symlink_metadata(new).is_ok_and(|new| (new.uid(), new.gid()) == (was.uid(), was.gid()));
    // More processes may change the group than the owner.
    if !is_same && chown(new, Some(was.uid()), Some(was.gid())).is_err() {
        let _ = chown(new, None, Some(was.gid()));
    }
}

/// What the file system, or a limit, does not take is left out.
fn keep_extended(new: &Path, old: &Path) {
    let mut names = vec![0; ATTRIBUTES_BYTES_MAX];
    let listed = listxattr(old, &mut names).unwrap_or(0);
    for name in names[..listed].split(|byte| *byte == 0).filter(|name| CARRIED.iter().any(|of| name.starts_with(of))) {
        let mut value = vec![0; ATTRIBUTES_BYTES_MAX];
        if let Ok(len) = getxattr(old, name, &mut value) {
            let _ = setxattr(new, name, &value[..len], XattrFlags::empty());
        }
    }
}

#[cfg(all(test, not(miri)))]
mod tests {
    use std::os::unix::fs::PermissionsExt as _;

    use super::*;

    #[test]
    fn a_folder_in_another_s_place_has_its_modes_and_attributes() {
        let folder = tempfile::tempdir().unwrap();
        let [new, old] = ["new", "old"].map(|name| folder.path().join(name));
        fs::create_dir_all(new.join("c/1/2")).unwrap();
        fs::create_dir_all(old.join("c/0")).unwrap();
        for file in [new.join("zarr.json"), old.join("zarr.json"), new.join("c/1/2/3")] {
            fs::write(file, "{}").unwrap();
        }
        let set = |path: &Path, mode: u32| fs::set_permissions(path, fs::Permissions::from_mode(mode)).unwrap();
        set(&old, 0o2750);
        set(&old.join("c"), 0o700);
        set(&old.join("zarr.json"), 0o640);
        let has_attributes = setxattr(old.join("zarr.json"), "user.k", b"1", XattrFlags::empty()).is_ok();
        keep_all(&new, &old).unwrap();
        let mode = |name: &str| fs::metadata(new.join(name)).unwrap().mode() & 0o7777;
        assert_eq!(["", "zarr.json", "c", "c/1", "c/1/2"].map(mode), [0o2750, 0o640, 0o700, 0o700, 0o700]);
        let mut value = [0; 8];
        let kept = getxattr(new.join("zarr.json"), "user.k", &mut value[..]);
        assert!(!has_attributes || kept == Ok(1));
        assert!(may_keep_owner(&old));
    }
}
