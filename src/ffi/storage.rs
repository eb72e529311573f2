//! The caller's own functions as a storage: for targets without POSIX files, and for programs that send shards
//! elsewhere.
#![allow(unsafe_code)]

use std::ffi::{CString, c_char, c_void};
use std::io;
use std::mem::offset_of;
use std::sync::Arc;

use super::callback::{self, Context, Of};
use super::pointer::{Grows, read};
use super::status::{Outcome, SW_ERROR_ARGUMENT, SW_ERROR_NULL, refuse};
use crate::storage::{Blob, Storage};

/// A storage of the caller's own: a flat store of files by key ("zarr.json", "0/c/0/0/0"). Set `size` to
/// sizeof(sw_storage) and all else to 0 before filling it.
///
/// A shard is a blob: it is created with a length, written by several threads at once, in ranges that never overlap but
/// for the index, which checkpoints write again; it is published, synced, truncated, and released. Documents and
/// per-frame records are put as a whole. All functions get `context` first, are called from threads of the library,
/// must not unwind or jump out, and return 0, or a positive errno value that becomes the acquisition's error, if
/// nothing else is said. An error of `punch` ends no run, nor does the first one in making a shard that is prepared
/// ahead of need: that is tried again. None of the functions may end a run that has this storage: sw_close, sw_finish,
/// sw_abort and sw_free are SW_ERROR_BUSY in them. What is durable before its shard is closed: with an index of at most
/// 31 chunks, or without a checksum; others can't be replaced safely by `write_at`. Functions that are not `write_at`
/// are never called by a thread that encodes. None is called any more when sw_free, or sw_create_in with an error, has
/// returned. What a run has left that was killed, or whose last documents could not be put, is recovered in a folder:
/// that of the files under their keys.
#[repr(C)]
#[derive(Debug, Clone, Copy)]
pub struct sw_storage {
    /// sizeof(sw_storage).
    pub size: usize,
    /// Given to every function.
    pub context: *mut c_void,
    /// Creates a file of `bytes` bytes that read as zeros, and sets `*blob` to what the other functions shall get. It
    /// must not appear under its key before `publish`. Required.
    pub create: Option<
        unsafe extern "C" fn(context: *mut c_void, key: *const c_char, bytes: u64, blob: *mut *mut c_void) -> i32,
    >,
    /// Replaces a file as a whole: a reader sees the old bytes or the new ones. Required.
    pub put: Option<
        unsafe extern "C" fn(context: *mut c_void, key: *const c_char, data: *const c_void, bytes: usize) -> i32,
    >,
    /// Removes a file, if it is there. Null: files stay, also shards that nothing came for. Created ahead of need are
    /// those of the next 16 steps of the first dimension at most: as many as 64 MiB are, but one step at least.
    pub remove: Option<unsafe extern "C" fn(context: *mut c_void, key: *const c_char) -> i32>,
    /// Writes into a blob, within its length. Required.
    pub write_at: Option<
        unsafe extern "C" fn(
            context: *mut c_void,
            blob: *mut c_void,
            offset: u64,
            data: *const c_void,
            bytes: usize,
        ) -> i32,
    >,
    /// Makes the blob appear under its key. Null: `create` does.
    pub publish: Option<unsafe extern "C" fn(context: *mut c_void, blob: *mut c_void) -> i32>,
    /// Returns when everything written so far has reached the device. Null: `write_at` does.
    pub sync: Option<unsafe extern "C" fn(context: *mut c_void, blob: *mut c_void) -> i32>,
    /// Ends a shard: cuts it off at `bytes` bytes. Required, because readers look for the index at the end.
    pub finish: Option<unsafe extern "C" fn(context: *mut c_void, blob: *mut c_void, bytes: u64) -> i32>,
    /// Says that the bytes of a range are of no use any more and may be given back. Null: they stay.
    pub punch: Option<unsafe extern "C" fn(context: *mut c_void, blob: *mut c_void, offset: u64, bytes: u64) -> i32>,
    /// Frees the blob, of which nothing is asked any more. Null: nothing to free.
    pub release: Option<unsafe extern "C" fn(context: *mut c_void, blob: *mut c_void)>,
    /// Of how many bytes offsets, lengths and addresses of large writes should be multiples, 4096 at most. 0: of any.
    /// From 16 on, large writes are done by threads of their own, several at once.
    pub alignment: usize,
    /// Returns 1 if there is something in the storage already: then no dataset is created there, which is
    /// SW_ERROR_EXISTS; else 0. Null: nobody asks, and the documents and shards of a dataset that is there are
    /// replaced, even with `overwrite` 0.
    pub is_used: Option<unsafe extern "C" fn(context: *mut c_void) -> i32>,
}

// SAFETY: `repr(C)`, its size first, and what it may lack may be read.
unsafe impl Grows for sw_storage {
    const FIRST_BYTES: usize = offset_of!(sw_storage, is_used);
    const NAME: &'static str = "sw_storage";
}

/// The struct, checked.
#[derive(Debug, Clone, Copy)]
struct Functions(sw_storage);

// SAFETY: the header says that the functions are called from several threads, with the same context.
unsafe impl Send for Functions {}
// SAFETY: as above.
unsafe impl Sync for Functions {}

