//! What a caller's pointers must be before they are followed: not null, aligned, and as long as they say.
#![allow(unsafe_code)]

use std::ffi::{CStr, c_char};

use super::status::{
    Outcome, SW_ERROR_ARGUMENT, SW_ERROR_CONFIG, SW_ERROR_MISALIGNED, SW_ERROR_NULL, SW_ERROR_SIZE, SW_ERROR_VERSION,
    refuse,
};

/// No struct of this interface will ever be as long; a larger `size` was never set.
const SIZE_MAX: usize = 1 << 16;

fn check<T>(pointer: *const T, name: &str) -> Outcome<()> {
    if pointer.is_null() {
        return refuse!(SW_ERROR_NULL, "{name} is null");
    }
    if !pointer.is_aligned() {
        let align = align_of::<T>();
        return refuse!(SW_ERROR_MISALIGNED, "{name} = {pointer:p} is not aligned to {align} bytes");
    }
    Ok(())
}

/// What `pointer` points to.
///
/// # Safety
/// If it is neither null nor misaligned, it must be good for reads of a `T` that nobody writes meanwhile.
pub(super) unsafe fn required<'a, T>(pointer: *const T, name: &str) -> Outcome<&'a T> {
    check(pointer, name)?;
    // SAFETY: as the caller promises.
    Ok(unsafe { &*pointer })
}

/// A place for a result, to be written only when there is one.
pub(super) struct Out<T>(*mut T);

/// # Safety
/// If it is neither null nor misaligned, it must be good for writing a `T` until the call returns.
pub(super) unsafe fn out<T>(pointer: *mut T, name: &str) -> Outcome<Out<T>> {
    check(pointer, name)?;
    Ok(Out(pointer))
}

impl<T> Out<T> {
    pub(super) fn set(self, value: T) {
        // SAFETY: the caller of `out` promised that it is good for writing until the call returns.
        unsafe { self.0.write(value) };
    }
}

/// `count` elements, at most `most`. None may be at any address. `names`: those of the pointer and of the count.
///
/// # Safety
/// If it is neither null nor misaligned, it must be good for reads of `count` elements that nobody writes meanwhile,
/// unless those are more than `most`.
pub(super) unsafe fn slice_up_to<'a, T>(
    pointer: *const T,
    count: usize,
    most: usize,
    names: [&str; 2],
) -> Outcome<&'a [T]> {
    let [_, count_name] = names;
    if count > most {
        return refuse!(SW_ERROR_CONFIG, "{count_name} = {count}: at most {most} are possible");
    }
    // SAFETY: as the caller promises.
    unsafe { slice(pointer, count, names) }
}

/// As [`slice_up_to`], of a list that may be left out: with a pointer, there is something in it.
///
/// # Safety
/// As for [`slice_up_to`].
pub(super) unsafe fn list_up_to<'a, T>(
    pointer: *const T,
    count: usize,
    most: usize,
    names: [&str; 2],
) -> Outcome<&'a [T]> {
    let [name, count_name] = names;
    if count == 0 && !pointer.is_null() {
        return refuse!(SW_ERROR_ARGUMENT, "{count_name} = 0, and {name} is not null");
    }
    // SAFETY: as the caller promises.
    unsafe { slice_up_to(pointer, count, most, names) }
}

/// As [`slice_up_to`], as many as memory can hold.
///
/// # Safety
/// If it is neither null nor misaligned, it must be good for reads of `count` elements that nobody writes meanwhile.
pub(super) unsafe fn slice<'a, T>(pointer: *const T, count: usize, names: [&str; 2]) -> Outcome<&'a [T]> {
    let [name, count_name] = names;
    if count == 0 {
        return Ok(&[]);
    }
    check(pointer, name)?;
    if count.checked_mul(size_of::<T>()).is_none_or(|bytes| bytes > isize::MAX as usize) {
        return refuse!(SW_ERROR_ARGUMENT, "{count_name} = {count}: {name} can't point to that much memory");
    }
    // SAFETY: as the caller promises; the length was checked just above.
    Ok(unsafe { std::slice::from_raw_parts(pointer, count) })
}

/// Places for several results.
pub(super) struct Outs<T>(*mut T);

/// # Safety
/// If it is neither null nor misaligned, it must be good for writing `count` elements until the call returns.
pub(super) unsafe fn outs<T>(pointer: *mut T, count: usize, name: &str) -> Outcome<Outs<T>> {
    if count > 0 {
        check(pointer, name)?;
    }
    Ok(Outs(pointer))
}

impl<T> Outs<T> {
    /// As many as there are places, or fewer.
    pub(super) fn set(self, values: impl IntoIterator<Item = T>) {
        for (at, value) in values.into_iter().enumerate() {
            // SAFETY: the caller of `outs` or `put_all` promised that it is good for writing until the call returns.
            unsafe { self.0.add(at).write(value) };
        }
    }
}

