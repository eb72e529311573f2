//! One image of a dataset: its documents, its records, and the names of its shards.

use std::collections::HashSet;
#[cfg(feature = "offline")]
use std::path::PathBuf;
use std::sync::{Arc, Mutex};

use serde_json::{Map, Value, json};

use super::Root;
use super::attributes::UserAttributes;
use super::collection::Unlisted;
use super::documents::Documents;
use super::records::{self, RecordBlock, RecordWrites, SharedFiles};
use super::uuid::image_uuid;
use crate::config::{Config, Placement};
use crate::error::{Error, Result, caught};
use crate::format::keys::{FRAME_NUMBERS, RECORDS, record_array, record_file};
#[cfg(feature = "offline")]
use crate::format::layout::Layout;
use crate::format::level_frames::LevelFrames;
use crate::format::provenance::{ATTRIBUTE, Ending, Slots, Statement};
use crate::format::{self, Document, rules, zarr3};
use crate::geometry::{MAX_OUTER, grid, position};
use crate::ome;
use crate::ome::contrast::Contrast;
use crate::plan::{LevelPlan, Plan};
use crate::shard::{Shard, ShardPosition};
use crate::storage::Storage;
use crate::sync::Unpoisoned;

/// The name of level 0.
const FINEST: &str = "0";

/// One image of a dataset: its group, its array, its records.
pub(crate) struct ImageWriter {
    root: Arc<Root>,
    storage: Arc<dyn Storage>,
    pub(crate) storage_choice: String,
    /// Empty at the root, else `name/`.
    prefix: String,
    name: Option<String>,
    /// Of a level of a pyramid, its array; level 0 speaks for the image.
    level: Option<String>,
    /// Which frames of level 0 are which of it.
    level_frames: LevelFrames,
    /// In the headers of its slots, and `writer` in its attributes.
    pub(crate) uuid: [u8; 16],
    config: Config,
    /// Where windows of its channels are to be found.
    pub(crate) contrast: Option<Arc<Contrast>>,
    state: Mutex<ImageState>,
    /// Of its records.
    shared: SharedFiles,
    /// Apart from the state, which is locked while documents are written and synced: a caller must not wait for that.
    attributes: Mutex<UserAttributes>,
}

/// What the documents on disk say, and what they should.
#[derive(Default)]
struct ImageState {
    shape: Vec<u64>,
    /// How long the records are declared to be.
    frames: u64,
    /// What OME-Zarr says of the image, if it has words for it.
    ome: Option<Value>,
    /// The shards that there are, where each must be a file even if it is empty.
    created: HashSet<String>,
}

impl ImageWriter {
    /// Writes the documents with which a reader can open the image.
    pub(crate) fn create(root: Arc<Root>, name: Option<&str>, config: Config, plan: &Plan) -> Result<Self> {
        let image = Self::new(root, name, config, plan)?;
        // A storage of the caller's own may panic: what was begun is taken back all the same.
        let write = || {
            image.list(plan, &plan.array.layout.shape);
            let documents = &mut Documents::AtOnce(&*image.storage);
            image.write_documents(plan, documents)?;
            // What names the image is written behind it: a run may be killed at any moment.
            image.root.write_collection(documents)?;
            documents.settle(image.root.path())
        };
        caught(write).inspect_err(|_| image.undo(plan))?;
        Ok(image)
    }

    /// An image whose documents are yet to be written, and which is yet to be [listed](Self::list).
    pub(crate) fn new(root: Arc<Root>, name: Option<&str>, config: Config, plan: &Plan) -> Result<Self> {
        if let Some(name) = name.filter(|name| root.collection().is_some_and(|images| images.has(name))) {
            return Err(Error::Exists { path: root.path().join(name), help: "choose another name" });
        }
        root.collection().map_or(Ok(()), |images| images.check_version(config.ome))?;
        if let (Some(name), Some(images)) = (name, root.collection()) {
            images.check_label(name, &config, plan.levels.len())?;
        }
        if name.is_some() && !rules(config.dialect).is_tree {
            let reason = "several images in one dataset are described by OME-Zarr, so only zarr3 can be; create a \
                          dataset for each image";
            return Err(Error::config("dialect", config.dialect.name(), reason));
        }
        root.check_dialect(config.dialect)?;
        let (storage, storage_choice) = root.storage(&config, plan)?;
        let prefix = name.map(|name| format!("{name}/")).unwrap_or_default();
        let uuid = name.map_or(root.uuid, |name| image_uuid(root.uuid, name));
        let describe = || ome::image_attributes(&config, &config.channels, &plan.other_levels());
        let ome = (!config.bare && ome::incompatibility(&config.dims).is_none()).then(describe);
        let contrast = if config.bare { None } else { Contrast::new(&config).map(Arc::new) };
        let shared = SharedFiles::new(&plan.record, &*storage)?;
        Ok(Self {
            root,
            storage,
            shared,
            storage_choice,
            prefix,
            name: name.map(str::to_owned),
            level: None,
            level_frames: LevelFrames::same(),
            uuid,
            contrast,
            config,
            state: Mutex::new(ImageState {
                ome,
                shape: plan.first_shape(),
                frames: plan.frames_total.unwrap_or(0),
                ..ImageState::default()
            }),
            attributes: Mutex::default(),
        })
    }

