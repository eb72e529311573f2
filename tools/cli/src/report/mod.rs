//! What a finished replay says: a table for people, one JSON object for programs.

pub(crate) mod several;

use std::fmt::Write;
use std::ops::Range;

use comfy_table::{CellAlignment, LineStyle, Table, presets};
use serde::Serialize;
use serde_json::Value;
use shardwright::words::{WAS, count, count_that};
use shardwright::{LevelSummary, Stage, StageLatency, Summary};

use self::several::Several;
use crate::machine::peak_rss_bytes;

/// Images whose missing frames are named.
const IMAGES_SHOWN: usize = 12;

/// Everything about one run that is worth a line.
#[derive(Debug, Clone, Serialize)]
pub(crate) struct Report {
    pub(crate) frames_written: u64,
    pub(crate) frames_durable: u64,
    pub(crate) frames_missing: u64,
    pub(crate) frames_accepted: u64,
    /// Frames that found the ring full and were let go.
    pub(crate) frames_dropped: u64,
    pub(crate) bytes_in: u64,
    pub(crate) bytes_out: u64,
    pub(crate) ratio: f64,
    pub(crate) seconds: f64,
    pub(crate) gb_per_s: f64,
    pub(crate) peak_rss_bytes: Option<u64>,
    pub(crate) shape: Vec<u64>,
    pub(crate) levels: Vec<LevelSummary>,
    pub(crate) shards: u64,
    pub(crate) chunks_written: u64,
    pub(crate) chunks_empty: u64,
    pub(crate) codec: String,
    pub(crate) placement: String,
    pub(crate) storage: String,
    /// The share of the workers' busy time that was spent in the codec.
    pub(crate) codec_share: Option<f64>,
    pub(crate) commit_latency_ns: Percentiles,
    pub(crate) stages: Vec<StageRow>,
    pub(crate) missing: Vec<Range<u64>>,
    pub(crate) notes: Vec<String>,
    pub(crate) interrupted: bool,
    pub(crate) error: Option<Value>,
    /// Of a run of several images, what it has to say beside the sums of all.
    #[serde(flatten)]
    pub(crate) several: Option<Several>,
}

#[derive(Debug, Clone, Default, Serialize)]
pub(crate) struct Percentiles {
    pub(crate) p50: u64,
    pub(crate) p99: u64,
    pub(crate) p999: u64,
    pub(crate) max: u64,
}

#[derive(Debug, Clone, Serialize)]
pub(crate) struct StageRow {
    pub(crate) stage: Stage,
    pub(crate) count: u64,
    pub(crate) total_ns: u64,
    #[serde(flatten)]
    pub(crate) latency: PercentilesNs,
}

#[derive(Debug, Clone, Serialize)]
pub(crate) struct PercentilesNs {
    pub(crate) p50_ns: u64,
    pub(crate) p99_ns: u64,
    pub(crate) p999_ns: u64,
    pub(crate) max_ns: u64,
}

impl From<&StageLatency> for StageRow {
    fn from(of: &StageLatency) -> Self {
        let latency = PercentilesNs { p50_ns: of.p50_ns, p99_ns: of.p99_ns, p999_ns: of.p999_ns, max_ns: of.max_ns };
        Self { stage: of.stage, count: of.count, total_ns: of.total_ns, latency }
    }
}

/// What the command knows about a run beside the engine's summary.
#[derive(Debug, Clone, Default)]
pub(crate) struct Circumstances {
    pub(crate) codec: String,
    pub(crate) placement: String,
    pub(crate) frames_dropped: u64,
    /// How many frames the run was meant to take; `None`: nobody knows.
    pub(crate) asked: Option<u64>,
    /// Numbers after the last frame that were meant to come.
    pub(crate) missing_at_end: Range<u64>,
    pub(crate) notes: Vec<String>,
    pub(crate) interrupted: bool,
    pub(crate) error: Option<Value>,
}

/// Ranges as far as they lie before a number, and how many frames of them don't.
fn split_at(ranges: &[Range<u64>], end: u64) -> (Vec<Range<u64>>, u64) {
    let before = ranges.iter().filter(|range| range.start < end).map(|range| range.start..range.end.min(end));
    let behind = ranges.iter().map(|range| range.end.saturating_sub(range.start.max(end)));
    (before.collect(), behind.sum())
}

