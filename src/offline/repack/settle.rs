//! What documents say of arrays that have changed: those of the groups in the dataset, and of one around an array that
//! is repacked by its own path.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use serde_json::Value;

use super::groups::{OME, RepackedGroup, drop_empty_own};
use super::jobs::{ArrayJob, ArrayJobs, ResultForm};
use super::nodes::is_above;
use super::staging::{below, is_behind_link};
use super::{consolidated, documents};
use crate::error::Result;
use crate::format::provenance::{self, ProvenanceMut};
use crate::format::{self, zarr2, zarr3};
use crate::fs::document;

/// A dataset whose arrays are repacked, and what its documents say of them.
pub(super) struct Mentions<'a> {
    /// Where the dataset stands that is repacked.
    pub(super) root: &'a Path,
    pub(super) plan: &'a ArrayJobs,
}

impl<'a> Mentions<'a> {
    /// The groups that are part of the result at `root`: where a link was copied, what it leads to is not changed.
    pub(super) fn groups_in(&self, root: &Path) -> impl Iterator<Item = &'a RepackedGroup> {
        let is_copy = root != self.root;
        self.plan.groups.iter().filter(move |group| !(is_copy && is_behind_link(root, &group.name)))
    }

    /// Corrects what groups in the dataset at `root` say of arrays that have changed.
    pub(super) fn put_groups(&self, root: &Path) -> Result<()> {
        for job in &self.plan.jobs {
            // An image that becomes a dataset of its own has its records at the root.
            let is_moved = job.change.design.as_ref().is_some_and(|design| design.stays.is_none());
            let array = if is_moved { None } else { job.change.source.path().strip_prefix(self.root).ok() };
            let array = array.unwrap_or(Path::new(""));
            job.given_up.settle_records(root, array)?;
            let mut document = job.document.clone();
            forget_slots_of_level(&mut document, job);
            if job.in_place && document != job.document {
                documents::put(&below(root, &job.name).join(zarr3::DOCUMENT), &document)?;
            }
        }
        let jobs = &self.plan.jobs;
        match self.plan.form {
            ResultForm::Zarr3 => self.groups_in(root).try_for_each(|group| put_group(group, root, jobs))?,
            ResultForm::Zarr2 => put_zarr2_groups(root, &self.groups_in(root).collect::<Vec<_>>(), jobs)?,
            ResultForm::Kept => self.put_said(root)?,
            ResultForm::Designed => {}
        }
        if root == self.root { self.put_around() } else { Ok(()) }
    }

    /// Corrects what is said of the arrays in documents of the dataset, of which `root` is the old one's place or the
    /// new one's.
    fn put_said(&self, root: &Path) -> Result<()> {
        for (document, jobs) in self.said()? {
            if let Ok(below) = document.strip_prefix(self.root) {
                forget_slots_in(&root.join(below), &jobs)?;
            }
        }
        Ok(())
    }

    /// The same of what is said around an array that is repacked by its own path, and in the records beside it.
    pub(super) fn put_around(&self) -> Result<()> {
        for (document, jobs) in self.said()?.iter().filter(|(document, _)| !document.starts_with(self.root)) {
            forget_slots_in(document, jobs)?;
            let (Some(group), [job]) = (document.parent(), &jobs[..]) else { continue };
            if let Ok(array) = job.change.source.path().strip_prefix(group) {
                job.given_up.settle_records(group, array)?;
            }
        }
        Ok(())
    }

    /// The documents in which this crate's writer speaks of the arrays, and of which.
    fn said(&self) -> Result<BTreeMap<PathBuf, Vec<&'a ArrayJob>>> {
        let mut documents: BTreeMap<PathBuf, Vec<&'a ArrayJob>> = BTreeMap::new();
        for job in self.plan.jobs.iter().filter(|job| job.change.source.is_image()) {
            if let Some((document, _)) = job.change.source.said()? {
                documents.entry(document).or_default().push(job);
            }
        }
        Ok(documents)
    }

    /// Corrects what the groups in `tree` say of an array that keeps its place among others.
    pub(super) fn refresh_around(&self, tree: &Path) -> Result<()> {
        let mut designs = self.plan.jobs.iter().filter_map(|job| job.change.design.as_ref());
        if designs.any(|design| design.stays.is_some()) { self.put_said(tree) } else { Ok(()) }
    }
}

