//! `shardwright info`: what a dataset holds, as tables or as JSON.

use std::fmt::Write;

use comfy_table::{CellAlignment, Table};
use serde_json::Value;
use shardwright::Channel;
use shardwright::offline::{self, ArrayDescription, Axis, Description};
use shardwright::words::quoted;

use crate::args::{InfoArgs, ReportArgs};
use crate::console::say;
use crate::failure::{Failure, name_options};
use crate::report::{decimal, joined, table};

/// Runs the command.
pub(crate) fn run(args: &InfoArgs) -> Result<(), Failure> {
    let mut description = offline::describe(&args.path)?;
    name_options(description.unreadable.iter_mut().map(|array| &mut array.reason).chain(&mut description.notes));
    for array in &mut description.arrays {
        name_options(array.notes.iter_mut().chain(&mut array.damaged).chain(array.lost.as_mut()));
    }
    match args.report {
        ReportArgs { json: true, .. } => say(&(description.to_json() + "\n")),
        ReportArgs { quiet: true, .. } => Ok(()),
        _ => say(&to_text(&description)),
    }
}

fn to_text(description: &Description) -> String {
    let mut text = String::new();
    let format = description.arrays.iter().find(|array| array.shape.len() > 1).or(description.arrays.first());
    let kind = match format {
        _ if description.ome => ome_kind(&description.attributes),
        Some(array) => format!("dataset, {}", array.format),
        None if !description.unreadable.is_empty() => {
            let format = description.unreadable.iter().find_map(|array| array.format.as_deref());
            format!("{} without arrays that are read here", format.unwrap_or("Zarr dataset"))
        }
        None => "Zarr dataset without arrays".to_owned(),
    };
    let has_lost = description.arrays.iter().any(|array| array.lost.is_some());
    let is_recovered = description.attributes.pointer("/shardwright/recovered") == Some(&Value::Bool(true));
    let error = description.attributes.pointer("/shardwright/error").and_then(Value::as_str);
    let state = match description.complete {
        Some(true) if has_lost => ", finished by its writer, but chunks are lost".to_owned(),
        Some(true) => ", complete".to_owned(),
        Some(false) if is_recovered => {
            let why = error.map_or_else(
                || "its writer was stopped, or it was damaged".to_owned(),
                |error| format!("its writer ended with an error, {}", quoted(error)),
            );
            format!(", not complete: {why}; it holds what was saved")
        }
        Some(false) => match error {
            Some(error) => format!(", not complete: its writer ended with an error, {}", quoted(error)),
            None => ", not complete: it is being written, or its writer was stopped".to_owned(),
        },
        None => String::new(),
    };
    writeln!(text, "{kind}{state}").expect("a string takes it");
    let (images, flat): (Vec<_>, Vec<_>) = description.arrays.iter().partition(|array| array.shape.len() > 1);
    for array in images {
        let mut table = table([if array.path.is_empty() { "/" } else { &array.path }, ""]);
        table.add_rows(rows(array));
        // Here the second column holds words, too.
        table.column_iter_mut().for_each(|column| {
            column.set_cell_alignment(CellAlignment::Left);
        });
        writeln!(text, "\n{}", table.trim_fmt()).expect("a string takes it");
    }
    for array in &description.unreadable {
        let shape = array.shape.as_ref().map_or("of unknown shape".to_owned(), |shape| joined(shape, " x "));
        let dtype = array.dtype.as_deref().unwrap_or("of unknown type");
        writeln!(text, "\n{}: {shape} {dtype}, can't be read: {}", array.path, array.reason)
            .expect("a string takes it");
    }
    for note in &description.notes {
        writeln!(text, "\nnote: {note}").expect("a string takes it");
    }
    // What the writer keeps of each frame has a folder of its own.
    let (records, others): (Vec<_>, Vec<_>) = flat.into_iter().partition(|array| is_record(&array.path));
    for (title, arrays) in [("array", others), ("records", records)] {
        if !arrays.is_empty() {
            writeln!(text, "\n{}", table_of_lines(title, &arrays).trim_fmt()).expect("a string takes it");
        }
    }
    text
}

/// What OME-Zarr's metadata say that there is.
fn ome_kind(attributes: &Value) -> String {
    let ome = attributes.get("ome").unwrap_or(attributes);
    // Before 0.5, each part had a version of its own.
    let parts = [ome, &ome["multiscales"][0], &ome["plate"], &ome["well"]];
    let version = parts.iter().find_map(|part| part["version"].as_str());
    let version = version.map(|version| format!(" {version}")).unwrap_or_default();
    let sides = ["rows", "columns"].map(|side| ome["plate"][side].as_array().map(Vec::len));
    match sides {
        [Some(rows), Some(columns)] => format!("OME-Zarr{version} dataset, plate of {rows} x {columns} wells"),
        _ => format!("OME-Zarr{version} dataset"),
    }
}

/// How far the elements of each dimension are apart, where the first one is if not at 0, and the channels.
fn image_rows(array: &ArrayDescription) -> Vec<[String; 2]> {
    let measured = |axis: &Axis, number: f64| match &axis.unit {
        Some(unit) => format!("{} {number} {unit}", axis.name),
        None => format!("{} {number}", axis.name),
    };
    let size = |axis: &Axis| match (axis.scale, &axis.unit) {
        (1.0, None) => axis.name.clone(),
        (scale, _) => measured(axis, scale),
    };
    let channel = |channel: &Channel| format!("{} {}", channel.label, channel.color).trim().to_owned();
    let moved = array.axes.iter().filter(|axis| axis.translation != 0.0);
    let rows = [
        ("axes", array.axes.iter().map(size).collect::<Vec<_>>()),
        ("place", moved.map(|axis| measured(axis, axis.translation)).collect()),
        ("channels", array.channels.iter().map(channel).collect()),
    ];
    let told = rows.into_iter().filter(|(_, parts)| !parts.is_empty());
    told.map(|(name, parts)| [name.to_owned(), parts.join(", ")]).collect()
}

