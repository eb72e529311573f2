//! Raw files: a header to skip, then frames one after the other. NumPy's files are raw ones that say the rest
//! themselves.

use std::fs::File;
use std::path::{Path, PathBuf};

use shardwright::words::count;
use shardwright::{Dim, DimKind, Dtype, FrameLayout, PixelFormat};

use super::files::{open_regular, read_at};
use super::npy;
use super::recording::{FrameSource, Recording, dim_named};
use super::tiff::{ByteOrder, reason, to_native, widen};
use super::why::cannot;
use crate::args::RecordingArgs;
use crate::failure::Failure;

/// A raw file of a shape that the command line or the file itself tells.
pub(crate) struct Raw {
    path: PathBuf,
    file: File,
    offset: u64,
    lie: Lie,
    order: ByteOrder,
    /// The file's numbers are half-precision ones, and become single-precision ones.
    is_half: bool,
    /// The picture whose samples are in `picture`.
    cached: Option<u64>,
    picture: Vec<u8>,
    recording: Recording,
}

/// How pictures lie in the file.
#[derive(Debug, Clone, Copy)]
struct Lie {
    /// From one picture's start to the next.
    stride: u64,
    /// Bytes of a picture, and of its rows with what stands behind them.
    bytes: u64,
    row_stride: u64,
    /// Samples of a pixel, which follow each other; each becomes a frame of its own.
    samples: u64,
}

impl Lie {
    /// Pictures without gaps in them or between them, whose numbers have `size` bytes.
    fn dense(recording: &Recording, samples: u64, size: u64) -> Self {
        let bytes = recording.frame_pixels() * samples * size;
        Self { stride: bytes, bytes, row_stride: recording.sides()[1] * samples * size, samples }
    }

    /// Pictures as the command line says that they lie.
    fn new(recording: &Recording, samples: u64, args: &RecordingArgs) -> Result<Self, Failure> {
        let format = recording.pixel_format;
        let bytes = |pixels: u64| match format {
            PixelFormat::Plain => pixels * samples * recording.dtype.size() as u64,
            format => format.bytes((pixels * samples) as usize).unwrap_or(0) as u64,
        };
        let at_least = |option, given: Option<u64>, least: u64, what| match given {
            Some(given) if given < least => {
                Err(Failure::Usage(format!("{option} {given}: {what} has {least} bytes, which is the least")))
            }
            given => Ok(given),
        };
        let row_bytes = bytes(recording.sides()[1]);
        let row_stride = at_least("--row-stride", args.row_stride, row_bytes, "a row")?;
        let whole =
            row_stride.map_or(Some(bytes(recording.frame_pixels())), |stride| stride.checked_mul(recording.sides()[0]));
        let whole = whole.ok_or_else(|| Failure::Usage("--row-stride is larger than any file".into()))?;
        let stride = at_least("--frame-stride", args.frame_stride, whole, "a frame")?.unwrap_or(whole);
        Ok(Self { stride, bytes: whole, row_stride: row_stride.unwrap_or(row_bytes), samples })
    }

    /// How many of `wanted` pictures the file holds: as many as the shape says or more, and no part of one.
    fn present(self, path: &Path, size: u64, offset: u64, wanted: u64) -> Result<u64, Failure> {
        let payload = size.saturating_sub(offset);
        let (whole, behind) = (payload / self.stride, payload % self.stride);
        let (present, rest) = if behind >= self.bytes { (whole + 1, 0) } else { (whole, behind) };
        if present >= wanted && rest == 0 {
            return Ok(present);
        }
        let part = if rest == 0 { String::new() } else { format!(" and {rest} bytes of another") };
        Err(Failure::Input(format!(
            "{} has {payload} bytes after an offset of {offset}; --shape and --dtype mean {wanted} frames of {} bytes, \
             {} together, but the file holds {present}{part}; give the --shape, --dtype and --offset of what is there",
            path.display(),
            self.bytes,
            self.stride.saturating_mul(wanted)
        )))
    }
}

