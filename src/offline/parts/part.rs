//! The parts that there are, and how they ended.

use std::fs;
use std::ops::Range;
use std::path::{Path, PathBuf};

use serde_json::Value;

use crate::error::{Error, Result};
use crate::format::keys::FRAME_NUMBERS;
use crate::format::part::{PartMap, Parts, part_key};
use crate::format::provenance::{Provenance, hex};
use crate::format::zarr3;
use crate::fs::document;
use crate::named::named;
use crate::offline::array::Array;
use crate::offline::ranges::{Gather, Ranges};
use crate::record::NO_FRAME;

/// Numbers that are read at a time.
const NUMBERS_AT_ONCE: u64 = 1 << 16;
/// Of a run that was stopped, the last frames may have no records.
const FRAMES_WITHOUT_RECORDS_MAX: u64 = 1 << 24;

/// How a part of a run ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum PartState {
    /// As it should.
    Complete,
    /// It was stopped, and recovered.
    Recovered,
    /// It was stopped, or had an error, and nobody has recovered it.
    Unfinished,
    /// It was never begun.
    Absent,
}

named!(PartState, "state", {
    Complete => "complete",
    Recovered => "recovered",
    Unfinished => "unfinished",
    Absent => "absent",
});

/// A part that is, or should be, there.
pub(super) struct FoundPart {
    pub(super) index: u32,
    pub(super) folder: PathBuf,
    pub(super) state: PartState,
    /// Of one that is there.
    pub(super) said: Option<Said>,
}

/// What a part says of itself.
pub(super) struct Said {
    pub(super) own: Provenance,
    pub(super) map: PartMap,
    pub(super) attributes: Value,
}

/// All parts of a run.
pub(super) fn find(root: &Path, run: &Provenance, parts: Parts) -> Result<Vec<FoundPart>> {
    let found: Vec<FoundPart> =
        (0..parts.of).map(|index| FoundPart::at(root, run, parts, index)).collect::<Result<_>>()?;
    // By frame, the bands differ.
    let rows = |part: &FoundPart| part.said.as_ref().map(|said| (said.map.row_frames, said.map.row_cells));
    let mut all = found.iter().filter_map(|part| Some((part, rows(part)?)));
    let first = all.next().map(|(_, rows)| rows);
    match all.find(|(_, rows)| Some(*rows) != first) {
        Some((part, _)) => Err(Error::format(&part.folder, "has other rows of shards than another part of the run")),
        None => Ok(found),
    }
}

impl FoundPart {
    fn at(root: &Path, run: &Provenance, parts: Parts, index: u32) -> Result<Self> {
        let folder = root.join(part_key(index));
        // What is moved from behind a link would not be the run's.
        if [folder.as_path(), &folder.join("0")].iter().any(|path| path.is_symlink()) {
            return Err(Error::conflict(&folder, "is a link, or has one; a part is a folder of the run"));
        }
        let absent = |folder| Ok(Self { index, folder, state: PartState::Absent, said: None });
        let Some(found) = document::read(&folder.join(zarr3::DOCUMENT))? else { return absent(folder) };
        let attributes = found["attributes"].clone();
        let wrong = |reason: String| Err(Error::format(&folder, reason));
        let own = Provenance::parse(&folder, &attributes)?;
        let Some((own, map)) = own.and_then(|own| own.part.map(|map| (own, map))) else {
            return wrong(format!("is not part {index} of a run: its document says nothing of parts"));
        };
        if own.writer != run.writer {
            let (of_part, of_run) = (hex(&own.writer), hex(&run.writer));
            return wrong(format!("is a part of another run, {of_part}, and this one is {of_run}; move it away"));
        }
        if (map.index, map.of, map.by) != (index, parts.of, parts.by) {
            return wrong(format!("is part {} of {} by {}, and stands in another's place", map.index, map.of, map.by));
        }
        if !run.complete && !run.recovered {
            check_array(root, &folder)?;
            check_end(&folder, own.frames.unwrap_or(0))?;
        }
        let state = match (own.complete, own.recovered) {
            (true, _) => PartState::Complete,
            (_, true) => PartState::Recovered,
            _ => PartState::Unfinished,
        };
        Ok(Self { index, folder, state, said: Some(Said { own, map, attributes }) })
    }

    pub(super) fn is_ended(&self) -> bool {
        matches!(self.state, PartState::Complete | PartState::Recovered)
    }

    /// Whether its shards were moved when the run was finished.
    pub(super) fn was_taken(&self, parts: Parts) -> bool {
        !parts.finishing && !has_files(&self.folder.join("0/c"))
    }

