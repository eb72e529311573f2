//! Long runs: what a run did second by second, as a page with plots, and old shards that make room for new ones.
//!
//! A write-back cliff, a stall at every roll-over or a page cache that crowds out the camera's driver don't show in a
//! summary, nor before the machine's memory has been written once or twice.

use std::collections::VecDeque;
use std::fmt::Write;
use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::mpsc;
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use hdrhistogram::Histogram;
use shardwright::{Acquisition, Stats};

use crate::failure::Failure;
use crate::machine::{memory_bytes, process_bytes};

const ROW_EVERY: Duration = Duration::from_secs(1);

/// One second of a run.
#[derive(Debug, Clone, Default)]
struct DiarySecond {
    seconds: f64,
    bytes_in_per_s: f64,
    commit_p50: f64,
    commit_p999: f64,
    commit_max: f64,
    /// Of 1.
    ring_full: f64,
    /// Of the whole machine, in bytes.
    page_cache: f64,
    dirty: f64,
    resident: f64,
}

/// Notes a run down.
pub(crate) struct Diary {
    start: Instant,
    last: (Instant, u64),
    commits: Histogram<u64>,
    rows: Vec<DiarySecond>,
}

impl Diary {
    /// Begins to note a run whose page shall be at `path`. `overwrite`: in place of what is there.
    pub(crate) fn begin(path: &Path, overwrite: bool) -> Result<Self, Failure> {
        if path.exists() && !overwrite {
            return Err(Failure::exists(path, "choose another path for --soak, or replace it with --overwrite"));
        }
        // What can't be written shall not be found out after hours.
        let is_new = !path.exists();
        let opened = fs::OpenOptions::new().append(true).create(true).open(path);
        opened.map_err(|error| Failure::io("write", path, &error))?;
        if is_new {
            let _ = fs::remove_file(path);
        }
        Ok(Self::new())
    }

    fn new() -> Self {
        let commits = Histogram::new_with_bounds(1, 60_000_000_000, 3).expect("the bounds are constants");
        let now = Instant::now();
        Self { start: now, last: (now, 0), commits, rows: Vec::with_capacity(1 << 16) }
    }

    /// Notes how long a commit took, and once a second how the run stands.
    pub(crate) fn note(&mut self, commit: Duration, stats: impl FnOnce() -> Stats) {
        self.commits.saturating_record(commit.as_nanos() as u64);
        let now = Instant::now();
        let since = now - self.last.0;
        if since < ROW_EVERY {
            return;
        }
        let stats = stats();
        let at = |quantile| self.commits.value_at_quantile(quantile) as f64 / 1e6;
        self.rows.push(DiarySecond {
            seconds: (now - self.start).as_secs_f64(),
            bytes_in_per_s: (stats.bytes_in - self.last.1) as f64 / since.as_secs_f64(),
            commit_p50: at(0.5),
            commit_p999: at(0.999),
            commit_max: at(1.0),
            ring_full: 1.0 - stats.ring_free as f64 / stats.ring_frames.max(1) as f64,
            page_cache: plotted(memory_bytes("Cached")),
            dirty: plotted(memory_bytes("Dirty")),
            resident: plotted(process_bytes("VmRSS")),
        });
        self.commits.reset();
        self.last = (now, stats.bytes_in);
    }

    /// Writes the page.
    pub(crate) fn write(&self, path: &Path, title: &str) -> Result<(), Failure> {
        let page = self.page(title);
        fs::write(path, page).map_err(|error| Failure::io("write", path, &error))
    }

