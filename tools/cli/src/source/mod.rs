//! Where frames come from: recordings on disk, or a synthetic camera.

mod axes;
mod folder;
mod foreign;
mod ndtiff;
mod npy;
mod raw;
pub(crate) mod synthetic;
mod tiff;
mod why;
mod zarr;

use std::collections::HashSet;
use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::path::{Component, Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

use memmap2::MmapMut;
use shardwright::{Channel, Dim, DimKind, Dtype};

use crate::args::{Camera, RecordingArgs};
use crate::failure::{Failure, Fault};
pub(crate) use why::Why;

/// Something that gives frames, again and again and in any order.
pub(crate) trait Source: Send {
    /// What the frames are.
    fn recording(&self) -> &Recording;

    /// Fills `frame` with the recording's frame `index`, in native byte order and without gaps.
    fn read(&mut self, index: u64, frame: &mut [u8]) -> Result<(), Failure>;

    /// Whether frame `index` is missing from the recording. `read` fills it with zeros.
    fn is_missing(&self, _index: u64) -> bool {
        false
    }

    /// How many of a pass's frames differ; the rest repeats them in turn.
    fn distinct(&self, pass: u64) -> u64 {
        pass
    }

    /// Refuses to write where frames are still to be read.
    fn check_output(&self, _output: &Path) -> Result<(), Failure> {
        Ok(())
    }

    /// Bytes that the source holds in memory for its whole life. They count against `--memory`.
    fn held_bytes(&self) -> u64 {
        0
    }
}

/// What a recording is, as far as the dataset cares.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Recording {
    /// The type of a pixel.
    pub(crate) dtype: Dtype,
    /// The dimensions with their sizes, as they are to be stored; the last two are a frame's rows and columns.
    pub(crate) dims: Vec<Dim>,
    /// The outer dimensions by name as the frames arrive, slowest first; empty: as they are stored.
    pub(crate) acquisition_order: Vec<String>,
    /// The frames that there are. `None`: as many as one likes.
    pub(crate) frames: Option<u64>,
    /// The frames' own speed.
    pub(crate) fps: Option<f64>,
    /// The channels, if the recording says something of them. A label or a colour that it does not say is empty.
    pub(crate) channels: Vec<Channel>,
    /// The image's name.
    pub(crate) name: Option<String>,
    /// Things to tell the user that are no errors.
    pub(crate) notes: Vec<String>,
    /// Why the recording ends where it ends, if it was meant to be longer.
    pub(crate) defect: Option<String>,
}

impl Recording {
    /// A plain movie: time, rows, columns.
    pub(crate) fn movie(dtype: Dtype, frames: Option<u64>, height: u64, width: u64) -> Self {
        Self {
            dtype,
            dims: vec![Dim::time(frames), Dim::y(height), Dim::x(width)],
            acquisition_order: Vec::new(),
            frames,
            fps: None,
            channels: Vec::new(),
            name: None,
            notes: Vec::new(),
            defect: None,
        }
    }

    /// Pixels a frame.
    pub(crate) fn frame_pixels(&self) -> u64 {
        self.dims.iter().rev().take(2).map(|dim| dim.size.unwrap_or(1)).product()
    }

    /// Bytes a frame.
    pub(crate) fn frame_bytes(&self) -> u64 {
        self.frame_pixels() * self.dtype.size() as u64
    }

    /// The outer dimension that changes slowest as frames arrive, by its place in `dims`.
    pub(crate) fn slowest(&self) -> usize {
        let name = self.acquisition_order.first();
        self.dims.iter().position(|dim| Some(&dim.name) == name).unwrap_or(0)
    }
}

/// A dimension of the name's usual meaning.
pub(crate) fn dim_named(name: &str, size: u64) -> Dim {
    let kind = match name.to_ascii_lowercase().as_str() {
        "t" | "time" => DimKind::Time,
        "c" | "channel" => DimKind::Channel,
        "z" | "y" | "x" => DimKind::Space,
        _ => DimKind::Other,
    };
    Dim::new(name, kind, size)
}

/// A channel of which no colour is known.
pub(crate) fn named_channel(label: &str) -> Channel {
    Channel { label: label.to_owned(), color: String::new(), window: None }
}

