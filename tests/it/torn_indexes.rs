//! Indexes of every size, replaced at checkpoints and at the close, on a disk that may tear each write at its sectors:
//! what was called durable is named by an index that is whole, at every moment.

use std::collections::BTreeMap;
use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::SeqCst};
use std::time::Duration;

use crate::common::disk::Disk;
use crate::common::fault_log::{FaultLog, Op};
use crate::common::{frame, tiny};
use shardwright::{
    Acquisition, Codec, Compressor, Config, Dialect, Dim, IndexLocation, Placement, Record, StorageKind, Volume,
};

const OFTEN: Duration = Duration::from_millis(10);
const SIDE: u64 = 16;

/// Torn images that are made and looked at, over all kinds of shards.
fn images() -> u64 {
    std::env::var("SHARDWRIGHT_CRASH_IMAGES").map_or(1_000, |count| count.parse().expect("a number of images"))
}

/// Numbers that look random, the same in each run.
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0
    }

    fn below(&mut self, end: u64) -> u64 {
        self.next() % end
    }
}

/// A run of one and a half shards, which hold `layers` frames of `across * across` chunks each.
struct Kind {
    config: Config,
    across: u64,
    layers: u64,
}

impl Kind {
    fn chunks(&self) -> u64 {
        self.layers * self.across * self.across
    }

    fn frames(&self) -> u64 {
        self.layers * 3 / 2
    }

    fn has_checksum(&self) -> bool {
        self.config.dialect == Dialect::Zarr3 && self.config.index_checksum
    }

    fn index_bytes(&self) -> usize {
        16 * self.chunks() as usize + if self.has_checksum() { 4 } else { 0 }
    }

    fn name(&self) -> String {
        let Config { dialect, index_location, index_checksum, placement, .. } = &self.config;
        format!("{} chunks, {dialect:?}, {index_location:?}, checksum {index_checksum}, {placement:?}", self.chunks())
    }

    /// Everything that the run did to its storage.
    fn run(&self) -> Vec<Op> {
        let log = FaultLog::default();
        let acquisition = Acquisition::create_in(Arc::new(log.clone()), self.config.clone()).unwrap();
        let mut durable = 0;
        let mut note = |frames| {
            if frames > durable {
                durable = frames;
                log.note(Op::Durable { frames });
            }
        };
        for number in 0..self.frames() {
            let mut slot = acquisition.acquire().unwrap();
            slot[..256].copy_from_slice(&frame(number, 256));
            slot.commit(number, Record::default()).unwrap();
            if number % (self.layers / 8).max(1) == 0 {
                std::thread::sleep(2 * OFTEN);
            }
            note(acquisition.stats().frames_durable);
        }
        note(acquisition.finish().unwrap().frames_durable);
        log.ops()
    }

    /// Offset and length of each chunk that a shard's index names, by its place in the shard.
    fn entries(&self, shard: &[u8]) -> Vec<(u64, u64, u64)> {
        if self.config.dialect == Dialect::Precomputed {
            return self.of_minishards(shard);
        }
        let index = match self.config.index_location {
            IndexLocation::Start => &shard[..self.index_bytes()],
            _ => &shard[shard.len() - self.index_bytes()..],
        };
        let (entries, crc) = index.split_at(16 * self.chunks() as usize);
        if self.has_checksum() {
            // The one thing that may be: nothing of it was called durable, and its slots say what they hold.
            if crc != crc32c::crc32c(entries).to_le_bytes() && self.is_not_durable_before_the_close() {
                return Vec::new();
            }
            assert_eq!(crc, crc32c::crc32c(entries).to_le_bytes(), "{}: an index is torn", self.name());
        }
        let entries = (0..self.chunks()).map(|chunk| {
            let at = 2 * chunk as usize;
            (chunk, word(entries, at), word(entries, at + 1))
        });
        entries.filter(|(_, offset, _)| *offset != u64::MAX).collect()
    }

    fn is_not_durable_before_the_close(&self) -> bool {
        self.config.index_location == IndexLocation::Start && self.index_bytes() > 512
    }

    fn of_minishards(&self, shard: &[u8]) -> Vec<(u64, u64, u64)> {
        let minishards = 1_usize << self.config.volume.minishard_bits.unwrap();
        let mut found = Vec::new();
        for minishard in 0..minishards {
            let [start, end] = [0, 1].map(|at| word(shard, 2 * minishard + at) as usize + 16 * minishards);
            let (index, mut id, mut reached) = (&shard[start..end], 0_u64, 16 * minishards as u64);
            let count = index.len() / 24;
            for at in 0..count {
                id = id.wrapping_add(word(index, at));
                let (offset, nbytes) = (reached.wrapping_add(word(index, count + at)), word(index, 2 * count + at));
                reached = offset.wrapping_add(nbytes);
                // One chunk covers a frame, so the id is that along time.
                found.push((id % self.chunks(), offset, nbytes));
            }
        }
        found
    }