    /// One past the last frame that came, in the numbers of the part.
    pub(super) fn end(&self) -> u64 {
        self.said.as_ref().and_then(|said| said.own.frames).unwrap_or(0)
    }

    pub(super) fn frames_came(&self) -> u64 {
        let missing = self.said.as_ref().map_or(0, |said| said.own.frames_missing);
        self.end().saturating_sub(missing)
    }

    /// The frames below its end that are missing, in the numbers of the part. Documents list no more than the first of
    /// them.
    pub(super) fn missing(&self) -> Result<Ranges> {
        let Some(Said { own, .. }) = &self.said else { return Ok(Ranges::default()) };
        let listed = Ranges::new(own.missing.clone());
        if listed.count() >= own.frames_missing {
            return Ok(listed);
        }
        let numbers = self.field(FRAME_NUMBERS)?;
        let (end, mut absent) = (self.end(), Gather::default());
        let mut at = 0;
        while at < end {
            let next = (at + NUMBERS_AT_ONCE).min(end);
            let bytes = read(numbers.as_ref(), at..next)?;
            let (values, _) = bytes.as_chunks::<8>();
            for (value, frame) in values.iter().zip(at..) {
                if i64::from_le_bytes(*value) == NO_FRAME {
                    absent.add(frame);
                }
            }
            at = next;
        }
        Ok(listed.union(&absent.ranges()))
    }

    /// Chunks that it has lost since it ended, and what to say of them.
    pub(super) fn lost(&self) -> Result<Option<(u64, String)>> {
        if !self.is_ended() {
            return Ok(None);
        }
        let array = Array::open_exactly(&self.folder.join("0"))?;
        let lost = array.as_ref().map(Array::lost).transpose()?.flatten();
        Ok(lost.map(|lost| (lost.chunks(), format!("part {} {lost}", self.index))))
    }

    /// The array of a field of its records.
    pub(super) fn field(&self, name: &str) -> Result<Option<Array>> {
        Array::open_exactly(&self.folder.join(name))
    }
}

/// What an array of records says of some frames, of which it may have fewer.
pub(super) fn read(array: Option<&Array>, frames: Range<u64>) -> Result<Vec<u8>> {
    let Some(array) = array else { return Ok(Vec::new()) };
    let [length] = *array.shape() else { return Err(Error::format(array.path(), "is no list of records")) };
    let count = frames.end.min(length).saturating_sub(frames.start);
    let mut bytes = vec![0; count as usize * array.dtype().size()];
    if count > 0 {
        array.read_region(&[frames.start], &[count], &mut bytes)?;
    }
    Ok(bytes)
}

/// Refuses a part that says of more frames that they came than its records have room for, by far: each is looked for.
fn check_end(folder: &Path, end: u64) -> Result<()> {
    let Some(numbers) = Array::open_exactly(&folder.join(FRAME_NUMBERS))? else { return Ok(()) };
    let blocks = numbers.files()?.iter().filter_map(|(_, at)| at.first()?.checked_add(1)).max().unwrap_or(0);
    let room = blocks.saturating_mul(numbers.layout().file_shape.first().copied().unwrap_or(0));
    if end > room.saturating_add(FRAMES_WITHOUT_RECORDS_MAX) {
        let reason = format!("says that it has {end} frames, and its records end at {room}");
        return Err(Error::format(folder, reason));
    }
    Ok(())
}

/// Refuses a part whose chunks are not those of the run.
fn check_array(root: &Path, folder: &Path) -> Result<()> {
    let [of_run, of_part] = [root, folder].map(|of| document::read(&of.join("0").join(zarr3::DOCUMENT)));
    let (of_run, of_part) = (of_run?.unwrap_or_default(), of_part?.unwrap_or_default());
    let other = ["data_type", "chunk_grid", "chunk_key_encoding", "codecs", "fill_value"];
    match other.iter().find(|key| of_run[**key] != of_part[**key]) {
        Some(key) => {
            let reason = format!("has another {key} than the run: {} and {}", of_part[*key], of_run[*key]);
            Err(Error::format(folder.join("0"), reason))
        }
        None => Ok(()),
    }
}

/// Whether there is a file in a folder, or in one below it.
fn has_files(folder: &Path) -> bool {
    let mut entries = fs::read_dir(folder).into_iter().flatten().flatten();
    entries.any(|entry| !entry.file_type().is_ok_and(|kind| kind.is_dir()) || has_files(&entry.path()))
}
