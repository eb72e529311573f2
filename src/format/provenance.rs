//! What this crate's writer says about an image beside what the format says: who wrote it, where slots stand, how the
//! run ended.
//!
//! It is one attribute of the image, `shardwright`, which readers pass over.

use std::collections::BTreeSet;
use std::ops::Range;
use std::path::Path;

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};

use super::document::unlike;
use super::level_frames::LevelFrames;
use super::ngff;
use super::part::{PartMap, Parts};
use super::rules::Rules;
use super::slot_header::HEADER_BYTES;
use crate::config::Placement;
use crate::error::{Error, Result};
use crate::json::text;
use crate::words::quoted;

/// The attribute under which the writer speaks.
pub(crate) const ATTRIBUTE: &str = "shardwright";

/// Its fields that documents or arrays lose or get after they were written.
const VERSION: &str = "version";
const WRITER: &str = "writer";
const ORDER: &str = "acquisition_order";
const SLOTS: &str = "slots";
const CHUNKS: &str = "chunks";
const FRAMES_PLANNED: &str = "frames_planned";
const FRAMES_MISSING: &str = "frames_missing";
const MISSING: &str = "missing";
const LEVEL_OF: &str = "level_of";
const LEVEL_PLANES: &str = "level_planes";
const DIMENSIONS: &str = "dimensions";
const CHANNEL_DIMENSION: &str = "channel_dimension";
/// OME-Zarr's metadata, where a format has no other place for them.
pub(crate) const OME: &str = "ome";
/// How many ranges of missing frames the attributes name; the count goes on beyond.
pub(crate) const MISSING_RANGES_MAX: usize = 10_000;

pub(crate) const FRAMES_MAX: u64 = 1 << 56;

#[derive(Debug, Clone)]
pub(crate) struct Provenance {
    pub(crate) writer: [u8; 16],
    pub(crate) complete: bool,
    pub(crate) recovered: bool,
    /// One past the highest frame number; known after the end of a run or a recovery.
    pub(crate) frames: Option<u64>,
    /// The array grows with its frames.
    pub(crate) unbounded: bool,
    /// How many frames were to come, if that was said.
    pub(crate) planned: Option<u64>,
    pub(crate) chunks: Option<u64>,
    pub(crate) frames_missing: u64,
    pub(crate) missing: Vec<Range<u64>>,
    pub(crate) slots: Option<Slots>,
    /// Shards, by their paths below the array, in which a recovery found bytes that it could not account for.
    pub(crate) damaged_shards: BTreeSet<String>,
    /// The names of the outer dimensions, the slowest to arrive first.
    pub(crate) acquisition_order: Vec<String>,
    /// Of a level of a pyramid, the array beside it whose frames it has in smaller.
    pub(crate) level_of: Option<String>,
    pub(crate) level_frames: LevelFrames,
    /// Of one of several writers' parts, which one it is.
    pub(crate) part: Option<PartMap>,
    /// Of a run that several writers write, its parts.
    pub(crate) parts: Option<Parts>,
    /// What its writer ended with.
    pub(crate) error: Option<String>,
}

/// Where slots stand in a shard.
#[derive(Debug, Clone, Copy, Serialize, Deserialize)]
pub(crate) struct Slots {
    /// Fixed or packed.
    pub(crate) placement: Placement,
    pub(crate) first_at: u64,
    /// The most bytes of a chunk with its header; in fixed placement, from one slot to the next.
    pub(crate) bytes: u64,
    /// Chunks that hold only the fill value are stored like all others.
    #[serde(default)]
    pub(crate) empty_chunks: bool,
}

