//! `shardwright export`: a region of an array as a file that other programs open.

mod image;
mod plain;
mod tiff;

use std::fs;
use std::io::{self, BufWriter};
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};

use shardwright::OutputFile;
use shardwright::offline::{Array, Axis};

use self::image::{ExportedRegion, PixelSink};
use crate::args::{ExportArgs, Format};
use crate::console::{say, tell_notes};
use crate::failure::{Failure, Fault, name_options};
use crate::interrupt::{self, interrupted};
use crate::meter;
use crate::place::{refuse_in_dataset, refuse_unusable_file, refuse_within_dataset};
use crate::region::RegionArg;
use crate::report::{decimal, joined};

/// The endings of files, and what they mean. The first that fits counts.
const ENDINGS: [(&str, Format); 10] = [
    (".ome.tif", Format::OmeTiff),
    (".ome.tiff", Format::OmeTiff),
    (".ome.btf", Format::OmeTiff),
    (".tif", Format::Tiff),
    (".tiff", Format::Tiff),
    (".btf", Format::Tiff),
    (".npy", Format::Npy),
    (".raw", Format::Raw),
    (".bin", Format::Raw),
    (".dat", Format::Raw),
];

impl Format {
    /// The format that a file's name means.
    fn of(path: &Path) -> Result<Self, Failure> {
        let name = path.file_name().unwrap_or_default().to_string_lossy().to_ascii_lowercase();
        let found = ENDINGS.iter().find(|(ending, _)| name.ends_with(ending));
        found.map(|row| row.1).ok_or_else(|| {
            let endings = ENDINGS.map(|row| row.0).join(", ");
            Failure::Usage(format!("{}: say --format, or end the name with one of {endings}", path.display()))
        })
    }
}

/// What ended the reading of a dataset.
struct Reading(Failure);

impl From<shardwright::Error> for Reading {
    fn from(error: shardwright::Error) -> Self {
        Self(error.into())
    }
}

/// Refuses to write far more of the fill value than there are pixels: a document's few bytes may promise an array of
/// any size.
fn check_fill(args: &ExportArgs, array: &Array, image: &ExportedRegion) -> Result<(), Failure> {
    const FILL_BYTES_MAX: u64 = 1 << 30;
    const FILL_SHARE_MAX: u64 = 100;
    if args.fill || image.bytes() <= FILL_BYTES_MAX {
        return Ok(());
    }
    let chunks = array.stored_chunks()?;
    let chunk_bytes = array.chunk_shape().iter().fold(array.dtype().size() as u64, |bytes, &n| bytes.saturating_mul(n));
    let there = chunks.saturating_mul(chunk_bytes);
    if image.bytes() <= there.saturating_mul(FILL_SHARE_MAX).saturating_add(FILL_BYTES_MAX) {
        return Ok(());
    }
    Err(Failure::Usage(format!(
        "{}: {} would be written, and there are chunks for {} at most; the rest is the fill value. Choose a --region, \
         or allow it with --fill",
        args.path.display(),
        decimal(image.bytes()),
        decimal(there)
    )))
}

/// Refuses, unless it is allowed, to write the fill value where chunks were lost; then that is a note.
fn lost(args: &ExportArgs, array: &Array, image: &ExportedRegion) -> Result<Option<String>, Failure> {
    let Some(lost) = array.lost_within(&image.start, &image.shape)? else { return Ok(None) };
    if args.incomplete {
        return Ok(Some(format!("{} {lost}; they read as the fill value", array.path().display())));
    }
    let path = array.path().to_path_buf();
    let message = format!("{}: {lost}; bring them back, or give them up with --incomplete", path.display());
    Err(Failure::Known { fault: Fault::Damaged, message, path: Some(path) })
}

/// Runs the command.
pub(crate) fn run(args: &ExportArgs) -> Result<(), Failure> {
    let format = args.format.map_or_else(|| Format::of(&args.output), Ok)?;
    let array = Array::open(&args.path)?;
    refuse_within_dataset(array.path(), &args.output)?;
    refuse_in_dataset(&args.output)?;
    let image = image(&array, args.region.as_ref())?;
    let mut notes = array.notes()?;
    notes.extend(lost(args, &array, &image)?);
    notes.extend(nameless(format, &image));
    if format == Format::OmeTiff {
        notes.extend(tiff::notes_of_places(&image));
    }
    name_options(&mut notes);
    tell_notes(args.report.quiet, &notes);
    refuse_unusable_file(&args.output)?;
    if args.output.exists() && !args.overwrite {
        return Err(exists(&args.output));
    }
    check_fill(args, &array, &image)?;
    // Refused before a file is there.
    let tiff = match format {
        Format::Tiff | Format::OmeTiff => Some(tiff::PageLayout::new(&image, format == Format::OmeTiff, args.bigtiff)?),
        _ => None,
    };
    interrupt::listen("ending, and nothing is left behind");
    let made = create(&args.output)?;
    // All write at the place of one open file.
    let file = made.file().try_clone().map_err(|error| written(&args.output, &error))?;
    let file = BufWriter::with_capacity(1 << 20, file);
    let of_output = |failure| of_output(failure, &args.output);
    let mut sink: Box<dyn PixelSink> = match (format, tiff) {
        (_, Some(layout)) => tiff::sink(file, layout).map_err(of_output)?,
        (Format::Npy, _) => Box::new(plain::Plain::npy(file, &image).map_err(of_output)?),
        _ => Box::new(plain::Plain::raw(file)),
    };
    let done = AtomicU64::new(0);
    meter::during(
        args.report.quiet || args.report.json,
        || meter::Work { done: done.load(Ordering::Relaxed), found: 0, total: image.bytes() },
        || {
            array.read_pieces(&image.start, &image.shape, args.memory, |piece| {
                if interrupted() {
                    return Err(Reading(Failure::Interrupted(
                        "stopped before the end; nothing was left behind".into(),
                    )));
                }
                sink.take(piece).map_err(|failure| Reading(of_output(failure)))?;
                done.fetch_add(piece.len() as u64, Ordering::Relaxed);
                Ok::<(), Reading>(())
            })
        },
    )
    .map_err(|Reading(failure)| failure)?;
    sink.finish().map_err(of_output)?;
    made.publish(args.overwrite).map_err(|error| match error.kind() {
        io::ErrorKind::AlreadyExists => exists(&args.output),
        _ => written(&args.output, &error),
    })?;
    report(args, format, &image, &notes)
}

