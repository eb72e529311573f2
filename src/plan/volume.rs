//! What a precomputed volume adds to a plan: the ids of its chunks, and which shard holds which of them.

use crate::config::{Config, Dim, DimKind, VolumeHash};
use crate::error::{Error, Result};
use crate::format::precomputed::ids::{ChunkIds, ShardSpec};
use crate::format::precomputed::volume::DEALT_MAX;
use crate::format::precomputed::{self, Shards, Volume, chunk_ids, place};
use crate::format::provenance::FRAMES_MAX;
use crate::format::rules;
use crate::geometry::Outer;
use crate::ome::units;

use super::auto::{AUTO_SHARD_BYTES, AUTO_SHARD_CHUNKS, length_of};

// This many chunks of a minishard are named by one index, which a viewer fetches as a whole: 12 KiB.
const AUTO_PRESHIFT_BITS: u32 = 9;
// With a real hash: neighbours that a viewer is likely to want together stay together.
const AUTO_PRESHIFT_BITS_HASHED: u32 = 6;
// The head of a shard, 16 bytes a minishard, is read as a whole: 16 MiB.
const MINISHARD_BITS_WRITTEN_MAX: u32 = 20;
// Of the number by which a chunk is known.
const ID_BITS: u32 = 64;
// Of shards that are listed: all of them are open at once, so no process could have more.
const SHARD_BITS_LISTED_MAX: u32 = 20;
// An unbounded volume gets names of eight digits for its shards.
const SHARD_BITS_UNBOUNDED: u32 = 32;
const SHARD_BITS_UNBOUNDED_MIN: u32 = 24;

#[derive(Debug)]
pub(crate) struct VolumePlan {
    pub(crate) volume: Volume,
    pub(crate) shards: Shards,
    /// The outer dimension that is z, and the one whose elements are channels.
    pub(crate) z: Option<usize>,
    pub(crate) channel: Option<usize>,
    /// Chunks of a box in x, y, z, where each shard is one.
    in_box: [u64; 3],
    /// Chunks of the volume in x and y.
    across: [u64; 2],
    /// Where each chunk goes, if shards are no boxes.
    pub(crate) table: Option<Table>,
}

/// The shard of each chunk, and its place in there: the rank of its id among those of the shard.
#[derive(Debug)]
pub(crate) struct Table {
    /// In C order of z, y, x.
    of: Vec<(u32, u32)>,
    pub(super) ids: Vec<Vec<u64>>,
}

/// The roles of the outer dimensions in a volume: z, and channels.
pub(super) fn roles(dims: &[Dim]) -> Result<(Option<usize>, Option<usize>)> {
    let outer = &dims[..dims.len() - 2];
    let is_channel = |dim: &Dim| dim.kind == DimKind::Channel;
    let channel = outer.iter().position(is_channel);
    let z: Vec<_> = (0..outer.len()).filter(|&dim| Some(dim) != channel).collect();
    if z.len() > 1 || outer.iter().filter(|dim| is_channel(dim)).count() > 1 {
        let names: Vec<_> = dims.iter().map(|dim| dim.name.as_str()).collect();
        let reason = "a precomputed volume has one dimension before rows and columns, and perhaps one of kind \
                      channel; write a dataset for each position of the others, or choose dialect zarr3";
        return Err(Error::config("dims", format_args!("[{}]", names.join(", ")), reason));
    }
    Ok((z.first().copied(), channel))
}

