//! Folders: of NDTiff, of OME-TIFF, of Micro-Manager's files of one image each, or of any TIFF files.

use std::cmp::Ordering;
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use serde_json::Value;

use super::axes::Axes;
use super::files::{open_regular, stays_inside};
use super::options::{refuse_option, refuse_raw_options};
use super::recording::{FrameSource, named_channel};
use super::tiff::mmstack::{self, choose_position};
use super::tiff::planes::{PlaneReader, RecordingFacts};
use super::tiff::stack::Stack;
use super::why::{cannot, refused};
use super::{ndtiff, tiff, zarr};
use shardwright::words::{HAS, count_that};

use crate::args::{RecordingArgs, Series};
use crate::failure::{Failure, Fault};
use shardwright::offline::is_dataset;

/// A summary of an acquisition, with a few lines for each image.
const METADATA_BYTES_MAX: u64 = 1 << 30;

/// Folders that an error message names.
const FOLDERS_MAX: usize = 9;

/// Opens a folder as what is in it.
pub(crate) fn open(path: &Path, args: &RecordingArgs, series: Option<Series>) -> Result<Box<dyn FrameSource>, Failure> {
    let index = path.join(ndtiff::INDEX);
    if index.is_file() {
        refuse_raw_options(args, "NDTiff")?;
        stays_inside(path, &index).map_err(|why| refused(&index, why))?;
        return Ok(Box::new(ndtiff::open(&index, series)?));
    }
    let is_zarr = is_dataset(path);
    let names = if is_zarr { Vec::new() } else { names(path)? };
    let with_ending = |ending: &str| {
        let has = |name: &&String| name.to_ascii_lowercase().ends_with(ending);
        names.iter().filter(has).map(|name| path.join(name)).collect::<Vec<_>>()
    };
    if let [companion] = &with_ending(".companion.ome")[..] {
        refuse_raw_options(args, "OME-XML")?;
        stays_inside(path, companion).map_err(|why| refused(companion, why))?;
        return Ok(Box::new(tiff::open_companion(companion, series)?));
    }
    let files = [with_ending(".tif"), with_ending(".tiff")].concat();
    for file in &files {
        stays_inside(path, file).map_err(|why| refused(file, why))?;
    }
    if files.is_empty() {
        let opened = zarr::Zarr::open(path, &args.axes);
        refuse_option("--series", series.is_some() && opened.is_ok(), "a Zarr array")?;
        let none = |message| Failure::Known { fault: Fault::NotFound, message, path: Some(path.to_path_buf()) };
        let nested = if is_zarr || opened.is_ok() { Vec::new() } else { folders_of_files(path, &names) };
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
    let places: Option<Vec<_>> = files.iter().map(|file| NamedPosition::of(file)).collect();
    let found = match places {
        Some(places) => single_images(path, &files, &places, series)?,
        None => match set(&files, series)? {
            Some(planes) => return Ok(Box::new(planes)),
            None => sequence(files, series)?,
        },
    };
    Ok(Box::new(PlaneReader::new(found)?))
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

/// The names of files in a folder, numbers in them in the order of their values.
fn names(path: &Path) -> Result<Vec<String>, Failure> {
    let wrong = |error| Failure::io("list", path, &error);
    let mut names = Vec::new();
    for entry in std::fs::read_dir(path).map_err(wrong)? {
        // Hidden files are nobody's frames; macOS leaves some beside every file.
        if let Ok(name) = entry.map_err(wrong)?.file_name().into_string()
            && !name.starts_with('.')
        {
            names.push(name);
        }
    }
    names.sort_by(|one, other| natural(one, other));
    Ok(names)
}

/// `frame2` before `frame10`.
fn natural(one: &str, other: &str) -> Ordering {
    parts(one).cmp(parts(other)).then_with(|| one.cmp(other))
}

/// Runs of digits by their length without zeros and by themselves, everything else by its letters.
fn parts(text: &str) -> impl Iterator<Item = (bool, usize, &str)> {
    let mut rest = text;
    std::iter::from_fn(move || {
        let is_digit = rest.chars().next()?.is_ascii_digit();
        let end = rest.find(|c: char| c.is_ascii_digit() != is_digit).unwrap_or(rest.len());
        let (part, tail) = rest.split_at(end);
        rest = tail;
        let part = if is_digit { part.trim_start_matches('0') } else { part };
        Some((!is_digit, if is_digit { part.len() } else { 0 }, part))
    })
}

/// Files whose first one says that they are a set.
fn set(files: &[PathBuf], series: Option<Series>) -> Result<Option<PlaneReader>, Failure> {
    let stack = Stack::open(&files[0])?;
    let mentions = |word: &str| stack.description.contains(word);
    let is_set = mentions("FileName=") && mentions("UUID") || mentions("MetadataFile=");
    if !is_set && mmstack::MmIndex::of(&files[0])?.is_none() {
        return Ok(None);
    }
    tiff::open(&files[0], series).map(Some)
}

/// The pages of all files, one after the other.
fn sequence(files: Vec<PathBuf>, series: Option<Series>) -> Result<RecordingFacts, Failure> {
    refuse_option("--series", series.is_some(), "a folder of TIFF files")?;
    let (mut planes, mut notes, mut defect) = (Vec::new(), Vec::new(), None);
    for (file, path) in files.iter().enumerate() {
        let mut stack = Stack::open(path)?;
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

/// What the name of a file of one image says of it.
#[derive(Debug, Clone, PartialEq)]
struct NamedPosition {
    time: u64,
    channel: ChannelOfName,
    z: u64,
    position: u64,
}

#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
enum ChannelOfName {
    Number(u64),
    Name(String),
}

impl NamedPosition {
    /// `img_channel000_position000_time000000000_z000.tif` of Micro-Manager 2, `img_000000000_DAPI_000.tif` of 1.4.
    fn of(path: &Path) -> Option<Self> {
        let rest = path.file_stem()?.to_str()?.strip_prefix("img_")?;
        let number = |digits: &str| digits.parse::<u64>().ok();
        if let Some(rest) = rest.strip_prefix("channel") {
            let (channel, rest) = rest.split_once("_position")?;
            let (position, rest) = rest.split_once("_time")?;
            let (time, z) = rest.split_once("_z")?;
            let channel = ChannelOfName::Number(number(channel)?);
            return Some(Self { time: number(time)?, channel, z: number(z)?, position: number(position)? });
        }
        let (time, rest) = rest.split_once('_')?;
        let (channel, z) = rest.rsplit_once('_')?;
        let channel = ChannelOfName::Name(channel.to_owned());
        Some(Self { time: number(time)?, channel, z: number(z)?, position: 0 })
    }
}

/// Micro-Manager's files of one image each.
fn single_images(
    path: &Path,
    files: &[PathBuf],
    places: &[NamedPosition],
    series: Option<Series>,
) -> Result<RecordingFacts, Failure> {
    let positions: BTreeSet<u64> = places.iter().map(|place| place.position).collect();
    let position = choose_position(&positions, series, path)?;
    let here = || places.iter().enumerate().filter(|(_, place)| place.position == position);
    let channels: BTreeSet<&ChannelOfName> = here().map(|(_, place)| &place.channel).collect();
    let channels: Vec<_> = channels.into_iter().collect();
    let are_numbers = matches!(channels[..], [ChannelOfName::Number(_), ..]);
    let channel_of = |place: &NamedPosition| match &place.channel {
        ChannelOfName::Number(number) => *number,
        name => channels.iter().position(|channel| *channel == name).unwrap_or(0) as u64,
    };
    let size = |value: &dyn Fn(&NamedPosition) -> u64| {
        here().map(|(_, place)| value(place).saturating_add(1)).max().unwrap_or(1)
    };
    let sizes = [size(&channel_of), size(&|place| place.z), size(&|place| place.time)];
    let mut axes = mmstack::axes(&summary(path), sizes, position);
    if !are_numbers && channels.len() > 1 {
        let named = |channel: &&ChannelOfName| {
            if let ChannelOfName::Name(name) = channel { name.clone() } else { String::new() }
        };
        // The summary lists them in an order of its own.
        let said = |name: String| axes.channels.iter().find(|said| said.label == name).cloned().ok_or(name);
        let said = channels.iter().map(|channel| said(named(channel)).unwrap_or_else(|name| named_channel(&name)));
        axes.channels = said.collect();
    }
    let mut planes = RecordingFacts::room(&axes, files.len() as u64).map_err(|why| cannot("read", path, why))?;
    let mut notes = Vec::new();
    for (file, place) in here() {
        let stack = Stack::open(&files[file])?;
        let at = axes.outer.iter().fold(0, |at, axis| {
            at * axis.size
                + match axis.name.as_str() {
                    "c" => channel_of(place),
                    "z" => place.z,
                    _ => place.time,
                }
        });
        planes[at as usize] = Some(stack.plane(file, 0)?);
        notes.extend(stack.notes());
    }
    notes.sort_unstable();
    notes.dedup();
    let series = positions.into_iter().collect();
    Ok(RecordingFacts { axes, files: files.to_vec(), planes, notes, defect: None, series })
}

/// `Summary` of `metadata.txt`; nothing if there is none, or only half of it.
fn summary(path: &Path) -> Value {
    let read = || {
        let file = path.join("metadata.txt");
        stays_inside(path, &file).ok()?;
        let file = open_regular(&file).ok()?;
        let is_short = file.metadata().ok()?.len() < METADATA_BYTES_MAX;
        let text = is_short.then(|| std::io::read_to_string(file).ok())??;
        serde_json::from_str::<Value>(&text).ok()
    };
    read().map_or(Value::Null, |mut metadata| metadata["Summary"].take())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_in_names_count_by_their_value() {
        let mut names = ["f10.tif", "f2.tif", "f002b.tif", "a.tif", "f1.tif", "f.tif"];
        names.sort_by(|one, other| natural(one, other));
        assert_eq!(names, ["a.tif", "f1.tif", "f2.tif", "f002b.tif", "f10.tif", "f.tif"]);
    }

    #[test]
    fn names_of_single_images() {
        let new = NamedPosition::of(Path::new("d/img_channel001_position002_time000000003_z004.tif")).unwrap();
        assert_eq!(new, NamedPosition { time: 3, channel: ChannelOfName::Number(1), z: 4, position: 2 });
        let old = NamedPosition::of(Path::new("img_000000003_a_DAPI_004.tif")).unwrap();
        assert_eq!(old, NamedPosition { time: 3, channel: ChannelOfName::Name("a_DAPI".into()), z: 4, position: 0 });
        assert_eq!(NamedPosition::of(Path::new("img_1.tif")), None);
    }
}