/// Ranges in their order, and one after them.
fn joined_ranges(ranges: &[Range<u64>], last: Option<Range<u64>>) -> Vec<Range<u64>> {
    let mut joined = ranges.to_vec();
    match (joined.last_mut(), last) {
        (Some(before), Some(last)) if before.end == last.start => before.end = last.end,
        (_, last) => joined.extend(last),
    }
    joined
}

impl Report {
    pub(crate) fn new(summary: &Summary, run: Circumstances) -> Self {
        let stages: Vec<_> = summary.stages.iter().map(StageRow::from).collect();
        let seconds = summary.elapsed.as_secs_f64();
        // The engine knows of those up to the end of the array's slowest dimension.
        let known: u64 = summary.shape.iter().rev().skip(2).product();
        let at_end = run.missing_at_end.start.max(known)..run.missing_at_end.end;
        let at_end = (!at_end.is_empty()).then_some(at_end);
        let (mut missing, unasked) = split_at(&summary.missing, run.asked.unwrap_or(u64::MAX));
        missing = joined_ranges(&missing, at_end.clone());
        let partial = (unasked > 0).then(|| {
            let frames = count_that(unasked, "frame", WAS);
            format!(
                "the array ends with a part of a stack: its last {frames} not asked for, and read as the fill value"
            )
        });
        Self {
            frames_written: summary.frames_written,
            frames_durable: summary.frames_durable,
            frames_missing: summary.frames_missing - unasked + at_end.map_or(0, |range| range.end - range.start),
            frames_accepted: summary.frames_accepted,
            frames_dropped: run.frames_dropped,
            bytes_in: summary.bytes_in,
            bytes_out: summary.bytes_out,
            ratio: quotient(summary.bytes_in as f64, summary.bytes_out as f64),
            seconds,
            gb_per_s: quotient(summary.bytes_in as f64 / 1e9, seconds),
            peak_rss_bytes: peak_rss_bytes(),
            shape: summary.shape.clone(),
            levels: summary.levels.clone(),
            shards: summary.shards,
            chunks_written: summary.chunks_written,
            chunks_empty: summary.chunks_empty,
            codec: run.codec,
            placement: run.placement,
            storage: summary.storage.clone(),
            codec_share: codec_share(&stages),
            commit_latency_ns: commit_latency(&stages),
            stages,
            missing,
            notes: run.notes.into_iter().chain(summary.notes.iter().cloned()).chain(partial).collect(),
            interrupted: run.interrupted,
            error: run.error,
            several: None,
        }
    }

    /// One JSON object on one line.
    pub(crate) fn to_json(&self) -> String {
        serde_json::to_string(self).expect("a report holds only numbers, strings and lists")
    }

    /// The summary for people.
    pub(crate) fn to_text(&self) -> String {
        let mut text = String::new();
        let mut line = |name: &str, value: String| writeln!(text, "{name:<10}{value}").expect("a string takes it");
        line("frames", self.frames_text());
        line("shape", self.shape_text());
        if !self.levels.is_empty() {
            let bytes = self.levels.iter().map(|level| level.bytes_out).sum();
            let shapes: Vec<_> = self.levels.iter().map(|level| joined(&level.shape, " x ")).collect();
            line("levels", format!("{} beside it, {} out", shapes.join(", "), decimal(bytes)));
        }
        line(
            "bytes",
            format!("{} in, {} out, ratio {:.2}", decimal(self.bytes_in), decimal(self.bytes_out), self.ratio),
        );
        line("speed", format!("{:.3} GB/s for {:.3} s", self.gb_per_s, self.seconds));
        line("codec", format!("{}, {} placement", self.codec, self.placement));
        line("storage", self.storage.clone());
        if let Some(share) = self.codec_share {
            line("workers", format!("{:.1} % of their busy time in the codec", 100.0 * share));
        }
        if let Some(bytes) = self.peak_rss_bytes {
            line("memory", format!("{} at most", decimal(bytes)));
        }
        self.several.iter().flat_map(Several::lines).for_each(|(name, value)| line(name, value));
        self.missing_lines().into_iter().for_each(|missing| line("missing", missing));
        self.notes.iter().for_each(|note| line("note", note.clone()));
        let table = latency_table(&self.stages);
        if !table.is_empty() {
            write!(text, "\n{}\n", table.trim_fmt()).expect("a string takes it");
        }
        text
    }

