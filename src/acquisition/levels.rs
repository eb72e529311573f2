//! The levels of a pyramid beside level 0, while frames come.

use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;

use crate::config::{Config, Downsampling};
use crate::dataset::image::ImageWriter;
use crate::downsample::halver::Halver;
use crate::engine::feed::Feeder;
use crate::engine::pool::{Begun, Pool};
use crate::engine::{Engine, losses};
use crate::error::{Result, caught};
use crate::format::provenance::Ending;
use crate::plan::{LevelPlan, Plan};
use crate::stats::LevelSummary;

/// All levels beside level 0, the finest first.
#[derive(Default)]
pub(crate) struct Levels(Vec<Level>);

struct Level {
    path: String,
    engine: Arc<Engine>,
    image: Arc<ImageWriter>,
    feeder: Option<Feeder>,
    begun: Begun,
}

impl Levels {
    /// Starts the levels of an image, each fed by the one before; `base` is level 0, which has no frames yet. If
    /// anything fails, none is left.
    pub(super) fn start(
        image: &ImageWriter,
        plan: &Plan,
        config: &Config,
        pool: &Pool,
        base: (&Arc<Engine>, &Begun),
    ) -> Result<Self> {
        let mut levels = Self::default();
        let Some(wish) = &config.pyramid else { return Ok(levels) };
        for planned in &plan.levels {
            let below = levels.0.last().map_or(base.0, |level| &level.engine).clone();
            match Level::start(image, planned, wish, pool, (&below, base.1)) {
                Ok(level) => levels.0.push(level),
                Err(error) => {
                    levels.undo(pool);
                    return Err(error);
                }
            }
        }
        Ok(levels)
    }

    pub(super) fn engines(&self) -> impl Iterator<Item = &Arc<Engine>> {
        self.0.iter().map(|level| &level.engine)
    }

    /// Whether the calling thread is one of theirs.
    pub(super) fn is_one_of_them(&self) -> bool {
        self.0.iter().any(|level| level.feeder.as_ref().is_some_and(Feeder::is_this_thread))
    }

    /// Waits until everything is in its shards, after level 0 has ended. `frames`: one past the newest that came there.
    pub(super) fn end(&mut self, pool: &Pool, frames: u64) {
        self.0.iter_mut().for_each(|level| level.end(pool, frames));
    }

    /// What was begun is taken back, because the acquisition can't start.
    fn undo(mut self, pool: &Pool) {
        self.abort();
        self.end(pool, 0);
        self.0.iter().for_each(|level| level.image.undo(&level.engine.plan));
    }

    /// Frames that wait in the rings shall not be encoded any more.
    pub(super) fn abort(&self) {
        self.engines().for_each(|engine| engine.aborting.store(true, Relaxed));
    }

    /// Writes their documents for the last time. `ending`: of level 0, whose missing frames are missing in all. Returns
    /// the first error.
    pub(super) fn finish(&self, frames: u64, ending: &Ending) -> Result<()> {
        let finish = |level: &Level| {
            let Level { engine, image, .. } = level;
            let lost = engine.losses.numbers(&engine.plan, ending.missing, frames);
            let missing = losses::merge(ending.missing, &lost);
            let ending = Ending {
                chunks: engine.counters.chunks_written.load(Relaxed),
                frames_missing: ending.frames_missing + lost.len() as u64,
                missing: &missing,
                error: ending.error.or(engine.first_error.get()),
            };
            caught(|| image.finish(&engine.plan, frames, &ending))
        };
        let outcomes: Vec<Result<()>> = self.0.iter().map(finish).collect();
        outcomes.into_iter().collect()
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
        wish: &Downsampling,
        pool: &Pool,
        (below, finest): (&Arc<Engine>, &Begun),
    ) -> Result<Self> {
        let LevelPlan { path, config, plan, level } = planned;
        let image = Arc::new(image.level(planned));
        let begun = caught(|| pool.begin(&image, plan, config, None, Some(finest)));
        let (engine, begun) = begun.inspect_err(|_| image.undo(plan))?;
        let halved = [2, 1].map(|back| level.steps[level.steps.len() - back] == 2);
        let halver = Halver::new(wish.method, config.dtype, halved);
        let mut level = Self { path: path.clone(), engine, image, feeder: None, begun };
        match Feeder::start(pool, below, &level.engine, halver) {
            Ok(feeder) => {
                level.feeder = Some(feeder);
                Ok(level)
            }
            Err(error) => {
                Levels(vec![level]).undo(pool);
                Err(error)
            }
        }
    }

    fn end(&mut self, pool: &Pool, frames: u64) {
        if let Some(feeder) = self.feeder.take() {
            feeder.join();
        }
        self.engine.gate.close();
        self.engine.reach(frames);
        self.engine.drain();
        pool.end(&self.begun);
    }
}