#[derive(Deserialize)]
struct Literally {
    writer: String,
    #[serde(default)]
    complete: bool,
    #[serde(default)]
    recovered: bool,
    acquisition_order: Vec<String>,
    /// Absent: said nothing. Null: as many as come.
    #[serde(default, deserialize_with = "said")]
    frames_planned: Option<Option<u64>>,
    frames: Option<u64>,
    chunks: Option<u64>,
    #[serde(default)]
    frames_missing: u64,
    #[serde(default)]
    missing: Vec<[u64; 2]>,
    #[serde(default)]
    damaged_shards: BTreeSet<String>,
    slots: Option<Slots>,
    level_of: Option<String>,
    level_planes: Option<LevelFrames>,
    part: Option<PartMap>,
    parts: Option<Parts>,
    error: Option<String>,
}

fn said<'de, D: serde::Deserializer<'de>>(value: D) -> Result<Option<Option<u64>>, D::Error> {
    Option::deserialize(value).map(Some)
}

impl Provenance {
    /// Reads the attributes of the image group at `path`; `None` if another writer made it.
    pub(crate) fn parse(path: &Path, attributes: &Value) -> Result<Option<Self>> {
        let Some(own) = own(attributes).filter(|_| is_of_writer(attributes)) else { return Ok(None) };
        let wrong = |reason: String| Error::format(path, format!("attribute {ATTRIBUTE}: {reason}"));
        let own: Literally = Literally::deserialize(own).map_err(|error| wrong(unlike(&error).to_string()))?;
        let writer = uuid(&own.writer).ok_or_else(|| wrong(format!("writer {} is no UUID", quoted(&own.writer))))?;
        if let Some(range) = own.missing.iter().find(|range| range[0] >= range[1]) {
            return Err(wrong(format!("missing names {range:?}; expected ranges that go up")));
        }
        let numbers = own.frames.into_iter().chain(own.missing.iter().map(|range| range[1]));
        if let Some(frames) = numbers.max().filter(|&frames| frames > FRAMES_MAX) {
            return Err(wrong(format!("{frames} frames are more than a writer can number, {FRAMES_MAX}")));
        }
        let level_frames = own.level_planes.unwrap_or(LevelFrames::same()).check();
        let level_frames =
            level_frames.ok_or_else(|| wrong(format!("level_planes {} can't be", json!(own.level_planes))))?;
        let is_elsewhere = |name: &&str| name.is_empty() || name.contains('/') || [".", ".."].contains(name);
        if let Some(name) = own.level_of.as_deref().filter(is_elsewhere) {
            return Err(wrong(format!("level_of {} is no name of an array beside it", quoted(name))));
        }
        let slots = own.slots.map(|slots| slots.check().map_err(&wrong)).transpose()?;
        let part = own.part.map(|part| part.check().map_err(&wrong)).transpose()?;
        Ok(Some(Self {
            writer,
            complete: own.complete,
            recovered: own.recovered,
            frames: own.frames,
            unbounded: own.frames_planned == Some(None),
            planned: own.frames_planned.flatten(),
            chunks: own.chunks,
            frames_missing: own.frames_missing,
            missing: own.missing.iter().map(|range| range[0]..range[1]).collect(),
            slots,
            damaged_shards: own.damaged_shards,
            acquisition_order: own.acquisition_order,
            level_of: own.level_of,
            level_frames,
            part,
            parts: own.parts,
            error: own.error,
        }))
    }
}

impl Provenance {
    /// What to say of a run that ended, or was recovered, before all frames had come that were planned.
    pub(crate) fn shortfall(&self) -> Option<String> {
        let ended = self.frames.filter(|_| self.complete || self.recovered);
        let (planned, frames) = self.planned.zip(ended).filter(|(planned, frames)| frames < planned)?;
        let came = frames.saturating_sub(self.frames_missing);
        // A run that ends makes its array as long as the frames that came.
        let rest = if self.recovered { ", and the others are the fill value in its array" } else { "" };
        Some(format!("{came} of {planned} planned frames came{rest}"))
    }
}

/// What this crate says among these attributes.
pub(crate) fn own(attributes: &Value) -> Option<&Value> {
    attributes.get(ATTRIBUTE).filter(|said| is_own(said))
}