    fn shape_text(&self) -> String {
        let shards = count(self.shards, "shard");
        match (&self.several, &self.shape[..]) {
            (None, shape) => format!("{} in {shards}", joined(shape, " x ")),
            (Some(_), []) => format!("not the same of all images, in {shards}"),
            (Some(_), shape) => format!("{} each, in {shards}", joined(shape, " x ")),
        }
    }

    /// Of several images one for each that lacks frames.
    fn missing_lines(&self) -> Vec<String> {
        let Some(Several { images, .. }) = &self.several else {
            let missing = (!self.missing.is_empty()).then(|| missing_text(&self.missing));
            return missing.into_iter().collect();
        };
        let lacking = || images.iter().filter(|image| !image.missing.is_empty());
        let lines =
            lacking().take(IMAGES_SHOWN).map(|image| format!("{} {}", image.path, missing_text(&image.missing)));
        let more = lacking().count().saturating_sub(IMAGES_SHOWN);
        lines.chain((more > 0).then(|| format!("and of {}", count(more, "more image")))).collect()
    }

    fn frames_text(&self) -> String {
        let mut text = format!("{} written", self.frames_written);
        if self.frames_missing > 0 {
            write!(text, ", {} missing", self.frames_missing).expect("a string takes it");
        }
        if self.frames_dropped > 0 {
            write!(text, ", {} dropped because the ring was full", self.frames_dropped).expect("a string takes it");
        }
        text
    }
}

pub(crate) fn quotient(dividend: f64, divisor: f64) -> f64 {
    if divisor > 0.0 { dividend / divisor } else { 0.0 }
}

fn codec_share(stages: &[StageRow]) -> Option<f64> {
    let total = |stage| stages.iter().find(|row| row.stage == stage).map_or(0, |row| row.total_ns) as f64;
    let busy = total(Stage::Gather) + total(Stage::Encode) + total(Stage::Store);
    (busy > 0.0).then(|| total(Stage::Encode) / busy)
}

fn commit_latency(stages: &[StageRow]) -> Percentiles {
    let commit = stages.iter().find(|row| row.stage == Stage::Commit);
    commit.map_or_else(Percentiles::default, |row| Percentiles {
        p50: row.latency.p50_ns,
        p99: row.latency.p99_ns,
        p999: row.latency.p999_ns,
        max: row.latency.max_ns,
    })
}

fn latency_table(stages: &[StageRow]) -> Table {
    let mut table = table(["latency", "count", "p50", "p99", "p99.9", "max"]);
    for row in stages.iter().filter(|row| row.count > 0) {
        let PercentilesNs { p50_ns, p99_ns, p999_ns, max_ns } = row.latency;
        let times = [p50_ns, p99_ns, p999_ns, max_ns].map(time_text);
        table.add_row([row.stage.name().to_owned(), row.count.to_string()].into_iter().chain(times));
    }
    table
}

/// A table whose first column holds words and whose others hold numbers.
pub(crate) fn table<const N: usize>(header: [&str; N]) -> Table {
    let mut table = Table::new();
    let style = presets::NOTHING.header_separator(LineStyle::none().fill('─').junction('─'));
    table.load_style(style).set_header(header);
    table.column_iter_mut().skip(1).for_each(|column| column.set_cell_alignment(CellAlignment::Right));
    table
}

/// The first ranges, as people count: `3, 7 to 9`.
pub(crate) fn missing_text(ranges: &[Range<u64>]) -> String {
    const SHOWN: usize = 12;
    let shown = ranges.iter().take(SHOWN).map(|range| match range.end - range.start {
        1 => range.start.to_string(),
        _ => format!("{} to {}", range.start, range.end - 1),
    });
    let mut text = shown.collect::<Vec<_>>().join(", ");
    if ranges.len() > SHOWN {
        write!(text, " and {} more ranges", ranges.len() - SHOWN).expect("a string takes it");
    }
    text
}

/// `2048 x 2048`, or whatever stands between.
pub(crate) fn joined(numbers: &[u64], between: &str) -> String {
    numbers.iter().map(u64::to_string).collect::<Vec<_>>().join(between)
}

/// A number of bytes with three digits that count, in powers of 1000.
pub(crate) fn decimal(bytes: u64) -> String {
    bytes_text(bytes as f64)
}

