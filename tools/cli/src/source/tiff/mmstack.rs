//! Image stacks of Micro-Manager by their own index, for files whose OME-XML was never written.
//!
//! ```text
//!  8  index magic    4   54773648          40  summary        n   JSON
//! 12  index offset   4
//! 32  summary magic  4   2355492           at the index offset: u32 3453623, u32 count, and for each plane
//! 36  summary bytes  4   n                 u32 channel, slice, frame, position, offset of the page's directory
//! ```
//!
//! Source: "Micro-Manager File Formats", section "Micro-Manager metadata in image stacks".

use std::collections::{BTreeSet, HashMap};
use std::iter;
use std::path::{Path, PathBuf};

use serde_json::Value;
use shardwright::Channel;

use super::super::axes::{Axes, OuterAxis, Step};
use super::super::files::stays_inside;
use super::super::recording::named_channel;
use super::super::why::cannot;
use super::asked::Asked;
use super::ifd::{TiffBytes, TiffHeader};
use super::planes::RecordingFacts;
use super::stack::Stack;
use crate::args::Series;
use crate::failure::Failure;

const INDEX_MAGIC: u64 = 54_773_648;
const ENTRIES_MAGIC: u64 = 3_453_623;
const SUMMARY_MAGIC: u64 = 2_355_492;

/// One plane: channel, slice, frame, position, and where its directory is.
type MmPlane = [u64; 5];

/// The index of one file.
pub(crate) struct MmIndex {
    pub(crate) summary: Value,
    pub(crate) entries: Vec<MmPlane>,
}

impl MmIndex {
    /// The index of a file; `None` if it has none.
    pub(crate) fn of(path: &Path) -> Result<Option<Self>, Failure> {
        let mut bytes = TiffBytes::open(path).map_err(|error| Failure::io("open", path, &error))?;
        Ok(Self::read(&mut bytes))
    }

    fn read(bytes: &mut TiffBytes) -> Option<Self> {
        let order = TiffHeader::read(bytes).ok()?.order;
        let head: Vec<_> = bytes.at(8, 32).ok()?.chunks_exact(4).map(|word| order.number(word)).collect();
        if head[0] != INDEX_MAGIC || head[1] == 0 {
            return None;
        }
        let table = bytes.at(head[1], 8).ok()?;
        let (magic, count) = (order.number(&table[..4]), order.number(&table[4..]));
        if magic != ENTRIES_MAGIC || count == 0 {
            return None;
        }
        let table = bytes.at(head[1] + 8, count * 20).ok()?;
        let entry = |entry: &[u8]| {
            let mut words = entry.chunks_exact(4).map(|word| order.number(word));
            std::array::from_fn(|_| words.next().unwrap_or(0))
        };
        let entries = table.chunks_exact(20).map(entry).collect();
        let summary = match head[6] == SUMMARY_MAGIC {
            true => bytes.at(40, head[7]).ok().and_then(|text| serde_json::from_slice(text).ok()),
            false => None,
        };
        Some(Self { summary: summary.unwrap_or(Value::Null), entries })
    }

    /// The planes of the position that is asked for, also of the files that go on after this one. In a folder there may
    /// be further positions, each with files of its own.
    pub(crate) fn find(self, stack: Stack, asked: Asked) -> Result<RecordingFacts, Failure> {
        let heads = heads(asked.folder);
        if heads.len() > 1 { find_in_folder(&heads, asked) } else { self.find_here(stack, asked.series) }
    }

