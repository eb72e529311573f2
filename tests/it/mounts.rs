//! Full disks and losses of power on real file systems, mounted from image files.
//!
//! They need root, `mkfs.ext4`, `mkfs.xfs` and `mkfs.btrfs`, so they are ignored by `cargo test`; `tools/torture` runs
//! them. A file system that can't be made here is an error, not a test that passes.
#![cfg(target_os = "linux")]
#![allow(unsafe_code)]

use std::ffi::CString;
use std::fs::File;
use std::io::{BufRead, BufReader};
use std::os::fd::AsRawFd;
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use crate::common::child::{child, child_path, child_word, output_of_child, told};
use crate::common::frame;
use crate::common::storage::wait_until;
use shardwright::offline::Array;
use shardwright::{
    Acquisition, Codec, Compressor, Config, Dataset, Dim, Downsampling, Dtype, IndexLocation, Placement, Record,
    StorageKind,
};

const SIDE: u64 = 64;
const FRAME_BYTES: usize = (SIDE * SIDE) as usize;
const STORAGES: [(&str, StorageKind); 3] =
    [("mapped", StorageKind::Mapped), ("buffered", StorageKind::Buffered), ("direct", StorageKind::Direct)];

fn number_from(name: &str, default: u64) -> u64 {
    std::env::var(name).map_or(default, |count| count.parse().expect("a number"))
}

/// A file system of its own, unmounted and removed at the end.
struct Mount {
    at: PathBuf,
    image: Option<PathBuf>,
    _folder: tempfile::TempDir,
}

fn run(program: &str, arguments: &[&str]) {
    let output = Command::new(program).args(arguments).output();
    let output = output.unwrap_or_else(|error| panic!("{program} can't be run: {error}"));
    assert!(output.status.success(), "{program} {arguments:?}: {}", String::from_utf8_lossy(&output.stderr));
}

impl Mount {
    fn new(kind: &str, mib: u64) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let at = folder.path().join("mount");
        std::fs::create_dir(&at).unwrap();
        let image = (kind != "tmpfs").then(|| folder.path().join("image"));
        match &image {
            None => run("mount", &["-t", "tmpfs", "-o", &format!("size={mib}m"), "none", at.to_str().unwrap()]),
            Some(image) => {
                File::create(image).unwrap().set_len(mib << 20).unwrap();
                run(&format!("mkfs.{kind}"), &["-q", image.to_str().unwrap()]);
                run("mount", &["-o", "loop", image.to_str().unwrap(), at.to_str().unwrap()]);
            }
        }
        Self { at, image, _folder: folder }
    }

    fn mount_again(&self) {
        let image = self.image.as_ref().expect("a tmpfs forgets everything");
        run("umount", &[self.at.to_str().unwrap()]);
        run("mount", &["-o", "loop", image.to_str().unwrap(), self.at.to_str().unwrap()]);
    }
}

/// Loses everything on the file system of `path` that has not reached the disk, and the journal of what has not been
/// written there.
fn cut_power(path: &Path) {
    // From linux/fs.h: FS_IOC_SHUTDOWN is _IOR('X', 125, __u32), and 2 means: don't flush the log.
    const FS_IOC_SHUTDOWN: u64 = 0x8004_587D;
    let flags: u32 = 2;
    let root = File::open(path).unwrap();
    // SAFETY: the descriptor is open and the pointer is good for the call, which only reads it.
    let done = unsafe { libc::ioctl(root.as_raw_fd(), FS_IOC_SHUTDOWN as _, &raw const flags) };
    assert_eq!(done, 0, "{}", std::io::Error::last_os_error());
}

impl Drop for Mount {
    fn drop(&mut self) {
        let at = CString::new(self.at.to_str().unwrap()).unwrap();
        // SAFETY: the string ends with a zero; whatever still uses the mount lets go of it later.
        unsafe { libc::umount2(at.as_ptr(), libc::MNT_DETACH) };
    }
}

/// Which of the ways to write a shard a test takes, in turn.
fn config(turn: u64) -> Config {
    let turn = turn as usize;
    let compressor = if turn.is_multiple_of(2) { Compressor::None } else { Compressor::BloscNoise { block_bytes: 0 } };
    Config {
        dtype: Dtype::U8,
        dims: vec![Dim::time(None).chunk(1).shard(64), Dim::y(SIDE), Dim::x(SIDE)],
        codec: Codec::from(compressor),
        storage: STORAGES[turn % 3].1,
        placement: if (turn / 2).is_multiple_of(2) { Placement::Fixed } else { Placement::Packed },
        index_location: if (turn / 3).is_multiple_of(2) { IndexLocation::End } else { IndexLocation::Start },
        ring_bytes: 64 * FRAME_BYTES,
        workers: 2,
        checkpoint_every: Duration::from_millis(30),
        // Each way of guarding meets each codec and placement.
        guard_maps: (turn / 6).is_multiple_of(2),
        ..Config::default()
    }
}

