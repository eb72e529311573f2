//! The engine's configuration for a replay, from the command line and the recording.

use std::collections::HashSet;

use shardwright::words::count;
use shardwright::{Channel, Codec, Config, Dialect, Dim, DimKind, units};

use crate::args::{Rate, ReplayArgs};
use crate::failure::{Failure, with_options};
use crate::source::Recording;

/// The engine's configuration for `total` frames of the recording, and what to say of it.
pub(crate) fn config(
    args: &ReplayArgs,
    recording: &Recording,
    total: u64,
    rate: Rate,
    held_bytes: u64,
) -> Result<(Config, Vec<String>), Failure> {
    if recording.is_padded && args.run.bare {
        let why = "--moving-roi pad records the place of each frame, and --bare writes no records; use one of them";
        return Err(Failure::Usage(why.to_owned()));
    }
    let dims = dims(args, recording, total, rate)?;
    let named = named_channels(&dims, recording);
    let checksum = args.layout.dialect == Dialect::Zarr3 && !args.layout.encoding.no_checksum;
    let mut config = Config {
        dtype: recording.dtype,
        dims,
        acquisition_order: recording.acquisition_order.clone(),
        dialect: args.layout.dialect,
        codec: Codec { compressor: args.layout.compressor()?, checksum },
        placement: args.run.placement,
        index_location: args.layout.index.unwrap_or_default(),
        index_checksum: !args.layout.encoding.no_index_checksum,
        volume: args.volume.volume()?,
        pixel_format: recording.pixel_format,
        unused_low_bits: recording.unused_low_bits,
        frame_layout: recording.layout,
        orientation: args.recording.turn(),
        ring_full: args.pace.ring_full()?,
        channels: if args.run.bare { Vec::new() } else { channels(&recording.channels[..named]) },
        manifest: args.run.manifest.clone(),
        pyramid: args.run.downsampling()?,
        name: recording.name.clone().filter(|_| !args.run.bare),
        key: args.run.key.clone(),
        bare: args.run.bare,
        record_roi: recording.is_padded,
        ome: args.run.ome,
        overwrite: args.run.overwrite,
        ..args.engine.config(held_bytes)
    };
    let mut notes = place_unscaled(recording, &mut config.dims, args.recording.turn().transpose);
    move_to(args, &mut config)?;
    notes.extend(config.place_volume());
    Ok((config, notes.iter().map(|note| with_options(note)).collect()))
}

/// The array's dimensions.
fn dims(args: &ReplayArgs, recording: &Recording, total: u64, rate: Rate) -> Result<Vec<Dim>, Failure> {
    let mut dims = recording.dims.clone();
    let (slowest, outer) = (recording.slowest(), dims.len() - 2);
    let inner: u64 = (0..outer).filter(|&dim| dim != slowest).map(|dim| dims[dim].size.unwrap_or(1)).product();
    check_repeat(args, &dims[slowest])?;
    dims[slowest].size = Some(total.div_ceil(inner));
    if args.run.unbounded {
        dims[0].size = None;
    }
    if args.recording.turn().transpose {
        // Names stay: rows become columns.
        let [.., rows, columns] = &mut dims[..] else { unreachable!("a recording has rows and columns") };
        std::mem::swap(&mut rows.size, &mut columns.size);
        std::mem::swap(&mut rows.scale, &mut columns.scale);
        std::mem::swap(&mut rows.unit, &mut columns.unit);
        std::mem::swap(&mut rows.translation, &mut columns.translation);
    }
    for (dim, &size) in last("--chunk", &mut dims, &args.layout.chunk)? {
        dim.chunk = size;
    }
    for (dim, &size) in last("--shard", &mut dims, &args.layout.shard)? {
        dim.shard = size;
    }
    set_sizes(args, &mut dims)?;
    if let (Rate::Fps(fps), Some(time)) = (rate, dims.iter_mut().find(|dim| dim.kind == DimKind::Time))
        && time.unit.is_none()
        && inner == 1
    {
        (time.scale, time.unit) = (1.0 / fps, Some("second".to_owned()));
    }
    Ok(dims)
}

/// Sets how large a pixel is.
fn set_sizes(args: &ReplayArgs, dims: &mut [Dim]) -> Result<(), Failure> {
    refuse_twice("--pixel-size", args.run.pixel_size.iter().map(|size| size.name.as_deref().unwrap_or("y and x")))?;
    for size in &args.run.pixel_size {
        let set = |dim: &mut Dim| {
            dim.translation = units::convert(dim.translation, dim.unit.as_deref(), size.unit);
            (dim.scale, dim.unit) = (size.value, Some(size.unit.to_owned()));
        };
        let Some(name) = &size.name else {
            dims.iter_mut().rev().take(2).for_each(set);
            continue;
        };
        let dim = named("--pixel-size", name, dims)?;
        if dim.kind == DimKind::Channel {
            return Err(Failure::Usage(format!("--pixel-size {name}: channels have no distance from each other")));
        }
        let is_time = units::time_symbol(size.unit).is_some();
        if is_time != (dim.kind == DimKind::Time) {
            let (unit, kind) = (size.unit, dim.kind.name());
            return Err(Failure::Usage(format!("--pixel-size {name}: {unit} is no unit of a dimension of {kind}")));
        }
        set(dim);
    }
    Ok(())
}

