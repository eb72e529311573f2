//! NDTiff, what Micro-Manager and Pycro-Manager write: files of planes, and an index beside them that says which plane
//! is where.
//!
//! ```text
//! NDTiff.index, for each plane, little-endian:
//! u32 n | axes: n bytes of JSON | u32 n | file name: n bytes | u32 offset of the pixels | u32 width | u32 height
//! | u32 pixel type | u32 compression | u32 offset of the metadata | u32 their bytes | u32 their compression
//!
//! The head of each file, from byte 8 on: u32 483729, u32 major version, u32 minor version (only of version 3),
//! u32 2355492, u32 n, summary: n bytes of JSON
//! ```
//!
//! Source: "NDTiff file format", in github.com/micro-manager/NDTiffStorage.

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::fs::File;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use serde_json::Value;
use shardwright::Dtype;

use super::axes::{Axes, OuterAxis};
use super::files::{open_regular, read_at, sibling};
use super::listing::{folder_of, name_some, tiff_files};
use super::recording::{CameraRegion, named_channel};
use super::tiff::ByteOrder;
use super::tiff::mmstack::{Scales, choose_position, stage};
use super::tiff::page::{self, Page, PageData, PixelEncoding, Predictor, Shape, TiffCompression};
use super::tiff::planes::{PlaneReader, PlaneSource, RecordingFacts};
use super::why::{Why, cannot};
use crate::args::Series;
use crate::failure::Failure;

pub(crate) const INDEX: &str = "NDTiff.index";

/// An index of a million planes has some 150 MB.
const INDEX_BYTES_MAX: u64 = 4 << 30;

/// What is said of the acquisition.
const METADATA_BYTES_MAX: u64 = 64 << 20;

/// What is said of a plane.
const PLANE_METADATA_BYTES_MAX: u64 = 4 << 20;

const FILE_MAGIC: u64 = 483_729;
const SUMMARY_MAGIC: u64 = 2_355_492;

/// The index beside a file of NDTiff; `None` if the file is none, or alone.
pub(crate) fn index_of(path: &Path) -> Option<PathBuf> {
    let mut head = [0; 12];
    read_at(&open_regular(path).ok()?, &mut head, 0).ok()?;
    let index = path.with_file_name(INDEX);
    (head[8..] == (FILE_MAGIC as u32).to_le_bytes() && index.is_file()).then_some(index)
}

/// A place on an axis: a number, or a name such as a channel's.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
enum At {
    Number(i64),
    Name(String),
}

/// A plane as the index has it.
struct NdTiffEntry {
    axes: BTreeMap<String, At>,
    file: String,
    /// Offset, width, height, pixel type, compression; offset and bytes of the metadata.
    numbers: [u64; 7],
}

/// Opens the recording of an index.
pub(crate) fn open(path: &Path, series: Option<Series>) -> Result<PlaneReader, Failure> {
    let bytes = read_index(path).map_err(|why| cannot("read", path, why))?;
    let (mut entries, cut_at) = parse(&bytes);
    if entries.is_empty() {
        return Err(cannot("read", path, "it holds no whole entry"));
    }
    let others = note_of_others(path, &entries);
    let places = NdTiffAxis::of("position", &entries);
    let position = |entry: &NdTiffEntry| match entry.axes.get("position") {
        Some(At::Number(number)) => u64::try_from(*number).unwrap_or(0),
        // Positions with names are counted as they came.
        name => places.place(name),
    };
    let positions: BTreeSet<u64> = entries.iter().map(position).collect();
    let wanted = choose_position(&positions, series, path)?;
    entries.retain(|entry| position(entry) == wanted);
    entries.iter_mut().for_each(|entry| drop(entry.axes.remove("position")));
    let mut found = find(path, &entries, wanted)?;
    found.notes.extend(others);
    found.series = positions.into_iter().collect();
    if let Some(place) = cut_at {
        found.defect = Some(cannot("read", path, format!("it breaks off within an entry at byte {place}")).to_string());
    }
    PlaneReader::new(found)
}

/// That TIFF files beside an index are none of its files.
fn note_of_others(path: &Path, entries: &[NdTiffEntry]) -> Option<String> {
    let files: HashSet<_> = entries.iter().map(|entry| path.with_file_name(&entry.file)).collect();
    let there = tiff_files(&folder_of(path)).ok()?;
    let others: Vec<_> = there.iter().filter(|file| !files.contains(*file)).collect();
    (!others.is_empty()).then(|| format!("the index names no planes of these files beside it: {}", name_some(&others)))
}

