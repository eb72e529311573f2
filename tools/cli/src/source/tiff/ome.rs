//! OME-TIFF: the planes of an image by its OME-XML, in one file or in a set of files.

use std::collections::{BTreeSet, HashMap, HashSet};
use std::path::{Path, PathBuf};

use super::super::axes::{Axes, OuterAxis};
use super::super::files::{sibling, stays_inside};
use super::super::listing::{folder_of, tiff_files};
use super::super::why::{Why, cannot};
use super::asked::{self, Asked, list, refuse_several};
use super::mmstack;
use super::ome_xml::{Ome, OmeImage, TiffDataBlock, is_ome};
use super::pages::{in_order, refuse_series};
use super::planes::{PlaneReader, PlaneSource, RecordingFacts};
use super::stack::Stack;
use shardwright::words::{IS, count_that, of_number};

use crate::args::Series;
use crate::failure::Failure;

/// A document of megabytes describes a million planes; more than this is no document.
const DOCUMENT_BYTES_MAX: u64 = 1 << 30;

/// The image of a file whose first page has OME-XML. Where that can't be used, the pages become a movie.
pub(crate) fn find(stack: Stack, asked: Asked) -> Result<RecordingFacts, Failure> {
    let ome = Ome::parse(&stack.description).and_then(|ome| follow(ome, &stack.path));
    let unusable = match ome {
        Ok(ome) if ome.images.is_empty() => "it describes no image".to_owned(),
        Ok(ome) => {
            refuse_modulo(&ome, &stack.path)?;
            Set::beside(&stack.path).refuse_others(&ome, asked)?;
            match choose(&ome, Some(&stack), &stack.path, asked)? {
                Ok(choice) => return Set::new(ome.uuid.clone(), stack).find(choice),
                Err(why) => why,
            }
        }
        Err(why) => why,
    };
    if let Some(index) = mmstack::MmIndex::of(&stack.path)? {
        return index.find(stack, asked);
    }
    if asked.folder.len() > 1 || matches!(asked.series, Some(Series::All(_))) {
        return Err(cannot("use the OME-XML of", &stack.path, unusable));
    }
    refuse_series(asked.series, &stack.path)?;
    let planes = stack.full_pages().count() as u64;
    let mut found = in_order(stack, Axes::movie(planes))?;
    found.notes.push(format!("the OME-XML description can't be used: {unusable}; the pages become one time axis"));
    Ok(found)
}

/// Opens a document beside the files that it describes.
pub(crate) fn open_companion(path: &Path, asked: Asked) -> Result<PlaneReader, Failure> {
    let xml = read_document(path).map_err(|why| cannot("read", path, why))?;
    if !is_ome(&xml) {
        return Err(cannot("read", path, "it is XML, but no OME-XML"));
    }
    let ome = Ome::parse(&xml).map_err(|why| cannot("use the OME-XML of", path, why))?;
    refuse_modulo(&ome, path)?;
    Set::beside(path).refuse_others(&ome, asked)?;
    match choose(&ome, None, path, asked)? {
        Ok(choice) => PlaneReader::new(Set::beside(path).find(choice)?),
        Err(why) => Err(cannot("use the OME-XML of", path, why)),
    }
}

/// Refuses dimensions within others: without them, their planes would seem to be further times, planes or channels.
fn refuse_modulo(ome: &Ome, path: &Path) -> Result<(), Failure> {
    let Some(modulo) = &ome.modulo else { return Ok(()) };
    let why = format!("its OME-XML has a dimension within another one ({modulo}), which is not read here");
    Err(cannot("read", path, Why::Unread(why)))
}

/// The document itself, where there is only a pointer to it.
fn follow(ome: Ome, path: &Path) -> Result<Ome, String> {
    let Some(name) = &ome.metadata_file else { return Ok(ome) };
    let file = sibling(path, name).map_err(|why| format!("it is in another file, but {why}"))?;
    let xml = read_document(&file).map_err(|why| format!("it is in {name}, which can't be read: {why}"))?;
    let whole = Ome::parse(&xml).map_err(|why| format!("{name}: {why}"))?;
    // What is known of this file is its own UUID.
    Ok(Ome { uuid: ome.uuid, ..whole })
}

fn read_document(path: &Path) -> Result<String, String> {
    let file = super::super::files::open_regular(path).map_err(|error| error.to_string())?;
    let bytes = file.metadata().map_err(|error| error.to_string())?.len();
    if bytes > DOCUMENT_BYTES_MAX {
        return Err(format!("it has {bytes} bytes, more than any document"));
    }
    std::io::read_to_string(file).map_err(|error| error.to_string())
}

