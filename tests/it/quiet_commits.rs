//! While the ring has room, a camera's thread makes no system call: it wakes nobody, and waits for nothing.
//!
//! The kernel itself is the judge: a seccomp filter kills the thread at its first call but `exit`.

#![cfg(all(target_os = "linux", not(miri)))]
#![allow(unsafe_code)]

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicI64, AtomicU64, Ordering::SeqCst};
use std::thread;
use std::time::{Duration, Instant};

use crate::common::storage::wait_until;
use crate::common::tiny;
use shardwright::{Acquisition, Config, Dim, Events, Record};

/// From now on any system call but `exit` ends this thread, and this thread alone.
fn refuse_all_calls() -> bool {
    let step = |code: u32, otherwise: u8, k: u32| libc::sock_filter { code: code as u16, jt: 0, jf: otherwise, k };
    let mut steps = [
        // The call's number stands first in what a filter sees.
        step(libc::BPF_LD | libc::BPF_W | libc::BPF_ABS, 0, 0),
        step(libc::BPF_JMP | libc::BPF_JEQ | libc::BPF_K, 1, libc::SYS_exit as u32),
        step(libc::BPF_RET | libc::BPF_K, 0, libc::SECCOMP_RET_ALLOW),
        step(libc::BPF_RET | libc::BPF_K, 0, libc::SECCOMP_RET_KILL_THREAD),
    ];
    let filter = libc::sock_fprog { len: steps.len() as u16, filter: steps.as_mut_ptr() };
    // SAFETY: neither changes more than what this thread may do; the filter is good for the call.
    unsafe {
        libc::prctl(libc::PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0
            && libc::prctl(libc::PR_SET_SECCOMP, libc::SECCOMP_MODE_FILTER, &raw const filter) == 0
    }
}

/// Whether `work` ends, in a thread of its own, without a system call.
fn needs_no_system_call(work: impl FnOnce() + Send + 'static) -> bool {
    let (thread, ended) = (Arc::new(AtomicI64::new(0)), Arc::new(AtomicBool::new(false)));
    let (in_thread, at_end) = (thread.clone(), ended.clone());
    thread::spawn(move || {
        // SAFETY: takes nothing.
        in_thread.store(unsafe { libc::syscall(libc::SYS_gettid) }, SeqCst);
        let refuses = refuse_all_calls();
        if refuses {
            work();
            at_end.store(true, SeqCst);
        }
        // An ordinary end frees the stack, which is a call.
        // SAFETY: ends this thread alone. What it holds is in `Arc`s, and leaks.
        unsafe { libc::syscall(libc::SYS_exit, i32::from(!refuses)) };
    });
    wait_until("the thread has ended", || {
        let thread = thread.load(SeqCst);
        thread != 0 && !Path::new(&format!("/proc/self/task/{thread}")).exists()
    });
    ended.load(SeqCst)
}

/// Sleeping would be a call.
fn spin_until(mut done: impl FnMut() -> bool) {
    while !done() {
        std::hint::spin_loop();
    }
}

fn spin_for(time: Duration) {
    let start = Instant::now();
    spin_until(|| start.elapsed() > time);
}

const FRAMES: u64 = 48;

/// Brings frames slowly, while others sleep in between, and counts them in `brought`. Returns whether no call was made.
/// `watched`: somebody waits for everything that can happen in the run, and hears of it.
fn brings_frames_without_a_call(depth: u64, watched: bool, brought: &Arc<AtomicU64>) -> bool {
    let folder = tempfile::tempdir().unwrap();
    let dims = vec![Dim::time(None).chunk(depth).shard(8), Dim::y(64).chunk(32), Dim::x(64).chunk(32)];
    let config = Config { dims, ring_bytes: 64 * 64 * 64 * 2, workers: 2, ..tiny(None, 64) };
    let acquisition = Arc::new(Acquisition::create(folder.path().join("run.zarr"), config).unwrap());
    let events = watched.then(|| acquisition.watch(Events::ALL, 0).unwrap());
    events.iter().for_each(|events| assert_eq!(events.take(), Events::BUFFER_FREE));
    let (camera, count) = (acquisition.clone(), brought.clone());
    let quiet = needs_no_system_call(move || {
        let frames = camera.stats().ring_frames;
        for number in 0..FRAMES {
            // On a machine that is busy with other things the workers may come late.
            spin_until(|| camera.stats().ring_free + 2 * depth as usize > frames);
            // Time enough to fall asleep.
            spin_for(Duration::from_millis(3));
            let mut frame = camera.acquire().unwrap();
            frame.fill(number as u8 + 1);
            frame.commit(number, Record::default()).unwrap();
            count.store(number + 1, SeqCst);
        }
        std::mem::forget(camera);
    });
    if quiet {
        wait_until("all frames are written", || acquisition.stats().frames_written == FRAMES);
        if let Some(events) = events {
            wait_until("a shard is closed", || events.take().contains(Events::SHARD_CLOSED));
        }
    }
    quiet
}

#[test]
fn a_commit_makes_no_system_call_while_the_ring_has_room() {
    assert!(
        needs_no_system_call(|| spin_for(Duration::from_millis(1))),
        "no seccomp here, or a clock that is a system call"
    );
    // The test would notice.
    assert!(!needs_no_system_call(thread::yield_now));
    for (depth, watched) in [(1, false), (4, false), (1, true), (4, true)] {
        let brought = Arc::new(AtomicU64::new(0));
        // A queue yields when another thread was put to sleep in the middle of an operation on it, as on a busy
        // machine.
        let quiet = (0..5).any(|_| brings_frames_without_a_call(depth, watched, &brought));
        assert!(quiet, "after {} frames, in chunks {depth} deep, watched: {watched}", brought.load(SeqCst));
    }
}
