//! Room on the disk that shards reserve before anybody knows how much of it they need.

use std::io;

use crate::config::Config;
use crate::dataset::Root;
use crate::error::{Error, Result, logged};
use crate::plan::Plan;
use crate::words::count;

/// What is reserved is told where it is more than one part in this many of what is free.
const PARTS: u64 = 10;

/// What to say of the room that the shards of images reserve which are about to begin, if it is much of what is free.
/// `late`: they reserve none before their first frame.
///
/// # Errors
///
/// [`Error::Io`] where their first shards have no room. Those of several images that begin `late` count as far as they
/// stay open however many frames come: others may be full, and closed, before the next one is begun.
pub(super) fn look(root: &Root, config: &Config, plans: &[&Plan], late: bool) -> Result<Option<String>> {
    let Some(free) = root.free_for_shards(config) else { return Ok(None) };
    let sum = |bytes: &dyn Fn(&Plan) -> u64| plans.iter().map(|plan| bytes(plan)).fold(0, u64::saturating_add);
    let first = sum(&|plan| if late && plan.frames_total.is_some() { 0 } else { plan.reserved_bytes(false) });
    let images = count(plans.len(), "image");
    let is_alone = plans.len() == 1;
    if first > free {
        let of = match is_alone {
            true => "its first shard reserves".to_owned(),
            false => format!("the first shards of {images} reserve"),
        };
        let when = if late { "once each image has a frame" } else { "at once" };
        let text = format!(
            "{of} {} {when}, and {} are free; smaller shards (the option `dims.shard`) reserve less",
            gigabytes(first),
            gigabytes(free)
        );
        let full = io::Error::new(io::ErrorKind::StorageFull, text);
        return Err(Error::io("reserve space for the shards of", root.path(), full));
    }
    // The next one is prepared while one is filled.
    let most = sum(&|plan| plan.reserved_bytes(true));
    if most <= free / PARTS {
        return Ok(None);
    }
    let of = if is_alone { "its shards".to_owned() } else { format!("the shards of {images}") };
    let risk = if most > free { "; a frame whose shard finds no room ends the run of its image" } else { "" };
    let note = format!(
        "{of} reserve up to {} of disk space while they are open, and {} are free{risk}; smaller shards (the option \
         `dims.shard`) reserve less",
        gigabytes(most),
        gigabytes(free)
    );
    let dataset = root.path().display();
    logged(|| match most > free {
        true => tracing::warn!(%dataset, "{note}"),
        false => tracing::info!(%dataset, "{note}"),
    });
    Ok(Some(note))
}

fn gigabytes(bytes: u64) -> String {
    let number = bytes as f64 / 1e9;
    if number < 9.95 { format!("{number:.2} GB") } else { format!("{number:.0} GB") }
}
