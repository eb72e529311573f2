//! The calls of the operating system for which the standard library has no name: Linux.
//!
//! Another system is another file with these functions. What it lacks it says by the answers that are documented here:
//! each caller does without.
#![allow(unsafe_code)]

use std::fs::{self, File, Metadata, OpenOptions};
use std::io::{self, IoSlice};
use std::os::fd::AsRawFd;
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::thread;
use std::time::{Duration, Instant};

use rustix::fs::{Advice, CWD, FallocateFlags, FlockOperation, OFlags, RenameFlags, SeekFrom};
use rustix::fs::{fallocate, flock, renameat_with};
use rustix::io::{Errno, retry_on_intr};
use rustix::process::{Resource, getrlimit};

pub(crate) use std::os::unix::fs::FileExt;
#[cfg(feature = "offline")]
pub(crate) use std::os::unix::fs::symlink;

/// The unit of memory maps, of holes and of writes past the page cache.
const PAGE: u64 = super::memory::PAGE as u64;

const UNSUPPORTED: [Errno; 2] = [Errno::OPNOTSUPP, Errno::NOSYS];

/// Whether an error says that the file system, or the kernel, has no such call.
pub(crate) fn is_unsupported(error: &io::Error) -> bool {
    error.raw_os_error().is_some_and(|code| UNSUPPORTED.iter().any(|errno| errno.raw_os_error() == code))
}

/// Whether a call was made; one of the `answers` is no error, but a no.
fn unless(answers: &[Errno], made: rustix::io::Result<()>) -> io::Result<bool> {
    match made {
        Err(error) if answers.contains(&error) => Ok(false),
        made => Ok(made.map(|()| true)?),
    }
}

/// Whether an error says that there is no room: a quota is a small disk.
pub(crate) fn is_no_room(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded)
}

/// Whether an error says that the system can't reach the memory that was given: what a device has mapped, say.
pub(crate) fn is_out_of_reach(error: &io::Error) -> bool {
    error.raw_os_error() == Some(Errno::FAULT.raw_os_error())
}

/// The error of a full disk, for one that is foreseen.
pub(crate) fn no_room() -> io::Error {
    Errno::NOSPC.into()
}

/// The same of this kind: of a quota that is used up, or of a full disk.
pub(crate) fn no_room_of(kind: io::ErrorKind) -> io::Error {
    if kind == io::ErrorKind::QuotaExceeded { Errno::DQUOT.into() } else { no_room() }
}

/// A file system, by its number in statfs(2).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct FileSystem(u64);

impl FileSystem {
    const EXT4: Self = Self(0xEF53);
    const XFS: Self = Self(0x5846_5342);
    const TMPFS: Self = Self(0x0102_1994);
    /// Copy on write (btrfs, bcachefs, ZFS) and network (NFS, SMB, FUSE, Ceph, 9P, Lustre, GPFS, BeeGFS).
    const UNSAFE_TO_MAP: [u64; 12] = [
        0x9123_683E,
        0xCA45_1A4E,
        0x2FC1_2FC1,
        0x6969,
        0xFF53_4D42,
        0xFE53_4D42,
        0x6573_5546,
        0x00C3_6400,
        0x0102_1997,
        0x0BD0_0BD0,
        0x4750_4653,
        0x1983_0326,
    ];

    pub(crate) fn at(path: &Path) -> io::Result<Self> {
        Ok(Self(rustix::fs::statfs(path)?.f_type as u64))
    }

    pub(crate) fn of(file: &File) -> io::Result<Self> {
        Ok(Self(rustix::fs::fstatfs(file)?.f_type as u64))
    }

    /// Whether its files are memory, which no way of writing passes by.
    pub(crate) fn is_memory(self) -> bool {
        self == Self::TMPFS
    }

    /// Whether a store into a preallocated, mapped range can't fail. On copy-on-write file systems it can (a full disk
    /// then kills the process by SIGBUS), on network ones at any time.
    pub(crate) fn is_safe_to_map(self) -> bool {
        [Self::EXT4, Self::XFS, Self::TMPFS].contains(&self)
    }

    /// Whether reserved room is no promise: a full disk, or a lost connection, would kill a process that has a map.
    pub(crate) fn is_unsafe_to_map(self) -> bool {
        Self::UNSAFE_TO_MAP.contains(&self.0)
    }

