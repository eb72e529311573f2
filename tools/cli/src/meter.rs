//! How far work over bytes has come: a bar on a terminal, a line every two seconds in a pipe.

use std::collections::VecDeque;
use std::io::{self, IsTerminal};
use std::time::{Duration, Instant};

use indicatif::ProgressBar;
use shardwright::offline::Progress;

use crate::console::tell;
use crate::progress::{live_bar, ticking};
use crate::report::bytes_text;

const LIVE_EVERY: Duration = Duration::from_millis(100);
const LINE_EVERY: Duration = Duration::from_secs(2);
/// Rates are means over so long: shards end in bursts.
const RATE_WINDOW: Duration = Duration::from_secs(10);

/// Bytes of some work.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Work {
    pub(crate) done: u64,
    /// Of these, the ones that an earlier call had done.
    pub(crate) found: u64,
    pub(crate) total: u64,
}

impl From<Progress> for Work {
    fn from(Progress { done, found, total, .. }: Progress) -> Self {
        Self { done, found, total }
    }
}

/// Runs `work` and shows on stderr, unless `quiet`, what `progress` says of it.
pub(crate) fn during<T>(quiet: bool, progress: impl Fn() -> Work + Sync, work: impl FnOnce() -> T) -> T {
    if quiet {
        return work();
    }
    let bar = io::stderr().is_terminal().then(|| live_bar(0));
    let every = if bar.is_some() { LIVE_EVERY } else { LINE_EVERY };
    let mut meter = WorkMeter::default();
    let mut line = || {
        let work = progress();
        (meter.line(Instant::now(), work), work)
    };
    line();
    let show = || {
        let (line, work) = line();
        match &bar {
            Some(bar) => {
                bar.set_length(work.total);
                bar.set_position(work.done);
                bar.set_message(line);
            }
            None => tell(line),
        }
    };
    let result = ticking(every, show, work);
    bar.inspect(ProgressBar::finish_and_clear);
    result
}

/// Turns a counter into a rate and a time left.
#[derive(Default)]
struct WorkMeter {
    samples: VecDeque<(Instant, u64)>,
}

impl WorkMeter {
    fn line(&mut self, now: Instant, Work { done, found, total }: Work) -> String {
        while self.samples.len() > 1 && now.duration_since(self.samples[0].0) > RATE_WINDOW {
            self.samples.pop_front();
        }
        let own = done.saturating_sub(found);
        self.samples.push_back((now, own));
        let (then, before) = self.samples[0];
        let seconds = now.duration_since(then).as_secs_f64();
        let rate = if seconds > 0.0 { own.saturating_sub(before) as f64 / seconds } else { 0.0 };
        let left = match total.saturating_sub(done) as f64 / rate {
            left if left.is_finite() => format!(", {} left", left_text(left)),
            _ => String::new(),
        };
        format!("{} of {}, {}/s{left}", bytes_text(done as f64), bytes_text(total as f64), bytes_text(rate))
    }
}

fn left_text(seconds: f64) -> String {
    let seconds = seconds.ceil() as u64;
    match (seconds / 3600, seconds / 60 % 60, seconds % 60) {
        (0, 0, seconds) => format!("{seconds} s"),
        (0, minutes, seconds) => format!("{minutes}:{seconds:02} min"),
        (hours, minutes, _) => format!("{hours}:{minutes:02} h"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_has_a_rate_and_a_time_left() {
        let mut meter = WorkMeter::default();
        let start = Instant::now();
        let work = |done, found| Work { done, found, total: 4_000_000_000 };
        assert_eq!(meter.line(start, work(0, 0)), "0 B of 4.00 GB, 0 B/s");
        let line = meter.line(start + Duration::from_secs(2), work(1_000_000_000, 0));
        assert_eq!(line, "1.00 GB of 4.00 GB, 500 MB/s, 6 s left");
        // What is only found tells nothing of how long the rest takes.
        let line = meter.line(start + Duration::from_secs(4), work(2_000_000_000, 1_000_000_000));
        assert_eq!(line, "2.00 GB of 4.00 GB, 250 MB/s, 8 s left");
    }

    #[test]
    fn long_times_are_rounded() {
        assert_eq!(left_text(0.2), "1 s");
        assert_eq!(left_text(61.0), "1:01 min");
        assert_eq!(left_text(7_260.0), "2:01 h");
    }

    #[test]
    fn the_work_s_result_comes_back() {
        assert_eq!([true, false].map(|quiet| during(quiet, Work::default, || 7)), [7, 7]);
    }
}
