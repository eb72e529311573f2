//! What a process brings along that a library did not ask for: signals at any moment, children, forks.
#![cfg(target_os = "linux")]
#![allow(unsafe_code)]

use std::path::Path;
use std::process::Command;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::time::Duration;

use crate::common::child::{child_path, in_child, output_of_child, told};
use crate::common::frame;
use shardwright::offline::Array;
use shardwright::{Acquisition, Codec, Compressor, Config, Dim, Dtype, Record, StorageKind};

const SIDE: u64 = 256;
const FRAME_BYTES: usize = (SIDE * SIDE) as usize;
const FRAMES: u64 = 192;
const STORAGES: [StorageKind; 3] = [StorageKind::Mapped, StorageKind::Buffered, StorageKind::Direct];

fn config(storage: StorageKind) -> Config {
    Config {
        dtype: Dtype::U8,
        dims: vec![Dim::time(None).chunk(1).shard(256), Dim::y(SIDE), Dim::x(SIDE)],
        codec: Codec::from(Compressor::None),
        storage,
        ring_bytes: 32 << 20,
        workers: 2,
        checkpoint_every: Duration::from_millis(20),
        ..Config::default()
    }
}

fn commit(acquisition: &Acquisition, number: u64) {
    let mut slot = acquisition.acquire().unwrap();
    slot.copy_from_slice(&frame(number, FRAME_BYTES));
    slot.commit(number, Record::default()).unwrap();
}

#[test]
fn signals_at_any_moment_disturb_no_run() {
    // On a disk and in memory, where reserving a shard is what a signal interrupts.
    let disk = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    in_child("signals::child_gets_signals", disk.path());
    let memory = tempfile::tempdir_in("/dev/shm").unwrap();
    in_child("signals::child_gets_signals", memory.path());
}

static SIGNALS: AtomicU64 = AtomicU64::new(0);

extern "C" fn count_signal(_: libc::c_int) {
    SIGNALS.fetch_add(1, Relaxed);
}

/// Has a handler called that lets system calls be interrupted.
fn listen_to_alarms() {
    // SAFETY: all zeros is a valid sigaction without flags, and so without SA_RESTART; the handler only adds to an
    // atomic.
    let done = unsafe {
        let mut action: libc::sigaction = std::mem::zeroed();
        action.sa_sigaction = count_signal as extern "C" fn(libc::c_int) as usize;
        libc::sigaction(libc::SIGALRM, &raw const action, std::ptr::null_mut())
    };
    assert_eq!(done, 0);
}

/// Sends an alarm to each thread of the process but the calling one, again and again.
fn storm(over: &AtomicBool) {
    // SAFETY: neither call touches memory.
    let (process, own) = unsafe { (libc::getpid(), libc::gettid()) };
    while !over.load(Relaxed) {
        for task in std::fs::read_dir("/proc/self/task").unwrap().flatten() {
            let thread: libc::pid_t = task.file_name().to_string_lossy().parse().unwrap();
            if thread != own {
                // SAFETY: a thread that has ended meanwhile is an error that nobody minds.
                unsafe { libc::syscall(libc::SYS_tgkill, process, thread, libc::SIGALRM) };
            }
        }
        std::thread::sleep(Duration::from_micros(100));
    }
}

#[test]
#[ignore = "run by another test, in a process of its own"]
fn child_gets_signals() {
    listen_to_alarms();
    let over = AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| storm(&over));
        for storage in STORAGES {
            let path = child_path().join(format!("{storage:?}.zarr"));
            let outcome = std::panic::catch_unwind(|| write_and_read(&path, storage));
            // The storm must end, or this test never does.
            over.store(outcome.is_err(), Relaxed);
            outcome.unwrap();
        }
        over.store(true, Relaxed);
    });
    assert!(SIGNALS.load(Relaxed) > 500, "that was no storm");
}

fn write_and_read(path: &Path, storage: StorageKind) {
    let acquisition = Acquisition::create(path, config(storage)).unwrap();
    (0..FRAMES).for_each(|number| commit(&acquisition, number));
    let summary = acquisition.finish().unwrap();
    assert_eq!((summary.frames_written, summary.frames_durable), (FRAMES, FRAMES), "{storage:?}");
    let pixels = Array::open(path.join("0")).unwrap().read_all().unwrap();
    for (number, seen) in (0..).zip(pixels.chunks_exact(FRAME_BYTES)) {
        assert!(seen == frame(number, FRAME_BYTES), "{storage:?}, frame {number}");
    }
}