    fn page(&self, title: &str) -> String {
        let mut page = String::from(HEAD);
        let title = title.replace('&', "&amp;").replace('<', "&lt;");
        let _ = writeln!(page, "<h1>{title}</h1>");
        type ChartLine = (&'static str, fn(&DiarySecond) -> f64);
        let charts: [(&str, &[ChartLine]); 4] = [
            ("Pixels in, GB/s", &[("taken", |row| row.bytes_in_per_s / 1e9)]),
            (
                "Commit, ms",
                &[("p50", |row| row.commit_p50), ("p99.9", |row| row.commit_p999), ("max", |row| row.commit_max)],
            ),
            ("Ring, % in use", &[("in use", |row| 100.0 * row.ring_full)]),
            (
                "Memory, GB",
                &[
                    ("page cache of the machine", |row| row.page_cache / 1e9),
                    ("dirty", |row| row.dirty / 1e9),
                    ("this process", |row| row.resident / 1e9),
                ],
            ),
        ];
        for (name, lines) in charts {
            let lines: Vec<(&str, Vec<(f64, f64)>)> = lines
                .iter()
                .map(|(name, y)| (*name, self.rows.iter().map(|row| (row.seconds, y(row))).collect()))
                .collect();
            chart(&mut page, name, &lines);
        }
        page.push_str("</body></html>\n");
        page
    }
}

fn plotted(bytes: Option<u64>) -> f64 {
    bytes.unwrap_or(0) as f64
}

const HEAD: &str = "<!doctype html><html><head><meta charset=\"utf-8\"><title>A long run</title><style>
body { font: 15px sans-serif; max-width: 60em; margin: 2em auto; color: #222 }
svg { width: 100%; height: auto } text { font-size: 11px; fill: #555 } .grid { stroke: #ddd }
polyline { fill: none; stroke-width: 1.2 }
</style></head><body>
";
const COLORS: [&str; 3] = ["#1b6ca8", "#d1495b", "#8d96a3"];

/// Lines over time, in an SVG of 800 by 200.
fn chart(page: &mut String, name: &str, lines: &[(&str, Vec<(f64, f64)>)]) {
    let points = || lines.iter().flat_map(|(_, points)| points);
    let end = points().fold(1.0, |end: f64, point| end.max(point.0));
    let top = points().fold(0.0, |top: f64, point| top.max(point.1)).max(1e-9) * 1.05;
    let (x, y) = (|seconds: f64| 50.0 + 740.0 * seconds / end, |value: f64| 170.0 - 150.0 * value / top);
    let _ = writeln!(page, "<h2>{name}</h2><svg viewBox=\"0 0 800 200\">");
    for quarter in 0..=4 {
        let value = top * f64::from(quarter) / 4.0;
        let at = y(value);
        let _ = writeln!(page, "<line class=\"grid\" x1=\"50\" x2=\"790\" y1=\"{at:.1}\" y2=\"{at:.1}\"/>");
        let _ = writeln!(page, "<text x=\"4\" y=\"{:.1}\">{value:.3}</text>", at + 4.0);
        let seconds = end * f64::from(quarter) / 4.0;
        let _ = writeln!(page, "<text x=\"{:.1}\" y=\"186\">{seconds:.0} s</text>", x(seconds) - 10.0);
    }
    for ((label, points), (place, color)) in lines.iter().zip(COLORS.iter().enumerate()) {
        let path: Vec<_> = points.iter().map(|&(at, value)| format!("{:.1},{:.1}", x(at), y(value))).collect();
        let _ = writeln!(page, "<polyline stroke=\"{color}\" points=\"{}\"/>", path.join(" "));
        let _ = writeln!(page, "<text x=\"{}\" y=\"12\" style=\"fill:{color}\">{label}</text>", 60 + 180 * place);
    }
    page.push_str("</svg>\n");
}

/// Deletes the oldest closed shards of a run, so that the rest stay within a number of bytes.
pub(crate) struct Roll {
    thread: JoinHandle<()>,
}

impl Roll {
    /// Listens to `acquisition`, whose dataset is at `path`. Ends with it.
    pub(crate) fn start(acquisition: &Acquisition, path: &Path, bytes_max: u64) -> Self {
        let (closed, keys) = mpsc::channel::<PathBuf>();
        let root = path.to_path_buf();
        let listener = acquisition.on_shard_closed(move |key| drop(closed.send(root.join(key))));
        listener.expect("nobody else listens to this run");
        // Not on the thread that closes shards: to delete half a gigabyte takes time.
        let thread = thread::spawn(move || {
            let (mut kept, mut bytes) = (VecDeque::new(), 0);
            for path in keys {
                let size = fs::metadata(&path).map_or(0, |metadata| metadata.blocks() * 512);
                kept.push_back((path, size));
                bytes += size;
                while bytes > bytes_max
                    && kept.len() > 1
                    && let Some((oldest, size)) = kept.pop_front()
                {
                    let _ = fs::remove_file(oldest);
                    bytes -= size;
                }
            }
        });
        Self { thread }
    }

    /// Returns when the last deletion is done; the acquisition must have ended.
    pub(crate) fn join(self) {
        let _ = self.thread.join();
    }
}

/// Twice the machine's memory, in bytes.
pub(crate) fn long_enough() -> u64 {
    2 * memory_bytes("MemTotal").unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_page_shows_every_second() {
        let mut diary = Diary::new();
        diary.rows = (1..=3)
            .map(|at| DiarySecond { seconds: f64::from(at), bytes_in_per_s: 1e9, ..DiarySecond::default() })
            .collect();
        let page = diary.page("a <run>");
        assert!(page.contains("a &lt;run>"));
        let line = page.lines().find(|line| line.starts_with("<polyline")).unwrap();
        assert_eq!(line.matches(',').count(), 3, "{line}");
    }
}