/// # Safety
/// `storage` must be good for reads of as many bytes as its `size` says, unless null or misaligned; what it holds must
/// stay callable as long as the result lives.
pub(super) unsafe fn caller_storage(storage: *const sw_storage) -> Outcome<Arc<dyn Storage>> {
    // SAFETY: zeros are a value: numbers, a null pointer, and no functions.
    let none: sw_storage = unsafe { std::mem::zeroed() };
    // SAFETY: as the caller promises; the struct begins with its size.
    let given = unsafe { read(storage, none) }?;
    let required = [
        (given.create.is_some(), "create"),
        (given.put.is_some(), "put"),
        (given.write_at.is_some(), "write_at"),
        (given.finish.is_some(), "finish"),
    ];
    if let Some((_, name)) = required.into_iter().find(|(there, _)| !there) {
        return refuse!(SW_ERROR_NULL, "sw_storage.{name} is null, and it is required");
    }
    if given.alignment > 4096 || given.alignment > 0 && !given.alignment.is_power_of_two() {
        let alignment = given.alignment;
        return refuse!(SW_ERROR_ARGUMENT, "sw_storage.alignment = {alignment}: 0, or a power of two up to 4096");
    }
    Ok(Arc::new(Functions(given)))
}

impl Functions {
    fn of(&self) -> Of {
        Of::Dataset(std::ptr::from_ref(self).addr())
    }

    /// Runs one of the functions, which `call` gives the context, in the storage that `of` says. One that was left out
    /// has nothing to do; those that are required are there.
    fn call<F>(&self, of: Of, function: Option<F>, call: impl FnOnce(F, *mut c_void) -> i32) -> io::Result<()> {
        let Some(function) = function else { return Ok(()) };
        match callback::calling(of, || call(function, self.0.context)) {
            0 => Ok(()),
            code @ 1.. => Err(io::Error::from_raw_os_error(code)),
            code => Err(io::Error::other(format!(
                "the storage's function returned {code}, which is neither 0 nor an errno"
            ))),
        }
    }
}

fn c_key(key: &str) -> io::Result<CString> {
    // Names are checked before they become keys, so this does not happen.
    CString::new(key).map_err(|error| io::Error::new(io::ErrorKind::InvalidInput, error))
}

impl Storage for Functions {
    fn name(&self) -> &'static str {
        "the caller's own"
    }

    fn create(&self, key: &str, len: u64) -> io::Result<Box<dyn Blob>> {
        let (key, mut blob) = (c_key(key)?, std::ptr::null_mut());
        // SAFETY: the caller gave the function for this; the key lives through the call, and so does the place.
        self.call(self.of(), self.0.create, |create, context| unsafe {
            create(context, key.as_ptr(), len, &raw mut blob)
        })?;
        Ok(Box::new(CallerBlob { functions: *self, of: self.of(), blob: Context(blob) }))
    }

    fn put(&self, key: &str, bytes: &[u8]) -> io::Result<()> {
        let (key, data) = (c_key(key)?, bytes.as_ptr().cast());
        // SAFETY: as in `create`.
        self.call(self.of(), self.0.put, |put, context| unsafe { put(context, key.as_ptr(), data, bytes.len()) })
    }

    fn is_used(&self) -> bool {
        let Some(is_used) = self.0.is_used else { return false };
        // SAFETY: as in `create`.
        callback::calling(self.of(), || unsafe { is_used(self.0.context) }) != 0
    }

    fn remove(&self, key: &str) -> io::Result<()> {
        let key = c_key(key)?;
        // SAFETY: as in `create`.
        self.call(self.of(), self.0.remove, |remove, context| unsafe { remove(context, key.as_ptr()) })
    }
}

struct CallerBlob {
    functions: Functions,
    /// Whose they are.
    of: Of,
    blob: Context,
}

impl CallerBlob {
    fn call<F>(&self, function: Option<F>, call: impl FnOnce(F, *mut c_void) -> i32) -> io::Result<()> {
        self.functions.call(self.of, function, call)
    }
}

impl Blob for CallerBlob {
    fn alignment(&self) -> usize {
        self.functions.0.alignment.max(1)
    }

    fn write_at(&self, offset: u64, bytes: &[u8]) -> io::Result<()> {
        let (data, len) = (bytes.as_ptr().cast(), bytes.len());
        // SAFETY: the caller gave the function for this; the bytes live through the call.
        self.call(self.functions.0.write_at, |write_at, context| unsafe {
            write_at(context, self.blob.0, offset, data, len)
        })
    }

    fn done_with(&self, _offset: u64, _len: u64) {}

    fn publish(&self) -> io::Result<()> {
        // SAFETY: as in `write_at`.
        self.call(self.functions.0.publish, |publish, context| unsafe { publish(context, self.blob.0) })
    }

    fn sync(&self) -> io::Result<()> {
        // SAFETY: as in `write_at`.
        self.call(self.functions.0.sync, |sync, context| unsafe { sync(context, self.blob.0) })
    }

    fn punch(&self, offset: u64, len: u64) -> io::Result<()> {
        // SAFETY: as in `write_at`.
        self.call(self.functions.0.punch, |punch, context| unsafe { punch(context, self.blob.0, offset, len) })
    }

    fn truncate(&self, len: u64) -> io::Result<()> {
        // SAFETY: as in `write_at`.
        self.call(self.functions.0.finish, |finish, context| unsafe { finish(context, self.blob.0, len) })
    }
}

impl Drop for CallerBlob {
    fn drop(&mut self) {
        if let Some(release) = self.functions.0.release {
            // SAFETY: as in `write_at`; nobody has the blob any more.
            callback::calling(self.of, || unsafe { release(self.functions.0.context, self.blob.0) });
        }
    }
}
