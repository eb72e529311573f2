//! What can't be done with a run in parts before it is finished.

use std::path::Path;

use crate::error::{Error, Result};
use crate::format::part::Parts;
use crate::replaceable::unfinished_parts;

/// Refuses a run in parts that is not finished, for whoever wants it as a whole: the image, or its array.
pub(super) fn refuse_unfinished_parts(root: &Path) -> Result<()> {
    let array = root.parent().filter(|_| root.ends_with("0"));
    match [Some(root), array].into_iter().flatten().find_map(unfinished_parts) {
        Some(parts) => Err(Error::unfinished(root, unfinished(parts))),
        None => Ok(()),
    }
}

/// Refuses a part, or its run, when shards are being moved from the one to the other.
pub(super) fn refuse_moving(root: &Path) -> Result<()> {
    let run = root.parent().and_then(Path::parent);
    match [Some(root), run].into_iter().flatten().find_map(unfinished_parts).filter(|parts| parts.finishing) {
        Some(parts) => Err(Error::unfinished(root, unfinished(parts))),
        None => Ok(()),
    }
}

/// What to say of such a run.
pub(super) fn unfinished(parts: Parts) -> String {
    match parts.finishing {
        true => "is a run in parts that `shardwright finish` was putting together; call it again".to_owned(),
        false => format!(
            "is a run in {} parts, which `shardwright finish` puts together when all have ended; until then, each is \
             a dataset by itself, in the folder parts",
            parts.of
        ),
    }
}
