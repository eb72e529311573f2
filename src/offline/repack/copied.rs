//! The arrays that a new dataset has as they are. Their files are copied and not read, so what hides chunks of them is
//! looked for before.

use std::collections::HashSet;
use std::path::{Path, PathBuf};

use super::refusal::called;
use super::rest::Rest;
use crate::error::{Error, Result};
use crate::format::zarr2;
use crate::fs::links;
use crate::fs::look::{self, DEPTH_MAX};
use crate::offline::array::Array;
use crate::offline::array::files::FileAt;
use crate::offline::hierarchy::walk::{Node, NodeKind};
use crate::words::{IS, of_number};

const NAMES_MAX: usize = 5;

pub(super) struct CopiedArrays(Vec<CopiedArray>);

struct CopiedArray {
    name: String,
    path: PathBuf,
    /// `None` for one that can't be read.
    array: Option<Array>,
}

impl CopiedArrays {
    /// All arrays with chunks of their own.
    pub(super) fn among(nodes: &[Node], root: &Path) -> Self {
        let of = |node: &Node| {
            let array = match &node.kind {
                NodeKind::Array(array) if array.manifest().is_none() => Some(array.moved(root, root)),
                NodeKind::Unreadable(_) => None,
                NodeKind::Array(_) | NodeKind::Group(_) => return None,
            };
            Some(CopiedArray { name: node.name.clone(), path: node.path.clone(), array })
        };
        Self(nodes.iter().filter_map(of).collect())
    }

    /// Those of these that neither change nor are left out.
    pub(super) fn copied_by(mut self, rest: &Rest<'_>) -> Self {
        self.0.retain(|CopiedArray { path, array, .. }| {
            let folder = array.as_ref().map_or(path.as_path(), Array::folder);
            !rest.left.iter().any(|left| folder.starts_with(left))
                && !rest.changes().any(|change| change.source.path() == path)
        });
        self
    }

    /// The links among their files that have to become what they lead to.
    ///
    /// # Errors
    ///
    /// When a link leads nowhere, or out of the dataset and may not, or something else than a file or a folder stands
    /// where one has to.
    pub(super) fn links(&self, rest: &Rest<'_>) -> Result<HashSet<PathBuf>> {
        let mut links = Vec::new();
        for CopiedArray { path, array, .. } in &self.0 {
            match array {
                Some(array) => among_chunks(array, &mut links)?,
                None => below(path, 0, &mut links)?,
            }
        }
        Ok(links.into_iter().filter(|link| !rest.is_right(link)).collect())
    }

    /// Refuses a change in place of what links among the files of these lead to: what is not chosen is left alone.
    pub(super) fn refuse_shared(&self, rest: &Rest<'_>) -> Result<()> {
        for array in self.0.iter().filter_map(|copied| copied.array.as_ref()) {
            // What can't be listed is no matter of a call that leaves it alone.
            let files = array.files_and_hidden().map_or_else(|_| Vec::new(), |(files, _)| files);
            for link in links_to_chunks(array, &files) {
                let Ok(end) = link.canonicalize() else { continue };
                if rest.changes().any(|change| end.starts_with(change.source.folder())) {
                    let reason = "is a link into an array that is to change, and would lead to something else; choose \
                                  both arrays, or put a copy in the link's place";
                    return Err(Error::conflict(link, reason));
                }
            }
        }
        Ok(())
    }

    /// That chunks of them are not looked at. Those of a list are few, and tell nothing of themselves.
    pub(super) fn note(&self) -> Option<String> {
        let has_planes = |copied: &&CopiedArray| copied.array.as_ref().is_some_and(|array| array.shape().len() > 1);
        let names: Vec<_> = self.0.iter().filter(has_planes).map(|copied| called(&copied.name)).collect();
        let listed = names[..names.len().min(NAMES_MAX)].join(", ");
        let more = if names.len() > NAMES_MAX { ", …" } else { "" };
        let [are, they, their] = [IS, ["it", "they"], ["its", "their"]].map(|words| of_number(&names.len(), words));
        let note = || {
            format!(
                "{listed}{more} {are} copied as {they} {are}, and {their} chunks are not checked; verify checks them"
            )
        };
        (!names.is_empty()).then(note)
    }
}

/// Looks at the files of an array, and adds those that are links, or lie behind one.
fn among_chunks(array: &Array, links: &mut Vec<PathBuf>) -> Result<()> {
    let documents = [array.document().to_path_buf(), array.path().join(zarr2::ATTRIBUTES)];
    links.extend(documents.into_iter().filter(|document| document.is_symlink()));
    let files = array.files()?;
    for (file, _) in &files {
        if file.is_symlink() || !look::is_file(file) {
            look::open(file)?;
        }
    }
    links.extend(links_to_chunks(array, &files));
    Ok(())
}

/// The files of an array that are links, and the folders above them.
fn links_to_chunks(array: &Array, files: &[FileAt]) -> Vec<PathBuf> {
    let (mut links, mut folders) = (Vec::new(), HashSet::new());
    for (file, _) in files {
        for folder in file.ancestors().skip(1).take_while(|folder| *folder != array.folder()) {
            if !folders.insert(folder.to_path_buf()) {
                break;
            }
            links.extend(folder.is_symlink().then(|| folder.to_path_buf()));
        }
        links.extend(file.is_symlink().then(|| file.clone()));
    }
    links
}

/// The same of an array of which nobody knows which files have chunks: all that is there.
fn below(path: &Path, depth: usize, links: &mut Vec<PathBuf>) -> Result<()> {
    let is_link = path.is_symlink();
    if is_link {
        links::refuse_dangling(path)?;
        links::check(path).map_err(|reason| Error::format(path, reason))?;
        links.push(path.to_path_buf());
    }
    // The array may be a link itself. Others may lead back up.
    if (!is_link || depth == 0) && depth <= DEPTH_MAX && path.is_dir() {
        look::list(path)?.iter().try_for_each(|entry| below(entry, depth + 1, links))?;
    }
    Ok(())
}
