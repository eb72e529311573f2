//! The levels of a pyramid that is written while frames come: each is an array whose frames are made of those of the
//! one before.

use crate::aligned_memory::PAGE;
use crate::config::{Config, Depth, Dim, DimKind, Downsampling, PixelFormat, RingFull};
use crate::error::{Error, Result};
use crate::format::layout::Layout;
use crate::format::level_frames::LevelFrames;
use crate::format::rules;
use crate::geometry::Order;
use crate::ome;
use crate::ome::grid::PixelGrid;
use crate::ome::levels::Level;
use crate::ome::units::Length;
use crate::pixels::Orientation;

/// Beyond the window, this many buffers are free.
const SPARE_FRAMES: u64 = 66;

/// More levels no image has.
const LEVELS_MAX: usize = 32;

/// The levels of an image of this layout, with the configuration of each, the finest first. `span`: frames that the
/// ring of level 0 must hold at once.
pub(super) fn levels(config: &Config, layout: &Layout, span: u64) -> Result<Vec<(Level, Config)>> {
    let Some(downsampling) = &config.pyramid else { return Ok(Vec::new()) };
    check(config, downsampling)?;
    let shape: Vec<u64> = config.dims.iter().map(|dim| dim.size.unwrap_or(u64::MAX)).collect();
    let length = |dim: &Dim| Length { number: dim.scale, unit: dim.unit.clone().filter(|unit| !unit.is_empty()) };
    let depth = match config.dims.last_chunk::<3>() {
        Some(dims) if dims[0].kind == DimKind::Space => {
            let lengths = dims.each_ref().map(length);
            let refuse = |reason: String| {
                let is_given = lengths[0].unit.is_some() && lengths[1..].iter().all(|length| length.unit.is_none());
                let help = if is_given { "; the option `dims.scale` gives y and x a unit" } else { "" };
                Error::config("pyramid.depth", downsampling.depth, reason + help)
            };
            Some(ome::levels::distances(&lengths, downsampling).map_err(refuse)?)
        }
        _ => None,
    };
    let levels = ome::levels::levels(&shape, &PixelGrid::of_dims(&config.dims), depth, downsampling);
    if let Some((number, at)) = ome::levels::overflow(&levels) {
        let dim = &config.dims[at];
        let reason = ome::levels::too_far(&dim.name, number);
        return Err(Error::config("dims.scale", format_args!("{:e}", dim.scale), reason));
    }
    Ok(levels.into_iter().map(|level| (level.clone(), of_level(config, layout, span, &level))).collect())
}

fn check(config: &Config, downsampling: &Downsampling) -> Result<()> {
    let refuse = |value: String, reason: String| Err(Error::config("pyramid", value, reason));
    if !rules(config.dialect).is_tree {
        let reason = "only zarr3 has levels; leave them out, or choose that dialect";
        return refuse(config.dialect.to_string(), reason.to_owned());
    }
    if let Some(why) = ome::incompatibility(&config.dims) {
        return refuse(
            downsampling.method.to_string(),
            format!("levels are OME-Zarr's, which can't describe this: {why}"),
        );
    }
    if let Some(why) = ome::levels::misplaced(config.dims.iter().map(|dim| dim.name.as_str()), downsampling.depth) {
        return refuse(downsampling.method.to_string(), why);
    }
    match downsampling.levels {
        Some(0) => return Err(Error::config("pyramid.levels", 0, "at least one is made; leave the pyramid out")),
        Some(count) if count > LEVELS_MAX => {
            return Err(Error::config("pyramid.levels", count, format!("at most {LEVELS_MAX} are possible")));
        }
        _ => {}
    }
    let has_depth = config.dims.len() > 2 && config.dims[config.dims.len() - 3].kind == DimKind::Space;
    if !downsampling.y && !downsampling.x && (downsampling.depth == Depth::Never || !has_depth) {
        let reason = "neither y nor x is halved, nor is z; leave the pyramid out";
        return Err(Error::config("pyramid.y", false, reason));
    }
    let is_endless = config.dims.len() == 3 && config.dims[0].size.is_none();
    let is_z_alone = !downsampling.y && !downsampling.x && downsampling.depth == Depth::Always;
    if is_z_alone && downsampling.levels.is_none() && is_endless {
        let reason = "z alone is halved, and has no end; say how many levels there are to be";
        return Err(Error::config("pyramid.levels", "not given", reason));
    }
    Ok(())
}

