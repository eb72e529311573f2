//! What this crate's writer says about an image beside what the format says: who wrote it, where slots stand, how the
//! run ended.
//!
//! It is one attribute of the image, `shardwright`, which readers pass over.

use std::collections::BTreeSet;
use std::ops::Range;
use std::path::Path;

use serde::Deserialize;
use serde_json::{Value, json};

use super::level_frames::LevelFrames;
use super::slot_header::HEADER_BYTES;
use crate::config::Placement;
use crate::error::{Error, Result};

/// The attribute under which the writer speaks.
pub(crate) const ATTRIBUTE: &str = "shardwright";

/// How many ranges of missing frames the attributes name; the count goes on beyond.
pub(crate) const MISSING_RANGES_MAX: usize = 10_000;

/// The most frames that a writer numbers.
pub(crate) const FRAMES_MAX: u64 = 1 << 56;

/// The writer's attributes.
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
    /// Which frames of that array its frames are made of.
    pub(crate) level_frames: LevelFrames,
}

/// Where slots stand in a shard.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Slots {
    pub(crate) first_at: u64,
    /// The most bytes of a chunk with its header; in fixed placement, from one slot to the next.
    pub(crate) bytes: u64,
    pub(crate) fixed: bool,
    /// Chunks that hold only the fill value are stored like all others.
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
    slots: Option<LiteralSlots>,
    level_of: Option<String>,
    level_planes: Option<LevelFrames>,
}

#[derive(Deserialize)]
struct LiteralSlots {
    placement: Placement,
    first_at: u64,
    bytes: u64,
    #[serde(default)]
    empty_chunks: bool,
}

fn said<'de, D: serde::Deserializer<'de>>(value: D) -> Result<Option<Option<u64>>, D::Error> {
    Option::deserialize(value).map(Some)
}

impl Provenance {
    /// Reads the attributes of the image group at `path`; `None` if another writer made it.
    pub(crate) fn parse(path: &Path, attributes: &Value) -> Result<Option<Self>> {
        let Some(own) = attributes.get(ATTRIBUTE).filter(|own| own.get("writer").is_some()) else { return Ok(None) };
        let wrong = |reason: String| Error::format(path, format!("attribute {ATTRIBUTE}: {reason}"));
        let own: Literally = Literally::deserialize(own).map_err(|error| wrong(error.to_string()))?;
        let writer = uuid(&own.writer).ok_or_else(|| wrong(format!("writer {:?} is no UUID", own.writer)))?;
        if let Some(range) = own.missing.iter().find(|range| range[0] >= range[1]) {
            return Err(wrong(format!("missing names {range:?}; expected ranges that go up")));
        }
        let numbers = own.frames.into_iter().chain(own.missing.iter().map(|range| range[1]));
        if let Some(frames) = numbers.max().filter(|&frames| frames > FRAMES_MAX) {
            return Err(wrong(format!("{frames} frames are more than a writer can number, {FRAMES_MAX}")));
        }
        let level_frames = own.level_planes.unwrap_or(LevelFrames::same()).check();
        let level_frames =
            level_frames.ok_or_else(|| wrong(format!("level_planes {:?} can't be", own.level_planes)))?;
        let slots = own.slots.map(|slots| slots.check().map_err(&wrong)).transpose()?;
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
        }))
    }
}

impl Provenance {
    /// What to say of a run that ended, or was recovered, before all frames had come that were planned.
    pub(crate) fn shortfall(&self) -> Option<String> {
        let ended = self.frames.filter(|_| self.complete || self.recovered);
        let (planned, frames) = self.planned.zip(ended).filter(|(planned, frames)| frames < planned)?;
        Some(format!("{} of {planned} planned frames came", frames.saturating_sub(self.frames_missing)))
    }
}

/// Whether a group with these attributes is an image whose writer did not finish, and that no recovery has completed.
pub(crate) fn is_unfinished(attributes: &Value) -> bool {
    let says = |key: &str| attributes[ATTRIBUTE][key].as_bool();
    says("complete") == Some(false) && says("recovered") != Some(true)
}

/// What a run says of itself.
pub(crate) struct Statement<'a> {
    pub(crate) writer: [u8; 16],
    /// The names of the outer dimensions, the slowest to arrive first.
    pub(crate) acquisition_order: Vec<&'a str>,
    /// `None`: as many as come.
    pub(crate) frames_planned: Option<u64>,
    /// Of a level, the array whose frames it has.
    pub(crate) level_of: Option<&'a str>,
    /// Which of its frames become which.
    pub(crate) level_frames: LevelFrames,
    pub(crate) slots: Slots,
    /// The number of frames and how it ended, once it has.
    pub(crate) ending: Option<(u64, &'a Ending<'a>)>,
}

/// How a run ended.
pub(crate) struct Ending<'a> {
    /// Chunks in the shards.
    pub(crate) chunks: u64,
    pub(crate) frames_missing: u64,
    pub(crate) missing: &'a [Range<u64>],
    pub(crate) error: Option<&'a Error>,
}

impl Statement<'_> {
    /// The attribute's value.
    pub(crate) fn render(&self) -> Value {
        let Slots { first_at, bytes, fixed, empty_chunks } = self.slots;
        let placement = if fixed { Placement::Fixed } else { Placement::Packed };
        let mut said = json!({
            "version": env!("CARGO_PKG_VERSION"),
            "writer": hex(&self.writer),
            "complete": false,
            "acquisition_order": self.acquisition_order,
            "frames_planned": self.frames_planned,
            // Where slots stand depends on how far the encoder may reach. Who rebuilds an index shall not have to ask
            // it.
            "slots": {"placement": placement, "first_at": first_at, "bytes": bytes, "empty_chunks": empty_chunks},
        });
        if let Some(finest) = self.level_of {
            said["level_of"] = json!(finest);
        }
        if !self.level_frames.is_same() {
            said["level_planes"] = json!(self.level_frames);
        }
        if let Some((frames, ending)) = self.ending {
            said["complete"] = json!(ending.error.is_none());
            said["frames"] = json!(frames);
            said["chunks"] = json!(ending.chunks);
            said["frames_missing"] = json!(ending.frames_missing);
            said["missing"] = ending.missing.iter().map(|range| json!([range.start, range.end])).collect();
            if let Some(error) = ending.error {
                said["error"] = json!(error.to_string());
            }
        }
        said
    }
}

impl LiteralSlots {
    fn check(self) -> Result<Slots, String> {
        let Self { placement, first_at, bytes, empty_chunks } = self;
        let header = HEADER_BYTES as u64;
        if bytes <= header || bytes % 8 != 0 || first_at % 8 != 0 || first_at >= 1 << 40 || bytes >= 1 << 40 {
            return Err(format!("slots of {bytes} bytes from {first_at} on can't be: both are multiples of 8"));
        }
        let fixed = match placement {
            Placement::Fixed => true,
            Placement::Packed => false,
            Placement::Auto => return Err("slots are fixed or packed, not auto".into()),
        };
        Ok(Slots { first_at, bytes, fixed, empty_chunks })
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
