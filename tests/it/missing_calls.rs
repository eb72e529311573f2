//! File systems and kernels without a call that others have: no locks, no exchange of names, no /proc.
#![cfg(target_os = "linux")]
#![allow(unsafe_code)]

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use crate::common::child::{child_path, in_child};
use crate::common::{frame, tiny};
use shardwright::offline::Array;
use shardwright::{Acquisition, Config, Error};

/// From now on the system answers a call of this process with `errno`; with `if_argument`, only where that argument is
/// not 0.
fn refuse(call: libc::c_long, if_argument: Option<u32>, errno: i32) {
    const LOAD: u16 = (libc::BPF_LD | libc::BPF_W | libc::BPF_ABS) as u16;
    const IS: u16 = (libc::BPF_JMP | libc::BPF_JEQ | libc::BPF_K) as u16;
    const RETURN: u16 = (libc::BPF_RET | libc::BPF_K) as u16;
    let step = |code, jt, jf, k| libc::sock_filter { code, jt, jf, k };
    // In `struct seccomp_data` the arguments begin at byte 16; only the lower half of each is looked at.
    let argument =
        step(LOAD, 0, 0, if_argument.map_or(0, |at| 16 + 8 * at + if cfg!(target_endian = "big") { 4 } else { 0 }));
    let mut steps = [
        step(LOAD, 0, 0, 0),
        step(IS, 0, 3, call as u32),
        argument,
        // Without an argument, the number of the call was loaded again, which is not 0 either.
        step(IS, 1, 0, 0),
        step(RETURN, 0, 0, libc::SECCOMP_RET_ERRNO | errno as u32),
        step(RETURN, 0, 0, libc::SECCOMP_RET_ALLOW),
    ];
    let program = libc::sock_fprog { len: steps.len() as u16, filter: steps.as_mut_ptr() };
    // SAFETY: the program is valid for the calls, which copy it; both change nothing but what this process may ask for.
    let done = unsafe {
        libc::prctl(libc::PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0)
            | libc::prctl(libc::PR_SET_SECCOMP, libc::SECCOMP_MODE_FILTER, &raw const program)
    };
    assert_eq!(done, 0, "{}", std::io::Error::last_os_error());
}

/// Everything below a folder, with the bytes of files.
fn contents(folder: &Path) -> BTreeMap<PathBuf, Option<Vec<u8>>> {
    let mut found = BTreeMap::new();
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            found.extend(contents(&path));
        }
        found.insert(path.clone(), fs::read(&path).ok());
    }
    found
}

fn config(overwrite: bool) -> Config {
    Config { overwrite, ..tiny(None, 32) }
}

fn begun(path: &Path, frames: u64) -> Acquisition {
    let acquisition = Acquisition::create(path, config(true)).unwrap();
    (0..frames).for_each(|number| assert_eq!(acquisition.append(&frame(number, 256)).unwrap().frames, 1));
    acquisition
}

fn frames_in(path: &Path) -> u64 {
    Array::open(path.join("0")).unwrap().shape()[0]
}

#[test]
fn without_locks_a_run_is_refused_and_leaves_nothing() {
    let folder = tempfile::tempdir().unwrap();
    in_child("missing_calls::child_has_no_locks", folder.path());
}

#[test]
#[ignore = "run by another test, in a process of its own"]
fn child_has_no_locks() {
    let folder = child_path();
    begun(&folder.join("old.zarr"), 6).finish().unwrap();
    fs::create_dir(folder.join("empty.zarr")).unwrap();
    let before = contents(&folder);
    refuse(libc::SYS_flock, None, libc::EOPNOTSUPP);
    for name in ["new.zarr", "empty.zarr", "deep/er/new.zarr", "old.zarr"] {
        let error = Acquisition::create(folder.join(name), config(true)).map(Acquisition::abort).unwrap_err();
        assert!(matches!(error, Error::Io { .. }) && error.to_string().contains("has no locks"), "{name}: {error}");
        assert!(error.to_string().contains(name), "{error}");
        assert!(contents(&folder) == before, "{name}");
    }
}

#[test]
fn datasets_are_replaced_where_names_can_not_be_exchanged() {
    for errno in ["EINVAL", "ENOSYS"] {
        let folder = tempfile::tempdir().unwrap();
        in_child("missing_calls::child_can_only_rename", &folder.path().join(errno));
    }
}

#[test]
#[ignore = "run by another test, in a process of its own"]
fn child_can_only_rename() {
    let folder = child_path();
    refuse(libc::SYS_renameat2, Some(4), if folder.ends_with("EINVAL") { libc::EINVAL } else { libc::ENOSYS });
    let path = folder.join("run.zarr");
    for frames in [6, 10] {
        begun(&path, frames).finish().unwrap();
        assert_eq!(frames_in(&path), frames);
        assert_eq!(fs::read_dir(&folder).unwrap().count(), 1);
    }
    let before = contents(&folder);
    begun(&path, 0).abort();
    assert!(contents(&folder) == before, "what was to be replaced is back");
}

#[test]
fn without_proc_a_dataset_is_written_and_replaced() {
    let folder = tempfile::tempdir().unwrap();
    in_child("missing_calls::child_has_no_proc", folder.path());
}

#[test]
#[ignore = "run by another test, in a process of its own"]
fn child_has_no_proc() {
    if std::os::unix::fs::chroot(child_path()).is_err() {
        // Only root may.
        println!("not run: chroot");
        return;
    }
    std::env::set_current_dir("/").unwrap();
    let path = Path::new("/run.zarr");
    for frames in [6, 10] {
        begun(path, frames).finish().unwrap();
        assert_eq!(frames_in(path), frames);
        let is_lock = |path: &PathBuf| path.ends_with(".shardwright.lock");
        assert!(!contents(Path::new("/")).keys().any(is_lock), "a lock file is left");
        assert_eq!(fs::read_dir("/").unwrap().count(), 1);
    }
    let before = contents(Path::new("/"));
    begun(path, 0).abort();
    assert!(contents(Path::new("/")) == before, "what was to be replaced is back");
}