/// The same as attributes, without the list of missing frames, which may be long and is about no single shard.
pub(crate) fn of_one_shard(attributes: &Value) -> Option<Value> {
    let mut own = own(attributes)?.as_object()?.clone();
    own.remove(MISSING);
    Some(json!({ATTRIBUTE: own}))
}

/// Whether an attribute of that name is this crate's, rather than something that a user called so: what its writer says
/// of a run, or what another writer's array needs in a format that has no other place for it.
pub(crate) fn is_own(said: &Value) -> bool {
    let Some(said) = said.as_object() else { return false };
    let has_writer = said.get(WRITER).and_then(text).is_some_and(|writer| uuid(writer).is_some());
    let is_of_run = said.get(VERSION).is_some_and(Value::is_string) && (has_writer || said.contains_key(ORDER));
    is_of_run || (!said.is_empty() && said.iter().all(is_of_others))
}

/// Whether a field is what it says of an array of another writer.
fn is_of_others((field, said): (&String, &Value)) -> bool {
    match field.as_str() {
        OME => ngff::is_of_any_version(said),
        DIMENSIONS => said.as_array().is_some_and(|names| names.iter().all(Value::is_string)),
        CHANNEL_DIMENSION => said.is_string() || said.is_null(),
        _ => false,
    }
}

/// Whether a group with these attributes is an image whose writer did not finish, and that no recovery has completed.
pub(crate) fn is_unfinished(attributes: &Value) -> bool {
    let says = |key: &str| own(attributes)?.get(key)?.as_bool();
    says("complete") == Some(false) && says("recovered") != Some(true)
}

/// Whether attributes say that this crate's writer made the array, or the image in the group, and as one.
pub(crate) fn is_of_writer(attributes: &Value) -> bool {
    own(attributes).is_some_and(|own| own.get(WRITER).is_some())
}

/// Whether an array's attributes say that it is a level of a pyramid, beside the array whose frames it has.
pub(crate) fn is_level(attributes: &Value) -> bool {
    own(attributes).is_some_and(|own| own.get(LEVEL_OF).is_some())
}

/// How many chunks the writer, or a recovery, counted at its end. A volume, and what was repacked from one, have that
/// number without being known for the writer's own.
pub(crate) fn counted_chunks(attributes: &Value) -> Option<u64> {
    let own = own(attributes)?;
    let says = |key: &str| own.get(key).and_then(Value::as_bool) == Some(true);
    own.get("chunks")?.as_u64().filter(|_| says("complete") || says("recovered"))
}

/// Whether the writer's attribute says that as many frames were to come as do.
pub(super) fn is_unbounded(own: &Value) -> bool {
    own.get(FRAMES_PLANNED).is_some_and(Value::is_null)
}

/// The dimensions of the array that became a volume, and which of them is its channels, as the writer's attribute says.
pub(super) fn dimensions(own: &Value) -> Option<(&Value, Option<&str>)> {
    Some((own.get(DIMENSIONS)?, own.get(CHANNEL_DIMENSION).and_then(text)))
}

pub(super) fn put_dimensions(own: &mut Value, names: &[String], channel: Option<usize>) {
    own[DIMENSIONS] = json!(names);
    own[CHANNEL_DIMENSION] = json!(channel.map(|channel| &names[channel]));
}

pub(crate) fn channel_dimension(attributes: &Map<String, Value>) -> Option<&str> {
    text(attributes.get(ATTRIBUTE).filter(|said| is_own(said))?.get(CHANNEL_DIMENSION)?)
}

fn ranges(missing: &[Range<u64>]) -> Value {
    missing.iter().take(MISSING_RANGES_MAX).map(|range| json!([range.start, range.end])).collect()
}

/// The attribute in a document that is to say something else.
pub(crate) struct ProvenanceMut<'a>(&'a mut Map<String, Value>);