    /// Whether one direct write beyond the end moves the end once. Others take the flag and do it otherwise: tmpfs page
    /// by page, Btrfs with the length first.
    pub(crate) fn extends_at_once(self) -> bool {
        [Self::EXT4, Self::XFS].contains(&self)
    }
}

/// Bytes that are free for this process where the file is; `None` where the file system doesn't say.
pub(crate) fn free_bytes(file: &File) -> io::Result<Option<u64>> {
    let state = rustix::fs::fstatvfs(file)?;
    Ok((state.f_blocks > 0).then(|| state.f_bavail.saturating_mul(state.f_frsize)))
}

/// Refuses a length beyond the process's limit (`ulimit -f`), which would be answered with a signal that ends it.
pub(crate) fn check_file_limit(len: u64) -> io::Result<()> {
    match getrlimit(Resource::Fsize).current {
        Some(most) if most < len => Err(Errno::FBIG.into()),
        _ => Ok(()),
    }
}

/// How many files this process may have open; `None`: any number.
pub(crate) fn open_files_max() -> Option<u64> {
    getrlimit(Resource::Nofile).current
}

/// Makes a file `len` bytes long, all of which have their room on the disk.
///
/// A signal may interrupt the call, which on a tmpfs then takes back all that it has done: the pieces become smaller
/// until one passes between two signals.
pub(crate) fn reserve(file: &File, len: u64) -> io::Result<()> {
    let (mut start, mut piece) = (0, len);
    while start < len {
        match fallocate(file, FallocateFlags::empty(), start, piece.min(len - start)) {
            Ok(()) => start += piece,
            Err(Errno::INTR) => piece = (piece / 2).next_multiple_of(PAGE),
            Err(error) => return Err(error.into()),
        }
    }
    Ok(())
}

/// Takes room on the disk for a range, within a file or behind its end, which stays where it is; false where there is
/// no call for it.
pub(crate) fn reserve_range(file: &File, at: u64, len: u64) -> io::Result<bool> {
    unless(&UNSUPPORTED, retry_on_intr(|| fallocate(file, FallocateFlags::KEEP_SIZE, at, len)))
}

/// Makes a range read as zeros and gives back its whole blocks; false where the file system has no holes.
pub(crate) fn punch(file: &File, at: u64, len: u64) -> io::Result<bool> {
    let flags = FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE;
    unless(&UNSUPPORTED, retry_on_intr(|| fallocate(file, flags, at, len)))
}

/// As [`punch`], for the whole pages in a range.
pub(crate) fn give_back(file: &File, at: u64, len: u64) -> io::Result<bool> {
    let (start, end) = (at.next_multiple_of(PAGE), (at + len) / PAGE * PAGE);
    if start < end { punch(file, start, end - start) } else { Ok(true) }
}

/// Where data may start at or after `at`; `None` where nothing but a hole follows.
pub(crate) fn data_from(file: &File, at: u64) -> io::Result<Option<u64>> {
    match rustix::fs::seek(file, SeekFrom::Data(at)) {
        Ok(data) => Ok(Some(data)),
        Err(Errno::NXIO) => Ok(None),
        Err(error) => Err(error.into()),
    }
}

/// Whether a device could not read what is on it.
pub(crate) fn is_of_device(error: &io::Error) -> bool {
    error.raw_os_error() == Some(rustix::io::Errno::IO.raw_os_error())
}

/// Whether links lead round and round, and to nothing.
pub(crate) fn is_loop(error: &io::Error) -> bool {
    error.raw_os_error() == Some(rustix::io::Errno::LOOP.raw_os_error())
}

/// Bytes of the disk that a file takes.
pub(crate) fn disk_bytes(metadata: &Metadata) -> u64 {
    metadata.blocks().saturating_mul(512)
}

/// When a file was changed last, in seconds and nanoseconds.
pub(crate) fn modified(metadata: &Metadata) -> (i64, i64) {
    (metadata.mtime(), metadata.mtime_nsec())
}

/// Lets `to` share all blocks of `from`, until one of them is written to; false where the file system can't.
pub(crate) fn share_blocks(from: &File, to: &File) -> bool {
    rustix::fs::ioctl_ficlone(to, from).is_ok()
}