    /// The same of what begins with this file.
    fn find_here(self, stack: Stack, series: Option<Series>) -> Result<RecordingFacts, Failure> {
        let path = stack.path.clone();
        let mut parts = vec![(stack, self.entries)];
        let mut notes = Vec::new();
        for file in continuations(&path) {
            if let Err(why) = stays_inside(&path.with_file_name(""), &file) {
                notes.push(why);
                continue;
            }
            match (Stack::open(&file), Self::of(&file)) {
                (Ok(stack), Ok(Some(index))) => parts.push((stack, index.entries)),
                _ => notes.push(format!("{} belongs to the set, but can't be read", file.display())),
            }
        }
        let entries = || parts.iter().flat_map(|part| &part.1);
        let positions: BTreeSet<u64> = entries().map(|entry| entry[3]).collect();
        let position = choose_position(&positions, series, &path)?;
        let size = |column: usize| entries().map(|entry| entry[column] + 1).max().unwrap_or(1);
        let axes = axes(&self.summary, [size(0), size(1), size(2)], position);
        let there = parts.iter().map(|part| part.0.entries.len() as u64).sum();
        let mut planes = RecordingFacts::room(&axes, there).map_err(|why| cannot("read", &path, why))?;
        for (file, (stack, entries)) in parts.iter().enumerate() {
            let pages: HashMap<u64, usize> =
                (0..stack.entries.len()).map(|page| (stack.entries[page].offset, page)).collect();
            for entry in entries.iter().filter(|entry| entry[3] == position) {
                let place = axes.outer.iter().fold(0, |place, axis| {
                    let column = ["c", "z", "t"].iter().position(|name| *name == axis.name).unwrap_or(0);
                    place * axis.size + entry[column]
                });
                if let Some(&page) = pages.get(&entry[4]) {
                    planes[place as usize] = Some(stack.plane(file, page)?);
                }
            }
        }
        notes.extend(parts.iter().flat_map(|part| part.0.notes()));
        let defect = parts.iter_mut().find_map(|part| part.0.defect.take());
        let files = parts.into_iter().map(|part| part.0.path).collect();
        let series = positions.into_iter().collect();
        Ok(RecordingFacts { axes, files, planes, notes, defect, series })
    }
}

/// A position of those that have files of their own in a folder. `heads`: the first file of each stack.
fn find_in_folder(heads: &[&PathBuf], asked: Asked) -> Result<RecordingFacts, Failure> {
    let first = heads[0];
    let run = stack_name(first).map(|name| name.0);
    let is_of_run = |file: &Path| file == first || run.is_some() && stack_name(file).map(|name| name.0) == run;
    asked.refuse_others(first, |file| is_of_run(file) && MmIndex::of(file).is_ok_and(|index| index.is_some()))?;
    let mut here = Vec::new();
    for head in heads {
        let files = iter::once((*head).clone()).chain(continuations(head));
        let indexes = files.filter_map(|file| MmIndex::of(&file).ok().flatten());
        let positions: BTreeSet<u64> = indexes.flat_map(|index| index.entries).map(|entry| entry[3]).collect();
        here.extend(positions.into_iter().map(|position| (position, *head)));
    }
    here.sort_by_key(|of| of.0);
    let said: BTreeSet<u64> = here.iter().map(|of| of.0).collect();
    // Numbers that are not those of all can't choose one.
    let numbers: Vec<u64> =
        if said.len() == here.len() { said.into_iter().collect() } else { (0..here.len() as u64).collect() };
    let name = |file: &Path| file.file_name().unwrap_or_default().display().to_string();
    let listed: Vec<_> = here.iter().zip(&numbers).map(|(of, number)| format!("{number} ({})", name(of.1))).collect();
    let chosen =
        choose_listed(&numbers.iter().copied().collect(), &listed, asked.series, first.parent().unwrap_or(first))?;
    let (position, head) = here[numbers.binary_search(&chosen).unwrap_or(0)];
    let stack = Stack::open(head)?;
    let Some(index) = MmIndex::of(head)? else { return Err(cannot("read", head, "its index is gone")) };
    let absent = note_of_absent(&index.summary, here.len());
    let mut found = index.find_here(stack, Some(Series::Number(position)))?;
    found.notes.extend(absent);
    found.axes.name = stack_name(head).map(|name| name.1.trim_start_matches('_').to_owned());
    Ok(RecordingFacts { series: numbers, ..found })
}

/// That the acquisition had more positions than are there.
pub(crate) fn note_of_absent(summary: &Value, there: usize) -> Option<String> {
    let planned = summary["Positions"].as_u64().filter(|planned| *planned > there as u64)?;
    Some(format!("the acquisition says {planned} positions, of which {there} are there"))
}

/// `RUN` and `_Pos0` of `RUN_MMStack_Pos0.ome.tif`.
pub(crate) fn stack_name(file: &Path) -> Option<(String, String)> {
    let (run, rest) = file.file_name()?.to_str()?.split_once("_MMStack")?;
    let (position, _) = rest.split_once('.')?;
    Some((run.to_owned(), position.to_owned()))
}

/// The files among these with which a stack begins.
fn heads(files: &[PathBuf]) -> Vec<&PathBuf> {
    let later: BTreeSet<PathBuf> = files.iter().flat_map(|file| continuations(file)).collect();
    files.iter().filter(|file| !later.contains(*file)).collect()
}

