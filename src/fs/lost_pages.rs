//! Memory maps whose pages may vanish without taking the process with them, for callers who ask for it.
//!
//! A file that another program cuts off while it is mapped, or whose device goes away, answers the next access with
//! SIGBUS. The handler here looks whether the address lies in one of the maps that are guarded. If so, it puts a page
//! of zeros there, notes that the map is broken, and lets the thread go on: what was in that page is lost, and whoever
//! is about to call something durable has to ask [`Guard::check`] first. Every other SIGBUS goes to whoever handled it
//! before.
//!
//! ```text
//! a spot of the table, one word, so that the handler never sees half of a change:
//! | 36 bits: number of the first page | 28 bits: count of pages, 0: free |
//! ```
//!
//! A signal handler may interrupt anything, an allocation or a lock that is held included. So it only reads and writes
//! atomics, and calls mmap(2) and sigaction(2).
#![allow(unsafe_code)]

use std::ffi::{c_int, c_void};
use std::io;
use std::mem::{MaybeUninit, transmute};
use std::ptr;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Mutex, OnceLock};

use crate::sync::Unpoisoned;

/// Maps that can be guarded at the same time. A shard beyond is not mapped, but written.
const SPOTS: usize = 1024;
const PAGE_BITS: u32 = 12;
const COUNT_BITS: u32 = 28;