    /// How many frames the index of a shard names whole, after a look at some of their pixels.
    fn frames_in(&self, number: u64, shard: &[u8], random: &mut Random) -> u64 {
        let entries = self.entries(shard);
        for _ in 0..entries.len().min(64) {
            let (chunk, offset, nbytes) = entries[random.below(entries.len() as u64) as usize];
            let payload = shard.get(offset as usize..(offset + nbytes) as usize);
            assert!(
                payload == Some(&self.payload(number, chunk)[..]),
                "{}: chunk {chunk} of shard {number}, {nbytes} bytes at {offset}, is not there",
                self.name()
            );
        }
        let mut of_frame: BTreeMap<u64, u64> = BTreeMap::new();
        let tiles = self.across * self.across;
        entries.iter().for_each(|(chunk, ..)| *of_frame.entry(chunk / tiles).or_default() += 1);
        of_frame.values().filter(|&&count| count == tiles).count() as u64
    }

    fn payload(&self, shard: u64, chunk: u64) -> Vec<u8> {
        let tiles = self.across * self.across;
        let pixels = frame(shard * self.layers + chunk / tiles, 256);
        let (side, tile) = (SIDE / self.across, chunk % tiles);
        let (top, left) = (tile / self.across * side, tile % self.across * side);
        let row = |row: u64| &pixels[((top + row) * SIDE + left) as usize..][..side as usize];
        (0..side).flat_map(row).copied().collect()
    }
}

fn word(bytes: &[u8], at: usize) -> u64 {
    u64::from_le_bytes(bytes[8 * at..8 * at + 8].try_into().unwrap())
}

/// The number of a shard, if the key is that of one: its place in time.
fn shard_number(key: &str) -> Option<u64> {
    if let Some(name) = key.strip_suffix(".shard") {
        return u64::from_str_radix(name.rsplit('/').next()?, 16).ok();
    }
    let place: Vec<_> = key.rsplit('/').take(3).collect();
    let [_, _, time] = place[..] else { return None };
    time.trim_start_matches('c').parse().ok().filter(|_| !key.starts_with("records"))
}

fn kinds() -> Vec<Kind> {
    let mut kinds = Vec::new();
    let mut add = |across: u64, layers: u64, config: &Config| {
        // A volume's shards get their length from its bits.
        let shard = if config.dialect == Dialect::Precomputed { 0 } else { layers };
        let side = SIDE / across;
        let dims = vec![Dim::time(None).chunk(1).shard(shard), Dim::y(SIDE).chunk(side), Dim::x(SIDE).chunk(side)];
        let base = tiny(None, 512);
        let Config { dtype, ring_bytes, .. } = base;
        let codec = Codec { compressor: Compressor::None, checksum: false };
        let config = Config {
            dims,
            dtype,
            codec,
            ring_bytes,
            workers: 2,
            sync: true,
            checkpoint_every: OFTEN,
            ..config.clone()
        };
        kinds.push(Kind { config, across, layers });
    };
    let fixed = Config { placement: Placement::Fixed, ..Config::default() };
    let packed = Config { placement: Placement::Packed, ..Config::default() };
    let start = IndexLocation::Start;
    for (across, layers) in [(1, 10), (2, 75), (4, 64), (4, 1250), (1, 100_000)] {
        add(across, layers, &fixed);
        add(across, layers, &Config { index_checksum: false, ..packed.clone() });
        add(across, layers, &Config { index_location: start, ..packed.clone() });
        add(across, layers, &Config { index_location: start, index_checksum: false, ..fixed.clone() });
        add(across, layers, &Config { dialect: Dialect::Zarr3Transformer, ..packed.clone() });
        add(across, layers, &Config { dialect: Dialect::Zarr2Sharded, ..fixed.clone() });
    }
    for (preshift, minishard) in [(3, 1), (2, 8), (7, 10)] {
        let volume = Volume { preshift_bits: Some(preshift), minishard_bits: Some(minishard), ..Volume::default() };
        add(1, 1 << (preshift + minishard), &Config { dialect: Dialect::Precomputed, volume, ..packed.clone() });
    }
    kinds
}

/// Moments of a run worth a look: around everything that is not a chunk, and some others.
fn moments(ops: &[Op], random: &mut Random, count: u64) -> Vec<usize> {
    let is_chunk = |op: &Op| matches!(op, Op::Write { .. } | Op::Put { .. } | Op::Durable { .. });
    let special: Vec<_> = (0..ops.len()).filter(|&at| !is_chunk(&ops[at])).collect();
    let mut moments: Vec<_> = (0..count)
        .map(|at| match at % 4 {
            0 => random.below(ops.len() as u64 + 1) as usize,
            _ => special[random.below(special.len() as u64) as usize] + random.below(3) as usize,
        })
        .map(|moment| moment.min(ops.len()))
        .collect();
    moments.sort_unstable();
    moments
}

