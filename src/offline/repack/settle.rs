//! What documents say of arrays that have changed: those of the groups in the dataset, and of one around an array that
//! is repacked by its own path.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use super::groups::Group;
use super::jobs::{Form, Job};
use super::staging::{below, is_behind_link};
use super::{Repack, consolidated, documents, zarr2_tree};
use crate::error::Result;

impl Repack {
    /// The groups that are part of the result at `root`: where a link was copied, what it leads to is not changed.
    pub(super) fn groups_in<'a>(&'a self, root: &'a Path) -> impl Iterator<Item = &'a Group> {
        let is_copy = root != self.root;
        self.groups.iter().filter(move |group| !(is_copy && is_behind_link(root, &group.name)))
    }

    /// Corrects what groups in the dataset at `root` say of arrays that have changed.
    pub(super) fn put_groups(&self, root: &Path) -> Result<()> {
        for job in &self.jobs {
            let array = job.change.source.path().strip_prefix(&self.root).unwrap_or(Path::new(""));
            job.given_up.settle_records(root, array)?;
            let mut document = job.document.clone();
            if job.in_place && documents::forget_slots_of_level(&mut document, job) && document != job.document {
                documents::put(&below(root, &job.name).join("zarr.json"), &document)?;
            }
        }
        match self.form {
            Form::Zarr3 => self.groups_in(root).try_for_each(|group| group.put(root, &self.jobs))?,
            Form::Zarr2 => zarr2_tree::put_groups(root, &self.groups_in(root).collect::<Vec<_>>(), &self.jobs)?,
            Form::Kept => self.put_said(root)?,
            Form::Designed => {}
        }
        if root == self.root { self.put_around() } else { Ok(()) }
    }

    /// Corrects what is said of the arrays in documents of the dataset, of which `root` is the old one's place or the
    /// new one's.
    fn put_said(&self, root: &Path) -> Result<()> {
        for (document, jobs) in self.said()? {
            if let Ok(below) = document.strip_prefix(&self.root) {
                documents::forget_slots_in(&root.join(below), &jobs)?;
            }
        }
        Ok(())
    }

    /// The same of what is said around an array that is repacked by its own path, and in the records beside it.
    pub(super) fn put_around(&self) -> Result<()> {
        for (document, jobs) in self.said()?.iter().filter(|(document, _)| !document.starts_with(&self.root)) {
            documents::forget_slots_in(document, jobs)?;
            let (Some(group), [job]) = (document.parent(), &jobs[..]) else { continue };
            if let Ok(array) = job.change.source.path().strip_prefix(group) {
                job.given_up.settle_records(group, array)?;
            }
        }
        Ok(())
    }

    /// The documents in which this crate's writer speaks of the arrays, and of which.
    fn said(&self) -> Result<BTreeMap<PathBuf, Vec<&Job>>> {
        let mut documents: BTreeMap<PathBuf, Vec<&Job>> = BTreeMap::new();
        for job in self.jobs.iter().filter(|job| job.change.source.is_image()) {
            if let Some((document, _)) = job.change.source.said()? {
                documents.entry(document).or_default().push(job);
            }
        }
        Ok(documents)
    }

    /// Corrects what the groups in `tree` say of an array that keeps its place among others.
    pub(super) fn refresh_around(&self, tree: &Path) -> Result<()> {
        let names = self.jobs.iter().filter_map(|job| job.change.design.as_ref()?.stays());
        for name in names {
            self.put_said(tree)?;
            let place = below(tree, name);
            let groups = place.ancestors().skip(1).take_while(|above| above.starts_with(tree));
            groups.into_iter().try_for_each(consolidated::put_zarr2)?;
        }
        Ok(())
    }
}