/// Opens what the command line names, to write its frames to `output`. `memory` bounds what a source may hold.
pub(crate) fn open(input: &Path, output: &Path, args: &RecordingArgs, memory: u64) -> Result<Box<dyn Source>, Failure> {
    if input.as_os_str() == "synthetic" {
        refuse_raw_options(args, "a synthetic camera")?;
        refuse_option("--series", args.series.is_some(), "a synthetic camera")?;
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
    let source = open_file(input, args)?;
    source.check_output(output)?;
    let (frame_bytes, held) = (source.recording().frame_bytes(), source.held_bytes());
    if frame_bytes.saturating_add(held) > memory {
        return Err(Failure::Usage(format!(
            "a frame of {} has {frame_bytes} bytes and reading it takes {held} more, but --memory is {memory}",
            input.display()
        )));
    }
    if args.preload { Ok(Box::new(Preloaded::read(source, args.frames, memory)?)) } else { Ok(source) }
}

fn open_file(input: &Path, args: &RecordingArgs) -> Result<Box<dyn Source>, Failure> {
    if input.is_dir() {
        refuse_raw_options(args, "a folder")?;
        return folder::open(input, args.series);
    }
    let file = open_regular(input).map_err(|error| Failure::io("open", input, &error))?;
    if !args.shape.is_empty() {
        refuse_option("--series", args.series.is_some(), "a raw file")?;
        return Ok(Box::new(raw::Raw::open(input, args)?));
    }
    let mut head = Vec::new();
    io::Read::read_to_end(&mut io::Read::take(&file, 16), &mut head)
        .map_err(|error| Failure::io("read", input, &error))?;
    if head.starts_with(&npy::MAGIC) {
        refuse_option("--series", args.series.is_some(), "an .npy file")?;
        refuse_options(args, &["--shape", "--dtype", "--offset"], "an .npy file")?;
        return Ok(Box::new(raw::Raw::open_npy(input, args)?));
    }
    let name = input.file_name().unwrap_or_default();
    if name == ndtiff::INDEX {
        refuse_raw_options(args, "NDTiff")?;
        return Ok(Box::new(ndtiff::open(input, args.series)?));
    }
    if head.first_chunk().is_some_and(|magic| tiff::MAGIC.contains(magic)) {
        refuse_raw_options(args, "a TIFF file")?;
        return Ok(Box::new(match ndtiff::index_of(input) {
            Some(index) => ndtiff::open(&index, args.series)?,
            None => tiff::open(input, args.series)?,
        }));
    }
    if head.trim_ascii_start().starts_with(b"<") {
        refuse_raw_options(args, "OME-XML")?;
        return Ok(Box::new(tiff::open_companion(input, args.series)?));
    }
    if let Some(advice) = foreign::advice(&head) {
        return Err(cannot("replay", input, Why::Unread(advice.to_owned())));
    }
    let head = head.get(..4).unwrap_or(&head);
    Err(Failure::Usage(format!(
        "{} is no TIFF or .npy file (it begins with {head:02x?}); a raw file needs --shape T,Y,X and --dtype",
        input.display()
    )))
}

fn refuse_raw_options(args: &RecordingArgs, what: &str) -> Result<(), Failure> {
    refuse_options(args, &["--shape", "--axes", "--dtype", "--offset"], what)
}

fn refuse_options(args: &RecordingArgs, refused: &[&str], what: &str) -> Result<(), Failure> {
    let given = [
        ("--shape", !args.shape.is_empty()),
        ("--axes", !args.axes.is_empty()),
        ("--dtype", args.dtype.is_some()),
        ("--offset", args.offset != 0),
    ];
    match given.iter().find(|option| option.1 && refused.contains(&option.0)) {
        Some((option, _)) => Err(Failure::Usage(format!("{option} belongs to raw files; {what} says this itself"))),
        None => Ok(()),
    }
}

fn refuse_option(option: &str, is_given: bool, what: &str) -> Result<(), Failure> {
    match is_given {
        true => Err(Failure::Usage(format!("{option} chooses one of several images; {what} has none to choose from"))),
        false => Ok(()),
    }
}

/// Opens what is read by places: a pipe would wait for ever.
pub(crate) fn open_regular(path: &Path) -> io::Result<File> {
    if !path.metadata()?.is_file() {
        return Err(io::Error::other("it is no regular file"));
    }
    File::open(path)
}

/// Fills `bytes` from `offset` of a file on.
pub(crate) fn read_at(file: &File, bytes: &mut [u8], offset: u64) -> io::Result<()> {
    file.read_exact_at(bytes, offset)
}

/// Whether links in folders and sets of files may lead anywhere.
static FOLLOW_LINKS: AtomicBool = AtomicBool::new(false);

/// From now on, links may lead anywhere.
pub(crate) fn follow_links_anywhere() {
    FOLLOW_LINKS.store(true, Relaxed);
}

/// Refuses a file to which a link leads out of the folder that the caller named, as the library does with datasets.
pub(crate) fn stays_inside(folder: &Path, file: &Path) -> Result<(), String> {
    let whole = |path: &Path| path.canonicalize().map_err(|error| format!("{}: {error}", path.display()));
    let folder = if folder.as_os_str().is_empty() { Path::new(".") } else { folder };
    let (end, root) = (whole(file)?, whole(folder)?);
    if FOLLOW_LINKS.load(Relaxed) || end.starts_with(&root) {
        return Ok(());
    }
    Err(format!(
        "{} is, or lies behind, a link out of {} to {}; if you trust it, allow it (--follow-links)",
        file.display(),
        root.display(),
        end.display()
    ))
}

/// The file that another one names, in the same folder or below it. `Err` says why there is none.
pub(crate) fn sibling(path: &Path, name: &str) -> Result<PathBuf, String> {
    let (folder, name) = (path.with_file_name(""), Path::new(name));
    let is_below = name.components().all(|part| matches!(part, Component::Normal(_) | Component::CurDir));
    if !is_below || name.file_name().is_none() {
        return Err(format!("{} is named, but that is no file beside {}", name.display(), path.display()));
    }
    let file = folder.join(name);
    if !file.is_file() {
        return Err(format!("{} is not there", file.display()));
    }
    stays_inside(&folder, &file).map(|()| file)
}

/// "can't open movie.tif: no such file"
pub(crate) fn cannot(verb: &str, path: &Path, why: impl Into<Why>) -> Failure {
    refused(path, why.into().within(|why| format!("can't {verb} {}: {why}", path.display())))
}

/// A failure of which the sentence is complete.
pub(crate) fn refused(path: &Path, why: impl Into<Why>) -> Failure {
    let (fault, message) = match why.into() {
        Why::Broken(message) => (Fault::Invalid, message),
        Why::Unread(message) => (Fault::Unsupported, message),
    };
    Failure::Known { fault, message, path: Some(path.to_path_buf()) }
}

/// Memory that a copy runs through without many page faults and translations, where the system has such.
pub(crate) fn huge_pages(bytes: usize) -> Result<MmapMut, Failure> {
    let map = MmapMut::map_anon(bytes)
        .map_err(|error| Failure::Run(format!("no memory for {bytes} bytes of frames: {error}")))?;
    #[cfg(target_os = "linux")]
    let _ = map.advise(memmap2::Advice::HugePage);
    Ok(map)
}

/// A recording that was read into memory as a whole.
struct Preloaded {
    recording: Recording,
    frames: MmapMut,
    /// Frames that are missing from the recording.
    missing: HashSet<u64>,
}

impl Preloaded {
    /// Reads all frames, or the first ones. They may not take all of `memory`: the ring needs some.
    fn read(mut source: Box<dyn Source>, frames: Option<u64>, memory: u64) -> Result<Self, Failure> {
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
        Ok(Self { recording, frames, missing })
    }
}

impl Source for Preloaded {
    fn recording(&self) -> &Recording {
        &self.recording
    }

    fn is_missing(&self, index: u64) -> bool {
        self.missing.contains(&index)
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

/// A recording for tests whose frames hold their index.
#[cfg(test)]
pub(crate) struct Counting(pub(crate) Recording);

#[cfg(test)]
impl Source for Counting {
    fn recording(&self) -> &Recording {
        &self.0
    }

    fn read(&mut self, index: u64, frame: &mut [u8]) -> Result<(), Failure> {
        frame.fill(index as u8);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn counting(frames: u64) -> Box<dyn Source> {
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
