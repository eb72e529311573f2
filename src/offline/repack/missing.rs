//! Whether an array has the chunks that its writer counted: of a dataset that lost some, no copy may look whole.

use std::collections::HashMap;
use std::path::{Path, PathBuf};

use rayon::prelude::*;

use super::jobs::Job;
use super::source_file::SourceFile;
use crate::error::{Error, Result};
use crate::format::provenance::Provenance;
use crate::offline::hierarchy::below;
use crate::offline::hierarchy::walk::Node;

/// How many chunks the writers counted, by the folders of the arrays.
pub(super) fn counted(nodes: &[Node]) -> Result<HashMap<PathBuf, u64>> {
    let mut counted = HashMap::new();
    for node in nodes.iter().filter(|node| node.unreadable().is_none()) {
        let document = node.document()?;
        // What is no provenance of this crate says nothing of chunks.
        let own = document.get("attributes").and_then(|said| Provenance::parse(&node.path, said).ok()?);
        let Some(own) = own.filter(|own| own.complete || own.recovered) else { continue };
        let image = below(&node.name, "0");
        let arrays = || nodes.iter().filter_map(|node| Some((&node.name, node.array()?)));
        let image =
            arrays().find(|(name, _)| **name == image).or_else(|| arrays().find(|(name, _)| **name == node.name));
        if let Some(((_, array), chunks)) = image.zip(own.chunks) {
            counted.insert(array.path().to_path_buf(), chunks);
        }
    }
    Ok(counted)
}

/// Refuses arrays that hold fewer chunks than were counted.
pub(super) fn refuse(jobs: &[Job], counted: &HashMap<PathBuf, u64>) -> Result<()> {
    for job in jobs {
        let source = &job.change.source;
        let path: &Path = source.path();
        let Some(&expected) = counted.get(path) else { continue };
        let positions = source.file_positions()?;
        let chunks =
            |position: &Vec<u64>| Ok(SourceFile::open(source, position)?.map_or(0, |file| file.chunks() as u64));
        let found = job.change.pool.install(|| {
            positions.par_iter().map(chunks).try_reduce(|| 0, |one: u64, other: u64| Ok::<_, Error>(one + other))
        })?;
        if found < expected {
            let reason = format!(
                "holds {found} chunks, and its writer counted {expected}: files are missing; bring them back, or give \
                 them up with the option `incomplete`"
            );
            return Err(Error::format(path, reason));
        }
    }
    Ok(())
}