    /// Lists the image among those of its dataset, or brings its shape there up to date.
    pub(crate) fn list(&self, plan: &Plan, shape: &[u64]) {
        if let (Some(name), Some(mut images)) = (&self.name, self.root.collection()) {
            images.list(name, &self.config, shape, plan.levels.len());
        }
    }

    /// A level of the image, whose document is there.
    pub(crate) fn level(&self, level: &LevelPlan) -> Self {
        Self {
            root: self.root.clone(),
            storage: self.storage.clone(),
            storage_choice: String::new(),
            prefix: self.prefix.clone(),
            name: None,
            level: Some(level.path.clone()),
            level_frames: level.of_finest,
            uuid: image_uuid(self.uuid, &level.path),
            contrast: None,
            config: level.config.clone(),
            state: Mutex::new(ImageState { shape: level.plan.first_shape(), ..ImageState::default() }),
            shared: SharedFiles::none(),
            attributes: Mutex::default(),
        }
    }

    /// Where the array is, below the image's folder, if it has no documents of an image: a level, or a bare one.
    fn lone_array(&self) -> Option<&str> {
        self.level.as_deref().or(self.config.bare.then_some(""))
    }

    /// The document of such an array. Of a level, what the image's attributes have of level 0 stands in it.
    fn array_document(&self, plan: &Plan, path: &str, shape: &[u64], ending: Option<(u64, &Ending)>) -> Document {
        let attributes = match self.config.bare {
            true => Value::Object(self.attributes.lock().unpoisoned().values.clone()),
            false => json!({ATTRIBUTE: self.statement(plan, ending)}),
        };
        let mut document = zarr3::array(&plan.array, shape);
        document["attributes"] = attributes;
        (zarr3::document_at(path), document)
    }

    /// Takes the documents back, because the acquisition can't start. The caller has an error to tell already.
    pub(crate) fn undo(&self, plan: &Plan) {
        let unlisted = self.unlist();
        let _ = caught(|| self.root.write_collection(&mut Documents::AtOnce(&*self.storage)));
        self.leave_out(plan, &unlisted);
    }

    /// Takes the image out of the dataset's documents, which are yet to be written, because nothing came of it.
    pub(crate) fn unlist(&self) -> Unlisted {
        let listed = self.name.as_ref().zip(self.root.collection());
        listed.map(|(name, mut images)| images.unlist(name)).unwrap_or_default()
    }

    /// Lets the last of its labels take the image out, too, should nothing come to any. False: it has none.
    pub(crate) fn wait_for_labels(&self, plan: &Plan) -> bool {
        let documents = self.documents(plan);
        let listed = self.name.as_ref().zip(self.root.collection());
        listed.is_some_and(|(name, mut images)| images.wait_for_labels(name, documents))
    }

    /// Removes its documents and what goes with it, when no others name it any more: a run may be killed at any moment.
    pub(crate) fn leave_out(&self, plan: &Plan, unlisted: &Unlisted) {
        self.root.remove_unneeded(&*self.storage, &unlisted.documents);
        for key in self.documents(plan) {
            let _ = caught(|| Ok(self.storage.remove(&key)));
        }
        let _ = caught(|| Documents::AtOnce(&*self.storage).settle(self.root.path()));
        unlisted.images.iter().for_each(|name| self.root.forget(name));
    }