fn read_index(path: &Path) -> Result<Vec<u8>, String> {
    let file = open_regular(path).map_err(|error| error.to_string())?;
    let len = file.metadata().map_err(|error| error.to_string())?.len();
    if len > INDEX_BYTES_MAX {
        return Err(format!("it has {len} bytes, more than an index of planes"));
    }
    let mut bytes = vec![0; len as usize];
    read_at(&file, &mut bytes, 0).map_err(|error| error.to_string())?;
    Ok(bytes)
}

/// All whole entries, and where the last one breaks off.
fn parse(bytes: &[u8]) -> (Vec<NdTiffEntry>, Option<usize>) {
    let (mut rest, mut entries) = (bytes, Vec::new());
    while !rest.is_empty() {
        let before = bytes.len() - rest.len();
        match parse_entry(&mut rest) {
            Some(entry) => entries.push(entry),
            None => return (entries, Some(before)),
        }
    }
    (entries, None)
}

fn parse_entry(rest: &mut &[u8]) -> Option<NdTiffEntry> {
    let mut take = |count: usize| {
        let (head, tail) = rest.split_at_checked(count)?;
        *rest = tail;
        Some(head)
    };
    let word = |bytes: &[u8]| ByteOrder::Little.number(bytes);
    let count = word(take(4)?) as usize;
    let axes: BTreeMap<String, Value> = serde_json::from_slice(take(count)?).ok()?;
    let count = word(take(4)?) as usize;
    let file = str::from_utf8(take(count)?).ok()?.to_owned();
    let numbers = take(32)?;
    let at = |value: Value| match value {
        Value::String(name) => Some(At::Name(name)),
        value => value.as_i64().map(At::Number),
    };
    let axes = axes.into_iter().map(|(name, value)| Some((name, at(value)?))).collect::<Option<_>>()?;
    Some(NdTiffEntry { axes, file, numbers: std::array::from_fn(|index| word(&numbers[index * 4..][..4])) })
}

/// An axis of the index: its name, and what of it stands where.
struct NdTiffAxis {
    key: String,
    /// The lowest number, and how many there are up to the highest.
    numbers: Option<(i64, u64)>,
    names: HashMap<String, u64>,
    labels: Vec<String>,
    changes: usize,
}

impl NdTiffAxis {
    /// Looks at all entries. An entry without the axis stands at 0.
    fn of(key: &str, entries: &[NdTiffEntry]) -> Self {
        let mut scale =
            Self { key: key.to_owned(), numbers: None, names: HashMap::new(), labels: Vec::new(), changes: 0 };
        let (mut range, mut before) = (None::<(i64, i64)>, None);
        for entry in entries {
            let at = entry.axes.get(key);
            scale.changes += usize::from(before.is_some_and(|before| before != at));
            before = Some(at);
            match at {
                Some(At::Name(name)) if !scale.names.contains_key(name) => {
                    scale.names.insert(name.clone(), scale.labels.len() as u64);
                    scale.labels.push(name.clone());
                }
                Some(At::Name(_)) => {}
                number => {
                    let number = if let Some(At::Number(number)) = number { *number } else { 0 };
                    let (low, high) = range.unwrap_or((number, number));
                    range = Some((low.min(number), high.max(number)));
                }
            }
        }
        scale.numbers = range.map(|(low, high)| (low, high.abs_diff(low).saturating_add(1)));
        scale
    }

    fn size(&self) -> u64 {
        self.numbers.map_or(0, |numbers| numbers.1).saturating_add(self.names.len() as u64)
    }

    /// Names come after numbers, if there are both.
    fn place(&self, at: Option<&At>) -> u64 {
        let (low, count) = self.numbers.unwrap_or((0, 0));
        match at {
            Some(At::Name(name)) => count + self.names[name],
            Some(At::Number(number)) => number.abs_diff(low),
            None => 0i64.abs_diff(low),
        }
    }

    fn axis(&self, scales: &Scales) -> OuterAxis {
        match self.key.as_str() {
            "time" => OuterAxis::new("t", self.size()).step(scales.t),
            "channel" => OuterAxis::new("c", self.size()),
            "z" => OuterAxis::new("z", self.size()).step(scales.z),
            other => OuterAxis::new(other, self.size()),
        }
    }
}

