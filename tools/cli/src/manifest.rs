//! `shardwright manifest`: where a dataset's chunks lie, for readers that go by references.

use std::path::{Path, PathBuf};

use shardwright::Error;
use shardwright::offline::{ManifestOptions, ManifestSummary, WriteManifest, manifest_path};
use shardwright::words::count;

use crate::args::ManifestArgs;
use crate::console::{say, tell_notes};
use crate::failure::{Failure, name_options};
use crate::interrupt;
use crate::place::refuse_unusable_folder;
use crate::report::decimal;

/// Runs the command.
pub(crate) fn run(args: &ManifestArgs) -> Result<(), Failure> {
    let (out, options) = asked(args)?;
    let manifest = WriteManifest::new(&args.path, Some(&out), &options).map_err(|error| about(error, &args.path))?;
    let mut summary = interrupt::stopping_whole(|| manifest.stop(), || manifest.run())?;
    name_options(&mut summary.notes);
    if args.report.json {
        let mut json = serde_json::to_value(&summary).expect("a summary holds only numbers and strings");
        json["path"] = serde_json::json!(out);
        return say(&format!("{json}\n"));
    }
    if args.report.quiet {
        return Ok(());
    }
    tell_notes(false, &summary.notes);
    say(&format!("{}: {}\n", out.display(), sentence(&summary)))
}

/// Where the manifests go, and what the command line asks for.
pub(crate) fn asked(args: &ManifestArgs) -> Result<(PathBuf, ManifestOptions), Failure> {
    let out = args.output.clone().unwrap_or_else(|| manifest_path(&args.path));
    refuse_unusable_folder(&out)?;
    let options = ManifestOptions {
        url_prefix: args.url_prefix.clone(),
        forms: args.forms.clone(),
        inline_chunks: args.inline,
        kerchunk_zarr_format: args.zarr_format,
        overwrite: args.overwrite,
    };
    Ok((out, options))
}

/// What was written.
pub(crate) fn sentence(summary: &ManifestSummary) -> String {
    format!(
        "{} of {}, {}; {} inlined",
        count(summary.chunks, "chunk"),
        count(summary.arrays, "array"),
        decimal(summary.bytes),
        summary.arrays_inlined,
    )
}

/// What is in the place of the manifests is in the way; what is in the dataset is its input.
pub(crate) fn about(error: Error, dataset: &Path) -> Failure {
    let is_input = |path: &Path| dataset.canonicalize().is_ok_and(|dataset| path.starts_with(dataset));
    match &error {
        Error::Format { path, .. } | Error::Conflict { path, .. } if !is_input(path) => Failure::of_output(error),
        _ => error.into(),
    }
}
