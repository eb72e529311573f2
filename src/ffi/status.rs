//! Codes, the text of the last error, and the boundary at which panics stop.
#![allow(unsafe_code)]

use std::cell::UnsafeCell;
use std::ffi::{CStr, c_char};
use std::fmt::{self, Write as _};
use std::panic::{AssertUnwindSafe, catch_unwind};

use super::names::{Spelled, Spelling};
use crate::error::{Error, message_of};

/// What a call returns: SW_OK, or why it did nothing. The numbers never change their meaning; new ones may be added.
pub type sw_status = i32;

/// The call did what it says.
pub const SW_OK: sw_status = 0;
/// A pointer is null that must not be.
pub const SW_ERROR_NULL: sw_status = 1;
/// A pointer is not aligned as its type requires.
pub const SW_ERROR_MISALIGNED: sw_status = 2;
/// A struct's `size` field is not that of any version, or a buffer of the caller's is too small.
pub const SW_ERROR_SIZE: sw_status = 3;
/// The caller's struct has fields that this library does not know, and they are set; its `version` is 0 or newer than
/// the library's; or, of sw_check_version, the program was compiled for another version.
pub const SW_ERROR_VERSION: sw_status = 4;
/// An argument is outside its range, or text is not UTF-8.
pub const SW_ERROR_ARGUMENT: sw_status = 5;
/// The handle is not one of this kind, or it was freed.
pub const SW_ERROR_HANDLE: sw_status = 6;
/// The handle belongs to the process from which this one was forked.
pub const SW_ERROR_FORKED: sw_status = 7;
/// The frame is not on loan: it was committed or discarded before, or never acquired.
pub const SW_ERROR_FRAME: sw_status = 8;
/// Another thread is in a call that allows only one, or uses the handle that would be freed; or this is a callback in
/// which the run's end can't be waited for.
pub const SW_ERROR_BUSY: sw_status = 9;
/// The acquisition has ended; it takes no more frames.
pub const SW_ERROR_ENDED: sw_status = 10;
/// The acquisition has not ended yet: finish or abort it first.
pub const SW_ERROR_NOT_ENDED: sw_status = 11;
/// More handles than the library holds at once.
pub const SW_ERROR_TOO_MANY: sw_status = 12;
/// This library was built without what the call needs, or does not read what a file holds.
pub const SW_ERROR_UNSUPPORTED: sw_status = 13;
/// The time limit passed. The work goes on; repeat the call to wait longer.
pub const SW_TIMEOUT: sw_status = 20;
/// No frame buffer became free within the time limit: the workers or the disk are slower than the camera.
pub const SW_RING_FULL: sw_status = 21;
/// The run was aborted, perhaps by another thread during sw_finish: frames that waited in the ring are lost.
pub const SW_ABORTED: sw_status = 22;
/// A configuration value that can't work. Nothing was written.
pub const SW_ERROR_CONFIG: sw_status = 30;
/// The operating system, or the caller's own storage, refused something.
pub const SW_ERROR_IO: sw_status = 31;
/// Pixels that are not a whole number of frames.
pub const SW_ERROR_FRAME_SIZE: sw_status = 32;
/// A frame number that came before, comes too late, is too far ahead of the newest, or lies beyond the array.
pub const SW_ERROR_FRAME_NUMBER: sw_status = 33;
/// A record field that was not configured, or a value that does not fit its field.
pub const SW_ERROR_RECORD: sw_status = 34;
/// The output exists and overwriting is off.
pub const SW_ERROR_EXISTS: sw_status = 35;
/// Another writer holds the dataset.
pub const SW_ERROR_LOCKED: sw_status = 36;
/// A codec failed.
pub const SW_ERROR_CODEC: sw_status = 37;
/// A file or document that does not hold what it should.
pub const SW_ERROR_FORMAT: sw_status = 38;
/// The library ran into a bug of its own, and stopped it at its border. Please report the text.
pub const SW_ERROR_PANIC: sw_status = 39;
/// There is no dataset at the path, or none of what was asked for.
pub const SW_ERROR_NOT_FOUND: sw_status = 41;
/// An error without a number of its own yet.
pub const SW_ERROR_OTHER: sw_status = 40;