/// An image of several, and how many there are.
struct Choice<'a> {
    image: &'a OmeImage,
    /// How many there are, and whether others are read, too.
    of: u64,
    are_all_read: bool,
    /// All images have their planes in one file.
    is_in_one_file: bool,
    notes: Vec<String>,
}

/// The image that is asked for, or the only one that can be meant. `Ok(Err)`: why it can't be used.
fn choose<'a>(
    ome: &'a Ome,
    stack: Option<&Stack>,
    path: &Path,
    asked: Asked,
) -> Result<Result<Choice<'a>, String>, Failure> {
    let count = ome.images.len();
    let images = || list(ome.images.iter().map(label));
    let mut notes = Vec::new();
    let number = match asked::choose(asked.series, count, path, images)? {
        Some(number) => number,
        None if count == 1 => 0,
        None => {
            // A folder is meant with all that is in it.
            let is_here = |image: &OmeImage| {
                let here = |stack| if asked.is_folder() { is_beside(stack, image) } else { holds(stack, ome, image) };
                stack.is_some_and(here)
            };
            let here = (0..count).filter(|&number| ome.images[number].as_ref().is_ok_and(is_here));
            let here: Vec<_> = here.take(2).collect();
            let [number] = here[..] else {
                return Err(refuse_several(count, path, images));
            };
            let is_there = |image: &OmeImage| stack.is_some_and(|stack| is_beside(stack, image));
            let mut others = ome.images.iter().enumerate().filter(|(other, _)| *other != number);
            if others.any(|(_, image)| image.as_ref().is_ok_and(is_there)) {
                notes.push(format!(
                    "this file holds image {number} of {count}; --series N chooses another, --series all takes them all"
                ));
            }
            number
        }
    };
    let (of, are_all_read) = (count as u64, matches!(asked.series, Some(Series::All(_))));
    let is_in_one_file = blocks(ome).filter_map(TiffDataBlock::file_key).collect::<BTreeSet<_>>().len() < 2;
    let chosen = ome.images[number].as_ref();
    Ok(chosen.map(|image| Choice { image, of, are_all_read, is_in_one_file, notes }).map_err(String::clone))
}

fn blocks(ome: &Ome) -> impl Iterator<Item = &TiffDataBlock> {
    ome.images.iter().flatten().flat_map(|image| &image.blocks)
}

/// Whether planes of an image are in this very file.
fn holds(stack: &Stack, ome: &Ome, image: &OmeImage) -> bool {
    let name = stack.path.file_name();
    image.blocks.iter().any(|block| match (&block.file, &block.uuid) {
        (_, Some(uuid)) if Some(uuid) == ome.uuid.as_ref() => true,
        (Some(file), _) => Some(file.as_ref()) == name,
        (None, uuid) => uuid.is_none() || ome.uuid.is_none(),
    })
}

/// Whether planes of an image are in this file or in another one beside it.
fn is_beside(stack: &Stack, image: &OmeImage) -> bool {
    let files: BTreeSet<_> = image.blocks.iter().map(|block| block.file.as_ref()).collect();
    files.is_empty() || files.iter().any(|file| file.is_none_or(|name| sibling(&stack.path, name).is_ok()))
}

fn label(image: &Result<OmeImage, String>) -> String {
    match image {
        Ok(image) => {
            let outer: Vec<_> =
                image.outer.iter().map(|(letter, size)| format!("{} {size}", letter.to_uppercase())).collect();
            let name = image.name.as_deref().unwrap_or("without a name");
            format!("{name} ({}, {} x {})", outer.join(", "), image.width, image.height)
        }
        Err(why) => format!("can't be used: {why}"),
    }
}

/// The files of a set as far as they were opened.
struct Set {
    /// A file of the set; others are beside it.
    path: PathBuf,
    /// The UUID of the file that was given.
    uuid: Option<String>,
    has_given: bool,
    stacks: Vec<Stack>,
    /// Files by their names in the document, or their UUIDs. `None`: it can't be read.
    known: HashMap<String, Option<usize>>,
    /// The files beside this one by their own UUIDs, as soon as one is looked for.
    by_uuid: Option<HashMap<String, PathBuf>>,
    notes: Vec<String>,
}

impl Set {
    fn new(uuid: Option<String>, given: Stack) -> Self {
        let beside = Self::beside(&given.path);
        Self { uuid, has_given: true, stacks: vec![given], ..beside }
    }