fn find(path: &Path, entries: &[NdTiffEntry], position: u64) -> Result<RecordingFacts, Failure> {
    let keys: BTreeSet<&String> = entries.iter().flat_map(|entry| entry.axes.keys()).collect();
    let mut axes: Vec<_> = keys.into_iter().map(|key| NdTiffAxis::of(key, entries)).collect();
    // What changes most often is the fastest axis.
    axes.sort_by_key(|axis| axis.changes);
    let mut files = NdTiffFiles::new(path, entries);
    let summary = files.paths.iter().find_map(|path| summary(path.as_deref()?)).unwrap_or(Value::Null);
    let scales = Scales::of(&summary);
    let [x_place, y_place] = stage(&summary, position);
    let channels = axes.iter().find(|axis| axis.key == "channel" && axis.numbers.is_none());
    let found_axes = Axes {
        outer: axes.iter().map(|axis| axis.axis(&scales)).collect(),
        y_step: scales.pixel,
        x_step: scales.pixel,
        y_place,
        x_place,
        channels: channels
            .map(|axis| axis.labels.iter().map(|label| named_channel(label)).collect())
            .unwrap_or_default(),
        ..Axes::default()
    };
    let refuse = |why: Why| cannot("read", path, why);
    let mut planes = RecordingFacts::room(&found_axes, entries.len() as u64).map_err(|why| refuse(why.into()))?;
    for (number, (entry, region)) in entries.iter().zip(files.regions(entries)).enumerate() {
        let place = axes.iter().fold(0, |place, axis| place * axis.size() + axis.place(entry.axes.get(&axis.key)));
        let page = files.page(entry).map_err(|why| refuse(why.within(|why| format!("plane {number}: {why}"))))?;
        planes[place as usize] =
            page.map(|page| PlaneSource { file: files.number(entry) as u32, number: number as u32, page, region });
    }
    let NdTiffFiles { paths, notes, .. } = files;
    let files = paths.into_iter().map(|path| path.unwrap_or_default()).collect();
    Ok(RecordingFacts { axes: found_axes, files, planes, notes, defect: None, series: Vec::new() })
}

/// The files that the index names.
struct NdTiffFiles {
    numbers: HashMap<String, usize>,
    /// `None`: the file is not there.
    paths: Vec<Option<PathBuf>>,
    sizes: Vec<u64>,
    notes: Vec<String>,
    form: Option<Arc<PixelEncoding>>,
}

impl NdTiffFiles {
    fn new(index: &Path, entries: &[NdTiffEntry]) -> Self {
        let (numbers, paths) = (HashMap::new(), Vec::new());
        let mut files = Self { numbers, paths, sizes: Vec::new(), notes: Vec::new(), form: None };
        for entry in entries {
            if files.numbers.contains_key(&entry.file) {
                continue;
            }
            let path = sibling(index, &entry.file).map_err(|why| files.notes.push(why)).ok();
            let size = path.as_ref().and_then(|path| path.metadata().ok()).map_or(0, |metadata| metadata.len());
            files.numbers.insert(entry.file.clone(), files.paths.len());
            files.paths.push(path);
            files.sizes.push(size);
        }
        files
    }

    fn number(&self, entry: &NdTiffEntry) -> usize {
        self.numbers[&entry.file]
    }

    /// The parts of the sensor that the metadata of planes name, if those of the first one do.
    fn regions(&self, entries: &[NdTiffEntry]) -> Vec<Option<CameraRegion>> {
        let mut open: Option<(usize, File)> = None;
        let mut region = |entry: &NdTiffEntry| {
            let (number, [.., at, length]) = (self.number(entry), entry.numbers);
            let path = self.paths[number].as_deref().filter(|_| length < PLANE_METADATA_BYTES_MAX)?;
            if open.as_ref().is_none_or(|(known, _)| *known != number) {
                open = Some((number, open_regular(path).ok()?));
            }
            let mut text = vec![0; length as usize];
            read_at(&open.as_ref()?.1, &mut text, at).ok()?;
            CameraRegion::of_metadata(&text)
        };
        match entries.first().and_then(&mut region) {
            None => vec![None; entries.len()],
            Some(_) => entries.iter().map(region).collect(),
        }
    }

    /// The pixels of an entry; `None` if its file does not reach so far.
    fn page(&mut self, entry: &NdTiffEntry) -> Result<Option<Page>, Why> {
        let form = form(entry)?;
        let [offset, ..] = entry.numbers;
        let bytes = form.shape.frame_bytes() * form.shape.samples;
        if offset + bytes > self.sizes[self.number(entry)] {
            return Ok(None);
        }
        let form = match &self.form {
            Some(shared) if **shared == form => shared.clone(),
            _ => self.form.insert(Arc::new(form)).clone(),
        };
        Ok(Some(Page { form, place: PageData::Together(offset) }))
    }
}

