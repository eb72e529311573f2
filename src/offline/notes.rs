//! What somebody should know who reads an array's pixels.

use std::fs;
use std::path::{Path, PathBuf};

use serde_json::Value;

use super::array::Array;
use super::hierarchy::central::CentralMetadata;
use super::hierarchy::{below, format_at, has_node};
use super::stale::{self, Stale};
use super::unfinished_parts::unfinished;
use crate::error::{Error, Result};
use crate::format::node::NodeFormat;
use crate::format::provenance::{self, Provenance};
use crate::format::{precomputed, zarr2, zarr3};
use crate::fs::{Lock, document, links, look};
use crate::words::{IS, count_that, of_number};

/// Of files that lie among chunks and are none, this many are named.
const NAMED_MAX: usize = 3;

/// What is to be said of the frames of a run that came to its end, or was recovered.
pub(super) fn notes_of_frames(own: &Provenance) -> Vec<String> {
    let missing = own.frames_missing;
    let missing = (missing > 0).then(|| {
        format!(
            // After a kill, or a loss that was given up, most of a frame may be there.
            "{} missing or {} chunks; what is missing reads as the fill value",
            count_that(missing, "frame", IS),
            of_number(&missing, ["lacks", "lack"])
        )
    });
    missing.into_iter().chain(own.shortfall()).collect()
}

impl Array {
    /// What a reader should know, as sentences: that a writer is at work, that frames are missing, that files lie among
    /// the chunks which are none. All of it reads as the fill value. Also that consolidated metadata around it say
    /// something else of the array than its own document.
    ///
    /// # Errors
    ///
    /// When a folder or a document can't be read.
    pub fn notes(&self) -> Result<Vec<String>> {
        let mut notes = self.notes_while(matches!(Lock::look_around(self.path()), Err(Error::Locked { .. })))?;
        notes.extend(stale::around(self.path(), &[self.path()]).into_iter().map(Stale::note));
        // What can't be read is told to those who need it.
        notes.extend(self.note_of_place().ok().flatten());
        notes.extend(self.note_of_resolution().map(|note| format!("the scale {note}")));
        Ok(notes)
    }

    /// What to say of a scale of a volume that has no resolution. It could be any, so none is taken for it.
    pub(super) fn note_of_resolution(&self) -> Option<&'static str> {
        let note =
            "has no \"resolution\" of three numbers above 0, so its volume does not say how far apart pixels are";
        self.layout().lacks_resolution().then_some(note)
    }

    /// Refuses an array whose frames are not all there yet, or can't be told from those that never came.
    ///
    /// # Errors
    ///
    /// [`Error::Locked`] while a writer is at work; [`Error::Unfinished`] when its writer did not finish and nobody has
    /// recovered what it wrote.
    pub fn check_finished(&self) -> Result<()> {
        Lock::look_around(self.path())?;
        match self.provenance()? {
            Some(own) if !own.complete && !own.recovered => {
                if let Some(parts) = own.parts {
                    return Err(Error::unfinished(self.path(), unfinished(parts)));
                }
                let reason = "its writer did not finish, so frames that are missing can't be told from dark ones; \
                              recover it first";
                Err(Error::unfinished(self.path(), reason))
            }
            _ => Ok(()),
        }
    }

    /// The same, where it is known whether a writer is `at_work`.
    pub(super) fn notes_while(&self, at_work: bool) -> Result<Vec<String>> {
        let mut notes = Vec::new();
        match self.provenance()? {
            _ if at_work => {
                notes.push("a writer is at work: frames that are not written yet read as the fill value".to_owned());
            }
            Some(Provenance { complete: false, recovered: false, parts: Some(parts), .. }) => {
                notes.push(unfinished(parts));
            }
            Some(own) if !own.complete && !own.recovered => {
                let note = "its writer did not finish: frames that are missing read as the fill value; see recover";
                notes.push(note.to_owned());
            }
            Some(own) => notes.extend(notes_of_frames(&own)),
            None => {}
        }
        let mut unknown = Vec::new();
        if self.manifest().is_none() {
            self.unknown_files(self.folder(), "", &mut unknown)?;
        }
        if !unknown.is_empty() {
            let named = unknown[..unknown.len().min(NAMED_MAX)].join(", ");
            let more = if unknown.len() > NAMED_MAX { " and others" } else { "" };
            let rest = match unknown.len() {
                1 => "lies where chunks do, and is none by its name; it is not read",
                _ => "lie where chunks do, and are none by their names; they are not read",
            };
            notes.push(format!("{named}{more} {rest}"));
        }
        Ok(notes)
    }

    /// What this crate's writer says of the array, if it made it.
    pub(super) fn provenance(&self) -> Result<Option<Provenance>> {
        let said = self.said()?;
        Ok(said.map(|(file, attributes)| Provenance::parse(&file, &attributes)).transpose()?.flatten())
    }

    /// The attributes among which a writer speaks of the array, and the document that has them.
    pub(super) fn said(&self) -> Result<Option<(PathBuf, Value)>> {
        // A path such as `.` ends in no name that could be left off.
        let whole = self.path().file_name().is_none().then(|| fs::canonicalize(self.path()).ok()).flatten();
        let parent = whole.as_deref().unwrap_or(self.path()).parent().unwrap_or(Path::new(""));
        for (file, pointer) in [
            (self.path().join(zarr2::ATTRIBUTES), ""),
            (self.document().to_path_buf(), ""),
            (self.document().to_path_buf(), "/attributes"),
            (parent.join(zarr3::DOCUMENT), "/attributes"),
            (parent.join(zarr2::ATTRIBUTES), ""),
        ] {
            // Beside a document of Zarr v3, those of Zarr v2 say nothing.
            if file.ends_with(zarr2::ATTRIBUTES) && file.parent().and_then(format_at) == Some(NodeFormat::Zarr3) {
                continue;
            }
            let Some(mut document) = document::read(&file)? else { continue };
            // A list of frames that are missing may be long, so nothing is copied.
            let attributes = document.pointer_mut(pointer).filter(|attributes| provenance::own(attributes).is_some());
            if let Some(attributes) = attributes {
                return Ok(Some((file, attributes.take())));
            }
        }
        if !self.layout().rules().central_documents {
            return Ok(None);
        }
        let Some((central, _)) = CentralMetadata::of(self.path())? else { return Ok(None) };
        let root = central.group("")?;
        Ok(provenance::own(&root.attributes).is_some().then_some((root.document, root.attributes)))
    }

    /// Files below a folder of the array that are neither its files, nor documents, nor hidden.
    fn unknown_files(&self, folder: &Path, key: &str, found: &mut Vec<String>) -> Result<()> {
        let paths = if look::is_root(folder) { look::list(folder)? } else { Vec::new() };
        for path in paths {
            let Some(name) = path.file_name().and_then(|name| name.to_str()).filter(|name| !name.starts_with('.'))
            else {
                continue;
            };
            let key = below(key, name);
            let is_document =
                name.ends_with(".json") || [precomputed::DOCUMENT, precomputed::PROVENANCE].contains(&name);
            if look::is_folder(&path) && links::check(&path).is_ok() {
                // Nodes may stand below an array of Zarr v2.
                if key.split('/').count() <= self.shape().len() && !has_node(&path) {
                    self.unknown_files(&path, &key, found)?;
                }
            } else if !is_document && self.layout().file_position(&key).is_none() {
                found.push(key);
            }
            if found.len() > NAMED_MAX {
                return Ok(());
            }
        }
        Ok(())
    }
}