    fn beside(path: &Path) -> Self {
        let (path, known) = (path.to_owned(), HashMap::new());
        Self { path, uuid: None, has_given: false, stacks: Vec::new(), known, by_uuid: None, notes: Vec::new() }
    }

    /// Refuses a folder with files that a document does not name.
    fn refuse_others(&mut self, ome: &Ome, asked: Asked) -> Result<(), Failure> {
        if !asked.is_folder() {
            return Ok(());
        }
        let keys: BTreeSet<_> = blocks(ome).map(|block| (&block.file, &block.uuid)).collect();
        let files = keys.iter().filter_map(|key| match *key {
            (_, Some(uuid)) if Some(uuid) == ome.uuid.as_ref() => Some(self.path.clone()),
            (Some(name), _) => Some(self.path.with_file_name(name)),
            (None, Some(uuid)) => self.with_uuid(uuid).ok(),
            (None, None) => Some(self.path.clone()),
        });
        let used: HashSet<_> = files.collect();
        // What the document says is in the only file that it names is in this one, which was renamed.
        let is_renamed = keys.len() < 2 && !used.iter().any(|file| file.exists());
        let path = &self.path;
        asked.refuse_others(path, |file| used.contains(file) || is_renamed && file == path.as_path())
    }

    /// The file beside this one that has this UUID.
    fn with_uuid(&mut self, uuid: &str) -> Result<PathBuf, String> {
        let path = &self.path;
        let known = self.by_uuid.get_or_insert_with(|| uuids_beside(path));
        known.get(uuid).cloned().ok_or_else(|| {
            format!("the OME-XML names a file by its UUID alone, {uuid}, which no file beside {} has", path.display())
        })
    }

    /// The file of a block, by its place in the list. `is_only`: the document names no other.
    fn file_of(&mut self, block: &TiffDataBlock, is_only: bool) -> Option<usize> {
        let given = self.has_given.then_some(0);
        if self.has_given && block.uuid.is_some() && block.uuid == self.uuid {
            return given;
        }
        let (key, path) = match (&block.file, &block.uuid) {
            (Some(name), _) if self.has_given && self.path.file_name() == Some(name.as_ref()) => return given,
            (None, None) => return given,
            (Some(key), _) | (None, Some(key)) if self.known.contains_key(key) => return self.known[key],
            (Some(name), _) => (name, sibling(&self.path, name)),
            // What the only file of all is called, nobody says.
            (None, Some(_)) if is_only && self.has_given && self.uuid.is_none() => return given,
            (None, Some(uuid)) => (uuid, self.with_uuid(uuid)),
        };
        let stack = path.and_then(|path| Stack::open(&path).map_err(|failure| failure.to_string()));
        let file = match stack {
            Ok(stack) => {
                self.stacks.push(stack);
                Some(self.stacks.len() - 1)
            }
            // A file that was renamed, and knows itself by its old name.
            Err(_) if is_only && self.has_given && block.file.is_some() => given,
            Err(why) => {
                self.notes.push(why);
                None
            }
        };
        self.known.insert(key.clone(), file);
        file
    }

    /// The planes of an image.
    fn find(mut self, choice: Choice) -> Result<RecordingFacts, Failure> {
        let image = choice.image;
        let is_only = choice.is_in_one_file;
        let whole = [TiffDataBlock::default()];
        let blocks = if image.blocks.is_empty() { &whole[..] } else { &image.blocks };
        let located: Vec<_> = blocks.iter().map(|block| (block, self.file_of(block, is_only))).collect();
        let samples = self.samples(&located)?;
        let channels = image.size('c');
        if !channels.is_multiple_of(samples) {
            let why = format!("its pages have {samples} samples a pixel, but the OME-XML has {channels} channels");
            return Err(cannot("read", &self.path, why));
        }
        let axes = axes(image, samples);
        let there = self.stacks.iter().map(|stack| stack.entries.len() as u64).sum();
        let mut planes =
            RecordingFacts::room(&axes, there).map_err(|why| cannot("use the OME-XML of", &self.path, why))?;
        let mut outside = 0;
        for (block, file) in located {
            let Some(first) = place(block, &axes, samples) else {
                outside += 1;
                continue;
            };
            if let Some(file) = file {
                self.lay(block, file, &mut planes[first as usize..])?;
            }
        }
        let mut notes = choice.notes;
        if !image.unsaid.is_empty() {
            let unsaid = image.unsaid.join("; ");
            notes.push(format!("what the OME-XML says in no unit that OME-Zarr has is not taken along: {unsaid}"));
        }
        if outside > 0 {
            let entries = of_number(&outside, ["entry of the OME-XML lies", "entries of the OME-XML lie"]);
            notes.push(format!("{outside} {entries} outside its own sizes, and {} not read", of_number(&outside, IS)));
        }
        notes.append(&mut self.notes);
        Ok(RecordingFacts {
            series: (0..choice.of).collect(),
            ..self.conclude(axes, planes, notes, choice.are_all_read)
        })
    }