/// For every status: its number, its name, and what it says without any evidence.
const TEXTS: [(sw_status, &CStr, &CStr); 29] = [
    (SW_OK, c"SW_OK", c"fine"),
    (SW_ERROR_NULL, c"SW_ERROR_NULL", c"a pointer is null"),
    (SW_ERROR_MISALIGNED, c"SW_ERROR_MISALIGNED", c"a pointer is not aligned"),
    (SW_ERROR_SIZE, c"SW_ERROR_SIZE", c"a wrong size"),
    (SW_ERROR_VERSION, c"SW_ERROR_VERSION", c"the program and the library are of different versions"),
    (SW_ERROR_ARGUMENT, c"SW_ERROR_ARGUMENT", c"an argument is out of range"),
    (SW_ERROR_HANDLE, c"SW_ERROR_HANDLE", c"not a handle, or freed"),
    (SW_ERROR_FORKED, c"SW_ERROR_FORKED", c"the handle belongs to the parent process"),
    (SW_ERROR_FRAME, c"SW_ERROR_FRAME", c"the frame is not on loan"),
    (SW_ERROR_BUSY, c"SW_ERROR_BUSY", c"another thread, or this callback, is in the way"),
    (SW_ERROR_ENDED, c"SW_ERROR_ENDED", c"the acquisition has ended"),
    (SW_ERROR_NOT_ENDED, c"SW_ERROR_NOT_ENDED", c"the acquisition has not ended"),
    (SW_ERROR_TOO_MANY, c"SW_ERROR_TOO_MANY", c"too many handles"),
    (SW_ERROR_UNSUPPORTED, c"SW_ERROR_UNSUPPORTED", c"not in this library"),
    (SW_TIMEOUT, c"SW_TIMEOUT", c"the time limit passed"),
    (SW_RING_FULL, c"SW_RING_FULL", c"the ring is full"),
    (SW_ABORTED, c"SW_ABORTED", c"the acquisition was aborted"),
    (SW_ERROR_CONFIG, c"SW_ERROR_CONFIG", c"a configuration that can't work"),
    (SW_ERROR_IO, c"SW_ERROR_IO", c"the system refused"),
    (SW_ERROR_FRAME_SIZE, c"SW_ERROR_FRAME_SIZE", c"not a whole number of frames"),
    (SW_ERROR_FRAME_NUMBER, c"SW_ERROR_FRAME_NUMBER", c"a frame number was refused"),
    (SW_ERROR_RECORD, c"SW_ERROR_RECORD", c"no such record field, or a value that does not fit it"),
    (SW_ERROR_EXISTS, c"SW_ERROR_EXISTS", c"the output exists"),
    (SW_ERROR_LOCKED, c"SW_ERROR_LOCKED", c"the output is being written"),
    (SW_ERROR_CODEC, c"SW_ERROR_CODEC", c"a codec failed"),
    (SW_ERROR_FORMAT, c"SW_ERROR_FORMAT", c"a wrong format"),
    (SW_ERROR_PANIC, c"SW_ERROR_PANIC", c"a bug in the library"),
    (SW_ERROR_NOT_FOUND, c"SW_ERROR_NOT_FOUND", c"not found"),
    (SW_ERROR_OTHER, c"SW_ERROR_OTHER", c"an error without a number of its own"),
];

/// Bytes of an error's text, the ending zero included; of longer ones, the middle is left out.
const TEXT_BYTES: usize = 1024;

/// A thread's text, in place, so that an error that is expected in the frame path takes no memory.
struct Text {
    bytes: [u8; TEXT_BYTES],
    len: usize,
}

thread_local! {
    static LAST: UnsafeCell<Text> = const { UnsafeCell::new(Text { bytes: [0; TEXT_BYTES], len: 0 }) };
}

impl fmt::Write for Text {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        let room = TEXT_BYTES - 1 - self.len;
        let mut fits = text.len().min(room);
        while !text.is_char_boundary(fits) {
            fits -= 1;
        }
        for (place, &byte) in self.bytes[self.len..].iter_mut().zip(&text.as_bytes()[..fits]) {
            // What is no control character is a part of UTF-8.
            *place = if byte.is_ascii_control() { of_one_line(byte.into()) as u8 } else { byte };
        }
        self.len += fits;
        if fits < text.len() { Err(fmt::Error) } else { Ok(()) }
    }
}

impl Text {
    /// A long path may be in the middle; what is wrong with it is said at the end.
    fn put_without_middle(&mut self, text: &str) {
        const LEFT_OUT: &str = " … ";
        let room = (TEXT_BYTES - 1 - LEFT_OUT.len()) / 2;
        let start = (0..=room).rev().find(|&at| text.is_char_boundary(at)).unwrap_or(0);
        let end = (text.len() - room..text.len()).find(|&at| text.is_char_boundary(at)).unwrap_or(text.len());
        *self = Self { bytes: [0; TEXT_BYTES], len: 0 };
        let _ = write!(self, "{}{LEFT_OUT}{}", &text[..start], &text[end..]);
    }
}