/// Starts a process that writes frames until it fails, or is told to stop by the number that it may write.
fn writer(path: &Path, turn: u64, frames: u64) -> Child {
    child("mounts::child_writes")
        .env("SHARDWRIGHT_TEST_PATH", path)
        .env("SHARDWRIGHT_TEST_TURN", turn.to_string())
        .env("SHARDWRIGHT_TEST_FRAMES", frames.to_string())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .unwrap()
}

#[test]
#[ignore = "the other tests run it in a process of its own"]
fn child_writes() {
    let path = PathBuf::from(std::env::var_os("SHARDWRIGHT_TEST_PATH").expect("another test sets it"));
    let (turn, frames) = (number_from("SHARDWRIGHT_TEST_TURN", 0), number_from("SHARDWRIGHT_TEST_FRAMES", 0));
    let acquisition = match Acquisition::create(&path, config(turn)) {
        Ok(acquisition) => acquisition,
        Err(error) => return println!("\nrefused {error}"),
    };
    for number in 0..frames {
        let filled = acquisition.acquire().and_then(|mut slot| {
            slot[..FRAME_BYTES].copy_from_slice(&frame(number, FRAME_BYTES));
            slot.commit(number, Record::default())
        });
        if filled.is_err() {
            break;
        }
        if number.is_multiple_of(8) {
            println!("\ndurable {}", acquisition.stats().frames_durable);
        }
    }
    match acquisition.finish() {
        Ok(summary) => println!("\ndurable {}\nfinished {}", summary.frames_durable, summary.frames_written),
        Err(unfinished) => {
            println!("\ndurable {}", unfinished.summary.frames_durable);
            println!("failed {} {}", unfinished.summary.frames_written, unfinished.error);
        }
    }
}

/// The frames of a dataset that are there; every other one must be missing as a whole.
fn frames_there(path: &Path, context: &str) -> u64 {
    let array = Array::open(path.join("0")).unwrap_or_else(|error| panic!("{context}: {error}"));
    let pixels = array.read_all().unwrap_or_else(|error| panic!("{context}: {error}"));
    let mut there = 0;
    for (number, seen) in pixels.chunks_exact(FRAME_BYTES).enumerate() {
        if seen.iter().any(|&byte| byte != 0) {
            assert!(seen == frame(number as u64, FRAME_BYTES), "{context}: frame {number} has wrong pixels");
            there += 1;
        }
    }
    there
}

/// The number behind the last line that begins with `word`.
fn last(lines: &[String], word: &str) -> Option<u64> {
    let line = lines.iter().rev().find_map(|line| line.strip_prefix(word))?;
    line.split_whitespace().next()?.parse().ok()
}

/// Files that were begun, and locks; a reservation that failed half-way would hold the room that others need.
fn leftovers(path: &Path) -> Vec<PathBuf> {
    let hidden = |name: &std::ffi::OsStr| name.to_string_lossy().starts_with('.');
    crate::common::stopped::files(path).into_keys().filter(|path| path.file_name().is_some_and(hidden)).collect()
}

#[test]
#[ignore = "needs root and tools to make file systems"]
fn a_full_disk_gives_what_is_kept_for_documents_to_no_shard() {
    let mount = Mount::new("tmpfs", 64);
    let path = mount.at.join("run.zarr");
    let config = Config { storage: StorageKind::Mapped, ..config(0) };
    let acquisition = Acquisition::create(&path, config).unwrap();
    let shards = || crate::common::stopped::files(&path.join("0/c")).len();
    wait_until("shards were prepared", || shards() > 0);
    // Those that are prepared ahead come one after the other.
    std::thread::sleep(Duration::from_millis(500));
    let before = shards();
    let filler = File::create(mount.at.join("filler")).unwrap();
    let page = [1; 4096];
    for at in (0..).step_by(page.len()) {
        if std::os::unix::fs::FileExt::write_all_at(&filler, &page, at).is_err() {
            break;
        }
    }
    let mut number = 0;
    let commit = |number| {
        let mut slot = acquisition.acquire()?;
        slot.copy_from_slice(&frame(number, FRAME_BYTES));
        slot.commit(number, Record::default())
    };
    commit(0).unwrap();
    // The first checkpoint lets the documents grow, for which the room must be given up.
    wait_until("the ballast is gone", || !path.join(".shardwright.ballast.partial").exists());
    while commit(number + 1).is_ok() {
        number += 1;
        assert!(shards() <= before, "a shard took the room of the documents");
        assert!(number < 60_000, "the disk is full");
    }
    let unfinished = acquisition.finish().unwrap_err();
    assert!(unfinished.error.to_string().contains("No space left"), "{}", unfinished.error);
    assert_eq!(frames_there(&path, "tmpfs"), unfinished.summary.frames_written);
    assert!(unfinished.summary.frames_written >= 64, "the shards that were prepared can be filled");
}