/// Which frames become which where this many planes become one.
pub(super) fn frames_of(order: &Order, factor: u64) -> LevelFrames {
    match order.outer_dims().checked_sub(1).filter(|_| factor > 1) {
        Some(z) => LevelFrames::new(order, z, factor),
        None => LevelFrames::same(),
    }
}

/// How many frames of the level `below` wait for the next plane, if all come in their order: those of planes whose
/// neighbours are in other layers.
pub(super) fn frames_kept(ring_frames: usize, below: &Layout, frames: &LevelFrames) -> Result<u64> {
    let z = below.chunk_shape.len().saturating_sub(3);
    if frames.is_same() || below.chunk_shape[z].is_multiple_of(2) {
        return Ok(0);
    }
    let kept = frames.apart();
    if kept <= ring_frames as u64 {
        return Ok(kept);
    }
    let reason = format!(
        "{kept} frames lie between a plane and the next, and would wait for it, more than the ring's {ring_frames}; \
         acquire z faster, raise ring_bytes, or do not halve z"
    );
    Err(Error::config("pyramid.depth", format_args!("{kept} frames"), reason))
}

/// What the ring of a level whose planes are halved must have at least: a layer that gathers frames holds them until
/// the window has gone by. `window`, `block`: of the level below.
pub(super) fn ring_bytes(window: u64, block: u64, frames: &LevelFrames, config: &Config) -> usize {
    let (inner, outer) = config.dims.split_at(config.dims.len() - 2);
    let gathers = inner.iter().any(|dim| dim.chunk > 1);
    if frames.is_same() || !gathers {
        return 0;
    }
    let frame_bytes = outer.iter().map(|dim| dim.size.unwrap_or(0) as usize).product::<usize>() * config.dtype.size();
    let count = window.saturating_add(4 * block).saturating_add(SPARE_FRAMES);
    (count as usize).saturating_mul(frame_bytes.next_multiple_of(PAGE))
}

