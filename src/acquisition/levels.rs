//! The levels of a pyramid beside level 0, while frames come.

use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;

use crate::config::{Config, Downsampling};
use crate::dataset::documents::Documents;
use crate::dataset::image::ImageWriter;
use crate::downsample::halver::Halver;
use crate::engine::pool::{Begun, Pool};
use crate::engine::rings::RingSource;
use crate::engine::{Engine, losses};
use crate::error::{Error, Result, caught};
use crate::format::level_frames::LevelFrames;
use crate::format::provenance::Ending;
use crate::plan::{LevelPlan, Plan};
use crate::stats::LevelSummary;

/// All levels beside level 0, the finest first.
#[derive(Default)]
pub(crate) struct Levels(Vec<Level>);

struct Level {
    path: String,
    /// Which frames of level 0 are which of it.
    frames: LevelFrames,
    engine: Arc<Engine>,
    image: Arc<ImageWriter>,
    /// Until it has ended.
    running: Option<(Arc<Pool>, Begun)>,
}

impl Levels {
    /// Starts the levels of an image, each fed by the one before; `base` is level 0, which has no frames yet. If
    /// anything fails, none is left.
    pub(super) fn start(
        image: &ImageWriter,
        plan: &Plan,
        config: &Config,
        pool: &Arc<Pool>,
        base: &Begun,
        (is_shared, late): (bool, bool),
    ) -> Result<Self> {
        let mut levels = Self::default();
        let Some(downsampling) = &config.pyramid else { return Ok(levels) };
        for planned in &plan.levels {
            let below = levels.0.last().and_then(|level| level.running.as_ref()).map(|(_, begun)| begun);
            match Level::start(image, planned, downsampling, pool, (below.unwrap_or(base), base), (is_shared, late)) {
                Ok(level) => levels.0.push(level),
                Err(error) => {
                    levels.undo();
                    return Err(error);
                }
            }
        }
        Ok(levels)
    }

    pub(super) fn engines(&self) -> impl Iterator<Item = &Arc<Engine>> {
        self.0.iter().map(|level| &level.engine)
    }

    /// Waits until everything of several images is in its shards, after their levels 0 have ended. With each, one past
    /// the newest frame that came there.
    pub(super) fn end(mut all: Vec<(u64, &mut Self)>) {
        let count = all.iter().map(|(_, levels)| levels.0.len()).max().unwrap_or(0);
        for number in 0..count {
            let mut levels: Vec<&mut Level> = Vec::new();
            for (frames, of) in &mut all {
                if let Some(level) = of.0.get_mut(number).filter(|level| level.running.is_some()) {
                    level.engine.gate.close();
                    level.engine.reach(level.frames.end(*frames));
                    levels.push(level);
                }
            }
            Engine::drain(levels.iter().map(|level| &level.engine));
            Pool::end_all(levels.iter_mut().filter_map(|level| level.running.take()).collect());
        }
    }

    /// What was begun is taken back, because the acquisition can't start.
    fn undo(mut self) {
        // That of level 0, too, which can't start either.
        self.engines().for_each(|engine| engine.aborting.store(true, Relaxed));
        Self::end(vec![(0, &mut self)]);
        self.0.iter().for_each(|level| level.image.undo(&level.engine.plan));
    }

    /// What the arrays are by now.
    pub(super) fn write_shape(&self, frames: u64, documents: &mut Documents) -> Result<()> {
        self.write_each(frames, |Level { engine, image, .. }, frames| {
            image.write_shape(&engine.plan, frames, documents)
        })
    }

    /// Has `write` called with each level and its number of frames, where level 0 has `frames`. What can be written is.
    fn write_each(&self, frames: u64, mut write: impl FnMut(&Level, u64) -> Result<()>) -> Result<()> {
        let write = |level: &Level| caught(|| write(level, level.frames.end(frames)));
        self.0.iter().map(write).fold(Ok(()), Result::and)
    }

    /// What is to be said of each level, behind its last shape. `error`: of the run.
    pub(super) fn write_ending(&self, frames: u64, error: Option<&Error>, documents: &mut Documents) -> Result<()> {
        self.write_each(frames, |Level { engine, image, .. }, frames| {
            let (missing, lost) = engine.missing_and_lost(frames);
            let ending = Ending {
                chunks: engine.counters.chunks_written.load(Relaxed),
                frames_missing: engine.counters.frames_missing.load(Relaxed) + lost.len() as u64,
                missing: &losses::merge(&missing, &lost),
                error,
            };
            image.write_ending(&engine.plan, frames, &ending, documents)
        })
    }

    pub(super) fn tell_end(&self) {
        self.engines().for_each(|engine| engine.tell_end());
    }

    pub(super) fn summary(&self) -> Vec<LevelSummary> {
        let of = |level: &Level| LevelSummary {
            path: level.path.clone(),
            shape: level.image.shape(),
            bytes_out: level.engine.counters.bytes_out.load(Relaxed),
            chunks_written: level.engine.counters.chunks_written.load(Relaxed),
            shards: level.engine.counters.shards_closed.load(Relaxed),
        };
        self.0.iter().map(of).collect()
    }
}

impl Level {
    fn start(
        image: &ImageWriter,
        planned: &LevelPlan,
        downsampling: &Downsampling,
        pool: &Arc<Pool>,
        (below, finest): (&Begun, &Begun),
        (is_shared, late): (bool, bool),
    ) -> Result<Self> {
        let LevelPlan { path, config, plan, level, frames, of_finest, .. } = planned;
        let image = Arc::new(image.level(planned));
        // Levels of one size share their memory where images do.
        let ring = if is_shared { RingSource::Shared(plan.ring.buffers) } else { RingSource::Own(None) };
        let begun = caught(|| pool.begin(&image, plan, config, ring, late, Some(finest)));
        let (engine, begun) = begun.inspect_err(|_| image.undo(plan))?;
        let halved = [2, 1].map(|back| level.steps[level.steps.len() - back] == 2);
        let led = pool.lead(below, &begun, Halver::new(downsampling.method, config.dtype, halved), *frames);
        let level =
            Self { path: path.clone(), frames: *of_finest, engine, image, running: Some((pool.clone(), begun)) };
        match led {
            Ok(()) => Ok(level),
            Err(error) => {
                Levels(vec![level]).undo();
                Err(error)
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::storage::Memory;
    use crate::{Acquisition, Dim};

    #[test]
    #[cfg_attr(miri, ignore = "miri can't run threads that wait for a device")]
    fn an_abort_reaches_all_levels_at_any_time() {
        let pyramid = Some(Downsampling { levels: Some(2), ..Downsampling::default() });
        let dims = vec![Dim::time(None), Dim::y(64), Dim::x(64)];
        let config =
            || Config { dims: dims.clone(), ring_bytes: 1 << 20, pyramid: pyramid.clone(), ..Config::default() };
        let [one, other] = [(); 2].map(|()| Acquisition::create_in(Arc::new(Memory::default()), config()).unwrap());
        // As by another thread, while one waits for the end.
        one.engine.aborting.store(true, Relaxed);
        let heard = |of: &Acquisition| of.levels.engines().filter(|engine| engine.aborting.load(Relaxed)).count();
        assert_eq!((heard(&one), heard(&other)), (2, 0));
    }
}