pub(crate) fn bytes_text(bytes: f64) -> String {
    three_digits(bytes, &["B", "kB", "MB", "GB", "TB", "PB", "EB"])
}

fn time_text(ns: u64) -> String {
    three_digits(ns as f64, &["ns", "µs", "ms", "s"])
}

fn three_digits(mut value: f64, units: &[&str]) -> String {
    let mut unit = 0;
    // 999.5 would be shown as 1000.
    while value >= 999.5 && unit + 1 < units.len() {
        value /= 1000.0;
        unit += 1;
    }
    let places = if unit == 0 || value >= 99.95 {
        0
    } else if value >= 9.995 {
        1
    } else {
        2
    };
    format!("{value:.places$} {}", units[unit])
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(stage: Stage, total_ns: u64) -> StageRow {
        let latency = PercentilesNs { p50_ns: 900, p99_ns: 20_000, p999_ns: 3_000_000, max_ns: 1_500_000_000 };
        StageRow { stage, count: 10, total_ns, latency }
    }

    fn report() -> Report {
        let stages: Vec<_> = [(Stage::Commit, 5), (Stage::Gather, 10), (Stage::Encode, 85), (Stage::Store, 5)]
            .map(|(s, t)| row(s, t))
            .into();
        Report {
            frames_written: 98,
            frames_durable: 990,
            frames_missing: 2,
            frames_accepted: 98,
            frames_dropped: 2,
            bytes_in: 2_000_000_000,
            bytes_out: 500_000_000,
            ratio: 4.0,
            seconds: 2.0,
            gb_per_s: 1.0,
            peak_rss_bytes: Some(123_456_789),
            shape: vec![100, 2048, 2048],
            levels: Vec::new(),
            shards: 2,
            chunks_written: 3,
            chunks_empty: 4,
            codec: "blosc-lz4 level 1, bit shuffle, crc32c".into(),
            placement: "fixed".into(),
            storage: "mapped: ext4 on a local disk".into(),
            codec_share: codec_share(&stages),
            commit_latency_ns: commit_latency(&stages),
            stages,
            missing: vec![3..4, 7..10],
            notes: vec!["a note".into()],
            interrupted: false,
            error: None,
            several: None,
        }
    }

    #[test]
    fn the_text_has_the_numbers() {
        let text = report().to_text();
        for expected in [
            "98 written, 2 missing, 2 dropped",
            "100 x 2048 x 2048 in 2 shards",
            "2.00 GB in, 500 MB out, ratio 4.00",
            "1.000 GB/s for 2.000 s",
            "85.0 % of their busy time",
            "3, 7 to 9",
            "a note",
            "3.00 ms",
            "1.50 s",
            "p99.9",
        ] {
            assert!(text.contains(expected), "{text}\nlacks {expected:?}");
        }
    }

    #[test]
    fn the_json_is_one_object_with_the_agreed_keys() {
        let json = report().to_json();
        assert!(!json.contains('\n'));
        let value: serde_json::Value = serde_json::from_str(&json).unwrap();
        for key in [
            "frames_written",
            "frames_missing",
            "frames_accepted",
            "bytes_in",
            "bytes_out",
            "ratio",
            "seconds",
            "gb_per_s",
            "peak_rss_bytes",
            "storage",
            "placement",
            "codec",
            "stages",
            "missing",
            "shape",
            "notes",
        ] {
            assert!(!value[key].is_null(), "{key}");
        }
        assert_eq!(value["commit_latency_ns"]["p999"], 3_000_000);
        assert_eq!(value["stages"][2]["stage"], "encode");
        assert_eq!(value["stages"][2]["p99_ns"], 20_000);
        assert_eq!(value["missing"][1]["start"], 7);
    }

    #[test]
    fn numbers_have_three_digits() {
        let cases = [(0, "0 B"), (999, "999 B"), (1000, "1.00 kB"), (12_345, "12.3 kB"), (999_999, "1.00 MB")];
        for (bytes, text) in cases {
            assert_eq!(decimal(bytes), text);
        }
        assert_eq!(time_text(1_234_567), "1.23 ms");
    }

    #[test]
    fn many_gaps_are_cut_short() {
        let ranges: Vec<_> = (0..20u64).map(|i| 2 * i..2 * i + 1).collect();
        assert!(missing_text(&ranges).ends_with("22 and 8 more ranges"));
    }
}