/// What was written.
fn report(args: &ExportArgs, format: Format, image: &ExportedRegion, notes: &[String]) -> Result<(), Failure> {
    let names: Vec<_> = image.axes.iter().map(|axis| axis.name.as_str()).collect();
    if args.report.json {
        let json = serde_json::json!({
            "path": args.output.display().to_string(),
            "format": format.name(),
            "dtype": image.dtype,
            "start": image.start,
            "shape": image.shape,
            "axes": names,
            "bytes_pixels": image.bytes(),
            "notes": notes,
        });
        return say(&format!("{json}\n"));
    }
    if args.report.quiet {
        return Ok(());
    }
    say(&format!(
        "{}: {} ({}) {}, {}\n",
        args.output.display(),
        joined(&image.shape, " x "),
        names.join(", "),
        image.dtype,
        decimal(image.bytes())
    ))
}

fn image(array: &Array, region: Option<&RegionArg>) -> Result<ExportedRegion, Failure> {
    let known = array.axes()?;
    let own = array.dimension_names().unwrap_or_default();
    let named = known.is_some() || (own.len() == array.shape().len() && own.iter().all(|name| !name.is_empty()));
    let axes = known.unwrap_or_else(|| names(own, array.shape().len()).into_iter().map(Axis::new).collect());
    let names: Vec<&str> = axes.iter().map(|axis| axis.name.as_str()).collect();
    let (start, shape) = match region {
        Some(region) => region.within(array.shape(), &names)?,
        None => (vec![0; array.shape().len()], array.shape().to_vec()),
    };
    let (name, channels) = (array.image_name()?, array.channels()?);
    Ok(ExportedRegion { start, shape, dtype: array.dtype(), axes, named, name, channels })
}

/// What to say of dimensions without names in a file whose dimensions mean something.
fn nameless(format: Format, image: &ExportedRegion) -> Option<String> {
    let names: Vec<_> = image.axes.iter().map(|axis| axis.name.as_str()).collect();
    let note = || {
        format!(
            "the array's dimensions have no names, or not all of them, and are taken for {}: of three, the first is \
             time in OME-TIFF; plain TIFF, npy and raw say nothing of it",
            names.join(", ")
        )
    };
    (format == Format::OmeTiff && !image.named).then(note)
}

/// What an array's dimensions are called, some of which may have no names of their own.
fn names(own: &[String], dimensions: usize) -> Vec<String> {
    let is_free = |name: &String| !own.contains(name);
    let name = |(at, usual): (usize, String)| match own.get(at).filter(|name| !name.is_empty()) {
        Some(name) => name.clone(),
        None => Some(usual).filter(is_free).unwrap_or_else(|| format!("dim_{at}")),
    };
    usual_names(dimensions).into_iter().enumerate().map(name).collect()
}

/// What an array's dimensions are called that has no names for them.
fn usual_names(dimensions: usize) -> Vec<String> {
    let usual = |at: usize| match (dimensions - at, at) {
        (1, _) => "x".to_owned(),
        (2, _) => "y".to_owned(),
        (3, 0) => "t".to_owned(),
        _ => format!("dim_{at}"),
    };
    (0..dimensions).map(usual).collect()
}

/// The file that the pixels go to, which appears under its name when it is complete.
fn create(path: &Path) -> Result<OutputFile, Failure> {
    if let Some(folder) = path.parent().filter(|folder| !folder.as_os_str().is_empty() && !folder.is_dir()) {
        fs::create_dir_all(folder).map_err(|error| Failure::io("create", folder, &error))?;
    }
    OutputFile::create(path).map_err(|error| written(path, &error))
}

fn exists(output: &Path) -> Failure {
    Failure::exists(output, "choose another name, or replace it with --overwrite")
}

/// What went wrong with the pixels of an output, whose name those who write them don't know.
fn of_output(failure: Failure, output: &Path) -> Failure {
    match failure {
        Failure::Known { fault, message, path: None } => {
            let message = format!("{}: {message}", output.display());
            Failure::Known { fault, message, path: Some(output.to_path_buf()) }
        }
        other => other,
    }
}

fn written(path: &Path, error: &io::Error) -> Failure {
    Failure::io("write", path, error)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn endings_mean_formats() {
        let of = |name: &str| Format::of(Path::new(name)).ok();
        assert_eq!(of("a.ome.tif"), Some(Format::OmeTiff));
        assert_eq!(of("a.OME.TIFF"), Some(Format::OmeTiff));
        assert_eq!(of("a.tif"), Some(Format::Tiff));
        assert_eq!(of("x/a.npy"), Some(Format::Npy));
        assert_eq!(of("a.raw"), Some(Format::Raw));
        assert_eq!(of("a.png"), None);
    }
}