impl Raw {
    /// Opens `path` and compares its size with what `args` say.
    pub(crate) fn open(path: &Path, args: &RecordingArgs) -> Result<Self, Failure> {
        let format = args.pixel_format.unwrap_or_default();
        let is_packed = !matches!(format, PixelFormat::Plain | PixelFormat::BigEndian);
        let dtype = args.dtype.or(is_packed.then_some(Dtype::U16)).ok_or_else(|| {
            let why = "a raw file needs --dtype beside --shape, such as uint16; other files go without --shape";
            Failure::Usage(why.into())
        })?;
        let (mut recording, samples) = describe(&args.shape, &args.axes, dtype, "--shape")?;
        if is_packed && samples > 1 {
            let why = format!("--pixel-format {format} has one sample a pixel, but the last of --axes is the channel");
            return Err(Failure::Usage(why));
        }
        // Numbers of 16 bits are turned round where all other formats are unpacked, and others as they are read.
        let is_wide = format == PixelFormat::BigEndian && dtype.size() != 2;
        recording.pixel_format = if is_wide { PixelFormat::Plain } else { format };
        recording.unused_low_bits = args.unused_bits;
        let lie = Lie::new(&recording, samples, args)?;
        if args.row_stride.is_some() && samples == 1 {
            let (buffer_bytes, row_stride) = (lie.bytes as usize, lie.row_stride as usize);
            recording.layout = Some(FrameLayout { buffer_bytes, offset: 0, row_stride });
        }
        let file = open_regular(path).map_err(|error| Failure::io("open", path, &error))?;
        let size = file.metadata().map_err(|error| Failure::io("look at", path, &error))?.len();
        let wanted = recording.frames.unwrap_or(0) / samples;
        let present = lie.present(path, size, args.offset, wanted)?;
        if present > wanted {
            recording
                .notes
                .push(format!("the file holds {}, --shape takes the first {wanted}", count(present, "frame")));
        }
        let order = if is_wide { ByteOrder::Big } else { ByteOrder::Little };
        let (path, cached, picture) = (path.to_owned(), None, Vec::new());
        Ok(Self { path, file, offset: args.offset, lie, order, is_half: false, cached, picture, recording })
    }

    /// Opens a file of NumPy's. One that was cut off ends the run where it ends.
    pub(crate) fn open_npy(path: &Path, args: &RecordingArgs) -> Result<Self, Failure> {
        let file = open_regular(path).map_err(|error| Failure::io("open", path, &error))?;
        let npy::NpyHeader { element, order, shape, offset } =
            npy::NpyHeader::read(&file).map_err(|why| cannot("replay", path, why))?;
        if shape.len() < 2 || shape.contains(&0) {
            let why = format!("its shape is {shape:?}; a recording has at least two dimensions, and something in them");
            return Err(cannot("replay", path, why));
        }
        let (mut recording, samples) = describe(&shape, &args.axes, element.dtype(), "the file's shape")?;
        recording.notes.extend(element.note().map(str::to_owned));
        let lie = Lie::dense(&recording, samples, element.bytes());
        let is_half = element == npy::NpyElement::Half;
        Ok(Self {
            path: path.to_owned(),
            file,
            offset,
            lie,
            order,
            is_half,
            cached: None,
            picture: Vec::new(),
            recording,
        })
    }

    /// Fills `picture` with all samples of a picture.
    fn cache(&mut self, number: u64) -> std::io::Result<()> {
        if self.cached != Some(number) {
            self.cached = None;
            self.picture.resize(self.lie.bytes as usize, 0);
            read_at(&self.file, &mut self.picture, self.offset + number * self.lie.stride)?;
            self.cached = Some(number);
        }
        Ok(())
    }