impl<'a> ProvenanceMut<'a> {
    /// In a document that has the attributes at `pointer`.
    pub(crate) fn at(document: &'a mut Value, pointer: &str) -> Option<Self> {
        let own = document.pointer_mut(pointer)?.get_mut(ATTRIBUTE)?;
        if is_own(own) { own.as_object_mut().map(Self) } else { None }
    }

    /// In a document of any format.
    pub(crate) fn of(document: &'a mut Value) -> Option<Self> {
        let pointer = if own(document).is_some() { "" } else { "/attributes" };
        Self::at(document, pointer)
    }

    pub(crate) fn of_attribute(own: &'a mut Value) -> Option<Self> {
        own.as_object_mut().map(Self)
    }

    /// Takes back where the chunks of an array lie, and what follows from its format and its place among others:
    /// repacked, it is an image by itself.
    pub(crate) fn forget_layout(&mut self, from: &Rules, to: &Rules) {
        self.forget_slots();
        self.0.shift_remove(DIMENSIONS);
        self.0.shift_remove(CHANNEL_DIMENSION);
        // A level has no records beside it. A volume's size doesn't follow from its frames. An array that is known to
        // be this writer's has the one and the other.
        self.0.shift_remove(LEVEL_PLANES);
        let was_level = self.0.shift_remove(LEVEL_OF).is_some();
        if was_level || from.numbers_chunks || to.numbers_chunks {
            self.0.shift_remove(WRITER);
        }
        if to.numbers_chunks && self.0.get(FRAMES_PLANNED).is_some_and(Value::is_null) {
            // The ids of chunks in a volume without an end are others, and this one has an end.
            self.0.shift_remove(FRAMES_PLANNED);
        }
    }

    /// Takes back where slots stand: there are none any more.
    pub(crate) fn forget_slots(&mut self) {
        self.0.shift_remove(SLOTS);
    }

    /// Says that chunks with their headers follow each other, of at most this many bytes.
    pub(crate) fn pack_slots(&mut self, bytes: u64) {
        if let Some(slots) = self.0.get_mut(SLOTS) {
            slots["placement"] = json!(Placement::Packed);
            slots["bytes"] = json!(bytes);
        }
    }

    /// Says that chunks are not all the writer's any more, and no longer how many there are.
    pub(crate) fn begin_edit(&mut self) {
        self.0.insert("edited".into(), json!(true));
        self.0.shift_remove(CHUNKS);
    }

    pub(crate) fn set_chunks(&mut self, chunks: u64) {
        self.0.insert(CHUNKS.into(), json!(chunks));
    }

    pub(crate) fn has_chunks(&self) -> bool {
        self.0.contains_key(CHUNKS)
    }

    /// The frames that are listed as missing, as far as they can be read.
    pub(crate) fn missing(&self) -> Vec<Range<u64>> {
        let range = |range: &Value| Some(range.get(0)?.as_u64()?..range.get(1)?.as_u64()?);
        self.0.get(MISSING).and_then(Value::as_array).into_iter().flatten().filter_map(range).collect()
    }

    /// Lists all frames that are missing, which are this many more than before.
    pub(crate) fn set_missing(&mut self, all: &[Range<u64>], more: u64) {
        let before = self.0.get(FRAMES_MISSING).and_then(Value::as_u64).unwrap_or(0);
        self.0.insert(FRAMES_MISSING.into(), json!(before + more));
        self.0.insert(MISSING.into(), ranges(all));
    }

    /// Says of which parts a run is.
    pub(crate) fn set_parts(&mut self, parts: &Parts) {
        self.0.insert("parts".into(), json!(parts));
    }

    /// Says how a run ended: with this many frames.
    pub(crate) fn complete(&mut self, frames: u64, ending: &Ending<'_>) {
        self.0.insert("complete".into(), json!(true));
        self.0.insert("frames".into(), json!(frames));
        self.0.insert(CHUNKS.into(), json!(ending.chunks));
        self.0.insert(FRAMES_MISSING.into(), json!(ending.frames_missing));
        self.0.insert(MISSING.into(), ranges(ending.missing));
    }