#[test]
#[ignore = "needs root and tools to make file systems"]
fn a_full_disk_is_full_for_all_images_of_a_dataset() {
    let mount = Mount::new("tmpfs", 64);
    let path = mount.at.join("run.zarr");
    let dataset = Dataset::create(&path).unwrap();
    let mapped = Config { storage: StorageKind::Mapped, ..config(0) };
    let large = dataset.acquisition("large", Config { ring_bytes: 256 * FRAME_BYTES, ..mapped.clone() }).unwrap();
    let dims = vec![Dim::time(None).chunk(1).shard(2), Dim::y(16), Dim::x(16)];
    let small = dataset.acquisition("small", Config { dims, ..mapped }).unwrap();
    let filler = File::create(mount.at.join("filler")).unwrap();
    // Room for some more shards of the large image.
    let free = || {
        let state = rustix::fs::statvfs(&mount.at).unwrap();
        state.f_bavail * state.f_frsize
    };
    // Shards that are prepared ahead come one after the other.
    std::thread::sleep(Duration::from_millis(500));
    let filled = free() - (6 << 20);
    rustix::fs::fallocate(&filler, rustix::fs::FallocateFlags::empty(), 0, filled).unwrap();
    let mut number = 0;
    while large.append(&frame(number, FRAME_BYTES)).is_ok() {
        number += 1;
        assert!(number < 60_000, "the disk is full");
    }
    // Thousands of the small image's shards would fit, but what room there is now is for documents.
    filler.set_len(filled - (8 << 20)).unwrap();
    let shards = || crate::common::stopped::files(&path.join("small/0/c")).len();
    let before = shards();
    let refused = (0..100_000).find_map(|number| small.append(&frame(number, 256)).err());
    assert!(refused.expect("the disk is full").to_string().contains("No space left"));
    assert_eq!(shards(), before, "a shard was begun on a full disk");
    let unfinished = small.finish().unwrap_err();
    assert!(unfinished.summary.frames_written > 0, "the shards that were prepared can be filled");
    assert!(large.finish().unwrap_err().error.to_string().contains("No space left"));
}

/// Their documents and records take more than is kept for those of one image.
#[test]
#[ignore = "needs root and tools to make file systems"]
fn a_full_disk_leaves_all_images_of_an_archive_readable() {
    for (turn, checkpoint_ms) in [(0, 30), (1, 30), (2, 30), (0, 60_000), (2, 60_000)] {
        let context = format!("turn {turn}, checkpoints every {checkpoint_ms} ms");
        let mount = Mount::new("tmpfs", 24);
        let path = mount.at.join("run.ozx");
        let dataset = Dataset::create(&path).unwrap();
        let config = Config {
            dims: vec![Dim::time(None).chunk(1).shard(8), Dim::y(4 * SIDE), Dim::x(4 * SIDE)],
            ring_bytes: 64 * 16 * FRAME_BYTES,
            pyramid: Some(Downsampling { levels: Some(2), ..Downsampling::default() }),
            checkpoint_every: Duration::from_millis(checkpoint_ms),
            codec: Codec::from(Compressor::None),
            ..config(turn)
        };
        let names = ["p1", "p2", "p3"];
        let images = names.map(|name| dataset.acquisition(name, config.clone()).unwrap());
        for number in 0.. {
            let pixels = frame(number, 16 * FRAME_BYTES);
            // All of them get it, also those behind one that has ended.
            if images.iter().filter(|image| image.append(&pixels).is_err()).count() == names.len() {
                break;
            }
            assert!(number < 1000, "{context}: the disk is full");
            std::thread::sleep(Duration::from_millis(2));
        }
        let ends = Acquisition::finish_all(images.into());
        drop(dataset);
        for (name, end) in names.iter().zip(ends) {
            let unfinished = end.expect_err("the disk is full");
            assert!(unfinished.error.to_string().contains("No space left"), "{context}: {}", unfinished.error);
            let array = Array::open(path.join(name).join("0")).unwrap();
            let pixels = array.read_all().unwrap();
            let there = pixels.chunks_exact(16 * FRAME_BYTES).filter(|seen| seen.iter().any(|&byte| byte != 0)).count();
            let summary = &unfinished.summary;
            assert_eq!(there as u64, summary.frames_written, "{context}, {name}: {:?}", summary.notes);
            assert!(there >= 8, "{context}, {name}: {there} frames");
        }
        crate::common::stopped::sound(&path);
    }
}