/// A character as texts for C have it: a zero inside would end them, and a line end the line of a log.
pub(super) fn of_one_line(character: char) -> char {
    match character {
        '\0' => '?',
        _ if character.is_control() => ' ',
        _ => character,
    }
}

/// An error whose text the caller can already read. Only [`told`] makes one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Told(sw_status);

pub(super) type Outcome<T> = Result<T, Told>;

impl Told {
    /// The same about one of several: the text begins with its place.
    pub(super) fn at(self, list: &str, at: usize) -> Self {
        // SAFETY: the text is the library's own, ends with a zero, and stays until another one is kept.
        let text = unsafe { CStr::from_ptr(sw_last_error()) };
        told(self.0, format_args!("{list}[{at}]: {}", text.to_string_lossy()))
    }
}

/// Keeps the text for [`sw_last_error`].
pub(super) fn told(status: sw_status, text: fmt::Arguments) -> Told {
    let _ = LAST.try_with(|last| {
        // The value is made first: what it prints may be the text that stands here.
        let mut fresh = Text { bytes: [0; TEXT_BYTES], len: 0 };
        if fresh.write_fmt(text).is_err() {
            fresh.put_without_middle(&text.to_string());
        }
        // SAFETY: the cell is this thread's, and nothing in here calls back.
        unsafe { *last.get() = fresh };
    });
    Told(status)
}

macro_rules! refuse {
    ($status:expr, $($text:tt)*) => { Err($crate::ffi::status::told($status, format_args!($($text)*))) };
}
pub(super) use refuse;

impl From<Error> for Told {
    fn from(error: Error) -> Self {
        Spelling::Struct.told(error)
    }
}

impl Spelling {
    pub(super) fn told(self, error: Error) -> Told {
        told(status_of(&error), format_args!("{}", Spelled(self, &error)))
    }
}

pub(super) fn status_of(error: &Error) -> sw_status {
    match error {
        Error::Config { .. } | Error::Limit { .. } => SW_ERROR_CONFIG,
        Error::Io { .. } => SW_ERROR_IO,
        Error::RingFull { .. } => SW_RING_FULL,
        Error::FrameSize { .. } | Error::Roi { .. } => SW_ERROR_FRAME_SIZE,
        Error::RowStride { .. } => SW_ERROR_ARGUMENT,
        Error::FrameNumber { .. } => SW_ERROR_FRAME_NUMBER,
        Error::Record { .. } => SW_ERROR_RECORD,
        Error::Exists { .. } | Error::StorageUsed { .. } => SW_ERROR_EXISTS,
        Error::Locked { .. } => SW_ERROR_LOCKED,
        Error::Codec { .. } => SW_ERROR_CODEC,
        Error::Format { .. } | Error::Unfinished { .. } | Error::Conflict { .. } => SW_ERROR_FORMAT,
        Error::Unsupported { .. } => SW_ERROR_UNSUPPORTED,
        Error::NotFound { .. } => SW_ERROR_NOT_FOUND,
        Error::Panicked { .. } => SW_ERROR_PANIC,
        Error::Aborted | Error::Stopped => SW_ABORTED,
        Error::InCallback | Error::ListenerSet => SW_ERROR_BUSY,
        Error::Ended => SW_ERROR_ENDED,
    }
}

/// Runs a call; a panic becomes a code, because it must not pass through the frames of another language.
pub(super) fn boundary(call: impl FnOnce() -> Outcome<()>) -> sw_status {
    match catch_unwind(AssertUnwindSafe(call)) {
        Ok(Ok(())) => SW_OK,
        Ok(Err(Told(status))) => status,
        Err(panic) => {
            let Told(status) = told(SW_ERROR_PANIC, format_args!("a bug in shardwright: {}", message_of(panic)));
            status
        }
    }
}

/// The text of the last error that a call on this thread returned, in English, without a line end; empty if there was
/// none. A call that succeeds leaves it as it is.
///
/// Never null, and of 1023 bytes at most: of a longer one, the middle is left out. It belongs to the library and stays
/// as it is until the next call on this thread that fails.
#[unsafe(no_mangle)]
pub extern "C" fn sw_last_error() -> *const c_char {
    LAST.try_with(|last| {
        // SAFETY: the cell is this thread's; the pointer is into a static of the thread, whose last byte is always 0.
        unsafe { (*last.get()).bytes.as_ptr().cast() }
    })
    .unwrap_or(c"".as_ptr())
}