/// Text that ends with a zero.
///
/// # Safety
/// If it is not null, it must end with a zero that nobody writes meanwhile.
pub(super) unsafe fn text<'a>(pointer: *const c_char, name: &str) -> Outcome<&'a str> {
    // SAFETY: as the caller promises.
    match unsafe { bytes(pointer, name) }?.to_str() {
        Ok(text) => Ok(text),
        Err(error) => refuse!(SW_ERROR_ARGUMENT, "{name} is not UTF-8 from byte {} on", error.valid_up_to()),
    }
}

/// As [`text`]; null is none.
///
/// # Safety
/// As for [`text`].
pub(super) unsafe fn optional_text<'a>(pointer: *const c_char, name: &str) -> Outcome<Option<&'a str>> {
    // SAFETY: as the caller promises.
    if pointer.is_null() { Ok(None) } else { unsafe { text(pointer, name) }.map(Some) }
}

/// Bytes that end with a zero.
///
/// # Safety
/// As for [`text`].
pub(super) unsafe fn bytes<'a>(pointer: *const c_char, name: &str) -> Outcome<&'a CStr> {
    check(pointer, name)?;
    // SAFETY: as the caller promises.
    Ok(unsafe { CStr::from_ptr(pointer) })
}

/// A struct that starts with its own size in bytes, and may grow at its end with each version.
///
/// # Safety
/// `T` is `repr(C)`, any bytes are a `T`, and its first field is a `usize`.
pub(super) unsafe trait Grows: Copy {
    /// How long it was in the first version that had it.
    const FIRST_BYTES: usize;
    const NAME: &'static str;
}

/// Lets structs of this interface grow. When one does, it has its own `FIRST_BYTES`: the offset of the first new field.
macro_rules! grows {
    ($type:ident) => {
        // SAFETY: it is `repr(C)`: numbers, and pointers and functions that may be null; the size first.
        unsafe impl $crate::ffi::pointer::Grows for $type {
            const FIRST_BYTES: usize = size_of::<Self>();
            const NAME: &'static str = stringify!($type);
        }
    };
}
pub(super) use grows;

fn check_size<T: Grows>(size: usize) -> Outcome<()> {
    if size < T::FIRST_BYTES || size > SIZE_MAX || !size.is_multiple_of(align_of::<T>()) {
        let (name, first, now) = (T::NAME, T::FIRST_BYTES, size_of::<T>());
        let step = align_of::<T>();
        return refuse!(
            SW_ERROR_SIZE,
            "{name}.size = {size}: {first} to {SIZE_MAX}, in steps of {step}, and {now} in this library; set it to \
             sizeof({name})"
        );
    }
    Ok(())
}

/// Reads as much of a struct as its caller knows; the rest stays as in `defaults`.
///
/// # Safety
/// If it is neither null nor misaligned, it must be good for reads of as many bytes as its `size` field says.
pub(super) unsafe fn read<T: Grows>(pointer: *const T, defaults: T) -> Outcome<T> {
    check(pointer, T::NAME)?;
    // SAFETY: the first field is the size, and the pointer is aligned.
    let size = unsafe { pointer.cast::<usize>().read() };
    check_size::<T>(size)?;
    let known = size.min(size_of::<T>());
    // SAFETY: the caller says that this many bytes are there.
    let beyond = unsafe { std::slice::from_raw_parts(pointer.cast::<u8>().add(known), size - known) };
    if let Some(at) = beyond.iter().position(|&byte| byte != 0) {
        let (name, at) = (T::NAME, known + at);
        return refuse!(
            SW_ERROR_VERSION,
            "{name} has a value at byte {at} of {size}, of which this library (version {}) knows {known}: the program \
             was compiled for a newer one",
            env!("CARGO_PKG_VERSION")
        );
    }
    let mut value = defaults;
    // SAFETY: both are good for `known` bytes, any bytes are a `T`, and they don't overlap.
    unsafe { std::ptr::copy_nonoverlapping(pointer.cast::<u8>(), (&raw mut value).cast::<u8>(), known) };
    Ok(value)
}

/// A place for a struct of which the caller may know more or less than this library.
pub(super) struct GrownOut<T> {
    pointer: *mut T,
    size: usize,
}

/// The place at `pointer`, whose `size` field the caller has set.
///
/// # Safety
/// If it is neither null nor misaligned, it must be good for as many bytes as its `size` field says until the call
/// returns.
pub(super) unsafe fn grown_out<T: Grows>(pointer: *mut T) -> Outcome<GrownOut<T>> {
    check(pointer, T::NAME)?;
    // SAFETY: the first field is the size, and the pointer is aligned.
    let size = unsafe { pointer.cast::<usize>().read() };
    check_size::<T>(size)?;
    Ok(GrownOut { pointer, size })
}