    /// One sample of each pixel of the picture, row by row, as numbers of `size` bytes.
    fn pick(&self, sample: u64, size: usize, out: &mut [u8]) {
        let (row_stride, samples) = (self.lie.row_stride as usize, self.lie.samples as usize);
        let out_rows = out.chunks_exact_mut(self.recording.sides()[1] as usize * size);
        for (row, out) in self.picture.chunks(row_stride).zip(out_rows) {
            let values = row.chunks_exact(size).skip(sample as usize).step_by(samples);
            out.chunks_exact_mut(size).zip(values).for_each(|(out, value)| out.copy_from_slice(value));
        }
    }
}

impl FrameSource for Raw {
    fn recording(&self) -> &Recording {
        &self.recording
    }

    fn read(&mut self, index: u64, frame: &mut [u8]) -> Result<(), Failure> {
        let (number, sample) = (index / self.lie.samples, index % self.lie.samples);
        let size = self.recording.dtype.size();
        let done = if self.lie.samples == 1 && !self.is_half {
            read_at(&self.file, frame, self.offset + number * self.lie.stride)
        } else {
            self.cache(number)
        };
        done.map_err(|error| cannot(&format!("read frame {index} of"), &self.path, reason(&error)))?;
        if self.is_half {
            let mut halves = vec![0; frame.len() / 2];
            self.pick(sample, 2, &mut halves);
            to_native(&mut halves, 2, self.order);
            widen(&halves, frame);
            return Ok(());
        }
        if self.lie.samples > 1 {
            self.pick(sample, size, frame);
        }
        to_native(frame, size, self.order);
        Ok(())
    }

    fn held_bytes(&self) -> u64 {
        if self.lie.samples > 1 || self.is_half { self.lie.bytes } else { 0 }
    }
}

/// The recording of a shape with or without names, and how many samples a pixel has. `said`: where the shape comes
/// from.
fn describe(shape: &[u64], axes: &[String], dtype: Dtype, said: &str) -> Result<(Recording, u64), Failure> {
    let names: Vec<&str> = match (axes.len(), shape.len()) {
        (0, 2) => vec!["y", "x"],
        (0, 3) => vec!["t", "y", "x"],
        (0, dimensions) => {
            return Err(Failure::Usage(format!(
                "{said} of {} needs --axes with their names, such as t,c,y,x, or t,y,x,c for colours",
                count(dimensions, "dimension")
            )));
        }
        (names, dimensions) if names != dimensions || dimensions < 2 => {
            return Err(Failure::Usage(format!(
                "--axes names {} and {said} has {dimensions}; both must be the same, at least 2",
                count(names, "dimension")
            )));
        }
        _ => axes.iter().map(String::as_str).collect(),
    };
    let pixels = shape.iter().try_fold(dtype.size() as u64, |product, &size| product.checked_mul(size));
    if pixels.is_none() {
        return Err(Failure::Usage(format!("{said} is larger than any file")));
    }
    let mut dims: Vec<Dim> = names.iter().zip(shape).map(|(name, &size)| dim_named(name, size)).collect();
    let mut samples = 1;
    // Colours that a camera interleaves: a frame has one sample of each pixel.
    if dims.len() > 2 && dims.last().is_some_and(|last| last.kind == DimKind::Channel) {
        samples = shape[dims.len() - 1];
        let last = dims.len() - 3;
        dims[last..].rotate_right(1);
    }
    if dims.len() == 2 {
        // One frame is a movie of one; where t is taken, it is as if nobody had named anything.
        if dims.iter().any(|dim| dim.name == "t") {
            dims = vec![Dim::y(shape[0]), Dim::x(shape[1])];
        }
        dims.insert(0, Dim::time(1));
    }
    let outer = dims.len() - 2;
    let sizes: Vec<u64> = dims.iter().filter_map(|dim| dim.size).collect();
    let mut recording = Recording::movie(dtype, Some(sizes[..outer].iter().product()), sizes[outer], sizes[outer + 1]);
    // The last two are a frame's rows and columns whatever they are called.
    dims[outer..].iter_mut().for_each(|dim| dim.kind = DimKind::Space);
    recording.dims = dims;
    Ok((recording, samples))
}