#[test]
#[ignore = "needs root and tools to make file systems"]
fn a_full_file_system_that_copies_on_write_is_never_mapped() {
    let mount = Mount::new("btrfs", 320);
    let config = Config { storage: StorageKind::Mapped, ..config(0) };
    let acquisition = Acquisition::create(mount.at.join("run.zarr"), config).unwrap();
    let maps = std::fs::read_to_string("/proc/self/maps").unwrap();
    assert!(!maps.contains("run.zarr"), "a shard is mapped: {maps}");
    acquisition.acquire().unwrap().commit(0, Record::default()).unwrap();
    let summary = acquisition.finish().unwrap();
    assert!(summary.storage.starts_with("buffered (a map may kill"), "{}", summary.storage);
}

#[test]
#[ignore = "needs root and tools to make file systems"]
fn a_full_disk_ends_a_run_and_nothing_else() {
    let points = number_from("SHARDWRIGHT_FILL_POINTS", 20);
    // XFS makes none smaller than 300 MiB.
    for (kind, mib) in [("ext4", 320), ("xfs", 320), ("btrfs", 320), ("tmpfs", 64)] {
        let (mut refused, mut failed) = (0, 0);
        for point in 0..points {
            let mount = Mount::new(kind, mib);
            // What is left is between 2 and 60 MiB; the run does not fit.
            let free = || {
                let state = rustix::fs::statvfs(&mount.at).unwrap();
                state.f_bavail * state.f_frsize
            };
            // Btrfs keeps more for itself than it says.
            let least = if kind == "btrfs" { 40 << 20 } else { 2 << 20 };
            let leave = least + point * (20 << 20) / points.max(1);
            let filler = File::create(mount.at.join("filler")).unwrap();
            let mut written = 0;
            while free() > leave {
                let bytes = (free() - leave).min(1 << 20);
                if std::os::unix::fs::FileExt::write_all_at(&filler, &vec![1; bytes as usize], written).is_err() {
                    break;
                }
                written += bytes;
                if written.is_multiple_of(16 << 20) || free() < leave + (8 << 20) {
                    filler.sync_all().unwrap();
                }
            }
            let path = mount.at.join("run.zarr");
            let child = writer(&path, point, 60_000);
            let output = child.wait_with_output().unwrap();
            let context = format!("{kind}, {leave} bytes free, turn {point}");
            assert_eq!(output.status.signal(), None, "{context}: the writer was killed");
            let text = String::from_utf8_lossy(&output.stdout).into_owned();
            let lines: Vec<String> = text.lines().map(str::to_owned).collect();
            if let Some(line) = lines.iter().find(|line| line.starts_with("refused")) {
                assert!(line.to_lowercase().contains("no space left"), "{context}: {line}");
                assert!(!path.exists(), "{context}: a refused run leaves nothing behind");
                refused += 1;
                continue;
            }
            let line = lines.iter().find(|line| line.starts_with("failed"));
            let line = line.unwrap_or_else(|| panic!("{context}: it can't have fitted: {text}"));
            assert!(line.to_lowercase().contains("no space left"), "{context}: {line}");
            let (there, told) = (frames_there(&path, &context), last(&lines, "failed").expect("a number"));
            // A shard whose index could not be rewritten counts for nothing, though most likely the one before is still
            // there.
            assert!((told..told + 64).contains(&there), "{context}: {there} frames are there: {line}");
            assert_eq!(leftovers(&path), Vec::<PathBuf>::new(), "{context}");
            failed += 1;
        }
        println!("{kind}: {failed} runs ended by a full disk, {refused} refused, none killed");
        assert!(failed > points / 2, "too many runs were refused to say anything about full disks");
    }
}