/// What a status means in general, in English. Never null, and never freed. The text of a certain error is in
/// sw_last_error.
#[unsafe(no_mangle)]
pub extern "C" fn sw_status_text(status: sw_status) -> *const c_char {
    let known = TEXTS.iter().find(|(number, ..)| *number == status);
    known.map_or(c"an error without a number of its own", |(.., text)| text).as_ptr()
}

/// The name of a status as this header has it, for example "SW_ERROR_IO"; of a number that is none, "SW_ERROR_OTHER".
/// Never null, and never freed.
#[unsafe(no_mangle)]
pub extern "C" fn sw_status_name(status: sw_status) -> *const c_char {
    let known = TEXTS.iter().find(|(number, ..)| *number == status);
    known.map_or(c"SW_ERROR_OTHER", |(_, name, _)| name).as_ptr()
}

/// Whether the library that is loaded fits a program that was compiled with a header of this version: pass
/// SW_VERSION_MAJOR and SW_VERSION_MINOR. Before version 1, the minor version must be the same; from then on, the major
/// one, and the library's minor one may be newer.
///
/// Errors: SW_ERROR_VERSION, with both versions in the text.
#[unsafe(no_mangle)]
pub extern "C" fn sw_check_version(major: u32, minor: u32) -> sw_status {
    let own = |part: &str| part.parse::<u32>().unwrap_or(0);
    let (own_major, own_minor) = (own(env!("CARGO_PKG_VERSION_MAJOR")), own(env!("CARGO_PKG_VERSION_MINOR")));
    let fits = major == own_major && if major == 0 { minor == own_minor } else { minor <= own_minor };
    boundary(|| {
        if fits {
            return Ok(());
        }
        let version = env!("CARGO_PKG_VERSION");
        refuse!(SW_ERROR_VERSION, "the program was compiled for version {major}.{minor}, and the library is {version}")
    })
}

/// The library's version, for example "0.1.0". Never null, and never freed. A program may compare it with SW_VERSION,
/// with which it was compiled.
#[unsafe(no_mangle)]
pub extern "C" fn sw_version() -> *const c_char {
    concat!(env!("CARGO_PKG_VERSION"), "\0").as_ptr().cast()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn last() -> String {
        // SAFETY: the library's own text, which ends with a zero.
        unsafe { CStr::from_ptr(sw_last_error()) }.to_str().unwrap().to_owned()
    }

    #[test]
    fn a_panic_stops_at_the_boundary() {
        assert_eq!(boundary(|| panic!("all {} buffers", 7)), SW_ERROR_PANIC);
        assert_eq!(last(), "a bug in shardwright: all 7 buffers");
        assert_eq!(boundary(|| refuse!(SW_ERROR_BUSY, "wait")), SW_ERROR_BUSY);
        assert_eq!(last(), "wait");
        assert_eq!(boundary(|| Ok(())), SW_OK);
        assert_eq!(last(), "wait");
    }

    #[test]
    fn of_a_long_text_the_middle_is_left_out() {
        let _ = told(SW_ERROR_OTHER, format_args!("can't create {}: {}", "µ".repeat(2000), "the disk is full"));
        let text = last();
        assert!(text.len() < TEXT_BYTES && text.len() > TEXT_BYTES - 8, "{}", text.len());
        assert!(text.starts_with("can't create µ") && text.contains("µ … µ"), "{text}");
        assert!(text.ends_with("µ: the disk is full"), "{text}");
        let _ = told(SW_ERROR_OTHER, format_args!("{}", "a".repeat(TEXT_BYTES - 1)));
        assert_eq!(last(), "a".repeat(TEXT_BYTES - 1));
        let _ = told(SW_ERROR_OTHER, format_args!("a zero \0 inside"));
        assert_eq!(last(), "a zero ? inside");
        let _ = told(SW_ERROR_OTHER, format_args!("one\nline\r\tof {}", "a µ"));
        assert_eq!(last(), "one line  of a µ");
    }

    #[test]
    fn every_status_has_a_number_and_a_text_of_its_own() {
        for (at, (number, name, text)) in TEXTS.iter().enumerate() {
            let before = TEXTS[..at].iter();
            assert!(before.clone().all(|(other, known, said)| other != number && known != name && said != text));
        }
    }
}
