//! Raw files: a header to skip, then frames one after the other. NumPy's files are raw ones that say the rest
//! themselves.

use std::fs::File;
use std::path::{Path, PathBuf};

use shardwright::{DimKind, Dtype};

use super::tiff::{ByteOrder, reason, to_native};
use super::{Recording, Source, cannot, dim_named, npy, open_regular, read_at};
use crate::args::RecordingArgs;
use crate::failure::Failure;

/// A raw file of a shape that the command line tells.
pub(crate) struct Raw {
    path: PathBuf,
    file: File,
    offset: u64,
    order: ByteOrder,
    recording: Recording,
}

impl Raw {
    /// Opens `path` and compares its size with what `args` say.
    pub(crate) fn open(path: &Path, args: &RecordingArgs) -> Result<Self, Failure> {
        let dtype =
            args.dtype.ok_or_else(|| Failure::Usage("a raw file needs --dtype beside --shape, such as u16".into()))?;
        let mut recording = describe(&args.shape, &args.axes, dtype, "--shape")?;
        let file = open_regular(path).map_err(|error| Failure::io("open", path, &error))?;
        let size = file.metadata().map_err(|error| Failure::io("look at", path, &error))?.len();
        let frames = recording.frames.unwrap_or(0);
        let present = frames_present(path, size, args.offset, &recording)?;
        if present > frames {
            recording.notes.push(format!("the file holds {present} frames, --shape takes the first {frames}"));
        }
        Ok(Self { path: path.to_owned(), file, offset: args.offset, order: ByteOrder::Little, recording })
    }

    /// Opens a file of NumPy's. One that was cut off ends the run where it ends.
    pub(crate) fn open_npy(path: &Path, args: &RecordingArgs) -> Result<Self, Failure> {
        let file = open_regular(path).map_err(|error| Failure::io("open", path, &error))?;
        let npy::Header { dtype, order, shape, offset } =
            npy::Header::read(&file).map_err(|why| cannot("replay", path, why))?;
        if shape.len() < 2 || shape.contains(&0) {
            let why = format!("its shape is {shape:?}; a recording has at least two dimensions, and something in them");
            return Err(cannot("replay", path, why));
        }
        let recording = describe(&shape, &args.axes, dtype, "the file's shape")?;
        Ok(Self { path: path.to_owned(), file, offset, order, recording })
    }
}

impl Source for Raw {
    fn recording(&self) -> &Recording {
        &self.recording
    }

    fn read(&mut self, index: u64, frame: &mut [u8]) -> Result<(), Failure> {
        let position = self.offset + index * frame.len() as u64;
        read_at(&self.file, frame, position)
            .map_err(|error| cannot(&format!("read frame {index} of"), &self.path, reason(&error)))?;
        to_native(frame, self.recording.dtype.size(), self.order);
        Ok(())
    }
}

/// The recording of a shape with or without names. `said`: where the shape comes from.
fn describe(shape: &[u64], axes: &[String], dtype: Dtype, said: &str) -> Result<Recording, Failure> {
    let names: Vec<&str> = match (axes.len(), shape.len()) {
        (0, 2) => vec!["y", "x"],
        (0, 3) => vec!["t", "y", "x"],
        (0, count) => {
            return Err(Failure::Usage(format!(
                "{said} of {count} dimensions needs --axes with their names, such as t,c,y,x"
            )));
        }
        (names, count) if names != count || count < 2 => {
            return Err(Failure::Usage(format!(
                "--axes names {names} dimensions and {said} has {count}; both must be the same, at least 2"
            )));
        }
        _ => axes.iter().map(String::as_str).collect(),
    };
    let pixels = shape.iter().try_fold(dtype.size() as u64, |product, &size| product.checked_mul(size));
    if pixels.is_none() {
        return Err(Failure::Usage(format!("{said} is larger than any file")));
    }
    let outer = shape.len() - 2;
    let frames = shape[..outer].iter().product();
    let mut recording = Recording::movie(dtype, Some(frames), shape[outer], shape[outer + 1]);
    if outer > 0 {
        recording.dims = names.iter().zip(shape).map(|(name, &size)| dim_named(name, size)).collect();
        // The last two are a frame's rows and columns whatever they are called.
        recording.dims[outer..].iter_mut().for_each(|dim| dim.kind = DimKind::Space);
    }
    Ok(recording)
}

/// How many frames the file holds: as many as the shape says or more, and no part of one.
fn frames_present(path: &Path, size: u64, offset: u64, recording: &Recording) -> Result<u64, Failure> {
    let (frames, frame_bytes) = (recording.frames.unwrap_or(0), recording.frame_bytes());
    let payload = size.saturating_sub(offset);
    let (present, rest) = (payload / frame_bytes, payload % frame_bytes);
    if present >= frames && rest == 0 {
        return Ok(present);
    }
    let part = if rest == 0 { String::new() } else { format!(" and {rest} bytes of another") };
    Err(Failure::Input(format!(
        "{} has {payload} bytes after an offset of {offset}; --shape and --dtype mean {frames} frames of \
         {frame_bytes} bytes, {} together, but the file holds {present}{part}; give the --shape, --dtype and --offset \
         of what is there",
        path.display(),
        frames * frame_bytes
    )))
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
    fn more_dimensions_need_names() {
        let raw = open(&numbers(24), "--shape 2,3,2,2 --dtype uint16 --axes t,c,y,x").unwrap();
        assert_eq!(raw.recording().dims, [Dim::time(2), Dim::channel(3), Dim::y(2), Dim::x(2)]);
        let refused = open(&numbers(24), "--shape 2,3,2,2 --dtype u16").err().unwrap();
        assert!(refused.to_string().contains("--axes"), "{refused}");
        assert!(open(&numbers(24), "--shape 2,3,2,2 --dtype u16 --axes t,y,x").is_err());
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
