//! Where frames come from: recordings on disk, or a synthetic camera.

mod axes;
mod files;
mod folder;
mod foreign;
mod listing;
mod ndtiff;
mod npy;
mod options;
mod positions;
mod raw;
mod recording;
mod regions;
mod single_images;
pub(crate) mod synthetic;
mod tiff;
mod why;
mod zarr;

use std::collections::HashSet;
use std::io;
use std::path::Path;

use memmap2::MmapMut;
use shardwright::Roi;
use shardwright::offline::is_dataset;

use self::files::{huge_pages, open_regular};
use self::options::{refuse_all_but_axes, refuse_option, refuse_raw_options};
use self::tiff::Asked;
use self::why::{Why, cannot, refused};
use crate::args::{Camera, RecordingArgs, Series};
use crate::failure::{Failure, Fault};
use crate::place::is_archive_name;
pub(crate) use files::follow_links_anywhere;
#[cfg(test)]
pub(crate) use recording::Counting;
pub(crate) use recording::{CameraRegion, FrameSource, Recording};

/// Opens what the command line names, to write its frames to `output`. `series`: which of several images. `memory`
/// bounds what a source may hold.
pub(crate) fn open(
    input: &Path,
    output: &Path,
    args: &RecordingArgs,
    series: Option<Series>,
    memory: u64,
) -> Result<Box<dyn FrameSource>, Failure> {
    if input.as_os_str() == "synthetic" {
        refuse_raw_options(args, "a synthetic camera")?;
        refuse_option("--series", series.is_some(), "a synthetic camera")?;
        if args.preload {
            return Err(Failure::Usage(
                "--preload belongs to files; a synthetic camera's frames are in memory anyway".into(),
            ));
        }
        let frames = args.frames.unwrap_or(synthetic::DEFAULT_FRAMES);
        return Ok(Box::new(synthetic::Synthetic::new(args.camera.unwrap_or_default(), frames, memory)?));
    }
    if args.camera.is_some() {
        let Camera { width, height, dtype, .. } = args.camera.unwrap_or_default();
        return Err(Failure::Usage(format!(
            "--camera {width}x{height}x{dtype} belongs to the input `synthetic`, but the input is {}",
            input.display()
        )));
    }
    let mut source = open_file(input, args, series)?;
    source.check_output(output)?;
    regions::refuse_pattern(source.recording(), args, input)?;
    source.settle_regions(args.moving_roi, input)?;
    let (frame_bytes, held) = (source.recording().frame_bytes(), source.held_bytes());
    if frame_bytes.saturating_add(held) > memory {
        return Err(Failure::Usage(format!(
            "a frame of {} has {frame_bytes} bytes and reading it takes {held} more, but --memory is {memory}",
            input.display()
        )));
    }
    if args.preload { Ok(Box::new(Preloaded::read(source, args.frames, memory)?)) } else { Ok(source) }
}

fn open_file(input: &Path, args: &RecordingArgs, series: Option<Series>) -> Result<Box<dyn FrameSource>, Failure> {
    if is_in_archive(input) {
        refuse_all_but_axes(args, "a Zarr array")?;
        return open_archive(input, args, series);
    }
    if input.is_dir() {
        refuse_all_but_axes(args, "a folder")?;
        return folder::open(input, args, series);
    }
    let file = open_regular(input).map_err(|error| Failure::io("open", input, &error))?;
    if !args.shape.is_empty() {
        refuse_option("--series", series.is_some(), "a raw file")?;
        return Ok(Box::new(raw::Raw::open(input, args)?));
    }
    let mut head = Vec::new();
    io::Read::read_to_end(&mut io::Read::take(&file, 16), &mut head)
        .map_err(|error| Failure::io("read", input, &error))?;
    if head.starts_with(&npy::MAGIC) {
        refuse_option("--series", series.is_some(), "an .npy file")?;
        refuse_all_but_axes(args, "an .npy file")?;
        return Ok(Box::new(raw::Raw::open_npy(input, args)?));
    }
    if head.is_empty() {
        return Err(refused(input, format!("{} is empty", input.display())));
    }
    let name = input.file_name().unwrap_or_default();
    if name == ndtiff::INDEX {
        refuse_raw_options(args, "NDTiff")?;
        return Ok(Box::new(ndtiff::open(input, series)?));
    }
    if head.first_chunk().is_some_and(|magic| tiff::MAGIC.contains(magic)) {
        refuse_raw_options(args, "a TIFF file")?;
        return Ok(Box::new(match ndtiff::index_of(input) {
            Some(index) => ndtiff::open(&index, series)?,
            None => tiff::open(input, series)?,
        }));
    }
    if head.trim_ascii_start().starts_with(b"<") {
        refuse_raw_options(args, "OME-XML")?;
        return Ok(Box::new(tiff::open_companion(input, Asked { series, folder: &[] })?));
    }
    if head.starts_with(foreign::ZIP) {
        match open_archive(input, args, series) {
            // Of other archives, it is said below what they are.
            Err(failure) if !is_about_a_dataset(&failure, input) => {}
            opened => return opened,
        }
    }
    if let Some(advice) = foreign::advice(&head) {
        return Err(cannot("replay", input, Why::Unread(advice.to_owned())));
    }
    let head = head.get(..4).unwrap_or(&head);
    let head: Vec<_> = head.iter().map(|byte| format!("{byte:02x}")).collect();
    Err(Failure::Usage(format!(
        "{} is no TIFF or .npy file (its first bytes are {} in hexadecimal); a raw file needs --shape T,Y,X and \
         --dtype",
        input.display(),
        head.join(" ")
    )))
}