#[test]
#[ignore = "needs root and tools to make file systems"]
fn a_loss_of_power_takes_nothing_that_was_durable() {
    let cuts = number_from("SHARDWRIGHT_POWER_CUTS", 100);
    for kind in ["ext4", "xfs"] {
        let mount = Mount::new(kind, 320);
        let (mut called_durable, mut found) = (0, 0);
        let (mut guarded, mut unguarded, mut killed_by_maps) = (0, 0, 0);
        for cut in 0..cuts.div_ceil(2) {
            let path = mount.at.join(format!("run-{cut}.zarr"));
            let mut child = writer(&path, cut, u64::MAX);
            let mut lines = BufReader::new(child.stdout.take().unwrap()).lines().map_while(Result::ok);
            // At a moment that differs from run to run.
            let wanted = 1 + cut * 37 % 400;
            let mut durable = 0;
            for line in lines.by_ref() {
                durable = line.strip_prefix("durable ").map_or(durable, |count| count.parse().unwrap());
                if durable >= wanted {
                    break;
                }
            }
            cut_power(&mount.at);
            // What it says after the cut does not count, but it must come to an end and not be killed.
            lines.for_each(drop);
            // A map whose device is gone kills whoever touches it, as the loss of power itself would have, unless it is
            // guarded.
            let killed = child.wait().unwrap().signal();
            let Config { storage, guard_maps, .. } = config(cut);
            let may_be = storage == StorageKind::Mapped && !guard_maps;
            assert!(killed.is_none() || may_be && killed == Some(libc::SIGBUS), "{kind}, cut {cut}: {killed:?}");
            if storage == StorageKind::Mapped {
                *if guard_maps { &mut guarded } else { &mut unguarded } += 1;
                killed_by_maps += u64::from(killed.is_some());
            }
            mount.mount_again();
            let there = frames_there(&path, &format!("{kind}, cut {cut}"));
            assert!(there >= durable, "{kind}, cut {cut}: {there} of {durable} durable frames are there");
            (called_durable, found) = (called_durable + durable, found + there);
            std::fs::remove_dir_all(&path).unwrap();
        }
        println!("{kind}: {} cuts, {called_durable} frames called durable, {found} found", cuts.div_ceil(2));
        println!(
            "{kind}: of runs with maps, {guarded} guarded ones lived on, {killed_by_maps} of {unguarded} others were \
             killed"
        );
    }
}

#[test]
#[ignore = "needs root and tools to make file systems"]
fn a_loss_of_the_device_under_a_guarded_map_is_an_error() {
    let output = |kind, word: &str| {
        let mount = Mount::new(kind, 320);
        output_of_child("mounts::child_loses_its_device", &mount.at.join("run.zarr"), word)
    };
    for kind in ["ext4", "xfs"] {
        let guarded = output(kind, "guarded");
        let text = told(&guarded);
        assert!(guarded.status.success(), "{kind}, {}: {text}", guarded.status);
        println!("{kind}: {}", text.lines().find(|line| line.starts_with("ended with ")).expect("an error"));
    }
    // So it was the guard. An ext4 that is shut down lets pages be written on, until someone wants them on the device.
    let killed = output("xfs", "not guarded");
    assert_eq!(killed.status.signal(), Some(libc::SIGBUS), "{}: {}", killed.status, told(&killed));
}

#[test]
#[ignore = "another test runs it in a process of its own"]
fn child_loses_its_device() {
    let path = child_path();
    // Nothing looks at the device but those who touch the map, until the shard is full.
    let base = Config { storage: StorageKind::Mapped, checkpoint_every: Duration::ZERO, ..config(0) };
    let config = Config { guard_maps: child_word() == "guarded", ..base };
    let acquisition = Acquisition::create(&path, config).unwrap();
    let append = |number| acquisition.append(&frame(number, FRAME_BYTES));
    (0..8).for_each(|number| assert_eq!(append(number).unwrap().frames, 1));
    wait_until("the first frames are in their slots", || acquisition.stats().frames_written == 8);
    // Who prepares the next shards must be done with it, not the first to notice.
    let shards = || crate::common::stopped::files(&path.join("0/c")).len();
    let mut before = 0;
    while std::mem::replace(&mut before, shards()) < shards() {
        std::thread::sleep(Duration::from_secs(1));
    }
    cut_power(path.parent().unwrap());
    let refused = (8..10_000).find_map(|number| append(number).err()).expect("the run goes on");
    let unfinished = acquisition.finish().unwrap_err();
    assert_eq!(unfinished.error.to_string(), refused.to_string());
    assert_eq!(unfinished.summary.frames_durable, 0);
    println!("\nended with {refused}");
}
