//! Folders: of NDTiff, of OME-TIFF, of Micro-Manager's files of one image each, or of any TIFF files.

use std::path::{Path, PathBuf};

use super::axes::Axes;
use super::files::stays_inside;
use super::listing::{name_some, names, tiff_files_of, with_ending};
use super::options::{refuse_option, refuse_raw_options};
use super::recording::FrameSource;
use super::single_images::{self, NamedPosition};
use super::tiff::Asked;
use super::tiff::planes::{PlaneReader, RecordingFacts};
use super::tiff::stack::Stack;
use super::why::refused;
use super::{ndtiff, positions, tiff, zarr};
use shardwright::words::{HAS, count_that};

use crate::args::{RecordingArgs, Series};
use crate::failure::{Failure, Fault};
use shardwright::offline::is_dataset;

/// Folders that an error message names.
const FOLDERS_MAX: usize = 9;

/// Opens a folder as what is in it.
pub(crate) fn open(path: &Path, args: &RecordingArgs, series: Option<Series>) -> Result<Box<dyn FrameSource>, Failure> {
    if has_index(path) {
        return open_ndtiff(path, path, args, series);
    }
    let is_zarr = is_dataset(path);
    let names = if is_zarr { Vec::new() } else { names(path)? };
    let files = tiff_files_of(path, &names);
    if let [companion] = &with_ending(path, &names, ".companion.ome")[..] {
        refuse_raw_options(args, "OME-XML")?;
        stays_inside(path, companion).map_err(|why| refused(companion, why))?;
        return Ok(Box::new(tiff::open_companion(companion, Asked { series, folder: &files })?));
    }
    for file in &files {
        stays_inside(path, file).map_err(|why| refused(file, why))?;
    }
    if files.is_empty() {
        let opened = zarr::Zarr::open(path, &args.axes);
        refuse_option("--series", series.is_some() && opened.is_ok(), "a Zarr array")?;
        let none = |message| Failure::Known { fault: Fault::NotFound, message, path: Some(path.to_path_buf()) };
        let nested = if is_zarr || opened.is_ok() { Vec::new() } else { folders_of_files(path, &names) };
        if let [only] = &nested[..]
            && has_index(only)
        {
            return open_ndtiff(path, only, args, series);
        }
        if !nested.is_empty()
            && let Some(found) = positions::open(path, &nested, series)?
        {
            refuse_raw_options(args, "a folder of positions")?;
            return Ok(Box::new(found));
        }
        return match opened {
            Err(_) if !nested.is_empty() => Err(none(name_nested(path, &nested))),
            Err(_) if !is_zarr && !has_folders(path) => {
                let why = "holds no recording: no TIFF files, no NDTiff.index, no .companion.ome and no Zarr array";
                Err(none(format!("{} {why}", path.display())))
            }
            opened => Ok(Box::new(opened?)),
        };
    }
    refuse_raw_options(args, "a folder of TIFF files")?;
    let places: Vec<_> = files.iter().filter_map(|file| NamedPosition::of(file)).collect();
    let found = if places.is_empty() {
        match tiff::open_set(&files, series)? {
            Some(planes) => return Ok(Box::new(planes)),
            None => sequence(files, series)?,
        }
    } else {
        refuse_others(path, &files)?;
        single_images::find(path, files, &places, series)?
    };
    Ok(Box::new(PlaneReader::new(found)?))
}

/// Refuses files beside Micro-Manager's single images whose names do not say which plane they are.
fn refuse_others(path: &Path, files: &[PathBuf]) -> Result<(), Failure> {
    let others: Vec<_> = files.iter().filter(|file| NamedPosition::of(file).is_none()).collect();
    if others.is_empty() {
        return Ok(());
    }
    let (folder, others) = (path.display(), name_some(&others));
    let why = format!("{folder} holds single images of Micro-Manager, and TIFF files that are none of them: {others}");
    Err(refused(path, format!("{why}; move these away")))
}

fn has_index(folder: &Path) -> bool {
    folder.join(ndtiff::INDEX).is_file()
}

/// Opens NDTiff in a folder, which is the one that was named or lies in it.
fn open_ndtiff(
    named: &Path,
    folder: &Path,
    args: &RecordingArgs,
    series: Option<Series>,
) -> Result<Box<dyn FrameSource>, Failure> {
    let index = folder.join(ndtiff::INDEX);
    refuse_raw_options(args, "NDTiff")?;
    stays_inside(named, &index).map_err(|why| refused(&index, why))?;
    Ok(Box::new(ndtiff::open(&index, series)?))
}

/// Whether there are folders in a folder, as arrays of some formats have them below it.
fn has_folders(path: &Path) -> bool {
    std::fs::read_dir(path).is_ok_and(|entries| entries.flatten().any(|entry| entry.path().is_dir()))
}

/// The folders among these in which there are files of a recording.
fn folders_of_files(path: &Path, names: &[String]) -> Vec<PathBuf> {
    let is_of_recording = |name: &str| {
        name == ndtiff::INDEX || [".tif", ".tiff"].iter().any(|ending| name.to_ascii_lowercase().ends_with(ending))
    };
    let has_files = |folder: &PathBuf| {
        let entries = std::fs::read_dir(folder).into_iter().flatten().flatten();
        entries.filter_map(|entry| entry.file_name().into_string().ok()).any(|name| is_of_recording(&name))
    };
    names.iter().map(|name| path.join(name)).filter(has_files).collect()
}

/// That recordings are in folders of a folder, as positions of Micro-Manager's are, and what to call.
fn name_nested(path: &Path, folders: &[PathBuf]) -> String {
    let named: Vec<_> = folders.iter().take(FOLDERS_MAX).map(|folder| folder.display().to_string()).collect();
    let more = if folders.len() > FOLDERS_MAX { ", …" } else { "" };
    let named = named.join(", ");
    format!("{} holds no recording itself, but its folders do; replay one of them: {named}{more}", path.display())
}

/// The pages of all files, one after the other.
fn sequence(files: Vec<PathBuf>, series: Option<Series>) -> Result<RecordingFacts, Failure> {
    refuse_option("--series", series.is_some(), "a folder of TIFF files")?;
    let (mut planes, mut notes, mut defect) = (Vec::new(), Vec::new(), None);
    for (file, path) in files.iter().enumerate() {
        let mut stack = Stack::open(path)?;
        if tiff::is_of_set(&stack)? {
            let (first, path) = (files[0].display(), path.display());
            let why = format!("{first} is no part of the set of files to which {path} belongs; replay one of the two");
            return Err(refused(&files[0], why));
        }
        for page in stack.full_pages() {
            planes.push(Some(stack.plane(file, page)?));
        }
        notes.extend(stack.notes());
        defect = stack.defect.take();
        if defect.is_some() {
            break;
        }
    }
    notes.sort_unstable();
    notes.dedup();
    if planes.len() > files.len() {
        notes.push(format!(
            "the {} {} pages, which become one time axis",
            count_that(files.len(), "file", HAS),
            planes.len()
        ));
    }
    Ok(RecordingFacts { axes: Axes::movie(planes.len() as u64), files, planes, notes, defect, series: vec![0] })
}