#[cfg(test)]
mod tests {
    use clap::Parser;
    use shardwright::{Dim, Dtype};

    use super::*;
    use crate::args::{Cli, Command};

    fn open(bytes: &[u8], words: &str) -> Result<Raw, Failure> {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("frames.raw");
        std::fs::write(&path, bytes).unwrap();
        let words = ["shardwright", "replay", "frames.raw", "out"].into_iter().chain(words.split_whitespace());
        match Cli::try_parse_from(words).unwrap().command {
            // The file stays readable through its handle when the folder goes.
            Command::Replay(replay) => Raw::open(&path, &replay.recording),
            other => panic!("{other:?}"),
        }
    }

    fn numbers(count: u16) -> Vec<u8> {
        (0..count).flat_map(u16::to_le_bytes).collect()
    }

    #[test]
    fn frames_stand_after_the_header() {
        let mut raw = open(&numbers(7 + 24), "--shape 2,3,4 --dtype u16 --offset 14").unwrap();
        assert_eq!(raw.recording(), &Recording::movie(Dtype::U16, Some(2), 3, 4));
        let mut frame = [0; 24];
        raw.read(1, &mut frame).unwrap();
        assert_eq!(u16::from_le_bytes([frame[0], frame[1]]), 7 + 12);
        raw.read(0, &mut frame).unwrap();
        assert_eq!(u16::from_le_bytes([frame[0], frame[1]]), 7);
    }

    #[test]
    fn names_of_two_dimensions_are_those_of_a_frame() {
        let raw = open(&numbers(12), "--shape 3,4 --dtype u16 --axes x,y").unwrap();
        assert_eq!(raw.recording().dims, [Dim::time(1), Dim::x(3), Dim::y(4)]);
        for words in ["--shape 3,4 --dtype u16", "--shape 3,4 --dtype u16 --axes t,x"] {
            let raw = open(&numbers(12), words).unwrap();
            assert_eq!(raw.recording(), &Recording::movie(Dtype::U16, Some(1), 3, 4));
        }
    }

    #[test]
    fn more_dimensions_need_names() {
        let raw = open(&numbers(24), "--shape 2,3,2,2 --dtype uint16 --axes t,c,y,x").unwrap();
        assert_eq!(raw.recording().dims, [Dim::time(2), Dim::channel(3), Dim::y(2), Dim::x(2)]);
        let refused = open(&numbers(24), "--shape 2,3,2,2 --dtype u16").err().unwrap();
        assert!(refused.to_string().contains("--axes"), "{refused}");
        assert!(open(&numbers(24), "--shape 2,3,2,2 --dtype u16 --axes t,y,x").is_err());
    }

    #[test]
    fn interleaved_samples_become_channels() {
        let mut raw = open(&numbers(2 * 3 * 4 * 3), "--shape 2,3,4,3 --axes t,y,x,c --dtype u16").unwrap();
        assert_eq!(raw.recording().dims, [Dim::time(2), Dim::channel(3), Dim::y(3), Dim::x(4)]);
        assert_eq!((raw.recording().frames, raw.held_bytes()), (Some(6), 72));
        let mut frame = [0; 24];
        for index in [4, 0, 1] {
            raw.read(index, &mut frame).unwrap();
            let first = 36 * (index / 3) as u16 + (index % 3) as u16;
            let expected: Vec<u8> = (0..12).flat_map(|pixel| (first + 3 * pixel).to_le_bytes()).collect();
            assert_eq!(frame[..], expected, "{index}");
        }
        // Rows that lie farther apart than they are long.
        let mut apart = open(&numbers(13 * 6), "--shape 1,6,4,3 --axes t,y,x,c --dtype u16 --row-stride 26").unwrap();
        let mut frame = [0; 48];
        apart.read(2, &mut frame).unwrap();
        assert_eq!(frame[8..10], (13u16 + 2).to_le_bytes());
    }

