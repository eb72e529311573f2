//! One run that several processes write, each a part of its shards: on hosts that share nothing but the file system.
//!
//! Each part is a dataset by itself, so no two processes ever write one file; [`format::part`](crate::format::part)
//! draws the tree. What all must have in common is in the documents of the run, which each of them compares with its
//! own configuration before it begins.

use std::fs;
use std::ops::Range;
use std::path::Path;
use std::sync::Arc;

use serde_json::{Map, Value};

use super::planned::{plan_with, refuse_label, refuse_plate};
use crate::aligned_memory::RingBuffers;
use crate::archive_file::is_archive_name;
use crate::config::{Config, Part, PartBy, StorageKind};
use crate::dataset::Root;
use crate::dataset::around::{Around, read_document};
use crate::dataset::documents::Documents;
use crate::dataset::image::ImageWriter;
use crate::error::{Error, Result};
use crate::format::keys::{RECORDS, record_array};
use crate::format::part::{PARTS, Parts, part_key};
use crate::format::provenance::Provenance;
use crate::format::zarr3;
use crate::json;
use crate::plan::Plan;
use crate::plan::part::PartPlan;
use crate::storage::Memory;
use crate::words::plain;

/// Creates a run of one image at `path` that `of` processes are to write, without any frame: its documents, with the
/// number of parts. Each process then [creates](crate::Acquisition::create) its [part](Config::part) of it, in whatever
/// order, and `offline::FinishParts` puts the parts together. Until then, each is a dataset by itself, below `parts` in
/// the run's folder, which counts its frames from 0 on.
///
/// Returns the rows and columns of the frame that each part gets.
///
/// ```no_run
/// use shardwright::{Acquisition, Config, Dim, Part, PartBy};
///
/// let dims = vec![Dim::time(None).shard(64), Dim::y(2048), Dim::x(2048)];
/// let config = Config { dims, ..Config::default() };
/// shardwright::create_parts("run.ome.zarr", config.clone(), 4, PartBy::Time)?;
/// // On each of four hosts:
/// let part = Some(Part { index: 2, of: 4, by: PartBy::Time });
/// let acquisition = Acquisition::create("run.ome.zarr", Config { part, ..config })?;
/// # Ok::<(), shardwright::Error>(())
/// ```
///
/// # Errors
///
/// As of [`create`](crate::Acquisition::create); [`Error::Config`] also for what a run in parts can't have, and for
/// more parts than there are shards.
pub fn create_parts(path: impl AsRef<Path>, config: Config, of: u32, by: PartBy) -> Result<Vec<[Range<u64>; 2]>> {
    let path = path.as_ref();
    if config.part.is_some() {
        let reason = "the whole run is created; each process gives its own part when it begins";
        return Err(Error::config("part", "given", reason));
    }
    let whole = checked(path, &config)?;
    let plan = |index| PartPlan::new(&config, &whole, Part { index, of, by });
    let first = plan(0)?;
    plan_with(&mut first.config.clone(), None)?;
    let regions = (0..of).map(|index| plan(index).map(|part| part.region)).collect::<Result<_>>()?;
    let mut root = Root::create_within(path, None, config.overwrite)?;
    root.parts = Some(Parts { of, by, finishing: false });
    let root = Arc::new(root);
    // Documents are written, and it does not matter how.
    let storage = if config.storage == StorageKind::Auto { StorageKind::Buffered } else { config.storage };
    let image = ImageWriter::create(root.clone(), None, Config { storage, ..config }, &whole)?;
    let mut documents = Documents::AtOnce(image.storage());
    documents.put(&zarr3::document_at(PARTS), &zarr3::group(Value::from(Map::new())))?;
    documents.settle(path)?;
    root.keep();
    Ok(regions)
}

/// What follows from the configuration of the whole run, which no process has a ring for.
fn checked(path: &Path, config: &Config) -> Result<Plan> {
    refuse_plate(config)?;
    refuse_label(config)?;
    if is_archive_name(path) {
        let reason = "an .ozx is one file, which one process writes; create a folder, and repack the finished run";
        return Err(Error::config("path", path.display(), reason));
    }
    Plan::on_disk(config)
}

/// Makes the place of a part whose acquisition is about to start. Returns it with the configuration of its own array.
pub(super) fn begin(path: &Path, config: Config, part: Part, buffers: Option<&RingBuffers>) -> Result<(Root, Config)> {
    let config = Config { part: None, ..config };
    let whole = checked(path, &config)?;
    let PartPlan { config: mut own, map, .. } = PartPlan::new(&config, &whole, part)?;
    plan_with(&mut own, buffers)?;
    let (writer, parts) = open_run(path, part)?;
    compare(path, &config, &whole, (writer, parts), part)?;
    let around = Around::look(path, &part_key(part.index), &own)?;
    let mut root = Root::create_within(path, Some(&around), own.overwrite)?;
    // Who finishes the run says so before it looks who holds the lock of a part, which is held by now.
    open_run(path, part)?;
    root.know_as(writer);
    root.part = Some(map);
    Ok((root, own))
}

