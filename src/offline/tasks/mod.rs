//! Operations in parts, for many machines: a plan is written to a file, any scheduler runs its tasks, and one last call
//! is the operation itself, which takes what they have made or found in place of doing it.
//!
//! There is no scheduler here. A task is a line of JSON and may be run twice: what it makes follows from its line and
//! from the files that this names, and is published once, by a link, which never replaces anything. What dies
//! leaves a file that nobody looks at, and that the last call removes.

mod file;
mod finish;
mod finished;
mod look;
mod plan;
mod receipt;
mod run;

pub use file::TaskName;
pub use finish::{FinishTasks, TasksReport, TasksSummary};
pub use plan::TaskPlan;
pub use receipt::{TaskOutcome, TaskReceipt};
pub use run::{RunTasks, TaskOptions};
