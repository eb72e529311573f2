//! Memory that the caller shares with others: buffers that stay in sight after a commit, and pixels behind a pointer.

use std::sync::Arc;

use crate::common::storage::wait_until;
use crate::common::tiny;
use shardwright::{Acquisition, Config, Error, FrameLayout, Memory, Record};

const FRAME: usize = 256;

fn run(config: Config) -> (Arc<Memory>, Acquisition) {
    let memory = Arc::new(Memory::new());
    let acquisition = Acquisition::create_in(memory.clone(), config).unwrap();
    (memory, acquisition)
}

/// Waits until the workers are done with this many frames.
fn written(acquisition: &Acquisition, frames: u64) {
    while acquisition.stats().frames_written < frames {
        std::thread::yield_now();
    }
}

/// Waits until this many buffers are free: those of frames are so a moment after these are written.
fn free(acquisition: &Acquisition, buffers: usize) {
    wait_until("buffers are free", || acquisition.stats().ring_free == buffers);
}

#[test]
fn a_buffer_that_is_still_seen_is_lent_to_nobody() {
    let (_memory, acquisition) = run(tiny(None, 8));
    let frames = acquisition.stats().ring_frames as u64;
    let mut frame = acquisition.acquire().unwrap();
    frame.fill(7);
    let place = frame.as_ptr();
    let view = frame.commit_viewed(None, Record::default()).unwrap();
    assert_eq!((view.number(), view.as_ptr()), (0, place));
    for number in 1..4 * frames {
        let frame = acquisition.acquire().unwrap();
        assert_ne!(frame.as_ptr(), place, "frame {number} would be written where frame 0 is seen");
        frame.commit(number, Record::default()).unwrap();
    }
    written(&acquisition, 4 * frames);
    free(&acquisition, frames as usize - 1);
    assert!(view.iter().all(|&byte| byte == 7));
    drop(view);
    assert_eq!(acquisition.stats().ring_free as u64, frames);
    assert!(acquisition.buffer_addresses().contains(&place.cast_mut()));
    acquisition.finish().unwrap();
}

#[test]
fn a_frame_that_is_refused_stays_on_loan() {
    let (_memory, acquisition) = run(tiny(Some(4), 4));
    assert_eq!(acquisition.append(&[1; FRAME]).unwrap().frames, 1);
    let frame = acquisition.acquire().unwrap();
    let refused = frame.commit_viewed(Some(0), Record::default()).unwrap_err();
    assert!(matches!(refused.error, Error::FrameNumber { number: 0, .. }), "{refused}");
    written(&acquisition, 1);
    let frames = acquisition.stats().ring_frames;
    free(&acquisition, frames - 1);
    let view = refused.frame.commit_viewed(Some(1), Record::default()).unwrap();
    let frame = acquisition.acquire().unwrap();
    assert_eq!(acquisition.finish().unwrap().frames_written, 2);
    // The memory is there as long as anybody may look at it.
    assert_eq!(view.len(), FRAME);
    let refused = frame.commit_viewed(None, Record::default()).unwrap_err();
    assert!(matches!(refused.error, Error::Ended), "{refused}");
}

#[test]
fn pixels_behind_a_pointer_are_appended_as_those_of_a_slice() {
    for (row_stride, layout) in [
        (16, None),
        (20, None),
        (16, Some(FrameLayout { buffer_bytes: 400, offset: 16, row_stride: 24 })),
        (20, Some(FrameLayout { buffer_bytes: 400, offset: 16, row_stride: 24 })),
    ] {
        let pixels: Vec<u8> = (0..2 * 16 * row_stride).map(|at| (at * 7) as u8).collect();
        let config = Config { frame_layout: layout, ..tiny(None, 8) };
        let append = |raw: bool| {
            let (memory, acquisition) = run(config.clone());
            let appended = match raw {
                // SAFETY: the vector outlives the call.
                #[allow(unsafe_code)]
                true => unsafe {
                    acquisition.append_raw(pixels.as_ptr(), pixels.len(), row_stride, Record::default(), None)
                },
                false => acquisition.append_with(&pixels, row_stride, Record::default()),
            };
            assert_eq!(appended.unwrap().frames, 2);
            acquisition.finish().unwrap();
            let shard = memory.read("0/c/0/0/0").unwrap();
            let row = |frame: usize, row: usize| &pixels[(frame * 16 + row) * row_stride..][..16];
            let want = |frame| (0..16).flat_map(move |at| row(frame, at)).copied().collect::<Vec<_>>();
            for frame in 0..2 {
                assert!(shard.windows(FRAME).any(|window| window == want(frame)), "frame {frame} of {row_stride}");
            }
        };
        append(false);
        append(true);
    }
    let (_memory, acquisition) = run(tiny(None, 4));
    let pixels = [0; FRAME - 1];
    // SAFETY: the array outlives the call.
    #[allow(unsafe_code)]
    let refused = unsafe { acquisition.append_raw(pixels.as_ptr(), pixels.len(), 16, Record::default(), None) };
    assert!(matches!(refused, Err(Error::FrameSize { got: 255, expected: 256 })));
}