#[test]
fn after_a_loss_of_power_indexes_of_every_size_are_whole_and_name_what_was_durable() {
    let mut random = Random(0x9E37_79B9_7F4A_7C15);
    let kinds = kinds();
    let each = (images() / kinds.len() as u64).max(8);
    for kind in &kinds {
        let ops = kind.run();
        let mut disk = Disk::default();
        let mut known: BTreeMap<String, (u64, u64)> = BTreeMap::new();
        let mut in_the_middle = 0;
        for moment in moments(&ops, &mut random, each) {
            disk.go_on(&ops, moment);
            let mut there = 0;
            for (key, file) in disk.files.iter_mut().filter(|(_, file)| file.published) {
                let Some(number) = shard_number(key) else { continue };
                if file.is_pending() {
                    // How much of what is under way arrives: now and then all or nothing.
                    let of_8 = random.below(9);
                    let mut coins = Random(random.next() | 1);
                    there += file.torn(|| coins.below(8) < of_8, |bytes| kind.frames_in(number, bytes, &mut random));
                    in_the_middle += 1;
                    continue;
                }
                let seen = known.get(*key).filter(|(version, _)| *version == file.version);
                let frames =
                    seen.map_or_else(|| kind.frames_in(number, &file.bytes, &mut random), |(_, frames)| *frames);
                known.insert((*key).to_owned(), (file.version, frames));
                there += frames;
            }
            assert!(there >= disk.durable, "{}: {there} of {} durable frames are there", kind.name(), disk.durable);
        }
        let checkpoints = ops.iter().filter(|op| matches!(op, Op::Durable { .. })).count();
        let least = if kind.is_not_durable_before_the_close() { 1 } else { 3 };
        assert!(checkpoints >= least && in_the_middle > 0, "{}: {checkpoints} checkpoints say nothing", kind.name());
    }
}

/// What readers saw that open a shard, look how long it is, and read its index, all the time.
#[derive(Debug, Default)]
struct Looks {
    whole: u64,
    torn: u64,
    cut_off: u64,
    /// The most entries in an index.
    entries: u64,
}

fn look_all_the_time(folder: &Path, chunks: u64, done: &AtomicBool) -> Looks {
    let mut looks = Looks::default();
    let mut index = vec![0; 16 * chunks as usize + 4];
    // The last look begins after the run is finished: then whole shards are there, however slow the disk is.
    let mut is_last = false;
    while !is_last {
        is_last = done.load(SeqCst);
        for shard in 0..8 {
            let Ok(file) = File::open(folder.join(format!("0/c/{shard}/0/0"))) else { continue };
            let length = file.metadata().unwrap().len();
            let at = length - index.len() as u64;
            if file.read_exact_at(&mut index, at).is_err() {
                looks.cut_off += 1;
                continue;
            }
            let (entries, crc) = index.split_at(16 * chunks as usize);
            if crc32c::crc32c(entries).to_le_bytes() != crc {
                looks.torn += 1;
                continue;
            }
            looks.whole += 1;
            let named = entries.chunks_exact(16).filter(|entry| entry[..8] != [0xff; 8]).count() as u64;
            looks.entries = looks.entries.max(named);
        }
    }
    looks
}

/// `layers`, `across`: as of a [`Kind`].
fn read_while_writing(folder: &Path, storage: StorageKind, layers: u64, across: u64) {
    let (path, side) = (folder.join("run.zarr"), SIDE / across);
    let dims = vec![Dim::time(None).chunk(1).shard(layers), Dim::y(SIDE).chunk(side), Dim::x(SIDE).chunk(side)];
    // Half of a shard's length is given back when it is closed.
    let codec = Codec { compressor: Compressor::Gzip { level: 1 }, checksum: false };
    let base = Config { storage, codec, overwrite: true, checkpoint_every: OFTEN, sync: true, ..tiny(None, 512) };
    let acquisition = Acquisition::create(&path, Config { dims, ..base }).unwrap();
    let done = AtomicBool::new(false);
    let chunks = layers * across * across;
    let [one, two] = std::thread::scope(|scope| {
        let readers = [0; 2].map(|_| scope.spawn(|| look_all_the_time(&path, chunks, &done)));
        for number in 0..layers * 4 {
            let _ = acquisition.append(&frame(number, 256)).unwrap();
            if number % (layers / 10) == 0 {
                std::thread::sleep(2 * OFTEN);
            }
        }
        let finished = acquisition.finish();
        done.store(true, SeqCst);
        finished.unwrap();
        readers.map(|reader| reader.join().unwrap())
    });
    let what = format!("{}, {storage:?}, {chunks} chunks: {one:?} {two:?}", folder.display());
    assert_eq!((one.torn + two.torn, one.cut_off + two.cut_off), (0, 0), "{what}");
    assert!(one.whole > 100 && one.entries == chunks, "{what} says nothing");
}

#[test]
fn readers_that_reopen_a_growing_shard_all_the_time_see_whole_indexes() {
    let disk = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    let memory = tempfile::tempdir_in("/dev/shm").unwrap();
    for storage in [StorageKind::Buffered, StorageKind::Direct, StorageKind::Mapped] {
        read_while_writing(disk.path(), storage, 64, 4);
        read_while_writing(memory.path(), storage, 64, 4);
    }
    read_while_writing(disk.path(), StorageKind::Auto, 80, 1);
    read_while_writing(disk.path(), StorageKind::Auto, 1250, 4);
}