/// The configuration of a level: as that of level 0, with chunks and shards that are no larger than it.
fn of_level(config: &Config, layout: &Layout, span: u64, level: &Level) -> Config {
    let outer = config.dims.len() - 2;
    let dim = |(at, dim): (usize, &Dim)| {
        let (mut chunk, mut shard) = (layout.chunk_shape[at], layout.file_shape[at]);
        // A dimension of which there is less than before.
        if at >= outer || level.steps[at] > 1 || level.shape[at] < dim.size.unwrap_or(0) {
            chunk = chunk.min(level.shape[at]);
            shard = shard.min(level.shape[at].next_multiple_of(chunk)).next_multiple_of(chunk);
        }
        let (scale, size) = (level.grid.scale[at], dim.size.map(|_| level.shape[at]));
        let translation = level.grid.translation.as_ref().map_or(0.0, |translation| translation[at]);
        Dim { size, chunk, shard, scale, translation, ..dim.clone() }
    };
    let dims: Vec<Dim> = config.dims.iter().enumerate().map(dim).collect();
    let pixels = |shape: &[u64]| shape.iter().map(|&length| length as f64).product::<f64>();
    let share = pixels(&level.shape[outer..]) / pixels(&layout.shape[outer..]);
    let frame_bytes = level.shape[outer..].iter().product::<u64>() as usize * config.dtype.size();
    let needed = (span as usize + 2).saturating_mul(frame_bytes.next_multiple_of(PAGE));
    Config {
        dims,
        pyramid: None,
        ring_bytes: ((config.ring_bytes as f64 * share) as usize).max(needed),
        ring_full: RingFull::Block { timeout: None },
        frame_layout: None,
        pixel_format: PixelFormat::default(),
        unused_low_bits: 0,
        orientation: Orientation::default(),
        affinity: Vec::new(),
        record_fields: Vec::new(),
        record_roi: false,
        channels: Vec::new(),
        manifest: Vec::new(),
        leap_max: 0,
        ..config.clone()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::Dialect;
    use crate::downsample::Method;
    use crate::plan::{LevelPlan, Plan};

    fn config() -> Config {
        Config {
            dims: vec![Dim::time(None).chunk(2).shard(8), Dim::y(1000).chunk(128).shard(1024), Dim::x(300).chunk(128)],
            pyramid: Some(Downsampling::default()),
            ring_bytes: 64 << 20,
            ..Config::default()
        }
    }

    #[test]
    fn a_level_is_planned_as_level_0_is_and_no_larger_than_itself() {
        let plan = Plan::new(&config()).unwrap();
        let [first, second] = &plan.levels[..] else { panic!("{:?}", plan.levels) };
        let shapes = |level: &LevelPlan| {
            let layout = &level.plan.array.layout;
            (layout.shape.clone(), layout.chunk_shape.clone(), layout.file_shape.clone())
        };
        assert_eq!(shapes(first), (vec![0, 500, 150], vec![2, 128, 128], vec![8, 512, 256]));
        assert_eq!(shapes(second), (vec![0, 250, 75], vec![2, 128, 75], vec![8, 256, 75]));
        assert_eq!((first.path.as_str(), second.path.as_str()), ("1", "2"));
        // The same frames are in the same layers, and none is given up before it can come.
        assert_eq!(first.plan.layers.frames_a_cell(), plan.layers.frames_a_cell());
        assert!(first.plan.ring.window > plan.ring.window && second.plan.ring.window > first.plan.ring.window);
        let bytes = |plan: &Plan| plan.ring.frames * plan.frame.bytes.next_multiple_of(PAGE);
        assert!(bytes(&first.plan) + bytes(&second.plan) <= config().ring_bytes / 3);
    }

    fn of_z_alone(levels: Option<usize>) -> Downsampling {
        Downsampling { levels, y: false, x: false, depth: Depth::Always, ..Downsampling::default() }
    }

    #[test]
    fn what_can_not_be_halved_is_refused() {
        let refused = |change: fn(&mut Config)| {
            let mut config = config();
            change(&mut config);
            let error = Plan::new(&config).unwrap_err();
            assert!(matches!(error, Error::Config { field: "pyramid", .. }), "{error}");
            error.to_string()
        };
        let message = refused(|config| {
            (config.dialect, config.codec.checksum) = (Dialect::Zarr3Transformer, false);
        });
        assert!(message.contains("only zarr3"), "{message}");
        let message = refused(|config| config.dims[1].kind = DimKind::Other);
        assert!(message.contains("1 of the dimensions"), "{message}");
        let message = refused(|config| config.dims.swap(1, 2));
        assert!(message.contains("in the order t, x, y; expected one that ends with y, x"), "{message}");
        for (downsampling, blamed) in [
            (Downsampling { levels: Some(0), ..Downsampling::default() }, "pyramid.levels = 0: "),
            (Downsampling { levels: Some(33), ..Downsampling::default() }, "pyramid.levels = 33: "),
            (Downsampling { y: false, x: false, method: Method::Max, ..Downsampling::default() }, "pyramid.y = "),
            (of_z_alone(None), "pyramid.y = "),
        ] {
            let error = Plan::new(&Config { pyramid: Some(downsampling), ..config() }).unwrap_err().to_string();
            assert!(error.starts_with(blamed), "{error}");
        }
        for (number, scale) in [(1, 1e308), (2, 8e307)] {
            let mut far = config();
            far.dims[1].scale = scale;
            let error = Plan::new(&far).unwrap_err().to_string();
            let said = format!("dims.scale = {scale:e}: pixels of y would be too far apart in level {number} ");
            assert!(error.starts_with(&said), "{error}");
        }
        let mut endless = Config { pyramid: Some(of_z_alone(None)), ..config() };
        endless.dims[0] = Dim::z(None);
        let error = Plan::new(&endless).unwrap_err().to_string();
        assert!(error.starts_with("pyramid.levels = not given: z alone"), "{error}");
        endless.pyramid = Some(of_z_alone(Some(3)));
        assert_eq!(Plan::new(&endless).unwrap().levels.len(), 3);
    }
}