/// The place at `pointer`, which is `size` bytes long and not yet initialised.
///
/// # Safety
/// If it is neither null nor misaligned, it must be good for `size` bytes until the call returns.
pub(super) unsafe fn sized_out<T: Grows>(pointer: *mut T, size: usize) -> Outcome<GrownOut<T>> {
    check(pointer, T::NAME)?;
    check_size::<T>(size)?;
    Ok(GrownOut { pointer, size })
}

impl<T: Grows> GrownOut<T> {
    /// Writes what the caller knows of `value`, and zeros into what only the caller knows.
    pub(super) fn set(self, value: T) {
        let known = self.size.min(size_of::<T>());
        let place = self.pointer.cast::<u8>();
        // SAFETY: the place is `size` bytes long, `known` is no more than that, and its first field is the size.
        unsafe {
            std::ptr::copy_nonoverlapping((&raw const value).cast::<u8>(), place, known);
            place.add(known).write_bytes(0, self.size - known);
            self.pointer.cast::<usize>().write(self.size);
        }
    }
}

/// Writes all of `values` into a caller's buffer, or none, and how many they are to `needed`, if that is wanted; that
/// also where the buffer has too few places. `names`: those of the two pointers.
///
/// # Safety
/// `place` must be good for `capacity` values if it is not null; `needed` as for [`out`].
pub(super) unsafe fn put_all<T>(
    values: impl ExactSizeIterator<Item = T>,
    place: *mut T,
    capacity: usize,
    needed: *mut usize,
    names: [&str; 2],
    too_few: &str,
) -> Outcome<()> {
    let ([name, needed_name], count) = (names, values.len());
    // SAFETY: as the caller promises.
    let needed = if needed.is_null() { None } else { Some(unsafe { out(needed, needed_name) }?) };
    let is_wanted = !place.is_null() || capacity > 0;
    if is_wanted {
        check(place, name)?;
    }
    if let Some(needed) = needed {
        needed.set(count);
    }
    if is_wanted {
        if capacity < count {
            return refuse!(SW_ERROR_SIZE, "{too_few}");
        }
        Outs(place).set(values);
    }
    Ok(())
}

/// Writes text and its ending zero into a caller's buffer, as `snprintf` does, but all or nothing.
///
/// # Safety
/// As for [`put_all`].
pub(super) unsafe fn put_text(text: &str, place: *mut c_char, capacity: usize, needed: *mut usize) -> Outcome<()> {
    let bytes = [text.as_bytes(), b"\0"].concat();
    let too_few = format!("the text needs {} bytes, its ending zero included, not {capacity}", bytes.len());
    // SAFETY: as the caller promises.
    unsafe { put_all(bytes.into_iter(), place.cast(), capacity, needed, ["text", "needed"], &too_few) }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// As a program of yesterday was compiled with it.
    #[repr(C)]
    #[derive(Clone, Copy)]
    struct Old {
        size: usize,
        known: u64,
    }

    /// The same struct today.
    #[repr(C)]
    #[derive(Clone, Copy)]
    struct Grown {
        size: usize,
        known: u64,
        added: [u64; 2],
    }

    // SAFETY: `repr(C)`, numbers only, the size first.
    unsafe impl Grows for Grown {
        const FIRST_BYTES: usize = size_of::<Old>();
        const NAME: &'static str = "grown";
    }

    const DEFAULTS: Grown = Grown { size: size_of::<Grown>(), known: 1, added: [7, 8] };

    /// Fields that a program of yesterday does not know have their defaults, and nothing behind its struct is touched.
    #[test]
    fn a_program_may_be_older_than_the_library() {
        #[repr(C)]
        struct Guarded {
            old: Old,
            guard: [u64; 4],
        }
        let mut place = Guarded { old: Old { size: 0, known: 0 }, guard: [5; 4] };
        let pointer: *mut Grown = (&raw mut place).cast();
        // SAFETY: the place is longer than an `Old`.
        unsafe { sized_out(pointer, size_of::<Old>()) }.unwrap().set(DEFAULTS);
        assert_eq!((place.old.size, place.old.known, place.guard), (size_of::<Old>(), 1, [5; 4]));
        place.old.known = 3;
        // SAFETY: as above.
        let read = unsafe { read(pointer.cast_const(), DEFAULTS) }.unwrap();
        assert_eq!((read.size, read.known, read.added), (size_of::<Old>(), 3, [7, 8]));
        // SAFETY: as above.
        unsafe { grown_out(pointer) }.unwrap().set(Grown { known: 4, ..DEFAULTS });
        assert_eq!((place.old.size, place.old.known, place.guard), (size_of::<Old>(), 4, [5; 4]));
    }

    /// What today's program sets beyond the first version's struct is taken.
    #[test]
    fn a_program_may_know_the_added_fields() {
        let set = Grown { known: 3, added: [9, 0], ..DEFAULTS };
        // SAFETY: a reference is good for reads.
        let read = unsafe { read(&raw const set, DEFAULTS) }.unwrap();
        assert_eq!((read.known, read.added), (3, [9, 0]));
    }
}
