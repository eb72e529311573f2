//! Of a dataset that lost chunks, no copy may look whole: it is refused, or the copy says what is missing.

use std::path::Path;

use super::change::Change;
use super::options::RepackOptions;
use crate::config::Compressor;
use crate::dtype::Dtype;
use crate::error::{Error, Result};
use crate::format::keys::FRAME_NUMBERS;
use crate::format::provenance::{Ending, ProvenanceMut, is_unfinished};
use crate::fs as os;
use crate::offline::array::Array;
use crate::offline::array::decode::StoredChunk;
use crate::offline::array::index::Index;
use crate::offline::array::shard_file::ShardFile;
use crate::offline::hierarchy::has_node;
use crate::offline::hierarchy::walk::Node;
use crate::offline::lost::LostChunks;
use crate::offline::promises::Broken;
use crate::offline::ranges::Ranges;
use crate::offline::shared_records::{shared_files, write_within};
use crate::offline::unfinished_parts::refuse_unfinished_parts;
use crate::record::LOST;
use crate::words::{IS, count, of_number};

/// What is given up of an array.
#[derive(Debug, Default)]
pub(super) struct GivenUp {
    /// How many chunks that were counted are not there.
    chunks: u64,
    /// The frames that may lack some of them, where it is known which frames are where.
    frames: Ranges,
    /// Of a run that did not finish, where its frames end.
    end: Option<u64>,
}

/// Refuses an array that holds fewer chunks than its writer counted.
pub(super) fn refuse(change: &Change) -> Result<()> {
    let source = &change.source;
    let Some(lost) = change.pool.install(|| source.lost())? else { return Ok(()) };
    let help = "bring them back, or give them up with the option `incomplete`";
    Err(Error::format(source.path(), format!("{lost}; {help}")))
}

/// Refuses a dataset that lacks what its documents promise, unless the options give it up.
pub(super) fn refuse_absent(absent: &[Broken], options: &RepackOptions) -> Result<()> {
    match absent {
        [Broken { group, what, .. }, ..] if !options.incomplete => {
            let help = "bring it back, or give it up with the option `incomplete`";
            Err(Error::format(group, format!("{what}; {help}")))
        }
        _ => Ok(()),
    }
}

/// Chunks of an open shard are found only by their headers, which stand in what looks like a gap. A copy has no headers
/// any more, so that nothing could recover it.
pub(super) fn refuse_unfinished(root: &Path, nodes: &[Node], incomplete: bool) -> Result<()> {
    refuse_unfinished_parts(root)?;
    for node in nodes.iter().filter(|node| !incomplete && node.unreadable().is_none()) {
        let of_image = node.array().and_then(Array::image_provenance);
        if of_image.is_some_and(|own| !own.complete && !own.recovered) || is_unfinished(&node.document()?["attributes"])
        {
            let reason = "its writer did not finish, and the result would lack what a recovery may still find, and \
                          could not be recovered; recover it first, or give that up with the option `incomplete`";
            return Err(Error::unfinished(&node.path, reason));
        }
    }
    Ok(())
}

impl GivenUp {
    /// What an array has lost.
    pub(super) fn of(change: &Change) -> Result<Self> {
        let source = &change.source;
        if let Some(left) = change.pool.install(|| source.left_unfinished())? {
            return Ok(Self::of_unfinished(source, &left));
        }
        let Some(lost) = change.pool.install(|| source.lost())? else { return Ok(Self::default()) };
        let frames = source.acquisition().and_then(|(_, map)| lost.frames(&map));
        Ok(Self { chunks: lost.chunks(), frames: frames.unwrap_or_default(), end: None })
    }

    /// A copy has no slot headers, by which the run could be recovered: what its indexes do not name is missing.
    fn of_unfinished(source: &Array, left: &LostChunks) -> Self {
        let frames = source.acquisition().and_then(|(_, map)| Some((left.frames(&map)?, map)));
        let Some((absent, map)) = frames else { return Self::default() };
        let all = Ranges::from(0..map.frames().unwrap_or(0));
        let last = all.minus(&absent).iter().last().map_or(0, |range| range.end);
        let end = map.end(last).min(all.count());
        Self { chunks: 0, frames: absent.and(&Ranges::from(0..end)), end: Some(end) }
    }