/// Sets where the first pixel is along dimensions of which only an option has said how far apart pixels are. What to
/// say of others.
fn place_unscaled(recording: &Recording, dims: &mut [Dim], is_transposed: bool) -> Vec<String> {
    let mut left = Vec::new();
    for (name, place, unit) in &recording.unscaled_places {
        // Rows became columns, and the names stayed.
        let name = match (is_transposed, name.as_str()) {
            (true, "y") => "x",
            (true, "x") => "y",
            (_, name) => name,
        };
        let dim = dims.iter_mut().find(|dim| dim.name == name);
        match dim.filter(|dim| dim.unit.as_deref().is_some_and(|unit| units::length_symbol(unit).is_some())) {
            Some(dim) => dim.translation = units::convert(*place, Some(unit), dim.unit.as_deref().unwrap_or(unit)),
            None => left.push(format!("{name} ({place} {unit})")),
        }
    }
    let note = || {
        format!(
            "the place of the first pixel along {} is not taken along: the recording does not say how far apart pixels \
             are there; --pixel-size gives it",
            left.join(", ")
        )
    };
    (!left.is_empty()).then(note).into_iter().collect()
}

/// Sets where the first pixel is.
fn move_to(args: &ReplayArgs, config: &mut Config) -> Result<(), Failure> {
    if args.run.translation.is_empty() {
        return Ok(());
    }
    if config.dialect == Dialect::Precomputed && config.volume.voxel_offset != [0; 3] {
        let why = "--translation and --voxel-offset both say where a volume is; give one of them";
        return Err(Failure::Usage(why.to_owned()));
    }
    refuse_twice("--translation", args.run.translation.iter().map(|place| &place.name[..]))?;
    let mut asked = config.clone();
    asked.dims.iter_mut().for_each(|dim| dim.translation = 0.0);
    for place in &args.run.translation {
        named("--translation", &place.name, &mut asked.dims)?.translation = place.translation;
        named("--translation", &place.name, &mut config.dims)?.translation = place.translation;
    }
    // What was asked for is not left out with a note.
    match asked.place_volume().first() {
        Some(note) => Err(Failure::Usage(format!("--translation: {}", with_options(note)))),
        None => Ok(()),
    }
}

/// Refuses an option that names a dimension twice.
fn refuse_twice<'a>(option: &str, mut names: impl Iterator<Item = &'a str>) -> Result<(), Failure> {
    let mut seen = HashSet::new();
    match names.find(|name| !seen.insert(*name)) {
        Some(name) => Err(Failure::Usage(format!("{option} gives {name} twice; give each dimension once"))),
        None => Ok(()),
    }
}

/// The dimension that an option names.
fn named<'a>(option: &str, name: &str, dims: &'a mut [Dim]) -> Result<&'a mut Dim, Failure> {
    let names = dims.iter().map(|dim| dim.name.as_str()).collect::<Vec<_>>().join(", ");
    let found = dims.iter_mut().find(|dim| dim.name == name);
    found.ok_or_else(|| Failure::Usage(format!("{option} names {name}, but the array's dimensions are {names}")))
}

fn check_repeat(args: &ReplayArgs, slowest: &Dim) -> Result<(), Failure> {
    if args.recording.repeat > 1 && slowest.kind == DimKind::Channel {
        return Err(Failure::Usage("--loop repeats the slowest dimension, but here that is the channel".into()));
    }
    Ok(())
}

/// How many channels have names: of fewer than the recording has, no others.
fn named_channels(dims: &[Dim], recording: &Recording) -> usize {
    let channel = dims.iter().find(|dim| dim.kind == DimKind::Channel).and_then(|dim| dim.size);
    channel.map_or(recording.channels.len(), |size| recording.channels.len().min(size as usize))
}

/// The last dimensions, with the sizes that an option gives for them.
fn last<'a>(
    option: &str,
    dims: &'a mut [Dim],
    sizes: &'a [u64],
) -> Result<impl Iterator<Item = (&'a mut Dim, &'a u64)>, Failure> {
    let Some(skipped) = dims.len().checked_sub(sizes.len()) else {
        let (numbers, dimensions) = (count(sizes.len(), "number"), count(dims.len(), "dimension"));
        return Err(Failure::Usage(format!("{option} has {numbers}, but the array has {dimensions}")));
    };
    Ok(dims[skipped..].iter_mut().zip(sizes))
}

/// With colours, also where the recording says none.
fn channels(said: &[Channel]) -> Vec<Channel> {
    let color = |number| Channel::shown_color(said, number).to_owned();
    said.iter().enumerate().map(|(number, channel)| Channel { color: color(number), ..channel.clone() }).collect()
}

/// What to say of colours that the recording does not have.
pub(crate) fn note_of_colors(recording: &Recording, config: &Config) -> Option<String> {
    if config.dialect != Dialect::Zarr3 {
        // No viewer reads them there.
        return None;
    }
    let channels = recording.channels.iter().zip(&config.channels);
    let chosen: Vec<_> = channels
        .filter(|(said, _)| said.color.is_empty())
        .map(|(_, channel)| match &channel.label[..] {
            "" => channel.color.clone(),
            label => format!("{label} {}", channel.color),
        })
        .collect();
    (!chosen.is_empty()).then(|| {
        let chosen = chosen.join(", ");
        format!("the recording does not say which colours its channels have; viewers will show: {chosen}")
    })
}