#[test]
fn a_child_inherits_no_file_of_a_run() {
    for storage in STORAGES {
        let folder = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
        let path = folder.path().join("inherited.zarr");
        let acquisition = Acquisition::create(&path, config(storage)).unwrap();
        (0..10).for_each(|number| commit(&acquisition, number));
        let own =
            std::fs::read_dir("/proc/self/fd").unwrap().flatten().filter_map(|fd| std::fs::read_link(fd.path()).ok());
        assert!(own.into_iter().any(|file| file.to_string_lossy().contains("inherited.zarr")), "nothing is open");
        let output = Command::new("ls").args(["-l", "/proc/self/fd"]).output().unwrap();
        let listed = String::from_utf8_lossy(&output.stdout);
        assert!(output.status.success() && listed.contains("->"), "{listed}");
        assert!(!listed.contains("inherited.zarr"), "{storage:?}: {listed}");
        acquisition.finish().unwrap();
    }
}

#[test]
fn a_fork_does_not_copy_the_ring() {
    let folder = tempfile::tempdir().unwrap();
    let acquisition = Acquisition::create(folder.path().join("run.zarr"), config(StorageKind::Buffered)).unwrap();
    let mut slot = acquisition.acquire().unwrap();
    let address = slot.as_mut_ptr() as usize;
    let flags = flags_of_the_map_at(address).expect("the buffer lies in a map");
    assert!(flags.split_whitespace().any(|flag| flag == "dc"), "a fork copies it: {flags}");
    drop(slot);
    drop(acquisition);
}

/// What /proc says of the map in which an address lies; "dc": not copied on a fork.
fn flags_of_the_map_at(address: usize) -> Option<String> {
    let maps = std::fs::read_to_string("/proc/self/smaps").unwrap();
    let mut inside = false;
    for line in maps.lines() {
        let range = line.split_once(' ').and_then(|(range, _)| range.split_once('-'));
        let parsed = range.and_then(|(start, end)| {
            Some(usize::from_str_radix(start, 16).ok()?..usize::from_str_radix(end, 16).ok()?)
        });
        match (parsed, line.strip_prefix("VmFlags:")) {
            (Some(range), _) => inside = range.contains(&address),
            (None, Some(flags)) if inside => return Some(flags.to_owned()),
            _ => {}
        }
    }
    None
}

/// A child has all descriptors of its parent, and a lock belongs to all who have its descriptor.
#[test]
fn a_lock_ends_with_its_process_though_a_child_lives_on() {
    let folder = tempfile::tempdir().unwrap();
    let told = told(&output_of_child("signals::child_forks_and_dies", folder.path(), ""));
    let child = told.split("forked ").nth(1).and_then(|rest| rest.lines().next()).expect("its number").parse().unwrap();
    let path = folder.path().join("run.zarr");
    let created = Acquisition::create(&path, Config { overwrite: true, ..config(StorageKind::Buffered) });
    // SAFETY: signals to a process that the test began, for which nobody else waits; signal 0 only looks.
    let lives = unsafe { libc::kill(child, 0) } == 0;
    // SAFETY: as above.
    unsafe { libc::kill(child, libc::SIGKILL) };
    assert!(lives, "the child is gone: this is no test");
    created.unwrap().abort();
}

#[test]
#[ignore = "run by another test, in a process of its own"]
fn child_forks_and_dies() {
    let acquisition = Acquisition::create(child_path().join("run.zarr"), config(StorageKind::Buffered)).unwrap();
    commit(&acquisition, 0);
    // SAFETY: the child makes system calls alone.
    match unsafe { libc::fork() } {
        // SAFETY: all of them may be called after a fork.
        0 => unsafe {
            // Whoever reads what this program prints shall not wait for it.
            libc::close(1);
            libc::close(2);
            libc::sleep(60);
            libc::_exit(0);
        },
        child => println!("forked {child}"),
    }
    // SAFETY: the end of this process.
    unsafe { libc::kill(libc::getpid(), libc::SIGKILL) };
}