    /// The keys of its documents; those that name others come before them.
    fn documents(&self, plan: &Plan) -> Vec<String> {
        let key = |key: String| self.prefix.clone() + &key;
        if let Some(path) = self.lone_array() {
            return vec![key(zarr3::document_at(path))];
        }
        let records = plan.record.fields.iter().map(|field| zarr3::document_at(&record_array(&field.name)));
        let (user, own) = (Map::new(), Value::from(Map::new()));
        let state = self.state.lock().unpoisoned();
        let image = self.described(plan, &state, &user, &own);
        let documents = [image.of_attributes(), image.of_shape()].into_iter().chain(image.entry()).map(|(key, _)| key);
        let levels = plan.levels.iter().map(|level| zarr3::document_at(&level.path));
        documents.chain(levels).chain([zarr3::document_at(RECORDS)]).chain(records).map(key).collect()
    }

    pub(crate) fn write_documents(&self, plan: &Plan, to: &mut Documents) -> Result<()> {
        if let Some(path) = self.lone_array() {
            return self.put_document(to, &self.array_document(plan, path, &plan.first_shape(), None));
        }
        self.put_document(to, &(zarr3::document_at(RECORDS), zarr3::group(json!({}))))?;
        self.put_record_documents(plan, plan.frames_total.unwrap_or(0), to)?;
        let (state, mut user) = (self.state.lock().unpoisoned(), Map::new());
        let own = self.own(plan, &state, &mut user, None);
        let image = self.described(plan, &state, &user, &own);
        image.entry().iter().try_for_each(|document| self.put_document(to, document))?;
        // Before the document that names them.
        for level in &plan.levels {
            let LevelPlan { path, plan, .. } = level;
            self.put_document(to, &self.level(level).array_document(plan, path, &plan.first_shape(), None))?;
        }
        let (of_shape, of_attributes) = (image.of_shape(), image.of_attributes());
        // A volume has one document for both.
        if of_shape.0 != of_attributes.0 {
            self.put_document(to, &of_shape)?;
        }
        self.put_document(to, &of_attributes)
    }

