//! Other programs cut off, remove or replace the files of a run: it says so, and what they left alone stays.
#![allow(unsafe_code)]

use std::ffi::{c_int, c_void};
use std::fs::{self, File};
use std::os::fd::AsRawFd;
use std::os::unix::process::ExitStatusExt;
use std::path::Path;
use std::time::Duration;

use crate::common::child::{child_path, child_word, output_of_child, told};
use crate::common::storage::wait_until;
use crate::common::{frame, tiny};
use shardwright::offline::Array;
use shardwright::{Acquisition, Config, Dim, Placement, StorageKind};

/// Frames of 16 KiB, of which a memory map holds several pages each.
const SIDE: u64 = 128;
const FRAME_BYTES: usize = (SIDE * SIDE) as usize;

/// Lets `meddle` loose on the second shard while frames come, and returns the error with which the run ends.
fn run(base: Config, meddle: impl Fn(&Path)) -> String {
    let folder = tempfile::tempdir().unwrap();
    run_in(&folder.path().join("run.zarr"), base, meddle)
}

fn run_in(path: &Path, base: Config, meddle: impl Fn(&Path)) -> String {
    let often = Duration::from_millis(10);
    let dims = vec![Dim::time(None).chunk(1).shard(4), Dim::y(SIDE), Dim::x(SIDE)];
    let few = tiny(None, 32);
    let config = Config { dims, sync: true, checkpoint_every: often, ring_bytes: 32 * FRAME_BYTES, ..few };
    let config = Config { storage: base.storage, guard_maps: base.guard_maps, placement: base.placement, ..config };
    let acquisition = Acquisition::create(path, config).unwrap();
    let append = |number| acquisition.append(&frame(number, FRAME_BYTES));
    (0..6).for_each(|number| assert_eq!(append(number).unwrap().frames, 1));
    wait_until("six frames are durable", || acquisition.stats().frames_durable == 6);
    meddle(&path.join("0/c/1/0/0"));
    // The run may take frames until the next checkpoint looks; then it ends.
    let refused = (6..1000).find_map(|number| {
        std::thread::sleep(Duration::from_millis(1));
        append(number).err()
    });
    let unfinished = acquisition.finish().expect_err("a part of a shard is lost");
    assert_eq!(refused.expect("the run goes on").to_string(), unfinished.error.to_string());
    let missing = &unfinished.summary.missing;
    let is_missing = |number| missing.iter().any(|range| range.contains(&number));
    assert!((4..7).all(is_missing), "the lost frames are named: {missing:?}");
    // The shard before is untouched, and in those after it is what is called durable.
    let array = Array::open(path).unwrap();
    let is_there = |number: u64| {
        let mut pixels = vec![0; FRAME_BYTES];
        array.read_region(&[number, 0, 0], &[1, SIDE, SIDE], &mut pixels).unwrap();
        assert!(pixels == frame(number, FRAME_BYTES) || pixels == [0; FRAME_BYTES], "frame {number} has wrong pixels");
        pixels != [0; FRAME_BYTES]
    };
    assert!((0..4).all(is_there));
    let after = (8..array.shape()[0]).filter(|&number| is_there(number)).count() as u64;
    assert!(unfinished.summary.frames_durable <= 6 + after, "a frame that was lost is called durable");
    unfinished.error.to_string()
}

fn stored(storage: StorageKind) -> Config {
    Config { storage, ..Config::default() }
}

fn cut_off(shard: &Path, len: u64) {
    File::options().write(true).open(shard).unwrap().set_len(len).unwrap();
}

#[test]
fn a_shard_that_is_cut_off_is_noticed() {
    // Under a memory map that is not guarded the process gets SIGBUS: see below.
    for storage in [StorageKind::Buffered, StorageKind::Direct] {
        let error = run(stored(storage), |shard| cut_off(shard, 100));
        assert!(error.contains("/run.zarr/0/c/1/0/0") && error.contains("cut the file off"), "{error}");
    }
}

#[test]
fn a_shard_that_is_taken_away_is_noticed() {
    for storage in [StorageKind::Mapped, StorageKind::Buffered, StorageKind::Direct] {
        let error = run(stored(storage), |shard| fs::remove_file(shard).unwrap());
        assert!(error.contains("/run.zarr/0/c/1/0/0") && error.contains("removed, moved or replaced"), "{error}");
        let error = run(stored(storage), |shard| {
            fs::write(shard.with_extension("other"), fs::read(shard).unwrap()).unwrap();
            fs::rename(shard.with_extension("other"), shard).unwrap();
        });
        assert!(error.contains("removed, moved or replaced"), "{error}");
    }
}