    /// Samples of a pixel in the first page that is there.
    fn samples(&self, located: &[(&TiffDataBlock, Option<usize>)]) -> Result<u64, Failure> {
        let first = located.iter().find_map(|(block, file)| {
            let number = block.page.unwrap_or(0) as usize;
            let stack = &self.stacks[(*file)?];
            (number < stack.entries.len()).then_some((stack, number))
        });
        let Some((stack, number)) = first else {
            let why = "none of the pages that the OME-XML names is there";
            return Err(cannot("read", &self.path, why));
        };
        Ok(stack.plane(0, number)?.page.form.shape.samples)
    }

    /// Lays the pages of a block into the planes from its first one on.
    fn lay(&self, block: &TiffDataBlock, file: usize, planes: &mut [Option<PlaneSource>]) -> Result<(), Failure> {
        let stack = &self.stacks[file];
        let first = block.page.unwrap_or(0);
        let usual = if block.page.is_some() { 1 } else { u64::MAX };
        let pages =
            (first..stack.entries.len() as u64).take(block.planes.unwrap_or(usual).try_into().unwrap_or(usize::MAX));
        for (plane, page) in planes.iter_mut().zip(pages) {
            *plane = Some(stack.plane(file, page as usize)?);
        }
        Ok(())
    }

    fn conclude(
        mut self,
        axes: Axes,
        planes: Vec<Option<PlaneSource>>,
        mut notes: Vec<String>,
        are_all_read: bool,
    ) -> RecordingFacts {
        if let ([stack], false) = (&self.stacks[..], are_all_read) {
            let used: HashSet<_> = planes.iter().flatten().map(|plane| plane.number).collect();
            let left = stack.full_pages().filter(|&number| !used.contains(&(number as u32))).count();
            if left > 0 {
                notes.push(format!("{} not read, as of other images or of none", count_that(left, "page", IS)));
            }
        }
        notes.extend(self.stacks.iter().flat_map(Stack::notes));
        let defect = self.stacks.iter_mut().find_map(|stack| stack.defect.take());
        let files = self.stacks.into_iter().map(|stack| stack.path).collect();
        RecordingFacts { axes, files, planes, notes, defect, series: Vec::new() }
    }
}

/// The files of a folder by the UUIDs that they give themselves. `path`: a file there.
fn uuids_beside(path: &Path) -> HashMap<String, PathBuf> {
    let folder = folder_of(path);
    let uuid = |file: &PathBuf| {
        stays_inside(&folder, file).ok()?;
        Ome::parse(&Stack::open(file).ok()?.description).ok()?.uuid
    };
    let files = tiff_files(&folder).unwrap_or_default();
    files.into_iter().filter_map(|file| Some((uuid(&file)?, file))).collect()
}

/// The axes of planes whose pixels have this many samples.
fn axes(image: &OmeImage, samples: u64) -> Axes {
    let [x_step, y_step, z_step] = image.pixel_size;
    let [x_place, y_place, z_place] = image.place;
    let axis = |&(letter, size): &(char, u64)| match letter {
        't' => OuterAxis::new("t", size).step(image.time_step),
        'z' => OuterAxis::new("z", size).step(z_step).place(z_place),
        _ => OuterAxis::new("c", size / samples),
    };
    let outer = image.outer.iter().map(axis).collect();
    let (channels, name) = (image.channels.clone(), image.name.clone());
    Axes { outer, y_step, x_step, y_place, x_place, channels, name }
}

/// The place of a block's first plane; `None` if it is beyond the sizes.
fn place(block: &TiffDataBlock, axes: &Axes, samples: u64) -> Option<u64> {
    let mut place = 0;
    for (axis, &first) in axes.outer.iter().zip(&block.first) {
        let first = if axis.name == "c" { first / samples } else { first };
        if first >= axis.size {
            return None;
        }
        place = place * axis.size + first;
    }
    Some(place)
}