    fn described<'a>(
        &'a self,
        plan: &'a Plan,
        state: &'a ImageState,
        user: &'a Map<String, Value>,
        own: &'a Value,
    ) -> format::ImageDescription<'a> {
        let (shape, ome) = (&state.shape[..], state.ome.as_ref());
        format::ImageDescription { array: &plan.array, shape, of_array: None, user, own, ome }
    }

    pub(crate) fn has_labels(&self) -> bool {
        self.name.as_ref().zip(self.root.collection()).is_some_and(|(name, images)| images.has_labels(name))
    }

    pub(crate) fn storage(&self) -> &dyn Storage {
        &*self.storage
    }

    pub(crate) fn root(&self) -> &Root {
        &self.root
    }

    /// Where the array's files are; `None` in a storage of the caller's own.
    #[cfg(feature = "offline")]
    pub(crate) fn array_folder(&self, layout: &Layout) -> Option<PathBuf> {
        let folder = self.lone_array().map_or_else(|| format::node_paths(layout).folder, str::to_owned);
        self.root.folder().map(|root| root.join(format!("{}{folder}", self.prefix)))
    }

    pub(crate) fn create_shard(&self, plan: &Arc<Plan>, place: ShardPosition, key: String) -> Result<Shard> {
        let shard = Shard::create(self.storage.clone(), key.clone(), place, plan.clone())?;
        if plan.shard.keep_empty {
            self.state.lock().unpoisoned().created.insert(key);
        }
        Ok(shard)
    }

    pub(crate) fn shard_key(&self, plan: &Plan, place: &ShardPosition) -> String {
        let (layout, position) = (&plan.array.layout, plan.shard_position(&place.grid, place.across));
        match self.lone_array() {
            Some("") => format!("{}{}", self.prefix, layout.file_key(&position)),
            Some(path) => format!("{}{path}/{}", self.prefix, layout.file_key(&position)),
            None => format!("{}{}", self.prefix, format::shard_key(layout, &position)),
        }
    }

    /// Creates those shards that no frame came for, where a reader wants them all, and removes those that were prepared
    /// for more.
    fn complete_shards(&self, plan: &Arc<Plan>) -> Result<()> {
        if !plan.shard.keep_empty {
            return Ok(());
        }
        let shape = self.state.lock().unpoisoned().shape.clone();
        let grid = grid(&shape, &plan.array.layout.file_shape);
        let (outer, frame) = grid.split_at(plan.order.outer_dims());
        let mut kept = HashSet::new();
        for cell in 0..outer.iter().product() {
            let mut place = ShardPosition { grid: [0; MAX_OUTER], across: 0 };
            place.grid[..outer.len()].copy_from_slice(&position(cell, outer));
            for across in 0..frame.iter().product::<u64>() as usize {
                place.across = across;
                let key = self.shard_key(plan, &place);
                let exists = self.state.lock().unpoisoned().created.contains(&key);
                if !exists {
                    self.create_shard(plan, place, key.clone())?.close()?;
                }
                kept.insert(key);
            }
        }
        let created = std::mem::take(&mut self.state.lock().unpoisoned().created);
        let remove = |key: &String| {
            self.storage.remove(key).map_err(|e| Error::io("remove empty shard", self.storage.path_of(key), e))
        };
        created.difference(&kept).try_for_each(remove)
    }

    /// Sets a user attribute, as it is read from a document; the document follows at the next progress.
    pub(crate) fn set_attribute(&self, key: &str, value: Value) -> Result<()> {
        self.attributes.lock().unpoisoned().set(key, value, self.config.dialect)
    }

    /// Has the document of the image say which windows of its channels were found; whether those are others now.
    fn take_windows(&self, plan: &Plan, state: &mut ImageState) -> bool {
        let Some(contrast) = self.contrast.as_ref().filter(|contrast| contrast.take_change()) else { return false };
        let channels = contrast.complete(&self.config.channels);
        let describe = |_| ome::image_attributes(&self.config, &channels, &plan.other_levels());
        state.ome = state.ome.take().map(describe);
        state.ome.is_some()
    }

    fn put_record_documents(&self, plan: &Plan, frames: u64, to: &mut Documents) -> Result<()> {
        records::documents(&plan.record, self.shared.blocks_a_file, frames)
            .try_for_each(|document| self.put_document(to, &document))
    }

    pub(crate) fn write_records(&self, plan: &Plan, block: &RecordBlock) -> Result<()> {
        let columns: Vec<&[u8]> = block.columns.iter().map(Vec::as_slice).collect();
        self.write_columns(plan, block.number, &columns)
    }

    /// Adds what writes a block of records. A level's frames are those of level 0, whose records stand for all; a bare
    /// array has none.
    pub(crate) fn add_records<'a>(&'a self, plan: &Plan, block: &'a RecordBlock, to: &mut RecordWrites<'a>) {
        let columns: Vec<&[u8]> = block.columns.iter().map(Vec::as_slice).collect();
        self.add_columns(plan, block.number, &columns, to);
    }

    fn add_columns<'a>(&'a self, plan: &Plan, block: u64, columns: &[&'a [u8]], to: &mut RecordWrites<'a>) {
        if self.lone_array().is_none() {
            to.add(&self.prefix, &plan.record, &self.shared, (block, columns));
        }
    }

    fn write_columns(&self, plan: &Plan, block: u64, columns: &[&[u8]]) -> Result<()> {
        let mut writes = RecordWrites::default();
        self.add_columns(plan, block, columns, &mut writes);
        let array = if columns.len() == 1 { FRAME_NUMBERS.to_owned() } else { record_array("*") };
        let key = || self.prefix.clone() + &record_file(&array, block / self.shared.blocks_a_file);
        writes.make(&*self.storage).map_err(|error| Error::io("write", self.storage.path_of(&key()), error))
    }

    /// The numbers of frames are the first field.
    pub(crate) fn write_frame_numbers(&self, plan: &Plan, block: u64, bytes: &[u8]) -> Result<()> {
        self.write_columns(plan, block, &[bytes])
    }

    /// Lets the documents catch up with `frames` frames.
    pub(crate) fn advance(&self, plan: &Plan, frames: u64) -> Result<()> {
        self.write_progress(plan, frames, false, &mut Documents::AtOnce(&*self.storage))
    }

    /// The documents of the array and of the records, for the last time.
    pub(crate) fn write_shape(&self, plan: &Plan, frames: u64, to: &mut Documents) -> Result<()> {
        self.write_progress(plan, frames, true, to)
    }

    /// `last`: the shape becomes that of what really came.
    fn write_progress(&self, plan: &Plan, frames: u64, last: bool, to: &mut Documents) -> Result<()> {
        let mut state = self.state.lock().unpoisoned();
        if let Some(path) = self.lone_array() {
            let (_, attributes_changed) = self.attributes.lock().unpoisoned().take();
            let extent = plan.extent(frames, last).unwrap_or(state.shape[0]);
            if extent == state.shape[0] && !attributes_changed {
                return Ok(());
            }
            let shape: Vec<u64> = [&[extent], &state.shape[1..]].concat();
            self.put_document(to, &self.array_document(plan, path, &shape, None))?;
            state.shape = shape;
            // The documents of an image follow those of its levels.
            return if self.config.bare { to.settle(self.root.path()) } else { Ok(()) };
        }
        let (mut user, user_changed) = self.attributes.lock().unpoisoned().take();
        let attributes_changed = self.take_windows(plan, &mut state) || user_changed;
        let extent = plan.extent(frames, last).filter(|extent| *extent != state.shape[0]);
        // Most checkpoints change neither.
        let own = match extent.is_some() || attributes_changed {
            true => self.own(plan, &state, &mut user, None),
            false => Value::Null,
        };
        if let Some(extent) = extent {
            let before = std::mem::replace(&mut state.shape[0], extent);
            let put = self.put_document(to, &self.described(plan, &state, &user, &own).of_shape());
            put.inspect_err(|_| state.shape[0] = before)?;
        }
        if frames != state.frames && (last || plan.frames_total.is_none()) {
            self.put_record_documents(plan, frames, to)?;
            state.frames = frames;
        }
        if attributes_changed {
            self.put_document(to, &self.described(plan, &state, &user, &own).of_attributes())?;
        }
        to.settle(self.root.path())
    }

    /// Completes the shards and writes what is to be said of the run as a whole, behind its last shape. The
    /// collection's documents are yet to be written.
    pub(crate) fn write_ending(
        &self,
        plan: &Arc<Plan>,
        frames: u64,
        ending: &Ending,
        to: &mut Documents,
    ) -> Result<()> {
        if let Some(path) = &self.level {
            return self.put_document(to, &self.array_document(plan, path, &self.shape(), Some((frames, ending))));
        }
        if self.config.bare {
            // Its last document is behind its last shape, and says nothing of the run.
            return Ok(());
        }
        // What is missing is told all the same.
        let completed = self.complete_shards(plan);
        let ending = &Ending { error: ending.error.or(completed.as_ref().err()), ..*ending };
        let mut state = self.state.lock().unpoisoned();
        self.take_windows(plan, &mut state);
        let (mut user, _) = self.attributes.lock().unpoisoned().take();
        let own = self.own(plan, &state, &mut user, Some((frames, ending)));
        self.put_document(to, &self.described(plan, &state, &user, &own).of_attributes())?;
        self.list(plan, &state.shape);
        to.settle(self.root.path())?;
        completed
    }

    /// The array's shape, as the documents say it.
    pub(crate) fn shape(&self) -> Vec<u64> {
        self.state.lock().unpoisoned().shape.clone()
    }

    /// The writer's own attributes, with OME-Zarr's metadata where they stand there or among the user's.
    fn own(
        &self,
        plan: &Plan,
        state: &ImageState,
        user: &mut Map<String, Value>,
        ending: Option<(u64, &Ending)>,
    ) -> Value {
        let mut own = self.statement(plan, ending);
        let ome = state.ome.as_ref().filter(|_| ome::says_more_than_names(&self.config));
        format::put_ome(self.config.dialect, ome, user, &mut own);
        own
    }

    /// What the writer says about its work.
    fn statement(&self, plan: &Plan, ending: Option<(u64, &Ending)>) -> Value {
        let slots = Slots {
            placement: if plan.shard.fixed_slots { Placement::Fixed } else { Placement::Packed },
            first_at: plan.shard.first_slot_at + plan.shard.lead_bytes as u64,
            bytes: plan.shard.slot_bytes as u64,
            empty_chunks: !self.config.skip_empty_chunks,
        };
        Statement {
            writer: self.uuid,
            acquisition_order: self.acquisition_order(),
            frames_planned: plan.frames_total,
            level_of: self.level.as_ref().map(|_| FINEST),
            level_frames: self.level_frames,
            slots,
            part: self.root.part,
            parts: self.root.parts,
            ending,
        }
        .render()
    }

    fn acquisition_order(&self) -> Vec<&str> {
        let outer = &self.config.dims[..self.config.dims.len() - 2];
        match &self.config.acquisition_order[..] {
            [] => outer.iter().map(|dim| dim.name.as_str()).collect(),
            order => order.iter().map(String::as_str).collect(),
        }
    }

    fn put_document(&self, to: &mut Documents, (key, document): &Document) -> Result<()> {
        to.put(&format!("{}{key}", self.prefix), document)
    }
}