/// The files into which a stack goes on that has become too long for one: `x.ome.tif`, `x_1.ome.tif`, `x_2.ome.tif`.
fn continuations(path: &Path) -> Vec<PathBuf> {
    let Some(name) = path.file_name().and_then(|name| name.to_str()) else { return Vec::new() };
    let Some((stem, ending)) = name.split_once('.') else { return Vec::new() };
    let next = |number| path.with_file_name(format!("{stem}_{number}.{ending}"));
    (1..).map(next).take_while(|file| file.is_file()).collect()
}

/// One position of those that there are.
pub(crate) fn choose_position(positions: &BTreeSet<u64>, series: Option<Series>, path: &Path) -> Result<u64, Failure> {
    let list: Vec<_> = positions.iter().map(u64::to_string).collect();
    choose_listed(positions, &list, series, path)
}

/// The same, of positions that are called otherwise in a list.
pub(crate) fn choose_listed(
    positions: &BTreeSet<u64>,
    list: &[String],
    series: Option<Series>,
    path: &Path,
) -> Result<u64, Failure> {
    let first = positions.first().copied().unwrap_or(0);
    match series {
        Some(Series::All(at)) => Ok(positions.iter().nth(at).copied().unwrap_or(first)),
        Some(Series::Number(series)) if positions.contains(&series) => Ok(series),
        Some(Series::Number(series)) => {
            Err(Failure::Usage(format!("--series {series}: {} has the positions {}", path.display(), list.join(", "))))
        }
        None if positions.len() == 1 => Ok(first),
        None => Err(Failure::Usage(format!(
            "{} holds {} positions; choose one with --series N, or --series all: {}",
            path.display(),
            positions.len(),
            list.join(", ")
        ))),
    }
}

/// The axes of a position by the numbers of channels, slices and frames, with what the summary says of them.
pub(crate) fn axes(summary: &Value, [channels, slices, frames]: [u64; 3], position: u64) -> Axes {
    let is_true = |key: &str| summary[key].as_bool().unwrap_or(true);
    let scales = Scales::of(summary);
    let c = OuterAxis::new("c", channels);
    let z = OuterAxis::new("z", slices).step(scales.z);
    let t = OuterAxis::new("t", frames).step(scales.t);
    let inner = if is_true("SlicesFirst") { [z, c] } else { [c, z] };
    let listed = |key: &str| summary[key].as_array().map(Vec::as_slice).unwrap_or_default();
    let names = listed("ChNames").iter().filter_map(Value::as_str).map(named_channel);
    let colors = listed("ChColors").iter().map(color).chain(iter::repeat_with(String::new));
    let channels_said: Vec<_> = names.zip(colors).map(|(channel, color)| Channel { color, ..channel }).collect();
    let [x_place, y_place] = stage(summary, position);
    Axes {
        x_place,
        y_place,
        outer: [t].into_iter().chain(inner).collect(),
        y_step: scales.pixel,
        x_step: scales.pixel,
        channels: if channels_said.len() as u64 == channels { channels_said } else { Vec::new() },
        ..Axes::default()
    }
}

/// A colour as Java's `Color.getRGB` has it: the bytes of alpha, red, green and blue, as a signed number.
fn color(said: &Value) -> String {
    said.as_i64().map_or_else(String::new, |argb| format!("{:06X}", argb & 0xFF_FFFF))
}

/// Where the stage was at a position, along x and y, as a summary of Micro-Manager 2 lists it.
pub(crate) fn stage(summary: &Value, position: u64) -> [Option<Step>; 2] {
    let said = &summary["StagePositions"][position as usize];
    let mut devices = said["DevicePositions"].as_array().into_iter().flatten();
    let stage = devices.find(|device| device["Device"] == said["DefaultXYStage"]);
    let along = |axis: usize| Some((stage?["Position_um"][axis].as_f64()?, "micrometer"));
    [along(0), along(1)]
}

/// Distances in a summary of Micro-Manager.
pub(crate) struct Scales {
    pub(crate) pixel: Option<Step>,
    pub(crate) z: Option<Step>,
    pub(crate) t: Option<Step>,
}

impl Scales {
    pub(crate) fn of(summary: &Value) -> Self {
        let step = |keys: &[&str], unit| {
            let value = keys.iter().find_map(|key| summary[*key].as_f64())?;
            (value.is_finite() && value > 0.0).then_some((value, unit))
        };
        Self {
            pixel: step(&["PixelSize_um", "PixelSizeUm"], "micrometer"),
            z: step(&["z-step_um", "ZStepUm"], "micrometer"),
            t: step(&["Interval_ms", "WaitInterval"], "millisecond"),
        }
    }
}