/// Writes a group's document in the dataset at `root`, if it has to say something else now.
fn put_group(group: &RepackedGroup, root: &Path, jobs: &[ArrayJob]) -> Result<()> {
    let mut document = group.document.clone();
    forget_slots(&group.name, &mut document, jobs);
    if document == group.document && !group.is_new {
        return Ok(());
    }
    let file = below(root, &group.name).join(zarr3::DOCUMENT);
    // It may be set aside just now.
    if document::read(&file)?.is_some_and(|there| !format::consolidated::has_field(&there)) {
        format::consolidated::take(&mut document);
    }
    documents::put(&file, &document)
}

/// Takes back what the live writer said of its slots, which are gone, and of the number of its chunks.
fn forget_slots(group: &str, document: &mut Value, jobs: &[ArrayJob]) {
    let name = if group.is_empty() { "0".to_owned() } else { format!("{group}/0") };
    let Some(job) = jobs.iter().find(|job| job.name == name) else { return };
    let Some(mut own) = ProvenanceMut::of(document) else { return };
    own.forget_layout(job.change.source.layout().rules(), job.change.target.layout().rules());
    job.settle(&mut own);
    drop_empty_own(document);
}

/// The same for a level of a pyramid, which speaks for itself.
pub(super) fn forget_slots_of_level(document: &mut Value, job: &ArrayJob) {
    if document.get("attributes").is_some_and(provenance::is_level)
        && let Some(mut own) = ProvenanceMut::of(document)
    {
        own.forget_slots();
        job.settle(&mut own);
    }
}

/// The same in any document in which the writer speaks of these arrays.
fn forget_slots_in(file: &Path, jobs: &[&ArrayJob]) -> Result<()> {
    let changed = documents::change(file, |document| {
        if let Some(mut own) = ProvenanceMut::of(document) {
            own.forget_slots();
            // Of several arrays, nothing says which one the writer means.
            if let [job] = jobs {
                job.settle(&mut own);
            }
        }
        Ok(())
    });
    changed.map(drop)
}

/// Writes the documents of an array in the folder `place`.
pub(super) fn put_zarr2_array(place: &Path, job: &ArrayJob) -> Result<()> {
    let mut said = job.document.clone();
    forget_slots_of_level(&mut said, job);
    let attributes = said["attributes"].as_object().cloned().unwrap_or_default();
    let (name, attributes) = zarr2::attributes(job.change.target.metadata(), attributes);
    documents::put(&place.join(name), &attributes)?;
    documents::put(&place.join(zarr2::ARRAY), &said["array"])
}

/// Writes the documents of all groups in the dataset at `root`, and then what they say of each other's.
fn put_zarr2_groups(root: &Path, groups: &[&RepackedGroup], jobs: &[ArrayJob]) -> Result<()> {
    for group in groups {
        let mut document = group.document.clone();
        forget_slots(&group.name, &mut document, jobs);
        let mut said = document["attributes"].as_object().cloned().unwrap_or_default();
        let ome = said.shift_remove(OME);
        let (name, attributes) = zarr2::group_attributes(ome.as_ref(), said);
        let folder = below(root, &group.name);
        documents::put(&folder.join(name), &attributes)?;
        documents::put(&folder.join(zarr2::GROUP), &zarr2::group())?;
    }
    let names = groups.iter().map(|group| &group.name).chain(jobs.iter().map(|job| &job.name));
    let names: Vec<&String> = names.collect();
    for group in groups.iter().filter(|group| format::consolidated::nodes(&group.document).is_some()) {
        let is_below = |name: &&&String| is_above(&group.name, name) && ***name != group.name;
        let within = names.iter().filter(is_below).map(|name| name[group.name.len()..].trim_start_matches('/'));
        consolidated::make_zarr2(&below(root, &group.name), within)?;
    }
    Ok(())
}