/// Writes some bytes of the slices at `offset`, and returns how many.
pub(crate) fn write_vectored_at(file: &File, slices: &[IoSlice], offset: u64) -> io::Result<usize> {
    Ok(rustix::io::pwritev(file, slices, offset)?)
}

/// A second descriptor that passes the page cache by; `None` where the file system has no such thing.
pub(crate) fn open_direct(path: &Path) -> Option<File> {
    OpenOptions::new().write(true).custom_flags(OFlags::DIRECT.bits().cast_signed()).open(path).ok()
}

/// One write past the page cache, which is on the device before anything is that the file system notes from now on, as
/// a new name. Beyond the file's end, it moves the end once. `None` where there is no such thing, or where the device
/// wants more than pages. `direct`: a descriptor for that, where there is one already.
pub(crate) fn write_in_order(file: &File, direct: Option<&File>, at: u64, bytes: &[u8]) -> io::Result<Option<usize>> {
    let pages = at.is_multiple_of(PAGE) && (bytes.len() as u64).is_multiple_of(PAGE);
    if !pages || !FileSystem::of(file)?.extends_at_once() {
        return Ok(None);
    }
    // By its descriptor: its name may be another file's by now.
    let opened = if direct.is_none() { open_direct(&descriptor_path(file)) } else { None };
    let Some(direct) = direct.or(opened.as_ref()) else { return Ok(None) };
    let mut aligned = memmap2::MmapMut::map_anon(bytes.len())?;
    aligned.copy_from_slice(bytes);
    match retry_on_intr(|| rustix::io::pwrite(direct, &aligned, at)) {
        Ok(written) => Ok(Some(written)),
        Err(Errno::INVAL) => Ok(None),
        Err(error) => Err(error.into()),
    }
}

/// Fails if something that was written to the file, by whomever, could not be brought to the device, and this
/// descriptor was not told yet. What is on its way is waited for; nothing is synced.
pub(crate) fn check_written(file: &File) -> io::Result<()> {
    // SAFETY: the call reads its arguments, which are numbers.
    match unsafe { libc::sync_file_range(file.as_raw_fd(), 0, 0, libc::SYNC_FILE_RANGE_WAIT_BEFORE) } {
        0 => Ok(()),
        _ => Err(io::Error::last_os_error()),
    }
}

/// Brings everything to the device that was written to the file system of `file`. Fails where the system would not tell
/// that it could not be (Linux before 5.8).
pub(crate) fn sync_file_system(file: &File) -> io::Result<()> {
    let system = rustix::system::uname();
    let release = system.release().to_str().unwrap_or_default();
    let mut numbers = release.split(['.', '-']).map_while(|part| part.parse::<u32>().ok());
    if (numbers.next(), numbers.next()) < (Some(5), Some(8)) {
        return Err(io::ErrorKind::Unsupported.into());
    }
    Ok(rustix::fs::syncfs(file)?)
}

/// Drops a file's clean pages from the page cache; best effort: cameras and readers have better uses for the memory.
pub(crate) fn forget_cached(file: &File) {
    forget_cached_range(file, 0, 0);
}

/// The same for a range; `len` 0: all behind `at`.
pub(crate) fn forget_cached_range(file: &File, at: u64, len: u64) {
    let _ = rustix::fs::fadvise(file, at, std::num::NonZeroU64::new(len), Advice::DontNeed);
}

/// Renames without replacing anything. Where the file system has no such rename, the caller's lock keeps others from
/// the name.
pub(crate) fn rename_new(from: &Path, to: &Path) -> io::Result<()> {
    match renameat_with(CWD, from, CWD, to, RenameFlags::NOREPLACE) {
        Err(Errno::INVAL | Errno::NOSYS) if fs::symlink_metadata(to).is_ok() => Err(Errno::EXIST.into()),
        Err(Errno::INVAL | Errno::NOSYS) => fs::rename(from, to),
        other => Ok(other?),
    }
}

/// Lets two files or folders change their names in one step; false where the file system can't.
pub(crate) fn exchange_names(one: &Path, other: &Path) -> io::Result<bool> {
    let exchanged = renameat_with(CWD, one, CWD, other, RenameFlags::EXCHANGE);
    unless(&[Errno::INVAL, Errno::NOSYS, Errno::OPNOTSUPP], exchanged)
}

