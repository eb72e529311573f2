//! A ring in memory of the caller's own.

use std::ptr::NonNull;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering::SeqCst};

use crate::common::{frame, tiny};
use shardwright::offline::Array;
use shardwright::{
    Acquisition, Codec, Compressor, Config, Dataset, Dim, Dtype, Error, Events, Record, RingBuffers, StorageKind,
};

#[repr(align(4096))]
#[derive(Clone)]
struct Pages([u8; 8192]);

/// Tells when it is let go.
struct Kept(#[allow(dead_code)] Vec<Pages>, Arc<AtomicU32>);

impl Drop for Kept {
    fn drop(&mut self) {
        self.1.fetch_add(1, SeqCst);
    }
}

#[allow(unsafe_code)]
pub(crate) fn buffers(count: usize, bytes: usize, dropped: &Arc<AtomicU32>) -> (RingBuffers, Vec<usize>) {
    let mut pages = vec![Pages([0; 8192]); count];
    let places: Vec<NonNull<u8>> = pages.iter_mut().map(|page| NonNull::from(&mut page.0).cast()).collect();
    let addresses = places.iter().map(|place| place.addr().get()).collect();
    // SAFETY: the vector is kept and not touched; its elements don't move with it.
    (unsafe { RingBuffers::new(places, bytes, Kept(pages, dropped.clone())) }.unwrap(), addresses)
}

fn config(storage: StorageKind) -> Config {
    let dims = vec![Dim::time(None).chunk(1).shard(8), Dim::y(64), Dim::x(64)];
    let codec = Codec { compressor: Compressor::None, checksum: false };
    Config { dtype: Dtype::U8, dims, codec, storage, ..tiny(None, 1) }
}

#[test]
fn frames_lie_where_the_caller_says_and_reach_the_dataset() {
    for storage in [StorageKind::Buffered, StorageKind::Direct, StorageKind::Mapped] {
        let folder = tempfile::tempdir().unwrap();
        let dropped = Arc::new(AtomicU32::new(0));
        let (buffers, addresses) = buffers(6, 8192, &dropped);
        let path = folder.path().join("run.zarr");
        let acquisition = Acquisition::create_with_buffers(&path, config(storage), buffers).unwrap();
        assert_eq!(acquisition.stats().ring_frames, 6);
        for number in 0..50 {
            let mut slot = acquisition.acquire().unwrap();
            assert_eq!((slot.as_ptr().addr(), slot.len()), (addresses[slot.index()], 4096));
            slot.copy_from_slice(&frame(number, 4096));
            slot.commit(number, Record::default()).unwrap();
        }
        let late = acquisition.acquire().unwrap();
        let events = acquisition.watch(Events::ALL, 0).unwrap();
        acquisition.finish().unwrap();
        // A frame on loan keeps them.
        assert_eq!(dropped.load(SeqCst), 0);
        drop(late);
        // And a handle does not, though it lives on.
        assert_eq!(dropped.load(SeqCst), 1);
        assert!(events.take().contains(Events::ENDED));
        let expected: Vec<u8> = (0..50).flat_map(|number| frame(number, 4096)).collect();
        assert!(Array::open(path.join("0")).unwrap().read_all().unwrap() == expected, "{storage:?}");
    }
}

#[test]
fn an_image_of_a_dataset_may_have_its_own() {
    let folder = tempfile::tempdir().unwrap();
    let dropped = Arc::new(AtomicU32::new(0));
    let dataset = Dataset::create(folder.path().join("run.zarr")).unwrap();
    let (buffers, _) = buffers(3, 4096, &dropped);
    let image = dataset.acquisition_with_buffers("left", config(StorageKind::Auto), buffers).unwrap();
    assert_eq!(image.append(&[3; 4096 * 20]).unwrap().frames, 20);
    assert_eq!(image.finish().unwrap().frames_written, 20);
    assert_eq!(dropped.load(SeqCst), 1);
}

#[test]
fn too_few_and_too_small_ones_are_refused_and_given_back() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("run.zarr");
    let dropped = Arc::new(AtomicU32::new(0));
    for (count, bytes, deep, reason) in [
        (6, 2048, 1, "6 buffers of 2048 bytes: a frame's buffer needs 4096 bytes"),
        (2, 4096, 1, "2 buffers of 4096 bytes: a ring of 3 frames is needed"),
        (16, 4096, 16, "a ring of 18 frames is needed"),
    ] {
        let (buffers, _) = buffers(count, bytes, &dropped);
        let dims = vec![Dim::time(None).chunk(deep).shard(2 * deep), Dim::y(64), Dim::x(64)];
        let refused = Acquisition::create_with_buffers(&path, Config { dims, ..config(StorageKind::Auto) }, buffers);
        let error = refused.unwrap_err();
        assert!(matches!(error, Error::Config { field: "own_buffers", .. }), "{error:?}");
        assert!(error.to_string().contains(reason), "{error}");
    }
    assert_eq!(dropped.load(SeqCst), 3);
    assert!(!path.exists());
}

#[test]
#[allow(unsafe_code)]
fn buffers_beyond_the_address_space_are_refused() {
    let last_page = usize::MAX - 4095;
    for (address, bytes) in [(last_page, 8192), (4096, usize::MAX - 4095), (4096, isize::MAX as usize)] {
        let place = NonNull::new(std::ptr::without_provenance_mut(address)).unwrap();
        // SAFETY: there is no such memory, which is what is to be told; nothing touches it.
        let refused = unsafe { RingBuffers::new(vec![place], bytes, ()) };
        let text = refused.unwrap_err().to_string();
        let expected =
            format!("own_buffers = {bytes} bytes from {address:#x} on: buffer 0 does not fit the address space");
        assert_eq!(text, expected);
    }
}

/// Memory of one run is no other's, as long as that run has it.
#[test]
#[allow(unsafe_code)]
fn buffers_of_a_live_run_are_no_others() {
    let mut pages = vec![Pages([0; 8192]); 8];
    let places: Vec<NonNull<u8>> = pages.iter_mut().map(|page| NonNull::from(&mut page.0).cast()).collect();
    // SAFETY: the pages outlive all runs, and nobody else touches them.
    let lent = |places: &[NonNull<u8>]| unsafe { RingBuffers::new(places.to_vec(), 8192, ()) };
    let dataset = Dataset::create_in(Arc::new(shardwright::Memory::new())).unwrap();
    let start = |name, buffers| dataset.acquisition_with_buffers(name, config(StorageKind::Auto), buffers);
    let left = start("left", lent(&places[..4]).unwrap()).unwrap();
    let error = lent(&places[3..]).unwrap_err();
    assert!(matches!(error, Error::Config { field: "own_buffers", .. }), "{error}");
    assert!(error.to_string().contains("another run"), "{error}");
    let right = start("right", lent(&places[4..]).unwrap()).unwrap();
    for run in [left, right] {
        assert_eq!(run.append(&[1; 4096]).unwrap().frames, 1);
        run.finish().unwrap();
    }
    // Also of buffers that came to nothing.
    drop(lent(&places).unwrap());
    let again = start("again", lent(&places).unwrap()).unwrap();
    again.finish().unwrap();
}
