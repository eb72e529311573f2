//! `shardwright manifest`: where a dataset's chunks lie, for readers that go by references.

use shardwright::offline::{ManifestOptions, WriteManifest, manifest_path};
use shardwright::words::count;

use crate::args::ManifestArgs;
use crate::console::{say, tell_notes};
use crate::failure::Failure;
use crate::place::refuse_dangling;
use crate::report::decimal;

/// Runs the command.
pub(crate) fn run(args: &ManifestArgs) -> Result<(), Failure> {
    let out = args.output.clone().unwrap_or_else(|| manifest_path(&args.path));
    refuse_dangling(&out)?;
    let options = ManifestOptions {
        url_prefix: args.url_prefix.clone(),
        forms: args.forms.clone(),
        inline_chunks: args.inline,
        kerchunk_zarr_format: args.zarr_format,
        overwrite: args.overwrite,
    };
    let written = WriteManifest::new(&args.path, Some(&out), &options).and_then(|manifest| manifest.run());
    let summary = written?;
    if args.report.json {
        let mut json = serde_json::to_value(&summary).expect("a summary holds only numbers and strings");
        json["path"] = serde_json::json!(out);
        return say(&format!("{json}\n"));
    }
    if args.report.quiet {
        return Ok(());
    }
    tell_notes(false, &summary.notes);
    say(&format!(
        "{}: {} of {}, {}; {} inlined\n",
        out.display(),
        count(summary.chunks, "chunk"),
        count(summary.arrays, "array"),
        decimal(summary.bytes),
        summary.arrays_inlined,
    ))
}