/// Locks a file for this one holder, or for all that share it; false while others hold it otherwise.
pub(crate) fn try_lock(file: &File, exclusive: bool) -> io::Result<bool> {
    let operation =
        if exclusive { FlockOperation::NonBlockingLockExclusive } else { FlockOperation::NonBlockingLockShared };
    unless(&[Errno::WOULDBLOCK], retry_on_intr(|| flock(file, operation)))
}

/// Gives a lock back, which else lasts as long as a map of the file, or a child that has not yet called another
/// program.
pub(crate) fn unlock(file: &File) {
    let _ = flock(file, FlockOperation::Unlock);
}

/// Whether an error of [`try_lock`] says that the file system has no locks.
pub(crate) fn has_no_locks(error: &io::Error) -> bool {
    is_unsupported(error) || error.raw_os_error() == Some(Errno::NOLCK.raw_os_error())
}

/// Whether no part of a path is a link, or nothing is there; it opens no file.
pub(crate) fn has_no_links(path: &Path) -> bool {
    let flags = OFlags::PATH | OFlags::CLOEXEC;
    let found = rustix::fs::openat2(CWD, path, flags, rustix::fs::Mode::empty(), rustix::fs::ResolveFlags::NO_SYMLINKS);
    matches!(found, Ok(_) | Err(Errno::NOENT | Errno::NOTDIR))
}

/// Opens a folder, but not a link to one.
pub(crate) fn open_folder(path: &Path) -> io::Result<File> {
    let flags = OFlags::DIRECTORY | OFlags::NOFOLLOW;
    OpenOptions::new().read(true).custom_flags(flags.bits().cast_signed()).open(path)
}

/// Opens what must be a regular file; a link there is an error, and a pipe is not waited for.
pub(crate) fn open_unfollowed(options: &mut OpenOptions, path: &Path) -> io::Result<File> {
    options.custom_flags((OFlags::NOFOLLOW | OFlags::NONBLOCK).bits().cast_signed());
    past_leases(|| options.open(path))
}

/// How long who opens a file waits for another's lease on it. Our own last for a change of its end.
const LEASE_WAIT: Duration = Duration::from_secs(5);

/// Opens a file without waiting for the other end of a pipe, which is also how the kernel answers at once, with
/// `EAGAIN`, where another has a lease on a file (open(2)). That is waited for.
pub(crate) fn past_leases<T>(mut open: impl FnMut() -> io::Result<T>) -> io::Result<T> {
    let since = Instant::now();
    loop {
        match open() {
            Err(error) if error.kind() == io::ErrorKind::WouldBlock && since.elapsed() < LEASE_WAIT => {
                thread::sleep(Duration::from_millis(1));
            }
            opened => return opened,
        }
    }
}

/// A path that leads to an open file, whatever its name is by now. A container may lack it.
pub(crate) fn descriptor_path(file: &File) -> PathBuf {
    PathBuf::from(format!("/proc/self/fd/{}", file.as_raw_fd()))
}

/// The path that a program in C means by some bytes.
#[cfg(feature = "capi")]
pub(crate) fn path_of_bytes(bytes: &[u8]) -> &Path {
    use std::os::unix::ffi::OsStrExt;
    Path::new(std::ffi::OsStr::from_bytes(bytes))
}

/// Waits with nothing, whoever else opens the file for the moment waits: `Ok(false)` while it is open elsewhere. An
/// error where there are no leases.
///
/// The signal that tells of somebody who waits is one that is ignored unless a program asks for it. The one by default
/// would end the process.
pub(crate) fn try_lease(file: &File) -> io::Result<bool> {
    // From fcntl(2); the C library's crate has no name for it.
    const F_SETSIG: i32 = 10;
    // SAFETY: the call reads its arguments, which are numbers.
    if unsafe { libc::fcntl(file.as_raw_fd(), F_SETSIG, libc::SIGURG) } != 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: as above.
    if unsafe { libc::fcntl(file.as_raw_fd(), libc::F_SETLEASE, libc::F_WRLCK) } == 0 {
        return Ok(true);
    }
    match io::Error::last_os_error() {
        error if error.kind() == io::ErrorKind::WouldBlock => Ok(false),
        error => Err(error),
    }
}

pub(crate) fn end_lease(file: &File) {
    // SAFETY: the call reads its arguments, which are numbers.
    unsafe { libc::fcntl(file.as_raw_fd(), libc::F_SETLEASE, libc::F_UNLCK) };
}

