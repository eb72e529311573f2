//! What is said of several images together: sums, and each note once.

use std::collections::BTreeMap;

use shardwright::words::count;

use crate::failure::Failure;
use crate::report::several::{ImageRow, Several};
use crate::report::{Report, quotient};

/// Notes of images by their names, each once.
pub(super) fn notes<'a>(of: impl Iterator<Item = (&'a str, &'a [String])>) -> Vec<String> {
    let mut images = 0;
    let mut told: Vec<(&str, &str, usize)> = Vec::new();
    let mut known: BTreeMap<&str, usize> = BTreeMap::new();
    for (name, notes) in of {
        images += 1;
        for note in notes {
            let at = *known.entry(note).or_insert(told.len());
            match told.get_mut(at) {
                Some((.., count)) => *count += 1,
                None => told.push((note, name, 1)),
            }
        }
    }
    let text = |(note, name, of): (&str, &str, usize)| match of {
        _ if of == images => note.to_owned(),
        1 => format!("{name}: {note}"),
        _ => format!("{name} and {}: {note}", count(of - 1, "more image")),
    };
    told.into_iter().map(text).collect()
}

/// The report of all, and the first failure.
pub(super) fn together(
    concluded: Vec<(String, Report, Option<Failure>)>,
    mut several: Several,
    seconds: f64,
) -> (Report, Option<Failure>) {
    let notes = notes(concluded.iter().map(|(name, report, _)| (&name[..], &report.notes[..])));
    let failure = concluded.iter().find_map(|(.., failure)| failure.clone());
    let mut reports = concluded.into_iter().map(|(name, report, _)| {
        several.images.push(row(name, &report));
        report
    });
    let first = reports.next().expect("a run has an image");
    let mut all = reports.fold(first, add);
    (all.notes, all.missing, all.seconds) = (notes, Vec::new(), seconds);
    all.ratio = quotient(all.bytes_in as f64, all.bytes_out as f64);
    all.gb_per_s = quotient(all.bytes_in as f64 / 1e9, seconds);
    all.several = Some(several);
    (all, failure)
}

fn row(path: String, report: &Report) -> ImageRow {
    ImageRow {
        path,
        shape: report.shape.clone(),
        levels: report.levels.clone(),
        frames_written: report.frames_written,
        frames_missing: report.frames_missing,
        frames_dropped: report.frames_dropped,
        missing: report.missing.clone(),
    }
}

/// Two reports as one. Threads are those of all images, and so is what was measured in them.
fn add(sum: Report, of: Report) -> Report {
    let are_alike = sum.shape == of.shape;
    let levels = sum.levels.iter().zip(&of.levels).map(|(sum, of)| {
        let mut level = sum.clone();
        level.bytes_out += of.bytes_out;
        level.chunks_written += of.chunks_written;
        level.shards += of.shards;
        level
    });
    Report {
        frames_written: sum.frames_written + of.frames_written,
        frames_durable: sum.frames_durable + of.frames_durable,
        frames_missing: sum.frames_missing + of.frames_missing,
        frames_accepted: sum.frames_accepted + of.frames_accepted,
        frames_dropped: sum.frames_dropped + of.frames_dropped,
        bytes_in: sum.bytes_in + of.bytes_in,
        bytes_out: sum.bytes_out + of.bytes_out,
        shards: sum.shards + of.shards,
        chunks_written: sum.chunks_written + of.chunks_written,
        chunks_empty: sum.chunks_empty + of.chunks_empty,
        levels: if are_alike { levels.collect() } else { Vec::new() },
        shape: if are_alike { sum.shape } else { Vec::new() },
        interrupted: sum.interrupted || of.interrupted,
        error: sum.error.or(of.error),
        ..of
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_note_of_many_images_is_told_once() {
        let all = "all".to_owned();
        let of = |own: &str| vec![all.clone(), own.to_owned()];
        let images = [("A/1/0", of("own")), ("A/1/1", of("other")), ("A/2/0", of("own"))];
        let said = notes(images.iter().map(|(name, notes)| (*name, &notes[..])));
        assert_eq!(said, ["all", "A/1/0 and 1 more image: own", "A/1/1: other"]);
    }
}