/// How an entry's pixels are laid out.
fn form(entry: &NdTiffEntry) -> Result<PixelEncoding, Why> {
    let [_, width, height, pixel_type, compression, ..] = entry.numbers;
    if compression != 0 {
        return Why::unread(format!("its compression {compression} is not read here; 0, none, is"));
    }
    if width == 0 || height == 0 || width > 1 << 24 || height > 1 << 24 {
        return Err(format!("it claims {width} x {height} pixels").into());
    }
    let (dtype, samples) = match pixel_type {
        0 => (Dtype::U8, 1),
        // 16 bits, or 10, 12, 14 and 11 in 16.
        1 | 3..=6 => (Dtype::U16, 1),
        2 => (Dtype::U8, 3),
        other => return Why::unread(format!("its pixel type {other} is unknown; 0 to 6 are known")),
    };
    Ok(PixelEncoding {
        shape: Shape { width, height, samples, dtype },
        bits: dtype.size() as u64 * 8,
        compression: TiffCompression::None,
        predictor: Predictor::None,
        photometric: if samples == 3 { page::RGB } else { 1 },
        is_planar: false,
        is_reversed: false,
        is_tiled: false,
        order: ByteOrder::Little,
        piece_width: width,
        piece_height: height,
        jpeg_tables: None,
    })
}

/// What the head of a file says of the whole acquisition.
fn summary(path: &Path) -> Option<Value> {
    let file = open_regular(path).ok()?;
    let mut head = [0; 28];
    read_at(&file, &mut head, 0).ok()?;
    let words: Vec<_> = head[8..].chunks_exact(4).map(|word| ByteOrder::Little.number(word)).collect();
    let (length, start) = match words[..] {
        [FILE_MAGIC, _, SUMMARY_MAGIC, length, _] => (length, 24),
        [FILE_MAGIC, _, _, SUMMARY_MAGIC, length] => (length, 28),
        _ => return None,
    };
    if start + length > file.metadata().ok()?.len() || length > METADATA_BYTES_MAX {
        return None;
    }
    let mut text = vec![0; length as usize];
    read_at(&file, &mut text, start).ok()?;
    serde_json::from_slice(&text).ok()
}

#[cfg(test)]
mod tests {
    use shardwright::Roi;

    use super::super::recording::FrameSource;
    use super::*;
    use crate::args::MovingRoi;

    /// A recording of planes of 3 x 2 bytes, each with its number, which say these regions.
    fn write(folder: &Path, regions: &[&str]) -> PathBuf {
        let (mut file, mut index) = (vec![0; 8], Vec::new());
        for (number, region) in regions.iter().enumerate() {
            let (axes, said) = (format!(r#"{{"time":{number}}}"#), format!(r#"{{"Exposure":10,"ROI":"{region}"}}"#));
            let pixels_at = file.len();
            file.extend([number as u8; 6]);
            let said_at = file.len();
            file.extend(said.bytes());
            for text in [&axes, "run.tif"] {
                index.extend((text.len() as u32).to_le_bytes());
                index.extend(text.bytes());
            }
            let words = [pixels_at, 3, 2, 0, 0, said_at, said.len(), 0];
            index.extend(words.iter().flat_map(|&word| (word as u32).to_le_bytes()));
        }
        std::fs::write(folder.join("run.tif"), file).unwrap();
        std::fs::write(folder.join(INDEX), index).unwrap();
        folder.join(INDEX)
    }

    #[test]
    fn planes_stand_where_their_metadata_say() {
        let folder = tempfile::tempdir().unwrap();
        let index = write(folder.path(), &["10-20-3-2", "11-19-3-2", "10-20-3-2"]);
        let refused = open(&index, None).unwrap().settle_regions(None, &index).unwrap_err().to_string();
        assert!(refused.contains("10-20-3-2 and 11-19-3-2"), "{refused}");
        let mut source = open(&index, None).unwrap();
        source.settle_regions(Some(MovingRoi::Pad), &index).unwrap();
        let parts: Vec<_> = (0..3).map(|frame| source.roi(frame).unwrap()).collect();
        let part = |y, x| Roi { y, x, height: 2, width: 3 };
        assert_eq!(parts, [part(1, 0), part(0, 1), part(1, 0)]);
        let mut frame = [9; 12];
        source.read(1, &mut frame).unwrap();
        assert_eq!(frame, [9, 1, 1, 1, 9, 1, 1, 1, 9, 9, 9, 9]);
        assert_eq!((source.recording().frame_bytes(), source.held_bytes()), (12, 6));
    }

    #[test]
    fn the_region_of_all_planes_is_kept() {
        let folder = tempfile::tempdir().unwrap();
        let index = write(folder.path(), &["10-20-3-2"; 2]);
        let mut source = open(&index, None).unwrap();
        source.settle_regions(None, &index).unwrap();
        assert_eq!(source.recording().region.map(|region| region.to_string()).as_deref(), Some("10-20-3-2"));
        assert_eq!((source.roi(1), source.recording().frame_bytes()), (None, 6));
    }
}