/// The uuid of the run at `path`, which is to have such a part and waits for frames, and its parts.
fn open_run(path: &Path, part: Part) -> Result<([u8; 16], Parts)> {
    let create = "create the run first, with create_parts or `shardwright create`";
    let Some(document) = read_document(&path.join(zarr3::DOCUMENT))? else {
        return Err(Error::not_found(path, create));
    };
    let own = Provenance::parse(path, &document["attributes"])?;
    let Some((own, parts)) = own.and_then(|own| own.parts.map(|parts| (own, parts))) else {
        return Err(Error::conflict(path, format!("is no run in parts; {create}, at another path")));
    };
    if own.complete || own.recovered || parts.finishing {
        let reason = "was finished, or is about to be, and takes no more frames; create another run";
        return Err(Error::conflict(path, reason));
    }
    if (parts.of, parts.by) != (part.of, part.by) {
        let reason = format!("{} was created with {} parts by {}", path.display(), parts.of, parts.by);
        return Err(Error::config("part", format_args!("{} of {} by {}", part.index, part.of, part.by), reason));
    }
    Ok((own.writer, parts))
}

/// Refuses a configuration that is not the one with which the run was created: what the parts would write would not
/// fit together.
fn compare(path: &Path, config: &Config, whole: &Plan, run: ([u8; 16], Parts), part: Part) -> Result<()> {
    let mut known = Vec::new();
    for (key, expected) in documents(config, whole, run)? {
        let file = path.join(&key);
        let found = read_document(&file)?.ok_or_else(|| Error::format(&file, "is not there"))?;
        if let Some(place) = difference(&expected, &found) {
            let [of_part, of_run] = [&expected, &found].map(|of| of.pointer(&place).unwrap_or(&Value::Null));
            let reason = format!(
                "the configuration is not that of the run: by {}, {place} is {of_run}, and by this one {of_part}",
                file.display()
            );
            return Err(Error::config("part", format_args!("{} of {} by {}", part.index, part.of, part.by), reason));
        }
        known.push(key);
    }
    for entry in fs::read_dir(path.join(RECORDS)).into_iter().flatten().flatten() {
        let field = entry.file_name().to_string_lossy().into_owned();
        if entry.path().is_dir() && !known.contains(&zarr3::document_at(&record_array(&field))) {
            let reason = format!("the run has a record field {field}, which this configuration does not have");
            return Err(Error::config("part", format_args!("{} of {} by {}", part.index, part.of, part.by), reason));
        }
    }
    Ok(())
}

/// The documents that a configuration gives a run.
fn documents(config: &Config, whole: &Plan, (uuid, parts): ([u8; 16], Parts)) -> Result<Vec<(String, Value)>> {
    let mut root = Root::in_storage(Arc::new(Memory::new()), false)?;
    root.know_as(uuid);
    root.parts = Some(parts);
    let image = ImageWriter::new(Arc::new(root), None, config.clone(), whole)?;
    let mut documents = Documents::Together(Vec::new());
    image.write_documents(whole, &mut documents)?;
    let Documents::Together(files) = documents else { return Ok(Vec::new()) };
    let parsed = files.into_iter().map(|(key, bytes)| match json::parse(&bytes) {
        Ok(document) => Ok((key, document)),
        Err(error) => Err(Error::format(Path::new(&key), plain(error).to_string())),
    });
    parsed.collect()
}

/// Where a document says something else than is expected, as a JSON pointer. What it says beside that may be anybody's.
fn difference(expected: &Value, found: &Value) -> Option<String> {
    let below =
        |name: String, expected: &Value, found: &Value| Some(format!("/{name}{}", difference(expected, found)?));
    match (expected, found) {
        (Value::Object(expected), Value::Object(found)) => {
            expected.iter().find_map(|(key, value)| below(key.clone(), value, found.get(key).unwrap_or(&Value::Null)))
        }
        (Value::Array(expected), Value::Array(found)) if expected.len() == found.len() => {
            expected.iter().zip(found).enumerate().find_map(|(at, (value, found))| below(at.to_string(), value, found))
        }
        _ => (expected != found).then(String::new),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn a_difference_is_told_by_its_place() {
        let expected = json!({"shape": [4, 64], "codecs": [{"name": "bytes"}], "fill_value": null});
        assert_eq!(
            difference(&expected, &json!({"shape": [4, 64], "codecs": [{"name": "bytes", "x": 1}], "y": 2})),
            None
        );
        let other = json!({"shape": [4, 32], "codecs": [{"name": "bytes"}]});
        assert_eq!(difference(&expected, &other).as_deref(), Some("/shape/1"));
        let other = json!({"shape": [4, 64], "codecs": []});
        assert_eq!(difference(&expected, &other).as_deref(), Some("/codecs"));
    }
}