fn open_archive(input: &Path, args: &RecordingArgs, series: Option<Series>) -> Result<Box<dyn FrameSource>, Failure> {
    let source = zarr::Zarr::open(input, &args.axes)?;
    refuse_option("--series", series.is_some(), "a Zarr array")?;
    Ok(Box::new(source))
}

/// Whether opening an archive failed because of what was asked for, or of what the dataset in it is.
fn is_about_a_dataset(failure: &Failure, input: &Path) -> bool {
    let is_missed = matches!(failure, Failure::Known { fault: Fault::NotFound, .. });
    matches!(failure, Failure::Usage(_)) || (is_missed && is_dataset(input))
}

/// Whether a path is that of a dataset in one file, or leads into one.
fn is_in_archive(input: &Path) -> bool {
    let file = input.ancestors().find(|above| above.is_file());
    file.is_some_and(|file| file != input || is_archive_name(file))
}

/// A recording that was read into memory as a whole.
struct Preloaded {
    recording: Recording,
    frames: MmapMut,
    /// Frames that are missing from the recording.
    missing: HashSet<u64>,
    /// The parts of frames that are there; empty: all of all.
    rois: Vec<Option<Roi>>,
}

impl Preloaded {
    /// Reads all frames, or the first ones. They may not take all of `memory`: the ring needs some.
    fn read(mut source: Box<dyn FrameSource>, frames: Option<u64>, memory: u64) -> Result<Self, Failure> {
        let recording = source.recording().clone();
        let count = recording.frames.unwrap_or(1).min(frames.unwrap_or(u64::MAX));
        let needed = recording.frame_bytes().saturating_mul(count);
        if needed >= memory {
            return Err(Failure::Usage(format!(
                "--preload needs {needed} bytes for {count} frames, which leaves nothing of --memory ({memory} bytes) \
                 to the ring; give --memory {} or take fewer --frames",
                needed.saturating_mul(2)
            )));
        }
        let mut frames = huge_pages(needed as usize)?;
        for (index, frame) in frames.chunks_exact_mut(recording.frame_bytes() as usize).enumerate() {
            source.read(index as u64, frame)?;
        }
        let missing = (0..count).filter(|&index| source.is_missing(index)).collect();
        let padded = if recording.is_padded { 0..count } else { 0..0 };
        let rois = padded.map(|index| source.roi(index)).collect();
        Ok(Self { recording, frames, missing, rois })
    }
}

impl FrameSource for Preloaded {
    fn recording(&self) -> &Recording {
        &self.recording
    }

    fn is_missing(&self, index: u64) -> bool {
        self.missing.contains(&index)
    }

    fn roi(&self, index: u64) -> Option<Roi> {
        self.rois.get(index as usize).copied().flatten()
    }

    fn read(&mut self, index: u64, frame: &mut [u8]) -> Result<(), Failure> {
        let start = index as usize * frame.len();
        frame.copy_from_slice(&self.frames[start..start + frame.len()]);
        Ok(())
    }

    fn held_bytes(&self) -> u64 {
        self.frames.len() as u64
    }
}

#[cfg(test)]
mod tests {
    use shardwright::Dtype;

    use super::*;

    fn counting(frames: u64) -> Box<dyn FrameSource> {
        Box::new(Counting(Recording::movie(Dtype::U8, Some(frames), 4, 5)))
    }

    #[test]
    fn preloaded_frames_are_the_recording_s() {
        let mut source = Preloaded::read(counting(7), None, 1000).unwrap();
        assert_eq!(source.held_bytes(), 7 * 20);
        let mut frame = [0; 20];
        for index in [6, 0, 3] {
            source.read(index, &mut frame).unwrap();
            assert_eq!(frame, [index as u8; 20]);
        }
        assert_eq!(Preloaded::read(counting(7), Some(2), 1000).unwrap().held_bytes(), 40);
    }

    #[test]
    fn preloading_leaves_memory_to_the_ring() {
        assert!(Preloaded::read(counting(7), None, 141).is_ok());
        let refused = Preloaded::read(counting(7), None, 140).err().unwrap();
        assert!(
            matches!(&refused, Failure::Usage(text) if text.contains("140 bytes") && text.contains("--memory 280"))
        );
    }
}
