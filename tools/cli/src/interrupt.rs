//! Signals. Ctrl-C and SIGTERM: the first ends the work as it should end, the second at once.

use std::process;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use crate::console::tell;
use crate::failure::{Failure, exit};

/// So often somebody looks whether there was a signal.
const LOOK_EVERY: Duration = Duration::from_millis(20);

static INTERRUPTED: AtomicBool = AtomicBool::new(false);

/// Whether there was a signal.
pub(crate) fn interrupted() -> bool {
    INTERRUPTED.load(Ordering::Relaxed)
}

/// From now on the first signal says on stderr what is done about it.
pub(crate) fn listen(what: &'static str) -> Result<(), Failure> {
    let handler = move || {
        if INTERRUPTED.swap(true, Ordering::Relaxed) {
            process::exit(exit::INTERRUPTED.into());
        }
        tell(format_args!("\ninterrupted: {what}; once more ends at once"));
    };
    ctrlc::set_handler(handler).map_err(|error| Failure::Run(format!("can't listen for Ctrl-C: {error}")))
}

/// Runs `work`, and calls `stop` when there is a signal meanwhile.
pub(crate) fn stopping<T>(stop: impl Fn() + Sync, work: impl FnOnce() -> T) -> Result<T, Failure> {
    listen("ending, what is finished stays")?;
    let over = AtomicBool::new(false);
    Ok(thread::scope(|scope| {
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
    }))
}

/// A file that would become larger than `ulimit -f` allows shall be an error of the write, as a full disk is, and not
/// the end of the process.
#[allow(unsafe_code)]
pub(crate) fn ignore_size_limit() {
    // SAFETY: it is called before there are other threads, and no handler runs.
    unsafe { libc::signal(libc::SIGXFSZ, libc::SIG_IGN) };
}

struct SetOnDrop<'a>(&'a AtomicBool);

impl Drop for SetOnDrop<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}