    /// Says how a recovery ended: with this many frames, and shards that it could not account for.
    pub(crate) fn recover(&mut self, frames: u64, ending: &Ending<'_>, damaged_shards: &[String]) {
        self.0.insert("complete".into(), json!(false));
        self.0.insert("recovered".into(), json!(true));
        self.0.insert("frames".into(), json!(frames));
        self.0.insert(FRAMES_MISSING.into(), json!(ending.frames_missing));
        self.0.insert(MISSING.into(), ranges(ending.missing));
        self.set_chunks(ending.chunks);
        if !damaged_shards.is_empty() {
            self.0.insert("damaged_shards".into(), json!(damaged_shards));
        }
    }
}

/// What a run says of itself.
pub(crate) struct Statement<'a> {
    pub(crate) writer: [u8; 16],
    pub(crate) acquisition_order: Vec<&'a str>,
    /// `None`: as many as come.
    pub(crate) frames_planned: Option<u64>,
    pub(crate) level_of: Option<&'a str>,
    pub(crate) level_frames: LevelFrames,
    pub(crate) slots: Slots,
    pub(crate) part: Option<PartMap>,
    pub(crate) parts: Option<Parts>,
    /// The number of frames and how it ended, once it has.
    pub(crate) ending: Option<(u64, &'a Ending<'a>)>,
}

pub(crate) struct Ending<'a> {
    pub(crate) chunks: u64,
    pub(crate) frames_missing: u64,
    pub(crate) missing: &'a [Range<u64>],
    pub(crate) error: Option<&'a Error>,
}

impl Statement<'_> {
    pub(crate) fn render(&self) -> Value {
        let mut said = json!({
            "version": env!("CARGO_PKG_VERSION"),
            "writer": hex(&self.writer),
            "complete": false,
            "acquisition_order": self.acquisition_order,
            "frames_planned": self.frames_planned,
            // Where slots stand depends on how far the encoder may reach. Who rebuilds an index shall not have to ask
            // it.
            "slots": self.slots,
        });
        if let Some(finest) = self.level_of {
            said["level_of"] = json!(finest);
        }
        if !self.level_frames.is_same() {
            said["level_planes"] = json!(self.level_frames);
        }
        if let Some(part) = &self.part {
            said["part"] = json!(part);
        }
        if let Some(parts) = &self.parts {
            said["parts"] = json!(parts);
        }
        if let Some((frames, ending)) = self.ending {
            said["complete"] = json!(ending.error.is_none());
            said["frames"] = json!(frames);
            said["chunks"] = json!(ending.chunks);
            said["frames_missing"] = json!(ending.frames_missing);
            said["missing"] = ranges(ending.missing);
            if let Some(error) = ending.error {
                said["error"] = json!(error.to_string());
            }
        }
        said
    }
}

impl Slots {
    fn check(self) -> Result<Self, String> {
        let Self { placement, first_at, bytes, .. } = self;
        let header = HEADER_BYTES as u64;
        if bytes <= header || bytes % 8 != 0 || first_at % 8 != 0 || first_at >= 1 << 40 || bytes >= 1 << 40 {
            return Err(format!("slots of {bytes} bytes from {first_at} on can't be: both are multiples of 8"));
        }
        if placement == Placement::Auto {
            return Err("slots are fixed or packed, not auto".into());
        }
        Ok(self)
    }

    /// Whether the place of a slot follows from its number.
    pub(crate) fn are_fixed(&self) -> bool {
        self.placement == Placement::Fixed
    }
}

/// As attributes spell a UUID.
pub(crate) fn hex(uuid: &[u8; 16]) -> String {
    format!("{:032x}", u128::from_be_bytes(*uuid))
}

fn uuid(text: &str) -> Option<[u8; 16]> {
    if text.len() != 32 || !text.bytes().all(|byte| byte.is_ascii_hexdigit()) {
        return None;
    }
    Some(u128::from_str_radix(text, 16).ok()?.to_be_bytes())
}