impl Config {
    /// Says where a precomputed volume is by its [voxel_offset](crate::Volume::voxel_offset), if none is set yet: the
    /// [translations](Dim::translation), which say where the centres of the first elements are, become 0. Those of
    /// whole voxels and a half are offsets, since a voxel reaches from its number to the next one. Returns a sentence
    /// about others. Nothing changes in other dialects.
    pub fn place_volume(&mut self) -> Vec<String> {
        if !rules(self.dialect).numbers_chunks || self.dims.len() < 2 {
            return Vec::new();
        }
        let is_set = self.volume.voxel_offset != [0; 3];
        let mut left = Vec::new();
        let [.., y, x] = [0, self.dims.len() - 2, self.dims.len() - 1];
        let z = (0..y).find(|&dim| self.dims[dim].kind != DimKind::Channel);
        for at in (0..self.dims.len()).rev() {
            let dim = &self.dims[at];
            let xyz = [Some(x), Some(y), z].iter().position(|of| *of == Some(at));
            let is_space = at >= y || dim.kind == DimKind::Space;
            match xyz.filter(|_| is_space).and_then(|xyz| Some((xyz, self.whole_offset(dim, xyz)?))) {
                _ if dim.translation == 0.0 || is_set => {}
                Some((xyz, offset)) => self.volume.voxel_offset[xyz] = offset,
                None => {
                    let unit = dim.unit.as_deref().map(|unit| format!(" {unit}")).unwrap_or_default();
                    left.insert(0, format!("{} ({}{unit})", dim.name, dim.translation));
                }
            }
        }
        self.dims.iter_mut().for_each(|dim| dim.translation = 0.0);
        let note = || {
            format!(
                "the place of the first pixel along {} is not taken along: a volume's voxels begin at whole numbers of \
                 voxels; the option `volume.voxel_offset` gives one",
                left.join(", ")
            )
        };
        (!left.is_empty()).then(note).into_iter().collect()
    }

    /// The voxels before the first one along a dimension, if these are a whole number.
    fn whole_offset(&self, dim: &Dim, xyz: usize) -> Option<i64> {
        let nanometers = dim.unit.as_deref().and_then(units::nanometers);
        let step = match (self.volume.resolution, nanometers) {
            (Some(resolution), Some(nanometers)) => resolution[xyz] / nanometers,
            _ => dim.scale,
        };
        place::whole_offset(dim.translation, step)
    }
}

/// Where a voxel stands is a number of 64 bits for all readers, that of the last one too.
fn check_offset(offset: [i64; 3], size: [u64; 3]) -> Result<()> {
    let is_beyond = |dim: usize| offset[dim].checked_add_unsigned(size[dim]).is_none();
    let Some(dim) = (0..3).find(|&dim| is_beyond(dim)) else { return Ok(()) };
    let most = i128::from(i64::MAX) - i128::from(size[dim]);
    let reason = format!("{} starts too far out for its {} voxels; at most {most}", ["x", "y", "z"][dim], size[dim]);
    Err(Error::config("volume.voxel_offset", format_args!("{offset:?}"), reason))
}

/// Readers take each as a number above 0.
fn check_resolution(resolution: [f64; 3]) -> Result<()> {
    let is_fit = |nanometers: &f64| nanometers.is_finite() && *nanometers > 0.0;
    let Some(dim) = (0..3).find(|&dim| !is_fit(&resolution[dim])) else { return Ok(()) };
    let reason = format!(
        "a volume can't have {} nanometers from voxel to voxel along {}; give another distance",
        resolution[dim],
        ["x", "y", "z"][dim]
    );
    Err(Error::config("volume.resolution", format_args!("{resolution:?}"), reason))
}

impl VolumePlan {
    /// `chunk`: the shape of a chunk. Sets `shard`, of which zeros are free, to what shards become.
    pub(super) fn new(config: &Config, chunk: &[u64], shard: &mut [u64]) -> Result<Option<Self>> {
        if !rules(config.dialect).numbers_chunks {
            return Ok(None);
        }
        let (z, channel) = roles(&config.dims)?;
        let [y, x] = [config.dims.len() - 2, config.dims.len() - 1];
        let chunks = |dim: usize| length_of(&config.dims, dim).div_ceil(chunk[dim]);
        let bounded = z.is_none_or(|z| config.dims[z].size.is_some());
        let grid = [chunks(x), chunks(y), z.filter(|_| bounded).map_or(u64::from(bounded), chunks)];
        let ids = chunk_ids(grid, !bounded).ok_or_else(|| {
            let reason = "has more chunks than 64 bits can number; choose larger chunks";
            Error::config("dims", format_args!("a grid of {grid:?} chunks"), reason)
        })?;
        let bytes = chunk.iter().fold(config.dtype.size() as u64, |bytes, &n| bytes.saturating_mul(n));
        let requested = [x, y].into_iter().chain(z).map(|dim| shard[dim] / chunk[dim].max(1)).collect::<Vec<_>>();
        let spec = SpecRequest { config, ids, bytes, bounded }.spec(&requested)?;
        let shards = Shards::new(spec, ids, !bounded);
        let role = |dim: usize| if Some(dim) == channel { precomputed::CHANNEL } else { precomputed::Z };
        let size = |dim: usize| config.dims[dim].size.unwrap_or(0);
        let volume = Volume {
            roles: (0..y).map(role).chain([precomputed::Y, precomputed::X]).collect(),
            shards: Some(shards.clone()),
            key: key(config),
            size: [size(x), size(y), z.map_or(1, size)],
            chunk: [chunk[x], chunk[y], z.map_or(1, |z| chunk[z])],
            voxel_offset: config.volume.voxel_offset,
            resolution: Some(resolution(config)),
        };
        let depth = if bounded { volume.size[2] } else { FRAMES_MAX };
        check_offset(volume.voxel_offset, [volume.size[0], volume.size[1], depth])?;
        check_resolution(resolution(config))?;
        let table = if shards.in_box.is_none() { Some(Table::new(&volume, &shards)?) } else { None };
        let in_box = shards.in_box.unwrap_or(grid);
        let across = [grid[0], grid[1]];
        let volume = Self { volume, shards, z, channel, in_box, across, table };
        for (dim, chunks) in [x, y].into_iter().chain(z).zip(volume.in_box) {
            shard[dim] = chunks.checked_mul(chunk[dim]).ok_or_else(|| {
                let reason =
                    format!("a shard of {chunks} such chunks is longer than 64 bits can count; choose smaller ones");
                Error::config("dims.chunk", chunk[dim], reason)
            })?;
        }
        if let Some(channel) = channel {
            shard[channel] = chunk[channel];
        }
        Ok(Some(volume))
    }