    #[test]
    fn frames_lie_as_far_apart_as_is_said() {
        let bytes: Vec<u8> = (0..100).collect();
        let words = "--shape 2,3,4 --dtype u8 --row-stride 5 --frame-stride 20 --offset 3";
        let mut raw = open(&bytes[..3 + 35], words).unwrap();
        assert_eq!(raw.recording().frame_bytes(), 15);
        let mut frame = [0; 15];
        raw.read(1, &mut frame).unwrap();
        assert_eq!(frame[..], bytes[23..38]);
        // What stands between frames need not stand behind the last one, and may.
        assert!(open(&bytes[..3 + 40], words).is_ok() && open(&bytes[..3 + 34], words).is_err());
        for (words, least) in [("--row-stride 3", "a row has 4"), ("--frame-stride 11", "a frame has 12")] {
            let refused = open(&bytes, &format!("--shape 2,3,4 --dtype u8 {words}")).err().unwrap().to_string();
            assert!(refused.contains(least), "{refused}");
        }
    }

    #[test]
    fn packed_frames_are_as_long_as_the_camera_makes_them() {
        let raw = open(&[0; 2 * 53], "--shape 2,7,5 --pixel-format mono12p").unwrap();
        assert_eq!((raw.recording().dtype, raw.recording().frame_bytes()), (Dtype::U16, 53));
        let raw = open(&[0; 2 * 7 * 9], "--shape 2,7,5 --pixel-format mono12p --row-stride 9").unwrap();
        assert_eq!((raw.recording().frame_bytes(), raw.recording().layout.unwrap().row_stride), (63, 9));
        let refused = open(&[0; 90], "--shape 2,3,4,3 --axes t,y,x,c --pixel-format mono12p").err().unwrap();
        assert!(refused.to_string().contains("one sample a pixel"), "{refused}");
        let mut wide = open(&[0, 0, 0, 7], "--shape 1,1 --dtype u32 --pixel-format big-endian").unwrap();
        let mut frame = [0; 4];
        wide.read(0, &mut frame).unwrap();
        assert_eq!((u32::from_ne_bytes(frame), wide.recording().pixel_format), (7, PixelFormat::Plain));
    }

    #[test]
    fn one_image_is_a_movie_of_one_frame() {
        let raw = open(&numbers(12), "--shape 3,4 --dtype u16").unwrap();
        assert_eq!(raw.recording(), &Recording::movie(Dtype::U16, Some(1), 3, 4));
    }

    #[test]
    fn a_size_that_is_no_whole_frame_is_refused_with_numbers() {
        let refused = open(&numbers(25), "--shape 2,3,4 --dtype u16").err().unwrap();
        let text = refused.to_string();
        assert!(matches!(refused, Failure::Input(_)) && text.contains("50 bytes") && text.contains("48"), "{text}");
        assert!(text.contains("holds 2 and 2 bytes of another"), "{text}");
        assert!(open(&[], "--shape 2,3,4 --dtype u16").is_err());
        assert!(open(&numbers(24), "--shape 2,3,4").err().unwrap().to_string().contains("--dtype"));
    }

    #[test]
    fn more_frames_than_the_shape_says_are_told_and_fewer_are_refused() {
        let longer = open(&numbers(36), "--shape 2,3,4 --dtype u16").unwrap();
        assert_eq!(longer.recording().frames, Some(2));
        assert!(longer.recording().notes[0].contains("holds 3 frames"));
        for (count, shape) in [(12, "2,3,4"), (4, "2,3,2,1 --axes t,c,y,x"), (3, "2,3")] {
            let refused = open(&numbers(count), &format!("--shape {shape} --dtype u16")).err().unwrap();
            assert!(matches!(&refused, Failure::Input(text) if text.contains("but the file holds")), "{refused}");
        }
    }
}
