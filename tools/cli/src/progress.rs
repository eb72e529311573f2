//! What a running replay shows on stderr: a live line on a terminal, a line a second in a pipe.

use std::collections::VecDeque;
use std::env;
use std::io::{self, IsTerminal};
use std::sync::mpsc::{self, RecvTimeoutError};
use std::thread;
use std::time::{Duration, Instant};

use indicatif::{ProgressBar, ProgressStyle};
use shardwright::Stats;

use crate::console::tell;
use crate::report::bytes_text;

const LIVE_EVERY: Duration = Duration::from_millis(100);
const LINE_EVERY: Duration = Duration::from_secs(1);
// Rates are means over so long: shorter ones flicker, longer ones lag.
const RATE_WINDOW: Duration = Duration::from_millis(1500);

/// Where progress goes.
pub(crate) enum ProgressOutput {
    Hidden,
    Lines,
    Live(ProgressBar),
}

impl ProgressOutput {
    /// Looks at stderr; `total` frames make the bar's length.
    pub(crate) fn new(quiet: bool, total: u64) -> Self {
        if quiet {
            return Self::Hidden;
        }
        if !io::stderr().is_terminal() {
            return Self::Lines;
        }
        Self::Live(live_bar(total))
    }

    /// Runs `work` and shows what `stats` says in the meantime.
    pub(crate) fn during<T>(&self, total: u64, stats: impl Fn() -> Stats + Sync, work: impl FnOnce() -> T) -> T {
        let every = match self {
            Self::Hidden => return work(),
            Self::Lines => LINE_EVERY,
            Self::Live(_) => LIVE_EVERY,
        };
        let mut meter = FrameMeter::default();
        meter.rates(Instant::now(), &stats());
        ticking(every, || self.show(&mut meter, &stats(), total), work)
    }

    fn show(&self, meter: &mut FrameMeter, stats: &Stats, total: u64) {
        let line = meter.line(Instant::now(), stats, total);
        match self {
            Self::Hidden => {}
            Self::Lines => tell(line),
            Self::Live(bar) => {
                bar.set_position(stats.frames_written);
                bar.set_message(line);
            }
        }
    }

    /// Says that no more frames are taken. What is left to do has no numbers.
    pub(crate) fn finishing(&self) {
        if let Self::Live(bar) = self {
            bar.set_message("finishing: waiting for the last frames and closing shards");
            bar.tick();
        }
    }

    /// Takes the live line away.
    pub(crate) fn clear(&self) {
        if let Self::Live(bar) = self {
            bar.finish_and_clear();
        }
    }
}

pub(crate) fn live_bar(total: u64) -> ProgressBar {
    let plain = env::var_os("NO_COLOR").is_some_and(|value| !value.is_empty());
    let bar = if plain { "{bar:24}" } else { "{bar:24.green}" };
    let style = ProgressStyle::with_template(&format!("{bar} {{msg}}")).expect("the template is a constant");
    ProgressBar::new(total).with_style(style.progress_chars("━╸ "))
}

/// Runs `work`, and `tick` again and again in the meantime.
pub(crate) fn ticking<T>(every: Duration, mut tick: impl FnMut() + Send, work: impl FnOnce() -> T) -> T {
    thread::scope(|scope| {
        // The channel closes when the work ends, be it by a panic: the ticker never outlives it.
        let (working, ended) = mpsc::channel::<()>();
        scope.spawn(move || {
            while let Err(RecvTimeoutError::Timeout) = ended.recv_timeout(every) {
                tick();
            }
        });
        let result = work();
        drop(working);
        result
    })
}

/// Turns counters into rates.
#[derive(Default)]
struct FrameMeter {
    samples: VecDeque<(Instant, u64, u64)>,
}

impl FrameMeter {
    fn line(&mut self, now: Instant, stats: &Stats, total: u64) -> String {
        let (rate_in, rate_out) = self.rates(now, stats);
        let taken = stats.ring_frames.saturating_sub(stats.ring_free);
        let fill = (100 * taken).checked_div(stats.ring_frames).unwrap_or(0);
        format!(
            "{}/{total} frames, {}/s in, {}/s out, ring {fill} %, {} missing",
            stats.frames_written,
            bytes_text(rate_in),
            bytes_text(rate_out),
            stats.frames_missing.max(stats.frames_dropped),
        )
    }

    fn rates(&mut self, now: Instant, stats: &Stats) -> (f64, f64) {
        while self.samples.len() > 1 && now.duration_since(self.samples[0].0) > RATE_WINDOW {
            self.samples.pop_front();
        }
        self.samples.push_back((now, stats.bytes_in, stats.bytes_out));
        let (then, bytes_in, bytes_out) = self.samples[0];
        let seconds = now.duration_since(then).as_secs_f64();
        if seconds == 0.0 {
            return (0.0, 0.0);
        }
        ((stats.bytes_in - bytes_in) as f64 / seconds, (stats.bytes_out - bytes_out) as f64 / seconds)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn stats(bytes_in: u64, bytes_out: u64) -> Stats {
        let mut stats = Stats::default();
        (stats.bytes_in, stats.bytes_out) = (bytes_in, bytes_out);
        (stats.ring_frames, stats.ring_free, stats.frames_written) = (8, 6, 40);
        stats
    }

    #[test]
    fn a_line_has_rates_of_the_last_moments() {
        let mut meter = FrameMeter::default();
        let start = Instant::now();
        let at = |millis| start + Duration::from_millis(millis);
        meter.line(at(0), &stats(0, 0), 50);
        let line = meter.line(at(500), &stats(400_000_000, 100_000_000), 50);
        assert_eq!(line, "40/50 frames, 800 MB/s in, 200 MB/s out, ring 25 %, 0 missing");
        // What happened long ago doesn't count.
        meter.line(at(10_000), &stats(400_000_000, 100_000_000), 50);
        assert!(meter.line(at(11_000), &stats(400_000_000, 100_000_000), 50).contains("0 B/s in"));
    }

    #[test]
    fn the_work_s_result_comes_back() {
        for progress in [ProgressOutput::Hidden, ProgressOutput::Lines, ProgressOutput::Live(ProgressBar::hidden())] {
            assert_eq!(progress.during(1, Stats::default, || 7), 7);
        }
    }
}
