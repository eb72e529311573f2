//! The records of a run, from those of its parts.

use std::fs;
use std::ops::Range;
use std::path::Path;

use super::documents::Finished;
use super::part::{FoundPart, read};
use crate::config::PartBy;
use crate::error::{Error, Result};
use crate::format;
use crate::format::keys::{FRAME_NUMBERS, RECORDS, record_array};
use crate::format::zarr3;
use crate::fs::{folders_below, put};
use crate::offline::array::Array;
use crate::offline::progress::ProgressCounters;
use crate::offline::repack::documents::change;
use crate::offline::shared_records::{shared_files, write_within};
use crate::record::NO_FRAME;

/// A larger block of records no writer makes.
const BLOCK_FRAMES_MAX: u64 = 1 << 20;

/// Where the record of a frame is: the part, by its place among all, and its number there.
type Source = Option<(usize, u64)>;

/// Writes the records of the run.
pub(super) fn merge(
    root: &Path,
    parts: &[&FoundPart],
    finished: &Finished,
    by: PartBy,
    counters: &ProgressCounters,
) -> Result<()> {
    let fields = fields(root)?;
    let numbers = parts.iter().map(|part| part.field(FRAME_NUMBERS)).collect::<Result<Vec<_>>>()?;
    let block_frames = match fields.first() {
        Some((_, array)) => array.chunk_shape().first().copied().unwrap_or(1),
        None => return Ok(()),
    };
    if block_frames == 0 || block_frames > BLOCK_FRAMES_MAX {
        let reason = format!("has blocks of {block_frames} records; a writer's have at most {BLOCK_FRAMES_MAX}");
        return Err(Error::format(root.join(RECORDS), reason));
    }
    let of_parts: Vec<Vec<Option<Array>>> = fields
        .iter()
        .map(|(name, _)| parts.iter().map(|part| part.field(&record_array(name))).collect::<Result<_>>())
        .collect::<Result<_>>()?;
    for block in 0..finished.frames.div_ceil(block_frames) {
        counters.go_on()?;
        let frames = block * block_frames..((block + 1) * block_frames).min(finished.frames);
        let sources = sources(parts, &numbers, frames.clone(), by)?;
        for ((_, array), of_parts) in fields.iter().zip(&of_parts) {
            let mut bytes = filled(array, block_frames);
            gather(&mut bytes, array.dtype().size(), &sources, of_parts)?;
            if array.path().ends_with(FRAME_NUMBERS) {
                number(&mut bytes, frames.clone(), finished);
            }
            store(root, array, block, bytes)?;
        }
        counters.add(frames.end - frames.start);
    }
    for (_, array) in &fields {
        change(array.document(), |document| {
            format::set_shape(array.layout(), document, &[finished.frames]);
            Ok(())
        })?;
    }
    Ok(())
}

/// The arrays of the run's records, all of which have blocks of one size.
fn fields(root: &Path) -> Result<Vec<(String, Array)>> {
    let folder = root.join(RECORDS);
    let failed = |error| Error::io("look into", &folder, error);
    let mut fields = Vec::new();
    for entry in fs::read_dir(&folder).map_err(failed)? {
        let path = entry.map_err(failed)?.path();
        if !path.join(zarr3::DOCUMENT).is_file() {
            continue;
        }
        let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
        let array = Array::open_exactly(&path)?.filter(|array| array.shape().len() == 1);
        fields.push((name, array.ok_or_else(|| Error::format(&path, "is no list of records"))?));
    }
    fields.sort_by(|(one, _), (other, _)| one.cmp(other));
    match fields.iter().find(|(_, array)| array.chunk_shape() != fields[0].1.chunk_shape()) {
        Some((_, array)) => Err(Error::format(array.path(), "has blocks of another size than the other records")),
        None => Ok(fields),
    }
}

/// Where the records of some frames are. Of parts of a frame, the first that got it has its record.
fn sources(parts: &[&FoundPart], numbers: &[Option<Array>], frames: Range<u64>, by: PartBy) -> Result<Vec<Source>> {
    let mut sources: Vec<Source> = vec![None; (frames.end - frames.start) as usize];
    for (place, (part, numbers)) in parts.iter().zip(numbers).enumerate().rev() {
        let Some(said) = &part.said else { continue };
        let own = said.map.frames_below(frames.start)..said.map.frames_below(frames.end).min(part.end());
        if own.is_empty() {
            continue;
        }
        let came = if by == PartBy::Frame { read(numbers.as_ref(), own.clone())? } else { Vec::new() };
        let (came, _) = came.as_chunks::<8>();
        for frame in own.clone() {
            let has = came.get((frame - own.start) as usize).is_none_or(|value| i64::from_le_bytes(*value) != NO_FRAME);
            let at = said.map.frame(frame).and_then(|number| number.checked_sub(frames.start));
            if let Some(source) = at.and_then(|at| sources.get_mut(at as usize))
                && (has || source.is_none())
            {
                *source = Some((place, frame));
            }
        }
    }
    Ok(sources)
}

/// A block without any record.
fn filled(array: &Array, frames: u64) -> Vec<u8> {
    array.metadata().fill.repeat(frames as usize)
}

/// Copies the records of one field to their places.
fn gather(bytes: &mut [u8], size: usize, sources: &[Source], of_parts: &[Option<Array>]) -> Result<()> {
    for (place, array) in of_parts.iter().enumerate() {
        let own = || sources.iter().flatten().filter(|(part, _)| *part == place).map(|(_, frame)| *frame);
        let (Some(first), Some(last)) = (own().min(), own().max()) else { continue };
        let records = read(array.as_ref(), first..last + 1)?;
        for (to, source) in bytes.chunks_exact_mut(size).zip(sources) {
            let Some((_, frame)) = source.filter(|(part, _)| *part == place) else { continue };
            let at = (frame - first) as usize * size;
            if let Some(record) = records.get(at..at + size) {
                to.copy_from_slice(record);
            }
        }
    }
    Ok(())
}

/// The numbers of the run in place of those of the parts.
fn number(bytes: &mut [u8], frames: Range<u64>, finished: &Finished) {
    let (values, _) = bytes.as_chunks_mut::<8>();
    for (value, frame) in values.iter_mut().zip(frames) {
        let said = i64::from_le_bytes(*value);
        let is_missing = finished.missing.contains(frame);
        let said = match said {
            0.. if is_missing => NO_FRAME,
            0.. => frame.cast_signed(),
            mark => mark,
        };
        *value = said.to_le_bytes();
    }
}

fn store(root: &Path, array: &Array, block: u64, mut bytes: Vec<u8>) -> Result<()> {
    if cfg!(target_endian = "big") {
        // As the writer of this machine stores them.
        bytes.chunks_exact_mut(array.dtype().size()).for_each(<[u8]>::reverse);
    }
    let shared = shared_files(array);
    if shared.is_none() && array.layout().has_index() {
        return Err(Error::format(array.path(), "has shards that are not those of a writer's records"));
    }
    let path = array.file_path(&[shared.map_or(block, |files| files.file(block))]);
    path.parent().map_or(Ok(()), |folder| folders_below(root, folder))?;
    let Some(files) = shared else { return put(&path, &bytes) };
    // Blocks come in order. An earlier call may have been stopped.
    if block.is_multiple_of(files.blocks()) {
        put(&path, files.empty_table())?;
    }
    let (at, entry) = files.entry(block);
    write_within(array, &path, &[(files.place(block).offset, &bytes), (at, &entry)])
}