#[test]
fn a_guarded_map_that_is_cut_off_ends_the_run_and_not_the_process() {
    for (word, len) in [("fixed 0", 0), ("fixed 40000", 40_000), ("packed 0", 0), ("packed 40000", 40_000)] {
        let folder = tempfile::tempdir().unwrap();
        let output = output_of_child("meddling::child_cuts_off_a_map", &folder.path().join("run.zarr"), word);
        let text = told(&output);
        assert!(output.status.success(), "{word}, {}: {text}", output.status);
        let error = text.lines().find_map(|line| line.strip_prefix("ended with ")).unwrap_or_else(|| panic!("{text}"));
        assert!(
            error.contains("/run.zarr/0/c/1/0/0") && error.contains(&format!("cut the file off at {len} of")),
            "{error}"
        );
    }
}

#[test]
fn a_map_that_is_not_guarded_kills() {
    let folder = tempfile::tempdir().unwrap();
    let output = output_of_child("meddling::child_cuts_off_a_map", &folder.path().join("run.zarr"), "unguarded 0");
    assert_eq!(output.status.signal(), Some(libc::SIGBUS), "{}: {}", output.status, told(&output));
}

#[test]
#[ignore = "the other tests run it in a process of its own"]
fn child_cuts_off_a_map() {
    let word = child_word();
    let (what, len) = word.split_once(' ').unwrap();
    let placement = if what == "packed" { Placement::Packed } else { Placement::Fixed };
    let base = Config { placement, guard_maps: what != "unguarded", ..stored(StorageKind::Mapped) };
    let error = run_in(&child_path(), base, |shard| cut_off(shard, len.parse().unwrap()));
    println!("\nended with {error}");
}

#[test]
fn a_fault_that_is_not_of_our_maps_goes_to_the_handler_before() {
    let output = |word: &str| {
        let folder = tempfile::tempdir().unwrap();
        output_of_child("meddling::child_has_a_fault_of_its_own", &folder.path().join("run.zarr"), word)
    };
    for (word, code) in [("informed", 42), ("told", 43), ("nothing", 0), ("sent", 42), ("sent and ignored", 0)] {
        let output = output(word);
        assert_eq!(output.status.code(), Some(code), "{word}, {}: {}", output.status, told(&output));
    }
    for word in ["default", "ignored", "sent by default"] {
        let output = output(word);
        assert_eq!(output.status.signal(), Some(libc::SIGBUS), "{word}, {}: {}", output.status, told(&output));
    }
}

extern "C" fn informed(signal: c_int, info: *mut libc::siginfo_t, _context: *mut c_void) {
    // SAFETY: the kernel passes it; and the call ends the process without ado, as is allowed in a handler.
    unsafe { libc::_exit(if signal == libc::SIGBUS && (*info).si_signo == libc::SIGBUS { 42 } else { 1 }) }
}

extern "C" fn just_told(signal: c_int) {
    // SAFETY: as above.
    unsafe { libc::_exit(if signal == libc::SIGBUS { 43 } else { 1 }) }
}

#[test]
#[ignore = "another test runs it in a process of its own"]
fn child_has_a_fault_of_its_own() {
    let word = child_word();
    // SAFETY: all zeros are a sigaction.
    let mut action: libc::sigaction = unsafe { std::mem::zeroed() };
    (action.sa_sigaction, action.sa_flags) = match &word[..] {
        "informed" | "sent" => (informed as *const () as usize, libc::SA_SIGINFO),
        "told" => (just_told as *const () as usize, 0),
        "ignored" | "sent and ignored" => (libc::SIG_IGN, 0),
        _ => (libc::SIG_DFL, 0),
    };
    // SAFETY: the pointers are good for the call, and the handlers above are async-signal-safe.
    assert_eq!(unsafe { libc::sigaction(libc::SIGBUS, &raw const action, std::ptr::null_mut()) }, 0);
    let path = child_path();
    // Our own handler has had to do before, and knows what is its.
    let guarded = Config { guard_maps: true, ..stored(StorageKind::Mapped) };
    run_in(&path, guarded, |shard| cut_off(shard, 0));
    // A map that a run had once is as foreign as any.
    let others = path.with_file_name("others");
    fs::write(&others, [1; 4096]).unwrap();
    let file = File::options().read(true).write(true).open(&others).unwrap();
    let ours = Acquisition::create(path.with_file_name("second"), guarded_tiny()).unwrap();
    let _ = ours.append(&frame(0, 256)).unwrap();
    // SAFETY: a fresh map of a file that is open.
    let map = unsafe { libc::mmap(std::ptr::null_mut(), 4096, libc::PROT_READ, libc::MAP_SHARED, file.as_raw_fd(), 0) };
    assert_ne!(map, libc::MAP_FAILED);
    cut_off(&others, 0);
    match &word[..] {
        "nothing" => {}
        // SAFETY: plain calls; what they lead to is what is tested.
        word if word.starts_with("sent") => assert_eq!(unsafe { libc::raise(libc::SIGBUS) }, 0),
        // SAFETY: the address is mapped; that its page is gone is what is tested.
        _ => println!("{}", unsafe { map.cast::<u8>().read_volatile() }),
    }
    assert_eq!(ours.finish().unwrap().frames_written, 1);
}

fn guarded_tiny() -> Config {
    Config { storage: StorageKind::Mapped, guard_maps: true, ..tiny(None, 8) }
}
