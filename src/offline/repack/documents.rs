//! What documents say of arrays that have changed, and how they are written.

use std::fs;
use std::path::Path;

use serde_json::Value;

use super::groups::Group;
use super::jobs::Job;
use super::staging::below;
use crate::error::{Error, Result};
use crate::format::provenance::{self, ProvenanceMut};
use crate::fs::{self as os, document};

impl Group {
    /// Writes the group's document in the dataset at `root`, if it has to say something else now.
    pub(super) fn put(&self, root: &Path, jobs: &[Job]) -> Result<()> {
        let mut document = self.document.clone();
        forget_slots(&self.name, &mut document, jobs);
        if document == self.document && !self.is_new {
            return Ok(());
        }
        let file = below(root, &self.name).join("zarr.json");
        // It may be set aside just now.
        if document::read(&file)?.is_some_and(|there| there.get("consolidated_metadata").is_none()) {
            document.as_object_mut().map(|document| document.shift_remove("consolidated_metadata"));
        }
        put(&file, &document)
    }
}

/// Takes back what the live writer said of its slots, which are gone, and of the number of its chunks.
pub(super) fn forget_slots(group: &str, document: &mut Value, jobs: &[Job]) {
    let name = if group.is_empty() { "0".to_owned() } else { format!("{group}/0") };
    let Some(job) = jobs.iter().find(|job| job.name == name) else { return };
    let Some(mut own) = ProvenanceMut::of(document) else { return };
    own.forget_layout(job.change.source.layout().rules(), job.change.target.layout().rules());
    job.settle(&mut own);
}

/// The same for a level of a pyramid, which speaks for itself. False: it is none.
pub(super) fn forget_slots_of_level(document: &mut Value, job: &Job) -> bool {
    if !document.get("attributes").is_some_and(provenance::is_level) {
        return false;
    }
    let Some(mut own) = ProvenanceMut::of(document) else { return false };
    own.forget_slots();
    job.settle(&mut own);
    true
}

/// The same in any document in which the writer speaks of these arrays.
pub(super) fn forget_slots_in(file: &Path, jobs: &[&Job]) -> Result<()> {
    let Some(before) = document::read(file)? else { return Ok(()) };
    let mut document = before.clone();
    let Some(mut own) = ProvenanceMut::of(&mut document) else { return Ok(()) };
    own.forget_slots();
    // Of several arrays, nothing says which one the writer means.
    if let [job] = jobs {
        job.settle(&mut own);
    }
    if document == before { Ok(()) } else { put(file, &document) }
}

/// As [`put`], for a document that takes the place of `old` elsewhere.
pub(crate) fn put_for(file: &Path, document: &Value, old: &Path) -> Result<()> {
    put(file, document)?;
    match fs::metadata(old) {
        Ok(old) => fs::set_permissions(file, old.permissions()).map_err(|error| Error::io("write", file, error)),
        Err(_) => Ok(()),
    }
}

/// Writes a document, and makes the folders above it.
pub(crate) fn put(file: &Path, document: &Value) -> Result<()> {
    put_bytes(file, &document::render(document))
}

/// The same with any text.
pub(super) fn put_bytes(file: &Path, bytes: &[u8]) -> Result<()> {
    if let Some(folder) = file.parent() {
        fs::create_dir_all(folder).map_err(|error| Error::io("create", folder, error))?;
    }
    os::put(file, bytes)
}