/// Lets `other`, a further open description of the file behind `file`, become the same as `file`'s.
pub(crate) fn join_descriptors(other: &File, file: &File) {
    // SAFETY: both descriptors are open, and stay so: the number of `other` goes on to belong to it, and is never
    // unused between.
    let joined = unsafe { libc::dup3(file.as_raw_fd(), other.as_raw_fd(), libc::O_CLOEXEC) };
    // Without it there is no lease, and that is best effort.
    debug_assert!(joined >= 0, "both are open");
}

/// The memory that the system could give without taking it from others.
pub(crate) fn available_bytes() -> Option<u64> {
    bytes_of_memory("MemAvailable:")
}

pub(crate) fn memory_bytes() -> Option<u64> {
    bytes_of_memory("MemTotal:")
}

fn bytes_of_memory(name: &str) -> Option<u64> {
    if cfg!(miri) {
        // Miri has no files.
        return None;
    }
    let told = std::fs::read_to_string("/proc/meminfo").ok()?;
    let line = told.lines().find_map(|line| line.strip_prefix(name))?;
    Some(line.trim().strip_suffix("kB")?.trim().parse::<u64>().ok()?.saturating_mul(1024))
}

/// A file that has no name and is only in memory.
pub(crate) fn file_in_memory(bytes: &[u8]) -> io::Result<File> {
    let file = File::from(rustix::fs::memfd_create("shardwright", rustix::fs::MemfdFlags::CLOEXEC)?);
    file.write_all_at(bytes, 0)?;
    Ok(file)
}

pub(crate) fn random(bytes: &mut [u8]) -> io::Result<()> {
    let mut filled = 0;
    while filled < bytes.len() {
        filled += rustix::rand::getrandom(&mut bytes[filled..], rustix::rand::GetRandomFlags::empty())?;
    }
    Ok(())
}

/// A number that nobody can foresee.
#[cfg(feature = "offline")]
pub(crate) fn random_number() -> io::Result<u64> {
    let mut bytes = [0; 8];
    random(&mut bytes)?;
    Ok(u64::from_ne_bytes(bytes))
}

pub(crate) fn cores() -> Vec<usize> {
    core_affinity::get_core_ids().unwrap_or_default().into_iter().map(|core| core.id).collect()
}

/// Keeps this thread on a core. Best effort.
pub(crate) fn stay_on_core(id: usize) {
    core_affinity::set_for_current(core_affinity::CoreId { id });
}

/// Makes the names in a folder last.
pub(crate) fn sync_folder(path: &Path) -> io::Result<()> {
    // That of a bare name has none.
    let folder = if path.as_os_str().is_empty() { Path::new(".") } else { path };
    File::open(folder)?.sync_all()
}

/// Tells the scheduler that this thread is after throughput: when another wakes it, it must not push that one off its
/// core. Best effort.
#[cfg(not(miri))]
pub(crate) fn prefer_throughput() {
    // SAFETY: all of `sched_param` is integers, for which zeros are a value.
    let parameters: libc::sched_param = unsafe { std::mem::zeroed() };
    // SAFETY: the pointer is good for the call, which changes nothing but how this thread (0) is scheduled.
    unsafe { libc::sched_setscheduler(0, libc::SCHED_BATCH, &raw const parameters) };
}

#[cfg(miri)]
pub(crate) fn prefer_throughput() {}

/// Calls a function in each child that this process forks from now on. It may do what a signal handler may.
pub(crate) fn in_forked_children(call: unsafe extern "C" fn()) {
    // SAFETY: the function is there as long as the process is.
    unsafe { libc::pthread_atfork(None, None, Some(call)) };
}

/// Has a descriptor stand for nothing, in a child after a fork: it is not closed, because the number must not come to
/// stand for another file under the hands of who still has it. It takes no lock and no memory.
pub(crate) fn let_go_of(descriptor: i32) {
    // SAFETY: all three may be called after a fork; the path ends with a zero, and what was opened here is closed here.
    unsafe {
        let nothing = libc::open(c"/dev/null".as_ptr(), libc::O_RDWR | libc::O_CLOEXEC);
        if nothing >= 0 {
            libc::dup3(nothing, descriptor, libc::O_CLOEXEC);
            libc::close(nothing);
        }
    }
}