    /// The ids of a shard's chunks, if shards are no boxes.
    pub(crate) fn ids_of(&self, across: usize) -> Option<&[u64]> {
        self.table.as_ref().map(|table| table.ids[across].as_slice())
    }

    /// The id of a chunk. `grid`: the place of its cell in the grid of shards; `across`: the shard's place beside the
    /// others of its cell; `chunk`: the chunk's place in the shard.
    pub(crate) fn id(&self, grid: &Outer, across: usize, chunk: usize) -> u64 {
        match &self.table {
            Some(table) => table.ids[across][chunk],
            None => {
                let [x, y, z] = self.in_box;
                let [first_x, first_y, first_z] = self.origin(grid, across);
                let (chunk, layer) = (chunk as u64 % (x * y), chunk as u64 / (x * y));
                debug_assert!(layer < z);
                self.shards.ids.id([first_x + chunk % x, first_y + chunk / x, first_z + layer])
            }
        }
    }

    /// Which layer of the cell a chunk of a shard belongs to, if shards are no boxes.
    pub(crate) fn layer_of_table(&self, across: usize, chunk: usize) -> Option<usize> {
        let table = self.table.as_ref()?;
        Some(self.shards.ids.position(table.ids[across][chunk])[2] as usize)
    }

    /// The first chunk of a box, in x, y, z.
    fn origin(&self, grid: &Outer, across: usize) -> [u64; 3] {
        let columns = self.across[0].div_ceil(self.in_box[0]);
        let (row, column) = (across as u64 / columns, across as u64 % columns);
        let z = self.z.map_or(0, |dim| grid[dim]);
        [column * self.in_box[0], row * self.in_box[1], z * self.in_box[2]]
    }

    /// Shard and place of the chunk that is the `linear`-th of all, if shards are no boxes.
    pub(crate) fn of_table(&self, linear: usize) -> Option<(usize, usize)> {
        let table = self.table.as_ref()?;
        let (shard, chunk) = table.of[linear];
        Some((shard as usize, chunk as usize))
    }
}

impl Table {
    fn new(volume: &Volume, Shards { spec, ids, .. }: &Shards) -> Result<Self> {
        if spec.shard_bits > SHARD_BITS_LISTED_MAX {
            let reason = format!(
                "with this hash, or with fewer bits in all than the ids need, all shards are open at once, and at \
                 most 2^{SHARD_BITS_LISTED_MAX} are possible; choose fewer shard_bits"
            );
            return Err(Error::config("volume.shard_bits", spec.shard_bits, reason));
        }
        let grid = volume.grid();
        let mut by_shard = volume.ids_by_shard().ok_or_else(|| {
            let reason = format!(
                "with this hash, and with fewer shard_bits than the ids need, at most {DEALT_MAX} chunks are \
                 possible; use hash identity and leave shard_bits out, or larger chunks"
            );
            Error::config("volume", format_args!("a grid of {grid:?} chunks"), reason)
        })?;
        let of_shard: Vec<_> =
            (0..1 << spec.shard_bits).map(|shard| by_shard.remove(&shard).unwrap_or_default()).collect();
        let mut of = vec![(0, 0); grid.iter().product::<u64>() as usize];
        for (shard, of_shard) in of_shard.iter().enumerate() {
            for (rank, &id) in of_shard.iter().enumerate() {
                let [x, y, z] = ids.position(id);
                of[((z * grid[1] + y) * grid[0] + x) as usize] = (shard as u32, rank as u32);
            }
        }
        Ok(Self { of, ids: of_shard })
    }
}

