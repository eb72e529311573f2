//! `shardwright info`: what a dataset holds, as tables or as JSON.

use std::fmt::Write;
use std::path::Path;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::args::Info;
use crate::failure::Failure;
use crate::report::{decimal, joined, table};

/// Runs the command.
pub(crate) fn run(args: &Info) -> Result<(), Failure> {
    let description = describe(&args.path)?;
    if args.json {
        println!(
            "{}",
            serde_json::to_string(&description).expect("a description holds only numbers, strings and lists")
        );
    } else {
        print!("{}", to_text(&description));
    }
    Ok(())
}

fn describe(path: &Path) -> Result<Description, Failure> {
    Err(Failure::Run(format!("can't describe {}: this build has no reader for datasets yet", path.display())))
}

/// What is in a dataset.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct Description {
    arrays: Vec<Array>,
    attributes: Value,
    ome: bool,
    complete: Option<bool>,
}

/// What is in one array, and how much room it takes.
#[derive(Debug, Clone, Serialize, Deserialize)]
struct Array {
    path: String,
    shape: Vec<u64>,
    dtype: String,
    dimension_names: Option<Vec<String>>,
    chunk_shape: Vec<u64>,
    shard_shape: Vec<u64>,
    codecs: Vec<String>,
    index_location: String,
    shard_files: u64,
    chunks_present: u64,
    chunks_empty: u64,
    bytes_logical: u64,
    bytes_payload: u64,
    bytes_files: u64,
    bytes_on_disk: u64,
    gap_bytes: u64,
}

fn to_text(description: &Description) -> String {
    let mut text = String::new();
    let kind = if description.ome { "OME-Zarr dataset" } else { "Zarr dataset" };
    let state = match description.complete {
        Some(true) => ", complete",
        Some(false) => ", not complete: it is being written, or its writer was stopped",
        None => "",
    };
    writeln!(text, "{kind}{state}").expect("a string takes it");
    for array in &description.arrays {
        let mut table = table(["", ""]);
        table.set_header([if array.path.is_empty() { "/" } else { &array.path }, ""]);
        table.add_rows(rows(array));
        // Words and lists stand better at the left, under their heading.
        table.column_iter_mut().for_each(|column| column.set_cell_alignment(comfy_table::CellAlignment::Left));
        writeln!(text, "\n{}", table.trim_fmt()).expect("a string takes it");
    }
    text
}

fn rows(array: &Array) -> Vec<[String; 2]> {
    let names = array.dimension_names.as_ref().map(|names| format!(" ({})", names.join(", ")));
    let chunks = array.chunks_present + array.chunks_empty;
    let ratio = if array.bytes_payload == 0 { 0.0 } else { array.bytes_logical as f64 / array.bytes_payload as f64 };
    let row = |name: &str, value: String| [name.to_owned(), value];
    vec![
        row("shape", format!("{}{} {}", joined(&array.shape, " x "), names.unwrap_or_default(), array.dtype)),
        row("chunk", joined(&array.chunk_shape, " x ")),
        row("shard", format!("{}, index at the {}", joined(&array.shard_shape, " x "), array.index_location)),
        row("codecs", array.codecs.join(", ")),
        row("shard files", array.shard_files.to_string()),
        row("chunks", format!("{} of {chunks} present, {} empty", array.chunks_present, array.chunks_empty)),
        row("pixels", decimal(array.bytes_logical)),
        row("encoded", format!("{}, ratio {ratio:.2}", decimal(array.bytes_payload))),
        row("files", format!("{}, {} on disk", decimal(array.bytes_files), decimal(array.bytes_on_disk))),
        row("gaps", decimal(array.gap_bytes)),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_tables_have_the_numbers() {
        let description: Description = serde_json::from_value(serde_json::json!({
            "arrays": [{
                "path": "0", "shape": [100, 2048, 2048], "dtype": "uint16", "dimension_names": ["t", "y", "x"],
                "chunk_shape": [16, 256, 256], "shard_shape": [64, 2048, 2048], "codecs": ["bytes", "blosc(lz4)", "crc32c"],
                "index_location": "end", "shard_files": 2, "chunks_present": 400, "chunks_empty": 48,
                "bytes_logical": 838_860_800u64, "bytes_payload": 300_000_000u64, "bytes_files": 940_000_000u64,
                "bytes_on_disk": 301_000_000u64, "gap_bytes": 639_000_000u64,
            }],
            "attributes": {}, "ome": true, "complete": false,
        }))
        .unwrap();
        let text = to_text(&description);
        for expected in [
            "OME-Zarr dataset, not complete",
            "100 x 2048 x 2048 (t, y, x) uint16",
            "16 x 256 x 256",
            "index at the end",
            "bytes, blosc(lz4), crc32c",
            "400 of 448 present, 48 empty",
            "839 MB",
            "300 MB, ratio 2.80",
            "940 MB, 301 MB on disk",
            "639 MB",
        ] {
            assert!(text.contains(expected), "{text}\nlacks {expected:?}");
        }
    }
}
