//! Of a dataset that lost chunks, no copy may look whole.

use super::jobs::Job;
use crate::error::{Error, Result};

/// Refuses arrays that hold fewer chunks than their writer counted.
pub(super) fn refuse(jobs: &[Job]) -> Result<()> {
    for job in jobs {
        let source = &job.change.source;
        if let Some(lost) = job.change.pool.install(|| source.lost())? {
            let help = "bring them back, or give them up with the option `incomplete`";
            return Err(Error::format(source.path(), format!("{lost}; {help}")));
        }
    }
    Ok(())
}