/// The folder of the shards.
fn key(config: &Config) -> String {
    config.volume.key.clone().unwrap_or_else(|| resolution(config).map(|r| r.to_string()).join("_"))
}

/// Nanometers from voxel to voxel, x, y, z.
pub(crate) fn resolution(config: &Config) -> [f64; 3] {
    config.volume.resolution.unwrap_or_else(|| {
        let (outer, frame) = config.dims.split_at(config.dims.len() - 2);
        let nanometers = |dim: &Dim| place::resolution(dim.scale, dim.unit.as_deref());
        let z = outer.iter().find(|dim| dim.kind != DimKind::Channel);
        [nanometers(&frame[1]), nanometers(&frame[0]), z.map_or(1.0, nanometers)]
    })
}

/// What is asked of the bits of an id.
struct SpecRequest<'a> {
    config: &'a Config,
    ids: ChunkIds,
    /// Bytes of a chunk.
    bytes: u64,
    bounded: bool,
}

impl SpecRequest<'_> {
    /// `shard`: requested chunks per shard in x, y, z; 0 where all is well.
    fn spec(&self, shard: &[u64]) -> Result<ShardSpec> {
        let volume = &self.config.volume;
        if volume.hash != VolumeHash::Identity && !self.bounded {
            let reason = "needs the number of frames: every shard gets chunks until the end; give the first dimension \
                          a size, or use hash identity";
            return Err(Error::config("volume.hash", "murmurhash3_x86_128", reason));
        }
        let [preshift, minishard, shard_bits] =
            [volume.preshift_bits, volume.minishard_bits, volume.shard_bits].map(|bits| bits.map(u32::from));
        if let Some(bits) = preshift.filter(|bits| *bits > ID_BITS) {
            return Err(Error::config("volume.preshift_bits", bits, format!("at most {ID_BITS} are possible")));
        }
        let total: u32 = self.ids.total();
        let (preshift_bits, minishard_bits, shard_bits) = match volume.hash {
            VolumeHash::Identity => {
                let lowest = self.lowest(shard, preshift, minishard)?;
                let preshift_bits = preshift
                    .unwrap_or_else(|| minishard.map_or(lowest.min(AUTO_PRESHIFT_BITS), |m| lowest.saturating_sub(m)));
                let auto = match self.bounded {
                    true => total.saturating_sub(lowest),
                    false => SHARD_BITS_UNBOUNDED.min(ID_BITS.saturating_sub(lowest)),
                };
                (preshift_bits, lowest.saturating_sub(preshift_bits), shard_bits.unwrap_or(auto))
            }
            VolumeHash::Murmurhash3X86_128 => {
                if shard.iter().any(|&chunks| chunks != 0) {
                    let reason = "a hash deals chunks out to all shards; leave the shard sizes out and set shard_bits";
                    return Err(Error::config("dims.shard", format_args!("{shard:?} chunks"), reason));
                }
                let preshift_bits = preshift.unwrap_or(total.min(AUTO_PRESHIFT_BITS_HASHED));
                let left = total.saturating_sub(preshift_bits);
                let all = u128::from(self.bytes) << total;
                let shards = (all / u128::from(AUTO_SHARD_BYTES)).max(1);
                let shard_bits = shard_bits.unwrap_or((u128::BITS - (shards - 1).leading_zeros()).min(left));
                let auto = left.saturating_sub(shard_bits).min(AUTO_PRESHIFT_BITS);
                (preshift_bits, minishard.unwrap_or(auto), shard_bits)
            }
        };
        if minishard_bits > MINISHARD_BITS_WRITTEN_MAX {
            let reason =
                format!("at most {MINISHARD_BITS_WRITTEN_MAX} are possible: readers load 16 bytes a minishard first");
            return Err(Error::config("volume.minishard_bits", minishard_bits, reason));
        }
        if preshift_bits + minishard_bits + shard_bits > ID_BITS {
            let value = format!("{preshift_bits} + {minishard_bits} + {shard_bits}");
            let reason = "preshift_bits, minishard_bits and shard_bits are at most 64 together";
            return Err(Error::config("volume.shard_bits", value, reason));
        }
        // Numbers of shards must never come round again.
        if !self.bounded && shard_bits < SHARD_BITS_UNBOUNDED_MIN {
            let reason = format!(
                "an unbounded volume needs {SHARD_BITS_UNBOUNDED_MIN} at least; leave shard_bits out, or give the \
                 first dimension a size"
            );
            return Err(Error::config("volume.shard_bits", shard_bits, reason));
        }
        let (hash, gzip_indexes) = (volume.hash, volume.gzip_indexes);
        Ok(ShardSpec { hash, preshift_bits, minishard_bits, shard_bits, gzip_indexes })
    }

    /// How many of an id's lowest bits vary within a shard.
    fn lowest(&self, shard: &[u64], preshift: Option<u32>, minishard: Option<u32>) -> Result<u32> {
        let total: u32 = self.ids.total();
        let given = preshift.zip(minishard).map(|(preshift, minishard)| preshift + minishard);
        let fits = |&lowest: &u32| {
            self.ids.of_lowest(lowest).iter().zip(shard).all(|(&bits, &chunks)| chunks == 0 || chunks == 1 << bits)
        };
        let least = preshift.unwrap_or(0) + minishard.unwrap_or(0);
        let affordable = |&lowest: &u32| {
            lowest <= AUTO_SHARD_CHUNKS.ilog2() && self.bytes.checked_shl(lowest).is_some_and(|b| b <= AUTO_SHARD_BYTES)
        };
        if let Some(given) = given.filter(|given| *given > ID_BITS || fits(given)) {
            return Ok(given);
        }
        let possible: Vec<u32> =
            (least..=total.max(least).min(64)).filter(|lowest| given.is_none() && fits(lowest)).collect();
        let largest = possible.iter().copied().rev().find(affordable);
        largest.or_else(|| possible.first().copied()).ok_or_else(|| {
            if let (Some(preshift), Some(minishard), Some(given)) = (preshift, minishard, given) {
                let [x, y, z] = self.ids.of_lowest(given.min(total)).map(|bits| 1u64 << bits);
                let reason = format!(
                    "preshift_bits {preshift} and minishard_bits {minishard} make a shard a box of {x}x{y}x{z} chunks \
                     along x, y and z; give these bits, or the size of shards, and leave the others to be chosen"
                );
                return Error::config("dims.shard", format_args!("{shard:?} chunks"), reason);
            }
            let boxes = (0..=total.min(12)).map(|lowest| self.ids.of_lowest(lowest).map(|bits| 1u64 << bits));
            let boxes: Vec<_> = boxes.map(|[x, y, z]| format!("{x}x{y}x{z}")).collect();
            let reason = format!(
                "a shard of this volume is a box of 2^n chunks, where n is preshift_bits plus minishard_bits; \
                 possible are, in chunks along x, y and z: {}, …",
                boxes.join(", ")
            );
            Error::config("dims.shard", format_args!("{shard:?} chunks"), reason)
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::{Codec, Compressor, Dialect, Volume};
    use crate::dtype::Dtype;
    use crate::plan::Plan;

    fn config(dims: Vec<Dim>, volume: Volume) -> Config {
        let codec = Codec { compressor: Compressor::None, checksum: false };
        Config { dims, volume, codec, dialect: Dialect::Precomputed, ..Config::default() }
    }

    fn dims(frames: Option<u64>) -> Vec<Dim> {
        vec![Dim::z(frames).chunk(4), Dim::y(100).chunk(10), Dim::x(70).chunk(10)]
    }

    /// Every chunk has one place, and its id leads there.
    fn check(plan: &Plan) {
        let volume = plan.volume.as_ref().unwrap();
        let mut seen = std::collections::HashSet::new();
        for number in (0..plan.frames_total.unwrap_or(200)).step_by(4) {
            let at = plan.layers.locate(number);
            let grid = plan.layers.grid_position(at.block, at.cell);
            let first = plan.first_chunk(&grid);
            let cell = plan.shards.locate(number);
            let cell = plan.shards.grid_position(cell.block, cell.cell);
            for tile in &plan.tiles {
                let (across, chunk) = plan.slot_of(first, tile);
                assert!(chunk < plan.shard.chunks && across < plan.shard.across_frame);
                let id = volume.id(&cell, across, chunk);
                assert_eq!(volume.shards.ids.position(id), [tile.x as u64 / 10, tile.y as u64 / 10, number / 4]);
                let shard = volume.volume.shard_number(&plan.shard_position(&cell, across)).unwrap();
                assert_eq!(volume.shards.spec.place(id).0, shard);
                assert_eq!(plan.layer_in_cell(across, chunk), first / plan.shard.layer_chunks);
                assert!(seen.insert((shard, chunk)));
            }
        }
    }

    #[test]
    fn every_chunk_has_one_place() {
        let hash = VolumeHash::Murmurhash3X86_128;
        let volumes = [
            Volume::default(),
            Volume { preshift_bits: Some(2), minishard_bits: Some(3), ..Volume::default() },
            Volume { minishard_bits: Some(1), shard_bits: Some(2), ..Volume::default() },
            Volume { preshift_bits: Some(0), minishard_bits: Some(0), shard_bits: Some(3), ..Volume::default() },
            Volume { hash, ..Volume::default() },
            Volume { hash, shard_bits: Some(2), minishard_bits: Some(2), preshift_bits: Some(1), ..Volume::default() },
        ];
        for volume in volumes {
            check(&Plan::new(&config(dims(Some(37)), volume.clone())).unwrap());
            if volume.hash == VolumeHash::Identity && volume.shard_bits.is_none() {
                check(&Plan::new(&config(dims(None), volume)).unwrap());
            }
        }
    }

    #[test]
    fn shards_are_boxes_of_the_lowest_bits() {
        let requested = |shard_z, shard_y, shard_x| {
            let dims = vec![
                Dim::z(1000).chunk(4).shard(shard_z),
                Dim::y(100).chunk(10).shard(shard_y),
                Dim::x(70).chunk(10).shard(shard_x),
            ];
            Plan::new(&config(dims, Volume::default()))
        };
        assert_eq!(requested(8, 20, 20).unwrap().array.layout.file_shape, [8, 20, 20]);
        assert_eq!(requested(8, 0, 0).unwrap().array.layout.file_shape[0], 8);
        let error = requested(16, 20, 20).unwrap_err().to_string();
        assert!(error.contains("2x2x2"), "{error}");
    }

    #[test]
    fn what_can_t_be_is_refused_with_what_can() {
        let refused = |config: Config, evidence: &str| {
            let error = Plan::new(&config).unwrap_err().to_string();
            assert!(error.contains(evidence), "{error}");
        };
        let hashed = Volume { hash: VolumeHash::Murmurhash3X86_128, ..Volume::default() };
        refused(config(dims(None), hashed), "number of frames");
        let few = Volume { shard_bits: Some(3), ..Volume::default() };
        refused(config(dims(None), few), "leave shard_bits out");
        let bits = |preshift, minishard| {
            let bits = Volume { preshift_bits: Some(preshift), minishard_bits: Some(minishard), ..Volume::default() };
            config(vec![Dim::z(64).chunk(4).shard(16), Dim::y(100).chunk(10), Dim::x(70).chunk(10)], bits)
        };
        refused(bits(65, 0), "volume.preshift_bits = 65: at most 64");
        refused(bits(50, 20), "at most 64 together");
        refused(bits(0, 0), "preshift_bits 0 and minishard_bits 0 make a shard a box of 1x1x1 chunks");
        let mut five = dims(Some(3));
        five.insert(0, Dim::time(4));
        refused(config(five, Volume::default()), "zarr3");
        let blosc = Config { codec: Codec::default(), ..config(dims(None), Volume::default()) };
        refused(blosc, "gzip");
        let filled = Config { fill_value: 1.into(), ..config(dims(None), Volume::default()) };
        refused(filled, "fill_value");
        // A reader fills what is not there with zeros, whose bytes these are not; integers have one zero.
        let below_zero = |dtype| Config { dtype, fill_value: (-0.0).into(), ..config(dims(None), Volume::default()) };
        refused(below_zero(Dtype::F32), "fill_value = -0");
        Plan::new(&below_zero(Dtype::U16)).unwrap();
    }
}