/// Whether an array is named as one of the records of frames.
pub(crate) fn is_record(path: &str) -> bool {
    path.rsplit('/').nth(1) == Some("records")
}

/// Arrays of one dimension, or none: a line is enough for them.
fn table_of_lines(title: &str, arrays: &[&ArrayDescription]) -> Table {
    let mut table = table([title, "type", "count", "files", "bytes"]);
    for array in arrays {
        table.add_row([
            if array.path.is_empty() { "/".to_owned() } else { array.path.clone() },
            array.dtype.to_string(),
            joined(&array.shape, " x "),
            array.shard_files.to_string(),
            decimal(array.bytes_files),
        ]);
        array.damaged.iter().for_each(|damage| {
            table.add_row(["damaged", damage]);
        });
    }
    table
}

fn rows(array: &ArrayDescription) -> Vec<[String; 2]> {
    let names = array.dimension_names.as_ref().map(|names| format!(" ({})", names.join(", ")));
    let chunks = array.chunks_present + array.chunks_empty + array.chunks_unknown;
    let unknown = match array.chunks_unknown {
        0 => String::new(),
        unknown => format!(", {unknown} unknown"),
    };
    let ratio = if array.bytes_payload == 0 { 0.0 } else { array.bytes_logical as f64 / array.bytes_payload as f64 };
    let shard = match (&array.shard_shape, &array.index_location) {
        (Some(shape), Some(location)) => format!("{}, index at the {location}", joined(shape, " x ")),
        (Some(shape), None) => joined(shape, " x "),
        (None, _) if array.manifest.is_some() => "none: a manifest names each chunk's place".to_owned(),
        (None, _) => "none: each chunk is a file".to_owned(),
    };
    let row = |name: &str, value: String| [name.to_owned(), value];
    let mut rows = vec![
        row("shape", format!("{}{} {}", joined(&array.shape, " x "), names.unwrap_or_default(), array.dtype)),
        row("chunk", joined(&array.chunk_shape, " x ")),
        row("shard", shard),
        row("codecs", array.codecs.join(", ")),
        row("files", array.shard_files.to_string()),
        row("chunks", format!("{} of {chunks} present, {} empty{unknown}", array.chunks_present, array.chunks_empty)),
        row("pixels", decimal(array.bytes_logical)),
        row("encoded", format!("{}, ratio {ratio:.2}", decimal(array.bytes_payload))),
        row("file size", format!("{}, {} on disk", decimal(array.bytes_files), decimal(array.bytes_on_disk))),
        row("gaps", decimal(array.gap_bytes)),
    ];
    rows.splice(1..1, image_rows(array));
    rows.extend(array.caution.as_ref().map(|caution| row("caution", caution.clone())));
    rows.extend(array.manifest.as_ref().map(|manifest| row("manifest", manifest.clone())));
    rows.extend(array.notes.iter().map(|note| row("note", note.clone())));
    rows.extend(array.lost.iter().map(|lost| row("lost", lost.clone())));
    rows.extend(array.damaged.iter().map(|damage| row("damaged", damage.clone())));
    rows
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    /// An array of two chunks, of which one was written, laid out by hand.
    fn array(folder: &std::path::Path) -> std::path::PathBuf {
        let array = folder.join("0");
        fs::create_dir_all(array.join("c/0/0")).unwrap();
        fs::write(array.join("c/0/0/0"), [7; 3 * 4 * 2]).unwrap();
        let document = serde_json::json!({
            "zarr_format": 3, "node_type": "array", "shape": [2, 3, 4], "data_type": "uint16",
            "chunk_grid": {"name": "regular", "configuration": {"chunk_shape": [1, 3, 4]}},
            "chunk_key_encoding": {"name": "default", "configuration": {"separator": "/"}},
            "fill_value": 0, "codecs": [{"name": "bytes", "configuration": {"endian": "little"}}],
            "attributes": {}, "dimension_names": ["t", "y", "x"],
        });
        fs::write(array.join("zarr.json"), document.to_string()).unwrap();
        array
    }

    #[test]
    fn the_table_has_the_numbers() {
        let folder = tempfile::tempdir().unwrap();
        let text = to_text(&offline::describe(array(folder.path())).unwrap());
        for expected in [
            "2 x 3 x 4 (t, y, x) uint16",
            "1 x 3 x 4",
            "each chunk is a file",
            "1 of 2 present, 1 empty",
            "48 B",
            "ratio 2.00",
        ] {
            assert!(text.contains(expected), "{text}\nlacks {expected:?}");
        }
    }

    #[test]
    fn what_is_no_dataset_is_invalid_input() {
        let folder = tempfile::tempdir().unwrap();
        let refused = run(&InfoArgs { path: folder.path().join("nothing"), ..Default::default() }).unwrap_err();
        assert_eq!(refused.exit_code(), crate::failure::exit::INPUT, "{refused}");
    }
}