/// A map for which a lost page is an error instead of a signal that ends the process. It must go before the map does:
/// what is mapped there later is not ours.
#[derive(Debug)]
pub(crate) struct Guard(&'static Spot);

impl Guard {
    /// Guards `len` bytes from `start`, a map of whole pages. `None` if there are too many already, or if it is larger
    /// than the table can say.
    pub(crate) fn over(start: *const u8, len: usize) -> Option<Self> {
        let (first, count) = (start.addr() as u64 >> PAGE_BITS, (len as u64).div_ceil(1 << PAGE_BITS));
        if count == 0 || count >> COUNT_BITS != 0 || first >> (u64::BITS - COUNT_BITS) != 0 {
            return None;
        }
        let pages = first << COUNT_BITS | count;
        // Acquire: meets the Release in `Guard::drop`, so that the spot is whole again.
        let enter = |spot: &&Spot| spot.pages.compare_exchange(0, pages, Ordering::Acquire, Ordering::Relaxed).is_ok();
        TABLE.iter().find(enter).map(Self)
    }

    /// Fails if a page of the map was ever lost.
    ///
    /// A store that met a lost page has told so before it came to its end. Whoever sees what a thread published after
    /// its stores therefore sees here that they went nowhere.
    pub(crate) fn check(&self) -> io::Result<()> {
        if self.0.broken.load(Ordering::Acquire) {
            let reason = "SIGBUS: a page of the memory map was lost, because the file was cut off or its device \
                          failed; what was stored there since the last checkpoint is gone";
            return Err(io::Error::other(reason));
        }
        Ok(())
    }
}

impl Drop for Guard {
    fn drop(&mut self) {
        self.0.broken.store(false, Ordering::Relaxed);
        // Release: whoever takes the spot next finds it whole.
        self.0.pages.store(0, Ordering::Release);
    }
}

#[derive(Debug)]
struct Spot {
    pages: AtomicU64,
    broken: AtomicBool,
}

static TABLE: [Spot; SPOTS] = [const { Spot { pages: AtomicU64::new(0), broken: AtomicBool::new(false) } }; SPOTS];

/// Notes that the map which holds `address` is broken; false if none does. Async-signal-safe.
fn breaks(address: usize) -> bool {
    let page = address as u64 >> PAGE_BITS;
    let holds = |spot: &&Spot| {
        // Acquire: the thread that touches a map has got it from the one that entered it here.
        let pages = spot.pages.load(Ordering::Acquire);
        let (first, count) = (pages >> COUNT_BITS, pages & ((1 << COUNT_BITS) - 1));
        page >= first && page - first < count
    };
    // Release: whoever sees the flag may rely on nothing; the other way round, see `Guard::check`.
    TABLE.iter().find(holds).map(|spot| spot.broken.store(true, Ordering::Release)).is_some()
}

type Inform = extern "C" fn(c_int, *mut libc::siginfo_t, *mut c_void);
type Tell = extern "C" fn(c_int);

/// Who handled SIGBUS before. Set before the handler is installed, and never changed.
static BEFORE: OnceLock<libc::sigaction> = OnceLock::new();
static PAGE_BYTES: AtomicUsize = AtomicUsize::new(4096);

/// Installs the handler, once for the process. It stays: others may have put theirs before it since.
pub(crate) fn install() -> io::Result<()> {
    static INSTALLED: Mutex<bool> = Mutex::new(false);
    let mut installed = INSTALLED.lock().unpoisoned();
    if *installed {
        return Ok(());
    }
    PAGE_BYTES.store(rustix::param::page_size(), Ordering::Relaxed);
    let before = exchange(None)?;
    // The handler may run before the call below has returned, and must know to whom it passes on what is not ours.
    let _ = BEFORE.set(before);
    let mut ours = before;
    ours.sa_sigaction = on_lost_page as Inform as usize;
    // The stack of the thread may be what is lost.
    ours.sa_flags = libc::SA_SIGINFO | libc::SA_ONSTACK;
    // SAFETY: the set is good for writing.
    unsafe { libc::sigemptyset(&raw mut ours.sa_mask) };
    exchange(Some(&ours))?;
    *installed = true;
    Ok(())
}

/// Sets what is done about SIGBUS, if something is given, and returns what was done before.
fn exchange(action: Option<&libc::sigaction>) -> io::Result<libc::sigaction> {
    let mut before = MaybeUninit::<libc::sigaction>::uninit();
    // SAFETY: both pointers are null or good for the call; the handler that is set is async-signal-safe.
    match unsafe { libc::sigaction(libc::SIGBUS, action.map_or(ptr::null(), ptr::from_ref), before.as_mut_ptr()) } {
        // SAFETY: the call filled it.
        0 => Ok(unsafe { before.assume_init() }),
        _ => Err(io::Error::last_os_error()),
    }
}

extern "C" fn on_lost_page(signal: c_int, info: *mut libc::siginfo_t, context: *mut c_void) {
    // The interrupted thread may be about to look at it.
    // SAFETY: the pointer is this thread's own, good as long as the thread.
    let errno = unsafe { *libc::__errno_location() };
    // SAFETY: with SA_SIGINFO the kernel passes a siginfo_t, whose address is set for every SIGBUS that is a fault.
    let (code, address) = unsafe { ((*info).si_code, (*info).si_addr().addr()) };
    // BUS_MCEERR_AO tells of a page that nobody touches just now, and of which nothing has to be replaced.
    let is_fault = matches!(code, libc::BUS_ADRERR | libc::BUS_MCEERR_AR);
    if !(is_fault && breaks(address) && replace_page(address)) {
        pass_on(signal, code, info, context);
    }
    // SAFETY: as above.
    unsafe { *libc::__errno_location() = errno };
}

/// Puts a page of zeros, which belongs to no file, where `address` is. Async-signal-safe.
fn replace_page(address: usize) -> bool {
    let bytes = PAGE_BYTES.load(Ordering::Relaxed);
    let page = ptr::with_exposed_provenance_mut(address / bytes * bytes);
    let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_FIXED | libc::MAP_NORESERVE;
    // SAFETY: the page lies in a map of ours, which lives as long as anybody touches it, as this thread does.
    let mapped = unsafe { libc::mmap(page, bytes, libc::PROT_READ | libc::PROT_WRITE, flags, -1, 0) };
    mapped == page
}

/// Does what would have been done without us.
fn pass_on(signal: c_int, code: c_int, info: *mut libc::siginfo_t, context: *mut c_void) {
    let Some(before) = BEFORE.get() else { return };
    let is_sent = code <= 0;
    match before.sa_sigaction {
        libc::SIG_IGN if is_sent => {}
        // A fault can't be ignored. Back at its instruction, the thread meets it again, now without a handler.
        libc::SIG_DFL | libc::SIG_IGN => {
            // SAFETY: all zeros are a sigaction, which says SIG_DFL.
            let default = unsafe { MaybeUninit::<libc::sigaction>::zeroed().assume_init() };
            // SAFETY: the pointers are good for the call, and both calls are async-signal-safe.
            unsafe { libc::sigaction(signal, &raw const default, ptr::null_mut()) };
            if is_sent {
                // SAFETY: as above; the signal waits until this handler returns.
                unsafe { libc::raise(signal) };
            }
        }
        handler if before.sa_flags & libc::SA_SIGINFO != 0 => {
            // SAFETY: with SA_SIGINFO, it was installed as a function of this type.
            let inform = unsafe { transmute::<usize, Inform>(handler) };
            inform(signal, info, context);
        }
        handler => {
            // SAFETY: without SA_SIGINFO, and neither SIG_DFL nor SIG_IGN, it was installed as a function of this
            // type.
            let tell = unsafe { transmute::<usize, Tell>(handler) };
            tell(signal);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_is_found_in_its_map_and_nowhere_else() {
        // Nothing is mapped there; only the table is asked.
        let start = 0x7000_0000_0000_usize;
        let at = |page: usize| start + (page << PAGE_BITS);
        let guard = Guard::over(std::ptr::without_provenance(start), (3 << PAGE_BITS) - 100).expect("a spot");
        assert!(!breaks(at(0) - 1) && !breaks(at(3)) && !breaks(0));
        guard.check().unwrap();
        assert!(breaks(at(2) + 4000));
        assert!(guard.check().unwrap_err().to_string().contains("SIGBUS"));
        drop(guard);
        assert!(!breaks(at(1)));
        let again = Guard::over(std::ptr::without_provenance(start), 1).expect("a spot");
        again.check().expect("a new map is whole");
    }

    #[test]
    fn what_the_table_cannot_say_is_not_guarded() {
        let over = |start: u64, len: usize| Guard::over(std::ptr::without_provenance(start as usize), len);
        assert!(over(0x7100_0000_0000, 0).is_none());
        assert!(over(0x7100_0000_0000, 1 << 40).is_none());
        assert!(over(1 << 48, 4096).is_none());
        assert!(over((1 << 48) - 4096, 4096).is_some());
    }
}