    /// What somebody should know who reads a result without the chunks that are given up.
    pub(super) fn note(&self) -> Option<String> {
        let Self { chunks, frames, end } = self;
        if let Some(end) = end {
            let there = end - frames.count();
            return Some(format!(
                "its writer did not finish: the result holds the {} that its indexes name, and lists the others up to \
                 {end} as missing",
                count(there, "frame")
            ));
        }
        let listed = match frames.count() {
            0 => "the result has a count that tells so".to_owned(),
            frames => format!(
                "{} that may lack some {} listed as missing in the result",
                count(frames, "frame"),
                of_number(&frames, IS)
            ),
        };
        let (counted, are) = (count(*chunks, "chunk"), of_number(chunks, IS));
        (*chunks > 0).then(|| format!("{counted} that its writer counted {are} not there; {listed}"))
    }

    /// Lets what the writer said of the array be true of what it has become, which has this many chunks: how many there
    /// are, and which frames are missing.
    pub(super) fn settle(&self, own: &mut ProvenanceMut<'_>, made: u64) {
        let Self { chunks: lost, frames, end } = self;
        if let Some(end) = *end {
            // Nothing more of it can be found.
            let missing: Vec<_> = frames.iter().cloned().collect();
            let ending = Ending { chunks: made, frames_missing: frames.count(), missing: &missing, error: None };
            return own.recover(end, &ending, &[]);
        }
        if !own.has_chunks() {
            return;
        }
        // Where no frame tells what is lost, the count has to.
        let told = frames.count() > 0;
        own.set_chunks(made + if told { 0 } else { *lost });
        if told {
            let listed = Ranges::new(own.missing());
            let all: Vec<_> = listed.union(frames).iter().cloned().collect();
            own.set_missing(&all, frames.minus(&listed).count());
        }
    }

    /// Says of which frames the pixels are lost, in the records beside or below the place that `array` has in `root`.
    pub(super) fn settle_records(&self, root: &Path, array: &Path) -> Result<()> {
        if self.frames.count() == 0 {
            return Ok(());
        }
        // In Zarr v2 they may stand below the array.
        for place in [array.parent(), Some(array)].into_iter().flatten() {
            let folder = root.join(place).join(FRAME_NUMBERS);
            if has_node(&folder) {
                return match Array::open_exactly(&folder)? {
                    Some(numbers) => mark(&numbers, &self.frames),
                    None => Ok(()),
                };
            }
        }
        Ok(())
    }
}

/// Marks frames as lost in the blocks of their numbers, as far as these are as this crate's writer makes them.
fn mark(numbers: &Array, lost: &Ranges) -> Result<()> {
    let codec = numbers.codec();
    let is_plain = codec.compressor == Compressor::None && !codec.checksum && numbers.metadata().chain.is_plain();
    let is_plain = is_plain && (shared_files(numbers).is_some() || !numbers.layout().has_index());
    let ([block_frames], true, None) =
        (numbers.chunk_shape(), is_plain && numbers.dtype() == Dtype::I64, numbers.manifest())
    else {
        return Ok(());
    };
    let mut worker = numbers.worker()?;
    for (path, position) in numbers.files()? {
        let Some(file) = ShardFile::open(path.clone())? else { continue };
        let index = numbers.read_index(&file, &position, None)?;
        for (entry, range) in index.entries() {
            let range = range.map_err(|reason| Error::format(&path, reason))?;
            let Some(at) = numbers.layout().chunk_at(&position, entry) else { continue };
            numbers.decode(&mut worker, StoredChunk { file: &file, range, at: &at })?;
            let start = at[0].saturating_mul(*block_frames);
            let (blocks, _) = worker.raw.as_chunks_mut::<8>();
            let came = blocks
                .iter_mut()
                .zip(start..)
                .filter(|(number, frame)| i64::from_le_bytes(**number) >= 0 && lost.contains(*frame));
            let changed = came.map(|(number, _)| *number = LOST.to_le_bytes()).count();
            match index {
                _ if changed == 0 => {}
                Index::Whole(_) => os::put(&path, &worker.raw)?,
                _ => write_within(numbers, &path, &[(range.offset, &worker.raw)])?,
            }
        }
    }
    Ok(())
}
