//! Positions of one acquisition of Micro-Manager, each in a folder of its own.
//!
//! ```text
//! RUN/Pos0/metadata.txt   RUN/Pos0/img_channel000_position000_time000000000_z000.tif   RUN/Pos1/…
//! RUN/Pos0/RUN_MMStack_Pos0.ome.tif   RUN/Pos1/RUN_MMStack_Pos1.ome.tif
//! ```

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use super::files::stays_inside;
use super::listing::tiff_files;
use super::single_images::{self, NamedPosition};
use super::tiff;
use super::tiff::mmstack::{MmIndex, choose_listed, note_of_absent, stack_name};
use super::tiff::planes::PlaneReader;
use super::why::refused;
use crate::args::Series;
use crate::failure::Failure;

/// What of a summary differs between acquisitions.
const OF_ACQUISITION: [&str; 3] = ["UUID", "Prefix", "StartTime"];

/// A folder of one position.
struct PositionFolder {
    path: PathBuf,
    name: String,
    files: Vec<PathBuf>,
    kind: Kind,
}

enum Kind {
    /// A file for each plane.
    Images(Vec<NamedPosition>),
    /// A stack, of which the names of the acquisition and of the position are known.
    Stack(String, String),
}

/// Opens one of the positions in these folders of a folder; `None` if they are not those of one acquisition.
pub(super) fn open(path: &Path, folders: &[PathBuf], series: Option<Series>) -> Result<Option<PlaneReader>, Failure> {
    for folder in folders {
        stays_inside(path, folder).map_err(|why| refused(folder, why))?;
    }
    let found: Option<Vec<_>> = folders.iter().map(|folder| PositionFolder::of(folder)).collect();
    let Some(found) = found.filter(|found| are_positions(found)) else { return Ok(None) };
    // Of several that are opened one after the other, the first one's call has looked at all.
    let is_first = !matches!(series, Some(Series::All(1..)));
    if is_first && !are_of_one_acquisition(&found) {
        return Ok(None);
    }
    let numbers: BTreeSet<u64> = (0..found.len() as u64).collect();
    let listed: Vec<_> = found.iter().enumerate().map(|(number, of)| format!("{number} ({})", of.name)).collect();
    let number = choose_listed(&numbers, &listed, series, path)?;
    let chosen = &found[number as usize];
    let (opened, summary) = match &chosen.kind {
        Kind::Images(names) => {
            let here = chosen.files.iter().cloned().zip(names).collect();
            let found = single_images::find_one(&chosen.path, here, found.iter().flat_map(PositionFolder::names))?;
            (PlaneReader::new(found)?, Some(single_images::summary(&chosen.path)))
        }
        Kind::Stack(..) => match open_stack(path, chosen) {
            // Several positions in this folder.
            Ok(None) | Err(Failure::Usage(_)) => return Ok(None),
            Ok(Some(opened)) => (opened, MmIndex::of(&chosen.files[0])?.map(|index| index.summary)),
            Err(failure) => return Err(failure),
        },
    };
    let absent = summary.and_then(|summary| note_of_absent(&summary, found.len()));
    let mut notes: Vec<_> = absent.into_iter().collect();
    notes.extend(is_first.then(|| note_of_lengths(&found, &listed)).flatten());
    Ok(Some(opened.one_of(&chosen.name, numbers.into_iter().collect(), notes)))
}

fn open_stack(path: &Path, folder: &PositionFolder) -> Result<Option<PlaneReader>, Failure> {
    for file in &folder.files {
        stays_inside(path, file).map_err(|why| refused(file, why))?;
    }
    tiff::open_set(&folder.files, None)
}

impl PositionFolder {
    /// What is in a folder; `None` if that is something else.
    fn of(path: &Path) -> Option<Self> {
        let files = tiff_files(path).ok()?;
        let name = path.file_name()?.to_str()?.to_owned();
        let names: Option<Vec<_>> = files.iter().map(|file| NamedPosition::of(file)).collect();
        let kind = match names {
            Some(names) if !names.is_empty() => Kind::Images(names),
            _ => {
                let (run, position) = stack_name(files.first()?)?;
                let goes_on = |file: &PathBuf| {
                    let (other_run, other) = stack_name(file)?;
                    let rest = other.strip_prefix(&position)?;
                    let digits = rest.strip_prefix('_').unwrap_or("x");
                    let is_part = rest.is_empty() || digits.bytes().all(|byte| byte.is_ascii_digit());
                    (other_run == run && is_part).then_some(())
                };
                files.iter().map(goes_on).collect::<Option<()>>()?;
                Kind::Stack(run, position)
            }
        };
        Some(Self { path: path.to_owned(), name, files, kind })
    }

    fn names(&self) -> &[NamedPosition] {
        if let Kind::Images(names) = &self.kind { names } else { &[] }
    }
}

/// Whether these are different positions, and all saved in the same way.
fn are_positions(found: &[PositionFolder]) -> bool {
    let is_like = |of: &PositionFolder| match (&found[0].kind, &of.kind) {
        (Kind::Images(first), Kind::Images(names)) => {
            let is_one = |name: &NamedPosition| {
                (name.has_position(), name.position) == (first[0].has_position(), names[0].position)
            };
            names.iter().all(is_one)
        }
        (Kind::Stack(first, _), Kind::Stack(run, _)) => first == run,
        _ => false,
    };
    let identity = |of: &PositionFolder| match &of.kind {
        Kind::Images(names) if names[0].has_position() => names[0].position.to_string(),
        Kind::Images(_) => of.name.clone(),
        Kind::Stack(_, position) => position.clone(),
    };
    found.iter().all(is_like) && found.iter().map(identity).collect::<BTreeSet<_>>().len() == found.len()
}

/// Whether no two summaries contradict each other. Names of stacks have the acquisition's name.
fn are_of_one_acquisition(found: &[PositionFolder]) -> bool {
    let images = found.iter().filter(|of| matches!(of.kind, Kind::Images(_)));
    let summaries: Vec<_> = images.map(|of| single_images::summary(&of.path)).collect();
    OF_ACQUISITION.iter().all(|key| {
        let mut said = summaries.iter().map(|summary| &summary[*key]).filter(|said| !said.is_null());
        let first = said.next();
        said.all(|other| Some(other) == first)
    })
}

/// That stacks do not have as many planes as others. Those that single images lack are missing from their image.
fn note_of_lengths(found: &[PositionFolder], listed: &[String]) -> Option<String> {
    let planes = |of: &PositionFolder| {
        let indexes = of.files.iter().map(|file| MmIndex::of(file).ok().flatten());
        indexes.map(|index| Some(index?.entries.len())).sum::<Option<usize>>()
    };
    if !matches!(found[0].kind, Kind::Stack(..)) {
        return None;
    }
    let planes: Vec<_> = found.iter().map(planes).collect::<Option<_>>()?;
    if planes.iter().all(|count| *count == planes[0]) {
        return None;
    }
    let most = planes.iter().max()?;
    let short = planes.iter().zip(listed).filter(|(count, _)| *count < most);
    let short: Vec<_> = short.map(|(count, name)| format!("{name} has {count}")).collect();
    Some(format!("positions have up to {most} planes, but {}", short.join(", ")))
}
