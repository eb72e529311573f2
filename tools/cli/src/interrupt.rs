//! Signals. Ctrl-C and SIGTERM: the first ends the work as it should end, the second at once.

use std::process;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, PoisonError};
use std::thread;
use std::time::Duration;

use crate::console::tell;
use crate::failure::{Failure, exit};
use shardwright::Error;
use shardwright::words::of_system;

/// So often somebody looks whether there was a signal.
const LOOK_EVERY: Duration = Duration::from_millis(20);

static INTERRUPTED: AtomicBool = AtomicBool::new(false);
/// What the first signal has the command do; `None` until there is something to end in order.
static IN_ORDER: Mutex<Option<&'static str>> = Mutex::new(None);

/// Whether there was a signal.
pub(crate) fn interrupted() -> bool {
    INTERRUPTED.load(Ordering::Relaxed)
}

/// From now on a signal ends the command with the code that is documented: at once, with `at_once`, as long as it has
/// begun nothing that has to end in order. The system's own way to end a process has another code.
pub(crate) fn begin(at_once: impl Fn() + Send + 'static) -> Result<(), Failure> {
    let handler = move || {
        // Held until the process has ended: meanwhile nothing begins.
        let in_order = IN_ORDER.lock().unwrap_or_else(PoisonError::into_inner);
        let Some(what) = *in_order else {
            at_once();
            process::exit(exit::INTERRUPTED.into());
        };
        if INTERRUPTED.swap(true, Ordering::Relaxed) {
            process::exit(exit::INTERRUPTED.into());
        }
        tell(format_args!("\ninterrupted: {what}; once more ends at once"));
    };
    let is_kept = hangup_is_ignored();
    ctrlc::set_handler(handler)
        .map_err(|error| Failure::Run(format!("can't listen for Ctrl-C: {}", of_system(error))))?;
    if is_kept {
        ignore(libc::SIGHUP);
    }
    Ok(())
}

/// From now on the first signal says on stderr what is done about it, and the command ends in order.
pub(crate) fn listen(what: &'static str) {
    *IN_ORDER.lock().unwrap_or_else(PoisonError::into_inner) = Some(what);
}

/// Runs `work`, of which what is finished stays, and calls `stop` when there is a signal meanwhile.
pub(crate) fn stopping<T>(stop: impl Fn() + Sync, work: impl FnOnce() -> T) -> T {
    listen("ending, what is finished stays");
    watching(stop, work)
}

/// The same of work of which nothing stays when it is stopped.
pub(crate) fn stopping_whole<T>(stop: impl Fn() + Sync, work: impl FnOnce() -> Result<T, Error>) -> Result<T, Failure> {
    // What comes of it is not said yet: after its last look, it ends as if there had been no signal.
    listen("ending");
    watching(stop, work).map_err(Failure::of_whole)
}

fn watching<T>(stop: impl Fn() + Sync, work: impl FnOnce() -> T) -> T {
    let over = AtomicBool::new(false);
    thread::scope(|scope| {
        scope.spawn(|| {
            while !over.load(Ordering::Relaxed) && !interrupted() {
                thread::sleep(LOOK_EVERY);
            }
            if interrupted() {
                stop();
            }
        });
        // Whatever becomes of the work, the thread that looks ends.
        let _over = SetOnDrop(&over);
        work()
    })
}

/// A file that would become larger than `ulimit -f` allows shall be an error of the write, as a full disk is, and not
/// the end of the process.
pub(crate) fn ignore_size_limit() {
    ignore(libc::SIGXFSZ);
}

/// Whether the command was started to outlive its terminal, as `nohup` does it.
#[allow(unsafe_code)]
fn hangup_is_ignored() -> bool {
    // SAFETY: `sigaction` is plain integers and a pointer, for which zeros are valid; the call only fills it.
    unsafe {
        let mut now: libc::sigaction = std::mem::zeroed();
        libc::sigaction(libc::SIGHUP, std::ptr::null(), &raw mut now) == 0 && now.sa_sigaction == libc::SIG_IGN
    }
}

#[allow(unsafe_code)]
fn ignore(signal: i32) {
    // SAFETY: no function of ours is called by it.
    unsafe { libc::signal(signal, libc::SIG_IGN) };
}

struct SetOnDrop<'a>(&'a AtomicBool);

impl Drop for SetOnDrop<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}
